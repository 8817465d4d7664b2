#include <math.h>
#include <string.h>

#include "formats/checkpoint.h"

enum { SIZE_MAX_FIELD = 1 << 24, BLOCKS_MAX = 4096 };

/* The file being read; passed along so that every message names it. */
typedef struct source {
    pare_ctx *cx;
    const char *name;
    const pare_json *json;
} source;

static bool is_absent(const pare_json *v)
{
    const pare_json_type t = pare_json_type_of(v);
    return t == PARE_JSON_ABSENT || t == PARE_JSON_NULL;
}

static pare_status read_size(const source *f, const char *key, size_t max, size_t *out)
{
    const pare_json *const v = pare_json_get(f->json, key);
    if (is_absent(v))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is missing", f->name, key);
    const int64_t n = pare_json_integer(v, -1);
    if (n < 1 || (uint64_t)n > max)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a whole number from 1 to %zu", f->name,
                         key, max);
    *out = (size_t)n;
    return PARE_OK;
}

static pare_status read_size_or(const source *f, const char *key, size_t max, size_t fallback,
                                size_t *out)
{
    *out = fallback;
    return is_absent(pare_json_get(f->json, key)) ? PARE_OK : read_size(f, key, max, out);
}

/* A finite number above zero; *out stays when the key is absent. */
static pare_status read_positive(const source *f, const pare_json *object, const char *key,
                                 double *out)
{
    const pare_json *const v = pare_json_get(object, key);
    if (is_absent(v))
        return PARE_OK;
    const double x = pare_json_number(v, -1);
    if (!(x > 0) || !isfinite(x))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a number above 0", f->name, key);
    *out = x;
    return PARE_OK;
}

static pare_status read_flag(const source *f, const char *key, bool fallback, bool *out)
{
    const pare_json *const v = pare_json_get(f->json, key);
    if (!is_absent(v) && pare_json_type_of(v) != PARE_JSON_BOOL)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not true or false", f->name, key);
    *out = pare_json_bool(v, fallback);
    return PARE_OK;
}

static pare_status read_family(const source *f, pare_config *c)
{
    const pare_json *const v = pare_json_get(f->json, "model_type");
    const char *const type = pare_json_text(v, NULL);
    if (!type)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: model_type is missing or not a text", f->name);
    c->arch = pare_arch_find(type);
    if (!c->arch)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: model_type %.64s is not supported (llama is)",
                         f->name, type);
    return PARE_OK;
}

static pare_status read_heads(const source *f, pare_config *c)
{
    PARE_TRY(read_size(f, "num_attention_heads", SIZE_MAX_FIELD, &c->heads));
    PARE_TRY(read_size_or(f, "num_key_value_heads", SIZE_MAX_FIELD, c->heads, &c->kv_heads));
    if (c->heads % c->kv_heads != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: num_attention_heads %zu is not a multiple of num_key_value_heads %zu",
                         f->name, c->heads, c->kv_heads);
    if (is_absent(pare_json_get(f->json, "head_dim")) && c->hidden % c->heads != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: head_dim is missing, and num_attention_heads %zu does not divide "
                         "hidden_size %zu",
                         f->name, c->heads, c->hidden);
    PARE_TRY(read_size_or(f, "head_dim", SIZE_MAX_FIELD, c->hidden / c->heads, &c->head_dim));
    if (c->head_dim % 2 != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: head_dim %zu is odd, rotary positions need pairs", f->name,
                         c->head_dim);
    if (c->heads > SIZE_MAX_FIELD / c->head_dim)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %zu heads of %zu are more than %d attention outputs", f->name,
                         c->heads, c->head_dim, SIZE_MAX_FIELD);
    return PARE_OK;
}

static pare_status read_sizes(const source *f, pare_config *c)
{
    PARE_TRY(read_size(f, "hidden_size", SIZE_MAX_FIELD, &c->hidden));
    PARE_TRY(read_size(f, "intermediate_size", SIZE_MAX_FIELD, &c->intermediate));
    PARE_TRY(read_size(f, "num_hidden_layers", BLOCKS_MAX, &c->blocks));
    PARE_TRY(read_size(f, "vocab_size", SIZE_MAX_FIELD, &c->vocab));
    PARE_TRY(read_size(f, "max_position_embeddings", SIZE_MAX_FIELD, &c->context));
    return read_heads(f, c);
}

static pare_status read_norm_eps(const source *f, pare_config *c)
{
    if (is_absent(pare_json_get(f->json, "rms_norm_eps")))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: rms_norm_eps is missing", f->name);
    return read_positive(f, f->json, "rms_norm_eps", &c->norm_eps);
}

static pare_status read_llama3(const source *f, const char *key, const pare_json *v, pare_rope *r)
{
    r->llama3 = true;
    PARE_TRY(read_positive(f, v, "factor", &r->factor));
    PARE_TRY(read_positive(f, v, "low_freq_factor", &r->low_freq_factor));
    PARE_TRY(read_positive(f, v, "high_freq_factor", &r->high_freq_factor));
    const pare_json *const original = pare_json_get(v, "original_max_position_embeddings");
    const int64_t n = pare_json_integer(original, -1);
    if (n < 1 || n > SIZE_MAX_FIELD)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %s: original_max_position_embeddings is not a whole number from 1 to "
                         "%d",
                         f->name, key, SIZE_MAX_FIELD);
    r->original_context = (size_t)n;
    if (r->factor < 1 || r->low_freq_factor <= 0 || r->high_freq_factor <= r->low_freq_factor)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %s: llama3 needs factor >= 1 and low_freq_factor < high_freq_factor",
                         f->name, key);
    return PARE_OK;
}

static pare_status refuse_partial(const source *f, const pare_json *object)
{
    double rotary = 1;
    PARE_TRY(read_positive(f, object, "partial_rotary_factor", &rotary));
    if (rotary != 1)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: partial_rotary_factor %g is not supported",
                         f->name, rotary);
    return PARE_OK;
}

/* One of the two places where files keep the description of rotary positions. */
static pare_status read_rope_object(const source *f, const char *key, pare_rope *r)
{
    const pare_json *const v = pare_json_get(f->json, key);
    if (is_absent(v))
        return PARE_OK;
    if (pare_json_type_of(v) != PARE_JSON_OBJECT)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not an object", f->name, key);
    PARE_TRY(read_positive(f, v, "rope_theta", &r->theta));
    const pare_json *const newer = pare_json_get(v, "rope_type");
    const pare_json *const older = pare_json_get(v, "type");
    const char *const type = pare_json_text(newer ? newer : older, NULL);
    if (!type)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s: rope_type is missing or not a text", f->name,
                         key);
    const char *const other = pare_json_text(older, NULL);
    if (other && strcmp(other, type) != 0)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s: rope_type is %.64s, but type is %.64s",
                         f->name, key, type, other);
    PARE_TRY(refuse_partial(f, v));
    if (strcmp(type, "llama3") == 0)
        return read_llama3(f, key, v, r);
    if (strcmp(type, "default") != 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s of type %.64s is not supported (default and llama3 are)", f->name,
                         key, type);
    return PARE_OK;
}

static bool same_scaling(const pare_rope *a, const pare_rope *b)
{
    return a->llama3 == b->llama3 && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context;
}

/* rope_theta stands at the top or, in newer files, inside rope_parameters. */
static pare_status read_rope(const source *f, pare_config *c)
{
    static const char newer[] = "rope_parameters", older[] = "rope_scaling";
    pare_rope top = {.theta = 10000}, scaling, parameters;
    PARE_TRY(read_positive(f, f->json, "rope_theta", &top.theta));
    scaling = parameters = top;
    PARE_TRY(read_rope_object(f, older, &scaling));
    PARE_TRY(read_rope_object(f, newer, &parameters));
    const bool has_older = !is_absent(pare_json_get(f->json, older));
    const bool has_newer = !is_absent(pare_json_get(f->json, newer));
    if (has_older && has_newer &&
        (!same_scaling(&scaling, &parameters) || scaling.theta != parameters.theta))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s and %s contradict each other", f->name, older,
                         newer);
    c->rope = has_newer ? parameters : scaling;
    if (!is_absent(pare_json_get(f->json, "rope_theta")) && c->rope.theta != top.theta)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: rope_theta is given twice, %g and %g", f->name,
                         top.theta, c->rope.theta);
    return PARE_OK;
}

/* -1 stands for none in some files. An id without a row in the vocabulary would fail much later. */
static pare_status read_token(const source *f, const char *key, const pare_json *v, size_t vocab,
                              int64_t *out)
{
    const int64_t id = pare_json_integer(v, INT64_MIN);
    if (id < -1 || (id >= 0 && (uint64_t)id >= vocab))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a token id below vocab_size %zu",
                         f->name, key, vocab);
    *out = id;
    return PARE_OK;
}

static pare_status read_eos(const source *f, pare_config *c)
{
    static const char key[] = "eos_token_id";
    const pare_json *const v = pare_json_get(f->json, key);
    const size_t max = sizeof c->eos_id / sizeof c->eos_id[0];
    for (size_t i = 0; i < max; i++)
        c->eos_id[i] = -1;
    if (is_absent(v))
        return PARE_OK;
    const bool list = pare_json_type_of(v) == PARE_JSON_ARRAY;
    const size_t count = list ? pare_json_count(v) : 1;
    if (count > max)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s has %zu entries, at most %zu are accepted",
                         f->name, key, count, max);
    for (size_t i = 0; i < count; i++) {
        int64_t id;
        PARE_TRY(read_token(f, key, list ? pare_json_at(v, i) : v, c->vocab, &id));
        if (id >= 0)
            c->eos_id[c->eos_ids++] = id;
    }
    return PARE_OK;
}

static pare_status read_tokens(const source *f, pare_config *c)
{
    const pare_json *const bos = pare_json_get(f->json, "bos_token_id");
    c->bos_id = -1;
    if (!is_absent(bos))
        PARE_TRY(read_token(f, "bos_token_id", bos, c->vocab, &c->bos_id));
    return read_eos(f, c);
}

static pare_status refuse_quantized(const source *f)
{
    const pare_json *const q = pare_json_get(f->json, "quantization_config");
    if (is_absent(q))
        return PARE_OK;
    const char *const method = pare_json_text(pare_json_get(q, "quant_method"), NULL);
    if (!method)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: quantization_config.quant_method is missing or not a text", f->name);
    if (strcmp(method, "pare") != 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: the model is already quantized by %.64s; a checkpoint in F32, F16 or "
                         "BF16 is needed",
                         f->name, method);
    return PARE_OK;
}

/* What the runtime does not compute is refused: a model must not run as something else. */
static pare_status refuse_options(const source *f)
{
    PARE_TRY(refuse_quantized(f));
    const pare_json *const act = pare_json_get(f->json, "hidden_act");
    const char *const act_name = pare_json_text(act, NULL);
    if (!is_absent(act) && !act_name)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: hidden_act is not a text", f->name);
    if (act_name && strcmp(act_name, "silu") != 0)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: hidden_act %.64s is not supported (silu is)",
                         f->name, act_name);
    if (!is_absent(pare_json_get(f->json, "sliding_window")))
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: sliding_window is not supported", f->name);
    PARE_TRY(refuse_partial(f, f->json));
    bool ignored;
    PARE_TRY(read_flag(f, "attention_bias", false, &ignored));
    return read_flag(f, "mlp_bias", false, &ignored);
}

pare_status pare_config_parse(pare_ctx *cx, const char *name, const pare_json *json,
                              pare_config *out)
{
    *out = (pare_config){0};
    const source f = {cx, name, json};
    if (pare_json_type_of(json) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: is not a JSON object", name);
    PARE_TRY(read_family(&f, out));
    PARE_TRY(refuse_options(&f));
    PARE_TRY(read_sizes(&f, out));
    PARE_TRY(read_norm_eps(&f, out));
    PARE_TRY(read_rope(&f, out));
    PARE_TRY(read_flag(&f, "tie_word_embeddings", false, &out->tied));
    return read_tokens(&f, out);
}
