#include "formats/ggml_blocks.h"

#include <math.h>
#include <string.h>

#include "kernels/half.h"
#include "tests/unit/unit.h"

/* The reference functions of the engine itself (ggml, as in llama-cpp-python 0.3.36, compiled
 * without contracted products) on the inputs below, as FNV-1a of their bytes; NaN counts as 0. */
typedef struct reference {
    const char *name;
    uint64_t quantized, dequantized;
} reference;

static const reference engine[] = {
    {"Q4_0", 0xe751bb4f30e4b89du, 0x167383dce927444fu},
    {"Q4_1", 0xee67f122eeaf83d4u, 0xf7a806367cf03419u},
    {"Q5_0", 0x0a290aad48ae8dbcu, 0xf418e524f19aead9u},
    {"Q5_1", 0xd2ba94ad73b66a25u, 0x94ce94257e3f083fu},
    {"Q8_0", 0x56e1197e97957feeu, 0xfef66ee5cb1c89a8u},
    {"Q2_K", 0x7849aa1e81c72ae5u, 0x4476d3fb0296a958u},
    {"Q3_K", 0x99ad9cfa22e7a997u, 0xe1a837ef80f30d66u},
    {"Q4_K", 0x60a16d10bb643c8du, 0xdae68250f62a6f1au},
    {"Q5_K", 0x9145c1777632231du, 0x00b32b0d538d5ae5u},
    {"Q6_K", 0x86ba57cb14590c74u, 0xffa73f3a8b5ca843u},
    {"TQ1_0", 0x266cf8cb94d6e960u, 0x3e985deca0286842u},
    {"TQ2_0", 0x8bead7605e2b83c3u, 0x281c8ac58d86fe5du},
    {"MXFP4", 0xe0065d72862ac668u, 0xc49cb3c80cb4767eu},
    {"NVFP4", 0, 0x5595b8fd22d8314eu}, /* nothing quantizes to it */
    /* only read */
    {"IQ2_XXS", 0, 0x9afd5b5073821fecu},
    {"IQ2_XS", 0, 0xe9ccc63220dcd2aau},
    {"IQ3_XXS", 0, 0x1604359e427b284au},
    {"IQ1_S", 0, 0xb680a4d8e50ad5cau},
    {"IQ4_NL", 0, 0x06644542546e434du},
    {"IQ3_S", 0, 0x2806aa08b61aac5fu},
    {"IQ2_S", 0, 0xa5334a5caffcb898u},
    {"IQ4_XS", 0, 0x0047e5c029b1df3bu},
    {"IQ1_M", 0, 0x5d182fdbd5bb5e05u},
};

enum {
    TYPES = sizeof engine / sizeof *engine,
    QUANTIZED = 13,
    WRITTEN = 14,
    ELEMENTS = 256 * 16,
    BYTES_MAX = ELEMENTS * 2
};

static uint64_t fnv(const void *bytes, size_t len)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++)
        h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

static uint64_t next(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static void fill_floats(float x[ELEMENTS])
{
    uint64_t state = 1;
    for (int i = 0; i < ELEMENTS; i++) {
        const int block = i / 32;
        int v = (int)(next(&state) % (1 << 24)) - (1 << 23);
        v = block % 7 == 3 ? abs(v) : block % 7 == 5 ? -abs(v) : v;
        x[i] = i < 256 ? 0 : ldexpf((float)v, -(24 + block % 5));
    }
}

static size_t bytes_of(const pare_ggml_type *t)
{
    return ELEMENTS / t->elements * t->bytes;
}

static void fill_bytes(const pare_ggml_type *t, uint8_t bytes[BYTES_MAX])
{
    uint64_t state = 2;
    for (size_t i = 0; i < bytes_of(t); i++)
        bytes[i] = (uint8_t)(next(&state) >> 8);
}

START_TEST(plain_quantizers_have_the_bytes_of_the_engine)
{
    static float x[ELEMENTS];
    static uint8_t bytes[BYTES_MAX];
    const pare_ggml_type *const t = pare_ggml_type_named(engine[_i].name);
    fill_floats(x);
    ck_assert(pare_ggml_encode(t, x, ELEMENTS / t->elements, bytes));
    ck_assert_msg(fnv(bytes, bytes_of(t)) == engine[_i].quantized, "%s", t->name);
}
END_TEST

START_TEST(values_are_those_of_the_engine)
{
    static float x[ELEMENTS];
    static uint8_t bytes[BYTES_MAX];
    const pare_ggml_type *const t = pare_ggml_type_named(engine[_i].name);
    ck_assert_int_eq(pare_ggml_splits(t), _i < WRITTEN);
    fill_bytes(t, bytes);
    pare_ggml_decode(t, bytes, ELEMENTS / t->elements, x);
    for (size_t i = 0; i < ELEMENTS; i++)
        x[i] = isnan(x[i]) ? 0 : x[i];
    ck_assert_msg(fnv(x, sizeof x) == engine[_i].dequantized, "%s", t->name);
}
END_TEST

/* Random bytes come back as they were; in TQ1_0 several bytes mean the same trits. */
START_TEST(join_is_the_inverse_of_split)
{
    static uint8_t bytes[BYTES_MAX];
    const pare_ggml_type *const t = pare_ggml_type_named(engine[_i].name);
    fill_bytes(t, bytes);
    for (size_t i = 0; i < ELEMENTS / t->elements; i++) {
        pare_ggml_block once, twice;
        uint8_t again[256];
        pare_ggml_split(t, bytes + i * t->bytes, &once);
        pare_ggml_join(t, &once, again);
        if (strcmp(t->name, "TQ1_0") != 0)
            ck_assert_mem_eq(again, bytes + i * t->bytes, t->bytes);
        pare_ggml_split(t, again, &twice);
        ck_assert_mem_eq(&once, &twice, sizeof once);
    }
}
END_TEST

/* Codes -8..7 of a group of 32 with one F16 scale, as GPTQ and the plain grid make them. */
START_TEST(symmetric_codes_of_groups_of_32_pass_through_q4_0)
{
    const pare_ggml_type *const t = pare_ggml_type_named("Q4_0");
    pare_ggml_block b = {.d = pare_f32_to_f16(-0.0173f)};
    uint8_t bytes[18];
    float x[32];
    for (size_t j = 0; j < 32; j++)
        b.code[j] = (uint8_t)(j * 7 % 16);
    pare_ggml_join(t, &b, bytes);
    pare_ggml_decode(t, bytes, 1, x);
    for (int j = 0; j < 32; j++)
        ck_assert(x[j] == (float)(j * 7 % 16 - 8) * pare_f16_to_f32(b.d));
    ck_assert_uint_eq(bytes[2], 0 | 16 * 7 % 16 << 4); /* elements 0 and 16 */
    ck_assert_uint_eq(bytes[3], 7 | 17 * 7 % 16 << 4);
}
END_TEST

/* The reference of the engine on such a block: 2^127 codes of half a step, and no NaN from 0. */
START_TEST(the_largest_scale_of_mxfp4_has_finite_values)
{
    const pare_ggml_type *const t = pare_ggml_type_named("MXFP4");
    pare_ggml_block b = {.d = 255, .code = {0, 1, 8, 9, 2}};
    uint8_t bytes[17];
    float x[32];
    pare_ggml_join(t, &b, bytes);
    pare_ggml_decode(t, bytes, 1, x);
    ck_assert(x[0] == 0 && x[1] == 0x1p127f && x[2] == 0 && x[3] == -0x1p127f && isinf(x[4]));
    ck_assert(x[31] == 0);
}
END_TEST

START_TEST(what_f16_scales_cannot_hold_is_refused)
{
    static float x[256];
    static const float bad[] = {NAN, INFINITY, -INFINITY, 3e38f, -3e38f};
    const pare_ggml_type *const t = pare_ggml_type_named(engine[_i].name);
    pare_ggml_block b;
    uint8_t bytes[256];
    ck_assert(pare_ggml_quantize(t, x, &b));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        for (size_t at = 0; at < t->elements; at += t->elements - 1) {
            memset(x, 0, sizeof x);
            x[at] = bad[i];
            if (isfinite(bad[i]) && strcmp(t->name, "MXFP4") == 0) /* has exponents of F32 */
                continue;
            ck_assert_msg(!pare_ggml_quantize(t, x, &b), "%s: %g", t->name, (double)bad[i]);
            ck_assert(!pare_ggml_encode(t, x, 1, bytes));
        }
    }
    memset(x, 0, sizeof x);
    for (float tiny = 0x1p-149f; tiny < 1e-4f; tiny *= 3) { /* codes stay in range */
        x[0] = tiny;
        x[31] = -tiny / 2;
        ck_assert(pare_ggml_quantize(t, x, &b));
        pare_ggml_join(t, &b, bytes);
        pare_ggml_block again;
        pare_ggml_split(t, bytes, &again);
        ck_assert_mem_eq(&b, &again, sizeof b);
    }
}
END_TEST

START_TEST(types_are_found_by_number_and_name)
{
    size_t known = 0;
    for (uint32_t id = 0; id < 100; id++) {
        const pare_ggml_type *const t = pare_ggml_type_find(id);
        if (!t)
            continue;
        known++;
        ck_assert_uint_eq(t->id, id);
        ck_assert_ptr_eq(pare_ggml_type_named(t->name), t);
        ck_assert((t->elements & (t->elements - 1)) == 0 && t->elements <= PARE_GGML_BLOCK_MAX);
        ck_assert_int_eq(t->elements == 1, t->dtype != PARE_DTYPES);
        if (t->dtype != PARE_DTYPES)
            ck_assert_uint_eq(t->bytes * 8, pare_dtype_bits(t->dtype));
    }
    ck_assert_uint_eq(known, 31);
    ck_assert_ptr_null(pare_ggml_type_find(36));
    ck_assert_ptr_null(pare_ggml_type_named("Q9_9"));
    ck_assert_uint_eq(pare_ggml_type_named("Q6_K")->bytes, 210);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ggml_blocks");
    TCase *const t = tcase_create("ggml_blocks");
    tcase_add_loop_test(t, plain_quantizers_have_the_bytes_of_the_engine, 0, QUANTIZED);
    tcase_add_loop_test(t, values_are_those_of_the_engine, 0, TYPES);
    tcase_add_loop_test(t, join_is_the_inverse_of_split, 0, WRITTEN);
    tcase_add_test(t, symmetric_codes_of_groups_of_32_pass_through_q4_0);
    tcase_add_test(t, the_largest_scale_of_mxfp4_has_finite_values);
    tcase_add_loop_test(t, what_f16_scales_cannot_hold_is_refused, 0, QUANTIZED);
    tcase_add_test(t, types_are_found_by_number_and_name);
    suite_add_tcase(s, t);
    return unit_main(s);
}
