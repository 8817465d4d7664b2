/* formats/format_version.h - versions of the files that pare writes and reads again. A file of
 * another version may mean something else by the same words, so it is refused before anything in it
 * is used, also where checksums are not looked at. */
#ifndef PARE_FORMATS_FORMAT_VERSION_H
#define PARE_FORMATS_FORMAT_VERSION_H

#include "formats/checkpoint.h"
#include "formats/json.h"

enum {
    PARE_CONFIG_FORMAT = 1,   /* config.json: quantization_config.format */
    PARE_MANIFEST_FORMAT = 1, /* manifest.json: format */
    PARE_INDEX_VERSION = 1    /* packed.index.json: metadata.version */
};

/* PARE_OK when `version`, the member `key` of `file`, is `known`. Else PARE_ENOTSUP for another
 * whole number, PARE_EFORMAT when there is none; the message says what was found, what this program
 * reads, and what to do. */
PARE_CHECKED pare_status pare_version_check(pare_ctx *cx, const char *file, const char *key,
                                            const pare_json *version, int64_t known);

/* The same for metadata and layout of packed.index.json. `file` names it. */
PARE_CHECKED pare_status pare_index_version_check(pare_ctx *cx, const char *file,
                                                  const pare_json *index);

/* The same for config.json, which has been read, and for the manifest.json of a model that pare
 * wrote. A manifest that is missing or cannot be parsed is left to pare_checkpoint_check. */
PARE_CHECKED pare_status pare_checkpoint_version_check(const pare_checkpoint *ck);

#endif
