#include <fcntl.h>

#include "compress/storage/pack.h"
#include "runtime/file.h"
#include "runtime/threads.h"
#include "tests/unit/folder.h"

/* A folder of a few files, and one for what is made. */
typedef struct fixture {
    folder from, to;
    pare_ctx cx;
    pare_arena a;
    char archive[128], back[128];
    pare_pack_result packed;
} fixture;

enum { FLOATS = 600 };

/* A checkpoint of a BF16 and an F32 tensor; `seed` changes some bits of the weights. */
static void put_weights(folder *f, unsigned seed)
{
    static const char head[] =
        "{\"a\":{\"dtype\":\"BF16\",\"shape\":[600],\"data_offsets\":[0,1200]},"
        "\"b\":{\"dtype\":\"F32\",\"shape\":[600],\"data_offsets\":[1200,3600]}}";
    static unsigned char bytes[8 + sizeof head - 1 + 6 * FLOATS];
    unsigned char *const data = bytes + 8 + sizeof head - 1;
    uint32_t v = 1;
    memset(bytes, 0, 8);
    bytes[0] = sizeof head - 1;
    memcpy(bytes + 8, head, sizeof head - 1);
    for (size_t i = 0; i < 6 * FLOATS; i++) {
        const size_t element = i < 2 * FLOATS ? i % 2 + 2 : i % 4;
        v = v * 1664525U + 1013904223U;
        data[i] = (unsigned char)(element == 3   ? 0x3c + (v >> 31) * 0x80
                                  : element == 2 ? v >> 24
                                                 : v >> 22);
        if (seed && i % 97 == 0)
            data[i] = (unsigned char)(data[i] ^ (seed & 3));
    }
    folder_put(f, "model.safetensors", bytes, sizeof bytes);
}

static void begin(fixture *x)
{
    *x = (fixture){.archive = ""};
    folder_begin(&x->from, &x->cx, &x->a);
    folder_make(&x->to);
    put_weights(&x->from, 0);
    folder_put_text(&x->from, "config.json", "{\"words\": \"words words words words words\"}\n");
    folder_put_text(&x->from, ".hidden", "kept, too\n");
    folder_put_text(&x->from, "empty", "");
    (void)snprintf(x->archive, sizeof x->archive, "%s/x.pare.zst", x->to.path);
    (void)snprintf(x->back, sizeof x->back, "%s/back", x->to.path);
}

static void end(fixture *x)
{
    folder_remove(&x->to);
    folder_end(&x->from, &x->a);
}

static pare_status pack_as(fixture *x, const pare_pack_opts *more)
{
    pare_pack_opts o = *more;
    o.path = o.path ? o.path : x->from.path;
    o.output = x->archive;
    o.level = o.level ? o.level : 3;
    return pare_pack(&x->cx, &x->a, &o, &x->packed);
}

static void pack(fixture *x)
{
    ck_assert_msg(pack_as(x, &(pare_pack_opts){.base = NULL}) == PARE_OK, "%s", x->cx.what);
}

static pare_status unpack(fixture *x, const char *base, bool check)
{
    pare_unpack_result r;
    const pare_unpack_opts o = {
        .path = x->archive, .output = check ? NULL : x->back, .base = base, .check = check};
    return pare_unpack(&x->cx, &x->a, &o, &r);
}

static void require_failure(fixture *x, pare_status is, pare_status s, const char *fragment)
{
    ck_assert_msg(is == s && strstr(x->cx.what, fragment), "%d: %s", (int)is, x->cx.what);
    pare_ctx_clear(&x->cx);
}

/* Files of two folders, byte for byte; removes the second. */
static void compare_and_remove(folder *from, const char *back)
{
    static const char *const name[] = {"model.safetensors", "config.json", ".hidden", "empty"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++) {
        char path[256];
        size_t len, want_len;
        (void)snprintf(path, sizeof path, "%s/%s", back, name[i]);
        char *const is = folder_get(path, &len);
        char *const want = folder_get(folder_file(from, name[i]), &want_len);
        ck_assert_uint_eq(len, want_len);
        ck_assert_mem_eq(is, want, len);
        free(is);
        free(want);
        ck_assert_int_eq(unlink(path), 0);
    }
    ck_assert_int_eq(rmdir(back), 0); /* nothing else was there */
}

START_TEST(what_is_unpacked_is_what_was_packed)
{
    fixture x;
    begin(&x);
    pack(&x);
    ck_assert_uint_eq(x.packed.files, 4);
    ck_assert_uint_gt(x.packed.form[PARE_FORM_PLANES2], 0);
    ck_assert_uint_gt(x.packed.form[PARE_FORM_PLANES4], 0);
    ck_assert_uint_lt(x.packed.stored, x.packed.bytes);
    ck_assert_int_eq(unpack(&x, NULL, true), PARE_OK);
    ck_assert_msg(unpack(&x, NULL, false) == PARE_OK, "%s", x.cx.what);
    compare_and_remove(&x.from, x.back);
    end(&x);
}
END_TEST

START_TEST(the_bytes_do_not_depend_on_threads)
{
    fixture x;
    size_t len, want_len;
    begin(&x);
    pack(&x);
    char *const want = folder_get(x.archive, &want_len);
    for (size_t threads = 2; threads <= 5; threads += 3) {
        ck_assert_int_eq(pare_pool_new(&x.cx, threads, &x.cx.pool), PARE_OK);
        ck_assert_int_eq(pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_OK);
        char *const is = folder_get(x.archive, &len);
        ck_assert_uint_eq(len, want_len);
        ck_assert_mem_eq(is, want, len);
        free(is);
        ck_assert_int_eq(unpack(&x, NULL, false), PARE_OK);
        compare_and_remove(&x.from, x.back);
        pare_pool_free(&x.cx, x.cx.pool);
        x.cx.pool = NULL;
    }
    free(want);
    end(&x);
}
END_TEST

static void require_found(fixture *x, const char *what, size_t at)
{
    const pare_status s = unpack(x, NULL, true);
    ck_assert_msg(s == PARE_EFORMAT, "%s %zu: status %d", what, at, (int)s);
    pare_ctx_clear(&x->cx);
}

/* Each bit of a small archive, and each length that is too short. */
START_TEST(every_flipped_bit_and_every_cut_is_found)
{
    fixture x;
    size_t len;
    begin(&x);
    pack(&x);
    char *const whole = folder_get(x.archive, &len);
#ifdef UNIT_SANITIZED
    enum { STEP = 23 };
#else
    enum { STEP = 1 };
#endif
    const int fd = open(x.archive, O_WRONLY);
    ck_assert_int_ge(fd, 0);
    for (size_t bit = 0; bit < 8 * len; bit += STEP) {
        const pare_mark mark = pare_arena_mark(&x.a);
        const char other = (char)(whole[bit / 8] ^ 1 << bit % 8);
        ck_assert_int_eq(pwrite(fd, &other, 1, (off_t)(bit / 8)), 1);
        require_found(&x, "bit", bit);
        ck_assert_int_eq(pwrite(fd, whole + bit / 8, 1, (off_t)(bit / 8)), 1);
        pare_arena_rewind(&x.a, mark);
    }
    ck_assert_int_eq(unpack(&x, NULL, true), PARE_OK);
    for (size_t n = len; n-- > 0;) {
        ck_assert_int_eq(ftruncate(fd, (off_t)n), 0);
        require_found(&x, "length", n);
    }
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(access(x.back, F_OK), -1);
    free(whole);
    end(&x);
}
END_TEST

START_TEST(a_difference_needs_its_base)
{
    fixture x;
    folder old;
    begin(&x);
    folder_make(&old);
    put_weights(&old, 1);
    folder_put_text(&old, "config.json", "{\"words\": \"words words words words word\"}\n");
    pack(&x);
    const uint64_t alone = x.packed.stored;
    ck_assert_int_eq(pack_as(&x, &(pare_pack_opts){.base = old.path, .replace = true}), PARE_OK);
    ck_assert_uint_lt(x.packed.stored, alone * 2 / 3);
    ck_assert_uint_gt(x.packed.form[PARE_FORM_PREFIX], 0);
    require_failure(&x, unpack(&x, NULL, false), PARE_EUSAGE, "name their folder with --base");
    require_failure(&x, unpack(&x, x.to.path, false), PARE_EFORMAT, "has no ");
    put_weights(&old, 2);
    require_failure(&x, unpack(&x, old.path, false), PARE_EFORMAT, "is another file than the one");
    put_weights(&old, 1);
    ck_assert_msg(unpack(&x, old.path, false) == PARE_OK, "%s", x.cx.what);
    compare_and_remove(&x.from, x.back);
    ck_assert_int_eq(pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_OK);
    require_failure(&x, unpack(&x, old.path, false), PARE_EUSAGE, "leave --base away");
    folder_remove(&old);
    end(&x);
}
END_TEST

START_TEST(what_lies_there_stays)
{
    fixture x;
    char partial[160];
    begin(&x);
    folder_put_text(&x.to, "x.pare.zst", "a file of the user");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.level = 3}), PARE_EEXISTS,
                    "exists already; --restart replaces it");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_EEXISTS,
                    "is no archive of pare");
    ck_assert_int_eq(unlink(x.archive), 0);
    folder_put_text(&x.to, "x.pare.zst.partial", "another");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.level = 3}), PARE_EEXISTS, "is in the way");
    folder_put(&x.to, "x.pare.zst.partial", pare_archive_head, 9); /* of a run that was killed */
    pack(&x);
    ck_assert_int_eq(mkdir(x.back, 0700), 0);
    require_failure(&x, unpack(&x, NULL, false), PARE_EEXISTS, "exists already");
    ck_assert_int_eq(rmdir(x.back), 0);
    (void)snprintf(partial, sizeof partial, "%s.partial", x.back);
    ck_assert_int_eq(mkdir(partial, 0700), 0);
    folder_put_text(&x.to, "back.partial/config.json", "of the user");
    require_failure(&x, unpack(&x, NULL, false), PARE_EEXISTS,
                    "holds config.json and is not marked");
    size_t len;
    char *const kept = folder_get(folder_file(&x.to, "back.partial/config.json"), &len);
    ck_assert_uint_eq(len, strlen("of the user"));
    free(kept);
    folder_put_text(&x.to, "back.partial/" PARE_ARCHIVE_MARK, ""); /* of a run that was killed */
    folder_put_text(&x.to, "back.partial/mine", "");
    require_failure(&x, unpack(&x, NULL, false), PARE_EEXISTS, "holds mine, which this archive");
    ck_assert_int_eq(unlink(folder_file(&x.to, "back.partial/mine")), 0);
    ck_assert_int_eq(unpack(&x, NULL, false), PARE_OK);
    compare_and_remove(&x.from, x.back);
    ck_assert_int_eq(mkdir(partial, 0700), 0); /* killed before the mark was there */
    ck_assert_int_eq(unpack(&x, NULL, false), PARE_OK);
    compare_and_remove(&x.from, x.back);
    end(&x);
}
END_TEST

/* An archive that is replaced is none of the files that are read, nor is what is written first. */
START_TEST(no_input_is_written_over)
{
    static const char is_read[] = "is one of the files that are read";
    fixture x;
    size_t len, len_now;
    begin(&x);
    pack(&x);
    char *const was = folder_get(x.archive, &len);
    const pare_pack_opts itself = {.path = x.archive, .replace = true};
    const pare_pack_opts as_base = {.base = x.archive, .replace = true};
    require_failure(&x, pack_as(&x, &itself), PARE_EUSAGE, is_read);
    require_failure(&x, pack_as(&x, &as_base), PARE_EUSAGE, is_read);
    const char *const partial = pare_path_suffix(&x.a, x.archive, ".partial");
    ck_assert_ptr_nonnull(partial);
    ck_assert_int_eq(rename(x.archive, partial), 0);
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.path = partial}), PARE_EUSAGE, is_read);
    char *const is = folder_get(partial, &len_now);
    ck_assert_uint_eq(len_now, len);
    ck_assert_mem_eq(is, was, len);
    free(is);
    free(was);
    end(&x);
}
END_TEST

START_TEST(what_is_no_archive_is_named)
{
    fixture x;
    begin(&x);
    const pare_unpack_opts o = {.path = "nothere"};
    pare_unpack_result r;
    require_failure(&x, pare_unpack(&x.cx, &x.a, &o, &r), PARE_ENOTFOUND, "nothere");
    folder_put_text(&x.to, "x.pare.zst", "");
    require_failure(&x, unpack(&x, NULL, false), PARE_EFORMAT, "is empty");
    folder_put_text(&x.to, "x.pare.zst", "PARE");
    require_failure(&x, unpack(&x, NULL, false), PARE_EFORMAT, "is too short to be an archive");
    end(&x);
}
END_TEST

START_TEST(what_cannot_be_kept_is_refused)
{
    fixture x;
    begin(&x);
    folder_put_text(
        &x.from, "SHA256SUMS",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  config.json\n");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.level = 3}), PARE_EFORMAT,
                    "config.json: differs from its SHA-256 in SHA256SUMS");
    folder_put_text(
        &x.from, "SHA256SUMS",
        "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef  gone.safetensors\n");
    pack(&x); /* a list of others */
    folder_put_text(&x.from, "manifest.json", "{}");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_EFORMAT,
                    "gone.safetensors is missing, which SHA256SUMS lists");
    ck_assert_int_eq(unlink(folder_file(&x.from, "manifest.json")), 0);
    folder_put_text(&x.from, "SHA256SUMS", "of another form\n");
    ck_assert_msg(pack_as(&x, &(pare_pack_opts){.replace = true}) == PARE_OK, "%s", x.cx.what);
    ck_assert_int_eq(mkdir(folder_file(&x.from, "sub"), 0700), 0);
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_EFORMAT,
                    "sub: is a folder");
    ck_assert_int_eq(rmdir(folder_file(&x.from, "sub")), 0);
    folder_put_text(&x.from, "a\nb", "");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_EFORMAT,
                    "no archive holds a file of such a name");
    ck_assert_int_eq(unlink(folder_file(&x.from, "a\nb")), 0);
    folder_put_text(&x.from, "caf\xe9", ""); /* Latin-1 */
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.replace = true}), PARE_EFORMAT,
                    "no archive holds a file of such a name");
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.path = "/nowhere"}), PARE_EEXISTS,
                    "exists already");
    ck_assert_int_eq(unlink(x.archive), 0);
    require_failure(&x, pack_as(&x, &(pare_pack_opts){.path = "/nowhere"}), PARE_ENOTFOUND,
                    "there is no such file or folder");
    ck_assert_int_eq(access(x.archive, F_OK), -1);
    end(&x);
}
END_TEST

static void hear(void *text, const char *line)
{
    (void)snprintf(text, 512, "%s", line);
}

START_TEST(files_that_are_not_listed_are_named)
{
    static const char list[] =
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  empty\n";
    char heard[512] = "";
    const pare_pack_opts o = {.replace = true, .teller = {hear, heard}};
    fixture x;
    begin(&x);
    ck_assert_int_eq(pack_as(&x, &o), PARE_OK);
    ck_assert_str_eq(heard, ""); /* there is no list */
    folder_put_text(&x.from, "SHA256SUMS", list);
    folder_put_text(&x.from, "SHA256SUMS.sig", "beside the list\n");
    ck_assert_int_eq(pack_as(&x, &o), PARE_OK);
    ck_assert_msg(strstr(heard, "/.hidden and 2 more files: packed, though SHA256SUMS"), "%s",
                  heard);
    ck_assert_int_eq(unlink(folder_file(&x.from, ".hidden")), 0);
    ck_assert_int_eq(unlink(folder_file(&x.from, "model.safetensors")), 0);
    ck_assert_int_eq(pack_as(&x, &o), PARE_OK);
    ck_assert_msg(strstr(heard, "/config.json: packed, though SHA256SUMS does not list it"), "%s",
                  heard);
    end(&x);
}
END_TEST

/* Every allocation fails once; nothing is left, and nothing half. */
START_TEST(without_memory_nothing_is_left)
{
    fixture x;
    begin(&x);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_arena a;
        pare_pack_result r;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&cx, &a, 0);
        const pare_pack_opts o = {.path = x.from.path, .output = x.archive, .level = 1};
        if (s == PARE_OK)
            s = pare_pack(&cx, &a, &o, &r);
        pare_unpack_result u;
        const pare_unpack_opts v = {.path = x.archive, .output = x.back};
        if (s == PARE_OK)
            s = pare_unpack(&cx, &a, &v, &u);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK)
            break;
        ck_assert_msg(s == PARE_ENOMEM, "%ld: %s", n, cx.what);
        if (access(x.back, F_OK) == 0) /* only the sync of the folder around it failed */
            compare_and_remove(&x.from, x.back);
        (void)unlink(x.archive);
        ck_assert_int_eq(rmdir(x.to.path), 0); /* it is empty */
        ck_assert_int_eq(mkdir(x.to.path, 0700), 0);
    }
    compare_and_remove(&x.from, x.back);
    end(&x);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("pack");
    TCase *const t = tcase_create("pack");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, what_is_unpacked_is_what_was_packed);
    tcase_add_test(t, the_bytes_do_not_depend_on_threads);
    tcase_add_test(t, every_flipped_bit_and_every_cut_is_found);
    tcase_add_test(t, a_difference_needs_its_base);
    tcase_add_test(t, what_lies_there_stays);
    tcase_add_test(t, no_input_is_written_over);
    tcase_add_test(t, what_is_no_archive_is_named);
    tcase_add_test(t, what_cannot_be_kept_is_refused);
    tcase_add_test(t, files_that_are_not_listed_are_named);
    tcase_add_test(t, without_memory_nothing_is_left);
    suite_add_tcase(s, t);
    return unit_main(s);
}
