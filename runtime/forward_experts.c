/* The experts of a block:  out[t] += sum w[t, e] Down_e(act(Gate_e x[t]) * Up_e x[t])  over the
 * experts e that the router picked for row t.
 *
 *   e_j = (float)e^(r_j - max r), r = Router x;  p_j = (float)(e_j / sum e), the sum in double,
 *   ascending;  picked: the `used` largest p, of equal ones the lower index;  w = p, or
 *   (float)(p / sum of the picked p), the sum in double from the largest down.
 *
 * A row whose p are not numbers takes the experts 0 .. used - 1 with the weight NaN: it becomes NaN
 * and no other row does. Rows are sorted by expert, so that each expert is one product; experts run
 * in ascending order, a row's sum therefore has one order, whatever else is in the batch. */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/forward_internal.h"
#include "runtime/linear.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

/* A row that an expert runs. */
typedef struct visit {
    uint32_t row;
    float weight;
} visit;

/* The state of one call. */
typedef struct experts {
    pare_ctx *cx;
    pare_arena *scratch;
    const pare_forward *f;
    const pare_config *c;
    const pare_block *weights;
    const pare_tap *tap;
    const float *x; /* [rows, hidden] */
    float *out;     /* [rows, hidden] */
    size_t rows;
    float *logit;     /* [rows, experts] */
    uint32_t *picked; /* [rows, used] */
    float *weight;    /* [rows, used] */
    visit *visit;     /* [rows used] by expert, then row */
    size_t *start;    /* [experts + 1] of visit */
    size_t expert;    /* the one that runs */
    float *in, *gate, *up;
} experts;

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

static void route_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const experts *const e = arg;
    const size_t used = e->c->experts_used;
    for (size_t t = begin; t < end; t++)
        pare__route(e->logit + t * e->c->experts, e->c->experts, used, e->c->expert_norm,
                    e->picked + t * used, e->weight + t * used);
}

/* Sorts what was picked by expert; of one expert rows stay in order. */
static void sort_visits(experts *e)
{
    const size_t picks = e->rows * e->c->experts_used;
    for (size_t i = 0; i < picks; i++)
        e->start[e->picked[i] + 1]++;
    for (size_t j = 0; j < e->c->experts; j++)
        e->start[j + 1] += e->start[j];
    /* Filling moves every start to its end, which is the start of the next. */
    for (size_t i = 0; i < picks; i++)
        e->visit[e->start[e->picked[i]]++] =
            (visit){(uint32_t)(i / e->c->experts_used), e->weight[i]};
    memmove(e->start + 1, e->start, e->c->experts * sizeof *e->start);
    e->start[0] = 0;
}

static pare_status route(experts *e)
{
    const pare_config *const c = e->c;
    const size_t picks = e->rows * c->experts_used;
    e->logit = pare_arena_take_raw(e->scratch, e->rows, c->experts * sizeof *e->logit);
    e->picked = pare_arena_take_raw(e->scratch, picks, sizeof *e->picked);
    e->weight = pare_arena_take_raw(e->scratch, picks, sizeof *e->weight);
    e->visit = pare_arena_take_raw(e->scratch, picks, sizeof *e->visit);
    e->start = PARE_NEW(e->scratch, size_t, c->experts + 1);
    if (!e->logit || !e->picked || !e->weight || !e->visit || !e->start)
        return PARE_ENOMEM;
    PARE_TRY(pare_linear_apply(e->cx, e->scratch, &e->weights->router, e->f->exact, e->x, c->hidden,
                               e->rows, e->logit, c->experts));
    pare_parallel(e->cx, e->rows, pare__chunk(c->experts * 16), route_rows, e);
    sort_visits(e);
    return PARE_OK;
}

static bool sees_all(const experts *e, size_t expert)
{
    return pare__stops(e->tap) && e->tap->all_rows && e->tap->all_rows[expert + 1];
}

/* Rows that an expert runs in this call. */
static size_t rows_of(const experts *e, size_t expert)
{
    if (pare__stops(e->tap) && !pare__shows(e->tap, expert + 1))
        return 0;
    return sees_all(e, expert) ? e->rows : e->start[expert + 1] - e->start[expert];
}

static void gather_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const experts *const e = arg;
    const size_t hidden = e->c->hidden;
    const visit *const v = e->visit + e->start[e->expert];
    for (size_t i = begin; i < end; i++)
        memcpy(e->in + i * hidden, e->x + v[i].row * hidden, hidden * sizeof *e->in);
}

static void activate_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const experts *const e = arg;
    const size_t width = e->c->expert_width;
    pare__activate(&e->cx->kernels, e->c->act, e->gate + begin * width, e->up + begin * width,
                   (end - begin) * width);
}

/* out[row] = fma(weight, y, out[row]); rows of an expert differ. */
static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const experts *const e = arg;
    const size_t hidden = e->c->hidden;
    const visit *const v = e->visit + e->start[e->expert];
    for (size_t i = begin; i < end; i++)
        e->cx->kernels.kv_mix(e->out + v[i].row * hidden, hidden, &v[i].weight, 1,
                              e->in + i * hidden, hidden, 1, 1, hidden);
}

static pare_status show(const experts *e, pare_site site, const float *x, size_t rows, size_t k)
{
    const size_t part = e->expert + 1;
    return pare__shows(e->tap, part) ? e->tap->see(e->tap->self, part, site, x, rows, k) : PARE_OK;
}

static pare_status apply(const experts *e, pare_role role, size_t count, const float *x,
                         float *const *y, size_t rows)
{
    pare__product product[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++) {
        const pare_linear *const w =
            pare_block_linear(e->weights, e->expert + 1, (pare_role)((size_t)role + i));
        product[i] = (pare__product){w, y[i], w->n};
    }
    const size_t k = product[0].w->k;
    return pare__linear_apply_all(e->cx, e->scratch, product, count, e->f->exact, x, k, rows);
}

static pare_status run_expert(experts *e, size_t rows)
{
    const pare_config *const c = e->c;
    const float *x = e->in;
    if (sees_all(e, e->expert))
        x = e->x;
    else
        pare_parallel(e->cx, rows, pare__chunk(c->hidden), gather_rows, e);
    PARE_TRY(show(e, PARE_SITE_MLP, x, rows, c->hidden));
    if (e->tap && e->tap->last == PARE_SITE_MLP)
        return PARE_OK;
    PARE_TRY(apply(e, PARE_ROLE_GATE, 2, x, (float *const[]){e->gate, e->up}, rows));
    pare_parallel(e->cx, rows, pare__chunk(c->expert_width * 16), activate_rows, e);
    PARE_TRY(show(e, PARE_SITE_ACTIVATED, e->gate, rows, c->expert_width));
    if (e->tap && e->tap->last == PARE_SITE_ACTIVATED)
        return PARE_OK;
    PARE_TRY(apply(e, PARE_ROLE_DOWN, 1, e->gate, (float *const[]){e->in}, rows));
    pare_parallel(e->cx, rows, pare__chunk(c->hidden), add_rows, e);
    return PARE_OK;
}

static pare_status run_experts(experts *e)
{
    size_t most = 0;
    for (size_t i = 0; i < e->c->experts; i++) {
        const size_t rows = rows_of(e, i);
        most = rows > most ? rows : most;
    }
    e->in = pare_arena_take_raw(e->scratch, most, e->c->hidden * sizeof *e->in);
    e->gate = pare_arena_take_raw(e->scratch, most, e->c->expert_width * sizeof *e->gate);
    e->up = pare_arena_take_raw(e->scratch, most, e->c->expert_width * sizeof *e->up);
    if (!e->in || !e->gate || !e->up)
        return PARE_ENOMEM;
    for (e->expert = 0; e->expert < e->c->experts; e->expert++) {
        const size_t rows = rows_of(e, e->expert);
        if (rows > 0)
            PARE_TRY(run_expert(e, rows));
    }
    return PARE_OK;
}

/* out[t] *= sigmoid(gate . x[t]): the share of the MLP that every token runs. */
static pare_status scale_shared(const experts *e)
{
    const pare_linear *const gate = &e->weights->shared_gate;
    const size_t hidden = e->c->hidden;
    float *const g = pare_arena_take_raw(e->scratch, e->rows, sizeof *g);
    if (!g)
        return PARE_ENOMEM;
    PARE_TRY(pare_linear_apply(e->cx, e->scratch, gate, e->f->exact, e->x, hidden, e->rows, g, 1));
    for (size_t t = 0; t < e->rows; t++) {
        const float share = (float)(1.0 / (1.0 + pare_exp(-(double)g[t])));
        for (size_t j = 0; j < hidden; j++)
            e->out[t * hidden + j] *= share;
    }
    return PARE_OK;
}

/* Whether some expert runs, or is shown to a tap that stops the block. */
static bool wants_experts(const experts *e)
{
    bool wants = !pare__stops(e->tap);
    for (size_t i = 0; i < e->c->experts && !wants; i++)
        wants = pare__shows(e->tap, i + 1);
    return wants;
}

pare_status pare__experts_forward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                  const pare_block *weights, const pare_tap *tap, const float *x,
                                  size_t rows, float *out)
{
    experts e = {.cx = cx,
                 .scratch = scratch,
                 .f = f,
                 .c = &f->model->config,
                 .weights = weights,
                 .tap = tap,
                 .x = x,
                 .out = out,
                 .rows = rows};
    if (rows > UINT32_MAX)
        return pare_fail(cx, PARE_EUSAGE,
                         "a batch of %zu tokens is too large for a mixture of experts: at most "
                         "2^32 - 1",
                         rows);
    if (!wants_experts(&e))
        return PARE_OK;
    if (weights->shared_gate.name && !pare__stops(tap))
        PARE_TRY(scale_shared(&e));
    PARE_TRY(route(&e));
    return run_experts(&e);
}

size_t pare__experts_bytes(const pare_ctx *cx, const pare_config *c, size_t rows)
{
    size_t total = 0, inner = 0,
           first = pare__linear_bytes(cx, rows, c->hidden, 2, PARE_INPUTS_ANY);
    const size_t down = pare__linear_bytes(cx, rows, c->expert_width, 1, PARE_INPUTS_ANY);
    pare__add_bytes(&total, rows, sizeof(float));
    pare__add_bytes(&total, rows, c->experts * sizeof(float));
    pare__add_bytes(&total, rows,
                    c->experts_used * (sizeof(uint32_t) + sizeof(float) + sizeof(visit)));
    pare__add_bytes(&total, c->experts + 1, sizeof(size_t));
    pare__add_bytes(&total, rows, (c->hidden + 2 * c->expert_width) * sizeof(float));
    pare__add_bytes(&inner, 1, first > down ? first : down);
    pare__add_bytes(&total, 1, inner);
    return total;
}
