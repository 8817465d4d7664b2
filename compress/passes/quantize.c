#include "compress/passes/quantize.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "kernels/layout.h"
#include "quant/rtn.h"

const pare_word pare_quantize_bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {NULL, 0}};
const pare_word pare_quantize_row[] = {{"row", 0}, {NULL, 0}};
const pare_word pare_quantize_clip[] = {
    {"none", PARE_CLIP_NONE}, {"mse", PARE_CLIP_MSE}, {NULL, 0}};
const pare_word pare_quantize_sweep_clip[] = {
    {"none", PARE_CLIP_NONE}, {"mse", PARE_CLIP_MSE}, {"weighted", PARE_CLIP_WEIGHTED}, {NULL, 0}};
const pare_word pare_quantize_tail[] = {{"short", 0}, {"error", 1}, {NULL, 0}};

enum { INT8, INT8_TOKEN, INT8_TENSOR, INT4 };
const pare_word pare_quantize_activations[] = {{"int8", INT8},
                                               {"int8_token", INT8_TOKEN},
                                               {"int8_tensor", INT8_TENSOR},
                                               {"int4", INT4},
                                               {NULL, 0}};

pare_activation pare_quantize_activation(double choice)
{
    switch ((int)choice) {
    case INT8_TOKEN: return (pare_activation){.mode = PARE_ACTIVATION_TOKEN, .bits = 8};
    case INT8_TENSOR: return (pare_activation){.mode = PARE_ACTIVATION_TENSOR, .bits = 8};
    case INT4: return (pare_activation){.mode = PARE_ACTIVATION_GROUP, .bits = 4};
    default: return (pare_activation){.mode = PARE_ACTIVATION_GROUP, .bits = 8};
    }
}

pare_status pare_quantize_store(pare_ctx *cx, const double *value, size_t n, size_t k,
                                pare_packed_linear *out)
{
    const size_t group = (size_t)value[PARE_QUANTIZE_GROUP];
    char groups[PARE_GROUPS_TEXT];
    if (group && value[PARE_QUANTIZE_TAIL] != 0.0 && k % group != 0)
        return pare_fail(cx, PARE_ESHAPE,
                         "group %zu does not divide the %zu inputs of a row and tail is error; "
                         "take group %s, or tail: short",
                         group, k, pare_grid_groups_text(k, 256, groups));
    out->n = n;
    out->k = k;
    out->bits = (unsigned)value[PARE_QUANTIZE_BITS];
    out->group = group < k ? group : 0;
    out->symmetric = value[PARE_QUANTIZE_SYMMETRIC] != 0.0;
    return PARE_OK;
}

pare_grid pare_quantize_grid(const double *value)
{
    return (pare_grid){.bits = (unsigned)value[PARE_QUANTIZE_BITS],
                       .group = (size_t)value[PARE_QUANTIZE_GROUP],
                       .symmetric = value[PARE_QUANTIZE_SYMMETRIC] != 0.0,
                       .clip = (pare_clip)value[PARE_QUANTIZE_CLIP],
                       .f16_scales = true};
}

pare_grid pare_quantize_search_grid(const double *value)
{
    pare_grid g = pare_quantize_grid(value);
    if (g.clip == PARE_CLIP_WEIGHTED)
        g.clip = PARE_CLIP_NONE;
    return g;
}

double pare_quantize_tries(const double *value)
{
    switch ((pare_clip)value[PARE_QUANTIZE_CLIP]) { /* measured on a model of 135M parameters */
    case PARE_CLIP_MSE:
        return value[PARE_QUANTIZE_SYMMETRIC] != 0.0 ? PARE_QUANTIZE_TRIES_SYMMETRIC : 140;
    case PARE_CLIP_WEIGHTED: return 290;
    case PARE_CLIP_NONE: break;
    }
    return 1;
}

pare_status pare_quantize_keep(const pare_grid *grid, size_t n, size_t k, pare_packed_linear *out)
{
    out->n = n;
    out->k = k;
    out->bits = grid->bits;
    out->group = grid->group < k ? grid->group : 0;
    out->symmetric = grid->encoding != PARE_ENCODING_UNIFORM || grid->symmetric;
    out->encoding = grid->encoding;
    return PARE_OK;
}

pare_status pare_quantize_round(pare_ctx *cx, const pare_grid *grid, const float *cost,
                                pare_pass_linear *linear, pare_arena *scratch)
{
    PARE_TRY(pare_codes_take(scratch, grid, linear->n, linear->k, linear->codes));
    return pare_rtn_quantize(cx, grid, linear->w, cost, linear->n, linear->k, linear->codes);
}

pare_grid pare_quantize_stand_in(unsigned bits)
{
    return (pare_grid){.bits = bits, .clip = PARE_CLIP_MSE, .f16_scales = true};
}

pare_status pare_quantize_diagonal(pare_arena *scratch, const float *h, size_t k, float **out)
{
    *out = PARE_NEW(scratch, float, k);
    for (size_t j = 0; *out && j < k; j++)
        (*out)[j] = h[j * (k + 1)];
    return *out ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_quantize_factor(pare_ctx *cx, const pare_factor_opts *opts,
                                 const pare_site_stats *stats, pare_arena *scratch, void **state)
{
    pare_factor *const factor = PARE_NEW(scratch, pare_factor, 1);
    pare_factor_opts known = *opts;
    known.diagonal = stats->identity;
    *state = factor;
    return factor ? pare_factorize(cx, scratch, &known, stats->h, stats->k, factor) : PARE_ENOMEM;
}

size_t pare_quantize_factor_bytes(size_t k)
{
    return k * k * sizeof(float) + k * 64;
}

size_t pare_quantize_factoring_bytes(size_t k)
{
    return pare_quantize_factor_bytes(k) + (size_t)pare_factor_bytes(k);
}

void pare_quantize_ladder(const pare_factor *factor, pare_linear_result *result)
{
    result->damp = (double)factor->damping.damp;
    result->raises = factor->damping.raises;
    result->f64 = factor->damping.f64;
    result->dead = factor->damping.dead;
    result->fallback = factor->damping.failed;
}

void pare_quantize_note(pare_pass_linear *linear, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(linear->note, sizeof linear->note, format, args);
    va_end(args);
}

pare_activation pare_quantize_float(const double *value)
{
    (void)value;
    return (pare_activation){.mode = PARE_ACTIVATION_FLOAT};
}

pare_activation pare_quantize_token(const double *value)
{
    (void)value;
    return (pare_activation){.mode = PARE_ACTIVATION_TOKEN, .bits = 8};
}
