/* formats/hash.h - checksums: XXH3-128 for integrity, SHA-256 for provenance. Incremental. */
#ifndef PARE_FORMATS_HASH_H
#define PARE_FORMATS_HASH_H

#include <stdint.h>

#include "runtime/file.h"

enum { PARE_XXH3_HEX = 33, PARE_SHA256_HEX = 65 }; /* lower-case hex with the NUL */

/* XXH3-128 of bytes as 32 hex digits (big-endian canonical form). */
void pare_xxh3_hex(const void *bytes, size_t len, char hex[PARE_XXH3_HEX]);

/* XXH3-128 as 16 bytes, canonical form. */
void pare_xxh3(const void *bytes, size_t len, uint8_t out[16]);

/* The same of bytes that come in pieces. */
typedef struct pare_xxh3_state {
    _Alignas(64) unsigned char space[640];
} pare_xxh3_state;
void pare_xxh3_begin(pare_xxh3_state *s);
void pare_xxh3_add(pare_xxh3_state *s, const void *bytes, size_t len);
void pare_xxh3_end(const pare_xxh3_state *s, uint8_t out[16]);

void pare_sha256_hex(const void *bytes, size_t len, char hex[PARE_SHA256_HEX]);

/* SHA-256 of many files at once, one file per task of the pool; hex[i] of files[i].
 * Reports progress in bytes. PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_sha256_files(pare_ctx *cx, const pare_file *files, size_t count,
                                           char (*hex)[PARE_SHA256_HEX]);

/* The same, and XXH3-128 of the same bytes in one pass over them. */
PARE_CHECKED pare_status pare_digest_files(pare_ctx *cx, const pare_file *files, size_t count,
                                           char (*hex)[PARE_SHA256_HEX], uint8_t (*xxh3)[16]);

/* A stretch of memory, mostly of a mapped file. */
typedef struct pare_span {
    const void *data;
    uint64_t bytes;
} pare_span;

/* XXH3-128 of many stretches at once, the largest first, one per task of the pool; reports progress
 * in bytes as the step `what`. PARE_EINTERRUPTED, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_xxh3_spans(pare_ctx *cx, const char *what, const pare_span *span,
                                         size_t count, uint8_t (*xxh3)[16]);

/* 16 bytes as 32 hex digits. */
void pare_xxh3_text(const uint8_t xxh3[16], char hex[PARE_XXH3_HEX]);

#endif
