/* Attention over an F32 cache against its definition in double, at sizes around the blocks in which
 * it runs; that the split of the work does not matter; and scores at the ends of the range. */
#include "runtime/kv_internal.h"
#include "tests/unit/tiny.h"

enum { POSITIONS = 200 };

typedef struct shape {
    size_t heads, kv_heads, d;
} shape;

static const shape shapes[] = {{4, 2, 10}, {3, 3, 33}, {8, 1, 64}, {130, 2, 2}, {16, 2, 8}};
enum { SHAPES = sizeof shapes / sizeof *shapes, SEQUENCES = 2 };

/* start, length */
static const size_t pieces[][2] = {{0, 1},  {0, 63},  {0, 64},   {0, 65},   {0, 129}, {64, 1},
                                   {63, 1}, {128, 1}, {129, 70}, {50, 100}, {191, 9}};

typedef struct fixture {
    tiny_home home;
    pare_model model;
    pare_forward f;
    size_t q_width, kv_width;
    float *q, *k, *v, *out; /* [SEQUENCES][POSITIONS] rows */
    pare_kv kv;
} fixture;

static float *normals(pare_arena *a, uint64_t stream, size_t count)
{
    float *const x = tiny_take(a, count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(60, stream, i);
    return x;
}

static void begin(fixture *x, const shape *s, size_t threads)
{
    tiny_begin(&x->home, threads);
    pare_arena *const a = &x->home.arena;
    x->model = (pare_model){.config = {.heads = s->heads,
                                       .kv_heads = s->kv_heads,
                                       .head_dim = s->d,
                                       .rope = {.theta = 10000}}};
    ck_assert_int_eq(pare_forward_init(&x->home.cx, a, &x->model, POSITIONS, true, &x->f), PARE_OK);
    x->q_width = s->heads * s->d;
    x->kv_width = s->kv_heads * s->d;
    x->q = normals(a, 0, SEQUENCES * POSITIONS * x->q_width);
    x->k = normals(a, 1, SEQUENCES * POSITIONS * x->kv_width);
    x->v = normals(a, 2, SEQUENCES * POSITIONS * x->kv_width);
    x->out = tiny_take(a, SEQUENCES * POSITIONS * x->q_width, sizeof *x->out);
    ck_assert_int_eq(pare_kv_take(a, &x->model.config, SEQUENCES, POSITIONS, &x->kv), PARE_OK);
}

/* The queries [start, start + length) of every sequence as one batch. */
static void attend(fixture *x, size_t start, size_t length)
{
    pare_arena *const a = &x->home.arena;
    const pare_mark mark = pare_arena_mark(a);
    const size_t bytes = length * x->q_width * sizeof(float);
    float *const q = tiny_take(a, SEQUENCES, bytes), *const out = tiny_take(a, SEQUENCES, bytes);
    const pare__kv_batch b = {
        .cx = &x->home.cx, .f = &x->f, .batch = {SEQUENCES, length, start}, .kv = &x->kv};
    for (size_t s = 0; s < SEQUENCES; s++) {
        memcpy(q + s * length * x->q_width, x->q + (s * POSITIONS + start) * x->q_width, bytes);
        for (size_t t = start; t < start + length; t++) {
            const size_t row = (s * POSITIONS + t) * x->kv_width;
            pare__kv_put(&x->model.config, &x->kv, s, t, x->k + row, x->v + row);
        }
    }
    memset(out, 0xff, SEQUENCES * bytes);
    ck_assert_int_eq(pare__attention(a, &b, q, out), PARE_OK);
    for (size_t s = 0; s < SEQUENCES; s++)
        memcpy(x->out + (s * POSITIONS + start) * x->q_width, out + s * length * x->q_width, bytes);
    pare_arena_rewind(a, mark);
}

UNIT_PLAIN static void plain_query(const fixture *x, size_t s, size_t i, size_t head, double *out)
{
    const pare_config *const c = &x->model.config;
    const size_t d = c->head_dim, at = head / (c->heads / c->kv_heads) * d;
    const float *const q = x->q + (s * POSITIONS + i) * x->q_width + head * d;
    double weight[POSITIONS], max = -INFINITY, total = 0;
    for (size_t j = 0; j <= i; j++) {
        const float *const k = x->k + (s * POSITIONS + j) * x->kv_width + at;
        weight[j] = 0;
        for (size_t e = 0; e < d; e++)
            weight[j] += (double)q[e] * (double)k[e] / sqrt((double)d);
        max = fmax(max, weight[j]);
    }
    memset(out, 0, d * sizeof *out);
    for (size_t j = 0; j <= i; j++)
        total += weight[j] = exp(weight[j] - max);
    for (size_t j = 0; j <= i; j++)
        for (size_t e = 0; e < d; e++)
            out[e] += weight[j] / total * (double)x->v[(s * POSITIONS + j) * x->kv_width + at + e];
}

static void check(const fixture *x, size_t start, size_t length)
{
    const size_t d = x->model.config.head_dim;
    double want[64];
    for (size_t s = 0; s < SEQUENCES; s++)
        for (size_t i = start; i < start + length; i++)
            for (size_t h = 0; h < x->model.config.heads; h++) {
                plain_query(x, s, i, h, want);
                for (size_t e = 0; e < d; e++) {
                    const double is = (double)x->out[(s * POSITIONS + i) * x->q_width + h * d + e];
                    ck_assert_msg(fabs(is - want[e]) < 4e-6, "row %zu head %zu: %g for %g", i, h,
                                  is, want[e]);
                }
            }
}

START_TEST(attention_equals_its_definition_around_every_edge_of_a_block)
{
    for (size_t p = 0; p < sizeof pieces / sizeof *pieces; p++) {
        fixture x;
        begin(&x, &shapes[_i], 2);
        if (pieces[p][0])
            attend(&x, 0, pieces[p][0]);
        attend(&x, pieces[p][0], pieces[p][1]);
        check(&x, pieces[p][0], pieces[p][1]);
        tiny_end(&x.home);
    }
}
END_TEST

START_TEST(threads_and_splits_give_the_same_bytes)
{
    static const size_t piece[] = {POSITIONS, 1, 7, 64, 45, 1}, threads[] = {1, 2, 5, 2, 1, 5};
    float *first = NULL;
    for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
        fixture x;
        begin(&x, &shapes[_i], threads[i]);
        for (size_t at = 0; at < POSITIONS; at += piece[i])
            attend(&x, at, POSITIONS - at < piece[i] ? POSITIONS - at : piece[i]);
        const size_t bytes = SEQUENCES * POSITIONS * x.q_width * sizeof(float);
        if (!first) {
            first = malloc(bytes);
            ck_assert_ptr_nonnull(first);
            memcpy(first, x.out, bytes);
        }
        ck_assert_mem_eq(first, x.out, bytes);
        tiny_end(&x.home);
    }
    free(first);
}
END_TEST

/* Weights move from block to block as the largest score does, up and down. */
START_TEST(a_largest_score_in_any_block_gives_the_same_weights)
{
    static const float slope[] = {0.2F, -0.2F, 0.7F, -0.7F};
    fixture x;
    begin(&x, &shapes[2], 1);
    for (size_t i = 0; i < SEQUENCES * POSITIONS; i++)
        for (size_t e = 0; e < x.kv_width; e++)
            x.k[i * x.kv_width + e] = e ? 0 : slope[_i] * (float)(i % POSITIONS);
    for (size_t i = 0; i < SEQUENCES * POSITIONS; i++)
        x.q[i * x.q_width] = 8;
    attend(&x, 0, POSITIONS);
    check(&x, 0, POSITIONS);
    tiny_end(&x.home);
}
END_TEST

/* Only the key at `best` fits the query; what is far below counts nothing, and nothing overflows
 * into a NaN. */
START_TEST(scores_at_the_ends_of_the_range_pick_one_value)
{
    static const float far[] = {1e4F, 1e15F, 1e19F};
    const float size = far[_i / 2], sign = _i % 2 ? 1.0F : -0.5F; /* all scores below 0, or not */
    for (size_t best = 0; best < POSITIONS; best += 33) {
        fixture x;
        begin(&x, &shapes[3], 2);
        for (size_t i = 0; i < SEQUENCES * POSITIONS; i++)
            for (size_t e = 0; e < x.kv_width; e++)
                x.k[i * x.kv_width + e] =
                    e % 2 ? 0 : size * (i % POSITIONS == best ? 0.5F - sign : -0.5F - sign);
        for (size_t i = 0; i < SEQUENCES * POSITIONS * x.q_width; i++)
            x.q[i] = size;
        attend(&x, 0, POSITIONS);
        const float *const out = x.out + (POSITIONS - 1) * x.q_width;
        for (size_t i = 0; i < x.q_width; i++)
            ck_assert_float_eq_tol(out[i], x.v[best * x.kv_width + (i >= 130 ? 2 : 0) + i % 2],
                                   1e-6F);
        for (size_t i = 0; i < SEQUENCES * POSITIONS * x.q_width; i++)
            ck_assert(isfinite(x.out[i]));
        tiny_end(&x.home);
    }
}
END_TEST

/* A key or value that is none spoils those who see it, and nobody before. */
START_TEST(what_a_query_does_not_see_cannot_reach_it)
{
    enum { AT = 70 };
    fixture good, bad;
    begin(&good, &shapes[_i], 1);
    begin(&bad, &shapes[_i], 1);
    attend(&good, 0, POSITIONS);
    for (size_t e = 0; e < bad.kv_width; e++)
        bad.v[AT * bad.kv_width + e] = bad.k[AT * bad.kv_width + e] = (float)NAN;
    attend(&bad, 0, POSITIONS);
    const size_t before = AT * good.q_width;
    ck_assert_mem_eq(good.out, bad.out, before * sizeof *good.out);
    for (size_t i = before; i < POSITIONS * good.q_width; i++)
        ck_assert(isnan(bad.out[i]));
    ck_assert_mem_eq(good.out + POSITIONS * good.q_width, bad.out + POSITIONS * good.q_width,
                     POSITIONS * good.q_width * sizeof *good.out);
    tiny_end(&good.home);
    tiny_end(&bad.home);
}
END_TEST

START_TEST(scratch_does_not_grow_with_the_positions)
{
    const pare_config c = {.heads = 32, .kv_heads = 4, .head_dim = 64};
    const size_t one = pare__attention_bytes(&c, (pare_batch){1, 1, 0}),
                 many = pare__attention_bytes(&c, (pare_batch){8, 4096, 1u << 20});
    ck_assert_uint_eq(one, pare__attention_bytes(&c, (pare_batch){1, 1, 1u << 30}));
    ck_assert_uint_le(one, many);
    ck_assert_uint_le(many, 64 * 1024);
    fixture x;
    begin(&x, &shapes[0], 1);
    pare_arena a = {.cx = &x.home.cx};
    const pare__kv_batch b = {
        .cx = &x.home.cx, .f = &x.f, .batch = {SEQUENCES, POSITIONS, 0}, .kv = &x.kv};
    x.home.cx.limit_bytes = x.home.cx.live_bytes + 100;
    ck_assert_int_eq(pare__attention(&a, &b, x.q, x.out), PARE_ENOMEM);
    x.home.cx.limit_bytes = 0;
    pare_arena_release(&a);
    tiny_end(&x.home);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("attention");
    TCase *const c = tcase_create("attention");
    tcase_set_timeout(c, 240);
    tcase_add_loop_test(c, attention_equals_its_definition_around_every_edge_of_a_block, 0, SHAPES);
    tcase_add_loop_test(c, threads_and_splits_give_the_same_bytes, 0, SHAPES);
    tcase_add_loop_test(c, a_largest_score_in_any_block_gives_the_same_weights, 0, 4);
    tcase_add_loop_test(c, scores_at_the_ends_of_the_range_pick_one_value, 0, 6);
    tcase_add_loop_test(c, what_a_query_does_not_see_cannot_reach_it, 0, SHAPES);
    tcase_add_test(c, scratch_does_not_grow_with_the_positions);
    suite_add_tcase(s, c);
    return unit_main(s);
}
