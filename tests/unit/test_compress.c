#include <limits.h>
#include <sys/mman.h>
#include <sys/statvfs.h>

#include "tests/unit/job.h"
#include "tests/unit/tensor_at.h"

static const char gptq_recipe[] = "pare: 1\n"
                                  "model: model\n"
                                  "seed: 5\n"
                                  "calibration: {tokens: tokens.i32, samples: 20, window: 64}\n"
                                  "passes:\n"
                                  "  - gptq: {bits: 4, group: 32, symmetric: false}\n"
                                  "evaluate:\n"
                                  "  - perplexity: {tokens: tokens.i32, window: 64}\n"
                                  "  - kl: {tokens: tokens.i32, window: 64}\n";

static job_place place;
static uint64_t disk_free; /* what is said to be free, or 0: what is; statvfs64 is wrapped */

int __real_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs);
int __wrap_statvfs64(const char *path, struct statvfs *fs)
{
    const int rc = __real_statvfs64(path, fs);
    if (rc == 0 && disk_free)
        fs->f_bavail = disk_free / fs->f_frsize;
    return rc;
}

static int no_writes; /* into folders: the status of the system, or 0 */

int __real_access(const char *path, int mode);
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
    if (!no_writes || !(mode & W_OK))
        return __real_access(path, mode);
    errno = no_writes;
    return -1;
}

static int no_maps; /* of files that others write to: the status of the system, or 0 */

void *__real_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap64(void *at, size_t len, int protection, int flags, int fd, off_t offset)
{
    if (!no_maps || protection != PROT_READ || flags != MAP_SHARED)
        return __real_mmap64(at, len, protection, flags, fd, offset);
    errno = no_maps;
    return MAP_FAILED;
}

static void setup(void)
{
    const tiny_model m = tiny_model_default();
    disk_free = 0;
    no_maps = 0;
    no_writes = 0;
    place = job_make(&m);
    job_recipe(&place, gptq_recipe);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

START_TEST(a_file_system_without_shared_maps_gives_the_same_bytes)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one"}, NULL), PARE_OK);
    job_hash(&place, "one", first);
    no_maps = ENODEV;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "two"}, NULL), PARE_OK);
    job_hash(&place, "two", other);
    ck_assert_str_eq(first, other);
    no_maps = ENOMEM;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "three"}, NULL), PARE_ENOMEM);
}
END_TEST

START_TEST(bytes_are_the_same_for_any_thread_count_and_directory)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "one", .threads = 1}, NULL), PARE_OK);
    job_hash(&place, "one", first);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "deep/er/two", .threads = 2}, NULL),
                     PARE_OK);
    job_hash(&place, "deep/er/two", other);
    ck_assert_str_eq(first, other);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "five", .threads = 5}, NULL), PARE_OK);
    job_hash(&place, "five", other);
    ck_assert_str_eq(first, other);
    const job_opts seeded = {.output = "seeded", .sets = {"seed=6"}, .set_count = 1};
    ck_assert_int_eq(job_run(&place, seeded, NULL), PARE_OK);
    job_hash(&place, "seeded", other);
    ck_assert_str_ne(first, other);
}
END_TEST

/* What the events of a job said. */
typedef struct heard {
    pare_event_kind wanted;
    size_t count;
    volatile int stop; /* for a job that shall end there */
} heard;

static void hear(void *self, const pare_event *e)
{
    heard *const h = self;
    h->count += e->kind == h->wanted;
    h->stop = h->count > 0;
}

/* Makes the plan of the recipe with a memory limit; its status. `check` may look at it. With `only`
 * it is the plan that `pare plan` makes. */
static pare_status plan_of_job(const char *output_name, uint64_t ram_limit, bool only,
                               void (*check)(const pare_plan *plan), char *what)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char recipe[512], output[512];
    (void)snprintf(recipe, sizeof recipe, "%s", job_path(&place, "recipe.yaml"));
    (void)snprintf(output, sizeof output, "%s", job_path(&place, output_name));
    const pare_job job = {
        .recipe = recipe, .output = output, .ram_limit = ram_limit, .plan_only = only};
    pare_plan plan;
    const pare_status s = pare_plan_make(&cx, &a, &job, &plan);
    if (s == PARE_OK && check)
        check(&plan);
    if (what)
        (void)snprintf(what, sizeof cx.what, "%s", cx.what);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return s;
}

static pare_status plan_of(const char *output_name, uint64_t ram_limit,
                           void (*check)(const pare_plan *plan))
{
    return plan_of_job(output_name, ram_limit, false, check, NULL);
}

/* A finished output needs no more room. */
START_TEST(a_folder_that_takes_no_files_is_refused_by_plan)
{
    char what[1024];
    no_writes = EROFS;
    ck_assert_int_eq(plan_of_job("out", 0, true, NULL, what), PARE_EIO);
    ck_assert_msg(strstr(what, ": cannot write into this folder: Read-only file system; give "
                               "another --output"),
                  "%s", what);
    no_writes = 0;
    ck_assert_int_eq(plan_of_job("out", 0, true, NULL, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    no_writes = EROFS;
    ck_assert_int_eq(plan_of_job("out", 0, true, NULL, NULL), PARE_OK);
}
END_TEST

START_TEST(bytes_are_the_same_when_activations_spill)
{
    char first[PARE_SHA256_HEX], other[PARE_SHA256_HEX];
    /* more windows than pass through memory at a time: fewer take as much in a file; weighing
     * tokens would take as much as they do */
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), tiny_model_default().vocab,
                                (size_t)64 << 8, 3));
    job_recipe(&place, _i ? "pare: 1\nmodel: model\npasses: [gptq: {correct: gptaq}]\n"
                            "calibration: {tokens: tokens.i32, samples: 256, window: 64, "
                            "token_weights: even}\n"
                          : "pare: 1\nmodel: model\npasses: [gptq]\n"
                            "calibration: {tokens: tokens.i32, samples: 256, window: 64, "
                            "token_weights: even}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "memory"}, NULL), PARE_OK);
    job_hash(&place, "memory", first);
    heard h = {.wanted = PARE_EVENT_NOTICE};
    const pare_events events = {hear, &h};
    /* between what a block needs and that plus the activations: found by bisection on the plan */
    uint64_t low = 1, high = (uint64_t)1 << 32;
    while (high - low > 1024) {
        const uint64_t mid = low + (high - low) / 2;
        const pare_status s = plan_of("plan", mid, NULL);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        if (s == PARE_OK)
            high = mid;
        else
            low = mid;
    }
    high += 1024; /* the job has a pool of threads, which the plan alone has not */
    const job_opts tight = {.output = "file", .ram_limit = high, .events = &events};
    ck_assert_int_eq(job_run(&place, tight, NULL), PARE_OK);
    ck_assert_uint_eq(h.count, 1);
    job_hash(&place, "file", other);
    ck_assert_str_eq(first, other);
    /* how many windows there are is known only once the data is read */
    const job_opts all = {.output = "all",
                          .ram_limit = high,
                          .sets = {"calibration.samples=all"},
                          .set_count = 1,
                          .events = &events};
    ck_assert_int_eq(job_run(&place, all, NULL), PARE_OK);
    ck_assert_uint_eq(h.count, 2);
}
END_TEST

START_TEST(a_finished_output_stays_and_is_replaced_on_restart)
{
    char what[1024];
    struct stat first, then;
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(stat(job_path(&place, "out"), &first), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert(stat(job_path(&place, "out"), &then) == 0 && first.st_ino == then.st_ino);
    const job_opts other = {.output = "out", .sets = {"passes.0.gptq.damp=0.02"}, .set_count = 1};
    ck_assert_int_eq(job_run(&place, other, what), PARE_EEXISTS);
    ck_assert_msg(strstr(what, "where this one says \"damp: 0.02\"; give --restart"), "%s", what);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .restart = true}, NULL), PARE_OK);
    ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "model", .restart = true}, what),
                     PARE_EEXISTS);
    ck_assert_int_eq(mkdir(job_path(&place, "mine"), 0777), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "mine", .restart = true}, what),
                     PARE_EEXISTS);
    ck_assert_msg(strstr(what, "is no artifact of pare"), "%s", what);
}
END_TEST

static void check_sizes(const pare_plan *plan)
{
    uint64_t bytes = 0;
    struct stat st;
    for (uint32_t i = 0; i < plan->settled.layout.shards; i++) {
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", job_path(&place, "out"),
                       plan->settled.layout.shard_name[i]);
        ck_assert_int_eq(stat(path, &st), 0);
        bytes += (uint64_t)st.st_size;
    }
    ck_assert_int_eq(stat(job_path(&place, "out/packed.index.json"), &st), 0);
    ck_assert_uint_eq(bytes + (uint64_t)st.st_size, plan->settled.packed_bytes);
}

START_TEST(packed_files_have_the_size_that_the_plan_said)
{
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    ck_assert_int_eq(plan_of("other", 0, check_sizes), PARE_OK);
}
END_TEST

static void mistake(const char *recipe, pare_status status, const char *fragment)
{
    char what[1024];
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), status);
    ck_assert_msg(strstr(what, fragment), "\"%s\" lacks \"%s\"", what, fragment);
    ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
}

START_TEST(mistakes_are_found_before_any_work)
{
    mistake("pare: 1\nmodel: model\npasses:\n  - gptq: {bits: 4}\n", PARE_EUSAGE,
            "recipe.yaml:4:5: gptq needs calibration data");
    mistake("pare: 1\npasses: [rtn]\n", PARE_EUSAGE,
            "recipe.yaml:1:1: no model; write \"model: PATH\" or give --model PATH");
    mistake("pare: 1\nmodel: nowhere\npasses: [rtn]\n", PARE_EUSAGE, "recipe.yaml:2:8: ");
    mistake("pare: 1\nmodel: nowhere\npasses: [rtn]\n", PARE_EUSAGE,
            "nowhere: there is no such model");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {targets: \"*.q_porj\"}\n", PARE_EUSAGE,
            "matches no linear of the model; the nearest is \"model.layers.0.self_attn.q_proj\"");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {skip: \"*.nope\"}\n", PARE_EUSAGE,
            "skip: \"*.nope\" matches no linear");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {targets: [\"*.q_proj\", lm_head]}\n",
            PARE_EUSAGE,
            "recipe.yaml:4:33: targets: \"lm_head\" names lm_head, which has a key of "
            "its own");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {skip: 're:(.|..)+!|q'}\n", PARE_EUSAGE,
            "recipe.yaml:4:17: regular expression \"(.|..)+!|q\" on "
            "\"model.layers.0.self_attn.q_proj\" "
            "(write it without repeats of repeats): too many steps on this text");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn\n  - rtn: {bits: 8}\n", PARE_EUSAGE,
            "is already quantized by pass 0 (rtn)");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {skip: \"*\"}\n", PARE_EUSAGE,
            "leave no linear");
    mistake("pare: 1\nmodel: model\npasses:\n  - rtn: {group: 32, tail: error}\n", PARE_EUSAGE,
            "group 32 does not divide the 48 inputs");
    mistake("pare: 1\nmodel: model\npasses: [nvfp4]\n", PARE_EUSAGE,
            "NVFP4 needs rows of a multiple of 16 weights, this one has 72: take mxfp4, in a step "
            "of its own with targets, and leave this linear out here with skip");
    mistake(
        "pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, window: 16}\n"
        "passes: [{budget: {grids: trellis}}]\n",
        PARE_EUSAGE,
        "budget: model.layers.0.self_attn.q_proj: exl3 has tiles of 16 x 16 weights, which do not "
        "divide a matrix of 72 x 48: leave it out with skip, or take grids: uniform");
    mistake("pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, window: 65}\n"
            "passes: [gptq]\n",
            PARE_EUSAGE, "window 65 is above the model's context of 64");
    mistake("pare: 1\nmodel: model\ncalibration: {tokens: none.i32}\npasses: [gptq]\n", PARE_EUSAGE,
            "none.i32: no such file");
    mistake("pare: 1\nmodel: model\ncalibration: {text: recipe.yaml}\npasses: [gptq]\n",
            PARE_EUSAGE, "tokenizer.json is missing");
    mistake(
        "pare: 1\nmodel: model\npasses: [rtn]\nlimits: {ram: 1MiB}\n", PARE_ENOMEM,
        " of memory and the limit of \"limits\" of the recipe leaves 1.00 MiB; raise the limit");
    disk_free = 8192;
    mistake(gptq_recipe, PARE_ENOSPC, " of disk and 8.00 KiB are free there");
}
END_TEST

/* The output that the recipe names: where it may not lie, and the place that the message names. */
static void misplaced(const char *output, pare_status status, const char *fragment)
{
    static char recipe[2 * PATH_MAX];
    char what[1024], place_of[64] = "recipe.yaml:3:9: ";
    (void)snprintf(recipe, sizeof recipe, "pare: 1\nmodel: model\noutput: %s\npasses: [rtn]\n",
                   output);
    job_recipe(&place, recipe);
    ck_assert_int_eq(job_run(&place, (job_opts){.restart = true}, what), status);
    ck_assert_msg(strstr(what, place_of) && strstr(what, fragment), "\"%s\" lacks \"%s\"", what,
                  fragment);
}

START_TEST(an_output_that_cannot_be_has_its_place)
{
    char what[1024];
    misplaced("model", PARE_EEXISTS, "the output would replace the model at");
    misplaced(".", PARE_EEXISTS, "the output would replace the model at");
    misplaced("model/new", PARE_EUSAGE, "lies inside");
    misplaced("recipe.yaml", PARE_EEXISTS, "the output is a file");
    misplaced("recipe.yaml/new", PARE_EUSAGE, "the path leads through a file");
    misplaced("new/..", PARE_EUSAGE, "the output must end in a name");
    static char name[PATH_MAX];
    memset(name, 'n', NAME_MAX - 16);
    ck_assert_int_eq(plan_of(name, 0, NULL), PARE_OK);
    name[NAME_MAX - 16] = 'n';
    misplaced(name, PARE_EUSAGE, "n...: the path of the output is too long: ");
    for (size_t i = 0; i < PATH_MAX - 128; i++)
        name[i] = i % 2 ? '/' : 'n';
    misplaced(name, PARE_EUSAGE, "n...: the path of the output is too long: ");
    ck_assert_int_eq(mkdir(job_path(&place, "own"), 0777), 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "own", .restart = true}, what),
                     PARE_EEXISTS);
    ck_assert_msg(strstr(what, "own: is no artifact of pare"), "%s", what);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "model/new"}, what), PARE_EUSAGE);
    ck_assert_msg(strncmp(what, "--output: ", 10) == 0, "%s", what);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "new/../out"}, what), PARE_EUSAGE);
    ck_assert_msg(strstr(what, "there is no directory ") && strstr(what, "/new "), "%s", what);
    ck_assert_int_ne(access(job_path(&place, "new"), F_OK), 0);
}
END_TEST

START_TEST(a_recipe_that_is_too_long_is_no_damaged_input)
{
    enum { LONG = (1 << 20) + 1 };
    char *const text = malloc(LONG + 1), what[1024];
    ck_assert_ptr_nonnull(text);
    memset(text, '#', LONG);
    text[LONG] = '\0';
    job_recipe(&place, text);
    free(text);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(
        strstr(what, "recipe.yaml:1:1: 1048577 bytes; a recipe has at most 1048576"));
}
END_TEST

START_TEST(too_few_windows_are_an_error_that_names_the_numbers)
{
    mistake("pare: 1\nmodel: model\ncalibration: {tokens: tokens.i32, samples: 25, window: 64}\n"
            "passes: [gptq]\n",
            PARE_EUSAGE, "asked for 25 windows of 64 tokens, the calibration data has 1536 tokens");
}
END_TEST

START_TEST(a_tied_head_may_be_skipped_by_name)
{
    job_recipe(&place, "pare: 1\nmodel: model\npasses:\n  - rtn: {skip: [lm_head]}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
}
END_TEST

/* Puts an infinity into the middle of the weights file. */
static void poison(const char *path)
{
    const int fd = open(path, O_RDWR);
    ck_assert_int_ge(fd, 0);
    const off_t size = lseek(fd, 0, SEEK_END);
    const uint8_t infinity[2] = {0x00, 0x7c};
    ck_assert_int_eq(pwrite(fd, infinity, 2, size / 4 * 2), 2);
    ck_assert_int_eq(close(fd), 0);
}

/* What the manifest says of tensors of the input, all together. */
static uint64_t repaired_weights(const char *path)
{
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_json *doc;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_file_read(&cx, &a, path, 1 << 20, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, path, text, len, 1 << 20, &doc), PARE_OK);
    uint64_t sum = 0;
    const char *key;
    const pare_json *v;
    for (pare_json_iter it = {0}; pare_json_next(pare_json_get(doc, "repaired"), &it, &key, &v);)
        sum += (uint64_t)pare_json_integer(v, 0);
    pare_json_free(doc);
    pare_arena_release(&a);
    return sum;
}

START_TEST(infinite_weights_are_an_error_or_repaired_as_the_recipe_says)
{
    char what[1024];
    poison(job_path(&place, "model/model.safetensors"));
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_ENUMERIC);
    ck_assert_ptr_nonnull(strstr(what, ": 1 weight is NaN or infinite, the first is element "));
    heard h = {.wanted = PARE_EVENT_NOTICE};
    const pare_events events = {hear, &h};
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\nnan: zero\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out", .events = &events}, NULL),
                     PARE_OK);
    ck_assert_uint_eq(h.count, 1);
    ck_assert_uint_eq(repaired_weights(job_path(&place, "out/manifest.json")), 1);
}
END_TEST

START_TEST(a_norm_that_is_not_finite_is_an_error_or_repaired_too)
{
    char what[1024], path[512];
    (void)snprintf(path, sizeof path, "%s", job_path(&place, "model/model.safetensors"));
    const off_t at = tensor_at(path, "model.norm.weight", NULL);
    const int fd = open(path, O_RDWR);
    ck_assert_int_eq(pwrite(fd, "\x00\x7e", 2, at), 2);
    ck_assert_int_eq(close(fd), 0);
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(what, "NaN"));
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\nnan: clamp\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
}
END_TEST

START_TEST(evaluations_are_looked_at_before_the_work)
{
    char what[1024];
    ck_assert(tiny_tokens_write(job_path(&place, "few.i32"), 97, 63, 3));
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [rtn]\nevaluate:\n"
                       "  - perplexity: {tokens: few.i32, window: 64}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, what), PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(what, "recipe.yaml:5:5: few.i32 has 63 tokens, fewer than one"));
    ck_assert(!pare_path_is_directory(job_path(&place, "out.partial")));
}
END_TEST

START_TEST(the_allocator_keeps_to_the_limit_and_all_samples_are_counted)
{
    char what[1024];
    const tiny_model m = tiny_model_default();
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), m.vocab, (size_t)64 << 13, 3));
    job_recipe(&place, "pare: 1\nmodel: model\npasses: [gptq]\n"
                       "calibration: {tokens: tokens.i32, samples: all, window: 64}\n");
    const uint64_t limit = (uint64_t)90 << 20; /* activations alone: 96 MiB */
    heard h = {.wanted = PARE_EVENT_NOTICE};
    const pare_events events = {hear, &h};
    const job_opts o = {
        .output = "out", .ram_limit = limit, .events = &events, .interrupt = &h.stop};
    ck_assert_int_eq(job_run(&place, o, what), PARE_EINTERRUPTED);
    ck_assert_uint_eq(h.count, 1);
    h = (heard){.wanted = PARE_EVENT_NOTICE};
    disk_free = 8 << 20; /* enough for all but the activations */
    ck_assert_int_eq(job_run(&place, o, what), PARE_ENOSPC);
    ck_assert_msg(strstr(what, " MiB of disk and 8.00 MiB are free there"), "%s", what);
    disk_free = 0;
    ck_assert(tiny_tokens_write(job_path(&place, "tokens.i32"), m.vocab, (size_t)64 << 18, 3));
    ck_assert_int_eq(job_run(&place, o, what), PARE_ENOMEM); /* 64 MiB of tokens */
}
END_TEST

START_TEST(all_pass_options_run)
{
    static const char *const options[] = {
        "rtn: {bits: 2, group: row}",
        "rtn: {bits: 3, group: 32, symmetric: false, clip: mse}",
        "rtn: {bits: 8, group: 64}",
        "gptq: {bits: 4, group: 32, act_order: true}",
        "gptq: {bits: 3, group: row, symmetric: false, true_sequential: true}",
        "gptq: {bits: 2, group: 64, clip: mse, damp: 0.1, block: 32}",
        "gptq: {bits: 8, targets: \"*.mlp.*\", skip: [\"re:.*layers\\\\.0\\\\..*\"]}",
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        char recipe[1024], output[32];
        (void)snprintf(recipe, sizeof recipe,
                       "pare: 1\nmodel: model\n"
                       "calibration: {tokens: tokens.i32, samples: all, window: 64}\n"
                       "passes:\n  - %s\n",
                       options[i]);
        (void)snprintf(output, sizeof output, "out%zu", i);
        job_recipe(&place, recipe);
        ck_assert_int_eq(job_run(&place, (job_opts){.output = output}, NULL), PARE_OK);
    }
}
END_TEST

/* A stop that comes while the wave goes through a block, or a linear is rounded. */
typedef struct stopper {
    volatile int stop;
    const char *at;
    size_t blocks; /* that were finished */
} stopper;

static void stop_at(void *self, const char *what, double done, double total)
{
    stopper *const s = self;
    (void)total;
    if (strstr(what, s->at) && done >= 0)
        s->stop = 1;
}

static void count_blocks(void *self, const pare_event *e)
{
    ((stopper *)self)->blocks += e->kind == PARE_EVENT_BLOCK;
}

START_TEST(a_stop_does_not_wait_for_the_block)
{
    char what[1024];
    stopper s = {.at = "gathering statistics"};
    const pare_events events = {count_blocks, &s};
    job_recipe(&place, gptq_recipe);
    job_opts o = {.output = "cut", .events = &events, .interrupt = &s.stop, .report = stop_at};
    o.self = &s;
    ck_assert_int_eq(job_run(&place, o, what), PARE_EINTERRUPTED);
    ck_assert_uint_eq(s.blocks, 0);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "cut"}, NULL), PARE_OK);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "whole"}, NULL), PARE_OK);
    job_check_same(&place, "cut", "whole");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("compress");
    TCase *const tc = tcase_create("jobs");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 240);
    tcase_add_test(tc, bytes_are_the_same_for_any_thread_count_and_directory);
    tcase_add_test(tc, a_folder_that_takes_no_files_is_refused_by_plan);
    tcase_add_loop_test(tc, bytes_are_the_same_when_activations_spill, 0, 2);
    tcase_add_test(tc, a_finished_output_stays_and_is_replaced_on_restart);
    tcase_add_test(tc, packed_files_have_the_size_that_the_plan_said);
    tcase_add_test(tc, mistakes_are_found_before_any_work);
    tcase_add_test(tc, an_output_that_cannot_be_has_its_place);
    tcase_add_test(tc, a_recipe_that_is_too_long_is_no_damaged_input);
    tcase_add_test(tc, too_few_windows_are_an_error_that_names_the_numbers);
    tcase_add_test(tc, a_tied_head_may_be_skipped_by_name);
    tcase_add_test(tc, infinite_weights_are_an_error_or_repaired_as_the_recipe_says);
    tcase_add_test(tc, a_norm_that_is_not_finite_is_an_error_or_repaired_too);
    tcase_add_test(tc, evaluations_are_looked_at_before_the_work);
    tcase_add_test(tc, the_allocator_keeps_to_the_limit_and_all_samples_are_counted);
    tcase_add_test(tc, a_file_system_without_shared_maps_gives_the_same_bytes);
    tcase_add_test(tc, a_stop_does_not_wait_for_the_block);
    tcase_add_test(tc, all_pass_options_run);
    suite_add_tcase(s, tc);
    return unit_main(s);
}
