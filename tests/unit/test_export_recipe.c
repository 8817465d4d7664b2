#include "tests/unit/job.h"

/* Sizes that every target takes. */
static tiny_model wide(void)
{
    return (tiny_model){.hidden = 64,
                        .intermediate = 128,
                        .blocks = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .vocab = 96,
                        .context = 64,
                        .dtype = PARE_F16,
                        .shards = 1,
                        .seed = 1};
}

static job_place begin(const char *passes, const char *exports)
{
    const tiny_model m = wide();
    const job_place p = job_make(&m);
    char text[1024];
    (void)snprintf(text, sizeof text, "pare: 1\nmodel: model\npasses: [%s]\nexport:\n%s", passes,
                   exports);
    job_recipe(&p, text);
    return p;
}

static bool has(const job_place *p, const char *name)
{
    return pare_path_is_file(job_path(p, name));
}

#define RTN "rtn: {bits: 4, group: 32}"

START_TEST(a_recipe_exports_what_it_made)
{
    const job_place p = begin(RTN, "  - {format: gptq, path: x/gptq}\n"
                                   "  - {format: compressed-tensors, path: ct/}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(has(&p, "out/manifest.json") && has(&p, "x/gptq/quantize_config.json"));
    ck_assert(has(&p, "x/gptq/model.safetensors") && has(&p, "ct/model.safetensors"));
    ck_assert(has(&p, "ct/pare-export.json") && !has(&p, "ct/quantize_config.json"));
    ck_assert(!pare_path_is_directory(job_path(&p, "ct.partial")));
    job_remove_directory(p.root);
}
END_TEST

START_TEST(exports_do_not_change_the_artifact)
{
    char with[PARE_SHA256_HEX], without[PARE_SHA256_HEX];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "with"}, NULL), PARE_OK);
    job_recipe(&p, "pare: 1\nmodel: model\npasses: [" RTN "]\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "without"}, NULL), PARE_OK);
    job_hash(&p, "with", with);
    job_hash(&p, "without", without);
    ck_assert_str_eq(with, without);
    job_remove_directory(p.root);
}
END_TEST

/* What a plan refuses, and how. */
static const struct {
    const char *passes, *exports;
    pare_status s;
    const char *says;
} mistakes[] = {
    {RTN, "  - {format: gtpq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: unknown format \"gtpq\"; did you mean \"gptq\"?"},
    {RTN, "  - {format: \"gguf:q9\", path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: unknown format \"gguf:q9\"; known: compressed-tensors, gptq"},
    {RTN, "  - {format: \"gguf:q4_0\", path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:14: a recipe does not write GGUF files yet; afterwards run: pare export"},
    {"nf4", "  - {format: awq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:5: awq: linear model.layers.0.self_attn.q_proj (nf4"},
    {"rtn: {bits: 4, group: 32, symmetric: false}", "  - {format: gptq, path: x}\n", PARE_EUSAGE,
     "recipe.yaml:5:5: gptq: linear model.layers.0.self_attn.q_proj: zero points are stored"},
    {"rtn: {bits: 4, group: 96}", "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "vLLM has kernels for groups of 32, 64, 128 and whole rows"},
    {"rtn: {bits: 4, group: 32, targets: '*.q_proj'}",
     "  - {format: compressed-tensors, path: x}\n", PARE_EUSAGE,
     "linears model.layers.0.self_attn.q_proj and model.layers.0.self_attn.k_proj: vLLM runs"},
    {RTN, "  - {format: awq, path: out/x}\n", PARE_EUSAGE, "recipe.yaml:5:25: "},
    {RTN, "  - {format: awq, path: x}\n  - {format: gptq, path: x/}\n", PARE_EUSAGE,
     "recipe.yaml:6:26: "},
    {RTN, "  - {format: awq, path: .}\n", PARE_EEXISTS, "would replace the model"},
    {RTN, "  - {format: awq, path: model}\n", PARE_EEXISTS, "would replace the model"},
};
enum { MISTAKES = sizeof mistakes / sizeof *mistakes };

START_TEST(what_cannot_be_exported_is_refused_before_a_weight_is_read)
{
    char what[1024];
    const job_place p = begin(mistakes[_i].passes, mistakes[_i].exports);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), mistakes[_i].s);
    ck_assert_msg(strstr(what, mistakes[_i].says), "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&p, "out")));
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    job_remove_directory(p.root);
}
END_TEST

START_TEST(plain_checkpoints_are_not_exported)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    job_recipe(&p, "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 4, window: "
                   "64}\npasses: [depth: {blocks: 1}]\nexport: [{format: awq, path: x}]\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "is a plain checkpoint, which other programs read as it is"), "%s",
                  what);
    job_remove_directory(p.root);
}
END_TEST

START_TEST(an_export_that_is_there_is_replaced_with_the_output)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "other"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "recipe.yaml:5:25") && strstr(what, "x: exists; --restart"), "%s",
                  what);
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    ck_assert(has(&p, "x/model.safetensors"));
    job_remove_directory(p.root);
}
END_TEST

/* Somebody takes the place of the second export while the first is written. */
static const job_place *taken;
static void take_place(void *self, const pare_event *e)
{
    (void)self;
    if (e->kind == PARE_EVENT_EXPORT && strncmp(e->text, "gptq to ", 8) == 0)
        ck_assert_int_eq(mkdir(job_path(taken, "second"), 0777), 0);
}

START_TEST(a_failed_export_leaves_the_artifact_and_says_so)
{
    char what[1024];
    const job_place p = begin(RTN, "  - {format: awq, path: first}\n"
                                   "  - {format: gptq, path: second}\n");
    const pare_events events = {take_place, NULL};
    taken = &p;
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out", .events = &events}, what),
                     PARE_EEXISTS);
    ck_assert_msg(strstr(what, "/out is complete; its export to ") &&
                      strstr(what, "/second (pare export --format gptq) failed: ") &&
                      strstr(what, "second: exists"),
                  "%s", what);
    ck_assert(has(&p, "out/manifest.json") && has(&p, "first/model.safetensors"));
    ck_assert(!pare_path_is_directory(job_path(&p, "out.partial")));
    ck_assert(!pare_path_is_directory(job_path(&p, "second.partial")));
    job_remove_directory(p.root);
}
END_TEST

static bool holds(const job_place *p, const char *file, const char *fragment)
{
    char *text;
    size_t len;
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(p, file), 1 << 24, &text, &len), PARE_OK);
    const bool found = strstr(text, fragment) != NULL;
    pare_arena_release(&a);
    return found;
}

START_TEST(reports_name_the_exports)
{
    const job_place p = begin(RTN, "  - {format: awq, path: x}\n");
    ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(holds(&p, "out/README.md", "| awq | x |"));
    ck_assert(holds(&p, "out/report.html", "<tr><td>export</td><td>awq to x</td></tr>"));
    ck_assert(holds(&p, "out/run.json", "\"exports\": ["));
    ck_assert(!holds(&p, "out/manifest.json", "awq"));
    job_remove_directory(p.root);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_recipe");
    TCase *const t = tcase_create("jobs");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_recipe_exports_what_it_made);
    tcase_add_test(t, exports_do_not_change_the_artifact);
    tcase_add_loop_test(t, what_cannot_be_exported_is_refused_before_a_weight_is_read, 0, MISTAKES);
    tcase_add_test(t, plain_checkpoints_are_not_exported);
    tcase_add_test(t, an_export_that_is_there_is_replaced_with_the_output);
    tcase_add_test(t, a_failed_export_leaves_the_artifact_and_says_so);
    tcase_add_test(t, reports_name_the_exports);
    suite_add_tcase(s, t);
    return unit_main(s);
}
