#include "compress/run/run_owner.h"

#include <string.h>

#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_lots.h"
#include "compress/run/run_team.h"
#include "runtime/threads.h"
#include "runtime/world.h"

/* Work is counted in operations of products, by the rates of a machine (pare_plan_rates): a weight
 * is rounded in the time of so many, and packed, written and compared; the zeros of a pruned one
 * are looked after. */
static const double round_operations = 8, store_operations = 10, zero_operations = 160;

/* Numbers of a site beside its arrays. */
typedef struct site_head {
    uint64_t tokens, samples;
    pare_support support;
} site_head;

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
void pare__owner_move_outputs(const pare_run *run, pare_mover *move, size_t with,
                              const pare_plan_linear *l)
{
    const pare_output_curvature *const oc = &run->weights.outputs;
    if (l->part == 0 && oc->o)
        move(run->cx, with, oc->o + oc->first[l->role],
             (oc->first[l->role + 1] - oc->first[l->role]) * sizeof *oc->o);
}

/* --- what goes, and to whom --------------------------------------------------------------------
 */

bool pare__owner_prunes(const pare_plan_linear *l, size_t begin, size_t end)
{
    return l->pruned && l->prune_step >= begin && l->prune_step < end &&
           pare_plan_prunes(l, l->prune_step);
}

bool pare__owner_quantizes(const pare_plan_linear *l, size_t begin, size_t end)
{
    return l->quantized && l->step >= begin && l->step < end;
}

/* Whether another process can do these steps: weights, or codes, scales and zero points are all
 * that comes back. What stands in for inputs is not sent. Rounding takes no longer than the way. */
static bool may_go(const pare_run *run, const pare_plan_linear *l, size_t begin, size_t end,
                   const pare_stats *stats)
{
    const pare_plan *const plan = run->plan;
    const pare_site_stats *const s = &stats->site[pare_plan_site(plan, l)];
    const bool prunes = pare__owner_prunes(l, begin, end),
               quantizes = pare__owner_quantizes(l, begin, end);
    if (!run->plan->calibrated || run->walk.front || s->identity || (!prunes && !quantizes))
        return false;
    if (prunes && !pare_need_is_met(plan, &run->settled, &plan->recipe.step[l->prune_step], s))
        return false;
    if (!quantizes)
        return true;
    return l->packed.encoding == PARE_ENCODING_UNIFORM && l->packed.outliers == 0 &&
           (prunes || pare_passes[plan->recipe.step[l->step].pass]->run) &&
           pare_need_is_met(plan, &run->settled, &plan->recipe.step[l->step], s);
}

static void add_cost(const pare_run *run, const pare_plan_linear *l, size_t which, pare_lot *lot)
{
    const pare_step *const step = &run->plan->recipe.step[which];
    const pare_pass_cost cost =
        pare_passes[step->pass]->cost(step->value, l->packed.n, l->packed.k, pare_threads(run->cx));
    lot->cost += cost.flops + round_operations * cost.rounds;
    lot->shared += cost.site_flops;
}

static pare_lot lot_of(const pare_run *run, const pare_plan_linear *l, size_t begin, size_t end)
{
    pare_lot lot = {.group = pare_plan_site(run->plan, l)};
    if (pare__owner_prunes(l, begin, end))
        add_cost(run, l, l->prune_step, &lot);
    if (pare__owner_quantizes(l, begin, end))
        add_cost(run, l, l->step, &lot);
    return lot;
}

/* What process 0 does with what comes back: the error of its outputs by H, and its storage. */
static double cost_behind(const pare_plan_linear *l, const pare_stats *stats, pare_site site)
{
    const double n = (double)l->packed.n, k = (double)l->packed.k;
    return n * k * (store_operations + (l->pruned ? zero_operations : 0)) +
           (stats->site[site].h ? 4.0 * n * k * k : 0);
}

/* The linears of a part that these steps work on, by whether others can do it: those that do not go
 * count for process 0. */
typedef struct offers {
    size_t count, linear[PARE_ROLES];
    pare_lot lot[PARE_ROLES];
    double first;
} offers;

static offers offers_of(const pare_run *run, size_t block, size_t part, pare_held what,
                        unsigned sites, const pare_stats *stats)
{
    offers o = {0};
    size_t i, end;
    for (pare_plan_range(run->plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const pare_site site = pare_plan_site(run->plan, l);
        if (!(sites & (1u << site)) || (!pare__owner_prunes(l, what.begin, what.end) &&
                                        !pare__owner_quantizes(l, what.begin, what.end)))
            continue;
        const pare_lot lot = lot_of(run, l, what.begin, what.end);
        o.first += cost_behind(l, stats, site);
        if (may_go(run, l, what.begin, what.end, stats)) {
            o.linear[o.count] = i;
            o.lot[o.count++] = lot;
        } else
            o.first += lot.cost + lot.shared;
    }
    return o;
}

/* --- process 0 ---------------------------------------------------------------------------------
 */

unsigned pare__owner_sites(const pare_run *run, const pare_held *held)
{
    unsigned sites = 0;
    for (size_t i = 0; i < held->count; i++)
        sites |= 1u << pare_plan_site(run->plan, &run->settled.linear[held->linear[i]]);
    return sites;
}

static pare_status ready(pare_run *run)
{
    if (!run->team.held)
        run->team.held = PARE_NEW(run->a, pare_held, pare_world_size(run->cx));
    return run->team.held ? PARE_OK : PARE_ENOMEM;
}

static pare_status blame(pare_run *run, size_t rank, pare_solved *o)
{
    o->what[sizeof o->what - 1] = o->note[sizeof o->note - 1] = '\0';
    return o->status == PARE_OK
               ? PARE_OK
               : pare_fail(run->cx, (pare_status)o->status, "rank %zu: %s", rank, o->what);
}

/* Behind the order a process says that it has room, or what it failed of. */
static pare_status give_list(pare_run *run, size_t block, const pare_held *list, size_t to,
                             const pare_stats *stats)
{
    pare_solved o;
    const unsigned sites = pare__owner_sites(run, list);
    pare__team_linears(run, to, block, list);
    pare_world_receive(run->cx, to, &o, sizeof o);
    PARE_TRY(blame(run, to, &o));
    for (size_t i = 0; i < list->count; i++) {
        const pare_plan_linear *const l = &run->settled.linear[list->linear[i]];
        pare_world_send(run->cx, to, pare__run_linear_floats(run, l),
                        l->packed.n * l->packed.k * sizeof(float));
        pare__owner_move_outputs(run, put, to, l);
    }
    for (unsigned site = 0; site < PARE_SITES; site++)
        if (sites & (1u << site)) {
            pare_site_stats s = stats->site[site];
            pare__owner_move_site(run->cx, put, to, &s);
        }
    run->team.held[to] = *list;
    return PARE_OK;
}

pare_status pare__owner_give(pare_run *run, size_t block, size_t step, unsigned sites,
                             const pare_stats *stats)
{
    const pare_held what = {.begin = step, .end = step + 1};
    if (pare_world_size(run->cx) == 1)
        return PARE_OK;
    PARE_TRY(ready(run));
    offers o = offers_of(run, block, 0, what, sites, stats);
    pare_lots_deal(o.lot, o.count, pare_world_size(run->cx), o.first);
    for (size_t to = 1; to < pare_world_size(run->cx); to++) {
        pare_held list = what;
        for (size_t i = 0; i < o.count; i++)
            if (o.lot[i].owner == to)
                list.linear[list.count++] = o.linear[i];
        if (list.count)
            PARE_TRY(give_list(run, block, &list, to, stats));
    }
    return PARE_OK;
}

pare_status pare__owner_deal(pare_run *run, size_t block, size_t first, size_t count,
                             unsigned sites, const pare_stats *stats, size_t *owner)
{
    const pare_held what = {.end = run->plan->recipe.steps};
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_lot *const lot = PARE_NEW(&run->scratch, pare_lot, count);
    size_t lots = 0;
    double here = 0;
    PARE_TRY(ready(run));
    if (!lot)
        return PARE_ENOMEM;
    for (size_t e = 0; e < count; e++) {
        const offers o = offers_of(run, block, first + e + 1, what, sites, &stats[e]);
        owner[e] = 0;
        here += o.first;
        for (size_t i = 0; i < o.count; i++)
            lot[lots].cost += o.lot[i].cost + o.lot[i].shared;
        if (o.count)
            lot[lots++].group = e;
    }
    pare_lots_deal(lot, lots, pare_world_size(run->cx), here);
    for (size_t i = 0; i < lots; i++)
        owner[lot[i].group] = lot[i].owner;
    pare_arena_rewind(&run->scratch, mark);
    return PARE_OK;
}

pare_status pare__owner_expert(pare_run *run, size_t block, size_t part, size_t to, unsigned sites,
                               const pare_stats *stats)
{
    pare_held list = {.end = run->plan->recipe.steps};
    const offers o = offers_of(run, block, part, list, sites, stats);
    for (size_t i = 0; i < o.count; i++)
        list.linear[list.count++] = o.linear[i];
    return give_list(run, block, &list, to, stats);
}

bool pare__owner_busy(const pare_run *run, size_t rank)
{
    return run->team.held && run->team.held[rank].count > 0;
}

bool pare__owner_waits(const pare_run *run, const pare_plan_linear *l)
{
    for (size_t r = 1; run->team.held && r < pare_world_size(run->cx); r++)
        for (size_t i = 0; i < run->team.held[r].count; i++)
            if (&run->settled.linear[run->team.held[r].linear[i]] == l)
                return true;
    return false;
}

/* --- what comes back ---------------------------------------------------------------------------
 */

static pare_status take_codes(pare_run *run, const pare_plan_linear *l, pare_hand *hand)
{
    const pare_grid grid = pare_plan_grid(run->plan, l);
    return pare_codes_take(&run->scratch, &grid, l->packed.n, l->packed.k, &hand->codes);
}

static pare_status take_weights(pare_run *run, const pare_plan_linear *l, pare_hand *hand)
{
    hand->w = pare_arena_take_raw(&run->scratch, l->packed.n * l->packed.k, sizeof *hand->w);
    return hand->w ? PARE_OK : PARE_ENOMEM;
}

static void receive_codes(const pare_run *run, size_t from, pare_codes *codes)
{
    const size_t scales = codes->n * codes->groups;
    pare_world_receive(run->cx, from, codes->codes, codes->n * codes->k);
    pare_world_receive(run->cx, from, codes->scales, scales * sizeof *codes->scales);
    pare_world_receive(run->cx, from, codes->zeros, scales);
}

/* How a step came out, and, where all is well so far and there is room, what it made: `s` is how
 * all is so far. */
static pare_status receive_step(pare_run *run, size_t from, const pare_plan_linear *l, bool prunes,
                                pare_hand *hand, pare_status s)
{
    pare_solved *const o = prunes ? &hand->pruned : &hand->quantized;
    pare_world_receive(run->cx, from, o, sizeof *o);
    const pare_status made = blame(run, from, o);
    s = s == PARE_OK ? made : s;
    if (s == PARE_OK)
        s = prunes ? take_weights(run, l, hand) : take_codes(run, l, hand);
    if (made != PARE_OK)
        return s;
    const unsigned char wanted = s == PARE_OK;
    pare_world_send(run->cx, from, &wanted, sizeof wanted);
    if (wanted && prunes)
        pare_world_receive(run->cx, from, hand->w, l->packed.n * l->packed.k * sizeof(float));
    else if (wanted)
        receive_codes(run, from, &hand->codes);
    return s;
}

/* All that a process has; nothing of it is kept behind a failure. */
static pare_status collect(pare_run *run, size_t from, pare_hand *hand, pare_status s)
{
    pare_held *const held = &run->team.held[from];
    for (size_t i = 0; i < held->count; i++) {
        const pare_plan_linear *const l = &run->settled.linear[held->linear[i]];
        pare_hand *const to = &hand[l->role];
        if (pare__owner_prunes(l, held->begin, held->end))
            s = receive_step(run, from, l, true, to, s);
        if (pare__owner_quantizes(l, held->begin, held->end))
            s = receive_step(run, from, l, false, to, s);
        to->there = true;
    }
    held->count = 0;
    return s;
}

pare_status pare__owner_collect(pare_run *run, size_t rank)
{
    run->team.hand = PARE_NEW(&run->scratch, pare_hand, PARE_ROLES);
    return run->team.hand ? collect(run, rank, run->team.hand, PARE_OK) : PARE_ENOMEM;
}

void pare__owner_put_down(pare_run *run)
{
    run->team.hand = NULL;
}

const pare_hand *pare__owner_hand(const pare_run *run, const pare_plan_linear *l)
{
    const pare_hand *const hand = run->team.hand ? &run->team.hand[l->role] : NULL;
    return hand && hand->there ? hand : NULL;
}

static void take_result(const pare_solved *o, pare_pass_linear *linear)
{
    linear->result->damp = o->damp;
    linear->result->raises = o->raises;
    linear->result->f64 = o->f64;
    linear->result->dead = (size_t)o->dead;
    linear->result->fallback = o->fallback;
    memcpy(linear->note, o->note, sizeof linear->note);
}

void pare__owner_pruned(const pare_hand *hand, pare_pass_linear *linear)
{
    memcpy(linear->w, hand->w, linear->n * linear->k * sizeof *linear->w);
    take_result(&hand->pruned, linear);
}

void pare__owner_quantized(const pare_hand *hand, pare_pass_linear *linear)
{
    *linear->codes = hand->codes;
    take_result(&hand->quantized, linear);
}

void pare__owner_drop(pare_run *run)
{
    pare_hand unwanted[PARE_ROLES];
    pare__owner_put_down(run);
    for (size_t r = 1; r < pare_world_size(run->cx); r++)
        if (pare__owner_busy(run, r))
            (void)collect(run, r, unwanted, PARE_EINTERRUPTED);
}
