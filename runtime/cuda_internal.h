/* runtime/cuda_internal.h - what the files of the backend share. */
#ifndef PARE_RUNTIME_CUDA_INTERNAL_H
#define PARE_RUNTIME_CUDA_INTERNAL_H

#include "kernels/cuda/cuda_shape.h"
#include "runtime/cuda.h"
#include "runtime/forward_internal.h"
#include "runtime/hadamard.h"

typedef enum pare__cuda_kernel {
#define PARE__CUDA_NAME(name, ...) PARE__CUDA_##name,
    PARE_CUDA_KERNELS(PARE__CUDA_NAME)
#undef PARE__CUDA_NAME
        PARE__CUDA_KERNELS
} pare__cuda_kernel;

/* What the host has at a place, and its copy on the device. */
typedef struct pare__cuda_copy {
    const void *host;
    size_t bytes;
    pare_address at;
} pare__cuda_copy;

/* Scratch: blocks that are filled one behind the other. */
enum { PARE__CUDA_BLOCKS = 1024 };
typedef struct pare__cuda_scratch {
    struct {
        pare_address at;
        size_t bytes;
    } block[PARE__CUDA_BLOCKS];
    size_t current, used; /* the block that is being filled, and how far */
} pare__cuda_scratch;

struct pare_cuda {
    pare_backend backend;
    pare_ctx *cx;
    pare_device *d;
    pare_forward *f;
    pare_arena arena; /* what follows */
    void *kernel[PARE__CUDA_KERNELS];
    pare__cuda_copy *copy; /* [copies]: a hash table of what lies on the device; host NULL: free */
    size_t copies, taken;
    pare__cuda_scratch scratch;
    size_t limit, model;
    bool f16; /* products of floats by tensor cores */
    /* Weights that are decoded at a time, and rounded to F16: as many as memory allows, so that all
     * processors have rows. */
    size_t panel_bytes, rounded_bytes;
};

static inline pare_cuda *pare__cuda_of(const pare_ops *o)
{
    return (pare_cuda *)o->backend.self;
}

/* Memory of the device within the limit; the way back. */
PARE_CHECKED pare_status pare__cuda_take(pare_cuda *c, size_t bytes, pare_address *at);
void pare__cuda_give(pare_cuda *c, pare_address at, size_t bytes);

/* `bytes` bytes of the scratch, holding anything: *at, a pointer that the host does not follow. */
PARE_CHECKED pare_status pare__cuda_scratch_take(pare_cuda *c, size_t bytes, void **at);

/* The same with what the host has. */
PARE_CHECKED pare_status pare__cuda_scratch_put(pare_cuda *c, const void *from, size_t bytes,
                                                void **at);

/* Copies of the host's memory at *pointer to the device unless there is one; *pointer becomes that.
 * NULL stays. */
PARE_CHECKED pare_status pare__cuda_upload(pare_cuda *c, const void **pointer, size_t bytes);

/* The copy of what the host has at a place; NULL for NULL. What was not copied is a mistake of the
 * caller: PARE_EINVAL. */
PARE_CHECKED pare_status pare__cuda_find(const pare_cuda *c, const void *host, const void **there);

/* Everything that f computes with; and all that was taken goes back. */
PARE_CHECKED pare_status pare__cuda_upload_model(pare_cuda *c);
void pare__cuda_give_all(pare_cuda *c);

/* w with the planes on the device in place of the host's; copies what is not there yet. *skip:
 * [k] bytes, 1 for outlier columns; NULL: there are none. */
typedef struct pare__cuda_linear {
    pare_linear w;
    const uint8_t *skip;
    const float *level;
} pare__cuda_linear;
PARE_CHECKED pare_status pare__cuda_linear_of(pare_cuda *c, const pare_linear *w,
                                              pare__cuda_linear *out);

/* Of dense numbers, as kernels know it. */
static inline uint32_t pare__cuda_type(pare_dtype t)
{
    return t == PARE_F16 ? PARE_CUDA_F16 : t == PARE_BF16 ? PARE_CUDA_BF16 : PARE_CUDA_F32;
}

/* Rows of F16 on the device, `ld` numbers each; scale [rows]: what they are multiplied with, NULL:
 * 1. */
typedef struct pare__cuda_f16 {
    const uint16_t *at;
    const float *scale;
    size_t ld;
} pare__cuda_f16;

/* Room in the scratch for rows of k numbers as F16; rows of k numbers at x, `ldx` apart, in such a
 * place from row r on; both. */
PARE_CHECKED pare_status pare__cuda_f16_take(pare_cuda *c, size_t rows, size_t k,
                                             pare__cuda_f16 *out);
PARE_CHECKED pare_status pare__cuda_f16_put(pare_cuda *c, const void *x, size_t ldx,
                                            pare_dtype type, size_t rows, size_t k,
                                            const pare__cuda_f16 *to, size_t r);
PARE_CHECKED pare_status pare__cuda_to_f16(pare_cuda *c, const void *x, size_t ldx, pare_dtype type,
                                           size_t rows, size_t k, pare__cuda_f16 *out);

/* y [m, n] = x w^T, rows of y `ldy` apart and those of w `ldw`; weights that are no F16 are rounded
 * to it, rounded_bytes at a time. The second: of what is F16. */
PARE_CHECKED pare_status pare__cuda_multiply_f16(pare_cuda *c, const pare__cuda_f16 *x, size_t m,
                                                 const void *w, size_t ldw, pare_dtype type,
                                                 size_t n, size_t k, float *y, size_t ldy);

PARE_CHECKED pare_status pare__cuda_multiply_rounded(pare_cuda *c, const pare__cuda_f16 *x,
                                                     size_t m, const pare__cuda_f16 *w, size_t n,
                                                     size_t k, float *y, size_t ldy);

/* Where memory is short: halves both kinds of panels and drops what was taken of the scratch since;
 * false where they are at their least. */
bool pare__cuda_smaller_panels(pare_cuda *c, const pare__cuda_scratch *before);

/* Rows of weights that are rounded at a time, at least `least`. */
size_t pare__cuda_rounded_rows(const pare_cuda *c, size_t n, size_t k, size_t least);

/* Whether the next one takes these weights, on the device or not, for m tokens: y [m, n] = x w^T
 * with packed codes, or 2:4 values of F16. */
bool pare__cuda_f16_fused(const pare_linear *w, size_t m);
PARE_CHECKED pare_status pare__cuda_multiply_packed_f16(pare_cuda *c, const pare__cuda_f16 *x,
                                                        size_t m, const pare_linear *w, float *y,
                                                        size_t ldy);

/* The mixing matrix of a rotation (runtime/hadamard.h) on the device. */
PARE_CHECKED pare_status pare__cuda_mix(pare_cuda *c, const pare_hadamard *h, const float **mix);

/* Runs a kernel on its arguments in the shape that belongs to them; a grid without blocks is left
 * out. */
PARE_CHECKED pare_status pare__cuda_launch(pare_cuda *c, pare__cuda_kernel k,
                                           const pare_cuda_shape *shape, const void *arguments,
                                           size_t bytes);
#define PARE__CUDA_RUN(c, name, ...)                                                               \
    do {                                                                                           \
        const pare_cuda_##name arguments_ = {__VA_ARGS__};                                         \
        const pare_cuda_shape shape_ = pare_cuda_##name##_shape(&arguments_);                      \
        PARE_TRY(                                                                                  \
            pare__cuda_launch(c, PARE__CUDA_##name, &shape_, &arguments_, sizeof arguments_));     \
    } while (0)

/* Operations of other files. */
pare_status pare__cuda_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                               bool exact, pare_array x, const pare_array *y);
pare_status pare__cuda_attend(const pare_ops *o, const pare_attend *a, pare_array q, pare_array k,
                              pare_array v, pare_array y);
pare_status pare__cuda_kv_take(const pare_ops *o, const pare_config *c, const pare_kv_format *f,
                               size_t sequences, size_t capacity, pare_kv *kv);
pare_status pare__cuda_kv_copy(const pare_ops *o, const pare_config *c, const pare_kv *from,
                               size_t f, pare_kv *to, size_t t);

#endif
