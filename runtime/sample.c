#include "runtime/sample.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/block_ops.h"
#include "runtime/ops.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum {
    PREFILL_ROWS = 2048, /* rows of one prefill batch, or one position of every sequence */
    LOGITS_ROWS = 64
};

int32_t pare_sample(const float *logits, size_t vocab, double temperature, double u)
{
    const size_t best = pare_argmax(logits, vocab);
    const double max = (double)logits[best];
    double total = 0, sum = 0;
    if (temperature <= 0)
        return isfinite(max) ? (int32_t)best : -1;
    for (size_t i = 0; i < vocab; i++)
        total += pare_exp(((double)logits[i] - max) / temperature);
    if (!isfinite(total))
        return -1;
    for (size_t i = 0; i < vocab; i++) {
        sum += pare_exp(((double)logits[i] - max) / temperature);
        if (sum > u * total)
            return (int32_t)i;
    }
    return (int32_t)best;
}

/* The state of one generation. Sequences lie in rows; `done` marks those past their end token. */
typedef struct generation {
    pare_ctx *cx;
    pare_arena *scratch; /* this state */
    pare_arena work;     /* one block big enough for every batch: nothing is allocated per token */
    pare_ops state, run; /* the backend over each */
    const pare_forward *f;
    const pare_generate_opts *opts;
    int32_t *tokens;
    pare_kv *kv;     /* [blocks] */
    pare_array x;    /* activations of one batch */
    float *logits;   /* [LOGITS_ROWS or fewer, vocab] */
    int32_t *column; /* tokens of one batch, sequence after sequence */
    size_t *last;    /* row of the last position of each sequence in x */
    unsigned char *done;
    pare_sample_entry *order; /* [threads, vocab], with a filter */
    size_t running;
    struct generation *other; /* of the other model, over the same tokens; NULL: none */
} generation;

/* Positions of one prefill batch. */
static size_t prefill_length(const generation *g, size_t prompt)
{
    const size_t n = g->opts->sequences, most = n < PREFILL_ROWS ? PREFILL_ROWS / n : 1;
    return prompt < most ? prompt : most;
}

static pare_status take_states(generation *g, size_t prompt)
{
    const pare_config *const c = &g->f->model->config;
    const size_t n = g->opts->sequences, length = g->opts->length;
    const size_t chunk = prefill_length(g, prompt), rows = n * chunk;
    g->kv = PARE_NEW(g->scratch, pare_kv, c->blocks);
    g->column = PARE_NEW(g->scratch, int32_t, rows);
    g->last = PARE_NEW(g->scratch, size_t, n);
    g->done = PARE_NEW(g->scratch, unsigned char, n);
    g->logits = pare_arena_take(g->scratch, n < LOGITS_ROWS ? n : LOGITS_ROWS,
                                g->f->model->head.n * sizeof(float));
    if (!g->kv || !g->column || !g->last || !g->done || !g->logits)
        return PARE_ENOMEM;
    if (g->opts->filter) {
        g->order = pare_arena_take_raw(g->scratch, pare_threads(g->cx),
                                       g->f->model->head.n * sizeof *g->order);
        if (!g->order)
            return PARE_ENOMEM;
    }
    PARE_TRY(g->state.op->take(&g->state, rows, c->hidden, &g->x));
    for (size_t i = 0; i < c->blocks; i++)
        PARE_TRY(pare_block_kv_take(&g->state, g->f->model, i, n, length, &g->kv[i]));
    g->running = n;
    const pare_batch widest = {n, chunk, length - chunk};
    PARE_TRY(pare_arena_init(g->cx, &g->work, pare_block_forward_scratch(g->cx, c, widest)));
    return g->other ? take_states(g->other, prompt) : PARE_OK;
}

/* Runs positions [start, start + length) of every sequence. */
static pare_status run_batch(generation *g, size_t start, size_t length)
{
    const pare_batch batch = {g->opts->sequences, length, start};
    for (size_t i = 0; i < batch.sequences; i++) {
        memcpy(g->column + i * length, g->tokens + i * g->opts->length + start,
               length * sizeof *g->column);
        g->last[i] = i * length + length - 1;
    }
    const pare_array x = pare_array_rows(g->x, 0, batch.sequences * length);
    PARE_TRY(pare_embed_run(&g->run, g->f->model, g->column, batch, x));
    PARE_TRY(pare_model_run(&g->run, g->f, batch, x, g->kv, g->f->model->config.blocks));
    return g->other ? run_batch(g->other, start, length) : PARE_OK;
}

bool pare_is_end(const pare_config *c, int32_t token)
{
    for (size_t i = 0; i < c->eos_ids; i++)
        if (c->eos_id[i] == token)
            return true;
    return false;
}

/* Arguments of the loop that draws tokens from the logits of sequences [first, ...). */
typedef struct draw_call {
    generation *g;
    size_t first, position;
} draw_call;

static void draw(void *arg, size_t begin, size_t end, size_t worker)
{
    const draw_call *const d = arg;
    const generation *const g = d->g;
    const size_t vocab = g->f->model->head.n;
    for (size_t i = begin; i < end; i++) {
        const size_t sequence = d->first + i;
        if (g->done[sequence])
            continue;
        const int32_t *const tokens = g->tokens + sequence * g->opts->length;
        if (g->opts->filter)
            pare_sample_filter_run(g->opts->filter, g->logits + i * vocab, vocab,
                                   g->opts->temperature, tokens, d->position,
                                   g->order + worker * vocab);
        const uint64_t seed = g->opts->seed, stream = g->opts->first + sequence;
        const double u = pare_random_unit(seed, stream, d->position);
        /* the coins come behind the numbers of all positions */
        const bool other =
            g->other &&
            pare_random_unit(seed, stream, g->opts->length + d->position) < g->opts->share;
        g->tokens[sequence * g->opts->length + d->position] =
            pare_sample((other ? g->other : g)->logits + i * vocab, vocab, g->opts->temperature, u);
    }
}

/* Marks the sequences that have just drawn an end token; those already done repeat theirs. */
static pare_status note_ends(generation *g, size_t position)
{
    for (size_t i = 0; i < g->opts->sequences; i++) {
        int32_t *const token = g->tokens + i * g->opts->length + position;
        if (g->done[i]) {
            token[0] = token[-1];
        } else if (token[0] < 0) {
            return pare_fail(g->cx, PARE_ENUMERIC,
                             "the logits of sequence %llu at position %zu are not finite: a weight "
                             "is not, or activations overflow; \"pare verify\" finds damaged files",
                             (unsigned long long)(g->opts->first + i), position);
        } else if (g->opts->stop_at_eos && pare_is_end(&g->f->model->config, token[0])) {
            g->done[i] = 1;
            g->running--;
        }
    }
    return PARE_OK;
}

static pare_status draw_largest(const generation *g, size_t first, size_t count, size_t position)
{
    int32_t next[LOGITS_ROWS];
    PARE_TRY(pare_greedy_get(&g->run, g->f, g->x, g->last + first, count, g->logits, next));
    for (size_t i = 0; i < count; i++)
        if (!g->done[first + i])
            g->tokens[(first + i) * g->opts->length + position] = next[i];
    return PARE_OK;
}

/* Writes the tokens at `position` from the activations of the position before. */
static pare_status draw_column(generation *g, size_t position)
{
    const size_t n = g->opts->sequences;
    for (size_t i = 0; i < n && g->running; i += LOGITS_ROWS) {
        const size_t count = n - i < LOGITS_ROWS ? n - i : LOGITS_ROWS;
        draw_call call = {g, i, position};
        if (g->opts->temperature <= 0 && !g->opts->filter) {
            PARE_TRY(draw_largest(g, i, count, position));
            continue;
        }
        PARE_TRY(pare_logits_get(&g->run, g->f, g->x, g->last + i, count, g->logits));
        if (g->other)
            PARE_TRY(pare_logits_get(&g->other->run, g->other->f, g->other->x, g->other->last + i,
                                     count, g->other->logits));
        pare_parallel(g->cx, count, 1, draw, &call);
    }
    return note_ends(g, position);
}

static pare_status generate(generation *g, size_t prompt, pare_status (*seen)(void *, size_t),
                            void *self)
{
    const size_t length = g->opts->length, chunk = prefill_length(g, prompt);
    PARE_TRY(take_states(g, prompt));
    for (size_t at = 0; at < prompt && prompt < length; at += chunk)
        PARE_TRY(run_batch(g, at, prompt - at < chunk ? prompt - at : chunk));
    for (size_t position = prompt; position < length; position++) {
        PARE_TRY(draw_column(g, position));
        if (seen)
            PARE_TRY(seen(self, position));
        if (g->running && position + 1 < length)
            PARE_TRY(run_batch(g, position, 1));
    }
    return PARE_OK;
}

static pare_status check_prompt(pare_ctx *cx, const pare_forward *f, const pare_generate_opts *o,
                                size_t prompt)
{
    if (o->length > f->positions)
        return pare_fail(cx, PARE_EINVAL, "%zu tokens asked for, this model takes %zu", o->length,
                         f->positions);
    if (prompt == 0 || prompt > o->length)
        return pare_fail(cx, PARE_EINVAL, "a prompt of %zu tokens in a sequence of %zu", prompt,
                         o->length);
    return PARE_OK;
}

static pare_status check(pare_ctx *cx, const pare_forward *f, const pare_generate_opts *o,
                         size_t prompt)
{
    size_t all;
    PARE_TRY(check_prompt(cx, f, o, prompt));
    if (o->sequences == 0 || !(o->temperature >= 0) || isinf(o->temperature))
        return pare_fail(cx, PARE_EINVAL, "%zu sequences at temperature %g", o->sequences,
                         o->temperature);
    if (o->filter && (o->other || !pare_sample_filter_valid(o->filter)))
        return pare_fail(cx, PARE_EINVAL,
                         o->other ? "a filter of tokens and two models"
                                  : "a filter of tokens out of its range");
    if (__builtin_mul_overflow(o->sequences, o->length, &all))
        return pare_fail(cx, PARE_ENOMEM, "%zu sequences of %zu tokens", o->sequences, o->length);
    if (!o->other)
        return PARE_OK;
    PARE_TRY(check_prompt(cx, o->other, o, prompt));
    if (o->other->model->head.n != f->model->head.n || !(o->temperature > 0))
        return pare_fail(cx, PARE_EINVAL, "two models of %zu and %zu tokens at temperature %g",
                         f->model->head.n, o->other->model->head.n, o->temperature);
    return PARE_OK;
}

static generation begin(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                        const pare_generate_opts *opts, int32_t *tokens)
{
    return (generation){
        .cx = cx, .scratch = scratch, .f = f, .opts = opts, .tokens = tokens, .work = {.cx = cx}};
}

pare_status pare_generate(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                          const pare_generate_opts *opts, size_t prompt, int32_t *tokens,
                          pare_status (*seen)(void *self, size_t position), void *self)
{
    PARE_TRY(check(cx, f, opts, prompt));
    generation g = begin(cx, scratch, f, opts, tokens);
    generation other = begin(cx, scratch, opts->other ? opts->other : f, opts, tokens);
    g.state = pare_ops_of(cx, scratch, f);
    g.run = pare_ops_of(cx, &g.work, f);
    other.state = pare_ops_of(cx, scratch, other.f);
    other.run = pare_ops_of(cx, &other.work, other.f);
    g.other = opts->other ? &other : NULL;
    pare_mark mark;
    PARE_TRY(g.state.op->mark(&g.state, &mark));
    const pare_status s = generate(&g, prompt, seen, self);
    const pare_status back = g.state.op->rewind(&g.state, mark);
    pare_arena_release(&other.work);
    pare_arena_release(&g.work);
    return s == PARE_OK ? back : s;
}
