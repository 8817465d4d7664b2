/* formats/packed.h - the packed files of an artifact: layout known before a weight is read, then
 * filled block by block at fixed offsets.
 *
 *   packed-00001-of-0000N.safetensors ..., packed.index.json
 *
 * packed.index.json: {"metadata": {"format": "pare", "version": 1, "layout": "R8K32",
 * "total_size": bytes}, "linears": {NAME: {"bits", "group" (0: row), "symmetric", "shape": [n, k],
 * and what is not the default of "encoding": "uniform", "activation": {"mode": "group",
 * "bits": 8}, "outliers": 0, "outlier_type": "f16", "sparse": 0, "rotated": false,
 * "bias": false, "sparsity": "none", "kept": values (bitmask)}}, "weight_map": {tensor: file}}.
 *
 * Shapes of the planes, n16, k32, k64 and c32 being n, k and c outliers rounded up:
 *   NAME.codes            U8   [n16 / 8, k32 / 32, 32 bits]
 *                         U8   [n16 / 8, k64 / 64, 32 bits]  2:4: of the places of kernels.h
 *                                                     exl3: tiles of kernels/exl3.h
 *   NAME.scales           F16  [n16 / 8, groups, 8]   uniform, ternary, fp8_e4m3; q4_k, q6_k: D
 *                         U8   the same               nf4: codes; mxfp4: exponents + 127
 *                         U8   the same               nvfp4: E4M3
 *   NAME.zeros            U8   [n16 / 8, groups, 8]   uniform, asymmetric
 *   NAME.minima           F16  [n16 / 8, groups, 8]   q4_k: M of solve/super.h
 *   NAME.sub              U8   [n16 / 8, k / 32, 16]  q4_k: s, o of 8 rows; q6_k: s, s of 8 rows
 *   NAME.scale_steps      F32  [n16 groups / 256]     nf4: value of a step of scales 256 i ..
 *   NAME.scale_offset     F32  [1]                    nf4: scale = F16(offset + step (code - 128))
 *   NAME.scale_factor     F32  [1]                    nvfp4: scale = E4M3(code) factor
 *   NAME.book             F16  [n16, 2^bits]          codebook
 *                         F16  [n16 / 8, groups, 8, 4]  binary: small, large, first, second
 *   NAME.indices          U8   [n16 / 8, k64 / 64, 64]  2:4: columns of the places, 2 bits
 *   NAME.mask             U8   [n, ceil(k / 8)]       bitmask: bit j % 8 of byte j / 8
 *   NAME.values           F16  [n16, k64 / 2]         f16, 2:4: of the places, row-major
 *                         F16  [kept], [n, k]         f16, bitmask (unused ones 0), none: row-major
 *   NAME.row_scales       F16  [n]                    exl3: signs times scales, as the next
 *   NAME.column_scales    F16  [k]
 *   NAME.salient          U8   [k32]                  binary: 1 for salient columns
 *   NAME.outlier_columns  U32  [c]                    ascending
 *   NAME.outlier_weights  F16  [n, c]                 outlier type f16
 *   NAME.outlier_codes    U8   [n16 / 8, c32 / 32, 256]  int8: weight / scale + 128
 *   NAME.outlier_scales   F16  [n16 / 8, 1, 8]        int8
 *   NAME.sparse_starts    U32  [n + 1]
 *   NAME.sparse_columns   U32  [sparse]               ascending in a row
 *   NAME.sparse_values    F16  [sparse]
 *   NAME.input_scale      F32  [1]                    activation mode tensor; nvfp4: float, 4 bits
 *   NAME.bias             F32  [n]
 *
 * Padding rows are 0 in every plane but codes, zeros, scales of nf4 (128) and indices (0, 1); their
 * scales count as 0. Padding codes stand for 0: the zero point, 1 (ternary), 7 (nf4), 32 (q6_k),
 * otherwise code 0, which stands for 0 except in columns of codebook and binary.
 *
 * Files are filled in the order of units. Inside a file tensors lie by falling alignment: codes and
 * indices (64-byte multiples) first, then dtypes of 8, 4, 2, 1 bytes, each class by unit and then
 * in the order given, linears before the rest; the data start at a multiple of 64. */
#ifndef PARE_FORMATS_PACKED_H
#define PARE_FORMATS_PACKED_H

#include <stdbool.h>

#include "formats/json.h"
#include "runtime/arena.h"
#include "runtime/model.h"
#include "runtime/tensor.h"
#include "solve/grid.h"

/* What a packed linear may consist of, in the order in which planes are laid out. New ones come
 * last: journals hold the numbers. */
typedef enum pare_plane {
    PARE_PLANE_CODES,
    PARE_PLANE_INDICES, /* 2:4 */
    PARE_PLANE_MASK,    /* bitmask */
    PARE_PLANE_VALUES,  /* f16 */
    PARE_PLANE_SCALES,
    PARE_PLANE_ZEROS,
    PARE_PLANE_MINIMA, /* and the next: super-blocks */
    PARE_PLANE_SUB,
    PARE_PLANE_SCALE_STEPS,
    PARE_PLANE_SCALE_OFFSET,
    PARE_PLANE_BOOK, /* codebooks or magnitudes */
    PARE_PLANE_SALIENT,
    PARE_PLANE_OUTLIER_COLUMNS,
    PARE_PLANE_OUTLIER_WEIGHTS,
    PARE_PLANE_OUTLIER_CODES,
    PARE_PLANE_OUTLIER_SCALES,
    PARE_PLANE_SPARSE_STARTS,
    PARE_PLANE_SPARSE_COLUMNS,
    PARE_PLANE_SPARSE_VALUES,
    PARE_PLANE_INPUT_SCALE,
    PARE_PLANE_BIAS,
    PARE_PLANE_SCALE_FACTOR,
    PARE_PLANE_ROW_SCALES,
    PARE_PLANE_COLUMN_SCALES,
    PARE_PLANES
} pare_plane;

enum { PARE_PACKED_STEP = 256, PARE_STEPS_ZERO = 128 }; /* scales with a step, code of offset */

/* A linear that is stored as codes. All counts are known before a weight is read. */
typedef struct pare_packed_linear {
    const char *name;
    size_t n, k;
    unsigned bits;
    size_t group;   /* 0: row */
    bool symmetric; /* true for every encoding but uniform */
    pare_encoding encoding;
    pare_activation activation; /* `scale` unused; bits 0 counts as 8, but in mode float */
    size_t outliers;            /* columns kept apart */
    bool outliers_int8;         /* with int8 codes and a scale per row; else F16 */
    size_t sparse;              /* weights kept apart */
    bool rotated, bias;
    pare_sparsity_store sparsity;
    uint64_t kept; /* BITMASK: values there is room for, 1 .. n k; otherwise 0 */
} pare_packed_linear;

/* Word of the index for a mode or a sparsity; of a name, false if it is unknown. */
bool pare_encoding_parse(const char *name, pare_encoding *out);
const char *pare_activation_name(pare_activation_mode m);
bool pare_activation_parse(const char *name, pare_activation_mode *out);
const char *pare_sparsity_store_name(pare_sparsity_store s);

/* Name of a plane behind that of its linear and a dot: "codes". */
const char *pare_packed_plane_name(pare_plane p);

/* dtype, rank and shape of a plane, the rest empty. False when the linear has none. */
bool pare_packed_plane_shape(const pare_packed_linear *l, pare_plane p, pare_tensor *out);

/* Bytes of the planes of a linear, 0 where absent. */
typedef struct pare_packed_bytes {
    uint64_t plane[PARE_PLANES], total;
} pare_packed_bytes;
pare_packed_bytes pare_packed_linear_bytes(const pare_packed_linear *l);

/* Whether such a linear can be stored. PARE_EINVAL, PARE_EFORMAT for sizes outside 1 .. 2^30. */
PARE_CHECKED pare_status pare_packed_linear_check(pare_ctx *cx, const pare_packed_linear *l);

/* What is stored, for people: "int4 g128 sym 2:4", "nf4 g64 + 12 columns f16, x f32". */
enum { PARE_PACKED_TEXT = 128 };
const char *pare_packed_linear_text(const pare_packed_linear *l, char text[PARE_PACKED_TEXT]);

/* Members of an open object: activation, outliers, outlier_type, sparse, sparsity, kept, rotated,
 * bias, as far as they are not the default. */
void pare_packed_extras_put(pare_json_writer *w, const pare_packed_linear *l);

/* One linear of packed.index.json as `name`: {...}, and the reverse, which refuses members and
 * values that this version does not know and what pare_packed_linear_check refuses. `name` is
 * borrowed. PARE_EFORMAT. */
void pare_packed_linear_put(pare_json_writer *w, const pare_packed_linear *l);
PARE_CHECKED pare_status pare_packed_linear_read(pare_ctx *cx, const char *name, const pare_json *v,
                                                 pare_packed_linear *out);

/* Groups of a row, as pare_grid_groups counts them. */
size_t pare_packed_linear_groups(const pare_packed_linear *l);

/* One tensor of the artifact and where it lies. */
typedef struct pare_packed_entry {
    pare_tensor tensor; /* data NULL */
    size_t unit;        /* who writes it: block index, or the number of blocks for the rest */
    bool plane;         /* of a linear */
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
    bool dense; /* a plain checkpoint (formats/dense.h) */
    char **shard_name;
    char **header; /* [shards] the first header_bytes[i] bytes of each file */
    size_t *header_bytes;
    uint64_t *file_bytes; /* [shards] */
    char *index;          /* its text; NULL: a dense layout of one file */
    size_t index_bytes;
    pare_kv_format kv; /* of the caches; FLOAT unless pare_packed_layout_kv was called */
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

/* Writes the index anew with the form of the key/value cache. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_packed_layout_kv(pare_ctx *cx, pare_arena *a, const pare_kv_format *f,
                                               pare_packed_layout *l);

/* Entry by tensor name, NULL when there is none. */
const pare_packed_entry *pare_packed_find(const pare_packed_layout *l, const char *tensor);

/* Code of 0, and of padding. */
uint8_t pare_packed_zero_code(const pare_packed_linear *l);

/* Planes in memory, NULL where absent; layout and types as stored. */
typedef struct pare_packed_planes {
    void *plane[PARE_PLANES];
    pare_packed_bytes bytes;
} pare_packed_planes;

/* Takes zeroed planes from the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_packed_take(pare_arena *a, const pare_packed_linear *l,
                                          pare_packed_planes *out);

/* Packs codes into the planes as stored, buffers in the arena: floats that go to F16 are exact in
 * it (grids fitted with f16_scales). NF4: scale_steps has a step per 256 scales in the order of the
 * plane, padding rows included. 2:4 and bitmasks: dense codes or values, in which what is not
 * stored is 0 (the zero point); a free place of a 2:4 group gets the lowest column that is left, so
 * that pairs ascend. PARE_ENOMEM, PARE_ESHAPE when codes and linear differ or codes lack a plane,
 * PARE_ENUMERIC naming row and columns when more than two of four, or more than `kept`, are not 0.
 * Threads over row blocks; exact. */
PARE_CHECKED pare_status pare_packed_pack(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                                          const pare_codes *codes, pare_packed_planes *out);

/* The planes as a linear of the runtime: a view, except that scales in 8 bits become F16 in the
 * arena, as the starts of the rows of a bitmask do. Planes are aligned to their elements. Checks
 * what kernels rely on: columns and starts in range and ascending, salient flags 0 or 1, scales in
 * 8 bits that F16 has, indices that ascend, no more bits of a mask than values; and that biases and
 * the steps and offset of NF4 are finite. PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_packed_view(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                                          void *const plane[PARE_PLANES], pare_linear *out);

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
