#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/product.h"
#include "runtime/random.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

static pare_ctx cx;
static pare_arena arena;

static void setup(void)
{
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &arena, 0), PARE_OK);
}

static void teardown(void)
{
    pare_arena_release(&arena);
    pare_pool_free(&cx, cx.pool);
    ck_assert_uint_eq(cx.live_bytes, 0);
}

static void use_threads(size_t threads)
{
    pare_pool_free(&cx, cx.pool);
    cx.pool = NULL;
    ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
}

static void *take(size_t count, size_t size)
{
    void *const p = pare_arena_take(&arena, count, size);
    ck_assert_ptr_nonnull(p);
    return p;
}

static float *normals(uint64_t stream, size_t count)
{
    float *const x = take(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)pare_random_normal(5, stream, i);
    return x;
}

/* A well-conditioned positive definite matrix; the upper half holds a marker. */
static double *positive(size_t n)
{
    double *const a = take(n * n, sizeof *a);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i * n + j] =
                j > i ? 77 : pare_random_normal(9, i, j) / sqrt((double)n) * 0.4 + (i == j ? 3 : 0);
    return a;
}

static float *narrow(const double *a, size_t count)
{
    float *const x = take(count, sizeof *x);
    for (size_t i = 0; i < count; i++)
        x[i] = (float)a[i];
    return x;
}

/* Of squares. */
static size_t cholesky_f32(float *a, size_t n)
{
    return pare_cholesky(&cx, &(pare_lower){a, n, n, false});
}

static size_t cholesky_f64(double *a, size_t n)
{
    return pare_cholesky(&cx, &(pare_lower){a, n, n, true});
}

static void inverse_f32(float *l, size_t n)
{
    pare_triangular_inverse(&cx, &(pare_lower){l, n, n, false});
}

static void inverse_f64(double *l, size_t n)
{
    pare_triangular_inverse(&cx, &(pare_lower){l, n, n, true});
}

static const size_t sizes[] = {1, 2, 255, 256, 257, 513, 600};
enum { SIZES = sizeof sizes / sizeof *sizes };

static double worse(double worst, double error)
{
    return error <= worst ? worst : error; /* keeps a NaN */
}

START_TEST(gram_adds_the_products_of_columns)
{
    const size_t rows = 37, k = sizes[_i];
    const float *const x = normals(1, rows * k);
    float *const h = take(k * k, sizeof *h);
    for (size_t i = 0; i < k * k; i++)
        h[i] = 2;
    pare_gram_add(&cx, h, x, rows, k);
    double worst = 0;
    for (size_t i = 0; i < k; i++)
        for (size_t j = 0; j < k; j++) {
            double want = 2, terms = 2;
            for (size_t t = 0; j <= i && t < rows; t++) {
                const double term = (double)x[t * k + i] * (double)x[t * k + j];
                want += term;
                terms += fabs(term);
            }
            worst = worse(worst, fabs((double)h[i * k + j] - want) / terms);
        }
    ck_assert_double_le(worst, 40 * 0x1p-24); /* any order of 38 additions, products rounded */
}
END_TEST

START_TEST(cholesky_gives_the_matrix_back)
{
    const size_t n = sizes[_i];
    const double *const a = positive(n);
    double *const l = take(n * n, sizeof *l);
    memcpy(l, a, n * n * sizeof *l);
    ck_assert_uint_eq(cholesky_f64(l, n), 0);
    float *const f = narrow(a, n * n);
    ck_assert_uint_eq(cholesky_f32(f, n), 0);
    double worst = 0, apart = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = j > i ? l[i * n + j] : 0;
            for (size_t t = 0; t <= j && j <= i; t++)
                sum += l[i * n + t] * l[j * n + t];
            worst = worse(worst, fabs(sum - a[i * n + j]));
            apart = worse(apart, fabs((double)f[i * n + j] - l[i * n + j]));
        }
    /* backward error (n + 1) u |L| |L^T|, whose entries are below 10 */
    ck_assert_double_le(worst, 1e-12);
    ck_assert_double_le(apart, 2e-5);
}
END_TEST

START_TEST(inverse_times_the_factor_is_one)
{
    const size_t n = sizes[_i];
    double *const l = positive(n), *const x = take(n * n, sizeof *x);
    ck_assert_uint_eq(cholesky_f64(l, n), 0);
    memcpy(x, l, n * n * sizeof *l);
    float *const f = narrow(l, n * n);
    inverse_f64(x, n);
    inverse_f32(f, n);
    double worst = 0, apart = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double sum = j > i ? x[i * n + j] - 77 : -(double)(i == j);
            for (size_t t = j; t <= i; t++)
                sum += l[i * n + t] * x[t * n + j];
            worst = worse(worst, fabs(sum));
            apart = worse(apart, fabs((double)f[i * n + j] - x[i * n + j]));
        }
    ck_assert_double_le(worst, 1e-12);
    ck_assert_double_le(apart, 2e-5);
}
END_TEST

START_TEST(first_pivot_that_is_not_positive_is_named)
{
    static const size_t bad[] = {1, 2, 256, 257, 300, 512, 513};
    enum { N = 513 };
    for (size_t b = 0; b < sizeof bad / sizeof *bad; b++) {
        const size_t at = (bad[b] - 1) * (N + 1);
        double *const a = positive(N);
        a[at] = -1;
        float *const f = narrow(a, (size_t)N * N);
        ck_assert_uint_eq(cholesky_f64(a, N), bad[b]);
        ck_assert_uint_eq(cholesky_f32(f, N), bad[b]);
    }
}
END_TEST

START_TEST(nan_infinity_and_zero_are_failed_pivots)
{
    static const float bad[] = {NAN, INFINITY, 0, -0.0F};
    enum { N = 300 };
    for (size_t b = 0; b < 4; b++) {
        float *const f = narrow(positive(N), (size_t)N * N);
        memset(f + 270 * N, 0, 270 * sizeof *f);
        f[270 * N + 270] = bad[b];
        ck_assert_uint_eq(cholesky_f32(f, N), 271);
    }
    float *const f = narrow(positive(N), (size_t)N * N);
    f[280 * N + 3] = NAN; /* off the diagonal: reaches the pivot of its row */
    ck_assert_uint_eq(cholesky_f32(f, N), 281);
}
END_TEST

START_TEST(threads_do_not_change_a_bit)
{
    enum { N = 700, ROWS = 150 };
    const size_t count = (size_t)N * N;
    const float *const x = normals(3, (size_t)ROWS * N);
    const double *const a = positive(N);
    float *gram[3], *chol[3];
    double *wide[3];
    for (size_t v = 0; v < 3; v++) {
        use_threads((size_t[]){1, 2, 5}[v]);
        gram[v] = take(count, sizeof(float));
        pare_gram_add(&cx, gram[v], x, ROWS, N);
        chol[v] = narrow(a, count);
        ck_assert_uint_eq(cholesky_f32(chol[v], N), 0);
        inverse_f32(chol[v], N);
        wide[v] = memcpy(take(count, sizeof(double)), a, count * sizeof(double));
        ck_assert_uint_eq(cholesky_f64(wide[v], N), 0);
        inverse_f64(wide[v], N);
        ck_assert(memcmp(gram[0], gram[v], count * sizeof(float)) == 0);
        ck_assert(memcmp(chol[0], chol[v], count * sizeof(float)) == 0);
        ck_assert(memcmp(wide[0], wide[v], count * sizeof(double)) == 0);
    }
}
END_TEST

/* A square, and the same in panels. */
START_TEST(panels_do_not_change_a_bit)
{
    const size_t n = (size_t[]){240, 700, 1921}[_i / 2], panel = _i % 2 ? pare_lower_panel(n) : 480;
    const double *const a = positive(n);
    pare_lower square = {narrow(a, n * n), n, n, false}, l = {NULL, n, panel, false};
    l.panel = panel < n ? panel : n;
    float *const x = take(pare_lower_place(&l, n), sizeof *x), *const y = square.a;
    l.a = x;
    for (size_t i = 0; i < n; i++)
        memcpy(x + pare_lower_place(&l, i), y + i * n, (i + 1) * sizeof *x);
    use_threads(3);
    ck_assert_uint_eq(pare_cholesky(&cx, &square), 0);
    ck_assert_uint_eq(pare_cholesky(&cx, &l), 0);
    for (size_t i = 0; i < n; i++)
        ck_assert_mem_eq(x + pare_lower_place(&l, i), y + i * n, (i + 1) * sizeof *x);
    pare_triangular_inverse(&cx, &square);
    pare_triangular_inverse(&cx, &l);
    for (size_t i = 0; i < n; i++)
        ck_assert_mem_eq(x + pare_lower_place(&l, i), y + i * n, (i + 1) * sizeof *x);
}
END_TEST

/* Kernels of one level, however many threads. */
static void use_level(size_t level, size_t threads)
{
    use_threads(threads);
    pare_kernels_init(&cx.kernels, pare_cpu_levels[level].cpu);
}

START_TEST(levels_of_the_processor_do_not_change_a_bit)
{
    enum { N = 530, ROWS = 300 };
    const size_t count = (size_t)N * N;
    const float *const x = normals(3, (size_t)ROWS * N);
    const double *const a = positive(N);
    float *first = NULL;
    double *wide = NULL;
    for (size_t v = 0; v < PARE_CPU_LEVELS; v++) {
        if (pare_cpu_levels[v].cpu & ~pare_cpu_detect())
            continue;
        use_level(v, 1 + v);
        float *const all = take(3 * count, sizeof *all), *const f = narrow(a, count);
        double *const d = memcpy(take(count, sizeof *d), a, count * sizeof *d);
        pare_gram_add(&cx, all, x, ROWS, N);
        ck_assert_uint_eq(cholesky_f32(f, N), 0);
        memcpy(all + count, f, count * sizeof *f);
        inverse_f32(f, N);
        memcpy(all + 2 * count, f, count * sizeof *f);
        ck_assert_uint_eq(cholesky_f64(d, N), 0);
        inverse_f64(d, N);
        first = first ? first : all;
        wide = wide ? wide : d;
        ck_assert(memcmp(first, all, 3 * count * sizeof *all) == 0);
        ck_assert(memcmp(wide, d, count * sizeof *d) == 0);
    }
}
END_TEST

/* What an output becomes, as product.h says it. */
static float defined(const pare_gemm *g, size_t i, size_t j, float c)
{
    for (size_t p = 0; p < g->k; p += PARE_DEPTH) {
        float s = 0;
        for (size_t q = p; q < g->k && q < p + PARE_DEPTH; q++)
            s = fmaf(g->alpha * g->a[g->transpose_a ? q * g->lda + i : i * g->lda + q],
                     g->b[g->transpose_b ? j * g->ldb + q : q * g->ldb + j], s);
        c += s;
    }
    return c;
}

START_TEST(a_product_has_the_bits_of_its_definition)
{
    enum { M = 530, N = 200, K = 540 };
    const bool ta = _i & 1, tb = _i & 2;
    pare_gemm g = {.m = M,
                   .n = N,
                   .k = K,
                   .a = normals(1, (size_t)M * K),
                   .lda = ta ? M : K,
                   .transpose_a = ta,
                   .b = normals(2, (size_t)N * K),
                   .ldb = tb ? K : N,
                   .transpose_b = tb,
                   .c = normals(3, (size_t)M * N),
                   .ldc = N,
                   .alpha = -0.7F,
                   .beta = 1};
    const float *const before = normals(3, (size_t)M * N);
    use_threads(1 + (size_t)_i);
    pare_gemm_tiles(&cx, &g);
    for (size_t i = 0; i < M; i += 7)
        for (size_t j = 0; j < N; j++) {
            const float want = defined(&g, i, j, before[i * N + j]);
            ck_assert(memcmp(&want, g.c + i * N + j, sizeof want) == 0);
        }
}
END_TEST

START_TEST(gemm_sub_takes_a_product_away)
{
    enum { M = 5, N = 9, K = 7, LD = 20 };
    const float *const a = normals(1, M * LD), *const b = normals(2, K * LD);
    float *const c = normals(3, M * LD), *const before = normals(3, M * LD);
    pare_gemm_sub(&cx.kernels, c, LD, a, LD, b, LD, M, N, K);
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < LD; j++) {
            double want = (double)before[i * LD + j];
            for (size_t t = 0; j < N && t < K; t++)
                want -= (double)a[i * LD + t] * (double)b[t * LD + j];
            ck_assert_double_le(fabs((double)c[i * LD + j] - want), j < N ? 1e-5 : 0);
        }
}
END_TEST

START_TEST(blas_is_named_by_version_core_and_threading)
{
    use_threads(3);
    char core[64], threading[64];
    int major, minor, patch;
    ck_assert_int_eq(sscanf(pare_blas_name(), "OpenBLAS %d.%d.%d %63s %63s", &major, &minor, &patch,
                            core, threading),
                     5);
    ck_assert_ptr_eq(pare_blas_name(), pare_blas_name());
}
END_TEST

/* Against sums in double: every transposition, rows with gaps, more than one tile, c added to. */
START_TEST(a_product_equals_sums_in_double_for_every_transposition)
{
    enum { M = 131, N = 260, K = 37, GAP = 3 };
    const bool ta = _i & 1, tb = _i & 2;
    const size_t lda = (ta ? M : K) + GAP, ldb = (tb ? K : N) + GAP, ldc = N + GAP;
    const float *const a = normals(1, (M + K) * (M + K)), *const b = normals(2, ldb * (N + K));
    use_threads(3);
    float *const c = normals(3, M * ldc), *const before = normals(3, M * ldc);
    pare_gemm_tiles(&cx, &(pare_gemm){.m = M,
                                      .n = N,
                                      .k = K,
                                      .a = a,
                                      .lda = lda,
                                      .transpose_a = ta,
                                      .b = b,
                                      .ldb = ldb,
                                      .transpose_b = tb,
                                      .c = c,
                                      .ldc = ldc,
                                      .alpha = 0.5F,
                                      .beta = -2});
    for (size_t i = 0; i < M; i++)
        for (size_t j = 0; j < ldc; j++) {
            double sum = 0, whole = 2 * fabs((double)before[i * ldc + j]);
            for (size_t l = 0; l < K; l++) {
                const double term = (double)(ta ? a[l * lda + i] : a[i * lda + l]) *
                                    (double)(tb ? b[j * ldb + l] : b[l * ldb + j]) / 2;
                sum += j < N ? term : 0;
                whole += j < N ? fabs(term) : 0;
            }
            const double want =
                j < N ? sum - 2 * (double)before[i * ldc + j] : (double)before[i * ldc + j];
            ck_assert(fabs((double)c[i * ldc + j] - want) <= 40 * 6e-8 * whole);
        }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("linalg");
    TCase *const t = tcase_create("linalg");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, gram_adds_the_products_of_columns, 0, SIZES);
    tcase_add_loop_test(t, cholesky_gives_the_matrix_back, 0, SIZES);
    tcase_add_loop_test(t, inverse_times_the_factor_is_one, 0, SIZES);
    tcase_add_test(t, first_pivot_that_is_not_positive_is_named);
    tcase_add_test(t, nan_infinity_and_zero_are_failed_pivots);
    tcase_add_test(t, threads_do_not_change_a_bit);
    tcase_add_loop_test(t, panels_do_not_change_a_bit, 0, 6);
    tcase_add_test(t, levels_of_the_processor_do_not_change_a_bit);
    tcase_add_loop_test(t, a_product_has_the_bits_of_its_definition, 0, 4);
    tcase_add_test(t, gemm_sub_takes_a_product_away);
    tcase_add_loop_test(t, a_product_equals_sums_in_double_for_every_transposition, 0, 4);
    tcase_add_test(t, blas_is_named_by_version_core_and_threading);
    suite_add_tcase(s, t);
    return unit_main(s);
}
