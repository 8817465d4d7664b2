#include "compress/artifact/diff_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct side {
    const char *path;
    pare_stats_group group;
    bool experts; /* of the current block */
    size_t width[PARE_SITES];
    uint64_t tokens;
} side;

/* Room for a site, and what the file has of it. */
static pare_status fill(pare_ctx *cx, pare_arena *a, const side *from, unsigned site,
                        pare_stats *out)
{
    pare_site_stats *const s = &out->site[site];
    const size_t k = from->width[site];
    *out = (pare_stats){.cx = cx, .total = from->tokens, .active = 1u << site};
    s->k = k;
    float **const vector[] = {&s->absmax, &s->absmean, &s->mean, &s->min, &s->max};
    s->h = PARE_NEW(a, float, k *k);
    double *const sums = PARE_NEW(a, double, 3 * k);
    s->sample = PARE_NEW(a, float, k *PARE_STATS_ROWS);
    if (!s->h || !sums || !s->sample)
        return PARE_ENOMEM;
    s->fourth = sums;
    s->sum = sums + k;
    s->abs_sum = sums + 2 * k;
    for (size_t i = 0; i < sizeof vector / sizeof *vector; i++)
        if (!(*vector[i] = PARE_NEW(a, float, k)))
            return PARE_ENOMEM;
    return pare_stats_group_fill(&from->group, out);
}

static double relative(double difference, double whole)
{
    return difference == 0 ? 0 : sqrt(difference) / sqrt(whole);
}

/* H_A / n_A against H_B / n_B; what lies off the diagonal counts twice. */
static double compare_hessians(const pare_site_stats *a, const pare_site_stats *b)
{
    const double na = (double)a->tokens, nb = (double)b->tokens;
    double difference = 0, whole = 0;
    for (size_t i = 0; i < a->k; i++)
        for (size_t j = 0; j <= i; j++) {
            const double x = (double)a->h[i * a->k + j] / na, y = (double)b->h[i * a->k + j] / nb;
            const double times = i == j ? 1 : 2;
            difference += times * (x - y) * (x - y);
            whole += times * x * x;
        }
    return relative(difference, whole);
}

static double compare_channels(const pare_site_stats *a, const pare_site_stats *b)
{
    double difference = 0, whole = 0;
    for (size_t j = 0; j < a->k; j++) {
        const double x = (double)a->absmax[j], y = (double)b->absmax[j];
        difference += (x - y) * (x - y);
        whole += x * x;
    }
    return relative(difference, whole);
}

static pare_status compare_site(pare_ctx *cx, pare_arena *scratch, const side of[2], unsigned site,
                                pare_stats_drift *row)
{
    pare_stats stats[2];
    row->site = pare_stats_site_names[site];
    for (size_t i = 0; i < 2; i++) {
        PARE_TRY(fill(cx, scratch, &of[i], site, &stats[i]));
        row->tokens[i] = of[i].tokens;
    }
    row->hessian = row->channels = (double)NAN;
    if (!of[0].tokens || !of[1].tokens)
        return PARE_OK;
    row->hessian = compare_hessians(&stats[0].site[site], &stats[1].site[site]);
    row->channels = compare_channels(&stats[0].site[site], &stats[1].site[site]);
    return PARE_OK;
}

static pare_status compare_groups(pare_ctx *cx, pare_arena *scratch, side of[2], size_t block,
                                  size_t part, pare_stats_diff *out)
{
    for (size_t i = 0; i < 2; i++) {
        PARE_TRY(pare_stats_group_shape(&of[i].group, of[i].width, &of[i].tokens));
        if (part == 0)
            of[i].experts = pare_stats_group_experts(&of[i].group);
    }
    if (of[0].experts != of[1].experts)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s %s experts, unlike that in %s", of[1].path,
                         of[1].group.name, of[1].experts ? "has" : "has no", of[0].path);
    if (memcmp(of[0].width, of[1].width, sizeof of[0].width) != 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: %s is of other widths than in %s", of[1].path,
                         of[1].group.name, of[0].path);
    for (unsigned site = 0; site < PARE_SITES; site++) {
        if (!of[0].width[site])
            continue;
        pare_stats_drift *const row = &out->row[out->rows++];
        *row = (pare_stats_drift){.block = block, .part = part};
        const pare_mark mark = pare_arena_mark(scratch);
        PARE_TRY(compare_site(cx, scratch, of, site, row));
        pare_arena_rewind(scratch, mark);
    }
    return PARE_OK;
}

static pare_status compare_part(pare_ctx *cx, side of[2], size_t block, size_t part,
                                pare_stats_diff *out)
{
    pare_arena scratch;
    PARE_TRY(pare_arena_init(cx, &scratch, 0));
    pare_status s = pare_ctx_interrupted(cx);
    for (size_t i = 0; s == PARE_OK && i < 2; i++)
        s = pare_stats_group_open(cx, &scratch, of[i].path, block, part, &of[i].group);
    if (s == PARE_OK)
        s = compare_groups(cx, &scratch, of, block, part, out);
    for (size_t i = 0; i < 2; i++)
        pare_stats_group_close(&of[i].group);
    pare_arena_release(&scratch);
    return s;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The lower median of two. */
static pare_status summarize(pare_arena *a, pare_stats_diff *d)
{
    double *const value = PARE_NEW(a, double, d->rows);
    if (!value)
        return PARE_ENOMEM;
    for (size_t which = 0; which < 2; which++) {
        double most = -1;
        d->measured = 0;
        for (size_t i = 0; i < d->rows; i++) {
            const double x = which ? d->row[i].channels : d->row[i].hessian;
            if (isnan(x))
                continue;
            value[d->measured++] = x;
            if (x > most)
                d->worst[which] = &d->row[i], most = x;
        }
        qsort(value, d->measured, sizeof *value, by_value);
        d->median[which] = d->measured ? value[(d->measured - 1) / 2] : (double)NAN;
    }
    return PARE_OK;
}

pare_status pare_diff_stats(pare_ctx *cx, pare_arena *a, const char *first, const char *second,
                            pare_stats_diff *out)
{
    side of[2] = {{.path = first}, {.path = second}};
    *out = (pare_stats_diff){0};
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(pare_stats_file_about(cx, a, of[i].path, &out->of[i]));
    const pare_stats_about *const x = &out->of[0], *const y = &out->of[1];
    if (strcmp(x->family, y->family) != 0 || x->blocks != y->blocks || x->hidden != y->hidden ||
        x->experts != y->experts)
        return pare_fail(cx, PARE_EFORMAT, "%s: statistics of a model of another shape than in %s",
                         second, first);
    out->row = pare_arena_take(a, x->blocks * (1 + x->experts), PARE_SITES * sizeof *out->row);
    if (!out->row)
        return PARE_ENOMEM;
    for (size_t block = 0; block < x->blocks; block++) {
        pare_ctx_progress(cx, "comparing statistics", (double)block, (double)x->blocks);
        PARE_TRY(compare_part(cx, of, block, 0, out));
        for (size_t part = 1; of[0].experts && part <= x->experts; part++)
            PARE_TRY(compare_part(cx, of, block, part, out));
    }
    return summarize(a, out);
}
