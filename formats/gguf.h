/* formats/gguf.h - the GGUF container, versions 2 and 3, little-endian:
 *
 *     "GGUF"  u32 version  u64 tensors  u64 values
 *     values x  { text key; u32 kind; value }       text = u64 length, bytes
 *                                                    array = u32 kind, u64 count, elements
 *     tensors x { text name; u32 dimensions; u64 size[dimensions], fastest first; u32 type;
 *                 u64 offset from the start of the data }
 *     padding to general.alignment (32); data of the tensors, each padded, in the order above
 *
 * A pure function of bytes; what it returns are views of them. Checked: every length against the
 * file, products, no key and no tensor twice, each tensor where the one before it ends, nothing
 * behind the last. */
#ifndef PARE_FORMATS_GGUF_H
#define PARE_FORMATS_GGUF_H

#include <stdbool.h>

#include "formats/ggml_blocks.h"
#include "runtime/arena.h"

/* Kinds of values, as in files. */
typedef enum pare_gguf_kind {
    PARE_GGUF_U8,
    PARE_GGUF_I8,
    PARE_GGUF_U16,
    PARE_GGUF_I16,
    PARE_GGUF_U32,
    PARE_GGUF_I32,
    PARE_GGUF_F32,
    PARE_GGUF_BOOL,
    PARE_GGUF_TEXT,
    PARE_GGUF_ARRAY,
    PARE_GGUF_U64,
    PARE_GGUF_I64,
    PARE_GGUF_F64,
    PARE_GGUF_KINDS
} pare_gguf_kind;

/* One value, or an array of them; none of the pointers is aligned. */
typedef struct pare_gguf_value {
    const char *key;     /* in the arena */
    pare_gguf_kind kind; /* of the elements; never ARRAY */
    bool array;
    uint64_t count;            /* 1 for a single one */
    const unsigned char *data; /* the first element */
    uint64_t bytes;            /* of all elements */
} pare_gguf_value;

typedef struct pare_gguf_tensor {
    const char *name; /* in the arena */
    const pare_ggml_type *type;
    uint32_t rank;
    uint64_t shape[4]; /* slowest first, as elsewhere: the reverse of the file */
    uint64_t elements;
    const unsigned char *data;
    uint64_t bytes;
    float factor; /* once pare_gguf_factor was asked, else 0 */
} pare_gguf_tensor;

typedef struct pare_gguf {
    uint32_t version;
    uint64_t alignment, data_offset;
    pare_gguf_value *value; /* sorted by key */
    size_t values;
    pare_gguf_tensor *tensor; /* sorted by name */
    size_t tensors;
} pare_gguf;

/* Reads bytes [len]. `name` is the file for messages. PARE_EFORMAT with the place, PARE_ENOTSUP for
 * another version, byte order, or type of tensor; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gguf_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                         const void *bytes, uint64_t len, pare_gguf *out);

/* The same of the first `len` bytes of a file of `total` bytes, in which values and the list of
 * tensors end; the tensors have data NULL. PARE_GGUF_ANY_SIZE: however long the file will be. */
#define PARE_GGUF_ANY_SIZE UINT64_MAX
PARE_CHECKED pare_status pare_gguf_parse_head(pare_ctx *cx, pare_arena *a, const char *name,
                                              const void *bytes, uint64_t len, uint64_t total,
                                              pare_gguf *out);

/* NULL when there is none. */
const pare_gguf_value *pare_gguf_find(const pare_gguf *g, const char *key);
const pare_gguf_tensor *pare_gguf_tensor_find(const pare_gguf *g, const char *name);

/* What values of a tensor X.weight of matrices are multiplied with: element `matrix` of the vector
 * X.scale in F32, which has one for each matrix (experts; else one); 1 where there is no such
 * vector. `name` is the file for messages. PARE_EFORMAT for another type or shape, and a
 * number that is not above 0 or takes values out of F32. */
PARE_CHECKED pare_status pare_gguf_factor(pare_ctx *cx, const char *name, const pare_gguf *g,
                                          const pare_gguf_tensor *t, uint64_t matrix, float *out);

/* Refuses blocks of NVFP4 with a scale that is NaN or has a sign: engines differ in what they make
 * of it. Other types pass. PARE_EFORMAT naming the block. */
PARE_CHECKED pare_status pare_gguf_check_scales(pare_ctx *cx, const char *name,
                                                const pare_gguf_tensor *t);

/* Whether a tensor is such an X.scale, or an X.input_scale of the same X.weight, by which an engine
 * may round inputs. */
bool pare_gguf_is_factor(const pare_gguf *g, const char *name);

/* Element i of a value, when it is there and of a fitting kind: integers (also BOOL and those of
 * U64 up to INT64_MAX), numbers (integers too), texts. v may be NULL. A text has no NUL behind. */
bool pare_gguf_integer(const pare_gguf_value *v, uint64_t i, int64_t *out);
bool pare_gguf_number(const pare_gguf_value *v, uint64_t i, double *out);
bool pare_gguf_text(const pare_gguf_value *v, const char **text, size_t *len); /* element 0 */

/* Texts of an array in order; false behind the last. Start with {0}. */
typedef struct pare_gguf_texts {
    uint64_t index, at;
} pare_gguf_texts;
bool pare_gguf_next(const pare_gguf_value *v, pare_gguf_texts *it, const char **text, size_t *len);

/* The name in GGUF files of the weights of a tensor of a checkpoint, `tensor` without ".weight"; of
 * q, k, v or gate and up where they are rows of one tensor, the name of that. False where models of
 * this type have none. */
enum { PARE_GGUF_NAME = 64 };
bool pare_gguf_name_of(const char *model_type, const char *tensor, char out[PARE_GGUF_NAME]);

#endif
