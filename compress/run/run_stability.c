/* How stable a choice of weights is: made anew from disjoint parts of the calibration windows. */
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"

/* Lets statistics see the rows [first, end) of each site, as the wave counts them. */
typedef struct part_tap {
    pare_tap inner;
    uint64_t first, end, seen[PARE_SITES];
} part_tap;

static pare_status see_part(void *self, size_t part, pare_site site, const float *x, size_t rows,
                            size_t k)
{
    part_tap *const t = self;
    const uint64_t at = t->seen[site], next = at + rows;
    const uint64_t begin = t->first > at ? t->first : at, end = t->end < next ? t->end : next;
    t->seen[site] = next;
    return begin < end ? t->inner.see(t->inner.self, part, site, x + (begin - at) * k,
                                      (size_t)(end - begin), k)
                       : PARE_OK;
}

static void share_part(void *self, bool last)
{
    const part_tap *const t = self;
    t->inner.share(t->inner.self, last);
}

/* The linears of one step whose choice is repeated, with what each part kept. */
typedef struct choice {
    const pare_plan_linear *linear;
    uint8_t *kept; /* [draws][n k / 8 + 1] bits */
    size_t stride;
} choice;

typedef struct repetition {
    pare_run *run;
    const pare_step *step;
    choice choice[PARE_ROLES];
    size_t choices, draws;
    unsigned kinds[PARE_SITES];
} repetition;

static pare_site site_of(const pare_run *run, const pare_plan_linear *l)
{
    return pare_plan_site(run->plan, l);
}

static pare_status find_choices(repetition *r, size_t block, size_t step, unsigned sites)
{
    pare_run *const run = r->run;
    size_t i, end;
    for (pare_plan_range(run->plan, block, 0, &i, &end); i < end; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (!pare_plan_prunes(l, step) || !(sites & (1u << site_of(run, l))))
            continue;
        choice *const c = &r->choice[r->choices++];
        c->linear = l;
        c->stride = l->packed.n * l->packed.k / 8 + 1;
        c->kept = PARE_NEW(&run->scratch, uint8_t, r->draws * c->stride);
        if (!c->kept)
            return PARE_ENOMEM;
        r->kinds[site_of(run, l)] = run->plan->kinds[site_of(run, l)];
    }
    return PARE_OK;
}

/* What one part keeps of one linear. */
static pare_status choose(const repetition *r, const choice *c, size_t part, void *state,
                          const pare_site_stats *stats)
{
    pare_run *const run = r->run;
    const size_t count = c->linear->packed.n * c->linear->packed.k;
    float *const w = PARE_NEW(&run->scratch, float, count);
    pare_linear_result unused = {0};
    if (!w)
        return PARE_ENOMEM;
    memcpy(w, run->current.linear[c->linear->role].floats, count * sizeof *w);
    pare_pass_linear linear = {.w = w,
                               .n = c->linear->packed.n,
                               .k = c->linear->packed.k,
                               .role = c->linear->role,
                               .stats = stats,
                               .h = stats->h,
                               .site_state = state,
                               .sparsity = &c->linear->sparsity,
                               .result = &unused};
    PARE_TRY(
        pare_passes[r->step->pass]->pruner->prune(run->cx, r->step->value, &linear, &run->scratch));
    uint8_t *const bits = c->kept + part * c->stride;
    for (size_t i = 0; i < count; i++)
        bits[i / 8] |= (uint8_t)((w[i] != 0) << i % 8);
    return PARE_OK;
}

static pare_status choose_site(const repetition *r, pare_site site, size_t part,
                               const pare_site_stats *stats)
{
    pare_run *const run = r->run;
    const pare_pass *const pass = pare_passes[r->step->pass];
    void *state = NULL;
    if (pass->site)
        PARE_TRY(pass->site(run->cx, r->step->value, stats, &run->scratch, &state));
    for (size_t i = 0; i < r->choices; i++) {
        if (site_of(run, r->choice[i].linear) != site)
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = choose(r, &r->choice[i], part, state, stats);
        pare_arena_rewind(&run->scratch, mark);
        if (s != PARE_OK)
            return pare_fail_context(run->cx, s, "%s", r->choice[i].linear->packed.name);
    }
    return PARE_OK;
}

static pare_status choose_part(const repetition *r, size_t part)
{
    pare_run *const run = r->run;
    const pare_plan *const plan = run->plan;
    const uint64_t first = (uint64_t)(part * run->settled.samples / r->draws) * plan->window;
    const uint64_t end = (uint64_t)((part + 1) * run->settled.samples / r->draws) * plan->window;
    pare_stats stats;
    PARE_TRY(
        pare_stats_take(run->cx, &run->scratch, &run->shape, 0, r->kinds, end - first, &stats));
    part_tap tap = {.inner = pare_stats_tap(&stats), .first = first, .end = end};
    const pare_tap outer = {
        .see = see_part, .self = &tap, .last = tap.inner.last, .parts = 1, .share = share_part};
    PARE_TRY(pare__run_wave(run, &outer, "gathering statistics of a part"));
    for (unsigned site = 0; site < PARE_SITES; site++) {
        if (!r->kinds[site])
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = choose_site(r, (pare_site)site, part, &stats.site[site]);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* |A and B| / |A or B|. */
static double agreement(const uint8_t *a, const uint8_t *b, size_t bytes)
{
    uint64_t both = 0, either = 0;
    for (size_t i = 0; i < bytes; i++) {
        both += (uint64_t)__builtin_popcount((unsigned)(a[i] & b[i]));
        either += (uint64_t)__builtin_popcount((unsigned)(a[i] | b[i]));
    }
    return either ? (double)both / (double)either : 1.0;
}

static double mean_agreement(const choice *c, size_t draws)
{
    double sum = 0;
    for (size_t a = 0; a + 1 < draws; a++)
        for (size_t b = a + 1; b < draws; b++)
            sum += agreement(c->kept + a * c->stride, c->kept + b * c->stride, c->stride);
    return sum / ((double)draws * (double)(draws - 1) / 2);
}

pare_status pare__run_stability(pare_run *run, size_t block, size_t step, unsigned sites)
{
    const size_t draws = pare_plan_draws(run->plan, step);
    repetition r = {.run = run, .step = &run->plan->recipe.step[step], .draws = draws};
    if (draws < 2)
        return PARE_OK;
    const pare_mark all = pare_arena_mark(&run->scratch);
    pare_status s = find_choices(&r, block, step, sites);
    for (size_t part = 0; s == PARE_OK && r.choices && part < draws; part++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        s = choose_part(&r, part);
        pare_arena_rewind(&run->scratch, mark);
    }
    for (size_t i = 0; s == PARE_OK && i < r.choices; i++)
        run->part.stability[r.choice[i].linear->role] = mean_agreement(&r.choice[i], draws);
    pare_arena_rewind(&run->scratch, all);
    return s;
}
