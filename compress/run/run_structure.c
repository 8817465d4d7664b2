/* Structured steps of a block: scores, what goes, and what stays in front of zeros. */
#include <string.h>

#include "compress/run/run_internal.h"
#include "compress/run/run_reap.h"
#include "prune/channels.h"
#include "prune/flap.h"
#include "prune/ziplm.h"
#include "quant/gptq.h"
#include "runtime/machine.h"

static const pare_step *step_at(const pare_run *run, size_t step)
{
    return &run->plan->recipe.step[step];
}

static pare_status gather(pare_run *run, pare_part p, pare_moments *m)
{
    const double start = pare_seconds();
    PARE_TRY(pare_moments_take(run->cx, &run->scratch, &run->model.config, pare_part_site(p), m));
    const pare_tap tap = pare_moments_tap(m);
    const pare_status s = pare_wave_run(run->cx, &run->scratch, &run->wave, &run->wave_forward,
                                        &run->current, &tap, "gathering statistics");
    run->calibration_seconds += pare_seconds() - start;
    return s;
}

/* What the linear that reads the units misses, over what it gave, as if inputs were independent. */
static pare_status measure(pare_run *run, const pare_structure *s, const uint8_t *keep, bool bias,
                           double *error)
{
    const pare_role role = pare_part_role(s->part);
    const size_t width = pare_part_width(s->config, s->part);
    size_t n, k;
    *error = -1.0;
    if (!s->moments)
        return PARE_OK;
    pare_linear_shape(s->config, 0, role, &n, &k);
    double *const square = PARE_NEW(&run->scratch, double, k);
    if (!square)
        return PARE_ENOMEM;
    pare_column_sums(run->cx, s->block->linear[role].floats, n, k, true, square);
    double gone = 0.0, all = 0.0;
    for (size_t j = 0; j < k; j++) {
        const double power = pare_moments_power(s->moments, j);
        all += power * square[j];
        if (!keep[j / width])
            gone += (bias ? pare_moments_variance(s->moments, j) : power) * square[j];
    }
    *error = all > 0 ? gone / all : 0.0;
    return PARE_OK;
}

static double lost_share(const double *score, const uint8_t *keep, size_t units)
{
    double gone = 0.0, all = 0.0;
    for (size_t i = 0; i < units; i++) {
        all += score[i];
        gone += keep[i] ? 0.0 : score[i];
    }
    return all > 0 ? gone / all : 0.0;
}

/* H of the input of down. */
static pare_status gather_hessian(pare_run *run, pare_stats *stats)
{
    static const unsigned kinds[PARE_SITES] = {[PARE_SITE_ACTIVATED] = PARE_STATS_HESSIAN};
    const double start = pare_seconds();
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->model.config, 0, kinds,
                             (uint64_t)run->settled.samples * run->plan->window, stats));
    const pare_tap tap = pare_stats_tap(stats);
    const pare_status s = pare_wave_run(run->cx, &run->scratch, &run->wave, &run->wave_forward,
                                        &run->current, &tap, "gathering statistics");
    run->calibration_seconds += pare_seconds() - start;
    return s;
}

/* ZipLM: the channels that stay make up for those that go. */
static pare_status cut_channels(pare_run *run, size_t step, size_t kept, pare_cut_result *out)
{
    const pare_config *const c = &run->model.config;
    float *const w = run->current.linear[PARE_ROLE_DOWN].floats;
    pare_stats stats;
    size_t n, k;
    pare_linear_shape(c, 0, PARE_ROLE_DOWN, &n, &k);
    uint8_t *const keep = PARE_NEW(&run->scratch, uint8_t, k);
    double *const lost = PARE_NEW(&run->scratch, double, k - kept + 1);
    if (!keep || !lost)
        return PARE_ENOMEM;
    PARE_TRY(gather_hessian(run, &stats));
    float *const h = stats.site[PARE_SITE_ACTIVATED].h;
    const double all = pare_gptq_error(run->cx, w, NULL, h, n, k);
    PARE_TRY(pare_ziplm_prune(run->cx, &run->scratch, w, h, n, k, kept, keep, lost));
    const double share = all > 0 ? lost[k - kept] / all : 0.0;
    *out = (pare_cut_result){.step = (unsigned)step,
                             .part = PARE_PART_CHANNELS,
                             .before = k,
                             .after = kept,
                             .lost = share,
                             .output_error = share};
    pare_structure_move(c, &run->current, PARE_PART_CHANNELS, keep);
    return PARE_OK;
}

static pare_status cut_part(pare_run *run, size_t block, size_t step, pare_part p, size_t kept,
                            pare_cut_result *out)
{
    const pare_pass *const pass = pare_passes[step_at(run, step)->pass];
    const pare_pass_structure what = pass->structure(step_at(run, step)->value);
    const pare_config *const c = &run->model.config;
    const size_t units = pare_part_units(c, p);
    pare_moments moments;
    double *const score = PARE_NEW(&run->scratch, double, units);
    uint8_t *const keep = PARE_NEW(&run->scratch, uint8_t, units);
    if (!score || !keep)
        return PARE_ENOMEM;
    if (what.moments)
        PARE_TRY(gather(run, p, &moments));
    const pare_structure s = {.config = c,
                              .block = &run->current,
                              .part = p,
                              .moments = what.moments ? &moments : NULL,
                              .seed = run->plan->recipe.seed,
                              .number = block};
    PARE_TRY(pass->score(run->cx, step_at(run, step)->value, &s, &run->scratch, score));
    PARE_TRY(pare_structure_choose(run->cx, &run->scratch, score, units, kept, keep));
    *out = (pare_cut_result){.step = (unsigned)step, .part = p, .before = units, .after = kept};
    out->lost = lost_share(score, keep, units);
    PARE_TRY(measure(run, &s, keep, what.bias, &out->output_error));
    if (what.bias)
        pare_flap_bias(&s, keep, run->current.linear[pare_part_role(p)].bias);
    pare_structure_move(c, &run->current, p, keep);
    return PARE_OK;
}

static pare_status cut_units(pare_run *run, size_t block, size_t step, pare_part p, size_t kept,
                             pare_cut_result *out)
{
    const pare_step *const s = step_at(run, step);
    if (p == PARE_PART_EXPERTS) {
        pare__reap_cut(run, block, out);
        return PARE_OK;
    }
    return pare_passes[s->pass]->structure(s->value).hessian
               ? cut_channels(run, step, kept, out)
               : cut_part(run, block, step, p, kept, out);
}

/* Units that a step leaves of a part; all, where another one takes them. */
static size_t kept_of(const pare_plan *plan, size_t block, size_t step, pare_part p)
{
    if (p == PARE_PART_HEADS)
        return plan->out.kv_heads;
    if (p == PARE_PART_EXPERTS) /* a dense block has none */
        return pare_block_arch(&plan->out, block)->experts ? plan->out.experts
                                                           : plan->model.config.experts;
    const bool all = plan->out.blocks < plan->model.config.blocks; /* depth: alike in all */
    return all                             ? plan->out.intermediate
           : plan->mlp_step[block] == step ? pare_config_mlp(&plan->out, block)
                                           : plan->model.config.intermediate;
}

pare_status pare__run_structure(pare_run *run, size_t block)
{
    const pare_plan *const plan = run->plan;
    pare_unit_result *const unit = &run->units.result[block];
    if (!plan->structured)
        return PARE_OK;
    if (run->slice.basis)
        PARE_TRY(pare_slicegpt_block(run->cx, &run->scratch, &run->model.config, &run->slice,
                                     &run->current));
    unit->cut = PARE_NEW(run->a, pare_cut_result, plan->recipe.steps * PARE_PARTS);
    if (!unit->cut)
        return PARE_ENOMEM;
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        const pare_pass *const pass = pare_passes[step_at(run, step)->pass];
        const pare_pass_structure what = pass->structure(step_at(run, step)->value);
        for (pare_part p = PARE_PART_HEADS; p < PARE_PARTS; p++) {
            if (what.share[p] <= 0)
                continue;
            const size_t kept = kept_of(plan, block, step, p);
            if (kept == pare_part_units(&run->model.config, p))
                continue;
            const pare_mark mark = pare_arena_mark(&run->scratch);
            pare_cut_result *const cut = &unit->cut[unit->cuts++];
            const pare_status s = cut_units(run, block, step, p, kept, cut);
            pare_arena_rewind(&run->scratch, mark);
            if (s != PARE_OK)
                return pare_fail_context(run->cx, s, "%s: %s of block %zu", pass->name,
                                         pare_part_name(p), block);
        }
    }
    return PARE_OK;
}
