/* compress/plan/settled.h - what a job finds out when it runs: the calibration as it was read, the
 * place of the output under its lock, what the float model showed of the linears, and what follows
 * from that for the files, memory and disk. A plan has all of it as far as the planner knows; a job
 * goes on with a copy of its own. */
#ifndef PARE_COMPRESS_PLAN_SETTLED_H
#define PARE_COMPRESS_PLAN_SETTLED_H

#include "formats/packed.h"
#include "runtime/arch.h"
#include "solve/sparsity.h"

/* One linear that a step prunes, quantizes, or both. */
typedef struct pare_plan_linear {
    pare_packed_linear packed;
    size_t block, part; /* 0: what every token runs, e + 1: expert e */
    pare_role role;
    size_t step;            /* index into recipe.step: who quantizes, else who prunes */
    bool pruned, quantized; /* one of them at least */
    bool calibrated;        /* some step on it looks at statistics of its input */
    size_t prune_step;      /* when pruned; equal to `step` when one step does both */
    pare_sparsity sparsity; /* when pruned: complete, with seed and tensor */
} pare_plan_linear;

/* Memory of a job, in bytes. */
typedef struct pare_plan_memory {
    size_t chunk;              /* experts whose statistics are gathered in one pass */
    uint64_t activation_bytes; /* 0 when samples is 0 (not known yet) */
    uint64_t held_bytes;       /* of the allocator, once everything is planned */
    uint64_t spilled_bytes;    /* anonymous memory with the activations in a file */
    uint64_t resident_bytes;   /* the same with them in memory */
    uint64_t limit_bytes;      /* the smallest of those that bound the memory */
    const char *limit;         /* its name */
    uint64_t allocator_bytes;  /* of it; the rest is BLAS, stacks, parsed JSON */
    bool spill;                /* activations go to a file */
    bool sparing; /* linears that every token runs stay as they are stored, one in floats at a time,
                     and drift goes to a file: the same bytes, later */
    bool keep;    /* the training keeps what blocks computed: pare_train_opts */
    uint64_t anonymous_bytes; /* most that the job allocates */
    uint64_t mapped_bytes;    /* files that come on top, mapped: the system can drop their pages */
} pare_plan_memory;

/* What lies where an export goes. */
typedef struct pare_plan_there {
    bool taken; /* something is there: in a plan that is looked at, or the export of `finished` */
    bool stale; /* what is there is older than the finished output, and is replaced */
} pare_plan_there;

typedef struct pare_settled {
    size_t samples;   /* calibration; 0: all, known when the text is read */
    uint64_t windows; /* that the data have; 0: not known yet */
    uint64_t fresh;   /* tokens of the samples that say something new; 0: not known yet, or as
                         many as are wanted */
    size_t held_out;  /* windows held out of it; 0: none, or not known yet */
    const pare_plan_linear *linear; /* [plan.linears] by block, then part, then role */
    pare_packed_layout layout;
    uint64_t packed_bytes;  /* packed files and packed.index.json: exact; with plan.ratios, until
                               pare_plan_settle, at most that */
    double bits_per_weight; /* of the targeted linears, every plane counted */
    pare_plan_memory memory;
    bool replaces; /* a finished output lies there, and the job may put its own in its place */
    bool finished; /* a finished output lies there and stays: if it is of the same job, the job is
                      done, but for exports that are not `taken` */
    pare_plan_there *export; /* [plan.exports] */
    uint64_t other_bytes;    /* copies, manifest, report: an estimate */
    uint64_t disk_bytes;     /* written while running, spill included */
    uint64_t disk_free_bytes;
} pare_settled;

#endif
