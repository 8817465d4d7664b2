/* tests/data/tiny_model.h - writes random llama checkpoints: config.json and one or more shards.
 *
 * The bytes are a function of the arguments. Weights stream through a small buffer, so the same
 * code makes a model of a few kilobytes for a unit test and one of many gigabytes. A weight is one
 * of 65,536 normal numbers, picked by 16 random bits, over the square root of the tensor's inputs.
 */
#ifndef PARE_TESTS_TINY_MODEL_H
#define PARE_TESTS_TINY_MODEL_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/random.h"
#include "runtime/tensor.h"

typedef struct tiny_model {
    size_t hidden, intermediate, blocks, heads, kv_heads, head_dim, vocab, context;
    bool tied;        /* no lm_head */
    pare_dtype dtype; /* of every tensor: F32, F16, BF16 */
    size_t shards;    /* 1: model.safetensors; more: with an index; at most one per tensor */
    uint64_t seed;
} tiny_model;

/* About 60,000 weights; every size differs from every other, and no row fills its last group. */
static inline tiny_model tiny_model_default(void)
{
    return (tiny_model){.hidden = 48,
                        .intermediate = 112,
                        .blocks = 2,
                        .heads = 6,
                        .kv_heads = 2,
                        .head_dim = 12,
                        .vocab = 97,
                        .context = 64,
                        .dtype = PARE_F16,
                        .shards = 1,
                        .seed = 1};
}

enum { TINY_NAME = 96, TINY_PER_BLOCK = 9, TINY_TABLE = 1 << 16, TINY_CHUNK = 1 << 14 };

/* Tensor `i` of the model in file order; false past the end. cols 0: a vector (of ones, nearly). */
static inline bool tiny_tensor(const tiny_model *m, size_t i, char name[TINY_NAME], size_t *rows,
                               size_t *cols)
{
    const size_t q = m->heads * m->head_dim, kv = m->kv_heads * m->head_dim;
    const struct {
        const char *name;
        size_t rows, cols;
    } block[TINY_PER_BLOCK] = {
        {"input_layernorm", m->hidden, 0},
        {"mlp.down_proj", m->hidden, m->intermediate},
        {"mlp.gate_proj", m->intermediate, m->hidden},
        {"mlp.up_proj", m->intermediate, m->hidden},
        {"post_attention_layernorm", m->hidden, 0},
        {"self_attn.k_proj", kv, m->hidden},
        {"self_attn.o_proj", m->hidden, q},
        {"self_attn.q_proj", q, m->hidden},
        {"self_attn.v_proj", kv, m->hidden},
    };
    const size_t inner = m->blocks * TINY_PER_BLOCK;
    *cols = m->hidden;
    *rows = m->vocab;
    if (i == 0) {
        (void)snprintf(name, TINY_NAME, "model.embed_tokens.weight");
    } else if (i <= inner) {
        const size_t b = (i - 1) / TINY_PER_BLOCK, t = (i - 1) % TINY_PER_BLOCK;
        (void)snprintf(name, TINY_NAME, "model.layers.%zu.%s.weight", b, block[t].name);
        *rows = block[t].rows;
        *cols = block[t].cols;
    } else if (i == inner + 1) {
        (void)snprintf(name, TINY_NAME, "model.norm.weight");
        *rows = m->hidden;
        *cols = 0;
    } else {
        (void)snprintf(name, TINY_NAME, "lm_head.weight");
        return i == inner + 2 && !m->tied;
    }
    return true;
}

static inline uint64_t tiny_bytes(const tiny_model *m, size_t rows, size_t cols)
{
    return (uint64_t)rows * (cols ? cols : 1) * (pare_dtype_bits(m->dtype) / 8);
}

/* Encodes a float that is a normal number of the target, rounding half to even; 0 stays 0. */
static inline uint32_t tiny_encode(pare_dtype t, float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    if (t == PARE_F32)
        return u;
    const unsigned drop = t == PARE_F16 ? 13 : 16;
    const uint32_t sign = u >> 31 << 15, magnitude = u & 0x7fffffffu;
    const uint32_t half = (1u << (drop - 1)) - 1 + (magnitude >> drop & 1);
    const uint32_t bias = t == PARE_F16 ? 112u << 10 : 0;
    const uint32_t rounded = (magnitude + half) >> drop;
    return rounded <= bias ? sign : sign | (rounded - bias);
}

/* Streams one tensor to `out`. `table` holds TINY_TABLE normal numbers. */
static inline bool tiny_put_tensor(const tiny_model *m, const float *table, const char *name,
                                   size_t rows, size_t cols, FILE *out)
{
    unsigned char bytes[TINY_CHUNK];
    const size_t width = pare_dtype_bits(m->dtype) / 8;
    const uint64_t total = (uint64_t)rows * (cols ? cols : 1), stream = pare_random_stream(name);
    const float scale = cols ? (float)(1.0 / sqrt((double)cols)) : 0.1f;
    size_t used = 0;
    uint64_t word = 0;
    for (uint64_t i = 0; i < total; i++, word >>= 16) {
        if (i % 4 == 0)
            word = pare_random_u64(m->seed, stream, i / 4);
        const float x = scale * table[word & 0xffff] + (cols ? 0.0f : 1.0f);
        const uint32_t code = tiny_encode(m->dtype, x);
        for (size_t b = 0; b < width; b++)
            bytes[used++] = (unsigned char)(code >> 8 * b);
        if (used == sizeof bytes || i + 1 == total) {
            if (fwrite(bytes, 1, used, out) != used)
                return false;
            used = 0;
        }
    }
    return true;
}

/* One shard of tensors [first, end). The header is written behind a gap of eight bytes, padded. */
static inline bool tiny_put_shard(const tiny_model *m, const float *table, size_t first, size_t end,
                                  FILE *out)
{
    char name[TINY_NAME];
    size_t rows, cols;
    uint64_t at = 0;
    (void)fseek(out, 8, SEEK_SET);
    long n = fprintf(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = first; i < end && tiny_tensor(m, i, name, &rows, &cols); i++) {
        const uint64_t bytes = tiny_bytes(m, rows, cols);
        n += fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%zu", name,
                     pare_dtype_name(m->dtype), rows);
        if (cols)
            n += fprintf(out, ",%zu", cols);
        n += fprintf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
                     (unsigned long long)(at + bytes));
        at += bytes;
    }
    n += fprintf(out, "}");
    while (n % 8 != 0)
        n += fprintf(out, " ");
    unsigned char length[8];
    for (size_t b = 0; b < sizeof length; b++)
        length[b] = (unsigned char)((uint64_t)n >> 8 * b);
    if (fseek(out, 0, SEEK_SET) != 0 || fwrite(length, 1, 8, out) != 8 ||
        fseek(out, 0, SEEK_END) != 0)
        return false;
    for (size_t i = first; i < end && tiny_tensor(m, i, name, &rows, &cols); i++)
        if (!tiny_put_tensor(m, table, name, rows, cols, out))
            return false;
    return true;
}

static inline void tiny_shard_name(const tiny_model *m, size_t shard, char name[TINY_NAME])
{
    if (m->shards <= 1)
        (void)snprintf(name, TINY_NAME, "model.safetensors");
    else
        (void)snprintf(name, TINY_NAME, "model-%05zu-of-%05zu.safetensors", shard + 1, m->shards);
}

/* First tensor of a shard: shards get equal shares of the bytes, and one tensor at least. */
static inline size_t tiny_shard_first(const tiny_model *m, size_t shard)
{
    char name[TINY_NAME];
    size_t rows, cols, count = 0;
    uint64_t total = 0, before = 0;
    for (; tiny_tensor(m, count, name, &rows, &cols); count++)
        total += tiny_bytes(m, rows, cols);
    if (shard >= m->shards)
        return count;
    size_t i = 0;
    while (i < shard || (i < count && before < total / m->shards * shard)) {
        (void)tiny_tensor(m, i++, name, &rows, &cols);
        before += tiny_bytes(m, rows, cols);
    }
    return i < count - (m->shards - shard) ? i : count - (m->shards - shard);
}

static inline FILE *tiny_open(const char *directory, const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/%s", directory, name);
    return fopen(path, "wb");
}

static inline bool tiny_put_config(const tiny_model *m, const char *directory)
{
    FILE *const f = tiny_open(directory, "config.json");
    if (!f)
        return false;
    (void)fprintf(f,
                  "{\n  \"architectures\": [\"LlamaForCausalLM\"],\n  \"model_type\": \"llama\",\n"
                  "  \"hidden_act\": \"silu\",\n  \"hidden_size\": %zu,\n"
                  "  \"intermediate_size\": %zu,\n  \"num_hidden_layers\": %zu,\n"
                  "  \"num_attention_heads\": %zu,\n  \"num_key_value_heads\": %zu,\n"
                  "  \"head_dim\": %zu,\n  \"vocab_size\": %zu,\n"
                  "  \"max_position_embeddings\": %zu,\n  \"rms_norm_eps\": 1e-05,\n"
                  "  \"rope_theta\": 10000.0,\n  \"tie_word_embeddings\": %s,\n"
                  "  \"bos_token_id\": 1,\n  \"eos_token_id\": 2\n}\n",
                  m->hidden, m->intermediate, m->blocks, m->heads, m->kv_heads, m->head_dim,
                  m->vocab, m->context, m->tied ? "true" : "false");
    return fclose(f) == 0;
}

static inline bool tiny_put_index(const tiny_model *m, const char *directory)
{
    FILE *const f = tiny_open(directory, "model.safetensors.index.json");
    if (!f)
        return false;
    char name[TINY_NAME], shard_name[TINY_NAME];
    size_t rows, cols, shard = 0;
    uint64_t total = 0;
    (void)fprintf(f, "{\n  \"weight_map\": {");
    for (size_t i = 0; tiny_tensor(m, i, name, &rows, &cols); i++) {
        while (i >= tiny_shard_first(m, shard + 1))
            shard++;
        tiny_shard_name(m, shard, shard_name);
        (void)fprintf(f, "%s\n    \"%s\": \"%s\"", i ? "," : "", name, shard_name);
        total += tiny_bytes(m, rows, cols);
    }
    (void)fprintf(f, "\n  },\n  \"metadata\": {\"total_size\": %llu}\n}\n",
                  (unsigned long long)total);
    return fclose(f) == 0;
}

/* Writes the checkpoint into a directory, which is made when it is not there. False: errno. */
static inline bool tiny_model_write(const tiny_model *m, const char *directory)
{
    static float table[TINY_TABLE];
    for (size_t i = 0; i < TINY_TABLE; i++)
        table[i] = (float)pare_random_normal(m->seed, 0, i);
    if (mkdir(directory, 0777) != 0 && errno != EEXIST)
        return false;
    bool ok = tiny_put_config(m, directory) && (m->shards <= 1 || tiny_put_index(m, directory));
    for (size_t s = 0; ok && s < (m->shards ? m->shards : 1); s++) {
        char name[TINY_NAME];
        tiny_shard_name(m, s, name);
        FILE *const f = tiny_open(directory, name);
        ok = f && tiny_put_shard(m, table, m->shards <= 1 ? 0 : tiny_shard_first(m, s),
                                 m->shards <= 1 ? SIZE_MAX : tiny_shard_first(m, s + 1), f);
        ok = f && fclose(f) == 0 && ok;
    }
    return ok;
}

/* Writes `count` random tokens below `vocab` as little-endian int32. False: errno. */
static inline bool tiny_tokens_write(const char *path, size_t vocab, size_t count, uint64_t seed)
{
    FILE *const f = fopen(path, "wb");
    bool ok = f != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        const uint64_t t = pare_random_u64(seed, 1, i) % vocab;
        const unsigned char bytes[4] = {(unsigned char)t, (unsigned char)(t >> 8),
                                        (unsigned char)(t >> 16), (unsigned char)(t >> 24)};
        ok = fwrite(bytes, 1, 4, f) == 4;
    }
    return f && fclose(f) == 0 && ok;
}

#endif
