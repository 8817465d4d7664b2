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

static size_t count_leaves(const pare_model *m, const pare_choice *choice)
{
    size_t count = 0;
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t i = 0; i < pare_block_leaves(&m->config); i++) {
            const pare_leaf leaf = pare_block_leaf(&m->config, &m->block[b], i);
            count += is_trained(&leaf, choice, b);
        }
    return count;
}

static pare_status take_leaf(pare_ctx *cx, pare_arena *a, const pare_leaf *leaf, pare_trained *out)
{
    const size_t count = leaf->n * leaf->k;
    *out = (pare_trained){.value = PARE_NEW(a, float, count),
                          .gradient = PARE_NEW(a, float, count),
                          .m = PARE_NEW(a, float, count),
                          .v = PARE_NEW(a, float, count),
                          .count = count,
                          .decays = leaf->linear != NULL,
                          .keeps_zeros = leaf->linear != NULL};
    if (!out->value || !out->gradient || !out->m || !out->v)
        return PARE_ENOMEM;
    if (leaf->linear) {
        pare_linear_to_f32(cx, leaf->linear, out->value);
        *leaf->linear = (pare_linear){.name = leaf->linear->name,
                                      .n = leaf->n,
                                      .k = leaf->k,
                                      .dtype = PARE_F32,
                                      .floats = out->value,
                                      .bias = leaf->linear->bias,
                                      .rotated = leaf->linear->rotated};
    } else {
        memcpy(out->value, *leaf->vector, count * sizeof *out->value);
        *leaf->vector = out->value;
    }
    return PARE_OK;
}

pare_status pare_trained_take(pare_ctx *cx, pare_arena *a, pare_model *m, const pare_choice *choice,
                              pare_trained **leaf, size_t *leaves)
{
    size_t at = 0;
    *leaves = count_leaves(m, choice);
    *leaf = PARE_NEW(a, pare_trained, *leaves);
    if (!*leaf)
        return PARE_ENOMEM;
    for (size_t b = 0; b < m->config.blocks; b++)
        for (size_t i = 0; i < pare_block_leaves(&m->config); i++) {
            const pare_leaf one = pare_block_leaf(&m->config, &m->block[b], i);
            if (is_trained(&one, choice, b))
                PARE_TRY(take_leaf(cx, a, &one, &(*leaf)[at++]));
        }
    return PARE_OK;
}
