/* Operations on floating point numbers, and conversions, against C: NaN, infinities, denormals,
 * ties, overflow, and random operands. F16 is checked against a search in the list of its values.
 */
#include "tests/ptx/ptx_ops_test.h"

static const uint64_t edges32[] = {
    0x00000000, 0x80000000, 0x3f800000, 0xbf800000, 0x00000001, 0x80000001, 0x007fffff, 0x00800000,
    0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc12345, 0x7f800001, 0x3f000000,
    0x3fc00000, 0x40200000, 0xbf000000, 0xc0200000, 0x4f000000, 0xcf000000, 0x4effffff, 0xcf000001,
    0x4f800000, 0x5f000000, 0x4b800001, 0x477ff000, 0x477fefff, 0x33000000, 0x33000001, 0x387fc000,
    0x42fe0000, 0x437f0000, 0x3f800001, 0x00400000};
static const uint64_t edges64[] = {0,
                                   0x8000000000000000,
                                   0x3ff0000000000000,
                                   0xbff0000000000000,
                                   1,
                                   0x800fffffffffffff,
                                   0x0010000000000000,
                                   0x7fefffffffffffff,
                                   0x7ff0000000000000,
                                   0xfff0000000000000,
                                   0x7ff8000000000000,
                                   0x3fe0000000000000,
                                   0x4004000000000000,
                                   0xc004000000000000,
                                   0x41e0000000000000,
                                   0x41dfffffffc00000,
                                   0x41efffffffe00000,
                                   0xc1e0000000000000,
                                   0xc1e0000000200000,
                                   0x43e0000000000000,
                                   0xc3e0000000000000,
                                   0x47efffffe0000000,
                                   0x47efffffefffffff,
                                   0x47effffff0000000,
                                   0x36a0000000000000,
                                   0x3690000000000001,
                                   0x40effc0000000000,
                                   0x3ff0020000000001,
                                   0x3ff0020000000000};
static const uint64_t edges16[] = {0x0000, 0x8000, 0x3c00, 0xbc00, 0x0001, 0x8001, 0x03ff, 0x0400,
                                   0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x3800, 0x3e00,
                                   0x4100, 0x3c01, 0x1400, 0x0200, 0x5bff, 0x3555};

static uint64_t sources[OP_VALUES * 4];

#define R(name, expression)                                                                        \
    static uint64_t name(uint64_t a, uint64_t b, uint64_t c)                                       \
    {                                                                                              \
        (void)a, (void)b, (void)c;                                                                 \
        return (uint64_t)(expression);                                                             \
    }
#define F(name, expression)                                                                        \
    static uint64_t name(uint64_t ba, uint64_t bb, uint64_t bc)                                    \
    {                                                                                              \
        const float a = op_f32(ba), b = op_f32(bb), c = op_f32(bc);                                \
        (void)a, (void)b, (void)c;                                                                 \
        return (uint64_t)(expression);                                                             \
    }
#define D(name, expression)                                                                        \
    static uint64_t name(uint64_t ba, uint64_t bb, uint64_t bc)                                    \
    {                                                                                              \
        const double a = op_f64(ba), b = op_f64(bb), c = op_f64(bc);                               \
        (void)a, (void)b, (void)c;                                                                 \
        return (uint64_t)(expression);                                                             \
    }

F(add, op_bits32(a + b))
F(sub, op_bits32(a - b))
F(mul, op_bits32(a *b))
F(fused, op_bits32(fmaf(a, b, c)))
F(divide, op_bits32(a / b))
F(root, op_bits32(sqrtf(a)))
F(inverse, op_bits32(1 / a))
F(exp2_32, op_bits32((float)exp2((double)a)))
F(abs_32, op_bits32(fabsf(a)))
F(neg_32, op_bits32(-a))
F(eq, a == b)
F(ne, isless(a, b) || isgreater(a, b))
F(lt, isless(a, b))
F(le, islessequal(a, b))
F(gt, isgreater(a, b))
F(ge, isgreaterequal(a, b))
F(equ, a == b || isunordered(a, b))
F(neu, a != b || isunordered(a, b))
F(ltu, isless(a, b) || isunordered(a, b))
F(leu, islessequal(a, b) || isunordered(a, b))
F(gtu, isgreater(a, b) || isunordered(a, b))
F(geu, isgreaterequal(a, b) || isunordered(a, b))
F(num, !isunordered(a, b))
F(nan_, isunordered(a, b))

/* fmin and fmax leave the sign of zero open, and some do not drop a signalling NaN. */
static float least(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a == 0 && b == 0 ? (signbit(a) || signbit(b) ? -0.0f : 0.0f) : fminf(a, b);
}

static float most(float a, float b)
{
    if (isnan(a) || isnan(b))
        return isnan(a) ? b : a;
    return a == 0 && b == 0 ? (signbit(a) && signbit(b) ? -0.0f : 0.0f) : fmaxf(a, b);
}
F(min_32, op_bits32(least(a, b)))
F(max_32, op_bits32(most(a, b)))

D(add64, op_bits64(a + b))
D(sub64, op_bits64(a - b))
D(mul64, op_bits64(a *b))
D(fused64, op_bits64(fma(a, b, c)))
D(divide64, op_bits64(a / b))
D(root64, op_bits64(sqrt(a)))
D(inverse64, op_bits64(1 / a))
D(abs64, op_bits64(fabs(a)))
D(neg64, op_bits64(-a))
D(lt64, isless(a, b))
D(geu64, isgreaterequal(a, b) || isunordered(a, b))
D(narrow, op_bits32((float)a))
F(widen, op_bits64((double)a))

/* Rounded in long double, then put into the range. */
static uint64_t to_integer(long double v, int bits, bool sign, bool wide)
{
    const long double top = ldexpl(1, sign ? bits - 1 : bits), bottom = sign ? -top : 0;
    if (isnan(v))
        return wide || bits == 64 ? (uint64_t)1 << (bits - 1) : 0;
    if (v >= top)
        return bits == 64 ? (sign ? INT64_MAX : UINT64_MAX)
                          : ((uint64_t)1 << (sign ? bits - 1 : bits)) - 1;
    if (v < bottom)
        return sign ? ~(uint64_t)0 << (bits - 1) : 0;
    return v < 0 ? (uint64_t)(int64_t)v : (uint64_t)v;
}
#define N32 rintl((long double)op_f32(a))
#define Z32 truncl((long double)op_f32(a))
#define N64 rintl((long double)op_f64(a))
#define Z64 truncl((long double)op_f64(a))
R(rzi_s32, to_integer(Z32, 32, true, false))
R(rni_s32, to_integer(N32, 32, true, false))
R(rmi_s32, to_integer(floorl((long double)op_f32(a)), 32, true, false))
R(rpi_u32, to_integer(ceill((long double)op_f32(a)), 32, false, false))
R(rzi_u32, to_integer(Z32, 32, false, false))
R(rni_s8, to_integer(N32, 8, true, false))
R(rzi_u8, to_integer(Z32, 8, false, false))
R(rni_s16, to_integer(N32, 16, true, false))
R(rzi_u16, to_integer(Z32, 16, false, false))
R(rzi_s64, to_integer(Z32, 64, true, false))
R(rzi_u64, to_integer(Z32, 64, false, false))
R(rzi_s32_d, to_integer(Z64, 32, true, true))
R(rni_u32_d, to_integer(N64, 32, false, true))
R(rzi_s64_d, to_integer(Z64, 64, true, true))
R(rzi_u64_d, to_integer(Z64, 64, false, true))
F(rni_f, op_bits32(rintf(a)))
F(rzi_f, op_bits32(truncf(a)))
F(rmi_f, op_bits32(floorf(a)))
F(rpi_f, op_bits32(ceilf(a)))
F(clamp01, op_bits32(isnan(a) || a < 0 ? 0 : a > 1 ? 1 : a == 0 ? 0.0f : a))

R(f_of_s32, op_bits32((float)(int32_t)a))
R(f_of_u32, op_bits32((float)(uint32_t)a))
R(f_of_s64, op_bits32((float)(int64_t)a))
R(f_of_u64, op_bits32((float)a))
R(f_of_s16, op_bits32((float)(int16_t)a))
R(d_of_s32, op_bits64((double)(int32_t)a))
R(d_of_u64, op_bits64((double)a))
R(s32_of_s8, (uint64_t)(int8_t)a)
R(s64_of_s32, (uint64_t)(int64_t)(int32_t)a)
R(u64_of_u32, (uint32_t)a)
R(s32_of_s16, (uint64_t)(int16_t)a)
R(u16_of_u32, a & 0xffff)
R(u32_of_u64, a & 0xffffffff)
R(copy_, a)
R(u32_of_u8, a & 0xff)
R(s16_of_s8, (uint64_t)(int8_t)a)
R(s64_of_u16, a & 0xffff)
R(sat_s8, (uint64_t)((int32_t)a > 127 ? 127 : (int32_t)a < -128 ? -128 : (int32_t)a))

/* ---- F16: what its bits mean, and the nearest value by a search in all of them ---- */
static double half_value(uint64_t h)
{
    const double sign = h & 0x8000 ? -1 : 1;
    const int exponent = (int)(h >> 10 & 31), fraction = (int)(h & 1023);
    if (exponent == 31)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static uint64_t nearest_half(long double v)
{
    if (isnan(v))
        return 0x7fff;
    const uint64_t sign = signbit(v) ? 0x8000 : 0;
    const long double a = fabsl(v);
    if (a >= 65520)
        return sign | 0x7c00;
    uint64_t low = 0, high = 0x7c00; /* value(low) <= a < value(high), 65536 for infinity */
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        *((long double)half_value(middle) <= a ? &low : &high) = middle;
    }
    const long double below = (long double)half_value(low),
                      above = high == 0x7c00 ? 65536 : (long double)half_value(high);
    if (a - below == above - a)
        return sign | (low & 1 ? high : low);
    return sign | (a - below < above - a ? low : high);
}
#define H(v) (long double)half_value(v)
R(half_of_f32, nearest_half((long double)op_f32(a)))
R(half_of_f64, nearest_half((long double)op_f64(a)))
R(f32_of_half, op_bits32((float)half_value(a)))
R(half_of_s32, nearest_half((long double)(int32_t)a))
R(add16, nearest_half(H(a) + H(b)))
R(sub16, nearest_half(H(a) - H(b)))
R(mul16, nearest_half(H(a) * H(b)))
R(fused16, nearest_half(H(a) * H(b) + H(c)))
R(min16, nearest_half((long double)least((float)half_value(a), (float)half_value(b))))
R(max16, nearest_half((long double)most((float)half_value(a), (float)half_value(b))))
R(neg16, nearest_half(-H(a)))
R(lt16, half_value(a) < half_value(b))
R(rzi_s32_half, to_integer(truncl(H(a)), 32, true, false))

#define PAIR(name, one)                                                                            \
    R(name, one(a & 0xffff, b & 0xffff, c & 0xffff) |                                              \
                one(a >> 16 & 0xffff, b >> 16 & 0xffff, c >> 16 & 0xffff) << 16)
PAIR(add_pair, add16)
PAIR(sub_pair, sub16)
PAIR(mul_pair, mul16)
PAIR(fused_pair, fused16)
PAIR(max_pair, max16)
R(max_nan16, isnan(half_value(a)) || isnan(half_value(b)) ? 0x7fff : max16(a, b, 0))
R(ge_one16, half_value(a) >= half_value(b) ? 0x3c00 : 0)
R(neu_ones16, !(half_value(a) == half_value(b)) ? 0xffff : 0)
PAIR(max_nan_pair, max_nan16)
PAIR(ge_one_pair, ge_one16)
PAIR(neu_ones_pair, neu_ones16)
R(pack_pair, half_of_f32(a, 0, 0) << 16 | half_of_f32(b, 0, 0))

/* BF16: the two neighbours of an F32, the nearer one, the even one in the middle. */
static uint64_t bf16_of_f32(uint64_t a, uint64_t b, uint64_t c)
{
    (void)b, (void)c;
    if (isnan(op_f32(a)))
        return 0x7fff;
    const uint64_t low = a >> 16, rest = a & 0xffff;
    return rest > 0x8000 || (rest == 0x8000 && low & 1) ? low + 1 : low;
}
R(f32_of_bf16, op_bits32(op_f32(a << 16)))

/* The nearest BF16 of an exact value: between its neighbours, which are F32 with 16 bits of zeros.
 */
static uint64_t nearest_bf16(long double v)
{
    if (isnan(v))
        return 0x7fff;
    const uint64_t sign = signbit(v) ? 0x8000 : 0;
    const long double a = fabsl(v);
    uint64_t low = 0, high = 0x7f80;
    if (isinf(v) || a >= 0x1.ffp127L)
        return sign | 0x7f80;
    while (high - low > 1) {
        const uint64_t middle = (low + high) / 2;
        *((long double)op_f32(middle << 16) <= a ? &low : &high) = middle;
    }
    const long double below = (long double)op_f32(low << 16),
                      above = high == 0x7f80 ? 0x1p128L : (long double)op_f32(high << 16);
    if (a - below == above - a)
        return sign | (low & 1 ? high : low);
    return sign | (a - below < above - a ? low : high);
}
#define B(v) (long double)op_f32((v) << 16)

/* p + c, or its neighbour on the side of what the sum lost: a tie that is none must not look like
 * one. */
static long double nudged(long double p, long double c)
{
    const long double sum = p + c, part = sum - p, lost = (p - (sum - part)) + (c - part);
    return isfinite(sum) && lost != 0 ? nextafterl(sum, lost > 0 ? HUGE_VALL : -HUGE_VALL) : sum;
}
R(fused_bf16, nearest_bf16(nudged(B(a) * B(b), B(c))))
R(max_bf16, nearest_bf16((long double)most(op_f32(a << 16), op_f32(b << 16))))
R(abs_bf16, nearest_bf16(fabsl(B(a))))

/* Towards 0, down and up: what is nearest, or its neighbour on the side that is asked for. */
static uint64_t directed(long double exact, int side)
{
    float near = (float)exact;
    if (isnan(near) || isinf(exact))
        return op_bits32(near);
    if (side == 0)
        side = exact < 0 ? 1 : -1;
    if (side < 0 && (long double)near > exact)
        near = nextafterf(near, -INFINITY);
    if (side > 0 && (long double)near < exact)
        near = nextafterf(near, INFINITY);
    return op_bits32(near);
}
#define L(v) (long double)op_f32(v)
R(mul_rz, L(a) * L(b) == 0 ? mul(a, b, 0) : directed(L(a) * L(b), 0))
R(mul_rm, L(a) * L(b) == 0 ? mul(a, b, 0) : directed(L(a) * L(b), -1))
R(mul_rp, L(a) * L(b) == 0 ? mul(a, b, 0) : directed(L(a) * L(b), 1))
R(rz_half, isnan(op_f32(a)) ? 0x7fff
                            : nearest_half((long double)op_f32(a)) -
                                  (fabs(half_value(nearest_half((long double)op_f32(a)))) >
                                   fabs((double)op_f32(a))))
F(set_ones, isgreater(a, b) ? ~0u : 0)
F(set_one, isgreater(a, b) ? 0x3f800000u : 0)
F(min_nan, isnan(a) || isnan(b) ? 0x7fffffffu : op_bits32(least(a, b)))

static const op_case cases[] = {
    {"add.rn.f32", "444", add},
    {"add.f32", "444", add},
    {"sub.rn.f32", "444", sub},
    {"mul.rn.f32", "444", mul},
    {"fma.rn.f32", "4444", fused},
    {"div.rn.f32", "444", divide},
    {"sqrt.rn.f32", "44", root},
    {"rcp.rn.f32", "44", inverse},
    {"ex2.approx.f32", "44", exp2_32},
    {"abs.f32", "44", abs_32},
    {"neg.f32", "44", neg_32},
    {"min.f32", "444", min_32},
    {"max.f32", "444", max_32},
    {"setp.eq.f32", "p44", eq},
    {"setp.ne.f32", "p44", ne},
    {"setp.lt.f32", "p44", lt},
    {"setp.le.f32", "p44", le},
    {"setp.gt.f32", "p44", gt},
    {"setp.ge.f32", "p44", ge},
    {"setp.equ.f32", "p44", equ},
    {"setp.neu.f32", "p44", neu},
    {"setp.ltu.f32", "p44", ltu},
    {"setp.leu.f32", "p44", leu},
    {"setp.gtu.f32", "p44", gtu},
    {"setp.geu.f32", "p44", geu},
    {"setp.num.f32", "p44", num},
    {"setp.nan.f32", "p44", nan_},
    {"cvt.f64.f32", "84", widen},
    {"cvt.rzi.s32.f32", "44", rzi_s32},
    {"cvt.rni.s32.f32", "44", rni_s32},
    {"cvt.rmi.s32.f32", "44", rmi_s32},
    {"cvt.rpi.u32.f32", "44", rpi_u32},
    {"cvt.rzi.u32.f32", "44", rzi_u32},
    {"cvt.rni.s8.f32", "24", rni_s8},
    {"cvt.rzi.u8.f32", "24", rzi_u8},
    {"cvt.rni.s16.f32", "24", rni_s16},
    {"cvt.rzi.u16.f32", "24", rzi_u16},
    {"cvt.rzi.s64.f32", "84", rzi_s64},
    {"cvt.rzi.u64.f32", "84", rzi_u64},
    {"cvt.rni.f32.f32", "44", rni_f},
    {"cvt.rzi.f32.f32", "44", rzi_f},
    {"cvt.rmi.f32.f32", "44", rmi_f},
    {"cvt.rpi.f32.f32", "44", rpi_f},
    {"cvt.sat.f32.f32", "44", clamp01},
    {"cvt.rn.f16.f32", "24", half_of_f32},
    {"cvt.rn.f16x2.f32", "444", pack_pair},
    {"cvt.rn.bf16.f32", "24", bf16_of_f32},
    {"cvt.f32.bf16", "42", f32_of_bf16},
    {"cvt.rz.f16.f32", "24", rz_half},
    {"mul.rz.f32", "444", mul_rz},
    {"mul.rm.f32", "444", mul_rm},
    {"mul.rp.f32", "444", mul_rp},
    {"set.gt.u32.f32", "444", set_ones},
    {"set.gt.f32.f32", "444", set_one},
    {"min.NaN.f32", "444", min_nan},
    {"fma.rn.bf16", "2222", fused_bf16},
    {"max.bf16", "222", max_bf16},
    {"abs.bf16", "22", abs_bf16},
};
static const op_case doubles[] = {
    {"add.rn.f64", "888", add64},
    {"sub.rn.f64", "888", sub64},
    {"mul.rn.f64", "888", mul64},
    {"fma.rn.f64", "8888", fused64},
    {"div.rn.f64", "888", divide64},
    {"sqrt.rn.f64", "88", root64},
    {"rcp.rn.f64", "88", inverse64},
    {"abs.f64", "88", abs64},
    {"neg.f64", "88", neg64},
    {"setp.lt.f64", "p88", lt64},
    {"setp.geu.f64", "p88", geu64},
    {"cvt.rn.f32.f64", "48", narrow},
    {"cvt.rn.f16.f64", "28", half_of_f64},
    {"cvt.rzi.s32.f64", "48", rzi_s32_d},
    {"cvt.rni.u32.f64", "48", rni_u32_d},
    {"cvt.rzi.s64.f64", "88", rzi_s64_d},
    {"cvt.rzi.u64.f64", "88", rzi_u64_d},
    {"cvt.rn.f32.s32", "44", f_of_s32},
    {"cvt.rn.f32.u32", "44", f_of_u32},
    {"cvt.rn.f32.s64", "48", f_of_s64},
    {"cvt.rn.f32.u64", "48", f_of_u64},
    {"cvt.rn.f32.s16", "42", f_of_s16},
    {"cvt.rn.f64.s32", "84", d_of_s32},
    {"cvt.rn.f64.u64", "88", d_of_u64},
    {"cvt.s32.s8", "42", s32_of_s8},
    {"cvt.s32.s8", "44", s32_of_s8},
    {"cvt.u32.u8", "44", u32_of_u8},
    {"cvt.s64.s32", "84", s64_of_s32},
    {"cvt.u64.u32", "84", u64_of_u32},
    {"cvt.s32.s16", "42", s32_of_s16},
    {"cvt.u16.u32", "24", u16_of_u32},
    {"cvt.u32.u16", "42", copy_},
    {"cvt.u32.u64", "48", u32_of_u64},
    {"cvt.s16.s8", "22", s16_of_s8},
    {"cvt.u64.u16", "82", s64_of_u16},
    {"cvt.sat.s8.s32", "24", sat_s8},
};
static const op_case halves[] = {
    {"add.f16", "222", add16},
    {"sub.f16", "222", sub16},
    {"mul.rn.f16", "222", mul16},
    {"fma.rn.f16", "2222", fused16},
    {"min.f16", "222", min16},
    {"max.f16", "222", max16},
    {"neg.f16", "22", neg16},
    {"setp.lt.f16", "p22", lt16},
    {"cvt.f32.f16", "42", f32_of_half},
    {"cvt.rzi.s32.f16", "42", rzi_s32_half},
    {"cvt.rn.f16.s32", "24", half_of_s32},
    {"add.f16x2", "444", add_pair},
    {"sub.rn.f16x2", "444", sub_pair},
    {"mul.f16x2", "444", mul_pair},
    {"fma.rn.f16x2", "4444", fused_pair},
    {"max.f16x2", "444", max_pair},
    {"max.NaN.f16x2", "444", max_nan_pair},
    {"set.ge.f16x2.f16x2", "444", ge_one_pair},
    {"set.neu.u32.f16x2", "444", neu_ones_pair},
};

START_TEST(an_f32_opcode_does_what_c_does)
{
    op_sources(sources, edges32, sizeof edges32 / sizeof *edges32, (uint64_t)_i + 1);
    op_check(&cases[_i], sources, strncmp(cases[_i].opcode, "cvt.f64", 7) == 0);
}
END_TEST

START_TEST(an_f64_opcode_or_conversion_does_what_c_does)
{
    op_sources(sources, edges64, sizeof edges64 / sizeof *edges64, (uint64_t)_i + 1);
    op_check(&doubles[_i], sources, true);
}
END_TEST

START_TEST(an_f16_opcode_rounds_once)
{
    uint64_t pairs[2 * sizeof edges16 / sizeof *edges16];
    const size_t n = sizeof edges16 / sizeof *edges16;
    for (size_t k = 0; k < n; k++) { /* both halves of a pair, and integers */
        pairs[k] = edges16[k] | edges16[n - 1 - k] << 16;
        pairs[n + k] = edges16[k];
    }
    op_sources(sources, pairs, 2 * n, (uint64_t)_i + 1);
    op_check(&halves[_i], sources, false);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.float");
    TCase *const t = tcase_create("float");
    tcase_add_loop_test(t, an_f32_opcode_does_what_c_does, 0, (int)(sizeof cases / sizeof *cases));
    tcase_add_loop_test(t, an_f64_opcode_or_conversion_does_what_c_does, 0,
                        (int)(sizeof doubles / sizeof *doubles));
    tcase_add_loop_test(t, an_f16_opcode_rounds_once, 0, (int)(sizeof halves / sizeof *halves));
    suite_add_tcase(s, t);
    return unit_main(s);
}
