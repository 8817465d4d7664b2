/* tests/ptx/ptx_grid.c - a launch: its blocks, and which warp goes next.
 *
 * Blocks of a kernel without atomics on global memory depend on none of the others: several threads
 * run them, unless full checks or counters watch memory. The fault that is reported is that of the
 * first block in the order of the launch. */
#include <stdlib.h>

#include "tests/ptx/ptx_shadow.h"

/* splitmix64 */
uint64_t ptx_next(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* ---- one block at a time, in memory that a thread keeps ---- */
typedef struct worker {
    ptx_block block;
    uint8_t *registers, *local, *local_defined;
    uint32_t *undef;
} worker;

/* Registers of a kernel that launches with full checks leave: what nobody wrote has 1 bits. */
struct ptx_file {
    uint8_t *registers; /* [warps][units][PTX_UNIT] */
    uint32_t *undef;    /* [warps][units] */
    uint32_t warps;
};

static void *room(size_t count, size_t size)
{
    void *const p = calloc(count ? count : 1, size);
    if (!p)
        abort();
    return p;
}

ptx_file *ptx_file_new(void)
{
    return room(1, sizeof(ptx_file));
}

static uint32_t dynamic_start(const ptx_kernel *k)
{
    const uint32_t align = k->dynamic_align ? k->dynamic_align : 16;
    const uint32_t end = PTX_SHARED_START + k->shared;
    const uint32_t at = (end + align - 1) / align * align;
    return at / align % 2 ? at : at + align; /* no better aligned than it was asked for */
}

static void fill32(ptx_warp *w, uint32_t unit, uint32_t value)
{
    ptx_lanes *const r = ptx_reg(w, unit);
    for (int i = 0; i < PTX_LANES; i++)
        r->u32[i] = value;
}

/* Registers that are the same for all blocks. */
static void constant_registers(ptx_warp *w, const ptx_launch *l)
{
    const uint32_t nx = l->block[0], ny = l->block[1];
    for (uint32_t i = 0; i < PTX_LANES; i++) {
        const uint32_t thread = w->index * PTX_LANES + i, lower = (1u << i) - 1;
        ptx_reg(w, PTX_REG_TID)->u32[i] = thread % nx;
        ptx_reg(w, PTX_REG_TID + 1)->u32[i] = thread / nx % ny;
        ptx_reg(w, PTX_REG_TID + 2)->u32[i] = thread / nx / ny;
        ptx_reg(w, PTX_REG_LANEID)->u32[i] = i;
        ptx_reg(w, PTX_REG_MASK_EQ)->u32[i] = 1u << i;
        ptx_reg(w, PTX_REG_MASK_LT)->u32[i] = lower;
        ptx_reg(w, PTX_REG_MASK_LE)->u32[i] = lower | 1u << i;
        ptx_reg(w, PTX_REG_MASK_GT)->u32[i] = ~(lower | 1u << i);
        ptx_reg(w, PTX_REG_MASK_GE)->u32[i] = ~lower;
        ptx_reg(w, PTX_REG_DYNAMIC64)->u64[i] = dynamic_start(l->kernel);
    }
    for (uint32_t d = 0; d < 3; d++) {
        fill32(w, PTX_REG_NTID + d, l->block[d]);
        fill32(w, PTX_REG_NCTAID + d, l->grid[d]);
    }
    fill32(w, PTX_REG_WARPID, w->index);
    fill32(w, PTX_REG_NWARPID, w->block->warp_count);
    fill32(w, PTX_REG_SMID, 0);
    fill32(w, PTX_REG_DYNAMIC_BYTES, l->shared);
    fill32(w, PTX_REG_DYNAMIC32, dynamic_start(l->kernel));
}

static void file_room(ptx_file *f, uint32_t units, uint32_t warps)
{
    if (warps <= f->warps)
        return;
    free(f->registers);
    free(f->undef);
    f->registers = room((size_t)units * warps, PTX_UNIT);
    f->undef = room((size_t)units * warps, sizeof *f->undef);
    f->warps = warps;
    memset(f->registers, 0xff, (size_t)units * warps * PTX_UNIT);
    memset(f->undef, 0xff, (size_t)units * warps * sizeof *f->undef);
}

void ptx_file_free(ptx_file *f)
{
    if (!f)
        return;
    free(f->registers);
    free(f->undef);
    free(f);
}

static void worker_init(worker *r, ptx_grid *g)
{
    const ptx_launch *const l = g->launch;
    const ptx_kernel *const k = g->kernel;
    const bool full = l->options.checks == PTX_FULL;
    ptx_block *const b = &r->block;
    *r = (worker){0};
    b->grid = g;
    b->watched = full || l->options.count;
    b->threads = l->block[0] * l->block[1] * l->block[2];
    b->warp_count = (b->threads + PTX_LANES - 1) / PTX_LANES;
    b->shared_end = l->shared ? dynamic_start(k) + l->shared : PTX_SHARED_START + k->shared;
    const size_t shared = b->shared_end - PTX_SHARED_START,
                 local = (size_t)k->local * b->warp_count * PTX_LANES;
    b->warps = room(b->warp_count, sizeof *b->warps);
    b->shared = room(shared, 1);
    r->local = room(local, 1);
    if (full) {
        file_room(k->file, k->units, b->warp_count);
        r->registers = k->file->registers;
        r->undef = k->file->undef;
        b->shared_defined = room(shared, 1);
        r->local_defined = room(local, 1);
        b->shadow = ptx_shadow_new(b);
    } else {
        r->registers = room((size_t)k->units * b->warp_count, PTX_UNIT);
        r->undef = room((size_t)k->units * b->warp_count, sizeof *r->undef);
    }
    for (uint32_t j = 0; j < b->warp_count; j++) {
        ptx_warp *const w = &b->warps[j];
        const size_t at = (size_t)k->local * j * PTX_LANES;
        *w = (ptx_warp){.block = b,
                        .index = j,
                        .code = k->code,
                        .local = r->local + at,
                        .local_defined = full ? r->local_defined + at : NULL};
        w->bank[0] = r->registers + (size_t)k->units * j * PTX_UNIT;
        w->bank[1] = (uint8_t *)k->module->fixed;
        w->undef[0] = r->undef + (size_t)k->units * j;
        w->undef[1] = k->module->defined;
        memset(w->bank[0], 0, (size_t)PTX_REG_OWN * PTX_UNIT);
        constant_registers(w, l);
    }
}

static void worker_release(worker *r)
{
    for (uint32_t j = 0; j < r->block.warp_count; j++)
        ptx_copies_free(&r->block.warps[j]);
    ptx_shadow_free(r->block.shadow);
    ptx_phases_free(&r->block);
    free(r->block.warps);
    free(r->block.shared);
    free(r->block.shared_defined);
    if (r->registers != r->block.grid->kernel->file->registers) {
        free(r->registers);
        free(r->undef);
    }
    free(r->local);
    free(r->local_defined);
}

/* All registers are undefined. Under full checks they are filled with 1 bits: those that the block
 * before wrote, of up to two units; a kernel has thousands, and a block uses few. */
static void forget_registers(ptx_warp *w, uint32_t units, bool full)
{
    uint32_t *const undef = w->undef[0];
    memset(undef, 0, PTX_REG_OWN * sizeof *undef);
    if (!full) {
        memset(undef + PTX_REG_OWN, 0xff, (units - PTX_REG_OWN) * sizeof *undef);
        return;
    }
    for (uint32_t k = PTX_REG_OWN; k < units; k++)
        if (undef[k] != UINT32_MAX) {
            memset(ptx_reg(w, k), 0xff, (size_t)(k + 1 < units ? 2 : 1) * PTX_UNIT);
            undef[k] = UINT32_MAX;
        }
}

/* What is undefined is filled with 1 bits: NaN, -1. */
static void block_begin(worker *r, uint64_t position)
{
    ptx_block *const b = &r->block;
    const ptx_launch *const l = b->grid->launch;
    const ptx_kernel *const k = l->kernel;
    const uint32_t linear = b->grid->order ? b->grid->order[position] : (uint32_t)position;
    const size_t shared = b->shared_end - PTX_SHARED_START,
                 local = (size_t)k->local * b->warp_count * PTX_LANES;
    b->position = position;
    b->id[0] = linear % l->grid[0];
    b->id[1] = linear / l->grid[0] % l->grid[1];
    b->id[2] = linear / l->grid[0] / l->grid[1];
    b->random = l->options.seed ^ (uint64_t)linear << 32;
    b->faulted = false;
    ptx_shadow_begin(b);
    ptx_phases_begin(b);
    memset(b->barriers, 0, sizeof b->barriers);
    memset(b->shared, 0xff, shared);
    memset(r->local, 0xff, local);
    if (l->options.checks == PTX_FULL) {
        memset(b->shared_defined, 0, shared);
        memset(r->local_defined, 0, local);
    }
    for (uint32_t j = 0; j < b->warp_count; j++) {
        ptx_warp *const w = &b->warps[j];
        const uint32_t left = b->threads - j * PTX_LANES;
        for (uint32_t d = 0; d < 3; d++)
            fill32(w, PTX_REG_CTAID + d, b->id[d]);
        forget_registers(w, k->units, l->options.checks == PTX_FULL);
        w->live = w->group = left >= PTX_LANES ? ~0u : (1u << left) - 1;
        w->blocked = 0;
        w->at_phase = false;
        w->pc = 0;
        w->stop = UINT32_MAX;
        w->state = PTX_READY;
        w->steps = 0;
        ptx_copies_begin(w);
    }
}

/* The warp to run, by the order of the launch; NULL if none is ready. */
static ptx_warp *choose(ptx_block *b, uint32_t *turn, uint64_t *budget)
{
    const ptx_order order = b->grid->launch->options.order;
    *budget = 256;
    if (order == PTX_RANDOM) {
        const uint64_t r = ptx_next(&b->random);
        *turn = (uint32_t)(r >> 32) % b->warp_count;
        *budget = 1 + (r & 63);
    } else if (order != PTX_ROUND_ROBIN) {
        *turn = order == PTX_ASCENDING ? 0 : b->warp_count - 1;
        *budget = 1 << 20;
    }
    for (uint32_t k = 0; k < b->warp_count; k++) {
        const uint32_t j = order == PTX_DESCENDING ? (*turn + b->warp_count - k) % b->warp_count
                                                   : (*turn + k) % b->warp_count;
        if (b->warps[j].state == PTX_READY) {
            *turn = (j + 1) % b->warp_count;
            return &b->warps[j];
        }
    }
    return NULL;
}

static void block_run(ptx_block *b)
{
    uint32_t turn = 0;
    uint64_t budget = 0;
    ptx_warp *w;
    const bool random = b->grid->launch->options.order == PTX_RANDOM;
    while (!b->faulted) {
        if (random && b->phases && (ptx_next(&b->random) & 7) == 0)
            (void)ptx_bulk_land(b);
        w = choose(b, &turn, &budget);
        if (w)
            ptx_warp_run(w, budget);
        else if (!ptx_bulk_land(b))
            break;
        if (w && w->state == PTX_ENDED)
            ptx_barrier_settle(b);
    }
    for (uint32_t k = 0; k < b->warp_count && !b->faulted; k++) {
        w = &b->warps[k];
        if (w->state == PTX_AT_BARRIER)
            ptx_fail(w, &w->code[w->pc - 1], w->live, 0,
                     "waits at barrier %u for warps that never come", w->barrier);
        if (w->state == PTX_AT_PHASE)
            ptx_fail(w, &w->code[w->lane_pc[__builtin_ctz(w->blocked)]], w->blocked, 0,
                     "waits at an mbarrier for arrivals or bytes that never come");
    }
}

static void add_counts(ptx_counts *sum, const ptx_counts *more)
{
    uint64_t *const s = (uint64_t *)sum;
    const uint64_t *const m = (const uint64_t *)more;
    for (size_t k = 0; k < sizeof *sum / sizeof *s; k++)
        s[k] += m[k];
}

static void *work(void *arg)
{
    ptx_grid *const g = arg;
    worker r;
    worker_init(&r, g);
    for (;;) {
        (void)pthread_mutex_lock(&g->lock);
        const uint64_t position = g->next++;
        const bool stop = position >= g->blocks || position > g->failed;
        (void)pthread_mutex_unlock(&g->lock);
        if (stop)
            break;
        block_begin(&r, position);
        block_run(&r.block);
    }
    (void)pthread_mutex_lock(&g->lock);
    add_counts(&g->counts, &r.block.counts);
    (void)pthread_mutex_unlock(&g->lock);
    worker_release(&r);
    return NULL;
}

static void shuffle(ptx_grid *g)
{
    uint64_t random = g->launch->options.seed;
    g->order = room(g->blocks, sizeof *g->order);
    for (uint32_t k = 0; k < g->blocks; k++) {
        const uint32_t j = (uint32_t)(ptx_next(&random) % (k + 1));
        g->order[k] = g->order[j];
        g->order[j] = k;
    }
}

static bool launch_is_sound(ptx_machine *m, const ptx_launch *l, uint64_t *blocks)
{
    const ptx_kernel *const k = l->kernel;
    if (!k || k->module->machine != m)
        return ptx_refuse(m, "the kernel is not one of this machine");
    uint64_t threads = 1;
    *blocks = 1;
    for (int d = 0; d < 3; d++) {
        if (l->grid[d] == 0 || l->block[d] == 0 || l->block[d] > 1024 || (d && l->grid[d] > 65535))
            return ptx_refuse(m, "kernel %s: a grid of %u %u %u blocks of %u %u %u lanes", k->name,
                              l->grid[0], l->grid[1], l->grid[2], l->block[0], l->block[1],
                              l->block[2]);
        threads *= l->block[d];
        *blocks *= l->grid[d];
    }
    const uint64_t most = k->most[0] ? (uint64_t)k->most[0] * k->most[1] * k->most[2] : 1024;
    if (threads > most || (k->required && threads != most))
        return ptx_refuse(m, "kernel %s: %llu lanes a block, made for %llu", k->name,
                          (unsigned long long)threads, (unsigned long long)most);
    if (*blocks > UINT32_MAX)
        return ptx_refuse(m, "kernel %s: too many blocks", k->name);
    if (l->shared && !k->dynamic_align)
        return ptx_refuse(m, "kernel %s has no dynamic shared memory", k->name);
    if ((uint64_t)l->shared + k->shared > PTX_SHARED_MOST)
        return ptx_refuse(m, "kernel %s: %u bytes of shared memory, at most %d can be had", k->name,
                          l->shared + k->shared, PTX_SHARED_MOST);
    if (l->bytes != k->bytes)
        return ptx_refuse(m, "kernel %s: %zu bytes of arguments, it takes %zu", k->name, l->bytes,
                          k->bytes);
    return true;
}

bool ptx_run(ptx_machine *m, const ptx_launch *l)
{
    ptx_grid g = {.machine = m, .launch = l, .kernel = l->kernel, .launch_number = ++m->launches};
    if (!launch_is_sound(m, l, &g.blocks))
        return false;
    g.failed = g.blocks;
    g.edges = l->options.checks == PTX_FULL ? ptx_edges_new(&g) : NULL;
    g.arguments = room(l->bytes, 1);
    if (l->bytes)
        memcpy(g.arguments, l->arguments, l->bytes);
    if (l->options.order == PTX_RANDOM)
        shuffle(&g);
    (void)pthread_mutex_init(&g.lock, NULL);
    pthread_t helpers[64];
    uint32_t started = 0, wanted = l->options.threads < 64 ? l->options.threads : 64;
    if (l->kernel->atomics || l->options.checks == PTX_FULL || l->options.count || l->options.trace)
        wanted = 1;
    while (started + 1 < wanted && started + 1 < g.blocks &&
           pthread_create(&helpers[started], NULL, work, &g) == 0)
        started++;
    (void)work(&g);
    for (uint32_t k = 0; k < started; k++)
        (void)pthread_join(helpers[k], NULL);
    (void)pthread_mutex_destroy(&g.lock);
    ptx_edges_free(g.edges);
    free(g.order);
    free(g.arguments);
    m->counts = g.counts;
    if (g.failed < g.blocks)
        m->fault = g.fault;
    return g.failed == g.blocks;
}
