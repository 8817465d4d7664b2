/* tests/data/encoded.h - random codes for a packed linear of any encoding, with everything that may
 * go with them. */
#ifndef PARE_TESTS_ENCODED_H
#define PARE_TESTS_ENCODED_H

#include <math.h>

#include "formats/packed.h"
#include "kernels/half.h"
#include "kernels/levels.h"
#include "runtime/random.h"

/* Every encoding and every extra. n, k and name are the caller's; the last four, super-blocks
 * and inputs in 4-bit floats, need k to be a multiple of 256, or 16. */
static const pare_packed_linear encoded_kinds[] = {
    {.bits = 2, .group = 64, .symmetric = true, .encoding = PARE_ENCODING_TERNARY},
    {.bits = 4,
     .group = 32,
     .symmetric = true,
     .encoding = PARE_ENCODING_NF4,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 8,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_FP8,
     .activation = {.mode = PARE_ACTIVATION_FLOAT},
     .bias = true},
    {.bits = 4,
     .group = 32,
     .symmetric = true,
     .encoding = PARE_ENCODING_MXFP4,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 3,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_CODEBOOK,
     .activation = {.mode = PARE_ACTIVATION_FLOAT},
     .sparse = 23},
    {.bits = 4,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_CODEBOOK,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 2,
     .group = 32,
     .symmetric = true,
     .encoding = PARE_ENCODING_BINARY,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 8,
     .group = 0,
     .symmetric = true,
     .outliers = 5,
     .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8}},
    {.bits = 4,
     .group = 32,
     .symmetric = true,
     .outliers = 33,
     .outliers_int8 = true,
     .activation = {.mode = PARE_ACTIVATION_GROUP, .bits = 4}},
    {.bits = 8,
     .group = 0,
     .symmetric = true,
     .activation = {.mode = PARE_ACTIVATION_TENSOR, .bits = 8},
     .bias = true},
    {.bits = 3, .group = 64, .symmetric = false, .sparse = 40},
    {.bits = 4, .group = 32, .symmetric = true, .sparsity = PARE_SPARSITY_2_4},
    {.bits = 8,
     .group = 0,
     .symmetric = true,
     .sparsity = PARE_SPARSITY_2_4,
     .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8},
     .bias = true},
    {.bits = 16,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_F16,
     .sparsity = PARE_SPARSITY_2_4,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 16,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_F16,
     .sparsity = PARE_SPARSITY_BITMASK,
     .kept = 300,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 16,
     .group = 0,
     .symmetric = true,
     .encoding = PARE_ENCODING_F16,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 4,
     .group = 256,
     .symmetric = true,
     .encoding = PARE_ENCODING_Q4_K,
     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
    {.bits = 6,
     .group = 256,
     .symmetric = true,
     .encoding = PARE_ENCODING_Q6_K,
     .activation = {.mode = PARE_ACTIVATION_FLOAT},
     .bias = true},
    {.bits = 4,
     .group = 16,
     .symmetric = true,
     .encoding = PARE_ENCODING_NVFP4,
     .activation = {.mode = PARE_ACTIVATION_FLOAT, .bits = 4}},
    {.bits = 4,
     .group = 32,
     .symmetric = true,
     .encoding = PARE_ENCODING_MXFP4,
     .activation = {.mode = PARE_ACTIVATION_FLOAT, .bits = 4}},
};
enum {
    ENCODED_ALL = sizeof encoded_kinds / sizeof *encoded_kinds,
    ENCODED_KINDS = ENCODED_ALL - 4,
    ENCODED_PRUNED = 11
};

/* A number of F16 in 1/8 .. 1/4, or -1/4 .. 1/4. */
static inline float encoded_half(uint64_t seed, uint64_t stream, size_t i, bool negative)
{
    const uint64_t r = pare_random_u64(seed, stream, i);
    const float x = (float)(1024 + r % 1024) * 0x1p-13F;
    return negative && (r >> 32 & 1) ? -x : x;
}

static inline bool encoded_is_outlier(const pare_codes *c, size_t column)
{
    for (size_t o = 0; o < c->outliers; o++)
        if (c->outlier_column[o] == column)
            return true;
    return false;
}

/* Whether pruning left a weight: at most two of four columns; or fewer than there is room for. */
static inline bool encoded_is_left(const pare_packed_linear *l, uint64_t seed, size_t row,
                                   size_t column)
{
    static const unsigned left[] = {0, 1, 4, 3, 5, 9, 6, 10, 12}; /* bits of the four columns */
    const size_t i = row * l->k + column;
    if (l->sparsity == PARE_SPARSITY_BITMASK)
        return i % (l->n * l->k / l->kept + 1) == 1;
    const uint64_t r = pare_random_u64(seed, 11, row * l->k + column / 4);
    return l->sparsity == PARE_SPARSITY_NONE || left[r % 9] >> column % 4 & 1;
}

/* Any code that stands for something; in outlier columns the one of 0. */
static inline uint8_t encoded_code(const pare_packed_linear *l, const pare_codes *c, uint64_t seed,
                                   size_t row, size_t column)
{
    const uint64_t r = pare_random_u64(seed, 1, row * l->k + column);
    const uint8_t code = (uint8_t)(r & ((1u << l->bits) - 1));
    if (encoded_is_outlier(c, column))
        return l->symmetric ? pare_packed_zero_code(l)
                            : c->zeros[row * c->groups + (l->group ? column / l->group : 0)];
    if (!encoded_is_left(l, seed, row, column))
        return pare_packed_zero_code(l);
    if (l->encoding == PARE_ENCODING_TERNARY)
        return (uint8_t)(r % 3);
    if (l->encoding == PARE_ENCODING_FP8 && (code & 0x7f) == 0x7f)
        return 0x7e;
    return code;
}

/* Signs times scales of EXL3. */
static inline void encoded_turns(const pare_packed_linear *l, pare_codes *c, uint64_t seed)
{
    for (size_t r = 0; r < l->n; r++)
        c->row_scales[r] = encoded_half(seed, 15, r, true);
    for (size_t j = 0; j < l->k; j++)
        c->column_scales[j] = encoded_half(seed, 16, j, true);
}

static inline void encoded_extras(const pare_packed_linear *l, pare_codes *c, uint64_t seed)
{
    for (size_t o = 0; o < l->outliers; o++)
        c->outlier_column[o] = (uint32_t)(o * l->k / l->outliers);
    for (size_t i = 0; i < l->n * l->outliers; i++) {
        c->outlier_weight[i] = encoded_half(seed, 4, i, true);
        c->outlier_code[i] = (int8_t)(pare_random_u64(seed, 5, i) % 255 - 127);
    }
    for (size_t r = 0; r < l->n; r++) {
        c->outlier_scale[r] = encoded_half(seed, 6, r, false);
        c->bias[r] = encoded_half(seed, 7, r, true) / 3;
        c->sparse_start[r + 1] = (uint32_t)(l->sparse * (r + 1) / l->n);
        for (uint32_t e = c->sparse_start[r]; e < c->sparse_start[r + 1]; e++)
            c->sparse_column[e] = (uint32_t)((e - c->sparse_start[r]) * 3 + r % 2);
    }
    for (size_t e = 0; e < l->sparse; e++)
        c->sparse_value[e] = encoded_half(seed, 8, e, true);
    if (!l->outliers_int8)
        c->outlier_code = NULL;
    else
        c->outlier_weight = NULL;
    c->outliers = l->outliers;
    c->sparse = l->sparse;
    c->input_scale = 0.03F;
}

/* Scales as they ship: what the codes of scales stand for, else numbers of F16. */
static inline void encoded_scales(const pare_packed_linear *l, pare_codes *c, uint64_t seed)
{
    c->scale_offset = 0.75F;
    c->scale_factor = 0x1p-7F;
    const size_t steps = ((l->n + 15) / 16 * 16 * c->groups + 255) / 256;
    for (size_t i = 0; i < steps; i++)
        c->scale_steps[i] = 0.001F * (float)(i + 1);
    for (size_t i = 0; i < l->n * c->groups; i++) {
        const size_t row = i / c->groups, group = i % c->groups;
        const size_t place = (row / 8 * c->groups + group) * 8 + row % 8;
        const uint64_t r = pare_random_u64(seed, 3, i);
        c->zeros[i] = (uint8_t)(l->symmetric ? pare_packed_zero_code(l) : r % (1u << l->bits));
        c->scales[i] = encoded_half(seed, 2, i, false);
        if (l->encoding == PARE_ENCODING_NF4) {
            c->scale_codes[i] = (uint8_t)(1 + r % 255);
            const float product = c->scale_steps[place / 256] * (float)(c->scale_codes[i] - 128);
            c->scales[i] = pare_f16_to_f32(pare_f32_to_f16(c->scale_offset + product));
        } else if (l->encoding == PARE_ENCODING_MXFP4) {
            c->scale_codes[i] = (uint8_t)(127 - 24 + r % 40);
            c->scales[i] = ldexpf(1, c->scale_codes[i] - 127);
        } else if (l->encoding == PARE_ENCODING_NVFP4) {
            c->scale_codes[i] = (uint8_t)(r % 127);
            c->scales[i] = pare_levels_e4m3[c->scale_codes[i]] * c->scale_factor;
        }
    }
}

/* Bytes of sub-blocks: all there are, or 6 bits. */
static inline void encoded_super(const pare_packed_linear *l, pare_codes *c, uint64_t seed)
{
    for (size_t i = 0; i < l->n * c->groups; i++)
        c->minima[i] = l->encoding == PARE_ENCODING_Q4_K ? encoded_half(seed, 13, i, false) : 0;
    for (size_t i = 0; i < l->n * c->groups * 16; i++)
        c->sub[i] = (uint8_t)(pare_random_u64(seed, 14, i) %
                              (l->encoding == PARE_ENCODING_Q4_K ? 64 : 256));
}

/* Books of 2^bits values a row, or four magnitudes a group, which are not negative. */
static inline void encoded_book(const pare_packed_linear *l, pare_codes *c, size_t books,
                                uint64_t seed)
{
    for (size_t i = 0; i < books; i++)
        c->book[i] = encoded_half(seed, 9, i, l->encoding == PARE_ENCODING_CODEBOOK);
    for (size_t j = 0; j < l->k; j++)
        c->salient[j] = (uint8_t)(pare_random_u64(seed, 10, j) % 4 == 0);
}

/* Codes of linear `l`, a function of the seed. False when memory ends. */
static inline bool encoded_codes(pare_arena *a, const pare_packed_linear *l, uint64_t seed,
                                 pare_codes *c)
{
    const size_t groups = pare_packed_linear_groups(l), n = l->n, apart = l->outliers;
    const size_t books = l->encoding == PARE_ENCODING_CODEBOOK ? n << l->bits : n * groups * 4;
    *c = (pare_codes){.n = n,
                      .k = l->k,
                      .groups = groups,
                      .codes = PARE_NEW(a, uint8_t, n * l->k),
                      .scales = PARE_NEW(a, float, n *groups),
                      .zeros = PARE_NEW(a, uint8_t, n * groups),
                      .scale_codes = PARE_NEW(a, uint8_t, n * groups),
                      .minima = PARE_NEW(a, float, n *groups),
                      .sub = PARE_NEW(a, uint8_t, n * groups * 16),
                      .scale_steps = PARE_NEW(a, float, (n + 16) * groups / 256 + 1),
                      .book = PARE_NEW(a, float, books),
                      .salient = PARE_NEW(a, uint8_t, l->k),
                      .outlier_column = PARE_NEW(a, uint32_t, apart),
                      .outlier_weight = PARE_NEW(a, float, n *apart),
                      .outlier_code = PARE_NEW(a, int8_t, n * apart),
                      .outlier_scale = PARE_NEW(a, float, n),
                      .sparse_start = PARE_NEW(a, uint32_t, n + 1),
                      .sparse_column = PARE_NEW(a, uint32_t, l->sparse),
                      .sparse_value = PARE_NEW(a, float, l->sparse),
                      .bias = PARE_NEW(a, float, n),
                      .row_scales = PARE_NEW(a, float, n),
                      .column_scales = PARE_NEW(a, float, l->k),
                      .values = PARE_NEW(a, float, n * l->k)};
    if (!c->codes || !c->scales || !c->zeros || !c->minima || !c->sub || !c->scale_codes ||
        !c->scale_steps || !c->book || !c->salient || !c->outlier_column || !c->outlier_weight ||
        !c->outlier_code || !c->outlier_scale || !c->sparse_start || !c->sparse_column ||
        !c->sparse_value || !c->bias || !c->values || !c->row_scales || !c->column_scales)
        return false;
    encoded_scales(l, c, seed);
    encoded_super(l, c, seed);
    encoded_book(l, c, books, seed);
    encoded_extras(l, c, seed);
    encoded_turns(l, c, seed);
    for (size_t r = 0; r < n; r++)
        for (size_t j = 0; j < l->k; j++)
            if (l->encoding == PARE_ENCODING_F16)
                c->values[r * l->k + j] =
                    encoded_is_left(l, seed, r, j) ? encoded_half(seed, 12, r * l->k + j, true) : 0;
            else
                c->codes[r * l->k + j] = encoded_code(l, c, seed, r, j);
    if (l->encoding != PARE_ENCODING_F16)
        c->values = NULL;
    return true;
}

#endif
