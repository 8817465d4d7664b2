#include "quant/rtn.h"

#include "runtime/threads.h"
#include "solve/scales.h"
#include "solve/super.h"

enum { ROWS_PER_CHUNK = 8 };

typedef struct rtn_job {
    const pare_kernels *kernels;
    const pare_grid *grid;
    const float *w;
    const pare_codes *out;
} rtn_job;

static void round_super(const rtn_job *job, size_t i, size_t begin, size_t end)
{
    const pare_encoding e = job->grid->encoding;
    for (size_t j = begin; j < end; j++) {
        const pare_sub_grid g = pare_super_column(job->out, e, i, j - i * job->out->k);
        job->out->codes[j] = pare_super_code(&g, job->w[j]);
    }
}

static void round_group(const rtn_job *job, size_t i, size_t g)
{
    const pare_grid *const grid = job->grid;
    const pare_codes *const out = job->out;
    const size_t begin = i * out->k + g * grid->group;
    const size_t end = g + 1 < out->groups ? begin + grid->group : (i + 1) * out->k;
    const float s = out->scales[i * out->groups + g];
    const uint8_t z = out->zeros[i * out->groups + g];
    if (pare_encodings[grid->encoding].uniform)
        job->kernels->round_codes(out->codes + begin, job->w + begin, end - begin, s, z,
                                  grid->bits);
    else if (pare_encoding_is_super(grid->encoding))
        round_super(job, i, begin, end);
    else
        for (size_t j = begin; j < end; j++)
            out->codes[j] = pare_grid_encode(grid, i, job->w[j], s, z);
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const rtn_job *const job = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++)
        for (size_t g = 0; g < job->out->groups; g++)
            round_group(job, i, g);
}

void pare_rtn_codes(pare_ctx *cx, const pare_grid *grid, const float *w, pare_codes *out)
{
    rtn_job job = {.kernels = &cx->kernels, .grid = grid, .w = w, .out = out};
    pare_parallel(cx, out->n, ROWS_PER_CHUNK, round_rows, &job);
}

pare_status pare_rtn_quantize(pare_ctx *cx, const pare_grid *grid, const float *w,
                              const float *cost, size_t n, size_t k, pare_codes *out)
{
    PARE_TRY(pare_scales_fit(cx, grid, w, cost, n, k, out));
    pare_rtn_codes(cx, grid, w, out);
    return PARE_OK;
}
