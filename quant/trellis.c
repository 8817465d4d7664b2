#include "quant/trellis.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "kernels/exl3.h"
#include "runtime/hadamard.h"
#include "runtime/product.h"
#include "runtime/random.h"
#include "runtime/small.h"
#include "runtime/threads.h"
#include "solve/exl3_values.h"

enum {
    TILE = PARE_EXL3_TILE,
    WEIGHTS = PARE_EXL3_WEIGHTS,
    STATE_BITS = 16,
    SEAM = 64,  /* symbols on both sides of the seam that decide where it is crossed */
    BLOCK = 128 /* columns between lazy updates */
};

#define F16_MAX 65504.0F

/* The root mean square of normal numbers for which the codes lose least, measured. */
static float suiting(unsigned bits)
{
    return bits < 3 ? 1.0F : 0.93F;
}

static size_t nodes_of(unsigned bits)
{
    return (size_t)1 << (STATE_BITS - bits);
}

size_t pare_exl3_bytes(unsigned bits)
{
    return nodes_of(bits) * (2 * sizeof(float) + WEIGHTS) + (size_t)3 * PARE_ALIGN;
}

/* Rows of a matrix whose lower triangle is h, times signs on both sides. */
typedef struct unfolding {
    const float *h, *sign;
    float *to;
    size_t k;
} unfolding;

static void unfold_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const unfolding *const u = arg;
    const size_t k = u->k;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        float *const row = u->to + i * k;
        for (size_t j = 0; j < k; j++)
            row[j] = (j <= i ? u->h[i * k + j] : u->h[j * k + i]) * (u->sign[i] * u->sign[j]);
        pare_exl3_mix_rows(row, k, 1, k);
    }
}

/* Columns in stretches, each of all rows. */
static void mix_stretches(void *arg, size_t begin, size_t end, size_t worker)
{
    const unfolding *const u = arg;
    const size_t first = begin * TILE, count = pare_smaller(u->k, end * TILE) - first;
    (void)worker;
    pare_exl3_mix_columns(u->to + first, u->k, u->k, count);
}

pare_status pare_exl3_site_make(pare_ctx *cx, pare_arena *scratch, uint64_t seed, float damp,
                                bool identity, const float *h, size_t k, pare_exl3_site *out)
{
    const pare_factor_opts opts = {.damp = damp, .above = !identity, .diagonal = identity};
    float *const turned = PARE_NEW(scratch, float, identity ? 1 : k *k);
    out->sign = PARE_NEW(scratch, float, k);
    if (!turned || !out->sign)
        return PARE_ENOMEM;
    pare_hadamard_signs(seed, pare_random_stream("exl3 columns"), k, out->sign);
    if (identity) {
        out->factor = (pare_factor){.k = k};
        return PARE_OK;
    }
    unfolding u = {h, out->sign, turned, k};
    pare_parallel(cx, k, 16, unfold_rows, &u);
    pare_parallel(cx, k / TILE, 1, mix_stretches, &u);
    return pare_factorize(cx, scratch, &opts, turned, k, &out->factor);
}

/* The search of one thread. */
typedef struct searching {
    const pare_kernels *kernels;
    const float *value; /* [65536] */
    float *cost[2];     /* [nodes] */
    uint8_t *from;      /* [256][nodes] */
    unsigned bits;
} searching;

/* Steps through `count` targets from the costs in cost[0], which it leaves there. */
static void walk(searching *s, const float *x, size_t first, size_t count)
{
    const size_t nodes = nodes_of(s->bits);
    for (size_t p = 0; p < count; p++) {
        float *const before = s->cost[0];
        s->kernels->exl3_step(s->cost[1], s->from + p * nodes, before, s->value,
                              x[(first + p) % WEIGHTS], s->bits);
        s->cost[0] = s->cost[1];
        s->cost[1] = before;
    }
}

/* The state that reaches a node at step p. */
static uint32_t state_at(const searching *s, size_t p, size_t node)
{
    const size_t nodes = nodes_of(s->bits);
    return (uint32_t)(s->from[p * nodes + node] * nodes + node);
}

/* The node in which the path through the circle of x begins and ends. */
static size_t find_seam(searching *s, const float *x)
{
    const size_t nodes = nodes_of(s->bits);
    size_t node = 0;
    memset(s->cost[0], 0, nodes * sizeof *s->cost[0]);
    walk(s, x, WEIGHTS - SEAM, 2 * SEAM);
    for (size_t i = 1; i < nodes; i++)
        if (s->cost[0][i] < s->cost[0][node])
            node = i;
    for (size_t p = 2 * SEAM; p-- > SEAM;)
        node = state_at(s, p, node) >> s->bits;
    return node;
}

/* Symbols and values of the path that is nearest to x. */
static void find_path(searching *s, const float *x, uint8_t *symbol, float *value)
{
    const size_t nodes = nodes_of(s->bits), seam = find_seam(s, x);
    for (size_t i = 0; i < nodes; i++)
        s->cost[0][i] = INFINITY;
    s->cost[0][seam] = 0;
    walk(s, x, 0, WEIGHTS);
    size_t node = seam;
    for (size_t p = WEIGHTS; p-- > 0;) {
        const uint32_t state = state_at(s, p, node);
        symbol[p] = (uint8_t)(state & ((1U << s->bits) - 1));
        value[p] = s->value[state];
        node = state >> s->bits;
    }
}

typedef struct job {
    const pare_ctx *cx;
    const pare_factor *factor;
    const float *value;
    searching *search;  /* of each worker */
    const float *scale; /* [k / span] */
    float *w;
    pare_codes *out;
    size_t span;
    atomic_size_t done; /* strips of 16 rows */
} job;

/* Codes the tile at column c; the weights become what it loses. */
static void code_tile(const job *j, searching *s, float *strip, uint8_t *code, size_t c)
{
    const size_t k = j->out->k;
    const float scale = j->scale[c / j->span];
    float x[WEIGHTS], value[WEIGHTS];
    uint8_t symbol[WEIGHTS];
    for (unsigned p = 0; p < WEIGHTS; p++)
        x[p] = scale > 0 ? strip[pare_exl3_row(p) * k + c + pare_exl3_column(p)] / scale : 0;
    find_path(s, x, symbol, value);
    for (unsigned p = 0; p < WEIGHTS; p++) {
        const size_t at = pare_exl3_row(p) * k + c + pare_exl3_column(p);
        code[at] = symbol[p];
        strip[at] -= value[p] * scale;
    }
}

/* What the tile at column c lost becomes e with e U_BB = loss, and the columns behind it up to
 * `end` make up for it. */
static void spread_tile(const job *j, float *strip, size_t c, size_t end)
{
    const size_t k = j->out->k;
    const float *const u = j->factor->u;
    for (size_t r = 0; r < TILE; r++) {
        float *const row = strip + r * k;
        for (size_t i = c; i < c + TILE; i++) {
            row[i] /= j->factor->pivot[i];
            for (size_t b = i + 1; b < end; b++)
                row[b] -= row[i] * u[i * k + b];
        }
    }
}

/* 16 rows, all columns. */
static void code_strip(const job *j, searching *s, float *strip, uint8_t *code)
{
    const size_t k = j->out->k;
    for (size_t first = 0; first < k; first += BLOCK) {
        const size_t last = pare_smaller(first + BLOCK, k);
        for (size_t c = first; c < last; c += TILE) {
            code_tile(j, s, strip, code, c);
            if (j->factor->u)
                spread_tile(j, strip, c, last);
        }
        const pare_product behind = {.m = TILE,
                                     .n = k - last,
                                     .k = last - first,
                                     .a = strip + first,
                                     .lda = k,
                                     .b = j->factor->u + first * k + last,
                                     .ldb = k,
                                     .c = strip + last,
                                     .ldc = k,
                                     .alpha = -1};
        if (j->factor->u && last < k)
            pare_product_add(&j->cx->kernels, &behind);
    }
}

/* Worker 0 is the caller's own thread: it alone may report. */
static void code_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    job *const j = arg;
    const volatile int *const interrupt = j->cx->interrupt;
    const size_t each = TILE * j->out->k;
    for (size_t i = begin; i < end && !(interrupt && *interrupt); i++) {
        code_strip(j, &j->search[worker], j->w + i * each, j->out->codes + i * each);
        const size_t done = atomic_fetch_add(&j->done, 1) + 1;
        if (worker == 0)
            pare_ctx_further(j->cx, (double)done, (double)(j->out->n / TILE));
    }
}

/* r: signs times the root mean squares of rows, by which they are divided. */
static pare_status scale_rows(pare_ctx *cx, uint64_t seed, float *w, pare_codes *out)
{
    const size_t n = out->n, k = out->k;
    pare_hadamard_signs(seed, pare_random_stream("exl3 rows"), n, out->row_scales);
    for (size_t r = 0; r < n; r++) {
        float *const row = w + r * k;
        double sum = 0;
        for (size_t j = 0; j < k; j++) {
            if (!isfinite(row[j]))
                return pare_fail(cx, PARE_ENUMERIC, "row %zu, column %zu: the weight is %g", r, j,
                                 (double)row[j]);
            sum += (double)row[j] * (double)row[j];
        }
        const float root = (float)sqrt(sum / (double)k);
        if (root > F16_MAX)
            return pare_fail(cx, PARE_ENUMERIC, "row %zu: a scale of %g does not fit F16", r,
                             (double)root);
        out->row_scales[r] *= pare_f16_to_f32(pare_f16_of_scale(root));
        for (size_t j = 0; j < k; j++)
            row[j] = root > 0 ? row[j] / out->row_scales[r] : 0;
    }
    return PARE_OK;
}

/* Turns the weights, and finds the scale of each span of columns. */
static void turn(const pare_exl3_site *site, unsigned bits, float *w, pare_codes *out, float *scale)
{
    const size_t n = out->n, k = out->k, span = pare_exl3_span(k);
    for (size_t r = 0; r < n; r++)
        for (size_t j = 0; j < k; j++)
            w[r * k + j] *= site->sign[j];
    pare_exl3_mix_rows(w, k, n, k);
    pare_exl3_mix_columns(w, k, n, k);
    for (size_t c = 0; c < k; c += span) {
        double sum = 0;
        for (size_t r = 0; r < n; r++)
            for (size_t j = c; j < c + span; j++)
                sum += (double)w[r * k + j] * (double)w[r * k + j];
        const float root = (float)sqrt(sum / (double)(n * span)) / suiting(bits);
        scale[c / span] = pare_f16_to_f32(pare_f16_of_scale(root));
        for (size_t j = c; j < c + span; j++)
            out->column_scales[j] = site->sign[j] * scale[c / span];
    }
}

static pare_status take_search(pare_ctx *cx, pare_arena *scratch, unsigned bits, job *j)
{
    const size_t nodes = nodes_of(bits);
    float *const value = PARE_NEW(scratch, float, PARE_EXL3_STATES);
    j->search = PARE_NEW(scratch, searching, pare_threads(cx));
    if (!value || !j->search)
        return PARE_ENOMEM;
    for (uint32_t s = 0; s < PARE_EXL3_STATES; s++)
        value[s] = pare_exl3_value(s);
    for (size_t t = 0; t < pare_threads(cx); t++) {
        j->search[t] =
            (searching){.kernels = &cx->kernels,
                        .value = value,
                        .cost = {PARE_NEW(scratch, float, nodes), PARE_NEW(scratch, float, nodes)},
                        .from = PARE_NEW(scratch, uint8_t, WEIGHTS * nodes),
                        .bits = bits};
        if (!j->search[t].cost[0] || !j->search[t].cost[1] || !j->search[t].from)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

pare_status pare_exl3_quantize(pare_ctx *cx, pare_arena *scratch, unsigned bits, uint64_t seed,
                               const pare_exl3_site *site, float *w, pare_codes *out)
{
    const size_t span = pare_exl3_span(out->k);
    const pare_mark mark = pare_arena_mark(scratch);
    float *const scale = PARE_NEW(scratch, float, out->k / span);
    job j = {.cx = cx, .factor = &site->factor, .scale = scale, .w = w, .out = out, .span = span};
    pare_status s = scale ? take_search(cx, scratch, bits, &j) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = scale_rows(cx, seed, w, out);
    if (s == PARE_OK) {
        turn(site, bits, w, out, scale);
        pare_parallel(cx, out->n / TILE, 1, code_rows, &j);
        s = pare_ctx_interrupted(cx);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}
