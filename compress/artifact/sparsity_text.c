#include "compress/artifact/sparsity_text.h"

#include <stdio.h>

const char *pare_sparsity_text(const pare_sparsity *s, char text[PARE_SPARSITY_TEXT])
{
    if (s->of)
        (void)snprintf(text, PARE_SPARSITY_TEXT, "%u:%u", s->keep, s->of);
    else
        (void)snprintf(text, PARE_SPARSITY_TEXT, "%.4g%%%s", 100 * s->ratio,
                       s->by_row ? " of each row" : "");
    return text;
}

const char *pare_sparsity_store_text(pare_sparsity_store store, bool floats)
{
    if (store)
        return pare_sparsity_store_name(store);
    return floats ? "dense" : "like other weights";
}

uint64_t pare_sparsity_dense_bytes(const pare_packed_linear *l)
{
    pare_packed_linear dense = *l;
    dense.sparsity = PARE_SPARSITY_NONE;
    dense.kept = 0;
    if (!pare_encoding_is_float(l->encoding))
        return pare_packed_linear_bytes(&dense).total;
    return (uint64_t)l->n * l->k * sizeof(uint16_t) +
           pare_packed_linear_bytes(l).plane[PARE_PLANE_BIAS];
}

const char *pare_sparsity_saves(const pare_packed_linear *l)
{
    if (l->sparsity == PARE_SPARSITY_NONE)
        return "nothing";
    if (pare_packed_linear_bytes(l).total >= pare_sparsity_dense_bytes(l))
        return "nothing";
    /* products of floats run on decoded panels */
    return pare_encoding_is_float(l->encoding) ? "bytes, not time" : "bytes and time";
}

void pare_sparsity_add(pare_sparsity_total *t, const pare_packed_linear *l)
{
    t->linears++;
    t->bytes += pare_packed_linear_bytes(l).total;
    t->dense_bytes += pare_sparsity_dense_bytes(l);
    t->saves = pare_sparsity_saves(l);
}
