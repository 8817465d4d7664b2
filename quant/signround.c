#include "quant/signround.h"

#include <assert.h>
#include <string.h>

#include "runtime/leaves.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { CHUNK = 65536 };

static const float OFFSET_MOST = 0.5F, SHARE_LEAST = 0.1F;

typedef struct learner {
    pare_ctx *cx;
    pare_arena *a;
    const pare_signround_opts *opts;
    const pare_block_data *block;
    pare_block_loss loss;
    size_t *batch; /* windows of a step */
    pare_signround_found now;
    float *dlow[PARE_ROLES], *dhigh[PARE_ROLES];
} learner;

/* Arguments of the loop over learned values. */
typedef struct sign_step {
    float *value;
    const float *slope;
    float rate, least, most;
} sign_step;

static void move_by_sign(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const sign_step *const a = arg;
    for (size_t i = begin; i < end; i++) {
        const float g = a->slope[i];
        const float x = a->value[i] - (g > 0 ? a->rate : g < 0 ? -a->rate : 0);
        a->value[i] = x < a->least ? a->least : x > a->most ? a->most : x;
    }
}

static pare_learned_rounding rounding_of(const learner *l, size_t role, bool plain)
{
    const pare_linear *const w = &l->block->current->linear[role];
    pare_learned_rounding r = {.grid = l->block->grid[role], .n = w->n, .k = w->k};
    if (!plain) {
        r.low = l->now.low[role];
        r.high = l->now.high[role];
        r.offset = l->now.offset[role];
    }
    return r;
}

/* The rounded block, from the learned values or without them. */
static void build(learner *l, bool plain)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const w = &l->block->current->linear[r];
        const pare_learned_rounding rounding = rounding_of(l, r, plain);
        float *const to = l->loss.rounded.linear[r].floats;
        if (rounding.grid)
            pare_learned_values(l->cx, &rounding, w->floats, to);
        else if (w->n)
            memcpy(to, w->floats, w->n * w->k * sizeof *to);
    }
}

static void move_all(const learner *l, float *value, const float *slope, size_t count, float rate,
                     float least, float most)
{
    sign_step call = {value, slope, rate, least, most};
    pare_parallel(l->cx, count, CHUNK, move_by_sign, &call);
}

static void descend(const learner *l, float rate)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_learned_rounding rounding = rounding_of(l, r, false);
        if (!rounding.grid)
            continue;
        const size_t groups = rounding.n * pare_grid_groups(rounding.grid, rounding.k);
        float *const slope = l->loss.slope.linear[r].floats;
        pare_learned_backward(l->cx, &rounding, l->block->current->linear[r].floats, slope,
                              l->dlow[r], l->dhigh[r]);
        move_all(l, l->now.offset[r], slope, rounding.n * rounding.k, rate, -OFFSET_MOST,
                 OFFSET_MOST);
        if (!l->opts->clip)
            continue;
        move_all(l, l->now.low[r], l->dlow[r], groups, rate, SHARE_LEAST, 1);
        move_all(l, l->now.high[r], l->dhigh[r], groups, rate, SHARE_LEAST, 1);
    }
}

static pare_status step(learner *l, size_t t)
{
    const pare_signround_opts *const o = l->opts;
    const double steps = (double)o->steps, rate = o->rate > 0 ? o->rate : 1 / steps;
    const size_t count = o->batch < l->block->samples ? o->batch : l->block->samples;
    pare_random_choose(o->seed, o->stream + t, l->block->samples, count, l->batch);
    build(l, false);
    PARE_TRY(pare_block_loss_slopes(&l->loss, l->batch, count));
    descend(l, (float)(rate * (1 - (double)t / steps)));
    return PARE_OK;
}

static float *take_filled(pare_arena *a, size_t count, float value)
{
    float *const to = PARE_NEW(a, float, count);
    for (size_t i = 0; to && i < count; i++)
        to[i] = value;
    return to;
}

/* What the caller will see, taken first. */
static pare_status take_found(learner *l)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const w = &l->block->current->linear[r];
        if (!l->block->grid[r])
            continue;
        const size_t groups = w->n * pare_grid_groups(l->block->grid[r], w->k);
        l->now.offset[r] = take_filled(l->a, w->n * w->k, 0);
        l->now.low[r] = take_filled(l->a, groups, 1);
        l->now.high[r] = take_filled(l->a, groups, 1);
        if (!l->now.offset[r] || !l->now.low[r] || !l->now.high[r])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static pare_status take_state(learner *l)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const w = &l->block->current->linear[r];
        if (!l->block->grid[r])
            continue;
        const size_t groups = w->n * pare_grid_groups(l->block->grid[r], w->k);
        l->dlow[r] = PARE_NEW(l->a, float, groups);
        l->dhigh[r] = PARE_NEW(l->a, float, groups);
        if (!l->dlow[r] || !l->dhigh[r])
            return PARE_ENOMEM;
    }
    l->batch = PARE_NEW(l->a, size_t, l->opts->batch);
    return l->batch ? PARE_OK : PARE_ENOMEM;
}

static pare_status learn(learner *l)
{
    PARE_TRY(take_state(l));
    PARE_TRY(pare_block_loss_take(&l->loss, l->a, l->block->current));
    build(l, true);
    PARE_TRY(pare_block_loss_measure(&l->loss, 0, l->block->samples, &l->now.before));
    PARE_TRY(pare_block_loss_check(l->cx, l->now.before));
    for (size_t t = 0; t < l->opts->steps; t++)
        PARE_TRY(step(l, t));
    build(l, false);
    return pare_block_loss_measure(&l->loss, 0, l->block->samples, &l->now.after);
}

pare_status pare_signround_learn(pare_ctx *cx, pare_arena *a, const pare_signround_opts *opts,
                                 const pare_block_data *block, pare_signround_found *found)
{
    assert(opts->batch > 0 && opts->steps > 0 && block->samples > 0 && block->window > 0);
    *found = (pare_signround_found){0};
    PARE_TRY(pare_block_data_check(cx, block, "signround"));
    const size_t batches = (block->samples + opts->batch - 1) / opts->batch;
    learner l = {.cx = cx,
                 .a = a,
                 .opts = opts,
                 .block = block,
                 .loss = {.cx = cx,
                          .data = block,
                          .what = "learning which way to round",
                          .total = 2 * batches + opts->steps,
                          .batch = opts->batch,
                          .room = {.cx = cx}}};
    PARE_TRY(take_found(&l));
    const pare_mark mark = pare_arena_mark(a);
    const pare_status s = learn(&l);
    pare_block_loss_release(&l.loss);
    pare_arena_rewind(a, mark);
    PARE_TRY(s);
    found->before = found->after = l.now.before;
    found->kept = !(l.now.after < l.now.before); /* also what is not finite */
    if (!found->kept)
        *found = l.now;
    return PARE_OK;
}

size_t pare_signround_bytes(const pare_ctx *cx, const pare_config *c,
                            const pare_signround_opts *opts, size_t window)
{
    size_t bytes = pare_block_loss_bytes(cx, c, opts->batch, window), groups = 0;
    for (unsigned r = 0; r < PARE_ROLES; r++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)r, &n, &k);
        groups += n * (k + 31) / 32; /* the smallest group */
    }
    /* shares and their slopes, ends of an arena's blocks; offsets; a batch */
    if (__builtin_add_overflow(bytes, 4 * groups * sizeof(float) + (size_t)1024 * PARE_ALIGN,
                               &bytes) ||
        __builtin_add_overflow(bytes, opts->batch * sizeof(size_t), &bytes) ||
        __builtin_add_overflow(bytes, pare_block_float_bytes(c), &bytes))
        return SIZE_MAX;
    return bytes;
}
