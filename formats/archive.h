/* formats/archive.h - FILE.pare.zst: the files of a folder in frames of zstd. */
#ifndef PARE_FORMATS_ARCHIVE_H
#define PARE_FORMATS_ARCHIVE_H

#include <stdbool.h>

#include "formats/sha256.h"

// clang-format off
/* An archive is, in this order:
 *
 *   head    skippable frame 0x184D2A5D: u32 le 8, "PAREPK01"
 *   frames  ordinary frames of zstd: each is one stretch of one file; files by name, no frame empty
 *   index   skippable frame 0x184D2A5D: u32 le length; 16 B XXH3-128 of the rest; the rest is a
 *           frame of zstd that holds the index as JSON: of each file its name, bytes and SHA-256,
 *           of each of its frames bytes, stored bytes, form, and XXH3-128 of the stored bytes
 *   table   skippable frame 0x184D2A5E, the seek table of zstd's seekable format without checksums:
 *           u32 le stored bytes and u32 le bytes of every frame; head and index stand in it, too,
 *           with 0 bytes
 *
 * So zstd -d reads such a file: what it prints is every stretch in its form, one behind the other.
 * A form is what a stretch becomes before it is compressed; x is an element of W bytes:
 *
 *   plain     the stretch as it is
 *   planesW   x rotated left by a bit, so that the sign lies behind the mantissa and the exponent
 *             of BF16 and F32 fills a byte; then the first bytes of all x, then the second ones ...
 *   prefix    the stretch as it is, compressed behind base_bytes bytes of the base file at base_at
 *   xor       x ^ y, W = 1; y is the same element of the base file, from base_at on
 *   xorW      x ^ y; then planes of it, not rotated: x ^ y has no sign to speak of
 *
 * A base is a folder with files of the same names that an archive was made against: the index has
 * the SHA-256 of each that is needed. Untrusted: every number is held against the bytes that there
 * are before anything is allocated for it; a frame is decoded only when its XXH3 fits. */
// clang-format on
#define PARE_ARCHIVE_ENDING ".pare.zst"

/* The file that marks a folder as one that is being unpacked: no archive has one of this name. */
#define PARE_ARCHIVE_MARK ".pare-unpacking"

enum {
    PARE_ARCHIVE_FORMAT = 1,
    PARE_ARCHIVE_HEAD = 16,
    PARE_ARCHIVE_STRETCH = 4 << 20,       /* bytes of a file in a frame, as pare writes them */
    PARE_ARCHIVE_STRETCH_MOST = 16 << 20, /* that are accepted */
    PARE_ARCHIVE_INDEX_MOST = 1 << 28,    /* bytes of the index, decoded */
    PARE_ARCHIVE_FILES_MOST = 100000
};

/* The first bytes of every archive. */
extern const unsigned char pare_archive_head[PARE_ARCHIVE_HEAD];

/* X(name, word, width of an element, whether base_at and base_bytes count). */
#define PARE_ARCHIVE_FORM_MAP(X)                                                                   \
    X(PLAIN, "plain", 1, false)                                                                    \
    X(PLANES2, "planes2", 2, false)                                                                \
    X(PLANES4, "planes4", 4, false)                                                                \
    X(PREFIX, "prefix", 1, true)                                                                   \
    X(XOR, "xor", 1, true)                                                                         \
    X(XOR2, "xor2", 2, true)                                                                       \
    X(XOR4, "xor4", 4, true)

typedef enum pare_archive_form {
#define X(name, word, width, based) PARE_FORM_##name,
    PARE_ARCHIVE_FORM_MAP(X)
#undef X
        PARE_FORMS
} pare_archive_form;

const char *pare_archive_form_word(pare_archive_form f);
bool pare_archive_form_based(pare_archive_form f);

typedef struct pare_archive_frame {
    uint64_t at;          /* of the frame in the archive */
    size_t bytes, stored; /* of the file, of the frame; both above 0 */
    pare_archive_form form;
    uint8_t xxh3[16]; /* of the frame */
    uint64_t base_at; /* in the base file; forms with a base only */
    size_t base_bytes;
} pare_archive_frame;

typedef struct pare_archive_file {
    const char *name; /* as pare_archive_name_fits wants it */
    uint64_t bytes;
    char sha256[PARE_SHA256_HEX];
    pare_archive_frame *frame; /* their bytes add up to those of the file */
    size_t frames;
    bool based; /* a frame needs the base file of this name, of which: */
    uint64_t base_bytes;
    char base_sha256[PARE_SHA256_HEX];
} pare_archive_file;

typedef struct pare_archive {
    const char *program, *zstd; /* versions that wrote it: "0.1.0", "1.5.4" */
    int level;
    size_t stretch;          /* the largest frame's bytes, at most */
    pare_archive_file *file; /* names ascend */
    size_t files;
    uint64_t bytes, stored; /* of all files; of the archive */
    bool based;             /* any file is */
} pare_archive;

/* Reads head, index and table of an archive that lies in memory. `name` stands in messages. No
 * frame is looked at. PARE_EFORMAT, PARE_ENOTSUP for a later format, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_archive_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                            const void *bytes, uint64_t len, pare_archive *out);

/* The same of the JSON alone, of an archive in which frames end at `end`. */
PARE_CHECKED pare_status pare_archive_index_parse(pare_ctx *cx, pare_arena *a, const char *name,
                                                  const char *text, size_t len, uint64_t end,
                                                  pare_archive *out);

/* Index and table, to be written behind the frames; in the arena. PARE_EINVAL for what could not be
 * read again, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_archive_tail(pare_ctx *cx, pare_arena *a, const pare_archive *x,
                                           char **text, size_t *len);

/* Whether a file in an archive may have this name: 1 to 255 bytes of UTF-8 without slash and
 * control characters, neither "." nor ".." nor PARE_ARCHIVE_MARK. */
bool pare_archive_name_fits(const char *name);

#endif
