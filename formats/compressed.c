/* Linears of a checkpoint in compressed-tensors as the floats that they stand for.
 *
 *   pack-quantized   weight_packed I32 [n, k bits / 32]: codes of 4 or 8 bits along a row, the
 * first in the lowest bits, each 2^(bits - 1) above the integer q; weight_shape [n, k];
 *                    weight_zero_point I32 [n bits / 32, groups], in the same way down a column
 *   int-quantized    weight I8 [n, k]
 *   float-quantized  weight F8_E4M3 [n, k]
 *   all              weight_scale [n, groups]; w = (q - zero) scale in F32
 *
 * quantization_config of config.json says which; what it says and this file does not compute is
 * refused by name. Rounding of inputs (input_activations) belongs to kernels and is left out, with
 * a warning. Source: the documentation of compressed-tensors, and what its package reads. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "kernels/levels.h"
#include "runtime/regex.h"

enum { NAME = 1024, SIDE_MAX = 1 << 24, GROUPS_MAX = 64, EXPRESSIONS_MAX = 1024 };
enum { BUDGET = 1 << 24 }; /* steps of all expressions on one name */

/* How linears are stored: one of config_groups. */
typedef struct scheme {
    const char *name;
    const pare_json *targets;
    unsigned bits;
    bool is_float, symmetric;
    size_t group; /* columns that share a scale; 0: all */
} scheme;

/* A target "re:TEXT" of one of them. */
typedef struct expression {
    const char *text;
    const pare_regex *regex;
    const scheme *of;
} expression;

/* A tensor of the list that is made. */
typedef struct entry {
    pare_tensor tensor;
    uint32_t file;
    pare_stored stored;
} entry;

typedef struct unpacking {
    pare_checkpoint *ck;
    pare_ctx *cx;
    pare_arena *arena, *scratch;
    const char *file; /* config.json, for messages */
    scheme scheme[GROUPS_MAX];
    expression *expression; /* [EXPRESSIONS_MAX] */
    size_t schemes, expressions, linears;
    bool rounds_inputs;
    entry *out;
    size_t count;
} unpacking;

static pare_status refuse(const unpacking *u, const char *where, const char *key, const char *what)
{
    return pare_fail(u->cx, PARE_ENOTSUP, "%s: quantization_config: %s%s%s: %s", u->file, where,
                     where[0] ? "." : "", key, what);
}

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

static pare_status read_strategy(const unpacking *u, const pare_json *weights, scheme *out)
{
    const int64_t group = pare_json_integer(pare_json_get(weights, "group_size"), -1);
    const pare_json *const order = pare_json_get(weights, "actorder");
    if (!is_empty(order) && !says(weights, "actorder", "static") &&
        !says(weights, "actorder", "weight"))
        return refuse(u, out->name, "weights.actorder", "columns in another order are not read");
    if (says(weights, "strategy", "channel"))
        return PARE_OK;
    if (!says(weights, "strategy", "group"))
        return refuse(u, out->name, "weights.strategy", "only group and channel are read");
    if (group < 1 || group > SIDE_MAX)
        return refuse(u, out->name, "weights.group_size", "a number of columns is expected");
    out->group = (size_t)group;
    return PARE_OK;
}

static pare_status fail_expression(const unpacking *u, pare_status s, const char *text)
{
    return s == PARE_EFORMAT || s == PARE_ENOTSUP
               ? pare_fail_context(u->cx, s, "%s: quantization_config: target re:%.200s", u->file,
                                   text)
               : s;
}

static pare_status read_expressions(unpacking *u, const scheme *s)
{
    for (size_t i = 0; i < pare_json_count(s->targets); i++) {
        const char *const text = pare_json_text(pare_json_at(s->targets, i), NULL);
        pare_regex *regex;
        if (!text || strncmp(text, "re:", 3) != 0)
            continue;
        if (u->expressions == EXPRESSIONS_MAX)
            return refuse(u, s->name, "targets", "more than 1024 expressions are not read");
        PARE_TRY(fail_expression(u, pare_regex_new(u->scratch, text + 3, strlen(text + 3), &regex),
                                 text + 3));
        u->expression[u->expressions++] = (expression){text + 3, regex, s};
    }
    return PARE_OK;
}

static pare_status read_scheme(unpacking *u, const char *name, const pare_json *v)
{
    scheme *const out = &u->scheme[u->schemes];
    const pare_json *const weights = pare_json_get(v, "weights");
    const int64_t bits = pare_json_integer(pare_json_get(weights, "num_bits"), 8);
    if (u->schemes == GROUPS_MAX)
        return refuse(u, "", "config_groups", "more than 64 groups are not read");
    *out = (scheme){.name = name, .targets = pare_json_get(v, "targets"), .bits = (unsigned)bits};
    if (pare_json_type_of(weights) != PARE_JSON_OBJECT)
        return refuse(u, name, "weights", "a description of the weights is expected");
    out->is_float = says(weights, "type", "float");
    out->symmetric = pare_json_bool(pare_json_get(weights, "symmetric"), true);
    if (!out->is_float && !says(weights, "type", "int") &&
        !is_empty(pare_json_get(weights, "type")))
        return refuse(u, name, "weights.type", "only int and float are read");
    if (bits != 8 && (bits != 4 || out->is_float))
        return refuse(u, name, "weights.num_bits",
                      "only integers of 4 and 8 bits and floats of 8 are read");
    if (pare_json_bool(pare_json_get(weights, "dynamic"), false))
        return refuse(u, name, "weights.dynamic", "scales that are not stored are not read");
    if (!is_empty(pare_json_get(v, "output_activations")))
        return refuse(u, name, "output_activations", "outputs that are rounded are not computed");
    u->rounds_inputs |= !is_empty(pare_json_get(v, "input_activations"));
    u->schemes++;
    PARE_TRY(read_expressions(u, out));
    return read_strategy(u, weights, out);
}

static pare_status read_schemes(unpacking *u, const pare_json *q)
{
    static const char *const none[] = {"kv_cache_scheme", "sparsity_config", "transform_config"};
    const pare_json *const groups = pare_json_get(q, "config_groups"), *v;
    const char *name;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        if (!is_empty(pare_json_get(q, none[i])) && /* dense: zeros are stored as others are */
            !says(pare_json_get(q, none[i]), "format", "dense"))
            return refuse(u, "", none[i], "is not read");
    if (pare_json_type_of(groups) != PARE_JSON_OBJECT)
        return refuse(u, "", "config_groups", "an object is expected");
    for (pare_json_iter it = {0}; pare_json_next(groups, &it, &name, &v);)
        PARE_TRY(read_scheme(u, name, v));
    return PARE_OK;
}

/* The group of which a target is `name`, NULL when there is none. */
static const scheme *named(const unpacking *u, const char *name)
{
    for (size_t i = 0; i < u->schemes; i++)
        for (size_t j = 0; j < pare_json_count(u->scheme[i].targets); j++) {
            const char *const t = pare_json_text(pare_json_at(u->scheme[i].targets, j), NULL);
            if (t && strcmp(t, name) == 0)
                return &u->scheme[i];
        }
    return NULL;
}

/* An expression matches from the start of a name, as Python's re.match does. Readers of files give
 * names in UTF-8. */
static pare_status match_name(const unpacking *u, const char *name, const scheme **out)
{
    pare_regex_matcher *m;
    pare_status s = pare_regex_matcher_new(u->cx, BUDGET, &m);
    for (size_t i = 0; s == PARE_OK && !*out && i < u->expressions; i++) {
        const expression *const e = &u->expression[i];
        size_t end = SIZE_MAX;
        s = fail_expression(u, pare_regex_match(m, e->regex, name, strlen(name), 0, &end), e->text);
        *out = end != SIZE_MAX ? e->of : NULL;
    }
    pare_regex_matcher_free(m);
    return s;
}

/* The group that names a linear: by its name, else by an expression, else as one of all. */
static pare_status find_scheme(const unpacking *u, const char *name, const scheme **out)
{
    *out = named(u, name);
    if (!*out && u->expressions)
        PARE_TRY(match_name(u, name, out));
    *out = *out ? *out : named(u, "Linear");
    if (*out)
        return PARE_OK;
    return pare_fail(
        u->cx, PARE_EFORMAT,
        "%s: quantization_config: no group of config_groups names the linear %s, whose "
        "weights are quantized",
        u->file, name);
}

/* A linear on its way. */
typedef struct linear {
    const char *name;
    const scheme *s;
    size_t n, k, groups;
    const pare_tensor *codes, *scale, *zero;
} linear;

static const pare_tensor *find(const unpacking *u, const char *name, const char *suffix)
{
    char full[NAME];
    const int len = snprintf(full, sizeof full, "%s%s", name, suffix);
    return len > 0 && (size_t)len < sizeof full ? pare_checkpoint_find(u->ck, full) : NULL;
}

static pare_status wrong(const unpacking *u, const linear *l, const char *suffix)
{
    return pare_fail(u->cx, PARE_EFORMAT,
                     "%s: tensor %s%s is missing, or not what quantization_config says of it",
                     u->ck->path, l->name, suffix);
}

static bool has_shape(const pare_tensor *t, size_t rows, size_t columns)
{
    return t && t->rank == 2 && t->shape[0] == rows && t->shape[1] == columns;
}

/* Rows and columns as weight_shape has them; a listing may come without data. */
static pare_status read_shape(const unpacking *u, linear *l)
{
    const pare_tensor *const t = find(u, l->name, ".weight_shape");
    int64_t is[2] = {0, 0};
    if (!t || t->dtype != PARE_I64 || t->bytes != sizeof is || !t->data)
        return wrong(u, l, ".weight_shape");
    memcpy(is, t->data, sizeof is);
    if (is[0] < 1 || is[0] > SIDE_MAX || is[1] < 1 || is[1] > SIDE_MAX)
        return wrong(u, l, ".weight_shape");
    l->n = (size_t)is[0];
    l->k = (size_t)is[1];
    return PARE_OK;
}

static pare_status check_packed(const unpacking *u, linear *l)
{
    const size_t per = 32 / l->s->bits;
    PARE_TRY(read_shape(u, l));
    l->groups = l->s->group ? (l->k + l->s->group - 1) / l->s->group : 1;
    if (l->s->is_float || l->codes->dtype != PARE_I32 ||
        !has_shape(l->codes, l->n, (l->k + per - 1) / per))
        return wrong(u, l, ".weight_packed");
    if (find(u, l->name, ".weight_g_idx"))
        return pare_fail(u->cx, PARE_ENOTSUP,
                         "%s: tensor %s.weight_g_idx: columns in another order are not read",
                         u->ck->path, l->name);
    if (l->s->symmetric)
        return PARE_OK;
    l->zero = find(u, l->name, ".weight_zero_point");
    return l->zero && l->zero->dtype == PARE_I32 &&
                   has_shape(l->zero, (l->n + per - 1) / per, l->groups)
               ? PARE_OK
               : wrong(u, l, ".weight_zero_point");
}

static pare_status check_whole(const unpacking *u, linear *l)
{
    if (l->codes->rank != 2 || l->s->bits != 8 || l->s->group ||
        l->codes->dtype != (l->s->is_float ? PARE_F8_E4M3 : PARE_I8))
        return wrong(u, l, ".weight");
    if (!l->s->symmetric)
        return pare_fail(u->cx, PARE_ENOTSUP,
                         "%s: linear %s: zero points of whole bytes are not read", u->ck->path,
                         l->name);
    l->n = (size_t)l->codes->shape[0];
    l->k = (size_t)l->codes->shape[1];
    l->groups = 1;
    return PARE_OK;
}

static pare_status check_scale(const unpacking *u, linear *l)
{
    l->scale = find(u, l->name, ".weight_scale");
    return has_shape(l->scale, l->n, l->groups) &&
                   (l->scale->dtype == PARE_F16 || l->scale->dtype == PARE_BF16 ||
                    l->scale->dtype == PARE_F32)
               ? PARE_OK
               : wrong(u, l, ".weight_scale");
}

/* Field i of words of `bits` bits each, less 2^(bits - 1). */
static int field(const void *words, size_t word, size_t i, unsigned bits)
{
    uint32_t w;
    memcpy(&w, (const char *)words + 4 * word, sizeof w);
    return (int)(w >> i % (32 / bits) * bits & ((1U << bits) - 1)) - (1 << (bits - 1));
}

static pare_status decode_row(const unpacking *u, const linear *l, size_t r, float *scale, float *w)
{
    const unsigned bits = l->s->bits;
    const size_t per = 32 / bits, words = (l->k + per - 1) / per;
    const size_t columns = l->s->group ? l->s->group : l->k;
    PARE_TRY(pare_tensor_to_f32(u->cx, l->scale, r * l->groups, l->groups, scale));
    const uint8_t *const bytes = (const uint8_t *)l->codes->data + r * l->k;
    for (size_t j = 0; j < l->k; j++) {
        const size_t g = j / columns;
        if (l->codes->dtype == PARE_F8_E4M3) {
            w[j] = pare_levels_e4m3[bytes[j]];
        } else if (l->codes->dtype == PARE_I8) {
            w[j] = (float)(bytes[j] < 128 ? bytes[j] : bytes[j] - 256);
        } else {
            const int zero = l->zero ? field(l->zero->data, r / per * l->groups + g, r, bits) : 0;
            w[j] = (float)(field(l->codes->data, r * words + j / per, j, bits) - zero);
        }
        w[j] *= scale[g];
    }
    return PARE_OK;
}

static pare_status decode(const unpacking *u, const linear *l, pare_tensor *out)
{
    void *room;
    float *const scale = PARE_NEW(u->scratch, float, l->groups);
    if (!scale)
        return PARE_ENOMEM;
    PARE_TRY(pare_scratch_take(&u->ck->scratch, out->bytes, &room));
    for (size_t r = 0; r < l->n; r++)
        PARE_TRY(decode_row(u, l, r, scale, (float *)room + r * l->k));
    out->data = room;
    return PARE_OK;
}

static void add(unpacking *u, size_t i, const pare_tensor *t, const char *type, uint64_t bytes)
{
    u->out[u->count++] = (entry){
        .tensor = *t, .file = u->ck->tensor_file[i], .stored = {type, bytes, t->bytes, NULL}};
}

static pare_status add_linear(unpacking *u, size_t i, size_t len, bool packed)
{
    const pare_tensor *const t = &u->ck->tensor[i];
    const pare_mark mark = pare_arena_mark(u->scratch);
    linear l = {.name = pare_arena_text(u->scratch, t->name, len), .codes = t};
    pare_tensor out = {.dtype = PARE_F32, .rank = 2};
    char full[NAME];
    if (!l.name)
        return PARE_ENOMEM;
    if (len + sizeof ".weight" > sizeof full)
        return wrong(u, &l, "");
    PARE_TRY(find_scheme(u, l.name, &l.s));
    PARE_TRY(packed ? check_packed(u, &l) : check_whole(u, &l));
    PARE_TRY(check_scale(u, &l));
    (void)snprintf(full, sizeof full, "%s.weight", l.name);
    out.name = pare_arena_text(u->arena, full, strlen(full));
    out.shape[0] = l.n;
    out.shape[1] = l.k;
    PARE_TRY(pare_tensor_bytes(out.dtype, out.rank, out.shape, &out.bytes));
    if (out.name && !u->ck->listed)
        PARE_TRY(decode(u, &l, &out));
    const uint64_t bytes = t->bytes + l.scale->bytes + (l.zero ? l.zero->bytes : 0);
    pare_arena_rewind(u->scratch, mark);
    add(u, i, &out,
        packed          ? l.s->bits == 4 ? "int4" : "int8"
        : l.s->is_float ? "fp8"
                        : "int8",
        bytes);
    u->linears++;
    return out.name ? PARE_OK : PARE_ENOMEM;
}

/* Length of a name without one of these endings, 0 without any. */
static size_t base_of(const char *name, const char *const *endings)
{
    const size_t len = strlen(name);
    for (size_t i = 0; endings[i]; i++) {
        const size_t n = strlen(endings[i]);
        if (len > n && strcmp(name + len - n, endings[i]) == 0)
            return len - n;
    }
    return 0;
}

static pare_status add_tensor(unpacking *u, size_t i)
{
    static const char *const packed[] = {".weight_packed", NULL}, *const whole[] = {".weight",
                                                                                    NULL};
    static const char *const beside[] = {
        ".weight_scale", ".weight_shape",     ".weight_zero_point",  ".weight_g_idx",
        ".input_scale",  ".input_zero_point", ".input_global_scale", NULL};
    const pare_tensor *const t = &u->ck->tensor[i];
    const size_t of_packed = base_of(t->name, packed), of_whole = base_of(t->name, whole);
    if (of_packed)
        return add_linear(u, i, of_packed, true);
    if (of_whole && (t->dtype == PARE_I8 || t->dtype == PARE_F8_E4M3))
        return add_linear(u, i, of_whole, false);
    if (base_of(t->name, beside))
        return PARE_OK;
    add(u, i, t, pare_dtype_name(t->dtype), t->bytes);
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const entry *)a)->tensor.name, ((const entry *)b)->tensor.name);
}

/* The list takes the place of that of the files. */
static pare_status take_over(unpacking *u)
{
    pare_checkpoint *const ck = u->ck;
    pare_stored *const stored = PARE_NEW(u->arena, pare_stored, u->count);
    ck->tensor = PARE_NEW(u->arena, pare_tensor, u->count);
    ck->tensor_file = PARE_NEW(u->arena, uint32_t, u->count);
    if (!stored || !ck->tensor || !ck->tensor_file)
        return PARE_ENOMEM;
    if (u->count > 1)
        qsort(u->out, u->count, sizeof *u->out, by_name);
    for (size_t i = 0; i < u->count; i++) {
        ck->tensor[i] = u->out[i].tensor;
        ck->tensor_file[i] = u->out[i].file;
        stored[i] = u->out[i].stored;
    }
    ck->stored = stored;
    ck->tensors = u->count;
    ck->unpacked = u->linears;
    return PARE_OK;
}

static pare_status unpack(unpacking *u, const pare_json *q)
{
    pare_checkpoint *const ck = u->ck;
    u->expression = PARE_NEW(u->scratch, expression, EXPRESSIONS_MAX);
    u->out = PARE_NEW(u->scratch, entry, ck->tensors);
    if (!u->expression || !u->out)
        return PARE_ENOMEM;
    PARE_TRY(read_schemes(u, q));
    for (size_t i = 0; i < ck->tensors; i++) {
        pare_ctx_progress(u->cx, "unpacking weights", (double)i, (double)ck->tensors);
        PARE_TRY(pare_ctx_interrupted(u->cx));
        PARE_TRY(add_tensor(u, i));
    }
    pare_ctx_progress(u->cx, "unpacking weights", 1, 1);
    PARE_TRY(take_over(u));
    if (u->rounds_inputs && !ck->listed)
        pare_warn(
            u->cx,
            "%s: quantization_config rounds the inputs of linears; pare reads the weights and "
            "computes with inputs in floats",
            u->file);
    return PARE_OK;
}

pare_status pare__compressed_unpack(pare_checkpoint *ck, pare_arena *a)
{
    const pare_json *const q = ck->config ? pare_json_get(ck->config, "quantization_config") : NULL;
    pare_arena scratch;
    if (ck->packed || !says(q, "quant_method", "compressed-tensors"))
        return PARE_OK;
    pare_status s = pare_arena_init(ck->cx, &scratch, 0);
    unpacking u = {
        .ck = ck, .cx = ck->cx, .arena = a, .scratch = &scratch, .file = ck->config_file.path};
    if (s == PARE_OK)
        s = unpack(&u, q);
    pare_arena_release(&scratch);
    return s;
}
