/* compress/passes/learned_block.h - what passes have in common that learn how to round the linears
 * of a block from its outputs: where windows come from, and what to tell of the result. */
#ifndef PARE_COMPRESS_PASSES_LEARNED_BLOCK_H
#define PARE_COMPRESS_PASSES_LEARNED_BLOCK_H

#include "calib/block_loss.h"
#include "compress/passes/pass.h"

/* Inputs as they come through the compressed blocks. Wanted is what the float block makes of them,
 * or of the inputs in the float model, where that runs beside (PARE_FACT_FLOATS). */
typedef struct pare_learned_block {
    pare_ctx *cx;
    pare_arena *scratch;
    const pare_pass_block *block;
    float *targets; /* of all windows, or NULL */
    bool *made;     /* of each window: whether its targets are there */
} pare_learned_block;

/* Fills *from, and *data to read from it. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_learned_block_begin(pare_ctx *cx, pare_arena *scratch,
                                                  const pare_pass_block *block,
                                                  pare_learned_block *from, pare_block_data *data);

/* The note of each site: what learning made of the loss. */
void pare_learned_block_note(const pare_pass_block *block, bool kept, double before, double after);

/* What a job takes for a block beside `own`, the bytes of the method: targets, room to make them
 * for a batch of windows; work of so many forward and backward passes over all windows, each of
 * them of the block in floats and rounded. */
pare_pass_cost pare_learned_block_cost(const pare_ctx *cx, const pare_config *c, size_t own,
                                       size_t samples, size_t window, size_t batch, double passes);

/* A transform's cost for each linear: none, all is counted for the block. */
pare_pass_cost pare_learned_block_linear_cost(const double *value, size_t n, size_t k,
                                              size_t threads);

/* A transform that works on all sites. */
unsigned pare_learned_block_sites(const double *value);

/* Why ranges cannot be learned for the grid behind, or NULL. */
const char *pare_learned_block_refuses(const pare_grid *grid);

#endif
