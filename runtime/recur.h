/* runtime/recur.h - the gated delta rule on the CPU (block_ops.h, recur). */
#ifndef PARE_RUNTIME_RECUR_H
#define PARE_RUNTIME_RECUR_H

#include "runtime/block_ops.h"

enum {
    PARE_STATE_WIDTH_MAX = 1024, /* of a key, of a value */
    PARE_TAPS_MAX = 16
};

/* y [rows, value_heads * value_width] of the inputs x. PARE_EINVAL.
 * Threads  over sequences and value heads.
 * Exact    a row has the same bytes in any batch and split, for any thread count. */
PARE_CHECKED pare_status pare__recur(pare_ctx *cx, const pare_recur *r, const pare_array *x,
                                     float *y);

#endif
