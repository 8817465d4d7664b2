/* The linears of a part of a block: steps in, planes and results out. */
#include <stdio.h>
#include <string.h>

#include "compress/artifact/sparsity_text.h"
#include "compress/plan/calibration_need.h"
#include "compress/run/run_aware.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_owner.h"
#include "compress/run/run_serve.h"
#include "quant/matrix_error.h"
#include "runtime/linear.h"
#include "runtime/machine.h"
#include "runtime/threads.h"
#include "runtime/world.h"

static const pare_packed_entry *plane(const pare_run *run, const char *linear, const char *suffix)
{
    char name[1024];
    (void)snprintf(name, sizeof name, "%s.%s", linear, suffix);
    return pare_packed_find(&run->settled.layout, name);
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

pare_status pare__run_planes_put(pare_run *run, const pare_packed_planes *p, const char *name,
                                 uint8_t hash[PARE_PLANES][16])
{
    return each_plane(run, p, name, put, hash);
}

/* The weights of the packed linear, and its bias when it has its own, become those of the block in
 * memory: what the wave sees is what is stored. */
static pare_status adopt(pare_run *run, const pare_plan_linear *l, const pare_packed_planes *p,
                         float *dst)
{
    float *const bias = pare__run_part(run, l)->linear[l->role].bias;
    pare_linear view;
    PARE_TRY(pare_packed_view(run->cx, &run->scratch, &l->packed, p->plane, &view));
    pare_linear_to_f32(run->cx, &view, dst);
    if (view.bias && bias && !run->settled.memory.sparing)
        memcpy(bias, view.bias, l->packed.n * sizeof *view.bias);
    return PARE_OK;
}

/* What storing cost: a quantizer against the weights that it found (w; `own` is the weight error of
 * that), all steps against the float model. */
static void measure(pare_run *run, const pare_plan_linear *l, const float *w, const float *q,
                    const float *h, double own_weight, pare_linear_result *r)
{
    const pare_run_part *const part = pare__run_part(run, l);
    const float *const reference = run->plan->reference ? part->reference[l->role].floats : w;
    const size_t n = l->packed.n, k = l->packed.k;
    double all[2];
    const double own[2] = {own_weight, pare_output_error(run->cx, w, q, reference, h, n, k)};
    if (part->done_error[l->role][0] > 0)
        pare_matrix_errors(run->cx, reference, q, reference, h, n, k, all);
    else
        memcpy(all, own, sizeof all);
    r->weight_error = all[0];
    r->output_error = all[1];
    r->steps = part->done_count[l->role];
    memcpy(r->step, part->done[l->role], r->steps * sizeof *r->step);
    if (l->quantized && l->step >= run->walk.begin)
        r->step[r->steps++] = (pare_step_result){.step = (unsigned)l->step,
                                                 .pass = r->method,
                                                 .weight_error = own[0],
                                                 .output_error = own[1]};
}

/* What the linear's plan asks for and the pass left open. */
static void complete(pare_run *run, const pare_plan_linear *l, const pare_site_stats *stats,
                     pare_codes *codes)
{
    const pare_activation *const a = &l->packed.activation;
    if (l->packed.bias && !codes->bias)
        codes->bias = pare__run_part(run, l)->linear[l->role].bias;
    if (!pare_activation_is_fixed(l->packed.encoding, a) || codes->input_scale > 0 ||
        !stats->absmax)
        return;
    float most = 0.0F;
    for (size_t j = 0; j < stats->k; j++)
        most = stats->absmax[j] > most ? stats->absmax[j] : most;
    most = most > 0 ? most : 1.0F;
    codes->input_scale = a->mode == PARE_ACTIVATION_FLOAT ? 448.0F * 6.0F / most
                                                          : most / (a->bits == 4 ? 7.0F : 127.0F);
}

static void tell_ladder(pare_run *run, const pare_linear_result *r)
{
    if (r->fallback)
        pare__notify(run, PARE_EVENT_NOTICE,
                     "%s: no factor of the Hessian at any damping; rounded to nearest instead",
                     r->linear.name);
    else if (r->f64 || r->raises)
        pare__notify(run, PARE_EVENT_NOTICE, "%s: the Hessian needed damping %g (%u raise%s%s)",
                     r->linear.name, r->damp, r->raises, pare_plural(r->raises),
                     r->f64 ? ", double precision" : "");
}

/* Planes have one order: they are written by one task, beside those that sum parts of the matrix.
 */
enum { WRITE, SUMS, TASKS = SUMS + PARE_ERROR_PARTS };

typedef struct store_job {
    pare_run *run;
    const pare_plan_linear *l;
    const pare_packed_planes *planes;
    pare_linear_result *r;
    pare_error_sums sums;
    pare_status status;
} store_job;

static void store_task(void *arg, size_t begin, size_t end, size_t worker)
{
    store_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        if (i == WRITE)
            job->status =
                pare__run_planes_put(job->run, job->planes, job->l->packed.name, job->r->hash);
        else
            pare_error_sums_part(&job->sums, i - SUMS);
}

typedef struct copy_job {
    float *to;
    const float *from;
} copy_job;

static void copy_task(void *arg, size_t begin, size_t end, size_t worker)
{
    const copy_job *const job = arg;
    (void)worker;
    memcpy(job->to + begin, job->from + begin, (end - begin) * sizeof *job->to);
}

static void copy_weights(pare_run *run, float *to, const float *from, size_t count)
{
    enum { CHUNK = 1 << 18 };
    copy_job job = {to, from};
    pare_parallel(run->cx, count, CHUNK, copy_task, &job);
}

/* Whether a linear has no floats of its own. */
static bool is_spared(const pare_run *run, const pare_plan_linear *l)
{
    return run->settled.memory.sparing && l->part == 0;
}

/* The weights as a quantizer found them: those of the block, or of the model once more. */
static const float *weights_found(pare_run *run, const pare_plan_linear *l)
{
    const pare_linear *const from = &pare__run_part(run, l)->linear[l->role];
    if (!is_spared(run, l))
        return from->floats;
    float *const w = pare_arena_take_raw(&run->scratch, from->n * from->k, sizeof *w);
    if (w)
        pare_linear_to_f32(run->cx, from, w);
    return w;
}

/* Packs and writes a linear, and takes over what is stored; w [n, k] may be overwritten by it.
 * Where there is a room for all linears nothing runs the block: then that room alone gets it. */
static pare_status store_linear(pare_run *run, const pare_plan_linear *l,
                                const pare_site_stats *stats, pare_codes *codes, float *w,
                                pare_linear_result *r)
{
    pare_run_part *const part = pare__run_part(run, l);
    const float *const h = stats->identity ? NULL : stats->h;
    const size_t n = l->packed.n, k = l->packed.k;
    complete(run, l, stats, codes);
    pare_packed_planes planes;
    pare_status s = pare_packed_pack(run->cx, &run->scratch, &l->packed, codes, &planes);
    if (s != PARE_OK)
        return pare_fail_context(run->cx, s, "%s", r->method);
    float *const q = run->work ? run->work : w;
    PARE_TRY(adopt(run, l, &planes, q));
    const float *const found = weights_found(run, l);
    if (!found)
        return PARE_ENOMEM;
    if (pare_plan_aware(run->plan, l))
        PARE_TRY(pare__aware_check(run, l, found, q));
    store_job job = {.run = run, .l = l, .planes = &planes, .r = r};
    job.sums = (pare_error_sums){.kernels = &run->cx->kernels,
                                 .w = found,
                                 .q = q,
                                 .reference =
                                     run->plan->reference ? part->reference[l->role].floats : found,
                                 .count = n * k};
    pare_parallel(run->cx, TASKS, 1, store_task, &job);
    PARE_TRY(job.status);
    r->zeros = pare_error_sums_zeros(&job.sums);
    if (l->quantized)
        PARE_TRY(pare__run_coarse(run, &l->packed, codes, found, q, h, r));
    if (l->pruned)
        PARE_TRY(part->frozen[l->role] ? pare__run_check_zeros(run, l, q, l->step)
                                       : pare__run_freeze(run, l, q));
    measure(run, l, found, q, h, pare_error_sums_relative(&job.sums), r);
    if (!run->work && !is_spared(run, l))
        copy_weights(run, part->linear[l->role].floats, q, n * k);
    if (pare__run_views(run, l))
        PARE_TRY(pare__run_stored(run, l));
    r->bits_per_weight = 8.0 * (double)planes.bytes.total / ((double)n * (double)k);
    return PARE_OK;
}

/* Weights of a linear to work on, and its empty result: a copy, but where no step has statistics
 * and so none changes what it reads. */
static float *begin_linear(pare_run *run, const pare_plan_linear *l, const pare_site_stats *stats,
                           pare_linear_result *r)
{
    const size_t count = l->packed.n * l->packed.k;
    const pare_linear *const from = &pare__run_part(run, l)->linear[l->role];
    float *const found = from->floats;
    float *const w = run->work ? found : pare_arena_take_raw(&run->scratch, count, sizeof *w);
    *r = (pare_linear_result){.linear = l->packed,
                              .block = l->block,
                              .method = pare_passes[run->plan->recipe.step[l->step].pass]->name};
    pare__run_coverage(run, l, r);
    r->support = stats->support;
    r->thin = pare__run_part(run, l)->thin[l->role];
    if (w && is_spared(run, l))
        pare_linear_to_f32(run->cx, from, w);
    else if (w && w != found)
        copy_weights(run, w, found, count);
    return w;
}

const float *pare__run_outputs(const pare_run *run, const pare_plan_linear *l)
{
    const pare_rotation *const rotation = run->plan->rotation;
    const bool rotated = rotation && pare_rotation_turns_bias(rotation, l->role);
    const bool own = l->part == 0 && !run->plan->transforms && !rotated;
    return own ? pare_output_curvature_at(&run->weights.outputs, l->role) : NULL;
}

/* Codes that a training behind this walk trains: masters are written for it, and the block goes on
 * with their values. w [n, k] is overwritten. */
static pare_status keep_codes(pare_run *run, const pare_plan_linear *l,
                              const pare_site_stats *stats, const pare_codes *codes, float *w,
                              pare_unit_result *unit)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    pare_run_part *const part = pare__run_part(run, l);
    pare_linear_result *const r = &unit->row[unit->rows];
    const float *const h = stats->identity ? NULL : stats->h;
    const size_t count = l->packed.n * l->packed.k;
    float *const found = part->linear[l->role].floats, *steps;
    double own[2];
    pare_codes_values(&grid, codes, w);
    PARE_TRY(pare__run_coarse(run, &l->packed, codes, found, w, h, r));
    if (l->pruned)
        PARE_TRY(part->frozen[l->role] ? pare__run_check_zeros(run, l, w, l->step)
                                       : pare__run_freeze(run, l, w));
    pare_matrix_errors(run->cx, found, w, part->reference[l->role].floats, NULL, l->packed.n,
                       l->packed.k, own);
    measure(run, l, found, w, h, own[0], r);
    r->zeros = 1 - (double)pare__run_nonzero(w, count) / (double)count;
    PARE_TRY(pare__aware_steps_take(run, l, &steps));
    pare__aware_steps_of(codes, steps);
    if (pare_plan_learned(run->plan, l)) /* offsets leave weights close to borders of codes */
        copy_weights(run, found, part->reference[l->role].floats, count);
    pare__aware_masters(run, l, codes, found);
    PARE_TRY(pare__front_put(run, (size_t)(l - run->settled.linear), found, steps, unit));
    copy_weights(run, found, w, count);
    return l->part ? pare__front_view(run, l, w) : PARE_OK;
}

/* What else the job is to make of a linear. */
static pare_status make_variants(pare_run *run, const pare_plan_linear *l, void *site_state,
                                 const pare_site_stats *stats)
{
    const pare_variants *const v = run->plan->job->variants;
    const pare_pass_linear linear = {.w = pare__run_linear_floats(run, l),
                                     .n = l->packed.n,
                                     .k = l->packed.k,
                                     .role = l->role,
                                     .stats = stats,
                                     .h = stats->h,
                                     .outputs = pare__run_outputs(run, l),
                                     .site_state = site_state};
    return v->linear(v->self, (size_t)(l - run->settled.linear), &linear, &run->scratch);
}

static pare_status quantize(pare_run *run, const pare_plan_linear *l, void *site_state,
                            const pare_site_stats *stats, pare_unit_result *unit)
{
    if (run->plan->job->variants)
        PARE_TRY(make_variants(run, l, site_state, stats));
    const double start = pare_seconds();
    const pare_step *const step = &run->plan->recipe.step[l->step];
    pare_linear_result *const r = &unit->row[unit->rows];
    float *const w = begin_linear(run, l, stats, r);
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
                               .outputs = pare__run_outputs(run, l),
                               .site_state = site_state,
                               .pruned = l->pruned && !joint,
                               .sparsity = joint ? &l->sparsity : NULL,
                               .columns = l->packed.outliers,
                               .codes = &codes,
                               .result = r};
    const pare_hand *const hand = pare__owner_hand(run, l);
    if (hand) {
        pare__owner_quantized(hand, &linear);
    } else {
        const pare_status s =
            pare_pass_run(run->cx, pare_passes[step->pass], step->value, &linear, &run->scratch);
        if (s != PARE_OK)
            return pare_fail_context(run->cx, s, "%s", l->packed.name);
        run->team.linears++;
    }
    PARE_TRY(run->walk.front ? keep_codes(run, l, stats, &codes, w, unit)
                             : store_linear(run, l, stats, &codes, w, r));
    char pattern[PARE_SPARSITY_TEXT];
    (void)snprintf(r->step[r->steps - 1].note, PARE_NOTE, "%s",
                   joint && !linear.note[0] ? pare_sparsity_text(&l->sparsity, pattern)
                                            : linear.note);
    tell_ladder(run, r);
    r->seconds = pare_seconds() - start;
    pare__run_add_pruning(pare__run_part(run, l), l, r);
    return PARE_OK;
}

/* What a linear that nobody works on behind the training rests on. */
static void from_front(pare_run *run, const pare_plan_linear *l, pare_linear_result *r)
{
    const pare_linear_result *const front = &pare__run_part(run, l)->pruning[l->role];
    r->support = front->support;
    r->thin = front->thin;
}

/* A linear that was pruned and that nobody quantizes. */
static pare_status store_pruned(pare_run *run, const pare_plan_linear *l,
                                const pare_site_stats *stats, pare_linear_result *r)
{
    const double start = pare_seconds();
    float *const w = begin_linear(run, l, stats, r);
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(pare__run_coarse(run, &l->packed, NULL, w, NULL, NULL, r));
    PARE_TRY(pare__run_round_f16(run, l, w));
    pare_codes codes = {.n = l->packed.n, .k = l->packed.k, .groups = 1, .values = w};
    PARE_TRY(store_linear(run, l, stats, &codes, w, r));
    if (pare_plan_trains(run->plan, l))
        from_front(run, l, r);
    r->seconds = pare_seconds() - start;
    pare__run_add_pruning(pare__run_part(run, l), l, r);
    return PARE_OK;
}

/* Codes that were trained. */
static pare_status store_trained(pare_run *run, const pare_plan_linear *l,
                                 const pare_site_stats *stats, pare_linear_result *r)
{
    const double start = pare_seconds();
    float *const w = begin_linear(run, l, stats, r);
    const float *const steps =
        pare__floats_at(run, &run->trained, (size_t)(l - run->settled.linear)) +
        l->packed.n * l->packed.k;
    pare_codes codes;
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(pare__aware_codes(run, l, w, steps, &codes));
    PARE_TRY(store_linear(run, l, stats, &codes, w, r));
    from_front(run, l, r);
    r->seconds = pare_seconds() - start;
    pare__run_add_pruning(pare__run_part(run, l), l, r);
    return PARE_OK;
}

/* What a training behind this walk reads as floats. */
static pare_status keep_floats(pare_run *run, size_t i, const pare_site_stats *stats,
                               pare_unit_result *unit)
{
    const double start = pare_seconds();
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_run_part *const part = pare__run_part(run, l);
    const float *const w = begin_linear(run, l, stats, &unit->row[unit->rows]);
    pare_linear_result *const r = &unit->row[unit->rows++];
    const size_t count = l->packed.n * l->packed.k, role = l->role;
    if (!w)
        return PARE_ENOMEM;
    PARE_TRY(pare__front_put(run, i, w, NULL, unit));
    if (l->part)
        PARE_TRY(pare__front_view(run, l, w));
    r->zeros = 1 - (double)pare__run_nonzero(w, count) / (double)count;
    r->weight_error = part->done_error[role][0];
    r->output_error = part->done_error[role][1];
    r->steps = part->done_count[role];
    memcpy(r->step, part->done[role], r->steps * sizeof *r->step);
    r->seconds = pare_seconds() - start;
    pare__run_add_pruning(part, l, r);
    return PARE_OK;
}

/* Whether a linear's turn is now: once others have some of those that every token runs, first those
 * that stayed, then what came back, process by process. */
static bool is_due(const pare_run *run, const pare_plan_linear *l)
{
    if (l->part > 0)
        return true;
    return run->team.hand ? pare__owner_hand(run, l) != NULL : !pare__owner_waits(run, l);
}

/* "gptq of q_proj": of large linears each takes minutes. */
static void tell_linear(const pare_run *run, const pare_pass *pass, const pare_plan_linear *l)
{
    char what[128];
    const char *const dot = strrchr(l->packed.name, '.');
    (void)snprintf(what, sizeof what, "%s of %s", pass->name, dot ? dot + 1 : l->packed.name);
    pare_ctx_progress(run->cx, what, 0, 1);
}

/* The linears of one step at one site of a part. */
static pare_status run_site(pare_run *run, size_t block, size_t part, size_t step, pare_site site,
                            pare_site_stats *stats, pare_unit_result *unit)
{
    const pare_plan *const plan = run->plan;
    const pare_step *const st = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[st->pass];
    void *state = NULL;
    bool ready = false;
    size_t i, end;
    for (pare_plan_range(plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const bool prunes = pare_plan_prunes(l, step);
        if ((!prunes && l->step != step) || pare_plan_site(plan, l) != site || !is_due(run, l))
            continue;
        if (!pare_need_is_met(run->plan, &run->settled, st, stats)) {
            pare__run_part(run, l)->thin[l->role] = true;
            if (pare_need_trusts(st) && (part == 0 || !stats->identity)) /* scaled since, maybe */
                pare_stats_identity_hessian(stats);
        }
        stats->drift.shared = pare_plan_step_follows(plan, block, site, step);
        stats->alone = !prunes && pare_plan_is_alone(plan, l);
        const bool here = !pare__owner_hand(run, l);
        tell_linear(run, pass, l);
        if (!ready && pass->site && here) {
            const pare_status s = pass->site(run->cx, st->value, stats, &run->scratch, &state);
            if (s != PARE_OK)
                return pare_fail_context(run->cx, s, "statistics of the input of %s",
                                         l->packed.name);
        }
        ready |= here;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        PARE_TRY(prunes ? pare__run_prune(run, l, state, stats)
                        : quantize(run, l, state, stats, unit));
        unit->rows += !prunes;
        pare_arena_rewind(&run->scratch, mark);
    }
    return PARE_OK;
}

/* Those of them that are due, site after site. */
static pare_status run_due(pare_run *run, size_t block, size_t part, size_t step, unsigned sites,
                           pare_stats *stats, pare_unit_result *unit)
{
    pare_status s = PARE_OK;
    for (unsigned site = 0; s == PARE_OK && site < PARE_SITES; site++) {
        if (!(sites & (1u << site)))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        s = pare_ctx_interrupted(run->cx);
        if (s == PARE_OK)
            s = run_site(run, block, part, step, (pare_site)site, &stats->site[site], unit);
        pare_arena_rewind(&run->scratch, mark);
    }
    return s;
}

pare_status pare__run_step(pare_run *run, size_t block, size_t part, size_t step, unsigned sites,
                           pare_stats *stats, pare_unit_result *unit)
{
    if (part > 0)
        return run_due(run, block, part, step, sites, stats, unit);
    pare_status s = pare__owner_give(run, block, step, sites, stats);
    if (s == PARE_OK)
        s = run_due(run, block, part, step, sites, stats, unit);
    for (size_t r = 1; s == PARE_OK && r < pare_world_size(run->cx); r++) {
        if (!pare__owner_busy(run, r))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        s = pare__owner_collect(run, r);
        if (s == PARE_OK)
            s = run_due(run, block, part, step, sites, stats, unit);
        pare__owner_put_down(run);
        pare_arena_rewind(&run->scratch, mark);
    }
    pare__owner_drop(run);
    return s;
}

pare_status pare__run_rest(pare_run *run, size_t block, size_t part, unsigned sites,
                           const pare_stats *stats, pare_unit_result *unit)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    for (pare_plan_range(plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const pare_site site = pare_plan_site(plan, l);
        const bool aware = pare_plan_aware(plan, l);
        if (!(sites & (1u << site)) ||
            (run->walk.front ? !pare_plan_trains(plan, l) || aware : l->quantized && !aware))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        if (run->walk.front) {
            PARE_TRY(keep_floats(run, i, &stats->site[site], unit));
        } else {
            pare_linear_result *const r = &unit->row[unit->rows];
            PARE_TRY(aware ? store_trained(run, l, &stats->site[site], r)
                           : store_pruned(run, l, &stats->site[site], r));
            unit->rows++;
        }
        pare_arena_rewind(&run->scratch, mark);
    }
    return PARE_OK;
}

/* The planes that are stored, with the hashes of their row. */
static pare_status read_planes(pare_run *run, const pare_packed_linear *l,
                               const pare_linear_result *r, pare_packed_planes *p)
{
    PARE_TRY(pare_packed_take(&run->scratch, l, p));
    uint8_t hash[PARE_PLANES][16] = {{0}};
    PARE_TRY(each_plane(run, p, l->name, get, hash));
    if (memcmp(hash, r->hash, sizeof hash) != 0)
        return pare_fail(run->cx, PARE_EFORMAT, "%s: %s was damaged since it was written",
                         run->plan->place.partial, l->name);
    return PARE_OK;
}

pare_status pare__run_planes_check(pare_run *run, const pare_packed_linear *l,
                                   const pare_linear_result *r)
{
    pare_packed_planes p;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = read_planes(run, l, r, &p);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__run_restore(pare_run *run, const pare_plan_linear *l, const pare_linear_result *r,
                              bool take)
{
    pare_packed_planes p;
    PARE_TRY(read_planes(run, &l->packed, r, &p));
    if (!take)
        return PARE_OK;
    return pare__run_views(run, l) ? pare__run_stored(run, l)
                                   : adopt(run, l, &p, run->part.linear[l->role].floats);
}
