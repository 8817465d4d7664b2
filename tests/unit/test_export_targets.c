#include <string.h>

#include "formats/export_target.h"
#include "tests/data/encoded.h"
#include "tests/unit/uniform.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* A linear in the tensors of a target. */
typedef struct made {
    pare_export_part part[PARE_EXPORT_PARTS];
    void *data[PARE_EXPORT_PARTS];
    size_t parts;
} made;

typedef unsigned at(size_t row, size_t column);

static unsigned one(size_t row, size_t column)
{
    (void)row;
    (void)column;
    return 1;
}

/* Codes and zero points by rules, scales (1 + row + group) / 4. */
static made make_as(const char *target, pare_packed_linear l, at *code, at *zero, pare_dtype floats)
{
    made m;
    pare_codes c;
    pare_packed_planes p;
    pare_linear w;
    const pare_config config = {.blocks = 1};
    const pare_export_target *const t = pare_export_find(target);
    ck_assert_ptr_nonnull(t);
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    for (size_t i = 0; i < l.n * l.k; i++)
        c.codes[i] = (uint8_t)code(i / l.k, i % l.k);
    for (size_t i = 0; i < l.n * c.groups; i++) {
        c.zeros[i] = (uint8_t)(l.symmetric ? c.zeros[i] : zero(i / c.groups, i % c.groups));
        c.scales[i] = (float)(1 + i / c.groups + i % c.groups) / 4;
    }
    l.name = "w";
    l.activation.scale = c.input_scale;
    ck_assert_msg(pare_packed_pack(&cx, &arena, &l, &c, &p) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_packed_view(&cx, &arena, &l, p.plane, &w) == PARE_OK, "%s", cx.what);
    const pare_export_linear linear = {.name = "w", .is_packed = true, .packed = l, .weights = &w};
    const pare_export_model model = {
        .config = &config, .linear = &linear, .linears = 1, .floats = floats};
    ck_assert_msg(t->check_linear(&cx, &linear) == PARE_OK, "%s", cx.what);
    m.parts = t->parts(&model, &linear, m.part);
    for (size_t i = 0; i < m.parts; i++) {
        uint64_t bytes;
        ck_assert_int_eq(
            pare_tensor_bytes(m.part[i].dtype, m.part[i].rank, m.part[i].shape, &bytes), PARE_OK);
        m.data[i] = pare_arena_take(&arena, 1, (size_t)bytes);
        ck_assert_ptr_nonnull(m.data[i]);
    }
    ck_assert_int_eq(t->fill(&cx, &arena, &model, &linear, &w, m.data), PARE_OK);
    return m;
}

static made make(const char *target, pare_packed_linear l, at *code, at *zero)
{
    return make_as(target, l, code, zero, PARE_F16);
}

static void check_part(const made *m, size_t i, const char *suffix, pare_dtype dtype, uint64_t rows,
                       uint64_t columns)
{
    ck_assert_uint_lt(i, m->parts);
    ck_assert_str_eq(m->part[i].suffix, suffix);
    ck_assert_int_eq(m->part[i].dtype, dtype);
    ck_assert_uint_eq(m->part[i].rank, columns ? 2 : 1);
    ck_assert_uint_eq(m->part[i].shape[0], rows);
    if (columns)
        ck_assert_uint_eq(m->part[i].shape[1], columns);
}

static uint32_t word(const made *m, size_t part, size_t i)
{
    return ((const uint32_t *)m->data[part])[i];
}

static uint16_t half(const made *m, size_t part, size_t i)
{
    return ((const uint16_t *)m->data[part])[i];
}

static unsigned rising(size_t row, size_t column)
{
    return (unsigned)(row * 3 + column) & 15;
}

static unsigned rising3(size_t row, size_t column)
{
    (void)row;
    return column & 7;
}

static unsigned rising2(size_t row, size_t column)
{
    (void)row;
    return column & 3;
}

static unsigned rising8(size_t row, size_t column)
{
    return (unsigned)(row + column) & 255;
}

static unsigned by_row(size_t row, size_t column)
{
    return (unsigned)(column == 0 ? row : 15 - row) & 15;
}

static unsigned five(size_t row, size_t column)
{
    (void)row;
    (void)column;
    return 5;
}

/* The tensors of a linear as a checkpoint, sorted by name. */
static pare_checkpoint stored(const made *m, pare_tensor tensor[PARE_EXPORT_PARTS])
{
    static char name[PARE_EXPORT_PARTS][64];
    for (size_t i = 0; i < m->parts; i++) {
        (void)snprintf(name[i], sizeof name[i], "w%s", m->part[i].suffix);
        size_t to = i;
        for (; to > 0 && strcmp(tensor[to - 1].name, name[i]) > 0; to--)
            tensor[to] = tensor[to - 1];
        tensor[to] = (pare_tensor){.name = name[i],
                                   .dtype = m->part[i].dtype,
                                   .rank = m->part[i].rank,
                                   .data = m->data[i]};
        memcpy(tensor[to].shape, m->part[i].shape, sizeof m->part[i].shape);
        ck_assert_int_eq(pare_tensor_bytes(tensor[to].dtype, tensor[to].rank, tensor[to].shape,
                                           &tensor[to].bytes),
                         PARE_OK);
    }
    return (pare_checkpoint){
        .cx = &cx, .path = (char *)"there", .tensor = tensor, .tensors = m->parts};
}

/* Every tensor in turn is half as large as the engine would take it to be, of another type, or
 * gone. */
START_TEST(readers_refuse_tensors_of_another_size_or_type)
{
    static const char *const targets[] = {"compressed-tensors", "gptq", "gptq_v2", "awq"};
    begin();
    const pare_export_target *const t = pare_export_find(targets[_i]);
    const pare_packed_linear l = UNIFORM("w", 32, 64, 4, 32, _i == 1);
    const made m = make(targets[_i], l, one, five);
    const pare_export_linear linear = {.name = "w", .is_packed = true, .packed = l};
    pare_tensor tensor[PARE_EXPORT_PARTS];
    static float w[32 * 64];
    for (size_t i = 0; i < m.parts; i++)
        for (int how = 0; how < 4; how++) {
            pare_checkpoint ck = stored(&m, tensor);
            if (how == 0)
                tensor[i].bytes /= 2;
            else if (how == 1)
                tensor[i].dtype = PARE_F32;
            else if (how == 2)
                tensor[i].name = "z";
            const pare_status s = t->read(&cx, &ck, &linear, w);
            ck_assert_msg(s == (how == 3 ? PARE_OK : PARE_EFORMAT), "%s %zu %d: %s", targets[_i], i,
                          how, cx.what);
            ck_assert(how == 3 || strstr(cx.what, "is missing or not "));
            pare_ctx_clear(&cx);
        }
    end();
}
END_TEST

START_TEST(compressed_tensors_have_the_first_code_lowest)
{
    begin();
    const pare_packed_linear l = UNIFORM("w", 3, 64, 4, 32, true);
    const made m = make("compressed-tensors", l, rising, one);
    ck_assert_uint_eq(m.parts, 3);
    check_part(&m, 0, ".weight_packed", PARE_I32, 3, 8);
    check_part(&m, 1, ".weight_scale", PARE_F16, 3, 2);
    check_part(&m, 2, ".weight_shape", PARE_I64, 2, 0);
    ck_assert_uint_eq(word(&m, 0, 0), 0x76543210);
    ck_assert_uint_eq(word(&m, 0, 1), 0xfedcba98);
    ck_assert_uint_eq(word(&m, 0, 8), 0xa9876543); /* row 1 begins with 3 */
    ck_assert_uint_eq(half(&m, 1, 0), 0x3400);     /* 1/4 */
    ck_assert_uint_eq(half(&m, 1, 1), 0x3800);     /* 2/4: group 1 of row 0 */
    ck_assert_uint_eq(half(&m, 1, 2), 0x3800);     /* row 1 */
    ck_assert_uint_eq(half(&m, 1, 5), 0x3c00);
    ck_assert_int_eq(((const int64_t *)m.data[2])[0], 3);
    ck_assert_int_eq(((const int64_t *)m.data[2])[1], 64);
    end();
}
END_TEST

START_TEST(compressed_tensors_pack_zero_points_down_columns)
{
    begin();
    const pare_packed_linear l = UNIFORM("w", 10, 64, 4, 32, false);
    const made m = make("compressed-tensors", l, rising, by_row);
    ck_assert_uint_eq(m.parts, 4);
    check_part(&m, 3, ".weight_zero_point", PARE_I32, 2, 2);
    ck_assert_uint_eq(word(&m, 0, 0), 0x76543210);
    ck_assert_uint_eq(word(&m, 3, 0), 0x76543210); /* rows 0 to 7 of group 0 */
    ck_assert_uint_eq(word(&m, 3, 1), 0x89abcdef); /* of group 1 */
    ck_assert_uint_eq(word(&m, 3, 2), 0x98);       /* rows 8 and 9 */
    ck_assert_uint_eq(word(&m, 3, 3), 0x67);
    end();
}
END_TEST

START_TEST(compressed_tensors_widen_few_bits_around_the_middle)
{
    begin();
    const pare_packed_linear two = UNIFORM("w", 1, 32, 2, 0, true);
    const pare_packed_linear three = UNIFORM("w", 1, 32, 3, 0, true);
    const pare_packed_linear apart = UNIFORM("w", 1, 32, 3, 0, false);
    const made m2 = make("compressed-tensors", two, rising2, one);
    const made m3 = make("compressed-tensors", three, rising3, one);
    const made ma = make("compressed-tensors", apart, rising3, five);
    ck_assert_uint_eq(word(&m2, 0, 0), 0x98769876); /* -2 .. 1 around 8 */
    ck_assert_uint_eq(word(&m3, 0, 0), 0xba987654); /* -4 .. 3 around 8 */
    ck_assert_uint_eq(word(&ma, 0, 0), 0x76543210);
    ck_assert_uint_eq(word(&ma, 3, 0), 5);
    end();
}
END_TEST

static unsigned trit(size_t row, size_t column)
{
    (void)row;
    return (unsigned)(column % 3);
}

START_TEST(compressed_tensors_hold_eight_bits_and_ternary_codes)
{
    begin();
    const pare_packed_linear eight = UNIFORM("w", 2, 32, 8, 0, true);
    pare_packed_linear ternary = encoded_kinds[0];
    ternary.n = 2;
    ternary.k = 64;
    const made m8 = make("compressed-tensors", eight, rising8, one);
    const made mt = make("compressed-tensors", ternary, trit, one);
    check_part(&m8, 0, ".weight_packed", PARE_I32, 2, 8);
    check_part(&m8, 1, ".weight_scale", PARE_F16, 2, 1);
    ck_assert_uint_eq(word(&m8, 0, 0), 0x03020100);
    ck_assert_uint_eq(word(&mt, 0, 0), 0x87987987); /* 0 1 2 0 1 2 0 1, 1 in the middle */
    ck_assert_uint_eq(mt.parts, 3);                 /* and no zero points */
    end();
}
END_TEST

START_TEST(compressed_tensors_hold_int8_rows_as_bytes)
{
    begin();
    pare_packed_linear l = UNIFORM("w", 2, 32, 8, 0, true);
    l.activation = (pare_activation){.mode = PARE_ACTIVATION_TOKEN, .bits = 8};
    const made token = make("compressed-tensors", l, rising8, one);
    l.activation.mode = PARE_ACTIVATION_TENSOR;
    const made tensor = make("compressed-tensors", l, rising8, one);
    ck_assert_uint_eq(token.parts, 2);
    check_part(&token, 0, ".weight", PARE_I8, 2, 32);
    check_part(&token, 1, ".weight_scale", PARE_F16, 2, 1);
    ck_assert_int_eq(((const int8_t *)token.data[0])[0], -128);
    ck_assert_int_eq(((const int8_t *)token.data[0])[31], 31 - 128);
    ck_assert_int_eq(((const int8_t *)token.data[0])[32], 1 - 128);
    ck_assert_uint_eq(half(&token, 1, 1), 0x3800);
    ck_assert_uint_eq(tensor.parts, 3);
    check_part(&tensor, 2, ".input_scale", PARE_F32, 1, 0);
    ck_assert(((const float *)tensor.data[2])[0] == 0.03F);
    end();
}
END_TEST

static unsigned e4m3(size_t row, size_t column)
{
    static const unsigned code[] = {0x38, 0x7e, 0x01, 0xb8}; /* 1, 448, 2^-9, -1 */
    (void)row;
    return code[column % 4];
}

START_TEST(compressed_tensors_hold_e4m3_rows_as_they_are)
{
    begin();
    const pare_packed_linear l = {.n = 2,
                                  .k = 32,
                                  .bits = 8,
                                  .symmetric = true,
                                  .encoding = PARE_ENCODING_FP8,
                                  .activation = {.mode = PARE_ACTIVATION_FLOAT}};
    const made m = make("compressed-tensors", l, e4m3, one);
    ck_assert_uint_eq(m.parts, 2);
    check_part(&m, 0, ".weight", PARE_F8_E4M3, 2, 32);
    check_part(&m, 1, ".weight_scale", PARE_F16, 2, 1);
    ck_assert_uint_eq(word(&m, 0, 0), 0xb8017e38);
    end();
}
END_TEST

START_TEST(gptq_packs_codes_along_inputs_and_zeros_along_outputs)
{
    begin();
    const pare_packed_linear l = UNIFORM("w", 32, 64, 4, 32, true);
    const made m = make("gptq", l, rising, one);
    ck_assert_uint_eq(m.parts, 4);
    check_part(&m, 0, ".qweight", PARE_I32, 8, 32);
    check_part(&m, 1, ".qzeros", PARE_I32, 2, 4);
    check_part(&m, 2, ".scales", PARE_F16, 2, 32);
    check_part(&m, 3, ".g_idx", PARE_I32, 64, 0);
    ck_assert_uint_eq(word(&m, 0, 0), 0x76543210);  /* inputs 0 .. 7 of output 0 */
    ck_assert_uint_eq(word(&m, 0, 1), 0xa9876543);  /* of output 1 */
    ck_assert_uint_eq(word(&m, 0, 32), 0xfedcba98); /* inputs 8 .. 15 of output 0 */
    ck_assert_uint_eq(half(&m, 2, 1), 0x3800);      /* output 1, group 0: 2/4 */
    ck_assert_uint_eq(half(&m, 2, 32), 0x3800);     /* output 0, group 1: 2/4 */
    ck_assert_uint_eq(half(&m, 2, 34), 0x3c00);     /* output 2, group 1: 4/4 */
    for (size_t k = 0; k < 64; k++)
        ck_assert_uint_eq(word(&m, 3, k), k / 32);
    end();
}
END_TEST

START_TEST(gptq_stores_zero_points_less_one_and_version_2_as_they_are)
{
    static const struct {
        unsigned bits;
        uint32_t first, second;
    } wanted[] = {{2, 0x55555555, 0xaaaaaaaa},
                  {3, 0xdb6db6db, 0x24924924}, /* fields of 3, of 4 */
                  {4, 0x77777777, 0x88888888},
                  {8, 0x7f7f7f7f, 0x80808080}};
    begin();
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        const pare_packed_linear l = UNIFORM("w", 32, 32, wanted[i].bits, 0, true);
        const made first = make("gptq", l, one, one), second = make("gptq_v2", l, one, one);
        check_part(&first, 1, ".qzeros", PARE_I32, 1, wanted[i].bits);
        ck_assert_uint_eq(word(&first, 1, 0), wanted[i].first);
        ck_assert_uint_eq(word(&second, 1, 0), wanted[i].second);
    }
    const pare_packed_linear l = UNIFORM("w", 32, 64, 4, 32, false);
    const made m = make("gptq_v2", l, rising, by_row);
    ck_assert_uint_eq(word(&m, 1, 0), 0x76543210); /* outputs 0 .. 7 of group 0 */
    ck_assert_uint_eq(word(&m, 1, 1), 0xfedcba98);
    ck_assert_uint_eq(word(&m, 1, 4), 0x89abcdef); /* of group 1 */
    end();
}
END_TEST

static unsigned crossing(size_t row, size_t column)
{
    (void)row;
    return column == 10 ? 5 : column == 21 ? 3 : column == 31 ? 7 : 0;
}

START_TEST(gptq_puts_32_codes_of_3_bits_into_3_words)
{
    begin();
    const pare_packed_linear l = UNIFORM("w", 32, 32, 3, 0, true);
    const made few = make("gptq", l, crossing, one), all = make("gptq", l, rising3, one);
    check_part(&few, 0, ".qweight", PARE_I32, 3, 32);
    ck_assert_uint_eq(word(&few, 0, 0), 0x40000000);  /* code 10 = 101: its low bits in 30, 31 */
    ck_assert_uint_eq(word(&few, 0, 32), 0x80000001); /* its high bit; code 21 = 011: low bit */
    ck_assert_uint_eq(word(&few, 0, 64), 0xe0000001); /* its high bits; code 31 = 111 */
    uint32_t wanted[3] = {0};
    for (uint32_t j = 0; j < 10; j++) {
        wanted[0] |= (j & 7) << 3 * j;
        wanted[1] |= ((11 + j) & 7) << (3 * j + 1);
        wanted[2] |= ((22 + j) & 7) << (3 * j + 2);
    }
    wanted[0] |= (10u & 3) << 30;
    wanted[1] |= (10u & 7) >> 2 | (21u & 1) << 31;
    wanted[2] |= (21u & 7) >> 1;
    for (size_t i = 0; i < 3; i++)
        ck_assert_uint_eq(word(&all, 0, 32 * i + 9), wanted[i]);
    const pare_packed_linear two = UNIFORM("w", 32, 32, 2, 0, true);
    const made m2 = make("gptq", two, rising2, one);
    ck_assert_uint_eq(word(&m2, 0, 0), 0xe4e4e4e4);
    end();
}
END_TEST

static unsigned of_row(size_t row, size_t column)
{
    return (unsigned)(row + column) & 15;
}

START_TEST(awq_interleaves_eight_outputs)
{
    begin();
    const pare_packed_linear l = UNIFORM("w", 16, 64, 4, 32, false);
    const made m = make("awq", l, of_row, by_row);
    ck_assert_uint_eq(m.parts, 3);
    check_part(&m, 0, ".qweight", PARE_I32, 64, 2);
    check_part(&m, 1, ".qzeros", PARE_I32, 2, 2);
    check_part(&m, 2, ".scales", PARE_F16, 2, 16);
    ck_assert_uint_eq(word(&m, 0, 0), 0x75316420); /* fields are outputs 0 2 4 6 1 3 5 7 */
    ck_assert_uint_eq(word(&m, 0, 1), 0xfdb9eca8);
    ck_assert_uint_eq(word(&m, 0, 2), 0x86427531); /* input 1 */
    ck_assert_uint_eq(word(&m, 1, 0), 0x75316420);
    ck_assert_uint_eq(word(&m, 1, 2), 0x8ace9bdf); /* group 1: 15 - output */
    ck_assert_uint_eq(half(&m, 2, 1), 0x3800);
    ck_assert_uint_eq(half(&m, 2, 16), 0x3800);
    const pare_packed_linear symmetric = UNIFORM("w", 8, 32, 4, 0, true);
    const pare_packed_linear three = UNIFORM("w", 8, 32, 3, 0, true);
    const made ms = make("awq", symmetric, of_row, one), m3 = make("awq", three, rising3, one);
    ck_assert_uint_eq(word(&ms, 1, 0), 0x88888888);
    ck_assert_uint_eq(word(&m3, 1, 0), 0x44444444);
    ck_assert_uint_eq(word(&m3, 0, 7), 0x77777777);
    end();
}
END_TEST

START_TEST(safetensors_hold_weights_in_the_floats_of_the_model)
{
    static const pare_dtype dtype[] = {PARE_F16, PARE_BF16, PARE_F32};
    begin();
    const pare_packed_linear l = UNIFORM("w", 2, 32, 4, 0, true);
    for (size_t i = 0; i < 3; i++) {
        const made m = make_as("safetensors", l, five, one, dtype[i]);
        ck_assert_uint_eq(m.parts, 1);
        check_part(&m, 0, ".weight", dtype[i], 2, 32);
        if (dtype[i] == PARE_F32)
            ck_assert(((const float *)m.data[0])[33] == -1.5F); /* (5 - 8) 2/4 */
        else
            ck_assert_uint_eq(half(&m, 0, 33), dtype[i] == PARE_F16 ? 0xbe00 : 0xbfc0);
    }
    end();
}
END_TEST

/* What targets refuse, and the reason they give. */
static const pare_activation token8 = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8};
static const struct {
    const char *target;
    pare_packed_linear l;
    const char *reason;
} refused[] = {
#define LINEAR(n_, k_, bits_, group_, ...)                                                         \
    {                                                                                              \
        .name = "w", .n = (n_), .k = (k_), .bits = (bits_), .group = (group_), .symmetric = true,  \
        __VA_ARGS__                                                                                \
    }
#define PLAIN(n, k, bits, group) LINEAR(n, k, bits, group, .sparse = 0)
#define NF4                      .encoding = PARE_ENCODING_NF4, .activation = {.mode = PARE_ACTIVATION_FLOAT}
#define FP8                      .encoding = PARE_ENCODING_FP8, .activation = {.mode = PARE_ACTIVATION_FLOAT}
    {"gptq", LINEAR(32, 64, 4, 32, NF4), "do not lie on an integer grid"},
    {"awq", LINEAR(32, 64, 4, 32, NF4), "do not lie on an integer grid"},
    {"compressed-tensors", LINEAR(32, 64, 4, 32, NF4), "do not lie on an integer grid"},
    {"gptq", LINEAR(32, 64, 8, 0, FP8), "do not lie on an integer grid"},
    {"gptq", LINEAR(32, 64, 4, 32, .outliers = 3), "no place for columns or weights"},
    {"awq", LINEAR(32, 64, 4, 32, .sparse = 3), "no place for columns or weights"},
    {"compressed-tensors", LINEAR(32, 64, 4, 32, .outliers = 3), "no place for columns"},
    {"gptq", LINEAR(32, 64, 4, 32, .rotated = true), "its inputs are rotated"},
    {"awq", LINEAR(32, 64, 4, 32, .rotated = true), "its inputs are rotated"},
    {"compressed-tensors", LINEAR(32, 64, 4, 32, .rotated = true), "its inputs are rotated"},
    {"safetensors", LINEAR(32, 64, 4, 32, .rotated = true), "its inputs are rotated"},
    {"gptq", LINEAR(32, 64, 8, 0, .activation = token8), "leaves its inputs in floats"},
    {"awq", LINEAR(32, 64, 4, 0, .activation = token8), "leaves its inputs in floats"},
    {"gptq_v2", LINEAR(32, 64, 4, 32, .activation = {.bits = 4}), "leaves its inputs in floats"},
    {"compressed-tensors", LINEAR(32, 64, 4, 32, .activation = {.bits = 4}), "leaves its inputs"},
    {"gptq", PLAIN(32, 192, 4, 96), "kernels for groups of 32, 64, 128 and whole rows"},
    {"awq", PLAIN(32, 192, 4, 96), "kernels for groups of 32, 64, 128 and whole rows"},
    {"compressed-tensors", PLAIN(32, 192, 4, 96), "kernels for groups of 32, 64, 128"},
    {"gptq", PLAIN(32, 96, 4, 64), "64 does not divide 96; take group 32 or row"},
    {"awq", PLAIN(32, 576, 4, 128),
     "AutoAWQ needs groups that divide the columns, and 128 "
     "does not divide 576; take group 32, 64 or row"},
    {"compressed-tensors", PLAIN(32, 96, 4, 64), "vLLM needs groups that divide the columns"},
    {"gptq", PLAIN(48, 64, 4, 32), "in multiples of 32; compressed-tensors takes this model"},
    {"gptq_v2", PLAIN(64, 48, 4, 32), "multiples of 32; safetensors takes this model, as floats"},
#define F16 .encoding = PARE_ENCODING_F16, .activation = {.mode = PARE_ACTIVATION_FLOAT}
    {"gptq", LINEAR(32, 64, 16, 0, F16), "the formats safetensors and gguf:f16 hold its floats"},
    {"compressed-tensors", LINEAR(32, 64, 16, 0, F16, .sparsity = PARE_SPARSITY_2_4),
     "it is pruned and not quantized, and this format is for codes; the formats safetensors and"},
    {"awq", PLAIN(12, 64, 4, 32), "AutoAWQ needs a multiple of 8 rows; compressed-tensors takes"},
    {"awq", PLAIN(32, 64, 8, 32), "codes of 4 bits"},
    {"compressed-tensors", LINEAR(32, 64, 8, 64, FP8), "one scale per row; use group: row"},
    {"compressed-tensors", LINEAR(32, 64, 8, 0, FP8, .outliers = 1), "more than codes and scales"},
    {"compressed-tensors",
     LINEAR(32, 64, 8, 0, .encoding = PARE_ENCODING_FP8, .activation = token8), "have no engine"},
    {"compressed-tensors", LINEAR(32, 64, 4, 0, .activation = token8), "vLLM runs integer inputs"},
    {"compressed-tensors", LINEAR(32, 64, 8, 32, .activation = token8), "vLLM runs integer"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(a_linear_that_a_target_cannot_hold_is_refused)
{
    begin();
    const pare_export_target *const t = pare_export_find(refused[_i].target);
    const pare_config config = {.blocks = 1};
    const pare_export_linear linear = {.name = "w", .is_packed = true, .packed = refused[_i].l};
    const pare_export_model model = {
        .config = &config, .linear = &linear, .linears = 1, .floats = PARE_F16};
    ck_assert_int_eq(pare_export_check(&cx, t, &model, false), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, refused[_i].reason), "%s", cx.what);
    ck_assert_msg(strncmp(cx.what, t->name, strlen(t->name)) == 0, "%s", cx.what);
    ck_assert_msg(strstr(cx.what, "linear w"), "%s", cx.what);
    end();
}
END_TEST

START_TEST(asymmetric_codes_are_refused_by_the_first_version_of_gptq)
{
    begin();
    const pare_export_linear l = {.packed = UNIFORM("w", 32, 64, 4, 32, false)};
    ck_assert_int_eq(pare_export_find("gptq")->check_linear(&cx, &l), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, "0 has no code; use gptq_v2"), "%s", cx.what);
    ck_assert_ptr_null(pare_export_find("gptq_v3"));
    end();
}
END_TEST

/* One block and the head; `kind[i]` 0: left out, else bits, 8: with int8 inputs. */
enum { LINEARS = PARE_COMMON_ROLES + 1 };
static void describe(pare_export_linear linear[LINEARS], const unsigned kind[LINEARS])
{
    static const char *const name[] = {"b.q", "b.k", "b.v", "b.o", "b.gate", "b.up", "b.down", "h"};
    for (size_t i = 0; i < LINEARS; i++) {
        const pare_packed_linear l = UNIFORM(name[i], 32, 64, kind[i], kind[i] == 8 ? 0 : 32, true);
        linear[i] = (pare_export_linear){.name = name[i],
                                         .block = i / PARE_COMMON_ROLES,
                                         .role = (pare_role)i,
                                         .is_packed = kind[i] != 0,
                                         .packed = l};
        if (kind[i] == 8)
            linear[i].packed.activation = token8;
    }
}

static const struct {
    const char *target;
    unsigned kind[LINEARS];
    const char *reason;
} unfit[] = {
    {"compressed-tensors", {0}, "quantized; the formats safetensors and gguf:f16 hold floats"},
    {"gptq", {0}, "no linear of the model is quantized"},
    {"compressed-tensors", {4, 4, 8, 4}, "linears b.k and b.v: vLLM runs them as one matrix"},
    {"compressed-tensors", {4, 0, 4, 4}, "linears b.q and b.k: vLLM runs them as one matrix"},
    {"gptq", {4, 4, 4, 4, 4, 4, 3}, "linear b.down is int3 g32 sym, but b.q is int4 g32 sym"},
    {"awq", {3, 4, 4}, "this format has one kind for all"},
    {"gptq", {4, 4, 0, 4, 4, 4, 4}, "b.k and b.v: vLLM runs them as one matrix and refuses files"},
    {"awq", {4, 4, 4, 4, 4, 0, 4}, "here b.gate: let one step of the recipe quantize both"},
};
enum { UNFIT = sizeof unfit / sizeof *unfit };

START_TEST(a_model_that_a_target_cannot_be_is_refused)
{
    begin();
    pare_export_linear linear[LINEARS];
    const pare_config config = {.blocks = 1};
    const pare_export_model model = {
        .config = &config, .linear = linear, .linears = LINEARS, .floats = PARE_F16};
    describe(linear, unfit[_i].kind);
    ck_assert_int_eq(pare_export_check(&cx, pare_export_find(unfit[_i].target), &model, false),
                     PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, unfit[_i].reason), "%s", cx.what);
    end();
}
END_TEST

#define CT_HEAD                                                                                    \
    "{'quant_method':'compressed-tensors','version':'0.12.2','format':'%s',"                       \
    "'quantization_status':'compressed','global_compression_ratio':null,'kv_cache_scheme':null,"   \
    "'ignore':[%s],'sparsity_config':{},'transform_config':{},'config_groups':{"
#define CT_INT4                                                                                    \
    "'format':'pack-quantized','weights':{'num_bits':4,'type':'int','symmetric':true,"             \
    "'strategy':'group','group_size':32,'dynamic':false,'actorder':null,'block_structure':null,"   \
    "'observer':'minmax','observer_kwargs':{}},'input_activations':null,"                          \
    "'output_activations':null}"
#define CT_INT8                                                                                    \
    "'format':'int-quantized','weights':{'num_bits':8,'type':'int','symmetric':true,"              \
    "'strategy':'channel','group_size':null,'dynamic':false,'actorder':null,"                      \
    "'block_structure':null,'observer':'minmax','observer_kwargs':{}},'input_activations':"        \
    "{'num_bits':8,'type':'int','symmetric':true,'strategy':'token','group_size':null,"            \
    "'dynamic':true,'observer':null},'output_activations':null}"
#define GPTQ                                                                                       \
    "'group_size':32,'sym':true,'desc_act':false,'static_groups':true,'lm_head':%s,"               \
    "'checkpoint_format':'%s','pack_dtype':'int32'"

static const struct {
    const char *target;
    unsigned kind[LINEARS];
    const char *format, *a, *b;
} configs[] = {
    {"compressed-tensors",
     {4, 4, 4, 4, 4, 4, 4},
     CT_HEAD "'group_0':{'targets':['Linear']," CT_INT4 "}}",
     "pack-quantized",
     "'h'"},
    {"compressed-tensors",
     {4, 4, 4, 8, 0, 0, 8, 4},
     CT_HEAD "'group_0':{'targets':['b.q','b.k','b.v','h']," CT_INT4
             ",'group_1':{'targets':['b.o','b.down']," CT_INT8 "}}",
     "mixed-precision",
     "'b.gate','b.up'"},
    {"compressed-tensors",
     {8, 8, 8, 8, 8, 8, 8, 8},
     CT_HEAD "'group_0':{'targets':['Linear']," CT_INT8 "}}",
     "int-quantized",
     ""},
    {"gptq", {4, 4, 4, 4, 4, 4, 4}, "{'quant_method':'gptq','bits':4," GPTQ "}", "false", "gptq"},
    {"gptq_v2",
     {3, 3, 3, 3, 0, 0, 0, 3},
     "{'quant_method':'gptq','bits':3," GPTQ ",'dynamic':{'-:^b\\\\.gate$':{},"
     "'-:^b\\\\.up$':{},'-:^b\\\\.down$':{}}}",
     "true",
     "gptq_v2"},
    {"awq",
     {4, 4, 4, 4, 4, 4, 4},
     "{'quant_method':'awq','bits':4,'group_size':32,'zero_point':true,'version':'gemm',"
     "'modules_to_not_convert':null}",
     "",
     ""},
    {"awq",
     {3, 3, 3, 0, 3, 3, 3},
     "{'quant_method':'awq','bits':4,'group_size':32,'zero_point':true,'version':'gemm',"
     "'modules_to_not_convert':['b.o','h'],'dynamic':{'-:^b\\\\.o$':{}}}",
     "",
     ""},
};
enum { CONFIGS = sizeof configs / sizeof *configs };

/* Without spaces and line breaks, which no value here holds, and with ' for ". */
static void squeeze(char *to, const char *from)
{
    for (; *from; from++)
        if (*from != ' ' && *from != '\n')
            *to++ = *from == '"' ? '\'' : *from;
    *to = '\0';
}

START_TEST(engines_are_told_what_is_in_the_files)
{
    begin();
    static char wanted[8192], is[8192];
    pare_export_linear linear[LINEARS];
    const pare_config config = {.blocks = 1};
    const pare_export_model model = {
        .config = &config, .linear = linear, .linears = LINEARS, .floats = PARE_F16};
    const pare_export_target *const t = pare_export_find(configs[_i].target);
    pare_json_writer *w;
    const char *text;
    size_t len;
    describe(linear, configs[_i].kind);
    ck_assert_msg(pare_export_check(&cx, t, &model, false) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_open_object(w, NULL);
    t->config(w, &model);
    pare_json_close(w);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len), PARE_OK);
    ck_assert_uint_lt(len, sizeof is);
    squeeze(is, text);
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(wanted, sizeof wanted, configs[_i].format, configs[_i].a, configs[_i].b);
#pragma GCC diagnostic pop
    ck_assert_str_eq(is, wanted);
    pare_json_writer_free(w);
    end();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_targets");
    TCase *const t = tcase_create("targets");
    tcase_add_loop_test(t, readers_refuse_tensors_of_another_size_or_type, 0, 4);
    tcase_add_test(t, compressed_tensors_have_the_first_code_lowest);
    tcase_add_test(t, compressed_tensors_pack_zero_points_down_columns);
    tcase_add_test(t, compressed_tensors_widen_few_bits_around_the_middle);
    tcase_add_test(t, compressed_tensors_hold_eight_bits_and_ternary_codes);
    tcase_add_test(t, compressed_tensors_hold_int8_rows_as_bytes);
    tcase_add_test(t, compressed_tensors_hold_e4m3_rows_as_they_are);
    tcase_add_test(t, gptq_packs_codes_along_inputs_and_zeros_along_outputs);
    tcase_add_test(t, gptq_stores_zero_points_less_one_and_version_2_as_they_are);
    tcase_add_test(t, gptq_puts_32_codes_of_3_bits_into_3_words);
    tcase_add_test(t, awq_interleaves_eight_outputs);
    tcase_add_test(t, safetensors_hold_weights_in_the_floats_of_the_model);
    tcase_add_loop_test(t, a_linear_that_a_target_cannot_hold_is_refused, 0, REFUSED);
    tcase_add_test(t, asymmetric_codes_are_refused_by_the_first_version_of_gptq);
    tcase_add_loop_test(t, a_model_that_a_target_cannot_be_is_refused, 0, UNFIT);
    tcase_add_loop_test(t, engines_are_told_what_is_in_the_files, 0, CONFIGS);
    suite_add_tcase(s, t);
    return unit_main(s);
}
