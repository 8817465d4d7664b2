/* quant/rotate.h - rotation of a whole model, so that no channel stands out.
 *
 * A root mean square does not change under an orthogonal R, so with the norms' weights g moved into
 * the linears that read them (g becomes 1) every vector x of the residual stream may be stored as
 * R x:
 *
 *   embedding row e     ->  R e
 *   q, k, v, gate, up   ->  W diag(g) R^T        read the stream
 *   o, down             ->  R W                  add to the stream
 *   head                ->  W diag(g_last) R^T
 *
 * and the values of each head as M v, because attention only mixes whole values:
 *
 *   v                   ->  M W  per key/value head,     o  ->  W M^T  per query head
 *
 * R = Q D of runtime/hadamard.h with random signs D, M = D' Q^T. The model computes what it did, up
 * to rounding. With `online`, o and down are further stored as W Q^T and the runtime multiplies
 * their inputs by Q (pare_linear.rotated), which breaks up outliers that arise inside the block.
 *
 * Source: Ashkboos et al., QuaRot, NeurIPS 2024, section 4, stages 1a to 1c. It deviates in the
 * online matrix of o, Q over all heads instead of over their number; signs of M keep the two from
 * undoing each other. Threads over rows; exact. */
#ifndef PARE_QUANT_ROTATE_H
#define PARE_QUANT_ROTATE_H

#include "runtime/fold.h"
#include "runtime/hadamard.h"

typedef struct pare_rotation {
    const pare_config *config;
    pare_hadamard hidden, head, attended, activated; /* the last two: online */
    bool online;
} pare_rotation;

/* Makes the matrices, in the arena; they depend on the shape, seed and `online` only. `config` is
 * borrowed. PARE_ENOTSUP (a width without a rotation: its numbers), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_rotation_new(pare_ctx *cx, pare_arena *a, const pare_config *config,
                                           uint64_t seed, bool online, const pare_rotation **out);

/* Bytes of scratch of pare_rotation_block. */
size_t pare_rotation_scratch(const pare_ctx *cx, const pare_config *config);

/* Rotates the linears of a block and makes its norms 1. Online rotation does not touch the flags
 * `rotated`: they belong to pare_linear. PARE_ENOTSUP (a norm with a bias), PARE_ENOMEM. */
PARE_CHECKED pare_status pare_rotation_block(pare_ctx *cx, pare_arena *scratch,
                                             const pare_rotation *r, pare_block *block);

/* True for the linears whose input the runtime rotates. */
bool pare_rotation_is_online(const pare_rotation *r, pare_role role);

/* True for the linears whose bias a rotation changes, if there is one. */
bool pare_rotation_turns_bias(const pare_rotation *r, pare_role role);

/* Vectors of the residual stream, x [rows, hidden], in place: rows of the embedding. */
void pare_rotation_stream(const pare_ctx *cx, const pare_rotation *r, float *x, size_t rows);

/* Rows of a linear that reads the stream behind a norm of weights g [hidden], in place. */
void pare_rotation_reader(const pare_ctx *cx, const pare_rotation *r, const float *g, float *w,
                          size_t rows);

#endif
