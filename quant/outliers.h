/* quant/outliers.h - input columns kept apart at higher precision, the rest in few bits.
 *
 * LLM.int8(): columns whose inputs are large stay in F16, the rest is int8 with a scale per row.
 * Atom: the columns stay in int8 with a scale per row, the rest is int4 in groups; codes come from
 * the sweep of GPTQ with these columns at its end, where they take up the errors of the rest.
 * LLM.int8() looks at each input while the model runs; here calibration decides, once: a column is
 * kept apart when some input of the calibration reached the threshold in it. Atom keeps a number of
 * columns that the recipe says. Either takes those with the largest scores, of equal ones the
 * first. In the rest a column that was moved out counts as zeros and does not widen a grid.
 *   Source  Dettmers et al., NeurIPS 2022, section 3; Zhao et al., MLSys 2024, section 4. */
#ifndef PARE_QUANT_OUTLIERS_H
#define PARE_QUANT_OUTLIERS_H

#include "quant/gptq.h"

typedef struct pare_outlier_opts {
    size_t columns; /* kept apart, at most k */
    bool int8;      /* code = clamp(rint(w / s), -127, 127), s = f16(max |w| / 127) of the row over
                       the columns; else F16 */
} pare_outlier_opts;

/* Columns whose max |x| [k] is at least `threshold`; but at most ceil(share k), share 0 .. 1. */
size_t pare_outliers_above(const float *absmax, size_t k, double threshold, double share);

/* Quantizes W to the nearest codes.
 *
 *   grid   of the rest: UNIFORM, symmetric
 *   score  [k] >= 0: max |x| or sum x^2 of each column
 *   w      [n, k] f32; moved columns become 0
 *   out    made: its planes are taken from `arena`
 *
 * Returns PARE_OK, what pare_rtn_quantize returns, PARE_EINVAL (columns above k, a score that is
 * NaN), PARE_ENUMERIC when a weight kept apart is not finite or does not fit F16, PARE_ENOMEM.
 * Memory  k x 8 bytes from `arena`, given back.   Work  that of round to nearest.   Exact. */
PARE_CHECKED pare_status pare_outliers_quantize(pare_ctx *cx, pare_arena *arena,
                                                const pare_outlier_opts *opts,
                                                const pare_grid *grid, const float *score, float *w,
                                                size_t n, size_t k, pare_codes *out);

/* Quantizes W by GPTQ; the columns kept apart, in int8, are the factor's last (factor->apart).
 * `out` is made as above; scratch comes from `arena` as well. What pare_gptq_quantize returns. */
PARE_CHECKED pare_status pare_outliers_gptq(pare_ctx *cx, pare_arena *arena,
                                            const pare_gptq_opts *opts, const pare_grid *grid,
                                            const pare_factor *factor, float *w, size_t n, size_t k,
                                            pare_codes *out);

#endif
