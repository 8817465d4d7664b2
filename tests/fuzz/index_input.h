/* tests/fuzz/index_input.h - an index and the headers of its files as one string of bytes:
 *
 *   index JSON | NUL | tensor \n tensor \n \n tensor \n ...
 *
 * An empty line begins the next file, in the order in which the index sorts them. */
#ifndef PARE_TESTS_INDEX_INPUT_H
#define PARE_TESTS_INDEX_INPUT_H

#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"

enum { INDEX_INPUT_CAP = 1 << 14 };

static inline int index_input_by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

/* Splits `text` into shards, at most `files` of them. */
static inline pare_status index_input_shards(pare_arena *a, const char *text, size_t len,
                                             pare__shard *shard, size_t files)
{
    pare_tensor *const tensor = PARE_NEW(a, pare_tensor, len);
    if (!tensor)
        return PARE_ENOMEM;
    size_t used = 0;
    for (size_t i = 0; i < files && len > 0; i++) {
        pare_tensor *const first = &tensor[used];
        for (;;) {
            const char *const end = memchr(text, '\n', len);
            const size_t line = end ? (size_t)(end - text) : len;
            char *const name = pare_arena_text(a, text, line);
            if (!name)
                return PARE_ENOMEM;
            text += end ? line + 1 : line;
            len -= end ? line + 1 : line;
            if (line == 0)
                break;
            tensor[used++].name = name;
        }
        shard[i] = (pare__shard){.tensor = first, .tensors = (size_t)(&tensor[used] - first)};
        if (shard[i].tensors > 1)
            qsort(first, shard[i].tensors, sizeof *first, index_input_by_name);
    }
    return PARE_OK;
}

static inline pare_status index_input_run(pare_ctx *cx, pare_arena *a, const void *bytes,
                                          size_t len)
{
    const char *const text = bytes;
    const char *const nul = len ? memchr(text, '\0', len) : NULL;
    const size_t json_len = nul ? (size_t)(nul - text) : len;
    pare_json *json = NULL;
    pare__index index;
    pare__shard *shard = NULL;
    pare_status s = pare_json_parse(cx, "index", text, json_len, INDEX_INPUT_CAP, &json);
    if (s == PARE_OK)
        s = pare__index_parse(cx, a, "index", json, ".safetensors", &index);
    if (s == PARE_OK && !(shard = PARE_NEW(a, pare__shard, index.files)))
        s = PARE_ENOMEM;
    if (s == PARE_OK && nul)
        s = index_input_shards(a, nul + 1, len - json_len - 1, shard, index.files);
    if (s == PARE_OK)
        s = pare__index_check(cx, "index", &index, shard);
    pare_json_free(json);
    return s;
}

#endif
