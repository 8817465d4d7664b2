/* runtime/roles.h - the parts of a block: its linears, their inputs and widths, norms, activations.
 */
#ifndef PARE_RUNTIME_ROLES_H
#define PARE_RUNTIME_ROLES_H

/* Linear layers of a block, in the order in which they run; only the last two, which families
 * without latent attention have not, run in front of all others. */
typedef enum pare_role {
    PARE_ROLE_Q,
    PARE_ROLE_K, /* with latent attention: of k and v */
    PARE_ROLE_V,
    PARE_ROLE_O,
    PARE_ROLE_GATE, /* absent where the MLP has no gate */
    PARE_ROLE_UP,
    PARE_ROLE_DOWN,
    PARE_ROLE_Q_A,  /* makes what q is made from */
    PARE_ROLE_KV_A, /* makes what k and v are made from, and the channels of keys that turn */
    PARE_ROLES,
    PARE_COMMON_ROLES = PARE_ROLE_Q_A /* those without latent attention */
} pare_role;

/* Inputs of linear layers. Linears of one site see the same x, so they share its statistics. */
typedef enum pare_site {
    PARE_SITE_ATTENTION, /* normed input of q, k, v; of gate and up too where they share the norm;
                            with latent attention of q_a (or q) and kv_a */
    PARE_SITE_Q_LATENT,  /* normed output of q_a */
    PARE_SITE_KV_LATENT, /* the same of kv_a, without the channels that turn */
    PARE_SITE_ATTENDED,  /* attention output, input of o */
    PARE_SITE_MLP,       /* normed input of gate, up */
    PARE_SITE_ACTIVATED, /* act(gate) * up or act(up), input of down */
    PARE_SITES           /* the site of an absent linear */
} pare_site;

typedef enum pare_width {
    PARE_WIDTH_HIDDEN,
    PARE_WIDTH_Q,
    PARE_WIDTH_GATED_Q, /* head by head q and a gate for each of its channels */
    PARE_WIDTH_KV,
    PARE_WIDTH_MLP,
    PARE_WIDTH_EXPERT,
    PARE_WIDTH_Q_LATENT, /* the rest with latent attention */
    PARE_WIDTH_KV_LATENT,
    PARE_WIDTH_KV_A, /* the latent, and the channels of keys that turn */
    PARE_WIDTH_KV_B, /* the other channels of keys, and values */
    PARE_WIDTH_VALUES,
    PARE_WIDTH_MIXED, /* q, k and v of a recurrent state, one behind the other */
    PARE_WIDTH_STATE  /* values of all heads of a recurrent state */
} pare_width;

typedef enum pare_norm_kind {
    PARE_NORM_RMS,  /* w x / sqrt(mean x^2 + eps) */
    PARE_NORM_LAYER /* w (x - mean x) / sqrt(mean (x - mean x)^2 + eps) + bias */
} pare_norm_kind;

/* Norms inside a block, beside those in front of its halves; RMS all. */
typedef enum pare_norm {
    PARE_NORM_Q,        /* each head of q, or all together, before they turn */
    PARE_NORM_K,        /* likewise */
    PARE_NORM_Q_LATENT, /* with an epsilon of their own */
    PARE_NORM_KV_LATENT,
    PARE_NORM_ATTENDED,        /* in front of o */
    PARE_NORM_ACTIVATED,       /* in front of down */
    PARE_NORM_AFTER_ATTENTION, /* what attention adds to the stream */
    PARE_NORM_AFTER_MLP,       /* what the MLP adds to it */
    PARE_NORMS
} pare_norm;

typedef enum pare_act {
    PARE_ACT_SILU,
    PARE_ACT_GELU,      /* x Phi(x), by the error function */
    PARE_ACT_GELU_TANH, /* its approximation by tanh */
    PARE_ACT_RELU,
    PARE_ACT_RELU2,   /* relu(x)^2 */
    PARE_ACT_CLAMPED, /* with up only: (u + 1) g / (1 + e^(-1.702 g)), g = min(gate, 7),
                         u = up held in -7 .. 7 */
    PARE_ACTS
} pare_act;

typedef enum pare_residual {
    PARE_RESIDUAL_SERIAL,   /* h = x + attention(n1 x),  y = h + mlp(n2 h) */
    PARE_RESIDUAL_PARALLEL, /* y = x + attention(n1 x) + mlp(n2 x) */
    PARE_RESIDUAL_SHARED    /* the same with one norm: n2 = n1 */
} pare_residual;

#endif
