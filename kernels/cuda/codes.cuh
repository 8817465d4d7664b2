/* kernels/cuda/codes.cuh - codes of R8K32 atoms (kernels/layout.h). */
#ifndef PARE_KERNELS_CUDA_CODES
#define PARE_KERNELS_CUDA_CODES

#include "kernels/cuda/device.cuh"

/* As pare_panel_has_halves. */
static __device__ inline bool has_halves(const pare_panel &w)
{
    return w.group == 16;
}

/* 16 bytes of weights, which no other block reads; 8. */
static __device__ inline uint4 read_once(const void *at)
{
    uint4 v;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
        : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
        : "l"(at));
    return v;
}

static __device__ inline uint2 read_eight_once(const void *at)
{
    uint2 v;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0, %1}, [%2];" : "=r"(v.x), "=r"(v.y) : "l"(at));
    return v;
}

/* Reads of weights: of the memory, once; of shared memory. */
struct from_memory {
    static __device__ uint4 sixteen(const uint8_t *at) { return read_once(at); }
    static __device__ uint2 eight(const uint8_t *at) { return read_eight_once(at); }
};

struct from_shared {
    static __device__ uint4 sixteen(const uint8_t *at) { return *(const uint4 *)at; }
    static __device__ uint2 eight(const uint8_t *at) { return *(const uint2 *)at; }
};

/* Of a lane with words t of an atom, one of whose rows has word[0], word[4] and word[8] of it: the
 * codes at columns 4 t .. and at 16 + 4 t .., a byte each; those of 8 bits less 128. */
template <uint32_t BITS>
static __device__ inline void codes_of_words(const uint32_t *word, uint32_t t, uint32_t *low,
                                             uint32_t *high)
{
    if (BITS == 8) {
        *low = word[0];
        *high = word[4];
    } else if (BITS == 4) {
        *low = word[0] & 0x0f0f0f0fu;
        *high = word[0] >> 4 & 0x0f0f0f0fu;
    } else {
        *low = word[0] >> 2 * t & 0x03030303u;
        *high = word[4] >> 2 * t & 0x03030303u;
    }
    if (BITS == 3) {
        *low |= (word[8] >> t & 0x01010101u) << 2;
        *high |= (word[8] >> (4 + t) & 0x01010101u) << 2;
    }
}

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
