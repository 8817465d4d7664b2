/* Evaluations on a device: whether it is there, can compute with the model, and has the memory. */
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/plan/plan_internal.h"
#include "runtime/cuda.h"

enum { BATCH = 2048 }; /* tokens at once */

/* Tokens of a batch; a text has no more of them than bytes. */
static size_t batch_of(const pare_plan *plan, const pare_evaluation *e)
{
    const uint64_t data = plan->data.evaluated_bytes[e - plan->recipe.evaluation];
    const uint64_t all = e->text.text ? data : data / sizeof(int32_t);
    size_t most = e->window < BATCH ? BATCH / e->window : 1; /* windows */
    if (e->limit && e->limit < most)
        most = e->limit;
    if (all / e->window < most)
        most = all >= e->window ? (size_t)(all / e->window) : 1;
    return most * e->window;
}

/* Both models as the float one, then the written one in the place of the second. Its inputs in
 * codes, or its weights as they are decoded, come on top. */
static pare_status bytes_of(pare_ctx *cx, const pare_plan *plan, const pare_device *d,
                            const pare_evaluation *e, uint64_t *bytes)
{
    const pare_config *const c = &plan->model.config;
    const pare_eval_opts opts = {.window = e->window};
    const size_t wide = c->intermediate > c->hidden ? c->intermediate : c->hidden;
    const size_t rows = batch_of(plan, e);
    const uint64_t largest = (uint64_t)wide * c->hidden * sizeof(float);
    const uint64_t panel = largest < PARE_CUDA_PANEL ? largest : PARE_CUDA_PANEL;
    pare_arena a = {.cx = cx};
    pare_device paper = pare_device_on_paper(d);
    pare_forward f;
    pare_cuda *model = NULL;
    size_t both = 0;
    pare_status s = pare_forward_init(cx, &a, &plan->model, e->window, false, &f);
    if (s == PARE_OK)
        s = pare_evaluate_device_bytes(cx, d, &f, &f, e->products == PARE_PRODUCTS_F16, &opts, rows,
                                       &both);
    if (s == PARE_OK)
        s = pare_cuda_open(cx, &paper, 0, &f, &model);
    if (s == PARE_OK)
        *bytes = both - pare_cuda_model_bytes(model) + plan->settled.packed_bytes +
                 2 * (uint64_t)rows * wide + panel + (e->products == PARE_PRODUCTS_F16 ? panel : 0);
    pare_cuda_close(model);
    pare_arena_release(&a);
    return s;
}

static pare_status check_packed(pare_ctx *cx, const pare_packed_linear *l)
{
    return pare_cuda_check_linear(cx, l->name, &l->activation, false);
}

/* Whether there are kernels for the model before and after, on any device. Embeddings that are no
 * head are in no product. */
static pare_status check_kernels(pare_ctx *cx, const pare_plan *plan)
{
    PARE_TRY(pare_cuda_check_model(cx, &plan->model, false));
    if (plan->original_path)
        PARE_TRY(pare_cuda_check_model(cx, &plan->original, false));
    for (size_t i = 0; i < plan->linears; i++)
        PARE_TRY(check_packed(cx, &plan->linear[i].packed));
    for (size_t i = 0; i < plan->tables.count; i++)
        if (plan->tables.of[i].which == PARE_TABLE_HEAD || plan->model.config.tied)
            PARE_TRY(check_packed(cx, &plan->tables.of[i].packed));
    return PARE_OK;
}

/* Items have lengths of their own, and so have continuations; what it takes is known when it runs.
 */
static pare_status check(pare_ctx *cx, pare_plan *plan, pare_device *d, const pare_evaluation *e)
{
    size_t total;
    uint64_t bytes;
    if (!pare_evaluation_scores(e->kind))
        return PARE_OK;
    PARE_TRY(bytes_of(cx, plan, d, e, &bytes));
    PARE_TRY(d->op->memory(cx, d, &plan->device_free, &total));
    PARE_TRY(pare_cuda_room(cx, d, 0, "both models, activations and caches", bytes));
    if (bytes > plan->device_bytes)
        plan->device_bytes = bytes;
    return PARE_OK;
}

static pare_status keep_text(pare_arena *a, const char *text, const char **out)
{
    *out = pare_arena_text(a, text, strlen(text));
    return *out ? PARE_OK : PARE_ENOMEM;
}

/* An evaluation that cannot run on the device: `auto` takes the CPU. */
static pare_status cannot(pare_ctx *cx, pare_arena *a, pare_plan *plan, const pare_evaluation *e,
                          pare_status s)
{
    if (e->device == PARE_RUN_ON_AUTO && pare_cuda_cannot(s)) {
        PARE_TRY(keep_text(a, cx->what, &plan->device_fallback));
        pare_ctx_clear(cx);
        return PARE_OK;
    }
    (void)pare_fail_context(cx, s, "device: cuda");
    return pare_recipe_fail_at(cx,
                               pare_fail_after(cx, s,
                                               "say device: cpu, or device: auto, which takes the "
                                               "CPU where the GPU cannot be used"),
                               e->device_place);
}

pare_status pare__plan_device(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    pare_device *d = NULL;
    pare_status s = PARE_OK;
    for (size_t i = 0; s == PARE_OK && i < plan->recipe.evaluations; i++) {
        const pare_evaluation *const e = &plan->recipe.evaluation[i];
        if (e->device == PARE_RUN_ON_CPU ||
            (e->device == PARE_RUN_ON_AUTO && !plan->job->plan_only))
            continue;
        s = check_kernels(cx, plan);
        if (s == PARE_OK && !d)
            s = pare_device_open(cx, &d);
        if (s == PARE_OK)
            s = check(cx, plan, d, e);
        s = s == PARE_OK ? keep_text(a, d->name, &plan->device) : cannot(cx, a, plan, e, s);
    }
    if (d)
        d->op->close(cx, d);
    return s;
}
