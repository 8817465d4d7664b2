/* A step of the search with 16 nodes at a time: their least costs and the edges that have them
 * stay in registers.
 *
 * Decoding takes the symbols of rows r and r + 8 of a tile, which are `bits` words: a state lies in
 * three bytes that follow each other, which one look-up brings into a lane. */
#include <math.h>

#include "kernels/arm/gemv_neon.h"

#ifdef __aarch64__
#include "kernels/exl3.h"

enum {
    LANES = 4,
    BLOCKS = 4,
    NODES = LANES * BLOCKS,
    TILE = PARE_EXL3_TILE,
    AHEAD = 1024 /* bytes of prefetch distance */
};

/* --- search ----------------------------------------------------------------------------------- */

/* The costs of the nodes that the states `state` .. state + 3 leave. */
PARE_INLINE float32x4_t costs_before(const float *before, size_t state, unsigned bits)
{
    const float *const cost = before + (state >> bits);
    if (bits >= 2)
        return vdupq_n_f32(*cost);
    const float32x2_t two = vld1_f32(cost);
    return vcombine_f32(vdup_lane_f32(two, 0), vdup_lane_f32(two, 1));
}

/* Numbers below 256 in 32-bit lanes as bytes. */
PARE_INLINE uint8x16_t narrow(const uint32x4_t v[BLOCKS])
{
    const uint16x8_t low = vcombine_u16(vmovn_u32(v[0]), vmovn_u32(v[1]));
    const uint16x8_t high = vcombine_u16(vmovn_u32(v[2]), vmovn_u32(v[3]));
    return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}

PARE_INLINE void step(float *after, uint8_t *from, const float *before, const float *value,
                      float target, unsigned bits)
{
    const size_t nodes = (size_t)PARE_EXL3_STATES >> bits, edges = (size_t)1 << bits;
    const float32x4_t x = vdupq_n_f32(target);
    for (size_t i = 0; i < nodes; i += NODES) {
        float32x4_t least[BLOCKS];
        uint32x4_t best[BLOCKS], edge = vdupq_n_u32(0);
        for (size_t b = 0; b < BLOCKS; b++) {
            least[b] = vdupq_n_f32(INFINITY);
            best[b] = edge;
        }
        for (size_t t = 0; t < edges; t++) {
#pragma GCC unroll 4
            for (size_t b = 0; b < BLOCKS; b++) {
                const size_t state = t * nodes + i + LANES * b;
                const float32x4_t d = vsubq_f32(x, vld1q_f32(value + state));
                const float32x4_t cost = vfmaq_f32(costs_before(before, state, bits), d, d);
                const uint32x4_t smaller = vcltq_f32(cost, least[b]);
                least[b] = vbslq_f32(smaller, cost, least[b]);
                best[b] = vbslq_u32(smaller, edge, best[b]);
            }
            edge = vaddq_u32(edge, vdupq_n_u32(1));
        }
        for (size_t b = 0; b < BLOCKS; b++)
            vst1q_f32(after + i + LANES * b, least[b]);
        vst1q_u8(from + i, narrow(best));
    }
}

void pare_exl3_step_neon(float *after, uint8_t *from, const float *before, const float *value,
                         float x, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, step, after, from, before, value, x);
}

/* --- weights ---------------------------------------------------------------------------------- */

/* Where the states of four columns lie, and how far above the low end of their lanes. */
typedef struct places {
    uint8x16_t byte;
    int32x4_t up; /* -7 .. 0 */
} places;

/* The word before those of rows r and r + 8 of a tile, and these. */
typedef struct words {
    uint8x16_t v[3];
} words;

/* Columns 4 quarter .. 4 quarter + 3 of a row, or of the one 8 below. */
static places places_of(unsigned quarter, unsigned below, unsigned bits)
{
    uint8_t byte[16];
    int32_t up[LANES];
    for (unsigned l = 0; l < LANES; l++) {
        const unsigned c = 4 * quarter + l;
        const unsigned position = c % 8 / 2 * 8 + 4 * below + c / 8 * 2 + c % 2;
        const unsigned last = 32 + (position + 1) * bits - 1; /* bit of the state */
        for (unsigned i = 0; i < 3; i++)
            byte[4 * l + i] = (uint8_t)((last / 8 - i) ^ 3);
        byte[4 * l + 3] = 255; /* none: 0 */
        up[l] = (int32_t)(last % 8) - 7;
    }
    return (places){vld1q_u8(byte), vld1q_s32(up)};
}

static void all_places(places at[8], unsigned bits)
{
    for (unsigned i = 0; i < 8; i++)
        at[i] = places_of(i % 4, i / 4, bits);
}

PARE_INLINE words words_of(const uint8_t *tile, size_t r, unsigned bits)
{
    const size_t size = 4 * (size_t)bits;
    uint8_t own[48] = {0};
    memcpy(own, tile + (r ? r : 8) * size - 4, 4);
    memcpy(own + 4, tile + r * size, size);
    return (words){{vld1q_u8(own), vld1q_u8(own + 16), vld1q_u8(own + 32)}};
}

PARE_INLINE uint8x16_t look_up(const words *of, uint8x16_t byte, unsigned bits)
{
    if (bits <= 3)
        return vqtbl1q_u8(of->v[0], byte);
    if (bits <= 7)
        return vqtbl2q_u8((uint8x16x2_t){{of->v[0], of->v[1]}}, byte);
    return vqtbl3q_u8((uint8x16x3_t){{of->v[0], of->v[1], of->v[2]}}, byte);
}

/* pare_exl3_value of the states; the sum of the bytes times a is exact, plus 1024 a + b as well. */
PARE_INLINE float32x4_t values_at(const words *of, const places *at, unsigned bits)
{
    const uint32x4_t bytes = vreinterpretq_u32_u8(look_up(of, at->byte, bits));
    const uint32x4_t state = vandq_u32(vshlq_u32(bytes, at->up), vdupq_n_u32(0xffff));
    const uint8x16_t r = vreinterpretq_u8_u32(vmulq_u32(state, vdupq_n_u32(PARE_EXL3_MULTIPLIER)));
    const float32x4_t sum = vcvtq_f32_u32(vpaddlq_u16(vpaddlq_u8(r)));
    const float32x4_t exact =
        vfmaq_f32(vdupq_n_f32(0x1.bb8p2F - 0x1.4c4p3F), sum, vdupq_n_f32(0x1.bb8p-8F));
    return vcvt_f32_f16(vcvt_f16_f32(exact));
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    places at[8];
    all_places(at, bits);
    const uint8_t *tile = w->codes;
    for (size_t row = 0; row < w->n; row += TILE)
        for (size_t k = 0; k < w->k; k += TILE, tile += pare_exl3_tile_bytes(bits))
            for (size_t r = 0; r < 8; r++) {
                const words of = words_of(tile, r, bits);
                float *const to = dst + (row + r) * ldd + k;
                for (size_t i = 0; i < 8; i++)
                    vst1q_f32(to + i / 4 * 8 * ldd + i % 4 * LANES, values_at(&of, &at[i], bits));
            }
}

/* acc[r] += the first n columns of row r of a tile times x. */
PARE_INLINE void add_tile(f32x8 acc[TILE], const float *x, size_t n, const uint8_t *tile,
                          const places at[8], unsigned bits)
{
    for (size_t r = 0; r < 8; r++) {
        const words of = words_of(tile, r, bits);
        for (size_t i = 0; i < 2; i++) {
            const places *const p = at + 4 * i;
            f32x8 *const sum = &acc[r + 8 * i];
            *sum = add_8(*sum, x, values_at(&of, &p[0], bits), values_at(&of, &p[1], bits), n);
            if (n > 8)
                *sum = add_8(*sum, x + 8, values_at(&of, &p[2], bits), values_at(&of, &p[3], bits),
                             n - 8);
        }
    }
}

PARE_INLINE void gemv(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    places at[8];
    all_places(at, bits);
    const size_t size = pare_exl3_tile_bytes(bits);
    for (size_t row = 0; row < w->n; row += TILE) {
        const uint8_t *tile = w->codes + row / TILE * (w->k / TILE) * size;
        f32x8 acc[TILE];
        for (size_t r = 0; r < TILE; r++)
            acc[r] = set1_8(0.0f);
        for (size_t j = 0; j < k; j += TILE, tile += size) {
            for (size_t line = 0; line < size; line += 64)
                __builtin_prefetch(tile + AHEAD + line);
            /* Whole tiles on their own: their loop is free of masks. */
            if (k - j >= TILE)
                add_tile(acc, x + j, TILE, tile, at, bits);
            else
                add_tile(acc, x + j, k - j, tile, at, bits);
        }
        for (size_t r = 0; r < TILE; r++)
            y[row + r] = lane_sum(acc[r]);
    }
}

void pare_dequant_exl3_neon(float *dst, size_t ldd, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, decode, dst, ldd, w);
}

void pare_gemv_exl3_neon(float *y, const float *x, size_t k, const pare_panel *w, unsigned bits)
{
    PARE_EXL3_OF_WIDTH(bits, gemv, y, x, k, w);
}

#endif
