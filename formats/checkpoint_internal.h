/* formats/checkpoint_internal.h - the index of a sharded checkpoint, without any file. */
#ifndef PARE_FORMATS_CHECKPOINT_INTERNAL_H
#define PARE_FORMATS_CHECKPOINT_INTERNAL_H

#include "formats/json.h"
#include "runtime/tensor.h"

/* One line of the weight_map. */
typedef struct pare__placed {
    const char *tensor;
    uint32_t file;
} pare__placed;

/* Borrows its texts from the JSON document it was read from. */
typedef struct pare__index {
    const char **file; /* [files] sorted, each once */
    size_t files;
    pare__placed *placed; /* [tensors] sorted by tensor */
    size_t tensors;
    int64_t total_size; /* metadata.total_size, -1 when absent */
} pare__index;

/* The tensors of one file, sorted by name. */
typedef struct pare__shard {
    const pare_tensor *tensor;
    size_t tensors;
} pare__shard;

/* Reads {"metadata": {...}, "weight_map": {tensor: file}}. A file is a plain name that ends in
 * .safetensors: an index must not lead out of its directory. `name` stands in messages.
 * PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__index_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                           const pare_json *json, pare__index *out);

/* Index and headers name the same tensors in the same files, and no tensor lies in two of them.
 *   shard  [index->files] in the order of index->file
 * PARE_EFORMAT with tensor and files, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__index_check(pare_ctx *cx, const char *name, const pare__index *index,
                                           const pare__shard *shard);

#endif
