#include <string.h>

#include "formats/tokenizer.h"
#include "tests/fuzz/gguf_input.h"
#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static pare_checkpoint ck;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    ck = (pare_checkpoint){0};
}

static void end(void)
{
    pare_checkpoint_close(&ck);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static const char *corpus(const char *name)
{
    static char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", PARE_SOURCE_DIR, name);
    return path;
}

static void open_corpus(const char *name)
{
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, corpus(name), &ck) == PARE_OK, "%s", cx.what);
}

static const pare_tensor *find(const char *name, pare_dtype dtype, uint64_t rows, uint64_t columns)
{
    const pare_tensor *const t = pare_checkpoint_find(&ck, name);
    ck_assert_msg(t != NULL, "%s", name);
    ck_assert_int_eq(t->dtype, dtype);
    ck_assert_uint_eq(t->rank, columns ? 2 : 1);
    ck_assert(t->shape[0] == rows && (!columns || t->shape[1] == columns));
    return t;
}

/* Element i of a tensor of floats as the corpus has it: a function of the name's length. */
static float written(const char *gguf_name, size_t i)
{
    return (float)((int)((i * 37 + strlen(gguf_name)) % 17) - 8) / 8;
}

static float at(const pare_tensor *t, size_t i)
{
    return ((const float *)t->data)[i];
}

START_TEST(rows_of_q_and_k_go_back_to_halves_of_heads)
{
    open_corpus("model_llama");
    const pare_tensor *const q = find("model.layers.0.self_attn.q_proj.weight", PARE_F32, 32, 32);
    const pare_tensor *const k = find("model.layers.0.self_attn.k_proj.weight", PARE_F32, 16, 32);
    for (size_t h = 0; h < 2; h++) {
        for (size_t i = 0; i < 8; i++) {
            for (size_t p = 0; p < 2; p++) {
                const size_t original = h * 16 + p * 8 + i, stored = h * 16 + 2 * i + p;
                for (size_t c = 0; c < 32; c++) {
                    ck_assert(at(q, original * 32 + c) ==
                              written("blk.0.attn_q.weight", stored * 32 + c));
                    if (h == 0)
                        ck_assert(at(k, original * 32 + c) ==
                                  written("blk.0.attn_k.weight", stored * 32 + c));
                }
            }
        }
    }
    const pare_tensor *const norm = find("model.norm.weight", PARE_F32, 32, 0);
    ck_assert_ptr_eq(norm->data, ck.file[0].data + ((const uint8_t *)norm->data - ck.file[0].data));
    ck_assert((const uint8_t *)norm->data < ck.file[0].data + ck.file[0].bytes &&
              (const uint8_t *)norm->data > ck.file[0].data); /* a view */
}
END_TEST

START_TEST(blocks_are_decoded_and_their_types_told)
{
    char text[64];
    open_corpus("model_llama");
    const pare_tensor *const down = find("model.layers.0.mlp.down_proj.weight", PARE_F32, 32, 32);
    const pare_gguf_tensor *stored;
    pare_gguf g;
    float row[32];
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", ck.file[0].data, ck.file[0].bytes, &g),
                     PARE_OK);
    stored = pare_gguf_tensor_find(&g, "blk.0.ffn_down.weight");
    for (size_t r = 0; r < 32; r++) {
        pare_ggml_decode(stored->type, stored->data + r * stored->type->bytes, 1, row);
        ck_assert_mem_eq((const float *)down->data + r * 32, row, sizeof row);
    }
    ck_assert(pare_checkpoint_quantized(&ck, text, sizeof text));
    ck_assert_str_eq(text, "1 x Q5_1, 1 x Q4_1, 1 x Q5_0, 1 x Q4_0, 1 x Q8_0");
    ck_assert(pare_checkpoint_quantized(&ck, text, 12)); /* cut */
    ck_assert_str_eq(text, "1 x Q5_1, 1");
    ck_assert_str_eq(ck.stored[down - ck.tensor].type, "Q5_1");
    ck_assert_uint_eq(ck.stored[down - ck.tensor].bytes, 32 * 24);
}
END_TEST

START_TEST(a_listing_converts_nothing)
{
    char text[64];
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, corpus("type_nvfp4"), &ck), PARE_OK);
    const pare_tensor *const head = pare_checkpoint_find(&ck, "lm_head.weight");
    ck_assert_str_eq(ck.stored[head - ck.tensor].type, "NVFP4");
    ck_assert(head->dtype == PARE_F32 && !head->data && head->shape[1] == 256);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "model.layers.0.mlp.down_proj.weight")->data);
    ck_assert(!ck.scratch.open);
    pare_checkpoint_close(&ck);
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, corpus("model_gpt2"), &ck), PARE_OK);
    (void)find("transformer.h.0.attn.c_attn.k.weight", PARE_F32, 32, 32);
    pare_checkpoint_close(&ck);
    open_corpus("model_phi");
    ck_assert(!pare_checkpoint_quantized(&ck, text, sizeof text));
    ck_assert_str_eq(text, "");
}
END_TEST

/* Blocks times the number beside them: 2^-9, which artifacts have, for the head, 0.3 for down, one
 * for each expert; without one 1. Inputs have none. */
START_TEST(blocks_of_nvfp4_have_a_number_beside_them)
{
    static const struct {
        const char *file, *tensor, *stored;
        uint64_t first; /* block of 64 */
        float factor;
    } rows[] = {
        {"type_nvfp4", "lm_head.weight", "output.weight", 0, 1},
        {"model_nvfp4", "lm_head.weight", "output.weight", 0, 0x1p-9F},
        {"model_nvfp4", "model.layers.0.mlp.down_proj.weight", "blk.0.ffn_down.weight", 0, 0.3F},
        {"model_nvfp4_experts", "model.layers.0.block_sparse_moe.experts.0.w3.weight",
         "blk.0.ffn_up_exps.weight", 0, 0x1p-9F},
        {"model_nvfp4_experts", "model.layers.0.block_sparse_moe.experts.1.w3.weight",
         "blk.0.ffn_up_exps.weight", 8, 0.7F},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pare_gguf g;
        open_corpus(rows[i].file);
        const pare_tensor *const w = pare_checkpoint_find(&ck, rows[i].tensor);
        ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", ck.file[0].data, ck.file[0].bytes, &g),
                         PARE_OK);
        const pare_gguf_tensor *const t = pare_gguf_tensor_find(&g, rows[i].stored);
        const float *const value = w->data;
        for (uint64_t j = 0; j < w->shape[0] * w->shape[1]; j++) {
            float block[64];
            pare_ggml_decode(t->type, t->data + (rows[i].first + j / 64) * t->type->bytes, 1,
                             block);
            ck_assert(value[j] == block[j % 64] * rows[i].factor);
        }
        for (size_t j = 0; j < ck.tensors; j++)
            ck_assert_ptr_null(strstr(ck.tensor[j].name, "scale"));
        pare_checkpoint_close(&ck);
        ck_assert_int_eq(pare_checkpoint_open_to_run(&cx, &arena, corpus(rows[i].file), &ck),
                         PARE_OK);
        const pare_stored *const s =
            &ck.stored[pare_checkpoint_find(&ck, rows[i].tensor) - ck.tensor];
        ck_assert((s->packed != NULL) == (frexpf(rows[i].factor, &(int){0}) == 0.5F));
        pare_checkpoint_close(&ck);
    }
    open_corpus("model_nvfp4");
}
END_TEST

/* F32 and F16, whose rows lie in pairs; blocks; 1, which changes nothing. */
START_TEST(a_number_beside_any_matrix_multiplies_it)
{
    static const struct {
        const char *tensor;
        float factor;
    } rows[] = {{"model.layers.0.self_attn.q_proj.weight", 0.3F},
                {"model.layers.0.self_attn.k_proj.weight", 3},
                {"model.layers.0.self_attn.v_proj.weight", 0.7F},
                {"model.layers.0.self_attn.o_proj.weight", 1}};
    static float was[32 * 32];
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        open_corpus("model_llama");
        const pare_tensor *w = pare_checkpoint_find(&ck, rows[i].tensor);
        const size_t count = (size_t)(w->bytes / sizeof *was);
        memcpy(was, w->data, (size_t)w->bytes);
        pare_checkpoint_close(&ck);
        open_corpus("model_scaled");
        w = find(rows[i].tensor, PARE_F32, count / 32, 32);
        for (size_t j = 0; j < count; j++)
            ck_assert(at(w, j) == was[j] * rows[i].factor);
        pare_checkpoint_close(&ck);
        ck_assert_int_eq(pare_checkpoint_open_to_run(&cx, &arena, corpus("model_scaled"), &ck),
                         PARE_OK);
        w = pare_checkpoint_find(&ck, rows[i].tensor);
        ck_assert((ck.stored[w - ck.tensor].packed != NULL) == (rows[i].factor == 1));
        ck_assert_uint_eq(ck.tensors, 11);
        pare_checkpoint_close(&ck);
    }
}
END_TEST

START_TEST(a_listing_counts_what_is_decoded)
{
    open_corpus("model_llama");
    const uint64_t reserved = ck.scratch.reserved;
    ck_assert_uint_gt(reserved, 0);
    pare_checkpoint_close(&ck);
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, corpus("model_llama"), &ck), PARE_OK);
    ck_assert_uint_eq(ck.scratch.counted, reserved);
}
END_TEST

/* Rows of q, k and v lie one after the other: each is a view of its own. */
START_TEST(rows_of_q_k_and_v_are_told_apart)
{
    static const char *const model[] = {"model_gpt2", "model_neox"},
                             *const base[] = {"transformer.h.0.attn.c_attn.",
                                              "gpt_neox.layers.0.attention.query_key_value."},
                             *const role[] = {"q", "k", "v"};
    char name[128];
    open_corpus(model[_i]);
    for (size_t r = 0; r < 3; r++) {
        (void)snprintf(name, sizeof name, "%s%s.weight", base[_i], role[r]);
        const pare_tensor *const w = find(name, PARE_F32, 32, 32);
        for (size_t i = 0; i < 32 * 32; i++)
            ck_assert(at(w, i) == written("blk.0.attn_qkv.weight", r * 32 * 32 + i));
        (void)snprintf(name, sizeof name, "%s%s.bias", base[_i], role[r]);
        const pare_tensor *const b = find(name, PARE_F32, 32, 0);
        for (size_t i = 0; i < 32; i++)
            ck_assert(at(b, i) == written("blk.0.attn_qkv.bias", r * 32 + i));
    }
}
END_TEST

START_TEST(rows_of_gate_and_up_are_told_apart)
{
    open_corpus("model_phi3");
    const pare_tensor *const gate =
        find("model.layers.0.mlp.gate_up_proj.gate.weight", PARE_F32, 32, 32);
    const pare_tensor *const up =
        find("model.layers.0.mlp.gate_up_proj.up.weight", PARE_F32, 32, 32);
    pare_gguf g;
    float row[32];
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", ck.file[0].data, ck.file[0].bytes, &g),
                     PARE_OK);
    const pare_gguf_tensor *const stored = pare_gguf_tensor_find(&g, "blk.0.ffn_up.weight");
    for (size_t r = 0; r < 64; r++) {
        pare_ggml_decode(stored->type, stored->data + r * stored->type->bytes, 1, row);
        ck_assert_mem_eq((const float *)(r < 32 ? gate : up)->data + r % 32 * 32, row, sizeof row);
    }
    (void)find("model.layers.0.self_attn.qkv_proj.q.weight", PARE_F32, 32, 32);
    (void)find("model.layers.0.self_attn.qkv_proj.v.weight", PARE_F32, 16, 32);
}
END_TEST

START_TEST(norms_of_gemma_lose_the_one_that_was_added)
{
    open_corpus("model_gemma");
    const pare_tensor *const t = find("model.layers.0.input_layernorm.weight", PARE_F32, 32, 0);
    for (size_t i = 0; i < 32; i++)
        ck_assert(at(t, i) == written("blk.0.attn_norm.weight", i) - 1);
    (void)find("model.norm.weight", PARE_F32, 32, 0); /* F16 in the file */
}
END_TEST

static double number(const char *key)
{
    return pare_json_number(pare_json_get(ck.config, key), -1);
}

static const char *word(const pare_json *v, const char *key)
{
    return pare_json_text(pare_json_get(v, key), NULL);
}

START_TEST(metadata_become_words_of_config_json)
{
    open_corpus("model_llama");
    ck_assert_str_eq(word(ck.config, "model_type"), "llama");
    ck_assert(number("rms_norm_eps") == 1e-5); /* not what F32 makes of it */
    ck_assert(number("hidden_size") == 32 && number("vocab_size") == 8);
    ck_assert(number("num_key_value_heads") == 1 && number("bos_token_id") == 1);
    const pare_json *const ends = pare_json_get(ck.config, "eos_token_id");
    ck_assert_uint_eq(pare_json_count(ends), 2);
    ck_assert_int_eq(pare_json_integer(pare_json_at(ends, 1), -1), 3);
    ck_assert(pare_json_bool(pare_json_get(ck.config, "tie_word_embeddings"), false));
    pare_checkpoint_close(&ck);
    open_corpus("model_llama3");
    const pare_json *const scaling = pare_json_get(ck.config, "rope_scaling");
    ck_assert_str_eq(word(scaling, "rope_type"), "llama3");
    ck_assert(pare_json_number(pare_json_get(scaling, "factor"), -1) == 8);
    ck_assert_int_eq(
        pare_json_integer(pare_json_get(scaling, "original_max_position_embeddings"), -1), 8192);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "rope_freqs.weight"));
    pare_checkpoint_close(&ck);
    open_corpus("model_attn_factor_one"); /* it changes nothing */
    ck_assert_ptr_null(pare_json_get(ck.config, "rope_scaling"));
    pare_checkpoint_close(&ck);
    open_corpus("model_typed");
    pare_checkpoint_close(&ck);
    open_corpus("model_mistral");
    ck_assert_str_eq(word(ck.config, "model_type"), "mistral");
    ck_assert(number("sliding_window") == 32);
    ck_assert_str_eq(word(pare_json_get(ck.config, "rope_scaling"), "rope_type"), "linear");
    pare_checkpoint_close(&ck);
    open_corpus("model_no_window");
    ck_assert_str_eq(word(ck.config, "model_type"), "llama");
    ck_assert_int_eq(pare_json_type_of(pare_json_get(ck.config, "sliding_window")), PARE_JSON_NULL);
    pare_checkpoint_close(&ck);
    open_corpus("model_neox");
    ck_assert(number("rotary_pct") == 0.25);
    pare_checkpoint_close(&ck);
    open_corpus("model_gemma");
    ck_assert(number("query_pre_attn_scalar") == 16);
}
END_TEST

/* Right values: those of llama.cpp, where every sixth block sees all unless the file says
 * otherwise, and blocks with a window turn by 10000, unscaled. */
static const struct {
    const char *model;
    double local;
    size_t window, period; /* 0: no such word, each block in layer_types */
} local[] = {
    {"model_gemma3", 10000, 512, 6},
    {"model_gemma3_list", 20000, 512, 0},
    {"model_gemma3_all", 10000, 512, 0},
    {"model_gemma3_none", 10000, 0, 1},
};

START_TEST(blocks_with_a_window_turn_by_their_own_base)
{
    pare_config c;
    open_corpus(local[_i].model);
    ck_assert_msg(pare_config_parse(&cx, "config", ck.config, &c) == PARE_OK, "%s", cx.what);
    ck_assert(c.rope.theta == 1e6 && c.rope.stretch == (_i == 0 ? 8 : 0));
    ck_assert(c.rope_local.theta == local[_i].local && c.rope_local.stretch == 0);
    ck_assert(number("sliding_window_pattern") ==
              (local[_i].period ? (double)local[_i].period : -1));
    ck_assert_uint_eq(c.window, local[_i].window);
    ck_assert_uint_eq(pare_config_window(&c, 0), local[_i].window);
    ck_assert(c.attention_scale == 0.25); /* one over the root of a head of 16 */
}
END_TEST

/* Right values: those of llama.cpp, where the type of scaling is linear when a file has none, and
 * rope.scale_linear is the old name of its factor. */
static const struct {
    const char *model;
    double stretch; /* 0: none */
} stretched[] = {
    {"model_llama", 0},       {"model_factor_alone", 4},       {"model_scale_linear", 4},
    {"model_factor_none", 0}, {"model_typed_scale_linear", 4}, {"model_factor_zero", 0},
    {"model_mistral", 2},     {"model_idle_settings", 0},
};

START_TEST(positions_are_stretched_by_old_and_new_names)
{
    pare_config c;
    open_corpus(stretched[_i].model);
    ck_assert_msg(pare_config_parse(&cx, "config", ck.config, &c) == PARE_OK, "%s", cx.what);
    ck_assert(c.rope.stretch == stretched[_i].stretch);
    ck_assert(c.rope.kind == PARE_ROPE_LINEAR);
}
END_TEST

/* Right values: those of llama.cpp, which multiplies cosines and sines of YaRN with
 * 1 + ln(factor) / 10 and with the key attn_factor. */
static const struct {
    const char *model;
    pare_rope_kind kind;
    double fast, attention, near; /* near: the frequency of the last pair in short sequences */
} scaled[] = {
    {"model_yarn", PARE_ROPE_YARN, 32, 1.138629436111989, 3.1622776601683795e-4 / 4},
    {"model_yarn_all", PARE_ROPE_YARN, 32, 1.7079441541679836, 3.1622776601683795e-4 / 4},
    {"model_longrope", PARE_ROPE_LONGROPE, 0, 1.25, 3.1622776601683795e-4 / 1.7},
    {"model_longrope_zero", PARE_ROPE_LONGROPE, 0, 1, 3.1622776601683795e-4 / 1.7},
    {"model_longrope_phi3", PARE_ROPE_LONGROPE, 0, 1, 3.1622776601683795e-4 / 1.7},
};

START_TEST(positions_of_long_contexts_are_those_of_the_keys_and_tensors)
{
    pare_config c;
    const bool yarn = scaled[_i].kind == PARE_ROPE_YARN;
    open_corpus(scaled[_i].model);
    ck_assert_msg(pare_config_parse(&cx, "config", ck.config, &c) == PARE_OK, "%s", cx.what);
    const double far = yarn ? scaled[_i].near : 3.1622776601683795e-4 / 8;
    ck_assert(c.rope.kind == scaled[_i].kind && c.rope.original_context == 16);
    ck_assert(!yarn || (c.rope.factor == 4 && c.rope.beta_fast == scaled[_i].fast));
    ck_assert(fabs(c.rope.attention - scaled[_i].attention) < 1e-7);
    ck_assert(fabs(pare_rope_frequency(&c.rope, 7, 8, 16) - scaled[_i].near) < 1e-10);
    ck_assert(fabs(pare_rope_frequency(&c.rope, 7, 8, 17) - far) < 1e-10);
    ck_assert_ptr_null(pare_checkpoint_find(&ck, "rope_factors_long.weight"));
    ck_assert(_i != 2 || number("original_max_position_embeddings") == 16);
}
END_TEST

static void encodes(const char *model, const char *text, const int32_t *want, size_t wanted)
{
    pare_tokenizer *t = NULL;
    int32_t *ids;
    size_t count, len;
    char *back;
    open_corpus(model);
    ck_assert_msg(pare_checkpoint_tokenizer(&ck, &t) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, text, strlen(text), &ids, &count),
                     PARE_OK);
    ck_assert_uint_eq(count, wanted);
    ck_assert_mem_eq(ids, want, wanted * sizeof *want);
    ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, ids, count, &back, &len), PARE_OK);
    ck_assert_str_eq(back, text);
    pare_tokenizer_free(t);
}

START_TEST(tokenizers_come_from_the_metadata)
{
    static const int32_t sentence[] = {6, 7, 4, 3}, bytes[] = {2, 7, 1};
    pare_tokenizer *t = NULL;
    bool has = true;
    char *text;
    size_t len;
    encodes("model_llama", " ab A", sentence, 4);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_OK);
    ck_assert(pare_tokenizer_around(t)->fronts == 1 && pare_tokenizer_bos(t) == 1 &&
              pare_tokenizer_eos(t) == 2);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&ck);
    encodes("model_gpt2", "ab<x>b", bytes, 3);
    pare_checkpoint_close(&ck);
    open_corpus("tok_none");
    ck_assert_int_eq(pare_checkpoint_has_tokenizer(&ck, &has), PARE_OK);
    ck_assert(!has);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cx.what, "tok_none: has no tokenizer"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_checkpoint_companion(&ck, &arena, "merges.txt", &text, &len), PARE_OK);
    ck_assert_ptr_null(text);
    pare_checkpoint_close(&ck);
    open_corpus("tok_pre");
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_ENOTSUP);
}
END_TEST

/* The ids of "ab" by the tokenizer of a checkpoint. */
static size_t ids_of_ab(int32_t **ids)
{
    pare_tokenizer *t = NULL;
    size_t count;
    bool has = false;
    uint64_t bytes = 0;
    ck_assert_int_eq(pare_checkpoint_has_tokenizer(&ck, &has), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_tokenizer_bytes(&ck, &bytes), PARE_OK);
    ck_assert(has && bytes > 0);
    ck_assert_msg(pare_checkpoint_tokenizer(&ck, &t) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(pare_tokenizer_encode(&cx, t, &arena, "ab", 2, ids, &count), PARE_OK);
    pare_tokenizer_free(t);
    return count;
}

/* A model "a" 5, "b" 6. */
static const char beside[] =
    "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":5,\"b\":6},\"merges\":[]}}";

START_TEST(a_tokenizer_beside_stands_for_one_that_is_not_supported)
{
    folder dir, other;
    size_t len;
    int32_t *ids;
    pare_tokenizer *t = NULL;
    char *bytes = folder_get(corpus("tok_pre"), &len);
    folder_make(&dir);
    folder_put(&dir, "model.gguf", bytes, len);
    free(bytes);
    ck_assert_int_eq(pare_checkpoint_tokenizer_of(&cx, folder_file(&dir, "model.gguf"), NULL, &t),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "or name it with --tokenizer"));
    pare_ctx_clear(&cx);
    folder_put_text(&dir, "tokenizer.json", beside);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_uint_eq(ids_of_ab(&ids), 2);
    ck_assert(ids[0] == 5 && ids[1] == 6);
    pare_checkpoint_close(&ck);
    /* of a kind that has no settings here either */
    bytes = folder_get(corpus("tok_bert"), &len);
    folder_put(&dir, "model.gguf", bytes, len);
    free(bytes);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_uint_eq(ids_of_ab(&ids), 2);
    ck_assert(ids[0] == 5 && ids[1] == 6);
    pare_checkpoint_close(&ck);
    /* a supported one is that of the file */
    bytes = folder_get(corpus("model_gpt2"), &len);
    folder_put(&dir, "model.gguf", bytes, len);
    free(bytes);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_uint_eq(ids_of_ab(&ids), 1);
    /* one that the user names goes before it: a file, or the folder of one */
    folder_make(&other);
    folder_put_text(&other, "any.json", beside);
    char *const named = pare_arena_text(&arena, other.file, strlen(other.file));
    ck.tokenizer = named;
    ck_assert_uint_eq(ids_of_ab(&ids), 2);
    folder_put_text(&other, "tokenizer.json", beside);
    ck.tokenizer = other.path;
    ck_assert_uint_eq(ids_of_ab(&ids), 2);
    ck.tokenizer = "/nowhere/tokenizer.json";
    ck_assert_int_ne(pare_checkpoint_tokenizer(&ck, &t), PARE_OK);
    ck_assert_ptr_nonnull(strstr(cx.what, "/nowhere/tokenizer.json"));
    folder_remove(&other);
    folder_remove(&dir);
}
END_TEST

START_TEST(a_directory_may_hold_one_file_of_any_name)
{
    folder dir;
    size_t len;
    char *const bytes = folder_get(corpus("model_llama"), &len);
    folder_make(&dir);
    folder_put(&dir, "any name.gguf", bytes, len);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_uint_eq(ck.tensors, 11);
    pare_checkpoint_close(&ck);
    folder_put_text(&dir, "config.json", "{\"model_type\": \"llama\"}"); /* the metadata win */
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert(number("hidden_size") == 32);
    pare_checkpoint_close(&ck);
    folder_put(&dir, "b.gguf", bytes, len);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, ": 2 models of kind GGUF; name a file of one of them"));
    static const char *const other[] = {"x.bin", "x.safetensors", "x.npz"}; /* first bytes tell */
    pare_checkpoint_close(&ck);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        pare_ctx_clear(&cx);
        folder_put(&dir, other[i], bytes, len);
        ck_assert_msg(pare_checkpoint_open(&cx, &arena, dir.file, &ck) == PARE_OK, "%s", cx.what);
        ck_assert_uint_eq(ck.tensors, 11);
        pare_checkpoint_close(&ck);
    }
    folder_remove(&dir);
    free(bytes);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    static const char *const models[] = {"model_llama", "model_llama_bpe", "model_gemma"};
    size_t len;
    char *const bytes = folder_get(corpus(models[_i]), &len);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx own;
        pare_arena a;
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK)
            s = gguf_read_all(&own, &a, bytes, len);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 10);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(own.what, "");
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf_model");
    TCase *const t = tcase_create("gguf_model");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, rows_of_q_and_k_go_back_to_halves_of_heads);
    tcase_add_test(t, blocks_are_decoded_and_their_types_told);
    tcase_add_test(t, a_listing_converts_nothing);
    tcase_add_test(t, blocks_of_nvfp4_have_a_number_beside_them);
    tcase_add_test(t, a_number_beside_any_matrix_multiplies_it);
    tcase_add_test(t, a_listing_counts_what_is_decoded);
    tcase_add_loop_test(t, rows_of_q_k_and_v_are_told_apart, 0, 2);
    tcase_add_test(t, rows_of_gate_and_up_are_told_apart);
    tcase_add_test(t, norms_of_gemma_lose_the_one_that_was_added);
    tcase_add_loop_test(t, blocks_with_a_window_turn_by_their_own_base, 0,
                        sizeof local / sizeof *local);
    tcase_add_test(t, metadata_become_words_of_config_json);
    tcase_add_loop_test(t, positions_are_stretched_by_old_and_new_names, 0,
                        sizeof stretched / sizeof *stretched);
    tcase_add_loop_test(t, positions_of_long_contexts_are_those_of_the_keys_and_tensors, 0,
                        sizeof scaled / sizeof *scaled);
    tcase_add_test(t, tokenizers_come_from_the_metadata);
    tcase_add_test(t, a_tokenizer_beside_stands_for_one_that_is_not_supported);
    tcase_add_test(t, a_directory_may_hold_one_file_of_any_name);
    tcase_add_loop_test(t, every_failed_allocation_is_reported, 0, 3);
    suite_add_tcase(s, t);
    return unit_main(s);
}
