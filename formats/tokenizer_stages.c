/* Sections normalizer, pre_tokenizer, decoder and post_processor of a tokenizer.json. */
#include <string.h>

#include "formats/tokenizer_internal.h"

static bool absent(const pare_json *v)
{
    const pare_json_type type = pare_json_type_of(v);
    return type == PARE_JSON_ABSENT || type == PARE_JSON_NULL;
}

const char *pare__type_of(const pare_json *object)
{
    const char *const text = pare_json_text(pare_json_get(object, "type"), NULL);
    return text ? text : "";
}

pare_status pare__member_bool(pare_ctx *cx, const pare_json *object, const char *where,
                              const char *key, pare_tok_need need, bool *out)
{
    const pare_json *const v = pare_json_get(object, key);
    if (pare_json_type_of(v) == PARE_JSON_BOOL)
        *out = pare_json_bool(v, false);
    else if (v || need == PARE_TOK_REQUIRED)
        return pare_fail(cx, PARE_EFORMAT, "%s.%s: true or false expected", where, key);
    return PARE_OK;
}

pare_status pare__member_text(pare_ctx *cx, pare_arena *a, const pare_json *object,
                              const char *where, const char *key, pare_tok_need need,
                              pare_tok_slice *out)
{
    const pare_json *const v = pare_json_get(object, key);
    *out = (pare_tok_slice){0};
    if (need == PARE_TOK_OPTIONAL && absent(v))
        return PARE_OK;
    const char *const text = pare_json_text(v, &out->len);
    if (!text)
        return pare_fail(cx, PARE_EFORMAT, "%s.%s: a string expected", where, key);
    out->at = pare_arena_text(a, text, out->len);
    return out->at ? PARE_OK : PARE_ENOMEM;
}

pare_status pare__parse_replace(pare_ctx *cx, pare_tokenizer *t, const pare_json *v,
                                const char *where, pare_tok_step *step)
{
    const pare_json *const pattern = pare_json_get(v, "pattern");
    if (pare_json_get(pattern, "Regex"))
        return pare_fail(cx, PARE_ENOTSUP, "%s: Replace with a Regex is not supported", where);
    step->kind = PARE_TOK_REPLACE;
    PARE_TRY(
        pare__member_text(cx, &t->arena, v, where, "content", PARE_TOK_REQUIRED, &step->content));
    PARE_TRY(pare__member_text(cx, &t->arena, pattern, where, "String", PARE_TOK_REQUIRED,
                               &step->pattern));
    if (step->pattern.len == 0)
        return pare_fail(cx, PARE_ENOTSUP, "%s: Replace of nothing is not supported", where);
    return PARE_OK;
}

static pare_status parse_normalizer(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const char *const type = pare__type_of(v);
    if (strcmp(type, "Sequence") == 0) {
        const pare_json *const list = pare_json_get(v, "normalizers");
        if (pare_json_type_of(list) != PARE_JSON_ARRAY)
            return pare_fail(cx, PARE_EFORMAT, "normalizer.normalizers: an array expected");
        for (size_t i = 0; i < pare_json_count(list); i++)
            PARE_TRY(parse_normalizer(cx, t, pare_json_at(list, i)));
        return PARE_OK;
    }
    if (t->step_count == PARE_TOK_STEPS_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "normalizer: more than %d steps", PARE_TOK_STEPS_MAX);
    pare_tok_step *const step = &t->steps[t->step_count++];
    step->kind = PARE_TOK_PREPEND;
    if (strcmp(type, "Prepend") == 0)
        return pare__member_text(cx, &t->arena, v, "normalizer", "prepend", PARE_TOK_REQUIRED,
                                 &step->content);
    if (strcmp(type, "Replace") == 0)
        return pare__parse_replace(cx, t, v, "normalizer", step);
    step->kind = PARE_TOK_NFC;
    if (strcmp(type, "NFC") == 0)
        return PARE_OK;
    return pare_fail(cx, PARE_ENOTSUP,
                     "normalizer '%.60s' is not supported (Sequence, Prepend, Replace, NFC are)",
                     type);
}

static pare_status add_stage(pare_ctx *cx, pare_tokenizer *t, const pare_tok_slice *pattern)
{
    if (t->stage_count == PARE_TOK_STEPS_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "pre_tokenizer: more than %d stages",
                         PARE_TOK_STEPS_MAX);
    pare_tok_stage *const stage = &t->stages[t->stage_count];
    if (pattern)
        PARE_TRY(pare__pattern_compile(cx, t, *pattern, &stage->code));
    t->stage_count++;
    return PARE_OK;
}

static pare_status parse_split(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const char *const behavior = pare_json_text(pare_json_get(v, "behavior"), NULL);
    if (!behavior || strcmp(behavior, "Isolated") != 0)
        return pare_fail(
            cx, PARE_ENOTSUP,
            "pre_tokenizer: Split with behavior '%.60s' is not supported (Isolated is)",
            behavior ? behavior : "");
    bool invert = false;
    PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "invert", PARE_TOK_OPTIONAL, &invert));
    if (invert)
        return pare_fail(cx, PARE_ENOTSUP, "pre_tokenizer: Split with invert is not supported");
    const pare_json *const pattern = pare_json_get(v, "pattern");
    if (pare_json_get(pattern, "String"))
        return pare_fail(cx, PARE_ENOTSUP,
                         "pre_tokenizer: Split with a String is not supported (a Regex is)");
    pare_tok_slice text;
    PARE_TRY(pare__member_text(cx, &t->arena, pattern, "pre_tokenizer.pattern", "Regex",
                               PARE_TOK_REQUIRED, &text));
    return add_stage(cx, t, &text);
}

static pare_status parse_byte_level(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    bool space = false, regex = true;
    PARE_TRY(
        pare__member_bool(cx, v, "pre_tokenizer", "add_prefix_space", PARE_TOK_REQUIRED, &space));
    PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "use_regex", PARE_TOK_OPTIONAL, &regex));
    if (space)
        PARE_TRY(add_stage(cx, t, NULL));
    const pare_tok_slice pattern = {pare__gpt2_pattern, strlen(pare__gpt2_pattern)};
    if (regex)
        PARE_TRY(add_stage(cx, t, &pattern));
    t->byte_level = true;
    return PARE_OK;
}

static pare_status parse_pre_tokenizer(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    const char *const type = pare__type_of(v);
    if (strcmp(type, "Sequence") == 0) {
        const pare_json *const list = pare_json_get(v, "pretokenizers");
        if (pare_json_type_of(list) != PARE_JSON_ARRAY)
            return pare_fail(cx, PARE_EFORMAT, "pre_tokenizer.pretokenizers: an array expected");
        for (size_t i = 0; i < pare_json_count(list); i++)
            PARE_TRY(parse_pre_tokenizer(cx, t, pare_json_at(list, i)));
        return PARE_OK;
    }
    if (t->byte_level)
        return pare_fail(cx, PARE_ENOTSUP,
                         "pre_tokenizer '%.60s' behind ByteLevel is not supported", type);
    if (strcmp(type, "Split") == 0)
        return parse_split(cx, t, v);
    if (strcmp(type, "ByteLevel") == 0)
        return parse_byte_level(cx, t, v);
    return pare_fail(cx, PARE_ENOTSUP,
                     "pre_tokenizer '%.60s' is not supported (Sequence, Split, ByteLevel are)",
                     type);
}

pare_status pare__parse_stages(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc)
{
    const pare_json *const normalizer = pare_json_get(doc, "normalizer");
    const pare_json *const pre = pare_json_get(doc, "pre_tokenizer");
    if (!absent(normalizer))
        PARE_TRY(parse_normalizer(cx, t, normalizer));
    return absent(pre) ? PARE_OK : parse_pre_tokenizer(cx, t, pre);
}
