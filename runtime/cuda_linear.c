/* Products on a device, in the steps of linear.c: what is packed meets quantized inputs, or floats:
 * few tokens in one kernel, more after it was decoded in panels of so many rows that all processors
 * of the device have some. Trellis codes meet inputs in their basis (linear_exl3.h). */
#include <math.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/exl3.h"
#include "kernels/layout.h"
#include "runtime/cuda_internal.h"
#include "runtime/linear.h"
#include "runtime/linear_exl3.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"

typedef struct job {
    pare_cuda *c;
    const pare_linear *host;
    pare_linear codes; /* where inputs and outputs turn, of `there`: the host's without that */
    pare__cuda_linear there;
    pare_array x, y;
    pare_x8 x8;         /* codes NULL: not quantized */
    pare__cuda_f16 f16; /* at NULL: not rounded */
    size_t mates;       /* jobs behind it whose integer products run in the same kernel */
    bool multiplied;    /* with those of a job before */
} job;

static pare_status multiply(const job *j, const float *x, size_t ldx, const void *w, size_t ldw,
                            pare_dtype type, float *y, size_t n, size_t k, bool add)
{
    const size_t m = j->x.rows, ldy = j->y.width;
#define PRODUCT(name)                                                                              \
    PARE__CUDA_RUN(j->c, name, .x = x, .w = w, .y = y, .ldx = ldx, .ldw = ldw, .ldy = ldy, .m = m, \
                   .n = n, .k = k, .add = add)
    if (type == PARE_F16)
        PRODUCT(gemm_f32_f16);
    else if (type == PARE_BF16)
        PRODUCT(gemm_f32_bf16);
    else
        PRODUCT(gemm_f32_f32);
#undef PRODUCT
    return PARE_OK;
}

/* Integer products of 8-bit inputs. */
#define INTEGER_OF(name, x8, panel, adds, ...)                                                     \
    PARE__CUDA_RUN(c, name, .x = x8, .w = panel, .y = j->y.at, .ldy = j->y.width, .n = j->host->n, \
                   .add = adds, .mate = {__VA_ARGS__})
#define INTEGER(name)                                                                              \
    do {                                                                                           \
        if (pare_cuda_x8_many(j->x8.m, j->host->n))                                                \
            INTEGER_OF(gemm_x8_many_##name, j->x8, w->panel, 0, {.n = 0});                         \
        else                                                                                       \
            INTEGER_OF(gemm_x8_##name, j->x8, w->panel, 0, mate_of(j, 1), mate_of(j, 2));          \
    } while (0)

/* Job i behind j, where it is one of the mates of j. */
static pare_cuda_mate mate_of(const job *j, size_t i)
{
    if (i > j->mates)
        return (pare_cuda_mate){.n = 0};
    return (pare_cuda_mate){
        .w = j[i].there.w.panel, .y = j[i].y.at, .ldy = j[i].y.width, .n = j[i].host->n};
}

static pare_status multiply_codes(const job *j)
{
    pare_cuda *const c = j->c;
    const pare_linear *const w = &j->there.w;
    const bool four = w->bits == 4;
    if (pare_encodings[w->encoding].decoding == PARE_DECODE_TABLE)
        INTEGER(t2);
    else if (w->sparsity && four)
        INTEGER(s4);
    else if (w->sparsity)
        INTEGER(s8);
    else if (w->bits == 2)
        INTEGER(q2);
    else if (w->bits == 3)
        INTEGER(q3);
    else if (four)
        INTEGER(q4);
    else
        INTEGER(q8);
    return PARE_OK;
}

/* Room for m rows of k codes with their scales and sums. */
static pare_status take_planes(pare_cuda *c, size_t m, size_t k, size_t group, pare_x8 *x)
{
    const size_t groups = (k + group - 1) / group;
    void *codes, *scales, *sums;
    PARE_TRY(pare__cuda_scratch_take(c, m * k, &codes));
    PARE_TRY(pare__cuda_scratch_take(c, m * groups * sizeof *x->scales, &scales));
    PARE_TRY(pare__cuda_scratch_take(c, m * groups * sizeof *x->sums, &sums));
    *x = (pare_x8){codes, scales, sums, m, k, group};
    return PARE_OK;
}

static pare_status quantize(pare_cuda *c, const float *x, size_t ldx, size_t k, const uint8_t *skip,
                            size_t span, float fixed, int32_t top, const pare_x8 *to)
{
    PARE__CUDA_RUN(c, quant_x8, .x = x, .skip = skip, .codes = (int8_t *)(uintptr_t)to->codes,
                   .scales = (float *)(uintptr_t)to->scales, .sums = (int32_t *)(uintptr_t)to->sums,
                   .ldx = ldx, .m = to->m, .k = k, .group = to->group, .span = span, .fixed = fixed,
                   .top = top);
    return PARE_OK;
}

static pare_status quantize_inputs(job *j)
{
    const pare_activation *const a = &j->host->activation;
    const size_t group = pare__x8_group_of(j->host), k = j->host->panel.k;
    PARE_TRY(take_planes(j->c, j->x.rows, k, group, &j->x8));
    return quantize(j->c, j->x.at, j->x.width, j->host->k, j->there.skip,
                    a->mode == PARE_ACTIVATION_GROUP ? group : k,
                    a->mode == PARE_ACTIVATION_TENSOR ? a->scale : 0, a->bits == 4 ? 7 : 127,
                    &j->x8);
}

/* y += outlier columns times their x. */
static pare_status add_outliers(const job *j)
{
    pare_cuda *const c = j->c;
    const pare_outliers *const o = &j->there.w.outliers;
    const size_t wide = o->panel.k;
    void *gathered;
    pare_x8 x8;
    PARE_TRY(pare__cuda_scratch_take(c, j->x.rows * o->count * sizeof(float), &gathered));
    PARE__CUDA_RUN(c, columns, .x = j->x.at, .column = o->column, .y = gathered, .ldx = j->x.width,
                   .rows = j->x.rows, .count = o->count);
    if (o->f16)
        return multiply(j, gathered, o->count, o->f16, o->count, PARE_F16, j->y.at, j->host->n,
                        o->count, true);
    PARE_TRY(take_planes(c, j->x.rows, wide, wide <= PARE_X8_GROUP_MAX ? wide : pare_x8_group(wide),
                         &x8));
    PARE_TRY(quantize(c, gathered, o->count, o->count, NULL, wide, 0, 127, &x8));
    if (pare_cuda_x8_many(x8.m, j->host->n))
        INTEGER_OF(gemm_x8_many_q8, x8, o->panel, 1, {.n = 0});
    else
        INTEGER_OF(gemm_x8_q8, x8, o->panel, 1, {.n = 0});
    return PARE_OK;
}

static pare_status run_packed(const job *j)
{
    const pare_sparse *const s = &j->there.w.sparse;
    if (!j->multiplied)
        PARE_TRY(multiply_codes(j));
    if (j->host->outliers.count)
        PARE_TRY(add_outliers(j));
    if (s->start)
        PARE__CUDA_RUN(j->c, gemm_sparse_f32, .x = j->x.at, .start = s->start, .column = s->column,
                       .value = s->value, .y = j->y.at, .ldx = j->x.width, .ldy = j->y.width,
                       .m = j->x.rows, .n = j->host->n);
    return PARE_OK;
}

#define DECODE(name, table)                                                                        \
    PARE__CUDA_RUN(c, name, .dst = dst, .ldd = p.k, .w = p, .level = table, .bits = w->bits)

/* Whole tiles. */
static pare_panel panel_rows(const pare_linear *w, size_t r0, size_t rows)
{
    pare_panel p = pare__panel_rows(w, r0, rows);
    if (pare_encoding_turns(w->encoding))
        p.n = pare_round_up(p.n, PARE_EXL3_TILE);
    return p;
}

static pare_status decode_codes(const job *j, size_t r0, size_t rows, float *dst)
{
    pare_cuda *const c = j->c;
    const pare_linear *const w = &j->there.w;
    const pare_panel p = panel_rows(w, r0, rows);
    if (w->sparsity) {
        DECODE(dequant_24, NULL);
        return PARE_OK;
    }
    switch (pare_encodings[w->encoding].decoding) {
    case PARE_DECODE_F32: DECODE(dequant_f32, NULL); break;
    case PARE_DECODE_TABLE:
    case PARE_DECODE_FP8: DECODE(dequant_table, j->there.level); break;
    case PARE_DECODE_BOOK: DECODE(dequant_book, NULL); break;
    case PARE_DECODE_BINARY: DECODE(dequant_binary, NULL); break;
    case PARE_DECODE_SUPER: DECODE(dequant_super, NULL); break;
    case PARE_DECODE_EXL3: DECODE(dequant_exl3, NULL); break;
    }
    return PARE_OK;
}

/* In spans of a row of `width` values: rows of y = scales times what is mixed of x times scales. */
static pare_status mix(pare_cuda *c, const float *x, size_t ldx, const uint16_t *before,
                       const uint16_t *after, float *y, size_t ldy, size_t rows, size_t width)
{
    const size_t span = pare_exl3_span(width);
    PARE__CUDA_RUN(c, exl3_rows, .x = x, .before = before, .after = after, .y = y, .ldx = ldx,
                   .ldy = ldy, .rows = rows, .width = width, .span = (uint32_t)span,
                   .scale = 1 / sqrtf((float)span));
    return PARE_OK;
}

/* Decoded values become weights, as pare__exl3_rows has them. */
static pare_status turn_rows(const job *j, size_t r0, size_t rows, float *dst)
{
    const pare_linear *const w = &j->there.w;
    const size_t ldd = w->panel.k, span = pare_exl3_span(w->n);
    PARE_TRY(mix(j->c, dst, ldd, NULL, NULL, dst, ldd, rows, w->k));
    PARE__CUDA_RUN(j->c, exl3_columns, .x = dst, .row = w->row_scales + r0,
                   .column = w->column_scales, .ldx = ldd, .rows = rows, .width = w->k,
                   .span = (uint32_t)span, .scale = 1 / sqrtf((float)span));
    return PARE_OK;
}

/* What lies apart takes its places. */
static pare_status place_extras(const job *j, size_t r0, size_t rows, float *dst)
{
    const pare_outliers *const o = &j->there.w.outliers;
    const pare_sparse *const s = &j->there.w.sparse;
    const size_t ldd = j->host->panel.k;
    if (o->count && o->f16)
        PARE__CUDA_RUN(j->c, outliers_f16, .dst = dst, .column = o->column,
                       .value = o->f16 + r0 * o->count, .ldd = ldd, .rows = rows,
                       .count = o->count);
    else if (o->count)
        PARE__CUDA_RUN(j->c, outliers_q8, .dst = dst, .column = o->column,
                       .w = pare__outlier_rows(o, r0, rows), .ldd = ldd, .rows = rows,
                       .count = o->count);
    if (s->start)
        PARE__CUDA_RUN(j->c, singles, .dst = dst, .start = s->start + r0, .column = s->column,
                       .value = s->value, .ldd = ldd, .rows = rows);
    return PARE_OK;
}

static pare_status decode_rows(const job *j, size_t r0, size_t rows, float *dst)
{
    const pare_linear *const w = &j->there.w;
    if (w->sparsity == PARE_SPARSITY_BITMASK) {
        PARE__CUDA_RUN(j->c, dequant_mask, .dst = dst, .ldd = w->panel.k,
                       .w = pare__mask_rows(w, r0, rows));
        return PARE_OK;
    }
    PARE_TRY(decode_codes(j, r0, rows, dst));
    if (pare__linear_turns(j->host))
        return turn_rows(j, r0, rows, dst);
    return place_extras(j, r0, rows, dst);
}

/* Whether what codes stand for is F16, and wanted as that. */
static bool are_halves(const job *j)
{
    return j->f16.at && pare_encoding_turns(j->host->encoding) && !pare__linear_turns(j->host);
}

/* Rows r0 .. r0 + rows - 1, decoded, become rows of `to` from the first one on. */
static pare_status round_rows(const job *j, size_t r0, size_t rows, size_t step, void *panel,
                              const pare__cuda_f16 *to)
{
    if (are_halves(j)) {
        const pare_panel p = panel_rows(&j->there.w, r0, rows);
        PARE__CUDA_RUN(j->c, dequant_exl3_f16, .dst = (uint16_t *)(uintptr_t)to->at, .ldd = to->ld,
                       .w = p, .bits = j->host->bits);
        return PARE_OK;
    }
    for (size_t r = 0; r < rows; r += step) {
        const size_t some = pare_smaller(step, rows - r);
        PARE_TRY(decode_rows(j, r0 + r, some, panel));
        PARE_TRY(
            pare__cuda_f16_put(j->c, panel, j->host->panel.k, PARE_F32, some, j->host->k, to, r));
    }
    return PARE_OK;
}

/* Rows of a panel, as many times as they fit: those of an atom, or those that are mixed. */
static size_t least_rows(const pare_linear *w)
{
    return pare_encoding_turns(w->encoding) ? PARE__EXL3_ROWS : PARE_ATOM_N;
}

/* Where weights are decoded: rows of a panel, and of what is rounded to F16 together. */
typedef struct panels {
    size_t step, some;
    void *panel;
    pare__cuda_f16 rounded;
} panels;

static pare_status take_panels(const job *j, panels *p)
{
    const size_t n = j->host->n, k = j->host->k, ldw = j->host->panel.k;
    const size_t least = least_rows(j->host);
    const size_t fit = j->c->panel_bytes / (ldw * sizeof(float)) / least * least;
    p->step = pare_smaller(fit ? fit : least, pare_round_up(n, least));
    p->some = j->f16.at ? pare__cuda_rounded_rows(j->c, n, k, least) : p->step;
    if (!are_halves(j))
        PARE_TRY(pare__cuda_scratch_take(j->c, p->step * ldw * sizeof(float), &p->panel));
    if (j->f16.at)
        PARE_TRY(pare__cuda_f16_take(j->c, p->some, k, &p->rounded));
    if (are_halves(j))
        p->rounded.scale = NULL;
    return PARE_OK;
}

/* Decoded in panels of whole row blocks, which meet the inputs as they are, or in F16, together. */
static pare_status run_decoded(const job *j)
{
    const size_t n = j->host->n, k = j->host->k, ldw = j->host->panel.k;
    const pare__cuda_scratch before = j->c->scratch;
    panels p;
    pare_status s;
    do
        s = take_panels(j, &p);
    while (s == PARE_ENOMEM && pare__cuda_smaller_panels(j->c, &before));
    PARE_TRY(s);
    for (size_t r = 0; r < n; r += p.some) {
        const size_t rows = pare_smaller(p.some, n - r);
        float *const y = j->y.at + r;
        if (j->f16.at) {
            PARE_TRY(round_rows(j, r, rows, p.step, p.panel, &p.rounded));
            PARE_TRY(pare__cuda_multiply_rounded(j->c, &j->f16, j->x.rows, &p.rounded, rows, k, y,
                                                 j->y.width));
            continue;
        }
        PARE_TRY(decode_rows(j, r, rows, p.panel));
        PARE_TRY(multiply(j, j->x.at, j->x.width, p.panel, ldw, PARE_F32, y, rows, k, false));
    }
    return PARE_OK;
}

/* Few tokens whose inputs stay floats, and weights that are codes alone. */
static bool takes_codes(const job *j)
{
    return j->host->bits && !j->f16.at && j->x.rows <= PARE_CUDA_TOKENS &&
           pare__linear_fuses(0, j->host);
}

/* The codes are read once and decoded in registers. */
static pare_status run_codes(const job *j)
{
    const pare_linear *const w = &j->there.w;
    const pare_panel p = panel_rows(w, 0, j->host->n);
#define CODES(name, table)                                                                         \
    PARE__CUDA_RUN(j->c, name, .x = j->x.at, .y = j->y.at, .w = p, .level = table,                 \
                   .ldx = j->x.width, .ldy = j->y.width, .m = j->x.rows, .n = j->host->n,          \
                   .k = j->host->k, .bits = w->bits)
    switch (pare_encodings[w->encoding].decoding) {
    case PARE_DECODE_F32: CODES(gemm_f32_uniform, NULL); break;
    case PARE_DECODE_TABLE:
    case PARE_DECODE_FP8: CODES(gemm_f32_table, j->there.level); break;
    case PARE_DECODE_BOOK: CODES(gemm_f32_book, NULL); break;
    case PARE_DECODE_BINARY: CODES(gemm_f32_binary, NULL); break;
    case PARE_DECODE_SUPER: CODES(gemm_f32_super, NULL); break;
    case PARE_DECODE_EXL3: CODES(gemm_f32_exl3, NULL); break;
    }
#undef CODES
    return PARE_OK;
}

/* Whether it needs quantized inputs. */
static bool is_integer(const pare_linear *w, bool exact)
{
    return w->bits && !exact && w->activation.mode != PARE_ACTIVATION_FLOAT;
}

static pare_status run(const job *j, bool exact)
{
    const pare_linear *const w = &j->there.w;
    pare__cuda_scratch *const s = &j->c->scratch;
    const size_t current = s->current, used = s->used;
    if (is_integer(w, exact))
        PARE_TRY(run_packed(j));
    else if (takes_codes(j))
        PARE_TRY(run_codes(j));
    else if (w->bits && j->f16.at && pare__cuda_f16_fused(j->host, j->x.rows))
        PARE_TRY(pare__cuda_multiply_packed_f16(j->c, &j->f16, j->x.rows, w, j->y.at, j->y.width));
    else if (w->bits)
        PARE_TRY(run_decoded(j));
    else if (j->f16.at)
        PARE_TRY(pare__cuda_multiply_f16(j->c, &j->f16, j->x.rows, w->data, w->k, w->dtype, w->n,
                                         w->k, j->y.at, j->y.width));
    else
        PARE_TRY(
            multiply(j, j->x.at, j->x.width, w->data, w->k, w->dtype, j->y.at, w->n, w->k, false));
    if (j->host == &j->codes)
        PARE_TRY(mix(j->c, j->y.at, j->y.width, NULL, w->row_scales, j->y.at, j->y.width, j->y.rows,
                     w->n));
    if (w->bias)
        PARE__CUDA_RUN(j->c, bias, .y = j->y.at, .bias = w->bias, .rows = j->y.rows,
                       .width = j->y.width);
    s->current = current;
    s->used = used;
    return PARE_OK;
}

/* The product of the codes alone, with inputs in their basis. */
static pare_status turn_inputs(job *j)
{
    const pare_linear *const w = &j->there.w;
    const pare_array x = j->x;
    void *to;
    PARE_TRY(pare__cuda_scratch_take(j->c, x.rows * w->k * sizeof *x.at, &to));
    PARE_TRY(mix(j->c, x.at, x.width, w->column_scales, NULL, to, w->k, x.rows, w->k));
    j->x = (pare_array){.at = to, .rows = x.rows, .width = w->k};
    j->codes = *j->host;
    j->codes.row_scales = j->codes.column_scales = NULL;
    j->host = &j->codes;
    return PARE_OK;
}

/* Inputs in the form that the product needs, unless one of the jobs before has them. */
static pare_status make_inputs(const job *before, job *j, bool exact)
{
    const bool integer = is_integer(j->host, exact);
    for (const job *k = before; k < j; k++) {
        if (integer && k->x8.codes && pare__same_x8(k->host, j->host))
            j->x8 = k->x8;
        if (!integer && k->f16.at && k->x.at == j->x.at)
            j->f16 = k->f16;
    }
    if (integer)
        return j->x8.codes ? PARE_OK : quantize_inputs(j);
    if (!j->c->f16 || j->f16.at)
        return PARE_OK;
    return pare__cuda_to_f16(j->c, j->x.at, j->x.width, PARE_F32, j->x.rows, j->host->k, &j->f16);
}

/* Whether products of few tokens run in one kernel: of the same inputs, by the same kind of codes.
 */
static bool run_together(const job *a, const job *b)
{
    const pare_linear *const w = a->host, *const v = b->host;
    return a->x8.codes && a->x8.codes == b->x8.codes && a->x8.m <= PARE_CUDA_X8_FEW &&
           w->bits == v->bits && w->encoding == v->encoding && w->sparsity == v->sparsity;
}

static pare_status run_all(pare_cuda *c, const pare_linear *const *w, size_t count, bool exact,
                           pare_array x, const pare_array *y)
{
    job jobs[PARE__LINEARS_MAX];
    for (size_t i = 0; i < count; i++) {
        job *const j = &jobs[i];
        *j = (job){.c = c, .host = w[i], .x = x, .y = y[i]};
        PARE_TRY(pare__cuda_linear_of(c, w[i], &j->there));
        if (pare__linear_turns(w[i]) && !exact)
            PARE_TRY(turn_inputs(j));
        PARE_TRY(make_inputs(jobs, j, exact));
    }
    for (size_t i = 0; i < count; i++) {
        job *const j = &jobs[i];
        while (!j->multiplied && j->mates < 2 && i + j->mates + 1 < count &&
               run_together(j, j + j->mates + 1))
            j[++j->mates].multiplied = true;
        PARE_TRY(run(j, exact));
    }
    return PARE_OK;
}

pare_status pare__cuda_linears(const pare_ops *o, const pare_linear *const *w, size_t count,
                               bool exact, pare_array x, const pare_array *y)
{
    pare_mark mark;
    PARE_TRY(o->op->mark(o, &mark));
    const pare_status s = run_all(pare__cuda_of(o), w, count, exact, x, y);
    PARE_TRY(o->op->rewind(o, mark));
    return s;
}
