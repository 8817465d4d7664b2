/* formats/packed.h - the packed files of an artifact: layout known before a weight is read, then
 * filled block by block at fixed offsets.
 *
 *   packed-00001-of-0000N.safetensors ..., packed.index.json
 *
 * packed.index.json: {"metadata": {"format": "pare", "version": 1, "layout": "R8K32",
 * "total_size": bytes}, "linears": {NAME: {"bits", "group" (0: row), "symmetric", "shape": [n,
 * k]}}, "weight_map": {tensor: file}}.
 *
 * Shapes of the planes, n16 and k32 being n and k rounded up:
 *
 *   NAME.codes   U8   [n16 / 8, k32 / 32, 32 bits]
 *   NAME.scales  F16  [n16 / 8, groups, 8]
 *   NAME.zeros   U8   [n16 / 8, groups, 8]          asymmetric only
 *
 * Files are filled in the order of units. Inside a file tensors lie by falling alignment: codes
 * (64-byte multiples) first, then dtypes of 8, 4, 2, 1 bytes, each class by unit and then in the
 * order given, linears before the rest; the data start at a multiple of 64. */
#ifndef PARE_FORMATS_PACKED_H
#define PARE_FORMATS_PACKED_H

#include <stdbool.h>

#include "formats/json.h"
#include "runtime/arena.h"
#include "runtime/grid.h"
#include "runtime/model.h"
#include "runtime/tensor.h"

/* A linear that is stored as codes: three (symmetric: two) tensors. */
typedef struct pare_packed_linear {
    const char *name;
    size_t n, k;
    unsigned bits;
    size_t group; /* 0: row */
    bool symmetric;
} pare_packed_linear;

/* Bytes of the planes of a linear. */
typedef struct pare_packed_bytes {
    uint64_t codes, scales, zeros; /* zeros 0 when symmetric */
} pare_packed_bytes;
pare_packed_bytes pare_packed_linear_bytes(const pare_packed_linear *l);

/* Groups of a row: ceil(k / group), 1 for group 0. */
size_t pare_packed_linear_groups(const pare_packed_linear *l);

/* One tensor of the artifact and where it lies. */
typedef struct pare_packed_entry {
    pare_tensor tensor; /* data NULL */
    size_t unit;        /* who writes it: block index, or the number of blocks for the rest */
    uint32_t shard;
    uint64_t offset; /* from the start of the file */
} pare_packed_entry;

typedef struct pare_packed_layout {
    pare_packed_entry *entry;
    size_t entries;
    const pare_packed_entry **by_name; /* [entries] sorted */
    const pare_packed_linear *linear;  /* borrowed from the caller */
    size_t linears;
    uint32_t shards;
    char **shard_name;
    char **header; /* [shards] the first header_bytes[i] bytes of each file */
    size_t *header_bytes;
    uint64_t *file_bytes; /* [shards] */
    char *index;          /* text of packed.index.json */
    size_t index_bytes;
} pare_packed_layout;

/* Lays out `tensors` (those kept as they are, with `unit`s) and the planes of `linears` (linear i
 * belongs to linear_unit[i]). A shard closes before it would exceed shard_bytes of data (a single
 * larger tensor gets a shard of its own). Names are borrowed.
 * PARE_ENOMEM, PARE_EFORMAT when sizes overflow or a name stands twice, PARE_EINVAL for bits or a
 * group that cannot be stored. */
PARE_CHECKED pare_status pare_packed_layout_make(pare_ctx *cx, pare_arena *a,
                                                 const pare_tensor *tensors, const size_t *unit,
                                                 size_t count, const pare_packed_linear *linears,
                                                 const size_t *linear_unit, size_t linear_count,
                                                 uint64_t shard_bytes, pare_packed_layout *out);

/* Entry by tensor name, NULL when there is none. */
const pare_packed_entry *pare_packed_find(const pare_packed_layout *l, const char *tensor);

/* Packs codes into the planes as stored: R8K32 codes, F16 scales and U8 zeros in
 * [row block][group][8], rows padded to 16. Buffers in the arena.
 * Scales are exact, for grids fitted with f16_scales. Padding rows have scale 0 and zero
 * 2^(bits-1). PARE_ENOMEM, PARE_ESHAPE when codes and linear differ. Threads over row blocks;
 * exact. */
typedef struct pare_packed_planes {
    uint8_t *codes;
    uint16_t *scales;
    uint8_t *zeros; /* NULL when symmetric */
    pare_packed_bytes bytes;
} pare_packed_planes;
PARE_CHECKED pare_status pare_packed_pack(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                                          const pare_codes *codes, pare_packed_planes *out);

/* The packed planes as a linear of the runtime (view). */
pare_linear pare_packed_view(const pare_packed_linear *l, const uint8_t *codes,
                             const uint16_t *scales, const uint8_t *zeros);

/* Files being written in a directory: created at full size (space reserved, so that a full disk is
 * known at once; a file system that cannot reserve gets sparse files), headers and index first.
 * The directory exists. Reopening an unfinished set keeps the data that are there. A failed create
 * removes the files it added. PARE_ENOSPC, PARE_EIO, PARE_ENOMEM. */
typedef struct pare_packed_writer pare_packed_writer;
PARE_CHECKED pare_status pare_packed_create(pare_ctx *cx, const char *directory,
                                            const pare_packed_layout *l, pare_packed_writer **out);
/* Writes all bytes of one entry. */
PARE_CHECKED pare_status pare_packed_put(pare_ctx *cx, pare_packed_writer *w,
                                         const pare_packed_entry *e, const void *bytes);
/* Reads the bytes of one entry back (resume). */
PARE_CHECKED pare_status pare_packed_get(pare_ctx *cx, pare_packed_writer *w,
                                         const pare_packed_entry *e, void *bytes);
/* Makes everything written so far durable. */
PARE_CHECKED pare_status pare_packed_sync(pare_ctx *cx, pare_packed_writer *w);
void pare_packed_close(pare_ctx *cx, pare_packed_writer *w);

#endif
