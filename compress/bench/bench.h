/* compress/bench/bench.h - speed of the kernels beside the limits of the machine they run on.
 *
 * Limits and speeds are measured in one run, because a machine shared with others has no fixed
 * limits: the shares mean something, a time alone does not. Nothing here prints. */
#ifndef PARE_COMPRESS_BENCH_H
#define PARE_COMPRESS_BENCH_H

#include <stdbool.h>

#include "runtime/arena.h"

/* First argument of the program when it runs as the baseline of its own bench, see below. */
#define PARE_BENCH_CHILD "--blas-baseline"

/* Of a bench of kernels: medians over all its passes. */
typedef struct pare_bench_limits {
    double dram_read_gb_s;   /* reading more than 256 MB once, front to back */
    double fma_gflop_s;      /* F32 fused multiply-adds in registers */
    double int8_gop_s;       /* 8-bit products added in 16 bits, in registers */
    double bf16_gflop_s;     /* products of tiles of BF16, in registers; NAN: no tiles */
    double int8_tiles_gop_s; /* products of tiles of bytes, the same */
} pare_bench_limits;

/* A product, or one of
 *   kv_M        kv_decode of a tile of n cached positions of k channels, as attention takes them:
 *               M is the method, with _k for keys and _v for values where they differ
 *   kv_mix      weights [m, n] times values [n, k], m queries (m = 1: one that is generated)
 *   hadamard    hadamard_f32 on m rows of k values, in runs of n
 *   mix         mix_f32 on m rows of k values: k / n runs of n values are mixed
 *   softmax     softmax_f32 of a block of n scores, all of a row of k
 *   silu        silu_f32 on m rows of k values
 *   transpose   transpose_f32 of a tile of n cached positions of k channels
 *   range       range_f32 of every group of m rows of k weights
 *   codes       round_codes of the same
 *   clip        clip_cost of every group: one range of the 80 of clip mse
 *   errors      error_sums of m rows of k weights and what became of them
 *   exl3_step   exl3_step of n nodes, to each of which k edges lead
 * Calls of these are dealt out to the threads: us is the time over their number. */
typedef struct pare_bench_row {
    const char *kernel; /* "int4", "ternary", "nf4", "f16", ... */
    size_t group;       /* weights or cached values that share a scale; 0: there is none, or it is
                           calibrated and the same for all positions */
    size_t n, k, m, threads;
    double us;          /* one product y = W x for m tokens, quantization of x included; median */
    double gb_s;        /* bytes of W, or of cached values (codes and scales), per second; of rows
                           that are rotated those read, and all that kv_mix reads and writes */
    double gop_s;       /* 2 m n k operations per second; 2 per decoded value, log2(n) + 1 per value
                           of hadamard, 2 k / n of mix, 26 of softmax and silu (22 of them an
                           exponential), 1 of transpose, 2 of range, 5 of codes
                           and errors, 5 per edge of exl3_step */
    const char *bound;  /* the limit that applies: "dram", "fma", "int8", "bf16", "int8 tiles" */
    bool cached;        /* operands stay in a core's cache, else they rotate over > 256 MB */
    double share;       /* of that limit with as many threads, measured right before and after
                           each run; median */
    double sgemm_ratio; /* speed over OpenBLAS sgemm of the same product on all cores; NAN: none */
    double dense_ratio; /* pruned weights: time over that of dense ones, in turns; NAN: others */
} pare_bench_row;

/* GPTQ of one n x k matrix, from W and H in memory to codes and scales. */
typedef struct pare_bench_gptq {
    bool measured;
    size_t n, k, group, threads;
    double seconds;
    double baseline_seconds; /* spotrf + spotri + spotrf + sgemm of k x k, OpenBLAS on all cores */
    double time_ratio;       /* seconds / baseline_seconds; NAN without a baseline */
} pare_bench_gptq;

enum { PARE_BENCH_ROWS_MAX = 240 };

typedef struct pare_bench_opts {
    bool quick;    /* small matrices and few runs: a test that all works, not a measurement */
    bool baseline; /* run OpenBLAS in a child process; the program must call pare_bench_child */
    bool gptq;     /* measure GPTQ, too */
} pare_bench_opts;

typedef struct pare_bench_result {
    pare_bench_limits limits;     /* all threads of cx */
    pare_bench_limits limits_one; /* one thread */
    double sgemm_gflop_s;         /* OpenBLAS on all cores; NAN without a baseline */
    const char *blas;             /* pare_blas_name() */
    pare_bench_row row[PARE_BENCH_ROWS_MAX];
    size_t rows;
    pare_bench_gptq gptq;
} pare_bench_result;

/* Measures products of every kind of weights at 4096 x 4096 for one token and, on all threads, 8
 * (weights rotate over more than 256 MB), and for 512, on all threads of cx and on one, and in
 * turns with each the limit it is held against: integer weights, ternary and dense ones of every
 * type; int8 activations per group, per token (w8a8) and of fixed steps (w8a8fix); F16 and int8
 * outlier columns (w8+f16: 32 of them, w4a4+8: 128 beside 4-bit activations); 0.45% of single
 * weights (+sp); 2:4 weights, each beside the dense ones; and the encodings that are decoded and
 * multiplied in F32. Then, in the same way, decoding of tiles of a coded cache that is larger than
 * 256 MB, mixing of values that were just decoded, rotations of rows of 4096 and 43 x 256 values
 * (one that lies in the cache, and 512 out of more than 256 MB), and the steps of rounding to
 * nearest, out of as much memory.
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EIO when the child cannot be run or gives no answer,
 * PARE_EINTERRUPTED.
 * Memory   about 400 MB (quick: a few MB).   Threads  those of cx->pool. */
PARE_CHECKED pare_status pare_bench_kernels(pare_ctx *cx, const pare_bench_opts *opts,
                                            pare_bench_result *out);

/* The child's side: main() starts with
 *     if (argc > 1 && strcmp(argv[1], PARE_BENCH_CHILD) == 0)
 *         return pare_bench_child(argc, argv);
 * Runs the OpenBLAS job that the arguments name with OpenBLAS's own threads, writes the seconds as
 * text to standard output and returns the exit code. A process of its own, because BLAS in the main
 * process stays at one thread. */
int pare_bench_child(int argc, char **argv);

#endif
