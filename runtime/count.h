/* runtime/count.h - a backend that computes nothing: it counts the scratch that the block
 * operations would take on the CPU, and their arithmetic. */
#ifndef PARE_RUNTIME_COUNT_H
#define PARE_RUNTIME_COUNT_H

#include "runtime/block_ops.h"

/* Whose products: of part 0 of the blocks, with the router; of the experts; of the head. */
typedef enum pare_work_part {
    PARE_WORK_COMMON,
    PARE_WORK_EXPERTS,
    PARE_WORK_HEAD,
    PARE_WORK_PARTS
} pare_work_part;

/* Operations; a multiply-add is two. Those of norms, activations and routing are left out. */
typedef struct pare_work {
    double products[PARE_WORK_PARTS]; /* as if weights were dense */
    double attend;
    double scan;  /* of recurrent states */
    double pairs; /* of a token and one that it attends to, itself among them; of all blocks */
} pare_work;

/* Is shown every linear and the rows that it multiplies. */
typedef struct pare_work_visit {
    void (*see)(void *self, const pare_linear *w, pare_work_part part, double rows);
    void *self;
} pare_work_visit;

/* A block without weights, and what it took so far. */
typedef struct pare_count {
    pare_block_table table;
    pare_backend backend;
    pare_ctx cx;      /* of the arena: threads as those of the caller */
    pare_arena arena; /* descriptions only */
    pare_model model;
    pare_forward forward;
    pare_block block;
    pare_inputs inputs; /* forms of their inputs that linears make */
    size_t used, peak;
    pare_work work;
    pare_work_part part;          /* that runs */
    bool spread;                  /* rows over all experts alike */
    const pare_work_visit *visit; /* or NULL */
    float anywhere[1];            /* where arrays are said to lie; never read */
} pare_count;

/* A count for blocks of a configuration. PARE_ENOMEM. Close it by pare_count_end in any case. */
PARE_CHECKED pare_status pare_count_begin(const pare_ctx *cx, const pare_config *c,
                                          pare_batch batch, pare_inputs inputs, pare_count *n);

/* The most bytes that lived at once, SIZE_MAX where it does not fit or `s` says that counting
 * failed. */
size_t pare_count_end(pare_count *n, pare_status s);

/* What all blocks of a model do with a batch, and the head with each of its rows, spread evenly
 * over experts.
 *
 *   m      where m->block is NULL, blocks without weights are taken
 *   last   PARE_SITES, or blocks stop at this site of part 0, and experts and head do not run
 *   visit  NULL, or sees each linear that runs
 *
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_work_of(pare_ctx *cx, const pare_model *m, pare_batch batch,
                                      pare_site last, const pare_work_visit *visit, pare_work *out);

/* Gives the block of a count the linears of a block of this configuration. */
void pare__count_kind(pare_count *n, const pare_config *own);

/* From here on it counts, from 0 again, a block with a recurrent state of a configuration that has
 * both kinds; false where there are none. */
bool pare__count_recurrent(pare_count *n);

/* Adds `count` objects of `size` bytes, with room for alignment, to a count's operations. */
void pare__count_add(const pare_ops *o, size_t count, size_t size);

#endif
