#include <math.h>

#include "formats/safetensors.h"
#include "runtime/linear.h"
#include "tests/data/encoded_value.h"
#include "tests/fuzz/artifact_input.h"
#include "tests/unit/small_model.h"

static void same_weights(const pare_linear *l, const pare_tensor *t)
{
    ck_assert_uint_eq(l->bits, 0);
    ck_assert_int_eq(l->dtype, t->dtype);
    ck_assert(l->n == t->shape[0] && l->k == t->shape[1]);
    ck_assert_mem_eq(l->data, t->data, (size_t)t->bytes);
    ck_assert_uint_eq((uintptr_t)l->data % (pare_dtype_bits(l->dtype) / 8), 0);
}

START_TEST(a_model_binds_every_tensor)
{
    static const pare_dtype types[] = {PARE_F32, PARE_F16, PARE_BF16};
    for (size_t i = 0; i < 3; i++) {
        pare_checkpoint ck;
        pare_model m;
        tiny_model tiny = tiny_model_default();
        tiny.dtype = types[i];
        tiny.tied = i == 1;
        ck_assert(tiny_model_write(&tiny, dir.path));
        ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
        ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
        same_weights(&m.embed, pare_checkpoint_find(&ck, "model.embed_tokens.weight"));
        same_weights(&m.head, pare_checkpoint_find(&ck, tiny.tied ? "model.embed_tokens.weight"
                                                                  : "lm_head.weight"));
        same_weights(&m.block[1].linear[PARE_ROLE_K],
                     pare_checkpoint_find(&ck, "model.layers.1.self_attn.k_proj.weight"));
        ck_assert_str_eq(m.block[1].linear[PARE_ROLE_DOWN].name, "model.layers.1.mlp.down_proj");
        float norm[48];
        const pare_tensor *const t =
            pare_checkpoint_find(&ck, "model.layers.0.post_attention_layernorm.weight");
        ck_assert_int_eq(pare_tensor_to_f32(&cx, t, 0, 48, norm), PARE_OK);
        ck_assert_mem_eq(m.block[0].norm[1], norm, sizeof norm);
        ck_assert_ptr_nonnull(m.norm);
        pare_checkpoint_close(&ck);
    }
}
END_TEST

/* The header grows by one space: every tensor of two and four bytes loses its alignment. */
START_TEST(unaligned_weights_are_copied)
{
    size_t len;
    pare_checkpoint ck;
    pare_model m;
    write_shards(1);
    char *const bytes = folder_get(folder_file(&dir, "model.safetensors"), &len);
    const size_t header = (size_t)(unsigned char)bytes[0] | (size_t)(unsigned char)bytes[1] << 8;
    char *const odd = malloc(len + 1);
    ck_assert_ptr_nonnull(odd);
    memcpy(odd, bytes, 8 + header);
    odd[8 + header] = ' ';
    memcpy(odd + 9 + header, bytes + 8 + header, len - 8 - header);
    odd[0] = (char)((header + 1) & 255);
    odd[1] = (char)((header + 1) >> 8);
    folder_put(&dir, "model.safetensors", odd, len + 1);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(&cx, &arena, &ck, &m), PARE_OK);
    ck_assert_uint_ne((uintptr_t)ck.tensor[0].data % 2, 0);
    same_weights(&m.embed, pare_checkpoint_find(&ck, "model.embed_tokens.weight"));
    pare_checkpoint_close(&ck);
    free(bytes);
    free(odd);
}
END_TEST

static const struct {
    const char *from, *to, *message;
} configs[] = {
    {"\"vocab_size\": 97", "\"vocab_size\": 96",
     "tensor model.embed_tokens.weight has shape [97, 48], config.json asks for [96, 48]"},
    {"\"head_dim\": 12", "\"head_dim\": 14", "q_proj.weight has shape [72, 48], config.json asks"},
    {"\"num_hidden_layers\": 2", "\"num_hidden_layers\": 3",
     "tensor model.layers.2.input_layernorm.weight is missing"},
    {"\"hidden_size\"", "\"mlp_bias\": true, \"hidden_size\"",
     "tensor model.layers.0.mlp.gate_proj.bias is missing"},
    {"\"hidden_size\"", "\"attention_bias\": true, \"hidden_size\"",
     "tensor model.layers.0.self_attn.q_proj.bias is missing"},
};

START_TEST(weights_must_be_those_of_the_configuration)
{
    write_shards(1);
    edit("config.json", configs[_i].from, configs[_i].to);
    refuses(PARE_EFORMAT, configs[_i].message);
}
END_TEST

START_TEST(a_head_is_there_or_tied)
{
    pare_model model;
    tiny_model m = tiny_model_default();
    m.tied = true;
    ck_assert(tiny_model_write(&m, dir.path));
    ck_assert_int_eq(load(dir.path, &model), PARE_OK);
    ck_assert_str_eq(model.head.name, "model.embed_tokens");
    edit("config.json", "\"tie_word_embeddings\": true,", "");
    refuses(PARE_EFORMAT, "tensor lm_head.weight is missing, and config.json does not say");
}
END_TEST

/* The right value is that of transformers 5: tied weights that differ in the files stay apart. */
START_TEST(a_head_of_its_own_counts_whatever_the_configuration_says)
{
    pare_model model;
    write_shards(1);
    edit("config.json", "\"tie_word_embeddings\": false", "\"tie_word_embeddings\": true");
    ck_assert_int_eq(load_heard(&model), PARE_OK);
    ck_assert_str_eq(model.head.name, "lm_head");
    ck_assert(!model.config.tied);
    ck_assert_ptr_nonnull(strstr(warned, "tensor lm_head.weight is used as the head: it differs "
                                         "from model.embed_tokens.weight"));
    edit("config.json", "\"tie_word_embeddings\": true", "\"tie_word_embeddings\": false");
    ck_assert_int_eq(load_heard(&model), PARE_OK);
    ck_assert_str_eq(warned, "");
}
END_TEST

START_TEST(a_tied_head_may_be_in_the_file_once_more)
{
    static const pare_dtype types[] = {PARE_F32, PARE_BF16};
    pare_model model;
    for (size_t i = 0; i < 2; i++) {
        small s = small_make();
        s.config = "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 4,"
                   "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 4,"
                   "\"max_position_embeddings\": 4, \"rms_norm_eps\": 1e-05,"
                   "\"tie_word_embeddings\": true}";
        s.tensor[1].dtype = types[i];
        s.tensor[1].bytes = i ? 32 : 64;
        memset(s.data, 0, sizeof s.data); /* the same in both types */
        small_write(&s);
        ck_assert_msg(load_heard(&model) == PARE_OK, "%s", cx.what);
        ck_assert_str_eq(model.head.name, "model.embed_tokens");
        ck_assert(model.config.tied);
        ck_assert_str_eq(warned, "");
    }
    small s = small_make(); /* F32 values that are not those of BF16 */
    s.tensor[1].dtype = PARE_BF16;
    s.tensor[1].bytes = 32;
    s.config = "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 4,"
               "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 4,"
               "\"max_position_embeddings\": 4, \"rms_norm_eps\": 1e-05,"
               "\"tie_word_embeddings\": true}";
    small_write(&s);
    ck_assert_msg(load_heard(&model) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(model.head.name, "lm_head");
}
END_TEST

START_TEST(tensors_that_the_model_does_not_use_are_left_out_and_told)
{
    pare_model model;
    small s = small_make();
    small_add(&s, "model.layers.0.attn_rot_embd", PARE_F32, SMALL, 0);
    small_add(&s, "model.embed_positions_ids", PARE_I64, SMALL, 0);
    small_add(&s, "scaled_fp8", PARE_F32, 0, 0);
    small_add(&s, "visual.proj.weight", PARE_F32, SMALL, SMALL);
    small_write(&s);
    ck_assert_msg(load_heard(&model) == PARE_OK, "%s", cx.what);
    ck_assert_ptr_nonnull(strstr(warned,
                                 "4 tensors are left out: a model of type llama with this "
                                 "config.json does not use them (model.embed_positions_ids, "
                                 "model.layers.0.attn_rot_embd, scaled_fp8, ...)"));
    write_shards(1);
    edit("config.json", "\"num_hidden_layers\": 2", "\"num_hidden_layers\": 1");
    ck_assert_int_eq(load_heard(&model), PARE_OK);
    ck_assert_ptr_nonnull(strstr(warned, "9 tensors are left out"));
}
END_TEST

START_TEST(parts_of_what_the_model_uses_are_not_left_out)
{
    static const char *const names[] = {
        "model.layers.0.self_attn.q_proj.bias", "model.layers.0.mlp.up_proj.weight_scale",
        "model.layers.0.mlp.up_proj.lora_A.weight", "model.norm.bias", "lm_head.bias"};
    char message[200];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        small s = small_make();
        small_add(&s, names[i], PARE_F32, SMALL, 0);
        small_write(&s);
        (void)snprintf(message, sizeof message, "tensor %s has no place in a model of type llama",
                       names[i]);
        refuses(PARE_EFORMAT, message);
    }
}
END_TEST

START_TEST(names_may_lack_the_prefix_of_the_family)
{
    pare_model model;
    char name[SMALL_TENSORS][80];
    small s = small_make();
    for (size_t i = 0; i < s.tensors; i++) {
        const char *const from = s.tensor[i].name;
        const bool has = strncmp(from, "model.", 6) == 0;
        (void)snprintf(name[i], sizeof name[i], "%s", from + (has ? 6 : 0));
        s.tensor[i].name = name[i];
    }
    small_write(&s);
    ck_assert_msg(load_heard(&model) == PARE_OK, "%s", cx.what);
    ck_assert_str_eq(model.embed.name, "model.embed_tokens");
    ck_assert_str_eq(model.block[0].linear[PARE_ROLE_Q].name, "model.layers.0.self_attn.q_proj");
    ck_assert_str_eq(warned, "");
}
END_TEST

START_TEST(biases_are_loaded_when_the_configuration_has_them)
{
    static const char *const names[] = {
        "model.layers.0.self_attn.q_proj.bias", "model.layers.0.self_attn.k_proj.bias",
        "model.layers.0.self_attn.v_proj.bias", "model.layers.0.self_attn.o_proj.bias"};
    pare_model m;
    small s = small_make();
    for (size_t i = 0; i < 4; i++)
        small_add(&s, names[i], PARE_F32, SMALL, 0);
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.layers.0.self_attn.k_proj.bias has no place in a model");
    edit("config.json", "{", "{\"attention_bias\": true, ");
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
    for (pare_role r = 0; r < PARE_COMMON_ROLES; r++)
        ck_assert_int_eq(m.block[0].linear[r].bias != NULL, r <= PARE_ROLE_O);
    ck_assert(m.block[0].linear[PARE_ROLE_O].bias[3] == 3);
}
END_TEST

START_TEST(values_and_types_of_tensors_are_checked)
{
    pare_model m;
    small s = small_make();
    small_add(&s, "model.layers.0.self_attn.rotary_emb.inv_freq", PARE_F32, 1, 0);
    small_write(&s);
    ck_assert_msg(load(dir.path, &m) == PARE_OK, "%s", cx.what);
    s.data[2] = NAN;
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.norm.weight: value 2 is NaN; \"nan: zero\" or "
                          "\"nan: clamp\" in a recipe of \"pare compress\" repairs such values");
    s.data[2] = -INFINITY;
    small_write(&s);
    refuses(PARE_EFORMAT, "tensor model.norm.weight: value 2 is infinite; \"nan: zero\" or");
    s = small_make();
    s.tensor[3].dtype = PARE_I32;
    small_write(&s);
    refuses(PARE_EFORMAT, "up_proj.weight has dtype I32, expected F32, F16 or BF16");
    s = small_make();
    s.tensor[9].dtype = PARE_U32;
    small_write(&s);
    refuses(PARE_EFORMAT, "model.norm.weight has dtype U32, expected F32, F16 or BF16");
    s = small_make();
    s.tensor[9].rank = 2;
    s.tensor[9].shape[1] = 1;
    small_write(&s);
    refuses(PARE_EFORMAT, "model.norm.weight has shape [4, 1], config.json asks for [4]");
    s = small_make();
    small_add(&s, "model.layers.0.self_attn.q_norm.weight", PARE_F32, SMALL, 0);
    small_write(&s);
    refuses(PARE_EFORMAT, "q_norm.weight has no place in a model of type llama");
}
END_TEST

/* bits, group, symmetric, bytes of a shard: one and several files. */
static const struct {
    unsigned bits;
    size_t group;
    bool symmetric;
    uint64_t shard_bytes;
} packs[] = {{4, 32, true, 1 << 20},
             {4, 0, false, 1 << 14},
             {8, 64, true, 1 << 13},
             {3, 32, false, 1 << 20},
             {2, 128, true, 1 << 12}};

START_TEST(an_artifact_gives_back_the_weights_that_went_in)
{
    pare_checkpoint ck;
    pare_model m;
    artifact_write(&cx, &dir, packs[_i].bits, packs[_i].group, packs[_i].symmetric,
                   packs[_i].shard_bytes);
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert(ck.packed);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(m.embed.bits == 0 && m.head.bits == 0);
    for (size_t i = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const pare_linear *const l = &m.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        ck_assert_uint_eq(l->bits, packs[_i].bits);
        const pare_packed_linear p =
            UNIFORM(l->name, l->n, l->k, packs[_i].bits, packs[_i].group, packs[_i].symmetric);
        float *const w = PARE_NEW(&arena, float, l->n * l->k);
        ck_assert_ptr_nonnull(w);
        pare_linear_to_f32(&cx, l, w);
        for (size_t j = 0; j < l->n * l->k; j++)
            ck_assert(w[j] == artifact_weight(&p, i, j / l->k, j % l->k));
    }
    pare_checkpoint_close(&ck);
}
END_TEST

/* The shards make planes begin anywhere: views of unaligned ones are copies. */
START_TEST(an_artifact_of_every_encoding_gives_back_what_its_codes_stand_for)
{
    pare_checkpoint ck;
    pare_model m;
    artifact_write_encoded(&cx, &dir, _i ? 8192 : 1 << 20);
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    for (size_t i = 0, seed = 0; i < 2 * PARE_COMMON_ROLES; i++) {
        const pare_linear *const l = &m.block[i / PARE_COMMON_ROLES].linear[i % PARE_COMMON_ROLES];
        if (i == ARTIFACT_DENSE) {
            ck_assert_uint_eq(l->bits, 0);
            continue;
        }
        pare_packed_linear p = artifact_kind(i);
        pare_codes c;
        p.n = l->n;
        p.k = l->k;
        ck_assert(l->encoding == p.encoding && l->rotated == p.rotated);
        ck_assert(encoded_codes(&arena, &p, seed++, &c));
        float *const w = PARE_NEW(&arena, float, l->n * l->k);
        ck_assert_ptr_nonnull(w);
        pare_linear_to_f32(&cx, l, w);
        for (size_t r = 0; r < l->n; r++)
            for (size_t j = 0; j < l->k; j++)
                ck_assert_msg(w[r * l->k + j] == encoded_weight(&p, &c, r, j),
                              "linear %zu [%zu, %zu]: %g, not %g", i, r, j, (double)w[r * l->k + j],
                              (double)encoded_weight(&p, &c, r, j));
        ck_assert_int_eq(l->bias != NULL, p.bias);
        for (size_t r = 0; p.bias && r < l->n; r++)
            ck_assert(l->bias[r] == c.bias[r]);
    }
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(vectors_that_folding_added_are_loaded)
{
    pare_checkpoint ck;
    pare_model m;
    artifact_write_encoded(&cx, &dir, 1 << 20);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &m) == PARE_OK, "%s", cx.what);
    ck_assert(m.block[0].norm_bias[1] == NULL && m.block[1].norm_bias[0] == NULL);
    const float *const bias[] = {m.block[0].norm_bias[0], m.block[1].norm_bias[1],
                                 m.block[1].linear[PARE_ROLE_V].bias};
    for (size_t t = 0; t < 3; t++)
        for (size_t i = 0; i < (t < 2 ? 48 : m.block[1].linear[PARE_ROLE_V].n); i++)
            ck_assert(bias[t][i] == artifact_bias(t, i));
    pare_checkpoint_close(&ck);
}
END_TEST

START_TEST(only_inputs_of_o_and_down_are_rotated)
{
    artifact_write_encoded(&cx, &dir, 1 << 20);
    edit("packed.index.json", "\"encoding\": \"nf4\",",
         "\"encoding\": \"nf4\", \"rotated\": true,");
    refuses(PARE_EFORMAT, "k_proj: only inputs of o and down are rotated");
}
END_TEST

static const struct {
    const char *from, *to;
    pare_status status;
    const char *message;
} indexes[] = {
    {"\"bits\": 4", "\"bits\": 5", PARE_EFORMAT, "no storage for 5 bits in groups"},
    {"\"bits\": 4", "\"bits\": 8", PARE_EFORMAT, ".codes has shape ["},
    {"\"group\": 32", "\"group\": 33", PARE_EFORMAT,
     "group is not 0 (the row), 16 or a multiple of 32"},
    {"\"group\": 32", "\"group\": -1", PARE_EFORMAT, "group is not 0"},
    {"\"group\": 32", "\"group\": 64", PARE_EFORMAT, ".scales has shape ["},
    {"\"symmetric\": true", "\"symmetric\": 1", PARE_EFORMAT, "symmetric is not true or false"},
    {"\"symmetric\": true", "\"symmetric\": false", PARE_EFORMAT, ".zeros is missing"},
    {"\"version\": 1", "\"version\": 2", PARE_ENOTSUP, "metadata.version is 2, and"},
    {"\"R8K32\"", "\"R4K64\"", PARE_ENOTSUP, "metadata.layout is \"R4K64\""},
    {"\"format\": \"pare\"", "\"format\": \"pear\"", PARE_EFORMAT,
     "metadata does not describe a model of pare"},
    {"\"total_size\": ", "\"total_size\": 1", PARE_EFORMAT, "metadata.total_size is 1"},
    {"\"linears\"", "\"lines\"", PARE_EFORMAT, "linears is missing or not an object"},
    {"\"linears\": {", "\"linears\": {\"model.layers.9.mlp.up_proj\": 1,", PARE_EFORMAT,
     "the index describes 15 packed linears, the model has 14 of them"},
};

START_TEST(a_wrong_index_of_an_artifact_is_refused)
{
    artifact_write(&cx, &dir, 4, 32, true, 1 << 20);
    edit("packed.index.json", indexes[_i].from, indexes[_i].to);
    refuses(indexes[_i].status, indexes[_i].message);
}
END_TEST

START_TEST(one_file_of_an_artifact_is_no_model)
{
    pare_model model;
    artifact_write(&cx, &dir, 4, 32, true, 1 << 20);
    char path[384];
    (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "packed-00001-of-00001.safetensors"));
    ck_assert_int_eq(load(path, &model), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "one file of a packed model; give its directory"));
    folder_put_text(&dir, "packed-00002-of-00002.safetensors", "old");
    refuses(PARE_EFORMAT, "packed-00002-of-00002.safetensors lies beside it");
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    if (_i)
        artifact_write(&cx, &dir, 4, 32, false, 1 << 14);
    else
        write_shards(2);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_checkpoint ck = {0};
        pare_model m;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&c, &a, 0);
        if (s == PARE_OK)
            s = pare_checkpoint_open(&c, &a, dir.path, &ck);
        if (s == PARE_OK)
            s = pare_model_load(&c, &a, &ck, &m);
        pare_checkpoint_close(&ck);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_gt(n, 5);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(c.what, "");
        ck_assert_int_lt(n, 1000);
    }
}
END_TEST

static const char *const artifact_messages[] = {
    "packed.index.json:1:",
    "metadata does not describe a model of pare",
    "metadata.version is missing or not a whole number",
    "metadata.version is 2, and this program reads 1; a newer pare is needed",
    "metadata.layout is \"R4K64\"",
    "linears is missing or not an object",
    "q_proj: bits is not a whole number of 1 to 16",
    "q_proj: no storage for 5 bits in groups of 32",
    "q_proj: group is not 0 (the row), 16 or a multiple of 32",
    "q_proj: symmetric is not true or false",
    "q_proj: shape is not two sizes from 1 to 2^30",
    "in the index, config.json asks for [32, 32]",
    "tensor model.layers.0.self_attn.q_proj.codes is missing",
    "tensor model.layers.0.self_attn.q_proj.scales is missing",
    "tensor model.embed_tokens.codes is missing",
    "linear model.embed_tokens: an embedding has codes alone",
    "tensor model.layers.0.self_attn.q_proj.zeros is missing",
    "tensor model.norm.weight is missing",
    "tensor model.layers.0.self_attn.q_proj.weight is missing",
    "q_proj.codes has dtype I8, expected U8",
    "q_proj.scales has dtype BF16, expected F16",
    "q_proj.codes has shape [4, 1, 128], config.json asks for [4, 1, 256]",
    "config.json asks for [4, 1, 128]",
    "q_proj.scales has shape [4, 2, 8], config.json asks for [4, 1, 8]",
    "lm_head.weight has dtype U8, expected F32, F16 or BF16",
    "tensor model.norm.weight: value 0 is NaN",
    "config.json does not say tie_word_embeddings: true",
    "has no place in a model of type llama",
    "the index describes 5 packed linears, the model has 4 of them",
    "q_proj: the encoding is not known",
    "q_proj: the mode of activations is not known",
    "q_proj: bits of activations are not 4 or 8",
    "q_proj: activation has a member that is not known",
    "q_proj: outliers is not a number above 0",
    "q_proj: the outlier_type is not f16 or int8",
    "q_proj: sparse is not a number above 0",
    "q_proj: rotated is not true or false",
    "q_proj: bias is not true or false",
    "q_proj: \"permutation\" is not known",
    "q_proj: no storage for q4_k with 4 bits in groups of 256",
    "q_proj: no storage for q6_k with 4 bits in groups of 256",
    "q_proj: no storage for 6 bits in groups of 0",
    "q_proj: no storage for mxfp4 with 4 bits in groups of 64",
    "q_proj: no storage for nf4 with 3 bits in groups of 32",
    "q_proj: no storage for codebook with 3 bits in groups of 32",
    "q_proj: ternary has no zero points",
    "q_proj: nf4 has no integer product: its activations stay float",
    "q_proj: input scale 0; expected a positive number",
    "nan; expected a positive number",
    "q_proj: 33 outlier columns of 32",
    "q_proj: 1025 sparse weights of 32 x 32",
    "q_proj.scales: row 0: 2^-127 is outside 2^-24 .. 2^15",
    "q_proj.scales: row 0: 2^128 is outside 2^-24 .. 2^15",
    "q_proj.scale_steps: value 0 is NaN",
    "q_proj.salient: column 0: 255",
    "q_proj.outlier_columns: 0 is not below 32 and above those before it",
    "q_proj.outlier_columns: 4294967295 is not below 32",
    "q_proj.sparse_starts: row 0: 4294967295 does not ascend from 0 to 3",
    "q_proj.sparse_starts: ends at 0 of 3 weights",
    "q_proj: only inputs of o and down are rotated",
    "q_proj.scale_steps is missing",
    "q_proj.scale_offset is missing",
    "q_proj.scale_steps has shape [2], config.json asks for [1]",
    "q_proj.scales has dtype F16, expected U8",
    "q_proj.book is missing",
    "q_proj.book has shape [32, 16], config.json asks for [32, 8]",
    "q_proj.book has shape [4, 1, 32], config.json asks for [4, 1, 8, 4]",
    "q_proj.salient is missing",
    "q_proj.input_scale is missing",
    "q_proj.outlier_columns is missing",
    "q_proj.outlier_weights is missing",
    "q_proj.outlier_codes is missing",
    "q_proj.outlier_scales is missing",
    "q_proj.sparse_values is missing",
    "q_proj.sparse_starts has shape [32], config.json asks for [33]",
    "q_proj.bias is missing",
    "q_proj.bias has dtype F16, expected F32",
    "q_proj: the sparsity is not none, 2:4 or bitmask",
    "q_proj: kept is not a number above 0",
    "q_proj: no storage for uniform with 3 bits and sparsity 2:4",
    "q_proj: sparsity 2:4 keeps no weights apart",
    "q_proj: 1025 values kept of 32 x 32",
    "q_proj: 3 values kept of 32 x 32",
    "q_proj.indices: row 0: the two of columns 0 .. 3 do not ascend",
    "q_proj.indices is missing",
    "q_proj.indices has shape [4, 1, 32], config.json asks for [4, 1, 64]",
    "q_proj.values is missing",
    "q_proj.values has shape [32, 16], config.json asks for [32, 32]",
    "q_proj.values has shape [6], config.json asks for [7]",
    "q_proj.mask is missing",
    "q_proj.mask: 1024 bits are set, there are 1023 values",
    "down_proj.mask: row 0: a bit behind column 43 is set",
    "input_layernorm.bias: value 0 is NaN",
    "input_layernorm.bias has shape [31], config.json asks for [32]",
};

static pare_status parse_artifact(pare_ctx *c, const void *bytes, size_t len)
{
    pare_arena a;
    pare_status s = pare_arena_init(c, &a, 0);
    if (s == PARE_OK)
        s = artifact_input_run(c, &a, bytes, len);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message_of_an_artifact)
{
    corpus_reaches("artifact", parse_artifact, artifact_messages,
                   sizeof artifact_messages / sizeof *artifact_messages);
}
END_TEST

START_TEST(shared_models_load)
{
    static const char *const names[] = {"models/hedge", "models/stories260k"};
    for (size_t i = 0; i < 2; i++) {
        pare_model m;
        const char *const path = unit_shared(names[i]);
        if (!path)
            continue;
        ck_assert_msg(load(path, &m) == PARE_OK, "%s", cx.what);
        ck_assert_uint_eq(m.config.blocks, i == 0 ? 6 : 5);
        ck_assert_uint_eq(m.config.kv_heads, 4);
        ck_assert(m.config.tied);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("model load");
    TCase *const t = tcase_create("model load");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_model_binds_every_tensor);
    tcase_add_test(t, unaligned_weights_are_copied);
    tcase_add_loop_test(t, weights_must_be_those_of_the_configuration, 0,
                        sizeof configs / sizeof *configs);
    tcase_add_test(t, a_head_is_there_or_tied);
    tcase_add_test(t, a_head_of_its_own_counts_whatever_the_configuration_says);
    tcase_add_test(t, a_tied_head_may_be_in_the_file_once_more);
    tcase_add_test(t, tensors_that_the_model_does_not_use_are_left_out_and_told);
    tcase_add_test(t, parts_of_what_the_model_uses_are_not_left_out);
    tcase_add_test(t, names_may_lack_the_prefix_of_the_family);
    tcase_add_test(t, biases_are_loaded_when_the_configuration_has_them);
    tcase_add_test(t, values_and_types_of_tensors_are_checked);
    tcase_add_loop_test(t, an_artifact_gives_back_the_weights_that_went_in, 0,
                        sizeof packs / sizeof *packs);
    tcase_add_loop_test(t, an_artifact_of_every_encoding_gives_back_what_its_codes_stand_for, 0, 2);
    tcase_add_test(t, vectors_that_folding_added_are_loaded);
    tcase_add_test(t, only_inputs_of_o_and_down_are_rotated);
    tcase_add_loop_test(t, a_wrong_index_of_an_artifact_is_refused, 0,
                        sizeof indexes / sizeof *indexes);
    tcase_add_test(t, one_file_of_an_artifact_is_no_model);
    tcase_add_loop_test(t, every_failed_allocation_is_reported, 0, 2);
    tcase_add_test(t, the_corpus_reaches_every_message_of_an_artifact);
    tcase_add_test(t, shared_models_load);
    suite_add_tcase(s, t);
    return unit_main(s);
}
