/* The data of a plan that is looked at, read as the job will read it, so that both refuse the same
 * in the same words. */
#include "compress/plan/calibration_need.h"
#include "compress/plan/job_data.h"
#include "compress/plan/plan_internal.h"
#include "runtime/file.h"
#include "runtime/small.h"

static bool reads_calibration(const pare_plan *plan)
{
    return plan->calibrated || plan->held_out;
}

/* Tokens of a calibration of unknown size that are as good as more: every step gets what it needs,
 * and an expert what it is to see. */
static uint64_t enough_tokens(const pare_plan *plan)
{
    pare_settled one = plan->settled;
    one.samples = 1;
    uint64_t most = plan->experts ? pare_plan_min_tokens(plan, &plan->settled) : 0;
    pare_shortage s;
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        const uint64_t held = pare__plan_facts(&plan->recipe.step[step]) & PARE_FACT_HELD
                                  ? (uint64_t)PARE_HELD_PART * plan->window
                                  : 0;
        most = held > most ? held : most;
        if (pare_plan_short(plan, &one, step, &s) && s.need.tokens > most)
            most = s.need.tokens;
    }
    return most;
}

/* Tokens that the job may want. */
static uint64_t wanted_tokens(const pare_plan *plan)
{
    const size_t samples = plan->settled.samples ? plan->settled.samples : 1;
    const uint64_t wanted =
        (uint64_t)(pare_larger(samples, plan->train.windows) + plan->held_out) * plan->window;
    const uint64_t enough = plan->settled.samples ? 0 : enough_tokens(plan);
    return enough > wanted ? enough : wanted;
}

/* Whether the calibration may have less than the job wants. Files of tokens are always looked at:
 * that takes no tokenizer. */
static bool calibration_in_doubt(const pare_data_reader *r)
{
    const pare_calibration *const c = &r->plan->recipe.calibration;
    const uint64_t wanted = wanted_tokens(r->plan);
    uint64_t sum = 0;
    bool few = false;
    if (c->kind == PARE_CALIBRATION_GENERATE)
        return false;
    if (c->kind == PARE_CALIBRATION_TOKENS)
        return true;
    for (size_t i = 0; i < c->text.count; i++) {
        const char *const path = pare_data_path(r->a, r->plan, &c->text.item[i]);
        uint64_t bytes = 0;
        few |= !path || !pare_path_bytes(path, &bytes) || !pare_text_has(bytes, wanted);
        sum += bytes;
    }
    return c->weight ? few : !pare_text_has(sum, wanted);
}

static bool evaluation_in_doubt(const pare_plan *plan, size_t i)
{
    const pare_evaluation *const e = &plan->recipe.evaluation[i];
    return e->kind == PARE_EVALUATE_NEEDLE || !e->text.text ||
           !pare_text_has(plan->data.evaluated_bytes[i], e->window);
}

/* A text that has more than enough is not tokenized, but looked through. */
static pare_status check_text(const pare_data_reader *r, const pare_text *text)
{
    const char *const path = pare_data_path(r->a, r->plan, text);
    return path ? pare_text_check(r->cx, r->a, path) : PARE_ENOMEM;
}

/* Whether a pass gets less than it needs, even if every token is new. */
static bool is_short(const pare_plan *plan)
{
    bool found = false;
    pare_shortage s;
    for (size_t step = 0; step < plan->recipe.steps; step++)
        found |= pare_plan_short(plan, &plan->settled, step, &s);
    return found;
}

/* What the job will find when it reads the calibration; with `samples: all` that is how many there
 * are, and what follows from it. */
static pare_status read_calibration(const pare_data_reader *r, pare_settled *settled)
{
    pare_calibration_data unused = {0};
    pare_settled found = *settled;
    const pare_status s = pare_data_calibration(r, &unused, &found);
    if (s == PARE_ENOMEM)
        settled->memory = found.memory; /* for advice */
    PARE_TRY(s);
    if (!settled->samples)
        *settled = found;
    settled->windows = found.windows;
    settled->fresh = found.fresh;
    settled->held_out = found.held_out;
    return PARE_OK;
}

static pare_status look_at_calibration(const pare_data_reader *r, pare_settled *settled)
{
    const pare_calibration *const c = &r->plan->recipe.calibration;
    const pare_texts *const texts = &c->text;
    if (!reads_calibration(r->plan))
        return PARE_OK;
    if (c->kind == PARE_CALIBRATION_FROM) {
        settled->fresh = r->plan->kept.about.fresh;
        settled->held_out = r->plan->held_out;
        return PARE_OK;
    }
    if (calibration_in_doubt(r) || (texts->count && is_short(r->plan)))
        return read_calibration(r, settled);
    for (size_t i = 0; i < texts->count; i++)
        PARE_TRY(check_text(r, &texts->item[i]));
    return PARE_OK;
}

static pare_status look(const pare_data_reader *r, pare_settled *settled)
{
    PARE_TRY(look_at_calibration(r, settled));
    for (size_t i = 0; i < r->plan->recipe.evaluations; i++) {
        const pare_evaluation *const e = &r->plan->recipe.evaluation[i];
        PARE_TRY(evaluation_in_doubt(r->plan, i) ? pare_data_check(r, e)
                                                 : check_text(r, pare_evaluation_data(e)));
    }
    return PARE_OK;
}

pare_status pare__plan_data(pare_ctx *cx, pare_plan *plan)
{
    pare_arena a = {.cx = cx}, scratch = {.cx = cx};
    const pare_data_reader reader = {.cx = cx,
                                     .a = &a,
                                     .scratch = &scratch,
                                     .plan = plan,
                                     .checkpoint = &plan->checkpoint,
                                     .model = &plan->model};
    const pare_status s = look(&reader, &plan->settled);
    pare_arena_release(&scratch);
    pare_arena_release(&a);
    return s;
}
