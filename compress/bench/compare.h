/* compress/bench/compare.h - two results of `pare bench --format json` held against each other.
 *
 * Rows are matched by what was measured: kernel, group, sizes, threads; or model, weights, group,
 * cache, batch, lengths, threads. Where no path of a model is the same, its last part decides, if
 * it leaves no choice, and a warning says so. A time is slower when it grew by more than the
 * tolerance; when its share of the limit held, the machine had become slower and not the program.
 */
#ifndef PARE_COMPRESS_COMPARE_H
#define PARE_COMPRESS_COMPARE_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef enum pare_verdict {
    PARE_VERDICT_SAME,        /* within the tolerance */
    PARE_VERDICT_FASTER,      /* before / after above 1 + tolerance */
    PARE_VERDICT_SLOWER,      /* after / before above 1 + tolerance */
    PARE_VERDICT_SHARE_HELD,  /* slower, but its share did not fall by more than the tolerance */
    PARE_VERDICT_ONLY_BEFORE, /* the row is missing in the second file */
    PARE_VERDICT_ONLY_AFTER
} pare_verdict;

/* "same", "faster", "slower", "slower, share held", "only in the first", "only in the second". */
const char *pare_verdict_text(pare_verdict v);

typedef struct pare_bench_change {
    const char *key;                               /* "int4 g128 4096x4096 m1 t2" */
    const char *metric;                            /* "us", "seconds", "ttft_ms", "tpot_ms" */
    double before, after, ratio;                   /* after / before; NAN where a side is missing */
    double share_before, share_after, share_ratio; /* NAN where there is none */
    pare_verdict verdict;
} pare_bench_change;

enum { PARE_BENCH_WARNINGS = 8, PARE_BENCH_WARNING_TEXT = 256 };

typedef struct pare_bench_comparison {
    const char *kind; /* "kernels" or "model" */
    pare_bench_change *change;
    size_t changes;
    size_t slower, share_held, faster, missing; /* of the changes; slower: share held included */
    size_t lost;                                /* of the missing: those that the second lacks */
    char warning[PARE_BENCH_WARNINGS][PARE_BENCH_WARNING_TEXT];
    size_t warnings; /* machine, level, threads, program or folders differ */
} pare_bench_comparison;

/* Reads the files `before` and `after`. tolerance >= 0: 0.05 is 5%.
 * Returns PARE_OK, PARE_ENOTFOUND, PARE_EIO, PARE_EFORMAT for what is no result of the bench (the
 * message names file and row), PARE_EUSAGE when one is of kernels and one of a model, or when they
 * have no row in common, PARE_ENOMEM. Memory: in `a`. */
PARE_CHECKED pare_status pare_bench_compare(pare_ctx *cx, pare_arena *a, const char *before,
                                            const char *after, double tolerance,
                                            pare_bench_comparison *out);

#endif
