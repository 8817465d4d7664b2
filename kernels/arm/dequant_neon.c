/* Decoding into rows of F32. */
#include "kernels/arm/decode_neon.h"

#ifdef __aarch64__

/* Half an atom of eight rows. */
PARE_INLINE void decode_half(float *dst, size_t ldd, const uint8_t *atom, size_t half,
                             unsigned bits, const row_values row[8], const uint8_t *salient,
                             pare_decoding kd)
{
    uint8x16_t u[8];
    code_rows(u, atom, half, bits, salient);
    for (size_t r = 0; r < PARE_ATOM_N; r++) {
        const f32x16 value = values_16(u[r], &row[r], kd);
        for (size_t i = 0; i < 4; i++)
            vst1q_f32(dst + r * ldd + 4 * i, value.v[i]);
    }
}

/* level [16]: of a table; halves: with groups of 16 columns. */
PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                        const float *level, pare_decoding kd, bool halves)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *const salient = kd == PARE_DECODE_BINARY ? w->salient : NULL, *atom = w->codes;
    uint8_t shared[4][16] = {{0}};
    if (kd == PARE_DECODE_TABLE)
        planes_of_floats(shared, level);
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        row_values values[2][8];
        uint8_t own[8][4][16] = {{{0}}};
        if (kd == PARE_DECODE_BOOK)
            book_levels(own, w->book + (row << bits), bits);
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            const size_t g = row * groups + k / w->group * PARE_ATOM_N;
            if (k % w->group == 0)
                group_values(values[0], own, shared, w, g, bits, kd);
            if (halves)
                group_values(values[1], own, shared, w, g + PARE_ATOM_N, bits, kd);
            float *const to = dst + row * ldd + k;
            decode_half(to, ldd, atom, 0, bits, values[0], salient ? salient + k : NULL, kd);
            decode_half(to + 16, ldd, atom, 1, bits, values[halves ? 1 : 0],
                        salient ? salient + k + 16 : NULL, kd);
        }
    }
}

void pare_dequant_f32_neon(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    switch (bits) {
    case 2: decode(dst, ldd, w, 2, NULL, PARE_DECODE_F32, false); break;
    case 3: decode(dst, ldd, w, 3, NULL, PARE_DECODE_F32, false); break;
    case 4: decode(dst, ldd, w, 4, NULL, PARE_DECODE_F32, false); break;
    default: assert(bits == 8); decode(dst, ldd, w, 8, NULL, PARE_DECODE_F32, false);
    }
}

void pare_dequant_table_neon(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                             const float *level)
{
    float padded[16] = {0};
    assert(bits == 2 || bits == 4);
    memcpy(padded, level, sizeof *level << bits);
    if (bits == 4 && pare_panel_has_halves(w))
        decode(dst, ldd, w, 4, padded, PARE_DECODE_TABLE, true);
    else if (bits == 4)
        decode(dst, ldd, w, 4, padded, PARE_DECODE_TABLE, false);
    else
        decode(dst, ldd, w, 2, padded, PARE_DECODE_TABLE, false);
}

void pare_dequant_fp8_neon(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 8, NULL, PARE_DECODE_FP8, false);
}

void pare_dequant_book_neon(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    assert(bits == 3 || bits == 4);
    if (bits == 3)
        decode(dst, ldd, w, 3, NULL, PARE_DECODE_BOOK, false);
    else
        decode(dst, ldd, w, 4, NULL, PARE_DECODE_BOOK, false);
}

void pare_dequant_binary_neon(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 2, NULL, PARE_DECODE_BINARY, false);
}

#endif
