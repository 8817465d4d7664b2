/* What searches have in common: the recipe, the folder beside the output, and the job of what was
 * chosen. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "compress/budget/budget_internal.h"
#include "compress/output/output.h"
#include "compress/plan/job_paths.h"
#include "compress/text/text_out.h"
#include "runtime/file.h"
#include "runtime/machine.h"

void pare__budget_tell(const pare_budget *b, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    const pare_event e = {
        .kind = PARE_EVENT_NOTICE, .text = text, .seconds = pare_seconds() - b->started};
    if (b->events && b->events->event)
        b->events->event(b->events->self, &e);
}

static void tell(void *self, const char *text)
{
    pare__budget_tell(self, "%s", text);
}

/* Steps that choose widths for a speed (compress/budget/widths.c), and those for a budget. */
bool pare__budget_chooses_widths(const pare_step *step)
{
    const pare_pass *const pass = pare_passes[step->pass];
    return pass->structure && pass->structure(step->value).search;
}

bool pare_budget_is_step(const pare_step *step)
{
    return pare__budget_chooses_widths(step) || pare_passes[step->pass] == pare_pass_find("budget");
}

pare_status pare__budget_read(pare_ctx *cx, pare_arena *a, const pare_job *job,
                              const pare_pass_words **words, pare_recipe *out)
{
    char *text;
    size_t len;
    PARE_TRY(pare_job_read_recipe(cx, a, job->recipe, job->text, &text, &len));
    PARE_TRY(pare_pass_words_take(a, words));
    const pare_recipe_source source = {pare_job_file(job), text, len, job->sets, job->set_count};
    return pare_recipe_parse(cx, a, &source, *words, pare_pass_count(), out);
}

const pare_step *pare__budget_step(const pare_recipe *r)
{
    for (size_t i = 0; i < r->steps; i++)
        if (pare_budget_is_step(&r->step[i]))
            return &r->step[i];
    return NULL;
}

pare_status pare_budget_asked(pare_ctx *cx, pare_arena *a, const pare_job *job, bool *asked)
{
    const pare_mark mark = pare_arena_mark(a);
    const pare_pass_words *words;
    pare_recipe *const r = PARE_NEW(a, pare_recipe, 1);
    if (!r)
        return PARE_ENOMEM;
    const pare_status s = pare__budget_read(cx, a, job, &words, r);
    *asked = s == PARE_OK && pare__budget_step(r);
    pare_arena_rewind(a, mark);
    return s;
}

pare_status pare__budget_plan(const pare_budget *b, pare_arena *a, const pare_job *job,
                              pare_plan *plan)
{
    const pare_progress told = b->cx->progress;
    b->cx->progress.warn = NULL;
    const pare_status s = pare_plan_make(b->cx, a, job, plan);
    b->cx->progress.warn = told.warn;
    return s;
}

/* What the recipe says beside the step, before the search takes its time: as pare plan does. */
pare_status pare__budget_check_rest(pare_budget *b)
{
    pare_arena a = {.cx = b->cx};
    pare_job job = *b->job;
    pare_plan plan = {0};
    job.plan_only = job.unlimited = true;
    const pare_status s = pare__budget_plan(b, &a, &job, &plan);
    pare_plan_close(&plan);
    pare_arena_release(&a);
    return s;
}

pare_status pare__budget_paths(pare_budget *b, const char *first)
{
    const pare_job_path output = {b->job->recipe, "output", b->job->output, &b->recipe.output};
    char *path;
    PARE_TRY(pare_job_path_pick(b->cx, b->a, &output, &path));
    b->output = path;
    b->store = pare_path_suffix(b->a, path, PARE_BUDGET_STORE);
    b->base = b->store ? pare_path_join(b->a, b->store, "base") : NULL;
    b->shared = b->store ? pare_path_join(b->a, b->store, "shared") : NULL;
    if (!b->base || !b->shared)
        return PARE_ENOMEM;
    char *const begun = pare_path_join(b->a, b->store, first);
    if (!begun)
        return PARE_ENOMEM;
    b->other = !b->job->restart && pare_path_is_directory(path) && !pare_path_is_directory(begun) &&
               !pare_path_is_file(begun);
    if (b->other)
        return pare_job_path_fail(b->cx, PARE_EEXISTS, &output,
                                  "%s: is there, without the variants of a search; --restart "
                                  "replaces it",
                                  path);
    return PARE_OK;
}

/* A folder of somebody else is not written into. */
static pare_status check_store(const pare_budget *b, const char *const *own)
{
    bool ours = !pare_path_is_directory(b->store) || rmdir(b->store) == 0;
    for (size_t i = 0; !ours && own[i]; i++) {
        char *const path = pare_path_join(b->a, b->store, own[i]);
        if (!path)
            return PARE_ENOMEM;
        ours = pare_path_is_directory(path) || pare_path_is_file(path);
    }
    return ours ? PARE_OK
                : pare_fail(b->cx, PARE_EEXISTS,
                            "%s: is no folder of a search; move it away, or give another output",
                            b->store);
}

pare_status pare__budget_data(pare_budget *b)
{
    pare_arena scratch;
    pare_settled settled = b->plan.settled;
    PARE_TRY(pare_arena_init(b->cx, &scratch, 0));
    const pare_data_reader reader = {
        b->cx, b->a, &scratch, &b->plan, &b->plan.checkpoint, &b->plan.model, {tell, b}};
    const pare_status s = pare_data_calibration(&reader, &b->data, &settled);
    pare_arena_release(&scratch);
    return s;
}

/* The recipe that the output was made of: its own recipe.yaml is what the search came to. */
static pare_status keep_asked(pare_budget *b)
{
    pare_text_out t = {.cx = b->cx};
    char *text;
    size_t len;
    PARE_TRY(pare_job_read_recipe(b->cx, b->a, b->job->recipe, b->job->text, &text, &len));
    pare__text_put(&t, "%s", text);
    return pare__text_save(&t, b->store, PARE_BUDGET_ASKED);
}

pare_status pare__budget_run(pare_budget *b, pare_job_runner *runner, const char *text,
                             pare_compress_result *out)
{
    pare_job job = *b->job;
    job.text = text;
    job.sets = NULL;
    job.set_count = 0;
    job.share = job.share ? job.share : b->shared;
    job.speed = b->speed;
    PARE_TRY(runner(b->cx, b->a, &job, b->events, out));
    return keep_asked(b);
}

pare_status pare__budget_locked(pare_budget *b, const char *const *own, pare__budget_body *body,
                                pare_job_runner *runner, pare_compress_result *out)
{
    const pare_teller teller = {tell, b};
    pare_lock lock = {0};
    PARE_TRY(pare_lock_take(b->cx, b->a, b->store, "compress", &teller, &lock));
    pare_status s = check_store(b, own);
    bool made = false;
    if (s == PARE_OK)
        s = pare_output_make_work(b->cx, b->a, b->store, &made);
    if (s == PARE_OK)
        s = body(b, runner, out);
    if (b->writer) /* a search for settings that failed */
        pare__budget_store_close(b);
    pare_output_drop_work(b->store, made);
    pare_plan_close(&b->plan);
    pare_lock_release(&lock);
    return s;
}
