/* kernels/cuda/f16_codes.cuh - packed codes as operands of products of F16: exact, without their
 * scales. Lane 4 g + t of a warp has rows 4 g .. 4 g + 3 of 32 and, of an atom, columns 4 t ..
 * 4 t + 3 and 16 + 4 t .. . */
#ifndef PARE_KERNELS_CUDA_F16_CODES
#define PARE_KERNELS_CUDA_F16_CODES

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/f16.cuh"

/* What a lane has of one atom. */
template <uint32_t BITS> struct words {
    static constexpr int PARTS = BITS == 8 ? 2 : BITS == 4 ? 1 : BITS;
    uint4 part[PARTS];

    template <class FROM> __device__ void load(const uint8_t *atom, uint32_t g, uint32_t t)
    {
        const uint8_t *const at = atom + g % 2 * 16 + (BITS >= 4 ? 32 * t : 0);
#pragma unroll
        for (int i = 0; i < PARTS; i++)
            part[i] = FROM::sixteen(at + i * (BITS == 8 ? 128 : 32));
    }

    /* Codes of row i of 4: those of columns 4 t .. and of 16 + 4 t .. . */
    __device__ void split(int i, uint32_t t, uint32_t *low, uint32_t *high) const
    {
        codes_of_words<BITS>((const uint32_t *)part + i, t, low, high);
        if (BITS == 8) {
            *low ^= 0x80808080u;
            *high ^= 0x80808080u;
        }
    }
};

/* What codes stand for, as F16 without a scale: bytes 2 i and 2 i + 1 of `four`, by the zero point
 * of their row, ZERO where rows have none. A code u becomes 1024 + u by its place in a half, less
 * 1024 + z. */
template <uint32_t WIDTH, uint32_t LESS = 1u << (WIDTH - 1)> struct uniform {
    static constexpr uint32_t BITS = WIDTH, ZERO = LESS;
    static constexpr bool HALVES = false; /* whether groups may have 16 columns */

    static __device__ uint32_t halves(uint32_t four, int i, uint32_t z)
    {
        const uint32_t less = (0x6400u | z) * 0x00010001u;
        uint32_t two = __byte_perm(four, 0x64646464u, i ? 0x4342 : 0x4140);
        asm("sub.rn.f16x2 %0, %0, %1;" : "+r"(two) : "r"(less));
        return two;
    }
};

static __device__ uint32_t times(uint32_t two, uint32_t factor)
{
    asm("mul.rn.f16x2 %0, %0, %1;" : "+r"(two) : "r"(factor * 0x00010001u));
    return two;
}

/* Floats of 4 bits: sign, exponent and fraction take their places in a half; 2^14. */
struct e2m1 {
    static constexpr uint32_t BITS = 4, ZERO = 0;
    static constexpr bool HALVES = true;

    static __device__ uint32_t halves(uint32_t four, int i, uint32_t)
    {
        const uint32_t two = __byte_perm(four, 0, i ? 0x4342 : 0x4140);
        return times((two << 12 & 0x80008000u) | (two << 9 & 0x0e000e00u), 0x7400);
    }
};

/* Floats of 8 bits; 2^8. What would be 480 is NaN. */
struct e4m3 {
    static constexpr uint32_t BITS = 8, ZERO = 0;
    static constexpr bool HALVES = false;

    static __device__ uint32_t halves(uint32_t four, int i, uint32_t)
    {
        const uint32_t two = __byte_perm(four, 0, i ? 0x3424 : 0x1404);
        const uint32_t y = times((two & 0x80008000u) | (two >> 1 & 0x3f803f80u), 0x5c00);
        const uint32_t nan = ((y & 0x7fff7fffu) + 0x20802080u) & 0x80008000u;
        return y | (nan - (nan >> 15));
    }
};

#endif
