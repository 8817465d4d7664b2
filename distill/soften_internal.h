/* distill/soften_internal.h - probabilities from logits. */
#ifndef PARE_DISTILL_SOFTEN_INTERNAL_H
#define PARE_DISTILL_SOFTEN_INTERNAL_H

#include "runtime/context.h"

/* p = softmax(x / T), both [n]. Returns ln sum e^(x / T); not finite where x is not. */
double pare__soften(const pare_kernels *k, const float *x, size_t n, double temperature, float *p);

#endif
