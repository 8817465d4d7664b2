/* Bodies and wrong kernels of the refinement of codes. */
#include <string.h>

#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

enum { ROWS = PARE_COUPLED, SQUARE = ROWS * ROWS };

/* Plain numbers between -1 and 1, some of them 0. */
static float *fractions(kt *t, size_t n)
{
    float *const x = kt_input(t, n, sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = ((float)kt_below(t, 4001) - 2000) / 1999;
    return x;
}

/* Of each of m strips: G and codes [n, 64], then O, then what is free, then scales; w: a row of H,
 * k: the column. The output: G and codes, then gains. */
static void run_couple_codes(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const size_t cells = c->n * ROWS, every = 3 * cells + SQUARE + ROWS;
    float *const moved = (float *)(void *)out;
    double gain[2 * ROWS] = {0};
    pare_couple strip[2];
    for (size_t i = 0; i < c->m; i++) {
        const float *const x = (const float *)c->x + i * every;
        float *const to = moved + i * 2 * cells;
        memcpy(to, x, 2 * cells * sizeof *to);
        strip[i] = (pare_couple){.g = to,
                                 .code = to + cells,
                                 .o = x + 2 * cells,
                                 .free = x + 2 * cells + SQUARE,
                                 .scale = x + 3 * cells + SQUARE,
                                 .gain = gain + i * ROWS};
    }
    k->couple_codes(strip, c->m, c->k, c->w, c->n, (float)((1u << c->bits) - 1));
    memcpy(moved + c->m * 2 * cells, gain, c->m * ROWS * sizeof *gain);
}

/* Small and large slopes, none, and rows that stay. */
static void fill_strip(kt *t, float *x, const kt_case *c, size_t kind)
{
    const size_t cells = c->n * ROWS;
    for (size_t i = 0; i < cells; i++) {
        x[i] *= kind % 5 == 1 ? 0 : kind % 5 == 2 ? 1000.0f : 1.0f;
        x[cells + i] = (float)kt_below(t, 1u << c->bits);
        x[2 * cells + SQUARE + i] = kind % 4 == 3 || kt_below(t, 9) == 0 ? 0 : 1;
    }
    for (size_t r = 0; r < ROWS; r++) {
        x[2 * cells + r * (ROWS + 1)] = 1 + (float)kt_below(t, 1000) / 500;
        x[3 * cells + SQUARE + r] = (r % 2 ? -1.0f : 1.0f) * (1 + (float)kt_below(t, 900)) / 1000;
    }
}

void kt_couple_codes(kt *t)
{
    static const size_t columns[] = {64, 1, 3, 32, 128};
    for (size_t i = 0; i < 60; i++) {
        kt_case c = {
            .m = t->bench ? 2 : 1 + i % 2, .n = columns[i / 2 % 5], .bits = 2 + (unsigned)(i % 3)};
        const size_t cells = c.n * ROWS, every = 3 * cells + SQUARE + ROWS;
        c.bits = t->bench ? 4 : c.bits;
        c.k = kt_below(t, c.n);
        float *const x = fractions(t, c.m * every), *const h = fractions(t, c.n);
        for (size_t s = 0; s < c.m; s++)
            fill_strip(t, x + s * every, &c, t->bench ? 0 : i / 2 + s);
        h[c.k] = 1 + (float)kt_below(t, 100) / 10;
        c.x = x;
        c.w = h;
        c.whole_bytes = c.m * ROWS * sizeof(double);
        c.out_bytes = c.m * 2 * cells * sizeof(float) + c.whole_bytes;
        c.work_bytes = c.m * (cells + SQUARE) * sizeof(float);
        kt_check(t, &c, run_couple_codes);
        if (t->bench)
            return;
    }
}

/* x: G [n, 64] in double; w: c, p, then O of row k. */
static void run_scale_slope(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const float *const w = c->w;
    const pare_slope sum = k->scale_slope(c->x, w, w + c->n, w + 2 * c->n, c->k, c->n);
    memcpy(out, &sum, sizeof sum);
}

void kt_scale_slope(kt *t)
{
    for (size_t i = 0; i < 150; i++) {
        kt_case c = {.n = t->bench ? 64 : i % 70, .k = kt_below(t, ROWS)};
        double *const g = kt_input(t, c.n * ROWS, sizeof *g);
        const float *const x = fractions(t, c.n * ROWS);
        float *const w = fractions(t, 2 * c.n + ROWS);
        for (size_t j = 0; j < c.n * ROWS; j++)
            g[j] = (double)x[j];
        for (size_t j = 0; j < c.n; j++)
            w[j] = (float)kt_below(t, 31) - 15;
        for (size_t j = 0; j < ROWS; j++)
            w[2 * c.n + j] *= i % 3 == 1 && j % 7 ? 0 : 1;
        w[2 * c.n + c.k] = 1.5f;
        c.x = g;
        c.w = w;
        c.out_bytes = c.whole_bytes = sizeof(pare_slope);
        c.work_bytes = c.n * ROWS * sizeof *g;
        kt_check(t, &c, run_scale_slope);
        if (t->bench)
            return;
    }
}

/* As if rows did not wait for each other: O without what is below its diagonal. */
static void couple_at_once(const pare_couple *strip, size_t strips, size_t column, const float *h,
                           size_t n, float top)
{
    for (size_t i = 0; i < strips; i++) {
        float o[SQUARE];
        for (size_t r = 0; r < ROWS; r++)
            for (size_t l = 0; l < ROWS; l++)
                o[r * ROWS + l] = l < r ? 0 : strip[i].o[r * ROWS + l];
        pare_couple one = strip[i];
        one.o = o;
        pare_couple_codes_ref(&one, 1, column, h, n, top);
    }
}

static void couple_first_alone(const pare_couple *strip, size_t strips, size_t column,
                               const float *h, size_t n, float top)
{
    (void)strips;
    pare_couple_codes_ref(strip, 1, column, h, n, top);
}

static pare_slope slope_without_o(const double *g, const float *c, const float *p, const float *o,
                                  size_t r, size_t n)
{
    float own[ROWS] = {0};
    own[r] = o[r];
    return pare_scale_slope_ref(g, c, p, own, r, n);
}

static pare_slope slope_without_last(const double *g, const float *c, const float *p,
                                     const float *o, size_t r, size_t n)
{
    return pare_scale_slope_ref(g, c, p, o, r, n < 2 ? n : n - 1);
}

#define FAULTS(X)                                                                                  \
    X(couple_codes, couple_at_once, "steps of rows before left out")                               \
    X(couple_codes, couple_first_alone, "the second strip left as it is")                          \
    X(scale_slope, slope_without_o, "rows taken by themselves")                                    \
    X(scale_slope, slope_without_last, "the last column left out")

const char *kt_plant_refine(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_exl3(i - at, k, what);
}
