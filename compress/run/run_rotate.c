/* The rotated model outside its blocks: the start of the wave, and the tensors of the artifact. */
#include <math.h>
#include <string.h>

#include "compress/plan/plan_rotate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_rotate.h"
#include "runtime/linear.h"

/* Rounds floats to what a tensor of `dtype` stores, `stored` being room for it. */
static pare_status store(pare_run *run, pare_dtype dtype, const float *x, size_t count,
                         void *stored)
{
    const float most = dtype == PARE_F16 ? 65519.0f : 3.4e38f;
    for (size_t i = 0; i < count; i++)
        if (!(fabsf(x[i]) <= most))
            return pare_fail(run->cx, PARE_ENUMERIC, "a rotated weight of %g is too large for %s",
                             (double)x[i], pare_dtype_name(dtype));
    return pare_f32_to_dtype(run->cx, dtype, x, count, stored);
}

/* What stands in the artifact's embedding, read back: the wave begins with what is stored. */
static pare_status change(void *self, float *x, size_t rows)
{
    pare_run *const run = self;
    const pare_linear *const embed = &run->model.embed;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const uint64_t count = (uint64_t)rows * embed->k;
    pare_tensor t = {.name = "embedding", .dtype = embed->dtype, .rank = 1, .shape = {count}};
    pare_status s = pare_tensor_bytes(t.dtype, t.rank, t.shape, &t.bytes);
    void *const stored = s == PARE_OK ? pare_arena_take(&run->scratch, (size_t)t.bytes, 1) : NULL;
    t.data = stored;
    pare_rotation_stream(run->cx, run->plan->rotation, x, rows);
    s = stored ? store(run, t.dtype, x, (size_t)count, stored) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_tensor_to_f32(run->cx, &t, 0, count, x);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

pare_status pare__rotate_wave(pare_run *run, pare_wave *wave)
{
    return run->plan->rotation ? pare_wave_change(run->cx, &run->scratch, wave, change, run)
                               : PARE_OK;
}

float *pare__rotate_norm(pare_run *run)
{
    const size_t hidden = run->plan->out.hidden;
    const double shrunk = (double)run->model.config.hidden / (double)hidden;
    float *const ones = PARE_NEW(&run->scratch, float, hidden);
    for (size_t i = 0; ones && i < hidden; i++)
        ones[i] = (float)sqrt(shrunk);
    return ones;
}

static pare_status put_ones(pare_run *run, const pare_packed_entry *e, pare_xxh3_state *hash)
{
    const size_t hidden = run->plan->out.hidden;
    const float *const ones = pare__rotate_norm(run);
    void *const stored = pare_arena_take(&run->scratch, (size_t)e->tensor.bytes, 1);
    if (!ones || !stored)
        return PARE_ENOMEM;
    PARE_TRY(pare_f32_to_dtype(run->cx, e->tensor.dtype, ones, hidden, stored));
    pare_xxh3_add(hash, stored, (size_t)e->tensor.bytes);
    return pare_packed_put(run->cx, run->writer, e, stored);
}

void pare__rotate_rows(pare_run *run, bool head, size_t first, size_t rows, float *x)
{
    const pare_model *const m = &run->model;
    pare_linear part = head ? m->head : m->embed;
    part.n = rows;
    part.data = (const char *)part.data + first * (part.k * pare_dtype_bits(part.dtype) / 8);
    pare_linear_to_f32(run->cx, &part, x);
    if (!run->plan->rotation) {
        if (head)
            pare_slicegpt_fold(m->norm, part.k, x, rows);
        return;
    }
    if (head)
        pare_rotation_reader(run->cx, run->plan->rotation, m->norm, x, rows);
    else
        pare_rotation_stream(run->cx, run->plan->rotation, x, rows);
}

/* Rows of the embedding, or of a head that reads the stream behind the last norm. */
static pare_status put_rows(pare_run *run, const pare_packed_entry *e, bool head,
                            pare_xxh3_state *hash)
{
    const pare_model *const m = &run->model;
    const pare_linear *const w = head ? &m->head : &m->embed;
    const size_t most = pare__rotate_rows_at_once(w->n, w->k, PARE__ROTATE_FLOATS);
    const size_t width = run->plan->out.hidden;
    const size_t row = width * pare_dtype_bits(e->tensor.dtype) / 8;
    float *const x = PARE_NEW(&run->scratch, float, most * w->k);
    float *const cut = run->plan->rotation ? x : PARE_NEW(&run->scratch, float, most *width);
    void *const stored = pare_arena_take(&run->scratch, most, row);
    if (!x || !cut || !stored)
        return PARE_ENOMEM;
    for (size_t i = 0; i < w->n; i += most) {
        const size_t rows = w->n - i < most ? w->n - i : most;
        pare_ctx_progress(run->cx, head ? "rotating the head" : "rotating the embedding", (double)i,
                          (double)w->n);
        PARE_TRY(pare_ctx_interrupted(run->cx));
        pare__rotate_rows(run, head, i, rows, x);
        if (cut != x)
            pare_slicegpt_readers(run->cx, &run->slice, x, rows, cut);
        PARE_TRY(store(run, e->tensor.dtype, cut, rows * width, stored));
        pare_xxh3_add(hash, stored, rows * row);
        PARE_TRY(pare__run_put_part(run, e, i * row, rows * row, stored));
    }
    return PARE_OK;
}

pare_status pare__rotate_put(pare_run *run, const pare_packed_entry *e, uint8_t hash[16],
                             bool *done)
{
    const pare_rotated which = pare__plan_rotated(run->plan, e->tensor.name);
    *done = which != PARE_ROTATED_NOT;
    if (!*done)
        return PARE_OK;
    pare_xxh3_state state;
    pare_xxh3_begin(&state);
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = which == PARE_ROTATED_NORM
                              ? put_ones(run, e, &state)
                              : put_rows(run, e, which == PARE_ROTATED_HEAD, &state);
    pare_arena_rewind(&run->scratch, mark);
    pare_xxh3_end(&state, hash);
    return s == PARE_OK ? s : pare_fail_context(run->cx, s, "%s", e->tensor.name);
}
