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

#endif
