/* prune/ziplm.h - ZipLM: inputs of a matrix go one after the other, and those left make up for
 * each.
 *
 * Source: Kurtic et al., "ZipLM: Inference-Aware Structured Pruning of Language Models", NeurIPS
 * 2023, algorithm 1 for columns. With G = H^-1 of the inputs that are left, input j costs
 *
 *     E_j = |W_:j|^2 / G_jj
 *
 * in tr((W - W') H (W - W')^T), the least that any change of the others can make it. The cheapest
 * goes (of equals the lower), and
 *
 *     W -= W_:j G_j: / G_jj      G -= G_:j G_j: / G_jj
 *
 * H is damped as for GPTQ (solve/factor.h, 0.01), and the damping is part of the costs. */
#ifndef PARE_PRUNE_ZIPLM_H
#define PARE_PRUNE_ZIPLM_H

#include <stdint.h>

#include "runtime/arena.h"

/* Takes inputs out until `kept` are left.
 *
 *   w     [n, k]; columns that went become +0, the others what makes up for them
 *   h     [k, k], lower triangle; not changed
 *   keep  [k]; written: 1 for those that stay; or NULL
 *   lost  [k - kept + 1]; written: the sum of the costs when so many went; lost[0] = 0
 *
 * 1 <= kept <= k. PARE_ENOMEM; PARE_ENUMERIC where H is not finite or has no factor. Scratch is
 * given back: pare_ziplm_bytes. G and costs in double, W in float. Work: for each input that goes
 * 2 (n + k) times those that are left, and k^3 / 3 for G. Threads over columns and rows; Exact. */
PARE_CHECKED pare_status pare_ziplm_prune(pare_ctx *cx, pare_arena *scratch, float *w, float *h,
                                          size_t n, size_t k, size_t kept, uint8_t *keep,
                                          double *lost);

/* Scratch of it, at most; and its work. */
uint64_t pare_ziplm_bytes(size_t n, size_t k);
double pare_ziplm_flops(size_t n, size_t k, size_t kept);

#endif
