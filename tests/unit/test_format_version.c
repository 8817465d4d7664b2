#define _GNU_SOURCE /* memmem */
/* Files of pare of a version that this program does not know are refused by every command that
 * reads them, with and without a look at checksums. */
#include "formats/format_version.h"

#include <sys/wait.h>
#include <unistd.h>

#include "compress/output/journal.h"
#include "formats/checksums.h"
#include "tests/unit/folder.h"
#include "tests/unit/job.h"

static job_place place;

/* out: an artifact; small: a plain checkpoint of pare. */
static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: 4, window: 32}\n"
                       "passes:\n  - flap: {ratio: 0.5}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "small"}, NULL), PARE_OK);
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 4, group: 32}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* Puts `to` for the last `from` in a file. */
static void edit(const char *file, const char *from, const char *to)
{
    size_t len;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, file));
    char *const bytes = folder_get(path, &len), *at = NULL;
    for (char *p = bytes; (p = memmem(p, len - (size_t)(p - bytes), from, strlen(from)));)
        at = p++;
    ck_assert_msg(at, "%s: no %s", file, from);
    FILE *const f = fopen(path, "wb");
    const size_t before = (size_t)(at - bytes), behind = before + strlen(from);
    ck_assert(f && fwrite(bytes, 1, before, f) == before && fputs(to, f) >= 0 &&
              fwrite(bytes + behind, 1, len - behind, f) == len - behind && fclose(f) == 0);
    free(bytes);
}

/* Runs the program; its exit code, and all that it wrote. */
static int call(const char *arguments, char text[4096])
{
    char command[4096];
    (void)snprintf(command, sizeof command, "'%s' %s --threads 1 2>&1", PARE_PROGRAM, arguments);
    FILE *const f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, 4095, f)] = '\0';
    const int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Arguments with the root, and the model in it. */
static const char *const commands[] = {
    "eval %1$s/%2$s --tokens %1$s/tokens.i32",
    "eval %1$s/%2$s --tokens %1$s/tokens.i32 --unchecked",
    "eval %1$s/model --baseline %1$s/%2$s --tokens %1$s/tokens.i32",
    "generate %1$s/%2$s --tokens 2 --output %1$s/g.i32",
    "generate %1$s/%2$s --tokens 2 --output %1$s/g.i32 --unchecked",
    "export %1$s/%2$s --format safetensors --output %1$s/floats",
    "export %1$s/%2$s --format safetensors --output %1$s/floats --unchecked",
    "bench model %1$s/%2$s --quick --prompt 4 --output 2 --batch 1",
    "bench model %1$s/%2$s --quick --prompt 4 --output 2 --batch 1 --unchecked",
    "inspect %1$s/%2$s",
    "verify %1$s/%2$s",
    "compress %1$s/recipe.yaml --model %1$s/%2$s --output %1$s/again",
};

static const struct {
    const char *file, *from, *to, *message;
} versions[] = {
    {"out/config.json", "\"format\": 1", "\"format\": 7",
     "quantization_config.format is 7, and this program reads 1; a newer pare is needed"},
    {"out/config.json", "\"format\": 1", "\"format\": 0",
     "quantization_config.format is 0, and this program reads 1; compress the original"},
    {"out/config.json", "\"format\": 1", "\"format\": \"1\"",
     "quantization_config.format is missing or not a whole number"},
    {"out/config.json", "\"format\": 1", "\"form\": 1",
     "quantization_config.format is missing or not a whole number"},
    {"out/packed.index.json", "\"version\": 1", "\"version\": 2",
     "metadata.version is 2, and this program reads 1; a newer pare is needed"},
    {"out/packed.index.json", "\"version\": 1", "\"version\": 1.5",
     "metadata.version is missing or not a whole number"},
    {"out/packed.index.json", "R8K32", "R9K64", "metadata.layout is \"R9K64\", and this program"},
    {"out/manifest.json", "\"format\": 1", "\"format\": 2",
     "format is 2, and this program reads 1; a newer pare is needed"},
    {"out/manifest.json", "\"format\": 1", "\"former\": 1",
     "format is missing or not a whole number"},
    {"small/manifest.json", "\"format\": 1", "\"format\": 2",
     "format is 2, and this program reads 1; a newer pare is needed"},
};

START_TEST(every_command_refuses_an_unknown_version)
{
    char model[16], text[4096], arguments[1024];
    (void)snprintf(model, sizeof model, "%.*s", (int)strcspn(versions[_i].file, "/"),
                   versions[_i].file);
    edit(versions[_i].file, versions[_i].from, versions[_i].to);
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        (void)snprintf(arguments, sizeof arguments, commands[i], place.root, model);
        ck_assert_msg(call(arguments, text) == 4, "%s: %s", arguments, text);
        ck_assert_msg(strstr(text, versions[_i].message), "%s: %s", arguments, text);
    }
}
END_TEST

/* A file by itself is of the version of the directory that lists it. */
START_TEST(one_file_of_a_checkpoint_is_refused_with_its_manifest)
{
    char text[4096], arguments[1024];
    edit("small/manifest.json", "\"format\": 1", "\"format\": 3");
    (void)snprintf(arguments, sizeof arguments, "verify %s/small/model.safetensors", place.root);
    ck_assert_int_eq(call(arguments, text), 4);
    ck_assert_msg(strstr(text, "format is 3"), "%s", text);
    edit("small/manifest.json", "\"model.safetensors\"", "\"other.safetensors\"");
    ck_assert_msg(call(arguments, text) == 0, "%s", text);
}
END_TEST

/* Nothing says of which version it is; only --unchecked takes it. */
START_TEST(a_damaged_manifest_is_left_to_the_checksums)
{
    char text[4096], arguments[1024];
    edit("out/manifest.json", "}", "");
    (void)snprintf(arguments, sizeof arguments, commands[0], place.root, "out");
    ck_assert_int_eq(call(arguments, text), 4);
    ck_assert_msg(strstr(text, "manifest.json:"), "%s", text);
    (void)snprintf(arguments, sizeof arguments, commands[1], place.root, "out");
    ck_assert_msg(call(arguments, text) == 0, "%s", text);
}
END_TEST

/* Damage is one finding beside others. */
START_TEST(verify_goes_on_behind_a_damaged_version)
{
    char text[4096], arguments[1024];
    edit("out/manifest.json", "\"format\": 1", "\"former\": 1");
    edit("out/manifest.json", "\"recipe_sha256\": \"", "\"recipe_sha256\": \"0");
    (void)snprintf(arguments, sizeof arguments, "verify %s/out", place.root);
    ck_assert_int_eq(call(arguments, text), 4);
    ck_assert_msg(strstr(text, "format is missing or not a whole number") &&
                      strstr(text, "SHA-256 of the recipe is"),
                  "%s", text);
}
END_TEST

/* Of a manifest that is not ours, no more than the beginning is read. */
START_TEST(a_large_manifest_of_others_is_no_obstacle)
{
    char text[4096], arguments[1024];
    const char *const path = job_path(&place, "model/manifest.json");
    FILE *const f = fopen(path, "w");
    ck_assert(f && fputs("{\"theirs\": 1}", f) >= 0 && fclose(f) == 0);
    ck_assert_int_eq(truncate(path, (off_t)PARE_MANIFEST_CAP + 1), 0);
    (void)snprintf(arguments, sizeof arguments, "inspect %s/model", place.root);
    ck_assert_msg(call(arguments, text) == 0, "%s", text);
}
END_TEST

START_TEST(a_finished_output_of_another_version_is_not_taken_for_that_of_the_job)
{
    char what[1024];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_OK);
    edit("out/manifest.json", "\"format\": 1", "\"format\": 2");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_ENOTSUP);
    ck_assert_msg(strstr(what, "out/manifest.json: format is 2, and this program reads 1; a newer"),
                  "%s", what);
}
END_TEST

/* A record of a later form, and a fingerprint of later rules. */
START_TEST(an_unfinished_run_of_a_newer_program_is_not_continued)
{
    static const char print[] = "{\"program\": \"pare 9\", \"format\": \"99\", "
                                "\"recipe line 1\": \"pare: 1\"}";
    char what[1024];
    pare_ctx cx;
    pare_journal *j;
    job_break(&place, "new");
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_journal_restart(&cx, job_path(&place, "new.partial"), print, &j),
                     PARE_OK);
    pare_journal_close(&cx, j);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "new"}, what), PARE_ENOTSUP);
    ck_assert_msg(strstr(what, "new.partial/journal: format is 99, and this program reads "), "%s",
                  what);
    ck_assert_msg(
        strstr(what, "; a newer pare is needed to continue the unfinished run, or --restart"), "%s",
        what);
    edit("new.partial/journal", "PJ01", "PJ02");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "new"}, what), PARE_ENOTSUP);
    ck_assert_msg(strstr(what, "journal: is a journal of form PJ02, and this program reads PJ01; a "
                               "newer pare is needed"),
                  "%s", what);
    edit("new.partial/journal", "PJ02", "PJ01");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "new", .restart = true}, what), PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("format_version");
    TCase *const t = tcase_create("all");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_command_refuses_an_unknown_version, 0,
                        sizeof versions / sizeof *versions);
    tcase_add_test(t, one_file_of_a_checkpoint_is_refused_with_its_manifest);
    tcase_add_test(t, a_damaged_manifest_is_left_to_the_checksums);
    tcase_add_test(t, verify_goes_on_behind_a_damaged_version);
    tcase_add_test(t, a_large_manifest_of_others_is_no_obstacle);
    tcase_add_test(t, a_finished_output_of_another_version_is_not_taken_for_that_of_the_job);
    tcase_add_test(t, an_unfinished_run_of_a_newer_program_is_not_continued);
    suite_add_tcase(s, t);
    return unit_main(s);
}
