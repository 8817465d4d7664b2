#include "distill/projection.h"

#include <math.h>

#include "distill/losses.h"
#include "runtime/linalg.h"
#include "runtime/random.h"

pare_status pare_projection_take(pare_arena *a, size_t width, size_t wide, uint64_t seed,
                                 pare_projection *out)
{
    const size_t count = width * wide;
    const double deviation = 1 / sqrt((double)width);
    const uint64_t stream = pare_random_stream("projection of hidden states");
    *out = (pare_projection){.width = width, .wide = wide};
    PARE_TRY(pare_trained_take(a, count, false, &out->w));
    out->w.decays = true;
    for (size_t i = 0; i < count; i++)
        out->w.value[i] = (float)(deviation * pare_random_normal(seed, stream, i));
    return PARE_OK;
}

uint64_t pare_projection_scratch(size_t rows, size_t wide)
{
    return 2 * ((uint64_t)rows * wide * sizeof(float) + PARE_ALIGN);
}

pare_status pare_projection_hidden(pare_ctx *cx, pare_arena *scratch, const pare_projection *p,
                                   const float *s, const float *u, size_t rows, double scale,
                                   float *ds, double *value)
{
    const pare_mark mark = pare_arena_mark(scratch);
    const size_t width = p->width, wide = p->wide;
    float *const y = PARE_NEW(scratch, float, rows *wide);
    float *const e = PARE_NEW(scratch, float, rows *wide); /* 0 */
    if (!y || !e)
        return PARE_ENOMEM;
    pare_gemm_tiles(cx, &(pare_gemm){rows, wide, width, s, width, false, p->w.value, width, true, y,
                                     wide, 1, 0});
    *value = pare_losses_hidden(cx, y, u, rows * wide, scale, e);
    pare_gemm_tiles(cx, &(pare_gemm){rows, width, wide, e, wide, false, p->w.value, width, false,
                                     ds, width, 1, 1});
    pare_gemm_tiles(cx, &(pare_gemm){wide, width, rows, e, wide, true, s, width, false,
                                     p->w.gradient, width, 1, 1});
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}
