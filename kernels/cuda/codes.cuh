/* kernels/cuda/codes.cuh - codes of R8K32 atoms (kernels/layout.h). */
#ifndef PARE_KERNELS_CUDA_CODES
#define PARE_KERNELS_CUDA_CODES

#include "kernels/cuda/device.cuh"

/* Codes of one column: row g and column j of an atom. */
static __device__ inline uint32_t code_in_atom(const uint8_t *atom, uint32_t bits, uint32_t g,
                                               uint32_t j)
{
    const uint32_t i = 4 * g + j % 4;
    if (bits == 8)
        return atom[j / 4 * 32 + i] ^ 0x80u;
    if (bits == 4)
        return atom[j % 16 / 4 * 32 + i] >> (j < 16 ? 0 : 4) & 15u;
    const uint32_t two = atom[j / 16 * 32 + i] >> j % 16 / 4 * 2 & 3u;
    return bits == 3 ? two | (atom[64 + i] >> j / 4 & 1u) << 2 : two;
}

/* Six bits are an atom of four and one of two. */
static __device__ inline uint32_t code_at(const uint8_t *atom, uint32_t bits, uint32_t g,
                                          uint32_t j)
{
    if (bits != 6)
        return code_in_atom(atom, bits, g, j);
    return code_in_atom(atom, 4, g, j) | code_in_atom(atom + 128, 2, g, j) << 4;
}

/* The codes of columns 4 s .. 4 s + 3 and 16 + 4 s .. of row g, a byte each, that of 8 bits less
 * 128. A warp whose lane is 8 s + g reads an atom once. */
template <uint32_t BITS>
static __device__ inline void quads_at(const uint8_t *atom, uint32_t s, uint32_t g, int *low,
                                       int *high)
{
    const uint32_t *const word = (const uint32_t *)atom;
    if (BITS == 8) {
        *low = (int)word[8 * s + g];
        *high = (int)word[32 + 8 * s + g];
    } else if (BITS == 4) {
        const uint32_t w = word[8 * s + g];
        *low = (int)(w & 0x0f0f0f0fu);
        *high = (int)(w >> 4 & 0x0f0f0f0fu);
    } else {
        uint32_t one = word[g] >> 2 * s & 0x03030303u, two = word[8 + g] >> 2 * s & 0x03030303u;
        if (BITS == 3) {
            one |= (word[16 + g] >> s & 0x01010101u) << 2;
            two |= (word[16 + g] >> (4 + s) & 0x01010101u) << 2;
        }
        *low = (int)one;
        *high = (int)two;
    }
}

#endif
