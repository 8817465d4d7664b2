/* Settings of the key/value cache that a model cannot keep. */
#include "compress/plan/plan.h"
#include "tests/unit/job.h"

START_TEST(settings_that_the_model_cannot_keep_are_refused_with_their_place)
{
    static const struct {
        const char *kv, *what; /* NULL: planned */
    } cases[] = {
        {"{method: int4, group: 48}", "recipe.yaml:7:33: kv_cache: group 48 of method int4 does "
                                      "not divide the 32 channels of a head; take a multiple of 8 "
                                      "that does, or head"},
        {"{method: int4, group: 64}", "group 64 of method int4 does not divide"},
        {"{method: int4, group: 24}", "group 24 of method int4 does not divide"},
        {"{method: kivi, group: 24}", "recipe.yaml:7:33: kv_cache: group 24 of method kivi does "
                                      "not divide the 32 channels of a head"},
        {"{method: kivi, window: 64}", "recipe.yaml:7:1: kv_cache: method kivi leaves 64 tokens in "
                                       "F16 (window), but the model has a context of 64"},
        {"{method: kvquant, sink: 64}", "leaves 64 tokens in F16 (sink)"},
        {"{method: int4}", NULL},
        {"{method: int4, group: 16}", NULL},
        {"{method: int4, group: head}", NULL},
        {"{method: kivi, group: 8, window: 63}", NULL},
        {"{method: kvquant, sink: 63}", NULL},
        {"{method: int8}", NULL},
    };
    tiny_model m = tiny_model_default();
    m.head_dim = 32;
    const job_place place = job_make(&m);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pare_ctx cx;
        pare_arena a;
        pare_plan plan;
        char text[1024];
        (void)snprintf(text, sizeof text,
                       "pare: 1\nmodel: model\nseed: 5\n"
                       "calibration: {tokens: tokens.i32, samples: 2, window: 16}\n"
                       "passes:\n  - rtn\nkv_cache: %s\n",
                       cases[i].kv);
        job_recipe(&place, text);
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        const pare_job job = {.recipe = job_path(&place, "recipe.yaml"),
                              .output = job_path(&place, "out")};
        const pare_status s = pare_plan_make(&cx, &a, &job, &plan);
        if (cases[i].what)
            ck_assert_msg(s == PARE_EUSAGE && strstr(cx.what, cases[i].what), "%s: %s", cases[i].kv,
                          cx.what);
        else
            ck_assert_msg(s == PARE_OK, "%s: %s", cases[i].kv, cx.what);
        pare_plan_close(&plan);
        pare_arena_release(&a);
    }
    job_remove_directory(place.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_settings");
    TCase *const t = tcase_create("kv_settings");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, settings_that_the_model_cannot_keep_are_refused_with_their_place);
    suite_add_tcase(s, t);
    return unit_main(s);
}
