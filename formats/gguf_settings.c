/* Settings of an architecture that no word of config.json stands for: what nobody uses is left out,
 * what changes the arithmetic must have the value that changes nothing, and a key that is not known
 * may be either and is refused.
 *
 * Source  llama.cpp, src/llama-arch.cpp (the keys), src/llama-hparams.h and src/llama-model.cpp. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/gguf_internal.h"

/* Read elsewhere, or without a share in logits. */
static const char *const left_out[] = {
    "vocab_size",
    "tensor_data_layout",
    "pooling_type",
    "decoder_start_token_id",
    "feed_forward_length",
    "expert_used_count",
    "hidden_activation",
    "attention.head_count_kv", /* shapes tell */
    "attention.key_length",
    "attention.value_length",
    "attention.layer_norm_epsilon",
    "attention.layer_norm_rms_epsilon",
    "attention.sliding_window",
    "attention.sliding_window_pattern",
    "rope.dimension_count",
    "rope.freq_base",
    "rope.scale_linear",
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.finetuned",
    "rope.scaling.original_context_length",
};

/* A number that changes the arithmetic unless it has one of two values. */
typedef struct setting {
    const char *key;
    double none, also;
} setting;

enum { SETTINGS = 27 };

static void list_settings(const pare__gguf_family *f, const pare__gguf_shape *s,
                          setting out[SETTINGS])
{
    const bool norm = f->how & PARE__GGUF_EXPERT_NORM || strcmp(f->model_type, "mixtral") == 0;
    const double width = (double)s->width, turned = (double)s->turned;
    const bool yarn = s->scaling == PARE_ROPE_YARN;
    const setting all[SETTINGS] = {
        {"attention.scale", 1 / sqrt(width), 0},
        {"attention.key_length_swa", width, width},
        {"attention.value_length_swa", width, width},
        {"attention.causal", 1, 1},
        {"attention.output_scale", 1, 0},
        {"attn_logit_softcapping", 0, 0},
        {"final_logit_softcapping", 0, 0},
        {"router_logit_softcapping", 0, 0},
        {"embedding_scale", 1, 0},
        {"residual_scale", 1, 0},
        {"logit_scale", 1, 0},
        {"rope.freq_base_swa", s->theta, s->theta},
        {"rope.dimension_count_swa", turned, turned},
        {"rope.scaling.attn_factor", 1, 1},
        {"rope.scaling.alpha", 0, 0},
        {"rope.scaling.yarn_attn_factor", 1, yarn ? pare__gguf_yarn_attention(s->factor) : 1},
        {"rope.scaling.yarn_ext_factor", yarn, -1},
        {"rope.scaling.yarn_log_multiplier", 0, 0},
        {"rope.scaling.yarn_beta_fast", PARE__GGUF_BETA_FAST, PARE__GGUF_BETA_FAST},
        {"rope.scaling.yarn_beta_slow", PARE__GGUF_BETA_SLOW, PARE__GGUF_BETA_SLOW},
        {"expert_weights_scale", 1, 0},
        {"expert_weights_norm", norm, norm},
        {"expert_gating_func", 1, 0},
        {"expert_group_count", 1, 0},
        {"expert_group_used_count", 1, 0},
        {"interleave_moe_layer_step", 1, 0},
        {"moe_every_n_layers", 1, 0},
    };
    memcpy(out, all, sizeof all);
}

static bool is_read(const pare__gguf_family *f, const char *key)
{
    bool is = false;
    for (size_t i = 0; i < sizeof left_out / sizeof *left_out; i++)
        is |= strcmp(key, left_out[i]) == 0;
    for (const pare__gguf_word *w = f->words; w->key; w++)
        is |= strcmp(key, w->key) == 0;
    return is;
}

static bool is_near(double x, double y)
{
    return fabs(x - y) <= 1e-6 * fabs(y);
}

/* Every element of a number or a list. */
static bool is_either(const pare_gguf_value *v, double one, double other)
{
    double x;
    for (uint64_t i = 0; i < v->count; i++)
        if (!pare_gguf_number(v, i, &x) || !(is_near(x, one) || is_near(x, other)))
            return false;
    return true;
}

static pare_status check_setting(pare_ctx *cx, const char *name, const pare_gguf_value *v,
                                 const setting *s)
{
    double x;
    if (is_either(v, s->none, s->also))
        return PARE_OK;
    if (v->array || !pare_gguf_number(v, 0, &x))
        return pare_fail(cx, PARE_EFORMAT, "%s: %s is missing, or not one number for all blocks",
                         name, v->key);
    return pare_fail(cx, PARE_ENOTSUP, "%s: %s of %g is not supported (%g is)", name, v->key, x,
                     s->none);
}

/* Which blocks have the window: a period, whose last block has none, or a list. Those of the family
 * must be meant. */
static pare_status check_pattern(pare_ctx *cx, const char *name, const pare_gguf_value *v,
                                 const pare__gguf_family *f, const pare__gguf_shape *s)
{
    int64_t x;
    const pare__gguf_windowed *const other = pare__gguf_windowed_of(f);
    const pare_window_rule rule = pare_arch_find(other ? other->model_type : f->model_type)->window;
    const int64_t period = rule == PARE_WINDOW_EVEN     ? 2
                           : rule == PARE_WINDOW_FOURTH ? 4
                                                        : INT64_MAX;
    bool same = v && (!v->array || v->count >= (uint64_t)s->blocks);
    for (int64_t i = 0; v && same && s->window && i < s->blocks; i++) {
        same = pare_gguf_integer(v, v->array ? (uint64_t)i : 0, &x) && (v->array || x >= 0);
        const bool local = same && (v->array ? x != 0 : x == 0 || i % x < x - 1);
        same = same && local == ((i + 1) % period != 0);
    }
    if (!v || same || !s->window)
        return PARE_OK;
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: %s: windows in other blocks than this architecture has are not supported",
                     name, v->key);
}

pare_status pare__gguf_settings(pare_ctx *cx, const char *name, const pare_gguf *g,
                                const pare__gguf_family *f, const pare__gguf_shape *s)
{
    setting all[SETTINGS];
    const size_t len = strlen(f->arch);
    list_settings(f, s, all);
    for (size_t i = 0; i < g->values; i++) {
        const pare_gguf_value *const v = &g->value[i];
        if (strncmp(v->key, f->arch, len) != 0 || v->key[len] != '.')
            continue;
        const char *const key = v->key + len + 1;
        if (f->how & PARE__GGUF_LOCAL && strcmp(key, "rope.freq_base_swa") == 0)
            continue;
        if (strcmp(key, "attention.sliding_window_pattern") == 0 && !(f->how & PARE__GGUF_LOCAL))
            PARE_TRY(check_pattern(cx, name, v, f, s));
        const bool unused =
            (!(f->how & PARE__GGUF_MIXTURE) && strncmp(key, "expert_", 7) == 0) ||
            (s->scaling != PARE_ROPE_LINEAR && strcmp(key, "rope.scaling.attn_factor") == 0) ||
            (s->scaling != PARE_ROPE_YARN && strncmp(key, "rope.scaling.yarn_beta_", 23) == 0);
        if (unused || is_read(f, key))
            continue;
        size_t k = 0;
        while (k < SETTINGS && strcmp(key, all[k].key) != 0)
            k++;
        if (k < SETTINGS)
            PARE_TRY(check_setting(cx, name, v, &all[k]));
        else if (!is_either(v, 0, 0))
            return pare_fail(cx, PARE_ENOTSUP,
                             "%s: %s is not known in files of %s; it may change what the model "
                             "computes, so take it out of the file if it does not",
                             name, v->key, f->arch);
    }
    return PARE_OK;
}
