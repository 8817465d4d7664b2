#include "runtime/leaves.h"

#include <string.h>

#include "runtime/linear.h"

/* Where the leaves of a block begin. */
enum {
    LINEAR = 4,
    INNER = PARE_OWN_LEAVES,
    ROUTER = INNER + PARE_NORMS,
    SINKS = ROUTER + 3,
    CORRECTION = SINKS + 1,
    STATE = CORRECTION + 1,
    EXPERT = STATE + 2 + PARE_STATE_VECTORS
};

/* Who has a model or block const does not write through its leaves. */
static pare_leaf vector(pare_leaf_kind kind, size_t index, const char *name, size_t n,
                        float *const *at)
{
    return name ? (pare_leaf){.kind = kind,
                              .index = index,
                              .name = name,
                              .n = n,
                              .k = 1,
                              .vector = (float **)(uintptr_t)at}
                : (pare_leaf){0};
}

static pare_leaf matrix(pare_leaf_kind kind, size_t index, const char *name, size_t n, size_t k,
                        const pare_linear *at)
{
    return name ? (pare_leaf){.kind = kind,
                              .index = index,
                              .name = name,
                              .n = n,
                              .k = k,
                              .linear = (pare_linear *)(uintptr_t)at}
                : (pare_leaf){0};
}

/* Leaf i of the linears of a part. */
static pare_leaf linear_leaf(const pare_config *c, const pare_block *b, size_t part, size_t i)
{
    const pare_role role = (pare_role)(i / 2);
    const char *const name = pare_arch_linear(c->arch, part, role)->name;
    if (!name)
        return (pare_leaf){0};
    const pare_linear *const l = pare_block_linear(b, part, role);
    size_t n = l->n, k = l->k;
    if (n == 0) /* not filled yet */
        pare_linear_shape(c, part, role, &n, &k);
    pare_leaf leaf = i % 2 ? vector(PARE_LEAF_BIAS, role, name, n, &l->bias)
                           : matrix(PARE_LEAF_WEIGHT, role, name, n, k, l);
    leaf.part = part;
    return leaf;
}

/* Leaf i of a recurrent state. */
static pare_leaf state_leaf(const pare_config *c, const pare_block *b, size_t i)
{
    const pare_recurrence_names *const names = c->arch->recurrence;
    const pare_recurrence_sizes *const r = &c->recurrence;
    const pare_recurrence *const is = &b->recurrence;
    if (!names)
        return (pare_leaf){0};
    if (i < 2)
        return matrix(PARE_LEAF_STATE_LINEAR, i, i ? names->decay : names->beta, r->value_heads,
                      c->hidden, i ? &is->decay : &is->beta);
    const pare_state_vector which = (pare_state_vector)(i - 2);
    switch (which) {
    case PARE_STATE_CONV:
        return vector(PARE_LEAF_STATE_VECTOR, which, names->conv, pare_mixed_width(c) * r->taps,
                      &is->conv);
    case PARE_STATE_NORM:
        return vector(PARE_LEAF_STATE_VECTOR, which, names->norm, r->value_width, &is->norm);
    case PARE_STATE_RATE:
        return vector(PARE_LEAF_STATE_VECTOR, which, names->rate, r->value_heads, &is->rate);
    case PARE_STATE_SHIFT:
    case PARE_STATE_VECTORS: break;
    }
    return vector(PARE_LEAF_STATE_VECTOR, which, names->shift, r->value_heads, &is->shift);
}

pare_leaf pare_block_leaf(const pare_config *c, const pare_block *b, size_t i)
{
    const pare_arch *const a = c->arch;
    if (i < LINEAR) {
        const char *const name = i < 2 ? a->attention_norm : a->mlp_norm;
        return i % 2 ? vector(PARE_LEAF_NORM_BIAS, i / 2, name, c->hidden, &b->norm_bias[i / 2])
                     : vector(PARE_LEAF_NORM, i / 2, name, c->hidden, &b->norm[i / 2]);
    }
    if (i < INNER)
        return linear_leaf(c, b, 0, i - LINEAR);
    if (i < ROUTER) {
        const pare_norm norm = (pare_norm)(i - INNER);
        return vector(PARE_LEAF_INNER_NORM, norm, a->inner_norm[norm], pare_norm_width(c, norm),
                      &b->inner_norm[norm]);
    }
    if (i >= EXPERT)
        return linear_leaf(c, b, 1 + (i - EXPERT) / (2 * PARE_ROLES),
                           (i - EXPERT) % (2 * PARE_ROLES));
    if (i == SINKS)
        return vector(PARE_LEAF_SINKS, 0, a->sinks, c->heads, &b->sinks);
    if (i >= STATE)
        return state_leaf(c, b, i - STATE);
    if (!a->experts)
        return (pare_leaf){0};
    if (i == CORRECTION)
        return vector(PARE_LEAF_CORRECTION, 0, a->experts->correction, c->experts, &b->correction);
    if (i == ROUTER + 2)
        return vector(PARE_LEAF_ROUTER_BIAS, 0, a->experts->router_bias ? a->experts->router : NULL,
                      c->experts, &b->router.bias);
    return i == ROUTER
               ? matrix(PARE_LEAF_ROUTER, 0, a->experts->router, c->experts, c->hidden, &b->router)
               : matrix(PARE_LEAF_ROUTER, 1, a->experts->shared_gate, 1, c->hidden,
                        &b->shared_gate);
}

pare_leaf pare_model_block_leaf(const pare_config *c, size_t block, const pare_block *b, size_t i)
{
    pare_config own;
    if (!c->mixed && !c->uneven && !c->dense_blocks) /* all alike */
        return pare_block_leaf(c, b, i);
    pare_block_config(c, block, &own);
    return i < pare_block_leaves(&own) ? pare_block_leaf(&own, b, i) : (pare_leaf){0};
}

pare_status pare_block_copy(pare_arena *a, const pare_config *c, const pare_block *from,
                            pare_block *out)
{
    const size_t count = c->experts * PARE_ROLES;
    *out = *from;
    if (!count || !from->expert)
        return PARE_OK;
    out->expert = PARE_NEW(a, pare_linear, count);
    if (!out->expert)
        return PARE_ENOMEM;
    memcpy(out->expert, from->expert, count * sizeof *out->expert);
    return PARE_OK;
}

pare_status pare_blocks_copy(pare_arena *a, const pare_model *m, pare_block **out)
{
    *out = PARE_NEW(a, pare_block, m->config.blocks);
    if (!*out)
        return PARE_ENOMEM;
    for (size_t i = 0; i < m->config.blocks; i++)
        PARE_TRY(pare_block_copy(a, &m->config, &m->block[i], &(*out)[i]));
    return PARE_OK;
}

size_t pare_block_leaves(const pare_config *c)
{
    return EXPERT + 2 * PARE_ROLES * c->experts;
}

pare_leaf pare_model_leaf(const pare_model *m, size_t i)
{
    const pare_config *const c = &m->config;
    const pare_arch *const a = c->arch;
    const char *const head = c->tied ? NULL : a->head;
    switch (i) {
    case 0: return matrix(PARE_LEAF_TABLE, 0, a->embed, c->vocab, c->hidden, &m->embed);
    case 1:
        return matrix(PARE_LEAF_TABLE, 1, a->positions, c->context + a->position_offset, c->hidden,
                      &m->positions);
    case 2: return vector(PARE_LEAF_NORM, 0, a->norm, c->hidden, &m->norm);
    case 3: return vector(PARE_LEAF_NORM_BIAS, 0, a->norm, c->hidden, &m->norm_bias);
    case 4: return matrix(PARE_LEAF_WEIGHT, 0, head, c->vocab, c->hidden, &m->head);
    default:
        return vector(PARE_LEAF_BIAS, 0, a->head_bias ? a->head : NULL, c->vocab, &m->head.bias);
    }
}

pare_linear pare_tied_head(const pare_model *m)
{
    pare_linear head = m->embed;
    head.name = m->head.name;
    head.bias = m->head.bias;
    return head;
}

const char *pare_leaf_suffix(const pare_leaf *leaf)
{
    switch (leaf->kind) {
    case PARE_LEAF_BIAS:
    case PARE_LEAF_NORM_BIAS:
    case PARE_LEAF_ROUTER_BIAS: return ".bias";
    case PARE_LEAF_SINKS:
    case PARE_LEAF_CORRECTION: return "";
    case PARE_LEAF_STATE_VECTOR:
        return leaf->index == PARE_STATE_RATE || leaf->index == PARE_STATE_SHIFT ? "" : ".weight";
    case PARE_LEAF_STATE_LINEAR:
    case PARE_LEAF_NORM:
    case PARE_LEAF_INNER_NORM:
    case PARE_LEAF_ROUTER:
    case PARE_LEAF_WEIGHT:
    case PARE_LEAF_TABLE: break;
    }
    return ".weight";
}

float *pare_leaf_floats(const pare_leaf *leaf)
{
    if (leaf->linear)
        return leaf->linear->dtype == PARE_F32 && !leaf->linear->bits ? leaf->linear->floats : NULL;
    return leaf->vector ? *leaf->vector : NULL;
}

pare_biases pare_block_biases(const pare_block *b)
{
    pare_biases has = {0, 0};
    for (unsigned role = 0; role < PARE_ROLES; role++)
        has.linear |= b->linear[role].bias ? 1u << role : 0u;
    for (unsigned i = 0; i < 2; i++)
        has.norm |= b->norm_bias[i] ? 1u << i : 0u;
    return has;
}

static bool has_room(const pare_leaf *leaf, pare_biases room)
{
    if (leaf->kind == PARE_LEAF_BIAS)
        return room.linear >> leaf->index & 1;
    return leaf->kind != PARE_LEAF_NORM_BIAS || room.norm >> leaf->index & 1;
}

pare_status pare_block_take(pare_arena *a, const pare_config *c, pare_biases room, pare_block *out)
{
    *out = (pare_block){0};
    for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
        const pare_leaf leaf = pare_block_leaf(c, out, i);
        if (!leaf.name || !has_room(&leaf, room))
            continue;
        float *const value = PARE_NEW(a, float, leaf.n *leaf.k);
        if (!value)
            return PARE_ENOMEM;
        if (leaf.linear)
            *leaf.linear =
                (pare_linear){.n = leaf.n, .k = leaf.k, .dtype = PARE_F32, .floats = value};
        else
            *leaf.vector = value;
    }
    return PARE_OK;
}

uint64_t pare_block_float_bytes(const pare_config *c)
{
    const pare_block none = {0};
    uint64_t bytes = 0;
    for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
        const pare_leaf leaf = pare_block_leaf(c, &none, i);
        bytes += (uint64_t)leaf.n * leaf.k * sizeof(float) + PARE_ALIGN;
    }
    return bytes;
}

/* What a block in floats has of another beside its values. */
static void describe(const pare_block *like, pare_block *to)
{
    pare_block b = *like;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        pare_linear *const l = &b.linear[role];
        *l = to->linear[role];
        l->name = like->linear[role].name;
        l->n = like->linear[role].n;
        l->k = like->linear[role].k;
        l->rotated = like->linear[role].rotated;
    }
    memcpy(b.norm, to->norm, sizeof b.norm);
    memcpy(b.norm_bias, to->norm_bias, sizeof b.norm_bias);
    b.kv = (pare_kv_levels){0};
    *to = b;
}

void pare_block_load(pare_ctx *cx, const pare_config *c, const pare_block *from, pare_block *to)
{
    describe(from, to);
    for (size_t i = 0; i < PARE_OWN_LEAVES; i++) {
        const pare_leaf f = pare_block_leaf(c, from, i), t = pare_block_leaf(c, to, i);
        if (t.linear && f.linear->n) /* 0: this kind of block has none */
            pare_linear_to_f32(cx, f.linear, t.linear->floats);
        else if (t.vector && *t.vector && *f.vector)
            memcpy(*t.vector, *f.vector, t.n * sizeof **t.vector);
        else if (t.vector && *t.vector)
            memset(*t.vector, 0, t.n * sizeof **t.vector);
    }
}
