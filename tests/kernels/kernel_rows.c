/* Bodies of the kernels between the products. */
#include <math.h>
#include <string.h>

#include "tests/kernels/kernel_test.h"

/* The output: total, returned value, largest, then the row. */
enum { MAX = 3, ROW = 4 };

static void run_softmax_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    double total;
    float head[ROW];
    float *const row = (float *)(void *)(out + sizeof head);
    memcpy(head, c->w, sizeof head);
    memcpy(row, c->x, c->n * sizeof *row);
    total = fabs((double)head[0]);
    head[2] = k->softmax_f32(row, c->n, c->step, &head[MAX], &total);
    memcpy(head, &total, sizeof total);
    memcpy(out, head, sizeof head);
}

void kt_softmax_f32(kt *t)
{
    for (size_t i = 0; i < 600; i++) {
        const size_t n = t->bench ? 64 : 1 + i % 70;
        kt_case c = {.n = n,
                     .step = i % 7 ? 0.125f : 3e-9f, /* all from far apart to close together */
                     .out_bytes = (ROW + n) * sizeof(float),
                     .work_bytes = 2 * n * sizeof(float)};
        float *const row = kt_floats(t, n);
        if (i % 5 == 4)
            row[kt_below(t, n)] = (float)NAN;
        c.x = row;
        float *const head = kt_floats(t, ROW);
        if (i % 3 == 0)
            head[MAX] = -INFINITY;
        c.w = head;
        kt_check(t, &c, run_softmax_f32);
        if (t->bench)
            return;
    }
}

/* In place: the input is copied into the output first. */
static void run_silu_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->x, c->out_bytes);
    k->silu_f32((float *)(void *)out, c->w, c->n);
}

void kt_silu_f32(kt *t)
{
    for (size_t i = 0; i < 300; i++) {
        const size_t n = t->bench ? 8192 : i % 70;
        float *const y = kt_floats(t, n);
        for (size_t j = 0; j < n; j++)
            y[j] *= i % 2 ? 1.0f : 20.0f;
        if (i % 5 == 4 && n > 0)
            y[kt_below(t, n)] = (float)NAN;
        const kt_case c = {
            .x = y, .w = kt_floats(t, n), .n = n, .out_bytes = 4 * n, .work_bytes = 12 * n};
        kt_check(t, &c, run_silu_f32);
        if (t->bench)
            return;
    }
}

/* x: both gradients, which are added to; w: d, gate and up. */
static void run_silu_back_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    float *const y = (float *)(void *)out;
    const float *const w = c->w;
    memcpy(out, c->x, c->out_bytes);
    k->silu_back_f32(y, y + c->n, w, w + c->n, w + 2 * c->n, c->n);
    for (size_t i = 0; i < 2 * c->n; i++) /* which of two is left is up to the compiler */
        y[i] = isnan(y[i]) ? (float)NAN : y[i];
}

void kt_silu_back_f32(kt *t)
{
    for (size_t i = 0; i < 300; i++) {
        const size_t n = t->bench ? 8192 : i % 70;
        float *const w = kt_floats(t, 3 * n);
        for (size_t j = n; j < 2 * n; j++)
            w[j] *= i % 2 ? 1.0f : 20.0f;
        if (i % 5 == 4 && n > 0)
            w[n + kt_below(t, n)] = (float)NAN;
        const kt_case c = {
            .x = kt_floats(t, 2 * n), .w = w, .n = n, .out_bytes = 8 * n, .work_bytes = 28 * n};
        kt_check(t, &c, run_silu_back_f32);
        if (t->bench)
            return;
    }
}

static void run_transpose_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memset(out, 0, c->out_bytes);
    k->transpose_f32((float *)(void *)out, c->ldy, c->x, c->ldx, c->m, c->n);
}

void kt_transpose_f32(kt *t)
{
    for (size_t i = 0; i < 400; i++) {
        const size_t m = t->bench ? 64 : 1 + i % 37, n = t->bench ? 64 : 1 + kt_below(t, 40);
        kt_case c = {.m = m, .n = n, .ldx = n + kt_below(t, 3), .ldy = m + kt_below(t, 3)};
        c.x = kt_floats(t, (m - 1) * c.ldx + n);
        c.out_bytes = ((n - 1) * c.ldy + m) * sizeof(float);
        c.work_bytes = 8 * m * n;
        kt_check(t, &c, run_transpose_f32);
        if (t->bench)
            return;
    }
}
