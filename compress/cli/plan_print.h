/* compress/cli/plan_print.h - a plan as people and programs read it. */
#ifndef PARE_COMPRESS_PLAN_PRINT_H
#define PARE_COMPRESS_PLAN_PRINT_H

#include "compress/cli/cli.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/plan_time.h"

/* Says that the disk was not measured; takes the reason. */
#define PARE__PLAN_DISK "the disk was not measured, so its time is not in the plan: %s"

/* True when compress would refuse to replace what lies there. */
bool pare__plan_is_taken(const pare_plan *p);

/* Name of the pass of a step. */
const char *pare__plan_pass(const pare_plan *p, size_t step);

/* What `correct` of a step comes to, as recipes write it, in `text`; NULL: it has none. */
const char *pare__plan_correct(const pare_plan *p, size_t step, char *text, size_t size);

/* Whether no model of the plan can keep to it: the files are larger. */
bool pare__plan_larger(const pare_plan *p, const pare_requirement *r);

/* Whether exports will have the bytes that the plan says: with a smaller checkpoint in front that
 * is not there they are those of the model in its place, with widths for a speed the most. */
bool pare__plan_exports_exact(const pare_plan *p);

/* The linears, or the tensors of a structured plan; `all`: one line for each. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__plan_print_list(pare_arena *a, const pare_plan *p, bool all);

/* The list and everything else; size [p->recipe.fallbacks]. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__plan_print_text(pare_arena *a, const pare_plan *p,
                                               const pare_plan_estimate *time,
                                               const pare_fallback_size *size, bool all);

/* One object of the last of the jobs, whose fallbacks `size` is of, each linear by itself; the one
 * in front of it as a member. PARE_ENOMEM, PARE_EIO. */
PARE_CHECKED pare_status pare__plan_print_json(pare_cli *cli, const pare_plan *p,
                                               const pare_plan_estimate *time, size_t jobs,
                                               const pare_fallback_size *size);

/* Temporary data of the job in pare_scratch_directory(): weights that are not viewed in place. */
static inline uint64_t pare__plan_temporary(const pare_plan *plan)
{
    return plan->checkpoint.scratch.reserved + plan->original_checkpoint.scratch.reserved;
}

#endif
