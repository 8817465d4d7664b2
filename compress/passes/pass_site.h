/* compress/passes/pass_site.h - the inputs that a transform works on, and what folds into them. */
#ifndef PARE_COMPRESS_PASSES_PASS_SITE_H
#define PARE_COMPRESS_PASSES_PASS_SITE_H

#include "calib/stats.h"
#include "calib/wave.h"
#include "compress/artifact/result.h"
#include "runtime/fold.h"

typedef struct pare_sparsity pare_sparsity; /* solve/sparsity.h */

/* A site as a transform finds it. `current` is what will be stored; `reference` is the float model,
 * carried through the same folds and never changed otherwise. */
typedef struct pare_pass_site {
    const pare_config *config;
    size_t block;
    pare_site site;
    pare_block *current, *reference;
    pare_site_stats *stats;            /* of the site's input, what the pass needs of it */
    const pare_grid *grid[PARE_ROLES]; /* of the quantizer that will follow; NULL: another site */
    pare_activation activation[PARE_ROLES];    /* of the same */
    const pare_sparsity *sparsity[PARE_ROLES]; /* of the pruner that will follow; NULL: none */
    pare_step_result *result;                  /* a pass may leave a note */
    pare_arena *scratch;                       /* for the folds below */
} pare_pass_site;

/* The sites of a block for a pass that looks at all of them at once (pare_pass_transform.block). */
typedef struct pare_pass_block {
    pare_pass_site *site[PARE_SITES]; /* NULL: not selected */
    const pare_config *config;        /* of the model if all blocks were like this one */
    pare_block *current, *reference;
    const pare_forward *forward; /* exact; tables for the window */
    pare_wave *wave;             /* the inputs of the block; left as it is */
    const pare_wave *floats;     /* those in the float model, or NULL (PARE_FACT_FLOATS) */
    uint64_t seed;               /* of the recipe */
    size_t number;               /* of the block */
} pare_pass_block;

/* Folds a scale or shift, values per channel [pare_fold_channels], into current, reference and
 * statistics at once (runtime/fold.h). PARE_ENUMERIC when a value is not finite (a scale: not above
 * 0), by its channel; PARE_ENOTSUP as there; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_pass_scale(pare_ctx *cx, pare_pass_site *s, const float *scale);
PARE_CHECKED pare_status pare_pass_shift(pare_ctx *cx, pare_pass_site *s, const float *shift);

/* The same with an order of the channels: PARE_EINVAL, PARE_ENOTSUP as pare_fold_permute. */
PARE_CHECKED pare_status pare_pass_order(pare_ctx *cx, pare_pass_site *s, const uint32_t *from);

#endif
