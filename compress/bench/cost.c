/* What a model costs in bytes and operations: a counted run of it over the planes of its weights.
 */
#include <math.h>

#include "compress/bench/bench_internal.h"
#include "kernels/layout.h"
#include "runtime/count.h"

enum { PIECE = 128 * 1024, LINE = 64, STEP = 256, PLANES_MAX = 14 };

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
    add(p, w->row_scales, w->n * half);
    add(p, w->column_scales, w->k * half);
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

static double bytes_of(const pare_linear *w)
{
    const planes p = planes_of(w);
    double bytes = 0;
    for (size_t i = 0; i < p.count; i++)
        bytes += (double)p.plane[i].bytes;
    return bytes;
}

typedef struct costs {
    bool exact;
    double rows;
    pare__bench_cost sum;
} costs;

static void add_linear(void *self, const pare_linear *w, pare_work_part part, double rows)
{
    costs *const c = self;
    const double each = 2.0 * rows / c->rows, dense = each * (double)w->n * (double)w->k;
    const bool integer = w->bits && !c->exact && w->activation.mode != PARE_ACTIVATION_FLOAT;
    double *const fma = part == PARE_WORK_HEAD ? &c->sum.head_fma : &c->sum.fma;
    *(part == PARE_WORK_EXPERTS ? &c->sum.expert_bytes : &c->sum.bytes) += bytes_of(w);
    if (integer)
        c->sum.int8 += w->sparsity ? dense / 2 : dense;
    else
        *fma += dense; /* decoded ones are multiplied with their zeros */
    if (w->outliers.count)
        *(integer && !w->outliers.f16 ? &c->sum.int8 : fma) +=
            each * (double)(w->n * w->outliers.count);
    if (w->sparse.start && integer)
        *fma += each * (double)w->sparse.start[w->n];
}

/* A token for each expert, so that all of them run. */
static pare_batch batch_of(const pare_config *c)
{
    return (pare_batch){.sequences = c->experts ? c->experts : 1, .length = 1};
}

pare_status pare__bench_cost_of(pare_ctx *cx, const pare_forward *f, pare__bench_cost *out)
{
    const pare_config *const c = &f->model->config;
    const pare_batch batch = batch_of(c);
    costs sums = {.exact = f->exact, .rows = (double)batch.sequences};
    const pare_work_visit visit = {add_linear, &sums};
    pare_work work;
    PARE_TRY(pare_work_of(cx, f->model, batch, PARE_SITES, &visit, &work));
    *out = sums.sum;
    out->expert_share = c->experts ? (double)c->experts_used / (double)c->experts : 0;
    out->fma += work.scan / sums.rows;
    out->attend_fma = work.attend / work.pairs;
    return PARE_OK;
}

double pare__bench_bytes(const pare__bench_cost *c, double tokens)
{
    return c->bytes + c->expert_bytes * (1 - pow(1 - c->expert_share, tokens));
}

typedef struct pieces {
    pare__bench_piece *piece;
    size_t count, max;
} pieces;

static void add_pieces(void *self, const pare_linear *w, pare_work_part part, double rows)
{
    pieces *const to = self;
    const planes p = planes_of(w);
    (void)part, (void)rows;
    for (size_t j = 0; j < p.count; j++) {
        const uint8_t *const data = p.plane[j].data;
        const size_t skip = (size_t)(-(uintptr_t)data & (LINE - 1));
        const size_t bytes = p.plane[j].bytes > skip ? p.plane[j].bytes - skip : 0;
        for (size_t at = 0; at < bytes / STEP * STEP; at += PIECE, to->count++) {
            const size_t left = bytes / STEP * STEP - at;
            if (to->piece && to->count < to->max)
                to->piece[to->count] =
                    (pare__bench_piece){data + skip + at, left < PIECE ? left : PIECE};
        }
    }
}

pare_status pare__bench_model_pieces(pare_ctx *cx, const pare_model *m, pare__bench_piece *piece,
                                     size_t *count)
{
    pieces to = {piece, 0, *count};
    const pare_work_visit visit = {add_pieces, &to};
    pare_work work;
    PARE_TRY(pare_work_of(cx, m, batch_of(&m->config), PARE_SITES, &visit, &work));
    *count = to.count;
    return PARE_OK;
}
