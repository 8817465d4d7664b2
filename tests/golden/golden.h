/* tests/golden/golden.h - compressing by a recipe, judging what comes out, and the reference table.
 */
#ifndef PARE_TESTS_GOLDEN_H
#define PARE_TESTS_GOLDEN_H

#include "calib/tokens.h"
#include "compress/evaluate/evaluate.h"
#include "formats/tokenizer.h"
#include "tests/unit/job.h"

/* Runs a recipe, text, into the folder "out" of the place; progress of the job is not shown. */
static inline void golden_compress(pare_ctx *cx, const job_place *p, const char *recipe)
{
    char path[512], output[512];
    job_recipe(p, recipe);
    (void)snprintf(path, sizeof path, "%s", job_path(p, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(p, "out"));
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_job job = {.recipe = path, .output = output, .restart = true};
    pare_compress_result result;
    ck_assert_msg(pare_compress(cx, &a, &job, NULL, &result) == PARE_OK, "%s", cx->what);
    pare_arena_release(&a);
}

/* The start of a recipe for the model of the reference table and its calibration tokens, in F32 as
 * the references are. */
#define GOLDEN_STORIES                                                                             \
    "pare: 1\nmodel: " PARE_SHARED_DIR "/models/stories260k\n"                                     \
    "calibration: {tokens: " PARE_SHARED_DIR "/reference/calib_tokens.i32, window: 256, "          \
    "token_weights: even, precision: f32"

/* The end of a recipe: a pruned model is always evaluated, here on one window and for nothing. */
#define GOLDEN_ONE_WINDOW "evaluate:\n  - perplexity: {tokens: window.i32, window: 256}\n"

static inline void golden_one_window(const job_place *p)
{
    const int32_t window[256] = {1};
    FILE *const f = fopen(job_path(p, "window.i32"), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(window, sizeof *window, 256, f), 256);
    ck_assert_int_eq(fclose(f), 0);
}

/* Perplexity of a model over a text, or with NULL over the evaluation tokens of the reference
 * table; windows of 256. */
static inline double golden_ppl_on(pare_ctx *cx, const char *artifact, bool exact, const char *text)
{
    pare_arena a;
    pare_checkpoint ck;
    pare_model model;
    pare_tokenizer *t = NULL;
    pare_tokens tokens;
    pare_forward f;
    pare_eval_result r;
    const pare_eval_opts opts = {.window = 256};
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_checkpoint_open(cx, &a, artifact, &ck) == PARE_OK, "%s", cx->what);
    ck_assert_msg(pare_model_load(cx, &a, &ck, &model) == PARE_OK, "%s", cx->what);
    const size_t vocab = model.config.vocab;
    if (text) {
        ck_assert_int_eq(pare_tokenizer_open(cx, artifact, &t), PARE_OK);
        ck_assert_int_eq(pare_tokens_encode(cx, &a, t, &text, 1, -1, vocab, &tokens), PARE_OK);
        pare_tokenizer_free(t);
    } else {
        text = unit_shared("reference/eval_tokens.i32");
        ck_assert_int_eq(pare_tokens_read(cx, &a, text, vocab, &tokens), PARE_OK);
    }
    ck_assert_int_eq(pare_forward_init(cx, &a, &model, 256, exact, &f), PARE_OK);
    ck_assert_int_eq(pare_evaluate(cx, &f, NULL, &opts, tokens.id, tokens.count, &r), PARE_OK);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return r.ppl;
}

static inline double golden_ppl(pare_ctx *cx, const char *artifact, bool exact)
{
    return golden_ppl_on(cx, artifact, exact, NULL);
}

/* The perplexity column of the table's line that starts with `key` and has seed 0; below 0: there
 * is no such line. */
static inline double golden_reference(const char *key)
{
    FILE *const f = fopen(unit_shared("reference/results.csv"), "r");
    ck_assert_ptr_nonnull(f);
    char line[512];
    double ppl = -1.0;
    while (ppl < 0.0 && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0 && (strstr(line, ",0\n") || strstr(line, ",0\r")))
            ppl = strtod(line + strlen(key), NULL);
    ck_assert_int_eq(fclose(f), 0);
    return ppl;
}

#endif
