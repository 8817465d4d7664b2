/* Choices of one item run as a batch of equally long sequences: shorter ones are filled up with
 * token 0 behind their end, which attention never looks back from. */
#include "compress/evaluate/evaluate.h"

#include <math.h>
#include <string.h>

#include "runtime/ops.h"

enum { BATCH_TOKENS = 2048, LOGITS_ROWS = 64 };

typedef struct quiz {
    pare_ctx *cx;
    pare_arena arena;
    const pare_forward *f;
    float *logits; /* [LOGITS_ROWS, vocab] */
} quiz;

static pare_status check(const quiz *q, const pare_choice_item *item, size_t number, size_t *length)
{
    const size_t context = q->f->model->config.context;
    const size_t limit = q->f->positions < context ? q->f->positions : context;
    *length = 0;
    if (item->context_count == 0 || item->choices == 0 || item->answer >= item->choices)
        return pare_fail(q->cx, PARE_EINVAL,
                         "item %zu: %zu context tokens, %zu choices, answer %zu", number,
                         item->context_count, item->choices, item->answer);
    for (size_t i = 0; i < item->choices; i++) {
        if (item->choice_count[i] == 0 || item->choice_bytes[i] == 0)
            return pare_fail(q->cx, PARE_EINVAL, "item %zu: choice %zu is empty", number, i);
        if (item->context_count > limit || item->choice_count[i] > limit - item->context_count)
            return pare_fail(q->cx, PARE_EINVAL,
                             "item %zu: choice %zu needs %zu + %zu tokens, this model takes %zu",
                             number, i, item->context_count, item->choice_count[i], limit);
        const size_t n = item->context_count + item->choice_count[i];
        *length = n > *length ? n : *length;
    }
    return PARE_OK;
}

/* Sum of the log-likelihoods of choice c, whose sequence starts at row `first` of x. */
static pare_status add_up(quiz *q, const pare_choice_item *item, size_t c, const float *x,
                          size_t first, double *sum)
{
    const size_t vocab = q->f->model->head.n, hidden = q->f->model->config.hidden;
    const size_t from = first + item->context_count - 1;
    *sum = 0;
    for (size_t i = 0; i < item->choice_count[c]; i += LOGITS_ROWS) {
        const size_t left = item->choice_count[c] - i;
        const size_t count = left < LOGITS_ROWS ? left : LOGITS_ROWS;
        PARE_TRY(
            pare_logits(q->cx, &q->arena, q->f, x + (from + i) * hidden, NULL, count, q->logits));
        for (size_t t = 0; t < count; t++) {
            const float *const row = q->logits + t * vocab;
            *sum += (double)row[item->choice[c][i + t]] - pare_logsumexp(row, vocab);
        }
    }
    return isfinite(*sum) ? PARE_OK
                          : pare_fail(q->cx, PARE_ENUMERIC, "logits of a choice are not finite");
}

/* Log-likelihoods of choices [first, first + count), sequences of `length` tokens. */
static pare_status run_choices(quiz *q, const pare_choice_item *item, size_t first, size_t count,
                               size_t length, double *sum)
{
    const pare_config *const c = &q->f->model->config;
    const pare_batch batch = {count, length, 0};
    int32_t *const tokens = PARE_NEW(&q->arena, int32_t, count * length);
    float *const x = pare_arena_take(&q->arena, count * length, c->hidden * sizeof *x);
    pare_kv kv;
    if (!tokens || !x)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        int32_t *const row = tokens + i * length;
        memcpy(row, item->context, item->context_count * sizeof *row);
        memcpy(row + item->context_count, item->choice[first + i],
               item->choice_count[first + i] * sizeof *row);
    }
    PARE_TRY(pare_kv_take_format(&q->arena, c, &q->f->model->kv, count, length, &kv));
    PARE_TRY(pare_embed(q->cx, q->f->model, tokens, count * length, x));
    PARE_TRY(pare_model_forward(q->cx, &q->arena, q->f, batch, x, &kv, 1));
    for (size_t i = 0; i < count; i++)
        PARE_TRY(add_up(q, item, first + i, x, i * length, &sum[first + i]));
    return PARE_OK;
}

static pare_status answer(quiz *q, const pare_choice_item *item, size_t number, bool *right,
                          bool *right_norm)
{
    size_t length, best = 0, best_norm = 0;
    PARE_TRY(check(q, item, number, &length));
    const pare_mark mark = pare_arena_mark(&q->arena);
    const size_t batch = length < BATCH_TOKENS ? BATCH_TOKENS / length : 1;
    double *const sum = PARE_NEW(&q->arena, double, item->choices);
    if (!sum)
        return PARE_ENOMEM;
    for (size_t i = 0; i < item->choices; i += batch) {
        const pare_mark inner = pare_arena_mark(&q->arena);
        const size_t left = item->choices - i, count = left < batch ? left : batch;
        PARE_TRY(run_choices(q, item, i, count, length, sum));
        pare_arena_rewind(&q->arena, inner);
    }
    for (size_t i = 1; i < item->choices; i++) {
        best = sum[i] > sum[best] ? i : best;
        const double a = sum[i] / (double)item->choice_bytes[i];
        best_norm = a > sum[best_norm] / (double)item->choice_bytes[best_norm] ? i : best_norm;
    }
    *right = best == item->answer;
    *right_norm = best_norm == item->answer;
    pare_arena_rewind(&q->arena, mark);
    return PARE_OK;
}

static pare_status ask_all(quiz *q, const pare_choice_item *item, size_t items,
                           pare_choice_result *out)
{
    size_t right = 0, right_norm = 0;
    q->logits = pare_arena_take(&q->arena, LOGITS_ROWS, q->f->model->head.n * sizeof(float));
    if (!q->logits)
        return PARE_ENOMEM;
    for (size_t i = 0; i < items; i++) {
        bool yes, yes_norm;
        const pare_status s = answer(q, &item[i], i, &yes, &yes_norm);
        if (s == PARE_ENUMERIC)
            return pare_fail_context(q->cx, s, "item %zu", i);
        PARE_TRY(s);
        right += yes;
        right_norm += yes_norm;
        pare_ctx_progress(q->cx, "choice", (double)(i + 1), (double)items);
    }
    out->n = items;
    out->accuracy = (double)right / (double)items;
    out->accuracy_norm = (double)right_norm / (double)items;
    return PARE_OK;
}

pare_status pare_evaluate_choice(pare_ctx *cx, const pare_forward *f, const pare_choice_item *item,
                                 size_t items, pare_choice_result *out)
{
    *out = (pare_choice_result){0};
    if (items == 0)
        return pare_fail(cx, PARE_EINVAL, "no multiple-choice items");
    quiz q = {.cx = cx, .arena = {.cx = cx}, .f = f};
    const pare_status s = ask_all(&q, item, items, out);
    pare_arena_release(&q.arena);
    return s;
}
