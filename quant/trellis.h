/* quant/trellis.h - EXL3: trellis codes of tiles of 16 x 16 weights between two Hadamard matrices.
 *
 *   W = diag(r) H V H diag(c)         runtime/linear_exl3.h; the trellis: kernels/exl3.h
 *
 * Hadamard matrices H make the weights of a row and of a column look like draws of a normal
 * distribution, whatever they were; a trellis codes such numbers with less error than any grid of
 * as many bits: relative squared errors of .069, .017 and .0044 in 2, 3 and 4 bits.
 *
 *   a_j      random signs, c_j = a_j s, s one number for each span of columns that H mixes
 *   r_i      random signs times the root mean square of row i
 *   V        codes of diag(1 / r) W diag(1 / a) turned by H on both sides, over s: its root mean
 *            square in the span over a number that suits the codes. They are found tile by tile, in
 *            the order of columns: what a tile loses, the columns behind it make up for
 *            (solve/compensate.h with blocks of 16 columns: e U_BB = W_B - Q_B)
 *   tile     the path through the trellis with the least squared error (Viterbi). It is a circle:
 *            where it closes comes from a search of 64 symbols on both sides of the seam
 *
 *   Source  turboderp, ExLlamaV3 1.4.1, modules/quant/exl3_lib/quantize.py: there s is searched
 *           for, c_j also has the root mean square of column j, and the seam comes from the whole
 *           circle. Tseng et al., QTIP, NeurIPS 2024, sections 3 and 4 (tail-biting trellises);
 *           Chee et al., QuIP, NeurIPS 2023, Algorithm 3 (LDLQ). */
#ifndef PARE_QUANT_TRELLIS_H
#define PARE_QUANT_TRELLIS_H

#include "solve/factor.h"
#include "solve/grid.h"

/* What all linears of a site share. */
typedef struct pare_exl3_site {
    float *sign;        /* [k] a */
    pare_factor factor; /* of H diag(a) H diag(a) H, the middle one that of the inputs */
} pare_exl3_site;

/* Draws the signs by `seed` and factors the turned Hessian.
 *
 *   h    [k, k] f32, lower triangle; read. k is a multiple of 16
 *   out  taken from `scratch`
 *
 * With `identity` nothing is known of the inputs: no tile makes up for another. What
 * pare_factorize returns. Memory  k^2 floats, and what pare_factorize takes. Threads; exact. */
PARE_CHECKED pare_status pare_exl3_site_make(pare_ctx *cx, pare_arena *scratch, uint64_t seed,
                                             float damp, bool identity, const float *h, size_t k,
                                             pare_exl3_site *out);

/* Quantizes W to `bits` bits, 1 .. 8.
 *
 *   w     [n, k] f32, n and k multiples of 16; destroyed
 *   out   planes from pare_codes_take for PARE_ENCODING_EXL3; written
 *
 * Returns PARE_OK, PARE_ENUMERIC when a weight is not finite or the scale of a row is above 65504,
 * PARE_ENOMEM, PARE_EINTERRUPTED, asked before each strip of 16 rows, of which it reports how many
 * are done. Memory  pare_exl3_bytes for each thread. Work  1.5 exl3_step, of 2^16 edges, for
 * each weight, and n k^2 / 2 multiply-adds. Threads over 16 rows; exact on every CPU. */
PARE_CHECKED pare_status pare_exl3_quantize(pare_ctx *cx, pare_arena *scratch, unsigned bits,
                                            uint64_t seed, const pare_exl3_site *site, float *w,
                                            pare_codes *out);

/* Operations in F32 that the search takes for each weight: five for each edge of the trellis, half
 * as many edges again for the seam. */
#define PARE_EXL3_WORK (5 * 1.5 * 65536)

/* Of one thread. */
size_t pare_exl3_bytes(unsigned bits);

#endif
