/* tests/fuzz/archive_input.h - an input that begins with '{' is the index of an archive whose
 * frames end at byte 1016, anything else an archive. */
#ifndef PARE_TESTS_ARCHIVE_INPUT_H
#define PARE_TESTS_ARCHIVE_INPUT_H

#include "formats/archive.h"

enum { ARCHIVE_INPUT_END = PARE_ARCHIVE_HEAD + 1000 };

static inline pare_status archive_input_parse(pare_ctx *cx, pare_arena *a, const void *bytes,
                                              size_t len, pare_archive *out)
{
    return len > 0 && *(const char *)bytes == '{'
               ? pare_archive_index_parse(cx, a, "x.pare.zst", bytes, len, ARCHIVE_INPUT_END, out)
               : pare_archive_parse(cx, a, "x.pare.zst", bytes, len, out);
}

#endif
