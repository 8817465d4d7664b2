#include "quant/omniquant.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/ops.h"
#include "runtime/threads.h"

enum { COLUMNS = 64 };

static const double BETA1 = 0.9, BETA2 = 0.999, EPSILON = 1e-8, LOGIT = 4;

/* One learned vector with its moments and its gradient. */
typedef struct learned {
    size_t count;
    float *value, *first, *second, *slope;
} learned;

typedef struct learner {
    pare_ctx *cx;
    pare_arena *a;
    const pare_omniquant_opts *opts;
    const pare_block_data *block;
    const pare_config *c;
    learned theta[PARE_SITES];                             /* logarithms of scales */
    learned low[PARE_ROLES], high[PARE_ROLES];             /* logits */
    float *scale[PARE_SITES];                              /* e^theta */
    float *low_share[PARE_ROLES], *high_share[PARE_ROLES]; /* their sigmoids */
    pare_block folded;
    pare_block_loss loss;
    size_t *batch;       /* windows of a step */
    double rate1, rate2; /* BETA1^t, BETA2^t */
    bool diverged;       /* scales left the range of F32 */
} learner;

/* Arguments of the loop over columns. */
typedef struct loop {
    const float *w, *d;
    size_t n, k;
    double *sum;
} loop;

static pare_status take_learned(pare_arena *a, size_t count, float start, learned *out)
{
    *out = (learned){.count = count};
    float **const place[] = {&out->value, &out->first, &out->second, &out->slope};
    for (size_t i = 0; i < 4; i++) {
        *place[i] = PARE_NEW(a, float, count);
        if (!*place[i])
            return PARE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++)
        out->value[i] = start;
    return PARE_OK;
}

static size_t groups_of(const learner *l, size_t role)
{
    const pare_linear *const w = &l->block->current->linear[role];
    return w->n * pare_grid_groups(l->block->grid[role], w->k);
}

static pare_learned_rounding rounding_of(const learner *l, size_t role, bool plain)
{
    const pare_linear *const w = &l->block->current->linear[role];
    return (pare_learned_rounding){.grid = l->block->grid[role],
                                   .n = w->n,
                                   .k = w->k,
                                   .low = plain ? NULL : l->low_share[role],
                                   .high = plain ? NULL : l->high_share[role]};
}

static double sigmoid(double x)
{
    return 1 / (1 + pare_exp(-x));
}

/* The shares and scales that the learned values stand for. */
static void spell_out(learner *l)
{
    for (size_t s = 0; s < PARE_SITES; s++)
        for (size_t i = 0; i < l->theta[s].count; i++) {
            const float scale = (float)pare_exp((double)l->theta[s].value[i]);
            l->scale[s][i] = scale;
            l->diverged |= !isnormal(scale) || !isnormal(1 / scale);
        }
    for (size_t r = 0; r < PARE_ROLES; r++)
        for (size_t i = 0; i < l->low[r].count; i++) {
            l->low_share[r][i] = (float)sigmoid((double)l->low[r].value[i]);
            l->high_share[r][i] = (float)sigmoid((double)l->high[r].value[i]);
        }
}

/* folded and rounded, from the learned values or without them. */
static pare_status build(learner *l, bool plain)
{
    pare_block_load(l->cx, l->c, l->block->current, &l->folded);
    for (unsigned s = 0; !plain && s < PARE_SITES; s++)
        if (l->theta[s].count)
            PARE_TRY(pare_fold_scale(l->cx, l->c, &l->folded, (pare_site)s, l->scale[s]));
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_linear *const w = &l->block->current->linear[r];
        const pare_learned_rounding clip = rounding_of(l, r, plain);
        if (clip.grid)
            pare_learned_values(l->cx, &clip, l->folded.linear[r].floats,
                                l->loss.rounded.linear[r].floats);
        else if (w->n)
            memcpy(l->loss.rounded.linear[r].floats, l->folded.linear[r].floats,
                   w->n * w->k * sizeof(float));
    }
    return PARE_OK;
}

/* Adds columns' sums of w d. */
static void dot_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const loop *const a = arg;
    for (size_t chunk = begin; chunk < end; chunk++) {
        const size_t first = chunk * COLUMNS, left = a->k - first;
        const size_t count = left < COLUMNS ? left : COLUMNS;
        for (size_t i = 0; i < a->n; i++)
            for (size_t j = 0; j < count; j++)
                a->sum[first + j] +=
                    (double)a->w[i * a->k + first + j] * (double)a->d[i * a->k + first + j];
    }
}

static void subtract_dots(double *sum, const float *v, const float *d, size_t n, size_t k)
{
    for (size_t i = 0; v && i < n; i++) {
        double dot = 0;
        for (size_t j = 0; j < k; j++)
            dot += (double)v[i * k + j] * (double)d[i * k + j];
        sum[i] -= dot;
    }
}

/* Gradient of theta: sum over the columns that read a channel minus sum over what makes it. */
static pare_status scale_slope(learner *l, pare_site site)
{
    const pare_producer *const p = &l->c->arch->producer[site];
    const size_t k = pare_site_width(l->c, 0, site), channels = l->theta[site].count;
    double *const column = PARE_NEW(l->a, double, k), *const sum = PARE_NEW(l->a, double, channels);
    float *const number = PARE_NEW(l->a, float, channels), *const of = PARE_NEW(l->a, float, k);
    if (!column || !sum || !number || !of)
        return PARE_ENOMEM;
    for (size_t r = 0; r < PARE_ROLES; r++) {
        if (l->c->arch->linear[r].site != site)
            continue;
        loop a = {.w = l->folded.linear[r].floats,
                  .d = l->loss.slope.linear[r].floats,
                  .k = k,
                  .sum = column};
        a.n = l->block->current->linear[r].n;
        pare_parallel(l->cx, (k + COLUMNS - 1) / COLUMNS, 1, dot_columns, &a);
    }
    for (size_t i = 0; i < channels; i++)
        number[i] = (float)i; /* exact: channels are fewer than 2^24 */
    pare_fold_spread(l->c, site, number, of);
    for (size_t j = 0; j < k; j++)
        sum[(size_t)of[j]] += column[j];
    const int norm = pare_site_norm(l->c, site);
    if (norm >= 0) {
        subtract_dots(sum, l->folded.norm[norm], l->loss.slope.norm[norm], channels, 1);
        subtract_dots(sum, l->folded.norm_bias[norm], l->loss.slope.norm_bias[norm], channels, 1);
    } else {
        const size_t width = l->block->current->linear[p->role].k;
        subtract_dots(sum, l->folded.linear[p->role].floats, l->loss.slope.linear[p->role].floats,
                      channels, width);
        subtract_dots(sum, l->folded.linear[p->role].bias, l->loss.slope.linear[p->role].bias,
                      channels, 1);
    }
    for (size_t i = 0; i < channels; i++)
        l->theta[site].slope[i] = (float)sum[i];
    return PARE_OK;
}

static void adam(const learner *l, learned *v, double rate)
{
    for (size_t i = 0; i < v->count; i++) {
        const double g = (double)v->slope[i];
        v->first[i] = (float)(BETA1 * (double)v->first[i] + (1 - BETA1) * g);
        v->second[i] = (float)(BETA2 * (double)v->second[i] + (1 - BETA2) * g * g);
        const double m = (double)v->first[i] / (1 - l->rate1);
        const double s = (double)v->second[i] / (1 - l->rate2);
        const double kept = (double)v->value[i] * (1 - rate * l->opts->weight_decay);
        v->value[i] = (float)(kept - rate * m / (sqrt(s) + EPSILON));
    }
}

/* From the gradient of the rounded block to those of the learned values. */
static pare_status descend(learner *l)
{
    for (size_t r = 0; r < PARE_ROLES; r++) {
        const pare_learned_rounding clip = rounding_of(l, r, false);
        if (!clip.grid)
            continue;
        learned *const low = &l->low[r], *const high = &l->high[r];
        pare_learned_backward(l->cx, &clip, l->folded.linear[r].floats,
                              l->loss.slope.linear[r].floats, low->slope, high->slope);
        for (size_t i = 0; i < low->count; i++) {
            const float a = l->low_share[r][i], b = l->high_share[r][i];
            low->slope[i] *= a * (1 - a);
            high->slope[i] *= b * (1 - b);
        }
    }
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (l->theta[s].count)
            PARE_TRY(scale_slope(l, (pare_site)s));
    l->rate1 *= BETA1;
    l->rate2 *= BETA2;
    for (size_t s = 0; s < PARE_SITES; s++)
        adam(l, &l->theta[s], l->opts->scale_rate);
    for (size_t r = 0; l->opts->clip && r < PARE_ROLES; r++) {
        adam(l, &l->low[r], l->opts->clip_rate);
        adam(l, &l->high[r], l->opts->clip_rate);
    }
    spell_out(l);
    return PARE_OK;
}

static pare_status step(learner *l, size_t first)
{
    const size_t left = l->block->samples - first;
    const size_t count = left < l->opts->batch ? left : l->opts->batch;
    for (size_t i = 0; i < count; i++)
        l->batch[i] = first + i;
    PARE_TRY(build(l, false));
    PARE_TRY(pare_block_loss_slopes(&l->loss, l->batch, count));
    const pare_mark mark = pare_arena_mark(l->a);
    const pare_status s = descend(l);
    pare_arena_rewind(l->a, mark);
    return s;
}

static pare_status take_shares(learner *l, size_t r)
{
    const size_t count = groups_of(l, r);
    l->low_share[r] = PARE_NEW(l->a, float, count);
    l->high_share[r] = PARE_NEW(l->a, float, count);
    return l->low_share[r] && l->high_share[r] ? PARE_OK : PARE_ENOMEM;
}

/* What the caller will see, taken first. */
static pare_status take_found(learner *l)
{
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const size_t channels = pare_fold_channels(l->c, (pare_site)s);
        if (!channels || !(l->opts->scales & (1u << s)))
            continue;
        l->scale[s] = PARE_NEW(l->a, float, channels);
        if (!l->scale[s])
            return PARE_ENOMEM;
    }
    for (size_t r = 0; r < PARE_ROLES; r++)
        if (l->block->grid[r])
            PARE_TRY(take_shares(l, r));
    return PARE_OK;
}

static pare_status take_state(learner *l)
{
    PARE_TRY(pare_block_take(l->a, l->c, pare_block_biases(l->block->current), &l->folded));
    pare_block_load(l->cx, l->c, l->block->current, &l->folded);
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (l->scale[s])
            PARE_TRY(take_learned(l->a, pare_fold_channels(l->c, (pare_site)s), 0, &l->theta[s]));
    const float start = l->opts->clip ? (float)LOGIT : 87; /* sigmoid(87) is 1 in F32 */
    for (size_t r = 0; r < PARE_ROLES; r++)
        if (l->low_share[r]) {
            PARE_TRY(take_learned(l->a, groups_of(l, r), start, &l->low[r]));
            PARE_TRY(take_learned(l->a, groups_of(l, r), start, &l->high[r]));
        }
    l->batch = PARE_NEW(l->a, size_t, l->opts->batch);
    return l->batch ? PARE_OK : PARE_ENOMEM;
}

static pare_status measure(learner *l, bool plain, double *loss)
{
    PARE_TRY(build(l, plain));
    return pare_block_loss_measure(&l->loss, 0, l->block->samples, loss);
}

static pare_status learn(learner *l, pare_omniquant_found *found)
{
    PARE_TRY(take_state(l));
    const size_t batches = (l->block->samples + l->opts->batch - 1) / l->opts->batch;
    l->loss.total = batches * (l->opts->epochs + 2);
    PARE_TRY(pare_block_loss_take(&l->loss, l->a, &l->folded));
    spell_out(l);
    PARE_TRY(measure(l, true, &found->before));
    PARE_TRY(pare_block_loss_check(l->cx, found->before));
    for (size_t e = 0; e < l->opts->epochs; e++)
        for (size_t i = 0; i < l->block->samples && !l->diverged; i += l->opts->batch)
            PARE_TRY(step(l, i));
    found->after = INFINITY;
    return l->diverged ? PARE_OK : measure(l, false, &found->after);
}

pare_status pare_omniquant_learn(pare_ctx *cx, pare_arena *a, const pare_omniquant_opts *opts,
                                 const pare_block_data *block, pare_omniquant_found *found)
{
    assert(opts->batch > 0 && block->samples > 0 && block->window > 0);
    *found = (pare_omniquant_found){0};
    PARE_TRY(pare_block_data_check(cx, block, "omniquant"));
    learner l = {.cx = cx,
                 .a = a,
                 .opts = opts,
                 .block = block,
                 .c = block->config,
                 .loss = {.cx = cx,
                          .data = block,
                          .what = "learning ranges and scales",
                          .batch = opts->batch,
                          .room = {.cx = cx}},
                 .rate1 = 1,
                 .rate2 = 1};
    PARE_TRY(take_found(&l));
    const pare_mark mark = pare_arena_mark(a);
    const pare_status s = learn(&l, found);
    pare_block_loss_release(&l.loss);
    pare_arena_rewind(a, mark);
    PARE_TRY(s);
    found->kept = !(found->after < found->before); /* also what is not finite */
    if (found->kept) {
        found->after = found->before;
        return PARE_OK;
    }
    memcpy(found->scale, l.scale, sizeof found->scale);
    if (opts->clip) {
        memcpy(found->low, l.low_share, sizeof found->low);
        memcpy(found->high, l.high_share, sizeof found->high);
    }
    return PARE_OK;
}

size_t pare_omniquant_bytes(const pare_ctx *cx, const pare_config *c,
                            const pare_omniquant_opts *opts, size_t window)
{
    size_t bytes = pare_block_loss_bytes(cx, c, opts->batch, window), weights = 0,
           widest = c->hidden;
    for (unsigned r = 0; r < PARE_ROLES; r++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)r, &n, &k);
        weights += n * (k + 31) / 32; /* the smallest group */
        widest = k > widest ? k : widest;
    }
    /* shares, logits, moments and slopes of both bounds; scales; a block; a batch */
    const size_t vectors = 10 * weights + 48 * widest;
    if (__builtin_add_overflow(bytes, vectors * sizeof(float) + (size_t)256 * PARE_ALIGN, &bytes) ||
        __builtin_add_overflow(bytes, opts->batch * sizeof(size_t), &bytes) ||
        __builtin_add_overflow(bytes, pare_block_float_bytes(c), &bytes))
        return SIZE_MAX;
    return bytes;
}
