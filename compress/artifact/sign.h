/* compress/artifact/sign.h - a signature over SHA256SUMS, and so over every file of a folder that
 * pare wrote: who rewrites a file and all hashes cannot rewrite the signature. */
#ifndef PARE_COMPRESS_ARTIFACT_SIGN_H
#define PARE_COMPRESS_ARTIFACT_SIGN_H

#include "compress/output/lock.h"
#include "formats/signature.h"

typedef struct pare_signed {
    size_t files;             /* that the signature covers */
    char id[PARE_SHA256_HEX]; /* SHA-256 of the public key */
} pare_signed;

/* Writes SHA256SUMS.sig into a folder after holding every file there against SHA256SUMS; one that
 * is there is replaced, and another one told of. PARE_EFORMAT: there is no SHA256SUMS, or a file
 * differs from it; PARE_EEXISTS: another process writes there; and what pare_sign returns. */
PARE_CHECKED pare_status pare_sign_folder(pare_ctx *cx, pare_arena *a, const char *path,
                                          const char *key, const pare_teller *teller,
                                          pare_signed *out);

/* Whether SHA256SUMS.sig of a folder is one of the public key in the file `key`. What SHA256SUMS
 * says of the files is not looked at (pare_verify does that). *why NULL: it is. PARE_EFORMAT for
 * what holds no public key; PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_sign_check(pare_ctx *cx, pare_arena *a, const char *path,
                                         const char *key, const char **why, pare_signed *out);

#endif
