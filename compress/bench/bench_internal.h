/* compress/bench/bench_internal.h - shared by the parts of the bench. */
#ifndef PARE_COMPRESS_BENCH_INTERNAL_H
#define PARE_COMPRESS_BENCH_INTERNAL_H

#include "compress/bench/bench.h"
#include "runtime/model.h"

enum {
    PARE__RUNS_MAX = 16,
    PARE__SAMPLES_MAX = 384,
    PARE__BENCH_LOOPS = 14,
};

/* Seconds since some moment, monotonic. */
double pare__bench_now(void);

/* Median of `count` times; sorts them. */
double pare__bench_median(double *times, size_t count);

/* One pass over a limit with the threads of cx: `bytes` (rounded down to 128 KB) at `data` read
 * once; F32 multiply-adds; int8 products. In GB/s and Gop/s. */
double pare__bench_read(const pare_ctx *cx, const void *data, size_t bytes);
double pare__bench_fma(const pare_ctx *cx, bool quick);
double pare__bench_int8(const pare_ctx *cx, bool quick);

/* Passes over one limit. */
typedef struct pare__bench_samples {
    double value[PARE__SAMPLES_MAX];
    size_t count;
} pare__bench_samples;

/* Passes over all of them with one number of threads. */
typedef struct pare__bench_meter {
    pare__bench_samples read, fma, int8;
} pare__bench_meter;

/* Adds a pass over memory when there is `data`, else one over each kind of arithmetic. */
void pare__bench_sample(const pare_ctx *cx, const void *data, size_t bytes, bool quick,
                        pare__bench_meter *out);

/* Fills `words` 32-bit words with (random & keep) | set, on all threads. */
void pare__bench_fill(const pare_ctx *cx, uint32_t *words, size_t count, uint32_t keep,
                      uint32_t set);

/* A kind of weights. */
typedef struct pare__bench_subject {
    const char *name;
    pare_dtype dtype; /* dense; bits 0 */
    unsigned bits;
    size_t group; /* 0: a row */
    pare_encoding encoding;
    pare_activation activation; /* bits 0: 8 */
    size_t outliers;            /* columns, int8 or F16 */
    bool f16_outliers, sparse;
    pare_sparsity_store sparsity; /* BITMASK: half of the weights */
    const char *dense;            /* pruned: the subject with the same weights and zeros */
} pare__bench_subject;

/* One of the planes of weights, once per copy. */
typedef struct pare__bench_plane {
    uint8_t *data;
    size_t bytes; /* of one copy */
} pare__bench_plane;

/* Copies of a matrix, the planes of one behind those of the other. */
typedef struct pare__bench_weights {
    const pare__bench_subject *sub;
    size_t n, k, copies;
    size_t bytes;     /* of one copy, all planes */
    const void *data; /* the largest plane of all copies, to read from the memory it is in */
    size_t data_bytes;
    pare__bench_plane codes, scales, book, outliers, outlier_scales, column, value;
    pare__bench_plane indices, mask, kept; /* kept: F16 */
    size_t *mask_start;
    uint32_t *outlier_column, *start;
    uint8_t *salient;
} pare__bench_weights;

/* Random weights [n, k]: so many copies that they have more than `rotate` bytes. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__bench_weights_make(pare_ctx *cx, pare_arena *a,
                                                  const pare__bench_subject *sub, size_t n,
                                                  size_t k, size_t rotate,
                                                  pare__bench_weights *out);

/* One copy. */
pare_linear pare__bench_weights_at(const pare__bench_weights *w, size_t copy);

/* Measures kernel number `index` < PARE__BENCH_LOOPS of those that multiply by no weights, on all
 * threads with limits[0] and on one with limits[1], and adds its rows, shares left out.
 * PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare__bench_loop(pare_ctx *cx, size_t index, bool quick,
                                          pare__bench_meter limits[2], pare_bench_result *out);

/* Runs this program as PARE_BENCH_CHILD with `args` (ended by NULL, at most 6); its seconds. */
PARE_CHECKED pare_status pare__bench_baseline(pare_ctx *cx, const char *const *args,
                                              double *seconds);

/* Measures GPTQ into out->gptq. */
PARE_CHECKED pare_status pare__bench_gptq(pare_ctx *cx, const pare_bench_opts *opts,
                                          pare_bench_gptq *out);

#endif
