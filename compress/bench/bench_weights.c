/* Random weights of every kind, as many copies as it takes to come from memory. */
#include <math.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "kernels/layout.h"
#include "runtime/threads.h"
#include "solve/super.h"

enum {
    SPARSE_OF = 222, /* one weight in so many is kept apart, 0.45% */
    FP8_KEEP = 0xbf  /* bits of codes that are below 2 */
};

static size_t group_of(const pare__bench_weights *w)
{
    return w->sub->group ? w->sub->group : w->k;
}

/* Bytes of the planes of one copy. */
static void size_planes(pare__bench_weights *w)
{
    const pare__bench_subject *const s = w->sub;
    const pare_encoding_row *const row = &pare_encodings[s->encoding];
    const size_t count = w->n * w->k, half = sizeof(uint16_t);
    if (!s->bits) {
        w->codes.bytes = count / 8 * pare_dtype_bits(s->dtype);
        w->bytes = w->codes.bytes;
        return;
    }
    const size_t groups = count / group_of(w), single = w->n * (w->k / SPARSE_OF);
    if (pare_encoding_is_float(s->encoding))
        w->kept.bytes = count / 2 * half;
    else
        w->codes.bytes = count / 8 * s->bits / (s->sparsity ? 2 : 1);
    w->indices.bytes = s->sparsity == PARE_SPARSITY_2_4 ? count / 8 : 0;
    w->mask.bytes = s->sparsity == PARE_SPARSITY_BITMASK ? count / 8 : 0;
    if (row->decoding == PARE_DECODE_BOOK)
        w->book.bytes = half * w->n << s->bits;
    if (row->decoding == PARE_DECODE_BINARY)
        w->book.bytes = half * groups * 4;
    w->scales.bytes = row->scales ? half * groups : 0;
    w->minima.bytes = row->minima ? half * groups : 0;
    w->row_scales.bytes = pare_encoding_turns(s->encoding) ? half * w->n : 0;
    w->column_scales.bytes = pare_encoding_turns(s->encoding) ? half * w->k : 0;
    w->super.bytes = pare_encoding_is_super(s->encoding) ? count / 16 : 0;
    w->outliers.bytes = w->n * s->outliers * (s->f16_outliers ? half : 1);
    w->outlier_scales.bytes = s->outliers && !s->f16_outliers ? half * w->n : 0;
    w->column.bytes = s->sparse ? single * sizeof(uint32_t) : 0;
    w->value.bytes = s->sparse ? single * half : 0;
    w->bytes = w->codes.bytes + w->scales.bytes + w->book.bytes + w->outliers.bytes +
               w->outlier_scales.bytes + w->column.bytes + w->value.bytes + w->indices.bytes +
               w->mask.bytes + w->kept.bytes + w->minima.bytes + w->super.bytes +
               w->row_scales.bytes + w->column_scales.bytes;
}

size_t pare__bench_weights_bytes(const pare__bench_subject *sub, size_t n, size_t k)
{
    pare__bench_weights w = {.sub = sub, .n = n, .k = k};
    size_planes(&w);
    return w.bytes;
}

/* Random bits, of which `keep` are kept and `set` are set. */
static pare_status fill(pare_ctx *cx, pare_arena *a, const pare__bench_weights *w,
                        pare__bench_plane *p, uint32_t keep, uint32_t set)
{
    if (p->bytes == 0)
        return PARE_OK;
    p->data = pare_arena_take(a, w->copies, p->bytes);
    if (!p->data)
        return PARE_ENOMEM;
    pare__bench_fill(cx, w->stream, (uint32_t *)(void *)p->data, w->copies * p->bytes / 4, keep,
                     set);
    return PARE_OK;
}

static pare_status fill_all(pare_ctx *cx, pare_arena *a, const pare__bench_weights *w,
                            pare__bench_plane *const *planes, size_t count, uint32_t keep,
                            uint32_t set)
{
    for (size_t i = 0; i < count; i++)
        if (planes[i])
            PARE_TRY(fill(cx, a, w, planes[i], keep, set));
    return PARE_OK;
}

/* Power of two e such that numbers drawn from 2^e .. 2^(e + 1) are about `size`. */
static int power_below(double size)
{
    return (int)floor(log2(size / 1.5));
}

/* Bits of two F16 numbers 2^e; e is kept in the normal range. */
static uint32_t halves_of(int e)
{
    const uint32_t half = (uint32_t)(15 + (e < -14 ? -14 : e)) << 10;
    return half << 16 | half;
}

/* Root of the mean square of what random codes stand for, zeros in between included. */
static double code_size(const pare__bench_subject *s)
{
    if (s->sparsity)
        return (pare_encoding_is_float(s->encoding) ? 1 : (double)(1u << s->bits) / sqrt(12.0)) *
               sqrt(0.5);
    if (pare_encoding_turns(s->encoding))
        return 1;
    const pare_encoding_row *const row = &pare_encodings[s->encoding];
    const unsigned codes = 1u << s->bits, keep = row->decoding == PARE_DECODE_FP8 ? FP8_KEEP : 0xff;
    double sum = 0;
    for (unsigned u = 0; row->level && u < codes; u++) {
        const unsigned code = u > pare_encoding_top(s->encoding, s->bits) ? row->zero : u & keep;
        sum += (double)row->level[code] * (double)row->level[code];
    }
    const double super = pare_encoding_is_super(s->encoding) ? 37 : 1; /* s is below 64 */
    return row->level ? sqrt(sum / codes) : super * codes / sqrt(12.0);
}

static void fix_ternary(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    uint32_t *const words = arg;
    for (size_t i = begin; i < end; i++)
        words[i] &= ~(words[i] << 1 & 0xaaaaaaaau); /* 3, which is no code, becomes 1 */
}

/* Numbers of both signs and about k^-1/2 in every dense format; packed codes are random bits, but
 * no NaN and no code that does not exist. */
static pare_status fill_codes(pare_ctx *cx, pare_arena *a, pare__bench_weights *w)
{
    const int e = power_below(1 / sqrt((double)w->k));
    uint32_t keep = UINT32_MAX, set = 0;
    if (pare_encodings[w->sub->encoding].decoding == PARE_DECODE_FP8)
        keep = FP8_KEEP * 0x01010101u;
    if (!w->sub->bits)
        switch (w->sub->dtype) {
        case PARE_F32: keep = 0x807fffffu, set = (uint32_t)(127 + e) << 23; break;
        case PARE_F16: keep = 0x83ff83ffu, set = halves_of(e); break;
        default: keep = 0x807f807fu, set = (uint32_t)(127 + e) * 0x00800080u; break;
        }
    PARE_TRY(fill(cx, a, w, &w->codes, keep, set));
    if (pare_encodings[w->sub->encoding].codes)
        pare_parallel(cx, w->copies * w->codes.bytes / 4, 65536, fix_ternary, w->codes.data);
    return PARE_OK;
}

/* Columns of outliers and single weights, and what is salient: the same in all copies. */
static pare_status place_extras(pare_arena *a, pare__bench_weights *w)
{
    const size_t single = w->k / SPARSE_OF, outliers = w->sub->outliers;
    const bool binary = pare_encodings[w->sub->encoding].decoding == PARE_DECODE_BINARY;
    w->outlier_column = PARE_NEW(a, uint32_t, outliers);
    w->start = PARE_NEW(a, uint32_t, w->sub->sparse ? w->n + 1 : 0);
    w->salient = pare_arena_take(a, binary ? w->k : 0, 1);
    if (!w->outlier_column || !w->start || !w->salient)
        return PARE_ENOMEM;
    for (size_t c = 0; c < outliers; c++)
        w->outlier_column[c] = (uint32_t)(c * (w->k / outliers));
    for (size_t r = 0; w->sub->sparse && r <= w->n; r++)
        w->start[r] = (uint32_t)(r * single);
    for (size_t j = 0; binary && j < w->k; j += 20)
        w->salient[j] = 1;
    uint32_t *const column = (uint32_t *)(void *)w->column.data;
    for (size_t i = 0; single > 0 && i < w->copies * w->column.bytes / sizeof *column; i++)
        column[i] = (uint32_t)(i % single * SPARSE_OF + column[i] % SPARSE_OF);
    return PARE_OK;
}

/* Pairs of one of the first two columns and one of the last two; of each two columns one. */
static pare_status fill_pruned(pare_ctx *cx, pare_arena *a, pare__bench_weights *w)
{
    PARE_TRY(fill(cx, a, w, &w->indices, 0x55555555u, 0xaa00aa00u));
    PARE_TRY(fill(cx, a, w, &w->mask, 0x55555555u, 0));
    const int e = power_below(1 / (code_size(w->sub) * sqrt((double)w->k)));
    PARE_TRY(fill(cx, a, w, &w->kept, 0x83ff83ffu, halves_of(e)));
    if (w->sub->sparsity != PARE_SPARSITY_BITMASK)
        return PARE_OK;
    w->mask_start = PARE_NEW(a, size_t, w->n + 1);
    if (!w->mask_start)
        return PARE_ENOMEM;
    for (size_t r = 0; r <= w->n; r++)
        w->mask_start[r] = r * w->k / 2;
    uint32_t *const bits = (uint32_t *)(void *)w->mask.data;
    for (size_t i = 0; bits && i < w->copies * w->mask.bytes / sizeof *bits; i++)
        bits[i] |= (~bits[i] & 0x55555555u) << 1;
    return PARE_OK;
}

pare_status pare__bench_weights_make(pare_ctx *cx, pare_arena *a, const pare__bench_subject *sub,
                                     uint64_t stream, size_t n, size_t k, size_t rotate,
                                     pare__bench_weights *out)
{
    pare__bench_weights *const w = out;
    *w = (pare__bench_weights){.sub = sub, .stream = stream, .n = n, .k = k};
    size_planes(w);
    w->copies = rotate / w->bytes + 1;
    PARE_TRY(fill_codes(cx, a, w));
    PARE_TRY(fill_pruned(cx, a, w));
    const pare__bench_plane *const most = w->codes.data ? &w->codes : &w->kept;
    w->data = most->data;
    w->data_bytes = w->copies * most->bytes;
    pare__bench_plane *const halves[] = {&w->book, &w->outlier_scales, &w->value,
                                         sub->f16_outliers ? &w->outliers : NULL};
    pare__bench_plane *const bits[] = {&w->column, sub->f16_outliers ? NULL : &w->outliers};
    const int e = power_below(1 / (code_size(sub) * sqrt((double)k)));
    PARE_TRY(fill(cx, a, w, &w->scales, 0x03ff03ffu, halves_of(e)));
    PARE_TRY(fill(cx, a, w, &w->minima, 0x03ff03ffu, halves_of(e)));
    PARE_TRY(fill(cx, a, w, &w->row_scales, 0x83ff83ffu, halves_of(e)));
    PARE_TRY(fill(cx, a, w, &w->column_scales, 0x80008000u, halves_of(0)));
    PARE_TRY(fill(cx, a, w, &w->super, 0x3f3f3f3fu, 0));
    PARE_TRY(fill_all(cx, a, w, halves, 4, 0x03ff03ffu, 0x20002000u));
    PARE_TRY(fill_all(cx, a, w, bits, 2, UINT32_MAX, 0));
    return place_extras(a, w);
}

static void *plane_at(const pare__bench_plane *p, size_t copy)
{
    return p->data ? p->data + copy * p->bytes : NULL;
}

static pare_outliers outliers_at(const pare__bench_weights *w, size_t copy)
{
    pare_outliers o = {.count = w->sub->outliers, .column = w->outlier_column};
    if (w->sub->f16_outliers)
        o.f16 = plane_at(&w->outliers, copy);
    else
        o.panel = (pare_panel){.codes = plane_at(&w->outliers, copy),
                               .scales = plane_at(&w->outlier_scales, copy),
                               .n = w->n,
                               .k = o.count,
                               .group = o.count};
    return o;
}

pare_linear pare__bench_weights_at(const pare__bench_weights *w, size_t copy)
{
    const pare__bench_subject *const s = w->sub;
    pare_linear out = {.name = s->name, .n = w->n, .k = w->k, .dtype = s->dtype};
    out.data = plane_at(&w->codes, copy);
    if (!s->bits)
        return out;
    out.bits = s->bits;
    out.encoding = s->encoding;
    out.activation = s->activation;
    if (out.activation.mode != PARE_ACTIVATION_FLOAT && !out.activation.bits)
        out.activation.bits = 8;
    out.panel = (pare_panel){.codes = plane_at(&w->codes, copy),
                             .scales = plane_at(&w->scales, copy),
                             .book = plane_at(&w->book, copy),
                             .minima = plane_at(&w->minima, copy),
                             .sub = plane_at(&w->super, copy),
                             .n = w->n,
                             .k = w->k,
                             .group = group_of(w),
                             .indices = plane_at(&w->indices, copy),
                             .values = plane_at(&w->kept, copy),
                             .ldv = w->k / 2};
    out.row_scales = plane_at(&w->row_scales, copy);
    out.column_scales = plane_at(&w->column_scales, copy);
    out.sparsity = s->sparsity;
    out.mask = (pare_mask){plane_at(&w->mask, copy), w->mask_start, out.panel.values, w->n, w->k};
    if (pare_encodings[s->encoding].decoding == PARE_DECODE_BINARY)
        out.panel.salient = w->salient;
    if (s->outliers)
        out.outliers = outliers_at(w, copy);
    if (s->sparse)
        out.sparse = (pare_sparse){w->start, plane_at(&w->column, copy), plane_at(&w->value, copy)};
    return out;
}
