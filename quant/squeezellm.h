/* quant/squeezellm.h - a codebook per row, placed by sensitivity, and a few weights kept apart.
 *
 *   minimize  sum over a row of s_j (w_j - book[code_j])^2      s_j = H_jj + 1% of their mean
 *
 * The paper weighs with squared gradients of the loss; here s is the diagonal of H = X X^T, which
 * is what calibration gives: the same for all rows. Its share of the mean keeps the books of dead
 * columns sensible. The codebooks are optimal (quant/kmeans.h), then rounded to F16.
 *
 * Kept apart, in F16: ceil(fraction n k) weights, in the paper's proportion: 8 of 9 by magnitude
 * |w| over the matrix, the rest by s_j (w - q)^2, the loss they cause when coded. Equal ones by
 * row, then column. Codebooks are made without them. The sparse value is what the code of the
 * weight leaves over, so that code and value add up.
 *   Source  Kim et al., ICML 2024, sections 4.1 and 4.2. */
#ifndef PARE_QUANT_SQUEEZELLM_H
#define PARE_QUANT_SQUEEZELLM_H

#include "solve/grid.h"

typedef struct pare_squeezellm_opts {
    unsigned bits;   /* 3, 4 */
    double fraction; /* 0.0045 of the weights are kept apart; 0 .. 0.5 */
} pare_squeezellm_opts;

/* Number of weights kept apart: ceil(fraction n k), the same for every platform. */
size_t pare_squeezellm_count(double fraction, size_t n, size_t k);

/* Codebooks of all rows.
 *
 *   sensitivity  [k], >= 0; NULL: every weight counts the same
 *   skip         [n, k] 1: leave the weight out; or NULL
 *   w            [n, k] f32; read
 *   book         [n, 2^bits], ascending in a row, F16-exact; written
 *
 * Returns PARE_OK, PARE_ENOMEM, PARE_ENUMERIC when a weight is not finite or a center is above
 * 65504. Memory  per worker k x 120 bytes from `scratch`, given back. Threads over rows. */
PARE_CHECKED pare_status pare_squeezellm_books(pare_ctx *cx, pare_arena *scratch, unsigned bits,
                                               const float *sensitivity, const uint8_t *skip,
                                               const float *w, size_t n, size_t k, float *book);

/* Quantizes W. `out` is made: its planes are taken from `arena`; scratch comes from there as well
 * (n k x 5 bytes and that of the codebooks) and is given back. PARE_EINVAL: bits or fraction;
 * PARE_ENUMERIC also when a sparse value does not fit F16. */
PARE_CHECKED pare_status pare_squeezellm_quantize(pare_ctx *cx, pare_arena *arena,
                                                  const pare_squeezellm_opts *opts,
                                                  const float *sensitivity, const float *w,
                                                  size_t n, size_t k, pare_codes *out);

#endif
