#include <string.h>

#include "formats/archive.h"
#include "formats/hash.h"
#include "formats/json.h"

/* Where in the index something is wrong. */
typedef struct reader {
    pare_ctx *cx;
    pare_arena *a;
    const char *name;
    pare_archive *out;
} reader;

static pare_status refuse(const reader *r, const char *file, const char *why)
{
    return pare_fail(r->cx, PARE_EFORMAT, "%s: index: %s%s%s", r->name, file ? file : "",
                     file ? ": " : "", why);
}

static bool read_hex(const pare_json *v, size_t digits, char *hex)
{
    size_t len;
    const char *const text = pare_json_text(v, &len);
    if (!text || len != digits)
        return false;
    for (size_t i = 0; i < len; i++)
        if (!strchr("0123456789abcdef", text[i]))
            return false;
    memcpy(hex, text, digits + 1);
    return true;
}

static uint8_t nibble(char c)
{
    return (uint8_t)(c <= '9' ? c - '0' : c - 'a' + 10);
}

static bool read_xxh3(const pare_json *v, uint8_t xxh3[16])
{
    char hex[PARE_XXH3_HEX];
    if (!read_hex(v, PARE_XXH3_HEX - 1, hex))
        return false;
    for (size_t i = 0; i < 16; i++)
        xxh3[i] = (uint8_t)(nibble(hex[2 * i]) << 4 | nibble(hex[2 * i + 1]));
    return true;
}

/* A count of bytes in [least, most]. */
static bool read_bytes(const pare_json *v, uint64_t least, uint64_t most, uint64_t *out)
{
    const int64_t n = pare_json_integer(v, -1);
    *out = n < 0 ? 0 : (uint64_t)n;
    return n >= 0 && *out >= least && *out <= most;
}

static bool read_form(const pare_json *v, pare_archive_form *out)
{
    const char *const word = pare_json_text(v, NULL);
    for (int i = 0; word && i < PARE_FORMS; i++)
        if (strcmp(word, pare_archive_form_word((pare_archive_form)i)) == 0) {
            *out = (pare_archive_form)i;
            return true;
        }
    return false;
}

/* What a frame takes of the base file; an xor needs as much as there is. */
static const char *read_base(const pare_json *v, const pare_archive_file *file,
                             pare_archive_frame *f)
{
    uint64_t bytes;
    const uint64_t most = 4 * (uint64_t)PARE_ARCHIVE_STRETCH_MOST;
    if (!file->based)
        return "a frame needs a base file, and none is named";
    if (!read_bytes(pare_json_get(v, "base_at"), 0, file->base_bytes, &f->base_at) ||
        !read_bytes(pare_json_get(v, "base_bytes"), 1, most, &bytes) ||
        bytes > file->base_bytes - f->base_at || (f->form != PARE_FORM_PREFIX && bytes != f->bytes))
        return "base_at and base_bytes of a frame do not lie in the base file";
    f->base_bytes = (size_t)bytes;
    return NULL;
}

static const char *read_frame(const reader *r, const pare_json *v, const pare_archive_file *file,
                              uint64_t file_left, uint64_t left, pare_archive_frame *f)
{
    uint64_t bytes, stored;
    if (!read_bytes(pare_json_get(v, "bytes"), 1, file_left, &bytes) || bytes > r->out->stretch)
        return "bytes of a frame do not fit its file or the largest stretch";
    if (!read_bytes(pare_json_get(v, "stored"), 1, left, &stored) || stored > UINT32_MAX)
        return "the stored bytes of a frame do not fit the archive";
    f->bytes = (size_t)bytes;
    f->stored = (size_t)stored;
    if (!read_form(pare_json_get(v, "form"), &f->form))
        return "a frame has a form that pare does not know";
    if (!read_xxh3(pare_json_get(v, "xxh3"), f->xxh3))
        return "a frame has no XXH3 of 32 hex digits";
    return pare_archive_form_based(f->form) ? read_base(v, file, f) : NULL;
}

static pare_status read_frames(const reader *r, const pare_json *v, pare_archive_file *file,
                               uint64_t *at, uint64_t end)
{
    const pare_json *const list = pare_json_get(v, "frames");
    uint64_t left = file->bytes;
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return refuse(r, file->name, "has no list of frames");
    file->frames = pare_json_count(list);
    file->frame = PARE_NEW(r->a, pare_archive_frame, file->frames);
    if (!file->frame)
        return PARE_ENOMEM;
    for (size_t i = 0; i < file->frames; i++) {
        pare_archive_frame *const f = &file->frame[i];
        const char *const why = read_frame(r, pare_json_at(list, i), file, left, end - *at, f);
        if (why)
            return refuse(r, file->name, why);
        f->at = *at;
        *at += f->stored;
        left -= f->bytes;
    }
    return left ? refuse(r, file->name, "its frames do not add up to its bytes") : PARE_OK;
}

static pare_status read_file(const reader *r, const pare_json *v, size_t i, uint64_t *at,
                             uint64_t end)
{
    pare_archive_file *const f = &r->out->file[i];
    const pare_json *const base = pare_json_get(v, "base");
    const char *const name = pare_json_text(pare_json_get(v, "name"), NULL);
    if (!name || !pare_archive_name_fits(name))
        return refuse(r, NULL, "the name of a file is none that pare writes");
    f->name = pare_arena_text(r->a, name, strlen(name));
    if (!f->name)
        return PARE_ENOMEM;
    if (i > 0 && strcmp(r->out->file[i - 1].name, name) >= 0)
        return refuse(r, f->name, "names do not ascend");
    if (!read_bytes(pare_json_get(v, "bytes"), 0, INT64_MAX - r->out->bytes, &f->bytes))
        return refuse(r, f->name, "has no number of bytes, or one too large");
    if (!read_hex(pare_json_get(v, "sha256"), PARE_SHA256_HEX - 1, f->sha256))
        return refuse(r, f->name, "has no SHA-256 of 64 hex digits");
    f->based = base != NULL;
    if (base && (!read_bytes(pare_json_get(base, "bytes"), 1, INT64_MAX, &f->base_bytes) ||
                 !read_hex(pare_json_get(base, "sha256"), PARE_SHA256_HEX - 1, f->base_sha256)))
        return refuse(r, f->name, "has a base without bytes or SHA-256");
    r->out->bytes += f->bytes;
    r->out->based |= f->based;
    return read_frames(r, v, f, at, end);
}

/* Printed as it is, so nothing in it may steer a terminal: ASCII alone. */
static bool is_plain(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return true;
}

/* A word about who wrote it, copied. */
static pare_status read_word(const reader *r, const pare_json *v, const char **out)
{
    enum { WORD_MOST = 64 };
    size_t len = 0;
    const char *const text = pare_json_text(v, &len);
    if (!text || len > WORD_MOST || !is_plain(text, len))
        return refuse(r, NULL, "program or zstd is no short text of plain characters");
    *out = pare_arena_text(r->a, text, len);
    return *out ? PARE_OK : PARE_ENOMEM;
}

static pare_status read_all(const reader *r, const pare_json *doc, uint64_t end)
{
    const int64_t format = pare_json_integer(pare_json_get(doc, "format"), 0);
    const pare_json *const files = pare_json_get(doc, "files");
    uint64_t stretch, level, at = PARE_ARCHIVE_HEAD;
    if (format > PARE_ARCHIVE_FORMAT)
        return pare_fail(r->cx, PARE_ENOTSUP,
                         "%s: the archive has format %lld, this program reads %d; take a newer one",
                         r->name, (long long)format, PARE_ARCHIVE_FORMAT);
    if (format != PARE_ARCHIVE_FORMAT)
        return refuse(r, NULL, "has no format");
    PARE_TRY(read_word(r, pare_json_get(doc, "program"), &r->out->program));
    PARE_TRY(read_word(r, pare_json_get(doc, "zstd"), &r->out->zstd));
    if (!read_bytes(pare_json_get(doc, "level"), 1, 22, &level) ||
        !read_bytes(pare_json_get(doc, "stretch"), 1, PARE_ARCHIVE_STRETCH_MOST, &stretch))
        return refuse(r, NULL, "level or stretch is out of range");
    r->out->level = (int)level;
    r->out->stretch = (size_t)stretch;
    r->out->files = pare_json_count(files);
    if (pare_json_type_of(files) != PARE_JSON_ARRAY || r->out->files > PARE_ARCHIVE_FILES_MOST)
        return refuse(r, NULL, "has no list of files, or one too long");
    r->out->file = PARE_NEW(r->a, pare_archive_file, r->out->files);
    if (!r->out->file)
        return PARE_ENOMEM;
    for (size_t i = 0; i < r->out->files; i++)
        PARE_TRY(read_file(r, pare_json_at(files, i), i, &at, end));
    return at == end ? PARE_OK : refuse(r, NULL, "frames do not end where the index begins");
}

pare_status pare_archive_index_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                     const char *text, size_t len, uint64_t end, pare_archive *out)
{
    pare_json *doc;
    *out = (pare_archive){0};
    const reader r = {.cx = cx, .a = a, .name = name, .out = out};
    if (end < PARE_ARCHIVE_HEAD)
        return refuse(&r, NULL, "frames do not end where the index begins");
    PARE_TRY(pare_json_parse(cx, name, text, len, PARE_ARCHIVE_INDEX_MOST, &doc));
    const pare_status s = read_all(&r, doc, end);
    pare_json_free(doc);
    return s;
}
