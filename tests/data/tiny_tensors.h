/* tests/data/tiny_tensors.h - names, shapes and bytes of the tensors of a random llama.
 *
 * A weight is one of 65,536 normal numbers, picked by 16 random bits, over the square root of the
 * tensor's inputs; weights of a norm lie around one. */
#ifndef PARE_TESTS_TINY_TENSORS_H
#define PARE_TESTS_TINY_TENSORS_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

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

#endif
