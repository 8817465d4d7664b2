/* Kernels of a device behind the table of the CPU's: operands go there in blocks of their exact
 * size, so that the device sees an access past them, and the output comes back with what lay in
 * front of it. So a kernel of the device meets the same cases as those of the CPU. */
#include "tests/kernels/kernel_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_shape.h"
#include "kernels/kernels_internal.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "runtime/arch.h"
#include "runtime/device.h"

enum { OPERANDS = 16 };

static pare_ctx cx;
static pare_device *device;
static pare_address operand[OPERANDS];
static size_t operands;

static void must(pare_status s)
{
    if (s == PARE_OK)
        return;
    (void)fprintf(stderr, "%s\n", cx.what);
    exit(EXIT_FAILURE);
}

/* A copy of what lies at p; NULL stays NULL. */
static void *up(const void *p, size_t bytes)
{
    if (!p)
        return NULL;
    pare_address at = 0;
    must(device->op->take(&cx, device, bytes ? bytes : 1, &at));
    if (bytes)
        must(device->op->put(&cx, device, at, p, bytes));
    operand[operands++] = at;
    return (void *)(uintptr_t)at; // NOLINT: an address of the device
}

/* Operands behind the first `kept` go. */
static void drop(size_t kept)
{
    while (operands > kept)
        device->op->give(&cx, device, operand[--operands]);
}

/* The output comes back, the operands go. */
static void down(void *to, const void *from, size_t bytes)
{
    if (bytes)
        must(device->op->get(&cx, device, to, (pare_address)(uintptr_t)from, bytes));
    drop(0);
}

static void launch(const char *name, const pare_cuda_shape *s, const void *argument, size_t bytes)
{
    void *kernel;
    const pare_launch l = {{s->grid[0], s->grid[1], 1}, {s->block, 1, 1}, s->shared};
    if (s->grid[0] == 0 || s->grid[1] == 0)
        return;
    must(device->op->kernel(&cx, device, name, &kernel));
    must(device->op->launch(&cx, device, kernel, &l, argument, bytes));
}

#define LAUNCH(name, argument)                                                                     \
    do {                                                                                           \
        const pare_cuda_shape shape_of_launch = pare_cuda_##name##_shape(&(argument));             \
        launch("pare_" #name "_cuda", &shape_of_launch, &(argument), sizeof(argument));            \
    } while (0)

static size_t spread(size_t rows, size_t ld, size_t width)
{
    return ((rows - 1) * ld + width) * sizeof(float);
}

#define GEMM_F32(name, type)                                                                       \
    static void name##_device(float *y, size_t ldy, const float *x, size_t ldx, const type *w,     \
                              size_t ldw, size_t m, size_t n, size_t k)                            \
    {                                                                                              \
        const size_t bytes = spread(m, ldy, n);                                                    \
        const pare_cuda_##name a = {.x = up(x, spread(m, ldx, k)),                                 \
                                    .w = up(w, ((n - 1) * ldw + k) * sizeof *w),                   \
                                    .y = up(y, bytes),                                             \
                                    .ldx = ldx,                                                    \
                                    .ldw = ldw,                                                    \
                                    .ldy = ldy,                                                    \
                                    .m = m,                                                        \
                                    .n = n,                                                        \
                                    .k = k};                                                       \
        LAUNCH(name, a);                                                                           \
        down(y, a.y, bytes);                                                                       \
    }
GEMM_F32(gemm_f32_f32, float)
GEMM_F32(gemm_f32_f16, uint16_t)
GEMM_F32(gemm_f32_bf16, uint16_t)

/* All products of codes have the same argument. Small shapes go to the tiles of large ones, too,
 * where the number of tokens is odd. */
static void launch_x8(const char *name, const pare_cuda_gemm_x8_q4 *a, const pare_cuda_shape *few,
                      const pare_cuda_shape *many)
{
    const bool all = pare_cuda_x8_many(a->x.m, a->n) || (a->x.m > PARE_CUDA_X8_FEW && a->x.m % 2);
    char kernel[64];
    (void)snprintf(kernel, sizeof kernel, "pare_gemm_x8_%s%s_cuda", all ? "many_" : "", name);
    launch(kernel, all ? many : few, a, sizeof *a);
}

#define LAUNCH_X8(name, a)                                                                         \
    do {                                                                                           \
        pare_cuda_gemm_x8_many_##name many;                                                        \
        pare_cuda_gemm_x8_q4 any;                                                                  \
        memcpy(&many, &(a), sizeof many);                                                          \
        memcpy(&any, &(a), sizeof any);                                                            \
        const pare_cuda_shape of_few = pare_cuda_gemm_x8_##name##_shape(&(a));                     \
        const pare_cuda_shape of_many = pare_cuda_gemm_x8_many_##name##_shape(&many);              \
        launch_x8(#name, &any, &of_few, &of_many);                                                 \
    } while (0)

/* Weights and all that belongs to them; bits of the codes, `magnitudes`: book has those. */
static pare_panel panel_of(const pare_panel *w, unsigned bits, bool magnitudes)
{
    pare_panel p = *w;
    const size_t planes = w->scales || magnitudes ? w->n * ((w->k + w->group - 1) / w->group) : 0;
    const size_t kept = w->indices ? pare_24_kept(w->k) : w->k;
    const size_t atoms = w->n / PARE_ATOM_N * (kept / PARE_ATOM_K);
    p.codes = up(w->codes, w->n * kept / 8 * bits); /* tiles may be half as wide as atoms */
    p.scales = up(w->scales, planes * sizeof *w->scales);
    p.zeros = up(w->zeros, planes);
    p.book = up(w->book, (magnitudes ? 4 * planes : w->n << bits) * sizeof *w->book);
    p.salient = up(w->salient, w->k);
    p.minima = up(w->minima, planes * sizeof *w->minima);
    p.sub = up(w->sub, atoms * 16);
    p.indices = up(w->indices, atoms * 64);
    p.values = up(w->values, ((w->n - 1) * w->ldv + kept) * sizeof *w->values);
    return p;
}

static pare_x8 x8_of(const pare_x8 *x, const int8_t *codes)
{
    pare_x8 d = *x;
    const size_t planes = x->m * ((x->k + x->group - 1) / x->group);
    d.codes = up(codes, x->m * x->k);
    d.scales = up(x->scales, planes * sizeof *x->scales);
    d.sums = up(x->sums, planes * sizeof *x->sums);
    return d;
}

#define GEMM_X8(name, bits)                                                                        \
    static void gemm_x8_##name##_device(float *y, size_t ldy, const pare_x8 *x,                    \
                                        const pare_panel *w)                                       \
    {                                                                                              \
        const size_t bytes = spread(x->m, ldy, w->n);                                              \
        const pare_cuda_gemm_x8_##name a = {.x = x8_of(x, x->codes),                               \
                                            .w = panel_of(w, bits, false),                         \
                                            .y = up(y, bytes),                                     \
                                            .ldy = ldy,                                            \
                                            .n = w->n};                                            \
        LAUNCH_X8(name, a);                                                                        \
        down(y, a.y, bytes);                                                                       \
    }
GEMM_X8(q2, 2)
GEMM_X8(q3, 3)
GEMM_X8(q4, 4)
GEMM_X8(q8, 8)
GEMM_X8(t2, 2)

/* The CPU has the codes of x in tiles for 2:4 weights, and for those of 4 bits with the highest bit
 * flipped; the device has rows. */
static int8_t *rows_of(const pare_x8 *x, unsigned bits)
{
    int8_t *const rows = malloc(x->m * x->k);
    for (size_t t = 0; rows && t < x->m; t++)
        for (size_t j = 0; j < x->k; j++) {
            const uint8_t code = (uint8_t)x->codes[pare_x24_at(x->m, x->k, t, j)];
            rows[t * x->k + j] = (int8_t)(bits == 4 ? code ^ 0x80u : code);
        }
    must(rows ? PARE_OK : PARE_ENOMEM);
    return rows;
}

#define GEMM_24(name, bits)                                                                        \
    static void gemm_x8_##name##_device(float *y, size_t ldy, const pare_x8 *x,                    \
                                        const pare_panel *w)                                       \
    {                                                                                              \
        const size_t bytes = spread(x->m, ldy, w->n);                                              \
        int8_t *const rows = rows_of(x, bits);                                                     \
        const pare_cuda_gemm_x8_##name a = {.x = x8_of(x, rows),                                   \
                                            .w = panel_of(w, bits, false),                         \
                                            .y = up(y, bytes),                                     \
                                            .ldy = ldy,                                            \
                                            .n = w->n};                                            \
        free(rows);                                                                                \
        LAUNCH_X8(name, a);                                                                        \
        down(y, a.y, bytes);                                                                       \
    }
GEMM_24(s4, 4)
GEMM_24(s8, 8)

#define DEQUANT(name, magnitudes)                                                                  \
    static void name##_device(float *dst, size_t ldd, const pare_panel *w, unsigned bits)          \
    {                                                                                              \
        const size_t bytes = spread(w->n, ldd, w->k);                                              \
        const pare_cuda_##name a = {                                                               \
            .dst = up(dst, bytes), .ldd = ldd, .w = panel_of(w, bits, magnitudes), .bits = bits};  \
        LAUNCH(name, a);                                                                           \
        down(dst, a.dst, bytes);                                                                   \
    }
DEQUANT(dequant_f32, false)
DEQUANT(dequant_book, false)
DEQUANT(dequant_super, false)
DEQUANT(dequant_exl3, false)
DEQUANT(dequant_24, false)
DEQUANT(dequant_binary, true)

static void dequant_two(float *dst, size_t ldd, const pare_panel *w)
{
    dequant_binary_device(dst, ldd, w, 2);
}

static void dequant_table_device(float *dst, size_t ldd, const pare_panel *w, unsigned bits,
                                 const float *level)
{
    const size_t bytes = spread(w->n, ldd, w->k);
    const pare_cuda_dequant_table a = {.dst = up(dst, bytes),
                                       .ldd = ldd,
                                       .w = panel_of(w, bits, false),
                                       .level = up(level, sizeof *level << bits),
                                       .bits = bits};
    LAUNCH(dequant_table, a);
    down(dst, a.dst, bytes);
}

static void dequant_fp8_device(float *dst, size_t ldd, const pare_panel *w)
{
    dequant_table_device(dst, ldd, w, 8, pare_levels_e4m3);
}

/* Codes times floats in one kernel. */
static void launch_codes(pare_decoding how, const pare_cuda_gemm_f32_uniform *a)
{
    switch (how) {
#define CODES(row, name)                                                                           \
    case row: {                                                                                    \
        pare_cuda_##name same;                                                                     \
        memcpy(&same, a, sizeof same); /* all have the same members */                             \
        LAUNCH(name, same);                                                                        \
        break;                                                                                     \
    }
        CODES(PARE_DECODE_F32, gemm_f32_uniform)
        CODES(PARE_DECODE_TABLE, gemm_f32_table)
        CODES(PARE_DECODE_FP8, gemm_f32_table)
        CODES(PARE_DECODE_BOOK, gemm_f32_book)
        CODES(PARE_DECODE_BINARY, gemm_f32_binary)
        CODES(PARE_DECODE_SUPER, gemm_f32_super)
        CODES(PARE_DECODE_EXL3, gemm_f32_exl3)
#undef CODES
    }
}

enum { MOST_TOKENS = 8 };

/* Rows below n of the product with token `at` of m, which is x; the others are other numbers. Exits
 * where something else was written. */
static void codes_token(float *y, size_t n, const float *x, size_t m, size_t at,
                        const pare_cuda_gemm_f32_uniform *some, pare_decoding how)
{
    const size_t k = some->k, ldy = n + 3, ldx = k + 1, bytes = m * ldy * sizeof(float);
    float *const inputs = malloc(m * ldx * sizeof *inputs), *const out = malloc(bytes);
    must(inputs && out ? PARE_OK : PARE_ENOMEM);
    memset(out, 0xa5, bytes);
    for (size_t t = 0; t < m; t++)
        for (size_t j = 0; j < k; j++)
            inputs[t * ldx + j] = t == at ? x[j] : x[(j + t) % k] - 1.0f;
    pare_cuda_gemm_f32_uniform a = *some;
    a.x = up(inputs, ((m - 1) * ldx + k) * sizeof *inputs);
    a.y = up(out, bytes);
    a.ldx = ldx;
    a.ldy = ldy;
    a.m = m;
    a.n = n;
    launch_codes(how, &a);
    must(device->op->get(&cx, device, out, (pare_address)(uintptr_t)a.y, bytes));
    memcpy(y, out + at * ldy, n * sizeof *y);
    for (size_t i = 0; i < m * ldy; i++)
        if (i % ldy >= n && memcmp(&out[i], "\xa5\xa5\xa5\xa5", sizeof *out) != 0)
            must(pare_fail(&cx, PARE_EINVAL, "a product wrote behind row %zu", n));
    free(inputs);
    free(out);
}

/* Another number of rows and tokens gives what all rows give with one token. */
static void gemv_packed_device(float *y, const float *x, size_t k, const pare_panel *w,
                               pare_decoding how, unsigned bits, const float *level)
{
    static const size_t tokens[] = {2, 3, MOST_TOKENS};
    const size_t m = tokens[k % 3], n = w->n - k / 3 % PARE_ATOM_N;
    const float *const levels = how == PARE_DECODE_FP8 ? pare_levels_e4m3 : level;
    const pare_cuda_gemm_f32_uniform a = {.w = panel_of(w, bits, how == PARE_DECODE_BINARY),
                                          .level = up(levels, sizeof *levels << bits),
                                          .k = k,
                                          .bits = bits};
    float *const other = malloc(n * sizeof *other);
    must(other ? PARE_OK : PARE_ENOMEM);
    codes_token(y, w->n, x, 1, 0, &a, how);
    codes_token(other, n, x, m, k / 3 % m, &a, how);
    for (size_t r = 0; r < n; r++)
        if (memcmp(&other[r], &y[r], sizeof *y) != 0 && !(isnan(other[r]) && isnan(y[r])))
            must(pare_fail(&cx, PARE_EINVAL, "row %zu of %zu differs with %zu tokens", r, n, m));
    free(other);
    drop(0);
}

static void dequant_mask_device(float *dst, size_t ldd, const pare_mask *w)
{
    const size_t bytes = spread(w->n, ldd, w->k);
    const pare_cuda_dequant_mask a = {
        .dst = up(dst, bytes),
        .ldd = ldd,
        .w = {.bits = up(w->bits, w->n * ((w->k + 7) / 8)),
              .start = up(w->start, (w->n + 1) * sizeof *w->start),
              .value = up(w->value, w->start[w->n] * sizeof *w->value),
              .n = w->n,
              .k = w->k}};
    LAUNCH(dequant_mask, a);
    down(dst, a.dst, bytes);
}

static void gemm_sparse_f32_device(float *y, size_t ldy, const float *x, size_t ldx,
                                   const uint32_t *start, const uint32_t *column,
                                   const uint16_t *value, size_t m, size_t n)
{
    size_t k = 0;
    for (uint32_t i = start[0]; i < start[n]; i++)
        k = column[i] < k ? k : column[i] + 1;
    const size_t bytes = spread(m, ldy, n);
    const pare_cuda_gemm_sparse_f32 a = {.x = up(x, spread(m, ldx, k)),
                                         .start = up(start, (n + 1) * sizeof *start),
                                         .column = up(column, start[n] * sizeof *column),
                                         .value = up(value, start[n] * sizeof *value),
                                         .y = up(y, bytes),
                                         .ldx = ldx,
                                         .ldy = ldy,
                                         .m = m,
                                         .n = n};
    LAUNCH(gemm_sparse_f32, a);
    down(y, a.y, bytes);
}

/* One token; the device writes three arrays. */
static void quantize(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                     size_t group, size_t span, float fixed, int32_t top)
{
    const size_t groups = (k + group - 1) / group, wide = pare_round_up(k, PARE_ATOM_K);
    const pare_cuda_quant_x8 a = {.x = up(x, k * sizeof *x),
                                  .codes = up(codes, wide),
                                  .scales = up(scales, groups * sizeof *scales),
                                  .sums = up(sums, groups * sizeof *sums),
                                  .ldx = k,
                                  .m = 1,
                                  .k = k,
                                  .group = group,
                                  .span = span,
                                  .fixed = fixed,
                                  .top = top};
    if (k > 0)
        LAUNCH(quant_x8, a);
    must(device->op->get(&cx, device, codes, (pare_address)(uintptr_t)a.codes, wide));
    must(device->op->get(&cx, device, scales, (pare_address)(uintptr_t)a.scales,
                         groups * sizeof *scales));
    down(sums, a.sums, groups * sizeof *sums);
}

static void quant_x8_device(int8_t *codes, float *scales, int32_t *sums, const float *x, size_t k,
                            size_t group, size_t span, int32_t top)
{
    quantize(codes, scales, sums, x, k, group, span, 0, top);
}

/* pare refuses a step of 0 before the device sees it. */
static void quant_x8_fixed_device(int8_t *codes, float *scales, int32_t *sums, const float *x,
                                  size_t k, size_t group, float step, int32_t top)
{
    pare_kernels ref;
    pare_kernels_init(&ref, 0);
    if (step > 0)
        quantize(codes, scales, sums, x, k, group, k, step, top);
    else
        ref.quant_x8_fixed(codes, scales, sums, x, k, group, step, top);
}

static void hadamard_f32_device(float *x, size_t n, float scale)
{
    const pare_cuda_hadamard a = {.x = up(x, n * sizeof *x), .runs = 1, .n = n, .scale = scale};
    LAUNCH(hadamard, a);
    down(x, a.x, n * sizeof *x);
}

static void mix_f32_device(float *x, size_t n, const float *c, size_t m)
{
    const pare_cuda_mix a = {
        .x = up(x, m * n * sizeof *x), .c = up(c, m * m * sizeof *c), .rows = 1, .n = n, .m = m};
    LAUNCH(mix, a);
    down(x, a.x, m * n * sizeof *x);
}

static void silu_f32_device(float *y, const float *other, size_t n)
{
    pare_cuda_activate a = {
        .gate = up(y, n * sizeof *y), .up = up(other, n * sizeof *y), .n = n, .act = PARE_ACT_SILU};
    a.y = (float *)(uintptr_t)a.gate;
    LAUNCH(activate, a);
    down(y, a.y, n * sizeof *y);
}

void kt_device(pare_kernels *k)
{
    pare_ctx_init(&cx);
    must(pare_device_open(&cx, &device));
    k->gemm_f32_f32 = gemm_f32_f32_device;
    k->gemm_f32_f16 = gemm_f32_f16_device;
    k->gemm_f32_bf16 = gemm_f32_bf16_device;
    k->quant_x8 = quant_x8_device;
    k->quant_x8_fixed = quant_x8_fixed_device;
    k->gemm_x8_q2 = gemm_x8_q2_device;
    k->gemm_x8_q3 = gemm_x8_q3_device;
    k->gemm_x8_q4 = gemm_x8_q4_device;
    k->gemm_x8_q8 = gemm_x8_q8_device;
    k->gemm_x8_t2 = gemm_x8_t2_device;
    k->gemm_x8_s4 = gemm_x8_s4_device;
    k->gemm_x8_s8 = gemm_x8_s8_device;
    k->gemm_sparse_f32 = gemm_sparse_f32_device;
    k->dequant_f32 = dequant_f32_device;
    k->dequant_table = dequant_table_device;
    k->dequant_fp8 = dequant_fp8_device;
    k->dequant_book = dequant_book_device;
    k->dequant_binary = dequant_two;
    k->dequant_super = dequant_super_device;
    k->dequant_exl3 = dequant_exl3_device;
    k->dequant_24 = dequant_24_device;
    k->dequant_mask = dequant_mask_device;
    k->gemv_packed = gemv_packed_device;
    k->hadamard_f32 = hadamard_f32_device;
    k->mix_f32 = mix_f32_device;
    k->silu_f32 = silu_f32_device;
}
