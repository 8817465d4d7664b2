#include "calib/shares.h"

#include "runtime/small.h"
#include "runtime/threads.h"

/* TILE: a column of a larger one would not stay in the cache where rows are a power of two long. */
enum { TILE = 16, CHUNK = 1 << 16 };

size_t pare_share_begin(size_t windows, size_t share)
{
    return windows / PARE_SHARES * share + windows % PARE_SHARES * share / PARE_SHARES;
}

size_t pare_share_end(size_t windows, size_t window)
{
    size_t share = 0;
    while (share < PARE_SHARES && pare_share_begin(windows, share) <= window)
        share++;
    return pare_share_begin(windows, share);
}

size_t pare_share_largest(size_t windows)
{
    return windows / PARE_SHARES + (windows % PARE_SHARES > 0);
}

void pare_share_range(size_t size, size_t rank, size_t *begin, size_t *end)
{
    const size_t used = pare_smaller(size, PARE_SHARES), at = pare_smaller(rank, used);
    *begin = at * PARE_SHARES / used;
    *end = pare_smaller(at + 1, used) * PARE_SHARES / used;
}

size_t pare_share_most(size_t size)
{
    const size_t used = pare_smaller(size, PARE_SHARES);
    return (PARE_SHARES + used - 1) / used;
}

size_t pare_share_windows(size_t windows, size_t size)
{
    size_t most = 0, begin, end;
    for (size_t r = 0; r < pare_smaller(size, PARE_SHARES); r++) {
        pare_share_range(size, r, &begin, &end);
        const size_t own = pare_share_begin(windows, end) - pare_share_begin(windows, begin);
        most = own > most ? own : most;
    }
    return most;
}

void pare_share_doubles(double *x, double *total, size_t count, bool last)
{
    for (size_t i = 0; i < count; i++) {
        const double sum = total[i] + x[i];
        x[i] = last ? sum : 0;
        total[i] = last ? 0 : sum;
    }
}

static void add_to_total(float *x, float *total, bool last)
{
    const float sum = *total + *x;
    *x = last ? sum : 0;
    *total = last ? 0 : sum;
}

typedef struct share_job {
    float *x, *total;
    size_t k; /* of a triangle */
    bool last;
} share_job;

static void add_floats(void *arg, size_t begin, size_t end, size_t worker)
{
    const share_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        add_to_total(job->x + i, job->total + i, job->last);
}

void pare_share_floats(const pare_ctx *cx, float *x, float *total, size_t count, bool last)
{
    share_job job = {.x = x, .total = total, .last = last};
    pare_parallel(cx, count, CHUNK, add_floats, &job);
}

/* Rows of tiles, each up to the diagonal: [i, j] meets [j, i]. */
static void add_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const share_job *const job = arg;
    const size_t k = job->k;
    (void)worker;
    for (size_t tile = begin; tile < end; tile++) {
        const size_t row = (k - 1) / TILE * TILE - tile * TILE; /* long ones first */
        const size_t stop = row + pare_smaller(TILE, k - row);
        for (size_t column = 0; column <= row; column += TILE)
            for (size_t i = row; i < stop; i++)
                for (size_t j = column; j < pare_smaller(column + TILE, i); j++)
                    add_to_total(job->x + i * k + j, job->x + j * k + i, job->last);
        for (size_t i = row; i < stop; i++)
            add_to_total(job->x + i * k + i, job->total + i, job->last);
    }
}

void pare_share_triangle(const pare_ctx *cx, float *h, float *diagonal, size_t k, bool last)
{
    share_job job = {h, diagonal, k, last};
    pare_parallel(cx, (k + TILE - 1) / TILE, 1, add_rows, &job);
}
