/* tests/fuzz/quantized_input.h - config.json and the tensors of a checkpoint that another program
 * quantized, as one string:
 *
 *   config JSON | NUL | line \n line \n ...
 *
 *   NAME DTYPE d0 d1 ...            a tensor, all bytes 0
 *   NAME DTYPE d0 d1 ... = v v ...  with these values, again and again
 *
 * It is opened as a listing, as floats and to be run. All three agree on whether it can be read;
 * the weights that kernels decode are the floats. */
#ifndef PARE_TESTS_QUANTIZED_INPUT_H
#define PARE_TESTS_QUANTIZED_INPUT_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "kernels/half.h"
#include "runtime/linear.h"

enum { QUANTIZED_TENSORS = 32, QUANTIZED_BYTES = 1 << 16, QUANTIZED_CAP = 1 << 14 };

typedef struct quantized_input {
    pare_json *config;
    pare_tensor tensor[QUANTIZED_TENSORS];
    uint32_t file[QUANTIZED_TENSORS];
    pare_file of; /* that they lie in */
    size_t count;
} quantized_input;

static inline void quantized_value(const pare_tensor *t, size_t i, const char *word)
{
    unsigned char *const data = (unsigned char *)(uintptr_t)t->data;
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    const float x = (float)strtod(word, NULL);
    uint64_t bits = strtoull(word, NULL, 0);
    double wide = strtod(word, NULL);
    if (t->dtype == PARE_F64)
        memcpy(&bits, &wide, sizeof bits);
    else if (t->dtype == PARE_F32)
        bits = pare_f32_bits(x);
    else if (t->dtype == PARE_BF16)
        bits = pare_f32_to_bf16(x);
    else if (t->dtype == PARE_F16)
        bits = pare_f32_to_f16(x);
    for (size_t b = 0; b < size; b++)
        data[i * size + b] = (unsigned char)(bits >> 8 * b);
}

/* Type, sizes and values. False for what is none. */
static inline bool quantized_fill(pare_arena *a, pare_tensor *t, char *words)
{
    enum { VALUES = 64 };
    char *value[VALUES], *save = NULL;
    size_t values = 0;
    const char *word = strtok_r(words, " ", &save);
    t->dtype = word ? pare_dtype_parse(word) : PARE_DTYPES;
    while ((word = strtok_r(NULL, " ", &save)) && strcmp(word, "=") != 0) {
        if (t->rank == PARE_RANK_MAX)
            return false;
        t->shape[t->rank++] = strtoull(word, NULL, 10);
    }
    while (values < VALUES && (value[values] = strtok_r(NULL, " ", &save)))
        values++;
    if (t->dtype == PARE_DTYPES ||
        pare_tensor_bytes(t->dtype, t->rank, t->shape, &t->bytes) != PARE_OK ||
        t->bytes > QUANTIZED_BYTES || pare_dtype_bits(t->dtype) % 8 != 0)
        return false;
    t->data = pare_arena_take(a, (size_t)t->bytes, 1);
    const size_t count = (size_t)t->bytes / (pare_dtype_bits(t->dtype) / 8);
    for (size_t i = 0; t->data && values && i < count; i++)
        quantized_value(t, i, value[i % values]);
    return t->data;
}

static inline int quantized_by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

/* Every name once, in order, as files have them. */
static inline void quantized_sort(quantized_input *in)
{
    size_t kept = 0;
    if (in->count > 1)
        qsort(in->tensor, in->count, sizeof in->tensor[0], quantized_by_name);
    for (size_t i = 0; i < in->count; i++)
        if (!kept || strcmp(in->tensor[kept - 1].name, in->tensor[i].name) != 0)
            in->tensor[kept++] = in->tensor[i];
    in->count = kept;
}

/* The caller frees in->config. */
static inline pare_status quantized_parse(pare_ctx *cx, pare_arena *a, const void *bytes,
                                          size_t len, quantized_input *in)
{
    static char path[] = "model";
    const char *const text = bytes, *const nul = len ? memchr(text, '\0', len) : NULL;
    const size_t json = nul ? (size_t)(nul - text) : len;
    *in = (quantized_input){.of = {.path = path}};
    PARE_TRY(pare_json_parse(cx, "config.json", text, json, QUANTIZED_CAP, &in->config));
    char *const lines = nul ? pare_arena_text(a, nul + 1, len - json - 1) : NULL, *save = NULL;
    if (nul && !lines)
        return PARE_ENOMEM;
    for (char *line = nul ? strtok_r(lines, "\n", &save) : NULL; line;
         line = strtok_r(NULL, "\n", &save)) {
        char *const space = strchr(line, ' ');
        pare_tensor *const t = &in->tensor[in->count];
        if (!space || in->count == QUANTIZED_TENSORS)
            continue;
        *space = '\0';
        *t = (pare_tensor){.name = line};
        in->count += quantized_fill(a, t, space + 1);
    }
    quantized_sort(in);
    return PARE_OK;
}

/* Opens it anew, F64 and floats of 8 bits as F32; closed by pare_scratch_close of ck->scratch. */
static inline pare_status quantized_open(pare_ctx *cx, pare_arena *a, quantized_input *in,
                                         bool listed, bool runs, pare_checkpoint *ck)
{
    *ck = (pare_checkpoint){.cx = cx,
                            .path = in->of.path,
                            .directory = in->of.path,
                            .config = in->config,
                            .config_file = {.path = in->of.path},
                            .file = &in->of,
                            .files = 1,
                            .tensor = in->tensor,
                            .tensors = in->count,
                            .tensor_file = in->file,
                            .listed = listed,
                            .runs = runs};
    pare_scratch_init(cx, &ck->scratch);
    PARE_TRY(pare__checkpoint_names(ck, a));
    PARE_TRY(pare__quantized_read(ck, a));
    PARE_TRY(pare__plain_floats(ck, a));
    return pare__checkpoint_head(ck, a);
}

static inline void quantized_require(bool condition)
{
    if (!condition)
        abort();
}

/* Every weight of `is`, opened to be run, is that of `was`. */
static inline void quantized_same(pare_ctx *cx, pare_arena *a, const pare_checkpoint *is,
                                  const pare_checkpoint *was)
{
    quantized_require(is->tensors == was->tensors && is->unpacked == was->unpacked);
    for (size_t i = 0; i < is->tensors; i++) {
        const pare_linear *const l = is->stored ? is->stored[i].packed : NULL;
        const float *const w = was->tensor[i].data;
        quantized_require(strcmp(is->tensor[i].name, was->tensor[i].name) == 0);
        if (!l)
            continue;
        float *const got = PARE_NEW(a, float, l->n * l->k);
        quantized_require(got && pare_linear_check(cx, l) == PARE_OK);
        quantized_require(is->stored[i].run_bytes == is->tensor[i].bytes);
        pare_linear_to_f32(cx, l, got);
        for (size_t j = 0; j < l->n * l->k; j++)
            quantized_require(got[j] == w[j]);
    }
}

static inline pare_status quantized_input_run(pare_ctx *cx, pare_arena *a, const void *bytes,
                                              size_t len)
{
    quantized_input *const in = PARE_NEW(a, quantized_input, 1);
    pare_checkpoint listed = {0}, floats = {0}, runs = {0};
    if (!in)
        return PARE_ENOMEM;
    pare_status s = quantized_parse(cx, a, bytes, len, in);
    if (s == PARE_OK) {
        s = quantized_open(cx, a, in, false, false, &floats);
        if (s == PARE_OK) {
            quantized_require(quantized_open(cx, a, in, true, false, &listed) == PARE_OK);
            quantized_require(quantized_open(cx, a, in, false, true, &runs) == PARE_OK);
            quantized_same(cx, a, &runs, &floats);
        }
    }
    pare_scratch_close(&listed.scratch);
    pare_scratch_close(&floats.scratch);
    pare_scratch_close(&runs.scratch);
    pare_json_free(in->config);
    return s;
}

#endif
