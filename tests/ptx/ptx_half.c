/* tests/ptx/ptx_half.c - arithmetic of F16, alone and in pairs. A sum or product of two is rounded
 * from F32 and so rounded as if once (24 >= 2 * 11 + 2 bits); a fused step goes through double,
 * where it is exact. */
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

static inline uint32_t fused_relu(float a, float b, float c)
{
    const double sum = (double)a * (double)b + (double)c;
    return ptx_f64_to_f16(sum > 0 ? sum : 0);
}

#define PAIR_GET(r, k) pare_f16_to_f32((uint16_t)((r)->u32[i] >> 16 * (k)))
#define PAIR1(name, value)                                                                         \
    static void do_##name##x2(ptx_warp *w, const ptx_ins *in)                                      \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a);                                             \
        PTX_EACH(                                                                                  \
            w, uint32_t d = 0; for (int k = 0; k < 2; k++) {                                       \
                const float a = PAIR_GET(ra, k);                                                   \
                d |= (uint32_t)(value) << 16 * k;                                                  \
            } PTX_KEEP_u32(rd, d);)                                                                \
        ptx_spread(w, in->d, ptx_undef(w, in->a));                                                 \
    }                                                                                              \
    PTX_DEFINE1(name, u16, f16, value)
#define PAIR2(name, value)                                                                         \
    static void do_##name##x2(ptx_warp *w, const ptx_ins *in)                                      \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        PTX_EACH(                                                                                  \
            w, uint32_t d = 0; for (int k = 0; k < 2; k++) {                                       \
                const float a = PAIR_GET(ra, k), b = PAIR_GET(rb, k);                              \
                d |= (uint32_t)(value) << 16 * k;                                                  \
            } PTX_KEEP_u32(rd, d);)                                                                \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b));                           \
    }                                                                                              \
    PTX_DEFINE2(name, u16, f16, f16, value)
#define PAIR3(name, value)                                                                         \
    static void do_##name##x2(ptx_warp *w, const ptx_ins *in)                                      \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),              \
                               *const rc = ptx_reg(w, in->c);                                      \
        PTX_EACH(                                                                                  \
            w, uint32_t d = 0; for (int k = 0; k < 2; k++) {                                       \
                const float a = PAIR_GET(ra, k), b = PAIR_GET(rb, k), c = PAIR_GET(rc, k);         \
                d |= (uint32_t)(value) << 16 * k;                                                  \
            } PTX_KEEP_u32(rd, d);)                                                                \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c));     \
    }                                                                                              \
    PTX_DEFINE3(name, u16, f16, f16, f16, value)

#define ROWS(X1, X2, X3)                                                                           \
    X2(add_f16, ptx_bits_f16(a + b))                                                               \
    X2(add_rn_f16, ptx_bits_f16(a + b))                                                            \
    X2(sub_f16, ptx_bits_f16(a - b))                                                               \
    X2(sub_rn_f16, ptx_bits_f16(a - b))                                                            \
    X2(mul_f16, ptx_bits_f16(a *b))                                                                \
    X2(mul_rn_f16, ptx_bits_f16(a *b))                                                             \
    X3(fma_rn_f16, fused(a, b, c))                                                                 \
    X3(fma_rn_relu_f16, fused_relu(a, b, c))                                                       \
    X1(neg_f16, ptx_bits_f16(-a))                                                                  \
    X1(abs_f16, ptx_bits_f16(fabsf(a)))                                                            \
    X2(min_f16, ptx_bits_f16(least(a, b)))                                                         \
    X2(max_f16, ptx_bits_f16(most(a, b)))

ROWS(PAIR1, PAIR2, PAIR3)

#define ROW1(name, value)                                                                          \
    {#name, do_##name, "22", PTX_FLOAT}, {#name "x2", do_##name##x2, "44", PTX_FLOAT},
#define ROW2(name, value)                                                                          \
    {#name, do_##name, "222", PTX_FLOAT}, {#name "x2", do_##name##x2, "444", PTX_FLOAT},
#define ROW3(name, value)                                                                          \
    {#name, do_##name, "2222", PTX_FLOAT}, {#name "x2", do_##name##x2, "4444", PTX_FLOAT},

static const ptx_row rows[] = {ROWS(ROW1, ROW2, ROW3)};
const ptx_rows ptx_rows_half = {rows, sizeof rows / sizeof *rows};
