/* One weight meets eight tokens at a time; a token that is left over runs alone. What is gained
 * over the reference is the conversion and the fused step, single instructions here. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

PARE_INLINE __m128 half_value(uint16_t h)
{
    return _mm_cvtph_ps(_mm_cvtsi32_si128(h));
}

/* One token. */
static void token(float *y, const float *x, const uint32_t *start, const uint32_t *column,
                  const uint16_t *value, size_t n)
{
    for (size_t r = 0; r < n; r++) {
        __m128 acc = _mm_load_ss(y + r);
        for (size_t i = start[r]; i < start[r + 1]; i++)
            acc = _mm_fmadd_ss(_mm_load_ss(x + column[i]), half_value(value[i]), acc);
        _mm_store_ss(y + r, acc);
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
        __m256 acc = _mm256_loadu_ps(lane);
        for (size_t i = start[r]; i < start[r + 1]; i++) {
            const float *const at = x + column[i];
            const __m256 v = _mm256_setr_ps(at[0], at[ldx], at[2 * ldx], at[3 * ldx], at[4 * ldx],
                                            at[5 * ldx], at[6 * ldx], at[7 * ldx]);
            acc = _mm256_fmadd_ps(v, _mm256_broadcastss_ps(half_value(value[i])), acc);
        }
        _mm256_storeu_ps(lane, acc);
        for (size_t t = 0; t < 8; t++)
            y[t * ldy + r] = lane[t];
    }
}

void pare_gemm_sparse_f32_avx2(float *y, size_t ldy, const float *x, size_t ldx,
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
