/* Linears as the compressors of compressed-tensors write them: every weight has the bits of its
 * dequantize (compressed_linears.json is written by tests/interop/compressed_linears.py). */
#include "runtime/file.h"
#include "tests/fuzz/quantized_input.h"
#include "unit.h"

enum { CAP = 1024 * 1024, TEXT = 8192, LINEARS = 17 };

static pare_ctx cx;
static pare_arena arena;
static char warned[512];

static void hear(void *self, const char *text)
{
    (void)self;
    ck_assert_msg(!warned[0], "%s", warned);
    (void)snprintf(warned, sizeof warned, "%s", text);
}

static void setup(void)
{
    pare_ctx_init(&cx);
    cx.progress.warn = hear;
    warned[0] = '\0';
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void read_linear(const pare_json *one, quantized_input *in)
{
    static char input[TEXT];
    pare_json_writer *w;
    const char *json;
    size_t len, lines_len;
    const char *const lines = pare_json_text(pare_json_get(one, "tensors"), &lines_len);
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_put_copy(w, NULL, pare_json_get(one, "config"));
    ck_assert_int_eq(pare_json_writer_finish(w, &json, &len), PARE_OK);
    ck_assert_uint_lt(len + lines_len + 1, sizeof input);
    memcpy(input, json, len);
    input[len] = '\0';
    memcpy(input + len + 1, lines, lines_len);
    pare_json_writer_free(w);
    ck_assert_msg(quantized_parse(&cx, &arena, input, len + 1 + lines_len, in) == PARE_OK, "%s",
                  cx.what);
}

static void check_weights(const char *name, const float *is, const pare_json *want, size_t count)
{
    ck_assert_uint_eq(pare_json_count(want), count);
    for (size_t i = 0; i < count; i++) {
        const uint32_t bits = (uint32_t)pare_json_integer(pare_json_at(want, i), 0);
        ck_assert_msg(pare_f32_bits(is[i]) == bits, "%s: weight %zu is %a", name, i, (double)is[i]);
    }
}

START_TEST(weights_have_the_bits_of_the_reference)
{
    char path[4096], *text;
    size_t len;
    pare_json *doc;
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 1);
    pare_checkpoint floats, runs;
    (void)snprintf(path, sizeof path, "%s/tests/data/compressed_linears.json", PARE_SOURCE_DIR);
    ck_assert_msg(pare_file_read(&cx, &arena, path, CAP, &text, &len) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_json_parse(&cx, "linears", text, len, CAP, &doc), PARE_OK);
    ck_assert_uint_eq(pare_json_count(doc), LINEARS);
    const pare_json *const one = pare_json_at(doc, (size_t)_i);
    const char *const name = pare_json_text(pare_json_get(one, "name"), NULL);
    const bool nvfp4 = strncmp(name, "NVFP4", 5) == 0, mxfp4 = strncmp(name, "MXFP4", 5) == 0;
    read_linear(one, in);
    ck_assert_msg(quantized_open(&cx, &arena, in, false, false, &floats) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = &floats.tensor[0];
    ck_assert(floats.tensors == 1 && floats.unpacked == 1);
    check_weights(name, t->data, pare_json_get(one, "weights"), t->shape[0] * t->shape[1]);
    /* inputs in floats of 4 bits are told, once, where weights become floats */
    ck_assert_int_eq(warned[0] != '\0', !strncmp(name, "NVFP4 ", 6) || !strncmp(name, "MXFP4 ", 6));
    ck_assert(!warned[0] || strstr(warned, "rounds the inputs of linears, and pare does not"));
    cx.progress.warn = NULL;
    ck_assert_int_eq(quantized_open(&cx, &arena, in, false, true, &runs), PARE_OK);
    const pare_linear *const l = runs.stored[0].packed;
    ck_assert(mxfp4 ? l && l->encoding == PARE_ENCODING_MXFP4 &&
                          l->activation.bits == (strncmp(name, "MXFP4 ", 6) ? 0 : 4)
                    : !l);
    ck_assert(!nvfp4 || strstr(runs.quantized, ": 1 x nvfp4"));
    ck_assert(!mxfp4 || strstr(runs.quantized, ": 1 x mxfp4"));
    if (l) {
        float *const w = PARE_NEW(&arena, float, l->n * l->k);
        pare_linear_to_f32(&cx, l, w);
        check_weights(name, w, pare_json_get(one, "weights"), l->n * l->k);
    }
    pare_scratch_close(&floats.scratch);
    pare_scratch_close(&runs.scratch);
    pare_json_free(in->config);
    pare_json_free(doc);
}
END_TEST

#define LAYER "model.layers.0.mlp.down_proj"
#define FITS_BOTH(version)                                                                         \
    "{\"model_type\": \"llama\", \"quantization_config\": {\"quant_method\": "                     \
    "\"compressed-tensors\", \"version\": \"" version                                              \
    "\", \"config_groups\": {\"g\": {\"targets\": [\"Linear\"], \"weights\": {\"num_bits\": 3, "   \
    "\"strategy\": \"channel\"}}}}}\0" LAYER ".weight_packed I32 1 8 = 0x09249249\n" LAYER         \
    ".weight_scale F32 1 1 = 1\n" LAYER ".weight_shape I64 2 = 1 80\n"

/* Eighty codes of 3 bits take 8 words, whether ten of them lie in each or they follow each other.
 */
START_TEST(words_that_fit_both_packings_go_by_the_version)
{
    static const char old[] = FITS_BOTH("0.17.1"), new[] = FITS_BOTH("0.18.0");
    quantized_input *const in = PARE_NEW(&arena, quantized_input, 2);
    pare_checkpoint ck;
    ck_assert_int_eq(quantized_parse(&cx, &arena, old, sizeof old - 1, &in[0]), PARE_OK);
    ck_assert_msg(quantized_open(&cx, &arena, &in[0], false, false, &ck) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = pare_checkpoint_find(&ck, LAYER ".weight");
    ck_assert(t && t->shape[0] == 1 && t->shape[1] == 80);
    for (size_t i = 0; i < 80; i++)
        ck_assert(((const float *)t->data)[i] == -3); /* all codes are 1 */
    pare_scratch_close(&ck.scratch);
    ck_assert_int_eq(quantized_parse(&cx, &arena, new, sizeof new - 1, &in[1]), PARE_OK);
    ck_assert_int_eq(quantized_open(&cx, &arena, &in[1], false, false, &ck), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "word 7 has bits behind the last of 80"));
    pare_ctx_clear(&cx);
    pare_json_free(in[0].config);
    pare_json_free(in[1].config);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("compressed_linears");
    TCase *const t = tcase_create("compressed_linears");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, weights_have_the_bits_of_the_reference, 0, LINEARS);
    tcase_add_test(t, words_that_fit_both_packings_go_by_the_version);
    suite_add_tcase(s, t);
    return unit_main(s);
}
