/* The experts of a block:  out[t] += sum w[t, e] Down_e(act(Gate_e x[t]) * Up_e x[t])  over the
 * experts e that the router picked for row t (route.c). Inward, w is 1 and the expert reads
 * sigmoid(r[t, e]) x[t], r being the logits of the router.
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
    pare_array logit;  /* [rows, experts] of an inward router */
    pare_routes routes;
} experts;

/* The rows that one expert runs: those of expert `at` of some routes. */
typedef struct visitor {
    size_t expert, at, rows;
    const pare_routes *routes;
} visitor;

/* Whether the next of the others is shown. */
static bool takes_next(pare_fill *f)
{
    const uint64_t before = pare_fill_among(f, f->seen);
    f->seen++;
    return pare_fill_among(f, f->seen) > before;
}

/* Rows that the router does not send to an expert join its own, with the weight 0: the block stops
 * in front of their outputs. */
static pare_status fill_up(const experts *e, pare_fill *fill, pare_routes *filled, visitor *v)
{
    const pare_visit *own = e->routes.visit + e->routes.start[v->expert];
    const pare_visit *const end = own + v->rows;
    filled->visit = pare_arena_take_raw(e->o->scratch, e->x.rows, sizeof *filled->visit);
    filled->start = PARE_NEW(e->o->scratch, size_t, 2);
    if (!filled->visit || !filled->start)
        return PARE_ENOMEM;
    v->rows = 0;
    for (uint32_t row = 0; row < e->x.rows; row++) {
        if (own < end && own->row == row)
            filled->visit[v->rows++] = *own++;
        else if (takes_next(fill))
            filled->visit[v->rows++] = (pare_visit){.row = row};
    }
    filled->start[1] = v->rows;
    v->at = 0;
    v->routes = filled;
    return PARE_OK;
}

/* Rows that an expert runs in this call. */
static pare_status visits_of(const experts *e, pare_routes *filled, visitor *v)
{
    const bool stops = pare__stops(e->tap);
    if (stops && !pare__shows(e->tap, v->expert + 1))
        return PARE_OK;
    v->at = v->expert;
    v->routes = &e->routes;
    v->rows = e->routes.start[v->expert + 1] - e->routes.start[v->expert];
    if (!stops || !e->tap->fill || e->tap->fill[v->expert + 1].want == 0)
        return PARE_OK;
    return fill_up(e, &e->tap->fill[v->expert + 1], filled, v);
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

/* Those rows of x that an expert runs. */
static pare_status rows_for(const experts *e, const visitor *v, pare_array x, pare_array *y)
{
    const pare_ops *const o = e->o;
    PARE_TRY(o->op->take(o, v->rows, x.width, y));
    return o->op->gather(o, v->routes, v->at, x, *y);
}

/* *in, the input of an expert, times the sigmoid of its logit. */
static pare_status scale_input(const experts *e, const visitor *v, pare_array *in)
{
    const pare_ops *const o = e->o;
    const pare_pieces own = {.count = 1, .width = 1, .from = v->expert};
    const pare_array x = *in;
    pare_array logit, gate;
    PARE_TRY(rows_for(e, v, e->logit, &logit));
    PARE_TRY(o->op->take(o, v->rows, 1, &gate));
    PARE_TRY(o->op->pieces(o, &own, logit, gate));
    PARE_TRY(o->op->take(o, v->rows, x.width, in));
    return o->op->share(o, gate, x, *in);
}

/* What an expert gives, before the weights of its rows. */
static pare_status show_output(const experts *e, const visitor *v, pare_array out)
{
    float *at = NULL;
    if (!e->tap || !e->tap->see_expert)
        return PARE_OK;
    PARE_TRY(pare__look(e->o, out, &at));
    return e->tap->see_expert(e->tap->self, v->expert, v->routes->visit + v->routes->start[v->at],
                              at, v->rows, out.width);
}

static pare_status run_expert(const experts *e, const visitor *v)
{
    const pare_ops *const o = e->o;
    const size_t width = e->c->expert_width, expert = v->expert;
    pare_array in, gate, up, inner, out;
    PARE_TRY(rows_for(e, v, e->x, &in));
    if (e->c->arch->experts->inward)
        PARE_TRY(scale_input(e, v, &in));
    PARE_TRY(pare__see(o, e->tap, expert + 1, PARE_SITE_MLP, in));
    PARE_TRY(o->op->take(o, v->rows, width, &gate));
    PARE_TRY(o->op->take(o, v->rows, width, &up));
    PARE_TRY(apply(e, expert, PARE_ROLE_GATE, 2, in, (const pare_array[]){gate, up}));
    PARE_TRY(pare__reuse(o, gate, width, &inner));
    PARE_TRY(o->op->activate(o, e->c->act, gate, up, inner));
    PARE_TRY(pare__see(o, e->tap, expert + 1, PARE_SITE_ACTIVATED, inner));
    PARE_TRY(pare__reuse(o, in, e->c->hidden, &out));
    PARE_TRY(apply(e, expert, PARE_ROLE_DOWN, 1, inner, &out));
    PARE_TRY(show_output(e, v, out));
    return o->op->scatter(o, v->routes, v->at, out, e->out);
}

static pare_status run_experts(const experts *e)
{
    for (size_t i = 0; i < e->c->experts; i++) {
        visitor v = {.expert = i};
        pare_routes filled = {0};
        pare_mark mark;
        PARE_TRY(e->o->op->mark(e->o, &mark));
        pare_status s = visits_of(e, &filled, &v);
        if (s == PARE_OK && v.rows > 0)
            s = run_expert(e, &v);
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
                             .correction = e->weights->correction,
                             .inward = e->c->arch->experts->inward};
    if (how.inward)
        e->logit = logit;
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
