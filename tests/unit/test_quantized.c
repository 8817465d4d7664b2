/* Checkpoints that other programs quantized: what a description and its words stand for, and what
 * of them is refused. */
#include <math.h>

#include "tests/fuzz/quantized_input.h"
#include "tests/unit/folder.h"

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

/* All that quantized_input_run makes can be told from these; their weights stand below. */
#define LAYER     "model.layers.0.mlp.down_proj"
#define CONFIG(q) "{\"model_type\": \"llama\", \"quantization_config\": {" q "}}"
#define CT(more)                                                                                   \
    CONFIG("\"quant_method\": \"compressed-tensors\", \"config_groups\": {\"g\": {\"targets\": "   \
           "[\"Linear\"], \"weights\": {" more "}}}")
#define GROUPS(bits, more)                                                                         \
    CT("\"num_bits\": " #bits ", \"strategy\": \"group\", \"group_size\": 32" more)

enum { N_MOST = 32, K = 64 };

/* A weight by a formula of its own: fields are read bit by bit. */
typedef double formula(size_t r, size_t j);

static unsigned bits_of(const uint32_t *word, size_t words, size_t first, unsigned bits)
{
    unsigned value = 0;
    for (unsigned b = 0; b < bits; b++)
        value |= (word[(first + b) / 32 % words] >> (first + b) % 32 & 1) << b;
    return value;
}

/* As the lines below have them: words and values repeat over the whole tensor. */
static const uint32_t words[] = {0x12345678, 0x9abcdef1, 0x0f1e2d3f};
static const double scales[] = {0.5, -0.25, 3};

static double ct4(size_t r, size_t j)
{
    const size_t row = K * 4 / 32 * r % 3;
    const uint32_t turned[] = {words[row], words[(row + 1) % 3], words[(row + 2) % 3]};
    return ((int)bits_of(turned, 3, 4 * j, 4) - 8) * scales[(r * 2 + j / 32) % 3];
}

static double ct4_zeros(size_t r, size_t j)
{
    static const int zero[] = {-8, 7, 0, 3};
    const size_t g = r * 2 + j / 32;
    return ct4(r, j) - zero[g % 4] * scales[g % 3];
}

static double ct4_zero_words(size_t r, size_t j)
{
    static const uint32_t zero[] = {0x321, 0xfed};
    const size_t g = r * 2 + j / 32;
    return ct4(r, j) - ((int)(zero[j / 32] >> 4 * r & 15) - 8) * scales[g % 3];
}

static double ct4_reordered(size_t r, size_t j)
{
    const double q = ct4(r, j) / scales[(r * 2 + j / 32) % 3];
    return q * scales[(r * 2 + j % 2) % 3];
}

static double ct8(size_t r, size_t j)
{
    static const int byte[] = {1, -128, 127, 0, -1};
    return byte[(r * K + j) % 5] * scales[r % 3];
}

static double ct8_zeros(size_t r, size_t j)
{
    static const int zero[] = {-128, 127, 5};
    return ct8(r, j) - zero[r] * scales[r % 3];
}

/* Codes of 3 bits behind each other, and ten in a word: words [3, 6] and [16, 7]. */
static double ct3(size_t r, size_t j)
{
    return ((int)bits_of(words, 3, 3 * j, 3) - 4) * scales[(r * 2 + j / 32) % 3];
}

static const uint32_t apart[] = {0x12345678, 0xdabcdef1, 0xffffffff, 7, 0x8f1e2d3f, 0, 0xabc};
static const uint32_t zeros_apart[] = {0x2a3c5d7f, 0xd91e0c42, 0x2a5c1, 0x15e2d};

static double ct3_apart(size_t r, size_t j)
{
    const size_t g = j / 32;
    const int q = (int)(apart[j / 10] >> 3 * (j % 10) & 7);
    return (q - (int)(zeros_apart[r / 10 * 2 + g] >> 3 * (r % 10) & 7)) * scales[(r * 2 + g) % 3];
}

/* 0x21: 0.5, and 1 in the upper half of the byte. */
static double e2m1(size_t r, size_t j)
{
    static const double value[] = {0.5, 1, 1.5, 2, 6, -6, -1, -0.0, 3, 0};
    return value[(r * K / 2 + j / 2) % 5 * 2 + j % 2];
}

static double nvfp4(size_t r, size_t j)
{
    static const float scale[] = {1, 0x1p-9F, -448};
    return e2m1(r, j) * (double)(scale[(r * 4 + j / 16) % 3] / 3.0F);
}

/* The scale beside the scales multiplies them. */
static double modelopt(size_t r, size_t j)
{
    static const float scale[] = {1, 0x1p-9F, -448};
    return e2m1(r, j) * (double)(scale[(r * 4 + j / 16) % 3] * 0.3F);
}

static double mxfp4(size_t r, size_t j)
{
    static const double scale[] = {1, 0x1p-24, 0x1p15};
    return e2m1(r, j) * scale[(r * 2 + j / 32) % 3];
}

static double mxfp4_wide(size_t r, size_t j)
{
    static const double scale[] = {0x1p-127, 0x1p-25, 0x1p125};
    return e2m1(r, j) * scale[(r * 2 + j / 32) % 3];
}

/* 1.0, 2^-9, -448, 2 */
static double e4m3(size_t r, size_t j)
{
    static const double value[] = {1, 0x1p-9, -448, 2};
    return value[(r * K + j) % 4];
}

static double fp8_row(size_t r, size_t j)
{
    return e4m3(r, j) * scales[r];
}

static double fp8_whole(size_t r, size_t j)
{
    return e4m3(r, j) * 0.1F;
}

static double fp8_block(size_t r, size_t j)
{
    return e4m3(r, j) * (1 + (double)(r / 2 * 2 + j / 32));
}

/* Words [8, 8]: eight inputs of a column each; zero points less one. */
static double gptq4(size_t r, size_t j)
{
    static const uint32_t zero[] = {0x76543210, 0x01234567};
    const int q = (int)(words[(j / 8 * 8 + r) % 3] >> 4 * (j % 8) & 15);
    const size_t g = j / 32;
    return (q - (int)(zero[g] >> 4 * r & 15) - 1) * scales[(g * 8 + r) % 3];
}

/* The same codes, inputs in turn of both groups. */
static double gptq4_reordered(size_t r, size_t j)
{
    static const uint32_t zero[] = {0x76543210, 0x01234567};
    const int q = (int)(words[(j / 8 * 8 + r) % 3] >> 4 * (j % 8) & 15);
    const size_t g = j % 2;
    return (q - (int)(zero[g] >> 4 * r & 15)) * scales[(g * 8 + r) % 3];
}

/* Words [6, 32] and zero points [2, 3]: 32 fields of 3 bits in 3 words, bit by bit. */
static double gptq3(size_t r, size_t j)
{
    int q = 0, zero = 0;
    const size_t g = j / 32;
    for (size_t b = 0; b < 3; b++) {
        q |= (int)(words[((3 * j + b) / 32 * 32 + r) % 3] >> (3 * j + b) % 32 & 1) << b;
        zero |= (int)(words[(g * 3 + (3 * r + b) / 32) % 3] >> (3 * r + b) % 32 & 1) << b;
    }
    return (q - zero) * scales[(g * 32 + r) % 3];
}

/* Words [64, 2]: eight outputs of an input, output i of a word in nibble place[i]. */
static double awq(size_t r, size_t j)
{
    static const unsigned place[] = {0, 4, 1, 5, 2, 6, 3, 7};
    const size_t g = j / 32;
    const int q = (int)(words[(j * 2 + r / 8) % 3] >> 4 * place[r % 8] & 15);
    const int zero = (int)(words[(g * 2 + r / 8) % 3] >> 4 * place[r % 8] & 15);
    return (q - zero) * scales[(g * 16 + r) % 3];
}

#define VALUES  "= 0x12345678 0x9abcdef1 0x0f1e2d3f\n"
#define SCALES  "= 0.5 -0.25 3\n"
#define GPTQ(m) CONFIG("\"quant_method\": \"gptq\", \"group_size\": 32, \"bits\": " m)
#define GPTQ4                                                                                      \
    "\0" LAYER ".qweight I32 8 8 " VALUES LAYER ".qzeros I32 2 1 = 0x76543210 0x01234567\n" LAYER  \
    ".scales F16 2 8 " SCALES LAYER ".g_idx I32 64 = "
#define AR(packing, m)                                                                             \
    CONFIG("\"quant_method\": \"intel/auto-round\", \"group_size\": 32, \"packing_format\": "      \
           "\"auto_round" packing "\", \"bits\": " m)
#define GPTQ3                                                                                      \
    "\0" LAYER ".qweight I32 6 32 " VALUES LAYER ".qzeros I32 2 3 " VALUES LAYER                   \
    ".scales F16 2 32 " SCALES
#define AWQ4                                                                                       \
    "\0" LAYER ".qweight I32 64 2 " VALUES LAYER ".qzeros I32 2 2 " VALUES LAYER                   \
    ".scales F16 2 16 " SCALES
#define ZEROS8 "0 0 0 0 0 0 0 0 "
#define ONES8  "1 1 1 1 1 1 1 1 "
#define PACKED4(type)                                                                              \
    "\0" LAYER ".weight_packed I32 3 8 = 0x12345678 0x9abcdef1 0x0f1e2d3f\n" LAYER                 \
    ".weight_scale F16 3 2 = 0.5 -0.25 3\n" LAYER ".weight_shape " type " 2 = 3 64\n"
#define WHOLE8                                                                                     \
    "\0" LAYER ".weight I8 3 64 = 1 -128 127 0 -1\n" LAYER ".weight_scale BF16 3 1 = 0.5 -0.25 "   \
    "3\n"
#define FLOATS8 "\0" LAYER ".weight F8_E4M3 3 64 = 0x38 0x01 0xfe 0x40\n" LAYER
#define PAIRS(format, strategy, group)                                                             \
    CT("\"num_bits\": 4, \"type\": \"float\", \"strategy\": \"" strategy                           \
       "\", \"group_size\": " group "}, \"format\": \"" format "-pack-quantized\", \"none\": {")   \
    "\0" LAYER ".weight_packed U8 3 32 = 0x21 0x43 0xf7 0x8a 0x05\n" LAYER
#define MODELOPT(more)                                                                             \
    CONFIG("\"quant_method\": \"modelopt\", \"quant_algo\": \"NVFP4\"" more)                       \
    "\0" LAYER ".weight U8 3 32 = 0x21 0x43 0xf7 0x8a 0x05\n" LAYER                                \
    ".weight_scale F8_E4M3 3 4 = 0x38 0x01 0xfe\n" LAYER ".weight_scale_2 F32 1 = 0.3\n"
#define ROWS(more) CT("\"num_bits\": 8, \"strategy\": \"channel\"" more)
#define TEXT(t)    t, sizeof t - 1

static const struct {
    const char *text;
    size_t len, n;
    formula *w;
    bool packs; /* stays codes when it is run */
    const char *type;
} cases[] = {
    {TEXT(GROUPS(4, "") PACKED4("I32")), 3, ct4, true, "int4"},
    {TEXT(GROUPS(4, "") PACKED4("I64")), 3, ct4, true, "int4"},
    {TEXT(GROUPS(4, ", \"symmetric\": false") PACKED4("I64") LAYER
          ".weight_zero_point I8 3 2 = -8 7 0 3\n"),
     3, ct4_zeros, true, "int4"},
    {TEXT(GROUPS(4, ", \"symmetric\": false") PACKED4("I64") LAYER
          ".weight_zero_point I32 1 2 = 0x321 0xfed\n"),
     3, ct4_zero_words, true, "int4"},
    {TEXT(GROUPS(4, ", \"actorder\": \"group\"") PACKED4("I64") LAYER
          ".weight_g_idx I32 64 = 0 1\n"),
     3, ct4_reordered, false, "int4"},
    {TEXT(GROUPS(3, "") "\0" LAYER ".weight_packed I32 3 6 " VALUES LAYER
                        ".weight_scale F16 3 2 " SCALES LAYER ".weight_shape I64 2 = 3 64\n"),
     3, ct3, true, "int3"},
    {TEXT(GROUPS(3, ", \"symmetric\": false") "\0" LAYER
                                              ".weight_packed I32 16 7 = 0x12345678 0xdabcdef1 "
                                              "0xffffffff 7 0x8f1e2d3f 0 0xabc\n" LAYER
                                              ".weight_scale F16 16 2 " SCALES LAYER
                                              ".weight_shape I64 2 = 16 64\n" LAYER
                                              ".weight_zero_point I32 2 2 = 0x2a3c5d7f 0xd91e0c42 "
                                              "0x2a5c1 0x15e2d\n"),
     16, ct3_apart, true, "int3"},
    {TEXT(PAIRS("nvfp4", "tensor_group", "16") ".weight_scale F8_E4M3 3 4 = 0x38 0x01 0xfe\n" LAYER
                                               ".weight_global_scale F32 1 = 3\n"),
     3, nvfp4, false, "nvfp4"},
    {TEXT(PAIRS("mxfp4", "group", "32") ".weight_scale U8 3 2 = 127 103 142\n"), 3, mxfp4, true,
     "mxfp4"},
    {TEXT(PAIRS("mxfp4", "group", "32") ".weight_scale U8 3 2 = 0 102 252\n"), 3, mxfp4_wide, false,
     "mxfp4"},
    {TEXT(ROWS("") WHOLE8), 3, ct8, true, "int8"},
    {TEXT(ROWS(", \"symmetric\": false") WHOLE8 LAYER ".weight_zero_point I8 3 1 = -128 127 5\n"),
     3, ct8_zeros, true, "int8"},
    {TEXT(ROWS(", \"type\": \"float\"") FLOATS8 ".weight_scale F16 3 1 = 0.5 -0.25 3\n"), 3,
     fp8_row, true, "fp8"},
    {TEXT(CT("\"type\": \"float\", \"strategy\": \"tensor\"") FLOATS8
          ".weight_scale F32 1 = 0.1\n"),
     3, fp8_whole, false, "fp8"},
    {TEXT(CT("\"type\": \"float\", \"strategy\": \"block\", \"block_structure\": [2, 32]") FLOATS8
          ".weight_scale BF16 2 2 = 1 2 3 4\n"),
     3, fp8_block, true, "fp8"},
    {TEXT(GPTQ("4") GPTQ4 ZEROS8 ZEROS8 ZEROS8 ZEROS8 ONES8 ONES8 ONES8 ONES8 "\n"), 8, gptq4, true,
     "int4"},
    {TEXT(GPTQ(
         "4, \"checkpoint_format\": null, \"format\": \"gptq_v2\", \"dynamic\": {\"-:.*head\": {}}")
              GPTQ4 "0 1\n"),
     8, gptq4_reordered, false, "int4"},
    {TEXT(GPTQ("3, \"checkpoint_format\": \"gptq_v2\"") GPTQ3), 32, gptq3, true, "int3"},
    {TEXT(GPTQ("8, \"checkpoint_format\": \"gptq_v2\", \"dynamic\": {\"+:.*down.*\": {\"bits\": "
               "3}}") GPTQ3),
     32, gptq3, true, "int3"},
    {TEXT(CONFIG("\"quant_method\": \"awq\", \"bits\": 4, \"group_size\": 32") AWQ4), 16, awq, true,
     "int4"},
    {TEXT(CONFIG("\"quant_method\": \"awq\", \"w_bit\": 4, \"q_group_size\": 32") AWQ4), 16, awq,
     true, "int4"},
    {TEXT(AR(":auto_gptq", "4") GPTQ4 ZEROS8 ZEROS8 ZEROS8 ZEROS8 ONES8 ONES8 ONES8 ONES8 "\n"), 8,
     gptq4, true, "int4"},
    {TEXT(AR("", "4, \"extra_config\": {\"mlp[.]\": {\"bits\": 3}}") GPTQ3), 32, gptq3, true,
     "int3"},
    {TEXT(AR(":gptqmodel",
             "4, \"extra_config\": {\"down\": {\"bits\": 8}, \"" LAYER "\": {\"bits\": 3}}") GPTQ3),
     32, gptq3, true, "int3"},
    {TEXT(AR(":auto_awq", "4") AWQ4), 16, awq, true, "int4"},
    {TEXT(MODELOPT("")), 3, modelopt, false, "nvfp4"},
    {TEXT(MODELOPT(", \"kv_cache_scheme\": {\"num_bits\": 8}") LAYER
          ".input_scale F32 1 = 2\n" LAYER ".k_scale F32 1 = 2\n"),
     3, modelopt, false, "nvfp4"},
    {TEXT(CONFIG("\"quant_method\": \"modelopt\", \"quant_algo\": \"FP8\"") FLOATS8
          ".weight_scale F32 1 = 0.1\n"),
     3, fp8_whole, false, "fp8"},
    {TEXT(CONFIG("\"quant_method\": \"fp8\", \"weight_block_size\": [2, 32]") FLOATS8
          ".weight_scale_inv F32 2 2 = 1 2 3 4\n"),
     3, fp8_block, true, "fp8"},
    {TEXT(CONFIG("\"quant_method\": \"fp8\"") FLOATS8 ".weight_scale F32 1 = 0.1\n"), 3, fp8_whole,
     false, "fp8"},
    {TEXT(CONFIG("\"quant_method\": \"fp8\"") FLOATS8 ".weight_scale F16 3 1 = 0.5 -0.25 3\n"), 3,
     fp8_row, true, "fp8"},
};
enum { CASES = sizeof cases / sizeof *cases };

START_TEST(weights_are_what_the_words_stand_for)
{
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint floats, runs;
    float packed[N_MOST * K];
    char text[64];
    ck_assert_int_eq(quantized_parse(&cx, &arena, cases[_i].text, cases[_i].len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, false, &floats) == PARE_OK, "%s", cx.what);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &runs) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = pare_checkpoint_find(&floats, LAYER ".weight");
    ck_assert(t && t->shape[0] == cases[_i].n && t->shape[1] == K && floats.unpacked == 1);
    const pare_linear *const l = runs.stored[0].packed;
    ck_assert_int_eq(l != NULL, cases[_i].packs);
    if (l)
        pare_linear_to_f32(&cx, l, packed);
    for (size_t i = 0; i < cases[_i].n * K; i++) {
        const float want = (float)cases[_i].w(i / K, i % K), is = ((const float *)t->data)[i];
        ck_assert_msg(is == want, "[%zu, %zu]: %g, not %g", i / K, i % K, (double)is, (double)want);
        ck_assert(!l || packed[i] == want);
    }
    (void)snprintf(text, sizeof text, "1 x %s", cases[_i].type);
    ck_assert(strstr(floats.quantized, text) && strcmp(floats.quantized, runs.quantized) == 0);
    pare_scratch_close(&floats.scratch);
    pare_scratch_close(&runs.scratch);
    pare_json_free(in->config);
}
END_TEST

/* Types of floats that the runtime does not have, to F32: by the definitions of their bits. */
START_TEST(other_floats_become_f32)
{
    static const char text[] =
        "{}\0a F64 4 = 0.1 1e300 -2 nan\nb F8_E4M3 4 = 0x38 0x01 0xfe 0x7f\n"
        "c F8_E5M2 6 = 0x3c 0x01 0xfb 0x7c 0xfc 0x7d\nd F8_E4M3FNUZ 4 = 0x40 0x01 0xff 0x80\n"
        "e F8_E5M2FNUZ 4 = 0x40 0x01 0xff 0x80\nf BF16 2 = 1\n";
    static const float want[][6] = {
        {0.1F, INFINITY, -2, NAN},
        {1, 0x1p-9F, -448, NAN},
        {1, 0x1p-16F, -57344, INFINITY, -INFINITY, NAN},
        {1, 0x1p-10F, -240, NAN},
        {1, 0x1p-17F, -57344, NAN},
    };
    static const char *const types[] = {"F64", "F8_E4M3", "F8_E5M2", "F8_E4M3FNUZ", "F8_E5M2FNUZ"};
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck, listed;
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, sizeof text - 1, in), PARE_OK);
    ck_assert_int_eq(quantized_open(&cx, &arena, in, false, false, &ck), PARE_OK);
    ck_assert_int_eq(quantized_open(&cx, &arena, in, true, false, &listed), PARE_OK);
    for (size_t i = 0; i < 5; i++) {
        const pare_tensor *const t = &ck.tensor[i];
        ck_assert(t->dtype == PARE_F32 && t->bytes == 4 * t->shape[0] && !listed.tensor[i].data);
        ck_assert_str_eq(listed.stored[i].type, types[i]);
        for (size_t j = 0; j < t->shape[0]; j++) {
            const float is = ((const float *)t->data)[j];
            ck_assert_msg(isnan(want[i][j]) ? isnan(is) : is == want[i][j], "%s %zu: %g", types[i],
                          j, (double)is);
        }
    }
    ck_assert(ck.tensor[5].dtype == PARE_BF16 && ck.tensor[5].data == in->tensor[5].data);
    pare_scratch_close(&ck.scratch);
    pare_scratch_close(&listed.scratch);
    pare_json_free(in->config);
}
END_TEST

static char warned[256];

static void hear(void *self, const char *text)
{
    (void)self;
    (void)snprintf(warned, sizeof warned, "%s", text);
}

/* Matrices of codes alone are read as they are, and told; vectors and a listing are not. */
START_TEST(codes_without_scales_are_told)
{
    static const char text[] = "{}\0a F8_E4M3 2 2 = 0x38\nb F8_E5M2 2 2 = 0x38\nc F8_E4M3 4 = 0\n";
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck, listed;
    cx.progress.warn = hear;
    warned[0] = '\0';
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, sizeof text - 1, in), PARE_OK);
    ck_assert_int_eq(quantized_open(&cx, &arena, in, true, false, &listed), PARE_OK);
    ck_assert_str_eq(warned, "");
    ck_assert_int_eq(quantized_open(&cx, &arena, in, false, false, &ck), PARE_OK);
    ck_assert_ptr_nonnull(
        strstr(warned, "2 tensors of floats of 8 bits (a, ...) have no scales, and pare takes"));
    pare_scratch_close(&ck.scratch);
    pare_scratch_close(&listed.scratch);
    pare_json_free(in->config);
}
END_TEST

/* Which nothing else would show. */
START_TEST(a_listing_shows_what_is_not_read)
{
    static const char text[] = GPTQ("4, \"format\": \"marlin\"") GPTQ4 "0\n";
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck;
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, sizeof text - 1, in), PARE_OK);
    ck_assert_int_eq(quantized_open(&cx, &arena, in, false, false, &ck), PARE_ENOTSUP);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(quantized_open(&cx, &arena, in, true, false, &ck), PARE_OK);
    ck_assert(ck.tensors == 4 && pare_checkpoint_find(&ck, LAYER ".qweight") && !ck.unpacked);
    ck_assert(!ck.quantized && cx.what[0] == '\0');
    ck_assert_ptr_nonnull(strstr(ck.unread, "format: marlin is not read"));
    pare_json_free(in->config);
}
END_TEST

/* Weights and inputs; the latter are rounded as the file says where kernels do so. */
#define INPUTS(type, strategy, dynamic)                                                            \
    ROWS(type "}, \"input_activations\": {\"strategy\": \"" strategy "\", \"dynamic\": " dynamic)
#define FLOAT ", \"type\": \"float\""
#define FIXED LAYER ".input_scale F32 1 = 0.02\n"
#define SCALE ".weight_scale F32 3 1 = 0.5 -0.25 3\n"

START_TEST(inputs_are_rounded_as_the_file_says)
{
    static const struct {
        const char *text;
        size_t len;
        pare_activation is;
    } says[] = {
        {TEXT(ROWS("") WHOLE8), {PARE_ACTIVATION_GROUP, 8, 0}},
        {TEXT(INPUTS("", "token", "true") WHOLE8), {PARE_ACTIVATION_TOKEN, 8, 0}},
        {TEXT(INPUTS("", "tensor", "false") WHOLE8 FIXED), {PARE_ACTIVATION_TENSOR, 8, 0.02F}},
        {TEXT(INPUTS("", "tensor", "true") WHOLE8), {PARE_ACTIVATION_GROUP, 8, 0}},
        {TEXT(INPUTS(FLOAT, "token", "true" FLOAT) FLOATS8 SCALE), {PARE_ACTIVATION_FLOAT, 8, 0}},
        {TEXT(INPUTS(FLOAT, "token", "true") FLOATS8 SCALE), {PARE_ACTIVATION_FLOAT, 0, 0}},
        {TEXT(INPUTS(FLOAT, "tensor", "true" FLOAT) FLOATS8 SCALE), {PARE_ACTIVATION_FLOAT, 0, 0}},
    };
    const pare_activation *const is = &says[_i].is;
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck;
    ck_assert_int_eq(quantized_parse(&cx, &arena, says[_i].text, says[_i].len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &ck) == PARE_OK, "%s", cx.what);
    const pare_linear *const l = ck.stored[0].packed;
    ck_assert(l && l->activation.mode == is->mode && l->activation.bits == is->bits);
    ck_assert(l->activation.scale == is->scale);
    pare_scratch_close(&ck.scratch);
    pare_json_free(in->config);
}
END_TEST

static pare_status read_case(pare_ctx *c, pare_arena *a, const void *self)
{
    const size_t i = *(const size_t *)self;
    quantized_input *const in = PARE_NEW(a, quantized_input, 1);
    pare_checkpoint ck = {0};
    pare_status s = in ? quantized_parse(c, a, cases[i].text, cases[i].len, in) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = quantized_open(c, a, in, false, true, &ck);
    pare_scratch_close(&ck.scratch);
    if (in)
        pare_json_free(in->config);
    return s;
}

START_TEST(every_failed_allocation_is_reported)
{
    const size_t at = (size_t)_i;
    folder_refuse_memory(&cx, read_case, &at);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("quantized");
    TCase *const t = tcase_create("quantized");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, weights_are_what_the_words_stand_for, 0, CASES);
    tcase_add_test(t, a_listing_shows_what_is_not_read);
    tcase_add_test(t, other_floats_become_f32);
    tcase_add_test(t, codes_without_scales_are_told);
    tcase_add_loop_test(t, inputs_are_rounded_as_the_file_says, 0, 7);
    tcase_add_loop_test(t, every_failed_allocation_is_reported, 0, CASES);
    suite_add_tcase(s, t);
    return unit_main(s);
}
