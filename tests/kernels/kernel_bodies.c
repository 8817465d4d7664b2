#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/layout.h"
#include "tests/kernels/kernel_test.h"

static size_t groups_of(size_t k, size_t group)
{
    return (k + group - 1) / group;
}

/* Sizes 0..69 cover every tail of every unrolling; the rest cross the blocks of the kernels. */
static size_t size_at(size_t i)
{
    static const size_t more[] = {127, 128, 129, 255, 256, 257, 264, 511, 513, 777};
    return i < 70 ? i : i - 70 < sizeof more / sizeof *more ? more[i - 70] : SIZE_MAX;
}

/* --- conversions ------------------------------------------------------------------------------ */

static void run_cvt_f16_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->cvt_f16_f32((float *)(void *)out, c->x, c->n);
}

static void run_cvt_bf16_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->cvt_bf16_f32((float *)(void *)out, c->x, c->n);
}

static void run_cvt_f32_f16(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->cvt_f32_f16((uint16_t *)(void *)out, c->x, c->n);
}

/* Random bits in every length, then every 16-bit number, NaN included. */
static void test_widen(kt *t, kt_run *run)
{
    for (size_t i = 0; size_at(i) != SIZE_MAX && !t->bench; i++) {
        const size_t n = size_at(i);
        const kt_case c = {.x = kt_input(t, n, 2), .n = n, .out_bytes = 4 * n};
        kt_check(t, &c, run);
    }
    uint16_t *const x = kt_input(t, 65536, 2);
    for (size_t i = 0; i < 65536; i++)
        x[i] = (uint16_t)i;
    kt_check(t, &(kt_case){.x = x, .n = 65536, .out_bytes = 4 * 65536, .work_bytes = 6 * 65536},
             run);
}

void kt_cvt_f16_f32(kt *t)
{
    test_widen(t, run_cvt_f16_f32);
}

void kt_cvt_bf16_f32(kt *t)
{
    test_widen(t, run_cvt_bf16_f32);
}

/* Every F16 number, the middle to the next one, and the neighbours of both: every rounding case. */
void kt_cvt_f32_f16(kt *t)
{
    for (size_t i = 0; size_at(i) != SIZE_MAX && !t->bench; i++) {
        const size_t n = size_at(i);
        const kt_case c = {.x = kt_input(t, n, 4), .n = n, .out_bytes = 2 * n};
        kt_check(t, &c, run_cvt_f32_f16);
    }
    const size_t n = 65536 * 5;
    uint32_t *const x = kt_input(t, n, 4);
    for (uint32_t h = 0; h < 65536; h++) {
        const uint32_t at = pare_f32_bits(pare_f16_to_f32((uint16_t)h));
        const float next = pare_f16_to_f32((uint16_t)(h + 1));
        const uint32_t half = pare_f32_bits(0.5f * (pare_f32_from_bits(at) + next));
        const uint32_t values[5] = {at, at + 1, half - 1, half, half + 1};
        memcpy(x + (size_t)5 * h, values, sizeof values);
    }
    kt_check(t, &(kt_case){.x = x, .n = n, .out_bytes = 2 * n, .work_bytes = 6 * n},
             run_cvt_f32_f16);
}

/* --- F32 activations -------------------------------------------------------------------------- */

static void run_gemm_f32_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_f32_f32((float *)(void *)out, c->ldy, c->x, c->ldx, c->w, c->ldw, c->m, c->n, c->k);
}

static void run_gemm_f32_f16(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_f32_f16((float *)(void *)out, c->ldy, c->x, c->ldx, c->w, c->ldw, c->m, c->n, c->k);
}

static void run_gemm_f32_bf16(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_f32_bf16((float *)(void *)out, c->ldy, c->x, c->ldx, c->w, c->ldw, c->m, c->n, c->k);
}

/* Every product is too small for a float and rounds to -0: so must the sum, from 8 columns on. */
static void fill_underflow(float *x, size_t x_len, void *w, size_t w_len, kt_run *run)
{
    for (size_t i = 0; i < x_len; i++)
        x[i] = 0x1p-140f;
    for (size_t i = 0; i < w_len; i++) {
        if (run == run_gemm_f32_f32)
            ((float *)w)[i] = -0x1p-24f;
        else
            ((uint16_t *)w)[i] = run == run_gemm_f32_f16 ? 0x8001u : 0xb380u;
    }
}

static void check_gemm_f32(kt *t, kt_run *run, unsigned bytes, bool bf16, size_t m, size_t n,
                           size_t k)
{
    kt_case c = {.m = m,
                 .n = n,
                 .k = k,
                 .ldx = k + kt_below(t, 3),
                 .ldw = k + kt_below(t, 3),
                 .ldy = n + kt_below(t, 3)};
    const size_t x_len = (m - 1) * c.ldx + k, w_len = (n - 1) * c.ldw + k;
    float *const x = kt_floats(t, x_len);
    void *const w = bytes == 4 ? (void *)kt_floats(t, w_len) : kt_halves(t, w_len, bf16);
    c.x = x;
    c.w = w;
    if (kt_below(t, 8) == 0 && !t->bench)
        fill_underflow(x, x_len, w, w_len, run);
    c.out_bytes = ((m - 1) * c.ldy + n) * sizeof(float);
    c.work_bytes = w_len * bytes + x_len * sizeof(float) + c.out_bytes;
    kt_check(t, &c, run);
}

static void test_gemm_f32(kt *t, kt_run *run, unsigned bytes, bool bf16)
{
    static const size_t ms[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 33},
                        ns[] = {1, 2, 3, 4, 5, 6, 8, 17, 18, 19, 38};
    if (t->bench) {
        check_gemm_f32(t, run, bytes, bf16, 1, 512, 1024);
        check_gemm_f32(t, run, bytes, bf16, 32, 64, 1024);
        return;
    }
    for (size_t i = 0; size_at(i) != SIZE_MAX; i++)
        for (size_t j = 0; j < 4; j++)
            check_gemm_f32(t, run, bytes, bf16, ms[kt_below(t, 11)], ns[kt_below(t, 11)],
                           size_at(i));
    check_gemm_f32(t, run, bytes, bf16, 70, 70, 1030); /* more than a cache block of each */
}

void kt_gemm_f32_f32(kt *t)
{
    test_gemm_f32(t, run_gemm_f32_f32, 4, false);
}

void kt_gemm_f32_f16(kt *t)
{
    test_gemm_f32(t, run_gemm_f32_f16, 2, false);
}

void kt_gemm_f32_bf16(kt *t)
{
    test_gemm_f32(t, run_gemm_f32_bf16, 2, true);
}

/* --- quantization of activations -------------------------------------------------------------- */

/* Output: scales, sums, codes. */
static void run_quant_x8(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const size_t groups = groups_of(c->k, c->group);
    float *const scales = (float *)(void *)out;
    int32_t *const sums = (int32_t *)(void *)(out + 4 * groups);
    k->quant_x8((int8_t *)(out + 8 * groups), scales, sums, c->x, c->k, c->group, c->span, c->top);
}

static void run_quant_x8_fixed(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const size_t groups = groups_of(c->k, c->group);
    float *const scales = (float *)(void *)out;
    int32_t *const sums = (int32_t *)(void *)(out + 4 * groups);
    k->quant_x8_fixed((int8_t *)(out + 8 * groups), scales, sums, c->x, c->k, c->group, c->step,
                      c->top);
}

/* Values of one kind per group: mixed; exact ties (the largest is 127, so the factor is 1); zeros
 * and numbers so small that 127 / a is infinite; near the largest float; with NaN and infinity. */
static void awkward_group(kt *t, float *x, size_t n)
{
    const size_t kind = kt_below(t, 6);
    for (size_t i = 0; i < n; i++) {
        const float whole = (float)kt_below(t, 253) - 126.0f;
        switch (kind) {
        case 0: x[i] = i == n / 2 ? 127.0f : whole + (whole < 126.0f ? 0.5f : 0.0f); break;
        case 1: x[i] = whole * 0x1p-136f; break;
        case 2: x[i] = whole * 0x1p+120f; break;
        case 3: x[i] = kt_below(t, 40) ? x[i] : (float)(kt_below(t, 2) ? NAN : INFINITY); break;
        default: break;
        }
    }
}

/* Spans of one group, of two, of all. */
static size_t span_of(kt *t, size_t k, size_t group)
{
    const size_t kind = kt_below(t, 3);
    return kind == 0 ? group : kind == 1 ? 2 * group : k;
}

/* With a step, a third of the values lie half way between two codes, nearly. */
static kt_case quant_case(kt *t, size_t i, float step)
{
    kt_case c = {.k = t->bench  ? 4096
                      : i < 300 ? i
                                : kt_below(t, 1000),
                 .group = t->bench ? 128 : 32 * (1 + kt_below(t, 6)),
                 .top = i % 4 == 3 ? 7 : 127,
                 .step = step};
    float *const x = kt_floats(t, c.k);
    for (size_t j = 0; j < c.k; j += c.group)
        awkward_group(t, x + j, c.k - j < c.group ? c.k - j : c.group);
    for (size_t j = 0; j < c.k && step > 0.0f; j += 3)
        x[j] = ((float)kt_below(t, 300) - 149.5f) * step;
    c.x = x;
    c.span = t->bench ? c.group : span_of(t, c.k, c.group);
    c.work_bytes = 5 * c.k;
    c.whole_bytes = 4 * groups_of(c.k, c.group) + pare_round_up(c.k, 32);
    c.out_bytes = 4 * groups_of(c.k, c.group) + c.whole_bytes;
    return c;
}

void kt_quant_x8(kt *t)
{
    for (size_t i = 0; i < 1200; i++) {
        const kt_case c = quant_case(t, i, 0.0f);
        kt_check(t, &c, run_quant_x8);
        if (t->bench)
            return;
    }
}

static void run_round_fp8(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->round_fp8((float *)(void *)out, c->x, c->n);
}

/* The largest is 448 steps, and most of the others are halves of what E4M3 has between two of its
 * values; steps that are not exact, too small or none; values that are no numbers. */
void kt_round_fp8(kt *t)
{
    static const float steps[] = {1, 0.01f, 0x1p+118f, 0x1p-148f, 0, 0x1p-3f};
    for (size_t i = 0; i < 1200; i++) {
        const size_t n = t->bench ? 4096 : i % 75;
        float *const x = kt_floats(t, n);
        for (size_t j = 0; j < n && !t->bench; j++) {
            const float sign = kt_below(t, 2) ? -1.0f : 1.0f;
            const float half = (float)(17 + 2 * kt_below(t, 8)) * 0x1p-5f;
            const float small = (float)kt_below(t, 17) * 0x1p-10f;
            const float at = ldexpf(half, (int)kt_below(t, 16) - 6);
            const float is = j == n / 2 ? 448 : j % 3 ? at : small;
            x[j] = i % 4 ? sign * is * steps[i % 6] : x[j];
        }
        if (i % 5 == 4 && n > 0 && !t->bench)
            x[kt_below(t, n)] = kt_below(t, 3) ? (float)NAN : INFINITY;
        const kt_case c = {.x = x, .n = n, .out_bytes = 4 * n, .work_bytes = 8 * n};
        kt_check(t, &c, run_round_fp8);
        if (t->bench)
            return;
    }
}

/* Most values are clamped, few, exact ties or none; steps without a finite inverse too. */
void kt_quant_x8_fixed(kt *t)
{
    static const float steps[] = {0.01f, 1.0f, 0x1p+100f, 0x1p-140f, 0.0f, 0.3f, 0x1p-8f};
    for (size_t i = 0; i < 1200; i++) {
        const size_t at = kt_below(t, sizeof steps / sizeof *steps);
        const kt_case c = quant_case(t, i, t->bench ? 0.01f : steps[at]);
        kt_check(t, &c, run_quant_x8_fixed);
        if (t->bench)
            return;
    }
}

/* --- single weights --------------------------------------------------------------------------- */

/* Adds to what is there: the output starts as a copy of w. */
static void run_gemm_sparse_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->w, c->out_bytes);
    k->gemm_sparse_f32((float *)(void *)out, c->ldy, c->x, c->ldx, c->start, c->column, c->value,
                       c->m, c->n);
}

/* Rows with none, few and many weights; the first may start behind others' weights. */
static void check_gemm_sparse(kt *t, size_t m, size_t n, size_t k, size_t most)
{
    uint32_t *const start = kt_input(t, n + 1, sizeof *start);
    start[0] = (uint32_t)kt_below(t, 3);
    for (size_t r = 0; r < n; r++)
        start[r + 1] = start[r] + (uint32_t)(t->bench ? most : kt_below(t, 3) * kt_below(t, most));
    uint32_t *const column = kt_input(t, start[n], sizeof *column);
    for (size_t i = 0; i < start[n]; i++)
        column[i] = (uint32_t)kt_below(t, k);
    kt_case c = {.m = m, .n = n, .k = k, .ldx = k + kt_below(t, 3), .ldy = n + kt_below(t, 3)};
    c.start = start;
    c.column = column;
    c.value = kt_halves(t, start[n], false);
    c.x = kt_floats(t, (m - 1) * c.ldx + k);
    c.w = kt_floats(t, (m - 1) * c.ldy + n);
    c.out_bytes = ((m - 1) * c.ldy + n) * sizeof(float);
    c.work_bytes = start[n] * 6 + c.out_bytes;
    kt_check(t, &c, run_gemm_sparse_f32);
}

void kt_gemm_sparse_f32(kt *t)
{
    if (t->bench) {
        check_gemm_sparse(t, 1, 512, 4096, 18);
        check_gemm_sparse(t, 64, 64, 4096, 18);
        return;
    }
    for (size_t i = 0; i < 300; i++)
        check_gemm_sparse(t, 1 + i % 27, 1 + kt_below(t, 20), 1 + kt_below(t, 200),
                          1 + kt_below(t, 40));
}

/* --- rotation --------------------------------------------------------------------------------- */

/* In place: the input is copied into the output first. */
static void run_hadamard_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->x, c->out_bytes);
    k->hadamard_f32((float *)(void *)out, c->n, 0.3f);
}

void kt_hadamard_f32(kt *t)
{
    for (size_t i = 0; i < 120; i++) {
        const size_t n = t->bench ? 4096 : (size_t)1 << i % 12;
        const kt_case c = {.x = kt_floats(t, n), .n = n, .out_bytes = 4 * n, .work_bytes = 8 * n};
        kt_check(t, &c, run_hadamard_f32);
        if (t->bench)
            return;
    }
}

static void run_mix_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    memcpy(out, c->x, c->out_bytes);
    k->mix_f32((float *)(void *)out, c->n, c->w, c->m);
}

static void check_mix_f32(kt *t, size_t m, size_t n)
{
    const kt_case c = {.x = kt_floats(t, m * n),
                       .w = kt_floats(t, m * m),
                       .m = m,
                       .n = n,
                       .out_bytes = 4 * m * n,
                       .work_bytes = 8 * m * n};
    kt_check(t, &c, run_mix_f32);
}

void kt_mix_f32(kt *t)
{
    if (t->bench) {
        check_mix_f32(t, 7, 2048);
        check_mix_f32(t, 43, 256);
        return;
    }
    for (size_t m = 1; m <= PARE_MIX_MAX; m++)
        for (size_t i = 0; i < 4; i++)
            check_mix_f32(t, m, i < 2 ? 1 + kt_below(t, 9) : kt_below(t, 70));
}
