/* What goes in the sweep, and what stays 0. Weights that go are held back while a column is
 * rounded, and all of each is its error; a weight that stays 0 is set to 0 before it is looked at.
 */
#include "solve/compensate_internal.h"

#include <math.h>

#include "runtime/threads.h"

enum { TILE = PARE__TILE, STRIP = PARE__STRIP };

/* |w| / U_jj, the square root of what a weight costs when it goes, or what the caller makes of it.
 */
static float score_of(const pare__sweep *job, float w, size_t j)
{
    if (job->cost)
        return fabsf(w) * job->cost[j];
    return fabsf(w / job->factor->pivot[j]);
}

void pare__sweep_choose_group(const pare__sweep *job, size_t r0, size_t rows, size_t j,
                              const float *x, uint8_t *keep)
{
    const size_t of = job->sparsity->of, count = job->k - j < of ? job->k - j : of;
    for (size_t r = 0; r < rows; r++) {
        float score[PARE_SPARSITY_OF_MAX];
        uint8_t stays[PARE_SPARSITY_OF_MAX];
        for (size_t i = 0; i < count; i++)
            score[i] = score_of(job, x[i * STRIP + r], j + i);
        pare_sparsity_group(job->sparsity, score, count, (r0 + r) * job->k + j, stays);
        for (size_t i = 0; i < count; i++)
            keep[i * STRIP + r] = stays[i];
    }
}

void pare__sweep_hold_back(pare__strip *s, float *restrict x, const uint8_t *restrict keep)
{
    for (size_t r = 0; r < STRIP; r++) {
        s->held[r] = keep[r] ? 0 : x[r];
        x[r] = keep[r] ? x[r] : 0;
    }
}

void pare__sweep_lose_held(pare__strip *s, float *restrict e, const uint8_t *restrict keep,
                           float u_jj)
{
    for (size_t r = 0; r < STRIP; r++) {
        const float lost = s->held[r] / u_jj;
        e[r] = keep[r] ? e[r] : lost;
        s->loss[r] += (double)lost * (double)lost;
    }
}

static void score_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare__sweep *const job = arg;
    const size_t c0 = job->begin, cols = job->end - c0;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < cols; j++)
            job->score[i * cols + j] = score_of(job, job->w[i * job->k + c0 + j], c0 + j);
}

pare_status pare__sweep_choose(pare_ctx *cx, pare_arena *scratch, pare__sweep *job)
{
    const pare_sparsity_part part = {job->n, job->k, job->begin, job->end - job->begin};
    pare_parallel(cx, job->n, STRIP, score_rows, job);
    return pare_sparsity_choose_part(cx, scratch, job->sparsity, &part, job->score, job->keep);
}

void pare__sweep_note_zeros(const pare__sweep *job, pare__strip *s, size_t r0, size_t r1)
{
    const float *const w = job->w + r0 * job->k;
    for (size_t i = 0; i < (r1 - r0) * job->k; i++)
        s->zeros[i] = w[i] == 0;
}

void pare__sweep_zero_column(const pare__sweep *job, const pare__strip *s, float *x, size_t r0,
                             size_t rows, size_t j)
{
    for (size_t r = 0; r < rows; r++)
        x[r] = s->zeros[(r0 % TILE + r) * job->k + j] ? 0 : x[r];
}

void pare__sweep_zero_rest(const pare__sweep *job, const pare__strip *s, size_t r0, size_t r1,
                           size_t first)
{
    for (size_t i = r0; i < r1; i++)
        for (size_t j = first; j < job->k; j++)
            job->w[i * job->k + j] = s->zeros[i % TILE * job->k + j] ? 0 : job->w[i * job->k + j];
}
