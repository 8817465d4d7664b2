/* formats/pickle_internal.h - values of the stack machine of pickles, and what they may become. */
#ifndef PARE_FORMATS_PICKLE_INTERNAL_H
#define PARE_FORMATS_PICKLE_INTERNAL_H

#include <stdbool.h>

#include "formats/pickle.h"

typedef enum pare__value_type {
    PARE__NONE,
    PARE__BOOL,
    PARE__INTEGER,
    PARE__REAL, /* its number is dropped */
    PARE__TEXT,
    PARE__TUPLE,
    PARE__LIST, /* its items are dropped */
    PARE__DICT,
    PARE__GLOBAL,
    PARE__STORAGE,
    PARE__TENSOR
} pare__value_type;

/* Names that a checkpoint may import. */
typedef enum pare__global {
    PARE__ORDERED_DICT,
    PARE__TENSOR_V2,
    PARE__TENSOR_V3,
    PARE__PARAMETER,
    PARE__UNTYPED,
    PARE__STORAGE_TYPE, /* with a dtype */
    PARE__DTYPE         /* with a dtype */
} pare__global;

/* Values are references: copying one on the stack copies no content. */
typedef struct pare__value {
    uint16_t type;
    uint16_t global; /* of a GLOBAL */
    uint32_t count;  /* bytes of a TEXT, items of a TUPLE, dtype of a GLOBAL */
    union {
        int64_t integer;                /* 1 for a BOOL that is true */
        const char *text;               /* in the pickle */
        const struct pare__value *item; /* of a TUPLE */
        struct pare__dict *dict;
        const struct pare__storage *storage;
        const struct pare__view *view;
    };
} pare__value;

/* Keys and values in turn, in the order in which they were set. */
typedef struct pare__dict {
    pare__value *item;
    size_t count, room; /* of single values */
} pare__dict;

typedef struct pare__storage {
    pare__value key; /* TEXT */
    bool typed;
    pare_dtype dtype;
    uint64_t elements; /* bytes when untyped */
} pare__storage;

typedef struct pare__view {
    const pare__storage *storage;
    pare_dtype dtype;
    uint64_t offset;
    uint32_t rank;
    uint64_t shape[PARE_RANK_MAX], stride[PARE_RANK_MAX];
} pare__view;

/* What builds values: arena that lives as long as they do, number of objects so far. */
typedef struct pare__builder {
    pare_ctx *cx;
    pare_arena *arena;
    size_t objects;
} pare__builder;

/* Memory of a new object, counted: `out` is the address of a pointer. PARE_EFORMAT when there are
 * too many, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__build(pare__builder *b, size_t count, size_t size, void *out);

/* An empty dictionary. As above. */
PARE_CHECKED pare_status pare__build_dict(pare__builder *b, pare__value *out);

/* Recognizes module.name. PARE_ENOTSUP, naming it. */
PARE_CHECKED pare_status pare__pickle_global(pare_ctx *cx, const char *module, size_t module_len,
                                             const char *name, size_t name_len, pare__value *out);

/* What a persistent id stands for: ("storage", type, key, location, elements). PARE_EFORMAT. */
PARE_CHECKED pare_status pare__pickle_storage(pare__builder *b, const pare__value *id,
                                              pare__value *out);

/* What a function of the list gives for its arguments, without a call. PARE_EFORMAT for arguments
 * of the wrong number, type or range. */
PARE_CHECKED pare_status pare__pickle_reduce(pare__builder *b, const pare__value *function,
                                             const pare__value *args, pare__value *out);

/* The tensors of the dictionary `root`, or of the only one below it that has any. PARE_EFORMAT,
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare__pickle_collect(pare__builder *b, pare_arena *a, const char *name,
                                              const pare__value *root, pare_pickle *out);

#endif
