/* Models in several GGUF files, cut from one of the corpus. */
#include <string.h>

#include "formats/gguf_internal.h"
#include "tests/unit/folder.h"

enum { PARTS = 3, BYTES_MAX = 1 << 20 };

static pare_ctx cx;
static pare_arena arena;
static pare_checkpoint ck;
static folder dir;
static char *whole;
static size_t whole_len;
static pare_gguf g;

/* How the parts are written: numbers as they should be, or not. */
typedef struct cut {
    int64_t no[PARTS], count[PARTS], tensors[PARTS];
    size_t begin[PARTS + 1]; /* tensors of the parts */
    size_t twice;            /* a tensor that is in the last part, too, or SIZE_MAX */
} cut;

static cut plain(void)
{
    return (cut){.no = {0, 1, 2},
                 .count = {PARTS, PARTS, PARTS},
                 .tensors = {(int64_t)g.tensors, (int64_t)g.tensors, (int64_t)g.tensors},
                 .begin = {0, 0, 5, g.tensors}, /* the first has values only */
                 .twice = SIZE_MAX};
}

static void read_whole(const char *name)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", PARE_SOURCE_DIR, name);
    whole = folder_get(path, &whole_len);
    ck_assert_int_eq(pare_gguf_parse(&cx, &arena, "g", whole, whole_len, &g), PARE_OK);
}

static void begin(void)
{
    pare_ctx_init(&cx);
    ck = (pare_checkpoint){0};
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
    read_whole("model_llama");
    folder_make(&dir);
}

static void end(void)
{
    folder_remove(&dir);
    free(whole);
    pare_checkpoint_close(&ck);
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static unsigned char bytes[BYTES_MAX];
static size_t at;

static void put(uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[at++] = (unsigned char)(v >> 8 * i);
}

static void put_text(const char *text)
{
    put(strlen(text), 8);
    memcpy(bytes + at, text, strlen(text));
    at += strlen(text);
}

static void put_value(const pare_gguf_value *v)
{
    put_text(v->key);
    put(v->array ? PARE_GGUF_ARRAY : v->kind, 4);
    if (v->array) {
        put(v->kind, 4);
        put(v->count, 8);
    }
    memcpy(bytes + at, v->data, (size_t)v->bytes);
    at += (size_t)v->bytes;
}

static void put_number(const char *key, int64_t v)
{
    put_text(key);
    put(PARE_GGUF_I32, 4);
    put((uint64_t)v, 4);
}

static const pare_gguf_tensor *tensor_at(const cut *c, size_t part, size_t i)
{
    const size_t from = c->begin[part] + i;
    return &g.tensor[from < c->begin[part + 1] ? from : c->twice];
}

static void write_part(const cut *c, size_t part, folder *to, const char *name)
{
    const size_t tensors =
        c->begin[part + 1] - c->begin[part] + (part == PARTS - 1 && c->twice != SIZE_MAX);
    uint64_t offset = 0;
    at = 0;
    put(0x46554747, 4);
    put(3, 4);
    put(tensors, 8);
    put(3 + (part == 0 ? g.values : 0), 8);
    put_number("split.no", c->no[part]);
    put_number("split.count", c->count[part]);
    put_number("split.tensors.count", c->tensors[part]);
    for (size_t i = 0; part == 0 && i < g.values; i++)
        put_value(&g.value[i]);
    for (size_t i = 0; i < tensors; i++) {
        const pare_gguf_tensor *const t = tensor_at(c, part, i);
        put_text(t->name);
        put(t->rank, 4);
        for (uint32_t k = t->rank; k-- > 0;)
            put(t->shape[k], 8);
        put(t->type->id, 4);
        put(offset, 8);
        offset = (offset + t->bytes + 31) / 32 * 32;
    }
    for (size_t i = 0; i < tensors; i++) {
        const pare_gguf_tensor *const t = tensor_at(c, part, i);
        while (at % 32 != 0)
            put(0, 1);
        memcpy(bytes + at, t->data, (size_t)t->bytes);
        at += (size_t)t->bytes;
    }
    folder_put(to, name, bytes, at);
}

static const char *const names[] = {"m-00001-of-00003.gguf", "m-00002-of-00003.gguf",
                                    "m-00003-of-00003.gguf"};

static void write_parts(const cut *c)
{
    for (size_t i = 0; i < PARTS; i++)
        write_part(c, i, &dir, names[i]);
}

/* Tensors, configuration and tokenizer are those of the whole file. */
static void is_the_same(const char *name, bool runs)
{
    char *const path = name ? pare_path_join(&arena, dir.path, name) : dir.path;
    pare_checkpoint one = {0};
    pare_tokenizer *t = NULL;
    char text[64], wanted[64];
    folder_put(&dir, "whole", whole, whole_len);
    char *const file = pare_path_join(&arena, dir.path, "whole");
    ck_assert_int_eq(
        (runs ? pare_checkpoint_open_to_run : pare_checkpoint_open)(&cx, &arena, file, &one),
        PARE_OK);
    ck_assert_msg((runs ? pare_checkpoint_open_to_run : pare_checkpoint_open)(&cx, &arena, path,
                                                                              &ck) == PARE_OK,
                  "%s", cx.what);
    ck_assert_uint_eq(ck.files, PARTS);
    ck_assert_uint_eq(ck.tensors, one.tensors);
    for (size_t i = 0; i < ck.tensors; i++) {
        ck_assert_str_eq(ck.tensor[i].name, one.tensor[i].name);
        ck_assert_uint_eq(ck.tensor[i].bytes, one.tensor[i].bytes);
        ck_assert_mem_eq(ck.tensor[i].data, one.tensor[i].data, (size_t)one.tensor[i].bytes);
        ck_assert_str_eq(ck.stored[i].type, one.stored[i].type);
        ck_assert_uint_gt(ck.tensor_file[i], 0);
        ck_assert_int_eq(ck.stored[i].packed != NULL, one.stored[i].packed != NULL);
    }
    ck_assert(pare_checkpoint_quantized(&ck, text, sizeof text));
    ck_assert(pare_checkpoint_quantized(&one, wanted, sizeof wanted));
    ck_assert_str_eq(text, wanted);
    ck_assert_str_eq(pare_json_text(pare_json_get(ck.config, "model_type"), NULL), "llama");
    ck_assert_int_eq(pare_json_integer(pare_json_get(ck.config, "vocab_size"), 0), 8);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&ck, &t), PARE_OK);
    pare_tokenizer_free(t);
    pare_checkpoint_close(&one);
}

/* Memory that a model of so many parts takes, of which the second has all tensors. */
static size_t memory_of(size_t parts)
{
    pare_checkpoint many = {0};
    pare_arena own;
    folder here;
    cut c = plain();
    char name[64];
    folder_make(&here);
    ck_assert_int_eq(pare_arena_init(&cx, &own, 0), PARE_OK);
    c.begin[1] = 0;
    c.begin[2] = g.tensors;
    for (size_t i = 0; i < parts; i++) {
        const size_t as = i < PARTS ? i : PARTS - 1;
        (void)snprintf(name, sizeof name, "m-%05zu-of-%05zu.gguf", i + 1, parts);
        c.no[as] = (int64_t)i;
        c.count[as] = (int64_t)parts;
        write_part(&c, as, &here, name);
    }
    const size_t before = cx.live_bytes;
    ck_assert_msg(pare_checkpoint_open(&cx, &own, here.path, &many) == PARE_OK, "%s", cx.what);
    const size_t took = cx.live_bytes - before;
    pare_checkpoint_close(&many);
    pare_arena_release(&own);
    folder_remove(&here);
    return took;
}

START_TEST(each_part_is_parsed_once)
{
    const size_t few = memory_of(50), many = memory_of(200);
    ck_assert_msg(many < 6 * few, "50 parts take %zu bytes, 200 take %zu", few, many);
}
END_TEST

START_TEST(any_part_names_the_model)
{
    const cut c = plain();
    write_parts(&c);
    is_the_same(names[_i % PARTS], _i >= PARTS);
}
END_TEST

/* Of the head and of down, which becomes floats. */
START_TEST(the_number_beside_nvfp4_may_lie_in_another_part)
{
    free(whole);
    read_whole("model_nvfp4");
    cut c = plain();
    const char *const name = _i / 2 ? "output.scale" : "blk.0.ffn_down.scale";
    c.begin[2] = (size_t)(pare_gguf_tensor_find(&g, name) - g.tensor) + 1;
    write_parts(&c);
    is_the_same(names[0], _i % 2);
}
END_TEST

START_TEST(a_directory_may_hold_the_parts_of_one_model)
{
    const cut c = plain();
    write_parts(&c);
    is_the_same(NULL, false);
    pare_checkpoint_close(&ck);
    folder_put(&dir, "other.gguf", whole, whole_len);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, ": 2 models of kind GGUF; name a file of one of them"));
}
END_TEST

static void refuses(const char *what)
{
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, folder_file(&dir, names[0]), &ck),
                     PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, what) != NULL, "%s", cx.what);
    pare_checkpoint_close(&ck);
    pare_ctx_clear(&cx);
}

START_TEST(parts_that_do_not_belong_together_are_refused)
{
    cut c = plain();
    write_part(&c, 0, &dir, names[0]);
    write_part(&c, 2, &dir, names[2]);
    refuses("m-00002-of-00003.gguf: missing: it is part 2 of 3 of the model");
    c.no[1] = 2;
    write_parts(&c);
    refuses("m-00002-of-00003.gguf: its name says part 2 of 3, but split.no is 2 and split.count 3 "
            "(1 and 3 are right)");
    c = plain();
    c.count[2] = 4;
    write_parts(&c);
    refuses(
        "m-00003-of-00003.gguf: its name says part 3 of 3, but split.no is 2 and split.count 4");
    c = plain();
    c.tensors[1]++;
    write_parts(&c);
    refuses("m-00002-of-00003.gguf: split.tensors.count is 12, in the first part 11: parts of two");
    c = plain();
    c.begin[3]--;
    write_parts(&c);
    refuses("split.tensors.count is 11, but its 3 parts have 10 tensors: parts of two models");
    c = plain();
    c.twice = 2;
    write_parts(&c);
    refuses(
        "m-00003-of-00003.gguf: tensor blk.0.attn_output.weight is in part m-00002-of-00003.gguf");
    folder_put(&dir, names[1], whole, whole_len);
    refuses("m-00002-of-00003.gguf: its name says part 2 of 3, but split.no is -1");
    folder_put(&dir, names[1], "GGUF", 4);
    refuses("m-00002-of-00003.gguf: byte 4: the version goes past the end");
}
END_TEST

START_TEST(names_of_parts_are_told)
{
    ck_assert(!pare__gguf_is_part("m-00000-of-00003.gguf"));
    ck_assert(!pare__gguf_is_part("m-00004-of-00003.gguf"));
    ck_assert(!pare__gguf_is_part("m-00001-of-00001.gguf"));
    ck_assert(!pare__gguf_is_part("m-0001-of-0003.gguf"));
    ck_assert(!pare__gguf_is_part("00001-of-00003.gguf"));
    ck_assert(pare__gguf_is_part("-00001-of-00003.gguf"));
    ck_assert(pare__gguf_together("m-00001-of-00003.gguf", "m-00003-of-00003.gguf"));
    ck_assert(!pare__gguf_together("m-00001-of-00003.gguf", "n-00003-of-00003.gguf"));
    ck_assert(!pare__gguf_together("m-00001-of-00003.gguf", "m-00003-of-00004.gguf"));
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    const cut c = plain();
    write_parts(&c);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx own;
        pare_arena a;
        pare_checkpoint is = {0};
        pare_ctx_init(&own);
        own.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&own, &a, 0);
        if (s == PARE_OK)
            s = pare_checkpoint_open(&own, &a, folder_file(&dir, names[0]), &is);
        pare_checkpoint_close(&is);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 5);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf_split");
    TCase *const t = tcase_create("gguf_split");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, each_part_is_parsed_once);
    tcase_add_loop_test(t, any_part_names_the_model, 0, 2 * PARTS);
    tcase_add_loop_test(t, the_number_beside_nvfp4_may_lie_in_another_part, 0, 4);
    tcase_add_test(t, a_directory_may_hold_the_parts_of_one_model);
    tcase_add_test(t, parts_that_do_not_belong_together_are_refused);
    tcase_add_test(t, names_of_parts_are_told);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
