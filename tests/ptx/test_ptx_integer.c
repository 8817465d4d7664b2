/* Operations on integers and bits against C: edges in every combination, and random operands. */
#include "tests/ptx/ptx_ops_test.h"

static const uint64_t edges[] = {0,
                                 1,
                                 2,
                                 7,
                                 8,
                                 15,
                                 16,
                                 31,
                                 32,
                                 33,
                                 63,
                                 64,
                                 65,
                                 127,
                                 128,
                                 255,
                                 256,
                                 0x7fff,
                                 0x8000,
                                 0xffff,
                                 0x10000,
                                 0x7fffffff,
                                 0x80000000,
                                 0x80000001,
                                 0xffffffff,
                                 0x100000000,
                                 0x7fffffffffffffff,
                                 0x8000000000000000,
                                 0xffffffffffffffff,
                                 0x123456789abcdef0,
                                 0x7531,
                                 0xfedcba98};

static uint64_t sources[OP_VALUES * 4];

/* The meaning as the PTX ISA words it, bit by bit where it does so. */
#define R(name, expression)                                                                        \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return (uint64_t)(expression);                                                             \
    }
#define S16(v) ((int64_t)((v) ^ 0x8000) - 0x8000)
#define S32(v) ((int64_t)((v) ^ 0x80000000) - 0x80000000)
#define S64(v) ((int64_t)(v))
__extension__ typedef __int128 big;
__extension__ typedef unsigned __int128 ubig;

R(add, a + b)
R(sub, a - b)
R(mul_low, a *b)
R(mad_low, a *b + c)
R(mul_wide_s16, S16(a) * S16(b))
R(mul_wide_s32, S32(a) * S32(b))
R(mul_high_u16, a *b >> 16)
R(mul_high_s16, S16(a) * S16(b) >> 16)
R(mul_high_u32, a *b >> 32)
R(mul_high_s32, S32(a) * S32(b) >> 32)
R(mul_high_u64, (ubig)a *b >> 64)
R(mul_high_s64, (big)S64(a) * S64(b) >> 64)
R(mad_wide_u32, a *b + c)
R(mad_wide_s32, (uint64_t)(S32(a) * S32(b)) + c)
R(mad_high_u32, (a * b >> 32) + c)
R(sad_s32, (uint64_t)llabs(S32(a) - S32(b)) + c)
R(abs_s16, llabs(S16(a)))
R(abs_s32, llabs(S32(a)))
R(abs_s64, S64(a) < 0 ? ~a + 1 : a)
R(negate, ~a + 1)
R(min_u, a < b ? a : b)
R(max_u, a < b ? b : a)
R(min_s16, S16(a) < S16(b) ? a : b)
R(min_s32, S32(a) < S32(b) ? a : b)
R(min_s64, S64(a) < S64(b) ? a : b)
R(max_s16, S16(a) < S16(b) ? b : a)
R(max_s32, S32(a) < S32(b) ? b : a)
R(max_s64, S64(a) < S64(b) ? b : a)
R(bit_and, a &b)
R(bit_or, a | b)
R(bit_xor, a ^ b)
R(bit_not, ~a)
R(copy, a)

static uint64_t bit(uint64_t v, uint64_t k)
{
    return k < 64 ? v >> k & 1 : 0;
}

/* Bit by bit: bit k of the result is bit k + move of a; behind the top stands fill. */
static uint64_t shifted(uint64_t a, int64_t move, int64_t width, uint64_t fill)
{
    uint64_t d = 0;
    for (int64_t k = 0; k < width; k++) {
        const int64_t from = k + move;
        const uint64_t one = from < 0 ? 0 : from < width ? bit(a, (uint64_t)from) : fill;
        d |= one << k;
    }
    return d;
}

R(shl16, shifted(a, -(int64_t)b, 16, 0))
R(shl32, shifted(a, -(int64_t)b, 32, 0))
R(shl64, shifted(a, -(int64_t)b, 64, 0))
R(shr16, shifted(a, (int64_t)b, 16, 0))
R(shr32, shifted(a, (int64_t)b, 32, 0))
R(shr64, shifted(a, (int64_t)b, 64, 0))
R(sar16, shifted(a, (int64_t)b, 16, bit(a, 15)))
R(sar32, shifted(a, (int64_t)b, 32, bit(a, 31)))
R(sar64, shifted(a, (int64_t)b, 64, bit(a, 63)))
R(funnel_l, (b << 32 | a) << (c & 31) >> 32)
R(funnel_r, (b << 32 | a) >> (c & 31))
R(funnel_l_clamp, c >= 32 ? a : (b << 32 | a) << c >> 32)
R(funnel_r_clamp, c >= 32 ? b : (b << 32 | a) >> c)

static uint64_t permute(uint64_t a, uint64_t b, uint64_t c)
{
    uint8_t bytes[8], d[4];
    for (int k = 0; k < 4; k++) {
        bytes[k] = (uint8_t)(a >> 8 * k);
        bytes[4 + k] = (uint8_t)(b >> 8 * k);
    }
    for (int k = 0; k < 4; k++) {
        const unsigned s = (unsigned)(c >> 4 * k) & 15;
        d[k] = s < 8 ? bytes[s] : (int8_t)bytes[s - 8] < 0 ? 255 : 0;
    }
    return d[0] | (uint64_t)d[1] << 8 | (uint64_t)d[2] << 16 | (uint64_t)d[3] << 24;
}

static uint64_t extract(uint64_t a, uint64_t b, uint64_t c, bool sign)
{
    const uint64_t pos = b & 255, len = c & 255;
    const uint64_t top = pos + len - 1 < 31 ? pos + len - 1 : 31;
    const uint64_t fill = sign && len ? bit(a, top) : 0;
    uint64_t d = 0;
    for (uint64_t k = 0; k < 32; k++)
        d |= (k < len && pos + k <= 31 ? bit(a, pos + k) : fill) << k;
    return d;
}
R(extract_u, extract(a, b, c, false))
R(extract_s, extract(a, b, c, true))

static uint64_t ones(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t n = 0;
    (void)b, (void)c;
    for (; a; a &= a - 1)
        n++;
    return n;
}

static uint64_t zeros_above(uint64_t a, uint64_t width)
{
    uint64_t n = 0;
    while (n < width && !bit(a, width - 1 - n))
        n++;
    return n;
}
R(clz32, zeros_above(a, 32))
R(clz64, zeros_above(a, 64))
R(find_u, 31 - zeros_above(a, 32))
R(find_s, 31 - zeros_above(bit(a, 31) ? ~a & 0xffffffff : a, 32))

static uint64_t reversed(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t d = 0;
    (void)b, (void)c;
    for (uint64_t k = 0; k < 32; k++)
        d |= bit(a, k) << (31 - k);
    return d;
}

R(reversed64, reversed(a & 0xffffffff, 0, 0) << 32 | reversed(a >> 32, 0, 0))
R(shift_to_top, a ? zeros_above(a, 32) : ~(uint64_t)0)

static uint64_t dot(uint64_t a, uint64_t b, uint64_t c, bool sa, bool sb)
{
    int64_t sum = (int64_t)c;
    for (int k = 0; k < 32; k += 8) {
        const int64_t x = a >> k & 255, y = b >> k & 255;
        sum += (sa && x > 127 ? x - 256 : x) * (sb && y > 127 ? y - 256 : y);
    }
    return (uint64_t)sum;
}
R(dot_uu, dot(a, b, c, false, false))
R(dot_us, dot(a, b, c, false, true))
R(dot_su, dot(a, b, c, true, false))
R(dot_ss, dot(a, b, c, true, true))

R(eq, a == b)
R(ne, a != b)
R(lt_u, a < b)
R(le_u, a <= b)
R(gt_u, a > b)
R(ge_u, a >= b)
R(lt_s16, S16(a) < S16(b))
R(lt_s32, S32(a) < S32(b))
R(le_s32, S32(a) <= S32(b))
R(gt_s32, S32(a) > S32(b))
R(ge_s32, S32(a) >= S32(b))
R(ge_s64, S64(a) >= S64(b))
R(lt_and, a < b && (c & 1))
R(lt_or, a < b || (c & 1))
R(lt_xor, (a < b) != (c & 1))
R(select_, c & 1 ? a : b)

static const op_case cases[] = {
    {"add.s16", "222", add},
    {"add.s32", "444", add},
    {"add.u64", "888", add},
    {"sub.s16", "222", sub},
    {"sub.u32", "444", sub},
    {"sub.s64", "888", sub},
    {"mul.lo.s16", "222", mul_low},
    {"mul.lo.s32", "444", mul_low},
    {"mul.lo.s64", "888", mul_low},
    {"mul.wide.u16", "422", mul_low},
    {"mul.wide.s16", "422", mul_wide_s16},
    {"mul.wide.u32", "844", mul_low},
    {"mul.wide.s32", "844", mul_wide_s32},
    {"mul.hi.u16", "222", mul_high_u16},
    {"mul.hi.s16", "222", mul_high_s16},
    {"mul.hi.u32", "444", mul_high_u32},
    {"mul.hi.s32", "444", mul_high_s32},
    {"mul.hi.u64", "888", mul_high_u64},
    {"mul.hi.s64", "888", mul_high_s64},
    {"mad.lo.s32", "4444", mad_low},
    {"mad.lo.s64", "8888", mad_low},
    {"mad.wide.u32", "8448", mad_wide_u32},
    {"mad.wide.s32", "8448", mad_wide_s32},
    {"mad.hi.u32", "4444", mad_high_u32},
    {"sad.s32", "4444", sad_s32},
    {"abs.s16", "22", abs_s16},
    {"abs.s32", "44", abs_s32},
    {"abs.s64", "88", abs_s64},
    {"neg.s16", "22", negate},
    {"neg.s32", "44", negate},
    {"neg.s64", "88", negate},
    {"min.u16", "222", min_u},
    {"min.s16", "222", min_s16},
    {"min.u32", "444", min_u},
    {"min.s32", "444", min_s32},
    {"min.u64", "888", min_u},
    {"min.s64", "888", min_s64},
    {"max.u16", "222", max_u},
    {"max.s16", "222", max_s16},
    {"max.u32", "444", max_u},
    {"max.s32", "444", max_s32},
    {"max.u64", "888", max_u},
    {"max.s64", "888", max_s64},
    {"and.b16", "222", bit_and},
    {"and.b32", "444", bit_and},
    {"and.b64", "888", bit_and},
    {"or.b16", "222", bit_or},
    {"or.b32", "444", bit_or},
    {"or.b64", "888", bit_or},
    {"xor.b16", "222", bit_xor},
    {"xor.b32", "444", bit_xor},
    {"xor.b64", "888", bit_xor},
    {"not.b16", "22", bit_not},
    {"not.b32", "44", bit_not},
    {"not.b64", "88", bit_not},
    {"shl.b16", "224", shl16},
    {"shl.b32", "444", shl32},
    {"shl.b64", "884", shl64},
    {"shr.u16", "224", shr16},
    {"shr.s16", "224", sar16},
    {"shr.u32", "444", shr32},
    {"shr.b32", "444", shr32},
    {"shr.s32", "444", sar32},
    {"shr.u64", "884", shr64},
    {"shr.s64", "884", sar64},
    {"shf.l.wrap.b32", "4444", funnel_l},
    {"shf.r.wrap.b32", "4444", funnel_r},
    {"shf.l.clamp.b32", "4444", funnel_l_clamp},
    {"shf.r.clamp.b32", "4444", funnel_r_clamp},
    {"prmt.b32", "4444", permute},
    {"bfe.u32", "4444", extract_u},
    {"bfe.s32", "4444", extract_s},
    {"popc.b32", "44", ones},
    {"popc.b64", "48", ones},
    {"clz.b32", "44", clz32},
    {"clz.b64", "48", clz64},
    {"bfind.u32", "44", find_u},
    {"bfind.s32", "44", find_s},
    {"brev.b32", "44", reversed},
    {"brev.b64", "88", reversed64},
    {"bfind.shiftamt.u32", "44", shift_to_top},
    {"dp4a.u32.u32", "4444", dot_uu},
    {"dp4a.u32.s32", "4444", dot_us},
    {"dp4a.s32.u32", "4444", dot_su},
    {"dp4a.s32.s32", "4444", dot_ss},
    {"mov.b16", "22", copy},
    {"mov.u32", "44", copy},
    {"mov.f64", "88", copy},
    {"setp.eq.s16", "p22", eq},
    {"setp.ne.b32", "p44", ne},
    {"setp.eq.s64", "p88", eq},
    {"setp.lt.u32", "p44", lt_u},
    {"setp.lo.u32", "p44", lt_u},
    {"setp.le.u64", "p88", le_u},
    {"setp.hi.u32", "p44", gt_u},
    {"setp.hs.u16", "p22", ge_u},
    {"setp.ls.u32", "p44", le_u},
    {"setp.gt.u32", "p44", gt_u},
    {"setp.ge.u64", "p88", ge_u},
    {"setp.lt.s16", "p22", lt_s16},
    {"setp.lt.s32", "p44", lt_s32},
    {"setp.le.s32", "p44", le_s32},
    {"setp.gt.s32", "p44", gt_s32},
    {"setp.ge.s32", "p44", ge_s32},
    {"setp.ge.s64", "p88", ge_s64},
    {"setp.lt.and.u32", "p44p", lt_and},
    {"setp.lt.or.u32", "p44p", lt_or},
    {"setp.lt.xor.u32", "p44p", lt_xor},
    {"and.pred", "ppp", bit_and},
    {"or.pred", "ppp", bit_or},
    {"xor.pred", "ppp", bit_xor},
    {"not.pred", "pp", bit_not},
    {"mov.pred", "pp", copy},
    {"selp.b16", "222p", select_},
    {"selp.u32", "444p", select_},
    {"selp.f64", "888p", select_},
};

START_TEST(an_integer_opcode_does_what_c_does)
{
    op_sources(sources, edges, sizeof edges / sizeof *edges, (uint64_t)_i + 1);
    op_check(&cases[_i], sources, false);
}
END_TEST

/* Division: by everything but 0. */
R(div_u, a / b)
R(rem_u, a % b)
R(div_s16, S16(a) / S16(b))
R(div_s32, S32(a) / S32(b))
R(rem_s32, S32(a) % S32(b))
R(div_s64, (big)S64(a) / S64(b))
R(rem_s64, (big)S64(a) % S64(b))
static const op_case divisions[] = {
    {"div.u16", "222", div_u},   {"div.s16", "222", div_s16}, {"div.u32", "444", div_u},
    {"div.s32", "444", div_s32}, {"div.u64", "888", div_u},   {"div.s64", "888", div_s64},
    {"rem.u32", "444", rem_u},   {"rem.s32", "444", rem_s32}, {"rem.u64", "888", rem_u},
    {"rem.s64", "888", rem_s64},
};

START_TEST(a_division_does_what_c_does)
{
    op_sources(sources, edges, sizeof edges / sizeof *edges, (uint64_t)_i + 99);
    for (size_t k = 0; k < OP_VALUES; k++)
        if (op_cut(sources[4 * k + 1], divisions[_i].sizes[2]) == 0)
            sources[4 * k + 1] = 3;
    op_check(&divisions[_i], sources, false);
}
END_TEST

/* Opcodes with more operands, and every table of lop3. */
START_TEST(lop3_follows_its_table)
{
    char text[1024];
    ptx_machine *const m = ptx_machine_new();
    const uint32_t a = 0xf0f0f0f0u, b = 0xccccccccu, c = 0xaaaaaaaau;
    const uint64_t target = ptx_take(m, 4);
    for (unsigned table = 0; table < 256; table++) {
        (void)snprintf(text, sizeof text,
                       PTX_HEAD
                       ".visible .entry k(.param .u64 dst) { .reg .b32 %%r<4>;"
                       ".reg .b64 %%d<2>; ld.param.u64 %%d1, [dst];"
                       "mov.b32 %%r1, %u; mov.b32 %%r2, %u; mov.b32 %%r3, %u;"
                       "lop3.b32 %%r0, %%r1, %%r2, %%r3, 0x%x; st.global.u32 [%%d1], %%r0; }",
                       a, b, c, table);
        ptx_arguments args = {.used = 0};
        ptx_pass_u64(&args, target);
        const ptx_launch l = ptx_line(ptx_must_load(m, text), "k", 1, 1, &args);
        ptx_must_run(m, &l);
        uint32_t got = 0;
        ck_assert(ptx_get(m, &got, target, 4));
        ck_assert_uint_eq(got, table * 0x01010101u);
    }
    ptx_machine_free(m);
}
END_TEST

static uint64_t inserted(uint64_t a, uint64_t b, uint64_t pos, uint64_t len, uint64_t width)
{
    for (uint64_t k = 0; k < (len & 255) && (pos & 255) + k < width; k++) {
        const uint64_t at = (pos & 255) + k;
        b = (b & ~((uint64_t)1 << at)) | bit(a, k) << at;
    }
    return b;
}

/* The fourth source of bfi is not one of op_case. */
START_TEST(bfi_inserts_a_field)
{
    const bool wide = _i == 1;
    const char *const t = wide ? "b64" : "b32", *const r = wide ? "%d" : "%r";
    char text[1024];
    (void)snprintf(text, sizeof text,
                   PTX_HEAD
                   ".visible .entry k(.param .u64 src, .param .u64 dst) { .reg .b32 %%r<8>;"
                   ".reg .b64 %%d<8>; ld.param.u64 %%d6, [src]; ld.param.u64 %%d7, [dst];"
                   "mov.u32 %%r7, %%tid.x; mul.wide.u32 %%d5, %%r7, 32; add.u64 %%d6, %%d6, %%d5;"
                   "mul.wide.u32 %%d5, %%r7, 8; add.u64 %%d7, %%d7, %%d5;"
                   "ld.global.%s %s1, [%%d6]; ld.global.%s %s2, [%%d6+8];"
                   "ld.global.b32 %%r3, [%%d6+16]; ld.global.b32 %%r4, [%%d6+24];"
                   "bfi.%s %s0, %s1, %s2, %%r3, %%r4; st.global.%s [%%d7], %s0; }",
                   t, r, t, r, t, r, r, r, t, r);
    ptx_machine *const m = ptx_machine_new();
    op_sources(sources, edges, sizeof edges / sizeof *edges, 5);
    for (size_t k = 0; k < 1024; k++) {
        sources[4 * k + 2] = k % 70;
        sources[4 * k + 3] = k / 70 * 5;
    }
    const uint64_t target = ptx_take(m, 8192);
    ck_assert(ptx_fill(m, target, 0, 8192));
    ptx_arguments a = {.used = 0};
    ptx_pass_u64(&a, ptx_upload(m, sources, sizeof sources));
    ptx_pass_u64(&a, target);
    const ptx_launch l = ptx_line(ptx_must_load(m, text), "k", 1, 1024, &a);
    ptx_must_run(m, &l);
    static uint64_t got[1024];
    ck_assert(ptx_get(m, got, target, sizeof got));
    for (size_t k = 0; k < 1024; k++) {
        const uint64_t *const s = &sources[4 * k];
        const char size = wide ? '8' : '4';
        ck_assert_uint_eq(
            got[k], inserted(op_cut(s[0], size), op_cut(s[1], size), s[2], s[3], wide ? 64 : 32));
    }
    ptx_machine_free(m);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.integer");
    TCase *const t = tcase_create("integer");
    tcase_add_loop_test(t, an_integer_opcode_does_what_c_does, 0,
                        (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(t, a_division_does_what_c_does, 0,
                        (int)(sizeof divisions / sizeof *divisions));
    tcase_add_test(t, lop3_follows_its_table);
    tcase_add_loop_test(t, bfi_inserts_a_field, 0, 2);
    suite_add_tcase(s, t);
    return unit_main(s);
}
