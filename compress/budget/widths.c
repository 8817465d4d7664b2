/* The step `ziplm` with a speed: a width for the MLP of each block, by the errors of
 * prune/ziplm.h on the float model and the times of this machine, and the job of the recipe that it
 * comes to. */
#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_choose.h"
#include "compress/budget/widths_internal.h"
#include "compress/evaluate/token_time.h"
#include "compress/passes/ziplm_step.h"
#include "compress/text/text_out.h"
#include "compress/text/units.h"
#include "runtime/file.h"

static const double picoseconds = 1e12;

/* What else the step does not go with, the plan refuses. */
pare_status pare__widths_check(pare_budget *b)
{
    const pare_step *const step = pare__budget_step(&b->recipe);
    if (b->recipe.steps > 1)
        return pare_recipe_fail(b->cx, step->place, "%s", pare_search_alone);
    if (b->recipe.fallbacks)
        return pare_recipe_fail(b->cx, step->place,
                                "ziplm: with speedup or tokens_s it does not go with fallback, "
                                "whose settings are of passes that the search replaces; leave one "
                                "of them out");
    b->value = step->value;
    return PARE_OK;
}

/* Times are those of floats in the files. */
static pare_status check_model(const pare_budget *b)
{
    const pare_model *const m = &b->plan.model;
    for (size_t i = 0; i < m->config.blocks * PARE_ROLES; i++)
        if (m->block[i / PARE_ROLES].linear[i % PARE_ROLES].bits)
            return pare_recipe_fail(b->cx, b->recipe.step[0].place,
                                    "ziplm: speedup and tokens_s time weights as they are stored, "
                                    "and those of this model are quantized; give a ratio");
    return PARE_OK;
}

static pare_status begin(pare_budget *b, pare_widths *w)
{
    const pare_config *const c = &b->plan.model.config;
    *w = (pare_widths){.b = b, .blocks = c->blocks};
    for (size_t i = 0; i < PARE_WIDTHS_MOST; i++) {
        const size_t width =
            pare_part_kept(c->intermediate, (double)i / PARE_WIDTHS_MOST, PARE_CHANNELS_STEP);
        if (w->count == 0 || width < w->width[w->count - 1])
            w->width[w->count++] = width;
    }
    w->error = PARE_NEW(b->a, double, w->blocks * w->count);
    w->weight = PARE_NEW(b->a, double, w->blocks);
    return w->error && w->weight ? PARE_OK : PARE_ENOMEM;
}

static pare_status measure(pare_widths *w)
{
    bool known;
    PARE_TRY(pare__widths_read(w, &known));
    if (known)
        return PARE_OK;
    PARE_TRY(pare__widths_errors(w));
    PARE_TRY(pare__widths_times(w));
    return pare__widths_write(w);
}

/* Of all that is no MLP. */
static uint64_t rest_ps(const pare_widths *w)
{
    const uint64_t all = w->blocks * w->ps[0];
    return w->token_ps > all ? w->token_ps - all : 0;
}

static uint64_t token_of(const pare_widths *w, const size_t *choice)
{
    uint64_t ps = rest_ps(w);
    for (size_t b = 0; b < w->blocks; b++)
        ps += w->ps[choice[b]];
    return ps;
}

static double loss_of(const pare_widths *w, size_t block, size_t width)
{
    return w->weight[block] * w->error[block * w->count + width];
}

static double sum_of(const pare_widths *w, const size_t *choice)
{
    double sum = 0;
    for (size_t b = 0; b < w->blocks; b++)
        sum += loss_of(w, b, choice[b]);
    return sum;
}

/* Tokens in a second that the recipe asks for. */
static double asked(const pare_widths *w)
{
    const double speedup = w->b->value[PARE_ZIPLM_SPEEDUP];
    return speedup > 0 ? speedup * picoseconds / (double)w->token_ps
                       : w->b->value[PARE_ZIPLM_SPEED];
}

static pare_status fail_speed(const pare_widths *w, const char *why, double rate)
{
    char want[PARE_UNIT_TEXT], has[PARE_UNIT_TEXT];
    return pare_recipe_fail(w->b->cx, w->b->recipe.step[0].place,
                            "ziplm: %s tokens/s: %s %s, by the times in %s/" PARE_WIDTHS_FILE
                            " (without it they are measured anew)",
                            pare_units_rate(asked(w), want), why, pare_units_rate(rate, has),
                            w->b->store);
}

/* A width for each block, the least sum of losses in the time that is left for MLPs; blocks that
 * the step does not select keep theirs. */
static pare_status choose(const pare_widths *w, size_t *choice)
{
    pare_budget *const b = w->b;
    const uint64_t all = pare_time_at(asked(w)), rest = rest_ps(w);
    const uint64_t original = rest + w->blocks * w->ps[0];
    pare_budget_option *const option = PARE_NEW(b->a, pare_budget_option, w->blocks * w->count);
    uint64_t least = 0;
    if (!option)
        return PARE_ENOMEM;
    if (all >= original)
        return fail_speed(w, "nothing has to go, the original decodes about",
                          picoseconds / (double)original);
    for (size_t i = 0; i < w->blocks * w->count; i++) {
        const size_t block = i / w->count;
        const size_t width = b->plan.mlp_step[block] == SIZE_MAX ? 0 : i % w->count;
        option[i] = (pare_budget_option){w->ps[width], loss_of(w, block, width)};
    }
    const pare_status s = pare_budget_choose(b->cx, b->a, option, w->blocks, w->count,
                                             all > rest ? all - rest : 0, choice, &least);
    if (s == PARE_EINVAL) {
        pare_ctx_clear(b->cx);
        return fail_speed(w, "too many for MLPs to give; at the least widths it decodes about",
                          picoseconds / (double)(rest + least));
    }
    for (size_t i = 0; s == PARE_OK && i < w->blocks; i++)
        choice[i] = b->plan.mlp_step[i] == SIZE_MAX ? 0 : choice[i];
    return s;
}

/* The steps that the choice comes to. */
static pare_status make_recipe(pare_widths *w, const size_t *choice, const char *head,
                               const char **text)
{
    pare_budget *const b = w->b;
    pare_text_out t = {.cx = b->cx};
    for (size_t i = 1; i < w->count; i++) {
        size_t blocks = 0;
        for (size_t j = 0; j < w->blocks; j++)
            blocks += choice[j] == i;
        if (!blocks)
            continue;
        pare__text_put(&t, "  - ziplm: # %zu of %zu channels in %zu of %zu blocks\n", w->width[i],
                       w->width[0], blocks, w->blocks);
        pare__text_put(&t, "      ratio: %.12g\n      targets:\n",
                       1.0 - (double)w->width[i] / (double)w->width[0]);
        for (size_t j = 0; j < w->blocks; j++)
            if (choice[j] == i)
                pare__text_put(&t, "        - \"%s\"\n",
                               b->plan.model.block[j].linear[PARE_ROLE_DOWN].name);
    }
    char *const passes = t.status == PARE_OK ? pare_arena_text(b->a, t.text, t.len) : NULL;
    const pare_status s = t.status;
    pare__text_free(&t);
    PARE_TRY(s);
    return passes ? pare__budget_with_passes(b, &b->recipe, head, passes, text) : PARE_ENOMEM;
}

/* The one width for all that is fast enough, for comparison; false when there is none. */
static bool uniform(const pare_widths *w, size_t *choice, size_t *width)
{
    for (*width = 1; *width < w->count; (*width)++) {
        for (size_t b = 0; b < w->blocks; b++)
            choice[b] = w->b->plan.mlp_step[b] == SIZE_MAX ? 0 : *width;
        if (picoseconds / (double)token_of(w, choice) >= asked(w))
            return true;
    }
    return false;
}

/* What was chosen, in words: a comment of the recipe. */
static pare_status describe(const pare_widths *w, const size_t *choice, char *head, size_t size)
{
    size_t *const one = PARE_NEW(w->b->a, size_t, w->blocks), width;
    if (!one)
        return PARE_ENOMEM;
    const double original = picoseconds / (double)w->token_ps;
    int n =
        snprintf(head, size,
                 "# ziplm: %.4g tokens/s asked, %.4g predicted (%.2f times the original's "
                 "%.4g); summed error %.4g",
                 asked(w), picoseconds / (double)token_of(w, choice),
                 (double)w->token_ps / (double)token_of(w, choice), original, sum_of(w, choice));
    if (uniform(w, one, &width))
        n += snprintf(head + n, size - (size_t)n, ", %.4g with %zu channels in every block",
                      sum_of(w, one), w->width[width]);
    pare__budget_tell(w->b, "%s", head + 2);
    (void)snprintf(head + n, size - (size_t)n, "\n");
    return PARE_OK;
}

/* A token of a model of these shapes, told and kept for the report. */
static pare_status reach(pare_widths *w, const size_t *choice)
{
    pare_budget *const b = w->b;
    uint64_t ps;
    pare_speed *const speed = PARE_NEW(b->a, pare_speed, 1);
    if (!speed)
        return PARE_ENOMEM;
    PARE_TRY(pare__widths_token(w, choice, &ps));
    *speed = (pare_speed){.asked = asked(w),
                          .original = picoseconds / (double)w->token_ps,
                          .predicted = picoseconds / (double)token_of(w, choice),
                          .reached = picoseconds / (double)ps};
    b->speed = speed;
    const bool slower = speed->reached < speed->asked;
    pare__budget_tell(b, "%sziplm: %.4g tokens/s asked, %.4g measured with these widths%s",
                      slower ? "warning: " : "", speed->asked, speed->reached,
                      slower ? ": the machine is busier now, or was then" : "");
    return PARE_OK;
}

static pare_status search(pare_budget *b, pare_job_runner *runner, pare_compress_result *out)
{
    char head[512];
    const char *text;
    pare_widths w;
    b->plan_job = *b->job;
    PARE_TRY(pare__budget_plan(b, b->a, &b->plan_job, &b->plan));
    PARE_TRY(check_model(b));
    PARE_TRY(pare__budget_data(b));
    PARE_TRY(begin(b, &w));
    PARE_TRY(measure(&w));
    size_t *const choice = PARE_NEW(b->a, size_t, w.blocks);
    if (!choice)
        return PARE_ENOMEM;
    PARE_TRY(choose(&w, choice));
    PARE_TRY(describe(&w, choice, head, sizeof head));
    PARE_TRY(make_recipe(&w, choice, head, &text));
    if (b->job->restart || !pare_path_is_directory(b->output))
        PARE_TRY(reach(&w, choice));
    return pare__budget_run(b, runner, text, out);
}

pare_status pare__widths_search(pare_budget *b, pare_job_runner *runner, pare_compress_result *out)
{
    static const char *const own[] = {PARE_WIDTHS_FILE, NULL};
    PARE_TRY(pare__widths_check(b));
    PARE_TRY(pare__budget_check_rest(b));
    PARE_TRY(pare__budget_paths(b, PARE_WIDTHS_FILE));
    return pare__budget_locked(b, own, search, runner, out);
}
