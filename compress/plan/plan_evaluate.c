/* Memory of the evaluations of a recipe: of the one that takes most. */
#include "compress/evaluate/continuations.h"
#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/task.h"
#include "compress/plan/plan_internal.h"
#include "kernels/layout.h"
#include "runtime/product.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* What is made anew when a packed linear is viewed: scales that are stored as codes, starts of
 * rows. */
uint64_t pare__plan_view_bytes(const pare_packed_linear *l)
{
    uint64_t bytes = (uint64_t)2 * PARE_ALIGN;
    if (pare_encoding_codes_scales(l->encoding))
        bytes += pare_round_up(l->n, PARE_PAD_N) * pare_packed_linear_groups(l) * 2;
    if (l->sparsity == PARE_SPARSITY_BITMASK)
        bytes += (l->n + 1) * sizeof(uint64_t);
    return bytes;
}

uint64_t pare__plan_rope_bytes(const pare_config *c, size_t window)
{
    return (uint64_t)2 * pare_rope_table_rows(c, window) * pare_rope_pairs(c) * sizeof(float);
}

uint64_t pare__plan_encode_bytes(const pare_plan *plan, uint64_t text, size_t texts)
{
    const uint64_t copies = sizeof(int32_t) * (texts > 1 ? 2 : 1) + 3;
    return plan->data.tokenizer_bytes + text * copies;
}

/* The same forms of inputs as pare_model_inputs finds once the artifact is there. */
static pare_inputs packed_inputs(const pare_plan *plan)
{
    const pare_packed_linear *first = NULL;
    for (size_t i = 0; i < plan->linears; i++) {
        const pare_packed_linear *const l = &plan->linear[i].packed;
        const pare_activation *const a = &l->activation;
        first = first ? first : l;
        const pare_activation *const b = &first->activation;
        const bool rounded = a->mode == PARE_ACTIVATION_FLOAT && a->bits;
        if (l->outliers || rounded || pare_encoding_turns(l->encoding) ||
            a->mode == PARE_ACTIVATION_TENSOR || a->mode != b->mode || a->bits != b->bits ||
            l->group != first->group || l->bits != first->bits || l->sparsity != first->sparsity)
            return PARE_INPUTS_ANY;
    }
    return first ? PARE_INPUTS_ALIKE : PARE_INPUTS_NONE;
}

/* The finished artifact, opened as a user opens it. */
uint64_t pare__plan_opened_bytes(const pare_plan *plan, const pare_settled *settled)
{
    enum { OF_TENSOR = 256, OF_LINEAR = 3072 };
    uint64_t bytes = settled->layout.entries * OF_TENSOR;
    for (size_t i = 0; i < plan->linears; i++)
        bytes += OF_LINEAR + sizeof(pare_linear) + pare__plan_view_bytes(&plan->linear[i].packed);
    return bytes;
}

static pare_eval_side original_side(const pare_plan *plan, const pare_kv_format *floats)
{
    const pare_model *const m = plan->original_path ? &plan->original : &plan->model;
    return (pare_eval_side){&m->config, floats, pare_model_inputs(m)};
}

static uint64_t evaluation_bytes(const pare_ctx *cx, const pare_plan *plan, size_t window, bool kl,
                                 uint64_t tokens)
{
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side before = original_side(plan, &floats);
    const pare_eval_side after = {&plan->out, &plan->recipe.kv, packed_inputs(plan)};
    return tokens * sizeof(int32_t) + pare__plan_rope_bytes(&plan->model.config, window) +
           pare__plan_rope_bytes(before.config, window) +
           larger(pare_evaluate_bytes(cx, &before, NULL, window, tokens),
                  pare_evaluate_bytes(cx, &after, kl ? &before : NULL, window, tokens));
}

/* Windows of a text that both models continue. */
static uint64_t continue_bytes(const pare_ctx *cx, const pare_plan *plan, const pare_evaluation *e,
                               uint64_t tokens)
{
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side before = original_side(plan, &floats);
    const pare_eval_side after = {&plan->out, &plan->recipe.kv, packed_inputs(plan)};
    const pare_continue_opts opts = {.window = e->window, .prompts = e->prompts, .most = e->most};
    const size_t length = pare_continue_prompt(e->window) + e->most;
    return tokens * sizeof(int32_t) + pare__plan_rope_bytes(&plan->model.config, length) +
           pare__plan_rope_bytes(before.config, length) +
           larger(pare_continue_bytes(cx, &before, &opts), pare_continue_bytes(cx, &after, &opts));
}

/* A model on the items of a file of multiple choice, or on documents of a task. */
static uint64_t asked_bytes(const pare_ctx *cx, const pare_eval_side *side,
                            const pare_evaluation *e, const pare_plan_choice *c)
{
    const pare_task_row *const task = e->task.text ? pare_task_find(e->task.text) : NULL;
    return task && pare_task_writes(task)
               ? pare_task_write_bytes(cx, side, c->items, c->longest)
               : pare_evaluate_choice_bytes(cx, side, c->items, c->bytes, c->longest);
}

/* Texts and tokens of a file of multiple choice, its tables, and the larger model on it. */
static uint64_t choice_bytes(const pare_ctx *cx, const pare_plan *plan, size_t evaluation)
{
    enum { OF_BYTE = 8, OF_ITEM = 1536 };
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side before = original_side(plan, &floats);
    const pare_eval_side after = {&plan->out, &plan->recipe.kv, packed_inputs(plan)};
    const pare_plan_choice *const c = &plan->data.choice[evaluation];
    const uint64_t with_shots = plan->recipe.evaluation[evaluation].shots ? c->bytes : 0;
    const uint64_t texts =
        larger(plan->data.evaluated_bytes[evaluation], with_shots) * OF_BYTE + c->items * OF_ITEM;
    return plan->data.tokenizer_bytes + texts +
           pare__plan_rope_bytes(&plan->model.config, plan->model.config.context) +
           pare__plan_rope_bytes(before.config, before.config->context) +
           larger(asked_bytes(cx, &before, &plan->recipe.evaluation[evaluation], c),
                  asked_bytes(cx, &after, &plan->recipe.evaluation[evaluation], c));
}

uint64_t pare__plan_evaluate_bytes(const pare_ctx *cx, const pare_plan *plan,
                                   const pare_settled *settled)
{
    uint64_t most = 0;
    for (size_t i = 0; i < plan->recipe.evaluations; i++) {
        const pare_evaluation *const e = &plan->recipe.evaluation[i];
        const uint64_t tokens = e->text.text ? plan->data.evaluated_bytes[i]
                                             : plan->data.evaluated_bytes[i] / sizeof(int32_t);
        if (pare_evaluation_asks(e->kind)) {
            most = larger(most, choice_bytes(cx, plan, i));
            continue;
        }
        if (e->text.text)
            most = larger(most, pare__plan_encode_bytes(plan, plan->data.evaluated_bytes[i], 1));
        most = larger(
            most, e->kind == PARE_EVALUATE_CONTINUATIONS
                      ? continue_bytes(cx, plan, e, tokens)
                      : evaluation_bytes(cx, plan, e->window, e->kind == PARE_EVALUATE_KL, tokens));
    }
    if (plan->held_out)
        most = larger(most, evaluation_bytes(cx, plan, plan->window, true,
                                             (uint64_t)plan->held_out * plan->window));
    return most ? most + pare__plan_opened_bytes(plan, settled) : 0;
}
