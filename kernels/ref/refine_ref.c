#include "kernels/refine_steps.h"

#include <string.h>

#include "kernels/kernels_internal.h"

enum { LANES = 8 };

static float weigh(const float *restrict o, const float *restrict g)
{
    float part[LANES] = {0}, sum = 0;
    for (size_t l = 0; l < PARE_COUPLED; l += LANES)
        for (size_t i = 0; i < LANES; i++)
            part[i] += o[l + i] * g[l + i];
    for (size_t i = 0; i < LANES; i++)
        sum += part[i];
    return sum;
}

/* True when a step is not 0. */
static bool couple_column(const pare_couple *s, size_t at, float h, float top, float *step)
{
    float x[PARE_COUPLED];
    bool moved = false;
    memcpy(x, s->g + at, sizeof x);
    for (size_t r = 0; r < PARE_COUPLED; r++) {
        const float *const o = s->o + r * PARE_COUPLED;
        step[r] = 0;
        if (s->free[at + r] == 0)
            continue;
        const float slope = weigh(o, x), bend = o[r] * h, old = s->code[at + r];
        const float t = pare_next_code(old, slope / (bend * s->scale[r]), top);
        const float d = (t - old) * s->scale[r];
        s->gain[r] -= (double)d * (2 * (double)slope + (double)d * (double)bend);
        s->code[at + r] = t;
        step[r] = d;
        x[r] += d * h;
        moved = moved || d != 0;
    }
    return moved;
}

void pare_couple_codes_ref(const pare_couple *strip, size_t strips, size_t column, const float *h,
                           size_t n, float top)
{
    float step[PARE_COUPLED];
    for (const pare_couple *s = strip; s < strip + strips; s++) {
        if (!couple_column(s, column * PARE_COUPLED, h[column], top, step))
            continue;
        for (size_t i = 0; i < n; i++)
            for (size_t r = 0; r < PARE_COUPLED; r++)
                s->g[i * PARE_COUPLED + r] += step[r] * h[i];
    }
}

pare_slope pare_scale_slope_ref(const double *g, const float *c, const float *p, const float *o,
                                size_t r, size_t n)
{
    double dot[PARE_COUPLED] = {0};
    pare_slope sum = {0};
    for (size_t j = 0; j < n; j++) {
        for (size_t l = 0; l < PARE_COUPLED; l++)
            dot[l] += g[j * PARE_COUPLED + l] * (double)c[j];
        sum.bend -= (double)p[j] * (double)c[j];
    }
    for (size_t l = 0; l < PARE_COUPLED; l++)
        sum.slope += o[l] != 0 ? (double)o[l] / (double)o[r] * dot[l] : 0;
    return sum;
}
