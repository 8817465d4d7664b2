/* The levels of KVQuant: what is sampled, and what is found in it. */
#include "quant/kv_cache.h"
#include "tests/unit/tiny.h"

enum { WIDTH = 20, D = 10 };

static double from_half(const pare_ctx *cx, uint16_t h)
{
    float x;
    cx->kernels.cvt_f16_f32(&x, &h, 1);
    return (double)x;
}

static const pare_config shape = {.blocks = 1, .heads = 4, .kv_heads = 2, .head_dim = D};

static pare_kv_tables tables_of(pare_arena *a)
{
    pare_kv_tables t = {{0}, {0}, NULL, NULL};
    t.key_scale = tiny_take(a, WIDTH, sizeof *t.key_scale);
    t.key_low = tiny_take(a, WIDTH, sizeof *t.key_low);
    return t;
}

static pare_kv_sample sample_of(pare_arena *a, uint64_t tokens)
{
    pare_kv_sample s;
    ck_assert_int_eq(pare_kv_sample_take(a, &shape, tokens, &s), PARE_OK);
    return s;
}

START_TEST(a_sample_is_spread_evenly_over_all_tokens)
{
    static const uint64_t totals[] = {1, 7, PARE_KV_SAMPLE_ROWS, PARE_KV_SAMPLE_ROWS + 1,
                                      10 * PARE_KV_SAMPLE_ROWS + 3};
    const uint64_t total = totals[_i];
    tiny_home h;
    tiny_begin(&h, 1);
    pare_kv_sample s = sample_of(&h.arena, total);
    float k[3 * WIDTH], v[3 * WIDTH];
    for (uint64_t t = 0; t < total; t += 3) {
        const size_t rows = total - t < 3 ? (size_t)(total - t) : 3;
        for (size_t i = 0; i < rows * WIDTH; i++) {
            k[i] = (float)(t + i / WIDTH);
            v[i] = -k[i];
        }
        pare_kv_sample_add(&s, k, v, rows);
    }
    const size_t most = PARE_KV_SAMPLE_ROWS;
    ck_assert_uint_eq(s.rows, total < most ? total : most);
    const double step = (double)total / (double)s.rows;
    for (size_t i = 0; i < s.rows; i++) {
        const double token = (double)s.k[i * WIDTH + WIDTH - 1];
        ck_assert_double_le(fabs(token - ((double)i + 0.5) * step), step + 1);
        ck_assert_double_eq((double)s.v[i * WIDTH], -token);
    }
    tiny_end(&h);
}
END_TEST

/* Keys of eight numbers per channel, the same up to the channel's mean and size. */
START_TEST(numbers_that_lie_on_eight_levels_are_found_again)
{
    static const double on[PARE_KV_LEVELS] = {-2, -1.25, -0.75, -0.25, 0.125, 0.5, 1.25, 2.375};
    tiny_home h;
    tiny_begin(&h, 1);
    const size_t rows = 800;
    pare_kv_sample s = sample_of(&h.arena, rows);
    pare_kv_tables t = tables_of(&h.arena);
    float k[WIDTH], v[WIDTH];
    double deviation = 0;
    for (size_t i = 0; i < PARE_KV_LEVELS; i++)
        deviation += on[i] * on[i] / PARE_KV_LEVELS;
    for (size_t r = 0; r < rows; r++) {
        for (size_t c = 0; c < WIDTH; c++) {
            const double size = 1 + (double)c / 4;
            k[c] = (float)(3 * size * on[(r + c) % PARE_KV_LEVELS] + (double)c - 7);
            /* half a range of 2 around 1: the ends, and six numbers between them */
            v[c] = (float)(1 + 2 * (c % D == 0 ? -1 : c % D == 1 ? 1 : on[1 + (r + c) % 6] / 1.5));
        }
        pare_kv_sample_add(&s, k, v, 1);
    }
    ck_assert_int_eq(pare_kv_calibrate(&h.cx, &h.arena, &s, &t), PARE_OK);
    for (size_t c = 0; c < WIDTH; c++) {
        const double size = 1 + (double)c / 4;
        ck_assert_double_eq_tol(from_half(&h.cx, t.key_scale[c]), 9 * size * sqrt(deviation),
                                0.01 * size);
        ck_assert_double_eq_tol(from_half(&h.cx, t.key_low[c]), (double)c - 7, 0.01);
    }
    const double ends[PARE_KV_LEVELS] = {-1,          on[1] / 1.5, on[2] / 1.5, on[3] / 1.5,
                                         on[4] / 1.5, on[5] / 1.5, on[6] / 1.5, 1};
    for (size_t i = 0; i < PARE_KV_LEVELS; i++) {
        ck_assert_double_eq_tol(from_half(&h.cx, t.key_level[i]), on[i] / (3 * sqrt(deviation)),
                                2e-3);
        ck_assert_double_eq_tol(from_half(&h.cx, t.value_level[i]), ends[i], 2e-3);
    }
    tiny_end(&h);
}
END_TEST

/* Squared error of the keys of a sample when they are rounded to the levels. */
static double key_error(const pare_ctx *cx, const pare_kv_sample *s, const pare_kv_tables *t,
                        const double *level)
{
    double error = 0;
    for (size_t i = 0; i < s->rows * WIDTH; i++) {
        const double scale = from_half(cx, t->key_scale[i % WIDTH]),
                     low = from_half(cx, t->key_low[i % WIDTH]);
        double best = INFINITY;
        for (size_t l = 0; l < PARE_KV_LEVELS; l++)
            best = fmin(best, fabs(level[l] * scale + low - (double)s->k[i]));
        error += best * best;
    }
    return error;
}

START_TEST(no_other_levels_near_by_are_better)
{
    tiny_home h;
    tiny_begin(&h, 1);
    pare_kv_sample s = sample_of(&h.arena, 400);
    pare_kv_tables t = tables_of(&h.arena);
    float k[WIDTH], v[WIDTH];
    for (size_t r = 0; r < 400; r++) {
        for (size_t c = 0; c < WIDTH; c++) {
            k[c] = (float)((1 + (double)c) * pare_random_normal(60, c, r));
            v[c] = (float)pare_random_normal(61, c, r);
        }
        pare_kv_sample_add(&s, k, v, 1);
    }
    ck_assert_int_eq(pare_kv_calibrate(&h.cx, &h.arena, &s, &t), PARE_OK);
    double level[PARE_KV_LEVELS];
    for (size_t i = 0; i < PARE_KV_LEVELS; i++)
        level[i] = from_half(&h.cx, t.key_level[i]);
    const double best = key_error(&h.cx, &s, &t, level);
    for (size_t i = 0; i < PARE_KV_LEVELS; i++) {
        ck_assert(i == 0 || level[i - 1] < level[i]);
        for (int side = -1; side <= 1; side += 2) {
            const double was = level[i];
            level[i] += side * 0.02;
            ck_assert_double_ge(key_error(&h.cx, &s, &t, level), best);
            level[i] = was;
        }
    }
    /* a uniform grid over 2.5 deviations is worse by far more than rounding */
    for (size_t i = 0; i < PARE_KV_LEVELS; i++)
        level[i] = (-1 + 2 * (double)i / (PARE_KV_LEVELS - 1)) * 2.5 / 3;
    ck_assert_double_gt(key_error(&h.cx, &s, &t, level), best * 1.05);
    tiny_end(&h);
}
END_TEST

START_TEST(what_has_no_levels_is_refused)
{
    tiny_home h;
    tiny_begin(&h, 1);
    pare_kv_tables t = tables_of(&h.arena);
    float k[WIDTH] = {0}, v[WIDTH] = {0};
    pare_kv_sample none = sample_of(&h.arena, 4);
    ck_assert_int_eq(pare_kv_calibrate(&h.cx, &h.arena, &none, &t), PARE_EINVAL);
    for (size_t i = 0; i < 3; i++) {
        pare_kv_sample s = sample_of(&h.arena, 4);
        (i == 1 ? v : k)[3] = i == 0 ? (float)NAN : i == 1 ? INFINITY : 70000.0f;
        pare_kv_sample_add(&s, k, v, 1);
        pare_ctx_clear(&h.cx);
        ck_assert_int_eq(pare_kv_calibrate(&h.cx, &h.arena, &s, &t), PARE_ENUMERIC);
        k[3] = v[3] = 0;
    }
    pare_kv_sample zeros = sample_of(&h.arena, 4);
    pare_kv_sample_add(&zeros, k, v, 1);
    ck_assert_int_eq(pare_kv_calibrate(&h.cx, &h.arena, &zeros, &t), PARE_OK);
    ck_assert_uint_eq(t.key_scale[0], 0);
    tiny_end(&h);
}
END_TEST

START_TEST(memory_stays_below_its_bound_and_every_refusal_is_reported)
{
    pare_status s = PARE_ENOMEM;
    for (long n = 0; s != PARE_OK; n++) {
        tiny_home h;
        tiny_begin(&h, 1);
        pare_kv_tables t = tables_of(&h.arena);
        const pare_alloc plain = h.cx.alloc;
        unit_failing failing = {.left = n};
        h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        pare_arena a = {.cx = &h.cx};
        pare_kv_sample sample;
        float k[WIDTH] = {1}, v[WIDTH] = {1};
        s = pare_kv_sample_take(&a, &shape, 1, &sample);
        if (s == PARE_OK) {
            pare_kv_sample_add(&sample, k, v, 1);
            s = pare_kv_calibrate(&h.cx, &a, &sample, &t);
        }
        ck_assert(s == PARE_OK || s == PARE_ENOMEM);
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
        h.cx.alloc = plain;
        tiny_end(&h);
    }
    tiny_home h;
    tiny_begin(&h, 1);
    pare_arena a;
    pare_kv_sample sample;
    float k[WIDTH] = {1}, v[WIDTH] = {1};
    pare_kv_tables t = tables_of(&h.arena);
    ck_assert_int_eq(pare_arena_init(&h.cx, &a, (size_t)pare_kv_calibrate_bytes(&shape)), PARE_OK);
    const size_t live = h.cx.live_bytes;
    ck_assert_int_eq(pare_kv_sample_take(&a, &shape, 1, &sample), PARE_OK);
    pare_kv_sample_add(&sample, k, v, 1);
    ck_assert_int_eq(pare_kv_calibrate(&h.cx, &a, &sample, &t), PARE_OK);
    ck_assert_uint_eq(h.cx.live_bytes, live);
    pare_arena_release(&a);
    tiny_end(&h);
}
END_TEST

/* What the cache of a block will be given. */
typedef struct witness {
    float x[5 * 44], k[5 * WIDTH], v[5 * WIDTH];
    size_t calls;
} witness;

static pare_status see(void *self, size_t part, pare_site site, const float *x, size_t rows,
                       size_t k)
{
    witness *const w = self;
    ck_assert_uint_eq(part, 0);
    if (site == PARE_SITE_ATTENTION)
        memcpy(w->x, x, rows * k * sizeof *x);
    return PARE_OK;
}

static pare_status see_qkv(void *self, const float *q, const float *k, const float *v, size_t rows)
{
    (void)q;
    witness *const w = self;
    w->calls++;
    memcpy(w->k, k, rows * WIDTH * sizeof *k);
    memcpy(w->v, v, rows * WIDTH * sizeof *v);
    return PARE_OK;
}

START_TEST(a_tap_sees_keys_before_they_are_rotated)
{
    tiny_home h;
    tiny_begin(&h, 2);
    const pare_model m = tiny_model(&h.arena, tiny_kinds[0]);
    pare_forward f;
    pare_kv kv;
    witness w = {.calls = 0};
    float x[5 * 44], before[5 * 44], want[5 * WIDTH];
    ck_assert_int_eq(pare_forward_init(&h.cx, &h.arena, &m, 5, true, &f), PARE_OK);
    ck_assert_int_eq(pare_kv_take(&h.arena, &m.config, 1, 5, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(&h.cx, &m, tiny_tokens(&h.arena, 0, 5), 5, x), PARE_OK);
    memcpy(before, x, sizeof x);
    const pare_tap tap = {.see = see, .self = &w, .last = PARE_SITE_ATTENTION, .see_qkv = see_qkv};
    ck_assert_int_eq(
        pare_block_forward(&h.cx, &h.arena, &f, m.block, (pare_batch){1, 5, 0}, x, &kv, &tap),
        PARE_OK);
    ck_assert_uint_eq(w.calls, 1);
    ck_assert_mem_eq(x, before, sizeof x);
    const float *const seen[] = {w.k, w.v};
    for (size_t i = 0; i < 2; i++) {
        ck_assert_int_eq(pare_linear_apply(&h.cx, &h.arena,
                                           &m.block[0].linear[i ? PARE_ROLE_V : PARE_ROLE_K], true,
                                           w.x, 44, 5, want, WIDTH),
                         PARE_OK);
        ck_assert_mem_eq(seen[i], want, sizeof want);
    }
    tiny_end(&h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("kv_cache");
    TCase *const t = tcase_create("kv_cache");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, a_sample_is_spread_evenly_over_all_tokens, 0, 5);
    tcase_add_test(t, numbers_that_lie_on_eight_levels_are_found_again);
    tcase_add_test(t, no_other_levels_near_by_are_better);
    tcase_add_test(t, what_has_no_levels_is_refused);
    tcase_add_test(t, memory_stays_below_its_bound_and_every_refusal_is_reported);
    tcase_add_test(t, a_tap_sees_keys_before_they_are_rotated);
    suite_add_tcase(s, t);
    return unit_main(s);
}
