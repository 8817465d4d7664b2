/* The job as phases, so that whoever shows progress can say how long it will still take. What is
 * expected here is rough: it says how phases compare until they have been measured. */
#include "compress/run/run_phases.h"

#include "compress/plan/plan_reap.h"
#include "compress/plan/plan_time.h"
#include "compress/plan/plan_walks.h"
#include "compress/run/run_internal.h"

/* Of two cores, as plan_rates.c measured them once. */
const pare_plan_rates pare__typical_rates = {.read = 8e9,
                                             .scan = 5e9,
                                             .sha256 = 1e9,
                                             .copy = 3e9,
                                             .write = 5e8,
                                             .sync = 2e-3,
                                             .gemm = 6e10,
                                             .gemm_half = 6e10,
                                             .gemm_bf16 = 6e10,
                                             .gemm_codes = 2e11,
                                             .gram = 6e10,
                                             .gram_bf16 = 6e10,
                                             .round = 5e8,
                                             .store = 1e8,
                                             .compare = 3e8,
                                             .tokenizer = 0.05,
                                             .encode = 2e6,
                                             .tokens = 0.25};

static void expect(pare_run *run, size_t phase, const char *name, double seconds, size_t steps)
{
    run->phase[phase] = (pare_phase){.name = name, .amount = seconds, .steps = steps};
}

/* Blocks have nothing to do but to say what went, once their experts are scored. */
static void expect_reap(pare_run *run, double wave, double rest, size_t blocks)
{
    if (!pare_plan_reaps(run->plan))
        return;
    expect(run, PARE__PHASE_PRUNE, "scoring experts", wave, run->model.config.blocks);
    expect(run, PARE__PHASE_BLOCKS, "passing blocks", rest, blocks);
}

static void expect_training(pare_run *run, const double s[PARE_PLAN_PHASES])
{
    const size_t steps = run->plan->training && run->front.found <= run->plan->out.blocks;
    expect(run, PARE__PHASE_BEFORE, "quality before the training", s[PARE_PHASE_SCORE] / 2, steps);
    expect(run, PARE__PHASE_TRAIN, "training", s[PARE_PHASE_TRAIN], steps);
    expect(run, PARE__PHASE_AFTER, "quality after the training", s[PARE_PHASE_SCORE] / 2, steps);
    run->phase[PARE__PHASE_BEFORE].piece = run->phase[PARE__PHASE_AFTER].piece = "scoring windows";
}

pare_status pare__run_phases(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const size_t blocks = plan->out.blocks;
    const size_t found = run->units.found < blocks ? run->units.found : blocks;
    const size_t pruned = run->front.found < blocks ? run->front.found : blocks;
    const double share = blocks ? (double)(found ? found : pruned) / (double)blocks : 0;
    const double walks = pare_plan_looks_later(plan) ? 2 : 1;
    pare_plan_estimate all;
    PARE_TRY(pare_plan_time_at(run->cx, plan, &run->settled, &pare__typical_rates, &all));
    const double *const s = all.phase;
    const bool kept = plan->kept.used, keeps = pare_plan_gathers(plan) && kept;
    const double gather = s[PARE_PHASE_WAVE] + s[PARE_PHASE_STATS];
    const double wave = kept ? 0 : s[PARE_PHASE_WAVE];
    const double work =
        (kept ? 0 : s[PARE_PHASE_STATS]) + s[PARE_PHASE_PASSES] - all.tables + s[PARE_PHASE_STORE];
    const double tables = run->units.found > blocks ? 0 : all.tables;
    const size_t held_out = plan->held_out > 0;
    const size_t evaluations = plan->recipe.evaluations ? plan->recipe.evaluations : held_out;
    pare_ctx_job(run->cx, NULL, 0, 0); /* who watches reads the phases until then */
    expect(run, PARE__PHASE_READ, "reading the model", s[PARE_PHASE_CHECK] / 4, 1);
    expect(run, PARE__PHASE_FINITE, "checking weights", s[PARE_PHASE_CHECK] / 2, 1);
    expect(run, PARE__PHASE_TOKENS, "reading calibration text", s[PARE_PHASE_TOKENS], 1);
    expect(run, PARE__PHASE_WEIGH, "weighing tokens by the loss", s[PARE_PHASE_WEIGH],
           plan->token_weights && pare_plan_gathers(plan));
    expect(run, PARE__PHASE_KEEP, "keeping statistics", gather,
           keeps && gather > 0 ? plan->model.config.blocks : 0);
    expect(run, PARE__PHASE_FOUND, "finding blocks again", share * wave / 2, found + pruned > 0);
    expect(run, PARE__PHASE_PRUNE, plan->pruned ? "pruning blocks" : "quantizing blocks",
           (1 - share) * (wave + work) / walks, plan->training ? blocks - pruned : 0);
    expect_training(run, s);
    expect(run, PARE__PHASE_BLOCKS, "compressing blocks",
           plan->training && walks < 2 ? s[PARE_PHASE_STORE] : (1 - share) * (wave + work) / walks,
           blocks - found);
    expect_reap(run, wave, work, blocks - found);
    expect(run, PARE__PHASE_FINISH, "writing the rest",
           tables + s[PARE_PHASE_WRITE] + s[PARE_PHASE_HASH], 1);
    expect(run, PARE__PHASE_EVALUATE, "evaluating", s[PARE_PHASE_EVALUATE] - all.samples,
           evaluations);
    expect(run, PARE__PHASE_SAMPLES, "evaluating samples of both models", all.samples,
           all.samples > 0);
    expect(run, PARE__PHASE_AGAIN, "looking whether the model changed", s[PARE_PHASE_CHECK] / 4, 1);
    expect(run, PARE__PHASE_EXPORT, "exporting", s[PARE_PHASE_EXPORT], plan->exports);
    pare_ctx_job(run->cx, run->phase, PARE__PHASES, 1);
    return PARE_OK;
}
