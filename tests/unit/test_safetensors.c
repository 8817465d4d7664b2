#include "formats/safetensors.h"

#include "tests/unit/folder.h"

/* Every message of the reader; mistakes of JSON itself belong to test_json. */
static const char *const messages[] = {
    "a safetensors file has at least 8: truncated?",
    "at most 100000000 are allowed: not a safetensors file?",
    "bytes in a file of",
    "byte 8: the header does not start with '{'",
    "NUL byte",
    "nested deeper than 64 levels",
    "expected near",
    "duplicate object key",
    "end of file expected",
    "premature end of input",
    "unable to decode byte 0xff",
    "\\u0000 is not supported: no text can hold that character",
    "__metadata__ is not an object",
    "__metadata__ a is not a string",
    "tensor a: its entry is not an object",
    "tensor a: dtype is missing or not a string",
    "tensor a: unknown dtype ",
    "tensor a: shape is missing or not an array",
    "tensor a has 9 dimensions, at most 8",
    "tensor a: dimension 0 is not a whole number from 0 on",
    "tensor a: its size overflows or does not fill whole bytes",
    "tensor a: data_offsets is missing or not a pair",
    "tensor a: data_offsets are not 0 <= begin <= end",
    "bytes, dtype and shape need ",
    "of the data, but the file has 8: truncated?",
    "of the data, inside tensor a that ends at ",
    "of the data belong to no tensor (in front of tensor ",
    "8 bytes of data, but the tensors end at ",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_safetensors file;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_safetensors_parse(cx, &a, "file", bytes, len, &file);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("safetensors", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

/* Length of the header in front of it, data behind it; to be freed. */
static char *make(const char *header, const char *data, size_t *len)
{
    const size_t n = strlen(header), d = strlen(data);
    char *const bytes = calloc(8 + n + d, 1);
    ck_assert_ptr_nonnull(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (char)(n >> (8 * i) & 0xff);
    memcpy(bytes + 8, header, n);
    memcpy(bytes + 8 + n, data, d);
    *len = 8 + n + d;
    return bytes;
}

static const char two[] =
    "{\"__metadata__\":{\"format\":\"pt\"},\"b\":{\"dtype\":\"F16\",\"shape\":[1,2],"
    "\"data_offsets\":[4,8]},\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},"
    "\"c\":{\"dtype\":\"F32\",\"shape\":[0,3],\"data_offsets\":[4,4]}}   ";

START_TEST(tensors_are_views_sorted_by_name)
{
    pare_ctx cx;
    pare_arena a;
    pare_safetensors file;
    size_t len;
    char *const bytes = make(two, "wxyzabcd", &len);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_safetensors_parse(&cx, &a, "file", bytes, len, &file), PARE_OK);
    ck_assert_uint_eq(file.data_offset, 8 + strlen(two));
    ck_assert_uint_eq(file.tensors, 3);
    const pare_tensor *const t = file.tensor;
    ck_assert_str_eq(t[0].name, "a");
    ck_assert_ptr_eq(t[0].data, bytes + file.data_offset);
    ck_assert_str_eq(t[1].name, "b");
    ck_assert_int_eq(t[1].dtype, PARE_F16);
    ck_assert_uint_eq(t[1].rank, 2);
    ck_assert_uint_eq(t[1].shape[1], 2);
    ck_assert_mem_eq(t[1].data, "abcd", 4);
    ck_assert_str_eq(t[2].name, "c");
    ck_assert_uint_eq(t[2].bytes, 0);
    pare_arena_release(&a);
    free(bytes);
}
END_TEST

/* Safe to cut anywhere: every shorter file is refused, and none reads past its end (sanitizer). */
START_TEST(every_truncation_is_refused)
{
    size_t len;
    char *const bytes = make(two, "wxyzabcd", &len);
    for (size_t cut = 0; cut < len; cut++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        char *const part = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, bytes, cut);
        ck_assert_int_eq(parse_bytes(&cx, part, cut), PARE_EFORMAT);
        ck_assert_msg(strncmp(cx.what, "file: ", 6) == 0, "%s", cx.what);
        free(part);
    }
    free(bytes);
}
END_TEST

START_TEST(a_written_header_reads_back)
{
    static const size_t aligns[] = {1, 8, 64};
    const pare_tensor tensor[] = {
        {"z\"\\\x01\xc3\xa9", PARE_F4, 2, {4, 4}, NULL, 8},
        {"a.weight", PARE_BF16, 1, {2}, NULL, 4},
        {"scalar", PARE_I8, 0, {0}, NULL, 1},
    };
    const uint64_t offset[] = {0, 8, 12};
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    char *text;
    size_t len;
    for (size_t i = 0; i < 3; i++) {
        ck_assert_int_eq(
            pare_safetensors_header(&cx, &a, tensor, offset, 3, aligns[i], &text, &len), PARE_OK);
        ck_assert_uint_eq(len % aligns[i], 0);
        ck_assert_ptr_eq(strstr(text + 8, "{\"__metadata__\":{\"format\":\"pt\"}"), text + 8);
        char *const bytes = pare_arena_take(&a, len + 13, 1);
        ck_assert_ptr_nonnull(bytes);
        memcpy(bytes, text, len);
        pare_safetensors file;
        ck_assert_int_eq(pare_safetensors_parse(&cx, &a, "f", bytes, len + 13, &file), PARE_OK);
        ck_assert_uint_eq(file.tensors, 3);
        ck_assert_uint_eq(file.data_offset, len);
        ck_assert_str_eq(file.tensor[0].name, "a.weight");
        ck_assert_ptr_eq(file.tensor[0].data, bytes + len + 8);
        ck_assert_str_eq(file.tensor[2].name, tensor[0].name);
        ck_assert_int_eq(file.tensor[2].dtype, PARE_F4);
    }
    ck_assert_int_eq(pare_safetensors_header(&cx, &a, tensor, offset, 3, 0, &text, &len),
                     PARE_EINVAL);
    pare_arena_release(&a);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    size_t len;
    char *const bytes = make(two, "wxyzabcd", &len);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        const pare_status s = parse_bytes(&cx, bytes, len);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 2);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(cx.what, "");
    }
    free(bytes);
}
END_TEST

START_TEST(real_files_are_read)
{
    static const char *const names[] = {"models/hedge/model.safetensors",
                                        "models/stories260k/model.safetensors"};
    for (size_t i = 0; i < 2; i++) {
        const char *const path = unit_shared(names[i]);
        if (!path)
            continue;
        size_t len;
        char *const bytes = folder_get(path, &len);
        pare_ctx cx;
        pare_ctx_init(&cx);
        ck_assert_int_eq(parse_bytes(&cx, bytes, len), PARE_OK);
        ck_assert_int_eq(parse_bytes(&cx, bytes, len - 1), PARE_EFORMAT);
        ck_assert_ptr_nonnull(strstr(cx.what, "truncated?"));
        free(bytes);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("safetensors");
    TCase *const t = tcase_create("safetensors");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, tensors_are_views_sorted_by_name);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, a_written_header_reads_back);
    tcase_add_test(t, every_failed_allocation_is_reported);
    tcase_add_test(t, real_files_are_read);
    suite_add_tcase(s, t);
    return unit_main(s);
}
