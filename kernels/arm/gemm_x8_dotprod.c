/* A word of activation codes, picked by its lane, meets both registers of 4 rows. */
#include "kernels/arm/gemm_x8_internal.h"

#ifdef __ARM_FEATURE_DOTPROD

PARE_INLINE void group_dot(int32x4_t d[MT][2], const uint8_t *atom, size_t atoms, const int8_t *x,
                           size_t ldx, unsigned bits, size_t mt)
{
    for (size_t t = 0; t < mt; t++)
        d[t][0] = d[t][1] = vdupq_n_s32(0);
    for (; atoms > 0; atoms--, atom += pare_atom_bytes(bits), x += PARE_ATOM_K)
        for (size_t half = 0; half < 2; half++) {
            int8x16_t v[4][2];
            unpack_16(v, atom, half, bits);
            for (size_t t = 0; t < mt; t++) {
                const int8x16_t q = vld1q_s8(x + t * ldx + 16 * half);
                for (size_t h = 0; h < 2; h++) {
                    d[t][h] = vdotq_laneq_s32(d[t][h], v[0][h], q, 0);
                    d[t][h] = vdotq_laneq_s32(d[t][h], v[1][h], q, 1);
                    d[t][h] = vdotq_laneq_s32(d[t][h], v[2][h], q, 2);
                    d[t][h] = vdotq_laneq_s32(d[t][h], v[3][h], q, 3);
                }
            }
        }
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
PARE_X8_KERNELS(dotprod, 4)
// clang-format on

#endif
