#include <math.h>
#include <string.h>
#include <sys/wait.h>

#include "compress/bench/compare.h"
#include "formats/json.h"
#include "tests/unit/folder.h"

#define HEAD                                                                                       \
    "{\"program\": \"pare 1\", \"kind\": \"kernels\", \"cpu\": \"X\", \"cpu_level\": \"avx2\", "   \
    "\"threads\": 2, \"limits\": {}, \"rows\": ["
#define ROW(kernel, group, m, threads, us, share)                                                  \
    "{\"kernel\": \"" kernel "\", \"group\": " #group ", \"n\": 64, \"k\": 128, \"m\": " #m        \
    ", \"threads\": " #threads ", \"us\": " #us ", \"share\": " #share "}"

static const char *const before =
    HEAD ROW("int4", 128, 1, 2, 100, 0.8) "," ROW("int4", 128, 1, 1, 100, 0.8) "," ROW(
        "int4", 32, 1, 2, 100, 0.8) "," ROW("f16", 0, 1, 2, 100,
                                            0.8) "," ROW("f16", 0, 512, 2, 100,
                                                         null) "," ROW("old", 0, 1, 2, 1, 1) "]}";

typedef struct fixture {
    folder d;
    pare_ctx cx;
    pare_arena arena;
    pare_bench_comparison c;
} fixture;

static fixture t;

static void begin(void)
{
    folder_begin(&t.d, &t.cx, &t.arena);
}

static pare_status compare(const char *a, const char *b, double tolerance)
{
    char path[2][512];
    folder_put_text(&t.d, "a.json", a);
    (void)snprintf(path[0], sizeof path[0], "%s", t.d.file);
    folder_put_text(&t.d, "b.json", b);
    (void)snprintf(path[1], sizeof path[1], "%s", t.d.file);
    pare_ctx_clear(&t.cx);
    return pare_bench_compare(&t.cx, &t.arena, path[0], path[1], tolerance, &t.c);
}

static const pare_bench_change *find(const char *key, const char *metric)
{
    for (size_t i = 0; i < t.c.changes; i++)
        if (strcmp(t.c.change[i].key, key) == 0 && strcmp(t.c.change[i].metric, metric) == 0)
            return &t.c.change[i];
    ck_abort_msg("no row %s", key);
    return NULL;
}

START_TEST(rows_are_matched_by_what_they_measure_and_judged_by_the_tolerance)
{
    begin();
    ck_assert_msg(
        compare(before,
                HEAD ROW("f16", 0, 512, 2, 120, null) "," ROW("int4", 32, 1, 2, 90, 0.9) "," ROW(
                    "int4", 128, 1, 1, 104,
                    0.77) "," ROW("f16", 0, 1, 2, 110, 0.79) "," ROW("int4", 128, 1, 2, 106,
                                                                     0.75) "," ROW("new", 0, 1, 2,
                                                                                   1, 1) "]}",
                0.05) == PARE_OK,
        "%s", t.cx.what);
    ck_assert_str_eq(t.c.kind, "kernels");
    ck_assert_uint_eq(t.c.changes, 7);
    ck_assert(t.c.slower == 3 && t.c.share_held == 1 && t.c.faster == 1 && t.c.missing == 2);
    ck_assert_uint_eq(t.c.warnings, 0);
    const pare_bench_change *const slow = find("int4 g128 64x128 m1 t2", "us");
    ck_assert_int_eq(slow->verdict, PARE_VERDICT_SLOWER);
    ck_assert(slow->before == 100 && slow->after == 106 && slow->share_after == 0.75);
    ck_assert_double_eq_tol(slow->ratio, 1.06, 1e-12);
    ck_assert_double_eq_tol(slow->share_ratio, 0.75 / 0.8, 1e-12);
    ck_assert_int_eq(find("int4 g128 64x128 m1 t1", "us")->verdict, PARE_VERDICT_SAME);
    ck_assert_int_eq(find("int4 g32 64x128 m1 t2", "us")->verdict, PARE_VERDICT_FASTER);
    ck_assert_int_eq(find("f16 g0 64x128 m1 t2", "us")->verdict, PARE_VERDICT_SHARE_HELD);
    const pare_bench_change *const bare = find("f16 g0 64x128 m512 t2", "us");
    ck_assert(bare->verdict == PARE_VERDICT_SLOWER && isnan(bare->share_ratio));
    ck_assert_int_eq(find("old g0 64x128 m1 t2", "us")->verdict, PARE_VERDICT_ONLY_BEFORE);
    const pare_bench_change *const late = find("new g0 64x128 m1 t2", "us");
    ck_assert(late->verdict == PARE_VERDICT_ONLY_AFTER && isnan(late->before));
    ck_assert_int_eq(compare(before, before, 0), PARE_OK);
    ck_assert(t.c.slower == 0 && t.c.faster == 0 && t.c.missing == 0 && t.c.changes == 6);
    folder_end(&t.d, &t.arena);
}
END_TEST

#define MODEL(weights, batch, ttft, tpot)                                                          \
    "{\"kind\": \"model\", \"limits\": {}, \"rows\": [{\"model\": \"1b\", \"weights\": \"" weights \
    "\", \"group\": 128, \"kv_method\": \"none\", \"batch\": " #batch                              \
    ", \"prompt\": 512, \"output\": 64, \"threads\": 2, \"ttft_ms\": " #ttft                       \
    ", \"prefill_share\": 0.5, \"tpot_ms\": " #tpot ", \"decode_share\": 0.8}]}"

START_TEST(both_times_of_a_model_and_that_of_gptq_are_compared)
{
    begin();
    ck_assert_int_eq(compare(MODEL("int4", 1, 1000, 30), MODEL("int4", 1, 800, 40), 0.05), PARE_OK);
    ck_assert_str_eq(t.c.kind, "model");
    ck_assert_uint_eq(t.c.changes, 2);
    static const char *const key = "1b int4 g128 kv none batch 1 512+64 t2";
    ck_assert_int_eq(find(key, "ttft_ms")->verdict, PARE_VERDICT_FASTER);
    ck_assert_int_eq(find(key, "tpot_ms")->verdict, PARE_VERDICT_SHARE_HELD);
    ck_assert_int_eq(compare(MODEL("int4", 1, 1000, 30), MODEL("int4", 8, 1000, 30), 0.05),
                     PARE_EUSAGE);
    ck_assert_ptr_nonnull(strstr(t.cx.what, "no row in common"));
#define GPTQ(s)                                                                                    \
    HEAD "], \"gptq\": {\"n\": 8, \"k\": 8, \"group\": 4, \"threads\": 2, \"seconds\": " #s "}}"
    ck_assert_int_eq(compare(GPTQ(2), GPTQ(3), 0.05), PARE_OK);
    ck_assert_int_eq(find("gptq g4 8x8 t2", "seconds")->verdict, PARE_VERDICT_SLOWER);
    folder_end(&t.d, &t.arena);
}
END_TEST

/* Paths are told apart by their ends, and a name is not cut inside of a character. */
START_TEST(models_far_down_in_one_folder_are_different_rows)
{
    enum { DEPTH = 30 };
    char path[4 * DEPTH + 1] = "", text[1 << 11];
    for (size_t i = 0; i < DEPTH; i++)
        memcpy(path + 4 * i, "/a\303\251", 5);
    size_t used = 0;
    for (size_t i = 0; i < 2; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"model\": \"%s/m%zu\", \"ttft_ms\": 1, \"tpot_ms\": 1}",
                                 i ? ", " : "{\"kind\": \"model\", \"limits\": {}, \"rows\": [",
                                 path, i);
    (void)snprintf(text + used, sizeof text - used, "]}");
    begin();
    ck_assert_msg(compare(text, text, 0) == PARE_OK, "%s", t.cx.what);
    ck_assert_uint_eq(t.c.changes, 4);
    ck_assert_int_eq(strncmp(t.c.change[3].key, "/a\303\251/a", 6), 0);
    ck_assert_ptr_nonnull(strstr(t.c.change[3].key, "/a\303\251/m1 - g- kv - batch - -+- t-"));
    folder_end(&t.d, &t.arena);
}
END_TEST

/* The one row of a model at `path`, with a time to its first token. */
static void put_model(const char *file, const char *path, int ttft)
{
    char text[1024];
    (void)snprintf(
        text, sizeof text,
        "{\"kind\": \"model\", \"limits\": {}, \"rows\": [{\"model\": \"%s\", \"weights\": "
        "\"int4\", \"ttft_ms\": %d, \"tpot_ms\": 10}]}",
        path, ttft);
    folder_put_text(&t.d, file, text);
}

START_TEST(a_model_is_found_in_another_folder_where_its_name_leaves_no_choice)
{
    static char a[4096];
    begin();
    put_model("a.json", "out/w4", 100);
    memcpy(a, t.d.file, strlen(t.d.file) + 1);
    static const char *const path[] = {"../w4/", "/models/w4", "w4"};
    for (size_t i = 0; i < sizeof path / sizeof *path; i++) {
        put_model("b.json", path[i], 200);
        ck_assert_msg(pare_bench_compare(&t.cx, &t.arena, a, t.d.file, 0.05, &t.c) == PARE_OK, "%s",
                      t.cx.what);
        ck_assert(t.c.changes == 2 && t.c.missing == 0 && t.c.slower == 1 && t.c.warnings == 1);
        ck_assert_ptr_nonnull(strstr(t.c.warning[0], "models of one name in different folders"));
    }
    put_model("b.json", "out/w4/", 200); /* the same path */
    ck_assert_int_eq(pare_bench_compare(&t.cx, &t.arena, a, t.d.file, 0.05, &t.c), PARE_OK);
    ck_assert(t.c.missing == 0 && t.c.warnings == 0);
    put_model("b.json", "out/w5", 200);
    ck_assert_int_eq(pare_bench_compare(&t.cx, &t.arena, a, t.d.file, 0.05, &t.c), PARE_EUSAGE);
    pare_ctx_clear(&t.cx);
    folder_put_text(
        &t.d, "b.json",
        "{\"kind\": \"model\", \"limits\": {}, \"rows\": ["
        "{\"model\": \"x/w4\", \"weights\": \"int4\", \"ttft_ms\": 1, \"tpot_ms\": 1},"
        "{\"model\": \"y/w4\", \"weights\": \"int4\", \"ttft_ms\": 1, \"tpot_ms\": 1}]}");
    ck_assert_int_eq(pare_bench_compare(&t.cx, &t.arena, a, t.d.file, 0.05, &t.c), PARE_EUSAGE);
    folder_end(&t.d, &t.arena);
}
END_TEST

START_TEST(another_machine_is_named_in_a_warning)
{
    begin();
#define ONE ROW("int4", 128, 1, 2, 100, 0.8) "]}"
    ck_assert_int_eq(compare(HEAD ONE,
                             "{\"program\": \"pare 2\", \"kind\": \"kernels\", \"cpu\": \"Y\", "
                             "\"cpu_level\": \"avx512\", \"threads\": 4, \"limits\": {}, "
                             "\"rows\": [" ONE,
                             0.05),
                     PARE_OK);
    static const char *const want[] = {
        "processor differs: X and Y", "level of the kernels differs: avx2 and avx512",
        "number of threads differs: 2 and 4", "program differs: pare 1 and pare 2"};
    ck_assert_uint_eq(t.c.warnings, 4);
    for (size_t i = 0; i < 4; i++)
        ck_assert_str_eq(t.c.warning[i], want[i]);
    ck_assert_int_eq(compare(HEAD ONE, "{\"limits\": {}, \"rows\": [" ONE, 0.05), PARE_OK);
    ck_assert_str_eq(t.c.warning[0], "processor differs: X and -");
    folder_end(&t.d, &t.arena);
}
END_TEST

START_TEST(what_is_no_result_of_the_bench_is_refused)
{
    static const struct {
        const char *text;
        pare_status status;
        const char *why;
    } bad[] = {
        {"", PARE_EFORMAT, "b.json:1:"},
        {"{\"limits\": {}, \"rows\": [", PARE_EFORMAT, "b.json:1:"},
        {"[]", PARE_EFORMAT, "not a result of"},
        {"{\"model\": \"x\", \"perplexity\": {}}", PARE_EFORMAT, "not a result of"},
        {"{\"limits\": {}, \"rows\": {}}", PARE_EFORMAT, "not a result of"},
        {"{\"kind\": \"compare\", \"limits\": {}, \"rows\": []}", PARE_EFORMAT, "another \"kind\""},
        {"{\"limits\": {}, \"rows\": [{}]}", PARE_EFORMAT, "row 0 names no \"kernel\""},
        {"{\"limits\": {}, \"rows\": [7]}", PARE_EFORMAT, "row 0 names no \"kernel\""},
        {HEAD ROW("int4", 128, 1, 2, 0, 0.8) "]}", PARE_EFORMAT, "row 0 (int4 g128 64x128 m1 t2)"},
        {HEAD ROW("int4", 128, 1, 2, "fast", 0.8) "]}", PARE_EFORMAT, "no time \"us\" above 0"},
        {HEAD ROW("int4", 128, 1, 2, 1, 0.8) "," ROW("int4", 128, 1, 2, 1, 0.8) "]}", PARE_EFORMAT,
         "row 1 (int4 g128 64x128 m1 t2) stands there twice"},
        {"{\"kind\": \"model\", \"limits\": {}, \"rows\": [{\"model\": \"1b\"}]}", PARE_EFORMAT,
         "no time \"ttft_ms\""},
        {MODEL("int4", 1, 1000, 30), PARE_EUSAGE, "there is nothing to compare"},
        {HEAD "]}", PARE_EUSAGE, "no row in common"},
    };
    begin();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const pare_status s = compare(before, bad[i].text, 0.05);
        ck_assert_msg(s == bad[i].status && strstr(t.cx.what, bad[i].why), "%s: %d %s", bad[i].text,
                      (int)s, t.cx.what);
    }
    pare_ctx_clear(&t.cx);
    ck_assert_int_eq(pare_bench_compare(&t.cx, &t.arena, t.d.file, "/nowhere/b.json", 0.05, &t.c),
                     PARE_ENOTFOUND);
    folder_end(&t.d, &t.arena);
}
END_TEST

START_TEST(no_failed_allocation_leaks_or_crashes)
{
    folder_make(&t.d);
    folder_put_text(&t.d, "a.json", before);
    unit_failing fail;
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        pare_ctx_init(&t.cx);
        fail = (unit_failing){.left = n};
        t.cx.alloc = (pare_alloc){unit_failing_resize, &fail};
        s = pare_arena_init(&t.cx, &t.arena, 0);
        if (s == PARE_OK)
            s = pare_bench_compare(&t.cx, &t.arena, t.d.file, t.d.file, 0.05, &t.c);
        ck_assert_msg(s == PARE_OK || s == PARE_ENOMEM, "%s", t.cx.what);
        pare_arena_release(&t.arena);
        ck_assert_int_eq(fail.live, 0);
    }
    folder_remove(&t.d);
}
END_TEST

/* A call of the program: its exit code, and stdout and stderr together. */
static int call(const char *arguments, char text[1 << 16])
{
    char command[2048];
    (void)snprintf(command, sizeof command, "cd '%s' && '%s' %s 2>&1", t.d.path, PARE_PROGRAM,
                   arguments);
    FILE *const f = popen(command, "r");
    ck_assert_ptr_nonnull(f);
    text[fread(text, 1, (1 << 16) - 1, f)] = '\0';
    const int status = pclose(f);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

START_TEST(results_of_the_program_can_be_compared)
{
    static char text[1 << 16];
    begin();
    ck_assert_msg(call("bench model --shape tiny --quick --batch 1,2 --against f16 --threads 2 "
                       "--format json > m.json",
                       text) == 0,
                  "%s", text);
    ck_assert_msg(call("bench --compare m.json m.json", text) == 0, "%s", text);
    ck_assert_ptr_nonnull(strstr(text, "tiny int4 g128 kv none batch 2 32+4 t2"));
    ck_assert_ptr_nonnull(strstr(text, "tiny f16 g0 kv none batch 1 32+4 t2"));
    ck_assert_ptr_nonnull(strstr(text, "0 slower (0 of them at the same share of the limit), 0 "
                                       "faster, 0 missing, of 8 times"));
    folder_put_text(&t.d, "a.json", HEAD ROW("int4", 128, 1, 2, 100, 0.8) "]}");
    folder_put_text(&t.d, "b.json", HEAD ROW("int4", 128, 1, 2, 120, 0.6) "]}");
    ck_assert_int_eq(call("bench --compare a.json b.json", text), 1);
    ck_assert_ptr_nonnull(strstr(text, "  slower\n"));
    ck_assert_ptr_nonnull(strstr(text, "pare: error: 1 of 1 times grew by more than 5%"));
    ck_assert_int_eq(call("bench --compare a.json b.json --tolerance 25%", text), 0);
    ck_assert_int_eq(call("bench --compare b.json a.json --format json", text), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"verdict\": \"faster\""));
    folder_put_text(&t.d, "more.json",
                    HEAD ROW("int4", 128, 1, 2, 100, 0.8) "," ROW("int8", 128, 1, 2, 9, 0.8) "]}");
    ck_assert_int_eq(call("bench --compare a.json more.json", text), 0);
    ck_assert_ptr_nonnull(
        strstr(text, "warning: us of \"int8 g128 64x128 m1 t2\" is only in more.json"));
    ck_assert_int_eq(call("bench --compare more.json a.json", text), 1);
    ck_assert_ptr_nonnull(strstr(text, "m1 t2\" is only in more.json"));
    ck_assert_ptr_nonnull(strstr(text, "and 1 of more.json are missing in a.json"));
    ck_assert_int_eq(call("bench --compare a.json m.json", text), 2);
    ck_assert_int_eq(call("bench --compare a.json none.json", text), 4);
    ck_assert_int_eq(call("bench --compare a.json", text), 2);
    ck_assert_int_eq(call("bench --compare a.json b.json --tolerance much", text), 2);
    ck_assert_ptr_nonnull(strstr(text, "expected percent from 0 to 1000"));
    ck_assert_int_eq(call("bench --compare a.json b.json --shape 1b", text), 2);
    folder_end(&t.d, &t.arena);
}
END_TEST

START_TEST(the_result_of_a_model_as_json_and_as_text)
{
    static char text[1 << 16];
    pare_json *json = NULL;
    begin();
    static const char *const ask = "bench model --shape tiny --weights ternary --quick --batch 3 "
                                   "--prompt 9 --output 3 --runs 1 --kv int8";
    char command[256];
    (void)snprintf(command, sizeof command, "%s --format json", ask);
    ck_assert_msg(call(command, text) == 0, "%s", text);
    ck_assert_int_eq(pare_json_parse(&t.cx, "stdout", text, strlen(text), sizeof text, &json),
                     PARE_OK);
    const pare_json *const rows = pare_json_get(json, "rows"), *const row = pare_json_at(rows, 0);
    size_t len;
    ck_assert_str_eq(pare_json_text(pare_json_get(json, "kind"), &len), "model");
    ck_assert_ptr_nonnull(pare_json_text(pare_json_get(json, "cpu_level"), &len));
    ck_assert(pare_json_integer(pare_json_get(json, "threads"), 0) > 0);
    ck_assert(pare_json_number(pare_json_get(pare_json_get(json, "limits"), "int8_gop_s"), 0) > 0);
    ck_assert_uint_eq(pare_json_count(rows), 1);
    ck_assert_str_eq(pare_json_text(pare_json_get(row, "weights"), &len), "ternary");
    ck_assert_str_eq(pare_json_text(pare_json_get(row, "kv_method"), &len), "int8");
    ck_assert_int_eq(pare_json_integer(pare_json_get(row, "batch"), 0), 3);
    ck_assert_int_eq(pare_json_integer(pare_json_get(row, "prompt"), 0), 9);
    ck_assert_int_eq(pare_json_integer(pare_json_get(row, "output"), 0), 3);
    ck_assert(pare_json_number(pare_json_get(row, "ttft_ms"), 0) > 0);
    ck_assert(pare_json_number(pare_json_get(row, "decode_share"), 0) > 0);
    ck_assert_int_eq(pare_json_type_of(pare_json_get(row, "decode_ratio")), PARE_JSON_NULL);
    ck_assert_int_eq(pare_json_type_of(pare_json_get(row, "ttft_spread")), PARE_JSON_NULL);
    ck_assert(pare_json_integer(pare_json_get(json, "peak_rss_bytes"), 0) > 1 << 20);
    pare_json_free(json);
    ck_assert_int_eq(call(ask, text), 0);
    ck_assert_ptr_nonnull(strstr(text, "prompt 9, output 3 tokens; median of 1 run\n"));
    const char *const line = strstr(text, "\nternary row        3 ");
    ck_assert_ptr_nonnull(line);
    double ttft;
    char spread[8]; /* of one run there is none */
    ck_assert_int_eq(sscanf(line, " ternary row 3 %lf %7s", &ttft, spread), 2);
    ck_assert_str_eq(spread, "-");
    ck_assert_ptr_nonnull(strstr(text, "\nenergy "));
    ck_assert_ptr_nonnull(strstr(text, "\nmemory   peak "));
    folder_end(&t.d, &t.arena);
}
END_TEST

START_TEST(mistakes_about_a_model_say_what_to_do)
{
    static const struct {
        const char *arguments;
        int code;
        const char *text;
    } mistake[] = {
        {"bench model", 2, "MODEL is missing; give one, or --shape 1b"},
        {"bench model x --shape 1b", 2, "MODEL and --shape exclude each other"},
        {"bench model x --weights int4", 2, "go with --shape; leave them out for a model"},
        {"bench model /nowhere/model", 4, "/nowhere/model"},
        {"bench model --shape 8b --ram-limit 1GiB", 5,
         "GiB of memory, 1.00 GiB are left by the limit that was asked for"},
        {"bench model --shape tiny --ram-limit 9KiB", 2, "\"9KiB\": the program alone needs more"},
        {"bench model --shape tiny --against f61", 2, "unknown weights \"f61\"; did you mean f16?"},
        {"bench model --shape tiny --batch 1,,2", 2, "whole numbers from 1 to 64, such as 1,8"},
        {"bench model --shape tiny --batch 65", 2, "whole numbers from 1 to 64, such as 1,8"},
        {"bench model --shape tiny --batch 1,2,3,4,5,6,7,8,9", 2, "up to 8 whole numbers"},
        {"bench model --shape tiny --output 1", 2, "whole number from 2"},
        {"bench model --shape tiny --prompt 1024", 2, "do not fit the context of 1024 tokens"},
        {"bench model --shape tiny --kv kvquant", 2, "levels are found at calibration"},
        {"bench kernels --prompt 9", 2, "--prompt is for \"pare bench model\""},
        {"bench model --shape tiny --gptq", 2, "--gptq is for \"pare bench kernels\""},
        {"bench kernels again", 2, "\"again\" is one word too many"},
        {"bench --tolerance 4", 2, "--tolerance is for \"pare bench --compare\""},
    };
    static char text[1 << 16];
    begin();
    for (size_t i = 0; i < sizeof mistake / sizeof *mistake; i++) {
        const int code = call(mistake[i].arguments, text);
        ck_assert_msg(code == mistake[i].code && strstr(text, mistake[i].text),
                      "pare %s: exit %d:\n%s", mistake[i].arguments, code, text);
    }
    ck_assert_int_eq(call("help bench", text), 0);
    static const char *const word[] = {"--shape NAME", "--compare A.json", "TTFT", "--against"};
    for (size_t i = 0; i < sizeof word / sizeof *word; i++)
        ck_assert_msg(strstr(text, word[i]), "%s is not on the page", word[i]);
    folder_end(&t.d, &t.arena);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("bench_compare");
    TCase *const c = tcase_create("bench_compare");
    tcase_set_timeout(c, 240);
    tcase_add_test(c, rows_are_matched_by_what_they_measure_and_judged_by_the_tolerance);
    tcase_add_test(c, both_times_of_a_model_and_that_of_gptq_are_compared);
    tcase_add_test(c, models_far_down_in_one_folder_are_different_rows);
    tcase_add_test(c, a_model_is_found_in_another_folder_where_its_name_leaves_no_choice);
    tcase_add_test(c, another_machine_is_named_in_a_warning);
    tcase_add_test(c, what_is_no_result_of_the_bench_is_refused);
    tcase_add_test(c, no_failed_allocation_leaks_or_crashes);
    tcase_add_test(c, results_of_the_program_can_be_compared);
    tcase_add_test(c, the_result_of_a_model_as_json_and_as_text);
    tcase_add_test(c, mistakes_about_a_model_say_what_to_do);
    suite_add_tcase(s, c);
    return unit_main(s);
}
