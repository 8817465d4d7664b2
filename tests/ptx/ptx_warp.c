/* tests/ptx/ptx_warp.c - runs the lanes of one warp.
 *
 * The group is the lanes at the lowest pc. It runs until it comes to `stop`, where others are, or
 * parts; then the lanes are grouped anew. Lanes that wait for others at a .sync instruction are
 * blocked: they run it again, together with those that come there. */
#include <stdio.h>

#include "tests/ptx/ptx_internal.h"

void ptx_expand(ptx_warp *w)
{
    for (int i = 0; i < PTX_LANES; i++)
        w->mask[i] = -(int32_t)(w->act >> i & 1);
    w->expanded = w->act;
}

/* The line to show: that of the kernel, where a header of the toolkit was inlined. */
static void place_of(const ptx_module *m, const ptx_loc *l, ptx_fault *f)
{
    const char *const own = l->file < m->file_count ? m->files[l->file] : NULL;
    const bool foreign = l->at_line && own && strstr(own, "/include/");
    const uint32_t file = foreign ? l->at_file : l->file;
    f->line = foreign ? l->at_line : l->line;
    f->file = file < m->file_count ? m->files[file] : NULL;
    f->ptx_line = l->ptx_line;
}

void ptx_fail(ptx_warp *w, const ptx_ins *in, uint32_t lanes, uint64_t address, const char *format,
              ...)
{
    ptx_block *const b = w->block;
    ptx_grid *const g = b->grid;
    if (b->faulted)
        return;
    b->faulted = true;
    ptx_fault f = {.kernel = g->kernel->name, .warp = w->index, .lanes = lanes, .address = address};
    memcpy(f.block, b->id, sizeof f.block);
    place_of(g->kernel->module, &g->kernel->module->locs[in->loc], &f);
    const char *const base = f.file ? strrchr(f.file, '/') : NULL;
    int n = f.file
                ? snprintf(f.text, sizeof f.text, "%s:%u: kernel %s: ", base ? base + 1 : f.file,
                           f.line, f.kernel)
                : snprintf(f.text, sizeof f.text, "PTX line %u: kernel %s: ", f.ptx_line, f.kernel);
    va_list list;
    va_start(list, format);
    if (n > 0 && (size_t)n < sizeof f.text)
        n += vsnprintf(f.text + n, sizeof f.text - (size_t)n, format, list);
    va_end(list);
    if (n > 0 && (size_t)n < sizeof f.text)
        (void)snprintf(f.text + n, sizeof f.text - (size_t)n,
                       " (block %u %u %u, warp %u, lanes %08x)", f.block[0], f.block[1], f.block[2],
                       f.warp, f.lanes);
    (void)pthread_mutex_lock(&g->lock);
    if (b->position < g->failed) {
        g->failed = b->position;
        g->fault = f;
    }
    (void)pthread_mutex_unlock(&g->lock);
}

bool ptx_known(ptx_warp *w, const ptx_ins *in, uint32_t unit, const char *what)
{
    const uint32_t bad = ptx_undef(w, unit) & w->act;
    if (bad)
        ptx_fail(w, in, bad, 0, "%s has an undefined value", what);
    return bad == 0;
}

static void deadlock(ptx_warp *w)
{
    const ptx_kernel *const k = w->block->grid->kernel;
    uint32_t first = 0;
    while (!(w->live >> first & 1))
        first++;
    const ptx_ins *const in = &k->code[w->lane_pc[first]];
    uint32_t here = 0;
    char where[160] = "";
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        if (!(w->live >> i & 1))
            continue;
        here |= (w->lane_pc[i] == w->lane_pc[first] ? 1u : 0u) << i;
        const ptx_loc *const l = &k->module->locs[k->code[w->lane_pc[i]].loc];
        const size_t n = strlen(where);
        char one[32];
        (void)snprintf(one, sizeof one, " %u", l->line ? l->line : l->ptx_line);
        if (!strstr(where, one) && n + sizeof one < sizeof where)
            (void)snprintf(where + n, sizeof where - n, "%s", one);
    }
    ptx_fail(w, in, here, 0, "lanes wait here for others that never come; lanes wait at lines%s",
             where);
}

/* The lanes at the lowest pc become the group. */
static void regroup(ptx_warp *w)
{
    for (int i = 0; i < PTX_LANES; i++)
        w->lane_pc[i] = w->group >> i & 1 ? w->pc : w->lane_pc[i];
    w->group = 0;
    const uint32_t ready = w->live & ~w->blocked;
    if (!w->live) {
        w->state = PTX_ENDED;
        return;
    }
    if (!ready && w->at_phase) {
        w->state = PTX_AT_PHASE;
        return;
    }
    if (!ready) {
        deadlock(w);
        return;
    }
    uint32_t low = UINT32_MAX;
    for (int i = 0; i < PTX_LANES; i++)
        if (ready >> i & 1 && w->lane_pc[i] < low)
            low = w->lane_pc[i];
    w->stop = UINT32_MAX;
    for (int i = 0; i < PTX_LANES; i++) {
        if (!(w->live >> i & 1))
            continue;
        if (w->lane_pc[i] == low)
            w->group |= 1u << i;
        else if (ready >> i & 1 && w->lane_pc[i] < w->stop)
            w->stop = w->lane_pc[i];
    }
    w->blocked &= ~w->group;
    w->pc = low;
}

bool ptx_gather(ptx_warp *w, const ptx_ins *in, uint32_t lanes)
{
    const uint32_t pc = (uint32_t)(in - w->code);
    for (int i = 0; i < PTX_LANES; i++)
        if (w->blocked >> i & 1 && w->lane_pc[i] == pc) {
            w->blocked &= ~(1u << i);
            w->group |= 1u << i;
            w->act |= 1u << i;
        }
    if ((w->act & lanes) == (lanes & w->live))
        return true;
    for (int i = 0; i < PTX_LANES; i++)
        if (w->act >> i & 1)
            w->lane_pc[i] = pc;
    w->blocked |= w->act;
    w->group &= ~w->act;
    w->stop = 0;
    return false;
}

void ptx_do_bra(ptx_warp *w, const ptx_ins *in)
{
    if (w->act == w->group) {
        w->pc = in->d;
        return;
    }
    for (int i = 0; i < PTX_LANES; i++)
        if (w->act >> i & 1)
            w->lane_pc[i] = in->d;
    w->group &= ~w->act;
    w->stop = 0;
    w->block->counts.divergent++;
}

void ptx_do_ret(ptx_warp *w, const ptx_ins *in)
{
    (void)in;
    w->live &= ~w->act;
    w->group &= ~w->act;
    w->blocked = 0; /* what they wait for may be enough now */
    w->stop = 0;
}

void ptx_do_trap(ptx_warp *w, const ptx_ins *in)
{
    ptx_fail(w, in, w->act, 0, "%s",
             in->x ? "a call of a function, as of a failed assert" : "trap");
}

static void count(ptx_warp *w, const ptx_ins *in, uint32_t act)
{
    ptx_counts *const c = &w->block->counts;
    uint64_t *const kinds[PTX_CLASSES] = {&c->other,      &c->tensor, &c->integer, &c->floating,
                                          &c->conversion, &c->shared, &c->global,  &c->branch};
    c->instructions++;
    c->lanes += (uint64_t)__builtin_popcount(act);
    ++*kinds[in->kind];
}

/* Lanes of the group that the guard lets run. */
static uint32_t guarded(ptx_warp *w, const ptx_ins *in)
{
    const uint32_t unit = in->guard >> 1, bits = ptx_reg(w, unit)->u32[0];
    const uint32_t bad = ptx_undef(w, unit) & w->group;
    if (bad)
        ptx_fail(w, in, bad, 0, "a branch or guard depends on an undefined value");
    return w->group & (in->guard & 1 ? ~bits : bits);
}

void ptx_warp_run(ptx_warp *w, uint64_t budget)
{
    ptx_block *const b = w->block;
    const bool counting = b->grid->launch->options.count;
    uint8_t *const ran = b->grid->launch->options.trace ? b->grid->kernel->ran : NULL;
    for (; budget > 0; budget--) {
        if (w->pc >= w->stop) {
            regroup(w);
            if (w->state != PTX_READY || b->faulted)
                break;
        }
        const ptx_ins *const in = &w->code[w->pc++];
        const uint32_t act = in->guard ? guarded(w, in) : w->group;
        if (counting)
            count(w, in, act);
        if (ran)
            ran[in - w->code] = 1;
        if (act) {
            w->act = act;
            in->run(w, in);
        }
        if (w->state != PTX_READY || b->faulted)
            break;
        w->steps++;
    }
    const uint64_t limit = b->grid->launch->options.limit;
    if (w->steps > (limit ? limit : (uint64_t)1 << 36))
        ptx_fail(w, &w->code[w->pc], w->group, 0, "the kernel does not come to an end");
}
