/* Perplexities of pruned stories260k against those of the original implementations, on the token
 * files they were measured with. The originals keep F32, what is stored here is F16, and their
 * unstructured masks take one weight more per matrix or block. With other calibration tokens their
 * SparseGPT 2:4 moves by -2.2% and +4.4%: rows that calibrate may be 2% above seed 0, those that do
 * not 0.2% to either side, and the joint method may not be above the sequential rows at all. Zeros
 * that come back in the sequential rows would fail the run itself. Arguments: none for one row of
 * each kind, --all for every row with the figures printed. Too slow for a sanitizer. */
#include <math.h>

#include "tests/golden/golden.h"

typedef struct pruned_row {
    const char *pass; /* as a recipe writes it */
    const char *key;  /* start of the line in results.csv */
    double above, below;
    bool quick;
} pruned_row;

#define TAIL "4:8 tail of 4 pruned 2 of 4,"
#define ROW  "{bits: 4, group: row, symmetric: false"
#define G32  "{bits: 4, group: 32, symmetric: false"

static const pruned_row rows[] = {
    {"magnitude: {}", "Magnitude,,,,,50%,,", 2e-3, 2e-3, true},
    {"magnitude: {pattern: 2:4}", "Magnitude,,,,,2:4,,", 2e-3, 2e-3, false},
    {"magnitude: {pattern: 4:8}", "Magnitude,,,,,4:8," TAIL, 2e-3, 2e-3, false},
    {"wanda: {}", "Wanda,,,,,50%,,", 0.02, 1, false},
    {"wanda: {pattern: 2:4}", "Wanda,,,,,2:4,,", 0.02, 1, true},
    {"wanda: {pattern: 4:8}", "Wanda,,,,,4:8," TAIL, 0.02, 1, false},
    {"sparsegpt: {}", "SparseGPT,,,,,50%,,", 0.02, 1, false},
    {"sparsegpt: {pattern: 2:4}", "SparseGPT,,,,,2:4,,", 0.02, 1, true},
    {"sparsegpt: {pattern: 4:8}", "SparseGPT,,,,,4:8," TAIL, 0.02, 1, false},
    {"sparsegpt_joint: " ROW "}", "SparseGPT+quant joint,4,row,asym,,50%,,", 0.02, 1, false},
    {"sparsegpt_joint: " ROW ", pattern: 2:4}", "SparseGPT+quant joint,4,row,asym,,2:4,,", 0.02, 1,
     false},
    {"sparsegpt_joint: " ROW ", pattern: 2:4}", "SparseGPT then GPTQ,4,row,asym,off,2:4,mask kept,",
     0, 1, true},
    {"sparsegpt_joint: " G32 ", pattern: 2:4}", "SparseGPT then GPTQ,4,32,asym,off,2:4,mask kept,",
     0, 1, false},
    {"sparsegpt: {pattern: 2:4}\n  - gptq: " ROW
     ", act_order: false, refine: 0, correct: none, clip: none}",
     "SparseGPT then GPTQ,4,row,asym,off,2:4,mask kept,", 0.02, 1, true},
    {"sparsegpt: {pattern: 2:4}\n  - gptq: " G32
     ", act_order: false, refine: 0, correct: none, clip: none}",
     "SparseGPT then GPTQ,4,32,asym,off,2:4,mask kept,", 0.02, 1, false},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void compress_row(pare_ctx *cx, const job_place *p, const pruned_row *row)
{
    char recipe[2048];
    (void)snprintf(recipe, sizeof recipe, GOLDEN_STORIES "}\npasses:\n  - %s\n" GOLDEN_ONE_WINDOW,
                   row->pass);
    golden_one_window(p);
    golden_compress(cx, p, recipe);
}

static bool all_rows;

START_TEST(perplexity_is_that_of_the_reference_or_better)
{
    const pruned_row *const row = &rows[_i];
    if (!row->quick && !all_rows)
        return;
    const tiny_model m = tiny_model_default();
    const job_place p = job_make(&m);
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 0, &cx.pool), PARE_OK);
    compress_row(&cx, &p, row);
    const double ppl = golden_ppl(&cx, job_path(&p, "out"), true);
    pare_pool_free(&cx, cx.pool);
    job_remove_directory(p.root);
    const double reference = golden_reference(row->key);
    ck_assert_msg(reference > 0.0, "results.csv has no line \"%s\"", row->key);
    const double off = ppl / reference - 1.0;
    printf("%-74s ppl %9.4f  reference %9.4f  %+7.3f%%\n", row->pass, ppl, reference, 100.0 * off);
    ck_assert_msg(off <= row->above && off >= -row->below, "%s: perplexity %.4f, reference %.4f",
                  row->pass, ppl, reference);
}
END_TEST

int main(int argc, char **argv)
{
#ifdef UNIT_SANITIZED
    return unit_skip("it takes minutes with sanitizers; PARE_GOLDEN names a build without");
#endif
    all_rows = argc > 1 && strcmp(argv[1], "--all") == 0;
    if (!unit_shared("models/stories260k") || !unit_shared("reference/results.csv"))
        return 77;
    Suite *const s = suite_create("pruned rows");
    TCase *const tc = tcase_create("stories260k");
    tcase_set_timeout(tc, 900);
    tcase_add_loop_test(tc, perplexity_is_that_of_the_reference_or_better, 0, ROWS);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
