#include <stdio.h>
#include <string.h>

#include "compress/plan_internal.h"
#include "recipes/pattern.h"
#include "runtime/file.h"

enum { WORDS = 32 };

static pare_status find_target(pare_ctx *cx, const pare_text *format,
                               const pare_export_target **out)
{
    const char *word[WORDS];
    char known[512] = "";
    size_t count = 0, used = 0;
    *out = pare_export_find(format->text);
    if (*out)
        return PARE_OK;
    if (pare_export_find_gguf(format->text))
        return pare_recipe_fail(cx, format->place,
                                "a recipe does not write GGUF files yet; afterwards run: pare "
                                "export OUTPUT --format %.64s --output FILE.gguf",
                                format->text);
    for (; pare_export_targets[count] && count < WORDS && used < sizeof known; count++) {
        word[count] = pare_export_targets[count]->name;
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", count ? ", " : "",
                                 word[count]);
    }
    const char *const near = pare_nearest_word(format->text, word, count);
    if (near)
        return pare_recipe_fail(cx, format->place, "unknown format \"%.64s\"; did you mean \"%s\"?",
                                format->text, near);
    return pare_recipe_fail(cx, format->place, "unknown format \"%.64s\"; known: %s", format->text,
                            known);
}

/* True when `path` is `directory` or a name inside it. */
static bool is_inside(const char *path, const char *directory)
{
    const size_t len = strlen(directory);
    return strncmp(path, directory, len) == 0 && (path[len] == '\0' || path[len] == '/');
}

static pare_status resolve_path(pare_ctx *cx, pare_arena *a, const pare_plan *plan, size_t i,
                                char **out)
{
    const pare_text *const path = &plan->recipe.export[i].path;
    char *const directory = pare_path_directory(a, plan->job->recipe);
    *out = directory ? pare_path_join(a, directory, path->text) : NULL;
    if (!*out)
        return PARE_ENOMEM;
    for (size_t n = strlen(*out); n > 1 && (*out)[n - 1] == '/'; n--)
        (*out)[n - 1] = '\0';
    if (is_inside(*out, plan->output_path) || is_inside(*out, plan->partial_path) ||
        is_inside(plan->output_path, *out))
        return pare_recipe_fail(cx, path->place,
                                "%s: an export and the output of the recipe (%s) must not lie in "
                                "each other",
                                *out, plan->output_path);
    for (size_t j = 0; j < i; j++)
        if (is_inside(*out, plan->export[j].path) || is_inside(plan->export[j].path, *out))
            return pare_recipe_fail(cx, path->place,
                                    "%s: another export of the recipe goes there, too", *out);
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
    pare_packed_linear *const packed = PARE_NEW(a, pare_packed_linear, plan->linears + 1);
    if (!packed)
        return PARE_ENOMEM;
    for (size_t i = 0; i < plan->linears; i++)
        packed[i] = plan->linear[i].packed;
    PARE_TRY(
        pare_export_describe(a, &plan->model, plan->checkpoint.config, packed, plan->linears, out));
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

/* Memory of one linear: matrices of floats, or codes in bytes beside what becomes of them; those
 * that are joined lie apart, too. */
static uint64_t count_ram(const pare_export_model *m)
{
    uint64_t most = 0;
    for (size_t i = 0; i < m->linears; i++) {
        const pare_export_linear *const l = &m->linear[i];
        const uint64_t bytes = (uint64_t)l->packed.n * l->packed.k * (l->pieces ? 17 : 13);
        if ((l->is_packed || l->pieces || l->transposed) && bytes > most)
            most = bytes;
    }
    return most;
}

/* Bytes of the tensors: those of the target, and what goes along as it is. */
static uint64_t count_bytes(const pare_plan *plan, const pare_export_target *t,
                            const pare_export_model *m)
{
    uint64_t bytes = plan->packed_bytes - plan->layout.index_bytes;
    for (size_t i = 0; i < plan->linears; i++)
        bytes -= pare_packed_linear_bytes(&plan->linear[i].packed).total;
    for (size_t i = 0; i < m->linears; i++) {
        pare_export_part part[PARE_EXPORT_PARTS];
        const size_t parts = m->linear[i].is_packed ? t->parts(m, &m->linear[i], part) : 0;
        for (size_t p = 0; p < parts; p++) {
            uint64_t size = 0;
            if (pare_tensor_bytes(part[p].dtype, part[p].rank, part[p].shape, &size) == PARE_OK)
                bytes += size;
        }
    }
    return bytes;
}

static pare_status plan_one(pare_ctx *cx, pare_arena *a, const pare_plan *plan,
                            const pare_export_model *m, size_t i, pare_plan_export *out)
{
    const pare_recipe_export *const x = &plan->recipe.export[i];
    char *partial;
    PARE_TRY(find_target(cx, &x->format, &out->target));
    PARE_TRY(resolve_path(cx, a, plan, i, &out->path));
    if (plan->structured)
        return pare_recipe_fail(cx, x->place,
                                "what this recipe writes is a plain checkpoint, which other "
                                "programs read as it is: there is nothing to export");
    const pare_status s = pare_export_check(cx, out->target, m);
    if (s != PARE_OK)
        return refuse(cx, x->place, s);
    out->bytes = count_bytes(plan, out->target, m);
    for (size_t j = 0; j < m->linears; j++)
        out->count[pare_export_fate_of(out->target, &m->linear[j])]++;
    const pare_status place = pare_export_place(cx, a, plan->model_path, out->path,
                                                plan->replaces || plan->job->restart, &partial);
    if (place == PARE_EEXISTS && plan->job->look) {
        pare_ctx_clear(cx);
        out->taken = true;
        return PARE_OK;
    }
    return place == PARE_OK ? PARE_OK : refuse(cx, x->path.place, place);
}

pare_status pare__plan_exports(pare_ctx *cx, pare_arena *a, pare_plan *plan)
{
    pare_export_model m = {0};
    if (!plan->recipe.exports)
        return PARE_OK;
    plan->export = PARE_NEW(a, pare_plan_export, plan->recipe.exports);
    if (!plan->export)
        return PARE_ENOMEM;
    if (!plan->structured)
        PARE_TRY(describe(a, plan, &m));
    plan->export_ram_bytes = count_ram(&m);
    for (size_t i = 0; i < plan->recipe.exports; i++) {
        PARE_TRY(plan_one(cx, a, plan, &m, i, &plan->export[i]));
        plan->exports++;
    }
    return PARE_OK;
}
