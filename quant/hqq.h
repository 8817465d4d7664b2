/* quant/hqq.h - HQQ: zero points that half-quadratic steps improve, from the weights alone. */
#ifndef PARE_QUANT_HQQ_H
#define PARE_QUANT_HQQ_H

#include "solve/grid.h"

/* Groups while HQQ improves them: value = (code - zero) step. */
typedef struct pare_hqq {
    unsigned bits;
    size_t group, groups; /* weights of a group (0: the row), groups of a row */
    bool whole;           /* zero points are whole numbers, and steps move */
    float *step, *zero;   /* [n, groups] */
    double *error;        /* [n], scratch */
} pare_hqq;

/* Looks for weights with few large errors: the least sum of |w - value|^0.7. It alternates, with
 * beta = 10, 10.1, ... (1 % more each round),
 *
 *   q = clamp(rint(w / step + zero), 0, 2^bits - 1),   e = w - (q - zero) step
 *   x = w - sign(e) max(0, |e| - |e|^-0.3 / beta)
 *   zero = mean(q - x / step)
 *
 * for 20 rounds at most; it stops after the round that began with a sum of |e| over the matrix not
 * below that of the round before. A step of 0 leaves its group as it is.
 *
 * whole: zero = clamp(rint(mean), 0, 2^bits - 1), after which step = sum x (q - zero) / sum (q -
 * zero)^2, the closed form for the step, unless F16 cannot hold it. A whole zero point alone hardly
 * ever moves.
 *
 *   w  [n, k] f32, finite; read       h  step and zero are the start; written
 *
 * Returns the rounds made.
 *
 * Memory   none beyond h.               Work   O(20 n k).
 * Threads  over rows.                   Exact  same bytes on every CPU.
 * Source   Badri and Shaji, 2023; constants and rule to stop of their program (hqq 0.2.5; in 0.2.8
 *          beta stays 10). Steps with whole zero points are ours: the method has zero points in
 *          floats and leaves the steps alone. */
size_t pare_hqq_solve(pare_ctx *cx, const pare_hqq *h, const float *w, size_t n, size_t k);

/* Quantizes W. It starts from the range of each group, widened to hold 0.
 *
 *   UNIFORM  groups of grid->group with whole zero points (the format has no others)
 *   Q4_K     sub-blocks of 32; the steps are D s of solve/super.h, s nearest to the range; their
 *            zero points are fractions and are stored as the nearest M o >= 0 to zero step
 *
 *   w    [n, k] f32, row-major; read
 *   out  planes from pare_codes_take; written
 *
 * Returns PARE_OK, or
 *   PARE_EINVAL    another grid, one that is symmetric or clips, or bits that do not go with it
 *   PARE_ESHAPE    as pare_grid_check
 *   PARE_ENUMERIC  a weight is not finite, or a scale is beyond F16; the message names the row, the
 *                  group (Q4_K: the sub-block) and the value
 *   PARE_ENOMEM
 *
 * Memory   from `scratch`: 4 n groups + 8 n bytes; Q4_K: 9 bytes per sub-block for the 4.
 * Work and exactness as above. Threads over rows; one thread turns the steps and zero points of
 * Q4_K into bytes. */
PARE_CHECKED pare_status pare_hqq_quantize(pare_ctx *cx, const pare_grid *grid, const float *w,
                                           size_t n, size_t k, pare_arena *scratch,
                                           pare_codes *out);

#endif
