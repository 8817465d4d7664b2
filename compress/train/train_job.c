/* A training from its recipe to its output. */
#include "compress/train/train_job.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "compress/output/inventory.h"
#include "compress/output/journal.h"
#include "compress/output/output.h"
#include "compress/output/output_disk.h"
#include "compress/passes/training.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_limits.h"
#include "compress/text/units.h"
#include "compress/text/version.h"
#include "compress/train/train_internal.h"
#include "formats/hash.h"
#include "runtime/energy.h"
#include "runtime/file.h"
#include "runtime/machine.h"
#include "runtime/small.h"
#include "runtime/threads.h"
#include "runtime/watch.h"

/* Notices on the way. */
enum { NOTICES = 10 };
#define OTHER_SETTINGS "the saved state of the training is of other settings: training begins anew"

void pare__train_tell(const pare_training *t, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pare_teller_say(t->teller, "%s", text);
    pare_warnings_keep(t->warned, t->a, text);
}

static pare_job_path output_path(const pare_training *t)
{
    return (pare_job_path){t->job->recipe, "output", t->job->output, &t->recipe.common.output};
}

/* --- recipe ------------------------------------------------------------------------------------
 */

static pare_status read_recipe(pare_training *t)
{
    const pare_job *const job = t->job;
    char *text;
    size_t len;
    pare_training_params(t->params);
    PARE_TRY(pare_job_read_recipe(t->cx, t->a, job->recipe, job->text, &text, &len));
    const pare_recipe_source source = {pare_job_file(job), text, len, job->sets, job->set_count};
    return pare_train_recipe_parse(t->cx, t->a, &source, t->params, &t->recipe);
}

static pare_config student_config(const pare_training *t)
{
    pare_config student = t->source.config;
    student.blocks = t->recipe.blocks ? t->recipe.blocks : student.blocks;
    return student;
}

static pare_status check_settings(const pare_training *t)
{
    const pare_train_data data = {NULL, t->windows.count / t->window, t->window};
    const pare_config student = student_config(t);
    PARE_TRY(pare_train_check(t->cx, &data, &t->opts));
    return pare_train_check_pair(t->cx, &student, &t->taught_by.config, &t->opts);
}

/* What the training comes to, once the size of windows is known. */
static pare_status settle(pare_training *t)
{
    size_t len;
    pare_training_opts(t->recipe.value, t->window, &t->opts);
    t->opts.seed = t->recipe.common.seed;
    t->opts.adapters = t->adapter != NULL;
    pare_status s = check_settings(t);
    if (s == PARE_EINVAL) {
        (void)pare_recipe_fail_at(t->cx, PARE_EUSAGE, t->recipe.train_place);
        s = PARE_EUSAGE;
    }
    PARE_TRY(s);
    PARE_TRY(
        pare_train_recipe_normalize(t->cx, t->a, &t->recipe, t->params, true, &t->portable, &len));
    pare_train_recipe written = t->recipe; /* a rerun of it must not meet the output of another */
    if (t->job->output)
        written.common.output.text = NULL;
    return pare_train_recipe_normalize(t->cx, t->a, &written, t->params, false, &t->written,
                                       &t->written_len);
}

/* Where the tokenizer lies that is not the model's own. */
static pare_status pick_tokenizer(pare_training *t)
{
    const pare_job_path p = {t->job->recipe, "tokenizer", t->job->tokenizer,
                             &t->recipe.common.tokenizer};
    char *path;
    if (!p.override && !p.written->text) {
        t->model.tokenizer = t->fresh && !t->recipe.vocabulary ? t->model.directory : NULL;
        return PARE_OK;
    }
    PARE_TRY(pare_job_path_pick(t->cx, t->a, &p, &path));
    t->model.tokenizer = path;
    return PARE_OK;
}

/* Weights are stored as those of the model are. */
static void pick_dtype(pare_training *t)
{
    static const pare_dtype types[] = {PARE_F32, PARE_F32, PARE_F16, PARE_BF16};
    const pare_dtype has = t->source.embed.dtype;
    const bool adapters = t->adapter && !t->adapter->merged;
    const bool known = !t->fresh && !adapters && (has == PARE_F16 || has == PARE_BF16);
    t->dtype = t->recipe.store == PARE_STORE_AUTO && known ? has : types[t->recipe.store];
}

/* --- room --------------------------------------------------------------------------------------
 */

/* `all`: of its block, or of those outside. */
static void count_leaf(pare_training *t, const pare_arch *a, const pare_leaf *leaf, uint64_t *all)
{
    const uint64_t count = pare__train_has(t, a, leaf) ? (uint64_t)leaf->n * leaf->k : 0;
    t->weights += count;
    *all += count;
    t->leaf_bytes += pare_trained_bytes(count, t->opts.moments8 && leaf->kind != PARE_LEAF_TABLE);
}

/* Counts what is trained where no adapters are. Random weights are not made yet. */
static void count_weights(pare_training *t)
{
    const pare_config *const c = &t->source.config;
    const pare_block none = {0};
    for (size_t b = 0; b < student_config(t).blocks; b++) {
        const size_t kept = pare__train_kept(t, b);
        const pare_block *const block = t->fresh ? &none : &t->source.block[kept];
        uint64_t all = 0;
        pare_config own;
        pare_block_config(c, kept, &own);
        for (size_t i = 0; i < pare_block_leaves(&own); i++) {
            const pare_leaf leaf = pare_block_leaf(&own, block, i);
            count_leaf(t, own.arch, &leaf, &all);
        }
        t->inside = all > t->inside ? all : t->inside;
    }
    for (size_t i = 0; i < PARE_MODEL_LEAVES; i++) {
        const pare_leaf leaf = pare_model_leaf(&t->source, i);
        count_leaf(t, c->arch, &leaf, &t->outside);
    }
}

/* Weights that the optimizer moves. */
static uint64_t trained_weights(const pare_training *t)
{
    return t->adapter ? t->adapter->trained : t->weights;
}

/* Weights that are trained and not kept. */
static uint64_t thrown_away(const pare_training *t)
{
    return pare__train_projects(t) ? (uint64_t)t->source.config.hidden * t->taught_by.config.hidden
                                   : 0;
}

/* Their values, gradients and moments, and of matrices with an adapter what the model reads and its
 * gradient. */
static uint64_t leaf_bytes(const pare_training *t)
{
    return pare_trained_bytes(thrown_away(t), false) +
           (t->adapter ? pare_trained_bytes(t->adapter->trained, false) +
                             t->adapter->base * 2 * sizeof(float)
                       : t->leaf_bytes);
}

static uint64_t needed_bytes(const pare_training *t)
{
    enum { OF_LEAF = 1024, ROUNDING = 1 << 20 };
    const pare_config student = student_config(t), *const c = &student;
    const pare_config *const teacher = t->taught ? &t->taught_by.config : NULL;
    const pare_kv_format floats = {.method = PARE_KV_FLOAT};
    const pare_eval_side side = {c, &floats, PARE_INPUTS_NONE},
                         other = {teacher, &floats, PARE_INPUTS_NONE};
    const pare_train_data data = {NULL, t->windows.count / t->window, t->window};
    const size_t leaves = c->blocks * pare_block_leaves(c) + PARE_MODEL_LEAVES;
    const uint64_t largest = (uint64_t)c->vocab * c->hidden * 2 * sizeof(float);
    const uint64_t apart = t->adapter ? pare_smaller((size_t)t->inside, (size_t)t->adapter->base)
                                      : t->inside + t->outside;
    const uint64_t beside[] = {
        pare_train_bytes(t->cx, c, teacher, &data, &t->opts, t->adapter ? 3 * leaves : leaves,
                         apart),
        pare_evaluate_bytes(t->cx, &side, teacher ? &other : NULL, t->window, t->held_out.count),
        (t->fresh ? t->weights * sizeof(float) : 0), largest};
    uint64_t most = 0;
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++)
        most = beside[i] > most ? beside[i] : most;
    return leaf_bytes(t) + leaves * OF_LEAF + most + ROUNDING;
}

/* Beside the allocator; the widest products are those of the head. */
static uint64_t outside_bytes(const pare_training *t)
{
    const pare_config *const c = &t->source.config;
    return pare_process_bytes(t->cx, c->vocab > c->intermediate ? c->vocab : c->intermediate);
}

/* Refuses a job that memory or disk cannot hold, before it begins. */
static pare_status check_room(pare_training *t, pare_train_done *done)
{
    const uint64_t outside = outside_bytes(t), held = outside + t->cx->live_bytes;
    const uint64_t asked = t->job->ram_limit ? t->job->ram_limit : t->recipe.common.ram_limit;
    const pare_memory_limit limit = pare_memory_limit_find(
        (pare_memory_limit){t->job->ram_limit ? "--ram-limit" : "\"limits\" of the recipe", asked},
        held, 0);
    char needs[PARE_UNIT_TEXT], has[PARE_UNIT_TEXT], beside[80] = "";
    pare_output_disk disk;
    t->opts.keep = true;
    t->opts.keep = held + needed_bytes(t) <= limit.bytes;
    done->memory = held + needed_bytes(t);
    done->memory_limit = limit.bytes;
    done->memory_limit_name = limit.name;
    const uint64_t trained = trained_weights(t);
    const uint64_t written = t->adapter && !t->adapter->merged ? trained : t->weights;
    const uint64_t gradients =
        (trained + thrown_away(t) + (t->adapter ? 2 * t->adapter->base : 0)) * sizeof(float);
    done->disk = 2 * (leaf_bytes(t) - gradients) + written * (pare_dtype_bits(t->dtype) / 8);
    if (t->adapter)
        (void)snprintf(beside, sizeof beside, " (8 for each of %llu that these change are in it)",
                       (unsigned long long)t->adapter->base);
    if (done->memory > limit.bytes)
        return pare_fail(t->cx, PARE_ENOMEM,
                         "training %llu weights takes %s of memory, %.3g bytes for each%s and the "
                         "rest for a step, and %s allows %s; take %sa smaller window, fewer "
                         "blocks, %sor more memory",
                         (unsigned long long)trained, pare_units_bytes(done->memory, needs),
                         (double)leaf_bytes(t) / (double)trained, beside, limit.name,
                         pare_units_bytes(limit.bytes, has),
                         t->opts.batch > 1 ? "a smaller batch, " : "",
                         t->adapter || t->opts.moments8 ? "" : "\"moments: 8bit\", ");
    t->cx->limit_bytes = (size_t)(limit.bytes - outside);
    PARE_TRY(pare_output_disk_find(t->cx, t->a, &t->place, &disk));
    done->disk_free = disk.free_bytes;
    if (done->disk > disk.free_bytes + disk.held_bytes)
        return pare_fail(
            t->cx, PARE_ENOSPC,
            "%s: saved states and weights take up to %s of disk, and %s are free there",
            t->place.output, pare_units_bytes(done->disk - disk.held_bytes, needs),
            pare_units_bytes(disk.free_bytes, has));
    return PARE_OK;
}

/* --- the place of the output -------------------------------------------------------------------
 */

static pare_status claim(pare_training *t)
{
    const pare_job_path output = output_path(t);
    bool unfinished, finished;
    PARE_TRY(pare_output_check_room(t->cx, t->place.output));
    PARE_TRY(pare_lock_take(t->cx, t->a, t->place.output, "train", t->teller, &t->lock));
    PARE_TRY(pare_output_place_mend(t->cx, t->a, &t->place, t->teller, &unfinished));
    t->replaces = pare_path_is_directory(t->place.output) && (t->job->restart || unfinished);
    PARE_TRY(
        pare_job_check_replacing(t->cx, t->a, &output, &t->place, t->replaces, false, &finished));
    return finished ? pare_job_path_fail(t->cx, PARE_EEXISTS, &output,
                                         "%s: is finished; give another output, or --restart to "
                                         "train anew and replace it",
                                         t->place.output)
                    : PARE_OK;
}

/* The same for a plan to be looked at: it writes nothing, and a finished output is told. */
static pare_status look_at_output(pare_training *t, bool *finished)
{
    const pare_job_path output = output_path(t);
    pare_owned_state state;
    PARE_TRY(pare_output_check_room(t->cx, t->place.output));
    PARE_TRY(pare_owned_partial(t->cx, t->a, t->place.partial, t->place.kind, &state));
    t->replaces = pare_path_is_directory(t->place.output) &&
                  (t->job->restart || state == PARE_OWNED_UNFINISHED);
    PARE_TRY(
        pare_job_check_replacing(t->cx, t->a, &output, &t->place, t->replaces, true, finished));
    return t->replaces ? pare_output_place_look(t->cx, t->a, &t->place) : PARE_OK;
}

/* --- training ----------------------------------------------------------------------------------
 */

static pare_training_place state_place(const pare_training *t)
{
    return (pare_training_place){
        t->cx, (pare_arena *)&t->scratch, t->place.partial, t->asked, OTHER_SETTINGS, t->teller};
}

static void tell_step(const pare_training *t, const pare_train_step *s)
{
    const size_t steps = t->state.result.steps;
    const double seconds = pare_seconds() - t->started;
    const double tokens = (double)(s->step - t->begun) * (double)t->opts.batch * (double)t->window;
    char text[PARE_UNIT_TEXT], after[PARE_UNIT_TEXT];
    if (s->step > 1 && s->step * NOTICES / steps == (s->step - 1) * NOTICES / steps)
        return;
    const double left = seconds / (double)(s->step - t->begun) * (double)(steps - s->step);
    pare__train_tell(t,
                     "step %zu of %zu, loss %.4f, norm %.3g, rate %.3g, %.0f tokens/s%s%s%s  "
                     "(after %s)",
                     s->step, steps, s->loss, s->norm, s->rate, seconds > 0 ? tokens / seconds : 0,
                     left >= 1 ? ", about " : "", left >= 1 ? pare_units_seconds(left, text) : "",
                     left >= 1 ? " left" : "",
                     pare_units_seconds(pare_seconds() - t->began, after));
}

static pare_status save_state(pare_training *t)
{
    const pare_training_place place = state_place(t);
    t->state.result.seconds = t->spent + pare_seconds() - t->started;
    PARE_TRY(pare_training_state_save(&place, &t->state));
    t->saved = pare_seconds();
    return PARE_OK;
}

static pare_status see(void *self, const pare_train_step *s)
{
    pare_training *const t = self;
    const double now = pare_seconds();
    pare_training_state_add(&t->state, s);
    tell_step(t, s);
    return s->step < t->state.result.steps && now - t->saved < 60 * t->opts.save_minutes
               ? PARE_OK
               : save_state(t);
}

static pare_status measure(pare_training *t, double *kl, double *nll)
{
    const pare_eval_opts opts = {
        .window = t->window, .model = "the student", .baseline = "teacher"};
    pare_eval_result found;
    PARE_TRY(pare_evaluate(t->cx, &t->student_f, t->taught ? &t->teacher_f : NULL, &opts,
                           t->held_out.id, t->held_out.count, &found));
    *kl = found.has_kl ? found.kl_mean : -1;
    *nll = found.nll;
    return PARE_OK;
}

static pare_status find_state(pare_training *t)
{
    const pare_training_place place = state_place(t);
    pare_training_result *const r = &t->state.result;
    bool found;
    r->steps = t->opts.schedule.steps;
    r->tokens = (uint64_t)r->steps * t->opts.batch * t->window;
    memcpy(r->asked, t->asked, sizeof r->asked);
    PARE_TRY(pare_training_state_load(&place, &t->state, &found));
    if (!found)
        return measure(t, &r->kl_before, &r->nll_before);
    t->begun = t->state.at.steps;
    t->spent = r->seconds;
    pare__train_tell(t, "continues after step %zu of %zu", t->begun, r->steps);
    return PARE_OK;
}

static pare_status run_steps(pare_training *t)
{
    const pare_train_data data = {t->windows.id, t->windows.count / t->window, t->window};
    const pare_train_watch watch = {see, t};
    pare_training_result *const r = &t->state.result;
    PARE_TRY(find_state(t));
    t->started = t->saved = pare_seconds();
    const pare_status s =
        pare_train(t->cx, &t->scratch, &t->trainee, &data, &t->opts, &t->state.at, &watch);
    if (s == PARE_ENUMERIC)
        (void)pare_fail_after(t->cx, s,
                              "change it in the recipe and give the command again with --restart");
    if (s == PARE_EINTERRUPTED && t->state.at.steps > t->begun)
        PARE_TRY(save_state(t));
    PARE_TRY(s);
    r->seconds = t->begun < r->steps ? t->spent + pare_seconds() - t->started : t->spent;
    PARE_TRY(pare__train_round(t));
    PARE_TRY(measure(t, &r->kl_after, &r->nll_after));
    pare__train_tell_harm(t);
    return PARE_OK;
}

/* --- the job -----------------------------------------------------------------------------------
 */

static pare_status begun_with(pare_training *t, pare_train_done *out)
{
    char text[600];
    const size_t all = t->source.config.blocks;
    if (t->fresh)
        (void)snprintf(text, sizeof text, "random weights of the shape in %s", t->model_path);
    else if (t->recipe.blocks && t->recipe.blocks < all)
        (void)snprintf(text, sizeof text, "%zu of %zu blocks of %s", t->recipe.blocks, all,
                       t->model_path);
    else
        (void)snprintf(text, sizeof text, "%s", t->model_path);
    out->begun_with = pare_arena_text(t->a, text, strlen(text));
    return out->begun_with ? PARE_OK : PARE_ENOMEM;
}

static pare_status prepare(pare_training *t, pare_train_done *out)
{
    const pare_job_path output = output_path(t);
    PARE_TRY(read_recipe(t));
    PARE_TRY(pare_job_output(t->cx, t->a, &output, &t->place));
    pare_training_opts(t->recipe.value, 1, &t->opts); /* which losses there are */
    PARE_TRY(pare__train_open(t));
    PARE_TRY(pare__train_pick(t));
    PARE_TRY(pick_tokenizer(t));
    PARE_TRY(pare_job_output_beside(t->cx, &output, &t->place, t->model_path));
    if (t->own_teacher)
        PARE_TRY(pare_job_output_beside(t->cx, &output, &t->place, t->teacher_path));
    pick_dtype(t);
    PARE_TRY(begun_with(t, out));
    count_weights(t);
    out->weights = t->weights;
    if (t->job->plan_only)
        PARE_TRY(look_at_output(t, &out->finished));
    else
        PARE_TRY(claim(t));
    PARE_TRY(pare__train_data(t));
    return settle(t);
}

static pare_status take_warnings(const pare_training *t, pare_train_done *out)
{
    out->warnings = t->warned->count;
    return pare_warnings_list(t->warned, t->a, &out->warning);
}

static pare_status fill(pare_training *t, pare_train_done *out)
{
    pare_config *const config = PARE_NEW(t->a, pare_config, 1);
    if (!config)
        return PARE_ENOMEM;
    *config = t->student.config;
    out->training = t->state.result;
    out->config = config;
    out->resumed = t->begun;
    out->harmed = pare__train_harmed(t);
    return take_warnings(t, out);
}

/* What is known before it begins. */
static void describe(const pare_training *t, pare_train_done *out)
{
    out->output = t->place.output;
    out->dtype = pare_dtype_name(t->dtype);
    out->windows = t->windows.count / t->window;
    out->window = t->window;
    out->held_out = t->held_out.count / t->window;
    out->vocabulary = t->recipe.vocabulary;
    out->adapter = t->adapter;
    out->training.steps = t->opts.schedule.steps;
    out->training.tokens = (uint64_t)out->training.steps * t->opts.batch * t->window;
}

/* Seconds of the first two steps. */
typedef struct timing {
    double last, seconds[2];
} timing;

static pare_status note_step(void *self, const pare_train_step *s)
{
    timing *const w = self;
    const double now = pare_seconds();
    w->seconds[s->step - 1] = now - w->last;
    w->last = now;
    return PARE_OK;
}

/* The time of a step: one of a few windows, at least one for each thread. All steps or none learn
 * from samples. With teacher_top a second step takes the same windows, of which the teacher is not
 * asked again. */
static pare_status time_kind(pare_training *t, bool drawn, timing *out)
{
    enum { FEW = 4 };
    const size_t threads = pare_threads(t->cx), batch = t->opts.batch;
    const size_t windows = t->windows.count / t->window;
    pare_train_opts opts = t->opts;
    pare_train_state state = {0};
    opts.batch = pare_smaller(batch, threads > FEW ? threads : FEW);
    opts.schedule.steps = opts.teacher_top ? 2 : 1;
    opts.lambda = drawn;
    opts.what = "timing a part of a step";
    opts.teacher_share = drawn ? opts.teacher_share : 0;
    const pare_train_data data = {
        t->windows.id, opts.teacher_top ? pare_smaller(windows, opts.batch) : windows, t->window};
    *out = (timing){.last = pare_seconds()};
    PARE_TRY(pare_train(t->cx, &t->scratch, &t->trainee, &data, &opts, &state,
                        &(pare_train_watch){note_step, out}));
    for (size_t i = 0; i < 2; i++)
        out->seconds[i] *= (double)batch / (double)opts.batch;
    return PARE_OK;
}

/* The mean over steps. */
static pare_status time_step(pare_training *t, pare_train_done *out)
{
    const double lambda = t->opts.lambda;
    const double shown = (double)t->opts.schedule.steps * (double)t->opts.batch;
    const double asked = fmin(1, (double)out->windows / shown); /* of them, with teacher_top */
    timing plain = {0}, drawn = {0};
    PARE_TRY(pare__train_take(t));
    if (lambda < 1)
        PARE_TRY(time_kind(t, false, &plain));
    if (lambda > 0)
        PARE_TRY(time_kind(t, true, &drawn));
    if (t->opts.teacher_top)
        plain.seconds[0] = asked * plain.seconds[0] + (1 - asked) * plain.seconds[1];
    out->step_seconds = (1 - lambda) * plain.seconds[0] + lambda * drawn.seconds[0];
    return PARE_OK;
}

static pare_status run_job(pare_training *t, pare_train_done *out)
{
    char few[PARE_SHORTAGE_TEXT];
    PARE_TRY(prepare(t, out));
    describe(t, out);
    PARE_TRY(check_room(t, out));
    if (pare_few_held_text("training", out->held_out, "a larger held_out", few))
        pare__train_tell(t, "warning: %s", few);
    PARE_TRY(take_warnings(t, out));
    if (t->job->plan_only) {
        PARE_TRY(pare__train_check_work(t));
        return time_step(t, out);
    }
    PARE_TRY(pare__train_claim_work(t));
    pare__train_tell(t, "%llu weights, %zu window%s of %zu tokens, %zu held out; %zu step%s",
                     (unsigned long long)trained_weights(t), out->windows,
                     pare_plural(out->windows), t->window, out->held_out, t->opts.schedule.steps,
                     pare_plural(t->opts.schedule.steps));
    PARE_TRY(pare__train_take(t));
    PARE_TRY(run_steps(t));
    PARE_TRY(fill(t, out));
    PARE_TRY(t->adapter && !t->adapter->merged ? pare__train_write_adapter(t, out)
                                               : pare__train_write(t, out));
    out->joules = pare_energy_since(t->cx->energy, t->joules);
    PARE_TRY(pare__train_report(t, out));
    PARE_TRY(pare_inventory_write(t->cx, t->a, t->place.partial, NULL, 0));
    if (!t->fresh)
        PARE_TRY(pare_watch_check(t->cx, &t->model.watch));
    if (t->own_teacher)
        PARE_TRY(pare_watch_check(t->cx, &t->teacher.watch));
    /* the state stays until the output has its name: a kill in front of that loses no step */
    return pare_output_place_publish(t->cx, t->a, &t->place, t->replaces, t->teller);
}

pare_status pare_train_job(pare_ctx *cx, pare_arena *a, const pare_job *job,
                           const pare_teller *teller, pare_train_done *out)
{
    const double started = pare_seconds();
    const size_t limit = cx->limit_bytes;
    *out = (pare_train_done){0};
    pare_warnings *const warned = PARE_NEW(a, pare_warnings, 1);
    if (!warned)
        return PARE_ENOMEM;
    pare_training t = {.cx = cx,
                       .a = a,
                       .scratch = {.cx = cx},
                       .begin = {.cx = cx},
                       .own = {.cx = cx},
                       .job = job,
                       .teller = teller,
                       .warned = warned,
                       .began = started,
                       .joules = cx->energy ? pare_energy_read(cx->energy) : 0};
    pare_status s = run_job(&t, out);
    s = pare_training_state_end(cx, &t.state, s);
    cx->limit_bytes = limit;
    out->seconds = pare_seconds() - started;
    out->joules = pare_energy_since(cx->energy, t.joules);
    pare_journal_close(cx, t.journal);
    pare_output_drop_work(t.place.partial, t.made);
    pare_checkpoint_close(&t.model);
    if (t.own_teacher)
        pare_checkpoint_close(&t.teacher);
    pare_lock_release(&t.lock);
    pare_arena_release(&t.own);
    pare_arena_release(&t.begin);
    pare_arena_release(&t.scratch);
    return s;
}
