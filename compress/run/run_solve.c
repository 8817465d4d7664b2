/* Linears that process 0 gives away (compress/run/run_owner.h), where they go to. */
#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_owner.h"
#include "compress/run/run_serve.h"
#include "runtime/world.h"

/* A list at work. */
typedef struct work {
    pare_held held;
    pare_stats stats;
    pare_hand *hand; /* [count] what is sent back: codes in room of their own, weights in place */
} work;

static void get(const pare_ctx *cx, size_t from, void *bytes, size_t count)
{
    pare_world_receive(cx, from, bytes, count);
}

static const pare_plan_linear *linear_at(const pare_run *run, const work *job, size_t i)
{
    return &run->settled.linear[job->held.linear[i]];
}

static pare_status take_stats(pare_run *run, size_t block, size_t part, unsigned sites,
                              pare_stats *out)
{
    unsigned kinds[PARE_SITES];
    pare_block_config(&run->model.config, block, &run->shape);
    if (part == 0)
        return pare__run_take_sites(run, sites, out);
    for (unsigned site = 0; site < PARE_SITES; site++)
        kinds[site] = sites & (1u << site) ? run->plan->expert_kinds[site] : 0;
    return pare_stats_take(run->cx, &run->scratch, &run->model.config, part, kinds, 1, out);
}

static pare_status take_room(pare_run *run, work *job)
{
    job->hand = PARE_NEW(&run->scratch, pare_hand, job->held.count);
    if (!job->hand)
        return PARE_ENOMEM;
    for (size_t i = 0; i < job->held.count; i++) {
        const pare_plan_linear *const l = linear_at(run, job, i);
        const pare_grid grid = pare_plan_grid(run->plan, l);
        job->hand[i].w = pare__run_linear_floats(run, l);
        if (pare__owner_quantizes(l, job->held.begin, job->held.end))
            PARE_TRY(pare_codes_take(&run->scratch, &grid, l->packed.n, l->packed.k,
                                     &job->hand[i].codes));
    }
    const pare_plan_linear *const first = linear_at(run, job, 0);
    return take_stats(run, first->block, first->part, pare__owner_sites(run, &job->held),
                      &job->stats);
}

static void keep_codes(const pare_codes *from, pare_codes *to)
{
    const size_t scales = from->n * from->groups;
    memcpy(to->codes, from->codes, from->n * from->k);
    memcpy(to->scales, from->scales, scales * sizeof *to->scales);
    memcpy(to->zeros, from->zeros, scales);
}

static void record(const pare_pass_linear *linear, pare_solved *out)
{
    const pare_linear_result *const r = linear->result;
    *out = (pare_solved){.damp = r->damp,
                         .dead = r->dead,
                         .raises = r->raises,
                         .f64 = r->f64,
                         .fallback = r->fallback};
    memcpy(out->note, linear->note, sizeof out->note);
}

/* One step on a linear, as process 0 does it (run_prune.c, run_linear.c). */
static pare_status run_step(pare_run *run, const pare_plan_linear *l, size_t which, void *state,
                            const pare_site_stats *s, pare_hand *hand)
{
    const pare_step *const step = &run->plan->recipe.step[which];
    const pare_pass *const pass = pare_passes[step->pass];
    const bool prunes = pare_plan_prunes(l, which), joint = l->pruned && l->prune_step == l->step;
    const size_t count = l->packed.n * l->packed.k;
    float *const w = prunes ? hand->w : pare_arena_take_raw(&run->scratch, count, sizeof *hand->w);
    pare_linear_result r = {.linear = l->packed, .block = l->block, .method = pass->name};
    pare_codes codes = {0};
    if (!w)
        return PARE_ENOMEM;
    pare_pass_linear linear = {.w = w,
                               .n = l->packed.n,
                               .k = l->packed.k,
                               .role = l->role,
                               .stats = s,
                               .h = s->h,
                               .site_state = state,
                               .result = &r};
    r.support = s->support;
    if (prunes) {
        linear.sparsity = &l->sparsity;
        PARE_TRY(pass->pruner->prune(run->cx, step->value, &linear, &run->scratch));
        record(&linear, &hand->pruned);
        run->team.linears++;
        return PARE_OK;
    }
    memcpy(w, hand->w, count * sizeof *w);
    linear.outputs = pare__run_outputs(run, l);
    linear.pruned = l->pruned && !joint;
    linear.sparsity = joint ? &l->sparsity : NULL;
    linear.columns = l->packed.outliers;
    linear.codes = &codes;
    PARE_TRY(pare_pass_run(run->cx, pass, step->value, &linear, &run->scratch));
    record(&linear, &hand->quantized);
    keep_codes(&codes, &hand->codes);
    run->team.linears++;
    return PARE_OK;
}

/* A step on the linears that read a site. */
static pare_status run_site(pare_run *run, work *job, size_t which, pare_site site)
{
    const pare_step *const step = &run->plan->recipe.step[which];
    const pare_pass *const pass = pare_passes[step->pass];
    pare_site_stats *const s = &job->stats.site[site];
    void *state = NULL;
    bool ready = !pass->site;
    for (size_t i = 0; i < job->held.count; i++) {
        const pare_plan_linear *const l = linear_at(run, job, i);
        const bool prunes = pare_plan_prunes(l, which);
        if ((!prunes && l->step != which) || pare_plan_site(run->plan, l) != site)
            continue;
        PARE_TRY(pare_ctx_interrupted(run->cx));
        s->alone = !prunes && pare_plan_is_alone(run->plan, l);
        if (!ready) {
            const pare_status made = pass->site(run->cx, step->value, s, &run->scratch, &state);
            if (made != PARE_OK)
                return pare_fail_context(run->cx, made, "statistics of the input of %s",
                                         l->packed.name);
        }
        ready = true;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status made = run_step(run, l, which, state, s, &job->hand[i]);
        pare_arena_rewind(&run->scratch, mark);
        if (made != PARE_OK)
            return pare_fail_context(run->cx, made, "%s", l->packed.name);
    }
    return PARE_OK;
}

static pare_status run_all(pare_run *run, work *job)
{
    pare_status s = PARE_OK;
    for (size_t step = job->held.begin; s == PARE_OK && step < job->held.end; step++)
        for (unsigned site = 0; s == PARE_OK && site < PARE_SITES; site++) {
            const pare_mark mark = pare_arena_mark(&run->scratch);
            s = run_site(run, job, step, (pare_site)site);
            pare_arena_rewind(&run->scratch, mark);
        }
    return s;
}

static void send_codes(const pare_run *run, const pare_codes *codes)
{
    const size_t scales = codes->n * codes->groups;
    pare_world_send(run->cx, 0, codes->codes, codes->n * codes->k);
    pare_world_send(run->cx, 0, codes->scales, scales * sizeof *codes->scales);
    pare_world_send(run->cx, 0, codes->zeros, scales);
}

/* How it came out: as `o` has it, or what the list failed of. */
static void tell(const pare_run *run, pare_status s, pare_solved *o)
{
    o->status = (int32_t)s;
    if (s != PARE_OK)
        (void)snprintf(o->what, sizeof o->what, "%s",
                       run->cx->what[0] ? run->cx->what : pare_strstatus(s));
    pare_world_send(run->cx, 0, o, sizeof *o);
}

/* Whether process 0 wants what was made. */
static bool is_wanted(const pare_run *run, pare_status s, pare_solved *o)
{
    unsigned char wanted = 0;
    tell(run, s, o);
    if (s == PARE_OK)
        pare_world_receive(run->cx, 0, &wanted, sizeof wanted);
    return wanted;
}

static void send_back(const pare_run *run, const work *job, pare_status s)
{
    for (size_t i = 0; i < job->held.count; i++) {
        const pare_plan_linear *const l = linear_at(run, job, i);
        pare_hand *const hand = &job->hand[i];
        if (pare__owner_prunes(l, job->held.begin, job->held.end) &&
            is_wanted(run, s, &hand->pruned))
            pare_world_send(run->cx, 0, hand->w, l->packed.n * l->packed.k * sizeof *hand->w);
        if (pare__owner_quantizes(l, job->held.begin, job->held.end) &&
            is_wanted(run, s, &hand->quantized))
            send_codes(run, &hand->codes);
    }
}

static void solve(pare_run *run)
{
    work job = {0};
    pare_solved o = {0};
    pare_world_receive(run->cx, 0, &job.held, sizeof job.held);
    pare_status s = take_room(run, &job);
    tell(run, s, &o);
    if (s != PARE_OK)
        return;
    for (size_t i = 0; i < job.held.count; i++) {
        const pare_plan_linear *const l = linear_at(run, &job, i);
        pare_world_receive(run->cx, 0, job.hand[i].w, l->packed.n * l->packed.k * sizeof(float));
        pare__owner_move_outputs(run, get, 0, l);
    }
    const unsigned sites = pare__owner_sites(run, &job.held);
    for (unsigned site = 0; site < PARE_SITES; site++)
        if (sites & (1u << site))
            pare__owner_move_site(run->cx, get, 0, &job.stats.site[site]);
    s = run_all(run, &job);
    send_back(run, &job, s);
}

void pare__run_solve(pare_run *run)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    solve(run);
    pare_arena_rewind(&run->scratch, mark);
}
