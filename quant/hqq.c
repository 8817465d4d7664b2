/* A group needs one pass over its weights for each round: both closed forms follow from five sums
 * over codes q and shrunk weights x. */
#include "quant/hqq.h"

#include <math.h>

#include "kernels/half.h"
#include "quant/rtn.h"
#include "runtime/threads.h"
#include "solve/scales.h"
#include "solve/super.h"

enum { ROWS_PER_CHUNK = 8, ROUNDS = 20, SUBS = 8, SUB_TOP = 63 };

#define BETA  10.0
#define KAPPA 1.01 /* beta grows by it */
/* Errors that shrink to 0 for every beta up to BETA KAPPA^19: 0.125 < beta^(-1 / 1.3). */
#define SMALL   0.125F
#define F16_MIN 0x1p-24F
#define F16_MAX 65504.0F

typedef struct hqq_job {
    const pare_hqq *h;
    const float *w;
    size_t k;
    float inverse_beta;
} hqq_job;

/* |e|^-0.3 = (sqrt(|e|)^(-1/5))^3 */
static float shrink(float e, float inverse_beta)
{
    const float a = fabsf(e);
    if (a < SMALL)
        return 0;
    const float r = pare_fifth_root(sqrtf(a));
    const float left = a - inverse_beta * (r * r * r);
    return left > 0 ? copysignf(left, e) : 0;
}

typedef struct sums {
    double x, q, xq, qq, error;
} sums;

static sums sums_of(const float *w, size_t count, float step, float zero, float top,
                    float inverse_beta)
{
    const float magic = 12582912.0F, inverse = 1 / step;
    sums s = {0};
    for (size_t j = 0; j < count; j++) {
        float q = w[j] * inverse + zero;
        q = q < top ? q : top;
        q = q > 0 ? q : 0;
        q = (q + magic) - magic;
        const float e = w[j] - (q - zero) * step;
        const double x = (double)(w[j] - shrink(e, inverse_beta)), c = (double)q;
        s.x += x;
        s.q += c;
        s.xq += x * c;
        s.qq += c * c;
        s.error += (double)fabsf(e);
    }
    return s;
}

/* One round of a group; returns the sum of |e| that it began with. */
static double improve(const hqq_job *job, const float *w, size_t count, float *step, float *zero)
{
    const float top = (float)((1u << job->h->bits) - 1);
    if (!(*step > 0))
        return 0;
    const sums s = sums_of(w, count, *step, *zero, top, job->inverse_beta);
    *zero = (float)((s.q - s.x / (double)*step) / (double)count);
    if (!job->h->whole)
        return s.error;
    *zero = rintf(*zero < top ? *zero : top);
    *zero = *zero > 0 ? *zero : 0;
    const double z = (double)*zero, squares = s.qq - 2 * z * s.q + z * z * (double)count;
    const float moved = (float)(squares > 0 ? (s.xq - z * s.x) / squares : 0);
    if (moved >= F16_MIN && moved <= F16_MAX)
        *step = moved;
    return s.error;
}

static void improve_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const hqq_job *const job = arg;
    const pare_hqq *const h = job->h;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        h->error[i] = 0;
        for (size_t g = 0; g < h->groups; g++) {
            const size_t at = i * h->groups + g, from = g * h->group;
            const size_t count = (g + 1 < h->groups ? from + h->group : job->k) - from;
            h->error[i] +=
                improve(job, job->w + i * job->k + from, count, &h->step[at], &h->zero[at]);
        }
    }
}

size_t pare_hqq_solve(pare_ctx *cx, const pare_hqq *h, const float *w, size_t n, size_t k)
{
    double best = INFINITY, beta = BETA;
    for (size_t round = 1; round <= ROUNDS; round++) {
        hqq_job job = {.h = h, .w = w, .k = k, .inverse_beta = (float)(1 / beta)};
        pare_parallel(cx, n, ROWS_PER_CHUNK, improve_rows, &job);
        double error = 0;
        for (size_t i = 0; i < n; i++)
            error += h->error[i];
        if (!(error < best))
            return round;
        best = error;
        beta *= KAPPA;
    }
    return ROUNDS;
}

/* A unit of which 0 .. 63 make up values of eight sub-blocks. */
static float unit_of(const float value[SUBS])
{
    float most = 0;
    for (size_t i = 0; i < SUBS; i++)
        most = value[i] > most ? value[i] : most;
    return most > 0 ? pare_f16_scale(most / SUB_TOP) : 0;
}

static uint8_t units(float value, float unit)
{
    const float t = unit > 0 && value > 0 ? rintf(value / unit) : 0;
    return (uint8_t)(t < SUB_TOP ? t : SUB_TOP);
}

/* D and s of each super-block; the steps become those, and zero points follow from the least
 * weight.
 */
static void keep_steps(const pare_kernels *kernels, const pare_hqq *h, const float *w, size_t n,
                       pare_codes *out)
{
    for (size_t b = 0; b < n * out->groups; b++) {
        float *const step = h->step + b * SUBS;
        out->scales[b] = unit_of(step);
        for (size_t i = 0; i < SUBS; i++) {
            uint8_t *const s = out->sub + b * PARE_SUPER_BYTES + 2 * i;
            float lo, hi;
            (void)kernels->range_f32(w + (b * SUBS + i) * h->group, h->group, &lo, &hi);
            *s = units(step[i], out->scales[b]);
            step[i] = out->scales[b] * (float)*s;
            h->zero[b * SUBS + i] = step[i] > 0 ? -lo / step[i] : 0;
        }
    }
}

/* M and o. */
static void keep_zeros(const pare_hqq *h, size_t n, pare_codes *out)
{
    for (size_t b = 0; b < n * out->groups; b++) {
        float least[SUBS];
        for (size_t i = 0; i < SUBS; i++)
            least[i] = h->zero[b * SUBS + i] * h->step[b * SUBS + i];
        out->minima[b] = unit_of(least);
        for (size_t i = 0; i < SUBS; i++)
            out->sub[b * PARE_SUPER_BYTES + 2 * i + 1] = units(least[i], out->minima[b]);
    }
}

static pare_status check(pare_ctx *cx, const pare_grid *g, size_t n, size_t k,
                         const pare_codes *out)
{
    PARE_TRY(pare_grid_check(cx, g, n, k, out));
    if (g->encoding != PARE_ENCODING_Q4_K &&
        (g->encoding != PARE_ENCODING_UNIFORM || g->symmetric || g->clip != PARE_CLIP_NONE))
        return pare_fail(cx, PARE_EINVAL,
                         "HQQ looks for zero points: its grids are the uniform one, not symmetric "
                         "and without clip, and q4_k");
    return PARE_OK;
}

pare_status pare_hqq_quantize(pare_ctx *cx, const pare_grid *grid, const float *w, size_t n,
                              size_t k, pare_arena *scratch, pare_codes *out)
{
    PARE_TRY(check(cx, grid, n, k, out));
    const bool super = pare_encoding_is_super(grid->encoding);
    const pare_grid range = {.bits = grid->bits,
                             .group = super ? pare_super_sub(grid->encoding) : grid->group,
                             .f16_scales = grid->f16_scales};
    pare_codes start = *out;
    if (super) {
        start.groups = pare_grid_groups(&range, k);
        start.scales = PARE_NEW(scratch, float, n *start.groups);
        start.zeros = start.scales ? PARE_NEW(scratch, uint8_t, n * start.groups) : NULL;
    }
    const size_t count = n * start.groups;
    const pare_hqq h = {.bits = range.bits,
                        .group = range.group,
                        .groups = start.groups,
                        .whole = !super,
                        .step = start.scales,
                        .zero = start.zeros ? PARE_NEW(scratch, float, count) : NULL,
                        .error = PARE_NEW(scratch, double, n)};
    if (!h.zero || !h.error)
        return PARE_ENOMEM;
    PARE_TRY(pare_scales_fit(cx, &range, w, NULL, n, k, &start));
    for (size_t i = 0; i < count; i++)
        h.zero[i] = (float)start.zeros[i];
    if (super)
        keep_steps(&cx->kernels, &h, w, n, out);
    (void)pare_hqq_solve(cx, &h, w, n, k);
    if (super)
        keep_zeros(&h, n, out);
    for (size_t i = 0; !super && i < count; i++) {
        if (h.step[i] > 0 && grid->f16_scales)
            out->scales[i] = pare_f16_scale(h.step[i]);
        out->zeros[i] = (uint8_t)h.zero[i];
    }
    pare_rtn_codes(cx, grid, w, out);
    return PARE_OK;
}
