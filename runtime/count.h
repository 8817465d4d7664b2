/* runtime/count.h - a backend that computes nothing: it counts the scratch that the block
 * operations would take on the CPU. */
#ifndef PARE_RUNTIME_COUNT_H
#define PARE_RUNTIME_COUNT_H

#include "runtime/block_ops.h"

/* A block without weights, and what it took so far. */
typedef struct pare_count {
    pare_backend backend;
    pare_ctx cx;      /* of the arena: threads as those of the caller */
    pare_arena arena; /* descriptions only */
    pare_model model;
    pare_forward forward;
    pare_block block;
    pare_inputs inputs; /* forms of their inputs that linears make */
    size_t used, peak;
    float anywhere[1]; /* where arrays are said to lie; never read */
} pare_count;

/* A count for blocks of a configuration. PARE_ENOMEM. Close it by pare_count_end in any case. */
PARE_CHECKED pare_status pare_count_begin(const pare_ctx *cx, const pare_config *c,
                                          pare_batch batch, pare_inputs inputs, pare_count *n);

/* The most bytes that lived at once, SIZE_MAX where it does not fit or `s` says that counting
 * failed. */
size_t pare_count_end(pare_count *n, pare_status s);

/* Adds `count` objects of `size` bytes, with room for alignment, to a count's operations. */
void pare__count_add(const pare_ops *o, size_t count, size_t size);

#endif
