/* Stages of the pre-tokenizer: each cuts a text at its matches or changes it, and hands on the
 * parts. What happens to a match is its behavior:
 *
 *     text a-bc, match '-'    isolated  a | - | bc      contiguous   neighbouring matches are one
 *                             removed   a | bc          previous     a- | bc
 *                                                       next         a | -bc */
#include <string.h>
#include <utf8proc.h>

#include "formats/tokenizer_encode_internal.h"

bool pare__is_number(uint32_t c)
{
    const utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
    return kind == UTF8PROC_CATEGORY_ND || kind == UTF8PROC_CATEGORY_NL ||
           kind == UTF8PROC_CATEGORY_NO;
}

/* Punctuation of Unicode and all signs of ASCII. */
bool pare__is_punctuation(uint32_t c)
{
    if (c < 0x80)
        return c > ' ' && c < 0x7f && !(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
               !(c >= 'A' && c <= 'Z');
    const utf8proc_category_t kind = utf8proc_category((utf8proc_int32_t)c);
    return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

static pare_status find_class(const pare_tok_stage *stage, pare_tok_slice text, size_t from,
                              size_t *begin, size_t *end)
{
    uint32_t c;
    for (size_t n; from < text.len; from += n) {
        n = pare__utf8_read(text.at + from, &c);
        if (!stage->belongs(c))
            continue;
        *begin = from;
        *end = from + n;
        return PARE_OK;
    }
    *begin = *end = SIZE_MAX;
    return PARE_OK;
}

/* The first match at or behind `from`; begin SIZE_MAX when there is none. */
static pare_status find(pare_tok_encoder *e, const pare_tok_stage *stage, pare_tok_slice text,
                        size_t from, size_t *begin, size_t *end)
{
    if (stage->kind == PARE_TOK_PATTERN)
        return pare__pattern_find(e, stage->code, text, from, begin, end);
    if (stage->kind == PARE_TOK_CLASS)
        return find_class(stage, text, from, begin, end);
    *begin = pare__text_find(text, from, stage->text);
    *end = *begin + stage->text.len;
    if (*begin == text.len)
        *begin = *end = SIZE_MAX;
    return PARE_OK;
}

/* Parts of a text on their way to the next stage; `held` may still grow. */
typedef struct cutter {
    pare_tok_encoder *e;
    const pare_tok_stage *stage;
    size_t next; /* stage of the parts */
    pare_tok_slice held;
    bool holds, held_match, last_match;
} cutter;

static pare_status release(cutter *c)
{
    const pare_tok_slice part = c->held;
    const bool give = c->holds && part.len;
    c->holds = false;
    return give ? pare__split_words(c->e, c->next, part) : PARE_OK;
}

/* Whether a part joins the one that is held. */
static bool joins(const cutter *c, bool match)
{
    if (!c->holds)
        return false;
    switch (c->stage->behavior) {
    case PARE_TOK_CONTIGUOUS: return match == c->held_match;
    case PARE_TOK_PREVIOUS: return match && !c->last_match;
    case PARE_TOK_NEXT: return !match && c->held_match;
    case PARE_TOK_ISOLATED:
    case PARE_TOK_REMOVED: break;
    }
    return false;
}

static pare_status give(cutter *c, pare_tok_slice part, bool match)
{
    match = match != c->stage->invert;
    if (match && c->stage->behavior == PARE_TOK_REMOVED)
        return PARE_OK;
    if (joins(c, match)) {
        c->held.len += part.len;
        c->held_match = match && c->stage->behavior == PARE_TOK_CONTIGUOUS;
    } else {
        PARE_TRY(release(c));
        c->held = part;
        c->holds = true;
        c->held_match = match;
    }
    c->last_match = match;
    return PARE_OK;
}

static pare_status cut(pare_tok_encoder *e, size_t stage, pare_tok_slice text)
{
    cutter c = {.e = e, .stage = &e->t->stages[stage], .next = stage + 1};
    size_t done = 0, last = SIZE_MAX, begin, end;
    uint32_t point;
    for (size_t at = 0; at < text.len;) {
        PARE_TRY(find(e, c.stage, text, at, &begin, &end));
        if (begin == SIZE_MAX)
            break;
        at = end;
        if (begin == end && end == last) { /* an empty match behind a match does not count */
            if (end == text.len)
                break;
            at += pare__utf8_read(text.at + end, &point);
            continue;
        }
        last = end;
        if (done < begin)
            PARE_TRY(give(&c, (pare_tok_slice){text.at + done, begin - done}, false));
        PARE_TRY(give(&c, (pare_tok_slice){text.at + begin, end - begin}, true));
        done = end;
    }
    if (done < text.len)
        PARE_TRY(give(&c, (pare_tok_slice){text.at + done, text.len - done}, false));
    return release(&c);
}

static bool starts_with(pare_tok_slice text, pare_tok_slice what)
{
    return text.len >= what.len && memcmp(text.at, what.at, what.len) == 0;
}

static pare_status put_in_front(pare_arena *a, pare_tok_slice what, pare_tok_slice *text)
{
    pare_tok_text out = {.arena = a};
    PARE_TRY(pare__text_append(&out, what.at, what.len));
    PARE_TRY(pare__text_append(&out, text->at, text->len));
    *text = (pare_tok_slice){out.at, out.len};
    return PARE_OK;
}

static pare_status mark_spaces(pare_tok_encoder *e, const pare_tok_stage *stage,
                               pare_tok_slice *text)
{
    const bool first = text->at == e->start;
    const pare_tok_step spaces = {.pattern = {" ", 1}, .content = stage->text};
    PARE_TRY(pare__text_replace(&e->scratch, &spaces, *text, text));
    if (starts_with(*text, stage->text) || stage->prepend == PARE_TOK_NEVER ||
        (stage->prepend == PARE_TOK_FIRST && !first))
        return PARE_OK;
    return put_in_front(&e->scratch, stage->text, text);
}

static pare_status change(pare_tok_encoder *e, const pare_tok_stage *stage, pare_tok_slice *text)
{
    const pare_tok_slice space = {" ", 1};
    if (stage->kind == PARE_TOK_MARK)
        return mark_spaces(e, stage, text);
    if (stage->kind == PARE_TOK_SPACE)
        return starts_with(*text, space) ? PARE_OK : put_in_front(&e->scratch, space, text);
    char *const spelled = PARE_NEW(&e->scratch, char, 2 * text->len);
    if (!spelled)
        return PARE_ENOMEM;
    *text = (pare_tok_slice){spelled, pare__text_spell(e->t, *text, spelled)};
    return PARE_OK;
}

pare_status pare__split_words(pare_tok_encoder *e, size_t stage, pare_tok_slice text)
{
    const pare_tokenizer *const t = e->t;
    if (text.len == 0)
        return PARE_OK;
    if (stage == t->stage_count)
        return e->cuts ? pare__encode_id(e, (int32_t)text.len) : pare__encode_word(e, text);
    const pare_tok_stage *const now = &t->stages[stage];
    if (now->kind == PARE_TOK_PATTERN || now->kind == PARE_TOK_LITERAL ||
        now->kind == PARE_TOK_CLASS)
        return cut(e, stage, text);
    const pare_mark mark = pare_arena_mark(&e->scratch);
    PARE_TRY(change(e, now, &text));
    PARE_TRY(pare__split_words(e, stage + 1, text));
    pare_arena_rewind(&e->scratch, mark);
    return PARE_OK;
}
