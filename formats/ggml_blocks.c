/* Bits and values of the blocks. Layouts, low byte first; "nibbles" are low halves of bytes first:
 *
 *     Q4_0  d[2] nibbles[16]               byte j: element j, element j + 16
 *     Q4_1  d[2] m[2] nibbles[16]
 *     Q5_0  d[2] high[4] nibbles[16]       bit j of high: fifth bit of element j
 *     Q5_1  d[2] m[2] high[4] nibbles[16]
 *     Q8_0  d[2] codes[32]
 *     Q4_K  d[2] m[2] scales[12] nibbles[128]            byte 32 c + j: elements 64 c + j, + 32
 *     Q5_K  d[2] m[2] scales[12] high[32] nibbles[128]   bit c of high[j]: element 32 c + j
 *     Q6_K  low[128] high[64] scale[16] d[2]             per half of 128: 4 + 2 bits
 *     Q2_K  scales[16] pairs[64] d[2] m[2]         nibbles of a scale: s, o; pairs as TQ2_0
 *     Q3_K  high[32] pairs[64] scales[12] d[2]     bit c of high[j]: third bit of 32 c + j
 *     TQ1_0 trits[48] trits[4] d[2]                      5 a byte, then 4 a byte
 *     TQ2_0 pairs[64] d[2]                               byte 32 h + j, bits 2 n: 128 h + 32 n + j
 *     MXFP4 d[1] nibbles[16]
 *     NVFP4 scales[4] nibbles[8] of 16 elements each
 */
#include <string.h>

#include "formats/ggml_internal.h"
#include "formats/little_endian.h"
#include "kernels/half.h"
#include "kernels/levels.h"

static void put16(uint8_t *p, uint16_t v)
{
    p[0] = (uint8_t)v;
    p[1] = (uint8_t)(v >> 8);
}

static void split_nibbles(const uint8_t *src, size_t half, uint8_t *code)
{
    for (size_t j = 0; j < half; j++) {
        code[j] = src[j] & 15;
        code[j + half] = src[j] >> 4;
    }
}

static void join_nibbles(const uint8_t *code, size_t half, uint8_t *dst)
{
    for (size_t j = 0; j < half; j++)
        dst[j] = (uint8_t)((code[j] & 15) | (code[j + half] & 15) << 4);
}

/* The fifth bits of 32 codes. */
static void split_high(const uint8_t *src, uint8_t *code)
{
    for (size_t j = 0; j < 32; j++)
        code[j] |= (uint8_t)((src[j / 8] >> j % 8 & 1) << 4);
}

static void join_high(const uint8_t *code, uint8_t *dst)
{
    memset(dst, 0, 4);
    for (size_t j = 0; j < 32; j++)
        dst[j / 8] |= (uint8_t)((code[j] >> 4 & 1) << j % 8);
}

static void split_q4_0(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    split_nibbles(src + 2, 16, b->code);
}

static void join_q4_0(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    join_nibbles(b->code, 16, dst + 2);
}

static void split_q4_1(const uint8_t *src, pare_ggml_block *b)
{
    b->m = pare_le16(src + 2);
    b->d = pare_le16(src);
    split_nibbles(src + 4, 16, b->code);
}

static void join_q4_1(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    put16(dst + 2, b->m);
    join_nibbles(b->code, 16, dst + 4);
}

static void split_q5_0(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    split_nibbles(src + 6, 16, b->code);
    split_high(src + 2, b->code);
}

static void join_q5_0(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    join_high(b->code, dst + 2);
    join_nibbles(b->code, 16, dst + 6);
}

static void split_q5_1(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    b->m = pare_le16(src + 2);
    split_nibbles(src + 8, 16, b->code);
    split_high(src + 4, b->code);
}

static void join_q5_1(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    put16(dst + 2, b->m);
    join_high(b->code, dst + 4);
    join_nibbles(b->code, 16, dst + 8);
}

static void split_q8_0(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    memcpy(b->code, src + 2, 32);
}

static void join_q8_0(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    memcpy(dst + 2, b->code, 32);
}

/* Scales and offsets of 6 bits in 12 bytes: those of the first four sub-blocks lie whole in the low
 * bits of bytes 0..3 and 4..7, whose upper two bits continue the nibbles of the others. */
static void split_scales(const uint8_t *src, pare_ggml_block *b)
{
    for (size_t j = 0; j < 4; j++) {
        b->scale[j] = (int8_t)(src[j] & 63);
        b->offset[j] = src[j + 4] & 63;
        b->scale[j + 4] = (int8_t)((src[j + 8] & 15) | src[j] >> 6 << 4);
        b->offset[j + 4] = (uint8_t)(src[j + 8] >> 4 | src[j + 4] >> 6 << 4);
    }
}

static void join_scales(const pare_ggml_block *b, uint8_t *dst)
{
    for (size_t j = 0; j < 4; j++) {
        const unsigned s = (unsigned)b->scale[j + 4], o = b->offset[j + 4];
        dst[j] = (uint8_t)(((unsigned)b->scale[j] & 63) | s >> 4 << 6);
        dst[j + 4] = (uint8_t)((b->offset[j] & 63) | o >> 4 << 6);
        dst[j + 8] = (uint8_t)((s & 15) | (o & 15) << 4);
    }
}

static void split_q4_k(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    b->m = pare_le16(src + 2);
    split_scales(src + 4, b);
    for (size_t c = 0; c < 4; c++)
        split_nibbles(src + 16 + 32 * c, 32, b->code + 64 * c);
}

static void join_q4_k(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    put16(dst + 2, b->m);
    join_scales(b, dst + 4);
    for (size_t c = 0; c < 4; c++)
        join_nibbles(b->code + 64 * c, 32, dst + 16 + 32 * c);
}

static void split_q5_k(const uint8_t *src, pare_ggml_block *b)
{
    b->d = pare_le16(src);
    b->m = pare_le16(src + 2);
    split_scales(src + 4, b);
    for (size_t c = 0; c < 4; c++)
        split_nibbles(src + 48 + 32 * c, 32, b->code + 64 * c);
    for (size_t i = 0; i < 256; i++)
        b->code[i] |= (uint8_t)((src[16 + i % 32] >> i / 32 & 1) << 4);
}

static void join_q5_k(const pare_ggml_block *b, uint8_t *dst)
{
    put16(dst, b->d);
    put16(dst + 2, b->m);
    join_scales(b, dst + 4);
    memset(dst + 16, 0, 32);
    for (size_t i = 0; i < 256; i++)
        dst[16 + i % 32] |= (uint8_t)((b->code[i] >> 4 & 1) << i / 32);
    for (size_t c = 0; c < 4; c++)
        join_nibbles(b->code + 64 * c, 32, dst + 48 + 32 * c);
}

/* In a half of 128, elements j, j + 32, j + 64, j + 96: the low nibbles of bytes j and j + 32, then
 * their high ones, and the four pairs of bits of byte j. */
static void split_q6_k(const uint8_t *src, pare_ggml_block *b)
{
    for (size_t h = 0; h < 2; h++) {
        const uint8_t *const low = src + 64 * h, *const high = src + 128 + 32 * h;
        uint8_t *const code = b->code + 128 * h;
        split_nibbles(low, 64, code);
        for (size_t i = 0; i < 128; i++)
            code[i] |= (uint8_t)((high[i % 32] >> i / 32 * 2 & 3) << 4);
    }
    memcpy(b->scale, src + 192, 16);
    b->d = pare_le16(src + 208);
}

static void join_q6_k(const pare_ggml_block *b, uint8_t *dst)
{
    memset(dst + 128, 0, 64);
    for (size_t h = 0; h < 2; h++) {
        uint8_t *const high = dst + 128 + 32 * h;
        const uint8_t *const code = b->code + 128 * h;
        join_nibbles(code, 64, dst + 64 * h);
        for (size_t i = 0; i < 128; i++)
            high[i % 32] |= (uint8_t)((code[i] >> 4 & 3) << i / 32 * 2);
    }
    memcpy(dst + 192, b->scale, 16);
    put16(dst + 208, b->d);
}

/* Two bits each: byte 32 h + j has those of elements 128 h + 32 n + j. */
static void split_pairs(const uint8_t *src, uint8_t *code)
{
    for (size_t i = 0; i < 256; i++)
        code[i] = src[i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
}

static void join_pairs(const uint8_t *code, uint8_t *dst)
{
    memset(dst, 0, 64);
    for (size_t i = 0; i < 256; i++)
        dst[i / 128 * 32 + i % 32] |= (uint8_t)((code[i] & 3) << i % 128 / 32 * 2);
}

static void split_q2_k(const uint8_t *src, pare_ggml_block *b)
{
    for (size_t s = 0; s < 16; s++) {
        b->scale[s] = src[s] & 15;
        b->offset[s] = src[s] >> 4;
    }
    split_pairs(src + 16, b->code);
    b->d = pare_le16(src + 80);
    b->m = pare_le16(src + 82);
}

static void join_q2_k(const pare_ggml_block *b, uint8_t *dst)
{
    for (size_t s = 0; s < 16; s++)
        dst[s] = (uint8_t)((b->scale[s] & 15) | b->offset[s] << 4);
    join_pairs(b->code, dst + 16);
    put16(dst + 80, b->d);
    put16(dst + 82, b->m);
}

/* Scales + 32 in 6 bits: the low four of 0..7 and 8..15 are nibbles of eight bytes; byte 8 + i has
 * the upper two of i, i + 4, i + 8, i + 12. */
static void split_q3_k(const uint8_t *src, pare_ggml_block *b)
{
    const uint8_t *const scales = src + 96;
    split_pairs(src + 32, b->code);
    for (size_t i = 0; i < 256; i++)
        b->code[i] |= (uint8_t)((src[i % 32] >> i / 32 & 1) << 2);
    for (size_t s = 0; s < 16; s++) {
        const int low = scales[s % 8] >> s / 8 * 4 & 15, high = scales[8 + s % 4] >> s / 4 * 2 & 3;
        b->scale[s] = (int8_t)((low | high << 4) - 32);
    }
    b->d = pare_le16(src + 108);
}

static void join_q3_k(const pare_ggml_block *b, uint8_t *dst)
{
    uint8_t *const scales = dst + 96;
    memset(dst, 0, 32);
    memset(scales, 0, 12);
    join_pairs(b->code, dst + 32);
    for (size_t i = 0; i < 256; i++)
        dst[i % 32] |= (uint8_t)((b->code[i] >> 2 & 1) << i / 32);
    for (size_t s = 0; s < 16; s++) {
        const unsigned v = (unsigned)(b->scale[s] + 32) & 63;
        scales[s % 8] |= (uint8_t)((v & 15) << s / 8 * 4);
        scales[8 + s % 4] |= (uint8_t)(v >> 4 << s / 4 * 2);
    }
    put16(dst + 108, b->d);
}

/* A byte holds its trits as the fraction v / 243 of 256, rounded up: the first digit to base 3 of
 * that fraction is the first trit, and multiplying by 3 brings up the next. */
static void split_trits(const uint8_t *src, size_t bytes, size_t trits, uint8_t *code)
{
    static const uint8_t power[] = {1, 3, 9, 27, 81};
    for (size_t n = 0; n < trits; n++) {
        for (size_t j = 0; j < bytes; j++)
            code[n * bytes + j] = (uint8_t)((uint8_t)(src[j] * power[n]) * 3 >> 8);
    }
}

static void join_trits(const uint8_t *code, size_t bytes, size_t trits, uint8_t *dst)
{
    for (size_t j = 0; j < bytes; j++) {
        unsigned v = 0;
        for (size_t n = 0; n < 5; n++)
            v = v * 3 + (n < trits ? code[n * bytes + j] : 0);
        dst[j] = (uint8_t)((v * 256 + 242) / 243);
    }
}

static void split_tq1_0(const uint8_t *src, pare_ggml_block *b)
{
    split_trits(src, 32, 5, b->code);
    split_trits(src + 32, 16, 5, b->code + 160);
    split_trits(src + 48, 4, 4, b->code + 240);
    b->d = pare_le16(src + 52);
}

static void join_tq1_0(const pare_ggml_block *b, uint8_t *dst)
{
    join_trits(b->code, 32, 5, dst);
    join_trits(b->code + 160, 16, 5, dst + 32);
    join_trits(b->code + 240, 4, 4, dst + 48);
    put16(dst + 52, b->d);
}

static void split_tq2_0(const uint8_t *src, pare_ggml_block *b)
{
    split_pairs(src, b->code);
    b->d = pare_le16(src + 64);
}

static void join_tq2_0(const pare_ggml_block *b, uint8_t *dst)
{
    join_pairs(b->code, dst);
    put16(dst + 64, b->d);
}

static void split_mxfp4(const uint8_t *src, pare_ggml_block *b)
{
    b->d = src[0];
    split_nibbles(src + 1, 16, b->code);
}

static void join_mxfp4(const pare_ggml_block *b, uint8_t *dst)
{
    dst[0] = (uint8_t)b->d;
    join_nibbles(b->code, 16, dst + 1);
}

static void split_nvfp4(const uint8_t *src, pare_ggml_block *b)
{
    for (size_t s = 0; s < 4; s++) {
        b->scale[s] = (int8_t)src[s];
        split_nibbles(src + 4 + 8 * s, 8, b->code + 16 * s);
    }
}

static void join_nvfp4(const pare_ggml_block *b, uint8_t *dst)
{
    for (size_t s = 0; s < 4; s++) {
        dst[s] = (uint8_t)b->scale[s];
        join_nibbles(b->code + 16 * s, 8, dst + 4 + 8 * s);
    }
}

static void values_around(const pare_ggml_block *b, size_t n, int zero, float *dst)
{
    const float d = pare_f16_to_f32(b->d);
    for (size_t j = 0; j < n; j++)
        dst[j] = (float)(b->code[j] - zero) * d;
}

static void values_q4_0(const pare_ggml_block *b, float *dst)
{
    values_around(b, 32, 8, dst);
}

static void values_q5_0(const pare_ggml_block *b, float *dst)
{
    values_around(b, 32, 16, dst);
}

static void values_ternary(const pare_ggml_block *b, float *dst)
{
    values_around(b, 256, 1, dst);
}

static void values_from_least(const pare_ggml_block *b, float *dst)
{
    const float d = pare_f16_to_f32(b->d), m = pare_f16_to_f32(b->m);
    for (size_t j = 0; j < 32; j++)
        dst[j] = (float)b->code[j] * d + m;
}

static void values_q8_0(const pare_ggml_block *b, float *dst)
{
    const float d = pare_f16_to_f32(b->d);
    for (size_t j = 0; j < 32; j++)
        dst[j] = (float)(int8_t)b->code[j] * d;
}

/* Sub-blocks of `n` elements. */
static void values_offset(const pare_ggml_block *b, size_t n, float *dst)
{
    const float d = pare_f16_to_f32(b->d), m = pare_f16_to_f32(b->m);
    for (size_t s = 0; s < 256 / n; s++) {
        const float step = d * (float)b->scale[s], least = m * (float)b->offset[s];
        for (size_t j = n * s; j < n * s + n; j++)
            dst[j] = step * (float)b->code[j] - least;
    }
}

static void values_k(const pare_ggml_block *b, float *dst)
{
    values_offset(b, 32, dst);
}

static void values_q2_k(const pare_ggml_block *b, float *dst)
{
    values_offset(b, 16, dst);
}

static void values_scaled(const pare_ggml_block *b, int zero, float *dst)
{
    const float d = pare_f16_to_f32(b->d);
    for (size_t s = 0; s < 16; s++) {
        const float step = d * (float)b->scale[s];
        for (size_t j = 16 * s; j < 16 * s + 16; j++)
            dst[j] = step * (float)(b->code[j] - zero);
    }
}

static void values_q3_k(const pare_ggml_block *b, float *dst)
{
    values_scaled(b, 4, dst);
}

static void values_q6_k(const pare_ggml_block *b, float *dst)
{
    values_scaled(b, 32, dst);
}

/* As the engine: doubled levels, half the scale (2^128 is none of F32), and no -0. */
static void values_mxfp4(const pare_ggml_block *b, float *dst)
{
    const uint32_t half = b->d < 2 ? 0x00200000u << b->d : (uint32_t)(b->d - 1) << 23;
    for (size_t j = 0; j < 32; j++)
        dst[j] = b->code[j] == 8 ? 0 : 2 * pare_levels_e2m1[b->code[j]] * pare_f32_from_bits(half);
}

/* E4M3 without a sign, but as the engine has the codes that are NaN there: 0x7f is 0, 0xff goes on
 * behind 448. */
static float scale_of_nvfp4(uint8_t code)
{
    return code == 0x7f ? 0 : code == 0xff ? 480 : pare_levels_e4m3[code & 0x7f];
}

static void values_nvfp4(const pare_ggml_block *b, float *dst)
{
    for (size_t j = 0; j < 64; j++)
        dst[j] = b->code[j] == 8
                     ? 0
                     : pare_levels_e2m1[b->code[j]] * scale_of_nvfp4((uint8_t)b->scale[j / 16]);
}

#define CODEC(name, values_of, quantize_of)                                                        \
    static const pare_ggml_codec name = {.split = split_##name,                                    \
                                         .join = join_##name,                                      \
                                         .values = values_of,                                      \
                                         .quantize = pare__ggml_quantize_##quantize_of}
CODEC(q4_0, values_q4_0, q4_0);
CODEC(q4_1, values_from_least, q4_1);
CODEC(q5_0, values_q5_0, q5_0);
CODEC(q5_1, values_from_least, q5_1);
CODEC(q8_0, values_q8_0, q8_0);
CODEC(q2_k, values_q2_k, q2_k);
CODEC(q3_k, values_q3_k, q3_k);
CODEC(q4_k, values_k, q4_k);
CODEC(q5_k, values_k, q5_k);
CODEC(q6_k, values_q6_k, q6_k);
CODEC(tq1_0, values_ternary, ternary);
CODEC(tq2_0, values_ternary, ternary);
CODEC(mxfp4, values_mxfp4, mxfp4);
static const pare_ggml_codec nvfp4 = {
    .split = split_nvfp4, .join = join_nvfp4, .values = values_nvfp4};

static const pare_ggml_type types[] = {
    {0, "F32", 1, 4, PARE_F32, NULL},
    {1, "F16", 1, 2, PARE_F16, NULL},
    {2, "Q4_0", 32, 18, PARE_DTYPES, &q4_0},
    {3, "Q4_1", 32, 20, PARE_DTYPES, &q4_1},
    {6, "Q5_0", 32, 22, PARE_DTYPES, &q5_0},
    {7, "Q5_1", 32, 24, PARE_DTYPES, &q5_1},
    {8, "Q8_0", 32, 34, PARE_DTYPES, &q8_0},
    {10, "Q2_K", 256, 84, PARE_DTYPES, &q2_k},
    {11, "Q3_K", 256, 110, PARE_DTYPES, &q3_k},
    {12, "Q4_K", 256, 144, PARE_DTYPES, &q4_k},
    {13, "Q5_K", 256, 176, PARE_DTYPES, &q5_k},
    {14, "Q6_K", 256, 210, PARE_DTYPES, &q6_k},
    {16, "IQ2_XXS", 256, 66, PARE_DTYPES, &pare__ggml_iq2_xxs},
    {17, "IQ2_XS", 256, 74, PARE_DTYPES, &pare__ggml_iq2_xs},
    {18, "IQ3_XXS", 256, 98, PARE_DTYPES, &pare__ggml_iq3_xxs},
    {19, "IQ1_S", 256, 50, PARE_DTYPES, &pare__ggml_iq1_s},
    {20, "IQ4_NL", 32, 18, PARE_DTYPES, &pare__ggml_iq4_nl},
    {21, "IQ3_S", 256, 110, PARE_DTYPES, &pare__ggml_iq3_s},
    {22, "IQ2_S", 256, 82, PARE_DTYPES, &pare__ggml_iq2_s},
    {23, "IQ4_XS", 256, 136, PARE_DTYPES, &pare__ggml_iq4_xs},
    {24, "I8", 1, 1, PARE_I8, NULL},
    {25, "I16", 1, 2, PARE_I16, NULL},
    {26, "I32", 1, 4, PARE_I32, NULL},
    {27, "I64", 1, 8, PARE_I64, NULL},
    {28, "F64", 1, 8, PARE_F64, &pare__ggml_f64},
    {29, "IQ1_M", 256, 56, PARE_DTYPES, &pare__ggml_iq1_m},
    {30, "BF16", 1, 2, PARE_BF16, NULL},
    {34, "TQ1_0", 256, 54, PARE_DTYPES, &tq1_0},
    {35, "TQ2_0", 256, 66, PARE_DTYPES, &tq2_0},
    {39, "MXFP4", 32, 17, PARE_DTYPES, &mxfp4},
    {40, "NVFP4", 64, 36, PARE_DTYPES, &nvfp4},
};

enum { TYPES = sizeof types / sizeof *types };

const pare_ggml_type *pare_ggml_type_find(uint32_t id)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (types[i].id == id)
            return &types[i];
    }
    return NULL;
}

const pare_ggml_type *pare_ggml_type_named(const char *name)
{
    for (size_t i = 0; i < TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}

bool pare_ggml_splits(const pare_ggml_type *t)
{
    return t->codec && t->codec->split;
}

void pare_ggml_split(const pare_ggml_type *t, const uint8_t *src, pare_ggml_block *b)
{
    *b = (pare_ggml_block){0};
    t->codec->split(src, b);
}

void pare_ggml_join(const pare_ggml_type *t, const pare_ggml_block *b, uint8_t *dst)
{
    t->codec->join(b, dst);
}

void pare_ggml_values(const pare_ggml_type *t, const pare_ggml_block *b, float *dst)
{
    t->codec->values(b, dst);
}

void pare_ggml_decode(const pare_ggml_type *t, const uint8_t *src, uint64_t blocks, float *dst)
{
    const pare_ggml_codec *const c = t->codec;
    uint16_t point[PARE__GGML_POINTS];
    pare_ggml_block b;
    if (c->grid)
        pare__ggml_points(c->grid, c->grid_words, point);
    for (uint64_t i = 0; i < blocks; i++, src += t->bytes, dst += t->elements) {
        if (c->decode) {
            c->decode(src, point, dst);
            continue;
        }
        c->split(src, &b);
        c->values(&b, dst);
    }
}

bool pare_ggml_quantize(const pare_ggml_type *t, const float *x, pare_ggml_block *b)
{
    *b = (pare_ggml_block){0};
    return t->codec->quantize(x, b);
}

bool pare_ggml_encode(const pare_ggml_type *t, const float *x, uint64_t blocks, uint8_t *dst)
{
    pare_ggml_block b;
    for (uint64_t i = 0; i < blocks; i++) {
        if (!pare_ggml_quantize(t, x + i * t->elements, &b))
            return false;
        pare_ggml_join(t, &b, dst + i * t->bytes);
    }
    return true;
}
