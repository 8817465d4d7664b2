/* formats/dense.h - a plain checkpoint as other programs read it, laid out and written like packed
 * files: model.safetensors, or shards model-00001-of-0000N.safetensors with
 * model.safetensors.index.json. */
#ifndef PARE_FORMATS_DENSE_H
#define PARE_FORMATS_DENSE_H

#include "formats/packed.h"

/* Lays out `tensors`, tensor i written by unit[i], as pare_packed_layout_make does; the writer,
 * pare_packed_find and the entries work alike. PARE_ENOMEM, PARE_EFORMAT. */
PARE_CHECKED pare_status pare_packed_layout_dense(pare_ctx *cx, pare_arena *a,
                                                  const pare_tensor *tensors, const size_t *unit,
                                                  size_t count, uint64_t shard_bytes,
                                                  pare_packed_layout *out);

/* File of the index, NULL when there is none. */
const char *pare_packed_index_name(const pare_packed_layout *l);

#endif
