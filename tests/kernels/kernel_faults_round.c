/* Wrong kernels of rounding: ranges, codes, clipping, sums of errors. */
#include <math.h>

#include "kernels/e4m3.h"
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

static float largest(const float *x, size_t n)
{
    float most = 0;
    for (size_t i = 0; i < n; i++)
        most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static void fp8_by_reciprocal(float *dst, const float *x, size_t n)
{
    const float scale = largest(x, n) / 448, inverse = 1 / scale;
    for (size_t i = 0; i < n; i++)
        dst[i] = scale > 0 ? pare_round_e4m3(x[i] * inverse) * scale : x[i];
}

/* As if steps below 2^-6 went on to be an eighth of a value. */
static void fp8_fine(float *dst, const float *x, size_t n)
{
    const float scale = largest(x, n) / 448;
    pare_round_fp8_ref(dst, x, n);
    for (size_t i = 0; i < n; i++)
        if (scale > 0 && fabsf(x[i] / scale) < 0x1p-6f)
            dst[i] = pare_round_e4m3(x[i] / scale * 0x1p8f) * 0x1p-8f * scale;
}

static void fp8_tail_left(float *dst, const float *x, size_t n)
{
    pare_round_fp8_ref(dst, x, n);
    for (size_t i = n / 8 * 8; i < n; i++)
        dst[i] = x[i];
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
    X(round_fp8, fp8_by_reciprocal, "multiplied by the reciprocal")                                \
    X(round_fp8, fp8_fine, "finer steps below 2^-6")                                               \
    X(round_fp8, fp8_tail_left, "a tail left as it is")                                            \
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
