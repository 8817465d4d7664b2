#include "runtime/forward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/forward_internal.h"
#include "runtime/ops.h"

static pare_status check_positions(pare_ctx *cx, const pare_model *m, size_t positions)
{
    const size_t room = m->positions.n - m->config.arch->position_offset;
    if (positions <= room)
        return PARE_OK;
    return pare_fail(cx, PARE_EINVAL,
                     "%zu positions are asked for; this model has learned %zu and cannot go beyond",
                     positions, room);
}

/* For positions 0 .. rows - 1 of sequences of `length`. */
static void fill_table(const pare_rope *r, size_t half, size_t rows, size_t length, float *cosine,
                       float *sine)
{
    const double attention = r->attention > 0 ? r->attention : 1;
    for (size_t i = 0; i < half; i++) {
        const double frequency = pare_rope_frequency(r, i, half, length);
        for (size_t p = 0; p < rows; p++) {
            cosine[p * half + i] = (float)(cos((double)p * frequency) * attention);
            sine[p * half + i] = (float)(sin((double)p * frequency) * attention);
        }
    }
}

pare_status pare_forward_init(pare_ctx *cx, pare_arena *a, const pare_model *model,
                              size_t positions, bool exact, pare_forward *f)
{
    const pare_config *const c = &model->config;
    const size_t half = pare_rope_pairs(c);
    *f = (pare_forward){.model = model, .exact = exact, .positions = positions};
    if (half == 0)
        return check_positions(cx, model, positions);
    const size_t rows = pare_rope_table_rows(c, positions);
    const size_t near = pare_rope_rows(&c->rope, positions) - positions;
    float *const cosine = pare_arena_take(a, rows, half * sizeof *cosine);
    float *const sine = pare_arena_take(a, rows, half * sizeof *sine);
    if (!cosine || !sine)
        return PARE_ENOMEM;
    fill_table(&c->rope, half, near, near, cosine, sine);
    fill_table(&c->rope, half, positions, positions, cosine + near * half, sine + near * half);
    if (c->rope_local.theta > 0) {
        const size_t local = (near + positions) * half;
        fill_table(&c->rope_local, half, positions, positions, cosine + local, sine + local);
    }
    f->rope_cos = cosine;
    f->rope_sin = sine;
    return PARE_OK;
}

pare_status pare_embed_run(const pare_ops *o, const pare_model *m, const int32_t *tokens,
                           pare_batch batch, pare_array y)
{
    for (size_t i = 0; i < y.rows; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= m->embed.n)
            return pare_fail(o->cx, PARE_EINVAL, "token %zu is %d; this model knows 0 to %zu", i,
                             (int)tokens[i], m->embed.n - 1);
    if (m->positions.data)
        PARE_TRY(check_positions(o->cx, m, batch.start + batch.length));
    return o->op->embed(o, m, tokens, batch, y);
}

pare_status pare_embed_batch(pare_ctx *cx, const pare_model *m, const int32_t *tokens,
                             pare_batch batch, float *x)
{
    const pare_array y = {.at = x, .rows = batch.sequences * batch.length, .width = m->embed.k};
    return pare_embed_run(&(pare_ops){.op = pare_cpu.op, .cx = cx}, m, tokens, batch, y);
}

pare_status pare_embed(pare_ctx *cx, const pare_model *m, const int32_t *tokens, size_t count,
                       float *x)
{
    return pare_embed_batch(cx, m, tokens, (pare_batch){.sequences = 1, .length = count}, x);
}

pare_status pare_block_kv_take(const pare_ops *o, const pare_model *m, size_t block,
                               size_t sequences, size_t capacity, pare_kv *kv)
{
    pare_config own;
    pare_block_config(&m->config, block, &own);
    return o->op->kv_take(o, &own, &m->kv, sequences, capacity, kv);
}

pare_status pare_model_run(const pare_ops *o, const pare_forward *f, pare_batch batch, pare_array x,
                           pare_kv *kv, size_t kvs)
{
    const pare_model *const m = f->model;
    assert(kvs == m->config.blocks || (kvs == 1 && batch.start == 0));
    for (size_t i = 0; i < m->config.blocks; i++) {
        pare_array behind; /* x itself */
        PARE_TRY(pare_ctx_interrupted(o->cx));
        PARE_TRY(
            pare_block_run(o, f, &m->block[i], batch, x, &kv[kvs == 1 ? 0 : i], NULL, &behind));
    }
    return PARE_OK;
}

static pare_status model_of_host(const pare_ops *o, const pare_forward *f, pare_batch batch,
                                 size_t rows, float *x, pare_kv *kv, size_t kvs)
{
    pare_array stream;
    PARE_TRY(pare__from_host(o, x, rows, f->model->config.hidden, &stream));
    PARE_TRY(pare_model_run(o, f, batch, stream, kv, kvs));
    return pare__to_host(o, stream, x);
}

pare_status pare_model_forward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               pare_batch batch, float *x, pare_kv *kv, size_t kvs)
{
    const pare_ops o = pare_ops_of(cx, scratch, f);
    size_t rows;
    pare_mark mark;
    PARE_TRY(pare__rows_of(cx, batch, &rows));
    if (rows == 0)
        return PARE_OK;
    PARE_TRY(o.op->mark(&o, &mark));
    const pare_status s = model_of_host(&o, f, batch, rows, x, kv, kvs);
    PARE_TRY(o.op->rewind(&o, mark));
    return s;
}

pare_status pare_logits_run(const pare_ops *o, const pare_forward *f, pare_array x,
                            const size_t *rows, pare_array logits)
{
    const pare_model *const m = f->model;
    const pare_linear *const head = &m->head;
    const pare_norm_of last = {m->config.arch->norm_kind, m->norm, m->norm_bias, 1,
                               m->config.norm_eps};
    pare_array picked, normed;
    PARE_TRY(o->op->take(o, logits.rows, x.width, &picked));
    PARE_TRY(o->op->rows(o, rows, x, picked));
    PARE_TRY(pare__reuse(o, picked, x.width, &normed));
    PARE_TRY(o->op->norm(o, &last, picked, normed));
    PARE_TRY(o->op->linears(o, &head, 1, f->exact, normed, &logits));
    return m->config.logit_cap > 0 ? o->op->cap(o, m->config.logit_cap, logits) : PARE_OK;
}

static pare_status logits_for_host(const pare_ops *o, const pare_forward *f, pare_array x,
                                   const size_t *rows, size_t count, float *logits)
{
    pare_array out = {.at = logits, .rows = count, .width = f->model->head.n};
    if (o->backend.place)
        PARE_TRY(o->op->take(o, count, out.width, &out));
    PARE_TRY(pare_logits_run(o, f, x, rows, out));
    return pare__to_host(o, out, logits);
}

pare_status pare_logits_get(const pare_ops *o, const pare_forward *f, pare_array x,
                            const size_t *rows, size_t count, float *logits)
{
    pare_mark mark;
    PARE_TRY(o->op->mark(o, &mark));
    const pare_status s = logits_for_host(o, f, x, rows, count, logits);
    PARE_TRY(o->op->rewind(o, mark));
    return s;
}

static void take_largest(const float *logits, size_t vocab, int32_t *next)
{
    const size_t best = pare_argmax(logits, vocab);
    *next = isfinite(logits[best]) ? (int32_t)best : -1;
}

/* Where a score is not finite its logits tell why. */
static pare_status greedy(const pare_ops *o, const pare_forward *f, pare_array x,
                          const size_t *rows, size_t count, float *logits, int32_t *next)
{
    const size_t vocab = f->model->head.n;
    const pare_array none = {0};
    pare_array there;
    pare_score *const score = PARE_NEW(o->scratch, pare_score, count);
    if (!score)
        return PARE_ENOMEM;
    PARE_TRY(o->op->take(o, count, vocab, &there));
    PARE_TRY(pare_logits_run(o, f, x, rows, there));
    PARE_TRY(o->op->score(o, there, none, NULL, score));
    for (size_t i = 0; i < count; i++) {
        next[i] = (int32_t)score[i].best;
        if (isfinite(score[i].nll))
            continue;
        PARE_TRY(o->op->get(o, pare_array_rows(there, i, 1), logits));
        take_largest(logits, vocab, &next[i]);
    }
    return PARE_OK;
}

pare_status pare_greedy_get(const pare_ops *o, const pare_forward *f, pare_array x,
                            const size_t *rows, size_t count, float *logits, int32_t *next)
{
    const size_t vocab = f->model->head.n;
    pare_mark mark;
    if (!o->backend.place) {
        PARE_TRY(pare_logits_get(o, f, x, rows, count, logits));
        for (size_t i = 0; i < count; i++)
            take_largest(logits + i * vocab, vocab, &next[i]);
        return PARE_OK;
    }
    PARE_TRY(o->op->mark(o, &mark));
    const pare_status s = greedy(o, f, x, rows, count, logits, next);
    PARE_TRY(o->op->rewind(o, mark));
    return s;
}

/* Of x, rows up to the last one that is asked for. */
pare_status pare_logits(pare_ctx *cx, pare_arena *scratch, const pare_forward *f, const float *x,
                        const size_t *rows, size_t count, float *logits)
{
    const pare_ops o = pare_ops_of(cx, scratch, f);
    pare_array stream;
    pare_mark mark;
    size_t height = rows ? 0 : count;
    for (size_t i = 0; rows && i < count; i++)
        height = rows[i] < height ? height : rows[i] + 1;
    PARE_TRY(o.op->mark(&o, &mark));
    pare_status s = pare__from_host(&o, x, height, f->model->config.hidden, &stream);
    if (s == PARE_OK)
        s = pare_logits_get(&o, f, stream, rows, count, logits);
    PARE_TRY(o.op->rewind(&o, mark));
    return s;
}
