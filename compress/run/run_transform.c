/* Transforming steps of a block, and the tensors they change. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_same.h"
#include "quant/matrix_error.h"

static pare_status keep_input(void *self, size_t part, pare_site site, const float *x, size_t rows,
                              size_t k)
{
    (void)part;
    if (site == PARE_SITE_MLP)
        memcpy(self, x, rows * k * sizeof *x);
    return PARE_OK;
}

/* Outputs of the reference on the first calibration window, y [window, hidden]. Where it has
 * experts, what its router sees: transforms work on attention, and rounding may send a token that
 * is between two experts to the other one, whose output is another. */
static pare_status reference_outputs(pare_run *run, float *y)
{
    pare_fill *const fill = run->experts.fill;
    const pare_tap look = {.see = keep_input,
                           .self = y,
                           .last = PARE_SITE_MLP,
                           .first_part = 1,
                           .parts = 1,
                           .fill = fill};
    pare_ctx *const cx = run->cx;
    const pare_config *const c = &run->model.config;
    PARE_TRY(run->plan->kept.used
                 ? pare_stats_group_stream(&run->kept.group, run->wave.window, run->wave.hidden, y)
                 : pare_wave_window(cx, &run->wave, 0, y));
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_batch batch = {.sequences = 1, .length = run->wave.window};
    pare_kv kv;
    pare_status s = pare_kv_take(&run->scratch, c, 1, run->wave.window, &kv);
    if (fill)
        fill[1] = (pare_fill){.want = 1, .of = 1};
    if (s == PARE_OK)
        s = pare_block_forward(cx, &run->scratch, &run->forward, &run->reference, batch, y, &kv,
                               fill ? &look : NULL);
    if (fill)
        fill[1] = (pare_fill){0};
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* Whether this walk over the blocks transforms one. */
static bool transforms_block(const pare_run *run, size_t block)
{
    for (size_t i = 0; i < run->plan->transforms; i++) {
        const pare_plan_transform *const t = &run->plan->transform[i];
        if (t->block == block && t->step >= run->walk.begin && t->step < run->walk.end)
            return true;
    }
    return false;
}

pare_status pare__run_transforms_begin(pare_run *run, size_t block)
{
    if (!transforms_block(run, block))
        return PARE_OK;
    float *const y = PARE_NEW(&run->scratch, float, run->wave.window * run->wave.hidden);
    if (!y)
        return PARE_ENOMEM;
    run->folded = y;
    return reference_outputs(run, y);
}

/* The float model is the same as before the folds. */
static pare_status check_folds(pare_run *run, size_t block, size_t step)
{
    const size_t count = run->wave.window * run->wave.hidden;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    float *const y = PARE_NEW(&run->scratch, float, count);
    pare_status s = y ? reference_outputs(run, y) : PARE_ENOMEM;
    double most = 0.0, moved = 0.0;
    for (size_t i = 0; s == PARE_OK && i < count; i++) {
        most = fmax(most, fabs((double)run->folded[i]));
        moved = pare__farther(moved, fabs((double)y[i] - (double)run->folded[i]));
    }
    pare_arena_rewind(&run->scratch, mark);
    if (s == PARE_OK && !pare__same(moved, most))
        s = pare_fail(run->cx, PARE_ENUMERIC,
                      "%s: block %zu: the outputs of the float model moved by %.3g of the largest "
                      "(%.3g), more than %g; milder scales are needed",
                      pare_passes[run->plan->recipe.step[step].pass]->name, block,
                      most > 0 ? moved / most : moved, most, PARE__SAME);
    return s;
}

/* What will follow on each linear of a site: grid and activation of the quantizer, the rule of the
 * pruner. */
static void look_ahead(const pare_run *run, const pare_plan_transform *t, pare_grid *grid,
                       pare_pass_site *to)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    for (pare_plan_range(plan, t->block, 0, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (!(t->roles & 1u << l->role))
            continue;
        const pare_step *const step = &plan->recipe.step[l->step];
        const pare_pass *const pass = pare_passes[step->pass];
        to->activation[l->role] = l->packed.activation;
        to->sparsity[l->role] = l->pruned ? &l->sparsity : NULL;
        if (l->packed.activation.bits == 0 && l->packed.activation.mode != PARE_ACTIVATION_FLOAT)
            to->activation[l->role].bits = 8;
        if (!pass->grid)
            continue;
        grid[l->role] = pass->grid(step->value);
        to->grid[l->role] = &grid[l->role];
    }
}

/* What one step did to the linears that it works on at a site: how far they are from the float
 * model now, less how far they were. */
static pare_status account(pare_run *run, unsigned roles, const pare_site_stats *stats,
                           const pare_step_result *what)
{
    const pare_config *const c = &run->shape;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        if (!(roles & 1u << role))
            continue;
        const float *const w = run->current.linear[role].floats;
        const float *const r = run->reference.linear[role].floats;
        double error[2] = {0.0, stats->h ? 0.0 : -1.0};
        if (memcmp(w, r, n * k * sizeof *w) != 0) {
            pare_matrix_errors(run->cx, r, w, r, stats->h, n, k, error);
        }
        double *const before = run->part.done_error[role];
        pare_step_result *const to = &run->part.done[role][run->part.done_count[role]++];
        *to = *what;
        to->weight_error = fmax(error[0] - before[0], 0.0);
        to->output_error = stats->h ? fmax(error[1] - before[1], 0.0) : -1.0;
        memcpy(before, error, sizeof error);
    }
    return PARE_OK;
}

static const char *reader_of(const pare_run *run, size_t block, size_t site)
{
    const pare_model *const m = &run->model;
    for (size_t role = 0; role < PARE_ROLES; role++)
        if (m->config.arch->linear[role].site == (pare_site)site)
            return m->block[block].linear[role].name;
    return "";
}

/* A step leaves the linears of a site as they are, because the calibration says too little of their
 * inputs. */
static void leave_site(pare_run *run, unsigned roles, pare_step_result *result)
{
    for (size_t role = 0; role < PARE_ROLES; role++)
        run->part.thin[role] |= (roles & 1u << role) != 0;
    (void)snprintf(result->note, PARE_NOTE, "left as it was: too little calibration");
}

/* The sites of one step: each by itself, or all at once. */
static pare_status apply(pare_run *run, const pare_step *step, size_t block,
                         pare_pass_site *const site[PARE_SITES])
{
    const pare_pass *const pass = pare_passes[step->pass];
    const pare_plan *const plan = run->plan;
    pare_ctx *const cx = run->cx;
    if (pass->transform->block) {
        pare_pass_block all = {.config = &run->shape,
                               .current = &run->current,
                               .reference = &run->reference,
                               .forward = &run->forward,
                               .wave = &run->wave,
                               .floats = plan->floats_beside ? &run->floats : NULL,
                               .seed = plan->recipe.seed,
                               .number = block};
        memcpy(all.site, site, sizeof all.site);
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = pass->transform->block(cx, step->value, &all, &run->scratch);
        pare_arena_rewind(&run->scratch, mark);
        return s == PARE_OK ? s : pare_fail_context(cx, s, "%s: block %zu", pass->name, block);
    }
    for (size_t i = 0; i < PARE_SITES; i++) {
        if (!site[i])
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = pass->transform->site(cx, step->value, site[i], &run->scratch);
        pare_arena_rewind(&run->scratch, mark);
        if (s != PARE_OK)
            return pare_fail_context(cx, s, "%s: input of %s", pass->name,
                                     reader_of(run, block, i));
    }
    return PARE_OK;
}

pare_status pare__run_transform(pare_run *run, size_t block, size_t step, unsigned sites,
                                pare_stats *stats)
{
    const pare_plan *const plan = run->plan;
    const pare_step *const st = &plan->recipe.step[step];
    pare_grid grid[PARE_ROLES];
    pare_step_result result[PARE_SITES];
    pare_pass_site site[PARE_SITES], *list[PARE_SITES] = {NULL};
    unsigned roles[PARE_SITES] = {0};
    bool any = false;
    for (size_t i = 0; i < plan->transforms; i++) {
        const pare_plan_transform *const t = &plan->transform[i];
        if (t->block != block || t->step != step || !(sites & (1u << t->site)))
            continue;
        result[t->site] =
            (pare_step_result){.step = (unsigned)step, .pass = pare_passes[st->pass]->name};
        site[t->site] = (pare_pass_site){.config = &run->shape,
                                         .block = block,
                                         .site = t->site,
                                         .current = &run->current,
                                         .reference = &run->reference,
                                         .stats = &stats->site[t->site],
                                         .result = &result[t->site],
                                         .scratch = &run->scratch};
        look_ahead(run, t, grid, &site[t->site]);
        roles[t->site] = t->roles;
        if (pare_need_is_met(run->plan, &run->settled, &run->plan->recipe.step[step],
                             &stats->site[t->site]))
            list[t->site] = &site[t->site], any = true;
        else
            leave_site(run, t->roles, &result[t->site]);
    }
    if (any)
        PARE_TRY(apply(run, st, block, list));
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (roles[i])
            PARE_TRY(account(run, roles[i], &stats->site[i], &result[i]));
    return any ? check_folds(run, block, step) : PARE_OK;
}

/* The vector or matrix in memory that a changed tensor stores. */
static float *values_of(pare_run *run, const pare_plan_changed *c)
{
    switch (c->kind) {
    case PARE_CHANGED_NORM: return run->current.norm[c->index];
    case PARE_CHANGED_NORM_BIAS: return run->current.norm_bias[c->index];
    case PARE_CHANGED_WEIGHT: return run->current.linear[c->index].floats;
    case PARE_CHANGED_BIAS: return run->current.linear[c->index].bias;
    }
    return NULL;
}

/* Rounds to the stored type and back: what the wave sees is what is stored. */
static pare_status round_values(pare_run *run, const pare_packed_entry *e, float *values,
                                void *bytes)
{
    pare_tensor t = e->tensor;
    const size_t count = (size_t)(t.bytes / (pare_dtype_bits(t.dtype) / 8));
    PARE_TRY(pare_f32_to_dtype(run->cx, t.dtype, values, count, bytes));
    t.data = bytes;
    PARE_TRY(pare_tensor_to_f32(run->cx, &t, 0, count, values));
    for (size_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return pare_fail(run->cx, PARE_ENUMERIC,
                             "%s: element %zu does not fit %s after folding; milder scales are "
                             "needed",
                             t.name, i, pare_dtype_name(t.dtype));
    return PARE_OK;
}

/* Columns that a row of a changed matrix has in memory, and fewer of them in the file when the
 * model gets smaller; other tensors are the front of what is in memory. */
static bool is_cut(const pare_run *run, const pare_plan_changed *c, size_t *full)
{
    size_t n;
    if (c->kind != PARE_CHANGED_WEIGHT)
        return false;
    pare_linear_shape(&run->shape, 0, (pare_role)c->index, &n, full);
    return c->tensor.shape[1] < *full;
}

/* Zeros behind the first `count` values that a changed tensor has in memory. */
static void clear_behind(const pare_run *run, const pare_plan_changed *c, size_t count,
                         float *values)
{
    const pare_config *const shape = &run->shape;
    size_t n = shape->hidden, k = 1;
    if (c->kind == PARE_CHANGED_WEIGHT || c->kind == PARE_CHANGED_BIAS)
        pare_linear_shape(shape, 0, (pare_role)c->index, &n, &k);
    const size_t all = c->kind == PARE_CHANGED_WEIGHT ? n * k : n;
    memset(values + count, 0, (all - count) * sizeof *values);
}

/* The stored part of a matrix without gaps, or its way back. */
static void move_part(const pare_tensor *t, float *matrix, size_t full, float *part, bool back)
{
    const size_t k = (size_t)t->shape[1];
    for (size_t i = 0; i < t->shape[0]; i++)
        memcpy(back ? matrix + i * full : part + i * k, back ? part + i * k : matrix + i * full,
               k * sizeof *part);
}

/* Norms stand in the file without the offset of the family. */
static void shift_norm(const pare_run *run, const pare_plan_changed *c, float *values, float sign)
{
    const float offset = run->model.config.arch->norm_offset;
    for (size_t i = 0; c->kind == PARE_CHANGED_NORM && offset != 0 && i < c->tensor.shape[0]; i++)
        values[i] += sign * offset;
}

static pare_status store_one(pare_run *run, const pare_plan_changed *c, pare_kept_hash *hash)
{
    const pare_packed_entry *const e = pare_packed_find(&run->settled.layout, c->tensor.name);
    void *const bytes = pare_arena_take(&run->scratch, (size_t)e->tensor.bytes, 1);
    if (!bytes)
        return PARE_ENOMEM;
    size_t full;
    float *const values = values_of(run, c), *part = values;
    const bool cut = is_cut(run, c, &full);
    if (cut) {
        part = PARE_NEW(&run->scratch, float, e->tensor.shape[0] * e->tensor.shape[1]);
        if (!part)
            return PARE_ENOMEM;
        move_part(&e->tensor, values, full, part, false);
    }
    shift_norm(run, c, part, -1);
    PARE_TRY(round_values(run, e, part, bytes));
    shift_norm(run, c, part, 1);
    if (cut)
        move_part(&e->tensor, values, full, part, true);
    PARE_TRY(pare_packed_put(run->cx, run->writer, e, bytes));
    hash->name = c->tensor.name;
    pare_xxh3(bytes, (size_t)e->tensor.bytes, hash->hash);
    return PARE_OK;
}

pare_status pare__run_store_changed(pare_run *run, size_t block)
{
    pare_unit_result *const unit = &run->units.result[block];
    size_t count = 0;
    for (size_t i = 0; i < run->plan->changes; i++)
        count += run->plan->changed[i].block == block;
    unit->kept_count = 0;
    unit->kept = PARE_NEW(run->a, pare_kept_hash, count);
    if (!unit->kept)
        return PARE_ENOMEM;
    for (size_t i = 0; i < run->plan->changes; i++) {
        if (run->plan->changed[i].block != block)
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s =
            store_one(run, &run->plan->changed[i], &unit->kept[unit->kept_count++]);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* A tensor that was stored becomes part of the block again; what it lacks is 0. */
static pare_status take_back(pare_run *run, const pare_plan_changed *c, const pare_tensor *t)
{
    const size_t count = (size_t)(t->bytes / (pare_dtype_bits(t->dtype) / 8));
    size_t full;
    float *const values = values_of(run, c);
    if (!is_cut(run, c, &full)) {
        clear_behind(run, c, count, values);
        PARE_TRY(pare_tensor_to_f32(run->cx, t, 0, count, values));
        shift_norm(run, c, values, 1);
        return PARE_OK;
    }
    float *const part = PARE_NEW(&run->scratch, float, count);
    if (!part)
        return PARE_ENOMEM;
    PARE_TRY(pare_tensor_to_f32(run->cx, t, 0, count, part));
    clear_behind(run, c, 0, values);
    move_part(t, values, full, part, true);
    return PARE_OK;
}

static pare_status restore_one(pare_run *run, const pare_plan_changed *c,
                               const pare_kept_hash *hash, bool take)
{
    const pare_packed_entry *const e = pare_packed_find(&run->settled.layout, c->tensor.name);
    pare_tensor t = e->tensor;
    void *const bytes = pare_arena_take(&run->scratch, (size_t)t.bytes, 1);
    uint8_t found[sizeof hash->hash];
    if (!bytes)
        return PARE_ENOMEM;
    PARE_TRY(pare_packed_get(run->cx, run->writer, e, bytes));
    pare_xxh3(bytes, (size_t)t.bytes, found);
    if (strcmp(hash->name, t.name) != 0 || memcmp(found, hash->hash, sizeof found) != 0)
        return pare_fail(run->cx, PARE_EFORMAT, "%s: %s was damaged since it was written",
                         run->plan->place.partial, t.name);
    t.data = bytes;
    return take ? take_back(run, c, &t) : PARE_OK;
}

pare_status pare__run_restore_changed(pare_run *run, size_t block, bool take)
{
    pare_unit_result *const unit = &run->units.result[block];
    size_t found = 0, expected = 0;
    for (size_t i = 0; i < run->plan->changes; i++) {
        if (run->plan->changed[i].block != block)
            continue;
        if (expected++ >= unit->kept_count)
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = restore_one(run, &run->plan->changed[i], &unit->kept[found++], take);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    if (found == expected && unit->kept_count == expected)
        return PARE_OK;
    return pare_fail(run->cx, PARE_EFORMAT,
                     "%s: the journal of block %zu has %zu changed tensors, the plan %zu",
                     run->plan->place.partial, block, unit->kept_count, expected);
}
