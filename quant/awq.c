/* The scale search: alphas one after the other, for each the error of every linear of the site. */
#include <math.h>

#include "quant/awq_internal.h"
#include "quant/gptq.h"

#define SMALLEST_SCALE 1e-4
#define DUO_FLOOR      1e-4

/* Adds |w_ij| / (largest |w| of its group), summed over the rows, to v [k]. */
static void add_weight_shares(const pare_awq_linear *l, size_t k, double *v)
{
    const size_t group = pare__awq_group(l->grid, k);
    for (size_t i = 0; i < l->n; i++)
        for (size_t at = 0; at < k; at += group) {
            const size_t end = k - at < group ? k : at + group;
            const float *const w = l->w + i * k;
            double most = 0;
            for (size_t j = at; j < end; j++)
                most = fmax(most, fabs((double)w[j]));
            for (size_t j = at; j < end && most > 0; j++)
                v[j] += fabs((double)w[j]) / most;
        }
}

/* Means of x [k] over the columns of each channel. */
static void mean_by_channel(const pare_awq_site *site, const double *x, double *mean,
                            double *columns)
{
    for (size_t c = 0; c < site->channels; c++)
        mean[c] = columns[c] = 0;
    for (size_t j = 0; j < site->k; j++) {
        const size_t c = site->channel ? site->channel[j] : j;
        mean[c] += x[j];
        columns[c] += 1;
    }
    for (size_t c = 0; c < site->channels; c++)
        mean[c] = columns[c] > 0 ? mean[c] / columns[c] : 0;
}

/* Magnitudes per channel: a of the inputs, v of the weights (duo only, otherwise NULL). */
typedef struct magnitudes {
    double *a, *v;
} magnitudes;

static pare_status measure(pare_ctx *cx, pare_arena *scratch, const pare_awq_opts *opts,
                           const pare_awq_site *site, magnitudes *out)
{
    double *const x = PARE_NEW(scratch, double, site->k);
    double *const columns = PARE_NEW(scratch, double, site->channels);
    *out = (magnitudes){.a = PARE_NEW(scratch, double, site->channels)};
    if (!x || !columns || !out->a)
        return PARE_ENOMEM;
    for (size_t j = 0; j < site->k; j++) {
        x[j] = (double)site->absmean[j];
        if (!isfinite(x[j]))
            return pare_fail(cx, PARE_ENUMERIC,
                             "mean magnitude of input channel %zu is %g: the activations are not "
                             "finite",
                             j, x[j]);
    }
    mean_by_channel(site, x, out->a, columns);
    if (!opts->duo)
        return PARE_OK;
    out->v = PARE_NEW(scratch, double, site->channels);
    if (!out->v)
        return PARE_ENOMEM;
    size_t rows = 0;
    for (size_t j = 0; j < site->k; j++)
        x[j] = 0;
    for (size_t l = 0; l < site->linears; l++)
        if (site->linear[l].grid) {
            add_weight_shares(&site->linear[l], site->k, x);
            rows += site->linear[l].n;
        }
    for (size_t j = 0; j < site->k; j++)
        x[j] /= rows ? (double)rows : 1;
    mean_by_channel(site, x, out->v, columns);
    return PARE_OK;
}

static pare_status candidate(pare_ctx *cx, const magnitudes *m, size_t channels, double alpha,
                             float *scale)
{
    double least = INFINITY, most = 0;
    for (int pass = 0; pass < 2; pass++)
        for (size_t c = 0; c < channels; c++) {
            double s = pow(m->a[c], alpha);
            if (m->v)
                s /= pow(m->v[c], 1 - alpha) + DUO_FLOOR;
            s = fmax(s, SMALLEST_SCALE);
            if (pass == 0) {
                least = fmin(least, s);
                most = fmax(most, s);
                continue;
            }
            scale[c] = (float)(s / sqrt(most * least));
            if (!isnormal(scale[c]) || !isnormal(1 / scale[c]))
                return pare_fail(cx, PARE_ENUMERIC,
                                 "scale %g of channel %zu at alpha %g: the inputs differ too much "
                                 "in size to be scaled in F32",
                                 (double)scale[c], c, alpha);
        }
    return PARE_OK;
}

pare_status pare_awq_candidate(pare_ctx *cx, pare_arena *scratch, const pare_awq_opts *opts,
                               const pare_awq_site *site, double alpha, float *scale)
{
    const pare_mark mark = pare_arena_mark(scratch);
    magnitudes m;
    PARE_TRY(measure(cx, scratch, opts, site, &m));
    const pare_status s = candidate(cx, &m, site->channels, alpha, scale);
    pare_arena_rewind(scratch, mark);
    return s;
}

typedef struct search {
    const pare_awq_site *site;
    float *column; /* [k] scale of each column */
    float *q;      /* the largest linear */
    size_t linear; /* of a group without a grid, and */
    size_t bad;    /* which */
} search;

/* error(s), infinite when a group has no grid. scale [channels], NULL: 1. */
static pare_status site_error(pare_ctx *cx, pare_arena *scratch, search *t, const float *scale,
                              double *error)
{
    const pare_awq_site *const site = t->site;
    for (size_t j = 0; scale && j < site->k; j++)
        t->column[j] = scale[site->channel ? site->channel[j] : j];
    double sum = 0;
    for (size_t l = 0; l < site->linears && sum < INFINITY; l++) {
        const pare_awq_linear *const lin = &site->linear[l];
        size_t bad;
        if (!lin->grid)
            continue;
        PARE_TRY(pare__awq_try(cx, scratch, lin->grid, lin->w, scale ? t->column : NULL, lin->n,
                               site->k, t->q, &bad));
        if (bad < lin->n * pare_grid_groups(lin->grid, site->k)) {
            t->linear = l;
            t->bad = bad;
            sum = INFINITY;
            break;
        }
        sum += pare_gptq_error(cx, lin->w, t->q, site->h, lin->n, site->k);
    }
    *error = sum;
    return PARE_OK;
}

static pare_status run_search(pare_ctx *cx, pare_arena *scratch, const pare_awq_opts *opts,
                              search *t, const magnitudes *m, float *scale, pare_awq_found *found)
{
    const size_t channels = t->site->channels;
    float *const s = PARE_NEW(scratch, float, channels);
    if (!s)
        return PARE_ENOMEM;
    PARE_TRY(site_error(cx, scratch, t, NULL, &found->unscaled));
    if (isinf(found->unscaled)) {
        const pare_awq_linear *const l = &t->site->linear[t->linear];
        return pare__awq_fail(cx, l->grid, l->w, t->site->k, t->bad);
    }
    if (!isfinite(found->unscaled))
        return pare_fail(cx, PARE_ENUMERIC, "the error of rounding is %g: H is not finite",
                         found->unscaled);
    found->alpha = -1;
    found->error = found->unscaled;
    for (size_t c = 0; c < channels; c++)
        scale[c] = 1;
    for (size_t i = 0; i < opts->steps; i++) {
        const double alpha = (double)i / (double)opts->steps;
        double error;
        PARE_TRY(candidate(cx, m, channels, alpha, s));
        PARE_TRY(site_error(cx, scratch, t, s, &error));
        if (!(error < found->error || (i == 0 && error == found->error)))
            continue;
        found->alpha = alpha;
        found->error = error;
        for (size_t c = 0; c < channels; c++)
            scale[c] = s[c];
    }
    return PARE_OK;
}

pare_status pare_awq_scale(pare_ctx *cx, pare_arena *scratch, const pare_awq_opts *opts,
                           const pare_awq_site *site, float *scale, pare_awq_found *found)
{
    size_t most = 0;
    for (size_t l = 0; l < site->linears; l++)
        if (site->linear[l].grid && site->linear[l].n > most)
            most = site->linear[l].n;
    if (opts->steps == 0 || most == 0)
        return pare_fail(cx, PARE_EINVAL, "a scale search of %zu steps over %s", opts->steps,
                         most ? "some linears" : "no linear that is quantized");
    const pare_mark mark = pare_arena_mark(scratch);
    search t = {.site = site};
    magnitudes m;
    *found = (pare_awq_found){0};
    t.column = PARE_NEW(scratch, float, site->k);
    t.q = t.column ? PARE_NEW(scratch, float, most * site->k) : NULL;
    if (!t.q)
        return PARE_ENOMEM;
    PARE_TRY(measure(cx, scratch, opts, site, &m));
    PARE_TRY(run_search(cx, scratch, opts, &t, &m, scale, found));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
