/* tests/ptx/ptx_memory.h - addresses of the device and what lies there. */
#ifndef PARE_TESTS_PTX_MEMORY_H
#define PARE_TESTS_PTX_MEMORY_H

#include "tests/ptx/ptx_internal.h"

/* Upper halves of addresses that are not shared, local or constant offsets. */
enum {
    PTX_HIGH_GLOBAL = 0x40000000, /* + index of the allocation */
    PTX_HIGH_SHARED = 0x50000000,
    PTX_HIGH_LOCAL = 0x60000000,
    PTX_HIGH_PARAM = 0x68000000,
    PTX_HIGH_CONST = 0x70000000
};

typedef enum ptx_space {
    PTX_GENERIC,
    PTX_GLOBAL,
    PTX_SHARED,
    PTX_LOCAL,
    PTX_PARAM,
    PTX_CONST
} ptx_space;

/* Bits of x of an access to memory. */
#define PTX_X_SPACE(x) ((ptx_space)((x)&7))
#define PTX_X_SIZE(x)  (1u << ((x) >> 3 & 7)) /* bytes of an element */
#define PTX_X_COUNT(x) ((x) >> 6 & 7)         /* elements: 1, 2, 4 */
enum {
    PTX_X_SIGNED = 1 << 9,
    PTX_X_WIDE = 1 << 10, /* the address register has 64 bits */
    PTX_X_TO64 = 1 << 11, /* registers of values have 64 bits */
    PTX_X_NC = 1 << 12,
    PTX_X_ACQUIRE = 1 << 13, /* or release: orders other accesses */
    PTX_X_STRONG = 1 << 14   /* volatile or relaxed */
};

struct ptx_segment {
    uint8_t *bytes;   /* NULL: given back */
    uint8_t *defined; /* a byte per byte: 1 or 0 */
    uint64_t size;
    uint32_t launch, counted; /* whose the next ones are */
    uint16_t *cells;          /* ptx_global.c; NULL: no launch with full checks used it */
    size_t first, last;       /* the cells that the launch used: [first, last) */
    uint32_t shift;           /* of cells */
    uint8_t *sectors;         /* ptx_count.c: one per 32 bytes; NULL: no launch counted */
};

typedef struct ptx_access {
    ptx_space space; /* never generic */
    uint32_t bytes;
    bool write, atomic;
    uint64_t address[PTX_LANES];
    uint8_t *host[PTX_LANES];    /* of lanes that run */
    uint8_t *defined[PTX_LANES]; /* a byte per byte; NULL: all of it is */
} ptx_access;

static inline void ptx_access_begin(ptx_access *t, ptx_space space, uint32_t bytes, bool write)
{
    t->space =
        space; /* the lanes are filled by ptx_reach(): zeroing them takes longer than a load */
    t->bytes = bytes;
    t->write = write;
    t->atomic = false;
}

/* Finds the bytes of every lane that runs: register in->a plus in->b; checks bounds and alignment.
 */
bool ptx_reach(ptx_warp *w, const ptx_ins *in, ptx_access *t);
/* Lanes whose `bytes` bytes at offset are not all defined. */
uint32_t ptx_undefined(const ptx_warp *w, const ptx_access *t, uint32_t offset, uint32_t bytes);
ptx_segment *ptx_segment_of(const ptx_machine *m, uint64_t address);

/* What every access of memory passes once it is found: counters and races (ptx_count.c). */
bool ptx_note_watched(ptx_warp *w, const ptx_ins *in, const ptx_access *t);
static inline bool ptx_note(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    return !w->block->watched || ptx_note_watched(w, in, t);
}

/* Copies in flight (ptx_copy.c). */
void ptx_copies_begin(ptx_warp *w);
void ptx_copies_free(ptx_warp *w);

/* mbarriers and bulk copies (ptx_phase.c). */
void ptx_phases_begin(ptx_block *b);
void ptx_phases_free(ptx_block *b);
bool ptx_bulk_land(ptx_block *b); /* one of those in flight; false: there are none */

#endif
