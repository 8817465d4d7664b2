/* formats/hash.h - XXH3-128, the checksum for integrity; formats/sha256.h is for provenance. */
#ifndef PARE_FORMATS_HASH_H
#define PARE_FORMATS_HASH_H

#include <stdint.h>

#include "runtime/file.h"

enum { PARE_XXH3_HEX = 33 }; /* lower-case hex with the NUL */

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

/* A file by stretches of so many bytes, the last one shorter: the XXH3-128 of their XXH3-128. All
 * threads can work on one file, and every change is found. Reports progress in bytes as the step
 * `what`. PARE_EINTERRUPTED, PARE_ENOMEM. */
enum { PARE_STRETCH = 1024 * 1024 };
PARE_CHECKED pare_status pare_xxh3_files(pare_ctx *cx, const char *what, const pare_file *file,
                                         size_t count, uint8_t (*xxh3)[16]);

/* A stretch of memory, mostly of a mapped file. */
typedef struct pare_span {
    const void *data;
    uint64_t bytes;
} pare_span;

/* XXH3-128 of many stretches at once, the largest first, one per task of the pool; reports progress
 * in bytes as the step `what`. PARE_EINTERRUPTED, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_xxh3_spans(pare_ctx *cx, const char *what, const pare_span *span,
                                         size_t count, uint8_t (*xxh3)[16]);

/* Bytes as hex digits, with the NUL; the same of the 16 bytes of an XXH3-128. */
void pare_hex_text(const uint8_t *bytes, size_t count, char *hex);
void pare_xxh3_text(const uint8_t xxh3[16], char hex[PARE_XXH3_HEX]);

#endif
