/* F16 products of cuBLAS with F32 sums, as the same shapes as ours: what a matrix product of the
 * maker takes on this GPU. Its library is opened here and nowhere else. */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "compress/bench/bench_internal.h"
#include "tests/gpu/speed.h"

/* CUDA_R_16F, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT, CUBLAS_OP_N, CUBLAS_OP_T */
enum { F16 = 2, COMPUTE_F32 = 68, ANY = -1, PLAIN = 0, TURNED = 1 };

typedef struct cublas {
    int (*create)(void **handle);
    int (*destroy)(void *handle);
    int (*gemm)(void *handle, int op_a, int op_b, int m, int n, int k, const void *alpha,
                const void *a, int type_a, int lda, const void *b, int type_b, int ldb,
                const void *beta, void *c, int type_c, int ldc, int compute, int algorithm);
    void *handle;
    pare_address w, x, y;
    size_t copies, n, k, m;
} cublas;

static bool symbol(void *library, const char *name, void *member)
{
    void *const at = library ? dlsym(library, name) : NULL;
    memcpy(member, &at, sizeof at);
    return at != NULL;
}

static bool open_library(cublas *b)
{
    static const char *const names[] = {"libcublas.so.13", "libcublas.so.12",
                                        "/usr/local/cuda/lib64/libcublas.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return symbol(library, "cublasCreate_v2", &b->create) &&
           symbol(library, "cublasDestroy_v2", &b->destroy) &&
           symbol(library, "cublasGemmEx", &b->gemm);
}

static pare_status multiply(speed *s, void *self)
{
    const cublas *const b = self;
    const float one = 1, zero = 0;
    const int n = (int)b->n, m = (int)b->m, k = (int)b->k;
    for (size_t i = 0; i < b->copies; i++) {
        const void *const w = (void *)(uintptr_t)(b->w + i * b->n * b->k * 2);
        const int r =
            b->gemm(b->handle, TURNED, PLAIN, n, m, k, &one, w, F16, k, (void *)(uintptr_t)b->x,
                    F16, k, &zero, (void *)(uintptr_t)b->y, F16, n, COMPUTE_F32, ANY);
        if (r)
            return pare_fail(&s->cx, PARE_EDEVICE, "cublasGemmEx: error %d", r);
    }
    return PARE_OK;
}

static pare_status run_shape(speed *s, cublas *b)
{
    char text[32];
    double us;
    for (b->m = 1; b->m <= 256 && speed_goes_on(s); b->m *= 2) {
        PARE_TRY(speed_time_of(s, multiply, b, b->copies, &us));
        (void)printf("{\"kind\": \"cublas\", \"n\": %zu, \"k\": %zu, \"m\": %zu, \"us\": %s}\n",
                     b->n, b->k, b->m, speed_number(us, text));
    }
    return PARE_OK;
}

static pare_status with_weights(speed *s, cublas *b, pare_arena *a)
{
    static const pare__bench_subject f16 = {.name = "f16", .dtype = PARE_F16};
    pare__bench_weights w, x;
    pare_device *const d = s->real;
    PARE_TRY(pare__bench_weights_make(&s->cx, a, &f16, 1, b->n, b->k, (size_t)200 << 20, &w));
    PARE_TRY(pare__bench_weights_make(&s->cx, a, &f16, 2, 256, b->k, 1, &x));
    b->copies = w.copies;
    PARE_TRY(d->op->take(&s->cx, d, w.data_bytes, &b->w));
    PARE_TRY(d->op->take(&s->cx, d, x.data_bytes, &b->x));
    PARE_TRY(d->op->take(&s->cx, d, 256 * b->n * 2, &b->y));
    PARE_TRY(d->op->put(&s->cx, d, b->w, w.data, w.data_bytes));
    PARE_TRY(d->op->put(&s->cx, d, b->x, x.data, x.data_bytes));
    return run_shape(s, b);
}

static pare_status run(speed *s, cublas *b, size_t n, size_t k)
{
    pare_arena a = {.cx = &s->cx};
    b->n = n;
    b->k = k;
    b->w = b->x = b->y = 0;
    const pare_status status = with_weights(s, b, &a);
    s->real->op->give(&s->cx, s->real, b->w);
    s->real->op->give(&s->cx, s->real, b->x);
    s->real->op->give(&s->cx, s->real, b->y);
    pare_arena_release(&a);
    return status;
}

pare_status speed_cublas(speed *s)
{
    cublas b;
    const bool there = !s->small && open_library(&b);
    const int r = there ? b.create(&b.handle) : 0;
    if (!there || r) {
        (void)printf("{\"kind\": \"cublas\", \"note\": \"%s (%d)\"}\n",
                     s->small ? "not timed in a trial"
                     : r      ? "cublasCreate fails"
                              : "there is no libcublas.so.13 or .12",
                     r);
        return PARE_OK;
    }
    pare_status status = run(s, &b, 8192, 8192);
    if (status == PARE_OK)
        status = run(s, &b, 8192, 81920);
    (void)b.destroy(b.handle);
    return status;
}
