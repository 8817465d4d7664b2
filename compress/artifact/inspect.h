/* compress/artifact/inspect.h - what lies in a checkpoint or an artifact: tensors, encodings,
 * sizes. */
#ifndef PARE_COMPRESS_ARTIFACT_INSPECT_H
#define PARE_COMPRESS_ARTIFACT_INSPECT_H

#include "runtime/arena.h"
#include "runtime/model.h"

/* A tensor, or a packed linear as one row. */
typedef struct pare_inspect_row {
    const char *name;     /* of the tensor; of the linear without suffix when packed */
    const char *encoding; /* "F16", "int4 g128 sym", "nf4 g64"; "int4 in I32" for words of other
                             engines, "fp8, x fp8 per token" for their linears */
    const char *file;     /* without directory; of the codes when packed */
    bool packed;
    bool unused; /* outside the blocks and tables of the model: a part for images, blocks beyond
                    its own */
    uint32_t rank;
    uint64_t shape[PARE_RANK_MAX]; /* true sizes, without padding */
    uint64_t weights;              /* product of the shape; of words those that they hold */
    uint64_t bytes;                /* of all planes, padding included */
    double bits_per_weight;        /* 8 bytes / weights; 0 when there is no weight */
} pare_inspect_row;

typedef struct pare_inspect_file {
    const char *name; /* without directory */
    uint64_t bytes;
    size_t tensors;
} pare_inspect_file;

typedef struct pare_inspection {
    const char *path;
    bool packed;
    /* By name, numbers in it by value: layers.2 before layers.10; the last `unused` are outside of
     * the model. */
    pare_inspect_row *row;
    size_t rows, unused;
    pare_inspect_file *file;
    size_t files;
    uint64_t file_bytes;
    /* Of the tensors in its blocks and tables. */
    uint64_t tensor_bytes, weights;
    uint64_t mapped_bytes;                 /* in memory when the model runs */
    uint64_t idle_weights;                 /* of experts that a token does not use */
    double bits_per_weight;                /* over all */
    uint64_t unused_bytes, unused_weights; /* of the others */
    pare_kv_format kv;
    /* The configuration, or why there is none: no config.json, another family, a wrong field. */
    bool has_config;
    pare_config config;
    const char *config_problem; /* NULL with has_config */
    bool config_broken;         /* it is there, and a field of it is missing or wrong */
} pare_inspection;

/* The verdict of an artifact ("REGRESSION", "unknown"), from its run.json; NULL where its recipe
 * requires nothing. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_inspect_verdict(pare_ctx *cx, pare_arena *a, const char *path,
                                              const char **out);

/* Opens, describes and closes; every text lies in the arena. Reads headers only, no weights.
 * As pare_checkpoint_open; PARE_EFORMAT too when a packed linear lacks a plane or a size. */
PARE_CHECKED pare_status pare_inspect(pare_ctx *cx, pare_arena *a, const char *path,
                                      pare_inspection *out);

#endif
