#include "runtime/model.h"

#include <string.h>

const pare_arch pare_archs[] = {
    {
        .model_type = "llama",
        .summary = "Llama 1 to 3: RMS norm, rotary positions, grouped-query attention, SwiGLU",
        .embed = "model.embed_tokens",
        .norm = "model.norm",
        .head = "lm_head",
        .block_prefix = "model.layers.%zu.",
        .attention_norm = "input_layernorm",
        .mlp_norm = "post_attention_layernorm",
        .linear =
            {
                [PARE_ROLE_Q] = {"self_attn.q_proj", PARE_SITE_ATTENTION, PARE_WIDTH_Q,
                                 PARE_WIDTH_HIDDEN},
                [PARE_ROLE_K] = {"self_attn.k_proj", PARE_SITE_ATTENTION, PARE_WIDTH_KV,
                                 PARE_WIDTH_HIDDEN},
                [PARE_ROLE_V] = {"self_attn.v_proj", PARE_SITE_ATTENTION, PARE_WIDTH_KV,
                                 PARE_WIDTH_HIDDEN},
                [PARE_ROLE_O] = {"self_attn.o_proj", PARE_SITE_ATTENDED, PARE_WIDTH_HIDDEN,
                                 PARE_WIDTH_Q},
                [PARE_ROLE_GATE] = {"mlp.gate_proj", PARE_SITE_MLP, PARE_WIDTH_MLP,
                                    PARE_WIDTH_HIDDEN},
                [PARE_ROLE_UP] = {"mlp.up_proj", PARE_SITE_MLP, PARE_WIDTH_MLP, PARE_WIDTH_HIDDEN},
                [PARE_ROLE_DOWN] = {"mlp.down_proj", PARE_SITE_ACTIVATED, PARE_WIDTH_HIDDEN,
                                    PARE_WIDTH_MLP},
            },
        .producer =
            {
                [PARE_SITE_ATTENTION] = {.kind = PARE_PRODUCER_NORM},
                [PARE_SITE_ATTENDED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_V},
                [PARE_SITE_MLP] = {.kind = PARE_PRODUCER_NORM},
                [PARE_SITE_ACTIVATED] = {PARE_PRODUCER_LINEAR, PARE_ROLE_UP},
            },
    },
    {.model_type = NULL},
};

const pare_arch *pare_arch_find(const char *model_type)
{
    for (const pare_arch *a = pare_archs; a->model_type; a++) {
        if (strcmp(a->model_type, model_type) == 0)
            return a;
    }
    return NULL;
}

static size_t width_of(const pare_config *c, pare_width w)
{
    switch (w) {
    case PARE_WIDTH_HIDDEN: return c->hidden;
    case PARE_WIDTH_Q: return c->heads * c->head_dim;
    case PARE_WIDTH_KV: return c->kv_heads * c->head_dim;
    case PARE_WIDTH_MLP: return c->intermediate;
    }
    return 0;
}

void pare_linear_shape(const pare_config *c, pare_role role, size_t *n, size_t *k)
{
    const pare_linear_desc *const d = &c->arch->linear[role];
    *n = width_of(c, d->out);
    *k = width_of(c, d->in);
}
