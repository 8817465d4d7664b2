#include "compress/plan/same_tokens.h"

static pare_status compare(pare_ctx *cx, pare_arena *scratch, const pare_tokenizer *one,
                           const pare_tokenizer *other, const char *text, size_t len,
                           pare_tokens_apart *out)
{
    int32_t *a, *b;
    size_t as, bs;
    PARE_TRY(pare_tokenizer_encode(cx, one, scratch, text, len, &a, &as));
    PARE_TRY(pare_tokenizer_encode(cx, other, scratch, text, len, &b, &bs));
    while (out->at < as && out->at < bs && a[out->at] == b[out->at])
        out->at++;
    out->differ = out->at < as || out->at < bs;
    return PARE_OK;
}

pare_status pare_text_apart(pare_ctx *cx, pare_arena *scratch, const pare_tokenizer *one,
                            const pare_tokenizer *other, const char *text, size_t len,
                            pare_tokens_apart *out)
{
    const pare_mark mark = pare_arena_mark(scratch);
    *out = (pare_tokens_apart){0};
    const pare_status s = compare(cx, scratch, one, other, text, len, out);
    pare_arena_rewind(scratch, mark);
    return s;
}

static pare_status open_two(const pare_checkpoint *one, const pare_checkpoint *other,
                            pare_tokenizer *t[2])
{
    const pare_checkpoint *const of[] = {one, other};
    for (size_t i = 0; i < 2; i++) {
        bool has;
        PARE_TRY(pare_checkpoint_has_tokenizer(of[i], &has));
        if (!has)
            return PARE_ENOTFOUND;
        PARE_TRY(pare_checkpoint_tokenizer(of[i], &t[i]));
    }
    return PARE_OK;
}

static pare_status compare_ids(pare_ctx *cx, pare_arena *scratch, pare_tokenizer *const t[2],
                               const int32_t *id, size_t count, pare_tokens_apart *out)
{
    char *text;
    size_t len;
    PARE_TRY(pare_tokenizer_decode(cx, t[0], scratch, id, count, &text, &len));
    return compare(cx, scratch, t[0], t[1], text, len, out);
}

pare_status pare_ids_apart(pare_ctx *cx, pare_arena *scratch, const pare_checkpoint *one,
                           const pare_checkpoint *other, const int32_t *id, size_t count,
                           pare_tokens_apart *out)
{
    pare_tokenizer *t[2] = {NULL, NULL};
    const pare_mark mark = pare_arena_mark(scratch);
    *out = (pare_tokens_apart){0};
    pare_status s = open_two(one, other, t);
    if (s == PARE_OK)
        s = compare_ids(cx, scratch, t, id, count < PARE_APART_TOKENS ? count : PARE_APART_TOKENS,
                        out);
    pare_tokenizer_free(t[0]);
    pare_tokenizer_free(t[1]);
    pare_arena_rewind(scratch, mark);
    if (s == PARE_OK || s == PARE_ENOMEM)
        return s;
    pare_ctx_clear(cx); /* who has ids needs no tokenizer */
    return PARE_OK;
}
