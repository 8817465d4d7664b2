/* quant/billm.h - binary weights: signs, and a few magnitudes per row and block of columns.
 *
 * Blocks of 128 columns from left to right; for each, with the weights as they then stand:
 *   1. salience of column j: sum over rows of w_ij^2 / U_jj^2, with H^-1 = U^T U
 *   2. of the first 0 .. 50 columns in that order (at most half of the block) as many are salient
 *      as make |W - B|^2 least, B being a sign with one magnitude per row, and for salient columns
 *      the same once more for what is left over
 *   3. per row: the salient columns get first = mean |w| and second = mean | |w| - first |; the
 *      others are split by magnitude where the squared error is least, each part with its mean
 *   4. columns in order take the nearest of their four values; the error moves on to later columns
 *      of the block and, when it ends, to all behind it, as in GPTQ
 *
 * The paper shares one break point between the rows of a block and searches it over a line; here
 * every row has the best of all its break points, which costs nothing to store. It takes the signs
 * before any error has moved; here they are taken in the sweep. What is stored is 2 bits per
 * weight and 4 magnitudes per row and block: the paper's 1.1 bits count neither its membership
 * bitmaps nor its magnitudes.
 *   Source  Huang et al., ICML 2024, algorithms 1 and 2. */
#ifndef PARE_QUANT_BILLM_H
#define PARE_QUANT_BILLM_H

#include "solve/factor.h"
#include "solve/grid.h"

enum { PARE_BILLM_BLOCK = 128, PARE_BILLM_SALIENT = 50 };

/* The grid whose planes pare_codes_take takes. */
pare_grid pare_billm_grid(void);

/* Quantizes W.
 *
 *   factor  in natural order (act_order false)
 *   w       [out->n, out->k] f32; destroyed
 *   out     planes from pare_codes_take with pare_billm_grid(); written
 *
 * Returns PARE_OK, PARE_EINVAL (a factor that failed or is ordered), PARE_ESHAPE, PARE_ENUMERIC
 * when a weight is not finite, a magnitude is above 65504 or the compensated weights overflow;
 * PARE_ENOMEM. Memory  n / 128 x 1.5 KiB from `scratch`, given back.   Work  as GPTQ.   Threads
 * over tiles of 128 rows; same bytes for any number, Exact as the factor. */
PARE_CHECKED pare_status pare_billm_quantize(pare_ctx *cx, pare_arena *scratch,
                                             const pare_factor *factor, float *w, pare_codes *out);

#endif
