/* Byte-pair encoding of one word.
 *
 * The word's characters become symbols of a linked list. Every adjacent pair that has a merge waits
 * in a binary heap, keyed by rank and then position; the smallest key merges first and the pairs it
 * makes join the heap. A pair changed since it was put there is recognised by its rank and dropped.
 * O(n log n) for n characters, however long the word is. */
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

pare_status pare__reserve(pare_tok_encoder *e, void **buffer, size_t *capacity, size_t used,
                          size_t need, size_t size)
{
    if (need <= *capacity)
        return PARE_OK;
    const size_t room = need < 64 ? 64 : need > SIZE_MAX / 2 ? need : need + need / 2;
    void *const more = pare_arena_take(&e->keep, room, size);
    if (!more)
        return PARE_ENOMEM;
    if (used)
        memcpy(more, *buffer, used * size);
    *buffer = more;
    *capacity = room;
    return PARE_OK;
}

pare_status pare__encode_id(pare_tok_encoder *e, int32_t id)
{
    PARE_TRY(pare__reserve(e, (void **)&e->ids, &e->ids_capacity, e->count, e->count + 1,
                           sizeof *e->ids));
    e->ids[e->count++] = id;
    return PARE_OK;
}

static void sift_up(pare_tok_candidate *heap, size_t i)
{
    const pare_tok_candidate c = heap[i];
    for (; i > 0 && heap[(i - 1) / 2].key > c.key; i = (i - 1) / 2)
        heap[i] = heap[(i - 1) / 2];
    heap[i] = c;
}

pare_tok_candidate pare__heap_pop(pare_tok_encoder *e)
{
    pare_tok_candidate *const heap = e->heap, top = heap[0], last = heap[--e->heap_count];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < e->heap_count; i = child) {
        if (child + 1 < e->heap_count && heap[child + 1].key < heap[child].key)
            child++;
        if (heap[child].key >= last.key)
            break;
        heap[i] = heap[child];
    }
    heap[i] = last;
    return top;
}

pare_status pare__heap_push(pare_tok_encoder *e, uint32_t rank, int32_t at, int32_t id)
{
    PARE_TRY(pare__reserve(e, (void **)&e->heap, &e->heap_capacity, e->heap_count,
                           e->heap_count + 1, sizeof *e->heap));
    e->heap[e->heap_count] = (pare_tok_candidate){(uint64_t)rank << 32 | (uint32_t)at, id};
    sift_up(e->heap, e->heap_count++);
    return PARE_OK;
}

/* Puts the pair that starts at symbol `at` into the heap if it has a merge. */
static pare_status offer(pare_tok_encoder *e, int32_t at)
{
    const pare_tok_symbol *const s = e->symbols;
    if (at < 0 || s[at].next < 0)
        return PARE_OK;
    const pare_tok_merge *const m = pare__merges_find(&e->t->merges, s[at].id, s[s[at].next].id);
    return m ? pare__heap_push(e, (uint32_t)m->rank, at, m->id) : PARE_OK;
}

static pare_status merge_all(pare_tok_encoder *e)
{
    pare_tok_symbol *const s = e->symbols;
    e->heap_count = 0;
    for (size_t i = 0; i + 1 < e->symbol_count; i++)
        PARE_TRY(offer(e, (int32_t)i));
    while (e->heap_count) {
        const pare_tok_candidate top = pare__heap_pop(e);
        const int32_t at = (int32_t)(top.key & UINT32_MAX), right = s[at].next;
        if (s[at].id < 0 || right < 0)
            continue;
        const pare_tok_merge *const m = pare__merges_find(&e->t->merges, s[at].id, s[right].id);
        if (!m || (uint64_t)(uint32_t)m->rank != top.key >> 32)
            continue;
        s[at].id = top.id;
        s[at].next = s[right].next;
        s[right].id = -1;
        if (s[at].next >= 0)
            s[s[at].next].prev = at;
        PARE_TRY(offer(e, s[at].prev));
        PARE_TRY(offer(e, at));
    }
    return PARE_OK;
}

/* Merges what is in the list and gives it out. */
static pare_status flush(pare_tok_encoder *e)
{
    PARE_TRY(merge_all(e));
    for (int32_t i = e->symbol_count ? 0 : -1; i >= 0; i = e->symbols[i].next)
        PARE_TRY(pare__encode_id(e, e->symbols[i].id));
    e->symbol_count = 0;
    return PARE_OK;
}

/* Where no merge can ever join the neighbours, what lies before them is done: a text without
 * pre-tokenizer, one word by the rules, falls into short parts with the same ids. */
static pare_status add_symbol(pare_tok_encoder *e, int32_t id)
{
    const pare_tok_merges *const joins = &e->t->joins;
    if (e->symbol_count && joins->slots &&
        !pare__merges_find(joins, e->symbols[e->symbol_count - 1].id, id))
        PARE_TRY(flush(e));
    const size_t n = e->symbol_count;
    PARE_TRY(
        pare__reserve(e, (void **)&e->symbols, &e->symbol_capacity, n, n + 1, sizeof *e->symbols));
    e->symbols[n] = (pare_tok_symbol){id, (int32_t)n - 1, -1};
    if (n)
        e->symbols[n - 1].next = (int32_t)n;
    e->symbol_count++;
    return PARE_OK;
}

/* A character without a token: its bytes when all of them have tokens, else the unknown token.
 * Unknown characters in a row become one token under fuse_unk; *waiting tells that one is due. A
 * character between them that falls back to bytes does not end the row: the peers do the same. */
static pare_status add_unknown(pare_tok_encoder *e, const char *at, size_t len, bool *waiting)
{
    const pare_tokenizer *const t = e->t;
    bool falls_back = t->byte_fallback;
    for (size_t i = 0; i < len && falls_back; i++)
        falls_back = t->fallback_ids[(unsigned char)at[i]] >= 0;
    if (falls_back) {
        for (size_t i = 0; i < len; i++)
            PARE_TRY(add_symbol(e, t->fallback_ids[(unsigned char)at[i]]));
        return PARE_OK;
    }
    if (!t->unk_text)
        return PARE_OK;
    if (t->unk < 0)
        return pare_fail(e->cx, PARE_EFORMAT,
                         "tokenizer: a character has no token and unk_token '%.60s' is not in the "
                         "vocabulary",
                         t->unk_text);
    if (*waiting && !t->fuse_unk)
        PARE_TRY(add_symbol(e, t->unk));
    *waiting = true;
    return PARE_OK;
}

static pare_status add_character(pare_tok_encoder *e, int32_t id, const char *at, size_t len,
                                 bool *waiting)
{
    if (id < 0)
        return add_unknown(e, at, len, waiting);
    if (*waiting)
        PARE_TRY(add_symbol(e, e->t->unk));
    *waiting = false;
    return add_symbol(e, id);
}

static pare_status fill_symbols(pare_tok_encoder *e, pare_tok_slice word)
{
    const pare_tokenizer *const t = e->t;
    bool waiting = false;
    e->symbol_count = 0;
    for (size_t i = 0, n = 1; i < word.len; i += n) {
        if (t->byte_level) {
            const unsigned char b = (unsigned char)word.at[i];
            PARE_TRY(add_character(e, t->byte_ids[b], t->byte_text[b], t->byte_len[b], &waiting));
            continue;
        }
        uint32_t c;
        n = pare__utf8_read(word.at + i, &c);
        const pare_tok_entry *const entry = pare__vocab_by_text(&t->vocab, word.at + i, n);
        PARE_TRY(add_character(e, entry ? entry->id : -1, word.at + i, n, &waiting));
    }
    return waiting ? add_symbol(e, t->unk) : PARE_OK;
}

/* The token that is the whole word, NULL when there is none. */
static pare_status whole_word(pare_tok_encoder *e, pare_tok_slice word,
                              const pare_tok_entry **entry)
{
    const pare_tokenizer *const t = e->t;
    if (!t->byte_level) {
        *entry = pare__vocab_by_text(&t->vocab, word.at, word.len);
        return PARE_OK;
    }
    PARE_TRY(pare__reserve(e, (void **)&e->word, &e->word_capacity, 0, word.len * 2, 1));
    const size_t used = pare__text_spell(t, word, e->word);
    *entry = pare__vocab_by_text(&t->vocab, e->word, used);
    return PARE_OK;
}

pare_status pare__encode_word(pare_tok_encoder *e, pare_tok_slice word)
{
    if (word.len == 0)
        return PARE_OK;
    if (e->t->model == PARE_TOK_SCORES)
        return pare__encode_scores(e, word);
    if (e->t->model == PARE_TOK_UNIGRAM)
        return pare__encode_unigram(e, word);
    if (e->t->ignore_merges) {
        const pare_tok_entry *entry;
        PARE_TRY(whole_word(e, word, &entry));
        if (entry)
            return pare__encode_id(e, entry->id);
    }
    PARE_TRY(fill_symbols(e, word));
    return flush(e);
}
