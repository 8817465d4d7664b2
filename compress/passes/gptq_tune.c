#include "compress/passes/gptq_tune.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/artifact/result.h"
#include "compress/passes/quantize.h"
#include "quant/gptq.h"
#include "recipes/param.h"

enum { RUNS = 6 }; /* 5 trials, and the best once more */

typedef struct trial {
    pare_ctx *cx;
    const pare_gptq_tuned *how;
    const pare_pass_linear *linear;
    pare_arena *scratch;
    pare_site_stats stats; /* h: without the tokens held out */
    double error[2];       /* of the settings given, and the least so far */
    double best[PARE_PARAMS_MAX];
} trial;

/* The error of settings on what is held out; NAN where H has no factor with them. */
static pare_status judge(trial *t, const double *value, double *error)
{
    const pare_pass_linear *const l = t->linear;
    const size_t count = l->n * l->k;
    pare_codes codes = {0};
    pare_linear_result result = {0};
    pare_pass_linear linear = *l;
    float *const q = PARE_NEW(t->scratch, float, count);
    linear.w = q ? PARE_NEW(t->scratch, float, count) : NULL;
    linear.stats = &t->stats;
    linear.h = t->stats.h;
    linear.codes = &codes;
    linear.result = &result;
    if (!linear.w)
        return PARE_ENOMEM;
    memcpy(linear.w, l->w, count * sizeof *q);
    linear.outputs = NULL; /* which held-out windows had a part in, and `error` knows nothing of */
    pare_status s = t->how->site(t->cx, value, &t->stats, t->scratch, &linear.site_state);
    s = s == PARE_OK ? t->how->run(t->cx, value, &linear, t->scratch) : s;
    if (s == PARE_ENUMERIC) { /* these settings do not do */
        pare_ctx_clear(t->cx);
        *error = (double)NAN;
        return PARE_OK;
    }
    PARE_TRY(s);
    const pare_grid grid = t->how->grid(value);
    pare_codes_values(&grid, &codes, q);
    *error =
        result.fallback ? (double)NAN : pare_gptq_error(t->cx, l->w, q, l->stats->held, l->n, l->k);
    return PARE_OK;
}

/* Settings with one of them changed become the best if they are. */
static pare_status try_with(trial *t, size_t param, double changed)
{
    double value[PARE_PARAMS_MAX], error;
    memcpy(value, t->best, sizeof value);
    value[param] = changed;
    const pare_mark mark = pare_arena_mark(t->scratch);
    const pare_status s = judge(t, value, &error);
    pare_arena_rewind(t->scratch, mark);
    if (s == PARE_OK && error < t->error[1]) {
        t->error[1] = error;
        memcpy(t->best, value, sizeof value);
    }
    return s;
}

static pare_status try_all(trial *t)
{
    const pare_mark mark = pare_arena_mark(t->scratch);
    const pare_status s = judge(t, t->best, &t->error[0]);
    pare_arena_rewind(t->scratch, mark);
    PARE_TRY(s);
    t->error[0] = isnan(t->error[0]) ? (double)INFINITY : t->error[0];
    t->error[1] = t->error[0];
    PARE_TRY(try_with(t, t->how->act_order, t->best[t->how->act_order] == 0.0));
    PARE_TRY(try_with(t, PARE_QUANTIZE_CLIP,
                      t->best[PARE_QUANTIZE_CLIP] == (double)PARE_CLIP_WEIGHTED
                          ? (double)PARE_CLIP_MSE
                          : (double)PARE_CLIP_WEIGHTED));
    const double damp = t->best[t->how->damp];
    PARE_TRY(try_with(t, t->how->damp, damp < 0.1 ? damp * 10 : 1.0));
    return try_with(t, t->how->damp, damp / 10);
}

/* H of the tokens that are not held out. */
static float *without_held(pare_arena *scratch, const pare_site_stats *stats)
{
    const size_t k = stats->k;
    float *const h = PARE_NEW(scratch, float, k *k);
    for (size_t i = 0; h && i < k; i++)
        for (size_t j = 0; j <= i; j++) {
            const float rest = stats->h[i * k + j] - stats->held[i * k + j];
            h[i * k + j] = i == j && rest < 0 ? 0 : rest;
        }
    return h;
}

static void note(const trial *t, pare_pass_linear *linear)
{
    static const char *const clips[] = {"none", "mse", "weighted"};
    pare_quantize_note(linear, "act_order %s, clip %s, damp %g; held out %.2f",
                       t->best[t->how->act_order] != 0.0 ? "true" : "false",
                       clips[(size_t)t->best[PARE_QUANTIZE_CLIP]], t->best[t->how->damp],
                       t->error[0] > 0 && isfinite(t->error[1]) ? t->error[1] / t->error[0] : 1);
}

pare_status pare_gptq_tune(pare_ctx *cx, const pare_gptq_tuned *how, const double *value,
                           pare_pass_linear *linear, pare_arena *scratch)
{
    trial t = {.cx = cx, .how = how, .linear = linear, .scratch = scratch, .stats = *linear->stats};
    memcpy(t.best, value, how->params * sizeof *value);
    const pare_mark mark = pare_arena_mark(scratch);
    t.stats.h = without_held(scratch, linear->stats);
    const pare_status s = t.stats.h ? try_all(&t) : PARE_ENOMEM;
    pare_arena_rewind(scratch, mark);
    PARE_TRY(s);
    PARE_TRY(how->site(cx, t.best, linear->stats, scratch, &linear->site_state));
    note(&t, linear);
    return how->run(cx, t.best, linear, scratch);
}

pare_pass_cost pare_gptq_tune_cost(const pare_pass_cost *once, size_t n, size_t k)
{
    pare_pass_cost cost = *once;
    const double factors = RUNS * once->site_flops;
    cost.flops =
        RUNS * once->flops + factors + 2.0 * (RUNS - 1) * (double)n * (double)k * (double)k;
    cost.rounds = RUNS * once->rounds;
    cost.linear_bytes += once->start_bytes + k * k * sizeof(float) + 2 * n * k * sizeof(float) +
                         n * k + n * 64 + (size_t)16 * PARE_ALIGN;
    return cost;
}
