/* tests/data/tiny_model.h - writes random llama checkpoints: config.json and one or more shards.
 *
 * The bytes are a function of the arguments. Weights stream through a small buffer, so the same
 * code makes a model of a few kilobytes for a unit test and one of many gigabytes. */
#ifndef PARE_TESTS_TINY_MODEL_H
#define PARE_TESTS_TINY_MODEL_H

#include <errno.h>
#include <sys/stat.h>

#include "tests/data/tiny_tensors.h"

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
