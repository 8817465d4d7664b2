/* Matrices without most of their zeros, and those with so few that they keep them. */
#include <inttypes.h>
#include <string.h>

#include "formats/packed_internal.h"
#include "kernels/layout.h"
#include "runtime/threads.h"

enum { INDEX_BITS = 2, INDICES = 64 /* bytes of an atom's */, PAIRS = 2 };

/* --- packing 2:4 ------------------------------------------------------------------------------ */

/* What a worker packs from: PARE_PAD_N rows of places. */
typedef struct places {
    uint8_t *code, *index;
    float *value; /* of one row */
} places;

typedef struct pack_24 {
    const pare_ctx *cx;
    const pare_packed_linear *l;
    const pare_codes *from;
    const pare_packed_planes *to;
    places *worker;
    size_t kept;
    size_t *bad; /* [pads] 1 + the first row and column, row * k + column, with three of four */
} pack_24;

static bool is_zero(const pack_24 *t, size_t row, size_t column)
{
    const size_t at = row * t->l->k + column;
    return t->from->values ? t->from->values[at] == 0.0F
                           : t->from->codes[at] == pare_packed_zero_code(t->l);
}

/* Two columns below `have` for four from `column` on: those that are not 0, then the lowest that
 * are left. False when there are more. */
static bool choose(const pack_24 *t, size_t row, size_t column, size_t have, uint8_t pair[PAIRS])
{
    unsigned chosen = 0, count = 0;
    for (unsigned i = 0; i < have; i++)
        if (!is_zero(t, row, column + i)) {
            chosen |= 1u << i;
            count++;
        }
    for (unsigned i = 0; count < PAIRS; i++)
        if (!(chosen >> i & 1)) {
            chosen |= 1u << i;
            count++;
        }
    for (unsigned i = 0, n = 0; i < 4 && n < PAIRS; i++)
        if (chosen >> i & 1)
            pair[n++] = (uint8_t)i;
    return count == PAIRS;
}

static void compress_row(const pack_24 *t, const places *p, size_t row, size_t pad_row)
{
    const size_t k = t->l->k;
    uint8_t *const code = p->code + pad_row * t->kept, *const index = p->index + pad_row * t->kept;
    const bool real = row < t->l->n;
    for (size_t at = 0; at < t->kept; at += PAIRS) {
        const size_t column = at * 2, have = column < k && real ? k - column : 0;
        if (!choose(t, row, column, have < 4 ? have : 4, index + at) && !t->bad[row / PARE_PAD_N])
            t->bad[row / PARE_PAD_N] = 1 + row * k + column;
        for (size_t i = at; i < at + PAIRS; i++) {
            const bool there = index[i] < have;
            const size_t from = row * k + column + index[i];
            if (t->from->values)
                p->value[i] = there ? t->from->values[from] : 0;
            else
                code[i] = there ? t->from->codes[from] : pare_packed_zero_code(t->l);
        }
    }
    uint16_t *const values = t->to->plane[PARE_PLANE_VALUES];
    if (t->from->values)
        t->cx->kernels.cvt_f32_f16(values + row * t->kept, p->value, t->kept);
}

/* Items are pads of 16 rows. */
static void pack_pads(void *arg, size_t begin, size_t end, size_t worker)
{
    const pack_24 *const t = arg;
    const places *const p = &t->worker[worker];
    const size_t atoms = PARE_PAD_N / PARE_ATOM_N * (t->kept / PARE_ATOM_K);
    uint8_t *const codes = t->to->plane[PARE_PLANE_CODES];
    uint8_t *const indices = t->to->plane[PARE_PLANE_INDICES];
    for (size_t i = begin; i < end; i++) {
        for (size_t r = 0; r < PARE_PAD_N; r++)
            compress_row(t, p, i * PARE_PAD_N + r, r);
        if (codes)
            pare_pack_codes(codes + i * atoms * pare_atom_bytes(t->l->bits), p->code, t->kept,
                            PARE_PAD_N, t->kept, t->l->bits, NULL, 0, 0);
        pare_pack_codes(indices + i * atoms * INDICES, p->index, t->kept, PARE_PAD_N, t->kept,
                        INDEX_BITS, NULL, 0, 0);
    }
}

static pare_status take_workers(const pare_ctx *cx, pare_arena *a, pack_24 *t, size_t pads)
{
    const size_t workers = pare_threads(cx);
    t->bad = PARE_NEW(a, size_t, pads);
    t->worker = PARE_NEW(a, places, workers);
    for (size_t i = 0; t->bad && t->worker && i < workers; i++) {
        t->worker[i].code = PARE_NEW(a, uint8_t, t->kept * PARE_PAD_N);
        t->worker[i].index = PARE_NEW(a, uint8_t, t->kept * PARE_PAD_N);
        t->worker[i].value = PARE_NEW(a, float, t->kept);
        if (!t->worker[i].code || !t->worker[i].index || !t->worker[i].value)
            return PARE_ENOMEM;
    }
    return t->bad && t->worker ? PARE_OK : PARE_ENOMEM;
}

static pare_status pack_places(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                               const pare_codes *from, const pare_packed_planes *to)
{
    pack_24 t = {.cx = cx, .l = l, .from = from, .to = to, .kept = pare_24_kept(l->k)};
    const size_t pads = (l->n + PARE_PAD_N - 1) / PARE_PAD_N;
    PARE_TRY(take_workers(cx, a, &t, pads));
    pare_parallel(cx, pads, 1, pack_pads, &t);
    for (size_t i = 0; i < pads; i++)
        if (t.bad[i])
            return pare_fail(
                cx, PARE_ENUMERIC, "%s: row %zu: more than two of the columns %zu .. %zu are not 0",
                l->name, (t.bad[i] - 1) / l->k, (t.bad[i] - 1) % l->k, (t.bad[i] - 1) % l->k + 3);
    return PARE_OK;
}

/* --- packing a bitmask ------------------------------------------------------------------------ */

typedef struct pack_mask {
    const pare_ctx *cx;
    const pare_packed_linear *l;
    const float *value;
    uint8_t *bits;
    uint16_t *to;
    size_t *start; /* [n + 1]; first how many there are in row r at r + 1 */
} pack_mask;

static void set_bits(void *arg, size_t begin, size_t end, size_t worker)
{
    const pack_mask *const t = arg;
    const size_t k = t->l->k, bytes = (k + 7) / 8;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        for (size_t j = 0; j < k; j++)
            if (t->value[r * k + j] != 0.0F) {
                uint8_t *const byte = &t->bits[r * bytes + j / 8];
                *byte = (uint8_t)(*byte | 1u << j % 8);
                t->start[r + 1]++;
            }
}

static void put_values(void *arg, size_t begin, size_t end, size_t worker)
{
    const pack_mask *const t = arg;
    const size_t k = t->l->k;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        uint16_t *to = t->to + t->start[r];
        for (size_t j = 0; j < k; j++)
            if (t->value[r * k + j] != 0.0F)
                t->cx->kernels.cvt_f32_f16(to++, &t->value[r * k + j], 1);
    }
}

static pare_status pack_bits(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                             const pare_codes *from, const pare_packed_planes *to)
{
    pack_mask t = {.cx = cx,
                   .l = l,
                   .value = from->values,
                   .bits = to->plane[PARE_PLANE_MASK],
                   .to = to->plane[PARE_PLANE_VALUES],
                   .start = PARE_NEW(a, size_t, l->n + 1)};
    if (!t.start)
        return PARE_ENOMEM;
    pare_parallel(cx, l->n, 1, set_bits, &t);
    for (size_t r = 0; r < l->n; r++) {
        t.start[r + 1] += t.start[r];
        if (t.start[r + 1] > l->kept)
            return pare_fail(cx, PARE_ENUMERIC,
                             "%s: rows 0 .. %zu have %zu weights that are not 0, there is room for "
                             "%" PRIu64,
                             l->name, r, t.start[r + 1], l->kept);
    }
    pare_parallel(cx, l->n, 1, put_values, &t);
    return PARE_OK;
}

pare_status pare__packed_pack_pruned(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                                     const pare_codes *from, const pare_packed_planes *to)
{
    if (l->sparsity == PARE_SPARSITY_NONE) {
        cx->kernels.cvt_f32_f16(to->plane[PARE_PLANE_VALUES], from->values, l->n * l->k);
        return PARE_OK;
    }
    const pare_mark mark = pare_arena_mark(a);
    const pare_status s = l->sparsity == PARE_SPARSITY_2_4 ? pack_places(cx, a, l, from, to)
                                                           : pack_bits(cx, a, l, from, to);
    pare_arena_rewind(a, mark);
    return s;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* Nonzero when a pair of indices does not ascend: `e` has those of 16 places, first ones in even
 * bytes, second ones in odd bytes. */
static uint64_t falling(uint64_t e)
{
    const uint64_t even = 0x00ff00ff00ff00ffu, low = 0x0055005500550055u;
    const uint64_t a = e & even, b = e >> 8 & even;
    const uint64_t a1 = a >> 1 & low, a0 = a & low, b1 = b >> 1 & low, b0 = b & low;
    const uint64_t below = (b1 & ~a1) | (~(a1 ^ b1) & b0 & ~a0);
    return ~below & low;
}

/* Indices of an atom, its first column being `column` and its first row `row`. */
static pare_status check_indices(pare_ctx *cx, const pare_packed_linear *l, const uint8_t *e,
                                 size_t row, size_t column)
{
    for (size_t at = 0; at < INDICES; at += sizeof(uint64_t)) {
        uint64_t word = 0, wrong;
        for (size_t i = 0; i < sizeof word; i++)
            word |= (uint64_t)e[at + i] << 8 * i;
        wrong = falling(word);
        if (!wrong)
            continue;
        const unsigned bit = (unsigned)__builtin_ctzll(wrong);
        const size_t byte = at + bit / 8;
        const size_t place = byte / 32 * 16 + bit % 8 / 2 * 4 + byte % 4;
        return pare_fail(cx, PARE_EFORMAT,
                         "%s.indices: row %zu: the two of columns %zu .. %zu do not ascend",
                         l->name, row + byte % 32 / 4, column + place * 2, column + place * 2 + 3);
    }
    return PARE_OK;
}

static pare_status view_24(pare_ctx *cx, const pare_packed_linear *l, void *const *plane,
                           pare_linear *out)
{
    const size_t atoms = pare_24_kept(l->k) / PARE_ATOM_K;
    const size_t count = pare_round_up(l->n, PARE_PAD_N) / PARE_ATOM_N * atoms;
    out->panel.indices = plane[PARE_PLANE_INDICES];
    out->panel.values = plane[PARE_PLANE_VALUES];
    out->panel.ldv = pare_24_kept(l->k);
    for (size_t i = 0; i < count; i++)
        PARE_TRY(check_indices(cx, l, out->panel.indices + i * INDICES, i / atoms * PARE_ATOM_N,
                               i % atoms * 64));
    return PARE_OK;
}

static pare_status view_mask(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                             void *const *plane, pare_linear *out)
{
    const uint8_t *const bits = plane[PARE_PLANE_MASK];
    const size_t bytes = (l->k + 7) / 8;
    size_t *const start = PARE_NEW(a, size_t, l->n + 1);
    if (!start)
        return PARE_ENOMEM;
    for (size_t r = 0; r < l->n; r++) {
        const uint8_t *const row = bits + r * bytes;
        size_t count = 0;
        for (size_t i = 0; i < bytes; i++)
            count += (size_t)__builtin_popcount(row[i]);
        if (l->k % 8 && row[bytes - 1] >> l->k % 8)
            return pare_fail(cx, PARE_EFORMAT, "%s.mask: row %zu: a bit behind column %zu is set",
                             l->name, r, l->k - 1);
        start[r + 1] = start[r] + count;
    }
    if (start[l->n] > l->kept)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s.mask: %zu bits are set, there are %" PRIu64 " values", l->name,
                         start[l->n], l->kept);
    out->mask = (pare_mask){
        .bits = bits, .start = start, .value = plane[PARE_PLANE_VALUES], .n = l->n, .k = l->k};
    return PARE_OK;
}

pare_status pare__packed_view_pruned(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                                     void *const *plane, pare_linear *out)
{
    if (pare_encoding_is_float(l->encoding) && l->sparsity == PARE_SPARSITY_NONE) {
        out->bits = 0;
        out->dtype = PARE_F16;
        out->data = plane[PARE_PLANE_VALUES];
    }
    out->sparsity = l->sparsity;
    if (l->sparsity == PARE_SPARSITY_2_4)
        return view_24(cx, l, plane, out);
    return l->sparsity == PARE_SPARSITY_BITMASK ? view_mask(cx, a, l, plane, out) : PARE_OK;
}
