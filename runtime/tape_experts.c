/* Back through experts: rows that were sorted to them, the weights that the router gave, the share
 * of the MLP that every token runs; and through the gate of attention. */
#include <string.h>

#include "runtime/tape_internal.h"
#include "runtime/threads.h"

/* Arguments of the loops over rows. */
typedef struct row_call {
    const pare_step *s;
    const pare_visit *visit;
    const float *x, *dy, *gate;
    float *dx, *dgate;
    size_t rows, width;
} row_call;

static void for_rows(const pare_tape *t, pare_task *task, row_call *r, size_t work)
{
    if (!t->dry)
        pare_parallel(t->inner.cx, r->rows, pare__chunk(r->width * work), task, r);
}

static double dot(const float *a, const float *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* Rows of an expert differ. */
static void undo_gather_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++)
        pare_add(r->dx + r->visit[i].row * r->width, r->dy + i * r->width, r->width);
}

static const pare_visit *visits_of(const pare_step *s)
{
    const pare_routes *const to = &s->route->routes;
    return to->visit ? to->visit + to->start[s->expert] : NULL; /* NULL in a dry run */
}

pare_status pare__tape_gather(pare_tape *t, const pare_step *s)
{
    row_call r = {.visit = visits_of(s), .rows = s->y.rows, .width = s->y.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.dx));
    r.dy = dy;
    for_rows(t, undo_gather_rows, &r, 1);
    return pare__tape_release(t, s->y);
}

static void undo_scatter_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_routes *const to = &r->s->route->routes;
    for (size_t i = begin; i < end; i++) {
        const size_t row = r->visit[i].row, first = row * to->used;
        const float *const dy = r->dy + row * r->width;
        for (size_t j = 0; j < r->width; j++)
            r->dx[i * r->width + j] += r->visit[i].weight * dy[j];
        for (size_t j = first; j < first + to->used; j++)
            if (to->picked[j] == r->s->expert)
                r->s->route->dweight[j] = (float)dot(dy, r->x + i * r->width, r->width);
    }
}

pare_status pare__tape_scatter(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .visit = visits_of(s), .x = s->x.at};
    float *dy;
    r.rows = s->x.rows;
    r.width = s->x.width;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.dx));
    r.dy = dy;
    for_rows(t, undo_scatter_rows, &r, 2);
    return PARE_OK;
}

/* What a row gives to the weights of its experts before their scale. */
static double given(const pare_routes *to, const float *dw, size_t j)
{
    return (to->router.scale > 0 ? to->router.scale : 1) * (double)dw[j];
}

/* The sum of weights times what they are given. */
static double sum_given(const pare_routes *to, size_t row, const float *dw)
{
    double sum = 0;
    for (size_t j = 0; j < to->used; j++)
        sum += (double)to->weight[row * to->used + j] * (double)dw[j];
    return sum;
}

/* As undo_route_row, for sigmoids: each depends on its own logit. */
static void undo_sigmoid_row(const pare_routes *to, size_t row, const float *logit, const float *dw,
                             float *d)
{
    const uint32_t *const picked = to->picked + row * to->used;
    const double shared = sum_given(to, row, dw);
    double total = 1e-20;
    for (size_t j = 0; j < to->used; j++)
        total += 1.0 / (1.0 + pare_exp(-(double)logit[picked[j]]));
    for (size_t j = 0; j < to->used; j++) {
        const double p = 1.0 / (1.0 + pare_exp(-(double)logit[picked[j]]));
        const double dp = to->router.norm ? (given(to, dw, j) - shared) / total : given(to, dw, j);
        d[picked[j]] += (float)(dp * p * (1 - p));
    }
}

/* dlogit of one row; dw [used] that of the weights of the picked. */
static void undo_route_row(const pare_routes *to, size_t row, const float *logit, const float *dw,
                           float *d)
{
    const uint32_t *const picked = to->picked + row * to->used;
    const double shared = sum_given(to, row, dw);
    double most = (double)logit[0], total = 0, share = 0, mean = 0;
    for (size_t e = 1; e < to->experts; e++)
        most = (double)logit[e] > most ? (double)logit[e] : most;
    for (size_t e = 0; e < to->experts; e++)
        total += pare_exp((double)logit[e] - most);
    for (size_t j = 0; j < to->used; j++)
        share += pare_exp((double)logit[picked[j]] - most) / total;
    for (size_t j = 0; j < to->used; j++) {
        const double p = pare_exp((double)logit[picked[j]] - most) / total;
        mean += p * (to->router.norm ? (given(to, dw, j) - shared) / share : given(to, dw, j));
    }
    for (size_t e = 0; e < to->experts; e++)
        d[e] -= (float)(pare_exp((double)logit[e] - most) / total * mean);
    for (size_t j = 0; j < to->used; j++) {
        const double p = pare_exp((double)logit[picked[j]] - most) / total;
        d[picked[j]] +=
            (float)(p * (to->router.norm ? (given(to, dw, j) - shared) / share : given(to, dw, j)));
    }
}

static void undo_route_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    const pare_routes *const to = &r->s->routes;
    for (size_t i = begin; i < end; i++)
        (to->router.correction ? undo_sigmoid_row : undo_route_row)(
            to, i, r->x + i * r->width, r->s->dweight + i * to->used, r->dx + i * r->width);
}

pare_status pare__tape_route(pare_tape *t, const pare_step *s)
{
    row_call r = {.s = s, .x = s->x.at, .rows = s->x.rows, .width = s->x.width};
    PARE_TRY(pare__tape_d(t, s->x, &r.dx));
    if (!s->routes.router.inward) /* else weights are 1 */
        for_rows(t, undo_route_rows, &r, 24);
    return PARE_OK;
}

static void undo_share_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin; i < end; i++) {
        const float *const dy = r->dy + i * r->width;
        const double s = 1.0 / (1.0 + pare_exp(-(double)r->gate[i]));
        for (size_t j = 0; j < r->width; j++)
            r->dx[i * r->width + j] += (float)s * dy[j];
        r->dgate[i] += (float)(dot(dy, r->x + i * r->width, r->width) * s * (1.0 - s));
    }
}

/* The same in place, with a gate for each channel: dx is dy, times s. */
static void undo_gated_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const row_call *const r = arg;
    for (size_t i = begin * r->width; i < end * r->width; i++) {
        const double s = 1.0 / (1.0 + pare_exp(-(double)r->gate[i]));
        const double dy = (double)r->dx[i];
        r->dgate[i] += (float)(dy * (double)r->x[i] * s * (1.0 - s));
        r->dx[i] = (float)(dy * s);
    }
}

pare_status pare__tape_share(pare_tape *t, const pare_step *s)
{
    row_call r = {.x = s->x.at, .gate = s->other.at, .rows = s->x.rows, .width = s->x.width};
    float *dy;
    PARE_TRY(pare__tape_d(t, s->y, &dy));
    PARE_TRY(pare__tape_d(t, s->x, &r.dx));
    PARE_TRY(pare__tape_d(t, s->other, &r.dgate));
    r.dy = dy;
    if (s->x.slot == s->y.slot) {
        for_rows(t, undo_gated_rows, &r, 24);
        return PARE_OK;
    }
    for_rows(t, undo_share_rows, &r, 2);
    return pare__tape_release(t, s->y);
}
