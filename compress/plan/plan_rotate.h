/* compress/plan/plan_rotate.h - tensors outside the blocks when the basis of the residual stream
 * changes: which they are, and how much of them is in memory at once. */
#ifndef PARE_COMPRESS_PLAN_PLAN_ROTATE_H
#define PARE_COMPRESS_PLAN_PLAN_ROTATE_H

#include "compress/plan/plan.h"

/* A rotated model outside its blocks: floats of a matrix that are in memory at once while it is
 * written, and while it is checked; positions of the check. */
enum {
    PARE__ROTATE_FLOATS = 1 << 20,
    PARE__ROTATE_CHECK_FLOATS = 1 << 18,
    PARE__ROTATE_CHECK_TOKENS = 32
};

/* Rows of a matrix [n, k] that are in memory at once: one at least. */
static inline size_t pare__rotate_rows_at_once(size_t n, size_t k, size_t floats)
{
    const size_t most = floats / k ? floats / k : 1;
    return n < most ? n : most;
}

/* Memory of the check that a rotated model computes what it did. */
uint64_t pare__plan_rotate_check_bytes(const pare_ctx *cx, const pare_config *c);

/* Tensors outside the blocks that a change of basis changes. */
typedef enum pare_rotated {
    PARE_ROTATED_NOT,
    PARE_ROTATED_EMBED,
    PARE_ROTATED_HEAD,
    PARE_ROTATED_NORM
} pare_rotated;
pare_rotated pare__plan_global(const pare_plan *plan, const char *tensor);
/* The same when the plan rotates or narrows the stream, else NOT. */
pare_rotated pare__plan_rotated(const pare_plan *plan, const char *tensor);
/* Memory while the largest of these is written. */
uint64_t pare__plan_rotate_put_bytes(const pare_plan *plan, const pare_packed_layout *layout);

/* The tensor that a tied head gets of its own. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__plan_head(pare_arena *a, const pare_plan *plan, pare_tensor *out);

#endif
