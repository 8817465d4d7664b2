#include "formats/json.h"

#include <jansson.h>
#include <math.h>

#include "tests/unit/folder.h"

static pare_ctx cx;

static pare_status parse(const char *text, pare_json **doc)
{
    pare_ctx_clear(&cx);
    return pare_json_parse(&cx, "file.json", text, strlen(text), 4096, doc);
}

START_TEST(values_are_read_by_type)
{
    pare_json *doc;
    ck_assert_int_eq(parse("{\"i\": -9223372036854775808, \"j\": 9223372036854775807, \"r\": 0.1,"
                           " \"t\": true, \"n\": null, \"s\": \"\\u00e9\", \"a\": [1, [2]],"
                           " \"o\": {\"k\": 0}}",
                           &doc),
                     PARE_OK);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "i"), 0), INT64_MIN);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "j"), 0), INT64_MAX);
    ck_assert(pare_json_number(pare_json_get(doc, "r"), 0) == 0.1);
    ck_assert(pare_json_bool(pare_json_get(doc, "t"), false));
    size_t len = 0;
    ck_assert_str_eq(pare_json_text(pare_json_get(doc, "s"), &len), "\xc3\xa9");
    ck_assert_uint_eq(len, 2);
    const pare_json *const a = pare_json_get(doc, "a");
    ck_assert_uint_eq(pare_json_count(a), 2);
    ck_assert_int_eq(pare_json_integer(pare_json_at(pare_json_at(a, 1), 0), 0), 2);
    ck_assert_ptr_null(pare_json_at(a, 2));
    ck_assert_uint_eq(pare_json_count(pare_json_get(doc, "o")), 1);
    static const char keys[] = "ijrtnsao";
    static const pare_json_type types[] = {PARE_JSON_INTEGER, PARE_JSON_INTEGER, PARE_JSON_REAL,
                                           PARE_JSON_BOOL,    PARE_JSON_NULL,    PARE_JSON_STRING,
                                           PARE_JSON_ARRAY,   PARE_JSON_OBJECT};
    const char *key;
    const pare_json *value;
    size_t i = 0;
    for (pare_json_iter it = {0}; pare_json_next(doc, &it, &key, &value); i++) {
        ck_assert_int_eq(key[0], keys[i]);
        ck_assert_int_eq(pare_json_type_of(value), types[i]);
    }
    ck_assert_uint_eq(i, 8);
    pare_json_free(doc);
}
END_TEST

START_TEST(other_types_give_the_fallback)
{
    pare_json *doc;
    ck_assert_int_eq(parse("{\"r\": 2.0, \"i\": 3, \"s\": \"5\"}", &doc), PARE_OK);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "r"), -7), -7);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "s"), -7), -7);
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "x"), -7), -7);
    ck_assert(pare_json_number(pare_json_get(doc, "i"), 0) == 3);
    ck_assert(pare_json_number(pare_json_get(doc, "s"), -1) == -1);
    ck_assert(pare_json_bool(pare_json_get(doc, "i"), true));
    ck_assert_ptr_null(pare_json_text(pare_json_get(doc, "i"), NULL));
    ck_assert_ptr_null(pare_json_get(pare_json_get(doc, "i"), "x"));
    ck_assert_int_eq(pare_json_type_of(NULL), PARE_JSON_ABSENT);
    ck_assert_uint_eq(pare_json_count(NULL), 0);
    ck_assert(!pare_json_next(NULL, &(pare_json_iter){0}, NULL, NULL));
    pare_json_free(doc);
    pare_json_free(NULL);
}
END_TEST

/* What transformers 5 saves as model_max_length of a tokenizer without a limit, and relatives. */
static const struct {
    const char *literal;
    double value; /* NaN: none */
} beyond[] = {
    {"1000000000000000019884624838656", 1e30},
    {"9223372036854775808", 0x1p63},
    {"-9223372036854775809", -0x1p63},
    {"18446744073709551615", 0x1p64},
    {"1e400", (double)INFINITY},
    {"-1.5E+999", -(double)INFINITY},
    {"Infinity", (double)INFINITY},
    {"-Infinity", -(double)INFINITY},
    {"NaN", (double)NAN},
};

START_TEST(numbers_that_nobody_reads_stop_nothing)
{
    char text[200], copied[200];
    pare_json *doc;
    pare_json_writer *w;
    const char *copy;
    size_t len;
    (void)snprintf(text, sizeof text,
                   "{\"a\": [%s], \"k\\\"1e999\": \"-1e999\", \"b\": 7, \"c\": \"\\uffff1e999\"}",
                   beyond[_i].literal);
    ck_assert_msg(parse(text, &doc) == PARE_OK, "%s", cx.what);
    const pare_json *const v = pare_json_at(pare_json_get(doc, "a"), 0);
    const double x = pare_json_number(v, 5);
    ck_assert_int_eq(pare_json_type_of(v), PARE_JSON_REAL);
    ck_assert(isnan(beyond[_i].value) ? isnan(x) : x == beyond[_i].value);
    ck_assert_int_eq(pare_json_integer(v, -7), -7);
    ck_assert_ptr_null(pare_json_text(v, &len));
    ck_assert_uint_eq(len, 0);
    ck_assert_str_eq(pare_json_text(pare_json_get(doc, "k\"1e999"), NULL), "-1e999");
    ck_assert_int_eq(pare_json_integer(pare_json_get(doc, "b"), 0), 7);
    ck_assert_str_eq(pare_json_text(pare_json_get(doc, "c"), NULL), "\xef\xbf\xbf"
                                                                    "1e999");
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_put_copy(w, NULL, pare_json_get(doc, "a"));
    ck_assert_int_eq(pare_json_writer_finish(w, &copy, &len), PARE_OK);
    (void)snprintf(copied, sizeof copied, "[\n  %s\n]\n", beyond[_i].literal);
    ck_assert_str_eq(copy, copied);
    pare_json_writer_free(w);
    pare_json_free(doc);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

static const struct {
    const char *text, *message;
} wrong[] = {
    {"{\"a\": 1,\n \"a\": 2}", "file.json:2:4: duplicate object key"},
    {"[1] 2", "file.json:1:5: end of file expected"},
    {"", "file.json:1:0: "},
    {"[1e, 9223372036854775808]", "file.json:1:3: invalid token near '1e'"},
    {"[00000000000000000000001]", "file.json:1:2: invalid token near '0'"},
    {"[\n1e999, 9223372036854775808, NaN, x]", "file.json:2:34: invalid token near 'x'"},
    {"[9223372036854775808, \"abc\"] 2", "file.json:1:30: end of file expected"},
    {"[1 NaN]", "file.json:1:6: ']' expected near 'NaN'"},
    {"[\"\\u0000\"]", ":1:3: \\u0000 is not supported: no text can hold"},
    {"[NaN, \"a\\u0000b\"]", ":1:9: \\u0000 is not supported: no text can hold"},
    {"{\"\\u0000\": 1e999}", ":1:3: \\u0000 is not supported: no text can hold"},
    {"[\"\xff\"]", "unable to decode byte 0xff"},
    {"[01]", "file.json:1:"},
    {"{NaN: 1}", "file.json:1:4: string or '}' expected near 'NaN'"},
    {"[9223372036854775808, {1e999\n: 1}]", "file.json:1:"},
    {"[nan]", "invalid token near 'nan'"},
    {"[\"\x1b[31m\"]", "control character 0x1b"},
};

START_TEST(mistakes_carry_line_and_column)
{
    pare_json *doc;
    ck_assert_int_eq(parse(wrong[_i].text, &doc), PARE_EFORMAT);
    ck_assert_ptr_null(doc);
    ck_assert_msg(strstr(cx.what, wrong[_i].message) != NULL, "%s", cx.what);
    for (const char *p = cx.what; *p; p++)
        ck_assert_int_ge((unsigned char)*p, 0x20);
}
END_TEST

START_TEST(nesting_ends_at_64)
{
    char text[200];
    pare_json *doc;
    for (size_t depth = 64; depth <= 65; depth++) {
        memset(text, '[', depth);
        memset(text + depth, ']', depth);
        text[2 * depth] = '\0';
        ck_assert_int_eq(parse(text, &doc), depth == 64 ? PARE_OK : PARE_EFORMAT);
        pare_json_free(doc);
    }
    ck_assert_str_eq(cx.what, "file.json:1:65: nested deeper than 64 levels");
    ck_assert_int_eq(parse("[\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["
                           "\\\"[[[[\"]",
                           &doc),
                     PARE_OK);
    pare_json_free(doc);
}
END_TEST

START_TEST(nul_bytes_and_long_texts_are_refused)
{
    pare_json *doc;
    ck_assert_int_eq(pare_json_parse(&cx, "f", "[\n\0]", 4, 100, &doc), PARE_EFORMAT);
    ck_assert_str_eq(cx.what, "f:2:1: NUL byte");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_json_parse(&cx, "f", "[1]", 3, 2, &doc), PARE_EFORMAT);
    ck_assert_str_eq(cx.what, "f: 3 bytes of JSON, at most 2 are accepted");
}
END_TEST

START_TEST(a_byte_order_mark_is_told)
{
    pare_json *doc;
    ck_assert_int_eq(parse("\xef\xbb\xbf{}", &doc), PARE_EFORMAT);
    ck_assert_str_eq(cx.what, "file.json:1:1: a byte order mark, which other readers of JSON "
                              "refuse, too; save the file as UTF-8 without one");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(parse("[\"\xef\xbb\xbf\"]", &doc), PARE_OK);
    pare_json_free(doc);
}
END_TEST

static long jansson_left;
static void *jansson_take(size_t size)
{
    return jansson_left-- > 0 ? malloc(size) : NULL;
}

START_TEST(every_failed_allocation_of_the_parser_is_reported)
{
    json_set_alloc_funcs(jansson_take, free);
    for (long n = 0;; n++) {
        pare_json *doc;
        jansson_left = n;
        const pare_status s = parse("{\"a\": [1, 2.5, \"text\", {\"b\": 1e400}]}", &doc);
        pare_json_free(doc);
        if (s == PARE_OK) {
            ck_assert_int_gt(n, 5);
            break;
        }
        ck_assert_ptr_null(doc);
        ck_assert_str_ne(cx.what, "");
    }
    json_set_alloc_funcs(malloc, free);
}
END_TEST

static void write_example(pare_json_writer *w)
{
    pare_json_open_object(w, NULL);
    pare_json_put_text(w, "text", "a\"\\\n\x7f\xc3\xa9\xff\xed\xa0\x80");
    pare_json_put_integer(w, "least", INT64_MIN);
    pare_json_open_array(w, "numbers");
    static const double numbers[] = {0, -0.0, 1, 0.1, 1e-5, 10000, 1e300, 1.0 / 3, 0x1p53, 5e-324};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        pare_json_put_number(w, NULL, numbers[i]);
    pare_json_close(w);
    pare_json_open_object(w, "empty");
    pare_json_close(w);
    pare_json_put_bool(w, "yes", true);
    pare_json_put_null(w, "nothing");
    pare_json_close(w);
}

#define REPLACED "\xef\xbf\xbd"
static const char example[] =
    "{\n  \"text\": \"a\\\"\\\\\\u000a\\u007f\xc3\xa9" REPLACED REPLACED REPLACED REPLACED "\",\n"
    "  \"least\": -9223372036854775808,\n  \"numbers\": [\n    0.0,\n    -0.0,\n    1.0,\n    "
    "0.1,\n"
    "    1e-05,\n    10000.0,\n    1e+300,\n    0.3333333333333333,\n    9007199254740992.0,\n"
    "    5e-324\n  ],\n  \"empty\": {},\n  \"yes\": true,\n  \"nothing\": null\n}\n";

START_TEST(texts_are_written_the_same_way_always)
{
    pare_json_writer *w;
    const char *text;
    size_t len;
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    write_example(w);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len), PARE_OK);
    ck_assert_uint_eq(len, strlen(text));
    ck_assert_str_eq(text, example);
    pare_json *doc;
    ck_assert_int_eq(parse(text, &doc), PARE_OK);
    pare_json_writer *copy;
    const char *again;
    ck_assert_int_eq(pare_json_writer_new(&cx, &copy), PARE_OK);
    pare_json_put_copy(copy, NULL, doc);
    ck_assert_int_eq(pare_json_writer_finish(copy, &again, &len), PARE_OK);
    ck_assert_str_eq(again, text);
    pare_json_free(doc);
    pare_json_writer_free(copy);
    pare_json_writer_free(w);
    pare_json_writer_free(NULL);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

static void misuse(pare_json_writer *w, int kind)
{
    switch (kind) {
    case 0: pare_json_put_number(w, NULL, NAN); break;
    case 1: pare_json_open_array(w, NULL); break;
    case 2: pare_json_close(w); break;
    case 3: pare_json_put_bool(w, "key", true); break;
    case 4:
        pare_json_put_null(w, NULL);
        pare_json_put_null(w, NULL);
        break;
    case 5:
        pare_json_open_object(w, NULL);
        pare_json_put_null(w, NULL);
        break;
    case 6:
        for (int i = 0; i < 100; i++)
            pare_json_open_array(w, NULL);
        break;
    default: break;
    }
}

START_TEST(misuse_of_the_writer_comes_out_at_the_end)
{
    static const char *const message[] = {
        "json: a number is not finite", "json: the text is not finished",
        "json: nothing is open",        "json: more than one value, or a key outside an object",
        "json: more than one value",    "json: a key in an array or a member without key",
        "json: nested too deep",        "json: the text is not finished"};
    pare_json_writer *w;
    const char *text;
    size_t len;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    misuse(w, _i);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len),
                     _i == 0 ? PARE_ENUMERIC : PARE_EINVAL);
    ck_assert_msg(strncmp(cx.what, message[_i], strlen(message[_i])) == 0, "%s", cx.what);
    pare_json_writer_free(w);
}
END_TEST

START_TEST(every_failed_allocation_of_the_writer_is_reported)
{
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_json_writer *w;
        const char *text;
        size_t len;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_json_writer_new(&c, &w);
        if (s == PARE_OK) {
            pare_json_open_array(w, NULL);
            for (int i = 0; i < 20; i++) {
                pare_json_open_object(w, NULL);
                pare_json_put_text(w, "a long key to fill the buffer with", "and a long text too");
                pare_json_put_integer(w, "i", i);
                pare_json_close(w);
            }
            pare_json_close(w);
            s = pare_json_writer_finish(w, &text, &len);
        }
        pare_json_writer_free(w);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 3);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_eq(c.what, "json: out of memory");
    }
}
END_TEST

int main(void)
{
    pare_ctx_init(&cx);
    Suite *const s = suite_create("json");
    TCase *const t = tcase_create("json");
    tcase_add_test(t, values_are_read_by_type);
    tcase_add_test(t, other_types_give_the_fallback);
    tcase_add_loop_test(t, numbers_that_nobody_reads_stop_nothing, 0,
                        sizeof beyond / sizeof *beyond);
    tcase_add_loop_test(t, mistakes_carry_line_and_column, 0, sizeof wrong / sizeof *wrong);
    tcase_add_test(t, nesting_ends_at_64);
    tcase_add_test(t, nul_bytes_and_long_texts_are_refused);
    tcase_add_test(t, a_byte_order_mark_is_told);
    tcase_add_test(t, every_failed_allocation_of_the_parser_is_reported);
    tcase_add_test(t, texts_are_written_the_same_way_always);
    tcase_add_loop_test(t, misuse_of_the_writer_comes_out_at_the_end, 0, 8);
    tcase_add_test(t, every_failed_allocation_of_the_writer_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
