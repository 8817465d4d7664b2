/* formats/pickle.h - the description of tensors in a PyTorch checkpoint: a pickle, read as data.
 *
 * A pickle is a program for a small stack machine. Here only those of its instructions run that
 * build dictionaries, lists, tuples, texts and numbers; it may name the few types and functions
 * that describe a tensor, which are recognized and never called. Everything else is refused by
 * name and byte: a file cannot make this reader run anything.
 *
 * The result is one dictionary from names to tensors: the outermost one, or the only one below it
 * ({"model": {...}, "epoch": 3}). Lists and what else stands beside it are dropped. */
#ifndef PARE_FORMATS_PICKLE_H
#define PARE_FORMATS_PICKLE_H

#include "runtime/arena.h"
#include "runtime/tensor.h"

/* A tensor as described: a part of a storage, which lies in an entry of its own. */
typedef struct pare_pickle_tensor {
    const char *name;
    const char *storage;    /* key of the storage */
    uint64_t storage_bytes; /* that it must have */
    uint64_t offset;        /* of the first element in the storage, in elements */
    pare_dtype dtype;
    uint32_t rank;
    uint64_t shape[PARE_RANK_MAX];
    uint64_t stride[PARE_RANK_MAX]; /* in elements */
} pare_pickle_tensor;

typedef struct pare_pickle {
    pare_pickle_tensor *tensor; /* sorted by name, no name twice; inside their storages */
    size_t tensors;
} pare_pickle;

/* Parses a whole pickle in memory (protocols 2 to 5). Texts are copied into the arena.
 *   name  the file for messages
 * PARE_EFORMAT "name: byte N: ...", PARE_ENOTSUP for an instruction, a type or a function that is
 * not one of those above, PARE_ENOMEM. Bounds: 64 MiB, 2^20 values on the stack, 2^21 objects,
 * 2^22 remembered, 64 marks, texts of 64 KiB. */
PARE_CHECKED pare_status pare_pickle_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                           const void *bytes, uint64_t len, pare_pickle *out);

#endif
