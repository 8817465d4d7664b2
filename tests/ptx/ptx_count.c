/* tests/ptx/ptx_count.c - what accesses of memory cost: sectors of 32 bytes of global memory,
 * passes over the 32 banks of shared memory. */
#include <stdlib.h>

#include "tests/ptx/ptx_shadow.h"

enum { SECTOR = 32, BANKS = 32 };

/* Adds a value to a list without it; false if it was there. */
static bool add_new(uint64_t *list, uint32_t *n, uint64_t value)
{
    for (uint32_t k = *n; k-- > 0;)
        if (list[k] == value)
            return false;
    list[(*n)++] = value;
    return true;
}

/* The sectors of an allocation that this launch touched. */
static uint8_t *sectors_of(const ptx_grid *g, ptx_segment *s)
{
    if (s->counted != g->launch_number || !s->sectors) {
        free(s->sectors);
        s->sectors = calloc(s->size / SECTOR + 1, 1);
        if (!s->sectors)
            abort();
        s->counted = g->launch_number;
    }
    return s->sectors;
}

static void count_global(ptx_warp *w, const ptx_access *t)
{
    const ptx_grid *const g = w->block->grid;
    ptx_counts *const c = &w->block->counts;
    uint64_t list[PTX_LANES];
    uint32_t n = 0;
    for (uint32_t left = w->act; left; left &= left - 1) {
        const int i = __builtin_ctz(left);
        c->asked += t->bytes;
        if (!add_new(list, &n, t->address[i] / SECTOR))
            continue;
        ptx_segment *const s = ptx_segment_of(g->machine, t->address[i]);
        uint8_t *const seen =
            &sectors_of(g, s)[((uint32_t)t->address[i] - (uint64_t)PTX_GUARD) / SECTOR];
        c->distinct += !*seen;
        *seen = 1;
    }
    c->sectors += n;
}

/* Lanes first .. first + lanes - 1, which go together: words that differ in one bank take turns. */
static void count_banks(ptx_warp *w, const ptx_access *t, uint32_t first, uint32_t lanes)
{
    uint64_t words[BANKS][PTX_LANES]; /* of each bank, those that it has in this turn */
    uint32_t n = 0, uses[BANKS] = {0}, most = 0;
    for (uint32_t i = first; i < first + lanes; i++)
        for (uint32_t k = 0; w->act >> i & 1 && k < (t->bytes + 3) / 4; k++) {
            const uint64_t word = t->address[i] / 4 + k;
            const size_t bank = word % BANKS;
            n += add_new(words[bank], &uses[bank], word);
            most = uses[bank] > most ? uses[bank] : most;
        }
    w->block->counts.wavefronts += most;
    w->block->counts.least += (n + BANKS - 1) / BANKS;
}

static void count_shared(ptx_warp *w, const ptx_access *t)
{
    const uint32_t lanes = t->bytes <= 4 ? 32 : t->bytes == 8 ? 16 : 8;
    for (uint32_t first = 0; first < PTX_LANES; first += lanes)
        count_banks(w, t, first, lanes);
}

bool ptx_note_watched(ptx_warp *w, const ptx_ins *in, const ptx_access *t)
{
    if (w->block->grid->launch->options.count && t->space == PTX_GLOBAL)
        count_global(w, t);
    if (w->block->grid->launch->options.count && t->space == PTX_SHARED)
        count_shared(w, t);
    return ptx_shadow_access(w, in, t);
}
