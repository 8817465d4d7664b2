/* tests/data/families.h - a small random checkpoint of every family: config.json and
 * model.safetensors as the reference implementation reads and writes them, every odd detail of the
 * family switched on. The bytes are a function of the name.
 *
 * A matrix holds normal numbers over the square root of its inputs; norms lie around one (around
 * zero where the family adds one to them), biases around zero. */
#ifndef PARE_TESTS_FAMILIES_H
#define PARE_TESTS_FAMILIES_H

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "runtime/random.h"
#include "tests/data/family_table.h"
#include "tests/data/scaled_table.h"
#include "tests/data/tiny_tensors.h"

static inline const family *family_find(const char *name)
{
    for (size_t i = 0; i < FAMILIES; i++)
        if (strcmp(families[i].name, name) == 0)
            return &families[i];
    for (size_t i = 0; i < SCALED_FAMILIES; i++)
        if (strcmp(scaled_families[i].name, name) == 0)
            return &scaled_families[i];
    return NULL;
}

typedef struct family_shape {
    char name[TINY_NAME];
    size_t rows, cols; /* cols 0: a vector */
    size_t depth;      /* numbers of the last of three sides; 1: there are two at most */
    pare_dtype dtype;  /* U8: four ternary codes */
} family_shape;

/* A name up to `end`, its %zu replaced by a block and an expert in turn. */
static inline void family_name(char name[TINY_NAME], const char *text, const char *end,
                               size_t block, size_t expert)
{
    const size_t number[2] = {block, expert};
    size_t at = 0;
    for (size_t i = 0; text < end; i++) {
        const char *const next = strstr(text, "%zu");
        const bool last = !next || next > end;
        at += (size_t)snprintf(name + at, TINY_NAME - at, "%.*s", (int)((last ? end : next) - text),
                               text);
        if (!last)
            at += (size_t)snprintf(name + at, TINY_NAME - at, "%zu", number[i]);
        text = last ? end : next + 3;
    }
}

/* Tensor `i` of the file; false past the end. */
static inline bool family_tensor(const family *f, size_t i, family_shape *out)
{
    for (size_t t = 0; t < sizeof f->tensor / sizeof *f->tensor && f->tensor[t]; t++) {
        const char *const text = f->tensor[t], *const space = strchr(text, ' ');
        const char *const block = strstr(text, "%zu");
        const char *const expert = block ? strstr(block + 3, "%zu") : NULL;
        const size_t each = expert ? f->size[FAMILY_EXPERTS] : 1;
        const bool mixed = strstr(text, "experts.") || strstr(text, "mlp.gate.");
        const size_t first = mixed && f->how & FAMILY_DENSE ? 1 : 0;
        const size_t copies = block ? (f->blocks - first) * each : 1;
        if (i >= copies) {
            i -= copies;
            continue;
        }
        family_name(out->name, text, space, first + i / each, i % each);
        const bool deep = space[2] && space[3] && space[3] != '*';
        const bool codes = space[2] && space[3] && !deep;
        out->rows = f->size[strchr(family_letters, space[1]) - family_letters] / (codes ? 4 : 1);
        out->cols = space[2] ? f->size[strchr(family_letters, space[2]) - family_letters] : 0;
        out->depth = deep ? f->size[strchr(family_letters, space[3]) - family_letters] : 1;
        out->dtype = codes ? PARE_U8 : f->how & FAMILY_FLOATS ? PARE_F32 : PARE_F16;
        return true;
    }
    return false;
}

static inline uint64_t family_bytes(const family_shape *t)
{
    return (uint64_t)t->rows * (t->cols ? t->cols : 1) * t->depth * (pare_dtype_bits(t->dtype) / 8);
}

static inline bool family_ends(const char *name, const char *end)
{
    const size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

/* Element `i` as the file holds it. */
static inline uint32_t family_element(const family *f, const family_shape *t, uint64_t i)
{
    const uint64_t seed = pare_random_stream(f->name), stream = pare_random_stream(t->name);
    if (t->dtype == PARE_U8) {
        const uint64_t r = pare_random_u64(seed, stream, i);
        return (uint32_t)(r % 3 | r / 3 % 3 << 2 | r / 9 % 3 << 4 | r / 27 % 3 << 6);
    }
    const bool zero = t->cols || family_ends(t->name, ".bias") || f->how & FAMILY_ZERO_NORMS;
    /* Wide enough to meet the clamps. */
    const double wide = family_ends(t->name, ".gate_up_proj") ? 4 : 1;
    const double scale = t->cols ? wide / sqrt((double)t->cols) : 0.3;
    const double x = (zero ? 0.0 : 1.0) + scale * pare_random_normal(seed, stream, i);
    return tiny_encode(t->dtype, (float)(family_ends(t->name, "_scale") ? x / 8 : x));
}

static inline bool family_put_tensor(const family *f, const family_shape *t, FILE *out)
{
    const size_t width = pare_dtype_bits(t->dtype) / 8;
    const uint64_t count = (uint64_t)t->rows * (t->cols ? t->cols : 1) * t->depth;
    for (uint64_t i = 0; i < count; i++) {
        const uint32_t code = family_element(f, t, i);
        unsigned char bytes[4];
        for (size_t b = 0; b < width; b++)
            bytes[b] = (unsigned char)(code >> 8 * b);
        if (fwrite(bytes, 1, width, out) != width)
            return false;
    }
    return true;
}

static inline bool family_put_weights(const family *f, FILE *out)
{
    family_shape t;
    uint64_t at = 0;
    (void)fseek(out, 8, SEEK_SET);
    long n = fprintf(out, "{\"__metadata__\":{\"format\":\"pt\"}");
    for (size_t i = 0; family_tensor(f, i, &t); i++) {
        const uint64_t bytes = family_bytes(&t);
        n += fprintf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%zu", t.name,
                     pare_dtype_name(t.dtype), t.rows);
        if (t.cols)
            n += fprintf(out, ",%zu", t.cols);
        if (t.depth > 1)
            n += fprintf(out, ",%zu", t.depth);
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
    for (size_t i = 0; family_tensor(f, i, &t); i++)
        if (!family_put_tensor(f, &t, out))
            return false;
    return true;
}

/* Writes the checkpoint into a folder, which is made. False with errno set. */
static inline bool family_write(const family *f, const char *directory)
{
    char path[4096];
    if (mkdir(directory, 0755) != 0 && errno != EEXIST)
        return false;
    (void)snprintf(path, sizeof path, "%s/config.json", directory);
    FILE *out = fopen(path, "wb");
    if (!out)
        return false;
    bool ok = fprintf(out, "{%s}\n", f->config) > 0;
    ok = fclose(out) == 0 && ok;
    (void)snprintf(path, sizeof path, "%s/model.safetensors", directory);
    out = ok ? fopen(path, "wb") : NULL;
    if (!out)
        return false;
    ok = family_put_weights(f, out);
    return fclose(out) == 0 && ok;
}

/* Token `i` of what the golden values were made of. */
static inline int32_t family_token(size_t i)
{
    return (int32_t)((i * i * 7 + i * 29 + 3) % FAMILY_VOCAB);
}

#endif
