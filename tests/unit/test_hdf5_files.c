/* Real HDF5 files through the real helper: what is read, and what a malicious file tries. */
#define H5_USE_110_API
#include <hdf5.h>
#include <sys/wait.h>

#include "formats/hdf5_internal.h"
#include "tests/data/tiny_model.h"
#include "tests/unit/load_case.h"

static pare_scratch scratch;
static hid_t file;

static void begin_file(void)
{
    begin();
    pare_scratch_init(&cx, &scratch);
    (void)H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    file = H5Fcreate(folder_file(&dir, "model.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(file >= 0);
}

static void end_file(void)
{
    pare_scratch_close(&scratch);
    end();
}

/* A dataset with all its data; how: its creation properties, closed here. */
static void put(hid_t at, const char *name, hid_t type, int rank, const hsize_t *size, hid_t how,
                const void *data)
{
    const hid_t space = H5Screate_simple(rank, size, NULL);
    const hid_t set = H5Dcreate2(at, name, type, space, H5P_DEFAULT, how, H5P_DEFAULT);
    ck_assert(space >= 0 && set >= 0);
    if (data)
        ck_assert(H5Dwrite(set, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, data) >= 0);
    ck_assert(H5Dclose(set) >= 0 && H5Sclose(space) >= 0);
    if (how != H5P_DEFAULT)
        ck_assert(H5Pclose(how) >= 0);
}

static hid_t chunked(int rank, const hsize_t *chunk)
{
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    ck_assert(how >= 0 && H5Pset_chunk(how, rank, chunk) >= 0);
    return how;
}

/* IEEE numbers of two bytes: fields of a larger type, made smaller. */
static hid_t half_type(size_t exponent_bits, size_t fraction_bits, size_t bias)
{
    const hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    ck_assert(H5Tset_fields(type, 15, fraction_bits, exponent_bits, 0, fraction_bits) >= 0);
    ck_assert(H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, bias) >= 0);
    return type;
}

/* Closes the file and reads it. */
static pare_status read_or_list(bool bare, pare_hdf5 *out)
{
    size_t len;
    if (file >= 0)
        ck_assert(H5Fclose(file) >= 0);
    file = -1;
    pare_ctx_clear(&cx);
    free(folder_get(folder_file(&dir, "model.h5"), &len));
    const pare__hdf5_limits limits = {60000, 600000};
    return pare__hdf5_run(&cx, &arena, &scratch, PARE_HDF5_HELPER, limits, dir.file, len, bare,
                          NULL, out);
}

static pare_status read_file(pare_hdf5 *out)
{
    return read_or_list(false, out);
}

static void refuses_file(pare_status expected, const char *message)
{
    pare_hdf5 out;
    const pare_status s = read_file(&out);
    ck_assert_msg(s == expected && strstr(cx.what, message), "%s: %s\nexpected: %s",
                  pare_strstatus(s), cx.what, message);
    ck_assert_ptr_nonnull(strstr(cx.what, "model.h5: "));
}

static const hsize_t sizes[3] = {3, 4, 5};
static float values[60];

START_TEST(types_groups_and_shapes_are_read)
{
    static const uint16_t halves[4] = {0x3c00, 0xbc00, 0x7bff, 1};
    static const int64_t longs[3] = {-1, INT64_MAX, 0};
    const hsize_t four = 4, three = 3, none[2] = {0, 7};
    for (size_t i = 0; i < 60; i++)
        values[i] = (float)i;
    const hid_t group = H5Gcreate2(file, "model", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    const hid_t inner = H5Gcreate2(group, "layers.0", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    put(inner, "w", H5T_IEEE_F32LE, 3, sizes, H5P_DEFAULT, values);
    put(file, "f16", half_type(5, 10, 15), 1, &four, H5P_DEFAULT, halves);
    put(file, "bf16", half_type(8, 7, 127), 1, &four, H5P_DEFAULT, halves);
    put(file, "i64", H5T_STD_I64LE, 1, &three, H5P_DEFAULT, longs);
    put(file, "none", H5T_IEEE_F64LE, 2, none, H5P_DEFAULT, NULL);
    const hid_t flags = H5Tenum_create(H5T_STD_I8LE);
    ck_assert(H5Tenum_insert(flags, "FALSE", "\0") >= 0 &&
              H5Tenum_insert(flags, "TRUE", "\1") >= 0);
    put(file, "flags", flags, 1, &four, H5P_DEFAULT, "\1\0\1");
    ck_assert(H5Tcommit2(file, "named", flags, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT) >= 0);
    const hid_t scalar = H5Screate(H5S_SCALAR);
    const hid_t one =
        H5Dcreate2(file, "scalar", H5T_IEEE_F32LE, scalar, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(H5Dwrite(one, H5T_IEEE_F32LE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values + 7) >= 0);
    ck_assert(H5Dclose(one) >= 0 && H5Sclose(scalar) >= 0 && H5Tclose(flags) >= 0);
    ck_assert(H5Gclose(inner) >= 0 && H5Gclose(group) >= 0);
    static const struct {
        const char *name;
        pare_dtype dtype;
        uint32_t rank;
        const void *data;
        uint64_t bytes;
    } expected[] = {
        {"bf16", PARE_BF16, 1, halves, 8},
        {"f16", PARE_F16, 1, halves, 8},
        {"flags", PARE_BOOL, 1, "\1\0\1", 4},
        {"i64", PARE_I64, 1, longs, 24},
        {"model.layers.0.w", PARE_F32, 3, values, 240},
        {"none", PARE_F64, 2, "", 0},
        {"scalar", PARE_F32, 0, values + 7, 4},
    };
    pare_hdf5 out;
    const pare_status s = read_file(&out);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(out.tensors, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < out.tensors; i++) {
        const pare_tensor *const t = &out.tensor[i];
        ck_assert_str_eq(t->name, expected[i].name);
        ck_assert_int_eq(t->dtype, expected[i].dtype);
        ck_assert_uint_eq(t->rank, expected[i].rank);
        ck_assert_uint_eq(t->bytes, expected[i].bytes);
        ck_assert_mem_eq(t->data, expected[i].data, (size_t)t->bytes);
    }
    ck_assert(out.tensor[4].shape[0] == 3 && out.tensor[4].shape[2] == 5);
    ck_assert_int_eq(read_or_list(true, &out), PARE_OK);
    ck_assert_uint_eq(out.tensors, sizeof expected / sizeof *expected);
    for (size_t i = 0; i < out.tensors; i++) {
        ck_assert_str_eq(out.tensor[i].name, expected[i].name);
        ck_assert_uint_eq(out.tensor[i].bytes, expected[i].bytes);
        ck_assert_ptr_null(out.tensor[i].data);
    }
}
END_TEST

/* Larger than the helper's buffer, in chunks that do not divide it, compressed. */
START_TEST(compressed_chunks_are_put_together_again)
{
    enum { N = 1300, K = 1111 };
    static int32_t data[N * K];
    const hsize_t size[2] = {N, K}, chunk[2] = {100, 300}, deep[3] = {1, N, K};
    for (size_t i = 0; i < N * K; i++)
        data[i] = (int32_t)(i * i % 1009);
    hid_t how = chunked(2, chunk);
    ck_assert(H5Pset_shuffle(how) >= 0 && H5Pset_deflate(how, 1) >= 0 &&
              H5Pset_fletcher32(how) >= 0);
    put(file, "packed", H5T_STD_I32LE, 2, size, how, data);
    put(file, "plain", H5T_STD_I32LE, 3, deep, H5P_DEFAULT, data);
    pare_hdf5 out;
    const pare_status s = read_file(&out);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(out.tensors, 2);
    for (size_t i = 0; i < 2; i++) {
        ck_assert_uint_eq(out.tensor[i].bytes, sizeof data);
        ck_assert_mem_eq(out.tensor[i].data, data, sizeof data);
    }
}
END_TEST

START_TEST(data_in_other_files_are_refused)
{
    const hsize_t ten = 10;
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE);
    ck_assert(H5Pset_external(how, "/etc/passwd", 0, 10) >= 0);
    put(file, "stolen", H5T_STD_U8LE, 1, &ten, how, NULL);
    refuses_file(PARE_ENOTSUP, "stolen: its data lie in another file (external storage)");
}
END_TEST

START_TEST(virtual_datasets_are_refused)
{
    const hsize_t ten = 10;
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE), space = H5Screate_simple(1, &ten, NULL);
    ck_assert(H5Pset_virtual(how, space, "other.h5", "/x", space) >= 0);
    put(file, "made.of.others", H5T_STD_U8LE, 1, &ten, how, NULL);
    ck_assert(H5Sclose(space) >= 0);
    refuses_file(PARE_ENOTSUP, "made.of.others: a virtual dataset, made of other files");
}
END_TEST

START_TEST(links_out_of_the_file_are_refused)
{
    ck_assert(H5Lcreate_external("/etc/passwd", "/x", file, "away", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    refuses_file(PARE_ENOTSUP, "away: an external link; only what lies in the file itself is read");
}
END_TEST

START_TEST(symbolic_links_are_refused)
{
    const hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(H5Lcreate_soft("/g", group, "soft", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    ck_assert(H5Gclose(group) >= 0);
    refuses_file(PARE_ENOTSUP, "g.soft: a symbolic link; only what lies in the file itself");
}
END_TEST

START_TEST(circles_of_hard_links_are_refused)
{
    const hid_t group = H5Gcreate2(file, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(H5Lcreate_hard(file, "/", group, "up", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    ck_assert(H5Gclose(group) >= 0);
    refuses_file(PARE_ENOTSUP, "g.up: an object that was met before under another name");
}
END_TEST

/* A thousand names for one dataset would make a large model of a small file. */
START_TEST(a_dataset_with_two_names_is_refused)
{
    put(file, "a", H5T_IEEE_F32LE, 3, sizes, H5P_DEFAULT, values);
    ck_assert(H5Lcreate_hard(file, "a", file, "b", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    refuses_file(PARE_ENOTSUP, "b: an object that was met before under another name");
}
END_TEST

START_TEST(deep_groups_are_refused)
{
    hid_t at = file;
    for (int i = 0; i < 33; i++) {
        const hid_t next = H5Gcreate2(at, "g", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
        ck_assert(next >= 0);
        if (at != file)
            ck_assert(H5Gclose(at) >= 0);
        at = next;
    }
    ck_assert(H5Gclose(at) >= 0);
    refuses_file(PARE_EFORMAT, "g.g.g.g: groups deeper than 32");
}
END_TEST

START_TEST(other_filters_are_refused)
{
    const hid_t how = chunked(3, sizes);
    ck_assert(H5Pset_scaleoffset(how, H5Z_SO_FLOAT_DSCALE, 2) >= 0);
    put(file, "lossy", H5T_IEEE_F32LE, 3, sizes, how, values);
    refuses_file(PARE_ENOTSUP, "lossy: filter 6 (scaleoffset); only gzip, shuffle and fletcher32");
}
END_TEST

/* A filter without a library of its own is an optional one: a plugin would be looked for. */
static size_t pass(unsigned flags, size_t count, const unsigned *value, size_t bytes, size_t *room,
                   void **buffer)
{
    (void)flags, (void)count, (void)value, (void)room, (void)buffer;
    return bytes;
}

START_TEST(filters_of_plugins_are_refused)
{
    static const H5Z_class2_t plugin = {H5Z_CLASS_T_VERS, 32001, 1, 1, "blosc", NULL, NULL, pass};
    const hid_t how = chunked(3, sizes);
    ck_assert(H5Zregister(&plugin) >= 0);
    ck_assert(H5Pset_filter(how, 32001, H5Z_FLAG_OPTIONAL, 0, NULL) >= 0);
    put(file, "plugged", H5T_IEEE_F32LE, 3, sizes, how, values);
    refuses_file(PARE_ENOTSUP, "plugged: filter 32001 (blosc); only gzip");
}
END_TEST

START_TEST(other_types_are_refused)
{
    static const char *const message =
        "elements that are no little-endian integers or IEEE numbers";
    put(file, "x", H5T_IEEE_F32BE, 3, sizes, H5P_DEFAULT, values);
    refuses_file(PARE_ENOTSUP, message);
    file = H5Fcreate(folder_file(&dir, "model.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "x", H5T_STD_I16BE, 3, sizes, H5P_DEFAULT, values);
    refuses_file(PARE_ENOTSUP, message);
    file = H5Fcreate(folder_file(&dir, "model.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "x", half_type(6, 9, 31), 3, sizes, H5P_DEFAULT, values);
    refuses_file(PARE_ENOTSUP, message);
    file = H5Fcreate(folder_file(&dir, "model.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "x", H5T_C_S1, 3, sizes, H5P_DEFAULT, values);
    refuses_file(PARE_ENOTSUP, message);
}
END_TEST

/* Elements that nobody wrote cost nothing in the file: 4 TB here. */
START_TEST(unwritten_data_are_refused)
{
    const hsize_t large[2] = {1000000, 1000000}, chunk[2] = {1000, 1000};
    put(file, "x", H5T_IEEE_F32LE, 2, large, chunked(2, chunk), NULL);
    refuses_file(PARE_EFORMAT, "x: parts of it were never written");
    file = H5Fcreate(folder_file(&dir, "model.h5"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    put(file, "x", H5T_IEEE_F32LE, 2, large, H5P_DEFAULT, NULL);
    refuses_file(PARE_EFORMAT, "x: parts of it were never written");
}
END_TEST

START_TEST(what_is_no_hdf5_file_is_refused)
{
    ck_assert(H5Fclose(file) >= 0);
    file = -1;
    folder_put_text(&dir, "model.h5", "\x89HDF\r\n\x1a\n and nothing more");
    refuses_file(PARE_EFORMAT, "not an HDF5 file, truncated, or damaged at its start");
}
END_TEST

/* A checksum finds it when half of the tensor is already on its way. */
START_TEST(a_damaged_chunk_is_reported_by_name)
{
    enum { N = 6 << 20, CHUNK = 3 << 20 };
    const hsize_t size = N, chunk = CHUNK;
    char *const data = calloc(N, 1);
    ck_assert_ptr_nonnull(data);
    memcpy(data + N - 8, "sentinel", 8);
    const hid_t how = chunked(1, &chunk);
    ck_assert(H5Pset_fletcher32(how) >= 0);
    put(file, "long", H5T_STD_U8LE, 1, &size, how, data);
    ck_assert(H5Fclose(file) >= 0);
    file = -1;
    free(data);
    size_t len, at = 0;
    char *const bytes = folder_get(folder_file(&dir, "model.h5"), &len);
    while (at + 8 < len && memcmp(bytes + at, "sentinel", 8) != 0)
        at++;
    ck_assert_uint_lt(at + 8, len);
    bytes[at] = 'S';
    folder_put(&dir, "model.h5", bytes, len);
    free(bytes);
    refuses_file(PARE_EFORMAT, "model.h5: long: its data cannot be read");
}
END_TEST

/* Whatever a damaged file does to libhdf5, here it is a message, or other numbers. */
START_TEST(damaged_files_are_survived)
{
    enum { STEP = 97 };
    size_t len, refused = 0;
    put(file, "a", H5T_IEEE_F32LE, 3, sizes, chunked(3, sizes), values);
    put(file, "b", H5T_IEEE_F32LE, 3, sizes, H5P_DEFAULT, values);
    ck_assert(H5Fclose(file) >= 0);
    file = -1;
    char *const bytes = folder_get(folder_file(&dir, "model.h5"), &len);
    for (size_t i = 0; i < len; i += i < 1024 ? 13 : STEP) {
        pare_hdf5 out;
        bytes[i] = (char)(bytes[i] ^ 0xff);
        folder_put(&dir, "model.h5", bytes, len);
        bytes[i] = (char)(bytes[i] ^ 0xff);
        const pare_status s = read_file(&out);
        ck_assert_int_eq(s == PARE_OK, cx.what[0] == '\0');
        refused += s != PARE_OK;
    }
    free(bytes);
    ck_assert_uint_ge(refused, 20);
}
END_TEST

START_TEST(a_model_in_hdf5_is_the_same_model)
{
    const tiny_model m = tiny_model_default();
    pare_checkpoint plain;
    pare_hdf5 out;
    const hid_t type = half_type(5, 10, 15);
    ck_assert(tiny_model_write(&m, dir.path));
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &plain), PARE_OK);
    for (size_t i = 0; i < plain.tensors; i++) {
        const pare_tensor *const t = &plain.tensor[i];
        const hsize_t size[2] = {t->shape[0], t->shape[1]};
        put(file, t->name, type, (int)t->rank, size, H5P_DEFAULT, t->data);
    }
    const pare_status s = read_file(&out);
    ck_assert_msg(s == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(out.tensors, plain.tensors);
    for (size_t i = 0; i < out.tensors; i++) {
        const pare_tensor *const x = &out.tensor[i], *const y = &plain.tensor[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert(x->dtype == y->dtype && x->rank == y->rank && x->bytes == y->bytes);
        ck_assert_mem_eq(x->shape, y->shape, sizeof x->shape);
        ck_assert_mem_eq(x->data, y->data, (size_t)x->bytes);
    }
    pare_checkpoint_close(&plain);
}
END_TEST

static int inspect(const char *name)
{
    char command[8192];
    const char *const path = folder_file(&dir, name);
    (void)snprintf(command, sizeof command, "'%s' inspect '%s' > '%s/out' 2>&1", PARE_PROGRAM, path,
                   dir.path);
    const int status = system(command);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* The program finds the helper beside itself, and tells the kind of file by its first bytes. */
START_TEST(the_program_reads_and_refuses_hdf5_files)
{
    size_t len;
    put(file, "a.weight", H5T_IEEE_F32LE, 3, sizes, H5P_DEFAULT, values);
    ck_assert(H5Fclose(file) >= 0);
    ck_assert_int_eq(inspect("model.h5"), 0);
    char *text = folder_get(folder_file(&dir, "out"), &len);
    ck_assert_ptr_nonnull(strstr(text, "a.weight"));
    free(text);
    file = H5Fcreate(folder_file(&dir, "without_ending"), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    ck_assert(H5Lcreate_external("x.h5", "/x", file, "away", H5P_DEFAULT, H5P_DEFAULT) >= 0);
    ck_assert(H5Fclose(file) >= 0);
    ck_assert_int_eq(inspect("without_ending"), 4);
    text = folder_get(folder_file(&dir, "out"), &len);
    ck_assert_ptr_nonnull(strstr(text, "away: an external link;"));
    free(text);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hdf5_files");
    TCase *const t = tcase_create("hdf5_files");
    tcase_add_checked_fixture(t, begin_file, end_file);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, types_groups_and_shapes_are_read);
    tcase_add_test(t, compressed_chunks_are_put_together_again);
    tcase_add_test(t, data_in_other_files_are_refused);
    tcase_add_test(t, virtual_datasets_are_refused);
    tcase_add_test(t, links_out_of_the_file_are_refused);
    tcase_add_test(t, symbolic_links_are_refused);
    tcase_add_test(t, circles_of_hard_links_are_refused);
    tcase_add_test(t, a_dataset_with_two_names_is_refused);
    tcase_add_test(t, deep_groups_are_refused);
    tcase_add_test(t, other_filters_are_refused);
    tcase_add_test(t, filters_of_plugins_are_refused);
    tcase_add_test(t, other_types_are_refused);
    tcase_add_test(t, unwritten_data_are_refused);
    tcase_add_test(t, what_is_no_hdf5_file_is_refused);
    tcase_add_test(t, a_damaged_chunk_is_reported_by_name);
    tcase_add_test(t, damaged_files_are_survived);
    tcase_add_test(t, a_model_in_hdf5_is_the_same_model);
    tcase_add_test(t, the_program_reads_and_refuses_hdf5_files);
    suite_add_tcase(s, t);
    return unit_main(s);
}
