/* tests/ptx/ptx_copy.c - cp.async: copies from global to shared memory that are in flight from
 * their issue to the wait that covers them.
 *
 * They land at the wait (late) or at the issue (early); either way the target counts as in flight
 * until the wait, where touching it is a fault, and the source must not change meanwhile. */
#include <stdlib.h>

#include "tests/ptx/ptx_parse.h"
#include "tests/ptx/ptx_shadow.h"

/* One copy of one lane. */
typedef struct copy {
    uint8_t *to, *to_defined;
    const uint8_t *from, *from_defined;
    uint64_t address;                  /* of the target */
    uint32_t group, lane, bytes, kept; /* kept: bytes that are read, the others become 0 */
    uint8_t issued[16];                /* the source then */
} copy;

struct ptx_copies {
    copy *list;
    size_t count;
    uint32_t committed[PTX_LANES]; /* groups */
};

static struct ptx_copies *copies_of(ptx_warp *w)
{
    if (!w->copies && !(w->copies = calloc(1, sizeof *w->copies)))
        abort();
    return w->copies;
}

void ptx_copies_free(ptx_warp *w)
{
    if (w->copies)
        free(w->copies->list);
    free(w->copies);
    w->copies = NULL;
}

void ptx_copies_begin(ptx_warp *w)
{
    if (w->copies) {
        w->copies->count = 0;
        memset(w->copies->committed, 0, sizeof w->copies->committed);
    }
}

static void move(const copy *c)
{
    memset(c->to, 0, c->bytes);
    if (c->kept)
        memcpy(c->to, c->from, c->kept);
}

static bool reach_lanes(ptx_warp *w, const ptx_ins *source, uint32_t lanes, ptx_access *t)
{
    const uint32_t act = w->act;
    w->act = lanes;
    const bool ok = !lanes || (ptx_reach(w, source, t) && ptx_note(w, source, t));
    w->act = act;
    return ok;
}

/* The bytes that lanes keep; where that is not all, the last one is looked at, then the first. */
static bool reach_source(ptx_warp *w, const ptx_ins *in, uint32_t unit, uint32_t offset,
                         const uint32_t *kept, ptx_access *t)
{
    ptx_ins source = *in;
    uint32_t whole = 0;
    for (uint32_t i = 0; i < PTX_LANES; i++)
        whole |= (kept[i] == in->c ? 1u : 0u) << i;
    source.a = unit;
    source.b = offset;
    source.x = PTX_GLOBAL | PTX_X_WIDE;
    if (!reach_lanes(w, &source, w->act & whole, t))
        return false;
    t->bytes = 1;
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        const uint32_t lane = w->act & ~whole & 1u << i;
        if (!lane || kept[i] == 0)
            continue;
        source.b = offset + kept[i] - 1;
        if (!reach_lanes(w, &source, lane, t))
            return false;
        source.b = offset;
        if (!reach_lanes(w, &source, lane, t))
            return false;
    }
    return true;
}

/* pool at d: the unit of the source's address, its offset, the unit of the source's size or
 * UINT32_MAX. a, b: the target; c: bytes. */
static void cp_async(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t *const more = w->block->grid->kernel->module->pool + in->d;
    const bool sized = more[2] != UINT32_MAX, early = w->block->grid->launch->options.early;
    if (sized && !ptx_known(w, in, more[2], "the size of a copy"))
        return;
    uint32_t kept[PTX_LANES];
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        kept[i] = sized ? ptx_reg(w, more[2])->u32[i] : in->c;
        if (w->act >> i & 1 && kept[i] > in->c) {
            ptx_fail(w, in, 1u << i, 0, "a copy of %u bytes reads %u", in->c, kept[i]);
            return;
        }
    }
    ptx_access to = {.space = PTX_SHARED, .bytes = in->c, .write = true};
    ptx_access from = {.space = PTX_GLOBAL, .bytes = in->c};
    if (!ptx_reach(w, in, &to) || !reach_source(w, in, more[0], more[1], kept, &from) ||
        !ptx_shadow_flight(w, in, &to))
        return;
    struct ptx_copies *const all = copies_of(w);
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        if (!(w->act >> i & 1))
            continue;
        all->list = ptx_grow(all->list, all->count, sizeof *all->list);
        copy *const c = &all->list[all->count++];
        *c = (copy){.to = to.host[i],
                    .to_defined = to.defined[i],
                    .from = from.host[i],
                    .from_defined = from.defined[i],
                    .address = to.address[i],
                    .lane = i,
                    .group = all->committed[i],
                    .bytes = in->c,
                    .kept = kept[i]};
        if (c->kept)
            memcpy(c->issued, c->from, c->kept);
        if (early)
            move(c);
        if (c->to_defined)
            memset(c->to_defined, 0, c->bytes);
    }
}

static bool land(ptx_warp *w, const ptx_ins *in, const copy *c)
{
    if (c->kept && memcmp(c->issued, c->from, c->kept) != 0) {
        ptx_fail(w, in, 1u << c->lane, c->address,
                 "the source of a copy to shared memory at %#llx changed while it was in flight",
                 (unsigned long long)c->address);
        return false;
    }
    move(c);
    if (c->to_defined) {
        memset(c->to_defined, 1, c->bytes);
        if (c->kept)
            memcpy(c->to_defined, c->from_defined, c->kept);
        ptx_shadow_land(w, in, c->lane, c->address, c->bytes);
    }
    return true;
}

/* Lanes that run wait until at most `left` of their groups are in flight; UINT32_MAX: for all that
 * was issued. */
static void settle(ptx_warp *w, const ptx_ins *in, uint32_t left)
{
    struct ptx_copies *const all = copies_of(w);
    ptx_counts *const counts = &w->block->counts;
    size_t kept = 0;
    for (size_t k = 0; k < all->count; k++) {
        const copy c = all->list[k];
        const bool waited = left == UINT32_MAX || c.group + left < all->committed[c.lane];
        if (!(w->act >> c.lane & 1) || !waited)
            all->list[kept++] = c;
        else if (!land(w, in, &c))
            return;
    }
    all->count = kept;
    counts->waits++;
    counts->overlapped += kept > 0;
}

static void wait_group(ptx_warp *w, const ptx_ins *in)
{
    settle(w, in, in->x);
}

static void commit_group(ptx_warp *w, const ptx_ins *in)
{
    struct ptx_copies *const all = copies_of(w);
    (void)in;
    for (uint32_t i = 0; i < PTX_LANES; i++)
        all->committed[i] += w->act >> i & 1;
}

/* ---- lowering ---- */
static bool copy_words_are_known(const ptx_parser *p)
{
    static const char *const words[] = {"ca",       "cg",      "shared",         "shared::cta",
                                        "global",   "async",   "L2::cache_hint", "L2::64B",
                                        "L2::128B", "L2::256B"};
    size_t known = 2; /* "cp", and no more than the words above */
    for (const char *at = p->opcode; *at; at++)
        known += *at == '.';
    for (size_t k = 0; k < sizeof words / sizeof *words; k++)
        known -= ptx_has(p, words[k]);
    return known == 2 && ptx_has(p, "global") && (ptx_has(p, "ca") || ptx_has(p, "cg"));
}

static void lower_copy(ptx_parser *p)
{
    const bool hint = ptx_has(p, "L2::cache_hint");
    const size_t extra = hint ? 1 : 0;
    if (!copy_words_are_known(p)) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    if (!ptx_need_operands(p, 3 + extra, 4 + extra))
        return;
    const ptx_atom *const bytes = ptx_plain(p, 2);
    const uint64_t n = bytes->kind == PTX_A_NUMBER ? bytes->value : 0;
    if ((n != 16 && n != 4 && n != 8) || (n != 16 && ptx_has(p, "cg")))
        ptx_error(p, "'%s' cannot copy that many bytes", p->opcode);
    const bool sized = p->operand_count == 4 + extra;
    uint32_t x = PTX_SHARED, unused = 0;
    const uint32_t to = ptx_address(p, 0, PTX_SHARED, &x),
                   from = ptx_address(p, 1, PTX_GLOBAL, &unused);
    const uint32_t kept = sized ? ptx_use(p, ptx_plain(p, 3), '4') : UINT32_MAX;
    if (hint)
        (void)ptx_use(p, ptx_plain(p, p->operand_count - 1), '8');
    const uint32_t at = ptx_pooled(p, from);
    (void)ptx_pooled(p, (uint32_t)(int32_t)p->operands[1].offset);
    (void)ptx_pooled(p, kept);
    ptx_ins *const in = ptx_emit(p, cp_async, PTX_ACCESS_GLOBAL);
    in->d = at;
    in->a = to;
    in->b = (uint32_t)(int32_t)p->operands[0].offset;
    in->c = (uint32_t)n;
    in->x = x;
}

void ptx_lower_copy(ptx_parser *p)
{
    if (strcmp(p->opcode, "cp.async.commit_group") == 0) {
        (void)ptx_emit(p, commit_group, PTX_OTHER);
    } else if (strcmp(p->opcode, "cp.async.wait_all") == 0) {
        ptx_emit(p, wait_group, PTX_OTHER)->x = UINT32_MAX;
    } else if (strcmp(p->opcode, "cp.async.wait_group") == 0) {
        const ptx_atom *const a = ptx_plain(p, 0);
        if (a->kind != PTX_A_NUMBER || a->value > 1000)
            ptx_error(p, "'%s' takes a number", p->opcode);
        ptx_emit(p, wait_group, PTX_OTHER)->x = (uint32_t)a->value;
    } else if (strncmp(p->opcode, "cp.async.bulk.", 14) == 0) {
        ptx_lower_bulk(p);
    } else {
        lower_copy(p);
    }
}

/* A hint for the cache: any 64 bits. */
void ptx_lower_policy(ptx_parser *p)
{
    if (strncmp(p->opcode, "createpolicy.fractional.L2::", 28) != 0) {
        ptx_error(p, "opcode '%s' is not known", p->opcode);
        return;
    }
    if (!ptx_need_operands(p, 1, 2))
        return;
    const ptx_row *const row = ptx_row_of(p->machine, "mov.b64");
    const uint32_t d = ptx_target(p, ptx_plain(p, 0), '8');
    ptx_ins *const in = ptx_emit(p, row->run, PTX_OTHER);
    in->d = d;
    in->a = ptx_fixed(p->module, 0, 8);
}
