/* Bodies and faults of the kernels of a step of training. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

/* Which of two NaNs is left is up to the compiler. */
static void one_nan(float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        x[i] = isnan(x[i]) ? (float)NAN : x[i];
}

/* x: weights, gradients, both moments; in place, so they are copied into the output first. */
static void run_adamw_step(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    float *const x = (float *)(void *)out;
    memcpy(out, c->x, c->out_bytes);
    k->adamw_step(x, x + c->n, x + 2 * c->n, x + 3 * c->n, c->n, c->w);
    one_nan(x, 4 * c->n);
}

/* Steps as trainings make them, the first one, without decay, clipping or eps. */
static const pare_adamw_move moves[] = {
    {0.9, 0.95, 1e-8, 1, 1, 2e-4 / (1 - 0.9), 0.22360679774997896, false},
    {0.9, 0.95, 1e-8, 0.37, 1 - 2e-5, 2e-4, 1, true},
    {0.9, 0.999, 0, 1, 0.9999, 0.01, 0.9, true},
    {0, 0.5, 1e-3, 1e-3, 1, 1, 0.7, false},
};

/* As in a training: weights, gradients, moments. */
static void trained(kt *t, float *x, size_t n)
{
    static const float size[] = {0.05f, 1e-3f, 3e-4f, 1e-3f};
    for (size_t i = 0; i < 4 * n; i++)
        x[i] = size[i / n] * ((float)kt_below(t, 1u << 20) * 0x1p-19f - 1);
    for (size_t i = 3 * n; i < 4 * n; i++)
        x[i] *= x[i];
}

void kt_adamw_step(kt *t)
{
    for (size_t i = 0; i < 1200; i++) {
        const size_t n = t->bench ? 2048 : i % 75;
        float *const x = kt_floats(t, 4 * n);
        if (t->bench || i % 5 < 3)
            trained(t, x, n);
        for (size_t j = 0; !t->bench && j < n; j++) {
            x[j] = j % 5 == i % 7 ? (j % 2 ? -0.0f : 0) : x[j];
            x[n + j] *= i % 2 ? 1 : 1e-3f;
            x[3 * n + j] = fabsf(x[3 * n + j]);
        }
        if (!t->bench && i % 9 == 8 && n > 0)
            x[kt_below(t, 3 * n)] = kt_below(t, 2) ? (float)NAN : INFINITY;
        const kt_case c = {
            .x = x, .w = &moves[i % 4], .n = n, .out_bytes = 16 * n, .work_bytes = 32 * n};
        kt_check(t, &c, run_adamw_step);
        if (t->bench)
            return;
    }
}

/* m groups of n weights: x their gradients, in place, then their sums; w the groups. */
static void run_aware_back(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    float *const x = (float *)(void *)out;
    memcpy(out, c->x, c->m * c->n * sizeof *x);
    k->aware_back(x + c->m * c->n, x, c->w, c->m, c->n);
    one_nan(x, c->m * (c->n + 1));
}

static uint8_t *bytes_below(kt *t, size_t n, size_t end)
{
    uint8_t *const x = kt_input(t, n, 1);
    for (size_t i = 0; i < n; i++)
        x[i] = (uint8_t)(x[i] % end);
    return x;
}

/* Weights inside the grid, at its ends, and outside. */
static float *around_grid(kt *t, const pare_aware_groups *of, size_t groups, size_t width)
{
    float *const w = kt_floats(t, groups * width);
    const float top = (float)((1u << of->bits) - 1);
    for (size_t i = 0; i < groups * width; i++) {
        const size_t g = i / width;
        const float low = -(float)of->zero[g], u = (float)kt_below(t, 1000) / 800 - 0.1f;
        const float at = i % 7 == 0 ? low : i % 7 == 1 ? low + top : low + u * top;
        w[i] = i % 5 == 4 ? w[i] : at * of->scale[g];
        w[i] = i % 11 == 3 ? nextafterf(w[i], 0) : w[i];
    }
    return w;
}

void kt_aware_back(kt *t)
{
    static const unsigned bits[] = {3, 4, 2, 8};
    for (size_t i = 0; i < 800; i++) {
        const size_t groups = t->bench ? 32 : i % 13, width = t->bench ? 64 : 1 + kt_below(t, 70);
        pare_aware_groups of = {.bits = bits[i % 4], .compensated = !t->bench && i % 3 == 1};
        const size_t count = groups * width;
        float *const scale = kt_floats(t, groups), *const g = kt_floats(t, count);
        for (size_t j = 0; j < groups; j++)
            scale[j] = scale[j] < 0 ? -0.03f - (float)j : 0.01f + (float)j;
        if (i % 4 == 3 && groups > 0)
            scale[kt_below(t, groups)] = i % 8 == 3 ? 0 : -0.0f;
        of.over = sqrt((double)width * (i % 2 ? 3 : 7));
        of.scale = scale;
        of.zero = bytes_below(t, groups, 1u << of.bits);
        of.codes = bytes_below(t, count, 1u << of.bits);
        float *const w = around_grid(t, &of, groups, width);
        if (!t->bench && i % 7 == 6 && count > 0)
            (i % 2 ? w : g)[kt_below(t, count)] = kt_below(t, 2) ? (float)NAN : INFINITY;
        of.w = w;
        const kt_case c = {.x = g,
                           .w = &of,
                           .m = groups,
                           .n = width,
                           .out_bytes = (count + groups) * sizeof *g,
                           .work_bytes = 13 * count};
        kt_check(t, &c, run_aware_back);
        if (t->bench)
            return;
    }
}

static void run_tree_codes(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->tree_codes(out, c->x, c->n, c->step, c->w);
}

static int rises(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Numbers between those of the tree, and just these. */
void kt_tree_codes(kt *t)
{
    static const float steps[] = {1, 0.37f, 0, 0x1p-140f, (float)NAN};
    for (size_t i = 0; i < 600; i++) {
        const size_t n = t->bench ? 256 : i % 75;
        float *const x = kt_floats(t, n), *const sorted = kt_floats(t, 255),
                     *const tree = kt_floats(t, 256);
        qsort(sorted, 255, sizeof *sorted, rises);
        for (size_t first = 1; first < 256; first *= 2)
            for (size_t j = 0; j < first; j++)
                tree[first + j] = sorted[(2 * j + 1) * (128 / first) - 1];
        const kt_case c = {.x = x,
                           .w = tree,
                           .n = n,
                           .step = t->bench ? 1 : steps[i % 5],
                           .out_bytes = n,
                           .work_bytes = 5 * n};
        for (size_t j = 0; j < n; j += 2)
            x[j] = sorted[kt_below(t, 255)] * (i % 5 < 2 ? c.step : 1);
        if (!t->bench && i % 3 == 2 && n > 0)
            x[kt_below(t, n)] = kt_below(t, 2) ? (float)NAN : INFINITY;
        kt_check(t, &c, run_tree_codes);
        if (t->bench)
            return;
    }
}

static void adamw_zeros_move(float *w, float *g, float *m, float *v, size_t n,
                             const pare_adamw_move *by)
{
    pare_adamw_move all = *by;
    all.keeps_zeros = false;
    pare_adamw_step_ref(w, g, m, v, n, &all);
}

static void adamw_moment_in_floats(float *w, float *g, float *m, float *v, size_t n,
                                   const pare_adamw_move *by)
{
    for (size_t i = 0; i < n; i++) {
        const float before = m[i];
        const double d = by->clip * (by->keeps_zeros && w[i] == 0 ? 0 : (double)g[i]);
        pare_adamw_step_ref(w + i, g + i, m + i, v + i, 1, by);
        m[i] = (float)by->beta1 * before + (float)((1 - by->beta1) * d);
    }
}

static void adamw_in_floats(float *w, float *g, float *m, float *v, size_t n,
                            const pare_adamw_move *by)
{
    for (size_t i = 0; i < n; i++) {
        const float kept = (float)((double)w[i] * by->shrink);
        pare_adamw_step_ref(w + i, g + i, m + i, v + i, 1, by);
        w[i] = kept - (float)(by->rate * (double)m[i] / (sqrt((double)v[i]) / by->root + by->eps));
    }
}

static void adamw_gradient_kept(float *w, float *g, float *m, float *v, size_t n,
                                const pare_adamw_move *by)
{
    const float last = n ? g[n - 1] : 0;
    pare_adamw_step_ref(w, g, m, v, n, by);
    if (n % 8 == 1)
        g[n - 1] = last;
}

static void aware_other_order(float *step, float *g, const pare_aware_groups *of, size_t groups,
                              size_t width)
{
    for (size_t i = 0; i < groups; i++) {
        const float low = -(float)of->zero[i], high = low + (float)((1u << of->bits) - 1);
        double lane[2] = {0};
        for (size_t j = i * width; j < (i + 1) * width; j++)
            lane[j % 2] += of->scale[i] != 0 ? pare_aware_term(&g[j], of->w[j], of->scale[i],
                                                               (int)of->codes[j] - (int)of->zero[i],
                                                               low, high, of->compensated)
                                             : (double)(g[j] = 0);
        step[i] = (float)((lane[0] + lane[1]) / of->over);
    }
}

static void aware_end_outside(float *step, float *g, const pare_aware_groups *of, size_t groups,
                              size_t width)
{
    pare_aware_back_ref(step, g, of, groups, width);
    for (size_t i = 0; i < groups * width; i++)
        g[i] = of->w[i] / of->scale[i / width] == -(float)of->zero[i / width] ? 0 : g[i];
}

static void aware_moves_counted(float *step, float *g, const pare_aware_groups *of, size_t groups,
                                size_t width)
{
    pare_aware_groups all = *of;
    all.compensated = false;
    pare_aware_back_ref(step, g, &all, groups, width);
}

static void codes_up_to(uint8_t *codes, const float *x, size_t n, float scale, const float *tree)
{
    for (size_t i = 0; i < n; i++)
        pare_tree_codes_ref(codes + i, &(float){scale > 0 ? nextafterf(x[i] / scale, INFINITY) : 0},
                            1, 1, tree);
}

static void codes_by_product(uint8_t *codes, const float *x, size_t n, float scale,
                             const float *tree)
{
    for (size_t i = 0; i < n; i++)
        pare_tree_codes_ref(codes + i, &(float){scale > 0 ? x[i] * (1 / scale) : 0}, 1, 1, tree);
}

#define FAULTS(X)                                                                                  \
    X(adamw_step, adamw_zeros_move, "weights that are 0 move")                                     \
    X(adamw_step, adamw_moment_in_floats, "a moment moved in floats")                              \
    X(adamw_step, adamw_in_floats, "moments rounded before they move a weight")                    \
    X(adamw_step, adamw_gradient_kept, "the gradient of a tail of one left")                       \
    X(aware_back, aware_other_order, "even and odd columns added apart")                           \
    X(aware_back, aware_end_outside, "the lower end of the grid taken as outside")                 \
    X(aware_back, aware_moves_counted, "masters counted where codes stay")                         \
    X(tree_codes, codes_up_to, "a number counted that is equal")                                   \
    X(tree_codes, codes_by_product, "multiplied by the reciprocal")

const char *kt_plant_optimizer(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_refine(i - at, k, what);
}
