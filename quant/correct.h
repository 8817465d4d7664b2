/* quant/correct.h - what a linear makes up for when its inputs are no longer those of the float
 * model.
 *
 * Objective: |Q y - W x|^2 over the tokens, y the inputs behind compressed blocks, x those of the
 * float model. With H = sum y y^T + lambda I = (U^T U)^-1 and D = sum (x - y) y^T (calib/drift.h)
 * it is, up to a constant, |(Q - W*) y|^2 with
 *
 *     W* = W + share W D H^-1
 *
 * and share = 1. A share below 1 trusts the calibration less. Two ways to sweep towards it:
 *
 *     gptaq    P = share triu(D U^T, 1) U, and the sweep gives w_j P_ji to the columns i behind j:
 *              only what later columns can make up for. Its paper: share 0.25.
 *     qronos   the first column is rounded as w_0 + share (W D)_0 / H_00, its best value with the
 *              others as they are; the rest goes on from W*. Its paper: share 1.
 *
 * A quantizer with a search of its own quantizes W* in the place of W: `block` 0.
 *
 * y must be what the linear will get: the sites of a block one by one. Were o_proj given the drift
 * of before v_proj made up for its own, it would make up for the same once more, block after block.
 * Sources: Li et al., GPTAQ, ICML 2025 (arXiv 2504.02692), Algorithm 1, and its program for the
 * share; Zhang et al., Qronos, 2025 (arXiv 2505.11695), Algorithm 1: its second step, the least of
 * the objective over the other columns with the first one rounded, is a step of the sweep from W*.
 * Qronos damps by 1e-6 of the largest eigenvalue of H; here lambda is the factor's. */
#ifndef PARE_QUANT_CORRECT_H
#define PARE_QUANT_CORRECT_H

#include "calib/drift.h"
#include "solve/compensate.h"

typedef enum pare_correct {
    PARE_CORRECT_NONE,
    PARE_CORRECT_GPTAQ,
    PARE_CORRECT_QRONOS
} pare_correct;

/* For all linears of a site. */
typedef struct pare_correction {
    size_t k;
    pare_drift *aim;   /* [k, k] share D H^-1: W* = W + W aim; in the place of D; NULL: none */
    pare_upper spread; /* [k, k] P at the positions of the factor; for a sweep by gptaq only */
    float *first;      /* [k] what the first column is rounded as: w_0 + W first; by qronos only */
} pare_correction;

typedef struct pare_correction_opts {
    pare_correct method; /* not NONE */
    float share;         /* of the drift that is made up for, 0 to 1 */
    size_t block;        /* of the sweep; 0: there is none, only the aim is made */
} pare_correction_opts;

/* Makes it.
 *
 *   factor  of H; one that did not fail
 *   d       drift [k, k], in memory or in its file, rows x - y, columns y, in the order of the
 *           original columns; becomes the aim
 *   out     in `scratch`, but for the aim
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_EIO.   Memory  pare_correction_bytes for good, the upper
 * triangle for a sweep by gptaq; while it is made also pare_correction_scratch.   Work  k^3
 * multiply-adds, 4/3 k^3 for that sweep.   Threads over columns. Exact: on every CPU, any thread
 * count. */
PARE_CHECKED pare_status pare_correction_make(pare_ctx *cx, pare_arena *scratch,
                                              const pare_correction_opts *opts,
                                              const pare_factor *factor, pare_drift *d,
                                              pare_correction *out);

/* W* of w [n, k]; aim [n, k] is written. Columns that the factor calls dead count as 0. From a file
 * it takes 256 k floats of `scratch`. PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare_correction_aim(pare_ctx *cx, pare_arena *scratch,
                                             const pare_correction *c, const float *w, size_t n,
                                             float *aim);

/* What the first column of w [n, k] is rounded as: start [n]; `column` is the factor's first. */
void pare_correction_start(const pare_correction *c, const float *w, size_t n, size_t column,
                           float *start);

size_t pare_correction_bytes(pare_correct method, size_t block, size_t k);
size_t pare_correction_scratch(size_t k);

#endif
