/* compress/export.h - an artifact written as files of another engine. */
#ifndef PARE_COMPRESS_EXPORT_H
#define PARE_COMPRESS_EXPORT_H

#include "formats/export_target.h"

typedef struct pare_export_job {
    const char *artifact, *output; /* paths as given */
    const pare_export_target *target;
    bool restart; /* replace a finished output */
    bool strict;  /* refuse what would round to other codes */
} pare_export_job;

/* What became of a linear. */
typedef struct pare_export_row {
    const char *name;
    const char *was; /* "int4 g32 sym"; NULL: a float matrix */
    pare_export_fate fate;
    const char *type; /* of its blocks or floats in a GGUF file, else NULL */
    bool fallback;    /* not the type that was asked for: its rows are no whole blocks of that */
    double error;     /* |W' - W| / |W|, Frobenius, W as our kernels decode it */
} pare_export_row;

typedef struct pare_export_result {
    pare_export_row *row;            /* linears of the blocks, then the head; in the arena */
    size_t rows;                     /* 0 when nothing was written */
    size_t count[PARE_EXPORT_FATES]; /* rows of each fate */
    double error;                    /* as of a row, over all quantized linears */
    uint64_t bytes;                  /* of the weight files */
    const char *notice;              /* what the format does not carry on, or NULL */
} pare_export_result;

/* Its file in every output. */
#define PARE_EXPORT_RECORD "pare-export.json"

/* Members of an open object: what an export came to, with `rows` for each linear. */
void pare_export_put(pare_json_writer *w, const pare_export_result *r, bool rows);

/* What a finished artifact, or a plan of one, is for the targets: every linear of the blocks in
 * order, then the head. `packed` [count] describes those that are quantized, `config` is
 * config.json. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_describe(pare_arena *a, const pare_model *model,
                                              const pare_json *config,
                                              const pare_packed_linear *packed, size_t count,
                                              pare_export_model *out);

/* Whether an export may go to `output`; *partial is the directory beside it where the work goes.
 * What lies there must be an export, and is replaced only with restart. PARE_EEXISTS, PARE_EUSAGE
 * for an empty path, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_place(pare_ctx *cx, pare_arena *a, const char *artifact,
                                           const char *output, bool restart, char **partial);

/* Writes OUTPUT.partial, a file for targets of GGUF and else a directory, reads it back as the
 * engine would and compares every weight of every linear, and every other tensor byte by byte, and
 * renames it to OUTPUT.
 *
 * OUTPUT/pare-export.json says what it is, and marks what --restart may replace.
 *
 * PARE_EEXISTS   a finished output is there (without restart), or what no export left, or the
 *                artifact itself
 * PARE_ENOTSUP   the target cannot hold the artifact, or not without other codes (strict): linear
 *                and reason, before a byte is written
 * PARE_ENUMERIC  what was read back differs: a mistake of this program, or a weight that the floats
 *                of the model do not reach; nothing stays
 * PARE_EFORMAT, PARE_ENOTFOUND, PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED
 * Memory         two matrices of a linear in F32, its codes and tensors. */
PARE_CHECKED pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                                         pare_export_result *out);

#endif
