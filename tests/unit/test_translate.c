/* Recipes of llm-compressor as recipes of pare: what becomes of every key. */
#define HOME "pare-translate"

#include "formats/json.h"
#include "tests/unit/program.h"

#include "tests/unit/init_case.h"
#include "tests/unit/translated.h"

/* Every line is listed once for each key that stands in it, with the reason. */
static void check_lines(const pare_init_result *r, const size_t *line, bool implied)
{
    size_t count = 0;
    for (size_t i = 0; i < r->lefts; i++) {
        if (r->left[i].implied != implied)
            continue;
        ck_assert_msg(r->left[i].line == line[count], "line %zu is listed:\n%s", r->left[i].line,
                      r->text);
        check_holds(r, r->left[i].what);
        check_holds(r, r->left[i].why);
        count++;
    }
    ck_assert_msg(line[count] == 0, "line %zu is not listed:\n%s", line[count], r->text);
    ck_assert(implied || count == r->lost);
}

START_TEST(recipes_of_another_tool_are_translated_and_the_rest_is_listed)
{
    const translated *const t = &translated_recipes[_i];
    pare_init_result r;
    const pare_status s =
        pare_init_translate(&cx, &arena, &hedge, "their.yaml", t->from, strlen(t->from), &r);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 4 && t->holds[i]; i++)
        check_holds(&r, t->holds[i]);
    check_lines(&r, t->left, false);
    check_lines(&r, t->implied, true);
    check_planned(&r, "translated");
}
END_TEST

START_TEST(what_is_no_recipe_of_the_other_tool_is_refused_with_its_place)
{
    static const char *const row[][2] = {
        {"", "their.yaml:1:1: holds no stages"},
        {"- a\n", "their.yaml:1:1: holds no stages"},
        {"a: [1\n", "their.yaml:2:1: not valid YAML"},
        {"a: &x 1\n", "anchors are not supported"},
        {"stage: {args: 3}\n", "their.yaml:1: nothing is left to do: args: 3: no counterpart"},
        {"stage: {}\n", "their.yaml: holds no modifiers"},
        {"q_modifiers: {QuantizationModifier: {kv_cache_scheme: {num_bits: 8}}}\n",
         "their.yaml: holds a kv_cache_scheme alone"},
        {"s:\n  q_modifiers:\n    QuantizationModifier: {scheme: MXFP8, targets: Linear}\n",
         "their.yaml:3: nothing is left to do: scheme: MXFP8: 8-bit floats"},
        {"q_modifiers: {GPTQModifier: }\n", "it names no scheme and no config_groups"},
        {"q_modifiers: {GPTQModifier: 4, A: [2], \"a\\x1b[2J\": }\n", "a?[2J"},
        {"q_modifiers: {SparseGPTModifier: {sparsity: [0.5]}}\n", "sparsity is one number"},
        {"q_modifiers: {SparseGPTModifier: {mask_structure: \"5:4\"}}\n", "expected N:M"},
        {"q_modifiers: {AWQModifier: }\n", "no pass behind it quantizes"},
        {"q_modifiers:\n  GPTQModifier: {scheme: W4A16, targets: Linear, ignore: ['re:(q_proj']}\n",
         "their.yaml:2:59: regular expression \"(q_proj\": missing closing parenthesis"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        const pare_status s = pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                                  strlen(row[i][0]), &r);
        bool listed = false; /* the first is in the message, all are in the list */
        for (size_t j = 0; j < r.lefts; j++)
            listed =
                listed || strstr(r.left[j].what, row[i][1]) || strstr(r.left[j].why, row[i][1]);
        ck_assert_msg(s == PARE_EUSAGE && (listed || strstr(cx.what, row[i][1])), "%s: %s",
                      row[i][0], cx.what);
    }
}
END_TEST

/* A failure is told as it was found, whatever the modifiers behind it hold. */
START_TEST(the_first_broken_expression_is_told_once)
{
    static const char *const row[][2] = {
        {"q_modifiers:\n"
         "  SmoothQuantModifier: {smoothing_strength: 0.8, ignore: ['re:(']}\n"
         "  GPTQModifier: {scheme: W4A16, targets: ['re:[', 're:.*q_proj']}\n",
         "their.yaml:2:59: regular expression \"(\": missing closing parenthesis at byte 1: "
         "correct "
         "it, or take it out"},
        {"q_modifiers:\n"
         "  SmoothQuantModifier: {smoothing_strength: 0.8}\n"
         "  GPTQModifier: {scheme: W8A8, targets: [Linear], ignore: [lm_head, 're:(']}\n",
         "their.yaml:3:69: regular expression \"(\": missing closing parenthesis at byte 1: "
         "correct "
         "it, or take it out"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                             strlen(row[i][0]), &r),
                         PARE_EUSAGE);
        ck_assert_str_eq(cx.what, row[i][1]);
    }
}
END_TEST

START_TEST(a_linear_that_two_modifiers_want_is_told_by_both)
{
    static const char *const row[][2] = {
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    QuantizationModifier: {scheme: W8A16, targets: ['re:.*q_proj']}\n",
         "their.yaml:4: QuantizationModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it already"},
        {"s:\n  q_modifiers:\n    - AWQModifier: {scheme: W4A16_ASYM, targets: Linear}\n"
         "    - GPTQModifier:\n        scheme: W8A16\n        targets: Linear\n",
         "their.yaml:5: GPTQModifier takes model.layers.0.self_attn.q_proj, and AWQModifier in "
         "line 3 quantizes it already"},
        {"a:\n  x_modifiers:\n    SparseGPTModifier: {sparsity: 0.5}\nb:\n  x_modifiers:\n"
         "    WandaPruningModifier: {sparsity: 0.5}\n",
         "their.yaml:6: WandaPruningModifier takes model.layers.0.self_attn.q_proj, and "
         "SparseGPTModifier in line 3 prunes it already"},
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    WandaPruningModifier: {sparsity: 0.5}\n",
         "their.yaml:4: WandaPruningModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it in front of that"},
        {"s:\n  q_modifiers:\n    GPTQModifier: {scheme: W4A16, targets: Linear}\n"
         "    SmoothQuantModifier: {smoothing_strength: 0.5}\n",
         "their.yaml:4: SmoothQuantModifier takes model.layers.0.self_attn.q_proj, and "
         "GPTQModifier in line 3 quantizes it in front of that"},
        /* what only a plan finds has the place of their recipe, too */
        {"s:\n  q_modifiers:\n    AWQModifier: {}\n"
         "    GPTQModifier: {scheme: W4A16, targets: ['re:.*mlp.*']}\n",
         "their.yaml:3: AWQModifier, translated: awq: no pass behind it quantizes "},
        /* perhaps for want of what was left out */
        {"s:\n  q_modifiers:\n    SmoothQuantModifier: {smoothing_strength: 0.5}\n"
         "    GPTQModifier: {scheme: W4A17, targets: Linear}\n",
         "their.yaml:3: SmoothQuantModifier, translated: smoothquant: no pass behind it quantizes "
         "model.layers.0.self_attn.q_proj; add one, or leave the linear out here with skip; left "
         "out is line 4: scheme: W4A17: "},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        pare_init_result r;
        pare_ctx_clear(&cx);
        const pare_status s = pare_init_translate(&cx, &arena, &hedge, "their.yaml", row[i][0],
                                                  strlen(row[i][0]), &r);
        ck_assert_msg(s == PARE_EUSAGE && strstr(cx.what, row[i][1]) == cx.what, "%zu: %d %s", i, s,
                      cx.what);
    }
}
END_TEST

/* Every allocation fails in turn. */
START_TEST(memory_that_runs_out_is_an_error)
{
    const translated *const t = &translated_recipes[1];
    unit_failing f = {0};
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n += n < 40 ? 1 : 7) {
        pare_ctx own;
        pare_arena a;
        pare_init_result r;
        f = (unit_failing){.left = n};
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK)
            s = pare_init_translate(&own, &a, &hedge, "their.yaml", t->from, strlen(t->from), &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%d: %s", s, own.what);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
    }
}
END_TEST

START_TEST(what_was_left_out_is_told_and_ends_with_3)
{
    write_file(HOME "/from.yaml", translated_recipes[5].from);
    const outcome *o = call("init '" HEDGE "' --from " HOME "/from.yaml", ERR);
    ck_assert_msg(o->code == 3 &&
                      strstr(o->text, "left out: " HOME "/from.yaml:4: scheme: FP8_DYN"),
                  "%d: %s", o->code, o->text);
    write_file(HOME "/from.yaml", translated_recipes[0].from);
    o = call("init '" HEDGE "' --from " HOME "/from.yaml", OUT);
    ck_assert_msg(o->code == 0 && strstr(o->text, "- gptq: {bits: 4"), "%d: %s", o->code, o->text);
    o = call("init '" HEDGE "' --from " HOME "/from.yaml --format json", OUT);
    pare_json *json = NULL;
    ck_assert_int_eq(pare_json_parse(&cx, "stdout", o->text, strlen(o->text), 1 << 16, &json),
                     PARE_OK);
    ck_assert_ptr_nonnull(pare_json_get(json, "left_out"));
    ck_assert_ptr_nonnull(pare_json_get(json, "implied"));
    pare_json_free(json);
}
END_TEST

/* It may be misspelt: nothing of it is in the recipe, nor is it always so. */
START_TEST(a_name_that_is_nowhere_is_told_in_json)
{
    write_file(HOME "/from.yaml",
               "a_stage:\n  b_modifiers:\n    QuantizationModifier:\n      targets: [Linear]\n"
               "      scheme: W4A16\n      ignore: [lm_head, lm_hed]\n");
    const outcome *const o = call("init '" HEDGE "' --from " HOME "/from.yaml --format json", OUT);
    pare_json *json = NULL;
    ck_assert_int_eq(o->code, 0);
    ck_assert_int_eq(pare_json_parse(&cx, "stdout", o->text, strlen(o->text), 1 << 16, &json),
                     PARE_OK);
    ck_assert_uint_eq(pare_json_count(pare_json_get(json, "left_out")), 0);
    const pare_json *const left = pare_json_get(json, "unknown");
    ck_assert_uint_eq(pare_json_count(left), 1);
    ck_assert_str_eq(pare_json_text(pare_json_get(pare_json_at(left, 0), "what"), NULL), "lm_hed");
    const pare_json *const always = pare_json_get(json, "implied"); /* lm_head, which is there */
    ck_assert_uint_eq(pare_json_count(always), 1);
    ck_assert_str_eq(pare_json_text(pare_json_get(pare_json_at(always, 0), "what"), NULL),
                     "lm_head");
    pare_json_free(json);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("translate");
    TCase *const t = tcase_create("translate");
    tcase_set_timeout(t, 300);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, recipes_of_another_tool_are_translated_and_the_rest_is_listed, 0,
                        translated_count);
    tcase_add_test(t, what_is_no_recipe_of_the_other_tool_is_refused_with_its_place);
    tcase_add_test(t, the_first_broken_expression_is_told_once);
    tcase_add_test(t, a_linear_that_two_modifiers_want_is_told_by_both);
    tcase_add_test(t, memory_that_runs_out_is_an_error);
    tcase_add_test(t, what_was_left_out_is_told_and_ends_with_3);
    tcase_add_test(t, a_name_that_is_nowhere_is_told_in_json);
    suite_add_tcase(s, t);
    return unit_main(s);
}
