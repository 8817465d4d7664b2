/* A step that trains the whole model, once its blocks are pruned or have codes: weights read as
 * floats, trained, and written for the walk over the blocks that comes. */
#include <math.h>
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/run/run_aware.h"
#include "compress/run/run_internal.h"
#include "compress/run/run_original.h"
#include "compress/run/run_outside.h"
#include "compress/run/run_team.h"
#include "compress/run/run_training.h"
#include "runtime/machine.h"
#include "runtime/world.h"

/* Notices on the way. */
enum { NOTICES = 10 };

typedef struct training {
    pare_run *run;
    pare_arena own; /* leaves, the student */
    pare_model student;
    pare_forward student_f, teacher_f;
    pare_trainee trainee; /* leaves: what the plan trains, in its order; then steps */
    pare_training_state state;
    size_t begun;                 /* steps of an earlier run */
    double started, saved, spent; /* moments; seconds of an earlier run */
} training;

static const char *name_of(const pare_run *run)
{
    return pare_passes[run->plan->training->pass]->name;
}

/* --- the student -------------------------------------------------------------------------------
 */

/* The linear of the plan that a leaf is the weight of, if it is trained; else NULL. */
static const pare_plan_linear *linear_of(const pare_run *run, size_t block, const pare_leaf *leaf)
{
    const pare_plan *const plan = run->plan;
    size_t i, end;
    if (block == PARE_OUTSIDE || leaf->kind != PARE_LEAF_WEIGHT)
        return NULL;
    for (pare_plan_range(plan, block, leaf->part, &i, &end); i < end; i++)
        if (plan->linear[i].role == (pare_role)leaf->index)
            return pare_plan_trains(plan, &plan->linear[i]) ? &plan->linear[i] : NULL;
    return NULL;
}

static bool is_trained(void *self, size_t block, const pare_leaf *leaf)
{
    const pare_run *const run = self;
    return block == PARE_OUTSIDE ? leaf->linear && run->plan->train.embeddings
                                 : linear_of(run, block, leaf) != NULL;
}

static bool is_aware(void *self, size_t block, const pare_leaf *leaf, pare_grid *grid)
{
    const pare_run *const run = self;
    const pare_plan_linear *const l = linear_of(run, block, leaf);
    if (!l)
        return false;
    *grid = pare_plan_grid(run->plan, l);
    return pare_plan_aware(run->plan, l);
}

/* Does something with each leaf of a block and the linear of the plan that it is; `aware` is NULL
 * where it has no codes in place, and so are `steps`. */
typedef pare_status leaf_act(training *t, size_t i, pare_trained *leaf, pare_aware *aware,
                             float *steps);

static pare_status each_leaf(training *t, leaf_act *act)
{
    pare_run *const run = t->run;
    size_t leaf = 0, aware = 0;
    for (size_t i = 0; i < run->plan->linears; i++) {
        const pare_plan_linear *const l = &run->settled.linear[i];
        if (!pare_plan_trains(run->plan, l))
            continue;
        const pare_mark mark = pare_arena_mark(&run->scratch);
        float *steps;
        pare_status s = pare__aware_steps_take(run, l, &steps);
        if (s == PARE_OK)
            s = act(t, i, &t->trainee.leaf[leaf++], steps ? &t->trainee.aware[aware++] : NULL,
                    steps);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* What is trained of leaf i outside the blocks, or NULL: it stands behind those of the blocks. */
static pare_trained *leaf_outside(const training *t, size_t i)
{
    const pare_run *const run = t->run;
    size_t at = 0;
    for (size_t j = 0; j < run->plan->linears + i; j++)
        at += pare__floats_count(run, j) > 0;
    return pare__floats_count(run, run->plan->linears + i) > 0 ? &t->trainee.leaf[at] : NULL;
}

/* From here on they are what will be stored. */
static pare_status round_outside(training *t)
{
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf is = pare_plan_outside(t->run->plan, &t->run->model, i);
        const pare_mark mark = pare_arena_mark(&t->run->scratch);
        if (is.linear)
            PARE_TRY(pare__outside_round(t->run, &is, leaf_outside(t, i)->value));
        pare_arena_rewind(&t->run->scratch, mark);
    }
    return PARE_OK;
}

static pare_status read_leaf(training *t, size_t i, pare_trained *leaf, pare_aware *aware,
                             float *steps)
{
    const pare_plan_linear *const l = &t->run->settled.linear[i];
    const uint8_t *const hash = pare__floats_hash(&t->run->units.result[l->block], l->packed.name);
    PARE_TRY(pare__floats_get(t->run, &t->run->pruned, i, leaf->value, steps, hash));
    leaf->keeps_zeros = l->pruned;
    if (aware) {
        pare__aware_steps_to(steps, &aware->codes);
        aware->compensated = pare_plan_compensated(t->run->plan, l);
        pare_aware_begin(aware);
    }
    return PARE_OK;
}

/* The student, with values that are to come, and the teacher. */
static pare_status take_models(training *t)
{
    pare_run *const run = t->run;
    const pare_choice choice = {.wants = is_trained,
                                .grid = is_aware,
                                .self = run,
                                .moments8 = run->plan->train.moments8,
                                .follows = pare_world_rank(run->cx) > 0};
    t->student = run->model;
    PARE_TRY(pare_blocks_copy(&t->own, &run->model, &t->student.block));
    PARE_TRY(pare_trainee_take(run->cx, &t->own, &t->student, &choice, &t->trainee));
    t->trainee.student = &t->student_f;
    t->trainee.teacher = &t->teacher_f;
    PARE_TRY(
        pare_forward_init(run->cx, &t->own, &t->student, run->plan->window, false, &t->student_f));
    return pare_forward_init(run->cx, &t->own, pare__run_original(run), run->plan->window, false,
                             &t->teacher_f);
}

static pare_status take_student(training *t)
{
    PARE_TRY(take_models(t));
    t->state.leaf = t->trainee.leaf;
    t->state.leaves = t->trainee.leaves;
    return each_leaf(t, read_leaf);
}

/* On the windows that are held out: mean KL from the teacher, mean -ln p of the next token. */
static pare_status measure(training *t, size_t phase, double *kl, double *nll)
{
    const pare_run *const run = t->run;
    const pare_eval_opts opts = {
        .window = run->plan->window, .model = "the student", .baseline = "the model"};
    pare_eval_result found;
    pare_ctx_step(run->cx, phase, run->phase[phase].name);
    PARE_TRY(pare_evaluate(run->cx, &t->student_f, &t->teacher_f, &opts, run->data.held_out.id,
                           run->data.held_out.count, &found));
    *kl = found.kl_mean;
    *nll = found.nll;
    return PARE_OK;
}

/* --- the curve ---------------------------------------------------------------------------------
 */

static void tell_step(const training *t, const pare_train_step *s)
{
    const size_t steps = t->state.result.steps, window = t->run->plan->window;
    const double seconds = pare_seconds() - t->started;
    const double tokens =
        (double)(s->step - t->begun) * (double)(t->run->plan->train.batch * window);
    if (s->step > 1 && s->step * NOTICES / steps == (s->step - 1) * NOTICES / steps)
        return;
    pare__notify(t->run, PARE_EVENT_NOTICE,
                 "%s: step %zu of %zu, loss %.4f, norm %.3g, rate %.3g, %.0f tokens/s",
                 name_of(t->run), s->step, steps, s->loss, s->norm, s->rate,
                 seconds > 0 ? tokens / seconds : 0);
}

/* What a job that is killed now finds again. */
static pare_status save_state(training *t)
{
    t->state.result.seconds = t->spent + pare_seconds() - t->started;
    const pare_training_place place = pare__run_training_place(t->run);
    PARE_TRY(pare_training_state_save(&place, &t->state));
    t->saved = pare_seconds();
    return PARE_OK;
}

static pare_status see(void *self, const pare_train_step *s)
{
    training *const t = self;
    pare_training_state_add(&t->state, s);
    tell_step(t, s);
    const bool due = pare_seconds() - t->saved >= 60 * t->run->plan->train.save_minutes;
    return due && s->step < t->state.result.steps ? save_state(t) : PARE_OK;
}

/* --- the step ----------------------------------------------------------------------------------
 */

/* Where an earlier run was when it was last saved; else at the start. */
static pare_status find_state(training *t)
{
    pare_run *const run = t->run;
    bool found;
    const pare_training_place place = pare__run_training_place(run);
    PARE_TRY(pare_training_state_load(&place, &t->state, &found));
    if (found) {
        t->begun = t->state.at.steps;
        t->spent = t->state.result.seconds;
        pare__notify(run, PARE_EVENT_NOTICE, "%s: continues after step %zu of %zu", name_of(run),
                     t->begun, t->state.result.steps);
        return PARE_OK;
    }
    PARE_TRY(pare_trainee_round(run->cx, &t->trainee));
    PARE_TRY(
        measure(t, PARE__PHASE_BEFORE, &t->state.result.kl_before, &t->state.result.nll_before));
    pare__notify(run, PARE_EVENT_NOTICE, "%s: KL %.4f on windows held out, before training",
                 name_of(run), t->state.result.kl_before);
    return PARE_OK;
}

/* What every process does. */
static pare_status train_on(training *t, const pare_tokens *tokens)
{
    pare_run *const run = t->run;
    const size_t window = run->plan->window;
    const pare_train_data data = {tokens->id, tokens->count / window, window};
    pare_train_opts o = run->plan->train;
    o.keep = run->settled.memory.keep;
    o.what = run->phase[PARE__PHASE_TRAIN].name; /* which begins this phase */
    return pare_train(run->cx, &run->scratch, &t->trainee, &data, &o, &t->state.at,
                      &(pare_train_watch){see, t});
}

static pare_status run_steps(training *t)
{
    pare_run *const run = t->run;
    PARE_TRY(pare__team_train(run));
    t->started = t->saved = pare_seconds();
    const pare_status s = pare__team_end(run, train_on(t, &run->data.training));
    const double seconds = pare_seconds() - t->started;
    run->team.seconds += seconds;
    t->state.result.seconds = t->spent + seconds;
    if (s == PARE_EINTERRUPTED && t->state.at.steps > t->begun)
        PARE_TRY(save_state(t));
    if (s == PARE_ENUMERIC)
        (void)pare_fail_after(run->cx, s,
                              "change it in the recipe and give the same command again: what the "
                              "passes before it did stays");
    return s == PARE_OK ? s : pare_fail_context(run->cx, s, "%s", name_of(run));
}

static pare_status write_leaf(training *t, size_t i, pare_trained *leaf, pare_aware *aware,
                              float *steps)
{
    pare_run *const run = t->run;
    pare_unit_result *const unit = &run->units.result[run->plan->out.blocks];
    pare_kept_hash *const k = &unit->kept[unit->kept_count++];
    k->name = run->settled.linear[i].packed.name;
    if (aware)
        pare__aware_steps_of(&aware->codes, steps);
    return pare__floats_put(run, &run->trained, i, leaf->read, steps, k->hash);
}

static pare_status write_outside(training *t, pare_unit_result *unit)
{
    pare_run *const run = t->run;
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_trained *const leaf = leaf_outside(t, i);
        if (!leaf)
            continue;
        pare_kept_hash *const k = &unit->kept[unit->kept_count++];
        k->name = pare__floats_name(run, run->plan->linears + i);
        PARE_TRY(pare__floats_put(run, &run->trained, run->plan->linears + i, leaf->value, NULL,
                                  k->hash));
    }
    return PARE_OK;
}

static pare_status train(training *t)
{
    pare_run *const run = t->run;
    pare_training_result *const r = &t->state.result;
    pare_unit_result *const unit = &run->units.result[run->plan->out.blocks];
    char harm[PARE_RUN_HARM_TEXT];
    PARE_TRY(take_student(t));
    PARE_TRY(find_state(t));
    PARE_TRY(run_steps(t));
    PARE_TRY(round_outside(t));
    const pare_status s = measure(t, PARE__PHASE_AFTER, &r->kl_after, &r->nll_after);
    if (s == PARE_EINTERRUPTED && t->state.at.steps > t->begun)
        PARE_TRY(save_state(t));
    PARE_TRY(s);
    pare__notify(run, PARE_EVENT_NOTICE, "%s: KL %.4f on windows held out, after training",
                 name_of(run), r->kl_after);
    if (pare__run_harmed(r))
        pare__notify(run, PARE_EVENT_NOTICE, "warning: %s", pare__run_harm_text(run, r, harm));
    *unit = (pare_unit_result){.kept = PARE_NEW(run->a, pare_kept_hash, t->state.leaves),
                               .training = PARE_NEW(run->a, pare_training_result, 1)};
    if (!unit->kept || !unit->training)
        return PARE_ENOMEM;
    *unit->training = *r;
    PARE_TRY(each_leaf(t, write_leaf));
    PARE_TRY(write_outside(t, unit));
    PARE_TRY(pare__run_commit(run, unit));
    run->training = unit->training;
    return PARE_OK;
}

pare_status pare__run_train(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const size_t steps = plan->train.schedule.steps;
    training t = {.run = run,
                  .state.result = {.steps = steps,
                                   .tokens = (uint64_t)steps * plan->train.batch * plan->window}};
    memcpy(t.state.result.asked, run->training_asked, sizeof t.state.result.asked);
    pare_status s = pare_arena_init(run->cx, &t.own, 0);
    if (s == PARE_OK)
        s = pare_training_state_end(run->cx, &t.state, train(&t));
    pare_arena_release(&t.own);
    return s;
}

pare_status pare__run_train_part(pare_run *run, const pare_tokens *tokens)
{
    training t = {.run = run};
    pare_status s = pare_arena_init(run->cx, &t.own, 0);
    if (s == PARE_OK)
        s = take_models(&t);
    if (s == PARE_OK)
        s = train_on(&t, tokens);
    pare_arena_release(&t.own);
    return s;
}
