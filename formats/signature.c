#include "formats/signature.h"

#include <openssl/bio.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

enum { PEM_MOST = 65536, KEY_BYTES = 32 };

/* A key with a password is refused: nobody is asked for one. */
static int no_password(char *to, int room, int writing, void *self)
{
    (void)to, (void)room, (void)writing, (void)self;
    return -1;
}

static pare_status refuse(pare_ctx *cx, const char *path, bool private)
{
    ERR_clear_error();
    return pare_fail(cx, PARE_EFORMAT,
                     private
                         ? "%s: holds no private Ed25519 key as PEM without a password; openssl "
                           "genpkey -algorithm ed25519 -out FILE makes one"
                         : "%s: holds no public Ed25519 key as PEM; openssl pkey -in PRIVATE "
                           "-pubout -out FILE takes it from a private one",
                     path);
}

static pare_status no_memory(pare_ctx *cx)
{
    ERR_clear_error();
    return pare_fail(cx, PARE_ENOMEM, "libcrypto has no memory left for a signature");
}

static pare_status parse_key(pare_ctx *cx, const char *path, bool private, const char *pem,
                             size_t len, EVP_PKEY **out, char id[PARE_SHA256_HEX])
{
    uint8_t raw[KEY_BYTES];
    size_t raw_len = sizeof raw;
    /* starts libcrypto where there is room for that (formats/sha256.c) */
    PARE_TRY(pare_sha256_hex(cx, "", 0, id));
    BIO *const bio = BIO_new_mem_buf(pem, (int)len);
    if (!bio)
        return no_memory(cx);
    *out = private ? PEM_read_bio_PrivateKey(bio, NULL, no_password, NULL)
                   : PEM_read_bio_PUBKEY(bio, NULL, no_password, NULL);
    (void)BIO_free(bio);
    if (!*out || EVP_PKEY_get_id(*out) != EVP_PKEY_ED25519 ||
        EVP_PKEY_get_raw_public_key(*out, raw, &raw_len) != 1 || raw_len != sizeof raw)
        return refuse(cx, path, private);
    return pare_sha256_hex(cx, raw, sizeof raw, id);
}

/* The key is freed by the caller, also after a failure. */
static pare_status read_key(pare_ctx *cx, const char *path, bool private, EVP_PKEY **out,
                            char id[PARE_SHA256_HEX])
{
    pare_arena a;
    char *pem = NULL;
    size_t len = 0;
    *out = NULL;
    PARE_TRY(pare_arena_init(cx, &a, 0));
    pare_status s = pare_file_read(cx, &a, path, PEM_MOST, &pem, &len);
    if (s == PARE_OK)
        s = parse_key(cx, path, private, pem, len, out, id);
    if (pem)
        OPENSSL_cleanse(pem, len);
    pare_arena_release(&a);
    return s;
}

pare_status pare_sign(pare_ctx *cx, const char *key, const void *bytes, size_t len,
                      uint8_t signature[PARE_SIGNATURE_BYTES], char id[PARE_SHA256_HEX])
{
    EVP_PKEY *pkey;
    size_t n = PARE_SIGNATURE_BYTES;
    pare_status s = read_key(cx, key, true, &pkey, id);
    EVP_MD_CTX *const md = s == PARE_OK ? EVP_MD_CTX_new() : NULL;
    if (s == PARE_OK &&
        (!md || EVP_DigestSignInit(md, NULL, NULL, NULL, pkey) != 1 ||
         EVP_DigestSign(md, signature, &n, bytes, len) != 1 || n != PARE_SIGNATURE_BYTES))
        s = no_memory(cx);
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(pkey);
    return s;
}

pare_status pare_signature_check(pare_ctx *cx, const char *key, const void *bytes, size_t len,
                                 const uint8_t signature[PARE_SIGNATURE_BYTES], bool *good,
                                 char id[PARE_SHA256_HEX])
{
    EVP_PKEY *pkey;
    pare_status s = read_key(cx, key, false, &pkey, id);
    EVP_MD_CTX *const md = s == PARE_OK ? EVP_MD_CTX_new() : NULL;
    *good = false;
    if (s == PARE_OK && (!md || EVP_DigestVerifyInit(md, NULL, NULL, NULL, pkey) != 1))
        s = no_memory(cx);
    if (s == PARE_OK)
        *good = EVP_DigestVerify(md, signature, PARE_SIGNATURE_BYTES, bytes, len) == 1;
    ERR_clear_error();
    EVP_MD_CTX_free(md);
    EVP_PKEY_free(pkey);
    return s;
}
