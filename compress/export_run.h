/* compress/export_run.h - an export on its way. */
#ifndef PARE_COMPRESS_EXPORT_RUN_H
#define PARE_COMPRESS_EXPORT_RUN_H

#include "compress/export.h"

typedef struct pare__export {
    pare_ctx *cx;
    pare_arena *a;
    pare_arena scratch;
    const pare_export_job *job;
    char *output, *partial; /* without slashes at the end */
    pare_checkpoint ck;
    pare_model model;
    pare_export_model shape;
    bool *plane; /* [ck.tensors] belongs to a linear or a cache */
    pare_packed_layout layout;
    pare_packed_writer *writer;
    double square, difference;
    pare_export_result *out;
} pare__export;

/* Whether a linear gets tensors of its own, instead of going along; by which target; and whether
 * its bias is one of them. */
bool pare__export_writes(const pare_export_linear *l);
const pare_export_target *pare__export_writer(const pare__export *e, const pare_export_linear *l);
bool pare__export_joins_bias(const pare_export_linear *l);

/* Reads OUTPUT.partial back as the engine would and compares; fills the errors of e->out. */
PARE_CHECKED pare_status pare__export_read_back(pare__export *e);

/* The same for an OUTPUT that is a GGUF file; and all that is left to do for one. */
PARE_CHECKED pare_status pare__export_gguf_place(pare__export *e);
PARE_CHECKED pare_status pare__export_gguf(pare__export *e);

#endif
