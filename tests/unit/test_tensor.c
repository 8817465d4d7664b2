#include <math.h>
#include <string.h>

#include "runtime/tensor.h"

#include "tests/unit/unit.h"
#include <math.h>

START_TEST(names_of_dtypes_read_back)
{
    for (unsigned t = 0; t < PARE_DTYPES; t++)
        ck_assert_int_eq(pare_dtype_parse(pare_dtype_name((pare_dtype)t)), (pare_dtype)t);
    ck_assert_int_eq(pare_dtype_parse("f32"), PARE_DTYPES);
    ck_assert_int_eq(pare_dtype_parse(""), PARE_DTYPES);
    ck_assert_str_eq(pare_dtype_name(PARE_DTYPES), "unknown");
    ck_assert_uint_eq(pare_dtype_bits(PARE_F6_E2M3), 6);
    ck_assert_uint_eq(pare_dtype_bits(PARE_DTYPES), 0);
}
END_TEST

static const struct {
    pare_dtype dtype;
    uint32_t rank;
    uint64_t shape[3];
    bool ok;
    uint64_t bytes;
} sizes[] = {
    {PARE_F32, 0, {0}, true, 4},
    {PARE_F16, 2, {3, 5}, true, 30},
    {PARE_U8, 3, {2, 0, 7}, true, 0},
    {PARE_F4, 1, {4}, true, 2},
    {PARE_F4, 1, {3}, false, 0},
    {PARE_F6_E2M3, 1, {4}, true, 3},
    {PARE_F6_E3M2, 1, {2}, false, 0},
    {PARE_U8, 2, {UINT64_C(1) << 32, UINT64_C(1) << 32}, false, 0},
    {PARE_U8, 1, {UINT64_C(1) << 61}, false, 0},
    {PARE_U8, 1, {(UINT64_C(1) << 61) - 1}, true, (UINT64_C(1) << 61) - 1},
    {PARE_U8, 3, {0, UINT64_C(1) << 63, 4}, false, 0},
    {PARE_U8, 3, {UINT64_C(1) << 63, 4, 0}, false, 0},
    {PARE_DTYPES, 0, {0}, false, 0},
    {PARE_U8, PARE_RANK_MAX + 1, {0}, false, 0},
};

START_TEST(bytes_are_the_checked_product)
{
    uint64_t bytes = 77;
    const pare_status s =
        pare_tensor_bytes(sizes[_i].dtype, sizes[_i].rank, sizes[_i].shape, &bytes);
    ck_assert_int_eq(s, sizes[_i].ok ? PARE_OK : PARE_EFORMAT);
    ck_assert_uint_eq(bytes, sizes[_i].bytes);
}
END_TEST

/* 1,500 values: more than one piece of the copy that unaligned data go through. */
enum { COUNT = 1500 };

static uint32_t encode(pare_dtype t, size_t i)
{
    const float x = (float)i; /* exact in F16 and BF16 up to 256 */
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (t == PARE_F32)
        return u;
    if (t == PARE_BF16)
        return u >> 16;
    return i == 0 ? 0 : ((u >> 13) & 0x3ff) | (((u >> 23) - 112) << 10);
}

/* 251 has no factor in common with the pieces that go through a buffer. */
START_TEST(elements_become_f32_from_any_address)
{
    static const pare_dtype types[] = {PARE_F32, PARE_F16, PARE_BF16};
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t k = 0; k < 3; k++) {
        const size_t size = pare_dtype_bits(types[k]) / 8;
        for (size_t skew = 0; skew < 2; skew++) {
            unsigned char *const bytes = malloc(COUNT * size + skew);
            float *const out = malloc(COUNT * sizeof *out);
            for (size_t i = 0; i < COUNT; i++) {
                const uint32_t u = encode(types[k], i % 251);
                memcpy(bytes + skew + i * size, &u, size);
            }
            const pare_tensor t = {"x", types[k], 1, {COUNT}, bytes + skew, COUNT * size};
            ck_assert_int_eq(pare_tensor_to_f32(&cx, &t, 0, COUNT, out), PARE_OK);
            for (size_t i = 0; i < COUNT; i++)
                ck_assert(out[i] == (float)(i % 251));
            ck_assert_int_eq(pare_tensor_to_f32(&cx, &t, COUNT - 1, 1, out), PARE_OK);
            ck_assert(out[0] == (float)((COUNT - 1) % 251));
            ck_assert_int_eq(pare_tensor_to_f32(&cx, &t, COUNT, 0, out), PARE_OK);
            free(bytes);
            free(out);
        }
    }
}
END_TEST

/* Ties go to the even neighbour, also across a power of two; too large is infinite. */
START_TEST(floats_are_rounded_half_to_even)
{
    static const struct {
        float x;
        uint16_t f16, bf16;
    } cases[] = {
        {1.0f, 0x3c00, 0x3f80},
        {-2.5f, 0xc100, 0xc020},
        {1.0f + 0x1p-8f, 0x3c04, 0x3f80},
        {1.0f + 0x3p-8f, 0x3c0c, 0x3f82},
        {2.0f - 0x1p-8f, 0x3ffc, 0x4000},
        {1.0f + 0x1p-11f, 0x3c00, 0x3f80},
        {1.0f + 0x3p-11f, 0x3c02, 0x3f80},
        {3.4e38f, 0x7c00, 0x7f80},
        {-0.0f, 0x8000, 0x8000},
    };
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint16_t half;
        float same;
        ck_assert_int_eq(pare_f32_to_dtype(&cx, PARE_F16, &cases[i].x, 1, &half), PARE_OK);
        ck_assert_uint_eq(half, cases[i].f16);
        ck_assert_int_eq(pare_f32_to_dtype(&cx, PARE_BF16, &cases[i].x, 1, &half), PARE_OK);
        ck_assert_uint_eq(half, cases[i].bf16);
        ck_assert_int_eq(pare_f32_to_dtype(&cx, PARE_F32, &cases[i].x, 1, &same), PARE_OK);
        ck_assert_mem_eq(&same, &cases[i].x, sizeof same);
    }
    const float nan = NAN;
    uint16_t half;
    ck_assert_int_eq(pare_f32_to_dtype(&cx, PARE_BF16, &nan, 1, &half), PARE_OK);
    ck_assert((half & 0x7f80) == 0x7f80 && (half & 0x7f) != 0);
    ck_assert_int_eq(pare_f32_to_dtype(&cx, PARE_I8, &nan, 1, &half), PARE_ENOTSUP);
    ck_assert_str_eq(cx.what, "floats cannot become I8");
}
END_TEST

START_TEST(elements_out_of_range_are_refused)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    const float data[2] = {1, 2};
    float out[4];
    const pare_tensor t = {"x.weight", PARE_F32, 1, {2}, data, sizeof data};
    ck_assert_int_eq(pare_tensor_to_f32(&cx, &t, 1, 2, out), PARE_ESHAPE);
    ck_assert_str_eq(cx.what, "tensor x.weight: elements 1 to 3 asked for, but there are 2");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_tensor_to_f32(&cx, &t, UINT64_MAX, 2, out), PARE_ESHAPE);
    pare_ctx_clear(&cx);
    const pare_tensor i8 = {"y", PARE_I8, 1, {8}, data, sizeof data};
    ck_assert_int_eq(pare_tensor_to_f32(&cx, &i8, 0, 1, out), PARE_ENOTSUP);
    ck_assert_str_eq(cx.what, "tensor y has dtype I8, expected F32, F16 or BF16");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tensor");
    TCase *const t = tcase_create("tensor");
    tcase_add_test(t, names_of_dtypes_read_back);
    tcase_add_loop_test(t, bytes_are_the_checked_product, 0, sizeof sizes / sizeof *sizes);
    tcase_add_test(t, elements_become_f32_from_any_address);
    tcase_add_test(t, floats_are_rounded_half_to_even);
    tcase_add_test(t, elements_out_of_range_are_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
