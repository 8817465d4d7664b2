/* runtime/block_set.h - sets of blocks, one bit each: bit i % 64 of word i / 64 is block i. */
#ifndef PARE_RUNTIME_BLOCK_SET_H
#define PARE_RUNTIME_BLOCK_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool pare_blocks_have(const uint64_t *set, size_t block)
{
    return set[block / 64] >> block % 64 & 1;
}

static inline void pare_blocks_add(uint64_t *set, size_t block)
{
    set[block / 64] |= (uint64_t)1 << block % 64;
}

#endif
