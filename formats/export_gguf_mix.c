/* The mixes of types that llama.cpp calls Q2_K, Q3_K_M, Q4_K_S and so on: what its
 * llama_tensor_get_type_impl (llama.cpp in llama-cpp-python 0.3.36) gives tensors when no imatrix
 * is there, in families that pare writes:
 *
 *     v, or q, k and v together   more bits in all blocks, in the first ones, or in some
 *     down, o                     likewise
 *     all but these               the type of the mix
 *     head, or a tied embedding   Q6_K
 *
 * "some" are the first and the last eighth and every third between. A model of 80 blocks with fewer
 * heads of keys has 5 bits in v at least; one of 8 experts Q8_0 in k and v, 5 bits in o. */
#include <string.h>

#include "formats/export_internal.h"
#include "formats/gguf_internal.h"

/* What a rule looks at. */
typedef struct place {
    pare__gguf_mix mix;
    size_t block, blocks;
    bool wide;    /* four or more heads share those of keys */
    bool experts; /* 8 of them, for which llama.cpp has rules of its own */
    bool large;   /* its 70B model */
} place;

/* The first and the last eighth of the blocks, and every third of the others. */
static bool is_some(const place *p)
{
    const size_t eighth = p->blocks / 8;
    return p->block < eighth || p->block >= 7 * p->blocks / 8 || (p->block - eighth) % 3 == 2;
}

static const char *values_type(const place *p, const char *type)
{
    switch (p->mix) {
    case PARE__MIX_Q2_K_S: return p->wide ? "Q4_K" : type;
    case PARE__MIX_Q2_K_M: return p->wide ? "Q4_K" : "Q3_K";
    case PARE__MIX_Q3_K_M: return p->block < 2 ? "Q5_K" : "Q4_K";
    case PARE__MIX_Q3_K_L: return "Q5_K";
    case PARE__MIX_Q4_K_S: return p->block < 4 ? "Q5_K" : type;
    case PARE__MIX_Q4_K_M:
    case PARE__MIX_Q5_K_M: return is_some(p) ? "Q6_K" : type;
    default: return type;
    }
}

static const char *down_type(const place *p, const char *type)
{
    switch (p->mix) {
    case PARE__MIX_Q2_K_S: return p->block < p->blocks / 8 ? "Q4_K" : type;
    case PARE__MIX_Q2_K_M: return "Q3_K";
    case PARE__MIX_Q3_K_M: return p->block < p->blocks / 16 ? "Q5_K" : "Q4_K";
    case PARE__MIX_Q3_K_L: return "Q5_K";
    case PARE__MIX_Q4_K_S: return p->block < p->blocks / 8 ? "Q5_K" : type;
    case PARE__MIX_Q4_K_M:
    case PARE__MIX_Q5_K_M: return is_some(p) ? "Q6_K" : type;
    default: return type;
    }
}

static const char *output_type(const place *p, const char *type)
{
    switch (p->mix) {
    case PARE__MIX_Q2_K_M: return p->experts ? "Q5_K" : "Q3_K";
    case PARE__MIX_Q3_K_M: return p->experts ? "Q5_K" : "Q4_K";
    case PARE__MIX_Q3_K_L: return p->experts ? type : "Q5_K";
    case PARE__MIX_Q3_K_S:
    case PARE__MIX_Q4_K_S:
    case PARE__MIX_Q4_K_M: return p->experts ? "Q5_K" : type;
    default: return type;
    }
}

static bool is_large(const pare_config *c)
{
    const char *const arch = pare__gguf_family_for(c)->arch;
    return c->blocks == 80 && (strcmp(arch, "qwen2") == 0 || strcmp(arch, "deci") == 0 ||
                               (strcmp(arch, "llama") == 0 && c->heads != c->kv_heads));
}

const char *pare__gguf_mixed_outer(const pare_export_target *t, const pare_config *c,
                                   bool embedding)
{
    const bool own = !c->tied || (pare__gguf_family_for(c)->how & PARE__GGUF_HEAD) != 0;
    return embedding && own ? t->block : "Q6_K";
}

const char *pare__gguf_mixed(const pare_export_target *t, const pare_export_linear *l)
{
    const pare_config *const c = l->config;
    if (!t->mix)
        return t->block;
    if (l->role == PARE_ROLES)
        return pare__gguf_mixed_outer(t, c, l->looked_up);
    const place p = {.mix = (pare__gguf_mix)t->mix,
                     .block = l->block,
                     .blocks = c->blocks,
                     .wide = c->heads / c->kv_heads >= 4,
                     .experts = c->experts == 8,
                     .large = is_large(c)};
    if (l->role == PARE_ROLE_V || (l->role == PARE_ROLE_Q && l->pieces)) {
        const char *const type = values_type(&p, t->block);
        if (p.experts)
            return "Q8_0";
        const bool few = strcmp(type, "Q3_K") == 0 || strcmp(type, "Q4_K") == 0;
        return p.large && few ? "Q5_K" : type;
    }
    if (l->role == PARE_ROLE_K)
        return p.experts ? "Q8_0" : t->block;
    if (l->role == PARE_ROLE_DOWN)
        return down_type(&p, t->block);
    return l->role == PARE_ROLE_O ? output_type(&p, t->block) : t->block;
}
