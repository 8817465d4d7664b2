/* Bodies of the kernels that round to nearest. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "tests/kernels/kernel_test.h"

/* What is no number, or at the end of them. */
static float extreme(kt *t)
{
    static const float values[] = {FLT_MAX, -FLT_MAX, INFINITY, -INFINITY, (float)NAN, -0.0f};
    return values[kt_below(t, sizeof values / sizeof *values)];
}

/* The output: whether all are finite, then both ends. */
static void run_range_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    float *const end = (float *)(void *)out;
    end[0] = k->range_f32(c->x, c->n, &end[1], &end[2]);
}

void kt_range_f32(kt *t)
{
    for (size_t i = 0; i < 900; i++) {
        const size_t n = t->bench ? 64 : i % 75;
        float *const x = kt_floats(t, n);
        for (size_t j = 0; j < n; j++) /* all of one sign, both signs, zeros of both signs */
            x[j] = i % 7 == 1   ? fabsf(x[j])
                   : i % 7 == 2 ? -fabsf(x[j])
                   : i % 7 == 3 ? x[j] * 0
                                : x[j];
        if (!t->bench && i % 3 == 2 && n > 0)
            x[kt_below(t, n)] = extreme(t);
        const kt_case c = {.x = x, .n = n, .out_bytes = 12, .work_bytes = 4 * n};
        kt_check(t, &c, run_range_f32);
        if (t->bench)
            return;
    }
}

static void run_round_codes(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->round_codes(out, c->x, c->n, c->step, (uint8_t)c->top, c->bits);
}

/* Halves of steps and their neighbours among the values. */
void kt_round_codes(kt *t)
{
    static const unsigned bits[] = {4, 2, 3, 8};
    static const float steps[] = {0.01f, 0x1p-7f, 0.0f, 0x1p-149f, -1.0f, INFINITY, (float)NAN};
    for (size_t i = 0; i < 1500; i++) {
        const size_t n = t->bench ? 64 : i % 75, step = i % 11;
        kt_case c = {.n = n, .bits = bits[i % 4], .out_bytes = n, .work_bytes = 5 * n};
        c.step = steps[step < 7 ? step : step % 2];
        c.top = (int32_t)kt_below(t, i % 13 ? 1u << c.bits : 256);
        float *const x = kt_floats(t, n);
        for (size_t j = 0; j < n; j++) {
            const float tie = c.step * ((float)kt_below(t, 600) - 299.5f);
            x[j] = j % 3 == 1 ? tie : j % 3 == 2 ? nextafterf(tie, x[j]) : x[j];
        }
        if (!t->bench && i % 3 == 2 && n > 0)
            x[kt_below(t, n)] = extreme(t);
        c.x = x;
        kt_check(t, &c, run_round_codes);
        if (t->bench)
            return;
    }
}

static void run_clip_cost(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const float *const x = c->x;
    const double cost =
        k->clip_cost(x, c->w, c->n, c->step, (uint8_t)c->top, c->bits, x[c->n], x[c->n + 1]);
    memcpy(out, &cost, sizeof cost);
}

static const float *costs(kt *t, size_t n)
{
    float *const cost = kt_floats(t, n);
    for (size_t i = 0; i < n; i++)
        cost[i] = fabsf(cost[i]);
    return cost;
}

/* Behind the weights their range and what is enough: nothing, half or all of the sum, or more. */
void kt_clip_cost(kt *t)
{
    static const unsigned bits[] = {4, 2, 3, 8};
    static const float steps[] = {0.01f, -0.3f, 0.0f, 0x1p-24f};
    static const float sizes[] = {1, 0x1p70f, 1, 0x1p-72f}; /* squares of errors leave F32 */
    for (size_t i = 0; i < 1200; i++) {
        const size_t n = t->bench ? 64 : i % 150;
        const float size = t->bench ? 1 : sizes[i / 16 % 4];
        kt_case c = {.n = n, .bits = bits[i % 4], .out_bytes = 8, .work_bytes = 4 * n};
        float *const x = kt_floats(t, n + 2);
        c.step = steps[i / 4 % 4] * size;
        c.top = (int32_t)kt_below(t, 1u << c.bits);
        c.x = x;
        c.w = t->bench || i % 2 ? NULL : costs(t, n);
        for (size_t j = 0; j < n; j++)
            x[j] *= size;
        x[n] = (i % 5 ? 2.0f : 0x1p-10f) * size;
        x[n + 1] = INFINITY;
        const double all =
            t->ref->clip_cost(x, c.w, n, c.step, (uint8_t)c.top, c.bits, x[n], INFINITY);
        if (!t->bench && i % 3)
            x[n + 1] = (float)(all * (double)kt_below(t, 5) / 3);
        kt_check(t, &c, run_clip_cost);
        if (t->bench)
            return;
    }
}

static void run_error_sums(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const float *const w = c->x, *const q = w + c->n;
    const pare_error_sum sum = k->error_sums(w, q, c->w ? c->w : w, c->n);
    memcpy(out, &sum, sizeof sum);
}

void kt_error_sums(kt *t)
{
    for (size_t i = 0; i < 600; i++) {
        const size_t n = t->bench ? 8192 : i % 75;
        kt_case c = {.n = n, .out_bytes = sizeof(pare_error_sum), .work_bytes = 8 * n};
        float *const x = kt_floats(t, 2 * n);
        c.x = x;
        c.w = i % 2 ? kt_floats(t, n) : NULL;
        if (i % 5 == 4 && n > 0)
            x[kt_below(t, 2 * n)] = extreme(t);
        kt_check(t, &c, run_error_sums);
        if (t->bench)
            return;
    }
}
