/* kernels/x86/gemm_x8_few_vnni.h - products of packed weights and int8 activations of a few tokens:
 * what dense and 2:4 weights share.
 *
 * Memory is the limit, as for one token: VT vectors of rows are read once, their blocks by turns,
 * and unpacked in registers, where they meet the tokens of a tile. */
#ifndef PARE_KERNELS_X86_GEMM_X8_FEW_VNNI_H
#define PARE_KERNELS_X86_GEMM_X8_FEW_VNNI_H

#include "kernels/x86/gemm_x8_span_vnni.h"

#ifdef PARE_VNNI

enum {
#if PARE_VNNI_BITS == 512
    FT = 8,   /* tokens of a register tile: with VT vectors of rows, 16 of 32 registers */
    FEW = 16, /* tokens; weights that meet more are worth storing unpacked */
#else
    FT = 4, /* 8 of 16 registers */
    FEW = 8,
#endif
    FEW_AHEAD = 2048, /* bytes of prefetch distance in each block */
};

/* A vector of rows: its first block, and how many blocks further the other one is. */
typedef struct place {
    size_t block, next;
} place;

/* VT vectors of rows by the tokens from t0 on. */
typedef struct few {
    const pare_x8 *x;
    const pare_panel *w;
    size_t row, blocks, t0, groups, xgroups;
    place at[VT];
    int z; /* zero point of all weights, or -1 */
} few;

/* Vectors of rows behind the last are the first again; their results are not stored. */
static few few_rows(const pare_x8 *x, const pare_panel *w, size_t row, int z)
{
    few f = {.x = x, .w = w, .row = row, .z = z, .blocks = VT * WIDE};
    if (w->n - row < VT * ROWS)
        f.blocks = (w->n - row) / PARE_ATOM_N;
    f.groups = (w->k + w->group - 1) / w->group;
    f.xgroups = (x->k + x->group - 1) / x->group;
    for (size_t v = 0; v < VT; v++) {
        const size_t first = v * WIDE < f.blocks ? v * WIDE : 0;
        f.at[v] = (place){row / PARE_ATOM_N + first, first + WIDE <= f.blocks ? WIDE - 1 : 0};
    }
    return f;
}

/* Asks for lines behind byte `at` of blocks of that many bytes from `first` on: NEAR bytes behind,
 * and FEW_AHEAD, which near the end of a block is in the blocks of the next rows. */
PARE_INLINE void prefetch_blocks(const uint8_t *first, size_t at, size_t bytes)
{
    size_t ahead = at + FEW_AHEAD;
    if (ahead >= bytes)
        ahead += (VT * WIDE - 1) * bytes;
    for (size_t i = 0; i < VT * WIDE; i++)
        _mm_prefetch((const char *)first + i * bytes + ahead, _MM_HINT_T1);
    for (size_t i = 0; i < VT * WIDE; i++)
        _mm_prefetch((const char *)first + i * bytes + at + NEAR, _MM_HINT_T0);
}

/* Sets d to the sums of columns [k, end), activation group b. */
typedef void few_dot(vec d[FT][VT], const few *f, size_t b, size_t k, size_t end, unsigned bits,
                     size_t mt);

PARE_INLINE void few_tile(float *y, size_t ldy, const few *f, few_dot *dot_of, unsigned bits,
                          size_t mt)
{
    const pare_x8 *const x = f->x;
    vecf acc[FT][VT];
    for (size_t i = 0; i < mt * VT; i++)
        acc[i / VT][i % VT] = V(setzero_ps)();
    for (size_t b = 0, k = 0; k < x->k; b++) {
        const size_t end = x->k - k < x->group ? x->k : k + x->group;
        vec d[FT][VT];
        dot_of(d, f, b, k, end, bits, mt);
        for (size_t v = 0; v < VT; v++) {
            const size_t plane = (f->at[v].block * f->groups + k / f->w->group) * PARE_ATOM_N;
            const vecf s =
                load_scale_blocks(f->w->scales + plane, f->at[v].next * f->groups * PARE_ATOM_N);
            for (size_t t = 0; t < mt; t++) {
                const float xs = x->scales[(f->t0 + t) * f->xgroups + b];
                acc[t][v] =
                    V(fmadd_ps)(V(cvtepi32_ps)(d[t][v]), V(mul_ps)(s, V(set1_ps)(xs)), acc[t][v]);
            }
        }
        k = end;
    }
    store_tokens(y, ldy, f->row, f->blocks, f->t0, f->t0 + mt, acc);
}

/* One function per width and number of tokens, so that both are constants inside. */
typedef void few_fn(float *y, size_t ldy, const few *f);

static void few_tokens(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, int z,
                       few_fn *const fn[FT])
{
    for (size_t row = 0; row < w->n; row += VT * ROWS) {
        few f = few_rows(x, w, row, z);
        for (; f.t0 < x->m; f.t0 += FT)
            fn[x->m - f.t0 < FT ? x->m - f.t0 - 1 : FT - 1](y, ldy, &f);
    }
}

#define FEW_TILE(name, dot_of, bits, mt)                                                           \
    static void few_##name##_##mt(float *y, size_t ldy, const few *f)                              \
    {                                                                                              \
        few_tile(y, ldy, f, dot_of, bits, mt);                                                     \
    }
#define FEW_TILES_4(name, dot_of, bits)                                                            \
    FEW_TILE(name, dot_of, bits, 1)                                                                \
    FEW_TILE(name, dot_of, bits, 2)                                                                \
    FEW_TILE(name, dot_of, bits, 3)                                                                \
    FEW_TILE(name, dot_of, bits, 4)
#if PARE_VNNI_BITS == 512
#define FEW_TILES(name, dot_of, bits)                                                              \
    FEW_TILES_4(name, dot_of, bits)                                                                \
    FEW_TILE(name, dot_of, bits, 5)                                                                \
    FEW_TILE(name, dot_of, bits, 6)                                                                \
    FEW_TILE(name, dot_of, bits, 7)                                                                \
    FEW_TILE(name, dot_of, bits, 8)                                                                \
    static few_fn *const few_##name[FT] = {few_##name##_1, few_##name##_2, few_##name##_3,         \
                                           few_##name##_4, few_##name##_5, few_##name##_6,         \
                                           few_##name##_7, few_##name##_8};
#else
#define FEW_TILES(name, dot_of, bits)                                                              \
    FEW_TILES_4(name, dot_of, bits)                                                                \
    static few_fn *const few_##name[FT] = {few_##name##_1, few_##name##_2, few_##name##_3,         \
                                           few_##name##_4};
#endif
#endif

#endif
