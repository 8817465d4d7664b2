/* Both factorizations walk square tiles of TILE rows. One step of each is a short serial part or a
 * column of independent triangular solves, then a product, which holds nearly all of the work.
 * The tiles, and so the blocks that a sum is cut into, are fixed.
 *
 * Cholesky, right-looking, for p = 0, 1, ...:
 *     L_pp = chol(A_pp);   L_ip = A_ip L_pp^-T;   A_ij -= L_ip L_jp^T      (i >= j > p)
 * Inverse of L, right-looking, for p = 0, 1, ...:
 *     A_ip = -A_ip L_pp^-1;   A_ij += A_ip A_pj                            (i > p > j)
 * and at the end, for all p > j:   A_pj = L_pp^-1 A_pj;   A_pp = L_pp^-1.
 * In place: row p is final up to its solve with L_pp once step p is done, and read no more. */
#include "runtime/linalg.h"

#include <cblas.h>
#include <lapacke.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "runtime/product.h"
#include "runtime/room.h"
#include "runtime/small.h"
#include "runtime/solve.h"
#include "runtime/threads.h"

enum { TILE = PARE_LOWER_TILE };
_Static_assert((int)TILE == (int)PARE_SOLVE_MOST, "tiles are as large as can be");
/* What OpenBLAS maps for each caller at once, its pages around it included. */
static const uint64_t blas_buffer = (uint64_t)129 << 20;

/* The triangle, the step and what runs in parallel over it. */
typedef struct walk {
    const pare_ctx *cx;
    const pare_lower *l;
    size_t tiles, p;
} walk;

static walk make_walk(const pare_ctx *cx, const pare_lower *l)
{
    return (walk){cx, l, (l->n + TILE - 1) / TILE, 0};
}

/* Rows (or columns) of tile i. */
static size_t extent(const walk *s, size_t i)
{
    return pare_smaller(s->l->n - i * TILE, TILE);
}

static void *at(const walk *s, size_t row, size_t column)
{
    const size_t size = s->l->f64 ? sizeof(double) : sizeof(float);
    return (char *)s->l->a + (pare_lower_place(s->l, row) + column) * size;
}

/* Tile (i, j) becomes sign X, with tile (t, t) as the factor. */
static void solve(const walk *s, pare_solve_kind kind, size_t t, size_t i, size_t j)
{
    pare_solve(&s->cx->kernels,
               &(pare_triangle_solve){.kind = kind,
                                      .n = extent(s, t),
                                      .count = extent(s, kind == PARE_SOLVE_LEFT ? j : i),
                                      .l = at(s, t * TILE, t * TILE),
                                      .ldl = pare_lower_step(s->l, t * TILE),
                                      .x = at(s, i * TILE, j * TILE),
                                      .ld = pare_lower_step(s->l, i * TILE),
                                      .f64 = s->l->f64});
}

/* Behind the panel of a row. */
static size_t panel_end(const walk *s, size_t row)
{
    return pare_smaller((row / s->l->panel + 1) * s->l->panel, s->l->n);
}

/* Rows [row, end) of a panel and columns [column, stop) of the trailing half lose the product of
 * their column p. */
static void cholesky_product(const walk *s, size_t row, size_t end, size_t column, size_t stop)
{
    const size_t p = s->p * TILE, step = pare_lower_step(s->l, row);
    pare_product_tiles(s->cx, &(pare_product){.m = end - row,
                                              .n = stop - column,
                                              .k = TILE,
                                              .a = at(s, row, p),
                                              .lda = step,
                                              .b = at(s, column, p),
                                              .ldb = pare_lower_step(s->l, column),
                                              .transpose_b = true,
                                              .c = at(s, row, column),
                                              .ldc = step,
                                              .alpha = -1,
                                              .lower = row == column,
                                              .f64 = s->l->f64});
}

static void cholesky_trailing(const walk *s)
{
    const size_t first = (s->p + 1) * TILE;
    for (size_t row = first, end; row < s->l->n; row = end) {
        end = panel_end(s, row);
        for (size_t column = first, stop; column <= row; column = stop) {
            stop = panel_end(s, column);
            cholesky_product(s, row, end, column, stop);
        }
    }
}

static void cholesky_panel(void *arg, size_t begin, size_t end, size_t worker)
{
    const walk *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++)
        solve(s, PARE_SOLVE_RIGHT_TRANSPOSED, s->p, s->p + 1 + x, s->p);
}

size_t pare_cholesky(const pare_ctx *cx, const pare_lower *a)
{
    walk s = make_walk(cx, a);
    for (s.p = 0; s.p < s.tiles; s.p++) {
        const size_t first = s.p * TILE;
        const size_t bad = pare_factor_tile(&cx->kernels, at(&s, first, first),
                                            pare_lower_step(a, first), extent(&s, s.p), a->f64);
        if (bad)
            return first + bad;
        pare_parallel(cx, s.tiles - s.p - 1, 1, cholesky_panel, &s);
        cholesky_trailing(&s);
    }
    return 0;
}

static void inverse_panel(void *arg, size_t begin, size_t end, size_t worker)
{
    const walk *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++)
        solve(s, PARE_SOLVE_RIGHT_NEGATED, s->p, s->p + 1 + x, s->p);
}

static void inverse_products(const walk *s)
{
    const size_t p = s->p * TILE;
    for (size_t row = p + TILE, end; p > 0 && row < s->l->n; row = end) {
        const size_t step = pare_lower_step(s->l, row);
        end = panel_end(s, row);
        pare_product_tiles(s->cx, &(pare_product){.m = end - row,
                                                  .n = p,
                                                  .k = TILE,
                                                  .a = at(s, row, p),
                                                  .lda = step,
                                                  .b = at(s, p, 0),
                                                  .ldb = pare_lower_step(s->l, p),
                                                  .c = at(s, row, 0),
                                                  .ldc = step,
                                                  .alpha = 1,
                                                  .f64 = s->l->f64});
    }
}

static void inverse_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const walk *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        size_t i, j;
        pare_triangle(x, &i, &j);
        solve(s, PARE_SOLVE_LEFT, i + 1, i + 1, j);
    }
}

static void inverse_diagonal(void *arg, size_t begin, size_t end, size_t worker)
{
    const walk *const s = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        solve(s, PARE_SOLVE_INVERSE, i, i, i);
}

void pare_triangular_inverse(const pare_ctx *cx, const pare_lower *l)
{
    walk s = make_walk(cx, l);
    for (s.p = 0; s.p < s.tiles; s.p++) {
        pare_parallel(cx, s.tiles - s.p - 1, 1, inverse_panel, &s);
        inverse_products(&s);
    }
    if (s.tiles > 1)
        pare_parallel(cx, s.tiles * (s.tiles - 1) / 2, 1, inverse_rows, &s);
    pare_parallel(cx, s.tiles, 1, inverse_diagonal, &s);
}

void pare_gram_add(const pare_ctx *cx, float *h, const float *x, size_t rows, size_t k)
{
    pare_product_tiles(cx, &(pare_product){.m = k,
                                           .n = k,
                                           .k = rows,
                                           .a = x,
                                           .lda = k,
                                           .transpose_a = true,
                                           .b = x,
                                           .ldb = k,
                                           .c = h,
                                           .ldc = k,
                                           .alpha = 1,
                                           .lower = true});
}

void pare_gemm_sub(const pare_kernels *kernels, float *c, size_t ldc, const float *a, size_t lda,
                   const float *b, size_t ldb, size_t m, size_t n, size_t k)
{
    pare_product_add(kernels, &(pare_product){.m = m,
                                              .n = n,
                                              .k = k,
                                              .a = a,
                                              .lda = lda,
                                              .b = b,
                                              .ldb = ldb,
                                              .c = c,
                                              .ldc = ldc,
                                              .alpha = -1});
}

/* beta c, of which nothing is read where beta is 0. */
static void scale(const pare_gemm *g)
{
    for (size_t i = 0; g->beta != 1 && i < g->m; i++)
        if (g->beta == 0)
            memset(g->c + i * g->ldc, 0, g->n * sizeof *g->c);
        else
            for (size_t j = 0; j < g->n; j++)
                g->c[i * g->ldc + j] *= g->beta;
}

static pare_product product_of(const pare_gemm *g)
{
    return (pare_product){.m = g->m,
                          .n = g->n,
                          .k = g->k,
                          .a = g->a,
                          .lda = g->lda,
                          .transpose_a = g->transpose_a,
                          .b = g->b,
                          .ldb = g->ldb,
                          .transpose_b = g->transpose_b,
                          .c = g->c,
                          .ldc = g->ldc,
                          .alpha = g->alpha};
}

void pare_gemm_run(const pare_kernels *kernels, const pare_gemm *g)
{
    const pare_product p = product_of(g);
    scale(g);
    pare_product_add(kernels, &p);
}

void pare_gemm_tiles(const pare_ctx *cx, const pare_gemm *g)
{
    const pare_product p = product_of(g);
    scale(g);
    pare_product_tiles(cx, &p);
}

uint64_t pare_blas_room(size_t threads)
{
    return (uint64_t)threads * blas_buffer;
}

static struct {
    pthread_once_t once;
    char text[128];
} blas_name = {.once = PTHREAD_ONCE_INIT};

/* The configuration reads "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ... Haswell MAX_THREADS=64". */
static void write_blas_name(void)
{
    static const char *const threading[] = {"serial", "pthread", "openmp"};
    const char *const config = openblas_get_config();
    const char *const first = strchr(config, ' ');
    const char *const second = first ? strchr(first + 1, ' ') : NULL;
    const int len = second ? (int)(second - config) : (int)strlen(config);
    const int parallel = openblas_get_parallel();
    (void)snprintf(blas_name.text, sizeof blas_name.text, "%.*s %s %s", len, config,
                   openblas_get_corename(),
                   parallel >= 0 && parallel < 3 ? threading[parallel] : "unknown");
}

const char *pare_blas_name(void)
{
    (void)pthread_once(&blas_name.once, write_blas_name);
    return blas_name.text;
}

pare_status pare_eigen_f64(pare_ctx *cx, pare_arena *scratch, double *a, size_t n, double *value)
{
    PARE_TRY(pare_room_check(cx, pare_blas_room(1), "eigenvalues by BLAS", NULL));
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t work = 1 + 6 * n + 2 * n * n, words = 3 + 5 * n;
    double *const w = PARE_NEW(scratch, double, work);
    lapack_int *const iw = PARE_NEW(scratch, lapack_int, words);
    if (!w || !iw)
        return PARE_ENOMEM;
    openblas_set_num_threads(1);
    /* row-major lower is column-major upper, and column i out is row i */
    const lapack_int info =
        LAPACKE_dsyevd_work(LAPACK_COL_MAJOR, 'V', 'U', (lapack_int)n, a, (lapack_int)n, value, w,
                            (lapack_int)work, iw, (lapack_int)words);
    pare_arena_rewind(scratch, mark);
    return info == 0 ? PARE_OK
                     : pare_fail(cx, PARE_ENUMERIC,
                                 "the eigenvalues of a %zu x %zu matrix did not converge (%d)", n,
                                 n, (int)info);
}

size_t pare_rank_f32(float *a, size_t n, float least, float *column)
{
    for (size_t rank = 0;; rank++) {
        size_t p = n;
        float largest = least;
        for (size_t i = 0; i < n; i++)
            if (a[i * (n + 1)] > largest) {
                largest = a[i * (n + 1)];
                p = i;
            }
        if (p == n)
            return rank;
        const float root = sqrtf(largest);
        for (size_t i = 0; i < n; i++)
            column[i] = a[i * (n + 1)] > least ? a[i > p ? i * n + p : p * n + i] / root : 0;
        a[p * (n + 1)] = 0;
        for (size_t i = 0; i < n; i++)
            if (a[i * (n + 1)] > least)
                for (size_t j = 0; j <= i; j++)
                    a[i * n + j] -= column[i] * column[j];
    }
}
