#include <string.h>
#include <sys/stat.h>

#include "formats/packed_map.h"
#include "formats/safetensors.h"
#include "kernels/layout.h"
#include "runtime/file.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/uniform.h"
#include "tests/unit/unit.h"

typedef struct shape {
    size_t n, k;
    unsigned bits;
    size_t group;
    bool symmetric;
} shape;

static const shape shapes[] = {
    {1, 1, 4, 0, true},      {16, 32, 4, 32, true},  {17, 33, 4, 32, false},
    {40, 100, 3, 64, false}, {40, 100, 2, 32, true}, {15, 31, 8, 0, false},
    {33, 160, 8, 128, true}, {9, 257, 3, 128, true}, {200, 64, 2, 0, false},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Random codes on a grid whose scales are numbers of F16. */
static pare_codes random_codes(pare_arena *a, const pare_packed_linear *l, uint64_t seed)
{
    const size_t groups = pare_packed_linear_groups(l);
    pare_codes c = {.n = l->n,
                    .k = l->k,
                    .groups = groups,
                    .codes = PARE_NEW(a, uint8_t, l->n * l->k),
                    .scales = PARE_NEW(a, float, l->n *groups),
                    .zeros = PARE_NEW(a, uint8_t, l->n * groups)};
    for (size_t i = 0; i < l->n * l->k; i++)
        c.codes[i] = (uint8_t)(pare_random_u64(seed, 1, i) & ((1u << l->bits) - 1));
    for (size_t i = 0; i < l->n * groups; i++) {
        c.scales[i] = (float)(1024 + pare_random_u64(seed, 2, i) % 1024) * 0x1p-14f;
        const uint64_t any = pare_random_u64(seed, 3, i) % (1u << l->bits);
        c.zeros[i] = (uint8_t)(l->symmetric ? 1u << (l->bits - 1) : any);
    }
    return c;
}

static pare_packed_linear linear_of(const shape *s, const char *name)
{
    return (pare_packed_linear)UNIFORM(name, s->n, s->k, s->bits, s->group, s->symmetric);
}

/* A context, an arena, and in it the planes of random codes. */
static pare_codes begin_packed(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                               uint64_t seed, pare_packed_planes *p)
{
    pare_ctx_init(cx);
    ck_assert_int_eq(pare_arena_init(cx, a, 0), PARE_OK);
    const pare_codes c = random_codes(a, l, seed);
    ck_assert_int_eq(pare_packed_pack(cx, a, l, &c, p), PARE_OK);
    return c;
}

START_TEST(a_packed_matrix_dequantizes_to_the_values_of_the_grid)
{
    const pare_packed_linear l = linear_of(&shapes[_i], "w");
    pare_ctx cx;
    pare_arena a;
    pare_packed_planes p;
    const pare_codes c = begin_packed(&cx, &a, &l, 7, &p);
    pare_linear view;
    ck_assert_int_eq(pare_packed_view(&cx, &a, &l, p.plane, &view), PARE_OK);
    ck_assert(view.n == l.n && view.k == l.k && view.bits == l.bits);
    ck_assert(view.panel.n % PARE_PAD_N == 0 && view.panel.k % PARE_ATOM_K == 0);
    float *const w = PARE_NEW(&a, float, view.panel.n *view.panel.k);
    cx.kernels.dequant_f32(w, view.panel.k, &view.panel, l.bits);
    const size_t group = l.group ? l.group : l.k;
    for (size_t i = 0; i < view.panel.n; i++) {
        for (size_t j = 0; j < view.panel.k; j++) {
            const size_t g = i * c.groups + j / group;
            const float want = i < l.n && j < l.k
                                   ? pare_grid_value(c.codes[i * l.k + j], c.scales[g], c.zeros[g])
                                   : 0.0f;
            ck_assert_float_eq(w[i * view.panel.k + j], want);
        }
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(padding_rows_have_scale_zero_and_the_middle_zero_point)
{
    const pare_packed_linear l = linear_of(&shapes[_i], "w");
    pare_ctx cx;
    pare_arena a;
    pare_packed_planes p;
    const pare_codes c = begin_packed(&cx, &a, &l, 8, &p);
    const uint64_t *const bytes = p.bytes.plane;
    const uint16_t *const scales = p.plane[PARE_PLANE_SCALES];
    const uint8_t *const zeros = p.plane[PARE_PLANE_ZEROS];
    ck_assert_uint_eq(bytes[PARE_PLANE_ZEROS], l.symmetric ? 0 : bytes[PARE_PLANE_SCALES] / 2);
    const size_t rows = pare_round_up(l.n, PARE_PAD_N), k = pare_round_up(l.k, PARE_ATOM_K);
    uint8_t *const codes = PARE_NEW(&a, uint8_t, rows * k);
    pare_unpack_codes(codes, k, p.plane[PARE_PLANE_CODES], rows, k, l.bits);
    const uint8_t middle = (uint8_t)(1u << (l.bits - 1));
    for (size_t i = l.n; i < rows; i++) {
        for (size_t g = 0; g < c.groups; g++) {
            const size_t at = (i / 8 * c.groups + g) * 8 + i % 8;
            ck_assert_uint_eq(scales[at], 0);
            ck_assert(!zeros || zeros[at] == middle);
        }
        for (size_t j = 0; j < k; j++)
            ck_assert_uint_eq(codes[i * k + j], middle);
    }
    for (size_t i = 0; i < l.n; i++)
        for (size_t j = l.k; j < k; j++)
            ck_assert_uint_eq(codes[i * k + j], c.zeros[i * c.groups + c.groups - 1]);
    pare_arena_release(&a);
}
END_TEST

START_TEST(packing_gives_the_same_bytes_for_any_number_of_threads)
{
    const pare_packed_linear l = UNIFORM("w", 333, 260, 4, 128, false);
    pare_ctx cx;
    pare_arena a;
    pare_packed_planes one, many;
    const pare_codes c = begin_packed(&cx, &a, &l, 9, &one);
    for (size_t threads = 2; threads <= 5; threads += 3) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(pare_packed_pack(&cx, &a, &l, &c, &many), PARE_OK);
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
        for (pare_plane p = PARE_PLANE_CODES; p <= PARE_PLANE_ZEROS; p++)
            ck_assert(one.plane[p] ? memcmp(one.plane[p], many.plane[p], one.bytes.plane[p]) == 0
                                   : !many.plane[p]);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(codes_of_another_shape_are_refused)
{
    const pare_packed_linear l = UNIFORM("w", 32, 64, 4, 32, true),
                             other = UNIFORM("w", 32, 64, 4, 64, true);
    pare_ctx cx;
    pare_arena a;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    const pare_codes c = random_codes(&a, &other, 1);
    pare_packed_planes p;
    ck_assert_int_eq(pare_packed_pack(&cx, &a, &l, &c, &p), PARE_ESHAPE);
    ck_assert_str_eq(cx.what, "w: codes are 32 x 64 with 1 groups, the linear is 32 x 64 with 2");
    pare_arena_release(&a);
}
END_TEST

/* Two blocks with a linear and a norm each, and an embedding outside. */
static const pare_packed_linear two[] = {UNIFORM("b.0.w", 40, 100, 4, 32, false),
                                         UNIFORM("b.1.w", 40, 100, 3, 0, true)};
static const size_t two_unit[] = {0, 1};
static const pare_tensor kept[] = {
    {.name = "embed", .dtype = PARE_BF16, .rank = 2, .shape = {7, 9}},
    {.name = "b.0.norm", .dtype = PARE_F32, .rank = 1, .shape = {5}},
    {.name = "b.1.norm", .dtype = PARE_F16, .rank = 1, .shape = {3}},
    {.name = "mask", .dtype = PARE_BOOL, .rank = 1, .shape = {11}},
    {.name = "steps", .dtype = PARE_I64, .rank = 0},
};
static const size_t kept_unit[] = {2, 0, 1, 2, 2};
enum { KEPT = sizeof kept / sizeof kept[0] };

static pare_status make(pare_ctx *cx, pare_arena *a, uint64_t shard_bytes, pare_packed_layout *out)
{
    return pare_packed_layout_make(cx, a, kept, kept_unit, KEPT, two, two_unit, 2, shard_bytes,
                                   out);
}

START_TEST(a_layout_tiles_each_file_by_falling_alignment)
{
    pare_ctx cx;
    pare_arena a;
    pare_packed_layout l;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(make(&cx, &a, UINT64_MAX, &l), PARE_OK);
    ck_assert_uint_eq(l.shards, 1);
    ck_assert_str_eq(l.shard_name[0], "packed-00001-of-00001.safetensors");
    static const char *const order[] = {"b.0.w.codes",  "b.1.w.codes",  "steps",    "b.0.norm",
                                        "b.0.w.scales", "b.1.w.scales", "b.1.norm", "embed",
                                        "b.0.w.zeros",  "mask"};
    ck_assert_uint_eq(l.entries, sizeof order / sizeof order[0]);
    uint64_t at = l.header_bytes[0];
    ck_assert_uint_eq(at % 64, 0);
    for (size_t i = 0; i < l.entries; i++) {
        ck_assert_str_eq(l.entry[i].tensor.name, order[i]);
        ck_assert_uint_eq(l.entry[i].offset, at);
        ck_assert_uint_eq(at % (pare_dtype_bits(l.entry[i].tensor.dtype) / 8), 0);
        ck_assert_ptr_eq(pare_packed_find(&l, order[i]), &l.entry[i]);
        at += l.entry[i].tensor.bytes;
    }
    ck_assert_uint_eq(at, l.file_bytes[0]);
    ck_assert_ptr_null(pare_packed_find(&l, "b.1.w.zeros"));
    pare_arena_release(&a);
}
END_TEST

START_TEST(a_header_reads_back_as_the_tensors_of_its_file)
{
    pare_ctx cx;
    pare_arena a;
    pare_packed_layout l;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(make(&cx, &a, 2048, &l), PARE_OK);
    ck_assert_uint_gt(l.shards, 1);
    size_t seen = 0;
    for (uint32_t s = 0; s < l.shards; s++) {
        unsigned char *const file = PARE_NEW(&a, unsigned char, l.file_bytes[s]);
        memcpy(file, l.header[s], l.header_bytes[s]);
        pare_safetensors st;
        ck_assert_int_eq(pare_safetensors_parse(&cx, &a, "f", file, l.file_bytes[s], &st), PARE_OK);
        ck_assert_uint_eq(st.data_offset, l.header_bytes[s]);
        ck_assert(st.tensors == 1 || l.file_bytes[s] - l.header_bytes[s] <= 2048);
        for (size_t i = 0; i < st.tensors; i++, seen++) {
            const pare_packed_entry *const e = pare_packed_find(&l, st.tensor[i].name);
            ck_assert_ptr_nonnull(e);
            ck_assert_uint_eq(e->shard, s);
            ck_assert_ptr_eq(st.tensor[i].data, file + e->offset);
            ck_assert_uint_eq(st.tensor[i].bytes, e->tensor.bytes);
            ck_assert_int_eq(st.tensor[i].dtype, e->tensor.dtype);
        }
    }
    ck_assert_uint_eq(seen, l.entries);
    pare_arena_release(&a);
}
END_TEST

START_TEST(the_index_names_every_tensor_and_describes_every_linear)
{
    pare_ctx cx;
    pare_arena a;
    pare_packed_layout l;
    pare_json *doc = NULL;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(make(&cx, &a, 2048, &l), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "i", l.index, l.index_bytes, 1 << 20, &doc), PARE_OK);
    const pare_json *const map = pare_json_get(doc, "weight_map");
    uint64_t total = 0;
    ck_assert_uint_eq(pare_json_count(map), l.entries);
    for (size_t i = 0; i < l.entries; i++) {
        const char *const file = pare_json_text(pare_json_get(map, l.entry[i].tensor.name), NULL);
        ck_assert_str_eq(file, l.shard_name[l.entry[i].shard]);
        total += l.entry[i].tensor.bytes;
    }
    const pare_json *const meta = pare_json_get(doc, "metadata");
    ck_assert_str_eq(pare_json_text(pare_json_get(meta, "layout"), NULL), "R8K32");
    ck_assert_int_eq(pare_json_integer(pare_json_get(meta, "total_size"), -1), (int64_t)total);
    const pare_json *const w = pare_json_get(pare_json_get(doc, "linears"), "b.1.w");
    ck_assert_int_eq(pare_json_integer(pare_json_get(w, "bits"), -1), 3);
    ck_assert_int_eq(pare_json_integer(pare_json_get(w, "group"), -1), 0);
    ck_assert(pare_json_bool(pare_json_get(w, "symmetric"), false));
    ck_assert_int_eq(pare_json_integer(pare_json_at(pare_json_get(w, "shape"), 1), -1), 100);
    pare_json_free(doc);
    pare_arena_release(&a);
}
END_TEST

START_TEST(what_cannot_be_laid_out_is_refused_by_name)
{
    static const struct {
        pare_packed_linear linear;
        pare_tensor tensor;
        pare_status status;
        const char *what;
    } bad[] = {
        {UNIFORM("w", 8, 32, 5, 32, true),
         {.name = "t", .dtype = PARE_U8},
         PARE_EINVAL,
         "w: no storage for 5 bits in groups of 32"},
        {UNIFORM("w", 8, 32, 4, 48, true),
         {.name = "t", .dtype = PARE_U8},
         PARE_EINVAL,
         "w: no storage for 4 bits in groups of 48"},
        {UNIFORM("w", 0, 32, 4, 32, true),
         {.name = "t", .dtype = PARE_U8},
         PARE_EFORMAT,
         "w: 0 x 32 is outside 1 .. 1073741824"},
        {UNIFORM("w", 8, 32, 4, 32, true),
         {.name = "w.codes", .dtype = PARE_U8},
         PARE_EFORMAT,
         "two tensors of the artifact would be named w.codes"},
        {UNIFORM("w", 8, 32, 4, 32, true),
         {.name = "t", .dtype = PARE_F32, .rank = 2, .shape = {UINT64_MAX, 2}},
         PARE_EFORMAT,
         "t: the shape overflows"},
        {UNIFORM("w", 8, 32, 4, 32, true),
         {.name = "t", .dtype = PARE_U8, .rank = 1, .shape = {INT64_MAX / 4}},
         PARE_EFORMAT,
         "t: the sum of the sizes overflows"},
    };
    const size_t unit = 0;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        pare_ctx cx;
        pare_arena a;
        pare_packed_layout l;
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        ck_assert_int_eq(pare_packed_layout_make(&cx, &a, &bad[i].tensor, &unit, 1, &bad[i].linear,
                                                 &unit, 1, UINT64_MAX, &l),
                         bad[i].status);
        ck_assert_str_eq(cx.what, bad[i].what);
        pare_arena_release(&a);
    }
}
END_TEST

static void fill(unsigned char *bytes, const pare_packed_entry *e)
{
    const uint64_t stream = pare_random_stream(e->tensor.name);
    for (size_t i = 0; i < e->tensor.bytes; i++)
        bytes[i] = (unsigned char)pare_random_u64(3, stream, i);
}

static void check_files(pare_ctx *cx, pare_arena *a, const char *directory,
                        const pare_packed_layout *l)
{
    unsigned char *const want = PARE_NEW(a, unsigned char, 1 << 16);
    for (uint32_t s = 0; s < l->shards; s++) {
        char *text;
        size_t len;
        char *const path = pare_path_join(a, directory, l->shard_name[s]);
        ck_assert_int_eq(pare_file_read(cx, a, path, 1 << 20, &text, &len), PARE_OK);
        ck_assert_uint_eq(len, l->file_bytes[s]);
        ck_assert_mem_eq(text, l->header[s], l->header_bytes[s]);
        for (size_t i = 0; i < l->entries; i++) {
            if (l->entry[i].shard != s)
                continue;
            fill(want, &l->entry[i]);
            ck_assert_mem_eq(text + l->entry[i].offset, want, l->entry[i].tensor.bytes);
        }
    }
}

START_TEST(files_written_in_two_runs_hold_every_entry_at_its_place)
{
    char directory[] = "/tmp/pare-packed-XXXXXX";
    ck_assert_ptr_nonnull(mkdtemp(directory));
    pare_ctx cx;
    pare_arena a;
    pare_packed_layout l;
    pare_packed_writer *w;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(make(&cx, &a, 2048, &l), PARE_OK);
    unsigned char *const bytes = PARE_NEW(&a, unsigned char, 1 << 16);
    unsigned char *const back = PARE_NEW(&a, unsigned char, 1 << 16);
    for (size_t run = 0; run < 2; run++) {
        ck_assert_int_eq(pare_packed_create(&cx, directory, &l, &w), PARE_OK);
        for (size_t i = 0; i < l.entries; i++) {
            const pare_packed_entry *const e = &l.entry[i];
            fill(bytes, e);
            if (i % 2 == run)
                ck_assert_int_eq(pare_packed_put(&cx, w, e, bytes), PARE_OK);
            if (i % 2 > run)
                continue;
            void *view; /* of a file that is mapped before most of it is written */
            ck_assert_int_eq(pare_packed_map(&cx, w, e, &view), PARE_OK);
            ck_assert_mem_eq(view, bytes, (size_t)e->tensor.bytes);
            ck_assert_int_eq(pare_packed_get(&cx, w, e, back), PARE_OK);
            ck_assert_mem_eq(bytes, back, e->tensor.bytes);
        }
        ck_assert_int_eq(pare_packed_sync(&cx, w), PARE_OK);
        pare_packed_close(&cx, w);
    }
    check_files(&cx, &a, directory, &l);
    for (uint32_t s = 0; s < l.shards; s++)
        (void)unlink(pare_path_join(&a, directory, l.shard_name[s]));
    (void)unlink(pare_path_join(&a, directory, "packed.index.json"));
    ck_assert_int_eq(rmdir(directory), 0);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(a_directory_that_is_missing_is_named)
{
    pare_ctx cx;
    pare_arena a;
    pare_packed_layout l;
    pare_packed_writer *w;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(make(&cx, &a, UINT64_MAX, &l), PARE_OK);
    ck_assert_int_eq(pare_packed_create(&cx, "/nowhere/at/all", &l, &w), PARE_ENOTFOUND);
    ck_assert_ptr_null(w);
    ck_assert_ptr_nonnull(strstr(cx.what, "/nowhere/at/all/packed-00001-of-00001.safetensors"));
    pare_arena_release(&a);
}
END_TEST

static pare_status everything(pare_ctx *cx, const char *directory)
{
    pare_arena a;
    pare_packed_layout l;
    pare_packed_writer *w = NULL;
    pare_packed_planes p;
    const pare_codes c = {
        .n = 40, .k = 100, .groups = 1, .codes = (uint8_t[4000]){0}, .scales = (float[40]){0}};
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = make(cx, &a, 2048, &l);
    if (s == PARE_OK)
        s = pare_packed_pack(cx, &a, &two[1], &c, &p);
    if (s == PARE_OK)
        s = pare_packed_create(cx, directory, &l, &w);
    if (s == PARE_OK)
        s = pare_packed_put(cx, w, pare_packed_find(&l, "b.1.w.codes"), p.plane[PARE_PLANE_CODES]);
    pare_packed_close(cx, w);
    pare_arena_release(&a);
    return s;
}

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    char directory[] = "/tmp/pare-packed-XXXXXX", command[64];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 10000; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        s = everything(&cx, directory);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (cx.what[0] == '\0'));
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
    (void)snprintf(command, sizeof command, "rm -r %s", directory);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("packed");
    TCase *const t = tcase_create("packed");
    tcase_add_loop_test(t, a_packed_matrix_dequantizes_to_the_values_of_the_grid, 0, SHAPES);
    tcase_add_loop_test(t, padding_rows_have_scale_zero_and_the_middle_zero_point, 0, SHAPES);
    tcase_add_test(t, packing_gives_the_same_bytes_for_any_number_of_threads);
    tcase_add_test(t, codes_of_another_shape_are_refused);
    tcase_add_test(t, a_layout_tiles_each_file_by_falling_alignment);
    tcase_add_test(t, a_header_reads_back_as_the_tensors_of_its_file);
    tcase_add_test(t, the_index_names_every_tensor_and_describes_every_linear);
    tcase_add_test(t, what_cannot_be_laid_out_is_refused_by_name);
    tcase_add_test(t, files_written_in_two_runs_hold_every_entry_at_its_place);
    tcase_add_test(t, a_directory_that_is_missing_is_named);
    tcase_add_test(t, every_failed_allocation_is_reported_and_leaks_nothing);
    suite_add_tcase(s, t);
    return unit_main(s);
}
