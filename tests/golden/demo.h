/* tests/golden/demo.h - the small English model of the demo, and others held against it on the
 * first windows of its evaluation text. */
#ifndef PARE_TESTS_GOLDEN_DEMO_H
#define PARE_TESTS_GOLDEN_DEMO_H

#include "tests/golden/golden.h"

#define DEMO  PARE_SOURCE_DIR "/recipes/demo"
#define HEDGE DEMO "/hedge"

enum { WINDOWS = 8, SAMPLES = 12 };

static inline void open_model(pare_ctx *cx, pare_arena *a, const char *path, pare_checkpoint *ck,
                              pare_model *model)
{
    ck_assert_msg(pare_checkpoint_open(cx, a, path, ck) == PARE_OK, "%s", cx->what);
    ck_assert_msg(pare_model_load(cx, a, ck, model) == PARE_OK, "%s", cx->what);
}

/* KL divergence of the model at `path` from hedge. */
static inline pare_eval_result judge(pare_ctx *cx, const char *path)
{
    pare_arena a;
    pare_checkpoint ck[2];
    pare_model before, after;
    pare_tokenizer *t;
    pare_tokens tokens;
    pare_forward f[2];
    pare_eval_result r;
    const char *const text = DEMO "/evaluation.txt";
    const pare_eval_opts opts = {.window = 256};
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    open_model(cx, &a, HEDGE, &ck[0], &before);
    open_model(cx, &a, path, &ck[1], &after);
    ck_assert_msg(pare_tokenizer_open(cx, HEDGE, &t) == PARE_OK, "%s", cx->what);
    ck_assert_int_eq(pare_tokens_encode(cx, &a, t, &text, 1, -1, before.config.vocab, &tokens),
                     PARE_OK);
    ck_assert_uint_ge(tokens.count, WINDOWS * 256);
    ck_assert_int_eq(pare_forward_init(cx, &a, &before, 256, true, &f[0]), PARE_OK);
    ck_assert_int_eq(pare_forward_init(cx, &a, &after, 256, true, &f[1]), PARE_OK);
    ck_assert_msg(pare_evaluate(cx, &f[1], &f[0], &opts, tokens.id, WINDOWS * 256, &r) == PARE_OK,
                  "%s", cx->what);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&ck[0]);
    pare_checkpoint_close(&ck[1]);
    pare_arena_release(&a);
    return r;
}

#endif
