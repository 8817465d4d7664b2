/* Settings under which a job that does not fit would: each is planned, as if the recipe had it. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_walks.h"
#include "compress/text/units.h"
#include "runtime/threads.h"

enum { SETS = 64, SET = 64, LEAST_WINDOW = 128 };

/* A setting of the recipe, or of the command line, as the user writes it. */
typedef enum setting {
    EVALUATED, /* shorter windows of evaluations */
    CORRECT,   /* parameters of passes, by their name */
    TUNE,
    MOMENTS, /* of a training */
    BATCH,   /* of passes that learn */
    WEIGHTS,
    WINDOW, /* of the calibration */
    SEQUENTIAL,
    THREADS,
    SETTINGS
} setting;

/* What a plan is made with beside its job. */
typedef struct relief {
    pare_ctx *cx;
    const pare_plan *plan;
    uint64_t held; /* of the allocator before: what the plan itself has */
    bool changed[SETTINGS];
    size_t window, evaluated; /* the windows */
    size_t batch;             /* of passes that learn */
    bool linears;             /* blocks, token weights or training took most in the last plan */
    char set[SETS][SET];
    size_t sets;
} relief;

PARE_PRINTF(2, 3)
static void put_set(relief *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (r->sets < SETS)
        (void)vsnprintf(r->set[r->sets++], SET, fmt, ap);
    va_end(ap);
}

/* The value of a step's parameter, or NULL. */
static const double *param_of(const pare_step *step, const char *name)
{
    const pare_param *const params = pare_passes[step->pass]->params;
    for (size_t i = 0; params && params[i].name; i++)
        if (strcmp(params[i].name, name) == 0)
            return &step->value[i];
    return NULL;
}

static void put_param(relief *r, size_t step, const char *name, const char *value)
{
    put_set(r, "passes.%zu.%s.%s=%s", step, pare__plan_pass(r->plan, step)->name, name, value);
}

/* The parameter of every pass that has it. */
static void put_params(relief *r, const char *name, const char *value)
{
    const pare_recipe *const recipe = &r->plan->recipe;
    for (size_t i = 0; i < recipe->steps; i++)
        if (param_of(&recipe->step[i], name))
            put_param(r, i, name, value);
}

/* Whether a pass of the recipe has the parameter, and it is `on` there. */
static bool has_param(const pare_plan *plan, const char *name, bool on)
{
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const double *const value = param_of(&plan->recipe.step[i], name);
        if (value && (*value != 0.0) == on)
            return true;
    }
    return false;
}

/* The largest batch of a pass that learns; 0: none does. */
static size_t largest_batch(const pare_plan *plan)
{
    size_t most = 0;
    for (size_t i = 0; i < plan->recipe.steps; i++) {
        const double *const value = param_of(&plan->recipe.step[i], "batch");
        most = value && (size_t)*value > most ? (size_t)*value : most;
    }
    return most;
}

static void put_batch(relief *r)
{
    const pare_recipe *const recipe = &r->plan->recipe;
    char text[24];
    (void)snprintf(text, sizeof text, "%zu", r->batch);
    for (size_t i = 0; i < recipe->steps; i++) {
        const double *const value = param_of(&recipe->step[i], "batch");
        if (value && (size_t)*value > r->batch)
            put_param(r, i, "batch", text);
    }
}

static void put_evaluated(relief *r)
{
    const pare_recipe *const recipe = &r->plan->recipe;
    for (size_t i = 0; i < recipe->evaluations; i++) {
        const pare_evaluation *const e = &recipe->evaluation[i];
        if (!pare_evaluation_asks(e->kind) && e->window > r->evaluated)
            put_set(r, "evaluate.%zu.%s.window=%zu", e->entry, pare_evaluation_kind_name(e->kind),
                    r->evaluated);
    }
}

static void put_sets(relief *r)
{
    r->sets = 0;
    if (r->changed[EVALUATED])
        put_evaluated(r);
    if (r->changed[CORRECT])
        put_params(r, "correct", "none");
    if (r->changed[TUNE])
        put_params(r, "tune", "false");
    if (r->changed[MOMENTS])
        put_params(r, "moments", "8bit");
    if (r->changed[BATCH])
        put_batch(r);
    if (r->changed[WEIGHTS])
        put_set(r, "calibration.token_weights=even");
    if (r->changed[WINDOW])
        put_set(r, "calibration.window=%zu", r->window);
    if (r->changed[SEQUENTIAL])
        put_params(r, "true_sequential", "true");
}

/* What the job needs with the settings changed; UINT64_MAX when they do not do. */
static uint64_t need_of(relief *r)
{
    pare_ctx *const cx = r->cx;
    const pare_job *const was = r->plan->job;
    const char *sets[SETS * 2];
    size_t count = 0;
    put_sets(r);
    if (was->set_count > SETS)
        return UINT64_MAX;
    for (size_t i = 0; i < was->set_count; i++)
        sets[count++] = was->sets[i];
    for (size_t i = 0; i < r->sets; i++)
        sets[count++] = r->set[i];
    pare_job job = *was;
    job.sets = sets;
    job.set_count = count;
    job.plan_only = false;
    job.unlimited = true;
    pare_arena a = {.cx = cx};
    pare_plan plan;
    pare_pool *const pool = cx->pool;
    cx->pool = r->changed[THREADS] ? NULL : pool;
    const pare_status s = pare_plan_make(cx, &a, &job, &plan);
    if (s == PARE_OK && pare__plan_can_spare(cx, &plan)) {
        plan.settled.memory.sparing = true;
        (void)pare__plan_memory(cx, &plan, &plan.settled);
    }
    const uint64_t spilled = plan.settled.memory.spilled_bytes,
                   resident = plan.settled.memory.resident_bytes;
    const uint64_t need = spilled < resident ? spilled : resident;
    r->linears = s == PARE_OK && pare__plan_linears_take_most(cx, &plan);
    cx->pool = pool;
    pare_plan_close(&plan);
    pare_arena_release(&a);
    if (s != PARE_OK)
        pare_ctx_clear(cx);
    return s == PARE_OK ? need - r->held : UINT64_MAX;
}

/* Whether the window of the calibration is the recipe's, and the job runs it. */
static bool is_windowed(const pare_plan *plan)
{
    return plan->recipe.calibration.kind != PARE_CALIBRATION_FROM &&
           (pare_plan_gathers(plan) || plan->training);
}

/* Whether a setting is there to be changed. */
static bool is_open(const relief *r, setting l)
{
    const pare_plan *const plan = r->plan;
    bool evaluates = false;
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        evaluates |= !pare_evaluation_asks(plan->recipe.evaluation[i].kind) &&
                     plan->recipe.evaluation[i].window > LEAST_WINDOW;
    switch (l) {
    case EVALUATED: return evaluates;
    case CORRECT: return plan->drift;
    case TUNE: return has_param(plan, "tune", true) && plan->calibrated && !plan->kept.path;
    case MOMENTS: return plan->training && !plan->train.moments8;
    case BATCH: return largest_batch(plan) > 1;
    case SEQUENTIAL:
        return has_param(plan, "true_sequential", false) && plan->calibrated && !plan->kept.path;
    case WEIGHTS: return plan->token_weights && pare_plan_gathers(plan);
    case WINDOW: return is_windowed(plan) && plan->window > LEAST_WINDOW;
    case THREADS: return pare_threads(r->cx) > 1;
    case SETTINGS: break;
    }
    return false;
}

/* The largest window that fits with the settings changed, or the least there is. */
static uint64_t shrink_window(relief *r, size_t *window, size_t from, uint64_t limit)
{
    uint64_t need = UINT64_MAX;
    for (*window = from; need > limit && *window > LEAST_WINDOW;) {
        *window = *window / 2 > LEAST_WINDOW ? *window / 2 : LEAST_WINDOW;
        need = need_of(r);
    }
    return need;
}

/* The batch halved until the job fits with the settings changed, or one window. */
static uint64_t shrink_batch(relief *r, uint64_t limit)
{
    uint64_t need = UINT64_MAX;
    for (r->batch = largest_batch(r->plan); need > limit && r->batch > 1;) {
        r->batch /= 2;
        need = need_of(r);
    }
    return need;
}

static size_t longest_evaluated(const pare_plan *plan)
{
    size_t most = 0;
    for (size_t i = 0; i < plan->recipe.evaluations; i++)
        if (!pare_evaluation_asks(plan->recipe.evaluation[i].kind) &&
            plan->recipe.evaluation[i].window > most)
            most = plan->recipe.evaluation[i].window;
    return most;
}

static uint64_t change(relief *r, setting l, uint64_t limit)
{
    r->changed[l] = true;
    if (l == WINDOW)
        return shrink_window(r, &r->window, r->plan->window, limit);
    if (l == EVALUATED)
        return shrink_window(r, &r->evaluated, longest_evaluated(r->plan), limit);
    return l == BATCH ? shrink_batch(r, limit) : need_of(r);
}

/* "batch: 1 of omniquant and distill": each of the passes that put_batch changes. */
static void name_batch(const relief *r, char *text, size_t size)
{
    const char *word = " of ";
    size_t at = (size_t)snprintf(text, size, "batch: %zu", r->batch);
    for (size_t i = 0; i < r->plan->recipe.steps && at < size; i++) {
        const double *const value = param_of(&r->plan->recipe.step[i], "batch");
        if (!value || (size_t)*value <= r->batch)
            continue;
        at +=
            (size_t)snprintf(text + at, size - at, "%s%s", word, pare__plan_pass(r->plan, i)->name);
        word = " and ";
    }
}

static void name(const relief *r, char *text, size_t size)
{
    char words[SETTINGS][80] = {[CORRECT] = "correct: none",
                                [TUNE] = "tune: false",
                                [MOMENTS] = "moments: 8bit",
                                [WEIGHTS] = "token_weights: even",
                                [SEQUENTIAL] = "true_sequential: true",
                                [THREADS] = "--threads 1"};
    (void)snprintf(words[WINDOW], sizeof words[WINDOW], "window: %zu of the calibration",
                   r->window);
    (void)snprintf(words[EVALUATED], sizeof words[EVALUATED], "window: %zu of the evaluation",
                   r->evaluated);
    name_batch(r, words[BATCH], sizeof words[BATCH]);
    size_t at = 0;
    for (size_t l = 0; l < SETTINGS; l++)
        if (r->changed[l] && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "", words[l]);
}

/* The first setting that is enough by itself, left changed; UINT64_MAX without one. */
static uint64_t change_one(relief *r, uint64_t limit)
{
    for (size_t l = 0; l < SETTINGS; l++) {
        memset(r->changed, 0, sizeof r->changed);
        const uint64_t need = is_open(r, (setting)l) ? change(r, (setting)l, limit) : UINT64_MAX;
        if (need <= limit)
            return need;
    }
    memset(r->changed, 0, sizeof r->changed);
    return UINT64_MAX;
}

/* One after the other, as long as it is not enough; what does not help is left as it is. */
static uint64_t change_more(relief *r, uint64_t need, uint64_t limit)
{
    for (size_t l = 0; l < SETTINGS && need > limit; l++) {
        if (!is_open(r, (setting)l))
            continue;
        const uint64_t with = change(r, (setting)l, limit);
        r->changed[l] = with < need;
        need = with < need ? with : need;
    }
    return need;
}

/* A window of less than LEAST_WINDOW tokens, below which the job needs less than `need`; 0: there
 * is none. */
static size_t less_window(relief *r, uint64_t need)
{
    const size_t window = r->changed[WINDOW] ? r->window : r->plan->window;
    if (!is_windowed(r->plan) || window > LEAST_WINDOW || window < 4)
        return 0;
    relief half = *r;
    half.changed[WINDOW] = true;
    half.window = window / 2;
    return need_of(&half) < need ? window : 0;
}

/* What may help beside the settings that are changed, with which the job needs `need`: what it
 * costs in quality only the user can say. Empty where nothing does. */
static const char *name_others(relief *r, uint64_t need, char *text, size_t size)
{
    char window[64] = "";
    (void)need_of(r);
    const bool targets = r->linears && is_windowed(r->plan) && r->plan->linears > 1;
    const size_t below = less_window(r, need);
    if (below)
        (void)snprintf(window, sizeof window, "%sa window below %zu", targets ? " or " : "", below);
    (void)snprintf(text, size, "%s%s%s%s", targets || below ? "; " : "",
                   targets ? "fewer linears in targets" : "", window,
                   targets || below ? " may need less" : "");
    return text;
}

pare_status pare__plan_relief(pare_ctx *cx, const pare_plan *plan)
{
    const uint64_t spilled = plan->settled.memory.spilled_bytes,
                   resident = plan->settled.memory.resident_bytes;
    const uint64_t need = spilled < resident ? spilled : resident,
                   limit = plan->settled.memory.limit_bytes;
    char refusal[sizeof cx->what], words[256] = "", others[128], bytes[PARE_UNIT_TEXT];
    if (need <= limit) /* memory ended */
        return PARE_ENOMEM;
    (void)snprintf(refusal, sizeof refusal, "%s", cx->what);
    if (plan->calibrated && plan->recipe.calibration.samples == 0 &&
        plan->recipe.calibration.kind != PARE_CALIBRATION_FROM) {
        pare_ctx_clear(cx);
        return pare_fail(cx, PARE_ENOMEM,
                         "%s, or give samples a number: then pare says which settings need less",
                         refusal);
    }
    relief r = {.cx = cx, .plan = plan, .held = cx->live_bytes - plan->job->beside_bytes};
    pare_ctx_clear(cx);
    const uint64_t one = change_one(&r, limit);
    const uint64_t found = one <= limit ? one : change_more(&r, need, limit);
    name(&r, words, sizeof words);
    if (found <= limit)
        return pare_fail(cx, PARE_ENOMEM, "%s, or say %s (%s)", refusal, words,
                         pare_units_bytes(found, bytes));
    if (words[0])
        return pare_fail(cx, PARE_ENOMEM, "%s; with %s it still needs %s%s", refusal, words,
                         pare_units_bytes(found, bytes),
                         name_others(&r, found, others, sizeof others));
    return pare_fail(cx, PARE_ENOMEM, "%s: %s makes it need less%s", refusal,
                     is_windowed(plan) ? "none of the settings that pare tries" : "no setting",
                     name_others(&r, found, others, sizeof others));
}
