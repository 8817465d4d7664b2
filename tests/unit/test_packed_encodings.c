#include <string.h>

#include "kernels/layout.h"
#include "solve/nf4.h"
#include "tests/data/encoded.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Neither a multiple of the padding nor of a group; super-blocks and groups of 16 are whole. */
static pare_packed_linear kind(int i)
{
    pare_packed_linear l = encoded_kinds[i];
    l.name = "w";
    l.n = 43;
    l.k = i < ENCODED_KINDS ? 141 : l.encoding == PARE_ENCODING_NVFP4 ? 240 : 512;
    return l;
}

static pare_packed_planes pack(const pare_packed_linear *l, pare_codes *c)
{
    pare_packed_planes p;
    ck_assert(encoded_codes(&arena, l, 77, c));
    ck_assert_msg(pare_packed_pack(&cx, &arena, l, c, &p) == PARE_OK, "%s", cx.what);
    return p;
}

/* A value of a plane [row block][groups][8 rows][width]. */
static size_t place(size_t row, size_t group, size_t groups, size_t width, size_t i)
{
    return ((row / 8 * groups + group) * 8 + row % 8) * width + i;
}

START_TEST(planes_hold_what_the_codes_say_and_padding)
{
    const pare_packed_linear l = kind(_i);
    pare_codes c;
    const pare_packed_planes p = pack(&l, &c);
    const uint16_t *const halves = p.plane[PARE_PLANE_SCALES], *const book =
                                                                   p.plane[PARE_PLANE_BOOK];
    const uint8_t *const codes = p.plane[PARE_PLANE_SCALES];
    const bool coded = pare_encoding_codes_scales(l.encoding);
    for (size_t r = 0; r < 48; r++) {
        const bool real = r < l.n;
        for (size_t g = 0; g < c.groups; g++) {
            const size_t at = place(r, g, c.groups, 1, 0), from = r * c.groups + g;
            if (halves && coded)
                ck_assert_uint_eq(codes[at], real ? c.scale_codes[from]
                                                  : (l.encoding == PARE_ENCODING_NF4 ? 128u : 0u));
            else if (halves)
                ck_assert(pare_f16_to_f32(halves[at]) == (real ? c.scales[from] : 0));
            for (size_t i = 0; l.encoding == PARE_ENCODING_BINARY && i < 4; i++)
                ck_assert(pare_f16_to_f32(book[place(r, g, c.groups, 4, i)]) ==
                          (real ? c.book[from * 4 + i] : 0));
        }
        const uint16_t *const minima = p.plane[PARE_PLANE_MINIMA];
        const uint8_t *const sub = p.plane[PARE_PLANE_SUB];
        for (size_t g = 0; minima && g < c.groups; g++)
            ck_assert(pare_f16_to_f32(minima[place(r, g, c.groups, 1, 0)]) ==
                      (real ? c.minima[r * c.groups + g] : 0));
        for (size_t g = 0; sub && g < c.groups * 16; g++)
            ck_assert_uint_eq(sub[place(r, g, c.groups * 16, 1, 0)],
                              real ? c.sub[r * c.groups * 16 + g] : 0);
        for (size_t i = 0; l.encoding == PARE_ENCODING_CODEBOOK && i < 1u << l.bits; i++)
            ck_assert(pare_f16_to_f32(book[(r << l.bits) + i]) ==
                      (real ? c.book[(r << l.bits) + i] : 0));
    }
    if (l.encoding == PARE_ENCODING_F16 || l.sparsity) /* test_packed_pruned.c */
        return;
    const size_t width = pare_round_up(l.k, 32);
    uint8_t *const u = PARE_NEW(&arena, uint8_t, 48 * width);
    pare_unpack_codes(u, width, p.plane[PARE_PLANE_CODES], 48, width, l.bits);
    for (size_t r = 0; r < 48; r++)
        for (size_t j = 0; j < width; j++) {
            const bool real = r < l.n && j < l.k;
            const uint8_t pad = r < l.n && !l.symmetric ? c.zeros[(r + 1) * c.groups - 1]
                                                        : pare_packed_zero_code(&l);
            ck_assert_uint_eq(u[r * width + j], real ? c.codes[r * l.k + j] : pad);
        }
}
END_TEST

/* Inputs have a number that calibration fixed. */
static bool is_fixed(const pare_packed_linear *l)
{
    return l->activation.mode == PARE_ACTIVATION_TENSOR ||
           (l->encoding == PARE_ENCODING_NVFP4 && l->activation.bits == 4);
}

START_TEST(what_is_kept_apart_has_its_planes)
{
    const pare_packed_linear l = kind(_i);
    pare_codes c;
    const pare_packed_planes p = pack(&l, &c);
    void *const *const plane = p.plane;
    ck_assert_int_eq(plane[PARE_PLANE_OUTLIER_COLUMNS] != NULL, l.outliers != 0);
    ck_assert_int_eq(plane[PARE_PLANE_SPARSE_STARTS] != NULL, l.sparse != 0);
    ck_assert_int_eq(plane[PARE_PLANE_BIAS] != NULL, l.bias);
    ck_assert_int_eq(plane[PARE_PLANE_INPUT_SCALE] != NULL, is_fixed(&l));
    if (l.bias)
        ck_assert_mem_eq(plane[PARE_PLANE_BIAS], c.bias, l.n * sizeof *c.bias);
    if (l.outliers)
        ck_assert_mem_eq(plane[PARE_PLANE_OUTLIER_COLUMNS], c.outlier_column, l.outliers * 4);
    const uint16_t *const weight = plane[PARE_PLANE_OUTLIER_WEIGHTS];
    const uint16_t *const value = plane[PARE_PLANE_SPARSE_VALUES];
    ck_assert_int_eq(weight != NULL, l.outliers && !l.outliers_int8);
    for (size_t i = 0; weight && i < l.n * l.outliers; i++)
        ck_assert(pare_f16_to_f32(weight[i]) == c.outlier_weight[i]);
    if (l.sparse) {
        ck_assert_mem_eq(plane[PARE_PLANE_SPARSE_STARTS], c.sparse_start, (l.n + 1) * 4);
        ck_assert_mem_eq(plane[PARE_PLANE_SPARSE_COLUMNS], c.sparse_column, l.sparse * 4);
    }
    for (size_t e = 0; e < l.sparse; e++)
        ck_assert(pare_f16_to_f32(value[e]) == c.sparse_value[e]);
    if (!l.outliers_int8)
        return;
    const size_t width = pare_round_up(l.outliers, 32);
    uint8_t *const u = PARE_NEW(&arena, uint8_t, 48 * width);
    pare_unpack_codes(u, width, plane[PARE_PLANE_OUTLIER_CODES], 48, width, 8);
    const uint16_t *const scale = plane[PARE_PLANE_OUTLIER_SCALES];
    for (size_t r = 0; r < 48; r++) {
        ck_assert(pare_f16_to_f32(scale[r]) == (r < l.n ? c.outlier_scale[r] : 0));
        for (size_t o = 0; o < width; o++)
            ck_assert_int_eq(u[r * width + o] - 128,
                             r < l.n && o < l.outliers ? c.outlier_code[r * l.outliers + o] : 0);
    }
}
END_TEST

/* The sizes are known before any code is. */
START_TEST(bytes_are_those_of_the_shapes)
{
    const pare_packed_linear l = kind(_i);
    pare_codes c;
    const pare_packed_planes p = pack(&l, &c);
    uint64_t total = 0;
    for (pare_plane i = 0; i < PARE_PLANES; i++) {
        pare_tensor t;
        const bool has = pare_packed_plane_shape(&l, i, &t);
        uint64_t bytes = pare_dtype_bits(t.dtype) / 8;
        for (size_t d = 0; d < t.rank; d++)
            bytes *= t.shape[d];
        ck_assert_uint_eq(p.bytes.plane[i], has ? bytes : 0);
        ck_assert_int_eq(has, p.plane[i] != NULL);
        total += has ? bytes : 0;
    }
    ck_assert_uint_eq(p.bytes.total, total);
}
END_TEST

START_TEST(a_view_has_the_scales_that_coded_ones_stand_for)
{
    pare_packed_linear l = kind(_i);
    /* enough scales for more than one step */
    l.n = 203;
    pare_codes c;
    const pare_packed_planes p = pack(&l, &c);
    pare_linear view;
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &view), PARE_OK);
    for (size_t r = 0; r < 208; r++)
        for (size_t g = 0; g < c.groups; g++) {
            const float scale = pare_f16_to_f32(view.panel.scales[place(r, g, c.groups, 1, 0)]);
            const size_t at = r * c.groups + g;
            ck_assert(scale == (r < l.n ? c.scales[at] : 0));
            if (r < l.n && l.encoding == PARE_ENCODING_NF4)
                ck_assert(scale == pare_nf4_scale(c.scale_offset,
                                                  c.scale_steps[place(r, g, c.groups, 1, 0) / 256],
                                                  c.scale_codes[at]));
        }
}
END_TEST

START_TEST(a_view_says_how_the_linear_runs)
{
    const pare_packed_linear l = kind(_i);
    pare_codes c;
    const pare_packed_planes p = pack(&l, &c);
    pare_linear v;
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &v), PARE_OK);
    const bool dense = l.encoding == PARE_ENCODING_F16 && !l.sparsity;
    ck_assert(v.n == l.n && v.k == l.k && v.encoding == l.encoding);
    ck_assert_uint_eq(v.bits, dense ? 0 : l.bits);
    ck_assert_ptr_eq(v.data, dense ? p.plane[PARE_PLANE_VALUES] : NULL);
    ck_assert(v.activation.mode == l.activation.mode);
    ck_assert_uint_eq(v.activation.bits, l.activation.bits == 4                       ? 4
                                         : l.activation.mode == PARE_ACTIVATION_FLOAT ? 0
                                                                                      : 8);
    ck_assert(v.activation.scale == (is_fixed(&l) ? 0.03F : 0));
    ck_assert(v.outliers.count == l.outliers && (v.sparse.start != NULL) == (l.sparse != 0));
    ck_assert((v.outliers.panel.codes != NULL) == l.outliers_int8);
    ck_assert((v.outliers.f16 != NULL) == (l.outliers && !l.outliers_int8));
    ck_assert((v.bias != NULL) == l.bias && !v.rotated);
    ck_assert((v.panel.zeros != NULL) == !l.symmetric);
}
END_TEST

/* Both ways of the index. */
START_TEST(the_index_describes_a_linear_completely)
{
    pare_packed_linear l = kind(_i), back;
    l.rotated = _i % 2;
    pare_json_writer *w;
    pare_json *doc = NULL;
    const char *text;
    size_t len;
    ck_assert_int_eq(pare_json_writer_new(&cx, &w), PARE_OK);
    pare_json_open_object(w, NULL);
    pare_packed_linear_put(w, &l);
    pare_json_close(w);
    ck_assert_int_eq(pare_json_writer_finish(w, &text, &len), PARE_OK);
    ck_assert_int_eq(pare_json_parse(&cx, "i", text, len, 1 << 16, &doc), PARE_OK);
    ck_assert_msg(pare_packed_linear_read(&cx, "w", pare_json_get(doc, "w"), &back) == PARE_OK,
                  "%s", cx.what);
    ck_assert(back.n == l.n && back.k == l.k && back.bits == l.bits && back.group == l.group);
    ck_assert(back.symmetric == l.symmetric && back.encoding == l.encoding);
    ck_assert(back.activation.mode == l.activation.mode && back.outliers == l.outliers);
    ck_assert(back.outliers_int8 == l.outliers_int8 && back.sparse == l.sparse);
    ck_assert(back.rotated == l.rotated && back.bias == l.bias);
    ck_assert(back.sparsity == l.sparsity && back.kept == l.kept);
    ck_assert_uint_eq(back.activation.bits, l.activation.bits == 4                       ? 4
                                            : l.activation.mode == PARE_ACTIVATION_FLOAT ? 0
                                                                                         : 8);
    pare_json_free(doc);
    pare_json_writer_free(w);
}
END_TEST

#define HEAD "\"group\": 32, \"symmetric\": true, \"shape\": [64, 96]"
#define SUPER                                                                                      \
    "\"symmetric\": true, \"shape\": [64, 512], \"activation\": {\"mode\": \"float\"}, "           \
    "\"group\": 256"
#define FLOAT                                                                                      \
    "\"group\": 0, \"symmetric\": true, \"shape\": [64, 96], \"encoding\": \"f16\", "              \
    "\"activation\": {\"mode\": \"float\"}"
static const struct {
    const char *text, *what;
} entries[] = {
    {"\"bits\": 4, " HEAD, ""},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"group\", \"bits\": 4}", ""},
    {"\"bits\": 4, " HEAD ", \"outliers\": 96, \"outlier_type\": \"f16\", \"sparse\": 6144", ""},
    {"\"bits\": 4, " SUPER ", \"encoding\": \"q4_k\"", ""},
    {"\"bits\": 6, " SUPER ", \"encoding\": \"q6_k\"", ""},
    {"\"bits\": 6, " SUPER ", \"encoding\": \"q4_k\"",
     "linear: w: no storage for q4_k with 6 bits in groups of 256"},
    {"\"bits\": 4, " SUPER ", \"encoding\": \"q6_k\"",
     "linear: w: no storage for q6_k with 4 bits in groups of 256"},
    {"\"bits\": 6, " SUPER, "linear: w: no storage for 6 bits in groups of 256"},
    {"\"bits\": 4, \"group\": 256, \"symmetric\": true, \"shape\": [64, 480], \"encoding\": "
     "\"q4_k\", \"activation\": {\"mode\": \"float\"}",
     "linear: w: no storage for q4_k with 4 bits in groups of 256"},
    {"\"bits\": 4, \"group\": 128, \"symmetric\": true, \"shape\": [64, 512], \"encoding\": "
     "\"q4_k\", \"activation\": {\"mode\": \"float\"}",
     "linear: w: no storage for q4_k with 4 bits in groups of 128"},
    {"\"bits\": 4, \"group\": 256, \"symmetric\": true, \"shape\": [64, 512], \"encoding\": "
     "\"q4_k\"",
     "linear: w: q4_k has no integer product: its activations stay float"},
    {"\"bits\": 17, " HEAD, "linear w: bits is not a whole number of 1 to 16"},
    {"\"bits\": 0, \"group\": 0, \"symmetric\": true, \"shape\": [64, 96], \"encoding\": \"exl3\"",
     "linear w: bits is not a whole number of 1 to 16"},
    {"\"bits\": 5, " HEAD, "linear: w: no storage for 5 bits in groups of 32"},
    {"\"bits\": 4, \"group\": 40, \"symmetric\": true, \"shape\": [64, 96]",
     "linear w: group is not 0 (the row), 16 or a multiple of 32"},
    {"\"bits\": 4, \"group\": 32, \"shape\": [64, 96]", "linear w: symmetric is not true or false"},
    {"\"bits\": 4, \"group\": 32, \"symmetric\": true, \"shape\": [64, 1073741825]",
     "linear w: shape is not two sizes from 1 to 2^30"},
    {"\"bits\": 4, " HEAD ", \"encoding\": \"nf5\"", "linear w: the encoding is not known"},
    {"\"bits\": 4, " HEAD ", \"encoding\": 3", "linear w: the encoding is not known"},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"row\", \"bits\": 8}",
     "linear w: the mode of activations is not known"},
    {"\"bits\": 4, " HEAD ", \"activation\": 8", "linear w: the mode of activations is not known"},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"token\", \"bits\": 5}",
     "linear w: bits of activations are not 4 or 8"},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"token\"}",
     "linear w: bits of activations are not 4 or 8"},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"float\", \"bits\": 4}",
     "linear w: bits of activations are not 4 or 8"},
    {"\"bits\": 8, " HEAD
     ", \"encoding\": \"fp8_e4m3\", \"activation\": {\"mode\": \"float\", \"bits\": 4}",
     "linear w: bits of activations are not 4 or 8"},
    {"\"bits\": 4, " HEAD ", \"activation\": {\"mode\": \"token\", \"bits\": 8, \"x\": 1}",
     "linear w: activation has a member that is not known"},
    {"\"bits\": 4, " HEAD ", \"outliers\": 0", "linear w: outliers is not a number above 0"},
    {"\"bits\": 4, " HEAD ", \"outliers\": \"2\"", "linear w: outliers is not a number above 0"},
    {"\"bits\": 4, " HEAD ", \"outlier_type\": \"int4\"",
     "linear w: the outlier_type is not f16 or int8"},
    {"\"bits\": 4, " HEAD ", \"sparse\": -1", "linear w: sparse is not a number above 0"},
    {"\"bits\": 4, " HEAD ", \"rotated\": 1", "linear w: rotated is not true or false"},
    {"\"bits\": 4, " HEAD ", \"bias\": null", "linear w: bias is not true or false"},
    {"\"bits\": 4, " HEAD ", \"permuted\": true", "linear w: \"permuted\" is not known"},
    {"\"bits\": 3, " HEAD ", \"encoding\": \"nf4\"",
     "linear: w: no storage for nf4 with 3 bits in groups of 32"},
    {"\"bits\": 4, " HEAD ", \"encoding\": \"codebook\"",
     "linear: w: no storage for codebook with 4 bits in groups of 32"},
    {"\"bits\": 4, \"group\": 64, \"symmetric\": true, \"shape\": [64, 96], \"encoding\": "
     "\"mxfp4\"",
     "linear: w: no storage for mxfp4 with 4 bits in groups of 64"},
    {"\"bits\": 2, \"group\": 64, \"symmetric\": false, \"shape\": [64, 96], \"encoding\": "
     "\"ternary\"",
     "linear: w: ternary has no zero points"},
    {"\"bits\": 4, " HEAD ", \"encoding\": \"nf4\"",
     "linear: w: nf4 has no integer product: its activations stay float"},
    {"\"bits\": 4, " HEAD ", \"outliers\": 97", "linear: w: 97 outlier columns of 96"},
    {"\"bits\": 4, " HEAD ", \"sparse\": 6145", "linear: w: 6145 sparse weights of 64 x 96"},
    {"\"bits\": 8, " HEAD ", \"sparsity\": \"2:4\"", ""},
    {"\"bits\": 16, " FLOAT ", \"sparsity\": \"2:4\"", ""},
    {"\"bits\": 16, " FLOAT ", \"sparsity\": \"bitmask\", \"kept\": 6144", ""},
    {"\"bits\": 4, " HEAD ", \"sparsity\": \"1:4\"",
     "linear w: the sparsity is not none, 2:4 or bitmask"},
    {"\"bits\": 4, " HEAD ", \"sparsity\": 2",
     "linear w: the sparsity is not none, 2:4 or bitmask"},
    {"\"bits\": 4, " HEAD ", \"kept\": 0", "linear w: kept is not a number above 0"},
    {"\"bits\": 3, " HEAD ", \"sparsity\": \"2:4\"",
     "linear: w: no storage for uniform with 3 bits and sparsity 2:4"},
    {"\"bits\": 4, " HEAD ", \"sparsity\": \"bitmask\", \"kept\": 4",
     "linear: w: no storage for uniform with 4 bits and sparsity bitmask"},
    {"\"bits\": 16, " FLOAT, ""},
    {"\"bits\": 16, " FLOAT ", \"sparse\": 1", "linear: w: sparsity none keeps no weights apart"},
    {"\"bits\": 16, " FLOAT ", \"kept\": 1", "linear: w: 1 values kept of 64 x 96"},
    {"\"bits\": 4, \"group\": 32, \"symmetric\": false, \"shape\": [64, 96], \"sparsity\": \"2:4\"",
     "linear: w: no storage for uniform with 4 bits and sparsity 2:4"},
    {"\"bits\": 4, " HEAD ", \"sparsity\": \"2:4\", \"sparse\": 1",
     "linear: w: sparsity 2:4 keeps no weights apart"},
    {"\"bits\": 4, " HEAD ", \"sparsity\": \"2:4\", \"kept\": 1",
     "linear: w: 1 values kept of 64 x 96"},
    {"\"bits\": 16, " FLOAT ", \"sparsity\": \"bitmask\", \"kept\": 6145",
     "linear: w: 6145 values kept of 64 x 96"},
    {"\"bits\": 16, " FLOAT ", \"sparsity\": \"bitmask\"", "linear: w: 0 values kept of 64 x 96"},
};

START_TEST(entries_of_the_index_that_mean_nothing_are_refused)
{
    char text[256];
    pare_json *doc = NULL;
    pare_packed_linear l;
    const int len = snprintf(text, sizeof text, "{%s}", entries[_i].text);
    ck_assert_int_eq(pare_json_parse(&cx, "i", text, (size_t)len, 1 << 16, &doc), PARE_OK);
    ck_assert_int_eq(pare_packed_linear_read(&cx, "w", doc, &l),
                     entries[_i].what[0] ? PARE_EFORMAT : PARE_OK);
    ck_assert_str_eq(cx.what, entries[_i].what);
    pare_json_free(doc);
}
END_TEST

START_TEST(what_the_kernels_rely_on_is_checked)
{
    enum { SPARSE = 4, SIGNS = 6, EXPONENTS = 3, COLUMNS = 7, STEPS = 1, BIASED = 2 };
    enum { PRUNED = 13, MASKED = 14 };
    enum { NOT_A_NUMBER = 0x7fc00000, INFINITE = 0x7f800000 };
    static const struct {
        int kind;
        pare_plane plane;
        size_t at, value;
        const char *what;
    } bad[] = {
        {COLUMNS, PARE_PLANE_OUTLIER_COLUMNS, 4, 141, "w.outlier_columns: 141 is not below 141"},
        {COLUMNS, PARE_PLANE_OUTLIER_COLUMNS, 1, 0, "w.outlier_columns: 0 is not below 141 and"},
        {SPARSE, PARE_PLANE_SPARSE_STARTS, 0, 1, "row 0: 1 does not ascend from 0 to 23"},
        {SPARSE, PARE_PLANE_SPARSE_STARTS, 9, 0, "row 9: 0 does not ascend from 0 to 23"},
        {SPARSE, PARE_PLANE_SPARSE_STARTS, 43, 24, "row 43: 24 does not ascend from 0 to 23"},
        {SPARSE, PARE_PLANE_SPARSE_STARTS, 43, 22, "w.sparse_starts: ends at 22 of 23 weights"},
        {SPARSE, PARE_PLANE_SPARSE_COLUMNS, 3, 141, "w.sparse_columns: 141 is not below 141"},
        {SIGNS, PARE_PLANE_SALIENT, 12, 2, "w.salient: column 12: 2"},
        {SIGNS, PARE_PLANE_SALIENT, 141, 1, "w.salient: column 141: 1"},
        {EXPONENTS, PARE_PLANE_SCALES, 2, 102, "w.scales: row 2: 2^-25 is outside 2^-24 .. 2^15"},
        {EXPONENTS, PARE_PLANE_SCALES, 9, 143, "w.scales: row 1: 2^16 is outside 2^-24 .. 2^15"},
        {STEPS, PARE_PLANE_SCALE_STEPS, 0, NOT_A_NUMBER, "w.scale_steps: value 0 is NaN"},
        {STEPS, PARE_PLANE_SCALE_OFFSET, 0, INFINITE, "w.scale_offset: value 0 is infinite"},
        {BIASED, PARE_PLANE_BIAS, 42, NOT_A_NUMBER, "w.bias: value 42 is NaN"},
        /* row 9 is the second of its block, which has three atoms of 64 bytes; the first of the
         * third pairs of its first words are places 4 and 5 */
        {PRUNED, PARE_PLANE_INDICES, 3 * 64 + 4, 0xff,
         "w.indices: row 9: the two of columns 0 .. 3 do not ascend"},
        {PRUNED, PARE_PLANE_INDICES, 5 * 64 + 32 + 7 * 4 + 3, 0,
         "w.indices: row 15: the two of columns 164 .. 167 do not ascend"},
        {MASKED, PARE_PLANE_MASK, 18 * 3 + 17, 0x20,
         "w.mask: row 3: a bit behind column 140 is set"},
    };
    const pare_packed_linear l = kind(bad[_i].kind);
    pare_codes c;
    pare_linear view;
    const pare_packed_planes p = pack(&l, &c);
    pare_tensor t;
    ck_assert(pare_packed_plane_shape(&l, bad[_i].plane, &t));
    if (t.dtype == PARE_U32 || t.dtype == PARE_F32)
        ((uint32_t *)p.plane[bad[_i].plane])[bad[_i].at] = (uint32_t)bad[_i].value;
    else
        ((uint8_t *)p.plane[bad[_i].plane])[bad[_i].at] = (uint8_t)bad[_i].value;
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &view), PARE_EFORMAT);
    ck_assert_msg(strstr(cx.what, bad[_i].what) != NULL, "%s, not %s", cx.what, bad[_i].what);
}
END_TEST
enum { VIEW_FAULTS = 17 };

START_TEST(codes_that_lack_something_are_refused)
{
    static const struct {
        int kind;
        size_t offset;
        const char *what;
    } lack[] = {
        {1, offsetof(pare_codes, scale_codes), "w: the codes come without scales"},
        {1, offsetof(pare_codes, scale_steps), "w: the codes come without scale_steps"},
        {2, offsetof(pare_codes, bias), "w: the codes come without bias"},
        {4, offsetof(pare_codes, book), "w: the codes come without book"},
        {4, offsetof(pare_codes, sparse_column), "w: the codes come without sparse_columns"},
        {6, offsetof(pare_codes, salient), "w: the codes come without salient"},
        {7, offsetof(pare_codes, outlier_weight), "w: the codes come without outlier_weights"},
        {8, offsetof(pare_codes, outlier_code), "w: the codes come without outlier_codes"},
        {10, offsetof(pare_codes, zeros), "w: the codes come without zeros"},
        {11, offsetof(pare_codes, codes), "w: the codes come without codes"},
        {13, offsetof(pare_codes, values), "w: the codes come without values"},
        {14, offsetof(pare_codes, values), "w: the codes come without mask"},
        {15, offsetof(pare_codes, values), "w: the codes come without values"},
        {16, offsetof(pare_codes, minima), "w: the codes come without minima"},
        {17, offsetof(pare_codes, sub), "w: the codes come without sub"},
    };
    for (size_t i = 0; i < sizeof lack / sizeof *lack; i++) {
        const pare_packed_linear l = kind(lack[i].kind);
        pare_codes c;
        pare_packed_planes p;
        ck_assert(encoded_codes(&arena, &l, 1, &c));
        memset((char *)&c + lack[i].offset, 0, sizeof(void *));
        pare_ctx_clear(&cx);
        ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_ESHAPE);
        ck_assert_str_eq(cx.what, lack[i].what);
    }
    const pare_packed_linear l = kind(7);
    pare_codes c;
    pare_packed_planes p;
    ck_assert(encoded_codes(&arena, &l, 1, &c));
    c.outliers = 4;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_ESHAPE);
    ck_assert_str_eq(cx.what, "w: codes keep 4 columns and 0 weights apart, the linear 5 and 0");
}
END_TEST

START_TEST(linears_are_described_in_words)
{
    static const char *const words[ENCODED_ALL] = {
        "ternary g64",
        "nf4 g32, x f32",
        "fp8_e4m3 row, x f32, bias",
        "mxfp4 g32, x f32",
        "codebook3 row + 23 sparse, x f32",
        "codebook4 row, x f32",
        "binary g32, x f32",
        "int8 row sym + 5 columns f16, x int8 per token",
        "int4 g32 sym + 33 columns int8, x int4 per group",
        "int8 row sym, x int8 per tensor, bias",
        "int3 g64 asym + 40 sparse",
        "int4 g32 sym 2:4",
        "int8 row sym 2:4, x int8 per token, bias",
        "f16 2:4, x f32",
        "f16 bitmask, 4.9% kept, x f32",
        "f16, x f32",
        "q4_k, x f32",
        "q6_k, x f32, bias",
        "nvfp4 g16, x nvfp4 per 16",
        "mxfp4 g32, x mxfp4 per 32",
    };
    char text[PARE_PACKED_TEXT];
    const pare_packed_linear l = kind(_i);
    ck_assert_str_eq(pare_packed_linear_text(&l, text), words[_i]);
}
END_TEST

static pare_status everything(pare_ctx *c, int i)
{
    const pare_packed_linear l = kind(i);
    pare_arena a;
    pare_codes codes;
    pare_packed_planes p;
    pare_linear view;
    pare_status s = pare_arena_init(c, &a, 0);
    if (s == PARE_OK)
        s = encoded_codes(&a, &l, 1, &codes) ? PARE_OK : PARE_ENOMEM;
    if (s == PARE_OK)
        s = pare_packed_pack(c, &a, &l, &codes, &p);
    if (s == PARE_OK)
        s = pare_packed_view(c, &a, &l, p.plane, &view);
    pare_arena_release(&a);
    return s;
}

START_TEST(every_failed_allocation_is_reported_and_leaks_nothing)
{
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK && n < 1000; n++) {
        unit_failing f = {.left = n};
        pare_ctx c;
        pare_ctx_init(&c);
        c.alloc = (pare_alloc){unit_failing_resize, &f};
        s = everything(&c, _i);
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        ck_assert((s == PARE_OK) == (c.what[0] == '\0'));
        ck_assert_int_eq(f.live, 0);
    }
    ck_assert_int_eq(s, PARE_OK);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("packed encodings");
    TCase *const t = tcase_create("packed encodings");
    tcase_add_checked_fixture(t, begin, end);
    tcase_add_loop_test(t, planes_hold_what_the_codes_say_and_padding, 0, ENCODED_ALL);
    tcase_add_loop_test(t, what_is_kept_apart_has_its_planes, 0, ENCODED_ALL);
    tcase_add_loop_test(t, bytes_are_those_of_the_shapes, 0, ENCODED_ALL);
    tcase_add_loop_test(t, a_view_has_the_scales_that_coded_ones_stand_for, 0, 4);
    tcase_add_loop_test(t, a_view_says_how_the_linear_runs, 0, ENCODED_ALL);
    tcase_add_loop_test(t, the_index_describes_a_linear_completely, 0, ENCODED_ALL);
    tcase_add_loop_test(t, entries_of_the_index_that_mean_nothing_are_refused, 0,
                        sizeof entries / sizeof *entries);
    tcase_add_loop_test(t, what_the_kernels_rely_on_is_checked, 0, VIEW_FAULTS);
    tcase_add_test(t, codes_that_lack_something_are_refused);
    tcase_add_loop_test(t, linears_are_described_in_words, 0, ENCODED_ALL);
    tcase_add_loop_test(t, every_failed_allocation_is_reported_and_leaks_nothing, 0, ENCODED_ALL);
    suite_add_tcase(s, t);
    return unit_main(s);
}
