/* Trellis codes that stay, while the scales of their rows and columns learn. */
#include "distill/aware_internal.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { ROWS = 8, COLUMNS = 64 };

static float *scale_at(const pare_aware *t, size_t i)
{
    return i < t->codes.n ? &t->codes.row_scales[i] : &t->codes.column_scales[i - t->codes.n];
}

void pare__aware_multiply_begin(pare_aware *t)
{
    for (size_t i = 0; i < t->step->count; i++) {
        t->start[i] = *scale_at(t, i);
        *scale_at(t, i) = 1;
        t->step->value[i] = 1.F / PARE_AWARE_PACE;
    }
    pare_codes_values(&t->grid, &t->codes, t->master->value);
    for (size_t i = 0; i < t->step->count; i++)
        *scale_at(t, i) = t->start[i];
}

static void multiply_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare_aware *const t = arg;
    const pare_codes *const c = &t->codes;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const float *const v = t->master->value + i * c->k;
        float *const seen = t->seen + i * c->k;
        for (size_t j = 0; j < c->k; j++)
            seen[j] = v[j] * (c->row_scales[i] * c->column_scales[j]);
    }
}

void pare__aware_multiply(const pare_ctx *cx, pare_aware *t)
{
    for (size_t i = 0; i < t->step->count; i++)
        *scale_at(t, i) = pare__aware_stored(t->start[i] * (t->step->value[i] * PARE_AWARE_PACE));
    pare_parallel(cx, t->codes.n, ROWS, multiply_rows, t);
}

static void undo_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare_aware *const t = arg;
    const pare_codes *const c = &t->codes;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const float *const v = t->master->value + i * c->k;
        const float *const g = t->master->gradient + i * c->k;
        double sum = 0;
        for (size_t j = 0; j < c->k; j++)
            sum += (double)g[j] * (double)v[j] * (double)c->column_scales[j];
        t->step->gradient[i] = (float)(sum * (double)t->start[i] * PARE_AWARE_PACE);
    }
}

static void undo_columns(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare_aware *const t = arg;
    const pare_codes *const c = &t->codes;
    (void)worker;
    for (size_t first = begin * COLUMNS; first < pare_smaller(end * COLUMNS, c->k);
         first += COLUMNS) {
        const size_t count = pare_smaller(c->k - first, COLUMNS);
        double sum[COLUMNS] = {0};
        for (size_t i = 0; i < c->n; i++) {
            const size_t at = i * c->k + first;
            for (size_t j = 0; j < count; j++)
                sum[j] += (double)t->master->gradient[at + j] * (double)t->master->value[at + j] *
                          (double)c->row_scales[i];
        }
        for (size_t j = 0; j < count; j++)
            t->step->gradient[c->n + first + j] =
                (float)(sum[j] * (double)t->start[c->n + first + j] * PARE_AWARE_PACE);
    }
}

void pare__aware_multiply_back(const pare_ctx *cx, pare_aware *t)
{
    pare_parallel(cx, t->codes.n, ROWS, undo_rows, t);
    pare_parallel(cx, (t->codes.k + COLUMNS - 1) / COLUMNS, 1, undo_columns, t);
}
