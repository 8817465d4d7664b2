/* Both factorizations walk square tiles of TILE rows. One step of each is a short serial part or a
 * column of independent triangular solves, then a loop over independent tile products, which hold
 * nearly all of the work. The tiles, and the order of the products that reach one tile, are fixed:
 * the number of threads only decides who computes what.
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
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/room.h"
#include "runtime/threads.h"

enum { TILE = 256, GEMM_TILE = 128 };
/* What OpenBLAS maps for each caller at once, its pages around it included. */
static const uint64_t BLAS_BUFFER = (uint64_t)129 << 20;

/* Column-major upper is row-major lower transposed: LAPACK sees the same memory. */
enum { COLUMNS = LAPACK_COL_MAJOR };

/* A square row-major matrix of either precision, its step and what runs in parallel over it. */
typedef struct square {
    const pare_ctx *cx;
    void *a;
    size_t n, tiles, p;
    bool f64;
} square;

static int dim(size_t n)
{
    return (int)n;
}

static square make_square(const pare_ctx *cx, void *a, size_t n, bool f64)
{
    return (square){cx, a, n, (n + TILE - 1) / TILE, 0, f64};
}

/* Rows (or columns) of tile i. */
static int extent(const square *s, size_t i)
{
    const size_t left = s->n - i * TILE;
    return dim(left < TILE ? left : TILE);
}

static float *at_f32(const square *s, size_t i, size_t j)
{
    return (float *)s->a + i * TILE * s->n + j * TILE;
}

static double *at_f64(const square *s, size_t i, size_t j)
{
    return (double *)s->a + i * TILE * s->n + j * TILE;
}

/* A_ij += sign A_ip op(B), B = A_jp transposed or A_pj. */
static void product(const square *s, size_t i, size_t j, bool transposed, int sign)
{
    const size_t p = s->p, bi = transposed ? j : p, bj = transposed ? p : j;
    const int m = extent(s, i), n = extent(s, j), k = extent(s, p), ld = dim(s->n);
    const enum CBLAS_TRANSPOSE t = transposed ? CblasTrans : CblasNoTrans;
    if (s->f64)
        cblas_dgemm(CblasRowMajor, CblasNoTrans, t, m, n, k, sign, at_f64(s, i, p), ld,
                    at_f64(s, bi, bj), ld, 1, at_f64(s, i, j), ld);
    else
        cblas_sgemm(CblasRowMajor, CblasNoTrans, t, m, n, k, (float)sign, at_f32(s, i, p), ld,
                    at_f32(s, bi, bj), ld, 1, at_f32(s, i, j), ld);
}

/* Lower half of A_ii -= A_ip A_ip^T. */
static void product_diagonal(const square *s, size_t i)
{
    const size_t p = s->p;
    const int m = extent(s, i), k = extent(s, p), ld = dim(s->n);
    if (s->f64)
        cblas_dsyrk(CblasRowMajor, CblasLower, CblasNoTrans, m, k, -1, at_f64(s, i, p), ld, 1,
                    at_f64(s, i, i), ld);
    else
        cblas_ssyrk(CblasRowMajor, CblasLower, CblasNoTrans, m, k, -1, at_f32(s, i, p), ld, 1,
                    at_f32(s, i, i), ld);
}

/* A_ij = alpha A_ij op(L_tt)^-1, or alpha L_tt^-1 A_ij from the left. */
static void solve(const square *s, enum CBLAS_SIDE side, enum CBLAS_TRANSPOSE op, size_t t,
                  size_t i, size_t j, int alpha)
{
    const int m = extent(s, i), n = extent(s, j), ld = dim(s->n);
    if (s->f64)
        cblas_dtrsm(CblasRowMajor, side, CblasLower, op, CblasNonUnit, m, n, alpha, at_f64(s, t, t),
                    ld, at_f64(s, i, j), ld);
    else
        cblas_strsm(CblasRowMajor, side, CblasLower, op, CblasNonUnit, m, n, (float)alpha,
                    at_f32(s, t, t), ld, at_f32(s, i, j), ld);
}

/* Tile (i, j) of number `index` in a lower triangle, row after row. */
static void triangle(size_t index, size_t *i, size_t *j)
{
    *i = 0;
    while (index > *i)
        index -= ++*i;
    *j = index;
}

/* Factors tile p; the 1-based pivot within it that failed, or 0. LAPACK lets a NaN pass. */
static size_t factor_diagonal(const square *s)
{
    const int m = extent(s, s->p), ld = dim(s->n);
    const int info = s->f64 ? LAPACKE_dpotrf_work(COLUMNS, 'U', m, at_f64(s, s->p, s->p), ld)
                            : LAPACKE_spotrf_work(COLUMNS, 'U', m, at_f32(s, s->p, s->p), ld);
    for (int d = 0; d < m; d++) {
        const size_t at = (size_t)d * (s->n + 1);
        const double pivot = s->f64 ? at_f64(s, s->p, s->p)[at] : (double)at_f32(s, s->p, s->p)[at];
        if (d + 1 == info || !(pivot > 0) || !isfinite(pivot))
            return (size_t)d + 1;
    }
    return 0;
}

static void cholesky_panel(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++)
        solve(s, CblasRight, CblasTrans, s->p, s->p + 1 + x, s->p, 1);
}

static void cholesky_trailing(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        size_t i, j;
        triangle(x, &i, &j);
        i += s->p + 1;
        j += s->p + 1;
        if (i == j)
            product_diagonal(s, i);
        else
            product(s, i, j, true, -1);
    }
}

static size_t cholesky(square s)
{
    for (s.p = 0; s.p < s.tiles; s.p++) {
        const size_t bad = factor_diagonal(&s), below = s.tiles - s.p - 1;
        if (bad)
            return s.p * TILE + bad;
        pare_parallel(s.cx, below, 1, cholesky_panel, &s);
        pare_parallel(s.cx, below * (below + 1) / 2, 1, cholesky_trailing, &s);
    }
    return 0;
}

size_t pare_cholesky_f32(const pare_ctx *cx, float *a, size_t n)
{
    return cholesky(make_square(cx, a, n, false));
}

size_t pare_cholesky_f64(const pare_ctx *cx, double *a, size_t n)
{
    return cholesky(make_square(cx, a, n, true));
}

static void inverse_panel(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++)
        solve(s, CblasRight, CblasNoTrans, s->p, s->p + 1 + x, s->p, -1);
}

static void inverse_products(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++)
        product(s, s->p + 1 + x / s->p, x % s->p, false, 1);
}

static void inverse_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        size_t i, j;
        triangle(x, &i, &j);
        solve(s, CblasLeft, CblasNoTrans, i + 1, i + 1, j, 1);
    }
}

static void inverse_diagonal(void *arg, size_t begin, size_t end, size_t worker)
{
    const square *const s = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        const int m = extent(s, i), ld = dim(s->n);
        if (s->f64)
            (void)LAPACKE_dtrtri_work(COLUMNS, 'U', 'N', m, at_f64(s, i, i), ld);
        else
            (void)LAPACKE_strtri_work(COLUMNS, 'U', 'N', m, at_f32(s, i, i), ld);
    }
}

static void triangular_inverse(square s)
{
    for (s.p = 0; s.p < s.tiles; s.p++) {
        const size_t below = s.tiles - s.p - 1;
        pare_parallel(s.cx, below, 1, inverse_panel, &s);
        pare_parallel(s.cx, below * s.p, 1, inverse_products, &s);
    }
    if (s.tiles > 1)
        pare_parallel(s.cx, s.tiles * (s.tiles - 1) / 2, 1, inverse_rows, &s);
    pare_parallel(s.cx, s.tiles, 1, inverse_diagonal, &s);
}

void pare_triangular_inverse_f32(const pare_ctx *cx, float *l, size_t n)
{
    triangular_inverse(make_square(cx, l, n, false));
}

void pare_triangular_inverse_f64(const pare_ctx *cx, double *l, size_t n)
{
    triangular_inverse(make_square(cx, l, n, true));
}

typedef struct gram_job {
    square h;
    const float *x;
    size_t rows;
} gram_job;

static void gram_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const gram_job *const job = arg;
    const square *const h = &job->h;
    const int rows = dim(job->rows), ld = dim(h->n);
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        size_t i, j;
        triangle(x, &i, &j);
        if (i == j)
            cblas_ssyrk(CblasRowMajor, CblasLower, CblasTrans, extent(h, i), rows, 1,
                        job->x + i * TILE, ld, 1, at_f32(h, i, i), ld);
        else
            cblas_sgemm(CblasRowMajor, CblasTrans, CblasNoTrans, extent(h, i), extent(h, j), rows,
                        1, job->x + i * TILE, ld, job->x + j * TILE, ld, 1, at_f32(h, i, j), ld);
    }
}

void pare_gram_add(const pare_ctx *cx, float *h, const float *x, size_t rows, size_t k)
{
    gram_job job = {make_square(cx, h, k, false), x, rows};
    pare_parallel(cx, job.h.tiles * (job.h.tiles + 1) / 2, 1, gram_tiles, &job);
}

void pare_gemm_sub(float *c, size_t ldc, const float *a, size_t lda, const float *b, size_t ldb,
                   size_t m, size_t n, size_t k)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, dim(m), dim(n), dim(k), -1, a, dim(lda),
                b, dim(ldb), 1, c, dim(ldc));
}

void pare_gemm_run(const pare_gemm *g)
{
    cblas_sgemm(CblasRowMajor, g->transpose_a ? CblasTrans : CblasNoTrans,
                g->transpose_b ? CblasTrans : CblasNoTrans, dim(g->m), dim(g->n), dim(g->k),
                g->alpha, g->a, dim(g->lda), g->b, dim(g->ldb), g->beta, g->c, dim(g->ldc));
}

static void gemm_tiles(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare_gemm *const all = arg;
    const size_t across = (all->n + GEMM_TILE - 1) / GEMM_TILE;
    (void)worker;
    for (size_t x = begin; x < end; x++) {
        const size_t i = x / across * GEMM_TILE, j = x % across * GEMM_TILE;
        pare_gemm g = *all;
        g.m = all->m - i < GEMM_TILE ? all->m - i : GEMM_TILE;
        g.n = all->n - j < GEMM_TILE ? all->n - j : GEMM_TILE;
        g.a += all->transpose_a ? i : i * all->lda;
        g.b += all->transpose_b ? j * all->ldb : j;
        g.c += i * all->ldc + j;
        pare_gemm_run(&g);
    }
}

void pare_gemm_tiles(const pare_ctx *cx, const pare_gemm *g)
{
    pare_gemm copy = *g;
    const size_t down = (g->m + GEMM_TILE - 1) / GEMM_TILE;
    pare_parallel(cx, down * ((g->n + GEMM_TILE - 1) / GEMM_TILE), 1, gemm_tiles, &copy);
}

uint64_t pare_linalg_room(size_t threads)
{
    return (uint64_t)threads * BLAS_BUFFER;
}

/* Exported by every build of OpenBLAS, declared in no header: what each call of BLAS does first and
 * last. Buffers that are given back are kept for the next calls. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

/* OpenBLAS was built with room for two buffers for each of its threads; one more makes it write a
 * warning. */
static size_t buffers_held(void)
{
    static const char word[] = "MAX_THREADS=";
    const char *const at = strstr(openblas_get_config(), word);
    const long threads = at ? strtol(at + sizeof word - 1, NULL, 10) : 0;
    return threads > 0 ? 2 * (size_t)threads : PARE_THREADS_MAX;
}

/* As many buffers at once as there will ever be callers, as far as they are held. */
static void make_buffers(size_t workers)
{
    void *buffer[PARE_THREADS_MAX];
    const size_t held = buffers_held(), count = workers < held ? workers : held;
    for (size_t i = 0; i < count; i++)
        buffer[i] = blas_memory_alloc(0);
    for (size_t i = 0; i < count; i++)
        blas_memory_free(buffer[i]);
}

pare_status pare_linalg_init(pare_ctx *cx)
{
    static atomic_size_t ready; /* buffers that there are */
    const size_t workers = pare_threads(cx), have = atomic_load(&ready);
    openblas_set_num_threads(1);
    if (workers > 1 && openblas_get_parallel() == OPENBLAS_SEQUENTIAL)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s gives wrong results when called from %zu threads: install "
                         "libopenblas0-pthread, or run with one thread",
                         pare_blas_name(), workers);
    if (workers <= have)
        return PARE_OK;
    char what[64];
    (void)snprintf(what, sizeof what, "BLAS in %zu thread%s", workers, pare_plural(workers));
    PARE_TRY(pare_room_check(cx, pare_linalg_room(workers - have), what,
                             workers > 1 ? "give a smaller --threads" : NULL));
    make_buffers(workers);
    atomic_store(&ready, workers);
    return PARE_OK;
}

size_t pare_linalg_panels(size_t widest)
{
    enum { DEEPEST = 512 }; /* rows of a panel, on any CPU */
    const size_t tile = widest < TILE ? widest : TILE;
    return 2 * tile * DEEPEST * sizeof(float);
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
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t work = 1 + 6 * n + 2 * n * n, words = 3 + 5 * n;
    double *const w = PARE_NEW(scratch, double, work);
    lapack_int *const iw = PARE_NEW(scratch, lapack_int, words);
    if (!w || !iw)
        return PARE_ENOMEM;
    /* row-major lower is column-major upper, and column i out is row i */
    const lapack_int info = LAPACKE_dsyevd_work(COLUMNS, 'V', 'U', dim(n), a, dim(n), value, w,
                                                dim(work), iw, dim(words));
    pare_arena_rewind(scratch, mark);
    return info == 0 ? PARE_OK
                     : pare_fail(cx, PARE_ENUMERIC,
                                 "the eigenvalues of a %zu x %zu matrix did not converge (%d)", n,
                                 n, (int)info);
}

size_t pare_rank_f32(float *a, size_t n, float least, int *pivot, float *work)
{
    lapack_int rank = 0;
    if (n)
        (void)LAPACKE_spstrf_work(COLUMNS, 'U', dim(n), a, dim(n), pivot, &rank, least, work);
    return (size_t)rank;
}
