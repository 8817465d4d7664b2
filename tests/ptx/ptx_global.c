/* tests/ptx/ptx_global.c - global memory between the blocks of a launch (full checks, one thread).
 *
 * A block may use what another one wrote in this launch only behind an edge: the writer makes a
 * fence and then an atomic access, the reader an atomic access of the same word and then a fence.
 * Kept per cell (4 bytes, or one where the kernel has narrower accesses): the last block that
 * wrote, the one that read or MANY; blocks beyond 65,533 count anew from 0. */
#include <stdlib.h>

#include "tests/ptx/ptx_shadow.h"

enum { MANY = 65535 };

/* A word of memory that blocks released through an atomic access. */
typedef struct gate {
    uint64_t address;
    uint8_t *blocks; /* a bit per block */
} gate;

struct ptx_edges {
    gate *gates;
    size_t gate_count, bytes; /* of a set of blocks */
    uint8_t *pending, *known; /* of the block that runs: behind its next fence; now */
    uint64_t block;           /* whose these are, + 1 */
    uint64_t wrote, fenced, time;
};

static void *room(size_t count, size_t size)
{
    void *const p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

ptx_edges *ptx_edges_new(const ptx_grid *g)
{
    ptx_edges *const e = room(1, sizeof *e);
    e->bytes = g->blocks / 8 + 1;
    e->pending = room(e->bytes, 1);
    e->known = room(e->bytes, 1);
    return e;
}

void ptx_edges_free(ptx_edges *e)
{
    if (!e)
        return;
    for (size_t k = 0; k < e->gate_count; k++)
        free(e->gates[k].blocks);
    free(e->gates);
    free(e->pending);
    free(e->known);
    free(e);
}

/* The state of the block that runs; a new one knows of no other. */
static ptx_edges *edges_of(const ptx_warp *w)
{
    ptx_edges *const e = w->block->grid->edges;
    if (e && e->block != w->block->position + 1) {
        memset(e->pending, 0, e->bytes);
        memset(e->known, 0, e->bytes);
        e->block = w->block->position + 1;
        e->wrote = e->fenced = 0;
    }
    return e;
}

void ptx_edges_fence(ptx_warp *w)
{
    ptx_edges *const e = edges_of(w);
    if (!e)
        return;
    e->fenced = ++e->time;
    for (size_t k = 0; k < e->bytes; k++)
        e->known[k] |= e->pending[k];
}

static void pass_gate(ptx_edges *e, uint64_t address, uint64_t block)
{
    size_t k = 0;
    while (k < e->gate_count && e->gates[k].address != address)
        k++;
    if (k == e->gate_count) {
        e->gates = ptx_grow(e->gates, e->gate_count, sizeof *e->gates);
        e->gates[e->gate_count++] = (gate){address, room(e->bytes, 1)};
    }
    gate *const g = &e->gates[k];
    for (size_t j = 0; j < e->bytes; j++)
        e->pending[j] |= g->blocks[j];
    if (e->fenced > e->wrote)
        g->blocks[block / 8] |= (uint8_t)(1u << block % 8);
}

static bool known(const ptx_edges *e, uint32_t block)
{
    return block < e->bytes * 8 && e->known[block / 8] >> block % 8 & 1;
}

static uint32_t shift_of(const ptx_grid *g)
{
    return g->kernel->narrow ? 0 : 2;
}

/* The cells of an allocation in this launch: who wrote, who read. Those that the last one used are
 * cleared: an allocation may be most of the memory, and a launch use little of it. */
static uint16_t *cells_of(const ptx_grid *g, ptx_segment *s)
{
    if (s->launch != g->launch_number || !s->cells) {
        if (s->cells && s->shift == shift_of(g) && s->first < s->last) {
            memset(s->cells + 2 * s->first, 0, (s->last - s->first) * 2 * sizeof *s->cells);
        } else if (!s->cells || s->shift != shift_of(g)) {
            free(s->cells);
            s->shift = shift_of(g);
            s->cells = room(((s->size >> s->shift) + 1) * 2, sizeof *s->cells);
        }
        s->first = SIZE_MAX;
        s->last = 0;
        s->launch = g->launch_number;
    }
    return s->cells;
}

static bool cell_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t, uint32_t lane,
                        ptx_edges *e, uint16_t *cell)
{
    const uint16_t self = (uint16_t)(w->block->position % (MANY - 1) + 1);
    const bool foreign = cell[0] && cell[0] != self && !known(e, cell[0] - 1u);
    const uint32_t *const order = w->block->grid->order;
    if (in->x & PTX_X_NC && !t->write && cell[0]) {
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "reads through the read-only cache what this launch wrote");
        return false;
    }
    if (!t->atomic && !(in->x & (PTX_X_STRONG | PTX_X_ACQUIRE)) && foreign) {
        const uint32_t other = cell[0] - 1u;
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "%s global memory at %#llx, which block %u wrote in this launch, with no fence "
                 "and atomic access between",
                 t->write ? "writes" : "reads", (unsigned long long)t->address[lane],
                 order ? order[other] : other);
        return false;
    }
    if (!t->atomic && t->write && cell[1] && cell[1] != self && !known(e, cell[1] - 1u)) {
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "writes global memory at %#llx, which another block read in this launch",
                 (unsigned long long)t->address[lane]);
        return false;
    }
    if (t->write && !t->atomic)
        cell[0] = self;
    if (!t->write)
        cell[1] = cell[1] == 0 || cell[1] == self ? self : MANY;
    return true;
}

bool ptx_edges_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    ptx_edges *const e = edges_of(w);
    if (!e)
        return true;
    const ptx_grid *const g = w->block->grid;
    for (uint32_t left = w->act; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        ptx_segment *const s = ptx_segment_of(g->machine, t->address[i]);
        uint16_t *const cells = cells_of(g, s);
        const uint64_t from = (uint32_t)t->address[i] - (uint64_t)PTX_GUARD;
        if (t->atomic || in->x & PTX_X_ACQUIRE)
            pass_gate(e, t->address[i] & ~(uint64_t)3, w->block->position);
        const uint64_t first = from >> s->shift, end = ((from + t->bytes - 1) >> s->shift) + 1;
        s->first = first < s->first ? first : s->first;
        s->last = end > s->last ? end : s->last;
        for (uint64_t at = first; at < end; at++)
            if (!cell_access(w, in, t, i, e, &cells[2 * at]))
                return false;
    }
    if (t->write && !t->atomic)
        e->wrote = ++e->time;
    return true;
}
