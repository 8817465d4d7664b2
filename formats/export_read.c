/* What engines compute from exported files, written from their dequantization rules. Nothing here
 * is shared with the writers: a mistake in one of them shows as a difference. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/export_internal.h"

enum { NAME = 4096 };

static pare_status find(pare_ctx *cx, const pare_checkpoint *ck, const char *linear,
                        const char *suffix, pare_dtype dtype, size_t count, const uint8_t **data)
{
    char name[NAME];
    const int len = snprintf(name, sizeof name, "%s%s", linear, suffix);
    const pare_tensor *const t =
        len > 0 && (size_t)len < sizeof name ? pare_checkpoint_find(ck, name) : NULL;
    if (!t || t->dtype != dtype || t->bytes != (uint64_t)count * pare_dtype_bits(dtype) / 8)
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s%s is missing or not %zu of %s", ck->path,
                         linear, suffix, count, pare_dtype_name(dtype));
    *data = t->data;
    return PARE_OK;
}

static float half_at(pare_ctx *cx, const uint8_t *data, size_t i)
{
    uint16_t h;
    float f;
    memcpy(&h, data + 2 * i, sizeof h);
    cx->kernels.cvt_f16_f32(&f, &h, 1);
    return f;
}

static uint32_t word_at(const uint8_t *data, size_t i)
{
    return (uint32_t)data[4 * i] | (uint32_t)data[4 * i + 1] << 8 |
           (uint32_t)data[4 * i + 2] << 16 | (uint32_t)data[4 * i + 3] << 24;
}

/* Columns that share a scale. */
static size_t columns_of(const pare_packed_linear *l)
{
    return l->group ? l->group : l->k;
}

/* compressed-tensors, pack-quantized: code - 2^(bits - 1) is the signed integer, and the same holds
 * for zero points; w = (q - zero) scale. Words of weights run along a row, of zero points down a
 * column. */
static pare_status read_packed(pare_ctx *cx, const pare_checkpoint *ck, const pare_packed_linear *l,
                               float *w)
{
    const unsigned bits = l->bits == 8 ? 8 : 4, per = 32 / bits, mask = (1u << bits) - 1;
    const size_t groups = (l->k + columns_of(l) - 1) / columns_of(l), row = (l->k + per - 1) / per;
    const int offset = 1 << (bits - 1);
    const uint8_t *packed, *scale, *shape, *zero = NULL;
    PARE_TRY(find(cx, ck, l->name, ".weight_packed", PARE_I32, l->n * row, &packed));
    PARE_TRY(find(cx, ck, l->name, ".weight_scale", PARE_F16, l->n * groups, &scale));
    PARE_TRY(find(cx, ck, l->name, ".weight_shape", PARE_I64, 2, &shape));
    if (!l->symmetric)
        PARE_TRY(find(cx, ck, l->name, ".weight_zero_point", PARE_I32,
                      (l->n + per - 1) / per * groups, &zero));
    int64_t is[2];
    memcpy(is, shape, sizeof is);
    if (is[0] != (int64_t)l->n || is[1] != (int64_t)l->k)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s.weight_shape is not that of the linear",
                         ck->path, l->name);
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j++) {
            const size_t g = j / columns_of(l);
            const uint32_t u = word_at(packed, r * row + j / per) >> (j % per * bits) & mask;
            int q = (int)u - offset;
            if (zero) {
                const uint32_t z = word_at(zero, r / per * groups + g) >> (r % per * bits) & mask;
                q -= (int)z - offset;
            }
            w[r * l->k + j] = (float)q * half_at(cx, scale, r * groups + g);
        }
    return PARE_OK;
}

/* OCP E4M3: sign, four bits of exponent with bias 7, three of fraction; 0x7f is no number. */
static float e4m3(uint8_t code)
{
    const int exponent = code >> 3 & 15, fraction = code & 7;
    float value = exponent ? (float)(8 + fraction) / 8 : (float)fraction / 8;
    for (int i = exponent ? exponent : 1; i < 7; i++)
        value /= 2;
    for (int i = 7; i < exponent; i++)
        value *= 2;
    return code & 0x80 ? -value : value;
}

/* OCP E2M1: sign, two bits of exponent with bias 1, one of fraction; the first of two codes lies in
 * the low half of a byte. */
static float e2m1(const uint8_t *packed, size_t i)
{
    static const float magnitude[8] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
    const unsigned code = packed[i / 2] >> i % 2 * 4 & 15;
    return code & 8 ? -magnitude[code & 7] : magnitude[code & 7];
}

/* OCP MXFP4: codes of E2M1, a scale 2^(e - 127) for 32. */
static pare_status read_mxfp4(pare_ctx *cx, const pare_checkpoint *ck, const pare_packed_linear *l,
                              float *w)
{
    const uint8_t *packed, *scale;
    PARE_TRY(find(cx, ck, l->name, ".weight_packed", PARE_U8, l->n * l->k / 2, &packed));
    PARE_TRY(find(cx, ck, l->name, ".weight_scale", PARE_U8, l->n * l->k / 32, &scale));
    for (size_t i = 0; i < l->n * l->k; i++)
        w[i] = ldexpf(e2m1(packed, i), scale[i / 32] - 127);
    return PARE_OK;
}

/* What is fixed at calibration. */
static pare_status read_input_scale(pare_ctx *cx, const pare_checkpoint *ck,
                                    const pare_packed_linear *l, const char *suffix)
{
    const uint8_t *data;
    float is;
    PARE_TRY(find(cx, ck, l->name, suffix, PARE_F32, 1, &data));
    memcpy(&is, data, sizeof is);
    if (is == l->activation.scale)
        return PARE_OK;
    return pare_fail(cx, PARE_ENUMERIC, "%s: %s%s reads back as %.9g instead of %.9g", ck->path,
                     l->name, suffix, (double)is, (double)l->activation.scale);
}

/* NVFP4: the same codes; the scale of 16 in E4M3 is divided by the global scale. */
static pare_status read_nvfp4(pare_ctx *cx, const pare_checkpoint *ck, const pare_packed_linear *l,
                              float *w)
{
    const uint8_t *packed, *scale, *global;
    float divisor;
    PARE_TRY(find(cx, ck, l->name, ".weight_packed", PARE_U8, l->n * l->k / 2, &packed));
    PARE_TRY(find(cx, ck, l->name, ".weight_scale", PARE_F8_E4M3, l->n * l->k / 16, &scale));
    PARE_TRY(find(cx, ck, l->name, ".weight_global_scale", PARE_F32, 1, &global));
    memcpy(&divisor, global, sizeof divisor);
    if (pare_activation_is_fixed(l->encoding, &l->activation))
        PARE_TRY(read_input_scale(cx, ck, l, ".input_global_scale"));
    for (size_t i = 0; i < l->n * l->k; i++)
        w[i] = e2m1(packed, i) * (e4m3(scale[i / 16]) / divisor);
    return PARE_OK;
}

pare_status pare__read_compressed_tensors(pare_ctx *cx, const pare_checkpoint *ck,
                                          const pare_export_linear *x, float *w)
{
    const pare_packed_linear *const l = &x->packed;
    if (pare_encoding_is_float(l->encoding))
        return pare__read_floats(cx, ck, x, w);
    if (pare_encodings[l->encoding].scales == PARE_SCALES_POWERS)
        return read_mxfp4(cx, ck, l, w);
    if (pare_encodings[l->encoding].scales == PARE_SCALES_E4M3)
        return read_nvfp4(cx, ck, l, w);
    const bool float8 = pare_encodings[l->encoding].dtype == PARE_F8_E4M3;
    const bool integers =
        l->activation.mode == PARE_ACTIVATION_TOKEN || l->activation.mode == PARE_ACTIVATION_TENSOR;
    if (!float8 && (!integers || pare_encodings[l->encoding].by_token))
        return read_packed(cx, ck, l, w);
    const uint8_t *codes, *scale;
    if (l->activation.mode == PARE_ACTIVATION_TENSOR && !float8)
        PARE_TRY(read_input_scale(cx, ck, l, ".input_scale"));
    PARE_TRY(
        find(cx, ck, l->name, ".weight", float8 ? PARE_F8_E4M3 : PARE_I8, l->n * l->k, &codes));
    PARE_TRY(find(cx, ck, l->name, ".weight_scale", PARE_F16, l->n, &scale));
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j++) {
            const uint8_t code = codes[r * l->k + j];
            const float q = float8 ? e4m3(code) : (float)(code < 128 ? code : code - 256);
            w[r * l->k + j] = q * half_at(cx, scale, r);
        }
    return PARE_OK;
}

/* `bits` bits of a stream of words that are `stride` apart. */
static uint32_t field(const uint8_t *data, size_t first, size_t stride, size_t i, unsigned bits)
{
    uint32_t value = 0;
    for (unsigned b = 0; b < bits; b++) {
        const size_t bit = i * bits + b;
        value |= (word_at(data, first + bit / 32 * stride) >> bit % 32 & 1) << b;
    }
    return value;
}

/* GPTQ: w = (code - zero) scale, the group of an input by g_idx; version 1 adds 1 to zeros. */
static pare_status read_gptq(pare_ctx *cx, const pare_checkpoint *ck, const pare_packed_linear *l,
                             int add, float *w)
{
    const uint8_t *codes, *zeros, *scale, *index;
    const size_t words = l->n * l->bits / 32, groups = (l->k + columns_of(l) - 1) / columns_of(l);
    PARE_TRY(find(cx, ck, l->name, ".qweight", PARE_I32, l->k * l->bits / 32 * l->n, &codes));
    PARE_TRY(find(cx, ck, l->name, ".qzeros", PARE_I32, groups * words, &zeros));
    PARE_TRY(find(cx, ck, l->name, ".scales", PARE_F16, groups * l->n, &scale));
    PARE_TRY(find(cx, ck, l->name, ".g_idx", PARE_I32, l->k, &index));
    for (size_t j = 0; j < l->k; j++) {
        const size_t g = word_at(index, j);
        if (g >= groups)
            return pare_fail(cx, PARE_EFORMAT, "%s: %s.g_idx is out of range", ck->path, l->name);
        for (size_t r = 0; r < l->n; r++) {
            const int z = (int)field(zeros, g * words, 1, r, l->bits) + add;
            const int q = (int)field(codes, r, l->n, j, l->bits);
            w[r * l->k + j] = (float)(q - z) * half_at(cx, scale, g * l->n + r);
        }
    }
    return PARE_OK;
}

pare_status pare__read_gptq(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                            float *w)
{
    const pare_packed_linear *const l = &x->packed;
    return read_gptq(cx, ck, l, 1, w);
}

pare_status pare__read_gptq_v2(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                               float *w)
{
    const pare_packed_linear *const l = &x->packed;
    return read_gptq(cx, ck, l, 0, w);
}

/* AWQ GEMM: output 8 c + i lies in nibble place[i] of word c; w = (code - zero) scale. */
pare_status pare__read_awq(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                           float *w)
{
    const pare_packed_linear *const l = &x->packed;
    static const unsigned place[8] = {0, 4, 1, 5, 2, 6, 3, 7};
    const uint8_t *codes, *zeros, *scale;
    const size_t groups = (l->k + columns_of(l) - 1) / columns_of(l);
    PARE_TRY(find(cx, ck, l->name, ".qweight", PARE_I32, l->k * (l->n / 8), &codes));
    PARE_TRY(find(cx, ck, l->name, ".qzeros", PARE_I32, groups * (l->n / 8), &zeros));
    PARE_TRY(find(cx, ck, l->name, ".scales", PARE_F16, groups * l->n, &scale));
    for (size_t j = 0; j < l->k; j++)
        for (size_t r = 0; r < l->n; r++) {
            const size_t g = j / columns_of(l), c = r / 8, shift = 4 * place[r % 8];
            const int q = (int)(word_at(codes, j * (l->n / 8) + c) >> shift & 15);
            const int z = (int)(word_at(zeros, g * (l->n / 8) + c) >> shift & 15);
            w[r * l->k + j] = (float)(q - z) * half_at(cx, scale, g * l->n + r);
        }
    return PARE_OK;
}

/* EXL3: the bits of a tile run from the highest of its first word on, in a circle; the 16 that end
 * with symbol p stand for its weight: the sum s of the bytes of their product with the multiplier
 * gives the half a (1024 + s) + b. */
enum { TILE = 16, TILE_WEIGHTS = 256, SUMS = 4 * 255 + 1, SPAN = 128 };

static void take_values(pare_ctx *cx, float value[SUMS])
{
    for (int s = 0; s < SUMS; s++) {
        const double exact = 0x1.bb8p-8 * (1024 + s) - 0x1.4c4p3;
        const float once = (float)exact;
        uint16_t half;
        cx->kernels.cvt_f32_f16(&half, &once, 1);
        cx->kernels.cvt_f16_f32(&value[s], &half, 1);
    }
}

/* The tile whose first row is w[0]; `tile` of bits * 8 words. */
static void read_tile(const uint8_t *tile, unsigned bits, const float value[SUMS], size_t k,
                      float *w)
{
    for (unsigned p = 0; p < TILE_WEIGHTS; p++) {
        const unsigned t = p / 8, j = p % 8, end = (p + 1) * bits + TILE_WEIGHTS * bits;
        const unsigned row = t / 4 + 8 * (j >> 2), column = t % 4 * 2 + (j & 1) + 8 * (j >> 1 & 1);
        uint32_t state = 0;
        for (unsigned b = end - 16; b < end; b++) {
            const unsigned at = b % (TILE_WEIGHTS * bits);
            state = state << 1 | (word_at(tile, at / 32) >> (31 - at % 32) & 1);
        }
        state *= 0x83DCD12D;
        w[row * k + column] =
            value[(state & 255) + (state >> 8 & 255) + (state >> 16 & 255) + (state >> 24)];
    }
}

/* SPAN values, `step` apart, times the Hadamard matrix of Sylvester over the root of SPAN. */
static void mix(float *x, size_t step)
{
    for (size_t h = 1; h < SPAN; h *= 2)
        for (size_t i = 0; i < SPAN; i++)
            if (!(i & h)) {
                const float a = x[i * step], b = x[(i + h) * step];
                x[i * step] = a + b;
                x[(i + h) * step] = a - b;
            }
    for (size_t i = 0; i < SPAN; i++)
        x[i * step] *= 1 / sqrtf(SPAN);
}

pare_status pare__read_exl3(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                            float *w)
{
    const pare_packed_linear *const l = &x->packed;
    const size_t tile = TILE * 2 * l->bits;
    const uint8_t *trellis, *columns, *rows, *multiplier;
    float value[SUMS];
    PARE_TRY(find(cx, ck, l->name, ".trellis", PARE_I16, l->n * l->k * l->bits / 16, &trellis));
    PARE_TRY(find(cx, ck, l->name, ".suh", PARE_F16, l->k, &columns));
    PARE_TRY(find(cx, ck, l->name, ".svh", PARE_F16, l->n, &rows));
    PARE_TRY(find(cx, ck, l->name, ".mul1", PARE_I32, 1, &multiplier));
    if (word_at(multiplier, 0) != 0x83DCD12D)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s.mul1 is not the multiplier of the codebook",
                         ck->path, l->name);
    take_values(cx, value);
    for (size_t j = 0; j < l->k; j += TILE)
        for (size_t r = 0; r < l->n; r += TILE)
            read_tile(trellis + (j / TILE * (l->n / TILE) + r / TILE) * tile, l->bits, value, l->k,
                      w + r * l->k + j);
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j += SPAN)
            mix(w + r * l->k + j, 1);
    for (size_t r = 0; r < l->n; r += SPAN)
        for (size_t j = 0; j < l->k; j++)
            mix(w + r * l->k + j, l->k);
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j++)
            w[r * l->k + j] *= half_at(cx, rows, r) * half_at(cx, columns, j);
    return PARE_OK;
}

pare_status pare__read_floats(pare_ctx *cx, const pare_checkpoint *ck, const pare_export_linear *x,
                              float *w)
{
    const pare_packed_linear *const l = &x->packed;
    char name[NAME];
    (void)snprintf(name, sizeof name, "%s.weight", l->name);
    const pare_tensor *const t = pare_checkpoint_find(ck, name);
    if (!t)
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s is missing", ck->path, name);
    if (t->rank != 2 || t->shape[x->transposed] != l->n || t->shape[!x->transposed] != l->k)
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s has another shape", ck->path, name);
    if (!x->transposed)
        return pare_tensor_to_f32(cx, t, 0, l->n * l->k, w);
    for (size_t j = 0; j < l->k; j++) /* inputs in rows */
        for (size_t r = 0; r < l->n; r++)
            PARE_TRY(pare_tensor_to_f32(cx, t, j * l->n + r, 1, &w[r * l->k + j]));
    return PARE_OK;
}
