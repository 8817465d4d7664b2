/* NVFP4 in files of compressed-tensors: the factors that linears share there, and files that become
 * codes again; inputs in 4-bit floats. */
#include <string.h>

#include "compress/export/export.h"
#include "tests/fuzz/quantized_input.h"
#include "tests/unit/artifact.h"

static pare_ctx cx;
static pare_arena arena;
static folder from, out;
static char to[64];

static void begin(void)
{
    folder_begin(&from, &cx, &arena);
    folder_make(&out);
    const int len = snprintf(to, sizeof to, "%s/x", out.path);
    ck_assert(len > 0 && (size_t)len < sizeof to);
}

static void end(void)
{
    folder f = {.path = ""};
    memcpy(f.path, to, sizeof to);
    if (pare_path_is_directory(to))
        folder_remove(&f);
    folder_remove(&out);
    folder_end(&from, &arena);
}

static pare_status export_it(pare_export_result *r)
{
    const pare_export_job job = {.unchecked = true,
                                 .artifact = from.path,
                                 .output = to,
                                 .target = pare_export_find("compressed-tensors")};
    return pare_export_run(&cx, &arena, &job, r);
}

/* The exponent of the factor of each linear of a block, and the magnitude of the weights of the
 * first group, whose scale is the smallest; so is that of the last group where it is empty. */
static const int exponents[PARE_COMMON_ROLES] = {-9, -7, -8, -10, -11, -12, -13};
static uint8_t magnitude;

static void pack(pare_arena *a, const pare_packed_linear *l, size_t i, pare_packed_planes *planes)
{
    pare_codes c;
    ck_assert(encoded_codes(a, l, i, &c));
    c.scale_factor = ldexpf(1, exponents[i % PARE_COMMON_ROLES]);
    const size_t last = l->n * c.groups - 1;
    const bool empty = l->k < c.groups * l->group;
    for (size_t j = 0; j <= last; j++) {
        const bool least = j == 0 || (empty && j == last);
        c.scale_codes[j] = (uint8_t)(least ? 1 : 40 + j % 87);
        c.scales[j] = pare_levels_e4m3[c.scale_codes[j]] * c.scale_factor;
    }
    for (size_t j = 0; j < l->group; j++)
        c.codes[j] = (uint8_t)(magnitude | (j % 2 ? 8 : 0));
    ck_assert_int_eq(pare_packed_pack(&cx, a, l, &c, planes), PARE_OK);
}

static void fill_factors(artifact *m, pare_packed_writer *w, size_t i)
{
    pare_packed_planes planes;
    pack(&m->a, &m->linear[i], i, &planes);
    artifact_put_planes(m, w, m->linear[i].name, &planes);
}

static void write_factors(uint8_t first)
{
    static const pare_packed_linear kind = {
        .bits = 4,
        .group = 16,
        .symmetric = true,
        .encoding = PARE_ENCODING_NVFP4,
        .activation = {.mode = PARE_ACTIVATION_FLOAT, .bits = 4}};
    static artifact m;
    static const tiny_model tiny = {.hidden = 64,
                                    .intermediate = 112, /* down has an empty group at the end */
                                    .blocks = 2,
                                    .heads = 4,
                                    .kv_heads = 2,
                                    .head_dim = 16,
                                    .vocab = 96,
                                    .context = 64,
                                    .dtype = PARE_F16,
                                    .shards = 1,
                                    .seed = 1};
    magnitude = first;
    artifact_open_tiny(&m, &cx, &from, &tiny);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++)
        artifact_add(&m, i, &kind);
    artifact_plan(&m, 1 << 16);
    artifact_finish(&m, &from, fill_factors);
}

/* Scales of q, k and v, and of gate and up, under one factor; each has its own in the artifact. */
START_TEST(nvfp4_shares_a_factor_where_engines_do)
{
    static const char *const names[] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                        "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                        "mlp.down_proj"};
    static const float divisor[] = {128, 128, 128, 1024, 2048, 2048, 8192};
    char path[256], *text;
    size_t len;
    pare_export_result r;
    pare_checkpoint ck;
    write_factors(0);
    ck_assert_msg(export_it(&r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 14);
    ck_assert(r.error == 0);
    (void)snprintf(path, sizeof path, "%s/config.json", to);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 16, &text, &len), PARE_OK);
    ck_assert_msg(strstr(text, "\"format\": \"nvfp4-pack-quantized\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"strategy\": \"tensor_group\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"group_size\": 16") && !strstr(text, "uint8"), "%s", text);
    ck_assert_msg(strstr(text, "\"dynamic\": \"local\"") && strstr(text, "float8_e4m3fn"), "%s",
                  text);
    ck_assert_int_eq(pare_checkpoint_open_plain(&cx, &arena, to, &ck), PARE_OK);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        float is;
        (void)snprintf(path, sizeof path, "model.layers.%zu.%s.weight_global_scale",
                       i / PARE_COMMON_ROLES, names[i % PARE_COMMON_ROLES]);
        const pare_tensor *const t = pare_checkpoint_find(&ck, path);
        ck_assert_ptr_nonnull(t);
        ck_assert_int_eq(pare_tensor_to_f32(&cx, t, 0, 1, &is), PARE_OK);
        ck_assert_float_eq(is, divisor[i % PARE_COMMON_ROLES]);
        (void)snprintf(path, sizeof path, "model.layers.%zu.%s.input_global_scale",
                       i / PARE_COMMON_ROLES, names[i % PARE_COMMON_ROLES]);
        const pare_tensor *const inputs = pare_checkpoint_find(&ck, path);
        ck_assert(inputs && pare_tensor_to_f32(&cx, inputs, 0, 1, &is) == PARE_OK);
        ck_assert_float_eq(is, 0.03F);
        (void)snprintf(path, sizeof path, "model.layers.%zu.%s.scale_factor", i / PARE_COMMON_ROLES,
                       names[i % PARE_COMMON_ROLES]);
        ck_assert_ptr_null(pare_checkpoint_find(&ck, path));
    }
    pare_checkpoint_close(&ck);
}
END_TEST

/* A weight that is not zero, and half of the smallest number of E4M3 as its scale. */
START_TEST(nvfp4_that_no_shared_factor_holds_is_refused)
{
    pare_export_result r;
    write_factors(1);
    ck_assert_int_eq(export_it(&r), PARE_ENUMERIC);
    ck_assert_msg(strstr(cx.what, "layers.0.self_attn.q_proj: row 0, group 0: scale 3.8147e-06 is "
                                  "too small beside the largest of the linears that engines run as "
                                  "one matrix with it"),
                  "%s", cx.what);
    pare_ctx_clear(&cx);
}
END_TEST

/* A matrix has one factor where a family has several linears in one tensor. */
START_TEST(nvfp4_is_joined_under_one_factor_or_refused)
{
    static const pare_config config = {.heads = 1};
    static const char *const names[] = {"q", "k"};
    const pare_export_model model = {.config = &config};
    pare_linear w[2], joined;
    pare_export_linear piece[2], l;
    pare_packed_planes planes;
    float is[2 * 32 * 48], was[2 * 32 * 48];
    magnitude = (uint8_t)_i;
    for (size_t i = 0; i < 2; i++) {
        piece[i] = (pare_export_linear){.name = names[i],
                                        .weights = &w[i],
                                        .is_packed = true,
                                        .packed = {.name = names[i],
                                                   .n = 32,
                                                   .k = 48,
                                                   .bits = 4,
                                                   .group = 16,
                                                   .symmetric = true,
                                                   .encoding = PARE_ENCODING_NVFP4}};
        pack(&arena, &piece[i].packed, i, &planes);
        ck_assert_int_eq(pare_packed_view(&cx, &arena, &piece[i].packed, planes.plane, &w[i]),
                         PARE_OK);
    }
    pare_export_join(&l, "qk", piece, 2, PARE_FUSION_STACKED);
    const pare_status s = pare_export_weights(&cx, &arena, &model, &l, false, &joined);
    ck_assert_msg(s == (magnitude ? PARE_ENUMERIC : PARE_OK), "%s", cx.what);
    if (magnitude) {
        ck_assert_ptr_nonnull(strstr(cx.what, "linear q: row 0, group 0: scale 3.8147e-06 is too"));
        pare_ctx_clear(&cx);
        return;
    }
    pare_linear_to_f32(&cx, &joined, is);
    ck_assert_int_eq(pare_export_floats(&cx, &arena, &model, &l, was), PARE_OK);
    for (size_t j = 0; j < sizeof is / sizeof *is; j++)
        ck_assert_float_eq(is[j], was[j]);
}
END_TEST

#define LAYER "model.layers.0.mlp.down_proj"
#define CONFIG                                                                                     \
    "{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": "                     \
    "\"compressed-tensors\", \"format\": \"nvfp4-pack-quantized\", \"config_groups\": {\"g\": "    \
    "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"float\", "             \
    "\"strategy\": \"tensor_group\", \"group_size\": 16}}}}}"
#define FILE_OF(bytes, groups, third, global)                                                      \
    CONFIG "\n" LAYER ".weight_packed U8 3 " bytes " = 0x21 0x43 0xf7 0x8a 0x05\n" LAYER           \
           ".weight_scale F8_E4M3 3 " groups " = 0x38 0x01 " third "\n" LAYER                      \
           ".weight_global_scale F32 1 = " global "\n"

/* Codes again: powers of two beside the scales, whose products are at most 57344 and have no sign,
 * and whole atoms of 32 columns. */
static const struct {
    const char *text;
    size_t k;
    float second, third; /* scales */
    bool packs;
} files[] = {
    {FILE_OF("32", "4", "0x7e", "4"), 64, 0x1p-11F, 112, true},
    {FILE_OF("32", "4", "0x7e", "32768"), 64, 0x1p-24F, 0x1.cp-7F, true},
    {FILE_OF("32", "4", "0x7e", "0.0078125"), 64, 0x1p-2F, 57344, true},
    {FILE_OF("32", "4", "0x70", "0.00390625"), 64, 0x1p-1F, 32768, true},
    {FILE_OF("32", "4", "0x7e", "0.00390625"), 64, 0x1p-1F, 114688, false},
    {FILE_OF("32", "4", "0x7e", "65536"), 64, 0x1p-25F, 0x1.cp-8F, false},
    {FILE_OF("32", "4", "0x7e", "3"), 64, 0x1p-9F / 3, 448.0F / 3, false},
    {FILE_OF("32", "4", "0xb8", "4"), 64, 0x1p-11F, -0.25F, false},
    {FILE_OF("24", "3", "0x7e", "4"), 48, 0x1p-11F, 112, false},
};
enum { FILES = sizeof files / sizeof *files };

START_TEST(files_become_codes_where_a_power_of_two_is_beside_the_scales)
{
    char text[2048];
    float w[3 * 64];
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint floats, runs;
    const size_t len = strlen(files[_i].text), k = files[_i].k;
    memcpy(text, files[_i].text, len + 1);
    *strchr(text, '\n') = '\0'; /* behind the configuration */
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, false, &floats) == PARE_OK, "%s", cx.what);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &runs) == PARE_OK, "%s", cx.what);
    const pare_linear *const l = runs.stored[0].packed;
    const float *const is = floats.tensor[0].data;
    ck_assert_float_eq(is[16], -files[_i].second); /* the codes: -1 and 0.5 */
    ck_assert_float_eq(is[40], 0.5F * files[_i].third);
    ck_assert_int_eq(l != NULL, files[_i].packs);
    if (l) {
        ck_assert_int_eq(l->encoding, PARE_ENCODING_NVFP4);
        pare_linear_to_f32(&cx, l, w);
        ck_assert_mem_eq(w, is, 3 * k * sizeof *w);
    }
    pare_scratch_close(&floats.scratch);
    pare_scratch_close(&runs.scratch);
    pare_json_free(in->config);
}
END_TEST

#define FP4(format, inputs)                                                                        \
    "{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": "                     \
    "\"compressed-tensors\", \"format\": \"" format                                                \
    "-pack-quantized\", \"config_groups\": {\"g\": "                                               \
    "{\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 4, \"type\": \"float\", "             \
    "\"strategy\": " inputs "}}}}\n" LAYER                                                         \
    ".weight_packed U8 3 32 = 0x21 0x43 0xf7 0x8a 0x05\n" LAYER
#define INPUTS "}, \"input_activations\": {\"num_bits\": 4, \"type\": \"float\", \"strategy\": "
#define MXFP4(inputs, dynamic)                                                                     \
    FP4("mxfp4", "\"group\", \"group_size\": 32" INPUTS inputs ", \"dynamic\": " dynamic "}")      \
    ".weight_scale U8 3 2 = 120 121\n"
#define NVFP4(dynamic)                                                                             \
    FP4("nvfp4", "\"tensor_group\", \"group_size\": 16" INPUTS                                     \
                 "\"tensor_group\", \"group_size\": 16, \"dynamic\": " dynamic "}")                \
    ".weight_scale F8_E4M3 3 4 = 0x38 0x01 0x7e\n" LAYER ".weight_global_scale F32 1 = 4\n" LAYER  \
    ".input_global_scale F32 1 = 12\n"

/* As the file says, where it is the rule of the kernels. */
static const struct {
    const char *text;
    unsigned bits;
    float scale;
} rounded[] = {
    {MXFP4("\"group\", \"group_size\": 32", "true"), 4, 0},
    {MXFP4("\"group\", \"group_size\": 32", "false"), 0, 0},
    {MXFP4("\"group\", \"group_size\": 64", "true"), 0, 0},
    {MXFP4("\"token\"", "true"), 0, 0},
    {NVFP4("\"local\""), 4, 12},
    {NVFP4("true"), 0, 0},
};

START_TEST(inputs_are_rounded_in_groups)
{
    char text[2048];
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint ck;
    const size_t len = strlen(rounded[_i].text);
    memcpy(text, rounded[_i].text, len + 1);
    *strchr(text, '\n') = '\0'; /* behind the configuration */
    ck_assert_int_eq(quantized_parse(&cx, &arena, text, len, in), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, true, &ck) == PARE_OK, "%s", cx.what);
    const pare_linear *const l = ck.stored[0].packed;
    ck_assert(l && l->activation.mode == PARE_ACTIVATION_FLOAT);
    ck_assert_uint_eq(l->activation.bits, rounded[_i].bits);
    ck_assert_float_eq(l->activation.scale, rounded[_i].scale);
    pare_scratch_close(&ck.scratch);
    pare_json_free(in->config);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("nvfp4_files");
    TCase *const t = tcase_create("nvfp4_files");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, nvfp4_shares_a_factor_where_engines_do);
    tcase_add_test(t, nvfp4_that_no_shared_factor_holds_is_refused);
    tcase_add_loop_test(t, nvfp4_is_joined_under_one_factor_or_refused, 0, 2);
    tcase_add_loop_test(t, files_become_codes_where_a_power_of_two_is_beside_the_scales, 0, FILES);
    tcase_add_loop_test(t, inputs_are_rounded_in_groups, 0, 6);
    suite_add_tcase(s, t);
    return unit_main(s);
}
