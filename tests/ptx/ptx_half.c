/* tests/ptx/ptx_half.c - arithmetic of F16 and BF16, alone and in pairs. A sum or product of two is
 * rounded from F32 and so rounded as if once (24 >= 2 * 11 + 2 bits); a fused step of F16 goes
 * through double, where it is exact, one of BF16 as ptx_round.h says. */
#include "tests/ptx/ptx_round.h"
#include "tests/ptx/ptx_rows.h"

static inline float least(float a, float b)
{
    return a != a ? b : b != b ? a : a < b || (a == b && signbit(a)) ? a : b;
}

static inline float most(float a, float b)
{
    return a != a ? b : b != b ? a : a > b || (a == b && signbit(b)) ? a : b;
}

static inline uint32_t fused(float a, float b, float c)
{
    return ptx_f64_to_f16((double)a * (double)b + (double)c);
}

/* A BF16 is the upper half of an F32. */
static inline uint32_t fused_bf16(float a, float b, float c)
{
    return ptx_bits_bf16(ptx_f64_to_sticky_f32(ptx_sticky_sum((double)a * (double)b, (double)c)));
}

static inline uint32_t fused_relu(float a, float b, float c)
{
    const double sum = (double)a * (double)b + (double)c;
    return ptx_f64_to_f16(sum > 0 ? sum : 0);
}

#define HALF_f16(bits)  pare_f16_to_f32((uint16_t)(bits))
#define HALF_bf16(bits) pare_bf16_to_f32((uint16_t)(bits))

/* A function for pairs and one for a number of type T; the value is the 16 bits of the result. */
#define PAIR(name, read, value)                                                                    \
    static void do_##name##x2(ptx_warp *w, const ptx_ins *in)                                      \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),              \
                               *const rc = ptx_reg(w, in->c);                                      \
        PTX_EACH(                                                                                  \
            w, uint32_t d = 0; for (int k = 0; k < 32; k += 16) {                                  \
                read;                                                                              \
                d |= (uint32_t)(value) << k;                                                       \
            } PTX_KEEP_u32(rd, d);)                                                                \
        (void)rb, (void)rc;                                                                        \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c));     \
    }
#define PAIR1(name, T, value)                                                                      \
    PAIR(name, const float a = HALF_##T(ra->u32[i] >> k), value)                                   \
    PTX_DEFINE1(name, u16, T, value)
#define PAIR2(name, T, value)                                                                      \
    PAIR(name, const float a = HALF_##T(ra->u32[i] >> k);                                          \
         const float b = HALF_##T(rb->u32[i] >> k), value)                                         \
    PTX_DEFINE2(name, u16, T, T, value)
#define PAIR3(name, T, value)                                                                      \
    PAIR(name, const float a = HALF_##T(ra->u32[i] >> k);                                          \
         const float b = HALF_##T(rb->u32[i] >> k);                                                \
         const float c = HALF_##T(rc->u32[i] >> k), value)                                         \
    PTX_DEFINE3(name, u16, T, T, T, value)

#define NAN_OR(v) (a != a || b != b ? NAN : (v))
#define ROWS(X1, X2, X3)                                                                           \
    X2(add_f16, f16, ptx_bits_f16(a + b))                                                          \
    X2(add_rn_f16, f16, ptx_bits_f16(a + b))                                                       \
    X2(sub_f16, f16, ptx_bits_f16(a - b))                                                          \
    X2(sub_rn_f16, f16, ptx_bits_f16(a - b))                                                       \
    X2(mul_f16, f16, ptx_bits_f16(a *b))                                                           \
    X2(mul_rn_f16, f16, ptx_bits_f16(a *b))                                                        \
    X3(fma_rn_f16, f16, fused(a, b, c))                                                            \
    X3(fma_rn_relu_f16, f16, fused_relu(a, b, c))                                                  \
    X1(neg_f16, f16, ptx_bits_f16(-a))                                                             \
    X1(abs_f16, f16, ptx_bits_f16(fabsf(a)))                                                       \
    X2(min_f16, f16, ptx_bits_f16(least(a, b)))                                                    \
    X2(max_f16, f16, ptx_bits_f16(most(a, b)))                                                     \
    X2(min_NaN_f16, f16, ptx_bits_f16(NAN_OR(least(a, b))))                                        \
    X2(max_NaN_f16, f16, ptx_bits_f16(NAN_OR(most(a, b))))                                         \
    X3(fma_rn_bf16, bf16, fused_bf16(a, b, c))                                                     \
    X1(neg_bf16, bf16, ptx_bits_bf16(-a))                                                          \
    X1(abs_bf16, bf16, ptx_bits_bf16(fabsf(a)))                                                    \
    X2(min_bf16, bf16, ptx_bits_bf16(least(a, b)))                                                 \
    X2(max_bf16, bf16, ptx_bits_bf16(most(a, b)))

ROWS(PAIR1, PAIR2, PAIR3)

/* set.CMP.u32.f16x2 gives 16 ones a true half, set.CMP.f16x2.f16x2 1.0. */
#define SET(cmp, test)                                                                             \
    PAIR(set_##cmp##_u32_f16, const float a = HALF_f16(ra->u32[i] >> k);                           \
         const float b = HALF_f16(rb->u32[i] >> k), (test) ? 0xffffu : 0)                          \
    PAIR(set_##cmp##_f16x2_f16, const float a = HALF_f16(ra->u32[i] >> k);                         \
         const float b = HALF_f16(rb->u32[i] >> k), (test) ? 0x3c00u : 0)
#define SET_ROW(cmp, test)                                                                         \
    {"set_" #cmp "_u32_f16x2", do_set_##cmp##_u32_f16x2, "444", PTX_FLOAT},                        \
        {"set_" #cmp "_f16x2_f16x2", do_set_##cmp##_f16x2_f16x2, "444", PTX_FLOAT},
#define SETS(X)                                                                                    \
    X(eq, a == b)                                                                                  \
    X(ne, a<b || a> b)                                                                             \
    X(lt, a < b)                                                                                   \
    X(le, a <= b)                                                                                  \
    X(gt, a > b)                                                                                   \
    X(ge, a >= b)                                                                                  \
    X(neu, a != b)                                                                                 \
    X(equ, !(a < b || a > b))                                                                      \
    X(ltu, !(a >= b))                                                                              \
    X(leu, !(a > b))                                                                               \
    X(gtu, !(a <= b))                                                                              \
    X(geu, !(a < b))                                                                               \
    X(nan, a != a || b != b)

SETS(SET)

#define ROW1(name, T, value)                                                                       \
    {#name, do_##name, "22", PTX_FLOAT}, {#name "x2", do_##name##x2, "44", PTX_FLOAT},
#define ROW2(name, T, value)                                                                       \
    {#name, do_##name, "222", PTX_FLOAT}, {#name "x2", do_##name##x2, "444", PTX_FLOAT},
#define ROW3(name, T, value)                                                                       \
    {#name, do_##name, "2222", PTX_FLOAT}, {#name "x2", do_##name##x2, "4444", PTX_FLOAT},

static const ptx_row rows[] = {ROWS(ROW1, ROW2, ROW3) SETS(SET_ROW)};
const ptx_rows ptx_rows_half = {rows, sizeof rows / sizeof *rows};
