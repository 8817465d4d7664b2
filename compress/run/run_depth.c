/* What structured steps decide on the whole model: a pass of the wave over it in floats. */
#include <math.h>
#include <string.h>

#include "compress/plan/plan_reap.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_reap.h"
#include "prune/depth.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"

/* The float block `block` of the model, as it is or with its norms folded. */
static pare_status load(pare_run *run, size_t block, bool fold)
{
    const pare_config *const c = &run->model.config;
    PARE_TRY(pare_ctx_interrupted(run->cx));
    pare_block_load(run->cx, c, &run->model.block[block], &run->current);
    return fold ? pare_slicegpt_fold_block(run->cx, c, &run->current) : PARE_OK;
}

typedef struct watch {
    pare_run *run;
    pare_depth depth;
} watch;

/* A batch goes through the block, and is compared with what it was. */
static pare_status compare(void *self, float *x, size_t rows)
{
    watch *const w = self;
    pare_run *const run = w->run;
    const size_t hidden = run->wave.hidden;
    const pare_batch batch = {.sequences = rows / run->wave.window, .length = run->wave.window};
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const before = PARE_NEW(&run->scratch, float, rows *hidden);
    pare_kv kv;
    pare_status s = before ? PARE_OK : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_kv_take(&run->scratch, &run->model.config, batch.sequences, batch.length, &kv);
    if (s == PARE_OK) {
        memcpy(before, x, rows * hidden * sizeof *x);
        s = pare_block_forward(run->cx, &run->scratch, &run->forward, &run->current, batch, x, &kv,
                               NULL);
    }
    if (s == PARE_OK)
        s = pare_depth_add(run->cx, &run->scratch, &w->depth, before, x, rows, hidden);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* The blocks that stay: those of most influence, in their order. */
static pare_status choose_blocks(pare_run *run)
{
    const size_t blocks = run->model.config.blocks, kept = run->plan->out.blocks;
    double *const influence = PARE_NEW(run->a, double, blocks);
    size_t *const source = PARE_NEW(run->a, size_t, kept);
    uint8_t *const keep = PARE_NEW(run->a, uint8_t, blocks);
    if (!influence || !source || !keep)
        return PARE_ENOMEM;
    for (size_t b = 0; b < blocks; b++) {
        watch w = {.run = run};
        pare_ctx_progress(run->cx, "comparing blocks", (double)b, (double)blocks);
        PARE_TRY(load(run, b, false));
        PARE_TRY(pare_wave_change(run->cx, &run->scratch, &run->wave, compare, &w));
        influence[b] = pare_depth_influence(&w.depth);
    }
    PARE_TRY(pare_structure_choose(run->cx, &run->scratch, influence, blocks, kept, keep));
    for (size_t b = 0, to = 0; b < blocks; b++)
        if (keep[b])
            source[to++] = b;
        else
            pare__notify(run, PARE_EVENT_NOTICE, "block %zu goes, its influence is %.4f", b,
                         influence[b]);
    run->structure.influence = influence;
    run->structure.source = source;
    run->structure.sources = kept;
    return PARE_OK;
}

/* Sums of products of the stream behind the last block, normed without weights. */
typedef struct last {
    pare_run *run;
    float *h;
} last;

static pare_status add_last(void *self, float *x, size_t rows)
{
    const last *const l = self;
    pare_run *const run = l->run;
    const size_t hidden = run->wave.hidden;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const y = PARE_NEW(&run->scratch, float, rows *hidden);
    if (!y)
        return PARE_ENOMEM;
    for (size_t i = 0; i < rows; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < hidden; j++)
            sum += (double)x[i * hidden + j] * (double)x[i * hidden + j];
        const double norm = sqrt(sum / (double)hidden + run->model.config.norm_eps);
        for (size_t j = 0; j < hidden; j++)
            y[i * hidden + j] = (float)((double)x[i * hidden + j] / norm);
    }
    pare_gram_add(run->cx, l->h, y, rows, hidden);
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

/* Principal directions of the normed stream in front of every norm. */
static pare_status find_basis(pare_run *run)
{
    const pare_config *const c = &run->model.config;
    const unsigned kinds[PARE_SITES] = {
        [PARE_SITE_ATTENTION] = PARE_STATS_HESSIAN, [PARE_SITE_MLP] = PARE_STATS_HESSIAN};
    const size_t square = c->hidden * c->hidden;
    pare_stats stats;
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, c, 0, kinds,
                             (uint64_t)run->wave.samples * run->wave.window, &stats));
    last l = {run, PARE_NEW(&run->scratch, float, square)};
    double *const h = PARE_NEW(&run->scratch, double, square);
    if (!l.h || !h)
        return PARE_ENOMEM;
    const pare_tap tap = pare_stats_tap(&stats);
    for (size_t b = 0; b < c->blocks; b++) {
        PARE_TRY(load(run, b, true));
        PARE_TRY(pare_wave_run(run->cx, &run->scratch, &run->wave, &run->wave_forward,
                               &run->current, &tap, "gathering statistics"));
        PARE_TRY(pare_wave_run(run->cx, &run->scratch, &run->wave, &run->wave_forward,
                               &run->current, NULL, "carrying activations to the next block"));
    }
    PARE_TRY(pare_wave_change(run->cx, &run->scratch, &run->wave, add_last, &l));
    for (size_t i = 0; i < square; i++)
        h[i] = (double)stats.site[PARE_SITE_ATTENTION].h[i] +
               (double)stats.site[PARE_SITE_MLP].h[i] + (double)l.h[i];
    return pare_slicegpt_basis(run->cx, run->a, &run->scratch, h, c->hidden, run->plan->out.hidden,
                               &run->slice);
}

pare_status pare__run_structure_begin(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const bool drops = plan->out.blocks < run->model.config.blocks;
    const bool narrows = plan->out.hidden < run->model.config.hidden;
    if (!drops && !narrows && !pare_plan_reaps(plan))
        return PARE_OK;
    const double start = pare_seconds();
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = drops ? choose_blocks(run) : narrows ? find_basis(run) : pare__reap_choose(run);
    pare_arena_rewind(&run->scratch, mark);
    if (s == PARE_OK && plan->watched)
        s = pare_wave_embed(run->cx, &run->scratch, &run->wave, &run->model, run->data.tokens.id);
    run->calibration_seconds += pare_seconds() - start;
    return s;
}
