#include "compress/run/run_mixture.h"

#include <stdio.h>
#include <string.h>

#include "calib/shares.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_owner.h"
#include "compress/run/run_team.h"
#include "runtime/world.h"

/* --- tokens of experts -------------------------------------------------------------------------
 */

typedef struct counter {
    uint64_t *reach;
    size_t share, experts;
} counter;

static pare_status count_rows(void *self, size_t part, pare_site site, const float *x, size_t rows,
                              size_t k)
{
    const counter *const c = self;
    (void)site, (void)x, (void)k;
    c->reach[c->share * c->experts + part - 1] += rows;
    return PARE_OK;
}

static void next_share(void *self, bool last)
{
    counter *const c = self;
    c->share += !last;
}

/* Shares are empty below 8 windows, which one process alone has: then the sum is all there is. */
static void sum_shares(pare_run *run)
{
    const size_t experts = run->model.config.experts;
    memset(run->experts.routed, 0, experts * sizeof *run->experts.routed);
    for (size_t i = 0; i < PARE_SHARES * experts; i++)
        run->experts.routed[i % experts] += run->experts.reach[i];
}

/* What each process counted, to all. */
static void join_counts(pare_run *run)
{
    const size_t size = pare_world_size(run->cx), rank = pare_world_rank(run->cx);
    const size_t row = run->model.config.experts * sizeof *run->experts.reach;
    unsigned char *const reach = (unsigned char *)run->experts.reach;
    size_t first, end;
    if (size == 1)
        return;
    pare_share_range(size, rank, &first, &end);
    if (rank > 0)
        pare_world_send(run->cx, 0, reach + first * row, (end - first) * row);
    for (size_t r = 1; rank == 0 && r < size; r++) {
        pare_share_range(size, r, &first, &end);
        pare_world_receive(run->cx, r, reach + first * row, (end - first) * row);
    }
    pare_world_broadcast(run->cx, reach, PARE_SHARES * row);
}

pare_status pare__mixture_count(pare_run *run, size_t block)
{
    const size_t experts = run->model.config.experts;
    counter c = {.reach = run->experts.reach, .experts = experts};
    const pare_tap tap = {.see = count_rows,
                          .self = &c,
                          .last = PARE_SITE_MLP,
                          .first_part = 1,
                          .parts = experts,
                          .share = next_share};
    size_t end;
    PARE_TRY(pare__team_block(run, PARE_TEAM_COUNT, block, 0));
    memset(run->experts.reach, 0, PARE_SHARES * experts * sizeof *run->experts.reach);
    if (pare_world_size(run->cx) > 1)
        pare_share_range(pare_world_size(run->cx), pare_world_rank(run->cx), &c.share, &end);
    PARE_TRY(pare_world_agree(run->cx, pare__run_wave(run, &tap, "counting tokens of experts")));
    join_counts(run);
    sum_shares(run);
    return pare__team_end(run, PARE_OK);
}

uint64_t pare__mixture_others(const pare_run *run, size_t part, size_t share)
{
    uint64_t others = (uint64_t)pare_share_begin(run->settled.samples, share) * run->plan->window;
    for (size_t i = 0; i < share; i++)
        others -= run->experts.reach[i * run->model.config.experts + part - 1];
    return others;
}

void pare__mixture_fill_begin(pare_run *run)
{
    size_t share, end;
    pare_share_range(pare_world_size(run->cx), pare_world_rank(run->cx), &share, &end);
    for (size_t part = 1; part < run->plan->parts; part++)
        run->experts.fill[part].seen = pare__mixture_others(run, part, share);
}

/* --- linears that are stored -------------------------------------------------------------------
 */

static pare_status read_planes(pare_run *run, const pare_packed_linear *l, pare_packed_planes *p)
{
    PARE_TRY(pare_packed_take(&run->scratch, l, p));
    for (pare_plane i = 0; i < PARE_PLANES; i++) {
        char name[1024];
        (void)snprintf(name, sizeof name, "%s.%s", l->name, pare_packed_plane_name(i));
        if (p->plane[i])
            PARE_TRY(pare_packed_get(run->cx, run->writer,
                                     pare_packed_find(&run->settled.layout, name), p->plane[i]));
    }
    return PARE_OK;
}

/* As pare__run_stored, of planes in memory. */
static pare_status view(pare_run *run, const pare_plan_linear *l, const pare_packed_planes *p)
{
    pare_linear *const to = &run->experts.linear[(l->part - 1) * PARE_ROLES + l->role];
    float *const bias = to->bias;
    PARE_TRY(pare_packed_view(run->cx, &run->experts.views, &l->packed, p->plane, to));
    to->bias = to->bias ? to->bias : bias;
    return PARE_OK;
}

static pare_status spread_linear(pare_run *run, const pare_plan_linear *l, pare_status s)
{
    const bool leads = pare_world_rank(run->cx) == 0;
    pare_packed_planes p;
    if (s == PARE_OK)
        s = leads ? read_planes(run, &l->packed, &p)
                  : pare_packed_take(&run->experts.views, &l->packed, &p);
    PARE_TRY(pare_world_agree(run->cx, s));
    for (pare_plane i = 0; i < PARE_PLANES; i++)
        if (p.plane[i])
            pare_world_broadcast(run->cx, p.plane[i], (size_t)p.bytes.plane[i]);
    return leads ? PARE_OK : view(run, l, &p);
}

pare_status pare__mixture_spread(pare_run *run, size_t count, pare_status s)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t which = pare_world_rank(run->cx) ? 0 : run->experts.fresh[i];
        const pare_mark mark = pare_arena_mark(&run->scratch);
        pare_world_broadcast(run->cx, &which, sizeof which);
        s = spread_linear(run, &run->settled.linear[which], s);
        pare_arena_rewind(&run->scratch, mark);
        if (run->cx->world->ended)
            return s;
    }
    run->experts.fresh_count = 0;
    return s;
}

/* --- experts to owners -------------------------------------------------------------------------
 */

/* Who gets what, and how far each is. */
typedef struct dealt {
    size_t *owner;   /* [count] */
    size_t *next;    /* [size] the first of its experts that was not begun; count: none is left */
    size_t *current; /* [size] the one that it has */
} dealt;

static pare_status take_dealt(pare_run *run, const pare_mixture_work *work, dealt *d)
{
    const size_t size = pare_world_size(run->cx);
    *d = (dealt){PARE_NEW(&run->scratch, size_t, work->count),
                 PARE_NEW(&run->scratch, size_t, size), PARE_NEW(&run->scratch, size_t, size)};
    if (!d->owner || !d->next || !d->current)
        return PARE_ENOMEM;
    return pare__owner_deal(run, work->block, work->first, work->count, work->sites, work->stats,
                            d->owner);
}

/* The next expert of a process; count: there is none. */
static size_t begin_next(dealt *d, size_t count, size_t rank)
{
    size_t i = d->next[rank];
    while (i < count && d->owner[i] != rank)
        i++;
    d->next[rank] = i < count ? i + 1 : count;
    d->current[rank] = i;
    return i;
}

static pare_status give_next(pare_run *run, const pare_mixture_work *work, dealt *d, size_t rank,
                             pare_mixture_load *load)
{
    const size_t i = begin_next(d, work->count, rank);
    if (i == work->count)
        return PARE_OK;
    load(run, work, i);
    return pare__owner_expert(run, work->block, work->first + i + 1, rank, work->sites,
                              &work->stats[i]);
}

/* What a process has done; it gets its next expert before this one is packed. */
static pare_status finish(pare_run *run, const pare_mixture_work *work, dealt *d, size_t rank,
                          pare_mixture_load *load, pare_mixture_compress *compress)
{
    const size_t i = d->current[rank];
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_status s = pare__owner_collect(run, rank);
    if (s == PARE_OK)
        s = give_next(run, work, d, rank, load);
    if (s == PARE_OK)
        s = compress(run, work, i);
    pare__owner_put_down(run);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* In turn one expert here, and one of each of the others. */
static pare_status run_turn(pare_run *run, const pare_mixture_work *work, dealt *d,
                            pare_mixture_load *load, pare_mixture_compress *compress, bool *more)
{
    const size_t own = begin_next(d, work->count, 0);
    *more = own < work->count;
    if (*more)
        PARE_TRY(compress(run, work, own));
    for (size_t r = 1; r < pare_world_size(run->cx); r++)
        if (pare__owner_busy(run, r)) {
            PARE_TRY(finish(run, work, d, r, load, compress));
            *more = true;
        }
    return PARE_OK;
}

pare_status pare__mixture_run(pare_run *run, const pare_mixture_work *work, pare_mixture_load *load,
                              pare_mixture_compress *compress)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    dealt d;
    bool more = true;
    if (pare_world_size(run->cx) == 1) {
        for (size_t i = 0; i < work->count; i++)
            PARE_TRY(compress(run, work, i));
        return PARE_OK;
    }
    pare_status s = take_dealt(run, work, &d);
    for (size_t r = 1; s == PARE_OK && r < pare_world_size(run->cx); r++)
        s = give_next(run, work, &d, r, load);
    while (s == PARE_OK && more)
        s = run_turn(run, work, &d, load, compress, &more);
    pare__owner_drop(run);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
