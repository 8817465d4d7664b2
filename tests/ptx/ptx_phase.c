/* tests/ptx/ptx_phase.c - mbarriers in shared memory, and bulk copies that complete their phases.
 *
 * A phase ends when all arrivals came and all bytes that were expected landed. Lanes that wait for
 * it rest until then. A bulk copy lands at a random moment of a random order, with options.early
 * when it is issued, else when no warp can go on. */
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"
#include "tests/ptx/ptx_shadow.h"

typedef struct phase {
    uint64_t address, number; /* number: of phases that ended */
    uint32_t count, pending;  /* arrivals of a phase; those that lack */
    int64_t bytes;            /* that are expected less those that landed */
    uint32_t seen[PTX_LANES]; /* what those that arrived knew of each warp (ptx_shadow.h) */
} phase;

typedef struct bulk {
    uint8_t *to, *to_defined;
    const uint8_t *from, *from_defined;
    const ptx_ins *in;
    ptx_warp *warp;
    uint64_t address, phase_at;
    uint32_t lane, bytes;
} bulk;

struct ptx_phases {
    phase *list;
    bulk *copies;
    size_t count, copy_count;
};

static ptx_phases *phases_of(ptx_block *b)
{
    if (!b->phases && !(b->phases = calloc(1, sizeof *b->phases)))
        abort();
    return b->phases;
}

void ptx_phases_free(ptx_block *b)
{
    if (b->phases) {
        free(b->phases->list);
        free(b->phases->copies);
    }
    free(b->phases);
    b->phases = NULL;
}

void ptx_phases_begin(ptx_block *b)
{
    if (b->phases)
        b->phases->count = b->phases->copy_count = 0;
}

static phase *find(ptx_block *b, uint64_t address)
{
    ptx_phases *const p = phases_of(b);
    for (size_t k = 0; k < p->count; k++)
        if (p->list[k].address == address)
            return &p->list[k];
    return NULL;
}

/* Ends the phase if nothing lacks; then all lanes that wait look again. */
static void settle(ptx_block *b, phase *at)
{
    if (at->pending || at->bytes)
        return;
    at->number++;
    at->pending = at->count;
    for (uint32_t k = 0; k < b->warp_count; k++) {
        ptx_warp *const w = &b->warps[k];
        if (!w->at_phase)
            continue;
        w->at_phase = false;
        w->blocked = 0;
        w->stop = 0;
        if (w->state == PTX_AT_PHASE)
            w->state = PTX_READY;
    }
}

static void arrive(ptx_warp *w, const ptx_ins *in, phase *at, uint32_t lane, uint32_t lanes)
{
    if (lanes == 0 || lanes > at->pending) {
        ptx_fail(w, in, 1u << lane, at->address, "%u arrivals at an mbarrier where %u lack", lanes,
                 at->pending);
        return;
    }
    at->pending -= lanes;
    ptx_shadow_publish(w, at->seen);
    settle(w->block, at);
}

enum { INIT, INVALID, ARRIVE, ARRIVE_EXPECT, EXPECT, WAIT_PARITY, WAIT_STATE };

/* One lane; false: it has to wait. */
static bool one(ptx_warp *w, const ptx_ins *in, uint32_t i, uint64_t address, const uint32_t *more)
{
    ptx_block *const b = w->block;
    phase *at = find(b, address);
    const uint32_t value = ptx_reg(w, more[1])->u32[i];
    if (in->x2 == INIT) {
        ptx_phases *const all = phases_of(b);
        if (!at) {
            all->list = ptx_grow(all->list, all->count, sizeof *all->list);
            at = &all->list[all->count++];
        }
        *at = (phase){.address = address, .count = value, .pending = value};
        return true;
    }
    if (!at) {
        ptx_fail(w, in, 1u << i, address, "there is no mbarrier at %#llx",
                 (unsigned long long)address);
        return true;
    }
    ptx_lanes *const rd = ptx_reg(w, more[0]);
    switch (in->x2) {
    case INVALID: *at = phases_of(b)->list[--phases_of(b)->count]; break;
    case ARRIVE_EXPECT: at->bytes += value; /* fall through */
    case ARRIVE:
        rd->u64[i] = at->number;
        arrive(w, in, at, i, in->x2 == ARRIVE ? value : 1);
        break;
    case EXPECT: at->bytes += value; break;
    default: {
        const bool over = in->x2 == WAIT_PARITY ? (at->number & 1) != (value & 1)
                                                : at->number > ptx_reg(w, more[1])->u64[i];
        if (over)
            ptx_shadow_learn(w, at->seen);
        return over;
    }
    }
    return true;
}

/* pool at d: the unit of d, that of a value. a, b: the address; x2: what. */
static void mbarrier(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->d;
    ptx_access t;
    ptx_access_begin(&t, PTX_SHARED, 8, true);
    t.atomic = in->x2 != INIT && in->x2 != INVALID;
    if (!ptx_known(w, in, more[1], "an operand of an mbarrier") || !ptx_reach(w, in, &t) ||
        !ptx_note(w, in, &t))
        return;
    uint32_t waiting = 0;
    for (uint32_t i = 0; i < PTX_LANES && !w->block->faulted; i++) {
        if (!(w->act >> i & 1))
            continue;
        if (t.defined[i])
            memset(t.defined[i], 1, 8);
        waiting |= (one(w, in, i, t.address[i], more) ? 0u : 1u) << i;
    }
    if (in->x2 >= WAIT_PARITY && !waiting) {
        uint32_t *const p = ptx_reg(w, more[0])->u32;
        *p |= w->act;
    }
    if (in->x2 != INIT && in->x2 != INVALID && in->x2 != EXPECT && !waiting)
        ptx_spread(w, more[0], 0);
    if (!waiting)
        return;
    for (int i = 0; i < PTX_LANES; i++)
        if (w->act >> i & 1)
            w->lane_pc[i] = (uint32_t)(in - w->code);
    w->blocked |= w->act;
    w->group &= ~w->act;
    w->stop = 0;
    w->at_phase = true;
}

/* ---- bulk copies ---- */
static void land(ptx_block *b, size_t which)
{
    ptx_phases *const p = b->phases;
    const bulk c = p->copies[which];
    p->copies[which] = p->copies[--p->copy_count];
    memcpy(c.to, c.from, c.bytes);
    if (c.to_defined) {
        memcpy(c.to_defined, c.from_defined, c.bytes);
        ptx_shadow_land(c.warp, c.in, c.lane, c.address, c.bytes);
    }
    phase *const at = find(b, c.phase_at);
    if (!at) {
        ptx_fail(c.warp, c.in, 1u << c.lane, c.phase_at, "the mbarrier of a copy is gone");
        return;
    }
    ptx_shadow_publish(c.warp, at->seen);
    at->bytes -= c.bytes;
    settle(b, at);
}

bool ptx_bulk_land(ptx_block *b)
{
    if (!b->phases || b->phases->copy_count == 0)
        return false;
    land(b, (size_t)(ptx_next(&b->random) % b->phases->copy_count));
    return true;
}

/* The ends of a range of one lane; both must lie in the object, 16 bytes aligned. */
static bool reach_range(ptx_warp *w, const ptx_ins *in, uint32_t bytes, ptx_access *t)
{
    ptx_ins end = *in;
    end.b += bytes - 16;
    return ptx_reach(w, &end, t) && ptx_reach(w, in, t);
}

/* pool at d: the units of the source, the size and the mbarrier. a: the target. */
static void bulk_copy(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->d;
    ptx_phases *const all = phases_of(w->block);
    const uint32_t act = w->act;
    if (!ptx_known(w, in, more[1], "the size of a copy") ||
        !ptx_known(w, in, more[2], "the mbarrier of a copy"))
        return;
    for (uint32_t i = 0; i < PTX_LANES && !w->block->faulted; i++) {
        const uint32_t bytes = ptx_reg(w, more[1])->u32[i];
        ptx_access to, from;
        ptx_ins source = *in;
        if (!(act >> i & 1))
            continue;
        w->act = 1u << i;
        source.a = more[0];
        source.b = 0;
        source.x = PTX_GLOBAL | PTX_X_WIDE;
        ptx_access_begin(&to, PTX_SHARED, 16, true);
        ptx_access_begin(&from, PTX_GLOBAL, 16, false);
        if (bytes == 0 || bytes % 16 || bytes > PTX_SHARED_MOST) {
            ptx_fail(w, in, w->act, 0, "a bulk copy of %u bytes", bytes);
            break;
        }
        if (!reach_range(w, in, bytes, &to) || !reach_range(w, &source, bytes, &from))
            break;
        to.bytes = from.bytes = bytes;
        if (!ptx_note(w, &source, &from) || !ptx_shadow_flight(w, in, &to))
            break;
        all->copies = ptx_grow(all->copies, all->copy_count, sizeof *all->copies);
        all->copies[all->copy_count++] =
            (bulk){.to = to.host[i],
                   .to_defined = w->block->shared_defined ? to.defined[i] : NULL,
                   .from = from.host[i],
                   .from_defined = from.defined[i],
                   .in = in,
                   .warp = w,
                   .address = to.address[i],
                   .phase_at = ptx_reg(w, more[2])->u32[i],
                   .lane = i,
                   .bytes = bytes};
        if (w->block->grid->launch->options.early)
            land(w->block, all->copy_count - 1);
    }
    w->act = act;
}

/* ---- lowering ---- */
static void no_opcode(ptx_parser *p)
{
    ptx_error(p, "opcode '%s' is not known", p->opcode);
}

static int mbarrier_kind(const ptx_parser *p)
{
    const bool expect = ptx_has(p, "expect_tx");
    if (!ptx_has(p, "b64") || !(ptx_has(p, "shared") || ptx_has(p, "shared::cta")))
        return -1;
    if (ptx_has(p, "init"))
        return INIT;
    if (ptx_has(p, "inval"))
        return INVALID;
    if (ptx_has(p, "arrive"))
        return expect ? ARRIVE_EXPECT : ARRIVE;
    if (expect)
        return EXPECT;
    return !ptx_has(p, "try_wait") ? -1 : ptx_has(p, "parity") ? WAIT_PARITY : WAIT_STATE;
}

void ptx_lower_mbarrier(ptx_parser *p)
{
    const int kind = mbarrier_kind(p);
    if (kind < 0) {
        no_opcode(p);
        return;
    }
    const bool waits = kind >= WAIT_PARITY,
               result = waits || kind == ARRIVE || kind == ARRIVE_EXPECT;
    const size_t at = result ? 1 : 0;
    const size_t least = at + (kind == INVALID || kind == ARRIVE ? 1 : 2);
    if (!ptx_need_operands(p, least, at + (kind == INVALID ? 1 : waits ? 3 : 2)))
        return;
    const uint32_t d =
        !result ? (uint32_t)PTX_REG_SINK : ptx_target(p, ptx_plain(p, 0), waits ? 'p' : '8');
    uint32_t x = PTX_SHARED;
    const uint32_t a = ptx_address(p, at, PTX_SHARED, &x);
    const uint32_t value = p->operand_count > at + 1
                               ? ptx_use(p, ptx_plain(p, at + 1), kind == WAIT_STATE ? '8' : '4')
                               : ptx_fixed(p->module, 1, 4);
    const int64_t offset = p->operands[at].offset;
    const uint32_t more = ptx_pooled(p, d);
    (void)ptx_pooled(p, value);
    ptx_ins *const in = ptx_emit(p, mbarrier, PTX_OTHER);
    in->d = more;
    in->a = a;
    in->b = (uint32_t)(int32_t)offset;
    in->x = x;
    in->x2 = (uint16_t)kind;
}

void ptx_lower_bulk(ptx_parser *p)
{
    static const char plain[] = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
    const size_t n = sizeof plain - 1;
    const bool hint = strcmp(p->opcode + (strlen(p->opcode) > n ? n : 0), ".L2::cache_hint") == 0;
    if (strncmp(p->opcode, plain, n) != 0 || (p->opcode[n] && !hint)) {
        no_opcode(p);
        return;
    }
    if (!ptx_need_operands(p, hint ? 5 : 4, hint ? 5 : 4))
        return;
    uint32_t x = PTX_SHARED, unused = 0;
    const uint32_t to = ptx_address(p, 0, PTX_SHARED, &x),
                   from = ptx_address(p, 1, PTX_GLOBAL, &unused);
    const uint32_t size = ptx_use(p, ptx_plain(p, 2), '4'),
                   at = ptx_address(p, 3, PTX_SHARED, &unused);
    if (p->operands[1].offset || p->operands[3].offset || p->operands[0].offset)
        ptx_error(p, "'%s': addresses with an offset are not supported", p->opcode);
    const uint32_t more = ptx_pooled(p, from);
    (void)ptx_pooled(p, size);
    (void)ptx_pooled(p, at);
    ptx_ins *const in = ptx_emit(p, bulk_copy, PTX_ACCESS_GLOBAL);
    in->d = more;
    in->a = to;
    in->x = x;
}
