/* compress/plan/fallback_sizes.h - what the fallbacks of a recipe come to. */
#ifndef PARE_COMPRESS_PLAN_FALLBACK_SIZES_H
#define PARE_COMPRESS_PLAN_FALLBACK_SIZES_H

#include "compress/plan/plan_time.h"

/* What a fallback comes to. */
typedef struct pare_fallback_size {
    uint64_t bytes; /* of its packed files */
    double bits_per_weight;
    const char *known_once; /* they are the most until then (pare_plan_known_once); or NULL */
    bool larger;            /* than is required */
    bool first;             /* to run: the recipe itself writes nothing for certain */
    uint64_t left;          /* bytes of memory that an attempt before it, like it, leaves */
    uint64_t memory, disk;  /* bytes that it allocates, and writes while it runs, at most */
} pare_fallback_size;

/* Whether it writes nothing for certain. */
static inline bool pare_fallback_infeasible(const pare_fallback_size *x)
{
    return x->larger && !x->known_once;
}

/* The most of what a job takes whose attempts are these, behind the recipe's own or, where that
 * writes nothing for certain, in place of it; *memory and *disk are those of the recipe. */
void pare_plan_fallback_most(const pare_fallback_size *size, size_t count, bool in_place,
                             uint64_t *memory, uint64_t *disk);

/* Marks the first to run where the recipe itself writes nothing for certain. NULL: none can. */
pare_fallback_size *pare_plan_fallback_first(pare_fallback_size *size, size_t count);

/* How long a job takes whose attempt is this fallback. The statuses of pare_plan_make. */
PARE_CHECKED pare_status pare_plan_fallback_time(pare_ctx *cx, const pare_job *job,
                                                 const pare_texts *fallback,
                                                 pare_plan_estimate *out);

/* Plans each fallback of a recipe and of its job: [r->fallbacks]. The statuses of pare_plan_make,
 * with the place of the fallback that has no plan. */
PARE_CHECKED pare_status pare_plan_fallback_sizes(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                                  const pare_recipe *r, pare_fallback_size **out);

#endif
