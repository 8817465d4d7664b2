/* compress/run/run_linear.h - one part of a block while its linears are worked on: what is known of
 * it, and the steps of the recipe on single linears. */
#ifndef PARE_COMPRESS_RUN_RUN_LINEAR_H
#define PARE_COMPRESS_RUN_RUN_LINEAR_H

#include "compress/artifact/manifest.h"
#include "compress/plan/plan.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* What is known of one part of the current block (runtime/arch.h) while its linears are worked on.
 */
typedef struct pare_run_part {
    pare_linear *linear;          /* [PARE_ROLES] in floats: what is, or will be, stored */
    pare_linear *reference;       /* [PARE_ROLES] the float model; with plan.reference */
    uint8_t *zero[PARE_ROLES];    /* bit i: weight i was pruned, or NULL */
    bool frozen[PARE_ROLES];      /* the bits stand */
    bool thin[PARE_ROLES];        /* some step got too little calibration */
    double stability[PARE_ROLES]; /* of their choice; 0: not measured */
    pare_linear_result pruning[PARE_ROLES];            /* what pruners recorded */
    pare_step_result done[PARE_ROLES][PARE_STEPS_MAX]; /* steps in front of the quantizer */
    size_t done_count[PARE_ROLES];
    double done_error[PARE_ROLES][2]; /* weight, output: against the reference so far */
} pare_run_part;

/* Experts of the current block, where the family has some. */
typedef struct pare_run_experts {
    pare_run_part part; /* the one that is worked on, and its linears in floats */
    pare_linear floats[PARE_ROLES], reference[PARE_ROLES];
    pare_linear *linear; /* [experts][PARE_ROLES]: as in the model, or a view of what is stored
                            already */
    pare_arena views;    /* what those views need */
    uint64_t *routed;    /* [experts] tokens of the calibration, when counted */
    uint64_t *reach;     /* [PARE_SHARES, experts] those of each share (calib/shares.h) */
    size_t *fresh;       /* linears that were stored and that other processes do not have yet */
    size_t fresh_count;
    pare_cold_policy *cold; /* [experts] */
    pare_fill *fill;        /* [parts], for taps */
    bool counted;
} pare_run_experts;

/* Masks for the linears of a part, in `stage`; nothing without pruning. */
PARE_CHECKED pare_status pare__run_prune_take(pare_run *run, pare_run_part *to, size_t part);

/* The part that a linear belongs to. */
pare_run_part *pare__run_part(pare_run *run, const pare_plan_linear *l);

/* Its weights there, [n, k]. */
float *pare__run_linear_floats(pare_run *run, const pare_plan_linear *l);

/* Forgets what steps did to the part's last linears. */
void pare__run_part_begin(pare_run_part *part);

/* The linears of a part of a block that read the inputs of `sites` (bit per site), by one step;
 * what quantizes adds to the unit's rows. Where the calibration says too little for it, H becomes
 * the identity, for this step and those behind it, and the step its plain form. */
PARE_CHECKED pare_status pare__run_step(pare_run *run, size_t block, size_t part, size_t step,
                                        unsigned sites, pare_stats *stats, pare_unit_result *unit);

/* Once the steps are done: those of them that were pruned and are quantized by nobody, or whose
 * codes were trained; in front of a training all that were pruned and have no codes. */
PARE_CHECKED pare_status pare__run_rest(pare_run *run, size_t block, size_t part, unsigned sites,
                                        const pare_stats *stats, pare_unit_result *unit);

/* A linear that an earlier run finished: its planes must still be what the journal says
 * (PARE_EFORMAT). With `take` they become part of the current block. */
PARE_CHECKED pare_status pare__run_restore(pare_run *run, const pare_plan_linear *l,
                                           const pare_linear_result *r, bool take);

/* Writes the planes of a packed matrix, and gives their hashes. */
PARE_CHECKED pare_status pare__run_planes_put(pare_run *run, const pare_packed_planes *p,
                                              const char *name, uint8_t hash[PARE_PLANES][16]);

/* The same read back: PARE_EFORMAT where they are not those with the hashes of `r`. */
PARE_CHECKED pare_status pare__run_planes_check(pare_run *run, const pare_packed_linear *l,
                                                const pare_linear_result *r);

/* The embeddings and the head that the recipe quantizes (run_tables.c). Behind the last block:
 * what the head reads. Then their rows of the last unit; nothing to do where an earlier run did
 * them, which _check_ looks at, or forgets. PARE_ENOMEM, and what their passes say. */
PARE_CHECKED pare_status pare__run_head_inputs(pare_run *run);
PARE_CHECKED pare_status pare__run_tables(pare_run *run, pare_unit_result *unit);
PARE_CHECKED pare_status pare__run_check_tables(pare_run *run);

/* One linear by the step that prunes it: weights of the current block change, their zeros are
 * frozen. */
PARE_CHECKED pare_status pare__run_prune(pare_run *run, const pare_plan_linear *l, void *site_state,
                                         const pare_site_stats *stats);

/* Remembers the zeros of w [n, k]. PARE_EINVAL when there are fewer than planned. */
PARE_CHECKED pare_status pare__run_freeze(pare_run *run, const pare_plan_linear *l, const float *w);

/* What was pruned before `step` is still 0 in w; or in all linears of a block. PARE_EINVAL names
 * the weight. */
PARE_CHECKED pare_status pare__run_check_zeros(pare_run *run, const pare_plan_linear *l,
                                               const float *w, size_t step);
PARE_CHECKED pare_status pare__run_check_block(pare_run *run, size_t block, size_t step);

/* Weights that are not 0. */
uint64_t pare__run_nonzero(const float *w, size_t count);

/* Adds to a linear's result what its pruner recorded. */
void pare__run_add_pruning(const pare_run_part *part, const pare_plan_linear *l,
                           pare_linear_result *r);

/* Adds to `r`, and tells, which groups of w [n, k] (rows, where one scale is for the row) are too
 * small for their storage, and how many of their weights it holds as 0. A group is too small when
 * its F16 scale is below PARE_SCALE_COARSE; where values go to F16 one by one, its largest weight;
 * where the scale is FP8's, a power of two, or coded itself, below what codes and scale reach.
 * Where nobody quantizes, any weight that F16 holds as 0 counts. Inputs that calibration never saw
 * (0 on the diagonal of h [k, k], which may be NULL) do not.
 *
 *   codes, q [n, k]  what is stored, and the values it stands for; both NULL: w rounded to F16
 *
 * Returns PARE_OK, or PARE_ENUMERIC where that costs more than a tenth of the squares of w. Threads
 * over rows, same counts for any number. */
PARE_CHECKED pare_status pare__run_coarse(pare_run *run, const pare_packed_linear *l,
                                          const pare_codes *codes, const float *w, const float *q,
                                          const float *h, pare_linear_result *r);

/* Weights that nobody quantizes as F16 has them. PARE_ENUMERIC for one that it does not have. */
PARE_CHECKED pare_status pare__run_round_f16(pare_run *run, const pare_plan_linear *l, float *w);

#endif
