#include "quant/gptq.h"

pare_status pare_gptq_quantize(pare_ctx *cx, pare_arena *scratch, const pare_gptq_opts *opts,
                               const pare_grid *grid, const pare_factor *factor, float *w,
                               pare_codes *out, double *loss)
{
    const pare_compensate c = {.factor = factor,
                               .block = opts->block,
                               .grid = grid,
                               .keep_zeros = opts->keep_zeros,
                               .spread = opts->spread,
                               .start = opts->start,
                               .fitted_to = opts->fitted_to};
    return pare_compensate_run(cx, scratch, &c, w, out->n, out->k, out, loss);
}
