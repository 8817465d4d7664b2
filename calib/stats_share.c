/* What one share of the windows adds to statistics, as bytes: site after site its sums, triangles
 * packed, then range, loudness and sample. */
#include <math.h>
#include <string.h>

#include "calib/stats.h"

static size_t triangle_bytes(size_t k)
{
    return k * (k + 1) / 2 * sizeof(float);
}

static size_t site_bytes(const pare_site_stats *s)
{
    const size_t k = s->k;
    return (s->h ? triangle_bytes(k) + k * sizeof(double) : 0) + (s->held ? triangle_bytes(k) : 0) +
           (s->drift.d ? k * k * sizeof(float) : 0) +
           (s->absmax ? k * (2 * sizeof(float) + 2 * sizeof(double)) : 0) + 2 * sizeof(double) +
           (s->sample ? sizeof(uint64_t) + PARE_STATS_ROWS * k * sizeof(float) : 0);
}

size_t pare_stats_share_bytes(const pare_stats *s)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < PARE_SITES; i++)
        bytes += s->active & (1u << i) ? site_bytes(&s->site[i]) : 0;
    return bytes;
}

/* To the bytes, or from them. */
typedef struct mover {
    unsigned char *at;
    bool out; /* what is moved out is 0 behind it */
} mover;

static void move(mover *m, void *x, size_t bytes)
{
    if (m->out) {
        memcpy(m->at, x, bytes);
        memset(x, 0, bytes);
    } else
        memcpy(x, m->at, bytes);
    m->at += bytes;
}

static void move_triangle(mover *m, float *h, size_t k)
{
    for (size_t i = 0; i < k; i++)
        move(m, h + i * k, (i + 1) * sizeof *h);
}

static void no_range(pare_site_stats *s)
{
    for (size_t j = 0; s->absmax && j < s->k; j++) {
        s->min[j] = INFINITY;
        s->max[j] = -INFINITY;
    }
}

void pare_stats_share_begin(pare_stats *s, uint64_t token)
{
    for (unsigned i = 0; i < PARE_SITES; i++)
        if (s->active & (1u << i)) {
            s->site[i].tokens = token;
            no_range(&s->site[i]);
        }
}

static void take_sample(mover *m, pare_site_stats *s)
{
    const uint64_t rows = s->samples;
    memcpy(m->at, &rows, sizeof rows);
    memcpy(m->at + sizeof rows, s->sample, (size_t)rows * s->k * sizeof *s->sample);
    m->at += sizeof rows + PARE_STATS_ROWS * s->k * sizeof *s->sample;
    s->samples = 0;
}

void pare_stats_share_take(pare_stats *stats, unsigned char *bytes)
{
    mover m = {bytes, true};
    for (unsigned i = 0; i < PARE_SITES; i++) {
        pare_site_stats *const s = &stats->site[i];
        if (!(stats->active & (1u << i)))
            continue;
        if (s->h) {
            move_triangle(&m, s->h, s->k);
            move(&m, s->fourth, s->k * sizeof *s->fourth);
        }
        if (s->held)
            move_triangle(&m, s->held, s->k);
        if (s->drift.d)
            move(&m, s->drift.d, s->k * s->k * sizeof *s->drift.d);
        if (s->absmax) {
            move(&m, s->min, s->k * sizeof *s->min);
            move(&m, s->max, s->k * sizeof *s->max);
            move(&m, s->sum, s->k * sizeof *s->sum);
            move(&m, s->abs_sum, s->k * sizeof *s->abs_sum);
        }
        move(&m, &s->loudness.sum, sizeof s->loudness.sum);
        move(&m, &s->loudness.most, sizeof s->loudness.most);
        if (s->sample)
            take_sample(&m, s);
        no_range(s);
    }
}

/* The range of the share joins that of those before it; means are of all tokens so far. */
static void put_columns(mover *m, pare_site_stats *s)
{
    const float *const least = (const float *)(const void *)m->at, *const most = least + s->k;
    const double tokens = (double)s->tokens;
    float low, high;
    for (size_t j = 0; j < s->k; j++) {
        memcpy(&low, least + j, sizeof low);
        memcpy(&high, most + j, sizeof high);
        s->min[j] = low < s->min[j] ? low : s->min[j];
        s->max[j] = high > s->max[j] ? high : s->max[j];
        s->absmax[j] = fmaxf(fabsf(s->min[j]), fabsf(s->max[j]));
    }
    m->at += 2 * s->k * sizeof(float);
    move(m, s->sum, s->k * sizeof *s->sum);
    move(m, s->abs_sum, s->k * sizeof *s->abs_sum);
    for (size_t j = 0; j < s->k; j++) {
        s->mean[j] = (float)((s->sum[s->k + j] + s->sum[j]) / tokens);
        s->absmean[j] = (float)((s->abs_sum[s->k + j] + s->abs_sum[j]) / tokens);
    }
}

static pare_status put_sample(pare_ctx *cx, mover *m, pare_site_stats *s)
{
    uint64_t rows;
    memcpy(&rows, m->at, sizeof rows);
    if (rows > PARE_STATS_ROWS - s->samples)
        return pare_fail(cx, PARE_EFORMAT, "a share of the calibration has a sample of %llu rows",
                         (unsigned long long)rows);
    memcpy(s->sample + s->samples * s->k, m->at + sizeof rows,
           (size_t)rows * s->k * sizeof *s->sample);
    s->samples += (size_t)rows;
    m->at += sizeof rows + PARE_STATS_ROWS * s->k * sizeof *s->sample;
    return PARE_OK;
}

pare_status pare_stats_share_put(pare_stats *stats, unsigned char *bytes, uint64_t tokens)
{
    mover m = {bytes, false};
    for (unsigned i = 0; i < PARE_SITES; i++) {
        pare_site_stats *const s = &stats->site[i];
        double most;
        if (!(stats->active & (1u << i)))
            continue;
        if (tokens == 0) { /* nothing is added, and there is no range */
            m.at += site_bytes(s);
            continue;
        }
        if (s->tokens == 0)
            no_range(s);
        s->tokens += tokens;
        if (s->h) {
            move_triangle(&m, s->h, s->k);
            move(&m, s->fourth, s->k * sizeof *s->fourth);
        }
        if (s->held)
            move_triangle(&m, s->held, s->k);
        if (s->drift.d)
            move(&m, s->drift.d, s->k * s->k * sizeof *s->drift.d);
        if (s->absmax)
            put_columns(&m, s);
        move(&m, &s->loudness.sum, sizeof s->loudness.sum);
        move(&m, &most, sizeof most);
        s->loudness.most = most > s->loudness.most ? most : s->loudness.most;
        if (s->sample)
            PARE_TRY(put_sample(stats->cx, &m, s));
    }
    return PARE_OK;
}
