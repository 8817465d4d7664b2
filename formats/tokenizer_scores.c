/* Byte-pair encoding of a tokenizer.model: two neighbours join when their text is a piece. The best
 * score joins first and, among equal ones, the leftmost.
 *
 * Texts decide here, not ids: characters without a piece of their own join too. Pieces of the user
 * are found before and never join. Where no piece holds two neighbouring characters side by side,
 * nothing joins across, and what lies before is finished: a text falls into short parts. */
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

/* The piece that symbols `at` and `next` make together, NULL when they do not join. */
static const pare_tok_entry *joined(const pare_tok_encoder *e, int32_t at)
{
    const pare_tok_part *const s = e->parts;
    if (at < 0 || s[at].next < 0 || s[at].frozen || s[s[at].next].frozen)
        return NULL;
    const pare_tok_vocab *const v = &e->t->vocab;
    const pare_tok_entry *const entry =
        pare__vocab_by_text(v, s[at].text.at, s[at].text.len + s[s[at].next].text.len);
    if (!entry)
        return NULL;
    const pare_tok_type type = pare__pieces_type(v, &e->t->pieces, entry);
    return type == PARE_TOK_NORMAL || type == PARE_TOK_USER ? entry : NULL;
}

static pare_status offer(pare_tok_encoder *e, int32_t at)
{
    const pare_tok_entry *const entry = joined(e, at);
    if (!entry)
        return PARE_OK;
    const size_t piece = (size_t)(entry - e->t->vocab.entries);
    return pare__heap_push(e, (uint32_t)e->t->pieces.rank[piece], at, (int32_t)piece);
}

static pare_status join_all(pare_tok_encoder *e)
{
    pare_tok_part *const s = e->parts;
    for (size_t i = 0; i + 1 < e->part_count; i++)
        PARE_TRY(offer(e, (int32_t)i));
    while (e->heap_count) {
        const pare_tok_candidate top = pare__heap_pop(e);
        const int32_t at = (int32_t)(top.key & UINT32_MAX), right = s[at].next;
        if (s[at].text.len == 0 || right < 0 ||
            s[at].text.len + s[right].text.len != e->t->vocab.entries[top.id].text.len)
            continue;
        s[at].text.len += s[right].text.len;
        s[at].next = s[right].next;
        s[right].text.len = 0;
        if (s[at].next >= 0)
            s[s[at].next].prev = at;
        PARE_TRY(offer(e, s[at].prev));
        PARE_TRY(offer(e, at));
    }
    return PARE_OK;
}

static pare_status flush(pare_tok_encoder *e)
{
    const pare_tok_vocab *const v = &e->t->vocab;
    PARE_TRY(join_all(e));
    for (int32_t i = e->part_count ? 0 : -1; i >= 0; i = e->parts[i].next) {
        const pare_tok_slice text = e->parts[i].text;
        const pare_tok_entry *const entry = pare__vocab_by_text(v, text.at, text.len);
        const bool known = entry && pare__pieces_type(v, &e->t->pieces, entry) != PARE_TOK_UNKNOWN;
        PARE_TRY(pare__encode_piece(e, text, known ? entry->id : -1));
    }
    e->part_count = 0;
    return PARE_OK;
}

static pare_status add_part(pare_tok_encoder *e, pare_tok_slice text, bool frozen)
{
    const size_t n = e->part_count;
    PARE_TRY(pare__reserve(e, (void **)&e->parts, &e->part_capacity, n, n + 1, sizeof *e->parts));
    e->parts[n] = (pare_tok_part){text, (int32_t)n - 1, -1, frozen};
    if (n)
        e->parts[n - 1].next = (int32_t)n;
    e->part_count++;
    return PARE_OK;
}

pare_status pare__encode_scores(pare_tok_encoder *e, pare_tok_slice word)
{
    const pare_tok_pieces *const p = &e->t->pieces;
    uint32_t left = 0, right = 0;
    bool frozen = true;
    e->part_count = 0;
    for (size_t i = 0, n; i < word.len; i += n) {
        const pare_tok_entry *const user =
            p->user.count ? pare__sorted_longest(&p->user, word.at + i, word.len - i) : NULL;
        n = pare__utf8_read(word.at + i, &right);
        if (frozen || user || !pare__pieces_pair(p, left, right))
            PARE_TRY(flush(e));
        frozen = user != NULL;
        n = user ? user->text.len : n;
        PARE_TRY(add_part(e, (pare_tok_slice){word.at + i, n}, frozen));
        left = right;
    }
    PARE_TRY(flush(e));
    return pare__encode_unknown(e);
}
