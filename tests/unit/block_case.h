/* A block, its inputs, and the outputs of its float weights, for methods that learn how to round.
 */
#ifndef PARE_TESTS_UNIT_BLOCK_CASE_H
#define PARE_TESTS_UNIT_BLOCK_CASE_H

#include "calib/block_loss.h"
#include "quant/rtn.h"
#include "runtime/leaves.h"
#include "runtime/linalg.h"
#include "tests/unit/tiny.h"

/* Step of the grid that covers lo .. hi, in double: below 0 where code 0 stands for hi. */
static inline double covering_step(const pare_grid *g, double lo, double hi)
{
    const double half = 1u << (g->bits - 1), top = (1u << g->bits) - 1;
    if (!g->symmetric)
        return (hi - lo) / top;
    return hi > -lo ? -fmax(hi / half, -lo / (half - 1)) : fmax(hi / (half - 1), -lo / half);
}

enum { HIDDEN = 64, INNER = 96, WINDOW = 12, SAMPLES = 6 };

typedef struct home {
    tiny_home h;
    pare_model model;
    pare_block block;
    pare_block current;
    pare_forward f;
    pare_grid grid;
    pare_block_data data;
    float x[SAMPLES * WINDOW * HIDDEN], y[SAMPLES * WINDOW * HIDDEN];
    long reads_left;
    size_t reads[SAMPLES]; /* of each window */
} home;

static inline pare_status read_windows(void *self, size_t first, size_t count, float *x, float *y)
{
    home *const m = self;
    const size_t stride = (size_t)WINDOW * HIDDEN;
    ck_assert_uint_le(first + count, SAMPLES);
    if (m->reads_left-- == 0)
        return pare_fail(&m->h.cx, PARE_EIO, "no more windows");
    for (size_t i = 0; i < count; i++)
        m->reads[first + i]++;
    memcpy(x, m->x + first * stride, count * stride * sizeof *x);
    memcpy(y, m->y + first * stride, count * stride * sizeof *y);
    return PARE_OK;
}

static inline void run_block(home *m, const pare_block *b, float *y)
{
    pare_kv kv;
    const pare_batch batch = {SAMPLES, WINDOW, 0};
    ck_assert_int_eq(pare_kv_take(&m->h.arena, &m->model.config, SAMPLES, WINDOW, &kv), PARE_OK);
    memcpy(y, m->x, sizeof m->x);
    ck_assert_int_eq(pare_block_forward(&m->h.cx, &m->h.arena, &m->f, b, batch, y, &kv, NULL),
                     PARE_OK);
}

static inline void begin(home *m, size_t threads, unsigned bits)
{
    *m = (home){.grid = {.bits = bits, .group = 32, .f16_scales = true}, .reads_left = -1};
    tiny_begin(&m->h, threads);
    pare_arena *const a = &m->h.arena;
    pare_config *const c = &m->model.config;
    *c = (pare_config){.arch = pare_arch_find("llama"),
                       .hidden = HIDDEN,
                       .intermediate = INNER,
                       .blocks = 1,
                       .heads = 4,
                       .kv_heads = 2,
                       .head_dim = 16,
                       .norm_eps = 1e-5,
                       .rope = {.theta = 10000}};
    for (unsigned r = 0; r < PARE_COMMON_ROLES; r++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)r, &n, &k);
        m->block.linear[r] = tiny_dense(a, PARE_F32, r, n, k);
    }
    m->block.norm[0] = tiny_ones(a, 30, HIDDEN);
    m->block.norm[1] = tiny_ones(a, 31, HIDDEN);
    m->block.linear[PARE_ROLE_V].bias = tiny_ones(a, 32, m->block.linear[PARE_ROLE_V].n);
    ck_assert_int_eq(pare_forward_init(&m->h.cx, a, &m->model, WINDOW, true, &m->f), PARE_OK);
    ck_assert_int_eq(pare_block_take(a, c, pare_block_biases(&m->block), &m->current), PARE_OK);
    pare_block_load(&m->h.cx, c, &m->block, &m->current);
    for (size_t i = 0; i < sizeof m->x / sizeof *m->x; i++)
        m->x[i] = (float)(pare_random_normal(5, 1, i) * (i % HIDDEN % 9 == 0 ? 4 : 0.5));
    run_block(m, &m->current, m->y);
    m->data = (pare_block_data){.config = c,
                                .forward = &m->f,
                                .current = &m->current,
                                .samples = SAMPLES,
                                .window = WINDOW,
                                .read = read_windows,
                                .self = m};
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++)
        m->data.grid[r] = &m->grid;
}

/* A copy of m->current. */
static inline void copy_block(home *m, pare_block *to)
{
    const pare_config *const c = &m->model.config;
    ck_assert_int_eq(pare_block_take(&m->h.arena, c, pare_block_biases(&m->block), to), PARE_OK);
    pare_block_load(&m->h.cx, c, &m->current, to);
}

/* Loss of a block whose weights are rounded to nearest, in place. */
static inline double rounded_loss(home *m, pare_block *b)
{
    static float y[SAMPLES * WINDOW * HIDDEN];
    for (size_t r = 0; r < PARE_COMMON_ROLES; r++) {
        const size_t n = m->block.linear[r].n, k = m->block.linear[r].k;
        pare_codes codes;
        ck_assert_int_eq(pare_codes_take(&m->h.arena, &m->grid, n, k, &codes), PARE_OK);
        ck_assert_int_eq(
            pare_rtn_quantize(&m->h.cx, &m->grid, b->linear[r].floats, NULL, n, k, &codes),
            PARE_OK);
        pare_codes_values(&m->grid, &codes, b->linear[r].floats);
    }
    run_block(m, b, y);
    double error = 0, whole = 0;
    for (size_t i = 0; i < sizeof y / sizeof *y; i++) {
        error += pow((double)y[i] - (double)m->y[i], 2);
        whole += pow((double)m->y[i], 2);
    }
    return error / whole;
}

/* Learns in `a`, whatever the method; PARE_OK, or what it returned. */
typedef pare_status learn_in(home *m, pare_arena *a);

/* Memory stays within `bound`, and may end anywhere. */
static inline void check_memory(home *m, learn_in *learn, size_t bound)
{
    pare_arena a = {.cx = &m->h.cx};
    const size_t before = m->h.cx.live_bytes;
    m->h.cx.peak_bytes = before;
    ck_assert_int_eq(learn(m, &a), PARE_OK);
    ck_assert_uint_le(m->h.cx.peak_bytes - before, bound);
    pare_arena_release(&a);
    const pare_alloc alloc = m->h.cx.alloc;
    for (long left = 0;; left += 1 + left / 8) {
        unit_failing failing = {.left = left};
        m->h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        a = (pare_arena){.cx = &m->h.cx};
        const pare_status s = learn(m, &a);
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
        pare_ctx_clear(&m->h.cx);
        if (s == PARE_OK)
            break;
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_int_lt(left, 3000);
    }
    m->h.cx.alloc = alloc;
}

#endif
