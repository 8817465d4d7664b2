/* tests/unit/small_model.h - a model of one block, hidden 4, in one file made by hand: what a test
 * wants changed is changed before it is written into the folder of load_case.h. */
#ifndef PARE_TESTS_SMALL_MODEL_H
#define PARE_TESTS_SMALL_MODEL_H

#include "formats/safetensors.h"
#include "tests/unit/heard.h"
#include "tests/unit/load_case.h"

enum { SMALL = 4, WIDE = 32, SMALL_TENSORS = 13 };
typedef struct small {
    pare_tensor tensor[SMALL_TENSORS + 4];
    size_t tensors;
    float data[WIDE * WIDE]; /* of every tensor, from the first on */
    const char *config;
} small;

static inline void small_add(small *s, const char *name, pare_dtype dtype, uint64_t rows,
                             uint64_t cols)
{
    pare_tensor *const t = &s->tensor[s->tensors++];
    *t = (pare_tensor){.name = name, .dtype = dtype, .rank = cols ? 2 : 1, .shape = {rows, cols}};
    ck_assert_int_eq(pare_tensor_bytes(dtype, t->rank, t->shape, &t->bytes), PARE_OK);
    ck_assert_uint_le(t->bytes, sizeof s->data);
}

/* All of its tensors, the embedding first, the head behind it; norms are F32. */
static inline void small_fill(small *s, pare_dtype dtype, uint64_t width)
{
    static const char *const matrices[] = {"model.embed_tokens.weight",
                                           "lm_head.weight",
                                           "model.layers.0.mlp.gate_proj.weight",
                                           "model.layers.0.mlp.up_proj.weight",
                                           "model.layers.0.mlp.down_proj.weight",
                                           "model.layers.0.self_attn.q_proj.weight",
                                           "model.layers.0.self_attn.k_proj.weight",
                                           "model.layers.0.self_attn.v_proj.weight",
                                           "model.layers.0.self_attn.o_proj.weight"};
    static const char *const norms[] = {"model.norm.weight",
                                        "model.layers.0.input_layernorm.weight",
                                        "model.layers.0.post_attention_layernorm.weight"};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++)
        small_add(s, matrices[i], dtype, width, width);
    for (size_t i = 0; i < sizeof norms / sizeof *norms; i++)
        small_add(s, norms[i], PARE_F32, width, 0);
}

static inline small small_make(void)
{
    small s = {.config = "{\"model_type\": \"llama\", \"hidden_size\": 4, \"intermediate_size\": 4,"
                         "\"num_hidden_layers\": 1, \"num_attention_heads\": 2, \"vocab_size\": 4,"
                         "\"max_position_embeddings\": 4, \"rms_norm_eps\": 1e-05}"};
    for (size_t i = 0; i < SMALL * SMALL; i++)
        s.data[i] = (float)i;
    small_fill(&s, PARE_F32, SMALL);
    return s;
}

static inline void small_write(small *s)
{
    uint64_t offset[SMALL_TENSORS + 4], total = 0;
    char *header;
    size_t len;
    for (size_t i = 0; i < s->tensors; i++) {
        offset[i] = total;
        total += s->tensor[i].bytes;
    }
    ck_assert_int_eq(
        pare_safetensors_header(&cx, &arena, s->tensor, offset, s->tensors, 8, &header, &len),
        PARE_OK);
    char *const file = malloc(len + (size_t)total);
    ck_assert_ptr_nonnull(file);
    memcpy(file, header, len);
    for (size_t i = 0; i < s->tensors; i++)
        memcpy(file + len + offset[i], s->data, (size_t)s->tensor[i].bytes);
    folder_put(&dir, "model.safetensors", file, len + (size_t)total);
    folder_put_text(&dir, "config.json", s->config);
    free(file);
}

/* Loads the folder and takes down warnings. */
static inline pare_status load_heard(pare_model *model)
{
    warned[0] = '\0';
    cx.progress.warn = hear;
    return load(dir.path, model);
}

#endif
