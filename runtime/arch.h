/* runtime/arch.h - families of models, as data: one table entry each.
 *
 * What is the same for all models of a family stands here; what a config.json may choose stands in
 * pare_config. Nothing else in pare knows the name of a family.
 *
 * To add one: an entry in an arch_*.c and its name in arch.c, a case in tests/data/family_table.h,
 * golden values of it. */
#ifndef PARE_RUNTIME_ARCH_H
#define PARE_RUNTIME_ARCH_H

#include <stdbool.h>
#include <stddef.h>

#include "runtime/roles.h"

typedef enum pare_bias_rule {
    PARE_BIAS_ASKED,  /* when config.json says attention_bias or mlp_bias: true */
    PARE_BIAS_UNLESS, /* unless it says false */
    PARE_BIAS_NEVER,
    PARE_BIAS_ALWAYS
} pare_bias_rule;

typedef struct pare_linear_desc {
    const char *name; /* behind the block prefix, without ".weight"; NULL: absent */
    pare_site site;
    pare_width out, in;
    pare_bias_rule bias;
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

/* What a block with a recurrent state in place of attention (block_ops.h, recur) has beside its
 * linears, of which Q makes q, k and v of the state, K the gate of its output, O reads that, and V
 * is none. Behind the block prefix. */
typedef struct pare_recurrence_names {
    const char *beta, *decay; /* [value heads, hidden], without ".weight" */
    const char *conv, *norm;  /* [channels, 1, taps], [value width], likewise */
    const char *rate, *shift; /* [value heads], whole tensors */
    const char *fused[2]; /* tensors that hold Q and K, and beta and decay, key head after key head:
                             of each its rows of q, k, v and K, and of beta and decay; or NULL */
} pare_recurrence_names;

/* How the rows of several linears lie in one tensor. */
typedef enum pare_fusion {
    PARE_FUSION_STACKED, /* one linear after the other */
    PARE_FUSION_HEADS    /* head after head, of each the rows of the linears in turn */
} pare_fusion;

/* A tensor `name` (behind the block prefix) that holds several linears; with a bias where they have
 * one. Inside they are called `name`.q and so on, as arch->linear says. */
typedef struct pare_fused {
    const char *name; /* NULL: no such tensor */
    pare_fusion fusion;
    pare_role first;
    size_t count;
} pare_fused;
enum { PARE_FUSED_MAX = 2 };

/* How files may hold all experts of a block, in two tensors (formats/expert_stack.h). */
typedef enum pare_stacking {
    PARE_STACKING_NONE,   /* every expert has tensors of its own */
    PARE_STACKING_TURNS,  /* outputs in columns: gate, up, gate, up ... */
    PARE_STACKING_HALVES, /* outputs in columns, all of gate in front of all of up */
    PARE_STACKING_ROWS    /* the same with outputs in rows */
} pare_stacking;

/* An MLP of many experts, of which a router picks some for each token.
 *
 * The linears of a block have parts: part 0 is what every token runs (attention, and the MLP of
 * pare_arch.linear where the family has one beside its experts: a shared expert), part e + 1 is
 * expert e. Of a part above 0 there are GATE, UP and DOWN only, with their usual sites. */
typedef struct pare_experts {
    const char *prefix; /* behind the block prefix, with one %zu: "mlp.experts.%zu." */
    pare_linear_desc linear[PARE_ROLES]; /* behind it */
    const char *router; /* [experts, hidden], behind the block prefix, without ".weight" */
    bool router_bias;
    const char *correction; /* [experts], the name of the whole tensor behind the block prefix: the
                               router gives sigmoids, and picks by their sums with these; NULL */
    pare_stacking stacking;
    bool inward; /* the router gives each picked expert the sigmoid of its logit, which scales the
                    input of the expert, not its output */
    const char *shared_gate; /* [1, hidden], likewise: its sigmoid scales the MLP of part 0; NULL */
    const char *count[2];    /* words of config.json for the number of experts: one or two */
    const char *used;        /* for those that each token runs */
    const char *width;       /* for the rows of GATE and UP */
    const char *norm;        /* whether weights of the picked ones sum to 1; NULL: they do */
    bool norms;              /* what holds where nothing is said of that */
    const char *dense_blocks, *step; /* words that would make some blocks dense: refused; or NULL */
    /* What holds where nothing is said of n_group, topk_group, first_k_dense_replace and
     * routed_scaling_factor, in a family with blocks without experts. */
    size_t groups, groups_used, first_dense;
    double scale;
} pare_experts;

/* Words of config.json. */
typedef struct pare_config_words {
    const char *hidden, *blocks, *heads, *context, *act;
    const char *intermediate; /* absent or null in the file: 4 hidden, if that may be; NULL: part 0
                                 has no MLP */
    const char *kv_heads;     /* NULL: as many as heads */
    const char *norm_eps;     /* NULL: always arch->norm_eps */
    bool may_lack_intermediate;
} pare_config_words;

/* A switch of config.json that must have one value, or be absent. */
typedef struct pare_demand {
    const char *key; /* NULL: the end of a list */
    bool value;
} pare_demand;

/* Which blocks have the window of config.json unless its layer_types say it. */
typedef enum pare_window_rule {
    PARE_WINDOW_NONE,     /* none: the family has no windows */
    PARE_WINDOW_ALL,      /* all */
    PARE_WINDOW_ALWAYS,   /* all; layer_types that say otherwise are refused */
    PARE_WINDOW_SWITCHED, /* with use_sliding_window those from max_window_layers on */
    PARE_WINDOW_EVEN,     /* blocks 0, 2, 4 ... */
    PARE_WINDOW_FOURTH,   /* all but every fourth, which must have a width */
    PARE_WINDOW_PERIOD,   /* all but every sliding_window_pattern-th, the sixth by default */
    PARE_WINDOW_CHUNKS    /* attention_chunk_size: chunks in blocks that turn; what comes with it:
                             formats/config_chunks.c */
} pare_window_rule;

/* One family. Checkpoint names are printf patterns; block_prefix has one %zu. */
typedef struct pare_arch {
    const char *model_type;        /* config.json "model_type" */
    const char *also;              /* another model_type with the same configuration; or NULL */
    const struct pare_arch *plain; /* the family where q_lora_rank is null, or use_qk_norm is not
                                      true; NULL: as it is here */
    const struct pare_arch *dense; /* its blocks without experts; NULL: there are none */
    const char *summary;
    const char *embed, *norm, *head; /* without ".weight" */
    const char *block_prefix;        /* "model.layers.%zu." */
    const char *attention_norm,
        *mlp_norm; /* mlp_norm NULL: shared; both: nothing is normed there */
    pare_linear_desc linear[PARE_ROLES];
    pare_producer producer[PARE_SITES];
    const pare_experts *experts; /* NULL: one MLP for all tokens */

    const struct pare_arch *recurrent; /* what holds for the blocks with a recurrent state, which
                                          config.json names; NULL: the family has none */
    const pare_recurrence_names *recurrence; /* of an entry that stands there; else NULL */
    const char *sinks; /* [heads], the name of the whole tensor behind the block prefix: logits that
                          take part in every softmax of attention and stand for no value; NULL */
    const char *positions;  /* learned, without ".weight"; NULL: rotary */
    size_t position_offset; /* row of position 0 */
    double latent_eps; /* latent attention, with this epsilon in its norms; 0: there is none such */
    pare_norm_kind norm_kind;
    float norm_offset; /* added to the weights of every norm as they stand in the file */
    const char *inner_norm[PARE_NORMS];
    bool whole_qk_norms; /* PARE_NORM_Q and K: all heads of a token together */
    bool head_bias;
    pare_fused fused[PARE_FUSED_MAX];
    bool transposed;        /* linears of blocks lie [in, out] in the file */
    const char *prefix;     /* of all tensors but the head; some files leave it out */
    const char *ignored[2]; /* tensors of a block that hold no weights; or NULL */

    /* What config.json says, and what holds where it says nothing. */
    const pare_config_words *words;
    const pare_demand *demands; /* or NULL */
    double norm_eps;            /* 0: must be given */
    size_t context;             /* positions where nothing is said of them */
    double rope_theta, rotary_share;
    bool turns_part;             /* partial_rotary_factor may be less than 1 */
    bool turns_neighbours;       /* as pare_config says */
    bool rope_given;             /* config.json must describe the scaling of positions */
    double rope_theta_local;     /* of blocks with a window, which turn unscaled; 0: as all do */
    const char *rope_word_local; /* its word beside rope_theta */
    size_t unturned_period;      /* 0: all blocks turn; else every so-many-th does not, unless
                                    no_rope_layer_interval or no_rope_layers says otherwise */
    pare_act act;
    bool gelu_means_tanh; /* "gelu" in the file is the approximation */
    pare_residual residual;
    pare_window_rule window;
    size_t window_width; /* sliding_window where nothing is said of it; 0: none */
    bool tied;
    bool scales_embedding; /* by sqrt(hidden) */
    bool multiplies;       /* embedding_multiplier, attention_multiplier, residual_multiplier,
                              logits_scaling: 1 where nothing is said of them */
    /* 0: never read; below 0: none where nothing is said. attn_logit_softcapping,
     * final_logit_softcapping, query_pre_attn_scalar */
    double attention_cap, logit_cap, attention_scalar;
    bool rounds_inputs; /* of linears, to int8 with a scale per token, whoever runs them; their
                           weights are ternary and may be stored so */
} pare_arch;

/* The table, ended by an entry with NULL model_type. */
extern const pare_arch *const pare_archs[];
const pare_arch *pare_arch_find(const char *model_type); /* NULL when unknown */

/* The linear `role` of a part; its name is NULL where the part has none such. */
const pare_linear_desc *pare_arch_linear(const pare_arch *a, size_t part, pare_role role);

/* Writes the checkpoint name of what a part of block `block` calls `name`, without ".weight" as
 * that is. Returns its length, or 0 when `size` bytes do not hold it with its end. */
size_t pare_arch_name_in(const pare_arch *a, size_t block, size_t part, const char *name,
                         char *text, size_t size);

/* What stands behind the prefix of a block in the name of a tensor, and the number of the block,
 * the model may have it or not; NULL outside of blocks. */
const char *pare_arch_inside(const pare_arch *a, const char *name, size_t *block);

/* Whether a tensor belongs to one expert, the model may have it or not: its block, its number, and
 * what stands in its name behind the prefix of the expert. */
bool pare_arch_expert(const pare_arch *a, const char *name, size_t *block, size_t *expert,
                      const char **rest);

/* In part 0. */
static inline bool pare_arch_has(const pare_arch *a, pare_role role)
{
    return a->linear[role].name != NULL;
}

#endif
