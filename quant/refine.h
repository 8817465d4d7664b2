/* quant/refine.h - codes and scales of a uniform grid made better one at a time.
 *
 * Objective: trace((Q - W) H (Q - W)^T), H with lambda on its diagonal, q = (code - zero) scale.
 * With G = (Q - W) H, each round visits the groups of a row in natural order:
 *
 *     scale    with c = code - zero of the group:  scale -= sum G_j c_j / (c H c^T), rounded to F16
 *     code j   in turn:  code_j = clamp(rint(code_j - G_j / (H_jj scale)), 0, 2^bits - 1)
 *
 * and G follows each change. Either step is the least of the objective along its coordinate, taken
 * only where it does not raise it, so that the objective never grows. Zero points stay.
 *
 * With O, the curvature of the loss in the outputs (calib/output_curvature.h), in blocks of
 * PARE_OUTPUT_BLOCK rows on its diagonal, the objective is trace(O (Q - W) H (Q - W)^T): an error
 * of one row may undo that of another. In both steps of row r then (O G)_rj / O_rr stands for G_rj.
 * Sources: coordinate descent over codes: Behdin et al., QuantEase, 2023, Algorithm 1 (codes alone,
 * from the columns' own optimum); Nair and Suggala, CDQuant, 2024; two-sided
 * curvature: Tseng et al., YAQA, 2025 (there in the sweep). The step of the scales is ours. What is
 * here starts from any codes, and runs over rows of GPTQ's. */
#ifndef PARE_QUANT_REFINE_H
#define PARE_QUANT_REFINE_H

#include "calib/output_curvature.h"
#include "solve/grid.h"

typedef struct pare_refine_opts {
    size_t rounds;       /* 3; 0: nothing is done */
    bool keep_zeros;     /* a code whose weight is 0 stays as it is */
    float *h;            /* [k, k] lower triangle; what is above it is written */
    double lambda;       /* added to its diagonal */
    const float *o;      /* NULL: every row by itself. [n up to a multiple of the block, block] the
                            block of each row, symmetric, above 0 on the diagonal, 0 behind n */
    const uint8_t *dead; /* [k] 1: such a column stays as it is */
} pare_refine_opts;

/* Refines the codes of W.
 *
 *   w      [n, k] f32, what the codes stand for; read only
 *   codes  codes and scales, with zeros: read and written
 *   gain   NULL, or by how much the objective fell, summed from the steps in double
 *
 * A scale keeps its sign and stays a normal F16 where grid->f16_scales.
 *
 * Returns PARE_OK, PARE_EINVAL when the grid is not uniform, PARE_ENUMERIC when the sums leave the
 * range of F32, PARE_ENOMEM.
 * Memory  k floats; per worker pare_refine_bytes.   Work  (rounds + 1) n k^2 multiply-adds, and
 * n k per weight of a group and round; with O also 2 n k per row of a block and round.   Threads
 * over tiles of 128 rows. Exact: on every CPU, any thread count. */
PARE_CHECKED pare_status pare_refine_codes(pare_ctx *cx, pare_arena *scratch,
                                           const pare_refine_opts *opts, const pare_grid *grid,
                                           const float *w, pare_codes *codes, double *gain);

/* The memory of one worker. */
size_t pare_refine_bytes(size_t group, size_t k);

#endif
