/* What a model costs in bytes and operations, from the planes of its weights. */
#include <math.h>

#include "compress/bench/bench_internal.h"
#include "kernels/layout.h"

enum { PIECE = 128 * 1024, LINE = 64, STEP = 256, PLANES_MAX = 12 };

typedef struct planes {
    struct {
        const void *data;
        size_t bytes;
    } plane[PLANES_MAX];
    size_t count;
} planes;

static void add(planes *p, const void *data, size_t bytes)
{
    if (!data || !bytes)
        return;
    p->plane[p->count].data = data;
    p->plane[p->count++].bytes = bytes;
}

static void add_panel(planes *p, const pare_linear *w)
{
    const pare_panel *const q = &w->panel;
    const size_t kept = pare_24_kept(q->k), half = sizeof(uint16_t);
    const size_t width = w->sparsity == PARE_SPARSITY_2_4 ? kept : q->k;
    const size_t groups = q->group ? (q->k + q->group - 1) / q->group : 0;
    add(p, q->codes, q->n / PARE_ATOM_N * (width / PARE_ATOM_K) * pare_atom_bytes(w->bits));
    add(p, q->scales, q->n * groups * half);
    add(p, q->zeros, q->n * groups);
    add(p, q->minima, q->n * groups * half);
    add(p, q->sub, q->n * q->k / 16);
    add(p, q->book,
        pare_encodings[w->encoding].decoding == PARE_DECODE_BINARY ? q->n * groups * 4 * half
                                                                   : half * w->n << w->bits);
    add(p, q->indices, q->n * kept / 4);
    add(p, q->values, w->n * q->ldv * half);
}

static planes planes_of(const pare_linear *w)
{
    const size_t half = sizeof(uint16_t);
    const pare_outliers *const o = &w->outliers;
    planes p = {.count = 0};
    if (!w->bits) {
        add(&p, w->data, w->n * w->k * (pare_dtype_bits(w->dtype) / 8));
        return p;
    }
    if (w->sparsity == PARE_SPARSITY_BITMASK) {
        add(&p, w->mask.bits, w->n * ((w->k + 7) / 8));
        add(&p, w->mask.value, w->mask.start[w->n] * half);
    } else {
        add_panel(&p, w);
    }
    if (o->count && o->f16)
        add(&p, o->f16, w->n * o->count * half);
    else if (o->count)
        add(&p, o->panel.codes, o->panel.n * o->panel.k);
    if (w->sparse.start) {
        add(&p, w->sparse.column, w->sparse.start[w->n] * sizeof *w->sparse.column);
        add(&p, w->sparse.value, w->sparse.start[w->n] * half);
    }
    return p;
}

/* Linears of all blocks, absent ones among them. */
static size_t linears_of(const pare_model *m)
{
    return m->config.blocks * pare_block_parts(&m->config) * PARE_ROLES;
}

static size_t part_at(const pare_model *m, size_t i)
{
    return i / PARE_ROLES % pare_block_parts(&m->config);
}

/* The linears of the blocks, block by block, and the head behind the last block. */
static const pare_linear *linear_at(const pare_model *m, size_t i)
{
    const size_t each = pare_block_parts(&m->config) * PARE_ROLES;
    return i < linears_of(m)
               ? pare_block_linear(&m->block[i / each], part_at(m, i), (pare_role)(i % PARE_ROLES))
               : &m->head;
}

static double bytes_of(const pare_linear *w)
{
    const planes p = planes_of(w);
    double bytes = 0;
    for (size_t i = 0; i < p.count; i++)
        bytes += (double)p.plane[i].bytes;
    return bytes;
}

/* `share`: of the tokens that use it. */
static void add_operations(const pare_linear *w, bool exact, double share, double *int8,
                           double *fma)
{
    const double dense = 2.0 * share * (double)w->n * (double)w->k;
    const bool integer = w->bits && !exact && w->activation.mode != PARE_ACTIVATION_FLOAT;
    if (integer)
        *int8 += w->sparsity ? dense / 2 : dense;
    else
        *fma += dense; /* decoded ones are multiplied with their zeros */
    if (w->outliers.count)
        *(integer && !w->outliers.f16 ? int8 : fma) +=
            2.0 * share * (double)(w->n * w->outliers.count);
    if (w->sparse.start && integer)
        *fma += 2.0 * share * (double)w->sparse.start[w->n];
}

/* The router and the gate of the shared expert. */
static void add_router(const pare_model *m, pare__bench_cost *cost)
{
    double none = 0; /* they are dense */
    for (size_t b = 0; b < m->config.blocks; b++) {
        const pare_linear *const w[] = {&m->block[b].router, &m->block[b].shared_gate};
        for (size_t i = 0; i < 2; i++) {
            cost->bytes += bytes_of(w[i]);
            add_operations(w[i], true, 1, &none, &cost->fma);
        }
    }
}

pare__bench_cost pare__bench_cost_of(const pare_forward *f)
{
    const pare_model *const m = f->model;
    const pare_config *const c = &m->config;
    pare__bench_cost cost = {0};
    double head_int8 = 0; /* heads are dense */
    if (c->experts)
        cost.expert_share = (double)c->experts_used / (double)c->experts;
    for (size_t i = 0; i <= linears_of(m); i++) {
        const bool head = i == linears_of(m), expert = !head && part_at(m, i) > 0;
        *(expert ? &cost.expert_bytes : &cost.bytes) += bytes_of(linear_at(m, i));
        add_operations(linear_at(m, i), f->exact, expert ? cost.expert_share : 1,
                       head ? &head_int8 : &cost.int8, head ? &cost.head_fma : &cost.fma);
    }
    add_router(m, &cost);
    cost.attend_fma = 4.0 * (double)(c->heads * c->head_dim * c->blocks);
    return cost;
}

double pare__bench_bytes(const pare__bench_cost *c, double tokens)
{
    return c->bytes + c->expert_bytes * (1 - pow(1 - c->expert_share, tokens));
}

size_t pare__bench_model_pieces(const pare_model *m, pare__bench_piece *piece, size_t max)
{
    size_t count = 0;
    for (size_t i = 0; i <= linears_of(m); i++) {
        const planes p = planes_of(linear_at(m, i));
        for (size_t j = 0; j < p.count; j++) {
            const uint8_t *const data = p.plane[j].data;
            const size_t skip = (size_t)(-(uintptr_t)data & (LINE - 1));
            const size_t bytes = p.plane[j].bytes > skip ? p.plane[j].bytes - skip : 0;
            for (size_t at = 0; at < bytes / STEP * STEP; at += PIECE, count++) {
                const size_t left = bytes / STEP * STEP - at;
                if (piece && count < max)
                    piece[count] =
                        (pare__bench_piece){data + skip + at, left < PIECE ? left : PIECE};
            }
        }
    }
    return count;
}
