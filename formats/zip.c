#include "formats/zip.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "formats/little_endian.h"

/* Bytes of the fixed part of each record, and their signatures. */
enum { LOCAL = 30, CENTRAL = 46, END = 22, END64 = 56, LOCATOR = 20, EXTRA = 4, ZIP64 = 1 };
enum { LOCAL_SIGN = 0x04034b50, CENTRAL_SIGN = 0x02014b50, END_SIGN = 0x06054b50 };
enum { END64_SIGN = 0x06064b50, LOCATOR_SIGN = 0x07064b50 };
enum { ENCRYPTED = 1, DESCRIPTOR = 8, STRONG = 1 << 6, MASKED = 1 << 13 }; /* flags */
enum { ENTRIES_MAX = 1 << 20, NAME_MAX_BYTES = 1024 };

typedef unsigned long long ull;

typedef struct reader {
    pare_ctx *cx;
    pare_arena *arena;
    const char *name;
    const unsigned char *bytes;
    uint64_t len;
    uint64_t first, last; /* the directory: from, to */
    uint64_t entries;
} reader;

/* An entry on the way: where it begins and ends in the file. */
typedef struct place {
    pare_zip_entry entry;
    uint64_t begin, end;
} place;

/* A record of the directory, as read. */
typedef struct record {
    const unsigned char *text; /* its name */
    size_t text_bytes;
    unsigned flags, method;
    uint64_t packed, size, offset;
} record;

static pare_status find_end64(reader *r, uint64_t end)
{
    const unsigned char *const locator = r->bytes + end - LOCATOR;
    const uint64_t at = pare_le64(locator + 8);
    if (pare_le32(locator + 4) != 0 || pare_le32(locator + 16) > 1)
        return pare_fail(r->cx, PARE_ENOTSUP, "%s: a part of an archive of several files", r->name);
    if (end < LOCATOR + END64 || at > end - LOCATOR - END64 ||
        pare_le32(r->bytes + at) != END64_SIGN)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: byte %llu: the locator of the zip64 directory points to %llu, where "
                         "there is none",
                         r->name, (ull)(end - LOCATOR), (ull)at);
    const unsigned char *const p = r->bytes + at;
    r->entries = pare_le64(p + 32);
    const uint64_t size = pare_le64(p + 40), first = pare_le64(p + 48);
    if (first > at || size != at - first)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: the zip64 directory should have %llu bytes from byte %llu and end "
                         "in front of byte %llu",
                         r->name, (ull)size, (ull)first, (ull)at);
    r->first = first;
    r->last = at;
    return PARE_OK;
}

/* Of a plain end record that stands beside a zip64 one, each number is true or saturated. */
static bool agrees(uint64_t plain, uint64_t wide, uint64_t saturated)
{
    return plain == wide || plain == saturated;
}

static pare_status find_directory(reader *r)
{
    if (r->len < END)
        return pare_fail(
            r->cx, PARE_EFORMAT,
            "%s: %llu byte%s, a zip archive has at least 22: truncated? copy or download it again",
            r->name, (ull)r->len, pare_plural(r->len));
    const uint64_t end = r->len - END;
    const unsigned char *const p = r->bytes + end;
    if (pare_le32(p) != END_SIGN || pare_le16(p + 20) != 0)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: byte %llu: no end of a zip directory: truncated, or not a zip "
                         "archive?",
                         r->name, (ull)end);
    const uint64_t entries = pare_le16(p + 10), size = pare_le32(p + 12), first = pare_le32(p + 16);
    if (end >= LOCATOR && pare_le32(p - LOCATOR) == LOCATOR_SIGN) {
        PARE_TRY(find_end64(r, end));
        if (!agrees(entries, r->entries, UINT16_MAX) ||
            !agrees(size, r->last - r->first, UINT32_MAX) || !agrees(first, r->first, UINT32_MAX))
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: byte %llu: the two ends of the directory do not agree", r->name,
                             (ull)end);
        return PARE_OK;
    }
    if (pare_le16(p + 4) != 0 || pare_le16(p + 6) != 0 || pare_le16(p + 8) != entries)
        return pare_fail(r->cx, PARE_ENOTSUP, "%s: a part of an archive of several files", r->name);
    if (first > end || size != end - first)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: the directory should have %llu bytes from byte %llu and end in "
                         "front of byte %llu",
                         r->name, (ull)size, (ull)first, (ull)end);
    r->entries = entries;
    r->first = first;
    r->last = end;
    return PARE_OK;
}

/* Takes one of the saturated numbers from the zip64 part: they stand there in order. */
static bool take_wide(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    if (*value != UINT32_MAX)
        return true;
    if (end - *at < 8)
        return false;
    *value = pare_le64(*at);
    *at += 8;
    return true;
}

/* Numbers that did not fit into 32 bits stand in extra part 1. */
static pare_status read_wide(const reader *r, const unsigned char *extra, size_t len, record *e)
{
    const bool wide = e->size == UINT32_MAX || e->packed == UINT32_MAX || e->offset == UINT32_MAX;
    while (len >= EXTRA) {
        const unsigned tag = pare_le16(extra);
        const size_t bytes = pare_le16(extra + 2);
        if (bytes > len - EXTRA)
            break;
        const unsigned char *at = extra + EXTRA, *const end = at + bytes;
        if (tag == ZIP64 && wide &&
            (!take_wide(&at, end, &e->size) || !take_wide(&at, end, &e->packed) ||
             !take_wide(&at, end, &e->offset)))
            break;
        if (tag == ZIP64)
            return PARE_OK;
        extra = end;
        len -= EXTRA + bytes;
    }
    if (wide)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: entry %.*s: its 64-bit sizes are missing from the directory", r->name,
                         (int)e->text_bytes, (const char *)e->text);
    return PARE_OK;
}

static pare_status check_name(const reader *r, const record *e, uint64_t at)
{
    if (e->text_bytes == 0 || e->text_bytes > NAME_MAX_BYTES)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: byte %llu: an entry's name has %zu bytes, 1 to %d are accepted",
                         r->name, (ull)at, e->text_bytes, NAME_MAX_BYTES);
    for (size_t i = 0; i < e->text_bytes; i++) {
        if (e->text[i] < ' ' || e->text[i] == 127)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: byte %llu: a control character in an entry's name", r->name,
                             (ull)at);
    }
    return PARE_OK;
}

/* One record of the directory at *at, which moves behind it. */
static pare_status read_record(const reader *r, uint64_t *at, record *e)
{
    const unsigned char *const p = r->bytes + *at;
    const uint64_t left = r->last - *at;
    if (left < CENTRAL || pare_le32(p) != CENTRAL_SIGN)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: byte %llu: no entry of the directory", r->name,
                         (ull)*at);
    const size_t text = pare_le16(p + 28), extra = pare_le16(p + 30), comment = pare_le16(p + 32);
    if (text + extra + comment > left - CENTRAL)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: byte %llu: an entry reaches beyond the directory", r->name, (ull)*at);
    *e = (record){.text = p + CENTRAL,
                  .text_bytes = text,
                  .flags = pare_le16(p + 8),
                  .method = pare_le16(p + 10),
                  .packed = pare_le32(p + 20),
                  .size = pare_le32(p + 24),
                  .offset = pare_le32(p + 42)};
    PARE_TRY(check_name(r, e, *at));
    *at += CENTRAL + text + extra + comment;
    return read_wide(r, e->text + text, extra, e);
}

static pare_status check_stored(const reader *r, const record *e)
{
    const int n = (int)e->text_bytes;
    const char *const text = (const char *)e->text;
    if (e->flags & (ENCRYPTED | STRONG | MASKED))
        return pare_fail(r->cx, PARE_ENOTSUP, "%s: entry %.*s is encrypted", r->name, n, text);
    if (e->method != 0)
        return pare_fail(r->cx, PARE_ENOTSUP,
                         "%s: entry %.*s is compressed (method %u%s); only stored entries are "
                         "read: write the file without compression",
                         r->name, n, text, e->method, e->method == 8 ? ", deflate" : "");
    if (e->packed != e->size)
        return pare_fail(
            r->cx, PARE_EFORMAT,
            "%s: entry %.*s is stored, but has %llu bytes in the file and %llu outside", r->name, n,
            text, (ull)e->packed, (ull)e->size);
    return PARE_OK;
}

/* In front of the data stand the same name, method and, unless they follow the data, sizes. */
static bool local_agrees(const unsigned char *p, const record *e)
{
    const uint64_t packed = pare_le32(p + 18), size = pare_le32(p + 22);
    if (pare_le16(p + 8) != e->method || pare_le16(p + 26) != e->text_bytes ||
        memcmp(p + LOCAL, e->text, e->text_bytes) != 0)
        return false;
    if ((pare_le16(p + 6) ^ e->flags) & ENCRYPTED)
        return false;
    if (pare_le16(p + 6) & DESCRIPTOR && packed == 0 && size == 0)
        return true;
    return agrees(packed, e->packed, UINT32_MAX) && agrees(size, e->size, UINT32_MAX);
}

/* Where the data of an entry lie. */
static pare_status find_data(const reader *r, const record *e, place *out)
{
    const int n = (int)e->text_bytes;
    const char *const text = (const char *)e->text;
    if (e->offset > r->first || r->first - e->offset < LOCAL + e->text_bytes ||
        pare_le32(r->bytes + e->offset) != LOCAL_SIGN)
        return pare_fail(r->cx, PARE_EFORMAT, "%s: entry %.*s should begin at byte %llu: not there",
                         r->name, n, text, (ull)e->offset);
    const unsigned char *const p = r->bytes + e->offset;
    if (!local_agrees(p, e))
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: entry %.*s is described otherwise in the directory than at byte %llu",
                         r->name, n, text, (ull)e->offset);
    const uint64_t head = LOCAL + e->text_bytes + pare_le16(p + 28), room = r->first - e->offset;
    if (head > room || e->size > room - head)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: entry %.*s at byte %llu should have %llu bytes, but the directory "
                         "begins at byte %llu",
                         r->name, n, text, (ull)e->offset, (ull)e->size, (ull)r->first);
    out->entry.data = p + head;
    out->entry.bytes = e->size;
    out->begin = e->offset;
    out->end = e->offset + head + e->size;
    return PARE_OK;
}

static int by_place(const void *a, const void *b)
{
    const place *const x = a, *const y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return strcmp(x->entry.name, y->entry.name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_zip_entry *)a)->name, ((const pare_zip_entry *)b)->name);
}

static pare_status check_apart(const reader *r, place *all, size_t count)
{
    if (count > 1)
        qsort(all, count, sizeof *all, by_place);
    for (size_t i = 1; i < count; i++) {
        if (all[i].begin < all[i - 1].end)
            return pare_fail(r->cx, PARE_EFORMAT,
                             "%s: entry %s begins at byte %llu, inside entry %s that ends at %llu",
                             r->name, all[i].entry.name, (ull)all[i].begin, all[i - 1].entry.name,
                             (ull)all[i - 1].end);
    }
    return PARE_OK;
}

static pare_status read_places(const reader *r, char *names, place *all)
{
    uint64_t at = r->first;
    for (size_t i = 0; i < r->entries; i++) {
        record e;
        PARE_TRY(read_record(r, &at, &e));
        PARE_TRY(check_stored(r, &e));
        PARE_TRY(find_data(r, &e, &all[i]));
        all[i].entry.name = memcpy(names, e.text, e.text_bytes);
        names += e.text_bytes + 1;
    }
    if (at != r->last)
        return pare_fail(r->cx, PARE_EFORMAT,
                         "%s: byte %llu: the directory goes on behind its %llu entries", r->name,
                         (ull)at, (ull)r->entries);
    return check_apart(r, all, (size_t)r->entries);
}

static pare_status sort_names(const reader *r, const place *all, pare_zip *out)
{
    const size_t count = (size_t)r->entries;
    out->entry = PARE_NEW(r->arena, pare_zip_entry, count);
    if (!out->entry)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        out->entry[i] = all[i].entry;
    if (count > 1)
        qsort(out->entry, count, sizeof *out->entry, by_name);
    for (size_t i = 1; i < count; i++) {
        if (strcmp(out->entry[i].name, out->entry[i - 1].name) == 0)
            return pare_fail(r->cx, PARE_EFORMAT, "%s: two entries are called %s", r->name,
                             out->entry[i].name);
    }
    out->entries = count;
    return PARE_OK;
}

pare_status pare_zip_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                           uint64_t len, pare_zip *out)
{
    *out = (pare_zip){0};
    reader r = {.cx = cx, .arena = a, .name = name, .bytes = bytes, .len = len};
    PARE_TRY(find_directory(&r));
    const uint64_t room = r.last - r.first;
    if (r.entries > room / CENTRAL || r.entries > ENTRIES_MAX)
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: %llu entries in a directory of %llu bytes; at most %d are accepted",
                         name, (ull)r.entries, (ull)room, ENTRIES_MAX);
    /* the directory holds all names and more bytes for each than a NUL */
    char *const names = pare_arena_take(a, (size_t)room, 1);
    pare_arena scratch;
    pare_status s = pare_arena_init(cx, &scratch, 0);
    place *const all = s == PARE_OK ? PARE_NEW(&scratch, place, (size_t)r.entries) : NULL;
    s = names && all ? read_places(&r, names, all) : PARE_ENOMEM;
    if (s == PARE_OK)
        s = sort_names(&r, all, out);
    pare_arena_release(&scratch);
    return s;
}

const pare_zip_entry *pare_zip_find(const pare_zip *zip, const char *name)
{
    const pare_zip_entry key = {.name = name};
    return zip->entries ? bsearch(&key, zip->entry, zip->entries, sizeof key, by_name) : NULL;
}
