/* What the parts of the estimate of a job's time share. */
#ifndef PARE_COMPRESS_PLAN_PLAN_TIME_INTERNAL_H
#define PARE_COMPRESS_PLAN_PLAN_TIME_INTERNAL_H

#include "compress/plan/plan.h"
#include "compress/plan/plan_time.h"
#include "runtime/count.h"

/* Time of norms, positions and activation functions beside that of products. */
#define PARE_BESIDE_PRODUCTS 1.1

/* What is the same for all phases. */
typedef struct pare__estimate {
    pare_ctx *cx;
    const pare_plan *plan;
    const pare_settled *settled;
    pare_plan_rates rate;
    double threads;
    double *phase, *samples;
} pare__estimate;

/* Seconds that an amount takes; 0 where there is no rate of it. */
static inline double pare__over(double amount, double rate)
{
    return amount > 0 && rate > 0 ? amount / rate : 0;
}

static inline double pare__parallel(const pare__estimate *e, double rate)
{
    return rate * e->threads;
}

/* What mixes tokens. */
static inline double pare__mixing_of(const pare_work *w)
{
    return w->attend + w->scan;
}

/* What all tokens do in the blocks, without experts. */
static inline double pare__common_of(const pare_work *w)
{
    return w->products[PARE_WORK_COMMON] + pare__mixing_of(w);
}

/* Tokens of a text or a file of tokens. */
double pare__tokens_in(const pare__estimate *e, uint64_t bytes, bool text);

/* Operations of a token of a window, on average, in all blocks up to a site and in the head. */
PARE_CHECKED pare_status pare__work_of(const pare__estimate *e, const pare_config *c, size_t window,
                                       pare_site last, pare_work *w);

/* Adds what the recipe evaluates, both models. */
PARE_CHECKED pare_status pare__estimate_evaluations(pare__estimate *e);

#endif
