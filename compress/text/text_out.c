#include "compress/text/text_out.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "runtime/file.h"

static bool reserve(pare_text_out *t, size_t more)
{
    if (t->status != PARE_OK)
        return false;
    if (more < t->size - t->len)
        return true;
    size_t size;
    if (__builtin_add_overflow(t->size, more, &size) ||
        __builtin_add_overflow(size, size / 2 + 4096, &size)) {
        t->status = pare_fail(t->cx, PARE_ENOMEM, "report: a text of %zu more bytes", more);
        return false;
    }
    char *const p = t->cx->alloc.resize(t->cx->alloc.self, t->text, t->size, size);
    if (!p) {
        t->status = pare_fail(t->cx, PARE_ENOMEM, "out of memory: report of %zu bytes", size);
        return false;
    }
    t->text = p;
    t->size = size;
    return true;
}

void pare__text_add(pare_text_out *t, const char *bytes, size_t len)
{
    if (!reserve(t, len))
        return;
    memcpy(t->text + t->len, bytes, len);
    t->len += len;
}

void pare__text_put(pare_text_out *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0 || !reserve(t, (size_t)n + 1))
        return;
    va_start(ap, fmt);
    (void)vsnprintf(t->text + t->len, (size_t)n + 1, fmt, ap);
    va_end(ap);
    t->len += (size_t)n;
}

/* Adds text, each byte of `special` replaced by the word at the same place. */
static void put_replaced(pare_text_out *t, const char *text, const char *special,
                         const char *const *word)
{
    while (*text) {
        const size_t plain = strcspn(text, special);
        pare__text_add(t, text, plain);
        text += plain;
        if (!*text)
            return;
        const char *const by = word[strchr(special, *text) - special];
        pare__text_add(t, by, strlen(by));
        text++;
    }
}

/* Bytes of the UTF-8 sequence at `text`, as far as a page may hold it; 0: none begins there. */
static size_t sequence(const unsigned char *text)
{
    const size_t len = text[0] < 0x80                      ? 1
                       : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
                       : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
                       : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
                                                           : 0;
    if (len == 1)
        return (text[0] >= 0x20 && text[0] != 0x7f) || text[0] == '\n' || text[0] == '\t';
    for (size_t i = 1; i < len; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    const bool none = (text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
                      (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f);
    return none ? 0 : len;
}

void pare__text_put_html(pare_text_out *t, const char *text)
{
    static const char special[] = "&<>\"'";
    static const char *const word[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t len; *text; text += len ? len : 1) {
        const char *const at = strchr(special, *text);
        len = sequence((const unsigned char *)text);
        if (at)
            pare__text_add(t, word[at - special], strlen(word[at - special]));
        else if (len)
            pare__text_add(t, text, len);
        else
            pare__text_add(t, "\xef\xbf\xbd", 3); /* U+FFFD */
    }
}

void pare__text_put_cell(pare_text_out *t, const char *text)
{
    static const char *const word[] = {"\\|",   "\\`", "\\*", "\\[", "&lt;",
                                       "&amp;", " ",   " ",   "\\_", "\\\\"};
    put_replaced(t, text, "|`*[<&\n\r_\\", word);
}

void pare__text_put_csv(pare_text_out *t, const char *text)
{
    static const char *const word[] = {"\"\""};
    if (!text[strcspn(text, ",\"\r\n")]) {
        pare__text_add(t, text, strlen(text));
        return;
    }
    pare__text_add(t, "\"", 1);
    put_replaced(t, text, "\"", word);
    pare__text_add(t, "\"", 1);
}

void pare__text_put_share(pare_text_out *t, double share, const char *sign, double error)
{
    pare__text_put(t, "%.2f%%", 100 * share);
    if (error > 0 && isfinite(error)) /* none where all answers are alike */
        pare__text_put(t, " %s %.2f", sign, 100 * error);
}

void pare__text_free(pare_text_out *t)
{
    if (t->text)
        (void)t->cx->alloc.resize(t->cx->alloc.self, t->text, t->size, 0);
    *t = (pare_text_out){.cx = t->cx};
}

pare_status pare__text_save(pare_text_out *t, const char *directory, const char *name)
{
    pare_status s = t->status;
    pare_arena a;
    if (s == PARE_OK)
        s = pare_arena_init(t->cx, &a, 0);
    if (s == PARE_OK) {
        const char *const path = pare_path_join(&a, directory, name);
        s = path ? pare_file_write(t->cx, path, t->text, t->len) : PARE_ENOMEM;
        pare_arena_release(&a);
    }
    pare__text_free(t);
    return s;
}
