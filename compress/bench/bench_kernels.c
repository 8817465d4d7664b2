/* Products through the same path as every model's: pare_linear_apply over the pool. Passes over the
 * limits alternate with the runs of the products, so that a change of the machine's load meets
 * both: a run is held against the passes right before and after it. Limits that are shown are
 * medians of the whole bench. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/machine.h"
#include "runtime/threads.h"

#define FLOAT_INPUT .activation = {PARE_ACTIVATION_FLOAT, 0, 0}

#define F16_PRUNED .bits = 16, .encoding = PARE_ENCODING_F16, .dense = "f16", FLOAT_INPUT

/* What is measured: a way of storing weights with a way of quantizing their inputs. */
static const pare__bench_subject subjects[] = {
    {.name = "int4", .bits = 4, .group = 32},
    {.name = "int4", .bits = 4, .group = 128},
    {.name = "int4 2:4", .bits = 4, .group = 128, .sparsity = PARE_SPARSITY_2_4, .dense = "int4"},
    {.name = "int8", .bits = 8, .group = 128},
    {.name = "int8 2:4", .bits = 8, .group = 128, .sparsity = PARE_SPARSITY_2_4, .dense = "int8"},
    {.name = "w8a8", .bits = 8, .activation = {PARE_ACTIVATION_TOKEN, 8, 0}},
    {.name = "w8a8fix", .bits = 8, .activation = {PARE_ACTIVATION_TENSOR, 8, 0.01F}},
    {.name = "ternary",
     .bits = 2,
     .encoding = PARE_ENCODING_TERNARY,
     .activation = {PARE_ACTIVATION_TOKEN, 8, 0}},
    {.name = "w8+f16", .bits = 8, .group = 128, .outliers = 32, .f16_outliers = true},
    {.name = "w4a4+8",
     .bits = 4,
     .group = 128,
     .activation = {PARE_ACTIVATION_GROUP, 4, 0},
     .outliers = 128},
    {.name = "w4+sp", .bits = 4, .group = 128, .sparse = true},
    {.name = "nf4", .bits = 4, .group = 64, .encoding = PARE_ENCODING_NF4, FLOAT_INPUT},
    {.name = "mxfp4", .bits = 4, .group = 32, .encoding = PARE_ENCODING_MXFP4, FLOAT_INPUT},
    {.name = "nvfp4", .bits = 4, .group = 16, .encoding = PARE_ENCODING_NVFP4, FLOAT_INPUT},
    {.name = "q4_k", .bits = 4, .group = 256, .encoding = PARE_ENCODING_Q4_K, FLOAT_INPUT},
    {.name = "q6_k", .bits = 6, .group = 256, .encoding = PARE_ENCODING_Q6_K, FLOAT_INPUT},
    {.name = "exl3_2", .bits = 2, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.name = "exl3_4", .bits = 4, .encoding = PARE_ENCODING_EXL3, FLOAT_INPUT},
    {.name = "fp8", .bits = 8, .encoding = PARE_ENCODING_FP8, FLOAT_INPUT},
    {.name = "book3", .bits = 3, .encoding = PARE_ENCODING_CODEBOOK, FLOAT_INPUT},
    {.name = "book4+sp",
     .bits = 4,
     .encoding = PARE_ENCODING_CODEBOOK,
     FLOAT_INPUT,
     .sparse = true},
    {.name = "binary", .bits = 2, .group = 128, .encoding = PARE_ENCODING_BINARY, FLOAT_INPUT},
    {.name = "f16", .dtype = PARE_F16},
    {.name = "f16 2:4", F16_PRUNED, .sparsity = PARE_SPARSITY_2_4},
    {.name = "f16 mask", F16_PRUNED, .sparsity = PARE_SPARSITY_BITMASK},
    {.name = "bf16", .dtype = PARE_BF16},
    {.name = "bf16 bf16", .dtype = PARE_BF16, .bf16_inputs = true},
    {.name = "f32", .dtype = PARE_F32},
};

enum { SUBJECTS = sizeof subjects / sizeof *subjects };

/* Tokens of a step of decoding a batch: as many weights are read as for one. */
enum { FEW = 8 };

typedef struct sizes {
    size_t n, k, m; /* m: tokens of a prefill, more than FEW */
    size_t rotate;  /* bytes of weights that products of up to FEW tokens go through */
    size_t runs;
    bool quick;
} sizes;

static const sizes full = {4096, 4096, 512, (size_t)304 << 20, 7, false};
static const sizes quick = {256, 512, 16, (size_t)1 << 17, 3, true};

/* One subject in memory, and what one product needs. */
typedef struct bench {
    pare_ctx *cx;
    pare_arena arena, scratch;
    const pare__bench_subject *sub;
    const sizes *size;
    pare__bench_weights weights, dense; /* dense: beside pruned ones, else without copies */
    float *x, *y;
} bench;

static pare_status prepare(bench *b)
{
    const sizes *const size = b->size;
    b->x = pare_arena_take(&b->arena, size->m * size->k, sizeof *b->x);
    b->y = pare_arena_take(&b->arena, size->m * size->n, sizeof *b->y);
    if (!b->x || !b->y)
        return PARE_ENOMEM;
    for (size_t i = 0; i < size->m * size->k; i++)
        b->x[i] = (float)(i * 2654435761u >> 8 & 0xffffu) * 0x1p-16f - 0.5f;
    const size_t rotate = b->sub->dense ? size->rotate / 2 : size->rotate;
    for (size_t i = 0; b->sub->dense && i < SUBJECTS; i++)
        if (strcmp(subjects[i].name, b->sub->dense) == 0 && subjects[i].group == b->sub->group)
            PARE_TRY(pare__bench_weights_make(b->cx, &b->arena, &subjects[i], 0, size->n, size->k,
                                              rotate, &b->dense));
    return pare__bench_weights_make(b->cx, &b->arena, b->sub, 0, size->n, size->k, rotate,
                                    &b->weights);
}

/* Seconds of one product, the mean over all copies. */
static pare_status pass(bench *b, const pare__bench_weights *weights, size_t m, double *seconds)
{
    const size_t copies = m <= FEW ? weights->copies : 1;
    const double start = pare_seconds();
    for (size_t i = 0; i < copies; i++) {
        const pare_linear w = pare__bench_weights_at(weights, i);
        PARE_TRY(b->sub->bf16_inputs ? pare_linear_apply_bf16(b->cx, &b->scratch, &w, b->x,
                                                              b->size->k, m, b->y, b->size->n)
                                     : pare_linear_apply(b->cx, &b->scratch, &w, false, b->x,
                                                         b->size->k, m, b->y, b->size->n));
    }
    *seconds = (pare_seconds() - start) / (double)copies;
    return PARE_OK;
}

/* Fills in the speed of row->m tokens, its share of row->bound, and the time of pruned weights over
 * that of dense ones. */
static pare_status measure(bench *b, pare__bench_meter *limits, pare_bench_row *row)
{
    const size_t runs = b->size->runs, m = row->m;
    const bool reads = strcmp(row->bound, "dram") == 0;
    const double bytes = (double)b->weights.bytes * 1e-9;
    const double ops = 2e-9 * (double)row->n * (double)row->k * (double)m;
    double times[PARE__RUNS_MAX + 1], dense[PARE__RUNS_MAX + 1], limit[PARE__RUNS_MAX + 2];
    for (size_t run = 0; run <= runs + 1; run++) { /* the first one warms up */
        PARE_TRY(pare_ctx_interrupted(b->cx));
        const pare_bench_limits l = pare__bench_sample(
            b->cx, reads ? b->weights.data : NULL, b->weights.data_bytes, b->size->quick, limits);
        limit[run] = pare__bench_limit(&l, row->bound);
        if (run > runs)
            break;
        PARE_TRY(pass(b, &b->weights, m, &times[run]));
        if (b->dense.copies)
            PARE_TRY(pass(b, &b->dense, m, &dense[run]));
    }
    row->share = pare__bench_share(reads ? bytes : ops, times + 1, limit + 1, runs);
    const double seconds = pare__bench_median(times + 1, runs); /* sorts */
    row->us = seconds * 1e6;
    row->gb_s = bytes / seconds;
    row->gop_s = ops / seconds;
    row->dense_ratio =
        b->dense.copies ? seconds / pare__bench_median(dense + 1, runs) : (double)NAN;
    return PARE_OK;
}

static size_t group_of(const pare__bench_subject *s, size_t k)
{
    const bool scales = s->bits && !pare_encoding_is_float(s->encoding);
    return scales && !s->group ? k : s->group;
}

/* What limits a product of m tokens: of a few, integer ones read longer than they compute. */
static const char *bound_of(const bench *b, size_t m)
{
    const pare__bench_subject *const sub = b->sub;
    const bool integer = sub->bits && sub->activation.mode != PARE_ACTIVATION_FLOAT;
    if (m == 1 || (m <= FEW && integer))
        return "dram";
    const bool tiles = b->cx->cpu & PARE_CPU_AMX;
    if (sub->bf16_inputs && tiles)
        return "bf16";
    if (integer && tiles && !sub->sparsity && m > PARE__TILES_FROM)
        return "int8 tiles";
    return integer ? "int8" : "fma";
}

static pare_status add_row(bench *b, size_t m, double sgemm_seconds, pare__bench_meter *limits,
                           pare_bench_result *out)
{
    pare_bench_row row = {.kernel = b->sub->name,
                          .group = group_of(b->sub, b->size->k),
                          .n = b->size->n,
                          .k = b->size->k,
                          .m = m,
                          .threads = pare_threads(b->cx),
                          .bound = bound_of(b, m)};
    PARE_TRY(measure(b, limits, &row));
    row.sgemm_ratio = m > FEW ? sgemm_seconds * 1e6 / row.us : (double)NAN;
    out->row[out->rows++] = row;
    return PARE_OK;
}

static pare_status bench_subject(pare_ctx *cx, const pare__bench_subject *sub, const sizes *size,
                                 double sgemm_seconds, pare__bench_meter limits[2],
                                 pare_bench_result *out)
{
    bench b = {.cx = cx, .sub = sub, .size = size};
    struct pare_pool *const pool = cx->pool;
    pare_status s = pare_arena_init(cx, &b.arena, 0);
    if (s != PARE_OK)
        return s;
    s = pare_arena_init(cx, &b.scratch, 0);
    if (s == PARE_OK)
        s = prepare(&b);
    if (s == PARE_OK)
        s = add_row(&b, 1, (double)NAN, &limits[0], out);
    if (s == PARE_OK)
        s = add_row(&b, FEW, (double)NAN, &limits[0], out);
    if (s == PARE_OK)
        s = add_row(&b, size->m, sgemm_seconds, &limits[0], out);
    if (pare_threads(cx) > 1) {
        cx->pool = NULL;
        if (s == PARE_OK)
            s = add_row(&b, 1, (double)NAN, &limits[1], out);
        if (s == PARE_OK)
            s = add_row(&b, size->m, (double)NAN, &limits[1], out);
        cx->pool = pool;
    }
    pare_arena_release(&b.scratch);
    pare_arena_release(&b.arena);
    return s;
}

static pare_status sgemm_seconds(pare_ctx *cx, const sizes *size, double *seconds)
{
    char m[24], n[24], k[24];
    (void)snprintf(m, sizeof m, "%zu", size->m);
    (void)snprintf(n, sizeof n, "%zu", size->n);
    (void)snprintf(k, sizeof k, "%zu", size->k);
    const char *const args[] = {"sgemm", m, n, k, NULL};
    return pare__bench_baseline(cx, args, seconds);
}

pare_status pare_bench_kernels(pare_ctx *cx, const pare_bench_opts *opts, pare_bench_result *out)
{
    const sizes *const size = opts->quick ? &quick : &full;
    const double steps = SUBJECTS + PARE__BENCH_LOOPS + 1;
    pare__bench_meter limits[2] = {{.read.count = 0}};
    double seconds = (double)NAN;
    memset(out, 0, sizeof *out);
    out->blas = pare_blas_name();
    if (opts->baseline)
        PARE_TRY(sgemm_seconds(cx, size, &seconds));
    out->sgemm_gflop_s = 2e-9 * (double)size->m * (double)size->n * (double)size->k / seconds;
    for (size_t i = 0; i < SUBJECTS; i++) {
        pare_ctx_progress(cx, "timing kernels", (double)i, steps);
        PARE_TRY(bench_subject(cx, &subjects[i], size, seconds, limits, out));
    }
    for (size_t i = 0; i < PARE__BENCH_LOOPS; i++) {
        pare_ctx_progress(cx, "timing kernels", (double)(SUBJECTS + i), steps);
        PARE_TRY(pare__bench_loop(cx, i, opts->quick, limits, out));
    }
    out->limits = pare__bench_limits_of(&limits[0]);
    out->limits_one = pare_threads(cx) > 1 ? pare__bench_limits_of(&limits[1]) : out->limits;
    pare_ctx_progress(cx, "timing kernels", SUBJECTS + PARE__BENCH_LOOPS, steps);
    if (opts->gptq)
        PARE_TRY(pare__bench_gptq(cx, opts, &out->gptq));
    pare_ctx_progress(cx, "timing kernels", steps, steps);
    return PARE_OK;
}
