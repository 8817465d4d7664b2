/* compress/plan/plan_room.h - parts of the memory of a job that other files of a plan find. */
#ifndef PARE_COMPRESS_PLAN_PLAN_ROOM_H
#define PARE_COMPRESS_PLAN_PLAN_ROOM_H

#include "compress/plan/plan.h"

/* Bytes that a job takes however small the model is. */
uint64_t pare__plan_certain_bytes(const pare_ctx *cx, const pare_plan *plan,
                                  const pare_settled *settled);

/* Of structured steps, beside the allocator: columns of the widest matrix in a product, or 0; and
 * bytes that counting parts, and eigenvectors by BLAS, leave in the process. */
size_t pare__plan_structure_widest(const pare_plan *plan);
uint64_t pare__plan_structure_outside(const pare_plan *plan);

#endif
