/* A step of the search with 128 nodes at a time: their least costs stay in registers, and which
 * edge has it is a byte for each node, replaced under a mask of 64.
 *
 * Decoding takes the symbols of rows r and r + 8 of a tile, which are `bits` words: a state lies in
 * two halves of words, which one permutation brings into a lane. */
#define PARE_VNNI_BITS 512
#include "kernels/x86/gemv_avx512.h"

#ifdef PARE_VNNI
#include <math.h>

#include "kernels/exl3.h"

enum {
    LANES = 16,
    HALF = 4 * LANES,
    NODES = 2 * HALF,
    TILE = PARE_EXL3_TILE,
    AHEAD = 4096 /* bytes of prefetch distance */
};

/* --- search ----------------------------------------------------------------------------------- */

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
    PARE_EXL3_OF_WIDTH(bits, step, after, from, before, value, x);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Where states lie in words whose last one, lane 15, is that before the first. */
typedef struct places {
    __m512i halves; /* of a word, the first one high */
    __m512i shift;  /* that brings the state down */
} places;

/* Of the weight in row r + 8 below[l], column[l], in lane l. */
PARE_INLINE places places_of(const unsigned below[LANES], const unsigned column[LANES],
                             unsigned bits)
{
    uint32_t halves[LANES], shift[LANES];
    for (unsigned l = 0; l < LANES; l++) {
        const unsigned c = column[l];
        const unsigned position = c % 8 / 2 * 8 + 4 * below[l] + c / 8 * 2 + c % 2;
        const unsigned bit = 32 + (position + 1) * bits - 16, half = bit / 16 + 30;
        halves[l] = ((half ^ 1) % 32) << 16 | ((half + 1) ^ 1) % 32;
        shift[l] = 16 - bit % 16;
    }
    return (places){_mm512_loadu_si512(halves), _mm512_loadu_si512(shift)};
}

/* The words of rows r and r + 8 of a tile. */
PARE_INLINE __m512i words_of(const uint8_t *tile, size_t r, unsigned bits)
{
    const size_t size = 4 * (size_t)bits;
    int32_t before;
    memcpy(&before, tile + (r ? r : 8) * size - sizeof before, sizeof before);
    const __m512i words = _mm512_maskz_loadu_epi32((__mmask16)((1u << bits) - 1), tile + r * size);
    return _mm512_mask_set1_epi32(words, 0x8000, before);
}

/* pare_exl3_value of the states. The sum of the bytes of r joins the mantissa of 2^23; the exact
 * value rounds to the 11 bits of F16, whose subnormals do not occur, by Dekker's splitting. */
PARE_INLINE __m512 values_at(__m512i words, places at)
{
    const __m512i two = _mm512_srlv_epi32(_mm512_permutexvar_epi16(at.halves, words), at.shift);
    const __m512i state = _mm512_and_si512(two, _mm512_set1_epi32(0xffff));
    const __m512i r = _mm512_mullo_epi32(state, _mm512_set1_epi32((int32_t)PARE_EXL3_MULTIPLIER));
    const __m512i sum = _mm512_dpbusd_epi32(_mm512_set1_epi32(0x4b000000), r, _mm512_set1_epi8(1));
    const __m512 exact = _mm512_fmadd_ps(_mm512_castsi512_ps(sum), _mm512_set1_ps(0x1.bb8p-8F),
                                         _mm512_set1_ps(0x1.bb8p2F - 0x1.bb8p15F - 0x1.4c4p3F));
    const __m512 more = _mm512_mul_ps(exact, _mm512_set1_ps(8193));
    return _mm512_sub_ps(more, _mm512_sub_ps(more, exact));
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    unsigned column[LANES], below[2][LANES];
    for (unsigned l = 0; l < LANES; l++) {
        column[l] = l;
        below[0][l] = 0;
        below[1][l] = 1;
    }
    const places upper = places_of(below[0], column, bits);
    const places lower = places_of(below[1], column, bits);
    const uint8_t *tile = w->codes;
    for (size_t row = 0; row < w->n; row += TILE)
        for (size_t k = 0; k < w->k; k += TILE, tile += pare_exl3_tile_bytes(bits))
#pragma GCC unroll 8
            for (size_t r = 0; r < 8; r++) {
                const __m512i words = words_of(tile, r, bits);
                float *const at = dst + (row + r) * ldd + k;
                _mm512_storeu_ps(at, values_at(words, upper));
                _mm512_storeu_ps(at + 8 * ldd, values_at(words, lower));
            }
}

/* acc[r] += the first n columns of rows r and r + 8 of a tile times x. */
PARE_INLINE void add_tile(__m512 acc[8], const float *x, size_t n, const uint8_t *tile, places left,
                          places right, unsigned bits)
{
#pragma GCC unroll 8
    for (size_t r = 0; r < 8; r++) {
        const __m512i words = words_of(tile, r, bits);
        acc[r] = add_8(acc[r], x, values_at(words, left), n);
        if (n > 8)
            acc[r] = add_8(acc[r], x + 8, values_at(words, right), n - 8);
    }
}

PARE_INLINE void gemv(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    const size_t size = pare_exl3_tile_bytes(bits);
    unsigned below[LANES], column[2][LANES];
    for (unsigned l = 0; l < LANES; l++) {
        below[l] = l / 8;
        column[0][l] = l % 8;
        column[1][l] = 8 + l % 8;
    }
    const places left = places_of(below, column[0], bits);
    const places right = places_of(below, column[1], bits);
    for (size_t row = 0; row < w->n; row += TILE) {
        const uint8_t *tile = w->codes + row / TILE * (w->k / TILE) * size;
        __m512 acc[8];
        for (size_t r = 0; r < 8; r++)
            acc[r] = _mm512_setzero_ps();
        for (size_t j = 0; j < k; j += TILE, tile += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(tile + line, AHEAD);
            /* Whole tiles on their own: their loop is free of masks. */
            if (k - j >= TILE)
                add_tile(acc, x + j, TILE, tile, left, right, bits);
            else
                add_tile(acc, x + j, k - j, tile, left, right, bits);
        }
        for (size_t r = 0; r < 8; r++) {
            y[row + r] = lane_sum(_mm512_castps512_ps256(acc[r]));
            y[row + 8 + r] = lane_sum(_mm512_extractf32x8_ps(acc[r], 1));
        }
    }
}

void pare_dequant_exl3_avx512(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, decode, dst, ldd, w);
}

void pare_gemv_exl3_avx512(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, gemv, y, x, k, w);
}

#endif
