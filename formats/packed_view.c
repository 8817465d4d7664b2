/* Planes as a linear of the runtime: what kernels rely on is checked, scales that are stored
 * as codes become F16. */
#include <inttypes.h>
#include <math.h>

#include "formats/packed_internal.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "solve/nvfp4.h"

/* Smallest and largest exponent of a power of two in F16, and the bias of those of MXFP4. */
enum { LEAST = -24, NORMAL = -14, MOST = 15, BIAS = 127, E4M3_LAST = 126 };

/* Row of item i of a plane [row block][group][8]. */
static size_t row_of(size_t i, size_t groups)
{
    return i / (groups * PARE_ATOM_N) * PARE_ATOM_N + i % PARE_ATOM_N;
}

static uint16_t power(int exponent)
{
    const int bits = exponent < NORMAL ? 1 << (exponent - LEAST) : (exponent - NORMAL + 1) << 10;
    return (uint16_t)bits;
}

/* Scale i of MXFP4 or NVFP4, of a row. */
static pare_status scale_of(pare_ctx *cx, const pare_packed_linear *l, size_t row, uint8_t code,
                            const float *factor, uint16_t *out)
{
    const int exponent = code - BIAS;
    if (factor && code > E4M3_LAST)
        return pare_fail(cx, PARE_EFORMAT, "%s.scales: row %zu: code %u is not 0 .. %d", l->name,
                         row, (unsigned)code, E4M3_LAST);
    if (!factor && (exponent < LEAST || exponent > MOST))
        return pare_fail(cx, PARE_EFORMAT, "%s.scales: row %zu: 2^%d is outside 2^%d .. 2^%d",
                         l->name, row, exponent, LEAST, MOST);
    *out = factor ? pare_f32_to_f16(pare_levels_e4m3[code] * *factor) : power(exponent);
    return PARE_OK;
}

static pare_status expand(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                          void *const *plane, const uint16_t **out)
{
    const uint8_t *const code = plane[PARE_PLANE_SCALES];
    const float *const step = plane[PARE_PLANE_SCALE_STEPS];
    const float *const offset = plane[PARE_PLANE_SCALE_OFFSET];
    const float *const factor = plane[PARE_PLANE_SCALE_FACTOR];
    const size_t groups = pare_packed_linear_groups(l);
    const size_t count = pare_round_up(l->n, PARE_PAD_N) * groups;
    uint16_t *const scale = PARE_NEW(a, uint16_t, count);
    *out = scale;
    if (!scale)
        return PARE_ENOMEM;
    if (factor && !pare_nvfp4_is_factor(*factor))
        return pare_fail(cx, PARE_EFORMAT, "%s.scale_factor: %g is no power of two in 2^-15 .. 2^7",
                         l->name, (double)*factor);
    for (size_t i = 0; i < count; i++) {
        const size_t row = row_of(i, groups);
        if (row >= l->n)
            continue;
        if (pare_encodings[l->encoding].scales == PARE_SCALES_STEPS) {
            const float product = step[i / PARE_PACKED_STEP] * (float)(code[i] - PARE_STEPS_ZERO);
            scale[i] = pare_f32_to_f16(*offset + product);
            continue;
        }
        PARE_TRY(scale_of(cx, l, row, code[i], factor, &scale[i]));
    }
    return PARE_OK;
}

/* `count` columns that ascend, all below k. */
static pare_status check_columns(pare_ctx *cx, const pare_packed_linear *l, pare_plane p,
                                 const uint32_t *column, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (column[i] >= l->k || (i && column[i] <= column[i - 1]))
            return pare_fail(cx, PARE_EFORMAT,
                             "%s.%s: %" PRIu32 " is not below %zu and above those before it",
                             l->name, pare_packed_plane_name(p), column[i], l->k);
    return PARE_OK;
}

static pare_status check_sparse(pare_ctx *cx, const pare_packed_linear *l, const pare_sparse *s)
{
    for (size_t r = 0; r <= l->n; r++)
        if (s->start[r] > l->sparse || (r ? s->start[r] < s->start[r - 1] : s->start[r] != 0))
            return pare_fail(cx, PARE_EFORMAT,
                             "%s.sparse_starts: row %zu: %" PRIu32 " does not ascend from 0 to %zu",
                             l->name, r, s->start[r], l->sparse);
    if (s->start[l->n] != l->sparse)
        return pare_fail(cx, PARE_EFORMAT, "%s.sparse_starts: ends at %" PRIu32 " of %zu weights",
                         l->name, s->start[l->n], l->sparse);
    for (size_t r = 0; r < l->n; r++)
        PARE_TRY(check_columns(cx, l, PARE_PLANE_SPARSE_COLUMNS, s->column + s->start[r],
                               s->start[r + 1] - s->start[r]));
    return PARE_OK;
}

/* The small vectors of F32: one value that is not finite would spoil many weights or a row. */
static pare_status check_floats(pare_ctx *cx, const pare_packed_linear *l, void *const *plane)
{
    static const pare_plane looked_at[] = {PARE_PLANE_SCALE_STEPS, PARE_PLANE_SCALE_OFFSET,
                                           PARE_PLANE_BIAS};
    for (size_t p = 0; p < sizeof looked_at / sizeof *looked_at; p++) {
        const float *const x = plane[looked_at[p]];
        pare_tensor t;
        if (!x || !pare_packed_plane_shape(l, looked_at[p], &t))
            continue;
        for (size_t i = 0; i < t.shape[0]; i++)
            if (!isfinite(x[i]))
                return pare_fail(cx, PARE_EFORMAT, "%s.%s: value %zu is %s", l->name,
                                 pare_packed_plane_name(looked_at[p]), i,
                                 isnan(x[i]) ? "NaN" : "infinite");
    }
    return PARE_OK;
}

static pare_status check_salient(pare_ctx *cx, const pare_packed_linear *l, const uint8_t *salient)
{
    const size_t k = pare_round_up(l->k, PARE_ATOM_K);
    for (size_t j = 0; salient && j < k; j++)
        if (salient[j] > (j < l->k))
            return pare_fail(cx, PARE_EFORMAT, "%s.salient: column %zu: %u", l->name, j,
                             (unsigned)salient[j]);
    return PARE_OK;
}

static pare_outliers view_outliers(const pare_packed_linear *l, void *const *plane)
{
    const size_t k = pare_round_up(l->outliers, PARE_ATOM_K);
    pare_outliers o = {.count = l->outliers, .column = plane[PARE_PLANE_OUTLIER_COLUMNS]};
    if (l->outliers && l->outliers_int8)
        o.panel = (pare_panel){.codes = plane[PARE_PLANE_OUTLIER_CODES],
                               .scales = plane[PARE_PLANE_OUTLIER_SCALES],
                               .n = pare_round_up(l->n, PARE_PAD_N),
                               .k = k,
                               .group = k};
    else
        o.f16 = plane[PARE_PLANE_OUTLIER_WEIGHTS];
    return o;
}

static pare_activation view_activation(const pare_packed_linear *l, void *const *plane)
{
    const float *const scale = plane[PARE_PLANE_INPUT_SCALE];
    pare_activation out = {
        .mode = l->activation.mode, .bits = l->activation.bits, .scale = scale ? *scale : 0};
    if (out.bits == 0 && out.mode != PARE_ACTIVATION_FLOAT)
        out.bits = 8;
    return out;
}

pare_status pare_packed_view(pare_ctx *cx, pare_arena *a, const pare_packed_linear *l,
                             void *const plane[PARE_PLANES], pare_linear *out)
{
    const size_t k = pare_round_up(l->k, PARE_ATOM_K);
    *out = (pare_linear){.name = l->name,
                         .n = l->n,
                         .k = l->k,
                         .bits = l->bits,
                         .panel = {.codes = plane[PARE_PLANE_CODES],
                                   .scales = plane[PARE_PLANE_SCALES],
                                   .zeros = l->symmetric ? NULL : plane[PARE_PLANE_ZEROS],
                                   .book = plane[PARE_PLANE_BOOK],
                                   .minima = plane[PARE_PLANE_MINIMA],
                                   .sub = plane[PARE_PLANE_SUB],
                                   .salient = plane[PARE_PLANE_SALIENT],
                                   .n = pare_round_up(l->n, PARE_PAD_N),
                                   .k = k,
                                   .group = l->group ? l->group : k},
                         .encoding = l->encoding,
                         .activation = view_activation(l, plane),
                         .outliers = view_outliers(l, plane),
                         .sparse = {.start = plane[PARE_PLANE_SPARSE_STARTS],
                                    .column = plane[PARE_PLANE_SPARSE_COLUMNS],
                                    .value = plane[PARE_PLANE_SPARSE_VALUES]},
                         .row_scales = plane[PARE_PLANE_ROW_SCALES],
                         .column_scales = plane[PARE_PLANE_COLUMN_SCALES],
                         .rotated = l->rotated,
                         .bias = plane[PARE_PLANE_BIAS]};
    PARE_TRY(check_floats(cx, l, plane));
    PARE_TRY(pare__packed_view_pruned(cx, a, l, plane, out));
    if (pare_encoding_codes_scales(l->encoding))
        PARE_TRY(expand(cx, a, l, plane, &out->panel.scales));
    PARE_TRY(check_salient(cx, l, out->panel.salient));
    PARE_TRY(check_columns(cx, l, PARE_PLANE_OUTLIER_COLUMNS, out->outliers.column, l->outliers));
    return l->sparse ? check_sparse(cx, l, &out->sparse) : PARE_OK;
}
