#include "solve/exl3_values.h"

#include <math.h>

#include "kernels/exl3.h"

/* a [count] and b [count] become their sums and differences. */
static void pair(float *a, float *b, size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const float sum = a[j] + b[j], difference = a[j] - b[j];
        a[j] = sum;
        b[j] = difference;
    }
}

static void scale(float *x, size_t count, float by)
{
    for (size_t j = 0; j < count; j++)
        x[j] *= by;
}

void pare_exl3_mix_rows(float *x, size_t ldx, size_t rows, size_t count)
{
    const size_t span = pare_exl3_span(count);
    for (size_t r = 0; r < rows; r++, x += ldx) {
        for (size_t h = 1; h < span; h *= 2)
            for (size_t j = 0; j < count; j += 2 * h)
                pair(x + j, x + j + h, h);
        scale(x, count, 1 / sqrtf((float)span));
    }
}

void pare_exl3_mix_columns(float *x, size_t ldx, size_t rows, size_t count)
{
    const size_t span = pare_exl3_span(rows);
    for (size_t h = 1; h < span; h *= 2)
        for (size_t r = 0; r < rows; r++)
            if (!(r & h))
                pair(x + r * ldx, x + (r + h) * ldx, count);
    for (size_t r = 0; r < rows; r++)
        scale(x + r * ldx, count, 1 / sqrtf((float)span));
}

void pare_exl3_tile_values(const uint8_t *code, size_t ldc, unsigned bits, float *v, size_t ldv)
{
    uint8_t symbol[PARE_EXL3_WEIGHTS];
    float value[PARE_EXL3_WEIGHTS];
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++)
        symbol[p] = code[pare_exl3_row(p) * ldc + pare_exl3_column(p)];
    pare_exl3_values(value, symbol, bits);
    for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++)
        v[pare_exl3_row(p) * ldv + pare_exl3_column(p)] = value[p];
}

void pare_exl3_codes_values(const pare_codes *c, unsigned bits, float *dst)
{
    for (size_t r = 0; r < c->n; r += PARE_EXL3_TILE)
        for (size_t k = 0; k < c->k; k += PARE_EXL3_TILE)
            pare_exl3_tile_values(c->codes + r * c->k + k, c->k, bits, dst + r * c->k + k, c->k);
    pare_exl3_mix_rows(dst, c->k, c->n, c->k);
    pare_exl3_mix_columns(dst, c->k, c->n, c->k);
    for (size_t r = 0; r < c->n; r++)
        for (size_t k = 0; k < c->k; k++)
            dst[r * c->k + k] *= c->row_scales[r] * c->column_scales[k];
}
