/* Whether a rotated model, still in floats, computes what the model did. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_rotate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_rotate.h"
#include "compress/run/run_same.h"

enum { TOKENS = PARE__ROTATE_CHECK_TOKENS };

/* A few tokens that follow each other in the calibration, when there is one. */
static size_t tokens(const pare_plan *plan)
{
    return plan->calibrated && plan->window < TOKENS ? plan->window : TOKENS;
}

/* Largest value of a position, and the largest difference; a NaN stays. */
typedef struct moved {
    double most, by;
} moved;

static void measure(moved *m, const float *want, const float *got, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        m->most = fmax(m->most, fabs((double)want[i]));
        m->by = pare__farther(m->by, fabs((double)want[i] - (double)got[i]));
    }
}

static pare_status judge(pare_run *run, const moved *m, size_t position, const char *where)
{
    if (pare__same(m->by, m->most))
        return PARE_OK;
    return pare_fail(run->cx, PARE_ENUMERIC,
                     "rotate: %s: position %zu of the float model moved by %.3g of its largest "
                     "value (%.3g), more than %g; weights of too wide a range cannot be rotated",
                     where, position, m->most > 0 ? m->by / m->most : m->by, m->most, PARE__SAME);
}

/* Rotated rows against what they should be once turned back. */
static pare_status compare(pare_run *run, const float *want, float *rotated, const char *where)
{
    const pare_hadamard *const h = &run->plan->rotation->hidden;
    const size_t count = tokens(run->plan);
    pare_hadamard_invert(run->cx, h, rotated, h->k, count);
    for (size_t i = 0; i < count; i++) {
        moved m = {0};
        measure(&m, want + i * h->k, rotated + i * h->k, h->k);
        PARE_TRY(judge(run, &m, i, where));
    }
    return PARE_OK;
}

pare_status pare__rotate_check_begin(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_config *const c = &run->model.config;
    const size_t count = tokens(plan);
    int32_t id[TOKENS];
    if (!plan->rotation)
        return PARE_OK;
    if (!plan->calibrated) /* else start_waves has made it */
        PARE_TRY(pare_forward_init(run->cx, &run->stage, &run->model, count, true, &run->forward));
    for (size_t i = 0; i < count; i++)
        id[i] = plan->calibrated ? run->data.tokens.id[i] : (int32_t)(i * c->vocab / count);
    run->witness = PARE_NEW(run->a, float, count * c->hidden);
    if (!run->witness)
        return PARE_ENOMEM;
    PARE_TRY(pare_embed(run->cx, &run->model, id, count, run->witness));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const rotated = PARE_NEW(&run->scratch, float, count * c->hidden);
    for (size_t i = 0; rotated && i < count; i++)
        pare__rotate_rows(run, false, (size_t)id[i], 1, rotated + i * c->hidden);
    const pare_status s =
        rotated ? compare(run, run->witness, rotated, "the embedding") : PARE_ENOMEM;
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status forward(pare_run *run, const pare_block *block, float *x)
{
    const pare_batch batch = {.sequences = 1, .length = tokens(run->plan)};
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_kv kv;
    pare_status s = pare_kv_take(&run->scratch, &run->model.config, 1, batch.length, &kv);
    if (s == PARE_OK)
        s = pare_block_forward(run->cx, &run->scratch, &run->forward, block, batch, x, &kv, NULL);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* The stream moves on, and its rotated copy beside it. */
static pare_status check_block(pare_run *run, size_t block, float *rotated)
{
    const pare_plan *const plan = run->plan;
    const size_t count = tokens(plan);
    char where[32];
    (void)snprintf(where, sizeof where, "block %zu", block);
    memcpy(rotated, run->witness, count * run->model.config.hidden * sizeof *rotated);
    pare_rotation_stream(run->cx, plan->rotation, rotated, count);
    PARE_TRY(forward(run, &run->model.block[block], run->witness));
    PARE_TRY(forward(run, &run->current, rotated));
    return compare(run, run->witness, rotated, where);
}

pare_status pare__rotate_check_block(pare_run *run, size_t block)
{
    if (!run->plan->rotation)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const rotated =
        PARE_NEW(&run->scratch, float, tokens(run->plan) * run->model.config.hidden);
    const pare_status s = rotated ? check_block(run, block, rotated) : PARE_ENOMEM;
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* Logits of rows [first, first + rows) of the vocabulary, by a model and by the rotated one. */
typedef struct head_call {
    pare_model whole, own;
    const float *rotated; /* the stream behind the last block */
    float *weights, *want, *got;
} head_call;

static pare_status add_rows(pare_run *run, head_call *h, size_t first, size_t rows, moved *m)
{
    const pare_linear *const head = &run->model.head;
    const size_t count = tokens(run->plan);
    pare__rotate_rows(run, true, first, rows, h->weights);
    h->whole.head.n = h->own.head.n = rows;
    h->whole.head.data =
        (const char *)head->data + first * (head->k * pare_dtype_bits(head->dtype) / 8);
    const pare_forward whole = {.model = &h->whole, .exact = true};
    const pare_forward own = {.model = &h->own, .exact = true};
    PARE_TRY(pare_logits(run->cx, &run->scratch, &whole, run->witness, NULL, count, h->want));
    PARE_TRY(pare_logits(run->cx, &run->scratch, &own, h->rotated, NULL, count, h->got));
    for (size_t i = 0; i < count; i++)
        measure(&m[i], h->want + i * rows, h->got + i * rows, rows);
    return PARE_OK;
}

static pare_status check_head(pare_run *run)
{
    const pare_model *const model = &run->model;
    const size_t count = tokens(run->plan), hidden = model->config.hidden;
    const size_t most = pare__rotate_rows_at_once(model->config.vocab, model->config.hidden,
                                                  PARE__ROTATE_CHECK_FLOATS);
    float *const rotated = PARE_NEW(&run->scratch, float, count *hidden);
    head_call h = {.whole = *model,
                   .own = *model,
                   .rotated = rotated,
                   .weights = PARE_NEW(&run->scratch, float, most *hidden),
                   .want = PARE_NEW(&run->scratch, float, count *most),
                   .got = PARE_NEW(&run->scratch, float, count *most)};
    h.own.norm = pare__rotate_norm(run);
    h.own.head.dtype = PARE_F32;
    h.own.head.data = h.weights;
    if (!rotated || !h.weights || !h.want || !h.got || !h.own.norm)
        return PARE_ENOMEM;
    memcpy(rotated, run->witness, count * hidden * sizeof *rotated);
    pare_rotation_stream(run->cx, run->plan->rotation, rotated, count);
    moved m[TOKENS] = {0};
    for (size_t i = 0; i < model->head.n; i += most) {
        PARE_TRY(pare_ctx_interrupted(run->cx));
        PARE_TRY(add_rows(run, &h, i, model->head.n - i < most ? model->head.n - i : most, m));
    }
    for (size_t i = 0; i < count; i++)
        PARE_TRY(judge(run, &m[i], i, "the logits"));
    return PARE_OK;
}

pare_status pare__rotate_check_head(pare_run *run)
{
    if (!run->plan->rotation)
        return PARE_OK;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = check_head(run);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
