#include "calib/stats.h"

#include <math.h>
#include <string.h>

#include "calib/shares.h"
#include "runtime/fold.h"
#include "runtime/gram_bf16.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { COLUMNS = 64, WEIGHED = 256 }; /* columns of a task, rows weighed at once */

uint64_t pare_stats_bytes(const pare_config *c, size_t part, const unsigned kinds[PARE_SITES])
{
    uint64_t bytes = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const uint64_t k = pare_site_width(c, part, (pare_site)s);
        const uint64_t side = kinds[s] & PARE_STATS_BF16 ? PARE_GRAM_LINE / 2 : WEIGHED;
        if (kinds[s] & PARE_STATS_HESSIAN)
            bytes += 4 * PARE_ALIGN + k * (k + 1 + side) * sizeof(float) + 2 * k * sizeof(double);
        if (kinds[s] & PARE_STATS_HELD)
            bytes += 2 * PARE_ALIGN + k * (k + 1) * sizeof(float);
        if (kinds[s] & PARE_STATS_CHANNELS)
            bytes += 7 * PARE_ALIGN + k * (5 * sizeof(float) + 4 * sizeof(double));
        if (kinds[s] & PARE_STATS_SAMPLE)
            bytes += PARE_ALIGN + k * PARE_STATS_ROWS * sizeof(float);
    }
    return bytes;
}

static pare_status take_channels(pare_arena *a, pare_site_stats *s)
{
    float **const vector[] = {&s->absmax, &s->absmean, &s->mean, &s->min, &s->max};
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++) {
        *vector[i] = PARE_NEW(a, float, s->k);
        if (!*vector[i])
            return PARE_ENOMEM;
    }
    s->sum = PARE_NEW(a, double, 2 * s->k);
    s->abs_sum = s->sum ? PARE_NEW(a, double, 2 * s->k) : NULL;
    return s->abs_sum ? PARE_OK : PARE_ENOMEM;
}

pare_status pare_stats_take(pare_ctx *cx, pare_arena *a, const pare_config *c, size_t part,
                            const unsigned kinds[PARE_SITES], uint64_t tokens, pare_stats *out)
{
    *out = (pare_stats){.cx = cx, .total = tokens, .held_from = UINT64_MAX};
    for (unsigned i = 0; i < PARE_SITES; i++) {
        pare_site_stats *const s = &out->site[i];
        s->k = pare_site_width(c, part, (pare_site)i);
        if (s->k == 0) /* the part has no such site */
            continue;
        out->active |= kinds[i] ? 1u << i : 0u;
        if (kinds[i] & PARE_STATS_HESSIAN) {
            s->h = PARE_NEW(a, float, s->k * s->k);
            s->diagonal = s->h ? PARE_NEW(a, float, s->k) : NULL;
            s->fourth = s->diagonal ? PARE_NEW(a, double, 2 * s->k) : NULL;
            if (!s->fourth)
                return PARE_ENOMEM;
            if (kinds[i] & PARE_STATS_BF16)
                s->side = PARE_NEW(a, uint16_t, s->k * PARE_GRAM_LINE);
            else
                s->weighed = PARE_NEW(a, float, s->k *WEIGHED);
            if (!s->side && !s->weighed)
                return PARE_ENOMEM;
        }
        if (kinds[i] & PARE_STATS_HELD) {
            s->held = PARE_NEW(a, float, s->k * s->k);
            s->held_diagonal = s->held ? PARE_NEW(a, float, s->k) : NULL;
            if (!s->held_diagonal)
                return PARE_ENOMEM;
        }
        if (kinds[i] & PARE_STATS_CHANNELS)
            PARE_TRY(take_channels(a, s));
        if (kinds[i] & PARE_STATS_SAMPLE) {
            s->sample = PARE_NEW(a, float, s->k *PARE_STATS_ROWS);
            if (!s->sample)
                return PARE_ENOMEM;
        }
    }
    return PARE_OK;
}

pare_status pare_stats_take_drift(pare_arena *a, const unsigned kinds[PARE_SITES],
                                  const pare_spill *file, pare_stats *s)
{
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (kinds[i] & PARE_STATS_DRIFT)
            PARE_TRY(pare_drift_take(a, s->site[i].k, kinds[i] & PARE_STATS_BF16, file,
                                     &s->site[i].drift));
    return PARE_OK;
}

uint64_t pare_stats_drift_bytes(const pare_config *c, const unsigned kinds[PARE_SITES])
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (kinds[i] & PARE_STATS_DRIFT)
            bytes += pare_drift_bytes(pare_site_width(c, 0, (pare_site)i));
    return bytes;
}

uint64_t pare_stats_drift_room_bytes(const pare_config *c, const unsigned kinds[PARE_SITES],
                                     size_t rows)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (kinds[i] & PARE_STATS_DRIFT)
            bytes += pare_drift_room_bytes(pare_site_width(c, 0, (pare_site)i), rows,
                                           kinds[i] & PARE_STATS_BF16);
    return bytes;
}

pare_status pare_stats_drift_room(pare_arena *a, size_t rows, pare_stats *s)
{
    for (unsigned i = 0; i < PARE_SITES; i++)
        if ((s->site[i].drift.d || s->site[i].drift.file) && (s->active & (1u << i)))
            PARE_TRY(pare_drift_room(a, s->site[i].k, rows, &s->site[i].drift));
    return PARE_OK;
}

pare_status pare_stats_drift_done(pare_stats *s)
{
    pare_status status = PARE_OK;
    for (unsigned i = 0; i < PARE_SITES; i++) {
        pare_drift *const d = &s->site[i].drift;
        status = status == PARE_OK ? d->status : status;
        d->d = d->file ? NULL : d->d;
        d->total = d->x = NULL;
        d->side = NULL;
    }
    return status;
}

/* One batch of inputs. */
typedef struct batch {
    pare_site_stats *s;
    const float *x, *weight; /* NULL: 1 */
    size_t rows;
} batch;

static void add_fourth(void *arg, size_t begin, size_t end, size_t worker)
{
    const batch *const b = arg;
    const size_t k = b->s->k;
    double *const sum = b->s->fourth;
    (void)worker;
    for (size_t i = 0; i < b->rows; i++) {
        const double w = b->weight ? (double)b->weight[i] : 1;
        for (size_t j = begin; j < end; j++) {
            const double square = w * (double)b->x[i * k + j] * (double)b->x[i * k + j];
            sum[j] += square * square;
        }
    }
}

static void add_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const batch *const b = arg;
    pare_site_stats *const s = b->s;
    (void)worker;
    for (size_t j = begin; j < end && s->tokens == 0; j++) {
        s->min[j] = INFINITY;
        s->max[j] = -INFINITY;
    }
    for (size_t i = 0; i < b->rows; i++)
        for (size_t j = begin; j < end; j++) {
            const float v = b->x[i * s->k + j];
            s->min[j] = v < s->min[j] ? v : s->min[j];
            s->max[j] = v > s->max[j] ? v : s->max[j];
            s->sum[j] += (double)v;
            s->abs_sum[j] += fabs((double)v);
        }
    const double tokens = (double)s->tokens + (double)b->rows;
    for (size_t j = begin; j < end; j++) {
        s->absmax[j] = fmaxf(fabsf(s->min[j]), fabsf(s->max[j]));
        s->mean[j] = (float)((s->sum[s->k + j] + s->sum[j]) / tokens);
        s->absmean[j] = (float)((s->abs_sum[s->k + j] + s->abs_sum[j]) / tokens);
    }
}

/* Token t is kept when the share of the sample that it completes goes up by one. */
static void add_sample(pare_site_stats *s, const float *x, size_t rows, uint64_t total)
{
    for (size_t i = 0; i < rows && s->samples < PARE_STATS_ROWS; i++) {
        const uint64_t t = s->tokens + i;
        const bool all = total <= PARE_STATS_ROWS;
        if (!all && (t + 1) * PARE_STATS_ROWS / total == t * PARE_STATS_ROWS / total)
            continue;
        memcpy(s->sample + s->samples++ * s->k, x + i * s->k, s->k * sizeof *x);
    }
}

/* Rows to H, and those behind the first `spared` to that of held-out tokens. */
static void add_hessian(const pare_ctx *cx, pare_site_stats *s, const float *x, size_t rows,
                        size_t spared)
{
    batch b = {s, x, NULL, rows};
    pare_gram_add(cx, s->h, x, rows, s->k);
    pare_parallel(cx, s->k, COLUMNS, add_fourth, &b);
    if (s->held && spared < rows)
        pare_gram_add(cx, s->held, x + spared * s->k, rows - spared, s->k);
}

/* The same of rows with weights, rounded to BF16. */
static void add_rounded(const pare_ctx *cx, pare_site_stats *s, const float *x, const float *weight,
                        size_t rows, size_t spared)
{
    batch b = {s, x, weight, rows};
    pare_gram_add_bf16(cx, s->side, s->h, x, weight, rows, s->k);
    pare_parallel(cx, s->k, COLUMNS, add_fourth, &b);
    if (s->held && spared < rows)
        pare_gram_add_bf16(cx, s->side, s->held, x + spared * s->k, weight ? weight + spared : NULL,
                           rows - spared, s->k);
}

/* Rows times the roots of their weights, some at a time. */
static void add_weighed(const pare_ctx *cx, pare_site_stats *s, const float *x, size_t rows,
                        size_t spared)
{
    const size_t k = s->k;
    for (size_t first = 0, count; first < rows; first += count) {
        count = rows - first < WEIGHED ? rows - first : WEIGHED;
        for (size_t i = 0; i < count; i++) {
            const float root = sqrtf(s->weight[s->tokens + first + i]);
            for (size_t j = 0; j < k; j++)
                s->weighed[i * k + j] = root * x[(first + i) * k + j];
        }
        add_hessian(cx, s, s->weighed, count, spared > first ? spared - first : 0);
    }
}

static pare_status add(void *self, size_t part, pare_site site, const float *x, size_t rows,
                       size_t k)
{
    pare_stats *const stats = self;
    pare_site_stats *const s = &stats->site[site];
    (void)part;
    if (!(stats->active & (1u << site)) || rows == 0)
        return PARE_OK;
    const float *const weight = s->h && s->weight ? s->weight + s->tokens : NULL;
    const uint64_t left = stats->held_from > s->tokens ? stats->held_from - s->tokens : 0;
    const size_t spared = left < rows ? (size_t)left : rows;
    batch b = {s, x, NULL, rows};
    if (s->side)
        add_rounded(stats->cx, s, x, weight, rows, spared);
    else if (s->h && s->weight)
        add_weighed(stats->cx, s, x, rows, spared);
    else if (s->h)
        add_hessian(stats->cx, s, x, rows, spared);
    if (s->absmax)
        pare_parallel(stats->cx, k, COLUMNS, add_columns, &b);
    if (s->sample)
        add_sample(s, x, rows, stats->total);
    if (s->drift.d)
        pare_drift_add(stats->cx, &s->drift, x, weight, rows, k);
    pare_loudness_add(stats->cx, &s->loudness, x, weight, rows, k);
    s->tokens += rows;
    return PARE_OK;
}

/* The sums of a site behind a share. */
static void share_site(pare_ctx *cx, pare_site_stats *s, bool last)
{
    const size_t k = s->k;
    if (s->h) {
        pare_share_triangle(cx, s->h, s->diagonal, k, last);
        pare_share_doubles(s->fourth, s->fourth + k, k, last);
    }
    if (s->held)
        pare_share_triangle(cx, s->held, s->held_diagonal, k, last);
    if (s->absmax) {
        pare_share_doubles(s->sum, s->sum + k, k, last);
        pare_share_doubles(s->abs_sum, s->abs_sum + k, k, last);
    }
    if (s->drift.d && s->drift.status == PARE_OK)
        s->drift.status = pare_drift_share(cx, &s->drift, k, last);
    pare_share_doubles(&s->loudness.sum, &s->loudness.total, 1, last);
}

static void share(void *self, bool last)
{
    pare_stats *const stats = self;
    if (stats->kept) {
        pare_stats_share_take(stats, stats->kept);
        stats->kept += pare_stats_share_bytes(stats);
        return;
    }
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (stats->active & (1u << i))
            share_site(stats->cx, &stats->site[i], last);
}

static pare_status see_float(void *self, size_t part, pare_site site, const float *x, size_t rows,
                             size_t k)
{
    pare_stats *const stats = self;
    (void)part;
    if ((stats->active & (1u << site)) && stats->site[site].drift.d)
        pare_drift_see(&stats->site[site].drift, x, rows, k);
    return PARE_OK;
}

pare_tap pare_stats_float_tap(pare_stats *s)
{
    pare_tap tap = pare_stats_tap(s);
    tap.see = see_float;
    tap.share = NULL;
    return tap;
}

pare_tap pare_stats_tap(pare_stats *s)
{
    unsigned last = 0;
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (s->active & (1u << i))
            last = i;
    return (pare_tap){.see = add, .self = s, .last = (pare_site)last, .parts = 1, .share = share};
}

static pare_status add_part(void *self, size_t part, pare_site site, const float *x, size_t rows,
                            size_t k)
{
    const pare_stats_parts *const s = self;
    return add(&s->of[part - s->first], part, site, x, rows, k);
}

static void share_parts(void *self, bool last)
{
    const pare_stats_parts *const s = self;
    for (size_t p = 0; p < s->parts; p++)
        share(&s->of[p], last);
}

pare_tap pare_stats_tap_parts(pare_stats_parts *s)
{
    unsigned last = 0;
    for (size_t p = 0; p < s->parts; p++)
        for (unsigned i = 0; i < PARE_SITES; i++)
            if (i > last && (s->of[p].active & (1u << i)))
                last = i;
    return (pare_tap){.see = add_part,
                      .self = s,
                      .last = (pare_site)last,
                      .first_part = s->first,
                      .parts = s->parts,
                      .share = share_parts};
}

pare_status pare_stats_support(pare_arena *scratch, pare_stats *s, unsigned group)
{
    for (unsigned i = 0; i < PARE_SITES; i++) {
        pare_site_stats *const site = &s->site[i];
        if (!(s->active & group & (1u << i)))
            continue;
        if (site->h && site->fourth)
            PARE_TRY(pare_support_of(scratch, site->h, site->fourth, site->k, site->tokens,
                                     &site->support));
        site->support.loudest = pare_loudness_share(&site->loudness);
    }
    return PARE_OK;
}

void pare_stats_identity_hessian(pare_site_stats *stats)
{
    const size_t k = stats->k;
    stats->identity = true;
    if (stats->h)
        memset(stats->h, 0, k * k * sizeof *stats->h);
    for (size_t j = 0; stats->h && j < k; j++)
        stats->h[j * k + j] = 1;
    if (stats->drift.d)
        memset(stats->drift.d, 0, k * k * sizeof *stats->drift.d);
}

void pare_stats_identity(pare_site_stats *stats)
{
    const size_t k = stats->k;
    pare_stats_identity_hessian(stats);
    stats->tokens = 1;
    stats->samples = 0;
    for (size_t j = 0; stats->absmax && j < k; j++) {
        stats->absmax[j] = stats->absmean[j] = stats->max[j] = 1;
        stats->min[j] = -1;
        stats->mean[j] = 0;
        stats->sum[j] = 0;
        stats->abs_sum[j] = 1;
    }
}

static void scale_gram(float *h, const float *s, size_t k)
{
    for (size_t i = 0; h && i < k; i++)
        for (size_t j = 0; j <= i; j++)
            h[i * k + j] = (float)((double)h[i * k + j] / ((double)s[i] * (double)s[j]));
}

void pare_stats_scale(pare_site_stats *stats, const float *s)
{
    const size_t k = stats->k;
    scale_gram(stats->h, s, k);
    scale_gram(stats->held, s, k);
    if (stats->drift.d)
        pare_drift_scale(&stats->drift, s, k);
    float *const vector[] = {stats->absmax, stats->absmean, stats->mean, stats->min, stats->max};
    for (size_t v = 0; stats->absmax && v < sizeof vector / sizeof *vector; v++)
        for (size_t j = 0; j < k; j++)
            vector[v][j] /= s[j];
    for (size_t i = 0; stats->sample && i < stats->samples; i++)
        for (size_t j = 0; j < k; j++)
            stats->sample[i * k + j] /= s[j];
    for (size_t j = 0; stats->absmax && j < k; j++) {
        stats->sum[j] /= (double)s[j];
        stats->abs_sum[j] /= (double)s[j];
    }
}

/* H of x - z:  H - T (m z^T + z m^T) + T z z^T, m the means. */
static void shift_hessian(pare_site_stats *stats, const float *z)
{
    const size_t k = stats->k;
    const double tokens = (double)stats->tokens;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j <= i; j++) {
            const double zi = (double)z[i], zj = (double)z[j];
            const double change = tokens * zi * zj - stats->sum[i] * zj - zi * stats->sum[j];
            stats->h[i * k + j] = (float)((double)stats->h[i * k + j] + change);
        }
}

void pare_stats_shift(pare_site_stats *stats, const float *z)
{
    const size_t k = stats->k;
    const double tokens = (double)stats->tokens;
    for (size_t i = 0; stats->sample && i < stats->samples; i++)
        for (size_t j = 0; j < k; j++)
            stats->sample[i * k + j] -= z[j];
    if (!stats->absmax || stats->tokens == 0)
        return;
    if (stats->h)
        shift_hessian(stats, z);
    for (size_t j = 0; j < k; j++) {
        stats->min[j] -= z[j];
        stats->max[j] -= z[j];
        stats->absmax[j] = fmaxf(fabsf(stats->min[j]), fabsf(stats->max[j]));
        stats->sum[j] -= tokens * (double)z[j];
        stats->mean[j] = (float)(stats->sum[j] / tokens);
        double sum = 0.0;
        for (size_t i = 0; stats->sample && i < stats->samples; i++)
            sum += fabs((double)stats->sample[i * k + j]);
        stats->absmean[j] =
            stats->samples ? (float)(sum / (double)stats->samples) : stats->absmax[j];
        stats->abs_sum[j] = (double)stats->absmean[j] * tokens;
    }
}

static void permute_floats(float *v, const uint32_t *column, size_t k, float *old)
{
    memcpy(old, v, k * sizeof *v);
    for (size_t j = 0; j < k; j++)
        v[j] = old[column[j]];
}

static void permute_doubles(double *v, const uint32_t *column, size_t k, double *old)
{
    memcpy(old, v, k * sizeof *v);
    for (size_t j = 0; j < k; j++)
        v[j] = old[column[j]];
}

static void permute_gram(float *h, const uint32_t *column, size_t k, float *old)
{
    memcpy(old, h, k * k * sizeof *h);
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j <= i; j++) {
            const size_t a = column[i], b = column[j];
            h[i * k + j] = a > b ? old[a * k + b] : old[b * k + a];
        }
}

pare_status pare_stats_permute(pare_arena *scratch, pare_site_stats *stats, const uint32_t *column)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t k = stats->k;
    double *const old = PARE_NEW(scratch, double, k);
    float *const square = old && stats->h ? PARE_NEW(scratch, float, k *k) : NULL;
    const bool room = old && (square || !stats->h);
    float *const vector[] = {stats->absmax, stats->absmean, stats->mean, stats->min, stats->max};
    if (room && stats->h)
        permute_gram(stats->h, column, k, square);
    if (room && stats->held)
        permute_gram(stats->held, column, k, square);
    if (room && stats->drift.d)
        pare_drift_permute(&stats->drift, column, k, square);
    for (size_t v = 0; room && stats->absmax && v < sizeof vector / sizeof *vector; v++)
        permute_floats(vector[v], column, k, (float *)(void *)old);
    if (room && stats->absmax) {
        permute_doubles(stats->sum, column, k, old);
        permute_doubles(stats->abs_sum, column, k, old);
    }
    for (size_t i = 0; room && stats->sample && i < stats->samples; i++)
        permute_floats(stats->sample + i * k, column, k, (float *)(void *)old);
    pare_arena_rewind(scratch, mark);
    return room ? PARE_OK : PARE_ENOMEM;
}
