/* The key/value cache in packed.index.json, and the tables that calibration makes for it. */
#include <string.h>

#include "formats/packed.h"
#include "formats/packed_kv.h"
#include "runtime/kv.h"
#include "runtime/model.h"
#include "tests/unit/unit.h"

static const pare_kv_format formats[] = {
    {.method = PARE_KV_FLOAT},
    {.method = PARE_KV_INT8},
    {.method = PARE_KV_INT4},
    {.method = PARE_KV_INT4, .group = 64},
    {.method = PARE_KV_KIVI, .group = 32, .window = 128},
    {.method = PARE_KV_KIVI, .group = 8, .window = 1},
    {.method = PARE_KV_KVQUANT},
    {.method = PARE_KV_KVQUANT, .sink = 4},
};
enum { FORMATS = sizeof formats / sizeof *formats };

static pare_status read_text(pare_ctx *cx, const char *text, pare_kv_format *out)
{
    pare_json *json;
    ck_assert_int_eq(pare_json_parse(cx, "index", text, strlen(text), 1 << 20, &json), PARE_OK);
    const pare_status s = pare_packed_kv_read(cx, json, out);
    pare_json_free(json);
    return s;
}

static void check_same(const pare_kv_format *is, const pare_kv_format *want)
{
    ck_assert_int_eq(is->method, want->method);
    ck_assert_uint_eq(is->group, want->group);
    ck_assert_uint_eq(is->window, want->window);
    ck_assert_uint_eq(is->sink, want->sink);
}

START_TEST(the_index_of_a_layout_says_how_keys_and_values_are_kept)
{
    pare_ctx cx;
    pare_arena a;
    pare_kv_format f;
    pare_packed_layout l;
    const pare_tensor t = {.name = "t", .dtype = PARE_F16, .rank = 1, .shape = {4}};
    const size_t unit = 0;
    pare_ctx_init(&cx);
    a = (pare_arena){.cx = &cx};
    ck_assert_int_eq(pare_packed_layout_make(&cx, &a, &t, &unit, 1, NULL, NULL, 0, 1 << 20, &l),
                     PARE_OK);
    const size_t plain = l.index_bytes;
    ck_assert_int_eq(pare_packed_layout_kv(&cx, &a, &formats[_i], &l), PARE_OK);
    ck_assert_uint_eq(strlen(l.index), l.index_bytes);
    ck_assert(_i == 0 ? l.index_bytes == plain : l.index_bytes > plain);
    ck_assert_int_eq(read_text(&cx, l.index, &f), PARE_OK);
    check_same(&f, &formats[_i]);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

static const struct {
    const char *text, *fragment;
} refused[] = {
    {"{\"kv_cache\": 3}", "unknown method"},
    {"{\"kv_cache\": {\"method\": 8}}", "unknown method"},
    {"{\"kv_cache\": {\"method\": \"none\"}}", "unknown method"},
    {"{\"kv_cache\": {\"method\": \"int9\"}}", "unknown method"},
    {"{\"kv_cache\": {\"method\": \"int8\", \"scale\": 1}}", "unknown member \"scale\""},
    {"{\"kv_cache\": {\"method\": \"int4\", \"group\": 0}}", "out of range: \"group\""},
    {"{\"kv_cache\": {\"method\": \"int4\", \"group\": \"32\"}}", "out of range: \"group\""},
    {"{\"kv_cache\": {\"method\": \"int4\", \"group\": 12}}", "int4 does not go with group 12"},
    {"{\"kv_cache\": {\"method\": \"int4\", \"group\": 136}}", "int4 does not go with group 136"},
    {"{\"kv_cache\": {\"method\": \"int8\", \"group\": 32}}", "int8 does not go with group 32"},
    {"{\"kv_cache\": {\"method\": \"kivi\", \"window\": 8}}", "kivi does not go with group 0"},
    {"{\"kv_cache\": {\"method\": \"kivi\", \"group\": 32}}", "kivi does not go with group 32"},
    {"{\"kv_cache\": {\"method\": \"kivi\", \"group\": 32, \"window\": 99999999}}",
     "out of range: \"window\""},
    {"{\"kv_cache\": {\"method\": \"kvquant\", \"window\": 8}}", "kvquant does not go with"},
    {"{\"kv_cache\": {\"method\": \"kvquant\", \"sink\": 65}}", "out of range: \"sink\""},
    {"{\"kv_cache\": {\"method\": \"int8\", \"sink\": 1}}", "int8 does not go with"},
};

START_TEST(what_a_method_does_not_have_is_refused)
{
    pare_ctx cx;
    pare_kv_format f;
    pare_ctx_init(&cx);
    ck_assert_int_eq(read_text(&cx, refused[_i].text, &f), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, refused[_i].fragment) != NULL, "%s", cx.what);
}
END_TEST

START_TEST(tables_lie_beside_the_attention_of_their_block)
{
    static const char *const name[PARE_KV_TABLES] = {
        "model.layers.11.self_attn.k_cache.levels", "model.layers.11.self_attn.k_cache.scales",
        "model.layers.11.self_attn.k_cache.lows", "model.layers.11.self_attn.v_cache.levels"};
    static const uint64_t length[PARE_KV_TABLES] = {8, 96, 96, 8};
    const pare_config c = {.arch = pare_arch_find("llama"), .kv_heads = 3, .head_dim = 32};
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a = {.cx = &cx};
    for (pare_kv_table t = PARE_KV_KEY_LEVELS; t < PARE_KV_TABLES; t++) {
        pare_tensor is;
        ck_assert_int_eq(pare_packed_kv_tensor(&a, &c, 11, t, &is), PARE_OK);
        ck_assert_str_eq(is.name, name[t]);
        ck_assert_int_eq(is.dtype, PARE_F16);
        ck_assert_uint_eq(is.rank, 1);
        ck_assert_uint_eq(is.shape[0], length[t]);
        ck_assert_uint_eq(is.bytes, 2 * length[t]);
    }
    pare_arena_release(&a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_index");
    TCase *const t = tcase_create("kv_index");
    tcase_add_loop_test(t, the_index_of_a_layout_says_how_keys_and_values_are_kept, 0, FORMATS);
    tcase_add_loop_test(t, what_a_method_does_not_have_is_refused, 0,
                        sizeof refused / sizeof *refused);
    tcase_add_test(t, tables_lie_beside_the_attention_of_their_block);
    suite_add_tcase(s, t);
    return unit_main(s);
}
