#include <dirent.h>
#include <string.h>

#include "tests/unit/recipe_job.h"

#define CORPUS PARE_SOURCE_DIR "/tests/fuzz/corpus/recipe/"

static char *normal(job *j, bool portable)
{
    char *text = NULL;
    size_t len = 0;
    ck_assert_int_eq(
        pare_recipe_normalize(&j->cx, &j->a, &j->r, recipe_passes, portable, &text, &len), PARE_OK);
    ck_assert_uint_eq(strlen(text), len);
    return text;
}

START_TEST(a_full_recipe_is_read)
{
    job j;
    job_text(&j, full);
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    const pare_recipe *const r = &j.r;
    ck_assert_str_eq(r->file, "r.yaml");
    ck_assert_str_eq(r->model.text, "hedge");
    ck_assert_uint_eq(r->model.place.line, 2);
    ck_assert_uint_eq(r->model.place.column, 8);
    ck_assert_str_eq(r->output.text, "out");
    ck_assert_uint_eq(r->seed, 7);
    const pare_calibration *const c = &r->calibration;
    ck_assert_int_eq(c->kind, PARE_CALIBRATION_TEXT);
    ck_assert_uint_eq(c->place.line, 5);
    ck_assert_uint_eq(c->text.count, 2);
    ck_assert_str_eq(c->text.item[1].text, "b c.txt");
    ck_assert_uint_eq(c->text.item[1].place.column, 17);
    ck_assert_ptr_null(c->tokens.text);
    ck_assert_uint_eq(c->samples, 0);
    ck_assert_uint_eq(c->samples_place.line, 7);
    ck_assert_uint_eq(c->window, 256);
    ck_assert(c->window_given);
    ck_assert_uint_eq(c->window_place.line, 8);
    ck_assert_uint_eq(r->evaluations, 2);
    ck_assert_int_eq(r->evaluation[0].kind, PARE_EVALUATE_PERPLEXITY);
    ck_assert_str_eq(r->evaluation[0].text.text, "wiki.txt");
    ck_assert_ptr_null(r->evaluation[0].tokens.text);
    ck_assert_uint_eq(r->evaluation[0].window, 512);
    ck_assert(r->evaluation[0].window_given);
    ck_assert_int_eq(r->evaluation[1].kind, PARE_EVALUATE_KL);
    ck_assert_str_eq(r->evaluation[1].tokens.text, "wiki.i32");
    ck_assert_uint_eq(r->evaluation[1].place.line, 24);
    ck_assert_uint_eq(r->evaluation[1].window, 2048);
    ck_assert(!r->evaluation[1].window_given);
    ck_assert_uint_eq(r->ram_limit, UINT64_C(8) << 30);
    ck_assert_int_eq(r->nan, PARE_NAN_CLAMP);
    job_end(&j);
}
END_TEST

START_TEST(a_kv_cache_is_read_with_the_defaults_of_its_method)
{
    static const struct {
        const char *text;
        pare_kv_format want;
        const char *normal;
    } row[] = {
        {"{method: none}", {0}, ""},
        {"{method: int8}", {.method = PARE_KV_INT8}, "kv_cache:\n  method: int8\n"},
        {"{method: int4, group: head}",
         {.method = PARE_KV_INT4},
         "kv_cache:\n  method: int4\n  group: head\n"},
        {"{window: 32, method: kivi}",
         {.method = PARE_KV_KIVI, .group = 32, .window = 32},
         "kv_cache:\n  method: kivi\n  group: 32\n  window: 32\n"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        char text[256];
        job j;
        (void)snprintf(text, sizeof text, "pare: 1\npasses: [rtn]\nkv_cache: %s\n", row[i].text);
        job_text(&j, text);
        ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
        const pare_kv_format *const is = &j.r.kv, *const want = &row[i].want;
        ck_assert_int_eq(is->method, want->method);
        ck_assert_uint_eq(is->group, want->group);
        ck_assert_uint_eq(is->window, want->window);
        ck_assert_uint_eq(is->sink, want->sink);
        const char *const at = strstr(normal(&j, true), "kv_cache");
        ck_assert(at ? strncmp(at, row[i].normal, strlen(row[i].normal)) == 0 : !*row[i].normal);
        job_end(&j);
    }
    for (pare_kv_method m = PARE_KV_FLOAT; m < PARE_KV_METHODS; m++) {
        pare_kv_format usual = pare_kv_default(m);
        for (const pare_param *p = pare_kv_params(m); p->name; p++)
            ck_assert_double_eq(p->fallback, (double)*pare_kv_field(&usual, p->name));
    }
}
END_TEST

START_TEST(the_passes_of_a_full_recipe_are_read)
{
    const double rtn[] = {8, 0, 1, 1, 1}, gptq[] = {3, 64, 0, 0, 0, 1, 1, 0.05, 64};
    job j;
    job_text(&j, full);
    ck_assert_int_eq(j.s, PARE_OK);
    ck_assert_uint_eq(j.r.steps, 2);
    const pare_step *const step = j.r.step;
    ck_assert_uint_eq(step[0].pass, 0);
    ck_assert_uint_eq(step[0].place.line, 10);
    ck_assert_uint_eq(step[0].place.column, 5);
    ck_assert_mem_eq(step[0].value, rtn, sizeof rtn);
    ck_assert_uint_eq(step[0].value_place[2].line, 0);
    ck_assert_uint_eq(step[0].targets.count, 1);
    ck_assert_str_eq(step[0].targets.item[0].text, "*p");
    ck_assert_uint_eq(step[0].skip.count, 0);
    ck_assert_uint_eq(step[1].pass, 1);
    ck_assert_mem_eq(step[1].value, gptq, sizeof gptq);
    ck_assert_uint_eq(step[1].value_place[7].line, 19);
    ck_assert_uint_eq(step[1].value_place[7].column, 13);
    ck_assert_uint_eq(step[1].skip.count, 2);
    ck_assert_str_eq(step[1].skip.item[1].text, "*head");
    ck_assert_uint_eq(step[1].skip.item[1].place.line, 21);
    job_end(&j);
}
END_TEST

START_TEST(what_is_left_out_has_its_default)
{
    const double gptq[] = {4, 128, 1, 0, 0, 0, 0, 0.01, 128};
    job j;
    job_text(&j, "passes: [gptq]\npare: 1\n");
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert_ptr_null(j.r.model.text);
    ck_assert_ptr_null(j.r.output.text);
    ck_assert_uint_eq(j.r.seed, 0);
    ck_assert_int_eq(j.r.calibration.kind, PARE_CALIBRATION_NONE);
    ck_assert_uint_eq(j.r.calibration.samples, 128);
    ck_assert_uint_eq(j.r.calibration.window, 2048);
    ck_assert(!j.r.calibration.window_given);
    ck_assert(j.r.calibration.temperature == 1);
    ck_assert_uint_eq(j.r.steps, 1);
    ck_assert_uint_eq(j.r.step[0].pass, 1);
    ck_assert_mem_eq(j.r.step[0].value, gptq, sizeof gptq);
    ck_assert_str_eq(j.r.step[0].value_place[0].file, "r.yaml");
    ck_assert_uint_eq(j.r.step[0].value_place[0].line, 0);
    ck_assert_uint_eq(j.r.evaluations, 0);
    ck_assert_uint_eq(j.r.ram_limit, 0);
    ck_assert_int_eq(j.r.nan, PARE_NAN_ERROR);
    job_end(&j);
}
END_TEST

START_TEST(generated_calibration_is_read)
{
    job j;
    job_text(&j, "pare: 1\npasses: [gptq]\ncalibration: {generate: {temperature: 0.7}}\n");
    ck_assert_int_eq(j.s, PARE_OK);
    ck_assert_int_eq(j.r.calibration.kind, PARE_CALIBRATION_GENERATE);
    ck_assert(j.r.calibration.temperature == 0.7);
    job_end(&j);
}
END_TEST

START_TEST(line_ends_and_byte_order_mark_do_not_matter)
{
    char crlf[2 * sizeof full + 3] = "\xef\xbb\xbf", *to = crlf + 3;
    for (const char *p = full; *p; p++) {
        if (*p == '\n')
            *to++ = '\r';
        *to++ = *p;
    }
    *to = '\0';
    job unix_job, windows_job;
    job_text(&unix_job, full);
    job_text(&windows_job, crlf);
    ck_assert_msg(windows_job.s == PARE_OK, "%s", windows_job.cx.what);
    ck_assert_str_eq(normal(&unix_job, false), normal(&windows_job, false));
    ck_assert_uint_eq(windows_job.r.step[1].value_place[7].line, 19);
    ck_assert_uint_eq(windows_job.r.step[1].value_place[7].column, 13);
    ck_assert_uint_eq(windows_job.r.model.place.column, 8);
    job_end(&unix_job);
    job_end(&windows_job);
}
END_TEST

START_TEST(places_count_characters_from_one)
{
    job j;
    job_text(&j, "\xef\xbb\xbfpare: 1\r\n\r\npasses: [\"\xc3\xa9\"]\r\n");
    ck_assert_int_eq(j.s, PARE_EUSAGE);
    ck_assert_str_eq(j.cx.what, "r.yaml:3:10: unknown pass \"\xc3\xa9\"; known: rtn, gptq");
    job_end(&j);
    job_text(&j, "pare: 1\r\nmodel: \xc3\xa9\x01\n");
    ck_assert_str_eq(j.cx.what, "r.yaml:2:9: control character U+0001; a recipe is plain text");
    job_end(&j);
}
END_TEST

START_TEST(the_normal_form_is_canonical)
{
    static const char expected[] =
        "pare: 1\n"
        "model: \"hedge\"\n"
        "seed: 0\n"
        "calibration:\n"
        "  text: [\"a.txt\"]\n"
        "  samples: 128\n"
        "passes:\n"
        "  - rtn:\n"
        "      bits: 2\n"
        "      group: row\n"
        "      symmetric: true\n"
        "      clip: none\n"
        "      tail: short\n"
        "      skip: [\"a\\\"\\\\\", \"*\\u0009\"]\n"
        "evaluate:\n"
        "  - kl:\n"
        "      tokens: \"t.i32\"\n"
        "      window: 64\n"
        "      limit: 9\n"
        "  - choice:\n"
        "      file: \"piqa.jsonl\"\n"
        "      limit: 500\n"
        "export:\n"
        "  - {format: \"awq\", path: \"out/\\\"x\\\"\", tensor_parallel: 4}\n"
        "limits: {ram: 2048}\n"
        "nan: error\n";
    job j;
    job_text(&j, "limits: {ram: 2KiB}\nevaluate: [{kl: {limit: 9, window: 64, tokens: t.i32}}, "
                 "{choice: {limit: 500, file: piqa.jsonl}}] # why\n"
                 "passes: [{rtn: {skip: ['a\"\\', \"*\\t\"], group: row, bits: 2}}]\nmodel: hedge\n"
                 "calibration: {text: a.txt}\nexport: [{path: 'out/\"x\"', format: awq, "
                 "tensor_parallel: 4}]\n"
                 "pare: 1\n");
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert_str_eq(normal(&j, false), expected);
    job_end(&j);
}
END_TEST

START_TEST(the_portable_form_leaves_out_paths_and_limits)
{
    static const char *const other[] = {"model=x",
                                        "output=/y",
                                        "limits.ram=1MB",
                                        "calibration.text=[z.txt]",
                                        "evaluate.0.perplexity.text=z.txt",
                                        "evaluate.1.kl.window=2048",
                                        "export=[{format: awq, path: y}]"};
    job one, two;
    job_text(&one, full);
    job_sets(&two, full, other, 7);
    ck_assert_msg(two.s == PARE_OK, "%s", two.cx.what);
    ck_assert_str_eq(normal(&one, true), normal(&two, true));
    ck_assert_ptr_nonnull(strstr(normal(&one, true), "samples: all\n"));
    ck_assert_ptr_null(strstr(normal(&one, true), "hedge"));
    ck_assert_ptr_null(strstr(normal(&one, true), "txt"));
    job_end(&two);
    static const char *const seed[] = {"seed=8"}, *const bits[] = {"passes.1.gptq.bits=4"};
    job_sets(&two, full, seed, 1);
    ck_assert_str_ne(normal(&one, true), normal(&two, true));
    job_end(&two);
    job_sets(&two, full, bits, 1);
    ck_assert_str_ne(normal(&one, true), normal(&two, true));
    job_end(&two);
    job_end(&one);
}
END_TEST

static const struct {
    const char *set, *result; /* a line of the normal form */
} sets[] = {
    {"seed=18446744073709551615", "\nseed: 18446744073709551615\n"},
    {"model=a b", "\nmodel: \"a b\"\n"},
    {"model=x=y", "\nmodel: \"x=y\"\n"},
    {"model=\"a, b\"", "\nmodel: \"a, b\"\n"},
    {"output=new # why", "\noutput: \"new\"\n"},
    {"nan=zero", "\nnan: zero\n"},
    {"limits.ram=1KiB", "\nlimits: {ram: 1024}\n"},
    {"calibration={tokens: t.i32}", "\n  tokens: \"t.i32\"\n"},
    {"calibration={text: [{path: a, weight: 2.5}, b]}",
     "\n  text: [{path: \"a\", weight: 2.5}, {path: \"b\", weight: 1}]\n"},
    {"calibration.tokens=t.i32", "\n  tokens: \"t.i32\"\n"},
    {"calibration={text: a, experts: {min_tokens: 9}}",
     "\n  experts: {min_tokens: 9, cold: fill}\n"},
    {"calibration={text: a, experts: {cold: rtn}}", "\n  experts: {min_tokens: auto, cold: rtn}\n"},
    {"passes.0.gptq.bits=3", "\n      bits: 3\n"},
    {"passes.0.gptq.group=row", "\n      group: row\n"},
    {"passes.0.gptq.symmetric=false", "\n      symmetric: false\n"},
    {"passes.0.gptq.skip=[a, \"*b\"]", "\n      skip: [\"a\", \"*b\"]\n"},
    {"passes.0.gptq={damp: 0.5}", "\n      damp: 0.5\n"},
    {"passes.0=rtn", "\n  - rtn:\n"},
    {"passes=[rtn, gptq]", "\n  - rtn:\n"},
    {"evaluate=[{kl: {text: a}}]", "\n  - kl:\n      text: \"a\"\n"},
};

/* The last part of a path may be new in a list entry that is a bare name, null, or a mapping. */
START_TEST(overrides_change_the_recipe)
{
    static const char *const recipes[] = {"pare: 1\npasses: [gptq]\n",
                                          "pare: 1\npasses:\n  - gptq:\n",
                                          "pare: 1\npasses:\n  - gptq: {bits: 8, skip: x}\n"};
    for (size_t i = 0; i < 3; i++) {
        job j;
        job_sets(&j, recipes[i], &sets[_i].set, 1);
        ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
        ck_assert_msg(strstr(normal(&j, false), sets[_i].result) != NULL, "%s", normal(&j, false));
        job_end(&j);
    }
}
END_TEST

START_TEST(overrides_apply_in_order_and_carry_their_place)
{
    static const char *const three[] = {"passes.0.rtn.bits=2", "passes.0.rtn.bits=8",
                                        "passes.0.rtn.skip=[a]"};
    job j;
    job_sets(&j, "pare: 1\npasses: [rtn]\n", three, 3);
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert(j.r.step[0].value[0] == 8);
    ck_assert_uint_eq(j.r.step[0].value_place[0].line, 0);
    ck_assert_str_eq(j.r.step[0].value_place[0].file, "--set passes.0.rtn.bits=8");
    ck_assert_str_eq(j.r.step[0].skip.item[0].place.file, "--set passes.0.rtn.skip=[a]");
    ck_assert_uint_eq(j.r.step[0].place.line, 2);
    ck_assert_int_eq(pare_recipe_fail(&j.cx, j.r.step[0].value_place[0], "no %s", "kernel"),
                     PARE_EUSAGE);
    ck_assert_str_eq(j.cx.what, "--set passes.0.rtn.bits=8: no kernel");
    pare_ctx_clear(&j.cx);
    ck_assert_int_eq(pare_recipe_fail(&j.cx, j.r.step[0].place, "no"), PARE_EUSAGE);
    ck_assert_str_eq(j.cx.what, "r.yaml:2:10: no");
    job_end(&j);
}
END_TEST

/* A whole file in memory of the process; *len bytes and a NUL behind. */
static uint8_t *slurp(const char *path, size_t *len)
{
    FILE *const f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s", path);
    uint8_t *const bytes = malloc(RECIPE_CASE_MAX);
    ck_assert_ptr_nonnull(bytes);
    *len = fread(bytes, 1, RECIPE_CASE_MAX - 1, f);
    bytes[*len] = '\0';
    (void)fclose(f);
    return bytes;
}

static void corpus_job(job *j, const char *name)
{
    char path[4096];
    size_t len;
    (void)snprintf(path, sizeof path, CORPUS "%s.yaml", name);
    uint8_t *const bytes = slurp(path, &len);
    pare_ctx_init(&j->cx);
    ck_assert_int_eq(pare_arena_init(&j->cx, &j->a, 0), PARE_OK);
    j->s = recipe_case(&j->cx, &j->a, "r.yaml", bytes, len, &j->r);
    free(bytes);
}

/* recipe_messages.txt: the name of a file of the corpus, a blank, the whole message. */
START_TEST(every_message_is_reached_and_reads_as_written)
{
    size_t len, lines = 0;
    uint8_t *const bytes = slurp(PARE_SOURCE_DIR "/tests/unit/recipe_messages.txt", &len);
    for (char *line = (char *)bytes, *end; *line; line = end + 1, lines++) {
        end = strchr(line, '\n');
        ck_assert_ptr_nonnull(end);
        *end = '\0';
        char *const message = strchr(line, ' ');
        ck_assert_ptr_nonnull(message);
        *message = '\0';
        job j;
        corpus_job(&j, line);
        ck_assert_int_eq(j.s, PARE_EUSAGE);
        ck_assert_msg(strcmp(j.cx.what, message + 1) == 0, "%s:\n  %s\n  %s", line, j.cx.what,
                      message + 1);
        job_end(&j);
    }
    ck_assert_uint_gt(lines, 150);
    free(bytes);
}
END_TEST

#define TASKS(text)                                                                                \
    "pare: 1\nmodel: m\noutput: o\npasses: [{rtn: {bits: 4}}]\nevaluate: [{tasks: {" text "}}]\n"

/* Each task is an evaluation of its own, with the settings of all. */
START_TEST(every_key_of_tasks_that_is_no_setting_is_a_task)
{
    static const char *const wrong[][2] = {
        {"limit: 2", ":5:13: tasks needs a task and its file, as in \"tasks: {piqa: FILE}\""},
        {"piqa: a, Shots: b", "\"Shots\" is no task"},
        {"piqa: [a]", ":5:27: \"piqa\" is a list"},
        {"piqa: a, shots: 65", "shots"},
        {"piqa: a, shots_from: {boolq: b}", "shots_from has \"boolq\", which is none of the tasks"},
        {"piqa: a, by: [b]", "\"by\" is a list"},
        {"piqa: a, shots_from: b", "a mapping of tasks to files"}};
    job j;
    job_text(&j,
             TASKS("piqa: a, limit: 5, mmlu_law: b, shots: 3, by: d, shots_from: {mmlu_law: c}"));
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert_ptr_nonnull(strstr(normal(&j, false), "evaluate:\n"
                                                    "  - tasks:\n"
                                                    "      piqa: \"a\"\n"
                                                    "      limit: 5\n"
                                                    "      shots: 3\n"
                                                    "      by: \"d\"\n"
                                                    "  - tasks:\n"
                                                    "      mmlu_law: \"b\"\n"
                                                    "      limit: 5\n"
                                                    "      shots: 3\n"
                                                    "      shots_from:\n"
                                                    "        mmlu_law: \"c\"\n"
                                                    "      by: \"d\"\n"));
    ck_assert_ptr_nonnull(strstr(normal(&j, true), "        mmlu_law: \"data\"\n"));
    job_end(&j);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char text[512];
        (void)snprintf(text, sizeof text, TASKS("%s"), wrong[i][0]);
        job_text(&j, text);
        ck_assert_int_eq(j.s, PARE_EUSAGE);
        ck_assert_msg(strstr(j.cx.what, wrong[i][1]) != NULL, "%s", j.cx.what);
        job_end(&j);
    }
}
END_TEST

/* Nor are its products: an unfinished run goes on elsewhere, where there may be no device. */
START_TEST(the_device_of_an_evaluation_is_no_part_of_the_work)
{
    job j;
    job_text(&j, "pare: 1\nmodel: m\noutput: o\npasses: [{rtn: {bits: 4}}]\n"
                 "evaluate: [{kl: {text: t.txt, device: auto}}]\n");
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert_ptr_nonnull(strstr(normal(&j, false), "      device: auto\n"));
    ck_assert_ptr_null(strstr(normal(&j, true), "device"));
    job_end(&j);
    job_text(&j, "pare: 1\nmodel: m\noutput: o\npasses: [{rtn: {bits: 4}}]\n"
                 "evaluate: [{choice: {file: c, device: cuda, device_products: f16}}]\n");
    ck_assert_msg(j.s == PARE_OK, "%s", j.cx.what);
    ck_assert_ptr_nonnull(strstr(normal(&j, false), "      device_products: f16\n"));
    ck_assert_ptr_null(strstr(normal(&j, true), "device"));
    job_end(&j);
    job_text(&j, "pare: 1\nmodel: m\noutput: o\npasses: [{rtn: {bits: 4}}]\n"
                 "evaluate: [{choice: {file: c, device_products: f16}}]\n");
    ck_assert_int_eq(j.s, PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(j.cx.what, "is for device: cuda or auto"));
    ck_assert_ptr_nonnull(strstr(j.cx.what, ":5:48: "));
    job_end(&j);
}
END_TEST

START_TEST(good_recipes_of_the_corpus_have_a_stable_normal_form)
{
    DIR *const folder = opendir(CORPUS);
    ck_assert_ptr_nonnull(folder);
    size_t good = 0;
    for (const struct dirent *e = readdir(folder); e; e = readdir(folder)) {
        if (strncmp(e->d_name, "good_", 5) != 0)
            continue;
        char name[256];
        (void)snprintf(name, sizeof name, "%.*s", (int)strlen(e->d_name) - 5, e->d_name);
        job j, again;
        corpus_job(&j, name);
        ck_assert_msg(j.s == PARE_OK, "%s: %s", name, j.cx.what);
        for (int portable = 0; portable < 2; portable++) {
            const char *const text = normal(&j, portable);
            job_text(&again, text);
            ck_assert_msg(again.s == PARE_OK, "%s\n%s", again.cx.what, text);
            ck_assert_str_eq(normal(&again, portable), text);
            job_end(&again);
        }
        job_end(&j);
        good++;
    }
    (void)closedir(folder);
    ck_assert_uint_ge(good, 10);
}
END_TEST

/* A recipe of many steps, so that the arena needs many blocks. */
START_TEST(failed_allocations_are_reported_and_leak_nothing)
{
    enum { STEPS = 150 };
    static char text[STEPS * 64 + 512] = "pare: 1\ncalibration: {text: [a, b]}\nevaluate: [{kl: "
                                         "{text: a}}]\npasses:\n";
    size_t used = strlen(text);
    for (int i = 0; i < STEPS; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%s",
                                 "  - gptq: {bits: 3, skip: [\"re:a.*\", b]}\n");
    static const char *const changes[] = {"passes.0.gptq.group=row", "limits.ram=3GiB", "seed=4",
                                          "calibration.samples=3", "passes.3.gptq.targets=[a]"};
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        pare_ctx cx;
        pare_arena a;
        pare_recipe r;
        char *out = NULL;
        size_t len = 0;
        unit_failing f = {.left = n};
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        const pare_recipe_source source = {"r.yaml", text, strlen(text), changes, 5};
        s = pare_recipe_parse(&cx, &a, &source, recipe_passes, RECIPE_PASSES, &r);
        if (s == PARE_OK)
            s = pare_recipe_normalize(&cx, &a, &r, recipe_passes, false, &out, &len);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%s", cx.what);
        ck_assert(s == PARE_OK || cx.what[0]);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        ck_assert_int_lt(n, 1000);
    }
    ck_assert_int_gt(n, 8);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("recipe");
    TCase *const t = tcase_create("recipe");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_full_recipe_is_read);
    tcase_add_test(t, a_kv_cache_is_read_with_the_defaults_of_its_method);
    tcase_add_test(t, the_passes_of_a_full_recipe_are_read);
    tcase_add_test(t, what_is_left_out_has_its_default);
    tcase_add_test(t, generated_calibration_is_read);
    tcase_add_test(t, line_ends_and_byte_order_mark_do_not_matter);
    tcase_add_test(t, places_count_characters_from_one);
    tcase_add_test(t, the_normal_form_is_canonical);
    tcase_add_test(t, the_portable_form_leaves_out_paths_and_limits);
    tcase_add_loop_test(t, overrides_change_the_recipe, 0, sizeof sets / sizeof sets[0]);
    tcase_add_test(t, overrides_apply_in_order_and_carry_their_place);
    tcase_add_test(t, every_message_is_reached_and_reads_as_written);
    tcase_add_test(t, the_device_of_an_evaluation_is_no_part_of_the_work);
    tcase_add_test(t, every_key_of_tasks_that_is_no_setting_is_a_task);
    tcase_add_test(t, good_recipes_of_the_corpus_have_a_stable_normal_form);
    tcase_add_test(t, failed_allocations_are_reported_and_leak_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
