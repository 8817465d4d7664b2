#include <math.h>
#include <string.h>

#include "quant/omniquant.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 8 };

/* Arguments of the loops over rows. */
typedef struct clip_call {
    const pare_kernels *kernels;
    const pare_omniquant_clip *c;
    pare_grid grid;
    size_t group, groups;
    const float *w;
    float *q, *d, *dlow, *dhigh;
    bool clamp_only;
} clip_call;

/* The range of a group and what is kept of it. */
typedef struct range {
    float lo, hi;       /* min(0, min w), max(0, max w) */
    float low, high;    /* shares */
    float floor, ceil;  /* bounds of the clamp */
    size_t least, most; /* where lo and hi are, count when they are 0 */
} range;

static range find_range(const pare_omniquant_clip *c, size_t at, const float *w, size_t count)
{
    range r = {.low = c->low ? c->low[at] : 1,
               .high = c->high ? c->high[at] : 1,
               .least = count,
               .most = count};
    for (size_t j = 0; j < count; j++) {
        if (w[j] < r.lo) {
            r.lo = w[j];
            r.least = j;
        }
        if (w[j] > r.hi) {
            r.hi = w[j];
            r.most = j;
        }
    }
    r.floor = r.low * r.lo;
    r.ceil = r.high * r.hi;
    return r;
}

static inline float clamp(const range *r, float x)
{
    x = x < r->floor ? r->floor : x;
    return x > r->ceil ? r->ceil : x;
}

static clip_call make_call(const pare_ctx *cx, const pare_omniquant_clip *c)
{
    clip_call call = {.kernels = &cx->kernels, .c = c, .grid = *c->grid};
    call.grid.clip = PARE_CLIP_NONE;
    call.groups = pare_grid_groups(c->grid, c->k);
    call.group = c->grid->group ? c->grid->group : c->k;
    return call;
}

static size_t group_count(const clip_call *call, size_t g)
{
    const size_t left = call->c->k - g * call->group;
    return left < call->group ? left : call->group;
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const clip_call *const call = arg;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < call->groups; g++) {
            const size_t at = i * call->c->k + g * call->group, count = group_count(call, g);
            const float *const w = call->w + at;
            float *const q = call->q + at;
            const range r = find_range(call->c, i * call->groups + g, w, count);
            for (size_t j = 0; j < count; j++)
                q[j] = clamp(&r, w[j]);
            if (call->clamp_only)
                continue;
            float scale;
            uint8_t zero;
            if (pare_grid_fit(call->kernels, &call->grid, q, count, &scale, &zero) != PARE_GRID_OK)
                continue;
            const unsigned bits = call->grid.bits;
            for (size_t j = 0; j < count; j++)
                q[j] = pare_grid_value(pare_grid_code(bits, q[j], scale, zero), scale, zero);
        }
}

void pare_omniquant_round(const pare_ctx *cx, const pare_omniquant_clip *c, const float *w,
                          float *q)
{
    clip_call call = make_call(cx, c);
    call.w = w;
    call.q = q;
    pare_parallel(cx, c->n, ROWS_PER_CHUNK, round_rows, &call);
}

void pare_omniquant_clamp(const pare_ctx *cx, const pare_omniquant_clip *c, float *w)
{
    clip_call call = make_call(cx, c);
    call.w = w;
    call.q = w;
    call.clamp_only = true;
    pare_parallel(cx, c->n, ROWS_PER_CHUNK, round_rows, &call);
}

/* Shares of the bounds in the gradient of the scale: d scale = low dfloor + high dceil. */
static void scale_slopes(const pare_grid *g, const range *r, float *low, float *high)
{
    const float top = (float)((1u << g->bits) - 1), half = (float)(1u << (g->bits - 1));
    *low = -1 / top;
    *high = 1 / top;
    if (!g->symmetric)
        return;
    const bool up = r->ceil / (half - 1) > -r->floor / half;
    *low = up ? 0 : -1 / half;
    *high = up ? 1 / (half - 1) : 0;
}

/* One group: d becomes the gradient of w; those of the shares go to *dlow and *dhigh. */
static void undo_group(const clip_call *call, const range *r, const float *w, float *d,
                       size_t count, float *dlow, float *dhigh)
{
    float v[2], scale = 0, low_slope, high_slope;
    double floor = 0, ceil = 0, dscale = 0;
    uint8_t zero = 0;
    /* the fit looks at the least and largest weight only */
    v[0] = r->floor;
    v[1] = r->ceil;
    const bool fits =
        pare_grid_fit(call->kernels, &call->grid, v, 2, &scale, &zero) == PARE_GRID_OK && scale > 0;
    for (size_t j = 0; j < count; j++) {
        const float x = clamp(r, w[j]), g = d[j];
        if (fits) {
            const uint8_t code = pare_grid_code(call->grid.bits, x, scale, zero);
            dscale += (double)(g * ((pare_grid_value(code, scale, zero) - x) / scale));
        }
        if (w[j] < r->floor || (w[j] == r->lo && r->lo < 0)) {
            floor += (double)g;
            d[j] = 0;
        } else if (w[j] > r->ceil || (w[j] == r->hi && r->hi > 0)) {
            ceil += (double)g;
            d[j] = 0;
        }
    }
    scale_slopes(&call->grid, r, &low_slope, &high_slope);
    floor += (double)low_slope * dscale;
    ceil += (double)high_slope * dscale;
    *dlow = (float)(floor * (double)r->lo);
    *dhigh = (float)(ceil * (double)r->hi);
    if (r->least < count)
        d[r->least] += (float)(floor * (double)r->low);
    if (r->most < count)
        d[r->most] += (float)(ceil * (double)r->high);
}

static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const clip_call *const call = arg;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < call->groups; g++) {
            const size_t at = i * call->c->k + g * call->group, count = group_count(call, g);
            const size_t share = i * call->groups + g;
            const range r = find_range(call->c, share, call->w + at, count);
            undo_group(call, &r, call->w + at, call->d + at, count, &call->dlow[share],
                       &call->dhigh[share]);
        }
}

void pare_omniquant_round_backward(const pare_ctx *cx, const pare_omniquant_clip *c, const float *w,
                                   float *d, float *dlow, float *dhigh)
{
    clip_call call = make_call(cx, c);
    call.w = w;
    call.d = d;
    call.dlow = dlow;
    call.dhigh = dhigh;
    pare_parallel(cx, c->n, ROWS_PER_CHUNK, undo_rows, &call);
}
