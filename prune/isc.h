/* prune/isc.h - ISC: sensitivity tells how much of a matrix goes, and a second cost which weights.
 *
 * Sensitivity of a matrix is the mean of the diagonal of H, the Hessian of half the squared error
 * of the matrix's outputs: what an equal change of every weight does to them. Matrices are ranked
 * by it, and what stays of them rises linearly with the rank (prune/ratios.h). Linears of one site
 * have the same inputs and so the same sensitivity; of equals the first has the lower rank.
 *
 * What w_j costs is the sum of what it costs while the others stay as they are (OBD) and of what it
 * costs once they are adjusted (OBS): w_j^2 (H_jj + 1 / U_jj^2), H damped, H^-1 = U^T U.
 *
 * Source: Shao, Liu and Qian, ICASSP 2024 (arXiv:2310.09499). The paper's sensitivity is the trace
 * of the Hessian of the model's loss, estimated by Hutchinson; taken here is that of the matrix's
 * own output, which the authors' program keeps beside it and which needs no gradient. The program
 * adds 1 / U_jj, which is of another unit than H_jj, so that what goes depends on how H is scaled.
 * Its ranks take ratios 0.1 below to 0.1 above the mean at one half; matrices weigh alike there,
 * here by their weights, which shifts the ratios within the band. */
#ifndef PARE_PRUNE_ISC_H
#define PARE_PRUNE_ISC_H

#include "prune/ratios.h"
#include "solve/factor.h"

/* Mean of the diagonal of H [k, k] f32. PARE_ENUMERIC when it is negative or not finite somewhere,
 * by the input. Work O(k); Exact. */
PARE_CHECKED pare_status pare_isc_sensitivity(pare_ctx *cx, const float *h, size_t k, double *out);

/* Importances become their ranks, 0 to count - 1; of equal ones the first is lower. What
 * pare_ratios_spread makes of them follows from the order of the importances alone.
 *
 * PARE_ENOMEM. Memory  count x 16 bytes from `scratch`, given back.   Work  O(count log count).
 * Not threaded; Exact. */
PARE_CHECKED pare_status pare_isc_rank(pare_arena *scratch, pare_ratio *r, size_t count);

/* The roots of the costs of a weight of 1: cost_j = sqrt(H_jj + lambda + 1 / U_jj^2), for
 * pare_compensate.
 *
 *   factor    of H, with u
 *   diagonal  [k] of H, not damped, in the order of columns
 *   cost      [k] in the order of positions; written
 *
 * Work  O(k). Not threaded; Exact as the factor. */
void pare_isc_costs(const pare_factor *factor, const float *diagonal, float *cost);

#endif
