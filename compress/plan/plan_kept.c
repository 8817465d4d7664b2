/* Statistics out of a file: what the planner takes from it, and which steps cannot do with it. */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output/output.h"
#include "compress/plan/calibration_need.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_walks.h"
#include "formats/hash.h"
#include "runtime/file.h"

/* Another model altogether is refused before its bytes are looked at. */
static pare_status check_shape(pare_ctx *cx, const pare_plan *plan, const pare_stats_about *about)
{
    const pare_config *const c = &plan->model.config;
    if (strcmp(about->family, c->arch->model_type) == 0 && about->blocks == c->blocks &&
        about->hidden == c->hidden && about->experts == c->experts)
        return PARE_OK;
    return pare_fail(cx, PARE_EFORMAT,
                     "%s: statistics of another model: of family %s with %zu blocks, width %zu and "
                     "%zu experts, not %s with %zu, %zu and %zu",
                     plan->kept.path, about->family, about->blocks, about->hidden, about->experts,
                     c->arch->model_type, c->blocks, c->hidden, c->experts);
}

/* So is one whose configuration has other bytes, such as the same model in other codes. */
static pare_status check_configuration(pare_ctx *cx, const pare_plan *plan,
                                       const pare_stats_about *about)
{
    const pare_file *const config = &plan->checkpoint.config_file;
    const char *const there = about->files ? about->file[about->files - 1] : "";
    const size_t len = strlen(there);
    char here[PARE_XXH3_HEX];
    uint8_t xxh3[1][16];
    if (!config->data)
        return PARE_OK;
    PARE_TRY(pare_xxh3_files(cx, "reading the model", config, 1, xxh3));
    pare_xxh3_text(xxh3[0], here);
    if (len >= PARE_XXH3_HEX && strcmp(there + len - (PARE_XXH3_HEX - 1), here) == 0)
        return PARE_OK;
    return pare_fail(cx, PARE_EFORMAT,
                     "%s: statistics of another model: model: \"%s\" there, whose configuration "
                     "here is %s; take those of this model",
                     plan->kept.path, there, here);
}

/* The file stands for the calibration that it was made with. */
static pare_status adopt(pare_ctx *cx, pare_plan *plan)
{
    const pare_stats_about *const about = &plan->kept.about;
    pare_calibration *const c = &plan->recipe.calibration;
    const bool loss = strcmp(about->token_weights, pare_token_weighing_name(PARE_TOKENS_LOSS)) == 0;
    const bool bf16 = strcmp(about->precision, pare_precision_name(PARE_PRECISION_BF16)) == 0;
    const bool rtn = strcmp(about->cold, pare_cold_policy_name(PARE_COLD_RTN)) == 0;
    enum { COLD = 2 }; /* says nothing of a model without experts */
    const char *const words[][2] = {
        {about->token_weights,
         pare_token_weighing_name(loss ? PARE_TOKENS_LOSS : PARE_TOKENS_EVEN)},
        {about->precision, pare_precision_name(bf16 ? PARE_PRECISION_BF16 : PARE_PRECISION_F32)},
        {about->cold, pare_cold_policy_name(rtn ? PARE_COLD_RTN : PARE_COLD_FILL)}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(words[i][0], words[i][1]) != 0 && (i < COLD || about->experts))
            return pare_fail(
                cx, PARE_EFORMAT,
                "%s: settings: \"%s\" is none that this version of pare knows; keep the "
                "statistics anew",
                plan->kept.path, words[i][0]);
    c->samples = about->samples;
    c->window = about->window;
    c->window_given = true;
    c->window_place = c->samples_place = c->from.place;
    c->token_weights = loss ? PARE_TOKENS_LOSS : PARE_TOKENS_EVEN;
    c->precision = bf16 ? PARE_PRECISION_BF16 : PARE_PRECISION_F32;
    c->min_tokens = about->min_tokens;
    c->cold = rtn ? PARE_COLD_RTN : PARE_COLD_FILL;
    return PARE_OK;
}

/* An importance matrix says how much of its text was seen, and nothing of the model. */
static pare_status adopt_imatrix(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_mark mark = pare_arena_mark(a);
    pare_imatrix m;
    const pare_status s = pare_imatrix_open(cx, a, plan->kept.path, &m);
    const size_t chunks = m.chunks, chunk = m.chunk, context = plan->model.config.context;
    const size_t window = context && context < chunk ? context : chunk;
    pare_imatrix_close(&m);
    pare_arena_rewind(a, mark);
    PARE_TRY(s);
    plan->kept.imatrix = true;
    plan->kept.about =
        (pare_stats_about){.samples = (size_t)((uint64_t)chunks * chunk / window),
                           .window = window,
                           .fresh = (uint64_t)chunks * chunk,
                           .tokens_sha256 = "",
                           .token_weights = pare_token_weighing_name(PARE_TOKENS_EVEN),
                           .precision = pare_precision_name(PARE_PRECISION_F32),
                           .cold = pare_cold_policy_name(PARE_COLD_FILL)};
    return adopt(cx, plan);
}

pare_status pare__plan_kept_open(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_calibration *const c = &plan->recipe.calibration;
    const pare_text *const file = c->from.text ? &c->from : &c->keep;
    if (!file->text)
        return PARE_OK;
    pare_path_kind kind;
    struct stat st;
    plan->kept.made = c->keep.text != NULL;
    char *const directory = pare_path_directory(a, plan->job->recipe);
    plan->kept.path = directory ? pare_path_join(a, directory, file->text) : NULL;
    if (!plan->kept.path)
        return PARE_ENOMEM;
    PARE_TRY(pare_path_look(cx, plan->kept.path, &kind));
    if (kind == PARE_PATH_DIRECTORY || kind == PARE_PATH_OTHER)
        return pare_recipe_fail(cx, file->place, "%s: is no regular file", plan->kept.path);
    if (kind == PARE_PATH_ABSENT && lstat(plan->kept.path, &st) == 0)
        return pare_recipe_fail(cx, file->place, "%s: is a link to nothing; name a file",
                                plan->kept.path);
    if (plan->kept.made)
        return PARE_OK;
    if (kind == PARE_PATH_ABSENT)
        return pare_recipe_fail(cx, file->place,
                                "%s: no such file; \"keep: %s\" beside the data of a calibration "
                                "makes one, and a path in a recipe is relative to the recipe",
                                plan->kept.path, file->text);
    if (pare_imatrix_is_one(plan->kept.path))
        return adopt_imatrix(cx, a, plan);
    const pare_status s = pare_stats_file_about(cx, a, plan->kept.path, &plan->kept.about);
    if (s == PARE_EFORMAT && !pare_stats_file_begins(plan->kept.path))
        return pare_fail_after(cx, s,
                               "nor does it begin as an importance matrix of llama.cpp (GGUF, or "
                               "the older kind); \"from\" reads these two");
    PARE_TRY(s);
    PARE_TRY(check_shape(cx, plan, &plan->kept.about));
    PARE_TRY(check_configuration(cx, plan, &plan->kept.about));
    return adopt(cx, plan);
}

/* --- a file that the job makes -----------------------------------------------------------------
 */

/* Whether the file, or the one that it is written to first, is in `directory`, or in its place. */
static bool is_in(const char *const path[2], const char *directory)
{
    bool in = false;
    for (size_t i = 0; i < 2; i++)
        in |= pare_output_lies_in(path[i], directory) || pare_output_lies_in(directory, path[i]);
    return in;
}

static pare_status check_directories(pare_ctx *cx, const pare_plan *plan, const char *partial,
                                     const char *const *directory, size_t count)
{
    const char *const path[2] = {plan->kept.path, partial};
    for (size_t i = 0; i < count; i++)
        if (is_in(path, directory[i]))
            return pare_recipe_fail(cx, plan->recipe.calibration.keep.place,
                                    "%s: would lie in %s, or in its place, where only files of "
                                    "that model belong; keep statistics in another folder",
                                    path[0], directory[i]);
    return PARE_OK;
}

const char *pare_plan_nan(const pare_plan *plan)
{
    static const char *const nan[] = {
        [PARE_NAN_ERROR] = "error", [PARE_NAN_CLAMP] = "clamp", [PARE_NAN_ZERO] = "zero"};
    return nan[plan->recipe.nan];
}

void pare_plan_kept_asks(const pare_plan *plan, const pare_settled *settled, char seed[24],
                         pare_stats_about *out)
{
    const pare_recipe *const r = &plan->recipe;
    (void)snprintf(seed, 24, "%llu", (unsigned long long)r->seed);
    out->nan = pare_plan_nan(plan);
    out->samples = settled->samples;
    out->window = plan->window;
    out->seed = seed;
    out->precision = pare_plan_precision(plan);
    out->token_weights =
        pare_token_weighing_name(plan->token_weights ? PARE_TOKENS_LOSS : PARE_TOKENS_EVEN);
    out->cold = pare_cold_policy_name(r->calibration.cold);
    out->min_tokens = (size_t)pare_plan_min_tokens(plan, settled);
}

pare_status pare_plan_kept_fail(pare_ctx *cx, const pare_plan *plan, const char *what,
                                char values[2][128])
{
    return pare_fail(cx, PARE_EEXISTS,
                     "%s: statistics that were kept for another job: %s: \"%s\" there, \"%s\" "
                     "here; give \"keep\" another name, or remove the file",
                     plan->kept.path, what, values[0], values[1]);
}

static const char other_name[] = "give \"keep\" another name, or remove the file";

pare_status pare_plan_kept_read(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                pare_stats_about *found)
{
    const pare_status s = pare_stats_file_about(cx, a, plan->kept.path, found);
    return plan->kept.made && (s == PARE_EFORMAT || s == PARE_ENOTSUP)
               ? pare_fail_after(cx, s, "%s", other_name)
               : s;
}

/* One that is there: the tokens and the bytes of the model are looked at when the job runs. */
pare_status pare__plan_kept_look(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    pare_stats_about found;
    char values[2][128], seed[24];
    if (!plan->kept.used || !plan->kept.made || plan->settled.finished ||
        !pare_path_is_file(plan->kept.path))
        return PARE_OK;
    pare_status s = pare_plan_kept_read(cx, a, plan, &found);
    if (s == PARE_OK && check_shape(cx, plan, &found) != PARE_OK)
        s = pare_fail_after(cx, PARE_EFORMAT, "%s", other_name);
    if (s != PARE_OK)
        return s;
    pare_stats_about own = found;
    pare_plan_kept_asks(plan, &plan->settled, seed, &own);
    /* What the job will know when it has read the text. */
    if (!own.samples || plan->recipe.calibration.min_tokens == 0)
        own.min_tokens = found.min_tokens;
    if (!own.samples)
        own.samples = found.samples;
    const char *const what = pare_stats_about_differ(&found, &own, values);
    return what ? pare_plan_kept_fail(cx, plan, what, values) : PARE_OK;
}

pare_status pare__plan_kept_place(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    if (!plan->kept.made)
        return PARE_OK;
    char *const partial = pare_path_suffix(a, plan->kept.path, ".partial");
    if (!partial)
        return PARE_ENOMEM;
    const char *const own[] = {plan->place.output, plan->place.partial, plan->place.replaced,
                               plan->model_path};
    PARE_TRY(check_directories(cx, plan, partial, own, sizeof own / sizeof *own));
    for (size_t i = 0; i < plan->exports; i++) {
        const pare_plan_export *const x = &plan->export[i];
        pare_export_place p;
        PARE_TRY(pare_export_place_find(cx, a, plan->model_path, x->path, x->target->kind, &p));
        const char *const export[] = {x->path, p.at.output, p.at.partial};
        PARE_TRY(check_directories(cx, plan, partial, export, sizeof export / sizeof *export));
    }
    return PARE_OK;
}

/* What a step needs beside statistics, or NULL. */
static const char *needs_more(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    const unsigned facts = pass->needs | (pass->asks ? pass->asks(s->value) : 0);
    if (pass->structure)
        return "takes out what passes of the calibration over the model tell";
    if (pass->rotation)
        return "changes the basis that inputs are measured in";
    if (pass->training)
        return "trains on activations";
    if (strcmp(pass->name, "budget") == 0)
        return "measures variants on activations";
    if (pass->transform && pass->transform->block)
        return "optimizes on activations";
    if (facts & PARE_FACT_DRIFT)
        return "with correct goes by how inputs move while linears are compressed";
    if (facts & PARE_FACT_HELD)
        return "with tune needs statistics of windows held out, which are not kept";
    if (pass->sequential && pass->sequential(s->value))
        return "with true_sequential goes by the inputs behind compressed linears";
    if (pare_plan_ratios(plan, step).rule == PARE_RATIOS_SEARCH)
        return "with ratios: search looks at activations of the float model";
    if (pare_plan_draws(plan, step) > 1)
        return "with stability looks at parts of the calibration";
    return pass->columns && plan->model.config.experts
               ? "chooses columns of experts by all that reaches them"
               : NULL;
}

/* What a step needs beside the sizes of columns, or NULL. */
static const char *needs_more_than_sizes(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass *const pass = pare_passes[s->pass];
    const unsigned facts = pare__plan_facts(s);
    if (pare_pass_transforms(pass))
        return "transforms inputs by more than the sizes of their columns";
    if (facts & (PARE_FACT_CHANNELS | PARE_FACT_SAMPLE))
        return "with activations: int8_tensor or nvfp4 needs ranges of inputs";
    if ((facts & PARE_FACT_HESSIAN) && !pass->diagonal)
        return "needs the whole Hessian";
    return pare_plan_ratios(plan, step).rule != PARE_RATIOS_UNIFORM
               ? "with ratios looks at the Hessians of all blocks"
               : NULL;
}

/* Every linear that a step quantizes or prunes by its inputs is there, with as many columns. */
static pare_status check_imatrix(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    const pare_mark mark = pare_arena_mark(a);
    const pare_imatrix_entry *entry;
    pare_imatrix m;
    for (size_t step = 0; step < plan->recipe.steps; step++) {
        const char *const why = needs_more_than_sizes(plan, step);
        const pare_step *const s = &plan->recipe.step[step];
        if (why)
            return pare_recipe_fail(cx, s->place,
                                    "%s %s, and an importance matrix has the sizes of columns "
                                    "alone; rtn with clip: weighted, squeezellm, wanda and ria "
                                    "work with it",
                                    pare_passes[s->pass]->name, why);
    }
    if (plan->model.config.experts)
        return pare_recipe_fail(cx, plan->recipe.calibration.from.place,
                                "%s: pare reads no importance matrices of mixtures of experts",
                                plan->kept.path);
    pare_status s = pare_imatrix_open(cx, a, plan->kept.path, &m);
    for (size_t i = 0; s == PARE_OK && i < plan->linears; i++) {
        if (!plan->linear[i].calibrated)
            continue;
        s = pare_imatrix_find(&m, plan->model.config.arch->model_type, plan->linear[i].packed.name,
                              plan->linear[i].packed.k, &entry);
        s = s == PARE_OK ? pare_imatrix_check(&m, entry) : s;
    }
    pare_imatrix_close(&m);
    pare_arena_rewind(a, mark);
    return s;
}

/* Whether a step shifts inputs whose Hessians some step reads. */
static bool shifts(const pare_plan *plan, size_t step)
{
    const pare_step *const s = &plan->recipe.step[step];
    const pare_pass_transform *const transform = pare_passes[s->pass]->transform;
    bool any = false;
    for (size_t i = 0; i < plan->transforms; i++)
        any |= plan->transform[i].step == step &&
               (plan->kinds[plan->transform[i].site] & PARE_STATS_HESSIAN);
    return any && (transform->folds(s->value) & PARE_FOLDS_SHIFT);
}

static pare_status check_step(pare_ctx *cx, const pare_plan *plan, size_t step)
{
    const pare_place place = plan->recipe.step[step].place;
    const char *const name = pare_passes[plan->recipe.step[step].pass]->name;
    const char *const why = needs_more(plan, step);
    if (why)
        return pare_recipe_fail(cx, place,
                                "%s %s: it does not work from statistics that are kept; leave it "
                                "out, or \"%s\" of the calibration",
                                name, why, plan->kept.made ? "keep" : "from");
    if (plan->token_weights && shifts(plan, step))
        return pare_recipe_fail(cx, place,
                                "%s shifts inputs, and Hessians whose tokens count by the loss do "
                                "not follow that; keep statistics with token_weights: even",
                                name);
    return PARE_OK;
}

pare_status pare__plan_kept_check(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    const pare_recipe *const r = &plan->recipe;
    plan->kept.used = plan->kept.path && plan->calibrated;
    if (!plan->kept.used)
        return PARE_OK;
    for (size_t step = 0; step < r->steps; step++)
        PARE_TRY(check_step(cx, plan, step));
    if (r->kv.method == PARE_KV_KVQUANT)
        return pare_recipe_fail(cx, r->kv_place,
                                "kv_cache: levels of kvquant are found in activations, which are "
                                "not kept; take another method, or leave \"%s\" out",
                                plan->kept.made ? "keep" : "from");
    if (plan->job->part != PARE_JOB_WHOLE || plan->job->variants)
        return pare_recipe_fail(cx, r->calibration.place,
                                "\"%s\": statistics are kept of the model of the recipe, and some "
                                "steps here work on what others made of it",
                                plan->kept.made ? "keep" : "from");
    return plan->kept.imatrix ? check_imatrix(cx, a, plan) : PARE_OK;
}

const char *pare_plan_kept_idle(const pare_plan *plan)
{
    if (!plan->kept.path || plan->calibrated)
        return NULL;
    return plan->kept.made  ? "\"keep\" does nothing: no step of this recipe is calibrated"
           : plan->held_out ? NULL
                            : "\"from\" does nothing: no step of this recipe is calibrated";
}

bool pare__plan_kept_weighs(const pare_plan *plan)
{
    const pare_token_weighing asked = plan->recipe.calibration.token_weights;
    return asked == PARE_TOKENS_LOSS || (asked == PARE_TOKENS_AUTO && plan->model.head.bits == 0);
}

void pare_plan_stage(const pare_plan *plan, pare_plan *stage)
{
    const pare_config *const c = &plan->model.config;
    *stage = *plan;
    stage->kept.used = false;
    stage->linears = stage->pruned = stage->transforms = stage->changes = 0;
    stage->tables.count = 0;
    stage->first = NULL;
    stage->reference = stage->ratios = stage->sequential = false;
    stage->drift = stage->floats_beside = stage->halves = false;
    stage->experts = c->experts;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const unsigned kinds = PARE_STATS_FILE_KINDS | (plan->bf16 ? PARE_STATS_BF16 : 0u);
        stage->kinds[s] = pare_site_width(c, 0, (pare_site)s) ? kinds : 0;
        stage->later[s] = stage->later_experts[s] = 0;
        stage->expert_kinds[s] = c->experts && pare_site_width(c, 1, (pare_site)s) ? kinds : 0;
    }
}

uint64_t pare_plan_stage_bytes(const pare_plan *plan, const pare_settled *settled)
{
    pare_stats_about about = plan->kept.about;
    if (plan->kept.made) {
        about.samples = settled->samples;
        about.window = plan->window;
        about.held_out = plan->held_out;
    }
    return pare_stats_file_bytes(&plan->model.config, &about);
}
