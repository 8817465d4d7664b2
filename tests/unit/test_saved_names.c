/* Checkpoints as training and quantizing programs save them: names with a wrapper in front, one
 * tensor for head and embedding, tensors that were not gathered, codes for the head. */
#include "tests/unit/small_model.h"

#define BODY                                                                                       \
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 1, \"rms_norm_eps\": 1e-05, "              \
    "\"max_position_embeddings\": 4, "
#define TIED                                                                                       \
    "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 4, "                   \
    "\"vocab_size\": 4, " BODY "\"tie_word_embeddings\": true}"
#define TIED_CODES                                                                                 \
    "{\"model_type\": \"llama\", \"hidden_size\": 32, \"intermediate_size\": 32, "                 \
    "\"vocab_size\": 32, " BODY "\"tie_word_embeddings\": true, "                                  \
    "\"quantization_config\": {\"quant_method\": \"fp8\"}}"

/* `front` in front of every name, in place of "model." where `whole` is false. */
static void put_in_front(small *s, const char *front, bool whole)
{
    static char name[SMALL_TENSORS][96];
    for (size_t i = 0; i < s->tensors; i++) {
        const char *const from = s->tensor[i].name;
        const size_t skip = !whole && strncmp(from, "model.", 6) == 0 ? 6 : 0;
        (void)snprintf(name[i], sizeof name[i], "%s%s", front, from + skip);
        s->tensor[i].name = name[i];
    }
}

/* As load_heard; the caller closes. */
static pare_status open_heard(pare_checkpoint *ck, pare_model *model)
{
    warned[0] = '\0';
    cx.progress.warn = hear;
    PARE_TRY(pare_checkpoint_open(&cx, &arena, dir.path, ck));
    return pare_model_load(&cx, &arena, ck, model);
}

START_TEST(what_wraps_a_model_is_no_part_of_its_names)
{
    static const char *const fronts[] = {"_orig_mod.",
                                         "module.",
                                         "module._orig_mod.",
                                         "base_model.model.",
                                         "_fsdp_wrapped_module.",
                                         "module._fsdp_wrapped_module."};
    pare_checkpoint ck;
    pare_model model;
    for (size_t i = 0; i < sizeof fronts / sizeof *fronts; i++) {
        small s = small_make();
        put_in_front(&s, fronts[i], true);
        small_write(&s);
        ck_assert_msg(open_heard(&ck, &model) == PARE_OK, "%s: %s", fronts[i], cx.what);
        ck_assert_str_eq(model.head.name, "lm_head");
        ck_assert(((const float *)model.block[0].linear[PARE_ROLE_Q].data)[5] == 5);
        ck_assert_str_eq(warned, "");
        pare_checkpoint_close(&ck);
    }
    small s = small_make(); /* one name without it: nothing is taken away */
    put_in_front(&s, "_orig_mod.", true);
    s.tensor[3].name = "model.layers.0.mlp.up_proj.weight";
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.embed_tokens.weight is missing; "
                          "_orig_mod.model.embed_tokens.weight is there: names begin in another");
}
END_TEST

/* As FSDP names a model whose blocks, and what lies in them, it wraps one by one. */
START_TEST(what_wraps_blocks_is_no_part_of_their_names)
{
    static const char block[] = "model.layers.0.", fsdp[] = "_fsdp_wrapped_module.";
    static char name[SMALL_TENSORS][128];
    pare_checkpoint ck;
    pare_model model;
    small s = small_make();
    for (size_t i = 0; i < s.tensors; i++) {
        const char *const from = s.tensor[i].name, *const rest = from + sizeof block - 1;
        const size_t front = strncmp(from, block, sizeof block - 1) == 0 ? sizeof block - 1 : 0;
        const char *const mlp = front && strncmp(rest, "mlp.", 4) == 0 ? "mlp." : "";
        if (front)
            (void)snprintf(name[i], sizeof name[i], "%s%s%s%s%s%s", i % 2 ? fsdp : "", block, fsdp,
                           mlp, mlp[0] ? fsdp : "", rest + strlen(mlp));
        s.tensor[i].name = front ? name[i] : from;
    }
    small_write(&s);
    ck_assert_msg(open_heard(&ck, &model) == PARE_OK, "%s", cx.what);
    for (size_t i = 1; i < ck.tensors; i++)
        ck_assert_int_lt(strcmp(ck.tensor[i - 1].name, ck.tensor[i].name), 0);
    ck_assert(((const float *)model.block[0].linear[PARE_ROLE_DOWN].data)[9] == 9);
    ck_assert_str_eq(warned, "");
    pare_checkpoint_close(&ck);
    s = small_make();
    small_add(&s, "model._fsdp_wrapped_module.norm.weight", PARE_F32, SMALL, 0);
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.norm.weight is there twice, with and without "
                          "_fsdp_wrapped_module. in its name");
}
END_TEST

START_TEST(a_language_model_inside_another_is_told)
{
    small s = small_make();
    put_in_front(&s, "model.language_model.", false);
    small_write(&s);
    refuses(PARE_EFORMAT,
            "tensor model.embed_tokens.weight is missing; "
            "model.language_model.embed_tokens.weight is there: names begin in another way");
}
END_TEST

/* The same model whichever of both names was kept. */
START_TEST(a_tied_head_alone_is_the_embedding)
{
    pare_checkpoint ck;
    pare_model model;
    small s = small_make();
    s.config = TIED;
    s.tensor[0] = s.tensor[--s.tensors]; /* leaves the head */
    small_write(&s);
    ck_assert_msg(open_heard(&ck, &model) == PARE_OK, "%s", cx.what);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "lm_head.weight"));
    for (size_t i = 1; i < ck.tensors; i++)
        ck_assert_int_lt(strcmp(ck.tensor[i - 1].name, ck.tensor[i].name), 0);
    ck_assert_str_eq(model.embed.name, "model.embed_tokens");
    ck_assert(model.config.tied && ((const float *)model.embed.data)[7] == 7);
    ck_assert(((const float *)model.block[0].linear[PARE_ROLE_DOWN].data)[9] == 9);
    ck_assert_str_eq(warned, "");
    pare_checkpoint_close(&ck);
    edit("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    refuses(PARE_EFORMAT, "tensor model.embed_tokens.weight is missing");
}
END_TEST

/* Names without "model.", with the head, the embedding or both. */
START_TEST(a_tied_head_is_known_without_the_prefix)
{
    pare_model model;
    for (size_t lacks = 0; lacks < 3; lacks++) {
        small s = small_make();
        s.config = TIED;
        if (lacks < 2) /* [0] is the embedding, [1] the head */
            s.tensor[lacks] = s.tensor[--s.tensors];
        put_in_front(&s, "", false);
        small_write(&s);
        ck_assert_msg(load_heard(&model) == PARE_OK, "without %zu: %s", lacks, cx.what);
        ck_assert(model.config.tied);
        ck_assert_str_eq(model.embed.name, "model.embed_tokens");
        ck_assert_str_eq(warned, "");
    }
    small s = small_make();
    s.config = TIED;
    s.tensor[0] = s.tensor[--s.tensors];
    s.tensor[9] = s.tensor[--s.tensors]; /* and the norm */
    put_in_front(&s, "", false);
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.norm.weight is missing");
}
END_TEST

/* Codes beside it; what is known of its codes goes where its new name belongs. */
START_TEST(a_tied_head_alone_may_be_codes)
{
    pare_checkpoint ck;
    small s = {.config = TIED_CODES};
    small_add(&s, "lm_head.weight", PARE_F8_E4M3, WIDE, WIDE);
    small_add(&s, "lm_head.weight_scale", PARE_F32, WIDE, 1);
    small_add(&s, "model.layers.0.mlp.down_proj.weight", PARE_F16, WIDE, WIDE);
    small_add(&s, "model.norm.weight", PARE_F32, WIDE, 0);
    small_write(&s);
    ck_assert_msg(pare_checkpoint_open_to_run(&cx, &arena, dir.path, &ck) == PARE_OK, "%s",
                  cx.what);
    ck_assert_uint_eq(ck.tensors, 3);
    ck_assert_str_eq(ck.tensor[0].name, "model.embed_tokens.weight");
    ck_assert_ptr_nonnull(pare_checkpoint_stored(&ck, "model.embed_tokens")->packed);
    ck_assert_ptr_null(pare_checkpoint_stored(&ck, "model.layers.0.mlp.down_proj")->packed);
    pare_checkpoint_close(&ck);
    s.tensor[2].name = "lm_z.weight"; /* moves in front of it, and the norm stays behind */
    small_write(&s);
    ck_assert_int_eq(pare_checkpoint_open_to_run(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_str_eq(ck.tensor[0].name, "lm_z.weight");
    ck_assert_ptr_null(ck.stored[0].packed);
    ck_assert_ptr_nonnull(pare_checkpoint_stored(&ck, "model.embed_tokens")->packed);
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(a_tensor_that_was_not_gathered_is_told)
{
    small s = small_make();
    s.tensor[3].shape[0] = 0;
    s.tensor[3].rank = 1;
    s.tensor[3].bytes = 0;
    small_write(&s);
    refuses(PARE_EFORMAT, "up_proj.weight has shape [0], config.json asks for [4, 4]: it is empty, "
                          "as DeepSpeed ZeRO-3 and FSDP save");
}
END_TEST

START_TEST(one_of_several_files_is_told)
{
    pare_model model;
    size_t len;
    small s = small_make();
    s.tensors--;
    small_write(&s);
    char *const bytes = folder_get(folder_file(&dir, "model.safetensors"), &len);
    folder_put(&dir, "model-00001-of-00002.safetensors", bytes, len);
    free(bytes);
    ck_assert_int_eq(load(folder_file(&dir, "model-00001-of-00002.safetensors"), &model),
                     PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "is missing: by its name this is one of several files of a "
                                  "model; give their directory"),
                  "%s", cx.what);
    refuses(PARE_EFORMAT, "post_attention_layernorm.weight is missing");
    ck_assert_ptr_null(strstr(cx.what, "several files"));
}
END_TEST

START_TEST(experts_in_one_tensor_are_told)
{
    small s = small_make();
    s.config = "{\"model_type\": \"qwen3_moe\", \"hidden_size\": 4, \"intermediate_size\": 4, "
               "\"vocab_size\": 4, " BODY "\"head_dim\": 4, \"num_experts\": 2, "
               "\"num_experts_per_tok\": 1, \"moe_intermediate_size\": 4}";
    s.tensor[2].name = "model.layers.0.mlp.experts.gate_up_proj";
    small_add(&s, "model.layers.0.self_attn.q_norm.weight", PARE_F32, SMALL, 0);
    small_add(&s, "model.layers.0.self_attn.k_norm.weight", PARE_F32, SMALL, 0);
    small_add(&s, "model.layers.0.mlp.gate.weight", PARE_F32, 2, SMALL);
    small_write(&s);
    refuses(PARE_ENOTSUP, "model.layers.0.mlp.experts.gate_up_proj holds all experts of a block");
}
END_TEST

START_TEST(scales_of_a_cache_are_left_out)
{
    static const char *const names[] = {
        "model.layers.0.self_attn.k_proj.k_scale", "model.layers.0.self_attn.v_proj.output_scale",
        "model.layers.0.self_attn.k_scale", "model.layers.0.self_attn.kv_scale"};
    pare_model model;
    small s = small_make();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        small_add(&s, names[i], PARE_F32, 1, 0);
    small_write(&s);
    ck_assert_msg(load_heard(&model) == PARE_OK, "%s", cx.what);
    ck_assert_ptr_nonnull(strstr(warned, "4 tensors are left out"));
}
END_TEST

/* Codes are not the values of the embedding, whatever tie_word_embeddings says. */
START_TEST(a_tied_head_in_codes_counts)
{
    pare_checkpoint ck;
    pare_model model;
    small s = {.config = TIED_CODES};
    small_fill(&s, PARE_F16, WIDE);
    s.tensor[1] = s.tensor[--s.tensors]; /* the head */
    small_add(&s, "lm_head.weight", PARE_F8_E4M3, WIDE, WIDE);
    small_add(&s, "lm_head.weight_scale", PARE_F32, WIDE, 1);
    small_write(&s);
    warned[0] = '\0';
    cx.progress.warn = hear;
    ck_assert_int_eq(pare_checkpoint_open_to_run(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_ptr_nonnull(pare_checkpoint_stored(&ck, "lm_head")->packed);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &model) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(model.head.name, "lm_head");
    ck_assert(!model.config.tied && model.head.bits > 0 && model.embed.bits == 0);
    ck_assert_ptr_nonnull(strstr(warned, "tensor lm_head.weight is used as the head"));
    pare_checkpoint_close(&ck);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("saved_names");
    TCase *const t = tcase_create("saved_names");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, what_wraps_a_model_is_no_part_of_its_names);
    tcase_add_test(t, what_wraps_blocks_is_no_part_of_their_names);
    tcase_add_test(t, a_language_model_inside_another_is_told);
    tcase_add_test(t, a_tied_head_alone_is_the_embedding);
    tcase_add_test(t, a_tied_head_is_known_without_the_prefix);
    tcase_add_test(t, a_tied_head_alone_may_be_codes);
    tcase_add_test(t, a_tensor_that_was_not_gathered_is_told);
    tcase_add_test(t, one_of_several_files_is_told);
    tcase_add_test(t, experts_in_one_tensor_are_told);
    tcase_add_test(t, scales_of_a_cache_are_left_out);
    tcase_add_test(t, a_tied_head_in_codes_counts);
    suite_add_tcase(s, t);
    return unit_main(s);
}
