#include "compress/evaluate/token_time.h"

#include <math.h>
#include <stdlib.h>

#include "compress/evaluate/evaluate.h"
#include "runtime/forward.h"
#include "runtime/linear.h"
#include "runtime/machine.h"
#include "runtime/random.h"
#include "runtime/small.h"

enum { RUNS = 7, PASSES_MAX = 4096, POSITIONS = 576 };

static const double run_seconds = 5e-3; /* least, of one that is timed */
static const double picoseconds = 1e12;

typedef struct bench {
    pare_ctx *cx;
    pare_arena *a;
    const pare_linear *w;
    size_t count;
    float *x, *y;
} bench;

static pare_status run_passes(const bench *m, size_t passes, double *seconds)
{
    const double start = pare_seconds();
    for (size_t p = 0; p < passes; p++)
        for (size_t i = 0; i < m->count; i++)
            PARE_TRY(pare_linear_apply(m->cx, m->a, &m->w[i], false, m->x, m->w[i].k, 1, m->y,
                                       m->w[i].n));
    *seconds = pare_seconds() - start;
    return PARE_OK;
}

static pare_status time_passes(const bench *m, uint64_t *ps)
{
    double one, run[RUNS];
    PARE_TRY(run_passes(m, 1, &one)); /* brings weights into memory */
    PARE_TRY(run_passes(m, 1, &one));
    const double want = run_seconds / fmax(one, 1e-9);
    const size_t passes = want < 1 ? 1 : want > PASSES_MAX ? PASSES_MAX : (size_t)ceil(want);
    for (size_t i = 0; i < RUNS; i++)
        PARE_TRY(run_passes(m, passes, &run[i]));
    qsort(run, RUNS, sizeof *run, pare_by_double);
    *ps = (uint64_t)(picoseconds * run[RUNS / 2] / (double)(passes * m->count)) + 1;
    return PARE_OK;
}

pare_status pare_time_linears(pare_ctx *cx, pare_arena *scratch, const pare_linear *w, size_t count,
                              uint64_t *ps)
{
    const pare_mark mark = pare_arena_mark(scratch);
    size_t n = 1, k = 1;
    for (size_t i = 0; i < count; i++) {
        n = pare_larger(n, w[i].n);
        k = pare_larger(k, w[i].k);
    }
    const bench m = {
        cx, scratch, w, count, PARE_NEW(scratch, float, k), PARE_NEW(scratch, float, n)};
    pare_status s = m.x && m.y ? PARE_OK : PARE_ENOMEM;
    for (size_t j = 0; s == PARE_OK && j < k; j++)
        m.x[j] = (float)pare_random_normal(0, 0, j);
    if (s == PARE_OK)
        s = time_passes(&m, ps);
    pare_arena_rewind(scratch, mark);
    return s;
}

uint64_t pare_time_at(double tokens_s)
{
    const double ps = picoseconds / tokens_s; /* infinite for a denormal */
    return ps < (double)INT64_MAX ? (uint64_t)ps : (uint64_t)INT64_MAX;
}

static size_t positions(const pare_config *c)
{
    return pare_smaller(POSITIONS, c->context);
}

pare_status pare_time_token(pare_ctx *cx, pare_arena *scratch, const pare_model *model,
                            uint64_t *ps)
{
    const pare_mark mark = pare_arena_mark(scratch);
    pare_forward f;
    pare_speed_result speed = {0};
    pare_status s = pare_forward_init(cx, scratch, model, positions(&model->config), false, &f);
    if (s == PARE_OK)
        s = pare_evaluate_speed(cx, &f, &speed);
    if (s == PARE_OK && !(speed.decode_tok_s > 0))
        s = pare_fail(cx, PARE_ENOTSUP, "a model with a context of one token decodes none");
    if (s == PARE_OK)
        *ps = (uint64_t)(picoseconds / speed.decode_tok_s) + 1;
    pare_arena_rewind(scratch, mark);
    return s;
}

uint64_t pare_time_token_bytes(const pare_ctx *cx, const pare_config *c)
{
    const size_t count = positions(c);
    const pare_batch widest = {1, count / 2 + 1, count / 2};
    const uint64_t cache = (uint64_t)2 * c->blocks * count * c->kv_heads * c->head_dim;
    const uint64_t rope = (uint64_t)2 * pare_rope_table_rows(c, count) * pare_rope_pairs(c);
    return (cache + rope + (uint64_t)count * c->hidden + c->vocab) * sizeof(float) +
           pare_block_forward_scratch(cx, c, widest);
}
