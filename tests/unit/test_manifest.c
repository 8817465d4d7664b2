#include <math.h>
#include <string.h>

#include "compress/artifact/manifest.h"
#include "tests/unit/folder.h"
#include "tests/unit/uniform.h"

static pare_linear_result row(const char *name, bool symmetric)
{
    pare_linear_result r = {.linear = UNIFORM(name, 40, 100, 4, 32, symmetric),
                            .block = 3,
                            .method = "gptq",
                            .weight_error = 0.0125,
                            .output_error = symmetric ? -1 : 0.5,
                            .damp = 0.1,
                            .raises = 1,
                            .f64 = true,
                            .fallback = symmetric,
                            .dead = 7,
                            .bits_per_weight = 5.5,
                            .seconds = 12.5};
    static const pare_plane plane[] = {PARE_PLANE_CODES, PARE_PLANE_SCALES, PARE_PLANE_ZEROS};
    for (size_t i = 0; i < (symmetric ? 32 : 48); i++)
        r.hash[plane[i / 16]][i % 16] = (uint8_t)(i * 5);
    return r;
}

static pare_status encode(pare_ctx *cx, pare_arena *a, unsigned char **bytes, size_t *len)
{
    pare_linear_result rows[2] = {row("b.0.q", false), row("b.0.k", true)};
    pare_kept_hash kept[1] = {{"b.0.norm", {1, 2, 3}}};
    const pare_unit_result u = {.row = rows, .rows = 2, .kept = kept, .kept_count = 1};
    return pare_result_encode(cx, a, &u, bytes, len);
}

START_TEST(results_of_a_unit_decode_to_what_was_encoded)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(encode(&cx, &a, &bytes, &len), PARE_OK);
    ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, len, &u), PARE_OK);
    ck_assert_uint_eq(u.rows, 2);
    ck_assert_uint_eq(u.kept_count, 1);
    for (size_t i = 0; i < 2; i++) {
        const pare_linear_result want = row(i ? "b.0.k" : "b.0.q", i == 1), *const r = &u.row[i];
        ck_assert_str_eq(r->linear.name, want.linear.name);
        ck_assert_str_eq(r->method, want.method);
        ck_assert(r->linear.n == 40 && r->linear.k == 100 && r->linear.bits == 4);
        ck_assert(r->linear.group == 32 && r->linear.symmetric == want.linear.symmetric);
        ck_assert(r->block == 3 && r->raises == 1 && r->dead == 7);
        ck_assert(r->f64 && r->fallback == want.fallback);
        ck_assert_double_eq(r->weight_error, want.weight_error);
        ck_assert_double_eq(r->output_error, want.output_error);
        ck_assert_double_eq(r->damp, want.damp);
        ck_assert_double_eq(r->bits_per_weight, want.bits_per_weight);
        ck_assert_double_eq(r->seconds, want.seconds);
        ck_assert_mem_eq(r->hash, want.hash, sizeof want.hash);
    }
    ck_assert_str_eq(u.kept[0].name, "b.0.norm");
    ck_assert_uint_eq(u.kept[0].hash[2], 3);
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_went_out_of_a_block_decodes_to_what_was_encoded)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_unit_result u;
    pare_kept_hash kept[1] = {{"b.0.norm", {1, 2, 3}}};
    pare_cut_result cut[2] = {
        {.step = 1,
         .part = PARE_PART_CHANNELS,
         .before = 640,
         .after = 512,
         .lost = 0.25,
         .output_error = -1},
        {.step = 2, .before = 4, .after = 3, .lost = 0.5, .output_error = 0.125}};
    const pare_unit_result in = {.kept = kept, .kept_count = 1, .cut = cut, .cuts = 2};
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, len, &u), PARE_OK);
    ck_assert_uint_eq(u.cuts, 2);
    ck_assert(u.cut[0].step == 1 && u.cut[0].part == PARE_PART_CHANNELS);
    ck_assert(u.cut[0].before == 640 && u.cut[0].after == 512 && u.cut[0].output_error == -1);
    ck_assert(u.cut[1].part == PARE_PART_HEADS && u.cut[1].after == 3 && u.cut[1].lost == 0.5);
    for (size_t i = 1; i < len; i++) {
        const size_t whole = 4 + 4 + 4 + 2 + 8 + 16; /* a unit without cuts ends there */
        const pare_status s = pare_result_decode(&cx, &a, bytes, len - i, &u);
        ck_assert_int_eq(s, len - i == whole ? PARE_OK : PARE_EFORMAT);
    }
    pare_ctx_clear(&cx);
    bytes[len - 2 * 37 + 4] = PARE_PARTS;
    ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, len, &u), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "a part that blocks do not have"));
    pare_arena_release(&a);
}
END_TEST

/* A row with everything that a plain one lacks. */
static pare_linear_result rich(void)
{
    pare_linear_result r = row("b.0.v", true);
    r.linear.encoding = PARE_ENCODING_BINARY;
    r.linear.bits = 2;
    r.linear.activation.mode = PARE_ACTIVATION_FLOAT;
    r.linear.outliers = 3;
    r.linear.outliers_int8 = true;
    r.linear.sparse = 17;
    r.linear.rotated = r.linear.bias = true;
    memset(r.hash, 0, sizeof r.hash);
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (pare_packed_plane_shape(&r.linear, p, &t))
            memset(r.hash[p], (int)p + 1, sizeof r.hash[p]);
    }
    r.step[0] = (pare_step_result){
        .step = 1, .pass = "awq", .output_error = -1, .weight_error = 0.75, .note = "alpha 0.55"};
    r.step[1] =
        (pare_step_result){.step = 4, .pass = "billm", .output_error = 0.125, .weight_error = 0.5};
    r.steps = 2;
    return r;
}

START_TEST(every_encoding_and_what_steps_cost_outlive_the_journal)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_linear_result want = rich();
    const pare_unit_result in = {.row = &want, .rows = 1};
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_msg(pare_result_decode(&cx, &a, bytes, len, &u) == PARE_OK, "%s", cx.what);
    const pare_linear_result *const r = &u.row[0];
    ck_assert(r->linear.encoding == PARE_ENCODING_BINARY && r->linear.outliers == 3);
    ck_assert(r->linear.activation.mode == PARE_ACTIVATION_FLOAT && r->linear.sparse == 17);
    ck_assert(r->linear.outliers_int8 && r->linear.rotated && r->linear.bias);
    ck_assert_mem_eq(r->hash, want.hash, sizeof want.hash);
    ck_assert_uint_eq(r->steps, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(r->step[i].step, want.step[i].step);
        ck_assert_str_eq(r->step[i].pass, want.step[i].pass);
        ck_assert_str_eq(r->step[i].note, want.step[i].note);
        ck_assert(r->step[i].output_error == want.step[i].output_error);
        ck_assert(r->step[i].weight_error == want.step[i].weight_error);
    }
    want.steps = PARE_STEPS_MAX + 1;
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_EINVAL);
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_was_pruned_outlives_the_journal)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_linear_result want = row("b.0.v", true);
    want.linear.encoding = PARE_ENCODING_F16;
    want.linear.bits = 16;
    want.linear.group = 0;
    want.linear.sparsity = PARE_SPARSITY_BITMASK;
    want.linear.kept = 1234;
    want.pruned = true;
    want.zeros = 0.625;
    want.stability = 0.875;
    memset(want.hash, 0, sizeof want.hash);
    memset(want.hash[PARE_PLANE_MASK], 5, sizeof *want.hash);
    memset(want.hash[PARE_PLANE_VALUES], 6, sizeof *want.hash);
    const pare_unit_result in = {.row = &want, .rows = 1};
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_msg(pare_result_decode(&cx, &a, bytes, len, &u) == PARE_OK, "%s", cx.what);
    const pare_linear_result *const r = &u.row[0];
    ck_assert(r->linear.encoding == PARE_ENCODING_F16 && r->linear.bits == 16);
    ck_assert(r->linear.sparsity == PARE_SPARSITY_BITMASK && r->linear.kept == 1234);
    ck_assert(r->pruned && r->zeros == 0.625 && r->stability == 0.875);
    ck_assert_mem_eq(r->hash, want.hash, sizeof want.hash);
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_a_calibration_says_outlives_the_journal)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_linear_result want[] = {row("b.0.q", false), row("b.0.k", false), row("b.0.v", false)};
    want[0].support = (pare_support){.loudest = 0.625};
    want[1].support = (pare_support){.known = true,
                                     .tokens = 300,
                                     .columns = 60,
                                     .rank = 41,
                                     .effective = 12.375,
                                     .effective_rank = 7.3,
                                     .loudest = 0.3};
    want[1].thin = want[2].thin = true;
    const pare_unit_result in = {.row = want, .rows = 3};
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_msg(pare_result_decode(&cx, &a, bytes, len, &u) == PARE_OK, "%s", cx.what);
    for (size_t i = 0; i < 3; i++) {
        const pare_support *const is = &u.row[i].support, *const was = &want[i].support;
        ck_assert(is->known == was->known && u.row[i].thin == want[i].thin);
        ck_assert(is->tokens == was->tokens && is->columns == was->columns);
        ck_assert(is->rank == was->rank && is->effective == was->effective);
        ck_assert(is->effective_rank == was->effective_rank && is->loudest == was->loudest);
    }
    const size_t section = 4 + 3 * (1 + 6 * 8); /* which may be absent */
    for (size_t n = 0; n < len; n++) {
        const pare_status expected = n == len - section ? PARE_OK : PARE_EFORMAT;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, n, &u), expected);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_reached_an_expert_outlives_the_journal)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_linear_result want[] = {row("b.0.q", false), row("b.0.e.4.up", false),
                                 row("b.0.e.5.up", false)};
    want[0].tokens = want[2].tokens = -1;
    want[1].part = 5;
    want[1].tokens = 77;
    want[1].cold = PARE_COLD_RTN;
    want[2].part = 6;
    const pare_unit_result in = {.row = want, .rows = 3};
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_result_encode(&cx, &a, &in, &bytes, &len), PARE_OK);
    ck_assert_msg(pare_result_decode(&cx, &a, bytes, len, &u) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(u.rows, 3);
    for (size_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(u.row[i].part, want[i].part);
        ck_assert_int_eq(u.row[i].tokens, want[i].tokens);
        ck_assert_int_eq(u.row[i].cold, want[i].cold);
    }
    const size_t section = 4 + 3 * (8 + 8 + 1); /* which may be absent */
    for (size_t n = 0; n < len; n++) {
        const pare_status expected = n == len - section ? PARE_OK : PARE_EFORMAT;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, n, &u), expected);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(every_truncation_and_every_longer_payload_is_refused)
{
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(encode(&cx, &a, &bytes, &len), PARE_OK);
    unsigned char *const copy = PARE_NEW(&a, unsigned char, len + 1);
    memcpy(copy, bytes, len);
    for (size_t n = 0; n <= len + 1; n++) {
        if (n == len)
            continue;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_result_decode(&cx, &a, copy, n, &u), PARE_EFORMAT);
        ck_assert_ptr_nonnull(strstr(cx.what, "results of a unit, byte "));
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(each_kind_of_damage_is_named)
{
    static const struct {
        size_t at;
        unsigned char value;
        const char *what;
    } damage[] = {
        {0, 'X', "another version"},
        {6, 1, "more items than bytes"},
        {14, 0, "a NUL in a name"},
        {12 + 7 + 6 + 33, 128, "unknown flags"},
        {12 + 7 + 6 + 34 + 19, 3, "an unknown way to store zeros"},
        {12 + 7 + 6 + 34 + 19 + 9 + 12 + 7, 0x7f, "a number that is not finite"},
    };
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_unit_result u;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    for (size_t i = 0; i < sizeof damage / sizeof damage[0]; i++) {
        ck_assert_int_eq(encode(&cx, &a, &bytes, &len), PARE_OK);
        bytes[damage[i].at] = damage[i].value;
        if (damage[i].value == 0x7f)
            bytes[damage[i].at - 1] = 0xf0;
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_result_decode(&cx, &a, bytes, len, &u), PARE_EFORMAT);
        ck_assert_msg(strstr(cx.what, damage[i].what), "%s, not %s", cx.what, damage[i].what);
    }
    pare_arena_release(&a);
}
END_TEST

static pare_status decode_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_unit_result u;
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_result_decode(cx, &a, bytes, len, &u);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    static const char *const messages[] = {"ends too early",
                                           "a NUL in a name",
                                           "unknown flags",
                                           "a number that is not finite",
                                           "more items than bytes",
                                           "another version",
                                           "a mark of parts that went, and none of them",
                                           "a part that blocks do not have",
                                           "a rank that no calibration gives",
                                           "a mark of ranks, and none of them",
                                           "more tokens than there can be",
                                           "a mark of experts, and none of them",
                                           "more small groups than the linear has weights",
                                           "a mark of small groups, and none of them",
                                           "bytes behind the last item",
                                           "an unknown encoding",
                                           "an unknown way to store zeros",
                                           "other planes than such a linear has",
                                           "too many steps",
                                           "a note that is too long or has a NUL"};
    corpus_reaches("journal", decode_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

START_TEST(a_name_of_64_KiB_is_refused)
{
    static char name[1 << 16];
    memset(name, 'x', sizeof name - 1);
    pare_ctx cx;
    pare_arena a;
    unsigned char *bytes;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    pare_kept_hash kept[1] = {{name, {0}}};
    const pare_unit_result u = {.kept = kept, .kept_count = 1};
    ck_assert_int_eq(pare_result_encode(&cx, &a, &u, &bytes, &len), PARE_OK);
    char longer[sizeof name + 1];
    memset(longer, 'x', sizeof name);
    longer[sizeof name] = '\0';
    kept[0].name = longer;
    ck_assert_int_eq(pare_result_encode(&cx, &a, &u, &bytes, &len), PARE_EINVAL);
    ck_assert_str_eq(cx.what, "the name of a tensor is longer than 65535 bytes");
    pare_arena_release(&a);
}
END_TEST

static const pare_config config = {.hidden = 48, .blocks = 2, .vocab = 97, .tied = true};

/* A manifest of two linears and one kept tensor; `name` is the kept tensor that it claims. */
static pare_status manifest(pare_ctx *cx, pare_arena *a, const char *name, double error,
                            char **text, size_t *len)
{
    static const size_t unit[3] = {0, 0, 0};
    pare_linear_result rows[3] = {row("b.0.q", false), row("b.0.k", true), rich()};
    rows[0].weight_error = error;
    const pare_packed_linear linear[3] = {rows[0].linear, rows[1].linear, rows[2].linear};
    const pare_tensor norm = {.name = "b.0.norm", .dtype = PARE_BF16, .rank = 1, .shape = {40}};
    const pare_kept_hash kept = {name, {0xab}};
    const pare_file_digest file = {"model.safetensors", 1234, "00ff"};
    pare_config c = config;
    c.arch = pare_archs[0];
    pare_packed_layout layout;
    PARE_TRY(pare_packed_layout_make(cx, a, &norm, unit, 1, linear, unit, 3, UINT64_MAX, &layout));
    const pare_manifest m = {.version = "0.1.0",
                             .recipe = "pare: 1\n",
                             .seed = 5,
                             .tokens_sha256 = "beef",
                             .precision = "f32",
                             .windows = 4,
                             .window = 32,
                             .blas = "none",
                             .config = &c,
                             .layout = &layout,
                             .row = rows,
                             .rows = 3,
                             .kept = &kept,
                             .kept_count = 1,
                             .bits_per_weight = 5.25,
                             .input = &file,
                             .inputs = 1,
                             .output = &file,
                             .outputs = 1};
    return pare_manifest_text(cx, a, &m, text, len);
}

START_TEST(the_manifest_says_what_was_done_to_each_tensor)
{
    pare_ctx cx;
    pare_arena a;
    char *text, *again, hex[PARE_SHA256_HEX];
    size_t len, again_len;
    pare_json *doc = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(manifest(&cx, &a, "b.0.norm", 0.25, &text, &len), PARE_OK);
    ck_assert_int_eq(manifest(&cx, &a, "b.0.norm", 0.25, &again, &again_len), PARE_OK);
    ck_assert_uint_eq(len, again_len);
    ck_assert_mem_eq(text, again, len);
    ck_assert_int_eq(pare_json_parse(&cx, "manifest.json", text, len, 1 << 20, &doc), PARE_OK);
    ck_assert_int_eq(pare_sha256_hex(&cx, "pare: 1\n", 8, hex), PARE_OK);
    ck_assert_str_eq(pare_json_text(pare_json_get(doc, "recipe_sha256"), NULL), hex);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "seed"), -1), 5);
    const pare_json *const tensors = pare_json_get(doc, "tensors");
    const pare_json *const q = pare_json_get(tensors, "b.0.q");
    const pare_json *const k = pare_json_get(tensors, "b.0.k");
    ck_assert_double_eq(pare_json_number(pare_json_get(q, "weight_error"), -1), 0.25);
    ck_assert_double_eq(pare_json_number(pare_json_get(q, "output_error"), -1), 0.5);
    ck_assert_int_eq(pare_json_type_of(pare_json_get(k, "output_error")), PARE_JSON_NULL);
    ck_assert_uint_eq(pare_json_count(pare_json_get(q, "xxh3")), 3);
    ck_assert_uint_eq(pare_json_count(pare_json_get(k, "xxh3")), 2);
    ck_assert_str_eq(pare_json_text(pare_json_get(pare_json_get(q, "xxh3"), "codes"), NULL),
                     "00050a0f14191e23282d32373c41464b");
    ck_assert(!pare_json_get(q, "values") && !pare_json_get(q, "steps"));
    const pare_json *const v = pare_json_get(tensors, "b.0.v");
    ck_assert_str_eq(pare_json_text(pare_json_get(v, "values"), NULL), "binary");
    ck_assert_int_eq(pare_json_integer(pare_json_get(v, "outliers"), -1), 3);
    ck_assert_int_eq(pare_json_integer(pare_json_get(v, "sparse"), -1), 17);
    ck_assert(pare_json_bool(pare_json_get(v, "rotated"), false));
    const pare_json *const hashes = pare_json_get(v, "xxh3");
    ck_assert_uint_eq(pare_json_count(hashes), 10);
    ck_assert_str_eq(pare_json_text(pare_json_get(hashes, "salient"), NULL),
                     "0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c0c");
    const pare_json *const steps = pare_json_get(v, "steps");
    ck_assert_uint_eq(pare_json_count(steps), 2);
    const pare_json *const awq = pare_json_at(steps, 0);
    ck_assert_str_eq(pare_json_text(pare_json_get(awq, "note"), NULL), "alpha 0.55");
    ck_assert_int_eq(pare_json_type_of(pare_json_get(awq, "output_error")), PARE_JSON_NULL);
    ck_assert_int_eq(pare_json_integer(pare_json_get(pare_json_at(steps, 1), "step"), -1), 4);
    const pare_json *const norm = pare_json_get(pare_json_get(doc, "kept"), "b.0.norm");
    ck_assert_str_eq(pare_json_text(pare_json_get(norm, "dtype"), NULL), "BF16");
    ck_assert_str_eq(pare_json_text(pare_json_get(norm, "xxh3"), NULL),
                     "ab000000000000000000000000000000");
    const pare_json *const input = pare_json_at(pare_json_get(doc, "inputs"), 0);
    ck_assert_int_eq(pare_json_integer(pare_json_get(input, "bytes"), -1), 1234);
    ck_assert_ptr_null(strstr(text, "12.5")); /* seconds */
    pare_json_free(doc);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(a_kept_tensor_that_nobody_laid_out_and_a_NaN_are_refused)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(manifest(&cx, &a, "b.9.norm", 0.25, &text, &len), PARE_EINVAL);
    ck_assert_str_eq(cx.what, "manifest.json: b.9.norm: the layout has no such tensor");
    pare_ctx_clear(&cx);
    ck_assert_int_ne(manifest(&cx, &a, "b.0.norm", NAN, &text, &len), PARE_OK);
    ck_assert_ptr_nonnull(strstr(cx.what, "weight_error"));
    pare_arena_release(&a);
}
END_TEST

START_TEST(config_json_keeps_every_member_and_names_us)
{
    static const char in[] =
        "{\"model_type\": \"llama\", \"rms_norm_eps\": 1e-05, "
        "\"quantization_config\": {\"quant_method\": \"other\"}, \"x\": [1, {}]}";
    pare_ctx cx;
    pare_arena a;
    pare_json *doc = NULL, *out = NULL;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "in", in, strlen(in), 1 << 20, &doc), PARE_OK);
    const pare_config c = {.arch = pare_arch_find("llama")};
    ck_assert_int_eq(pare_manifest_config(&cx, &a, doc, &c, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "out", text, len, 1 << 20, &out), PARE_OK);
    ck_assert_uint_eq(pare_json_count(out), 4);
    ck_assert_double_eq(pare_json_number(pare_json_get(out, "rms_norm_eps"), 0), 1e-05);
    ck_assert_uint_eq(pare_json_count(pare_json_get(out, "x")), 2);
    const pare_json *const q = pare_json_get(out, "quantization_config");
    ck_assert_str_eq(pare_json_text(pare_json_get(q, "quant_method"), NULL), "pare");
    ck_assert_int_eq(pare_json_integer(pare_json_get(q, "format"), -1), 1);
    pare_json_free(doc);
    pare_json_free(out);
    pare_arena_release(&a);
}
END_TEST

/* Whether the head is tied is written as it is, wherever a reader would take it for the other. */
static const struct {
    const char *in, *family;
    bool tied;
    int written; /* -1: nothing */
} ties[] = {
    {"{\"tie_word_embeddings\": true}", "llama", true, 1},
    {"{\"tie_word_embeddings\": true}", "llama", false, 0},
    {"{}", "llama", false, -1},
    {"{}", "gemma2", false, 0},
    {"{}", "gpt2", true, -1},
};

START_TEST(config_json_says_whether_the_head_is_tied)
{
    pare_ctx cx;
    pare_arena a;
    pare_json *doc = NULL, *out = NULL;
    char *text;
    size_t len;
    const pare_config c = {.arch = pare_arch_find(ties[_i].family), .tied = ties[_i].tied};
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "in", ties[_i].in, strlen(ties[_i].in), 100, &doc),
                     PARE_OK);
    ck_assert_int_eq(pare_manifest_config(&cx, &a, doc, &c, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "out", text, len, 1 << 20, &out), PARE_OK);
    const pare_json *const v = pare_json_get(out, "tie_word_embeddings");
    ck_assert_int_eq(pare_json_type_of(v) == PARE_JSON_ABSENT ? -1 : (int)pare_json_bool(v, false),
                     ties[_i].written);
    pare_json_free(doc);
    pare_json_free(out);
    pare_arena_release(&a);
}
END_TEST

/* The files that auto_map names do not go along. */
START_TEST(config_json_names_no_code)
{
    static const char in[] = "{\"auto_map\": {\"AutoConfig\": \"configuration_x.X\"}, \"x\": 1}";
    const pare_config c = {.arch = pare_arch_find("llama")};
    const pare_structure_result r = {.before = &c};
    pare_ctx cx;
    pare_arena a;
    pare_json *doc = NULL, *out = NULL;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "in", in, strlen(in), 1000, &doc), PARE_OK);
    for (int dense = 0; dense < 2; dense++) {
        ck_assert_int_eq(
            dense ? pare_manifest_dense_config(&cx, &a, doc, &c, &r, false, false, &text, &len)
                  : pare_manifest_config(&cx, &a, doc, &c, &text, &len),
            PARE_OK);
        ck_assert_int_eq(pare_json_parse(&cx, "out", text, len, 1 << 20, &out), PARE_OK);
        ck_assert_int_eq(pare_json_integer(pare_json_get(out, "x"), -1), 1);
        ck_assert_ptr_null(pare_json_get(out, "auto_map"));
        pare_json_free(out);
    }
    pare_json_free(doc);
    pare_arena_release(&a);
}
END_TEST

/* Blocks 0, 2 and 3 of four stay; a list of as many other things is not touched. */
START_TEST(lists_of_blocks_lose_the_items_of_blocks_that_went)
{
    static const char in[] = "{\"layer_types\": [\"a\", \"b\", \"c\", \"d\"],"
                             "\"no_rope_layers\": [1, 0, 1], \"eos_token_id\": [1, 2, 3, 4]}";
    static const size_t source[] = {0, 2, 3};
    const pare_config before = {.blocks = 4}, c = {.arch = pare_arch_find("llama"), .blocks = 3};
    const pare_structure_result r = {.before = &before, .source = source, .sources = 3};
    pare_ctx cx;
    pare_arena a;
    pare_json *doc = NULL, *out = NULL;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "in", in, strlen(in), 1000, &doc), PARE_OK);
    ck_assert_int_eq(pare_manifest_dense_config(&cx, &a, doc, &c, &r, false, false, &text, &len),
                     PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "out", text, len, 1 << 20, &out), PARE_OK);
    const pare_json *const types = pare_json_get(out, "layer_types");
    ck_assert_uint_eq(pare_json_count(types), 3);
    ck_assert_str_eq(pare_json_text(pare_json_at(types, 1), NULL), "c");
    ck_assert_str_eq(pare_json_text(pare_json_at(types, 2), NULL), "d");
    ck_assert_uint_eq(pare_json_count(pare_json_get(out, "no_rope_layers")), 3);
    ck_assert_uint_eq(pare_json_count(pare_json_get(out, "eos_token_id")), 4);
    pare_json_free(doc);
    pare_json_free(out);
    pare_arena_release(&a);
}
END_TEST

START_TEST(bits_per_weight_counts_every_plane_over_weights_without_padding)
{
    /* 16 x 64: 512 B of codes, 2 groups: 64 B of scales, 32 B of zeros; over 16 * 64 weights. */
    const pare_packed_linear a = UNIFORM("a", 16, 64, 4, 32, false);
    /* 8 x 32 pads to 16 rows: 256 B of codes, 32 B of scales, over 256 weights. */
    const pare_packed_linear both[2] = {a, UNIFORM("b", 8, 32, 4, 32, true)};
    ck_assert_double_eq(pare_manifest_bits_per_weight(&a, 1), (512 + 64 + 32) * 8 / 1024.0);
    ck_assert_double_eq(pare_manifest_bits_per_weight(both, 2), (608 + 256 + 32) * 8 / 1280.0);
    ck_assert_double_eq(pare_manifest_bits_per_weight(NULL, 0), 0);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 10000; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_arena a;
        unsigned char *bytes;
        char *text;
        size_t len;
        pare_unit_result u;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = encode(&cx, &a, &bytes, &len);
        if (s == PARE_OK)
            s = pare_result_decode(&cx, &a, bytes, len, &u);
        if (s == PARE_OK)
            s = manifest(&cx, &a, "b.0.norm", 0.25, &text, &len);
        pare_arena_release(&a);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (cx.what[0] == '\0'));
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("manifest");
    TCase *const t = tcase_create("manifest");
    tcase_add_test(t, results_of_a_unit_decode_to_what_was_encoded);
    tcase_add_test(t, what_went_out_of_a_block_decodes_to_what_was_encoded);
    tcase_add_test(t, what_was_pruned_outlives_the_journal);
    tcase_add_test(t, every_encoding_and_what_steps_cost_outlive_the_journal);
    tcase_add_test(t, every_truncation_and_every_longer_payload_is_refused);
    tcase_add_test(t, each_kind_of_damage_is_named);
    tcase_add_test(t, what_a_calibration_says_outlives_the_journal);
    tcase_add_test(t, what_reached_an_expert_outlives_the_journal);
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, a_name_of_64_KiB_is_refused);
    tcase_add_test(t, the_manifest_says_what_was_done_to_each_tensor);
    tcase_add_test(t, a_kept_tensor_that_nobody_laid_out_and_a_NaN_are_refused);
    tcase_add_test(t, config_json_keeps_every_member_and_names_us);
    tcase_add_loop_test(t, config_json_says_whether_the_head_is_tied, 0,
                        sizeof ties / sizeof *ties);
    tcase_add_test(t, lists_of_blocks_lose_the_items_of_blocks_that_went);
    tcase_add_test(t, config_json_names_no_code);
    tcase_add_test(t, bits_per_weight_counts_every_plane_over_weights_without_padding);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
