/* GGUF files that carry their checksums: every bit of them counts. */
#include "formats/gguf_internal.h"
#include "formats/gguf_seal.h"

#include "compress/artifact/verify.h"
#include "compress/output/owned_files.h"
#include "tests/unit/folder.h"

enum { ROW = 40, ROWS = 3 };

static pare_ctx cx;
static pare_arena arena;
static folder dir;

static void begin(void)
{
    folder_begin(&dir, &cx, &arena);
}

static void end(void)
{
    folder_end(&dir, &arena);
}

/* Two tensors, the first with padding behind it. */
static const char *write_file(const char *program, bool sealed)
{
    static const uint64_t shape[] = {ROWS, ROW};
    const pare_ggml_type *const f32 = pare_ggml_type_named("F32");
    float values[ROWS * ROW];
    pare_gguf_writer w;
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 2, &w), PARE_OK);
    pare_gguf_put_text(&w, "general.architecture", "none", 4);
    pare_gguf_put_text(&w, "general.quantized_by", program, strlen(program));
    if (sealed)
        pare_gguf_put_seal(&w);
    (void)pare_gguf_add(&w, "b", f32, 1, (const uint64_t[]){ROW + 2});
    (void)pare_gguf_add(&w, "a", f32, 2, shape);
    ck_assert_int_eq(pare_gguf_lay_out(&w), PARE_OK);
    ck_assert_int_eq(pare_gguf_create(&w, folder_file(&dir, "x.gguf")), PARE_OK);
    for (size_t i = 0; i < ROWS * ROW; i++)
        values[i] = (float)i;
    ck_assert_int_eq(pare_gguf_fill(&w, 0, 0, values, (ROW + 2) * sizeof *values), PARE_OK);
    ck_assert_int_eq(pare_gguf_fill(&w, 1, 0, values, sizeof values), PARE_OK);
    ck_assert_int_eq(sealed ? pare_gguf_seal(&w) : pare_gguf_sync(&w), PARE_OK);
    pare_gguf_close(&w);
    return dir.file;
}

/* What reading and checking says of bytes. */
static pare_status check(const char *bytes, size_t len, bool *sealed)
{
    const pare_file f = {.path = "x.gguf", .data = (const unsigned char *)bytes, .bytes = len};
    const pare_mark m = pare_arena_mark(&arena);
    pare_gguf g;
    pare_status s = pare_gguf_parse(&cx, &arena, f.path, bytes, len, &g);
    if (s == PARE_OK)
        s = pare_gguf_check_seal(&cx, &arena, &f, &g, sealed);
    pare_arena_rewind(&arena, m);
    return s;
}

START_TEST(every_bit_of_a_sealed_file_counts)
{
    size_t len, tensors = 0;
    bool sealed = false;
    char *const bytes = folder_get(write_file("pare 0", true), &len);
    ck_assert_msg(check(bytes, len, &sealed) == PARE_OK, "%s", cx.what);
    ck_assert(sealed);
    for (size_t bit = 0; bit < 8 * len; bit++) {
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
        const pare_status s = check(bytes, len, &sealed);
        ck_assert_msg(s == PARE_EFORMAT || s == PARE_ENOTSUP, "bit %zu: %d", bit, (int)s);
        tensors += strstr(cx.what, "x.gguf: tensor ") && strstr(cx.what, "from its checksum");
        pare_ctx_clear(&cx);
        bytes[bit / 8] = (char)(bytes[bit / 8] ^ 1 << bit % 8);
    }
    ck_assert_uint_eq(tensors, 8 * (192 + ROWS * ROW * sizeof(float))); /* padding, too */
    ck_assert_int_eq(check(bytes, len, &sealed), PARE_OK);
    bytes[len - 1] ^= 1;
    ck_assert_int_eq(check(bytes, len, &sealed), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "tensor a is damaged"));
    pare_ctx_clear(&cx);
    free(bytes);
}
END_TEST

START_TEST(files_of_other_programs_have_no_checksums_to_fit)
{
    size_t len;
    bool sealed = true;
    char *bytes = folder_get(write_file("llama-quantize", false), &len);
    ck_assert_int_eq(check(bytes, len, &sealed), PARE_OK);
    ck_assert(!sealed);
    free(bytes);
    ck_assert_int_eq(unlink(dir.file), 0);
    bytes = folder_get(write_file("pare 0", false), &len);
    ck_assert_int_eq(check(bytes, len, &sealed), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what,
                                 "its head is damaged, or was changed after pare wrote it: "
                                 "it has no checksum, or is of an earlier version"));
    pare_ctx_clear(&cx);
    free(bytes);
}
END_TEST

/* Its data would begin where nothing is: the head is cut there. */
START_TEST(a_file_that_ends_in_its_head_is_refused)
{
    char bytes[512];
    size_t len = 0;
    bool sealed = false;
    pare_gguf_writer w;
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 0, &w), PARE_OK);
    pare_gguf_put_u32(&w, "general.alignment", 1u << 30);
    pare_gguf_put_seal(&w);
    len = w.len + 24;
    ck_assert_int_eq(pare_gguf_lay_out(&w), PARE_OK);
    ck_assert_uint_le(len, sizeof bytes);
    memcpy(bytes, w.head, len);
    ck_assert_int_eq(check(bytes, len, &sealed), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(cx.what, "its head is damaged"));
    ck_assert_ptr_nonnull(strstr(cx.what, "it is cut"));
    pare_ctx_clear(&cx);
}
END_TEST

static size_t findings(const char *path)
{
    pare_verify_result r;
    ck_assert_int_eq(pare_verify(&cx, path, NULL, NULL, &r), PARE_OK);
    return r.findings;
}

START_TEST(a_changed_file_is_found_and_not_replaced)
{
    const char *const path = write_file("pare 0", true);
    ck_assert_uint_eq(findings(path), 0);
    ck_assert_int_eq(pare_owned_check(&cx, &arena, path, PARE_OUTPUT_FILE, false), PARE_OK);
    FILE *const f = fopen(path, "r+b");
    ck_assert(f && fseek(f, -3, SEEK_END) == 0 && fputc(1, f) == 1 && fclose(f) == 0);
    ck_assert_uint_eq(findings(path), 1);
    ck_assert_int_eq(pare_owned_check(&cx, &arena, path, PARE_OUTPUT_FILE, false), PARE_EEXISTS);
    ck_assert_ptr_nonnull(
        strstr(cx.what, "x.gguf: has no checksums in its head, or differs from them"));
    pare_ctx_clear(&cx);
}
END_TEST

/* One tensor of those, as a file without checksums, which begins with `first`. */
static char *write_part(float first, size_t *len)
{
    const pare_ggml_type *const f32 = pare_ggml_type_named("F32");
    float values[ROW + 2];
    pare_gguf_writer w;
    for (size_t i = 0; i < ROW + 2; i++)
        values[i] = (float)i;
    values[0] = first;
    ck_assert_int_eq(pare_gguf_begin(&cx, &arena, 1, &w), PARE_OK);
    pare_gguf_put_text(&w, "general.architecture", "none", 4);
    (void)pare_gguf_add(&w, "b", f32, 1, (const uint64_t[]){ROW + 2});
    ck_assert_int_eq(pare_gguf_lay_out(&w), PARE_OK);
    ck_assert_int_eq(pare_gguf_create(&w, folder_file(&dir, "y.gguf")), PARE_OK);
    ck_assert_int_eq(pare_gguf_fill(&w, 0, 0, values, sizeof values), PARE_OK);
    ck_assert_int_eq(pare_gguf_sync(&w), PARE_OK);
    pare_gguf_close(&w);
    return folder_get(dir.file, len);
}

START_TEST(parts_are_held_against_the_first)
{
    enum { PADDING = 24 }; /* behind 42 floats */
    const struct {
        float first;
        size_t cut;
        bool sealed;
        pare_status is;
    } all[] = {{0, 0, true, PARE_OK},
               {0, PADDING, true, PARE_OK},
               {1, 0, true, PARE_EFORMAT},
               {1, PADDING, true, PARE_EFORMAT},
               {1, 0, false, PARE_OK}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool sealed = !all[i].sealed;
        size_t len[2];
        char *const bytes[2] = {folder_get(write_file("pare 0", all[i].sealed), &len[0]),
                                write_part(all[i].first, &len[1])};
        const pare_file file[] = {
            {.path = "x", .data = (const unsigned char *)bytes[0], .bytes = len[0]},
            {.path = "y", .data = (const unsigned char *)bytes[1], .bytes = len[1] - all[i].cut}};
        const pare_gguf *g;
        ck_assert_int_eq(pare__gguf_heads(&cx, &arena, file, 2, &g), PARE_OK);
        const pare_status s = pare_gguf_check_parts(&cx, &arena, file, g, 2, &sealed);
        ck_assert_msg(s == all[i].is, "%zu: %d %s", i, (int)s, cx.what);
        ck_assert(sealed == all[i].sealed);
        (void)remove(folder_file(&dir, "x.gguf"));
        (void)remove(folder_file(&dir, "y.gguf"));
        if (s != PARE_OK)
            ck_assert_msg(strstr(cx.what, "y: tensor b has none of the checksums") != NULL, "%s",
                          cx.what);
        pare_ctx_clear(&cx);
        free(bytes[0]);
        free(bytes[1]);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf_seal");
    TCase *const t = tcase_create("gguf_seal");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_test(t, every_bit_of_a_sealed_file_counts);
    tcase_add_test(t, files_of_other_programs_have_no_checksums_to_fit);
    tcase_add_test(t, a_file_that_ends_in_its_head_is_refused);
    tcase_add_test(t, a_changed_file_is_found_and_not_replaced);
    tcase_add_test(t, parts_are_held_against_the_first);
    suite_add_tcase(s, t);
    return unit_main(s);
}
