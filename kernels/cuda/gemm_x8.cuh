/* kernels/cuda/gemm_x8.cuh - codes of weights as operands of tensor cores, for products of integer
 * activations.
 *
 * A warp takes 32 rows and 64 columns at a time, as they lie in R8K32, 16 bytes a lane: lane 4 g +
 * t has rows 4 g .. 4 g + 3 of the 32 and, of an atom, words t. That is what mma m16n8k32 asks of
 * it: slots g and g + 8 of the first product are rows 4 g and 4 g + 2, those of the second one rows
 * 4 g + 1 and 4 g + 3; columns are 4 t .. 4 t + 3 and 16 + 4 t .. of each 32. 2:4 weights have one
 * atom of places for 64 columns, which mma.sp m16n8k64 takes in the same order. */
#ifndef PARE_KERNELS_CUDA_GEMM_X8
#define PARE_KERNELS_CUDA_GEMM_X8

#include "kernels/cuda/codes.cuh"
#include "kernels/cuda/copies.cuh"

/* d = c + a b: 16 rows, 32 columns, 8 tokens. */
static __device__ inline void mma(int *d, const uint32_t *a, const uint32_t *b, const int *c)
{
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, "
        "{%8, %9}, {%10, %11, %12, %13};"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(c[0]), "r"(c[1]),
          "r"(c[2]), "r"(c[3]));
}

/* d = c + a b: 16 rows, 64 columns, 8 tokens. A row has two of each four columns: 32 places.
 * Registers 0, 1 of a are places 4 t .. of rows g and g + 8, the others 16 + 4 t ..; b is columns 4
 * t + 16 r
 * .. of token g; c is rows g, g, g + 8, g + 8 of tokens 2 t and 2 t + 1. `pairs` of lane 4 g + t
 * names the columns of 16 places from 16 (t / 2) of row g + 8 (t % 2), four bits for two places. */
static __device__ inline void mma_24(int *d, const uint32_t *a, const uint32_t *b, uint32_t pairs,
                                     const int *c)
{
    asm("mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9, %10, %11}, {%13, %14, %15, %16}, %12, 0;"
        : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(b[2]), "r"(b[3]),
          "r"(pairs), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3]));
}

extern __shared__ __align__(128) uint8_t shared_block[];

/* Which of the 64 columns a product takes. */
enum { FIRST = 1, SECOND = 2, BOTH = 3 };

/* Dense weights, TERNARY or not. ROW: bytes of 8 rows by 64 columns, INDICES: of their indices;
 * sums are 2^SHIFT times too large. Codes are less OFFSET, and so is ZERO, the zero point where
 * rows do not have their own (OWN: they may); SUMS: zero points count, by the sums of x. */
template <uint32_t BITS, bool TERNARY = false> struct dense {
    static constexpr uint32_t WIDTH = BITS, ROW = BITS * 64, INDICES = 0;
    static constexpr int SHIFT = 0, OFFSET = BITS == 8 ? 128 : 0;
    static constexpr int ZERO = TERNARY ? 1 : (1 << (BITS - 1)) - OFFSET;
    static constexpr bool SUMS = true, OWN = !TERNARY;
    static constexpr int PARTS = BITS == 8 ? 2 : BITS == 4 ? 1 : BITS;

    /* Bytes of 8 rows by k columns. */
    static __device__ uint32_t row(uint32_t k) { return k / 32 * (ROW / 2); }

    /* Where a lane reads of 8 rows, which are those of lane / 8; the same of indices. */
    static __device__ uint32_t place(uint32_t lane)
    {
        return lane / 4 % 2 * 16 + (BITS >= 4 ? lane % 4 * 32 : 0);
    }
    static __device__ uint32_t index_place(uint32_t) { return 0; }

    struct words {
        uint4 part[2][PARTS];

        /* Of the atoms WHICH; the other one is 0. */
        template <class FROM, int WHICH = BOTH>
        __device__ void read(const uint8_t *codes, const uint8_t *)
        {
#pragma unroll
            for (int i = 0; i < 2 * PARTS; i++)
                part[i / PARTS][i % PARTS] = WHICH >> i / PARTS & 1
                                                 ? FROM::sixteen(codes + i / PARTS * (ROW / 2) +
                                                                 i % PARTS * (BITS == 8 ? 128 : 32))
                                                 : uint4{0, 0, 0, 0};
        }
    };

    template <int WHICH = BOTH> struct operands {
        uint32_t a[2][2][4];

        __device__ operands(const words &w, uint32_t t)
        {
#pragma unroll
            for (int i = 0; i < 8; i++)
                if (WHICH >> i / 4 & 1)
                    codes_of_words<BITS>((const uint32_t *)w.part[i / 4] + i % 4, t,
                                         &a[i / 4][i % 2][i / 2 % 2],
                                         &a[i / 4][i % 2][i / 2 % 2 + 2]);
        }

        /* c += products; c = from + products. */
        __device__ void multiply(int *c, const uint32_t *b) const
        {
            start(c, b, c, c + 4);
        }
        __device__ void multiply(int *c, const uint32_t *b, const int *from) const
        {
            start(c, b, from, from);
        }

        __device__ void start(int *c, const uint32_t *b, const int *low, const int *high) const
        {
            const bool first = WHICH & FIRST;
            if (first) {
                mma(c, a[0][0], b, low);
                mma(c + 4, a[0][1], b, high);
            }
            if (WHICH & SECOND) {
                mma(c, a[1][0], b + 2, first ? c : low);
                mma(c + 4, a[1][1], b + 2, first ? c + 4 : high);
            }
        }
    };
};

/* The bits of a where `mask` has ones, else those of b. */
static __device__ inline uint32_t picked(uint32_t a, uint32_t b, uint32_t mask)
{
    asm("lop3.b32 %0, %0, %1, %2, 0xe4;" : "+r"(a) : "r"(b), "r"(mask));
    return a;
}

/* The high half of each byte, a code of 4 bits less 8, times 16: (v & 0xf0..) ^ 0x80.. */
static __device__ inline uint32_t times_sixteen(uint32_t v)
{
    asm("lop3.b32 %0, %0, 0xf0f0f0f0, 0x80808080, 0x6a;" : "+r"(v));
    return v;
}

/* 2:4 weights. Codes of 4 bits become 16 (code - 8). */
template <uint32_t BITS> struct sparse {
    static constexpr uint32_t WIDTH = BITS, ROW = BITS * 32, INDICES = 64;
    static constexpr int SHIFT = BITS == 4 ? 4 : 0, OFFSET = 0, ZERO = 0;
    static constexpr bool SUMS = false, OWN = false;

    static __device__ uint32_t row(uint32_t k) { return (k + 63) / 64 * ROW; }

    static __device__ uint32_t place(uint32_t lane) { return lane / 4 % 2 * 16 + lane % 4 * 32; }
    static __device__ uint32_t index_place(uint32_t lane)
    {
        return lane / 4 % 2 * 16 + lane % 4 / 2 * 32 + lane % 2 * 8;
    }

    struct words {
        uint4 part[BITS / 4];
        uint2 index; /* of rows 4 g + 2 (t % 2) and the next: 16 places from 16 (t / 2) */

        template <class FROM, int WHICH = BOTH>
        __device__ void read(const uint8_t *codes, const uint8_t *indices)
        {
#pragma unroll
            for (uint32_t i = 0; i < BITS / 4; i++)
                part[i] = FROM::sixteen(codes + 128 * i);
            index = FROM::eight(indices);
        }
    };

    /* Field f of byte i becomes field i of byte f: fields change places with those 6, then 12 bits
     * above. */
    static __device__ uint32_t turned(uint32_t v)
    {
        v = picked(picked(v, v >> 6, ~0x00cc00ccu), v << 6, ~0x33003300u);
        return picked(picked(v, v >> 12, ~0x0000f0f0u), v << 12, ~0x0f0f0000u);
    }

    template <int WHICH = BOTH> struct operands {
        uint32_t a[2][4], pairs[2];

        __device__ operands(const words &w, uint32_t)
        {
            const uint32_t *const word = (const uint32_t *)w.part;
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i % 2][i / 2] = BITS == 8 ? word[i] : times_sixteen(word[i] << 4);
                a[i % 2][i / 2 + 2] = BITS == 8 ? word[i + 4] : times_sixteen(word[i]);
            }
            pairs[0] = turned(w.index.x);
            pairs[1] = turned(w.index.y);
        }

        __device__ void multiply(int *c, const uint32_t *b) const
        {
            start(c, b, c, c + 4);
        }
        __device__ void multiply(int *c, const uint32_t *b, const int *from) const
        {
            start(c, b, from, from);
        }

        __device__ void start(int *c, const uint32_t *b, const int *low, const int *high) const
        {
            const uint32_t of[4] = {WHICH & FIRST ? b[0] : 0, WHICH & FIRST ? b[1] : 0,
                                    WHICH & SECOND ? b[2] : 0, WHICH & SECOND ? b[3] : 0};
            mma_24(c, a[0], of, pairs[0], low);
            mma_24(c + 4, a[1], of, pairs[1], high);
        }
    };
};

#endif
