/* compress/cli/eta.h - how far a job is, and how long it will still take: what was expected of each
 * phase, put right by what was measured. Pure: the clock is an argument. */
#ifndef PARE_COMPRESS_ETA_H
#define PARE_COMPRESS_ETA_H

#include "runtime/context.h"

typedef struct pare_eta {
    pare_phase *phase; /* of the job, which keeps them */
    size_t phases;     /* 0: nobody said what the job comes to */
    double rate;       /* of their amounts in a second; 0: not known in front */
    size_t now;        /* the phase at work; `phases`: none yet */
    double began;      /* of the step at work, seconds of the clock */
    double shown;      /* the largest share that was said */
} pare_eta;

void pare_eta_begin(pare_eta *e, pare_phase *phase, size_t phases, double rate);

/* The phase of that name behind the one at work, or e->phases. */
size_t pare_eta_find(const pare_eta *e, const char *name);

/* A step of phase number `phase` begins; the step before it is done, phases between are left out.
 */
void pare_eta_step(pare_eta *e, size_t phase, double now);

/* Seconds left of the job. `share`: of the step at work that is done, 0 where that is not known.
 * Negative when nobody said what the job comes to, and without a rate until something is measured.
 */
double pare_eta_left(const pare_eta *e, double now, double share);

/* Share of the job's time that is over, 0 .. 1, with pare_eta_left. Never less than before: a job
 * that takes longer than thought stands still. */
double pare_eta_share(pare_eta *e, double now, double left);

#endif
