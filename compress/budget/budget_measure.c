/* What one linear of the model with a setting does to its output, and what a whole choice does. */
#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_internal.h"
#include "compress/evaluate/evaluate.h"
#include "compress/passes/budget_step.h"
#include "runtime/leaves.h"
#include "runtime/machine.h"
#include "runtime/ops.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { ROWS = 64, JUDGED = 1024 }; /* logits at a time; tokens that judge a choice */

/* Streams of the float model and what is held against it. */
typedef struct probe_run {
    pare_budget *b;
    pare_arena scratch;
    pare_forward f;
    pare_batch batch;
    size_t rows, vocab;
    float *x, *y;  /* [rows, hidden]: in front of the block, and of a changed model */
    float *base;   /* [rows, vocab] logits of the float model */
    float *logits; /* [ROWS, vocab] */
    double *kl;    /* [rows] */
    pare_kv kv;
} probe_run;

static pare_status take(probe_run *r)
{
    pare_budget *const b = r->b;
    const pare_config *const c = &b->plan.model.config;
    pare_arena *const a = &r->scratch;
    PARE_TRY(pare_forward_init(b->cx, a, &b->plan.model, r->batch.length, true, &r->f));
    PARE_TRY(pare_kv_take(a, c, r->batch.sequences, r->batch.length, &r->kv));
    r->rows = r->batch.sequences * r->batch.length;
    r->vocab = c->vocab;
    r->x = PARE_NEW(a, float, r->rows * c->hidden);
    r->y = PARE_NEW(a, float, r->rows * c->hidden);
    r->kl = PARE_NEW(a, double, r->rows);
    r->logits = pare_arena_take(a, ROWS * r->vocab, sizeof *r->logits);
    r->base = r->vocab <= SIZE_MAX / r->rows
                  ? pare_arena_take_raw(a, r->rows * r->vocab, sizeof *r->base)
                  : NULL;
    return r->x && r->y && r->kl && r->logits && r->base ? PARE_OK : PARE_ENOMEM;
}

static size_t stream_bytes(const probe_run *r)
{
    return r->rows * r->b->plan.model.config.hidden * sizeof *r->x;
}

/* Windows shorter than those of the calibration begin where they begin. */
static pare_status embed(probe_run *r)
{
    const size_t window = r->b->plan.window, hidden = r->b->plan.model.config.hidden;
    const pare_batch one = {.sequences = 1, .length = r->batch.length};
    for (size_t i = 0; i < r->batch.sequences; i++)
        PARE_TRY(pare_embed_batch(r->b->cx, &r->b->plan.model, r->b->data.held_out.id + i * window,
                                  one, r->x + i * r->batch.length * hidden));
    return PARE_OK;
}

static pare_status run_block(probe_run *r, const pare_block *block, float *x)
{
    return pare_block_forward(r->b->cx, &r->scratch, &r->f, block, r->batch, x, &r->kv, NULL);
}

/* y through the blocks from `first` on. */
static pare_status run_rest(probe_run *r, size_t first)
{
    for (size_t i = first; i < r->b->blocks; i++) {
        PARE_TRY(pare_ctx_interrupted(r->b->cx));
        PARE_TRY(run_block(r, &r->b->plan.model.block[i], r->y));
    }
    return PARE_OK;
}

typedef struct divergences {
    const float *base, *logits;
    double *kl;
    size_t vocab;
} divergences;

static void diverge(void *arg, size_t begin, size_t end, size_t worker)
{
    const divergences *const d = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        d->kl[i] = pare_divergence(d->base + i * d->vocab, d->logits + i * d->vocab, d->vocab);
}

/* Logits of y: those of the float model are kept, others are held against them. */
static pare_status score(probe_run *r, bool keep, double *mean)
{
    pare_ctx *const cx = r->b->cx;
    size_t row[ROWS];
    for (size_t at = 0; at < r->rows; at += ROWS) {
        const size_t count = pare_smaller(r->rows - at, ROWS);
        float *const to = keep ? r->base + at * r->vocab : r->logits;
        for (size_t i = 0; i < count; i++)
            row[i] = at + i;
        PARE_TRY(pare_logits(cx, &r->scratch, &r->f, r->y, row, count, to));
        divergences d = {r->base + at * r->vocab, to, r->kl + at, r->vocab};
        pare_parallel(cx, count, 1, diverge, &d);
    }
    *mean = 0;
    for (size_t i = 0; i < r->rows; i++)
        *mean += r->kl[i] / (double)r->rows;
    return PARE_OK;
}

/* A block in which a linear has a setting, and the rest is as it was. */
static pare_status changed_block(const pare_budget *b, pare_arena *a, size_t setting, size_t linear,
                                 pare_block *block)
{
    const pare_plan_linear *const l = &b->linear[linear];
    const pare_linear *const was = pare_block_linear(block, l->part, l->role);
    const pare_linear was_copy = *was;
    pare_linear view;
    PARE_TRY(pare_packed_map_linear(b->cx, a, b->writer[setting], &b->layout[setting],
                                    pare__budget_packed(b, setting, linear), &view));
    view.name = was_copy.name;
    if (!view.bias)
        view.bias = was_copy.bias;
    view.rotated = was_copy.rotated;
    *pare_block_linear_mutable(block, l->part, l->role) = view;
    return PARE_OK;
}

static pare_status measure_linear(probe_run *r, size_t block, size_t linear)
{
    pare_block changed;
    const pare_model *const m = &r->b->plan.model;
    PARE_TRY(pare_block_copy(&r->scratch, &m->config, &m->block[block], &changed));
    PARE_TRY(changed_block(r->b, &r->scratch, r->b->probe, linear, &changed));
    memcpy(r->y, r->x, stream_bytes(r));
    PARE_TRY(run_block(r, &changed, r->y));
    PARE_TRY(run_rest(r, block + 1));
    return score(r, false, &r->b->kl[linear]);
}

/* The linears of a block, as far as no earlier run measured them. */
static pare_status measure_block(probe_run *r, size_t block)
{
    pare_budget *const b = r->b;
    size_t begin, end;
    pare__budget_range(b, block, &begin, &end);
    const size_t bytes = (end - begin) * sizeof *b->kl;
    if (b->records > b->blocks + 1 + block) {
        memcpy(b->kl + begin, b->record[b->blocks + 1 + block].payload, bytes);
        return PARE_OK;
    }
    for (size_t i = begin; i < end; i++) {
        pare_ctx_progress(b->cx, "measuring what each linear does to the output", (double)i,
                          (double)b->linears);
        const pare_mark mark = pare_arena_mark(&r->scratch);
        const pare_status s = measure_linear(r, block, i);
        pare_arena_rewind(&r->scratch, mark);
        PARE_TRY(s);
    }
    return pare_journal_append(b->cx, b->journal, b->kl + begin, bytes);
}

static pare_status measure_blocks(probe_run *r)
{
    pare_budget *const b = r->b;
    double same;
    const bool left = b->records < 2 * b->blocks + 1;
    if (left) {
        PARE_TRY(take(r));
        PARE_TRY(embed(r));
        memcpy(r->y, r->x, stream_bytes(r));
        PARE_TRY(run_rest(r, 0));
        PARE_TRY(score(r, true, &same));
    }
    for (size_t i = 0; i < b->blocks; i++) {
        PARE_TRY(measure_block(r, i));
        if (left)
            PARE_TRY(run_block(r, &b->plan.model.block[i], r->x));
    }
    return PARE_OK;
}

/* A record in front of those of the KL says on what it was measured: others are measured anew. */
static pare_status begin_records(pare_budget *b, const pare_batch *batch)
{
    char asked[PARE_SHA256_HEX + 64] = "";
    (void)snprintf(asked, sizeof asked, "%zu %zu %zu %s", b->probe, batch->sequences, batch->length,
                   b->data.held_out_sha256);
    for (size_t i = 0; b->records > b->blocks && i < b->blocks; i++) {
        size_t begin, end;
        pare__budget_range(b, i, &begin, &end);
        const size_t at = b->blocks + 1 + i;
        if (at < b->records && b->record[at].len != (end - begin) * sizeof *b->kl)
            b->records = b->blocks;
    }
    if (b->records > b->blocks && b->record[b->blocks].len == sizeof asked &&
        memcmp(b->record[b->blocks].payload, asked, sizeof asked) == 0)
        return PARE_OK;
    if (b->record)
        PARE_TRY(pare_journal_keep(b->cx, b->journal, b->record, b->blocks));
    b->records = b->blocks;
    return pare_journal_append(b->cx, b->journal, asked, sizeof asked);
}

pare_status pare__budget_measure(pare_budget *b)
{
    const size_t tokens = (size_t)b->value[PARE_BUDGET_TOKENS], window = b->plan.window;
    const size_t length = pare_smaller(window, tokens);
    const pare_batch batch = {.sequences =
                                  pare_smaller(tokens / length, b->data.held_out.count / window),
                              .length = length};
    probe_run r = {.b = b, .batch = batch};
    b->kl = PARE_NEW(b->a, double, b->linears);
    if (!b->kl)
        return PARE_ENOMEM;
    PARE_TRY(begin_records(b, &batch));
    PARE_TRY(pare_arena_init(b->cx, &r.scratch, 0));
    const pare_status s = measure_blocks(&r);
    pare_arena_release(&r.scratch);
    return s;
}

pare_status pare__budget_model(pare_budget *b, pare_arena *a, const size_t *choice, pare_model *out)
{
    *out = b->plan.model;
    PARE_TRY(pare_blocks_copy(a, &b->plan.model, &out->block));
    for (size_t block = 0; block < b->blocks; block++) {
        size_t i, end;
        for (pare__budget_range(b, block, &i, &end); i < end; i++)
            PARE_TRY(changed_block(b, a, choice[i], i, &out->block[block]));
    }
    return PARE_OK;
}

static pare_status judge(pare_budget *b, pare_arena *a, const size_t *choice, double *kl)
{
    const size_t window = b->plan.window;
    const size_t windows = pare_larger(JUDGED / window, 1);
    const size_t count = pare_smaller(windows * window, b->data.held_out.count);
    const pare_eval_opts opts = {.window = window};
    pare_model model;
    pare_forward f, base;
    pare_eval_result result;
    PARE_TRY(pare__budget_model(b, a, choice, &model));
    PARE_TRY(pare_forward_init(b->cx, a, &model, window, true, &f));
    PARE_TRY(pare_forward_init(b->cx, a, &b->plan.model, window, true, &base));
    PARE_TRY(pare_evaluate(b->cx, &f, &base, &opts, b->data.held_out.id, count, &result));
    *kl = result.kl_mean;
    return PARE_OK;
}

pare_status pare__budget_judge(pare_budget *b, const size_t *choice, double *kl)
{
    pare_arena a;
    PARE_TRY(pare_arena_init(b->cx, &a, 0));
    const pare_status s = judge(b, &a, choice, kl);
    pare_arena_release(&a);
    return s;
}
