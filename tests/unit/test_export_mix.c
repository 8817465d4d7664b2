/* Mixes of types of GGUF files: the type of each tensor, as llama.cpp chooses it. */
#include <stdio.h>
#include <string.h>

#include "formats/export_internal.h"
#include "tests/unit/unit.h"

static pare_config config(const char *type, size_t blocks, size_t heads, size_t kv, size_t experts)
{
    return (pare_config){.arch = pare_arch_find(type),
                         .blocks = blocks,
                         .heads = heads,
                         .kv_heads = kv,
                         .experts = experts};
}

static const char *type_of(const char *target, const pare_config *c, pare_role role, size_t block,
                           size_t width)
{
    const pare_linear w = {.n = 8, .k = width, .dtype = PARE_F16};
    const pare_export_linear l = {
        .config = c, .role = role, .block = block, .weights = &w, .packed = {.n = 8, .k = width}};
    return pare_export_store_of(pare_export_find(target), &l).type;
}

/* "Q6_K 0 1 6, Q4_K" when these blocks have the first type and all others the last. */
static void is_mixed(const char *target, const pare_config *c, pare_role role, const char *first,
                     const char *blocks, const char *others)
{
    char told[512] = "";
    for (size_t i = 0; i < c->blocks; i++) {
        const char *const type = type_of(target, c, role, i, 256);
        if (strcmp(type, others) == 0)
            continue;
        ck_assert_msg(strcmp(type, first) == 0, "%s: block %zu: %s", target, i, type);
        (void)snprintf(told + strlen(told), sizeof told - strlen(told), " %zu", i);
    }
    ck_assert_msg(strcmp(told, blocks) == 0, "%s: %s is in%s, not in%s", target, first, told,
                  blocks);
}

static const char some[] = " 0 1 2 3 6 9 12 15 18 21 24 27 28 29 30 31";

START_TEST(blocks_get_the_types_of_llama_cpp)
{
    const pare_config c = config("llama", 32, 32, 32, 0);
    is_mixed("gguf:q4_k_m", &c, PARE_ROLE_V, "Q6_K", some, "Q4_K");
    is_mixed("gguf:q4_k_m", &c, PARE_ROLE_DOWN, "Q6_K", some, "Q4_K");
    is_mixed("gguf:q5_k_m", &c, PARE_ROLE_V, "Q6_K", some, "Q5_K");
    is_mixed("gguf:q5_k_m", &c, PARE_ROLE_DOWN, "Q6_K", some, "Q5_K");
    is_mixed("gguf:q5_k_s", &c, PARE_ROLE_V, "", "", "Q5_K");
    is_mixed("gguf:q4_k_s", &c, PARE_ROLE_V, "Q5_K", " 0 1 2 3", "Q4_K");
    is_mixed("gguf:q4_k_s", &c, PARE_ROLE_DOWN, "Q5_K", " 0 1 2 3", "Q4_K");
    is_mixed("gguf:q4_k_s", &c, PARE_ROLE_O, "", "", "Q4_K");
    is_mixed("gguf:q3_k_l", &c, PARE_ROLE_V, "", "", "Q5_K");
    is_mixed("gguf:q3_k_l", &c, PARE_ROLE_DOWN, "", "", "Q5_K");
    is_mixed("gguf:q3_k_l", &c, PARE_ROLE_O, "", "", "Q5_K");
    is_mixed("gguf:q3_k_m", &c, PARE_ROLE_V, "Q5_K", " 0 1", "Q4_K");
    is_mixed("gguf:q3_k_m", &c, PARE_ROLE_DOWN, "Q5_K", " 0 1", "Q4_K");
    is_mixed("gguf:q3_k_m", &c, PARE_ROLE_O, "", "", "Q4_K");
    is_mixed("gguf:q3_k_s", &c, PARE_ROLE_V, "", "", "Q3_K");
    is_mixed("gguf:q2_k_m", &c, PARE_ROLE_V, "", "", "Q3_K");
    is_mixed("gguf:q2_k_m", &c, PARE_ROLE_DOWN, "", "", "Q3_K");
    is_mixed("gguf:q2_k_m", &c, PARE_ROLE_O, "", "", "Q3_K");
    is_mixed("gguf:q2_k_s", &c, PARE_ROLE_V, "", "", "Q2_K");
    is_mixed("gguf:q2_k_s", &c, PARE_ROLE_DOWN, "Q4_K", " 0 1 2 3", "Q2_K");
    for (pare_role r = 0; r < PARE_COMMON_ROLES; r++)
        if (r == PARE_ROLE_Q || r == PARE_ROLE_K || r == PARE_ROLE_GATE || r == PARE_ROLE_UP)
            for (size_t t = PARE__GGUF_Q2_K_S; t <= PARE__GGUF_Q5_K_M; t++)
                is_mixed(pare__export_gguf[t].name, &c, r, "", "", pare__export_gguf[t].block);
}
END_TEST

/* 30 blocks: eighths are 3, and 7 / 8 of them 26. */
START_TEST(eighths_are_whole_blocks)
{
    const pare_config c = config("llama", 30, 9, 3, 0);
    is_mixed("gguf:q4_k_m", &c, PARE_ROLE_DOWN, "Q6_K", " 0 1 2 5 8 11 14 17 20 23 26 27 28 29",
             "Q4_K");
    is_mixed("gguf:q3_k_m", &c, PARE_ROLE_DOWN, "Q5_K", " 0", "Q4_K");
    const pare_config few = config("llama", 3, 4, 4, 0); /* no eighth */
    is_mixed("gguf:q4_k_m", &few, PARE_ROLE_V, "Q6_K", " 2", "Q4_K");
}
END_TEST

START_TEST(shared_keys_and_experts_change_the_rules)
{
    const pare_config shared = config("llama", 32, 32, 8, 0);
    is_mixed("gguf:q2_k_m", &shared, PARE_ROLE_V, "", "", "Q4_K");
    is_mixed("gguf:q2_k_s", &shared, PARE_ROLE_V, "", "", "Q4_K");
    const pare_config three = config("llama", 32, 24, 8, 0);
    is_mixed("gguf:q2_k_m", &three, PARE_ROLE_V, "", "", "Q3_K");
    const pare_config large = config("llama", 80, 64, 8, 0), old = config("llama", 80, 64, 64, 0),
                      qwen = config("qwen2", 80, 64, 64, 0), other = config("qwen3", 80, 64, 8, 0);
    is_mixed("gguf:q3_k_s", &large, PARE_ROLE_V, "", "", "Q5_K");
    is_mixed("gguf:q3_k_s", &old, PARE_ROLE_V, "", "", "Q3_K");
    is_mixed("gguf:q3_k_s", &qwen, PARE_ROLE_V, "", "", "Q5_K");
    is_mixed("gguf:q3_k_s", &other, PARE_ROLE_V, "", "", "Q3_K");
    const pare_config eight = config("mixtral", 32, 32, 8, 8);
    is_mixed("gguf:q4_k_m", &eight, PARE_ROLE_V, "", "", "Q8_0");
    is_mixed("gguf:q4_k_m", &eight, PARE_ROLE_K, "", "", "Q8_0");
    is_mixed("gguf:q4_k_m", &eight, PARE_ROLE_O, "", "", "Q5_K");
    is_mixed("gguf:q5_k_m", &eight, PARE_ROLE_O, "", "", "Q5_K");
    is_mixed("gguf:q3_k_l", &eight, PARE_ROLE_O, "", "", "Q3_K");
    is_mixed("gguf:q2_k_s", &eight, PARE_ROLE_O, "", "", "Q2_K");
    const pare_config four = config("mixtral", 32, 32, 8, 4);
    is_mixed("gguf:q4_k_m", &four, PARE_ROLE_K, "", "", "Q4_K");
}
END_TEST

START_TEST(heads_and_embeddings_have_types_of_their_own)
{
    pare_config c = config("llama", 32, 32, 32, 0);
    const pare_linear w = {.n = 8, .k = 256, .dtype = PARE_F16};
    pare_export_linear l = {
        .config = &c, .role = PARE_ROLES, .block = 32, .weights = &w, .packed = {.n = 8, .k = 256}};
    const pare_export_target *const t = pare_export_find("gguf:q3_k_m");
    ck_assert_str_eq(pare_export_store_of(t, &l).type, "Q6_K");
    ck_assert_int_eq(pare_export_store_of(t, &l).fate, PARE_EXPORT_QUANTIZED);
    l.looked_up = true;
    ck_assert_str_eq(pare_export_store_of(t, &l).type, "Q3_K");
    c.tied = true;
    ck_assert_str_eq(pare_export_store_of(t, &l).type, "Q6_K");
    ck_assert_str_eq(pare_export_store_of(pare_export_find("gguf:q3_k"), &l).type, "F16");
}
END_TEST

START_TEST(rows_that_256_does_not_divide_fall_back)
{
    static const struct {
        const char *target, *type;
        pare_role role;
    } rows[] = {{"gguf:q4_k_m", "Q5_0", PARE_ROLE_Q}, {"gguf:q4_k_m", "Q8_0", PARE_ROLE_DOWN},
                {"gguf:q5_k_s", "Q5_1", PARE_ROLE_Q}, {"gguf:q4_k_s", "Q5_1", PARE_ROLE_V},
                {"gguf:q3_k_m", "Q4_0", PARE_ROLE_Q}, {"gguf:q2_k_m", "Q4_0", PARE_ROLE_UP}};
    const pare_config c = config("llama", 32, 32, 32, 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        ck_assert_str_eq(type_of(rows[i].target, &c, rows[i].role, 0, 288), rows[i].type);
        ck_assert_str_eq(type_of(rows[i].target, &c, rows[i].role, 0, 40), "F16");
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_mix");
    TCase *const t = tcase_create("export_mix");
    tcase_add_test(t, blocks_get_the_types_of_llama_cpp);
    tcase_add_test(t, eighths_are_whole_blocks);
    tcase_add_test(t, shared_keys_and_experts_change_the_rules);
    tcase_add_test(t, heads_and_embeddings_have_types_of_their_own);
    tcase_add_test(t, rows_that_256_does_not_divide_fall_back);
    suite_add_tcase(s, t);
    return unit_main(s);
}
