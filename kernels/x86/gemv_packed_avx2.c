/* One token times weights that are decoded in registers, a block of eight rows at a time.
 *
 * Super-blocks and tables of 4 bits: a vector is a column of the eight rows, whose codes are
 * shifted to the low bits of their lanes; columns of one remainder by 8, a lane of the sum, share
 * an accumulator, so nothing is transposed.
 *
 * All others: codes are transposed into rows, one accumulator of eight lanes for each of them. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include "kernels/x86/decode_avx2.h"
#include "kernels/x86/gemv_avx2.h"

enum { AHEAD = 4096 /* bytes of prefetch distance */ };

/* --- rows ------------------------------------------------------------------------------------- */

/* acc[r] += the first n columns of an atom times x. */
PARE_INLINE void add_atom(__m256 acc[PARE_ATOM_N], const float *x, size_t n, const uint8_t *atom,
                          unsigned bits, row_values row[8], const uint8_t *salient,
                          pare_decoding kd)
{
    __m256i half[2][4];
    atom_halves(half, atom, bits);
    for (size_t h = 0; h < 2 && 16 * h < n; h++)
        for (size_t r = 0; r < PARE_ATOM_N; r++) {
            __m256 v[2];
            row[r].salient = salient;
            values_16(v, (const __m256i(*)[4])half, &row[r], r, h, row[r].step[0], kd, bits == 4);
            acc[r] = add_8(acc[r], x + 16 * h, v[0], n - 16 * h);
            if (n > 16 * h + 8)
                acc[r] = add_8(acc[r], x + 16 * h + 8, v[1], n - 16 * h - 8);
        }
}

PARE_INLINE void gemv(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits,
                      const float *level, pare_decoding kd)
{
    const size_t groups = (w->k + w->group - 1) / w->group, size = pare_atom_bytes(bits);
    const uint8_t *const salient = kd == PARE_DECODE_BINARY ? w->salient : NULL;
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        row_values values[8];
        float own[8][16] = {{0}};
        __m256 acc[PARE_ATOM_N];
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            acc[r] = _mm256_setzero_ps();
        if (kd == PARE_DECODE_BOOK)
            book_levels(own, w->book + (row << bits), bits);
        for (size_t j = 0; j < w->k; j += PARE_ATOM_K, atom += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(atom + line, AHEAD);
            if (j % w->group == 0)
                group_values(values, own, w, row * groups + j / w->group * PARE_ATOM_N, bits, level,
                             kd);
            /* Whole atoms on their own: their loop is free of masks. */
            const uint8_t *const s = salient ? salient + j : NULL;
            if (k >= j + PARE_ATOM_K)
                add_atom(acc, x + j, PARE_ATOM_K, atom, bits, values, s, kd);
            else if (k > j)
                add_atom(acc, x + j, k - j, atom, bits, values, s, kd);
        }
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            y[row + r] = lane_sum(acc[r]);
    }
}

/* --- columns of eight rows -------------------------------------------------------------------- */

/* What eight rows know about 32 columns: the steps of both halves, and what is taken away where
 * super-blocks have codes of 4 bits. */
typedef struct column_values {
    __m256 step[2], least;
} column_values;

PARE_INLINE column_values values_of(const pare_panel *w, size_t row, size_t j, unsigned bits,
                                    pare_decoding kd, bool halves)
{
    const size_t groups = (w->k + w->group - 1) / w->group, atoms = w->k / PARE_ATOM_K;
    const size_t at = row * groups + j / w->group * PARE_ATOM_N;
    const __m256 scale = load_scales(w->scales + at), none = _mm256_setzero_ps();
    if (kd == PARE_DECODE_TABLE)
        return (column_values){{scale, halves ? load_scales(w->scales + at + PARE_ATOM_N) : scale},
                               none};
    const uint8_t *const sub =
        w->sub + 2 * PARE_ATOM_N * (row / PARE_ATOM_N * atoms + j / PARE_ATOM_K);
    const __m128i a = _mm_loadl_epi64((const __m128i *)(const void *)sub);
    const __m128i b = _mm_loadl_epi64((const __m128i *)(const void *)(sub + PARE_ATOM_N));
    if (bits == 6)
        return (column_values){{_mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a))),
                                _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(b)))},
                               none};
    const __m256 step = _mm256_mul_ps(scale, _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(a)));
    return (column_values){
        {step, step},
        _mm256_mul_ps(load_scales(w->minima + at), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(b)))};
}

/* Bits 4 and 5 of the 6-bit codes of column j, which are an atom of 2-bit ones. */
PARE_INLINE __m256i high_bits(const __m256i high[2], unsigned j)
{
    const int from = (int)(j % 4 * 8 + j % 16 / 4 * 2);
    const __m256i word = high[j / 16];
    return _mm256_and_si256(from < 4 ? _mm256_slli_epi32(word, 4 - from)
                                     : _mm256_srli_epi32(word, from - 4),
                            _mm256_set1_epi32(0x30));
}

/* acc[l] += the first n columns of an atom times x; level: 16 of a table. */
PARE_INLINE void add_columns(__m256 acc[8], const float *x, size_t n, const uint8_t *atom,
                             const __m256 level[2], const column_values *v, unsigned bits,
                             pare_decoding kd)
{
    __m256i word[4], high[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()};
    for (size_t l = 0; l < 4; l++)
        word[l] = load_32(atom + 32 * l);
    for (size_t l = 0; bits == 6 && l < 2; l++)
        high[l] = load_32(atom + 32 * (4 + l));
#pragma GCC unroll 32
    for (unsigned j = 0; j < PARE_ATOM_K; j++) {
        if (j >= n)
            return;
        const __m256i up = _mm256_srli_epi32(word[j % 16 / 4], (int)(j % 4 * 8 + j / 16 * 4));
        __m256 value;
        if (kd == PARE_DECODE_TABLE) {
            const __m256 eighth = _mm256_castsi256_ps(_mm256_slli_epi32(up, 28));
            value = _mm256_blendv_ps(_mm256_permutevar8x32_ps(level[0], up),
                                     _mm256_permutevar8x32_ps(level[1], up), eighth);
            value = _mm256_mul_ps(value, v->step[j / 16]);
        } else {
            __m256i code = _mm256_and_si256(up, _mm256_set1_epi32(15));
            if (bits == 6)
                code = _mm256_sub_epi32(_mm256_or_si256(code, high_bits(high, j)),
                                        _mm256_set1_epi32(32));
            value = _mm256_fmsub_ps(_mm256_cvtepi32_ps(code), v->step[j / 16], v->least);
        }
        acc[j % 8] = _mm256_fmadd_ps(_mm256_set1_ps(x[j]), value, acc[j % 8]);
    }
}

/* halves: columns of tables whose groups have 16. */
PARE_INLINE void gemv_columns(float *y, const float *x, size_t k, const pare_panel *w,
                              unsigned bits, const float *level, pare_decoding kd, bool halves)
{
    const size_t size = pare_atom_bytes(bits);
    const __m256 none = _mm256_setzero_ps();
    const __m256 levels[2] = {level ? _mm256_loadu_ps(level) : none,
                              level ? _mm256_loadu_ps(level + 8) : none};
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        const uint8_t *atom = w->codes + row / PARE_ATOM_N * (w->k / PARE_ATOM_K) * size;
        __m256 acc[8];
        for (size_t l = 0; l < 8; l++)
            acc[l] = none;
        for (size_t j = 0; j < k; j += PARE_ATOM_K, atom += size) {
            for (size_t line = 0; line < size; line += 64)
                prefetch_stream(atom + line, AHEAD);
            const column_values v = values_of(w, row, j, bits, kd, halves);
            if (k - j >= PARE_ATOM_K)
                add_columns(acc, x + j, PARE_ATOM_K, atom, levels, &v, bits, kd);
            else
                add_columns(acc, x + j, k - j, atom, levels, &v, bits, kd);
        }
        for (size_t l = 0; l < 4; l++)
            acc[l] = _mm256_add_ps(acc[l], acc[l + 4]);
        _mm256_storeu_ps(
            y + row, _mm256_add_ps(_mm256_add_ps(acc[0], acc[2]), _mm256_add_ps(acc[1], acc[3])));
    }
}

/* --- all -------------------------------------------------------------------------------------- */

void pare_gemv_packed_avx2(float *y, const float *x, size_t k, const pare_panel *w,
                           pare_decoding how, unsigned bits, const float *level)
{
    float padded[8] = {0};
    switch (how) {
    case PARE_DECODE_F32:
        switch (bits) {
        case 2: gemv(y, x, k, w, 2, NULL, PARE_DECODE_F32); return;
        case 3: gemv(y, x, k, w, 3, NULL, PARE_DECODE_F32); return;
        case 4: gemv(y, x, k, w, 4, NULL, PARE_DECODE_F32); return;
        default:
            assert(bits == 8);
            gemv(y, x, k, w, 8, NULL, PARE_DECODE_F32);
            return;
        }
    case PARE_DECODE_TABLE:
        if (bits == 4) {
            if (pare_panel_has_halves(w))
                gemv_columns(y, x, k, w, 4, level, PARE_DECODE_TABLE, true);
            else
                gemv_columns(y, x, k, w, 4, level, PARE_DECODE_TABLE, false);
            return;
        }
        assert(bits == 2);
        memcpy(padded, level, 4 * sizeof *level);
        gemv(y, x, k, w, 2, padded, PARE_DECODE_TABLE);
        return;
    case PARE_DECODE_FP8: gemv(y, x, k, w, 8, NULL, PARE_DECODE_FP8); return;
    case PARE_DECODE_BOOK:
        if (bits == 3)
            gemv(y, x, k, w, 3, NULL, PARE_DECODE_BOOK);
        else
            gemv(y, x, k, w, 4, NULL, PARE_DECODE_BOOK);
        return;
    case PARE_DECODE_BINARY: gemv(y, x, k, w, 2, NULL, PARE_DECODE_BINARY); return;
    case PARE_DECODE_SUPER:
        if (bits == 4)
            gemv_columns(y, x, k, w, 4, NULL, PARE_DECODE_SUPER, false);
        else
            gemv_columns(y, x, k, w, 6, NULL, PARE_DECODE_SUPER, false);
        return;
    case PARE_DECODE_EXL3: pare_gemv_exl3_avx2(y, x, k, w, bits); return;
    }
}

#endif
