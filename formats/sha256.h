/* formats/sha256.h - SHA-256 of bytes and files, by libcrypto.
 *
 * SHA-256 runs through a file from its start to its end in one thread. So that nobody waits for it,
 * a thread of its own beside the pool does it while the job reads or writes the same files. */
#ifndef PARE_FORMATS_SHA256_H
#define PARE_FORMATS_SHA256_H

#include <stdint.h>

#include "runtime/file.h"

enum { PARE_SHA256_HEX = 65 }; /* lower-case hex with the NUL */

/* SHA-256 of bytes as hex. PARE_ENOMEM when libcrypto fails: no memory is left for it, or it is a
 * build without SHA-256. */
PARE_CHECKED pare_status pare_sha256_hex(pare_ctx *cx, const void *bytes, size_t len,
                                         char hex[PARE_SHA256_HEX]);

/* The same of bytes that come in pieces. PARE_ENOMEM as above; what fails in between fails at the
 * end, which frees *s and makes it NULL. NULL is fine for free. */
typedef struct pare_sha256 pare_sha256;
PARE_CHECKED pare_status pare_sha256_new(pare_ctx *cx, pare_sha256 **out);
void pare_sha256_add(pare_sha256 *s, const void *bytes, size_t len);
PARE_CHECKED pare_status pare_sha256_end(pare_ctx *cx, pare_sha256 **s, char hex[PARE_SHA256_HEX]);
void pare_sha256_free(pare_sha256 *s);

/* SHA-256 of files that are there, one per task of the pool: hex[i] of file[i]. Reports progress in
 * bytes. PARE_EINTERRUPTED, PARE_ENOMEM as above. */
PARE_CHECKED pare_status pare_sha256_files(pare_ctx *cx, const pare_file *file, size_t count,
                                           char (*hex)[PARE_SHA256_HEX]);

/* Files that are hashed beside other work. */
typedef struct pare_hashing pare_hashing;

/* Begins with files of which no byte is ready yet. `file` and where the results go are borrowed
 * until the end: hex[i] is the SHA-256 of file[i], and xxh3[i], unless xxh3 is NULL, what
 * pare_xxh3_files says of the bytes that went into it. Where no thread can be started, the work
 * waits for pare_hashing_end. PARE_ENOMEM, also when libcrypto fails. *out is NULL on failure. */
PARE_CHECKED pare_status pare_hashing_begin(pare_ctx *cx, const pare_file *file, size_t count,
                                            char (*hex)[PARE_SHA256_HEX], uint8_t (*xxh3)[16],
                                            pare_hashing **out);

/* The first `bytes` bytes of file[i] are there and will not change. */
void pare_hashing_ready(pare_hashing *h, size_t i, uint64_t bytes);

/* All bytes are ready: the pool takes files that nobody has begun, and when the last one is done
 * the results are written. Reports progress in bytes. Frees *h and makes it NULL, also on failure.
 * PARE_EINTERRUPTED, PARE_ENOMEM when libcrypto fails. */
PARE_CHECKED pare_status pare_hashing_end(pare_ctx *cx, pare_hashing **h);

/* Stops where it is; no results. NULL is allowed. */
void pare_hashing_free(pare_ctx *cx, pare_hashing *h);

#endif
