/* prune/slicegpt.h - a narrower residual stream.
 *
 * The stream, normed, is written in the basis of its principal directions over the calibration
 * data, and the last of them are dropped: weights of norms are folded into what reads them, readers
 * W become W Q, writers Q^T W. The norms that stay divide by the root mean square over d' instead
 * of d directions; their weight sqrt(d / d') makes up for that.
 *
 * Source: Ashkboos et al., "SliceGPT: Compress Large Language Models by Deleting Rows and Columns",
 * ICLR 2024. The paper has a Q per block and a matrix between two of them, which no other program
 * could load; here one Q serves the whole model. */
#ifndef PARE_PRUNE_SLICEGPT_H
#define PARE_PRUNE_SLICEGPT_H

#include "runtime/fold.h"

enum { PARE_SLICEGPT_STEP = 8 };

/* Directions that stay are a multiple of this: of the step and, as transformers wants hidden_size,
 * of the heads. */
size_t pare_slicegpt_multiple(const pare_config *c);

typedef struct pare_slicegpt {
    size_t hidden, kept;
    float *basis;    /* [kept, hidden] principal directions, the largest first; NULL: none */
    double captured; /* their share of the stream's square */
} pare_slicegpt;

/* Bytes of the covariances, the basis and the search for it. */
uint64_t pare_slicegpt_bytes(size_t hidden);

/* The basis of a stream whose products sum to h [hidden, hidden], lower triangle: destroyed.
 * `basis` lies in the arena `a`. PARE_ENOMEM, PARE_ENUMERIC. */
PARE_CHECKED pare_status pare_slicegpt_basis(pare_ctx *cx, pare_arena *a, pare_arena *scratch,
                                             double *h, size_t hidden, size_t kept,
                                             pare_slicegpt *out);

/* Columns of w [rows, k] times norm [k]. */
void pare_slicegpt_fold(const float *norm, size_t k, float *w, size_t rows);

/* out [rows, kept] = w [rows, hidden] Q. Threads; class Machine. */
void pare_slicegpt_readers(const pare_ctx *cx, const pare_slicegpt *s, const float *w, size_t rows,
                           float *out);

/* Norm weights go into the linears that read them; they are 1 then. PARE_ENOTSUP for a norm with a
 * bias. */
PARE_CHECKED pare_status pare_slicegpt_fold_block(pare_ctx *cx, const pare_config *c,
                                                  pare_block *block);

/* The whole block in the narrower basis, its norms folded: what is left stands in front, zeros
 * behind, norms sqrt(hidden / kept). PARE_ENOMEM, PARE_ENOTSUP. */
PARE_CHECKED pare_status pare_slicegpt_block(pare_ctx *cx, pare_arena *scratch,
                                             const pare_config *c, const pare_slicegpt *s,
                                             pare_block *block);

#endif
