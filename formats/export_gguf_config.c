/* Sizes and positions of a model in the metadata of a GGUF file, and the targets. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/export_gguf.h"
#include "formats/export_internal.h"
#include "formats/gguf_internal.h"

static const char *key_of(const pare__gguf_family *f, const char *key, char full[128])
{
    (void)snprintf(full, 128, "%s.%s", f->arch, key);
    return full;
}

static void put_size(pare_gguf_writer *w, const pare__gguf_family *f, const char *key, size_t value)
{
    char full[128];
    pare_gguf_put_u32(w, key_of(f, key, full), (uint32_t)value);
}

static void put_real(pare_gguf_writer *w, const pare__gguf_family *f, const char *key, double value)
{
    char full[128];
    pare_gguf_put_f32(w, key_of(f, key, full), (float)value);
}

static double square(double x)
{
    return x * x;
}

/* What every token runs, or all experts of a token together. */
static size_t width_of_all(const pare__gguf_family *f, const pare_config *c)
{
    if (!c->experts || c->intermediate)
        return c->intermediate;
    return c->expert_width * (strcmp(f->arch, "llama") == 0 ? 1 : c->experts_used);
}

static void put_width(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    static const char key[] = "feed_forward_length";
    char full[128];
    if (!c->uneven) {
        put_size(w, f, key, width_of_all(f, c));
        return;
    }
    pare_gguf_put_array(w, key_of(f, key, full), PARE_GGUF_I32, c->blocks);
    for (size_t i = 0; i < c->blocks; i++)
        pare_gguf_add_i32(w, (int32_t)pare_config_mlp(c, i));
}

/* Keys that the reader needs and we have one field for. */
static void put_sizes(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    put_size(w, f, "context_length", c->context);
    put_size(w, f, "embedding_length", c->hidden);
    put_size(w, f, "block_count", c->blocks);
    put_width(f, c, w);
    put_size(w, f, "attention.head_count", c->heads);
    put_size(w, f, "attention.head_count_kv", c->kv_heads);
    put_size(w, f, "vocab_size", c->vocab);
    put_real(w, f,
             c->arch->norm_kind == PARE_NORM_RMS ? "attention.layer_norm_rms_epsilon"
                                                 : "attention.layer_norm_epsilon",
             c->norm_eps * square(c->stream_scale > 0 ? c->stream_scale : 1));
    if (c->head_dim * c->heads != c->hidden || f->how & PARE__GGUF_KEY_LENGTH) {
        put_size(w, f, "attention.key_length", c->head_dim);
        put_size(w, f, "attention.value_length", c->head_dim);
    }
    if (c->window || f->how & PARE__GGUF_WINDOW)
        put_size(w, f, "attention.sliding_window", c->window);
}

static void put_experts(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    if (!c->experts)
        return;
    put_size(w, f, "expert_count", c->experts);
    put_size(w, f, "expert_used_count", c->experts_used);
    if (strcmp(f->arch, "llama") != 0)
        put_size(w, f, "expert_feed_forward_length", c->expert_width);
    if (c->intermediate)
        put_size(w, f, "expert_shared_feed_forward_length", c->intermediate);
}

/* What some families choose. */
static void put_choices(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    char full[128];
    for (const pare__gguf_word *word = f->words; word->key; word++)
        if (strcmp(word->key, "use_parallel_residual") == 0)
            pare_gguf_put_bool(w, key_of(f, word->key, full),
                               c->residual == PARE_RESIDUAL_PARALLEL);
    if (c->arch->multiplies) {
        put_real(w, f, "embedding_scale", c->embed_scale * c->stream_scale);
        put_real(w, f, "attention.scale", c->attention_scale);
        put_real(w, f, "residual_scale", c->stream_scale);
        put_real(w, f, "logit_scale", c->logit_divisor);
    }
    if (c->attention_cap > 0)
        put_real(w, f, "attn_logit_softcapping", c->attention_cap);
    if (c->logit_cap > 0)
        put_real(w, f, "final_logit_softcapping", c->logit_cap);
}

/* Blocks with a window: their base, and the period whose last block has none; 0 where all have one.
 * The file is read back, so that other patterns are refused. */
static void put_local(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    size_t first = 0;
    while (first < c->blocks && pare_config_window(c, first))
        first++;
    put_size(w, f, "attention.sliding_window_pattern", first < c->blocks ? first + 1 : 0);
    put_real(w, f, "rope.freq_base_swa", c->rope_local.theta);
}

/* Readers of YaRN have a factor of attention of their own, which attn_factor multiplies. */
static void put_scaling(const pare__gguf_family *f, const pare_rope *r, pare_gguf_writer *w)
{
    const bool yarn = r->kind == PARE_ROPE_YARN;
    const double attention = r->attention / (yarn ? pare__gguf_yarn_attention(r->factor) : 1);
    char full[128];
    if (!yarn && r->kind != PARE_ROPE_LONGROPE)
        return;
    pare_gguf_put_text(w, key_of(f, "rope.scaling.type", full), yarn ? "yarn" : "longrope",
                       yarn ? 4 : 8);
    put_size(w, f, "rope.scaling.original_context_length", r->original_context);
    if (fabs(attention - 1) > 1e-7)
        put_real(w, f, "rope.scaling.attn_factor", attention);
    if (!yarn)
        return;
    put_real(w, f, "rope.scaling.factor", r->factor);
}

static void put_rope(const pare__gguf_family *f, const pare_config *c, pare_gguf_writer *w)
{
    char full[128];
    if (!(f->how & PARE__GGUF_ROTARY))
        return;
    put_size(w, f, "rope.dimension_count", 2 * pare_rope_pairs(c));
    put_real(w, f, "rope.freq_base", c->rope.theta);
    put_scaling(f, &c->rope, w);
    if (f->how & PARE__GGUF_LOCAL && c->window)
        put_local(f, c, w);
    if (c->rope.stretch == 0 || c->rope.stretch == 1)
        return;
    pare_gguf_put_text(w, key_of(f, "rope.scaling.type", full), "linear", 6);
    put_real(w, f, "rope.scaling.factor", c->rope.stretch);
}

pare_status pare_gguf_describe(pare_ctx *cx, const pare_config *c, const pare_export_target *t,
                               const char *program, pare_gguf_writer *w)
{
    const pare__gguf_family *const f = pare__gguf_family_for(c);
    (void)cx;
    pare_gguf_put_text(w, "general.architecture", f->arch, strlen(f->arch));
    pare_gguf_put_text(w, "general.type", "model", 5);
    pare_gguf_put_text(w, "general.quantized_by", program, strlen(program));
    pare_gguf_put_u32(w, "general.quantization_version", 2);
    pare_gguf_put_u32(w, "general.file_type", t->file_type);
    put_sizes(f, c, w);
    put_experts(f, c, w);
    put_choices(f, c, w);
    put_rope(f, c, w);
    return PARE_OK;
}

static bool same_widths(const pare_config *was, const pare_config *is)
{
    for (size_t i = 0; i < was->blocks && i < is->blocks; i++)
        if (pare_config_mlp(was, i) != pare_config_mlp(is, i))
            return false;
    return true;
}

static bool same(double x, double y)
{
    return fabs(x - y) <= 1e-6 * fabs(x);
}

static double attention_of(const pare_rope *r)
{
    return r->attention > 0 ? r->attention : 1;
}

/* Divisors of Llama 3 go through F32, and other bounds can give the same ones. */
static bool same_positions(const pare_rope *was, const pare_rope *is, size_t pairs)
{
    const size_t length[2] = {1, SIZE_MAX};
    for (size_t i = 0; i < 2 * pairs; i++) {
        const double a = pare_rope_frequency(was, i / 2, pairs, length[i % 2]);
        const double b = pare_rope_frequency(is, i / 2, pairs, length[i % 2]);
        if (!(fabs(a - b) <= 2e-6 * a))
            return false;
    }
    return same(attention_of(was), attention_of(is)) &&
           (!pare_rope_by_length(was) || was->original_context == is->original_context);
}

pare_status pare_gguf_check_config(pare_ctx *cx, const pare_config *was, const pare_config *is)
{
    static const char unturned[] = "blocks without positions";
    const size_t pairs = pare_rope_pairs(was);
    const bool local = was->window && was->rope_local.theta > 0;
    const char *const what =
        was->hidden != is->hidden || !same_widths(was, is) || was->blocks != is->blocks ||
                was->heads != is->heads || was->kv_heads != is->kv_heads ||
                was->head_dim != is->head_dim || was->vocab != is->vocab ||
                was->context != is->context
            ? "sizes"
        : was->experts != is->experts || was->experts_used != is->experts_used ||
                was->expert_width != is->expert_width
            ? "experts"
        : was->expert_norm != is->expert_norm                            ? "the weights of experts"
        : !same(was->norm_eps, is->norm_eps)                             ? "the epsilon of norms"
        : was->act != is->act                                            ? "the activation"
        : was->residual != is->residual                                  ? "the order of its halves"
        : was->window != is->window                                      ? "the window of attention"
        : memcmp(was->wide, is->wide, sizeof was->wide) != 0             ? "blocks with a window"
        : memcmp(was->unturned, is->unturned, sizeof was->unturned) != 0 ? unturned
        : !same(was->embed_scale, is->embed_scale)                       ? "the scale of embeddings"
        : !same(was->stream_scale, is->stream_scale)                     ? "the scale of the stream"
        : !same(was->logit_divisor, is->logit_divisor)                   ? "the scale of logits"
        : !same(was->attention_scale, is->attention_scale)               ? "the scale of scores"
        : !same(was->attention_cap, is->attention_cap)                   ? "the cap of scores"
        : !same(was->logit_cap, is->logit_cap)                           ? "the cap of logits"
        : pare_rope_pairs(was) != pare_rope_pairs(is) || !same(was->rope.theta, is->rope.theta)
            ? "positions"
        : !same_positions(&was->rope, &is->rope, pairs) ? "the scaling of positions"
        : local && !same_positions(&was->rope_local, &is->rope_local, pairs)
            ? "the positions of blocks with a window"
            : NULL;
    if (what == unturned)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: such a file has no place for which blocks have no positions; "
                         "llama.cpp takes every fourth; the format safetensors keeps config.json "
                         "as it is");
    if (what)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: %s of this model cannot be said in such a file; the format "
                         "safetensors keeps config.json as it is",
                         what);
    return PARE_OK;
}

pare_status pare_gguf_check_words(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                                  const pare_gguf_writer *w, const pare_gguf_item *item,
                                  size_t items)
{
    static const char name[] = "the GGUF file";
    pare_gguf g;
    pare_json *doc;
    pare_config is;
    PARE_TRY(pare_gguf_parse_head(cx, scratch, name, w->head, w->len, w->bytes, &g));
    for (size_t i = 0; i < g.tensors; i++) /* part of the configuration stands in a tensor */
        for (size_t j = 0; j < items; j++)
            if (item[j].piece[0].values && strcmp(item[j].name, g.tensor[i].name) == 0)
                g.tensor[i].data = (const unsigned char *)item[j].piece[0].values;
    PARE_TRY(pare__gguf_config(cx, name, &g, &doc));
    pare_status s = pare_config_parse(cx, name, doc, &is);
    if (s == PARE_OK)
        s = pare_gguf_check_config(cx, c, &is);
    pare_json_free(doc);
    return s;
}

static bool has_bias(const pare_export_linear *l)
{
    const pare_linear *const w = l->pieces ? l->piece[0].weights : l->weights;
    return w->bias || l->packed.bias;
}

/* The first linear with a bias that files of the family have no place for. */
static const char *bias_too_much(const pare__gguf_family *f, const pare_export_model *m)
{
    for (size_t i = 0; i < m->linears; i++)
        if (has_bias(&m->linear[i]) &&
            (f->how & PARE__GGUF_NO_BIAS ||
             (f->how & PARE__GGUF_NO_O_BIAS && m->linear[i].role == PARE_ROLE_O)))
            return m->linear[i].name;
    return NULL;
}

bool pare_gguf_keeps_window(const pare_config *c)
{
    const pare__gguf_family *const f = pare__gguf_family_for(c);
    return !f || !(f->how & PARE__GGUF_NO_WINDOW) || c->window == 0 || c->window >= c->context;
}

/* Readers round the bounds, take them from the usual turns, and need them in order. */
static pare_status check_yarn(pare_ctx *cx, const pare_config *c)
{
    const pare_rope *const r = &c->rope;
    double bound[2];
    pare_rope_ramp(r, pare_rope_pairs(c), bound);
    const char *const what =
        r->exact_bounds ? "truncate: false"
        : r->beta_fast != PARE__GGUF_BETA_FAST || r->beta_slow != PARE__GGUF_BETA_SLOW
            ? "other bounds than beta_fast 32 and beta_slow 1"
        : bound[0] > bound[1] ? "an original_max_position_embeddings so small"
                              : NULL;
    return what ? pare_fail(cx, PARE_ENOTSUP,
                            "gguf: llama.cpp has no place for yarn with %s; the format "
                            "safetensors keeps config.json as it is",
                            what)
                : PARE_OK;
}

/* Readers of a family must compute the scaling of positions. */
static pare_status check_scaling(pare_ctx *cx, const pare__gguf_family *f, const pare_config *c)
{
    static const struct {
        const char *type;
        unsigned needs; /* PARE__GGUF_* */
    } kinds[] = {[PARE_ROPE_LINEAR] = {"linear", 0},
                 [PARE_ROPE_LLAMA3] = {"llama3", PARE__GGUF_DIVISORS},
                 [PARE_ROPE_DYNAMIC] = {"dynamic", ~0U},
                 [PARE_ROPE_YARN] = {"yarn", 0},
                 [PARE_ROPE_LONGROPE] = {"longrope", PARE__GGUF_FACTORS}};
    const unsigned needs = kinds[c->rope.kind].needs;
    /* Readers would take yarn's factor of attention for blocks with a window, too. */
    const bool local = f->how & PARE__GGUF_LOCAL && c->rope.kind == PARE_ROPE_YARN;
    if ((f->how & needs) != needs || local)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: llama.cpp has no place for scaled frequencies (rope_type %s) in "
                         "models of %s; the format safetensors keeps config.json as it is",
                         kinds[c->rope.kind].type, c->arch->model_type);
    return c->rope.kind == PARE_ROPE_YARN ? check_yarn(cx, c) : PARE_OK;
}

/* What readers of a family take for granted. */
static pare_status check(pare_ctx *cx, const pare_export_model *m)
{
    const pare_config *const c = m->config;
    const pare__gguf_family *const f = pare__gguf_family_for(c);
    const char *const name = c->arch->model_type;
    if (!f)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: models of %s are not written: llama.cpp has no architecture for "
                         "them; the format safetensors is for any program that has",
                         name);
    if (f->how & PARE__GGUF_ACT && c->act != PARE_ACT_SILU)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: llama.cpp computes SiLU in models of %s, and this one has another "
                         "activation; the format safetensors is for programs that know it",
                         name);
    if (f->how & PARE__GGUF_SQUARE && c->heads * c->head_dim != c->hidden)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: %zu head%s of %zu %s not the hidden size %zu, which files of %s "
                         "have no word for; the format safetensors keeps config.json as it is",
                         c->heads, pare_plural(c->heads), c->head_dim, c->heads == 1 ? "is" : "are",
                         c->hidden, name);
    PARE_TRY(check_scaling(cx, f, c));
    if (f->how & PARE__GGUF_QKV_BIAS && !has_bias(&m->linear[0]))
        return pare_fail(
            cx, PARE_ENOTSUP,
            "gguf: linear %s has no bias, which readers of files of %s ask for; the format "
            "safetensors does without",
            m->linear[0].name, name);
    if (bias_too_much(f, m))
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: linear %s has a bias, which readers of files of %s have no place "
                         "for; the format safetensors has",
                         bias_too_much(f, m), name);
    return PARE_OK;
}

static pare_status check_linear(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    if (l->rotated)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: linear %s: its inputs are rotated while the model runs, which "
                         "engines do not do; rotate without online rotations",
                         l->name);
    if (l->bias)
        return pare_fail(cx, PARE_ENOTSUP,
                         "gguf: linear %s: a pass made a bias for it, and engines have no place "
                         "for one in this model; use outlier_suppression: {shift: false}, or "
                         "smoothquant",
                         l->name);
    return PARE_OK;
}

static pare_export_grain grain(const pare_export_target *t, const pare_export_linear *x)
{
    return (pare_export_grain){1, pare_ggml_type_named(pare__gguf_store(t, x).type)->elements, 0};
}

#define TARGET(word, type, number, mix_of, fate_is, text)                                          \
    {                                                                                              \
        .name = "gguf:" word, .summary = text, .kind = PARE_EXPORT_FILE, .fate = fate_is,          \
        .store = pare__gguf_store, .check = check, .check_linear = check_linear, .grain = grain,   \
        .block = type, .file_type = number, .mix = mix_of                                          \
    }
#define ALIKE(word, type, number, text)                                                            \
    TARGET(word, type, number, PARE__MIX_NONE, PARE_EXPORT_REQUANTIZED, text)
#define MIX(word, type, number, name, text)                                                        \
    TARGET(word, type, number, PARE__MIX_##name, PARE_EXPORT_REQUANTIZED, text)

const pare_export_target pare__export_gguf[PARE__GGUF_TARGETS] = {
    [PARE__GGUF_Q4_0] = ALIKE("q4_0", "Q4_0", 2, "blocks of 32, 4 bits, one scale"),
    [PARE__GGUF_Q4_1] = ALIKE("q4_1", "Q4_1", 3, "blocks of 32, 4 bits, scale and minimum"),
    [PARE__GGUF_Q5_0] = ALIKE("q5_0", "Q5_0", 8, "blocks of 32, 5 bits, one scale"),
    [PARE__GGUF_Q5_1] = ALIKE("q5_1", "Q5_1", 9, "blocks of 32, 5 bits, scale and minimum"),
    [PARE__GGUF_Q8_0] = ALIKE("q8_0", "Q8_0", 7, "blocks of 32, 8 bits, one scale"),
    [PARE__GGUF_Q2_K] = ALIKE("q2_k", "Q2_K", 21, "blocks of 256, 2 bits, scales of 4 bits"),
    [PARE__GGUF_Q3_K] = ALIKE("q3_k", "Q3_K", 11, "blocks of 256, 3 bits, scales of 6 bits"),
    [PARE__GGUF_Q4_K] = ALIKE("q4_k", "Q4_K", 14, "blocks of 256, 4 bits, scales of 6 bits"),
    [PARE__GGUF_Q5_K] = ALIKE("q5_k", "Q5_K", 16, "blocks of 256, 5 bits, scales of 6 bits"),
    [PARE__GGUF_Q6_K] = ALIKE("q6_k", "Q6_K", 18, "blocks of 256, 6 bits, scales of 8 bits"),
    [PARE__GGUF_Q2_K_S] = MIX("q2_k_s", "Q2_K", 21, Q2_K_S, "mix: q2_k, first down 4, head 6 bits"),
    [PARE__GGUF_Q2_K_M] = MIX("q2_k_m", "Q2_K", 10, Q2_K_M,
                              "mix that llama.cpp calls Q2_K: v, o, down 3, head 6 bits"),
    [PARE__GGUF_Q3_K_S] = MIX("q3_k_s", "Q3_K", 11, Q3_K_S, "mix: q3_k, head 6 bits"),
    [PARE__GGUF_Q3_K_M] =
        MIX("q3_k_m", "Q3_K", 12, Q3_K_M, "mix: q3_k; v, o, down 4 or 5, head 6 bits"),
    [PARE__GGUF_Q3_K_L] = MIX("q3_k_l", "Q3_K", 13, Q3_K_L, "mix: q3_k; v, o, down 5, head 6 bits"),
    [PARE__GGUF_Q4_K_S] =
        MIX("q4_k_s", "Q4_K", 14, Q4_K_S, "mix: q4_k; first v and down 5, head 6 bits"),
    [PARE__GGUF_Q4_K_M] =
        MIX("q4_k_m", "Q4_K", 15, Q4_K_M, "mix: q4_k; half of v and down 6, head 6 bits"),
    [PARE__GGUF_Q5_K_S] = MIX("q5_k_s", "Q5_K", 16, Q5_K_S, "mix: q5_k, head 6 bits"),
    [PARE__GGUF_Q5_K_M] =
        MIX("q5_k_m", "Q5_K", 17, Q5_K_M, "mix: q5_k; half of v and down 6, head 6 bits"),
    [PARE__GGUF_TQ1_0] = ALIKE("tq1_0", "TQ1_0", 36, "blocks of 256, ternary, 1.69 bits"),
    [PARE__GGUF_TQ2_0] = ALIKE("tq2_0", "TQ2_0", 37, "blocks of 256, ternary, 2.06 bits"),
    [PARE__GGUF_MXFP4] = ALIKE("mxfp4", "MXFP4", 38, "blocks of 32, 4-bit floats, powers of two"),
    [PARE__GGUF_F16] = TARGET("f16", "F16", 1, PARE__MIX_NONE, PARE_EXPORT_ROUNDED, "floats"),
};
