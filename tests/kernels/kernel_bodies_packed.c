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
    const size_t kind = kt_below(t, 6), zero_kind = kt_below(t, 4);
    if (kind < 2)
        memset(codes, kind ? 0xff : 0x00, bytes);
    if ((kind == 2 || kind == 3) && bits == 8)
        memset(codes, kind == 2 ? 0x80 : 0x7f, bytes);
    for (size_t i = 0; i < planes; i++) {
        const unsigned top = (1u << bits) - 1;
        zeros[i] = (uint8_t)(zero_kind == 0 ? 0 : zero_kind == 1 ? top : zeros[i] & top);
    }
    return (pare_panel){.codes = codes,
                        .scales = kt_halves(t, planes, false),
                        .zeros = zero_kind == 3 || t->bench ? NULL : zeros,
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
    const size_t x_group = row || (t->bench && group == k) ? k
                           : t->bench || kt_below(t, 4)    ? pare_x8_group(group)
                                                           : 32;
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

/* The largest sums there are, in the longest activation group: the largest codes less nothing, or
 * nothing less the largest zero point. */
static void check_largest(kt *t, kt_run *run, unsigned bits, size_t m, int8_t code, bool top)
{
    const size_t k = PARE_X8_GROUP_MAX, n = PARE_ATOM_N;
    kt_case c = {.m = m, .n = n, .k = k, .group = k, .bits = bits, .ldy = n};
    c.x8 = make_x8(t, m, k, k);
    c.panel = make_panel(t, n, k, k, bits);
    int8_t *const x = t->input[0];
    int32_t *const sums = t->input[1];
    float *const scales = t->input[2];
    uint8_t *const codes = t->input[3], *const zeros = t->input[4];
    uint16_t *const weight_scales = t->input[5];
    memset(x, code, m * k);
    for (size_t i = 0; i < m; i++) {
        sums[i] = code * (int32_t)k;
        scales[i] = 1.0f;
    }
    memset(codes, bits == 8 ? (top ? 0x7f : 0x80) : top ? 0xff : 0x00, n * k * bits / 8);
    memset(zeros, top ? 0 : (1 << bits) - 1, n);
    for (size_t r = 0; r < n; r++)
        weight_scales[r] = 0x3c00;
    c.panel.zeros = zeros;
    c.out_bytes = m * n * sizeof(float);
    kt_check(t, &c, run);
}

static void test_gemm_x8(kt *t, kt_run *run, unsigned bits)
{
    if (t->bench) {
        check_gemm_x8(t, run, bits, 1, 512, 4096, 128);
        check_gemm_x8(t, run, bits, 32, 64, 4096, 128);
        static const size_t groups[] = {32, 64, 128, 4096};
        for (size_t i = 0; i < 4; i++)
            check_gemm_x8(t, run, bits, 256, 64, 4096, groups[i]);
        return;
    }
    for (size_t i = 0; i < 160; i++) {
        const size_t k = 32 * (1 + i % 20), last = kt_below(t, 6);
        const size_t group = last == 5 ? k : 32 * (1 + last);
        check_gemm_x8(t, run, bits, 1 + i % 19, 8 * (1 + kt_below(t, 9)), k, group);
    }
    for (size_t i = 0; i < 4; i++) /* one scale per row */
        check_gemm_x8(t, run, bits, 1 + 6 * i, 8, 65536, 65536);
    static const size_t tokens[] = {1, 5, 18}; /* one, a few, many */
    for (size_t i = 0; i < 12; i++)
        check_largest(t, run, bits, tokens[i / 4], i & 1 ? 127 : -127, i & 2);
    for (size_t m = 64; m < 71; m++) /* more tokens than meet unpacked weights */
        check_gemm_x8(t, run, bits, m, 40, 544, 544);
    static const size_t wide[][3] = {{1, 2720, 96}, {11, 2720, 96}, {20, 4224, 128}};
    for (size_t i = 0; i < 3; i++) /* more groups than a block of a device keeps sums of */
        check_gemm_x8(t, run, bits, wide[i][0], 40, wide[i][1], wide[i][2]);
    static const size_t many[] = {33, 64, 65, 128, 129};
    for (size_t i = 0; i < 20; i++) { /* tiles of a device, whole ones and others */
        const size_t k = 32 * (1 + kt_below(t, 20)), last = kt_below(t, 6);
        const size_t group = last == 5 ? k : 32 * (1 + last);
        check_gemm_x8(t, run, bits, many[i % 5], 8 * (1 + kt_below(t, 20)), k, group);
    }
    check_gemm_x8(t, run, bits, 20, 1032, 64, 64); /* more rows than a cache block of narrow ones */
    check_gemm_x8(t, run, bits, 530, 24, 96, 96);  /* more tokens than a block for tiles */
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

static void run_dequant_super(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_super((float *)(void *)out, c->ldy, &c->panel, c->bits);
}

static void run_gemv_packed(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemv_packed((float *)(void *)out, c->x, c->k, &c->panel, c->how, c->bits, c->w);
}

/* Weights of random shape and what their decoding asks for; w: levels. group 0: any of whole atoms.
 */
static kt_case decoded_case(kt *t, pare_decoding how, unsigned bits, size_t blocks, size_t group)
{
    const size_t n = t->bench ? 512 : 8 * (1 + kt_below(t, 4));
    const size_t k = t->bench ? 4096 : 32 * blocks, last = kt_below(t, 6);
    kt_case c = {.n = n,
                 .k = k,
                 .group = group       ? group
                          : t->bench  ? 128
                          : last == 5 ? k
                                      : 32 * (1 + last),
                 .bits = bits,
                 .how = how,
                 .ldy = k + kt_below(t, 9)};
    c.panel = make_panel(t, n, k, c.group, bits);
    if (how == PARE_DECODE_TABLE)
        c.w = kt_floats(t, (size_t)1 << bits);
    if (how == PARE_DECODE_BOOK)
        c.panel.book = kt_halves(t, n << bits, false);
    if (how == PARE_DECODE_BINARY) {
        c.panel.book = kt_halves(t, 4 * n * groups_of(k, c.group), false);
        c.panel.salient = kt_below(t, 4) ? kt_input(t, k, 1) : NULL;
    }
    if (how == PARE_DECODE_SUPER) { /* any bytes, above 63 and below 0 as well */
        c.panel.minima = kt_halves(t, n * groups_of(k, c.group), false);
        c.panel.sub = kt_input(t, n / 8 * (k / 32) * 16, 1);
    }
    c.work_bytes = n * k * bits / 8;
    return c;
}

static void check_dequant(kt *t, kt_run *run, kt_case c)
{
    c.out_bytes = ((c.n - 1) * c.ldy + c.k) * sizeof(float);
    c.work_bytes += c.out_bytes;
    kt_check(t, &c, run);
}

/* Every width of `widths` by every number of columns. */
static void test_dequant(kt *t, kt_run *run, pare_decoding how, const unsigned *widths,
                         size_t count)
{
    for (size_t i = 0; i < (t->bench ? count : 160); i++)
        check_dequant(t, run, decoded_case(t, how, widths[i % count], 1 + i / count % 20, 0));
}

/* Atoms of a row with a scale for each half of them. */
static const size_t halved_atoms[] = {1, 2, 3, 4, 9, 128};
enum { HALVED = sizeof halved_atoms / sizeof *halved_atoms };

void kt_dequant_f32(kt *t)
{
    test_dequant(t, run_dequant_f32, PARE_DECODE_F32, (const unsigned[]){2, 3, 4, 8}, 4);
}

void kt_dequant_table(kt *t)
{
    test_dequant(t, run_dequant_table, PARE_DECODE_TABLE, (const unsigned[]){2, 4}, 2);
    for (size_t i = 0; i < (t->bench ? 1 : 2 * HALVED); i++)
        check_dequant(t, run_dequant_table,
                      decoded_case(t, PARE_DECODE_TABLE, 4, halved_atoms[i % HALVED], 16));
}

/* All codes occur, the two that are NaN among them. */
void kt_dequant_fp8(kt *t)
{
    test_dequant(t, run_dequant_fp8, PARE_DECODE_FP8, (const unsigned[]){8}, 1);
}

void kt_dequant_book(kt *t)
{
    test_dequant(t, run_dequant_book, PARE_DECODE_BOOK, (const unsigned[]){3, 4}, 2);
}

void kt_dequant_binary(kt *t)
{
    test_dequant(t, run_dequant_binary, PARE_DECODE_BINARY, (const unsigned[]){2}, 1);
}

void kt_dequant_super(kt *t)
{
    test_dequant(t, run_dequant_super, PARE_DECODE_SUPER, (const unsigned[]){4, 6}, 2);
}

/* Which NaN comes out of a sum that has several is not defined, so there is one at most. */
static void drop_nan(kt *t, size_t bytes)
{
    uint8_t *const codes = t->input[0];
    for (size_t i = 0; i < bytes; i++)
        codes[i] = (codes[i] & 0x7f) == 0x7f ? codes[i] ^ 1 : codes[i];
    if (kt_below(t, 2))
        codes[kt_below(t, bytes)] |= 0x7f;
}

/* Every product is too small for a float and rounds to -0: so must the sum, from 8 columns on. */
static void fill_underflow(kt *t, kt_case *c, float *x)
{
    memset(t->input[0], c->bits == 8 ? 0x7f : 0xff, c->panel.n * c->panel.k * c->bits / 8);
    uint16_t *const scales = t->input[2];
    for (size_t i = 0; i < c->panel.n * groups_of(c->panel.k, c->group); i++)
        scales[i] = 1;
    for (size_t i = 0; i < c->k; i++)
        x[i] = -0x1p-140f;
    c->panel.zeros = NULL;
}

/* Without the last `less` columns. */
static void check_gemv(kt *t, kt_case c, size_t less)
{
    if (c.how == PARE_DECODE_FP8)
        drop_nan(t, c.n * c.k);
    c.k -= t->bench ? 0 : less;
    float *const x = kt_floats(t, c.k);
    c.x = x;
    if (c.how == PARE_DECODE_F32 && kt_below(t, 8) == 0 && !t->bench)
        fill_underflow(t, &c, x);
    c.out_bytes = c.n * sizeof(float);
    kt_check(t, &c, run_gemv_packed);
}

/* Whole atoms, and all that can be left of the last one; some rows are wide. */
void kt_gemv_packed(kt *t)
{
    static const struct {
        pare_decoding how;
        unsigned bits;
    } kinds[] = {{PARE_DECODE_F32, 2},    {PARE_DECODE_F32, 3},   {PARE_DECODE_F32, 4},
                 {PARE_DECODE_F32, 8},    {PARE_DECODE_TABLE, 2}, {PARE_DECODE_TABLE, 4},
                 {PARE_DECODE_FP8, 8},    {PARE_DECODE_BOOK, 3},  {PARE_DECODE_BOOK, 4},
                 {PARE_DECODE_BINARY, 2}, {PARE_DECODE_SUPER, 4}, {PARE_DECODE_SUPER, 6}};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    for (size_t i = 0; i < (t->bench ? 1 : 33) * KINDS; i++) {
        const size_t wide = i / KINDS % 12 == 11 ? 90 : 0;
        check_gemv(
            t, decoded_case(t, kinds[i % KINDS].how, kinds[i % KINDS].bits, 1 + i % 7 + wide, 0),
            i / KINDS % PARE_ATOM_K);
    }
    for (size_t i = 0; i < (t->bench ? 1 : PARE_ATOM_K + HALVED); i++)
        check_gemv(t, decoded_case(t, PARE_DECODE_TABLE, 4, halved_atoms[i % HALVED], 16),
                   i % PARE_ATOM_K);
    kt_gemv_exl3(t);
}
