/* A normalized recipe is a recipe, whatever the passes: it is read again, means the same, and its
 * own normal form is the same text. */
#include <dirent.h>

#include "compress/passes/pass.h"
#include "formats/json.h"
#include "tests/unit/job.h"

static pare_ctx cx;
static pare_arena arena;
static const pare_pass_words *words;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    ck_assert_int_eq(pare_pass_words_take(&arena, &words), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
}

static char *normal(const char *file, const char *text, bool portable)
{
    const pare_recipe_source source = {.file = file, .text = text, .len = strlen(text)};
    pare_recipe r;
    char *out = NULL;
    size_t len = 0;
    const pare_status s = pare_recipe_parse(&cx, &arena, &source, words, pare_pass_count(), &r);
    ck_assert_msg(s == PARE_OK, "%s\n%s", cx.what, text);
    ck_assert_int_eq(pare_recipe_normalize(&cx, &arena, &r, words, portable, &out, &len), PARE_OK);
    return out;
}

static void check_again(const char *file, const char *text)
{
    for (int portable = 0; portable < 2; portable++) {
        const char *const once = normal(file, text, portable);
        ck_assert_str_eq(normal(file, once, portable), once);
    }
}

static size_t check_folder(const char *path)
{
    DIR *const folder = opendir(path);
    size_t count = 0;
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        char *text, *const file = pare_path_join(&arena, path, e->d_name);
        const char *const end = strrchr(e->d_name, '.');
        size_t len;
        if (!end || strcmp(end, ".yaml") != 0)
            continue;
        ck_assert_int_eq(pare_file_read(&cx, &arena, file, 1 << 20, &text, &len), PARE_OK);
        check_again(e->d_name, text);
        count++;
    }
    ck_assert_int_eq(closedir(folder), 0);
    return count;
}

START_TEST(recipes_that_come_with_the_program_are_read_again)
{
    ck_assert_uint_ge(check_folder(PARE_SOURCE_DIR "/recipes"), 30);
    ck_assert_uint_ge(check_folder(PARE_SOURCE_DIR "/recipes/demo"), 1);
}
END_TEST

/* With its defaults, and with each word that a parameter takes. */
START_TEST(every_pass_is_read_again)
{
    char text[256];
    for (size_t i = 0; i < pare_pass_count(); i++) {
        (void)snprintf(text, sizeof text, "pare: 1\npasses: [%s]\n", words[i].name);
        check_again("r.yaml", text);
        for (const pare_param *p = words[i].params; p->name; p++)
            for (const pare_word *w = p->words; w && w->text && !p->by; w++) {
                (void)snprintf(text, sizeof text, "pare: 1\npasses:\n  - %s: {%s: \"%s\"}\n",
                               words[i].name, p->name, w->text);
                check_again("r.yaml", text);
            }
    }
}
END_TEST

/* Parameters without effect are not in it; those that another one gives a meaning are. */
START_TEST(it_holds_what_has_an_effect)
{
    const char *text = normal("r.yaml", "pare: 1\npasses: [wanda]\n", true);
    ck_assert_ptr_nonnull(strstr(text, "      ties: first\n"));
    ck_assert_ptr_nonnull(strstr(text, "      ratios: uniform\n"));
    ck_assert_ptr_null(strstr(text, "tie_width"));
    ck_assert_ptr_null(strstr(text, "spread"));
    ck_assert_ptr_null(strstr(text, "outlier"));
    text = normal("r.yaml", "pare: 1\npasses:\n  - wanda: {ties: random, ratios: isc}\n", true);
    ck_assert_ptr_nonnull(strstr(text, "      tie_width: 0.05\n"));
    ck_assert_ptr_nonnull(strstr(text, "      spread: 0.08\n"));
    ck_assert_ptr_null(strstr(text, "outlier"));
    text = normal("r.yaml", "pare: 1\npasses:\n  - wanda: {ratios: owl}\n", true);
    ck_assert_ptr_nonnull(strstr(text, "      outlier: 5\n"));
}
END_TEST

/* The recipe of a manifest, with the paths that it leaves out, is the job that made the output.
 * No window is named: the context of the model is smaller than the default. */
START_TEST(the_recipe_of_a_manifest_makes_the_same_job)
{
    static const char *const passes[] = {"magnitude", "wanda: {pattern: \"2:4\"}",
                                         "ria: {ties: random}", "sparsegpt: {ratios: owl}",
                                         "gptq: {bits: 4, group: 32}"};
    const tiny_model m = tiny_model_default();
    for (size_t i = 0; i < sizeof passes / sizeof *passes; i++) {
        const job_place p = job_make(&m);
        char text[512], what[1024];
        (void)snprintf(text, sizeof text,
                       "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 4}\n"
                       "passes:\n  - %s\n",
                       passes[i]);
        job_recipe(&p, text);
        ck_assert_int_eq(job_run(&p, (job_opts){.output = "out"}, NULL), PARE_OK);
        char *manifest;
        size_t len;
        pare_json *root = NULL;
        ck_assert_int_eq(pare_file_read(&cx, &arena, job_path(&p, "out/manifest.json"), 1 << 24,
                                        &manifest, &len),
                         PARE_OK);
        ck_assert_int_eq(pare_json_parse(&cx, "m", manifest, len, 1 << 24, &root), PARE_OK);
        job_recipe(&p, pare_json_text(pare_json_get(root, "recipe"), NULL));
        pare_json_free(root);
        const pare_status s =
            job_run(&p,
                    (job_opts){.output = "out",
                               .sets = {"model=model", "calibration.tokens=tokens.i32"},
                               .set_count = 2},
                    what);
        ck_assert_msg(s == PARE_OK, "%s: %s", passes[i], what); /* already complete */
        job_remove_directory(p.root);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("recipe_again");
    TCase *const t = tcase_create("recipe_again");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, recipes_that_come_with_the_program_are_read_again);
    tcase_add_test(t, every_pass_is_read_again);
    tcase_add_test(t, it_holds_what_has_an_effect);
    tcase_add_test(t, the_recipe_of_a_manifest_makes_the_same_job);
    suite_add_tcase(s, t);
    return unit_main(s);
}
