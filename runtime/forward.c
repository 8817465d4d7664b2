#include "runtime/forward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/forward_internal.h"
#include "runtime/linear.h"
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

pare_status pare_forward_init(pare_ctx *cx, pare_arena *a, const pare_model *model,
                              size_t positions, bool exact, pare_forward *f)
{
    const pare_config *const c = &model->config;
    const size_t half = pare_rope_pairs(c);
    *f = (pare_forward){.model = model, .exact = exact, .positions = positions};
    if (half == 0)
        return check_positions(cx, model, positions);
    float *const cosine = pare_arena_take(a, positions, half * sizeof *cosine);
    float *const sine = pare_arena_take(a, positions, half * sizeof *sine);
    if (!cosine || !sine)
        return PARE_ENOMEM;
    for (size_t i = 0; i < half; i++) {
        const double frequency = pare_rope_frequency(&c->rope, i, half);
        for (size_t p = 0; p < positions; p++) {
            cosine[p * half + i] = (float)cos((double)p * frequency);
            sine[p * half + i] = (float)sin((double)p * frequency);
        }
    }
    f->rope_cos = cosine;
    f->rope_sin = sine;
    return PARE_OK;
}

/* Elements [first, first + count) of a dense matrix. */
static void fetch(const pare_kernels *kernels, const pare_linear *w, size_t first, size_t count,
                  float *x)
{
    if (w->dtype == PARE_F16)
        kernels->cvt_f16_f32(x, (const uint16_t *)w->data + first, count);
    else if (w->dtype == PARE_BF16)
        kernels->cvt_bf16_f32(x, (const uint16_t *)w->data + first, count);
    else
        memcpy(x, (const float *)w->data + first, count * sizeof *x);
}

/* x [hidden] += the learned position `position`. */
static void add_position(const pare_ctx *cx, const pare_model *m, size_t position, float *x)
{
    enum { PART = 256 };
    float part[PART];
    const size_t hidden = m->positions.k;
    const size_t first = (position + m->config.arch->position_offset) * hidden;
    for (size_t i = 0; i < hidden; i += PART) {
        const size_t count = hidden - i < PART ? hidden - i : PART;
        fetch(&cx->kernels, &m->positions, first + i, count, part);
        pare_add(x + i, part, count);
    }
}

static void scale(float *x, size_t n, float factor)
{
    for (size_t i = 0; i < n; i++)
        x[i] *= factor;
}

pare_status pare_embed_batch(pare_ctx *cx, const pare_model *m, const int32_t *tokens,
                             pare_batch batch, float *x)
{
    const size_t count = batch.sequences * batch.length, hidden = m->embed.k;
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= m->embed.n)
            return pare_fail(cx, PARE_EINVAL, "token %zu is %d; this model knows 0 to %zu", i,
                             (int)tokens[i], m->embed.n - 1);
    if (m->positions.data)
        PARE_TRY(check_positions(cx, m, batch.start + batch.length));
    for (size_t i = 0; i < count; i++) {
        float *const row = x + i * hidden;
        fetch(&cx->kernels, &m->embed, (size_t)tokens[i] * hidden, hidden, row);
        if (m->config.embed_scale > 0)
            scale(row, hidden, (float)m->config.embed_scale);
        if (m->positions.data)
            add_position(cx, m, batch.start + i % batch.length, row);
    }
    return PARE_OK;
}

pare_status pare_embed(pare_ctx *cx, const pare_model *m, const int32_t *tokens, size_t count,
                       float *x)
{
    return pare_embed_batch(cx, m, tokens, (pare_batch){.sequences = 1, .length = count}, x);
}

pare_status pare_model_forward(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               pare_batch batch, float *x, pare_kv *kv, size_t kvs)
{
    const pare_model *const m = f->model;
    assert(kvs == m->config.blocks || (kvs == 1 && batch.start == 0));
    for (size_t i = 0; i < m->config.blocks; i++) {
        PARE_TRY(pare_ctx_interrupted(cx));
        PARE_TRY(pare_block_forward(cx, scratch, f, &m->block[i], batch, x, &kv[kvs == 1 ? 0 : i],
                                    NULL));
    }
    return PARE_OK;
}

pare_status pare_logits(pare_ctx *cx, pare_arena *scratch, const pare_forward *f, const float *x,
                        const size_t *rows, size_t count, float *logits)
{
    const pare_model *const m = f->model;
    const size_t hidden = m->config.hidden;
    const pare_mark mark = pare_arena_mark(scratch);
    float *const normed = pare_arena_take(scratch, count, hidden * sizeof *normed);
    if (!normed)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        pare__norm(&m->config, normed + i * hidden, x + (rows ? rows[i] : i) * hidden, m->norm,
                   m->norm_bias);
    const pare_status s = pare_linear_apply(cx, scratch, &m->head, f->exact, normed, hidden, count,
                                            logits, m->head.n);
    if (m->config.logit_cap > 0)
        pare_soft_cap(logits, count * m->head.n, 1, m->config.logit_cap);
    pare_arena_rewind(scratch, mark);
    return s;
}
