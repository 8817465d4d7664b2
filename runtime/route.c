/* The experts of a row:
 *
 *   e_j = (float)e^(r_j - max r), r = Router x;  p_j = (float)(e_j / sum e), the sum in double,
 *   ascending;  picked: the `used` largest p, of equal ones the lower index;  w = p, or
 *   (float)(p / sum of the picked p), the sum in double from the largest down.
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

void pare__route(float *logit, size_t n, size_t used, bool norm, uint32_t *picked, float *weight)
{
    const bool numbers = softmax(logit, n);
    double total = 0;
    for (size_t i = 0; i < used; i++) {
        const size_t j = numbers ? pare_argmax(logit, n) : i;
        picked[i] = (uint32_t)j;
        weight[i] = numbers ? logit[j] : NAN;
        total += (double)weight[i];
        logit[j] = -1; /* below every p */
    }
    for (size_t i = 0; i < used && norm; i++)
        weight[i] = (float)((double)weight[i] / total);
}

pare_status pare__routes_take(const pare_ops *o, pare_array logit, size_t used, bool norm,
                              pare_routes *r)
{
    const size_t picks = logit.rows * used;
    *r = (pare_routes){.rows = logit.rows, .experts = logit.width, .used = used, .norm = norm};
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
