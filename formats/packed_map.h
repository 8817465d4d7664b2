/* formats/packed_map.h - what a writer has written, as views that take no memory of their own. */
#ifndef PARE_FORMATS_PACKED_MAP_H
#define PARE_FORMATS_PACKED_MAP_H

#include "formats/packed.h"
#include "runtime/file.h"

/* The bytes of one entry as they stand in the file, those that pare_packed_put writes later
 * included; read only, until the writer is closed. A file is mapped once. PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_packed_map(pare_ctx *cx, pare_packed_writer *w,
                                         const pare_packed_entry *e, void **bytes);

/* A packed file of the layout, as pare_packed_map. */
PARE_CHECKED pare_status pare_packed_map_file(pare_ctx *cx, pare_packed_writer *w, uint32_t shard,
                                              pare_file *out);

/* All planes of a linear likewise, as the runtime takes them: pare_packed_view, with what it makes
 * in the arena. PARE_EFORMAT when the layout lacks a plane. */
PARE_CHECKED pare_status pare_packed_map_linear(pare_ctx *cx, pare_arena *a, pare_packed_writer *w,
                                                const pare_packed_layout *layout,
                                                const pare_packed_linear *l, pare_linear *out);

#endif
