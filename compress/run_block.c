#include <stdio.h>
#include <string.h>

#include "compress/compress_internal.h"
#include "compress/sparsity_text.h"
#include "quant/gptq.h"
#include "runtime/linear.h"

pare_status pare__run_load(pare_run *run, size_t block)
{
    const pare_config *const c = &run->plan.model.config;
    const pare_block *const from = &run->plan.model.block[run->source ? run->source[block] : block];
    const pare_rotation *const rotation = run->plan.rotation;
    run->like = *from;
    for (size_t role = 0; role < PARE_ROLES; role++)
        run->like.linear[role].rotated =
            rotation && pare_rotation_is_online(rotation, (pare_role)role);
    pare_float_block_load(run->cx, c, from, &run->current);
    if (rotation)
        PARE_TRY(pare_rotation_block(run->cx, &run->scratch, rotation, &run->current));
    run->block = pare_float_block_view(&run->current, &run->like);
    return PARE_OK;
}

/* A block that is about to be compressed. */
static pare_status begin_block(pare_run *run, size_t block)
{
    const pare_config *const c = &run->plan.model.config;
    PARE_TRY(pare__run_load(run, block));
    if (run->plan.reference)
        pare_float_block_copy(c, &run->current, &run->reference);
    memset(run->done_count, 0, sizeof run->done_count);
    memset(run->done_error, 0, sizeof run->done_error);
    pare__run_prune_begin(run);
    return pare__rotate_check_block(run, block);
}

static const pare_packed_entry *plane(const pare_run *run, const char *linear, const char *suffix)
{
    char name[1024];
    (void)snprintf(name, sizeof name, "%s.%s", linear, suffix);
    return pare_packed_find(&run->plan.layout, name);
}

/* Calls `move` on each plane of a linear: writer or reader, then hashes the bytes. */
static pare_status each_plane(pare_run *run, const pare_packed_planes *p, const char *name,
                              pare_status (*move)(pare_run *, const pare_packed_entry *, void *),
                              uint8_t hash[PARE_PLANES][16])
{
    for (pare_plane i = 0; i < PARE_PLANES; i++) {
        if (!p->plane[i])
            continue;
        PARE_TRY(move(run, plane(run, name, pare_packed_plane_name(i)), p->plane[i]));
        pare_xxh3(p->plane[i], (size_t)p->bytes.plane[i], hash[i]);
    }
    return PARE_OK;
}

static pare_status put(pare_run *run, const pare_packed_entry *e, void *bytes)
{
    return pare_packed_put(run->cx, run->writer, e, bytes);
}

static pare_status get(pare_run *run, const pare_packed_entry *e, void *bytes)
{
    return pare_packed_get(run->cx, run->writer, e, bytes);
}

/* The weights of the packed linear, and its bias when it has its own, become those of the block in
 * memory: what the wave sees is what is stored. */
static pare_status adopt(pare_run *run, const pare_plan_linear *l, const pare_packed_planes *p,
                         float *dst)
{
    pare_linear view;
    PARE_TRY(pare_packed_view(run->cx, &run->scratch, &l->packed, p->plane, &view));
    pare_linear_to_f32(run->cx, &view, dst);
    if (view.bias && run->current.bias[l->role])
        memcpy(run->current.bias[l->role], view.bias, l->packed.n * sizeof *view.bias);
    return PARE_OK;
}

static double relative(double error, double whole)
{
    return whole > 0.0 ? error / whole : 0.0;
}

void pare__run_errors(pare_run *run, const float *w, const float *q, const float *whole,
                      const float *zero, const float *h, size_t n, size_t k, double error[2])
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < n * k; i++) {
        const double e = (double)w[i] - (double)q[i];
        wrong += e * e;
        all += (double)whole[i] * (double)whole[i];
    }
    error[0] = relative(wrong, all);
    error[1] = h ? relative(pare_gptq_error(run->cx, w, q, h, n, k),
                            pare_gptq_error(run->cx, whole, zero, h, n, k))
                 : -1.0;
}

/* What storing cost: a quantizer against the weights that it found, all steps against the float
 * model. */
static void measure(pare_run *run, const pare_plan_linear *l, const float *q, const float *zero,
                    const float *h, pare_linear_result *r)
{
    const float *const w = run->current.weight[l->role];
    const float *const whole = run->plan.reference ? run->reference.weight[l->role] : w;
    const size_t n = l->packed.n, k = l->packed.k;
    double own[2], all[2];
    pare__run_errors(run, w, q, whole, zero, h, n, k, own);
    if (run->done_error[l->role][0] > 0)
        pare__run_errors(run, whole, q, whole, zero, h, n, k, all);
    else
        memcpy(all, own, sizeof all);
    r->weight_error = all[0];
    r->output_error = all[1];
    r->steps = run->done_count[l->role];
    memcpy(r->step, run->done[l->role], r->steps * sizeof *r->step);
    if (l->quantized)
        r->step[r->steps++] = (pare_step_result){.step = (unsigned)l->step,
                                                 .pass = r->method,
                                                 .weight_error = own[0],
                                                 .output_error = own[1]};
}

/* What the linear's plan asks for and the pass left open. */
static void complete(const pare_run *run, const pare_plan_linear *l, const pare_site_stats *stats,
                     pare_codes *codes)
{
    const pare_activation *const a = &l->packed.activation;
    if (l->packed.bias && !codes->bias)
        codes->bias = run->current.bias[l->role];
    if (a->mode != PARE_ACTIVATION_TENSOR || codes->input_scale > 0 || !stats->absmax)
        return;
    float most = 0.0F;
    for (size_t j = 0; j < stats->k; j++)
        most = stats->absmax[j] > most ? stats->absmax[j] : most;
    codes->input_scale = (most > 0 ? most : 1.0F) / (a->bits == 4 ? 7.0F : 127.0F);
}

static void tell_ladder(pare_run *run, const pare_linear_result *r)
{
    if (r->fallback)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: no factor of the Hessian at any damping; rounded to nearest instead",
                     r->linear.name);
    else if (r->f64 || r->raises)
        pare__notify(run, PARE_EVENT_NOTICE, "%s: the Hessian needed damping %g (%u raises%s)",
                     r->linear.name, r->damp, r->raises, r->f64 ? ", double precision" : "");
}

/* Packs and writes a linear, and takes over what is stored; w [n, k] is overwritten by it. */
static pare_status store_linear(pare_run *run, const pare_plan_linear *l,
                                const pare_site_stats *stats, pare_codes *codes, float *w,
                                pare_linear_result *r)
{
    const float *const h = stats->h;
    const size_t n = l->packed.n, k = l->packed.k;
    complete(run, l, stats, codes);
    pare_packed_planes planes;
    pare_status s = pare_packed_pack(run->cx, &run->scratch, &l->packed, codes, &planes);
    if (s != PARE_OK)
        return pare_fail_context(run->cx, s, "%s", r->method);
    PARE_TRY(each_plane(run, &planes, l->packed.name, put, r->hash));
    float *const zero = h ? PARE_NEW(&run->scratch, float, n *k) : w;
    if (!zero)
        return PARE_ENOMEM;
    PARE_TRY(adopt(run, l, &planes, w));
    if (l->pruned)
        PARE_TRY(run->frozen[l->role] ? pare__run_check_zeros(run, l, w, l->step)
                                      : pare__run_freeze(run, l, w));
    measure(run, l, w, zero, h, r);
    memcpy(run->current.weight[l->role], w, n * k * sizeof *w);
    r->bits_per_weight = 8.0 * (double)planes.bytes.total / ((double)n * (double)k);
    r->zeros = pare__run_zeros(w, n * k);
    return PARE_OK;
}

/* Weights of a linear to work on, and its empty result. */
static float *begin_linear(pare_run *run, const pare_plan_linear *l, pare_linear_result *r)
{
    const size_t count = l->packed.n * l->packed.k;
    float *const w = PARE_NEW(&run->scratch, float, count);
    *r = (pare_linear_result){.linear = l->packed,
                              .block = l->block,
                              .method = pare_passes[run->plan.recipe.step[l->step].pass]->name};
    if (w)
        memcpy(w, run->current.weight[l->role], count * sizeof *w);
    return w;
}

static pare_status quantize(pare_run *run, const pare_plan_linear *l, void *site_state,
                            const pare_site_stats *stats, pare_linear_result *r)
{
    const double start = pare__seconds();
    const pare_step *const step = &run->plan.recipe.step[l->step];
    float *const w = begin_linear(run, l, r);
    if (!w)
        return PARE_ENOMEM;
    const bool joint = l->pruned && l->prune_step == l->step;
    pare_codes codes = {0};
    pare_pass_linear linear = {.w = w,
                               .n = l->packed.n,
                               .k = l->packed.k,
                               .role = l->role,
                               .stats = stats,
                               .h = stats->h,
                               .site_state = site_state,
                               .pruned = l->pruned && !joint,
                               .sparsity = joint ? &l->sparsity : NULL,
                               .codes = &codes,
                               .result = r};
    const pare_status s =
        pare_pass_run(run->cx, pare_passes[step->pass], step->value, &linear, &run->scratch);
    if (s != PARE_OK)
        return pare_fail_context(run->cx, s, "%s", l->packed.name);
    PARE_TRY(store_linear(run, l, stats, &codes, w, r));
    char pattern[PARE_SPARSITY_TEXT];
    (void)snprintf(r->step[r->steps - 1].note, PARE_NOTE, "%s",
                   joint && !linear.note[0] ? pare_sparsity_text(&l->sparsity, pattern)
                                            : linear.note);
    tell_ladder(run, r);
    r->seconds = pare__seconds() - start;
    pare__run_add_pruning(run, l, r);
    return PARE_OK;
}

/* A linear that was pruned and that nobody quantizes. */
static pare_status store_pruned(pare_run *run, const pare_plan_linear *l,
                                const pare_site_stats *stats, pare_linear_result *r)
{
    const double start = pare__seconds();
    float *const w = begin_linear(run, l, r);
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(pare__run_round_f16(run, l, w));
    pare_codes codes = {.n = l->packed.n, .k = l->packed.k, .groups = 1, .values = w};
    PARE_TRY(store_linear(run, l, stats, &codes, w, r));
    r->seconds = pare__seconds() - start;
    pare__run_add_pruning(run, l, r);
    return PARE_OK;
}

/* All linears of one step at one site. */
static pare_status run_site(pare_run *run, size_t block, size_t step, pare_site site,
                            const pare_stats *all, pare_unit_result *unit)
{
    const pare_plan *const plan = &run->plan;
    const pare_step *const st = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[st->pass];
    const pare_site_stats *const stats = &all->site[site];
    void *state = NULL;
    bool ready = false;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const bool prunes = pare_plan_prunes(l, step);
        if (l->block != block || (!prunes && l->step != step) ||
            plan->model.config.arch->linear[l->role].site != site)
            continue;
        if (!ready && pass->site) {
            const pare_status s = pass->site(run->cx, st->value, stats, &run->scratch, &state);
            if (s != PARE_OK)
                return pare_fail_context(run->cx, s, "statistics of the input of %s",
                                         l->packed.name);
        }
        ready = true;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        PARE_TRY(prunes ? pare__run_prune(run, l, state, stats)
                        : quantize(run, l, state, stats, &unit->row[unit->rows]));
        unit->rows += !prunes;
        pare_arena_rewind(&run->scratch, mark);
    }
    return PARE_OK;
}

/* Once the steps are done: what was pruned at the sites of `group` and is quantized by nobody. */
static pare_status store_rest(pare_run *run, size_t block, unsigned group, const pare_stats *all,
                              pare_unit_result *unit)
{
    const pare_plan *const plan = &run->plan;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_plan_linear *const l = &plan->linear[i];
        const pare_site site = plan->model.config.arch->linear[l->role].site;
        if (l->block != block || l->quantized || !(group & (1u << site)))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        PARE_TRY(store_pruned(run, l, &all->site[site], &unit->row[unit->rows]));
        unit->rows++;
        pare_arena_rewind(&run->scratch, mark);
    }
    return PARE_OK;
}

pare_status pare__run_wave(pare_run *run, const pare_tap *tap, const char *what)
{
    const double start = pare__seconds();
    const pare_status s =
        pare_wave_run(run->cx, &run->scratch, &run->wave, &run->forward, &run->block, tap, what);
    run->calibration_seconds += pare__seconds() - start;
    return s;
}

/* The sites of `group`: their statistics in one pass of the wave, then every step on them. */
static pare_status run_group(pare_run *run, size_t block, unsigned group, pare_stats *stats,
                             pare_unit_result *unit)
{
    const unsigned wanted = stats->active;
    stats->active &= group;
    if (stats->active) {
        const pare_tap tap = pare_stats_tap(stats);
        PARE_TRY(pare__run_wave(run, &tap, "gathering statistics"));
    }
    stats->active = wanted;
    for (size_t step = 0; step < run->plan.recipe.steps; step++) {
        if (pare_pass_transforms(pare_passes[run->plan.recipe.step[step].pass])) {
            PARE_TRY(pare__run_transform(run, block, step, group, stats));
            PARE_TRY(pare__run_check_block(run, block, step));
            continue;
        }
        PARE_TRY(pare__run_stability(run, block, step, group));
        for (unsigned site = 0; site < PARE_SITES; site++) {
            if (!(group & (1u << site)))
                continue;
            const pare_mark mark = pare_arena_mark(&run->scratch);
            const pare_status s = run_site(run, block, step, (pare_site)site, stats, unit);
            pare_arena_rewind(&run->scratch, mark);
            PARE_TRY(s);
        }
    }
    return store_rest(run, block, group, stats, unit);
}

static pare_status compress_block(pare_run *run, size_t block)
{
    pare_unit_result *const unit = &run->unit[block];
    unit->row = PARE_NEW(run->a, pare_linear_result, PARE_ROLES);
    pare_stats stats;
    if (!unit->row)
        return PARE_ENOMEM;
    PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->plan.model.config, run->plan.kinds,
                             (uint64_t)run->plan.samples * run->plan.window, &stats));
    PARE_TRY(pare__run_structure(run, block));
    PARE_TRY(pare__run_transforms_begin(run, block));
    if (run->plan.sequential)
        for (unsigned site = 0; site < PARE_SITES; site++)
            PARE_TRY(run_group(run, block, 1u << site, &stats, unit));
    else
        PARE_TRY(run_group(run, block, (1u << PARE_SITES) - 1, &stats, unit));
    PARE_TRY(pare__run_store_changed(run, block));
    return pare__run_commit(run, block);
}

/* A block that an earlier run finished: its planes must still be what the journal says. */
static pare_status restore_linear(pare_run *run, const pare_plan_linear *l,
                                  const pare_linear_result *r)
{
    pare_packed_planes p;
    PARE_TRY(pare_packed_take(&run->scratch, &l->packed, &p));
    uint8_t hash[PARE_PLANES][16] = {{0}};
    PARE_TRY(each_plane(run, &p, l->packed.name, get, hash));
    if (memcmp(hash, r->hash, sizeof hash) != 0)
        return pare_fail(run->cx, PARE_EFORMAT,
                         "%s: %s was damaged since the earlier run wrote it; start over with "
                         "--restart",
                         run->plan.partial_path, l->packed.name);
    return adopt(run, l, &p, run->current.weight[l->role]);
}

static pare_status restore_block(pare_run *run, size_t block)
{
    pare_unit_result *const unit = &run->unit[block];
    size_t found = 0, expected = 0;
    for (size_t i = 0; i < run->plan.linears; i++) {
        const pare_plan_linear *const l = &run->plan.linear[i];
        expected += l->block == block;
        for (size_t r = 0; l->block == block && r < unit->rows; r++) {
            if (strcmp(unit->row[r].linear.name, l->packed.name) != 0)
                continue;
            const pare_mark mark = pare_arena_mark(&run->scratch);
            const pare_status s = restore_linear(run, l, &unit->row[r]);
            pare_arena_rewind(&run->scratch, mark);
            PARE_TRY(s);
            unit->row[r].linear = l->packed; /* what the plan knows is not taken from the file */
            unit->row[r].block = block;
            unit->row[r].pruned = l->pruned;
            unit->row[r].method = pare_passes[run->plan.recipe.step[l->step].pass]->name;
            found++;
            break;
        }
    }
    if (found != expected || unit->rows != expected)
        return pare_fail(run->cx, PARE_EFORMAT,
                         "%s: the journal of block %zu names %zu of its %zu linears; start over "
                         "with --restart",
                         run->plan.partial_path, block, found, expected);
    return pare__run_restore_changed(run, block);
}

static void tell_block(pare_run *run, size_t block)
{
    if (!run->events || !run->events->event)
        return;
    char text[64];
    (void)snprintf(text, sizeof text, "block %zu of %zu", block + 1, run->plan.out.blocks);
    const pare_event e = {.kind = PARE_EVENT_BLOCK,
                          .text = text,
                          .block = block,
                          .blocks = run->plan.out.blocks,
                          .seconds = pare__seconds() - run->started,
                          .row = run->unit[block].row,
                          .rows = run->unit[block].rows};
    run->events->event(run->events->self, &e);
}

pare_status pare__run_block(pare_run *run, size_t block)
{
    const size_t blocks = run->plan.out.blocks;
    const bool found = block < run->units_found;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = begin_block(run, block);
    if (s == PARE_OK)
        s = found ? restore_block(run, block) : compress_block(run, block);
    pare_arena_rewind(&run->scratch, mark);
    PARE_TRY(s);
    if (!found)
        tell_block(run, block);
    PARE_TRY(pare__run_kv(run, block));
    const bool needed = run->units_found < blocks || pare__run_watches_kv(run);
    const bool watched = !run->plan.structured || run->plan.watched;
    if (run->plan.calibrated && block + 1 < blocks && needed && watched)
        PARE_TRY(pare__run_wave(run, NULL, "carrying activations to the next block"));
    return PARE_OK;
}
