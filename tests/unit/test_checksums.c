/* What pare wrote is held against its manifest before it is used: damage and mixed-up files are
 * refused by name, by the library and by every command that runs or exports a model. */
#include "formats/checksums.h"

#include <sys/stat.h>
#include <sys/wait.h>

#include "compress/export/export.h"
#include "runtime/random.h"
#include "tests/unit/job.h"

#include "tests/unit/folder.h"

enum { FLIPS = 20, SCALES = 8 };

static job_place place;
static const char weights_name[] = "packed-00001-of-00001.safetensors";

/* out: an artifact; other: one of the same shapes from other weights; small: a plain checkpoint. */
static void setup(void)
{
    static const char packed[] = "pare: 1\nmodel: model\npasses:\n  - rtn: {bits: 4, group: 32}\n";
    static const char smaller[] = "pare: 1\nmodel: model\n"
                                  "calibration: {tokens: tokens.i32, samples: 4, window: 32}\n"
                                  "passes:\n  - flap: {ratio: 0.5}\n";
    tiny_model m = tiny_model_default();
    place = job_make(&m);
    FILE *const f = fopen(job_path(&place, "model/tokenizer.json"), "wb");
    ck_assert(f && fputs("{}", f) >= 0 && fclose(f) == 0);
    job_recipe(&place, packed);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "out"}, NULL), PARE_OK);
    job_recipe(&place, smaller);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "small"}, NULL), PARE_OK);
    m.seed++;
    ck_assert(tiny_model_write(&m, job_path(&place, "model")));
    job_recipe(&place, packed);
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "other"}, NULL), PARE_OK);
}

static void teardown(void)
{
    job_remove_directory(place.root);
}

static const char *inside(const char *directory, const char *file)
{
    char name[256];
    (void)snprintf(name, sizeof name, "%s/%s", directory, file);
    return job_path(&place, name);
}

static void store(const char *path, const char *bytes, size_t len)
{
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(bytes, 1, len, f) == len && fclose(f) == 0);
}

static void flip(const char *path, size_t at, unsigned bit)
{
    const int fd = open(path, O_RDWR);
    unsigned char byte;
    ck_assert(fd >= 0 && pread(fd, &byte, 1, (off_t)at) == 1);
    byte ^= (unsigned char)(1u << bit);
    ck_assert(pwrite(fd, &byte, 1, (off_t)at) == 1 && close(fd) == 0);
}

/* Opens and checks; the message is copied to `what`. */
static pare_status check(const char *name, bool *checked, char what[1024])
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_pool_new(&cx, 2, &cx.pool), PARE_OK);
    *checked = false;
    pare_status s = pare_checkpoint_open(&cx, &a, job_path(&place, name), &ck);
    if (s == PARE_OK)
        s = pare_checkpoint_check(&ck, checked);
    (void)snprintf(what, 1024, "%s", cx.what);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
    return s;
}

static void check_is(const char *name, bool expected)
{
    bool checked;
    char what[1024];
    ck_assert_msg(check(name, &checked, what) == PARE_OK, "%s: %s", name, what);
    ck_assert(checked == expected);
}

static void check_refuses(const char *name, const char *fragment)
{
    bool checked;
    char what[1024];
    ck_assert_msg(check(name, &checked, what) != PARE_OK, "%s: not refused: %s", name, fragment);
    ck_assert_msg(strstr(what, fragment), "no \"%s\" in: %s", fragment, what);
    ck_assert(!checked);
}

/* Runs the program; its exit code, and what it wrote to a stream in `text`. */
static int call_for(const char *arguments, const char *stream, char text[4096])
{
    char command[4096];
    (void)snprintf(command, sizeof command, "'%s' %s --threads 1 %s", PARE_PROGRAM, arguments,
                   stream);
    FILE *const f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, 4095, f)] = '\0';
    const int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The same for stderr. */
static int call(const char *arguments, char text[4096])
{
    return call_for(arguments, "2>&1 >/dev/null", text);
}

enum { COMMANDS = 5 };

/* One way to use the artifact. */
static void write_command(size_t i, char out[1024])
{
    const char *const root = place.root;
    switch (i % COMMANDS) {
    case 0: (void)snprintf(out, 1024, "eval %s/out --tokens %s/tokens.i32", root, root); break;
    case 1:
        (void)snprintf(out, 1024, "export %s/out --format safetensors --output %s/floats --restart",
                       root, root);
        break;
    case 2:
        (void)snprintf(out, 1024, "generate %s/out --tokens 2 --output %s/g.i32 --restart", root,
                       root);
        break;
    case 3:
        (void)snprintf(out, 1024, "eval %s/model --baseline %s/out --tokens %s/tokens.i32", root,
                       root, root);
        break;
    default:
        (void)snprintf(out, 1024, "bench model %s/out --quick --prompt 4 --output 2 --batch 1",
                       root);
    }
}

/* A tensor of the artifact by its number, and where its bytes lie in the file. */
static size_t tensor_at(size_t i, const char *ending, char name[256], size_t *bytes)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "out"), &ck), PARE_OK);
    const pare_tensor *t;
    do
        t = &ck.tensor[i++ % ck.tensors];
    while (!strstr(t->name, ending));
    (void)snprintf(name, 256, "%s", t->name);
    *bytes = (size_t)t->bytes;
    const size_t at = (size_t)((const unsigned char *)t->data - ck.file[0].data);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
    return at;
}

START_TEST(whole_models_are_checked_and_those_of_others_are_left_alone)
{
    check_is("out", true);
    check_is("other", true);
    check_is("small", true);
    check_is("small/model.safetensors", true);
    check_is("model", false);
    static const char *const foreign[] = {"", "no JSON", "{\"name\": \"web app\"}"};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        store(inside("model", "manifest.json"), foreign[i], strlen(foreign[i]));
        check_is("model", false);
    }
    ck_assert_int_eq(unlink(inside("model", "manifest.json")), 0);
}
END_TEST

/* SHA256SUMS still tells that pare wrote it. */
START_TEST(a_plain_checkpoint_without_its_manifest_is_refused)
{
    static const char *const files[] = {"small", "small/model.safetensors"};
    char path[512], sums[512], hex[PARE_SHA256_HEX], line[2 * sizeof hex + 64];
    size_t len, sums_len;
    (void)snprintf(path, sizeof path, "%s", inside("small", "manifest.json"));
    (void)snprintf(sums, sizeof sums, "%s", inside("small", "SHA256SUMS"));
    char *const manifest = folder_get(path, &len), *const list = folder_get(sums, &sums_len);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(unlink(path), 0);
        check_refuses(files[i], "manifest.json: missing, so nothing says");
        store(path, "", 0);
        check_refuses(files[i], "SHA256SUMS says");
        store(sums, "of another form", 15);
        check_is(files[i], false);
        pare_ctx cx;
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_sha256_hex(&cx, "{}", 2, hex), PARE_OK);
        store(path, "{}", 2); /* whose it is, it is as it was */
        (void)snprintf(line, sizeof line, "%s  manifest.json\n%s  model.safetensors\n", hex, hex);
        store(sums, line, strlen(line));
        check_is(files[i], false);
        store(path, "", 0);
        store(sums, strchr(line, '\n') + 1, strlen(strchr(line, '\n') + 1));
        check_is(files[i], false); /* it lists no manifest */
        store(sums, line, (size_t)(strchr(line, '\n') + 1 - line));
        check_is(files[i], false); /* it lists no weights */
        store(sums, list, sums_len);
        store(path, manifest, len);
        check_is(files[i], true);
    }
    free(manifest);
    free(list);
}
END_TEST

START_TEST(a_tokenizer_that_nobody_listed_is_refused)
{
    static const char *const names[] = {"vocab.json", "added_tokens.json", "tokenizer_config.json"};
    static const char *const models[] = {"out", "small"};
    for (size_t i = 0; i < 6; i++) {
        const char *const model = models[i % 2], *const name = names[i / 2];
        char what[128];
        store(inside(model, name), "{}", 2);
        (void)snprintf(what, sizeof what, "%s is not among the outputs", name);
        check_refuses(model, what);
        ck_assert_int_eq(unlink(inside(model, name)), 0);
        check_is(model, true);
    }
}
END_TEST

/* Every flip is refused with the name of its tensor; each by one of the commands, in turns. */
START_TEST(a_flipped_bit_of_the_weights_is_refused_by_its_tensor)
{
    char name[256], command[1024], text[4096], path[512];
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s", inside("out", weights_name));
    for (size_t i = 0; i < FLIPS; i++) {
        const size_t begin = tensor_at(5 * i, "", name, &bytes);
        const size_t at = begin + (size_t)(pare_random_u64(7, 0, i) % bytes);
        flip(path, at, i % 8);
        check_refuses("out", name);
        write_command(i, command);
        ck_assert_msg(call(command, text) == 4, "%s: %s", command, text);
        ck_assert_msg(strstr(text, name) && strstr(text, "damaged or of another"), "%s", text);
        flip(path, at, i % 8);
    }
    check_is("out", true);
}
END_TEST

START_TEST(flipped_scales_are_refused)
{
    char name[256], command[1024], text[4096], path[512];
    size_t bytes, at[SCALES];
    (void)snprintf(path, sizeof path, "%s", inside("out", weights_name));
    for (size_t i = 0; i < SCALES; i++) {
        at[i] = tensor_at(11 * i, ".scales", name, &bytes) + 2 * i + 1;
        flip(path, at[i], 2);
    }
    check_refuses("out", ".scales is damaged");
    for (size_t i = 0; i < COMMANDS; i++) {
        write_command(i, command);
        ck_assert_msg(call(command, text) == 4 && strstr(text, ".scales is damaged"), "%s", text);
    }
    for (size_t i = 0; i < SCALES; i++)
        flip(path, at[i], 2);
    check_is("out", true);
}
END_TEST

START_TEST(unchecked_takes_weights_as_they_are_and_says_so)
{
    char name[256], command[1024], text[4096], path[512];
    size_t bytes;
    (void)snprintf(path, sizeof path, "%s", inside("out", weights_name));
    const size_t at = tensor_at(0, ".codes", name, &bytes);
    flip(path, at, 0);
    for (size_t i = 0; i < COMMANDS; i++) {
        char unchecked[1100];
        write_command(i, command);
        (void)snprintf(unchecked, sizeof unchecked, "%s --unchecked", command);
        ck_assert_msg(call(unchecked, text) == 0, "%s: %s", unchecked, text);
        ck_assert_msg(strstr(text, "warning: ") && strstr(text, "(--unchecked)"), "%s", text);
    }
    flip(path, at, 0);
}
END_TEST

START_TEST(json_says_whether_checksums_were_looked_at)
{
    static const struct {
        const char *model, *options, *member;
    } cases[] = {{"out", "", "\"checked\": true"},
                 {"out", "--unchecked", "\"checked\": false"},
                 {"model", "", "\"checked\": false"}};
    char command[1024], text[4096];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)snprintf(command, sizeof command,
                       "eval %s/%s --tokens %s/tokens.i32 --format json %s", place.root,
                       cases[i].model, place.root, cases[i].options);
        ck_assert_int_eq(call_for(command, "2>/dev/null", text), 0);
        ck_assert_msg(strstr(text, cases[i].member), "%s: %s", command, text);
    }
}
END_TEST

/* Every bit of the small files, byte by byte: none of them is used in silence. */
START_TEST(a_flip_beside_the_weights_is_refused_by_its_file)
{
    static const char *const files[] = {"config.json", "packed.index.json", "tokenizer.json"};
    for (size_t f = 0; f < sizeof files / sizeof *files; f++) {
        char path[512];
        size_t len;
        (void)snprintf(path, sizeof path, "%s", inside("out", files[f]));
        char *const bytes = folder_get(path, &len);
        for (size_t at = 0; at < len; at += len < 1000 ? 1 : 13) {
            flip(path, at, at % 8);
            bool checked;
            char what[1024];
            ck_assert_msg(check("out", &checked, what) != PARE_OK, "%s: byte %zu", files[f], at);
            flip(path, at, at % 8);
        }
        store(path, bytes, len);
        free(bytes);
    }
    check_is("out", true);
}
END_TEST

/* Replaces the first `from` behind `behind` in the manifest by `to`. */
static void edit(const char *behind, const char *from, const char *to)
{
    size_t len;
    char path[512];
    (void)snprintf(path, sizeof path, "%s", inside("out", "manifest.json"));
    char *const text = folder_get(path, &len), *const start = strstr(text, behind);
    char *const at = start ? strstr(start, from) : NULL;
    ck_assert_msg(at, "no %s", from);
    FILE *const f = fopen(path, "wb");
    ck_assert(f && fwrite(text, 1, (size_t)(at - text), f) == (size_t)(at - text) &&
              fputs(to, f) >= 0 && fputs(at + strlen(from), f) >= 0 && fclose(f) == 0);
    free(text);
}

START_TEST(a_manifest_that_is_missing_or_wrong_is_refused)
{
    static const struct {
        const char *behind, *from, *to, *what;
    } edits[] = {
        {"\"tensors\"", "\"model.norm.weight\": {", "\"model.form.weight\": {",
         "tensor model.norm.weight is not in manifest.json"},
        {"\"tensors\"", "\"model.norm.weight\": {",
         "\"more.weight\": {\"xxh3\": \"00\"}, \"model.norm.weight\": {",
         "more.weight: in the manifest, but in no weight file"},
        {"\"tensors\"", "\"tensors\": {", "\"tensors\": {\"more\": {},",
         "more: in the manifest, but not in packed.index.json"},
        {"\"tensors\"", "\"codes\": \"", "\"coves\": \"", ".codes is not in manifest.json"},
        {"\"kept\"", "\"dtype\": \"F", "\"dtype\": \"BF",
         "has another type or shape than manifest.json says"},
        {"\"outputs\"", "\"file\": \"config.json\"", "\"file\": \"confog.json\"",
         "config.json is not among the outputs"},
        {"\"outputs\"", "\"file\": \"packed.index.json\"", "\"file\": \"tokenizer.json\"",
         "packed.index.json is not among the outputs"},
        {"\"outputs\"", "\"file\": \"packed-", "\"file\": \"parked-",
         "safetensors is not among the outputs"},
        {"\"outputs\"", "\"file\": \"tokenizer.json\"", "\"file\": \"tokenizer.jso\"",
         "tokenizer.jso"},
        {"\"outputs\"", "\"file\": \"tokenizer.json\"", "\"file\": \"../model/config.json\"",
         "is malformed"},
        {"\"file\": \"tokenizer.json\"", "\"sha256\": \"", "\"sha256\": \"0", "SHA-256 is"},
        {"\"outputs\"", "\"bytes\": ", "\"bytes\": 1", "bytes, manifest.json says"},
        {"{", "\"format\": 1", "\"format\": ", "manifest.json:3:"},
    };
    char path[512], command[1024], text[4096];
    size_t len, other_len;
    (void)snprintf(path, sizeof path, "%s", inside("out", "manifest.json"));
    char *const whole = folder_get(path, &len);
    char *const other = folder_get(inside("other", "manifest.json"), &other_len);
    for (size_t i = 0; i < sizeof edits / sizeof *edits; i++) {
        edit(edits[i].behind, edits[i].from, edits[i].to);
        check_refuses("out", edits[i].what);
        store(path, whole, len);
    }
    store(path, other, other_len);
    check_refuses("out", "damaged or of another artifact");
    store(path, "", 0);
    check_refuses("out", "manifest.json");
    store(path, "{}", 2);
    check_refuses("out", "format is missing or not a whole number");
    ck_assert_int_eq(unlink(path), 0);
    check_refuses("out", "manifest.json: missing, so nothing says what the weights should be");
    for (size_t i = 0; i < COMMANDS; i++) {
        write_command(i, command);
        ck_assert_msg(call(command, text) == 4 && strstr(text, "manifest.json: missing"), "%s",
                      text);
    }
    store(path, whole, len);
    free(whole);
    free(other);
    check_is("out", true);
}
END_TEST

START_TEST(weights_of_another_artifact_of_the_same_shapes_are_refused)
{
    char path[512];
    size_t len, other_len;
    (void)snprintf(path, sizeof path, "%s", inside("out", weights_name));
    char *const mine = folder_get(path, &len);
    char *const other = folder_get(inside("other", weights_name), &other_len);
    ck_assert_uint_eq(len, other_len);
    store(path, other, other_len);
    check_refuses("out", "damaged or of another artifact");
    store(path, mine, len);
    free(mine);
    free(other);
    check_is("out", true);
}
END_TEST

START_TEST(a_plain_checkpoint_of_ours_is_checked_likewise)
{
    char path[512], what[1024];
    size_t len;
    bool checked;
    (void)snprintf(path, sizeof path, "%s", inside("small", "model.safetensors"));
    char *const bytes = folder_get(path, &len);
    free(bytes);
    flip(path, len - 1, 0);
    check_refuses("small", "is damaged or of another artifact");
    check_refuses("small/model.safetensors", "take manifest.json and SHA256SUMS out of it");
    job_recipe(&place, "pare: 1\nmodel: small\npasses:\n  - rtn: {bits: 8}\n");
    ck_assert_int_eq(job_run(&place, (job_opts){.output = "again"}, what), PARE_EFORMAT);
    ck_assert_msg(strstr(what, "is damaged or of another artifact"), "%s", what);
    flip(path, len - 1, 0);
    (void)snprintf(path, sizeof path, "%s", inside("small", "config.json"));
    flip(path, 3, 0);
    ck_assert_int_ne(check("small", &checked, what), PARE_OK);
    flip(path, 3, 0);
    check_is("small", true);
}
END_TEST

START_TEST(every_failed_allocation_of_a_check_is_reported)
{
    pare_ctx cx;
    pare_arena a;
    pare_checkpoint ck;
    bool checked = false;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &a, job_path(&place, "out"), &ck), PARE_OK);
    const pare_alloc real = cx.alloc;
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 1000; n++) {
        unit_failing failing = {.left = n};
        cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_checkpoint_check(&ck, &checked);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == checked && (s == PARE_OK) == (cx.what[0] == '\0'));
        ck_assert_int_eq(failing.live, 0);
        pare_ctx_clear(&cx);
    }
    ck_assert_int_eq(s, PARE_OK);
    const volatile int interrupted = 1;
    cx.alloc = real;
    cx.interrupt = &interrupted;
    ck_assert_int_eq(pare_checkpoint_check(&ck, &checked), PARE_EINTERRUPTED);
    pare_checkpoint_close(&ck);
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("checksums");
    TCase *const t = tcase_create("checksums");
    tcase_add_unchecked_fixture(t, setup, teardown);
    suite_add_tcase(s, t);
    tcase_add_test(t, whole_models_are_checked_and_those_of_others_are_left_alone);
    tcase_add_test(t, a_plain_checkpoint_without_its_manifest_is_refused);
    tcase_add_test(t, a_tokenizer_that_nobody_listed_is_refused);
    tcase_add_test(t, a_flipped_bit_of_the_weights_is_refused_by_its_tensor);
    tcase_add_test(t, flipped_scales_are_refused);
    tcase_add_test(t, unchecked_takes_weights_as_they_are_and_says_so);
    tcase_add_test(t, json_says_whether_checksums_were_looked_at);
    tcase_add_test(t, a_flip_beside_the_weights_is_refused_by_its_file);
    tcase_add_test(t, a_manifest_that_is_missing_or_wrong_is_refused);
    tcase_add_test(t, weights_of_another_artifact_of_the_same_shapes_are_refused);
    tcase_add_test(t, a_plain_checkpoint_of_ours_is_checked_likewise);
    tcase_add_test(t, every_failed_allocation_of_a_check_is_reported);
    return unit_main(s);
}
