#include "compress/plan/chain.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "compress/plan/chain_part.h"
#include "compress/plan/fallback.h"
#include "compress/plan/fallback_sizes.h"
#include "compress/plan/job_paths.h"
#include "prune/slicegpt.h"
#include "runtime/file.h"

static bool same_lead(const pare_recipe *one, const pare_recipe *other, size_t lead)
{
    bool same = pare_chain_lead(other) == lead;
    for (size_t i = 0; same && i < lead; i++)
        same = one->step[i].pass == other->step[i].pass &&
               memcmp(one->step[i].value, other->step[i].value, sizeof one->step[i].value) == 0;
    return same;
}

/* Attempts share what the first passes made. */
static pare_status check_fallbacks(pare_ctx *cx, pare_arena *a, const pare_job *job,
                                   pare_recipe_source source, const pare_pass_words *words,
                                   const pare_recipe *r, size_t lead)
{
    for (size_t i = 0; i < r->fallbacks; i++) {
        pare_job attempt;
        pare_recipe other;
        PARE_TRY(pare_job_fallback(a, job, &r->fallback[i], &attempt));
        source.sets = attempt.sets;
        source.set_count = attempt.set_count;
        PARE_TRY(pare_recipe_parse(cx, a, &source, words, pare_pass_count(), &other));
        if (!same_lead(r, &other, lead))
            return pare_recipe_fail(cx, r->fallback[i].item[0].place,
                                    "a fallback changes what comes behind the smaller model; %s "
                                    "makes that model, and stays as it is",
                                    pare_passes[r->step[0].pass]->name);
    }
    return PARE_OK;
}

static pare_status take_jobs(pare_ctx *cx, pare_arena *a, const pare_job *job, const pare_recipe *r,
                             pare_chain *out)
{
    const pare_job_path model = {job->recipe, "model", job->model, &r->model},
                        output = {job->recipe, "output", job->output, &r->output};
    char *whole;
    PARE_TRY(pare_job_path_pick(cx, a, &model, &out->model));
    PARE_TRY(pare_job_path_pick(cx, a, &output, &whole));
    const size_t len = strlen(whole) + sizeof PARE_CHAIN_SMALLER;
    char *const smaller = pare_arena_take(a, len, 1);
    if (!smaller)
        return PARE_ENOMEM;
    (void)snprintf(smaller, len, "%s" PARE_CHAIN_SMALLER, whole);
    pare_job *const first = &out->job[0], *const rest = &out->job[1];
    out->jobs = 2;
    *first = *rest = *job;
    first->part = PARE_JOB_SMALLER;
    first->output = smaller;
    rest->part = PARE_JOB_REST;
    rest->stand_in = job->plan_only && !pare_path_is_directory(smaller);
    rest->model = rest->stand_in ? out->model : smaller;
    rest->original = r->original.text ? NULL : out->model;
    return PARE_OK;
}

static pare_status find_jobs(pare_ctx *cx, pare_arena *scratch, pare_arena *a, const pare_job *job,
                             pare_chain *out)
{
    const pare_pass_words *words;
    pare_recipe_source source = {pare_job_file(job), NULL, 0, job->sets, job->set_count};
    pare_recipe r;
    char *text;
    PARE_TRY(pare_job_read_recipe(cx, scratch, job->recipe, job->text, &text, &source.len));
    source.text = text;
    PARE_TRY(pare_pass_words_take(scratch, &words));
    PARE_TRY(pare_recipe_parse(cx, scratch, &source, words, pare_pass_count(), &r));
    const size_t lead = pare_chain_lead(&r);
    if (!lead)
        return PARE_OK;
    PARE_TRY(check_fallbacks(cx, scratch, job, source, words, &r, lead));
    return take_jobs(cx, a, job, &r, out);
}

pare_status pare_chain_make(pare_ctx *cx, pare_arena *a, const pare_job *job, pare_chain *out)
{
    pare_arena scratch = {.cx = cx};
    *out = (pare_chain){.job = {*job}, .jobs = 1};
    const pare_status s = find_jobs(cx, &scratch, a, job, out);
    pare_arena_release(&scratch);
    return s;
}

/* That quantizers take the linears as a configuration has them. What is wrong is in *cx. */
static pare_status check_linears(pare_ctx *cx, const pare_plan *rest, const pare_config *c,
                                 const pare_plan_linear **failed)
{
    pare_packed_linear packed;
    size_t n, k;
    for (size_t i = 0; i < rest->linears; i++) {
        const pare_plan_linear *const l = *failed = &rest->linear[i];
        const pare_step *const step = &rest->recipe.step[l->step];
        if (!l->quantized || l->block >= c->blocks)
            continue;
        pare_block_shape(c, l->block, l->part, l->role, &n, &k);
        PARE_TRY(pare_pass_store(cx, pare_passes[step->pass], step->value, n, k, &packed));
    }
    return PARE_OK;
}

/* The ratio nearest to that of the recipe with which as many directions stay as quantizers take;
 * 0: there is none. Rounded up, as fewer that stay are rounded up again. */
static double ratio_that_does(pare_ctx *cx, const pare_plan *first, const pare_plan *rest)
{
    const size_t all = first->model.config.hidden, is = first->out.hidden;
    const size_t step = pare_slicegpt_multiple(&first->model.config);
    const pare_plan_linear *failed;
    pare_config c = first->out;
    for (size_t by = step; by < all; by += step)
        for (int up = 0; up < 2; up++) {
            if (up ? is + by >= all : is <= by)
                continue;
            c.hidden = up ? is + by : is - by;
            const pare_status s = check_linears(cx, rest, &c, &failed);
            pare_ctx_clear(cx);
            if (s == PARE_OK)
                return ceil((double)(all - c.hidden) / (double)all * 1e4) / 1e4;
        }
    return 0;
}

/* The smaller model that is not there yet: widths that a quantizer cannot have. */
static pare_status check_quantizers(pare_ctx *cx, const pare_plan *first, const pare_plan *rest)
{
    const pare_plan_linear *l = NULL;
    char reason[sizeof cx->what], instead[64] = "";
    const pare_status s = check_linears(cx, rest, &first->out, &l);
    if (s != PARE_ESHAPE && s != PARE_EINVAL)
        return s;
    const pare_step *const step = &rest->recipe.step[l->step];
    const char *const smaller = pare_passes[first->recipe.step[0].pass]->name;
    memcpy(reason, cx->what, sizeof reason);
    pare_ctx_clear(cx);
    const double ratio =
        first->out.hidden < first->model.config.hidden ? ratio_that_does(cx, first, rest) : 0;
    if (ratio > 0)
        (void)snprintf(instead, sizeof instead, ", or take ratio: %g in %s", ratio, smaller);
    return pare_recipe_fail(cx, step->place, "%s: %s, as %s leaves it: %s%s",
                            pare_passes[step->pass]->name, l->packed.name, smaller, reason,
                            instead);
}

/* The same for exports, and both. */
static pare_status check_smaller(pare_ctx *cx, pare_arena *a, const pare_chain *chain,
                                 const pare_plan *rest)
{
    pare_job first = chain->job[0];
    pare_plan plan = {0};
    first.plan_only = first.unlimited = true;
    pare_status s = pare_plan_make(cx, a, &first, &plan);
    if (s == PARE_OK)
        s = check_quantizers(cx, &plan, rest);
    for (size_t i = 0; s == PARE_OK && i < rest->exports; i++) {
        s = pare_export_check_widths(cx, rest->export[i].target, &plan.out);
        if (s != PARE_OK) {
            (void)pare_recipe_fail_at(cx, s, rest->recipe.export[i].place);
            s = PARE_EUSAGE;
        }
    }
    pare_plan_close(&plan);
    return s;
}

pare_status pare_chain_check(pare_ctx *cx, const pare_chain *chain)
{
    pare_job rest = chain->job[chain->jobs - 1];
    pare_arena a = {.cx = cx};
    pare_plan plan = {0};
    pare_fallback_size *size;
    if (chain->jobs < 2)
        return PARE_OK;
    void (*const warn_of)(void *self, const char *text) = cx->progress.warn;
    cx->progress.warn = NULL; /* the jobs say it */
    rest.plan_only = rest.unlimited = true;
    if (rest.restart || !pare_path_is_directory(rest.model)) {
        rest.model = chain->model;
        rest.stand_in = true;
    }
    pare_status s = pare_plan_make(cx, &a, &rest, &plan);
    if (s == PARE_OK)
        s = pare_plan_fallback_sizes(cx, &a, &rest, &plan.recipe, &size);
    pare_plan_close(&plan); /* before another is opened: both may hold decoded weights on disk */
    if (s == PARE_OK && rest.stand_in)
        s = check_smaller(cx, &a, chain, &plan);
    cx->progress.warn = warn_of;
    pare_arena_release(&a);
    return s;
}
