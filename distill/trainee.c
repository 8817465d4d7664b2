#include <string.h>

#include "distill/train.h"
#include "runtime/linear.h"

/* A leaf that is there, and that the caller wants. */
static bool is_trained(const pare_leaf *leaf, const pare_choice *choice, size_t block)
{
    const bool there =
        leaf->name && (leaf->linear ? leaf->linear->name != NULL : *leaf->vector != NULL);
    return there && choice->wants(choice->self, block, leaf);
}

static bool on_grid(const pare_leaf *leaf, const pare_choice *choice, size_t block, pare_grid *grid)
{
    return leaf->linear && choice->grid && !choice->follows &&
           choice->grid(choice->self, block, leaf, grid);
}

/* Leaves that are wanted, those with codes in place, and those that have steps. */
typedef struct counts {
    size_t leaves, awares, steps;
} counts;

/* Leaf i of all, in the order in which they are trained, and its block. */
static pare_leaf leaf_at(const pare_model *m, size_t i, size_t *block)
{
    const pare_config *const c = &m->config;
    const size_t each = pare_block_leaves(c), inside = c->blocks * each;
    *block = i < inside ? i / each : PARE_OUTSIDE;
    return i < inside ? pare_model_block_leaf(c, i / each, &m->block[i / each], i % each)
                      : pare_model_leaf(m, i - inside);
}

static size_t all_leaves(const pare_config *c)
{
    return c->blocks * pare_block_leaves(c) + PARE_MODEL_LEAVES;
}

static counts count_leaves(const pare_model *m, const pare_choice *choice)
{
    counts c = {0};
    for (size_t i = 0; i < all_leaves(&m->config); i++) {
        size_t block;
        const pare_leaf leaf = leaf_at(m, i, &block);
        pare_grid grid;
        if (!is_trained(&leaf, choice, block))
            continue;
        const bool aware = on_grid(&leaf, choice, block, &grid);
        c.leaves++;
        c.awares += aware;
        c.steps += aware && pare_aware_steps(&grid, leaf.n, leaf.k) > 0;
    }
    return c;
}

static pare_status take_floats(pare_arena *a, size_t count, pare_trained *out)
{
    *out = (pare_trained){
        .value = PARE_NEW(a, float, count), .gradient = PARE_NEW(a, float, count), .count = count};
    return out->value && out->gradient ? PARE_OK : PARE_ENOMEM;
}

/* From here on the model reads the floats of the leaf, or those that `aware` makes of them. */
static pare_status take_leaf(pare_ctx *cx, pare_arena *a, const pare_leaf *leaf,
                             const pare_aware *aware, const pare_choice *choice, pare_trained *out)
{
    const size_t count = leaf->n * leaf->k;
    const bool moments8 = choice->moments8 && leaf->kind != PARE_LEAF_TABLE;
    const bool fixed = aware && pare_aware_fixed(aware->grid.encoding);
    PARE_TRY(choice->follows || fixed ? take_floats(a, count, out)
                                      : pare_trained_take(a, count, moments8, out));
    out->fixed = fixed;
    out->read = aware ? aware->seen : out->value;
    out->decays = out->keeps_zeros = leaf->linear != NULL;
    if (leaf->linear) {
        pare_linear_to_f32(cx, leaf->linear, out->value);
        *leaf->linear = (pare_linear){.name = leaf->linear->name,
                                      .n = leaf->n,
                                      .k = leaf->k,
                                      .dtype = PARE_F32,
                                      .floats = out->read,
                                      .bias = leaf->linear->bias,
                                      .rotated = leaf->linear->rotated};
    } else {
        memcpy(out->value, *leaf->vector, count * sizeof *out->value);
        *leaf->vector = out->value;
    }
    return PARE_OK;
}

/* Leaf `at` of those that are wanted; *step is where its steps go. */
static pare_status take_one(pare_ctx *cx, pare_arena *a, const pare_leaf *leaf,
                            const pare_grid *grid, const pare_choice *choice, pare_trainee *out,
                            size_t at, size_t *step)
{
    pare_aware *aware = NULL;
    if (grid) {
        aware = &out->aware[out->awares++];
        PARE_TRY(pare_aware_take(a, grid, leaf->n, leaf->k, aware));
        aware->master = &out->leaf[at];
    }
    const size_t steps = grid ? pare_aware_steps(grid, leaf->n, leaf->k) : 0;
    if (steps) {
        aware->step = &out->leaf[(*step)++];
        PARE_TRY(pare_trained_take(a, steps, choice->moments8, aware->step));
    }
    return take_leaf(cx, a, leaf, aware, choice, &out->leaf[at]);
}

pare_status pare_trainee_take(pare_ctx *cx, pare_arena *a, pare_model *m, const pare_choice *choice,
                              pare_trainee *out)
{
    const counts c = count_leaves(m, choice);
    size_t at = 0, step = c.leaves;
    out->leaves = c.leaves + c.steps;
    out->awares = out->loras = 0;
    out->tables = false;
    out->leaf = PARE_NEW(a, pare_trained, out->leaves);
    out->aware = PARE_NEW(a, pare_aware, c.awares);
    if (!out->leaf || !out->aware)
        return PARE_ENOMEM;
    for (size_t i = 0; i < all_leaves(&m->config); i++) {
        size_t block;
        const pare_leaf one = leaf_at(m, i, &block);
        pare_grid grid;
        if (!is_trained(&one, choice, block))
            continue;
        const bool aware = on_grid(&one, choice, block, &grid);
        PARE_TRY(take_one(cx, a, &one, aware ? &grid : NULL, choice, out, at, &step));
        out->leaf[at++].block = block;
        out->tables |= one.kind == PARE_LEAF_TABLE;
    }
    if (out->tables && m->config.tied)
        m->head = pare_tied_head(m);
    return PARE_OK;
}

static bool is_adapted(const pare_leaf *leaf, const pare_choice *choice, size_t block)
{
    return block != PARE_OUTSIDE && leaf->linear && is_trained(leaf, choice, block);
}

pare_status pare_trainee_adapt(pare_arena *a, pare_model *m, const pare_choice *choice,
                               const pare_lora_opts *o, pare_trainee *out)
{
    size_t block, count = 0;
    for (size_t i = 0; i < all_leaves(&m->config); i++) {
        const pare_leaf one = leaf_at(m, i, &block);
        count += is_adapted(&one, choice, block);
    }
    out->leaves = 2 * count;
    out->awares = out->loras = 0;
    out->tables = false;
    out->leaf = PARE_NEW(a, pare_trained, out->leaves);
    out->lora = PARE_NEW(a, pare_lora, count);
    if (!out->leaf || !out->lora)
        return PARE_ENOMEM;
    for (size_t i = 0; i < all_leaves(&m->config); i++) {
        const pare_leaf one = leaf_at(m, i, &block);
        if (!is_adapted(&one, choice, block))
            continue;
        pare_trained *const leaf = &out->leaf[2 * out->loras];
        PARE_TRY(pare_lora_take(a, one.linear, o, leaf, leaf + 1, &out->lora[out->loras++]));
        leaf->block = block;
    }
    return PARE_OK;
}

pare_status pare_trainee_round(pare_ctx *cx, pare_trainee *t)
{
    for (size_t i = 0; i < t->loras; i++)
        pare_lora_merge(cx, &t->lora[i]);
    for (size_t i = 0; i < t->awares; i++)
        PARE_TRY(pare_aware_round(cx, &t->aware[i]));
    return PARE_OK;
}
