/* Latent attention, experts in groups and dense first blocks, as files of DeepSeek and GLM describe
 * them.
 *
 * Source  transformers, configuration_ and modeling_deepseek_v2.py, _deepseek_v3.py, _glm4_moe.py.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "formats/config_internal.h"

pare_status pare__config_plain(const pare__config_file *f, pare_config *c)
{
    bool whole = pare_json_type_of(pare_json_get(f->json, "q_lora_rank")) != PARE_JSON_NULL;
    if (!c->arch->plain)
        return PARE_OK;
    if (!(c->arch->latent_eps > 0))
        PARE_TRY(pare__config_flag(f, "use_qk_norm", false, &whole));
    if (!whole)
        c->arch = c->arch->plain;
    return PARE_OK;
}

/* Heads of keys and values are as many as those of queries, and their widths fit together. */
static pare_status check_heads(const pare__config_file *f, const pare_config *c, size_t nope)
{
    if (c->kv_heads != c->heads)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: num_key_value_heads %zu is not supported with latent attention "
                         "(num_attention_heads, %zu, is)",
                         f->name, c->kv_heads, c->heads);
    if (c->rope.rotary % 2 != 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: qk_rope_head_dim %zu is odd, rotary positions need pairs", f->name,
                         c->rope.rotary);
    if (c->head_dim % 2 != 0 || c->value_dim > c->head_dim)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: qk_nope_head_dim %zu with qk_rope_head_dim %zu and v_head_dim %zu is "
                         "not supported: keys of an even width, and values that are no wider, are",
                         f->name, nope, c->rope.rotary, c->value_dim);
    if (c->heads > PARE__CONFIG_SIZE_MAX / (2 * c->head_dim))
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: keys and values of %zu heads of %zu are more than %d", f->name,
                         c->heads, c->head_dim, PARE__CONFIG_SIZE_MAX);
    return PARE_OK;
}

pare_status pare__config_latent(const pare__config_file *f, pare_config *c)
{
    enum { MOST = 1 << 16 };
    size_t nope;
    double share = 1;
    if (c->arch->inner_norm[PARE_NORM_Q_LATENT])
        PARE_TRY(pare__config_size(f, "q_lora_rank", PARE__CONFIG_SIZE_MAX / 2, &c->q_rank));
    PARE_TRY(pare__config_size(f, "kv_lora_rank", PARE__CONFIG_SIZE_MAX / 2, &c->kv_rank));
    PARE_TRY(pare__config_size(f, "qk_nope_head_dim", MOST, &nope));
    PARE_TRY(pare__config_size(f, "qk_rope_head_dim", MOST, &c->rope.rotary));
    PARE_TRY(pare__config_size(f, "v_head_dim", MOST, &c->value_dim));
    PARE_TRY(pare__config_positive(f, f->json, "partial_rotary_factor", &share));
    PARE_TRY(pare__config_all_turn(f, c, share));
    c->head_dim = nope + c->rope.rotary;
    if (c->arch->experts->correction) /* V2 does not look at it */
        PARE_TRY(pare__config_flag(f, "rope_interleave", true, &c->turns_neighbours));
    return check_heads(f, c, nope);
}

pare_status pare__config_latent_scale(const pare__config_file *f, pare_config *c)
{
    const double all = c->rope.scores > 0 ? c->rope.scores : 1;
    if (c->rope.kind != PARE_ROPE_YARN && (c->rope.kind != PARE_ROPE_LINEAR || c->rope.stretch > 0))
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: positions of models of type %s are scaled by yarn or not at all; "
                         "other types are not supported",
                         f->name, c->arch->model_type);
    c->attention_scale = all * all / sqrt((double)c->head_dim);
    return PARE_OK;
}

/* A word that may be absent and has one value otherwise. */
static pare_status check_word(const pare__config_file *f, const char *key, const char *is)
{
    const pare_json *const v = pare_json_get(f->json, key);
    const char *const text = pare_json_text(v, NULL);
    if (pare__config_absent(v) || (text && strcmp(text, is) == 0))
        return PARE_OK;
    return pare_fail(f->cx, PARE_ENOTSUP, "%s: %s %.64s is not supported (%s is)", f->name, key,
                     text ? text : "with a value that is no text", is);
}

/* Whether experts are picked from the best groups only. */
static pare_status read_method(const pare__config_file *f, const pare_config *c, bool *groups)
{
    static const char key[] = "topk_method", limited[] = "group_limited_greedy";
    const char *const method = pare_json_text(pare_json_get(f->json, key), NULL);
    *groups = true;
    if (c->arch->experts->correction) {
        PARE_TRY(check_word(f, "scoring_func", "sigmoid"));
        return check_word(f, key, "noaux_tc");
    }
    PARE_TRY(check_word(f, "scoring_func", "softmax"));
    if (c->expert_norm)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: norm_topk_prob: true is not supported in models of type %s", f->name,
                         c->arch->model_type);
    *groups = method && strcmp(method, limited) == 0;
    return *groups ? PARE_OK : check_word(f, key, "greedy");
}

static pare_status read_groups(const pare__config_file *f, pare_config *c)
{
    const bool sums = c->arch->experts->correction; /* two experts of a group speak for it */
    size_t groups = c->arch->experts->groups, used = c->arch->experts->groups_used;
    PARE_TRY(pare__config_size_or(f, "n_group", c->experts, groups, &groups));
    PARE_TRY(pare__config_size_or(f, "topk_group", groups, used < groups ? used : groups, &used));
    const size_t each = c->experts / groups;
    if (c->experts % groups != 0 || (sums && each < 2) || c->experts_used > used * each)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %zu experts in %zu groups (%sn_group), %zu of which are picked from "
                         "(topk_group), do not fit together with %zu experts for a token%s",
                         f->name, c->experts, groups,
                         pare__config_absent(pare_json_get(f->json, "n_group")) ? "the default of "
                                                                                : "",
                         used, c->experts_used, sums ? "; a group needs two experts at least" : "");
    c->expert_multiple = groups;
    c->expert_groups = used < groups ? groups : 0;
    c->expert_groups_used = used < groups ? used : 0;
    return PARE_OK;
}

/* The MLP that every token runs: one, or all shared experts as one. */
static pare_status read_dense(const pare__config_file *f, pare_config *c)
{
    static const char key[] = "first_k_dense_replace";
    const pare_json *const v = pare_json_get(f->json, key);
    const bool absent = pare__config_absent(v);
    const int64_t dense =
        absent ? (int64_t)c->arch->experts->first_dense : pare_json_integer(v, -1);
    size_t shared;
    if (absent && (uint64_t)dense >= c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %s is missing, and its default %" PRId64 " is not from 0 to %zu: one "
                         "block at least has experts",
                         f->name, key, dense, c->blocks - 1);
    if (dense < 0 || (uint64_t)dense >= c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: %s is not a whole number from 0 to %zu: one block at least has "
                         "experts",
                         f->name, key, c->blocks - 1);
    PARE_TRY(
        pare__config_size(f, "n_shared_experts", PARE__CONFIG_SIZE_MAX / c->expert_width, &shared));
    shared *= c->expert_width;
    c->dense_blocks = (size_t)dense;
    for (size_t i = 0; i < c->dense_blocks; i++)
        pare_blocks_add(c->dense, i);
    pare__config_dense(c, shared);
    return PARE_OK;
}

pare_status pare__config_router(const pare__config_file *f, pare_config *c)
{
    bool groups;
    c->expert_scale = c->arch->experts->scale;
    PARE_TRY(pare__config_positive(f, f->json, "routed_scaling_factor", &c->expert_scale));
    PARE_TRY(read_method(f, c, &groups));
    if (groups)
        PARE_TRY(read_groups(f, c));
    return read_dense(f, c);
}
