/* The same model in every kind of file gives the same tensors. */
#include "tests/data/torch_file.h"
#include "tests/unit/load_case.h"

/* The tiny model as it is read from safetensors; open until the end of the test. */
static pare_checkpoint plain;
static folder origin;

static void open_plain(void)
{
    tiny_model m = tiny_model_default();
    folder_make(&origin);
    ck_assert(tiny_model_write(&m, origin.path));
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, origin.path, &plain), PARE_OK);
    size_t len;
    char *const config = folder_get(folder_file(&origin, "config.json"), &len);
    folder_put(&dir, "config.json", config, len);
    free(config);
}

static void close_plain(void)
{
    pare_checkpoint_close(&plain);
    folder_remove(&origin);
}

static void same_tensors(const char *path, size_t files)
{
    pare_checkpoint ck;
    ck_assert_msg(pare_checkpoint_open(&cx, &arena, path, &ck) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(ck.files, files);
    ck_assert_uint_eq(ck.tensors, plain.tensors);
    for (size_t i = 0; i < ck.tensors; i++) {
        const pare_tensor *const x = &ck.tensor[i], *const y = &plain.tensor[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert(x->dtype == y->dtype && x->rank == y->rank && x->bytes == y->bytes);
        ck_assert_mem_eq(x->shape, y->shape, sizeof x->shape);
        ck_assert_mem_eq(x->data, y->data, (size_t)x->bytes);
        ck_assert_uint_eq((uintptr_t)x->data % 2, 0);
    }
    pare_model model;
    ck_assert_msg(pare_model_load(&cx, &arena, &ck, &model) == PARE_OK, "%s", cx.what);
    pare_checkpoint_close(&ck);
}

/* Tensors [first, end) of the model; every third matrix lies by columns. */
static void put_torch(const char *name, size_t first, size_t end, bool turned)
{
    torch_file t;
    torch_begin(&t);
    for (size_t i = first; i < end; i++) {
        const pare_tensor *const x = &plain.tensor[i];
        if (!turned || x->rank != 2 || i % 3 != 0) {
            torch_add(&t, x);
            continue;
        }
        const uint64_t n = x->shape[0], k = x->shape[1];
        const pare_strided s = {*x, {1, n}};
        const pare_strided back = {{"", x->dtype, 2, {k, n}, x->data, x->bytes}, {1, k}};
        void *const columns = malloc((size_t)x->bytes);
        ck_assert_ptr_nonnull(columns);
        pare_strided_copy(&back, columns);
        torch_tensor(&t, &s, torch_storage(&t, columns, (size_t)x->bytes), n * k, 0);
        free(columns);
    }
    const grown g = torch_end(&t);
    folder_put(&dir, name, g.bytes, g.len);
    free(g.bytes);
}

START_TEST(a_pytorch_model_is_read)
{
    open_plain();
    put_torch("pytorch_model.bin", 0, plain.tensors, false);
    same_tensors(dir.path, 1);
    same_tensors(folder_file(&dir, "pytorch_model.bin"), 1);
    put_torch("pytorch_model.bin", 0, plain.tensors, true);
    same_tensors(dir.path, 1);
    put_torch("model.pth", 0, plain.tensors, true);
    same_tensors(folder_file(&dir, "model.pth"), 1);
    put_torch("without_ending", 0, plain.tensors, false);
    same_tensors(folder_file(&dir, "without_ending"), 1);
    close_plain();
}
END_TEST

START_TEST(shards_of_a_pytorch_model_are_read)
{
    open_plain();
    const size_t half = plain.tensors / 2;
    put_torch("pytorch_model-00001-of-00002.bin", 0, half, false);
    put_torch("pytorch_model-00002-of-00002.bin", half, plain.tensors, true);
    FILE *const f = fopen(folder_file(&dir, "pytorch_model.bin.index.json"), "w");
    ck_assert_ptr_nonnull(f);
    (void)fprintf(f, "{\"metadata\": {\"total_size\": 1}, \"weight_map\": {");
    for (size_t i = 0; i < plain.tensors; i++)
        (void)fprintf(f, "%s\n\"%s\": \"pytorch_model-0000%d-of-00002.bin\"", i ? "," : "",
                      plain.tensor[i].name, i < half ? 1 : 2);
    (void)fprintf(f, "}}\n");
    ck_assert_int_eq(fclose(f), 0);
    same_tensors(dir.path, 2);
    folder_put_text(&dir, "pytorch_model-00003-of-00003.bin", "old");
    refuses(PARE_EFORMAT, "pytorch_model-00003-of-00003.bin lies beside it, but is not in the ind");
    edit("pytorch_model.bin.index.json", "00001-of-00002.bin", "00001-of-00002.bim");
    refuses(PARE_EFORMAT, "pytorch_model-00001-of-00002.bim is not a .bin file");
    close_plain();
}
END_TEST

/* The same as arrays; every third matrix lies by columns. */
static void put_npz(const char *name, const char *type)
{
    zip_file z = {0};
    for (size_t i = 0; i < plain.tensors; i++) {
        const pare_tensor *const x = &plain.tensor[i];
        const bool turned = x->rank == 2 && i % 3 == 0;
        char header[160], entry[128];
        grown g = {0};
        unsigned char *const data = malloc((size_t)x->bytes);
        ck_assert_ptr_nonnull(data);
        memcpy(data, x->data, (size_t)x->bytes);
        if (turned) {
            const pare_strided back = {
                {"", x->dtype, 2, {x->shape[1], x->shape[0]}, x->data, x->bytes}, {1, x->shape[1]}};
            pare_strided_copy(&back, data);
        }
        const int n = snprintf(header, sizeof header,
                               x->rank == 2 ? "{'descr': '%s', 'fortran_order': %s, 'shape': "
                                              "(%llu, %llu), }\n"
                                            : "{'descr': '%s', 'fortran_order': %s, 'shape': "
                                              "(%llu,), }\n",
                               type, turned ? "True" : "False", (unsigned long long)x->shape[0],
                               (unsigned long long)x->shape[1]);
        grown_put(&g, "\x93NUMPY\1\0", 8);
        grown_put_number(&g, (uint64_t)n, 2);
        grown_put(&g, header, (size_t)n);
        grown_put(&g, data, (size_t)x->bytes);
        (void)snprintf(entry, sizeof entry, "%s.npy", x->name);
        zip_add(&z, entry, g.bytes, g.len);
        free(data);
        free(g.bytes);
    }
    const grown g = zip_end(&z);
    folder_put(&dir, name, g.bytes, g.len);
    free(g.bytes);
}

/* A listing names all tensors, and copies none. */
static void same_list(const char *path)
{
    pare_checkpoint ck;
    size_t copies = 0;
    ck_assert_int_eq(pare_checkpoint_list(&cx, &arena, path, &ck), PARE_OK);
    ck_assert_uint_eq(ck.tensors, plain.tensors);
    for (size_t i = 0; i < ck.tensors; i++) {
        const pare_tensor *const x = &ck.tensor[i], *const y = &plain.tensor[i];
        ck_assert_str_eq(x->name, y->name);
        ck_assert(x->dtype == y->dtype && x->rank == y->rank && x->bytes == y->bytes);
        copies += !x->data;
    }
    ck_assert(copies > 0 && copies < ck.tensors);
    ck_assert(!ck.scratch.open);
    pare_checkpoint_close(&ck);
}

START_TEST(an_archive_of_numpy_arrays_is_read)
{
    open_plain();
    put_npz("model.npz", "<f2");
    same_tensors(folder_file(&dir, "model.npz"), 1);
    same_list(dir.path);
    same_tensors(dir.path, 1);
    put_npz("without_ending", "<f2");
    same_tensors(folder_file(&dir, "without_ending"), 1);
    put_npz("model.npz", "<V2");
    refuses(PARE_ENOTSUP, "where config.json says torch_dtype bfloat16");
    pare_checkpoint ck;
    edit("config.json", "{", "{\"torch_dtype\": \"bfloat16\",");
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_checkpoint_open(&cx, &arena, dir.path, &ck), PARE_OK);
    ck_assert_int_eq(ck.tensor[0].dtype, PARE_BF16);
    pare_checkpoint_close(&ck);
    close_plain();
}
END_TEST

/* What begins a file that the shell would run for whoever unpickles it carelessly. */
START_TEST(a_malicious_pytorch_file_is_refused)
{
    static const char code[] = "\x80\x02"
                               "cposix\nsystem\nX\x0c\0\0\0touch /tmp/xx\x85R.";
    torch_file t = {0};
    open_plain();
    zip_add(&t.zip, "archive/data.pkl", code, sizeof code - 1);
    const grown g = zip_end(&t.zip);
    folder_put(&dir, "pytorch_model.bin", g.bytes, g.len);
    free(g.bytes);
    refuses(PARE_ENOTSUP,
            "pytorch_model.bin: data.pkl: byte 2: GLOBAL: posix.system is not one of");
    close_plain();
}
END_TEST

/* Many tensors may share a storage, but copies of them all may not exceed the file. */
START_TEST(copies_of_tensors_are_bounded)
{
    static const float values[4096];
    static const pare_strided turned = {{"", PARE_F32, 2, {64, 64}, NULL, sizeof values}, {1, 64}};
    torch_file t;
    torch_begin(&t);
    const size_t storage = torch_storage(&t, values, sizeof values);
    for (size_t i = 0; i < 4; i++) {
        char name[8];
        pare_strided s = turned;
        (void)snprintf(name, sizeof name, "t%zu", i);
        s.tensor.name = name;
        torch_tensor(&t, &s, storage, 4096, 0);
    }
    const grown g = torch_end(&t);
    folder_put_text(&dir, "config.json", "{}");
    folder_put(&dir, "pytorch_model.bin", g.bytes, g.len);
    free(g.bytes);
    refuses(PARE_EFORMAT,
            "tensor t1: tensors that must be copied need more bytes than the file has");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("containers");
    TCase *const t = tcase_create("containers");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_pytorch_model_is_read);
    tcase_add_test(t, shards_of_a_pytorch_model_are_read);
    tcase_add_test(t, an_archive_of_numpy_arrays_is_read);
    tcase_add_test(t, a_malicious_pytorch_file_is_refused);
    tcase_add_test(t, copies_of_tensors_are_bounded);
    suite_add_tcase(s, t);
    return unit_main(s);
}
