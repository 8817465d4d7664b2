#include "tests/ptx/op_rows.h"

#include <math.h>
#include <string.h>

#include "runtime/random.h"
#include "tests/unit/tiny.h"

/* --- what rows are made of -------------------------------------------------------------------- */

static pare_status take_exactly(op_run *r, size_t rows, size_t width, pare_array *y)
{
    const size_t bytes = rows * width * sizeof(float);
    ck_assert_uint_lt(r->count, OP_TAKEN);
    *y = (pare_array){.rows = rows, .width = width};
    PARE_TRY(r->d->op->take(r->o.cx, r->d, bytes ? bytes : 1, &r->taken[r->count]));
    y->at = (float *)(uintptr_t)r->taken[r->count++]; // NOLINT: an address of the device
    return PARE_OK;
}

pare_status op_begin(op_run *r, size_t positions)
{
    if (!r->model.config.arch)
        r->model.config = (pare_config){
            .arch = pare_archs[0], .heads = 1, .kv_heads = 1, .head_dim = 8, .rope.theta = 10000};
    PARE_TRY(pare_forward_init(r->o.cx, &r->arena, &r->model, positions, false, &r->f));
    if (r->d)
        PARE_TRY(pare_cuda_open(r->o.cx, r->d, 0, &r->f, &r->cuda));
    r->o = pare_ops_of(r->o.cx, &r->arena, &r->f);
    if (r->d)
        r->cuda->model = 0; /* so that weights may still come */
    return PARE_OK;
}

void *op_bytes(op_run *r, size_t bytes)
{
    return tiny_take(&r->arena, bytes ? bytes : 1, 1);
}

float *op_mild(op_run *r, size_t n)
{
    float *const x = op_bytes(r, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (float)(2 * pare_random_unit(17, r->stream, i) - 1);
    r->stream++;
    return x;
}

float *op_floats(op_run *r, size_t n)
{
    const uint64_t stream = r->stream;
    float *const x = op_mild(r, n);
    for (size_t i = 0; i < n; i++)
        switch (pare_random_u64(18, stream, i) % 16) {
        case 0: x[i] = 0.0f; break;
        case 1: x[i] *= 0x1p-60f; break;
        case 2: x[i] *= 0x1p+20f; break;
        case 3: x[i] = i ? x[i - 1] : 1.0f; break;
        case 4: x[i] *= 0x1p-90f; break;
        case 5: x[i] = -0.0f; break;
        case 6: x[i] *= 30.0f; break;
        default: break;
        }
    return x;
}

uint16_t *op_halves(op_run *r, size_t n)
{
    uint16_t *const x = op_bytes(r, n * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint16_t)(0x2400 + pare_random_u64(19, r->stream, i) % 0x1800);
    r->stream++;
    return x;
}

pare_status op_weights(op_run *r, const void *p, size_t bytes)
{
    return r->d ? pare__cuda_upload(r->cuda, &p, bytes) : PARE_OK;
}

pare_status op_put(op_run *r, const float *x, size_t rows, size_t width, pare_array *y)
{
    if (r->d)
        PARE_TRY(take_exactly(r, rows, width, y));
    else
        PARE_TRY(r->o.op->take(&r->o, rows, width, y));
    return r->o.op->put(&r->o, x, *y);
}

pare_status op_blank(op_run *r, size_t rows, size_t width, pare_array *y)
{
    const size_t bytes = rows * width * sizeof(float);
    return op_put(r, memset(op_bytes(r, bytes), r->d ? 0x5a : 0xa5, bytes), rows, width, y);
}

void op_keep_bytes(op_run *r, const void *p, size_t bytes)
{
    const size_t words = bytes / sizeof *r->out;
    ck_assert_uint_eq(bytes % sizeof *r->out, 0);
    r->out = realloc(r->out, (r->words + words + 1) * sizeof *r->out);
    ck_assert_ptr_nonnull(r->out);
    memcpy(r->out + r->words, p, bytes);
    r->words += words;
}

pare_status op_keep(op_run *r, pare_array y)
{
    const size_t n = y.rows * y.width;
    float *const x = op_bytes(r, n * sizeof *x);
    PARE_TRY(r->o.op->get(&r->o, y, x));
    for (size_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? (float)NAN : x[i];
    op_keep_bytes(r, x, n * sizeof *x);
    return PARE_OK;
}

/* --- both sides ------------------------------------------------------------------------------- */

pare_status op_row_run(pare_ctx *cx, pare_device *d, const op_row *row, size_t i, op_run *r)
{
    *r = (op_run){.o.cx = cx, .arena = {.cx = cx}, .d = d, .stream = 1000 * i};
    const pare_status s = row->run(r, i);
    pare_cuda_close(r->cuda);
    while (r->count)
        d->op->give(cx, d, r->taken[--r->count]);
    pare_arena_release(&r->arena);
    return s;
}

pare_status op_row_compare(pare_ctx *cx, const op_row *row, size_t i, const op_run *near,
                           const op_run *there)
{
    ck_assert_msg(near->words == there->words, "%s %zu: other outputs", row->name, i);
    for (size_t k = 0; k < near->words; k++)
        if (near->out[k] != there->out[k]) {
            float want, is;
            memcpy(&want, &near->out[k], sizeof want);
            memcpy(&is, &there->out[k], sizeof is);
            return pare_fail(cx, PARE_EINVAL, "%s %zu: value %zu of %zu is %.9g instead of %.9g",
                             row->name, i, k, near->words, (double)is, (double)want);
        }
    return PARE_OK;
}

pare_status op_row_check(pare_ctx *cx, pare_device *d, const op_row *row, size_t i)
{
    op_run near, there = {.out = NULL};
    pare_status s = op_row_run(cx, NULL, row, i, &near);
    if (s == PARE_OK)
        s = op_row_run(cx, d, row, i, &there);
    if (s == PARE_OK)
        s = op_row_compare(cx, row, i, &near, &there);
    free(near.out);
    free(there.out);
    return s;
}

/* --- the rows --------------------------------------------------------------------------------- */

static const size_t widths[] = {1, 7, 8, 9, 31, 33, 64, 256, 257, 300};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* Rows of a case, none and one among them. */
static size_t rows_of(size_t i)
{
    static const size_t rows[] = {1, 5, 0, 3};
    return rows[i % 4];
}

static pare_status op_embed(op_run *r, size_t i)
{
    static const pare_dtype type[] = {PARE_F32, PARE_F16, PARE_BF16};
    enum { LENGTH = 3, START = 2 };
    const size_t width = widths[i % WIDTHS], rows = 2 * LENGTH;
    const bool learned = i % 2;
    int32_t token[2 * LENGTH];
    pare_array y;
    PARE_TRY(op_begin(r, 1));
    r->model.config.embed_scale = i % 4 < 2 ? 0 : 6.5;
    r->model.embed = tiny_dense(&r->arena, type[i % 3], 1, TINY_VOCAB, width);
    PARE_TRY(op_weights(r, r->model.embed.data, TINY_VOCAB * width * (i % 3 ? 2 : 4)));
    if (learned) {
        r->model.config.arch = pare_arch_find("opt");
        r->model.positions = tiny_dense(&r->arena, type[i / 2 % 3], 2, 10, width);
        PARE_TRY(op_weights(r, r->model.positions.data, 10 * width * (i / 2 % 3 ? 2 : 4)));
    }
    for (size_t k = 0; k < rows; k++)
        token[k] = (int32_t)(k ? pare_random_u64(20, i, k) % TINY_VOCAB : TINY_VOCAB - 1);
    PARE_TRY(op_blank(r, rows, width, &y));
    PARE_TRY(r->o.op->embed(&r->o, &r->model, token, (pare_batch){2, LENGTH, START}, y));
    return op_keep(r, y);
}

static pare_status op_norm(op_run *r, size_t i)
{
    const size_t pieces = i % 5 == 4 ? 3 : 1, rows = rows_of(i / 3);
    const size_t width = i % 11 == 10 ? 4100 : widths[i % WIDTHS]; /* three pieces of terms */
    const float *const w = op_mild(r, width), *const bias = i % 3 ? NULL : op_mild(r, width);
    const pare_norm_of n = {.kind = i % 2 ? PARE_NORM_LAYER : PARE_NORM_RMS,
                            .w = w,
                            .bias = bias,
                            .pieces = pieces,
                            .eps = i % 4 ? 1e-5 : 1e-12};
    pare_array x, y;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_weights(r, w, width * sizeof *w));
    PARE_TRY(op_weights(r, bias, width * sizeof *bias));
    PARE_TRY(op_put(r, op_floats(r, rows * pieces * width), rows, pieces * width, &x));
    PARE_TRY(op_blank(r, rows, pieces * width, &y));
    y = i % 7 == 6 ? x : y;
    PARE_TRY(r->o.op->norm(&r->o, &n, x, y));
    return op_keep(r, y);
}

/* Only these does a device compute. */
enum { ACTS = PARE_ACT_CLAMPED };

static pare_status op_activate(op_run *r, size_t i)
{
    const size_t width = widths[i / ACTS % WIDTHS], rows = rows_of(i / 2);
    pare_array gate, up, y;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &gate));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &up));
    PARE_TRY(op_blank(r, rows, width, &y));
    up.at = i % 3 == 2 ? NULL : up.at;
    y = i % 4 == 3 ? gate : y;
    PARE_TRY(r->o.op->activate(&r->o, (pare_act)(i % ACTS), gate, up, y));
    return op_keep(r, y);
}

static pare_status op_add(op_run *r, size_t i)
{
    const size_t width = widths[i % WIDTHS], rows = rows_of(i);
    pare_array a, b, y;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &a));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &b));
    PARE_TRY(op_blank(r, rows, width, &y));
    y = i % 3 == 2 ? b : y;
    PARE_TRY(r->o.op->add(&r->o, a, b, y));
    return op_keep(r, y);
}

/* In place: a rotation, rounding, a cap. */
static pare_status in_place(op_run *r, size_t i, size_t width, int what)
{
    const size_t rows = rows_of(i);
    float *const values = op_floats(r, rows * width);
    pare_array x;
    for (size_t k = 0; k < width && rows > 1 && what == 1; k++)
        values[k] = k % 5 ? values[k] * 1e-30f : 0; /* below the least scale */
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, values, rows, width, &x));
    PARE_TRY(what == 0   ? r->o.op->turn(&r->o, x)
             : what == 1 ? r->o.op->round(&r->o, x)
                         : r->o.op->cap(&r->o, i % 2 ? 30.0 : 0.5, x));
    return op_keep(r, x);
}

static pare_status op_turn(op_run *r, size_t i)
{
    static const size_t turned[] = {2, 8, 12, 44, 64, 96, 160, 448, 512, 1536};
    return in_place(r, i, turned[i % 10], 0);
}

static pare_status op_round(op_run *r, size_t i)
{
    return in_place(r, i, widths[i % WIDTHS], 1);
}

static pare_status op_cap(op_run *r, size_t i)
{
    return in_place(r, i, widths[i % WIDTHS], 2);
}

static pare_status op_share(op_run *r, size_t i)
{
    const size_t width = widths[i % WIDTHS], rows = rows_of(i);
    pare_array gate, x, y;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, op_floats(r, rows), rows, 1, &gate));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &x));
    PARE_TRY(op_blank(r, rows, width, &y));
    y = i % 2 ? x : y;
    PARE_TRY(r->o.op->share(&r->o, gate, x, y));
    return op_keep(r, y);
}

static pare_status op_some_rows(op_run *r, size_t i)
{
    static const size_t row[] = {4, 0, 0, 3, 2};
    const size_t width = widths[i % WIDTHS], rows = rows_of(i);
    pare_array x, y;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, op_floats(r, 5 * width), 5, width, &x));
    PARE_TRY(op_blank(r, rows, width, &y));
    PARE_TRY(r->o.op->rows(&r->o, i % 3 ? row : NULL, x, y));
    return op_keep(r, y);
}

/* What experts get of the rows, and what they give back. */
static pare_status visit_experts(op_run *r, const pare_routes *routes, size_t width)
{
    const size_t rows = routes->rows;
    pare_array x, sum;
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &x));
    PARE_TRY(op_put(r, op_floats(r, rows * width), rows, width, &sum));
    for (size_t e = 0; e < routes->experts; e++) {
        const size_t count = routes->start[e + 1] - routes->start[e];
        pare_array y;
        if (!count)
            continue;
        PARE_TRY(op_blank(r, count, width, &y));
        PARE_TRY(r->o.op->gather(&r->o, routes, e, x, y));
        PARE_TRY(op_keep(r, y));
        PARE_TRY(r->o.op->scatter(&r->o, routes, e, y, sum));
    }
    return op_keep(r, sum);
}

/* Equal logits and a row that is not of numbers among them. */
static pare_status op_route(op_run *r, size_t i)
{
    static const size_t experts[] = {1, 2, 5, 31, 32, 33, 64, 70};
    const size_t n = experts[i % 8], used = i % 3 < n ? 1 + i % 3 : n, rows = 1 + i % 6;
    float *const logit = op_floats(r, rows * n);
    pare_array x;
    pare_routes routes;
    for (size_t k = 0; k < rows * n; k++)
        logit[k] = fabsf(logit[k]) > 100 ? 3 : logit[k] * 4;
    if (i % 4 == 3)
        logit[n / 2] = NAN;
    for (size_t k = 0; k < n && i % 5 == 2; k++)
        logit[k] = 1;
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, logit, rows, n, &x));
    PARE_TRY(r->o.op->route(&r->o, x, &(pare_router){.used = used, .norm = i % 2}, &routes));
    for (size_t k = 0; k < rows * used; k++)
        routes.weight[k] = isnan(routes.weight[k]) ? (float)NAN : routes.weight[k];
    op_keep_bytes(r, routes.picked, rows * used * sizeof *routes.picked);
    op_keep_bytes(r, routes.weight, rows * used * sizeof *routes.weight);
    return visit_experts(r, &routes, widths[i % WIDTHS]);
}

static pare_status op_score(op_run *r, size_t i)
{
    static const size_t wide[] = {1, 2, 63, 64, 65, 255, 257, 513, 2049, 9000};
    const size_t n = wide[i % 10], rows = 1 + i % 3;
    float *const logit = op_floats(r, rows * n), *const other = op_floats(r, rows * n);
    pare_array x, base;
    int32_t target[3];
    pare_score score[3] = {0};
    for (size_t k = 0; k < rows * n; k++) {
        logit[k] = fabsf(logit[k]) > 100 ? 5 : logit[k] * 3;
        other[k] = i % 7 == 3 ? logit[k] : fabsf(other[k]) > 100 ? -5 : other[k] * 2;
    }
    if (i % 10 == 8)
        logit[n / 2] = NAN;
    for (size_t k = 0; k < rows; k++)
        target[k] = (int32_t)(k % 2 ? n - 1 : n / 3);
    PARE_TRY(op_begin(r, 1));
    PARE_TRY(op_put(r, logit, rows, n, &x));
    PARE_TRY(op_put(r, other, rows, n, &base));
    base.at = i % 4 == 1 ? NULL : base.at;
    PARE_TRY(r->o.op->score(&r->o, x, base, target, score));
    for (size_t k = 0; k < rows; k++) {
        const double both[2] = {isnan(score[k].nll) ? (double)NAN : score[k].nll,
                                isnan(score[k].kl) ? (double)NAN : score[k].kl};
        op_keep_bytes(r, both, sizeof both);
        op_keep_bytes(r, &score[k].best, sizeof score[k].best);
    }
    return PARE_OK;
}

const op_row op_rows[] = {{"embed", 36, op_embed},
                          {"norm", 70, op_norm},
                          {"activate", 60, op_activate},
                          {"add", 18, op_add},
                          {"turn", 20, op_turn},
                          {"round", 18, op_round},
                          {"cap", 18, op_cap},
                          {"share", 18, op_share},
                          {"rows", 18, op_some_rows},
                          {"route", 48, op_route},
                          {"score", 30, op_score},
                          {"attend", OP_ATTENDS, op_attend},
                          {"linears", OP_LINEARS, op_linears},
                          {"f16", OP_F16, op_f16},
                          {"tiles", OP_TILES, op_tiles},
                          {"exl3", OP_EXL3, op_exl3},
                          {NULL, 0, NULL}};

const op_row *op_row_of(const char *name)
{
    const op_row *row = op_rows;
    while (row->name && strcmp(row->name, name) != 0)
        row++;
    ck_assert_msg(row->name != NULL, "no row '%s'", name);
    return row;
}
