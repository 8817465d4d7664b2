/* HDF5 files that pare-hdf5 makes, read back by it. */
#include <fcntl.h>
#include <unistd.h>

#include "formats/hdf5_internal.h"
#include "tests/unit/load_case.h"

enum { ROWS = 700, COLUMNS = 1111, LONG = 600000 };

static pare_scratch scratch;
static float values[ROWS * COLUMNS], line[LONG];
static double one[1] = {0.1};
static int32_t ids[6] = {1, -2, 3, -4, 5, INT32_MIN};
static uint64_t count[1] = {UINT64_MAX};
static const char text[] = "{\"a\": 1}";

static void begin_write(void)
{
    begin();
    pare_scratch_init(&cx, &scratch);
    for (size_t i = 0; i < ROWS * COLUMNS; i++)
        values[i] = (float)(i * i % 1009) / 7;
    for (size_t i = 0; i < LONG; i++)
        line[i] = (float)i;
}

static void end_write(void)
{
    pare_scratch_close(&scratch);
    end();
}

static pare_tensor tensor(const char *name, pare_dtype dtype, uint32_t rank, uint64_t n, uint64_t k,
                          const void *data)
{
    pare_tensor t = {.name = name, .dtype = dtype, .rank = rank, .shape = {n, k}, .data = data};
    ck_assert_int_eq(pare_tensor_bytes(dtype, rank, t.shape, &t.bytes), PARE_OK);
    return t;
}

/* By name, as they come back. */
static size_t all_tensors(pare_tensor t[8])
{
    t[0] = tensor("a.count", PARE_U64, 1, 1, 0, count);
    t[1] = tensor("a.deep.er.one", PARE_F64, 1, 1, 0, one);
    t[2] = tensor("a.line", PARE_F32, 1, LONG, 0, line);
    t[3] = tensor("b.empty", PARE_F32, 2, 0, 7, "");
    t[4] = tensor("b.ids", PARE_I32, 2, 2, 3, ids);
    t[5] = tensor("settings", PARE_U8, 1, sizeof text - 1, 0, text);
    t[6] = tensor("values", PARE_F32, 2, ROWS, COLUMNS, values);
    return 7;
}

static const char *place(const char *name)
{
    folder_put_text(&dir, name, "of old");
    const char *const path = folder_file(&dir, name);
    return pare_arena_text(&arena, path, strlen(path));
}

static pare_status open_writer(const char *path, uint64_t most, pare_hdf5_writer *w)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    *w = (pare_hdf5_writer){.cx = &cx, .path = path, .file = file};
    const pare_status s = pare__hdf5_begin(w, PARE_HDF5_HELPER, most);
    ck_assert(file >= 0 && close(file) == 0);
    return s;
}

/* Writes all of them, the last first: the file sorts them. */
static pare_status write_all(const char *path, uint64_t most)
{
    pare_tensor t[8];
    pare_hdf5_writer w;
    const size_t tensors = all_tensors(t);
    pare_status s = open_writer(path, most, &w);
    for (size_t i = tensors; s == PARE_OK && i-- > 0;)
        s = pare_hdf5_put(&w, &t[i], i % 2 == 0);
    if (s == PARE_OK)
        return pare_hdf5_finish(&w);
    pare_hdf5_abandon(&w);
    return s;
}

static pare_status read_only(const char *path, const char *only, pare_hdf5 *out)
{
    const pare__hdf5_limits limits = {60000, 600000};
    return pare__hdf5_run(&cx, &arena, &scratch, PARE_HDF5_HELPER, limits, path, 1 << 20, false,
                          only, out);
}

static void same(const pare_tensor *x, const pare_tensor *y)
{
    ck_assert_str_eq(x->name, y->name);
    ck_assert(x->dtype == y->dtype && x->rank == y->rank && x->bytes == y->bytes);
    ck_assert_mem_eq(x->shape, y->shape, x->rank * sizeof *x->shape);
    ck_assert_mem_eq(x->data, y->data, (size_t)x->bytes);
}

START_TEST(what_is_written_comes_back)
{
    pare_tensor t[8];
    pare_hdf5 out;
    const size_t tensors = all_tensors(t);
    const char *const path = place("new.h5");
    ck_assert_msg(write_all(path, 16 << 20) == PARE_OK, "%s", cx.what);
    ck_assert_msg(read_only(path, NULL, &out) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(out.tensors, tensors);
    for (size_t i = 0; i < tensors; i++)
        same(&out.tensor[i], &t[i]);
}
END_TEST

START_TEST(one_member_of_the_root_is_read_alone)
{
    pare_tensor t[8];
    pare_hdf5 out;
    (void)all_tensors(t);
    const char *const path = place("new.h5");
    ck_assert_int_eq(write_all(path, 16 << 20), PARE_OK);
    ck_assert_int_eq(read_only(path, "a", &out), PARE_OK);
    ck_assert_uint_eq(out.tensors, 3);
    for (size_t i = 0; i < 3; i++)
        same(&out.tensor[i], &t[i]);
    ck_assert_int_eq(read_only(path, "settings", &out), PARE_OK);
    ck_assert_uint_eq(out.tensors, 1);
    same(&out.tensor[0], &t[5]);
    ck_assert_int_eq(read_only(path, "line", &out), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "nothing called line is in it"));
}
END_TEST

START_TEST(the_same_calls_give_the_same_bytes)
{
    size_t len[2];
    char *file[2];
    for (int i = 0; i < 2; i++) {
        const char *const path = place("new.h5");
        ck_assert_int_eq(write_all(path, 16 << 20), PARE_OK);
        file[i] = folder_get(path, &len[i]);
        if (i == 0)
            (void)sleep(2); /* a time in the file would be another one */
    }
    ck_assert_uint_eq(len[0], len[1]);
    ck_assert_mem_eq(file[0], file[1], len[0]);
    free(file[0]);
    free(file[1]);
}
END_TEST

/* A chunk that was damaged is found by its checksum. */
START_TEST(a_damaged_chunk_is_found)
{
    pare_hdf5 out;
    size_t len, at = 0;
    const float mark = line[LONG - 5];
    const char *const path = place("new.h5");
    pare_tensor t = tensor("line", PARE_F32, 1, LONG, 0, line);
    pare_hdf5_writer w;
    ck_assert_int_eq(open_writer(path, 16 << 20, &w), PARE_OK);
    ck_assert_int_eq(pare_hdf5_put(&w, &t, false), PARE_OK);
    ck_assert_int_eq(pare_hdf5_finish(&w), PARE_OK);
    char *const bytes = folder_get(path, &len);
    while (at + 4 < len && memcmp(bytes + at, &mark, sizeof mark) != 0)
        at++;
    ck_assert_uint_lt(at + 4, len);
    bytes[at] ^= 1;
    folder_put(&dir, "new.h5", bytes, len);
    free(bytes);
    ck_assert_int_eq(read_only(path, NULL, &out), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "line: its data cannot be read"));
}
END_TEST

START_TEST(a_file_does_not_grow_above_its_limit)
{
    const char *const path = place("new.h5");
    ck_assert_int_eq(write_all(path, 1 << 16), PARE_EIO);
    ck_assert_ptr_nonnull(strstr(cx.what, "new.h5: the HDF5 writer ended early"));
}
END_TEST

START_TEST(what_cannot_be_written_is_refused)
{
    pare_hdf5_writer w;
    pare_tensor t = tensor("wide", PARE_F32, 2, 1, (1 << 20) + 1, line);
    const char *const path = place("new.h5");
    ck_assert_int_eq(open_writer(path, 1 << 20, &w), PARE_OK);
    ck_assert_int_eq(pare_hdf5_put(&w, &t, false), PARE_EINVAL);
    ck_assert_ptr_nonnull(strstr(cx.what, "wide has rows of more than 4194304 bytes"));
    pare_ctx_clear(&cx);
    t = tensor("x", PARE_F16, 1, 8, 0, line); /* read, but never written */
    ck_assert(pare_hdf5_put(&w, &t, false) != PARE_OK || pare_hdf5_finish(&w) != PARE_OK);
    ck_assert_ptr_nonnull(strstr(cx.what, "a tensor of another kind than is written"));
    pare_hdf5_abandon(&w);
    ck_assert_int_eq(w.pid, 0);
}
END_TEST

/* Whatever has the name by then. */
START_TEST(the_file_that_is_open_is_written)
{
    pare_tensor t = tensor("a", PARE_F32, 1, 8, 0, line);
    pare_hdf5 out;
    pare_hdf5_writer w = {.cx = &cx, .path = place("new.h5")};
    const char *const moved = place("moved.h5"), *const other = place("other");
    size_t len;
    w.file = open(w.path, O_RDWR | O_CLOEXEC);
    ck_assert_int_ge(w.file, 0);
    ck_assert_int_eq(rename(w.path, moved), 0);
    ck_assert_int_eq(symlink(other, w.path), 0);
    ck_assert_int_eq(pare__hdf5_begin(&w, PARE_HDF5_HELPER, 1 << 20), PARE_OK);
    ck_assert_int_eq(pare_hdf5_put(&w, &t, false), PARE_OK);
    ck_assert_msg(pare_hdf5_finish(&w) == PARE_OK, "%s", cx.what);
    ck_assert_int_eq(close(w.file), 0);
    ck_assert_int_eq(read_only(moved, NULL, &out), PARE_OK);
    same(&out.tensor[0], &t);
    char *const bytes = folder_get(other, &len);
    ck_assert_str_eq(bytes, "of old");
    free(bytes);
}
END_TEST

/* Two datasets of one name, a dataset where a group is. */
START_TEST(a_failure_of_the_process_is_told)
{
    pare_hdf5_writer w;
    pare_tensor t = tensor("a.b", PARE_F32, 1, 8, 0, line);
    const char *const path = place("new.h5");
    ck_assert_int_eq(open_writer(path, 1 << 20, &w), PARE_OK);
    ck_assert_int_eq(pare_hdf5_put(&w, &t, false), PARE_OK);
    t.name = "a";
    ck_assert(pare_hdf5_put(&w, &t, false) != PARE_OK || pare_hdf5_finish(&w) != PARE_OK);
    ck_assert_ptr_nonnull(strstr(cx.what, "new.h5: the HDF5 writer ended early: a: cannot be"));
    pare_hdf5_abandon(&w);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hdf5_write");
    TCase *const t = tcase_create("hdf5_write");
    tcase_add_checked_fixture(t, begin_write, end_write);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, what_is_written_comes_back);
    tcase_add_test(t, one_member_of_the_root_is_read_alone);
    tcase_add_test(t, the_same_calls_give_the_same_bytes);
    tcase_add_test(t, a_damaged_chunk_is_found);
    tcase_add_test(t, a_file_does_not_grow_above_its_limit);
    tcase_add_test(t, the_file_that_is_open_is_written);
    tcase_add_test(t, what_cannot_be_written_is_refused);
    tcase_add_test(t, a_failure_of_the_process_is_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
