/* Patterns that cut a text into words or are replaced in it, through PCRE2.
 *
 * A pattern is tried at every character in turn, anchored, with a small limit of steps; a try that
 * needs more is repeated with a larger one at the expense of a budget for the whole text. So the
 * time is bounded whatever the pattern is, and the outcome depends on no clock. */
#include <stddef.h>
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

enum {
    STEPS_FIRST = 256,
    STEPS_MORE = 16,      /* factor between tries */
    BUDGET = 1000000,     /* steps for any text, */
    BUDGET_PER_BYTE = 64, /* and more for each byte */
    HEAP_KIB = 64 * 1024
};

const char pare__gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const char pare__qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{"
                                  "N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                                  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

/* PCRE2 does not say how large the object is that it gives back: the size stands in front of it. */
typedef union header {
    size_t bytes;
    max_align_t align;
} header;

static void *take_memory(size_t bytes, void *cx)
{
    const pare_alloc *const alloc = &((pare_ctx *)cx)->alloc;
    if (bytes > SIZE_MAX - sizeof(header))
        return NULL;
    header *const h = alloc->resize(alloc->self, NULL, 0, bytes + sizeof(header));
    if (!h)
        return NULL;
    h->bytes = bytes + sizeof(header);
    return h + 1;
}

static void give_memory(void *ptr, void *cx)
{
    const pare_alloc *const alloc = &((pare_ctx *)cx)->alloc;
    header *const h = ptr ? (header *)ptr - 1 : NULL;
    if (h)
        (void)alloc->resize(alloc->self, h, h->bytes, 0);
}

static pare_status no_memory(pare_ctx *cx)
{
    return pare_fail(cx, PARE_ENOMEM, "out of memory in a pattern");
}

pare_status pare__regex_init(pare_ctx *cx, pcre2_general_context **out)
{
    *out = pcre2_general_context_create(take_memory, give_memory, cx);
    return *out ? PARE_OK : no_memory(cx);
}

pare_status pare__pattern_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice in,
                                  pcre2_code **out)
{
    pare_tok_slice text;
    PARE_TRY(pare__pattern_translate(cx, &t->arena, in, &text));
    return pare__code_compile(cx, t, text, out);
}

pare_status pare__code_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice text,
                               pcre2_code **out)
{
    pcre2_compile_context *const how = pcre2_compile_context_create(t->regex);
    if (!how)
        return no_memory(cx);
    (void)pcre2_set_newline(how, PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE at = 0;
    *out = pcre2_compile((PCRE2_SPTR)text.at, text.len,
                         PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, how);
    pcre2_compile_context_free(how);
    if (*out)
        return PARE_OK;
    if (error == PCRE2_ERROR_HEAP_FAILED)
        return no_memory(cx);
    PCRE2_UCHAR why[160];
    if (pcre2_get_error_message(error, why, sizeof why) < 0)
        why[0] = '\0';
    return pare_fail(cx, PARE_EFORMAT, "pattern: %s (near byte %zu of '%.*s')", (const char *)why,
                     (size_t)at, (int)(text.len < 100 ? text.len : 100), text.at);
}

pare_status pare__split_begin(pare_tok_encoder *e, size_t len)
{
    PARE_TRY(pare__regex_init(e->cx, &e->regex));
    e->budget = BUDGET + (uint64_t)len * BUDGET_PER_BYTE;
    e->match = pcre2_match_data_create(1, e->regex);
    e->limits = pcre2_match_context_create(e->regex);
    if (!e->match || !e->limits)
        return no_memory(e->cx);
    (void)pcre2_set_heap_limit(e->limits, HEAP_KIB);
    return PARE_OK;
}

void pare__split_end(pare_tok_encoder *e)
{
    pcre2_match_context_free(e->limits);
    pcre2_match_data_free(e->match);
    pcre2_general_context_free(e->regex);
}

static pare_status match_failed(pare_tok_encoder *e, int error)
{
    if (error == PCRE2_ERROR_NOMEMORY)
        return no_memory(e->cx);
    if (error == PCRE2_ERROR_MATCHLIMIT || error == PCRE2_ERROR_HEAPLIMIT ||
        error == PCRE2_ERROR_DEPTHLIMIT)
        return pare_fail(e->cx, PARE_ENOTSUP,
                         "tokenizer: its pattern takes too many steps on this text");
    return pare_fail(e->cx, PARE_ENOTSUP, "tokenizer: its pattern fails on this text (PCRE2 %d)",
                     error);
}

/* Matches at text[at] and nowhere else: *end is where the match ends, SIZE_MAX without one. */
static pare_status match_at(pare_tok_encoder *e, const pcre2_code *code, pare_tok_slice text,
                            size_t at, size_t *end)
{
    uint32_t steps = STEPS_FIRST;
    int got;
    for (;;) {
        (void)pcre2_set_match_limit(e->limits, steps);
        got = pcre2_match(code, (PCRE2_SPTR)text.at, text.len, at,
                          PCRE2_ANCHORED | PCRE2_NO_UTF_CHECK, e->match, e->limits);
        if (got != PCRE2_ERROR_MATCHLIMIT || steps > UINT32_MAX / STEPS_MORE ||
            e->budget < (uint64_t)steps * STEPS_MORE)
            break;
        steps *= STEPS_MORE;
        e->budget -= steps;
    }
    *end = SIZE_MAX;
    if (got == PCRE2_ERROR_NOMATCH)
        return PARE_OK;
    if (got < 0)
        return match_failed(e, got);
    *end = pcre2_get_ovector_pointer(e->match)[1];
    return PARE_OK;
}

pare_status pare__pattern_find(pare_tok_encoder *e, const pcre2_code *code, pare_tok_slice text,
                               size_t from, size_t *begin, size_t *end)
{
    for (uint32_t c; from < text.len; from += pare__utf8_read(text.at + from, &c)) {
        PARE_TRY(match_at(e, code, text, from, end));
        *begin = from;
        if (*end != SIZE_MAX)
            return PARE_OK;
    }
    *begin = *end = SIZE_MAX;
    return PARE_OK;
}

static pare_status replace(pare_tok_encoder *e, pare_arena *a, const pare_tok_step *step,
                           pare_tok_slice in, pare_tok_slice *out)
{
    pare_tok_text text = {.arena = a};
    size_t done = 0, begin, end;
    for (size_t at = 0; at < in.len;) {
        PARE_TRY(pare__pattern_find(e, step->code, in, at, &begin, &end));
        if (begin == SIZE_MAX)
            break;
        PARE_TRY(pare__text_append(&text, in.at + done, begin - done));
        PARE_TRY(pare__text_append(&text, step->content.at, step->content.len));
        done = end;
        uint32_t c;
        at = begin < end ? end : end + pare__utf8_read(in.at + end, &c);
    }
    *out = in;
    if (done == 0 && text.len == 0)
        return PARE_OK;
    PARE_TRY(pare__text_append(&text, in.at + done, in.len - done));
    *out = (pare_tok_slice){text.at, text.len};
    return PARE_OK;
}

pare_status pare__text_replace_matches(const pare_tokenizer *t, pare_arena *a,
                                       const pare_tok_step *step, pare_tok_slice in,
                                       pare_tok_slice *out)
{
    pare_tok_encoder e = {.cx = a->cx, .t = t};
    pare_status s = pare__split_begin(&e, in.len);
    if (s == PARE_OK)
        s = replace(&e, a, step, in, out);
    pare__split_end(&e);
    return s;
}

pare_status pare__is_word(pare_tok_encoder *e, pare_tok_slice text, size_t at, bool *word)
{
    size_t end;
    PARE_TRY(match_at(e, e->t->word_code, text, at, &end));
    *word = end != SIZE_MAX;
    return PARE_OK;
}
