/* compress/plan/plan_reap.h - a plan whose model loses experts: what is copied, what is cut. */
#ifndef PARE_COMPRESS_PLAN_PLAN_REAP_H
#define PARE_COMPRESS_PLAN_PLAN_REAP_H

#include "compress/plan/plan.h"

static inline bool pare_plan_reaps(const pare_plan *plan)
{
    return plan->out.experts < plan->model.config.experts;
}

/* Whether a step counts tokens in place of what experts add. */
bool pare_plan_reaps_by_tokens(const pare_plan *plan);

/* Whether what holds all experts holds codes of another program, which stay as they are. */
bool pare_plan_copies_codes(const pare_plan *plan);

/* Whether a tensor has as many pieces, along its first side, as its block has experts: the
 * router's, and one that holds all experts. */
bool pare_plan_has_pieces(const pare_plan *plan, const char *tensor, size_t *block);

/* A step that takes the share of the experts out, into out.experts. PARE_EUSAGE (with place). Then
 * (pare_plan_reaps): whether a tensor of the checkpoint is left out of what is written, by the
 * number of its expert or because what holds all experts stands for it; the shape of one that has a
 * piece for each expert; the memory of the walk that scores them. */
PARE_CHECKED pare_status pare__plan_reap(pare_ctx *cx, pare_plan *plan, size_t step, double share);
bool pare__plan_expert_goes(const pare_plan *plan, const char *tensor);
void pare__plan_cut_experts(const pare_plan *plan, pare_tensor *t);
uint64_t pare__plan_reap_bytes(const pare_ctx *cx, const pare_plan *plan);

#endif
