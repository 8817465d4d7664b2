/* Data that a job refuses are refused by its plan, in the same words. */
#include <sys/stat.h>

#include "tests/unit/program.h"

#define HOME  "pare-plan-data"
#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/calibration.txt"

static FILE *create(const char *path)
{
    FILE *const f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    return f;
}

static void setup(void)
{
    ck_assert_int_eq(system("rm -rf " HOME), 0);
    ck_assert_int_eq(mkdir(HOME, 0777), 0);
    ck_assert_int_eq(system("head -c 300 '" TEXT "' > " HOME "/short.txt && "
                            "head -c 400 /dev/zero > " HOME "/short.i32 && "
                            "cp '" TEXT "' " HOME "/text.txt && "
                            "{ head -c 120000 '" TEXT "'; printf '\\0'; } > " HOME "/long.txt"),
                     0);
    FILE *const f = create(HOME "/long.jsonl");
    (void)fprintf(f, "{\"context\": \"c\", \"choices\": [\" a\", \" b\"], \"answer\": 0}\n");
    (void)fprintf(f, "{\"context\": \"");
    for (int i = 0; i < 300; i++)
        (void)fprintf(f, "hello ");
    (void)fprintf(f, "\", \"choices\": [\" a\", \" b\"], \"answer\": 0}\n");
    ck_assert_int_eq(fclose(f), 0);
}

static void write_recipe(const char *calibration, const char *evaluation)
{
    FILE *const f = create(HOME "/r.yaml");
    (void)fprintf(f,
                  "pare: 1\nmodel: %s\noutput: out\ncalibration: {%s, samples: 8, window: 256}\n"
                  "passes: [gptq: {group: 64}]\nevaluate:\n  - %s\n",
                  HEDGE, calibration, evaluation);
    ck_assert_int_eq(fclose(f), 0);
}

static const struct {
    const char *calibration, *evaluation;
    int code;
    const char *fragment;
} refused[] = {
    {"text: [text.txt]", "kl: {text: short.txt, window: 256}", 2,
     "r.yaml:7:5: short.txt has 85 tokens, fewer than one window of 256"},
    {"text: [text.txt]", "perplexity: {tokens: short.i32, window: 128}", 2,
     "r.yaml:7:5: short.i32 has 100 tokens, fewer than one window of 128"},
    {"text: [text.txt]", "choice: {file: long.jsonl}", 4, "long.jsonl:2: choice 0 has "},
    {"text: [text.txt]", "kl: {tokens: short.txt, window: 16}", 4,
     "outside the model's vocabulary"},
    {"text: [short.txt]", "kl: {text: text.txt}", 2,
     "r.yaml:4:43: the calibration data has 85 tokens, not one window of 256; give more data or"},
    {"tokens: short.i32", "kl: {text: text.txt}", 2, "the calibration data has 100 tokens"},
    {"text: [{path: text.txt, weight: 1}, {path: short.txt, weight: 3}]", "kl: {text: text.txt}", 2,
     "r.yaml:4:58: the share of short.txt by weight is 6 windows"},
    {"text: [long.txt]", "kl: {text: text.txt}", 4, "long.txt: byte 120000 is NUL"},
    {"text: [{path: text.txt, weight: 1}, {path: long.txt, weight: 1}]", "kl: {text: text.txt}", 4,
     "long.txt: byte 120000 is NUL"},
    {"text: [text.txt]", "kl: {text: long.txt}", 4, "long.txt: byte 120000 is NUL"},
};
enum { REFUSED = sizeof refused / sizeof *refused };

START_TEST(a_plan_refuses_the_data_that_the_job_refuses)
{
    static char said[sizeof((outcome *)0)->text];
    write_recipe(refused[_i].calibration, refused[_i].evaluation);
    const outcome *o = call("plan " HOME "/r.yaml", ERR);
    ck_assert_msg(o->code == refused[_i].code && strstr(o->text, refused[_i].fragment), "%d: %s",
                  o->code, o->text);
    (void)snprintf(said, sizeof said, "%s", o->text);
    o = call("compress " HOME "/r.yaml --no-progress", ERR);
    ck_assert_int_eq(o->code, refused[_i].code);
    const char *const error = strstr(o->text, "pare: error: "); /* behind what it told before */
    ck_assert_msg(error && strcmp(error, said) == 0, "plan: %scompress: %s", said, o->text);
}
END_TEST

START_TEST(data_that_are_enough_are_planned)
{
    static const char *const calibration[] = {
        "text: [text.txt]", "text: [short.txt, text.txt]", "generate: {}",
        "text: [{path: text.txt, weight: 3}, {path: text.txt, weight: 1}]"};
    for (size_t i = 0; i < sizeof calibration / sizeof *calibration; i++) {
        write_recipe(calibration[i], "kl: {text: text.txt}");
        const outcome *const o = call("plan " HOME "/r.yaml", ERR);
        ck_assert_msg(o->code == 0, "%s", o->text);
    }
    write_recipe("text: [text.txt]", "choice: {file: long.jsonl, limit: 1}");
    ck_assert_int_eq(call("plan " HOME "/r.yaml", ERR)->code, 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("plan_data");
    TCase *const t = tcase_create("plan_data");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_loop_test(t, a_plan_refuses_the_data_that_the_job_refuses, 0, REFUSED);
    tcase_add_test(t, data_that_are_enough_are_planned);
    suite_add_tcase(s, t);
    return unit_main(s);
}
