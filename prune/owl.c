#include "prune/owl.h"

#include <math.h>

#include "prune/wanda.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 16 };

typedef struct row_job {
    const float *w, *length;
    double *row; /* [n] */
    size_t k;
    double threshold; /* below 0: sums, otherwise scores above it are counted */
} row_job;

static void see_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const row_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        double sum = 0;
        for (size_t j = 0; j < job->k; j++) {
            const double score = fabs((double)job->w[i * job->k + j]) * (double)job->length[j];
            sum += job->threshold < 0 ? score : score > job->threshold;
        }
        job->row[i] = sum;
    }
}

/* Adds the sum of a matrix's scores, or how many are above the threshold. */
static pare_status see_matrix(pare_ctx *cx, pare_arena *scratch, const pare_owl_matrix *m,
                              double threshold, double *sum)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const length = PARE_NEW(scratch, float, m->k);
    row_job job = {.w = m->w, .length = length, .k = m->k, .threshold = threshold};
    job.row = length ? PARE_NEW(scratch, double, m->n) : NULL;
    pare_status s = job.row ? pare_wanda_lengths(cx, m->squares, m->k, length) : PARE_ENOMEM;
    if (s == PARE_OK)
        pare_parallel(cx, m->n, ROWS_PER_CHUNK, see_rows, &job);
    for (size_t i = 0; s == PARE_OK && i < m->n; i++)
        *sum += job.row[i];
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_owl_share(pare_ctx *cx, pare_arena *scratch, const pare_owl_matrix *m,
                           size_t count, double outlier, double *share)
{
    double sum = 0, weights = 0, above = 0;
    for (size_t i = 0; i < count; i++) {
        PARE_TRY(see_matrix(cx, scratch, &m[i], -1, &sum));
        weights += (double)m[i].n * (double)m[i].k;
    }
    const double threshold = outlier * sum / weights;
    for (size_t i = 0; i < count; i++)
        PARE_TRY(see_matrix(cx, scratch, &m[i], threshold, &above));
    *share = above / weights;
    return PARE_OK;
}
