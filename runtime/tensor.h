/* runtime/tensor.h - element types and views of tensors that lie in mapped files. */
#ifndef PARE_RUNTIME_TENSOR_H
#define PARE_RUNTIME_TENSOR_H

#include <stdint.h>

#include "runtime/context.h"

enum { PARE_RANK_MAX = 8 };

/* X(name, bits per element): the element types of safetensors. */
#define PARE_DTYPE_MAP(X)                                                                          \
    X(BOOL, 8)                                                                                     \
    X(F4, 4)                                                                                       \
    X(F6_E2M3, 6)                                                                                  \
    X(F6_E3M2, 6)                                                                                  \
    X(U8, 8)                                                                                       \
    X(I8, 8)                                                                                       \
    X(F8_E5M2, 8)                                                                                  \
    X(F8_E4M3, 8)                                                                                  \
    X(F8_E8M0, 8)                                                                                  \
    X(F8_E4M3FNUZ, 8)                                                                              \
    X(F8_E5M2FNUZ, 8)                                                                              \
    X(I16, 16)                                                                                     \
    X(U16, 16)                                                                                     \
    X(F16, 16)                                                                                     \
    X(BF16, 16)                                                                                    \
    X(I32, 32)                                                                                     \
    X(U32, 32)                                                                                     \
    X(F32, 32)                                                                                     \
    X(C64, 64)                                                                                     \
    X(F64, 64)                                                                                     \
    X(I64, 64)                                                                                     \
    X(U64, 64)

typedef enum pare_dtype {
#define X(name, bits) PARE_##name,
    PARE_DTYPE_MAP(X)
#undef X
        PARE_DTYPES
} pare_dtype;

/* A view: names and data are borrowed from whoever opened the file and live as long as it.
 * `data` has no alignment promise. */
typedef struct pare_tensor {
    const char *name;
    pare_dtype dtype;
    uint32_t rank;
    uint64_t shape[PARE_RANK_MAX];
    const void *data;
    uint64_t bytes;
} pare_tensor;

/* Name as safetensors writes it, and the reverse (PARE_DTYPES when unknown). */
const char *pare_dtype_name(pare_dtype t);
pare_dtype pare_dtype_parse(const char *name);
unsigned pare_dtype_bits(pare_dtype t);

/* *bytes = product(shape) * bits / 8. The only place in the project that computes it.
 * PARE_EFORMAT when the product overflows or a sub-byte type does not fill whole bytes;
 * no message is recorded: the reader adds the place. */
PARE_CHECKED pare_status pare_tensor_bytes(pare_dtype t, uint32_t rank, const uint64_t *shape,
                                           uint64_t *bytes);

/* Copies elements [first, first + count) of an F32, F16 or BF16 tensor to dst as f32 (exact).
 * PARE_ENOTSUP for another type, PARE_ESHAPE out of range. */
PARE_CHECKED pare_status pare_tensor_to_f32(pare_ctx *cx, const pare_tensor *t, uint64_t first,
                                            uint64_t count, float *dst);

/* The reverse: count floats as elements of F32, F16 or BF16, rounded half to even; dst is aligned
 * to the element. PARE_ENOTSUP for another type. */
PARE_CHECKED pare_status pare_f32_to_dtype(pare_ctx *cx, pare_dtype t, const float *src,
                                           size_t count, void *dst);

/* NaN and infinities among `count` numbers of F32, F16 or BF16 at p. One thread. */
uint64_t pare_count_nonfinite(pare_dtype type, const unsigned char *p, size_t count);

#endif
