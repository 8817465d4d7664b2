/* Decoding into rows of F32. */
#include "kernels/x86/avx2_internal.h"

#ifdef __AVX2__
#include "kernels/x86/decode_avx2.h"

/* The 32 columns of an atom of eight rows; halves: they have two steps. */
PARE_INLINE void decode_atom(float *dst, size_t ldd, const uint8_t *atom, unsigned bits,
                             row_values row[8], const uint8_t *salient, pare_decoding kd,
                             bool halves)
{
    __m256i half[2][4];
    atom_halves(half, atom, bits);
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        row[r].salient = salient;
        for (size_t h = 0; h < 2; h++) {
            __m256 v[2];
            values_16(v, (const __m256i(*)[4])half, &row[r], r, h, row[r].step[halves ? h : 0], kd,
                      bits == 4);
            _mm256_storeu_ps(dst + r * ldd + 16 * h, v[0]);
            _mm256_storeu_ps(dst + r * ldd + 16 * h + 8, v[1]);
        }
    }
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                        const float *level, pare_decoding kd, bool halves)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *const salient = kd == PARE_DECODE_BINARY ? w->salient : NULL;
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        row_values values[8];
        float own[8][16] = {{0}};
        if (kd == PARE_DECODE_BOOK)
            book_levels(own, w->book + (row << bits), bits);
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            const size_t g = row * groups + k / w->group * PARE_ATOM_N;
            if (kd == PARE_DECODE_SUPER)
                super_values(values, w, g,
                             row / PARE_ATOM_N * (w->k / PARE_ATOM_K) + k / PARE_ATOM_K, bits);
            else if (halves)
                half_values(values, w, g, level);
            else if (k % w->group == 0)
                group_values(values, own, w, g, bits, level, kd);
            decode_atom(dst + row * ldd + k, ldd, atom, bits, values, salient ? salient + k : NULL,
                        kd, halves);
        }
    }
}

void pare_dequant_f32_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    switch (bits) {
    case 2: decode(dst, ldd, w, 2, NULL, PARE_DECODE_F32, false); break;
    case 3: decode(dst, ldd, w, 3, NULL, PARE_DECODE_F32, false); break;
    case 4: decode(dst, ldd, w, 4, NULL, PARE_DECODE_F32, false); break;
    default: assert(bits == 8); decode(dst, ldd, w, 8, NULL, PARE_DECODE_F32, false);
    }
}

void pare_dequant_table_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                             const float *level)
{
    float padded[8] = {0};
    assert(bits == 2 || bits == 4);
    if (bits == 4) {
        if (pare_panel_has_halves(w))
            decode(dst, ldd, w, 4, level, PARE_DECODE_TABLE, true);
        else
            decode(dst, ldd, w, 4, level, PARE_DECODE_TABLE, false);
        return;
    }
    memcpy(padded, level, 4 * sizeof *level);
    decode(dst, ldd, w, 2, padded, PARE_DECODE_TABLE, false);
}

void pare_dequant_fp8_avx2(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 8, NULL, PARE_DECODE_FP8, false);
}

void pare_dequant_book_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    assert(bits == 3 || bits == 4);
    if (bits == 3)
        decode(dst, ldd, w, 3, NULL, PARE_DECODE_BOOK, false);
    else
        decode(dst, ldd, w, 4, NULL, PARE_DECODE_BOOK, false);
}

void pare_dequant_binary_avx2(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 2, NULL, PARE_DECODE_BINARY, false);
}

void pare_dequant_super_avx2(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    assert(bits == 4 || bits == 6);
    if (bits == 4)
        decode(dst, ldd, w, 4, NULL, PARE_DECODE_SUPER, false);
    else
        decode(dst, ldd, w, 6, NULL, PARE_DECODE_SUPER, true);
}

#endif
