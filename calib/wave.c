#include "calib/wave.h"

#include <string.h>

#include "calib/shares.h"
#include "runtime/block_ops.h"
#include "runtime/small.h"

enum { BATCH_TOKENS = 2048 };

size_t pare_wave_batch(size_t window)
{
    return window >= BATCH_TOKENS ? 1 : BATCH_TOKENS / window;
}

uint64_t pare_wave_bytes(size_t samples, size_t window, size_t hidden)
{
    uint64_t bytes;
    if (__builtin_mul_overflow((uint64_t)samples, window, &bytes) ||
        __builtin_mul_overflow(bytes, hidden * sizeof(float), &bytes))
        return UINT64_MAX;
    return bytes;
}

pare_status pare_wave_open_part(pare_ctx *cx, pare_arena *a, size_t samples, size_t first,
                                size_t end, size_t window, size_t hidden,
                                const char *spill_directory, pare_wave *wave)
{
    *wave = (pare_wave){.samples = samples,
                        .window = window,
                        .hidden = hidden,
                        .batch = pare_wave_batch(window),
                        .first = first,
                        .end = end};
    const uint64_t bytes = pare_wave_bytes(end - first, window, hidden);
    if (bytes > INT64_MAX)
        return pare_fail(cx, PARE_ENOMEM, "activations of %zu windows of %zu tokens", samples,
                         window);
    if (spill_directory)
        return pare_spill_open(cx, a, spill_directory, PARE_SPILL_WAVE, bytes, "activations",
                               &wave->file);
    wave->x = pare_arena_take(a, (size_t)bytes, 1);
    return wave->x ? PARE_OK : PARE_ENOMEM;
}

void pare_wave_close(pare_wave *wave)
{
    pare_spill_close(&wave->file);
}

/* The batch that starts at window `first`: a view in memory, or read into `buffer`. */
static pare_status fetch(pare_ctx *cx, const pare_wave *wave, size_t first, size_t count,
                         float *buffer, bool read, float **x)
{
    const size_t stride = wave->window * wave->hidden;
    *x = wave->x ? wave->x + (first - wave->first) * stride : buffer;
    if (wave->x || !read)
        return PARE_OK;
    return pare_spill_get(cx, &wave->file, buffer, count * stride,
                          (uint64_t)(first - wave->first) * stride);
}

static pare_status store(pare_ctx *cx, const pare_wave *wave, size_t first, size_t count,
                         const float *x)
{
    if (wave->x)
        return PARE_OK;
    const size_t stride = wave->window * wave->hidden;
    return pare_spill_put(cx, &wave->file, x, count * stride,
                          (uint64_t)(first - wave->first) * stride);
}

static size_t batch_at(const pare_wave *wave, size_t first)
{
    const size_t left = pare_share_end(wave->samples, first) - first;
    return left < wave->batch ? left : wave->batch;
}

pare_status pare_wave_embed(pare_ctx *cx, pare_arena *scratch, pare_wave *wave,
                            const pare_model *model, const int32_t *tokens)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t stride = wave->window * wave->hidden;
    float *const buffer = wave->x ? NULL : PARE_NEW(scratch, float, wave->batch *stride);
    pare_status s = wave->x || buffer ? PARE_OK : PARE_ENOMEM;
    for (size_t i = wave->first; s == PARE_OK && i < wave->end; i += batch_at(wave, i)) {
        const size_t count = batch_at(wave, i);
        float *x;
        s = fetch(cx, wave, i, count, buffer, false, &x);
        if (s == PARE_OK)
            s = pare_embed_batch(cx, model, tokens + i * wave->window,
                                 (pare_batch){count, wave->window, 0}, x);
        if (s == PARE_OK)
            s = store(cx, wave, i, count, x);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_wave_change(pare_ctx *cx, pare_arena *scratch, pare_wave *wave,
                             pare_status (*change)(void *self, float *x, size_t rows), void *self)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const buffer =
        wave->x ? NULL : PARE_NEW(scratch, float, wave->batch * wave->window * wave->hidden);
    pare_status s = wave->x || buffer ? PARE_OK : PARE_ENOMEM;
    for (size_t i = wave->first; s == PARE_OK && i < wave->end; i += batch_at(wave, i)) {
        const size_t count = batch_at(wave, i);
        float *x;
        s = fetch(cx, wave, i, count, buffer, true, &x);
        if (s == PARE_OK)
            s = change(self, x, count * wave->window);
        if (s == PARE_OK)
            s = store(cx, wave, i, count, x);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

static pare_status run_batch(pare_ctx *cx, pare_arena *scratch, pare_wave *wave, size_t first,
                             const pare_forward *f, const pare_block *block, const pare_tap *tap)
{
    const size_t count = batch_at(wave, first), stride = wave->window * wave->hidden;
    float *const buffer = wave->x ? NULL : PARE_NEW(scratch, float, count *stride);
    if (!wave->x && !buffer)
        return PARE_ENOMEM;
    float *x;
    PARE_TRY(fetch(cx, wave, first, count, buffer, true, &x));
    pare_kv kv;
    PARE_TRY(pare_kv_take(scratch, &f->model->config, count, wave->window, &kv));
    const pare_batch batch = {.sequences = count, .length = wave->window};
    PARE_TRY(pare_block_forward(cx, scratch, f, block, batch, x, &kv, tap));
    return tap && tap->last < PARE_SITES ? PARE_OK : store(cx, wave, first, count, x);
}

/* Tells the taps when the windows in front of `window` end a share. */
static void end_share(const pare_wave *wave, size_t window, const pare_wave_side *side,
                      size_t sides)
{
    if (window < pare_share_end(wave->samples, window - 1))
        return;
    for (size_t k = 0; k < sides; k++)
        if (side[k].tap && side[k].tap->share)
            side[k].tap->share(side[k].tap->self, window == wave->samples);
}

/* Every batch through one side after the other. */
static pare_status run_batches(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const pare_wave_side *side, size_t sides, const char *what)
{
    const pare_wave *const wave = side->wave;
    for (size_t i = wave->first; i < wave->end; i += batch_at(wave, i)) {
        pare_ctx_progress(cx, what, (double)(i - wave->first), (double)(wave->end - wave->first));
        PARE_TRY(pare_ctx_interrupted(cx));
        for (size_t k = 0; k < sides; k++) {
            const pare_mark mark = pare_arena_mark(scratch);
            const pare_status s =
                run_batch(cx, scratch, side[k].wave, i, f, side[k].block, side[k].tap);
            pare_arena_rewind(scratch, mark);
            PARE_TRY(s);
        }
        end_share(wave, i + batch_at(wave, i), side, sides);
    }
    return PARE_OK;
}

/* Windows of the largest batch. */
static size_t most_windows(const pare_wave *wave)
{
    return pare_smaller(wave->batch, pare_share_largest(wave->samples));
}

/* All batches run in the same memory. */
static pare_status run_sides(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                             const pare_wave_side *side, size_t sides, const char *what)
{
    const pare_wave *const wave = side->wave;
    const pare_mark mark = pare_arena_mark(scratch);
    pare_status s = pare_arena_reserve(
        scratch,
        pare_wave_scratch(cx, &f->model->config, most_windows(wave), wave->window,
                          (pare_wave_kind){f->backend == &pare_cpu_bf16, wave->stored, !wave->x}));
    if (s == PARE_OK)
        s = run_batches(cx, scratch, f, side, sides, what);
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_wave_run(pare_ctx *cx, pare_arena *scratch, pare_wave *wave, const pare_forward *f,
                          const pare_block *block, const pare_tap *tap, const char *what)
{
    return run_sides(cx, scratch, f, &(pare_wave_side){wave, block, tap}, 1, what);
}

pare_status pare_wave_run_both(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                               const pare_wave_side side[2], const char *what)
{
    return run_sides(cx, scratch, f, side, 2, what);
}

pare_status pare_wave_window(pare_ctx *cx, const pare_wave *wave, size_t window, float *x)
{
    float *at;
    PARE_TRY(fetch(cx, wave, window, 1, x, true, &at));
    if (at != x)
        memcpy(x, at, wave->window * wave->hidden * sizeof *x);
    return PARE_OK;
}

size_t pare_wave_scratch(const pare_ctx *cx, const pare_config *c, size_t windows, size_t window,
                         pare_wave_kind kind)
{
    const pare_inputs inputs = kind.bf16                   ? PARE_INPUTS_BF16
                               : c->experts || kind.stored ? PARE_INPUTS_ANY
                                                           : PARE_INPUTS_NONE;
    const pare_batch batch = {.sequences = windows, .length = window};
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const size_t read = kind.spilled ? windows * window * c->hidden * sizeof(float) : 0;
    return read + pare_kv_bytes(c, &floats, windows, window) +
           pare_block_forward_bytes(cx, c, batch, inputs);
}
