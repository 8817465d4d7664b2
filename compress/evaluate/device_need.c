/* What an evaluation takes of a device, found on one that has its memory on paper. */
#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/evaluate_internal.h"
#include "runtime/cuda.h"

/* As many tokens as go through the models at once: later batches take no more. */
static size_t batch_tokens(const pare_ctx *cx, const pare_forward *f, size_t window, size_t count)
{
    const size_t rows = pare__eval_rows(cx, &f->model->config);
    const size_t batch = rows > window ? rows / window * window : window;
    return count < batch ? count : batch;
}

/* What comes back is 0, so the figures are not finite. */
static pare_status run(pare_ctx *cx, const pare_forward *f, const pare_forward *baseline,
                       const pare_eval_opts *opts, size_t count)
{
    pare_arena a = {.cx = cx};
    pare_eval_result r;
    const size_t tokens = batch_tokens(cx, f, opts->window, count);
    const int32_t *const zero = PARE_NEW(&a, int32_t, tokens);
    pare_status s = zero ? pare_evaluate(cx, f, baseline, opts, zero, tokens, &r) : PARE_ENOMEM;
    if (s == PARE_ENUMERIC) {
        pare_ctx_clear(cx);
        s = PARE_OK;
    }
    pare_arena_release(&a);
    return s;
}

pare_status pare_evaluate_device_bytes(pare_ctx *cx, const pare_device *d, const pare_forward *f,
                                       const pare_forward *baseline, bool f16,
                                       const pare_eval_opts *opts, size_t count, size_t *bytes)
{
    pare_device paper = pare_device_on_paper(d);
    pare_forward one = *f, other = baseline ? *baseline : *f;
    pare_cuda *c = NULL, *c0 = NULL;
    pare_status s = pare_cuda_open(cx, &paper, 0, &one, &c);
    if (s == PARE_OK && baseline)
        s = pare_cuda_open(cx, &paper, 0, &other, &c0);
    if (s == PARE_OK && f16)
        pare_cuda_use_f16(c);
    if (c0 && f16)
        pare_cuda_use_f16(c0);
    if (s == PARE_OK)
        s = run(cx, &one, baseline ? &other : NULL, opts, count);
    *bytes = paper.peak;
    pare_cuda_close(c0);
    pare_cuda_close(c);
    return s;
}
