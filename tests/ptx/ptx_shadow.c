/* tests/ptx/ptx_shadow.c - shared memory: races between lanes, and copies in flight (ptx_shadow.h).
 */
#include "tests/ptx/ptx_shadow.h"

#include <stdlib.h>

enum { ATOMIC = 1, FLIGHT = 2, MANY = 32 };

/* The last write of a cell. */
typedef struct cell {
    uint32_t time, loc, serial; /* serial: of the instruction */
    uint16_t warp;
    uint8_t lane, flags;
} cell;

/* The last read of a cell by a warp. */
typedef struct reader {
    uint32_t time;
    uint32_t loc : 26, lane : 6; /* lane MANY: several, none ordered before another */
} reader;

typedef struct meeting {
    uint32_t *seen; /* [warps], what those that arrived know together */
    uint32_t waiting;
} meeting;

struct ptx_shadow {
    uint32_t shift, warps, time, serial;
    uint32_t start; /* time at which the block began */
    size_t cells;
    cell *cell;
    reader *reader;  /* [cells][warps] */
    uint32_t *known; /* [warps][warps] */
    meeting meetings[PTX_BARRIERS];
};

static void *room(size_t count, size_t size)
{
    void *const p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

ptx_shadow *ptx_shadow_new(const ptx_block *b)
{
    ptx_shadow *const s = room(1, sizeof *s);
    s->shift = b->grid->kernel->narrow ? 0 : 2;
    s->warps = b->warp_count;
    s->cells = ((size_t)(b->shared_end - PTX_SHARED_START) >> s->shift) + 1;
    s->cell = room(s->cells, sizeof *s->cell);
    s->reader = room(s->cells * s->warps, sizeof *s->reader);
    s->known = room((size_t)s->warps * s->warps, sizeof *s->known);
    for (int k = 0; k < PTX_BARRIERS; k++)
        s->meetings[k].seen = room(s->warps, sizeof *s->meetings[k].seen);
    return s;
}

void ptx_shadow_free(ptx_shadow *s)
{
    if (!s)
        return;
    for (int k = 0; k < PTX_BARRIERS; k++)
        free(s->meetings[k].seen);
    free(s->cell);
    free(s->reader);
    free(s->known);
    free(s);
}

/* Time goes on over the blocks of a launch, and every warp knows of all that came before its block:
 * tables of megabytes need not be cleared for each. */
void ptx_shadow_begin(ptx_block *b)
{
    ptx_shadow *const s = b->shadow;
    if (!s)
        return;
    if (s->time > UINT32_MAX / 2) {
        memset(s->cell, 0, s->cells * sizeof *s->cell);
        memset(s->reader, 0, s->cells * s->warps * sizeof *s->reader);
        s->time = 0;
    }
    s->start = ++s->time;
    for (size_t k = 0; k < (size_t)s->warps * s->warps; k++)
        s->known[k] = s->start;
    for (int k = 0; k < PTX_BARRIERS; k++) {
        memset(s->meetings[k].seen, 0, s->warps * sizeof *s->meetings[k].seen);
        s->meetings[k].waiting = 0;
    }
}

static unsigned line_of(const ptx_warp *w, uint32_t loc)
{
    const ptx_loc *const l = &w->block->grid->kernel->module->locs[loc];
    return l->line ? l->line : l->ptx_line;
}

static bool knows(const ptx_shadow *s, const ptx_warp *w, uint32_t warp, uint32_t time)
{
    return s->known[w->index * s->warps + warp] > time;
}

/* Whether the write of a cell comes before what this lane does now, or is part of it. */
static bool after_write(const ptx_shadow *s, const ptx_warp *w, const cell *c, uint32_t lane,
                        const ptx_access *t)
{
    if (knows(s, w, c->warp, c->time))
        return true;
    return (c->warp == w->index && (c->lane == lane || c->serial == s->serial)) ||
           (t->atomic && c->flags & ATOMIC);
}

static bool after_reads(const ptx_shadow *s, const ptx_warp *w, const reader *readers,
                        uint32_t lane, uint32_t *warp)
{
    for (*warp = 0; *warp < s->warps; ++*warp) {
        const reader *const r = &readers[*warp];
        if (!knows(s, w, *warp, r->time) && !(*warp == w->index && r->lane == lane))
            return false;
    }
    return true;
}

static bool check(ptx_warp *w, const ptx_ins *in, const ptx_access *t, uint32_t lane, size_t at)
{
    const ptx_shadow *const s = w->block->shadow;
    const cell *const c = &s->cell[at];
    const char *const verb = t->write ? "writes" : "reads";
    const unsigned address = PTX_SHARED_START + (unsigned)(at << s->shift);
    uint32_t warp = 0;
    if (c->flags & FLIGHT && c->time >= s->start) {
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "%s shared memory at %#x, which a copy of line %u is on its way to (warp %u, "
                 "lane %u has not waited for it)",
                 verb, address, line_of(w, c->loc), c->warp, c->lane);
        return false;
    }
    if (!after_write(s, w, c, lane, t)) {
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "%s shared memory at %#x, which lane %u of warp %u wrote at line %u, with no "
                 "barrier between",
                 verb, address, c->lane, c->warp, line_of(w, c->loc));
        return false;
    }
    if (t->write && !after_reads(s, w, &s->reader[at * s->warps], lane, &warp)) {
        const reader *const r = &s->reader[at * s->warps + warp];
        ptx_fail(w, in, 1u << lane, t->address[lane],
                 "writes shared memory at %#x, which lane %u%s of warp %u read at line %u, with no "
                 "barrier between",
                 address, r->lane % MANY, r->lane == MANY ? " or another" : "", warp,
                 line_of(w, r->loc));
        return false;
    }
    return true;
}

static void note_read(ptx_shadow *s, const ptx_warp *w, const ptx_ins *in, uint32_t lane, size_t at)
{
    reader *const r = &s->reader[at * s->warps + w->index];
    const bool other = !knows(s, w, w->index, r->time) && r->lane != lane;
    *r = (reader){.time = s->time, .loc = in->loc & 0x3ffffff, .lane = (other ? MANY : lane) & 63};
}

static void note_write(ptx_shadow *s, const ptx_warp *w, const ptx_ins *in, uint32_t lane,
                       size_t at, uint8_t flags)
{
    s->cell[at] = (cell){.time = s->time,
                         .loc = in->loc,
                         .serial = s->serial,
                         .warp = (uint16_t)w->index,
                         .lane = (uint8_t)lane,
                         .flags = flags};
}

static bool shared_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t, uint8_t flags)
{
    ptx_shadow *const s = w->block->shadow;
    s->serial++;
    for (uint32_t left = w->act; left; left &= left - 1) {
        const uint32_t i = (uint32_t)__builtin_ctz(left);
        const uint64_t from = t->address[i] - PTX_SHARED_START;
        for (size_t at = from >> s->shift; at <= (from + t->bytes - 1) >> s->shift; at++) {
            if (!check(w, in, t, i, at))
                return false;
            if (t->write)
                note_write(s, w, in, i, at, flags);
            else
                note_read(s, w, in, i, at);
        }
    }
    return true;
}

bool ptx_shadow_access(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    if (t->space == PTX_GLOBAL)
        return ptx_edges_access(w, in, t);
    if (t->space != PTX_SHARED || !w->block->shadow)
        return true;
    return shared_access(w, in, t, t->atomic ? ATOMIC : 0);
}

bool ptx_shadow_flight(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    return !w->block->shadow || shared_access(w, in, t, FLIGHT);
}

void ptx_shadow_land(ptx_warp *w, const ptx_ins *in, uint32_t lane, uint64_t address,
                     uint32_t bytes)
{
    ptx_shadow *const s = w->block->shadow;
    const uint64_t from = address - PTX_SHARED_START;
    s->serial++;
    for (size_t at = from >> s->shift; at <= (from + bytes - 1) >> s->shift; at++)
        note_write(s, w, in, lane, at, 0);
}

/* ---- meetings ---- */
void ptx_shadow_arrive(ptx_warp *w, uint32_t id, bool waits)
{
    ptx_shadow *const s = w->block->shadow;
    if (!s)
        return;
    meeting *const at = &s->meetings[id];
    ptx_shadow_publish(w, at->seen);
    at->waiting |= waits ? 1u << w->index : 0;
}

void ptx_shadow_release(ptx_block *b, uint32_t id)
{
    ptx_shadow *const s = b->shadow;
    if (!s)
        return;
    meeting *const at = &s->meetings[id];
    s->time++;
    for (uint32_t w = 0; w < s->warps; w++) {
        uint32_t *const known = &s->known[w * s->warps];
        for (uint32_t v = 0; at->waiting >> w & 1 && v < s->warps; v++)
            known[v] = known[v] > at->seen[v] ? known[v] : at->seen[v];
    }
    memset(at->seen, 0, s->warps * sizeof *at->seen);
    at->waiting = 0;
    s->time++;
}

void ptx_shadow_publish(ptx_warp *w, uint32_t *seen)
{
    ptx_shadow *const s = w->block->shadow;
    for (uint32_t v = 0; s && v < s->warps; v++) {
        const uint32_t known = s->known[w->index * s->warps + v];
        seen[v] = seen[v] > known ? seen[v] : known;
    }
    if (s)
        seen[w->index] = ++s->time;
}

void ptx_shadow_learn(ptx_warp *w, const uint32_t *seen)
{
    ptx_shadow *const s = w->block->shadow;
    for (uint32_t v = 0; s && v < s->warps; v++) {
        uint32_t *const known = &s->known[w->index * s->warps + v];
        *known = *known > seen[v] ? *known : seen[v];
    }
    if (s)
        s->time++;
}

void ptx_shadow_warpsync(ptx_warp *w, uint32_t lanes)
{
    ptx_shadow *const s = w->block->shadow;
    if (s && (w->live & ~lanes) == 0)
        s->known[w->index * s->warps + w->index] = ++s->time;
}
