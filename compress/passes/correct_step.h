/* compress/passes/correct_step.h - what quantizers share that make up for what earlier linears lost
 * (quant/correct.h): values of their parameters `correct` and `alpha`, and a drift to work in. */
#ifndef PARE_COMPRESS_PASSES_CORRECT_STEP_H
#define PARE_COMPRESS_PASSES_CORRECT_STEP_H

#include "compress/passes/pass.h"
#include "quant/correct.h"

enum { PARE_CORRECT_AUTO = -1 }; /* none, until `decide` knows the other steps */

/* The method that a value of `correct` stands for. */
pare_correct pare_correct_of(double choice);

/* Settles a value that says auto: gptaq where the step can have it, else none. */
void pare_correct_decide(double *choice, bool can);

/* The share of the drift to make up for; alpha 0: as in the papers. */
float pare_correct_share(pare_correct method, double alpha);

/* D of a site to work in: a copy in `scratch` where other steps need it, too. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_correct_drift(pare_arena *scratch, const pare_site_stats *stats,
                                            pare_drift *out);

#endif
