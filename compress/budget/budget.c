#include "compress/budget/budget.h"

#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_choose.h"
#include "compress/budget/budget_internal.h"
#include "compress/output/output_swap.h"
#include "compress/passes/budget_step.h"
#include "runtime/file.h"

void pare__budget_range(const pare_budget *b, size_t block, size_t *begin, size_t *end)
{
    const size_t parts = b->plan.parts;
    *begin = b->plan.first[block * parts];
    *end = b->plan.first[(block + 1) * parts];
}

/* What the step does not go with. */
static pare_status check_recipe(pare_budget *b)
{
    const pare_step *const step = pare__budget_step(&b->recipe);
    if (b->recipe.steps > 1)
        return pare_recipe_fail(b->cx, step->place,
                                "budget: stands alone in passes: variants are made of the weights "
                                "as they are; leave the other passes out");
    if (b->recipe.fallbacks)
        return pare_recipe_fail(b->cx, step->place,
                                "budget: does not go with fallback, whose settings are of passes "
                                "that the search replaces; leave one of them out");
    if (step->value[PARE_BUDGET_BYTES] > 0 && step->value_place[PARE_BUDGET_BITS].line)
        return pare_recipe_fail(b->cx, step->value_place[PARE_BUDGET_BITS],
                                "budget: bits and bytes are both given; leave one of them out");
    if (step->value[PARE_BUDGET_SPEED] > 0 &&
        (step->value[PARE_BUDGET_BYTES] > 0 || step->value_place[PARE_BUDGET_BITS].line))
        return pare_recipe_fail(b->cx, step->value_place[PARE_BUDGET_SPEED],
                                "budget: tokens_s stands in place of bits or bytes; leave one of "
                                "them out");
    if (step->value[PARE_BUDGET_SPEED] > 0 &&
        (b->recipe.table[PARE_TABLE_EMBEDDINGS] || b->recipe.table[PARE_TABLE_HEAD]))
        return pare_recipe_fail(b->cx, step->value_place[PARE_BUDGET_SPEED],
                                "budget: tokens_s times the head as it is; leave out embeddings "
                                "and head, or take bits or bytes");
    b->value = step->value;
    return PARE_OK;
}

/* The base as a plan: which linears there are, and the windows held out. */
static pare_status make_plan(pare_budget *b)
{
    b->plan_job = (pare_job){.recipe = b->job->recipe,
                             .file = b->job->file,
                             .model = b->job->model,
                             .tokenizer = b->job->tokenizer,
                             .output = b->base,
                             .ram_limit = b->job->ram_limit,
                             .plan_only = b->job->plan_only,
                             .unlimited = b->job->unlimited};
    PARE_TRY(pare__budget_base_recipe(b, false, &b->base_text));
    PARE_TRY(pare__budget_base_recipe(b, true, &b->plan_job.text));
    PARE_TRY(pare__budget_plan(b, b->a, &b->plan_job, &b->plan));
    b->linears = b->plan.linears;
    b->blocks = b->plan.model.config.blocks;
    b->linear = b->plan.settled.linear;
    const size_t count = b->linears * b->settings;
    b->made = PARE_NEW(b->a, pare_budget_made, count);
    b->loss = PARE_NEW(b->a, double, count);
    b->layout = PARE_NEW(b->a, pare_packed_layout, b->settings);
    b->writer = PARE_NEW(b->a, pare_packed_writer *, b->settings);
    return b->made && b->loss && b->layout && b->writer ? pare__budget_pack(b) : PARE_ENOMEM;
}

/* The base, and every variant beside it; what an earlier run did stays. */
static pare_status run_base(pare_budget *b, pare_job_runner *runner, bool restart)
{
    const pare_variants variants = {.self = b,
                                    .bytes = pare__budget_store_bytes(b),
                                    .step = pare__budget_step(&b->recipe),
                                    .begin = pare__budget_store_begin,
                                    .linear = pare__budget_store_linear,
                                    .block = pare__budget_store_block};
    pare_job job = b->plan_job;
    pare_compress_result result;
    job.text = b->base_text;
    job.share = b->shared;
    job.variants = &variants;
    job.restart = restart;
    const bool there = pare_path_is_directory(b->base) && !restart; /* which is nothing to tell */
    const pare_status s = runner(b->cx, b->a, &job, there ? NULL : b->events, &result);
    pare__budget_store_close(b);
    return s == PARE_OK ? pare__budget_store_begin(b, b->blocks) : s;
}

/* Whether what lies in the place of the base is of pare, so that --restart makes it anew. */
static bool is_ours(const pare_budget *b)
{
    pare_output_place p;
    pare_owned_state state;
    return pare_output_place_make(b->a, PARE_OUTPUT_ARTIFACT, b->base, &p) == PARE_OK &&
           pare_owned_partial(b->cx, b->a, p.partial, p.kind, &state) == PARE_OK &&
           pare_output_place_check(b->cx, b->a, &p) == PARE_OK;
}

static pare_status refuse_variants(pare_budget *b)
{
    char why[sizeof b->cx->what];
    memcpy(why, b->cx->what, sizeof why);
    b->other = is_ours(b);
    const pare_status s = pare_fail(b->cx, PARE_EEXISTS, "%s", why);
    return b->other ? pare_fail_after(b->cx, s,
                                      "the variants of the search are those of another job, and "
                                      "--restart makes them anew")
                    : s;
}

static pare_status make_variants(pare_budget *b, pare_job_runner *runner)
{
    const pare_status s = run_base(b, runner, false);
    if (s == PARE_EEXISTS && b->job->restart) {
        pare__budget_tell(b, "the variants are made anew: %s", b->cx->what);
        pare_ctx_clear(b->cx);
        return run_base(b, runner, true);
    }
    return s == PARE_EEXISTS ? refuse_variants(b) : s;
}

/* KL of every setting: that of the probe, as the errors are to its own. */
static void estimate(pare_budget *b)
{
    for (size_t i = 0; i < b->linears; i++) {
        const pare_budget_made *const m = b->made + i * b->settings;
        for (size_t s = 0; s < b->settings; s++)
            b->loss[i * b->settings + s] =
                m[b->probe].error > 0 ? b->kl[i] * m[s].error / m[b->probe].error : 0;
    }
}

static uint64_t bytes_of(const pare_budget *b, const size_t *choice)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < b->linears; i++)
        bytes += pare__budget_bytes(b, choice[i], i);
    return bytes;
}

static bool by_speed(const pare_budget *b)
{
    return b->value[PARE_BUDGET_SPEED] > 0;
}

/* What there is a budget of. */
static uint64_t cost(const pare_budget *b, size_t setting, size_t linear)
{
    return by_speed(b) ? b->time[setting * b->linears + linear]
                       : pare__budget_bytes(b, setting, linear);
}

static uint64_t cost_of(const pare_budget *b, const size_t *choice)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < b->linears; i++)
        sum += cost(b, choice[i], i);
    return sum;
}

static double loss_of(const pare_budget *b, const size_t *choice)
{
    double loss = 0;
    for (size_t i = 0; i < b->linears; i++)
        loss += b->loss[i * b->settings + choice[i]];
    return loss;
}

static double weights(const pare_budget *b)
{
    double count = 0;
    for (size_t i = 0; i < b->linears; i++)
        count += (double)b->linear[i].packed.n * (double)b->linear[i].packed.k;
    return count;
}

static double bits_of(const pare_budget *b, const size_t *choice)
{
    return 8.0 * (double)bytes_of(b, choice) / weights(b);
}

/* Linears that engines fuse read the same input; o and down are alone with theirs. */
static bool fuses(const pare_budget *b)
{
    const double fused = b->value[PARE_BUDGET_FUSE];
    return fused == PARE_BUDGET_FUSED || (fused == PARE_BUDGET_FUSED_AUTO && b->recipe.exports > 0);
}

static bool is_same_unit(const pare_budget *b, size_t i, size_t j)
{
    const pare_plan_linear *const l = &b->linear[i], *const m = &b->linear[j];
    return fuses(b) && l->block == m->block && l->part == m->part &&
           pare_plan_site(&b->plan, l) == pare_plan_site(&b->plan, m);
}

/* unit[i] of each linear; returns how many there are. */
static size_t make_units(const pare_budget *b, size_t *unit)
{
    size_t units = 0;
    for (size_t i = 0; i < b->linears; i++) {
        unit[i] = units;
        for (size_t j = i; j-- > 0 && b->linear[j].block == b->linear[i].block;)
            if (is_same_unit(b, i, j)) {
                unit[i] = unit[j];
                break;
            }
        units += unit[i] == units;
    }
    return units;
}

/* A setting for each linear in `budget` bytes of planes, or time of a token. */
static pare_status choose(pare_budget *b, uint64_t budget, size_t *choice, uint64_t *least)
{
    size_t *const unit = PARE_NEW(b->a, size_t, b->linears);
    size_t *const chosen = PARE_NEW(b->a, size_t, b->linears);
    pare_budget_option *const option = PARE_NEW(b->a, pare_budget_option, b->linears * b->settings);
    if (!unit || !chosen || !option)
        return PARE_ENOMEM;
    const size_t units = make_units(b, unit);
    for (size_t i = 0; i < b->linears; i++)
        for (size_t s = 0; s < b->settings; s++) {
            pare_budget_option *const o = &option[unit[i] * b->settings + s];
            o->bytes += cost(b, s, i);
            o->loss += b->loss[i * b->settings + s];
        }
    PARE_TRY(pare_budget_choose(b->cx, b->a, option, units, b->settings, budget, chosen, least));
    for (size_t i = 0; i < b->linears; i++)
        choice[i] = chosen[unit[i]];
    return PARE_OK;
}

/* What all that is no plane of a linear takes, as far as the base tells. */
static uint64_t rest_bytes(const pare_budget *b)
{
    uint64_t planes = 0;
    for (size_t i = 0; i < b->linears; i++)
        planes += pare_packed_linear_bytes(&b->linear[i].packed).total;
    return b->plan.settled.packed_bytes - planes;
}

static bool by_bytes(const pare_budget *b)
{
    return b->value[PARE_BUDGET_BYTES] > 0;
}

/* Bytes of planes that the recipe allows, or time. */
static uint64_t allowed(const pare_budget *b)
{
    if (by_speed(b))
        return pare__budget_time_left(b);
    const uint64_t bytes = (uint64_t)b->value[PARE_BUDGET_BYTES], rest = rest_bytes(b);
    if (by_bytes(b))
        return bytes > rest ? bytes - rest : 0;
    return (uint64_t)(b->value[PARE_BUDGET_BITS] / 8.0 * weights(b));
}

/* A budget that nothing fits is told before anything is quantized. */
static pare_status check_budget(pare_budget *b)
{
    const pare_place place = b->recipe.step[0].place;
    size_t *const choice = PARE_NEW(b->a, size_t, b->linears);
    uint64_t least = 0;
    if (!choice)
        return PARE_ENOMEM;
    const pare_status s = choose(b, allowed(b), choice, &least);
    if (s != PARE_EINVAL)
        return s;
    pare_ctx_clear(b->cx);
    if (by_speed(b)) {
        PARE_TRY(choose(b, least, choice, NULL));
        return pare__budget_fail_speed(b, place, choice);
    }
    if (by_bytes(b))
        return pare_recipe_fail(b->cx, place,
                                "budget: %.0f bytes are too few for these linears: the least is "
                                "%llu, of which %llu are no weights of them",
                                b->value[PARE_BUDGET_BYTES],
                                (unsigned long long)(least + rest_bytes(b)),
                                (unsigned long long)rest_bytes(b));
    return pare_recipe_fail(b->cx, place,
                            "budget: %g bits per weight are too few for these linears: the least "
                            "is %.4f",
                            b->value[PARE_BUDGET_BITS], 8.0 * (double)least / weights(b));
}

pare_status pare__budget_check(pare_budget *b)
{
    PARE_TRY(check_recipe(b));
    PARE_TRY(pare__budget_check_rest(b));
    PARE_TRY(pare__budget_settings(b));
    PARE_TRY(make_plan(b));
    return by_speed(b) ? PARE_OK : check_budget(b);
}

static void set_all(const pare_budget *b, size_t setting, size_t *choice)
{
    for (size_t i = 0; i < b->linears; i++)
        choice[i] = setting;
}

/* The setting that does best everywhere in so many bytes; false when none fits. */
static bool best_uniform(const pare_budget *b, uint64_t budget, size_t *choice, size_t *best)
{
    bool found = false;
    double least = 0;
    for (size_t s = 0; s < b->settings; s++) {
        set_all(b, s, choice);
        if (cost_of(b, choice) > budget || (found && loss_of(b, choice) >= least))
            continue;
        least = loss_of(b, choice);
        *best = s;
        found = true;
    }
    set_all(b, *best, choice);
    return found;
}

/* What is left of the budget: the next larger setting for whole blocks, from the first on. Returns
 * how many got it. */
static size_t lift_uniform(const pare_budget *b, uint64_t budget, size_t *choice, size_t *next)
{
    size_t *const other = PARE_NEW(b->a, size_t, b->linears);
    const double loss = loss_of(b, choice);
    uint64_t fewest = UINT64_MAX;
    size_t lifted = 0;
    for (size_t s = 0; other && s < b->settings; s++) {
        set_all(b, s, other);
        if (cost_of(b, other) <= budget || loss_of(b, other) >= loss || cost_of(b, other) >= fewest)
            continue;
        fewest = cost_of(b, other);
        *next = s;
    }
    for (uint64_t used = cost_of(b, choice); fewest < UINT64_MAX && lifted < b->blocks; lifted++) {
        size_t begin, end;
        uint64_t more = 0;
        pare__budget_range(b, lifted, &begin, &end);
        for (size_t i = begin; i < end; i++)
            more += cost(b, *next, i) - cost(b, choice[i], i);
        if (more > budget - used)
            break;
        used += more;
        for (size_t i = begin; i < end; i++)
            choice[i] = *next;
    }
    return lifted;
}

/* Exact bytes of the files of a recipe. */
static pare_status file_bytes(pare_budget *b, const char *text, uint64_t *bytes)
{
    pare_job job = *b->job;
    pare_plan plan = {0};
    job.text = text;
    job.sets = NULL;
    job.set_count = 0;
    const pare_status s = pare__budget_plan(b, b->a, &job, &plan);
    *bytes = s == PARE_OK ? plan.settled.packed_bytes : 0;
    pare_plan_close(&plan);
    return s;
}

/* The choice, with names and headers of its files counted as they are. */
static pare_status choose_exactly(pare_budget *b, size_t *choice, uint64_t *budget)
{
    const uint64_t most = (uint64_t)b->value[PARE_BUDGET_BYTES];
    *budget = allowed(b);
    for (;;) {
        const char *text;
        uint64_t bytes;
        PARE_TRY(choose(b, *budget, choice, NULL));
        if (!by_bytes(b))
            return PARE_OK;
        PARE_TRY(pare__budget_recipe(b, choice, "", &text));
        PARE_TRY(file_bytes(b, text, &bytes));
        if (bytes <= most)
            return PARE_OK;
        *budget = *budget > bytes - most ? *budget - (bytes - most) : 0;
    }
}

/* What the choice is held against, in words: the best single setting that fits, and the next in as
 * many blocks as the rest of the budget has bytes for. Empty when none fits. */
static void make_uniform(const pare_budget *b, uint64_t budget, size_t *choice, char *text,
                         size_t size)
{
    size_t best = 0, next = 0;
    text[0] = '\0';
    if (!best_uniform(b, budget, choice, &best))
        return;
    const size_t lifted = lift_uniform(b, budget, choice, &next);
    if (lifted)
        (void)snprintf(text, size, "%s in %zu block%s and %s in %zu", b->setting[next].label,
                       lifted, pare_plural(lifted), b->setting[best].label, b->blocks - lifted);
    else
        (void)snprintf(text, size, "%s everywhere", b->setting[best].label);
}

/* Holds the choice against that; what has less KL stands in choice. */
static pare_status decide(pare_budget *b, uint64_t budget, size_t *choice, char *head, size_t size)
{
    size_t *const uniform = PARE_NEW(b->a, size_t, b->linears);
    char text[128];
    double kl, other = 0;
    if (!uniform)
        return PARE_ENOMEM;
    const double bits = bits_of(b, choice), expected = loss_of(b, choice);
    PARE_TRY(pare__budget_judge(b, choice, &kl));
    make_uniform(b, budget, uniform, text, sizeof text);
    if (*text)
        PARE_TRY(pare__budget_judge(b, uniform, &other));
    const bool worse = *text && other < kl;
    int n = snprintf(head, size,
                     "# budget: %.4f bits per weight; on windows held out the variants have KL "
                     "%.6f, %.6f by the estimate",
                     bits, kl, expected);
    if (*text)
        n += snprintf(head + n, size - (size_t)n, "; %s, %.4f bits: KL %.6f%s", text,
                      bits_of(b, uniform), other, worse ? ", which is less and was taken" : "");
    if (by_speed(b))
        n += snprintf(head + n, size - (size_t)n, "; %g tokens/s asked, %.2f predicted",
                      b->value[PARE_BUDGET_SPEED], pare__budget_rate(b, worse ? uniform : choice));
    pare__budget_tell(b, "%s", head + 2);
    (void)snprintf(head + n, size - (size_t)n, "\n");
    if (worse)
        memcpy(choice, uniform, b->linears * sizeof *choice);
    return PARE_OK;
}

static pare_status search(pare_budget *b, pare_job_runner *runner, pare_compress_result *out)
{
    char head[512];
    const char *text;
    uint64_t budget;
    PARE_TRY(make_plan(b));
    if (!by_speed(b))
        PARE_TRY(check_budget(b));
    PARE_TRY(pare__budget_data(b));
    PARE_TRY(make_variants(b, runner));
    if (by_speed(b)) {
        PARE_TRY(pare__budget_times(b));
        PARE_TRY(check_budget(b));
    }
    PARE_TRY(pare__budget_measure(b));
    estimate(b);
    PARE_TRY(pare__budget_table(b));
    size_t *const choice = PARE_NEW(b->a, size_t, b->linears);
    if (!choice)
        return PARE_ENOMEM;
    PARE_TRY(choose_exactly(b, choice, &budget));
    PARE_TRY(decide(b, budget, choice, head, sizeof head));
    pare__budget_store_close(b);
    const double predicted = by_speed(b) ? pare__budget_rate(b, choice) : 0;
    PARE_TRY(pare__budget_recipe(b, choice, head, &text));
    PARE_TRY(pare__budget_run(b, runner, text, out));
    return by_speed(b) && pare_path_is_directory(out->report.output)
               ? pare__budget_verify(b, out->report.output, predicted)
               : PARE_OK;
}

pare_status pare__budget_search(pare_budget *b, pare_job_runner *runner, pare_compress_result *out)
{
    static const char *const own[] = {"base", "base.partial", PARE_JOURNAL_NAME, NULL};
    PARE_TRY(check_recipe(b));
    PARE_TRY(pare__budget_check_rest(b));
    PARE_TRY(pare__budget_paths(b, "base"));
    PARE_TRY(pare__budget_settings(b));
    return pare__budget_locked(b, own, search, runner, out);
}
