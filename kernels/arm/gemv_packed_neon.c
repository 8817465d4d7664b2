/* One token times weights that are decoded in registers: a row block at a time, one accumulator of
 * eight lanes for each of its rows. */
#include "kernels/arm/decode_neon.h"
#include "kernels/arm/gemv_neon.h"

#ifdef __aarch64__

enum { AHEAD = 1024 /* bytes of prefetch distance */ };

/* acc[r] += the first n columns of an atom times x; row: of both halves of it. */
PARE_INLINE void add_atom(f32x8 acc[PARE_ATOM_N], const float *x, size_t n, const uint8_t *atom,
                          unsigned bits, const row_values *const row[2], const uint8_t *salient,
                          pare_decoding kd)
{
    for (size_t h = 0; h < 2 && 16 * h < n; h++) {
        uint8x16_t u[8];
        code_rows(u, atom, h, bits, salient ? salient + 16 * h : NULL);
        for (size_t r = 0; r < PARE_ATOM_N; r++) {
            const f32x16 w = values_16(u[r], &row[h][r], kd);
            acc[r] = add_8(acc[r], x + 16 * h, w.v[0], w.v[1], n - 16 * h);
            if (n > 16 * h + 8)
                acc[r] = add_8(acc[r], x + 16 * h + 8, w.v[2], w.v[3], n - 16 * h - 8);
        }
    }
}

/* level [16]: of a table; halves: with groups of 16 columns. */
PARE_INLINE void gemv(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits,
                      const float *level, pare_decoding kd, bool halves)
{
    const size_t groups = (w->k + w->group - 1) / w->group, size = pare_atom_bytes(bits);
    const uint8_t *const salient = kd == PARE_DECODE_BINARY ? w->salient : NULL, *atom = w->codes;
    uint8_t shared[4][16] = {{0}};
    if (kd == PARE_DECODE_TABLE)
        planes_of_floats(shared, level);
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        row_values values[2][8];
        const row_values *const of_half[2] = {values[0], values[halves ? 1 : 0]};
        uint8_t own[8][4][16] = {{{0}}};
        f32x8 acc[PARE_ATOM_N];
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            acc[r] = set1_8(0.0f);
        if (kd == PARE_DECODE_BOOK)
            book_levels(own, w->book + (row << bits), bits);
        for (size_t j = 0; j < w->k; j += PARE_ATOM_K, atom += size) {
            for (size_t line = 0; line < size; line += 64)
                __builtin_prefetch(atom + AHEAD + line);
            const size_t g = row * groups + j / w->group * PARE_ATOM_N;
            if (j % w->group == 0)
                group_values(values[0], own, shared, w, g, bits, kd);
            if (halves)
                group_values(values[1], own, shared, w, g + PARE_ATOM_N, bits, kd);
            /* Whole atoms on their own: their loop is free of masks. */
            const uint8_t *const s = salient ? salient + j : NULL;
            if (k >= j + PARE_ATOM_K)
                add_atom(acc, x + j, PARE_ATOM_K, atom, bits, of_half, s, kd);
            else if (k > j)
                add_atom(acc, x + j, k - j, atom, bits, of_half, s, kd);
        }
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            y[row + r] = lane_sum(acc[r]);
    }
}

static void gemv_uniform(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    switch (bits) {
    case 2: gemv(y, x, k, w, 2, NULL, PARE_DECODE_F32, false); break;
    case 3: gemv(y, x, k, w, 3, NULL, PARE_DECODE_F32, false); break;
    case 4: gemv(y, x, k, w, 4, NULL, PARE_DECODE_F32, false); break;
    default: assert(bits == 8); gemv(y, x, k, w, 8, NULL, PARE_DECODE_F32, false);
    }
}

static void gemv_table(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits,
                       const float *level)
{
    float padded[16] = {0};
    assert(bits == 2 || bits == 4);
    memcpy(padded, level, sizeof *level << bits);
    if (bits == 4 && pare_panel_has_halves(w))
        gemv(y, x, k, w, 4, padded, PARE_DECODE_TABLE, true);
    else if (bits == 4)
        gemv(y, x, k, w, 4, padded, PARE_DECODE_TABLE, false);
    else
        gemv(y, x, k, w, 2, padded, PARE_DECODE_TABLE, false);
}

void pare_gemv_packed_neon(float *y, const float *x, size_t k, const pare_panel *w,
                           pare_decoding how, unsigned bits, const float *level)
{
    switch (how) {
    case PARE_DECODE_F32: gemv_uniform(y, x, k, w, bits); break;
    case PARE_DECODE_TABLE: gemv_table(y, x, k, w, bits, level); break;
    case PARE_DECODE_FP8: gemv(y, x, k, w, 8, NULL, PARE_DECODE_FP8, false); break;
    case PARE_DECODE_BOOK:
        if (bits == 3)
            gemv(y, x, k, w, 3, NULL, PARE_DECODE_BOOK, false);
        else
            gemv(y, x, k, w, 4, NULL, PARE_DECODE_BOOK, false);
        break;
    case PARE_DECODE_BINARY: gemv(y, x, k, w, 2, NULL, PARE_DECODE_BINARY, false); break;
    case PARE_DECODE_SUPER: pare_gemv_packed_ref(y, x, k, w, how, bits, level); break;
    case PARE_DECODE_EXL3: pare_gemv_exl3_neon(y, x, k, w, bits); break;
    }
}

#endif
