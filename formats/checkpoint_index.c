/* Index and headers of a sharded checkpoint agree both ways; no files involved. */
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/small.h"

static pare_status check_file_name(pare_ctx *cx, const char *name, const char *tensor,
                                   const char *file, const char *ending)
{
    if (!file)
        return pare_fail(cx, PARE_EFORMAT, "%s: the file of tensor %s is not a text", name, tensor);
    if (strchr(file, '/') || strchr(file, '\\') || file[0] == '.')
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: tensor %s: %s is not the plain name of a file in the same directory",
                         name, tensor, file);
    if (strlen(file) > NAME_MAX || !pare_ends_with(file, ending))
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s: %.64s is not a %s file", name, tensor,
                         file, ending);
    return PARE_OK;
}

static int by_tensor(const void *a, const void *b)
{
    return strcmp(((const pare__placed *)a)->tensor, ((const pare__placed *)b)->tensor);
}

/* Sorts index->file and drops repeats. */
static void unique_files(pare__index *index)
{
    qsort(index->file, index->files, sizeof *index->file, pare_by_text);
    size_t kept = 0;
    for (size_t i = 0; i < index->files; i++) {
        if (kept == 0 || strcmp(index->file[kept - 1], index->file[i]) != 0)
            index->file[kept++] = index->file[i];
    }
    index->files = kept;
}

static uint32_t file_number(const pare__index *index, const char *file)
{
    const char **const found =
        bsearch(&file, index->file, index->files, sizeof *index->file, pare_by_text);
    return (uint32_t)(found - index->file);
}

static pare_status read_map(pare_ctx *cx, pare_arena *a, const char *name, const pare_json *map,
                            const char *ending, pare__index *out)
{
    out->tensors = out->files = pare_json_count(map);
    out->placed = PARE_NEW(a, pare__placed, out->tensors);
    out->file = PARE_NEW(a, const char *, out->files);
    if (!out->placed || !out->file)
        return PARE_ENOMEM;
    const char *tensor;
    const pare_json *value;
    size_t i = 0;
    for (pare_json_iter it = {0}; pare_json_next(map, &it, &tensor, &value); i++) {
        out->file[i] = pare_json_text(value, NULL);
        PARE_TRY(check_file_name(cx, name, tensor, out->file[i], ending));
    }
    unique_files(out);
    i = 0;
    for (pare_json_iter it = {0}; pare_json_next(map, &it, &tensor, &value); i++)
        out->placed[i] = (pare__placed){tensor, file_number(out, pare_json_text(value, NULL))};
    qsort(out->placed, out->tensors, sizeof *out->placed, by_tensor);
    return PARE_OK;
}

static pare_status read_total_size(pare_ctx *cx, const char *name, const pare_json *metadata,
                                   int64_t *total_size)
{
    const pare_json *const v = pare_json_get(metadata, "total_size");
    *total_size = -1;
    switch (pare_json_type_of(v)) {
    case PARE_JSON_ABSENT: return PARE_OK;
    case PARE_JSON_INTEGER: *total_size = pare_json_integer(v, -1); break;
    case PARE_JSON_REAL: { /* written by programs that count in floating point */
        const double size = pare_json_number(v, -1);
        if (size >= 0 && size < 0x1p53)
            *total_size = (int64_t)size;
        break;
    }
    default: break;
    }
    if (*total_size < 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: metadata.total_size is not a number of bytes",
                         name);
    return PARE_OK;
}

pare_status pare__index_parse(pare_ctx *cx, pare_arena *a, const char *name, const pare_json *json,
                              const char *ending, pare__index *out)
{
    *out = (pare__index){.total_size = -1};
    if (pare_json_type_of(json) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: is not a JSON object", name);
    const pare_json *const metadata = pare_json_get(json, "metadata");
    if (metadata && pare_json_type_of(metadata) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: metadata is not an object", name);
    PARE_TRY(read_total_size(cx, name, metadata, &out->total_size));
    const pare_json *const map = pare_json_get(json, "weight_map");
    if (pare_json_type_of(map) != PARE_JSON_OBJECT)
        return pare_fail(cx, PARE_EFORMAT, "%s: weight_map is missing or not an object", name);
    if (pare_json_count(map) == 0)
        return pare_fail(cx, PARE_EFORMAT, "%s: weight_map is empty", name);
    return read_map(cx, a, name, map, ending, out);
}

static const pare__placed *find_placed(const pare__index *index, const char *tensor)
{
    const pare__placed key = {tensor, 0};
    return bsearch(&key, index->placed, index->tensors, sizeof key, by_tensor);
}

static bool shard_has(const pare__shard *shard, const char *tensor)
{
    return pare__find_tensor(shard->tensor, shard->tensors, tensor) != NULL;
}

/* A tensor of file `i` stands in the index, for this file. */
static pare_status check_found(pare_ctx *cx, const char *name, const pare__index *index,
                               const pare__shard *shard, size_t i, const char *tensor)
{
    const pare__placed *const p = find_placed(index, tensor);
    if (!p)
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s of %s is not in the index", name, tensor,
                         index->file[i]);
    if (p->file == i)
        return PARE_OK;
    if (shard_has(&shard[p->file], tensor))
        return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s lies in two files, %s and %s", name,
                         tensor, index->file[p->file], index->file[i]);
    return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s should lie in %s, but lies in %s", name,
                     tensor, index->file[p->file], index->file[i]);
}

pare_status pare__index_check(pare_ctx *cx, const char *name, const pare__index *index,
                              const pare__shard *shard)
{
    for (size_t i = 0; i < index->files; i++) {
        for (size_t j = 0; j < shard[i].tensors; j++)
            PARE_TRY(check_found(cx, name, index, shard, i, shard[i].tensor[j].name));
    }
    for (size_t i = 0; i < index->tensors; i++) {
        const pare__placed *const p = &index->placed[i];
        if (!shard_has(&shard[p->file], p->tensor))
            return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s should lie in %s, which has none",
                             name, p->tensor, index->file[p->file]);
    }
    return PARE_OK;
}
