/* kernels/arm/gemm_x8_internal.h - packed weights, int8 activations: what the three levels share.
 *
 * A register holds 4 consecutive k of 4 rows, a block of 8 rows is two of them. A level defines
 * group_dot, which adds the products of one activation group.
 *
 * The zero points come in as -z * (sum of the activation codes). Sums of 32-bit lanes are exact, in
 * any order. */
#ifndef PARE_KERNELS_ARM_GEMM_X8_INTERNAL_H
#define PARE_KERNELS_ARM_GEMM_X8_INTERNAL_H

#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__
#include <assert.h>

enum {
    MT = 6,             /* tokens of a register tile, at most */
    BLOCK = 128 * 1024, /* bytes of codes that stay in the second-level cache for all tokens */
    AHEAD = 1024,       /* bytes of prefetch distance for one token, where memory is the limit */
};

/* d[t][h] = `atoms` atoms times the codes at x + t * ldx, rows 4 h .. 4 h + 3. The level's. */
PARE_INLINE void group_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                           size_t ldx, unsigned bits, size_t mt);

/* d[t] -= z * sum of the token's codes; 8-bit codes are stored less 128. */
PARE_INLINE void take_zeros(int32x4_t d[MT][2], const uint8_t *zeros, int32_t zero,
                            const int32_t *sums, size_t lds, unsigned bits, size_t mt)
{
    const int32x4_t less = vdupq_n_s32(bits == 8 ? 128 : 0);
    int32x4_t z[2] = {vdupq_n_s32(zero), vdupq_n_s32(zero)};
    if (zero < 0) {
        const uint16x8_t wide = vmovl_u8(vld1_u8(zeros));
        z[0] = vreinterpretq_s32_u32(vmovl_u16(vget_low_u16(wide)));
        z[1] = vreinterpretq_s32_u32(vmovl_high_u16(wide));
    }
    for (size_t h = 0; h < 2; h++)
        for (size_t t = 0; t < mt; t++)
            d[t][h] = vmlaq_n_s32(d[t][h], vsubq_s32(less, z[h]), sums[t * lds]);
}

PARE_INLINE void prefetch_group(const uint8_t *atom, size_t bytes)
{
    for (size_t line = 0; line < bytes; line += 64)
        __builtin_prefetch(atom + AHEAD + line);
}

/* The eight rows from `row` on by the mt tokens from t0 on; zero: of all weights, or -1. */
PARE_INLINE void tile(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                      size_t t0, int32_t zero, unsigned bits, size_t mt)
{
    const size_t size = pare_atom_bytes(bits);
    const size_t xgroups = (x->k + x->group - 1) / x->group;
    const size_t groups = (w->k + w->group - 1) / w->group;
    const uint8_t *atom = w->codes + row / 8 * (w->k / 32) * size;
    const int8_t *const codes = x->codes + t0 * x->k;
    const float *const scales = x->scales + t0 * xgroups;
    const int32_t *const sums = x->sums + t0 * xgroups;
    f32x8 acc[MT];
    for (size_t t = 0; t < mt; t++)
        acc[t] = set1_8(0.0f);
    for (size_t b = 0, k = 0; b < xgroups; b++) {
        const size_t g = row * groups + k / w->group * 8;
        const size_t width = x->k - k < x->group ? x->k - k : x->group, atoms = width / PARE_ATOM_K;
        int32x4_t d[MT][2];
        if (mt == 1)
            prefetch_group(atom, atoms * size);
        group_dot(d, atom, atoms, codes + k, x->k, bits, mt);
        take_zeros(d, zero < 0 ? w->zeros + g : NULL, zero, sums + b, xgroups, bits, mt);
        const f32x8 s = load_scales(w->scales + g);
        for (size_t t = 0; t < mt; t++) {
            const float of_x = scales[t * xgroups + b];
            const f32x8 sum = {vcvtq_f32_s32(d[t][0]), vcvtq_f32_s32(d[t][1])},
                        st = {vmulq_n_f32(s.lo, of_x), vmulq_n_f32(s.hi, of_x)};
            acc[t] = fma_8(sum, st, acc[t]);
        }
        k += width;
        atom += atoms * size;
    }
    for (size_t t = 0; t < mt; t++)
        store_8(y + (t0 + t) * ldy + row, acc[t]);
}

/* One function per width and number of tokens, so that both are constants inside. */
typedef void tile_fn(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, size_t row,
                     size_t t0, int32_t zero);

/* tiles[i] computes i + 1 tokens, i < most. A block of rows stays in cache while all tokens pass.
 */
PARE_INLINE void gemm(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w, unsigned bits,
                      int32_t zero, tile_fn *const *tiles, size_t most)
{
    assert(x->k == w->k && w->n % PARE_ATOM_N == 0);
    assert(w->group % x->group == 0 || w->group >= w->k);
    const size_t row_bytes = w->k / 8 * bits + 1;
    const size_t rows = pare_round_up(BLOCK / row_bytes + 1, PARE_ATOM_N);
    for (size_t r0 = 0; r0 < w->n; r0 += rows) {
        const size_t end = w->n - r0 < rows ? w->n : r0 + rows;
        for (size_t t = 0; t < x->m; t += most) {
            tile_fn *const fn = tiles[x->m - t < most ? x->m - t - 1 : most - 1];
            for (size_t row = r0; row < end; row += PARE_ATOM_N)
                fn(y, ldy, x, w, row, t, zero);
        }
    }
}

#define PARE_X8_TILE(bits, mt)                                                                     \
    static void tile_q##bits##_##mt(float *y, size_t ldy, const pare_x8 *x, const pare_panel *w,   \
                                    size_t row, size_t t0, int32_t zero)                           \
    {                                                                                              \
        tile(y, ldy, x, w, row, t0, zero, bits, mt);                                               \
    }

/* The kernels of a level out of its tiles `tiles_qB`, which have up to `most` tokens. */
#define PARE_X8_KERNEL(name, bits, level, zero, most)                                              \
    void pare_gemm_x8_##name##_##level(float *y, size_t ldy, const pare_x8 *x,                     \
                                       const pare_panel *w)                                        \
    {                                                                                              \
        gemm(y, ldy, x, w, bits, zero, tiles_q##bits, most);                                       \
    }
#define PARE_X8_KERNELS(level, most)                                                               \
    PARE_X8_KERNEL(q2, 2, level, w->zeros ? -1 : 2, most)                                          \
    PARE_X8_KERNEL(q3, 3, level, w->zeros ? -1 : 4, most)                                          \
    PARE_X8_KERNEL(q4, 4, level, w->zeros ? -1 : 8, most)                                          \
    PARE_X8_KERNEL(q8, 8, level, w->zeros ? -1 : 128, most)                                        \
    PARE_X8_KERNEL(t2, 2, level, 1, most)

#endif

#endif
