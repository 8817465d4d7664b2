/* What lies between the walk in front of a training and the one behind it: weights as floats, and
 * the blocks that are read from them. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/run/run_aware.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_outside.h"
#include "compress/run/run_training.h"
#include "quant/matrix_error.h"

void pare__front_walk(pare_run *run, bool front)
{
    static const unsigned none[PARE_SITES];
    const pare_plan *const plan = run->plan;
    const size_t at = pare_plan_front(plan);
    if (plan->training && run->walk.front != front) {
        const pare_run_units units = run->units;
        run->units = run->front;
        run->front = units;
    }
    if (!plan->training)
        run->walk = (pare_run_walk){.end = at,
                                    .kinds = plan->kinds,
                                    .expert_kinds = plan->expert_kinds,
                                    .calibrated = plan->calibrated && !plan->kept.used};
    else if (front) /* with all blocks done, only the training is left, which needs no waves */
        run->walk = (pare_run_walk){.front = true,
                                    .end = at,
                                    .kinds = at ? plan->kinds : none,
                                    .expert_kinds = at ? plan->expert_kinds : none,
                                    .calibrated = pare_plan_looks_first(plan) &&
                                                  run->units.found < plan->out.blocks};
    else
        run->walk = (pare_run_walk){.begin = at + 1,
                                    .end = plan->recipe.steps,
                                    .kinds = plan->later,
                                    .expert_kinds = plan->later_experts,
                                    .calibrated = pare_plan_looks_later(plan) ||
                                                  pare_plan_looks_at_head(plan)};
}

/* --- what an earlier run left ------------------------------------------------------------------
 */

/* Reads what is kept of i into w [n, k], and its steps into `scratch`. */
static pare_status get(pare_run *run, const pare_run_floats *f, const pare_unit_result *unit,
                       size_t i, float *w, float **steps)
{
    *steps = NULL;
    if (i < run->plan->linears)
        PARE_TRY(pare__aware_steps_take(run, &run->settled.linear[i], steps));
    return pare__floats_get(run, f, i, w, *steps,
                            pare__floats_hash(unit, pare__floats_name(run, i)));
}

/* Only looks at it. */
static pare_status look(pare_run *run, const pare_run_floats *f, const pare_unit_result *unit,
                        size_t i)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const w = pare_arena_take_raw(&run->scratch, pare__floats_count(run, i), sizeof *w),
                 *steps;
    const pare_status s = w ? get(run, f, unit, i, w, &steps) : PARE_ENOMEM;
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status check_trained(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    const size_t all = run->plan->linears + PARE_MODEL_LEAVES;
    for (size_t i = 0; i < all && run->units.found > blocks; i++) {
        if (pare__floats_count(run, i) == 0)
            continue;
        const pare_status s = look(run, &run->trained, &run->units.result[blocks], i);
        if (s == PARE_EFORMAT) {
            pare__notify(run, PARE_EVENT_NOTICE,
                         "trained weights of the unfinished run are damaged: they are trained "
                         "again: %s",
                         run->cx->what);
            return pare__run_forget(run, &run->units, blocks);
        }
        PARE_TRY(s);
    }
    return PARE_OK;
}

pare_status pare__front_open(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    PARE_TRY(pare__floats_open(run, PARE_FLOATS_PRUNED, &run->pruned));
    PARE_TRY(pare__floats_open(run, PARE_FLOATS_TRAINED, &run->trained));
    if (run->units.found <= blocks) { /* else nobody reads them again */
        pare__front_walk(run, true);
        pare_status s = pare__run_check_found(run);
        if (s == PARE_OK)
            s = check_trained(run);
        pare__front_walk(run, false);
        PARE_TRY(s);
    }
    run->training = run->front.found > blocks ? run->front.result[blocks].training : NULL;
    return PARE_OK;
}

void pare__front_close(pare_run *run, bool remove)
{
    pare_run_floats *const file[] = {&run->pruned, &run->trained};
    for (size_t i = 0; i < sizeof file / sizeof *file; i++) {
        if (remove && file[i]->path)
            (void)unlink(file[i]->path);
        pare__floats_close(file[i]);
    }
    if (remove && run->plan->training)
        pare__run_forget_training(run);
}

/* --- in front ----------------------------------------------------------------------------------
 */

pare_status pare__front_put(pare_run *run, size_t i, const float *w, const float *steps,
                            pare_unit_result *unit)
{
    pare_kept_hash *const k = &unit->kept[unit->kept_count++];
    k->name = run->settled.linear[i].packed.name;
    return pare__floats_put(run, &run->pruned, i, w, steps, k->hash);
}

pare_status pare__front_restore(pare_run *run, size_t i, bool take)
{
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_unit_result *const unit = &run->units.result[l->block];
    float *steps;
    if (!take)
        return look(run, &run->pruned, unit, i);
    float *const w = pare__run_linear_floats(run, l);
    PARE_TRY(get(run, &run->pruned, unit, i, w, &steps));
    if (steps)
        PARE_TRY(pare__aware_values(run, l, steps, w));
    return l->part ? pare__front_view(run, l, w) : PARE_OK;
}

pare_status pare__front_view(pare_run *run, const pare_plan_linear *l, const float *w)
{
    const size_t count = l->packed.n * l->packed.k;
    pare_linear *const to = &run->experts.linear[(l->part - 1) * PARE_ROLES + l->role];
    if (!run->walk.calibrated) /* nothing runs the block */
        return PARE_OK;
    float *const own = pare_arena_take_raw(&run->experts.views, count, sizeof *own);
    if (!own)
        return PARE_ENOMEM;
    memcpy(own, w, count * sizeof *own);
    to->dtype = PARE_F32;
    to->floats = own;
    return PARE_OK;
}

/* --- behind ------------------------------------------------------------------------------------
 */

pare_status pare__front_source(pare_run *run)
{
    pare_block *block;
    PARE_TRY(pare_blocks_copy(run->a, &run->model, &block));
    PARE_TRY(pare__floats_map(run, &run->trained));
    for (size_t i = 0; i < run->plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (!pare_plan_trains(run->plan, l))
            continue;
        pare_linear *const to = pare_block_linear_mutable(&block[l->block], l->part, l->role);
        to->dtype = PARE_F32;
        to->data = pare__floats_at(run, &run->trained, i);
    }
    run->source.block = block;
    pare__outside_source(run);
    return PARE_OK;
}

static const pare_linear_result *row_of(const pare_unit_result *unit, const char *name)
{
    size_t i = 0;
    while (i < unit->rows && strcmp(unit->row[i].linear.name, name) != 0)
        i++;
    return i < unit->rows ? &unit->row[i] : NULL;
}

/* The steps of a linear in front of the training, and the training as one more. */
static pare_status take_over(pare_run *run, size_t i)
{
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_unit_result *const unit = &run->front.result[l->block];
    const pare_linear_result *const row = row_of(unit, l->packed.name);
    const size_t n = l->packed.n, k = l->packed.k, role = l->role;
    pare_run_part *const part = pare__run_part(run, l);
    const float *const w = part->linear[role].floats, *const reference =
                                                          part->reference[role].floats;
    float *const before = PARE_NEW(&run->scratch, float, n *k), *steps;
    double own[2];
    if (!before)
        return PARE_ENOMEM;
    if (!row)
        return pare_fail(run->cx, PARE_EFORMAT, "%s: the journal does not name %s",
                         run->plan->place.partial, l->packed.name);
    PARE_TRY(get(run, &run->pruned, unit, i, before, &steps));
    if (l->pruned)
        PARE_TRY(pare__run_freeze(run, l, before));
    PARE_TRY(pare__run_check_zeros(run, l, w, pare_plan_front(run->plan)));
    if (steps)
        PARE_TRY(pare__aware_values(run, l, steps, before));
    pare_matrix_errors(run->cx, before, w, reference, NULL, n, k, own);
    pare_matrix_errors(run->cx, reference, w, reference, NULL, n, k, part->done_error[role]);
    part->pruning[role] = *row;
    part->thin[role] = row->thin;
    part->stability[role] = row->stability;
    part->done_count[role] = row->steps;
    memcpy(part->done[role], row->step, row->steps * sizeof *row->step);
    part->done[role][part->done_count[role]++] =
        (pare_step_result){.step = (unsigned)pare_plan_front(run->plan),
                           .pass = pare_passes[run->plan->training->pass]->name,
                           .weight_error = own[0],
                           .output_error = -1};
    if (steps)
        (void)snprintf(part->done[role][part->done_count[role] - 1].note, PARE_NOTE,
                       "codes in place");
    return PARE_OK;
}

pare_status pare__front_take_over(pare_run *run, size_t block, size_t part, unsigned sites)
{
    size_t i, end;
    for (pare_plan_range(run->plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (!pare_plan_trains(run->plan, l) || !(sites & (1u << pare_plan_site(run->plan, l))))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = take_over(run, i);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}
