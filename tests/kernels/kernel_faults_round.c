/* Wrong kernels of rounding: ranges, codes, clipping, sums of errors. */
#include <math.h>

#include "kernels/grid_code.h"
#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

static bool range_from_first(const float *x, size_t n, float *lo, float *hi)
{
    const bool finite = pare_range_f32_ref(x, n, lo, hi);
    for (size_t i = 0; finite && i < n; i++)
        *lo = i == 0 || x[i] < *lo ? x[i] : *lo;
    return finite;
}

static bool range_nan_lost(const float *x, size_t n, float *lo, float *hi)
{
    if (pare_range_f32_ref(x, n, lo, hi))
        return true;
    for (size_t i = 0; i < n; i++) {
        if (isinf(x[i]))
            return false;
        *lo = x[i] < *lo ? x[i] : *lo;
        *hi = x[i] > *hi ? x[i] : *hi;
    }
    return true;
}

/* As if blocks of 16 had no tail. */
static bool range_tail_left(const float *x, size_t n, float *lo, float *hi)
{
    return pare_range_f32_ref(x, n / 16 * 16, lo, hi);
}

static void codes_by_reciprocal(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                                unsigned bits)
{
    const float inverse = 1 / scale;
    for (size_t i = 0; i < n; i++)
        codes[i] = pare_grid_code(bits, scale > 0 ? x[i] * inverse : 0, 1, zero);
}

static void codes_half_away(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                            unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = pare_grid_code(bits, scale > 0 ? roundf(x[i] / scale) : 0, 1, zero);
}

static void codes_nan_is_zero(uint8_t *codes, const float *x, size_t n, float scale, uint8_t zero,
                              unsigned bits)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = pare_grid_code(bits, isnan(x[i]) ? 0 : x[i], scale, zero);
}

static pare_error_sum errors_fused(const float *w, const float *q, const float *whole, size_t n)
{
    pare_error_sum sum = pare_error_sums_ref(w, q, whole, n);
    double lane[8] = {0};
    for (size_t i = 0; i < n; i++)
        lane[i % 8] = fma((double)w[i] - (double)q[i], (double)w[i] - (double)q[i], lane[i % 8]);
    sum.wrong = 0;
    for (size_t l = 0; l < 8; l++)
        sum.wrong += lane[l];
    return sum;
}

static pare_error_sum errors_of_itself(const float *w, const float *q, const float *whole, size_t n)
{
    (void)whole;
    return pare_error_sums_ref(w, q, w, n);
}

static pare_error_sum errors_of_tail(const float *w, const float *q, const float *whole, size_t n)
{
    pare_error_sum sum = pare_error_sums_ref(w, q, whole, n);
    sum.nonzero += n % 8 ? 8 - n % 8 : 0;
    return sum;
}

static double clip_ends_late(const float *w, const float *weight, size_t n, float s, uint8_t zero,
                             unsigned bits, float range, double enough)
{
    return pare_clip_cost_ref(w, weight, n, s, zero, bits, range, 2 * enough);
}

static double clip_unweighted(const float *w, const float *weight, size_t n, float s, uint8_t zero,
                              unsigned bits, float range, double enough)
{
    (void)weight;
    return pare_clip_cost_ref(w, NULL, n, s, zero, bits, range, enough);
}

#define FAULTS(X)                                                                                  \
    X(range_f32, range_from_first, "0 left out")                                                   \
    X(range_f32, range_nan_lost, "a NaN passed over")                                              \
    X(range_f32, range_tail_left, "a tail left out")                                               \
    X(round_codes, codes_by_reciprocal, "multiplied by the reciprocal")                            \
    X(round_codes, codes_half_away, "ties away from zero")                                         \
    X(round_codes, codes_nan_is_zero, "a NaN is the code of 0")                                    \
    X(clip_cost, clip_ends_late, "ends later")                                                     \
    X(clip_cost, clip_unweighted, "costs of errors ignored")                                       \
    X(error_sums, errors_fused, "square and sum rounded together")                                 \
    X(error_sums, errors_of_itself, "w squared for the whole")                                     \
    X(error_sums, errors_of_tail, "lanes behind the tail counted")

const char *kt_plant_round(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_bf16(i - at, k, what);
}
