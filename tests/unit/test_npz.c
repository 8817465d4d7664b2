#include "formats/npz.h"

#include "tests/data/zip_file.h"
#include "tests/unit/folder.h"

static const char *const messages[] = {
    "array: does not begin like a NumPy array",
    "array: version 4.0, 1.0 to 3.0 are read",
    "array: version 1.1, 1.0 to 3.0 are read",
    "array: a header of 65000 bytes in ",
    "array: a header of 4294967295 bytes in ",
    "array: a header of 0 bytes in 10",
    "character 0 of the header: expected {",
    "of the header: expected a comma or }",
    "character 1 of the header: expected a text in quotes",
    "character 1 of the header: expected each of the keys descr, fortran_order, shape once",
    "character 17 of the header: expected each of the keys descr, fortran_order, shape once",
    "array: the header lacks one of the keys descr, fortran_order, shape",
    "of the header: expected a short plain text and a closing quote",
    "of the header: expected a colon",
    "of the header: expected the end of the header",
    "of the header: expected True or False",
    "of the header: expected a tuple",
    "of the header: expected a comma",
    "of the header: expected a whole number from 0 on",
    "of the header: expected a number of at most 64 bits",
    "array: more than 8 dimensions",
    "array: an array of structures",
    "array: elements of type |O: only whole and floating-point numbers are read",
    "array: elements of type <U4: only whole",
    "array: elements of type <c8: only whole",
    "array: elements of type >f4: only little-endian ones are read",
    "array: elements of type |f4: only little-endian ones are read",
    "array: elements of type f4: only whole",
    "array: elements of type : only whole",
    "array: elements of type |V2: two bytes without a meaning; they are read as BF16 where",
    "array: the size of the array overflows",
    "array: 20 bytes of data, type and shape need 24",
    "array: 26 bytes of data, type and shape need 24",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_strided s;
    return pare_npy_parse(cx, "array", bytes, len, len % 2 == 0, &s);
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("npy", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

/* An array of version 1 with the header as given. */
static grown make(const char *header, const void *data, size_t len)
{
    grown g = {0};
    grown_put(&g, "\x93NUMPY\1\0", 8);
    grown_put_number(&g, strlen(header), 2);
    grown_put(&g, header, strlen(header));
    grown_put(&g, data, len);
    return g;
}

static const float numbers[6] = {1, 2, 3, 4, 5, 6};
static const char rows[] = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }     \n";
static const char columns[] = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }\n";

static void add_array(zip_file *z, const char *name, const char *header)
{
    grown g = make(header, numbers, sizeof numbers);
    zip_add(z, name, g.bytes, g.len);
    free(g.bytes);
}

static grown make_archive(void)
{
    zip_file z = {0};
    add_array(&z, "b.weight.npy", columns);
    add_array(&z, "a-b.npy", rows); /* '-' sorts in front of '.', the ending must not count */
    add_array(&z, "a.npy", rows);
    return zip_end(&z);
}

START_TEST(arrays_of_an_archive_are_views_sorted_by_name)
{
    static const float turned[6] = {1, 3, 5, 2, 4, 6};
    float copy[6];
    pare_ctx cx;
    pare_arena a;
    pare_npz file;
    grown g = make_archive();
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_status s = pare_npz_parse(&cx, &a, "file", g.bytes, g.len, false, &file);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(file.tensors, 3);
    ck_assert_str_eq(file.tensor[0].tensor.name, "a");
    ck_assert_str_eq(file.tensor[1].tensor.name, "a-b");
    ck_assert_str_eq(file.tensor[2].tensor.name, "b.weight");
    for (size_t i = 0; i < 3; i++) {
        const pare_strided *const t = &file.tensor[i];
        ck_assert(t->tensor.dtype == PARE_F32 && t->tensor.rank == 2 && t->tensor.bytes == 24);
        ck_assert(t->tensor.shape[0] == 2 && t->tensor.shape[1] == 3);
        ck_assert_mem_eq(t->tensor.data, numbers, sizeof numbers);
        ck_assert_int_eq(pare_strided_in_order(t), i != 2);
        pare_strided_copy(t, copy);
        ck_assert_mem_eq(copy, i == 2 ? turned : numbers, sizeof copy);
    }
    pare_arena_release(&a);
    free(g.bytes);
}
END_TEST

static void refuses_archive(zip_file *z, pare_status expected, const char *message)
{
    pare_ctx cx;
    pare_arena a;
    pare_npz file;
    grown g = zip_end(z);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_status s = pare_npz_parse(&cx, &a, "file", g.bytes, g.len, false, &file);
    ck_assert_msg(s == expected && strstr(cx.what, message), "%s\nexpected: %s", cx.what, message);
    pare_arena_release(&a);
    free(g.bytes);
}

START_TEST(what_is_no_archive_of_arrays_is_refused)
{
    zip_file empty = {0}, other = {0}, unnamed = {0}, broken = {0};
    refuses_archive(&empty, PARE_EFORMAT, "file: the archive is empty");
    add_array(&other, "a.npy", rows);
    zip_add(&other, "notes.txt", "x", 1);
    refuses_archive(&other, PARE_EFORMAT, "file: entry notes.txt is not called NAME.npy");
    add_array(&unnamed, ".npy", rows);
    refuses_archive(&unnamed, PARE_EFORMAT, "file: entry .npy is not called NAME.npy");
    zip_add(&broken, "a.npy", "x", 1);
    refuses_archive(&broken, PARE_EFORMAT, "file: entry a.npy: does not begin like a NumPy array");
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    grown g = make(rows, numbers, sizeof numbers);
    for (size_t cut = 0; cut < g.len; cut++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        unsigned char *const part = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, g.bytes, cut);
        ck_assert_int_eq(parse_bytes(&cx, part, cut), PARE_EFORMAT);
        free(part);
    }
    free(g.bytes);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    grown g = make_archive();
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_arena a;
        pare_npz file;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        pare_status s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = pare_npz_parse(&cx, &a, "file", g.bytes, g.len, false, &file);
        pare_arena_release(&a);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 2);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(cx.what, "");
    }
    free(g.bytes);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("npz");
    TCase *const t = tcase_create("npz");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, arrays_of_an_archive_are_views_sorted_by_name);
    tcase_add_test(t, what_is_no_archive_of_arrays_is_refused);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
