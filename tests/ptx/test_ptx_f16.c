/* Products of F16 on tensor cores, for each way in which these may add, under all checks: within
 * the bound of what they are given, whatever else is in the batch. With PTX_GPU the GPU of the
 * machine takes the place of the interpreter. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_shape.h"
#include "kernels/half.h"
#include "kernels/layout.h"
#include "kernels/levels.h"
#include "tests/ptx/device_ptx.h"
#include "tests/unit/unit.h"

enum { TAKEN = 8 };

static pare_ctx cx;
static pare_device *d;
static pare_address taken[TAKEN];
static size_t count;
static uint32_t state;

static uint32_t draw(void)
{
    return (state = state * 1664525u + 1013904223u) >> 8;
}

/* Of both signs, from 0 to 1. */
static float number(void)
{
    return (float)((int32_t)draw() - (1 << 23)) * 0x1p-23f;
}

static void *room(size_t bytes)
{
    ck_assert_int_eq(d->op->take(&cx, d, bytes, &taken[count]), PARE_OK);
    return (void *)(uintptr_t)taken[count++]; // NOLINT: an address of the device
}

static void *there(const void *from, size_t bytes)
{
    void *const at = room(bytes);
    ck_assert_int_eq(d->op->put(&cx, d, taken[count - 1], from, bytes), PARE_OK);
    return at;
}

static void back(void *to, const void *from, size_t bytes)
{
    ck_assert_int_eq(d->op->get(&cx, d, to, (pare_address)(uintptr_t)from, bytes), PARE_OK);
}

static void start(ptx_options run)
{
    const pare_device_ptx_options options = {.run = run};
    pare_ctx_init(&cx);
    count = 0;
#ifdef PTX_GPU
    (void)options;
    ck_assert_msg(pare_device_open(&cx, &d) == PARE_OK, "%s", cx.what);
#else
    ck_assert_msg(pare_device_ptx_open(&cx, PARE_PTX_FILES, &options, &d) == PARE_OK, "%s",
                  cx.what);
#endif
}

static void drop(void)
{
    while (count > 0)
        d->op->give(&cx, d, taken[--count]);
}

static void end(void)
{
    drop();
    d->op->close(&cx, d);
}

static void launch(const char *name, pare_cuda_shape s, const void *argument, size_t bytes)
{
    const pare_launch l = {{s.grid[0], s.grid[1], 1}, {s.block, 1, 1}, s.shared};
    void *kernel;
    ck_assert_msg(d->op->kernel(&cx, d, name, &kernel) == PARE_OK, "%s", cx.what);
    ck_assert_msg(d->op->launch(&cx, d, kernel, &l, argument, bytes) == PARE_OK, "%s", cx.what);
}
#define LAUNCH(name, a)                                                                            \
    launch("pare_" #name "_cuda", pare_cuda_##name##_shape(&(a)), &(a), sizeof(a))

static void *memory(size_t bytes)
{
    void *const p = malloc(bytes);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* --- rows ------------------------------------------------------------------------------------- */

static float value(const void *x, uint32_t type, size_t i)
{
    return type == PARE_CUDA_F32   ? ((const float *)x)[i]
           : type == PARE_CUDA_F16 ? pare_f16_to_f32(((const uint16_t *)x)[i])
                                   : pare_bf16_to_f32(((const uint16_t *)x)[i]);
}

static void put_value(void *x, uint32_t type, size_t i, float v)
{
    if (type == PARE_CUDA_F32)
        ((float *)x)[i] = v;
    else
        ((uint16_t *)x)[i] = type == PARE_CUDA_F16 ? pare_f32_to_f16(v) : pare_f32_to_bf16(v);
}

/* Row 0 is 0; the others reach from the least to the largest numbers of a type. */
static float awkward(size_t row, uint32_t type)
{
    const int most = type == PARE_CUDA_F16 ? 15 : 127, least = type == PARE_CUDA_F16 ? -24 : -140;
    if (row == 0)
        return 0;
    if (row == 1)
        return ldexpf(number(), most);
    if (row == 2)
        return ldexpf(number(), least);
    return ldexpf(number(), (int)(draw() % 20) - 10);
}

static void check_row(const void *x, uint32_t type, size_t first, size_t k, const uint16_t *y,
                      float scale)
{
    double largest = 0, most = 0;
    for (size_t j = 0; j < k; j++)
        largest = fmax(largest, fabs((double)value(x, type, first + j)));
    int exponent;
    ck_assert_msg(frexpf(scale, &exponent) == 0.5f, "%g is no power of two", (double)scale);
    for (size_t j = 0; j < k; j++) {
        const double v = (double)value(x, type, first + j), h = (double)pare_f16_to_f32(y[j]);
        const double bound = type == PARE_CUDA_F32        ? 0x1p-11 * fabs(v) + 0x1p-39 * largest
                             : fabs(v) * 0x1p25 < largest ? 0x1p-39 * largest
                                                          : 0;
        ck_assert_msg(fabs(v - h * (double)scale) <= bound || largest < 0x1p-112,
                      "%g becomes %g times %g", v, h, (double)scale);
        most = fmax(most, fabs(h));
    }
    ck_assert_msg(most <= 0x1p15 && (most >= 0x1p14 || largest < 0x1p-112), "largest %g", most);
    for (size_t j = k; j < (k + 7) / 8 * 8; j++)
        ck_assert_uint_eq(y[j], 0);
}

START_TEST(rows_become_f16_times_a_power_of_two)
{
    static const size_t widths[] = {1, 7, 8, 31, 256, 513, 1000};
    const uint32_t type = (uint32_t)_i % 3;
    const size_t k = widths[_i / 3], ldx = k + 3, ldy = (k + 7) / 8 * 8, rows = 5;
    const size_t size = type == PARE_CUDA_F32 ? 4 : 2, bytes = ((rows - 1) * ldx + k) * size;
    void *const x = memory(bytes);
    uint16_t *const y = memory(rows * ldy * sizeof *y);
    float scale[5];
    state = (uint32_t)_i;
    for (size_t i = 0; i < bytes / size; i++)
        put_value(x, type, i, awkward(i / ldx, type));
    start((ptx_options){.checks = PTX_FULL});
    const pare_cuda_f16_rows a = {.x = there(x, bytes),
                                  .y = room(rows * ldy * sizeof *y),
                                  .scale = room(sizeof scale),
                                  .ldx = ldx,
                                  .ldy = ldy,
                                  .rows = rows,
                                  .k = k,
                                  .type = type};
    LAUNCH(f16_rows, a);
    back(y, a.y, rows * ldy * sizeof *y);
    back(scale, a.scale, sizeof scale);
    for (size_t r = 0; r < rows; r++)
        check_row(x, type, r * ldx, k, y + r * ldy, scale[r]);
    end();
    free(y);
    free(x);
}
END_TEST

/* --- products --------------------------------------------------------------------------------- */

typedef struct operands {
    size_t m, n, k, ldx, ldw, ldy;
    uint16_t *x, *w;
    float *x_scale, *w_scale; /* the latter NULL: 1 */
} operands;

static uint16_t *halves(size_t rows, size_t ld, size_t k)
{
    uint16_t *const h = memory(rows * ld * sizeof *h);
    for (size_t i = 0; i < rows * ld; i++) /* what lies between rows must not count */
        h[i] = i % ld < k ? pare_f32_to_f16(ldexpf(number(), (int)(draw() % 12) - 2)) : 0x7e00;
    return h;
}

static float *powers(size_t n)
{
    float *const s = memory(n * sizeof *s);
    for (size_t i = 0; i < n; i++)
        s[i] = ldexpf(1, (int)(draw() % 30) - 20);
    return s;
}

static operands make(size_t m, size_t n, size_t k, size_t gap, bool scaled)
{
    operands o = {.m = m, .n = n, .k = k, .ldx = k + gap, .ldw = k + 2 * gap, .ldy = n + gap};
    o.x = halves(m, o.ldx, k);
    o.w = halves(n, o.ldw, k);
    o.x_scale = powers(m);
    o.w_scale = scaled ? powers(n) : NULL;
    return o;
}

static void forget(const operands *o)
{
    free(o->x);
    free(o->w);
    free(o->x_scale);
    free(o->w_scale);
}

/* Tokens first .. first + m - 1; y [m, ldy]. */
static void multiply(const operands *o, size_t first, size_t m, float *y)
{
    const size_t bytes = ((m - 1) * o->ldy + o->n) * sizeof *y;
    const pare_cuda_gemm_f16 a = {.x = there(o->x + first * o->ldx, ((m - 1) * o->ldx + o->k) * 2),
                                  .w = there(o->w, ((o->n - 1) * o->ldw + o->k) * 2),
                                  .x_scale = there(o->x_scale + first, m * sizeof *y),
                                  .w_scale =
                                      o->w_scale ? there(o->w_scale, o->n * sizeof *y) : NULL,
                                  .y = room(bytes),
                                  .ldx = o->ldx,
                                  .ldw = o->ldw,
                                  .ldy = o->ldy,
                                  .m = m,
                                  .n = o->n,
                                  .k = o->k};
    LAUNCH(gemm_f16, a);
    for (size_t t = 0; t < m; t++)
        back(y + t * o->ldy, a.y + t * o->ldy, o->n * sizeof *y);
    drop();
}

/* Within (2 k + 8) 2^-24 sum |x w| (arXiv 2512.07004). */
static void check(const operands *o, const float *y)
{
    for (size_t t = 0; t < o->m; t++)
        for (size_t r = 0; r < o->n; r++) {
            double sum = 0, all = 0;
            for (size_t j = 0; j < o->k; j++) {
                const double p = (double)pare_f16_to_f32(o->x[t * o->ldx + j]) *
                                 (double)pare_f16_to_f32(o->w[r * o->ldw + j]);
                sum += p;
                all += fabs(p);
            }
            const double s = (double)o->x_scale[t] * (o->w_scale ? (double)o->w_scale[r] : 1);
            const double now = (double)y[t * o->ldy + r];
            const double bound = ((double)o->k * 2 + 8) * 0x1p-24 * all * s;
            ck_assert_msg(fabs(now - sum * s) <= bound, "token %zu, row %zu: %g, not %g +- %g", t,
                          r, now, sum * s, bound);
        }
}

static const struct {
    size_t m, n, k;
} shapes[] = {{1, 33, 8},   {2, 31, 72},    {3, 32, 520},  {8, 65, 136},   {16, 70, 64},
              {17, 65, 80}, {64, 129, 200}, {65, 130, 72}, {130, 257, 264}};
enum { SHAPES = sizeof shapes / sizeof *shapes, MODELS = PTX_H100 + 1 };

/* A case runs in one model of the unit; in all with PARE_PTX_MODELS=all, three times as long. */
static bool left_out(int number, size_t cases)
{
    return !getenv("PARE_PTX_MODELS") && (size_t)number / cases != (size_t)number % cases % MODELS;
}

START_TEST(products_are_within_the_bound_and_rows_on_their_own)
{
    if (left_out(_i, SHAPES))
        return;
    const size_t i = (size_t)_i % SHAPES;
    state = (uint32_t)_i;
    start((ptx_options){.checks = PTX_FULL,
                        .model = (ptx_model)(_i / SHAPES),
                        .order = PTX_RANDOM,
                        .seed = (uint64_t)_i,
                        .early = i % 2});
    const operands o = make(shapes[i].m, shapes[i].n, shapes[i].k, 8, i % 2);
    float *const y = memory(o.m * o.ldy * sizeof *y), *const one = memory(o.ldy * sizeof *y);
    multiply(&o, 0, o.m, y);
    check(&o, y);
    for (size_t t = o.m > 1 ? o.m - 2 : 0; t < o.m; t++) {
        multiply(&o, t, 1, one);
        ck_assert_msg(memcmp(one, y + t * o.ldy, o.n * sizeof *y) == 0, "token %zu by itself", t);
    }
    free(one);
    free(y);
    forget(&o);
    end();
}
END_TEST

/* --- codes ------------------------------------------------------------------------------------ */

static const float ternary[4] = {-1, 0, 1, 2};
static const struct kind {
    const char *name;
    unsigned bits;
    const float *level; /* NULL: uniform */
    size_t group;       /* the only one; 0: any */
} kinds[] = {{"q2", 2, NULL, 0},
             {"t2", 2, ternary, 0},
             {"q3", 3, NULL, 0},
             {"q4", 4, NULL, 0},
             {"q8", 8, NULL, 0},
             {"e2m1", 4, pare_levels_e2m1, 0},
             {"e2m1", 4, pare_levels_e2m1, 16},
             {"e4m3", 8, pare_levels_e4m3, 0}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Packed weights: what the host knows, and the device. */
typedef struct packed {
    struct kind kind;
    size_t n, k, groups;
    uint8_t *codes; /* [n rounded up to 8, k], one per byte */
    pare_panel host;
} packed;

/* One code of FP8, in the last row, is NaN. `any`: the group of kinds that may have any. */
static packed pack(struct kind kind, size_t n, size_t k, size_t any, bool zeros)
{
    const unsigned bits = kind.bits;
    const size_t group = kind.group ? kind.group : any;
    packed p = {.kind = kind, .n = n, .k = k, .groups = (k + group - 1) / group};
    const size_t rows = (n + 7) / 8 * 8, planes = rows * p.groups;
    p.codes = memory(rows * k);
    for (size_t i = 0; i < rows * k; i++)
        p.codes[i] = (uint8_t)(draw() >> 4 & ((1u << bits) - 1));
    for (size_t i = 0; kind.level && bits == 8 && i < rows * k; i++)
        p.codes[i] &= (p.codes[i] & 0x7f) == 0x7f ? 0xfe : 0xff;
    p.codes[n * k - 1] |= kind.level && bits == 8 ? 0x7f : 0;
    uint8_t *const atoms = memory((n + 15) / 16 * 2 * (k / 32) * pare_atom_bytes(bits));
    uint16_t *const scales = memory(planes * sizeof *scales);
    uint8_t *const zero = memory(planes);
    pare_pack_codes(atoms, p.codes, k, rows, k, bits, NULL, p.groups, 0);
    for (size_t i = 0; i < planes; i++) {
        scales[i] = pare_f32_to_f16(ldexpf(number(), -(int)(draw() % 8)));
        zero[i] = (uint8_t)(draw() & ((1u << bits) - 1));
    }
    if (!zeros)
        free(zero);
    p.host = (pare_panel){.codes = atoms,
                          .scales = scales,
                          .zeros = zeros ? zero : NULL,
                          .n = rows,
                          .k = k,
                          .group = group};
    return p;
}

static void unpack(const packed *p)
{
    free(p->codes);
    free((void *)(uintptr_t)p->host.codes);
    free((void *)(uintptr_t)p->host.scales);
    free((void *)(uintptr_t)p->host.zeros);
}

static pare_cuda_shape shape_of(const char *kind, size_t m, const pare_cuda_gemm_f16_q4 *a)
{
    const pare_cuda_gemm_f16_many_q2 q2 = {.m = a->m, .n = a->n};
    const pare_cuda_gemm_f16_many_q3 q3 = {.m = a->m, .n = a->n};
    const pare_cuda_gemm_f16_many_q4 q4 = {.m = a->m, .n = a->n};
    const pare_cuda_gemm_f16_many_q8 q8 = {.m = a->m, .n = a->n};
    if (m <= 64)
        return pare_cuda_gemm_f16_q4_shape(a);
    return strchr(kind, '2') == kind + 1 && kind[0] != 'e' ? pare_cuda_gemm_f16_many_q2_shape(&q2)
           : strcmp(kind, "q3") == 0                       ? pare_cuda_gemm_f16_many_q3_shape(&q3)
           : strcmp(kind, "q8") == 0 || strcmp(kind, "e4m3") == 0
               ? pare_cuda_gemm_f16_many_q8_shape(&q8)
               : pare_cuda_gemm_f16_many_q4_shape(&q4);
}

static void multiply_codes(const packed *p, const operands *o, size_t first, size_t m, float *y)
{
    const size_t planes = p->host.n * p->groups, bytes = ((m - 1) * o->ldy + o->n) * sizeof *y;
    pare_panel w = p->host;
    w.codes = there(w.codes, p->host.n / 8 * (p->k / 32) * pare_atom_bytes(p->kind.bits));
    w.scales = there(w.scales, planes * 2);
    w.zeros = w.zeros ? there(w.zeros, planes) : NULL;
    const pare_cuda_gemm_f16_q4 a = {
        .x = there(o->x + first * o->ldx, ((m - 1) * o->ldx + (o->k + 63) / 64 * 64) * 2),
        .x_scale = there(o->x_scale + first, m * sizeof *y),
        .w = w,
        .y = room(bytes),
        .ldx = o->ldx,
        .ldy = o->ldy,
        .m = m,
        .n = o->n};
    char name[64];
    (void)snprintf(name, sizeof name, "pare_gemm_f16_%s%s_cuda", m > 64 ? "many_" : "",
                   p->kind.name);
    launch(name, shape_of(p->kind.name, m, &a), &a, sizeof a); /* all have the same members */
    for (size_t t = 0; t < m; t++)
        back(y + t * o->ldy, a.y + t * o->ldy, o->n * sizeof *y);
    drop();
}

/* A chain of 128 products at most, then a step per scale (k / 16 at most) and per warp. */
static void check_codes(const packed *p, const operands *o, const float *y)
{
    const double steps = 2 * (double)(o->k < 128 ? o->k : 128) + 8 + (double)o->k / 16 + 9;
    for (size_t t = 0; t < o->m; t++)
        for (size_t r = 0; r < o->n; r++) {
            double sum = 0, all = 0;
            for (size_t j = 0; j < o->k; j++) {
                const size_t at = (r / 8 * p->groups + j / p->host.group) * 8 + r % 8;
                const int z = p->host.zeros ? p->host.zeros[at] : 1 << (p->kind.bits - 1);
                const uint8_t u = p->codes[r * p->k + j];
                const double w = (p->kind.level ? (double)p->kind.level[u] : (double)(u - z)) *
                                 (double)pare_f16_to_f32(p->host.scales[at]);
                const double x = (double)pare_f16_to_f32(o->x[t * o->ldx + j]);
                sum += w * x;
                all += fabs(w * x);
            }
            const double s = (double)o->x_scale[t], now = (double)y[t * o->ldy + r];
            ck_assert_msg(isnan(sum) ? isnan(now)
                                     : fabs(now - sum * s) <= steps * 0x1p-24 * all * s,
                          "%s, token %zu, row %zu: %g, not %g +- %g", p->kind.name, t, r, now,
                          sum * s, steps * 0x1p-24 * all * s);
        }
}

static const struct {
    size_t m, n, k, group;
} packs[] = {{1, 33, 32, 32},     {2, 40, 1184, 128}, {3, 31, 160, 64},  {8, 32, 608, 1024},
             {9, 65, 288, 96},    {16, 8, 1152, 128}, {17, 37, 96, 32},  {33, 64, 256, 256},
             {64, 33, 1280, 640}, {63, 9, 416, 32},   {66, 72, 160, 96}, {130, 135, 288, 128}};
enum { PACKS = sizeof packs / sizeof *packs };

START_TEST(codes_are_within_the_bound_and_rows_on_their_own)
{
    if (left_out(_i, KINDS * PACKS))
        return;
    const size_t i = (size_t)_i % PACKS;
    const struct kind kind = kinds[(size_t)_i / PACKS % KINDS];
    state = (uint32_t)_i;
    start((ptx_options){.checks = PTX_FULL,
                        .model = (ptx_model)((size_t)_i / (KINDS * PACKS)),
                        .order = PTX_RANDOM,
                        .seed = (uint64_t)_i});
    const packed p = pack(kind, packs[i].n, packs[i].k, packs[i].group,
                          !kind.level && (i + (size_t)_i / PACKS) % 2);
    operands o = make(packs[i].m, packs[i].n, (packs[i].k + 63) / 64 * 64, 8, false);
    const size_t k = packs[i].k, some = o.m > 64 ? 65 : 1; /* the fewest of a kernel */
    float *const y = memory(o.m * o.ldy * sizeof *y), *const one = memory(some * o.ldy * sizeof *y);
    for (size_t j = 0; j < o.m * o.ldx; j++) /* behind k */
        o.x[j] = j % o.ldx >= k && j % o.ldx < o.k ? 0 : o.x[j];
    o.k = k;
    multiply_codes(&p, &o, 0, o.m, y);
    check_codes(&p, &o, y);
    for (size_t t = o.m > some ? o.m - some - 1 : 0; t + some <= o.m; t++) {
        multiply_codes(&p, &o, t, some, one);
        for (size_t j = 0; j < some; j++)
            ck_assert_msg(memcmp(one + j * o.ldy, y + (t + j) * o.ldy, o.n * sizeof *y) == 0,
                          "token %zu by itself", t + j);
    }
    free(one);
    free(y);
    forget(&o);
    unpack(&p);
    end();
}
END_TEST

/* --- 2:4 -------------------------------------------------------------------------------------- */

/* Pairs of columns of 4, ascending. */
static const uint8_t pairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};

/* dense [n, k] of the same weights, kept [n, ldv]. */
static pare_panel prune(size_t n, size_t k, uint16_t *dense)
{
    const size_t rows = (n + 7) / 8 * 8, kept = pare_24_kept(k);
    uint8_t *const which = memory(rows * kept), *const atoms = memory((rows + 8) * kept / 4);
    uint16_t *const values = memory(rows * kept * sizeof *values);
    memset(dense, 0, n * k * sizeof *dense);
    for (size_t i = 0; i < rows * kept; i += 2) {
        const size_t row = i / kept, column = i % kept * 2;
        const uint8_t *const pair = pairs[draw() % 6];
        for (size_t j = 0; j < 2; j++) {
            const bool there = row < n && column + pair[j] < k;
            which[i + j] = pair[j];
            values[i + j] = there ? pare_f32_to_f16(ldexpf(number(), (int)(draw() % 9) - 5)) : 0;
            if (there)
                dense[row * k + column + pair[j]] = values[i + j];
        }
    }
    pare_pack_codes(atoms, which, kept, rows, kept, 2, NULL, 0, 0);
    free(which);
    return (pare_panel){
        .indices = atoms, .values = values, .n = rows, .k = (k + 31) / 32 * 32, .ldv = kept};
}

static void multiply_pruned(const pare_panel *w, const operands *o, size_t first, size_t m,
                            float *y)
{
    const size_t kept = pare_24_kept(w->k), bytes = ((m - 1) * o->ldy + o->n) * sizeof *y;
    pare_panel p = *w;
    p.indices = there(w->indices, w->n * kept / 4);
    p.values = there(w->values, o->n * kept * 2);
    const pare_cuda_gemm_f16_s16 a = {
        .x = there(o->x + first * o->ldx, ((m - 1) * o->ldx + kept * 2) * 2),
        .x_scale = there(o->x_scale + first, m * sizeof *y),
        .w = p,
        .y = room(bytes),
        .ldx = o->ldx,
        .ldy = o->ldy,
        .m = m,
        .n = o->n};
    LAUNCH(gemm_f16_s16, a);
    for (size_t t = 0; t < m; t++)
        back(y + t * o->ldy, a.y + t * o->ldy, o->n * sizeof *y);
    drop();
}

static const struct {
    size_t m, n, k;
} pruned[] = {{1, 33, 64}, {3, 31, 1088}, {8, 40, 96}, {16, 9, 640}, {17, 65, 36}, {64, 32, 1040}};
enum { PRUNED = sizeof pruned / sizeof *pruned };

START_TEST(pairs_are_within_the_bound_and_rows_on_their_own)
{
    if (left_out(_i, PRUNED))
        return;
    const size_t i = (size_t)_i % PRUNED, wide = pare_24_kept(pruned[i].k) * 2;
    state = (uint32_t)_i;
    start((ptx_options){.checks = PTX_FULL,
                        .model = (ptx_model)(_i / PRUNED),
                        .order = PTX_RANDOM,
                        .seed = (uint64_t)_i});
    operands o = make(pruned[i].m, pruned[i].n, wide, 8, false);
    for (size_t j = 0; j < o.m * o.ldx; j++) /* behind k */
        o.x[j] = j % o.ldx >= pruned[i].k && j % o.ldx < wide ? 0 : o.x[j];
    o.ldw = o.k = pruned[i].k;
    const pare_panel w = prune(o.n, o.k, o.w);
    float *const y = memory(o.m * o.ldy * sizeof *y), *const one = memory(o.ldy * sizeof *y);
    multiply_pruned(&w, &o, 0, o.m, y);
    check(&o, y);
    for (size_t t = o.m > 1 ? o.m - 2 : 0; t < o.m; t++) {
        multiply_pruned(&w, &o, t, 1, one);
        ck_assert_msg(memcmp(one, y + t * o.ldy, o.n * sizeof *y) == 0, "token %zu by itself", t);
    }
    free(one);
    free(y);
    forget(&o);
    free((void *)(uintptr_t)w.indices);
    free((void *)(uintptr_t)w.values);
    end();
}
END_TEST

/* --- what the interpreter counts ---------------------------------------------------------------
 */

#ifndef PTX_GPU
/* Every byte of the codes once from the memory, and all of each sector. */
START_TEST(codes_are_read_once)
{
    const unsigned bits = kinds[_i / 2].bits;
    const size_t m = _i % 2 ? 8 : 1, n = 512, k = 4096;
    start((ptx_options){.count = true});
    const packed p = pack(kinds[_i / 2], n, k, 128, false);
    const operands o = make(m, n, k, 0, false);
    float *const y = memory(m * o.ldy * sizeof *y);
    multiply_codes(&p, &o, 0, m, y);
    const ptx_counts *const c = ptx_counted(pare_device_ptx_machine(d));
    const size_t must = n * k * bits / 8 + n * p.groups * 2 + m * k * 2 + m * n * sizeof *y;
    ck_assert_msg((double)c->distinct * 32 <= 1.03 * (double)must, "%llu sectors for %zu bytes",
                  (unsigned long long)c->distinct, must);
    const size_t most = n * k * bits / 8 / 32 + n / 32 * (m * k * 2 / 32) + n * p.groups / 8 +
                        m * n / 4 + n / 32 * 16;
    ck_assert_msg(c->sectors <= most, "%llu sectors, %zu at most", (unsigned long long)c->sectors,
                  most);
    ck_assert_msg(c->wavefronts == c->least, "%llu passes over shared memory, %llu would do",
                  (unsigned long long)c->wavefronts, (unsigned long long)c->least);
    free(y);
    forget(&o);
    unpack(&p);
    end();
}
END_TEST

/* Every sector of the weights once for all tokens of a tile, and no conflict of banks. */
START_TEST(weights_are_read_once)
{
    static const size_t tokens[] = {1, 16, 64, 128};
    const size_t m = tokens[_i], n = 512, k = 1024;
    start((ptx_options){.count = true});
    const operands o = make(m, n, k, 0, true);
    float *const y = memory(m * o.ldy * sizeof *y);
    multiply(&o, 0, m, y);
    const ptx_counts *const c = ptx_counted(pare_device_ptx_machine(d));
    const size_t tiles = n / pare_cuda_f16_tile_of(m).rows;
    const uint64_t of_weights = n * k * 2 / 32, of_x = m * k * 2 / 32;
    const uint64_t rest = c->sectors - of_weights - tiles * of_x;
    ck_assert_msg(rest <= 5 * (m < 4 ? 4 : m) * n * sizeof *y / 128,
                  "%llu sectors more than w, x and y", (unsigned long long)rest);
    ck_assert_msg(c->wavefronts == c->least, "%llu passes over shared memory, %llu would do",
                  (unsigned long long)c->wavefronts, (unsigned long long)c->least);
    ck_assert_uint_gt(c->overlapped, 0);
    free(y);
    forget(&o);
    end();
}
END_TEST
#endif

int main(void)
{
    Suite *const s = suite_create("ptx.f16");
    TCase *const t = tcase_create("f16");
    tcase_add_loop_test(t, rows_become_f16_times_a_power_of_two, 0, 21);
    tcase_add_loop_test(t, products_are_within_the_bound_and_rows_on_their_own, 0, MODELS * SHAPES);
    suite_add_tcase(s, t);
    TCase *const u = tcase_create("codes");
    tcase_add_loop_test(u, codes_are_within_the_bound_and_rows_on_their_own, 0,
                        MODELS * KINDS * PACKS);
    suite_add_tcase(s, u);
    TCase *const v = tcase_create("pairs");
    tcase_add_loop_test(v, pairs_are_within_the_bound_and_rows_on_their_own, 0, MODELS * PRUNED);
    suite_add_tcase(s, v);
#ifndef PTX_GPU
    tcase_add_loop_test(t, weights_are_read_once, 0, 4);
    tcase_add_loop_test(u, codes_are_read_once, 0, 2 * KINDS);
#endif
    return unit_main(s);
}
