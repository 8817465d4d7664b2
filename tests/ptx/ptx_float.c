/* tests/ptx/ptx_float.c - arithmetic of F32 and F64. Fused steps round once; every other operation
 * rounds by itself. Approximate functions are rounded correctly, unlike on hardware. */
#include "tests/ptx/ptx_rows.h"

/* A NaN is dropped; -0 is less than +0. */
static inline float least(float a, float b)
{
    const float zero = pare_f32_from_bits(pare_f32_bits(a) | pare_f32_bits(b));
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : zero;
}

static inline float most(float a, float b)
{
    const float zero = pare_f32_from_bits(pare_f32_bits(a) & pare_f32_bits(b));
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : zero;
}

static inline double least64(double a, double b)
{
    return a != a ? b : b != b ? a : a < b ? a : b < a ? b : signbit(a) ? a : b;
}

static inline double most64(double a, double b)
{
    return a != a ? b : b != b ? a : a > b ? a : b > a ? b : signbit(a) ? b : a;
}

/* Denormals become 0 of their sign. */
static inline float flush(float a)
{
    return fabsf(a) < 0x1p-126f ? copysignf(0, a) : a;
}

static inline float exp2_of(float a)
{
    return (float)exp2((double)a);
}

static inline float log2_of(float a)
{
    return (float)log2((double)a);
}

static inline float rsqrt_of(float a)
{
    return (float)(1 / sqrt((double)a));
}

#define ROWS(X1, X2, X3)                                                                           \
    X2(add_f32, f32, f32, f32, a + b)                                                              \
    X2(add_rn_f32, f32, f32, f32, a + b)                                                           \
    X2(sub_f32, f32, f32, f32, a - b)                                                              \
    X2(sub_rn_f32, f32, f32, f32, a - b)                                                           \
    X2(mul_f32, f32, f32, f32, a *b)                                                               \
    X2(mul_rn_f32, f32, f32, f32, a *b)                                                            \
    X2(add_ftz_f32, f32, f32, f32, flush(flush(a) + flush(b)))                                     \
    X2(mul_ftz_f32, f32, f32, f32, flush(flush(a) * flush(b)))                                     \
    X3(fma_rn_f32, f32, f32, f32, f32, fmaf(a, b, c))                                              \
    X2(div_rn_f32, f32, f32, f32, a / b)                                                           \
    X2(div_full_f32, f32, f32, f32, a / b)                                                         \
    X2(div_approx_f32, f32, f32, f32, a / b)                                                       \
    X1(rcp_rn_f32, f32, f32, 1 / a)                                                                \
    X1(rcp_approx_f32, f32, f32, 1 / a)                                                            \
    X1(rcp_approx_ftz_f32, f32, f32, flush(1 / flush(a)))                                          \
    X1(sqrt_rn_f32, f32, f32, sqrtf(a))                                                            \
    X1(sqrt_approx_f32, f32, f32, sqrtf(a))                                                        \
    X1(sqrt_approx_ftz_f32, f32, f32, flush(sqrtf(flush(a))))                                      \
    X1(rsqrt_approx_f32, f32, f32, rsqrt_of(a))                                                    \
    X1(rsqrt_approx_ftz_f32, f32, f32, flush(rsqrt_of(flush(a))))                                  \
    X1(ex2_approx_f32, f32, f32, exp2_of(a))                                                       \
    X1(ex2_approx_ftz_f32, f32, f32, flush(exp2_of(flush(a))))                                     \
    X1(lg2_approx_f32, f32, f32, log2_of(a))                                                       \
    X1(lg2_approx_ftz_f32, f32, f32, log2_of(flush(a)))                                            \
    X1(sin_approx_f32, f32, f32, (float)sin((double)a))                                            \
    X1(cos_approx_f32, f32, f32, (float)cos((double)a))                                            \
    X1(tanh_approx_f32, f32, f32, (float)tanh((double)a))                                          \
    X1(abs_f32, f32, f32, fabsf(a))                                                                \
    X1(neg_f32, f32, f32, -a)                                                                      \
    X2(min_f32, f32, f32, f32, least(a, b))                                                        \
    X2(max_f32, f32, f32, f32, most(a, b))                                                         \
    X2(min_NaN_f32, f32, f32, f32, a != a || b != b ? a + b : least(a, b))                         \
    X2(max_NaN_f32, f32, f32, f32, a != a || b != b ? a + b : most(a, b))                          \
    X2(copysign_f32, f32, f32, f32, copysignf(b, a))                                               \
    X2(add_f64, f64, f64, f64, a + b)                                                              \
    X2(add_rn_f64, f64, f64, f64, a + b)                                                           \
    X2(sub_f64, f64, f64, f64, a - b)                                                              \
    X2(sub_rn_f64, f64, f64, f64, a - b)                                                           \
    X2(mul_f64, f64, f64, f64, a *b)                                                               \
    X2(mul_rn_f64, f64, f64, f64, a *b)                                                            \
    X3(fma_rn_f64, f64, f64, f64, f64, fma(a, b, c))                                               \
    X2(div_rn_f64, f64, f64, f64, a / b)                                                           \
    X1(rcp_rn_f64, f64, f64, 1 / a)                                                                \
    X1(rcp_approx_ftz_f64, f64, f64, 1 / a)                                                        \
    X1(sqrt_rn_f64, f64, f64, sqrt(a))                                                             \
    X1(rsqrt_approx_f64, f64, f64, 1 / sqrt(a))                                                    \
    X1(rsqrt_approx_ftz_f64, f64, f64, 1 / sqrt(a))                                                \
    X1(abs_f64, f64, f64, fabs(a))                                                                 \
    X1(neg_f64, f64, f64, -a)                                                                      \
    X2(min_f64, f64, f64, f64, least64(a, b))                                                      \
    X2(max_f64, f64, f64, f64, most64(a, b))                                                       \
    X2(copysign_f64, f64, f64, f64, copysign(b, a))

ROWS(PTX_DEFINE1, PTX_DEFINE2, PTX_DEFINE3)

#define KIND PTX_FLOAT
static const ptx_row rows[] = {ROWS(PTX_TABLE1, PTX_TABLE2, PTX_TABLE3)};
const ptx_rows ptx_rows_float = {rows, sizeof rows / sizeof *rows};
