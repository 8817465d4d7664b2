/* compress/budget/budget.h - the step `budget` of a recipe: which setting each linear gets, by
 * measured KL, in so many bits, bytes or
 * seconds for a token.
 *
 *   1. OUTPUT.variants/base: the recipe with gptq in 4 bits in place of the step, an ordinary job.
 *      While the statistics of a linear are in memory it is quantized with every setting; codes
 *      go to OUTPUT.variants/SETTING, errors to a journal (budget_store.c). One calibration for
 *      all.
 *      With tokens_s the kernels are timed here (budget_speed.c).
 *   2. KL of the output when one linear has one setting and all else is float (budget_measure.c).
 *   3. The KL of the others by their errors; one setting for each unit (budget_choose.h).
 *   4. The KL of the choice and of the best single setting that fits, both out of the store, on
 *      windows held out: the better one is taken.
 *   5. The job of the recipe that it comes to. Another budget begins at 3.
 *
 * Killed, it goes on where it was: 1 and 5 block by block, 2 block by block. Deterministic. */
#ifndef PARE_COMPRESS_BUDGET_BUDGET_H
#define PARE_COMPRESS_BUDGET_BUDGET_H

#include "compress/run/job_events.h"

/* How a job without such a step runs: pare_compress. */
typedef pare_status pare_job_runner(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                    const pare_events *events, pare_compress_result *out);

/* A step that is searched for: budget, or one that asks for the speed of widths (widths.c). */
bool pare_budget_is_step(const pare_step *step);

/* Whether the recipe of the job has such a step. PARE_EUSAGE for a recipe that cannot be read. */
PARE_CHECKED pare_status pare_budget_asked(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                           bool *asked);

/* What the search would refuse of a recipe before it makes anything: PARE_EUSAGE with its place,
 * and the statuses of pare_plan_make. A job without such a step passes. */
PARE_CHECKED pare_status pare_budget_check(pare_ctx *cx, pare_arena *a, const pare_job *job);

/* The search, and the job of what it chose. PARE_EUSAGE with the place in the recipe, also for a
 * budget below the least possible, which is named; PARE_EEXISTS for variants of another job, with
 * out->other where --restart makes them anew; and the statuses of `runner`. */
PARE_CHECKED pare_status pare_budget_compress(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                              const pare_events *events, pare_job_runner *runner,
                                              pare_compress_result *out);

#endif
