/* compress/run/run_front.h - a job with a step that trains: a walk over the blocks that prunes, or
 * chooses codes to train, the training, and a walk that packs, or quantizes, what was trained.
 *
 * The journal has a unit of each block of the first walk, one of the training, and then those of
 * all jobs: of each block and of what lies outside. */
#ifndef PARE_COMPRESS_RUN_RUN_FRONT_H
#define PARE_COMPRESS_RUN_RUN_FRONT_H

#include "calib/tokens.h"
#include "compress/plan/plan.h"
#include "compress/run/run_floats.h"

/* Blocks, and behind them what lies outside, or what trained them. */
typedef struct pare_run_units {
    pare_unit_result *result; /* [blocks + 1] */
    size_t found;             /* of an earlier run */
    size_t lead;              /* records of the journal in front of theirs */
} pare_run_units;

/* A walk over the blocks. A job has one; with a step that trains two, in front of it and behind. */
typedef struct pare_run_walk {
    bool front;        /* in front: what is trained goes to `pruned`, nothing is packed */
    size_t begin, end; /* steps of the recipe */
    const unsigned *kinds, *expert_kinds; /* [PARE_SITES] PARE_STATS_*, of part 0 and of experts */
    bool calibrated;                      /* activations go along */
    bool keeps; /* every statistic goes to a file (compress/run/run_keep.h) */
} pare_run_walk;

/* The step of the recipe that trains, behind the walk that prunes: from run->pruned to
 * run->trained, with its unit in the journal. What an earlier run saved of it is taken up.
 * PARE_ENUMERIC when training diverges, PARE_ENOMEM, PARE_EINTERRUPTED, PARE_EIO, PARE_ENOSPC. */
PARE_CHECKED pare_status pare__run_train(pare_run *run);

/* The part of it that another process than 0 does (compress/run/run_team.h). */
PARE_CHECKED pare_status pare__run_train_part(pare_run *run, const pare_tokens *tokens);

/* The walk over the blocks that begins: of a job with a training the one in front of it, or behind;
 * their units change places. */
void pare__front_walk(pare_run *run, bool front);

/* The files of the training: opened, and what an earlier run left in them looked at; from the first
 * unit that is not what the journal says, everything is forgotten. */
PARE_CHECKED pare_status pare__front_open(pare_run *run);

/* Linear i of the plan in front of the training that trains it, w [n, k] and `steps`
 * (compress/run/run_aware.h): written, with its hash in the unit; and read again (PARE_EFORMAT),
 * with `take` as part of the block. */
PARE_CHECKED pare_status pare__front_put(pare_run *run, size_t i, const float *w,
                                         const float *steps, pare_unit_result *unit);
PARE_CHECKED pare_status pare__front_restore(pare_run *run, size_t i, bool take);

/* From here on blocks are read as they were trained: run->source. */
PARE_CHECKED pare_status pare__front_source(pare_run *run);

/* A part of a block that was trained and that begins, linears that read the inputs of `sites` (bit
 * per site): their zeros are frozen, and their steps so far are what the journal says. */
PARE_CHECKED pare_status pare__front_take_over(pare_run *run, size_t block, size_t part,
                                               unsigned sites);

/* A linear of an expert, w [n, k] in front of the training: from here on the wave sees it so.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare__front_view(pare_run *run, const pare_plan_linear *l, const float *w);

/* Closes the files of the training; with `remove` they go. */
void pare__front_close(pare_run *run, bool remove);

#endif
