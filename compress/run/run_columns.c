/* Columns of inputs that quantizers keep apart because the float model shows them loud. */
#include "compress/run/run_internal.h"

void pare__run_count_columns(const pare_run *run, size_t block, size_t part,
                             const pare_stats *stats, size_t *columns)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    for (pare_plan_range(plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const pare_pass *const pass = pare_plan_chooses_columns(plan, l);
        const pare_site_stats *const site = &stats->site[pare_plan_site(plan, l)];
        if (pass)
            columns[i] = pass->columns(plan->recipe.step[l->step].value, site->absmax, site->k);
    }
}

/* As many experts as share a pass of the wave later on. */
static pare_status measure_experts(pare_run *run, size_t block, size_t first, size_t count,
                                   const unsigned kinds[PARE_SITES], size_t *columns)
{
    const pare_plan *const plan = run->plan;
    pare_stats_parts parts = {PARE_NEW(&run->scratch, pare_stats, count), first + 1, count};
    if (!parts.of)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->model.config, first + i + 1, kinds,
                                 (uint64_t)run->settled.samples * plan->window, &parts.of[i]));
    const pare_tap tap = pare_stats_tap_parts(&parts);
    PARE_TRY(pare__run_wave(run, &tap, "looking at experts of the float model"));
    for (size_t i = 0; i < count; i++)
        pare__run_count_columns(run, block, first + i + 1, &parts.of[i], columns);
    return PARE_OK;
}

pare_status pare__run_expert_columns(pare_run *run, size_t block, size_t *columns)
{
    const pare_plan *const plan = run->plan;
    const size_t experts = run->model.config.experts;
    unsigned kinds[PARE_SITES], any = 0;
    for (size_t s = 0; s < PARE_SITES; s++)
        any |= kinds[s] = plan->expert_kinds[s] & PARE_STATS_CHANNELS;
    for (size_t first = 0; any && first < experts; first += run->settled.memory.chunk) {
        const size_t left = experts - first;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = measure_experts(
            run, block, first, left < run->settled.memory.chunk ? left : run->settled.memory.chunk,
            kinds, columns);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

void pare__run_tell_columns(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        size_t linears = 0, with = 0, columns = 0;
        for (size_t i = 0; i < plan->linears; i++) {
            const pare_plan_linear *const l = &run->settled.linear[i];
            if (l->step != step || !pare_plan_chooses_columns(plan, l))
                continue;
            linears++;
            with += l->packed.outliers > 0;
            columns += l->packed.outliers;
        }
        if (linears)
            pare__notify(run, PARE_EVENT_NOTICE,
                         "%s: %zu of %zu linear%s %s columns apart, %zu column%s in all",
                         pare_passes[plan->recipe.step[step].pass]->name, with, linears,
                         pare_plural(linears), with == 1 ? "keeps" : "keep", columns,
                         pare_plural(columns));
    }
}
