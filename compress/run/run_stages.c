/* What each part of a job cost, on the calibration windows held out: the passes that made a smaller
 * model, the cache alone, the passes in front of a training, the training, and what lies behind. */
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_evaluate.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_original.h"
#include "compress/text/text_out.h"

/* "sparsegpt + gptq": `count` passes of the recipe; `last`: and what quantizes the tables and the
 * cache. NULL without memory. */
static const char *names_of(pare_run *run, const pare_step *step, size_t count, bool last)
{
    const pare_plan_tables *const tables = &run->plan->tables;
    pare_text_out t = {.cx = run->cx};
    for (size_t i = 0; i < count; i++)
        pare__text_put(&t, "%s%s", i ? " + " : "", pare_passes[step[i].pass]->name);
    for (size_t i = 0; last && i < tables->count; i++)
        pare__text_put(&t, "%s%s of the %s", count + i ? " + " : "",
                       pare_passes[tables->of[i].step->pass]->name,
                       pare_table_names[tables->of[i].which]);
    if (last && !count && !tables->count)
        pare__text_put(&t, "packing");
    if (last && run->plan->recipe.kv.method != PARE_KV_FLOAT)
        pare__text_put(&t, " with kv_cache");
    const char *const names = t.status == PARE_OK ? pare_arena_text(run->a, t.text, t.len) : NULL;
    pare__text_free(&t);
    return names;
}

/* A model beside the original. */
static pare_status measure(pare_run *run, const pare_model *m, pare_report_stage *out)
{
    const size_t window = run->plan->window;
    const pare_tokens *const tokens = &run->data.held_out;
    const pare_eval_opts opts = {
        .window = window, .model = "the model in floats", .baseline = "the original"};
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_forward own, original;
    pare_eval_result found;
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, m, window, false, &own));
    PARE_TRY(pare_forward_init(run->cx, &run->scratch, pare__run_original(run), window, false,
                               &original));
    PARE_TRY(pare_evaluate(run->cx, &own, &original, &opts, tokens->id, tokens->count, &found));
    pare_arena_rewind(&run->scratch, mark);
    out->kl = found.kl_mean;
    out->nll = found.nll;
    return PARE_OK;
}

/* The model in floats with the cache of the finished one. */
static pare_status measure_cache(pare_run *run, const pare_model *after, pare_report_stage *out)
{
    const size_t blocks = run->model.config.blocks;
    const pare_mark mark = pare_arena_mark(&run->scratch);
    pare_model m = run->model;
    m.kv = after->kv;
    m.block = PARE_NEW(&run->scratch, pare_block, blocks);
    if (!m.block)
        return PARE_ENOMEM;
    memcpy(m.block, run->model.block, blocks * sizeof *m.block);
    for (size_t i = 0; i < blocks; i++)
        m.block[i].kv = after->block[i].kv;
    const pare_status s = measure(run, &m, out);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status put_stage(pare_report *r, const char *names, double kl, double nll)
{
    r->stage[r->stages++] = (pare_report_stage){names, kl, nll};
    return names ? PARE_OK : PARE_ENOMEM;
}

/* Training, what lies in front of it, and what behind. */
static pare_status put_training(pare_run *run, pare_report *r)
{
    const pare_plan *const plan = run->plan;
    const pare_training_result *const t = run->training;
    const size_t front = pare_plan_front(plan);
    if (front > 0 || !plan->recipe.lead)
        PARE_TRY(
            put_stage(r, front ? names_of(run, plan->recipe.step, front, false) : "none: the model",
                      t->kl_before, t->nll_before));
    return put_stage(r, names_of(run, plan->training, 1, false), t->kl_after, t->nll_after);
}

/* What the job was given: a smaller model, and the cache with it. */
static pare_status put_given(pare_run *run, const pare_model *after, pare_report *r)
{
    const pare_plan *const plan = run->plan;
    const size_t lead = plan->recipe.lead;
    pare_report_stage s;
    if (lead) {
        PARE_TRY(measure(run, &run->model, &s));
        PARE_TRY(put_stage(r, names_of(run, plan->recipe.step - lead, lead, false), s.kl, s.nll));
    }
    if (plan->recipe.kv.method == PARE_KV_FLOAT)
        return PARE_OK;
    PARE_TRY(measure_cache(run, after, &s));
    return put_stage(r, lead ? "the same with kv_cache" : "kv_cache alone (weights in floats)",
                     s.kl, s.nll);
}

pare_status pare__run_stages(pare_run *run, const pare_model *after, pare_report *r)
{
    enum { STAGES = 6 };
    const pare_plan *const plan = run->plan;
    const size_t lead = plan->recipe.lead, steps = plan->recipe.steps,
                 behind = run->training ? pare_plan_front(plan) + 1 : 0;
    const bool cache = plan->recipe.kv.method != PARE_KV_FLOAT;
    if ((!run->training && !lead && !cache) || !plan->held_out)
        return PARE_OK;
    const pare_report_eval *const held_out = &r->evaluation[r->evaluations - 1];
    r->stage = PARE_NEW(run->a, pare_report_stage, STAGES);
    if (!r->stage)
        return PARE_ENOMEM;
    PARE_TRY(put_stage(r, "none: the original", 0, held_out->before.nll));
    PARE_TRY(put_given(run, after, r));
    if (run->training)
        PARE_TRY(put_training(run, r));
    return put_stage(r, names_of(run, plan->recipe.step + behind, steps - behind, true),
                     held_out->after.kl_mean, held_out->after.nll);
}
