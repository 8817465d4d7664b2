/* Bodies of the kernels that read pruned weights. */
#include <string.h>

#include "kernels/layout.h"
#include "tests/kernels/kernel_test.h"

static size_t groups_of(size_t k, size_t group)
{
    return (k + group - 1) / group;
}

static void run_gemm_x8_s4(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_s4((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

static void run_gemm_x8_s8(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemm_x8_s8((float *)(void *)out, c->ldy, &c->x8, &c->panel);
}

static void run_dequant_24(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->dequant_24((float *)(void *)out, c->ldy, &c->panel, c->bits);
}

/* Four ascending pairs in two bytes; kind 0: all are the first two columns, 1: the last two. */
static void put_pairs(uint8_t bytes[2], uint64_t random, size_t kind)
{
    static const uint8_t pair[6][2] = {{0, 1}, {2, 3}, {0, 2}, {0, 3}, {1, 2}, {1, 3}};
    bytes[0] = bytes[1] = 0;
    for (unsigned f = 0; f < 4; f++, random >>= 16) {
        const uint8_t *const p = pair[kind < 2 ? kind : random % 6];
        bytes[0] = (uint8_t)(bytes[0] | p[0] << 2 * f);
        bytes[1] = (uint8_t)(bytes[1] | p[1] << 2 * f);
    }
}

static uint8_t *make_indices(kt *t, size_t bytes)
{
    uint8_t *const indices = kt_input(t, bytes, 1);
    const size_t kind = kt_below(t, 5);
    for (size_t i = 0; i < bytes; i += 2)
        put_pairs(indices + i, kt_u64(t), kind);
    return indices;
}

/* Random codes, or one of those whose sums are the largest, or the one of 0; or some groups of four
 * columns without a weight. */
static uint8_t *make_codes(kt *t, size_t bytes, unsigned bits)
{
    static const uint8_t extreme[2][4] = {{0x00, 0xff, 0x88, 0x0f}, {0x80, 0x7f, 0x00, 0x81}};
    uint8_t *const codes = kt_input(t, bytes, 1);
    const size_t kind = kt_below(t, 8);
    if (kind < 4)
        memset(codes, extreme[bits == 8][kind], bytes);
    for (size_t i = 0; kind == 4 && i < bytes; i += 2)
        if (kt_below(t, 2))
            codes[i] = codes[i + 1] = extreme[bits == 8][2];
    return codes;
}

static pare_panel make_panel(kt *t, size_t n, size_t k, size_t group, unsigned bits)
{
    const size_t atoms = n / 8 * (pare_24_kept(k) / 32);
    pare_panel p = {.n = n, .k = k, .group = group, .ldv = pare_24_kept(k) + kt_below(t, 3)};
    p.indices = make_indices(t, atoms * 64);
    if (bits == 16)
        p.values = kt_halves(t, (n - 1) * p.ldv + pare_24_kept(k), false);
    else
        p.codes = make_codes(t, atoms * pare_atom_bytes(bits), bits);
    if (bits < 16)
        p.scales = kt_halves(t, n * groups_of(k, group), false);
    return p;
}

/* Any codes are codes of some tiles; of 4-bit weights they come with the highest bit flipped. */
static pare_x8 make_x8(kt *t, size_t m, size_t k, size_t group, unsigned bits)
{
    const size_t kind = kt_below(t, 4);
    int8_t *const codes = kt_input(t, m * k, 1);
    for (size_t i = 0; i < m * k; i++) {
        const int code = kind == 0 ? 127 : kind == 1 ? -127 : codes[i] == -128 ? -127 : codes[i];
        codes[i] = (int8_t)(bits == 4 ? (uint8_t)(code + 128) : code);
    }
    return (pare_x8){.codes = codes,
                     .scales = kt_floats(t, m * groups_of(k, group)),
                     .m = m,
                     .k = k,
                     .group = group};
}

static void check_gemm_x8(kt *t, kt_run *run, unsigned bits, size_t m, size_t n, size_t k,
                          size_t group)
{
    const bool row = group == k && k <= PARE_X8_GROUP_MAX && kt_below(t, 2);
    const size_t x_group = row ? k : kt_below(t, 4) ? pare_x8_group(group) : 32;
    kt_case c = {.m = m,
                 .n = n,
                 .k = k,
                 .group = group,
                 .bits = bits,
                 .ldy = n + kt_below(t, 4),
                 .x8 = make_x8(t, m, k, x_group, bits),
                 .panel = make_panel(t, n, k, group, bits)};
    c.out_bytes = ((m - 1) * c.ldy + n) * sizeof(float);
    c.work_bytes =
        n * k * (bits + 2) / 16 + n * groups_of(k, group) * sizeof(uint16_t) + c.out_bytes;
    kt_check(t, &c, run);
}

static void test_gemm_x8(kt *t, kt_run *run, unsigned bits)
{
    if (t->bench) {
        check_gemm_x8(t, run, bits, 1, 512, 4096, 128);
        check_gemm_x8(t, run, bits, 64, 64, 4096, 128);
        return;
    }
    for (size_t i = 0; i < 240; i++) {
        const size_t k = 32 * (1 + i % 20), last = kt_below(t, 6);
        const size_t group = last == 5 ? k : 32 * (1 + last);
        check_gemm_x8(t, run, bits, 1 + i % 19, 8 * (1 + kt_below(t, 9)), k, group);
    }
    for (size_t i = 0; i < 6; i++) /* one scale per row, the largest sums there are */
        check_gemm_x8(t, run, bits, 1 + 4 * i, 8, 65536, 65536);
    static const size_t many[] = {33, 64, 65, 128, 129};
    for (size_t i = 0; i < 20; i++) { /* tiles of a device, whole ones and others */
        const size_t k = 32 * (1 + kt_below(t, 20)), last = kt_below(t, 6);
        const size_t group = last == 5 ? k : 32 * (1 + last);
        check_gemm_x8(t, run, bits, many[i % 5], 8 * (1 + kt_below(t, 20)), k, group);
    }
    check_gemm_x8(t, run, bits, 530, 24, 96, 96); /* more tokens than a block for tiles */
    for (size_t m = 64; m < 67; m++)              /* as many rows and tokens as blocks, and more */
        check_gemm_x8(t, run, bits, m, 136, 288, 288);
}

void kt_gemm_x8_s4(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_s4, 4);
}

void kt_gemm_x8_s8(kt *t)
{
    test_gemm_x8(t, run_gemm_x8_s8, 8);
}

void kt_dequant_24(kt *t)
{
    static const unsigned widths[] = {4, 8, 16};
    for (size_t i = 0; i < 240; i++) {
        const size_t n = t->bench ? 64 : 8 * (1 + kt_below(t, 4));
        const size_t k = t->bench ? 4096 : 32 * (1 + i / 3 % 20), last = kt_below(t, 6);
        kt_case c = {.n = n,
                     .k = k,
                     .group = t->bench    ? 128
                              : last == 5 ? k
                                          : 32 * (1 + last),
                     .bits = widths[i % 3],
                     .ldy = k + kt_below(t, 9)};
        c.panel = make_panel(t, n, k, c.group, c.bits);
        c.out_bytes = ((n - 1) * c.ldy + k) * sizeof(float);
        c.work_bytes = n * k * (c.bits + 2) / 16 + c.out_bytes;
        kt_check(t, &c, run_dequant_24);
        if (t->bench && i == 2)
            return;
    }
}

/* The mask lies in codes, the first value of each row in w. */
static void run_dequant_mask(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const pare_mask mask = {
        .bits = c->panel.codes, .start = c->w, .value = c->value, .n = c->n, .k = c->k};
    k->dequant_mask((float *)(void *)out, c->ldy, &mask);
}

static void run_gemv_24(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    k->gemv_24((float *)(void *)out, c->x, c->k, &c->panel);
}

/* Whole atoms, and all that can be left of the last one. */
void kt_gemv_24(kt *t)
{
    for (size_t i = 0; i < (t->bench ? 1 : 260); i++) {
        const size_t n = t->bench ? 64 : 8 * (1 + kt_below(t, 4));
        const size_t padded = t->bench ? 4096 : 32 * (1 + i / 32 % 7);
        kt_case c = {.n = n, .k = padded - (t->bench ? 0 : i % 32)};
        c.panel = make_panel(t, n, padded, padded, 16);
        c.x = kt_floats(t, c.k);
        c.out_bytes = n * sizeof(float);
        c.work_bytes = n * padded * 18 / 16;
        kt_check(t, &c, run_gemv_24);
    }
}

static void run_gemv_mask(const pare_kernels *k, const kt_case *c, uint8_t *out)
{
    const pare_mask mask = {
        .bits = c->panel.codes, .start = c->w, .value = c->value, .n = c->n, .k = c->k};
    k->gemv_mask((float *)(void *)out, c->x, &mask);
}

/* Bits of every density, some rows without any, some full. */
static void test_mask(kt *t, kt_run *run, bool sums)
{
    for (size_t i = 0; i < 300; i++) {
        kt_case c = {.n = t->bench ? 64 : 1 + kt_below(t, 19), .k = t->bench ? 4096 : 1 + i % 150};
        const size_t bytes = (c.k + 7) / 8;
        uint8_t *const bits = kt_input(t, c.n * bytes, 1);
        size_t *const start = kt_input(t, c.n + 1, sizeof *start), count = 0;
        for (size_t r = 0; r < c.n; r++) {
            const size_t kind = t->bench ? 9 : kt_below(t, 6);
            start[r] = count;
            for (size_t j = 0; j < c.k; j++) {
                uint8_t *const byte = bits + r * bytes + j / 8;
                if (kind == 0 || (kind < 3 && kt_below(t, 8)))
                    *byte = (uint8_t)(*byte & ~(1u << j % 8));
                if (kind == 3)
                    *byte = (uint8_t)(*byte | 1u << j % 8);
                count += (unsigned)*byte >> j % 8 & 1u;
            }
        }
        start[c.n] = count;
        c.panel.codes = bits;
        c.w = start;
        c.value = kt_halves(t, count, false);
        c.ldy = c.k + kt_below(t, 9);
        c.out_bytes = ((c.n - 1) * c.ldy + c.k) * sizeof(float);
        if (sums) {
            c.x = kt_floats(t, c.k);
            c.out_bytes = c.n * sizeof(float);
        }
        c.work_bytes = c.out_bytes + c.n * bytes + 2 * count;
        kt_check(t, &c, run);
        if (t->bench)
            return;
    }
}

void kt_dequant_mask(kt *t)
{
    test_mask(t, run_dequant_mask, false);
}

void kt_gemv_mask(kt *t)
{
    test_mask(t, run_gemv_mask, true);
}
