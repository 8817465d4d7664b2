/* config.json of the families of runtime/arch.h; what the runtime does not compute is refused
 * by name. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/config_internal.h"

/* The families that there are, for a message. */
static const char *families(char text[512])
{
    size_t at = 0;
    for (const pare_arch *const *a = pare_archs; *a && at < 512; a++) {
        const int n = snprintf(text + at, 512 - at, "%s%s", at ? ", " : "", (*a)->model_type);
        at += n > 0 ? (size_t)n : 0;
    }
    return text;
}

/* A model of several parts describes its language model in an object of its own. */
static pare_status refuse_parts(const pare__config_file *f, const char *type)
{
    const pare_json *const text = pare_json_get(f->json, "text_config");
    const char *const inner = pare_json_text(pare_json_get(text, "model_type"), NULL);
    if (!inner || !pare_arch_find(inner) || pare_arch_find(type))
        return PARE_OK;
    return pare_fail(f->cx, PARE_ENOTSUP,
                     "%s: model_type %.64s is a model of several parts, with a language model of "
                     "type %s in text_config; pare reads language models alone: save that part by "
                     "itself, with its head and text_config as config.json",
                     f->name, type, inner);
}

static pare_status read_family(const pare__config_file *f, pare_config *c)
{
    char known[512];
    const pare_json *const v = pare_json_get(f->json, "model_type");
    const char *const type = pare_json_text(v, NULL);
    if (!type)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: model_type is missing or not a text", f->name);
    PARE_TRY(refuse_parts(f, type));
    c->arch = pare_arch_find(type);
    if (!c->arch && pare__config_missing(type))
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: model_type %.64s is not supported: pare does not compute %s (it "
                         "computes %s)",
                         f->name, type, pare__config_missing(type), families(known));
    if (!c->arch)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: model_type %.64s is not supported (%s are)",
                         f->name, type, families(known));
    PARE_TRY(pare__config_plain(f, c));
    c->residual = c->arch->residual;
    c->turns_neighbours = c->arch->turns_neighbours;
    return PARE_OK;
}

static pare_status read_heads(const pare__config_file *f, pare_config *c)
{
    const pare_config_words *const w = c->arch->words;
    PARE_TRY(pare__config_size(f, w->heads, PARE__CONFIG_SIZE_MAX, &c->heads));
    c->kv_heads = c->heads;
    if (w->kv_heads)
        PARE_TRY(
            pare__config_size_or(f, w->kv_heads, PARE__CONFIG_SIZE_MAX, c->heads, &c->kv_heads));
    if (c->heads % c->kv_heads != 0)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s %zu is not a multiple of %s %zu", f->name,
                         w->heads, c->heads, w->kv_heads, c->kv_heads);
    if (c->arch->latent_eps > 0)
        return pare__config_latent(f, c);
    if (pare__config_absent(pare_json_get(f->json, "head_dim")) && c->hidden % c->heads != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: head_dim is missing, and %s %zu does not divide %s %zu", f->name,
                         w->heads, c->heads, w->hidden, c->hidden);
    PARE_TRY(pare__config_size_or(f, "head_dim", PARE__CONFIG_SIZE_MAX, c->hidden / c->heads,
                                  &c->head_dim));
    if (c->head_dim % 2 != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: head_dim %zu is odd, rotary positions need pairs", f->name,
                         c->head_dim);
    if (c->heads > PARE__CONFIG_SIZE_MAX / c->head_dim)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %zu heads of %zu are more than %d attention outputs", f->name,
                         c->heads, c->head_dim, PARE__CONFIG_SIZE_MAX);
    return PARE_OK;
}

/* A width for each block, as pare writes it where they differ; `intermediate` is the widest. */
static pare_status read_widths(const pare__config_file *f, const char *key, const pare_json *list,
                               pare_config *c)
{
    if (pare_json_count(list) != c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s has %zu item%s for %zu block%s (%s)", f->name,
                         key, pare_json_count(list), pare_plural(pare_json_count(list)), c->blocks,
                         pare_plural(c->blocks), c->arch->words->blocks);
    c->intermediate = 0;
    for (size_t i = 0; i < c->blocks; i++) {
        const int64_t n = pare_json_integer(pare_json_at(list, i), -1);
        if (n < 1 || n > PARE__CONFIG_SIZE_MAX)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: %s: item %zu is not a whole number from 1 to %d", f->name, key, i,
                             PARE__CONFIG_SIZE_MAX);
        c->mlp[i] = (uint32_t)n;
        c->intermediate = (size_t)n > c->intermediate ? (size_t)n : c->intermediate;
    }
    return PARE_OK;
}

/* A list of widths is for models whose structure pare can cut: asked of a configuration that has
 * all but c->uneven. */
static pare_status check_widths(const pare__config_file *f, pare_config *c)
{
    const char *const key = c->arch->words->intermediate;
    if (!key || pare_json_type_of(pare_json_get(f->json, key)) != PARE_JSON_ARRAY)
        return PARE_OK;
    const char *const why = pare_config_no_structure(c);
    if (why)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s is a list, which is not supported for models of type %s: %s",
                         f->name, key, c->arch->model_type, why);
    for (size_t i = 1; i < c->blocks; i++)
        c->uneven |= c->mlp[i] != c->mlp[0];
    return PARE_OK;
}

static pare_status read_intermediate(const pare__config_file *f, pare_config *c)
{
    const pare_config_words *const w = c->arch->words;
    const pare_json *const v = w->intermediate ? pare_json_get(f->json, w->intermediate) : NULL;
    if (!w->intermediate) {
        c->intermediate = 0;
    } else if (w->may_lack_intermediate && pare__config_absent(v)) {
        c->intermediate = 4 * c->hidden;
    } else if (pare_json_type_of(v) == PARE_JSON_ARRAY) {
        return read_widths(f, w->intermediate, v, c);
    } else {
        return pare__config_size(f, w->intermediate, PARE__CONFIG_SIZE_MAX, &c->intermediate);
    }
    return PARE_OK;
}

static pare_status read_sizes(const pare__config_file *f, pare_config *c)
{
    const pare_config_words *const w = c->arch->words;
    PARE_TRY(pare__config_size(f, w->hidden, PARE__CONFIG_SIZE_MAX, &c->hidden));
    PARE_TRY(pare__config_size(f, w->blocks, PARE_BLOCKS_MAX, &c->blocks));
    PARE_TRY(read_intermediate(f, c));
    PARE_TRY(pare__config_size(f, "vocab_size", PARE__CONFIG_SIZE_MAX, &c->vocab));
    PARE_TRY(
        pare__config_size_or(f, w->context, PARE__CONFIG_SIZE_MAX, c->arch->context, &c->context));
    return read_heads(f, c);
}

static pare_status read_expert_count(const pare__config_file *f, const pare_experts *e,
                                     pare_config *c)
{
    for (size_t i = 0; i < sizeof e->count / sizeof *e->count && e->count[i]; i++) {
        size_t count;
        PARE_TRY(pare__config_size_or(f, e->count[i], PARE_EXPERTS_MAX, c->experts, &count));
        if (c->experts && count != c->experts)
            return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is %zu, but %s is %zu", f->name,
                             e->count[0], c->experts, e->count[i], count);
        c->experts = count;
    }
    if (c->experts == 0)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is missing", f->name, e->count[0]);
    return PARE_OK;
}

/* Blocks without experts among others with them are refused. */
static pare_status refuse_dense_blocks(const pare__config_file *f, const pare_experts *e,
                                       const pare_config *c)
{
    size_t step = 1;
    bool named[PARE_BLOCKS_MAX];
    const pare_json *const list = e->dense_blocks ? pare_json_get(f->json, e->dense_blocks) : NULL;
    if (list)
        PARE_TRY(pare__config_blocks(f, e->dense_blocks, c, named));
    if (!pare__config_absent(list) && pare_json_count(list) > 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s names %zu block%s without experts; only models with experts in "
                         "every block are supported",
                         f->name, e->dense_blocks, pare_json_count(list),
                         pare_plural(pare_json_count(list)));
    if (e->step)
        PARE_TRY(pare__config_size_or(f, e->step, PARE__CONFIG_SIZE_MAX, 1, &step));
    if (step != 1)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s %zu leaves blocks without experts; only models with experts in "
                         "every block are supported",
                         f->name, e->step, step);
    return PARE_OK;
}

static pare_status read_experts(const pare__config_file *f, pare_config *c)
{
    const pare_experts *const e = c->arch->experts;
    if (!e)
        return PARE_OK;
    PARE_TRY(read_expert_count(f, e, c));
    PARE_TRY(pare__config_size(f, e->used, c->experts, &c->experts_used));
    PARE_TRY(pare__config_size(f, e->width, PARE__CONFIG_SIZE_MAX, &c->expert_width));
    c->expert_norm = true;
    if (e->norm)
        PARE_TRY(pare__config_flag(f, e->norm, e->norms, &c->expert_norm));
    PARE_TRY(refuse_dense_blocks(f, e, c));
    if (e->inward)
        return pare__config_interleaved(f, c);
    return c->arch->dense ? pare__config_router(f, c) : PARE_OK;
}

static pare_status read_norm_eps(const pare__config_file *f, pare_config *c)
{
    const char *const key = c->arch->words->norm_eps;
    c->norm_eps = c->arch->norm_eps;
    if (!key)
        return PARE_OK;
    if (c->norm_eps <= 0 && pare__config_absent(pare_json_get(f->json, key)))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is missing", f->name, key);
    return pare__config_positive(f, f->json, key, &c->norm_eps);
}

/* -1 stands for none in some files, and an id without a row in the vocabulary is none that the
 * model can give: files whose vocabulary was cut keep it. */
static pare_status read_token(const pare__config_file *f, const char *key, const pare_json *v,
                              size_t vocab, int64_t *out)
{
    const int64_t id = pare_json_integer(v, INT64_MIN);
    if (id < -1)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a token id", f->name, key);
    *out = (uint64_t)id < vocab ? id : -1;
    return PARE_OK;
}

static pare_status read_eos(const pare__config_file *f, pare_config *c)
{
    static const char key[] = "eos_token_id";
    const pare_json *const v = pare_json_get(f->json, key);
    const size_t max = sizeof c->eos_id / sizeof c->eos_id[0];
    if (pare__config_absent(v))
        return PARE_OK;
    c->eos_ids = 0;
    for (size_t i = 0; i < max; i++)
        c->eos_id[i] = -1;
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

static pare_status read_tokens(const pare__config_file *f, pare_config *c)
{
    const pare_json *const bos = pare_json_get(f->json, "bos_token_id");
    if (!pare__config_absent(bos))
        PARE_TRY(read_token(f, "bos_token_id", bos, c->vocab, &c->bos_id));
    return read_eos(f, c);
}

/* Linears that are trained to be ternary say how they are stored. */
static pare_status check_ternary(const pare__config_file *f, const pare_json *q, const char *method)
{
    static const char key[] = "quantization_config";
    if (!method || strcmp(method, "bitnet") != 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s.quant_method is not bitnet, so its linears are not those that "
                         "this family has",
                         f->name, key);
    if (pare_json_bool(pare_json_get(q, "use_rms_norm"), false))
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: %s.use_rms_norm: true is not supported", f->name,
                         key);
    return PARE_OK;
}

static pare_status refuse_quantized(const pare__config_file *f, const pare_config *c)
{
    static const char *const read[] = {"pare",       "compressed-tensors", "gptq",     "awq", "fp8",
                                       "auto-round", "intel/auto-round",   "modelopt", "exl3"};
    const pare_experts *const e = c->arch->experts;
    const pare_json *const q = pare_json_get(f->json, "quantization_config");
    if (pare__config_absent(q))
        return c->arch->rounds_inputs ? check_ternary(f, q, NULL) : PARE_OK;
    const char *const method = pare_json_text(pare_json_get(q, "quant_method"), NULL);
    if (!method)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: quantization_config.quant_method is missing or not a text; where the "
                         "weights are floats, take quantization_config out",
                         f->name);
    if (c->arch->rounds_inputs && strcmp(method, "pare") != 0)
        return check_ternary(f, q, method);
    for (size_t i = 0; i < sizeof read / sizeof *read; i++)
        if (strcmp(method, read[i]) == 0)
            return PARE_OK;
    if (e && e->stacking == PARE_STACKING_TURNS && strcmp(method, "mxfp4") == 0)
        return PARE_OK;
    return pare_fail(
        f->cx, PARE_ENOTSUP,
        "%s: the model is already quantized by %.64s, which pare does not read; give the "
        "checkpoint in F32, F16 or BF16, or one in compressed-tensors, GPTQ, AWQ, FP8 or EXL3, or "
        "by AutoRound or ModelOpt; where its weights are floats again, take quantization_config "
        "out "
        "of config.json",
        f->name, method);
}

/* -1 for a name that stands for none. */
static int act_of(const pare_arch *arch, const char *name)
{
    static const struct {
        const char *name;
        pare_act act;
    } known[] = {{"silu", PARE_ACT_SILU},           {"swish", PARE_ACT_SILU},
                 {"gelu", PARE_ACT_GELU},           {"gelu_new", PARE_ACT_GELU_TANH},
                 {"gelu_fast", PARE_ACT_GELU_TANH}, {"gelu_pytorch_tanh", PARE_ACT_GELU_TANH},
                 {"relu", PARE_ACT_RELU},           {"relu2", PARE_ACT_RELU2}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(known[i].name, name) == 0)
            return (int)(known[i].act == PARE_ACT_GELU && arch->gelu_means_tanh ? PARE_ACT_GELU_TANH
                                                                                : known[i].act);
    return -1;
}

static pare_status read_act(const pare__config_file *f, pare_config *c)
{
    const char *const key = c->arch->words->act;
    const pare_json *const v = pare_json_get(f->json, key);
    const char *const name = pare_json_text(v, NULL);
    c->act = c->arch->act;
    if (!name && !pare__config_absent(v))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a text", f->name, key);
    if (c->act == PARE_ACT_CLAMPED)
        return pare__config_clamped(f, name);
    if (!name)
        return PARE_OK;
    const int act = act_of(c->arch, name);
    if (act < 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s %.64s is not supported (silu, gelu, gelu_new, gelu_fast, "
                         "gelu_pytorch_tanh, relu and relu2 are)",
                         f->name, key, name);
    c->act = (pare_act)act;
    return PARE_OK;
}

/* `usual` where the key is absent, 0 for null; a family with the usual value 0 has no such key, and
 * below 0 it stands for none. */
static pare_status read_scale(const pare__config_file *f, const char *key, double usual,
                              double *out)
{
    const bool absent = pare_json_type_of(pare_json_get(f->json, key)) == PARE_JSON_ABSENT;
    *out = absent && usual > 0 ? usual : 0;
    return usual != 0 ? pare__config_positive(f, f->json, key, out) : PARE_OK;
}

/* Scales and caps that only some families have. */
static pare_status read_scales(const pare__config_file *f, pare_config *c)
{
    const pare_arch *const a = c->arch;
    double scalar;
    if (a->scales_embedding)
        c->embed_scale = sqrt((double)c->hidden);
    PARE_TRY(read_scale(f, "attn_logit_softcapping", a->attention_cap, &c->attention_cap));
    PARE_TRY(read_scale(f, "final_logit_softcapping", a->logit_cap, &c->logit_cap));
    PARE_TRY(read_scale(f, "query_pre_attn_scalar", a->attention_scalar, &scalar));
    c->attention_scale = scalar > 0 ? 1 / sqrt(scalar) : 0;
    return PARE_OK;
}

/* What the runtime does not compute is refused: a model must not run as something else. */
static pare_status refuse_options(const pare__config_file *f, const pare_config *c)
{
    bool is;
    PARE_TRY(refuse_quantized(f, c));
    for (const pare_demand *d = c->arch->demands; d && d->key; d++) {
        PARE_TRY(pare__config_flag(f, d->key, d->value, &is));
        if (is != d->value)
            return pare_fail(f->cx, PARE_ENOTSUP, "%s: %s: %s is not supported", f->name, d->key,
                             is ? "true" : "false");
    }
    PARE_TRY(pare__config_flag(f, "is_causal", true, &is));
    if (!is)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: is_causal: false is not supported: a token would see those behind "
                         "it, too",
                         f->name);
    if (pare_json_count(pare_json_get(f->json, "per_layer_config")) > 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: per_layer_config is not supported: blocks would have other settings "
                         "than those of the whole model",
                         f->name);
    PARE_TRY(pare__config_flag(f, "attention_bias", false, &is));
    return pare__config_flag(f, "mlp_bias", false, &is);
}

static pare_status read_residual(const pare__config_file *f, pare_config *c)
{
    bool parallel = true;
    if (c->arch->residual != PARE_RESIDUAL_PARALLEL)
        return PARE_OK;
    PARE_TRY(pare__config_flag(f, "use_parallel_residual", true, &parallel));
    c->residual = parallel ? PARE_RESIDUAL_PARALLEL : PARE_RESIDUAL_SERIAL;
    return PARE_OK;
}

/* Projections around the embedding that the runtime does not have. */
static pare_status check_embedding(const pare__config_file *f, const pare_config *c)
{
    size_t width = c->hidden;
    PARE_TRY(
        pare__config_size_or(f, "word_embed_proj_dim", PARE__CONFIG_SIZE_MAX, c->hidden, &width));
    if (width != c->hidden)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: word_embed_proj_dim %zu other than %s %zu is not supported", f->name,
                         width, c->arch->words->hidden, c->hidden);
    return PARE_OK;
}

static void warn_token(const pare__config_file *f, const char *key, const pare_json *v,
                       size_t vocab)
{
    const int64_t id = pare_json_integer(v, -1);
    if (id >= 0 && (uint64_t)id >= vocab)
        pare_warn(f->cx, "%s: %s %lld is left out: vocab_size is %zu", f->name, key, (long long)id,
                  vocab);
}

static void warn_tokens(const pare__config_file *f, size_t vocab)
{
    static const char eos[] = "eos_token_id", bos[] = "bos_token_id";
    const pare_json *const ends = pare_json_get(f->json, eos);
    warn_token(f, bos, pare_json_get(f->json, bos), vocab);
    warn_token(f, eos, ends, vocab);
    for (size_t i = 0; pare_json_type_of(ends) == PARE_JSON_ARRAY && i < pare_json_count(ends); i++)
        warn_token(f, eos, pare_json_at(ends, i), vocab);
}

void pare_config_warn(pare_ctx *cx, const char *name, const pare_json *json, const pare_config *c)
{
    const pare__config_file f = {cx, name, json};
    warn_tokens(&f, c->vocab);
    pare__config_scaling_warn(&f, c);
    const pare_json *const types = pare_json_get(json, "layer_types");
    if (pare_json_type_of(types) == PARE_JSON_ARRAY && pare_json_count(types) != c->blocks)
        pare_warn(cx,
                  "%s: layer_types is left out: it has %zu item%s for %zu block%s; transformers "
                  "refuses such a file",
                  name, pare_json_count(types), pare_plural(pare_json_count(types)), c->blocks,
                  pare_plural(c->blocks));
    if (c->arch->window == PARE_WINDOW_NONE &&
        !pare__config_absent(pare_json_get(json, "sliding_window")))
        pare_warn(cx,
                  "%s: sliding_window is left out: in models of type %s a token sees all before "
                  "it",
                  name, c->arch->model_type);
}

pare_status pare_config_parse(pare_ctx *cx, const char *name, const pare_json *json,
                              pare_config *out)
{
    *out = (pare_config){0};
    const pare__config_file f = {cx, name, json};
    if (pare_json_type_of(json) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: is not a JSON object", name);
    PARE_TRY(read_family(&f, out));
    PARE_TRY(refuse_options(&f, out));
    PARE_TRY(read_act(&f, out));
    PARE_TRY(read_residual(&f, out));
    PARE_TRY(read_sizes(&f, out));
    PARE_TRY(read_experts(&f, out));
    PARE_TRY(check_embedding(&f, out));
    PARE_TRY(pare__config_recurrent(&f, out));
    PARE_TRY(read_scales(&f, out));
    PARE_TRY(read_norm_eps(&f, out));
    PARE_TRY(pare__config_multipliers(&f, out));
    PARE_TRY(pare__config_rope(&f, out));
    PARE_TRY(pare__config_window(&f, out));
    PARE_TRY(pare__config_chunks(&f, out));
    PARE_TRY(pare__config_flag(&f, "tie_word_embeddings", out->arch->tied, &out->tied));
    out->bos_id = -1;
    for (size_t i = 0; i < sizeof out->eos_id / sizeof out->eos_id[0]; i++)
        out->eos_id[i] = -1;
    PARE_TRY(read_tokens(&f, out));
    return check_widths(&f, out);
}

pare_status pare_config_generation(pare_ctx *cx, const char *name, const pare_json *json,
                                   pare_config *config)
{
    const pare__config_file f = {cx, name, json};
    if (pare_json_type_of(json) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: is not a JSON object", name);
    PARE_TRY(read_tokens(&f, config));
    warn_tokens(&f, config->vocab);
    return PARE_OK;
}

const char *pare__config_bias_key(const pare_linear_desc *d)
{
    return d->site == PARE_SITE_ATTENTION || d->site == PARE_SITE_ATTENDED ? "attention_bias"
                                                                           : "mlp_bias";
}

bool pare_linear_has_bias(const pare_json *config, const pare_linear_desc *d)
{
    const pare_json *const v = pare_json_get(config, pare__config_bias_key(d));
    switch (d->bias) {
    case PARE_BIAS_ASKED: return pare_json_bool(v, false);
    case PARE_BIAS_UNLESS: return pare_json_bool(v, true);
    case PARE_BIAS_ALWAYS: return true;
    case PARE_BIAS_NEVER: break;
    }
    return false;
}
