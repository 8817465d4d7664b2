/* The experts of a row:
 *
 *   e_j = (float)e^(r_j - max r), r = Router x;  p_j = (float)(e_j / sum e), the sum in double,
 *   ascending;  picked: the `used` largest p, of equal ones the lower index;  w = p, or
 *   (float)(p / sum of the picked p), the sum in double from the largest down.
 *
 * With a correction b:  p_j = (float)(1 / (1 + e^-r_j)), picked by t = p + b, the sum begins at
 * 1e-20. With groups of experts, as many as lie side by side: only those of the best are picked, a
 * group being as good as its largest p, or as the sum of its two largest t; of equal groups the
 * lower is kept. A scale multiplies the weights in the end.
 *
 * Inward:  picked: the `used` largest r, of equal ones the lower index;  w = 1. The inputs of
 * experts are scaled instead (forward_experts.c).
 *
 * A row whose p are not numbers takes the experts 0 .. used - 1 with the weight NaN: it becomes NaN
 * and no other row does. */
#include <math.h>
#include <string.h>

#include "runtime/forward_internal.h"
#include "runtime/ops.h"

/* p of one row in place; whether all are numbers. */
static bool softmax(float *r, size_t n)
{
    float most = r[0];
    double total = 0;
    for (size_t i = 1; i < n; i++)
        most = r[i] > most ? r[i] : most;
    for (size_t i = 0; i < n; i++) {
        r[i] = (float)pare_exp((double)(r[i] - most));
        total += (double)r[i];
    }
    for (size_t i = 0; i < n; i++)
        r[i] = (float)((double)r[i] / total);
    return total > 0; /* not of NaN */
}

static void sigmoid(float *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        r[i] = (float)(1.0 / (1.0 + pare_exp(-(double)r[i])));
}

/* What experts are picked by. */
static float choice(const float *p, const pare_router *how, size_t j)
{
    return how->correction ? p[j] + how->correction[j] : p[j];
}

/* How good a group of experts is: its best one, or its two best. */
static double group_score(const float *p, const pare_router *how, size_t first, size_t count)
{
    double best = -INFINITY, second = -INFINITY;
    for (size_t j = first; j < first + count; j++) {
        const double t = (double)choice(p, how, j);
        second = t > best ? best : t > second ? t : second;
        best = t > best ? t : best;
    }
    return how->correction ? best + second : best;
}

/* Leaves out the experts of all groups but the best: their p becomes -1. */
static void keep_groups(float *p, size_t n, const pare_router *how)
{
    const size_t each = n / how->groups;
    for (size_t left = how->groups; left > how->groups_used; left--) {
        size_t worst = 0;
        double least = INFINITY;
        for (size_t g = 0; g < how->groups; g++) {
            const bool out = p[g * each] < 0;
            const double score = out ? INFINITY : group_score(p, how, g * each, each);
            if (!out && score <= least) {
                least = score;
                worst = g;
            }
        }
        for (size_t j = worst * each; j < (worst + 1) * each; j++)
            p[j] = -1;
    }
}

/* The expert with the largest choice that is not left out, the first of equal ones. */
static size_t best_of(const float *p, size_t n, const pare_router *how)
{
    size_t best = 0;
    float most = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        const float t = choice(p, how, j);
        if (p[j] >= 0 && t > most) {
            most = t;
            best = j;
        }
    }
    return best;
}

static bool all_numbers(const float *p, size_t n, const pare_router *how)
{
    bool numbers = true;
    for (size_t j = 0; j < n; j++)
        numbers &= isfinite(choice(p, how, j)) != 0;
    return numbers;
}

/* The largest of the logits that is none of the `count` picked. */
static size_t largest(const float *r, size_t n, const uint32_t *picked, size_t count)
{
    size_t best = 0;
    float most = -INFINITY;
    for (size_t j = 0; j < n; j++) {
        bool taken = false;
        for (size_t i = 0; i < count; i++)
            taken |= picked[i] == j;
        if (!taken && r[j] > most) {
            most = r[j];
            best = j;
        }
    }
    return best;
}

static void route_inward(const float *logit, size_t n, size_t used, uint32_t *picked, float *weight)
{
    bool numbers = true;
    for (size_t j = 0; j < n; j++)
        numbers &= isfinite(logit[j]) != 0;
    for (size_t i = 0; i < used; i++) {
        picked[i] = (uint32_t)(numbers ? largest(logit, n, picked, i) : i);
        weight[i] = numbers ? 1 : NAN;
    }
}

void pare__route(float *logit, size_t n, const pare_router *how, uint32_t *picked, float *weight)
{
    if (how->inward) {
        route_inward(logit, n, how->used, picked, weight);
        return;
    }
    bool numbers;
    double total = how->correction ? 1e-20 : 0;
    if (how->correction) {
        sigmoid(logit, n);
        numbers = all_numbers(logit, n, how);
    } else {
        numbers = softmax(logit, n);
    }
    if (numbers && how->groups)
        keep_groups(logit, n, how);
    for (size_t i = 0; i < how->used; i++) {
        const size_t j = numbers ? best_of(logit, n, how) : i;
        picked[i] = (uint32_t)j;
        weight[i] = numbers ? logit[j] : NAN;
        total += (double)weight[i];
        logit[j] = -1; /* below every p */
    }
    for (size_t i = 0; i < how->used && how->norm; i++)
        weight[i] = (float)((double)weight[i] / total);
    for (size_t i = 0; i < how->used && how->scale > 0; i++)
        weight[i] = (float)((double)weight[i] * how->scale);
}

pare_status pare__routes_take(const pare_ops *o, pare_array logit, const pare_router *how,
                              pare_routes *r)
{
    const size_t picks = logit.rows * how->used;
    *r = (pare_routes){
        .rows = logit.rows, .experts = logit.width, .used = how->used, .router = *how};
    r->picked = pare_arena_take_raw(o->scratch, picks, sizeof *r->picked);
    r->weight = pare_arena_take_raw(o->scratch, picks, sizeof *r->weight);
    r->visit = pare_arena_take_raw(o->scratch, picks, sizeof *r->visit);
    r->start = PARE_NEW(o->scratch, size_t, r->experts + 1);
    return r->picked && r->weight && r->visit && r->start ? PARE_OK : PARE_ENOMEM;
}

/* Of one expert rows stay in order. */
void pare__routes_sort(pare_routes *r)
{
    const size_t picks = r->rows * r->used;
    for (size_t i = 0; i < picks; i++)
        r->start[r->picked[i] + 1]++;
    for (size_t j = 0; j < r->experts; j++)
        r->start[j + 1] += r->start[j];
    /* Filling moves every start to its end, which is the start of the next. */
    for (size_t i = 0; i < picks; i++)
        r->visit[r->start[r->picked[i]]++] = (pare_visit){(uint32_t)(i / r->used), r->weight[i]};
    memmove(r->start + 1, r->start, r->experts * sizeof *r->start);
    r->start[0] = 0;
}
