#include "prune/scored.h"

#include <math.h>

#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 16 };

typedef struct scored_job {
    const float *channel;
    float *w, *score;
    uint8_t *keep;
    size_t k;
} scored_job;

static void score_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const scored_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t j = 0; j < job->k; j++) {
            const size_t at = i * job->k + j;
            job->score[at] = fabsf(job->w[at]) * (job->channel ? job->channel[j] : 1);
        }
}

static void clear_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const scored_job *const job = arg;
    (void)worker;
    for (size_t at = begin * job->k; at < end * job->k; at++)
        job->w[at] = job->keep[at] ? job->w[at] : 0;
}

pare_status pare_prune_lowest(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                              const float *score, float *w, size_t n, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    scored_job job = {.w = w, .k = k};
    job.keep = PARE_NEW(scratch, uint8_t, n * k);
    pare_status status = PARE_ENOMEM;
    if (job.keep)
        status = pare_sparsity_choose(cx, scratch, s, score, n, k, job.keep);
    if (status == PARE_OK)
        pare_parallel(cx, n, ROWS_PER_CHUNK, clear_rows, &job);
    pare_arena_rewind(scratch, mark);
    return status;
}

pare_status pare_prune_scored(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                              const float *channel, float *w, size_t n, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    scored_job job = {.channel = channel, .w = w, .k = k};
    job.score = PARE_NEW(scratch, float, n *k);
    pare_status status = PARE_ENOMEM;
    if (job.score) {
        pare_parallel(cx, n, ROWS_PER_CHUNK, score_rows, &job);
        status = pare_prune_lowest(cx, scratch, s, job.score, w, n, k);
    }
    pare_arena_rewind(scratch, mark);
    return status;
}
