/* Section pre_tokenizer of a tokenizer.json, and what its sections share. */
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

static pare_status add_stage(pare_ctx *cx, pare_tokenizer *t, pare_tok_stage stage)
{
    if (t->stage_count == PARE_TOK_STEPS_MAX)
        return pare_fail(cx, PARE_ENOTSUP, "pre_tokenizer: more than %d stages",
                         PARE_TOK_STEPS_MAX);
    t->stages[t->stage_count++] = stage;
    return PARE_OK;
}

/* A pattern in the dialect of the file, or (translated) in that of PCRE2. */
static pare_status add_pattern(pare_ctx *cx, pare_tokenizer *t, pare_tok_stage stage,
                               bool translated)
{
    stage.kind = PARE_TOK_PATTERN;
    PARE_TRY(add_stage(cx, t, stage));
    pare_regex **const code = &t->stages[t->stage_count - 1].code;
    return translated ? pare__code_compile(cx, t, stage.text, code)
                      : pare__pattern_compile(cx, t, stage.text, code);
}

static pare_status parse_behavior(pare_ctx *cx, const pare_json *v, const char *type,
                                  pare_tok_behavior *out)
{
    static const char *const names[] = {"Isolated", "Removed", "Contiguous", "MergedWithPrevious",
                                        "MergedWithNext"};
    const char *const name = pare_json_text(pare_json_get(v, "behavior"), NULL);
    for (size_t i = 0; name && i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0) {
            *out = (pare_tok_behavior)i;
            return PARE_OK;
        }
    return pare_fail(cx, PARE_ENOTSUP,
                     "pre_tokenizer: %s with behavior '%.60s' is not supported (Isolated, Removed, "
                     "Contiguous, MergedWithPrevious, MergedWithNext are)",
                     type, name ? name : "");
}

static pare_status parse_split(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    pare_tok_stage stage = {.kind = PARE_TOK_LITERAL};
    const pare_json *const pattern = pare_json_get(v, "pattern");
    const bool literal = pare_json_get(pattern, "String") != NULL;
    PARE_TRY(parse_behavior(cx, v, "Split", &stage.behavior));
    PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "invert", PARE_TOK_OPTIONAL, &stage.invert));
    PARE_TRY(pare__member_text(cx, &t->arena, pattern, "pre_tokenizer.pattern",
                               literal ? "String" : "Regex", PARE_TOK_REQUIRED, &stage.text));
    if (!literal)
        return add_pattern(cx, t, stage, false);
    if (stage.text.len == 0)
        return pare_fail(cx, PARE_ENOTSUP, "pre_tokenizer: Split at nothing is not supported");
    return add_stage(cx, t, stage);
}

static pare_status parse_byte_level(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    bool space = false, regex = true;
    PARE_TRY(
        pare__member_bool(cx, v, "pre_tokenizer", "add_prefix_space", PARE_TOK_REQUIRED, &space));
    PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "use_regex", PARE_TOK_OPTIONAL, &regex));
    if (space)
        PARE_TRY(add_stage(cx, t, (pare_tok_stage){.kind = PARE_TOK_SPACE}));
    const pare_tok_slice pattern = {pare__gpt2_pattern, strlen(pare__gpt2_pattern)};
    if (regex)
        PARE_TRY(add_pattern(cx, t, (pare_tok_stage){.text = pattern}, false));
    t->byte_level = true;
    return PARE_OK;
}

pare_status pare__parse_mark(pare_ctx *cx, pare_arena *a, const pare_json *v, const char *where,
                             pare_tok_slice *mark, pare_tok_prepend *prepend)
{
    static const char *const names[] = {"always", "first", "never"};
    const char *const scheme = pare_json_text(pare_json_get(v, "prepend_scheme"), NULL);
    bool space = true;
    size_t i = 0;
    uint32_t c;
    PARE_TRY(pare__member_text(cx, a, v, where, "replacement", PARE_TOK_REQUIRED, mark));
    if (mark->len == 0 || pare__utf8_read(mark->at, &c) != mark->len)
        return pare_fail(cx, PARE_EFORMAT, "%s.replacement: one character expected", where);
    PARE_TRY(pare__member_bool(cx, v, where, "add_prefix_space", PARE_TOK_OPTIONAL, &space));
    while (scheme && i < 3 && strcmp(scheme, names[i]) != 0)
        i++;
    if (i == 3 || (scheme && !space && i != PARE_TOK_NEVER))
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: prepend_scheme '%.60s' with add_prefix_space %s: always, first or "
                         "never expected, and never with false",
                         where, scheme, space ? "true" : "false");
    *prepend = scheme || space ? (pare_tok_prepend)i : PARE_TOK_NEVER;
    return PARE_OK;
}

/* Where a text starts is known as long as no stage before put other text in its place, and no
 * expression of a normalizer may take its first character. */
static pare_status check_first(pare_ctx *cx, const pare_tokenizer *t, const pare_tok_stage *stage)
{
    const char *behind = NULL;
    for (size_t i = 0; i < t->step_count; i++) {
        const pare_tok_step *const s = &t->steps[i];
        if (s->kind == PARE_TOK_REPLACE && s->code && s->content.len == 0)
            behind = "a Replace of an expression by nothing";
        if (s->kind != PARE_TOK_STRIP && t->stage_count > 0)
            behind = "another stage and a normalizer";
    }
    for (size_t i = 0; i < t->stage_count; i++)
        if (t->stages[i].kind >= PARE_TOK_SPACE)
            behind = "a stage that changes the text";
    return stage->prepend == PARE_TOK_FIRST && behind
               ? pare_fail(cx, PARE_ENOTSUP,
                           "pre_tokenizer: Metaspace with prepend_scheme first behind %s is not "
                           "supported",
                           behind)
               : PARE_OK;
}

static pare_status parse_metaspace(pare_ctx *cx, pare_tokenizer *t, const pare_json *v)
{
    pare_tok_stage stage = {.kind = PARE_TOK_MARK};
    bool split = true;
    PARE_TRY(pare__parse_mark(cx, &t->arena, v, "pre_tokenizer", &stage.text, &stage.prepend));
    PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "split", PARE_TOK_OPTIONAL, &split));
    PARE_TRY(check_first(cx, t, &stage));
    PARE_TRY(add_stage(cx, t, stage));
    stage.kind = PARE_TOK_LITERAL;
    stage.behavior = PARE_TOK_NEXT;
    return split ? add_stage(cx, t, stage) : PARE_OK;
}

static pare_status parse_class(pare_ctx *cx, pare_tokenizer *t, const pare_json *v,
                               const char *type)
{
    static const char words[] = "[\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}]+|"
                                "[^\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\p{Join_Control}"
                                "\\p{White_Space}]+";
    pare_tok_stage stage = {.kind = PARE_TOK_CLASS, .behavior = PARE_TOK_REMOVED};
    bool single = false;
    if (strcmp(type, "Whitespace") == 0) {
        stage.text = (pare_tok_slice){words, sizeof words - 1};
        stage.invert = true;
        return add_pattern(cx, t, stage, true);
    }
    stage.belongs = pare__is_space;
    if (strcmp(type, "Digits") == 0) {
        PARE_TRY(pare__member_bool(cx, v, "pre_tokenizer", "individual_digits", PARE_TOK_OPTIONAL,
                                   &single));
        stage.belongs = pare__is_number;
        stage.behavior = single ? PARE_TOK_ISOLATED : PARE_TOK_CONTIGUOUS;
    } else if (strcmp(type, "Punctuation") == 0) {
        stage.belongs = pare__is_punctuation;
        stage.behavior = PARE_TOK_ISOLATED;
        if (pare_json_get(v, "behavior"))
            PARE_TRY(parse_behavior(cx, v, type, &stage.behavior));
    }
    return add_stage(cx, t, stage);
}

/* A stage behind ByteLevel sees the byte alphabet, so there the text is spelled out. */
static pare_status spell_out(pare_ctx *cx, pare_tokenizer *t, const char *type)
{
    if (!t->byte_level)
        return PARE_OK;
    if (strcmp(type, "ByteLevel") == 0)
        return pare_fail(cx, PARE_ENOTSUP, "pre_tokenizer: ByteLevel twice is not supported");
    t->byte_level = false;
    return add_stage(cx, t, (pare_tok_stage){.kind = PARE_TOK_BYTES});
}

bool pare__spells_bytes(const pare_tokenizer *t)
{
    bool spelled = t->byte_level;
    for (size_t i = 0; i < t->stage_count; i++)
        spelled = spelled || t->stages[i].kind == PARE_TOK_BYTES;
    return spelled;
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
    PARE_TRY(spell_out(cx, t, type));
    if (strcmp(type, "Split") == 0)
        return parse_split(cx, t, v);
    if (strcmp(type, "ByteLevel") == 0)
        return parse_byte_level(cx, t, v);
    if (strcmp(type, "Metaspace") == 0)
        return parse_metaspace(cx, t, v);
    if (strcmp(type, "Digits") == 0 || strcmp(type, "Punctuation") == 0 ||
        strcmp(type, "WhitespaceSplit") == 0 || strcmp(type, "Whitespace") == 0)
        return parse_class(cx, t, v, type);
    return pare_fail(cx, PARE_ENOTSUP,
                     "pre_tokenizer '%.60s' is not supported (Sequence, Split, ByteLevel, "
                     "Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit are)",
                     type);
}

pare_status pare__parse_stages(pare_ctx *cx, pare_tokenizer *t, const pare_json *doc)
{
    const pare_json *const normalizer = pare_json_get(doc, "normalizer");
    const pare_json *const pre = pare_json_get(doc, "pre_tokenizer");
    if (!absent(normalizer))
        PARE_TRY(pare__parse_normalizer(cx, t, normalizer));
    return absent(pre) ? PARE_OK : parse_pre_tokenizer(cx, t, pre);
}
