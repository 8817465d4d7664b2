/* Fails every write, sync, rename and reservation in turn while packed files, a journal and a whole
 * file are written.
 *
 * A failure must be reported with its status and a path, leave the old file or the new one but no
 * piece of one, and the next run must end in the bytes of a run without failures. */
#define _DEFAULT_SOURCE
#include <dirent.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>

#include "compress/output/journal.h"
#include "formats/packed.h"
#include "runtime/file.h"
#include "runtime/random.h"
#include "tests/fault/faults.h"
#include "tests/unit/uniform.h"
#include "tests/unit/unit.h"

enum { UNITS = 3, FILES = 5, FILE_CAP = 1 << 16 };
static const char old_text[] = "what stood here before\n",
                  new_text[] = "something new, and longer\n";
static const char *const file_name[FILES] = {"packed-00001-of-00002.safetensors",
                                             "packed-00002-of-00002.safetensors",
                                             "packed.index.json", "journal", "text"};

typedef struct snapshot {
    char bytes[FILES][FILE_CAP];
    size_t len[FILES];
} snapshot;

static pare_status lay_out(pare_ctx *cx, pare_arena *a, pare_packed_layout *out)
{
    static const pare_packed_linear linear[UNITS] = {UNIFORM("a", 16, 64, 4, 32, false),
                                                     UNIFORM("b", 16, 96, 4, 32, true),
                                                     UNIFORM("c", 32, 32, 3, 0, true)};
    static const pare_tensor norm = {.name = "n", .dtype = PARE_F32, .rank = 1, .shape = {9}};
    static const size_t unit[UNITS] = {0, 1, 2};
    return pare_packed_layout_make(cx, a, &norm, unit, 1, linear, unit, UNITS, 1600, out);
}

static pare_status write_unit(pare_ctx *cx, const pare_packed_layout *l, pare_packed_writer *w,
                              pare_journal *j, size_t unit)
{
    unsigned char bytes[2048];
    for (size_t i = 0; i < l->entries; i++) {
        const pare_packed_entry *const e = &l->entry[i];
        if (e->unit != unit)
            continue;
        ck_assert_uint_le(e->tensor.bytes, sizeof bytes);
        for (size_t b = 0; b < e->tensor.bytes; b++)
            bytes[b] = (unsigned char)pare_random_u64(unit, i, b);
        PARE_TRY(pare_packed_put(cx, w, e, bytes));
    }
    PARE_TRY(pare_packed_sync(cx, w));
    return pare_journal_append(cx, j, "unit", unit);
}

/* The order of a compression: journal, packed files, units, and a whole file at the end. */
static pare_status work_in(pare_ctx *cx, pare_arena *a, const char *directory,
                           pare_packed_writer **w, pare_journal **j)
{
    pare_packed_layout l;
    pare_journal_record *record;
    size_t done;
    PARE_TRY(lay_out(cx, a, &l));
    PARE_TRY(pare_journal_open(cx, a, directory, "{\"a\": \"b\"}", j, &record, &done));
    PARE_TRY(pare_packed_create(cx, directory, &l, w));
    for (size_t unit = done; unit < UNITS; unit++)
        PARE_TRY(write_unit(cx, &l, *w, *j, unit));
    return pare_file_write(cx, pare_path_join(a, directory, "text"), new_text, sizeof new_text - 1);
}

static pare_status work(pare_ctx *cx, const char *directory)
{
    pare_packed_writer *w = NULL;
    pare_journal *j = NULL;
    pare_arena a;
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_status s = work_in(cx, &a, directory, &w, &j);
    pare_packed_close(cx, w);
    pare_journal_close(cx, j);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx->live_bytes, 0);
    return s;
}

static void path_to(char path[128], const char *directory, const char *name)
{
    (void)snprintf(path, 128, "%s/%s", directory, name);
}

static size_t load(const char *directory, const char *name, char *bytes)
{
    char path[128];
    path_to(path, directory, name);
    FILE *const f = fopen(path, "rb");
    if (!f)
        return 0;
    const size_t len = fread(bytes, 1, FILE_CAP, f);
    (void)fclose(f);
    return len;
}

static void take(snapshot *s, const char *directory)
{
    for (size_t i = 0; i < FILES; i++)
        s->len[i] = load(directory, file_name[i], s->bytes[i]);
}

static void make_directory(char directory[32])
{
    char path[128];
    (void)snprintf(directory, 32, "/tmp/pare-fault-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(directory));
    path_to(path, directory, "text");
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fputs(old_text, f) >= 0 && fclose(f) == 0);
}

/* Removes the directory and says how many files it held. */
static size_t remove_directory(const char *directory)
{
    char path[512];
    size_t count = 0;
    DIR *const d = opendir(directory);
    ck_assert_ptr_nonnull(d);
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        if (e->d_name[0] == '.')
            continue;
        (void)snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
        count += unlink(path) == 0;
    }
    (void)closedir(d);
    (void)rmdir(directory);
    return count;
}

static void check_text_is_whole(const char *directory)
{
    static char bytes[FILE_CAP];
    const size_t len = load(directory, "text", bytes);
    ck_assert((len == sizeof old_text - 1 && memcmp(bytes, old_text, len) == 0) ||
              (len == sizeof new_text - 1 && memcmp(bytes, new_text, len) == 0));
}

static void check_same(const snapshot *want, const char *directory)
{
    static snapshot now;
    take(&now, directory);
    for (size_t i = 0; i < FILES; i++) {
        ck_assert_msg(now.len[i] == want->len[i] &&
                          memcmp(now.bytes[i], want->bytes[i], now.len[i]) == 0,
                      "%s differs", file_name[i]);
    }
}

/* Runs with the n-th call failing, then again without. False when there is no n-th call. */
static bool one_fault(fault_kind kind, bool sticky, long n, const snapshot *want)
{
    static const pare_status expected[KINDS] = {PARE_ENOSPC, PARE_EIO, PARE_OK, PARE_OK, PARE_OK};
    char directory[32], prefix[34];
    pare_ctx cx;
    make_directory(directory);
    (void)snprintf(prefix, sizeof prefix, "%s", directory);
    fault_start(kind, sticky, n);
    const pare_status s = work(&cx, directory);
    const bool struck = fault_stop();
    ck_assert_msg(!fault.owed, "call %ld: an interrupted sync was taken for done", n);
    ck_assert_msg(s == (struck ? expected[kind] : PARE_OK), "kind %d, call %ld: status %d, %s",
                  (int)kind, n, (int)s, cx.what);
    if (s != PARE_OK)
        ck_assert_msg(strncmp(cx.what, prefix, strlen(prefix)) == 0, "no path in: %s", cx.what);
    check_text_is_whole(directory);
    ck_assert_msg(work(&cx, directory) == PARE_OK, "rerun: %s", cx.what);
    check_same(want, directory);
    ck_assert_uint_eq(remove_directory(directory), FILES);
    return struck;
}

START_TEST(every_call_that_fails_is_reported_and_the_rerun_has_the_same_bytes)
{
    static snapshot want;
    char directory[32];
    pare_ctx cx;
    make_directory(directory);
    fault.calls = 0;
    ck_assert_int_eq(work(&cx, directory), PARE_OK);
    const long calls = fault.calls;
    take(&want, directory);
    ck_assert_uint_eq(remove_directory(directory), FILES);
    for (size_t i = 0; i < FILES; i++)
        ck_assert_uint_gt(want.len[i], 0);
    ck_assert_uint_eq(fault.seen, 31); /* else a wrapper is not in place */
    long n = 0;
    while (one_fault((fault_kind)(_i / 2), _i % 2, n, &want))
        n++;
    ck_assert_int_ge(n, calls);
}
END_TEST

/* Call 0 of an append is the write, call 1 the sync. */
START_TEST(a_journal_whose_append_failed_takes_the_next_one)
{
    char directory[32];
    pare_ctx cx;
    pare_arena a;
    pare_journal *j;
    pare_journal_record *record;
    size_t count;
    make_directory(directory);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_journal_open(&cx, &a, directory, "{}", &j, &record, &count), PARE_OK);
    fault_start(NO_SPACE, false, _i);
    ck_assert_int_eq(pare_journal_append(&cx, j, "long and lost", 13), PARE_ENOSPC);
    (void)fault_stop();
    static char bytes[FILE_CAP];
    ck_assert_uint_eq(load(directory, "journal", bytes), 32 + 2); /* the fingerprint alone */
    ck_assert_int_eq(pare_journal_append(&cx, j, "short", 5), PARE_OK);
    pare_journal_close(&cx, j);
    ck_assert_int_eq(pare_journal_open(&cx, &a, directory, "{}", &j, &record, &count), PARE_OK);
    ck_assert_uint_eq(count, 1);
    ck_assert_mem_eq(record[0].payload, "short", 5);
    pare_journal_close(&cx, j);
    pare_arena_release(&a);
    ck_assert_uint_eq(remove_directory(directory), 2);
}
END_TEST

START_TEST(a_limit_on_file_sizes_is_a_full_disk_and_leaves_no_file)
{
    char directory[32];
    pare_ctx cx;
    make_directory(directory);
    (void)signal(SIGXFSZ, SIG_IGN);
    const struct rlimit tight = {1024, RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &tight), 0);
    ck_assert_int_eq(work(&cx, directory), PARE_ENOSPC);
    ck_assert_ptr_nonnull(strstr(cx.what, "packed-00001-of-00002.safetensors"));
    const struct rlimit none = {RLIM_INFINITY, RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &none), 0);
    ck_assert_uint_eq(remove_directory(directory), 2); /* journal and text */
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("write_faults");
    TCase *const t = tcase_create("write_faults");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_call_that_fails_is_reported_and_the_rerun_has_the_same_bytes, 0,
                        2 * KINDS);
    tcase_add_loop_test(t, a_journal_whose_append_failed_takes_the_next_one, 0, 2);
    tcase_add_test(t, a_limit_on_file_sizes_is_a_full_disk_and_leaves_no_file);
    suite_add_tcase(s, t);
    return unit_main(s);
}
