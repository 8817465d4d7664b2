/* calib/loudness.h - how loud tokens are at the input of a linear, and how much of it one of them
 * is. A token's energy is |x|^2. */
#ifndef PARE_CALIB_LOUDNESS_H
#define PARE_CALIB_LOUDNESS_H

#include "runtime/context.h"

typedef struct pare_loudness {
    double sum, most; /* energy of all tokens, and of the one that has most */
    double total;     /* of the sum, over shares of windows (calib/shares.h) */
} pare_loudness;

/* Adds tokens x [rows, k], each with its weight [rows], or 1 where that is NULL.
 * Memory   none.   Work   rows * k.   Exact   same bytes for any number of threads and any way in
 * which tokens come in batches. */
void pare_loudness_add(const pare_ctx *cx, pare_loudness *l, const float *x, const float *weight,
                       size_t rows, size_t k);

/* The share of the energy that is the loudest token's, 0 to 1. 0: there is no energy, or a number
 * of the inputs is not finite. */
double pare_loudness_share(const pare_loudness *l);

#endif
