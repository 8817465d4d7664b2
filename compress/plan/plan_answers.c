/* Evaluations that look at what models answer: what their recipe leaves open, and whether prompts
 * fit both models. */
#include <assert.h>
#include <string.h>

#include "compress/evaluate/continuations.h"
#include "compress/evaluate/needle.h"
#include "compress/plan/job_data.h"
#include "compress/plan/plan_internal.h"
#include "runtime/small.h"

static_assert((int)PARE_EVALUATION_LENGTHS == (int)PARE_NEEDLE_LENGTHS, "lengths of a recipe");
static_assert((int)PARE_EVALUATION_LENGTH_LEAST == (int)PARE_NEEDLE_LEAST, "lengths of a recipe");

/* That of the smaller model. */
static size_t context_of(const pare_plan *plan)
{
    const size_t own = plan->model.config.context;
    return plan->original_path ? pare_smaller(own, plan->original.config.context) : own;
}

static pare_status settle_needle(pare_ctx *cx, const pare_plan *plan, pare_evaluation *e)
{
    const size_t context = context_of(plan);
    pare_needle_opts opts;
    pare_data_needle_opts(e, NULL, &opts);
    for (size_t i = 0; i < e->lengths; i++)
        if (e->length[i] > context)
            return pare_recipe_fail(cx, e->place,
                                    "needle: the context of the model is %zu tokens, and a prompt "
                                    "of %zu is asked for; give %zu or less",
                                    context, e->length[i], context);
    if (!e->lengths && !pare_needle_choose(&opts, context))
        return pare_recipe_fail(cx, e->place,
                                "needle: its prompts have %d tokens at least, and the context of "
                                "the model is %zu",
                                PARE_NEEDLE_LEAST, context);
    e->lengths = opts.lengths;
    memcpy(e->length, opts.length, sizeof e->length);
    return PARE_OK;
}

static pare_status settle_continuations(pare_ctx *cx, const pare_plan *plan, pare_evaluation *e)
{
    const size_t context = context_of(plan), prompt = pare_continue_prompt(e->window);
    const size_t room = context - prompt;
    if (e->most_given && e->most > room)
        return pare_recipe_fail(cx, e->place,
                                "continuations: the context of the model is %zu tokens, of which a "
                                "prompt takes %zu; give continue_tokens: %zu or less",
                                context, prompt, room);
    e->most = pare_smaller(e->most, room);
    return PARE_OK;
}

pare_status pare__plan_answers(pare_ctx *cx, pare_plan *plan)
{
    for (size_t i = 0; i < plan->recipe.evaluations; i++) {
        pare_evaluation *const e = &plan->recipe.evaluation[i];
        if (e->kind == PARE_EVALUATE_NEEDLE)
            PARE_TRY(settle_needle(cx, plan, e));
        if (e->kind == PARE_EVALUATE_CONTINUATIONS)
            PARE_TRY(settle_continuations(cx, plan, e));
    }
    return PARE_OK;
}

void pare__plan_needle(const pare_evaluation *e, uint64_t *file_bytes, pare_plan_choice *out)
{
    size_t tokens = 0;
    pare_needle_opts opts;
    pare_data_needle_opts(e, NULL, &opts);
    for (size_t i = 0; i < e->lengths; i++) {
        tokens += e->length[i];
        out->longest = pare_larger(out->longest, e->length[i]);
    }
    out->items = pare_needle_items(&opts);
    out->bytes = (uint64_t)tokens * PARE_NEEDLE_DEPTHS * e->keys;
    const uint64_t read = (uint64_t)out->longest * PARE_NEEDLE_READS;
    *file_bytes = (*file_bytes < read ? *file_bytes : read) + out->bytes;
}
