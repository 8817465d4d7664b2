#include "quant/correct.h"

#include <string.h>

#include "runtime/linalg.h"

static size_t column_at(const pare_factor *f, size_t position)
{
    return f->order ? f->order[position] : position;
}

/* D at the positions of the factor; nothing comes from, or goes to, a dead column. */
static void place_drift(const pare_factor *f, const float *d, float *placed)
{
    for (size_t i = 0; i < f->k; i++)
        for (size_t j = 0; j < f->k; j++) {
            const size_t row = column_at(f, i), column = column_at(f, j);
            placed[i * f->k + j] = f->dead[row] || f->dead[column] ? 0 : d[row * f->k + column];
        }
}

/* U with zeros below its diagonal, where the factor leaves what it likes. */
static void copy_upper(const pare_factor *f, float *u)
{
    for (size_t i = 0; i < f->k; i++) {
        memset(u + i * f->k, 0, i * sizeof *u);
        memcpy(u + i * f->k + i, f->u + i * f->k + i, (f->k - i) * sizeof *u);
    }
}

static void keep_above(float *t, size_t k)
{
    for (size_t i = 0; i < k; i++)
        memset(t + i * k, 0, (i + 1) * sizeof *t);
}

/* c = share a op(b), all [k, k]. */
static void multiply(const pare_ctx *cx, size_t k, float share, const float *a, const float *b,
                     bool transpose_b, float *c)
{
    pare_gemm_tiles(cx, &(pare_gemm){.m = k,
                                     .n = k,
                                     .k = k,
                                     .a = a,
                                     .lda = k,
                                     .b = b,
                                     .ldb = k,
                                     .transpose_b = transpose_b,
                                     .c = c,
                                     .ldc = k,
                                     .alpha = share});
}

static void restore_order(const pare_factor *f, const float *placed, float *out)
{
    for (size_t i = 0; i < f->k; i++)
        for (size_t j = 0; j < f->k; j++)
            out[column_at(f, i) * f->k + column_at(f, j)] = placed[i * f->k + j];
}

size_t pare_correction_bytes(size_t k)
{
    return (5 * k * k + k) * sizeof(float) + (size_t)8 * PARE_ALIGN;
}

pare_status pare_correction_make(pare_ctx *cx, pare_arena *scratch, pare_correct method,
                                 float share, const pare_factor *factor, const float *d,
                                 pare_correction *out)
{
    const size_t k = factor->k;
    const bool gptaq = method == PARE_CORRECT_GPTAQ;
    *out = (pare_correction){.k = k};
    out->aim = PARE_NEW(scratch, float, k *k);
    if (gptaq)
        out->spread = PARE_NEW(scratch, float, k *k);
    else
        out->first = PARE_NEW(scratch, float, k);
    const pare_mark mark = pare_arena_mark(scratch);
    float *const placed = PARE_NEW(scratch, float, k *k), *const u = PARE_NEW(scratch, float, k *k);
    float *const t = PARE_NEW(scratch, float, k *k);
    const bool room = out->aim && (out->spread || out->first) && placed && u && t;
    if (room) {
        const size_t column = column_at(factor, 0);
        place_drift(factor, d, placed);
        copy_upper(factor, u);
        multiply(cx, k, 1, placed, u, true, t);
        for (size_t i = 0; !gptaq && i < k; i++)
            out->first[column_at(factor, i)] =
                factor->dead[column] ? 0 : share * placed[i * k] / factor->diagonal[column];
        multiply(cx, k, share, t, u, false, placed);
        restore_order(factor, placed, out->aim);
        if (gptaq) {
            keep_above(t, k);
            multiply(cx, k, share, t, u, false, out->spread);
        }
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
