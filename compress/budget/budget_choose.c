/* The greedy walk up the convex hulls: what bisection on a price per byte finds, without a price.
 */
#include "compress/budget/budget_choose.h"

#include <stdlib.h>

/* From the setting before it on the hull of its unit. */
typedef struct hull_step {
    size_t unit, to, order; /* order: along the hull */
    double slope;           /* loss saved per byte */
} hull_step;

static int by_slope(const void *a, const void *b)
{
    const hull_step *const x = a, *const y = b;
    if (x->slope != y->slope)
        return x->slope > y->slope ? -1 : 1;
    if (x->unit != y->unit)
        return x->unit < y->unit ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* The fewest bytes; of equals the least loss. */
static size_t cheapest(const pare_budget_option *o, size_t options)
{
    size_t best = 0;
    for (size_t i = 1; i < options; i++)
        if (o[i].bytes < o[best].bytes || (o[i].bytes == o[best].bytes && o[i].loss < o[best].loss))
            best = i;
    return best;
}

/* The next corner of the hull behind `from`; `from` itself at its end. */
static size_t next_corner(const pare_budget_option *o, size_t options, size_t from, double *slope)
{
    size_t best = from;
    for (size_t i = 0; i < options; i++) {
        if (o[i].bytes <= o[from].bytes || o[i].loss >= o[from].loss)
            continue;
        const double s = (o[from].loss - o[i].loss) / (double)(o[i].bytes - o[from].bytes);
        if (best == from || s > *slope || (s == *slope && o[i].bytes > o[best].bytes)) {
            best = i;
            *slope = s;
        }
    }
    return best;
}

static size_t list_steps(const pare_budget_option *option, size_t units, size_t options,
                         const size_t *start, hull_step *step)
{
    size_t steps = 0;
    for (size_t u = 0; u < units; u++) {
        const pare_budget_option *const o = option + u * options;
        double slope = 0;
        size_t at = start[u], to, order = 0;
        while ((to = next_corner(o, options, at, &slope)) != at) {
            step[steps++] = (hull_step){u, to, order++, slope};
            at = to;
        }
    }
    return steps;
}

/* The single change that saves most in `left` bytes; false when none saves anything. */
static bool best_change(const pare_budget_option *option, size_t units, size_t options,
                        const size_t *chosen, uint64_t left, size_t *unit, size_t *to)
{
    double most = 0;
    for (size_t u = 0; u < units; u++) {
        const pare_budget_option *const o = option + u * options, *const is = &o[chosen[u]];
        for (size_t i = 0; i < options; i++)
            if (is->loss - o[i].loss > most &&
                (o[i].bytes <= is->bytes || o[i].bytes - is->bytes <= left)) {
                most = is->loss - o[i].loss;
                *unit = u;
                *to = i;
            }
    }
    return most > 0;
}

pare_status pare_budget_choose(pare_ctx *cx, pare_arena *scratch, const pare_budget_option *option,
                               size_t units, size_t options, uint64_t budget, size_t *chosen,
                               uint64_t *least)
{
    uint64_t used = 0;
    for (size_t u = 0; u < units; u++) {
        chosen[u] = cheapest(option + u * options, options);
        used += option[u * options + chosen[u]].bytes;
    }
    if (least)
        *least = used;
    if (used > budget)
        return pare_fail(cx, PARE_EINVAL, "%llu bytes are too few: the least settings need %llu",
                         (unsigned long long)budget, (unsigned long long)used);
    const pare_mark mark = pare_arena_mark(scratch);
    hull_step *const step = PARE_NEW(scratch, hull_step, units * options);
    bool *const stopped = PARE_NEW(scratch, bool, units);
    if (!step || !stopped) {
        pare_arena_rewind(scratch, mark);
        return PARE_ENOMEM;
    }
    const size_t steps = list_steps(option, units, options, chosen, step);
    qsort(step, steps, sizeof *step, by_slope);
    for (size_t i = 0; i < steps; i++) {
        const pare_budget_option *const o = option + step[i].unit * options;
        size_t *const at = &chosen[step[i].unit];
        const uint64_t more = o[step[i].to].bytes - o[*at].bytes;
        stopped[step[i].unit] |= more > budget - used;
        if (stopped[step[i].unit])
            continue;
        used += more;
        *at = step[i].to;
    }
    pare_arena_rewind(scratch, mark);
    for (size_t u, to; best_change(option, units, options, chosen, budget - used, &u, &to);) {
        used = used - option[u * options + chosen[u]].bytes + option[u * options + to].bytes;
        chosen[u] = to;
    }
    return PARE_OK;
}
