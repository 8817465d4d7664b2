#include "calib/support.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/linalg.h"

static const float explained = 1e-4F;

static int by_value(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Lower median over the columns with some energy; `fourth` becomes the list of their samples. */
static double effective(const float *h, double *fourth, size_t k, uint64_t tokens)
{
    size_t count = 0;
    for (size_t j = 0; j < k; j++) {
        const double energy = (double)h[j * (k + 1)];
        if (energy > 0 && fourth[j] > 0)
            fourth[count++] = fmin(energy * energy / fourth[j], (double)tokens);
    }
    if (count == 0)
        return 0;
    qsort(fourth, count, sizeof *fourth, by_value);
    return fourth[(count - 1) / 2];
}

/* The columns `pick` [m] of H as a matrix with ones on its diagonal; false when it has a number
 * that is not finite. */
static bool correlate(const float *h, size_t k, const uint32_t *pick, size_t m, float *out)
{
    bool finite = true;
    for (size_t i = 0; i < m; i++)
        for (size_t j = 0; j <= i; j++) {
            const size_t a = pick[i], b = pick[j];
            const double size = sqrt((double)h[a * (k + 1)]) * sqrt((double)h[b * (k + 1)]);
            out[i * m + j] = (float)((double)h[a * k + b] / size);
            finite &= isfinite(out[i * m + j]) != 0;
        }
    return finite;
}

/* (tr H)^2 / |H|_F^2 in double. */
static double participation(const float *h, size_t k, size_t columns)
{
    double trace = 0, diagonal = 0, below = 0;
    for (size_t i = 0; i < k; i++) {
        const double energy = (double)h[i * (k + 1)];
        double row = 0;
        for (size_t j = 0; j < i; j++)
            row += (double)h[i * k + j] * (double)h[i * k + j];
        trace += energy;
        diagonal += energy * energy;
        below += row;
    }
    return columns ? fmin(trace * trace / (diagonal + 2 * below), (double)columns) : 0;
}

/* Columns of so many that the rank is looked for in. */
static size_t looked_at(size_t columns)
{
    return columns < PARE_SUPPORT_COLUMNS ? columns : PARE_SUPPORT_COLUMNS;
}

uint64_t pare_support_bytes(size_t k)
{
    const uint64_t m = looked_at(k);
    return m * (m + 1) * sizeof(float) + k * sizeof(uint32_t) + (uint64_t)3 * PARE_ALIGN;
}

/* Rank in the m columns of live[columns], m of them evenly spread. */
static pare_status find_rank(pare_arena *scratch, const float *h, size_t k, uint32_t *live,
                             pare_support *out)
{
    const size_t columns = out->columns, m = looked_at(columns);
    float *const a = PARE_NEW(scratch, float, m *m), *const column = PARE_NEW(scratch, float, m);
    if (!a || !column)
        return PARE_ENOMEM;
    for (size_t i = 0; i < m; i++)
        live[i] = live[i * columns / m];
    out->known = correlate(h, k, live, m, a);
    out->rank = out->known ? pare_rank_f32(a, m, explained, column) : 0;
    if (out->rank == m)
        out->rank = columns;
    if (out->rank > out->tokens)
        out->rank = (size_t)out->tokens;
    return PARE_OK;
}

pare_status pare_support_of(pare_arena *scratch, const float *h, double *fourth, size_t k,
                            uint64_t tokens, pare_support *out)
{
    const pare_mark mark = pare_arena_mark(scratch);
    uint32_t *const live = PARE_NEW(scratch, uint32_t, k);
    *out = (pare_support){.known = true, .tokens = tokens};
    if (!live)
        return PARE_ENOMEM;
    for (size_t j = 0; j < k; j++)
        if (h[j * (k + 1)] != 0)
            live[out->columns++] = (uint32_t)j;
    const pare_status s = find_rank(scratch, h, k, live, out);
    out->effective = effective(h, fourth, k, tokens);
    out->effective_rank = out->known ? participation(h, k, out->columns) : 0;
    pare_arena_rewind(scratch, mark);
    return s;
}
