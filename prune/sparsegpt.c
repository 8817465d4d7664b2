#include "prune/sparsegpt.h"

pare_status pare_sparsegpt_prune(pare_ctx *cx, pare_arena *scratch, const pare_sparsegpt_opts *opts,
                                 const pare_factor *factor, float *w, size_t n, size_t k,
                                 pare_codes *out, double *loss)
{
    const pare_compensate c = {.factor = factor,
                               .block = opts->block,
                               .grid = opts->grid,
                               .sparsity = opts->sparsity,
                               .cost = opts->cost};
    if (!opts->sparsity)
        return pare_fail(cx, PARE_EINVAL, "no sparsity is given");
    return pare_compensate_run(cx, scratch, &c, w, n, k, out, loss);
}
