/* calib/support.h - how much statistics rest on: whether a calibration says enough of the inputs of
 * a linear for a method that trusts it. */
#ifndef PARE_CALIB_SUPPORT_H
#define PARE_CALIB_SUPPORT_H

#include <stdbool.h>

#include "runtime/arena.h"

/* Two numbers decide, because each is blind to what the other one sees.
 *
 * The rank says how many directions the inputs have at all. Tokens that repeat, or that differ by
 * rounding only, add nothing to it: of a text of one word it is 1, however long the text is.
 *
 * The effective samples say how many tokens the size of a column rests on:
 *
 *   of column j   (sum_t x_tj^2)^2 / sum_t x_tj^4       (Kish's effective sample size, the tokens
 *                                                       weighted by their energy in the column)
 *
 * and of the site the median over the columns that are not 0 (the lower one of two). Of n tokens
 * that are equally loud it is n, of normal ones n / 3; it never exceeds n. A token with hundreds of
 * times the mean energy drowns the others in the few columns in which it is loud: these have about
 * one effective sample, the others, and so the median, all of theirs. The same formula over the
 * energies of whole tokens would say that such a calibration has a few samples in all, and the
 * methods still make good use of it.
 *
 * Two more are for who reads the table of linears, and decide nothing. The effective rank tells how
 * evenly the energy of the inputs is spread over directions:
 *
 *   (tr H)^2 / |H|_F^2 = (sum of eigenvalues)^2 / (sum of their squares)     (participation ratio)
 *
 * k when all are alike, 1 when one outweighs the others. And the share of the loudest token in the
 * energy of all of them says whether it is that one. */
typedef struct pare_support {
    bool known;      /* there is an H, of finite numbers; otherwise only `loudest` is of meaning */
    uint64_t tokens; /* seen; also where no H is gathered since they are too few */
    size_t columns;  /* with some input that is not 0 */
    size_t rank;     /* of H, see pare_support_of; at most tokens and columns */
    double effective;
    double effective_rank; /* at most columns; 0: no column */
    double loudest;        /* share of the energy in the loudest token; 0: not measured, or none */
} pare_support;

/* Columns that the rank is looked for in. */
enum { PARE_SUPPORT_COLUMNS = 512 };

/* Scratch for a Hessian of k columns: m (4 m + 12) + 4 k bytes and their alignment, with the m that
 * is explained below. */
uint64_t pare_support_bytes(size_t k);

/* What H [k, k] (lower triangle, the sum of x x^T over `tokens`) rests on; `loudest` stays 0.
 *
 *   fourth  [k] sums of x^4; overwritten
 *
 * The rank is numerical: H_ij / sqrt(H_ii H_jj), where no column is louder than another, goes
 * through Cholesky with pivoting, until each column that is left has less than 1e-4 of its energy
 * that the chosen ones do not explain (rounding of H makes up to 1e-5). It is looked for in
 * m = min(columns, PARE_SUPPORT_COLUMNS) columns that are evenly spread: as large as that of H as
 * long as it is below m, unless the others differ in kind. When it is m, it counts as
 * min(columns, tokens), the most it can be. H with a number that is not finite: known is false, for
 * what needs H will say so by itself.
 *
 * PARE_ENOMEM. Memory pare_support_bytes(k) of `scratch`, given back. Work m r^2 + k^2 / 2 on one
 * thread. Exact: the same bytes on every CPU.
 * Source   Kish, Survey Sampling, 1965, section 8.2; Higham, Accuracy and Stability of Numerical
 * Algorithms, section 10.3. */
PARE_CHECKED pare_status pare_support_of(pare_arena *scratch, const float *h, double *fourth,
                                         size_t k, uint64_t tokens, pare_support *out);

#endif
