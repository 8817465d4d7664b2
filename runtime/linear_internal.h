/* runtime/linear_internal.h - what the parts of the product share. */
#ifndef PARE_RUNTIME_LINEAR_INTERNAL_H
#define PARE_RUNTIME_LINEAR_INTERNAL_H

#include "runtime/forward_internal.h"

/* A product is cut into tiles of rows of W by tokens. */
enum { PARE__TILE_ROWS = 64, PARE__TILE_TOKENS = 64 };

/* What pare__linear_apply_bf16 takes for several products of one input: m tokens of ldx values in
 * BF16; for each thread PARE__TILE_ROWS rows of k values in F32 and tile_rows of them in BF16. */
typedef struct pare__bf16_room {
    size_t k;         /* rounded up as codes are */
    size_t ldx;       /* an odd number of lines, so that tokens spread over a cache */
    size_t tile_rows; /* of W that meet all tokens at a time */
} pare__bf16_room;
pare__bf16_room pare__linear_bf16_room(const pare_ctx *cx, const pare__product *product,
                                       size_t count);

/* The planes of quantized activations, while they are written. */
typedef struct pare__planes {
    int8_t *codes;
    float *scales;
    int32_t *sums;
} pare__planes;

/* One product. */
typedef struct pare__job {
    const pare_linear *w;
    const float *x; /* of the work; where `rounds` is set, in floats of fewer bits */
    size_t ldx;
    float *y;
    size_t ldy;
    bool decode; /* W is decoded into panels and multiplied in F32 */
    bool rounds; /* its inputs become floats of 8 or 4 bits before */
    size_t tile_tokens, token_tiles;
    pare_x8 x8;         /* neither dense nor decoded: x without the outlier columns */
    pare_x8 outlier_x8; /* int8 outliers: x of their columns */
    pare__planes planes, outlier_planes;
} pare__job;

typedef struct pare__work {
    const pare_kernels *kernels;
    unsigned cpu; /* PARE_CPU_* bits of the kernels */
    const float *x;
    size_t ldx, m;
    pare__job job[PARE__LINEARS_MAX];
    size_t jobs;
    float *buffer; /* [workers][buffer_floats] */
    size_t buffer_floats;
} pare__work;

/* Rows [first, first + count) of a panel of W, or of its outliers (8 bits); first is a multiple of
 * 8, count is rounded up to one. */
pare_panel pare__panel_rows(const pare_linear *w, size_t first, size_t count);
pare_panel pare__outlier_rows(const pare_outliers *o, size_t first, size_t count);

/* The same of weights with a bitmask; first may be any. */
pare_mask pare__mask_rows(const pare_linear *w, size_t first, size_t count);

/* Inputs that share a scale and a sum, and whether the codes of the inputs of one serve another. */
size_t pare__x8_group_of(const pare_linear *w);
bool pare__same_x8(const pare_linear *a, const pare_linear *b);

/* Elements [first, first + count) of a dense matrix as F32. */
void pare__dense_f32(const pare_kernels *kernels, const pare_linear *w, size_t first, size_t count,
                     float *x);

/* Rows [r0, r0 + rows) of W as F32, outliers and single weights in their places: [rows rounded up
 * to 8, panel.k], rows panel.k apart. r0 is a multiple of 8. */
void pare__linear_decode(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                         float *dst);

/* True when one token can meet the codes of w without their being decoded into a panel first:
 * nothing lies apart from them, and if they are pruned they are F16 and the processor has a kernel
 * for that. */
bool pare__linear_fuses(unsigned cpu, const pare_linear *w);

/* y[r] for those rows and one token x [k]: what pare__linear_decode and gemm_f32_f32 would give, to
 * the bit. y: rows rounded up to 8. */
void pare__linear_gemv(const pare_kernels *kernels, const pare_linear *w, size_t r0, size_t rows,
                       const float *x, float *y);

/* True when rows and columns of w are mixed and scaled: products turn inputs and outputs, or decode
 * w as a whole (runtime/linear_exl3.h). Without scales it stands for its codes alone. */
static inline bool pare__linear_turns(const pare_linear *w)
{
    return w->bits && w->row_scales;
}

/* True when the kernels of w take codes of x in tiles: 2:4 weights. */
static inline bool pare__linear_tiled(const pare_linear *w)
{
    return w->sparsity == PARE_SPARSITY_2_4;
}

/* Quantizes or rounds the inputs of all jobs, as each of them asks; equal ones once. buffer is
 * there. */
PARE_CHECKED pare_status pare__linear_inputs(pare_ctx *cx, pare_arena *scratch, pare__work *w);

#endif
