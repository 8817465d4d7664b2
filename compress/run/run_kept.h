/* compress/run/run_kept.h - statistics of the original model in a file (calib/stats_file.h): made
 * in front of the compression, and read instead of gathered. One way through for both: a job that
 * made a file goes on as one that was given it. */
#ifndef PARE_COMPRESS_RUN_RUN_KEPT_H
#define PARE_COMPRESS_RUN_RUN_KEPT_H

#include "calib/stats_file.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

typedef struct pare_run_kept {
    pare_hdf5_writer *to;   /* while statistics are kept; else NULL */
    pare_stats_group group; /* of the current block, while it is compressed */
    uint8_t xxh3[16];       /* of the file */
    bool hashed;            /* xxh3 is known */
} pare_run_kept;

/* For a plan that takes statistics from a file: makes it where the recipe keeps it and it is not
 * there, one process at a time; looks whether it is of the model, calibration and settings at hand.
 * PARE_EFORMAT for a file of another model (exit 4), PARE_EEXISTS for one that was kept for others,
 * or that something else lies where it is written; statuses of waves, gradients, HDF5. */
PARE_CHECKED pare_status pare__kept_open(pare_run *run);

/* XXH3-128 of the file, into run->kept. What mapping a file returns. */
PARE_CHECKED pare_status pare__kept_hash(pare_run *run);

/* What a walk needs that reads statistics. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__kept_take(pare_run *run);

/* The statistics of a block that begins; nothing to do for other plans. */
PARE_CHECKED pare_status pare__kept_begin(pare_run *run, size_t block);
void pare__kept_end(pare_run *run);

/* Fills the active sites of what every token runs. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__kept_fill(pare_run *run, size_t block, pare_stats *stats);

/* Fills the active sites of an expert. PARE_EFORMAT. */
PARE_CHECKED pare_status pare__kept_expert(pare_run *run, size_t block, size_t part,
                                           pare_stats *stats);

/* Statistics of every expert of the current block, written as they are gathered, and before that
 * how many tokens reach each. Nothing without experts. */
PARE_CHECKED pare_status pare__run_experts_count(pare_run *run, size_t block);
PARE_CHECKED pare_status pare__run_experts_keep(pare_run *run, size_t block);

#endif
