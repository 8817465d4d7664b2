#include "prune/reap.h"

#include <math.h>

#include "prune/structure.h"
#include "runtime/threads.h"

enum { ROWS = 16 };

typedef struct outputs {
    const pare_visit *visit;
    const float *y;
    size_t k;
    double *size;
} outputs;

static void measure_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const outputs *const o = arg;
    (void)worker;
    for (size_t i = begin; i < end; i++) {
        double square = 0.0;
        for (size_t j = 0; j < o->k; j++)
            square += (double)o->y[i * o->k + j] * (double)o->y[i * o->k + j];
        o->size[i] = (double)o->visit[i].weight * sqrt(square);
    }
}

pare_status pare_reap_add(pare_ctx *cx, pare_arena *scratch, pare_reap *r, const pare_visit *visit,
                          const float *y, size_t rows, size_t k)
{
    const pare_mark mark = pare_arena_mark(scratch);
    outputs o = {visit, y, k, PARE_NEW(scratch, double, rows)};
    if (!o.size)
        return PARE_ENOMEM;
    pare_parallel(cx, rows, ROWS, measure_rows, &o);
    for (size_t i = 0; i < rows; i++)
        r->sum += o.size[i];
    r->tokens += rows;
    pare_arena_rewind(scratch, mark);
    return PARE_OK;
}

double pare_reap_score(const pare_reap *r)
{
    return r->tokens ? r->sum / (double)r->tokens : 0.0;
}

pare_status pare_reap_choose(pare_ctx *cx, pare_arena *scratch, const double *score, size_t experts,
                             size_t groups, size_t kept, uint8_t *keep)
{
    const size_t count = groups ? groups : 1, each = experts / count;
    for (size_t g = 0; g < count; g++)
        PARE_TRY(pare_structure_choose(cx, scratch, score + g * each, each, kept / count,
                                       keep + g * each));
    return PARE_OK;
}
