/* runtime/linalg.h - dense linear algebra; the only user of BLAS and LAPACK, which only
 * pare_eigen_f64 calls.
 *
 * All else is built on products of panels (product.h), triangular solves and factors of tiles
 * (solve.h) of our own: sums are in a fixed order, so results have the same bytes on every CPU, for
 * any number of threads. Matrices are row-major. */
#ifndef PARE_RUNTIME_LINALG_H
#define PARE_RUNTIME_LINALG_H

#include <stdbool.h>

#include "runtime/arena.h"

/* Bytes of private memory that BLAS maps when it is called from so many threads. */
uint64_t pare_blas_room(size_t threads);

/* "OpenBLAS 0.3.21 Haswell pthread": version, kernel, threading. Static storage, thread-safe. */
const char *pare_blas_name(void);

/* h += x^T x for x [rows, k] (ldx = k): h [k, k], only the part on and below the diagonal is
 * touched. Threads over tiles. */
void pare_gram_add(const pare_ctx *cx, float *h, const float *x, size_t rows, size_t k);

/* The lower triangle of a matrix [n, n], row after row, in panels of `panel` rows, a multiple of
 * PARE_LOWER_TILE or n. The rows of a panel are as long as its last one, so that the product of two
 * panels is one of matrices: beside n (n + 1) / 2 numbers there are n panel / 2 that mean nothing.
 * panel = n: a square. */
typedef struct pare_lower {
    void *a; /* floats, or doubles */
    size_t n, panel;
    bool f64;
} pare_lower;

enum { PARE_LOWER_PANELS = 8, PARE_LOWER_TILE = 240 };

/* Rows of a panel where there are up to so many: an eighth more than the triangle has, beside small
 * matrices. */
static inline size_t pare_lower_panel(size_t n)
{
    const size_t tiles = n / PARE_LOWER_TILE / PARE_LOWER_PANELS + 1,
                 panel = tiles * PARE_LOWER_TILE;
    return panel < n ? panel : n;
}

/* Numbers between a row of the panel of `row` and the next, and in front of `row`; row = n: all. */
static inline size_t pare_lower_step(const pare_lower *l, size_t row)
{
    const size_t end = (row / l->panel + 1) * l->panel;
    return end < l->n ? end : l->n;
}

static inline size_t pare_lower_place(const pare_lower *l, size_t row)
{
    const size_t panel = row / l->panel;
    return l->panel * l->panel * (panel * (panel + 1) / 2) +
           row % l->panel * pare_lower_step(l, row);
}

/* Cholesky factor in place: A = L L^T. What is above the diagonal is not touched. Blocked over
 * tiles, threads; the same bytes for any panel. Returns 0, or the 1-based index of the first pivot
 * that is not positive or not finite; A is then partly overwritten. */
size_t pare_cholesky(const pare_ctx *cx, const pare_lower *a);

/* Inverse of a lower triangular matrix in place; what is above the diagonal is not touched. The
 * diagonal holds no zero. */
void pare_triangular_inverse(const pare_ctx *cx, const pare_lower *l);

/* Eigenvalues of a symmetric matrix, ascending, and its eigenvectors: a [n, n], lower triangle in,
 * row i out the vector of value[i], of length 1. One thread: slow from some thousands of rows on.
 * Scratch: 16 n^2 bytes. By LAPACK: the bytes depend on pare_blas_name(), which is recorded in an
 * artifact that they are in. PARE_ENOMEM, also when a limit of the shell leaves less than BLAS
 * takes, which would wait for ever; PARE_ENUMERIC when the iteration does not converge. */
PARE_CHECKED pare_status pare_eigen_f64(pare_ctx *cx, pare_arena *scratch, double *a, size_t n,
                                        double *value);

/* The rank of a symmetric matrix without negative eigenvalues, up to a tolerance: Cholesky with the
 * largest diagonal element that is left as the next pivot, until that one is at most `least`. The
 * steps it took.
 *   a       [n, n], lower triangle in; overwritten
 *   column  [n]: overwritten
 * One thread. Work: n^2 r for rank r. */
size_t pare_rank_f32(float *a, size_t n, float least, float *column);

/* c -= a b: c [m, n], a [m, k], b [k, n], to be used inside a task. */
void pare_gemm_sub(const pare_kernels *kernels, float *c, size_t ldc, const float *a, size_t lda,
                   const float *b, size_t ldb, size_t m, size_t n, size_t k);

/* c = alpha op(a) op(b) + beta c, op transposing where told: op(a) [m, k], op(b) [k, n], c [m, n].
 * With beta 0 what c held does not matter. */
typedef struct pare_gemm {
    size_t m, n, k;
    const float *a;
    size_t lda;
    bool transpose_a; /* a is [k, m] */
    const float *b;
    size_t ldb;
    bool transpose_b; /* b is [n, k] */
    float *c;
    size_t ldc;
    float alpha, beta;
} pare_gemm;

/* To be used inside a task. */
void pare_gemm_run(const pare_kernels *kernels, const pare_gemm *g);

/* Threads over tiles of c. */
void pare_gemm_tiles(const pare_ctx *cx, const pare_gemm *g);

#endif
