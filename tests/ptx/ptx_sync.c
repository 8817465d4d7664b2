/* tests/ptx/ptx_sync.c - lanes and warps that meet: barriers, shuffles, votes, reductions. */
#include "tests/ptx/ptx_parse.h"
#include "tests/ptx/ptx_shadow.h"

enum { SYNC, ARRIVE, RED_POPC, RED_AND, RED_OR };

/* ---- barriers of a block ---- */
static void release(ptx_block *b, uint32_t id)
{
    ptx_barrier *const at = &b->barriers[id];
    for (uint32_t k = 0; k < b->warp_count; k++) {
        ptx_warp *const w = &b->warps[k];
        if (w->state != PTX_AT_BARRIER || w->barrier != id)
            continue;
        w->state = PTX_READY;
        const ptx_ins *const in = &w->code[w->pc - 1];
        if (in->x < RED_POPC)
            continue;
        w->act = w->live;
        ptx_lanes *const rd = ptx_reg(w, in->d);
        if (in->x == RED_POPC)
            PTX_EACH(w, rd->u32[i] = m ? at->count : rd->u32[i];)
        else
            rd->u32[0] = (in->x == RED_AND ? at->all : at->any) ? ~0u : 0;
        ptx_spread(w, in->d, 0);
    }
    *at = (ptx_barrier){0};
    ptx_shadow_release(b, id);
}

void ptx_barrier_settle(ptx_block *b)
{
    uint32_t running = 0;
    for (uint32_t k = 0; k < b->warp_count; k++)
        running += b->warps[k].state != PTX_ENDED;
    for (uint32_t id = 0; id < PTX_BARRIERS; id++) {
        const ptx_barrier *const at = &b->barriers[id];
        const uint32_t all = at->expected ? at->expected : running * PTX_LANES;
        if (at->arrived && at->arrived >= all)
            release(b, id);
    }
}

/* x: what; a: the barrier; b, with x2 bit 0: how many lanes; c: predicate of a reduction, negated
 * with x2 bit 1. */
static void do_bar(ptx_warp *w, const ptx_ins *in)
{
    if (!ptx_gather(w, in, w->live))
        return;
    ptx_block *const b = w->block;
    const uint32_t id = ptx_reg(w, in->a)->u32[__builtin_ctz(w->act)];
    const uint32_t lanes = in->x2 & 1 ? ptx_reg(w, in->b)->u32[__builtin_ctz(w->act)] : 0;
    ptx_barrier *const at = &b->barriers[id % PTX_BARRIERS];
    if (!ptx_known(w, in, in->a, "the number of a barrier"))
        return;
    if (id >= PTX_BARRIERS || lanes % PTX_LANES || lanes > b->warp_count * PTX_LANES ||
        (at->arrived && at->expected != lanes) || (in->x == ARRIVE && !lanes)) {
        ptx_fail(w, in, w->act, 0, "barrier %u for %u lanes: warps do not agree on it", id, lanes);
        return;
    }
    if (at->arrived == 0)
        *at = (ptx_barrier){.all = 1};
    at->expected = lanes;
    at->arrived += PTX_LANES;
    if (in->x >= RED_POPC) {
        const uint32_t p = ptx_reg(w, in->c)->u32[0];
        const uint32_t set = w->act & (in->x2 & 2 ? ~p : p);
        if (!ptx_known(w, in, in->c, "the predicate of a reduction"))
            return;
        at->any |= set != 0;
        at->all &= set == w->act;
        at->count += (uint32_t)__builtin_popcount(set);
    }
    b->counts.barriers++;
    ptx_shadow_arrive(w, id, in->x != ARRIVE);
    w->barrier = id;
    w->state = in->x == ARRIVE ? PTX_READY : PTX_AT_BARRIER;
    ptx_barrier_settle(b);
}

void ptx_lower_bar(ptx_parser *p)
{
    if (ptx_has(p, "warp")) {
        ptx_lower_warpsync(p);
        return;
    }
    const bool red = ptx_has(p, "red");
    const uint32_t what = ptx_has(p, "arrive") ? ARRIVE
                          : !red               ? SYNC
                          : ptx_has(p, "popc") ? RED_POPC
                          : ptx_has(p, "and")  ? RED_AND
                                               : RED_OR;
    if (!red && !ptx_has(p, "sync") && what != ARRIVE) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    const size_t extra = red ? 2 : 0, n = p->operand_count;
    if (!ptx_need_operands(p, 1 + extra, 2 + extra))
        return;
    const size_t first = red ? 1 : 0;
    const bool counted = n == 2 + extra;
    const uint32_t d =
        red ? ptx_target(p, ptx_plain(p, 0), what == RED_POPC ? '4' : 'p') : PTX_REG_SINK;
    const uint32_t a = ptx_use(p, ptx_plain(p, first), '4');
    const uint32_t b = counted ? ptx_use(p, ptx_plain(p, first + 1), '4') : 0;
    ptx_atom c = *ptx_plain(p, n - 1);
    const bool negated = red && c.negated;
    c.negated = false;
    const uint32_t unit = red ? ptx_use(p, &c, 'p') : 0;
    ptx_ins *const in = ptx_emit(p, do_bar, PTX_OTHER);
    *in = (ptx_ins){.run = do_bar,
                    .d = d,
                    .a = a,
                    .b = b,
                    .c = unit,
                    .x = what,
                    .guard = in->guard,
                    .loc = in->loc,
                    .x2 = (uint16_t)((counted ? 1 : 0) | (negated ? 2 : 0))};
}

/* ---- lanes of a warp ---- */
/* Waits for the lanes of a mask, which every lane that comes must name alike. */
static bool meet(ptx_warp *w, const ptx_ins *in, uint32_t unit)
{
    const ptx_lanes *const r = ptx_reg(w, unit);
    const uint32_t mask = r->u32[__builtin_ctz(w->act)];
    if (!ptx_known(w, in, unit, "the mask of lanes"))
        return false;
    for (int i = 0; i < PTX_LANES; i++)
        if (w->act >> i & 1 && (r->u32[i] != mask || !(mask >> i & 1))) {
            ptx_fail(w, in, 1u << i, 0,
                     "the mask %08x does not name this lane, or lanes name different masks",
                     r->u32[i]);
            return false;
        }
    return ptx_gather(w, in, mask);
}

static void do_warpsync(ptx_warp *w, const ptx_ins *in)
{
    if (meet(w, in, in->a))
        ptx_shadow_warpsync(w, ptx_reg(w, in->a)->u32[__builtin_ctz(w->act)]);
}

void ptx_lower_warpsync(ptx_parser *p)
{
    if (!ptx_need_operands(p, 1, 1))
        return;
    const uint32_t a = ptx_use(p, ptx_plain(p, 0), '4');
    ptx_emit(p, do_warpsync, PTX_OTHER)->a = a;
}

enum { UP, DOWN, BUTTERFLY, INDEX };

/* pool at x: how, the unit of p, that of the mask. */
static void do_shfl(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->x;
    if (!meet(w, in, more[2]) || !ptx_known(w, in, in->b, "the lane of a shuffle") ||
        !ptx_known(w, in, in->c, "the bounds of a shuffle") ||
        !ptx_known(w, in, in->a, "a shuffle"))
        return;
    ptx_lanes *const rd = ptx_reg(w, in->d);
    const ptx_lanes *const ra = ptx_reg(w, in->a), *const rb = ptx_reg(w, in->b),
                           *const rc = ptx_reg(w, in->c);
    uint32_t from[PTX_LANES], inside = 0, undef = 0;
    memcpy(from, ra->u32, sizeof from);
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        const uint32_t b = rb->u32[i] & 31, c = rc->u32[i] & 31, segment = rc->u32[i] >> 8 & 31;
        const uint32_t low = i & segment, high = low | (c & ~segment);
        uint32_t j = more[0] == UP      ? i - b
                     : more[0] == DOWN  ? i + b
                     : more[0] == INDEX ? low | (b & ~segment)
                                        : i ^ b;
        const bool in_range = more[0] == UP ? (int32_t)j >= (int32_t)high : j <= high;
        j = in_range ? j : i;
        inside |= (in_range ? 1u : 0u) << i;
        if (!(w->act >> i & 1))
            continue;
        rd->u32[i] = from[j];
        undef |= (~w->act >> j & 1) << i;
    }
    ptx_spread(w, in->d, undef);
    uint32_t *const p = ptx_reg(w, more[1])->u32;
    *p = (*p & ~w->act) | (inside & w->act);
    ptx_spread(w, more[1], 0);
}

void ptx_lower_shfl(ptx_parser *p)
{
    const char *const last = strrchr(p->opcode, '.');
    if (!ptx_has(p, "sync") || !last || strcmp(last, ".b32") != 0) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    if (!ptx_need_operands(p, 5, 5))
        return;
    const uint32_t how = ptx_has(p, "up")     ? UP
                         : ptx_has(p, "down") ? DOWN
                         : ptx_has(p, "idx")  ? INDEX
                                              : BUTTERFLY;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '4');
    const uint32_t second =
        p->operands[0].paired ? ptx_target(p, ptx_plain(p, 0) + 1, 'p') : PTX_REG_SINK + 1;
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), '4'), b = ptx_use(p, ptx_plain(p, 2), '4'),
                   c = ptx_use(p, ptx_plain(p, 3), '4'), mask = ptx_use(p, ptx_plain(p, 4), '4');
    const uint32_t more = ptx_pooled(p, how);
    (void)ptx_pooled(p, second);
    (void)ptx_pooled(p, mask);
    ptx_ins *const in = ptx_emit(p, do_shfl, PTX_OTHER);
    in->d = d;
    in->a = a;
    in->b = b;
    in->c = c;
    in->x = more;
}

enum { ANY, ALL, UNI, BALLOT };

/* a: the predicate, negated with x2; c: the mask. */
static void do_vote(ptx_warp *w, const ptx_ins *in)
{
    if (!meet(w, in, in->c) || !ptx_known(w, in, in->a, "the predicate of a vote"))
        return;
    const uint32_t p = ptx_reg(w, in->a)->u32[0], set = w->act & (in->x2 ? ~p : p);
    ptx_lanes *const rd = ptx_reg(w, in->d);
    if (in->x == BALLOT) {
        PTX_EACH(w, rd->u32[i] = m ? set : rd->u32[i];)
    } else {
        const bool yes = in->x == ANY   ? set != 0
                         : in->x == ALL ? set == w->act
                                        : set == 0 || set == w->act;
        rd->u32[0] = yes ? rd->u32[0] | w->act : rd->u32[0] & ~w->act;
    }
    ptx_spread(w, in->d, 0);
}

void ptx_lower_vote(ptx_parser *p)
{
    const uint32_t what = ptx_has(p, "any")   ? ANY
                          : ptx_has(p, "all") ? ALL
                          : ptx_has(p, "uni") ? UNI
                                              : BALLOT;
    if (!ptx_has(p, "sync") || (what == BALLOT && !ptx_has(p, "ballot")))
        ptx_error(p, "opcode '%s' is not known", p->opcode);
    if (!ptx_need_operands(p, 3, 3))
        return;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), what == BALLOT ? '4' : 'p');
    ptx_atom a = *ptx_plain(p, 1);
    const bool negated = a.negated;
    a.negated = false;
    const uint32_t unit = ptx_use(p, &a, 'p'), mask = ptx_use(p, ptx_plain(p, 2), '4');
    ptx_ins *const in = ptx_emit(p, do_vote, PTX_OTHER);
    in->d = d;
    in->a = unit;
    in->c = mask;
    in->x = what;
    in->x2 = negated;
}

enum { ADD, MIN, MAX, MIN_SIGNED, MAX_SIGNED, AND, OR, XOR };

static uint32_t reduce(uint32_t what, uint32_t v, uint32_t a)
{
    switch (what) {
    case ADD: return v + a;
    case MIN: return v < a ? v : a;
    case MAX: return v > a ? v : a;
    case MIN_SIGNED: return (int32_t)v < (int32_t)a ? v : a;
    case MAX_SIGNED: return (int32_t)v > (int32_t)a ? v : a;
    case AND: return v & a;
    case OR: return v | a;
    default: return v ^ a;
    }
}

static void do_redux(ptx_warp *w, const ptx_ins *in)
{
    if (!meet(w, in, in->c) || !ptx_known(w, in, in->a, "a reduction"))
        return;
    const ptx_lanes *const ra = ptx_reg(w, in->a);
    const int first = __builtin_ctz(w->act);
    uint32_t v = ra->u32[first];
    for (int i = first + 1; i < PTX_LANES; i++)
        if (w->act >> i & 1)
            v = reduce(in->x, v, ra->u32[i]);
    ptx_lanes *const rd = ptx_reg(w, in->d);
    PTX_EACH(w, rd->u32[i] = m ? v : rd->u32[i];)
    ptx_spread(w, in->d, 0);
}

void ptx_lower_redux(ptx_parser *p)
{
    static const char *const names[] = {"add.s32", "min.u32", "max.u32", "min.s32",
                                        "max.s32", "and.b32", "or.b32",  "xor.b32"};
    uint32_t what = 0;
    while (what < 8 &&
           (strncmp(p->opcode, "redux.sync.", 11) != 0 || strcmp(p->opcode + 11, names[what]) != 0))
        what++;
    if (strcmp(p->opcode, "redux.sync.add.u32") == 0)
        what = ADD;
    if (what == 8)
        ptx_error(p, "opcode '%s' is not known", p->opcode);
    if (!ptx_need_operands(p, 3, 3))
        return;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '4');
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), '4'), c = ptx_use(p, ptx_plain(p, 2), '4');
    ptx_ins *const in = ptx_emit(p, do_redux, PTX_OTHER);
    in->d = d;
    in->a = a;
    in->c = c;
    in->x = what;
}

/* Lanes of the mask that hold the same value. */
static void do_match(ptx_warp *w, const ptx_ins *in)
{
    if (!meet(w, in, in->c) || !ptx_known(w, in, in->a, "a value to match"))
        return;
    const ptx_lanes *const ra = ptx_reg(w, in->a);
    uint32_t same[PTX_LANES];
    for (int i = 0; i < PTX_LANES; i++) {
        same[i] = 0;
        for (int j = 0; j < PTX_LANES; j++)
            same[i] |= ((in->x ? ra->u64[j] == ra->u64[i] : ra->u32[j] == ra->u32[i]) ? 1u : 0u)
                       << j;
    }
    ptx_lanes *const rd = ptx_reg(w, in->d);
    PTX_EACH(w, rd->u32[i] = m ? same[i] & w->act : rd->u32[i];)
    ptx_spread(w, in->d, 0);
}

void ptx_lower_match(ptx_parser *p)
{
    const bool wide = strcmp(p->opcode, "match.any.sync.b64") == 0;
    if (!wide && strcmp(p->opcode, "match.any.sync.b32") != 0)
        ptx_error(p, "opcode '%s' is not known", p->opcode);
    if (!ptx_need_operands(p, 3, 3))
        return;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '4');
    const uint32_t a = ptx_use(p, ptx_plain(p, 1), wide ? '8' : '4'),
                   c = ptx_use(p, ptx_plain(p, 2), '4');
    ptx_ins *const in = ptx_emit(p, do_match, PTX_OTHER);
    in->d = d;
    in->a = a;
    in->c = c;
    in->x = wide;
}

static void do_activemask(ptx_warp *w, const ptx_ins *in)
{
    ptx_lanes *const rd = ptx_reg(w, in->d);
    PTX_EACH(w, rd->u32[i] = m ? w->act : rd->u32[i];)
    ptx_spread(w, in->d, 0);
}

void ptx_lower_activemask(ptx_parser *p)
{
    if (!ptx_need_operands(p, 1, 1))
        return;
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '4');
    ptx_emit(p, do_activemask, PTX_OTHER)->d = d;
}

/* ---- control ---- */
void ptx_lower_bra(ptx_parser *p)
{
    if (!ptx_need_operands(p, 1, 1))
        return;
    const ptx_atom *const a = ptx_plain(p, 0);
    p->branches = ptx_grow(p->branches, p->branch_count, sizeof *p->branches);
    p->branches[p->branch_count++] =
        (ptx_label){a->text, a->length, (uint32_t)p->kernel->code_count};
    (void)ptx_emit(p, ptx_do_bra, PTX_BRANCH);
}

void ptx_lower_ret(ptx_parser *p)
{
    (void)ptx_emit(p, ptx_do_ret, PTX_BRANCH);
}

void ptx_lower_trap(ptx_parser *p)
{
    (void)ptx_emit(p, ptx_do_trap, PTX_BRANCH);
}

void ptx_lower_call(ptx_parser *p)
{
    ptx_emit(p, ptx_do_trap, PTX_BRANCH)->x = 1;
}

static void do_nothing(ptx_warp *w, const ptx_ins *in)
{
    (void)w;
    (void)in;
}

void ptx_lower_nothing(ptx_parser *p)
{
    (void)ptx_emit(p, do_nothing, PTX_OTHER);
}

/* Memory is in order here; what a fence adds is an edge between blocks. */
static void do_fence(ptx_warp *w, const ptx_ins *in)
{
    (void)in;
    ptx_edges_fence(w);
}

void ptx_lower_fence(ptx_parser *p)
{
    (void)ptx_emit(p, do_fence, PTX_OTHER);
}
