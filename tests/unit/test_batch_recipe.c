/* Files of pare batch: the jobs that come of them, their recipes, and every mistake in words. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/passes/pass.h"
#include "recipes/batch_recipe.h"
#include "tests/unit/folder.h"

typedef struct home {
    pare_ctx cx;
    pare_arena arena;
    pare_batch_words words;
} home;

static void begin(home *h)
{
    static bool rounds_not[256];
    pare_ctx_init(&h->cx);
    ck_assert_int_eq(pare_arena_init(&h->cx, &h->arena, 0), PARE_OK);
    h->words = (pare_batch_words){.rounds_not = rounds_not, .count = pare_pass_count()};
    ck_assert_int_eq(pare_pass_words_take(&h->arena, &h->words.passes), PARE_OK);
    for (size_t i = 0; i < h->words.count; i++)
        rounds_not[i] = pare_passes[i]->transform != NULL;
}

static void end(home *h)
{
    pare_arena_release(&h->arena);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

static pare_status parse(home *h, const char *text, pare_batch_recipe *b)
{
    const pare_recipe_source source = {"b.yaml", text, strlen(text), NULL, 0};
    return pare_batch_parse(&h->cx, &h->arena, &source, &h->words, b);
}

#define HEAD                                                                                       \
    "pare: 1\n"                                                                                    \
    "recipe: {model: m, calibration: {text: c, samples: 8}, passes: [gptq: {damp: 0.02}]}\n"

static const struct {
    const char *text, *names; /* with a blank behind each */
} cases[] = {
    {HEAD "matrix: {bits: [3, 4], group: [64, 128]}\n",
     "bits3-group64 bits3-group128 bits4-group64 bits4-group128 "},
    {HEAD "matrix: {group: [64], method: [gptq, awq, nf4], bits: [3, 4]}\n",
     "gptq-group64-bits3 gptq-group64-bits4 awq-group64-bits3 awq-group64-bits4 nf4-group64 "},
    {HEAD "matrix: {method: {a: gptq, b: [awq, rtn: {bits: 8}]}}\n", "a b "},
    {HEAD "matrix: {method: [[awq, rtn], rtn]}\n", "awq-rtn rtn "},
    {HEAD "models: [x/one, two/]\nmatrix: {bits: [3, 4]}\n",
     "one-bits3 one-bits4 two-bits3 two-bits4 "},
    {HEAD "models: {a: x/y, b: z/y}\n", "a b "},
    {HEAD "matrix: {calibration.samples: [16, 32], seed: [0, 1]}\n",
     "samples16-seed0 samples16-seed1 samples32-seed0 samples32-seed1 "},
    {HEAD "matrix: {clip: [none, mse], bits: [4]}\n", "clip-none-bits4 clip-mse-bits4 "},
    {HEAD "matrix: {method: [gptq, rtn], bits: [3, 4]}\nexclude: [{bits: 3, method: rtn}]\n",
     "gptq-bits3 gptq-bits4 rtn-bits4 "},
    {HEAD "models: [x, y]\nmatrix: {bits: [3, 4]}\nexclude: [{model: y, bits: 3}]\n",
     "x-bits3 x-bits4 y-bits4 "},
    {HEAD "matrix: {bits: [3]}\ninclude: [{method: rtn, bits: 8}, {name: z, bits: 2, damp: 0.1}]\n",
     "bits3 rtn-bits8 z "},
    {HEAD "models: [x, y]\ninclude: [{bits: 2}, {bits: 3, model: y}]\n",
     "x y x-bits2 y-bits2 y-bits3 "},
    {HEAD "include:\n  - {name: b, bits: 3, after: a}\n  - {name: a, bits: 2}\n", "b a "},
    {HEAD "include: [{bits: 3}]\n", "bits3 "},
    {HEAD "include: [{nan: clamp}]\n", "nan-clamp "},
    {HEAD "matrix: {method: [[rotate, gptq]], recipe.seed: [1], passes.0.rotate.seed: [2]}\n",
     "rotate-gptq-recipe.seed1-passes.0.rotate.seed2 "},
    {HEAD "matrix: {method: [gptq], seed: [1, 2]}\n", "gptq-seed1 gptq-seed2 "},
    {HEAD "models: [a/mod\u00e8le-\u00e9t\u00e9, \u6a21\u578b, \u6a21\u677f, my model]\n",
     "mod-ce84ba-le-t a28aea db9a88 my-model "},
};

START_TEST(jobs_are_the_combinations_in_order)
{
    home h;
    pare_batch_recipe b;
    char names[512] = "";
    begin(&h);
    ck_assert_msg(parse(&h, cases[_i].text, &b) == PARE_OK, "%s", h.cx.what);
    for (size_t i = 0; i < b.jobs; i++) {
        const size_t used = strlen(names);
        (void)snprintf(names + used, sizeof names - used, "%s ", b.job[i].name);
    }
    ck_assert_str_eq(names, cases[_i].names);
    end(&h);
}
END_TEST

static double value_of(const home *h, const pare_step *step, const char *param)
{
    const pare_pass_words *const pass = &h->words.passes[step->pass];
    for (size_t i = 0; pass->params[i].name; i++)
        if (strcmp(pass->params[i].name, param) == 0)
            return step->value[i];
    ck_abort_msg("%s has no %s", pass->name, param);
    return 0;
}

START_TEST(a_job_is_its_recipe_with_what_is_varied)
{
    home h;
    pare_batch_recipe b;
    begin(&h);
    ck_assert_msg(parse(&h,
                        HEAD "output: o\n"
                             "models: [m2, /m3]\n"
                             "matrix: {method: [gptq, [awq, rtn]], bits: [3], "
                             "calibration.samples: [5]}\n"
                             "include: [{name: q, model: {job: m2-gptq-bits3-samples5}}, "
                             "{name: r, model: m, after: q}]\n",
                        &b) == PARE_OK,
                  "%s", h.cx.what);
    char directory[4096], path[4200];
    ck_assert_ptr_nonnull(getcwd(directory, sizeof directory));
    ck_assert_str_eq(b.output.text, "o");
    ck_assert_uint_eq(b.jobs, 6);
    const pare_batch_job *const job = b.job;
    (void)snprintf(path, sizeof path, "%s/m2", directory);
    ck_assert_str_eq(job[0].recipe.model.text, path);
    (void)snprintf(path, sizeof path, "%s/c", directory);
    ck_assert_str_eq(job[0].recipe.calibration.text.item[0].text, path);
    ck_assert_str_eq(job[0].recipe.output.text, job[0].name);
    ck_assert_uint_eq(job[0].recipe.calibration.samples, 5);
    ck_assert_double_eq(value_of(&h, &job[0].recipe.step[0], "bits"), 3);
    ck_assert_double_eq(value_of(&h, &job[0].recipe.step[0], "damp"), 0.02);
    ck_assert_str_eq(job[2].recipe.model.text, "/m3");
    ck_assert_uint_eq(job[1].recipe.steps, 2);
    ck_assert_double_eq(value_of(&h, &job[1].recipe.step[1], "bits"), 3);
    ck_assert_uint_eq(job[1].after, 1);
    ck_assert_str_eq(job[4].recipe.model.text, "m2-gptq-bits3-samples5");
    ck_assert_uint_eq(job[4].after, 0);
    ck_assert_double_eq(value_of(&h, &job[4].recipe.step[0], "bits"), 4);
    ck_assert_uint_eq(job[5].after, 4);
    ck_assert_uint_eq(job[5].root, 0);
    end(&h);
}
END_TEST

START_TEST(files_of_tasks_are_found_from_where_they_are_named)
{
    home h;
    pare_batch_recipe b;
    begin(&h);
    ck_assert_msg(parse(&h,
                        "pare: 1\nrecipe: {model: m, passes: [rtn], evaluate: [tasks: {piqa: a, "
                        "shots: 1, shots_from: {piqa: b}}]}\nmatrix: {bits: [3]}\n",
                        &b) == PARE_OK,
                  "%s", h.cx.what);
    const pare_evaluation *const e = &b.job[0].recipe.evaluation[0];
    ck_assert_int_eq(e->file.text[0], '/');
    ck_assert_int_eq(e->shots_file.text[0], '/');
    end(&h);
}
END_TEST

START_TEST(exports_of_jobs_have_names_of_their_own)
{
    home h;
    pare_batch_recipe b;
    begin(&h);
    ck_assert_msg(parse(&h,
                        "pare: 1\nrecipe: {model: m, passes: [rtn], export: [{format: gptq, path: "
                        "x/e}]}\nmatrix: {bits: [3, 4]}\n",
                        &b) == PARE_OK,
                  "%s", h.cx.what);
    ck_assert_str_eq(b.job[0].recipe.export[0].path.text, "x/bits3-e");
    ck_assert_str_eq(b.job[1].recipe.export[0].path.text, "x/bits4-e");
    end(&h);
}
END_TEST

static const struct {
    const char *text, *says;
} mistakes[] = {
    {"matrix: {bits: [3]}\n", "b.yaml:1:1: \"pare\" is missing"},
    {"pare: 1\nmatrix: {bits: [3]}\n", "b.yaml:1:1: \"recipe\" is missing"},
    {"pare: 1\nmodel: m\npasses: [rtn]\n", "b.yaml:3:9: a file with \"passes\" is a recipe"},
    {"pare: 1\nrecipe: nowhere.yaml\n", "b.yaml:2:9: "},
    {HEAD "matric: {bits: [3]}\n",
     "b.yaml:3:1: unknown key \"matric\" in the batch; did you mean \"matrix\"?"},
    {HEAD, "b.yaml:1:1: there is no job"},
    {HEAD "matrix: [3]\n", "b.yaml:3:9: "},
    {HEAD "matrix: {bit: [3]}\n", "b.yaml:3:10: \"bit\" is neither a parameter of the passes nor a "
                                  "path such as calibration.samples; did you mean \"bits\"?"},
    {HEAD "matrix: {bits: 3}\n", "b.yaml:3:16: \"bits\" is \"3\"; it takes a list of values"},
    {HEAD "matrix: {bits: []}\n",
     "b.yaml:3:16: \"bits\" is an empty list; it takes a list of values"},
    {HEAD "matrix: {bits: [3, [4]]}\n", "b.yaml:3:20: this entry is a list; it takes one value"},
    {HEAD "matrix: {calibration.text: [[a, b]]}\n",
     "b.yaml:3:29: this entry is a list; it takes one value: write the list in the recipe, and "
     "name "
     "one place of it here, as in \"calibration.text\" with .0 behind it for the first"},
    {HEAD "include: [{name: a, calibration.text: [x]}]\n",
     "b.yaml:3:39: \"calibration.text\" is a list; it takes one value: write the list in the "
     "recipe"},
    {HEAD "matrix: {output: [a, b]}\n", "b.yaml:3:10: \"output\" is not varied"},
    {HEAD "include: [{bits: 3, output: a}]\n", "b.yaml:3:21: \"output\" is not varied"},
    {HEAD "matrix: {bits: [3], passes.0.gptq.bits: [8]}\n",
     "b.yaml:3:42: \"passes.0.gptq.bits\" sets what \"bits\" does, too"},
    {HEAD "matrix: {method: [gptq, [rotate, gptq]], seed: [1]}\n",
     "b.yaml:3:42: \"seed\" is a key of the recipe and a parameter of rotate; write recipe.seed "
     "for "
     "the key, passes.0.rotate.seed for the parameter"},
    {HEAD "include: [{method: [gptq, distill], embeddings: true}]\n",
     "b.yaml:3:37: \"embeddings\" is a key of the recipe and a parameter of distill; write "
     "recipe.embeddings for the key, passes.1.distill.embeddings for"},
    {HEAD "matrix: {method: [gptq, [gptq, distill]], embeddings: [true]}\n",
     "passes.1.distill.embeddings for the parameter; put a method that has another pass there, or "
     "none, into \"include\""},
    {HEAD "matrix: {recipe.seed: [1], seed: [2]}\n",
     "b.yaml:3:24: \"recipe.seed\" sets what \"seed\" does, too; leave one out"},
    {HEAD "matrix: {recipe.output: [a]}\n", "b.yaml:3:10: \"output\" is not varied"},
    {HEAD "matrix: {bits: [3, 9]}\n", "b.yaml:3:20: \"bits\" is \"9\"; it takes"},
    {HEAD "matrix: {bits: [9]}\n", "that is the job \"bits9\""},
    {HEAD "matrix: {bits: [3, 3]}\n", "b.yaml:3:20: the value \"3\" is there twice"},
    {HEAD "matrix: {calibration.sample: [3]}\n",
     "unknown key \"sample\" in calibration; did you mean \"samples\"?"},
    {HEAD "matrix: {method: gptq}\n", "b.yaml:3:18: \"method\" is \"gptq\"; it takes a list"},
    {HEAD "matrix: {method: [gptk]}\n",
     "b.yaml:3:19: unknown pass \"gptk\"; did you mean \"gptq\"?"},
    {HEAD "matrix: {method: [gptq, gptq]}\n", "b.yaml:3:25: the method gptq is there twice"},
    {HEAD "matrix: {method: [nf4], bits: [3]}\n", "\"bits\" is neither a parameter"},
    {HEAD "models: m\n", "b.yaml:3:9: \"models\" is \"m\"; it takes a list of paths"},
    {HEAD "models: [a/m, b/m]\n", "b.yaml:3:15: another model is called \"m\""},
    {HEAD "matrix: {bits: [3]}\nexclude: {bits: 3}\n", "b.yaml:4:10: "},
    {HEAD "matrix: {bits: [3]}\nexclude: [{bit: 3}]\n", "did you mean \"bits\"?"},
    {HEAD "matrix: {bits: [3]}\nexclude: [{bits: 5}]\n",
     "b.yaml:4:11: this entry of \"exclude\" fits no combination"},
    {HEAD "matrix: {bits: [3]}\nexclude: [{bits: 3}]\n", "b.yaml:1:1: there is no job"},
    {HEAD "include: {bits: 3}\n", "b.yaml:3:10: "},
    {HEAD "include: [{bit: 3}]\n", "b.yaml:3:12: \"bit\" is neither"},
    {HEAD "include: [{method: nf4, bits: 3}]\n", "b.yaml:3:25: \"bits\" is neither"},
    {HEAD "include: [{name: a/b, bits: 3}]\n", "b.yaml:3:18: \"name\" is \"a/b\"; it takes a name"},
    {HEAD "include: [{name: .a, bits: 3}]\n", "b.yaml:3:18: "},
    {HEAD "include: [{name: a.yaml, bits: 3}]\n", "b.yaml:3:18: "},
    {HEAD "include: [{name: shared, bits: 3}]\n", "b.yaml:3:18: "},
    {HEAD "include: [{name: a, bits: 3}, {name: A, bits: 4}]\n", "two jobs are called \"A\""},
    {HEAD "include: [{name: a, bits: 3, after: bb}, {name: bbb, bits: 4}]\n",
     "b.yaml:3:37: there is no job \"bb\"; did you mean \"bbb\"?"},
    {HEAD "include: [{name: a, bits: 3, after: a}]\n",
     "b.yaml:3:37: the job \"a\" waits for itself"},
    {HEAD "include: [{name: a, bits: 3, after: b}, {name: b, bits: 4, after: a}]\n",
     "waits for itself in the end"},
    {HEAD "include: [{name: a, bits: 3}, {name: b, bits: 4, model: {jobs: a}}]\n",
     "unknown key \"jobs\" in a model; did you mean \"job\"?"},
    {HEAD "include: [{name: a, bits: 3}, {name: b, model: {job: a}, after: a}]\n",
     "leave \"after\""},
    {HEAD "models: [.., x]\n", "b.yaml:3:10: a job would be called \"..\""},
    {HEAD "models: {Shared: x, y: y}\n", "b.yaml:3:18: a job would be called \"Shared\""},
    {HEAD "models: [x.log, y]\n", "b.yaml:3:10: a job would be called \"x.log\""},
    {"pare: 1\nrecipe: {passes: [rtn]}\nmatrix: {bits: [3]}\n", "the job \"bits3\" has no model"},
    {"pare: 1\nrecipe: {model: m, pases: [rtn]}\nmatrix: {seed: [3]}\n",
     "unknown key \"pases\" in the recipe; did you mean \"passes\"?"},
};

START_TEST(mistakes_are_told_with_their_place)
{
    home h;
    pare_batch_recipe b;
    begin(&h);
    const pare_status s = parse(&h, mistakes[_i].text, &b);
    ck_assert_msg(s != PARE_OK, "taken: %s", mistakes[_i].text);
    ck_assert_msg(strstr(h.cx.what, mistakes[_i].says), "\"%s\" does not say \"%s\"", h.cx.what,
                  mistakes[_i].says);
    end(&h);
}
END_TEST

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    home h;
    pare_batch_recipe b;
    begin(&h);
    const pare_recipe_source source = {"b.yaml", bytes, len, NULL, 0};
    const pare_status s = pare_batch_parse(&h.cx, &h.arena, &source, &h.words, &b);
    memcpy(cx->what, h.cx.what, sizeof cx->what);
    end(&h);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    const char *message[sizeof mistakes / sizeof *mistakes];
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++)
        message[i] = mistakes[i].says;
    corpus_reaches("batch", parse_bytes, message, sizeof mistakes / sizeof *mistakes);
}
END_TEST

/* 16 values of 6 keys, as "matrix". */
static void put_matrix(char *text, size_t size, size_t keys)
{
    static const char *const key[] = {"seed",
                                      "calibration.samples",
                                      "passes.0.gptq.block",
                                      "calibration.window",
                                      "passes.0.gptq.group",
                                      "passes.0.gptq.damp"};
    size_t used = strlen(text);
    for (size_t k = 0; k < keys; k++) {
        used += (size_t)snprintf(text + used, size - used, "  %s: [", key[k]);
        for (int i = 1; i <= 16; i++)
            used +=
                (size_t)snprintf(text + used, size - used, "%d%s", 32 * i, i < 16 ? ", " : "]\n");
    }
}

static const struct {
    size_t keys;
    const char *more, *says;
} floods[] = {
    {4, "", "more than 4096 jobs"},
    {6, "  clip: [none]\nexclude: [{clip: none}]\n", "more than 1048576 combinations"},
};

START_TEST(too_many_jobs_are_refused)
{
    home h;
    pare_batch_recipe b;
    char text[2048] = HEAD "matrix:\n";
    begin(&h);
    put_matrix(text, sizeof text, floods[_i].keys);
    const size_t used = strlen(text);
    (void)snprintf(text + used, sizeof text - used, "%s", floods[_i].more);
    ck_assert_int_eq(parse(&h, text, &b), PARE_EUSAGE);
    ck_assert_msg(strstr(h.cx.what, floods[_i].says), "%s", h.cx.what);
    end(&h);
}
END_TEST

/* 4096 jobs of a recipe with 2000 patterns would take more memory than they are worth. */
START_TEST(many_jobs_of_a_long_recipe_are_refused)
{
    home h;
    pare_batch_recipe b;
    char text[16384] =
        "pare: 1\nrecipe: {model: m, calibration: {text: c}, passes: [gptq: {skip: [c";
    begin(&h);
    size_t used = strlen(text);
    for (int i = 0; i < 2000; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, ", c");
    (void)snprintf(text + used, sizeof text - used, "]}]}\nmatrix:\n");
    put_matrix(text, sizeof text, 3);
    ck_assert_int_eq(parse(&h, text, &b), PARE_EUSAGE);
    ck_assert_msg(strstr(h.cx.what, "all jobs together would have more than"), "%s", h.cx.what);
    end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("batch_recipe");
    TCase *const t = tcase_create("batch_recipe");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, jobs_are_the_combinations_in_order, 0, sizeof cases / sizeof *cases);
    tcase_add_test(t, a_job_is_its_recipe_with_what_is_varied);
    tcase_add_test(t, files_of_tasks_are_found_from_where_they_are_named);
    tcase_add_test(t, exports_of_jobs_have_names_of_their_own);
    tcase_add_loop_test(t, mistakes_are_told_with_their_place, 0,
                        sizeof mistakes / sizeof *mistakes);
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, many_jobs_of_a_long_recipe_are_refused);
    tcase_add_loop_test(t, too_many_jobs_are_refused, 0, sizeof floods / sizeof *floods);
    suite_add_tcase(s, t);
    return unit_main(s);
}
