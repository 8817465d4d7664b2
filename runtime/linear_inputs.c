/* Inputs of products: quantized per token, with the columns of outliers set to 0 (they are
 * multiplied on their own), or rounded to 8-bit floats. */
#include <string.h>

#include "kernels/layout.h"
#include "runtime/linear_internal.h"
#include "runtime/threads.h"

/* Arguments of the loop that quantizes the inputs of one job. */
typedef struct quantize_call {
    const pare__work *w;
    const pare__job *j;
} quantize_call;

static size_t groups_of(const pare_x8 *x)
{
    return (x->k + x->group - 1) / x->group;
}

/* Where one scale holds for all of x, sums may be as long as those of the weights; a longer one
 * than 32 bits can hold is cut, with the same scale for each piece. */
size_t pare__x8_group_of(const pare_linear *w)
{
    const pare_panel *const p = &w->panel;
    const size_t group = p->group < p->k ? p->group : p->k;
    if (w->activation.mode == PARE_ACTIVATION_GROUP || group > PARE_X8_GROUP_MAX)
        return pare_x8_group(p->group);
    return group;
}

/* x of one token without the columns of outliers, in the worker's buffer. */
static const float *inner_columns(const pare__work *w, const pare_outliers *o, const float *x,
                                  size_t k, size_t worker)
{
    float *const copy = w->buffer + worker * w->buffer_floats;
    memcpy(copy, x, k * sizeof *x);
    for (size_t c = 0; c < o->count; c++)
        copy[o->column[c]] = 0.0f;
    return copy;
}

/* Lays the k codes of token t where the kernels of 2:4 weights look for them (pare_x24_at). */
static void put_in_tile(const pare__job *j, size_t t, size_t m, const int8_t *row)
{
    const uint64_t flip = j->w->bits == 4 ? 0x8080808080808080u : 0;
    const size_t k = j->x8.k, step = pare_x24_at(m, k, t, sizeof flip) - pare_x24_at(m, k, t, 0);
    int8_t *to = j->planes.codes + pare_x24_at(m, k, t, 0);
    for (size_t i = 0; i < k; i += sizeof flip, to += step) {
        uint64_t codes;
        memcpy(&codes, row + i, sizeof codes);
        codes ^= flip;
        memcpy(to, &codes, sizeof codes);
    }
}

static void quantize_inner(const pare__work *w, const pare__job *j, size_t t, const float *x,
                           size_t worker)
{
    const pare_activation *const a = &j->w->activation;
    const size_t groups = groups_of(&j->x8), k = j->w->k, group = j->x8.group;
    const int32_t top = a->bits == 4 ? 7 : 127;
    const bool tiled = pare__linear_tiled(j->w);
    int8_t *const codes =
        tiled ? (int8_t *)(w->buffer + worker * w->buffer_floats) : j->planes.codes + t * j->x8.k;
    float *const scales = j->planes.scales + t * groups;
    int32_t *const sums = j->planes.sums + t * groups;
    if (a->mode == PARE_ACTIVATION_TENSOR)
        w->kernels->quant_x8_fixed(codes, scales, sums, x, k, group, a->scale, top);
    else
        w->kernels->quant_x8(codes, scales, sums, x, k, group,
                             a->mode == PARE_ACTIVATION_GROUP ? group : j->x8.k, top);
    if (tiled)
        put_in_tile(j, t, w->m, codes);
}

static void quantize_outliers(const pare__work *w, const pare__job *j, size_t t, const float *x,
                              size_t worker)
{
    const pare_outliers *const o = &j->w->outliers;
    const pare_x8 *const x8 = &j->outlier_x8;
    const size_t groups = groups_of(x8);
    float *const gathered = w->buffer + worker * w->buffer_floats;
    for (size_t c = 0; c < o->count; c++)
        gathered[c] = x[o->column[c]];
    w->kernels->quant_x8(j->outlier_planes.codes + t * x8->k, j->outlier_planes.scales + t * groups,
                         j->outlier_planes.sums + t * groups, gathered, o->count, x8->group, x8->k,
                         127);
}

static void quantize_tokens(void *arg, size_t begin, size_t end, size_t worker)
{
    const quantize_call *const c = arg;
    const pare__job *const j = c->j;
    const pare_outliers *const o = &j->w->outliers;
    for (size_t t = begin; t < end; t++) {
        const float *const x = c->w->x + t * c->w->ldx;
        if (j->outlier_planes.codes)
            quantize_outliers(c->w, j, t, x, worker);
        quantize_inner(c->w, j, t, o->count ? inner_columns(c->w, o, x, j->w->k, worker) : x,
                       worker);
    }
}

static pare_status take_planes(pare_arena *scratch, size_t m, size_t k, size_t group,
                               pare__planes *planes, pare_x8 *x)
{
    const size_t groups = (k + group - 1) / group;
    planes->codes = pare_arena_take_raw(scratch, m, k);
    planes->scales = pare_arena_take_raw(scratch, m, groups * sizeof *planes->scales);
    planes->sums = pare_arena_take_raw(scratch, m, groups * sizeof *planes->sums);
    if (!planes->codes || !planes->scales || !planes->sums)
        return PARE_ENOMEM;
    *x = (pare_x8){planes->codes, planes->scales, planes->sums, m, k, group};
    return PARE_OK;
}

static bool same_columns(const pare_outliers *a, const pare_outliers *b)
{
    return a->count == b->count && (a->f16 == NULL) == (b->f16 == NULL) &&
           (a->count == 0 || memcmp(a->column, b->column, a->count * sizeof *a->column) == 0);
}

bool pare__same_x8(const pare_linear *a, const pare_linear *b)
{
    const pare_activation *const x = &a->activation, *const y = &b->activation;
    return x->mode == y->mode && x->bits == y->bits &&
           (x->mode != PARE_ACTIVATION_TENSOR || x->scale == y->scale) &&
           pare__x8_group_of(a) == pare__x8_group_of(b) && same_columns(&a->outliers, &b->outliers);
}

/* True when what is made for the inputs of one also serves the other. */
static bool same_inputs(const pare__job *a, const pare__job *b)
{
    return a->x8.codes && pare__linear_tiled(a->w) == pare__linear_tiled(b->w) &&
           (!pare__linear_tiled(a->w) || a->w->bits == b->w->bits) && pare__same_x8(a->w, b->w);
}

static pare_status quantize(const pare_ctx *cx, pare_arena *scratch, const pare__work *w,
                            pare__job *j)
{
    for (const pare__job *other = w->job; other < j; other++)
        if (same_inputs(other, j)) {
            j->x8 = other->x8;
            j->outlier_x8 = other->outlier_x8;
            return PARE_OK;
        }
    const pare_outliers *const o = &j->w->outliers;
    PARE_TRY(
        take_planes(scratch, w->m, j->w->panel.k, pare__x8_group_of(j->w), &j->planes, &j->x8));
    if (o->count && !o->f16) {
        const size_t wide = o->panel.k;
        PARE_TRY(take_planes(scratch, w->m, wide,
                             wide <= PARE_X8_GROUP_MAX ? wide : pare_x8_group(wide),
                             &j->outlier_planes, &j->outlier_x8));
    }
    quantize_call call = {w, j};
    pare_parallel(cx, w->m, pare__chunk(j->w->panel.k), quantize_tokens, &call);
    return PARE_OK;
}

/* Rows [m, k] on their way into 8-bit floats. */
typedef struct rounding {
    const pare_kernels *kernels;
    const float *x;
    float *to;
    size_t ldx, k;
} rounding;

static void round_tokens(void *arg, size_t begin, size_t end, size_t worker)
{
    const rounding *const r = arg;
    (void)worker;
    for (size_t t = begin; t < end; t++)
        r->kernels->round_fp8(r->to + t * r->k, r->x + t * r->ldx, r->k);
}

static pare_status round_inputs(const pare_ctx *cx, pare_arena *scratch, const pare__work *w,
                                pare__job *j)
{
    for (const pare__job *other = w->job; other < j; other++)
        if (other->rounds) {
            j->x = other->x;
            j->ldx = other->ldx;
            return PARE_OK;
        }
    const size_t k = j->w->k;
    float *const to = pare_arena_take_raw(scratch, w->m, k * sizeof *to);
    if (!to)
        return PARE_ENOMEM;
    rounding call = {.kernels = w->kernels, .x = w->x, .to = to, .ldx = w->ldx, .k = k};
    pare_parallel(cx, w->m, pare__chunk(k), round_tokens, &call);
    j->x = to;
    j->ldx = k;
    return PARE_OK;
}

pare_status pare__linear_inputs(pare_ctx *cx, pare_arena *scratch, pare__work *w)
{
    for (size_t i = 0; i < w->jobs; i++)
        if (w->job[i].rounds)
            PARE_TRY(round_inputs(cx, scratch, w, &w->job[i]));
        else if (w->job[i].w->bits && !w->job[i].decode)
            PARE_TRY(quantize(cx, scratch, w, &w->job[i]));
    return PARE_OK;
}
