/* The embeddings and the head, where the recipe quantizes them: whole, behind the blocks. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_outside.h"
#include "quant/matrix_error.h"
#include "runtime/block_ops.h"
#include "runtime/linear.h"
#include "runtime/machine.h"

/* The site of run->head: as wide as what the head reads. */
#define SITE PARE_SITE_ATTENTION

/* --- what the head reads ------------------------------------------------------------------------
 */

/* Outputs of the last block, through the last norm, to the statistics. */
static pare_status see(void *self, float *x, size_t rows)
{
    pare_run *const run = self;
    const pare_model *const m = &run->model;
    const pare_ops o = {.op = pare_cpu.op, .cx = run->cx, .scratch = &run->scratch};
    const pare_norm_of last = {m->config.arch->norm_kind, m->norm, m->norm_bias, 1,
                               m->config.norm_eps};
    const pare_array y = {.at = x, .rows = rows, .width = m->config.hidden};
    const pare_tap tap = pare_stats_tap(&run->head);
    PARE_TRY(pare_ctx_interrupted(run->cx));
    PARE_TRY(o.op->norm(&o, &last, y, y));
    return tap.see(tap.self, 0, SITE, x, rows, y.width);
}

pare_status pare__run_head_inputs(pare_run *run)
{
    static const unsigned kinds[PARE_SITES] = {[SITE] = PARE_STATS_HESSIAN};
    const pare_plan *const plan = run->plan;
    if (!pare_plan_looks_at_head(plan) || run->units.found > plan->out.blocks)
        return PARE_OK;
    const double start = pare_seconds();
    pare_ctx_progress(run->cx, "gathering statistics of the head", 0, 1);
    PARE_TRY(pare_stats_take(run->cx, run->a, &plan->model.config, 0, kinds,
                             (uint64_t)run->settled.samples * plan->window, &run->head));
    PARE_TRY(pare_wave_change(run->cx, &run->scratch, &run->wave, see, run));
    run->calibration_seconds += pare_seconds() - start;
    return pare_stats_support(&run->scratch, &run->head, 1u << SITE);
}

/* --- codes -------------------------------------------------------------------------------------
 */

static const pare_linear *source_of(const pare_run *run, const pare_plan_table *t)
{
    return t->which == PARE_TABLE_HEAD ? &run->source.head : &run->source.embed;
}

/* Statistics for a step that goes by them, or NULL; where they say too little, its plain form. */
static const pare_site_stats *stats_for(pare_run *run, const pare_plan_table *t,
                                        pare_linear_result *r)
{
    pare_site_stats *const stats = &run->head.site[SITE];
    if (!t->inputs)
        return NULL;
    r->support = stats->support;
    r->thin = !pare_need_is_met(run->plan, &run->settled, t->step, stats);
    if (r->thin && !stats->identity) {
        const pare_need need =
            pare_need_of(t->step, stats->k, stats->support.columns, run->model.config.vocab);
        pare_stats_identity_hessian(stats);
        pare__notify(
            run, PARE_EVENT_NOTICE,
            "warning: calibration: too little for %s: it got %llu tokens (%llu new) and rank %zu, "
            "where %s needs %llu new tokens and rank %zu: it gets its plain form; give more text "
            "or samples",
            t->packed.name, (unsigned long long)r->support.tokens,
            (unsigned long long)pare_need_fresh(run->plan, &run->settled, r->support.tokens),
            r->support.rank, pare_passes[t->step->pass]->name, (unsigned long long)need.tokens,
            need.rank);
    }
    return stats;
}

static pare_status pack(pare_run *run, const pare_plan_table *t, const pare_site_stats *stats,
                        float *w, pare_codes *codes, pare_packed_planes *planes,
                        pare_linear_result *r)
{
    const pare_pass *const pass = pare_passes[t->step->pass];
    pare_pass_linear linear = {.w = w,
                               .n = t->packed.n,
                               .k = t->packed.k,
                               .role = PARE_ROLES,
                               .stats = stats,
                               .h = stats ? stats->h : NULL,
                               .codes = codes,
                               .result = r};
    pare_status s = PARE_OK;
    if (stats && pass->site)
        s = pass->site(run->cx, t->step->value, stats, &run->scratch, &linear.site_state);
    if (s == PARE_OK)
        s = pare_pass_run(run->cx, pass, t->step->value, &linear, &run->scratch);
    if (s == PARE_OK)
        s = pare_packed_pack(run->cx, &run->scratch, &t->packed, codes, planes);
    if (s != PARE_OK)
        return pare_fail_context(run->cx, s, "%s", t->packed.name);
    (void)snprintf(r->step[0].note, PARE_NOTE, "%s", linear.note);
    return PARE_OK;
}

static pare_status quantize(pare_run *run, const pare_plan_table *t, pare_linear_result *r)
{
    const double start = pare_seconds();
    const size_t n = t->packed.n, k = t->packed.k;
    const char *const pass = pare_passes[t->step->pass]->name;
    float *const w = pare_arena_take_raw(&run->scratch, n * k, sizeof *w);
    float *const q = pare_arena_take_raw(&run->scratch, n * k, sizeof *q);
    pare_codes codes = {0};
    pare_packed_planes planes;
    pare_linear view;
    double error[2];
    if (!w || !q)
        return PARE_ENOMEM;
    *r = (pare_linear_result){
        .linear = t->packed, .block = run->plan->out.blocks, .tokens = -1, .method = pass};
    pare_ctx_progress(run->cx, "quantizing embeddings and head", 0, 1);
    const pare_site_stats *const stats = stats_for(run, t, r);
    const float *const h = stats && !stats->identity ? stats->h : NULL;
    pare_linear_to_f32(run->cx, source_of(run, t), w);
    PARE_TRY(pack(run, t, stats, w, &codes, &planes, r));
    PARE_TRY(pare_packed_view(run->cx, &run->scratch, &t->packed, planes.plane, &view));
    pare_linear_to_f32(run->cx, &view, q);
    pare_linear_to_f32(run->cx, source_of(run, t), w); /* the pass may have changed it */
    PARE_TRY(pare__run_coarse(run, &t->packed, &codes, w, q, h, r));
    pare_matrix_errors(run->cx, w, q, w, h, n, k, error);
    PARE_TRY(pare__run_planes_put(run, &planes, t->packed.name, r->hash));
    r->weight_error = r->step[0].weight_error = error[0];
    r->output_error = r->step[0].output_error = error[1];
    r->zeros = 1 - (double)pare__run_nonzero(q, n * k) / ((double)n * (double)k);
    r->step[0].step = (unsigned)run->plan->recipe.steps;
    r->step[0].pass = pass;
    r->steps = 1;
    r->bits_per_weight = 8.0 * (double)planes.bytes.total / ((double)n * (double)k);
    r->seconds = pare_seconds() - start;
    return PARE_OK;
}

pare_status pare__run_tables(pare_run *run, pare_unit_result *unit)
{
    const pare_plan_tables *const tables = &run->plan->tables;
    if (run->units.found > run->plan->out.blocks)
        return PARE_OK;
    unit->rows = 0;
    unit->row = PARE_NEW(run->a, pare_linear_result, tables->count);
    if (!unit->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < tables->count; i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = quantize(run, &tables->of[i], &unit->row[i]);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
        unit->rows++;
    }
    return PARE_OK;
}

/* What the plan knows is not taken from the journal. */
static pare_status check_table(pare_run *run, const pare_plan_table *t, pare_linear_result *r)
{
    if (strcmp(r->linear.name, t->packed.name) != 0)
        return pare_fail(run->cx, PARE_EFORMAT, "%s: the journal does not name %s",
                         run->plan->place.partial, t->packed.name);
    r->linear = t->packed;
    r->block = run->plan->out.blocks;
    r->part = 0;
    r->method = pare_passes[t->step->pass]->name;
    return pare__run_planes_check(run, &t->packed, r);
}

pare_status pare__run_check_tables(pare_run *run)
{
    const pare_plan_tables *const tables = &run->plan->tables;
    const size_t blocks = run->plan->out.blocks;
    pare_unit_result *const unit = &run->units.result[blocks];
    pare_status s = PARE_OK;
    if (run->units.found <= blocks)
        return PARE_OK;
    if (unit->rows != tables->count)
        s = pare_fail(run->cx, PARE_EFORMAT, "%s: the journal names %zu of %zu tables",
                      run->plan->place.partial, unit->rows, tables->count);
    for (size_t i = 0; s == PARE_OK && i < tables->count; i++)
        s = check_table(run, &tables->of[i], &unit->row[i]);
    if (s == PARE_OK)
        s = pare__outside_check(run, unit);
    return s == PARE_EFORMAT ? pare__run_forget(run, &run->units, blocks) : s;
}
