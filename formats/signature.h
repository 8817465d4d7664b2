/* formats/signature.h - Ed25519 (RFC 8032) over bytes, by libcrypto, with keys as PEM:
 *
 *   openssl genpkey -algorithm ed25519 -out private.pem
 *   openssl pkey -in private.pem -pubout -out public.pem
 *
 * A signature is the 64 bytes of the RFC, over the bytes themselves; so openssl checks it, too:
 *
 *   openssl pkeyutl -verify -rawin -pubin -inkey public.pem -in SHA256SUMS -sigfile SHA256SUMS.sig
 */
#ifndef PARE_FORMATS_SIGNATURE_H
#define PARE_FORMATS_SIGNATURE_H

#include <stdbool.h>

#include "formats/sha256.h"

/* Of the SHA256SUMS beside it, which cannot list it. */
#define PARE_SIGNATURE_NAME "SHA256SUMS.sig"
enum { PARE_SIGNATURE_BYTES = 64 };

/* Signs with the private key in the file `key`; id: SHA-256 of its public half, 32 raw bytes.
 * PARE_EFORMAT for a file that holds no Ed25519 private key, or one with a password;
 * PARE_ENOTFOUND, PARE_EIO, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_sign(pare_ctx *cx, const char *key, const void *bytes, size_t len,
                                   uint8_t signature[PARE_SIGNATURE_BYTES],
                                   char id[PARE_SHA256_HEX]);

/* *good: the signature is of these bytes and of the public key in the file `key`. The same. */
PARE_CHECKED pare_status pare_signature_check(pare_ctx *cx, const char *key, const void *bytes,
                                              size_t len,
                                              const uint8_t signature[PARE_SIGNATURE_BYTES],
                                              bool *good, char id[PARE_SHA256_HEX]);

#endif
