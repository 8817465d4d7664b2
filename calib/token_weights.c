/* Batch by batch: the inputs of all blocks go to a file on the way forward; on the way back each
 * block runs once more, for what its gradient needs. The sums of a block lie in another file, and
 * are in memory while a batch is added to them. */
#include "calib/token_weights.h"

#include <math.h>
#include <string.h>

#include "calib/shares.h"
#include "calib/wave.h"
#include "runtime/file.h"
#include "runtime/head_gradient.h"
#include "runtime/random.h"
#include "runtime/small.h"
#include "runtime/tape.h"
#include "runtime/threads.h"
#include "runtime/world.h"

typedef struct weigh_job {
    pare_ctx *cx;
    pare_arena *scratch;
    pare_arena work; /* of passes through a block or the head, kept from one to the next */
    const pare_forward *f;
    pare_block *room; /* the current block in floats */
    const int32_t *tokens;
    size_t window, total; /* tokens in all */
    size_t share, shares; /* of the windows: those of this process, share .. shares - 1 */
    size_t first, rows;   /* tokens of the batch */
    size_t block;         /* that is being undone */
    float *x, *dy;        /* [rows of a batch, hidden] in front of a block; gradient behind it */
    pare_spill stream;    /* x of all blocks, then the sums of a share for each of them; of every
                             share where process 0 gets them */
    uint64_t sums;        /* where those begin, in floats */
    pare_kv kv;           /* of the way forward */
    double *over;         /* [windows of a batch, widest output] */
    pare_token_weights *out;
} weigh_job;

static pare_batch batch(const weigh_job *job)
{
    return (pare_batch){.sequences = job->rows / job->window, .length = job->window};
}

static void load(weigh_job *job, size_t block)
{
    const pare_model *const m = job->f->model;
    pare_block_load(job->cx, &m->config, &m->block[block], job->room);
}

/* A gradient behind a linear. */
typedef struct seen {
    const float *dy; /* [rows, n] */
    size_t n, window;
    double *over;  /* [windows, n] 1 / (n mean of dy^2 over the tokens of the window), 0 where 0;
                      the square of a small dy has no place in a float */
    float *weight; /* [rows] */
} seen;

enum { COLUMNS = 64 };

/* Of COLUMNS columns of a window. */
static void find_means(void *arg, size_t begin, size_t end, size_t worker)
{
    const seen *const s = arg;
    const size_t chunks = (s->n + COLUMNS - 1) / COLUMNS;
    (void)worker;
    for (size_t item = begin; item < end; item++) {
        const size_t window = item / chunks, first = item % chunks * COLUMNS;
        const size_t count = s->n - first < COLUMNS ? s->n - first : COLUMNS;
        double sum[COLUMNS] = {0};
        for (size_t t = 0; t < s->window; t++) {
            const float *const dy = s->dy + (window * s->window + t) * s->n + first;
            for (size_t i = 0; i < count; i++)
                sum[i] += (double)dy[i] * (double)dy[i];
        }
        for (size_t i = 0; i < count; i++)
            s->over[window * s->n + first + i] =
                sum[i] > 0 ? (double)s->window / (sum[i] * (double)s->n) : 0;
    }
}

static void weigh_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const seen *const s = arg;
    (void)worker;
    for (size_t t = begin; t < end; t++) {
        const float *const dy = s->dy + t * s->n;
        const double *const over = s->over + t / s->window * s->n;
        double sum = 0;
        for (size_t i = 0; i < s->n; i++)
            sum += (double)dy[i] * (double)dy[i] * over[i];
        s->weight[t] += (float)sum;
    }
}

/* Of the linears that every token runs. */
static void see(void *self, const pare_linear *w, const float *dy, size_t rows, size_t n)
{
    const weigh_job *const job = self;
    size_t role = 0;
    while (role < PARE_ROLES && w != &job->room->linear[role])
        role++;
    if (role == PARE_ROLES)
        return;
    const pare_site site = job->f->model->config.arch->linear[role].site;
    seen s = {.dy = dy, .n = n, .window = job->window, .over = job->over};
    s.weight = job->out->weight + site * job->total + job->first;
    pare_parallel(job->cx, rows / job->window * ((n + COLUMNS - 1) / COLUMNS), 1, find_means, &s);
    pare_parallel(job->cx, rows, 64, weigh_rows, &s);
    pare_output_curvature_add(job->cx, &job->out->outputs, (pare_role)role, dy, rows, n);
}

/* Where the sums of a block begin in their file, in floats. */
static uint64_t place_of(const pare_token_weights *w, size_t block)
{
    return (uint64_t)block * (PARE_SITES * w->tokens + w->outputs.first[PARE_ROLES]);
}

static uint64_t place_of_outputs(const pare_token_weights *w, size_t block)
{
    return place_of(w, block) + PARE_SITES * w->tokens;
}

static uint64_t place_in_stream(const weigh_job *job, size_t block)
{
    return (uint64_t)block * job->rows * job->f->model->config.hidden;
}

/* Whether the batch is the first, or the last, of its share of the windows. */
static bool begins_share(const weigh_job *job)
{
    const size_t windows = job->total / job->window, at = job->first / job->window;
    return at == 0 || pare_share_end(windows, at - 1) == at;
}

static bool ends_share(const weigh_job *job)
{
    const size_t windows = job->total / job->window, end = (job->first + job->rows) / job->window;
    return pare_share_end(windows, end - 1) == end;
}

/* x becomes what is behind the last block. */
static pare_status forward(weigh_job *job)
{
    const pare_model *const m = job->f->model;
    const size_t count = job->rows * m->config.hidden;
    PARE_TRY(pare_embed_batch(job->cx, m, job->tokens + job->first, batch(job), job->x));
    for (size_t b = 0; b < m->config.blocks; b++) {
        load(job, b);
        PARE_TRY(pare_ctx_interrupted(job->cx));
        PARE_TRY(pare_spill_put(job->cx, &job->stream, job->x, count, place_in_stream(job, b)));
        PARE_TRY(pare_block_forward(job->cx, &job->work, job->f, job->room, batch(job), job->x,
                                    &job->kv, NULL));
    }
    return PARE_OK;
}

static size_t share_begin(const weigh_job *job, size_t share)
{
    return pare_share_begin(job->total / job->window, share);
}

/* Where the sums of a share are, in floats of the stream. */
static uint64_t place_of_sums(const weigh_job *job, size_t share, size_t block)
{
    const uint64_t at = pare_world_rank(job->cx) ? share - job->share : 0;
    return job->sums +
           (at * job->f->model->config.blocks + block) * job->out->outputs.first[PARE_ROLES];
}

/* Of the share of the batch. */
static uint64_t place_of_own_sums(const weigh_job *job)
{
    size_t share = job->share;
    while (share_begin(job, share + 1) * job->window <= job->first)
        share++;
    return place_of_sums(job, share, job->block);
}

/* What batches of the share before this one gave the current block. */
static pare_status begin_sums(const weigh_job *job)
{
    const pare_token_weights *const w = job->out;
    const size_t count = w->outputs.first[PARE_ROLES];
    for (size_t site = 0; site < PARE_SITES; site++)
        memset(w->weight + site * w->tokens + job->first, 0, job->rows * sizeof *w->weight);
    if (!begins_share(job))
        return pare_spill_get(job->cx, &job->stream, w->outputs.o, count, place_of_own_sums(job));
    memset(w->outputs.o, 0, count * sizeof *w->outputs.o);
    return PARE_OK;
}

/* Sums of a share in outputs.o join those before it. */
static pare_status add_share(const weigh_job *job, bool is_first)
{
    enum { CHUNK = 4096 };
    const pare_token_weights *const w = job->out;
    const size_t count = w->outputs.first[PARE_ROLES];
    float total[CHUNK];
    for (size_t at = 0; at < count && !is_first; at += CHUNK) {
        const size_t some = pare_smaller(CHUNK, count - at);
        PARE_TRY(
            pare_spill_get(job->cx, &w->file, total, some, place_of_outputs(w, job->block) + at));
        for (size_t i = 0; i < some; i++)
            w->outputs.o[at + i] = total[i] + w->outputs.o[at + i];
    }
    return pare_spill_put(job->cx, &w->file, w->outputs.o, count, place_of_outputs(w, job->block));
}

static pare_status keep_sums(const weigh_job *job)
{
    const pare_token_weights *const w = job->out;
    for (size_t site = 0; site < PARE_SITES; site++) {
        const size_t at = site * w->tokens + job->first;
        PARE_TRY(pare_spill_put(job->cx, &w->file, w->weight + at, job->rows,
                                place_of(w, job->block) + at));
    }
    const size_t count = w->outputs.first[PARE_ROLES];
    if (ends_share(job) && pare_world_rank(job->cx) == 0)
        return add_share(job,
                         pare_share_end(job->total / job->window, 0) * job->window > job->first);
    return pare_spill_put(job->cx, &job->stream, w->outputs.o, count, place_of_own_sums(job));
}

/* dy becomes the gradient in front of the block. */
static pare_status undo_block(weigh_job *job, pare_tape *t)
{
    const pare_gradients wanted = {.see = see, .self = job};
    const size_t hidden = job->f->model->config.hidden;
    pare_array x, y;
    PARE_TRY(pare_tape_input(t, job->x, job->rows, hidden, true, &x));
    PARE_TRY(pare_tape_block_for_gradients(t, job->f, job->room, batch(job), x, &y));
    PARE_TRY(pare_tape_back(t, y, job->dy, &wanted));
    memcpy(job->dy, pare_tape_gradient(x), job->rows * hidden * sizeof *job->dy);
    return PARE_OK;
}

static pare_status backward(weigh_job *job)
{
    const size_t count = job->rows * job->f->model->config.hidden;
    for (size_t b = job->f->model->config.blocks; b-- > 0;) {
        pare_tape t;
        load(job, b);
        job->block = b;
        PARE_TRY(pare_ctx_interrupted(job->cx));
        PARE_TRY(pare_spill_get(job->cx, &job->stream, job->x, count, place_in_stream(job, b)));
        PARE_TRY(begin_sums(job));
        pare_tape_begin(job->cx, &job->work, job->f->backend, &t);
        const pare_status s = undo_block(job, &t);
        pare_tape_end(&t);
        PARE_TRY(s);
        PARE_TRY(keep_sums(job));
    }
    return PARE_OK;
}

static pare_status weigh_batch(weigh_job *job, uint64_t seed)
{
    PARE_TRY(forward(job));
    PARE_TRY(pare_head_gradient(job->cx, &job->work, job->f, job->x, seed, job->first, job->rows,
                                job->dy));
    return backward(job);
}

static pare_status weigh_batches(weigh_job *job, uint64_t seed)
{
    const size_t step = pare_wave_batch(job->window) * job->window;
    const size_t stop = share_begin(job, job->shares) * job->window;
    for (; job->first < stop; job->first += job->rows) {
        pare_ctx_progress(job->cx, "weighing tokens by the loss", (double)job->first, (double)stop);
        const size_t end = pare_share_end(job->total / job->window, job->first / job->window);
        job->rows = pare_smaller(step, end * job->window - job->first);
        const pare_mark mark = pare_arena_mark(job->scratch);
        const pare_status s = weigh_batch(job, seed);
        pare_arena_rewind(job->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* Weights of a process's tokens and sums of its shares, block by block, from it to process 0. */
static pare_status send_part(const weigh_job *job)
{
    const pare_token_weights *const w = job->out;
    const size_t count = w->outputs.first[PARE_ROLES];
    const size_t from = share_begin(job, job->share) * job->window;
    const size_t tokens = share_begin(job, job->shares) * job->window - from;
    pare_status s = PARE_OK;
    for (size_t b = 0; b < job->f->model->config.blocks; b++) {
        for (size_t site = 0; site < PARE_SITES; site++) {
            float *const x = w->weight + site * w->tokens + from;
            if (s == PARE_OK)
                s = pare_spill_get(job->cx, &w->file, x, tokens,
                                   place_of(w, b) + site * w->tokens + from);
            pare_world_send(job->cx, 0, x, tokens * sizeof *x);
        }
        for (size_t i = job->share; i < job->shares; i++) {
            if (s == PARE_OK)
                s = pare_spill_get(job->cx, &job->stream, w->outputs.o, count,
                                   place_of_sums(job, i, b));
            pare_world_send(job->cx, 0, w->outputs.o, count * sizeof *w->outputs.o);
        }
    }
    return s;
}

static pare_status receive_part(weigh_job *job, size_t rank)
{
    const pare_token_weights *const w = job->out;
    size_t share, shares;
    pare_status s = PARE_OK;
    pare_share_range(pare_world_size(job->cx), rank, &share, &shares);
    const size_t from = share_begin(job, share) * job->window;
    const size_t tokens = share_begin(job, shares) * job->window - from;
    for (size_t b = 0; b < job->f->model->config.blocks; b++) {
        job->block = b;
        for (size_t site = 0; site < PARE_SITES; site++) {
            float *const x = w->weight + site * w->tokens + from;
            pare_world_receive(job->cx, rank, x, tokens * sizeof *x);
            if (s == PARE_OK)
                s = pare_spill_put(job->cx, &w->file, x, tokens,
                                   place_of(w, b) + site * w->tokens + from);
        }
        for (size_t i = share; i < shares; i++) {
            pare_world_receive(job->cx, rank, w->outputs.o,
                               w->outputs.first[PARE_ROLES] * sizeof *w->outputs.o);
            if (s == PARE_OK)
                s = add_share(job, false);
        }
    }
    return s;
}

/* Process 0 has the sums of all. Where a file fails all that is sent is received, too. */
static pare_status join_parts(weigh_job *job)
{
    pare_status s = PARE_OK;
    if (pare_world_rank(job->cx) > 0)
        s = send_part(job);
    for (size_t r = 1; pare_world_rank(job->cx) == 0 && r < pare_world_size(job->cx); r++) {
        const pare_status part = receive_part(job, r);
        s = s == PARE_OK ? part : s;
    }
    return pare_world_agree(job->cx, s);
}

/* From the sums over its linears to the weights of a site. */
static pare_status settle_site(const weigh_job *job, size_t block, float *w)
{
    double sum = 0;
    for (size_t t = 0; t < job->total; t++) {
        w[t] = sqrtf(w[t]);
        sum += (double)w[t];
    }
    if (!isfinite(sum))
        return pare_fail(job->cx, PARE_ENUMERIC,
                         "block %zu: gradients of the loss are not finite: say token_weights: even",
                         block);
    for (size_t t = 0; t < job->total; t++)
        w[t] = sum > 0 ? (float)((double)w[t] / sum * (double)job->total) : 1;
    return PARE_OK;
}

static pare_status settle(const weigh_job *job)
{
    const pare_config *const c = &job->f->model->config;
    pare_token_weights *const w = job->out;
    const size_t count = PARE_SITES * w->tokens;
    for (size_t b = 0; b < c->blocks; b++) {
        PARE_TRY(pare_token_weights_load(job->cx, b, w));
        for (unsigned site = 0; site < PARE_SITES; site++)
            PARE_TRY(settle_site(job, b, w->weight + site * w->tokens));
        PARE_TRY(pare_output_curvature_settle(job->cx, c, b, &w->outputs));
        PARE_TRY(pare_spill_put(job->cx, &w->file, w->weight, count, place_of(w, b)));
        PARE_TRY(pare_spill_put(job->cx, &w->file, w->outputs.o, w->outputs.first[PARE_ROLES],
                                place_of_outputs(w, b)));
    }
    return PARE_OK;
}

/* The widest output of a linear of a block. */
static size_t widest(const pare_config *c)
{
    size_t most = 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        most = n > most ? n : most;
    }
    return most;
}

uint64_t pare_token_weights_bytes(const pare_config *c, uint64_t tokens)
{
    return PARE_SITES * tokens * sizeof(float) + PARE_ALIGN + pare_output_curvature_bytes(c);
}

uint64_t pare_token_weights_file(const pare_config *c, uint64_t tokens)
{
    return c->blocks * (PARE_SITES * tokens + pare_output_curvature_floats(c)) * sizeof(float);
}

static size_t batch_windows(size_t samples, size_t window)
{
    return pare_smaller(pare_share_largest(samples), pare_wave_batch(window));
}

/* Floats of the inputs of all blocks. */
static uint64_t stream_floats(const pare_config *c, size_t samples, size_t window)
{
    return (uint64_t)batch_windows(samples, window) * window * c->hidden * c->blocks;
}

/* With sums for `shares` shares of the windows. */
static uint64_t stream_bytes(const pare_config *c, size_t samples, size_t window, size_t shares)
{
    return (stream_floats(c, samples, window) +
            shares * c->blocks * pare_output_curvature_floats(c)) *
           sizeof(float);
}

uint64_t pare_token_weights_disk(const pare_config *c, size_t samples, size_t window,
                                 size_t processes)
{
    const uint64_t others = processes - 1, most = pare_share_most(processes);
    return processes * pare_token_weights_file(c, (uint64_t)samples * window) +
           stream_bytes(c, samples, window, 1) + others * stream_bytes(c, samples, window, most);
}

/* The most of a pass through a block, there and back, and through the head. */
static uint64_t work_bytes(const pare_ctx *cx, const pare_config *c, pare_batch b, bool bf16)
{
    const uint64_t there =
        pare_block_forward_bytes(cx, c, b, bf16 ? PARE_INPUTS_BF16 : PARE_INPUTS_NONE);
    const uint64_t back = pare_tape_block_bytes(cx, c, b, bf16);
    const uint64_t head = pare_head_gradient_bytes(cx, c, bf16);
    const uint64_t most = there > back ? there : back;
    return head > most ? head : most;
}

uint64_t pare_token_weights_scratch(const pare_ctx *cx, const pare_config *c, size_t samples,
                                    size_t window, bool bf16)
{
    const pare_batch b = {.sequences = batch_windows(samples, window), .length = window};
    const uint64_t rows = (uint64_t)b.sequences * window;
    return (uint64_t)b.sequences * widest(c) * sizeof(double) +
           2 * rows * c->hidden * sizeof(float) +
           pare_kv_bytes(c, &(pare_kv_format){0}, b.sequences, window) +
           work_bytes(cx, c, b, bf16) + (uint64_t)256 * PARE_ALIGN;
}

static pare_status take(weigh_job *job, const pare_config *c, size_t sequences)
{
    const size_t rows = sequences * job->window;
    const pare_batch widest_batch = {.sequences = sequences, .length = job->window};
    job->over = PARE_NEW(job->scratch, double, sequences *widest(c));
    job->x = PARE_NEW(job->scratch, float, rows * c->hidden);
    job->dy = PARE_NEW(job->scratch, float, rows * c->hidden);
    if (!job->over || !job->x || !job->dy)
        return PARE_ENOMEM;
    PARE_TRY(
        pare_arena_init(job->cx, &job->work,
                        work_bytes(job->cx, c, widest_batch, job->f->backend == &pare_cpu_bf16)));
    return pare_kv_take(job->scratch, c, sequences, job->window, &job->kv);
}

static pare_status open_result(pare_ctx *cx, pare_arena *a, const pare_config *c, size_t tokens,
                               const char *directory, pare_token_weights *w)
{
    *w = (pare_token_weights){.tokens = tokens};
    w->weight = PARE_NEW(a, float, PARE_SITES *tokens);
    if (!w->weight)
        return PARE_ENOMEM;
    PARE_TRY(pare_output_curvature_take(a, c, &w->outputs));
    return pare_spill_open(cx, a, directory, PARE_SPILL_WEIGHTS, pare_token_weights_file(c, tokens),
                           "weights of tokens", &w->file);
}

static pare_status open_job(weigh_job *job, size_t samples, const char *directory)
{
    const pare_config *const c = &job->f->model->config;
    pare_share_range(pare_world_size(job->cx), pare_world_rank(job->cx), &job->share, &job->shares);
    const size_t shares = pare_world_rank(job->cx) ? job->shares - job->share : 1;
    job->first = share_begin(job, job->share) * job->window;
    job->sums = stream_floats(c, samples, job->window);
    PARE_TRY(pare_spill_open(job->cx, job->scratch, directory, PARE_SPILL_STREAM,
                             stream_bytes(c, samples, job->window, shares), "the inputs of blocks",
                             &job->stream));
    return take(job, c, batch_windows(samples, job->window));
}

pare_status pare_token_weights_find(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                    const pare_forward *f, const int32_t *tokens, size_t samples,
                                    size_t window, uint64_t seed, pare_block *room,
                                    const char *directory, pare_token_weights *out)
{
    weigh_job job = {.cx = cx,
                     .scratch = scratch,
                     .work = {.cx = cx},
                     .f = f,
                     .room = room,
                     .tokens = tokens,
                     .window = window,
                     .total = samples * window,
                     .out = out};
    pare_status s = open_result(cx, a, &f->model->config, job.total, directory, out);
    const pare_mark mark = pare_arena_mark(scratch);
    if (s == PARE_OK)
        s = open_job(&job, samples, directory);
    if (s == PARE_OK)
        s = weigh_batches(&job, seed);
    s = pare_world_agree(cx, s);
    if (s == PARE_OK)
        s = join_parts(&job);
    if (s == PARE_OK && pare_world_rank(cx) == 0)
        s = settle(&job);
    pare_spill_close(&job.stream);
    pare_arena_release(&job.work);
    pare_arena_rewind(scratch, mark);
    return s;
}

/* Block by block, through the room of one. */
pare_status pare_token_weights_copy(pare_ctx *cx, pare_arena *a, const pare_config *c,
                                    size_t tokens, const char *directory, int fd, const char *path,
                                    uint64_t at, pare_token_weights *out)
{
    PARE_TRY(open_result(cx, a, c, tokens, directory, out));
    const size_t outputs = out->outputs.first[PARE_ROLES] * sizeof *out->outputs.o;
    const size_t weights = PARE_SITES * tokens * sizeof *out->weight;
    for (size_t b = 0; b < c->blocks; b++) {
        const uint64_t first = at + place_of(out, b) * sizeof(float);
        PARE_TRY(pare_file_get(cx, fd, path, out->weight, weights, first));
        PARE_TRY(pare_file_get(cx, fd, path, out->outputs.o, outputs, first + weights));
        PARE_TRY(
            pare_spill_put(cx, &out->file, out->weight, PARE_SITES * tokens, place_of(out, b)));
        PARE_TRY(pare_spill_put(cx, &out->file, out->outputs.o, out->outputs.first[PARE_ROLES],
                                place_of_outputs(out, b)));
    }
    return PARE_OK;
}

pare_status pare_token_weights_load(pare_ctx *cx, size_t block, pare_token_weights *w)
{
    if (!w->weight)
        return PARE_OK;
    PARE_TRY(pare_spill_get(cx, &w->file, w->weight, PARE_SITES * w->tokens, place_of(w, block)));
    return pare_spill_get(cx, &w->file, w->outputs.o, w->outputs.first[PARE_ROLES],
                          place_of_outputs(w, block));
}

void pare_token_weights_close(pare_token_weights *w)
{
    pare_spill_close(&w->file);
}
