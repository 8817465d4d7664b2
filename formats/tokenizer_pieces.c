/* Scored pieces: the order that finds them by prefixes, ranks of scores, pairs of characters. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "formats/tokenizer_internal.h"

pare_tok_type pare__pieces_type(const pare_tok_vocab *v, const pare_tok_pieces *p,
                                const pare_tok_entry *entry)
{
    return p->type ? (pare_tok_type)p->type[entry - v->entries] : PARE_TOK_NORMAL;
}

static int by_bytes(const void *a, const void *b)
{
    const pare_tok_slice x = (*(const pare_tok_entry *const *)a)->text;
    const pare_tok_slice y = (*(const pare_tok_entry *const *)b)->text;
    const int order = memcmp(x.at, y.at, x.len < y.len ? x.len : y.len);
    return order ? order : (x.len > y.len) - (x.len < y.len);
}

static void sort(pare_tok_sorted *s)
{
    if (s->count)
        qsort(s->list, s->count, sizeof *s->list, by_bytes);
    size_t i = 0;
    for (unsigned b = 0; b < 257; b++) {
        while (i < s->count && (unsigned char)s->list[i]->text.at[0] < b)
            i++;
        s->first[b] = (uint32_t)i;
    }
}

pare_status pare__pieces_sort(pare_arena *a, const pare_tok_vocab *v, pare_tok_pieces *p)
{
    p->normal.list = PARE_NEW(a, const pare_tok_entry *, v->count);
    p->user.list = PARE_NEW(a, const pare_tok_entry *, v->count);
    if (!p->normal.list || !p->user.list)
        return PARE_ENOMEM;
    bool any = false;
    p->most = (double)FLT_MIN; /* never below, as in the published program */
    for (size_t i = 0; i < v->count; i++) {
        const pare_tok_type type = pare__pieces_type(v, p, &v->entries[i]);
        if (type == PARE_TOK_USER)
            p->user.list[p->user.count++] = &v->entries[i];
        if (type != PARE_TOK_NORMAL && type != PARE_TOK_USER)
            continue;
        if (v->entries[i].text.len)
            p->normal.list[p->normal.count++] = &v->entries[i];
        if (type != PARE_TOK_NORMAL)
            continue;
        p->least = any && p->least < p->score[i] ? p->least : p->score[i];
        p->most = p->most > p->score[i] ? p->most : p->score[i];
        any = true;
    }
    sort(&p->normal);
    sort(&p->user);
    return PARE_OK;
}

/* The first piece of [low, high), which share `depth` bytes, whose next byte is at least `byte`. */
static size_t bound(const pare_tok_sorted *s, size_t low, size_t high, size_t depth, unsigned byte)
{
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const pare_tok_slice text = s->list[mid]->text;
        if (text.len > depth && (unsigned char)text.at[depth] >= byte)
            high = mid;
        else
            low = mid + 1;
    }
    return low;
}

bool pare__sorted_step(const pare_tok_sorted *s, pare_tok_range *r, unsigned char byte,
                       const pare_tok_entry **whole)
{
    if (r->depth == 0) {
        r->low = s->first[byte];
        r->high = s->first[byte + 1u];
    } else {
        r->low = bound(s, r->low, r->high, r->depth, byte);
        r->high = bound(s, r->low, r->high, r->depth, byte + 1u);
    }
    *whole = NULL;
    r->depth++;
    if (r->low == r->high)
        return false;
    if (s->list[r->low]->text.len == r->depth)
        *whole = s->list[r->low];
    return true;
}

const pare_tok_entry *pare__sorted_longest(const pare_tok_sorted *s, const char *text, size_t len)
{
    pare_tok_range r = {0, s->count, 0};
    const pare_tok_entry *best = NULL, *whole;
    for (size_t i = 0; i < len && pare__sorted_step(s, &r, (unsigned char)text[i], &whole); i++)
        best = whole ? whole : best;
    return best;
}

static int descending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x < y) - (x > y);
}

static pare_status rank_scores(pare_arena *a, const pare_tok_vocab *v, pare_tok_pieces *p)
{
    p->rank = PARE_NEW(a, int32_t, v->count);
    double *const order = PARE_NEW(a, double, v->count);
    if (!p->rank || !order)
        return PARE_ENOMEM;
    size_t kinds = 0;
    if (v->count) {
        memcpy(order, p->score, v->count * sizeof *order);
        qsort(order, v->count, sizeof *order, descending);
    }
    for (size_t i = 0; i < v->count; i++)
        if (i == 0 || order[i] != order[kinds - 1])
            order[kinds++] = order[i];
    for (size_t i = 0; i < v->count; i++) {
        const double *const at = bsearch(&p->score[i], order, kinds, sizeof *order, descending);
        p->rank[i] = at ? (int32_t)(at - order) : INT32_MAX;
    }
    return PARE_OK;
}

static size_t pair_bit(const pare_tok_pieces *p, uint32_t left, uint32_t right)
{
    uint64_t x = ((uint64_t)left << 32 | right) * UINT64_C(0x9e3779b97f4a7c15);
    x ^= x >> 32;
    return (size_t)(x * UINT64_C(0xd6e8feb86659fd93) >> 24) & p->pair_mask;
}

bool pare__pieces_pair(const pare_tok_pieces *p, uint32_t left, uint32_t right)
{
    const size_t bit = pair_bit(p, left, right);
    return p->pairs[bit / 64] >> (bit % 64) & 1;
}

pare_status pare__pieces_rank(pare_arena *a, const pare_tok_vocab *v, pare_tok_pieces *p)
{
    size_t bits = 1 << 12;
    while (bits / 16 < v->count && bits <= SIZE_MAX / 64)
        bits *= 2;
    p->pairs = PARE_NEW(a, uint64_t, bits / 64);
    if (!p->pairs)
        return PARE_ENOMEM;
    p->pair_mask = bits - 1;
    for (size_t i = 0; i < p->normal.count; i++) {
        const pare_tok_slice text = p->normal.list[i]->text;
        uint32_t left, right;
        for (size_t at = pare__utf8_read(text.at, &left); at < text.len; left = right) {
            at += pare__utf8_read(text.at + at, &right);
            const size_t bit = pair_bit(p, left, right);
            p->pairs[bit / 64] |= UINT64_C(1) << (bit % 64);
        }
    }
    return rank_scores(a, v, p);
}
