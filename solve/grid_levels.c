/* Codes and values of the grids that are not uniform. Levels are found by comparing with the
 * midpoints between neighbours; E4M3 by rounding the number. */
#include <math.h>
#include <string.h>

#include "kernels/e4m3.h"
#include "kernels/levels.h"
#include "solve/exl3_values.h"
#include "solve/super.h"

/* Nearest of ascending levels, the lower one of two. */
static uint8_t nearest(const float *level, unsigned levels, float t)
{
    unsigned code = 0;
    for (unsigned i = 0; i + 1 < levels; i++)
        code += t > (level[i] + level[i + 1]) * 0.5F;
    return (uint8_t)code;
}

/* An odd code gives way to an even one on a tie. */
static uint8_t encode_e2m1(float t)
{
    const float a = fabsf(t);
    unsigned code = 0;
    for (unsigned i = 0; i < 7; i++) {
        const float middle = (pare_levels_e2m1[i] + pare_levels_e2m1[i + 1]) * 0.5F;
        code += i % 2 ? a >= middle : a > middle;
    }
    return (uint8_t)(code && t < 0 ? code | 8 : code);
}

uint8_t pare_grid_encode(const pare_grid *g, size_t row, float w, float scale, uint8_t zero)
{
    const unsigned levels = 1u << g->bits;
    const float t = scale != 0 ? w / scale : 0;
    switch (g->encoding) {
    case PARE_ENCODING_TERNARY: {
        const uint8_t code = pare_grid_code(2, w, scale, 1);
        return code < 2 ? code : 2;
    }
    case PARE_ENCODING_NF4: return nearest(pare_levels_nf4, 16, t);
    case PARE_ENCODING_FP8: return pare_f32_to_e4m3(t);
    case PARE_ENCODING_MXFP4:
    case PARE_ENCODING_NVFP4: return encode_e2m1(t);
    case PARE_ENCODING_CODEBOOK: return nearest(g->book + row * levels, levels, w);
    default: return pare_grid_code(g->bits, w, scale, zero);
    }
}

float pare_grid_decode(const pare_grid *g, size_t row, uint8_t code, float scale, uint8_t zero)
{
    const pare_encoding_row *const own = &pare_encodings[g->encoding];
    if (own->level)
        return own->level[code & ((1u << g->bits) - 1)] * scale;
    if (own->decoding == PARE_DECODE_BOOK)
        return g->book[(row << g->bits) + code];
    return pare_grid_value(code, scale, zero);
}

/* The same of a super-block. */
static pare_grid_fault round_super(pare_encoding e, const float *w, float *q)
{
    float scale, minimum;
    uint8_t sub[PARE_SUPER_BYTES];
    const pare_grid_fault fault = pare_super_fit(e, w, NULL, &scale, &minimum, sub);
    for (size_t j = 0; j < PARE_SUPER && fault == PARE_GRID_OK; j++) {
        const uint8_t *const at = sub + j / pare_super_sub(e) * pare_super_bytes(e);
        const pare_sub_grid g = pare_super_grid(e, scale, minimum, at);
        q[j] = pare_super_value(&g, pare_super_code(&g, w[j]));
    }
    return fault;
}

pare_grid_fault pare_grid_round(const pare_kernels *kernels, const pare_grid *g, size_t row,
                                const float *w, size_t count, float *q)
{
    float scale;
    uint8_t zero;
    if (pare_encoding_is_super(g->encoding))
        return round_super(g->encoding, w, q);
    const pare_grid_fault fault = pare_grid_fit(kernels, g, w, count, &scale, &zero);
    for (size_t j = 0; j < count && fault == PARE_GRID_OK; j++)
        q[j] = pare_encodings[g->encoding].uniform
                   ? pare_grid_value(pare_grid_code(g->bits, w[j], scale, zero), scale, zero)
                   : pare_grid_decode(g, row, pare_grid_encode(g, row, w[j], scale, zero), scale,
                                      zero);
    return fault;
}

/* Two signs of a column of a BINARY group. */
static float binary_value(const float *magnitude, uint8_t code, bool salient)
{
    const float first = magnitude[salient ? 2 : code >> 1 & 1], second = magnitude[3],
                a = code & 1 ? first : -first;
    if (!salient)
        return a;
    return a + (code & 2 ? second : -second);
}

static float value_at(const pare_grid *g, const pare_codes *c, size_t i, size_t j)
{
    const size_t at = i * c->groups + (g->group ? j / g->group : 0);
    const pare_decoding how = pare_encodings[g->encoding].decoding;
    if (c->values)
        return c->values[i * c->k + j];
    const uint8_t code = c->codes[i * c->k + j];
    if (how == PARE_DECODE_SUPER) {
        const pare_sub_grid s = pare_super_column(c, g->encoding, i, j);
        return pare_super_value(&s, code);
    }
    if (how == PARE_DECODE_BINARY)
        return binary_value(c->book + at * 4, code, c->salient[j]);
    if (how == PARE_DECODE_BOOK)
        return c->book[(i << g->bits) + code];
    return pare_grid_decode(g, i, code, c->scales[at], c->zeros[at]);
}

void pare_codes_values(const pare_grid *g, const pare_codes *c, float *dst)
{
    if (pare_encoding_turns(g->encoding)) {
        pare_exl3_codes_values(c, g->bits, dst);
        return;
    }
    for (size_t i = 0; i < c->n; i++) {
        float *const row = dst + i * c->k;
        for (size_t j = 0; j < c->k; j++)
            row[j] = value_at(g, c, i, j);
        for (size_t o = 0; o < c->outliers; o++) {
            const size_t at = i * c->outliers + o;
            row[c->outlier_column[o]] = c->outlier_weight
                                            ? c->outlier_weight[at]
                                            : (float)c->outlier_code[at] * c->outlier_scale[i];
        }
        for (size_t e = c->sparse ? c->sparse_start[i] : 0; c->sparse && e < c->sparse_start[i + 1];
             e++)
            row[c->sparse_column[e]] += c->sparse_value[e];
    }
}
