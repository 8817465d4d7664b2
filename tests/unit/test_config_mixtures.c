/* config.json of mixtures of experts with a recurrent state, and of GLM 4.5. Right values: those of
 * transformers 5, Qwen3NextConfig, Qwen3_5MoeTextConfig and Glm4MoeConfig. */
#include "formats/checkpoint.h"
#include "tests/unit/folder.h"

#define SIZES                                                                                      \
    "\"hidden_size\": 64, \"intermediate_size\": 172, \"num_hidden_layers\": 5,"                   \
    "\"num_attention_heads\": 8, \"vocab_size\": 512, \"num_experts_per_tok\": 2,"                 \
    "\"moe_intermediate_size\": 48, "
#define STATE                                                                                      \
    "\"linear_num_key_heads\": 2, \"linear_num_value_heads\": 4, \"linear_key_head_dim\": 12,"     \
    "\"linear_value_head_dim\": 20, \"linear_conv_kernel_dim\": 4, \"num_experts\": 6,"            \
    "\"shared_expert_intermediate_size\": 96, \"head_dim\": 16"
#define GLM                                                                                        \
    "{\"model_type\": \"glm4_moe\", " SIZES "\"n_routed_experts\": 8, \"n_shared_experts\": 2"

static pare_config config;

static void parse(const char *text)
{
    pare_ctx cx;
    pare_json *json;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_json_parse(&cx, "c", text, strlen(text), 8192, &json), PARE_OK);
    ck_assert_msg(pare_config_parse(&cx, "c", json, &config) == PARE_OK, "%s", cx.what);
    pare_json_free(json);
}

static void check_states(const char *text, bool norm)
{
    parse(text);
    ck_assert(config.expert_norm == norm && config.mixed);
    ck_assert_uint_eq(config.experts, 6);
    ck_assert_uint_eq(config.intermediate, 96);
    ck_assert_uint_eq(config.context, 32768);
    ck_assert_uint_eq(config.rope.rotary, 4);
    ck_assert(config.norm_eps == 1e-6 && config.rope.theta == 10000 && !config.tied);
    ck_assert_uint_eq(pare_config_attentions(&config), 1);
    for (size_t i = 0; i < 5; i++) {
        const pare_arch *const a = pare_block_arch(&config, i);
        ck_assert(!a->recurrence == (i == 3));
        ck_assert(a->experts && a->experts->shared_gate);
        ck_assert_str_eq(a->linear[PARE_ROLE_UP].name, "mlp.shared_expert.up_proj");
    }
}

START_TEST(experts_stand_in_blocks_of_both_kinds)
{
    check_states("{\"model_type\": \"qwen3_next\", " SIZES STATE "}", true);
    check_states("{\"model_type\": \"qwen3_next\", " SIZES STATE ", \"norm_topk_prob\": false}",
                 false);
    check_states("{\"model_type\": \"qwen3_5_moe_text\", " SIZES STATE
                 ", \"norm_topk_prob\": false}",
                 true); /* the family has no such word */
}
END_TEST

static void check_norms(bool is)
{
    for (size_t i = 0; i < 5; i++) {
        const pare_arch *const a = pare_block_arch(&config, i);
        ck_assert(!a->inner_norm[PARE_NORM_Q] == !is && !a->inner_norm[PARE_NORM_K] == !is);
    }
}

START_TEST(glm_takes_its_own_defaults)
{
    parse(GLM "}");
    check_norms(false);
    ck_assert(config.expert_norm && config.expert_scale == 1 && config.expert_groups == 0);
    ck_assert(config.norm_eps == 1e-5 && config.rope.theta == 10000);
    ck_assert_uint_eq(config.rope.rotary, 4);
    ck_assert_uint_eq(config.context, 131072);
    ck_assert(!config.turns_neighbours && config.dense_blocks == 1);
    ck_assert(!pare_block_arch(&config, 0)->experts && pare_block_arch(&config, 1)->experts);
    ck_assert_uint_eq(pare_config_mlp(&config, 0), 172);
    ck_assert_uint_eq(pare_config_mlp(&config, 1), 96);
}
END_TEST

START_TEST(glm_takes_what_is_said)
{
    parse(GLM ", \"use_qk_norm\": true, \"n_group\": 4, \"topk_group\": 2,"
              "\"first_k_dense_replace\": 3, \"routed_scaling_factor\": 2.5, \"head_dim\": 24,"
              "\"partial_rotary_factor\": 0.25, \"norm_topk_prob\": false}");
    check_norms(true);
    ck_assert(!config.expert_norm && config.expert_scale == 2.5);
    ck_assert(config.expert_groups == 4 && config.expert_groups_used == 2);
    ck_assert(config.dense_blocks == 3 && config.rope.rotary == 6);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("config_mixtures");
    TCase *const t = tcase_create("mixtures");
    tcase_add_test(t, experts_stand_in_blocks_of_both_kinds);
    tcase_add_test(t, glm_takes_its_own_defaults);
    tcase_add_test(t, glm_takes_what_is_said);
    suite_add_tcase(s, t);
    return unit_main(s);
}
