#include <math.h>
#include <string.h>

#include "kernels/layout.h"
#include "runtime/linear.h"
#include "runtime/linear_internal.h"
#include "runtime/threads.h"
#include "tests/data/encoded_value.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void begin(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void end(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

/* Rows and columns in every position to padding, atoms of 64 columns and groups of four. */
static const size_t shapes[][2] = {{16, 128}, {43, 141}, {1, 3},    {8, 32},
                                   {9, 33},   {70, 96},  {17, 290}, {130, 159}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

#define G(mode_, bits_) .activation = {.mode = PARE_ACTIVATION_##mode_, .bits = bits_}
static const pare_packed_linear codes[] = {
    {.bits = 4, .group = 128, G(GROUP, 8)}, {.bits = 4, .group = 32, G(GROUP, 8)},
    {.bits = 4, .group = 96, G(GROUP, 4)},  {.bits = 4, .group = 0, G(TOKEN, 8)},
    {.bits = 4, .group = 64, G(TENSOR, 8)}, {.bits = 8, .group = 128, G(GROUP, 8)},
    {.bits = 8, .group = 32, G(TOKEN, 8)},  {.bits = 8, .group = 0, G(TENSOR, 8)},
    {.bits = 8, .group = 0, G(FLOAT, 0)},
};
enum { CODES = sizeof codes / sizeof *codes };

static pare_packed_linear with(pare_packed_linear l, size_t shape, pare_sparsity_store sparsity)
{
    l.name = "w";
    l.n = shapes[shape][0];
    l.k = shapes[shape][1];
    l.symmetric = true;
    l.sparsity = sparsity;
    return l;
}

static pare_linear view_of(const pare_packed_linear *l, const pare_codes *c)
{
    pare_packed_planes p;
    pare_linear w;
    ck_assert_msg(pare_packed_pack(&cx, &arena, l, c, &p) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_packed_view(&cx, &arena, l, p.plane, &w) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_linear_check(&cx, &w) == PARE_OK, "%s", cx.what);
    return w;
}

static float *inputs(size_t m, size_t k)
{
    float *const x = PARE_NEW(&arena, float, m *k);
    ck_assert_ptr_nonnull(x);
    for (size_t i = 0; i < m * k; i++)
        x[i] = (float)pare_random_normal(3, m, i);
    return x;
}

static void same_products(const pare_linear *a, const pare_linear *b, bool exact)
{
    static const size_t tokens[] = {1, 2, 7, 8, 11, 64, 75};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        const pare_mark mark = pare_arena_mark(&arena);
        const size_t m = tokens[i], bytes = m * a->n * sizeof(float);
        const float *const x = inputs(m, a->k);
        float *const y = PARE_NEW(&arena, float, m * a->n), *const z =
                                                                PARE_NEW(&arena, float, m * a->n);
        ck_assert_int_eq(pare_linear_apply(&cx, &arena, a, exact, x, a->k, m, y, a->n), PARE_OK);
        ck_assert_int_eq(pare_linear_apply(&cx, &arena, b, exact, x, a->k, m, z, a->n), PARE_OK);
        ck_assert_msg(memcmp(y, z, bytes) == 0, "%zu tokens, %zu x %zu", m, a->n, a->k);
        pare_arena_rewind(&arena, mark);
    }
}

static void stand_for(const pare_linear *w, const pare_packed_linear *l, const pare_codes *c)
{
    float *const value = PARE_NEW(&arena, float, l->n * l->k);
    pare_linear_to_f32(&cx, w, value);
    for (size_t i = 0; i < l->n * l->k; i++)
        ck_assert_msg(value[i] == encoded_weight(l, c, i / l->k, i % l->k), "weight %zu", i);
}

START_TEST(products_of_2_4_codes_have_the_bits_of_dense_ones)
{
    const size_t shape = (size_t)_i % SHAPES;
    const pare_packed_linear pruned = with(codes[(size_t)_i / SHAPES], shape, PARE_SPARSITY_2_4);
    const pare_packed_linear dense = with(codes[(size_t)_i / SHAPES], shape, PARE_SPARSITY_NONE);
    pare_codes c;
    ck_assert(encoded_codes(&arena, &pruned, 5, &c));
    c.input_scale = 0.05F;
    const pare_linear a = view_of(&pruned, &c), b = view_of(&dense, &c);
    ck_assert_ptr_nonnull(a.panel.indices);
    stand_for(&a, &pruned, &c);
    same_products(&a, &b, false);
    same_products(&a, &b, true);
}
END_TEST

/* Codes of -8 and 127 everywhere that may be, largest inputs: no sum is lost. */
START_TEST(the_largest_codes_give_the_bits_of_dense_ones)
{
    const pare_packed_linear l = with(codes[_i ? 6 : 3], 6, PARE_SPARSITY_2_4);
    const pare_packed_linear dense = with(codes[_i ? 6 : 3], 6, PARE_SPARSITY_NONE);
    pare_codes c;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    for (size_t i = 0; i < l.n * l.k; i++)
        c.codes[i] = (uint8_t)(i % l.k % 4 > 1 ? pare_packed_zero_code(&l) : _i ? 255 : 0);
    const pare_linear a = view_of(&l, &c), b = view_of(&dense, &c);
    float *const x = inputs(9, l.k), y[9 * 17], z[9 * 17];
    for (size_t i = 0; i < 9 * l.k; i++)
        x[i] = i / l.k % 2 ? -1 : 1;
    ck_assert_int_eq(pare_linear_apply(&cx, &arena, &a, false, x, l.k, 9, y, l.n), PARE_OK);
    ck_assert_int_eq(pare_linear_apply(&cx, &arena, &b, false, x, l.k, 9, z, l.n), PARE_OK);
    ck_assert(memcmp(y, z, sizeof y) == 0 && y[0] != 0);
}
END_TEST

enum { STORES = PARE_SPARSITY_BITMASK + 1 };

START_TEST(values_of_16_bits_multiply_like_the_floats_they_are)
{
    pare_packed_linear l = with((pare_packed_linear){.bits = 16,
                                                     .encoding = PARE_ENCODING_F16,
                                                     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
                                (size_t)_i / STORES, (pare_sparsity_store)(_i % STORES));
    l.kept = l.sparsity == PARE_SPARSITY_BITMASK ? (l.n * l.k + 1) / 2 : 0;
    pare_codes c;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    const pare_linear a = view_of(&l, &c);
    const pare_linear b = {
        .name = "w", .n = l.n, .k = l.k, .dtype = PARE_F32, .data = c.values, .bias = a.bias};
    stand_for(&a, &l, &c);
    same_products(&a, &b, false);
}
END_TEST

/* Inputs are quantized once for linears that take them in the same form, and only for those. */
START_TEST(linears_of_one_input_that_want_it_in_other_forms_run_together)
{
    enum { KINDS = 4, JOBS = 3, M = 13 };
    const pare_packed_linear l[KINDS] = {
        with(codes[0], 6, PARE_SPARSITY_NONE), with(codes[0], 6, PARE_SPARSITY_2_4),
        with(codes[5], 6, PARE_SPARSITY_2_4), with(codes[5], 6, PARE_SPARSITY_NONE)};
    const size_t n = l[0].n, k = l[0].k;
    const float *const x = inputs(M, k);
    for (size_t first = 0; first < KINDS * 2; first++) {
        pare_linear w[JOBS];
        pare__product p[JOBS];
        for (size_t i = 0; i < JOBS; i++) {
            const size_t at = (first % KINDS + i * (1 + first / KINDS)) % KINDS;
            pare_codes c;
            ck_assert(encoded_codes(&arena, &l[at], i, &c));
            w[i] = view_of(&l[at], &c);
            p[i] = (pare__product){&w[i], PARE_NEW(&arena, float, M *n), n};
        }
        ck_assert_int_eq(pare__linear_apply_all(&cx, &arena, p, JOBS, false, x, k, M), PARE_OK);
        for (size_t i = 0; i < JOBS; i++) {
            float *const y = PARE_NEW(&arena, float, M *n);
            ck_assert_int_eq(pare_linear_apply(&cx, &arena, &w[i], false, x, k, M, y, n), PARE_OK);
            ck_assert_mem_eq(y, p[i].y, M * n * sizeof *y);
        }
    }
}
END_TEST

/* Pairs ascend, free places are the lowest columns that are left and hold 0. */
START_TEST(places_are_in_one_order)
{
    static const struct {
        uint8_t four[4], pair[2];
    } cases[] = {{{0, 0, 0, 0}, {0, 1}}, {{0, 0, 0, 5}, {0, 3}}, {{0, 4, 0, 0}, {0, 1}},
                 {{6, 0, 0, 0}, {0, 1}}, {{0, 0, 7, 1}, {2, 3}}, {{1, 0, 0, 2}, {0, 3}}};
    const pare_packed_linear l = with(codes[0], 1, PARE_SPARSITY_2_4);
    pare_codes c;
    pare_packed_planes p;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    for (size_t i = 0; i < l.n * l.k; i++) {
        const size_t four = i % l.k / 4 % 6;
        c.codes[i] = (uint8_t)(8 + (i % l.k < 140 ? cases[four].four[i % l.k % 4] : 0));
    }
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_OK);
    uint8_t *const u = PARE_NEW(&arena, uint8_t, 48 * 96), *const e =
                                                               PARE_NEW(&arena, uint8_t, 48 * 96);
    pare_unpack_codes(u, 96, p.plane[PARE_PLANE_CODES], 48, 96, 4);
    pare_unpack_codes(e, 96, p.plane[PARE_PLANE_INDICES], 48, 96, 2);
    for (size_t r = 0; r < 48; r++)
        for (size_t at = 0; at < 96; at++) {
            const bool real = r < l.n && at < 70;
            const uint8_t column = real ? cases[at / 2 % 6].pair[at % 2] : (uint8_t)(at % 2);
            ck_assert_uint_eq(e[r * 96 + at], column);
            ck_assert_uint_eq(u[r * 96 + at], real ? 8u + cases[at / 2 % 6].four[column] : 8u);
        }
}
END_TEST

START_TEST(what_has_no_place_is_refused_by_name)
{
    const pare_packed_linear l = with(codes[0], 1, PARE_SPARSITY_2_4);
    pare_codes c;
    pare_packed_planes p;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    memset(c.codes + 37 * l.k + 137, 1, 3);
    memset(c.codes + 41 * l.k + 5, 1, 3);
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_ENUMERIC);
    ck_assert_str_eq(cx.what, "w: row 37: more than two of the columns 136 .. 139 are not 0");
    pare_packed_linear m = with((pare_packed_linear){.bits = 16,
                                                     .encoding = PARE_ENCODING_F16,
                                                     .kept = 42 * 141,
                                                     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
                                1, PARE_SPARSITY_BITMASK);
    ck_assert(encoded_codes(&arena, &m, 5, &c));
    for (size_t i = 0; i < m.n * m.k; i++)
        c.values[i] = 1;
    pare_ctx_clear(&cx);
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &m, &c, &p), PARE_ENUMERIC);
    ck_assert_str_eq(cx.what,
                     "w: rows 0 .. 42 have 6063 weights that are not 0, there is room for 5922");
}
END_TEST

START_TEST(a_mask_has_no_more_bits_than_values)
{
    pare_packed_linear l = with((pare_packed_linear){.bits = 16,
                                                     .encoding = PARE_ENCODING_F16,
                                                     .kept = 400,
                                                     .activation = {.mode = PARE_ACTIVATION_FLOAT}},
                                1, PARE_SPARSITY_BITMASK);
    pare_codes c;
    pare_packed_planes p;
    pare_linear w;
    ck_assert(encoded_codes(&arena, &l, 5, &c));
    ck_assert_int_eq(pare_packed_pack(&cx, &arena, &l, &c, &p), PARE_OK);
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &w), PARE_OK);
    ck_assert_uint_eq(w.mask.start[43], 379);
    const uint16_t *const value = p.plane[PARE_PLANE_VALUES];
    for (size_t i = 0; i < 400; i++)
        ck_assert_int_eq(value[i] != 0, i < 379);
    l.kept = 378;
    ck_assert_int_eq(pare_packed_view(&cx, &arena, &l, p.plane, &w), PARE_EFORMAT);
    ck_assert_str_eq(cx.what, "w.mask: 379 bits are set, there are 378 values");
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("packed pruned");
    TCase *const t = tcase_create("packed pruned");
    tcase_add_checked_fixture(t, begin, end);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, products_of_2_4_codes_have_the_bits_of_dense_ones, 0, CODES * SHAPES);
    tcase_add_loop_test(t, the_largest_codes_give_the_bits_of_dense_ones, 0, 2);
    tcase_add_loop_test(t, values_of_16_bits_multiply_like_the_floats_they_are, 0, STORES * SHAPES);
    tcase_add_test(t, linears_of_one_input_that_want_it_in_other_forms_run_together);
    tcase_add_test(t, places_are_in_one_order);
    tcase_add_test(t, a_mask_has_no_more_bits_than_values);
    tcase_add_test(t, what_has_no_place_is_refused_by_name);
    suite_add_tcase(s, t);
    return unit_main(s);
}
