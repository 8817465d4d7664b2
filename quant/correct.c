#include "quant/correct.h"

#include <string.h>

#include "runtime/linalg.h"
#include "runtime/product.h"
#include "runtime/small.h"
#include "runtime/threads.h"

static size_t column_at(const pare_factor *f, size_t position)
{
    return f->order ? f->order[position] : position;
}

/* Rows of D, [PANEL, k] at the positions of the factor from `first` on. No row of what is made of
 * them needs another row of D: they are worked on panel by panel. Products with U leave out what is
 * 0, and begin where the chains of whole products (runtime/product.h) do: they have their bits. */
enum { PANEL = 256, WIDE = 128, DEPTH = PARE_DEPTH };
_Static_assert(DEPTH % WIDE == 0, "no block of columns lies in two chains");

typedef struct panel {
    const pare_ctx *cx;
    const pare_factor *f;
    pare_drift *drift;
    size_t first, rows;
    float *placed, *t, *row;
} panel;

/* A product of a panel, [rows, k], with U or its transpose: columns from `begin` on. */
typedef struct product_job {
    const panel *p;
    float share;
    const float *a; /* [rows, k] */
    size_t from;    /* columns of a in front of it are 0 */
    float *c;       /* column `begin` of the result, rows `ldc` apart */
    size_t begin, ldc;
    bool transpose;
} product_job;

/* Rows [r0, r0 + rows) and columns [c0, c0 + columns) of U, 0 below its diagonal, [rows, columns].
 */
static void copy_corner(const pare_factor *f, size_t r0, size_t rows, size_t c0, size_t columns,
                        float *to)
{
    for (size_t i = 0; i < rows; i++)
        for (size_t j = 0; j < columns; j++) {
            const size_t row = r0 + i, column = c0 + j;
            to[i * columns + j] = row < column    ? f->u[row * f->k + column]
                                  : row == column ? f->pivot[row]
                                                  : 0;
        }
}

/* Columns [q0, q0 + wide) of a U^T: the chain of the diagonal, and those behind it. */
static void by_transpose(const product_job *job, size_t q0, size_t wide)
{
    const panel *const p = job->p;
    const size_t k = p->f->k, chain = q0 / DEPTH * DEPTH, end = pare_smaller(chain + DEPTH, k);
    float corner[WIDE * DEPTH];
    copy_corner(p->f, q0, wide, chain, end - chain, corner);
    pare_gemm g = {.m = p->rows,
                   .n = wide,
                   .k = end - chain,
                   .a = job->a + chain,
                   .lda = k,
                   .b = corner,
                   .ldb = end - chain,
                   .transpose_b = true,
                   .c = job->c + q0 - job->begin,
                   .ldc = job->ldc,
                   .alpha = job->share};
    pare_gemm_run(&p->cx->kernels, &g);
    if (end == k)
        return;
    g.k = k - end;
    g.a = job->a + end;
    g.b = p->f->u + q0 * k + end;
    g.ldb = k;
    g.beta = 1;
    pare_gemm_run(&p->cx->kernels, &g);
}

/* The same of a U: the chains in front of that of the diagonal, and this. */
static void by_factor(const product_job *job, size_t q0, size_t wide)
{
    const panel *const p = job->p;
    const size_t k = p->f->k, chain = q0 / DEPTH * DEPTH, from = job->from / DEPTH * DEPTH;
    float corner[WIDE * DEPTH];
    pare_gemm g = {.m = p->rows,
                   .n = wide,
                   .k = chain > from ? chain - from : 0,
                   .a = job->a + from,
                   .lda = k,
                   .b = p->f->u + from * k + q0,
                   .ldb = k,
                   .c = job->c + q0 - job->begin,
                   .ldc = job->ldc,
                   .alpha = job->share};
    pare_gemm_run(&p->cx->kernels, &g);
    copy_corner(p->f, chain, q0 + wide - chain, q0, wide, corner);
    g.k = q0 + wide - chain;
    g.a = job->a + chain;
    g.b = corner;
    g.ldb = wide;
    g.beta = 1;
    pare_gemm_run(&p->cx->kernels, &g);
}

static void run_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const product_job *const job = arg;
    const size_t k = job->p->f->k, blocks = (k + WIDE - 1) / WIDE;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t block = job->transpose ? i : blocks - 1 - i; /* long ones first */
        const size_t q0 = pare_larger(block * WIDE, job->begin),
                     q1 = pare_smaller((block + 1) * WIDE, k);
        if (q0 < q1 && job->transpose)
            by_transpose(job, q0, q1 - q0);
        else if (q0 < q1)
            by_factor(job, q0, q1 - q0);
    }
}

static void multiply(product_job *job)
{
    pare_parallel(job->p->cx, (job->p->f->k + WIDE - 1) / WIDE, 1, run_columns, job);
}

/* Nothing comes from, or goes to, a dead column. */
static pare_status place_drift(pare_ctx *cx, const panel *p)
{
    const pare_factor *const f = p->f;
    for (size_t i = 0; i < p->rows; i++) {
        const size_t row = column_at(f, p->first + i);
        const float *d;
        PARE_TRY(pare_drift_row(cx, p->drift, f->k, row, p->row, &d));
        for (size_t j = 0; j < f->k; j++) {
            const size_t column = column_at(f, j);
            p->placed[i * f->k + j] = f->dead[row] || f->dead[column] ? 0 : d[column];
        }
    }
    return PARE_OK;
}

static pare_status restore_order(pare_ctx *cx, const panel *p)
{
    const pare_factor *const f = p->f;
    for (size_t i = 0; i < p->rows; i++) {
        for (size_t j = 0; j < f->k; j++)
            p->row[column_at(f, j)] = p->placed[i * f->k + j];
        PARE_TRY(pare_drift_put_row(cx, p->drift, f->k, column_at(f, p->first + i), p->row));
    }
    return PARE_OK;
}

/* 0 up to the diagonal. */
static void keep_above(const panel *p)
{
    for (size_t i = 0; i < p->rows; i++)
        memset(p->t + i * p->f->k, 0, (p->first + i + 1) * sizeof *p->t);
}

static pare_status run_panel(pare_ctx *cx, const panel *p, float share, pare_correction *out)
{
    const pare_factor *const f = p->f;
    const size_t k = f->k, column = column_at(f, 0);
    PARE_TRY(place_drift(cx, p));
    multiply(
        &(product_job){.p = p, .share = 1, .a = p->placed, .c = p->t, .ldc = k, .transpose = true});
    for (size_t i = 0; out->first && i < p->rows; i++)
        out->first[column_at(f, p->first + i)] =
            f->dead[column] ? 0 : share * p->placed[i * k] / f->diagonal[column];
    multiply(&(product_job){.p = p, .share = share, .a = p->t, .c = p->placed, .ldc = k});
    PARE_TRY(restore_order(cx, p));
    if (!out->spread.a)
        return PARE_OK;
    keep_above(p);
    const size_t begin = p->first / out->spread.panel * out->spread.panel;
    multiply(&(product_job){.p = p,
                            .share = share,
                            .a = p->t,
                            .from = p->first,
                            .c = pare_upper_at(&out->spread, p->first, begin),
                            .begin = begin,
                            .ldc = k - begin});
    return PARE_OK;
}

/* Rows of a panel of the spread: a sweep finds those of its block in one. */
static pare_upper spread_of(size_t k, size_t block)
{
    return (pare_upper){.n = k, .panel = block ? block * ((PANEL + block - 1) / block) : PANEL};
}

size_t pare_correction_bytes(pare_correct method, size_t block, size_t k)
{
    const pare_upper spread = spread_of(k, block);
    return (method == PARE_CORRECT_GPTAQ ? pare_upper_count(&spread) : k) * sizeof(float) +
           (size_t)2 * PARE_ALIGN;
}

size_t pare_correction_scratch(size_t k)
{
    return (2 * PANEL + 1) * k * sizeof(float) + (size_t)3 * PARE_ALIGN;
}

pare_status pare_correction_make(pare_ctx *cx, pare_arena *scratch,
                                 const pare_correction_opts *opts, const pare_factor *factor,
                                 pare_drift *d, pare_correction *out)
{
    const size_t k = factor->k;
    const bool spreads = opts->block && opts->method == PARE_CORRECT_GPTAQ,
               starts = opts->block && opts->method == PARE_CORRECT_QRONOS;
    *out = (pare_correction){.k = k, .aim = d, .spread = spread_of(k, opts->block)};
    out->spread.a = spreads ? PARE_NEW(scratch, float, pare_upper_count(&out->spread)) : NULL;
    out->first = starts ? PARE_NEW(scratch, float, k) : NULL;
    const pare_mark mark = pare_arena_mark(scratch);
    panel p = {.cx = cx, .f = factor, .drift = d};
    p.placed = PARE_NEW(scratch, float, PANEL *k);
    p.t = p.placed ? PARE_NEW(scratch, float, PANEL *k) : NULL;
    p.row = p.t ? PARE_NEW(scratch, float, k) : NULL;
    const bool taken = p.row && (out->spread.a || !spreads) && (out->first || !starts);
    pare_status s = taken ? PARE_OK : PARE_ENOMEM;
    for (; s == PARE_OK && p.first < k; p.first += p.rows) {
        const size_t left = out->spread.panel - p.first % out->spread.panel;
        p.rows = pare_smaller(pare_smaller(PANEL, left), k - p.first);
        s = run_panel(cx, &p, opts->share, out);
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

pare_status pare_correction_aim(pare_ctx *cx, pare_arena *scratch, const pare_correction *c,
                                const float *w, size_t n, float *aim)
{
    const size_t k = c->k, step = c->aim->file ? PANEL : k;
    const pare_mark mark = pare_arena_mark(scratch);
    float *const rows = c->aim->file ? PARE_NEW(scratch, float, PANEL *k) : c->aim->d;
    pare_status s = rows ? PARE_OK : PARE_ENOMEM;
    memcpy(aim, w, n * k * sizeof *w);
    for (size_t first = 0; s == PARE_OK && first < k; first += step) {
        const size_t count = pare_smaller(step, k - first);
        if (c->aim->file)
            s = pare_spill_get(cx, c->aim->file, rows, count * k, (uint64_t)first * k);
        if (s == PARE_OK)
            pare_gemm_tiles(cx, &(pare_gemm){.m = n,
                                             .n = k,
                                             .k = count,
                                             .a = w + first,
                                             .lda = k,
                                             .b = rows,
                                             .ldb = k,
                                             .c = aim,
                                             .ldc = k,
                                             .alpha = 1,
                                             .beta = 1});
    }
    pare_arena_rewind(scratch, mark);
    return s;
}

void pare_correction_start(const pare_correction *c, const float *w, size_t n, size_t column,
                           float *start)
{
    for (size_t i = 0; i < n; i++) {
        const float *const row = w + i * c->k;
        double sum = (double)row[column];
        for (size_t j = 0; j < c->k; j++)
            sum += (double)row[j] * (double)c->first[j];
        start[i] = (float)sum;
    }
}
