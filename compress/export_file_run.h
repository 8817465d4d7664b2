/* compress/export_file_run.h - a GGUF file on its way. */
#ifndef PARE_COMPRESS_EXPORT_FILE_RUN_H
#define PARE_COMPRESS_EXPORT_FILE_RUN_H

#include "compress/export_run.h"
#include "formats/export_gguf.h"

typedef struct pare__gguf_run {
    pare__export *e;
    pare_gguf_item *item; /* the tensors, slots of the writer */
    size_t items;
    pare_export_row **row; /* [items] NULL for what is no linear */
    pare_gguf_writer w;
} pare__gguf_run;

/* Reads OUTPUT.partial with the reader of such files: every value, every code that was quantized
 * again, the configuration, and how the tokenizer cuts the text of each of its tokens. Fills the
 * errors of the rows. PARE_ENUMERIC, PARE_ENOTSUP for what the file cannot say. */
PARE_CHECKED pare_status pare__export_gguf_check(pare__gguf_run *r);

#endif
