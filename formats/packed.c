#include "formats/packed_internal.h"

#include <string.h>

#include "kernels/exl3.h"
#include "kernels/layout.h"
#include "runtime/threads.h"
#include "solve/super.h"

enum {
    MAGNITUDES = 4,
    ATOM_24 = 64 /* columns of an atom of places, bytes of its indices */,
    OUTLIER_BITS = 8
};

static const char *const plane_names[PARE_PLANES] = {
    [PARE_PLANE_CODES] = "codes",
    [PARE_PLANE_INDICES] = "indices",
    [PARE_PLANE_MASK] = "mask",
    [PARE_PLANE_VALUES] = "values",
    [PARE_PLANE_SCALES] = "scales",
    [PARE_PLANE_ZEROS] = "zeros",
    [PARE_PLANE_MINIMA] = "minima",
    [PARE_PLANE_SUB] = "sub",
    [PARE_PLANE_SCALE_STEPS] = "scale_steps",
    [PARE_PLANE_SCALE_OFFSET] = "scale_offset",
    [PARE_PLANE_SCALE_FACTOR] = "scale_factor",
    [PARE_PLANE_ROW_SCALES] = "row_scales",
    [PARE_PLANE_COLUMN_SCALES] = "column_scales",
    [PARE_PLANE_BOOK] = "book",
    [PARE_PLANE_SALIENT] = "salient",
    [PARE_PLANE_OUTLIER_COLUMNS] = "outlier_columns",
    [PARE_PLANE_OUTLIER_WEIGHTS] = "outlier_weights",
    [PARE_PLANE_OUTLIER_CODES] = "outlier_codes",
    [PARE_PLANE_OUTLIER_SCALES] = "outlier_scales",
    [PARE_PLANE_SPARSE_STARTS] = "sparse_starts",
    [PARE_PLANE_SPARSE_COLUMNS] = "sparse_columns",
    [PARE_PLANE_SPARSE_VALUES] = "sparse_values",
    [PARE_PLANE_INPUT_SCALE] = "input_scale",
    [PARE_PLANE_BIAS] = "bias",
};

const char *pare_packed_plane_name(pare_plane p)
{
    return plane_names[p];
}

size_t pare_packed_linear_groups(const pare_packed_linear *l)
{
    const pare_grid shape = {.group = l->group};
    return pare_grid_groups(&shape, l->k);
}

uint8_t pare_packed_zero_code(const pare_packed_linear *l)
{
    return pare_encoding_zero(l->encoding, l->bits);
}

static bool vector(pare_tensor *out, pare_dtype dtype, uint64_t len)
{
    *out = (pare_tensor){.dtype = dtype, .rank = 1, .shape = {len}};
    return len != 0;
}

/* [row blocks, middle, last] */
static bool blocks(pare_tensor *out, const pare_packed_linear *l, pare_dtype dtype, uint64_t middle,
                   uint64_t last)
{
    const uint64_t row_blocks = pare_round_up(l->n, PARE_PAD_N) / PARE_ATOM_N;
    *out = (pare_tensor){.dtype = dtype, .rank = 3, .shape = {row_blocks, middle, last}};
    return true;
}

static bool codes_shape(const pare_packed_linear *l, size_t k, unsigned bits, pare_tensor *out)
{
    return blocks(out, l, PARE_U8, pare_round_up(k, PARE_ATOM_K) / PARE_ATOM_K,
                  pare_atom_bytes(bits));
}

/* Codes of the columns, or of the places of 2:4. */
static bool main_codes_shape(const pare_packed_linear *l, pare_tensor *out)
{
    if (pare_encoding_is_float(l->encoding))
        return false;
    return codes_shape(l, l->sparsity == PARE_SPARSITY_2_4 ? pare_24_kept(l->k) : l->k, l->bits,
                       out);
}

static bool pruned_shape(const pare_packed_linear *l, pare_plane p, pare_tensor *out)
{
    const size_t kept = pare_24_kept(l->k);
    if (p == PARE_PLANE_INDICES)
        return l->sparsity == PARE_SPARSITY_2_4 &&
               blocks(out, l, PARE_U8, kept / PARE_ATOM_K, ATOM_24);
    if (l->sparsity == PARE_SPARSITY_BITMASK) {
        if (p == PARE_PLANE_VALUES)
            return vector(out, PARE_F16, l->kept);
        *out = (pare_tensor){.dtype = PARE_U8, .rank = 2, .shape = {l->n, (l->k + 7) / 8}};
        return true;
    }
    *out = (pare_tensor){
        .dtype = PARE_F16, .rank = 2, .shape = {pare_round_up(l->n, PARE_PAD_N), kept}};
    if (l->sparsity == PARE_SPARSITY_NONE)
        *out = (pare_tensor){.dtype = PARE_F16, .rank = 2, .shape = {l->n, l->k}};
    return p == PARE_PLANE_VALUES && pare_encoding_is_float(l->encoding);
}

static bool scales_shape(const pare_packed_linear *l, pare_tensor *out)
{
    return pare_encodings[l->encoding].scales &&
           blocks(out, l, pare_encoding_codes_scales(l->encoding) ? PARE_U8 : PARE_F16,
                  pare_packed_linear_groups(l), PARE_ATOM_N);
}

static bool book_shape(const pare_packed_linear *l, pare_tensor *out)
{
    const uint64_t rows = pare_round_up(l->n, PARE_PAD_N);
    const pare_decoding how = pare_encodings[l->encoding].decoding;
    if (how == PARE_DECODE_BOOK) {
        *out = (pare_tensor){.dtype = PARE_F16, .rank = 2, .shape = {rows, 1u << l->bits}};
        return true;
    }
    if (how != PARE_DECODE_BINARY)
        return false;
    (void)blocks(out, l, PARE_F16, pare_packed_linear_groups(l), PARE_ATOM_N);
    out->shape[out->rank++] = MAGNITUDES;
    return true;
}

/* Planes of the codes of an encoding. */
static bool encoding_shape(const pare_packed_linear *l, pare_plane p, pare_tensor *out)
{
    const pare_encoding_row *const row = &pare_encodings[l->encoding];
    const bool steps = row->scales == PARE_SCALES_STEPS;
    const uint64_t stored = pare_round_up(l->n, PARE_PAD_N) * pare_packed_linear_groups(l);
    switch (p) {
    case PARE_PLANE_CODES: return main_codes_shape(l, out);
    case PARE_PLANE_INDICES:
    case PARE_PLANE_MASK:
    case PARE_PLANE_VALUES: return pruned_shape(l, p, out);
    case PARE_PLANE_SCALES: return scales_shape(l, out);
    case PARE_PLANE_ZEROS:
        return !l->symmetric && blocks(out, l, PARE_U8, pare_packed_linear_groups(l), PARE_ATOM_N);
    case PARE_PLANE_MINIMA:
        return row->minima && blocks(out, l, PARE_F16, pare_packed_linear_groups(l), PARE_ATOM_N);
    case PARE_PLANE_SUB:
        return pare_encoding_is_super(l->encoding) &&
               blocks(out, l, PARE_U8, l->k / PARE_ATOM_K, PARE_SUPER_BYTES);
    case PARE_PLANE_SCALE_STEPS:
        return steps && vector(out, PARE_F32, (stored + PARE_PACKED_STEP - 1) / PARE_PACKED_STEP);
    case PARE_PLANE_SCALE_OFFSET: return steps && vector(out, PARE_F32, 1);
    case PARE_PLANE_SCALE_FACTOR:
        return row->scales == PARE_SCALES_E4M3 && vector(out, PARE_F32, 1);
    case PARE_PLANE_ROW_SCALES:
        return pare_encoding_turns(l->encoding) && vector(out, PARE_F16, l->n);
    case PARE_PLANE_COLUMN_SCALES:
        return pare_encoding_turns(l->encoding) && vector(out, PARE_F16, l->k);
    case PARE_PLANE_BOOK: return book_shape(l, out);
    case PARE_PLANE_SALIENT:
        return row->decoding == PARE_DECODE_BINARY &&
               vector(out, PARE_U8, pare_round_up(l->k, PARE_ATOM_K));
    default: return false;
    }
}

static bool outlier_shape(const pare_packed_linear *l, pare_plane p, pare_tensor *out)
{
    if (l->outliers == 0)
        return false;
    if (p == PARE_PLANE_OUTLIER_COLUMNS)
        return vector(out, PARE_U32, l->outliers);
    if ((p == PARE_PLANE_OUTLIER_WEIGHTS) == l->outliers_int8)
        return false;
    if (p == PARE_PLANE_OUTLIER_CODES)
        return codes_shape(l, l->outliers, OUTLIER_BITS, out);
    if (p == PARE_PLANE_OUTLIER_SCALES)
        return blocks(out, l, PARE_F16, 1, PARE_ATOM_N);
    *out = (pare_tensor){.dtype = PARE_F16, .rank = 2, .shape = {l->n, l->outliers}};
    return true;
}

bool pare_packed_plane_shape(const pare_packed_linear *l, pare_plane p, pare_tensor *out)
{
    *out = (pare_tensor){0};
    switch (p) {
    case PARE_PLANE_OUTLIER_COLUMNS:
    case PARE_PLANE_OUTLIER_WEIGHTS:
    case PARE_PLANE_OUTLIER_CODES:
    case PARE_PLANE_OUTLIER_SCALES: return outlier_shape(l, p, out);
    case PARE_PLANE_SPARSE_STARTS: return l->sparse && vector(out, PARE_U32, l->n + 1);
    case PARE_PLANE_SPARSE_COLUMNS: return vector(out, PARE_U32, l->sparse);
    case PARE_PLANE_SPARSE_VALUES: return vector(out, PARE_F16, l->sparse);
    case PARE_PLANE_INPUT_SCALE:
        return pare_activation_is_fixed(l->encoding, &l->activation) && vector(out, PARE_F32, 1);
    case PARE_PLANE_BIAS: return l->bias && vector(out, PARE_F32, l->n);
    default: return encoding_shape(l, p, out);
    }
}

pare_packed_bytes pare_packed_linear_bytes(const pare_packed_linear *l)
{
    pare_packed_bytes bytes = {.total = 0};
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (!pare_packed_plane_shape(l, p, &t))
            continue;
        /* too large to count is too large to lay out, which is where it is refused */
        if (pare_tensor_bytes(t.dtype, t.rank, t.shape, &bytes.plane[p]) != PARE_OK ||
            bytes.plane[p] > INT64_MAX / PARE_PLANES)
            bytes.plane[p] = INT64_MAX / PARE_PLANES;
        bytes.total += bytes.plane[p];
    }
    return bytes;
}

pare_status pare_packed_take(pare_arena *a, const pare_packed_linear *l, pare_packed_planes *out)
{
    *out = (pare_packed_planes){.bytes = pare_packed_linear_bytes(l)};
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        if (out->bytes.plane[p] == 0)
            continue;
        out->plane[p] = pare_arena_take(a, (size_t)out->bytes.plane[p], 1);
        if (!out->plane[p])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

typedef struct pack_task {
    const pare_ctx *cx;
    const pare_packed_linear *l;
    const pare_codes *from;
    const pare_packed_planes *to;
    size_t groups;
    uint8_t pad;      /* code and zero point of padding */
    uint8_t *outlier; /* [n, outliers] int8 codes + 128 */
} pack_task;

/* [groups, width] floats of each of the eight rows from `row` on; those behind the end are 0. */
static void pack_f16(const pack_task *t, size_t row, const float *from, uint16_t *to, size_t groups,
                     size_t width)
{
    for (size_t g = 0; g < groups; g++) {
        float value[PARE_ATOM_N * MAGNITUDES] = {0};
        for (size_t r = 0; r < PARE_ATOM_N && row + r < t->l->n; r++)
            memcpy(value + r * width, from + ((row + r) * groups + g) * width,
                   width * sizeof *value);
        t->cx->kernels.cvt_f32_f16(to + (row / PARE_ATOM_N * groups + g) * PARE_ATOM_N * width,
                                   value, PARE_ATOM_N * width);
    }
}

static void pack_u8(const pack_task *t, size_t row, const uint8_t *from, uint8_t *to, size_t groups,
                    uint8_t pad)
{
    for (size_t g = 0; g < groups; g++)
        for (size_t r = 0; r < PARE_ATOM_N; r++)
            to[(row / PARE_ATOM_N * groups + g) * PARE_ATOM_N + r] =
                row + r < t->l->n ? from[(row + r) * groups + g] : pad;
}

/* What goes with the codes of the eight rows from `row` on. */
static void pack_grid(const pack_task *t, size_t row)
{
    const pare_codes *const from = t->from;
    void *const *const to = t->to->plane;
    if (to[PARE_PLANE_SCALES] && pare_encoding_codes_scales(t->l->encoding))
        pack_u8(t, row, from->scale_codes, to[PARE_PLANE_SCALES], t->groups,
                pare_encodings[t->l->encoding].scales == PARE_SCALES_STEPS ? PARE_STEPS_ZERO : 0);
    else if (to[PARE_PLANE_SCALES])
        pack_f16(t, row, from->scales, to[PARE_PLANE_SCALES], t->groups, 1);
    if (to[PARE_PLANE_ZEROS])
        pack_u8(t, row, from->zeros, to[PARE_PLANE_ZEROS], t->groups, t->pad);
    if (to[PARE_PLANE_MINIMA])
        pack_f16(t, row, from->minima, to[PARE_PLANE_MINIMA], t->groups, 1);
    if (to[PARE_PLANE_SUB])
        pack_u8(t, row, from->sub, to[PARE_PLANE_SUB], t->groups * PARE_SUPER_BYTES, 0);
    if (pare_encodings[t->l->encoding].decoding == PARE_DECODE_BINARY)
        pack_f16(t, row, from->book, to[PARE_PLANE_BOOK], t->groups, MAGNITUDES);
    if (to[PARE_PLANE_OUTLIER_SCALES])
        pack_f16(t, row, from->outlier_scale, to[PARE_PLANE_OUTLIER_SCALES], 1, 1);
}

/* Bytes of the codes of PARE_PAD_N rows. */
static size_t pad_bytes(size_t k, unsigned bits)
{
    return PARE_PAD_N / PARE_ATOM_N * (pare_round_up(k, PARE_ATOM_K) / PARE_ATOM_K) *
           pare_atom_bytes(bits);
}

/* The trellis codes of 16 rows. */
static void pack_tiles(const pare_packed_linear *l, const uint8_t *code, uint8_t *to)
{
    for (size_t k = 0; k < l->k; k += PARE_EXL3_TILE, to += pare_exl3_tile_bytes(l->bits)) {
        uint8_t symbol[PARE_EXL3_WEIGHTS];
        for (unsigned p = 0; p < PARE_EXL3_WEIGHTS; p++)
            symbol[p] = code[pare_exl3_row(p) * l->k + k + pare_exl3_column(p)];
        pare_exl3_pack(to, symbol, l->bits);
    }
}

/* Items are pads of 16 rows, so that every task packs whole padded blocks. */
static void pack_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pack_task *const t = arg;
    const pare_packed_linear *const l = t->l;
    const size_t k = l->k, c = l->outliers;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const size_t row = i * PARE_PAD_N;
        const size_t rows = l->n - row < PARE_PAD_N ? l->n - row : PARE_PAD_N;
        uint8_t *const to = t->to->plane[PARE_PLANE_CODES];
        if (pare_encoding_turns(l->encoding))
            pack_tiles(l, t->from->codes + row * k, to + i * pad_bytes(k, l->bits));
        else if (to && !l->sparsity)
            pare_pack_codes(to + i * pad_bytes(k, l->bits), t->from->codes + row * k, k, rows, k,
                            l->bits, l->symmetric ? NULL : t->from->zeros + row * t->groups,
                            t->groups, t->pad);
        uint8_t *const apart = t->to->plane[PARE_PLANE_OUTLIER_CODES];
        for (size_t j = 0; apart && j < rows * c; j++)
            t->outlier[row * c + j] = (uint8_t)(t->from->outlier_code[row * c + j] + 128);
        if (apart)
            pare_pack_codes(apart + i * pad_bytes(c, OUTLIER_BITS), t->outlier + row * c, c, rows,
                            c, OUTLIER_BITS, NULL, 0, 128);
        for (size_t r = 0; r < PARE_PAD_N; r += PARE_ATOM_N)
            pack_grid(t, row + r);
    }
}

static void pack_half(const pare_ctx *cx, const float *from, void *to, size_t count)
{
    if (to)
        cx->kernels.cvt_f32_f16(to, from, count);
}

static void pack_bytes(const pare_packed_planes *to, pare_plane p, const void *from, uint64_t bytes)
{
    if (to->plane[p])
        memcpy(to->plane[p], from, (size_t)bytes);
}

/* What does not go by rows, or is small. */
static void pack_rest(const pare_ctx *cx, const pare_packed_linear *l, const pare_codes *from,
                      const pare_packed_planes *to)
{
    const uint64_t *const bytes = to->bytes.plane;
    pack_bytes(to, PARE_PLANE_SCALE_STEPS, from->scale_steps, bytes[PARE_PLANE_SCALE_STEPS]);
    pack_bytes(to, PARE_PLANE_SCALE_OFFSET, &from->scale_offset, sizeof from->scale_offset);
    pack_bytes(to, PARE_PLANE_SCALE_FACTOR, &from->scale_factor, sizeof from->scale_factor);
    pack_bytes(to, PARE_PLANE_SALIENT, from->salient, l->k);
    pack_bytes(to, PARE_PLANE_OUTLIER_COLUMNS, from->outlier_column,
               bytes[PARE_PLANE_OUTLIER_COLUMNS]);
    pack_half(cx, from->outlier_weight, to->plane[PARE_PLANE_OUTLIER_WEIGHTS], l->n * l->outliers);
    pack_bytes(to, PARE_PLANE_SPARSE_STARTS, from->sparse_start, bytes[PARE_PLANE_SPARSE_STARTS]);
    pack_bytes(to, PARE_PLANE_SPARSE_COLUMNS, from->sparse_column,
               bytes[PARE_PLANE_SPARSE_COLUMNS]);
    pack_half(cx, from->sparse_value, to->plane[PARE_PLANE_SPARSE_VALUES], l->sparse);
    pack_bytes(to, PARE_PLANE_INPUT_SCALE, &from->input_scale, sizeof from->input_scale);
    pack_bytes(to, PARE_PLANE_BIAS, from->bias, bytes[PARE_PLANE_BIAS]);
    if (pare_encoding_turns(l->encoding)) {
        pack_half(cx, from->row_scales, to->plane[PARE_PLANE_ROW_SCALES], l->n);
        pack_half(cx, from->column_scales, to->plane[PARE_PLANE_COLUMN_SCALES], l->k);
    }
    if (pare_encodings[l->encoding].decoding == PARE_DECODE_BOOK)
        pack_half(cx, from->book, to->plane[PARE_PLANE_BOOK], l->n << l->bits);
}

/* The first plane for which the codes bring nothing; PARE_PLANES when there is none. */
static pare_plane missing(const pare_packed_linear *l, const pare_codes *c)
{
    const void *const from[PARE_PLANES] = {
        [PARE_PLANE_CODES] = c->codes,
        [PARE_PLANE_INDICES] = l, /* made from codes or values */
        [PARE_PLANE_MASK] = c->values,
        [PARE_PLANE_VALUES] = c->values,
        [PARE_PLANE_SCALES] =
            pare_encoding_codes_scales(l->encoding) ? (const void *)c->scale_codes : c->scales,
        [PARE_PLANE_ZEROS] = c->zeros,
        [PARE_PLANE_MINIMA] = c->minima,
        [PARE_PLANE_SUB] = c->sub,
        [PARE_PLANE_SCALE_STEPS] = c->scale_steps,
        [PARE_PLANE_SCALE_OFFSET] = &c->scale_offset,
        [PARE_PLANE_SCALE_FACTOR] = &c->scale_factor,
        [PARE_PLANE_ROW_SCALES] = c->row_scales,
        [PARE_PLANE_COLUMN_SCALES] = c->column_scales,
        [PARE_PLANE_BOOK] = c->book,
        [PARE_PLANE_SALIENT] = c->salient,
        [PARE_PLANE_OUTLIER_COLUMNS] = c->outlier_column,
        [PARE_PLANE_OUTLIER_WEIGHTS] = c->outlier_weight,
        [PARE_PLANE_OUTLIER_CODES] = c->outlier_code,
        [PARE_PLANE_OUTLIER_SCALES] = c->outlier_scale,
        [PARE_PLANE_SPARSE_STARTS] = c->sparse_start,
        [PARE_PLANE_SPARSE_COLUMNS] = c->sparse_column,
        [PARE_PLANE_SPARSE_VALUES] = c->sparse_value,
        [PARE_PLANE_INPUT_SCALE] = &c->input_scale,
        [PARE_PLANE_BIAS] = c->bias,
    };
    for (pare_plane p = 0; p < PARE_PLANES; p++) {
        pare_tensor t;
        if (!from[p] && pare_packed_plane_shape(l, p, &t))
            return p;
    }
    return PARE_PLANES;
}

static pare_status check_codes(pare_ctx *cx, const pare_packed_linear *l, const pare_codes *codes)
{
    const size_t groups = pare_packed_linear_groups(l);
    if (codes->n != l->n || codes->k != l->k || codes->groups != groups)
        return pare_fail(
            cx, PARE_ESHAPE,
            "%s: codes are %zu x %zu with %zu groups, the linear is %zu x %zu with %zu", l->name,
            codes->n, codes->k, codes->groups, l->n, l->k, groups);
    if (codes->outliers != l->outliers || codes->sparse != l->sparse)
        return pare_fail(cx, PARE_ESHAPE,
                         "%s: codes keep %zu columns and %zu weights apart, the linear %zu and %zu",
                         l->name, codes->outliers, codes->sparse, l->outliers, l->sparse);
    const pare_plane p = missing(l, codes);
    if (p != PARE_PLANES)
        return pare_fail(cx, PARE_ESHAPE, "%s: the codes come without %s", l->name, plane_names[p]);
    return PARE_OK;
}

pare_status pare_packed_pack(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                             const pare_codes *codes, pare_packed_planes *out)
{
    PARE_TRY(check_codes(cx, l, codes));
    PARE_TRY(pare_packed_take(a, l, out));
    pack_task task = {.cx = cx,
                      .l = l,
                      .from = codes,
                      .to = out,
                      .groups = codes->groups,
                      .pad = pare_packed_zero_code(l)};
    if (out->plane[PARE_PLANE_OUTLIER_CODES]) {
        task.outlier = PARE_NEW(a, uint8_t, l->n * l->outliers);
        if (!task.outlier)
            return PARE_ENOMEM;
    }
    pare_parallel(cx, (l->n + PARE_PAD_N - 1) / PARE_PAD_N, 1, pack_rows, &task);
    pack_rest(cx, l, codes, out);
    const bool pruned = l->sparsity || pare_encoding_is_float(l->encoding);
    return pruned ? pare__packed_pack_pruned(cx, a, l, codes, out) : PARE_OK;
}
