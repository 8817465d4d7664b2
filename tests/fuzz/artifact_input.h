/* tests/fuzz/artifact_input.h - packed.index.json and the tensors that lie beside it as one string:
 *
 *   index JSON | NUL | line \n line \n ...
 *
 * The tensors are those of a model of one block, some of its linears packed. A line changes them:
 *
 *   -NAME                 there is no such tensor
 *   NAME DTYPE d0 d1 ...  the tensor has this type and shape, or is added; all bytes 0
 *   !NAME DTYPE d0 ...    the same with every bit set
 *   ~NAME DTYPE d0 ...    the same with bytes 0x00 0x55 ...: ascending pairs of 2:4 indices
 *
 * On success every linear is read to its last code, so that a size that lies is seen. */
#ifndef PARE_TESTS_ARTIFACT_INPUT_H
#define PARE_TESTS_ARTIFACT_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint.h"
#include "runtime/linear.h"

enum { ARTIFACT_TENSORS = 64, ARTIFACT_BYTES = 1 << 16, ARTIFACT_CAP = 1 << 14 };

static const char packed_input_config[] =
    "{\"model_type\": \"llama\", \"architectures\": [\"LlamaForCausalLM\"], \"hidden_size\": 32, "
    "\"intermediate_size\": 44, \"num_hidden_layers\": 1, \"num_attention_heads\": 2, "
    "\"num_key_value_heads\": 1, \"head_dim\": 16, \"vocab_size\": 4, "
    "\"max_position_embeddings\": 8, \"rms_norm_eps\": 1e-5, \"rope_theta\": 10000.0, "
    "\"hidden_act\": \"silu\", \"tie_word_embeddings\": false, "
    "\"quantization_config\": {\"quant_method\": \"pare\"}}";

/* q: 4 bits, groups of 32; k: 3 bits, rows, zero points; v, o: 2 and 8 bits; the rest as it was. */
static const char packed_input_tensors[] =
    "model.embed_tokens.weight F16 4 32\n"
    "lm_head.weight F16 4 32\n"
    "model.norm.weight F32 32\n"
    "model.layers.0.input_layernorm.weight F32 32\n"
    "model.layers.0.post_attention_layernorm.weight BF16 32\n"
    "model.layers.0.self_attn.q_proj.codes U8 4 1 128\n"
    "model.layers.0.self_attn.q_proj.scales F16 4 1 8\n"
    "model.layers.0.self_attn.k_proj.codes U8 2 1 96\n"
    "model.layers.0.self_attn.k_proj.scales F16 2 1 8\n"
    "model.layers.0.self_attn.k_proj.zeros U8 2 1 8\n"
    "model.layers.0.self_attn.v_proj.codes U8 2 1 64\n"
    "model.layers.0.self_attn.v_proj.scales F16 2 1 8\n"
    "model.layers.0.self_attn.o_proj.codes U8 4 1 256\n"
    "model.layers.0.self_attn.o_proj.scales F16 4 1 8\n"
    "model.layers.0.mlp.gate_proj.weight F16 44 32\n"
    "model.layers.0.mlp.up_proj.weight F16 44 32\n"
    "model.layers.0.mlp.down_proj.weight F16 32 44\n";

typedef struct packed_input {
    pare_tensor tensor[ARTIFACT_TENSORS];
    uint32_t file[ARTIFACT_TENSORS];
    size_t count;
} packed_input;

static inline pare_tensor *packed_input_find(packed_input *in, const char *name)
{
    for (size_t i = 0; i < in->count; i++)
        if (strcmp(in->tensor[i].name, name) == 0)
            return &in->tensor[i];
    return NULL;
}

/* The words behind the name: a type and sizes. False for what is none. */
static inline bool packed_input_shape(pare_tensor *t, char *words)
{
    char *save = NULL;
    const char *word = strtok_r(words, " ", &save);
    bool known = false;
    for (pare_dtype d = 0; word && d < PARE_DTYPES; d++)
        if (strcmp(word, pare_dtype_name(d)) == 0) {
            t->dtype = d;
            known = true;
        }
    for (t->rank = 0; known && (word = strtok_r(NULL, " ", &save)); t->rank++) {
        if (t->rank == PARE_RANK_MAX)
            return false;
        t->shape[t->rank] = strtoull(word, NULL, 10);
    }
    return known && pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) == PARE_OK &&
           t->bytes <= ARTIFACT_BYTES;
}

/* Every tensor has a buffer of exactly its size, so that a read behind it is seen. */
static inline pare_status packed_input_line(pare_arena *a, packed_input *in, const char *text,
                                            size_t len)
{
    char *const line = pare_arena_text(a, text, len);
    if (!line)
        return PARE_ENOMEM;
    const bool gone = line[0] == '-', set = line[0] == '!', pairs = line[0] == '~';
    char *const name = line + (gone || set || pairs), *const words = strchr(name, ' ');
    if (words)
        *words = '\0';
    pare_tensor *const old = packed_input_find(in, name);
    pare_tensor t = {.name = name};
    if (gone && old)
        *old = in->tensor[--in->count];
    if (gone || !words || !packed_input_shape(&t, words + 1) ||
        (!old && in->count == ARTIFACT_TENSORS))
        return PARE_OK;
    unsigned char *const data = pare_arena_take(a, (size_t)t.bytes, 1);
    if (!data)
        return PARE_ENOMEM;
    memset(data, set ? 0xff : 0, (size_t)t.bytes);
    for (size_t i = 1; pairs && i < t.bytes; i += 2)
        data[i] = 0x55;
    t.data = data;
    *(old ? old : &in->tensor[in->count++]) = t;
    return PARE_OK;
}

static inline pare_status packed_input_lines(pare_arena *a, packed_input *in, const char *text,
                                             size_t len)
{
    while (len > 0) {
        const char *const end = memchr(text, '\n', len);
        const size_t line = end ? (size_t)(end - text) : len, step = end ? line + 1 : line;
        PARE_TRY(packed_input_line(a, in, text, line));
        text += step;
        len -= step;
    }
    return PARE_OK;
}

static inline int packed_input_by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

static inline pare_status packed_input_read(pare_ctx *cx, pare_arena *a, const pare_model *m)
{
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const pare_linear *const l = &m->block[0].linear[r];
        float *const w = PARE_NEW(a, float, l->n * l->k);
        if (!w)
            return PARE_ENOMEM;
        pare_linear_to_f32(cx, l, w);
    }
    return PARE_OK;
}

/* What every input begins with: the tensors of packed_input_tensors and packed_input_config. */
typedef struct artifact_base {
    packed_input tensors;
    pare_json *config;
} artifact_base;

/* The tensors lie in the arena; the caller frees the configuration. */
static inline pare_status artifact_base_make(pare_ctx *cx, pare_arena *a, artifact_base *b)
{
    *b = (artifact_base){0};
    PARE_TRY(
        packed_input_lines(a, &b->tensors, packed_input_tensors, sizeof packed_input_tensors - 1));
    qsort(b->tensors.tensor, b->tensors.count, sizeof b->tensors.tensor[0], packed_input_by_name);
    return pare_json_parse(cx, "config", packed_input_config, sizeof packed_input_config - 1,
                           ARTIFACT_CAP, &b->config);
}

static inline pare_status artifact_input_on(pare_ctx *cx, pare_arena *a, const artifact_base *base,
                                            const void *bytes, size_t len)
{
    static char path[] = "artifact";
    const char *const text = bytes, *const nul = len ? memchr(text, '\0', len) : NULL;
    const size_t json_len = nul ? (size_t)(nul - text) : len;
    packed_input *const in = PARE_NEW(a, packed_input, 1);
    pare_file file = {.path = path};
    pare_model model;
    pare_checkpoint ck = {
        .cx = cx, .path = path, .directory = path, .packed = true, .config = base->config};
    if (!in)
        return PARE_ENOMEM;
    ck.config_file.path = path;
    *in = base->tensors;
    if (nul) {
        PARE_TRY(packed_input_lines(a, in, nul + 1, len - json_len - 1));
        if (in->count > 1)
            qsort(in->tensor, in->count, sizeof in->tensor[0], packed_input_by_name);
    }
    pare_status s =
        pare_json_parse(cx, "packed.index.json", text, json_len, ARTIFACT_CAP, &ck.index);
    if (s == PARE_OK) {
        ck.tensor = in->tensor;
        ck.tensors = in->count;
        ck.tensor_file = in->file;
        ck.file = &file;
        s = pare_model_load(cx, a, &ck, &model);
    }
    if (s == PARE_OK)
        s = packed_input_read(cx, a, &model);
    pare_json_free(ck.index);
    return s;
}

static inline pare_status artifact_input_run(pare_ctx *cx, pare_arena *a, const void *bytes,
                                             size_t len)
{
    artifact_base base;
    pare_status s = artifact_base_make(cx, a, &base);
    if (s == PARE_OK)
        s = artifact_input_on(cx, a, &base, bytes, len);
    pare_json_free(base.config);
    return s;
}

#endif
