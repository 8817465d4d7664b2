#include <math.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "runtime/linalg.h"
#include "runtime/threads.h"
#include "tests/unit/counted.h"
#include "tests/unit/unit.h"

static void setup(pare_ctx *cx, size_t threads)
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_pool_new(cx, threads, &cx->pool), PARE_OK);
}

static const pare_bench_row *find(const pare_bench_result *r, const char *kernel, size_t m,
                                  size_t threads)
{
    for (size_t i = 0; i < r->rows; i++)
        if (strcmp(r->row[i].kernel, kernel) == 0 && r->row[i].m == m &&
            r->row[i].threads == threads)
            return &r->row[i];
    ck_abort_msg("no row of %s", kernel);
    return NULL;
}

/* What a row of a kernel without weights must say: bytes and operations of one call. */
typedef struct expected {
    const char *kernel;
    size_t group, n, k, m;
    const char *bound;
    bool cached;
    double bytes, ops;
} expected;

static const expected loops[] = {
    {"kv_int8", 128, 64, 128, 1, "dram", false, 64 * (128 + 2), 16384},
    {"kv_int4", 32, 64, 128, 1, "dram", false, 64 * (64 + 4 * 4), 16384},
    {"kv_kivi_k", 32, 32, 128, 1, "dram", false, 32 * 32 + 128 * 4, 8192},
    {"kv_kivi_v", 32, 64, 128, 1, "dram", false, 64 * (32 + 4 * 4), 16384},
    {"kv_kvquant_k", 0, 64, 128, 1, "dram", false, 64 * 48, 16384},
    {"kv_kvquant_v", 128, 64, 128, 1, "dram", false, 64 * (48 + 4), 16384},
    {"kv_mix", 0, 64, 128, 1, "fma", true, 4 * (64 * 128 + 64 + 256), 16384},
    {"kv_mix", 0, 64, 128, 64, "fma", true, 4 * 64 * (128 + 64 + 256), 64 * 16384},
    {"hadamard", 0, 4096, 4096, 1, "fma", true, 16384, 4096 * 13},
    {"hadamard", 0, 4096, 4096, 8, "dram", false, 8 * 16384, 8 * 4096 * 13},
    {"hadamard", 0, 256, 11008, 1, "fma", true, 44032, 11008 * 9},
    {"hadamard", 0, 256, 11008, 8, "dram", false, 8 * 44032, 8 * 11008 * 9},
    {"mix", 0, 256, 11008, 1, "fma", true, 44032, 11008 * 86},
    {"mix", 0, 256, 11008, 8, "fma", false, 8 * 44032, 8 * 11008 * 86},
    {"softmax", 0, 64, 64, 1, "fma", true, 256, 64 * 26},
    {"silu", 0, 8192, 8192, 8, "dram", false, 8 * 65536, 8 * 8192 * 26},
    {"silu_back", 0, 8192, 8192, 8, "dram", false, 8 * 163840, 8 * 8192 * 34},
    {"transpose", 0, 64, 128, 1, "dram", false, 32768, 8192},
    {"range", 64, 4096, 4096, 8, "dram", false, 8 * 16384, 8 * 4096 * 2},
    {"codes", 64, 4096, 4096, 8, "dram", false, 8 * 16384, 8 * 4096 * 5},
    {"fp8_inputs", 0, 4096, 4096, 8, "dram", false, 8 * 16384, 8 * 4096 * 13},
    {"clip", 64, 4096, 4096, 8, "fma", false, 8 * 16384, 8 * 4096 * 37},
    {"errors", 0, 4096, 4096, 8, "dram", false, 8 * 32768, 8 * 4096 * 5},
    {"adamw", 0, 8192, 8192, 8, "dram", false, 8 * 131072, 8 * 8192 * 19},
    {"aware", 64, 4096, 4096, 8, "dram", false, 8 * 32768, 8 * 4096 * 9},
    {"moments8", 256, 4096, 4096, 8, "dram", false, 8 * 16384, 8 * 4096 * 17},
    {"exl3_step", 0, 16384, 4, 1, "fma", true, 65536 * 4 + 16384 * 9, 5 * 65536},
    {"exl3_step", 0, 4096, 16, 1, "fma", true, 65536 * 4 + 4096 * 9, 5 * 65536},
    {"panels", 0, 96, 256, 96, "fma", true, 4 * (192 * 256 + 96 * 96), 2.0 * 96 * 96 * 256},
};

/* On two threads and on one; on one alone. */
enum { SUBJECTS = 28, PRODUCTS = 5 * SUBJECTS, PRODUCTS_ONE = 3 * SUBJECTS };
enum { LOOPS = sizeof loops / sizeof *loops };

static void check_loop(const pare_bench_result *r, const pare_bench_row *row, const expected *e)
{
    ck_assert_str_eq(row->kernel, e->kernel);
    ck_assert(row->group == e->group && row->n == e->n && row->k == e->k && row->m == e->m);
    ck_assert_str_eq(row->bound, e->bound);
    ck_assert(row->cached == e->cached && isnan(row->sgemm_ratio) && row->us > 0);
    ck_assert_double_eq_tol(row->gb_s * row->us * 1e3, e->bytes, 1e-6 * e->bytes);
    ck_assert_double_eq_tol(row->gop_s * row->us * 1e3, e->ops, 1e-6 * e->ops);
    const pare_bench_limits *const l = row->threads == 1 ? &r->limits_one : &r->limits;
    const double share =
        strcmp(e->bound, "dram") == 0 ? row->gb_s / l->dram_read_gb_s : row->gop_s / l->fma_gflop_s;
    /* Of passes beside the row, so only about that of all passes. */
    ck_assert_msg(row->share > share / 50 && row->share < share * 50, "%s: %g, %g", e->kernel,
                  row->share, share);
}

START_TEST(a_share_holds_each_run_against_the_passes_around_it)
{
    static const double seconds[] = {1.0, 2.0, 0.5}, limit[] = {2.0, 6.0, 2.0, 18.0};
    ck_assert_double_eq_tol(pare__bench_share(2.0, seconds, limit, 3), 0.4, 1e-12);
    ck_assert_double_eq_tol(pare__bench_share(2.0, seconds, limit, 1), 0.5, 1e-12);
    static const double busy[] = {1.0, 4.0, 4.0, 1.0, 2.0}, half[] = {8, 8, 2, 2, 8, 4};
    ck_assert_double_eq_tol(pare__bench_share(4.0, busy, half, 5), 0.5, 1e-12);
    const pare_bench_limits l = {1, 2, 3, 4, 5};
    ck_assert(pare__bench_limit(&l, "dram") == 1 && pare__bench_limit(&l, "fma") == 2 &&
              pare__bench_limit(&l, "int8") == 3 && pare__bench_limit(&l, "bf16") == 4 &&
              pare__bench_limit(&l, "int8 tiles") == 5);
}
END_TEST

START_TEST(bench_measures_every_kernel_on_one_thread_and_on_all)
{
    pare_ctx cx;
    setup(&cx, 2);
    static pare_bench_result r;
    const pare_bench_opts opts = {.quick = true, .baseline = true, .gptq = true};
    ck_assert_msg(pare_bench_kernels(&cx, &opts, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.rows, PRODUCTS + 2 * LOOPS);
    ck_assert(r.limits.dram_read_gb_s > 0 && r.limits.fma_gflop_s > 0 && r.limits.int8_gop_s > 0);
    ck_assert(r.limits_one.dram_read_gb_s > 0);
    ck_assert(r.sgemm_gflop_s > 0);
    for (size_t i = 0; i < PRODUCTS; i++) {
        const pare_bench_row *const row = &r.row[i];
        ck_assert(row->us > 0 && row->gb_s > 0 && row->gop_s > 0 && row->share > 0);
        ck_assert_msg(isfinite(row->share), "%s, m %zu: %g", row->kernel, row->m, row->share);
        ck_assert(isnan(row->sgemm_ratio) == (row->m <= 8 || row->threads == 1));
        static const char *const integer[] = {"int4",   "int8",   "w8a8",  "w8a8fix",  "ternary",
                                              "w8+f16", "w4a4+8", "w4+sp", "int4 2:4", "int8 2:4"};
        bool int8 = false;
        for (size_t j = 0; j < sizeof integer / sizeof *integer; j++)
            int8 |= strcmp(row->kernel, integer[j]) == 0;
        const bool reads = row->m == 1 || (row->m == 8 && int8);
        const bool tiles = (cx.cpu & PARE_CPU_AMX) && strcmp(row->kernel, "bf16 bf16") == 0;
        ck_assert_str_eq(row->bound, reads ? "dram" : int8 ? "int8" : tiles ? "bf16" : "fma");
        const bool sparse = strstr(row->kernel, "2:4") || strstr(row->kernel, "mask");
        ck_assert(isnan(row->dense_ratio) == !sparse);
    }
    for (size_t i = 0; i < 2 * LOOPS; i++) {
        check_loop(&r, &r.row[PRODUCTS + i], &loops[i / 2]);
        ck_assert_uint_eq(r.row[PRODUCTS + i].threads, 2 - i % 2);
    }
    const pare_bench_row *const int4 = find(&r, "int4", 1, 1), *const f32 = find(&r, "f32", 1, 1);
    const double bytes4 = int4->gb_s * int4->us * 1e3, bytes32 = f32->gb_s * f32->us * 1e3;
    ck_assert_double_eq_tol(bytes32, (double)(f32->n * f32->k * 4), 1.0);
    ck_assert_double_eq_tol(bytes4, (double)(int4->n * int4->k) * (0.5 + 2.0 / 32), 1.0);
    const pare_bench_row *const few = find(&r, "int4", 8, 2);
    ck_assert_double_eq_tol(few->gb_s * few->us * 1e3, bytes4, 1.0);
    const pare_bench_row *const ternary = find(&r, "ternary", 1, 1);
    const double bytes2 = ternary->gb_s * ternary->us * 1e3;
    ck_assert_double_eq_tol(bytes2, (double)ternary->n * (0.25 * (double)ternary->k + 2), 1.0);
    const pare_bench_row *const exl3 = find(&r, "exl3_2", 1, 1);
    ck_assert_double_eq_tol(exl3->gb_s * exl3->us * 1e3,
                            (double)(exl3->n * exl3->k) / 4 + 2.0 * (double)(exl3->n + exl3->k),
                            1.0);
    static const char *const pruned[] = {"int4 2:4", "int8 2:4", "f16 2:4", "f16 mask"};
    static const double stored[] = {0.375 + 2.0 / 128, 0.625 + 2.0 / 128, 1.125, 1.125};
    for (size_t i = 0; i < 4; i++) {
        const pare_bench_row *const p = find(&r, pruned[i], 1, 1);
        ck_assert_double_eq_tol(p->gb_s * p->us * 1e3, (double)(p->n * p->k) * stored[i], 1.0);
        ck_assert(p->dense_ratio > 0);
    }
    ck_assert(r.gptq.measured && r.gptq.seconds > 0 && r.gptq.time_ratio > 0);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

/* The kernels of the context, with their calls counted; one thread. */
static size_t decoded, mixed, rotated, runs_mixed, weighed, activated, turned, summed, searched;

static void count_decode(float *dst, size_t ldd, const pare_kv_tile *src, size_t n, size_t d)
{
    decoded += n;
    real.kv_decode(dst, ldd, src, n, d);
}

static void count_kv_mix(float *y, size_t ldy, const float *p, size_t ldp, const float *v,
                         size_t ldv, size_t m, size_t n, size_t d)
{
    mixed += m * n;
    real.kv_mix(y, ldy, p, ldp, v, ldv, m, n, d);
}

static void count_hadamard(float *x, size_t n, float scale)
{
    rotated += n > 128 ? n : 0; /* weights in EXL3 take 128 */
    real.hadamard_f32(x, n, scale);
}

static void count_mix(float *x, size_t n, const float *c, size_t m)
{
    runs_mixed += m;
    real.mix_f32(x, n, c, m);
    for (size_t i = 0; i < n * m; i++)
        ck_assert(isfinite(x[i]));
}

static float count_softmax(float *x, size_t n, float scale, float *max, double *total)
{
    weighed += n;
    const float shrink = real.softmax_f32(x, n, scale, max, total);
    ck_assert(*total >= 1 && *total <= (double)n);
    return shrink;
}

static void count_silu(float *y, const float *up, size_t n)
{
    activated += n;
    real.silu_f32(y, up, n);
    ck_assert(y[0] > 1e-4f && y[n - 1] < 1.0f);
}

static void count_transpose(float *dst, size_t ldd, const float *src, size_t lds, size_t m,
                            size_t n)
{
    turned += m == 64 ? m * n : 0; /* weights in EXL3 take 128 rows */
    real.transpose_f32(dst, ldd, src, lds, m, n);
}

static void check_codes(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                        unsigned bits)
{
    count_codes(codes, x, n, scale, zero, bits);
    ck_assert(codes[0] > zero && codes[0] < 15);
}

static pare_error_sum count_errors(const float *w, const float *q, const float *whole, size_t n)
{
    summed += n;
    ck_assert(whole == w && q != w);
    return real.error_sums(w, q, whole, n);
}

static void count_step(float *after, uint8_t *from, const float *before, const float *value,
                       float x, unsigned bits)
{
    ck_assert(bits == 2 || bits == 4);
    searched++;
    real.exl3_step(after, from, before, value, x, bits);
}

START_TEST(caches_and_rotations_are_measured_with_their_kernels)
{
    pare_ctx cx;
    setup(&cx, 1);
    real = cx.kernels;
    decoded = mixed = rotated = runs_mixed = weighed = activated = turned = 0;
    ranged = rounded = summed = searched = 0;
    cx.kernels.kv_decode = count_decode;
    cx.kernels.kv_mix = count_kv_mix;
    cx.kernels.hadamard_f32 = count_hadamard;
    cx.kernels.mix_f32 = count_mix;
    cx.kernels.softmax_f32 = count_softmax;
    cx.kernels.silu_f32 = count_silu;
    cx.kernels.transpose_f32 = count_transpose;
    cx.kernels.range_f32 = count_range;
    cx.kernels.round_codes = check_codes;
    cx.kernels.error_sums = count_errors;
    cx.kernels.exl3_step = count_step;
    static pare_bench_result r;
    const pare_bench_opts opts = {.quick = true};
    ck_assert_msg(pare_bench_kernels(&cx, &opts, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.rows, PRODUCTS_ONE + LOOPS);
    for (size_t i = 0; i < LOOPS; i++)
        check_loop(&r, &r.row[PRODUCTS_ONE + i], &loops[i]);
    size_t positions = 0; /* of tiles that have 1 MB together, four times */
    for (size_t i = 0; i < 6; i++)
        positions += 4 * loops[i].n * ((1u << 20) / (size_t)loops[i].bytes + 1);
    ck_assert_uint_eq(decoded, positions);
    ck_assert_uint_eq(mixed, 4 * 64 * 7 + 4 * 64 * 64);
    ck_assert_uint_eq(rotated, 4 * (4096 * (2 + 72) + 11008 * (2 + 24)));
    ck_assert_uint_eq(runs_mixed, 4 * 43 * (1 + 24));
    ck_assert_uint_eq(weighed, 4 * 64 * (size_t)(1 + 1e5 / (64 * 26)));
    ck_assert_uint_eq(activated, 4 * 8192 * 8 * 3); /* 3 times 8 rows have more than 1 MB */
    ck_assert_uint_eq(turned, 4 * 8192 * 33);
    ck_assert_uint_eq(ranged, 4 * 4096 * 72); /* 9 times 8 rows */
    ck_assert_uint_eq(rounded, 4 * 4096 * 72);
    ck_assert_uint_eq(summed, 4 * 4096 * 8 * 5);
    ck_assert_uint_eq(searched, 4 * 2);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(bench_without_a_baseline_has_no_ratios)
{
    pare_ctx cx;
    setup(&cx, 1);
    static pare_bench_result r;
    const pare_bench_opts opts = {.quick = true};
    ck_assert_msg(pare_bench_kernels(&cx, &opts, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.rows, PRODUCTS_ONE + LOOPS);
    ck_assert(isnan(r.sgemm_gflop_s) && isnan(r.row[1].sgemm_ratio) && !r.gptq.measured);
    ck_assert_double_eq(r.limits.fma_gflop_s, r.limits_one.fma_gflop_s);
    pare_pool_free(&cx, cx.pool);
}
END_TEST

START_TEST(bench_stops_when_interrupted)
{
    pare_ctx cx;
    setup(&cx, 1);
    const volatile int interrupts = 1;
    cx.interrupt = &interrupts;
    static pare_bench_result r;
    const pare_bench_opts opts = {.quick = true};
    ck_assert_int_eq(pare_bench_kernels(&cx, &opts, &r), PARE_EINTERRUPTED);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(the_baseline_refuses_jobs_it_does_not_know)
{
    char program[] = "pare", job[] = PARE_BENCH_CHILD, what[] = "spin", size[] = "64", zero[] = "0",
         text[] = "12x", sgemm[] = "sgemm";
    ck_assert_int_ne(pare_bench_child(4, (char *[]){program, job, what, size}), 0);
    ck_assert_int_ne(pare_bench_child(2, (char *[]){program, job}), 0);
    ck_assert_int_ne(pare_bench_child(6, (char *[]){program, job, sgemm, size, size, zero}), 0);
    ck_assert_int_ne(pare_bench_child(6, (char *[]){program, job, sgemm, size, text, size}), 0);
}
END_TEST

START_TEST(no_failed_allocation_leaks_or_crashes)
{
    static pare_bench_result r;
    unit_failing f = {0};
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n += n < 40 ? 1 : 11) { /* kinds of weights allocate alike */
        pare_ctx cx;
        pare_ctx_init(&cx);
        f = (unit_failing){.left = n};
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        const pare_bench_opts opts = {.quick = true, .gptq = true};
        s = pare_bench_kernels(&cx, &opts, &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%s", cx.what);
        ck_assert_int_eq(f.live, 0);
    }
}
END_TEST

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], PARE_BENCH_CHILD) == 0)
        return pare_bench_child(argc, argv);
    Suite *const s = suite_create("bench");
    TCase *const t = tcase_create("bench");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_share_holds_each_run_against_the_passes_around_it);
    tcase_add_test(t, bench_measures_every_kernel_on_one_thread_and_on_all);
    tcase_add_test(t, caches_and_rotations_are_measured_with_their_kernels);
    tcase_add_test(t, bench_without_a_baseline_has_no_ratios);
    tcase_add_test(t, bench_stops_when_interrupted);
    tcase_add_test(t, the_baseline_refuses_jobs_it_does_not_know);
    tcase_add_test(t, no_failed_allocation_leaks_or_crashes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
