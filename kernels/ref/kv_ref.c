#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"

/* Code of channel c in a row of codes. */
static unsigned code_at(const uint8_t *row, size_t c, unsigned bits)
{
    const size_t at = c % 8 * bits;
    const uint8_t *const p = row + c / 8 * bits + at / 8;
    const unsigned low = p[0], high = at % 8 + bits > 8 ? p[1] : 0;
    return (low | high << 8) >> at % 8 & ((1u << bits) - 1);
}

void pare_kv_decode_ref(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d)
{
    const size_t row_bytes = pare_kv_row_bytes(d, src->bits);
    for (size_t t = 0; t < n; t++)
        for (size_t c = 0; c < d; c++) {
            const size_t at = t * src->ld + c / src->group;
            const unsigned code = code_at(src->codes + t * row_bytes, c, src->bits);
            const float level = src->levels      ? src->levels[code]
                                : src->bits == 8 ? (float)code - 128.0f
                                                 : (float)code;
            const float low = src->lows ? pare_f16_to_f32(src->lows[at]) : 0.0f;
            dst[t * ldd + c] = fmaf(level, pare_f16_to_f32(src->scales[at]), low);
        }
}

void pare_kv_mix_ref(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                     size_t m, size_t n, size_t d)
{
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < n; j++)
            for (size_t c = 0; c < d; c++)
                y[t * ldy + c] = fmaf(p[t * ldp + j], v[j * ldv + c], y[t * ldy + c]);
}
