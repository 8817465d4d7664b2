#include "prune/ria.h"

#include <float.h>
#include <math.h>

#include "prune/scored.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 16, COLUMNS_PER_CHUNK = 256 };

typedef struct ria_job {
    const float *w;
    float *score;
    float *size;          /* [k] |x|^power */
    double *row, *column; /* 1 / sum of |w|, 0 where all are 0 */
    size_t n, k;
} ria_job;

static double inverse(double sum)
{
    return sum > 0 ? 1 / sum : 0;
}

static void sum_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const ria_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        double sum = 0;
        for (size_t j = 0; j < job->k; j++)
            sum += fabs((double)job->w[i * job->k + j]);
        job->row[i] = inverse(sum);
    }
}

static void sum_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const ria_job *const job = arg;
    (void)worker;
    for (size_t j = begin; j < end; j++)
        job->column[j] = 0;
    for (size_t i = 0; i < job->n; i++)
        for (size_t j = begin; j < end; j++)
            job->column[j] += fabs((double)job->w[i * job->k + j]);
    for (size_t j = begin; j < end; j++)
        job->column[j] = inverse(job->column[j]);
}

static void score_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const ria_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < job->k; j++) {
            const size_t at = i * job->k + j;
            job->score[at] = (float)(fabs((double)job->w[at]) * (job->row[i] + job->column[j]) *
                                     (double)job->size[j]);
        }
}

/* |x|^power from |x|^2; square roots are the same everywhere. */
static double size_of(double square, double power)
{
    if (power == 0.5)
        return sqrt(sqrt(square));
    if (power == 1)
        return sqrt(square);
    return power == 0 ? 1 : pow(square, power / 2);
}

static pare_status sizes(pare_ctx *cx, const float *squares, size_t k, double power, float *size)
{
    for (size_t j = 0; j < k; j++) {
        if (!(squares[j] >= 0 && squares[j] <= FLT_MAX))
            return pare_fail(cx, PARE_ENUMERIC,
                             "input %zu has a sum of squares of %g: the inputs of this linear were "
                             "not finite or too large during calibration",
                             j, (double)squares[j]);
        size[j] = (float)size_of((double)squares[j], power);
    }
    return PARE_OK;
}

pare_status pare_ria_score(pare_ctx *cx, pare_arena *scratch, double power, const float *squares,
                           const float *w, size_t n, size_t k, float *score)
{
    const pare_mark mark = pare_arena_mark(scratch);
    ria_job job = {.w = w, .score = score, .n = n, .k = k};
    job.size = PARE_NEW(scratch, float, k);
    job.row = job.size ? PARE_NEW(scratch, double, n) : NULL;
    job.column = job.row ? PARE_NEW(scratch, double, k) : NULL;
    pare_status status = job.column ? sizes(cx, squares, k, power, job.size) : PARE_ENOMEM;
    if (status == PARE_OK) {
        pare_parallel(cx, n, ROWS_PER_CHUNK, sum_rows, &job);
        pare_parallel(cx, k, COLUMNS_PER_CHUNK, sum_columns, &job);
        pare_parallel(cx, n, ROWS_PER_CHUNK, score_rows, &job);
    }
    pare_arena_rewind(scratch, mark);
    return status;
}

pare_status pare_ria_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s, double power,
                           const float *squares, float *w, size_t n, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const score = PARE_NEW(scratch, float, n *k);
    pare_status status =
        score ? pare_ria_score(cx, scratch, power, squares, w, n, k, score) : PARE_ENOMEM;
    if (status == PARE_OK)
        status = pare_prune_lowest(cx, scratch, s, score, w, n, k);
    pare_arena_rewind(scratch, mark);
    return status;
}
