/* Errors and times of widths. */
#include <string.h>

#include "calib/wave.h"
#include "compress/budget/widths_internal.h"
#include "compress/evaluate/token_time.h"
#include "prune/ziplm.h"
#include "quant/gptq.h"
#include "runtime/linear.h"
#include "runtime/small.h"

enum { MLP = 3, ROUNDS = 3 }; /* linears of one: gate, up, down */

typedef struct walk {
    pare_widths *w;
    pare_arena stage, scratch;
    pare_forward forward;
    pare_wave wave;
} walk;

static const unsigned kinds[PARE_SITES] = {[PARE_SITE_ACTIVATED] = PARE_STATS_HESSIAN};

/* Sum of squares of the stream that leaves a block. */
static pare_status stream_energy(walk *k, double *out)
{
    const pare_wave *const wave = &k->wave;
    const size_t count = wave->window * wave->hidden;
    const pare_mark mark = pare_arena_mark(&k->scratch);
    float *const x = PARE_NEW(&k->scratch, float, count);
    if (!x)
        return PARE_ENOMEM;
    *out = 0;
    for (size_t i = 0; i < wave->samples; i++) {
        double sum = 0;
        PARE_TRY(pare_wave_window(k->w->b->cx, wave, i, x));
        for (size_t j = 0; j < count; j++)
            sum += (double)x[j] * (double)x[j];
        *out += sum;
    }
    pare_arena_rewind(&k->scratch, mark);
    return PARE_OK;
}

/* Errors of a block at all widths, *all the square of what down gave. */
static pare_status measure(walk *k, size_t block, const pare_linear *down, float *h, double *all)
{
    pare_widths *const w = k->w;
    pare_ctx *const cx = w->b->cx;
    const size_t least = w->width[w->count - 1];
    float *const floats = PARE_NEW(&k->scratch, float, down->n * down->k);
    double *const lost = PARE_NEW(&k->scratch, double, down->k - least + 1);
    if (!floats || !lost)
        return PARE_ENOMEM;
    pare_linear_to_f32(cx, down, floats);
    *all = pare_gptq_error(cx, floats, NULL, h, down->n, down->k);
    PARE_TRY(pare_ziplm_prune(cx, &k->scratch, floats, h, down->n, down->k, least, NULL, lost));
    for (size_t i = 0; i < w->count; i++)
        w->error[block * w->count + i] = *all > 0 ? lost[down->k - w->width[i]] / *all : 0;
    return PARE_OK;
}

/* An error counts as what the MLP adds to the stream, which all blocks behind it see:
 * |added|^2 / |stream behind|^2 (blocks - block). */
static pare_status measure_block(walk *k, size_t block)
{
    pare_budget *const b = k->w->b;
    const pare_block *const weights = &b->plan.model.block[block];
    pare_stats stats;
    double added, stream;
    PARE_TRY(pare_stats_take(b->cx, &k->scratch, &b->plan.model.config, 0, kinds,
                             (uint64_t)k->wave.samples * k->wave.window, &stats));
    const pare_tap tap = pare_stats_tap(&stats);
    PARE_TRY(pare_wave_run(b->cx, &k->scratch, &k->wave, &k->forward, weights, &tap,
                           "measuring the widths"));
    PARE_TRY(measure(k, block, &weights->linear[PARE_ROLE_DOWN], stats.site[PARE_SITE_ACTIVATED].h,
                     &added));
    PARE_TRY(pare_wave_run(b->cx, &k->scratch, &k->wave, &k->forward, weights, NULL,
                           "carrying activations of the float model"));
    PARE_TRY(stream_energy(k, &stream));
    k->w->weight[block] = stream > 0 ? added / stream * (double)(k->w->blocks - block) : 1;
    return PARE_OK;
}

static pare_status run(walk *k)
{
    pare_budget *const b = k->w->b;
    const pare_plan *const plan = &b->plan;
    const size_t samples = b->data.tokens.count / plan->window;
    const char *const spill = plan->settled.memory.spill ? b->store : NULL;
    PARE_TRY(pare_forward_init(b->cx, &k->stage, &plan->model, plan->window, true, &k->forward));
    PARE_TRY(pare_wave_open_part(b->cx, &k->stage, samples, 0, samples, plan->window,
                                 plan->model.config.hidden, spill, &k->wave));
    k->wave.stored = true;
    PARE_TRY(pare_wave_embed(b->cx, &k->scratch, &k->wave, &plan->model, b->data.tokens.id));
    for (size_t i = 0; i < k->w->blocks; i++) {
        const pare_mark mark = pare_arena_mark(&k->scratch);
        PARE_TRY(measure_block(k, i));
        pare_arena_rewind(&k->scratch, mark);
    }
    return PARE_OK;
}

pare_status pare__widths_errors(pare_widths *w)
{
    walk k = {.w = w, .stage = {.cx = w->b->cx}, .scratch = {.cx = w->b->cx}};
    pare_status s = pare_arena_init(w->b->cx, &k.stage, 0);
    if (s == PARE_OK)
        s = pare_arena_init(w->b->cx, &k.scratch, 0);
    if (s == PARE_OK)
        s = run(&k);
    pare_wave_close(&k.wave);
    pare_arena_release(&k.scratch);
    pare_arena_release(&k.stage);
    return s;
}

/* The MLP of a block as if it had so many channels. */
static void narrow(pare_block *block, size_t width)
{
    block->linear[PARE_ROLE_GATE].n = block->linear[PARE_ROLE_UP].n = width;
    block->linear[PARE_ROLE_DOWN].k = width;
}

static pare_status time_width(const pare_widths *w, pare_arena *a, size_t width, uint64_t *ps)
{
    const pare_mark mark = pare_arena_mark(a);
    const size_t count = MLP * w->blocks;
    pare_linear *const l = PARE_NEW(a, pare_linear, count);
    if (!l)
        return PARE_ENOMEM;
    for (size_t b = 0; b < w->blocks; b++) {
        pare_block block = w->b->plan.model.block[b];
        narrow(&block, width);
        l[MLP * b] = block.linear[PARE_ROLE_GATE];
        l[MLP * b + 1] = block.linear[PARE_ROLE_UP];
        l[MLP * b + 2] = block.linear[PARE_ROLE_DOWN];
    }
    PARE_TRY(pare_time_linears(w->b->cx, a, l, count, ps));
    *ps *= MLP;
    pare_arena_rewind(a, mark);
    return PARE_OK;
}

static void keep_least(uint64_t *least, uint64_t ps)
{
    if (*least == 0 || ps < *least)
        *least = ps;
}

void pare__widths_bound(pare_widths *w)
{
    for (size_t i = w->count - 1; i > 0; i--) {
        const double most = (double)w->ps[i] * (double)w->width[i - 1] / (double)w->width[i];
        if ((double)w->ps[i - 1] > most)
            w->ps[i - 1] = (uint64_t)most;
    }
    for (size_t i = 1; i < w->count; i++)
        w->ps[i] = pare_smaller(w->ps[i], w->ps[i - 1]);
}

/* Rounds through all widths, and the least time of each: what else runs on the machine slows some
 * of them. */
static pare_status time_all(pare_widths *w, pare_arena *a)
{
    pare_ctx *const cx = w->b->cx;
    const size_t all = ROUNDS * w->count;
    uint64_t ps;
    w->token_ps = 0;
    memset(w->ps, 0, sizeof w->ps);
    for (size_t i = 0; i < all; i++) {
        PARE_TRY(pare_ctx_interrupted(cx));
        pare_ctx_progress(cx, "timing the widths", (double)i, (double)all);
        PARE_TRY(time_width(w, a, w->width[i % w->count], &ps));
        keep_least(&w->ps[i % w->count], ps);
        if (i % w->count)
            continue;
        PARE_TRY(pare_time_token(cx, a, &w->b->plan.model, &ps));
        keep_least(&w->token_ps, ps);
    }
    pare__widths_bound(w);
    pare_ctx_progress(cx, "timing the widths", 1, 1);
    return PARE_OK;
}

pare_status pare__widths_times(pare_widths *w)
{
    pare_arena a;
    PARE_TRY(pare_arena_init(w->b->cx, &a, 0));
    const pare_status s = time_all(w, &a);
    pare_arena_release(&a);
    return s;
}

static pare_status time_choice(pare_widths *w, pare_arena *a, const size_t *choice, uint64_t *ps)
{
    pare_model model = w->b->plan.model;
    pare_block *const block = PARE_NEW(a, pare_block, w->blocks);
    if (!block)
        return PARE_ENOMEM;
    memcpy(block, model.block, w->blocks * sizeof *block);
    for (size_t b = 0; b < w->blocks; b++)
        narrow(&block[b], w->width[choice[b]]);
    model.block = block;
    return pare_time_token(w->b->cx, a, &model, ps);
}

pare_status pare__widths_token(pare_widths *w, const size_t *choice, uint64_t *ps)
{
    pare_arena a;
    PARE_TRY(pare_arena_init(w->b->cx, &a, 0));
    const pare_status s = time_choice(w, &a, choice, ps);
    pare_arena_release(&a);
    return s;
}
