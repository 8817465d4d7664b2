/* Products of floats on tensor cores: both sides become F16, each row with a power of two of its
 * own, unless the weights are F16 already. */
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "runtime/cuda_internal.h"
#include "runtime/linear_internal.h"
#include "runtime/small.h"

enum {
    STEP = 8,       /* columns of 16 bytes: what copies on the device take at once */
    SPAN = 64,      /* columns of the widest atom, of 2:4 weights */
    SPARSE_M = 256, /* tokens up to which 2:4 weights are read again for each 32 of them */
    FEW_M = 64      /* and packed codes */
};

pare_status pare__cuda_f16_take(pare_cuda *c, size_t rows, size_t k, pare__cuda_f16 *out)
{
    void *at, *scale;
    out->ld = pare_round_up(k, SPAN);
    PARE_TRY(pare__cuda_scratch_take(c, rows * out->ld * sizeof *out->at, &at));
    PARE_TRY(pare__cuda_scratch_take(c, rows * sizeof *out->scale, &scale));
    out->at = at;
    out->scale = scale;
    return PARE_OK;
}

pare_status pare__cuda_f16_put(pare_cuda *c, const void *x, size_t ldx, pare_dtype type,
                               size_t rows, size_t k, const pare__cuda_f16 *to, size_t r)
{
    PARE__CUDA_RUN(c, f16_rows, .x = x, .y = (uint16_t *)(uintptr_t)to->at + r * to->ld,
                   .scale = (float *)(uintptr_t)to->scale + r, .ldx = ldx, .ldy = to->ld,
                   .rows = rows, .k = k, .type = pare__cuda_type(type));
    return PARE_OK;
}

pare_status pare__cuda_to_f16(pare_cuda *c, const void *x, size_t ldx, pare_dtype type, size_t rows,
                              size_t k, pare__cuda_f16 *out)
{
    PARE_TRY(pare__cuda_f16_take(c, rows, k, out));
    return pare__cuda_f16_put(c, x, ldx, type, rows, k, out, 0);
}

pare_status pare__cuda_multiply_rounded(pare_cuda *c, const pare__cuda_f16 *x, size_t m,
                                        const pare__cuda_f16 *w, size_t n, size_t k, float *y,
                                        size_t ldy)
{
    PARE__CUDA_RUN(c, gemm_f16, .x = x->at, .w = w->at, .x_scale = x->scale, .w_scale = w->scale,
                   .y = y, .ldx = x->ld, .ldw = w->ld, .ldy = ldy, .m = m, .n = n,
                   .k = pare_round_up(k, STEP));
    return PARE_OK;
}

bool pare__cuda_smaller_panels(pare_cuda *c, const pare__cuda_scratch *before)
{
    if (c->panel_bytes <= PARE_CUDA_PANEL && c->rounded_bytes <= PARE_CUDA_PANEL)
        return false;
    pare_ctx_clear(c->cx);
    c->scratch.current = before->current;
    c->scratch.used = before->used;
    if (c->panel_bytes > PARE_CUDA_PANEL)
        c->panel_bytes =
            c->panel_bytes / 2 > PARE_CUDA_PANEL ? c->panel_bytes / 2 : PARE_CUDA_PANEL;
    if (c->rounded_bytes > PARE_CUDA_PANEL)
        c->rounded_bytes =
            c->rounded_bytes / 2 > PARE_CUDA_PANEL ? c->rounded_bytes / 2 : PARE_CUDA_PANEL;
    return true;
}

size_t pare__cuda_rounded_rows(const pare_cuda *c, size_t n, size_t k, size_t least)
{
    const size_t fit =
        c->rounded_bytes / (pare_round_up(k, SPAN) * sizeof(uint16_t)) / least * least;
    return pare_smaller(n, fit ? fit : least);
}

pare_status pare__cuda_multiply_f16(pare_cuda *c, const pare__cuda_f16 *x, size_t m, const void *w,
                                    size_t ldw, pare_dtype type, size_t n, size_t k, float *y,
                                    size_t ldy)
{
    const size_t row = ldw * (pare_dtype_bits(type) / 8);
    const pare__cuda_scratch before = c->scratch;
    size_t step;
    pare__cuda_f16 panel;
    pare_status s;
    if (type == PARE_F16 && ldw % STEP == 0)
        return pare__cuda_multiply_rounded(c, x, m, &(pare__cuda_f16){.at = w, .ld = ldw}, n, k, y,
                                           ldy);
    do
        step = pare__cuda_rounded_rows(c, n, k, 1);
    while ((s = pare__cuda_f16_take(c, step, k, &panel)) == PARE_ENOMEM &&
           pare__cuda_smaller_panels(c, &before));
    PARE_TRY(s);
    for (size_t r = 0; r < n; r += step) {
        const size_t rows = pare_smaller(step, n - r);
        PARE_TRY(pare__cuda_f16_put(c, (const char *)w + r * row, ldw, type, rows, k, &panel, 0));
        PARE_TRY(pare__cuda_multiply_rounded(c, x, m, &panel, rows, k, y + r, ldy));
    }
    return PARE_OK;
}

/* Codes that are floats themselves, of 4 or 8 bits; those of -1, 0, 1. */
static bool is_e2m1(const pare_linear *w)
{
    return pare_encodings[w->encoding].level == pare_levels_e2m1;
}

static bool is_e4m3(const pare_linear *w)
{
    return pare_encodings[w->encoding].level == pare_levels_e4m3;
}

static bool is_ternary(const pare_linear *w)
{
    return w->encoding == PARE_ENCODING_TERNARY;
}

bool pare__cuda_f16_fused(const pare_linear *w, size_t m)
{
    if (!w->bits || w->outliers.count || w->sparse.start)
        return false;
    if (pare_encoding_turns(w->encoding))
        return m <= FEW_M && !pare__linear_turns(w);
    if (w->sparsity)
        return m <= SPARSE_M && w->sparsity == PARE_SPARSITY_2_4 &&
               (w->bits < 16 || w->panel.ldv % STEP == 0);
    return is_e2m1(w) || is_e4m3(w) || is_ternary(w) ||
           pare_encodings[w->encoding].decoding == PARE_DECODE_F32;
}

pare_status pare__cuda_multiply_packed_f16(pare_cuda *c, const pare__cuda_f16 *x, size_t m,
                                           const pare_linear *w, float *y, size_t ldy)
{
    if (pare_encoding_turns(w->encoding)) {
        PARE__CUDA_RUN(c, gemm_f16_exl3, .x = x->at, .x_scale = x->scale, .w = w->panel, .y = y,
                       .ldx = x->ld, .ldy = ldy, .m = m, .n = w->n, .bits = w->bits);
        return PARE_OK;
    }
#define PRODUCT_OF(name)                                                                           \
    PARE__CUDA_RUN(c, name, .x = x->at, .x_scale = x->scale, .w = w->panel, .y = y, .ldx = x->ld,  \
                   .ldy = ldy, .m = m, .n = w->n)
#define PRODUCT(name)                                                                              \
    do {                                                                                           \
        if (m > FEW_M)                                                                             \
            PRODUCT_OF(gemm_f16_many_##name);                                                      \
        else                                                                                       \
            PRODUCT_OF(gemm_f16_##name);                                                           \
    } while (0)
    if (w->sparsity && w->bits == 4)
        PRODUCT_OF(gemm_f16_s4);
    else if (w->sparsity && w->bits == 8)
        PRODUCT_OF(gemm_f16_s8);
    else if (w->sparsity)
        PRODUCT_OF(gemm_f16_s16);
    else if (is_e2m1(w))
        PRODUCT(e2m1);
    else if (is_e4m3(w))
        PRODUCT(e4m3);
    else if (is_ternary(w))
        PRODUCT(t2);
    else if (w->bits == 2)
        PRODUCT(q2);
    else if (w->bits == 3)
        PRODUCT(q3);
    else if (w->bits == 4)
        PRODUCT(q4);
    else
        PRODUCT(q8);
#undef PRODUCT
#undef PRODUCT_OF
    return PARE_OK;
}
