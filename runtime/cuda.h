/* runtime/cuda.h - the block operations on a device (runtime/device.h) by the kernels of
 * kernels/cuda.
 *
 * The weights, norms and tables of a model go to the device once, as they lie in memory.
 * Activations and caches lie in a scratch of the device that grows and is reused; only tokens go
 * there in a forward pass, and what a caller asks for comes back. The results are those of the CPU,
 * to the bit, unless pare_cuda_use_f16 is called. */
#ifndef PARE_RUNTIME_CUDA_H
#define PARE_RUNTIME_CUDA_H

#include "runtime/block_ops.h"
#include "runtime/device.h"

typedef struct pare_cuda pare_cuda;

/* Whether there are kernels for a packed linear, and for all that a model has; `exact`: for
 * products that leave inputs as they are. PARE_ENOTSUP, naming what there are none for. */
PARE_CHECKED pare_status pare_cuda_check_linear(pare_ctx *cx, const char *name,
                                                const pare_activation *a, bool exact);
PARE_CHECKED pare_status pare_cuda_check_model(pare_ctx *cx, const pare_model *m, bool exact);

/* Brings the model of f to a device, which stays the caller's and outlives it, and makes it the
 * backend of f.
 *   limit  bytes of the device that it may take together with the other models on it; 0: all there
 *          are
 * f, its model and its tables stay where they are until it is closed. One thread.
 *
 * What pare_cuda_check_model says, behind the name of the device; PARE_ENOTSUP, naming it, for a
 * cache or shape that the device cannot compute with;
 * PARE_ENOMEM with the bytes that were asked for, those that are taken and those that are free:
 * for the weights before any are copied; PARE_EDEVICE. *out is NULL then. */
PARE_CHECKED pare_status pare_cuda_open(pare_ctx *cx, pare_device *d, size_t limit, pare_forward *f,
                                        pare_cuda **out);

/* From now on products of floats round their inputs to F16, each row times a power of two so that
 * nothing overflows, and tensor cores add them in F32. The results are near those of the CPU, not
 * equal to them. Weights that are no F16 are rounded, too. The bits are the same in every run, and
 * those of a row do not depend on its batch. */
void pare_cuda_use_f16(pare_cuda *c);

/* Bytes of weights that it decodes at a time, and of those that it rounds to F16, where there is no
 * room for more. */
enum { PARE_CUDA_PANEL = 16 << 20 };

/* PARE_ENOMEM unless `bytes` bytes more for `what`, "the weights", are within the limit and free.
 */
PARE_CHECKED pare_status pare_cuda_room(pare_ctx *cx, pare_device *d, size_t limit,
                                        const char *what, size_t bytes);

/* Whether a status says that a device cannot do what it was asked for, but the CPU may. */
static inline bool pare_cuda_cannot(pare_status s)
{
    return s == PARE_ENOMEM || s == PARE_ENOTSUP || s == PARE_EDEVICE;
}

/* Gives everything back; f computes on the CPU again. NULL: nothing. */
void pare_cuda_close(pare_cuda *c);

/* Bytes of the device: of the model, and the most that all models on it took at once. */
size_t pare_cuda_model_bytes(const pare_cuda *c);
size_t pare_cuda_peak_bytes(const pare_cuda *c);

#endif
