#include "compress/artifact/sign.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/output/inventory.h"
#include "compress/output/output.h"

/* The first finding of an inventory. */
typedef struct first {
    char text[512];
} first;

static void hear(void *self, const char *name, const char *what)
{
    first *const f = self;
    if (!f->text[0])
        (void)snprintf(f->text, sizeof f->text, "%s: %s", name, what);
}

static pare_status read_sums(pare_ctx *cx, pare_arena *a, const char *path, char **text,
                             size_t *len, pare_sums *sums)
{
    const char *const file = pare_path_join(a, path, PARE_SUMS_NAME);
    if (!file)
        return PARE_ENOMEM;
    PARE_TRY(pare_file_read(cx, a, file, PARE_SUMS_CAP, text, len));
    return pare_sums_parse(cx, a, file, *text, *len, sums);
}

/* Who replaces what another key signed hears of it. Ed25519 has one signature for each key. */
static pare_status tell_replaced(pare_ctx *cx, pare_arena *a, const char *file,
                                 const uint8_t signature[PARE_SIGNATURE_BYTES],
                                 const pare_teller *teller)
{
    char *was;
    size_t len = 0;
    const pare_status s = pare_file_read(cx, a, file, PARE_SIGNATURE_BYTES, &was, &len);
    if (s == PARE_ENOTFOUND || s == PARE_EFORMAT)
        pare_ctx_clear(cx);
    else
        PARE_TRY(s);
    const bool same = s == PARE_OK && len == PARE_SIGNATURE_BYTES &&
                      memcmp(was, signature, PARE_SIGNATURE_BYTES) == 0;
    if (s != PARE_ENOTFOUND && !same)
        pare_teller_say(teller,
                        "%s: the signature that was there is not of this key over these files; it "
                        "is replaced",
                        file);
    return PARE_OK;
}

static pare_status sign(pare_ctx *cx, pare_arena *a, const char *path, const char *key,
                        const pare_teller *teller, pare_signed *out)
{
    pare_inventory_result r;
    pare_sums sums;
    first found = {.text = ""};
    uint8_t signature[PARE_SIGNATURE_BYTES];
    char *text;
    size_t len;
    const char *const to = pare_path_join(a, path, PARE_SIGNATURE_NAME);
    if (!to)
        return PARE_ENOMEM;
    const pare_status s = read_sums(cx, a, path, &text, &len, &sums);
    if (s == PARE_ENOTFOUND)
        return pare_fail_after(
            cx, s, "pare signs this file of an artifact, or of an export that is a folder");
    PARE_TRY(s);
    PARE_TRY(pare_sign(cx, key, text, len, signature, out->id));
    PARE_TRY(pare_inventory_check(cx, a, path, hear, &found, &r));
    if (r.findings)
        return pare_fail(cx, PARE_EFORMAT, "%s: is not signed: %s", path, found.text);
    out->files = sums.count;
    PARE_TRY(tell_replaced(cx, a, to, signature, teller));
    return pare_file_write(cx, to, signature, sizeof signature);
}

pare_status pare_sign_folder(pare_ctx *cx, pare_arena *a, const char *path, const char *key,
                             const pare_teller *teller, pare_signed *out)
{
    pare_lock lock = {0};
    char real[PATH_MAX]; /* the lock lies beside the folder, also where that is "." or a link */
    if (!pare_path_is_directory(path))
        return pare_fail(cx, PARE_EFORMAT,
                         "%s: is no folder; what pare signs is a folder with a " PARE_SUMS_NAME,
                         path);
    if (!realpath(path, real))
        return pare_file_fail_input(cx, path, "find");
    const char *const signature = pare_path_join(a, real, PARE_SIGNATURE_NAME);
    if (!signature)
        return PARE_ENOMEM;
    PARE_TRY(pare_output_check_room(cx, real)); /* for the lock */
    PARE_TRY(pare_output_check_room(cx, signature));
    PARE_TRY(pare_lock_take(cx, a, real, "sign", teller, &lock));
    const pare_status s = sign(cx, a, path, key, teller, out);
    pare_lock_release(&lock);
    return s;
}

pare_status pare_sign_check(pare_ctx *cx, pare_arena *a, const char *path, const char *key,
                            const char **why, pare_signed *out)
{
    static const uint8_t none[PARE_SIGNATURE_BYTES];
    pare_sums sums;
    char *text, *signature = NULL;
    size_t len, signature_len = 0;
    bool good;
    const char *const file = pare_path_join(a, path, PARE_SIGNATURE_NAME);
    *why = NULL;
    if (!file)
        return PARE_ENOMEM;
    /* the key first: one that is none is no fault of the folder */
    PARE_TRY(pare_signature_check(cx, key, "", 0, none, &good, out->id));
    pare_status s = read_sums(cx, a, path, &text, &len, &sums);
    if (s == PARE_ENOTFOUND || s == PARE_EFORMAT)
        *why = PARE_SUMS_NAME ": missing or malformed, and it is what is signed";
    if (s == PARE_OK) {
        s = pare_file_read(cx, a, file, PARE_SIGNATURE_BYTES, &signature, &signature_len);
        if (s == PARE_ENOTFOUND)
            *why = PARE_SIGNATURE_NAME ": missing: nobody signed these files";
        else if (s == PARE_EFORMAT || (s == PARE_OK && signature_len != PARE_SIGNATURE_BYTES))
            *why = PARE_SIGNATURE_NAME ": is no signature of 64 bytes";
    }
    if (*why) {
        pare_ctx_clear(cx);
        return PARE_OK;
    }
    PARE_TRY(s);
    out->files = sums.count;
    PARE_TRY(pare_signature_check(cx, key, text, len, (const uint8_t *)signature, &good, out->id));
    if (!good)
        *why = PARE_SIGNATURE_NAME ": is not of this key over this " PARE_SUMS_NAME
                                   ": files were rewritten, or somebody else signed them";
    return PARE_OK;
}
