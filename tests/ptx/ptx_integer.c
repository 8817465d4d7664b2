/* tests/ptx/ptx_integer.c - operations on integers and bits. */
#include "tests/ptx/ptx_rows.h"

/* Shifts by the width or more give 0, or the sign. */
static inline uint32_t shl32(uint32_t a, uint32_t n)
{
    return n < 32 ? a << (n & 31) : 0;
}

static inline uint32_t shr32(uint32_t a, uint32_t n)
{
    return n < 32 ? a >> (n & 31) : 0;
}

static inline int32_t sar32(int32_t a, uint32_t n)
{
    return a >> (n < 32 ? n : 31);
}

static inline uint64_t shl64(uint64_t a, uint32_t n)
{
    return n < 64 ? a << (n & 63) : 0;
}

static inline uint64_t shr64(uint64_t a, uint32_t n)
{
    return n < 64 ? a >> (n & 63) : 0;
}

static inline int64_t sar64(int64_t a, uint32_t n)
{
    return a >> (n < 64 ? n : 63);
}

/* The funnel b:a shifted; clamp and wrap say what counts of n. */
static inline uint32_t funnel_left(uint32_t a, uint32_t b, uint32_t n)
{
    return n == 0 ? b : n >= 32 ? a : b << (n & 31) | a >> (-n & 31);
}

static inline uint32_t funnel_right(uint32_t a, uint32_t b, uint32_t n)
{
    return n == 0 ? a : n >= 32 ? b : a >> (n & 31) | b << (-n & 31);
}

static inline uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t count_ones(uint64_t v)
{
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    v = (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
    return (uint32_t)(v * 0x0101010101010101u >> 56);
}

static inline uint32_t fill_right(uint32_t v)
{
    v |= v >> 1;
    v |= v >> 2;
    v |= v >> 4;
    v |= v >> 8;
    return v | v >> 16;
}

static inline uint64_t fill_right64(uint64_t v)
{
    v |= v >> 1;
    v |= v >> 2;
    v |= v >> 4;
    v |= v >> 8;
    v |= v >> 16;
    return v | v >> 32;
}

static inline uint32_t reverse(uint32_t v)
{
    v = (v >> 1 & 0x55555555u) | (v & 0x55555555u) << 1;
    v = (v >> 2 & 0x33333333u) | (v & 0x33333333u) << 2;
    v = (v >> 4 & 0x0f0f0f0fu) | (v & 0x0f0f0f0fu) << 4;
    v = (v >> 8 & 0x00ff00ffu) | (v & 0x00ff00ffu) << 8;
    return v >> 16 | v << 16;
}

/* len bits of a at position pos; bits from the top are the sign's copies or 0. */
static inline uint32_t extract(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    const uint32_t kept = shl32(1, len) - 1;
    return shr32(a, pos) & (len < 32 ? kept : ~0u);
}

static inline uint32_t extract_signed(uint32_t a, uint32_t pos, uint32_t len)
{
    pos &= 255;
    len &= 255;
    if (len == 0)
        return 0;
    const uint32_t top = pos + len - 1 < 31 ? pos + len - 1 : 31;
    const uint32_t sign = a >> top & 1 ? ~0u : 0;
    const uint32_t kept = len < 32 ? shl32(1, len) - 1 : ~0u;
    const uint32_t from = (uint32_t)sar32((int32_t)a, pos);
    return (from & kept) | (sign & ~kept);
}

static inline uint64_t insert(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, uint32_t width)
{
    pos &= 255;
    len &= 255;
    if (pos >= width || len == 0)
        return b;
    const uint64_t field = len < width - pos ? (shl64(1, len) - 1) << pos : ~(uint64_t)0 << pos;
    return (a << pos & field) | (b & ~field);
}

static inline uint32_t permute(uint32_t a, uint32_t b, uint32_t c)
{
    const uint64_t both = (uint64_t)b << 32 | a;
    uint32_t d = 0;
    for (uint32_t k = 0; k < 4; k++) {
        const uint32_t select = c >> 4 * k, byte = (uint32_t)(both >> 8 * (select & 7)) & 255;
        d |= (select & 8 ? (byte & 128 ? 255u : 0u) : byte) << 8 * k;
    }
    return d;
}

#define BYTE(T, v, k) (int32_t)(T)((v) >> 8 * (k))
#define DOT(A, B)                                                                                  \
    (uint32_t)(BYTE(A, a, 0) * BYTE(B, b, 0) + BYTE(A, a, 1) * BYTE(B, b, 1) +                     \
               BYTE(A, a, 2) * BYTE(B, b, 2) + BYTE(A, a, 3) * BYTE(B, b, 3))

__extension__ typedef __int128 wide_s;
__extension__ typedef unsigned __int128 wide_u;

#define ROWS(X1, X2, X3)                                                                           \
    X2(add_u16, u16, u16, u16, a + b)                                                              \
    X2(add_s16, u16, u16, u16, a + b)                                                              \
    X2(add_u32, u32, u32, u32, a + b)                                                              \
    X2(add_s32, u32, u32, u32, a + b)                                                              \
    X2(add_u64, u64, u64, u64, a + b)                                                              \
    X2(add_s64, u64, u64, u64, a + b)                                                              \
    X2(sub_u16, u16, u16, u16, a - b)                                                              \
    X2(sub_s16, u16, u16, u16, a - b)                                                              \
    X2(sub_u32, u32, u32, u32, a - b)                                                              \
    X2(sub_s32, u32, u32, u32, a - b)                                                              \
    X2(sub_u64, u64, u64, u64, a - b)                                                              \
    X2(sub_s64, u64, u64, u64, a - b)                                                              \
    X2(mul_lo_u16, u16, u16, u16, (uint32_t)a *b)                                                  \
    X2(mul_lo_s16, u16, u16, u16, (uint32_t)a *b)                                                  \
    X2(mul_lo_u32, u32, u32, u32, a *b)                                                            \
    X2(mul_lo_s32, u32, u32, u32, a *b)                                                            \
    X2(mul_lo_u64, u64, u64, u64, a *b)                                                            \
    X2(mul_lo_s64, u64, u64, u64, a *b)                                                            \
    X2(mul_wide_u16, u32, u16, u16, (uint32_t)a *b)                                                \
    X2(mul_wide_s16, s32, s16, s16, a *b)                                                          \
    X2(mul_wide_u32, u64, u32, u32, (uint64_t)a *b)                                                \
    X2(mul_wide_s32, s64, s32, s32, (int64_t)a *b)                                                 \
    X2(mul_hi_u16, u16, u16, u16, (uint32_t)a *b >> 16)                                            \
    X2(mul_hi_s16, s16, s16, s16, a *b >> 16)                                                      \
    X2(mul_hi_u32, u32, u32, u32, (uint64_t)a *b >> 32)                                            \
    X2(mul_hi_s32, s32, s32, s32, (int64_t)a *b >> 32)                                             \
    X2(mul_hi_u64, u64, u64, u64, (wide_u)a *b >> 64)                                              \
    X2(mul_hi_s64, s64, s64, s64, (wide_s)a *b >> 64)                                              \
    X3(mad_lo_u16, u16, u16, u16, u16, (uint32_t)a *b + c)                                         \
    X3(mad_lo_s16, u16, u16, u16, u16, (uint32_t)a *b + c)                                         \
    X3(mad_lo_u32, u32, u32, u32, u32, a *b + c)                                                   \
    X3(mad_lo_s32, u32, u32, u32, u32, a *b + c)                                                   \
    X3(mad_lo_u64, u64, u64, u64, u64, a *b + c)                                                   \
    X3(mad_lo_s64, u64, u64, u64, u64, a *b + c)                                                   \
    X3(mad_wide_u16, u32, u16, u16, u32, (uint32_t)a *b + c)                                       \
    X3(mad_wide_s16, u32, s16, s16, u32, (uint32_t)(a * b) + c)                                    \
    X3(mad_wide_u32, u64, u32, u32, u64, (uint64_t)a *b + c)                                       \
    X3(mad_wide_s32, u64, s32, s32, u64, (uint64_t)((int64_t)a * b) + c)                           \
    X3(mad_hi_u32, u32, u32, u32, u32, (uint32_t)((uint64_t)a * b >> 32) + c)                      \
    X3(mad_hi_s32, u32, s32, s32, u32, (uint32_t)((int64_t)a * b >> 32) + c)                       \
    X3(sad_u32, u32, u32, u32, u32, (a > b ? a - b : b - a) + c)                                   \
    X3(sad_s32, u32, s32, s32, u32,                                                                \
       (a > b ? (uint32_t)a - (uint32_t)b : (uint32_t)b - (uint32_t)a) + c)                        \
    X1(abs_s16, u16, s16, a < 0 ? -a : a)                                                          \
    X1(abs_s32, u32, s32, a < 0 ? 0u - (uint32_t)a : (uint32_t)a)                                  \
    X1(abs_s64, u64, s64, a < 0 ? 0u - (uint64_t)a : (uint64_t)a)                                  \
    X1(neg_s16, u16, u16, -a)                                                                      \
    X1(neg_s32, u32, u32, 0u - a)                                                                  \
    X1(neg_s64, u64, u64, 0u - a)                                                                  \
    X2(min_u16, u16, u16, u16, a < b ? a : b)                                                      \
    X2(min_s16, s16, s16, s16, a < b ? a : b)                                                      \
    X2(min_u32, u32, u32, u32, a < b ? a : b)                                                      \
    X2(min_s32, s32, s32, s32, a < b ? a : b)                                                      \
    X2(min_u64, u64, u64, u64, a < b ? a : b)                                                      \
    X2(min_s64, s64, s64, s64, a < b ? a : b)                                                      \
    X2(max_u16, u16, u16, u16, a > b ? a : b)                                                      \
    X2(max_s16, s16, s16, s16, a > b ? a : b)                                                      \
    X2(max_u32, u32, u32, u32, a > b ? a : b)                                                      \
    X2(max_s32, s32, s32, s32, a > b ? a : b)                                                      \
    X2(max_u64, u64, u64, u64, a > b ? a : b)                                                      \
    X2(max_s64, s64, s64, s64, a > b ? a : b)                                                      \
    X2(and_b16, u16, u16, u16, a &b)                                                               \
    X2(and_b32, u32, u32, u32, a &b)                                                               \
    X2(and_b64, u64, u64, u64, a &b)                                                               \
    X2(or_b16, u16, u16, u16, a | b)                                                               \
    X2(or_b32, u32, u32, u32, a | b)                                                               \
    X2(or_b64, u64, u64, u64, a | b)                                                               \
    X2(xor_b16, u16, u16, u16, a ^ b)                                                              \
    X2(xor_b32, u32, u32, u32, a ^ b)                                                              \
    X2(xor_b64, u64, u64, u64, a ^ b)                                                              \
    X1(not_b16, u16, u16, ~a)                                                                      \
    X1(not_b32, u32, u32, ~a)                                                                      \
    X1(not_b64, u64, u64, ~a)                                                                      \
    X2(shl_b16, u16, u16, u32, shl32(a, b))                                                        \
    X2(shl_b32, u32, u32, u32, shl32(a, b))                                                        \
    X2(shl_b64, u64, u64, u32, shl64(a, b))                                                        \
    X2(shr_b16, u16, u16, u32, shr32(a, b))                                                        \
    X2(shr_u16, u16, u16, u32, shr32(a, b))                                                        \
    X2(shr_s16, s16, s16, u32, sar32(a, b))                                                        \
    X2(shr_b32, u32, u32, u32, shr32(a, b))                                                        \
    X2(shr_u32, u32, u32, u32, shr32(a, b))                                                        \
    X2(shr_s32, s32, s32, u32, sar32(a, b))                                                        \
    X2(shr_b64, u64, u64, u32, shr64(a, b))                                                        \
    X2(shr_u64, u64, u64, u32, shr64(a, b))                                                        \
    X2(shr_s64, s64, s64, u32, sar64(a, b))                                                        \
    X3(shf_l_wrap_b32, u32, u32, u32, u32, funnel_left(a, b, c & 31))                              \
    X3(shf_r_wrap_b32, u32, u32, u32, u32, funnel_right(a, b, c & 31))                             \
    X3(shf_l_clamp_b32, u32, u32, u32, u32, funnel_left(a, b, least(c, 32)))                       \
    X3(shf_r_clamp_b32, u32, u32, u32, u32, funnel_right(a, b, least(c, 32)))                      \
    X3(prmt_b32, u32, u32, u32, u32, permute(a, b, c))                                             \
    X3(bfe_u32, u32, u32, u32, u32, extract(a, b, c))                                              \
    X3(bfe_s32, u32, u32, u32, u32, extract_signed(a, b, c))                                       \
    X1(popc_b32, u32, u32, count_ones(a))                                                          \
    X1(popc_b64, u32, u64, count_ones(a))                                                          \
    X1(clz_b32, u32, u32, 32 - count_ones(fill_right(a)))                                          \
    X1(clz_b64, u32, u64, 64 - count_ones(fill_right64(a)))                                        \
    X1(brev_b64, u64, u64, (uint64_t)reverse((uint32_t)a) << 32 | reverse((uint32_t)(a >> 32)))    \
    X1(bfind_shiftamt_u32, u32, u32, a ? 32 - count_ones(fill_right(a)) : ~0u)                     \
    X1(brev_b32, u32, u32, reverse(a))                                                             \
    X1(bfind_u32, u32, u32, count_ones(fill_right(a)) - 1)                                         \
    X1(bfind_s32, u32, s32, count_ones(fill_right((uint32_t)(a < 0 ? ~a : a))) - 1)                \
    X3(dp4a_u32_u32, u32, u32, u32, u32, DOT(uint8_t, uint8_t) + c)                                \
    X3(dp4a_u32_s32, u32, u32, u32, u32, DOT(uint8_t, int8_t) + c)                                 \
    X3(dp4a_s32_u32, u32, u32, u32, u32, DOT(int8_t, uint8_t) + c)                                 \
    X3(dp4a_s32_s32, u32, u32, u32, u32, DOT(int8_t, int8_t) + c)                                  \
    X1(mov_b16, u16, u16, a)                                                                       \
    X1(mov_u16, u16, u16, a)                                                                       \
    X1(mov_s16, u16, u16, a)                                                                       \
    X1(mov_b32, u32, u32, a)                                                                       \
    X1(mov_u32, u32, u32, a)                                                                       \
    X1(mov_s32, u32, u32, a)                                                                       \
    X1(mov_f32, u32, u32, a)                                                                       \
    X1(mov_b64, u64, u64, a)                                                                       \
    X1(mov_u64, u64, u64, a)                                                                       \
    X1(mov_s64, u64, u64, a)                                                                       \
    X1(mov_f64, u64, u64, a)

ROWS(PTX_DEFINE1, PTX_DEFINE2, PTX_DEFINE3)

/* Division has no result for a divisor of 0, and C has none for the least number by -1. */
#define DIVISION(name, T, value)                                                                   \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        const uint32_t undef = ptx_undef(w, in->a) | ptx_undef(w, in->b);                          \
        for (int i = 0; i < PTX_LANES; i++) {                                                      \
            const int32_t m = w->act >> i & 1 ? -1 : 0;                                            \
            const ptx_##T a = PTX_GET_##T(ra), b = PTX_GET_##T(rb);                                \
            if (!m || undef >> i & 1)                                                              \
                continue;                                                                          \
            if (b == 0) {                                                                          \
                ptx_fail(w, in, 1u << i, 0, "an integer is divided by 0");                         \
                return;                                                                            \
            }                                                                                      \
            PTX_KEEP_##T(rd, value);                                                               \
        }                                                                                          \
        ptx_spread(w, in->d, undef);                                                               \
    }
#define DIVISION_ROW(name, T, value)                                                               \
    {#name, do_##name, PTX_SIZE_##T PTX_SIZE_##T PTX_SIZE_##T, PTX_INTEGER},
#define DIVISIONS(X)                                                                               \
    X(div_u16, u16, a / b)                                                                         \
    X(div_s16, s16, a / b)                                                                         \
    X(div_u32, u32, a / b)                                                                         \
    X(div_s32, s32, b == -1 ? 0u - (uint32_t)a : (uint32_t)(a / b))                                \
    X(div_u64, u64, a / b)                                                                         \
    X(div_s64, s64, b == -1 ? 0u - (uint64_t)a : (uint64_t)(a / b))                                \
    X(rem_u16, u16, a % b)                                                                         \
    X(rem_s16, s16, a % b)                                                                         \
    X(rem_u32, u32, a % b)                                                                         \
    X(rem_s32, s32, b == -1 ? 0 : a % b)                                                           \
    X(rem_u64, u64, a % b)                                                                         \
    X(rem_s64, s64, b == -1 ? 0 : a % b)

DIVISIONS(DIVISION)

/* Sums with the carry of each lane: taken where `in_` says so, kept where `out` says so. */
#define CARRY(name, T, in_, out, sum, over)                                                        \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        uint32_t *const carry = ptx_reg(w, PTX_REG_CARRY)->u32, bits = 0;                          \
        for (int i = 0; i < PTX_LANES; i++) {                                                      \
            const int32_t m = w->act >> i & 1 ? -1 : 0;                                            \
            const ptx_##T a = PTX_GET_##T(ra), b = PTX_GET_##T(rb);                                \
            const ptx_##T c = (in_) ? *carry >> i & 1 : 0;                                         \
            (void)c;                                                                               \
            bits |= ((over) ? 1u : 0u) << i;                                                       \
            PTX_KEEP_##T(rd, sum);                                                                 \
        }                                                                                          \
        const uint32_t undef =                                                                     \
            ptx_undef(w, in->a) | ptx_undef(w, in->b) | ((in_) ? ptx_undef(w, PTX_REG_CARRY) : 0); \
        ptx_spread(w, in->d, undef);                                                               \
        if (out) {                                                                                 \
            *carry = (*carry & ~w->act) | (bits & w->act);                                         \
            ptx_spread(w, PTX_REG_CARRY, undef);                                                   \
        }                                                                                          \
    }
#define CARRY_ROW(name, T, in_, out, sum, over)                                                    \
    {#name, do_##name, PTX_SIZE_##T PTX_SIZE_##T PTX_SIZE_##T, PTX_INTEGER},
#define CARRIES_OF(X, S, T)                                                                        \
    X(add_cc_##S, T, 0, 1, a + b, (ptx_##T)(a + b) < a)                                            \
    X(addc_##S, T, 1, 0, a + b + c, 0)                                                             \
    X(addc_cc_##S, T, 1, 1, a + b + c, (ptx_##T)(a + b) < a || (ptx_##T)(a + b + c) < c)           \
    X(sub_cc_##S, T, 0, 1, a - b, a < b)                                                           \
    X(subc_##S, T, 1, 0, a - b - c, 0)                                                             \
    X(subc_cc_##S, T, 1, 1, a - b - c, a < b || (ptx_##T)(a - b) < c)
#define CARRIES(X)                                                                                 \
    CARRIES_OF(X, u32, u32) CARRIES_OF(X, s32, u32) CARRIES_OF(X, u64, u64) CARRIES_OF(X, s64, u64)

CARRIES(CARRY)

/* Four sources. */
static void do_bfi_b32(ptx_warp *w, const ptx_ins *in)
{
    ptx_lanes *const rd = ptx_reg(w, in->d);
    const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),
                           *const rc = ptx_reg(w, in->c), *const re = ptx_reg(w, in->x);
    PTX_EACH(w, PTX_KEEP_u32(rd, insert(ra->u32[i], rb->u32[i], rc->u32[i], re->u32[i], 32));)
    ptx_spread(w, in->d,
               ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c) |
                   ptx_undef(w, in->x));
}

static void do_bfi_b64(ptx_warp *w, const ptx_ins *in)
{
    ptx_lanes *const rd = ptx_reg(w, in->d);
    const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),
                           *const rc = ptx_reg(w, in->c), *const re = ptx_reg(w, in->x);
    PTX_EACH(w, PTX_KEEP_u64(rd, insert(ra->u64[i], rb->u64[i], rc->u32[i], re->u32[i], 64));)
    ptx_spread(w, in->d,
               ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c) |
                   ptx_undef(w, in->x));
}

/* Bit a * 4 + b * 2 + c of x says what three bits give. */
static void do_lop3_b32(ptx_warp *w, const ptx_ins *in)
{
    ptx_lanes *const rd = ptx_reg(w, in->d);
    const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),
                           *const rc = ptx_reg(w, in->c);
    uint32_t k[8];
    for (uint32_t j = 0; j < 8; j++)
        k[j] = in->x >> j & 1 ? ~0u : 0;
    PTX_EACH(
        w, const uint32_t a = ra->u32[i]; const uint32_t b = rb->u32[i];
        const uint32_t c = rc->u32[i];
        const uint32_t one = (b & ((c & k[7]) | (~c & k[6]))) | (~b & ((c & k[5]) | (~c & k[4])));
        const uint32_t none = (b & ((c & k[3]) | (~c & k[2]))) | (~b & ((c & k[1]) | (~c & k[0])));
        PTX_KEEP_u32(rd, (a & one) | (~a & none));)
    ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c));
}

#define KIND PTX_INTEGER
static const ptx_row rows[] = {
    ROWS(PTX_TABLE1, PTX_TABLE2, PTX_TABLE3) DIVISIONS(DIVISION_ROW)
        CARRIES(CARRY_ROW){"bfi_b32", do_bfi_b32, "44444", PTX_INTEGER},
    {"bfi_b64", do_bfi_b64, "88844", PTX_INTEGER},
    {"lop3_b32", do_lop3_b32, "4444i", PTX_INTEGER},
};
const ptx_rows ptx_rows_integer = {rows, sizeof rows / sizeof *rows};
