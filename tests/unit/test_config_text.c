/* The text part of a model of texts and images: its configuration, and names of tensors. */
#include "formats/checkpoint.h"

#include "tests/data/families.h"
#include "tests/unit/folder.h"
#include "tests/unit/heard.h"

static pare_ctx cx;
static pare_arena arena;
static pare_checkpoint ck;
static folder dir;

static void begin(void)
{
    pare_ctx_init(&cx);
    cx.progress.warn = hear;
    warned[0] = '\0';
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    folder_make(&dir);
    ck_assert(family_write(family_find("gemma3"), dir.path));
}

static void end(void)
{
    pare_checkpoint_close(&ck);
    folder_remove(&dir);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static const pare_json *word(const char *key)
{
    return pare_json_get(ck.config, key);
}

START_TEST(the_text_model_stands_alone)
{
    pare_model m;
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(pare_json_text(word("model_type"), NULL), "gemma3_text");
    ck_assert_str_eq(pare_json_text(pare_json_at(word("architectures"), 0), NULL),
                     "Gemma3ForCausalLM");
    ck_assert_int_eq(pare_json_type_of(word("vision_config")), PARE_JSON_ABSENT);
    ck_assert_int_eq(pare_json_integer(word("num_attention_heads"), -1), 8); /* says nothing */
    ck_assert_int_eq(pare_json_integer(word("num_key_value_heads"), -1), 4);
    ck_assert_int_eq(pare_json_integer(word("head_dim"), -1), 16); /* says it */
    ck_assert(pare_json_number(word("rms_norm_eps"), -1) == 1e-6);
    ck_assert_uint_eq(pare_json_count(word("eos_token_id")), 2); /* the whole says it */
    ck_assert_ptr_nonnull(pare_checkpoint_find(&ck, "model.layers.2.self_attn.k_norm.weight"));
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(m.config.tied && m.config.eos_ids == 2 && m.config.heads == 8);
    ck_assert_msg(strstr(warned, "1 tensor is left out: a model of type gemma3_text with this "
                                 "config.json does not use it "
                                 "(vision_tower.vision_model.post_layernorm.weight)"),
                  "%s", warned);
}
END_TEST

/* The names that transformers 5 writes. */
static family newer_names(void)
{
    family f = *family_find("gemma3");
    static char name[32][TINY_NAME];
    for (size_t i = 0; f.tensor[i]; i++) {
        static const char older[] = "language_model.model.";
        const size_t len = sizeof older - 1;
        const bool text = strncmp(f.tensor[i], older, len) == 0;
        (void)snprintf(name[i], sizeof name[i], "model.%s%s", text ? "language_model." : "",
                       f.tensor[i] + (text ? len : 0));
        f.tensor[i] = name[i];
    }
    return f;
}

START_TEST(tensors_may_have_the_newer_names)
{
    const family f = newer_names();
    pare_model m;
    ck_assert(family_write(&f, dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert_msg(strstr(warned, "1 tensor is left out"), "%s", warned);
}
END_TEST

/* A tied head, beside the embedding or in its place, under both kinds of names. */
START_TEST(a_head_may_stand_beside_or_for_the_embedding)
{
    const bool newer = _i & 1, beside = _i & 2;
    family f = newer ? newer_names() : *family_find("gemma3");
    size_t at = 0, last = 0;
    pare_model m;
    while (!strstr(f.tensor[at], ".embed_tokens.weight"))
        at++;
    while (f.tensor[last])
        last++;
    f.tensor[beside ? last : at] = newer ? "lm_head.weight VH" : "language_model.lm_head.weight VH";
    ck_assert(family_write(&f, dir.path));
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(m.embed.name, "model.embed_tokens");
    ck_assert(m.config.tied == !beside); /* the values of the head are others */
}
END_TEST

/* Right values: those of transformers, Qwen3_5MoeTextConfig. */
START_TEST(a_text_part_that_says_nothing_gets_the_sizes_of_its_family)
{
    static const char text[] = "{\"model_type\": \"qwen3_5_moe\", \"text_config\": {}}";
    pare_config c;
    folder_put(&dir, "config.json", text, sizeof text - 1);
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_config_parse(&cx, "c", ck.config, &c) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(c.arch->model_type, "qwen3_5_moe_text");
    ck_assert_str_eq(pare_json_text(pare_json_at(word("architectures"), 0), NULL),
                     "Qwen3_5MoeForCausalLM");
    ck_assert(c.vocab == 248320 && c.hidden == 2048 && c.blocks == 40 && c.context == 32768);
    ck_assert(c.heads == 16 && c.kv_heads == 2 && c.head_dim == 256 && c.rope.rotary == 64);
    ck_assert(c.experts == 256 && c.experts_used == 8 && c.expert_width == 512);
    ck_assert(c.intermediate == 512 && c.norm_eps == 1e-6 && !c.tied);
    ck_assert(c.recurrence.key_heads == 16 && c.recurrence.value_heads == 32);
    ck_assert(c.recurrence.key_width == 128 && c.recurrence.value_width == 128);
    ck_assert(c.recurrence.taps == 4 && pare_config_attentions(&c) == 10);
}
END_TEST

/* Sizes that a text_config of Gemma 3 does not say are not blamed on it. */
static const char *const unsaid[][3] = {
    {"\"intermediate_size\":96,", "gate_proj.weight has shape [96, 64], config.json asks for",
     "intermediate_size 9216, num_attention_heads 8, num_key_value_heads 4"},
    {"\"num_hidden_layers\":3,", "layer_types has 3 items for 26 blocks", "num_hidden_layers 26"}};

START_TEST(sizes_that_nothing_says_are_named_as_defaults)
{
    size_t len;
    pare_model m;
    char *const text = folder_get(folder_file(&dir, "config.json"), &len);
    char *const at = strstr(text, unsaid[_i][0]);
    ck_assert_msg(at != NULL, "%s", text);
    memset(at, ' ', strlen(unsaid[_i][0]));
    folder_put(&dir, "config.json", text, len);
    free(text);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(&cx, &arena, &ck, &m), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, unsaid[_i][1]), "%s", cx.what);
    const char *const defaults = strstr(cx.what, "; text_config does not say all sizes");
    ck_assert_msg(defaults && strstr(defaults, unsaid[_i][2]), "%s", cx.what);
    ck_assert_ptr_null(strstr(defaults, "head_dim")); /* said */
}
END_TEST

static const struct {
    const char *config, *says;
    pare_status status;
} refused[] = {
    {"{\"model_type\": \"gemma3\"}",
     "config.json: model_type is gemma3, but text_config is missing or not an object",
     PARE_EFORMAT},
    {"{\"model_type\": \"gemma3\", \"text_config\": []}",
     "config.json: model_type is gemma3, but text_config is missing or not an object",
     PARE_EFORMAT},
    {"{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": 3}}",
     "config.json: text_config: model_type is not a text", PARE_EFORMAT},
    {"{\"model_type\": \"gemma3\", \"text_config\": {\"model_type\": \"gemma2\"}}",
     "config.json: text_config: model_type gemma2 is not supported (gemma3_text is)", PARE_ENOTSUP},
};

START_TEST(other_text_parts_are_refused)
{
    folder_put(&dir, "config.json", refused[_i].config, strlen(refused[_i].config));
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), refused[_i].status);
    ck_assert_msg(strstr(cx.what, refused[_i].says), "%s", cx.what);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx own;
        pare_arena a;
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK) {
            s = pare_checkpoint_open(&own, &a, dir.path, &ck);
            pare_checkpoint_close(&ck);
            pare_arena_release(&a);
        }
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 10);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("config_text");
    TCase *const t = tcase_create("config_text");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, the_text_model_stands_alone);
    tcase_add_test(t, tensors_may_have_the_newer_names);
    tcase_add_loop_test(t, a_head_may_stand_beside_or_for_the_embedding, 0, 4);
    tcase_add_test(t, a_text_part_that_says_nothing_gets_the_sizes_of_its_family);
    tcase_add_loop_test(t, sizes_that_nothing_says_are_named_as_defaults, 0,
                        sizeof unsaid / sizeof *unsaid);
    tcase_add_loop_test(t, other_text_parts_are_refused, 0, sizeof refused / sizeof *refused);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
