#include <limits.h>

#include "compress/artifact/sign.h"
#include "compress/output/inventory.h"
#include "formats/hash.h"
#include "tests/unit/folder.h"

/* The keys of tests 3 and 1 of RFC 8032, section 7.1. */
static const char private_pem[] =
    "-----BEGIN PRIVATE KEY-----\n"
    "MC4CAQAwBQYDK2VwBCIEIMWqjfQ/n4N77bdELzHct7Fm04U1B28JS4XOOi4LRFj3\n"
    "-----END PRIVATE KEY-----\n";
static const char public_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                 "MCowBQYDK2VwAyEA/FHNjmIYoaONpH7QAjDwWAgW7RO6MwOsXeuRFUiQgCU=\n"
                                 "-----END PUBLIC KEY-----\n";
static const char other_pem[] = "-----BEGIN PUBLIC KEY-----\n"
                                "MCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                                "-----END PUBLIC KEY-----\n";

typedef struct fixture {
    folder f, keys;
    char private[128], public[128], other[128];
    pare_ctx cx;
    pare_arena a;
    pare_signed r;
} fixture;

static void put_key(fixture *x, const char *name, const char *pem, char path[128])
{
    folder_put_text(&x->keys, name, pem);
    (void)snprintf(path, 128, "%s/%s", x->keys.path, name);
}

static void begin(fixture *x)
{
    *x = (fixture){.private = ""};
    folder_begin(&x->f, &x->cx, &x->a);
    folder_make(&x->keys);
    put_key(x, "private.pem", private_pem, x->private);
    put_key(x, "public.pem", public_pem, x->public);
    put_key(x, "other.pem", other_pem, x->other);
    folder_put_text(&x->f, "one", "first file");
    folder_put_text(&x->f, "two", "second");
    ck_assert_int_eq(pare_inventory_write(&x->cx, &x->a, x->f.path, NULL, 0), PARE_OK);
}

static void end(fixture *x)
{
    folder_remove(&x->keys);
    folder_end(&x->f, &x->a);
}

static void hear(void *text, const char *line)
{
    (void)snprintf(text, 512, "%s", line);
}

static void sign_and_hear(fixture *x, char heard[512])
{
    const pare_teller teller = {hear, heard};
    heard[0] = '\0';
    ck_assert_msg(pare_sign_folder(&x->cx, &x->a, x->f.path, x->private, &teller, &x->r) == PARE_OK,
                  "%s", x->cx.what);
}

static void sign(fixture *x)
{
    char heard[512];
    sign_and_hear(x, heard);
}

/* Why the signature counts for nothing; NULL: it counts. */
static const char *checked(fixture *x, const char *key)
{
    const char *why;
    ck_assert_msg(pare_sign_check(&x->cx, &x->a, x->f.path, key, &why, &x->r) == PARE_OK, "%s",
                  x->cx.what);
    return why;
}

START_TEST(a_signature_is_that_of_the_standard)
{
    fixture x;
    uint8_t s[PARE_SIGNATURE_BYTES];
    char hex[2 * PARE_SIGNATURE_BYTES + 1], id[PARE_SHA256_HEX], id_again[PARE_SHA256_HEX];
    bool good;
    begin(&x);
    ck_assert_int_eq(pare_sign(&x.cx, x.private, "\xaf\x82", 2, s, id), PARE_OK);
    pare_hex_text(s, sizeof s, hex);
    ck_assert_str_eq(hex, "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
                          "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a");
    ck_assert_int_eq(pare_signature_check(&x.cx, x.public, "\xaf\x82", 2, s, &good, id_again),
                     PARE_OK);
    ck_assert(good);
    ck_assert_str_eq(id, id_again);
    ck_assert_int_eq(pare_signature_check(&x.cx, x.public, "\xaf\x83", 2, s, &good, id), PARE_OK);
    ck_assert(!good);
    end(&x);
}
END_TEST

START_TEST(what_is_rewritten_with_all_hashes_is_found)
{
    fixture x;
    begin(&x);
    sign(&x);
    ck_assert_uint_eq(x.r.files, 2);
    ck_assert_ptr_null(checked(&x, x.public));
    ck_assert_ptr_nonnull(strstr(checked(&x, x.other), "is not of this key"));
    folder_put_text(&x.f, "two", "another");
    ck_assert_int_eq(pare_inventory_write(&x.cx, &x.a, x.f.path, NULL, 0), PARE_OK);
    pare_inventory_result r;
    ck_assert_int_eq(pare_inventory_check(&x.cx, &x.a, x.f.path, NULL, NULL, &r), PARE_OK);
    ck_assert_uint_eq(r.findings, 0); /* all hashes fit, the signature is no file too many */
    ck_assert_ptr_nonnull(strstr(checked(&x, x.public), "files were rewritten"));
    ck_assert_int_eq(unlink(folder_file(&x.f, PARE_SIGNATURE_NAME)), 0);
    ck_assert_ptr_nonnull(strstr(checked(&x, x.public), "missing: nobody signed"));
    folder_put_text(&x.f, PARE_SIGNATURE_NAME, "short");
    ck_assert_ptr_nonnull(strstr(checked(&x, x.public), "is no signature of 64 bytes"));
    ck_assert_int_eq(unlink(folder_file(&x.f, "SHA256SUMS")), 0);
    ck_assert_ptr_nonnull(strstr(checked(&x, x.public), "missing or malformed"));
    end(&x);
}
END_TEST

START_TEST(who_replaces_another_signature_hears_of_it)
{
    char heard[512];
    fixture x;
    begin(&x);
    sign_and_hear(&x, heard);
    ck_assert_str_eq(heard, "");
    sign_and_hear(&x, heard); /* the same one */
    ck_assert_str_eq(heard, "");
    static const char *const was[] = {"short", "0123456789abcdef0123456789abcdef"
                                               "0123456789abcdef0123456789abcdef"};
    for (size_t i = 0; i < 2; i++) {
        folder_put_text(&x.f, PARE_SIGNATURE_NAME, was[i]);
        sign_and_hear(&x, heard);
        ck_assert_msg(strstr(heard, "SHA256SUMS.sig: the signature that was there is not of this"),
                      "%s", heard);
        ck_assert_ptr_null(checked(&x, x.public));
    }
    end(&x);
}
END_TEST

START_TEST(each_bit_of_a_signature_counts)
{
    fixture x;
    size_t len;
    begin(&x);
    sign(&x);
    char *const s = folder_get(folder_file(&x.f, PARE_SIGNATURE_NAME), &len);
    ck_assert_uint_eq(len, PARE_SIGNATURE_BYTES);
    for (size_t bit = 0; bit < 8 * len; bit += 5) {
        s[bit / 8] = (char)(s[bit / 8] ^ 1 << bit % 8);
        folder_put(&x.f, PARE_SIGNATURE_NAME, s, len);
        ck_assert_ptr_nonnull(checked(&x, x.public));
        s[bit / 8] = (char)(s[bit / 8] ^ 1 << bit % 8);
    }
    free(s);
    end(&x);
}
END_TEST

/* The lock lies beside the folder, not in it, where it would be a file too many. */
START_TEST(a_folder_is_signed_from_inside)
{
    const pare_teller nobody = {.tell = NULL};
    fixture x;
    char home[PATH_MAX];
    begin(&x);
    ck_assert_ptr_nonnull(getcwd(home, sizeof home));
    ck_assert_int_eq(chdir(x.f.path), 0);
    const pare_status s = pare_sign_folder(&x.cx, &x.a, ".", x.private, &nobody, &x.r);
    ck_assert_int_eq(chdir(home), 0);
    ck_assert_msg(s == PARE_OK, "%s", x.cx.what);
    ck_assert_ptr_null(checked(&x, x.public));
    end(&x);
}
END_TEST

START_TEST(keys_of_another_kind_are_refused)
{
    const pare_teller nobody = {.tell = NULL};
    fixture x;
    const char *why;
    begin(&x);
    ck_assert_int_eq(pare_sign_folder(&x.cx, &x.a, x.f.path, x.public, &nobody, &x.r),
                     PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(x.cx.what, "holds no private Ed25519 key"));
    pare_ctx_clear(&x.cx);
    ck_assert_int_eq(pare_sign_check(&x.cx, &x.a, x.f.path, x.private, &why, &x.r), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(x.cx.what, "holds no public Ed25519 key"));
    pare_ctx_clear(&x.cx);
    folder_put_text(&x.f, "one", "damaged");
    ck_assert_int_eq(pare_sign_folder(&x.cx, &x.a, x.f.path, x.private, &nobody, &x.r),
                     PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(x.cx.what, "is not signed: one: differs from its SHA-256"));
    pare_ctx_clear(&x.cx);
    ck_assert_int_eq(access(folder_file(&x.f, PARE_SIGNATURE_NAME), F_OK), -1);
    end(&x);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sign");
    TCase *const t = tcase_create("sign");
    tcase_add_test(t, a_signature_is_that_of_the_standard);
    tcase_add_test(t, what_is_rewritten_with_all_hashes_is_found);
    tcase_add_test(t, who_replaces_another_signature_hears_of_it);
    tcase_add_test(t, each_bit_of_a_signature_counts);
    tcase_add_test(t, a_folder_is_signed_from_inside);
    tcase_add_test(t, keys_of_another_kind_are_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
