#include "solve/nvfp4.h"

#include <math.h>

#include "kernels/e4m3.h"

enum { LEAST = -15, MOST = 7 };
#define E4M3_MAX 448.0F

float pare_nvfp4_factor_for(float most)
{
    int e;
    const float m = frexpf(most / E4M3_MAX, &e);
    e -= m == 0.5F;
    return ldexpf(1, most == 0 || e < LEAST ? LEAST : e > MOST ? MOST : e);
}

bool pare_nvfp4_is_factor(float factor)
{
    int e;
    return isfinite(factor) && frexpf(factor, &e) == 0.5F && e - 1 >= LEAST && e - 1 <= MOST;
}

float pare_nvfp4_factor(float most, pare_clip clip)
{
    return pare_nvfp4_factor_for(most / (clip == PARE_CLIP_NONE ? 6.0F : 4.0F));
}

void pare_nvfp4_scales(pare_codes *out)
{
    const size_t count = out->n * out->groups;
    float most = 0;
    for (size_t i = 0; i < count; i++)
        most = out->scales[i] > most ? out->scales[i] : most;
    out->scale_factor = pare_nvfp4_factor_for(most);
    for (size_t i = 0; i < count; i++)
        out->scale_codes[i] = pare_f32_to_e4m3(out->scales[i] / out->scale_factor);
}
