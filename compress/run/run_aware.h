/* compress/run/run_aware.h - codes that are trained, between the walks over the blocks: from what a
 * quantizer chose to masters and steps, and from trained values to codes.
 *
 * Steps are the scales [n, groups] and behind them the zero points [n, groups] of a linear, as
 * floats; of EXL3 the scales of rows [n] and columns [k], and behind them the codes [n, k] as
 * bytes. */
#ifndef PARE_COMPRESS_RUN_RUN_AWARE_H
#define PARE_COMPRESS_RUN_RUN_AWARE_H

#include "compress/plan/plan_walks.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Room for the steps of a linear in `scratch`; NULL without a failure where it has none. */
PARE_CHECKED pare_status pare__aware_steps_take(pare_run *run, const pare_plan_linear *l,
                                                float **steps);

/* Steps of codes; and back into codes that were taken. */
void pare__aware_steps_of(const pare_codes *c, float *steps);
void pare__aware_steps_to(const float *steps, pare_codes *c);

/* Codes of w [n, k] on the grid of these steps, in `scratch`. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__aware_codes(pare_run *run, const pare_plan_linear *l, const float *w,
                                           const float *steps, pare_codes *out);

/* Masters [n, k] become the values that their codes stand for. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__aware_values(pare_run *run, const pare_plan_linear *l,
                                            const float *steps, float *w);

/* Weights w [n, k], for which a quantizer chose codes, become masters, 0 where they were pruned. */
void pare__aware_masters(pare_run *run, const pare_plan_linear *l, const pare_codes *c, float *w);

/* PARE_EINVAL when what is stored of a linear, q [n, k], is not what was trained. */
PARE_CHECKED pare_status pare__aware_check(pare_run *run, const pare_plan_linear *l,
                                           const float *trained, const float *q);

#endif
