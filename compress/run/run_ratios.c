/* How much of each linear goes, by the rules of the steps, and how many of its columns are kept
 * apart: the float model runs once over the calibration, before the first block is compressed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/passes/prune.h"
#include "compress/run/run_internal.h"
#include "prune/isc.h"
#include "prune/owl.h"
#include "prune/ratio_search.h"
#include "quant/gptq.h"

/* True for a linear that `step` prunes by its rule. */
static bool follows(const pare_plan *plan, const pare_plan_linear *l, size_t step)
{
    return l->pruned && l->prune_step == step &&
           pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM;
}

static const pare_site_stats *stats_of(const pare_run *run, const pare_stats *stats,
                                       const pare_plan_linear *l)
{
    return &stats->site[pare_plan_site(run->plan, l)];
}

/* What the float model told of each linear of the plan. */
typedef struct measured {
    pare_run *run;
    pare_ratio *ratio;
    pare_ratio_curve *curve; /* errors; of steps that search */
    size_t *columns;
} measured;

/* Outliers of what `step` prunes in a block, all its linears together. */
static pare_status measure_owl(const measured *k, size_t block, size_t step,
                               const pare_stats *stats)
{
    pare_run *const run = k->run;
    const pare_plan *const plan = run->plan;
    pare_owl_matrix m[PARE_ROLES];
    size_t count = 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (l->block != block || !follows(plan, l, step))
            continue;
        const float *const h = stats_of(run, stats, l)->h;
        float *const squares = PARE_NEW(&run->scratch, float, l->packed.k);
        if (!squares)
            return PARE_ENOMEM;
        for (size_t j = 0; j < l->packed.k; j++)
            squares[j] = h[j * l->packed.k + j];
        m[count++] = (pare_owl_matrix){run->current.linear[l->role].floats, squares, l->packed.n,
                                       l->packed.k};
    }
    double share = 0;
    if (count)
        PARE_TRY(pare_owl_share(run->cx, &run->scratch, m, count,
                                pare_plan_ratios(plan, step).outlier, &share));
    for (size_t i = 0; i < plan->linears; i++)
        if (run->settled.linear[i].block == block && follows(plan, &run->settled.linear[i], step))
            k->ratio[i].importance = share;
    return PARE_OK;
}

/* How sensitive the outputs of what `step` prunes in a block are, each linear for itself. */
static pare_status measure_isc(const measured *k, size_t block, size_t step,
                               const pare_stats *stats)
{
    const pare_run *const run = k->run;
    const pare_plan *const plan = run->plan;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (l->block != block || !follows(plan, l, step))
            continue;
        const pare_status s = pare_isc_sensitivity(run->cx, stats_of(run, stats, l)->h, l->packed.k,
                                                   &k->ratio[i].importance);
        if (s != PARE_OK)
            return pare_fail_context(run->cx, s, "%s", l->packed.name);
    }
    return PARE_OK;
}

/* Prunes a copy of the weights at one ratio: by the step itself, or, where that needs a factor of
 * the Hessian, by the scores of Wanda. */
static pare_status try_ratio(pare_run *run, const pare_plan_linear *l, const pare_site_stats *stats,
                             double ratio, float *w)
{
    const size_t n = l->packed.n, k = l->packed.k;
    const pare_step *const step = &run->plan->recipe.step[l->prune_step];
    const pare_pass *const pass = pare_passes[step->pass];
    pare_sparsity s = l->sparsity;
    pare_linear_result unused = {0};
    s.ratio = ratio;
    pare_pass_linear linear = {.w = w,
                               .n = n,
                               .k = k,
                               .role = l->role,
                               .stats = stats,
                               .h = stats->h,
                               .sparsity = &s,
                               .result = &unused};
    memcpy(w, run->current.linear[l->role].floats, n * k * sizeof *w);
    return pass->site ? pare_prune_without_factor(run->cx, &linear, &run->scratch)
                      : pass->pruner->prune(run->cx, step->value, &linear, &run->scratch);
}

/* Sum of squares of the stream that enters the block. */
static pare_status stream_energy(pare_run *run, double *out)
{
    const pare_wave *const wave = &run->wave;
    const size_t count = wave->window * wave->hidden;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const x = PARE_NEW(&run->scratch, float, count);
    if (!x)
        return PARE_ENOMEM;
    *out = 0;
    for (size_t i = 0; i < wave->samples; i++) {
        double sum = 0;
        PARE_TRY(pare_wave_window(run->cx, wave, i, x));
        for (size_t j = 0; j < count; j++)
            sum += (double)x[j] * (double)x[j];
        *out += sum;
    }
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

/* What a relative error of a linear costs: it goes into what its half of the block, attention or
 * MLP, adds to the stream, and all blocks from this one on see it there:
 *
 *   weight = |what the half adds|^2 / |stream|^2 (blocks - block)
 *
 * A half that loses nothing has no statistics, and needs no weight. */
static pare_status half_weights(const measured *k, size_t block, const pare_stats *stats,
                                double weight[2])
{
    static const pare_role last[2] = {PARE_ROLE_O, PARE_ROLE_DOWN};
    pare_run *const run = k->run;
    const pare_config *const c = &run->shape;
    double stream;
    PARE_TRY(stream_energy(run, &stream));
    for (size_t i = 0; i < 2; i++) {
        const float *const h = stats->site[c->arch->linear[last[i]].site].h;
        weight[i] = 0;
        if (!h)
            continue;
        size_t n, width;
        pare_linear_shape(c, 0, last[i], &n, &width);
        const double added =
            pare_gptq_error(run->cx, run->current.linear[last[i]].floats, NULL, h, n, width);
        weight[i] = stream > 0 ? added / stream * (double)(c->blocks - block) : 0;
    }
    return PARE_OK;
}

/* What an error of one linear's output costs, at some ratios. */
static pare_status measure_curve(pare_run *run, const pare_plan_linear *l,
                                 const pare_site_stats *stats, double weight,
                                 pare_ratio_curve *curve)
{
    const size_t n = l->packed.n, k = l->packed.k;
    const float *const whole = run->current.linear[l->role].floats;
    float *const w = PARE_NEW(&run->scratch, float, n *k);
    if (!w)
        return PARE_ENOMEM;
    const double all = pare_gptq_error(run->cx, whole, NULL, stats->h, n, k);
    const double spread = pare_plan_ratios(run->plan, l->prune_step).spread;
    for (size_t p = 0; p < PARE_RATIO_POINTS; p++) {
        PARE_TRY(try_ratio(run, l, stats, pare_ratio_point(p, l->sparsity.ratio, spread), w));
        const double error = pare_gptq_error(run->cx, whole, w, stats->h, n, k);
        curve->error[p] = all > 0 ? weight * error / all : 0;
    }
    return PARE_OK;
}

static pare_status measure_errors(const measured *k, size_t block, size_t step,
                                  const pare_stats *stats)
{
    pare_run *const run = k->run;
    double weight[2];
    PARE_TRY(half_weights(k, block, stats, weight));
    for (size_t i = 0; i < run->plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (l->block != block || !follows(run->plan, l, step))
            continue;
        const pare_site site = run->model.config.arch->linear[l->role].site;
        const bool mlp = site == PARE_SITE_MLP || site == PARE_SITE_ACTIVATED;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s =
            measure_curve(run, l, stats_of(run, stats, l), weight[mlp], &k->curve[i]);
        pare_arena_rewind(&run->scratch, mark);
        if (s != PARE_OK)
            return pare_fail_context(run->cx, s, "%s", l->packed.name);
    }
    return PARE_OK;
}

/* What the rules want to know of what every token runs of a block of the float model. */
static pare_status measure_part(const measured *k, size_t block)
{
    pare_run *const run = k->run;
    const pare_plan *const plan = run->plan;
    pare_stats stats;
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->shape, 0, plan->kinds,
                             (uint64_t)run->settled.samples * plan->window, &stats));
    const pare_tap tap = pare_stats_tap(&stats);
    PARE_TRY(pare__kept_begin(run, block));
    if (plan->kept.used)
        PARE_TRY(pare_stats_group_fill(&run->kept.group, &stats));
    else if (stats.active)
        PARE_TRY(pare__run_wave(run, &tap, "looking at the float model"));
    pare__kept_end(run);
    for (size_t step = 0; step < plan->recipe.steps; step++)
        switch (pare_plan_ratios(plan, step).rule) {
        case PARE_RATIOS_UNIFORM: break;
        case PARE_RATIOS_OWL: PARE_TRY(measure_owl(k, block, step, &stats)); break;
        case PARE_RATIOS_ISC: PARE_TRY(measure_isc(k, block, step, &stats)); break;
        case PARE_RATIOS_SEARCH: PARE_TRY(measure_errors(k, block, step, &stats)); break;
        }
    pare__run_count_columns(run, block, 0, &stats, k->columns);
    return PARE_OK;
}

/* A block of the float model; then the wave moves on. */
static pare_status measure_block(const measured *k, size_t block)
{
    pare_run *const run = k->run;
    PARE_TRY(pare__run_load(run, block));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    PARE_TRY(measure_part(k, block));
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(pare__run_expert_columns(run, block, k->columns));
    return block + 1 < run->model.config.blocks && run->walk.calibrated
               ? pare__run_wave(run, NULL, "carrying activations of the float model")
               : PARE_OK;
}

static void tell_ratios(pare_run *run, size_t step, const pare_ratio *own, size_t count)
{
    double least = 1, most = 0;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, own[i].ratio);
        most = fmax(most, own[i].ratio);
    }
    pare__notify(run, PARE_EVENT_NOTICE, "%s: linears lose %.1f%% to %.1f%% of their weights",
                 pare_passes[run->plan->recipe.step[step].pass]->name, 100 * least, 100 * most);
}

/* Shares out what one step takes. */
static pare_status share_step(const measured *k, size_t step, double *ratio)
{
    pare_run *const run = k->run;
    const pare_plan *const plan = run->plan;
    const pare_pass_ratios rule = pare_plan_ratios(plan, step);
    pare_ratio *const own = PARE_NEW(&run->scratch, pare_ratio, plan->linears);
    pare_ratio_curve *const curve = PARE_NEW(&run->scratch, pare_ratio_curve, plan->linears);
    size_t count = 0;
    double target = 0;
    if (!own || !curve)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++) {
        if (!follows(plan, &run->settled.linear[i], step))
            continue;
        target = run->settled.linear[i].sparsity.ratio;
        curve[count] = k->curve[i];
        own[count++] = k->ratio[i];
    }
    if (rule.rule == PARE_RATIOS_ISC)
        PARE_TRY(pare_isc_rank(&run->scratch, own, count));
    if (rule.rule == PARE_RATIOS_SEARCH)
        PARE_TRY(pare_ratios_search(&run->scratch, own, count, curve, target, rule.spread));
    else
        pare_ratios_spread(own, count, target, rule.spread);
    pare_ratios_settle(own, count);
    tell_ratios(run, step, own, count);
    for (size_t i = plan->linears; i-- > 0;)
        if (follows(plan, &run->settled.linear[i], step))
            ratio[i] = own[--count].ratio;
    return PARE_OK;
}

static pare_status find_ratios(pare_run *run, const pare_plan_found *found)
{
    const pare_plan *const plan = run->plan;
    const measured k = {run, PARE_NEW(&run->scratch, pare_ratio, plan->linears),
                        PARE_NEW(&run->scratch, pare_ratio_curve, plan->linears), found->columns};
    if (!k.ratio || !k.curve)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        k.ratio[i] = (pare_ratio){.n = l->packed.n, .k = l->packed.k, .by_row = l->sparsity.by_row};
    }
    for (size_t block = 0; block < run->model.config.blocks; block++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = measure_block(&k, block);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        PARE_TRY(pare_ctx_interrupted(run->cx));
    }
    for (size_t step = 0; step < plan->recipe.steps; step++)
        if (pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM)
            PARE_TRY(share_step(&k, step, found->ratio));
    return PARE_OK;
}

pare_status pare__run_ratios(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_plan_found found = {PARE_NEW(&run->scratch, double, run->plan->linears),
                                   PARE_NEW(&run->scratch, size_t, run->plan->linears)};
    pare_status s = found.ratio && found.columns ? find_ratios(run, &found) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_plan_settle(run->cx, run->a, run->plan, &found, &run->settled);
    if (s == PARE_OK)
        pare__run_tell_columns(run);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
