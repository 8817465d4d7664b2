#include "prune/channels.h"

#include <math.h>
#include <string.h>

#include "runtime/random.h"
#include "runtime/threads.h"

enum { COLUMNS = 64 };

typedef struct columns {
    const float *w;
    size_t n, k;
    bool squares;
    double *out;
} columns;

static void sum_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const columns *const c = arg;
    (void)worker;
    for (size_t j = begin; j < end; j++)
        c->out[j] = 0.0;
    for (size_t i = 0; i < c->n; i++)
        for (size_t j = begin; j < end; j++) {
            const double w = (double)c->w[i * c->k + j];
            c->out[j] += c->squares ? w * w : fabs(w);
        }
}

void pare_column_sums(const pare_ctx *cx, const float *w, size_t n, size_t k, bool squares,
                      double *out)
{
    columns c = {w, n, k, squares, out};
    pare_parallel(cx, k, COLUMNS, sum_columns, &c);
}

pare_status pare_channels_wanda(pare_ctx *cx, pare_arena *scratch, const pare_structure *s,
                                double *score)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t width = pare_part_width(s->config, s->part);
    size_t n, k;
    pare_linear_shape(s->config, 0, pare_part_role(s->part), &n, &k);
    double *const sum = PARE_NEW(scratch, double, k);
    if (!sum)
        return PARE_ENOMEM;
    pare_column_sums(cx, s->block->linear[pare_part_role(s->part)].floats, n, k, false, sum);
    memset(score, 0, k / width * sizeof *score);
    for (size_t j = 0; j < k; j++)
        score[j / width] += sum[j] / (double)n * sqrt(pare_moments_power(s->moments, j));
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* Adds the squares of a linear's rows to the units that they belong to. */
static void add_rows(const pare_structure *s, pare_role role, size_t units, double *score)
{
    size_t n, k;
    pare_linear_shape(s->config, 0, role, &n, &k);
    const float *const w = s->block->linear[role].floats;
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t j = 0; j < k; j++)
            sum += (double)w[i * k + j] * (double)w[i * k + j];
        score[i / (n / units)] += sum;
    }
}

pare_status pare_channels_magnitude(pare_ctx *cx, pare_arena *scratch, const pare_structure *s,
                                    double *score)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t units = pare_part_units(s->config, s->part);
    const size_t width = pare_part_width(s->config, s->part);
    const bool heads = s->part == PARE_PART_HEADS;
    size_t n, k;
    pare_linear_shape(s->config, 0, pare_part_role(s->part), &n, &k);
    double *const sum = PARE_NEW(scratch, double, k);
    if (!sum)
        return PARE_ENOMEM;
    pare_column_sums(cx, s->block->linear[pare_part_role(s->part)].floats, n, k, true, sum);
    memset(score, 0, units * sizeof *score);
    for (size_t j = 0; j < k; j++)
        score[j / width] += sum[j];
    add_rows(s, heads ? PARE_ROLE_Q : PARE_ROLE_GATE, units, score);
    add_rows(s, heads ? PARE_ROLE_K : PARE_ROLE_UP, units, score);
    if (heads)
        add_rows(s, PARE_ROLE_V, units, score);
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

void pare_channels_random(const pare_structure *s, double *score)
{
    enum { STREAMS = 2 }; /* of a block: heads, channels */
    const uint64_t stream =
        pare_random_stream("channels") + s->number * STREAMS + (uint64_t)s->part;
    for (size_t i = 0; i < pare_part_units(s->config, s->part); i++)
        score[i] = pare_random_unit(s->seed, stream, i);
}
