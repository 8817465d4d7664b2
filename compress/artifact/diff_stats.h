/* compress/artifact/diff_stats.h - two files of kept statistics (calib/stats_file.h) held against
 * each other: how far the calibration of one is from that of the other. */
#ifndef PARE_COMPRESS_ARTIFACT_DIFF_STATS_H
#define PARE_COMPRESS_ARTIFACT_DIFF_STATS_H

#include "calib/stats_file.h"

/* Inputs of the linears of one site. With H over the tokens that it saw and m the largest |x| of
 * each column:
 *
 *   hessian   |H_A / n_A - H_B / n_B|_F / |H_A / n_A|_F
 *   channels  |m_A - m_B| / |m_A|
 *
 * NAN where nothing reached the site of one of them; infinite where A is 0 and B is not. */
typedef struct pare_stats_drift {
    const char *site;
    size_t block, part; /* 0: what every token runs, e + 1: expert e */
    uint64_t tokens[2];
    double hessian, channels;
} pare_stats_drift;

typedef struct pare_stats_diff {
    pare_stats_about of[2];
    pare_stats_drift *row; /* by block, part, site */
    size_t rows, measured;
    double median[2];                 /* of hessian, channels; of the measured */
    const pare_stats_drift *worst[2]; /* likewise, the first of them; NULL: none measured */
} pare_stats_diff;

/* Texts in the arena. PARE_EFORMAT for files of models of another shape, for what is malformed, and
 * what reading HDF5 returns. Memory: the statistics of two sites beside the groups of a block. Sums
 * in the order of the elements, in F64. */
PARE_CHECKED pare_status pare_diff_stats(pare_ctx *cx, pare_arena *a, const char *first,
                                         const char *second, pare_stats_diff *out);

#endif
