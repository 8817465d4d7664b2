/* trace(D H D^T), D = W - Q, over squares of H on and below the diagonal:
 *
 *     2 sum over j > l of d_j H_jl d_l + sum over j of d_j^2 H_jj
 *
 * Each square takes one product P = D[rows, j] H[j, l] in F32 and a sum of P * D[rows, l] in
 * double. On the diagonal the square is a copy with half the diagonal and zeros above it. */
#include <string.h>

#include "quant/gptq.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"

enum { SIDE = 128, ROWS = 64, PARTS = 256 };

typedef struct error_job {
    const pare_kernels *kernels;
    const float *w, *q, *h;
    size_t n, k;
    size_t rows;        /* of one part */
    double part[PARTS]; /* added in order: the same sum for any number of threads */
} error_job;

/* One band of rows and one row of squares. */
typedef struct band {
    size_t row, rows, j, side;
    float d[ROWS * SIDE], p[ROWS * SIDE], square[SIDE * SIDE];
} band;

static float difference(const error_job *job, size_t at)
{
    return job->q ? job->w[at] - job->q[at] : job->w[at];
}

static void load_difference(const error_job *job, band *b)
{
    for (size_t r = 0; r < b->rows; r++)
        for (size_t c = 0; c < b->side; c++)
            b->d[r * SIDE + c] = difference(job, (b->row + r) * job->k + b->j + c);
}

static const float *diagonal_square(const error_job *job, band *b)
{
    for (size_t r = 0; r < b->side; r++)
        for (size_t c = 0; c < b->side; c++) {
            const float x = c <= r ? job->h[(b->j + r) * job->k + b->j + c] : 0;
            b->square[r * SIDE + c] = c == r ? x / 2 : x;
        }
    return b->square;
}

static double square_sum(const error_job *job, band *b, size_t l)
{
    const bool diagonal = l == b->j;
    const size_t cols = diagonal ? b->side : SIDE;
    const float *const h = diagonal ? diagonal_square(job, b) : job->h + b->j * job->k + l;
    memset(b->p, 0, sizeof b->p);
    pare_gemm_sub(job->kernels, b->p, SIDE, b->d, SIDE, h, diagonal ? SIDE : job->k, b->rows, cols,
                  b->side);
    double sum = 0;
    for (size_t r = 0; r < b->rows; r++)
        for (size_t c = 0; c < cols; c++)
            sum -=
                (double)b->p[r * SIDE + c] * (double)difference(job, (b->row + r) * job->k + l + c);
    return sum;
}

static double band_sum(const error_job *job, size_t row, size_t rows)
{
    band b = {.row = row, .rows = rows};
    double sum = 0;
    for (b.j = 0; b.j < job->k; b.j += SIDE) {
        b.side = job->k - b.j < SIDE ? job->k - b.j : SIDE;
        load_difference(job, &b);
        for (size_t l = 0; l <= b.j; l += SIDE)
            sum += square_sum(job, &b, l);
    }
    return sum;
}

static void sum_parts(void *arg, size_t begin, size_t end, size_t worker)
{
    error_job *const job = arg;
    (void)worker;
    for (size_t p = begin; p < end; p++) {
        const size_t first = p * job->rows;
        const size_t last = job->n - first < job->rows ? job->n : first + job->rows;
        for (size_t row = first; row < last; row += ROWS)
            job->part[p] += band_sum(job, row, last - row < ROWS ? last - row : ROWS);
    }
}

double pare_gptq_error(const pare_ctx *cx, const float *w, const float *q, const float *h, size_t n,
                       size_t k)
{
    error_job job = {.kernels = &cx->kernels, .w = w, .q = q, .h = h, .n = n, .k = k};
    const size_t bands = n / ROWS + (n % ROWS != 0);
    job.rows = (bands / PARTS + 1) * ROWS;
    const size_t parts = n / job.rows + (n % job.rows != 0);
    pare_parallel(cx, parts, 1, sum_parts, &job);
    double sum = 0;
    for (size_t p = 0; p < parts; p++)
        sum += job.part[p];
    return 2 * sum;
}
