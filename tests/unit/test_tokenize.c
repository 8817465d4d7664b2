/* pare tokenize: ids on stdout, as JSON, in a file; what is refused. */
#include <sys/stat.h>

#include "tests/unit/program.h"

#define FOLDER "pare-tokenize"
#define HEDGE  PARE_SOURCE_DIR "/recipes/demo/hedge"

/* The same ids printed, as JSON and in a file. */
START_TEST(a_text_is_tokenized)
{
    static const char *const by[] = {"'The king said.'", "--text " FOLDER "/t.txt"};
    pare_ctx cx;
    unsigned char bytes[256];
    FILE *f = fopen(FOLDER "/t.txt", "w");
    ck_assert(f && fputs("The king said.", f) >= 0 && fclose(f) == 0);
    for (size_t i = 0; i < 2; i++) {
        char arguments[512], *end;
        (void)unlink(FOLDER "/t.i32");
        (void)snprintf(arguments, sizeof arguments, "tokenize '" HEDGE "' %s --format json", by[i]);
        pare_json *const json = parse(&cx, arguments);
        const pare_json *const ids = pare_json_get(json, "ids");
        const size_t n = pare_json_count(ids);
        ck_assert_uint_gt(n, 2);
        ck_assert_int_eq(pare_json_integer(pare_json_get(json, "count"), -1), (int64_t)n);
        (void)snprintf(arguments, sizeof arguments,
                       "tokenize '" HEDGE "' %s --output " FOLDER "/t.i32", by[i]);
        ck_assert_int_eq(call(arguments, OUT)->code, 0);
        f = fopen(FOLDER "/t.i32", "rb");
        ck_assert_uint_eq(fread(bytes, 1, sizeof bytes, f), 4 * n);
        ck_assert_int_eq(fclose(f), 0);
        (void)snprintf(arguments, sizeof arguments, "tokenize '" HEDGE "' %s", by[i]);
        const char *at = call(arguments, OUT)->text;
        for (size_t j = 0; j < n; j++, at = end) {
            const int64_t id = pare_json_integer(pare_json_at(ids, j), -1);
            ck_assert_int_eq(strtol(at, &end, 10), id);
            ck_assert_int_eq(bytes[4 * j] | bytes[4 * j + 1] << 8 | bytes[4 * j + 2] << 16, id);
        }
        ck_assert_str_eq(at, "\n");
        pare_json_free(json);
    }
}
END_TEST

START_TEST(what_is_not_a_text_or_a_place_is_refused)
{
    static const struct {
        const char *arguments;
        int code;
        const char *says;
    } rows[] = {
        {"tokenize '" HEDGE "'", 2, "give a TEXT or --text FILE"},
        {"tokenize '" HEDGE "' a --text b", 2, "give a TEXT or --text FILE, not both"},
        {"tokenize '" HEDGE "' a --output x.txt", 2, "must end in .i32"},
        {"tokenize '" HEDGE "' a --restart", 2, "--restart needs --output"},
        {"tokenize '" HEDGE "' --text /nowhere/text", 4, "/nowhere/text"},
        {"tokenize /nowhere/model a", 4, "/nowhere/model"},
        {"tokenize '" HEDGE "' a --tokenizer /nowhere/t.json", 4, "/nowhere/t.json"},
        {"generate '" HEDGE "' --tokenizer /nowhere/t.json", 4, "/nowhere/t.json"},
        {"eval '" HEDGE "' --text x --tokenizer /nowhere/t.json", 4, "/nowhere/t.json"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        check_fails(rows[i].arguments, rows[i].code, rows[i].says);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenize");
    TCase *const t = tcase_create("tokenize");
    (void)mkdir(FOLDER, 0777);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_text_is_tokenized);
    tcase_add_test(t, what_is_not_a_text_or_a_place_is_refused);
    suite_add_tcase(s, t);
    return unit_main(s);
}
