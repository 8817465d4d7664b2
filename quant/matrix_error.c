#include "quant/matrix_error.h"

#include "quant/gptq.h"
#include "runtime/threads.h"

static double relative(double error, double all)
{
    return all > 0.0 ? error / all : 0.0;
}

void pare_error_sums_part(pare_error_sums *s, size_t part)
{
    const size_t step = s->count / PARE_ERROR_PARTS, begin = part * step;
    const size_t count = part + 1 < PARE_ERROR_PARTS ? step : s->count - begin;
    s->part[part] = s->kernels->error_sums(s->w + begin, s->q + begin, s->reference + begin, count);
}

double pare_error_sums_relative(const pare_error_sums *s)
{
    double wrong = 0.0, all = 0.0;
    for (size_t i = 0; i < PARE_ERROR_PARTS; i++) {
        wrong += s->part[i].wrong;
        all += s->part[i].all;
    }
    return relative(wrong, all);
}

double pare_error_sums_zeros(const pare_error_sums *s)
{
    uint64_t nonzero = 0;
    for (size_t i = 0; i < PARE_ERROR_PARTS; i++)
        nonzero += s->part[i].nonzero;
    return 1.0 - (double)nonzero / (double)s->count;
}

double pare_output_error(pare_ctx *cx, const float *w, const float *q, const float *reference,
                         const float *h, size_t n, size_t k)
{
    return h ? relative(pare_gptq_error(cx, w, q, h, n, k),
                        pare_gptq_error(cx, reference, NULL, h, n, k))
             : -1.0;
}

static void sum_parts(void *arg, size_t begin, size_t end, size_t worker)
{
    (void)worker;
    for (size_t i = begin; i < end; i++)
        pare_error_sums_part(arg, i);
}

void pare_matrix_errors(pare_ctx *cx, const float *w, const float *q, const float *reference,
                        const float *h, size_t n, size_t k, double error[2])
{
    pare_error_sums sums = {
        .kernels = &cx->kernels, .w = w, .q = q, .reference = reference, .count = n * k};
    pare_parallel(cx, PARE_ERROR_PARTS, 1, sum_parts, &sums);
    error[0] = pare_error_sums_relative(&sums);
    error[1] = pare_output_error(cx, w, q, reference, h, n, k);
}
