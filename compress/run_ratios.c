/* How much of each linear goes, by the rules of the steps: the float model runs once over the
 * calibration, before the first block is compressed. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/compress_internal.h"
#include "prune/owl.h"
#include "prune/ratios.h"

/* True for a linear that `step` prunes by its rule. */
static bool follows(const pare_plan *plan, const pare_plan_linear *l, size_t step)
{
    return l->pruned && l->prune_step == step &&
           pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM;
}

static const pare_site_stats *stats_of(const pare_run *run, const pare_stats *stats,
                                       const pare_plan_linear *l)
{
    return &stats->site[run->plan.model.config.arch->linear[l->role].site];
}

/* Outliers of what `step` prunes in a block, all its linears together. */
static pare_status see_owl(pare_run *run, size_t block, size_t step, const pare_stats *stats,
                           pare_ratio *ratio)
{
    const pare_plan *const plan = &run->plan;
    pare_owl_matrix m[PARE_ROLES];
    size_t count = 0;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        if (l->block != block || !follows(plan, l, step))
            continue;
        const float *const h = stats_of(run, stats, l)->h;
        float *const squares = PARE_NEW(&run->scratch, float, l->packed.k);
        if (!squares)
            return PARE_ENOMEM;
        for (size_t j = 0; j < l->packed.k; j++)
            squares[j] = h[j * l->packed.k + j];
        m[count++] =
            (pare_owl_matrix){run->current.weight[l->role], squares, l->packed.n, l->packed.k};
    }
    if (!count)
        return PARE_OK;
    double share;
    PARE_TRY(pare_owl_share(run->cx, &run->scratch, m, count, pare_plan_ratios(plan, step).outlier,
                            &share));
    for (size_t i = 0; i < plan->linears; i++)
        if (plan->linear[i].block == block && follows(plan, &plan->linear[i], step))
            ratio[i].importance = share;
    return PARE_OK;
}

/* What the rules want to know of a block of the float model; then the wave moves on. */
static pare_status see_block(pare_run *run, size_t block, pare_ratio *ratio)
{
    const pare_plan *const plan = &run->plan;
    pare_stats stats;
    PARE_TRY(pare__run_load(run, block));
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, &plan->model.config, plan->kinds,
                             (uint64_t)plan->samples * plan->window, &stats));
    const pare_tap tap = pare_stats_tap(&stats);
    PARE_TRY(pare__run_wave(run, &tap, "looking at the float model"));
    for (size_t step = 0; step < plan->recipe.steps; step++)
        if (pare_plan_ratios(plan, step).rule == PARE_RATIOS_OWL)
            PARE_TRY(see_owl(run, block, step, &stats, ratio));
    return block + 1 < plan->model.config.blocks
               ? pare__run_wave(run, NULL, "carrying activations of the float model")
               : PARE_OK;
}

/* Shares out what one step takes. */
static pare_status share_step(pare_run *run, size_t step, const pare_ratio *seen, double *ratio)
{
    const pare_plan *const plan = &run->plan;
    const pare_pass_ratios rule = pare_plan_ratios(plan, step);
    pare_ratio *const own = PARE_NEW(&run->scratch, pare_ratio, plan->linears);
    size_t count = 0;
    double target = 0, least = 1, most = 0;
    if (!own)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++) {
        if (!follows(plan, &plan->linear[i], step))
            continue;
        target = plan->linear[i].sparsity.ratio;
        own[count++] = seen[i];
    }
    if (!count)
        return PARE_OK;
    pare_ratios_spread(own, count, target, rule.spread);
    pare_ratios_settle(own, count);
    for (size_t i = plan->linears; i-- > 0;)
        if (follows(plan, &plan->linear[i], step)) {
            ratio[i] = own[--count].ratio;
            least = fmin(least, ratio[i]);
            most = fmax(most, ratio[i]);
        }
    pare__notify(run, PARE_EVENT_NOTICE, "%s: linears lose %.1f%% to %.1f%% of their weights",
                 pare_passes[plan->recipe.step[step].pass]->name, 100 * least, 100 * most);
    return PARE_OK;
}

static pare_status find_ratios(pare_run *run, double *ratio)
{
    const pare_plan *const plan = &run->plan;
    pare_ratio *const seen = PARE_NEW(&run->scratch, pare_ratio, plan->linears);
    if (!seen)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        seen[i] = (pare_ratio){.n = l->packed.n, .k = l->packed.k, .by_row = l->sparsity.by_row};
    }
    for (size_t block = 0; block < plan->model.config.blocks; block++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = see_block(run, block, seen);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        PARE_TRY(pare_ctx_interrupted(run->cx));
    }
    for (size_t step = 0; step < plan->recipe.steps; step++)
        if (pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM)
            PARE_TRY(share_step(run, step, seen, ratio));
    return PARE_OK;
}

pare_status pare__run_ratios(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    double *const ratio = PARE_NEW(&run->scratch, double, run->plan.linears);
    pare_status s = ratio ? find_ratios(run, ratio) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_plan_settle(run->cx, run->a, &run->plan, ratio);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
