/* Bodies of the kernels that read packed weights. */
#include <string.h>

#include "kernels/layout.h"
#include "tests/kernels/kernel_test.h"

static size_t groups_of(size_t k, size_t group)
{
    return (k + group - 1) / group;
}

static void run_gemm_x8_q2(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_q2((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

static void run_gemm_x8_q3(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_q3((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

static void run_gemm_x8_q4(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_q4((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

static void run_gemm_x8_q8(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_q8((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

/* Random codes and zero points, or the extremes: then every partial sum is as large as it can be.
 */
static pare_panel make_panel(kt *t, size_t n, size_t k, size_t group, unsigned bits)
{
    const size_t bytes = n / 8 * (k / 32) * pare_atom_bytes(bits), planes = n * groups_of(k, group);
    uint8_t *const codes = kt_input(t, bytes, 1), *const zeros = kt_input(t, planes, 1);
    const size_t kind = kt_below(t, 5), zero_kind = kt_below(t, 4);
    if (kind < 2)
        memset(codes, kind ? 0xff : 0x00, bytes);
    if (kind == 2 && bits == 8)
        memset(codes, 0x80, bytes);
    for (size_t i = 0; i < planes; i++) {
        const unsigned top = (1u << bits) - 1;
        zeros[i] = (uint8_t)(zero_kind == 0 ? 0 : zero_kind == 1 ? top : zeros[i] & top);
    }
    return (pare_panel){.codes = codes,
                        .scales = kt_halves(t, planes, false),
                        .zeros = zero_kind == 3 ? NULL : zeros,
                        .n = n,
                        .k = k,
                        .group = group};
}

static pare_x8 make_x8(kt *t, size_t m, size_t k, size_t group)
{
    const size_t groups = groups_of(k, group), kind = kt_below(t, 4);
    int8_t *const codes = kt_input(t, m * k, 1);
    int32_t *const sums = kt_input(t, m * groups, sizeof *sums);
    memset(sums, 0, m * groups * sizeof *sums);
    for (size_t i = 0; i < m * k; i++) {
        codes[i] = kind == 0 ? 127 : kind == 1 ? -127 : codes[i] == -128 ? -127 : codes[i];
        sums[i / k * groups + i % k / group] += codes[i];
    }
    return (pare_x8){.codes = codes,
                     .scales = kt_floats(t, m * groups),
                     .sums = sums,
                     .m = m,
                     .k = k,
                     .group = group};
}

static void check_gemm_x8(kt *t, kt_run *run, unsigned bits, size_t m, size_t n, size_t k,
                          size_t group)
{
    const bool row = group == k && k <= PARE_X8_GROUP_MAX && kt_below(t, 2);
    const size_t x_group = row ? k : kt_below(t, 4) ? pare_x8_group(group) : 32;
    const kt_case c = {.m = m,
                       .n = n,
                       .k = k,
                       .group = group,
                       .bits = bits,
                       .ldy = n + kt_below(t, 4),
                       .x8 = make_x8(t, m, k, x_group),
                       .panel = make_panel(t, n, k, group, bits)};
    kt_case all = c;
    all.out_bytes = ((m - 1) * c.ldy + n) * sizeof(float);
    all.work_bytes = n * k * bits / 8 + n * groups_of(k, group) * 2 + all.out_bytes;
    kt_check(t, &all, run);
}

static void test_gemm_x8(kt *t, kt_run *run, unsigned bits)
{
    if (t->bench) {
        check_gemm_x8(t, run, bits, 1, 512, 4096, 128);
        check_gemm_x8(t, run, bits, 32, 64, 4096, 128);
        return;
    }
    for (size_t i = 0; i < 160; i++) {
        const size_t k = 32 * (1 + i % 20), last = kt_below(t, 6);
        const size_t group = last == 5 ? k : 32 * (1 + last);
        check_gemm_x8(t, run, bits, 1 + kt_below(t, 9), 8 * (1 + kt_below(t, 5)), k, group);
    }
    for (size_t i = 0; i < 6; i++) /* one scale per row, the largest sums there are */
        check_gemm_x8(t, run, bits, 5, 8, 65536, 65536);
    check_gemm_x8(t, run, bits, 20, 1032, 64, 64); /* more rows than a cache block of narrow ones */
}

void kt_gemm_x8_q2(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_q2, 2);
}

void kt_gemm_x8_q3(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_q3, 3);
}

void kt_gemm_x8_q4(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_q4, 4);
}

void kt_gemm_x8_q8(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_q8, 8);
}

static void run_gemm_x8_t2(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_t2((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

/* The code 3 is none of ternary weights, but files come from anywhere. */
void kt_gemm_x8_t2(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_t2, 2);
}

/* --- weights as floats ------------------------------------------------------------------------ */

static void run_dequant_f32(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_f32((float *)(void *)out, c->ldy, &c->panel, c->bits);
}

static void run_dequant_table(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_table((float *)(void *)out, c->ldy, &c->panel, c->bits, c->w);
}

static void run_dequant_fp8(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_fp8((float *)(void *)out, c->ldy, &c->panel);
}

static void run_dequant_book(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_book((float *)(void *)out, c->ldy, &c->panel, c->bits);
}

static void run_dequant_binary(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_binary((float *)(void *)out, c->ldy, &c->panel);
}

/* Every width of `widths` by every number of columns; w: levels, of a size that no width exceeds.
 */
static void test_dequant(kt *t, kt_run *run, const unsigned *widths, size_t count)
{
    for (size_t i = 0; i < 160; i++) {
        const size_t n = t->bench ? 64 : 8 * (1 + kt_below(t, 4));
        const size_t k = t->bench ? 4096 : 32 * (1 + i / count % 20), last = kt_below(t, 6);
        const unsigned bits = widths[i % count];
        kt_case c = {.n = n,
                     .k = k,
                     .group = t->bench    ? 128
                              : last == 5 ? k
                                          : 32 * (1 + last),
                     .bits = bits,
                     .ldy = k + kt_below(t, 9)};
        c.panel = make_panel(t, n, k, c.group, bits);
        if (run == run_dequant_table)
            c.w = kt_floats(t, (size_t)1 << bits);
        if (run == run_dequant_book)
            c.panel.book = kt_halves(t, n << bits, false);
        if (run == run_dequant_binary) {
            c.panel.book = kt_halves(t, 4 * n * groups_of(k, c.group), false);
            c.panel.salient = kt_below(t, 4) ? kt_input(t, k, 1) : NULL;
        }
        c.out_bytes = ((n - 1) * c.ldy + k) * sizeof(float);
        c.work_bytes = n * k * bits / 8 + c.out_bytes;
        kt_check(t, &c, run);
        if (t->bench && i + 1 == count)
            return;
    }
}

void kt_dequant_f32(kt *t)
{
    test_dequant(t, run_dequant_f32, (const unsigned[]){2, 3, 4, 8}, 4);
}

void kt_dequant_table(kt *t)
{
    test_dequant(t, run_dequant_table, (const unsigned[]){2, 4}, 2);
}

/* All codes occur, the two that are NaN among them. */
void kt_dequant_fp8(kt *t)
{
    test_dequant(t, run_dequant_fp8, (const unsigned[]){8}, 1);
}

void kt_dequant_book(kt *t)
{
    test_dequant(t, run_dequant_book, (const unsigned[]){3, 4}, 2);
}

void kt_dequant_binary(kt *t)
{
    test_dequant(t, run_dequant_binary, (const unsigned[]){2}, 1);
}
