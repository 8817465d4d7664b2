/* compress/budget/budget_choose.h - one setting for each unit, the least loss in so many bytes. */
#ifndef PARE_COMPRESS_BUDGET_BUDGET_CHOOSE_H
#define PARE_COMPRESS_BUDGET_BUDGET_CHOOSE_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/arena.h"

/* What a unit costs with one of its settings. */
typedef struct pare_budget_option {
    uint64_t bytes;
    double loss; /* finite */
} pare_budget_option;

/* Finds chosen[u], an index below `options`, with sum of bytes <= budget and a small sum of loss.
 *
 *   option   [units, options]
 *   chosen   [units]; written
 *
 * Each unit starts with the setting of the fewest bytes and moves up its lower convex hull; steps
 * of all units are taken by loss saved per byte, the largest first. A unit stops at its first step
 * that does not fit. What bytes are left go to the single changes that save most. Equals go by
 * unit, then by index, so that the result is always the same.
 *
 * Let d be the saving of the first step that does not fit: the loss is at most that of the best
 * choice plus d, and where the steps use up the budget to the byte it is the best.
 *
 * Returns PARE_OK, PARE_ENOMEM, or PARE_EINVAL when the least settings need more than the budget;
 * *least, where not NULL, is what those need.   Work  u o^2 + u o log(u o). */
PARE_CHECKED pare_status pare_budget_choose(pare_ctx *cx, pare_arena *scratch,
                                            const pare_budget_option *option, size_t units,
                                            size_t options, uint64_t budget, size_t *chosen,
                                            uint64_t *least);

#endif
