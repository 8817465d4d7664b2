#include "prune/wanda.h"

#include <float.h>
#include <math.h>

#include "prune/scored.h"

pare_status pare_wanda_lengths(pare_ctx *cx, const float *squares, size_t k, float *channel)
{
    for (size_t j = 0; j < k; j++) {
        if (!(squares[j] >= 0 && squares[j] <= FLT_MAX))
            return pare_fail(cx, PARE_ENUMERIC,
                             "input %zu has a sum of squares of %g: the inputs of this linear were "
                             "not finite or too large during calibration",
                             j, (double)squares[j]);
        channel[j] = sqrtf(squares[j]);
    }
    return PARE_OK;
}

pare_status pare_wanda_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                             const float *squares, float *w, size_t n, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    float *const channel = PARE_NEW(scratch, float, k);
    pare_status status = channel ? pare_wanda_lengths(cx, squares, k, channel) : PARE_ENOMEM;
    if (status == PARE_OK)
        status = pare_prune_scored(cx, scratch, s, channel, w, n, k);
    pare_arena_rewind(scratch, mark);
    return status;
}
