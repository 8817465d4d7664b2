/* Stages and modifiers of llm-compressor to passes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "compress/init/translate_internal.h"

/* For a comment and a terminal: printing characters of ASCII alone. */
static char *printable(pare_arena *a, const char *text)
{
    char *const out = pare_arena_text(a, text, strlen(text));
    for (char *p = out; p && *p; p++)
        if (*p < 0x20 || *p > 0x7e)
            *p = '?';
    return out;
}

/* "key: value". */
static char *describe(pare_arena *a, const pare_yaml *node)
{
    char text[128];
    const bool scalar = node->kind == PARE_YAML_SCALAR;
    (void)snprintf(text, sizeof text, "%.60s%s%.60s", node->key ? node->key->text : "",
                   node->key && scalar ? ": " : "", scalar ? node->text : "");
    return printable(a, text);
}

void pare__leave(pare__translation *t, const pare_yaml *node, const char *why)
{
    pare_arena *const a = t->draft.a;
    if (t->lefts == t->room) {
        t->room = t->room ? 2 * t->room : 16;
        pare_init_left *const more = PARE_NEW(a, pare_init_left, t->room);
        if (!more) {
            t->status = PARE_ENOMEM;
            return;
        }
        for (size_t i = 0; i < t->lefts; i++)
            more[i] = t->left[i];
        t->left = more;
    }
    const pare_place place = node->key ? node->key->place : node->place;
    t->left[t->lefts] = (pare_init_left){place.line, describe(a, node), printable(a, why)};
    if (!t->left[t->lefts].what || !t->left[t->lefts].why)
        t->status = PARE_ENOMEM;
    else
        t->lefts++;
}

bool pare__node_number(const pare_yaml *node, double *out)
{
    if (!node || node->kind != PARE_YAML_SCALAR || !node->text[0] ||
        node->text[strspn(node->text, "0123456789.eE+-")] != '\0')
        return false;
    char *end;
    *out = strtod(node->text, &end);
    return *end == '\0' && isfinite(*out);
}

/* Words of YAML 1.1, which their reader takes: True, TRUE. */
bool pare__node_is(const pare_yaml *node, const char *word)
{
    if (!node || node->kind != PARE_YAML_SCALAR)
        return false;
    const char *text = node->text;
    for (; *text && *word; text++, word++)
        if ((*text >= 'A' && *text <= 'Z' ? *text + 32 : *text) != *word)
            return false;
    return *text == *word;
}

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

void pare__item_put(pare__translation *t, const pare_yaml *node, const pare__item *item,
                    const pare__patterns *targets, const pare__patterns *skip)
{
    static const pare__patterns none;
    if (!targets->all && targets->count == 0) {
        pare__leave(t, node, "its targets leave no linear to work on");
        return;
    }
    const int len = item->len ? (int)item->len - 2 : 0; /* without the last ", " */
    pare__text_put(&t->draft.passes, "  # line %zu\n  - %s: {%.*s",
                   node->key ? node->key->place.line : node->place.line, item->pass->name, len,
                   item->text);
    put_patterns(t, "targets", targets->all ? &none : targets, len > 0);
    put_patterns(t, "skip", skip, len > 0 || (!targets->all && targets->count));
    pare__text_put(&t->draft.passes, "}\n");
    t->passes++;
}

/* Keys that say how their program works and not what comes out, or that stand for what is always
 * so here. */
static bool is_manner(const pare_yaml *e)
{
    static const char *const manner[] = {"sequential_targets", "offload_hessians", "offload_device",
                                         "preserve_sparsity_mask"};
    for (size_t i = 0; i < sizeof manner / sizeof *manner; i++)
        if (strcmp(e->key->text, manner[i]) == 0)
            return true;
    return strcmp(e->key->text, "sequential_update") == 0 && pare__node_is(e, "true");
}

static void leave_others(pare__translation *t, const pare_yaml *modifier, const char *const *known)
{
    for (const pare_yaml *e = modifier->first; e; e = e->next) {
        bool found = is_manner(e) || pare_yaml_is_null(e);
        for (size_t i = 0; !found && known[i]; i++)
            found = strcmp(e->key->text, known[i]) == 0;
        if (!found)
            pare__leave(t, e,
                        strcmp(e->key->text, "mappings") == 0
                            ? "pairs of layers are not chosen here: scales go into the norm or the "
                              "linear in front of each input"
                        : strcmp(e->key->text, "sequential_update") == 0
                            ? "every block is calibrated on what the compressed ones before it give"
                            : "no counterpart");
    }
}

/* What a transform skips: names to ignore, and linears whose inputs it cannot scale, which are
 * listed. False: it can scale none. */
static bool read_skip(pare__translation *t, const pare_yaml *modifier, const char *pass,
                      pare__patterns *skip)
{
    const char *name[PARE_ROLES];
    const pare_yaml *const own = pare_yaml_get(modifier, "ignore");
    char text[128];
    bool none;
    const size_t fixed = pare__draft_fixed(&t->draft, pass, name, &none);
    pare__patterns_read(t, own ? own : t->ignore, true, skip);
    for (size_t i = 0; i < fixed && !none; i++) {
        (void)snprintf(text, sizeof text, "*.%s", name[i]);
        const char *const pattern = pare_arena_text(t->draft.a, text, strlen(text));
        if (pattern)
            pare__patterns_join(t, skip,
                                &(pare__patterns){.text = (const char *[]){pattern}, .count = 1});
        else
            t->status = PARE_ENOMEM;
    }
    if (fixed)
        pare__leave(t, modifier,
                    none ? "nothing in front of the linears of this model takes its scales"
                         : "nothing in front of some linears of this model takes its scales: they "
                           "are skipped");
    return !none;
}

static void translate_smoothquant(pare__translation *t, const pare_yaml *modifier)
{
    static const char *const known[] = {"smoothing_strength", "ignore", NULL};
    const pare_yaml *const strength = pare_yaml_get(modifier, "smoothing_strength");
    pare__item item = {.pass = pare_pass_find("smoothquant")};
    pare__patterns skip;
    double alpha = 0.5;
    leave_others(t, modifier, known);
    if (!read_skip(t, modifier, "smoothquant", &skip))
        return;
    if (strength && !pare__node_number(strength, &alpha))
        pare__leave(t, strength, "expected a number from 0 to 1");
    pare__item_set(t, &item, strength, "alpha", alpha);
    pare__item_put(t, modifier, &item, &(pare__patterns){.all = true}, &skip);
}

static void translate_awq(pare__translation *t, const pare_yaml *modifier)
{
    static const char *const known[] = {"duo_scaling", "n_grid",        "ignore", "scheme",
                                        "targets",     "config_groups", NULL};
    const pare_yaml *const duo = pare_yaml_get(modifier, "duo_scaling");
    const pare_yaml *const steps = pare_yaml_get(modifier, "n_grid");
    const bool quantizes =
        pare_yaml_get(modifier, "scheme") || pare_yaml_get(modifier, "config_groups");
    pare__item item = {.pass = pare_pass_find("awq")};
    pare__patterns skip;
    double count;
    leave_others(t, modifier, known);
    if (read_skip(t, modifier, "awq", &skip)) {
        if (pare__node_is(duo, "both"))
            pare__leave(t, duo, "one of the two forms is tried: duo: true");
        pare__item_set(t, &item, duo, "clip", 0); /* they do not clip */
        pare__item_set(t, &item, duo, "duo", !pare__node_is(duo, "false"));
        if (steps && pare__node_number(steps, &count))
            pare__item_set(t, &item, steps, "steps", count);
        pare__item_put(t, modifier, &item, &(pare__patterns){.all = true}, &skip);
    }
    if (quantizes)
        pare__translate_quantizer(t, modifier, false);
}

/* N of each M go there, and N of each M stay here. False: none, "0:0", or not understood. */
static bool read_structure(pare__translation *t, const pare_yaml *node, double *pattern)
{
    unsigned gone = 0, of = 0;
    char rest;
    if (!node || pare_yaml_is_null(node))
        return false;
    if (node->kind != PARE_YAML_SCALAR || strlen(node->text) > 8 ||
        sscanf(node->text, "%2u:%2u%c", &gone, &of, &rest) != 2 || gone > of) {
        pare__leave(t, node, "expected N:M: of each M inputs N go");
        return false;
    }
    *pattern = PARE_PATTERN(of - gone, of);
    return of > 0;
}

static void read_owl(pare__translation *t, const pare_yaml *modifier, pare__item *item)
{
    const pare_yaml *const profile = pare_yaml_get(modifier, "sparsity_profile");
    const pare_yaml *const spread = pare_yaml_get(modifier, "owl_lmbda");
    const pare_yaml *const outlier = pare_yaml_get(modifier, "owl_m");
    double value;
    if (!profile || pare_yaml_is_null(profile))
        return;
    if (!pare__node_is(profile, "owl")) {
        pare__leave(t, profile,
                    "every linear loses the same share; ratios: owl, isc or search "
                    "shares it out");
        return;
    }
    item->len +=
        (size_t)snprintf(item->text + item->len, sizeof item->text - item->len, "ratios: owl, ");
    if (spread && pare__node_number(spread, &value))
        pare__item_set(t, item, spread, "spread", value);
    if (outlier && pare__node_number(outlier, &value))
        pare__item_set(t, item, outlier, "outlier", value);
}

static void translate_pruner(pare__translation *t, const pare_yaml *modifier, const char *pass)
{
    static const char *const known[] = {
        "sparsity",       "mask_structure", "targets",   "ignore",           "block_size",
        "dampening_frac", "owl_m",          "owl_lmbda", "sparsity_profile", NULL};
    const pare_yaml *const sparsity = pare_yaml_get(modifier, "sparsity");
    const pare_yaml *const block = pare_yaml_get(modifier, "block_size");
    const pare_yaml *const damp = pare_yaml_get(modifier, "dampening_frac");
    const pare_yaml *const list = pare_yaml_get(modifier, "targets");
    const pare_yaml *const mask = pare_yaml_get(modifier, "mask_structure");
    const bool sweeps = strcmp(pass, "sparsegpt") == 0;
    pare__item item = {.pass = pare_pass_find(pass)};
    pare__patterns targets, skip;
    double value, pattern = 0;
    t->draft.prunes = true;
    leave_others(t, modifier, known);
    if (read_structure(t, mask, &pattern)) {
        pare__item_set(t, &item, mask, "pattern", pattern);
    } else {
        if (!sparsity || !pare__node_number(sparsity, &value)) {
            pare__leave(t, sparsity ? sparsity : modifier,
                        "sparsity is one number for all linears; write a pass for each share");
            return;
        }
        pare__item_set(t, &item, sparsity, "sparsity", value);
        read_owl(t, modifier, &item);
    }
    if (sweeps && damp && pare__node_number(damp, &value))
        pare__item_set(t, &item, damp, "damp", value);
    if (sweeps && block && pare__node_number(block, &value))
        pare__item_set(t, &item, block, "block", value);
    pare__patterns_read(t, list, false, &targets);
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    targets.all = targets.all || !list;
    pare__item_put(t, modifier, &item, &targets, &skip);
}

static void translate_modifier(pare__translation *t, const pare_yaml *m)
{
    static const char *const known[] = {"scheme",     "config_groups",   "targets",
                                        "ignore",     "kv_cache_scheme", "dampening_frac",
                                        "block_size", "actorder",        NULL};
    static const pare_yaml nothing = {.kind = PARE_YAML_MAPPING};
    const char *const name = m->key->text;
    const bool gptq = strcmp(name, "GPTQModifier") == 0;
    pare_yaml empty = nothing;
    if (pare_yaml_is_null(m)) { /* all its keys have defaults */
        empty.key = m->key;
        m = &empty;
    } else if (m->kind != PARE_YAML_MAPPING) {
        pare__leave(t, m, "expected the settings of a modifier");
        return;
    }
    if (gptq || strcmp(name, "QuantizationModifier") == 0) {
        leave_others(t, m, known);
        pare__translate_quantizer(t, m, gptq);
    } else if (strcmp(name, "AWQModifier") == 0) {
        translate_awq(t, m);
    } else if (strcmp(name, "SmoothQuantModifier") == 0) {
        translate_smoothquant(t, m);
    } else if (strcmp(name, "SparseGPTModifier") == 0) {
        translate_pruner(t, m, "sparsegpt");
    } else if (strcmp(name, "WandaPruningModifier") == 0) {
        translate_pruner(t, m, "wanda");
    } else if (strcmp(name, "SpinQuantModifier") == 0 || strcmp(name, "QuIPModifier") == 0) {
        pare__leave(t, m, "the pass rotate comes nearest; put \"- rotate: {}\" in front");
    } else if (strcmp(name, "ConstantPruningModifier") != 0) { /* zeros always stay zeros here */
        pare__leave(t, m, "no counterpart; \"pare help\" lists the passes");
    }
}

/* Calls `visit` for each modifier: a mapping of them, or a list of such. */
static void each_modifier(pare__translation *t, const pare_yaml *group,
                          void (*visit)(pare__translation *t, const pare_yaml *m))
{
    if (group->kind == PARE_YAML_MAPPING)
        for (const pare_yaml *m = group->first; m; m = m->next)
            visit(t, m);
    else if (group->kind == PARE_YAML_LIST)
        for (const pare_yaml *e = group->first; e; e = e->next)
            if (e->kind == PARE_YAML_MAPPING)
                each_modifier(t, e, visit);
            else
                pare__leave(t, e, "expected a modifier");
    else
        pare__leave(t, group, "expected modifiers");
}

static bool holds_modifiers(const char *key)
{
    const size_t len = strlen(key), end = strlen("modifiers");
    return len >= end && strcmp(key + len - end, "modifiers") == 0;
}

/* A stage is a mapping with a key *_modifiers; that key may stand at the top, too. */
static void each_stage(pare__translation *t, const pare_yaml *root,
                       void (*visit)(pare__translation *t, const pare_yaml *m),
                       void (*other)(pare__translation *t, const pare_yaml *node))
{
    for (const pare_yaml *e = root->first; e; e = e->next) {
        if (holds_modifiers(e->key->text)) {
            each_modifier(t, e, visit);
        } else if (e->kind != PARE_YAML_MAPPING) {
            other(t, e);
        } else {
            for (const pare_yaml *k = e->first; k; k = k->next)
                if (holds_modifiers(k->key->text))
                    each_modifier(t, k, visit);
                else
                    other(t, k);
        }
    }
}

static void find_ignore(pare__translation *t, const pare_yaml *m)
{
    const bool quantizes = strcmp(m->key->text, "GPTQModifier") == 0 ||
                           strcmp(m->key->text, "QuantizationModifier") == 0;
    if (quantizes && m->kind == PARE_YAML_MAPPING && !t->ignore)
        t->ignore = pare_yaml_get(m, "ignore");
}

static void pass_over(pare__translation *t, const pare_yaml *node)
{
    (void)t;
    (void)node;
}

static void leave_setting(pare__translation *t, const pare_yaml *node)
{
    if (strcmp(node->key->text, "run_type") != 0)
        pare__leave(t, node, "no counterpart");
    else if (!pare__node_is(node, "oneshot"))
        pare__leave(t, node, "nothing is trained here");
}

static int by_line(const void *a, const void *b)
{
    const pare_init_left *const x = a, *const y = b;
    return (x->line > y->line) - (x->line < y->line);
}

/* Stages in order; what was left out as comments behind the recipe. */
static pare_status translate(pare__translation *t, const char *file, const pare_yaml *root)
{
    pare_ctx *const cx = t->draft.cx;
    each_stage(t, root, find_ignore, pass_over);
    t->lefts = 0; /* the second walk lists them again */
    each_stage(t, root, translate_modifier, leave_setting);
    PARE_TRY(t->status);
    if (t->lefts)
        qsort(t->left, t->lefts, sizeof *t->left, by_line);
    if (t->passes == 0 && t->lefts)
        return pare_fail(cx, PARE_EUSAGE, "%s:%zu: nothing is left to do: %s: %s", file,
                         t->left[0].line, t->left[0].what, t->left[0].why);
    if (t->passes == 0 && t->cached)
        return pare_fail(
            cx, PARE_EUSAGE,
            "%s: holds a kv_cache_scheme alone, and a recipe needs a pass; \"pare eval "
            "MODEL --kv METHOD\" runs any model with such a cache",
            file);
    if (t->passes == 0)
        return pare_fail(cx, PARE_EUSAGE,
                         "%s: holds no modifiers; a recipe of llm-compressor has them under "
                         "STAGE: NAME_modifiers:",
                         file);
    if (t->lefts)
        pare__text_put(&t->draft.tail, "# Left out, by line of the other recipe:\n");
    for (size_t i = 0; i < t->lefts; i++)
        pare__text_put(&t->draft.tail, "#   %zu: %s: %s\n", t->left[i].line, t->left[i].what,
                       t->left[i].why);
    return PARE_OK;
}

pare_status pare_init_translate(pare_ctx *cx, pare_arena *a, const pare_init *init,
                                const char *file, const char *text, size_t len,
                                pare_init_result *out)
{
    pare_yaml *root = NULL;
    pare__translation t = {0};
    *out = (pare_init_result){0};
    PARE_TRY(pare_yaml_parse(cx, a, file, true, text, len, &root));
    if (!root || root->kind != PARE_YAML_MAPPING)
        return pare_fail(cx, PARE_EUSAGE, "%s:1:1: holds no stages of modifiers", file);
    pare_status s = pare__draft_begin(cx, a, init, &t.draft);
    t.draft.suffix = "compressed";
    if (s == PARE_OK) {
        pare__text_put(&t.draft.head, "# Translated from a recipe of llm-compressor; \"pare plan\" "
                                      "says what it will do.\n");
        s = translate(&t, file, root);
    }
    if (s == PARE_OK)
        s = pare__draft_finish(&t.draft, &out->text, &out->len);
    out->left = t.left;
    out->lefts = t.lefts;
    pare__draft_end(&t.draft);
    return s;
}
