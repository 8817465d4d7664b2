/* compressed-tensors.
 *
 *   pack-quantized   weight_packed I32 [n, k bits / 32]: codes of 2, 4 or 8 bits along a row, the
 *                    first in the lowest bits, each 2^(bits - 1) above the integer q; weight_shape
 *                    [n, k]; weight_zero_point I32 [n bits / 32, groups], in the same way down a
 *                    column, or I8 [n, groups]; weight_g_idx I32 [k], the group of each column
 *   int-quantized    weight I8 [n, k]; weight_zero_point I8 [n, 1]
 *   float-quantized  weight F8_E4M3 [n, k]
 *   all              weight_scale [n, groups], [1] or a value for each block; w = (q - zero) scale
 *
 * quantization_config of config.json says which; what it says and this file does not compute is
 * refused by name. Rounding of inputs (input_activations) is that of our kernels where they have it
 * (int8 per token or fixed, weights with a scale per row); other rounding is left out, with a
 * warning. Source: the documentation of compressed-tensors, and what its package reads. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/quantized_internal.h"

static const char zero_point[] = ".weight_zero_point";

enum { GROUPS_MAX = 64, EXPRESSIONS_MAX = 1024 };

/* Which weights share a scale. */
typedef enum strategy { BY_ROW, BY_GROUP, BY_BLOCK, WHOLE } strategy;

/* How linears are stored: one of config_groups. */
typedef struct scheme {
    const char *name;
    const pare_json *targets;
    unsigned bits;
    bool is_float, symmetric, reordered, rounds_inputs;
    bool whole;        /* its format has no words */
    bool bits_missing; /* 8, which is said of bytes alone */
    strategy strategy;
    size_t group, rows;         /* columns that share a scale, and rows of a block */
    pare_activation activation; /* of inputs as kernels have it; bits 0: none */
} scheme;

typedef struct schemes {
    scheme scheme[GROUPS_MAX];
    pare__expression expression[EXPRESSIONS_MAX]; /* of targets "re:TEXT" */
    const scheme *of[EXPRESSIONS_MAX];
    size_t count, expressions;
} schemes;

/* Absent, null, {} or []. */
static bool is_empty(const pare_json *v)
{
    const pare_json_type t = pare_json_type_of(v);
    return t == PARE_JSON_ABSENT || t == PARE_JSON_NULL ||
           ((t == PARE_JSON_OBJECT || t == PARE_JSON_ARRAY) && pare_json_count(v) == 0);
}

static bool says(const pare_json *object, const char *key, const char *word)
{
    const char *const text = pare_json_text(pare_json_get(object, key), NULL);
    return text && strcmp(text, word) == 0;
}

/* Columns in groups, in their order or another. */
static pare_status read_group(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    const int64_t group = pare_json_integer(pare_json_get(weights, "group_size"), -1);
    const pare_json *const order = pare_json_get(weights, "actorder");
    if (group < 1 || group > PARE__SIDE_MAX)
        return pare__quantized_refuse(q, out->name, "weights.group_size",
                                      "a number of columns of 1 to 2^24 is expected");
    out->strategy = BY_GROUP;
    out->group = (size_t)group;
    out->reordered = says(weights, "actorder", "group") || says(weights, "actorder", "dynamic");
    if (!out->reordered && !is_empty(order) && !says(weights, "actorder", "static") &&
        !says(weights, "actorder", "weight"))
        return pare__quantized_refuse(q, out->name, "weights.actorder",
                                      "only group and weight are read");
    return PARE_OK;
}

static pare_status read_block(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    const pare_json *const block = pare_json_get(weights, "block_structure");
    const int64_t rows = pare_json_integer(pare_json_at(block, 0), -1);
    const int64_t columns = pare_json_integer(pare_json_at(block, 1), -1);
    if (!out->is_float || pare_json_count(block) != 2 || rows < 1 || rows > PARE__SIDE_MAX ||
        columns < 1 || columns > PARE__SIDE_MAX)
        return pare__quantized_refuse(q, out->name, "weights.block_structure",
                                      "rows and columns of blocks of floats are expected");
    out->strategy = BY_BLOCK;
    out->rows = (size_t)rows;
    out->group = (size_t)columns;
    return PARE_OK;
}

static pare_status read_strategy(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    if (says(weights, "strategy", "group"))
        return read_group(q, weights, out);
    if (says(weights, "strategy", "block"))
        return read_block(q, weights, out);
    if (!says(weights, "strategy", "channel") && !says(weights, "strategy", "tensor"))
        return pare__quantized_refuse(q, out->name, "weights.strategy",
                                      "only tensor, channel, group and block are read");
    out->strategy = says(weights, "strategy", "tensor") ? WHOLE : BY_ROW;
    return PARE_OK;
}

static pare_status read_expressions(const pare__quantized *q, const scheme *s)
{
    schemes *const all = q->settings;
    for (size_t i = 0; i < pare_json_count(s->targets); i++) {
        const char *const text = pare_json_text(pare_json_at(s->targets, i), NULL);
        if (!text || strncmp(text, "re:", 3) != 0)
            continue;
        if (all->expressions == EXPRESSIONS_MAX)
            return pare__quantized_refuse(q, s->name, "targets",
                                          "more than 1024 expressions are not read");
        PARE_TRY(pare__quantized_expression(q, "target re:", text + 3,
                                            &all->expression[all->expressions]));
        all->of[all->expressions++] = s;
    }
    return PARE_OK;
}

/* Names of formats; those that are not here hold weights in another way. */
static pare_status check_format(const pare__quantized *q, const char *where, const pare_json *of)
{
    static const char *const known[] = {"dense",           "pack-quantized",  "int-quantized",
                                        "float-quantized", "naive-quantized", "mixed-precision"};
    char what[256];
    bool found = is_empty(pare_json_get(of, "format"));
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= says(of, "format", known[i]);
    if (found)
        return PARE_OK;
    const char *const is = pare_json_text(pare_json_get(of, "format"), NULL);
    (void)snprintf(what, sizeof what,
                   "%.64s is not read; pack-quantized, int-quantized, float-quantized and "
                   "naive-quantized are",
                   is ? is : "what is no text");
    return pare__quantized_refuse(q, where, "format", what);
}

/* Whether a format stores each code in a byte; that of a group goes before that of all. */
static bool is_whole(const pare__quantized *q, const pare_json *group)
{
    const pare_json *const of = is_empty(pare_json_get(group, "format")) ? q->config : group;
    return says(of, "format", "int-quantized") || says(of, "format", "float-quantized") ||
           says(of, "format", "naive-quantized");
}

/* Rounding of inputs that our kernels do as well: to 8 bits, a scale per token or one for all,
 * where every row of the weights has one scale. */
static void read_inputs(const pare_json *v, scheme *out)
{
    const pare_json *const inputs = pare_json_get(v, "input_activations");
    const bool dynamic = pare_json_bool(pare_json_get(inputs, "dynamic"), false);
    out->rounds_inputs = !is_empty(inputs);
    if (!out->rounds_inputs || out->is_float || out->group || !out->symmetric ||
        pare_json_integer(pare_json_get(inputs, "num_bits"), 8) != 8 ||
        says(inputs, "type", "float") || !pare_json_bool(pare_json_get(inputs, "symmetric"), true))
        return;
    if (dynamic && says(inputs, "strategy", "token"))
        out->activation = (pare_activation){.mode = PARE_ACTIVATION_TOKEN, .bits = 8};
    else if (!dynamic && says(inputs, "strategy", "tensor"))
        out->activation = (pare_activation){.mode = PARE_ACTIVATION_TENSOR, .bits = 8};
}

static pare_status read_scheme(const pare__quantized *q, const char *name, const pare_json *v)
{
    schemes *const all = q->settings;
    scheme *const out = &all->scheme[all->count];
    const pare_json *const weights = pare_json_get(v, "weights");
    const pare_json *const width = pare_json_get(weights, "num_bits");
    const int64_t bits = is_empty(width) ? 8 : pare_json_integer(width, 0);
    if (all->count == GROUPS_MAX)
        return pare__quantized_refuse(q, "", "config_groups", "more than 64 groups are not read");
    *out = (scheme){.name = name, .targets = pare_json_get(v, "targets"), .bits = (unsigned)bits};
    if (pare_json_type_of(weights) != PARE_JSON_OBJECT)
        return pare__quantized_refuse(q, name, "weights",
                                      "a description of the weights is expected");
    out->is_float = says(weights, "type", "float");
    PARE_TRY(pare__quantized_flag(q, name, "weights.symmetric", pare_json_get(weights, "symmetric"),
                                  true, &out->symmetric));
    if (!out->is_float && !says(weights, "type", "int") &&
        !is_empty(pare_json_get(weights, "type")))
        return pare__quantized_refuse(q, name, "weights.type", "only int and float are read");
    out->bits_missing = is_empty(width);
    if (bits != 8 && ((bits != 2 && bits != 4) || out->is_float))
        return pare__quantized_refuse(q, name, "weights.num_bits",
                                      "only integers of 2, 4 and 8 bits and floats of 8 are read");
    if (pare_json_bool(pare_json_get(weights, "dynamic"), false))
        return pare__quantized_refuse(q, name, "weights.dynamic",
                                      "scales that are not stored are not read");
    if (!is_empty(pare_json_get(v, "output_activations")))
        return pare__quantized_refuse(q, name, "output_activations",
                                      "outputs that are rounded are not computed");
    all->count++;
    PARE_TRY(check_format(q, name, v));
    out->whole = is_whole(q, v);
    PARE_TRY(read_expressions(q, out));
    PARE_TRY(read_strategy(q, weights, out));
    read_inputs(v, out);
    return PARE_OK;
}

static pare_status begin(pare__quantized *q)
{
    static const char *const none[] = {"sparsity_config", "transform_config"};
    const pare_json *const groups = pare_json_get(q->config, "config_groups"), *v;
    const char *name;
    q->settings = PARE_NEW(q->scratch, schemes, 1);
    if (!q->settings)
        return PARE_ENOMEM;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!is_empty(
                pare_json_get(q->config, none[i])) && /* dense: zeros are stored as others are */
            !says(pare_json_get(q->config, none[i]), "format", "dense"))
            return pare__quantized_refuse(q, "", none[i], "is not read");
    if (!is_empty(pare_json_get(q->config, "kv_cache_scheme")) && !q->ck->listed)
        pare_warn(q->cx,
                  "%s: quantization_config: kv_cache_scheme is left out: pare keeps keys and "
                  "values as --kv says, in floats without it",
                  q->file);
    PARE_TRY(check_format(q, "", q->config));
    if (pare_json_type_of(groups) != PARE_JSON_OBJECT)
        return pare__quantized_refuse(q, "", "config_groups", "an object is expected");
    for (pare_json_iter it = {0}; pare_json_next(groups, &it, &name, &v);)
        PARE_TRY(read_scheme(q, name, v));
    return PARE_OK;
}

/* The group of which a target is `name`, NULL when there is none. */
static const scheme *named(const schemes *all, const char *name)
{
    for (size_t i = 0; i < all->count; i++)
        for (size_t j = 0; j < pare_json_count(all->scheme[i].targets); j++) {
            const char *const t = pare_json_text(pare_json_at(all->scheme[i].targets, j), NULL);
            if (t && strcmp(t, name) == 0)
                return &all->scheme[i];
        }
    return NULL;
}

/* The group that names a linear: by its name, else by an expression, else as one of all. */
static pare_status find_scheme(const pare__quantized *q, const char *name, const scheme **out)
{
    const schemes *const all = q->settings;
    size_t which = all->expressions;
    *out = named(all, name);
    if (!*out && all->expressions)
        PARE_TRY(pare__quantized_match(q, all->expression, all->expressions, name, &which));
    if (which < all->expressions)
        *out = all->of[which];
    *out = *out ? *out : named(all, "Linear");
    if (*out)
        return PARE_OK;
    return pare_fail(
        q->cx, PARE_EFORMAT,
        "%s: quantization_config: no group of config_groups names the linear %s, whose "
        "weights are quantized",
        q->file, name);
}

/* Rows and columns as weight_shape has them; a listing may come without data. */
static pare_status read_shape(const pare__quantized *q, pare__coded *c)
{
    static const char suffix[] = ".weight_shape";
    const pare_tensor *t = pare__quantized_find(q, c->name, suffix);
    const bool narrow = t && t->dtype == PARE_I32;
    int64_t is[2] = {0, 0};
    int32_t half[2];
    PARE_TRY(pare__quantized_take(q, c->name, suffix, narrow ? PARE_I32 : PARE_I64, 0, 2, &t));
    if (t->data && narrow) {
        memcpy(half, t->data, sizeof half);
        is[0] = half[0];
        is[1] = half[1];
    } else if (t->data) {
        memcpy(is, t->data, sizeof is);
    }
    if (is[0] < 1 || is[0] > PARE__SIDE_MAX || is[1] < 1 || is[1] > PARE__SIDE_MAX)
        return pare__quantized_wrong(q, c->name, suffix, "sizes are not within 1 to 2^24");
    c->n = (size_t)is[0];
    c->k = (size_t)is[1];
    c->bytes += t->bytes;
    return PARE_OK;
}

/* Zero points lie in words down the rows, or in bytes; a vector of one is that of all. */
static pare_status take_zeros(const pare__quantized *q, const scheme *s, bool packed,
                              pare__coded *c)
{
    const pare_tensor *const t = pare__quantized_find(q, c->name, zero_point);
    const size_t per = 32 / c->bits;
    const bool words = packed && t && t->dtype == PARE_I32;
    const bool one = s->strategy == WHOLE && t && t->rank == 1;
    PARE_TRY(pare__quantized_take(q, c->name, zero_point, words ? PARE_I32 : PARE_I8,
                                  one     ? 0
                                  : words ? (c->n + per - 1) / per
                                          : c->n,
                                  c->groups, &c->zeros));
    c->zero = (pare__fields){.data = t->data,
                             .line = !one,
                             .step = one ? 0 : c->groups,
                             .bits = words ? c->bits : 8,
                             .bytes = !words,
                             .flip = words ? 0 : 0x80,
                             .add = words ? 0 : (1 << (c->bits - 1)) - 0x80};
    c->bytes += t->bytes;
    return PARE_OK;
}

/* Floats have none, but bytes of zeros. */
static pare_status check_no_zeros(const pare__quantized *q, const pare__coded *c)
{
    const pare_tensor *const t = pare__quantized_find(q, c->name, zero_point);
    const char *const byte = t ? t->data : NULL;
    for (size_t i = 0; byte && i < t->bytes; i++)
        if (byte[i])
            return pare__quantized_wrong(q, c->name, zero_point,
                                         "zero points of floats are not read");
    return PARE_OK;
}

static pare_status take_scales(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    const size_t rows = s->strategy == BY_BLOCK ? s->rows : s->strategy == WHOLE ? c->n : 1;
    PARE_TRY(pare__quantized_scales(q, c->name, ".weight_scale", (c->n + rows - 1) / rows,
                                    c->groups, &c->scales));
    c->scale_rows = rows;
    c->scale_line = c->groups;
    c->scale_step = 1;
    c->bytes += c->scales->bytes;
    return PARE_OK;
}

/* The step of inputs, fixed at calibration. */
static pare_status take_inputs(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    static const char suffix[] = ".input_scale";
    const pare_tensor *t;
    c->rounds_inputs = s->rounds_inputs;
    c->activation = s->activation;
    if (s->activation.mode != PARE_ACTIVATION_TENSOR || !s->activation.bits)
        return PARE_OK;
    PARE_TRY(pare__quantized_scales(q, c->name, suffix, 1, 1, &t));
    if (!t->data)
        return PARE_OK;
    PARE_TRY(pare_tensor_to_f32(q->cx, t, 0, 1, &c->activation.scale));
    return isfinite(c->activation.scale) && c->activation.scale > 0
               ? PARE_OK
               : pare__quantized_wrong(q, c->name, suffix, "is no positive number");
}

static pare_status describe_packed(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    const size_t per = 32 / s->bits;
    if (s->is_float || s->strategy == BY_BLOCK)
        return pare__quantized_refuse(q, s->name, "weights", "floats in words are not read");
    if (s->bits_missing)
        return pare__quantized_refuse(q, s->name, "weights.num_bits",
                                      "missing; the bits of codes in words are expected");
    if (s->whole)
        return pare__quantized_wrong(q, c->name, ".weight_packed",
                                     "is there, but the format of quantization_config is one "
                                     "without words");
    PARE_TRY(read_shape(q, c));
    c->code = (pare__fields){
        .data = c->codes->data, .line = (c->k + per - 1) / per, .step = 1, .bits = s->bits};
    return pare__quantized_take(q, c->name, ".weight_packed", PARE_I32, c->n, c->code.line,
                                &c->codes);
}

static pare_status describe_whole(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    if (c->codes->rank != 2 || !c->codes->shape[0] || !c->codes->shape[1] ||
        c->codes->shape[0] > PARE__SIDE_MAX || c->codes->shape[1] > PARE__SIDE_MAX)
        return pare__quantized_wrong(q, c->name, ".weight", "is no matrix of codes");
    if (s->bits != 8)
        return pare__quantized_wrong(q, c->name, ".weight",
                                     "holds 8 bits, quantization_config says fewer");
    c->n = (size_t)c->codes->shape[0];
    c->k = (size_t)c->codes->shape[1];
    c->code = (pare__fields){.data = c->codes->data,
                             .line = c->k,
                             .step = 1,
                             .bits = 8,
                             .bytes = true,
                             .flip = s->is_float ? 0 : 0x80};
    return pare__quantized_take(q, c->name, ".weight", s->is_float ? PARE_F8_E4M3 : PARE_I8, c->n,
                                c->k, &c->codes);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    const scheme *s;
    const bool packed = c->codes->dtype == PARE_I32;
    PARE_TRY(find_scheme(q, c->name, &s));
    c->bits = s->bits;
    c->is_float = s->is_float;
    PARE_TRY(packed ? describe_packed(q, s, c) : describe_whole(q, s, c));
    c->group = s->group;
    c->groups = s->group ? (c->k + s->group - 1) / s->group : 1;
    PARE_TRY(take_scales(q, s, c));
    c->symmetric = s->symmetric && !s->is_float;
    if (s->is_float)
        PARE_TRY(check_no_zeros(q, c));
    else if (!s->symmetric || pare__quantized_find(q, c->name, zero_point))
        PARE_TRY(take_zeros(q, s, packed, c));
    if (s->reordered || pare__quantized_find(q, c->name, ".weight_g_idx"))
        PARE_TRY(pare__quantized_index(q, ".weight_g_idx", true, c));
    return take_inputs(q, s, c);
}

/* Bytes under this name hold codes, floats do not. */
static bool holds(const pare_tensor *t)
{
    return t->dtype == PARE_I32 || t->dtype == PARE_I8 || t->dtype == PARE_F8_E4M3;
}

static const char *const codes[] = {".weight_packed", ".weight", NULL};
static const char *const beside[] = {
    ".weight_scale", ".weight_shape",     ".weight_zero_point",  ".weight_g_idx",
    ".input_scale",  ".input_zero_point", ".input_global_scale", NULL};

const pare__method pare__compressed_tensors = {.name = "compressed-tensors",
                                               .codes = codes,
                                               .beside = beside,
                                               .begin = begin,
                                               .holds = holds,
                                               .describe = describe};
