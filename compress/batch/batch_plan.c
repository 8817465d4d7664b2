#include "compress/batch/batch_plan.h"

#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/budget/budget.h"
#include "compress/export/export.h"
#include "compress/output/journal.h"
#include "compress/output/lock.h"
#include "compress/output/owned_files.h"
#include "compress/plan/chain.h"
#include "compress/plan/chain_part.h"
#include "compress/plan/fallback.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/plan.h"
#include "compress/plan/plan_time.h"
#include "compress/plan/plan_walks.h"
#include "compress/report/gate.h"
#include "compress/run/run_look.h"
#include "runtime/file.h"

const char *pare_batch_act_name(pare_batch_act x)
{
    static const char *const names[PARE_BATCH_ACTS] = {"planned",    "later", "there",
                                                       "infeasible", "waits", "stale",
                                                       "failed",     "done",  "other_shard"};
    return names[x];
}

/* A normalized recipe up to its passes, but for the name of its output: what jobs that share have
 * in common. */
static bool same_calibration(const char *x, const char *y)
{
    while (*x && *y) {
        const size_t a = strcspn(x, "\n"), b = strcspn(y, "\n");
        const bool output = strncmp(x, "output:", strlen("output:")) == 0 &&
                            strncmp(y, "output:", strlen("output:")) == 0;
        if (!output && (a != b || memcmp(x, y, a) != 0))
            return false;
        if (strncmp(x, "passes:", strlen("passes:")) == 0)
            return true;
        x += a + (x[a] == '\n');
        y += b + (y[b] == '\n');
    }
    return false;
}

/* Whether a job before a row does the same and keeps it. */
static bool is_shared(const pare_jobs *b, const pare_batch_plan *p, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (p->row[i].act == PARE_BATCH_ACT_PLANNED && p->row[i].shares &&
            same_calibration(b->row[i].text, b->row[row].text))
            return true;
    return false;
}

/* Seconds of a job that an earlier one can spare it: weights of tokens, or all that goes into a
 * file of statistics. */
static double spared(const pare_plan *plan, const pare_plan_estimate *time)
{
    const double kept = time->phase[PARE_PHASE_WAVE] + time->phase[PARE_PHASE_STATS];
    return time->phase[PARE_PHASE_WEIGH] + (plan->kept.used ? kept : 0);
}

/* A plan of one attempt. */
typedef struct attempt {
    pare_recipe recipe;
    const char *known_once;
    bool larger; /* than is required */
    double bits, seconds, spare_seconds;
    uint64_t bytes, memory, disk, exports, spare_disk;
    bool shares;
    pare_job_left left;
} attempt;

/* For certain. */
static bool writes_nothing(const attempt *x)
{
    return x->larger && !x->known_once;
}

static pare_status take_figures(const pare_jobs *b, const pare_plan *plan, attempt *out)
{
    const pare_settled *const settled = &plan->settled;
    pare_plan_estimate time;
    pare_gate verdict;
    for (size_t i = 0; i < plan->exports; i++)
        out->exports += plan->export[i].result.bytes;
    PARE_TRY(pare_gate_of_bytes(b->a, &plan->recipe, settled->packed_bytes, &verdict));
    PARE_TRY(pare_plan_time(b->cx, plan, &time));
    out->known_once = pare_plan_known_once(plan);
    out->larger = verdict.kind == PARE_GATE_INFEASIBLE;
    out->bits = settled->bits_per_weight;
    out->bytes = settled->packed_bytes;
    out->memory = settled->memory.anonymous_bytes;
    out->disk = settled->disk_bytes;
    out->seconds = time.seconds;
    out->shares = (plan->token_weights && !plan->training) || plan->kept.used;
    if (out->shares)
        out->spare_seconds = spared(plan, &time);
    if (out->shares && plan->kept.made && !pare_path_is_file(plan->kept.path))
        out->spare_disk = pare_plan_stage_bytes(plan, settled);
    return PARE_OK;
}

/* Of an export that is there. */
static pare_status check_export(const pare_jobs *b, const pare_plan *plan,
                                const pare_plan_export *x)
{
    pare_export_place p;
    PARE_TRY(pare_export_place_find(b->cx, b->a, plan->model_path, x->path, x->target->kind, &p));
    const bool there = pare_path_is_file(x->path) || pare_path_is_directory(x->path);
    return there ? pare_owned_check(b->cx, b->a, p.at.output, p.at.kind, false) : PARE_OK;
}

/* What lies in the place of the work must be of pare, and what is to be replaced as pare left it,
 * by every byte, as a run wants it. A run removes the journal of an earlier one first. */
static pare_status check_places(const pare_jobs *b, const pare_plan *plan)
{
    const pare_output_place *const place = &plan->place;
    pare_owned_state partial;
    char *const journal = pare_path_join(b->a, place->output, PARE_JOURNAL_NAME);
    if (!journal)
        return PARE_ENOMEM;
    PARE_TRY(pare_lock_check(b->cx, b->a, place->output));
    PARE_TRY(pare_owned_partial(b->cx, b->a, place->partial, place->kind, &partial));
    if (plan->job->part == PARE_JOB_SMALLER) /* it stays */
        return PARE_OK;
    if (plan->settled.replaces && !pare_path_is_file(journal))
        PARE_TRY(pare_owned_check(b->cx, b->a, place->output, place->kind, false));
    PARE_TRY(pare_plan_export_taken(b->cx, b->a, plan));
    for (size_t i = 0; i < plan->exports; i++) {
        const pare_status s = check_export(b, plan, &plan->export[i]);
        if (s != PARE_OK)
            return pare_recipe_fail_at(b->cx, s, plan->recipe.export[i].path.place);
    }
    return PARE_OK;
}

/* A run that is to write nothing looks at no places. */
static pare_status plan_attempt(const pare_jobs *b, const pare_job *job, attempt *out)
{
    pare_plan plan = {0};
    *out = (attempt){.known_once = NULL};
    pare_status s = pare_budget_check(b->cx, b->a, job);
    if (s == PARE_OK)
        s = pare_plan_make(b->cx, b->a, job, &plan);
    if (s == PARE_OK)
        s = take_figures(b, &plan, out);
    if (s == PARE_OK && !writes_nothing(out))
        s = check_places(b, &plan);
    if (s == PARE_OK)
        out->left = pare_plan_leaves(&plan);
    out->recipe = plan.recipe;
    pare_plan_close(&plan);
    return s;
}

/* What is larger than it may be gives way to the first fallback that is not. All of them must have
 * a plan, and each that may be tried counts for memory and disk. */
static pare_status take_fallback(const pare_jobs *b, const pare_job *job, attempt *at,
                                 pare_batch_plan_row *out)
{
    const pare_recipe r = at->recipe;
    pare_fallback_size *size;
    pare_job next;
    uint64_t memory = at->memory, disk = at->disk;
    PARE_TRY(pare_plan_fallback_sizes(b->cx, b->a, job, &r, &size));
    pare_plan_fallback_most(size, r.fallbacks, out->infeasible, &memory, &disk);
    const pare_fallback_size *const first =
        out->infeasible ? pare_plan_fallback_first(size, r.fallbacks) : NULL;
    out->falls_back = first != NULL;
    if (first) {
        PARE_TRY(pare_job_fallback(b->a, job, &r.fallback[first - size], &next));
        next.plan_only = true;
        next.restart = job->restart;
        PARE_TRY(plan_attempt(b, &next, at));
    }
    at->memory = memory;
    at->disk = disk;
    return PARE_OK;
}

static void add_attempt(const attempt *at, pare_batch_plan_row *out)
{
    out->known_once = at->known_once;
    out->unsure = at->larger && at->known_once;
    out->bits = at->bits;
    out->bytes = at->bytes;
    out->memory = at->memory > out->memory ? at->memory : out->memory;
    out->disk += at->disk;
    out->exports += at->exports;
    out->seconds += at->seconds;
    out->shares = at->shares;
    out->spare_seconds = at->spare_seconds;
    out->spare_disk = at->spare_disk;
}

static pare_status plan_one(const pare_jobs *b, pare_batch_plan_row *out, const pare_job *job,
                            pare_job_left *left)
{
    attempt at;
    PARE_TRY(plan_attempt(b, job, &at));
    out->infeasible = writes_nothing(&at);
    if (at.recipe.fallbacks)
        PARE_TRY(take_fallback(b, job, &at, out));
    add_attempt(&at, out);
    *left = at.left;
    out->act =
        out->infeasible && !out->falls_back ? PARE_BATCH_ACT_INFEASIBLE : PARE_BATCH_ACT_PLANNED;
    return PARE_OK;
}

/* What a run leaves as it is, and only looks at. */
static pare_status look_at(const pare_jobs *b, pare_batch_plan_row *out, const pare_job *job)
{
    pare_look look;
    const bool done = out->row->state == PARE_BATCH_DONE;
    pare_status s = pare_look_at(b->cx, b->a, job, done, &look);
    if (s == PARE_OK && done && look.missing)
        s = pare_look_at(b->cx, b->a, job, false, &look);
    out->act = look.other ? PARE_BATCH_ACT_STALE : PARE_BATCH_ACT_FAILED;
    PARE_TRY(s);
    out->memory = look.memory > out->memory ? look.memory : out->memory;
    out->exports += look.export_bytes;
    out->disk += look.export_bytes;
    out->missing = look.missing;
    out->of = look.exports;
    if (look.verdict)
        (void)snprintf(out->verdict, sizeof out->verdict, "%s", pare_gate_name(look.verdict->kind));
    const bool stays = !look.verdict || look.verdict->kind == PARE_GATE_ACCEPT;
    out->act = look.infeasible                      ? PARE_BATCH_ACT_INFEASIBLE
               : done && look.missing == 0 && stays ? PARE_BATCH_ACT_DONE
                                                    : PARE_BATCH_ACT_THERE;
    if (look.infeasible)
        (void)snprintf(out->why, sizeof out->why,
                       "INFEASIBLE: its files would be larger than is required; what is there "
                       "stays");
    out->infeasible = look.infeasible;
    return PARE_OK;
}

/* Whether every output of a chain is there, and none is made anew. */
static bool is_there(const pare_chain *chain)
{
    for (size_t i = 0; i + 1 < chain->jobs; i++)
        if (!pare_path_is_directory(chain->job[i].output))
            return false;
    return true;
}

static pare_status plan_job(const pare_jobs *b, pare_batch_plan_row *out, bool there)
{
    const pare_job job = {.recipe = out->row->recipe,
                          .text = out->row->text,
                          .restart = b->opts->restart || out->row->anew,
                          .strict = b->opts->strict,
                          .ram_limit = b->opts->ram_limit / b->at_once,
                          .beside_bytes = b->cx->live_bytes - b->before_bytes,
                          .plan_only = true,
                          .looked = b->looked};
    pare_chain chain;
    PARE_TRY(pare_chain_make(b->cx, b->a, &job, &chain));
    pare_job_left left = {0};
    for (size_t i = 0; i < chain.jobs; i++) {
        chain.job[i].left = left;
        PARE_TRY(there && is_there(&chain) ? look_at(b, out, &chain.job[i])
                                           : plan_one(b, out, &chain.job[i], &left));
    }
    return PARE_OK;
}

/* In an arena of its own, as the job has one. */
static pare_status plan_apart(const pare_jobs *b, pare_batch_plan_row *out, bool there)
{
    pare_arena a;
    pare_jobs apart = *b;
    apart.a = &a;
    pare_status s = pare_arena_init(b->cx, &a, 0);
    if (s == PARE_OK)
        s = plan_job(&apart, out, there);
    pare_arena_release(&a);
    return s;
}

/* A model that another job writes may not be there yet. */
static bool has_model(const pare_jobs *b, const pare_batch_row *r)
{
    return !pare__batch_has_job_model(b, r) || b->row[r->job->after].state == PARE_BATCH_DONE;
}

/* Whether a job reads what another one packs, which is no checkpoint. */
static bool reads_packed(const pare_jobs *b, const pare_batch_row *r)
{
    const pare_recipe *const before = &b->row[r->job->after].job->recipe;
    return pare__batch_has_job_model(b, r) &&
           (pare_chain_lead(before) || !pare_passes[before->step[0].pass]->structure);
}

static bool is_to_do(pare_batch_act x)
{
    return x == PARE_BATCH_ACT_PLANNED || x == PARE_BATCH_ACT_LATER || x == PARE_BATCH_ACT_THERE;
}

static void add_up(pare_batch_plan *p, const pare_batch_plan_row *r)
{
    p->count[r->act]++;
    p->damaged += r->act == PARE_BATCH_ACT_STALE && r->row->damaged;
    if (!is_to_do(r->act))
        return;
    p->to_do++;
    p->bytes += r->bytes;
    p->exports += r->exports;
    p->disk += r->disk;
    p->memory = r->memory > p->memory ? r->memory : p->memory;
    p->seconds += r->seconds - r->shared_seconds;
}

/* A run does not touch what is there. */
static bool is_stale(const pare_jobs *b, const pare_batch_row *r)
{
    return r->damaged || (!b->opts->restart && (r->stays || r->refused));
}

/* Whether it writes nothing, so that jobs that wait for it wait in vain. */
static bool stops(const pare_batch_plan_row *r)
{
    return r->status != PARE_OK || r->act == PARE_BATCH_ACT_INFEASIBLE;
}

static void find_waiting(const pare_jobs *b, pare_batch_plan_row *row)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t at = i;
        while (is_to_do(row[i].act) && b->row[at].job->after != at) {
            at = b->row[at].job->after;
            if (!stops(&row[at]))
                continue;
            row[i].act = PARE_BATCH_ACT_WAITS;
            (void)snprintf(row[i].why, sizeof row[i].why, "waits: %s is not done",
                           b->row[b->row[i].job->after].job->name);
        }
    }
}

/* What earlier jobs keep for later ones. */
static void find_shared(const pare_jobs *b, pare_batch_plan *p)
{
    for (size_t i = 0; i < b->rows; i++) {
        pare_batch_plan_row *const r = &p->row[i];
        if (r->act != PARE_BATCH_ACT_PLANNED || !r->shares || !is_shared(b, p, i))
            continue;
        r->shared_seconds = r->spare_seconds;
        r->disk -= r->spare_disk;
    }
}

/* Whether the output of a row is there, to be looked at alone: what a search chose is not known
 * before it chooses again. */
static bool is_looked_at(const pare_jobs *b, const pare_batch_row *r)
{
    return !b->opts->restart && !r->anew && r->there && !pare__batch_searches(&r->job->recipe);
}

static pare_status plan_row(pare_jobs *b, pare_batch_plan *p, size_t row)
{
    pare_batch_plan_row *const out = &p->row[row];
    const pare_batch_row *const r = out->row;
    if (is_stale(b, r)) {
        out->act = PARE_BATCH_ACT_STALE;
        out->status = PARE_EEXISTS;
        (void)snprintf(out->why, sizeof out->why, "stale: %.1000s", r->why);
        return PARE_OK;
    }
    if (reads_packed(b, r)) {
        out->act = PARE_BATCH_ACT_FAILED;
        out->status = PARE_ENOTSUP;
        (void)snprintf(out->why, sizeof out->why,
                       "its model is what %s writes, which is compressed already; only a job of "
                       "nothing but structured passes, such as depth, writes a checkpoint",
                       b->row[r->job->after].job->name);
        return PARE_OK;
    }
    if (!has_model(b, r)) {
        out->act = PARE_BATCH_ACT_LATER;
        (void)snprintf(out->why, sizeof out->why, "planned once %s is done",
                       b->row[r->job->after].job->name);
        return PARE_OK;
    }
    out->goes_on = r->begun && !b->opts->restart;
    const pare_status s = plan_apart(b, out, is_looked_at(b, r));
    if (s == PARE_OK || s == PARE_EINTERRUPTED || (s == PARE_ENOMEM && !b->cx->what[0]))
        return s;
    const bool stale = out->act == PARE_BATCH_ACT_STALE;
    (void)snprintf(out->why, sizeof out->why, "%s%.1000s", stale ? "stale: " : "", b->cx->what);
    pare_ctx_clear(b->cx);
    out->act = stale ? out->act : PARE_BATCH_ACT_FAILED;
    out->status = s;
    return PARE_OK;
}

/* Whether a run begins a job of the row. */
static bool begins(const pare_jobs *b, const pare_batch_row *r)
{
    return r->state != PARE_BATCH_DONE || b->opts->restart || r->job->recipe.exports;
}

pare_status pare_batch_plan_make(pare_jobs *b, pare_batch_plan *out)
{
    b->looked = PARE_NEW(b->a, pare_looked, 1);
    *out = (pare_batch_plan){.row = PARE_NEW(b->a, pare_batch_plan_row, b->rows)};
    if (!out->row || !b->looked)
        return PARE_ENOMEM;
    b->looked->a = b->a;
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_row *const r = &b->row[i];
        out->row[i] = (pare_batch_plan_row){
            .row = r, .act = r->mine ? PARE_BATCH_ACT_DONE : PARE_BATCH_ACT_SHARD};
        if (r->mine && begins(b, r))
            PARE_TRY(plan_row(b, out, i));
    }
    find_waiting(b, out->row);
    find_shared(b, out);
    for (size_t i = 0; i < b->rows; i++)
        add_up(out, &out->row[i]);
    return PARE_OK;
}
