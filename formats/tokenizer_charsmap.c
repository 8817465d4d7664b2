/* Maps of characters: the compiled rules inside a tokenizer.model, and the normalizer Precompiled,
 * which holds the same bytes. */
#include <string.h>
#include <utf8proc.h>

#include "formats/tokenizer_internal.h"

enum { TEXT_MAX = 1024 }; /* the longest one of Unicode has 33 bytes */

static uint32_t read_u32(const unsigned char *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

pare_status pare__charsmap_parse(pare_ctx *cx, const char *where, const char *bytes, size_t len,
                                 pare_tok_charsmap *out)
{
    const unsigned char *const p = (const unsigned char *)bytes;
    const size_t array = len > 4 ? read_u32(p) : 0;
    if (array == 0 || array % 4 != 0 || array >= len - 4)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: a map of %zu bytes says that its array takes %zu of them", where, len,
                         array);
    *out = (pare_tok_charsmap){p + 4, array / 4, bytes + 4 + array, len - 4 - array};
    for (size_t at = 0; at < out->texts_len;) {
        const char *const end = memchr(out->texts + at, '\0', out->texts_len - at);
        if (!end || end - (out->texts + at) > TEXT_MAX)
            return pare_fail(cx, PARE_EFORMAT, "%s: text %zu of the map has no end within %d bytes",
                             where, at, TEXT_MAX);
        at = (size_t)(end - out->texts) + 1;
    }
    return PARE_OK;
}

/* Units: bits 0..7 and 31 label, bit 8 has a value, bits 10..30 offset, times 256 under bit 9; a
 * value is a unit of its own with bit 31. */
static size_t offset_of(uint32_t unit)
{
    return (size_t)(unit >> 10) << ((unit & 0x200u) >> 6);
}

size_t pare__charsmap_find(const pare_tok_charsmap *m, pare_tok_slice in, bool longest,
                           pare_tok_slice *text)
{
    size_t found = 0, at = offset_of(read_u32(m->units));
    for (size_t i = 0; i < in.len; i++) {
        const unsigned char byte = (unsigned char)in.at[i];
        at ^= byte;
        const uint32_t unit = at < m->count ? read_u32(m->units + 4 * at) : 0x80000000u;
        if ((unit & 0x800000ffu) != byte)
            break;
        at ^= offset_of(unit);
        if (!(unit & 0x100u) || at >= m->count)
            continue;
        const size_t place = read_u32(m->units + 4 * at) & 0x7fffffffu;
        if (place >= m->texts_len)
            continue;
        *text = (pare_tok_slice){m->texts + place, strlen(m->texts + place)};
        found = i + 1;
        if (!longest)
            break;
    }
    return found;
}

/* End of the grapheme cluster that starts at `at`. */
static size_t cluster_end(pare_tok_slice in, size_t at)
{
    uint32_t before, after;
    utf8proc_int32_t state = 0;
    at += pare__utf8_read(in.at + at, &before);
    while (at < in.len) {
        const size_t n = pare__utf8_read(in.at + at, &after);
        if (utf8proc_grapheme_break_stateful((int32_t)before, (int32_t)after, &state))
            break;
        at += n;
        before = after;
    }
    return at;
}

static pare_status map_cluster(const pare_tok_charsmap *m, pare_tok_text *out, pare_tok_slice in)
{
    pare_tok_slice text;
    if (in.len < 6 && pare__charsmap_find(m, in, false, &text))
        return pare__text_append(out, text.at, text.len);
    for (size_t i = 0, n; i < in.len; i += n) {
        uint32_t c;
        n = pare__utf8_read(in.at + i, &c);
        const pare_tok_slice one = {in.at + i, n};
        text = one;
        (void)pare__charsmap_find(m, one, false, &text);
        PARE_TRY(pare__text_append(out, text.at, text.len));
    }
    return PARE_OK;
}

/* As the peers apply Precompiled: a cluster below six bytes whose start has a rule becomes the text
 * of the shortest one, any other goes character by character. */
pare_status pare__text_charsmap(const pare_tokenizer *t, pare_arena *a, pare_tok_slice in,
                                pare_tok_slice *out)
{
    pare_tok_text text = {.arena = a};
    for (size_t i = 0; i < in.len;) {
        const size_t end = cluster_end(in, i);
        PARE_TRY(map_cluster(&t->charsmap, &text, (pare_tok_slice){in.at + i, end - i}));
        i = end;
    }
    return pare__text_clean(a, (pare_tok_slice){text.at, text.len}, out);
}
