/* formats/packed_internal.h - shared by the parts that pack. */
#ifndef PARE_FORMATS_PACKED_INTERNAL_H
#define PARE_FORMATS_PACKED_INTERNAL_H

#include "formats/packed.h"

/* What becomes of inputs, for people: "x int8 per token", "x f32"; "" for int8 per group. */
const char *pare__activation_text(const pare_activation *a, char text[PARE_PACKED_TEXT]);

/* Packs what is left of a pruned matrix: codes or values of the places and their indices, or mask
 * and values. Errors of pare_packed_pack. */
PARE_CHECKED pare_status pare__packed_pack_pruned(pare_ctx *cx, pare_arena *a,
                                                  const pare_packed_linear *l,
                                                  const pare_codes *from,
                                                  const pare_packed_planes *to);

/* The same, read: indices that ascend; or `start` of the rows of a mask, in the arena.
 * PARE_EFORMAT, PARE_ENOMEM. */
PARE_CHECKED pare_status pare__packed_view_pruned(pare_ctx *cx, pare_arena *a,
                                                  const pare_packed_linear *l, void *const *plane,
                                                  pare_linear *out);

#endif
