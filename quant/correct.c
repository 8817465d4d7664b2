#include "quant/correct.h"

#include <string.h>

#include "runtime/linalg.h"

static size_t column_at(const pare_factor *f, size_t position)
{
    return f->order ? f->order[position] : position;
}

/* Rows of D, [PANEL, k] at the positions of the factor from `first` on. No row of what is made of
 * them needs another row of D: they are worked on panel by panel, in the tiles of whole products.
 */
enum { PANEL = 256 };

typedef struct panel {
    const pare_ctx *cx;
    const pare_factor *f;
    size_t first, rows;
    float *placed, *t;
} panel;

/* Nothing comes from, or goes to, a dead column. */
static void place_drift(const panel *p, const float *d)
{
    const pare_factor *const f = p->f;
    for (size_t i = 0; i < p->rows; i++)
        for (size_t j = 0; j < f->k; j++) {
            const size_t row = column_at(f, p->first + i), column = column_at(f, j);
            p->placed[i * f->k + j] = f->dead[row] || f->dead[column] ? 0 : d[row * f->k + column];
        }
}

static void restore_order(const panel *p, const float *placed, float *out)
{
    const pare_factor *const f = p->f;
    for (size_t i = 0; i < p->rows; i++)
        for (size_t j = 0; j < f->k; j++)
            out[column_at(f, p->first + i) * f->k + column_at(f, j)] = placed[i * f->k + j];
}

/* 0 up to the diagonal. */
static void keep_above(const panel *p)
{
    for (size_t i = 0; i < p->rows; i++)
        memset(p->t + i * p->f->k, 0, (p->first + i + 1) * sizeof *p->t);
}

/* c = share a op(U), a and c [rows, k]. */
static void multiply(const panel *p, float share, const float *a, bool transpose, float *c)
{
    const size_t k = p->f->k;
    pare_gemm_tiles(p->cx, &(pare_gemm){.m = p->rows,
                                        .n = k,
                                        .k = k,
                                        .a = a,
                                        .lda = k,
                                        .b = p->f->u,
                                        .ldb = k,
                                        .transpose_b = transpose,
                                        .c = c,
                                        .ldc = k,
                                        .alpha = share});
}

static void run_panel(const panel *p, float share, float *d, pare_correction *out)
{
    const pare_factor *const f = p->f;
    const size_t k = f->k, column = column_at(f, 0);
    place_drift(p, d);
    multiply(p, 1, p->placed, true, p->t);
    for (size_t i = 0; out->first && i < p->rows; i++)
        out->first[column_at(f, p->first + i)] =
            f->dead[column] ? 0 : share * p->placed[i * k] / f->diagonal[column];
    multiply(p, share, p->t, false, p->placed);
    restore_order(p, p->placed, out->aim);
    if (!out->spread)
        return;
    keep_above(p);
    multiply(p, share, p->t, false, out->spread + p->first * k);
}

size_t pare_correction_bytes(pare_correct method, size_t k)
{
    return k * (method == PARE_CORRECT_GPTAQ ? k : 1) * sizeof(float) + (size_t)2 * PARE_ALIGN;
}

size_t pare_correction_scratch(size_t k)
{
    return 2 * PANEL * k * sizeof(float) + (size_t)2 * PARE_ALIGN;
}

pare_status pare_correction_make(pare_ctx *cx, pare_arena *scratch, pare_correct method,
                                 float share, const pare_factor *factor, float *d,
                                 pare_correction *out)
{
    const size_t k = factor->k;
    *out = (pare_correction){.k = k, .aim = d};
    if (method == PARE_CORRECT_GPTAQ)
        out->spread = PARE_NEW(scratch, float, k *k);
    else
        out->first = PARE_NEW(scratch, float, k);
    const pare_mark mark = pare_arena_mark(scratch);
    panel p = {.cx = cx, .f = factor};
    p.placed = PARE_NEW(scratch, float, PANEL *k);
    p.t = p.placed ? PARE_NEW(scratch, float, PANEL *k) : NULL;
    const bool room = (out->spread || out->first) && p.t;
    for (; room && p.first < k; p.first += PANEL) {
        p.rows = k - p.first < PANEL ? k - p.first : PANEL;
        run_panel(&p, share, d, out);
    }
    pare_arena_rewind(scratch, mark);
    return room ? PARE_OK : PARE_ENOMEM;
}

void pare_correction_aim(const pare_ctx *cx, const pare_correction *c, const float *w, size_t n,
                         float *aim)
{
    memcpy(aim, w, n * c->k * sizeof *w);
    pare_gemm_tiles(cx, &(pare_gemm){.m = n,
                                     .n = c->k,
                                     .k = c->k,
                                     .a = w,
                                     .lda = c->k,
                                     .b = c->aim,
                                     .ldb = c->k,
                                     .c = aim,
                                     .ldc = c->k,
                                     .alpha = 1,
                                     .beta = 1});
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
