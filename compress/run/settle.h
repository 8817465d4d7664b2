/* compress/run/settle.h - what a look at the float model decides before the first block is
 * compressed: how much each linear loses where a rule shares that out, and how many of its columns
 * are kept apart. Until then a plan knows bounds only (plan->ratios). */
#ifndef PARE_COMPRESS_RUN_SETTLE_H
#define PARE_COMPRESS_RUN_SETTLE_H

#include "calib/stats.h"
#include "compress/plan/plan.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* The quantizer of a linear when it says how many columns are kept apart; else NULL. */
static inline const pare_pass *pare_plan_chooses_columns(const pare_plan *plan,
                                                         const pare_plan_linear *l)
{
    const pare_pass *const pass = pare_passes[plan->recipe.step[l->step].pass];
    return l->quantized && pass->columns ? pass : NULL;
}

/* What the float model showed of each entry of plan->linear, for a plan with `ratios`. */
typedef struct pare_plan_found {
    double *ratio;   /* of what a rule prunes */
    size_t *columns; /* kept apart, where pare_plan_chooses_columns */
} pare_plan_found;

/* Files are laid out anew by it, and packed_bytes and bits_per_weight are exact. All other linears
 * stay as they are. PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_plan_settle(pare_ctx *cx, pare_arena *a, pare_plan *plan,
                                          const pare_plan_found *found);

/* What the rules of steps that share out their ratios come to, how many columns the linears keep
 * apart, and the layout of the files that follows. Moves the wave through the float model: it must
 * be filled anew. For a plan with ratios. */
PARE_CHECKED pare_status pare__run_ratios(pare_run *run);

/* How many columns the linears of a part of a block keep apart, by statistics of the float model:
 * columns[index in plan.linear], where the quantizer lets calibration decide. The same of all
 * experts of the block that was loaded, which takes passes of the wave of its own: PARE_ENOMEM, and
 * what the wave returns. Then what it came to is told. */
void pare__run_count_columns(const pare_run *run, size_t block, size_t part,
                             const pare_stats *stats, size_t *columns);
PARE_CHECKED pare_status pare__run_expert_columns(pare_run *run, size_t block, size_t *columns);
void pare__run_tell_columns(pare_run *run);

#endif
