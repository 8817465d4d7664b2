/* tests/data/encoded_value.h - the weights that codes of encoded.h stand for, by formulas of their
 * own. */
#ifndef PARE_TESTS_ENCODED_VALUE_H
#define PARE_TESTS_ENCODED_VALUE_H

#include "tests/data/encoded.h"

/* Sign, exponent and fraction of a small float without infinities. */
static inline float encoded_minifloat(unsigned code, unsigned exponent_bits, unsigned fraction_bits)
{
    const unsigned one = 1u << fraction_bits, fraction = code & (one - 1);
    const unsigned exponent = code >> fraction_bits & ((1u << exponent_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const float size = exponent ? ldexpf((float)(one + fraction), (int)exponent - bias)
                                : ldexpf((float)fraction, 1 - bias);
    const float value = size / (float)one;
    return code >> (exponent_bits + fraction_bits) & 1 ? -value : value;
}

/* What the code of one weight stands for. */
static inline float encoded_value(const pare_packed_linear *l, const pare_codes *c, size_t row,
                                  size_t column)
{
    const size_t at = row * c->groups + (l->group ? column / l->group : 0);
    const uint8_t code = c->codes[row * l->k + column];
    const float scale = c->scales[at], *const magnitude = c->book + at * 4;
    const float sign = code & 1 ? 1 : -1;
    switch (l->encoding) {
    case PARE_ENCODING_UNIFORM: return (float)(code - c->zeros[at]) * scale;
    case PARE_ENCODING_TERNARY: return (float)(code - 1) * scale;
    case PARE_ENCODING_NF4: return pare_levels_nf4[code] * scale;
    case PARE_ENCODING_FP8: return encoded_minifloat(code, 4, 3) * scale;
    case PARE_ENCODING_MXFP4:
    case PARE_ENCODING_NVFP4: return encoded_minifloat(code, 2, 1) * scale;
    case PARE_ENCODING_CODEBOOK: return c->book[(row << l->bits) + code];
    case PARE_ENCODING_Q4_K: {
        const uint8_t *const sub = c->sub + at * 16 + column % 256 / 32 * 2;
        return scale * (float)sub[0] * (float)code - c->minima[at] * (float)sub[1];
    }
    case PARE_ENCODING_Q6_K:
        return scale * (float)(int8_t)c->sub[at * 16 + column % 256 / 16] * (float)(code - 32);
    case PARE_ENCODING_F16: return c->values[row * l->k + column];
    case PARE_ENCODING_EXL3: break; /* unit.exl3 */
    case PARE_ENCODING_BINARY:
        if (!c->salient[column])
            return sign * magnitude[code >> 1];
        return sign * magnitude[2] + (code & 2 ? magnitude[3] : -magnitude[3]);
    }
    return 0;
}

/* One weight of the linear: its code, or what is kept apart for it. */
static inline float encoded_weight(const pare_packed_linear *l, const pare_codes *c, size_t row,
                                   size_t column)
{
    float w = encoded_value(l, c, row, column);
    for (size_t o = 0; o < c->outliers; o++) {
        const size_t at = row * c->outliers + o;
        if (c->outlier_column[o] == column)
            w = c->outlier_weight ? c->outlier_weight[at]
                                  : (float)c->outlier_code[at] * c->outlier_scale[row];
    }
    for (uint32_t e = c->sparse_start[row]; e < c->sparse_start[row + 1]; e++)
        if (c->sparse_column[e] == column)
            w += c->sparse_value[e];
    return w;
}

#endif
