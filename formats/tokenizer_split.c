/* Patterns that cut a text into words or are replaced in it, tried at every character in turn. */
#include <string.h>

#include "formats/tokenizer_encode_internal.h"

/* Steps of long matches for any text, and more for each byte. */
enum { BUDGET = 1000000, BUDGET_PER_BYTE = 64 };

const char pare__gpt2_pattern[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

const char pare__qwen_pattern[] = "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{"
                                  "N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|"
                                  "\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+";

pare_status pare__pattern_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice in,
                                  pare_regex **out)
{
    pare_tok_slice text;
    PARE_TRY(pare__pattern_translate(cx, &t->arena, in, &text));
    return pare__code_compile(cx, t, text, out);
}

pare_status pare__code_compile(pare_ctx *cx, pare_tokenizer *t, pare_tok_slice text,
                               pare_regex **out)
{
    const pare_status s = pare_regex_new(&t->arena, text.at, text.len, out);
    if (s != PARE_EFORMAT)
        return s;
    return pare_fail_context(cx, s, "pattern '%.*s'", (int)(text.len < 100 ? text.len : 100),
                             text.at);
}

pare_status pare__split_begin(pare_tok_encoder *e, size_t len)
{
    return pare_regex_matcher_new(e->cx, BUDGET + (uint64_t)len * BUDGET_PER_BYTE, &e->matcher);
}

void pare__split_end(pare_tok_encoder *e)
{
    pare_regex_matcher_free(e->matcher);
}

static pare_status match_at(pare_tok_encoder *e, const pare_regex *code, pare_tok_slice text,
                            size_t at, size_t *end)
{
    const pare_status s = pare_regex_match(e->matcher, code, text.at, text.len, at, end);
    return s == PARE_ENOTSUP ? pare_fail_context(e->cx, s, "tokenizer: its pattern") : s;
}

pare_status pare__pattern_find(pare_tok_encoder *e, const pare_regex *code, pare_tok_slice text,
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
        at = done = end; /* no match is empty (pare__parse_replace) */
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
