/* A step of the search with 32 nodes at a time: their least costs and the edges that have them
 * stay in registers.
 *
 * Decoding takes the symbols of rows r and r + 8 of a tile, which are `bits` words: a state lies in
 * two words that follow each other, which two permutations bring into a lane. */
#include <math.h>

#include "kernels/exl3.h"
#include "kernels/x86/gemv_avx2.h"

#ifdef __AVX2__

enum {
    LANES = 8,
    BLOCKS = 4,
    NODES = LANES * BLOCKS,
    TILE = PARE_EXL3_TILE,
    AHEAD = 4096 /* bytes of prefetch distance */
};

/* --- search ----------------------------------------------------------------------------------- */

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
    PARE_EXL3_OF_WIDTH(bits, step, after, from, before, value, x);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Where the states of eight columns lie, and the shifts of their two words. */
typedef struct places {
    __m256i word, up, down;
} places;

/* The words of rows r and r + 8 of a tile, and the same from one word before. */
typedef struct words {
    __m256i at, before;
} words;

/* Columns 8 half .. 8 half + 7 of a row, or of the one 8 below. */
PARE_INLINE places places_of(unsigned half, unsigned below, unsigned bits)
{
    const __m256i position =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 8, 9, 16, 17, 24, 25),
                         _mm256_set1_epi32((int32_t)(2 * half + 4 * below + 1)));
    const __m256i last = _mm256_sub_epi32(
        _mm256_mullo_epi32(position, _mm256_set1_epi32((int32_t)bits)), _mm256_set1_epi32(1));
    const __m256i down = _mm256_andnot_si256(last, _mm256_set1_epi32(31));
    return (places){_mm256_srli_epi32(last, 5), _mm256_sub_epi32(_mm256_set1_epi32(32), down),
                    down};
}

PARE_INLINE words words_of(const uint8_t *tile, size_t r, unsigned bits)
{
    const size_t size = 4 * (size_t)bits;
    int32_t last;
    memcpy(&last, tile + (r ? r : 8) * size - sizeof last, sizeof last);
    const __m256i at =
        _mm256_maskload_epi32((const int32_t *)(const void *)(tile + r * size), mask_first(bits));
    const __m256i up = _mm256_permutevar8x32_epi32(at, _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6));
    return (words){at, _mm256_blend_epi32(up, _mm256_set1_epi32(last), 1)};
}

/* pare_exl3_value of the states; the sum of the bytes times a is exact, plus 1024 a + b as well.
 * It rounds to the 11 bits of F16, whose subnormals do not occur, by Dekker's splitting. */
PARE_INLINE __m256 values_at(const words *of, const places *at)
{
    const __m256i high =
        _mm256_sllv_epi32(_mm256_permutevar8x32_epi32(of->before, at->word), at->up);
    const __m256i low = _mm256_srlv_epi32(_mm256_permutevar8x32_epi32(of->at, at->word), at->down);
    const __m256i state = _mm256_and_si256(_mm256_or_si256(high, low), _mm256_set1_epi32(0xffff));
    const __m256i r = _mm256_mullo_epi32(state, _mm256_set1_epi32((int32_t)PARE_EXL3_MULTIPLIER));
    const __m256i sum =
        _mm256_madd_epi16(_mm256_maddubs_epi16(r, _mm256_set1_epi8(1)), _mm256_set1_epi16(1));
    const __m256 exact = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_set1_ps(0x1.bb8p-8F),
                                         _mm256_set1_ps(0x1.bb8p2F - 0x1.4c4p3F));
    const __m256 more = _mm256_mul_ps(exact, _mm256_set1_ps(8193));
    return _mm256_sub_ps(more, _mm256_sub_ps(more, exact));
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    const places at[4] = {places_of(0, 0, bits), places_of(1, 0, bits), places_of(0, 1, bits),
                          places_of(1, 1, bits)};
    const uint8_t *tile = w->codes;
    for (size_t row = 0; row < w->n; row += TILE)
        for (size_t k = 0; k < w->k; k += TILE, tile += pare_exl3_tile_bytes(bits))
            for (size_t r = 0; r < 8; r++) {
                const words of = words_of(tile, r, bits);
                float *const to = dst + (row + r) * ldd + k;
                for (size_t i = 0; i < 4; i++)
                    _mm256_storeu_ps(to + i / 2 * 8 * ldd + i % 2 * 8, values_at(&of, &at[i]));
            }
}

/* acc[r] += the first n columns of row r of a tile times x. */
PARE_INLINE void add_tile(__m256 acc[TILE], const float *x, size_t n, const uint8_t *tile,
                          const places at[4], unsigned bits)
{
    for (size_t r = 0; r < 8; r++) {
        const words of = words_of(tile, r, bits);
        for (size_t i = 0; i < 2; i++) {
            __m256 *const sum = &acc[r + 8 * i];
            *sum = add_8(*sum, x, values_at(&of, &at[2 * i]), n);
            if (n > 8)
                *sum = add_8(*sum, x + 8, values_at(&of, &at[2 * i + 1]), n - 8);
        }
    }
}

PARE_INLINE void gemv(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    const places at[4] = {places_of(0, 0, bits), places_of(1, 0, bits), places_of(0, 1, bits),
                          places_of(1, 1, bits)};
    const size_t size = pare_exl3_tile_bytes(bits);
    for (size_t row = 0; row < w->n; row += TILE) {
        const uint8_t *tile = w->codes + row / TILE * (w->k / TILE) * size;
        __m256 acc[TILE];
        for (size_t r = 0; r < TILE; r++)
            acc[r] = _mm256_setzero_ps();
        for (size_t j = 0; j < k; j += TILE, tile += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(tile + line, AHEAD);
            /* Whole tiles on their own: their loop is free of masks. */
            if (k - j >= TILE)
                add_tile(acc, x + j, TILE, tile, at, bits);
            else
                add_tile(acc, x + j, k - j, tile, at, bits);
        }
        for (size_t r = 0; r < TILE; r++)
            y[row + r] = lane_sum(acc[r]);
    }
}

void pare_dequant_exl3_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, decode, dst, ldd, w);
}

void pare_gemv_exl3_avx2(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, gemv, y, x, k, w);
}

#endif
