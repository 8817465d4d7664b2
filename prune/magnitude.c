#include "prune/magnitude.h"

#include "prune/scored.h"

pare_status pare_magnitude_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsity *s,
                                 float *w, size_t n, size_t k)
{
    return pare_prune_scored(cx, scratch, s, NULL, w, n, k);
}
