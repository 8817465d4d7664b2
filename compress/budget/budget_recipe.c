/* Recipes of a search: that of the base, and an ordinary one of what was chosen. */
#include <stdio.h>
#include <string.h>

#include "compress/budget/budget_internal.h"
#include "compress/passes/budget_step.h"
#include "compress/text/text_out.h"

static pare_status finish(pare_budget *b, pare_text_out *t, const char **text)
{
    const pare_status s = t->status;
    *text = s == PARE_OK ? pare_arena_text(b->a, t->text, t->len) : NULL;
    pare__text_free(t);
    return s != PARE_OK ? s : *text ? PARE_OK : PARE_ENOMEM;
}

static pare_status put_texts(pare_budget *b, pare_text_out *t, const char *key,
                             const pare_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) {
        char *quoted;
        PARE_TRY(pare_recipe_quote(b->a, texts->item[i].text, &quoted));
        pare__text_put(t, "%s%s%s", i ? ", " : key, i ? "" : ": [", quoted);
    }
    if (texts->count)
        pare__text_put(t, "]\n");
    return PARE_OK;
}

/* The canonical text of the recipe with other passes in place of its own: they stand between
 * "passes:" and the next line that begins in the first column. */
pare_status pare__budget_with_passes(pare_budget *b, const pare_recipe *r, const char *head,
                                     const char *passes, const char **text)
{
    static const char key[] = "\npasses:\n";
    char *all;
    size_t len;
    PARE_TRY(pare_recipe_normalize(b->cx, b->a, r, b->words, false, &all, &len));
    char *const begin = strstr(all, key);
    char *end = begin ? begin + strlen(key) : NULL;
    if (!end)
        return pare_fail(b->cx, PARE_EINVAL, "%s: a recipe without passes", r->file);
    while (*end == ' ')
        end = strchr(end, '\n') ? strchr(end, '\n') + 1 : end + strlen(end);
    pare_text_out t = {.cx = b->cx};
    pare__text_put(&t, "%s", head);
    pare__text_add(&t, all, (size_t)(begin - all));
    pare__text_put(&t, "%s%s", key, passes);
    pare__text_put(&t, "%s", end);
    return finish(b, &t, text);
}

pare_status pare__budget_base_recipe(pare_budget *b, bool held_out, const char **text)
{
    const pare_step *const step = &b->recipe.step[0];
    pare_recipe r = b->recipe;
    const char *passes;
    pare_text_out t = {.cx = b->cx};
    r.evaluations = r.exports = r.requirements = 0;
    r.held_out = held_out;
    r.kv = (pare_kv_format){0};
    pare__text_put(&t, "  - gptq:\n      bits: %d\n      group: %d\n      correct: none\n",
                   PARE_BUDGET_BASE_BITS, PARE_BUDGET_BASE_GROUP);
    pare_status s = put_texts(b, &t, "      targets", &step->targets);
    if (s == PARE_OK)
        s = put_texts(b, &t, "      skip", &step->skip);
    if (s != PARE_OK)
        pare__text_free(&t);
    PARE_TRY(s);
    PARE_TRY(finish(b, &t, &passes));
    return pare__budget_with_passes(b, &r, "", passes, text);
}

static void put_setting(const pare_budget *b, const size_t *choice, size_t setting,
                        pare_text_out *t)
{
    const char *at = b->setting[setting].setting;
    size_t count = 0;
    for (size_t i = 0; i < b->linears; i++)
        count += choice[i] == setting;
    if (!count)
        return;
    pare__text_put(t, "  - %s: # %zu of %zu linears\n", b->setting[setting].pass, count,
                   b->linears);
    while (*at) { /* "name: value, name: value" */
        const size_t len = strcspn(at, ",");
        pare__text_put(t, "      %.*s\n", (int)len, at);
        at += len + strspn(at + len, ", ");
    }
    pare__text_put(t, "      targets:\n");
    for (size_t i = 0; i < b->linears; i++)
        if (choice[i] == setting)
            pare__text_put(t, "        - \"%s\"\n", b->linear[i].packed.name);
}

pare_status pare__budget_recipe(pare_budget *b, const size_t *choice, const char *head,
                                const char **text)
{
    const char *passes;
    pare_text_out t = {.cx = b->cx};
    for (size_t s = 0; s < b->settings; s++)
        put_setting(b, choice, s, &t);
    PARE_TRY(finish(b, &t, &passes));
    return pare__budget_with_passes(b, &b->recipe, head, passes, text);
}

pare_status pare__budget_table(pare_budget *b)
{
    pare_text_out t = {.cx = b->cx};
    pare__text_put(&t, "linear,setting,bytes,error,kl_measured,kl_estimated\n");
    for (size_t i = 0; i < b->linears; i++)
        for (size_t s = 0; s < b->settings; s++) {
            pare__text_put_csv(&t, b->linear[i].packed.name);
            pare__text_put(&t, ",%s,%llu,%.6g,", b->setting[s].label,
                           (unsigned long long)pare__budget_bytes(b, s, i),
                           b->made[i * b->settings + s].error);
            if (s == b->probe)
                pare__text_put(&t, "%.6g", b->kl[i]);
            pare__text_put(&t, ",%.6g\n", b->loss[i * b->settings + s]);
        }
    return pare__text_save(&t, b->store, "sensitivity.csv");
}
