/* The time of evaluations: the model before and the one after. */
#include "compress/evaluate/continuations.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_time_internal.h"

#include <math.h>

/* Products with the original weights as they are stored. */
static double dense_rate(const pare__estimate *e)
{
    return e->plan->model.block[0].linear[PARE_ROLE_Q].dtype == PARE_F32 ? e->rate.gemm
                                                                         : e->rate.gemm_half;
}

/* Seconds of a token in the products of the blocks as they will be, `rest` operations. */
static double packed_seconds(const pare__estimate *e, double rest)
{
    const pare_plan *const p = e->plan;
    const pare_config *const c = &p->out;
    double seconds = 0;
    for (size_t i = 0; i < p->linears; i++) {
        const pare_packed_linear *const l = &p->linear[i].packed;
        const double share = p->linear[i].part ? (double)c->experts_used / (double)c->experts : 1;
        const double operations = 2.0 * share * (double)l->n * (double)l->k;
        const bool floats = l->activation.mode == PARE_ACTIVATION_FLOAT;
        seconds += pare__over(operations, floats ? e->rate.gemm : e->rate.gemm_codes);
        rest -= operations;
    }
    return seconds + pare__over(rest, dense_rate(e));
}

static double products_of(const pare_work *w)
{
    return w->products[PARE_WORK_COMMON] + w->products[PARE_WORK_EXPERTS];
}

/* Adds one evaluation: the model before and the one after. */
static pare_status add_evaluation(pare__estimate *e, double tokens, size_t window, bool kl)
{
    const pare_plan *const p = e->plan;
    pare_work b, a;
    PARE_TRY(pare__work_of(e, &p->model.config, window, PARE_SITES, &b));
    PARE_TRY(pare__work_of(e, &p->out, window, PARE_SITES, &a));
    const double dense = products_of(&b) + b.products[PARE_WORK_HEAD] + a.products[PARE_WORK_HEAD];
    const double products = pare__over(dense, dense_rate(e)) + packed_seconds(e, products_of(&a)) +
                            pare__over(pare__mixing_of(&b) + pare__mixing_of(&a), e->rate.gemm);
    const double scores =
        kl ? pare__over((double)p->model.config.vocab, pare__parallel(e, e->rate.compare)) : 0;
    e->phase[PARE_PHASE_EVALUATE] += tokens * (PARE_BESIDE_PRODUCTS * products + scores);
    return PARE_OK;
}

/* Texts in JSON take as many bytes for a token as others do, each once. */
static double evaluated_tokens(const pare__estimate *e, size_t evaluation)
{
    const pare_evaluation *const v = &e->plan->recipe.evaluation[evaluation];
    const bool choice = pare_evaluation_asks(v->kind);
    if (v->kind == PARE_EVALUATE_NEEDLE)
        return (double)e->plan->data.choice[evaluation].bytes;
    const uint64_t bytes =
        choice ? e->plan->data.choice[evaluation].bytes : e->plan->data.evaluated_bytes[evaluation];
    const double tokens = pare__tokens_in(e, bytes, !v->tokens.text);
    const double most = (double)v->limit * (double)v->window;
    if (choice)
        return tokens;
    const double windows = floor((most > 0 && most < tokens ? most : tokens) / (double)v->window);
    return windows * (double)v->window; /* a partial one is dropped */
}

/* Samples of both models read all weights for each token of a sequence. */
static double sample_seconds(const pare__estimate *e)
{
    enum { SAMPLED = 48 };
    const double bytes = (double)e->plan->input_bytes + (double)e->settled->packed_bytes;
    return SAMPLED * pare__over(bytes, pare__parallel(e, 2 * e->rate.read));
}

/* Prompts and continuations run like other tokens; both models read all weights again for each
 * token that a batch of prompts is continued by. */
static pare_status add_continuations(pare__estimate *e, const pare_evaluation *v, double tokens)
{
    const double windows = floor(tokens / (double)v->window);
    const double prompts = windows < (double)v->prompts ? windows : (double)v->prompts;
    const size_t length = pare_continue_prompt(v->window) + v->most;
    const double bytes = (double)e->plan->input_bytes + (double)e->settled->packed_bytes;
    const double steps = ceil(prompts / PARE_CONTINUE_TOGETHER) * (double)v->most;
    e->phase[PARE_PHASE_EVALUATE] += steps * pare__over(bytes, pare__parallel(e, e->rate.read));
    return add_evaluation(e, prompts * (double)length, length, false);
}

pare_status pare__estimate_evaluations(pare__estimate *e)
{
    const pare_plan *const p = e->plan;
    bool texts = p->held_out > 0;
    for (size_t i = 0; i < p->recipe.evaluations; i++) {
        const pare_evaluation *const v = &p->recipe.evaluation[i];
        if (v->kind == PARE_EVALUATE_CONTINUATIONS) {
            PARE_TRY(add_continuations(e, v, evaluated_tokens(e, i)));
            continue;
        }
        PARE_TRY(add_evaluation(e, evaluated_tokens(e, i), v->window, v->kind == PARE_EVALUATE_KL));
        texts |= pare_evaluation_scores(v->kind);
    }
    if (p->held_out)
        PARE_TRY(add_evaluation(e, (double)p->held_out * (double)p->window, p->window, true));
    *e->samples = texts ? sample_seconds(e) : 0;
    e->phase[PARE_PHASE_EVALUATE] += *e->samples;
    return PARE_OK;
}
