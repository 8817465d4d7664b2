/* compressed-tensors.
 *
 *   pack-quantized   weight_packed I32 [n, k bits / 32]: codes of 2 to 8 bits along a row, the
 *                    first in the lowest bits, each 2^(bits - 1) above the integer q; before
 *                    version 0.18 [n, k / (32 / bits)], no code across two words
 *                    weight_shape [n, k]; weight_zero_point I32 in the same way down a column, or
 *                    I8 [n, groups]; weight_g_idx I32 [k], the group of each column
 *   int-quantized    weight I8 [n, k]; weight_zero_point I8 [n, 1]
 *   float-quantized  weight F8_E4M3 [n, k]
 *
 *   all of these     weight_scale [n, groups], [1] or a value for each block; w = (q - zero) scale
 *
 *   nvfp4-pack-quantized   weight_packed U8 [n, k / 2]: E2M1, the first code in the lower bits;
 *                          weight_scale F8_E4M3 [n, k / 16], weight_global_scale F32 [1];
 *                          w = q (scale / global scale), both rounded to F32
 *   mxfp4-pack-quantized   the same codes; weight_scale U8 [n, k / 32], powers of two plus 127
 *
 * quantization_config of config.json says which; what it says and this file does not compute is
 * refused by name. Rounding of inputs (input_activations) is that of our kernels where they have it
 * (int8 per token or fixed, weights with a scale per row); other rounding is left out, with a
 * warning. Source: the documentation of compressed-tensors, and what its package reads. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/quantized_internal.h"
#include "kernels/levels.h"

static const char zero_point[] = ".weight_zero_point";

enum { GROUPS_MAX = 64, EXPRESSIONS_MAX = 1024 };

/* How a format stores the codes of a linear: in words, each in a byte, or two of E2M1 in one. ANY:
 * in words or bytes, as the linear has them. */
typedef enum form { ANY, WORDS, BYTES, PAIRS } form;

typedef struct layout {
    const char *name;
    form form;
    const char *strategy; /* this and what follows: of PAIRS, which have no other */
    size_t group;
    pare_dtype scales;
} layout;

/* Formats that are not here store weights in another way. */
static const layout layouts[] = {
    {.name = "pack-quantized", .form = WORDS},
    {.name = "int-quantized", .form = BYTES},
    {.name = "float-quantized", .form = BYTES},
    {.name = "naive-quantized", .form = BYTES},
    {"nvfp4-pack-quantized", PAIRS, "tensor_group", 16, PARE_F8_E4M3},
    {"mxfp4-pack-quantized", PAIRS, "group", 32, PARE_U8},
    {.name = "mixed-precision", .form = ANY},
    {.name = "dense", .form = ANY},
};

/* Which weights share a scale. */
typedef enum strategy { BY_ROW, BY_GROUP, BY_BLOCK, WHOLE } strategy;

/* How linears are stored: one of config_groups. */
typedef struct scheme {
    const char *name;
    const pare_json *targets;
    const layout *layout;
    int64_t said; /* num_bits; 8 without */
    unsigned bits;
    bool is_float, symmetric, reordered, rounds_inputs;
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
    pare__expression *ignored; /* of names "re:TEXT" to ignore */
    size_t ignoreds;
    const layout *layout; /* of groups that say nothing */
    bool apart;           /* version before 0.18: no code across two words */
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

/* Whether columns are stored in their order, whatever that of the rounding was. */
static bool in_order(const pare_json *weights)
{
    return is_empty(pare_json_get(weights, "actorder")) || says(weights, "actorder", "static") ||
           says(weights, "actorder", "weight");
}

/* Columns in groups, in their order or another. */
static pare_status read_group(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    const int64_t group = pare_json_integer(pare_json_get(weights, "group_size"), -1);
    if (group < 1 || group > PARE__SIDE_MAX)
        return pare__quantized_refuse(q, out->name, "weights.group_size",
                                      "a number of columns of 1 to 2^24 is expected");
    out->strategy = BY_GROUP;
    out->group = (size_t)group;
    out->reordered = says(weights, "actorder", "group") || says(weights, "actorder", "dynamic");
    if (!out->reordered && !in_order(weights))
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

/* Formats of pairs have one description, of which the first that differs is told. */
static pare_status read_pairs(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    char what[160];
    const layout *const l = out->layout;
    const int64_t group = pare_json_integer(pare_json_get(weights, "group_size"), -1);
    const char *const wrong = !out->is_float                            ? "weights.type"
                              : out->said != 4                          ? "weights.num_bits"
                              : !out->symmetric                         ? "weights.symmetric"
                              : !says(weights, "strategy", l->strategy) ? "weights.strategy"
                              : group != (int64_t)l->group              ? "weights.group_size"
                              : !in_order(weights)                      ? "weights.actorder"
                                                                        : NULL;
    out->strategy = BY_GROUP;
    out->group = l->group;
    if (!wrong)
        return PARE_OK;
    (void)snprintf(
        what, sizeof what,
        "%s has symmetric floats of 4 bits, strategy %s, group_size %zu and columns in order",
        l->name, l->strategy, l->group);
    return pare__quantized_refuse(q, out->name, wrong, what);
}

static pare_status read_strategy(const pare__quantized *q, const pare_json *weights, scheme *out)
{
    if (out->layout->form == PAIRS)
        return read_pairs(q, weights, out);
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

/* The format that a group or, in its place, quantization_config names; `absent` without one. */
static pare_status read_layout(const pare__quantized *q, const char *where, const pare_json *of,
                               const layout *absent, const layout **out)
{
    const char *const is = pare_json_text(pare_json_get(of, "format"), NULL);
    char what[256];
    *out = is_empty(pare_json_get(of, "format")) ? absent : NULL;
    for (size_t i = 0; is && i < sizeof layouts / sizeof *layouts; i++)
        *out = strcmp(is, layouts[i].name) == 0 ? &layouts[i] : *out;
    if (*out)
        return PARE_OK;
    (void)snprintf(what, sizeof what,
                   "%.64s is not read; pack-quantized, int-quantized, float-quantized, "
                   "naive-quantized, nvfp4-pack-quantized and mxfp4-pack-quantized are",
                   is ? is : "what is no text");
    return pare__quantized_refuse(q, where, "format", what);
}

/* Rounding of inputs that our kernels do as well: to 8 bits, a scale per token or one for all of
 * integers, where every row of the weights has one scale. */
static pare_status read_inputs(const pare__quantized *q, const pare_json *v, scheme *out)
{
    const pare_json *const inputs = pare_json_get(v, "input_activations");
    const pare_json *const bits = pare_json_get(inputs, "num_bits");
    const bool dynamic = pare_json_bool(pare_json_get(inputs, "dynamic"), false);
    out->rounds_inputs = !is_empty(inputs);
    if (!is_empty(bits) && pare_json_type_of(bits) != PARE_JSON_INTEGER)
        return pare__quantized_refuse(q, out->name, "input_activations.num_bits",
                                      "a whole number is expected");
    if (!out->rounds_inputs || out->group || !out->symmetric || pare_json_integer(bits, 8) != 8 ||
        says(inputs, "type", "float") != out->is_float ||
        !pare_json_bool(pare_json_get(inputs, "symmetric"), true))
        return PARE_OK;
    if (dynamic && says(inputs, "strategy", "token"))
        out->activation = (pare_activation){
            .mode = out->is_float ? PARE_ACTIVATION_FLOAT : PARE_ACTIVATION_TOKEN, .bits = 8};
    else if (!out->is_float && !dynamic && says(inputs, "strategy", "tensor"))
        out->activation = (pare_activation){.mode = PARE_ACTIVATION_TENSOR, .bits = 8};
    return PARE_OK;
}

static int64_t said_bits(const pare_json *weights)
{
    const pare_json *const width = pare_json_get(weights, "num_bits");
    return is_empty(width) ? 8 : pare_json_integer(width, 0);
}

static pare_status refuse_bits(const pare__quantized *q, const char *name, const pare_json *weights,
                               bool is_float)
{
    char is[64] = "a whole number is expected", what[192];
    if (pare_json_type_of(pare_json_get(weights, "num_bits")) == PARE_JSON_INTEGER)
        (void)snprintf(is, sizeof is, "%" PRId64 " bit%s for %s", said_bits(weights),
                       said_bits(weights) == 1 ? "" : "s", is_float ? "floats" : "integers");
    (void)snprintf(what, sizeof what, "%s; %s", is,
                   is_float ? "8 are read, and 4 in nvfp4-pack-quantized and mxfp4-pack-quantized"
                            : "2 to 8 are read");
    return pare__quantized_refuse(q, name, "weights.num_bits", what);
}

static pare_status read_scheme(const pare__quantized *q, const char *name, const pare_json *v)
{
    schemes *const all = q->settings;
    scheme *const out = &all->scheme[all->count];
    const pare_json *const weights = pare_json_get(v, "weights");
    const int64_t bits = said_bits(weights);
    if (all->count == GROUPS_MAX)
        return pare__quantized_refuse(q, "", "config_groups", "more than 64 groups are not read");
    *out = (scheme){
        .name = name, .targets = pare_json_get(v, "targets"), .said = bits, .bits = (unsigned)bits};
    if (pare_json_type_of(weights) != PARE_JSON_OBJECT)
        return pare__quantized_refuse(q, name, "weights",
                                      "a description of the weights is expected");
    out->is_float = says(weights, "type", "float");
    PARE_TRY(pare__quantized_flag(q, name, "weights.symmetric", pare_json_get(weights, "symmetric"),
                                  true, &out->symmetric));
    if (!out->is_float && !says(weights, "type", "int") &&
        !is_empty(pare_json_get(weights, "type")))
        return pare__quantized_refuse(q, name, "weights.type", "only int and float are read");
    out->bits_missing = is_empty(pare_json_get(weights, "num_bits"));
    PARE_TRY(read_layout(q, name, v, all->layout, &out->layout));
    if (out->layout->form != PAIRS && (bits < 2 || bits > 8 || (out->is_float && bits != 8)))
        return refuse_bits(q, name, weights, out->is_float);
    if (pare_json_bool(pare_json_get(weights, "dynamic"), false))
        return pare__quantized_refuse(q, name, "weights.dynamic",
                                      "scales that are not stored are not read");
    if (!is_empty(pare_json_get(v, "output_activations")))
        return pare__quantized_refuse(q, name, "output_activations",
                                      "outputs that are rounded are not computed");
    all->count++;
    PARE_TRY(read_expressions(q, out));
    PARE_TRY(read_strategy(q, weights, out));
    return read_inputs(q, v, out);
}

/* Whether it names a version before 0.18. */
static bool packs_apart(const pare__quantized *q)
{
    const char *const version = pare_json_text(pare_json_get(q->config, "version"), NULL);
    char *end;
    if (!version || strncmp(version, "0.", 2) != 0)
        return false;
    const unsigned long minor = strtoul(version + 2, &end, 10);
    return end != version + 2 && minor < 18;
}

/* Names that hold no codes say nothing that is needed, but one that no program can read hides what
 * was meant, and one that a linear with codes has contradicts it. */
static pare_status read_ignored(const pare__quantized *q)
{
    const pare_json *const list = pare_json_get(q->config, "ignore");
    schemes *const all = q->settings;
    all->ignored = PARE_NEW(q->scratch, pare__expression, pare_json_count(list));
    if (!all->ignored)
        return PARE_ENOMEM;
    for (size_t i = 0; i < pare_json_count(list); i++) {
        const char *const text = pare_json_text(pare_json_at(list, i), NULL);
        if (text && strncmp(text, "re:", 3) == 0)
            PARE_TRY(pare__quantized_expression(q, "ignore re:", text + 3,
                                                &all->ignored[all->ignoreds++]));
    }
    return PARE_OK;
}

/* Names themselves are compared for every method. */
static pare_status check_not_ignored(const pare__quantized *q, const char *name)
{
    const schemes *const all = q->settings;
    size_t which;
    if (!all->ignoreds)
        return PARE_OK;
    PARE_TRY(pare__quantized_match(q, all->ignored, all->ignoreds, name, &which));
    if (which == all->ignoreds)
        return PARE_OK;
    return pare_fail(q->cx, PARE_EFORMAT,
                     "%s: quantization_config: ignore re:%.200s names the linear %s, whose weights "
                     "are quantized",
                     q->file, all->ignored[which].text, name);
}

static pare_status begin(pare__quantized *q)
{
    static const char *const none[] = {"sparsity_config", "transform_config"};
    static const layout unnamed = {.form = ANY};
    const pare_json *const groups = pare_json_get(q->config, "config_groups"), *v;
    const char *name;
    schemes *const all = q->settings = PARE_NEW(q->scratch, schemes, 1);
    if (!all)
        return PARE_ENOMEM;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!is_empty(
                pare_json_get(q->config, none[i])) && /* dense: zeros are stored as others are */
            !says(pare_json_get(q->config, none[i]), "format", "dense"))
            return pare__quantized_refuse(q, "", none[i], "is not read");
    PARE_TRY(read_ignored(q));
    pare__quantized_warn_cache(q);
    PARE_TRY(read_layout(q, "", q->config, &unnamed, &all->layout));
    all->apart = packs_apart(q);
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

/* Words of a line of fields. */
static size_t words_of(size_t count, unsigned bits, size_t per)
{
    return per ? (count + per - 1) / per : (count * bits + 31) / 32;
}

/* Zero points lie in words down the rows, or in bytes; a vector of one is that of all. */
static pare_status take_zeros(const pare__quantized *q, const scheme *s, bool packed,
                              pare__coded *c)
{
    const pare_tensor *const t = pare__quantized_find(q, c->name, zero_point);
    const bool words = packed && t && t->dtype == PARE_I32;
    const bool one = s->strategy == WHOLE && t && t->rank == 1;
    PARE_TRY(pare__quantized_take(q, c->name, zero_point, words ? PARE_I32 : PARE_I8,
                                  one     ? 0
                                  : words ? words_of(c->n, c->bits, c->code.per)
                                          : c->n,
                                  c->groups, &c->zeros));
    c->zero = (pare__fields){.data = t->data,
                             .line = !one,
                             .step = one ? 0 : c->groups,
                             .bits = words ? c->bits : 8,
                             .per = words ? c->code.per : 0,
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
    static const char suffix[] = ".weight_scale", global[] = ".weight_global_scale";
    const size_t rows = s->strategy == BY_BLOCK ? s->rows : s->strategy == WHOLE ? c->n : 1;
    if (s->layout->form == PAIRS)
        PARE_TRY(pare__quantized_take(q, c->name, suffix, s->layout->scales, c->n, c->groups,
                                      &c->scales));
    else
        PARE_TRY(pare__quantized_scales(q, c->name, suffix, (c->n + rows - 1) / rows, c->groups,
                                        &c->scales));
    if (c->scales->dtype == PARE_F8_E4M3)
        PARE_TRY(pare__quantized_number(q, global, c, &c->divisor));
    else if (pare__quantized_find(q, c->name, global))
        return pare__quantized_wrong(q, c->name, global, "is there, but the format has none");
    c->scale_rows = rows;
    c->scale_line = c->groups;
    c->scale_step = 1;
    c->bytes += c->scales->bytes;
    return PARE_OK;
}

/* The step of inputs is fixed at calibration. */
static pare_status take_inputs(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    c->rounds_inputs = s->rounds_inputs;
    c->activation = s->activation;
    if (s->activation.mode != PARE_ACTIVATION_TENSOR || !s->activation.bits)
        return PARE_OK;
    return pare__quantized_number(q, ".input_scale", c, &c->activation.scale);
}

static pare_status describe_words(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    const size_t per = 32 / s->bits;
    if (s->is_float || s->strategy == BY_BLOCK)
        return pare__quantized_refuse(q, s->name, "weights", "floats in words are not read");
    if (s->bits_missing)
        return pare__quantized_refuse(q, s->name, "weights.num_bits",
                                      "missing; the bits of codes in words are expected");
    if (s->layout->form == BYTES)
        return pare__quantized_wrong(q, c->name, ".weight_packed",
                                     "is there, but the format of quantization_config is one "
                                     "without words");
    PARE_TRY(read_shape(q, c));
    c->code = (pare__fields){
        .data = c->codes->data, .line = words_of(c->k, s->bits, 0), .step = 1, .bits = s->bits};
    const bool dense = c->codes->shape[1] == c->code.line; /* both may have as many words */
    const bool apart = c->codes->shape[1] == words_of(c->k, s->bits, per);
    if (apart && (!dense || ((const schemes *)q->settings)->apart)) {
        c->code.per = per;
        c->code.line = words_of(c->k, s->bits, per);
    }
    return pare__quantized_take(q, c->name, ".weight_packed", PARE_I32, c->n, c->code.line,
                                &c->codes);
}

static pare_status describe_bytes(const pare__quantized *q, const scheme *s, pare__coded *c)
{
    PARE_TRY(pare__quantized_sizes(q, ".weight", 1, c));
    if (s->bits != 8)
        return pare__quantized_wrong(q, c->name, ".weight",
                                     "holds 8 bits, quantization_config says fewer");
    c->code = (pare__fields){.data = c->codes->data,
                             .line = c->k,
                             .step = 1,
                             .bits = 8,
                             .bytes = true,
                             .flip = s->is_float ? 0 : 0x80};
    return pare__quantized_take(q, c->name, ".weight", s->is_float ? PARE_F8_E4M3 : PARE_I8, c->n,
                                c->k, &c->codes);
}

/* A number of groups fits many sizes; only whole groups tell the right one. A row that is shorter
 * than a group is one. */
static pare_status check_group(const pare__quantized *q, const scheme *s, const pare__coded *c)
{
    char what[256];
    if (s->strategy != BY_GROUP || c->k <= s->group || c->k % s->group == 0)
        return PARE_OK;
    (void)snprintf(what, sizeof what, "%zu does not divide the %zu columns of %.128s", s->group,
                   c->k, c->name);
    return pare__quantized_refuse(q, s->name, "weights.group_size", what);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    static const char order[] = ".weight_g_idx";
    const scheme *s;
    const bool words = c->codes->dtype == PARE_I32;
    PARE_TRY(check_not_ignored(q, c->name));
    PARE_TRY(find_scheme(q, c->name, &s));
    const bool pairs = s->layout->form == PAIRS;
    c->bits = s->bits;
    c->level = !s->is_float ? NULL : pairs ? pare_levels_e2m1 : pare_levels_e4m3;
    c->group = s->group;
    PARE_TRY(pairs   ? pare__quantized_pairs(q, ".weight_packed", c)
             : words ? describe_words(q, s, c)
                     : describe_bytes(q, s, c));
    PARE_TRY(check_group(q, s, c));
    c->groups = s->group ? (c->k + s->group - 1) / s->group : 1;
    PARE_TRY(take_scales(q, s, c));
    c->symmetric = s->symmetric && !s->is_float;
    if (s->is_float)
        PARE_TRY(check_no_zeros(q, c));
    else if (!s->symmetric || pare__quantized_find(q, c->name, zero_point))
        PARE_TRY(take_zeros(q, s, words, c));
    const bool ordered = s->reordered || pare__quantized_find(q, c->name, order);
    if (ordered && pairs)
        return pare__quantized_wrong(q, c->name, order,
                                     "is there, but columns of the format lie in order");
    if (ordered)
        PARE_TRY(pare__quantized_index(q, order, true, c));
    return take_inputs(q, s, c);
}

/* Bytes under this name hold codes, floats do not. */
static bool holds(const pare_tensor *t)
{
    return t->dtype == PARE_I32 || t->dtype == PARE_I8 || t->dtype == PARE_U8 ||
           t->dtype == PARE_F8_E4M3;
}

static const char *const codes[] = {".weight_packed", ".weight", NULL};
static const char *const beside[] = {
    ".weight_scale",     ".weight_shape",        ".weight_zero_point",
    ".weight_g_idx",     ".weight_global_scale", ".input_scale",
    ".input_zero_point", ".input_global_scale",  NULL};

const pare__method pare__compressed_tensors = {.name = "compressed-tensors",
                                               .codes = codes,
                                               .beside = beside,
                                               .begin = begin,
                                               .holds = holds,
                                               .describe = describe};
