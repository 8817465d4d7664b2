/* What ranks of tensor parallelism get: slices of stored planes and of exported tensors are those
 * of a linear that was cut before it was packed. */
#include <string.h>

#include "formats/export_gguf.h"
#include "formats/export_parallel.h"
#include "kernels/layout.h"
#include "runtime/linear.h"
#include "runtime/threads.h"
#include "tests/data/encoded.h"
#include "tests/unit/uniform.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

/* Of the model that linears are of. */
static pare_config config = {.blocks = 1, .heads = 1, .kv_heads = 1};

static void begin(void)
{
    config.arch = pare_arch_find("llama");
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void *take(size_t count, size_t size)
{
    void *const p = pare_arena_take(&arena, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* Rows [row, row + rows) and columns [column, column + columns). */
typedef struct slice {
    size_t row, rows, column, columns;
} slice;

/* dst [rows, columns] of a plane src [.., width], `size` bytes an element. */
static void *cut(const void *src, size_t width, slice s, size_t size)
{
    char *const to = take(s.rows * s.columns, size);
    if (!src)
        return NULL;
    for (size_t r = 0; r < s.rows; r++)
        memcpy(to + r * s.columns * size,
               (const char *)src + ((s.row + r) * width + s.column) * size, s.columns * size);
    return to;
}

/* The groups of a slice: all where rows have one. */
static slice groups_of(const pare_packed_linear *l, slice s)
{
    const size_t group = l->group ? l->group : l->k;
    const size_t first = l->group ? s.column / group : 0;
    return (slice){s.row, s.rows, first,
                   l->group ? (s.column + s.columns + group - 1) / group - first : 1};
}

static slice times(slice s, size_t width)
{
    return (slice){s.row, s.rows, s.column * width, s.columns * width};
}

/* A linear whose codes are known. */
typedef struct coded {
    pare_packed_linear l;
    pare_codes c;
    pare_packed_planes p;
    pare_linear w;
} coded;

static void pack(coded *x)
{
    x->l.name = "w";
    x->l.activation.scale = x->c.input_scale;
    ck_assert_msg(pare_packed_pack(&cx, &arena, &x->l, &x->c, &x->p) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_packed_view(&cx, &arena, &x->l, x->p.plane, &x->w) == PARE_OK, "%s",
                  cx.what);
}

/* Steps of NF4 belong to 256 scales in the order of the plane, so that columns are cut only where
 * they are all the same. */
static void even_steps(coded *x)
{
    for (size_t i = 0; i < x->l.n * x->c.groups; i++) {
        const float step = 0.002F * (float)(x->c.scale_codes[i] - PARE_STEPS_ZERO);
        x->c.scales[i] = pare_f16_to_f32(pare_f32_to_f16(x->c.scale_offset + step));
    }
    for (size_t i = 0; i <= x->l.n * x->c.groups / PARE_PACKED_STEP; i++)
        x->c.scale_steps[i] = 0.002F;
}

static void make(coded *x, pare_packed_linear l, size_t n, size_t k, bool columns)
{
    x->l = l;
    x->l.n = n;
    x->l.k = k;
    ck_assert(encoded_codes(&arena, &x->l, 91, &x->c));
    if (l.encoding == PARE_ENCODING_NF4 && columns)
        even_steps(x);
    pack(x);
}

/* Columns and weights that are kept apart. */
static void cut_extras(const coded *from, slice s, coded *to)
{
    const pare_codes *const c = &from->c;
    pare_codes *const o = &to->c;
    size_t first = 0, count = 0, sparse = 0;
    for (size_t i = 0; i < c->outliers; i++) {
        first += c->outlier_column[i] < s.column;
        count += c->outlier_column[i] >= s.column && c->outlier_column[i] < s.column + s.columns;
    }
    const slice apart = {s.row, s.rows, first, count};
    o->outliers = to->l.outliers = count;
    o->outlier_column = take(count, sizeof *o->outlier_column);
    for (size_t i = 0; i < count; i++)
        o->outlier_column[i] = c->outlier_column[first + i] - (uint32_t)s.column;
    o->outlier_weight = cut(c->outlier_weight, c->outliers, apart, sizeof *c->outlier_weight);
    o->outlier_code = cut(c->outlier_code, c->outliers, apart, 1);
    o->outlier_scale = cut(c->outlier_scale, 1, (slice){s.row, s.rows, 0, 1}, sizeof(float));
    o->bias = cut(c->bias, 1, (slice){s.row, s.rows, 0, 1}, sizeof(float));
    o->sparse_start = take(s.rows + 1, sizeof *o->sparse_start);
    o->sparse_column = take(c->sparse, sizeof *o->sparse_column);
    o->sparse_value = take(c->sparse, sizeof *o->sparse_value);
    for (size_t r = 0; r < s.rows; r++) {
        for (uint32_t e = c->sparse_start[s.row + r]; e < c->sparse_start[s.row + r + 1]; e++)
            if (c->sparse_column[e] >= s.column && c->sparse_column[e] < s.column + s.columns) {
                o->sparse_column[sparse] = c->sparse_column[e] - (uint32_t)s.column;
                o->sparse_value[sparse++] = c->sparse_value[e];
            }
        o->sparse_start[r + 1] = (uint32_t)sparse;
    }
    o->sparse = to->l.sparse = sparse;
}

/* The codes of a slice, packed. */
static coded cut_codes(const coded *from, slice s)
{
    coded to = *from;
    const pare_codes *const c = &from->c;
    const slice g = groups_of(&from->l, s);
    const size_t groups = c->groups, book = (size_t)1 << from->l.bits;
    to.l.n = to.c.n = s.rows;
    to.l.k = to.c.k = s.columns;
    to.c.groups = g.columns;
    to.c.codes = cut(c->codes, c->k, s, 1);
    to.c.values = cut(c->values, c->k, s, sizeof(float));
    to.c.scales = cut(c->scales, groups, g, sizeof(float));
    to.c.zeros = cut(c->zeros, groups, g, 1);
    to.c.scale_codes = cut(c->scale_codes, groups, g, 1);
    to.c.minima = cut(c->minima, groups, g, sizeof(float));
    to.c.sub = cut(c->sub, groups * 16, times(g, 16), 1);
    to.c.salient = cut(c->salient, c->k, (slice){0, 1, s.column, s.columns}, 1);
    if (from->l.encoding == PARE_ENCODING_CODEBOOK)
        to.c.book = cut(c->book, book, (slice){s.row, s.rows, 0, book}, sizeof(float));
    else
        to.c.book = cut(c->book, groups * 4, times(g, 4), sizeof(float));
    cut_extras(from, s, &to);
    to.c.scale_steps = c->scale_steps + s.row * groups / PARE_PACKED_STEP;
    for (size_t i = 0; from->l.kept && i < s.rows * s.columns; i++)
        to.l.kept = (i ? to.l.kept : 0) + (to.c.values[i] != 0);
    pack(&to);
    return to;
}

/* How bytes of a plane lie: [rows / 8][columns / unit][bytes of a unit]; or by row. */
typedef struct lying {
    size_t high, unit, bytes; /* unit 0: none along the columns */
} lying;

static lying lies(const pare_packed_linear *l, pare_plane p)
{
    const size_t group = l->group ? l->group : 0;
    switch (p) {
    case PARE_PLANE_CODES: return (lying){8, l->sparsity ? 64 : 32, pare_atom_bytes(l->bits)};
    case PARE_PLANE_INDICES: return (lying){8, 64, 64};
    case PARE_PLANE_VALUES: return l->sparsity ? (lying){1, 64, 64} : (lying){1, 1, 2};
    case PARE_PLANE_MASK: return (lying){1, 8, 1};
    case PARE_PLANE_SCALES:
        return (lying){8, group, pare_encoding_codes_scales(l->encoding) ? 8 : 16};
    case PARE_PLANE_ZEROS: return (lying){8, group, 8};
    case PARE_PLANE_MINIMA: return (lying){8, group, 16};
    case PARE_PLANE_SUB: return (lying){8, group, 128};
    case PARE_PLANE_BOOK:
        return l->encoding == PARE_ENCODING_BINARY ? (lying){8, group, 64}
                                                   : (lying){1, 0, (size_t)2 << l->bits};
    default: return (lying){0, 0, 0};
    }
}

static void check_planes(const coded *whole, const coded *part, slice s)
{
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        const lying y = lies(&whole->l, p);
        const bool list = p == PARE_PLANE_VALUES && whole->l.sparsity == PARE_SPARSITY_BITMASK;
        if (!y.high || list || !whole->p.plane[p])
            continue;
        const size_t width = y.unit ? whole->l.k / y.unit : 1;
        const slice at = {s.row / y.high, s.rows / y.high, y.unit ? s.column / y.unit : 0,
                          y.unit ? s.columns / y.unit : 1};
        ck_assert_uint_eq(part->p.bytes.plane[p], at.rows * at.columns * y.bytes);
        ck_assert_msg(memcmp(cut(whole->p.plane[p], width, at, y.bytes), part->p.plane[p],
                             at.rows * at.columns * y.bytes) == 0,
                      "plane %s", pare_packed_plane_name(p));
    }
}

static void check_weights(const coded *whole, const coded *part, slice s)
{
    float *const all = take(whole->l.n * whole->l.k, sizeof *all);
    float *const some = take(s.rows * s.columns, sizeof *some);
    pare_linear_to_f32(&cx, &whole->w, all);
    pare_linear_to_f32(&cx, &part->w, some);
    ck_assert_mem_eq(cut(all, whole->l.k, s, sizeof *all), some, s.rows * s.columns * sizeof *some);
}

enum { N = 256, K = 512 };

/* Rows, columns, both: whole super-blocks, and rows with whole steps of NF4. */
static const slice slices[] = {
    {0, 128, 0, K}, {128, 128, 0, K}, {64, 64, 0, K}, {0, N, 0, 256}, {0, N, 256, 256}};
enum { SLICES = sizeof slices / sizeof *slices };

/* Every encoding with every extra. */
START_TEST(slices_of_planes_are_planes_of_slices)
{
    coded whole;
    for (size_t i = 0; i < SLICES; i++) {
        make(&whole, encoded_kinds[_i], N, K, slices[i].columns < K);
        const coded part = cut_codes(&whole, slices[i]);
        check_planes(&whole, &part, slices[i]);
        check_weights(&whole, &part, slices[i]);
    }
}
END_TEST

/* A tensor of a linear, and where rows and columns of it lie. */
static const struct {
    const char *suffix;
    int rows, columns; /* dimension of the tensor, -1: none */
} dimension[] = {
    {".weight_packed", 0, 1},
    {".weight_scale", 0, 1},
    {".weight_zero_point", 0, 1},
    {".weight", 0, 1},
    {".qweight", 1, 0},
    {".qzeros", 1, 0},
    {".scales", 1, 0},
    {".input_scale", -1, -1},
    {".weight_global_scale", -1, -1},
    {".input_global_scale", -1, -1},
};
enum { DIMENSIONS = sizeof dimension / sizeof *dimension };

typedef struct made {
    pare_export_part part[PARE_EXPORT_PARTS];
    void *data[PARE_EXPORT_PARTS];
    uint64_t bytes[PARE_EXPORT_PARTS];
    size_t parts;
} made;

static pare_export_linear linear_of(const coded *x)
{
    return (pare_export_linear){
        .name = "w", .is_packed = true, .packed = x->l, .weights = &x->w, .config = &config};
}

/* `whole`: what x is a part of, with which it shares the factor of NVFP4, as q does with k. */
static made export_as(const pare_export_target *t, const coded *x, const coded *whole)
{
    made m;
    const pare_export_linear all[] = {linear_of(x), linear_of(whole)}, linear = all[0];
    const pare_export_model model = {
        .config = &config, .linear = all, .linears = 2, .floats = PARE_F32};
    m.parts = t->parts(&model, &linear, m.part);
    for (size_t i = 0; i < m.parts; i++) {
        ck_assert_int_eq(
            pare_tensor_bytes(m.part[i].dtype, m.part[i].rank, m.part[i].shape, &m.bytes[i]),
            PARE_OK);
        m.data[i] = take(1, (size_t)m.bytes[i]);
    }
    ck_assert_int_eq(t->fill(&cx, &arena, &model, &linear, &x->w, m.data), PARE_OK);
    return m;
}

/* [from, to) of a dimension that stands for `whole` rows or columns. */
static void range(const made *m, size_t i, int d, size_t whole, size_t first, size_t count,
                  size_t *from, size_t *to)
{
    const size_t size = (size_t)m->part[i].shape[d];
    const bool shared = size == 1;
    ck_assert_uint_eq(first * size % whole * !shared, 0); /* a slice of whole elements */
    *from = shared ? 0 : first * size / whole;
    *to = shared ? 1 : (first + count) * size / whole;
}

/* As an engine narrows a tensor when it loads it. */
static void *narrow(const made *m, size_t i, const coded *x, slice s)
{
    size_t d = 0, from[2] = {0, 0}, to[2] = {1, 1};
    while (d < DIMENSIONS && strcmp(dimension[d].suffix, m->part[i].suffix) != 0)
        d++;
    ck_assert_msg(d < DIMENSIONS, "%s", m->part[i].suffix);
    const int r = dimension[d].rows, c = dimension[d].columns;
    if (r < 0)
        return m->data[i];
    range(m, i, r, x->l.n, s.row, s.rows, &from[r], &to[r]);
    range(m, i, c, x->l.k, s.column, s.columns, &from[c], &to[c]);
    const size_t size = (size_t)(m->bytes[i] / m->part[i].shape[0] / m->part[i].shape[1]);
    return cut(m->data[i], (size_t)m->part[i].shape[1],
               (slice){from[0], to[0] - from[0], from[1], to[1] - from[1]}, size);
}

/* Groups of a slice count from its first one. */
static void check_groups(const made *whole, const made *part, size_t i, slice s)
{
    const int32_t *const all = (const int32_t *)whole->data[i] + s.column;
    const int32_t *const some = part->data[i];
    for (size_t j = 0; j < s.columns; j++)
        ck_assert_int_eq(all[j] - all[0], some[j]);
}

static void check_tensors(const pare_export_target *t, const coded *whole, slice s)
{
    const coded part = cut_codes(whole, s);
    const made all = export_as(t, whole, whole), some = export_as(t, &part, whole);
    ck_assert_uint_eq(all.parts, some.parts);
    for (size_t i = 0; i < all.parts; i++) {
        ck_assert_str_eq(all.part[i].suffix, some.part[i].suffix);
        if (strcmp(all.part[i].suffix, ".weight_shape") == 0) /* engines know shapes */
            continue;
        if (strcmp(all.part[i].suffix, ".g_idx") == 0)
            check_groups(&all, &some, i, s);
        else
            ck_assert_msg(memcmp(narrow(&all, i, whole, s), some.data[i], some.bytes[i]) == 0,
                          "%s of %s", all.part[i].suffix, t->name);
    }
}

/* What is done with the codes of a linear. */
static pare_gguf_way way_of(const pare_export_target *t, const pare_export_linear *l,
                            const pare_ggml_type *type)
{
    const bool exact = pare_export_store_of(t, l).fate == PARE_EXPORT_LOSSLESS;
    const bool minimum = (strcmp(type->name, "Q4_1") == 0 && l->packed.bits <= 4) ||
                         (strcmp(type->name, "Q5_1") == 0 && l->packed.bits <= 5);
    const bool near = minimum && l->packed.encoding == PARE_ENCODING_UNIFORM && !l->packed.sparse;
    return type->elements == 1 ? PARE_GGUF_FLOATS
           : exact || near     ? PARE_GGUF_CODES
                               : PARE_GGUF_AGAIN;
}

/* Blocks of a file, one row of them after the other; NULL: values that they do not reach. */
static unsigned char *encode(const coded *x, const pare_ggml_type *type, pare_gguf_way way)
{
    const pare_export_linear linear = linear_of(x);
    const pare_gguf_piece piece = {.linear = &linear, .elements = x->l.n * x->l.k, .way = way};
    const pare_gguf_item item = {.name = "w",
                                 .type = type,
                                 .rank = 2,
                                 .shape = {x->l.n, x->l.k},
                                 .piece = &piece,
                                 .pieces = 1};
    unsigned char *const out = take(x->l.n, x->l.k / type->elements * type->bytes);
    const pare_status s = pare_gguf_encode(&cx, &arena, &item, 0, out);
    ck_assert_msg(s == PARE_OK || s == PARE_ENUMERIC, "%s", cx.what);
    pare_ctx_clear(&cx);
    return s == PARE_OK ? out : NULL;
}

static void check_blocks(const pare_export_target *t, const coded *whole, slice s)
{
    const coded part = cut_codes(whole, s);
    const pare_export_linear linear = linear_of(whole);
    const pare_ggml_type *const type = pare_ggml_type_named(pare_export_store_of(t, &linear).type);
    const pare_gguf_way way = way_of(t, &linear, type);
    const unsigned char *const all = encode(whole, type, way);
    const size_t blocks = whole->l.k / type->elements;
    if (!all) { /* powers of two that a minimum of Q4_1 does not reach */
        ck_assert_int_eq(whole->l.encoding, PARE_ENCODING_MXFP4);
        return;
    }
    ck_assert_uint_eq(s.column % type->elements + s.columns % type->elements, 0);
    const slice at = {s.row, s.rows, s.column / type->elements, s.columns / type->elements};
    ck_assert_msg(memcmp(cut(all, blocks, at, type->bytes), encode(&part, type, way),
                         at.rows * at.columns * type->bytes) == 0,
                  "%s", t->name);
}

/* The uniform grids beside every encoding. */
static const pare_packed_linear plain[] = {
    {.bits = 2, .group = 32, .symmetric = true},
    {.bits = 3, .group = 32, .symmetric = true},
    {.bits = 4, .group = 64, .symmetric = true},
    {.bits = 8, .group = 32, .symmetric = true},
    {.bits = 2, .group = 32},
    {.bits = 3, .group = 64},
    {.bits = 4, .group = 32},
    {.bits = 8, .group = 128},
    {.bits = 4, .symmetric = true},
    {.bits = 8},
    {.bits = 4, .group = 32, .symmetric = true, .sparsity = PARE_SPARSITY_2_4},
};
enum { PLAIN = sizeof plain / sizeof *plain };

static pare_packed_linear kind(int i)
{
    pare_packed_linear l = i < PLAIN ? plain[i] : encoded_kinds[i - PLAIN];
    l.bias = false; /* refused, as are rotations */
    return l;
}

static size_t multiple(size_t a, size_t b)
{
    size_t m = a;
    while (b && m % b != 0)
        m += a;
    return m;
}

/* The least slice of rows and the least of columns that a target says there is, anywhere but at
 * the ends; every target that takes the linear. */
START_TEST(slices_of_exports_are_exports_of_slices)
{
    coded whole;
    size_t checked = 0;
    make(&whole, kind(_i), 64, K, true);
    const pare_export_linear l = linear_of(&whole);
    for (size_t i = 0; pare_export_targets[i]; i++) {
        const pare_export_target *const t = pare_export_targets[i];
        if (t->check_linear(&cx, &l) != PARE_OK) {
            pare_ctx_clear(&cx);
            continue;
        }
        const pare_export_grain g = pare_export_grain_of(t, &l);
        /* planes of the slice that is packed have groups of their own, two of 16 in an atom */
        const size_t group = whole.l.group == 16 ? PARE_ATOM_K : whole.l.group;
        const size_t columns = multiple(multiple(g.columns, g.group), group);
        const slice rows = {g.rows, g.rows, 0, K}, middle = {0, 64, columns, columns};
        void (*const check)(const pare_export_target *, const coded *, slice) =
            t->kind == PARE_EXPORT_FILE ? check_blocks : check_tensors;
        check(t, &whole, rows);
        if (2 * columns <= K)
            check(t, &whole, middle);
        checked++;
    }
    ck_assert_uint_ge(checked, 9); /* floats, and all types of blocks */
}
END_TEST

static const struct {
    const char *target;
    int kind;
    pare_export_grain grain;
} grains[] = {
    {"compressed-tensors", 2, {1, 8, 64}},
    {"compressed-tensors", 3, {1, 4, 32}},
    {"compressed-tensors", 6, {8, 8, 32}},
    {"compressed-tensors", 7, {4, 4, 128}},
    {"compressed-tensors", PLAIN + 2, {1, 1, 0}},
    {"compressed-tensors", PLAIN + 12, {1, 4, 0}},
    {"compressed-tensors", PLAIN + 3, {1, 2, 32}},
    {"compressed-tensors", PLAIN + ENCODED_ALL - 2, {1, 2, 16}},
    {"gptq", 1, {32, 32, 32}},
    {"gptq_v2", 9, {32, 32, 0}},
    {"awq", 6, {8, 1, 32}},
    {"awq", 8, {8, 1, K}},
    {"exl3", 2, {128, 128, 0}},
    {"safetensors", 6, {1, 1, 0}},
    {"safetensors", 10, {1, 4, 0}},
    {"gguf:q4_0", 2, {1, 32, 0}},
    {"gguf:q4_k", 2, {1, 256, 0}},
    {"gguf:f16", 2, {1, 1, 0}},
    {"gguf:q4_0", PLAIN + ENCODED_KINDS + 1, {1, 256, 0}},
};
enum { GRAINS = sizeof grains / sizeof *grains };

START_TEST(grains_are_words_blocks_and_groups)
{
    coded whole;
    make(&whole, kind(grains[_i].kind), 64, K, true);
    const pare_export_linear l = linear_of(&whole);
    const pare_export_grain g = pare_export_grain_of(pare_export_find(grains[_i].target), &l);
    ck_assert_uint_eq(g.rows, grains[_i].grain.rows);
    ck_assert_uint_eq(g.columns, grains[_i].grain.columns);
    ck_assert_uint_eq(g.group, grains[_i].grain.group);
}
END_TEST

/* A block of q, k, v, o, gate, up, down, and a head. */
static const struct {
    const char *target;
    size_t heads, kv_heads, intermediate, vocab, ranks;
    unsigned bits;
    size_t group;
    bool head;        /* is quantized, too */
    const char *what; /* of the refusal; NULL: none */
} splits[] = {
    {"compressed-tensors", 8, 2, 512, 100, 4, 4, 32, false, NULL}, /* k, v to two ranks each */
    {"compressed-tensors", 8, 8, 512, 128, 8, 4, 32, false,
     "o (int4 g32 sym): 16 of 128 columns are no whole groups of 32; take group row, or 4 ranks"},
    {"compressed-tensors", 8, 8, 512, 128, 8, 4, 0, false, NULL},
    {"compressed-tensors", 8, 2, 768, 128, 4, 4, 128, false,
     "o (int4 g128 sym): 32 of 128 columns are no whole groups of 128; take group 32 or row; no "
     "smaller number of ranks does"},
    {"compressed-tensors", 16, 16, 640, 128, 8, 4, 128, false, /* 32 would fail at down */
     "o (int4 g128 sym): 32 of 256 columns are no whole groups of 128; take group row; no smaller"},
    {"compressed-tensors", 6, 3, 512, 128, 2, 4, 32, false,
     "3 heads of keys and values neither divide, nor does each go to the same number"},
    {"compressed-tensors", 12, 2, 512, 128, 8, 4, 32, false,
     "compressed-tensors for 8 ranks: 12 heads of attention do not divide; take 2 ranks"},
    {"compressed-tensors", 8, 8, 520, 128, 2, 4, 0, false,
     "down (int4 row sym): 260 of 520 columns are no whole blocks of 8"},
    {"safetensors", 8, 8, 520, 128, 2, 4, 0, false, NULL},
    {"safetensors", 6, 6, 510, 128, 3, 8, 0, false,
     "engines pad the vocabulary of 128 to a multiple of 64, which does not divide; take 2 ranks"},
    {"safetensors", 8, 8, 514, 128, 4, 8, 0, false, "linear gate (int8 row sym): 514 rows do not"},
    {"gptq", 8, 2, 512, 128, 4, 4, 32, false,
     "linear k (int4 g32 sym): 16 of 32 rows are no whole blocks of 32"},
    {"awq", 8, 4, 512, 128, 4, 4, 0, false,
     "o (int4 row sym): 32 of 128 columns are no whole groups of 128; take group 32; no smaller"},
    {"awq", 8, 4, 512, 120, 4, 4, 32, true, "linear head (int4 g32 sym): 30 of 120 rows are no"},
    {"awq", 8, 4, 512, 128, 4, 4, 32, true, NULL},
    {"gguf:q4_0", 8, 4, 512, 100, 4, 4, 32, false, NULL},
    {"gguf:q4_k", 16, 4, 512, 100, 4, 4, 32, false,
     "o (int4 g32 sym): 64 of 256 columns are no whole blocks of 256; take gguf:q8_0 or "
     "gguf:q4_0;"},
};
enum { SPLITS = sizeof splits / sizeof *splits };

START_TEST(ranks_get_whole_pieces_or_the_linear_is_named)
{
    static const char *const name[] = {"q", "k", "v", "o", "gate", "up", "down", "head"};
    const size_t head_dim = 16, hidden = 128;
    const size_t h = splits[_i].heads * head_dim, kv = splits[_i].kv_heads * head_dim;
    const size_t wide = splits[_i].intermediate;
    const size_t n[] = {h, kv, kv, hidden, wide, wide, hidden, splits[_i].vocab};
    const size_t k[] = {hidden, hidden, hidden, h, hidden, hidden, wide, hidden};
    const pare_config c = {.blocks = 1,
                           .heads = splits[_i].heads,
                           .kv_heads = splits[_i].kv_heads,
                           .head_dim = head_dim,
                           .hidden = hidden,
                           .vocab = splits[_i].vocab};
    pare_export_linear linear[PARE_COMMON_ROLES + 1];
    const pare_linear weights = {.dtype = PARE_F16};
    for (size_t i = 0; i <= PARE_COMMON_ROLES; i++)
        linear[i] = (pare_export_linear){
            .name = name[i],
            .block = i / PARE_COMMON_ROLES,
            .role = (pare_role)i,
            .is_packed = i < PARE_COMMON_ROLES || splits[_i].head,
            .packed = UNIFORM(name[i], n[i], k[i], splits[_i].bits, splits[_i].group, true),
            .weights = &weights};
    const pare_export_model m = {.config = &c, .linear = linear, .linears = PARE_COMMON_ROLES + 1};
    const pare_export_target *const t = pare_export_find(splits[_i].target);
    ck_assert_int_eq(pare_export_check_ranks(&cx, t, &m, 1), PARE_OK);
    const pare_status s = pare_export_check_ranks(&cx, t, &m, splits[_i].ranks);
    ck_assert_msg(s == (splits[_i].what ? PARE_ENOTSUP : PARE_OK), "%s", cx.what);
    ck_assert_msg(!splits[_i].what || strstr(cx.what, splits[_i].what), "%s", cx.what);
    pare_ctx_clear(&cx);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("slices");
    TCase *const t = tcase_create("slices");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, slices_of_planes_are_planes_of_slices, 0, ENCODED_ALL);
    tcase_add_loop_test(t, slices_of_exports_are_exports_of_slices, 0, PLAIN + ENCODED_ALL);
    tcase_add_loop_test(t, grains_are_words_blocks_and_groups, 0, GRAINS);
    tcase_add_loop_test(t, ranks_get_whole_pieces_or_the_linear_is_named, 0, SPLITS);
    suite_add_tcase(s, t);
    return unit_main(s);
}
