/* Tensor instructions: whole matrices packed into fragments element by element, as the PTX ISA
 * lists them, against sums in C. */
#include <math.h>

#include "kernels/half.h"
#include "tests/ptx/ptx_test.h"

enum { MOST_K = 64, OPERANDS = 4 + 4 + 4 + 1 };

static ptx_machine *m;

static void begin(void)
{
    m = ptx_machine_new();
}

static void end(void)
{
    ptx_machine_free(m);
}

static uint64_t state;

static uint32_t random_below(uint32_t n)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(state >> 33) % n;
}

typedef struct instruction {
    const char *opcode;
    uint32_t k, elements; /* of a register */
    bool sparse, float_, signed_a, signed_b, bf16;
    uint32_t selector;
} instruction;

static const instruction instructions[] = {
    {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", .k = 16, .elements = 2, .float_ = true},
    {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", .k = 8, .elements = 2, .float_ = true},
    {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", .k = 16, .elements = 2, .float_ = true,
     .bf16 = true},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32", .k = 32, .elements = 4, .signed_a = true,
     .signed_b = true},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32", .k = 32, .elements = 4, .signed_b = true},
    {"mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32", .k = 32, .elements = 4, .signed_a = true},
    {"mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32", .k = 32, .elements = 4},
    {"mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32", .k = 16, .elements = 4, .signed_a = true,
     .signed_b = true},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", .k = 32,
     .elements = 2, .sparse = true, .float_ = true, .selector = 0},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k32.row.col.f32.f16.f16.f32", .k = 32,
     .elements = 2, .sparse = true, .float_ = true, .selector = 1},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", .k = 16,
     .elements = 2, .sparse = true, .float_ = true, .selector = 3},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.s8.s8.s32", .k = 64, .elements = 4,
     .sparse = true, .signed_a = true, .signed_b = true},
    {"mma.sp::ordered_metadata.sync.aligned.m16n8k64.row.col.s32.u8.s8.s32", .k = 64, .elements = 4,
     .sparse = true, .signed_b = true},
};

/* Bits of an element: a small number whose products add up exactly, or any. */
static uint32_t element(const instruction *t, bool sign, bool any)
{
    if (!t->float_)
        return random_below(256);
    const float v = any ? ldexpf((float)random_below(4096) - 2048, (int)random_below(12) - 14)
                        : (float)random_below(32) - 16;
    (void)sign;
    return t->bf16 ? pare_f32_to_bf16(v) : pare_f32_to_f16(v);
}

static double value(const instruction *t, uint32_t bits, bool sign)
{
    if (t->float_)
        return (double)(t->bf16 ? pare_bf16_to_f32((uint16_t)bits)
                                : pare_f16_to_f32((uint16_t)bits));
    return sign && bits > 127 ? (double)bits - 256 : bits;
}

typedef struct problem {
    uint32_t a[16][MOST_K], b[MOST_K][8], c[16][8]; /* bits; a: with zeros where nothing is kept */
    uint32_t index[16][MOST_K / 4][2];
    uint32_t lanes[OPERANDS][32], d[4][32]; /* registers */
} problem;

static void put(uint32_t *word, uint32_t i, uint32_t elements, uint32_t bits)
{
    *word |= bits << i * (32 / elements);
}

static void make_metadata(const instruction *t, problem *p)
{
    for (uint32_t row = 0; row < 16; row++)
        for (uint32_t q = 0; q < t->k / 4; q++) {
            const uint32_t first = random_below(3);
            p->index[row][q][0] = first;
            p->index[row][q][1] = first + 1 + random_below(3 - first);
            const uint32_t nibble = first | p->index[row][q][1] << 2, g = row % 8, high = row / 8;
            uint32_t lane, shift;
            if (!t->float_) {
                lane = 4 * g + high + 2 * (q / 8);
                shift = 4 * (q % 8);
            } else if (t->k == 32) {
                lane = 4 * g + 2 * t->selector + q / 4;
                shift = 4 * (q % 4) + 16 * high;
            } else {
                lane = 4 * g + t->selector;
                shift = 4 * q + 16 * high;
            }
            p->lanes[12][lane] |= nibble << shift;
        }
}

static void make(const instruction *t, problem *p, bool any)
{
    const uint32_t e = t->elements;
    memset(p, 0, sizeof *p);
    if (t->sparse)
        make_metadata(t, p);
    const uint32_t kept = t->sparse ? t->k / 2 : t->k;
    for (uint32_t lane = 0; lane < 32; lane++) {
        const uint32_t g = lane / 4, u = lane % 4;
        for (uint32_t r = 0; r < kept / (2 * e); r++)
            for (uint32_t i = 0; i < e; i++) {
                const uint32_t row = g + 8 * (r % 2), place = e * u + i + 4 * e * (r / 2);
                if (place >= kept)
                    continue;
                const uint32_t column =
                    t->sparse ? 4 * (place / 2) + p->index[row][place / 2][place % 2] : place;
                p->a[row][column] = element(t, t->signed_a, any);
                put(&p->lanes[r][lane], i, e, p->a[row][column]);
            }
        for (uint32_t r = 0; r < t->k / (4 * e); r++)
            for (uint32_t i = 0; i < e; i++) {
                const uint32_t row = e * u + i + 4 * e * r;
                p->b[row][g] = element(t, t->signed_b, any);
                put(&p->lanes[4 + r][lane], i, e, p->b[row][g]);
            }
        for (uint32_t r = 0; r < 4; r++) {
            const float c = any ? ldexpf((float)random_below(2000) - 1000, (int)random_below(9) - 8)
                                : (float)random_below(100);
            const uint32_t bits = t->float_ ? pare_f32_bits(c) : random_below(0x7fffffff) * 2;
            p->c[g + 8 * (r / 2)][2 * u + r % 2] = p->lanes[8 + r][lane] = bits;
        }
    }
}

static const char *registers(uint32_t first, uint32_t n)
{
    static char text[4][64];
    static int turn;
    char *const one = text[turn++ % 4];
    size_t at = (size_t)snprintf(one, 64, "{");
    for (uint32_t k = 0; k < n; k++)
        at += (size_t)snprintf(one + at, 64 - at, "%s%%r%u", k ? "," : "", first + k);
    (void)snprintf(one + at, 64 - at, "}");
    return one;
}

static ptx_module *module_for(const instruction *t)
{
    static char text[4096];
    const uint32_t e = t->elements, kept = t->sparse ? t->k / 2 : t->k;
    char last[32] = "";
    if (t->sparse)
        (void)snprintf(last, sizeof last, ", %%r12, 0x%x", t->selector);
    size_t at = (size_t)snprintf(
        text, sizeof text,
        PTX_HEAD ".visible .entry k(.param .u64 src, .param .u64 dst) { .reg .b32 %%r<20>;\n"
                 ".reg .b64 %%d<4>; mov.u32 %%r19, %%tid.x; mul.wide.u32 %%d2, %%r19, 4;\n"
                 "ld.param.u64 %%d0, [src]; ld.param.u64 %%d1, [dst];\n"
                 "add.u64 %%d0, %%d0, %%d2; add.u64 %%d1, %%d1, %%d2;\n");
    for (uint32_t k = 0; k < OPERANDS; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "ld.global.u32 %%r%u, [%%d0+%u];\n", k,
                               128 * k);
    at += (size_t)snprintf(text + at, sizeof text - at, "%s %s, %s, %s, %s%s;\n", t->opcode,
                           registers(13, 4), registers(0, kept / (2 * e)),
                           registers(4, t->k / (4 * e)), registers(8, 4), last);
    for (uint32_t k = 0; k < 4; k++)
        at += (size_t)snprintf(text + at, sizeof text - at, "st.global.u32 [%%d1+%u], %%r%u;\n",
                               128 * k, 13 + k);
    (void)snprintf(text + at, sizeof text - at, "ret; }\n");
    return ptx_must_load(m, text);
}

static ptx_launch prepare(const instruction *t, const problem *p, uint64_t *d)
{
    static ptx_arguments a;
    a = (ptx_arguments){.used = 0};
    *d = ptx_take(m, sizeof p->d);
    ptx_pass_u64(&a, ptx_upload(m, p->lanes, sizeof p->lanes));
    ptx_pass_u64(&a, *d);
    return ptx_line(module_for(t), "k", 1, 32, &a);
}

/* The sum of one element, and of its absolute terms. */
static double expected(const instruction *t, const problem *p, uint32_t row, uint32_t column,
                       double *absolute)
{
    double sum = t->float_ ? (double)pare_f32_from_bits(p->c[row][column]) : 0;
    *absolute = fabs(sum);
    for (uint32_t k = 0; k < t->k; k++) {
        const double x =
            value(t, p->a[row][k], t->signed_a) * value(t, p->b[k][column], t->signed_b);
        sum += x;
        *absolute += fabs(x);
    }
    return sum;
}

START_TEST(a_product_of_matrices_is_exact)
{
    const instruction *const t = &instructions[_i];
    problem p;
    state = (uint64_t)_i;
    make(t, &p, false);
    uint64_t d;
    const ptx_launch l = prepare(t, &p, &d);
    ptx_must_run(m, &l);
    ck_assert(ptx_get(m, p.d, d, sizeof p.d));
    for (uint32_t lane = 0; lane < 32; lane++)
        for (uint32_t r = 0; r < 4; r++) {
            const uint32_t row = lane / 4 + 8 * (r / 2), column = 2 * (lane % 4) + r % 2;
            double absolute;
            const double want = expected(t, &p, row, column, &absolute);
            if (t->float_)
                ck_assert_msg(pare_f32_from_bits(p.d[r][lane]) == (float)want, "%u %u: %g, not %g",
                              row, column, (double)pare_f32_from_bits(p.d[r][lane]), want);
            else
                ck_assert_uint_eq(p.d[r][lane], p.c[row][column] + (uint32_t)(int32_t)want);
        }
}
END_TEST

START_TEST(every_model_of_sums_stays_in_the_bound_and_is_itself)
{
    const instruction *const t = &instructions[_i];
    if (!t->float_)
        return;
    problem p;
    state = 77 + (uint64_t)_i;
    make(t, &p, true);
    uint64_t d;
    ptx_launch l = prepare(t, &p, &d);
    uint32_t got[3][4][32], differ = 0;
    for (int model = 0; model < 3; model++) {
        l.options.model = (ptx_model)model;
        ptx_must_run(m, &l);
        ck_assert(ptx_get(m, got[model], d, sizeof got[model]));
        for (uint32_t k = 0; k < 128; k++) {
            const uint32_t lane = k % 32, r = k / 32;
            double absolute;
            const double want =
                expected(t, &p, lane / 4 + 8 * (r / 2), 2 * (lane % 4) + r % 2, &absolute);
            const double off = fabs((double)pare_f32_from_bits(got[model][r][lane]) - want);
            ck_assert_msg(off <= (2 * t->k + 8) * 0x1p-24 * absolute, "model %d: off by %g", model,
                          off);
            differ |= (got[model][r][lane] != got[0][r][lane] ? 1u : 0u) << model;
        }
    }
    ck_assert_uint_eq(differ, 6);
}
END_TEST

/* 16 products of 2^-25 or 2^-26 beside 1: what each model keeps of them. */
START_TEST(a_model_cuts_small_terms_at_its_grid)
{
    const instruction *const t = &instructions[0];
    static const float kept[3][2] = {{1 + 0x1p-21f, 1 + 0x1p-22f}, {1, 1}, {1 + 0x1p-21f, 1}};
    for (int small = 0; small < 2; small++) {
        problem p;
        make(t, &p, false);
        for (uint32_t lane = 0; lane < 32; lane++)
            for (uint32_t r = 0; r < 4; r++) {
                p.lanes[r][lane] = pare_f32_to_f16(0x1p-10f) * 0x10001u;
                p.lanes[4 + r][lane] = pare_f32_to_f16(small ? 0x1p-16f : 0x1p-15f) * 0x10001u;
                p.lanes[8 + r][lane] = pare_f32_bits(1);
            }
        uint64_t d;
        ptx_launch l = prepare(t, &p, &d);
        for (int model = 0; model < 3; model++) {
            l.options.model = (ptx_model)model;
            ptx_must_run(m, &l);
            ck_assert(ptx_get(m, p.d, d, sizeof p.d));
            ck_assert_msg(p.d[2][9] == pare_f32_bits(kept[model][small]), "model %d: %a", model,
                          (double)pare_f32_from_bits(p.d[2][9]));
        }
    }
}
END_TEST

START_TEST(infinities_and_nans_go_through_every_model)
{
    const instruction *const t = &instructions[0];
    problem p;
    make(t, &p, false);
    p.lanes[0][0] = 0x7c00 | 0x3c000000; /* row 0 begins with infinity */
    p.lanes[1][4] = 0x7e00 | 0x3c000000; /* row 9 with NaN */
    for (uint32_t lane = 0; lane < 32; lane++)
        p.lanes[4][lane] = 0x3c003c00;
    uint64_t d;
    ptx_launch l = prepare(t, &p, &d);
    for (int model = 0; model < 3; model++) {
        l.options.model = (ptx_model)model;
        ptx_must_run(m, &l);
        ck_assert(ptx_get(m, p.d, d, sizeof p.d));
        ck_assert_uint_eq(p.d[0][0], 0x7f800000);
        ck_assert_uint_eq(p.d[2][4], 0x7fffffff);
        ck_assert(isfinite(pare_f32_from_bits(p.d[0][8])));
    }
}
END_TEST

START_TEST(metadata_that_does_not_ascend_is_a_fault)
{
    for (int k = 8; k < 13; k++) {
        problem p;
        state = 3;
        make(&instructions[k], &p, false);
        /* columns 0 to 3 of row 8: in the upper half of F16 words, in the lane of its own of s8 */
        const uint32_t lane = instructions[k].float_
                                  ? (instructions[k].k == 32 ? 2 : 1) * instructions[k].selector
                                  : 1;
        const uint32_t shift = instructions[k].float_ ? 16 : 0;
        p.lanes[12][lane] = (p.lanes[12][lane] & ~(15u << shift)) | 6u << shift; /* 2, then 1 */
        uint64_t d;
        const ptx_launch l = prepare(&instructions[k], &p, &d);
        ptx_must_fail(m, &l, "metadata 0x6 of row 8, columns 0 to 3");
        ck_assert_uint_eq(ptx_report(m)->lanes, 1u << lane);
    }
}
END_TEST

START_TEST(operands_of_mma_are_defined_and_all_lanes_come)
{
    static const struct {
        const char *statements, *words;
    } cases[] = {
        {"mov.u32 %r0, 0; mov.u32 %r1, 0; mov.u32 %r2, 0; mov.u32 %r3, 0;", "operand C"},
        {"mov.f32 %r10, 0f00000000; mov.u32 %r3, 0;", "operand A"},
        {"setp.lt.u32 %p0, %r19, 31; @%p0 bra L; ret; L:", "whole warp"},
        {"setp.lt.u32 %p0, %r19, 31; @!%p0 bra M;", "wait"},
    };
    char text[1024];
    (void)snprintf(text, sizeof text,
                   PTX_HEAD
                   ".visible .entry k() { .reg .b32 %%r<20>; .reg .pred %%p<2>;\n"
                   "mov.u32 %%r19, %%tid.x; %s\n"
                   "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%%r4,%%r5,%%r6,%%r7},\n"
                   "{%%r0,%%r1,%%r2,%%r3}, {%%r0,%%r1}, {%%r8,%%r9,%%r10,%%r11};\n"
                   "M: bar.sync 0; ret; }",
                   cases[_i].statements);
    const ptx_arguments none = {.used = 0};
    const ptx_launch l = ptx_line(ptx_must_load(m, text), "k", 1, 32, &none);
    ptx_must_fail(m, &l, cases[_i].words);
}
END_TEST

/* Shared memory holds element e of row r of matrix q as 64 q + 8 r + e; rows lie apart. */
START_TEST(ldmatrix_hands_rows_or_columns_to_lanes)
{
    static const char *const kinds[] = {"x1", "x2", "x4", "x1.trans", "x2.trans", "x4.trans"};
    const uint32_t n = 1u << _i % 3, trans = _i >= 3;
    char text[2048];
    (void)snprintf(
        text, sizeof text,
        PTX_HEAD
        ".visible .entry k(.param .u64 dst) { .reg .b32 %%r<40>; .reg .b64 %%d<4>;\n"
        ".shared .align 16 .b8 s[1024]; ld.param.u64 %%d0, [dst];\n"
        "mov.u32 %%r0, %%tid.x; shl.b32 %%r1, %%r0, 5; mov.u32 %%r2, s;\n"
        "add.u32 %%r1, %%r1, %%r2; mul.lo.u32 %%r3, %%r0, 524296;\n" /* 8 l in both halves */
        "add.u32 %%r3, %%r3, 65536; add.u32 %%r4, %%r3, 131074;\n"
        "add.u32 %%r5, %%r4, 131074; add.u32 %%r6, %%r5, 131074;\n"
        "st.shared.v4.u32 [%%r1+16], {%%r3, %%r4, %%r5, %%r6}; bar.sync 0;\n"
        "ldmatrix.sync.aligned.m8n8.%s.shared.b16 %s, [%%r1+16];\n"
        "mul.wide.u32 %%d1, %%r0, 4; add.u64 %%d0, %%d0, %%d1;\n",
        kinds[_i], registers(10, n));
    size_t at = strlen(text);
    for (uint32_t q = 0; q < n; q++)
        at += (size_t)snprintf(text + at, sizeof text - at, "st.global.u32 [%%d0+%u], %%r%u;\n",
                               128 * q, 10 + q);
    (void)snprintf(text + at, sizeof text - at, "ret; }");
    const uint64_t d = ptx_take(m, 512);
    ptx_arguments a = {.used = 0};
    ptx_pass_u64(&a, d);
    const ptx_launch l = ptx_line(ptx_must_load(m, text), "k", 1, 32, &a);
    ptx_must_run(m, &l);
    uint32_t got[4][32];
    ck_assert(ptx_get(m, got, d, 128 * n));
    for (uint32_t q = 0; q < n; q++)
        for (uint32_t lane = 0; lane < 32; lane++) {
            const uint32_t g = lane / 4, j = 2 * (lane % 4);
            const uint32_t low = 64 * q + (trans ? 8 * j + g : 8 * g + j),
                           high = low + (trans ? 8 : 1);
            ck_assert_msg(got[q][lane] == (low | high << 16), "matrix %u, lane %u: %#x", q, lane,
                          got[q][lane]);
        }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.tensor");
    TCase *const t = tcase_create("tensor");
    const int n = (int)(sizeof instructions / sizeof *instructions);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, a_product_of_matrices_is_exact, 0, n);
    tcase_add_loop_test(t, every_model_of_sums_stays_in_the_bound_and_is_itself, 0, n);
    tcase_add_test(t, a_model_cuts_small_terms_at_its_grid);
    tcase_add_test(t, infinities_and_nans_go_through_every_model);
    tcase_add_test(t, metadata_that_does_not_ascend_is_a_fault);
    tcase_add_loop_test(t, operands_of_mma_are_defined_and_all_lanes_come, 0, 4);
    tcase_add_loop_test(t, ldmatrix_hands_rows_or_columns_to_lanes, 0, 6);
    suite_add_tcase(s, t);
    return unit_main(s);
}
