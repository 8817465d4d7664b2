/* prune/reap.h - how much each expert of a mixture adds to what its block gives.
 *
 *   S_e = mean over the tokens t that the router sends to e of  g_e(t) ||f_e(x_t)||_2
 *
 * f_e  what the expert gives for the token; g_e  its weight in the sum of the block, as the model
 * uses it: after the norm over the picked experts and the scale, where the family has them (inward
 * routers: 1, since f_e holds what they scale). An expert without tokens has the score 0. The
 * lowest go.
 *
 * The authors' program takes for g_e the softmax over all experts; it makes those of the picked
 * ones sum to 1 only where the model does (norm_topk_prob) and renormalize_router_weights is set,
 * which it is not by default.
 *
 * Source  Lasby et al., "REAP the Experts: Why Pruning Prevails for One-Shot MoE Compression",
 *         ICLR 2026 (router-weighted expert activation pruning). */
#ifndef PARE_PRUNE_REAP_H
#define PARE_PRUNE_REAP_H

#include "runtime/forward.h"

/* Of one expert, token by token. */
typedef struct pare_reap {
    double sum;
    uint64_t tokens;
} pare_reap;

/* Adds what an expert gave, y [rows, k], row i for visit[i]. PARE_ENOMEM; scratch (8 bytes per row)
 * is given back. Threads over rows; exact: same bytes whatever the batch. */
PARE_CHECKED pare_status pare_reap_add(pare_ctx *cx, pare_arena *scratch, pare_reap *r,
                                       const pare_visit *visit, const float *y, size_t rows,
                                       size_t k);

double pare_reap_score(const pare_reap *r);

/* keep[e] = 1 for the `kept` experts with the highest scores: of all, or, with `groups` of equal
 * size that lie side by side, as many of each group. Of equal scores the lower expert goes first.
 * groups 0: there are none; kept is a multiple of them. PARE_ENUMERIC for a score that is negative
 * or not finite, PARE_ENOMEM. Scratch is given back. */
PARE_CHECKED pare_status pare_reap_choose(pare_ctx *cx, pare_arena *scratch, const double *score,
                                          size_t experts, size_t groups, size_t kept,
                                          uint8_t *keep);

#endif
