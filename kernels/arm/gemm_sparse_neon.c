/* One weight meets eight tokens at a time; a token that is left over runs alone. */
#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <math.h>

PARE_INLINE float half_value(uint16_t h)
{
    return vgetq_lane_f32(vcvt_f32_f16(vreinterpret_f16_u16(vdup_n_u16(h))), 0);
}

/* One token. */
static void token(float *y, const float *x, const uint32_t *start, const uint32_t *column,
                  const uint16_t *value, size_t n)
{
    for (size_t r = 0; r < n; r++) {
        float acc = y[r];
        for (size_t i = start[r]; i < start[r + 1]; i++)
            acc = fmaf(x[column[i]], half_value(value[i]), acc);
        y[r] = acc;
    }
}

/* Eight tokens. */
static void tokens(float *y, size_t ldy, const float *x, size_t ldx, const uint32_t *start,
                   const uint32_t *column, const uint16_t *value, size_t n)
{
    for (size_t r = 0; r < n; r++) {
        if (start[r] == start[r + 1])
            continue;
        float lane[8];
        for (size_t t = 0; t < 8; t++)
            lane[t] = y[t * ldy + r];
        f32x8 acc = load_8(lane);
        for (size_t i = start[r]; i < start[r + 1]; i++) {
            const float *const at = x + column[i];
            const float32x4_t lo = {at[0], at[ldx], at[2 * ldx], at[3 * ldx]};
            const float32x4_t hi = {at[4 * ldx], at[5 * ldx], at[6 * ldx], at[7 * ldx]};
            acc = fma_8((f32x8){lo, hi}, set1_8(half_value(value[i])), acc);
        }
        store_8(lane, acc);
        for (size_t t = 0; t < 8; t++)
            y[t * ldy + r] = lane[t];
    }
}

void pare_gemm_sparse_f32_neon(float *y, size_t ldy, const float *x, size_t ldx,
                               const uint32_t *start, const uint32_t *column, const uint16_t *value,
                               size_t m, size_t n)
{
    size_t t = 0;
    for (; t + 8 <= m; t += 8)
        tokens(y + t * ldy, ldy, x + t * ldx, ldx, start, column, value, n);
    for (; t < m; t++)
        token(y + t * ldy, x + t * ldx, start, column, value, n);
}

#endif
