#include <fcntl.h>
#include <string.h>

#include "compress/artifact/inspect.h"
#include "compress/export/export.h"
#include "compress/output/journal.h"
#include "tests/unit/artifact.h"
#include "tests/unit/tensor_at.h"

/* A folder of an artifact and one of its export, OUTPUT.partial beside it. */
static pare_ctx cx;
static pare_arena arena;
static folder from, out;
static char to[128], partial[128];

/* Sizes that every target takes. */
static tiny_model wide(pare_dtype dtype)
{
    return (tiny_model){.hidden = 64,
                        .intermediate = 128,
                        .blocks = 2,
                        .heads = 4,
                        .kv_heads = 2,
                        .head_dim = 16,
                        .vocab = 96,
                        .context = 64,
                        .dtype = dtype,
                        .shards = 1,
                        .seed = 1};
}

static void begin(void)
{
    folder_begin(&from, &cx, &arena);
    folder_make(&out);
    (void)snprintf(to, sizeof to, "%s/x", out.path);
    (void)snprintf(partial, sizeof partial, "%s/x.partial", out.path);
}

static void remove_files(const char *path)
{
    folder f = {.path = ""};
    const int len = snprintf(f.path, sizeof f.path, "%s", path);
    ck_assert(len > 0 && (size_t)len < sizeof f.path);
    if (pare_path_is_directory(path))
        folder_remove(&f);
}

static void end(void)
{
    remove_files(to);
    remove_files(partial);
    folder_remove(&out);
    folder_end(&from, &arena);
}

/* An artifact with linear i stored like kind[i % kinds], but for those where it has no bits. */
static void write_artifact(const pare_packed_linear *kind, size_t kinds, const tiny_model *tiny)
{
    static artifact m;
    artifact_open_tiny(&m, &cx, &from, tiny);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++)
        if (kind[i % kinds].bits)
            artifact_add(&m, i, &kind[i % kinds]);
    artifact_plan(&m, 1 << 16);
    artifact_finish(&m, &from, artifact_fill_encoded);
    folder_put_text(&from, "tokenizer.json", "{}");
}

static void write_plain(unsigned bits, size_t group, bool symmetric)
{
    const pare_packed_linear kind = UNIFORM(NULL, 0, 0, bits, group, symmetric);
    const tiny_model tiny = wide(PARE_F16);
    write_artifact(&kind, 1, &tiny);
}

static pare_status export_as(const pare_export_target *t, bool restart, pare_export_result *r)
{
    const pare_export_job job = {
        .unchecked = true, .artifact = from.path, .output = to, .target = t, .restart = restart};
    return pare_export_run(&cx, &arena, &job, r);
}

static bool has(const char *directory, const char *name)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return pare_path_is_file(path);
}

static void check_says(pare_status is, pare_status wanted, const char *what)
{
    ck_assert_msg(is == wanted, "%s: %s", pare_strstatus(is), cx.what);
    ck_assert_msg(strstr(cx.what, what), "%s", cx.what);
    pare_ctx_clear(&cx);
}

#define NO_INPUT  .activation = {.mode = PARE_ACTIVATION_FLOAT}
#define FP8_INPUT .activation = {.mode = PARE_ACTIVATION_FLOAT, .bits = 8}
static const pare_packed_linear mixed[] = {
    /* q, k and v alike, gate and up alike */
    {.bits = 4, .group = 32, .symmetric = true},
    {.bits = 4, .group = 32, .symmetric = true},
    {.bits = 4, .group = 32, .symmetric = true, .sparsity = PARE_SPARSITY_2_4},
    {.bits = 3, .group = 64, .symmetric = false},
    {.bits = 8, .symmetric = true, .encoding = PARE_ENCODING_FP8, FP8_INPUT},
    {.bits = 8, .symmetric = true, .encoding = PARE_ENCODING_FP8, FP8_INPUT},
    {.bits = 2, .group = 64, .symmetric = true, .encoding = PARE_ENCODING_TERNARY},
    {.bits = 8, .symmetric = true, .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8}},
    {.bits = 8,
     .symmetric = true,
     .sparsity = PARE_SPARSITY_2_4,
     .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8}},
    {.bits = 8, .symmetric = true, .activation = {.mode = PARE_ACTIVATION_TOKEN, .bits = 8}},
    {.bits = 8, .symmetric = true, .activation = {.mode = PARE_ACTIVATION_TENSOR, .bits = 8}},
    {.bits = 16, .symmetric = true, .encoding = PARE_ENCODING_F16, NO_INPUT},
    {.bits = 0},
    {.bits = 16,
     .symmetric = true,
     .encoding = PARE_ENCODING_F16,
     .sparsity = PARE_SPARSITY_BITMASK,
     .kept = 3000,
     NO_INPUT},
};

START_TEST(compressed_tensors_hold_every_kind_that_engines_know)
{
    begin();
    const tiny_model tiny = wide(PARE_F16);
    pare_export_result r;
    write_artifact(mixed, sizeof mixed / sizeof *mixed, &tiny);
    ck_assert_msg(export_as(pare_export_find("compressed-tensors"), false, &r) == PARE_OK, "%s",
                  cx.what);
    ck_assert_uint_eq(r.rows, 15);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 13);
    ck_assert_uint_eq(r.count[PARE_EXPORT_FLOAT], 2); /* up of block 1, and the head */
    ck_assert_str_eq(r.row[0].name, "model.layers.0.self_attn.q_proj");
    ck_assert_str_eq(r.row[0].was, "int4 g32 sym");
    ck_assert_ptr_null(r.row[12].was);
    ck_assert(r.error == 0 && r.notice == NULL && r.bytes > 0);
    ck_assert(has(to, "config.json") && has(to, "tokenizer.json") && has(to, PARE_EXPORT_RECORD));
    ck_assert(!has(to, "quantize_config.json") && !has(to, "packed.index.json"));
    ck_assert(!pare_path_is_directory(partial));
    end();
}
END_TEST

static const struct {
    const char *target;
    unsigned bits;
    size_t group;
    bool symmetric;
} plain[] = {
    {"compressed-tensors", 2, 32, true},
    {"compressed-tensors", 4, 0, false},
    {"compressed-tensors", 8, 64, true},
    {"compressed-tensors", 8, 32, false},
    {"gptq", 2, 0, true},
    {"gptq", 3, 32, true},
    {"gptq", 4, 64, true},
    {"gptq", 8, 32, true},
    {"gptq_v2", 2, 64, false},
    {"gptq_v2", 3, 0, false},
    {"gptq_v2", 4, 32, false},
    {"gptq_v2", 8, 32, false},
    {"awq", 4, 32, false},
    {"awq", 4, 0, true},
    {"awq", 3, 64, true},
    {"awq", 2, 32, false},
};
enum { PLAIN = sizeof plain / sizeof *plain };

START_TEST(weights_read_back_as_the_kernels_decode_them)
{
    begin();
    pare_export_result r;
    const pare_export_target *const t = pare_export_find(plain[_i].target);
    write_plain(plain[_i].bits, plain[_i].group, plain[_i].symmetric);
    ck_assert_msg(export_as(t, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 14);
    ck_assert(r.error == 0);
    ck_assert(!t->extra || has(to, t->extra));
    end();
}
END_TEST

/* Then down has rows of 32: storage calls such a group a row, engines do not. */
START_TEST(mxfp4_reads_back_as_the_kernels_decode_it)
{
    pare_packed_linear kind[PARE_COMMON_ROLES];
    for (size_t i = 0; i < PARE_COMMON_ROLES; i++)
        kind[i] = (pare_packed_linear){.bits = 4,
                                       .group = _i && i == PARE_ROLE_DOWN ? 0 : 32,
                                       .symmetric = true,
                                       .encoding = PARE_ENCODING_MXFP4,
                                       .activation = {PARE_ACTIVATION_FLOAT, _i ? 4 : 0, 0}};
    begin();
    tiny_model tiny = wide(PARE_F16);
    tiny.intermediate = _i ? 32 : tiny.intermediate;
    char path[256], *text;
    size_t len;
    pare_export_result r;
    const pare_export_target *const t = pare_export_find("compressed-tensors");
    const pare_export_linear down = {.packed = kind[PARE_ROLE_DOWN], .is_packed = true};
    write_artifact(kind, PARE_COMMON_ROLES, &tiny);
    ck_assert_msg(export_as(t, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 14);
    ck_assert(r.error == 0);
    ck_assert_uint_eq(pare_export_grain_of(t, &down).group, 32);
    (void)snprintf(path, sizeof path, "%s/config.json", to);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 16, &text, &len), PARE_OK);
    ck_assert_msg(strstr(text, "\"format\": \"mxfp4-pack-quantized\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"type\": \"float\"") != NULL, "%s", text);
    ck_assert_msg(strstr(text, "\"group_size\": 32") && !strstr(text, "\"channel\""), "%s", text);
    ck_assert_msg(!strstr(text, "\"dynamic\": true") == !_i, "%s", text);
    ck_assert_msg(!strstr(text, "\"input_activations\": null") == !!_i, "%s", text);
    end();
}
END_TEST

/* Down has rows of 80. */
START_TEST(mxfp4_of_a_part_of_a_group_is_refused)
{
    static const pare_packed_linear kind = {
        .bits = 4, .group = 32, .symmetric = true, .encoding = PARE_ENCODING_MXFP4, NO_INPUT};
    begin();
    tiny_model tiny = wide(PARE_F16);
    tiny.intermediate = 80;
    pare_export_result r;
    write_artifact(&kind, 1, &tiny);
    check_says(export_as(pare_export_find("compressed-tensors"), false, &r), PARE_ENOTSUP,
               "down_proj (mxfp4 g32, x f32): engines need groups that divide the columns");
    end();
}
END_TEST

START_TEST(words_of_an_export_count_as_the_weights_that_they_hold)
{
    begin();
    pare_export_result r;
    pare_inspection was, is;
    const pare_export_target *const t = pare_export_find(plain[_i].target);
    write_plain(plain[_i].bits, plain[_i].group, plain[_i].symmetric);
    ck_assert_int_eq(export_as(t, false, &r), PARE_OK);
    ck_assert_int_eq(pare_inspect(&cx, &arena, from.path, &was), PARE_OK);
    ck_assert_int_eq(pare_inspect(&cx, &arena, to, &is), PARE_OK);
    ck_assert_uint_eq(is.weights, was.weights);
    ck_assert(is.bits_per_weight > 2 && is.bits_per_weight < 17);
    end();
}
END_TEST

/* Loaders of AWQ take 4 bits and nothing else. */
START_TEST(awq_of_fewer_bits_is_a_file_of_4_bits)
{
    begin();
    char path[256], *text;
    size_t len;
    pare_export_result r;
    write_plain(3, 64, true);
    ck_assert_int_eq(export_as(pare_export_find("awq"), false, &r), PARE_OK);
    (void)snprintf(path, sizeof path, "%s/config.json", to);
    ck_assert_int_eq(pare_file_read(&cx, &arena, path, 1 << 16, &text, &len), PARE_OK);
    ck_assert_msg(strstr(text, "\"bits\": 4,") != NULL, "%s", text);
    const uint64_t bytes = r.bytes;
    write_plain(4, 64, true);
    ck_assert_int_eq(export_as(pare_export_find("awq"), true, &r), PARE_OK);
    ck_assert_uint_eq(r.bytes, bytes);
    end();
}
END_TEST

START_TEST(nothing_is_exported_into_the_artifact)
{
    static const char *const inside[] = {"sub", "sub/deep/", "."};
    begin();
    char path[256];
    pare_export_result r;
    write_plain(4, 32, true);
    (void)snprintf(path, sizeof path, "%s/%s", from.path, inside[_i]);
    for (size_t i = 0; pare_export_targets[i]; i++) {
        const pare_export_job job = {.unchecked = true,
                                     .artifact = from.path,
                                     .output = path,
                                     .target = pare_export_targets[i],
                                     .restart = true};
        const pare_status s = pare_export_run(&cx, &arena, &job, &r);
        ck_assert_msg(s == PARE_EUSAGE || s == PARE_EEXISTS, "%s: %s", job.target->name, cx.what);
        ck_assert(strstr(cx.what, "lies inside") || strstr(cx.what, "would replace the model") ||
                  strstr(cx.what, "writes a file, not a directory"));
        pare_ctx_clear(&cx);
    }
    ck_assert(!has(from.path, "sub") && !has(from.path, "sub.partial"));
    (void)snprintf(path, sizeof path, "%s/sub", from.path);
    ck_assert(!pare_path_is_directory(path));
    end();
}
END_TEST

START_TEST(floats_are_rounded_to_the_type_of_the_model)
{
    static const pare_dtype dtype[] = {PARE_F32, PARE_F16, PARE_BF16};
    begin();
    const tiny_model tiny = wide(dtype[_i]);
    pare_export_result r;
    write_artifact(&encoded_kinds[10], 1, &tiny); /* int3 with weights kept apart */
    ck_assert_msg(export_as(pare_export_find("safetensors"), false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[dtype[_i] == PARE_F32 ? PARE_EXPORT_LOSSLESS : PARE_EXPORT_ROUNDED],
                      14);
    ck_assert(r.error <= (dtype[_i] == PARE_F16 ? 0x1p-11 : 0x1p-8));
    ck_assert((r.error > 0) == (dtype[_i] != PARE_F32));
    ck_assert(r.row[3].error > 0 || dtype[_i] == PARE_F32);
    end();
}
END_TEST

/* The program finds its own mistakes: a target that changes one byte of one tensor. */
static const pare_export_target *honest;
static size_t wrong_part;
static pare_status fill_wrong(pare_ctx *ctx, pare_arena *scratch, const pare_export_model *m,
                              const pare_export_linear *l, const pare_linear *w,
                              void *const data[PARE_EXPORT_PARTS])
{
    PARE_TRY(honest->fill(ctx, scratch, m, l, w, data));
    if (l->packed.k == 128) /* down */
        ((uint8_t *)data[wrong_part])[0] ^= 1;
    return PARE_OK;
}

static const struct {
    const char *target;
    unsigned bits;
    size_t part;
    const char *says;
} wrong[] = {
    {"compressed-tensors", 4, 0, "weight [0, 0] reads back as"},
    {"compressed-tensors", 4, 1, "reads back as"},
    {"compressed-tensors", 4, 2, "weight_shape is not that of the linear"},
    {"compressed-tensors", 4, 3, "reads back as"},
    {"compressed-tensors", 8, 0, "weight [0, 0] reads back as"},
    {"compressed-tensors", 8, 1, "reads back as"},
    {"compressed-tensors", 8, 2, "input_scale reads back as"},
    {"gptq_v2", 4, 0, "weight [0, 0] reads back as"},
    {"gptq_v2", 4, 1, "reads back as"},
    {"gptq_v2", 4, 2, "reads back as"},
    {"gptq_v2", 4, 3, "reads back as"},
    {"awq", 4, 0, "weight [0, 0] reads back as"},
    {"awq", 4, 1, "reads back as"},
    {"awq", 4, 2, "reads back as"},
    {"safetensors", 4, 0, "weight [0, 0] reads back as"},
};
enum { WRONG = sizeof wrong / sizeof *wrong };

START_TEST(a_byte_written_wrongly_is_found)
{
    static const pare_packed_linear kinds[] = {
        {.bits = 4, .group = 32, .symmetric = false},
        {.bits = 8, .symmetric = true, .activation = {.mode = PARE_ACTIVATION_TENSOR, .bits = 8}}};
    begin();
    const tiny_model tiny = wide(PARE_F32);
    pare_export_result r;
    honest = pare_export_find(wrong[_i].target);
    wrong_part = wrong[_i].part;
    pare_export_target t = *honest;
    t.fill = fill_wrong;
    write_artifact(&kinds[wrong[_i].bits == 8], 1, &tiny);
    const pare_status s = export_as(&t, false, &r);
    ck_assert_msg(strstr(cx.what, "model.layers.0.mlp.down_proj"), "%s", cx.what);
    check_says(s,
               wrong_part == 2 && wrong[_i].bits == 4 && !honest->extra &&
                       strcmp(honest->name, "awq") != 0
                   ? PARE_EFORMAT
                   : PARE_ENUMERIC,
               wrong[_i].says);
    ck_assert(!pare_path_is_directory(to) && !pare_path_is_directory(partial));
    ck_assert_int_eq(export_as(honest, false, &r), PARE_OK);
    end();
}
END_TEST

static void change(const char *directory, const char *tensor, const void *bytes, size_t len)
{
    char path[512];
    const off_t at = tensor_at(directory, tensor, path);
    const int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, bytes, len, at), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
}

/* Damages a tensor that goes along, between writing and reading back. */
static void damage(void *self, const char *what, double done, double total)
{
    (void)self;
    (void)total;
    if (strcmp(what, "reading the export back") == 0 && done == 0)
        change(partial, "model.norm.weight", "\1\2", 2);
}

START_TEST(a_kept_tensor_that_changed_is_found)
{
    begin();
    pare_export_result r;
    write_plain(4, 32, true);
    cx.progress.report = damage;
    check_says(export_as(pare_export_find("awq"), false, &r), PARE_ENUMERIC,
               "awq: tensor model.norm.weight does not read back as it was");
    ck_assert(!pare_path_is_directory(to) && !pare_path_is_directory(partial));
    end();
}
END_TEST

START_TEST(a_weight_that_is_not_finite_is_refused)
{
    static const uint16_t scale[] = {0x7e00, 0x7c00}; /* NaN, infinity */
    begin();
    pare_export_result r;
    write_plain(4, 32, true);
    change(from.path, "model.layers.1.mlp.up_proj.scales", &scale[_i], 2);
    check_says(export_as(pare_export_find("gptq"), false, &r), PARE_EFORMAT,
               "gptq: linear model.layers.1.mlp.up_proj: weight [0, 0] is ");
    check_says(export_as(pare_export_find("safetensors"), false, &r), PARE_EFORMAT,
               "the artifact is damaged");
    ck_assert(!pare_path_is_directory(to) && !pare_path_is_directory(partial));
    end();
}
END_TEST

START_TEST(a_weight_beyond_the_floats_of_the_model_is_refused)
{
    static const uint16_t most = 0x7bff; /* 65504 */
    begin();
    pare_export_result r;
    write_plain(8, 0, true);
    for (size_t i = 0; i < 8; i++)
        change(from.path, "model.layers.1.mlp.up_proj.scales", &most, 2);
    check_says(export_as(pare_export_find("safetensors"), false, &r), PARE_ENUMERIC,
               "which the floats of the model do not reach");
    ck_assert_int_eq(export_as(pare_export_find("gptq"), false, &r), PARE_OK);
    end();
}
END_TEST

/* The smallest code with the smallest scale is 2^-33. */
START_TEST(a_linear_below_the_floats_of_the_model_is_refused)
{
    static uint8_t code[128 * 64];
    uint16_t scale[128];
    const pare_packed_linear kind = {
        .bits = 8, .symmetric = true, .encoding = PARE_ENCODING_FP8, NO_INPUT};
    const tiny_model tiny = wide(PARE_F16);
    begin();
    pare_export_result r;
    write_artifact(&kind, 1, &tiny);
    memset(code, 1, sizeof code);
    for (size_t i = 0; i < 128; i++)
        scale[i] = 1;
    change(from.path, "model.layers.1.mlp.up_proj.codes", code, sizeof code);
    ck_assert_int_eq(export_as(pare_export_find("safetensors"), true, &r), PARE_OK);
    change(from.path, "model.layers.1.mlp.up_proj.scales", scale, sizeof scale);
    check_says(export_as(pare_export_find("safetensors"), true, &r), PARE_ENUMERIC,
               "tensor model.layers.1.mlp.up_proj: its values are too small for F16, the relative "
               "error would be 1.00");
    end();
}
END_TEST

START_TEST(what_is_there_is_replaced_only_when_asked_and_ours)
{
    begin();
    pare_export_result r;
    const pare_export_target *const gptq = pare_export_find("gptq"), *const awq =
                                                                         pare_export_find("awq");
    write_plain(4, 32, true);
    ck_assert_int_eq(export_as(gptq, false, &r), PARE_OK);
    check_says(export_as(awq, false, &r), PARE_EEXISTS, "exists; --restart replaces it");
    ck_assert(has(to, "quantize_config.json"));
    ck_assert_int_eq(export_as(awq, true, &r), PARE_OK);
    ck_assert(has(to, "model.safetensors") && !has(to, "quantize_config.json"));
    ck_assert(!pare_path_is_directory(partial));

    char path[256];
    (void)snprintf(path, sizeof path, "%s/notes.txt", to);
    FILE *const f = fopen(path, "w");
    ck_assert(f && fclose(f) == 0);
    check_says(export_as(gptq, true, &r), PARE_EEXISTS,
               "notes.txt: is no file of an export of pare");
    (void)snprintf(path, sizeof path, "%s/%s", to, PARE_EXPORT_RECORD);
    ck_assert_int_eq(unlink(path), 0);
    check_says(export_as(gptq, true, &r), PARE_EEXISTS, "is no export of pare");
    ck_assert(has(to, "notes.txt") && has(to, "model.safetensors"));
    end();
}
END_TEST

START_TEST(nothing_that_is_not_an_unfinished_export_is_removed)
{
    begin();
    pare_export_result r;
    const pare_export_target *const t = pare_export_find("gptq");
    char path[256];
    write_plain(4, 32, true);
    ck_assert_int_eq(mkdir(partial, 0777), 0);
    (void)snprintf(path, sizeof path, "%s/model.safetensors.tmp", partial);
    FILE *f = fopen(path, "w");
    ck_assert(f && fclose(f) == 0);
    check_says(export_as(t, false, &r), PARE_EEXISTS, "lies beside no journal");
    ck_assert(has(partial, "model.safetensors.tmp"));
    ck_assert_int_eq(pare_owned_mark_unfinished(&cx, partial), PARE_OK);
    ck_assert_msg(export_as(t, false, &r) == PARE_OK, "%s", cx.what); /* of a run that was killed */
    ck_assert_int_eq(mkdir(partial, 0777), 0);
    (void)snprintf(path, sizeof path, "%s/thesis.tex", partial);
    f = fopen(path, "w");
    ck_assert(f && fclose(f) == 0);
    check_says(export_as(t, true, &r), PARE_EEXISTS, "thesis.tex: is no file of an export of pare");
    ck_assert(has(partial, "thesis.tex"));
    ck_assert_int_eq(symlink("x", folder_file(&out, "y")), 0);
    const pare_export_job link = {
        .unchecked = true, .artifact = from.path, .output = out.file, .target = t};
    check_says(pare_export_run(&cx, &arena, &link, &r), PARE_EEXISTS, "is a symbolic link");
    const pare_export_job self = {.unchecked = true,
                                  .artifact = from.path,
                                  .output = from.path,
                                  .target = t,
                                  .restart = true};
    check_says(pare_export_run(&cx, &arena, &self, &r), PARE_EEXISTS, "would replace the model");
    const pare_export_job none = {
        .unchecked = true, .artifact = from.path, .output = "", .target = t};
    check_says(pare_export_run(&cx, &arena, &none, &r), PARE_EUSAGE, "the output is empty");
    end();
}
END_TEST

/* A target with codes of its own for some linears. */
static pare_export_store some(const pare_export_target *t, const pare_export_linear *l)
{
    (void)t;
    return (pare_export_store){.fate = !l->is_packed        ? PARE_EXPORT_FLOAT
                                       : l->packed.k == 128 ? PARE_EXPORT_REQUANTIZED
                                                            : PARE_EXPORT_LOSSLESS};
}

/* The unfinished work of a compression, and an export that goes to the same name. */
START_TEST(work_of_compress_and_work_before_an_impossible_export_stay)
{
    static const char print[] = "{\"program\": \"pare 1\", \"recipe line 1\": \"pare: 1\"}";
    begin();
    pare_export_result r;
    pare_journal *j;
    write_plain(4, 32, true);
    ck_assert_int_eq(mkdir(partial, 0777), 0);
    ck_assert_int_eq(pare_journal_restart(&cx, partial, print, &j), PARE_OK);
    pare_journal_close(&cx, j);
    check_says(export_as(pare_export_find("gptq"), true, &r), PARE_EEXISTS,
               "x.partial: is unfinished work of pare compress");
    ck_assert(has(partial, "journal"));
    ck_assert_int_eq(pare_owned_mark_unfinished(&cx, partial), PARE_OK);
    pare_export_target t = *pare_export_find("compressed-tensors");
    honest = pare_export_find("compressed-tensors");
    t.store = some;
    const pare_export_job job = {
        .unchecked = true, .artifact = from.path, .output = to, .target = &t, .strict = true};
    check_says(pare_export_run(&cx, &arena, &job, &r), PARE_ENOTSUP, "has no codes");
    ck_assert(has(partial, "journal"));
    char lock[160];
    (void)snprintf(lock, sizeof lock, "%s.lock", to);
    const pare_export_job named = {
        .unchecked = true, .artifact = from.path, .output = lock, .target = honest};
    check_says(pare_export_run(&cx, &arena, &named, &r), PARE_EUSAGE,
               "x.lock: names that end in .lock are for files beside outputs");
    end();
}
END_TEST

START_TEST(an_interrupt_leaves_what_was_there)
{
    begin();
    pare_export_result r;
    int interrupts = 0;
    const pare_export_target *const t = pare_export_find("gptq");
    write_plain(4, 32, true);
    ck_assert_int_eq(export_as(t, false, &r), PARE_OK);
    interrupts = 1;
    cx.interrupt = &interrupts;
    ck_assert_int_eq(export_as(pare_export_find("awq"), true, &r), PARE_EINTERRUPTED);
    ck_assert(has(to, "quantize_config.json") && !pare_path_is_directory(partial));
    end();
}
END_TEST

START_TEST(strict_refuses_other_codes_before_anything_is_written)
{
    begin();
    pare_export_result r;
    honest = pare_export_find("compressed-tensors");
    pare_export_target t = *honest;
    t.store = some;
    t.fill = fill_wrong;
    wrong_part = 0;
    write_plain(4, 32, true);
    const pare_export_job job = {
        .unchecked = true, .artifact = from.path, .output = to, .target = &t, .strict = true};
    check_says(pare_export_run(&cx, &arena, &job, &r), PARE_ENOTSUP,
               "linear model.layers.0.mlp.down_proj (int4 g32 sym) has no codes of this format");
    ck_assert(!pare_path_is_directory(to) && !pare_path_is_directory(partial));
    ck_assert_msg(export_as(&t, false, &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_REQUANTIZED], 2);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 12);
    ck_assert(r.row[6].error > 0 && r.row[5].error == 0 && r.error > 0);
    end();
}
END_TEST

START_TEST(only_artifacts_are_exported)
{
    begin();
    const tiny_model tiny = wide(PARE_F16);
    pare_export_result r;
    ck_assert(tiny_model_write(&tiny, from.path));
    check_says(
        export_as(pare_export_find("gptq"), false, &r), PARE_ENOTSUP,
        "not a packed artifact; export writes what pare compress has made. Give a checkpoint");
    end();
}
END_TEST

START_TEST(vectors_behind_norms_are_refused)
{
    begin();
    pare_export_result r;
    artifact_write_encoded(&cx, &from, 1 << 16);
    check_says(export_as(pare_export_find("safetensors"), false, &r), PARE_ENOTSUP,
               "a pass made biases behind norms");
    end();
}
END_TEST

START_TEST(running_out_of_memory_leaves_nothing_behind)
{
    begin();
    pare_export_result r;
    pare_status s = PARE_ENOMEM;
    write_plain(3, 32, true);
    const pare_export_job job = {
        .unchecked = true, .artifact = from.path, .output = to, .target = pare_export_find("gptq")};
    for (long n = 0; s != PARE_OK; n++) {
        unit_failing f = {.left = n};
        pare_ctx failing;
        pare_arena a;
        pare_ctx_init(&failing);
        failing.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&failing, &a, 0);
        if (s == PARE_OK)
            s = pare_export_run(&failing, &a, &job, &r);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%ld: %s: %s", n, pare_strstatus(s),
                      failing.what);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert(!pare_path_is_directory(partial));
        if (s != PARE_OK && pare_path_is_directory(to)) { /* complete, but perhaps not durable */
            ck_assert(has(to, PARE_EXPORT_RECORD) && has(to, "quantize_config.json"));
            remove_files(to);
        }
    }
    end();
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export");
    TCase *const t = tcase_create("jobs");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, compressed_tensors_hold_every_kind_that_engines_know);
    tcase_add_loop_test(t, weights_read_back_as_the_kernels_decode_them, 0, PLAIN);
    tcase_add_loop_test(t, mxfp4_reads_back_as_the_kernels_decode_it, 0, 2);
    tcase_add_test(t, mxfp4_of_a_part_of_a_group_is_refused);
    tcase_add_loop_test(t, words_of_an_export_count_as_the_weights_that_they_hold, 0, PLAIN);
    tcase_add_test(t, awq_of_fewer_bits_is_a_file_of_4_bits);
    tcase_add_loop_test(t, nothing_is_exported_into_the_artifact, 0, 3);
    tcase_add_loop_test(t, floats_are_rounded_to_the_type_of_the_model, 0, 3);
    tcase_add_loop_test(t, a_byte_written_wrongly_is_found, 0, WRONG);
    tcase_add_test(t, a_kept_tensor_that_changed_is_found);
    tcase_add_loop_test(t, a_weight_that_is_not_finite_is_refused, 0, 2);
    tcase_add_test(t, a_weight_beyond_the_floats_of_the_model_is_refused);
    tcase_add_test(t, a_linear_below_the_floats_of_the_model_is_refused);
    tcase_add_test(t, what_is_there_is_replaced_only_when_asked_and_ours);
    tcase_add_test(t, nothing_that_is_not_an_unfinished_export_is_removed);
    tcase_add_test(t, work_of_compress_and_work_before_an_impossible_export_stay);
    tcase_add_test(t, an_interrupt_leaves_what_was_there);
    tcase_add_test(t, strict_refuses_other_codes_before_anything_is_written);
    tcase_add_test(t, only_artifacts_are_exported);
    tcase_add_test(t, vectors_behind_norms_are_refused);
    tcase_add_test(t, running_out_of_memory_leaves_nothing_behind);
    suite_add_tcase(s, t);
    return unit_main(s);
}
