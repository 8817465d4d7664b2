/* runtime/leaves.h - the parameters of a model one after the other, and blocks that own theirs as
 * floats.
 *
 * A leaf is one parameter: a matrix of a linear, a bias, a norm, a router. The leaves of a block
 * have an order:
 *
 *   norms in front of attention and MLP, each with its bias
 *   the linears of part 0 (runtime/arch.h), role by role, each with its bias
 *   inner norms;  router, shared gate, bias of the router;  sinks;  correction of the router;  what
 *   a recurrent state has;  the linears of each expert
 *
 * which is the same for all blocks of a configuration (of their own, pare_block_config, where kinds
 * of blocks differ), so that leaf i of a block and leaf i of another, or of the gradients of the
 * first, belong together:
 *
 *   for (size_t i = 0; i < pare_block_leaves(c); i++) {
 *       const pare_leaf value = pare_block_leaf(c, block, i), slope = pare_block_leaf(c, d, i);
 */
#ifndef PARE_RUNTIME_LEAVES_H
#define PARE_RUNTIME_LEAVES_H

#include "runtime/context.h"
#include "runtime/model.h"

typedef enum pare_leaf_kind {
    PARE_LEAF_NORM,       /* index 0 in front of attention, 1 of the MLP; of the model: the last */
    PARE_LEAF_NORM_BIAS,  /* the same */
    PARE_LEAF_INNER_NORM, /* index: pare_norm */
    PARE_LEAF_ROUTER,     /* index 0 the router, 1 the shared gate */
    PARE_LEAF_ROUTER_BIAS,
    PARE_LEAF_SINKS,
    PARE_LEAF_CORRECTION,   /* of the router */
    PARE_LEAF_STATE_LINEAR, /* of a recurrent state: index 0 beta, 1 decay */
    PARE_LEAF_STATE_VECTOR, /* index: pare_state_vector */
    PARE_LEAF_WEIGHT,       /* index: pare_role; of the model: the head */
    PARE_LEAF_BIAS,         /* the same */
    PARE_LEAF_TABLE         /* of the model, rows are looked up: index 0 embedding, 1 positions */
} pare_leaf_kind;

/* Vectors of a recurrent state. */
typedef enum pare_state_vector {
    PARE_STATE_CONV, /* [channels taps], row by row */
    PARE_STATE_NORM,
    PARE_STATE_RATE,
    PARE_STATE_SHIFT,
    PARE_STATE_VECTORS
} pare_state_vector;

typedef struct pare_leaf {
    pare_leaf_kind kind;
    size_t part, index;
    const char *name;    /* without what pare_leaf_suffix says; of a block: behind the prefix of
                            block and part. NULL: the family has no such leaf, all else is 0 */
    size_t n, k;         /* [n, k]; vectors have k 1 */
    pare_linear *linear; /* of a matrix, floats or packed; else NULL */
    float **vector; /* where the model has a vector; it may be NULL: a bias that is not there */
} pare_leaf;

/* Leaf i of a block. It points into the block, and is for writing where the block is. A linear that
 * is there has its own shape, which may be another one in each block; else the shape is that of the
 * configuration. */
pare_leaf pare_block_leaf(const pare_config *c, const pare_block *b, size_t i);

/* Leaf i of a block of a model, whose blocks may be of several kinds: {0} where this kind has none.
 */
pare_leaf pare_model_block_leaf(const pare_config *c, size_t block, const pare_block *b, size_t i);

/* How many a block has, those that its family lacks included. */
size_t pare_block_leaves(const pare_config *c);

/* The first of them, those that a block in floats owns: all but what takes a place behind the
 * linears of part 0. */
enum { PARE_OWN_LEAVES = 4 + 2 * PARE_ROLES };

/* Leaf i of those outside the blocks. A tied head is none of its own. */
enum { PARE_MODEL_LEAVES = 6 };
pare_leaf pare_model_leaf(const pare_model *m, size_t i);

/* A tied head that reads the embedding as it lies now. */
pare_linear pare_tied_head(const pare_model *m);

/* ".weight", ".bias"; "" of a whole tensor: sinks, correction, rate, shift. */
const char *pare_leaf_suffix(const pare_leaf *leaf);

/* The values in floats: NULL where there are none, or a matrix is not F32. */
float *pare_leaf_floats(const pare_leaf *leaf);

/* A copy of a block, or of all blocks of a model, with experts of its own: leaves are written into
 * it, and `from` stays as it is. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_block_copy(pare_arena *a, const pare_config *c,
                                         const pare_block *from, pare_block *out);
PARE_CHECKED pare_status pare_blocks_copy(pare_arena *a, const pare_model *m, pare_block **out);

/* Which biases the own linears and the norms of a block have, or have room for. */
typedef struct pare_biases {
    unsigned linear; /* bit per pare_role */
    unsigned norm;   /* bit 0: attention, bit 1: MLP */
} pare_biases;

/* What the block of a model has. */
pare_biases pare_block_biases(const pare_block *b);

/* Zeroed floats of a block in the arena: linears of part 0, the norms in front, and the biases that
 * `room` says. pare_block_load gives it the rest. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_block_take(pare_arena *a, const pare_config *c, pare_biases room,
                                         pare_block *out);

/* Bytes that pare_block_take takes, at most. */
uint64_t pare_block_float_bytes(const pare_config *c);

/* Fills `to`, which was taken, from a block: matrices copied, converted or decoded, vectors copied;
 * a bias that the block lacks becomes 0. `to` has room for all that the block has, and its linears
 * get the shapes of those of `from`. Inner norms, router, sinks, what a recurrent state has and
 * experts are those of `from`; tables of a cache are not taken over. Threads over rows; exact. */
void pare_block_load(pare_ctx *cx, const pare_config *c, const pare_block *from, pare_block *to);

#endif
