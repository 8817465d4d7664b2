/* Added tokens: found in the text before it is cut into words, the longest at the leftmost place.
 */
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

static uint32_t child_of(const pare_tok_node *nodes, uint32_t parent, unsigned char byte)
{
    uint32_t i = nodes[parent].child;
    while (i && nodes[i].byte != byte)
        i = nodes[i].sibling;
    return i;
}

/* Room for the tokens was made; of tokens with equal texts the first stays. */
static void insert(pare_tok_trie *trie, pare_tok_slice text, size_t added)
{
    pare_tok_node *const nodes = trie->nodes;
    uint32_t at = 0;
    for (size_t i = 0; i < text.len; i++) {
        const unsigned char byte = (unsigned char)text.at[i];
        uint32_t next = child_of(nodes, at, byte);
        if (!next) {
            next = (uint32_t)trie->count++;
            nodes[next] = (pare_tok_node){.sibling = nodes[at].child, .byte = byte};
            nodes[at].child = next;
        }
        at = next;
    }
    if (!nodes[at].added)
        nodes[at].added = (uint32_t)added + 1;
    trie->first[(unsigned char)text.at[0]] = true;
}

/* Special tokens go in first: they win over others of the same normalized text. */
static pare_status build(pare_ctx *cx, pare_tokenizer *t, pare_tok_trie *trie, bool normalized)
{
    size_t nodes = 1;
    for (size_t i = 0; i < t->added_count; i++)
        nodes += t->added[i].normalized == normalized ? t->added[i].shown.len : 0;
    if (nodes == 1)
        return PARE_OK;
    if (nodes > UINT32_MAX)
        return pare_fail(cx, PARE_ENOMEM, "added_tokens: %zu bytes of text", nodes);
    trie->nodes = PARE_NEW(&t->arena, pare_tok_node, nodes);
    if (!trie->nodes)
        return PARE_ENOMEM;
    trie->count = 1;
    for (int special = 1; special >= 0; special--)
        for (size_t i = 0; i < t->added_count; i++)
            if (t->added[i].normalized == normalized && t->added[i].special == (special == 1))
                insert(trie, t->added[i].shown, i);
    return PARE_OK;
}

pare_status pare__tries_build(pare_ctx *cx, pare_tokenizer *t)
{
    for (size_t i = 0; i < t->added_count; i++) {
        pare_tok_added *const token = &t->added[i];
        token->shown = token->content;
        if (token->normalized)
            PARE_TRY(pare__text_normalize(t, &t->arena, token->content, &token->shown, NULL));
        if (token->shown.len == 0)
            return pare_fail(cx, PARE_ENOTSUP,
                             "added_tokens: '%.60s' is empty after the normalizers, which is not "
                             "supported",
                             token->content.at);
    }
    PARE_TRY(build(cx, t, &t->raw_trie, false));
    return build(cx, t, &t->normalized_trie, true);
}

/* The longest token at text[at]: its index plus one and its end; 0 when there is none. */
static uint32_t longest(const pare_tok_trie *trie, pare_tok_slice text, size_t at, size_t *end)
{
    uint32_t best = 0, node = 0;
    for (size_t i = at; i < text.len; i++) {
        node = child_of(trie->nodes, node, (unsigned char)text.at[i]);
        if (!node)
            break;
        if (trie->nodes[node].added) {
            best = trie->nodes[node].added;
            *end = i + 1;
        }
    }
    return best;
}

/* Start of the character that ends before `at` > 0. */
static size_t before(pare_tok_slice text, size_t at)
{
    do
        at--;
    while (at > 0 && ((unsigned char)text.at[at] & 0xc0) == 0x80);
    return at;
}

static size_t skip_spaces(pare_tok_slice text, size_t at)
{
    for (uint32_t c; at < text.len;) {
        const size_t n = pare__utf8_read(text.at + at, &c);
        if (!pare__is_space(c))
            break;
        at += n;
    }
    return at;
}

static size_t skip_spaces_back(pare_tok_slice text, size_t at)
{
    for (uint32_t c; at > 0;) {
        const size_t start = before(text, at);
        (void)pare__utf8_read(text.at + start, &c);
        if (!pare__is_space(c))
            break;
        at = start;
    }
    return at;
}

static pare_status stands_alone(pare_tok_encoder *e, pare_tok_slice text, size_t begin, size_t end,
                                bool *alone)
{
    bool word = false;
    if (begin > 0)
        PARE_TRY(pare__is_word(e, text, before(text, begin), &word));
    if (!word && end < text.len)
        PARE_TRY(pare__is_word(e, text, end, &word));
    *alone = !word;
    return PARE_OK;
}

pare_status pare__cutter_next(pare_tok_encoder *e, pare_tok_cutter *c, pare_tok_piece *piece,
                              bool *more)
{
    *more = true;
    if (c->held.id >= 0) {
        *piece = c->held;
        c->held.id = -1;
        return PARE_OK;
    }
    while (c->trie->nodes && c->scan < c->text.len) {
        size_t end = 0;
        const size_t begin = c->scan;
        const uint32_t hit = c->trie->first[(unsigned char)c->text.at[begin]]
                                 ? longest(c->trie, c->text, begin, &end)
                                 : 0;
        c->scan = hit ? end : begin + 1;
        if (!hit)
            continue;
        const pare_tok_added *const token = &e->t->added[hit - 1];
        bool alone = true;
        if (token->single_word)
            PARE_TRY(stands_alone(e, c->text, begin, end, &alone));
        if (!alone)
            continue;
        const size_t left = token->lstrip ? skip_spaces_back(c->text, begin) : begin;
        const size_t start = token->lstrip && left < c->done ? c->done : left;
        end = token->rstrip ? skip_spaces(c->text, end) : end;
        if (start >= end) /* all of it went to the token before */
            continue;
        c->held = (pare_tok_piece){start, end, token->id};
        *piece = (pare_tok_piece){c->done, start, -1};
        c->done = c->held.end;
        if (piece->begin < piece->end)
            return PARE_OK;
        *piece = c->held;
        c->held.id = -1;
        return PARE_OK;
    }
    *piece = (pare_tok_piece){c->done, c->text.len, -1};
    *more = c->done < c->text.len;
    c->done = c->text.len;
    return PARE_OK;
}
