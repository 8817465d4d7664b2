/* formats/archive_stretch.h - stretches of files to and from the frames of an archive, on the pool.
 * The only user of libzstd. */
#ifndef PARE_FORMATS_ARCHIVE_STRETCH_H
#define PARE_FORMATS_ARCHIVE_STRETCH_H

#include "formats/archive.h"

/* Bytes of a base file. */
typedef struct pare_base_bytes {
    const unsigned char *at; /* NULL: none */
    uint64_t offset;         /* in its file */
    size_t bytes;
} pare_base_bytes;

typedef struct pare_stretch {
    const unsigned char *from; /* the stretch, or to be decoded: the frame */
    unsigned char *to;         /* room: pare_stretch_bound(bytes), or to be decoded: frame.bytes */
    unsigned width; /* to be encoded: 2 or 4 where elements are floats of so many bytes, else 1 */
    pare_base_bytes twin; /* to be encoded: frame.bytes bytes that may be xor-ed */
    pare_base_bytes base; /* what may be a prefix; to be decoded: what frame.base_* say, if it has a
                             base */
    pare_archive_frame frame; /* to be encoded: `bytes` is given, all but `at` is found */
    const char *why;          /* of a failure, else NULL */
} pare_stretch;

typedef struct pare_stretch_coder pare_stretch_coder;

size_t pare_stretch_bound(size_t bytes);
const char *pare_stretch_library(void); /* version of libzstd */
enum { PARE_STRETCH_LEVEL_MOST = 19 };

/* For stretches of at most `most` bytes. `level`: of zstd, for the forms plain and prefix; what
 * planes and xor leave is compressed by entropy alone: matches of a few bytes among exponents cost
 * more than they save. PARE_ENOMEM. Free in any case; NULL is fine. */
PARE_CHECKED pare_status pare_stretch_coder_new(pare_ctx *cx, size_t most, int level,
                                                pare_stretch_coder **out);
void pare_stretch_coder_free(pare_ctx *cx, pare_stretch_coder *c);

/* Encodes each in the form that is smallest, of equal ones the first of the enum, decodes it again
 * and compares. The bytes depend on stretch, base, level and the version of libzstd alone.
 * PARE_ENOMEM; PARE_EIO: what was encoded does not decode to the stretch, which a sound machine
 * does not do. */
PARE_CHECKED pare_status pare_stretch_encode(pare_ctx *cx, pare_stretch_coder *c, pare_stretch *s,
                                             size_t count);

/* Decodes each after holding it against its XXH3. PARE_EFORMAT where one fails, with s[i].why and
 * without a message; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_stretch_decode(pare_ctx *cx, pare_stretch_coder *c, pare_stretch *s,
                                             size_t count);

/* A text as a frame, in the arena, and back (at most `most` bytes). PARE_ENOMEM; PARE_EFORMAT,
 * without a message. */
PARE_CHECKED pare_status pare_frame_of_text(pare_arena *a, const char *text, size_t len,
                                            unsigned char **frame, size_t *frame_len);
PARE_CHECKED pare_status pare_text_of_frame(pare_arena *a, const unsigned char *frame, size_t len,
                                            size_t most, char **text, size_t *text_len);

#endif
