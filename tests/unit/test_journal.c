#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "compress/output/journal.h"
#include "runtime/file.h"
#include "tests/unit/unit.h"

static const char print[] = "{\"recipe\": \"aa\", \"cpu\": \"ref\"}";

typedef struct fixture {
    pare_ctx cx;
    pare_arena a;
    char directory[32], path[64];
    pare_journal *j;
    pare_journal_record *record;
    size_t count;
} fixture;

static void begin(fixture *f)
{
    *f = (fixture){.directory = "/tmp/pare-journal-XXXXXX"};
    ck_assert_ptr_nonnull(mkdtemp(f->directory));
    (void)snprintf(f->path, sizeof f->path, "%s/journal", f->directory);
    pare_ctx_init(&f->cx);
    ck_assert_int_eq(pare_arena_init(&f->cx, &f->a, 0), PARE_OK);
}

static void end(fixture *f)
{
    pare_journal_close(&f->cx, f->j);
    pare_arena_release(&f->a);
    ck_assert_uint_eq(f->cx.live_bytes, 0);
    (void)unlink(f->path);
    ck_assert_int_eq(rmdir(f->directory), 0);
}

static pare_status open_with(fixture *f, const char *fingerprint)
{
    pare_journal_close(&f->cx, f->j);
    pare_ctx_clear(&f->cx);
    return pare_journal_open(&f->cx, &f->a, f->directory, fingerprint, &f->j, &f->record,
                             &f->count);
}

static pare_status open_restarted(fixture *f, const char *fingerprint)
{
    pare_journal_close(&f->cx, f->j);
    return pare_journal_restart(&f->cx, f->directory, fingerprint, &f->j);
}

static void append(fixture *f, const char *text)
{
    ck_assert_int_eq(pare_journal_append(&f->cx, f->j, text, strlen(text)), PARE_OK);
}

static void begin_three(fixture *f)
{
    begin(f);
    ck_assert_int_eq(open_with(f, print), PARE_OK);
    append(f, "first");
    append(f, "");
    append(f, "third record");
}

START_TEST(a_reopened_journal_gives_the_records_in_order)
{
    fixture f;
    begin_three(&f);
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 3);
    ck_assert_uint_eq(f.record[0].len, 5);
    ck_assert_mem_eq(f.record[0].payload, "first", 5);
    ck_assert_uint_eq(f.record[1].len, 0);
    ck_assert_mem_eq(f.record[2].payload, "third record", 12);
    append(&f, "fourth");
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 4);
    end(&f);
}
END_TEST

START_TEST(a_journal_cut_anywhere_keeps_the_whole_records_and_goes_on)
{
    fixture f;
    begin_three(&f);
    char *text;
    size_t len;
    ck_assert_int_eq(pare_file_read(&f.cx, &f.a, f.path, 1 << 20, &text, &len), PARE_OK);
    const size_t first = 32 + strlen(print), ends[] = {first, first + 37, first + 69, len};
    for (size_t cut = 0; cut < len; cut++) {
        ck_assert_int_eq(pare_file_write(&f.cx, f.path, text, cut), PARE_OK);
        ck_assert_int_eq(open_with(&f, print), PARE_OK);
        size_t whole = 0;
        while (whole < 3 && ends[whole + 1] <= cut)
            whole++;
        ck_assert_uint_eq(f.count, whole);
        struct stat st;
        ck_assert_int_eq(stat(f.path, &st), 0);
        ck_assert_uint_eq((size_t)st.st_size, ends[whole]);
        append(&f, "next");
        ck_assert_int_eq(open_with(&f, print), PARE_OK);
        ck_assert_uint_eq(f.count, whole + 1);
    }
    end(&f);
}
END_TEST

START_TEST(a_flipped_bit_ends_the_list_at_its_record)
{
    fixture f;
    begin_three(&f);
    char *text;
    size_t len, count, valid;
    pare_journal_record *record;
    ck_assert_int_eq(pare_file_read(&f.cx, &f.a, f.path, 1 << 20, &text, &len), PARE_OK);
    const size_t first = 32 + strlen(print), ends[] = {first, first + 37, first + 69, len};
    for (size_t bit = 0; bit < 8 * len; bit++) {
        size_t damaged = 0;
        while (ends[damaged] <= bit / 8)
            damaged++;
        text[bit / 8] ^= (char)(1 << bit % 8);
        const pare_mark m = pare_arena_mark(&f.a);
        ck_assert_int_eq(
            pare_journal_parse(&f.cx, &f.a, (unsigned char *)text, len, &record, &count, &valid),
            PARE_OK);
        pare_arena_rewind(&f.a, m);
        text[bit / 8] ^= (char)(1 << bit % 8);
        ck_assert_uint_eq(count, damaged);
        ck_assert_uint_eq(valid, damaged ? ends[damaged - 1] : 0);
    }
    end(&f);
}
END_TEST

START_TEST(another_fingerprint_is_refused_and_each_difference_named)
{
    fixture f;
    begin_three(&f);
    ck_assert_int_eq(open_with(&f, "{\"recipe\": \"bb\", \"blas\": \"x\"}"), PARE_EEXISTS);
    ck_assert_ptr_null(f.j);
    ck_assert_ptr_nonnull(strstr(f.cx.what, "recipe was aa, is bb"));
    ck_assert_ptr_nonnull(strstr(f.cx.what, "blas was not given, is x"));
    ck_assert_ptr_nonnull(strstr(f.cx.what, "cpu was ref, is not given"));
    ck_assert_ptr_nonnull(strstr(f.cx.what, "--restart starts over"));
    ck_assert_int_eq(open_with(&f, "{\"cpu\": \"ref\", \"recipe\": \"aa\"}"), PARE_OK);
    ck_assert_uint_eq(f.count, 3);
    end(&f);
}
END_TEST

/* What does not fit is counted, and nothing is cut. */
START_TEST(many_differences_end_in_their_number)
{
    enum { LINES = 40 };
    fixture f;
    char text[LINES * 64] = "{";
    begin_three(&f);
    for (size_t i = 0, used = 1; i < LINES; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\"fact %zu\": \"new\"%s", i,
                                 i + 1 < LINES ? ", " : "}");
    ck_assert_int_eq(open_with(&f, text), PARE_EEXISTS);
    size_t told = 0, more = 0;
    for (const char *at = f.cx.what; (at = strstr(at, " was ")); at++)
        told++;
    const char *const rest = strstr(f.cx.what, "; and ");
    ck_assert_ptr_nonnull(rest);
    ck_assert_int_eq(sscanf(rest, "; and %zu more. --restart starts over", &more), 1);
    ck_assert_uint_eq(told + more, LINES + 2);
    ck_assert_int_eq(strncmp(rest - strlen(", is new"), ", is new", 8), 0); /* whole */
    end(&f);
}
END_TEST

/* Of the recipe the first line that differs: those behind it may only have moved. */
START_TEST(another_recipe_and_other_data_are_told_in_words)
{
    fixture f;
    begin(&f);
    ck_assert_int_eq(open_with(&f,
                               "{\"model file 1\": \"a.safetensors xxh3 12\", "
                               "\"calibration tokens\": \"12\", \"recipe line 1\": \"pare: 1\", "
                               "\"recipe line 2\": \"      bits: 4\", "
                               "\"recipe line 3\": \"seed: 1\"}"),
                     PARE_OK);
    ck_assert_int_eq(open_with(&f,
                               "{\"model file 1\": \"a.safetensors xxh3 34\", "
                               "\"calibration tokens\": \"34\", \"recipe line 1\": \"pare: 1\", "
                               "\"recipe line 2\": \"      bits: 3\", "
                               "\"recipe line 3\": \"seed: 2\"}"),
                     PARE_EEXISTS);
    ck_assert_ptr_nonnull(
        strstr(f.cx.what, "this job: it has other bytes in the model's a.safetensors; it has other "
                          "calibration tokens; its recipe says \"bits: 4\" where this one says "
                          "\"bits: 3\". --restart starts over"));
    end(&f);
}
END_TEST

/* Where only one of them looks at the calibration, nothing is said of its tokens. */
START_TEST(a_calibration_that_is_of_no_use_is_not_another_one)
{
    static const char used[] = "{\"calibration tokens\": \"12\", \"recipe line 1\": \"a\", "
                               "\"precision\": \"bf16\"}";
    static const char idle[] = "{\"calibration tokens\": \"not used\", \"recipe line 1\": \"b\"}";
    static const char f32[] = "{\"calibration tokens\": \"12\", \"recipe line 1\": \"a\", "
                              "\"precision\": \"f32\"}";
    static const struct {
        const char *was, *is, *says;
    } row[] = {{used, idle,
                "this job: it uses the calibration, which this one does not; its recipe says "
                "\"a\" where this one says \"b\". --"},
               {idle, used,
                "this job: it uses no calibration, which this one does; its recipe says \"b\" "
                "where this one says \"a\". --"},
               {used, f32, "this job: precision was bf16, is f32. --"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fixture f;
        begin(&f);
        ck_assert_int_eq(open_with(&f, row[i].was), PARE_OK);
        ck_assert_int_eq(open_with(&f, row[i].is), PARE_EEXISTS);
        ck_assert_msg(strstr(f.cx.what, row[i].says), "%s does not say %s", f.cx.what, row[i].says);
        end(&f);
    }
}
END_TEST

START_TEST(lines_that_one_recipe_has_alone_are_named)
{
    static const char shorter[] = "{\"recipe line 1\": \"a\", \"recipe line 2\": \"z\"}";
    static const char longer[] = "{\"recipe line 1\": \"a\", \"recipe line 2\": \"  b\", "
                                 "\"recipe line 3\": \"c\", \"recipe line 4\": \"z\"}";
    static const char changed[] = "{\"recipe line 1\": \"a\", \"recipe line 2\": \"y\"}";
    static const char start[] = "{\"recipe line 1\": \"a\"}";
    static const struct {
        const char *was, *is, *says;
    } row[] = {{longer, shorter, "this job: its recipe has \"b\", which this one lacks. --"},
               {shorter, longer, "this job: its recipe lacks \"b\", which this one has. --"},
               {shorter, start, "this job: its recipe has \"z\", which this one lacks. --"},
               {start, longer, "this job: its recipe lacks \"b\", which this one has. --"},
               {longer, changed, "its recipe says \"b\" where this one says \"y\". --"}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fixture f;
        begin(&f);
        ck_assert_int_eq(open_with(&f, row[i].was), PARE_OK);
        ck_assert_int_eq(open_with(&f, row[i].is), PARE_EEXISTS);
        ck_assert_msg(strstr(f.cx.what, row[i].says), "%s", f.cx.what);
        end(&f);
    }
}
END_TEST

/* Its other differences would be told of a model that is the same, under another hash. */
START_TEST(work_of_the_other_command_is_told_as_such)
{
    static const char compress[] = "{\"program\": \"pare 9\", \"format\": \"12\", "
                                   "\"model file 1\": \"a xxh3 12\", \"recipe line 1\": \"a\"}";
    static const char train[] = "{\"program\": \"pare 9\", \"training\": \"format 4\", "
                                "\"model file 1\": \"a sha256 34\", \"recipe line 1\": \"b\"}";
    static const char *const says[] = {
        ": holds an unfinished run of pare compress, and this is pare train. The command of that "
        "run goes on with it; --restart starts over; another --output leaves it",
        ": holds an unfinished run of pare train, and this is pare compress. The command of that "
        "run goes on with it; --restart starts over; another --output leaves it"};
    for (int i = 0; i < 2; i++) {
        fixture f;
        char text[256];
        begin(&f);
        (void)snprintf(text, sizeof text, "%s%s", f.directory, says[i]);
        ck_assert_int_eq(open_with(&f, i ? train : compress), PARE_OK);
        ck_assert_int_eq(open_with(&f, i ? compress : train), PARE_EEXISTS);
        ck_assert_str_eq(f.cx.what, text);
        pare_ctx_clear(&f.cx);
        ck_assert_int_eq(pare_journal_check_recipe(&f.cx, &f.a, f.directory, i ? compress : train),
                         PARE_EEXISTS);
        ck_assert_str_eq(f.cx.what, text);
        end(&f);
    }
}
END_TEST

START_TEST(a_fingerprint_that_is_no_json_is_of_another_program)
{
    fixture f;
    begin(&f);
    ck_assert_int_eq(open_with(&f, "other words"), PARE_OK);
    ck_assert_int_eq(open_with(&f, print), PARE_EEXISTS);
    ck_assert_ptr_nonnull(strstr(f.cx.what, "of another program; --restart starts over"));
    end(&f);
}
END_TEST

/* What the journal of the directory is. */
static pare_journal_kind look(fixture *f)
{
    pare_journal_kind kind;
    ck_assert_int_eq(pare_journal_look(&f->cx, &f->a, f->directory, &kind), PARE_OK);
    return kind;
}

static void put(const fixture *f, const char *bytes, size_t len)
{
    const int fd = open(f->path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, bytes, len), (ssize_t)len);
    ck_assert_int_eq(close(fd), 0);
}

START_TEST(a_journal_is_told_from_other_files_by_its_content)
{
    static const struct {
        const char *bytes;
        size_t len;
        pare_journal_kind kind;
    } files[] = {{"", 0, PARE_JOURNAL_DAMAGED},
                 {"PJ", 2, PARE_JOURNAL_DAMAGED},
                 {"\0\0\0\0\0\0", 6, PARE_JOURNAL_DAMAGED},
                 {"PJ01 and no more", 16, PARE_JOURNAL_DAMAGED},
                 {"XJ01....PJ01....", 16, PARE_JOURNAL_DAMAGED},
                 {"dear diary", 10, PARE_JOURNAL_FOREIGN},
                 {"P.S. I love you", 15, PARE_JOURNAL_FOREIGN}};
    fixture f;
    begin(&f);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_NONE);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        put(&f, files[i].bytes, files[i].len);
        ck_assert_msg(look(&f) == files[i].kind, "file %zu", i);
    }
    ck_assert_int_eq(pare_journal_restart(&f.cx, f.directory, print, &f.j), PARE_OK);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_FOREIGN); /* no "program" */
    ck_assert_int_eq(open_restarted(&f, "{\"program\": \"pare 9\"}"), PARE_OK);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_EXPORT);
    ck_assert_int_eq(open_restarted(&f, "{\"program\": \"pare 9\", \"recipe line 1\": \"a\"}"),
                     PARE_OK);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_COMPRESS);
    ck_assert_int_eq(open_restarted(&f, "{\"program\": \"pare 9\", \"training\": \"x\", "
                                        "\"recipe line 1\": \"a\"}"),
                     PARE_OK);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_TRAIN);
    ck_assert_int_eq(open_restarted(&f, "{\"program\": \"pare 9\", \"replaced\": true}"), PARE_OK);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_REPLACED);
    ck_assert_int_eq(unlink(f.path), 0);
    ck_assert_int_eq(symlink("/dev/null", f.path), 0);
    ck_assert_int_eq(look(&f), PARE_JOURNAL_FOREIGN);
    end(&f);
}
END_TEST

START_TEST(a_journal_without_a_good_start_begins_anew_and_says_so)
{
    fixture f;
    begin_three(&f);
    ck_assert(!pare_journal_lost(f.j));
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert(!pare_journal_lost(f.j));
    const int fd = open(f.path, O_WRONLY);
    ck_assert_int_eq(pwrite(fd, "#", 1, 20), 1);
    ck_assert_int_eq(close(fd), 0);
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert(pare_journal_lost(f.j));
    ck_assert_uint_eq(f.count, 0);
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert(!pare_journal_lost(f.j));
    end(&f);
}
END_TEST

START_TEST(records_can_be_dropped_from_the_end)
{
    fixture f;
    begin_three(&f);
    for (size_t keep = 3; keep-- > 0;) {
        ck_assert_int_eq(open_with(&f, print), PARE_OK);
        ck_assert_uint_eq(f.count, keep + 1);
        ck_assert_int_eq(pare_journal_keep(&f.cx, f.j, f.record, keep), PARE_OK);
    }
    append(&f, "again");
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 1);
    ck_assert(f.record[0].len == 5 && memcmp(f.record[0].payload, "again", 5) == 0);
    end(&f);
}
END_TEST

START_TEST(a_missing_directory_and_a_journal_that_is_a_directory_are_errors)
{
    fixture f;
    begin(&f);
    ck_assert_int_eq(pare_journal_open(&f.cx, &f.a, "/nowhere", print, &f.j, &f.record, &f.count),
                     PARE_ENOTFOUND);
    ck_assert_ptr_nonnull(strstr(f.cx.what, "/nowhere/journal"));
    ck_assert_int_eq(mkdir(f.path, 0777), 0);
    ck_assert_int_eq(open_with(&f, print), PARE_EIO);
    ck_assert_int_eq(rmdir(f.path), 0);
    end(&f);
}
END_TEST

START_TEST(a_failed_append_leaves_a_good_journal)
{
    fixture f;
    begin_three(&f);
    struct stat before, after;
    ck_assert_int_eq(stat(f.path, &before), 0);
    unit_failing none = {.left = 0};
    const pare_alloc real = f.cx.alloc;
    f.cx.alloc = (pare_alloc){unit_failing_resize, &none};
    static char large[1 << 20];
    ck_assert_int_eq(pare_journal_append(&f.cx, f.j, large, sizeof large), PARE_ENOMEM);
    f.cx.alloc = real;
    ck_assert_int_eq(stat(f.path, &after), 0);
    ck_assert_int_eq(before.st_size, after.st_size);
    append(&f, "more");
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 4);
    end(&f);
}
END_TEST

/* A journal is not emptied to begin anew: without room for the next one the old one stays. */
START_TEST(a_failed_restart_leaves_the_old_journal)
{
    fixture f;
    char rest[70];
    struct rlimit before, small;
    begin_three(&f);
    (void)signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){8, before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_ne(open_restarted(&f, "{\"program\": \"pare 9\"}"), PARE_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 3);
    ck_assert_int_eq(open_restarted(&f, print), PARE_OK);
    append(&f, "anew");
    ck_assert_int_eq(open_with(&f, print), PARE_OK);
    ck_assert_uint_eq(f.count, 1);
    (void)snprintf(rest, sizeof rest, "%s.tmp", f.path);
    ck_assert_int_ne(access(rest, F_OK), 0);
    end(&f);
}
END_TEST

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    fixture f;
    begin(&f);
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 1000; n++) {
        unit_failing failing = {.left = n};
        pare_ctx cx;
        pare_arena a;
        pare_journal *j = NULL;
        pare_journal_record *record;
        size_t count;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = pare_journal_open(&cx, &a, f.directory, n % 2 ? "{}" : "{ }", &j, &record, &count);
        if (s == PARE_OK)
            s = pare_journal_append(&cx, j, "x", 1);
        pare_journal_close(&cx, j);
        pare_arena_release(&a);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (cx.what[0] == '\0'));
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
    end(&f);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("journal");
    TCase *const t = tcase_create("journal");
    tcase_add_test(t, a_reopened_journal_gives_the_records_in_order);
    tcase_add_test(t, a_journal_cut_anywhere_keeps_the_whole_records_and_goes_on);
    tcase_add_test(t, a_flipped_bit_ends_the_list_at_its_record);
    tcase_add_test(t, another_fingerprint_is_refused_and_each_difference_named);
    tcase_add_test(t, many_differences_end_in_their_number);
    tcase_add_test(t, another_recipe_and_other_data_are_told_in_words);
    tcase_add_test(t, a_calibration_that_is_of_no_use_is_not_another_one);
    tcase_add_test(t, lines_that_one_recipe_has_alone_are_named);
    tcase_add_test(t, work_of_the_other_command_is_told_as_such);
    tcase_add_test(t, a_fingerprint_that_is_no_json_is_of_another_program);
    tcase_add_test(t, a_journal_is_told_from_other_files_by_its_content);
    tcase_add_test(t, a_journal_without_a_good_start_begins_anew_and_says_so);
    tcase_add_test(t, records_can_be_dropped_from_the_end);
    tcase_add_test(t, a_missing_directory_and_a_journal_that_is_a_directory_are_errors);
    tcase_add_test(t, a_failed_append_leaves_a_good_journal);
    tcase_add_test(t, a_failed_restart_leaves_the_old_journal);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
