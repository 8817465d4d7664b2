/* compress/export/export_run.h - an export on its way. */
#ifndef PARE_COMPRESS_EXPORT_EXPORT_RUN_H
#define PARE_COMPRESS_EXPORT_EXPORT_RUN_H

#include "compress/export/export.h"
#include "formats/export_gguf.h"

typedef struct pare__export {
    pare_ctx *cx;
    pare_arena *a, *kept; /* kept: rows, which outlive it */
    pare_arena scratch;
    const pare_export_job *job;
    const pare_export_target *target;
    size_t ranks;
    bool strict;
    pare_export_place place;
    pare_lock lock;
    pare_checkpoint ck;
    pare_model model;
    pare_export_source source;
    bool *plane; /* [source.tensors] belongs to a linear or a cache */
    double square, difference;
    pare_export_result *out;

    /* A directory. */
    pare_packed_layout layout;
    pare_packed_writer *writer;

    /* A file. */
    pare_gguf_item *item; /* its tensors, slots of the writer */
    size_t items;
    pare_gguf_writer gguf;
} pare__export;

/* Everything but the weights: rows, tensors and where they lie. */
PARE_CHECKED pare_status pare__export_outline(pare__export *e);

/* How a directory has a linear: whether it gets tensors of its own, instead of going along; by
 * which target; whether its bias is one of them, of which type; the model, but for the type of
 * matrices that stay floats; and the tensors, with the bias of one that is joined behind them. */
bool pare__export_writes(const pare_export_linear *l);
const pare_export_target *pare__export_writer(const pare__export *e, const pare_export_linear *l);
bool pare__export_joins_bias(const pare_export_linear *l);
pare_dtype pare__export_bias_type(const pare__export *e, const pare_export_linear *l);
pare_export_model pare__export_shape_for(const pare__export *e, const pare_export_linear *l);
size_t pare__export_parts(const pare__export *e, const pare_export_linear *l,
                          pare_export_part part[PARE_EXPORT_PARTS]);

/* Writes the partial directory or file, reads it back as the engine would and compares; fills the
 * errors of the rows. PARE_ENUMERIC, PARE_ENOTSUP for what a file cannot say. */
PARE_CHECKED pare_status pare__export_directory(pare__export *e);
PARE_CHECKED pare_status pare__export_read_back(pare__export *e);
PARE_CHECKED pare_status pare__export_file(pare__export *e);
PARE_CHECKED pare_status pare__export_file_check(pare__export *e);

/* PARE_ENUMERIC where a tensor lost more than a tenth of its squares: its values are too small for
 * `type`. Ternary codes lose as much by their nature. */
PARE_CHECKED pare_status pare__export_check_lost(const pare__export *e, const char *name,
                                                 const char *type, double difference,
                                                 double square);

/* Rows of each fate, once more: what was rounded may turn out to be the same. */
void pare__export_count(pare_export_result *r);

#endif
