#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output/output.h"
#include "compress/plan/plan_internal.h"
#include "compress/plan/plan_walks.h"
#include "formats/checksums.h"
#include "runtime/file.h"

static pare_status find_target(pare_ctx *cx, const pare_text *format,
                               const pare_export_target **out)
{
    char known[512], meant[PARE_EXPORT_TEXT];
    *out = pare_export_find(format->text);
    if (*out)
        return PARE_OK;
    const char *const hint = pare_export_meant(format->text, meant);
    if (hint)
        return pare_recipe_fail(cx, format->place, "unknown format \"%.64s\"; %s", format->text,
                                hint);
    return pare_recipe_fail(cx, format->place, "unknown format \"%.64s\"; known: %s", format->text,
                            pare_export_known(known, sizeof known));
}

static pare_status resolve_path(pare_ctx *cx, pare_arena *a, const pare_plan *plan, size_t i,
                                char **out)
{
    const pare_text *const path = &plan->recipe.export[i].path;
    char *const directory = pare_path_directory(a, plan->job->recipe);
    *out = directory ? pare_path_join(a, directory, path->text) : NULL;
    if (!*out)
        return PARE_ENOMEM;
    const bool file = plan->export[i].target->kind == PARE_EXPORT_FILE;
    for (size_t n = strlen(*out); !file && n > 1 && (*out)[n - 1] == '/'; n--)
        (*out)[n - 1] = '\0';
    if (pare_output_lies_in(*out, plan->place.output) ||
        pare_output_lies_in(*out, plan->place.partial) ||
        pare_output_lies_in(plan->place.output, *out))
        return pare_recipe_fail(cx, path->place,
                                "%s: an export and the output of the recipe (%s) must not lie in "
                                "each other",
                                *out, plan->place.output);
    for (size_t j = 0; j < i; j++)
        if (pare_output_lies_in(*out, plan->export[j].path) ||
            pare_output_lies_in(plan->export[j].path, *out))
            return pare_recipe_fail(cx, path->place, "%s: another export of the recipe goes to %s",
                                    *out, plan->export[j].path);
    return PARE_OK;
}

/* Refused in the words of the target, at the place of the recipe. */
static pare_status refuse(pare_ctx *cx, pare_place place, pare_status s)
{
    char why[sizeof cx->what];
    if (s == PARE_ENOMEM)
        return s;
    (void)snprintf(why, sizeof why, "%s", cx->what);
    pare_ctx_clear(cx);
    pare_status as = pare_recipe_fail(cx, place, "%s", why);
    return s == PARE_ENOTSUP ? as : s;
}

/* The linears as they will be stored. */
static pare_status describe(pare_arena *a, const pare_plan *plan, pare_export_model *out)
{
    pare_packed_linear *const packed = PARE_NEW(a, pare_packed_linear, plan->linears + PARE_TABLES);
    if (!packed)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++)
        packed[i] = plan->linear[i].packed;
    for (size_t i = 0; i < plan->tables.count; i++)
        packed[plan->linears + i] = plan->tables.of[i].packed;
    PARE_TRY(pare_export_describe(a, &plan->model, plan->checkpoint.config, packed,
                                  plan->linears + plan->tables.count, out));
    for (size_t i = 0; i < plan->changes; i++)
        out->shifts_norms |= plan->changed[i].kind == PARE_CHANGED_NORM_BIAS &&
                             plan->model.config.arch->norm_kind != PARE_NORM_LAYER;
    for (size_t i = 0; i < plan->changes; i++) {
        const pare_plan_changed *const x = &plan->changed[i];
        const pare_linear_desc *const d = &plan->model.config.arch->linear[x->index % PARE_ROLES];
        if (x->kind == PARE_CHANGED_BIAS && !pare_linear_has_bias(plan->checkpoint.config, d))
            out->biased = plan->model.block[x->block].linear[x->index].name;
    }
    return PARE_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

/* Tensors of the artifact that the plan leads to. */
static pare_status take_tensors(pare_arena *a, const pare_plan *plan, pare_export_source *out)
{
    const pare_packed_layout *const l = &plan->settled.layout;
    pare_tensor *const tensor = PARE_NEW(a, pare_tensor, l->entries);
    if (!tensor)
        return PARE_ENOMEM;
    for (size_t i = 0; i < l->entries; i++) {
        tensor[i] = l->entry[i].tensor;
        tensor[i].data = NULL;
    }
    if (l->entries > 1)
        qsort(tensor, l->entries, sizeof *tensor, by_name);
    out->tensor = tensor;
    out->tensors = l->entries;
    return PARE_OK;
}

/* The artifact that the plan leads to. */
static pare_status find_source(pare_arena *a, const pare_plan *plan, pare_export_source *out)
{
    *out = (pare_export_source){
        .ck = &plan->checkpoint, .model = &plan->model, .kv = plan->recipe.kv.method};
    PARE_TRY(take_tensors(a, plan, out));
    return describe(a, plan, &out->shape);
}

/* The model that structured steps leave, as far as a file names it: a block takes the place of the
 * first ones, whose types all have; biases that a step adds are tensors alone. */
static pare_status cut_model(pare_arena *a, const pare_plan *plan, pare_model *out)
{
    const pare_config *const c = &plan->out;
    *out = plan->model;
    out->config = *c;
    out->config.tied &= !plan->unties;
    out->embed.k = out->head.k = c->hidden;
    out->block = PARE_NEW(a, pare_block, c->blocks);
    if (!out->block)
        return PARE_ENOMEM;
    memcpy(out->block, plan->model.block, c->blocks * sizeof *out->block);
    for (size_t i = 0; i < c->blocks * PARE_ROLES; i++) {
        pare_linear *const w = &out->block[i / PARE_ROLES].linear[i % PARE_ROLES];
        if (w->name)
            pare_block_shape(c, i / PARE_ROLES, 0, (pare_role)(i % PARE_ROLES), &w->n, &w->k);
    }
    return PARE_OK;
}

/* The plain checkpoint that structured steps lead to. */
static pare_status find_floats(pare_arena *a, const pare_plan *plan, pare_export_source *out)
{
    pare_model *const model = PARE_NEW(a, pare_model, 1);
    if (!model)
        return PARE_ENOMEM;
    PARE_TRY(cut_model(a, plan, model));
    *out = (pare_export_source){.ck = &plan->checkpoint, .model = model};
    PARE_TRY(take_tensors(a, plan, out));
    return pare_export_describe(a, model, plan->checkpoint.config, NULL, 0, &out->shape);
}

/* What pare export makes of a plain checkpoint. */
static pare_status plan_floats(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                               const pare_recipe_export *x, pare_plan_export *out)
{
    const pare_export_target *const t = out->target;
    pare_export_source source;
    if (t->kind != PARE_EXPORT_FILE || t->fate != PARE_EXPORT_ROUNDED)
        return pare_fail(
            cx, PARE_ENOTSUP,
            "what this recipe writes is a plain checkpoint, which other programs read "
            "as it is (where its blocks differ in width, only pare does); gguf:f16 "
            "makes a file for llama.cpp of it, also where widths differ%s%s",
            t->fate == PARE_EXPORT_ROUNDED ? "" : ", and a quantizer behind these passes one for ",
            t->fate == PARE_EXPORT_ROUNDED ? "" : t->name);
    PARE_TRY(pare_export_check_widths(cx, t, &plan->out));
    PARE_TRY(find_floats(a, plan, &source));
    return pare_export_outline(cx, a, &source, t, x->ranks, plan->job->strict, &out->result);
}

/* Whether an export is older than the finished output, which took the place of the one it was made
 * of. */
static pare_status is_stale(pare_arena *a, const pare_plan *plan, const pare_plan_export *x,
                            bool *out)
{
    char *const manifest = pare_path_join(a, plan->place.output, PARE_MANIFEST_NAME);
    char *const record = x->target->kind == PARE_EXPORT_FILE
                             ? x->path
                             : pare_path_join(a, x->path, PARE_EXPORT_RECORD);
    struct stat st, of;
    if (!manifest || !record)
        return PARE_ENOMEM;
    *out = stat(record, &st) == 0 && stat(manifest, &of) == 0 &&
           (st.st_mtim.tv_sec != of.st_mtim.tv_sec ? st.st_mtim.tv_sec < of.st_mtim.tv_sec
                                                   : st.st_mtim.tv_nsec < of.st_mtim.tv_nsec);
    return PARE_OK;
}

/* Something that is there is no obstacle to a plan that is only looked at, nor is an export to the
 * others of a finished output. */
static pare_status look_there(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                              const pare_settled *settled, const pare_plan_export *x,
                              pare_plan_there *out)
{
    const bool may = settled->replaces || plan->job->restart || settled->finished;
    pare_owned_state state;
    pare_export_place p;
    struct stat st;
    bool ours = false;
    PARE_TRY(pare_export_place_find(cx, a, plan->model_path, x->path, x->target->kind, &p));
    const bool there = lstat(x->path, &st) == 0;
    if (there)
        PARE_TRY(pare_owned_marked(cx, a, p.at.output, p.at.kind, &ours, NULL));
    if (ours && settled->finished) {
        PARE_TRY(is_stale(a, plan, x, &out->stale));
        out->taken = !out->stale;
    }
    if (plan->job->plan_only)
        out->taken |= there && !(may && ours);
    if (plan->job->plan_only || out->taken)
        return PARE_OK;
    if (plan->job->look_only)
        return there ? pare_owned_check(cx, a, p.at.output, p.at.kind, false) : PARE_OK;
    PARE_TRY(pare_owned_partial(cx, a, p.at.partial, p.at.kind, &state));
    return pare_export_place_check(cx, a, &p, may);
}

pare_status pare__plan_export_places(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                                     pare_settled *settled)
{
    settled->export = PARE_NEW(a, pare_plan_there, plan->exports);
    if (!settled->export)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->exports; i++) {
        const pare_status s =
            look_there(cx, a, plan, settled, &plan->export[i], &settled -> export[i]);
        if (s != PARE_OK)
            return refuse(cx, plan->recipe.export[i].path.place, s);
    }
    return PARE_OK;
}

/* Of one export. Those of pare that are there beside a finished output stay; with a verdict that
 * allows no exports, nobody looks at the work on them. */
static pare_status check_taken(pare_ctx *cx, pare_arena *a, const pare_plan *plan, size_t i)
{
    const pare_plan_export *const x = &plan->export[i];
    const bool taken = plan->settled.export[i].taken;
    pare_owned_state state;
    pare_export_place p;
    bool ours = false;
    PARE_TRY(pare_export_place_find(cx, a, plan->model_path, x->path, x->target->kind, &p));
    if (taken && plan->settled.finished)
        PARE_TRY(pare_owned_marked(cx, a, p.at.output, p.at.kind, &ours, NULL));
    if (ours && plan->recipe.requirements)
        return PARE_OK;
    PARE_TRY(pare_owned_partial(cx, a, p.at.partial, p.at.kind, &state));
    if (!taken || ours)
        return PARE_OK;
    if (plan->settled.finished)
        return pare_owned_check(cx, a, p.at.output, p.at.kind, false);
    return pare_fail(cx, PARE_EEXISTS,
                     plan->job->restart
                         ? "%s: exists, and is no export of pare; move it away, or give another "
                           "path"
                         : "%s: exists; --restart replaces it if it is an export",
                     x->path);
}

pare_status pare_plan_export_taken(pare_ctx *cx, pare_arena *a, const pare_plan *plan)
{
    for (size_t i = 0; i < plan->exports; i++) {
        const pare_status s = check_taken(cx, a, plan, i);
        if (s != PARE_OK)
            return refuse(cx, plan->recipe.export[i].path.place, s);
    }
    return PARE_OK;
}

static pare_status plan_one(pare_ctx *cx, pare_arena *a, pare_plan *plan,
                            const pare_export_source *source, size_t i)
{
    const pare_recipe_export *const x = &plan->recipe.export[i];
    pare_plan_export *const out = &plan->export[i];
    PARE_TRY(find_target(cx, &x->format, &out->target));
    PARE_TRY(resolve_path(cx, a, plan, i, &out->path));
    const pare_status s = plan->structured
                              ? plan_floats(cx, a, plan, x, out)
                              : pare_export_outline(cx, a, source, out->target, x->ranks,
                                                    plan->job->strict, &out->result);
    if (s != PARE_OK)
        return refuse(cx, x->place, s);
    if (out->result.ram_bytes > plan->export_ram_bytes)
        plan->export_ram_bytes = out->result.ram_bytes;
    return PARE_OK;
}

pare_status pare__plan_exports(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    pare_export_source source = {0};
    if (!plan->recipe.exports)
        return PARE_OK;
    plan->export = PARE_NEW(a, pare_plan_export, plan->recipe.exports);
    if (!plan->export)
        return PARE_ENOMEM;
    if (!plan->structured)
        PARE_TRY(find_source(a, plan, &source));
    for (; plan->exports < plan->recipe.exports; plan->exports++)
        PARE_TRY(plan_one(cx, a, plan, &source, plan->exports));
    return PARE_OK;
}
