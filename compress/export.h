/* compress/export.h - an artifact written as files of another engine. */
#ifndef PARE_COMPRESS_EXPORT_H
#define PARE_COMPRESS_EXPORT_H

#include "formats/export_target.h"

typedef struct pare_export_job {
    const char *artifact, *output; /* paths as given */
    const pare_export_target *target;
    bool restart; /* replace a finished output */
} pare_export_job;

typedef struct pare_export_result {
    size_t linears, packed; /* of the model; quantized ones */
    size_t rounded;         /* whose weights the format's floats do not have exactly */
    double error;           /* |W' - W|^2 / |W|^2 over all of them, W as our kernels decode it */
    uint64_t bytes;         /* of the weight files */
    const char *notice;     /* what the format does not carry on, or NULL */
} pare_export_result;

/* What a finished artifact, or a plan of one, is for the targets: every linear of the blocks in
 * order, then the head. `packed` [count] describes those that are quantized. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_export_describe(pare_arena *a, const pare_model *model,
                                              const pare_packed_linear *packed, size_t count,
                                              pare_export_model *out);

/* Writes OUTPUT.partial, reads it back as the engine would and compares every weight of every
 * linear, and every other tensor byte by byte, and renames it to OUTPUT.
 *
 * PARE_EEXISTS   a finished output is there (without restart), or it is the artifact
 * PARE_ENOTSUP   the target cannot hold the artifact: linear and reason, before a byte is written
 * PARE_ENUMERIC  what was read back differs: a mistake of this program; nothing stays
 * PARE_EFORMAT, PARE_ENOTFOUND, PARE_EIO, PARE_ENOSPC, PARE_ENOMEM, PARE_EINTERRUPTED
 * Memory         two matrices of a linear in F32, its codes and tensors. */
PARE_CHECKED pare_status pare_export_run(pare_ctx *cx, pare_arena *a, const pare_export_job *job,
                                         pare_export_result *out);

#endif
