#include "solve/nf4.h"

#include <math.h>

#include "kernels/half.h"
#include "kernels/layout.h"

enum { SCALE_ZERO = 128, SCALE_TOP = 255 };

float pare_nf4_scale(float offset, float step, uint8_t code)
{
    const float product = step * (float)((int)code - SCALE_ZERO);
    return pare_f16_to_f32(pare_f32_to_f16(offset + product));
}

/* Index in [n, groups] of a place of the stored plane, or SIZE_MAX in the padding. */
static size_t index_of(const pare_codes *c, size_t place)
{
    const size_t row = place / (c->groups * PARE_ATOM_N) * PARE_ATOM_N + place % PARE_ATOM_N;
    return row < c->n ? row * c->groups + place / PARE_ATOM_N % c->groups : SIZE_MAX;
}

static void quantize_run(pare_codes *c, size_t first, size_t end)
{
    float far = 0;
    for (size_t p = first; p < end; p++) {
        const size_t at = index_of(c, p);
        const float d = at < SIZE_MAX ? fabsf(c->scales[at] - c->scale_offset) : 0;
        far = d > far ? d : far;
    }
    const float step = far / 127;
    c->scale_steps[first / PARE_NF4_SCALES] = step;
    for (size_t p = first; p < end; p++) {
        const size_t at = index_of(c, p);
        if (at == SIZE_MAX)
            continue;
        const float t = step > 0 ? (c->scales[at] - c->scale_offset) / step : 0;
        const float code = rintf(t) + SCALE_ZERO;
        uint8_t q = (uint8_t)(code < 1 ? 1 : code > SCALE_TOP ? SCALE_TOP : code);
        if (signbit(pare_nf4_scale(c->scale_offset, step, q))) /* -0 of a rounded product, too */
            q++;
        c->scale_codes[at] = q;
        c->scales[at] = pare_nf4_scale(c->scale_offset, step, q);
    }
}

void pare_nf4_scales(pare_codes *out)
{
    const size_t count = out->n * out->groups;
    const size_t places = pare_round_up(out->n, PARE_PAD_N) * out->groups;
    double sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += (double)out->scales[i];
    out->scale_offset = (float)(sum / (double)(count ? count : 1));
    for (size_t p = 0; p < places; p += PARE_NF4_SCALES)
        quantize_run(out, p, places - p < PARE_NF4_SCALES ? places : p + PARE_NF4_SCALES);
}
