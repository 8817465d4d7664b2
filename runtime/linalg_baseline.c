#include "runtime/linalg_baseline.h"

#include <cblas.h>
#include <lapacke.h>
#include <pthread.h>
#include <stdlib.h>

#include "runtime/linalg.h"
#include "runtime/machine.h"
#include "runtime/room.h"
#include "runtime/small.h"
#include "runtime/threads.h"

enum { SIZE_LARGEST = 65536, RUNS = 5 };

/* What the threads of BLAS and `floats` numbers take must fit: BLAS would wait for ever. */
static pare_status check_room(pare_ctx *cx, size_t threads, uint64_t floats)
{
    pthread_attr_t attr;
    size_t stack = 0;
    if (pthread_attr_init(&attr) != 0 || pthread_attr_getstacksize(&attr, &stack) != 0)
        return pare_fail(cx, PARE_ENOMEM, "baseline: out of memory");
    (void)pthread_attr_destroy(&attr);
    return pare_room_check(
        cx, pare_blas_room(threads) + (uint64_t)(threads - 1) * stack + floats * sizeof(float),
        "the OpenBLAS baseline", NULL);
}

static pare_status start(pare_ctx *cx, size_t m, size_t n, size_t k)
{
    const size_t threads = pare_cpu_count();
    if (m == 0 || n == 0 || k == 0 || m > SIZE_LARGEST || n > SIZE_LARGEST || k > SIZE_LARGEST)
        return pare_fail(cx, PARE_EINVAL, "baseline of %zu x %zu x %zu: sizes are 1 to %d", m, n, k,
                         SIZE_LARGEST);
    PARE_TRY(check_room(cx, threads, (uint64_t)m * k + (uint64_t)n * k + (uint64_t)m * n));
    openblas_set_num_threads((int)threads);
    return PARE_OK;
}

/* Some numbers around 0; their values do not matter to the time. */
static float *numbers(pare_arena *a, size_t rows, size_t columns)
{
    float *const x = PARE_NEW(a, float, rows *columns);
    for (size_t i = 0; x && i < rows * columns; i++)
        x[i] = (float)(i * 2654435761u >> 8 & 0xffffu) * 0x1p-16f - 0.5f;
    return x;
}

static void sgemm(float *y, const float *x, const float *w, size_t m, size_t n, size_t k)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, (int)m, (int)n, (int)k, 1.0f, x, (int)k, w,
                (int)k, 0.0f, y, (int)n);
}

pare_status pare_blas_sgemm_seconds(pare_ctx *cx, size_t m, size_t n, size_t k, double *seconds)
{
    PARE_TRY(start(cx, m, n, k));
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s != PARE_OK)
        return s;
    float *const x = numbers(&a, m, k), *const w = numbers(&a, n, k), *const y = numbers(&a, m, n);
    if (x && w && y) {
        double time[RUNS];
        sgemm(y, x, w, m, n, k);
        for (size_t i = 0; i < RUNS; i++) {
            const double t = pare_seconds();
            sgemm(y, x, w, m, n, k);
            time[i] = pare_seconds() - t;
        }
        qsort(time, RUNS, sizeof *time, pare_by_double);
        *seconds = time[RUNS / 2];
    } else {
        s = PARE_ENOMEM;
    }
    pare_arena_release(&a);
    return s;
}

/* a[i, j] = 1 / (1 + |i - j|), and 2 on the diagonal: positive definite, well conditioned. */
static void fill_definite(float *a, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++)
            a[i * n + j] = i == j ? 2.0f : 1.0f / (float)(1 + (i > j ? i - j : j - i));
}

/* The order H = L L^T, H^-1, H^-1 = U^T U, then one product of the same size. */
static lapack_int solve(float *a, float *b, float *c, size_t n)
{
    const lapack_int size = (lapack_int)n;
    lapack_int info = LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', size, a, size);
    if (info == 0)
        info = LAPACKE_spotri_work(LAPACK_COL_MAJOR, 'L', size, a, size);
    if (info == 0)
        info = LAPACKE_spotrf_work(LAPACK_COL_MAJOR, 'L', size, a, size);
    sgemm(c, b, b, n, n, n);
    return info;
}

pare_status pare_blas_solve_seconds(pare_ctx *cx, size_t n, double *seconds)
{
    PARE_TRY(start(cx, n, n, n));
    pare_arena arena;
    pare_status s = pare_arena_init(cx, &arena, 0);
    if (s != PARE_OK)
        return s;
    float *const a = numbers(&arena, n, n), *const b = numbers(&arena, n, n),
                 *const c = numbers(&arena, n, n);
    if (a && b && c) {
        const size_t warm = n < 512 ? n : 512;
        fill_definite(a, warm);
        lapack_int info = solve(a, b, c, warm);
        fill_definite(a, n);
        const double t = pare_seconds();
        info = info ? info : solve(a, b, c, n);
        *seconds = pare_seconds() - t;
        if (info != 0)
            s = pare_fail(cx, PARE_ENUMERIC, "baseline: LAPACK stopped with info = %d", (int)info);
    } else {
        s = PARE_ENOMEM;
    }
    pare_arena_release(&arena);
    return s;
}
