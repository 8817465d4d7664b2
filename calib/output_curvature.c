#include "calib/output_curvature.h"

#include <math.h>

#include "runtime/linalg.h"
#include "runtime/threads.h"

static const double floor_of_diagonal = 0.01; /* of its mean */

static size_t padded(size_t n)
{
    return (n + PARE_OUTPUT_BLOCK - 1) / PARE_OUTPUT_BLOCK * PARE_OUTPUT_BLOCK;
}

/* Floats of the linears; first may be NULL. */
static size_t layout(const pare_config *c, size_t *first)
{
    size_t at = 0;
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, 0, (pare_role)role, &n, &k);
        if (first)
            first[role] = at;
        at += padded(n) * PARE_OUTPUT_BLOCK;
    }
    if (first)
        first[PARE_ROLES] = at;
    return at;
}

size_t pare_output_curvature_floats(const pare_config *c)
{
    return layout(c, NULL);
}

uint64_t pare_output_curvature_bytes(const pare_config *c)
{
    return (uint64_t)layout(c, NULL) * sizeof(float) + PARE_ALIGN;
}

pare_status pare_output_curvature_take(pare_arena *a, const pare_config *c,
                                       pare_output_curvature *out)
{
    *out = (pare_output_curvature){0};
    out->o = PARE_NEW(a, float, layout(c, out->first));
    return out->o ? PARE_OK : PARE_ENOMEM;
}

typedef struct add_job {
    const pare_kernels *kernels;
    const float *dy;
    size_t rows, n;
    float *o; /* of the linear */
} add_job;

static void add_blocks(void *arg, size_t begin, size_t end, size_t worker)
{
    const add_job *const job = arg;
    (void)worker;
    for (size_t b = begin; b < end; b++) {
        const size_t first = b * PARE_OUTPUT_BLOCK;
        const size_t n = job->n - first < PARE_OUTPUT_BLOCK ? job->n - first : PARE_OUTPUT_BLOCK;
        pare_gemm_run(job->kernels, &(pare_gemm){.m = n,
                                                 .n = n,
                                                 .k = job->rows,
                                                 .a = job->dy + first,
                                                 .lda = job->n,
                                                 .transpose_a = true,
                                                 .b = job->dy + first,
                                                 .ldb = job->n,
                                                 .c = job->o + first * PARE_OUTPUT_BLOCK,
                                                 .ldc = PARE_OUTPUT_BLOCK,
                                                 .alpha = 1,
                                                 .beta = 1});
    }
}

void pare_output_curvature_add(const pare_ctx *cx, pare_output_curvature *oc, pare_role role,
                               const float *dy, size_t rows, size_t n)
{
    add_job job = {.kernels = &cx->kernels, .dy = dy, .rows = rows, .n = n};
    job.o = oc->o + oc->first[role];
    pare_parallel(cx, padded(n) / PARE_OUTPUT_BLOCK, 1, add_blocks, &job);
}

/* o [n, block], finite or not. */
static bool settle_linear(float *o, size_t n)
{
    double sum = 0, all = 0;
    for (size_t r = 0; r < n; r++)
        for (size_t l = 0; l < PARE_OUTPUT_BLOCK; l++)
            all += fabs((double)o[r * PARE_OUTPUT_BLOCK + l]);
    if (!isfinite(all))
        return false;
    for (size_t r = 0; r < n; r++)
        sum += (double)o[r * PARE_OUTPUT_BLOCK + r % PARE_OUTPUT_BLOCK];
    const double over = sum > 0 ? (double)n / sum : 0;
    for (size_t r = 0; r < n; r++) {
        float *const row = o + r * PARE_OUTPUT_BLOCK;
        for (size_t l = 0; l < PARE_OUTPUT_BLOCK; l++)
            row[l] = (float)((double)row[l] * over);
        row[r % PARE_OUTPUT_BLOCK] += sum > 0 ? (float)floor_of_diagonal : 1;
    }
    return true;
}

pare_status pare_output_curvature_settle(pare_ctx *cx, const pare_config *c, size_t block,
                                         pare_output_curvature *oc)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_block_shape(c, block, 0, (pare_role)role, &n, &k);
        if (!settle_linear(oc->o + oc->first[role], n))
            return pare_fail(cx, PARE_ENUMERIC,
                             "block %zu: gradients of the loss are not finite: say token_weights: "
                             "even",
                             block);
    }
    return PARE_OK;
}

const float *pare_output_curvature_at(const pare_output_curvature *oc, pare_role role)
{
    return oc->o ? oc->o + oc->first[role] : NULL;
}
