/* Components of tokenizer.json one after the other, and small tokenizer.model files: ids and
 * decoded texts of hard texts against the reference (components.json is written by
 * tests/interop/components.py). */
#include <string.h>

#include "formats/json.h"
#include "formats/tokenizer.h"
#include "runtime/file.h"
#include "unit.h"

enum { CAP = 16 * 1024 * 1024, DOCUMENTS = 36, MODELS = 6 };

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static char *read_data(const char *name, size_t *len)
{
    char path[4096], *text;
    (void)snprintf(path, sizeof path, "%s/tests/data/tokenizers/%s", PARE_SOURCE_DIR, name);
    ck_assert_msg(pare_file_read(&cx, &arena, path, CAP, &text, len) == PARE_OK, "%s", cx.what);
    return text;
}

static void expect(const char *name, const pare_tokenizer *t, const pare_json *one)
{
    const pare_json *const ids = pare_json_get(one, "ids");
    size_t len, count, back_len, want_len;
    int32_t *got;
    char *back;
    const char *const text = pare_json_text(pare_json_get(one, "text"), &len);
    ck_assert_msg(pare_tokenizer_encode(&cx, t, &arena, text, len, &got, &count) == PARE_OK,
                  "%s: %s", name, cx.what);
    for (size_t i = 0; i < count && i < pare_json_count(ids); i++)
        ck_assert_msg(got[i] == pare_json_integer(pare_json_at(ids, i), -1),
                      "%s: '%s': token %zu is %d, not %lld", name, text, i, got[i],
                      (long long)pare_json_integer(pare_json_at(ids, i), -1));
    ck_assert_msg(count == pare_json_count(ids), "%s: '%s': %zu tokens, %zu expected", name, text,
                  count, pare_json_count(ids));
    ck_assert_int_eq(pare_tokenizer_decode(&cx, t, &arena, got, count, &back, &back_len), PARE_OK);
    const char *const want = pare_json_text(pare_json_get(one, "decoded"), &want_len);
    ck_assert_msg(want_len == back_len && memcmp(want, back, back_len) == 0,
                  "%s: '%s' comes back as '%s', not '%s'", name, text, back, want);
}

START_TEST(components_give_the_ids_and_texts_of_the_reference)
{
    size_t len;
    const char *const text = read_data("components.json", &len), *json;
    pare_json *doc;
    pare_json_writer *w;
    pare_tokenizer *t;
    ck_assert_int_eq(pare_json_parse(&cx, "components", text, len, CAP, &doc), PARE_OK);
    ck_assert_uint_eq(pare_json_count(doc), DOCUMENTS);
    const pare_json *const one = pare_json_at(doc, (size_t)_i);
    const char *const name = pare_json_text(pare_json_get(one, "name"), NULL);
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_put_copy(w, NULL, pare_json_get(one, "document"));
    ck_assert_int_eq(pare_json_writer_finish(w, &json, &len), PARE_OK);
    ck_assert_msg(pare_tokenizer_parse(&cx, name, json, len, &t) == PARE_OK, "%s", cx.what);
    const pare_json *const cases = pare_json_get(one, "cases");
    ck_assert_uint_gt(pare_json_count(cases), 10);
    for (size_t i = 0; i < pare_json_count(cases); i++)
        expect(name, t, pare_json_at(cases, i));
    pare_tokenizer_free(t);
    pare_json_writer_free(w);
    pare_json_free(doc);
}
END_TEST

START_TEST(models_give_the_ids_and_texts_of_the_reference)
{
    size_t len;
    const char *const text = read_data("models.json", &len);
    pare_json *doc;
    pare_tokenizer *t;
    ck_assert_int_eq(pare_json_parse(&cx, "models", text, len, CAP, &doc), PARE_OK);
    ck_assert_uint_eq(pare_json_count(doc), MODELS);
    const pare_json *const one = pare_json_at(doc, (size_t)_i);
    const char *const name = pare_json_text(pare_json_get(one, "name"), NULL);
    const char *const bytes = read_data(name, &len);
    ck_assert_msg(pare_tokenizer_parse_model(&cx, name, bytes, len, &t) == PARE_OK, "%s", cx.what);
    const pare_json *const cases = pare_json_get(one, "cases");
    ck_assert_uint_gt(pare_json_count(cases), 10);
    for (size_t i = 0; i < pare_json_count(cases); i++)
        expect(name, t, pare_json_at(cases, i));
    pare_tokenizer_free(t);
    pare_json_free(doc);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("tokenizer_components");
    TCase *const c = tcase_create("components");
    tcase_set_timeout(c, 60);
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_loop_test(c, components_give_the_ids_and_texts_of_the_reference, 0, DOCUMENTS);
    tcase_add_loop_test(c, models_give_the_ids_and_texts_of_the_reference, 0, MODELS);
    suite_add_tcase(s, c);
    return unit_main(s);
}
