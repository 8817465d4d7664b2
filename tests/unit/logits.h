/* tests/unit/logits.h - what a loaded model says. */
#ifndef PARE_TESTS_UNIT_LOGITS_H
#define PARE_TESTS_UNIT_LOGITS_H

#include "runtime/forward.h"
#include "tests/unit/loaded.h"

enum { LOGITS_LENGTH = 24 };

/* Of the last token of a short text, [vocab]; exact: as pare eval --exact has them. */
static inline float *logits(const pare_model *m, bool exact)
{
    const pare_config *const c = &m->config;
    const size_t last = LOGITS_LENGTH - 1;
    pare_forward f;
    int32_t token[LOGITS_LENGTH];
    pare_kv *const kv = PARE_NEW(&arena, pare_kv, c->blocks);
    float *const x = PARE_NEW(&arena, float, LOGITS_LENGTH * c->hidden);
    float *const out = PARE_NEW(&arena, float, c->vocab);
    ck_assert(kv && x && out);
    ck_assert_int_eq(pare_forward_init(&cx, &arena, m, LOGITS_LENGTH, exact, &f), PARE_OK);
    for (size_t b = 0; b < c->blocks; b++)
        ck_assert_int_eq(pare_kv_take_format(&arena, c, &m->kv, 1, LOGITS_LENGTH, &kv[b]), PARE_OK);
    for (size_t i = 0; i < LOGITS_LENGTH; i++)
        token[i] = (int32_t)((i * i * 7 + i * 29 + 3) % c->vocab);
    const pare_batch batch = {1, LOGITS_LENGTH, 0};
    ck_assert_int_eq(pare_embed_batch(&cx, m, token, batch, x), PARE_OK);
    ck_assert_int_eq(pare_model_forward(&cx, &arena, &f, batch, x, kv, c->blocks), PARE_OK);
    ck_assert_int_eq(pare_logits(&cx, &arena, &f, x, &last, 1, out), PARE_OK);
    return out;
}

#endif
