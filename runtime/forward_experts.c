/* The experts of a block:  out[t] += sum w[t, e] Down_e(act(Gate_e x[t]) * Up_e x[t])  over the
 * experts e that the router picked for row t (route.c).
 *
 * Rows are sorted by expert, so that each expert is one product; experts run in ascending order, a
 * row's sum therefore has one order, whatever else is in the batch. */
#include "runtime/forward_internal.h"

/* The state of one call. */
typedef struct experts {
    const pare_ops *o;
    const pare_forward *f;
    const pare_config *c;
    const pare_block *weights;
    const pare_tap *tap;
    pare_array x, out; /* [rows, hidden] */
    pare_routes routes;
} experts;

static bool sees_all(const experts *e, size_t expert)
{
    return pare__stops(e->tap) && e->tap->all_rows && e->tap->all_rows[expert + 1];
}

/* Rows that an expert runs in this call. */
static size_t rows_of(const experts *e, size_t expert)
{
    if (pare__stops(e->tap) && !pare__shows(e->tap, expert + 1))
        return 0;
    return sees_all(e, expert) ? e->x.rows : e->routes.start[expert + 1] - e->routes.start[expert];
}

/* The linears `role` .. of an expert. */
static pare_status apply(const experts *e, size_t expert, pare_role role, size_t count,
                         pare_array x, const pare_array *y)
{
    const pare_linear *w[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++)
        w[i] = pare_block_linear(e->weights, expert + 1, (pare_role)((size_t)role + i));
    return e->o->op->linears(e->o, w, count, e->f->exact, x, y);
}

static pare_status run_expert(experts *e, size_t expert, size_t rows)
{
    const pare_ops *const o = e->o;
    const size_t width = e->c->expert_width;
    pare_array in = e->x, gate, up, inner, out;
    if (!sees_all(e, expert)) {
        PARE_TRY(o->op->take(o, rows, e->c->hidden, &in));
        PARE_TRY(o->op->gather(o, &e->routes, expert, e->x, in));
    }
    PARE_TRY(pare__see(o, e->tap, expert + 1, PARE_SITE_MLP, in));
    PARE_TRY(o->op->take(o, rows, width, &gate));
    PARE_TRY(o->op->take(o, rows, width, &up));
    PARE_TRY(apply(e, expert, PARE_ROLE_GATE, 2, in, (const pare_array[]){gate, up}));
    PARE_TRY(pare__reuse(o, gate, width, &inner));
    PARE_TRY(o->op->activate(o, e->c->act, gate, up, inner));
    PARE_TRY(pare__see(o, e->tap, expert + 1, PARE_SITE_ACTIVATED, inner));
    PARE_TRY(pare__reuse(o, in, e->c->hidden, &out));
    PARE_TRY(apply(e, expert, PARE_ROLE_DOWN, 1, inner, &out));
    return o->op->scatter(o, &e->routes, expert, out, e->out);
}

static pare_status run_experts(experts *e)
{
    for (size_t i = 0; i < e->c->experts; i++) {
        const size_t rows = rows_of(e, i);
        pare_mark mark;
        PARE_TRY(e->o->op->mark(e->o, &mark));
        const pare_status s = rows > 0 ? run_expert(e, i, rows) : PARE_OK;
        PARE_TRY(e->o->op->rewind(e->o, mark));
        PARE_TRY(pare__unless_stopped(s));
    }
    return PARE_OK;
}

static pare_status route(experts *e)
{
    const pare_ops *const o = e->o;
    const pare_linear *const router = &e->weights->router;
    pare_array logit;
    PARE_TRY(o->op->take(o, e->x.rows, e->c->experts, &logit));
    PARE_TRY(o->op->linears(o, &router, 1, e->f->exact, e->x, &logit));
    const pare_router how = {.used = e->c->experts_used,
                             .norm = e->c->expert_norm,
                             .groups = e->c->expert_groups,
                             .groups_used = e->c->expert_groups_used,
                             .scale = e->c->expert_scale,
                             .correction = e->weights->correction};
    return o->op->route(o, logit, &how, &e->routes);
}

/* out[t] *= sigmoid(gate . x[t]): the share of the MLP that every token runs. */
static pare_status scale_shared(experts *e)
{
    const pare_ops *const o = e->o;
    const pare_linear *const w = &e->weights->shared_gate;
    const pare_array whole = e->out;
    pare_array gate;
    PARE_TRY(o->op->take(o, e->x.rows, 1, &gate));
    PARE_TRY(o->op->linears(o, &w, 1, e->f->exact, e->x, &gate));
    PARE_TRY(pare__reuse(o, whole, whole.width, &e->out));
    return o->op->share(o, gate, whole, e->out);
}

/* Whether some expert runs, or is shown to a tap that stops the block. */
static bool wants_experts(const experts *e)
{
    bool wants = !pare__stops(e->tap);
    for (size_t i = 0; i < e->c->experts && !wants; i++)
        wants = pare__shows(e->tap, i + 1);
    return wants;
}

pare_status pare__experts_forward(const pare_ops *o, const pare_forward *f,
                                  const pare_block *weights, const pare_tap *tap, pare_array x,
                                  pare_array *out)
{
    experts e = {.o = o, .f = f, .c = &f->model->config, .weights = weights, .tap = tap};
    e.x = x;
    e.out = *out;
    if (x.rows > UINT32_MAX)
        return pare_fail(o->cx, PARE_EUSAGE,
                         "a batch of %zu tokens is too large for a mixture of experts: at most "
                         "2^32 - 1",
                         x.rows);
    if (!wants_experts(&e))
        return PARE_OK;
    if (weights->shared_gate.name && !pare__stops(tap))
        PARE_TRY(scale_shared(&e));
    PARE_TRY(route(&e));
    PARE_TRY(run_experts(&e));
    *out = e.out;
    return PARE_OK;
}
