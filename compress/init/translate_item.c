/* A pass while a modifier becomes one: its parameters, and the linears that it takes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/init/translate_internal.h"
#include "recipes/pattern.h"

static bool takes(const pare_param *p, double value)
{
    for (const pare_word *w = p->words; w && w->text; w++)
        if (w->value == value)
            return true;
    if (p->type == PARE_PARAM_CHOICE)
        return false;
    if (p->type == PARE_PARAM_BOOL)
        return value == 0 || value == 1;
    if (p->type == PARE_PARAM_PATTERN)
        return pare_pattern_keep(value) >= 1 && pare_pattern_keep(value) < pare_pattern_of(value) &&
               pare_pattern_of(value) <= p->max;
    return value >= p->min && value <= p->max &&
           (p->type != PARE_PARAM_INTEGER ||
            (value == trunc(value) && (!p->multiple || fmod(value, p->multiple) == 0)));
}

void pare__item_set(pare__translation *t, pare__item *item, const pare_yaml *node, const char *name,
                    double value)
{
    const pare_param *p = item->pass->params;
    char text[64], why[160];
    (void)snprintf(text, sizeof text, "%.15g", value); /* more digits a recipe does not take */
    value = strtod(text, NULL);
    while (strcmp(p->name, name) != 0)
        p++;
    if (!takes(p, value)) {
        (void)snprintf(why, sizeof why, "%s of %s does not take this; see \"pare help %s\"", name,
                       item->pass->name, item->pass->name);
        pare__leave(t, node, why);
        return;
    }
    pare_param_print(p, value, text, sizeof text);
    const bool pattern = p->type == PARE_PARAM_PATTERN;
    item->len += (size_t)snprintf(item->text + item->len, sizeof item->text - item->len,
                                  pattern ? "%s: \"%s\", " : "%s: %s, ", name, text);
}

void pare__item_set_number(pare__translation *t, pare__item *item, const pare_yaml *node,
                           const char *name)
{
    double value;
    if (!node || pare_yaml_is_null(node))
        return;
    if (pare__node_number(node, &value))
        pare__item_set(t, item, node, name, value);
    else
        pare__leave(t, node, "expected a number");
}

void pare__item_add(pare__item *item, const char *text)
{
    item->len +=
        (size_t)snprintf(item->text + item->len, sizeof item->text - item->len, "%s, ", text);
}

static void put_patterns(pare__translation *t, const char *key, const pare__patterns *list,
                         bool comma)
{
    pare_text_out *const out = &t->draft.passes;
    if (list->count == 0)
        return;
    pare__text_put(out, "%s%s: [", comma ? ", " : "", key);
    for (size_t i = 0; i < list->count; i++) {
        char *quoted = NULL;
        if (pare_recipe_quote(t->draft.a, list->text[i], &quoted) != PARE_OK)
            t->status = PARE_ENOMEM;
        pare__text_put(out, "%s%s", i ? ", " : "", quoted ? quoted : "");
    }
    pare__text_put(out, "]");
}

/* selected[slot]: whether a linear is among targets and not among skip. */
static pare_status select_linears(pare__translation *t, const pare__patterns *targets,
                                  const pare__patterns *skip, bool *selected)
{
    const pare__draft *const d = &t->draft;
    const pare__patterns *const list[] = {targets, skip};
    memset(selected, targets->all, pare__draft_slots(d) * sizeof *selected);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < list[i]->count; j++) {
            pare_pattern *p;
            PARE_TRY(pare_pattern_new(d->cx, d->a, list[i]->text[j], &p));
            for (size_t slot = 0; slot < pare__draft_slots(d); slot++) {
                const char *const name = pare__draft_linear(d, slot)->name;
                bool hit = false;
                if (name)
                    PARE_TRY(pare_pattern_matches(d->cx, p, name, &hit));
                if (hit)
                    selected[slot] = i == 0;
            }
        }
    return PARE_OK;
}

/* Refuses what came before `now` on a linear and cannot stay. */
static pare_status refuse(const pare__translation *t, const pare__taker *now,
                          const pare__taker *before, const char *linear, const char *why)
{
    return pare_fail(t->draft.cx, PARE_EUSAGE, "%s:%zu: %s takes %s, and %s in line %zu %s",
                     t->draft.file, now->line, now->modifier, linear, before->modifier,
                     before->line, why);
}

/* A linear is pruned once, then quantized once, and what changes it stands in front of that. */
static pare_status take_linear(pare__translation *t, const pare_pass *pass, const pare__taker *now,
                               size_t slot)
{
    const char *const linear = pare__draft_linear(&t->draft, slot)->name;
    pare__taker *const pruner = &t->pruner[slot], *const quantizer = &t->quantizer[slot];
    const bool changes = pare_pass_transforms(pass), prunes = pare_pass_prunes(pass);
    if (quantizer->modifier && !changes && !prunes)
        return refuse(t, now, quantizer, linear,
                      "quantizes it already; a linear is quantized once: leave it to one of them "
                      "with targets or ignore");
    if (quantizer->modifier)
        return refuse(t, now, quantizer, linear,
                      "quantizes it in front of that; put what quantizes last");
    if (pruner->modifier && prunes)
        return refuse(t, now, pruner, linear,
                      "prunes it already; a linear is pruned once: leave it to one of them with "
                      "targets or ignore");
    if (!changes)
        *(prunes ? pruner : quantizer) = *now;
    return PARE_OK;
}

/* *any: whether there is a linear to work on. A transform works on those that read its sites. */
static pare_status take_linears(pare__translation *t, const pare__item *item,
                                const pare__taker *now, const pare__patterns *targets,
                                const pare__patterns *skip, bool *any)
{
    const pare__draft *const d = &t->draft;
    const size_t slots = pare__draft_slots(d);
    bool *const selected = PARE_NEW(d->a, bool, slots);
    if (!t->quantizer) {
        t->quantizer = PARE_NEW(d->a, pare__taker, slots);
        t->pruner = PARE_NEW(d->a, pare__taker, slots);
    }
    if (!selected || !t->quantizer || !t->pruner)
        return PARE_ENOMEM;
    *any = false;
    PARE_TRY(select_linears(t, targets, skip, selected));
    for (size_t i = 0; i < slots; i++) {
        if (!selected[i] || !pare__draft_linear(d, i)->name)
            continue;
        *any = true;
        if (!pare_pass_transforms(item->pass) || pare__draft_transforms(d, item->pass, i))
            PARE_TRY(take_linear(t, item->pass, now, i));
    }
    return PARE_OK;
}

void pare__item_put(pare__translation *t, const pare_yaml *node, const pare__item *item,
                    const pare__patterns *targets, const pare__patterns *skip)
{
    static const pare__patterns none;
    const pare__taker now = {t->modifier, node->key ? node->key->place.line : node->place.line};
    bool any = false;
    if (t->status == PARE_OK && !skip->all)
        t->status = take_linears(t, item, &now, targets, skip, &any);
    if (t->status != PARE_OK)
        return;
    if (!any) {
        pare__leave(t, node, "targets and ignore leave no linear to work on");
        return;
    }
    const int len = item->len ? (int)item->len - 2 : 0; /* without the last ", " */
    pare__draft_put_origin(&t->draft.passes, "  ", now.line, now.modifier);
    pare__text_put(&t->draft.passes, "%s  - %s: {%.*s", item->why, item->pass->name, len,
                   item->text);
    put_patterns(t, "targets", targets->all ? &none : targets, len > 0);
    put_patterns(t, "skip", skip, len > 0 || (!targets->all && targets->count));
    pare__text_put(&t->draft.passes, "}\n");
    t->passes++;
}

void pare__item_put_short(pare__translation *t, size_t group)
{
    pare_text_out *const out = &t->draft.passes;
    const size_t fits = pare__draft_group(&t->draft);
    if (group == 0 || pare__draft_divides(&t->draft, group))
        return;
    pare__text_put(out, "  # %zu does not divide inputs of ", group);
    pare__draft_put_widths(&t->draft, group, out);
    pare__text_put(out, ": the last group of a row is shorter");
    if (fits)
        pare__text_put(out, "; %zu divides them", fits);
    pare__text_put(out, ".\n");
}
