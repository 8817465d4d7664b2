/* Matrices outside the blocks that a training trains: rounded to the types that they are stored in,
 * kept in a file until the walk behind the training is done, and stored. */
#include <math.h>
#include <string.h>

#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_outside.h"
#include "compress/run/run_reap.h"
#include "runtime/leaves.h"

/* Values that are converted at once. */
enum { PIECE = 1 << 16 };

/* The index of floats that leaf i of the model has behind all linears. */
static size_t item_of(const pare_run *run, size_t i)
{
    return run->plan->linears + i;
}

static pare_status round_piece(pare_run *run, const pare_leaf *leaf, float *x, size_t count,
                               void *stored)
{
    const pare_tensor t = {.name = leaf->name,
                           .dtype = leaf->linear->dtype,
                           .rank = 1,
                           .shape = {count},
                           .data = stored,
                           .bytes = (uint64_t)count * pare_dtype_bits(leaf->linear->dtype) / 8};
    PARE_TRY(pare_f32_to_dtype(run->cx, t.dtype, x, count, stored));
    PARE_TRY(pare_tensor_to_f32(run->cx, &t, 0, count, x));
    for (size_t i = 0; i < count; i++)
        if (!isfinite(x[i]))
            return pare_fail(run->cx, PARE_ENUMERIC,
                             "%s: a trained value does not fit %s; a smaller rate is needed",
                             leaf->name, pare_dtype_name(t.dtype));
    return PARE_OK;
}

pare_status pare__outside_round(pare_run *run, const pare_leaf *leaf, float *x)
{
    const size_t count = leaf->n * leaf->k;
    void *const stored = pare_arena_take(&run->scratch, PIECE, sizeof(float));
    if (!stored)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i += PIECE)
        PARE_TRY(round_piece(run, leaf, x + i, count - i < PIECE ? count - i : PIECE, stored));
    return PARE_OK;
}

void pare__outside_source(pare_run *run)
{
    pare_model *const m = &run->source;
    bool any = false;
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_plan_outside(run->plan, m, i);
        if (!leaf.linear)
            continue;
        leaf.linear->dtype = PARE_F32;
        leaf.linear->data = pare__floats_at(run, &run->trained, item_of(run, i));
        any = true;
    }
    if (any && m->config.tied)
        m->head = pare_tied_head(m);
}

/* The leaf of the model that a tensor is, by its name: the model has a copy of what lies at an odd
 * place of its file. PARE_MODEL_LEAVES: none that is trained. */
static size_t leaf_of(const pare_run *run, const pare_tensor *t)
{
    size_t i = 0;
    while (t && i < PARE_MODEL_LEAVES) {
        const pare_leaf leaf = pare_plan_outside(run->plan, &run->model, i);
        const size_t len = leaf.linear ? strlen(leaf.name) : 0;
        if (len && strncmp(t->name, leaf.name, len) == 0 &&
            strcmp(t->name + len, pare_leaf_suffix(&leaf)) == 0)
            break;
        i++;
    }
    return t ? i : PARE_MODEL_LEAVES;
}

static pare_status check_stored(pare_run *run, const pare_packed_entry *e,
                                const pare_unit_result *found)
{
    const uint8_t *const is = pare__floats_hash(found, e->tensor.name);
    void *const bytes = pare_arena_take(&run->scratch, (size_t)e->tensor.bytes, 1);
    uint8_t now[16];
    if (!bytes)
        return PARE_ENOMEM;
    PARE_TRY(pare_packed_get(run->cx, run->writer, e, bytes));
    pare_xxh3(bytes, (size_t)e->tensor.bytes, now);
    if (is && memcmp(is, now, sizeof now) == 0)
        return PARE_OK;
    return pare_fail(run->cx, PARE_EFORMAT, "%s: %s was damaged since it was written",
                     run->plan->place.partial, e->tensor.name);
}

pare_status pare__outside_check(pare_run *run, const pare_unit_result *found)
{
    for (size_t i = 0; run->plan->training && i < run->settled.layout.entries; i++) {
        const pare_packed_entry *const e = &run->settled.layout.entry[i];
        if (e->unit != run->plan->out.blocks || e->plane ||
            leaf_of(run, pare__reap_source(run, e->tensor.name)) == PARE_MODEL_LEAVES)
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = check_stored(run, e, found);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

static pare_status put_pieces(pare_run *run, const pare_packed_entry *e, const float *x,
                              uint8_t hash[16])
{
    const size_t each = pare_dtype_bits(e->tensor.dtype) / 8;
    const size_t count = (size_t)e->tensor.bytes / each;
    void *const stored = pare_arena_take(&run->scratch, PIECE, each);
    pare_xxh3_state state;
    if (!stored)
        return PARE_ENOMEM;
    pare_xxh3_begin(&state);
    for (size_t i = 0; i < count; i += PIECE) {
        const size_t piece = count - i < PIECE ? count - i : PIECE;
        PARE_TRY(pare_ctx_interrupted(run->cx));
        PARE_TRY(pare_f32_to_dtype(run->cx, e->tensor.dtype, x + i, piece, stored));
        pare_xxh3_add(&state, stored, piece * each);
        PARE_TRY(pare__run_put_part(run, e, i * each, piece * each, stored));
    }
    pare_xxh3_end(&state, hash);
    return PARE_OK;
}

pare_status pare__outside_put(pare_run *run, const pare_packed_entry *e, const pare_tensor *t,
                              const pare_unit_result *found, uint8_t hash[16], bool *done)
{
    const size_t leaf = leaf_of(run, t);
    *done = leaf < PARE_MODEL_LEAVES;
    if (!*done)
        return PARE_OK;
    if (found) { /* stored by an earlier run, and looked at */
        memcpy(hash, pare__floats_hash(found, e->tensor.name), 16);
        return PARE_OK;
    }
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s =
        put_pieces(run, e, pare__floats_at(run, &run->trained, item_of(run, leaf)), hash);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}
