/* compress/bench/bench_internal.h - shared by the parts of the bench. */
#ifndef PARE_COMPRESS_BENCH_INTERNAL_H
#define PARE_COMPRESS_BENCH_INTERNAL_H

#include "compress/bench/bench.h"
#include "runtime/forward.h"

enum {
    PARE__RUNS_MAX = 16,
    PARE__SAMPLES_MAX = 512,
    PARE__BENCH_LOOPS = 29,
    PARE__TILES_FROM = 16, /* more tokens of integer products meet in tile registers */
};

/* Median of `count` times; sorts them. */
double pare__bench_median(double *times, size_t count);

/* Bytes that one thread reads at a time: data is aligned to 64, bytes a multiple of 256. */
typedef struct pare__bench_piece {
    const uint8_t *data;
    size_t bytes;
} pare__bench_piece;

/* GB/s of one pass over all of them with the threads of cx; 0 without any. */
double pare__bench_read_pieces(const pare_ctx *cx, const pare__bench_piece *piece, size_t count);

/* Passes over one limit. */
typedef struct pare__bench_samples {
    double value[PARE__SAMPLES_MAX];
    size_t count;
} pare__bench_samples;

/* Passes over all of them with one number of threads. */
typedef struct pare__bench_meter {
    pare__bench_samples read, fma, int8, bf16, int8_tiles;
} pare__bench_meter;

/* Adds one; what is too much is dropped. */
void pare__bench_add(pare__bench_samples *s, double value);

/* Medians of the passes. */
pare_bench_limits pare__bench_limits_of(pare__bench_meter *m);

/* Adds a pass over memory when there is `data`, else one over each kind of arithmetic, and returns
 * what it measured, else 0. */
pare_bench_limits pare__bench_sample(const pare_ctx *cx, const void *data, size_t bytes, bool quick,
                                     pare__bench_meter *out);

/* The one that a row's `bound` names. */
double pare__bench_limit(const pare_bench_limits *l, const char *bound);

/* Share of a limit: run i did `work` (1e9 bytes or operations) in seconds[i], between passes
 * limit[i] and limit[i + 1] over the limit. The median of the runs' speeds, each over the mean of
 * its two passes: load that comes and goes meets both. At most PARE__RUNS_MAX runs. */
double pare__bench_share(double work, const double *seconds, const double *limit, size_t runs);

/* Fills `words` 32-bit words with (random & keep) | set, on all threads. Streams are different
 * random numbers. */
void pare__bench_fill(const pare_ctx *cx, uint64_t stream, uint32_t *words, size_t count,
                      uint32_t keep, uint32_t set);

/* A kind of weights. */
typedef struct pare__bench_subject {
    const char *name;
    pare_dtype dtype; /* dense; bits 0 */
    unsigned bits;
    size_t group; /* 0: a row */
    pare_encoding encoding;
    pare_activation activation; /* bits 0: 8 */
    size_t outliers;            /* columns, int8 or F16 */
    bool f16_outliers, sparse, bf16_inputs;
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
    uint64_t stream;
    size_t n, k, copies;
    size_t bytes;     /* of one copy, all planes */
    const void *data; /* the largest plane of all copies, to read from the memory it is in */
    size_t data_bytes;
    pare__bench_plane codes, scales, minima, super, book, outliers, outlier_scales, column, value;
    pare__bench_plane indices, mask, kept; /* kept: F16 */
    pare__bench_plane row_scales, column_scales;
    size_t *mask_start;
    uint32_t *outlier_column, *start;
    uint8_t *salient;
} pare__bench_weights;

/* Random weights [n, k] of about k^-1/2, so that products are as large as what they multiply: so
 * many copies that they have more than `rotate` bytes. n is a multiple of 16, k one of 64 and of
 * the group. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__bench_weights_make(pare_ctx *cx, pare_arena *a,
                                                  const pare__bench_subject *sub, uint64_t stream,
                                                  size_t n, size_t k, size_t rotate,
                                                  pare__bench_weights *out);

/* Bytes of one copy. */
size_t pare__bench_weights_bytes(const pare__bench_subject *sub, size_t n, size_t k);

/* One copy, borrowed. */
pare_linear pare__bench_weights_at(const pare__bench_weights *w, size_t copy);

/* Measures kernel number `index` < PARE__BENCH_LOOPS of those that multiply by no weights, on all
 * threads with limits[0] and on one with limits[1], and adds its rows.
 * PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare__bench_loop(pare_ctx *cx, size_t index, bool quick,
                                          pare__bench_meter limits[2], pare_bench_result *out);

/* What a forward pass of a model costs. Operations are multiplications and additions of the codes
 * and values that are stored: 2:4 weights have half. */
typedef struct pare__bench_cost {
    double bytes; /* of the weights of blocks and head, read once; embedding rows and experts
                     left out */
    double expert_bytes, expert_share; /* of all experts; of them that a token uses */
    double int8, fma;                  /* operations per token in the blocks */
    double head_fma;                   /* per row of logits */
    double attend_fma;                 /* per token and token that it attends to in a block */
} pare__bench_cost;

/* PARE_ENOMEM. */
PARE_CHECKED pare_status pare__bench_cost_of(pare_ctx *cx, const pare_forward *f,
                                             pare__bench_cost *out);

/* Bytes that a pass of `tokens` tokens reads of the weights (bench_model.h). */
double pare__bench_bytes(const pare__bench_cost *c, double tokens);

/* Pieces of the weights of blocks and head, as many as fit `piece` [*count]; piece may be NULL.
 * *count: how many there are. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__bench_model_pieces(pare_ctx *cx, const pare_model *m,
                                                  pare__bench_piece *piece, size_t *count);

/* Runs this program as PARE_BENCH_CHILD with `args` (ended by NULL, at most 6); its seconds. */
PARE_CHECKED pare_status pare__bench_baseline(pare_ctx *cx, const char *const *args,
                                              double *seconds);

/* Measures GPTQ into out->gptq. */
PARE_CHECKED pare_status pare__bench_gptq(pare_ctx *cx, const pare_bench_opts *opts,
                                          pare_bench_gptq *out);

#endif
