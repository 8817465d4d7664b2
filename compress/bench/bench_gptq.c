/* GPTQ of one matrix beside the textbook route of LAPACK. The two take turns, so that a change of
 * the machine's load meets both. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "quant/gptq.h"
#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { RUNS = 3, SEED = 1 };

typedef struct fill_call {
    float *x;
    uint64_t stream;
} fill_call;

static void fill_normal(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const fill_call *const c = arg;
    for (size_t i = begin; i < end; i++)
        c->x[i] = (float)pare_random_normal(SEED, c->stream, i);
}

static float *normal(pare_ctx *cx, pare_arena *a, size_t count, uint64_t stream)
{
    float *const x = PARE_NEW(a, float, count);
    fill_call c = {x, stream};
    if (x)
        pare_parallel(cx, count, 65536, fill_normal, &c);
    return x;
}

/* H = X^T X of 2k normal inputs. */
static float *hessian(pare_ctx *cx, pare_arena *a, size_t k)
{
    float *const h = PARE_NEW(a, float, k *k);
    const pare_mark mark = pare_arena_mark(a);
    float *const x = h ? normal(cx, a, 2 * k * k, 1) : NULL;
    if (x)
        pare_gram_add(cx, h, x, 2 * k, k);
    pare_arena_rewind(a, mark);
    return x ? h : NULL;
}

/* From W and H in memory to codes and scales; W is destroyed. */
static pare_status quantize(pare_ctx *cx, pare_arena *scratch, size_t k, float *w, float *h,
                            pare_codes *codes, double *seconds)
{
    const pare_factor_opts how = {.damp = 0.01f};
    const pare_gptq_opts opts = {.block = 128};
    const pare_grid grid = {.bits = 4, .group = 128, .symmetric = true, .f16_scales = true};
    pare_factor factor;
    const double start = pare_seconds();
    PARE_TRY(pare_factorize(cx, scratch, &how, h, k, &factor));
    PARE_TRY(pare_gptq_quantize(cx, scratch, &opts, &grid, &factor, w, codes, NULL));
    *seconds = pare_seconds() - start;
    return PARE_OK;
}

static pare_status run(pare_ctx *cx, pare_arena *a, const pare_bench_opts *opts, size_t k,
                       pare_bench_gptq *out)
{
    float *const h = hessian(cx, a, k), *const w = normal(cx, a, k * k, 2);
    float *const w_used = PARE_NEW(a, float, k *k);
    const pare_grid grid = {.bits = 4, .group = 128, .symmetric = true, .f16_scales = true};
    pare_codes codes;
    if (!h || !w || !w_used)
        return PARE_ENOMEM;
    PARE_TRY(pare_codes_take(a, &grid, k, k, &codes));
    char size[24];
    (void)snprintf(size, sizeof size, "%zu", k);
    const char *const args[] = {"solve", size, NULL};
    double ours[RUNS], theirs[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        PARE_TRY(pare_ctx_interrupted(cx));
        const pare_mark mark = pare_arena_mark(a);
        memcpy(w_used, w, k * k * sizeof *w);
        PARE_TRY(quantize(cx, a, k, w_used, h, &codes, &ours[i]));
        pare_arena_rewind(a, mark);
        theirs[i] = (double)NAN;
        if (opts->baseline)
            PARE_TRY(pare__bench_baseline(cx, args, &theirs[i]));
    }
    *out = (pare_bench_gptq){
        .measured = true, .n = k, .k = k, .group = grid.group, .threads = pare_threads(cx)};
    out->seconds = pare__bench_median(ours, RUNS);
    out->baseline_seconds = opts->baseline ? pare__bench_median(theirs, RUNS) : (double)NAN;
    out->time_ratio = out->seconds / out->baseline_seconds;
    return PARE_OK;
}

pare_status pare__bench_gptq(pare_ctx *cx, const pare_bench_opts *opts, pare_bench_gptq *out)
{
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s != PARE_OK)
        return s;
    s = run(cx, &a, opts, opts->quick ? 256 : 4096, out);
    pare_arena_release(&a);
    return s;
}
