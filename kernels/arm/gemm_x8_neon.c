/* Products of 4-bit codes and activations are at most 15 * 127, so that 16 bits hold the sums of
 * 17; a lane takes one of each word, 16 for two atoms. Those of 2 and 3 bits are added over four
 * atoms. 8-bit ones, at most 128 * 127, are widened after two. */
#include "kernels/arm/gemm_x8_internal.h"

#ifdef __aarch64__

/* Word l of 16 activation codes, four times. */
PARE_INLINE void words_of(int8x16_t q[4], const int8_t *x)
{
    const int32x4_t v = vreinterpretq_s32_s8(vld1q_s8(x));
    q[0] = vreinterpretq_s8_s32(vdupq_laneq_s32(v, 0));
    q[1] = vreinterpretq_s8_s32(vdupq_laneq_s32(v, 1));
    q[2] = vreinterpretq_s8_s32(vdupq_laneq_s32(v, 2));
    q[3] = vreinterpretq_s8_s32(vdupq_laneq_s32(v, 3));
}

/* s[i] has two rows: products of their 4 columns. */
PARE_INLINE void add_words(int16x8_t s[4], int8x16_t const v[2], int8x16_t q)
{
    for (size_t h = 0; h < 2; h++) {
        s[2 * h] = vmlal_s8(s[2 * h], vget_low_s8(v[h]), vget_low_s8(q));
        s[2 * h + 1] = vmlal_high_s8(s[2 * h + 1], v[h], q);
    }
}

/* 2 to 4 bits: d[t] += `atoms` atoms, so few that 16 bits hold the sums. */
PARE_INLINE void narrow_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                            size_t ldx, unsigned bits, size_t mt)
{
    int16x8_t s[MT][4];
    for (size_t t = 0; t < mt; t++)
        for (size_t i = 0; i < 4; i++)
            s[t][i] = vdupq_n_s16(0);
    for (; atoms > 0; atoms--, atom += pare_atom_bytes(bits), x += PARE_ATOM_K)
        for (size_t half = 0; half < 2; half++) {
            int8x16_t v[4][2], q[4];
            unpack_16(v, atom, half, bits);
            for (size_t t = 0; t < mt; t++) {
                words_of(q, x + t * ldx + 16 * half);
                for (size_t l = 0; l < 4; l++)
                    add_words(s[t], v[l], q[l]);
            }
        }
    for (size_t t = 0; t < mt; t++)
        for (size_t h = 0; h < 2; h++)
            d[t][h] = vaddq_s32(d[t][h],
                                vpaddq_s32(vpaddlq_s16(s[t][2 * h]), vpaddlq_s16(s[t][2 * h + 1])));
}

/* 8 bits: lanes of s have pairs of columns of two rows. */
PARE_INLINE void wide_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                          size_t ldx, size_t mt)
{
    int32x4_t s[MT][4];
    for (size_t t = 0; t < mt; t++)
        for (size_t i = 0; i < 4; i++)
            s[t][i] = vdupq_n_s32(0);
    for (size_t half = 0; half < 2 * atoms; half++) {
        int8x16_t v[4][2], q[4];
        unpack_16(v, atom, half, 8);
        for (size_t t = 0; t < mt; t++) {
            words_of(q, x + t * ldx + 16 * half);
            for (size_t l = 0; l < 4; l += 2) {
                int16x8_t p[4] = {vmull_s8(vget_low_s8(v[l][0]), vget_low_s8(q[l])),
                                  vmull_high_s8(v[l][0], q[l]),
                                  vmull_s8(vget_low_s8(v[l][1]), vget_low_s8(q[l])),
                                  vmull_high_s8(v[l][1], q[l])};
                add_words(p, v[l + 1], q[l + 1]);
                for (size_t i = 0; i < 4; i++)
                    s[t][i] = vpadalq_s16(s[t][i], p[i]);
            }
        }
    }
    for (size_t t = 0; t < mt; t++)
        for (size_t h = 0; h < 2; h++)
            d[t][h] = vpaddq_s32(s[t][2 * h], s[t][2 * h + 1]);
}

PARE_INLINE void group_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                           size_t ldx, unsigned bits, size_t mt)
{
    const size_t most = bits == 4 ? 2 : 4;
    if (bits == 8) {
        wide_dot(d, atom, atoms, x, ldx, mt);
        return;
    }
    for (size_t t = 0; t < mt; t++)
        d[t][0] = d[t][1] = vdupq_n_s32(0);
    for (size_t i = 0; i < atoms; i += most)
        narrow_dot(d, atom + i * pare_atom_bytes(bits), atoms - i < most ? atoms - i : most,
                   x + i * PARE_ATOM_K, ldx, bits, mt);
}

#define TILES(bits)                                                                                \
    PARE_X8_TILE(bits, 1)                                                                          \
    PARE_X8_TILE(bits, 2)                                                                          \
    PARE_X8_TILE(bits, 3)                                                                          \
    PARE_X8_TILE(bits, 4)                                                                          \
    static tile_fn *const tiles_q##bits[4] = {tile_q##bits##_1, tile_q##bits##_2,                  \
                                              tile_q##bits##_3, tile_q##bits##_4};

// clang-format off
TILES(2)
TILES(3)
TILES(4)
TILES(8)
PARE_X8_KERNELS(neon, 4)
// clang-format on

#endif
