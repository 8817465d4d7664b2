#include "compress/run/run_owner.h"

#include <stdio.h>
#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_team.h"
#include "runtime/world.h"

/* Numbers of a site beside its arrays. */
typedef struct site_head {
    uint64_t tokens, samples;
    pare_support support;
} site_head;

/* Whether another process can quantize it: codes, scales and zero points are all there is. */
static bool may_go(const pare_run *run, const pare_plan_linear *l, size_t step)
{
    return run->walk.calibrated && l->part == 0 && l->quantized && l->step == step &&
           !run->walk.front && !(l->pruned && l->prune_step == step) &&
           l->packed.encoding == PARE_ENCODING_UNIFORM && l->packed.outliers == 0 &&
           pare_passes[run->plan->recipe.step[step].pass]->run;
}

/* --- a site on its way -------------------------------------------------------------------------
 */

static void put(const pare_ctx *cx, size_t to, void *bytes, size_t count)
{
    pare_world_send(cx, to, bytes, count);
}

/* Both sides have the same kinds of statistics. */
void pare__owner_move_site(const pare_ctx *cx, pare_mover *move, size_t with, pare_site_stats *s)
{
    const size_t k = s->k, square = k * k * sizeof(float);
    site_head head = {s->tokens, s->samples, s->support};
    float *const vector[] = {s->absmax, s->absmean, s->mean, s->min, s->max};
    move(cx, with, &head, sizeof head);
    s->tokens = head.tokens;
    s->samples = (size_t)head.samples;
    s->support = head.support;
    if (s->h)
        move(cx, with, s->h, square);
    if (s->held)
        move(cx, with, s->held, square);
    if (s->drift.d)
        move(cx, with, s->drift.d, square);
    for (size_t v = 0; s->absmax && v < sizeof vector / sizeof *vector; v++)
        move(cx, with, vector[v], k * sizeof(float));
    if (s->absmax) {
        move(cx, with, s->sum, k * sizeof *s->sum);
        move(cx, with, s->abs_sum, k * sizeof *s->abs_sum);
    }
    if (s->sample)
        move(cx, with, s->sample, PARE_STATS_ROWS * k * sizeof *s->sample);
}

/* Curvature of the outputs of a linear, where it is known. */
void pare__owner_move_outputs(const pare_run *run, pare_mover *move, size_t with, pare_role role)
{
    const pare_output_curvature *const oc = &run->weights.outputs;
    if (oc->o)
        move(run->cx, with, oc->o + oc->first[role],
             (oc->first[role + 1] - oc->first[role]) * sizeof *oc->o);
}

static float *floats_of(pare_run *run, const pare_plan_linear *l)
{
    return run->current.linear[l->role].floats;
}

/* --- process 0 ---------------------------------------------------------------------------------
 */

static double cost_of(const pare_plan_linear *l)
{
    const double n = (double)l->packed.n, k = (double)l->packed.k;
    return k * k * (k + n);
}

static bool goes(const pare_run *run, size_t i, size_t step, unsigned sites)
{
    const pare_plan_linear *const l = &run->settled.linear[i];
    return may_go(run, l, step) && (sites & (1u << pare_plan_site(run->plan, l)));
}

static size_t count_to_go(const pare_run *run, size_t i, size_t end, size_t step, unsigned sites)
{
    size_t count = 0;
    for (; i < end; i++)
        count += goes(run, i, step, sites);
    return count;
}

/* The dearest linear of [i, end) that may go and has no owner yet; end: none. */
static size_t next_to_go(const pare_run *run, size_t i, size_t end, size_t step, unsigned sites,
                         const bool *placed)
{
    size_t best = end;
    for (; i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (goes(run, i, step, sites) && !placed[l->role] &&
            (best == end || cost_of(l) > cost_of(&run->settled.linear[best])))
            best = i;
    }
    return best;
}

/* Behind the order a process says that it has room, or what it failed of. */
static pare_status is_ready(pare_run *run, size_t from)
{
    pare_solved o;
    pare_world_receive(run->cx, from, &o, sizeof o);
    o.what[sizeof o.what - 1] = '\0';
    return o.status == PARE_OK
               ? PARE_OK
               : pare_fail(run->cx, (pare_status)o.status, "rank %zu: %s", from, o.what);
}

static pare_status give_linear(pare_run *run, size_t block, size_t i, size_t to, pare_site_stats *s)
{
    const pare_plan_linear *const l = &run->settled.linear[i];
    pare__team_linear(run, to, block, i);
    PARE_TRY(is_ready(run, to));
    pare_world_send(run->cx, to, floats_of(run, l), l->packed.n * l->packed.k * sizeof(float));
    pare__owner_move_site(run->cx, put, to, s);
    pare__owner_move_outputs(run, put, to, l->role);
    run->team.away[l->role] = to;
    return PARE_OK;
}

pare_status pare__owner_give(pare_run *run, size_t block, size_t step, unsigned sites,
                             const pare_stats *stats)
{
    bool placed[PARE_ROLES] = {false};
    size_t first, end;
    if (pare_world_size(run->cx) == 1)
        return PARE_OK;
    for (unsigned site = 0; site < PARE_SITES; site++) /* what stands in for inputs is not sent */
        if (!pare_need_is_met(run->plan, &run->settled, &run->plan->recipe.step[step],
                              &stats->site[site]) ||
            stats->site[site].identity)
            sites &= ~(1u << site);
    pare_plan_range(run->plan, block, 0, &first, &end);
    const size_t all = count_to_go(run, first, end, step, sites);
    for (size_t to = 1; to < pare_world_size(run->cx) && to < all; to++) {
        const size_t i = next_to_go(run, first, end, step, sites, placed);
        const pare_plan_linear *const l = &run->settled.linear[i];
        pare_site_stats site = stats->site[pare_plan_site(run->plan, l)];
        placed[l->role] = true;
        PARE_TRY(give_linear(run, block, i, to, &site));
    }
    return PARE_OK;
}

bool pare__owner_has(const pare_run *run, const pare_plan_linear *l)
{
    return l->part == 0 && run->team.away[l->role] > 0;
}

/* Whether the codes are to be sent. */
static void answer(const pare_run *run, size_t to, bool wanted)
{
    const unsigned char byte = wanted;
    pare_world_send(run->cx, to, &byte, sizeof byte);
}

static void receive_codes(const pare_run *run, size_t from, pare_codes *codes)
{
    const size_t scales = codes->n * codes->groups;
    pare_world_receive(run->cx, from, codes->codes, codes->n * codes->k);
    pare_world_receive(run->cx, from, codes->scales, scales * sizeof *codes->scales);
    pare_world_receive(run->cx, from, codes->zeros, scales);
}

pare_status pare__owner_take(pare_run *run, const pare_plan_linear *l, pare_pass_linear *linear)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    const size_t from = run->team.away[l->role];
    pare_solved o;
    run->team.away[l->role] = 0;
    pare_world_receive(run->cx, from, &o, sizeof o);
    o.what[sizeof o.what - 1] = o.note[sizeof o.note - 1] = '\0';
    if (o.status != PARE_OK)
        return pare_fail(run->cx, (pare_status)o.status, "rank %zu: %s", from, o.what);
    const pare_status s =
        pare_codes_take(&run->scratch, &grid, l->packed.n, l->packed.k, linear->codes);
    answer(run, from, s == PARE_OK);
    PARE_TRY(s);
    receive_codes(run, from, linear->codes);
    linear->result->damp = o.damp;
    linear->result->raises = o.raises;
    linear->result->f64 = o.f64;
    linear->result->dead = (size_t)o.dead;
    linear->result->fallback = o.fallback;
    memcpy(linear->note, o.note, sizeof linear->note);
    return PARE_OK;
}

void pare__owner_drop(pare_run *run)
{
    pare_solved o;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        if (!run->team.away[role])
            continue;
        pare_world_receive(run->cx, run->team.away[role], &o, sizeof o);
        if (o.status == PARE_OK)
            answer(run, run->team.away[role], false);
        run->team.away[role] = 0;
    }
}
