/* Decoding is one load, one variable shift and one fused multiply-add per four channels; mixing
 * keeps a tile of 2 tokens by 32 channels in registers. */
#include <stdbool.h>

#include "kernels/arm/neon_internal.h"

#ifdef __aarch64__

enum { MIX_TOKENS = 2, MIX_LINES = 4 };

typedef struct u32x8 {
    uint32x4_t lo, hi;
} u32x8;

/* Eight codes of `bits` bits as numbers in 32-bit lanes. */
PARE_INLINE u32x8 codes_8(const uint8_t *p, unsigned bits)
{
    if (bits == 8) {
        const uint16x8_t wide = vmovl_u8(vld1_u8(p));
        return (u32x8){vmovl_u16(vget_low_u16(wide)), vmovl_high_u16(wide)};
    }
    uint32_t word = 0;
    memcpy(&word, p, bits);
    const int32_t b = (int32_t)bits;
    const int32x4_t lo = {0, -b, -2 * b, -3 * b}, hi = {-4 * b, -5 * b, -6 * b, -7 * b};
    const uint32x4_t all = vdupq_n_u32(word), mask = vdupq_n_u32((1u << bits) - 1);
    return (u32x8){vandq_u32(vshlq_u32(all, lo), mask), vandq_u32(vshlq_u32(all, hi), mask)};
}

/* Four of the eight floats in `table`, whose numbers are `code`. */
PARE_INLINE float32x4_t look_up(uint8x16x2_t table, uint32x4_t code)
{
    const uint32x4_t at =
        vmlaq_n_u32(vdupq_n_u32(0x03020100u), code, 0x04040404u); /* four bytes of each */
    return vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(at)));
}

PARE_INLINE f32x8 levels_8(u32x8 code, unsigned bits, bool named, uint8x16x2_t table)
{
    if (named)
        return (f32x8){look_up(table, code.lo), look_up(table, code.hi)};
    const f32x8 v = {vcvtq_f32_u32(code.lo), vcvtq_f32_u32(code.hi)};
    const float32x4_t less = vdupq_n_f32(128.0f);
    return bits == 8 ? (f32x8){vsubq_f32(v.lo, less), vsubq_f32(v.hi, less)} : v;
}

/* Scales of eight channels, of which n exist. */
PARE_INLINE f32x8 scales_8(const uint16_t *scale, size_t n)
{
    if (n >= 8)
        return load_scales(scale);
    uint16_t tail[8] = {0};
    memcpy(tail, scale, n * sizeof *scale);
    return load_scales(tail);
}

PARE_INLINE f32x8 one_scale(uint16_t scale)
{
    return of_halves(vdupq_n_u16(scale));
}

/* One token. */
PARE_INLINE void decode_row(float *dst, const uint8_t *row, const uint16_t *scales,
                            const uint16_t *lows, size_t group, size_t d, unsigned bits, bool named,
                            uint8x16x2_t table)
{
    f32x8 scale = set1_8(0.0f), low = scale;
    for (size_t c = 0, begin = 0, g = 0; c < d; c += 8, row += bits) {
        const size_t left = d - c;
        if (group == 1) {
            scale = scales_8(scales + c, left);
            low = lows ? scales_8(lows + c, left) : low;
        } else if (c == begin) {
            scale = one_scale(scales[g]);
            low = lows ? one_scale(lows[g]) : low;
            begin += group;
            g++;
        }
        store_first(dst + c, left,
                    fma_8(levels_8(codes_8(row, bits), bits, named, table), scale, low));
    }
}

PARE_INLINE void decode(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d,
                        unsigned bits)
{
    const size_t row_bytes = pare_kv_row_bytes(d, bits);
    const bool named = src->levels && bits < 4;
    float level[8] = {0};
    if (named)
        memcpy(level, src->levels, sizeof *level << bits);
    const uint8_t *const bytes = (const uint8_t *)level;
    const uint8x16x2_t table = {{vld1q_u8(bytes), vld1q_u8(bytes + 16)}};
    for (size_t t = 0; t < n; t++)
        decode_row(dst + t * ldd, src->codes + t * row_bytes, src->scales + t * src->ld,
                   src->lows ? src->lows + t * src->ld : NULL, src->group, d, bits, named, table);
}

void pare_kv_decode_neon(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d)
{
    switch (src->bits) {
    case 2: decode(dst, ldd, src, n, d, 2); break;
    case 3: decode(dst, ldd, src, n, d, 3); break;
    case 4: decode(dst, ldd, src, n, d, 4); break;
    default: decode(dst, ldd, src, n, d, 8); break;
    }
}

/* `tokens` x `lines` x 8 outputs, of the last line `have`. */
PARE_INLINE void mix(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                     size_t n, size_t tokens, size_t lines, size_t have)
{
    f32x8 acc[MIX_TOKENS][MIX_LINES];
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++)
            acc[t][l] = load_first(y + t * ldy + 8 * l, l + 1 < lines ? 8 : have);
    for (size_t j = 0; j < n; j++, v += ldv)
        for (size_t l = 0; l < lines; l++) {
            const f32x8 w = load_first(v + 8 * l, l + 1 < lines ? 8 : have);
            for (size_t t = 0; t < tokens; t++)
                acc[t][l] = fma_8(set1_8(p[t * ldp + j]), w, acc[t][l]);
        }
    for (size_t t = 0; t < tokens; t++)
        for (size_t l = 0; l < lines; l++)
            store_first(y + t * ldy + 8 * l, l + 1 < lines ? 8 : have, acc[t][l]);
}

void pare_kv_mix_neon(float *y, size_t ldy, const float *p, size_t ldp, const float *v, size_t ldv,
                      size_t m, size_t n, size_t d)
{
    size_t c = 0;
    for (; c + 8 * MIX_LINES <= d; c += 8 * MIX_LINES) {
        size_t t = 0;
        for (; t + MIX_TOKENS <= m; t += MIX_TOKENS)
            mix(y + t * ldy + c, ldy, p + t * ldp, ldp, v + c, ldv, n, MIX_TOKENS, MIX_LINES, 8);
        for (; t < m; t++)
            mix(y + t * ldy + c, ldy, p + t * ldp, ldp, v + c, ldv, n, 1, MIX_LINES, 8);
    }
    for (; c < d; c += 8)
        for (size_t t = 0; t < m; t++)
            mix(y + t * ldy + c, ldy, p + t * ldp, ldp, v + c, ldv, n, 1, 1, d - c);
}

#endif
