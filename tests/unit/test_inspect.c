#include "compress/artifact/inspect.h"

#include "tests/data/families.h"
#include "tests/unit/artifact.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static void begin(void)
{
    folder_begin(&dir, &cx, &arena);
}

static void end(void)
{
    folder_end(&dir, &arena);
}

static const pare_inspect_row *find(const pare_inspection *in, const char *name)
{
    for (size_t i = 0; i < in->rows; i++) {
        if (strcmp(in->row[i].name, name) == 0)
            return &in->row[i];
    }
    ck_abort_msg("no row %s", name);
    return NULL;
}

START_TEST(a_checkpoint_shows_its_tensors_in_order)
{
    pare_inspection in;
    tiny_model m = tiny_model_default();
    m.blocks = 11;
    m.shards = 3;
    ck_assert(tiny_model_write(&m, dir.path));
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(in.rows, 11 * 9 + 3);
    ck_assert_uint_eq(in.files, 3);
    ck_assert(!in.packed && in.has_config && in.config_problem == NULL);
    ck_assert_uint_eq(in.config.blocks, 11);
    ck_assert(find(&in, "model.layers.2.mlp.up_proj.weight") <
              find(&in, "model.layers.10.mlp.up_proj.weight"));
    const pare_inspect_row *const down = find(&in, "model.layers.0.mlp.down_proj.weight");
    ck_assert_str_eq(down->encoding, "F16");
    ck_assert_uint_eq(down->rank, 2);
    ck_assert(down->shape[0] == 48 && down->shape[1] == 112);
    ck_assert_uint_eq(down->weights, 48 * 112);
    ck_assert_uint_eq(down->bytes, 2 * 48 * 112);
    ck_assert(down->bits_per_weight == 16 && in.bits_per_weight == 16);
    ck_assert_uint_eq(in.tensor_bytes, 2 * in.weights);
    ck_assert_uint_gt(in.file_bytes, in.tensor_bytes);
    ck_assert_str_eq(down->file, in.file[0].name);
    ck_assert_uint_eq(in.file[0].tensors + in.file[1].tensors + in.file[2].tensors, in.rows);
}
END_TEST

static void keep_warning(void *self, const char *text)
{
    (void)snprintf(self, 1024, "%s", text);
}

/* Words of quantized weights, and nothing says how: they are no weights, which is told. */
START_TEST(words_that_are_not_read_are_told)
{
    static const char head[] = "{\"model.layers.0.mlp.down_proj.qweight\": {\"dtype\": \"I32\", "
                               "\"shape\": [2, 4], \"data_offsets\": [0, 32]}}";
    char file[8 + sizeof head - 1 + 32] = {sizeof head - 1}, warning[1024] = "";
    pare_inspection in;
    memcpy(file + 8, head, sizeof head - 1);
    folder_put_text(&dir, "config.json", "{\"model_type\": \"llama\"}");
    folder_put(&dir, "model.safetensors", file, sizeof file);
    cx.progress.warn = keep_warning;
    cx.progress.self = warning;
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_ptr_nonnull(strstr(warning, "no quantization_config with a quant_method"));
    ck_assert_ptr_nonnull(strstr(warning, "their words and scales count as weights"));
}
END_TEST

START_TEST(weights_that_a_token_does_not_use_are_counted)
{
    pare_inspection in;
    ck_assert(family_write(family_find("qwen2_moe"), dir.path));
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(in.idle_weights, 3 * 4 * 3 * 64 * 32); /* blocks, experts, linears */
    ck_assert_uint_gt(in.weights, 2 * in.idle_weights);
    ck_assert(family_write(family_find("mistral"), dir.path));
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_OK);
    ck_assert_uint_eq(in.idle_weights, 0);
}
END_TEST

START_TEST(what_the_model_has_no_place_for_is_counted_apart)
{
    pare_inspection in;
    ck_assert(family_write(family_find("llama4"), dir.path));
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(in.unused, 2);
    ck_assert_str_eq(in.row[in.rows - 2].name, "multi_modal_projector.linear_1.weight");
    ck_assert_str_eq(in.row[in.rows - 1].name, "vision_model.layernorm_pre.weight");
    ck_assert(in.row[in.rows - 1].unused && !in.row[in.rows - 3].unused);
    ck_assert_uint_eq(in.unused_weights, 64 * 64 + 64);
    ck_assert_uint_eq(in.unused_bytes, 2 * in.unused_weights);
    ck_assert(!find(&in, "lm_head.weight")->unused);
    uint64_t weights = 0;
    for (size_t i = 0; i < in.rows; i++)
        weights += in.row[i].weights;
    ck_assert_uint_eq(in.weights + in.unused_weights, weights);
    ck_assert_uint_eq(in.mapped_bytes, in.tensor_bytes);
}
END_TEST

/* By its name it has a place; only loading tells that it has none. */
START_TEST(what_lies_in_a_block_counts_as_used)
{
    pare_inspection in;
    family f = *family_find("glm4_moe");
    size_t end = 0;
    while (f.tensor[end])
        end++;
    ck_assert_uint_lt(end, sizeof f.tensor / sizeof *f.tensor);
    f.tensor[end] = "model.layers.0.something.weight HH";
    ck_assert(family_write(&f, dir.path));
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert(!find(&in, "model.layers.0.something.weight")->unused);
}
END_TEST

/* All families but those of texts and images, and of further tokens, though one has tables of
 * positions, and one a head with a bias. */
START_TEST(every_family_uses_its_tensors)
{
    pare_inspection in;
    bool others = strstr(families[_i].config, "\"vision_config\"");
    for (size_t i = 0; families[_i].tensor[i]; i++)
        others |= strncmp(families[_i].tensor[i], "mtp.", 4) == 0;
    ck_assert(family_write(&families[_i], dir.path));
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_msg((in.unused > 0) == others, "%s: %zu", families[_i].name, in.unused);
}
END_TEST

START_TEST(blocks_beyond_those_of_the_configuration_are_counted_apart)
{
    pare_inspection in;
    tiny_model m = tiny_model_default();
    ck_assert(tiny_model_write(&m, dir.path));
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_OK);
    const uint64_t weights = in.weights;
    const size_t blocks = m.blocks;
    m.blocks = 11;
    ck_assert(tiny_model_write(&m, dir.path));
    size_t len;
    char *const text = folder_get(folder_file(&dir, "config.json"), &len);
    static const char key[] = "\"num_hidden_layers\": ";
    char *const at = strstr(text, key);
    ck_assert_ptr_nonnull(at);
    at[sizeof key - 1] = ' ';
    at[sizeof key] = (char)('0' + blocks);
    folder_put(&dir, "config.json", text, len);
    free(text);
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(in.config.blocks, blocks);
    ck_assert_uint_eq(in.weights, weights);
    ck_assert_uint_eq(in.unused, (11 - blocks) * 9);
}
END_TEST

START_TEST(an_artifact_shows_one_row_per_packed_linear)
{
    pare_inspection in;
    artifact_write(&cx, &dir, 4, 32, false, 1 << 20);
    ck_assert_msg(pare_inspect(&cx, &arena, dir.path, &in) == PARE_OK, "%s", cx.what);
    ck_assert(in.packed && in.has_config);
    ck_assert_uint_eq(in.rows, 2 * 9 + 3);
    const pare_inspect_row *const down = find(&in, "model.layers.1.mlp.down_proj");
    ck_assert_str_eq(down->encoding, "int4 g32 asym");
    ck_assert(down->packed && down->shape[0] == 48 && down->shape[1] == 112);
    /* 48 rows; 112 columns are padded to 128: codes 48 * 128 / 2, scales 48 * 4 * 2, zeros half */
    ck_assert_uint_eq(down->bytes, 3072 + 384 + 192);
    ck_assert(down->bits_per_weight == 8.0 * 3648 / (48 * 112));
    ck_assert_str_eq(down->file, "packed-00001-of-00001.safetensors");
    ck_assert_str_eq(find(&in, "model.norm.weight")->encoding, "F16");
    uint64_t bytes = 0;
    for (size_t i = 0; i < in.rows; i++)
        bytes += in.row[i].bytes;
    ck_assert_uint_eq(bytes, in.tensor_bytes);
}
END_TEST

START_TEST(rows_and_signs_stand_in_the_encoding)
{
    pare_inspection in;
    artifact_write(&cx, &dir, 3, 0, true, 1 << 20);
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_OK);
    ck_assert_str_eq(find(&in, "model.layers.0.self_attn.q_proj")->encoding, "int3 row sym");
}
END_TEST

START_TEST(another_family_is_shown_with_the_reason)
{
    pare_inspection in;
    const tiny_model m = tiny_model_default();
    ck_assert(tiny_model_write(&m, dir.path));
    folder_put_text(&dir, "config.json", "{\"model_type\": \"mamba\"}");
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_OK);
    ck_assert(!in.has_config && !in.config_broken);
    ck_assert_ptr_nonnull(strstr(in.config_problem, "model_type mamba is not supported"));
    ck_assert_str_eq(cx.what, "");
    folder_put_text(&dir, "config.json", "{\"model_type\": \"llama\"}");
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_OK);
    ck_assert(!in.has_config && in.config_broken);
    ck_assert_ptr_nonnull(strstr(in.config_problem, "hidden_size is missing"));
    ck_assert_int_eq(unlink(dir.file), 0);
    char path[384];
    (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "model.safetensors"));
    ck_assert_int_eq(pare_inspect(&cx, &arena, path, &in), PARE_OK);
    ck_assert_str_eq(in.config_problem, "there is no config.json");
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_ENOTFOUND);
}
END_TEST

/* The index of an artifact with one text in it replaced by another of the same length. */
static void edit_index(const char *from, const char *to)
{
    size_t len;
    char *const text = folder_get(folder_file(&dir, "packed.index.json"), &len);
    char *const at = strstr(text, from);
    ck_assert_ptr_nonnull(at);
    memcpy(at, to, strlen(to));
    folder_put(&dir, "packed.index.json", text, len);
    free(text);
}

START_TEST(a_linear_without_its_planes_is_refused)
{
    pare_inspection in;
    artifact_write(&cx, &dir, 4, 32, true, 1 << 20);
    edit_index("\"symmetric\": true,", "\"symmetric\":false,");
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, ".zeros is missing"));
    pare_ctx_clear(&cx);
    edit_index("\"bits\": 4", "\"bits\": 9");
    ck_assert_int_eq(pare_inspect(&cx, &arena, dir.path, &in), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(
        cx.what, "packed.index.json: linear: model.layers.0.self_attn.q_proj: no storage for 9 "
                 "bits in groups of 32"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    artifact_write(&cx, &dir, 4, 32, true, 1 << 20);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_inspection in;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&c, &a, 0);
        if (s == PARE_OK)
            s = pare_inspect(&c, &a, dir.path, &in);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(c.what, "");
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("inspect");
    TCase *const t = tcase_create("inspect");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, a_checkpoint_shows_its_tensors_in_order);
    tcase_add_test(t, words_that_are_not_read_are_told);
    tcase_add_test(t, weights_that_a_token_does_not_use_are_counted);
    tcase_add_test(t, what_the_model_has_no_place_for_is_counted_apart);
    tcase_add_test(t, what_lies_in_a_block_counts_as_used);
    tcase_add_loop_test(t, every_family_uses_its_tensors, 0, FAMILIES);
    tcase_add_test(t, blocks_beyond_those_of_the_configuration_are_counted_apart);
    tcase_add_test(t, an_artifact_shows_one_row_per_packed_linear);
    tcase_add_test(t, rows_and_signs_stand_in_the_encoding);
    tcase_add_test(t, another_family_is_shown_with_the_reason);
    tcase_add_test(t, a_linear_without_its_planes_is_refused);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
