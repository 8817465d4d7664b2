#include "formats/unicode.h"

#include <string.h>
#include <utf8proc.h>

#include "formats/tokenizer_internal.h"

enum { SEQUENCE_MAX = 4 };

size_t pare_unicode_read(const char *at, uint32_t *code_point)
{
    return pare__utf8_read(at, code_point);
}

size_t pare_unicode_count(const char *text)
{
    size_t count = 0;
    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

size_t pare_unicode_valid(const char *text, size_t len)
{
    size_t at = 0;
    while (at < len) {
        bool valid;
        const size_t n = pare__utf8_length(text + at, len - at, &valid);
        if (!valid)
            return at;
        at += n;
    }
    return at;
}

/* Python adds four separators to White_Space. */
bool pare_unicode_is_space(uint32_t c)
{
    return pare__is_space(c) || (c >= 0x1c && c <= 0x1f);
}

/* The start of the character in front of `at`. */
static const char *back(const char *from, const char *at)
{
    do
        at--;
    while (at > from && ((unsigned char)*at & 0xc0) == 0x80);
    return at;
}

void pare_unicode_strip(const char **from, const char **to)
{
    uint32_t c;
    while (*from < *to) {
        const size_t n = pare__utf8_read(*from, &c);
        if (!pare_unicode_is_space(c))
            break;
        *from += n;
    }
    while (*to > *from) {
        const char *const last = back(*from, *to);
        (void)pare__utf8_read(last, &c);
        if (!pare_unicode_is_space(c))
            break;
        *to = last;
    }
}

char *pare_unicode_capitalize(pare_arena *a, const char *text)
{
    const size_t len = strlen(text);
    if (len > SIZE_MAX / SEQUENCE_MAX - 1) {
        (void)pare_fail(a->cx, PARE_ENOMEM, "a text of %zu bytes", len);
        return NULL;
    }
    char *const out = PARE_NEW(a, char, len *SEQUENCE_MAX + 1);
    size_t used = 0;
    for (size_t i = 0; out && i < len;) {
        uint32_t c;
        const bool first = i == 0;
        i += pare__utf8_read(text + i, &c);
        const utf8proc_int32_t to =
            first ? utf8proc_totitle((utf8proc_int32_t)c) : utf8proc_tolower((utf8proc_int32_t)c);
        used += (size_t)utf8proc_encode_char(to, (utf8proc_uint8_t *)out + used);
    }
    return out;
}
