/* Items whose contexts have the same number of tokens run as a group. In each block the contexts go
 * through first, then the choices continue copies of their caches, filled up with token 0 to one
 * length: what stands behind a token never changes it. The last token of a choice is only
 * predicted, so it does not run. */
#include "compress/evaluate/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/evaluate_internal.h"
#include "runtime/ops.h"
#include "runtime/threads.h"

enum {
    GROUP_TOKENS = 2048, /* of contexts, and of caches that choices continue */
    NAME_TEXT = 32
};

typedef struct quiz {
    pare_ctx *cx;
    pare_arena arena, work;
    pare_ops state, run; /* the backend over the arena, and over the scratch of passes */
    const pare_forward *f;
    const pare_choice_item *item;
    size_t rows, logits_rows;
    float *logits; /* [logits_rows, vocab] */
    double *lse;   /* [logits_rows] */
    size_t *best;  /* [logits_rows], first largest logit */
    size_t asked, right, right_norm;
} quiz;

/* One choice of a group. */
typedef struct branch {
    size_t item, choice, context; /* number in the list, of the choice, in the group */
} branch;

/* A logit to be read: what a row of x says about a token. */
typedef struct wanted {
    size_t row, branch;
    int32_t token;
} wanted;

typedef struct group {
    const size_t *member; /* [contexts] numbers of items */
    size_t contexts, length, branches;
    size_t width, together; /* tokens that a choice runs, choices that run at a time */
    branch *branch;
    double *sum;  /* [branches] */
    bool *greedy; /* [branches] every token so far was the most likely one */
    pare_array x; /* [contexts * length + branches * width, hidden] */
    pare_kv context_kv, kv;
} group;

/* "line 3", or "item 2": how messages name one. Returns text. */
static const char *name_of(const pare_choice_item *item, size_t number, char text[NAME_TEXT])
{
    (void)snprintf(text, NAME_TEXT, "%s %zu", item->line ? "line" : "item",
                   item->line ? item->line : number);
    return text;
}

static pare_status check(const quiz *q, size_t number)
{
    char name[NAME_TEXT];
    const pare_choice_item *const item = &q->item[number];
    const size_t context = q->f->model->config.context;
    const size_t limit = q->f->positions < context ? q->f->positions : context;
    if (item->context_count == 0 || item->choices == 0 || item->answer >= item->choices)
        return pare_fail(q->cx, PARE_EINVAL, "%s: %zu context tokens, %zu choices, answer %zu",
                         name_of(item, number, name), item->context_count, item->choices,
                         item->answer);
    for (size_t i = 0; i < item->choices; i++) {
        if (item->choice_count[i] == 0 || item->choice_bytes[i] == 0)
            return pare_fail(q->cx, PARE_EINVAL, "%s: choice %zu is empty",
                             name_of(item, number, name), i);
        if (item->context_count > limit || item->choice_count[i] - 1 > limit - item->context_count)
            return pare_fail(q->cx, PARE_EINVAL,
                             "%s: choice %zu needs %zu + %zu tokens, this model takes %zu",
                             name_of(item, number, name), i, item->context_count,
                             item->choice_count[i] - 1, limit);
    }
    return PARE_OK;
}

/* Tokens that the longest choice of an item runs. */
static size_t width_of(const pare_choice_item *item)
{
    size_t most = 1;
    for (size_t i = 0; i < item->choices; i++)
        most = item->choice_count[i] > most ? item->choice_count[i] : most;
    return most - 1;
}

static pare_status take_group(quiz *q, group *g)
{
    const pare_config *const c = &q->f->model->config;
    g->length = q->item[g->member[0]].context_count;
    for (size_t i = 0; i < g->contexts; i++) {
        const size_t width = width_of(&q->item[g->member[i]]);
        g->width = width > g->width ? width : g->width;
        g->branches += q->item[g->member[i]].choices;
    }
    const size_t capacity = g->length + g->width;
    const size_t rows = g->contexts * g->length + g->branches * g->width;
    g->together = capacity < GROUP_TOKENS ? GROUP_TOKENS / capacity : 1;
    if (g->width && g->together > q->rows / g->width)
        g->together = q->rows > g->width ? q->rows / g->width : 1;
    g->together = g->together < g->branches ? g->together : g->branches;
    g->branch = PARE_NEW(&q->arena, branch, g->branches);
    g->sum = PARE_NEW(&q->arena, double, g->branches);
    g->greedy = PARE_NEW(&q->arena, bool, g->branches);
    if (!g->branch || !g->sum || !g->greedy)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g->branches; i++)
        g->greedy[i] = true;
    const pare_ops *const o = &q->state;
    const pare_kv_format *const format = &q->f->model->kv;
    PARE_TRY(o->op->take(o, rows, c->hidden, &g->x));
    PARE_TRY(o->op->kv_take(o, c, format, g->contexts, capacity, &g->context_kv));
    PARE_TRY(o->op->kv_take(o, c, format, g->width ? g->together : 0, capacity, &g->kv));
    for (size_t i = 0, at = 0; i < g->contexts; i++)
        for (size_t j = 0; j < q->item[g->member[i]].choices; j++)
            g->branch[at++] = (branch){g->member[i], j, i};
    return PARE_OK;
}

/* Of choices [first, first + count). */
static pare_array branch_rows(const group *g, size_t first, size_t count)
{
    return pare_array_rows(g->x, g->contexts * g->length + first * g->width, count * g->width);
}

static pare_status embed(quiz *q, const group *g)
{
    const pare_model *const m = q->f->model;
    int32_t *const row = PARE_NEW(&q->arena, int32_t, g->width);
    if (!row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g->contexts; i++)
        PARE_TRY(pare_embed_run(&q->run, m, q->item[g->member[i]].context,
                                (pare_batch){1, g->length, 0},
                                pare_array_rows(g->x, i * g->length, g->length)));
    for (size_t i = 0; i < g->branches; i++) {
        const branch *const b = &g->branch[i];
        const size_t count = q->item[b->item].choice_count[b->choice] - 1;
        memset(row, 0, g->width * sizeof *row);
        memcpy(row, q->item[b->item].choice[b->choice], count * sizeof *row);
        PARE_TRY(pare_embed_run(&q->run, m, row, (pare_batch){1, g->width, g->length},
                                branch_rows(g, i, 1)));
    }
    return PARE_OK;
}

/* Choices [first, first + count) through one block, behind copies of their contexts. */
static pare_status run_branches(quiz *q, group *g, size_t block, size_t first, size_t count)
{
    const pare_model *const m = q->f->model;
    const pare_batch batch = {count, g->width, g->length};
    pare_array behind; /* the rows themselves */
    for (size_t i = 0; i < count; i++)
        PARE_TRY(q->run.op->kv_copy(&q->run, &m->config, &g->context_kv,
                                    g->branch[first + i].context, &g->kv, i));
    return pare_block_run(&q->run, q->f, &m->block[block], batch, branch_rows(g, first, count),
                          &g->kv, NULL, &behind);
}

static pare_status run_group(quiz *q, group *g)
{
    const pare_batch contexts = {g->contexts, g->length, 0};
    const pare_array x = pare_array_rows(g->x, 0, g->contexts * g->length);
    PARE_TRY(embed(q, g));
    for (size_t b = 0; b < q->f->model->config.blocks; b++) {
        PARE_TRY(pare__eval_block(&q->run, q->f, b, contexts, q->rows, x, &g->context_kv));
        for (size_t i = 0; g->width && i < g->branches; i += g->together) {
            const size_t left = g->branches - i;
            PARE_TRY(run_branches(q, g, b, i, left < g->together ? left : g->together));
        }
    }
    return PARE_OK;
}

static void sum_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const quiz *const q = arg;
    const size_t vocab = q->f->model->head.n;
    for (size_t i = begin; i < end; i++) {
        q->lse[i] = pare_logsumexp(&q->cx->kernels, q->logits + i * vocab, vocab);
        q->best[i] = pare_argmax(q->logits + i * vocab, vocab);
    }
}

/* The same where logits lie elsewhere and stay there: a row for each entry. */
static pare_status read_scores(quiz *q, const group *g, const wanted *w, size_t count)
{
    const pare_ops *const o = &q->run;
    const pare_array none = {0};
    size_t row[PARE__LOGITS_ROWS];
    int32_t token[PARE__LOGITS_ROWS];
    pare_score score[PARE__LOGITS_ROWS];
    pare_array logits;
    pare_mark mark;
    for (size_t i = 0; i < count; i++) {
        row[i] = w[i].row;
        token[i] = w[i].token;
    }
    PARE_TRY(o->op->mark(o, &mark));
    PARE_TRY(o->op->take(o, count, q->f->model->head.n, &logits));
    PARE_TRY(pare_logits_run(o, q->f, g->x, row, logits));
    PARE_TRY(o->op->score(o, logits, none, token, score));
    for (size_t i = 0; i < count; i++) {
        g->sum[w[i].branch] -= score[i].nll;
        g->greedy[w[i].branch] &= score[i].best == (size_t)token[i];
    }
    return o->op->rewind(o, mark);
}

/* Reads the logits of w [count]; entries of one row stand together, those of a branch in the order
 * of its tokens. */
static pare_status read_logits(quiz *q, const group *g, const wanted *w, size_t count)
{
    for (size_t i = 0, n; q->run.backend.place && i < count; i += n) {
        n = count - i < q->logits_rows ? count - i : q->logits_rows;
        PARE_TRY(read_scores(q, g, w + i, n));
    }
    if (q->run.backend.place)
        return PARE_OK;
    const size_t vocab = q->f->model->head.n;
    size_t row[PARE__LOGITS_ROWS];
    for (size_t i = 0, end = 0; i < count; i = end) {
        size_t rows = 0;
        for (; end < count; end++) {
            if (end > i && w[end].row == w[end - 1].row)
                continue;
            if (rows == q->logits_rows)
                break;
            row[rows++] = w[end].row;
        }
        PARE_TRY(pare_logits_get(&q->run, q->f, g->x, row, rows, q->logits));
        pare_parallel(q->cx, rows, 1, sum_rows, q);
        for (size_t j = i, r = 0; j < end; j++) {
            r += j > i && w[j].row != w[j - 1].row;
            g->sum[w[j].branch] += (double)q->logits[r * vocab + (size_t)w[j].token] - q->lse[r];
            g->greedy[w[j].branch] &= q->best[r] == (size_t)w[j].token;
        }
    }
    return PARE_OK;
}

/* The first token of a choice is predicted by its context. */
static pare_status add_up(quiz *q, const group *g)
{
    size_t count = 0, at = 0;
    for (size_t i = 0; i < g->branches; i++)
        count += q->item[g->branch[i].item].choice_count[g->branch[i].choice];
    wanted *const w = PARE_NEW(&q->arena, wanted, count);
    if (!w)
        return PARE_ENOMEM;
    for (size_t i = 0; i < g->branches; i++) {
        const branch *const b = &g->branch[i];
        w[at++] =
            (wanted){(b->context + 1) * g->length - 1, i, q->item[b->item].choice[b->choice][0]};
    }
    for (size_t i = 0; i < g->branches; i++) {
        const pare_choice_item *const item = &q->item[g->branch[i].item];
        const size_t c = g->branch[i].choice, first = g->contexts * g->length + i * g->width;
        for (size_t t = 1; t < item->choice_count[c]; t++)
            w[at++] = (wanted){first + t - 1, i, item->choice[c][t]};
    }
    return read_logits(q, g, w, count);
}

/* The best of the choices whose sums these are; `bytes` NULL or what each is divided by. */
static size_t best_of(const double *sum, const size_t *bytes, size_t count)
{
    size_t best = 0;
    for (size_t i = 1; i < count; i++)
        if (bytes ? sum[i] / (double)bytes[i] > sum[best] / (double)bytes[best]
                  : sum[i] > sum[best])
            best = i;
    return best;
}

static pare_status judge(quiz *q, const group *g)
{
    char name[NAME_TEXT];
    for (size_t i = 0, at = 0; i < g->contexts; i++) {
        const size_t number = g->member[i];
        const pare_choice_item *const item = &q->item[number];
        const double *const sum = g->sum + at;
        const bool *const greedy = g->greedy + at;
        at += item->choices;
        for (size_t c = 0; c < item->choices; c++)
            if (!isfinite(sum[c]))
                return pare_fail(q->cx, PARE_ENUMERIC, "%s: logits of a choice are not finite",
                                 name_of(item, number, name));
        for (size_t c = 0; item->score && c < item->choices; c++)
            item->score[c] = sum[c];
        for (size_t c = 0; item->greedy && c < item->choices; c++)
            item->greedy[c] = greedy[c];
        const bool right = best_of(sum, NULL, item->choices) == item->answer;
        const bool right_norm = best_of(sum, item->choice_bytes, item->choices) == item->answer;
        if (item->verdict)
            *item->verdict = (unsigned char)(PARE_CHOICE_ASKED | (right ? PARE_CHOICE_RIGHT : 0) |
                                             (right_norm ? PARE_CHOICE_RIGHT_NORM : 0));
        q->right += right;
        q->right_norm += right_norm;
        q->asked++;
    }
    return PARE_OK;
}

static pare_status answer(quiz *q, group *g)
{
    pare_mark mark;
    PARE_TRY(q->state.op->mark(&q->state, &mark));
    PARE_TRY(take_group(q, g));
    PARE_TRY(run_group(q, g));
    PARE_TRY(add_up(q, g));
    PARE_TRY(judge(q, g));
    return q->state.op->rewind(&q->state, mark);
}

typedef struct place {
    size_t length, number;
} place;

static int shorter(const void *a, const void *b)
{
    const place *const p = a, *const r = b;
    if (p->length != r->length)
        return p->length < r->length ? -1 : 1;
    return (p->number > r->number) - (p->number < r->number);
}

/* Numbers of items, contexts of equal length together. */
static pare_status sort(quiz *q, size_t items, size_t **order)
{
    place *const p = PARE_NEW(&q->arena, place, items);
    *order = PARE_NEW(&q->arena, size_t, items);
    if (!p || !*order)
        return PARE_ENOMEM;
    for (size_t i = 0; i < items; i++)
        p[i] = (place){q->item[i].context_count, i};
    qsort(p, items, sizeof *p, shorter);
    for (size_t i = 0; i < items; i++)
        (*order)[i] = p[i].number;
    return PARE_OK;
}

/* How many of order [count] make the next group. */
static size_t group_of(const quiz *q, const size_t *order, size_t count)
{
    const size_t length = q->item[order[0]].context_count;
    size_t n = 0, branches = 0, width = 0;
    for (; n < count && q->item[order[n]].context_count == length; n++) {
        const pare_choice_item *const item = &q->item[order[n]];
        const size_t wider = width_of(item) > width ? width_of(item) : width;
        const size_t more = branches + item->choices;
        if (n > 0 && ((n + 1) * length > q->rows || (n + 1) * (length + wider) > GROUP_TOKENS ||
                      more * wider > GROUP_TOKENS))
            break;
        width = wider;
        branches = more;
    }
    return n;
}

/* Rows of logits, and scratch for the widest batch at the last position. */
static pare_status prepare(quiz *q, size_t items)
{
    const pare_config *const c = &q->f->model->config;
    size_t longest = 0, rows = pare__eval_rows(q->cx, c);
    q->rows = rows < GROUP_TOKENS ? rows : GROUP_TOKENS;
    rows = 1;
    for (size_t i = 0, sum = 0; i < items; i++) {
        PARE_TRY(check(q, i));
        const size_t width = width_of(&q->item[i]), length = q->item[i].context_count + width;
        longest = length > longest ? length : longest;
        sum += length + width * q->item[i].choices;
        const size_t least = sum < q->rows ? sum : q->rows, most = width > least ? width : least;
        rows = most > rows ? most : rows;
    }
    q->logits_rows = pare__eval_logits(q->f->model->head.n);
    q->logits = pare_arena_take(&q->arena, q->logits_rows, q->f->model->head.n * sizeof(float));
    q->lse = PARE_NEW(&q->arena, double, q->logits_rows);
    q->best = PARE_NEW(&q->arena, size_t, q->logits_rows);
    if (!q->logits || !q->lse || !q->best)
        return PARE_ENOMEM;
    const pare_batch widest = {1, rows, longest};
    return pare_arena_init(q->cx, &q->work, pare_block_forward_scratch(q->cx, c, widest));
}

static pare_status ask_all(quiz *q, size_t items)
{
    size_t *order;
    pare_ctx_progress(q->cx, "answering questions", 0, (double)items);
    PARE_TRY(prepare(q, items));
    PARE_TRY(sort(q, items, &order));
    for (size_t i = 0, n; i < items; i += n) {
        n = group_of(q, order + i, items - i);
        group g = {.member = order + i, .contexts = n};
        PARE_TRY(answer(q, &g));
        pare_ctx_progress(q->cx, "answering questions", (double)(i + n), (double)items);
    }
    return PARE_OK;
}

/* The sample deviation of n zeros and ones over sqrt(n). */
static double share_error(double share, size_t n)
{
    return n > 1 ? sqrt(share * (1 - share) / (double)(n - 1)) : NAN;
}

static pare_choice_result result_of(const quiz *q)
{
    const double n = (double)q->asked;
    pare_choice_result r = {.accuracy = (double)q->right / n,
                            .accuracy_norm = (double)q->right_norm / n,
                            .n = q->asked};
    r.accuracy_stderr = share_error(r.accuracy, r.n);
    r.accuracy_norm_stderr = share_error(r.accuracy_norm, r.n);
    return r;
}

/* What a group of more than one item may take, or all items, or one that is longer than that. */
static size_t most_of_group(size_t most, uint64_t all, size_t longest)
{
    const size_t several = all < most ? (size_t)all : most;
    return longest > several ? longest : several;
}

uint64_t pare_evaluate_choice_bytes(const pare_ctx *cx, const pare_eval_side *side, size_t items,
                                    uint64_t tokens, size_t longest)
{
    const pare_config *const c = side->config;
    const size_t item = longest < c->context ? longest : c->context;
    const size_t rows = most_of_group(2 * GROUP_TOKENS, tokens, longest);
    const size_t cached = most_of_group(GROUP_TOKENS, tokens, item);
    const size_t logits = pare__eval_logits(c->vocab), piece = pare__eval_rows(cx, c);
    const pare_batch widest = {1, piece < item ? item : piece, item};
    const uint64_t block = pare_block_forward_scratch(cx, c, widest);
    const uint64_t normed = (uint64_t)logits * c->hidden * sizeof(float);
    return rows * ((uint64_t)c->hidden * sizeof(float) + sizeof(wanted)) +
           pare_kv_bytes(c, side->kv, 2, cached) + (uint64_t)logits * c->vocab * sizeof(float) +
           items * (sizeof(place) + sizeof(size_t)) + (block > normed ? block : normed);
}

pare_status pare_evaluate_choice(pare_ctx *cx, const pare_forward *f, const pare_choice_item *item,
                                 size_t items, pare_choice_result *out)
{
    *out = (pare_choice_result){0};
    if (items == 0)
        return pare_fail(cx, PARE_EINVAL, "no multiple-choice items");
    quiz q = {.cx = cx, .arena = {.cx = cx}, .work = {.cx = cx}, .f = f, .item = item};
    q.state = pare_ops_of(cx, &q.arena, f);
    q.run = pare_ops_of(cx, &q.work, f);
    pare_mark mark;
    PARE_TRY(q.state.op->mark(&q.state, &mark));
    pare_status s = ask_all(&q, items);
    const pare_status back = q.state.op->rewind(&q.state, mark);
    s = s == PARE_OK ? back : s;
    if (s == PARE_OK || (s == PARE_EINTERRUPTED && q.asked))
        *out = result_of(&q);
    pare_arena_release(&q.work);
    pare_arena_release(&q.arena);
    return s;
}
