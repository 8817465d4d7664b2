/* Records of the HDF5 reader, and processes that misbehave in its place. */
#include "tests/fuzz/records_input.h"
#include "tests/unit/folder.h"

static const char *const messages[] = {
    "the pipe ends",
    "file: the HDF5 reader does not greet",
    "file: the HDF5 reader writes a record of kind 81",
    "file: tensor 0: type 13, 1 dimensions",
    "file: tensor 0: type 0, 9 dimensions",
    "file: tensor 0: type 0, 1 dimensions",
    "file: tensor 0: a name of 0 bytes, 1 to 1024 are accepted",
    "file: tensor 0: a name of 1025 bytes",
    "file: tensor 0: a name of 4294967295 bytes",
    "file: tensor 0: a control character in its name",
    "file: tensor a: more bytes than 1100 times those of the file",
    "file: tensor a: a record of kind 90 and 1 bytes where 30 of its data are missing",
    "file: tensor a: a record of kind 68 and 0 bytes where 50 of its data are missing",
    "file: tensor a: a record of kind 68 and 81 bytes where 30 of its data are missing",
    "file: tensor a: a record of kind 68 and 4294967295 bytes where 50 of its data are missing",
    "file: a: its data cannot be read",
    "file: 1 tensors came, 2 were counted",
    "file: no dataset in the file",
    "file: two tensors are called a",
    "file: x: cannot be read",
    "file: x: a virtual dataset, made of other files",
    "file: no memory",
    "file: what",
    "file: ?[31mred?",
    "file: a failure of 2049 bytes",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_hdf5 file;
    pare_scratch scratch;
    pare_scratch_init(cx, &scratch);
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = records_run(cx, &a, &scratch, bytes, len, &file);
    pare_arena_release(&a);
    pare_scratch_close(&scratch);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("hdf5_records", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

/* Two tensors, the second name first. */
static const char two[] = "pareHDF5"
                          "T\x02\x01\0\1\0\0\0\2\0\0\0\0\0\0\0b"
                          "D\0\0\0\5\0\0\0"
                          "12345"
                          "D\0\0\0\3\0\0\0"
                          "678"
                          "T\x08\x02\0\3\0\0\0\1\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0a.w"
                          "D\0\0\0\3\0\0\0"
                          "xyz"
                          "Z\0\0\0\2\0\0\0";

START_TEST(tensors_come_sorted_into_the_scratch)
{
    pare_ctx cx;
    pare_arena a;
    pare_hdf5 file;
    pare_scratch scratch;
    pare_ctx_init(&cx);
    pare_scratch_init(&cx, &scratch);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_status s = records_run(&cx, &a, &scratch, two, sizeof two - 1, &file);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(file.tensors, 2);
    const pare_tensor *const t = file.tensor;
    ck_assert_str_eq(t[0].name, "a.w");
    ck_assert(t[0].dtype == PARE_U8 && t[0].rank == 2 && t[0].shape[0] == 1 && t[0].shape[1] == 3);
    ck_assert_mem_eq(t[0].data, "xyz", 3);
    ck_assert_str_eq(t[1].name, "b");
    ck_assert(t[1].dtype == PARE_F32 && t[1].rank == 1 && t[1].shape[0] == 2 && t[1].bytes == 8);
    ck_assert_mem_eq(t[1].data, "12345678", 8);
    pare_arena_release(&a);
    pare_scratch_close(&scratch);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

/* 100 bytes of file allow 110,000 bytes of tensors, all together. */
START_TEST(a_small_file_cannot_give_large_tensors)
{
    static const unsigned char first[] = "pareHDF5T\x08\x01\0\1\0\0\0\0\0\0\0\0\0\0\0a";
    static unsigned char bytes[120000];
    for (size_t extra = 0; extra < 2; extra++) {
        /* a has 100,000 bytes, b 10,000 or one more, of which none comes */
        const size_t size[2] = {100000, 10000 + extra};
        size_t at = sizeof first - 1;
        memcpy(bytes, first, at);
        for (size_t i = 0; i < 4; i++)
            bytes[16 + i] = (unsigned char)(size[0] >> 8 * i);
        memcpy(bytes + at, "D\0\0\0", 4);
        for (size_t i = 0; i < 4; i++)
            bytes[at + 4 + i] = (unsigned char)(size[0] >> 8 * i);
        at += 8 + size[0];
        memcpy(bytes + at, first + 8, sizeof first - 9);
        for (size_t i = 0; i < 4; i++)
            bytes[at + 8 + i] = (unsigned char)(size[1] >> 8 * i);
        at += sizeof first - 9;
        bytes[at - 1] = 'b';
        pare_ctx cx;
        pare_ctx_init(&cx);
        ck_assert_int_eq(parse_bytes(&cx, bytes, at), PARE_EFORMAT);
        ck_assert_msg(strstr(cx.what, extra ? "file: tensor b: more bytes than 1100 times those"
                                            : "the pipe ends"),
                      "%s", cx.what);
    }
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        const pare_status s = parse_bytes(&cx, two, sizeof two - 1);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 2);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(cx.what, "");
    }
}
END_TEST

/* A shell script in place of the helper, on a file that nobody reads. */
static pare_status run_script(pare_ctx *cx, const char *script, int silence_ms, uint64_t total_ms)
{
    folder dir;
    pare_arena a;
    pare_hdf5 file;
    pare_scratch scratch;
    char helper[384];
    folder_make(&dir);
    folder_put_text(&dir, "helper", script);
    (void)snprintf(helper, sizeof helper, "%s", dir.file);
    ck_assert_int_eq(chmod(helper, 0700), 0);
    pare_ctx_clear(cx);
    pare_scratch_init(cx, &scratch);
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare__hdf5_limits limits = {silence_ms, total_ms};
    const pare_status s =
        pare__hdf5_run(cx, &a, &scratch, helper, limits, "model.h5", 1000, false, NULL, &file);
    pare_arena_release(&a);
    pare_scratch_close(&scratch);
    ck_assert_uint_eq(cx->live_bytes, 0);
    folder_remove(&dir);
    return s;
}

START_TEST(a_helper_that_misbehaves_is_reported)
{
    static const struct {
        const char *script, *message;
        pare_status status;
    } rows[] = {
        {"#!/bin/sh\nkill -SEGV $$\n",
         "model.h5: the HDF5 reader crashed on this file (signal 11): it is malformed",
         PARE_EFORMAT},
        {"#!/bin/sh\nprintf 'pareHDF5T'\nkill -ABRT $$\n", "crashed on this file (signal 6)",
         PARE_EFORMAT},
        {"#!/bin/sh\nkill -XCPU $$\n", "needed more time than it may have for this file",
         PARE_EFORMAT},
        {"#!/bin/sh\nkill -KILL $$\n", "needed more time than it may have for this file",
         PARE_EFORMAT},
        {"#!/bin/sh\nexit 3\n", "ended early, with status 3 and without a word", PARE_EFORMAT},
        {"#!/bin/sh\nexec >/dev/null\nexec sleep 100\n", "needed more time than it may have",
         PARE_EFORMAT},
        {"#!/bin/sh\nexec sleep 100\n", "was silent for 0 seconds and was ended", PARE_EFORMAT},
        {"#!/bin/sh\nprintf 'pareHDF5T\\0\\0\\0\\0\\4\\0\\0'\n"
         "while :; do printf a; sleep 0.05; done\n",
         "took more than 1 seconds and was ended", PARE_EFORMAT},
        {"#!/bin/sh\nyes\n", "model.h5: the HDF5 reader does not greet", PARE_EFORMAT},
        {"#!/bin/sh\nprintf 'pareHDF5E\\2\\0\\0\\4\\0\\0\\0no!!'\n", "model.h5: no!!",
         PARE_ENOTSUP},
        {"#!/bin/sh\nprintf 'pareHDF5Z\\0\\0\\0\\0\\0\\0\\0'\n", "model.h5: no dataset in the file",
         PARE_EFORMAT},
    };
    pare_ctx cx;
    pare_ctx_init(&cx);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        /* only the row that sleeps may be silent for long, only the one that talks talk for long */
        const pare_status s =
            run_script(&cx, rows[i].script, strstr(rows[i].message, "silent") ? 400 : 60000,
                       strstr(rows[i].message, "than 1 s") ? 1000 : 600000);
        ck_assert_msg(s == rows[i].status && strstr(cx.what, rows[i].message), "%s\nexpected: %s",
                      cx.what, rows[i].message);
    }
    ck_assert_int_eq(run_script(&cx, "#!/nonexistent/shell\n", 1000, 600000), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cx.what, "cannot start"));
}
END_TEST

START_TEST(a_helper_gets_an_environment_of_its_own)
{
    static const char script[] =
        "#!/bin/sh\n"
        "test \"$HDF5_USE_FILE_LOCKING\" = FALSE || exit 7\n"
        "test -z \"$HDF5_PLUGIN_PATH$HOME\" || exit 8\n"
        "test \"$1\" = model.h5 && test $# = 1 || exit 9\n"
        "printf 'pareHDF5T\\010\\0\\0\\1\\0\\0\\0aD\\0\\0\\0\\1\\0\\0\\0b'\n"
        "printf 'Z\\0\\0\\0\\1\\0\\0\\0'\n";
    pare_ctx cx;
    pare_ctx_init(&cx);
    ck_assert_int_eq(setenv("HDF5_PLUGIN_PATH", "/somewhere", 1), 0);
    const pare_status s = run_script(&cx, script, 60000, 600000);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
}
END_TEST

START_TEST(an_interrupt_ends_the_helper)
{
    const volatile int interrupts = 1;
    pare_ctx cx;
    pare_ctx_init(&cx);
    cx.interrupt = &interrupts;
    ck_assert_int_eq(run_script(&cx, "#!/bin/sh\nexec sleep 100\n", 60000, 600000),
                     PARE_EINTERRUPTED);
}
END_TEST

/* This program has no helper beside it. */
START_TEST(without_a_helper_the_file_is_refused)
{
    pare_ctx cx;
    pare_arena a;
    pare_hdf5 file;
    pare_scratch scratch;
    pare_ctx_init(&cx);
    pare_scratch_init(&cx, &scratch);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_hdf5_read(&cx, &a, &scratch, "model.h5", 1000, false, &file),
                     PARE_ENOTSUP);
    ck_assert_ptr_nonnull(strstr(cx.what, "this pare was built without libhdf5"));
    pare_arena_release(&a);
    pare_scratch_close(&scratch);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hdf5");
    TCase *const t = tcase_create("hdf5");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, tensors_come_sorted_into_the_scratch);
    tcase_add_test(t, a_small_file_cannot_give_large_tensors);
    tcase_add_test(t, every_failed_allocation_is_reported);
    tcase_add_test(t, a_helper_that_misbehaves_is_reported);
    tcase_add_test(t, a_helper_gets_an_environment_of_its_own);
    tcase_add_test(t, an_interrupt_ends_the_helper);
    tcase_add_test(t, without_a_helper_the_file_is_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
