/* Trellis codes: their values, how they lie, the search, and products with them. */
#include "formats/packed.h"
#include "kernels/exl3.h"
#include "quant/trellis.h"
#include "runtime/forward_internal.h"
#include "runtime/linear.h"
#include "solve/exl3_values.h"
#include "tests/unit/quant_case.h"

enum { WEIGHTS = PARE_EXL3_WEIGHTS, TILE = PARE_EXL3_TILE };
static const unsigned STATES = PARE_EXL3_STATES;

/* The nearest F16 of a number in its normal range, ties to even. */
static double nearest_half(double x)
{
    const double step = ldexp(1, ilogb(x) - 10);
    return rint(x / step) * step;
}

START_TEST(a_state_stands_for_the_sum_of_four_bytes)
{
    double sum = 0, squares = 0;
    for (uint64_t s = 0; s < STATES; s++) {
        const uint64_t r = s * 2212286765U % ((uint64_t)1 << 32);
        double bytes = 0;
        for (uint64_t left = r; left; left /= 256)
            bytes += (double)(left % 256);
        const double exact = 0.0067672729492187500 * (1024 + bytes) - 10.3828125;
        const double want =
            fabs(exact) < 0x1p-14 ? rint(exact * 0x1p24) * 0x1p-24 : nearest_half(exact);
        const double got = (double)pare_exl3_value((uint32_t)s);
        ck_assert_msg(got == want, "state %d: %.9g, not %.9g", (int)s, got, want);
        sum += got;
        squares += got * got;
    }
    ck_assert_double_eq_tol(sum / STATES, 0, 2e-3);
    ck_assert_double_eq_tol(squares / STATES, 1, 5e-3);
}
END_TEST

/* The stream begins with the highest bit of each little-endian word. */
START_TEST(symbols_lie_from_the_highest_bit_of_words_on)
{
    for (unsigned bits = 1; bits <= 8; bits++) {
        uint8_t symbol[WEIGHTS], back[WEIGHTS], bytes[WEIGHTS];
        for (size_t p = 0; p < WEIGHTS; p++)
            symbol[p] = (uint8_t)(pare_random_u64(3, bits, p) % (1U << bits));
        pare_exl3_pack(bytes, symbol, bits);
        for (size_t i = 0; i < WEIGHTS * (size_t)bits; i++) {
            const size_t word = i / 32, at = 31 - i % 32; /* bit of the word */
            const unsigned stored = bytes[word * 4 + at / 8] >> at % 8 & 1;
            ck_assert_uint_eq(stored, (unsigned)symbol[i / bits] >> (bits - 1 - i % bits) & 1U);
        }
        pare_exl3_unpack(back, bytes, bits);
        ck_assert_mem_eq(back, symbol, sizeof symbol);
    }
}
END_TEST

START_TEST(every_weight_of_a_tile_has_one_position)
{
    bool seen[TILE][TILE] = {{false}};
    for (unsigned p = 0; p < WEIGHTS; p++) {
        const unsigned t = p / 8, j = p % 8; /* the lanes of a tensor core */
        ck_assert_uint_eq(pare_exl3_column(p), t % 4 * 2 + j % 2 + 8 * (j / 2 % 2));
        ck_assert_uint_eq(pare_exl3_row(p), t / 4 + 8 * (j / 4));
        ck_assert(!seen[pare_exl3_row(p)][pare_exl3_column(p)]);
        seen[pare_exl3_row(p)][pare_exl3_column(p)] = true;
    }
}
END_TEST

static const pare_grid *grid_of(unsigned bits)
{
    static pare_grid g;
    g = (pare_grid){.bits = bits, .encoding = PARE_ENCODING_EXL3};
    return &g;
}

/* Codes of a matrix; h NULL: nothing is known of the inputs. */
static pare_codes quantize(unsigned bits, const float *h, const float *w, size_t n, size_t k)
{
    pare_exl3_site site;
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, grid_of(bits), n, k, &c), PARE_OK);
    ck_assert_int_eq(pare_exl3_site_make(&cx, &arena, 5, 0.025F, h == NULL, h, k, &site), PARE_OK);
    ck_assert_int_eq(pare_exl3_quantize(&cx, &arena, bits, 5, &site, copy(w, n * k), &c), PARE_OK);
    return c;
}

static float *values_of(const pare_codes *c, unsigned bits)
{
    float *const q = take(c->n * c->k, sizeof *q);
    pare_codes_values(grid_of(bits), c, q);
    return q;
}

/* sum of (w - q)^2 over that of w^2 */
static double lost(const float *w, const float *q, size_t count)
{
    double wrong = 0, all = 0;
    for (size_t i = 0; i < count; i++) {
        wrong += ((double)w[i] - (double)q[i]) * ((double)w[i] - (double)q[i]);
        all += (double)w[i] * (double)w[i];
    }
    return wrong / all;
}

/* Normal numbers, or numbers of which a few are huge: the matrices make them alike. The bounds are
 * those of QTIP, Table 1, and a tenth; a uniform grid that is best for normal numbers has .119,
 * .037 and .0115. */
START_TEST(codes_lose_what_a_trellis_loses_whatever_the_weights)
{
    static const double most[] = {[2] = 0.076, [3] = 0.019, [4] = 0.0050};
    enum { N = 64, K = 128 };
    float *const w = weights(N, K);
    for (size_t i = 0; i < N * K && _i >= 3; i += 97)
        w[i] *= 12;
    const unsigned bits = (unsigned)_i % 3 + 2;
    const pare_codes c = quantize(bits, NULL, w, N, K);
    const double error = lost(w, values_of(&c, bits), (size_t)N * K);
    ck_assert_msg(error < most[bits] && error > most[bits] / 2, "%u bits: %g", bits, error);
}
END_TEST

/* The least squared error of a path that begins and ends in a node: step by step over all states,
 * in double. */
static double least_path(const double *x, unsigned bits, unsigned seam)
{
    const unsigned nodes = STATES >> bits;
    double *const before = take(nodes, sizeof *before), *const after = take(nodes, sizeof *after);
    for (unsigned i = 0; i < nodes; i++)
        before[i] = i == seam ? 0 : INFINITY;
    for (size_t p = 0; p < WEIGHTS; p++) {
        for (unsigned i = 0; i < nodes; i++)
            after[i] = INFINITY;
        for (unsigned s = 0; s < STATES; s++) {
            const double d = x[p] - (double)pare_exl3_value(s);
            after[s % nodes] = fmin(after[s % nodes], before[s >> bits] + d * d);
        }
        memcpy(before, after, nodes * sizeof *before);
    }
    return before[seam];
}

/* One tile, without a Hessian: its targets are the turned weights, its path is the best of those
 * through its seam, and those through other seams are hardly better. */
START_TEST(the_path_of_a_tile_is_the_best_one)
{
    const unsigned bits = _i ? 8 : 6;
    float *const w = weights(TILE, TILE);
    const pare_codes c = quantize(bits, NULL, w, TILE, TILE);
    float *const turned = take(WEIGHTS, sizeof *turned), *const v = take(WEIGHTS, sizeof *v);
    double x[WEIGHTS], found = 0, least = INFINITY;
    for (size_t i = 0; i < WEIGHTS; i++)
        turned[i] = w[i] / c.row_scales[i / TILE] / c.column_scales[i % TILE];
    pare_exl3_mix_rows(turned, TILE, TILE, TILE);
    pare_exl3_mix_columns(turned, TILE, TILE, TILE);
    pare_exl3_tile_values(c.codes, TILE, bits, v, TILE);
    for (unsigned p = 0; p < WEIGHTS; p++) {
        const size_t at = (size_t)pare_exl3_row(p) * TILE + pare_exl3_column(p);
        x[p] = (double)turned[at];
        found += (x[p] - (double)v[at]) * (x[p] - (double)v[at]);
    }
    unsigned seam = 0; /* the last 16 - bits bits of the stream */
    for (unsigned p = WEIGHTS - 16; p < WEIGHTS; p++)
        seam = (seam << bits | (unsigned)c.codes[pare_exl3_row(p) * TILE + pare_exl3_column(p)]) &
               ((STATES >> bits) - 1);
    const double own = least_path(x, bits, seam);
    ck_assert_msg(fabs(found - own) < 1e-4 * own, "%g, not %g", found, own);
    for (unsigned other = 0; other < STATES >> bits; other += 37)
        least = fmin(least, least_path(x, bits, other));
    ck_assert_msg(found < least * 1.05, "%g, and %g through another seam", found, least);
}
END_TEST

/* With a Hessian, columns make up for what those in front of them lost. */
START_TEST(columns_make_up_for_what_others_lost)
{
    enum { N = 32, K = 272 };
    const float *const h = hessian(K), *const w = weights(N, K);
    const pare_codes plain = quantize(3, NULL, w, N, K), led = quantize(3, h, w, N, K);
    const double before = pare_gptq_error(&cx, w, values_of(&plain, 3), h, N, K),
                 after = pare_gptq_error(&cx, w, values_of(&led, 3), h, N, K);
    ck_assert_msg(after < 0.57 * before, "%g, without H %g", after, before);
    ck_assert_double_gt(lost(w, values_of(&led, 3), (size_t)N * K),
                        lost(w, values_of(&plain, 3), (size_t)N * K));
}
END_TEST

static pare_packed_linear linear_of(const pare_codes *c, unsigned bits)
{
    return (pare_packed_linear){.name = "w",
                                .n = c->n,
                                .k = c->k,
                                .bits = bits,
                                .symmetric = true,
                                .encoding = PARE_ENCODING_EXL3,
                                .activation = {.mode = PARE_ACTIVATION_FLOAT},
                                .bias = c->bias != NULL};
}

/* A linear as the runtime has it, with random symbols and a bias. */
static pare_linear random_linear(unsigned bits, size_t n, size_t k, float **values)
{
    pare_codes c;
    ck_assert_int_eq(pare_codes_take(&arena, grid_of(bits), n, k, &c), PARE_OK);
    for (size_t i = 0; i < n * k; i++)
        c.codes[i] = (uint8_t)(pare_random_u64(9, bits, i) % (1U << bits));
    for (size_t i = 0; i < n; i++)
        c.row_scales[i] = (i % 3 ? 0x1p-4F : -0x1.8p-5F);
    for (size_t i = 0; i < k; i++)
        c.column_scales[i] = (i % 5 ? 0x1.4p-1F : -0x1.2p0F);
    c.bias = take(n, sizeof *c.bias);
    for (size_t i = 0; i < n; i++)
        c.bias[i] = (float)(i % 7) / 8;
    const pare_packed_linear l = linear_of(&c, bits);
    pare_packed_planes p;
    pare_linear w;
    ck_assert_msg(pare_packed_linear_check(&cx, &l) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_packed_pack(&cx, &arena, &l, &c, &p) == PARE_OK, "%s", cx.what);
    ck_assert_msg(pare_packed_view(&cx, &arena, &l, p.plane, &w) == PARE_OK, "%s", cx.what);
    *values = values_of(&c, bits);
    return w;
}

/* k of 112 has a tile of padding and spans of 16; of 640 and 384 spans of 128. */
static const struct {
    size_t n, k;
} shapes[] = {{16, 16}, {48, 112}, {640, 384}, {192, 1040}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

START_TEST(weights_as_floats_are_what_the_codes_stand_for)
{
    const size_t n = shapes[_i / 8].n, k = shapes[_i / 8].k;
    float *want, *const got = take(n * k, sizeof *got);
    const pare_linear w = random_linear((unsigned)_i % 8 + 1, n, k, &want);
    pare_linear_to_f32(&cx, &w, got);
    ck_assert_mem_eq(got, want, n * k * sizeof *got);
}
END_TEST

/* y in double, from the weights as floats. */
static void check_product(const pare_linear *w, const float *values, const float *x, size_t m,
                          const float *y, double tolerance)
{
    for (size_t t = 0; t < m; t++)
        for (size_t r = 0; r < w->n; r++) {
            double sum = (double)w->bias[r], size = fabs(sum) + 1e-3;
            for (size_t j = 0; j < w->k; j++) {
                const double term = (double)values[r * w->k + j] * (double)x[t * w->k + j];
                sum += term;
                size += term * term;
            }
            const double got = (double)y[t * w->n + r];
            ck_assert_msg(fabs(got - sum) < tolerance * sqrt(size),
                          "token %zu, row %zu: %g, not %g", t, r, got, sum);
        }
}

/* One token, few and many; with products of the same inputs that do not turn them. */
START_TEST(products_turn_inputs_and_outputs)
{
    static const size_t tokens[] = {1, 5, 70};
    const size_t n = shapes[_i % SHAPES].n, k = shapes[_i % SHAPES].k, m = tokens[_i / SHAPES];
    float *values, *const y = take(m * n, sizeof *y), *const other = take(m * n, sizeof *other),
                          *const z = take(m * n, sizeof *z), *const x = take(m * k, sizeof *x);
    for (size_t i = 0; i < m * k; i++)
        x[i] = (float)pare_random_normal(4, 2, i);
    const pare_linear w = random_linear(3, n, k, &values);
    const pare_linear plain = {
        .name = "plain", .n = n, .k = k, .dtype = PARE_F32, .data = values, .bias = w.bias};
    const pare__product both[] = {{&w, y, n}, {&plain, other, n}, {&w, z, n}};
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    ck_assert_int_eq(pare__linear_apply_all(&cx, &arena, both, 3, false, x, k, m), PARE_OK);
    check_product(&w, values, x, m, y, 1e-5);
    check_product(&w, values, x, m, other, 1e-5);
    ck_assert_mem_eq(y, z, m * n * sizeof *y);
    ck_assert_int_eq(pare_linear_apply(&cx, &arena, &w, false, x, k, 1, z, n), PARE_OK);
    ck_assert_mem_eq(y, z, n * sizeof *y); /* a token alone */
}
END_TEST

/* Exact products and those in BF16 are the bits of products with the weights as floats, which a job
 * goes on with. */
START_TEST(exact_products_are_those_of_the_weights_as_floats)
{
    static const size_t tokens[] = {1, 5, 70};
    const size_t n = shapes[_i % SHAPES].n, k = shapes[_i % SHAPES].k, m = tokens[_i / SHAPES];
    float *values, *const y = take(m * n, sizeof *y), *const want = take(m * n, sizeof *want),
                          *const x = take(m * k, sizeof *x);
    for (size_t i = 0; i < m * k; i++)
        x[i] = (float)pare_random_normal(4, 2, i);
    const pare_linear w = random_linear(4, n, k, &values);
    const pare_linear plain = {
        .name = "plain", .n = n, .k = k, .dtype = PARE_F32, .data = values, .bias = w.bias};
    const pare__product both[] = {{&w, y, n}, {&plain, want, n}};
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    ck_assert_int_eq(pare__linear_apply_all(&cx, &arena, both, 2, true, x, k, m), PARE_OK);
    ck_assert_mem_eq(y, want, m * n * sizeof *y);
    memset(y, 0, m * n * sizeof *y);
    ck_assert_int_eq(pare__linear_apply_bf16(&cx, &arena, both, 2, x, k, m), PARE_OK);
    check_product(&w, values, x, m, y, 2e-2);
    ck_assert_mem_eq(y, want, m * n * sizeof *y);
}
END_TEST

/* Whatever the others are: one of them is NaN. */
START_TEST(a_token_alone_has_the_bytes_that_it_has_among_others)
{
    enum { M = 20, LOST = 7 };
    const size_t n = shapes[_i % SHAPES].n, k = shapes[_i % SHAPES].k;
    float *values, *const x = take(M * k, sizeof *x), *const y = take(M * n, sizeof *y),
                          *const alone = take(n, sizeof *alone);
    for (size_t i = 0; i < M * k; i++)
        x[i] = (float)pare_random_normal(4, 2, i);
    x[LOST * k + 3] = NAN;
    const pare_linear w = random_linear((unsigned)_i % 8 + 1, n, k, &values);
    for (size_t exact = 0; exact < 2; exact++) {
        ck_assert_int_eq(pare_linear_apply(&cx, &arena, &w, exact, x, k, M, y, n), PARE_OK);
        for (size_t t = 0; t < M; t++) {
            const float *const own = x + t * k;
            ck_assert_int_eq(pare_linear_apply(&cx, &arena, &w, exact, own, k, 1, alone, n),
                             PARE_OK);
            for (size_t r = 0; r < n; r++)
                ck_assert(t == LOST ? isnan(y[t * n + r]) && isnan(alone[r])
                                    : y[t * n + r] == alone[r]);
        }
    }
    ck_assert_int_eq(pare_linear_apply_bf16(&cx, &arena, &w, x, k, M, y, n), PARE_OK);
    for (size_t i = 0; i < M * n; i++)
        ck_assert(isnan(y[i]) == (i / n == LOST));
}
END_TEST

START_TEST(codes_are_the_same_for_any_number_of_threads)
{
    enum { N = 48, K = 64 };
    const float *const h = hessian(K), *const w = weights(N, K);
    const pare_codes one = quantize(4, h, w, N, K);
    ck_assert_int_eq(pare_pool_new(&cx, 4, &cx.pool), PARE_OK);
    const pare_codes many = quantize(4, h, w, N, K);
    ck_assert_mem_eq(one.codes, many.codes, (size_t)N * K);
    ck_assert_mem_eq(one.row_scales, many.row_scales, N * sizeof(float));
    ck_assert_mem_eq(one.column_scales, many.column_scales, K * sizeof(float));
}
END_TEST

/* How far the last linear came; a signal arrives after `most` strips of it. */
typedef struct watched {
    double done, total, most;
    volatile int stop;
} watched;

static void watch(void *self, double done, double total)
{
    watched *const w = self;
    w->done = done;
    w->total = total;
    w->stop = done >= w->most;
}

START_TEST(a_linear_says_how_far_it_is_and_stops_in_the_middle)
{
    enum { N = 64, K = 16 };
    watched seen = {.most = _i ? 2 : 5};
    pare_exl3_site site;
    pare_codes c;
    cx.progress = (pare_progress){.self = &seen, .further = watch};
    cx.interrupt = &seen.stop;
    ck_assert_int_eq(pare_codes_take(&arena, grid_of(8), N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_exl3_site_make(&cx, &arena, 5, 0.025F, true, NULL, K, &site), PARE_OK);
    ck_assert_int_eq(pare_exl3_quantize(&cx, &arena, 8, 5, &site, weights(N, K), &c),
                     _i ? PARE_EINTERRUPTED : PARE_OK);
    ck_assert_double_eq(seen.done, _i ? 2 : 4);
    ck_assert_double_eq(seen.total, N / TILE);
}
END_TEST

/* Rows of zeros stay zeros, and so does a matrix of them. */
START_TEST(zeros_stay_zeros)
{
    enum { N = 16, K = 32 };
    float *const w = weights(N, K);
    memset(w + 3 * K, 0, (size_t)(_i ? N - 3 : 1) * K * sizeof *w);
    if (_i)
        memset(w, 0, 3 * K * sizeof *w);
    const pare_codes c = quantize(2, NULL, w, N, K);
    const float *const q = values_of(&c, 2);
    for (size_t i = 0; i < N * K; i++)
        ck_assert_msg(isfinite(q[i]) && (w[i] != 0 || q[i] == 0), "%zu: %g", i, (double)q[i]);
}
END_TEST

START_TEST(weights_that_no_scale_takes_are_refused)
{
    enum { N = 16, K = 16 };
    pare_exl3_site site;
    pare_codes c;
    float *const w = weights(N, K);
    w[2 * K + 1] = _i ? NAN : 1e6F;
    ck_assert_int_eq(pare_codes_take(&arena, grid_of(3), N, K, &c), PARE_OK);
    ck_assert_int_eq(pare_exl3_site_make(&cx, &arena, 5, 0.025F, true, NULL, K, &site), PARE_OK);
    ck_assert_int_eq(pare_exl3_quantize(&cx, &arena, 3, 5, &site, w, &c), PARE_ENUMERIC);
    ck_assert_str_eq(cx.what, _i ? "row 2, column 1: the weight is nan"
                                 : "row 2: a scale of 250000 does not fit F16");
}
END_TEST

START_TEST(storage_that_has_no_tiles_is_refused)
{
    const pare_codes c = {.n = 32, .k = 48};
    const pare_packed_linear good = linear_of(&c, 3);
    pare_packed_linear bad[4] = {good, good, good, good};
    bad[0].n = 40;
    bad[1].k = 56;
    bad[2].sparse = 4;
    bad[3].activation.bits = 8;
    ck_assert_int_eq(pare_packed_linear_check(&cx, &good), PARE_OK);
    ck_assert_int_eq(pare_packed_linear_check(&cx, &bad[_i]), PARE_EINVAL);
    ck_assert_msg(strstr(cx.what, _i < 2 ? "tiles of 16 x 16, which do not divide a matrix"
                                         : "keeps no weights apart and rounds no inputs"),
                  "%s", cx.what);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("exl3");
    TCase *const t = tcase_create("exl3");
    tcase_add_checked_fixture(t, quant_setup, quant_teardown);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, a_state_stands_for_the_sum_of_four_bytes);
    tcase_add_test(t, symbols_lie_from_the_highest_bit_of_words_on);
    tcase_add_test(t, every_weight_of_a_tile_has_one_position);
    tcase_add_loop_test(t, codes_lose_what_a_trellis_loses_whatever_the_weights, 0, 6);
    tcase_add_loop_test(t, the_path_of_a_tile_is_the_best_one, 0, 2);
    tcase_add_test(t, columns_make_up_for_what_others_lost);
    tcase_add_loop_test(t, weights_as_floats_are_what_the_codes_stand_for, 0, 8 * SHAPES);
    tcase_add_loop_test(t, products_turn_inputs_and_outputs, 0, 3 * SHAPES);
    tcase_add_loop_test(t, exact_products_are_those_of_the_weights_as_floats, 0, 3 * SHAPES);
    tcase_add_loop_test(t, a_token_alone_has_the_bytes_that_it_has_among_others, 0, 8);
    tcase_add_test(t, codes_are_the_same_for_any_number_of_threads);
    tcase_add_loop_test(t, a_linear_says_how_far_it_is_and_stops_in_the_middle, 0, 2);
    tcase_add_loop_test(t, zeros_stay_zeros, 0, 2);
    tcase_add_loop_test(t, weights_that_no_scale_takes_are_refused, 0, 2);
    tcase_add_loop_test(t, storage_that_has_no_tiles_is_refused, 0, 4);
    suite_add_tcase(s, t);
    return unit_main(s);
}
