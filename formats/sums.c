#include "formats/sums.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = PARE_SHA256_HEX - 1, BLANKS = 2, LINE_LEAST = DIGITS + BLANKS + 2 };

static bool is_digest(const char *p)
{
    for (size_t i = 0; i < DIGITS; i++)
        if (!((p[i] >= '0' && p[i] <= '9') || (p[i] >= 'a' && p[i] <= 'f')))
            return false;
    return true;
}

/* sha256sum writes names with a backslash or a line feed in another way; we give none such. */
static bool is_plain_name(const char *p, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)p[i] < ' ' || p[i] == 127 || p[i] == '/' || p[i] == '\\')
            return false;
    return len > 0 && p[0] != '.';
}

static pare_status refuse(pare_ctx *cx, const char *name, size_t line, const char *why)
{
    return pare_fail(cx, PARE_EFORMAT, "%s:%zu: %s", name, line, why);
}

/* One line without its line feed. */
static pare_status parse_line(pare_ctx *cx, pare_arena *a, const char *name, const char *p,
                              size_t len, pare_sums *out)
{
    const size_t line = out->count + 1;
    if (len < DIGITS + BLANKS || !is_digest(p) || memcmp(p + DIGITS, "  ", BLANKS) != 0)
        return refuse(cx, name, line, "expected 64 lower-case hex digits and two blanks");
    const char *const file = p + DIGITS + BLANKS;
    const size_t file_len = len - DIGITS - BLANKS;
    if (!is_plain_name(file, file_len))
        return refuse(cx, name, line, "expected a plain file name");
    char *const copy = pare_arena_text(a, file, file_len);
    if (!copy)
        return PARE_ENOMEM;
    if (out->count > 0 && strcmp(out->item[out->count - 1].name, copy) >= 0)
        return refuse(cx, name, line, "names do not ascend");
    pare_sum *const s = &out->item[out->count++];
    s->name = copy;
    memcpy(s->sha256, p, DIGITS);
    s->sha256[DIGITS] = '\0';
    return PARE_OK;
}

pare_status pare_sums_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                            size_t len, pare_sums *out)
{
    const char *p = bytes;
    *out = (pare_sums){0};
    if (len > PARE_SUMS_CAP)
        return pare_fail(cx, PARE_EFORMAT, "%s: %zu bytes, at most %d are accepted", name, len,
                         PARE_SUMS_CAP);
    out->item = PARE_NEW(a, pare_sum, len / LINE_LEAST);
    if (!out->item)
        return PARE_ENOMEM;
    while (len > 0) {
        const char *const end = memchr(p, '\n', len);
        if (!end)
            return refuse(cx, name, out->count + 1, "the line has no end");
        const size_t used = (size_t)(end - p);
        PARE_TRY(parse_line(cx, a, name, p, used, out));
        p += used + 1;
        len -= used + 1;
    }
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_sum *)a)->name, ((const pare_sum *)b)->name);
}

const pare_sum *pare_sums_find(const pare_sums *s, const char *name)
{
    const pare_sum key = {.name = name};
    return s->count ? bsearch(&key, s->item, s->count, sizeof key, by_name) : NULL;
}

pare_status pare_sums_text(pare_ctx *cx, pare_arena *a, pare_sums *s, char **text, size_t *len)
{
    size_t size = 0;
    if (s->count > 1)
        qsort(s->item, s->count, sizeof *s->item, by_name);
    for (size_t i = 0; i < s->count; i++) {
        const pare_sum *const item = &s->item[i];
        if (!is_plain_name(item->name, strlen(item->name)) || strlen(item->sha256) != DIGITS ||
            !is_digest(item->sha256) || (i > 0 && strcmp(item[-1].name, item->name) == 0))
            return pare_fail(cx, PARE_EINVAL, PARE_SUMS_NAME ": \"%s\" cannot be listed",
                             item->name);
        size += DIGITS + BLANKS + strlen(item->name) + 1;
    }
    char *at = *text = PARE_NEW(a, char, size + 1);
    if (!at)
        return PARE_ENOMEM;
    for (size_t i = 0; i < s->count; i++) {
        const size_t name_len = strlen(s->item[i].name);
        memcpy(at, s->item[i].sha256, DIGITS);
        memcpy(at + DIGITS, "  ", BLANKS);
        memcpy(at + DIGITS + BLANKS, s->item[i].name, name_len);
        at += DIGITS + BLANKS + name_len;
        *at++ = '\n';
    }
    *at = '\0';
    *len = size;
    return PARE_OK;
}
