#include "runtime/linear_exl3.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "kernels/exl3.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"

enum { COLUMNS = 128 };

/* x [count] in spans of values that are mixed. */
static void mix(const pare_kernels *kernels, float *x, size_t count, size_t span)
{
    const float norm = 1 / sqrtf((float)span);
    for (size_t at = 0; at < count; at += span)
        kernels->hadamard_f32(x + at, span, norm);
}

void pare__exl3_turn_input(const pare_kernels *kernels, const pare_linear *w, const float *x,
                           float *to)
{
    for (size_t j = 0; j < w->k; j++)
        to[j] = x[j] * pare_f16_to_f32(w->column_scales[j]);
    mix(kernels, to, w->k, pare_exl3_span(w->k));
}

void pare__exl3_turn_output(const pare_kernels *kernels, const pare_linear *w, float *y)
{
    mix(kernels, y, w->n, pare_exl3_span(w->n));
    for (size_t r = 0; r < w->n; r++) {
        y[r] *= pare_f16_to_f32(w->row_scales[r]);
        if (w->bias)
            y[r] += w->bias[r];
    }
}

/* Values of `rows` rows from r0 and `columns` columns from k0 on: v [rows, COLUMNS]. */
static void values(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                   size_t k0, size_t columns, float *v)
{
    for (size_t r = 0; r < rows; r += PARE_EXL3_TILE) {
        pare_panel p = pare__panel_rows(w, r0 + r, PARE_EXL3_TILE);
        p.codes += k0 / PARE_EXL3_TILE * pare_exl3_tile_bytes(w->bits);
        p.k = columns;
        kernels->dequant_exl3(v + r * COLUMNS, COLUMNS, &p, w->bits);
    }
}

/* Rows [first, first + count) of a stretch of rows and columns that are mixed with no others. */
static void turn(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                 size_t first, size_t count, size_t k0, size_t columns, float *dst, size_t ldd)
{
    float v[PARE__EXL3_ROWS * COLUMNS], turned[COLUMNS * PARE__EXL3_ROWS];
    values(kernels, w, r0, rows, k0, columns, v);
    for (size_t r = 0; r < rows; r++)
        mix(kernels, v + r * COLUMNS, columns, pare_exl3_span(w->k));
    kernels->transpose_f32(turned, PARE__EXL3_ROWS, v, COLUMNS, rows, columns);
    for (size_t c = 0; c < columns; c++) {
        float *const column = turned + c * PARE__EXL3_ROWS;
        const float scale = pare_f16_to_f32(w->column_scales[k0 + c]);
        mix(kernels, column, rows, pare_exl3_span(w->n));
        for (size_t r = first; r < first + count; r++)
            column[r] *= pare_f16_to_f32(w->row_scales[r0 + r]) * scale;
    }
    kernels->transpose_f32(dst, ldd, turned + first, PARE__EXL3_ROWS, columns, count);
}

void pare__exl3_rows(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                     float *dst, size_t ldd)
{
    const size_t from = r0 / PARE__EXL3_ROWS * PARE__EXL3_ROWS,
                 all = pare_smaller(w->n - from, PARE__EXL3_ROWS);
    assert(r0 + rows <= from + all);
    for (size_t k0 = 0; k0 < w->k; k0 += COLUMNS)
        turn(kernels, w, from, all, r0 - from, rows, k0, pare_smaller(w->k - k0, COLUMNS), dst + k0,
             ldd);
    for (size_t r = 0; r < rows && ldd > w->k; r++)
        memset(dst + r * ldd + w->k, 0, (ldd - w->k) * sizeof *dst);
}
