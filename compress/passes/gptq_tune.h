/* compress/passes/gptq_tune.h - settings of gptq for one linear, by what they do on calibration
 * windows that are held out. */
#ifndef PARE_COMPRESS_PASSES_GPTQ_TUNE_H
#define PARE_COMPRESS_PASSES_GPTQ_TUNE_H

#include "compress/passes/pass.h"

/* How gptq is called, and where its parameters stand. */
typedef struct pare_gptq_tuned {
    pare_status (*site)(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state);
    pare_status (*run)(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch);
    pare_grid (*grid)(const double *value);
    size_t params, act_order, damp;
} pare_gptq_tuned;

/* Quantizes with the best of up to 5 settings: those given, then one after the other, each kept if
 * it is better, the other order; the other clip (weighted or mse); 10 times the damping; a tenth of
 * it. Each runs with H - H_held and is judged by tr((W - Q) H_held (W - Q)^T); the best runs once
 * more with all of H. linear->note says what was chosen.
 *
 * Returns what gptq returns, PARE_ENOMEM.   Memory, work  pare_gptq_tune_cost.
 * Exact: as gptq. */
PARE_CHECKED pare_status pare_gptq_tune(pare_ctx *cx, const pare_gptq_tuned *how,
                                        const double *value, pare_pass_linear *linear,
                                        pare_arena *scratch);

/* From the cost of one run to that of all. */
pare_pass_cost pare_gptq_tune_cost(const pare_pass_cost *once, size_t n, size_t k);

#endif
