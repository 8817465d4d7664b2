#include "distill/ebft.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "distill/adamw.h"
#include "distill/schedule.h"
#include "runtime/leaves.h"
#include "runtime/random.h"
#include "runtime/small.h"

enum { HELD_PART = 8 }; /* one window of so many is held out, the last ones */

typedef struct trainer {
    pare_ctx *cx;
    pare_arena *a;
    const pare_ebft_opts *opts;
    const pare_block_data *block;
    unsigned roles;
    size_t train; /* windows to learn from, the first ones */
    pare_block_loss loss;
    pare_trained leaf[PARE_ROLES];
    size_t leaves, step;
    size_t *order, *batch; /* windows of an epoch, of a step */
} trainer;

static bool is_trained(const trainer *t, size_t role)
{
    return (t->roles & 1u << role) != 0 && t->block->current->linear[role].n > 0;
}

static size_t weights_of(const trainer *t, size_t role)
{
    const pare_linear *const w = &t->block->current->linear[role];
    return w->n * w->k;
}

static size_t windows_learned(size_t samples)
{
    return samples - samples / HELD_PART;
}

static size_t batches_of(size_t windows, size_t batch)
{
    return (windows + batch - 1) / batch;
}

static pare_status take_leaves(trainer *t)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const size_t count = weights_of(t, r);
        float *const w = t->loss.rounded.linear[r].floats;
        if (count)
            memcpy(w, t->block->current->linear[r].floats, count * sizeof *w);
        if (!is_trained(t, r))
            continue;
        pare_trained *const leaf = &t->leaf[t->leaves++];
        *leaf = (pare_trained){.value = w,
                               .gradient = t->loss.slope.linear[r].floats,
                               .m = PARE_NEW(t->a, float, count),
                               .v = PARE_NEW(t->a, float, count),
                               .count = count,
                               .keeps_zeros = true};
        if (!leaf->m || !leaf->v)
            return PARE_ENOMEM;
    }
    t->order = PARE_NEW(t->a, size_t, t->block->samples);
    t->batch = PARE_NEW(t->a, size_t, t->opts->batch);
    return t->order && t->batch ? PARE_OK : PARE_ENOMEM;
}

/* Takes over what the training has come to. */
static void keep(const trainer *t, pare_ebft_found *found)
{
    for (size_t r = 0; r < PARE_ROLES; r++)
        if (found->w[r])
            memcpy(found->w[r], t->loss.rounded.linear[r].floats,
                   weights_of(t, r) * sizeof *found->w[r]);
}

static pare_status measure(trainer *t, double *loss)
{
    const size_t samples = t->block->samples;
    return pare_block_loss_measure(&t->loss, t->train < samples ? t->train : 0, samples, loss);
}

static int compare_windows(const void *a, const void *b)
{
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static pare_status step(trainer *t, const size_t *window, size_t count)
{
    static const pare_adamw adamw = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8};
    const size_t steps = t->opts->epochs * batches_of(t->train, t->opts->batch);
    const pare_schedule schedule = {
        .peak = t->opts->rate, .last = t->opts->rate / 10, .warmup = steps / 20, .steps = steps};
    const double rate = pare_schedule_rate(&schedule, t->step++);
    memcpy(t->batch, window, count * sizeof *window);
    qsort(t->batch, count, sizeof *t->batch, compare_windows);
    PARE_TRY(pare_block_loss_slopes(&t->loss, t->batch, count));
    pare_adamw_step(t->cx, &adamw, t->leaf, t->leaves, t->step, rate, 0);
    return PARE_OK;
}

static pare_status epoch(trainer *t, size_t which)
{
    pare_schedule_order(t->opts->seed, t->opts->stream + which, t->train, t->order);
    for (size_t i = 0; i < t->train; i += t->opts->batch)
        PARE_TRY(step(t, t->order + i, pare_smaller(t->opts->batch, t->train - i)));
    return PARE_OK;
}

static pare_status train(trainer *t, pare_ebft_found *found)
{
    double loss;
    PARE_TRY(pare_block_loss_take(&t->loss, t->a, t->block->current));
    PARE_TRY(take_leaves(t));
    PARE_TRY(measure(t, &found->before));
    PARE_TRY(pare_block_loss_check(t->cx, found->before));
    found->after = found->before;
    keep(t, found);
    for (size_t e = 0; e < t->opts->epochs; e++) {
        PARE_TRY(epoch(t, e));
        PARE_TRY(measure(t, &loss));
        if (!(loss < found->after)) /* also what is not finite */
            continue;
        found->after = loss;
        found->kept = false;
        keep(t, found);
    }
    return PARE_OK;
}

pare_status pare_ebft_train(pare_ctx *cx, pare_arena *a, const pare_ebft_opts *opts,
                            const pare_block_data *block, unsigned roles, pare_ebft_found *found)
{
    assert(opts->batch > 0 && opts->epochs > 0 && block->samples > 0 && block->window > 0);
    trainer t = {.cx = cx,
                 .a = a,
                 .opts = opts,
                 .block = block,
                 .roles = roles,
                 .train = windows_learned(block->samples),
                 .loss = {.cx = cx,
                          .data = block,
                          .what = "training what is left",
                          .batch = opts->batch,
                          .room = {.cx = cx}}};
    const size_t held = t.train < block->samples ? block->samples - t.train : block->samples;
    t.loss.total = opts->epochs * batches_of(t.train, opts->batch) +
                   (opts->epochs + 1) * batches_of(held, opts->batch);
    *found = (pare_ebft_found){.kept = true};
    for (size_t r = 0; r < PARE_ROLES; r++) {
        if (!is_trained(&t, r))
            continue;
        found->w[r] = PARE_NEW(a, float, weights_of(&t, r));
        if (!found->w[r])
            return PARE_ENOMEM;
    }
    const pare_mark mark = pare_arena_mark(a);
    const pare_status s = train(&t, found);
    pare_block_loss_release(&t.loss);
    pare_arena_rewind(a, mark);
    return s;
}

size_t pare_ebft_bytes(const pare_ctx *cx, const pare_config *c, size_t batch, size_t samples,
                       size_t window)
{
    const uint64_t block = pare_block_float_bytes(c);
    size_t bytes = pare_block_loss_bytes(cx, c, batch, window);
    /* two moments, and what is found; ends of an arena's blocks */
    if (__builtin_add_overflow(bytes, 3 * block + (size_t)1024 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(bytes, (samples + batch) * sizeof(size_t), &bytes))
        return SIZE_MAX;
    return bytes;
}
