/* runtime/model.h - what a model is: a configuration, a table entry per family, and weights.
 *
 * A family is one pare_arch (runtime/arch.h): data only. A model in memory is a pare_model: views
 * into mapped files for large tensors, small vectors (norms, biases) as F32 copies in the model
 * arena. */
#ifndef PARE_RUNTIME_MODEL_H
#define PARE_RUNTIME_MODEL_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "runtime/arch.h"
#include "runtime/arena.h"
#include "runtime/block_set.h"
#include "runtime/encoding.h"
#include "runtime/kv_format.h"
#include "runtime/rope.h"
#include "runtime/tensor.h"

enum { PARE_BLOCKS_MAX = 4096, PARE_EXPERTS_MAX = 1024 };

/* Heads of a recurrent state: value heads i r .. i r + r - 1 share key head i. */
typedef struct pare_recurrence_sizes {
    size_t key_heads, value_heads, key_width, value_width; /* widths of a head */
    size_t taps;                                           /* inputs of the convolution */
} pare_recurrence_sizes;

typedef struct pare_config {
    const pare_arch *arch;
    size_t hidden, blocks, heads, kv_heads, head_dim, vocab, context;
    size_t intermediate; /* of the MLP of part 0; 0: there is none */
    bool uneven;    /* MLPs of the blocks differ: `mlp` has theirs, `intermediate` the widest */
    size_t experts; /* 0: one MLP for all tokens; the next three only with experts */
    size_t experts_used;                      /* by a token */
    size_t expert_width;                      /* as intermediate, of each */
    size_t expert_groups, expert_groups_used; /* only the best groups of equal size are picked from;
                                                 0: there are no groups */
    size_t expert_multiple;                   /* their number is a multiple of it; 0: of 1 */
    double expert_scale;                      /* of the weights of experts; 0: 1 */
    size_t dense_blocks;                      /* those without experts: arch->dense */
    uint64_t dense[PARE_BLOCKS_MAX / 64];     /* with dense_blocks: bit i: block i is one */
    bool expert_norm; /* weights of the experts that a token uses sum to 1 */
    double norm_eps;
    size_t q_rank, kv_rank; /* of latent attention, as the next two; q_rank 0: q is direct */
    size_t value_dim;       /* channels of a value, of head_dim; the rest is 0 */
    bool turns_neighbours; /* channels 2 i and 2 i + 1 of a head turn together; else i and that half
                              of the turning ones further */
    pare_rope rope;
    pare_rope rope_local; /* of the blocks of pare_config_turns_apart; theta 0: the same */
    bool tied;
    pare_act act; /* of the MLP */
    pare_residual residual;
    double embed_scale;  /* of what is looked up; 0: 1 */
    double stream_scale; /* the stream holds 1 / stream_scale of what the family has there, so that
                            each half adds what it makes: embed_scale and norm_eps, which is that
                            of the file / stream_scale^2, are of this stream; 0: 1 */
    double
        logit_divisor; /* of logits: the last norm holds 1 / logit_divisor of its weights; 0: 1 */
    double attention_scale; /* of q k; 0: 1 / sqrt(head_dim) */
    double attention_cap;   /* scores s become cap tanh(s / cap); 0: no cap */
    double logit_cap;       /* the same for logits */
    size_t window;          /* positions that a token sees, itself included; 0: all before it */
    bool chunked;           /* it sees those of its own chunk of `window` positions, up to itself */
    bool
        unit_norms; /* q and k of each head are normed, by weights of 1, in blocks with positions */
    double temperature; /* of blocks without positions: q of position p is multiplied by
                           1 + temperature ln(1 + floor((p + 1) / temperature_step)); 0: by 1 */
    size_t temperature_step;
    uint64_t wide[PARE_BLOCKS_MAX / 64];     /* bit i: block i sees all, whatever the window */
    uint64_t unturned[PARE_BLOCKS_MAX / 64]; /* bit i: block i has no positions; rope_local is NONE
                                                where one has its bit */
    pare_recurrence_sizes recurrence;        /* of arch->recurrent */
    bool mixed; /* blocks may have a recurrent state in place of attention, and be as
                   arch->recurrent says */
    uint64_t recurrent[PARE_BLOCKS_MAX / 64]; /* with `mixed`: bit i: block i does */
    int64_t bos_id, eos_id[8];                /* -1: none */
    size_t eos_ids;
    uint32_t mlp[PARE_BLOCKS_MAX]; /* with `uneven` */
} pare_config;

/* Parts of a block (runtime/arch.h): 0 and one for each expert. */
static inline size_t pare_block_parts(const pare_config *c)
{
    return 1 + c->experts;
}

/* The entry of block `block`: that of the model, of its recurrent blocks, or of those without
 * experts. */
const pare_arch *pare_block_arch(const pare_config *c, size_t block);

/* Blocks with attention. */
size_t pare_config_attentions(const pare_config *c);

/* Values that go through the convolution of a recurrent state: q, k and v. */
size_t pare_mixed_width(const pare_config *c);

/* Rows and columns of a linear: *n outputs, *k inputs; 0 and 0 when the part has none such. Where
 * kinds of blocks differ, the most of each. */
void pare_linear_shape(const pare_config *c, size_t part, pare_role role, size_t *n, size_t *k);

/* Channels of the MLP of a block, and the shape of a linear there: as pare_linear_shape where all
 * blocks are alike. */
size_t pare_config_mlp(const pare_config *c, size_t block);
size_t pare_config_channels(const pare_config *c); /* of the MLPs of all blocks */
void pare_block_shape(const pare_config *c, size_t block, size_t part, pare_role role, size_t *n,
                      size_t *k);

/* The configuration of a model whose blocks are all like block `block`: for what works on one block
 * at a time. */
void pare_block_config(const pare_config *c, size_t block, pare_config *out);

/* Columns of the input of a site, the most where kinds of blocks differ; 0 when no linear of the
 * part reads it. */
size_t pare_site_width(const pare_config *c, size_t part, pare_site site);

/* Weights of experts that a token does not use; 0 where all tokens use all weights, UINT64_MAX for
 * more than fit. */
uint64_t pare_config_idle_weights(const pare_config *c);

/* Values of a norm. */
size_t pare_norm_width(const pare_config *c, pare_norm norm);

/* Positions that block `block` sees, itself included, or of its chunks; 0: all. */
size_t pare_config_window(const pare_config *c, size_t block);

/* The first position that one sees, with the window of its block. */
static inline size_t pare_window_low(const pare_config *c, size_t window, size_t position)
{
    if (window == 0 || position < window)
        return 0;
    return c->chunked ? position / window * window : position + 1 - window;
}

/* What q of a position is multiplied with where a block turns apart (pare_config.temperature). */
float pare_config_temperature(const pare_config *c, bool apart, size_t position);

/* Whether block `block` turns by rope_local: with a window, or without positions where some blocks
 * have none. */
bool pare_config_turns_apart(const pare_config *c, size_t block);

/* Pairs of channels of a head that turn with the position; 0 where positions are learned. */
size_t pare_rope_pairs(const pare_config *c);

/* Rows of the tables of angles of a model (pare_rope_rows): those of rope, and behind them
 * `positions` of rope_local, where it has one. */
size_t pare_rope_table_rows(const pare_config *c, size_t positions);

/* Why pare does not train it, why it cannot be rotated (quant/rotate.h), why a smaller plain
 * checkpoint of it cannot be written (prune/structure.h). NULL: it can. */
const char *pare_config_no_training(const pare_config *c);
const char *pare_config_no_rotation(const pare_config *c);
const char *pare_config_no_structure(const pare_config *c);

/* Input columns whose weights are kept apart at higher precision: y += V x[column]. In the panel
 * their codes stand for 0, and their x counts as 0 there. */
typedef struct pare_outliers {
    size_t count;
    const uint32_t *column; /* [count] ascending */
    const uint16_t *f16;    /* [n, count] F16, multiplied with x in F32; or NULL and: */
    pare_panel panel;       /* 8 bits, symmetric, one scale per row, x in int8 with one scale per
                               token; k is count rounded up to 32 */
} pare_outliers;

/* Single weights kept apart: y[r] += value[i] x[column[i]], start[r] <= i < start[r + 1]. */
typedef struct pare_sparse {
    const uint32_t *start;  /* [n + 1] */
    const uint32_t *column; /* ascending in a row */
    const uint16_t *value;  /* F16 */
} pare_sparse;

/* One weight matrix: dense (data of `dtype`, row-major [n, k]) or packed (bits != 0). */
typedef struct pare_linear {
    const char *name; /* checkpoint name without ".weight" */
    size_t n, k;      /* true sizes, without padding */
    pare_dtype dtype; /* dense: F32, F16, BF16; aligned to the element */
    union {
        const void *data;
        float *floats; /* F32 of who owns them and may write (runtime/leaves.h) */
    };
    unsigned bits;    /* packed: 2, 3, 4, 8, 16; 0 for dense. The rest only when packed: */
    pare_panel panel; /* n, k padded; with a bitmask only n, k */
    pare_encoding encoding;
    pare_sparsity_store sparsity;
    pare_mask mask; /* BITMASK; n, k true */
    pare_activation activation;
    pare_outliers outliers;                     /* count 0: none */
    pare_sparse sparse;                         /* start NULL: none */
    float *bias;                                /* [n], or NULL; dense too */
    const uint16_t *row_scales, *column_scales; /* F16 [n], [k]: encodings that turn */
    bool rotated; /* o and down, dense too: the block multiplies x by the matrix of
                     runtime/hadamard.h before taps and the linear see it */
} pare_linear;

/* What the weights of a norm in a file are multiplied with, behind the offset of the family. */
static inline float pare_norm_factor(const pare_config *c, bool last)
{
    return last && c->logit_divisor > 0 ? (float)(1 / c->logit_divisor) : 1;
}

/* What a block with a recurrent state has of its own (runtime/arch.h). */
typedef struct pare_recurrence {
    pare_linear beta, decay; /* dense; name NULL: the block has attention */
    float *conv;             /* [channels, taps], the newest input behind the others */
    float *norm;             /* [value width] */
    float *rate, *shift;     /* [value heads] */
} pare_recurrence;

/* Norms hold what is multiplied with: the offset of the family is in them. */
typedef struct pare_block {
    pare_linear linear[PARE_ROLES];  /* part 0; name NULL: there is none such */
    pare_linear *expert;             /* [experts][PARE_ROLES] likewise, or NULL */
    pare_linear router, shared_gate; /* dense; name NULL: there is none such; with a bias where
                                        arch->experts has one */
    float *norm[2];                  /* [hidden] in front of attention, in front of the MLP; the
                                        second NULL: they share the first */
    float *norm_bias[2];             /* [hidden], added behind the norm; or NULL */
    float *inner_norm[PARE_NORMS];   /* those of arch->inner_norm; else NULL */
    float *sinks;                    /* [heads], arch->sinks; or NULL */
    float *correction;               /* [experts], of the router; or NULL */
    pare_recurrence recurrence;
    size_t window;     /* pare_config_window */
    bool apart;        /* pare_config_turns_apart */
    pare_kv_levels kv; /* with PARE_KV_KVQUANT */
} pare_block;

/* The linear `role` of a part, parts counted as pare_block_parts does. */
static inline const pare_linear *pare_block_linear(const pare_block *b, size_t part, pare_role role)
{
    return part == 0 ? &b->linear[role] : &b->expert[(part - 1) * PARE_ROLES + role];
}

static inline pare_linear *pare_block_linear_mutable(pare_block *b, size_t part, pare_role role)
{
    return part == 0 ? &b->linear[role] : &b->expert[(part - 1) * PARE_ROLES + role];
}

typedef struct pare_model {
    pare_config config;
    pare_linear embed;     /* [vocab, hidden], has rows (linear.h); they are looked up */
    pare_linear head;      /* the same view as embed when tied */
    pare_linear positions; /* dense [rows, hidden], or no data: of learned positions */
    float *norm;           /* [hidden], the offset of the family in it */
    float *norm_bias;      /* [hidden] or NULL */
    pare_block *block;     /* [config.blocks] */
    const bool *used;      /* of the checkpoint that it was loaded from: [tensors] has a place */
    pare_kv_format kv;     /* of its caches */
} pare_model;

#endif
