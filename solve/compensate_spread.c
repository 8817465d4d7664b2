/* What the inputs of a column have moved, spread over the columns behind it. */
#include "runtime/linalg.h"
#include "solve/compensate_internal.h"

enum { STRIP = PARE__STRIP };

void pare__sweep_spread_column(const pare__sweep *job, pare__strip *s, size_t row, size_t rows,
                               size_t c0, size_t c1, size_t j)
{
    const float u_jj = job->factor->pivot[j], *const p = pare_upper_at(job->spread, j, c0);
    const float *const w = s->before + (j - c0) * STRIP, *const e = s->t + (j - c0) * STRIP;
    for (size_t r = 0; r < rows; r++)
        s->kept[(row + r) * job->block + j - c0] = w[r] - e[r] * u_jj;
    for (size_t i = j + 1; i < c1; i++) {
        float *const y = s->t + (i - c0) * STRIP;
        for (size_t r = 0; r < STRIP; r++)
            y[r] += w[r] * p[i - c0];
    }
}

void pare__sweep_spread_block(const pare__sweep *job, const pare__strip *s, size_t r0, size_t r1,
                              size_t c0, size_t c1)
{
    pare_gemm_run(job->kernels, &(pare_gemm){.m = r1 - r0,
                                             .n = job->k - c1,
                                             .k = c1 - c0,
                                             .a = s->kept,
                                             .lda = job->block,
                                             .b = pare_upper_at(job->spread, c0, c1),
                                             .ldb = pare_upper_step(job->spread, c0),
                                             .c = job->w + r0 * job->k + c1,
                                             .ldc = job->k,
                                             .alpha = 1,
                                             .beta = 1});
}
