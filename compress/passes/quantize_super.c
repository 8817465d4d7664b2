/* Steps on the grids of super-blocks (solve/super.h). */
#include <stdatomic.h>
#include <string.h>

#include "compress/passes/quantize.h"
#include "formats/ggml_blocks.h"
#include "kernels/half.h"
#include "runtime/threads.h"
#include "solve/super.h"

enum { ROWS_PER_CHUNK = 8, USUAL_BITS = 4, USUAL_GROUP = 128 };

pare_grid pare_quantize_super(const double *value, pare_encoding e)
{
    return (pare_grid){.bits = pare_encodings[e].minima ? 4 : 6,
                       .group = PARE_SUPER,
                       .symmetric = value[PARE_QUANTIZE_SYMMETRIC] != 0.0,
                       .f16_scales = true,
                       .encoding = e};
}

pare_status pare_quantize_super_store(pare_ctx *cx, const double *value, pare_encoding e, size_t n,
                                      size_t k, pare_packed_linear *out)
{
    if (value[PARE_QUANTIZE_BITS] != USUAL_BITS || value[PARE_QUANTIZE_GROUP] != USUAL_GROUP ||
        value[PARE_QUANTIZE_SYMMETRIC] == 0.0)
        return pare_fail(cx, PARE_EINVAL,
                         "grid: %s says bits and groups and looks for its scales itself; leave out "
                         "bits, group and symmetric",
                         pare_encodings[e].name);
    const pare_grid g = pare_quantize_super(value, e);
    return pare_quantize_super_keep(cx, &g, n, k, out);
}

pare_status pare_quantize_super_keep(pare_ctx *cx, const pare_grid *grid, size_t n, size_t k,
                                     pare_packed_linear *out)
{
    if (k % PARE_SUPER != 0)
        return pare_fail(
            cx, PARE_ESHAPE,
            "super-blocks of 256 weights do not divide the %zu inputs of a row; take bits: 8, "
            "group: 32 (Q8_0 of GGUF) or bits: 4, group: 32 (Q4_0) for them",
            k);
    PARE_TRY(pare_quantize_keep(grid, n, k, out));
    out->group = PARE_SUPER;
    return PARE_OK;
}

/* The engine's rule, row by row. */
typedef struct engine_job {
    const pare_ggml_type *type;
    const float *w;
    pare_codes *out;
    pare_encoding encoding;
    atomic_size_t bad; /* first block that F16 cannot scale or that is not finite */
} engine_job;

static void keep_block(const engine_job *job, size_t row, size_t g, const pare_ggml_block *b)
{
    pare_codes *const c = job->out;
    const size_t at = row * c->groups + g;
    c->scales[at] = pare_f16_to_f32(b->d);
    c->minima[at] = pare_f16_to_f32(b->m);
    for (size_t i = 0; i < PARE_SUPER_BYTES; i++)
        c->sub[at * PARE_SUPER_BYTES + i] = !pare_encodings[job->encoding].minima
                                                ? (uint8_t)b->scale[i]
                                            : i % 2 ? b->offset[i / 2]
                                                    : (uint8_t)b->scale[i / 2];
    memcpy(c->codes + row * c->k + g * PARE_SUPER, b->code, PARE_SUPER);
}

static void round_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    engine_job *const job = arg;
    const size_t groups = job->out->groups;
    (void)worker;
    for (size_t i = begin * groups; i < end * groups; i++) {
        pare_ggml_block b;
        if (pare_ggml_quantize(job->type, job->w + i * PARE_SUPER, &b)) {
            keep_block(job, i / groups, i % groups, &b);
            continue;
        }
        size_t first = atomic_load(&job->bad);
        while (i < first && !atomic_compare_exchange_weak(&job->bad, &first, i))
            continue;
    }
}

pare_status pare_quantize_engine(pare_ctx *cx, const pare_grid *grid, pare_pass_linear *linear,
                                 pare_arena *scratch)
{
    pare_codes *const c = linear->codes;
    PARE_TRY(pare_codes_take(scratch, grid, linear->n, linear->k, c));
    PARE_TRY(pare_grid_check(cx, grid, linear->n, linear->k, c));
    engine_job job = {.type = pare_ggml_type_named(pare_encodings[grid->encoding].ggml),
                      .w = linear->w,
                      .out = c,
                      .encoding = grid->encoding};
    atomic_init(&job.bad, SIZE_MAX);
    pare_parallel(cx, linear->n, ROWS_PER_CHUNK, round_rows, &job);
    const size_t bad = atomic_load(&job.bad);
    if (bad == SIZE_MAX)
        return PARE_OK;
    float scale;
    uint8_t zero;
    const pare_grid_fault fault =
        pare_grid_fit(&cx->kernels, grid, linear->w + bad * PARE_SUPER, PARE_SUPER, &scale, &zero);
    return pare_grid_fail(cx, fault == PARE_GRID_OK ? PARE_GRID_OVERFLOW : fault, bad / c->groups,
                          bad % c->groups, scale);
}
