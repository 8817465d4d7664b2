/* A small artifact with every kind of file: verify finds each byte that is changed, each file that
 * is cut, missing or too many, and so does the tool sha256sum as far as it looks. */
#include <sys/wait.h>

#include "compress/artifact/verify.h"
#include "compress/output/inventory.h"
#include "compress/output/owned_files.h"
#include "runtime/random.h"
#include "tests/unit/job.h"

#include "tests/unit/folder.h"

/* Of each file every so manieth byte is flipped, the list and short files byte by byte. */
enum { NAMES = 32, STEP = 16, SHORT = 64 };

static job_place place;
static char name[NAMES][64];
static size_t names;

static const char *at_home(const char *file)
{
    char inner[sizeof name[0] + 16];
    const int len = snprintf(inner, sizeof inner, "out/%s", file);
    ck_assert(len > 0 && (size_t)len < sizeof inner);
    return job_path(&place, inner);
}

static void store(const char *path, const char *bytes, size_t len)
{
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void list_names(void)
{
    DIR *const d = opendir(job_path(&place, "out"));
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e; (e = readdir(d)) && names < NAMES;)
        if (e->d_name[0] != '.')
            (void)snprintf(name[names++], sizeof name[0], "%.63s", e->d_name);
    (void)closedir(d);
}

/* The texts for people are long and nothing is in them that verify could know: short ones stand for
 * them, so that every byte can be flipped. */
static void setup(void)
{
    static const char *const texts[] = {"README.md", "report.html", "layers.csv", "run.json"};
    tiny_model m = tiny_model_default();
    pare_ctx cx;
    pare_arena a;
    m.blocks = 1;
    m.hidden = m.intermediate = 32;
    m.heads = m.kv_heads = 1;
    m.head_dim = 32;
    m.vocab = 11;
    place = job_make(&m);
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 4, group: 32}\n");
    store(job_path(&place, "model/tokenizer_config.json"), "{}", 2);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        ck_assert(pare_path_is_file(at_home(texts[i])));
        store(at_home(texts[i]), texts[i], strlen(texts[i]));
    }
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_inventory_write(&cx, &a, job_path(&place, "out"), NULL, 0), PARE_OK);
    pare_arena_release(&a);
    list_names();
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static size_t findings(void)
{
    pare_ctx cx;
    pare_verify_result r;
    pare_ctx_init(&cx);
    ck_assert_msg(pare_verify(&cx, job_path(&place, "out"), NULL, NULL, &r) == PARE_OK, "%s",
                  cx.what);
    return r.findings;
}

static int run_sha256sum(void)
{
    char command[512];
    (void)snprintf(command, sizeof command, "cd '%s' && sha256sum --quiet -c SHA256SUMS >/dev/null",
                   job_path(&place, "out"));
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(an_intact_artifact_has_no_findings_and_passes_sha256sum)
{
    ck_assert_uint_eq(names, 11);
    ck_assert_uint_eq(findings(), 0);
    ck_assert_int_eq(run_sha256sum(), 0);
    store(at_home("README.md"), "changed", 7);
    ck_assert_int_ne(run_sha256sum(), 0);
    store(at_home("README.md"), "README.md", 9);
}
END_TEST

START_TEST(a_flipped_byte_of_any_file_is_found)
{
    size_t flips = 0;
    for (size_t i = 0; i < names; i++) {
        char path[512];
        size_t len;
        (void)snprintf(path, sizeof path, "%s", at_home(name[i]));
        char *const bytes = folder_get(path, &len);
        const int fd = open(path, O_RDWR);
        ck_assert_int_ge(fd, 0);
        const size_t step = len <= SHORT || strcmp(name[i], PARE_SUMS_NAME) == 0 ? 1 : STEP;
        for (size_t at = step == 1 ? 0 : i; at < len; at += step, flips++) {
            const char byte = (char)(bytes[at] ^ 1 << pare_random_u64(3, i, at) % 8);
            ck_assert_int_eq(pwrite(fd, &byte, 1, (off_t)at), 1);
            ck_assert_msg(findings() > 0, "byte %zu of %s", at, name[i]);
            ck_assert_int_eq(pwrite(fd, bytes + at, 1, (off_t)at), 1);
        }
        (void)close(fd);
        free(bytes);
    }
    ck_assert_uint_eq(findings(), 0);
    ck_assert_uint_gt(flips, 1500);
}
END_TEST

START_TEST(every_cut_file_and_every_missing_file_is_found)
{
    for (size_t i = 0; i < names; i++) {
        char path[512];
        size_t len;
        (void)snprintf(path, sizeof path, "%s", at_home(name[i]));
        char *const bytes = folder_get(path, &len);
        for (size_t cut = 0; cut < len; cut += 1 + len / 16) {
            store(path, bytes, cut);
            ck_assert_msg(findings() > 0, "%s, %zu of %zu bytes", name[i], cut, len);
        }
        store(path, bytes, len - 1);
        ck_assert_msg(findings() > 0, "%s", name[i]);
        ck_assert_int_eq(unlink(path), 0);
        ck_assert_msg(findings() > 0, "%s", name[i]);
        store(path, bytes, len);
        free(bytes);
    }
    ck_assert_uint_eq(findings(), 0);
}
END_TEST

START_TEST(what_was_put_beside_the_files_is_found)
{
    store(at_home("stray"), "", 0);
    ck_assert_uint_eq(findings(), 1);
    ck_assert_int_eq(unlink(at_home("stray")), 0);
    ck_assert_int_eq(mkdir(at_home("folder"), 0777), 0);
    ck_assert_uint_eq(findings(), 1);
    ck_assert_int_eq(rmdir(at_home("folder")), 0);
    store(at_home("journal"), "my days", 7);
    ck_assert_uint_eq(findings(), 1);
    ck_assert_int_eq(unlink(at_home("journal")), 0);
    pare_ctx cx;
    pare_ctx_init(&cx);
    char home[512];
    (void)snprintf(home, sizeof home, "%s", job_path(&place, "out"));
    ck_assert_int_eq(pare_owned_mark_unfinished(&cx, home), PARE_OK);
    ck_assert_uint_eq(findings(), 0); /* of a run that was killed at its end */
    ck_assert_int_eq(pare_owned_mark_replaced(&cx, home, place.root), PARE_OK);
    ck_assert_uint_eq(findings(), 0); /* or in front of that: this is the old output */
    ck_assert_int_eq(unlink(at_home("journal")), 0);
}
END_TEST

/* A list that fits the files, but not the manifest: neither is hashed twice to find it. */
START_TEST(a_manifest_that_disagrees_with_the_list_is_found)
{
    pare_ctx cx;
    pare_arena a;
    pare_verify_result r;
    store(at_home("tokenizer_config.json"), "[]", 2);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_inventory_write(&cx, &a, job_path(&place, "out"), NULL, 0), PARE_OK);
    ck_assert_int_eq(pare_verify(&cx, job_path(&place, "out"), NULL, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 1);
    store(at_home("tokenizer_config.json"), "{}", 2);
    ck_assert_int_eq(pare_inventory_write(&cx, &a, job_path(&place, "out"), NULL, 0), PARE_OK);
    pare_arena_release(&a);
    ck_assert_uint_eq(findings(), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("flips");
    TCase *const t = tcase_create("flips");
    tcase_add_unchecked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_test(t, an_intact_artifact_has_no_findings_and_passes_sha256sum);
    tcase_add_test(t, a_flipped_byte_of_any_file_is_found);
    tcase_add_test(t, every_cut_file_and_every_missing_file_is_found);
    tcase_add_test(t, what_was_put_beside_the_files_is_found);
    tcase_add_test(t, a_manifest_that_disagrees_with_the_list_is_found);
    return unit_main(s);
}
