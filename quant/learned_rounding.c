#include "quant/learned_rounding.h"

#include <math.h>
#include <string.h>

#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 8 };

/* Arguments of the loops over rows. */
typedef struct round_call {
    const pare_kernels *kernels;
    const pare_learned_rounding *r;
    pare_grid grid;
    size_t group, groups;
    const float *w;
    float *q, *d, *dlow, *dhigh;
    bool apply_only;
} round_call;

/* One group: its range, what is kept of it, and the grid of that. */
typedef struct group_range {
    const float *offset; /* of its weights, or NULL */
    size_t count;
    float lo, hi;       /* min(0, min w), max(0, max w) */
    float low, high;    /* shares */
    float floor, ceil;  /* bounds of the clamp */
    size_t least, most; /* where lo and hi are, count when they are 0 */
    bool fits;
    float scale; /* 0 without a grid; below 0 where code 0 stands for hi */
    uint8_t zero;
} group_range;

static group_range find_range(const round_call *call, size_t row, size_t g, const float *w)
{
    const pare_learned_rounding *const r = call->r;
    const size_t left = r->k - g * call->group, at = row * call->groups + g;
    group_range to = {.offset = r->offset ? r->offset + row * r->k + g * call->group : NULL,
                      .count = left < call->group ? left : call->group,
                      .low = r->low ? r->low[at] : 1,
                      .high = r->high ? r->high[at] : 1};
    to.least = to.most = to.count;
    for (size_t j = 0; j < to.count; j++) {
        if (w[j] < to.lo) {
            to.lo = w[j];
            to.least = j;
        }
        if (w[j] > to.hi) {
            to.hi = w[j];
            to.most = j;
        }
    }
    to.floor = to.low * to.lo;
    to.ceil = to.high * to.hi;
    /* the fit looks at the least and largest weight only */
    const float bounds[] = {to.floor, to.ceil};
    float least, most;
    to.fits =
        call->kernels->range_f32(w, to.count, &least, &most) && /* all finite */
        pare_grid_fit(call->kernels, &call->grid, bounds, 2, &to.scale, &to.zero) == PARE_GRID_OK &&
        (to.scale > 0 || to.scale < 0);
    if (!to.fits)
        to.scale = 0;
    return to;
}

/* The least and the largest weight set the range. */
static inline bool is_least(const group_range *r, float w)
{
    return w == r->lo && r->lo < 0;
}

static inline bool is_most(const group_range *r, float w)
{
    return w == r->hi && r->hi > 0;
}

/* Whether the offset of a weight counts. */
static inline bool is_free(const group_range *r, float w)
{
    return r->offset && w != 0 && !is_least(r, w) && !is_most(r, w);
}

static inline float clamp(const group_range *r, float x)
{
    x = x < r->floor ? r->floor : x;
    return x > r->ceil ? r->ceil : x;
}

/* The weight that is clamped and rounded to nearest. */
static inline float moved(const group_range *r, const float *w, size_t j)
{
    return is_free(r, w[j]) ? w[j] + r->scale * r->offset[j] : w[j];
}

static round_call make_call(const pare_ctx *cx, const pare_learned_rounding *r)
{
    round_call call = {.kernels = &cx->kernels, .r = r, .grid = *r->grid};
    call.grid.clip = PARE_CLIP_NONE;
    call.groups = pare_grid_groups(r->grid, r->k);
    call.group = r->grid->group ? r->grid->group : r->k;
    return call;
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const round_call *const call = arg;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < call->groups; g++) {
            const size_t at = i * call->r->k + g * call->group;
            const float *const w = call->w + at;
            float *const q = call->q + at;
            const group_range r = find_range(call, i, g, w);
            for (size_t j = 0; j < r.count; j++)
                q[j] = clamp(&r, moved(&r, w, j));
            if (call->apply_only || !r.fits)
                continue;
            const unsigned bits = call->grid.bits;
            for (size_t j = 0; j < r.count; j++)
                q[j] =
                    pare_grid_value(pare_grid_code(bits, q[j], r.scale, r.zero), r.scale, r.zero);
        }
}

void pare_learned_values(const pare_ctx *cx, const pare_learned_rounding *r, const float *w,
                         float *q)
{
    round_call call = make_call(cx, r);
    call.w = w;
    call.q = q;
    pare_parallel(cx, r->n, ROWS_PER_CHUNK, round_rows, &call);
}

void pare_learned_apply(const pare_ctx *cx, const pare_learned_rounding *r, float *w)
{
    round_call call = make_call(cx, r);
    call.w = w;
    call.q = w;
    call.apply_only = true;
    pare_parallel(cx, r->n, ROWS_PER_CHUNK, round_rows, &call);
}

/* Shares of the bounds in the gradient of the scale: d scale = low dfloor + high dceil. */
static void scale_slopes(const pare_grid *g, const group_range *r, float *low, float *high)
{
    const float top = (float)((1u << g->bits) - 1), half = (float)(1u << (g->bits - 1));
    *low = -1 / top;
    *high = 1 / top;
    if (!g->symmetric)
        return;
    const bool minus = r->scale < 0;
    const float sign = minus ? -1 : 1, below = minus ? half - 1 : half, above = top - below;
    const bool up = r->ceil / above > -r->floor / below;
    *low = up ? 0 : -sign / below;
    *high = up ? sign / above : 0;
}

/* One group: d becomes the gradient of w, or of the offsets; those of the shares go to *dlow and
 * *dhigh. */
static void undo_group(const round_call *call, const group_range *r, const float *w, float *d,
                       float *dlow, float *dhigh)
{
    float low_slope, high_slope;
    double floor = 0, ceil = 0, dscale = 0;
    for (size_t j = 0; j < r->count; j++) {
        const float u = moved(r, w, j), x = clamp(r, u), g = d[j];
        const bool below = u < r->floor || is_least(r, w[j]);
        const bool above = !below && (u > r->ceil || is_most(r, w[j]));
        const bool inside = !below && !above;
        if (r->fits) {
            const uint8_t code = pare_grid_code(call->grid.bits, x, r->scale, r->zero);
            const float part = (pare_grid_value(code, r->scale, r->zero) - x) / r->scale;
            dscale += (double)(g * (inside && is_free(r, w[j]) ? part + r->offset[j] : part));
        }
        floor += below ? (double)g : 0;
        ceil += above ? (double)g : 0;
        d[j] = inside ? g : 0;
        if (r->offset)
            d[j] = is_free(r, w[j]) ? d[j] * r->scale : 0;
    }
    scale_slopes(&call->grid, r, &low_slope, &high_slope);
    floor += (double)low_slope * dscale;
    ceil += (double)high_slope * dscale;
    *dlow = (float)(floor * (double)r->lo);
    *dhigh = (float)(ceil * (double)r->hi);
    if (r->offset)
        return;
    if (r->least < r->count)
        d[r->least] += (float)(floor * (double)r->low);
    if (r->most < r->count)
        d[r->most] += (float)(ceil * (double)r->high);
}

static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const round_call *const call = arg;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < call->groups; g++) {
            const size_t at = i * call->r->k + g * call->group, share = i * call->groups + g;
            const group_range r = find_range(call, i, g, call->w + at);
            undo_group(call, &r, call->w + at, call->d + at, &call->dlow[share],
                       &call->dhigh[share]);
        }
}

void pare_learned_backward(const pare_ctx *cx, const pare_learned_rounding *r, const float *w,
                           float *d, float *dlow, float *dhigh)
{
    round_call call = make_call(cx, r);
    call.w = w;
    call.d = d;
    call.dlow = dlow;
    call.dhigh = dhigh;
    pare_parallel(cx, r->n, ROWS_PER_CHUNK, undo_rows, &call);
}
