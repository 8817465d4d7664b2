#include <math.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"
#include "kernels/levels.h"

enum { HALF = PARE_ATOM_K / 2 };

/* A weight: code u of row r and column k, whose row and group have the place g in the planes. */
typedef struct weight {
    unsigned u;
    size_t r, k, g;
} weight;

typedef float value_of(const pare_panel *w, unsigned bits, const float *level, weight at);

/* The place of a row of a row block and of its group at column k. */
static size_t plane_of(const pare_panel *w, size_t row, size_t k)
{
    const size_t groups = (w->k + w->group - 1) / w->group;
    return row / PARE_ATOM_N * PARE_ATOM_N * groups + k / w->group * PARE_ATOM_N +
           row % PARE_ATOM_N;
}

static void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits, const float *level,
                   value_of *value)
{
    const uint8_t *atom = w->codes;
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N)
        for (size_t k = 0; k < w->k; k += PARE_ATOM_K, atom += pare_atom_bytes(bits)) {
            uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
            pare_unpack_atom(u, atom, bits);
            for (size_t r = 0; r < PARE_ATOM_N; r++) {
                const size_t g[2] = {plane_of(w, row + r, k), plane_of(w, row + r, k + HALF)};
                for (size_t j = 0; j < PARE_ATOM_K; j++)
                    dst[(row + r) * ldd + k + j] =
                        value(w, bits, level, (weight){u[r][j], row + r, k + j, g[j / HALF]});
            }
        }
}

static float uniform(const pare_panel *w, unsigned bits, const float *level, weight at)
{
    (void)level;
    const int z = w->zeros ? w->zeros[at.g] : 1 << (bits - 1);
    return (float)((int)at.u - z) * pare_f16_to_f32(w->scales[at.g]);
}

static float of_table(const pare_panel *w, unsigned bits, const float *level, weight at)
{
    (void)bits;
    return level[at.u] * pare_f16_to_f32(w->scales[at.g]);
}

static float of_book(const pare_panel *w, unsigned bits, const float *level, weight at)
{
    (void)level;
    return pare_f16_to_f32(w->book[(at.r << bits) + at.u]);
}

static float binary(const pare_panel *w, unsigned bits, const float *level, weight at)
{
    (void)bits;
    (void)level;
    const uint16_t *const magnitude = w->book + 4 * at.g;
    const float sign = at.u & 1 ? 1.0f : -1.0f, second = at.u & 2 ? 1.0f : -1.0f;
    if (w->salient && w->salient[at.k] & 1)
        return sign * pare_f16_to_f32(magnitude[2]) + second * pare_f16_to_f32(magnitude[3]);
    return sign * pare_f16_to_f32(magnitude[at.u >> 1]);
}

/* s and o, or s of both halves, of a row and 32 columns lie 8 bytes apart. */
static float of_super_block(const pare_panel *w, unsigned bits, const float *level, weight at)
{
    (void)level;
    const size_t atom = at.r / PARE_ATOM_N * (w->k / PARE_ATOM_K) + at.k / PARE_ATOM_K;
    const uint8_t *const sub = w->sub + 2 * PARE_ATOM_N * atom + at.r % PARE_ATOM_N;
    const float scale = pare_f16_to_f32(w->scales[at.g]);
    if (bits == 6) {
        const int s = (int8_t)sub[at.k % PARE_ATOM_K / 16 * PARE_ATOM_N];
        return scale * (float)s * (float)((int)at.u - 32);
    }
    const float least = pare_f16_to_f32(w->minima[at.g]) * (float)sub[PARE_ATOM_N];
    return scale * (float)sub[0] * (float)at.u - least;
}

void pare_dequant_f32_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    decode(dst, ldd, w, bits, NULL, uniform);
}

void pare_dequant_table_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                            const float *level)
{
    decode(dst, ldd, w, bits, level, of_table);
}

void pare_dequant_fp8_ref(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 8, pare_levels_e4m3, of_table);
}

void pare_dequant_book_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    decode(dst, ldd, w, bits, NULL, of_book);
}

void pare_dequant_binary_ref(float *dst, size_t ldd, const pare_panel *w)
{
    decode(dst, ldd, w, 2, NULL, binary);
}

void pare_dequant_super_ref(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    decode(dst, ldd, w, bits, NULL, of_super_block);
}

/* Adds the atom at row and column of the weight `first` to the lanes of its rows. */
static void add_atom(float lane[PARE_ATOM_N][8], const float *x, size_t columns,
                     const pare_panel *w, unsigned bits, const float *level, value_of *value,
                     weight first)
{
    const size_t at = first.r / PARE_ATOM_N * (w->k / PARE_ATOM_K) + first.k / PARE_ATOM_K;
    const size_t g[2] = {plane_of(w, first.r, first.k), plane_of(w, first.r, first.k + HALF)};
    uint8_t u[PARE_ATOM_N][PARE_ATOM_K];
    pare_unpack_atom(u, w->codes + at * pare_atom_bytes(bits), bits);
    for (size_t r = 0; r < PARE_ATOM_N; r++)
        for (size_t j = 0; j < columns; j++) {
            const weight one = {u[r][j], first.r + r, first.k + j, g[j / HALF] + r};
            lane[r][j % 8] = fmaf(x[j], value(w, bits, level, one), lane[r][j % 8]);
        }
}

void pare_gemv_packed_ref(float *y, const float *x, size_t k, const pare_panel *w,
                          pare_decoding how, unsigned bits, const float *level)
{
    static value_of *const values[] = {uniform, of_table, of_table,
                                       of_book, binary,   of_super_block};
    const float *const levels = how == PARE_DECODE_FP8 ? pare_levels_e4m3 : level;
    if (how == PARE_DECODE_EXL3) {
        pare_gemv_exl3_ref(y, x, k, w, bits);
        return;
    }
    for (size_t row = 0; row < w->n; row += PARE_ATOM_N) {
        float lane[PARE_ATOM_N][8] = {{0}};
        for (size_t j = 0; j < k; j += PARE_ATOM_K) {
            add_atom(lane, x + j, k - j < PARE_ATOM_K ? k - j : PARE_ATOM_K, w, bits, levels,
                     values[how], (weight){.r = row, .k = j});
        }
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            y[row + r] = pare_lane_sum(lane[r]);
    }
}
