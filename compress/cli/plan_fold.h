/* compress/cli/plan_fold.h - lists in which what is the same in many blocks is one line.
 *
 *   model.layers.{0..29}.mlp.down_proj                            30 entries, their bytes summed
 *   model.layers.{0..3}.mlp.experts.{0..7}.down_proj              32 entries
 *
 * Entries share a line when their names differ in the number of the block and of the expert alone,
 * everything else that is told of them is equal, and each block on the line has the same experts.
 */
#ifndef PARE_COMPRESS_PLAN_FOLD_H
#define PARE_COMPRESS_PLAN_FOLD_H

#include <stdbool.h>

#include "runtime/arena.h"

typedef struct pare_fold_entry {
    const char *name, *rest; /* rest: what else is told of it */
    size_t block, part;      /* part 0: none, e + 1: expert e */
    uint64_t bytes;
} pare_fold_entry;

typedef struct pare_fold_line {
    const char *name, *rest;
    size_t first, count; /* the first of its entries in their order, and how many there are */
    uint64_t bytes;      /* of all of them */
} pare_fold_line;

/* The lines of a list in the order of their first entries. all: one for each entry.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_fold(pare_arena *a, const pare_fold_entry *entry, size_t entries,
                                   bool all, pare_fold_line **line, size_t *lines);

#endif
