#include "formats/archive.h"

#include <string.h>

#include "formats/archive_stretch.h"
#include "formats/hash.h"
#include "formats/json.h"
#include "formats/little_endian.h"
#include "formats/unicode.h"

enum {
    FRAME_HEAD = 8, /* of a skippable frame: magic and length */
    SUM = 16,
    ROW = 8,  /* of the table */
    FOOT = 9, /* of the table: rows, a byte of flags, its magic again */
    FIXED_ROWS = 2
};
#define OWN_MAGIC   0x184D2A5DU
#define TABLE_MAGIC 0x184D2A5EU
#define FOOT_MAGIC  0x8F92EAB1U

const unsigned char pare_archive_head[PARE_ARCHIVE_HEAD] = {
    0x5D, 0x2A, 0x4D, 0x18, 8, 0, 0, 0, 'P', 'A', 'R', 'E', 'P', 'K', '0', '1'};

static const struct {
    const char *word;
    bool based;
} forms[PARE_FORMS] = {
#define X(name, word, width, based) {word, based},
    PARE_ARCHIVE_FORM_MAP(X)
#undef X
};

const char *pare_archive_form_word(pare_archive_form f)
{
    return forms[f].word;
}

bool pare_archive_form_based(pare_archive_form f)
{
    return forms[f].based;
}

bool pare_archive_name_fits(const char *name)
{
    const size_t len = strlen(name);
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)name[i] < ' ' || name[i] == 127 || name[i] == '/')
            return false;
    return len > 0 && len < 256 && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
           strcmp(name, PARE_ARCHIVE_MARK) != 0 && pare_unicode_valid(name, len) == len;
}

static pare_status refuse(pare_ctx *cx, const char *name, const char *why)
{
    return pare_fail(cx, PARE_EFORMAT, "%s: %s", name, why);
}

/* Where the index begins, from the table, whose rows tile what lies in front of it. */
static pare_status find_index(pare_ctx *cx, const char *name, const unsigned char *p, uint64_t len,
                              uint64_t *index, uint64_t *table)
{
    if (len < PARE_ARCHIVE_HEAD)
        return refuse(cx, name, len ? "is too short to be an archive" : "is empty");
    if (memcmp(p, pare_archive_head, PARE_ARCHIVE_HEAD) != 0)
        return refuse(cx, name, "is no archive of pare: its first bytes are others");
    if (len < PARE_ARCHIVE_HEAD + FRAME_HEAD + FOOT || pare_le32(p + len - 4) != FOOT_MAGIC ||
        p[len - 5] != 0)
        return refuse(cx, name, "does not end in a seek table: it is cut, or damaged there");
    const uint64_t rows = pare_le32(p + len - FOOT), bytes = rows * ROW + FOOT;
    if (rows < FIXED_ROWS || bytes > len - PARE_ARCHIVE_HEAD - FRAME_HEAD)
        return refuse(cx, name, "the seek table does not fit into the file");
    *table = len - bytes - FRAME_HEAD;
    const unsigned char *const t = p + *table;
    if (pare_le32(t) != TABLE_MAGIC || pare_le32(t + 4) != bytes)
        return refuse(cx, name, "the seek table is damaged");
    *index = 0;
    for (uint64_t i = 0; i + 1 < rows; i++)
        *index += pare_le32(t + FRAME_HEAD + i * ROW); /* fewer than 2^64 in all */
    const uint64_t last = pare_le32(t + FRAME_HEAD + (rows - 1) * ROW);
    return *index + last == *table && last > FRAME_HEAD + SUM
               ? PARE_OK
               : refuse(cx, name, "the seek table does not fit the file in front of it");
}

static pare_status read_index(pare_ctx *cx, pare_arena *a, const char *name, const unsigned char *p,
                              size_t len, char **text, size_t *text_len)
{
    uint8_t sum[SUM];
    if (pare_le32(p) != OWN_MAGIC || pare_le32(p + 4) != len - FRAME_HEAD)
        return refuse(cx, name, "has no index where the seek table says it is");
    const unsigned char *const frame = p + FRAME_HEAD + SUM;
    pare_xxh3(frame, len - FRAME_HEAD - SUM, sum);
    if (memcmp(sum, p + FRAME_HEAD, SUM) != 0)
        return refuse(cx, name, "the index differs from its XXH3: it is damaged");
    const pare_status s = pare_text_of_frame(a, frame, len - FRAME_HEAD - SUM,
                                             PARE_ARCHIVE_INDEX_MOST, text, text_len);
    return s == PARE_EFORMAT ? refuse(cx, name, "the index is no frame of zstd, or too large") : s;
}

static void put32(unsigned char *p, uint64_t v)
{
    for (size_t i = 0; i < 4; i++)
        p[i] = (unsigned char)(v >> 8 * i);
}

static uint64_t table_bytes(const pare_archive *x)
{
    uint64_t rows = FIXED_ROWS;
    for (size_t i = 0; i < x->files; i++)
        rows += x->file[i].frames;
    return FRAME_HEAD + rows * ROW + FOOT;
}

/* The table of an archive whose index takes `index` bytes. */
static void put_table(const pare_archive *x, uint64_t index, unsigned char *to)
{
    const uint64_t bytes = table_bytes(x);
    put32(to, TABLE_MAGIC);
    put32(to + 4, bytes - FRAME_HEAD);
    unsigned char *row = to + FRAME_HEAD;
    put32(row, PARE_ARCHIVE_HEAD);
    put32(row + 4, 0);
    for (size_t i = 0; i < x->files; i++)
        for (size_t k = 0; k < x->file[i].frames; k++) {
            row += ROW;
            put32(row, x->file[i].frame[k].stored);
            put32(row + 4, x->file[i].frame[k].bytes);
        }
    put32(row + ROW, index);
    put32(row + ROW + 4, 0);
    put32(row + 2 * (size_t)ROW, (bytes - FRAME_HEAD - FOOT) / ROW);
    row[2 * ROW + 4] = 0;
    put32(row + 2 * (size_t)ROW + 5, FOOT_MAGIC);
}

/* The table is what the index says. */
static pare_status match_table(pare_ctx *cx, pare_arena *a, const char *name, const pare_archive *x,
                               const unsigned char *p, uint64_t len, uint64_t index)
{
    const uint64_t bytes = table_bytes(x);
    if (bytes > len)
        return refuse(cx, name, "the seek table is not that of the index");
    unsigned char *const want = pare_arena_take_raw(a, (size_t)bytes, 1);
    if (!want)
        return PARE_ENOMEM;
    put_table(x, index, want);
    return bytes == len && memcmp(want, p, (size_t)len) == 0
               ? PARE_OK
               : refuse(cx, name, "the seek table is not that of the index");
}

pare_status pare_archive_parse(pare_ctx *cx, pare_arena *a, const char *name, const void *bytes,
                               uint64_t len, pare_archive *out)
{
    const unsigned char *const p = bytes;
    uint64_t index, table;
    char *text;
    size_t text_len;
    *out = (pare_archive){0};
    PARE_TRY(find_index(cx, name, p, len, &index, &table));
    PARE_TRY(read_index(cx, a, name, p + index, (size_t)(table - index), &text, &text_len));
    PARE_TRY(pare_archive_index_parse(cx, a, name, text, text_len, index, out));
    PARE_TRY(match_table(cx, a, name, out, p + table, len - table, table - index));
    out->stored = len;
    return PARE_OK;
}

static void put_frame(pare_json_writer *w, const pare_archive_frame *f)
{
    char hex[PARE_XXH3_HEX];
    pare_json_open_object(w, NULL);
    pare_json_put_integer(w, "bytes", (int64_t)f->bytes);
    pare_json_put_integer(w, "stored", (int64_t)f->stored);
    pare_json_put_text(w, "form", forms[f->form].word);
    if (forms[f->form].based) {
        pare_json_put_integer(w, "base_at", (int64_t)f->base_at);
        pare_json_put_integer(w, "base_bytes", (int64_t)f->base_bytes);
    }
    pare_xxh3_text(f->xxh3, hex);
    pare_json_put_text(w, "xxh3", hex);
    pare_json_close(w);
}

static void put_file(pare_json_writer *w, const pare_archive_file *f)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "name", f->name);
    pare_json_put_integer(w, "bytes", (int64_t)f->bytes);
    pare_json_put_text(w, "sha256", f->sha256);
    if (f->based) {
        pare_json_open_object(w, "base");
        pare_json_put_integer(w, "bytes", (int64_t)f->base_bytes);
        pare_json_put_text(w, "sha256", f->base_sha256);
        pare_json_close(w);
    }
    pare_json_open_array(w, "frames");
    for (size_t i = 0; i < f->frames; i++)
        put_frame(w, &f->frame[i]);
    pare_json_close(w);
    pare_json_close(w);
}

static void put_index(pare_json_writer *w, const pare_archive *x)
{
    pare_json_open_object(w, NULL);
    pare_json_put_integer(w, "format", PARE_ARCHIVE_FORMAT);
    pare_json_put_text(w, "program", x->program);
    pare_json_put_text(w, "zstd", x->zstd);
    pare_json_put_integer(w, "level", x->level);
    pare_json_put_integer(w, "stretch", (int64_t)x->stretch);
    pare_json_open_array(w, "files");
    for (size_t i = 0; i < x->files; i++)
        put_file(w, &x->file[i]);
    pare_json_close(w);
    pare_json_close(w);
}

static pare_status make_tail(pare_arena *a, const pare_archive *x, const char *json,
                             size_t json_len, char **text, size_t *len)
{
    unsigned char *frame;
    size_t frame_len;
    PARE_TRY(pare_frame_of_text(a, json, json_len, &frame, &frame_len));
    const size_t index = FRAME_HEAD + SUM + frame_len;
    *len = index + (size_t)table_bytes(x);
    unsigned char *const to = pare_arena_take_raw(a, *len, 1);
    if (!to)
        return PARE_ENOMEM;
    put32(to, OWN_MAGIC);
    put32(to + 4, SUM + frame_len);
    pare_xxh3(frame, frame_len, to + FRAME_HEAD);
    memcpy(to + FRAME_HEAD + SUM, frame, frame_len);
    put_table(x, index, to + index);
    *text = (char *)to;
    return PARE_OK;
}

pare_status pare_archive_tail(pare_ctx *cx, pare_arena *a, const pare_archive *x, char **text,
                              size_t *len)
{
    pare_json_writer *w;
    pare_archive again;
    const char *json;
    size_t json_len;
    uint64_t end = PARE_ARCHIVE_HEAD;
    for (size_t i = 0; i < x->files; i++)
        for (size_t k = 0; k < x->file[i].frames; k++)
            end += x->file[i].frame[k].stored;
    PARE_TRY(pare_json_writer_new(cx, &w));
    put_index(w, x);
    pare_status s = pare_json_writer_finish(w, &json, &json_len);
    if (s == PARE_OK)
        s = pare_archive_index_parse(cx, a, "index", json, json_len, end, &again);
    if (s == PARE_OK)
        s = make_tail(a, x, json, json_len, text, len);
    pare_json_writer_free(w);
    return s == PARE_EFORMAT ? PARE_EINVAL : s;
}
