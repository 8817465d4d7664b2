#include "prune/rose.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double columnar_range = 0.5;

typedef struct ranked {
    double loss;
    uint32_t index;
} ranked;

static int by_falling_loss(const void *a, const void *b)
{
    const ranked *const x = a, *const y = b;
    if (x->loss != y->loss)
        return x->loss < y->loss ? 1 : -1;
    return x->index < y->index ? -1 : x->index > y->index;
}

typedef struct rose_job {
    const pare_sparsity *s;
    const float *squares, *w;
    size_t n, k;
    float *score;   /* [n, block] */
    uint8_t *keep;  /* [n, block] */
    ranked *column; /* [k] sorted in each block */
    ranked *block;  /* [blocks] whole ones */
} rose_job;

/* Losses of the columns [c0, c0 + count), sorted; their sum. */
static pare_status rank_columns(pare_ctx *cx, pare_arena *scratch, const rose_job *job, size_t c0,
                                size_t count, double *loss)
{
    const pare_sparsity_part part = {job->n, job->k, c0, count};
    for (size_t i = 0; i < job->n; i++)
        for (size_t j = 0; j < count; j++)
            job->score[i * count + j] =
                fabsf(job->w[i * job->k + c0 + j]) * sqrtf(job->squares[c0 + j]);
    PARE_TRY(pare_sparsity_choose_part(cx, scratch, job->s, &part, job->score, job->keep));
    *loss = 0;
    for (size_t j = 0; j < count; j++) {
        ranked *const to = &job->column[c0 + j];
        *to = (ranked){0, (uint32_t)(c0 + j)};
        for (size_t i = 0; i < job->n; i++)
            to->loss += job->keep[i * count + j] ? 0 : (double)job->score[i * count + j];
        *loss += to->loss;
    }
    qsort(job->column + c0, count, sizeof *job->column, by_falling_loss);
    return PARE_OK;
}

static double range_of(const ranked *block, size_t blocks)
{
    double most = 0, least = INFINITY;
    for (size_t b = 0; b < blocks; b++) {
        most = block[b].loss > most ? block[b].loss : most;
        least = block[b].loss < least ? block[b].loss : least;
    }
    return blocks && most > 0 ? (most - least) / most : 0;
}

static pare_status make_order(pare_ctx *cx, pare_arena *scratch, const rose_job *job, size_t width,
                              uint32_t *order, pare_rose_found *found)
{
    const size_t blocks = job->k / width;
    for (size_t c0 = 0; c0 < job->k; c0 += width) {
        const size_t count = job->k - c0 < width ? job->k - c0 : width;
        double loss;
        PARE_TRY(rank_columns(cx, scratch, job, c0, count, &loss));
        if (count == width)
            job->block[c0 / width] = (ranked){loss, (uint32_t)(c0 / width)};
    }
    found->range = range_of(job->block, blocks);
    found->columnar = found->range > columnar_range;
    for (size_t j = 0; j < job->k; j++)
        order[j] = (uint32_t)j;
    if (!found->columnar)
        return PARE_OK;
    qsort(job->block, blocks, sizeof *job->block, by_falling_loss);
    for (size_t j = 0; j < job->k; j++)
        order[j] =
            job->column[j < blocks * width ? job->block[j / width].index * width + j % width : j]
                .index;
    return PARE_OK;
}

pare_status pare_rose_order(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                            const float *squares, const float *w, size_t n, size_t k, size_t block,
                            uint32_t *order, pare_rose_found *found)
{
    const size_t width = block < k ? block : k;
    if (s->of || width == 0)
        return pare_fail(cx, PARE_EINVAL, "an order of columns needs blocks, and no pattern N:M");
    const pare_mark mark = pare_arena_mark(scratch);
    rose_job job = {.s = s, .squares = squares, .w = w, .n = n, .k = k};
    job.score = PARE_NEW(scratch, float, n *width);
    job.keep = PARE_NEW(scratch, uint8_t, n * width);
    job.column = PARE_NEW(scratch, ranked, k);
    job.block = PARE_NEW(scratch, ranked, k / width);
    const bool room = job.score && job.keep && job.column && job.block;
    const pare_status status =
        room ? make_order(cx, scratch, &job, width, order, found) : PARE_ENOMEM;
    pare_arena_rewind(scratch, mark);
    return status;
}
