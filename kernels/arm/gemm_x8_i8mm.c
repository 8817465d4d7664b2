/* 2 rows x 8 k meet 2 tokens x 8 k: words side by side are made into them once for all tokens. */
#include "kernels/arm/gemm_x8_internal.h"

#ifdef __ARM_FEATURE_MATMUL_INT8

/* Weights of 16 columns: rows 2 r and 2 r + 1, 8 columns p. */
PARE_INLINE void pair_rows(int8x16_t m[2][4], int8x16_t v[4][2])
{
    for (size_t p = 0; p < 2; p++)
        for (size_t h = 0; h < 2; h++) {
            const int32x4_t a = vreinterpretq_s32_s8(v[2 * p][h]);
            const int32x4_t b = vreinterpretq_s32_s8(v[2 * p + 1][h]);
            m[p][2 * h] = vreinterpretq_s8_s32(vzip1q_s32(a, b));
            m[p][2 * h + 1] = vreinterpretq_s8_s32(vzip2q_s32(a, b));
        }
}

/* Lanes of s: a row with the first token and the second, then the next row. The second of the last
 * of an odd number is the first one again. */
PARE_INLINE void group_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                           size_t ldx, unsigned bits, size_t mt)
{
    int32x4_t s[MT / 2][4];
    for (size_t t = 0; t < mt; t += 2)
        for (size_t r = 0; r < 4; r++)
            s[t / 2][r] = vdupq_n_s32(0);
    for (; atoms > 0; atoms--, atom += pare_atom_bytes(bits), x += PARE_ATOM_K)
        for (size_t half = 0; half < 2; half++) {
            int8x16_t v[4][2], m[2][4];
            unpack_16(v, atom, half, bits);
            pair_rows(m, v);
            for (size_t t = 0; t < mt; t += 2) {
                const size_t other = t + 1 < mt ? t + 1 : t;
                const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x + t * ldx + 16 * half));
                const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x + other * ldx + 16 * half));
                const int8x16_t q[2] = {vreinterpretq_s8_s64(vzip1q_s64(a, b)),
                                        vreinterpretq_s8_s64(vzip2q_s64(a, b))};
                for (size_t p = 0; p < 2; p++)
                    for (size_t r = 0; r < 4; r++)
                        s[t / 2][r] = vmmlaq_s32(s[t / 2][r], m[p][r], q[p]);
            }
        }
    for (size_t t = 0; t < mt; t++)
        for (size_t h = 0; h < 2; h++) {
            const int32x4_t a = s[t / 2][2 * h], b = s[t / 2][2 * h + 1];
            d[t][h] = t % 2 ? vuzp2q_s32(a, b) : vuzp1q_s32(a, b);
        }
}

#define TILES(bits)                                                                                \
    PARE_X8_TILE(bits, 1)                                                                          \
    PARE_X8_TILE(bits, 2)                                                                          \
    PARE_X8_TILE(bits, 3)                                                                          \
    PARE_X8_TILE(bits, 4)                                                                          \
    PARE_X8_TILE(bits, 5)                                                                          \
    PARE_X8_TILE(bits, 6)                                                                          \
    static tile_fn *const tiles_q##bits[6] = {                                                     \
        tile_q##bits##_1, tile_q##bits##_2, tile_q##bits##_3,                                      \
        tile_q##bits##_4, tile_q##bits##_5, tile_q##bits##_6};

// clang-format off
TILES(2)
TILES(3)
TILES(4)
TILES(8)
PARE_X8_KERNELS(i8mm, 6)
// clang-format on

#endif
