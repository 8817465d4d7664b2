/* Windows run in batches of up to 2048 tokens, a longer one or those of a wide model in pieces;
 * each block's cache serves the next block, since no later batch continues it. Logits exist for 64
 * positions at a time, or for fewer of a large vocabulary. What a position gives (nll, kl,
 * agreement) is stored under its number and summed in token order at the end. */
#include "compress/evaluate/evaluate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/evaluate_internal.h"
#include "runtime/file.h"
#include "runtime/ops.h"
#include "runtime/small.h"
#include "runtime/threads.h"
#include "runtime/world.h"

/* One model under evaluation. */
typedef struct judged {
    const pare_forward *f;
    pare_ops state, work; /* its backend over the arena of each */
    pare_mark start;
    pare_kv kv;
    pare_array x;      /* [batch rows, hidden] */
    pare_array logits; /* [logits_rows, vocab] */
    size_t rows;       /* of a piece */
} judged;

typedef struct evaluation {
    pare_ctx *cx;
    pare_arena *arena;
    pare_arena work; /* scratch of the forward passes, planned */
    const int32_t *tokens;
    size_t window, step, windows, batch, logits_rows;
    bool shared;
    judged side[2]; /* the model, the baseline */
    const char *name[2];
    const pare_eval_stream *stream; /* of the last side, or NULL */
    size_t sides, vocab;
    size_t row[PARE__LOGITS_ROWS];     /* rows of x whose logits are formed */
    int32_t target[PARE__LOGITS_ROWS]; /* the tokens that follow them */
    size_t pending, scored;
    float *host;        /* [logits_rows, vocab]: logits of a baseline that runs elsewhere, ... */
    pare_array brought; /* ... and where the model's are */
    double *nll, *base_nll, *kl; /* [scored]; those with a baseline, or NULL */
    unsigned char *same;
    size_t baseline_bytes;
} evaluation;

/* Logits of the rows that are pending, and what they say beside base. */
static pare_status score_side(const evaluation *e, const judged *j, pare_array base,
                              pare_array *logits, pare_score *out)
{
    const pare_ops *const o = &j->work;
    pare_mark mark;
    *logits = pare_array_rows(j->logits, 0, e->pending);
    PARE_TRY(o->op->mark(o, &mark));
    pare_status s = pare_logits_run(o, j->f, j->x, e->row, *logits);
    if (s == PARE_OK)
        s = o->op->score(o, *logits, base, e->target, out);
    PARE_TRY(o->op->rewind(o, mark));
    return s;
}

/* The logits of the baseline in the place of the model. */
static pare_status bring_base(const evaluation *e, pare_array *base)
{
    const pare_ops *const to = &e->side[0].work, *const from = &e->side[1].work;
    const pare_array there = pare_array_rows(e->brought, 0, base->rows);
    const float *host = base->at;
    if (from->backend.place == to->backend.place)
        return PARE_OK;
    if (from->backend.place) {
        PARE_TRY(from->op->get(from, *base, e->host));
        host = e->host;
    }
    PARE_TRY(to->op->put(to, host, there));
    *base = there;
    return PARE_OK;
}

static pare_status flush(evaluation *e)
{
    pare_score own[PARE__LOGITS_ROWS], other[PARE__LOGITS_ROWS];
    pare_array base = {0}, logits;
    if (e->pending == 0)
        return PARE_OK;
    if (e->sides == 2) {
        PARE_TRY(score_side(e, &e->side[1], base, &base, other));
        PARE_TRY(bring_base(e, &base));
    }
    PARE_TRY(score_side(e, &e->side[0], base, &logits, own));
    for (size_t i = 0; i < e->pending; i++) {
        e->nll[e->scored + i] = own[i].nll;
        if (e->sides < 2)
            continue;
        e->base_nll[e->scored + i] = other[i].nll;
        e->kl[e->scored + i] = own[i].kl;
        e->same[e->scored + i] = own[i].best == other[i].best;
    }
    e->scored += e->pending;
    e->pending = 0;
    return PARE_OK;
}

/* Positions from 1 on that window w scores: all of the first, the last `step` of the others. */
static size_t first_scored(const evaluation *e, size_t w)
{
    return w == 0 || e->step >= e->window ? 1 : e->window - e->step;
}

static pare_status score_window(evaluation *e, size_t w, size_t first_row)
{
    for (size_t p = first_scored(e, w); p < e->window; p++) {
        e->row[e->pending] = first_row + p - 1;
        e->target[e->pending++] = e->tokens[w * e->step + p];
        if (e->pending == e->logits_rows)
            PARE_TRY(flush(e));
    }
    return PARE_OK;
}

static pare_status run_blocks(const evaluation *e, judged *j, size_t first, size_t count,
                              pare_array x)
{
    const pare_batch batch = {count, e->window, 0};
    for (size_t w = 0; w < count; w++)
        PARE_TRY(pare_embed_run(&j->work, j->f->model, e->tokens + (first + w) * e->step,
                                (pare_batch){1, e->window, 0},
                                pare_array_rows(x, w * e->window, e->window)));
    for (size_t b = 0; b < j->f->model->config.blocks; b++)
        PARE_TRY(pare__eval_block(&j->work, j->f, b, batch, j->rows, x, &j->kv));
    return PARE_OK;
}

/* The same where the stream is kept. */
static pare_status run_kept(const evaluation *e, judged *j, size_t first, size_t count,
                            pare_array x)
{
    const pare_eval_stream *const s = e->stream;
    const size_t bytes = x.rows * x.width * sizeof(float);
    const uint64_t at = s->at + (uint64_t)first * e->window * x.width * sizeof(float);
    if (s->filled)
        return pare_file_get(e->cx, s->fd, s->path, x.at, bytes, at);
    PARE_TRY(run_blocks(e, j, first, count, x));
    return pare_file_put(e->cx, s->fd, s->path, x.at, bytes, at);
}

static pare_status run_batch(evaluation *e, size_t first, size_t count)
{
    for (size_t i = 0; i < e->sides; i++) {
        judged *const j = &e->side[i];
        const pare_array x = pare_array_rows(j->x, 0, count * e->window);
        PARE_TRY(e->stream && i + 1 == e->sides ? run_kept(e, j, first, count, x)
                                                : run_blocks(e, j, first, count, x));
    }
    for (size_t w = 0; w < count; w++)
        PARE_TRY(score_window(e, first + w, w * e->window));
    return flush(e);
}

static double mean(const double *x, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += x[i];
    return sum / (double)n;
}

/* ppl * s / sqrt(n), s the sample deviation of nll: the error of exp(mean) to first order. */
static double ppl_error(const double *nll, size_t n, double average, double ppl)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++)
        squares += (nll[i] - average) * (nll[i] - average);
    return n > 1 ? ppl * sqrt(squares / (double)(n - 1) / (double)n) : 0;
}

/* kl = m 2^exponent with m in [1/2, 1) */
static size_t bin_of(double kl)
{
    int exponent;
    (void)frexp(kl, &exponent);
    const int bin = kl > 0 ? exponent - PARE_KL_LEAST : 0;
    return bin < 0 ? 0 : bin < PARE_KL_BINS ? (size_t)bin : PARE_KL_BINS - 1;
}

/* The model whose logits at scored position i are not finite, or NULL. */
static const char *overflowed(const evaluation *e, size_t i)
{
    if (!isfinite(e->nll[i]))
        return e->name[0];
    if (e->sides < 2 || (isfinite(e->base_nll[i]) && isfinite(e->kl[i])))
        return NULL;
    return isfinite(e->base_nll[i]) ? e->name[0] : e->name[1];
}

/* Means of one window in one bin, on the way to the error over windows. */
typedef struct window_sum {
    size_t count;
    double nll;
} window_sum;

static size_t log2_of(size_t position)
{
    size_t b = 0;
    while (b + 1 < PARE_EVAL_BINS && position >> (b + 1))
        b++;
    return b;
}

/* Adds the means of a window to the sum of squares of each bin, by Welford's update, which does not
 * cancel. */
static void end_window(window_sum sum[PARE_EVAL_BINS], size_t windows[PARE_EVAL_BINS],
                       double mean_of[PARE_EVAL_BINS], double squares[PARE_EVAL_BINS])
{
    for (size_t b = 0; b < PARE_EVAL_BINS; b++) {
        if (!sum[b].count)
            continue;
        const double x = sum[b].nll / (double)sum[b].count, away = x - mean_of[b];
        windows[b]++;
        mean_of[b] += away / (double)windows[b];
        squares[b] += away * (x - mean_of[b]);
        sum[b] = (window_sum){0};
    }
}

/* Scored positions are stored window after window. */
static void bin_positions(const evaluation *e, pare_eval_result *out)
{
    window_sum sum[PARE_EVAL_BINS] = {{0}};
    size_t windows[PARE_EVAL_BINS] = {0};
    double means[PARE_EVAL_BINS] = {0}, squares[PARE_EVAL_BINS] = {0};
    for (size_t w = 0, i = 0; i < e->scored; w++) {
        for (size_t p = first_scored(e, w); p < e->window && i < e->scored; p++, i++) {
            const size_t b = log2_of(p);
            pare_eval_bin *const bin = &out->bin[b];
            bin->scored++;
            bin->nll += e->nll[i];
            sum[b].count++;
            sum[b].nll += e->nll[i];
            bin->baseline_nll += e->sides == 2 ? e->base_nll[i] : 0;
            bin->kl += e->sides == 2 ? e->kl[i] : 0;
        }
        end_window(sum, windows, means, squares);
    }
    out->bins = log2_of(e->window - 1) + 1;
    for (size_t b = 0; b < out->bins; b++) {
        const double n = (double)out->bin[b].scored, count = (double)windows[b];
        out->bin[b].nll /= n;
        out->bin[b].baseline_nll /= n;
        out->bin[b].kl /= n;
        out->bin[b].nll_stderr = windows[b] > 1 ? sqrt(squares[b] / (count - 1) / count) : NAN;
    }
}

static pare_status summarize(evaluation *e, pare_eval_result *out)
{
    const size_t n = e->scored;
    for (size_t i = 0; i < n; i++)
        if (overflowed(e, i))
            return pare_fail(e->cx, PARE_ENUMERIC,
                             "%s: the logits of scored position %zu are not finite: a weight is "
                             "not, or activations overflow; \"pare verify\" finds damaged files",
                             overflowed(e, i), i);
    *out = (pare_eval_result){.scored = n, .nll = mean(e->nll, n)};
    out->ppl = exp(out->nll);
    out->ppl_stderr = ppl_error(e->nll, n, out->nll, out->ppl);
    bin_positions(e, out);
    if (e->sides < 2)
        return PARE_OK;
    out->baseline_bytes = e->baseline_bytes;
    out->baseline_nll = mean(e->base_nll, n);
    out->baseline_ppl = exp(out->baseline_nll);
    out->baseline_ppl_stderr = ppl_error(e->base_nll, n, out->baseline_nll, out->baseline_ppl);
    out->has_kl = true;
    out->kl_mean = mean(e->kl, n);
    qsort(e->kl, n, sizeof *e->kl, pare_by_double);
    out->kl_p99 = e->kl[(n / 100 * 99 + (n % 100 * 99 + 99) / 100) - 1]; /* ceil(0.99 n) - 1 */
    size_t same = 0;
    for (size_t i = 0; i < n; i++) {
        same += e->same[i];
        out->kl_histogram[bin_of(e->kl[i])]++;
    }
    out->top1 = (double)same / (double)n;
    return PARE_OK;
}

static pare_status take_side(evaluation *e, judged *j)
{
    const pare_config *const c = &j->f->model->config;
    PARE_TRY(j->state.op->take(&j->state, e->batch * e->window, c->hidden, &j->x));
    PARE_TRY(j->state.op->take(&j->state, e->logits_rows, e->vocab, &j->logits));
    return j->state.op->kv_take(&j->state, c, &j->f->model->kv, e->batch, e->window, &j->kv);
}

/* Windows in a batch that goes through a block in one piece; one that is longer goes alone. */
static size_t batch_of(size_t rows, size_t window)
{
    return window < rows ? rows / window : 1;
}

/* Windows of `count` tokens that go through a side at once. */
static size_t side_batch(const pare_ctx *cx, const pare_eval_side *side, size_t window,
                         uint64_t count)
{
    const size_t batch = batch_of(pare__eval_rows(cx, side->config), window);
    return batch < count / window + 1 ? batch : (size_t)(count / window + 1);
}

/* What a model takes for itself: activations, logits, cache. */
static uint64_t side_bytes(const pare_eval_side *side, size_t batch, size_t window)
{
    const pare_config *const c = side->config;
    const uint64_t floats =
        batch * window * (uint64_t)c->hidden + (uint64_t)pare__eval_logits(c->vocab) * c->vocab;
    return floats * sizeof(float) + pare_kv_bytes(c, side->kv, batch, window);
}

/* What models take in turn: the inside of a block, then normed rows in front of the logits. */
static uint64_t work_bytes(const pare_ctx *cx, const pare_eval_side *side, size_t batch,
                           size_t window)
{
    const pare_config *const c = side->config;
    const uint64_t normed = (uint64_t)pare__eval_logits(c->vocab) * c->hidden * sizeof(float);
    const uint64_t block = pare__eval_scratch(cx, c, (pare_batch){batch, window, 0},
                                              pare__eval_rows(cx, c), side->inputs);
    return block > normed ? block : normed;
}

uint64_t pare_evaluate_bytes(const pare_ctx *cx, const pare_eval_side *side,
                             const pare_eval_side *other, size_t window, uint64_t count)
{
    size_t batch = side_batch(cx, side, window, count);
    const size_t others = other ? side_batch(cx, other, window, count) : batch;
    batch = others < batch ? others : batch;
    uint64_t all = side_bytes(side, batch, window), work = work_bytes(cx, side, batch, window);
    if (other) {
        const uint64_t its = work_bytes(cx, other, batch, window);
        all += side_bytes(other, batch, window);
        work = its > work ? its : work;
    }
    return all + work + count * (sizeof(double) + (other ? 2 * sizeof(double) + 1 : 0));
}

/* Where the baseline's logits are brought to, if it runs elsewhere. */
static pare_status take_bridge(evaluation *e)
{
    const pare_ops *const o = &e->side[0].state;
    if (o->backend.place == e->side[1].state.backend.place)
        return PARE_OK;
    e->host = pare_arena_take_raw(e->arena, e->logits_rows, e->vocab * sizeof *e->host);
    return e->host ? o->op->take(o, e->logits_rows, e->vocab, &e->brought) : PARE_ENOMEM;
}

/* Memory of all sides, the baseline's last. */
static pare_status take_all(evaluation *e)
{
    const pare_batch widest = {e->batch, e->window, 0};
    size_t most = 0, positions = e->window - 1;
    for (size_t w = 1; w < e->windows; w++)
        positions += e->window - first_scored(e, w);
    for (size_t i = 0; i < e->sides; i++) {
        const pare_forward *const f = e->side[i].f;
        const size_t bytes = pare__eval_scratch(e->cx, &f->model->config, widest, e->side[i].rows,
                                                pare_model_inputs(f->model));
        most = bytes > most ? bytes : most;
    }
    PARE_TRY(pare_arena_init(e->cx, &e->work, most));
    PARE_TRY(take_side(e, &e->side[0]));
    e->nll = PARE_NEW(e->arena, double, positions);
    if (!e->nll || e->sides < 2)
        return e->nll ? PARE_OK : PARE_ENOMEM;
    const size_t before = e->cx->live_bytes;
    PARE_TRY(take_side(e, &e->side[1]));
    PARE_TRY(take_bridge(e));
    e->base_nll = PARE_NEW(e->arena, double, positions);
    e->kl = PARE_NEW(e->arena, double, positions);
    e->same = PARE_NEW(e->arena, unsigned char, positions);
    e->baseline_bytes = e->cx->live_bytes - before;
    return e->base_nll && e->kl && e->same ? PARE_OK : PARE_ENOMEM;
}

/* The first window of a process, and its first scored position; of the number of processes: the
 * ends. */
static size_t window_of(const evaluation *e, size_t rank)
{
    const size_t size = e->shared ? pare_world_size(e->cx) : 1;
    return e->windows / size * rank + e->windows % size * rank / size;
}

static size_t position_of(const evaluation *e, size_t window)
{
    return window == 0 ? 0 : e->window - 1 + (window - 1) * (e->window - first_scored(e, 1));
}

static pare_status run_all(evaluation *e)
{
    const size_t rank = e->shared ? pare_world_rank(e->cx) : 0;
    const size_t first = window_of(e, rank), end = window_of(e, rank + 1);
    e->scored = position_of(e, first);
    pare_ctx_progress(e->cx, "scoring windows", 0, (double)(end - first));
    for (size_t w = first; w < end; w += e->batch) {
        const size_t count = end - w < e->batch ? end - w : e->batch;
        PARE_TRY(run_batch(e, w, count));
        pare_ctx_progress(e->cx, "scoring windows", (double)(w - first + count) * (double)e->window,
                          (double)(end - first) * (double)e->window);
    }
    return PARE_OK;
}

/* Process 0 gets what the others scored. */
static void join_scores(evaluation *e)
{
    pare_ctx *const cx = e->cx;
    void *const part[] = {e->nll, e->base_nll, e->kl, e->same};
    const size_t bytes[] = {sizeof *e->nll, sizeof *e->base_nll, sizeof *e->kl, sizeof *e->same};
    const size_t own = pare_world_rank(cx);
    for (size_t r = 1; r < pare_world_size(cx); r++) {
        const size_t first = position_of(e, window_of(e, r));
        const size_t count = position_of(e, window_of(e, r + 1)) - first;
        for (size_t i = 0; i < (e->sides < 2 ? 1 : sizeof part / sizeof *part); i++) {
            unsigned char *const at = (unsigned char *)part[i] + first * bytes[i];
            if (own == 0)
                pare_world_receive(cx, r, at, count * bytes[i]);
            else if (own == r)
                pare_world_send(cx, 0, at, count * bytes[i]);
        }
    }
    e->scored = position_of(e, e->windows);
}

static pare_status evaluate(evaluation *e, pare_eval_result *out)
{
    pare_status s = take_all(e);
    if (s == PARE_OK)
        s = run_all(e);
    if (e->shared) {
        PARE_TRY(pare_world_agree(e->cx, s));
        join_scores(e);
        return pare_world_rank(e->cx) > 0 ? PARE_OK : summarize(e, out);
    }
    if (s != PARE_OK && (s != PARE_EINTERRUPTED || e->scored == 0))
        return s;
    const pare_status summed = summarize(e, out);
    return s == PARE_OK ? summed : s; /* an interrupt stays one */
}

/* What the sides take of their backends is given back. */
static pare_status on_backends(evaluation *e, pare_eval_result *out)
{
    for (size_t i = 0; i < e->sides; i++)
        PARE_TRY(e->side[i].state.op->mark(&e->side[i].state, &e->side[i].start));
    pare_status s = evaluate(e, out);
    for (size_t i = e->sides; i-- > 0;) {
        const pare_status back = e->side[i].state.op->rewind(&e->side[i].state, e->side[i].start);
        s = s == PARE_OK ? back : s;
    }
    return s;
}

static pare_status check(pare_ctx *cx, const pare_forward *f, const pare_eval_opts *opts,
                         const int32_t *tokens, size_t count)
{
    const size_t context = f->model->config.context;
    const size_t limit = f->positions < context ? f->positions : context;
    if (opts->window < 2 || opts->window > limit)
        return pare_fail(cx, PARE_EINVAL, "a window of %zu tokens; this model takes 2 to %zu",
                         opts->window, limit);
    if (opts->stride >= opts->window)
        return pare_fail(cx, PARE_EINVAL, "a stride of %zu; windows of %zu take 1 to %zu",
                         opts->stride, opts->window, opts->window - 1);
    if (count < opts->window)
        return pare_fail(cx, PARE_EINVAL, "%zu tokens do not fill one window of %zu", count,
                         opts->window);
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= f->model->head.n)
            return pare_fail(cx, PARE_EINVAL, "token %zu is %d; this model knows 0 to %zu", i,
                             (int)tokens[i], f->model->head.n - 1);
    return PARE_OK;
}

pare_status pare_evaluate(pare_ctx *cx, const pare_forward *f, const pare_forward *baseline,
                          const pare_eval_opts *opts, const int32_t *tokens, size_t count,
                          pare_eval_result *out)
{
    *out = (pare_eval_result){0};
    PARE_TRY(check(cx, f, opts, tokens, count));
    if (baseline && baseline->model->head.n != f->model->head.n)
        return pare_fail(cx, PARE_EINVAL, "the baseline has %zu tokens in its vocabulary, not %zu",
                         baseline->model->head.n, f->model->head.n);
    if (baseline) {
        const pare_status s = check(cx, baseline, opts, tokens, count);
        if (s != PARE_OK)
            return pare_fail_context(cx, s, "baseline");
    }
    pare_arena arena = {.cx = cx};
    evaluation e = {.cx = cx, .arena = &arena, .work = {.cx = cx}, .tokens = tokens};
    e.window = opts->window;
    e.name[0] = opts->model ? opts->model : "the model";
    e.name[1] = opts->baseline ? opts->baseline : "the baseline";
    e.stream = opts->stride ? NULL : opts->stream;
    e.shared = opts->shared && pare_world_size(cx) > 1;
    e.step = opts->stride ? opts->stride : opts->window;
    e.windows = (count - e.window) / e.step + 1;
    e.vocab = f->model->head.n;
    e.logits_rows = pare__eval_logits(e.vocab);
    e.sides = baseline ? 2 : 1;
    e.batch = e.windows;
    for (size_t i = 0; i < e.sides; i++) {
        judged *const j = &e.side[i];
        j->f = i ? baseline : f;
        j->rows = pare__eval_rows(cx, &j->f->model->config);
        const size_t batch = batch_of(j->rows, e.window);
        e.batch = batch < e.batch ? batch : e.batch;
        j->state = pare_ops_of(cx, &arena, j->f);
        j->work = pare_ops_of(cx, &e.work, j->f);
    }
    const pare_status s = on_backends(&e, out);
    pare_arena_release(&e.work);
    pare_arena_release(&arena);
    return s;
}
