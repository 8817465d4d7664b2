/* The scratch that a block takes, upper bound. */
#include "runtime/count.h"

static bool alike(const pare_linear *a, const pare_linear *b)
{
    const pare_activation *const x = &a->activation, *const y = &b->activation;
    const size_t p = a->panel.group < a->panel.k ? a->panel.group : 0;
    const size_t q = b->panel.group < b->panel.k ? b->panel.group : 0;
    return x->mode == y->mode && x->bits == y->bits && p == q && a->bits == b->bits &&
           a->sparsity == b->sparsity;
}

pare_inputs pare_model_inputs(const pare_model *m)
{
    const size_t parts = pare_block_parts(&m->config);
    const pare_linear *first = NULL;
    for (size_t i = 0; i < m->config.blocks * parts * PARE_ROLES; i++) {
        const pare_linear *const w = pare_block_linear(
            &m->block[i / PARE_ROLES / parts], i / PARE_ROLES % parts, (pare_role)(i % PARE_ROLES));
        if (!w->name || !w->bits)
            continue;
        first = first ? first : w;
        const pare_activation *const a = &w->activation;
        const bool rounded = a->mode == PARE_ACTIVATION_FLOAT && a->bits;
        if (w->outliers.count || rounded || pare_encoding_turns(w->encoding) ||
            a->mode == PARE_ACTIVATION_TENSOR || !alike(first, w))
            return PARE_INPUTS_ANY;
    }
    return first ? PARE_INPUTS_ALIKE : PARE_INPUTS_NONE;
}

size_t pare_block_forward_scratch(const pare_ctx *cx, const pare_config *c, pare_batch batch)
{
    return pare_block_forward_bytes(cx, c, batch, PARE_INPUTS_ANY);
}

/* The stream of a tap that stops the block counts beside the rest. */
static pare_status run(pare_count *n, pare_batch batch)
{
    const pare_ops o = pare_ops_of(&n->cx, &n->arena, &n->forward);
    pare_kv kv = {.sequences = batch.sequences, .capacity = batch.start + batch.length};
    pare_array x, y;
    PARE_TRY(o.op->take(&o, batch.sequences * batch.length, n->model.config.hidden, &x));
    return pare_block_run(&o, &n->forward, &n->block, batch, x, &kv, NULL, &y);
}

size_t pare_block_forward_bytes(const pare_ctx *cx, const pare_config *c, pare_batch batch,
                                pare_inputs inputs)
{
    pare_count n;
    pare_status s = pare_count_begin(cx, c, batch, inputs, &n);
    if (s == PARE_OK)
        s = run(&n, batch);
    if (s == PARE_OK && pare__count_recurrent(&n))
        s = run(&n, batch);
    return pare_count_end(&n, s);
}
