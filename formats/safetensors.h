/* formats/safetensors.h - the safetensors container.
 *
 *   u64 le N | N bytes of JSON, padded with spaces | data
 *
 * Reading checks: N <= 100,000,000 and inside the file; the JSON starts with '{', has no duplicate
 * keys; dtype known; at most 8 dimensions; product(shape) * bits / 8 == end - begin without
 * overflow; entries tile the data from 0 to its end without hole or overlap; __metadata__ maps
 * strings to strings. Unknown members of an entry are ignored, as the other readers do. */
#ifndef PARE_FORMATS_SAFETENSORS_H
#define PARE_FORMATS_SAFETENSORS_H

#include "runtime/arena.h"
#include "runtime/tensor.h"

typedef struct pare_safetensors {
    pare_tensor *tensor; /* sorted by name; data points into the bytes given */
    size_t tensors;
    uint64_t data_offset; /* of the data from the start of the file */
} pare_safetensors;

/* Parses a whole file in memory. Names are copied into the arena, data are views.
 *   name  the file for messages
 * PARE_EFORMAT "name: reason" (with the byte offset or tensor), PARE_ENOMEM. Never reads data. */
PARE_CHECKED pare_status pare_safetensors_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                                const void *bytes, uint64_t len,
                                                pare_safetensors *out);

/* Header of a file that holds the given tensors at the given offsets into its data.
 *   tensor   [count] in the order in which they lie; `data` is not read
 *   offset   [count] begin of each in the data; tile the data
 *   align    header length (8 + N) is padded with spaces to a multiple of this
 *   text     in the arena, starts with the 8 length bytes; *len bytes
 * Writes {"__metadata__":{"format":"pt"}} first. PARE_ENOMEM. Deterministic. */
PARE_CHECKED pare_status pare_safetensors_header(pare_ctx *cx, pare_arena *a,
                                                 const pare_tensor *tensor, const uint64_t *offset,
                                                 size_t count, size_t align, char **text,
                                                 size_t *len);

#endif
