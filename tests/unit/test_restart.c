/* Outputs that exist already: refused, replaced, continued, and never mixed with what lies around.
 */
#include "compress/artifact/verify.h"
#include "compress/output/journal.h"
#include "formats/packed.h"
#include "tests/unit/job.h"

static const char recipe[] = "pare: 1\nmodel: model\nseed: 5\n"
                             "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
                             "passes:\n  - gptq: {bits: 4, group: 32}\n"
                             "evaluate:\n  - perplexity: {tokens: tokens.i32, window: 48}\n";

static job_place place;

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    place = job_make(&m);
    job_recipe(&place, recipe);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static void put(const char *name, const char *text)
{
    FILE *const f = fopen(job_path(&place, name), "wb");
    ck_assert(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

static bool there(const char *name)
{
    return access(job_path(&place, name), F_OK) == 0;
}

/* Stops the job at the first event of a kind, and counts those of another. */
typedef struct stopper {
    pare_event_kind at, counted;
    volatile int stop;
    size_t count;
    void (*act)(void); /* or NULL: stop */
} stopper;

static void hear(void *self, const pare_event *e)
{
    stopper *const s = self;
    s->count += e->kind == s->counted;
    if (e->kind != s->at)
        return;
    if (s->act)
        s->act();
    else
        s->stop = 1;
}

static void interrupt_after_a_block(const char *output, bool restart)
{
    stopper s = {.at = PARE_EVENT_BLOCK};
    const pare_events events = {hear, &s};
    const job_opts o = {
        .output = output, .restart = restart, .events = &events, .interrupt = &s.stop};
    ck_assert_int_eq(job_run(&place, o, NULL), PARE_EINTERRUPTED);
}

/* Runs to the end; how many times it said that it continues. */
static size_t finish(const char *output, bool restart)
{
    stopper s = {.at = PARE_EVENT_DONE, .counted = PARE_EVENT_RESUME};
    const pare_events events = {hear, &s};
    const job_opts o = {.output = output, .restart = restart, .events = &events};
    ck_assert_int_eq(job_run(&place, o, NULL), PARE_OK);
    return s.count;
}

START_TEST(an_interrupted_restart_is_continued_by_default_and_keeps_the_old_output_until_then)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    ck_assert_uint_eq(finish("out", false), 0);
    job_hash(&place, "out", first);
    interrupt_after_a_block("out", true);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
    ck_assert_uint_eq(finish("out", false), 1);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
    ck_assert(!there("out.partial"));
    ck_assert(!there("out/journal"));
    ck_assert_uint_eq(finish("out", false), 0); /* complete */
    interrupt_after_a_block("out", true);
    ck_assert_uint_eq(finish("out", true), 0); /* asked to start over */
}
END_TEST

static void move(const char *name, const char *to)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, name));
    ck_assert_int_eq(rename(path, job_path(&place, to)), 0);
}

/* A run that goes on replaces what it was asked to replace, and no other output. */
START_TEST(an_output_that_came_to_the_place_of_another_is_not_replaced)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX], what[1024];
    const job_opts o = {.output = "out", .sets = {"seed=6"}, .set_count = 1};
    ck_assert_int_eq(job_run(&place, o, NULL), PARE_OK);
    move("out", "mine");
    job_hash(&place, "mine", first);
    if (_i == 1)
        ck_assert_uint_eq(finish("out", false), 0);
    interrupt_after_a_block("out", _i == 1);
    if (_i == 1)
        move("out", "away");
    move("mine", "out");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, _i == 1
                                   ? "replaces was an output with manifest.json sha256 "
                                   : "out when the unfinished run began, and now a finished "
                                     "output does: move that away, and the same command goes on"),
                  "%s", what);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
    move("out", "mine");
    ck_assert_uint_eq(finish("out", false), 1); /* nothing there: it may go on */
    job_hash(&place, "mine", other);
    ck_assert_str_eq(first, other);
}
END_TEST

static const char mixed[] =
    "pare: 1\nmodel: model\n"
    "calibration: {tokens: tokens.i32, samples: 8, window: 48}\n"
    "passes:\n"
    "  - awq: {clip: false, skip: ['*.gate_proj', '*.up_proj', '*.o_proj']}\n"
    "  - squeezellm: {targets: '*.down_proj'}\n"
    "  - llm_int8: {targets: '*.o_proj'}\n"
    "  - atom: {outliers: 16, group: 32, targets: '*.v_proj'}\n"
    "  - gptq: {bits: 3, group: 32, symmetric: false, targets: ['*.q_proj', '*.k_proj']}\n"
    "  - billm: {targets: '*.gate_proj'}\n"
    "  - nf4: {targets: '*.up_proj'}\n";

static size_t findings(const char *output)
{
    pare_ctx cx;
    pare_verify_result r;
    pare_ctx_init(&cx);
    ck_assert_msg(pare_verify(&cx, job_path(&place, output), NULL, NULL, &r) == PARE_OK, "%s",
                  cx.what);
    return r.findings;
}

/* Every kind of plane goes to the files and comes back, and steps go through the journal. */
START_TEST(a_recipe_of_many_encodings_continues_to_the_same_bytes)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    job_recipe(&place, mixed);
    ck_assert_uint_eq(finish("out", false), 0);
    job_hash(&place, "out", first);
    ck_assert_uint_eq(findings("out"), 0);
    interrupt_after_a_block("other", false);
    ck_assert_uint_eq(finish("other", false), 1);
    job_hash(&place, "other", other);
    ck_assert_str_eq(first, other);
    ck_assert_uint_eq(findings("other"), 0);
}
END_TEST

START_TEST(files_of_another_artifact_do_not_get_into_the_output)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, "out.partial"));
    ck_assert_int_eq(mkdir(path, 0777), 0);
    put("out.partial/journal",
        "PJ01"); /* what makes it an unfinished run, with a damaged journal */
    put("out.partial/tokenizer.json", "{}");
    put("out.partial/config.json.tmp", "half");
    put("out.partial/packed-00002-of-00002.safetensors", "old");
    interrupt_after_a_block("out", false);
    ck_assert(!there("out.partial/tokenizer.json"));
    ck_assert(!there("out.partial/config.json.tmp"));
    ck_assert(!there("out.partial/packed-00002-of-00002.safetensors"));
    put("out.partial/merges.txt", "of a tokenizer that the model has no more");
    ck_assert_uint_eq(finish("out", false), 1);
    ck_assert(!there("out/merges.txt"));
}
END_TEST

START_TEST(a_folder_of_the_user_by_the_name_of_the_partial_one_is_not_touched)
{
    char what[1024], path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, "out.partial"));
    ck_assert_int_eq(mkdir(path, 0777), 0);
    put("out.partial/README.md", "mine");
    for (int restart = 0; restart < 2; restart++) {
        const job_opts o = {.output = "out", .restart = restart != 0};
        ck_assert_int_eq(job_run(&place, o, what), PARE_EEXISTS);
        ck_assert_msg(strstr(what, "out.partial/README.md: lies beside no journal"), "%s", what);
        ck_assert(there("out.partial/README.md"));
        ck_assert(!there("out.partial/journal"));
    }
}
END_TEST

START_TEST(a_restart_does_not_touch_the_files_of_a_run_in_progress)
{
    static const char packed[] = "out.partial/packed-00001-of-00001.safetensors";
    pare_ctx cx;
    pare_arena a;
    pare_lock lock;
    char what[1024], output[512];
    ck_assert_int_eq(mkdir(job_path(&place, "out.partial"), 0777), 0);
    put("out.partial/journal", "PJ01");
    put(packed, "the work of another process");
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "out"));
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_lock_take(&cx, &a, output, "test", &(pare_teller){0}, &lock), PARE_OK);
    for (int restart = 0; restart < 2; restart++) {
        const job_opts o = {.output = "out", .restart = restart};
        ck_assert_int_eq(job_run(&place, o, what), PARE_EEXISTS);
        ck_assert_msg(strstr(what, "/out: in use by pare test (process "), "%s", what);
        ck_assert(there(packed));
    }
    pare_lock_release(&lock);
    ck_assert_uint_eq(finish("out", true), 0);
    pare_arena_release(&a);
}
END_TEST

static void take_the_output(void)
{
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, "out"));
    ck_assert_int_eq(mkdir(path, 0777), 0);
    put("out/manifest.json", "{}");
}

START_TEST(an_output_that_appears_during_the_run_is_not_replaced)
{
    stopper s = {.at = PARE_EVENT_EVALUATE, .act = take_the_output};
    const pare_events events = {hear, &s};
    char what[1024];
    const job_opts o = {.output = "out", .events = &events};
    ck_assert_int_eq(job_run(&place, o, what), PARE_EEXISTS);
    ck_assert_ptr_nonnull(strstr(what, "out.partial"));
    ck_assert(there("out/manifest.json"));
    ck_assert(!there("out/config.json"));
    ck_assert(there("out.partial/config.json"));
}
END_TEST

START_TEST(an_output_behind_a_link_is_replaced_where_it_lies)
{
    char what[1024], link[512];
    ck_assert_uint_eq(finish("real", false), 0);
    (void)snprintf(link, sizeof link, "%s", job_path(&place, "link"));
    ck_assert_int_eq(symlink("real", link), 0);
    ck_assert_uint_eq(finish("link", true), 0);
    struct stat st;
    ck_assert(lstat(link, &st) == 0 && S_ISLNK(st.st_mode));
    ck_assert(there("real/manifest.json"));
    ck_assert(!there("real.partial") && !there("link.partial"));
    ck_assert_uint_eq(finish("real/.", true), 0);
    ck_assert(!there("real.partial") && !there("real/..partial"));
    ck_assert_int_eq(unlink(link), 0);
    ck_assert_int_eq(symlink("nowhere", link), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "link"}, what), PARE_EEXISTS);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "new/."}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "must end in a name"));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "x.partial"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "names that end in .partial are for files beside outputs"));
}
END_TEST

START_TEST(a_new_output_may_lie_in_directories_that_start_with_a_dot)
{
    ck_assert_int_eq(chdir(place.root), 0);
    const job_place here = {"."};
    ck_assert_int_eq(job_run(&here, (job_opts){.output = ".new/er/out"}, NULL), PARE_OK);
    ck_assert_int_eq(chdir(".."), 0);
    ck_assert(there(".new/er/out/manifest.json"));
}
END_TEST

/* Byte ranges of a kept tensor and of a packed one are spoiled between two runs. */
static void spoil(const char *tensor)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    char path[512];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    (void)snprintf(path, sizeof path, "%s",
                   job_path(&place, "out.partial/packed-00001-of-00001.safetensors"));
    ck_assert_msg(pare_checkpoint_open(&cx, &a, path, &ck) == PARE_OK, "%s", cx.what);
    const pare_tensor *const t = pare_checkpoint_find(&ck, tensor);
    ck_assert_ptr_nonnull(t);
    const off_t at = (off_t)((const unsigned char *)t->data - ck.file[0].data);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    const int fd = open(path, O_RDWR);
    ck_assert_int_eq(pwrite(fd, "\x11\x22\x33\x44", 4, at), 4);
    ck_assert_int_eq(close(fd), 0);
}

static void fail_now(void)
{
    (void)unlink(job_path(&place, "tokens.i32"));
}

START_TEST(tensors_that_were_damaged_between_two_runs_are_found_or_written_again)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX], what[1024];
    char from[512], to[512];
    ck_assert_uint_eq(finish("whole", false), 0);
    job_hash(&place, "whole", first);
    (void)snprintf(from, sizeof from, "%s", job_path(&place, "tokens.i32"));
    (void)snprintf(to, sizeof to, "%s", job_path(&place, "again.i32"));
    ck_assert_int_eq(link(from, to), 0);
    stopper s = {.at = PARE_EVENT_EVALUATE, .act = fail_now};
    const pare_events events = {hear, &s};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, what),
                     PARE_ENOTFOUND);
    ck_assert_int_eq(rename(to, from), 0);
    spoil("model.norm.weight");
    ck_assert_uint_eq(finish("out", false), 1);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
    interrupt_after_a_block("out", true);
    spoil("model.layers.0.mlp.up_proj.codes");
    stopper notice = {.at = PARE_EVENT_DONE, .counted = PARE_EVENT_NOTICE};
    const pare_events all = {hear, &notice};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &all}, NULL), PARE_OK);
    ck_assert_uint_eq(notice.count, 1);
    job_hash(&place, "out", other);
    ck_assert_str_eq(first, other);
}
END_TEST

enum { PRINT = 8192 };

/* The first record of the journal of out.partial: what the run is of. */
static void read_print(char print[PRINT])
{
    pare_ctx cx;
    pare_arena a;
    pare_file f;
    pare_journal_record *record;
    size_t count, valid;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_map(&cx, &a, job_path(&place, "out.partial/journal"), &f), PARE_OK);
    ck_assert_int_eq(pare_journal_parse(&cx, &a, f.data, f.bytes, &record, &count, &valid),
                     PARE_OK);
    ck_assert(count > 0 && record[0].len < PRINT);
    memcpy(print, record[0].payload, record[0].len);
    print[record[0].len] = '\0';
    pare_file_unmap(&f);
    pare_arena_release(&a);
}

/* The journal of out.partial, opened as nobody but a run does: its first records stay, and `tail`
 * follows them. */
static void end_journal(size_t keep, const char *tail)
{
    pare_ctx cx;
    pare_arena a;
    pare_journal_record *record;
    pare_journal *j;
    size_t count;
    char directory[512], print[PRINT];
    (void)snprintf(directory, sizeof directory, "%s", job_path(&place, "out.partial"));
    read_print(print);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_journal_open(&cx, &a, directory, print, &j, &record, &count), PARE_OK);
    ck_assert_uint_ge(count, keep);
    ck_assert_int_eq(pare_journal_keep(&cx, j, record, keep), PARE_OK);
    ck_assert_int_eq(pare_journal_append(&cx, j, tail, strlen(tail)), PARE_OK);
    pare_journal_close(&cx, j);
    pare_arena_release(&a);
}

/* Runs `out` to the end, which says `notices` times that something is damaged. */
static void finish_damaged(size_t notices, const char *want)
{
    char hash[PARE_SHA256_HEX];
    stopper s = {.at = PARE_EVENT_DONE, .counted = PARE_EVENT_NOTICE};
    const pare_events events = {hear, &s};
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, NULL),
                     PARE_OK);
    ck_assert_uint_eq(s.count, notices);
    job_hash(&place, "out", hash);
    ck_assert_str_eq(hash, want);
    ck_assert_uint_eq(findings("out"), 0);
    job_remove_directory(job_path(&place, "out"));
}

/* A run of an older program decided by other rules. */
START_TEST(a_journal_without_the_format_is_not_continued)
{
    char what[1024], print[PRINT], expected[128];
    pare_ctx cx;
    pare_journal *j;
    interrupt_after_a_block("out", false);
    read_print(print);
    char *const at = strstr(print, "\"format\""), *const end = at ? strchr(at, ',') : NULL;
    ck_assert_msg(end, "%s", print);
    const int format = (int)strtol(at + strcspn(at, "0123456789"), NULL, 10);
    ck_assert_int_gt(format, 0);
    snprintf(expected, sizeof expected, "not this job: format was not given, is %d. --restart",
             format);
    memmove(at, end + 1, strlen(end + 1) + 1);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_journal_restart(&cx, job_path(&place, "out.partial"), print, &j),
                     PARE_OK);
    pare_journal_close(&cx, j);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, expected), "%s", what);
    ck_assert_uint_eq(finish("out", true), 0);
}
END_TEST

START_TEST(damaged_units_are_done_again_to_the_same_bytes)
{
    char first[PARE_SHA256_HEX];
    ck_assert_uint_eq(finish("whole", false), 0);
    job_hash(&place, "whole", first);
    interrupt_after_a_block("out", false);
    end_journal(0, "no results of a unit");
    finish_damaged(1, first);
    interrupt_after_a_block("out", false);
    end_journal(0, "no results of a unit");
    interrupt_after_a_block("out", false); /* once more, with a good journal behind it */
    finish_damaged(0, first);
    interrupt_after_a_block("out", false);
    end_journal(1, "no results of a unit");
    finish_damaged(1, first);
    interrupt_after_a_block("out", false);
    ck_assert_int_eq(unlink(job_path(&place, "out.partial/packed-00001-of-00001.safetensors")), 0);
    finish_damaged(1, first);
    interrupt_after_a_block("out", false);
    put("out.partial/journal", "PJ01, and then nothing that was a journal of a run");
    finish_damaged(1, first);
    interrupt_after_a_block("out", false);
    put("out.partial/activations", "of a run that was killed");
    put("out.partial/README.md.tmp", "half");
    finish_damaged(0, first);
}
END_TEST

static void mark_replaced(const char *output, const char *partial)
{
    pare_ctx cx;
    pare_arena a;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, output));
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_owned_mark_replaced(&cx, path, job_path(&place, partial)), PARE_OK);
    pare_arena_release(&a);
}

START_TEST(what_a_killed_run_left_goes_with_any_later_run)
{
    char from[512], to[512];
    ck_assert_uint_eq(finish("out", false), 0);
    (void)snprintf(from, sizeof from, "%s", job_path(&place, "out"));
    (void)snprintf(to, sizeof to, "%s", job_path(&place, "out.partial"));
    ck_assert_int_eq(rename(from, to), 0); /* an output that was replaced, and another one */
    ck_assert_uint_eq(finish("other", false), 0);
    mark_replaced("out.partial", "other");
    (void)snprintf(to, sizeof to, "%s", job_path(&place, "other"));
    ck_assert_int_eq(rename(to, from), 0);
    mark_replaced("out", "out.partial"); /* stopped before the exchange */
    put("out.lock", "pare lock: pare compress (process 1 on elsewhere, since then)\n");
    ck_assert_uint_eq(finish("out", false), 0);
    ck_assert(!there("out/journal") && !there("out.partial") && !there("out.lock"));
    ck_assert_uint_eq(findings("out"), 0);
}
END_TEST

/* Each differs from the job of the output in one thing. */
static const struct {
    const char *set, *file, *says;
} others[] = {{"seed=6", NULL, "its recipe says \"seed: 5\" where this one says \"seed: 6\""},
              {NULL, "out/config.json",
               "its file config.json is missing or damaged (pare verify looks into all of them); "
               "move it away"},
              {NULL, "model/config.json", "it was made of another config.json"},
              {NULL, "tokens.i32", "it was calibrated with other tokens"},
              {NULL, "model/chat_template.jinja", "it has another chat_template.jinja"}};

START_TEST(another_job_is_told_what_differs)
{
    char what[1024], first[PARE_SHA256_HEX], then[PARE_SHA256_HEX];
    ck_assert_uint_eq(finish("out", false), 0);
    job_hash(&place, "out", first);
    job_opts o = {.output = "out"};
    if (others[_i].set)
        o.sets[o.set_count++] = others[_i].set;
    if (others[_i].file) {
        FILE *const f = fopen(job_path(&place, others[_i].file), _i == 3 ? "r+b" : "ab");
        ck_assert(f && fputs(_i == 3 ? "\1" : "\n", f) >= 0 && fclose(f) == 0);
    }
    ck_assert_int_eq(job_run(&place, o, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, others[_i].says), "%s", what);
    ck_assert(!there("out.partial") && !there("out.lock"));
    if (_i != 1) {
        job_hash(&place, "out", then);
        ck_assert_str_eq(first, then);
    }
}
END_TEST

START_TEST(a_plan_can_be_looked_at_when_the_output_exists)
{
    pare_ctx cx;
    pare_arena a;
    pare_plan plan;
    char path[512], output[512];
    ck_assert_uint_eq(finish("out", false), 0);
    (void)snprintf(path, sizeof path, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, "out"));
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_job job = {.recipe = path, .output = output, .plan_only = true};
    ck_assert_int_eq(pare_plan_make(&cx, &a, &job, &plan), PARE_OK);
    ck_assert(!plan.settled.replaces);
    pare_plan_close(&plan);
    pare_arena_release(&a);
}
END_TEST

static void count_blocks(void *self, const pare_event *e)
{
    *(size_t *)self += e->kind == PARE_EVENT_BLOCK;
}

/* Runs as another user, who must be told before a block is done. */
static void refused_early(bool restart, pare_status status, const char *message)
{
    size_t blocks = 0;
    char what[1024];
    const pare_events events = {count_blocks, &blocks};
    const job_opts o = {.output = "out", .restart = restart, .events = &events};
    unit_be_nobody();
    const pare_status s = job_run(&place, o, what);
    unit_be_again();
    ck_assert_msg(s == status && strstr(what, message), "%s: %s", pare_strstatus(s), what);
    ck_assert_uint_eq(blocks, 0);
}

/* The last step would fail after hours. */
START_TEST(an_output_that_may_not_be_written_into_is_refused_before_work)
{
    ck_assert_uint_eq(finish("out", false), 0);
    ck_assert_int_eq(chmod(place.root, 0777) | chmod(job_path(&place, "out"), 0555), 0);
    refused_early(true, PARE_EIO, "/out: cannot replace what lies in the directory: Permission");
}
END_TEST

START_TEST(a_file_beside_the_weights_that_cannot_be_read_is_refused_before_work)
{
    put("model/tokenizer_config.json", "{}");
    ck_assert_int_eq(chmod(place.root, 0777) | chmod(job_path(&place, "model"), 0755), 0);
    ck_assert_int_eq(chmod(job_path(&place, "model/tokenizer_config.json"), 0), 0);
    refused_early(false, PARE_EFORMAT, "model/tokenizer_config.json: cannot open: Permission");
    ck_assert_int_eq(unlink(job_path(&place, "model/tokenizer_config.json")), 0);
    ck_assert_int_eq(symlink("blob", job_path(&place, "model/tokenizer_config.json")), 0);
    refused_early(false, PARE_ENOTFOUND, "tokenizer_config.json: is a link to a file that is not");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("restart");
    TCase *const tc = tcase_create("outputs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 120);
    tcase_add_test(
        tc, an_interrupted_restart_is_continued_by_default_and_keeps_the_old_output_until_then);
    tcase_add_loop_test(tc, an_output_that_came_to_the_place_of_another_is_not_replaced, 0, 2);
    tcase_add_test(tc, a_recipe_of_many_encodings_continues_to_the_same_bytes);
    tcase_add_test(tc, files_of_another_artifact_do_not_get_into_the_output);
    tcase_add_test(tc, a_folder_of_the_user_by_the_name_of_the_partial_one_is_not_touched);
    tcase_add_test(tc, a_restart_does_not_touch_the_files_of_a_run_in_progress);
    tcase_add_test(tc, an_output_that_appears_during_the_run_is_not_replaced);
    tcase_add_test(tc, an_output_behind_a_link_is_replaced_where_it_lies);
    tcase_add_test(tc, a_new_output_may_lie_in_directories_that_start_with_a_dot);
    tcase_add_test(tc, tensors_that_were_damaged_between_two_runs_are_found_or_written_again);
    tcase_add_test(tc, a_journal_without_the_format_is_not_continued);
    tcase_add_test(tc, damaged_units_are_done_again_to_the_same_bytes);
    tcase_add_test(tc, what_a_killed_run_left_goes_with_any_later_run);
    tcase_add_loop_test(tc, another_job_is_told_what_differs, 0, 5);
    tcase_add_test(tc, a_plan_can_be_looked_at_when_the_output_exists);
    tcase_add_test(tc, an_output_that_may_not_be_written_into_is_refused_before_work);
    tcase_add_test(tc, a_file_beside_the_weights_that_cannot_be_read_is_refused_before_work);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
