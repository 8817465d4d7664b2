/* The loudest token and the effective rank in layers.csv: of jobs with few and many threads, broken
 * and continued. */
#include "tests/unit/job_tiny.h"

enum { FIELDS = 8, TEXT = 1 << 14 }; /* tokens_seen to lost, at the end of a line */

/* What the lines end in, a line each, without the times before it. */
static void ends(const char *output, char text[TEXT])
{
    pare_ctx cx;
    pare_arena a;
    char path[100], *csv;
    size_t len, used = 0, lines = 0;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(path, sizeof path, "%s/layers.csv", output);
    ck_assert_int_eq(pare_file_read(&cx, &a, job_path(&place, path), 1 << 24, &csv, &len), PARE_OK);
    for (char *line = csv, *end; (end = strchr(line, '\n')); line = end + 1, lines++) {
        const char *at = end;
        for (int left = FIELDS; left > 0 && at > line;)
            left -= *--at == ',';
        const size_t count = (size_t)(end + 1 - at);
        ck_assert(used + count < TEXT);
        memcpy(text + used, at, count);
        used += count;
    }
    text[used] = '\0';
    ck_assert_uint_gt(lines, 7);
    pare_arena_release(&a);
}

static const struct {
    const char *data, *passes;
    size_t shares; /* of 14 linears */
    bool rank;
} cases[] = {
    {"", "  - gptq: {bits: 4, group: 32}\n", 14, true},
    {", token_weights: loss", "  - gptq: {bits: 4, group: 32, true_sequential: true}\n", 14, true},
    {"", "  - awq: {}\n  - rtn: {bits: 4, group: 32}\n", 14, true},
    {"", "  - wanda: {sparsity: 0.5}\n", 14, true},
    {"", "  - smoothquant: {}\n  - rtn: {bits: 8}\n", 10, false},
    {"", "  - rtn: {bits: 4, group: 32}\n", 0, false},
};

/* The figures of every linear that has some, in lines of what `ends` took; the number of them. */
static size_t check_figures(const char *text, bool rank)
{
    size_t shares = 0;
    for (const char *line = strchr(text, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
        double figure[FIELDS];
        const char *at = line;
        for (size_t i = 0; i < FIELDS; i++) { /* an empty one: -1 */
            char *end;
            figure[i] = strtod(++at, &end);
            figure[i] = end == at ? -1 : figure[i];
            at = end;
        }
        const double is_rank = figure[3], share = figure[4];
        shares += share > 0;
        ck_assert_msg(share < 1 && share != 0, "%.30s", line);
        ck_assert_msg(share > 0 && rank ? is_rank >= 1 : is_rank < 0, "%.30s", line);
    }
    return shares;
}

START_TEST(figures_are_the_same_for_any_threads_and_behind_a_break)
{
    static char one[TEXT], other[TEXT];
    char recipe[1024];
    (void)snprintf(recipe, sizeof recipe,
                   "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 12, window: "
                   "64%s}\npasses:\n%s",
                   cases[_i].data, cases[_i].passes);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    ends("one", one);
    ck_assert_uint_eq(check_figures(one, cases[_i].rank), cases[_i].shares);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three", .threads = 3}, NULL), PARE_OK);
    ends("three", other);
    ck_assert_str_eq(one, other);
    job_break(&place, "two");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    ends("two", other);
    ck_assert_str_eq(one, other);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("loudness_job");
    TCase *const t = tcase_create("loudness_job");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, figures_are_the_same_for_any_threads_and_behind_a_break, 0,
                        sizeof cases / sizeof *cases);
    suite_add_tcase(s, t);
    return unit_main(s);
}
