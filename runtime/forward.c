#include "runtime/forward.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "runtime/linear.h"
#include "runtime/ops.h"

/* Angular frequency of pair i, radians per position. Llama 3: wavelengths above
 * original_context / low_freq_factor are stretched by `factor`, those below
 * original_context / high_freq_factor are kept, and in between the two are mixed linearly. */
static double rope_frequency(const pare_rope *r, size_t i, size_t head_dim)
{
    const double pi = 3.14159265358979323846;
    const double plain = pow(r->theta, -2.0 * (double)i / (double)head_dim);
    if (!r->llama3)
        return plain;
    const double turns = (double)r->original_context * plain / (2 * pi);
    if (turns < r->low_freq_factor)
        return plain / r->factor;
    if (turns > r->high_freq_factor)
        return plain;
    const double keep = (turns - r->low_freq_factor) / (r->high_freq_factor - r->low_freq_factor);
    return (1 - keep) * plain / r->factor + keep * plain;
}

pare_status pare_forward_init(pare_ctx *cx, pare_arena *a, const pare_model *model,
                              size_t positions, bool exact, pare_forward *f)
{
    (void)cx;
    const pare_config *const c = &model->config;
    const size_t half = c->head_dim / 2;
    *f = (pare_forward){.model = model, .exact = exact, .positions = positions};
    float *const cosine = pare_arena_take(a, positions, half * sizeof *cosine);
    float *const sine = pare_arena_take(a, positions, half * sizeof *sine);
    if (!cosine || !sine)
        return PARE_ENOMEM;
    for (size_t i = 0; i < half; i++) {
        const double frequency = rope_frequency(&c->rope, i, c->head_dim);
        for (size_t p = 0; p < positions; p++) {
            cosine[p * half + i] = (float)cos((double)p * frequency);
            sine[p * half + i] = (float)sin((double)p * frequency);
        }
    }
    f->rope_cos = cosine;
    f->rope_sin = sine;
    return PARE_OK;
}

static void embed_row(const pare_kernels *kernels, const pare_linear *w, size_t row, float *x)
{
    const size_t first = row * w->k;
    if (w->dtype == PARE_F16)
        kernels->cvt_f16_f32(x, (const uint16_t *)w->data + first, w->k);
    else if (w->dtype == PARE_BF16)
        kernels->cvt_bf16_f32(x, (const uint16_t *)w->data + first, w->k);
    else
        memcpy(x, (const float *)w->data + first, w->k * sizeof *x);
}

pare_status pare_embed(pare_ctx *cx, const pare_model *m, const int32_t *tokens, size_t count,
                       float *x)
{
    for (size_t i = 0; i < count; i++)
        if (tokens[i] < 0 || (size_t)tokens[i] >= m->embed.n)
            return pare_fail(cx, PARE_EINVAL, "token %zu is %d; this model knows 0 to %zu", i,
                             (int)tokens[i], m->embed.n - 1);
    for (size_t i = 0; i < count; i++)
        embed_row(&cx->kernels, &m->embed, (size_t)tokens[i], x + i * m->embed.k);
    return PARE_OK;
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
        pare_rms_norm(normed + i * hidden, x + (rows ? rows[i] : i) * hidden, m->norm, hidden,
                      m->config.norm_eps);
    const pare_status s = pare_linear_apply(cx, scratch, &m->head, f->exact, normed, hidden, count,
                                            logits, m->head.n);
    pare_arena_rewind(scratch, mark);
    return s;
}
