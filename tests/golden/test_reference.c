/* Perplexities of compressed stories260k against those of the original implementations, on the
 * token files they were measured with. Arguments: none for the rows that are quick (two of them
 * under the address sanitizer, which takes a minute for each), --all for every row with the figures
 * printed, --all TEXT for the rows whose passes contain it. */
#include <math.h>

#include "tests/golden/golden.h"

typedef struct reference_row {
    const char *pass; /* as a recipe writes it */
    const char *key;  /* start of the line in results.csv */
    double tolerance; /* relative; 0: judged by same_rule alone */
    bool or_better;   /* a lower perplexity is fine */
    bool quick;
} reference_row;

static const reference_row rows[] = {
    {"rtn: {bits: 8, group: row, symmetric: false}", "RTN,8,row,asym,,,,", 1e-3, false, true},
    {"rtn: {bits: 8, group: 64, symmetric: false}", "RTN,8,64,asym,,,,", 1e-3, false, false},
    {"rtn: {bits: 8, group: 32, symmetric: false}", "RTN,8,32,asym,,,,", 1e-3, false, false},
    {"rtn: {bits: 4, group: row, symmetric: false}", "RTN,4,row,asym,,,,", 1e-3, false, false},
    {"rtn: {bits: 4, group: 64, symmetric: false}", "RTN,4,64,asym,,,,", 1e-3, false, true},
    {"rtn: {bits: 4, group: 32, symmetric: false}", "RTN,4,32,asym,,,,", 1e-3, false, false},
    {"rtn: {bits: 4, group: row, symmetric: false, clip: mse}", "RTN,4,row,asym,,,mse grid search,",
     1e-3, false, false},
    {"rtn: {bits: 4, group: 32, symmetric: false, clip: mse}", "RTN,4,32,asym,,,mse grid search,",
     1e-3, false, true},
    {"rtn: {bits: 3, group: row, symmetric: false}", "RTN,3,row,asym,,,,", 6e-3, false, false},
    {"rtn: {bits: 3, group: 64, symmetric: false}", "RTN,3,64,asym,,,,", 6e-3, false, false},
    {"rtn: {bits: 3, group: 32, symmetric: false}", "RTN,3,32,asym,,,,", 6e-3, false, true},
    {"rtn: {bits: 3, group: row, symmetric: false, clip: mse}", "RTN,3,row,asym,,,mse grid search,",
     6e-3, false, false},
    {"rtn: {bits: 3, group: 32, symmetric: false, clip: mse}", "RTN,3,32,asym,,,mse grid search,",
     6e-3, false, false},
    {"rtn: {bits: 2, group: row, symmetric: false}", "RTN,2,row,asym,,,,", 3e-2, false, false},
    {"rtn: {bits: 2, group: 64, symmetric: false}", "RTN,2,64,asym,,,,", 3e-2, false, false},
    {"rtn: {bits: 2, group: 32, symmetric: false}", "RTN,2,32,asym,,,,", 3e-2, false, true},
    {"gptq: {bits: 4, group: row, symmetric: false, act_order: false, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,4,row,asym,off,,,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: 32, symmetric: false, act_order: false, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,4,32,asym,off,,,", 1.5e-2, true, true},
    {"gptq: {bits: 4, group: 32, symmetric: false, block: 32, act_order: false, refine: 0, "
     "correct: none, clip: "
     "none}",
     "GPTQ,4,32,asym,off,,blocksize 32,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: row, symmetric: false, act_order: true, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,4,row,asym,on,,,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: 32, symmetric: false, act_order: true, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,4,32,asym,on,,static groups,", 1.5e-2, true, true},
    {"gptq: {bits: 4, group: row, symmetric: false, clip: mse, act_order: false, refine: 0, "
     "correct: none}",
     "GPTQ,4,row,asym,off,,mse grid search,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: 32, symmetric: false, clip: mse, act_order: false, refine: 0, "
     "correct: none}",
     "GPTQ,4,32,asym,off,,mse grid search,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: row, symmetric: false, true_sequential: true, act_order: false, "
     "refine: 0, correct: none, clip: "
     "none}",
     "GPTQ,4,row,asym,off,,true-sequential,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: 32, symmetric: false, true_sequential: true, act_order: false, "
     "refine: 0, correct: none, clip: "
     "none}",
     "GPTQ,4,32,asym,off,,true-sequential,", 1.5e-2, true, false},
    {"gptq: {bits: 3, group: row, symmetric: false, act_order: false, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,3,row,asym,off,,,", 3e-2, true, false},
    {"gptq: {bits: 3, group: 32, symmetric: false, act_order: false, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,3,32,asym,off,,,", 3e-2, true, false},
    {"gptq: {bits: 3, group: row, symmetric: false, act_order: true, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,3,row,asym,on,,,", 3e-2, true, false},
    {"gptq: {bits: 3, group: 32, symmetric: false, act_order: true, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,3,32,asym,on,,static groups,", 3e-2, true, true},
    {"gptq: {bits: 3, group: row, symmetric: false, clip: mse, act_order: false, refine: 0, "
     "correct: none}",
     "GPTQ,3,row,asym,off,,mse grid search,", 3e-2, true, false},
    {"gptq: {bits: 3, group: 32, symmetric: false, clip: mse, act_order: false, refine: 0, "
     "correct: none}",
     "GPTQ,3,32,asym,off,,mse grid search,", 3e-2, true, false},
    {"gptq: {bits: 3, group: row, symmetric: false, true_sequential: true, act_order: false, "
     "refine: 0, correct: none, clip: "
     "none}",
     "GPTQ,3,row,asym,off,,true-sequential,", 0, true, false},
    {"gptq: {bits: 3, group: 32, symmetric: false, true_sequential: true, act_order: false, "
     "refine: 0, correct: none, clip: "
     "none}",
     "GPTQ,3,32,asym,off,,true-sequential,", 3e-2, true, false},
    {"awq: {scale: false}\n  - rtn: {bits: 4, group: 32, symmetric: false}",
     "AWQ,4,32,asym,,,clip only,", 1.5e-2, true, false},
    {"awq: {clip: false}\n  - rtn: {bits: 4, group: 32, symmetric: false}",
     "AWQ,4,32,asym,,,scale only,", 1.5e-2, true, false},
    {"awq: {}\n  - rtn: {bits: 4, group: 32, symmetric: false}", "AWQ,4,32,asym,,,scale+clip,",
     1.5e-2, true, true},
    {"awq: {scale: false}\n  - rtn: {bits: 3, group: 32, symmetric: false}",
     "AWQ,3,32,asym,,,clip only,", 2e-2, true, false},
    {"awq: {clip: false}\n  - rtn: {bits: 3, group: 32, symmetric: false}",
     "AWQ,3,32,asym,,,scale only,", 1.5e-2, true, false},
    {"awq: {}\n  - rtn: {bits: 3, group: 32, symmetric: false}", "AWQ,3,32,asym,,,scale+clip,",
     2e-2, true, true},
    {"awq: {clip: false, duo: true}\n  - rtn: {bits: 4, group: 32, symmetric: false}",
     "AWQ (AutoAWQ duo scale),4,32,asym,,,scale only,", 1.5e-2, true, false},
    {"awq: {duo: true}\n  - rtn: {bits: 4, group: 32, symmetric: false}",
     "AWQ (AutoAWQ duo scale),4,32,asym,,,scale+clip,", 1.5e-2, true, false},
    {"awq: {clip: false, duo: true}\n  - rtn: {bits: 3, group: 32, symmetric: false}",
     "AWQ (AutoAWQ duo scale),3,32,asym,,,scale only,", 1.5e-2, true, false},
    {"awq: {duo: true}\n  - rtn: {bits: 3, group: 32, symmetric: false}",
     "AWQ (AutoAWQ duo scale),3,32,asym,,,scale+clip,", 1.5e-2, true, false},
    {"rtn: {bits: 4, group: row}", "RTN,4,row,sym,,,,", 0, false, true},
    {"rtn: {bits: 4, group: 32}", "RTN,4,32,sym,,,,", 0, false, false},
    {"rtn: {bits: 3, group: 32}", "RTN,3,32,sym,,,,", 0, false, true},
    {"gptq: {bits: 4, group: row, act_order: false, refine: 0, correct: none, clip: none}",
     "GPTQ,4,row,sym,off,,,", 1.5e-2, true, false},
    {"gptq: {bits: 4, group: 32, act_order: false, refine: 0, correct: none, clip: none}",
     "GPTQ,4,32,sym,off,,,", 1.5e-2, true, false},
    {"gptq: {bits: 2, group: 32, symmetric: false, act_order: false, refine: 0, correct: none, "
     "clip: none}",
     "GPTQ,2,32,asym,off,,,", 3e-2, true, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

/* Perplexity of the original procedure with its scales rounded to F16, as ours are, and for
 * symmetric codes with the scale of solve/grid.h (the original's puts the largest weight on a
 * rounding tie), to be met within 1e-4, which is room for sums in another order.
 * Source: same_rule.py beside this file, which prints them: an implementation of its own, which
 * with F32 scales gives the six lines of the table that were tried to 1e-6, and the
 * original's 4.678012 for the floats. The line of the true-sequential row is one draw of a wide
 * distribution, so only this figure judges that row: with F32 scales off by up to 2^-12 the
 * original gives 7.77 to 8.17 there (mean 7.96, standard deviation 1.5 %, 20 draws); the table
 * has 7.79. */
static const struct {
    const char *key;
    double ppl;
} same_rule[] = {
    {"RTN,4,row,sym,,,,", 5.275028},      {"RTN,4,32,sym,,,,", 5.202942},
    {"RTN,3,32,sym,,,,", 8.898413},       {"GPTQ,4,row,sym,off,,,", 5.118516},
    {"GPTQ,3,row,asym,off,,,", 8.082406}, {"GPTQ,3,row,asym,off,,true-sequential,", 8.035446},
};

static bool all_rows;
static const char *only = ""; /* in the passes of the rows to run */

#ifdef UNIT_SANITIZED
static bool is_quick(const reference_row *row)
{
    return strcmp(row->pass, "rtn: {bits: 4, group: 64, symmetric: false}") == 0 ||
           strcmp(row->pass, "gptq: {bits: 4, group: 32, symmetric: false, act_order: true, "
                             "refine: 0, correct: none, clip: none}") == 0;
}
#else
static bool is_quick(const reference_row *row)
{
    return row->quick;
}
#endif

START_TEST(perplexity_matches_the_reference)
{
    const reference_row *const row = &rows[_i];
    if ((!is_quick(row) && !all_rows) || !strstr(row->pass, only))
        return;
    const tiny_model m = tiny_model_default();
    const job_place p = job_make(&m);
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    char recipe[2048];
    (void)snprintf(recipe, sizeof recipe, GOLDEN_STORIES "}\npasses:\n  - %s\n", row->pass);
    golden_compress(&cx, &p, recipe);
    const double exact = golden_ppl(&cx, job_path(&p, "out"), true);
    const double kernels = golden_ppl(&cx, job_path(&p, "out"), false);
    pare_pool_free(&cx, cx.pool);
    job_remove_directory(p.root);
    const double reference = golden_reference(row->key);
    ck_assert_msg(reference > 0.0, "results.csv has no line \"%s\"", row->key);
    const double off = exact / reference - 1.0;
    if (all_rows)
        printf("%-72s ppl %9.4f  reference %9.4f  %+7.3f%%  kernels against exact %+7.3f%%\n",
               row->pass, exact, reference, 100.0 * off, 100.0 * (kernels / exact - 1.0));
    if (row->tolerance > 0.0)
        ck_assert_msg(off <= row->tolerance && (row->or_better || off >= -row->tolerance),
                      "%s: perplexity %.6f, reference %.6f", row->pass, exact, reference);
    bool judged = row->tolerance > 0.0;
    for (size_t i = 0; i < sizeof same_rule / sizeof *same_rule; i++) {
        if (strcmp(row->key, same_rule[i].key) != 0)
            continue;
        judged = true;
        ck_assert_msg(fabs(exact / same_rule[i].ppl - 1.0) <= 1e-4,
                      "%s: perplexity %.6f, by the same rule %.6f", row->pass, exact,
                      same_rule[i].ppl);
    }
    ck_assert_msg(judged, "%s: nothing to compare with", row->pass);
    const bool low_bit = strstr(row->pass, "bits: 4") || strstr(row->pass, "bits: 8");
    if (low_bit && !strstr(row->pass, "row"))
        ck_assert_double_le(fabs(kernels / exact - 1.0), 5e-3);
}
END_TEST

int main(int argc, char **argv)
{
    all_rows = argc > 1 && strcmp(argv[1], "--all") == 0;
    if (all_rows && argc > 2)
        only = argv[2];
    if (!unit_shared("models/stories260k") || !unit_shared("reference/results.csv"))
        return 77;
    Suite *const s = suite_create("reference");
    TCase *const tc = tcase_create("stories260k");
    tcase_set_timeout(tc, 900);
    tcase_add_loop_test(tc, perplexity_matches_the_reference, 0, ROWS);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
