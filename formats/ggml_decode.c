/* Values of the types that are only read. A block, low byte first, with e = 32 b + 8 l + j the
 * element, K sixteen uneven levels, g[i] the i-th point of a grid (ggml_grids.h), S the signs of
 * the elements of a run of 8, bits of a byte, or of 7 bits and their parity:
 *
 *     IQ4_NL   d[2] nibbles[16]                         d K[nibble]
 *     IQ4_XS   d[2] high[2] low[4] nibbles[128]         d s K[nibble], s - 32 in 4 + 2 bits
 *     IQ2_XXS  d[2], 8 x (index[4] w[4])                d (1/2 + w >> 28) / 4 g[index[l]] S
 *     IQ2_XS   d[2] u[64] scale[8]                      d (1/2 + s) / 4 g[u & 511] S(u >> 9)
 *     IQ2_S    d[2] index[32] sign[32] high[8] scale[8] the same, indices of 8 + 2 bits
 *     IQ3_XXS  d[2] index[64] w[32]                     d (1/2 + w >> 28) / 2, points of 4
 *     IQ3_S    d[2] index[64] high[8] sign[32] scale[4] d (1 + 2 s), indices of 8 + 1 bits
 *     IQ1_S    d[2] index[32] high[16]                  d (1 + 2 s) (g +- 1/8)
 *     IQ1_M    index[32] high[16] scale[8]              the same, d in the high nibbles of scale
 *
 * All in F32, left to right. */
#include <string.h>

#include "formats/ggml_grids.h"
#include "formats/ggml_internal.h"
#include "formats/little_endian.h"
#include "kernels/half.h"

static float step_of(const uint8_t *p)
{
    return pare_f16_to_f32(pare_le16(p));
}

/* Low nibbles of `half` bytes, then their high ones. */
static void put_levels(const uint8_t *src, size_t half, float step, const int8_t level[16],
                       float *dst)
{
    for (size_t j = 0; j < half; j++) {
        dst[j] = step * (float)level[src[j] & 15];
        dst[j + half] = step * (float)level[src[j] >> 4];
    }
}

static const int8_t uneven[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                  1,    13,   25,  38,  53,  69,  89,  113};

static void decode_iq4_nl(const uint8_t *src, const uint16_t *point, float *dst)
{
    (void)point;
    put_levels(src + 2, 16, step_of(src), uneven, dst);
}

static void decode_iq4_xs(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    (void)point;
    for (size_t b = 0; b < 8; b++) {
        const int low = src[4 + b / 2] >> b % 2 * 4 & 15,
                  high = (int)(pare_le16(src + 2) >> 2 * b & 3);
        put_levels(src + 8 + 16 * b, 16, d * (float)(low + 16 * high - 32), uneven, dst + 32 * b);
    }
}

/* The levels of a grid, the digits of its points, and what is added to each element. */
typedef struct lattice {
    int8_t level[8];
    unsigned base, digits;
    float shift;
} lattice;

static const lattice grid2 = {{8, 25, 43}, 3, 8, 0};
static const lattice grid3_xxs = {{4, 12, 20, 28, 36, 44, 52, 62}, 8, 4, 0};
static const lattice grid3_s = {{1, 3, 5, 7, 9, 11, 13, 15}, 8, 4, 0};

/* Bit j of `signs`: element j is negative. */
static void put_point(const lattice *g, unsigned point, unsigned signs, float step, float *dst)
{
    for (unsigned j = 0; j < g->digits; j++, point /= g->base) {
        const float v = (float)g->level[point % g->base] + g->shift;
        dst[j] = step * (signs >> j & 1 ? -v : v);
    }
}

/* An eighth sign makes the number of negative elements even. */
static unsigned signs_of(unsigned seven)
{
    seven &= 127;
    return seven | (unsigned)__builtin_parity(seven) << 7;
}

static void decode_iq2_xxs(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t b = 0; b < 8; b++) {
        const uint8_t *const index = src + 2 + 8 * b;
        const uint32_t w = pare_le32(index + 4);
        const float step = d * (0.5f + (float)(w >> 28)) * 0.25f;
        for (size_t l = 0; l < 4; l++)
            put_point(&grid2, point[index[l]], signs_of(w >> 7 * l), step, dst + 32 * b + 8 * l);
    }
}

/* The step of run l of sub-block b, where each half of it has four bits of its own. */
static float half_step(float d, const uint8_t *scale, size_t b, size_t l)
{
    return d * (0.5f + (float)(scale[b] >> l / 2 * 4 & 15)) * 0.25f;
}

static void decode_iq2_xs(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t i = 0; i < 32; i++) {
        const unsigned u = pare_le16(src + 2 + 2 * i);
        const float step = half_step(d, src + 66, i / 4, i % 4);
        put_point(&grid2, point[u & 511], signs_of(u >> 9), step, dst + 8 * i);
    }
}

static void decode_iq2_s(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t i = 0; i < 32; i++) {
        const unsigned high = src[66 + i / 4] >> i % 4 * 2 & 3;
        const float step = half_step(d, src + 74, i / 4, i % 4);
        put_point(&grid2, point[src[2 + i] | high << 8], src[34 + i], step, dst + 8 * i);
    }
}

static void decode_iq3_xxs(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t i = 0; i < 64; i++) {
        const uint32_t w = pare_le32(src + 66 + i / 8 * 4);
        const unsigned signs = signs_of(w >> i % 8 / 2 * 7) >> i % 2 * 4;
        const float step = d * (0.5f + (float)(w >> 28)) * 0.5f;
        put_point(&grid3_xxs, point[src[2 + i]], signs, step, dst + 4 * i);
    }
}

static void decode_iq3_s(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t i = 0; i < 64; i++) {
        const size_t b = i / 8;
        const unsigned high = src[66 + b] >> i % 8 & 1;
        const unsigned signs = (unsigned)src[74 + i / 2] >> i % 2 * 4;
        const float step = d * (float)(1 + 2 * (src[106 + b / 2] >> b % 2 * 4 & 15));
        put_point(&grid3_s, point[src[2 + i] | high << 8], signs, step, dst + 4 * i);
    }
}

static void put_ternary(unsigned point, bool below, float step, float *dst)
{
    const lattice g = {{-1, 0, 1}, 3, 8, below ? -0.125f : 0.125f};
    put_point(&g, point, 0, step, dst);
}

static void decode_iq1_s(const uint8_t *src, const uint16_t *point, float *dst)
{
    const float d = step_of(src);
    for (size_t i = 0; i < 32; i++) {
        const unsigned h = pare_le16(src + 34 + i / 4 * 2), high = h >> i % 4 * 3 & 7;
        const float step = d * (float)(1 + 2 * (h >> 12 & 7));
        put_ternary(point[src[2 + i] | high << 8], h >> 15, step, dst + 8 * i);
    }
}

static void decode_iq1_m(const uint8_t *src, const uint16_t *point, float *dst)
{
    unsigned d = 0;
    for (size_t i = 0; i < 4; i++)
        d |= (unsigned)pare_le16(src + 48 + 2 * i) >> 12 << 4 * i;
    for (size_t i = 0; i < 32; i++) { /* 3 bits of scale for two runs */
        const unsigned v = src[32 + i / 2] >> i % 2 * 4 & 15;
        const unsigned s = pare_le16(src + 48 + i / 8 * 2) >> i % 8 / 2 * 3 & 7;
        const float step = pare_f16_to_f32((uint16_t)d) * (float)(1 + 2 * s);
        put_ternary(point[src[i] | (v & 7) << 8], v >> 3, step, dst + 8 * i);
    }
}

/* A block of one element, rounded to F32. */
static void decode_f64(const uint8_t *src, const uint16_t *point, float *dst)
{
    const uint64_t bits = pare_le64(src);
    double x;
    (void)point;
    memcpy(&x, &bits, sizeof x);
    *dst = (float)x;
}

void pare__ggml_points(const uint64_t *grid, size_t words, uint16_t *point)
{
    for (size_t i = 0; i < words; i++) {
        for (uint64_t w = grid[i]; w != 0; w &= w - 1)
            *point++ = (uint16_t)(64 * i + (size_t)__builtin_ctzll(w));
    }
}

#define WITHOUT_GRID(name) const pare_ggml_codec pare__ggml_##name = {.decode = decode_##name}
#define WITH_GRID(name, of)                                                                        \
    const pare_ggml_codec pare__ggml_##name = {.decode = decode_##name,                            \
                                               .grid = pare__##of,                                 \
                                               .grid_words =                                       \
                                                   sizeof pare__##of / sizeof *pare__##of}
WITHOUT_GRID(f64);
WITHOUT_GRID(iq4_nl);
WITHOUT_GRID(iq4_xs);
WITH_GRID(iq2_xxs, iq2_xxs);
WITH_GRID(iq2_xs, iq2_xs);
WITH_GRID(iq2_s, iq2_s);
WITH_GRID(iq3_xxs, iq3_xxs);
WITH_GRID(iq3_s, iq3_s);
WITH_GRID(iq1_s, iq1_s);
WITH_GRID(iq1_m, iq1_s);
