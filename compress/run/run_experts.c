/* The experts of a block, once what every token runs is compressed: passes of the wave gather the
 * statistics of as many as fit, each from the rows that the router sends there; then one after the
 * other becomes floats, runs all steps and is stored. What an expert comes to depends on no other
 * expert, so it is the same however many share a pass. */
#include <stdio.h>
#include <string.h>

#include "calib/shares.h"
#include "compress/plan/calibration_need.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_mixture.h"
#include "compress/run/run_serve.h"
#include "compress/run/run_team.h"
#include "runtime/linear.h"
#include "runtime/world.h"

/* Room for the float weights of one expert, and for what is told of all. */
pare_status pare__run_experts_take(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const pare_config *const c = &run->model.config;
    pare_arena *const a = &run->stage;
    if (!c->experts)
        return PARE_OK;
    run->experts.linear = PARE_NEW(a, pare_linear, c->experts * PARE_ROLES);
    run->experts.routed = PARE_NEW(a, uint64_t, c->experts);
    run->experts.reach = PARE_NEW(a, uint64_t, PARE_SHARES * c->experts);
    run->experts.fresh = PARE_NEW(a, size_t, c->experts * PARE_ROLES);
    run->experts.cold = PARE_NEW(a, pare_cold_policy, c->experts);
    run->experts.fill = PARE_NEW(a, pare_fill, plan->parts);
    if (!run->experts.linear || !run->experts.routed || !run->experts.reach ||
        !run->experts.fresh || !run->experts.cold || !run->experts.fill)
        return PARE_ENOMEM;
    run->experts.part.linear = run->experts.floats;
    run->experts.part.reference = run->experts.reference;
    for (size_t role = 0; plan->experts && role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 1, (pare_role)role, &n, &k);
        float **const floats = &run->experts.floats[role].floats,
                      **const reference = &run->experts.reference[role].floats;
        *floats = PARE_NEW(a, float, n *k);
        *reference = plan->reference ? PARE_NEW(a, float, n *k) : NULL;
        if (!*floats || (plan->reference && !*reference))
            return PARE_ENOMEM;
    }
    return plan->experts ? pare__run_prune_take(run, &run->experts.part, 1) : PARE_OK;
}

/* Whether the recipe takes linears of an expert; statistics are kept of all. */
static bool is_taken(const pare_run *run, size_t block, size_t part)
{
    size_t begin, end;
    pare_plan_range(run->plan, block, part, &begin, &end);
    return begin < end || run->walk.keeps;
}

/* Says which experts too few tokens reach; as many as a line holds. */
static void tell_cold(pare_run *run, size_t block)
{
    const pare_calibration *const c = &run->plan->recipe.calibration;
    const size_t experts = run->model.config.experts;
    const uint64_t least = pare_plan_min_tokens(run->plan, &run->settled);
    char list[256] = "";
    size_t count = 0, used = 0;
    for (size_t e = 0; e < experts; e++) {
        if (run->experts.cold[e] == PARE_COLD_NOT)
            continue;
        count++;
        if (used + 40 < sizeof list)
            used +=
                (size_t)snprintf(list + used, sizeof list - used, "%s%zu: %llu", used ? ", " : "",
                                 e, (unsigned long long)run->experts.routed[e]);
        else if (list[used - 1] != '.')
            used += (size_t)snprintf(list + used, sizeof list - used, ", ...");
    }
    if (count)
        pare__notify(
            run, PARE_EVENT_NOTICE,
            "%sblock %zu of %zu: %zu of %zu experts %s fewer than %llu token%s of the calibration "
            "(%s); %s",
            c->cold == PARE_COLD_RTN ? "warning: " : "", block + 1, run->plan->out.blocks, count,
            experts, count == 1 ? "gets" : "get", (unsigned long long)least, pare_plural(least),
            list,
            c->cold == PARE_COLD_RTN ? "their inputs count as white noise"
                                     : "other tokens make up for those that are missing");
}

void pare__run_experts_retell(pare_run *run, size_t block, const pare_unit_result *unit)
{
    const size_t experts = run->model.config.experts;
    if (!experts || run->plan->recipe.calibration.cold != PARE_COLD_RTN)
        return;
    memset(run->experts.cold, 0, experts * sizeof *run->experts.cold);
    for (size_t i = 0; i < unit->rows; i++) {
        const pare_linear_result *const r = &unit->row[i];
        if (r->part == 0 || r->cold == PARE_COLD_NOT)
            continue;
        run->experts.cold[r->part - 1] = r->cold;
        run->experts.routed[r->part - 1] = (uint64_t)r->tokens;
    }
    tell_cold(run, block);
}

/* Tokens that an expert sees. */
static uint64_t tokens_of(const pare_run *run, size_t e)
{
    return run->experts.routed[e] + run->experts.fill[e + 1].want;
}

/* What is gathered of an expert: nothing of a site whose linears get their plain form for want of
 * tokens. */
static void kinds_of(const pare_run *run, size_t block, size_t e, unsigned kinds[PARE_SITES])
{
    const pare_plan *const plan = run->plan;
    const bool all = run->walk.keeps || plan->kept.used || run->experts.cold[e] == PARE_COLD_RTN;
    for (unsigned site = 0; site < PARE_SITES; site++)
        kinds[site] = all || !pare_need_is_hopeless(plan, &run->settled, block, e + 1,
                                                    (pare_site)site, tokens_of(run, e))
                          ? run->walk.expert_kinds[site]
                          : 0;
}

/* Adds other tokens to those of an expert, `least` in all, unless that is still too few for each of
 * its linears. */
static void fill_up(pare_run *run, size_t block, size_t e, uint64_t least)
{
    const uint64_t all = (uint64_t)run->settled.samples * run->plan->window,
                   own = run->experts.routed[e];
    unsigned kinds[PARE_SITES], any = 0;
    run->experts.fill[e + 1] = (pare_fill){.want = least - own, .of = all - own};
    kinds_of(run, block, e, kinds);
    for (size_t site = 0; site < PARE_SITES; site++)
        any |= kinds[site];
    if (any)
        return;
    run->experts.cold[e] = PARE_COLD_NOT;
    run->experts.fill[e + 1] = (pare_fill){0};
}

/* How many tokens reach each expert of the block as it is now, or did in the model that statistics
 * were kept of, and what that means for it: none in a dense block. Those that count as white noise
 * are kept as they are. */
pare_status pare__run_experts_count(pare_run *run, size_t block)
{
    const pare_calibration *const c = &run->plan->recipe.calibration;
    const size_t experts = run->model.config.experts;
    const bool stays = run->walk.keeps && c->cold == PARE_COLD_RTN;
    const uint64_t all = (uint64_t)run->settled.samples * run->plan->window,
                   least = pare_plan_min_tokens(run->plan, &run->settled);
    run->experts.counted = true;
    if (!run->shape.experts) {
        memset(run->experts.routed, 0, experts * sizeof *run->experts.routed);
        memset(run->experts.cold, 0, experts * sizeof *run->experts.cold);
        memset(run->experts.fill, 0, run->plan->parts * sizeof *run->experts.fill);
        return PARE_OK;
    }
    if (run->plan->kept.used)
        PARE_TRY(pare_stats_group_routed(&run->kept.group, experts, all, run->experts.routed));
    else
        PARE_TRY(pare__mixture_count(run, block));
    for (size_t e = 0; e < experts; e++) {
        const uint64_t own = run->experts.routed[e];
        const bool cold = !stays && own < least && is_taken(run, block, e + 1);
        run->experts.cold[e] = cold ? c->cold : PARE_COLD_NOT;
        run->experts.fill[e + 1] = (pare_fill){0};
        if (run->experts.cold[e] == PARE_COLD_FILL)
            fill_up(run, block, e, least);
    }
    tell_cold(run, block);
    return PARE_OK;
}

/* Experts that share passes of the wave. */
typedef struct chunk {
    size_t first, count;
    pare_stats *stats;           /* [count] */
    float *identity[PARE_SITES]; /* H of sites without statistics, one for all; or NULL */
} chunk;

/* The identity in place of an H that is not gathered. */
static pare_status put_identity(pare_run *run, chunk *k, size_t e, size_t site, pare_site_stats *s)
{
    float **const h = &k->identity[site];
    if (!*h) {
        *h = PARE_NEW(&run->scratch, float, s->k * s->k);
        for (size_t j = 0; *h && j < s->k; j++)
            (*h)[j * (s->k + 1)] = 1;
    }
    s->h = *h;
    s->identity = true;
    s->tokens = s->support.tokens = tokens_of(run, e);
    return *h ? PARE_OK : PARE_ENOMEM;
}

/* Empty statistics, or those with H the identity. */
static pare_status take_stats(pare_run *run, size_t block, chunk *k)
{
    for (size_t i = 0; i < k->count; i++) {
        const size_t e = k->first + i;
        unsigned kinds[PARE_SITES];
        pare_stats *const s = &k->stats[i];
        kinds_of(run, block, e, kinds);
        PARE_TRY(pare_stats_take(run->cx, &run->scratch, &run->model.config, e + 1, kinds,
                                 tokens_of(run, e), s));
        for (size_t site = 0; site < PARE_SITES; site++)
            if (s->site[site].k && run->walk.expert_kinds[site] && !kinds[site])
                PARE_TRY(put_identity(run, k, e, site, &s->site[site]));
        if (!is_taken(run, block, e + 1))
            s->active = 0;
        if (run->experts.cold[e] != PARE_COLD_RTN)
            continue;
        for (size_t site = 0; site < PARE_SITES; site++)
            pare_stats_identity(&s->site[site]);
        s->active = 0;
    }
    return PARE_OK;
}

/* What those of the chunk that are active see. */
static pare_status see(pare_run *run, size_t block, const chunk *k, unsigned sites)
{
    for (size_t i = 0; run->plan->kept.used && i < k->count; i++)
        PARE_TRY(pare__kept_expert(run, block, k->first + i + 1, &k->stats[i]));
    if (run->plan->kept.used || !run->shape.experts)
        return PARE_OK;
    pare_stats_parts parts = {k->stats, k->first + 1, k->count};
    pare_tap tap = pare_stats_tap_parts(&parts);
    tap.fill = run->experts.fill;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    unsigned char *shares = NULL;
    pare_status s = pare__team_experts(run, block, k->first, k->count, sites);
    if (s == PARE_OK)
        s = pare__team_room(run, &parts, &shares);
    pare__mixture_fill_begin(run);
    if (s == PARE_OK)
        s = pare__run_wave(run, &tap, "gathering statistics of experts");
    s = pare__team_join(run, &parts, shares, s);
    pare_arena_rewind(&run->scratch, mark);
    return pare__team_end(run, s);
}

/* Statistics of `sites` of all experts of the chunk. */
static pare_status gather(pare_run *run, size_t block, const chunk *k, unsigned sites)
{
    unsigned any = 0;
    for (size_t i = 0; i < k->count; i++)
        any |= k->stats[i].active & sites;
    if (!any)
        return PARE_OK;
    unsigned *const wanted = PARE_NEW(&run->scratch, unsigned, k->count);
    if (!wanted)
        return PARE_ENOMEM;
    for (size_t i = 0; i < k->count; i++) {
        wanted[i] = k->stats[i].active;
        k->stats[i].active &= sites;
    }
    pare_status s = see(run, block, k, sites);
    for (size_t i = 0; i < k->count; i++) {
        if (s == PARE_OK && pare_world_rank(run->cx) == 0)
            s = pare_stats_support(&run->scratch, &k->stats[i], sites);
        k->stats[i].active = wanted[i];
    }
    return s;
}

pare_status pare__run_experts_gather(pare_run *run, size_t block, size_t first, size_t count,
                                     unsigned sites)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    chunk k = {first, count, PARE_NEW(&run->scratch, pare_stats, count), {NULL}};
    pare_status s = k.stats ? take_stats(run, block, &k) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = gather(run, block, &k, sites);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

/* Float weights of the linears of an expert that read the inputs of `sites`. */
static void load_expert(pare_run *run, size_t block, size_t part, unsigned sites)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    for (pare_plan_range(plan, block, part, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        const size_t bytes = l->packed.n * l->packed.k * sizeof(float);
        if (!(sites & (1u << pare_plan_site(plan, l))))
            continue;
        float *const w = run->experts.floats[l->role].floats;
        float *const reference = run->experts.reference[l->role].floats;
        pare_linear_to_f32(run->cx, &run->experts.linear[(part - 1) * PARE_ROLES + l->role], w);
        if (plan->training)
            pare_linear_to_f32(run->cx, pare_block_linear(&run->model.block[block], part, l->role),
                               reference);
        else if (plan->reference)
            memcpy(reference, w, bytes);
    }
}

static void load(pare_run *run, const pare_mixture_work *w, size_t i)
{
    load_expert(run, w->block, w->first + i + 1, w->sites);
}

static pare_status run_steps(pare_run *run, const pare_mixture_work *w, size_t i)
{
    const size_t part = w->first + i + 1;
    PARE_TRY(pare_ctx_interrupted(run->cx));
    load(run, w, i);
    pare__run_part_begin(&run->experts.part);
    if (run->plan->training && !run->walk.front)
        PARE_TRY(pare__front_take_over(run, w->block, part, w->sites));
    for (size_t step = run->walk.begin; step < run->walk.end; step++)
        PARE_TRY(pare__run_step(run, w->block, part, step, w->sites, &w->stats[i], w->unit));
    return pare__run_rest(run, w->block, part, w->sites, &w->stats[i], w->unit);
}

static pare_status compress_expert(pare_run *run, const pare_mixture_work *w, size_t i)
{
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = run_steps(run, w, i);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status run_sites(pare_run *run, size_t block, const chunk *k, unsigned sites,
                             pare_unit_result *unit)
{
    const pare_mixture_work work = {block, k->first, k->count, sites, k->stats, unit};
    PARE_TRY(gather(run, block, k, sites));
    return pare__mixture_run(run, &work, load, compress_expert);
}

/* How many experts from the first on fit into the memory of a chunk. */
static size_t experts_that_fit(const pare_run *run, size_t block, size_t first)
{
    enum { BESIDE = sizeof(pare_stats) + 64 }; /* as plan_memory.c counts it */
    const pare_config *const c = &run->model.config;
    const uint64_t room =
        run->settled.memory.chunk * (pare_stats_bytes(c, 1, run->plan->expert_kinds) + BESIDE);
    uint64_t used = 0;
    unsigned identities = 0;
    size_t count = 0;
    for (; first + count < c->experts; count++) {
        unsigned kinds[PARE_SITES];
        kinds_of(run, block, first + count, kinds);
        used += pare_stats_bytes(c, 1, kinds) + BESIDE;
        for (unsigned site = 0; site < PARE_SITES; site++) {
            const uint64_t k = pare_site_width(c, 1, (pare_site)site), bit = 1u << site;
            if (!run->walk.expert_kinds[site] || kinds[site] || (identities & bit))
                continue;
            used += k * k * sizeof(float) + PARE_ALIGN;
            identities |= (unsigned)bit;
        }
        if (count && used > room)
            break;
    }
    return count;
}

static pare_status run_chunk(pare_run *run, size_t block, chunk *k, pare_unit_result *unit)
{
    k->stats = PARE_NEW(&run->scratch, pare_stats, k->count);
    if (!k->stats)
        return PARE_ENOMEM;
    PARE_TRY(take_stats(run, block, k));
    if (!run->plan->sequential)
        return run_sites(run, block, k, (1u << PARE_SITES) - 1, unit);
    for (unsigned site = PARE_SITE_MLP; site < PARE_SITES; site++)
        PARE_TRY(run_sites(run, block, k, 1u << site, unit));
    return PARE_OK;
}

static pare_status keep_chunk(pare_run *run, size_t block, chunk *k)
{
    k->stats = PARE_NEW(&run->scratch, pare_stats, k->count);
    if (!k->stats)
        return PARE_ENOMEM;
    PARE_TRY(take_stats(run, block, k));
    PARE_TRY(see(run, block, k, (1u << PARE_SITES) - 1));
    for (size_t i = 0; i < k->count; i++)
        PARE_TRY(pare_stats_file_put_part(run->kept.to, &run->scratch, block, k->first + i + 1,
                                          &k->stats[i]));
    return PARE_OK;
}

pare_status pare__run_experts_keep(pare_run *run, size_t block)
{
    const size_t experts = run->model.config.experts;
    for (size_t first = 0; first < experts; first += run->settled.memory.chunk) {
        const size_t left = experts - first;
        chunk k = {.first = first,
                   .count = left < run->settled.memory.chunk ? left : run->settled.memory.chunk};
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = keep_chunk(run, block, &k);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

pare_status pare__run_experts(pare_run *run, size_t block, pare_unit_result *unit)
{
    const pare_plan *const plan = run->plan;
    const size_t experts = run->model.config.experts;
    bool counts = false;
    for (size_t site = 0; site < PARE_SITES; site++)
        counts |= run->walk.expert_kinds[site] != 0;
    if (!plan->experts)
        return PARE_OK;
    if (counts)
        PARE_TRY(pare__run_experts_count(run, block));
    chunk k = {.count = 0};
    for (size_t first = 0; first < experts; first += k.count) {
        k = (chunk){.first = first, .count = experts_that_fit(run, block, first)};
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = run_chunk(run, block, &k, unit);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}
