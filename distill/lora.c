#include "distill/lora.h"

#include <math.h>
#include <string.h>

#include "runtime/linalg.h"
#include "runtime/linear.h"
#include "runtime/random.h"
#include "runtime/threads.h"

enum { ROWS_PER_CHUNK = 16 };

pare_status pare_lora_take(pare_arena *arena, pare_linear *linear, const pare_lora_opts *o,
                           pare_trained *a, pare_trained *b, pare_lora *out)
{
    const size_t n = linear->n, k = linear->k;
    const double rank = (double)o->rank;
    *out = (pare_lora){.base = *linear,
                       .seen = PARE_NEW(arena, float, n *k),
                       .gradient = PARE_NEW(arena, float, n *k),
                       .a = a,
                       .b = b,
                       .rank = o->rank,
                       .scale = (float)(o->alpha / (o->root ? sqrt(rank) : rank))};
    PARE_TRY(pare_trained_take(arena, o->rank * k, false, a));
    PARE_TRY(pare_trained_take(arena, n * o->rank, false, b));
    a->decays = b->decays = true;
    if (!out->seen || !out->gradient)
        return PARE_ENOMEM;
    const double bound = 1 / sqrt((double)k);
    const uint64_t stream = pare_random_stream(linear->name);
    for (size_t i = 0; i < a->count; i++)
        a->value[i] = (float)(bound * (2 * pare_random_unit(o->seed, stream, i) - 1));
    *linear = (pare_linear){.name = linear->name,
                            .n = n,
                            .k = k,
                            .dtype = PARE_F32,
                            .floats = out->seen,
                            .bias = linear->bias,
                            .rotated = linear->rotated};
    return PARE_OK;
}

void pare_lora_merge(pare_ctx *cx, pare_lora *l)
{
    const size_t n = l->base.n, k = l->base.k;
    pare_linear_to_f32(cx, &l->base, l->seen);
    pare_gemm_tiles(cx, &(pare_gemm){.m = n,
                                     .n = k,
                                     .k = l->rank,
                                     .a = l->b->value,
                                     .lda = l->rank,
                                     .b = l->a->value,
                                     .ldb = k,
                                     .c = l->seen,
                                     .ldc = k,
                                     .alpha = l->scale,
                                     .beta = 1});
}

static void clear_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const pare_lora *const l = arg;
    (void)worker;
    memset(l->gradient + begin * l->base.k, 0, (end - begin) * l->base.k * sizeof *l->gradient);
}

void pare_lora_gradient(const pare_ctx *cx, pare_lora *l)
{
    const size_t n = l->base.n, k = l->base.k;
    pare_gemm_tiles(cx, &(pare_gemm){.m = l->rank,
                                     .n = k,
                                     .k = n,
                                     .a = l->b->value,
                                     .lda = l->rank,
                                     .transpose_a = true,
                                     .b = l->gradient,
                                     .ldb = k,
                                     .c = l->a->gradient,
                                     .ldc = k,
                                     .alpha = l->scale});
    pare_gemm_tiles(cx, &(pare_gemm){.m = n,
                                     .n = l->rank,
                                     .k = k,
                                     .a = l->gradient,
                                     .lda = k,
                                     .b = l->a->value,
                                     .ldb = k,
                                     .transpose_b = true,
                                     .c = l->b->gradient,
                                     .ldc = l->rank,
                                     .alpha = l->scale});
    pare_parallel(cx, n, ROWS_PER_CHUNK, clear_rows, l);
}
