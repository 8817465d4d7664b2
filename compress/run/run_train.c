/* A step that trains the whole model, once its blocks are pruned: weights read back as floats,
 * trained, rounded, and written in the place of those that were there. */
#include <math.h>
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/run/run_internal.h"
#include "quant/matrix_error.h"
#include "runtime/linear.h"
#include "runtime/machine.h"

/* Notices on the way. */
enum { NOTICES = 10 };

typedef struct training {
    pare_run *run;
    pare_arena own; /* leaves, the student */
    pare_model student;
    pare_forward student_f, teacher_f;
    pare_trained *leaf; /* [leaves] as many as plan.linears, in their order */
    size_t leaves;
    pare_training_result *result;
    size_t in_point; /* steps that the last point has so far */
    double started;
} training;

/* The index in the recipe. */
static unsigned step_of(const pare_run *run)
{
    return (unsigned)(run->plan->training - run->plan->recipe.step);
}

static const char *name_of(const pare_run *run)
{
    return pare_passes[run->plan->training->pass]->name;
}

static pare_linear_result *row_of(const pare_run *run, const pare_plan_linear *l)
{
    pare_unit_result *const unit = &run->units.result[l->block];
    size_t i = 0;
    while (i + 1 < unit->rows && strcmp(unit->row[i].linear.name, l->packed.name) != 0)
        i++;
    return &unit->row[i];
}

pare_status pare__run_train_found(pare_run *run)
{
    const size_t blocks = run->plan->out.blocks;
    if (!run->plan->training || !run->units.found || run->units.found > blocks)
        return PARE_OK;
    const pare_unit_result *const first = run->units.result;
    const pare_linear_result *const row = first->row;
    if (!first->rows || !row->steps || row->step[row->steps - 1].step != step_of(run))
        return PARE_OK;
    pare__notify(run, PARE_EVENT_NOTICE,
                 "the unfinished run was stopped while it wrote trained weights: everything is "
                 "done again");
    memset(run->units.result, 0, (blocks + 1) * sizeof *run->units.result);
    run->units.found = 0;
    return pare_journal_keep(run->cx, run->journal, run->units.record, 0);
}

/* --- the student -------------------------------------------------------------------------------
 */

/* All linears of the plan: the pruned ones. Their leaves have its order. */
static bool is_planned(void *self, size_t block, const pare_leaf *leaf)
{
    const pare_plan *const plan = ((const pare_run *)self)->plan;
    size_t i, end;
    if (leaf->kind != PARE_LEAF_WEIGHT)
        return false;
    for (pare_plan_range(plan, block, leaf->part, &i, &end); i < end; i++)
        if (plan->linear[i].role == (pare_role)leaf->index)
            return true;
    return false;
}

/* What is stored of a linear. */
static pare_status read_leaf(training *t, size_t i)
{
    pare_run *const run = t->run;
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_mark mark = pare_arena_mark(&run->scratch);
    const pare_status s = pare__run_read_back(run, l, row_of(run, l), t->leaf[i].value);
    pare_arena_rewind(&run->scratch, mark);
    return s;
}

static pare_status take_student(training *t)
{
    pare_run *const run = t->run;
    const size_t blocks = run->model.config.blocks;
    t->student = run->model;
    t->student.block = PARE_NEW(&t->own, pare_block, blocks);
    if (!t->student.block)
        return PARE_ENOMEM;
    memcpy(t->student.block, run->model.block, blocks * sizeof *t->student.block);
    const pare_choice planned = {is_planned, run};
    PARE_TRY(pare_trained_take(run->cx, &t->own, &t->student, &planned, &t->leaf, &t->leaves));
    for (size_t i = 0; i < t->leaves; i++)
        PARE_TRY(read_leaf(t, i));
    PARE_TRY(
        pare_forward_init(run->cx, &t->own, &t->student, run->plan->window, false, &t->student_f));
    return pare_forward_init(run->cx, &t->own, &run->model, run->plan->window, false,
                             &t->teacher_f);
}

/* Mean KL from the teacher on the windows that are held out. */
static pare_status measure(training *t, double *kl)
{
    const pare_run *const run = t->run;
    const pare_eval_opts opts = {
        .window = run->plan->window, .model = "the student", .baseline = "the model"};
    pare_eval_result found;
    PARE_TRY(pare_evaluate(run->cx, &t->student_f, &t->teacher_f, &opts, run->data.held_out.id,
                           run->data.held_out.count, &found));
    *kl = found.kl_mean;
    return PARE_OK;
}

/* --- the curve ---------------------------------------------------------------------------------
 */

static void tell_step(const training *t, const pare_train_step *s)
{
    const size_t steps = t->result->steps, window = t->run->plan->window;
    const double seconds = pare_seconds() - t->started;
    const double tokens = (double)s->step * (double)(t->run->plan->train.batch * window);
    if (s->step > 1 && s->step * NOTICES / steps == (s->step - 1) * NOTICES / steps)
        return;
    pare__notify(t->run, PARE_EVENT_NOTICE,
                 "%s: step %zu of %zu, loss %.4f, norm %.3g, rate %.3g, %.0f tokens/s",
                 name_of(t->run), s->step, steps, s->loss, s->norm, s->rate,
                 seconds > 0 ? tokens / seconds : 0);
}

/* Steps are spread over the points. */
static void see(void *self, const pare_train_step *s)
{
    training *const t = self;
    pare_training_result *const r = t->result;
    const size_t most = r->steps < PARE_TRAINING_POINTS ? r->steps : PARE_TRAINING_POINTS;
    const size_t at = (s->step - 1) * most / r->steps;
    pare_training_point *const p = &r->point[at];
    t->in_point = at < r->points ? t->in_point + 1 : 1;
    r->points = at + 1;
    p->step = s->step;
    p->loss += (s->loss - p->loss) / (double)t->in_point;
    p->norm += (s->norm - p->norm) / (double)t->in_point;
    p->rate = s->rate;
    tell_step(t, s);
}

/* --- storage -----------------------------------------------------------------------------------
 */

static pare_status check_zeros(const training *t, const pare_plan_linear *l, const float *before,
                               const float *w)
{
    for (size_t i = 0; i < l->packed.n * l->packed.k; i++)
        if (before[i] == 0 && w[i] != 0)
            return pare_fail(t->run->cx, PARE_EINVAL,
                             "%s: %s: weight [%zu, %zu] was pruned and is %g now; this is a fault "
                             "of the pass: pruned weights stay 0",
                             name_of(t->run), l->packed.name, i / l->packed.k, i % l->packed.k,
                             (double)w[i]);
    return PARE_OK;
}

/* What is stored, as F16 has it, takes the place of what was; the row says so. */
static pare_status store_leaf(training *t, size_t i)
{
    pare_run *const run = t->run;
    const pare_plan_linear *const l = &run->settled.linear[i];
    const pare_linear *const original = &run->model.block[l->block].linear[l->role];
    const size_t n = l->packed.n, k = l->packed.k;
    pare_linear_result *const r = row_of(run, l);
    float *const w = t->leaf[i].value, *const before = PARE_NEW(&run->scratch, float, n *k);
    float *const reference = PARE_NEW(&run->scratch, float, n *k);
    double own[2], all[2];
    if (!before || !reference)
        return PARE_ENOMEM;
    pare_linear_to_f32(run->cx, original, reference);
    PARE_TRY(pare__run_read_back(run, l, r, before));
    r->coarse = 0;
    r->lost = 0;
    PARE_TRY(pare__run_coarse(run, &l->packed, NULL, w, NULL, NULL, r));
    PARE_TRY(pare__run_round_f16(run, l, w));
    PARE_TRY(check_zeros(t, l, before, w));
    pare_matrix_errors(run->cx, before, w, reference, NULL, n, k, own);
    pare_matrix_errors(run->cx, reference, w, reference, NULL, n, k, all);
    r->zeros = 1 - (double)pare__run_nonzero(w, n * k) / (double)(n * k);
    r->weight_error = all[0];
    r->output_error = -1;
    r->step[r->steps++] = (pare_step_result){
        .step = step_of(run), .pass = name_of(run), .weight_error = own[0], .output_error = -1};
    return pare__run_write_again(run, l, w, r);
}

/* From here to the end of the last unit an unfinished run is worth nothing: the journal says so. */
static pare_status store(training *t)
{
    pare_run *const run = t->run;
    PARE_TRY(pare_journal_keep(run->cx, run->journal, run->units.record, 0));
    for (size_t i = 0; i < t->leaves; i++) {
        const pare_mark mark = pare_arena_mark(&run->scratch);
        const pare_status s = store_leaf(t, i);
        pare_arena_rewind(&run->scratch, mark);
        PARE_TRY(s);
    }
    for (size_t b = 0; b < run->plan->out.blocks; b++)
        PARE_TRY(pare__run_commit(run, b));
    return PARE_OK;
}

/* --- the step ----------------------------------------------------------------------------------
 */

static pare_status run_steps(training *t)
{
    pare_run *const run = t->run;
    pare_trainee trainee = {&t->student_f, &t->teacher_f, t->leaf, t->leaves};
    const pare_train_data data = {run->data.tokens.id, run->settled.samples, run->plan->window};
    t->started = pare_seconds();
    const pare_status s =
        pare_train(run->cx, &run->scratch, &trainee, &data, &run->plan->train, see, t);
    t->result->seconds = pare_seconds() - t->started;
    return s == PARE_OK ? s : pare_fail_context(run->cx, s, "%s", name_of(run));
}

static pare_status train(training *t)
{
    pare_training_result *const r = t->result;
    PARE_TRY(take_student(t));
    PARE_TRY(measure(t, &r->kl_before));
    pare__notify(t->run, PARE_EVENT_NOTICE, "%s: KL %.4f on windows held out, before training",
                 name_of(t->run), r->kl_before);
    PARE_TRY(run_steps(t));
    PARE_TRY(store(t));
    PARE_TRY(measure(t, &r->kl_after));
    pare__notify(t->run, PARE_EVENT_NOTICE, "%s: KL %.4f on windows held out, %s", name_of(t->run),
                 r->kl_after,
                 r->kl_after < r->kl_before
                     ? "after training"
                     : "warning: training made it worse; take a smaller rate or more samples");
    return PARE_OK;
}

pare_status pare__run_train(pare_run *run)
{
    const pare_plan *const plan = run->plan;
    const size_t blocks = plan->out.blocks;
    if (!plan->training)
        return PARE_OK;
    run->training = run->units.found > blocks ? run->units.result[blocks].training : NULL;
    if (run->training)
        return PARE_OK;
    run->training = PARE_NEW(run->a, pare_training_result, 1);
    if (!run->training)
        return PARE_ENOMEM;
    run->training->steps = plan->train.schedule.steps;
    run->training->tokens = (uint64_t)plan->train.schedule.steps * plan->train.batch * plan->window;
    training t = {.run = run, .result = run->training};
    pare_status s = pare_arena_init(run->cx, &t.own, 0);
    if (s == PARE_OK)
        s = train(&t);
    pare_arena_release(&t.own);
    return s;
}
