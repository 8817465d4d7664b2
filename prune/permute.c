/* What a group keeps with a channel of value v at one of its places is, in each row, the sum of the
 * N - 1 largest others plus the larger of v and the N-th largest other. The first term does not
 * depend on v, so that the gain of an assignment is a sum of maxima. */
#include "prune/permute.h"

#include <stdlib.h>

#include "runtime/threads.h"

enum { LANES = 8 };

typedef struct permute_job {
    const float *score; /* [channels, rows] */
    size_t rows;
    unsigned keep, of;
    const uint32_t *order; /* of the groups at hand */
    size_t groups;
    unsigned place; /* that is shared out anew */
    float *nth;     /* [groups, rows] N-th largest of the other places */
    double *gain;   /* [groups, groups] */
    double *kept;   /* [groups] */
} permute_job;

/* Puts x among the `most` largest so far, which fall. */
static void insert(float *largest, size_t count, size_t most, float x)
{
    size_t at = count < most ? count : most;
    while (at > 0 && largest[at - 1] < x) {
        if (at < most)
            largest[at] = largest[at - 1];
        at--;
    }
    if (at < most)
        largest[at] = x;
}

/* The N largest of row r of a group, without one of its places (`of`: none of them). */
static void largest_of(const permute_job *job, size_t group, size_t r, unsigned without,
                       float *largest)
{
    size_t count = 0;
    for (unsigned p = 0; p < job->of; p++)
        if (p != without)
            insert(largest, count++, job->keep,
                   job->score[job->order[group * job->of + p] * job->rows + r]);
}

static void keep_groups(void *arg, size_t begin, size_t end, size_t worker)
{
    const permute_job *const job = arg;
    float largest[PARE_SPARSITY_OF_MAX];
    (void)worker;
    for (size_t g = begin; g < end; g++) {
        job->kept[g] = 0;
        for (size_t r = 0; r < job->rows; r++) {
            largest_of(job, g, r, job->of, largest);
            for (unsigned i = 0; i < job->keep; i++)
                job->kept[g] += (double)largest[i];
        }
    }
}

static void find_nth(void *arg, size_t begin, size_t end, size_t worker)
{
    const permute_job *const job = arg;
    float largest[PARE_SPARSITY_OF_MAX];
    (void)worker;
    for (size_t g = begin; g < end; g++)
        for (size_t r = 0; r < job->rows; r++) {
            largest_of(job, g, r, job->place, largest);
            job->nth[g * job->rows + r] = largest[job->keep - 1];
        }
}

static double sum_of_larger(const float *a, const float *b, size_t count)
{
    double lane[LANES] = {0}, sum = 0;
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (size_t l = 0; l < LANES; l++)
            lane[l] += (double)(a[i + l] > b[i + l] ? a[i + l] : b[i + l]);
    for (; i < count; i++)
        sum += (double)(a[i] > b[i] ? a[i] : b[i]);
    for (size_t l = 0; l < LANES; l++)
        sum += lane[l];
    return sum;
}

static void find_gains(void *arg, size_t begin, size_t end, size_t worker)
{
    const permute_job *const job = arg;
    (void)worker;
    for (size_t g = begin; g < end; g++)
        for (size_t h = 0; h < job->groups; h++)
            job->gain[g * job->groups + h] = sum_of_larger(
                job->nth + g * job->rows,
                job->score + job->order[h * job->of + job->place] * job->rows, job->rows);
}

/* Sum of the scores that N:M keeps under an order. */
static double kept_by(pare_ctx *cx, permute_job *job, const uint32_t *order, size_t groups)
{
    double sum = 0;
    job->order = order;
    pare_parallel(cx, groups, 1, keep_groups, job);
    for (size_t g = 0; g < groups; g++)
        sum += job->kept[g];
    return sum;
}

typedef struct ranked {
    double sum;
    uint32_t channel;
} ranked;

static int by_falling_sum(const void *a, const void *b)
{
    const ranked *const x = a, *const y = b;
    if (x->sum != y->sum)
        return x->sum < y->sum ? 1 : -1;
    return x->channel < y->channel ? -1 : x->channel > y->channel;
}

/* Deals the channels out to the groups, forth and back. */
static pare_status allocate(pare_arena *scratch, const permute_job *job, size_t channels,
                            uint32_t *order)
{
    const pare_mark mark = pare_arena_mark(scratch);
    ranked *const rank = PARE_NEW(scratch, ranked, channels);
    if (!rank)
        return PARE_ENOMEM;
    for (size_t c = 0; c < channels; c++) {
        rank[c] = (ranked){0, (uint32_t)c};
        for (size_t r = 0; r < job->rows; r++)
            rank[c].sum += (double)job->score[c * job->rows + r];
    }
    qsort(rank, channels, sizeof *rank, by_falling_sum);
    const size_t groups = channels / job->of;
    for (size_t i = 0; i < channels; i++) {
        const size_t place = i / groups, at = i % groups;
        order[(place % 2 ? groups - 1 - at : at) * job->of + place] = rank[i].channel;
    }
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

/* Shares out the channels at one place of `groups` groups; changes their part of the order. */
static pare_status assign(pare_ctx *cx, pare_arena *scratch, permute_job *job, uint32_t *order,
                          size_t groups, unsigned place)
{
    const pare_mark mark = pare_arena_mark(scratch);
    uint32_t *const column = PARE_NEW(scratch, uint32_t, groups);
    uint32_t *const old = column ? PARE_NEW(scratch, uint32_t, groups) : NULL;
    if (!old)
        return PARE_ENOMEM;
    job->order = order;
    job->groups = groups;
    job->place = place;
    pare_parallel(cx, groups, 1, find_nth, job);
    pare_parallel(cx, groups, 1, find_gains, job);
    PARE_TRY(pare_permute_assign(scratch, job->gain, groups, column));
    for (size_t g = 0; g < groups; g++)
        old[g] = order[g * job->of + place];
    for (size_t g = 0; g < groups; g++)
        order[g * job->of + place] = old[column[g]];
    pare_arena_rewind(scratch, mark);
    return pare_ctx_interrupted(cx);
}

static pare_status assign_all(pare_ctx *cx, pare_arena *scratch, permute_job *job, size_t channels,
                              size_t span, uint32_t *order)
{
    const size_t groups = channels / job->of, most = span / job->of;
    if (most < 2)
        return PARE_OK;
    const size_t room = most < groups ? most : groups;
    job->nth = PARE_NEW(scratch, float, room * job->rows);
    job->gain = job->nth ? PARE_NEW(scratch, double, room *room) : NULL;
    if (!job->gain)
        return PARE_ENOMEM;
    for (size_t g = 0; g < groups; g += most)
        for (unsigned place = 0; place < job->of; place++)
            PARE_TRY(assign(cx, scratch, job, order + g * job->of,
                            groups - g < most ? groups - g : most, place));
    return PARE_OK;
}

static void stay(uint32_t *order, size_t channels)
{
    for (size_t c = 0; c < channels; c++)
        order[c] = (uint32_t)c;
}

static pare_status choose(pare_ctx *cx, pare_arena *scratch, permute_job *job, size_t channels,
                          size_t span, uint32_t *order, double kept[2])
{
    const size_t groups = channels / job->of;
    job->kept = PARE_NEW(scratch, double, groups);
    if (!job->kept)
        return PARE_ENOMEM;
    stay(order, channels);
    kept[0] = kept_by(cx, job, order, groups);
    PARE_TRY(allocate(scratch, job, channels, order));
    if (kept_by(cx, job, order, groups) < kept[0])
        stay(order, channels);
    PARE_TRY(assign_all(cx, scratch, job, channels, span, order));
    kept[1] = kept_by(cx, job, order, groups);
    if (kept[1] > kept[0])
        return PARE_OK;
    kept[1] = kept[0];
    stay(order, channels);
    return PARE_OK;
}

pare_status pare_permute_choose(pare_ctx *cx, pare_arena *scratch, const pare_permute_opts *opts,
                                const float *score, size_t channels, size_t rows, uint32_t *order,
                                double kept[2])
{
    const pare_sparsity rule = {.keep = opts->keep, .of = opts->of};
    if (opts->of == 0 || channels % opts->of != 0 || channels > UINT32_MAX)
        return pare_fail(cx, PARE_EINVAL, "%zu channels are no whole groups of %u", channels,
                         opts->of);
    PARE_TRY(pare_sparsity_check(cx, &rule));
    const pare_mark mark = pare_arena_mark(scratch);
    permute_job job = {.score = score, .rows = rows, .keep = opts->keep, .of = opts->of};
    const pare_status s = choose(cx, scratch, &job, channels, opts->span, order, kept);
    pare_arena_rewind(scratch, mark);
    return s;
}
