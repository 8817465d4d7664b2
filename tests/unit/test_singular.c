/* One of a thing is told in the singular, wherever a count can be 1. */
#include "tests/unit/job.h"
#include "tests/unit/program.h"

static job_place place;

static void setup(void)
{
    tiny_model m = tiny_model_default();
    m.blocks = m.heads = m.kv_heads = 1;
    place = job_make(&m);
    job_recipe(&place, "pare: 1\nmodel: model\noutput: out\n"
                       "calibration: {tokens: tokens.i32, samples: 1, window: 16}\n"
                       "passes: [gptq: {group: 32, targets: \"*.q_proj\"}]\n");
    FILE *f = fopen(job_path(&place, "one.i32"), "wb");
    ck_assert(f && fputc('x', f) == 'x' && fclose(f) == 0);
    f = fopen(job_path(&place, "depth.yaml"), "w");
    ck_assert(f && fputs("pare: 1\nmodel: model\noutput: out\npasses: [depth: {blocks: 1}]\n"
                         "calibration: {tokens: tokens.i32, samples: 1, window: 16}\n",
                         f) >= 0);
    ck_assert_int_eq(fclose(f), 0);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static const struct {
    const char *command; /* run in the folder of the place */
    int stream, code;
    const char *says;
} rows[] = {
    {"inspect model", OUT, 0, ": 1 block, hidden "},
    {"inspect model", OUT, 0, "1 head (1 key/value) of "},
    {"eval model --tokens tokens.i32 --window 16 --limit 1 --kv kivi --kv-window 1", OUT, 0,
     " in 1 block of 1 KV head; newest 1 token in F16"},
    {"eval model --speed --threads 1", OUT, 0, "(1 thread; first token"},
    {"eval model --tokens one.i32 --window 16", ERR, 4, "1 byte is not a list of"},
    {"inspect one.safetensors", ERR, 4, "1 byte, a safetensors file has at least 8"},
    {"init model --preset w4a16", OUT, 0, " with 1 block;"},
    {"plan depth.yaml", ERR, 2, "1 block of 1 would leave none"},
    {"compress recipe.yaml --restart", ERR, 0, "1 linear gets its plain form"},
};

START_TEST(one_is_told_in_the_singular)
{
    char home[1024];
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    ck_assert_int_eq(chdir(place.root), 0);
    ck_assert_int_eq(link("one.i32", "one.safetensors"), 0);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const outcome *const o = call(rows[i].command, rows[i].stream);
        ck_assert_msg(o->code == rows[i].code && strstr(o->text, rows[i].says),
                      "pare %s: exit %d, expected %d with \"%s\":\n%s", rows[i].command, o->code,
                      rows[i].code, rows[i].says, o->text);
    }
    ck_assert_int_eq(chdir(home), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("singular");
    TCase *const t = tcase_create("singular");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, one_is_told_in_the_singular);
    suite_add_tcase(s, t);
    return unit_main(s);
}
