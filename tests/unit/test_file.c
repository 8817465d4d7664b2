#include "runtime/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "tests/unit/folder.h"

static pare_ctx cx;
static pare_arena arena;
static folder dir;
static int no_flags; /* errno of a file system without flags of renameat2, or 0; it is wrapped */

int __real_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags);
int __wrap_renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    if (!no_flags)
        return __real_renameat2(from_at, from, to_at, to, flags);
    errno = no_flags;
    return -1;
}

static void begin(void)
{
    folder_begin(&dir, &cx, &arena);
}

static void end(void)
{
    folder_end(&dir, &arena);
}

START_TEST(a_mapped_file_has_its_bytes_and_path)
{
    pare_file f;
    folder_put_text(&dir, "a", "hello");
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.file, &f), PARE_OK);
    ck_assert_uint_eq(f.bytes, 5);
    ck_assert_mem_eq(f.data, "hello", 5);
    ck_assert_str_eq(f.path, dir.file);
    pare_file_forget(&f, 0, 5);
    pare_file_forget(&f, 9, 1);
    pare_file_read_ahead(&f);
    ck_assert_mem_eq(f.data, "hello", 5);
    pare_file_unmap(&f);
    ck_assert_ptr_null(f.data);
    pare_file_unmap(&f);
    folder_put_text(&dir, "empty", "");
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.file, &f), PARE_OK);
    ck_assert_ptr_null(f.data);
    ck_assert_uint_eq(f.bytes, 0);
}
END_TEST

START_TEST(what_is_not_a_regular_file_is_refused)
{
    pare_file f;
    ck_assert_int_eq(pare_file_map(&cx, &arena, folder_file(&dir, "none"), &f), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cx.what, "none: cannot open: No such file"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.path, &f), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "is a directory, expected a file"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(mkfifo(folder_file(&dir, "pipe"), 0600), 0);
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.file, &f), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "is not a regular file"));
}
END_TEST

/* What git leaves where Git LFS was not installed; a text that only begins so is a text. */
START_TEST(a_pointer_of_git_lfs_is_refused_by_name)
{
    pare_file f;
    char *text, large[2000];
    size_t len;
    static const char pointer[] =
        "version https://git-lfs.github.com/spec/v1\n"
        "oid sha256:"
        "4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\n"
        "size 12345\n";
    folder_put_text(&dir, "model.safetensors", pointer);
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.file, &f), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "model.safetensors: is a pointer of Git LFS, not the file"), "%s",
                  cx.what);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_read(&cx, &arena, dir.file, 1000, &text, &len), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "git lfs pull"), "%s", cx.what);
    pare_ctx_clear(&cx);
    (void)snprintf(large, sizeof large, "%s%1500s\n", pointer, "a page on Git LFS");
    folder_put_text(&dir, "page.txt", large);
    ck_assert_int_eq(pare_file_read(&cx, &arena, dir.file, 2000, &text, &len), PARE_OK);
    folder_put_text(&dir, "page.txt", "version https://git-lfs");
    ck_assert_int_eq(pare_file_read(&cx, &arena, dir.file, 2000, &text, &len), PARE_OK);
}
END_TEST

/* The folder of the test is its owner's alone, so another user may not read what lies there. */
START_TEST(what_may_not_be_read_is_a_bad_input)
{
    pare_file f;
    char *text;
    size_t len;
    folder_put_text(&dir, "closed", "hello");
    ck_assert_int_eq(chmod(dir.file, 0), 0);
    unit_be_nobody();
    const pare_status mapped = pare_file_map(&cx, &arena, dir.file, &f);
    const pare_status read = pare_file_read(&cx, &arena, dir.file, 5, &text, &len);
    unit_be_again();
    ck_assert_int_eq(mapped, PARE_EFORMAT);
    ck_assert_int_eq(read, PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "closed: cannot open: Permission denied"));
}
END_TEST

START_TEST(reading_stops_at_the_cap)
{
    char *text;
    size_t len;
    folder_put(&dir, "a", "he\0lo", 5);
    ck_assert_int_eq(pare_file_read(&cx, &arena, dir.file, 5, &text, &len), PARE_OK);
    ck_assert_uint_eq(len, 5);
    ck_assert_mem_eq(text, "he\0lo", 6);
    ck_assert_int_eq(pare_file_read(&cx, &arena, dir.file, 4, &text, &len), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "5 bytes, at most 4 are accepted"));
    ck_assert_ptr_null(text);
}
END_TEST

START_TEST(writing_replaces_the_file_whole)
{
    size_t len;
    folder_put_text(&dir, "a", "the old text");
    char path[384];
    (void)snprintf(path, sizeof path, "%s", dir.file);
    ck_assert_int_eq(pare_file_write(&cx, path, "new", 3), PARE_OK);
    char *const text = folder_get(path, &len);
    ck_assert_str_eq(text, "new");
    free(text);
    ck_assert(!pare_path_is_file(folder_file(&dir, "a.tmp")));
}
END_TEST

START_TEST(writing_goes_through_no_link)
{
    size_t len;
    char path[384], beside[384], mine[384];
    (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "a"));
    (void)snprintf(beside, sizeof beside, "%s", folder_file(&dir, "a.tmp"));
    folder_put_text(&dir, "mine", "a letter");
    (void)snprintf(mine, sizeof mine, "%s", dir.file);
    for (int kind = 0; kind < 4; kind++) {
        ck_assert_int_eq(kind == 0   ? symlink(mine, beside)
                         : kind == 1 ? link(mine, beside)
                         : kind == 2 ? mkfifo(beside, 0600)
                                     : mkdir(beside, 0700),
                         0);
        ck_assert_int_eq(pare_file_write(&cx, path, "new", 3), PARE_EEXISTS);
        ck_assert_ptr_nonnull(strstr(cx.what, "a.tmp: is no regular file, or has a second name"));
        pare_ctx_clear(&cx);
        char *const letter = folder_get(mine, &len);
        ck_assert_str_eq(letter, "a letter");
        free(letter);
        ck_assert_int_eq(remove(beside), 0);
        ck_assert(!pare_path_is_file(path));
    }
    folder_put_text(&dir, "a.tmp", "more than what comes");
    ck_assert_int_eq(pare_file_write(&cx, path, "new", 3), PARE_OK);
    char *const text = folder_get(path, &len);
    ck_assert_str_eq(text, "new");
    free(text);
}
END_TEST

START_TEST(a_new_file_replaces_nothing)
{
    static const char *const names[] = {"a", "a.tmp"};
    static const int codes[] = {0, EINVAL, ENOSYS, EOPNOTSUPP};
    no_flags = codes[_i];
    char path[384];
    size_t len;
    for (size_t i = 0; i < 2; i++) {
        folder_put_text(&dir, names[i], "a letter");
        (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "a"));
        ck_assert_int_eq(pare_file_write_new(&cx, path, "new", 3), PARE_EEXISTS);
        pare_ctx_clear(&cx);
        char *const letter = folder_get(folder_file(&dir, names[i]), &len);
        ck_assert_str_eq(letter, "a letter");
        free(letter);
        ck_assert(!pare_path_is_file(folder_file(&dir, names[1 - i])));
        ck_assert_int_eq(unlink(folder_file(&dir, names[i])), 0);
    }
    ck_assert_int_eq(pare_file_write_new(&cx, path, "new", 3), PARE_OK);
    char *const text = folder_get(path, &len);
    ck_assert_str_eq(text, "new");
    free(text);
}
END_TEST

/* The limit on file sizes stands for a full disk: both end a write half way. */
START_TEST(a_failed_write_leaves_the_old_file)
{
    size_t len;
    char path[384];
    static char big[8192];
    folder_put_text(&dir, "a", "old");
    (void)snprintf(path, sizeof path, "%s", dir.file);
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
    const struct rlimit small = {4096, 4096};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(pare_file_write(&cx, path, big, sizeof big), PARE_ENOSPC);
    ck_assert_ptr_nonnull(strstr(cx.what, "a.tmp: cannot write: "));
    char *const text = folder_get(path, &len);
    ck_assert_str_eq(text, "old");
    free(text);
    ck_assert(!pare_path_is_file(folder_file(&dir, "a.tmp")));
}
END_TEST

START_TEST(writing_into_a_missing_folder_fails)
{
    char path[384];
    (void)snprintf(path, sizeof path, "%s/none/a", dir.path);
    ck_assert_int_eq(pare_file_write(&cx, path, "x", 1), PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(cx.what, "none/a.tmp: cannot create: "));
}
END_TEST

START_TEST(positioned_writes_read_back)
{
    char back[6] = {0};
    const char *const path = folder_file(&dir, "a");
    const int fd = open(path, O_RDWR | O_CREAT, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pare_file_put(&cx, fd, path, "world", 5, 1000), PARE_OK);
    ck_assert_int_eq(pare_file_put(&cx, fd, path, "", 0, 0), PARE_OK);
    ck_assert_int_eq(pare_file_sync(&cx, fd, path), PARE_OK);
    ck_assert_int_eq(pare_file_sync_parent(&cx, path), PARE_OK);
    ck_assert_int_eq(pare_file_get(&cx, fd, path, back, 5, 1000), PARE_OK);
    ck_assert_str_eq(back, "world");
    ck_assert_int_eq(pare_file_get(&cx, fd, path, back, 5, 1002), PARE_EIO);
    ck_assert_ptr_nonnull(strstr(cx.what, "ends at byte 1005, 2 more were expected"));
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_get(&cx, fd, path, back, 5, UINT64_MAX - 1), PARE_EIO);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_put(&cx, fd, path, back, 5, INT64_MAX - 1), PARE_ENOSPC);
    (void)close(fd);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_put(&cx, fd, path, back, 5, 0), PARE_EIO);
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_file_sync(&cx, fd, path), PARE_EIO);
}
END_TEST

START_TEST(reasons_of_the_system_get_their_status)
{
    static const struct {
        int code;
        pare_status status;
    } cases[] = {{ENOENT, PARE_ENOTFOUND}, {ENOSPC, PARE_ENOSPC}, {EDQUOT, PARE_ENOSPC},
                 {EFBIG, PARE_ENOSPC},     {ENOMEM, PARE_ENOMEM}, {EACCES, PARE_EIO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        pare_ctx_clear(&cx);
        errno = cases[i].code;
        ck_assert_int_eq(pare_file_fail(&cx, "x", "write"), cases[i].status);
        ck_assert_int_eq(strncmp(cx.what, "x: cannot write: ", 17), 0);
        ck_assert((strstr(cx.what, " bytes free)") != NULL) == (cases[i].code == ENOSPC));
    }
}
END_TEST

START_TEST(a_device_that_is_full_says_nothing_of_disks)
{
    errno = ENOSPC;
    ck_assert_int_eq(pare_file_fail(&cx, "/dev/full", "write"), PARE_ENOSPC);
    ck_assert_str_eq(cx.what, "/dev/full: cannot write: No space left on device");
    pare_ctx_clear(&cx);
    folder_put_text(&dir, "a", "x"); /* of a file, its own disk counts */
    errno = ENOSPC;
    ck_assert_int_eq(pare_file_fail(&cx, dir.file, "write"), PARE_ENOSPC);
    ck_assert_ptr_nonnull(strstr(cx.what, " bytes free)"));
}
END_TEST

START_TEST(paths_join_and_split)
{
    static const char *const joins[][3] = {
        {"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"a", "/b", "/b"}, {"", "b", "b"}, {"/", "b", "/b"}};
    static const char *const directories[][2] = {{"a/b", "a"}, {"a", "."},    {"/a", "/"},
                                                 {"/", "/"},   {"a/b/", "a"}, {"//a", "/"},
                                                 {"", "."},    {"a//b", "a"}, {"./a", "."}};
    for (size_t i = 0; i < sizeof joins / sizeof *joins; i++)
        ck_assert_str_eq(pare_path_join(&arena, joins[i][0], joins[i][1]), joins[i][2]);
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        ck_assert_str_eq(pare_path_directory(&arena, directories[i][0]), directories[i][1]);
    folder_put_text(&dir, "a", "x");
    ck_assert(pare_path_is_file(dir.file) && !pare_path_is_directory(dir.file));
    ck_assert(pare_path_is_directory(dir.path) && !pare_path_is_file(dir.path));
    pare_path_kind kind;
    ck_assert_int_eq(pare_path_look(&cx, dir.file, &kind), PARE_OK);
    ck_assert_int_eq(kind, PARE_PATH_FILE);
    ck_assert_int_eq(pare_path_look(&cx, dir.path, &kind), PARE_OK);
    ck_assert_int_eq(kind, PARE_PATH_DIRECTORY);
    ck_assert_int_eq(pare_path_look(&cx, "/dev/null", &kind), PARE_OK);
    ck_assert_int_eq(kind, PARE_PATH_OTHER);
    ck_assert_int_eq(pare_path_look(&cx, folder_file(&dir, "none"), &kind), PARE_OK);
    ck_assert_int_eq(kind, PARE_PATH_ABSENT);
}
END_TEST

START_TEST(a_path_that_may_not_be_looked_at_is_not_absent)
{
    char path[384], name[300];
    pare_path_kind kind;
    memset(name, 'n', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    folder_put_text(&dir, "a", "x");
    ck_assert_int_eq(symlink("loop", folder_file(&dir, "loop")), 0);
    const char *const absent[] = {"a/b", "loop", name};
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(pare_path_look(&cx, folder_file(&dir, absent[i]), &kind), PARE_OK);
        ck_assert_int_eq(kind, PARE_PATH_ABSENT);
    }
    (void)snprintf(path, sizeof path, "%s", folder_file(&dir, "a"));
    ck_assert_int_eq(chmod(dir.path, 0), 0);
    unit_be_nobody();
    const pare_status s = pare_path_look(&cx, path, &kind);
    unit_be_again();
    ck_assert_int_eq(chmod(dir.path, 0700), 0);
    ck_assert_int_eq(s, PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, "/a: cannot look at: Permission denied"), "%s", cx.what);
}
END_TEST

/* A child maps two files, the second is cut, the child reads it: exit code and message are ours. */
START_TEST(a_cut_file_ends_the_process_with_its_name)
{
    static char page[3 * 4096];
    int ends[2];
    pare_file first, f;
    folder_put(&dir, "first", page, sizeof page);
    ck_assert_int_eq(pare_file_map(&cx, &arena, dir.file, &first), PARE_OK);
    folder_put(&dir, "cut", page, sizeof page);
    ck_assert_int_eq(pipe(ends), 0);
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        (void)dup2(ends[1], STDERR_FILENO);
        const pare_status s =
            _i ? pare_file_map_shared(&cx, open(dir.file, O_RDONLY), dir.file, sizeof page, &f)
               : pare_file_map(&cx, &arena, dir.file, &f);
        if (s != PARE_OK || truncate(dir.file, 10) != 0)
            _exit(1);
        pare_file_guard(4);
        _exit(*(const volatile unsigned char *)(f.data + 8192) ? 2 : 3);
    }
    (void)close(ends[1]);
    char text[512] = {0};
    size_t len = 0;
    ssize_t n;
    while ((n = read(ends[0], text + len, sizeof text - 1 - len)) > 0)
        len += (size_t)n;
    (void)close(ends[0]);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 4);
    ck_assert_ptr_nonnull(strstr(text, dir.file));
    ck_assert_ptr_nonnull(strstr(text, "a mapped page cannot be read"));
    pare_file_unmap(&first);
}
END_TEST

START_TEST(a_fault_elsewhere_stays_a_fault)
{
    const pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        pare_file_guard(4);
        (void)raise(SIGBUS);
        (void)raise(SIGBUS);
        _exit(0);
    }
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    folder_put_text(&dir, "a", "hello");
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_arena a;
        pare_file file = {0};
        char *text;
        size_t len;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&c, &a, 0);
        if (s == PARE_OK)
            s = pare_file_map(&c, &a, dir.file, &file);
        if (s == PARE_OK)
            s = pare_file_read(&c, &a, dir.file, 100, &text, &len);
        if (s == PARE_OK)
            s = pare_file_write(&c, dir.file, "hello", 5);
        pare_file_unmap(&file);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_gt(n, 2);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(c.what, "");
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("file");
    TCase *const t = tcase_create("file");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, a_mapped_file_has_its_bytes_and_path);
    tcase_add_test(t, what_is_not_a_regular_file_is_refused);
    tcase_add_test(t, a_pointer_of_git_lfs_is_refused_by_name);
    tcase_add_test(t, what_may_not_be_read_is_a_bad_input);
    tcase_add_test(t, reading_stops_at_the_cap);
    tcase_add_test(t, writing_replaces_the_file_whole);
    tcase_add_test(t, writing_goes_through_no_link);
    tcase_add_loop_test(t, a_new_file_replaces_nothing, 0, 4);
    tcase_add_test(t, a_failed_write_leaves_the_old_file);
    tcase_add_test(t, writing_into_a_missing_folder_fails);
    tcase_add_test(t, positioned_writes_read_back);
    tcase_add_test(t, reasons_of_the_system_get_their_status);
    tcase_add_test(t, a_device_that_is_full_says_nothing_of_disks);
    tcase_add_test(t, paths_join_and_split);
    tcase_add_test(t, a_path_that_may_not_be_looked_at_is_not_absent);
    tcase_add_loop_test(t, a_cut_file_ends_the_process_with_its_name, 0, 2);
    tcase_add_test(t, a_fault_elsewhere_stays_a_fault);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
