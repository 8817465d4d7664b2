/* Trellis codes as files of EXL3, and read from them again. */
#include "compress/export/export.h"
#include "formats/export_target.h"
#include "kernels/exl3.h"
#include "runtime/linear.h"
#include "tests/unit/artifact.h"
#include "tests/unit/logits.h"

/* Sizes that 128 divides; bits differ by linear. */
static tiny_model wide(bool tied)
{
    return (tiny_model){.hidden = 128,
                        .intermediate = 256,
                        .blocks = 2,
                        .heads = 4,
                        .kv_heads = 4,
                        .head_dim = 32,
                        .vocab = 97,
                        .context = 64,
                        .tied = tied,
                        .dtype = PARE_F16,
                        .shards = 1,
                        .seed = 1};
}

static pare_packed_linear trellis(unsigned bits)
{
    return (pare_packed_linear){.bits = bits,
                                .symmetric = true,
                                .encoding = PARE_ENCODING_EXL3,
                                .activation = {.mode = PARE_ACTIVATION_FLOAT}};
}

/* Biases of q, k, v and o in BF16, as the family has them. */
static void add_biases(artifact *m)
{
    static const char role[] = "qkvo";
    for (size_t i = 0; i < 2 * 4; i++) {
        char name[64];
        uint16_t *const bias = PARE_NEW(&m->a, uint16_t, 128);
        (void)snprintf(name, sizeof name, "model.layers.%zu.self_attn.%c_proj.bias", i / 4,
                       role[i % 4]);
        ck_assert_ptr_nonnull(bias);
        for (size_t r = 0; r < 128; r++)
            bias[r] = (uint16_t)(0x3e00 + i + r);
        m->kept_unit[m->keeps] = 2;
        m->kept[m->keeps++] = (pare_tensor){.name = pare_arena_text(&m->a, name, strlen(name)),
                                            .dtype = PARE_BF16,
                                            .rank = 1,
                                            .shape = {128},
                                            .data = bias,
                                            .bytes = 256};
    }
}

static void say_biases(folder *dir)
{
    size_t len;
    char *const text = folder_get(folder_file(dir, "config.json"), &len);
    static char said[1 << 14];
    (void)snprintf(said, sizeof said, "{\"attention_bias\": true,%s", strchr(text, '{') + 1);
    folder_put_text(dir, "config.json", said);
    free(text);
}

/* An artifact "out" with random codes in all linears of the blocks but one. */
enum { LEFT = PARE_COMMON_ROLES + PARE_ROLE_UP };
static job_place begin(bool tied)
{
    static artifact m;
    folder dir;
    job_place p;
    const tiny_model tiny = wide(tied);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    (void)snprintf(p.root, sizeof p.root, "job.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.root));
    (void)snprintf(dir.path, sizeof dir.path, "%s", job_path(&p, "out"));
    ck_assert_int_eq(mkdir(dir.path, 0700), 0);
    artifact_open_tiny(&m, &cx, &dir, &tiny);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const pare_packed_linear kind = trellis(1 + i % 8);
        if (i != LEFT)
            artifact_add(&m, i, &kind);
    }
    add_biases(&m);
    artifact_plan(&m, 1 << 20);
    artifact_finish(&m, &dir, artifact_fill_encoded);
    say_biases(&dir);
    return p;
}

static void end(const job_place *p)
{
    job_remove_directory(p->root);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static pare_status export_as(const job_place *p, const char *target, pare_export_result *r)
{
    const pare_export_job job = {.unchecked = true,
                                 .restart = true,
                                 .artifact = job_path(p, "out"),
                                 .output = job_path(p, "x"),
                                 .target = pare_export_find(target)};
    return pare_export_run(&cx, &arena, &job, r);
}

static void check_linear(const pare_linear *is, const pare_linear *was)
{
    ck_assert_int_eq(is->encoding, was->encoding);
    ck_assert_uint_eq(is->bits, was->bits);
    if (is->encoding != PARE_ENCODING_EXL3)
        return;
    ck_assert_mem_eq(is->panel.codes, was->panel.codes, is->n * is->k * is->bits / 8);
    ck_assert_mem_eq(is->row_scales, was->row_scales, is->n * sizeof *is->row_scales);
    ck_assert_mem_eq(is->column_scales, was->column_scales, is->k * sizeof *is->column_scales);
}

/* Its weights, read as floats, are those that the kernels decode. */
static void check_floats(const pare_linear *is, const pare_linear *was)
{
    const size_t count = was->n * was->k;
    float *const a = PARE_NEW(&arena, float, count), *const b = PARE_NEW(&arena, float, count);
    ck_assert(a && b && !is->bits);
    pare_linear_to_f32(&cx, is, a);
    pare_linear_to_f32(&cx, was, b);
    ck_assert_mem_eq(a, b, count * sizeof *a);
}

START_TEST(an_export_runs_as_the_artifact)
{
    const job_place p = begin(_i);
    pare_export_result r;
    loaded was, is, floats;
    for (int again = 0; again < 2; again++)
        ck_assert_msg(export_as(&p, "exl3", &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_LOSSLESS], 13);
    ck_assert_uint_eq(r.count[PARE_EXPORT_FLOAT], 2);
    ck_assert(r.error == 0);
    load_to_run(&p, "out", &was);
    load_to_run(&p, "x", &is);
    load(&p, "x", &floats);
    const pare_config *const c = &was.model.config;
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const size_t b = i / PARE_COMMON_ROLES, role = i % PARE_COMMON_ROLES;
        check_linear(&is.model.block[b].linear[role], &was.model.block[b].linear[role]);
        check_floats(&floats.model.block[b].linear[role], &was.model.block[b].linear[role]);
    }
    ck_assert_uint_eq(is.ck.unpacked, 13);
    const size_t bytes = c->vocab * sizeof(float);
    ck_assert_mem_eq(logits(&is.model, false), logits(&was.model, false), bytes);
    ck_assert_mem_eq(logits(&is.model, true), logits(&was.model, true), bytes);
    pare_checkpoint_close(&floats.ck);
    pare_checkpoint_close(&is.ck);
    pare_checkpoint_close(&was.ck);
    end(&p);
}
END_TEST

/* The program finds its own mistakes: a target that changes one byte of one tensor. */
static const struct {
    size_t part;
    const char *says;
} wrong[] = {
    {0, "down_proj: weight [0, 0] reads back as"},
    {1, "down_proj: weight [0, 0] reads back as"},
    {2, "down_proj: weight [0, 0] reads back as"},
    {3, "down_proj.mul1 is not the multiplier of the codebook"},
};
enum { WRONG = sizeof wrong / sizeof *wrong };
static size_t wrong_part;
static pare_status fill_wrong(pare_ctx *ctx, pare_arena *scratch, const pare_export_model *m,
                              const pare_export_linear *l, const pare_linear *w,
                              void *const data[PARE_EXPORT_PARTS])
{
    PARE_TRY(pare_export_find("exl3")->fill(ctx, scratch, m, l, w, data));
    if (l->packed.k == 256) /* down */
        ((uint8_t *)data[wrong_part])[0] ^= 1;
    return PARE_OK;
}

START_TEST(what_reads_back_otherwise_is_not_kept)
{
    const job_place p = begin(false);
    pare_export_target t = *pare_export_find("exl3");
    const pare_export_job job = {.unchecked = true,
                                 .artifact = job_path(&p, "out"),
                                 .output = job_path(&p, "x"),
                                 .target = &t};
    pare_export_result r;
    t.fill = fill_wrong;
    wrong_part = wrong[_i].part;
    ck_assert(pare_export_run(&cx, &arena, &job, &r) != PARE_OK);
    ck_assert_msg(strstr(cx.what, wrong[_i].says), "%s", cx.what);
    ck_assert(!pare_path_is_directory(job_path(&p, "x")));
    pare_ctx_clear(&cx);
    end(&p);
}
END_TEST

static const pare_json *member(const pare_json *v, const char *a, const char *b)
{
    return pare_json_get(pare_json_get(v, a), b);
}

/* What engines look for, in both files. */
START_TEST(tensors_are_listed)
{
    static const char *const files[] = {"x/config.json", "x/quantization_config.json"};
    static const char q[] = "model.layers.0.self_attn.q_proj";
    const job_place p = begin(false);
    pare_export_result r;
    ck_assert_msg(export_as(&p, "exl3", &r) == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 2; i++) {
        size_t len;
        pare_json *json;
        char *const text = folder_get(job_path(&p, files[i]), &len);
        ck_assert_int_eq(pare_json_parse(&cx, files[i], text, len, 1 << 20, &json), PARE_OK);
        const pare_json *const config = i ? json : pare_json_get(json, "quantization_config");
        ck_assert_str_eq(pare_json_text(pare_json_get(config, "quant_method"), NULL), "exl3");
        ck_assert_str_eq(pare_json_text(pare_json_get(config, "codebook"), NULL), "mul1");
        ck_assert(fabs(pare_json_number(pare_json_get(config, "bits"), 0) - 40.0 / 9) < 1e-6);
        ck_assert_int_eq(pare_json_type_of(pare_json_get(config, "head_bits")), PARE_JSON_ABSENT);
        const pare_json *const list = pare_json_get(config, "tensor_storage");
        ck_assert_uint_eq(pare_json_count(list), 13);
        const pare_json *const entry = pare_json_get(list, q);
        ck_assert_int_eq(pare_json_integer(pare_json_get(entry, "bits_per_weight"), 0), 1);
        ck_assert_int_eq(pare_json_integer(pare_json_get(entry, "mul1_multiplier"), 0), 2212286765);
        const pare_json *const stored = pare_json_get(entry, "stored_tensors");
        ck_assert_uint_eq(pare_json_count(stored), 5);
        const pare_json *const codes =
            member(stored, "model.layers.0.self_attn.q_proj.trellis", "shape");
        ck_assert_int_eq(pare_json_integer(pare_json_at(codes, 2), 0), 16);
        ck_assert_str_eq(
            pare_json_text(member(stored, "model.layers.0.self_attn.q_proj.suh", "torch_dtype"),
                           NULL),
            "float16");
        ck_assert_uint_eq(
            pare_json_count(member(stored, "model.layers.0.self_attn.q_proj.mul1", "shape")), 0);
        ck_assert_str_eq(
            pare_json_text(member(stored, "model.layers.0.self_attn.q_proj.bias", "torch_dtype"),
                           NULL),
            "bfloat16");
        pare_json_free(json);
        free(text);
    }
    end(&p);
}
END_TEST

static void write_bytes(const char *path, const char *bytes, size_t len)
{
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

/* Each file by itself. */
START_TEST(a_list_that_says_other_bits_is_refused)
{
    static const char *const files[] = {"x/config.json", "x/quantization_config.json"};
    static const char key[] = "\"bits_per_weight\":";
    const job_place p = begin(false);
    pare_export_result r;
    pare_checkpoint ck;
    size_t len;
    ck_assert_msg(export_as(&p, "exl3", &r) == PARE_OK, "%s", cx.what);
    char *const text = folder_get(job_path(&p, files[_i]), &len);
    char *const digit = strpbrk(strstr(text, key) + strlen(key), "123456789");
    ++*digit;
    write_bytes(job_path(&p, files[_i]), text, len);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, job_path(&p, "x"), &ck), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "_proj.trellis: has other bits than bits_per_weight of "
                                  "tensor_storage says"),
                  "%s", cx.what);
    pare_checkpoint_close(&ck);
    pare_ctx_clear(&cx);
    free(text);
    end(&p);
}
END_TEST

/* Other formats hold floats, or refuse by name. */
START_TEST(other_formats_have_no_trellis_codes)
{
    static const char *const targets[] = {"compressed-tensors", "gptq", "gptq_v2", "awq"};
    const job_place p = begin(false);
    pare_export_result r;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        ck_assert_int_eq(export_as(&p, targets[i], &r), PARE_ENOTSUP);
        ck_assert_msg(strstr(cx.what,
                             "q_proj (exl3 1 bits, x f32): it has trellis codes, which the "
                             "format exl3 holds"),
                      "%s", cx.what);
        pare_ctx_clear(&cx);
    }
    ck_assert_msg(export_as(&p, "safetensors", &r) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(r.count[PARE_EXPORT_ROUNDED], 13);
    end(&p);
}
END_TEST

static const pare_export_linear mates[2];

/* Of 128 x 256 in 3 bits but for what it says. */
static const struct {
    pare_export_linear l;
    const char *says;
} refused[] = {
    {{.packed = {.n = 128, .k = 256, .bits = 4, .group = 32, .symmetric = true}},
     "linear w (int4 g32 sym, 128 x 256): it has no trellis codes"},
    {{.packed = {.n = 64, .k = 256}}, "(exl3 3 bits, x f32, 64 x 256): ExLlamaV3 mixes 128 rows"},
    {{.packed = {.n = 128, .k = 208}}, "which do not divide this matrix, so pare mixed fewer"},
    {{.packed = {.n = 128, .k = 256, .rotated = true}}, "its inputs are rotated while the model"},
    {{.packed = {.n = 128, .k = 256, .bias = true}}, "a pass made a bias for it"},
    {{.packed = {.n = 128, .k = 256}, .transposed = true}, "does not know the Conv1D of GPT-2"},
    {{.packed = {.n = 128, .k = 256}, .piece = mates, .pieces = 2}, "wants each apart"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(what_the_format_does_not_hold_is_refused)
{
    const pare_packed_linear three = trellis(3);
    const pare_config config = {.blocks = 1};
    pare_export_linear l = refused[_i].l;
    const pare_export_model m = {.config = &config, .linear = &l, .linears = 1, .floats = PARE_F16};
    pare_ctx_init(&cx);
    l.name = l.packed.name = "w";
    l.is_packed = true;
    if (!l.packed.bits) {
        l.packed.bits = three.bits;
        l.packed.encoding = three.encoding;
        l.packed.activation = three.activation;
        l.packed.symmetric = true;
    }
    ck_assert_int_eq(pare_export_check(&cx, pare_export_find("exl3"), &m, false), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, refused[_i].says), "%s", cx.what);
}
END_TEST

START_TEST(floats_alone_are_refused)
{
    const pare_config config = {.blocks = 1};
    const pare_export_linear l = {.name = "w", .packed = {.name = "w", .n = 128, .k = 128}};
    const pare_export_model m = {.config = &config, .linear = &l, .linears = 1, .floats = PARE_F16};
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_export_check(&cx, pare_export_find("exl3"), &m, false), PARE_ENOTSUP);
    ck_assert_msg(strstr(cx.what, "exl3: no linear of the model is quantized"), "%s", cx.what);
}
END_TEST

START_TEST(a_head_has_bits_of_its_own)
{
    const pare_config config = {.blocks = 1};
    pare_export_linear l[] = {{.name = "a", .is_packed = true, .packed = trellis(3)},
                              {.name = "b", .is_packed = true, .packed = trellis(4)},
                              {.name = "h", .is_packed = true, .block = 1, .packed = trellis(6)}};
    const pare_export_model m = {.config = &config, .linear = l, .linears = 3};
    pare_json_writer *w;
    const char *text;
    size_t len;
    pare_ctx_init(&cx);
    for (size_t i = 0; i < 3; i++) {
        l[i].packed.n = i == 1 ? 384 : 128;
        l[i].packed.k = 128;
    }
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_open_object(w, NULL);
    pare_export_find("exl3")->config(w, &m);
    pare_json_close(w);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len), PARE_OK);
    ck_assert_msg(strstr(text, "\"bits\": 3.75") && strstr(text, "\"head_bits\": 6"), "%s", text);
    pare_json_writer_free(w);
}
END_TEST

/* A tile of ours is one of theirs: position p of tile (i, j) in tile (j, i). */
START_TEST(tiles_follow_each_other_by_columns)
{
    enum { N = 256, K = 128, BITS = 3, TILE = 96 };
    const pare_export_target *const t = pare_export_find("exl3");
    static uint8_t to[N * K * BITS / 8], from[N * K * BITS / 8];
    static uint16_t suh[K], svh[N], row[N], column[K];
    uint32_t mul1;
    pare_export_part part[PARE_EXPORT_PARTS];
    pare_export_linear l = {.name = "w", .is_packed = true, .packed = trellis(BITS)};
    const pare_linear w = {.n = N,
                           .k = K,
                           .bits = BITS,
                           .encoding = PARE_ENCODING_EXL3,
                           .panel = {.codes = from},
                           .row_scales = row,
                           .column_scales = column};
    void *const data[PARE_EXPORT_PARTS] = {to, suh, svh, &mul1};
    l.packed.n = N;
    l.packed.k = K;
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (uint8_t)(i % 251);
    row[3] = 7;
    column[5] = 9;
    ck_assert_uint_eq(t->parts(NULL, &l, part), 4);
    ck_assert_str_eq(part[0].suffix, ".trellis");
    ck_assert(part[0].dtype == PARE_I16 && part[0].rank == 3);
    ck_assert(part[0].shape[0] == K / 16 && part[0].shape[1] == N / 16 && part[0].shape[2] == 48);
    ck_assert(part[3].dtype == PARE_I32 && part[3].rank == 0);
    ck_assert_int_eq(t->fill(&cx, NULL, NULL, &l, &w, data), PARE_OK);
    for (size_t i = 0; i < N / 16; i++)
        for (size_t j = 0; j < K / 16; j++)
            ck_assert_mem_eq(to + (j * (N / 16) + i) * TILE, from + (i * (K / 16) + j) * TILE,
                             TILE);
    ck_assert(svh[3] == 7 && suh[5] == 9);
    ck_assert_uint_eq(mul1, 0x83DCD12D);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("export_exl3");
    TCase *const t = tcase_create("export_exl3");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, an_export_runs_as_the_artifact, 0, 2);
    tcase_add_loop_test(t, what_reads_back_otherwise_is_not_kept, 0, WRONG);
    tcase_add_test(t, tensors_are_listed);
    tcase_add_loop_test(t, a_list_that_says_other_bits_is_refused, 0, 2);
    tcase_add_test(t, other_formats_have_no_trellis_codes);
    tcase_add_loop_test(t, what_the_format_does_not_hold_is_refused, 0, REFUSED);
    tcase_add_test(t, floats_alone_are_refused);
    tcase_add_test(t, a_head_has_bits_of_its_own);
    tcase_add_test(t, tiles_follow_each_other_by_columns);
    suite_add_tcase(s, t);
    return unit_main(s);
}
