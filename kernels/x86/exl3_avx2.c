/* A step of the search with 32 nodes at a time: their least costs and the edges that have them
 * stay in registers. */
#include <assert.h>
#include <math.h>

#include "kernels/exl3.h"
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__

enum { LANES = 8, BLOCKS = 4, NODES = LANES * BLOCKS };

/* The costs of the nodes that the states `state` .. state + 7 leave. */
PARE_INLINE __m256 costs_before(const float *before, size_t state, unsigned bits)
{
    const float *const cost = before + (state >> bits);
    if (bits >= 3)
        return _mm256_set1_ps(*cost);
    if (bits == 2)
        return _mm256_permutevar_ps(
            _mm256_castpd_ps(_mm256_broadcast_sd((const double *)(const void *)cost)),
            _mm256_setr_epi32(0, 0, 0, 0, 1, 1, 1, 1));
    return _mm256_permutevar_ps(_mm256_broadcast_ps((const __m128 *)(const void *)cost),
                                _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3));
}

/* Numbers below 256 in 32-bit lanes as bytes. */
PARE_INLINE __m256i narrow(const __m256i v[BLOCKS])
{
    const __m256i bytes =
        _mm256_packus_epi16(_mm256_packus_epi32(v[0], v[1]), _mm256_packus_epi32(v[2], v[3]));
    return _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

PARE_INLINE void step(float *after, uint8_t *from, const float *before, const float *value,
                      float target, unsigned bits)
{
    const size_t nodes = (size_t)PARE_EXL3_STATES >> bits, edges = (size_t)1 << bits;
    const __m256 x = _mm256_set1_ps(target);
    for (size_t i = 0; i < nodes; i += NODES) {
        __m256 least[BLOCKS];
        __m256i best[BLOCKS], edge = _mm256_setzero_si256();
        for (size_t b = 0; b < BLOCKS; b++) {
            least[b] = _mm256_set1_ps(INFINITY);
            best[b] = edge;
        }
        for (size_t t = 0; t < edges; t++) {
#pragma GCC unroll 4
            for (size_t b = 0; b < BLOCKS; b++) {
                const size_t state = t * nodes + i + LANES * b;
                const __m256 d = _mm256_sub_ps(x, _mm256_loadu_ps(value + state));
                const __m256 cost = _mm256_fmadd_ps(d, d, costs_before(before, state, bits));
                const __m256 smaller = _mm256_cmp_ps(cost, least[b], _CMP_LT_OQ);
                least[b] = _mm256_min_ps(cost, least[b]); /* of equal ones, or with a NaN, least */
                best[b] = _mm256_blendv_epi8(best[b], edge, _mm256_castps_si256(smaller));
            }
            edge = _mm256_add_epi32(edge, _mm256_set1_epi32(1));
        }
        for (size_t b = 0; b < BLOCKS; b++)
            _mm256_storeu_ps(after + i + LANES * b, least[b]);
        _mm256_storeu_si256((__m256i *)(void *)(from + i), narrow(best));
    }
}

void pare_exl3_step_avx2(float *after, uint8_t *from, const float *before, const float *value,
                         float x, unsigned bits)
{
    switch (bits) {
    case 1: step(after, from, before, value, x, 1); return;
    case 2: step(after, from, before, value, x, 2); return;
    case 3: step(after, from, before, value, x, 3); return;
    case 4: step(after, from, before, value, x, 4); return;
    case 5: step(after, from, before, value, x, 5); return;
    case 6: step(after, from, before, value, x, 6); return;
    case 7: step(after, from, before, value, x, 7); return;
    default: assert(bits == 8); step(after, from, before, value, x, 8);
    }
}

#endif
