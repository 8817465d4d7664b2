/* kernels/cuda/decoders.cuh - what codes stand for, with the steps of dequant_* (kernels.h). A
 * decoder is made of what the planes have of a row and gives the weight of each of its codes. */
#ifndef PARE_KERNELS_CUDA_DECODERS
#define PARE_KERNELS_CUDA_DECODERS

#include "kernels/cuda/codes.cuh"

/* Planes that a decoder reads; with SUB there may be minima, with MAGNITUDES salient columns, with
 * HALVES groups have 16 columns. TILES: there are none, and codes lie in tiles (exl3_tile.cuh). */
enum { SCALES = 1, ZEROS = 2, SUB = 4, MAGNITUDES = 8, BOOK = 16, HALVES = 32, TILES = 64 };

/* What belongs to a row: of its group, and `sub` of its atom. */
struct row_planes {
    const uint16_t *scale, *minimum, *book;
    const uint8_t *sub;
    const float *level;
    uint32_t bits, zero;
};

/* Byte i of `four`; `half` says which half of its atom it lies in. */
struct code {
    uint32_t four;
    int i, half;
    bool salient;

    __device__ uint32_t number() const { return four >> 8 * i & 0xffu; }
};

static constexpr float SHIFT = 0x1p23f;

/* SHIFT + the code: a float without a conversion, which would be slow. */
static __device__ inline float shifted(const code &c)
{
    return __uint_as_float(__byte_perm(c.four, __float_as_uint(SHIFT), 0x7440u | (uint32_t)c.i));
}

struct uniform {
    static constexpr uint32_t planes = SCALES | ZEROS;
    float zero, scale; /* zero: plus SHIFT, so that one exact step takes both away */

    __device__ uniform(const row_planes &p)
        : zero(__uint_as_float(__float_as_uint(SHIFT) | p.zero)), scale(float_of_f16(*p.scale))
    {
    }
    __device__ float of(const code &c) const { return (shifted(c) - zero) * scale; }
};

struct of_table {
    static constexpr uint32_t planes = SCALES;
    const float *level;
    float scale;

    __device__ of_table(const row_planes &p) : level(p.level), scale(float_of_f16(*p.scale)) {}
    __device__ float of(const code &c) const { return level[c.number()] * scale; }
};

/* The groups of both halves of an atom lie 8 scales apart. */
struct of_table_halves {
    static constexpr uint32_t planes = SCALES | HALVES;
    const float *level;
    float scale[2];

    __device__ of_table_halves(const row_planes &p)
        : level(p.level), scale{float_of_f16(p.scale[0]), float_of_f16(p.scale[8])}
    {
    }
    __device__ float of(const code &c) const
    {
        return level[c.number()] * (c.half ? scale[1] : scale[0]);
    }
};

struct of_book {
    static constexpr uint32_t planes = BOOK;
    const uint16_t *book;

    __device__ of_book(const row_planes &p) : book(p.book) {}
    __device__ float of(const code &c) const { return float_of_f16(book[c.number()]); }
};

struct binary {
    static constexpr uint32_t planes = MAGNITUDES;
    float magnitude[4];

    __device__ binary(const row_planes &p)
    {
        for (int i = 0; i < 4; i++)
            magnitude[i] = float_of_f16(p.book[i]);
    }
    __device__ float of(const code &c) const
    {
        const uint32_t u = c.number();
        const float sign = u & 1 ? 1.0f : -1.0f, second = u & 2 ? 1.0f : -1.0f;
        if (c.salient)
            return sign * magnitude[2] + second * magnitude[3];
        return sign * (u & 2 ? magnitude[1] : magnitude[0]);
    }
};

/* A weight depends on codes before its own. */
struct of_trellis {
    static constexpr uint32_t planes = TILES;

    __device__ of_trellis(const row_planes &) {}
};

/* s and o, or s of both halves, of a row and 32 columns lie 8 bytes apart. */
struct of_super_block {
    static constexpr uint32_t planes = SCALES | SUB;
    float step[2], least;
    bool six;

    __device__ of_super_block(const row_planes &p) : least(0), six(p.bits == 6)
    {
        const float scale = float_of_f16(*p.scale);
        step[0] = scale * (six ? (float)(int8_t)p.sub[0] : (float)p.sub[0]);
        step[1] = six ? scale * (float)(int8_t)p.sub[8] : step[0];
        if (!six)
            least = float_of_f16(*p.minimum) * (float)p.sub[8];
    }
    __device__ float of(const code &c) const
    {
        const float by = c.half ? step[1] : step[0];
        return six ? by * (shifted(c) - (SHIFT + 32.0f)) : by * (shifted(c) - SHIFT) - least;
    }
};

#endif
