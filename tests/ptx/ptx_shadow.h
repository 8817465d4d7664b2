/* tests/ptx/ptx_shadow.h - which accesses of memory are ordered (full checks).
 *
 * A block counts events: the time. An access at time T by warp v comes before what warp w does now
 * if w knows a time of v behind T: known[w][v] > T. Barriers hand on what warps know; inside of a
 * warp another lane's access is known behind a barrier or bar.warp.sync. Shuffles, votes and tensor
 * instructions order nothing. Of each cell of shared memory (4 bytes, or one where the kernel
 * has narrower accesses) the last write is kept, and the last read of every warp. */
#ifndef PARE_TESTS_PTX_SHADOW_H
#define PARE_TESTS_PTX_SHADOW_H

#include "tests/ptx/ptx_memory.h"

typedef struct ptx_shadow ptx_shadow;

ptx_shadow *ptx_shadow_new(const ptx_block *b);
void ptx_shadow_free(ptx_shadow *s);
void ptx_shadow_begin(ptx_block *b); /* a block starts: nothing was accessed */

/* Checks an access that ptx_reach() found against those before it, and notes it; false: a fault was
 * reported. Does nothing without full checks. */
bool ptx_shadow_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t);

/* A copy of one lane into shared memory is issued; it lands, as a write of its lane. */
bool ptx_shadow_flight(ptx_warp *w, const ptx_ins *in, const ptx_access *t);
void ptx_shadow_land(ptx_warp *w, const ptx_ins *in, uint32_t lane, uint64_t address,
                     uint32_t bytes);

/* A warp arrives at a barrier; the barrier opens for the warps that wait at it. */
void ptx_shadow_arrive(ptx_warp *w, uint32_t id, bool waits);
void ptx_shadow_release(ptx_block *b, uint32_t id);
/* An mbarrier: what a warp knows joins what is seen there; a warp learns that. */
void ptx_shadow_publish(ptx_warp *w, uint32_t *seen);
void ptx_shadow_learn(ptx_warp *w, const uint32_t *seen);
void ptx_shadow_warpsync(ptx_warp *w, uint32_t lanes);

/* Global memory between blocks: what a block wrote another may use when the first one made a fence
 * and then an atomic access, and the other an atomic access of the same word and then a fence. */
typedef struct ptx_edges ptx_edges;

ptx_edges *ptx_edges_new(const ptx_grid *g);
void ptx_edges_free(ptx_edges *e);
void ptx_edges_fence(ptx_warp *w);
bool ptx_edges_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t);

#endif
