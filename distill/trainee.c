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
    return leaf->linear && choice->grid && choice->grid(choice->self, block, leaf, grid);
}

/* Leaves that are wanted, those with codes in place, and those that have steps. */
typedef struct counts {
    size_t leaves, awares, steps;
} counts;

static counts count_leaves(const pare_model *m, const pare_choice *choice)
{
    counts c = {0};
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t i = 0; i < pare_block_leaves(&m->config); i++) {
            const pare_leaf leaf = pare_block_leaf(&m->config, &m->block[b], i);
            pare_grid grid;
            if (!is_trained(&leaf, choice, b))
                continue;
            const bool aware = on_grid(&leaf, choice, b, &grid);
            c.leaves++;
            c.awares += aware;
            c.steps += aware && pare_encodings[grid.encoding].uniform;
        }
    return c;
}

static pare_status take_floats(pare_arena *a, size_t count, pare_trained *out)
{
    *out = (pare_trained){.value = PARE_NEW(a, float, count),
                          .gradient = PARE_NEW(a, float, count),
                          .m = PARE_NEW(a, float, count),
                          .v = PARE_NEW(a, float, count),
                          .count = count};
    return out->value && out->gradient && out->m && out->v ? PARE_OK : PARE_ENOMEM;
}

/* From here on the model reads the floats of the leaf. */
static pare_status take_leaf(pare_ctx *cx, pare_arena *a, const pare_leaf *leaf, float *seen,
                             pare_trained *out)
{
    const size_t count = leaf->n * leaf->k;
    PARE_TRY(take_floats(a, count, out));
    out->read = seen ? seen : out->value;
    out->decays = out->keeps_zeros = leaf->linear != NULL;
    if (leaf->linear) {
        pare_linear_to_f32(cx, leaf->linear, out->value);
        *leaf->linear = (pare_linear){.name = leaf->linear->name,
                                      .n = leaf->n,
                                      .k = leaf->k,
                                      .dtype = PARE_F32,
                                      .floats = seen ? seen : out->value,
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
                            const pare_grid *grid, pare_trainee *out, size_t at, size_t *step)
{
    pare_aware *aware = NULL;
    if (grid) {
        aware = &out->aware[out->awares++];
        PARE_TRY(pare_aware_take(a, grid, leaf->n, leaf->k, aware));
        aware->master = &out->leaf[at];
    }
    if (grid && pare_encodings[grid->encoding].uniform) {
        aware->step = &out->leaf[(*step)++];
        PARE_TRY(take_floats(a, leaf->n * aware->codes.groups, aware->step));
    }
    return take_leaf(cx, a, leaf, aware ? aware->seen : NULL, &out->leaf[at]);
}

pare_status pare_trainee_take(pare_ctx *cx, pare_arena *a, pare_model *m, const pare_choice *choice,
                              pare_trainee *out)
{
    const counts c = count_leaves(m, choice);
    size_t at = 0, step = c.leaves;
    out->leaves = c.leaves + c.steps;
    out->awares = 0;
    out->leaf = PARE_NEW(a, pare_trained, out->leaves);
    out->aware = PARE_NEW(a, pare_aware, c.awares);
    if (!out->leaf || !out->aware)
        return PARE_ENOMEM;
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t i = 0; i < pare_block_leaves(&m->config); i++) {
            const pare_leaf one = pare_block_leaf(&m->config, &m->block[b], i);
            pare_grid grid;
            if (!is_trained(&one, choice, b))
                continue;
            const bool aware = on_grid(&one, choice, b, &grid);
            PARE_TRY(take_one(cx, a, &one, aware ? &grid : NULL, out, at++, &step));
        }
    return PARE_OK;
}

pare_status pare_trainee_round(pare_ctx *cx, pare_trainee *t)
{
    for (size_t i = 0; i < t->awares; i++)
        PARE_TRY(pare_aware_round(cx, &t->aware[i]));
    return PARE_OK;
}
