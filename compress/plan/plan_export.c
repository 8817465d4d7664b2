#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/output/output.h"
#include "compress/plan/plan_internal.h"
#include "formats/checksums.h"
#include "runtime/file.h"

static pare_status find_target(pare_ctx *cx, const pare_text *format,
                               const pare_export_target **out)
{
    char known[512];
    *out = pare_export_find(format->text);
    if (*out)
        return PARE_OK;
    const char *const near = pare_export_near(format->text);
    if (near)
        return pare_recipe_fail(cx, format->place, "unknown format \"%.64s\"; did you mean \"%s\"?",
                                format->text, near);
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

/* The artifact that the plan leads to. */
static pare_status find_source(pare_arena *a, const pare_plan *plan, pare_export_source *out)
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
    *out = (pare_export_source){.ck = &plan->checkpoint,
                                .model = &plan->model,
                                .tensor = tensor,
                                .tensors = l->entries,
                                .kv = plan->recipe.kv.method};
    return describe(a, plan, &out->shape);
}

enum { ROW_NAME = 512 };

static uint64_t elements(const pare_tensor *t)
{
    uint64_t count = 1;
    for (size_t i = 0; i < t->rank; i++)
        count *= t->shape[i];
    return count;
}

/* A plain checkpoint is smaller than the model, of the same kind: the model as it is, and what a
 * structured pass adds to it (biases). *more: elements that the checkpoint does not have. */
static pare_status find_floats(pare_arena *a, const pare_plan *plan, pare_export_source *out,
                               uint64_t *more)
{
    const pare_packed_layout *const l = &plan->settled.layout;
    const pare_checkpoint *const ck = &plan->checkpoint;
    size_t count = ck->tensors;
    pare_tensor *const tensor = PARE_NEW(a, pare_tensor, count + l->entries);
    if (!tensor)
        return PARE_ENOMEM;
    memcpy(tensor, ck->tensor, count * sizeof *tensor);
    for (size_t i = 0; i < l->entries; i++)
        if (!pare_checkpoint_find(ck, l->entry[i].tensor.name)) {
            tensor[count] = l->entry[i].tensor;
            tensor[count++].data = NULL;
        }
    qsort(tensor, count, sizeof *tensor, by_name);
    *more = 0;
    for (size_t i = 0; i < count; i++)
        *more += elements(&tensor[i]);
    for (size_t i = 0; i < l->entries; i++)
        *more -= elements(&l->entry[i].tensor);
    *out =
        (pare_export_source){.ck = ck, .model = &plan->model, .tensor = tensor, .tensors = count};
    return pare_export_describe(a, &plan->model, ck->config, NULL, 0, &out->shape);
}

/* Linears of blocks that are not in the checkpoint leave the result. */
static void keep_rows(const pare_packed_layout *l, pare_export_result *r)
{
    char name[ROW_NAME];
    size_t rows = 0;
    memset(r->count, 0, sizeof r->count);
    for (size_t i = 0; i < r->rows; i++) {
        const pare_export_row *const row = &r->row[i];
        (void)snprintf(name, sizeof name, "%s.weight", row->name);
        if (!row->again && !pare_packed_find(l, name))
            continue;
        r->count[row->fate] += !row->again;
        r->row[rows++] = *row;
    }
    r->rows = rows;
}

/* What pare export makes of a plain checkpoint. */
static pare_status plan_floats(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                               const pare_recipe_export *x, pare_plan_export *out)
{
    const pare_export_target *const t = out->target;
    pare_export_source source;
    uint64_t more;
    if (t->kind != PARE_EXPORT_FILE || t->fate != PARE_EXPORT_ROUNDED)
        return pare_recipe_fail(cx, x->place,
                                "what this recipe writes is a plain checkpoint, which other "
                                "programs read as it is (where its blocks differ in width, only "
                                "pare does); gguf:f16 makes a file for llama.cpp of it, also where "
                                "widths differ%s%s",
                                t->fate == PARE_EXPORT_ROUNDED ? ""
                                                               : ", and a quantizer behind "
                                                                 "these passes one for ",
                                t->fate == PARE_EXPORT_ROUNDED ? "" : t->name);
    PARE_TRY(pare_export_check_widths(cx, t, &plan->out));
    PARE_TRY(find_floats(a, plan, &source, &more));
    PARE_TRY(pare_export_outline(cx, a, &source, t, x->ranks, plan->job->strict, &out->result));
    const uint64_t less = more * pare_dtype_bits(PARE_F16) / 8;
    out->result.bytes -= less < out->result.bytes ? less : 0;
    keep_rows(&plan->settled.layout, &out->result);
    return PARE_OK;
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
