/* prune/sparsegpt.h - SparseGPT: weights that cost least go, and the rest makes up for them.
 *
 * What the loss of w_ij costs the output of the linear, once the weights behind it are adjusted, is
 * w_ij^2 / (2 U_jj^2), H^-1 = U^T U: the sweep of solve/compensate.h with a sparsity. The joint
 * method rounds what stays in the same sweep, so that losses and roundings are made up for alike.
 * Source: Frantar and Alistarh, ICML 2023, Algorithm 1 and section 3.5. */
#ifndef PARE_PRUNE_SPARSEGPT_H
#define PARE_PRUNE_SPARSEGPT_H

#include "solve/compensate.h"

typedef struct pare_sparsegpt_opts {
    size_t block; /* columns whose weights are compared, unstructured; 128 */
    const pare_sparsity *sparsity;
    const pare_grid *grid; /* of what stays, for the joint method; NULL: keeps its value */
    const float *cost; /* [k] what goes has the least |w_j| cost_j (prune/isc.h); NULL: 1 / U_jj */
} pare_sparsegpt_opts;

/* Prunes W given the factor of its H: pare_compensate_run; what it says holds here.
 *
 *   w     [n, k] f32; without a grid the result, with one destroyed
 *   out   with a grid: planes from pare_codes_take for it; written. Without: NULL
 *   loss  NULL, or the sum of (w_j - q_j)^2 / (2 U_jj^2) over the matrix in double; written */
PARE_CHECKED pare_status pare_sparsegpt_prune(pare_ctx *cx, pare_arena *scratch,
                                              const pare_sparsegpt_opts *opts,
                                              const pare_factor *factor, float *w, size_t n,
                                              size_t k, pare_codes *out, double *loss);

#endif
