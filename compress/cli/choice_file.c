#include "compress/cli/choice_file.h"

#include <string.h>

enum { LINE_MAX_BYTES = 1 << 20, CHOICES_MAX = 64 };
static const size_t FILE_MAX = (size_t)1 << 30;

typedef struct reading {
    pare_cli *cli;
    const pare_tokenizer *tokenizer;
    const char *path;
    size_t line;
} reading;

static pare_status bad_line(const reading *r, const char *what)
{
    return pare_fail(&r->cli->cx, PARE_EFORMAT, "%s:%zu: %s", r->path, r->line, what);
}

static pare_status encode(const reading *r, const char *text, size_t len, int32_t **ids,
                          size_t *count)
{
    return pare_tokenizer_encode(&r->cli->cx, r->tokenizer, &r->cli->arena, text, len, ids, count);
}

/* Tokens of a continuation: those behind the context's in the tokens of the whole; where a token
 * spans the border, those of the continuation alone. */
static pare_status encode_choice(const reading *r, const pare_choice_item *item,
                                 const char *context, size_t context_len, const char *text,
                                 size_t len, const int32_t **ids, size_t *count)
{
    const size_t head = item->context_count;
    int32_t *tokens;
    char *const whole = PARE_NEW(&r->cli->arena, char, context_len + len + 1);
    if (!whole)
        return PARE_ENOMEM;
    memcpy(whole, context, context_len);
    memcpy(whole + context_len, text, len);
    PARE_TRY(encode(r, whole, context_len + len, &tokens, count));
    if (*count > head && memcmp(tokens, item->context, head * sizeof *tokens) == 0) {
        *ids = tokens + head;
        *count -= head;
        return PARE_OK;
    }
    PARE_TRY(encode(r, text, len, &tokens, count));
    *ids = tokens;
    return *count ? PARE_OK : bad_line(r, "a choice has no tokens");
}

static pare_status read_item(const reading *r, const pare_json *json, pare_choice_item *item)
{
    size_t context_len, len;
    const char *const context = pare_json_text(pare_json_get(json, "context"), &context_len);
    const pare_json *const choices = pare_json_get(json, "choices");
    const int64_t answer = pare_json_integer(pare_json_get(json, "answer"), -1);
    const size_t n = pare_json_count(choices);
    if (!context || context_len == 0)
        return bad_line(r, "\"context\" must be a text that is not empty");
    if (pare_json_type_of(choices) != PARE_JSON_ARRAY || n < 2 || n > CHOICES_MAX)
        return bad_line(r, "\"choices\" must be a list of 2 to 64 texts");
    if (answer < 0 || (uint64_t)answer >= n)
        return bad_line(r, "\"answer\" must be the index of a choice, from 0");
    int32_t *ids;
    PARE_TRY(encode(r, context, context_len, &ids, &item->context_count));
    item->context = ids;
    if (item->context_count == 0)
        return bad_line(r, "the context has no tokens");
    const int32_t **const choice = PARE_NEW(&r->cli->arena, const int32_t *, n);
    size_t *const count = PARE_NEW(&r->cli->arena, size_t, n);
    size_t *const bytes = PARE_NEW(&r->cli->arena, size_t, n);
    if (!choice || !count || !bytes)
        return PARE_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const char *const text = pare_json_text(pare_json_at(choices, i), &len);
        if (!text || len == 0)
            return bad_line(r, "a choice must be a text that is not empty");
        PARE_TRY(encode_choice(r, item, context, context_len, text, len, &choice[i], &count[i]));
        bytes[i] = len;
    }
    item->choice = choice;
    item->choice_count = count;
    item->choice_bytes = bytes;
    item->choices = n;
    item->answer = (size_t)answer;
    return PARE_OK;
}

static pare_status read_line(reading *r, const char *line, size_t len, pare_choice_item *item)
{
    pare_json *json = NULL;
    pare_status s = pare_json_parse(&r->cli->cx, "line", line, len, LINE_MAX_BYTES, &json);
    if (s != PARE_OK)
        return pare_fail_context(&r->cli->cx, s, "%s:%zu", r->path, r->line);
    s = read_item(r, json, item);
    pare_json_free(json);
    return s;
}

static pare_status read_items(reading *r, const char *text, size_t len, pare_choice_item *item,
                              size_t *items)
{
    *items = 0;
    for (size_t at = 0; at < len; r->line++) {
        const char *const end = memchr(text + at, '\n', len - at);
        const size_t stop = end ? (size_t)(end - text) : len;
        if (stop > at) {
            PARE_TRY(read_line(r, text + at, stop - at, &item[*items]));
            item[(*items)++].line = r->line;
        }
        at = stop + 1;
    }
    return *items ? PARE_OK : bad_line(r, "the file has no items");
}

pare_status pare_choice_measure(pare_cli *cli, const pare_loaded *l, const char *path,
                                pare_choice_result *out)
{
    pare_ctx *const cx = &cli->cx;
    pare_tokenizer *tokenizer;
    char *text;
    size_t len, lines = 1, items;
    PARE_TRY(pare_file_read(cx, &cli->arena, path, FILE_MAX, &text, &len));
    for (size_t i = 0; i < len; i++)
        lines += text[i] == '\n';
    pare_choice_item *const item = PARE_NEW(&cli->arena, pare_choice_item, lines);
    if (!item)
        return PARE_ENOMEM;
    PARE_TRY(pare_checkpoint_tokenizer(&l->checkpoint, &tokenizer));
    reading r = {cli, tokenizer, path, 1};
    const pare_status s = read_items(&r, text, len, item, &items);
    pare_tokenizer_free(tokenizer);
    PARE_TRY(s);
    const pare_status done = pare_evaluate_choice(cx, &l->forward, item, items, out);
    return done == PARE_EINVAL ? pare_fail_context(cx, PARE_EFORMAT, "%s", path) : done;
}
