/* compress/plan/variants.h - what else is made of the linears that a job quantizes, while their
 * statistics are in memory. */
#ifndef PARE_COMPRESS_PLAN_VARIANTS_H
#define PARE_COMPRESS_PLAN_VARIANTS_H

#include "compress/passes/pass.h"

/* Functions that a job calls. Memory from `scratch` is given back. */
typedef struct pare_variants {
    void *self;
    size_t bytes; /* of scratch that they take beside that of the job's own step, at most */
    const pare_step *step; /* that asks for them: its cost is that of a linear with all of them */
    /* Once, in front of the blocks: an earlier run did the first `found`. */
    pare_status (*begin)(void *self, size_t found);
    /* linear `index` of the plan, in front of its quantizer; w is read only, codes and result are
     * NULL, the state of the site is that of the job's step. */
    pare_status (*linear)(void *self, size_t index, const pare_pass_linear *linear,
                          pare_arena *scratch);
    /* A block is done: what was made of it is durable when this returns; then the job's own is. */
    pare_status (*block)(void *self, size_t block);
} pare_variants;

#endif
