/* Packed weights as F32: each encoding has a kernel that decodes a panel; what lies apart from the
 * codes is put into its place afterwards. */
#include <assert.h>
#include <string.h>

#include "kernels/half.h"
#include "kernels/layout.h"
#include "runtime/linear.h"
#include "runtime/linear_exl3.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum {
    ATOM_24 = 64 /* columns of an atom of 2:4 weights */,
    ATOM_INDICES = 64,
    SUB_BYTES = 2 * PARE_ATOM_N /* of an atom of super-blocks */
};

static size_t groups_of(const pare_panel *p)
{
    return (p->k + p->group - 1) / p->group;
}

/* Values of a codebook plane that belong to `count` groups of a row block. */
static size_t magnitudes(size_t count)
{
    return count * PARE_ATOM_N * 4;
}

pare_panel pare__panel_rows(const pare_linear *w, size_t first, size_t count)
{
    pare_panel p = w->panel;
    const pare_decoding how = pare_encodings[w->encoding].decoding;
    const size_t block = first / PARE_ATOM_N, planes = block * groups_of(&p);
    const size_t atoms = p.indices ? pare_24_kept(p.k) / PARE_ATOM_K : p.k / PARE_ATOM_K;
    if (p.codes)
        p.codes += block * atoms * pare_atom_bytes(w->bits);
    if (p.indices)
        p.indices += block * atoms * ATOM_INDICES;
    if (p.values)
        p.values += first * p.ldv;
    if (p.scales)
        p.scales += planes * PARE_ATOM_N;
    if (p.zeros)
        p.zeros += planes * PARE_ATOM_N;
    if (p.minima)
        p.minima += planes * PARE_ATOM_N;
    if (p.sub)
        p.sub += block * atoms * SUB_BYTES;
    if (how == PARE_DECODE_BOOK)
        p.book += first << w->bits;
    if (how == PARE_DECODE_BINARY)
        p.book += magnitudes(planes);
    p.n = pare_round_up(count, PARE_ATOM_N);
    return p;
}

pare_panel pare__outlier_rows(const pare_outliers *o, size_t first, size_t count)
{
    pare_panel p = o->panel;
    const size_t block = first / PARE_ATOM_N;
    p.codes += block * (p.k / PARE_ATOM_K) * pare_atom_bytes(8);
    p.scales += block * groups_of(&p) * PARE_ATOM_N;
    p.n = pare_round_up(count, PARE_ATOM_N);
    return p;
}

/* The 32 columns from k on. */
static pare_panel panel_columns(const pare_linear *w, const pare_panel *all, size_t k)
{
    pare_panel p = *all;
    const size_t g = k / all->group;
    assert(all->n == PARE_ATOM_N);
    p.codes += k / PARE_ATOM_K * pare_atom_bytes(w->bits);
    if (p.scales)
        p.scales += g * PARE_ATOM_N;
    if (p.zeros)
        p.zeros += g * PARE_ATOM_N;
    if (p.minima)
        p.minima += g * PARE_ATOM_N;
    if (p.sub)
        p.sub += k / PARE_ATOM_K * SUB_BYTES;
    if (pare_encodings[w->encoding].decoding == PARE_DECODE_BINARY)
        p.book += magnitudes(g);
    if (p.salient)
        p.salient += k;
    p.k = PARE_ATOM_K;
    p.group = pare_smaller(all->group, PARE_ATOM_K);
    return p;
}

static void decode(const pare_kernels *kernels, const pare_linear *w, const pare_panel *p,
                   float *dst, size_t ldd)
{
    const pare_encoding_row *const how = &pare_encodings[w->encoding];
    if (w->sparsity == PARE_SPARSITY_2_4) {
        kernels->dequant_24(dst, ldd, p, w->bits);
        return;
    }
    switch (how->decoding) {
    case PARE_DECODE_F32: kernels->dequant_f32(dst, ldd, p, w->bits); break;
    case PARE_DECODE_TABLE: kernels->dequant_table(dst, ldd, p, w->bits, how->level); break;
    case PARE_DECODE_FP8: kernels->dequant_fp8(dst, ldd, p); break;
    case PARE_DECODE_BOOK: kernels->dequant_book(dst, ldd, p, w->bits); break;
    case PARE_DECODE_BINARY: kernels->dequant_binary(dst, ldd, p); break;
    case PARE_DECODE_SUPER: kernels->dequant_super(dst, ldd, p, w->bits); break;
    case PARE_DECODE_EXL3: kernels->dequant_exl3(dst, ldd, p, w->bits); break;
    }
}

/* Columns of int8 outliers of up to 8 rows, 32 of them at a time. */
static void place_int8(const pare_kernels *kernels, const pare_outliers *o, size_t r0, size_t rows,
                       float *dst, size_t ldd)
{
    const pare_panel all = pare__outlier_rows(o, r0, rows);
    const pare_linear like = {.bits = 8};
    for (size_t c0 = 0; c0 < o->count; c0 += PARE_ATOM_K) {
        const pare_panel p = panel_columns(&like, &all, c0);
        float value[PARE_ATOM_N * PARE_ATOM_K];
        kernels->dequant_f32(value, PARE_ATOM_K, &p, 8);
        for (size_t r = 0; r < rows; r++)
            for (size_t c = c0; c < o->count && c < c0 + PARE_ATOM_K; c++)
                dst[r * ldd + o->column[c]] = value[r * PARE_ATOM_K + c - c0];
    }
}

/* Outliers take the places of what the codes stand for; single weights are added. Up to 8 rows. */
static void place_extras(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                         float *dst, size_t ldd)
{
    const pare_outliers *const o = &w->outliers;
    const pare_sparse *const s = &w->sparse;
    if (o->count && !o->f16)
        place_int8(kernels, o, r0, rows, dst, ldd);
    for (size_t r = 0; r < rows; r++) {
        float *const row = dst + r * ldd;
        for (size_t c = 0; o->f16 && c < o->count; c++)
            row[o->column[c]] = pare_f16_to_f32(o->f16[(r0 + r) * o->count + c]);
        for (size_t i = s->start ? s->start[r0 + r] : 0; s->start && i < s->start[r0 + r + 1]; i++)
            row[s->column[i]] += pare_f16_to_f32(s->value[i]);
    }
}

pare_mask pare__mask_rows(const pare_linear *w, size_t r0, size_t rows)
{
    pare_mask m = w->mask;
    m.bits += r0 * ((m.k + 7) / 8);
    m.start += r0;
    m.n = rows;
    return m;
}

static void decode_mask(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                        float *dst, size_t ldd)
{
    const pare_mask m = pare__mask_rows(w, r0, rows);
    kernels->dequant_mask(dst, ldd, &m);
}

bool pare__linear_fuses(unsigned cpu, const pare_linear *w)
{
    if (w->sparsity)
        return pare_encoding_is_float(w->encoding) && (cpu & PARE_CPU_AVX512);
    return !w->outliers.count && !w->sparse.start && !pare__linear_turns(w);
}

void pare__linear_gemv(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                       const float *x, float *y)
{
    if (w->sparsity == PARE_SPARSITY_BITMASK) {
        const pare_mask m = pare__mask_rows(w, r0, rows);
        kernels->gemv_mask(y, x, &m);
        return;
    }
    const pare_panel p = pare__panel_rows(w, r0, rows);
    if (w->sparsity) {
        kernels->gemv_24(y, x, w->k, &p);
        return;
    }
    const pare_encoding_row *const how = &pare_encodings[w->encoding];
    kernels->gemv_packed(y, x, w->k, &p, how->decoding, w->bits, how->level);
}

void pare__linear_decode(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                         float *dst)
{
    if (w->sparsity == PARE_SPARSITY_BITMASK) {
        decode_mask(kernels, w, r0, rows, dst, w->panel.k);
        return;
    }
    if (pare__linear_turns(w)) {
        pare__exl3_rows(kernels, w, r0, rows, dst, w->panel.k);
        return;
    }
    const pare_panel p = pare__panel_rows(w, r0, rows);
    decode(kernels, w, &p, dst, p.k);
    for (size_t r = 0; r < rows; r += PARE_ATOM_N)
        place_extras(kernels, w, r0 + r, rows - r < PARE_ATOM_N ? rows - r : PARE_ATOM_N,
                     dst + r * p.k, p.k);
}

/* Arguments of the loop over blocks of 8 rows. */
typedef struct unpack_call {
    const pare_kernels *kernels;
    const pare_linear *w;
    float *dst;
} unpack_call;

/* 64 columns at a time, for the same reason; the scales of both halves are given on their own. */
static void unpack_24(const unpack_call *c, size_t r0, size_t rows)
{
    const pare_linear *const w = c->w;
    const pare_panel all = pare__panel_rows(w, r0, rows);
    for (size_t k = 0; k < w->k; k += ATOM_24) {
        const size_t columns = w->k - k < ATOM_24 ? w->k - k : ATOM_24;
        uint16_t scale[2][PARE_ATOM_N] = {{0}};
        float value[PARE_ATOM_N * ATOM_24];
        pare_panel p = all;
        p.k = all.k - k < ATOM_24 ? all.k - k : ATOM_24;
        for (size_t h = 0; all.scales && h < p.k / PARE_ATOM_K; h++)
            memcpy(scale[h], all.scales + (k + h * PARE_ATOM_K) / all.group * PARE_ATOM_N,
                   sizeof scale[h]);
        p.scales = scale[0];
        p.group = PARE_ATOM_K;
        if (p.codes)
            p.codes += k / ATOM_24 * pare_atom_bytes(w->bits);
        p.indices += k / ATOM_24 * ATOM_INDICES;
        if (p.values)
            p.values += k / 2;
        decode(c->kernels, w, &p, value, ATOM_24);
        for (size_t r = 0; r < rows; r++)
            memcpy(c->dst + (r0 + r) * w->k + k, value + r * ATOM_24, columns * sizeof *value);
    }
}

void pare__dense_f32(const pare_kernels *kernels, const pare_linear *w, size_t first, size_t count,
                     float *x)
{
    if (w->dtype == PARE_F16)
        kernels->cvt_f16_f32(x, (const uint16_t *)w->data + first, count);
    else if (w->dtype == PARE_BF16)
        kernels->cvt_bf16_f32(x, (const uint16_t *)w->data + first, count);
    else
        memcpy(x, (const float *)w->data + first, count * sizeof *x);
}

bool pare_linear_has_rows(const pare_linear *w)
{
    return !w->bits || !(w->sparsity || w->outliers.count || w->sparse.start || w->rotated ||
                         pare__linear_turns(w));
}

void pare_linear_row(const pare_ctx *cx, const pare_linear *w, size_t row, float *dst)
{
    if (!w->bits) {
        pare__dense_f32(&cx->kernels, w, row * w->k, w->k, dst);
        return;
    }
    const size_t first = row / PARE_ATOM_N * PARE_ATOM_N;
    const pare_panel all = pare__panel_rows(w, first, 1);
    for (size_t k = 0; k < w->k; k += PARE_ATOM_K) {
        const pare_panel p = panel_columns(w, &all, k);
        const size_t columns = w->k - k < PARE_ATOM_K ? w->k - k : PARE_ATOM_K;
        float value[PARE_ATOM_N * PARE_ATOM_K];
        decode(&cx->kernels, w, &p, value, PARE_ATOM_K);
        memcpy(dst + k, value + (row - first) * PARE_ATOM_K, columns * sizeof *value);
    }
}

/* Atom by atom: the one way that also fits where rows or columns are cut. */
static void unpack_packed(const unpack_call *c, size_t r0, size_t rows)
{
    const pare_linear *const w = c->w;
    const pare_panel all = pare__panel_rows(w, r0, rows);
    float *const dst = c->dst + r0 * w->k;
    for (size_t k = 0; k < w->k; k += PARE_ATOM_K) {
        const pare_panel p = panel_columns(w, &all, k);
        const size_t columns = w->k - k < PARE_ATOM_K ? w->k - k : PARE_ATOM_K;
        float value[PARE_ATOM_N * PARE_ATOM_K];
        decode(c->kernels, w, &p, value, PARE_ATOM_K);
        for (size_t r = 0; r < rows; r++)
            memcpy(dst + r * w->k + k, value + r * PARE_ATOM_K, columns * sizeof *value);
    }
    place_extras(c->kernels, w, r0, rows, dst, w->k);
}

static void unpack_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    const unpack_call *const c = arg;
    const pare_linear *const w = c->w;
    for (size_t i = begin; i < end; i++) {
        const size_t r0 = i * PARE_ATOM_N;
        const size_t rows = w->n - r0 < PARE_ATOM_N ? w->n - r0 : PARE_ATOM_N;
        const size_t first = r0 * w->k, count = rows * w->k;
        if (w->sparsity == PARE_SPARSITY_BITMASK)
            decode_mask(c->kernels, w, r0, rows, c->dst + first, w->k);
        else if (w->sparsity)
            unpack_24(c, r0, rows);
        else if (w->bits)
            unpack_packed(c, r0, rows);
        else
            pare__dense_f32(c->kernels, w, first, count, c->dst + first);
    }
}

static void turn_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const unpack_call *const c = arg;
    (void)worker;
    const size_t k = c->w->k;
    for (size_t i = begin; i < end; i++) {
        const size_t r0 = i * PARE__EXL3_ROWS;
        pare__exl3_rows(c->kernels, c->w, r0, pare_smaller(c->w->n - r0, PARE__EXL3_ROWS),
                        c->dst + r0 * k, k);
    }
}

void pare_linear_to_f32(pare_ctx *cx, const pare_linear *w, float *dst)
{
    unpack_call c = {&cx->kernels, w, dst};
    if (pare__linear_turns(w)) {
        pare_parallel(cx, (w->n + PARE__EXL3_ROWS - 1) / PARE__EXL3_ROWS, 1, turn_rows, &c);
        return;
    }
    pare_parallel(cx, (w->n + PARE_ATOM_N - 1) / PARE_ATOM_N, pare__chunk(PARE_ATOM_N * w->k),
                  unpack_rows, &c);
}
