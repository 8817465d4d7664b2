/* tests/ptx/ptx_compare.c - comparisons, predicates, selections. */
#include "tests/ptx/ptx_rows.h"

/* A bit per lane. Lanes that do not run keep their bits. */
static void keep_bits(ptx_warp *w, uint32_t unit, uint32_t bits, uint32_t undef)
{
    uint32_t *const d = ptx_reg(w, unit)->u32;
    *d = (*d & ~w->act) | (bits & w->act);
    ptx_spread(w, unit, undef);
}

#define COMPARE(name, T, value)                                                                    \
    static void do_setp_##name(ptx_warp *w, const ptx_ins *in)                                     \
    {                                                                                              \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        uint32_t bits = 0;                                                                         \
        for (int i = 0; i < PTX_LANES; i++) {                                                      \
            const ptx_##T a = PTX_GET_##T(ra), b = PTX_GET_##T(rb);                                \
            bits |= (uint32_t)(value) << i;                                                        \
        }                                                                                          \
        keep_bits(w, in->d, bits, ptx_undef(w, in->a) | ptx_undef(w, in->b));                      \
    }
#define COMPARE_ROW(name, T, value)                                                                \
    {"setp_" #name, do_setp_##name, "p" PTX_SIZE_##T PTX_SIZE_##T, KIND},

#define EQUAL(X, T)                                                                                \
    X(eq_##T, T, a == b)                                                                           \
    X(ne_##T, T, a != b)
#define ORDER(X, T)                                                                                \
    EQUAL(X, T)                                                                                    \
    X(lt_##T, T, a < b)                                                                            \
    X(le_##T, T, a <= b)                                                                           \
    X(gt_##T, T, a > b)                                                                            \
    X(ge_##T, T, a >= b)
#define ORDER_UNSIGNED(X, T)                                                                       \
    ORDER(X, T)                                                                                    \
    X(lo_##T, T, a < b)                                                                            \
    X(ls_##T, T, a <= b)                                                                           \
    X(hi_##T, T, a > b)                                                                            \
    X(hs_##T, T, a >= b)
/* Ordered ones are false for a NaN, those with u are true. */
#define ORDER_FLOAT(X, T)                                                                          \
    X(eq_##T, T, a == b)                                                                           \
    X(ne_##T, T, a<b || a> b)                                                                      \
    X(lt_##T, T, a < b)                                                                            \
    X(le_##T, T, a <= b)                                                                           \
    X(gt_##T, T, a > b)                                                                            \
    X(ge_##T, T, a >= b)                                                                           \
    X(equ_##T, T, !(a < b || a > b))                                                               \
    X(neu_##T, T, a != b)                                                                          \
    X(ltu_##T, T, !(a >= b))                                                                       \
    X(leu_##T, T, !(a > b))                                                                        \
    X(gtu_##T, T, !(a <= b))                                                                       \
    X(geu_##T, T, !(a < b))                                                                        \
    X(num_##T, T, a == a && b == b)                                                                \
    X(nan_##T, T, a != a || b != b)

#define BITS(X)                                                                                    \
    X(eq_b16, u16, a == b)                                                                         \
    X(ne_b16, u16, a != b)                                                                         \
    X(eq_b32, u32, a == b)                                                                         \
    X(ne_b32, u32, a != b)                                                                         \
    X(eq_b64, u64, a == b)                                                                         \
    X(ne_b64, u64, a != b)
#define INTEGERS(X)                                                                                \
    BITS(X)                                                                                        \
    ORDER_UNSIGNED(X, u16)                                                                         \
    ORDER_UNSIGNED(X, u32) ORDER_UNSIGNED(X, u64) ORDER(X, s16) ORDER(X, s32) ORDER(X, s64)
#define FLOATS(X) ORDER_FLOAT(X, f16) ORDER_FLOAT(X, f32) ORDER_FLOAT(X, f64)

INTEGERS(COMPARE)
FLOATS(COMPARE)

/* set gives all ones, or 1.0. */
#define SET(name, T, value)                                                                        \
    PTX_DEFINE2(set_##name##_u, u32, T, T, (value) ? ~0u : 0)                                      \
    PTX_DEFINE2(set_##name##_f, u32, T, T, (value) ? 0x3f800000u : 0)
/* NAME_TYPE with the type of the result between them. */
#define SET_ROW(cmp, T)                                                                            \
    {"set_" #cmp "_u32_" #T, do_set_##cmp##_##T##_u, "4" PTX_SIZE_##T PTX_SIZE_##T, KIND},         \
        {"set_" #cmp "_s32_" #T, do_set_##cmp##_##T##_u, "4" PTX_SIZE_##T PTX_SIZE_##T, KIND},     \
        {"set_" #cmp "_f32_" #T, do_set_##cmp##_##T##_f, "4" PTX_SIZE_##T PTX_SIZE_##T, KIND},
#define SET_ROWS(T)                                                                                \
    SET_ROW(eq, T) SET_ROW(ne, T) SET_ROW(lt, T) SET_ROW(le, T) SET_ROW(gt, T) SET_ROW(ge, T)

ORDER(SET, s32)
ORDER(SET, u32)
SET(eq_f32, f32, a == b)
SET(ne_f32, f32, a<b || a> b)
SET(lt_f32, f32, a < b)
SET(le_f32, f32, a <= b)
SET(gt_f32, f32, a > b)
SET(ge_f32, f32, a >= b)

#define LOGIC(name, value)                                                                         \
    static void do_##name##_pred(ptx_warp *w, const ptx_ins *in)                                   \
    {                                                                                              \
        const uint32_t a = ptx_reg(w, in->a)->u32[0], b = ptx_reg(w, in->b)->u32[0];               \
        keep_bits(w, in->d, value, ptx_undef(w, in->a) | ptx_undef(w, in->b));                     \
    }
LOGIC(xor, a ^ b)

/* An undefined bit does not matter where the other decides. */
static void do_and_pred(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t a = ptx_reg(w, in->a)->u32[0], b = ptx_reg(w, in->b)->u32[0];
    const uint32_t ua = ptx_undef(w, in->a), ub = ptx_undef(w, in->b);
    keep_bits(w, in->d, a & b, (ua | ub) & (a | ua) & (b | ub));
}

static void do_or_pred(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t a = ptx_reg(w, in->a)->u32[0], b = ptx_reg(w, in->b)->u32[0];
    const uint32_t ua = ptx_undef(w, in->a), ub = ptx_undef(w, in->b);
    keep_bits(w, in->d, a | b, (ua | ub) & (~a | ua) & (~b | ub));
}

static void do_not_pred(ptx_warp *w, const ptx_ins *in)
{
    keep_bits(w, in->d, ~ptx_reg(w, in->a)->u32[0], ptx_undef(w, in->a));
}

static void do_mov_pred(ptx_warp *w, const ptx_ins *in)
{
    keep_bits(w, in->d, ptx_reg(w, in->a)->u32[0], ptx_undef(w, in->a));
}

/* What is not selected may be undefined. */
#define SELECT(name, T)                                                                            \
    static void do_selp_##name(ptx_warp *w, const ptx_ins *in)                                     \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b);              \
        const uint32_t p = ptx_reg(w, in->c)->u32[0];                                              \
        const uint32_t undef = (p & ptx_undef(w, in->a)) | (~p & ptx_undef(w, in->b));             \
        PTX_EACH(w, const ptx_##T a = PTX_GET_##T(ra); const ptx_##T b = PTX_GET_##T(rb);          \
                 PTX_KEEP_##T(rd, p >> i & 1 ? a : b);)                                            \
        ptx_spread(w, in->d, undef | ptx_undef(w, in->c));                                         \
    }
#define SELECT_ROW(name, T)                                                                        \
    {"selp_" #name, do_selp_##name, PTX_SIZE_##T PTX_SIZE_##T PTX_SIZE_##T "p", PTX_INTEGER},
#define SELECTIONS(X)                                                                              \
    X(b16, u16)                                                                                    \
    X(u16, u16)                                                                                    \
    X(s16, u16)                                                                                    \
    X(f16, u16)                                                                                    \
    X(b32, u32)                                                                                    \
    X(u32, u32)                                                                                    \
    X(s32, u32)                                                                                    \
    X(f32, u32)                                                                                    \
    X(b64, u64)                                                                                    \
    X(u64, u64)                                                                                    \
    X(s64, u64)                                                                                    \
    X(f64, u64)

SELECTIONS(SELECT)

static const ptx_row rows[] = {
#define KIND PTX_INTEGER
    INTEGERS(COMPARE_ROW) SELECTIONS(SELECT_ROW)
#undef KIND
#define KIND PTX_FLOAT
        FLOATS(COMPARE_ROW) SET_ROWS(s32) SET_ROWS(u32)
            SET_ROWS(f32){"and_pred", do_and_pred, "ppp", PTX_INTEGER},
    {"or_pred", do_or_pred, "ppp", PTX_INTEGER},
    {"xor_pred", do_xor_pred, "ppp", PTX_INTEGER},
    {"not_pred", do_not_pred, "pp", PTX_INTEGER},
    {"mov_pred", do_mov_pred, "pp", PTX_INTEGER},
};
const ptx_rows ptx_rows_compare = {rows, sizeof rows / sizeof *rows};
