/* tests/ptx/ptx_directed.c - sums and products of F32 and F64 that round towards 0 (rz), down (rm)
 * or up (rp). The processor's rounding is turned for the 32 lanes; volatile keeps the compiler from
 * moving or folding what must run meanwhile. */
#include <fenv.h>

#include "tests/ptx/ptx_rows.h"

#define DIRECTED(name, T, mode, n, value)                                                          \
    static void do_##name(ptx_warp *w, const ptx_ins *in)                                          \
    {                                                                                              \
        ptx_lanes *const rd = ptx_reg(w, in->d);                                                   \
        const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),              \
                               *const rc = ptx_reg(w, in->c);                                      \
        volatile ptx_##T result[PTX_LANES];                                                        \
        (void)fesetround(mode);                                                                    \
        for (int i = 0; i < PTX_LANES; i++) {                                                      \
            const volatile ptx_##T va = PTX_GET_##T(ra), vb = PTX_GET_##T(rb),                     \
                                   vc = PTX_GET_##T(rc);                                           \
            const ptx_##T a = va, b = vb, c = vc;                                                  \
            (void)c;                                                                               \
            result[i] = (value);                                                                   \
        }                                                                                          \
        (void)fesetround(FE_TONEAREST);                                                            \
        PTX_EACH(w, const ptx_##T v = result[i]; PTX_KEEP_##T(rd, v);)                             \
        ptx_spread(w, in->d, ptx_undef(w, in->a) | ptx_undef(w, in->b) | ptx_undef(w, in->c));     \
    }
#define SIZES2(T)                      PTX_SIZE_##T PTX_SIZE_##T PTX_SIZE_##T
#define SIZES3(T)                      SIZES2(T) PTX_SIZE_##T
#define TABLE(name, T, mode, n, value) {#name, do_##name, SIZES##n(T), PTX_FLOAT},

#define ONE(X, word, mode)                                                                         \
    X(add_##word##_f32, f32, mode, 2, a + b)                                                       \
    X(sub_##word##_f32, f32, mode, 2, a - b)                                                       \
    X(mul_##word##_f32, f32, mode, 2, a *b)                                                        \
    X(div_##word##_f32, f32, mode, 2, a / b)                                                       \
    X(fma_##word##_f32, f32, mode, 3, fmaf(a, b, c))                                               \
    X(add_##word##_f64, f64, mode, 2, a + b)                                                       \
    X(sub_##word##_f64, f64, mode, 2, a - b)                                                       \
    X(mul_##word##_f64, f64, mode, 2, a *b)                                                        \
    X(fma_##word##_f64, f64, mode, 3, fma(a, b, c))
#define ROWS(X) ONE(X, rz, FE_TOWARDZERO) ONE(X, rm, FE_DOWNWARD) ONE(X, rp, FE_UPWARD)

ROWS(DIRECTED)

static const ptx_row rows[] = {ROWS(TABLE)};
const ptx_rows ptx_rows_directed = {rows, sizeof rows / sizeof *rows};
