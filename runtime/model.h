/* runtime/model.h - what a model is: a configuration, a table entry per family, and weights.
 *
 * A family (llama, ...) is one pare_arch: data only. A model in memory is a pare_model: views into
 * mapped files for large tensors, small vectors (norms, biases) as F32 copies in the model arena.
 */
#ifndef PARE_RUNTIME_MODEL_H
#define PARE_RUNTIME_MODEL_H

#include <stdbool.h>

#include "kernels/kernels.h"
#include "runtime/arena.h"
#include "runtime/encoding.h"
#include "runtime/kv_format.h"
#include "runtime/tensor.h"

/* Linear layers of a block, in the order in which they run. */
typedef enum pare_role {
    PARE_ROLE_Q,
    PARE_ROLE_K,
    PARE_ROLE_V,
    PARE_ROLE_O,
    PARE_ROLE_GATE,
    PARE_ROLE_UP,
    PARE_ROLE_DOWN,
    PARE_ROLES
} pare_role;

/* Inputs of linear layers. Linears of one site see the same x, so they share its statistics. */
typedef enum pare_site {
    PARE_SITE_ATTENTION, /* normed input of q, k, v */
    PARE_SITE_ATTENDED,  /* attention output, input of o */
    PARE_SITE_MLP,       /* normed input of gate, up */
    PARE_SITE_ACTIVATED, /* act(gate) * up, input of down */
    PARE_SITES
} pare_site;

typedef enum pare_width {
    PARE_WIDTH_HIDDEN,
    PARE_WIDTH_Q,
    PARE_WIDTH_KV,
    PARE_WIDTH_MLP
} pare_width;

typedef struct pare_linear_desc {
    const char *name; /* behind the block prefix, without ".weight" */
    pare_site site;
    pare_width out, in;
} pare_linear_desc;

/* What makes the input of a site, and so takes a scale or shift of its channels. */
typedef enum pare_producer_kind {
    PARE_PRODUCER_NONE,
    PARE_PRODUCER_NORM,  /* the norm in front of the site */
    PARE_PRODUCER_LINEAR /* rows of `role`; the values of attention spread over query heads */
} pare_producer_kind;

typedef struct pare_producer {
    pare_producer_kind kind;
    pare_role role; /* LINEAR */
} pare_producer;

/* One family. Checkpoint names are printf patterns; block_prefix has one %zu. */
typedef struct pare_arch {
    const char *model_type; /* config.json "model_type" */
    const char *summary;
    const char *embed, *norm, *head; /* without ".weight" */
    const char *block_prefix;        /* "model.layers.%zu." */
    const char *attention_norm, *mlp_norm;
    pare_linear_desc linear[PARE_ROLES];
    pare_producer producer[PARE_SITES];
} pare_arch;

/* The table, ended by an entry with NULL model_type. */
extern const pare_arch pare_archs[];
const pare_arch *pare_arch_find(const char *model_type); /* NULL when unknown */

typedef struct pare_rope {
    double theta;
    bool llama3; /* the frequency scaling of Llama 3; the next four fields only then */
    double factor, low_freq_factor, high_freq_factor;
    size_t original_context;
} pare_rope;

typedef struct pare_config {
    const pare_arch *arch;
    size_t hidden, intermediate, blocks, heads, kv_heads, head_dim, vocab, context;
    double norm_eps;
    pare_rope rope;
    bool tied;
    int64_t bos_id, eos_id[8]; /* -1: none */
    size_t eos_ids;
} pare_config;

/* Rows and columns of a linear: *n outputs, *k inputs. */
void pare_linear_shape(const pare_config *c, pare_role role, size_t *n, size_t *k);

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
    const void *data;
    unsigned bits;    /* packed: 2, 3, 4, 8, 16; 0 for dense. The rest only when packed: */
    pare_panel panel; /* n, k padded; with a bitmask only n, k */
    pare_encoding encoding;
    pare_sparsity_store sparsity;
    pare_mask mask; /* BITMASK; n, k true */
    pare_activation activation;
    pare_outliers outliers; /* count 0: none */
    pare_sparse sparse;     /* start NULL: none */
    const float *bias;      /* [n], or NULL; dense too */
    bool rotated;           /* o and down, dense too: the block multiplies x by the matrix of
                               runtime/hadamard.h before taps and the linear see it */
} pare_linear;

typedef struct pare_block {
    pare_linear linear[PARE_ROLES];
    const float *attention_norm, *mlp_norm;           /* [hidden] */
    const float *attention_norm_bias, *mlp_norm_bias; /* [hidden], added behind the norm; or NULL */
    pare_kv_levels kv;                                /* with PARE_KV_KVQUANT */
} pare_block;

typedef struct pare_model {
    pare_config config;
    pare_linear embed; /* dense [vocab, hidden]; rows are looked up */
    pare_linear head;  /* the same view as embed when tied */
    const float *norm; /* [hidden] */
    pare_block *block; /* [config.blocks] */
    pare_kv_format kv; /* of its caches */
} pare_model;

#endif
