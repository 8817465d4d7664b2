/* kernels/cuda/exl3_tile.cuh - weights of a tile of trellis codes (kernels/exl3.h). Lane 4 g + c of
 * a warp has eight of them, positions 8 lane .. of the stream: columns 2 c, 2 c + 1, 2 c + 8 and
 * 2 c + 9 of row g, then of row g + 8. So a fragment of mma has them. */
#ifndef PARE_KERNELS_CUDA_EXL3_TILE
#define PARE_KERNELS_CUDA_EXL3_TILE

#include "kernels/cuda/device.cuh"
#include "kernels/exl3.h"

/* COUNT weights, 4 or 8, from a position on that COUNT divides. */
template <uint32_t BITS, uint32_t COUNT> struct exl3_weights {
    static constexpr uint32_t WORDS = 8 * BITS; /* of a tile */
    static constexpr uint32_t WINDOW = (COUNT - 1) * BITS + 16;

    /* The bit of the stream that the state at a position begins with. */
    static constexpr __host__ __device__ uint32_t first_bit(uint32_t position)
    {
        return (position * BITS + BITS + 32 * WORDS - 16) % (32 * WORDS);
    }

    /* Words that a window takes at most. */
    static constexpr uint32_t most_words()
    {
        uint32_t most = 0;
        for (uint32_t p = 0; p < PARE_EXL3_WEIGHTS; p += COUNT) {
            const uint32_t words = (first_bit(p) % 32 + WINDOW + 31) / 32;
            most = words > most ? words : most;
        }
        return most;
    }

    static constexpr uint32_t LOADS = most_words();
    uint32_t word[LOADS + 1], shift;

    exl3_weights() = default;

    __device__ exl3_weights(const uint32_t *tile, uint32_t position)
    {
        const uint32_t first = first_bit(position);
        shift = first % 32;
#pragma unroll
        for (uint32_t i = 0; i < LOADS; i++)
            word[i] = tile[(first / 32 + i) % WORDS];
        word[LOADS] = 0;
    }

    /* The 16 bits of the state of weight i. */
    __device__ uint32_t state(uint32_t i) const
    {
        const uint32_t at = i * BITS / 32, bit = i * BITS % 32;
        const uint32_t high = __funnelshift_l(word[at + 1], word[at], shift);
        if (bit <= 16)
            return high << bit >> 16;
        const uint32_t low =
            __funnelshift_l(at + 2 <= LOADS ? word[at + 2] : 0, word[at + 1], shift);
        return __funnelshift_l(low, high, bit) >> 16;
    }

    /* 1024 + the sum of the bytes, as F16: it has its place in the fraction. */
    __device__ uint32_t sum(uint32_t i) const
    {
        return __dp4a(state(i) * PARE_EXL3_MULTIPLIER, 0x01010101u, 0x6400u);
    }

    /* Weights i and i + 1 as F16, rounded once as the definition has it. */
    __device__ uint32_t two(uint32_t i) const
    {
        uint32_t w = sum(i) | sum(i + 1) << 16;
        asm("fma.rn.f16x2 %0, %0, %1, %2;" : "+r"(w) : "r"(0x1eee1eeeu), "r"(0xc931c931u));
        return w;
    }

    __device__ void floats(float *to) const
    {
#pragma unroll
        for (uint32_t i = 0; i < COUNT; i += 2) {
            const uint32_t w = two(i);
            to[i] = float_of_f16((uint16_t)w);
            to[i + 1] = float_of_f16((uint16_t)(w >> 16));
        }
    }
};

#endif
