/* A step of the search with 128 nodes at a time: their least costs stay in registers, and which
 * edge has it is a byte for each node, replaced under a mask of 64. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/vnni_internal.h"

#ifdef PARE_VNNI
#include <assert.h>
#include <math.h>

#include "kernels/exl3.h"

enum { LANES = 16, HALF = 4 * LANES, NODES = 2 * HALF };

/* The costs of the nodes that the states `state` .. state + 15 leave; place: lane >> bits. */
PARE_INLINE __m512 costs_before(const float *before, size_t state, unsigned bits, __m512i place)
{
    const float *const cost = before + (state >> bits);
    if (bits >= 4)
        return _mm512_set1_ps(*cost);
    const __m512 costs = bits == 1   ? _mm512_castps256_ps512(_mm256_loadu_ps(cost))
                         : bits == 2 ? _mm512_castps128_ps512(_mm_loadu_ps(cost))
                                     : _mm512_castps128_ps512(_mm_castpd_ps(
                                           _mm_load_sd((const double *)(const void *)cost)));
    return _mm512_permutexvar_ps(place, costs);
}

/* least = the smaller ones of it and the costs of 64 edges from `state` on. Returns which of the
 * costs are smaller. */
PARE_INLINE __mmask64 take_smaller(__m512 least[4], const float *before, const float *value,
                                   size_t state, __m512 x, unsigned bits, __m512i place)
{
    __mmask16 smaller[4];
#pragma GCC unroll 4
    for (size_t b = 0; b < 4; b++, state += LANES) {
        const __m512 d = _mm512_sub_ps(x, _mm512_loadu_ps(value + state));
        const __m512 cost = _mm512_fmadd_ps(d, d, costs_before(before, state, bits, place));
        smaller[b] = _mm512_cmp_ps_mask(cost, least[b], _CMP_LT_OQ);
        least[b] = _mm512_min_ps(cost, least[b]); /* of equal ones, or with a NaN, least */
    }
    return _mm512_kunpackd(_mm512_kunpackw(smaller[3], smaller[2]),
                           _mm512_kunpackw(smaller[1], smaller[0]));
}

PARE_INLINE void step(float *after, uint8_t *from, const float *before, const float *value,
                      float target, unsigned bits)
{
    const size_t nodes = (size_t)PARE_EXL3_STATES >> bits, edges = (size_t)1 << bits;
    const __m512 x = _mm512_set1_ps(target);
    const __m512i place = _mm512_srli_epi32(
        _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15), bits);
    for (size_t i = 0; i < nodes; i += NODES) {
        __m512 least[2][4];
        __m512i best[2] = {_mm512_setzero_si512(), _mm512_setzero_si512()};
        __m512i edge = _mm512_setzero_si512();
        for (size_t b = 0; b < 8; b++)
            least[b / 4][b % 4] = _mm512_set1_ps(INFINITY);
        for (size_t t = 0; t < edges; t++) {
            for (size_t h = 0; h < 2; h++) {
                const __mmask64 smaller =
                    take_smaller(least[h], before, value, t * nodes + i + h * HALF, x, bits, place);
                best[h] = _mm512_mask_mov_epi8(best[h], smaller, edge);
            }
            edge = _mm512_add_epi8(edge, _mm512_set1_epi8(1));
        }
        for (size_t b = 0; b < 8; b++)
            _mm512_storeu_ps(after + i + LANES * b, least[b / 4][b % 4]);
        for (size_t h = 0; h < 2; h++)
            _mm512_storeu_si512(from + i + h * HALF, best[h]);
    }
}

void pare_exl3_step_avx512(float *after, uint8_t *from, const float *before, const float *value,
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
