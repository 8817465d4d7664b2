#include "compress/batch/batch_plan.h"

#include <stdio.h>
#include <string.h>

#include "compress/batch/batch_internal.h"
#include "compress/plan/chain.h"
#include "compress/plan/chain_part.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/plan.h"
#include "compress/plan/plan_time.h"
#include "compress/plan/plan_walks.h"
#include "compress/report/gate.h"
#include "runtime/file.h"

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

static bool is_shared(const pare_jobs *b, const pare_batch_plan *p, size_t row)
{
    for (size_t i = 0; i < row; i++)
        if (p->row[i].planned && p->row[i].shared_seconds >= 0 &&
            same_calibration(b->row[i].text, b->row[row].text))
            return true;
    return false;
}

static pare_status find_feasible(const pare_jobs *b, const pare_plan *plan,
                                 pare_batch_plan_row *out)
{
    pare_gate verdict;
    out->falls_back = plan->recipe.fallbacks > 0;
    out->known_once = pare_plan_known_once(plan);
    PARE_TRY(pare_gate_of_bytes(b->a, &plan->recipe, plan->settled.packed_bytes, &verdict));
    const bool larger = verdict.kind == PARE_GATE_INFEASIBLE;
    out->infeasible = larger && !out->known_once;
    out->unsure = larger && out->known_once;
    return PARE_OK;
}

/* Seconds of a job that an earlier one spares it: weights of tokens, or all that goes into a file
 * of statistics. */
static double spared(const pare_plan *plan, const pare_plan_estimate *time)
{
    const double kept = time->phase[PARE_PHASE_WAVE] + time->phase[PARE_PHASE_STATS];
    return time->phase[PARE_PHASE_WEIGH] + (plan->kept.used ? kept : 0);
}

/* What is larger than it may be gives way to the first fallback that is not. All of them must have
 * a plan. */
static pare_status take_fallback(const pare_jobs *b, const pare_job *job, const pare_recipe *r,
                                 pare_batch_plan_row *out)
{
    pare_fallback_size *size;
    size_t i = 0;
    PARE_TRY(pare_plan_fallback_sizes(b->cx, b->a, job, r, &size));
    if (!out->infeasible)
        return PARE_OK;
    while (i < r->fallbacks && pare_fallback_infeasible(&size[i]))
        i++;
    out->falls_back = i < r->fallbacks;
    if (out->falls_back) {
        out->bytes = size[i].bytes;
        out->bits = size[i].bits_per_weight;
        out->known_once = size[i].known_once;
        out->unsure = size[i].larger;
    }
    return PARE_OK;
}

static pare_status plan_one(pare_jobs *b, pare_batch_plan *p, size_t row, const pare_job *job)
{
    pare_batch_plan_row *const out = &p->row[row];
    const double before = out->planned ? out->seconds : 0;
    pare_plan plan = {0};
    pare_plan_estimate time;
    pare_status s = pare_plan_make(b->cx, b->a, job, &plan);
    if (s == PARE_OK)
        s = find_feasible(b, &plan, out);
    if (s == PARE_OK)
        s = pare_plan_time(b->cx, &plan, &time);
    if (s == PARE_OK) {
        const bool shares = (plan.token_weights && !plan.training) || plan.kept.used;
        const bool shared = shares && is_shared(b, p, row);
        out->bits = plan.settled.bits_per_weight;
        out->bytes = plan.settled.packed_bytes;
        out->memory = plan.settled.memory.anonymous_bytes > out->memory
                          ? plan.settled.memory.anonymous_bytes
                          : out->memory;
        out->disk += plan.settled.disk_bytes;
        if (shared && plan.kept.made && !pare_path_is_file(plan.kept.path))
            out->disk -= pare_plan_stage_bytes(&plan, &plan.settled);
        out->seconds = before + time.seconds;
        out->shared_seconds = !shares ? -1 : shared ? spared(&plan, &time) : 0;
        out->planned = true;
    }
    pare_plan_close(&plan);
    return s == PARE_OK && plan.recipe.fallbacks ? take_fallback(b, job, &plan.recipe, out) : s;
}

static pare_status plan_job(pare_jobs *b, pare_batch_plan *p, size_t row)
{
    const pare_batch_row *const r = p->row[row].row;
    const pare_job job = {.recipe = r->recipe,
                          .text = r->text,
                          .restart = b->opts->restart,
                          .strict = b->opts->strict,
                          .ram_limit = b->opts->ram_limit / b->at_once,
                          .plan_only = true};
    pare_chain chain;
    PARE_TRY(pare_chain_make(b->cx, b->a, &job, &chain));
    for (size_t i = 0; i < chain.jobs; i++)
        PARE_TRY(plan_one(b, p, row, &chain.job[i]));
    return PARE_OK;
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

static void add_up(pare_batch_plan *p, const pare_batch_plan_row *r)
{
    p->planned++;
    p->bytes += r->bytes;
    p->disk += r->disk;
    p->memory = r->memory > p->memory ? r->memory : p->memory;
    p->seconds += r->seconds - (r->shared_seconds > 0 ? r->shared_seconds : 0);
}

/* Nothing of a job is done that a run would refuse, or that only looks whether it is done. */
static bool is_stale(const pare_jobs *b, const pare_batch_row *r)
{
    return !b->opts->restart &&
           (r->stays || r->refused || (r->state == PARE_BATCH_STALE && !r->anew));
}

/* Whether it writes nothing, so that jobs that wait for it wait in vain. */
static bool stops(const pare_batch_plan_row *r)
{
    return r->status != PARE_OK || (r->infeasible && !r->falls_back);
}

static void find_waiting(const pare_jobs *b, pare_batch_plan_row *row)
{
    for (size_t i = 0; i < b->rows; i++) {
        size_t at = i;
        while ((row[i].planned || row[i].later) && b->row[at].job->after != at) {
            at = b->row[at].job->after;
            if (!stops(&row[at]))
                continue;
            row[i].planned = row[i].later = false;
            (void)snprintf(row[i].why, sizeof row[i].why, "waits: %s is not done",
                           b->row[b->row[i].job->after].job->name);
        }
    }
}

static pare_status plan_row(pare_jobs *b, pare_batch_plan *p, size_t row)
{
    pare_batch_plan_row *const out = &p->row[row];
    const pare_batch_row *const r = out->row;
    if (is_stale(b, r)) {
        out->stale = true;
        out->status = r->stays || r->refused ? PARE_EEXISTS : PARE_OK;
        (void)snprintf(out->why, sizeof out->why, "stale: %.1000s", r->why);
        return PARE_OK;
    }
    if (reads_packed(b, r)) {
        out->status = PARE_ENOTSUP;
        (void)snprintf(out->why, sizeof out->why,
                       "its model is what %s writes, which is compressed already; only a job of "
                       "nothing but structured passes, such as depth, writes a checkpoint",
                       b->row[r->job->after].job->name);
        return PARE_OK;
    }
    out->later = !has_model(b, r);
    if (out->later) {
        (void)snprintf(out->why, sizeof out->why, "planned once %s is done",
                       b->row[r->job->after].job->name);
        return PARE_OK;
    }
    const pare_mark mark = pare_arena_mark(b->a);
    const pare_status s = plan_job(b, p, row);
    pare_arena_rewind(b->a, mark);
    if (s == PARE_OK || s == PARE_EINTERRUPTED || (s == PARE_ENOMEM && !b->cx->what[0]))
        return s;
    (void)snprintf(out->why, sizeof out->why, "%s", b->cx->what);
    pare_ctx_clear(b->cx);
    out->planned = false; /* of a chain, the first may be */
    out->status = s;
    return PARE_OK;
}

pare_status pare_batch_plan_make(pare_jobs *b, pare_batch_plan *out)
{
    *out = (pare_batch_plan){.row = PARE_NEW(b->a, pare_batch_plan_row, b->rows)};
    if (!out->row)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->rows; i++) {
        out->row[i] = (pare_batch_plan_row){.row = &b->row[i]};
        if (b->row[i].mine && (b->row[i].state != PARE_BATCH_DONE || b->opts->restart))
            PARE_TRY(plan_row(b, out, i));
    }
    find_waiting(b, out->row);
    for (size_t i = 0; i < b->rows; i++) {
        const pare_batch_plan_row *const r = &out->row[i];
        if (r->planned && !stops(r))
            add_up(out, r);
        out->later += r->later;
        out->stale += r->stale && r->status != PARE_OK;
        out->failed += !r->stale && r->status != PARE_OK;
    }
    return PARE_OK;
}
