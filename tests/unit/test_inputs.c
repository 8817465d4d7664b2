/* Inputs that change while a job runs: each change is told, whatever it is and whenever it happens,
 * and the next run of the job leaves the bytes of a run that nothing disturbed. */
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include "tests/unit/job.h"

#include "tests/unit/folder.h"
#include "tests/unit/tensor_at.h"

static const char recipe[] = "pare: 1\nmodel: model\nseed: 5\n"
                             "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
                             "passes:\n  - gptq: {bits: 4, group: 32}\n"
                             "evaluate:\n  - perplexity: {tokens: other.i32, window: 48}\n";

static job_place place;
static char reference[PARE_SHA256_HEX];

static void setup(void)
{
    tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, recipe);
    ck_assert(tiny_tokens_write(job_path(&place, "other.i32"), m.vocab, 64 * 24, 4));
    FILE *const f = fopen(job_path(&place, "model/tokenizer.json"), "wb");
    ck_assert(f && fputs("{}", f) >= 0 && fclose(f) == 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "reference"}, NULL), PARE_OK);
    job_hash(&place, "reference", reference);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

/* The file at hand and what it was. */
typedef struct target {
    char path[512];
    char *bytes;
    size_t len;
    struct stat was;
} target;

static void store(const char *path, const char *bytes, size_t len)
{
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void flip(const target *t)
{
    const int fd = open(t->path, O_WRONLY);
    const char byte = (char)(t->bytes[t->len - 1] ^ 1);
    ck_assert(fd >= 0 && pwrite(fd, &byte, 1, (off_t)t->len - 1) == 1 && close(fd) == 0);
}

static void set_times(const target *t)
{
    const struct timespec times[2] = {t->was.st_atim, t->was.st_mtim};
    ck_assert_int_eq(utimensat(AT_FDCWD, t->path, times, 0), 0);
}

static void flip_quietly(const target *t)
{
    flip(t);
    set_times(t);
}

static void replace(const target *t)
{
    char other[600];
    (void)snprintf(other, sizeof other, "%s.new", t->path);
    store(other, t->bytes, t->len); /* the same bytes: it is the file that differs */
    ck_assert_int_eq(rename(other, t->path), 0);
}

static void touch(const target *t)
{
    ck_assert_int_eq(utimensat(AT_FDCWD, t->path, NULL, 0), 0);
}

static void grow(const target *t)
{
    ck_assert_int_eq(truncate(t->path, (off_t)t->len + 3), 0);
    set_times(t);
}

/* Within the last page, which stays readable: a missing page ends the process (test_file.c). */
static void cut(const target *t)
{
    ck_assert_int_eq(truncate(t->path, (off_t)t->len - 1), 0);
    set_times(t);
}

static void take_away(const target *t)
{
    ck_assert_int_eq(unlink(t->path), 0);
}

static const char *const files[] = {"model/model.safetensors", "model/config.json",
                                    "model/tokenizer.json", "tokens.i32", "other.i32"};
static void (*const changes[])(const target *t) = {flip, flip_quietly, replace,  touch,
                                                   grow, cut,          take_away};
enum {
    FILES = sizeof files / sizeof *files,
    CHANGES = sizeof changes / sizeof *changes,
    OPENED = 2, /* of the files, when the plan stands */
    CASES = CHANGES * (FILES + OPENED)
};

/* Makes the change at the first event of a kind. */
typedef struct disturber {
    pare_event_kind at;
    void (*change)(const target *t);
    const target *target;
    bool done;
} disturber;

static void hear(void *self, const pare_event *e)
{
    disturber *const d = self;
    if (e->kind == d->at && !d->done) {
        d->done = true;
        d->change(d->target);
    }
}

static void take(target *t, const char *name)
{
    (void)snprintf(t->path, sizeof t->path, "%s", job_path(&place, name));
    t->bytes = folder_get(t->path, &t->len);
    ck_assert_int_eq(stat(t->path, &t->was), 0);
}

static void finish_and_compare(void)
{
    char hex[PARE_SHA256_HEX];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_hash(&place, "out", hex);
    ck_assert_str_eq(hex, reference);
}

/* Every change of every file, in turns after the first block and before the evaluation; and, of the
 * files that are open by then, as soon as the plan stands. */
START_TEST(no_change_of_an_input_goes_unnoticed)
{
    const size_t change = (size_t)_i % CHANGES, file = (size_t)_i / CHANGES;
    const pare_event_kind at = file >= FILES ? PARE_EVENT_PLAN
                               : _i % 2      ? PARE_EVENT_EVALUATE
                                             : PARE_EVENT_BLOCK;
    target t;
    char what[1024];
    take(&t, files[file % FILES]);
    disturber d = {.at = at, .change = changes[change], .target = &t};
    const pare_events events = {hear, &d};
    const job_opts o = {.output = "out", .events = &events};
    const pare_status s = job_run(&place, o, what);
    ck_assert(d.done);
    /* a text that is read once more may be found to be no list of tokens, or to be gone */
    const bool read_again = at == PARE_EVENT_EVALUATE && file == FILES - 1;
    ck_assert_msg(s == PARE_EFORMAT || (read_again && s == PARE_ENOTFOUND), "%s, change %zu: %s",
                  t.path, change, what);
    ck_assert_msg(strstr(what, t.path), "%s", what);
    ck_assert_msg(read_again || strstr(what, "changed while it was in use"), "%s", what);
    ck_assert(!pare_path_is_directory(job_path(&place, "out")));
    store(t.path, t.bytes, t.len);
    free(t.bytes);
    if (change == 0)
        finish_and_compare();
    job_remove_directory(job_path(&place, "out"));
    job_remove_directory(job_path(&place, "out.partial"));
}
END_TEST

/* A folder that `tokenizer:` names: a write into a file of it changes nothing of the folder. */
START_TEST(a_tokenizer_that_is_named_is_watched)
{
    target t;
    char what[1024];
    ck_assert_int_eq(mkdir(job_path(&place, "named"), 0777), 0);
    store(job_path(&place, "named/tokenizer.json"), "{}", 2);
    take(&t, "named/tokenizer.json");
    disturber d = {.at = PARE_EVENT_BLOCK, .change = flip, .target = &t};
    const pare_events events = {hear, &d};
    const job_opts o = {
        .output = "out", .sets = {"tokenizer=named"}, .set_count = 1, .events = &events};
    const pare_status s = job_run(&place, o, what);
    ck_assert_msg(d.done && s == PARE_EFORMAT && strstr(what, t.path), "%s", what);
    ck_assert_ptr_nonnull(strstr(what, "changed while it was in use"));
    free(t.bytes);
    job_remove_directory(job_path(&place, "out.partial"));
}
END_TEST

/* A write through a mapping of a page that is dirty already moves no time. It reaches blocks that
 * the journal counts as done, so none of them may be used again. */
typedef struct mapped_write {
    unsigned char *bytes;
    size_t from;
    size_t blocks;
} mapped_write;

static void write_through(void *self, const pare_event *e)
{
    mapped_write *const m = self;
    if (e->kind == PARE_EVENT_BLOCK && m->blocks++ == 0)
        for (size_t i = 0; i < 64; i++)
            m->bytes[m->from + i] ^= 0x80;
}

START_TEST(a_write_that_moves_no_time_is_noticed_and_nothing_of_it_is_kept)
{
    target t;
    char what[1024];
    take(&t, files[0]);
    const int fd = open(t.path, O_RDWR);
    void *const map = mmap(NULL, t.len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert(fd >= 0 && map != MAP_FAILED);
    const char *const tensor = "model.layers.1.self_attn.q_proj.weight";
    mapped_write m = {map, (size_t)tensor_at(t.path, tensor, NULL), 0};
    for (size_t i = 0; i < t.len; i++) /* every page is dirty from here on */
        ((volatile unsigned char *)map)[i] ^= 0;
    const pare_events events = {write_through, &m};
    const job_opts o = {.output = "out", .events = &events};
    ck_assert_msg(job_run(&place, o, what) == PARE_EFORMAT, "%s", what);
    ck_assert_ptr_nonnull(strstr(what, t.path));
    memcpy(map, t.bytes, t.len);
    ck_assert(munmap(map, t.len) == 0 && close(fd) == 0);
    free(t.bytes);
    finish_and_compare();
    job_remove_directory(job_path(&place, "out"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("inputs");
    TCase *const t = tcase_create("inputs");
    tcase_add_unchecked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_loop_test(t, no_change_of_an_input_goes_unnoticed, 0, CASES);
    tcase_add_test(t, a_tokenizer_that_is_named_is_watched);
    tcase_add_test(t, a_write_that_moves_no_time_is_noticed_and_nothing_of_it_is_kept);
    return unit_main(s);
}
