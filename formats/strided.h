/* formats/strided.h - tensors in any order of their elements, as other programs leave them, and how
 * they become rows one after the other. */
#ifndef PARE_FORMATS_STRIDED_H
#define PARE_FORMATS_STRIDED_H

#include <stdbool.h>

#include "runtime/tensor.h"

/* Element (i, j, ...) lies (i stride[0] + j stride[1] + ...) elements behind tensor.data; all of
 * them lie in the file. `tensor.bytes` is what the elements need. Whole bytes per element. */
typedef struct pare_strided {
    pare_tensor tensor;
    uint64_t stride[PARE_RANK_MAX];
} pare_strided;

/* Whether the elements already lie in order, so that `tensor` alone describes them. */
bool pare_strided_in_order(const pare_strided *s);

/* Writes the elements in order.
 *   dst  [tensor.bytes], aligned to the element */
void pare_strided_copy(const pare_strided *s, void *dst);

#endif
