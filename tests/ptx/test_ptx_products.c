/* Products at full size: weights are read once, and nothing costs more than counters.csv beside
 * this file says. Its instructions count for the version of nvcc that its first line names. */
#include <string.h>

#include "kernels/cuda/cuda_blocks.h"
#include "kernels/cuda/cuda_shape.h"
#include "kernels/kernels.h"
#include "kernels/layout.h"
#include "tests/ptx/device_ptx.h"
#include "tests/unit/unit.h"

enum { WIDE = 4096, TAKEN = 7 };

/* All kernels have the same members. */
typedef pare_cuda_shape shape_of(const pare_cuda_gemm_x8_q4 *a, bool many);

typedef struct kind {
    const char *name;
    unsigned bits;
    bool sparse;
    shape_of *shape;
} kind;

static pare_ctx cx;
static pare_device *d;
static pare_address taken[TAKEN];
static size_t count, bytes_of_all;
static void *near[TAKEN];

/* Filled with bytes that differ; what it is for may follow. */
static void *bytes_for(size_t bytes, uint32_t seed)
{
    uint8_t *const p = malloc(bytes);
    ck_assert_ptr_nonnull(p);
    for (size_t i = 0; i < bytes; i++)
        p[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    bytes_of_all += bytes;
    return near[count] = p;
}

static void *there(size_t bytes)
{
    ck_assert_int_eq(d->op->take(&cx, d, bytes, &taken[count]), PARE_OK);
    ck_assert_int_eq(d->op->put(&cx, d, taken[count], near[count], bytes), PARE_OK);
    return (void *)(uintptr_t)taken[count++]; // NOLINT: an address of the device
}

typedef struct operands {
    pare_x8 x;
    pare_panel w;
    float *y;
} operands;

/* `h`: on the host, y NULL. */
static void make(const kind *k, size_t m, size_t n, size_t wide, size_t group, operands *h,
                 operands *dev)
{
    const size_t kept = k->sparse ? pare_24_kept(wide) : wide, groups = (wide + group - 1) / group;
    count = bytes_of_all = 0;
    *h = (operands){.x = {.m = m, .k = wide, .group = group},
                    .w = {.n = n, .k = wide, .group = group}};
    *dev = *h;
#define UP(to, bytes, seed) (h->to = bytes_for(bytes, seed), dev->to = there(bytes))
    UP(w.codes, n * kept * k->bits / 8, 1);
    uint8_t *const indices = bytes_for(n * kept / 4, 2);
    for (size_t i = 0; i < n * kept / 4; i++) /* pairs 0 2, 0 3, 1 2, 1 3 */
        indices[i] = (uint8_t)(i % 2 ? indices[i] | 0xaa : indices[i] & 0x55);
    h->w.indices = indices;
    dev->w.indices = there(n * kept / 4);
    bytes_of_all -= k->sparse ? 0 : n * kept / 4;
    if (!k->sparse)
        h->w.indices = dev->w.indices = NULL;
    uint16_t *const scales = bytes_for(n * groups * 2, 3);
    for (size_t i = 0; i < n * groups; i++)
        scales[i] = (uint16_t)(0x2c00 | (scales[i] & 0x3ff));
    h->w.scales = scales;
    dev->w.scales = there(n * groups * 2);
    int8_t *const codes = bytes_for(m * wide, 4);
    int32_t *sums;
    h->x.codes = codes;
    dev->x.codes = there(m * wide);
    float *const steps = bytes_for(m * groups * 4, 5);
    for (size_t i = 0; i < m * groups; i++)
        steps[i] = 0.01f + (float)(i % 13) / 7;
    h->x.scales = steps;
    dev->x.scales = there(m * groups * 4);
    sums = bytes_for(m * groups * 4, 6);
    memset(sums, 0, m * groups * 4);
    for (size_t i = 0; i < m * wide; i++)
        sums[i / wide * groups + i % wide / group] += codes[i];
    h->x.sums = sums;
    dev->x.sums = there(m * groups * 4);
    UP(y, m * n * 4, 7);
}

static void drop(void)
{
    for (size_t i = 0; i < count; i++) {
        d->op->give(&cx, d, taken[i]);
        free(near[i]);
    }
}

static pare_status launch(const kind *k, const operands *o)
{
    const bool many = pare_cuda_x8_many(o->x.m, o->w.n);
    const pare_cuda_gemm_x8_q4 a = {.x = o->x, .w = o->w, .y = o->y, .ldy = o->w.n, .n = o->w.n};
    const pare_cuda_shape s = k->shape(&a, many);
    const pare_launch l = {{s.grid[0], s.grid[1], 1}, {s.block, 1, 1}, s.shared};
    char name[64];
    void *kernel;
    (void)snprintf(name, sizeof name, "pare_gemm_x8_%s%s_cuda", many ? "many_" : "", k->name);
    PARE_TRY(d->op->kernel(&cx, d, name, &kernel));
    return d->op->launch(&cx, d, kernel, &l, &a, sizeof a);
}

#define SHAPE(name)                                                                                \
    static pare_cuda_shape name(const pare_cuda_gemm_x8_q4 *a, bool many)                          \
    {                                                                                              \
        pare_cuda_gemm_x8_##name few;                                                              \
        pare_cuda_gemm_x8_many_##name all;                                                         \
        memcpy(&few, a, sizeof few);                                                               \
        memcpy(&all, a, sizeof all);                                                               \
        return many ? pare_cuda_gemm_x8_many_##name##_shape(&all)                                  \
                    : pare_cuda_gemm_x8_##name##_shape(&few);                                      \
    }
SHAPE(q2)
SHAPE(q3)
SHAPE(q4)
SHAPE(q8)
SHAPE(t2)
SHAPE(s4)
SHAPE(s8)

static const kind kinds[] = {{"q2", 2, false, q2}, {"q3", 3, false, q3}, {"q4", 4, false, q4},
                             {"q8", 8, false, q8}, {"t2", 2, false, t2}, {"s4", 4, true, s4},
                             {"s8", 8, true, s8}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void open_with(const char *files, ptx_options run)
{
    const pare_device_ptx_options options = {.run = run};
    pare_ctx_init(&cx);
    ck_assert_msg(pare_device_ptx_open(&cx, files, &options, &d) == PARE_OK, "%s", cx.what);
}

/* The row of counters.csv: most instructions (any, of another nvcc), sectors, wavefronts. */
static bool row_of(const char *name, size_t m, unsigned long long most[3])
{
    FILE *const f = fopen(PARE_SOURCE_DIR "/tests/ptx/counters.csv", "r");
    char line[256], start[64];
    bool found = false;
    ck_assert_ptr_nonnull(f);
    (void)snprintf(start, sizeof start, "%s,%zu,", name, m);
    ck_assert_ptr_nonnull(fgets(line, sizeof line, f));
    const bool same = strcmp(line, "# nvcc " PARE_CUDA_VERSION "\n") == 0;
    while (!found && fgets(line, sizeof line, f))
        found = strncmp(line, start, strlen(start)) == 0 &&
                sscanf(line + strlen(start), "%llu,%llu,%llu", &most[0], &most[1], &most[2]) == 3;
    (void)fclose(f);
    most[0] = same ? most[0] : UINT64_MAX;
    return found;
}

/* What the last launch did. */
static void check_counts(const char *name, size_t m)
{
    unsigned long long most[3] = {0};
    const ptx_counts *const c = ptx_counted(pare_device_ptx_machine(d));
    const bool found = row_of(name, m, most);
    ck_assert_msg(found && c->instructions <= most[0] && c->sectors <= most[1] &&
                      c->wavefronts <= most[2],
                  "more than the row of tests/ptx/counters.csv: %s,%zu,%llu,%llu,%llu,%llu", name,
                  m, (unsigned long long)c->instructions, (unsigned long long)c->sectors,
                  (unsigned long long)c->wavefronts, (unsigned long long)c->least);
    const double must = (double)bytes_of_all;
    ck_assert_msg((double)c->distinct * 32 <= 1.03 * must, "%s: %llu sectors for %.0f bytes", name,
                  (unsigned long long)c->distinct, must);
    drop();
    d->op->close(&cx, d);
}

/* 4096 x 4096, or 8192 rows of 1024 columns, whose tiles are the large ones. */
START_TEST(a_product_costs_no_more_than_its_row)
{
    static const size_t tokens[] = {1, 8, 64, 256};
    const kind *const k = &kinds[_i / 4];
    const size_t m = tokens[_i % 4];
    operands h, dev;
    open_with(PARE_PTX_FILES, (ptx_options){.count = true});
    make(k, m, m < 256 ? WIDE : 2 * WIDE, m < 256 ? WIDE : WIDE / 4, 128, &h, &dev);
    ck_assert_msg(launch(k, &dev) == PARE_OK, "%s", cx.what);
    check_counts(k->name, m);
}
END_TEST

/* Codes times floats. */
static const struct float_kind {
    const char *name; /* gemm_f32_.. */
    pare_decoding how;
    unsigned bits;
    size_t group;
} float_kinds[] = {{"uniform", PARE_DECODE_F32, 2, 128},   {"uniform", PARE_DECODE_F32, 3, 128},
                   {"uniform", PARE_DECODE_F32, 4, 128},   {"uniform", PARE_DECODE_F32, 8, 128},
                   {"table", PARE_DECODE_TABLE, 4, 32},    {"table", PARE_DECODE_TABLE, 4, 16},
                   {"table", PARE_DECODE_FP8, 8, 128},     {"book", PARE_DECODE_BOOK, 4, WIDE},
                   {"binary", PARE_DECODE_BINARY, 2, 128}, {"super", PARE_DECODE_SUPER, 4, 256},
                   {"super", PARE_DECODE_SUPER, 6, 256},   {"exl3", PARE_DECODE_EXL3, 2, WIDE},
                   {"exl3", PARE_DECODE_EXL3, 3, WIDE},    {"exl3", PARE_DECODE_EXL3, 4, WIDE},
                   {"exl3", PARE_DECODE_EXL3, 8, WIDE}};
enum { FLOAT_KINDS = sizeof float_kinds / sizeof *float_kinds, ROWS = 1024 };

/* Bytes on both sides; NULL if there are none. */
static void *both(size_t bytes)
{
    if (bytes == 0)
        return NULL;
    (void)bytes_for(bytes, (uint32_t)count + 1);
    return there(bytes);
}

START_TEST(codes_times_floats_cost_no_more_than_their_row)
{
    const struct float_kind *const k = &float_kinds[_i / 2];
    const size_t m = _i % 2 ? 8 : 1, planes = (size_t)ROWS * WIDE / k->group;
    const bool magnitudes = k->how == PARE_DECODE_BINARY, book = k->how == PARE_DECODE_BOOK;
    const bool scaled = !magnitudes && !book && k->how != PARE_DECODE_EXL3;
    const bool table = k->how == PARE_DECODE_TABLE || k->how == PARE_DECODE_FP8;
    const bool sub = k->how == PARE_DECODE_SUPER, uniform = k->how == PARE_DECODE_F32;
    char name[64];
    void *kernel;
    open_with(PARE_PTX_FILES, (ptx_options){.count = true});
    count = bytes_of_all = 0;
    const pare_cuda_gemm_f32_uniform a = {
        .x = both(m * WIDE * sizeof(float)),
        .y = both(m * ROWS * sizeof(float)),
        .level = both(table ? sizeof(float) << k->bits : 0),
        .w = {.codes = both((size_t)ROWS * WIDE * k->bits / 8),
              .scales = both(scaled ? planes * 2 : 0),
              .zeros = both(uniform ? planes : 0),
              .book = both(magnitudes ? planes * 8
                           : book     ? (size_t)ROWS * 2 << k->bits
                                      : 0),
              .minima = both(sub && k->bits == 4 ? planes * 2 : 0),
              .sub = both(sub ? (size_t)ROWS * WIDE / 16 : 0),
              .n = ROWS,
              .k = WIDE,
              .group = k->group},
        .ldx = WIDE,
        .ldy = ROWS,
        .m = m,
        .n = ROWS,
        .k = WIDE,
        .bits = k->bits};
    const pare_cuda_shape s = pare_cuda_gemm_f32_uniform_shape(&a); /* that of all */
    const pare_launch l = {{s.grid[0], s.grid[1], 1}, {s.block, 1, 1}, s.shared};
    (void)snprintf(name, sizeof name, "pare_gemm_f32_%s_cuda", k->name);
    ck_assert_int_eq(d->op->kernel(&cx, d, name, &kernel), PARE_OK);
    ck_assert_msg(d->op->launch(&cx, d, kernel, &l, &a, sizeof a) == PARE_OK, "%s", cx.what);
    (void)snprintf(name, sizeof name, "%s%u%s", k->name, k->bits, k->group == 16 ? "_16" : "");
    check_counts(name, m);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("ptx.products");
    TCase *const t = tcase_create("products");
    tcase_add_loop_test(t, a_product_costs_no_more_than_its_row, 0, 4 * KINDS);
    tcase_add_loop_test(t, codes_times_floats_cost_no_more_than_their_row, 0, 2 * FLOAT_KINDS);
    suite_add_tcase(s, t);
    return unit_main(s);
}
