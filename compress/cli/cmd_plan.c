#include <stdio.h>
#include <string.h>

#include "compress/budget/budget.h"
#include "compress/cli/job_options.h"
#include "compress/cli/plan_print.h"
#include "compress/output/lock.h"
#include "compress/output/owned_files.h"
#include "compress/plan/chain.h"
#include "compress/plan/plan_walks.h"
#include "compress/plan/recipe_home.h"
#include "compress/run/run_unfinished.h"

pare_status pare_job_read(pare_cli *cli, const pare_args *args, pare_job *out)
{
    pare_ctx *const cx = &cli->cx;
    const char **const sets = PARE_NEW(&cli->arena, const char *, PARE_ARGS_MAX);
    if (!sets)
        return PARE_ENOMEM;
    *out = (pare_job){
        .recipe = args->operand[0],
        .model = pare_args_text(args, "model"),
        .output = pare_args_text(args, "output"),
        .tokenizer = pare_args_text(args, "tokenizer"),
        .sets = sets,
        .set_count = pare_args_texts(args, "set", sets),
        .restart = pare_args_given(args, "restart"),
    };
    if (pare_path_is_directory(out->recipe))
        return pare_fail(cx, PARE_EUSAGE, "%s: is a directory, expected a recipe", out->recipe);
    if (!pare_path_is_file(out->recipe))
        return pare_fail(cx, PARE_EUSAGE, "%s: there is no such recipe", out->recipe);
    return pare_args_bytes(cx, args, "ram-limit", &out->ram_limit);
}

pare_status pare_job_device(pare_cli *cli, const pare_args *args)
{
    const char *const device = pare_args_text(args, "device");
    if (!device || strcmp(device, "cpu") == 0)
        return PARE_OK;
    return pare_fail(&cli->cx, PARE_EUSAGE,
                     "--device \"%s\": pare compresses on the CPU only; leave --device out. "
                     "To evaluate on a GPU, say device: cuda or auto in an entry of evaluate:",
                     device);
}

/* Which of two jobs a plan is of. */
static void print_part(const pare_plan *p)
{
    if (p->job->part == PARE_JOB_SMALLER)
        (void)printf("first of two jobs: a smaller checkpoint\n\n");
    else if (p->job->stand_in)
        (void)printf("\nsecond of two jobs: on the smaller checkpoint, which is not there yet; "
                     "here on the whole model,\nso that this is the most that it can take\n\n");
    else if (p->job->part == PARE_JOB_REST)
        (void)printf("\nsecond of two jobs: on the smaller checkpoint\n\n");
}

/* How compress would end, as far as a plan tells. */
typedef struct plan_end {
    pare_status refused; /* the status with which it refuses what lies there; else PARE_OK */
    bool infeasible;     /* it writes nothing for certain, and no fallback can */
} plan_end;

/* Of the jobs of a recipe. */
typedef struct plans {
    pare_chain chain;
    pare_plan plan[2];
    pare_plan_estimate time[2];
    plan_end end[2];
    pare_fallback_size *size; /* of the last, which alone has fallbacks */
} plans;

/* What compress would refuse of what lies there, in its order: something in the place of the lock,
 * or of the work, that pare does not touch; the same of exports; then work of another recipe. What
 * a search, or a fallback, left may be of settings that the recipe does not name. */
static pare_status check_places(pare_cli *cli, const pare_plan *plan)
{
    const pare_job *const job = plan->job;
    const pare_output_place *const place = &plan->place;
    pare_owned_state state;
    bool searches;
    PARE_TRY(pare_lock_check(&cli->cx, &cli->arena, place->output));
    PARE_TRY(pare_owned_partial(&cli->cx, &cli->arena, place->partial, place->kind, &state));
    PARE_TRY(pare_plan_export_taken(&cli->cx, &cli->arena, plan));
    PARE_TRY(pare_budget_asked(&cli->cx, &cli->arena, job, &searches));
    if (job->restart || searches || plan->recipe.fallbacks)
        return PARE_OK;
    return pare_unfinished_check(&cli->cx, &cli->arena, place->partial, &plan->recipe);
}

static pare_status look_at_places(pare_cli *cli, pare_plan *plan, plan_end *end)
{
    const pare_status s = check_places(cli, plan);
    if (s != PARE_EEXISTS && s != PARE_ENOTSUP)
        return s;
    end->refused = s;
    plan->refused = pare_arena_text(&cli->arena, cli->cx.what, strlen(cli->cx.what));
    pare_ctx_clear(&cli->cx);
    return plan->refused ? PARE_OK : PARE_ENOMEM;
}

/* What the last job may come to. The time is of the first attempt that runs. */
static pare_status take_fallbacks(pare_cli *cli, plans *p, size_t last)
{
    const pare_job *const job = &p->chain.job[last];
    const pare_recipe *const r = &p->plan[last].recipe;
    pare_settled *const settled = &p->plan[last].settled;
    const pare_fallback_size *first = NULL;
    pare_gate verdict;
    PARE_TRY(pare_plan_fallback_sizes(&cli->cx, &cli->arena, job, r, &p->size));
    PARE_TRY(pare_gate_of_bytes(&cli->arena, r, settled->packed_bytes, &verdict));
    const bool infeasible = verdict.kind == PARE_GATE_INFEASIBLE &&
                            !pare_plan_known_once(&p->plan[last]); /* nobody runs it */
    pare_plan_fallback_most(p->size, r->fallbacks, infeasible, &settled->memory.anonymous_bytes,
                            &settled->disk_bytes);
    if (infeasible)
        first = pare_plan_fallback_first(p->size, r->fallbacks);
    p->end[last].infeasible = infeasible && !first;
    return first ? pare_plan_fallback_time(&cli->cx, job, &r->fallback[first - p->size],
                                           &p->time[last])
                 : pare_plan_time(&cli->cx, &p->plan[last], &p->time[last]);
}

/* As the first of the jobs that would not be done. */
static pare_status end_as_run(pare_cli *cli, const plans *p)
{
    for (size_t i = 0; i < p->chain.jobs; i++) {
        const plan_end *const end = &p->end[i];
        if (end->infeasible) {
            cli->refused = true;
            return PARE_OK;
        }
        if (end->refused != PARE_OK)
            return pare_fail(&cli->cx, end->refused, "compress would refuse: %s",
                             p->plan[i].refused);
    }
    return PARE_OK;
}

/* In turn: what the first leaves counts for the second. What lies there compress looks at behind
 * the bytes, and not where it is to write nothing. */
static pare_status make_plans(pare_cli *cli, plans *p)
{
    const size_t last = p->chain.jobs - 1;
    for (size_t i = 0; i < p->chain.jobs; i++) {
        pare_plan *const plan = &p->plan[i];
        PARE_TRY(pare_budget_check(&cli->cx, &cli->arena, &p->chain.job[i]));
        PARE_TRY(pare_plan_make(&cli->cx, &cli->arena, &p->chain.job[i], plan));
        PARE_TRY(i == last ? take_fallbacks(cli, p, last)
                           : pare_plan_time(&cli->cx, plan, &p->time[i]));
        if (!p->end[i].infeasible)
            PARE_TRY(look_at_places(cli, plan, &p->end[i]));
        if (i < last)
            p->chain.job[i + 1].left = pare_plan_leaves(plan);
    }
    return PARE_OK;
}

static pare_status print_plans(pare_cli *cli, const plans *p, bool all)
{
    if (cli->json)
        return pare__plan_print_json(cli, p->plan, p->time, p->chain.jobs, p->size);
    for (size_t i = 0; i < p->chain.jobs; i++) {
        print_part(&p->plan[i]);
        PARE_TRY(pare__plan_print_text(&cli->arena, &p->plan[i], &p->time[i], p->size, all));
    }
    return PARE_OK;
}

pare_status pare_plan_run(pare_cli *cli, const pare_args *args)
{
    pare_job job;
    plans p = {.size = NULL};
    PARE_TRY(pare_job_device(cli, args));
    PARE_TRY(pare_job_read(cli, args, &job));
    job.strict = pare_args_given(args, "strict");
    job.plan_only = true;
    PARE_TRY(pare_recipe_go_home(&cli->cx, &cli->arena, &job));
    PARE_TRY(pare_cli_threads(cli));
    pare_status s = pare_chain_make(&cli->cx, &cli->arena, &job, &p.chain);
    if (s == PARE_OK)
        s = pare_chain_check(&cli->cx, &p.chain);
    if (s == PARE_OK)
        s = make_plans(cli, &p);
    if (s == PARE_OK)
        s = print_plans(cli, &p, pare_args_given(args, "all"));
    if (s == PARE_OK)
        s = end_as_run(cli, &p);
    pare_plan_close(&p.plan[1]);
    pare_plan_close(&p.plan[0]);
    return s;
}
