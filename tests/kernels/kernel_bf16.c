/* Rounding to BF16, products of BF16, and wrong ones. */
#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/kernels_internal.h"
#include "tests/kernels/kernel_test.h"

static void run_cvt_f32_bf16(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->cvt_f32_bf16((uint16_t *)(void *)out, c->x, c->n);
}

/* Random bits, then about every BF16 number: itself, the middle to the next one, what is beside. */
void kt_cvt_f32_bf16(kt *t)
{
    for (size_t n = 0; n < 40 && !t->bench; n++) {
        const kt_case c = {.x = kt_input(t, n, 4), .n = n, .out_bytes = 2 * n};
        kt_check(t, &c, run_cvt_f32_bf16);
    }
    const size_t n = 65536 * 5;
    uint32_t *const x = kt_input(t, n, 4);
    for (uint32_t h = 0; h < 65536; h++) {
        const uint32_t values[5] = {h << 16, h << 16 | 1u, h << 16 | 0x7fffu, h << 16 | 0x8000u,
                                    h << 16 | 0x8001u};
        memcpy(x + (size_t)5 * h, values, sizeof values);
    }
    kt_check(t, &(kt_case){.x = x, .n = n, .out_bytes = 2 * n, .work_bytes = 6 * n},
             run_cvt_f32_bf16);
}

static void run_gemm_bf16_bf16(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_bf16_bf16((float *)(void *)out, c->ldy, c->x, c->ldx, c->w, c->ldw, c->m, c->n, c->k);
}

typedef enum kind {
    MIXED, /* tiny, huge, zero: some products underflow */
    PLAIN, /* about 1 */
    EDGE,  /* products about 2^-126 */
    KINDS
} kind;

static uint16_t *values(kt *t, size_t n, kind what)
{
    if (what == MIXED)
        return kt_halves(t, n, true);
    uint16_t *const x = kt_input(t, n, 2);
    for (size_t i = 0; i < n; i++) {
        const uint32_t exponent =
            what == PLAIN ? 120 + (uint32_t)kt_below(t, 10) : 50 + (uint32_t)kt_below(t, 30);
        x[i] = (uint16_t)((x[i] & 0x807fu) | exponent << 7);
    }
    return x;
}

static void check_gemm_bf16(kt *t, size_t m, size_t n, size_t k, kind what)
{
    kt_case c = {.m = m,
                 .n = n,
                 .k = k,
                 .ldx = t->bench ? k + 32 : k + kt_below(t, 3), /* as the runtime lays them */
                 .ldw = t->bench ? k : k + kt_below(t, 3),
                 .ldy = n + kt_below(t, 3)};
    const size_t x_len = (m - 1) * c.ldx + k, w_len = (n - 1) * c.ldw + k;
    c.x = values(t, x_len, what);
    c.w = values(t, w_len, what);
    c.out_bytes = ((m - 1) * c.ldy + n) * sizeof(float);
    c.work_bytes = 2 * (x_len + w_len) + c.out_bytes;
    kt_check(t, &c, run_gemm_bf16_bf16);
}

/* 2^-126 less three quarters of the step of numbers below it: 2^-126 (1 - 2^-24) when rounded to 24
 * bits, so 0; and with a quarter, 2^-126. */
static void check_rounded_up(kt *t)
{
    for (size_t i = 0; i < 2; i++) {
        uint16_t *const x = kt_input(t, 32, 2), *const w = kt_input(t, 32, 2);
        memset(x, 0, 32 * sizeof *x);
        memset(w, 0, 32 * sizeof *w);
        x[0] = w[0] = 0x2000u;        /* 2^-63 */
        x[2] = i ? 0x1a00u : 0x1a40u; /* 2^-75, and half as much again */
        w[2] = i ? 0x9900u : 0x9980u; /* -2^-77, -2^-76 */
        const kt_case c = {.x = x, .w = w, .m = 1, .n = 1, .k = 32, .out_bytes = sizeof(float)};
        kt_check(t, &c, run_gemm_bf16_bf16);
    }
}

void kt_gemm_bf16_bf16(kt *t)
{
    static const size_t ms[] = {1, 2, 3, 5, 6, 7, 13, 33}, ns[] = {1, 7, 8, 9, 16, 17, 33, 66};
    if (t->bench) {
        check_gemm_bf16(t, 1, 512, 1024, PLAIN);
        check_gemm_bf16(t, 64, 256, 4096, PLAIN);
        check_gemm_bf16(t, 512, 256, 4096, PLAIN);
        return;
    }
    for (size_t k = 0; k < 70; k++)
        check_gemm_bf16(t, ms[kt_below(t, 8)], ns[kt_below(t, 8)], k, (kind)(k % KINDS));
    for (size_t i = 0; i < KINDS; i++) {
        check_gemm_bf16(t, ms[kt_below(t, 8)], ns[kt_below(t, 8)], 255 + 33 * i, (kind)i);
        check_gemm_bf16(t, 200, 70, 140, (kind)i); /* more than a block of each */
    }
    check_rounded_up(t);
}

static void bf16_truncated(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++)
        dst[i] = (uint16_t)(pare_f32_bits(src[i]) >> 16);
}

static void bf16_nan_lost(uint16_t *dst, const float *src, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const uint32_t bits = pare_f32_bits(src[i]);
        dst[i] = (uint16_t)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
    }
}

/* What a loop over columns makes of it: `small` by the absolute value where results count as 0. */
static void other_sums(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                       size_t ldw, size_t m, size_t n, size_t k, size_t chunk, float small)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < n; r++) {
            float sum = 0.0f;
            for (size_t j = 0; j < k; j += chunk) {
                float chain[2] = {0};
                for (size_t i = j; i < j + chunk && i < k; i++) {
                    const float a = pare_bf16_to_f32(x[t * ldx + i]),
                                b = pare_bf16_to_f32(w[r * ldw + i]);
                    const float s = fmaf(a, b, chain[i % 2]);
                    chain[i % 2] = fabsf(s) < small ? copysignf(0.0f, s) : s;
                }
                sum += chain[0] + chain[1];
            }
            y[t * ldy + r] = sum;
        }
}

static void gemm_one_chunk(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                           size_t ldw, size_t m, size_t n, size_t k)
{
    other_sums(y, ldy, x, ldx, w, ldw, m, n, k, k, 0x1p-126f);
}

static void gemm_denormals_kept(float *y, size_t ldy, const uint16_t *x, size_t ldx,
                                const uint16_t *w, size_t ldw, size_t m, size_t n, size_t k)
{
    other_sums(y, ldy, x, ldx, w, ldw, m, n, k, 32, 0.0f);
}

/* Wrong only where a sum rounds up to 2^-126 because denormals are coarse. */
static void gemm_coarse(float *y, size_t ldy, const uint16_t *x, size_t ldx, const uint16_t *w,
                        size_t ldw, size_t m, size_t n, size_t k)
{
    pare_gemm_bf16_bf16_ref(y, ldy, x, ldx, w, ldw, m, n, k);
    if (m == 1 && n == 1)
        other_sums(y, ldy, x, ldx, w, ldw, m, n, k, 32, 0x1p-126f);
}

#define FAULTS(X)                                                                                  \
    X(cvt_f32_bf16, bf16_truncated, "rounds towards zero")                                         \
    X(cvt_f32_bf16, bf16_nan_lost, "a NaN becomes a number")                                       \
    X(gemm_bf16_bf16, gemm_one_chunk, "two chains for all columns")                                \
    X(gemm_bf16_bf16, gemm_denormals_kept, "sums below 2^-126 kept")                               \
    X(gemm_bf16_bf16, gemm_coarse, "what rounds up to 2^-126 kept")

const char *kt_plant_bf16(size_t i, pare_kernels *k, const char **what)
{
    size_t at = 0;
    FAULTS(KT_PLANT)
    return kt_plant_panels(i - at, k, what);
}
