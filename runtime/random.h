/* runtime/random.h - random numbers as a pure function of (seed, stream, index).
 *
 * No state: the same triple gives the same number on every machine and for any thread count.
 * A stream is a tensor, a sample, a purpose; pare_random_stream makes one from a name.
 * Source: Philox4x32-10, Salmon et al., SC 2011; key = seed, counter = (index, stream). */
#ifndef PARE_RUNTIME_RANDOM_H
#define PARE_RUNTIME_RANDOM_H

#include <stddef.h>
#include <stdint.h>

/* 64 uniform bits. */
uint64_t pare_random_u64(uint64_t seed, uint64_t stream, uint64_t index);

/* Uniform in [0, 1), a multiple of 2^-53. */
double pare_random_unit(uint64_t seed, uint64_t stream, uint64_t index);

/* Normal, mean 0, variance 1 (Box-Muller on two halves of one counter). */
double pare_random_normal(uint64_t seed, uint64_t stream, uint64_t index);

/* Stream of a name: FNV-1a, 64 bit. */
uint64_t pare_random_stream(const char *name);

/* Draws `count` of [0, total) without replacement, ascending. picked [count]; written.
 *   For i = 0..total-1 in order: i is taken when unit(seed, stream, i) * (total - i) < still
 * needed. Source: Fan, Muller, Rezucha 1962 (selection sampling). count <= total is the caller's
 * duty. */
void pare_random_choose(uint64_t seed, uint64_t stream, size_t total, size_t count, size_t *picked);

#endif
