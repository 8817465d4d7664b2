/* Section normalizer of a tokenizer.json. */
#include <string.h>

#include "formats/tokenizer_internal.h"

pare_status pare__parse_replace(pare_ctx *cx, pare_tokenizer *t, const pare_json *v,
                                const char *where, pare_tok_step *step)
{
    const pare_json *const pattern = pare_json_get(v, "pattern");
    const char *const key = pare_json_get(pattern, "Regex") ? "Regex" : "String";
    step->kind = PARE_TOK_REPLACE;
    PARE_TRY(
        pare__member_text(cx, &t->arena, v, where, "content", PARE_TOK_REQUIRED, &step->content));
    PARE_TRY(
        pare__member_text(cx, &t->arena, pattern, where, key, PARE_TOK_REQUIRED, &step->pattern));
    if (step->pattern.len == 0)
        return pare_fail(cx, PARE_ENOTSUP, "%s: Replace of nothing is not supported", where);
    if (key[0] != 'R')
        return PARE_OK;
    PARE_TRY(pare__pattern_compile(cx, t, step->pattern, &step->code));
    if (pare_regex_matches_empty(step->code))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: Replace with a pattern that matches an empty text is not supported",
                         where);
    return PARE_OK;
}

/* Base64, with or without '=' at its end. */
static bool from_base64(pare_tok_slice in, char *out, size_t *len)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    uint32_t bits = 0, held = 0;
    *len = 0;
    while (in.len && in.at[in.len - 1] == '=')
        in.len--;
    for (size_t i = 0; i < in.len; i++) {
        const char *const digit = strchr(digits, in.at[i]);
        if (!digit)
            return false;
        bits = bits << 6 | (uint32_t)(digit - digits);
        held += 6;
        if (held < 8)
            continue;
        held -= 8;
        out[(*len)++] = (char)(bits >> held & 0xff);
    }
    return true;
}

static pare_status parse_precompiled(pare_ctx *cx, pare_tokenizer *t, const pare_json *v,
                                     pare_tok_step *step)
{
    static const char where[] = "normalizer.precompiled_charsmap";
    pare_tok_slice text;
    size_t len;
    step->kind = PARE_TOK_CHARSMAP;
    PARE_TRY(pare__member_text(cx, &t->arena, v, "normalizer", "precompiled_charsmap",
                               PARE_TOK_REQUIRED, &text));
    char *const bytes = PARE_NEW(&t->arena, char, text.len + 1);
    if (!bytes)
        return PARE_ENOMEM;
    if (t->charsmap.count)
        return pare_fail(cx, PARE_ENOTSUP, "%s: a second map is not supported", where);
    if (!from_base64(text, bytes, &len))
        return pare_fail(cx, PARE_EFORMAT, "%s: base64 expected", where);
    return pare__charsmap_parse(cx, where, bytes, len, &t->charsmap);
}

static pare_status parse_strip(pare_ctx *cx, const pare_json *v, pare_tok_step *step)
{
    step->kind = PARE_TOK_STRIP;
    PARE_TRY(pare__member_bool(cx, v, "normalizer", "strip_left", PARE_TOK_REQUIRED, &step->left));
    return pare__member_bool(cx, v, "normalizer", "strip_right", PARE_TOK_REQUIRED, &step->right);
}

static pare_status parse_step(pare_ctx *cx, pare_tokenizer *t, const pare_json *v, const char *type,
                              pare_tok_step *step)
{
    static const char *const forms[] = {"NFD", "NFC", "NFKD", "NFKC"};
    for (size_t i = 0; i < 4; i++)
        if (strcmp(type, forms[i]) == 0) {
            step->kind = PARE_TOK_COMPOSE;
            step->compose = i % 2 == 1;
            step->compatible = i >= 2;
            return PARE_OK;
        }
    if (strcmp(type, "Prepend") == 0)
        return pare__member_text(cx, &t->arena, v, "normalizer", "prepend", PARE_TOK_REQUIRED,
                                 &step->content);
    if (strcmp(type, "Replace") == 0)
        return pare__parse_replace(cx, t, v, "normalizer", step);
    if (strcmp(type, "Strip") == 0)
        return parse_strip(cx, v, step);
    if (strcmp(type, "Precompiled") == 0)
        return parse_precompiled(cx, t, v, step);
    return pare_fail(cx, PARE_ENOTSUP,
                     "normalizer '%.60s' is not supported (Sequence, Prepend, Replace, Strip, NFC, "
                     "NFD, NFKC, NFKD, Precompiled are)",
                     type);
}

pare_status pare__parse_normalizer(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const char *const type = pare__type_of(v);
    if (strcmp(type, "Sequence") == 0) {
        const pare_json *const list = pare_json_get(v, "normalizers");
        if (pare_json_type_of(list) != PARE_JSON_ARRAY)
            return pare_fail(cx, PARE_EFORMAT, "normalizer.normalizers: an array expected");
        for (size_t i = 0; i < pare_json_count(list); i++)
            PARE_TRY(pare__parse_normalizer(cx, t, pare_json_at(list, i)));
        return PARE_OK;
    }
    if (t->step_count == PARE_TOK_STEPS_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "normalizer: more than %d steps", PARE_TOK_STEPS_MAX);
    return parse_step(cx, t, v, type, &t->steps[t->step_count++]);
}
