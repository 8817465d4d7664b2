#include "compress/evaluate/continuations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compress/evaluate/evaluate_internal.h"
#include "runtime/sample.h"
#include "runtime/small.h"

typedef struct continuing {
    pare_ctx *cx;
    pare_arena work; /* of one batch */
    const pare_forward *f[2];
    const pare_continue_opts *opts;
    const int32_t *tokens;
    size_t windows, prompts, prompt, length, batch, sides;
    int32_t *out[2]; /* [batch, length] */
    size_t first;    /* prompt of the batch that runs, and its model */
    size_t side;
    pare_continue_figures *figures;
} continuing;

size_t pare_continue_prompt(size_t window)
{
    const size_t half = window / 2;
    return half < PARE_CONTINUE_PROMPT ? half : PARE_CONTINUE_PROMPT;
}

/* Half of a batch is done with each model. */
static pare_status tell(void *self, size_t position)
{
    const continuing *const c = self;
    const size_t left = c->prompts - c->first, batch = left < c->batch ? left : c->batch;
    const double part = (double)(position + 1 - c->prompt) / (double)c->opts->most;
    pare_ctx_progress(c->cx, "continuing prompts",
                      (double)c->first +
                          (double)batch * ((double)c->side + part) / (double)c->sides,
                      (double)c->prompts);
    return PARE_OK;
}

static pare_status write_batch(continuing *c, size_t side, size_t batch)
{
    const pare_continue_opts *const o = c->opts;
    const size_t step = o->stride ? o->stride : o->window;
    const pare_generate_opts opts = {.temperature = o->temperature,
                                     .seed = o->seed,
                                     .first = c->first,
                                     .sequences = batch,
                                     .length = c->length,
                                     .stop_at_eos = true};
    const pare_mark mark = pare_arena_mark(&c->work);
    for (size_t i = 0; i < batch; i++)
        memcpy(c->out[side] + i * c->length,
               c->tokens + (c->first + i) * c->windows / c->prompts * step,
               c->prompt * sizeof *c->out[side]);
    c->side = side;
    const pare_status s =
        pare_generate(c->cx, &c->work, c->f[side], &opts, c->prompt, c->out[side], tell, c);
    pare_arena_rewind(&c->work, mark);
    return s == PARE_ENUMERIC
               ? pare_fail_context(c->cx, s, "continuations by the %s", side ? "baseline" : "model")
               : s;
}

static int by_gram(const void *a, const void *b)
{
    return memcmp(a, b, PARE_CONTINUE_GRAM * sizeof(int32_t));
}

/* 4-grams of text [length] without those that are the first of their kind; gram is scratch, 4 x
 * length. */
static size_t count_repeated(const int32_t *text, size_t length, int32_t *gram)
{
    const size_t n = length < PARE_CONTINUE_GRAM ? 0 : length - PARE_CONTINUE_GRAM + 1;
    size_t repeated = 0;
    for (size_t i = 0; i < n; i++)
        memcpy(gram + i * PARE_CONTINUE_GRAM, text + i, PARE_CONTINUE_GRAM * sizeof *gram);
    qsort(gram, n, PARE_CONTINUE_GRAM * sizeof *gram, by_gram);
    for (size_t i = 1; i < n; i++)
        repeated +=
            by_gram(gram + (i - 1) * PARE_CONTINUE_GRAM, gram + i * PARE_CONTINUE_GRAM) == 0;
    return repeated;
}

/* Adds up one continuation; returns its length. */
static size_t count_one(const continuing *c, size_t side, size_t i, int32_t *gram)
{
    pare_continue_figures *const f = &c->figures[side];
    const int32_t *const text = c->out[side] + i * c->length + c->prompt;
    const size_t most = c->opts->most;
    size_t length = 0;
    while (length < most && !pare_is_end(&c->f[side]->model->config, text[length]))
        length++;
    f->prompts++;
    f->length += length;
    f->endless += length == most;
    f->grams += length < PARE_CONTINUE_GRAM ? 0 : length - PARE_CONTINUE_GRAM + 1;
    f->repeated += count_repeated(text, length, gram);
    return length;
}

static pare_status count_batch(continuing *c, size_t batch)
{
    const pare_mark mark = pare_arena_mark(&c->work);
    const size_t most = c->opts->most;
    int32_t *const gram = pare_arena_take(&c->work, most, PARE_CONTINUE_GRAM * sizeof *gram);
    if (!gram)
        return PARE_ENOMEM;
    for (size_t i = 0; i < batch; i++) {
        const size_t length = count_one(c, 0, i, gram);
        if (c->sides < 2)
            continue;
        const size_t other = count_one(c, 1, i, gram);
        const int32_t *const x = c->out[0] + i * c->length + c->prompt;
        const int32_t *const y = c->out[1] + i * c->length + c->prompt;
        size_t same = 0;
        while (same < most && x[same] == y[same])
            same++;
        c->figures->length_apart += length > other ? length - other : other - length;
        c->figures->differ += same < most;
        c->figures->first_apart += same < most ? same : 0;
    }
    pare_arena_rewind(&c->work, mark);
    return PARE_OK;
}

/* Prompts at once: of the model whose caches are larger. */
static size_t batch_of(const continuing *c)
{
    size_t batch = c->prompts < PARE_CONTINUE_TOGETHER ? c->prompts : PARE_CONTINUE_TOGETHER;
    for (size_t i = 0; i < c->sides; i++)
        batch = pare__eval_together(&c->f[i]->model->config, &c->f[i]->model->kv, c->length, batch);
    return batch;
}

static pare_status run(continuing *c)
{
    for (size_t i = 0; i < c->sides; i++) {
        c->out[i] = pare_arena_take(&c->work, c->batch, c->length * sizeof *c->out[i]);
        if (!c->out[i])
            return PARE_ENOMEM;
    }
    pare_ctx_progress(c->cx, "continuing prompts", 0, (double)c->prompts);
    for (; c->first < c->prompts; c->first += c->batch) {
        const size_t left = c->prompts - c->first, batch = left < c->batch ? left : c->batch;
        for (size_t i = 0; i < c->sides; i++)
            PARE_TRY(write_batch(c, i, batch));
        PARE_TRY(count_batch(c, batch));
    }
    return PARE_OK;
}

pare_status pare_evaluate_continuations(pare_ctx *cx, const pare_forward *f,
                                        const pare_forward *baseline,
                                        const pare_continue_opts *opts, const int32_t *tokens,
                                        size_t count, pare_continue_figures out[2])
{
    const size_t step = opts->stride ? opts->stride : opts->window;
    for (size_t i = 0; i < 2; i++)
        out[i] = (pare_continue_figures){.opts = *opts, .has_baseline = !i && baseline};
    if (opts->window < 2 || count < opts->window || !opts->prompts || !opts->most)
        return pare_fail(cx, PARE_EINVAL, "%zu tokens for %zu prompts of windows of %zu", count,
                         opts->prompts, opts->window);
    const size_t windows = (count - opts->window) / step + 1;
    continuing c = {.cx = cx,
                    .work = {.cx = cx},
                    .f = {f, baseline},
                    .opts = opts,
                    .tokens = tokens,
                    .windows = windows,
                    .prompts = windows < opts->prompts ? windows : opts->prompts,
                    .prompt = pare_continue_prompt(opts->window),
                    .sides = baseline ? 2 : 1,
                    .figures = out};
    c.length = c.prompt + opts->most;
    c.batch = batch_of(&c);
    const pare_status s = run(&c);
    for (size_t i = 0; i < 2; i++)
        out[i].complete = s == PARE_OK;
    pare_arena_release(&c.work);
    return s;
}

uint64_t pare_continue_bytes(const pare_ctx *cx, const pare_eval_side *side,
                             const pare_continue_opts *opts)
{
    const pare_config *const c = side->config;
    const size_t prompt = pare_continue_prompt(opts->window), length = prompt + opts->most;
    const size_t n = pare__eval_together(c, side->kv, length,
                                         pare_smaller(opts->prompts, PARE_CONTINUE_TOGETHER));
    const uint64_t caches = (uint64_t)c->blocks * pare_kv_bytes(c, side->kv, n, length);
    const uint64_t rows = (uint64_t)n * (prompt + 2) * c->hidden + (uint64_t)n * c->vocab;
    const uint64_t tokens = (uint64_t)2 * n * length + (uint64_t)opts->most * PARE_CONTINUE_GRAM;
    const pare_batch first = {n, prompt, 0}, last = {n, 1, length - 1};
    const size_t a = pare_block_forward_scratch(cx, c, first),
                 b = pare_block_forward_scratch(cx, c, last);
    return caches + rows * sizeof(float) + tokens * sizeof(int32_t) + pare_larger(a, b);
}

static double ratio(size_t a, size_t b)
{
    return b ? (double)a / (double)b : NAN;
}

pare_continue_means pare_continue_means_of(const pare_continue_figures *f)
{
    return (pare_continue_means){.length = ratio(f->length, f->prompts),
                                 .endless = ratio(f->endless, f->prompts),
                                 .repeated = ratio(f->repeated, f->grams),
                                 .length_apart = ratio(f->length_apart, f->prompts),
                                 .same = ratio(f->prompts - f->differ, f->prompts),
                                 .first_apart = ratio(f->first_apart, f->differ)};
}

void pare_continue_put(pare_json_writer *w, const pare_continue_figures *f)
{
    const pare_continue_means m = pare_continue_means_of(f);
    pare_json_open_object(w, "continuations");
    pare_json_put_integer(w, "prompts", (int64_t)f->prompts);
    pare_json_put_integer(w, "prompt_tokens", (int64_t)pare_continue_prompt(f->opts.window));
    pare_json_put_integer(w, "most_tokens", (int64_t)f->opts.most);
    pare_json_put_number(w, "temperature", f->opts.temperature);
    pare_json_put_integer(w, "seed", (int64_t)f->opts.seed);
    if (!f->complete)
        pare_json_put_bool(w, "complete", false);
    pare_json_put_finite(w, "mean_length", m.length);
    pare_json_put_finite(w, "never_ended", m.endless);
    pare_json_put_finite(w, "repeated_4grams", m.repeated);
    if (f->has_baseline) {
        pare_json_put_finite(w, "length_difference", m.length_apart);
        pare_json_put_finite(w, "same", m.same);
        pare_json_put_finite(w, "first_difference", m.first_apart);
    }
    pare_json_close(w);
}
