/* One token times weights that are decoded in registers: a row block at a time, one accumulator of
 * eight lanes for each of its rows. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include "kernels/x86/decode_avx2.h"

enum { AHEAD = 4096 /* bytes of prefetch distance */ };

/* Eight columns from x on, of which the first n count; a lane without a column keeps its value. */
PARE_INLINE __m256 add_8(__m256 acc, const float *x, __m256 w, size_t n)
{
    if (n >= 8)
        return _mm256_fmadd_ps(_mm256_loadu_ps(x), w, acc);
    const __m256i mask = mask_first(n);
    const __m256 sum = _mm256_fmadd_ps(_mm256_maskload_ps(x, mask), w, acc);
    return _mm256_blendv_ps(acc, sum, _mm256_castsi256_ps(mask));
}

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
            values_16(v, (const __m256i(*)[4])half, &row[r], r, h, kd, bits == 4);
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
            if (kd == PARE_DECODE_SUPER)
                super_values(values, w, row * groups + j / w->group * PARE_ATOM_N,
                             row / PARE_ATOM_N * (w->k / PARE_ATOM_K) + j / PARE_ATOM_K, bits);
            else if (j % w->group == 0)
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
            gemv(y, x, k, w, 4, level, PARE_DECODE_TABLE);
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
            gemv(y, x, k, w, 4, NULL, PARE_DECODE_SUPER);
        else
            gemv(y, x, k, w, 6, NULL, PARE_DECODE_SUPER);
        return;
    }
}

#endif
