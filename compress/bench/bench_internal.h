/* compress/bench/bench_internal.h - shared by the parts of the bench. */
#ifndef PARE_COMPRESS_BENCH_INTERNAL_H
#define PARE_COMPRESS_BENCH_INTERNAL_H

#include "compress/bench/bench.h"

enum { PARE__RUNS_MAX = 16 };

/* Seconds since some moment, monotonic. */
double pare__bench_now(void);

/* Median of `count` times; sorts them. */
double pare__bench_median(double *times, size_t count);

/* One pass over a limit with the threads of cx: `bytes` (rounded down to 128 KB) at `data` read
 * once; F32 multiply-adds; int8 products. In GB/s and Gop/s. */
double pare__bench_read(const pare_ctx *cx, const void *data, size_t bytes);
double pare__bench_fma(const pare_ctx *cx, bool quick);
double pare__bench_int8(const pare_ctx *cx, bool quick);

/* Fills `words` 32-bit words with (random & keep) | set, on all threads. */
void pare__bench_fill(const pare_ctx *cx, uint32_t *words, size_t count, uint32_t keep,
                      uint32_t set);

/* Runs this program as PARE_BENCH_CHILD with `args` (ended by NULL, at most 6); its seconds. */
PARE_CHECKED pare_status pare__bench_baseline(pare_ctx *cx, const char *const *args,
                                              double *seconds);

/* Measures GPTQ into out->gptq. */
PARE_CHECKED pare_status pare__bench_gptq(pare_ctx *cx, const pare_bench_opts *opts,
                                          pare_bench_gptq *out);

#endif
