/* compress/run/run_rotate.h - a rotated model outside its blocks, and the check that it computes
 * what the model did. */
#ifndef PARE_COMPRESS_RUN_RUN_ROTATE_H
#define PARE_COMPRESS_RUN_RUN_ROTATE_H

#include "calib/wave.h"
#include "formats/packed.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Rotates the embeddings that fill a wave, as the artifact will store them. Nothing without a
 * rotation. */
PARE_CHECKED pare_status pare__rotate_wave(pare_run *run, pare_wave *wave);

/* That the rotated float model computes what the model does, piece by piece, on up to 32 tokens: an
 * embedding turned back is the embedding; a rotated block, given rotated inputs of the block, gives
 * its rotated outputs; last norm and head give the logits of the last outputs. Begin before the
 * first block, `block` when its weights are rotated and nothing else has changed, `head` behind the
 * last one. PARE_ENUMERIC: a position moved by more than PARE__SAME of its largest value. Nothing
 * without a rotation. */
PARE_CHECKED pare_status pare__rotate_check_begin(pare_run *run);
PARE_CHECKED pare_status pare__rotate_check_block(pare_run *run, size_t block);
PARE_CHECKED pare_status pare__rotate_check_head(pare_run *run);

/* Rows of the rotated embedding, or head, in floats: x [rows, hidden]. */
void pare__rotate_rows(pare_run *run, bool head, size_t first, size_t rows, float *x);

/* Weights of the last norm of a rotated model, in scratch. NULL: PARE_ENOMEM. */
float *pare__rotate_norm(pare_run *run);

/* Writes the embedding, the head or the last norm of a rotated model, in pieces; `done` is false
 * when the tensor is none of these or the model is not rotated. PARE_ENUMERIC when a weight is too
 * large for the checkpoint's dtype. */
PARE_CHECKED pare_status pare__rotate_put(pare_run *run, const pare_packed_entry *e,
                                          uint8_t hash[16], bool *done);

#endif
