/* The way back through each operation against central differences of the operation itself. Values
 * are F32: a step of 1/128 leaves 1e-5 of a slope to rounding, and as much to the third derivative.
 * Whole models are held against another program (golden.gradients). */
#include "runtime/linalg.h"
#include "runtime/tape.h"
#include "tests/unit/mixture.h"

enum { ROWS = 6, WIDTH = 24, INPUTS = 3, SIDE = 40, HEADS = 4 };

/* An operation: makes y from the inputs in x. */
typedef struct operation {
    const char *name;
    pare_status (*run)(const pare_ops *o, const pare_array *x, pare_array *y);
    size_t width[INPUTS]; /* of the inputs, 0: there is none */
} operation;

static struct {
    pare_model model;
    pare_forward f;
    pare_linear linear;
    float *w, *bias;
    pare_kv kv;
    pare_act act;
    float *sinks; /* [HEADS], or NULL */
} on;

static pare_status like(const pare_ops *o, pare_array x, pare_array *y)
{
    return o->op->take(o, x.rows, x.width, y);
}

static pare_status norm(const pare_ops *o, pare_norm_kind kind, size_t pieces, pare_array x,
                        pare_array *y)
{
    const pare_norm_of n = {kind, on.w, on.bias, pieces, 1e-3};
    PARE_TRY(like(o, x, y));
    return o->op->norm(o, &n, x, *y);
}

static pare_status rms_norm(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return norm(o, PARE_NORM_RMS, 1, x[0], y);
}

static pare_status layer_norm(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return norm(o, PARE_NORM_LAYER, 1, x[0], y);
}

static pare_status head_norm(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return norm(o, PARE_NORM_RMS, 4, x[0], y);
}

static pare_status linears(const pare_ops *o, const pare_array *x, pare_array *y)
{
    const pare_linear *const w = &on.linear;
    PARE_TRY(o->op->take(o, ROWS, w->n, y));
    return o->op->linears(o, &w, 1, true, x[0], y);
}

static pare_status activate(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(like(o, x[0], y));
    return o->op->activate(o, on.act, x[0], x[1], *y);
}

static pare_status attend(const pare_ops *o, const pare_array *x, pare_array *y)
{
    const pare_attend a = {.f = &on.f,
                           .window = on.model.config.window,
                           .batch = {2, ROWS / 2, 0},
                           .kv = &on.kv,
                           .sinks = on.sinks};
    pare_array q[3];
    for (size_t i = 0; i < 3; i++) { /* it writes over its inputs: a sum stands in for a copy */
        pare_array zero;
        PARE_TRY(like(o, x[i], &zero));
        PARE_TRY(o->op->zero(o, zero));
        PARE_TRY(like(o, x[i], &q[i]));
        PARE_TRY(o->op->add(o, zero, x[i], q[i]));
    }
    PARE_TRY(like(o, x[0], y));
    return o->op->attend(o, &a, q[0], q[1], q[2], *y);
}

static pare_status add(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(like(o, x[0], y));
    return o->op->add(o, x[0], x[1], *y);
}

/* In place: the norm makes what is turned and capped. */
static pare_status turn(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(rms_norm(o, x, y));
    return o->op->turn(o, *y);
}

static pare_status cap(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(rms_norm(o, x, y));
    return o->op->cap(o, 1.5, *y);
}

static pare_status share(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(like(o, x[0], y));
    return o->op->share(o, x[1], x[0], *y);
}

/* A gate for each channel, in place. */
static pare_status gate(const pare_ops *o, const pare_array *x, pare_array *y)
{
    PARE_TRY(rms_norm(o, x, y));
    return o->op->share(o, x[1], *y, *y);
}

static pare_status rows(const pare_ops *o, const pare_array *x, pare_array *y)
{
    static const size_t row[] = {4, 0, 4, 2};
    PARE_TRY(o->op->take(o, 4, WIDTH, y));
    return o->op->rows(o, row, x[0], *y);
}

/* Rows of an inward expert: x[0] times the sigmoids of its column of x[1]. */
static pare_status scale_rows(const pare_ops *o, const pare_routes *r, size_t e,
                              const pare_array *x, pare_array *in)
{
    const pare_pieces own = {.count = 1, .width = 1, .from = e};
    const pare_array whole = *in;
    pare_array logit, gate;
    PARE_TRY(o->op->take(o, whole.rows, x[1].width, &logit));
    PARE_TRY(o->op->gather(o, r, e, x[1], logit));
    PARE_TRY(o->op->take(o, whole.rows, 1, &gate));
    PARE_TRY(o->op->pieces(o, &own, logit, gate));
    PARE_TRY(like(o, whole, in));
    return o->op->share(o, gate, whole, *in);
}

/* Experts that scale what they get by 1 + their number: router's outputs x[1], rows x[0]. */
static pare_status experts(const pare_ops *o, const pare_router *how, const pare_array *x,
                           pare_array *y)
{
    pare_routes *const r = PARE_NEW(o->scratch, pare_routes, 1);
    pare_array logit, zero;
    if (!r)
        return PARE_ENOMEM;
    PARE_TRY(like(o, x[1], &zero));
    PARE_TRY(o->op->zero(o, zero));
    PARE_TRY(like(o, x[1], &logit)); /* routing writes over them */
    PARE_TRY(o->op->add(o, zero, x[1], logit));
    PARE_TRY(o->op->route(o, logit, how, r));
    PARE_TRY(like(o, x[0], y));
    PARE_TRY(o->op->zero(o, *y));
    for (size_t e = 0; e < x[1].width; e++) {
        const size_t count = r->start[e + 1] - r->start[e];
        pare_array in, out;
        PARE_TRY(o->op->take(o, count, WIDTH, &in));
        PARE_TRY(o->op->take(o, count, WIDTH, &out));
        PARE_TRY(o->op->gather(o, r, e, x[0], in));
        if (how->inward)
            PARE_TRY(scale_rows(o, r, e, x, &in));
        PARE_TRY(o->op->add(o, in, in, out));
        for (size_t i = 0; i < e; i++) {
            pare_array more;
            PARE_TRY(o->op->take(o, count, WIDTH, &more));
            PARE_TRY(o->op->add(o, in, out, more));
            out = more;
        }
        PARE_TRY(o->op->scatter(o, r, e, out, *y));
    }
    return PARE_OK;
}

static pare_status routed(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return experts(o, &(pare_router){.used = 2}, x, y);
}

static pare_status routed_to_one(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return experts(o, &(pare_router){.used = 2, .norm = true}, x, y);
}

static const float correction[] = {0, 0.01F, -0.01F, 0.02F, 0};

static pare_status routed_by_sigmoids(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return experts(o, &(pare_router){.used = 2, .scale = 2.5, .correction = correction}, x, y);
}

static pare_status routed_by_shares(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return experts(
        o, &(pare_router){.used = 2, .norm = true, .scale = 2.5, .correction = correction}, x, y);
}

/* They gather twice: rows, then logits. */
static pare_status routed_inward(const pare_ops *o, const pare_array *x, pare_array *y)
{
    return experts(o, &(pare_router){.used = 2, .inward = true}, x, y);
}

/* Channels that go to two places, and some that go nowhere. */
static pare_status pieces(const pare_ops *o, const pare_array *x, pare_array *y)
{
    static const pare_pieces p[] = {{.count = 2, .width = 3, .from = 1, .to_step = 4},
                                    {.count = 1, .width = 4, .from = 2, .to = 8}};
    PARE_TRY(like(o, x[0], y));
    PARE_TRY(o->op->zero(o, *y));
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(o->op->pieces(o, &p[i], x[0], *y));
    return PARE_OK;
}

static const operation operations[] = {
    {"rms norm", rms_norm, {WIDTH}},
    {"layer norm", layer_norm, {WIDTH}},
    {"norm of heads", head_norm, {WIDTH}},
    {"linears", linears, {WIDTH}},
    {"add", add, {WIDTH, WIDTH}},
    {"turn", turn, {WIDTH}},
    {"cap", cap, {WIDTH}},
    {"share", share, {WIDTH, 1}},
    {"gate", gate, {WIDTH, WIDTH}},
    {"rows", rows, {WIDTH}},
    {"experts", routed, {WIDTH, 5}},
    {"experts whose weights sum to 1", routed_to_one, {WIDTH, 5}},
    {"experts by sigmoids", routed_by_sigmoids, {WIDTH, 5}},
    {"experts by shares of sigmoids", routed_by_shares, {WIDTH, 5}},
    {"experts whose inputs are scaled", routed_inward, {WIDTH, 5}},
    {"pieces", pieces, {WIDTH}},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Numbers that stay away from where an activation or a router jumps. */
static void fill(float *x, size_t count, uint64_t stream)
{
    for (size_t i = 0; i < count; i++) {
        const double v = pare_random_normal(21, stream, i);
        x[i] = (float)(v + (v < 0 ? -0.05 : 0.05));
    }
}

static void begin(tiny_home *h)
{
    tiny_begin(h, 3);
    on.w = tiny_take(&h->arena, WIDTH, sizeof *on.w);
    on.bias = tiny_take(&h->arena, WIDTH, sizeof *on.bias);
    fill(on.w, WIDTH, 50);
    fill(on.bias, WIDTH, 51);
    on.linear = tiny_dense(&h->arena, PARE_BF16, 52, SIDE, WIDTH);
}

/* sum of r y */
static double loss_of(tiny_home *h, const operation *op, const pare_array *x)
{
    const pare_ops o = pare_ops_of(&h->cx, &h->arena, &(pare_forward){0});
    const pare_mark mark = pare_arena_mark(&h->arena);
    pare_array y;
    double loss = 0;
    ck_assert_int_eq(op->run(&o, x, &y), PARE_OK);
    for (size_t i = 0; i < y.rows * y.width; i++)
        loss += pare_random_normal(22, 0, i) * (double)y.at[i];
    pare_arena_rewind(&h->arena, mark);
    return loss;
}

static const double step = 1.0 / 128;

static double slope_of(tiny_home *h, const operation *op, const pare_array *x, float *at)
{
    const float old = *at;
    *at = (float)((double)old + step);
    const double above = loss_of(h, op, x);
    *at = (float)((double)old - step);
    const double below = loss_of(h, op, x);
    *at = old;
    return (above - below) / (2 * step);
}

/* What a sink gets from both sequences. */
static void compare_sinks(tiny_home *h, const operation *op, const pare_array *x, const float *d)
{
    for (size_t i = 0; i < HEADS; i++) {
        const double slope = slope_of(h, op, x, &on.sinks[i]);
        ck_assert_double_gt(fabs(slope), 1e-2);
        ck_assert_msg(fabs(slope - (double)d[i]) <= 2e-3 * fmax(1, fabs(slope)),
                      "%s, sink %zu: %g, by differences %g", op->name, i, (double)d[i], slope);
    }
}

static void compare(tiny_home *h, const operation *op)
{
    float dsinks[HEADS] = {0};
    const pare_leaf_gradient leaf = {on.sinks, dsinks};
    float *const values = tiny_take(&h->arena, INPUTS * ROWS * SIDE, sizeof *values);
    pare_array x[INPUTS] = {0}, y, on_tape[INPUTS] = {0};
    pare_tape t;
    for (size_t i = 0; i < INPUTS && op->width[i]; i++) {
        x[i] = (pare_array){values + i * ROWS * SIDE, ROWS, op->width[i], NULL};
        fill(x[i].at, ROWS * op->width[i], i);
        for (size_t j = 0; op->width[i] == 5 && j < ROWS * 5; j++) /* a router that is sure */
            x[i].at[j] = 0.1F * x[i].at[j] + 0.8F * (float)((j / 5 + j * 2) % 5);
    }
    pare_tape_begin(&h->cx, &h->arena, NULL, &t);
    const pare_ops o = pare_tape_ops(&t);
    for (size_t i = 0; i < INPUTS && x[i].at; i++)
        ck_assert_int_eq(pare_tape_input(&t, x[i].at, ROWS, x[i].width, true, &on_tape[i]),
                         PARE_OK);
    ck_assert_int_eq(op->run(&o, on_tape, &y), PARE_OK);
    float *const dy = tiny_take(&h->arena, y.rows * y.width, sizeof *dy);
    for (size_t i = 0; i < y.rows * y.width; i++)
        dy[i] = (float)pare_random_normal(22, 0, i);
    ck_assert_int_eq(pare_tape_back(&t, y, dy, &(pare_gradients){.leaf = &leaf, .leaves = 1}),
                     PARE_OK);
    if (on.sinks)
        compare_sinks(h, op, x, dsinks);
    for (size_t i = 0; i < INPUTS && x[i].at; i++) {
        const float *const d = pare_tape_gradient(on_tape[i]);
        double largest = 0;
        ck_assert_ptr_nonnull(d);
        for (size_t j = 0; j < ROWS * x[i].width; j++)
            largest = fmax(largest, fabs((double)d[j]));
        ck_assert_double_gt(largest, 0.05);
        for (size_t j = 0; j < ROWS * x[i].width; j++) {
            const double slope = slope_of(h, op, x, &x[i].at[j]);
            ck_assert_msg(fabs(slope - (double)d[j]) <= 2e-3 * largest,
                          "%s, input %zu, number %zu: %g, by differences %g (largest %g)", op->name,
                          i, j, (double)d[j], slope, largest);
        }
    }
}

START_TEST(operations_equal_central_differences)
{
    tiny_home h;
    begin(&h);
    compare(&h, &operations[_i]);
    tiny_end(&h);
}
END_TEST

START_TEST(activations_equal_central_differences)
{
    static const operation gated = {"activation with a gate", activate, {WIDTH, WIDTH}};
    static const operation plain = {"activation", activate, {WIDTH}};
    tiny_home h;
    begin(&h);
    on.act = (pare_act)(_i / 2);
    compare(&h, _i % 2 ? &gated : &plain);
    tiny_end(&h);
}
END_TEST

/* Full and partial rotation and none; a window; a cap; a scale of its own; sinks. */
START_TEST(attention_equals_central_differences)
{
    static const operation op = {"attention", attend, {WIDTH, WIDTH / 2, WIDTH / 2}};
    static const struct {
        size_t rotary, window;
        double cap, scale;
        const char *family;
        bool sinks;
    } kinds[] = {{0, 0, 0, 0, "llama", false},   {2, 0, 0, 0, "llama", false},
                 {0, 2, 0, 0, "llama", false},   {0, 0, 2, 0.4, "llama", false},
                 {0, 2, 2, 0.4, "llama", false}, {0, 0, 0, 0, "opt", false},
                 {0, 2, 0, 0, "gpt_oss", true},  {0, 2, 2, 0.4, "gpt_oss", true}};
    tiny_home h;
    begin(&h);
    on.model.config = (pare_config){.arch = pare_arch_find(kinds[_i].family),
                                    .hidden = WIDTH,
                                    .heads = HEADS,
                                    .kv_heads = 2,
                                    .head_dim = WIDTH / 4,
                                    .window = kinds[_i].window,
                                    .attention_cap = kinds[_i].cap,
                                    .attention_scale = kinds[_i].scale,
                                    .rope = {.theta = 100, .rotary = kinds[_i].rotary}};
    float sinks[HEADS] = {1, -0.5f, 0.25f, 2};
    on.sinks = kinds[_i].sinks ? sinks : NULL;
    on.model.positions.n = SIDE;
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &on.model, ROWS / 2, true, &on.f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&h.arena, &on.model.config, 2, ROWS / 2, &on.kv), PARE_OK);
    compare(&h, &op);
    tiny_end(&h);
}
END_TEST

/* Rows that a batch repeats, in every sequence from the first position on. */
START_TEST(embeddings_gather_what_their_rows_get)
{
    static const int32_t token[ROWS] = {3, 1, 3, 0, 3, 1};
    tiny_home h;
    begin(&h);
    pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    m.config.embed_scale = 1.5;
    m.config.arch = pare_arch_find("opt");
    m.positions = tiny_dense(&h.arena, PARE_F32, 5, 8, m.embed.k);
    const size_t width = m.embed.k;
    float *const d = tiny_take(&h.arena, m.embed.n * width, sizeof *d);
    float *const dp = tiny_take(&h.arena, 8 * width, sizeof *dp);
    float *const dy = tiny_take(&h.arena, ROWS * width, sizeof *dy);
    fill(dy, ROWS * width, 9);
    const pare_leaf_gradient leaf[] = {{m.embed.data, d}, {m.positions.data, dp}};
    pare_tape t;
    pare_array y;
    pare_tape_begin(&h.cx, &h.arena, NULL, &t);
    const pare_ops o = pare_tape_ops(&t);
    ck_assert_int_eq(o.op->take(&o, ROWS, width, &y), PARE_OK);
    ck_assert_int_eq(o.op->embed(&o, &m, token, (pare_batch){2, ROWS / 2, 0}, y), PARE_OK);
    ck_assert_int_eq(pare_tape_back(&t, y, dy, &(pare_gradients){.leaf = leaf, .leaves = 2}),
                     PARE_OK);
    for (size_t j = 0; j < width; j++) {
        const float *const at = dy + j;
        ck_assert_float_eq(d[j], 1.5F * at[3 * width]);
        ck_assert_float_eq_tol(d[width + j], 1.5F * (at[width] + at[5 * width]), 1e-6F);
        ck_assert_float_eq(d[2 * width + j], 0);
        ck_assert_float_eq_tol(d[3 * width + j], 1.5F * (at[0] + at[2 * width] + at[4 * width]),
                               2e-6F);
        for (size_t p = 0; p < 3; p++) /* opt's first position lies in row 2 */
            ck_assert_float_eq_tol(dp[(p + 2) * width + j], at[p * width] + at[(p + 3) * width],
                                   1e-6F);
    }
    tiny_end(&h);
}
END_TEST

/* Few rows that reach most of many experts: each has records of its own. */
START_TEST(the_bound_of_a_block_holds_for_many_experts)
{
    enum { EXPERTS = 96, TOKENS = 40 };
    tiny_home h;
    begin(&h);
    const pare_model m = mixture_of(&h.arena, "qwen3_moe", tiny_kinds[0], EXPERTS);
    const size_t width = m.config.hidden;
    float *const x = tiny_take(&h.arena, TOKENS * width, sizeof *x);
    pare_forward f;
    pare_arena own;
    pare_tape t;
    pare_array in, y;
    fill(x, TOKENS * width, 4);
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, TOKENS, true, &f), PARE_OK);
    const pare_batch batch = {1, TOKENS, 0};
    ck_assert_int_eq(
        pare_arena_init(&h.cx, &own, pare_tape_block_bytes(&h.cx, &m.config, batch, false)),
        PARE_OK);
    h.cx.limit_bytes = h.cx.live_bytes;
    pare_tape_begin(&h.cx, &own, NULL, &t);
    ck_assert_int_eq(pare_tape_input(&t, x, TOKENS, width, true, &in), PARE_OK);
    ck_assert_int_eq(pare_tape_block(&t, &f, m.block, batch, in, NULL, &y), PARE_OK);
    ck_assert_int_eq(pare_tape_back(&t, y, x, &(pare_gradients){0}), PARE_OK);
    h.cx.limit_bytes = 0;
    pare_arena_release(&own);
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tape_ops");
    TCase *const t = tcase_create("operations");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, operations_equal_central_differences, 0, OPERATIONS);
    tcase_add_loop_test(t, activations_equal_central_differences, 0, 2 * PARE_ACTS);
    tcase_add_loop_test(t, attention_equals_central_differences, 0, 8);
    tcase_add_test(t, embeddings_gather_what_their_rows_get);
    tcase_add_test(t, the_bound_of_a_block_holds_for_many_experts);
    suite_add_tcase(s, t);
    return unit_main(s);
}
