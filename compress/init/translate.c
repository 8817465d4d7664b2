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

/* A key that is listed already gets one more reason, if it is another. */
static bool list_again(pare__translation *t, pare_place place, const char *why)
{
    for (size_t i = 0; i < t->lefts; i++) {
        pare_init_left *const left = &t->left[i];
        if (left->line != place.line || left->column != place.column)
            continue;
        if (strstr(left->why, why))
            return true;
        const size_t size = strlen(left->why) + strlen(why) + sizeof "; ";
        char *const both = pare_arena_take(t->draft.a, size, 1);
        if (both)
            (void)snprintf(both, size, "%s; %s", left->why, why);
        else
            t->status = PARE_ENOMEM;
        left->why = both ? both : left->why;
        return true;
    }
    return false;
}

static void list(pare__translation *t, const pare_yaml *node, const char *why, bool implied)
{
    pare_arena *const a = t->draft.a;
    const pare_place place = node->key ? node->key->place : node->place;
    why = printable(a, why);
    if (!why) {
        t->status = PARE_ENOMEM;
        return;
    }
    if (list_again(t, place, why))
        return;
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
    pare_init_left *const left = &t->left[t->lefts];
    *left = (pare_init_left){place.line, place.column, describe(a, node), why, implied, false};
    if (!left->what)
        t->status = PARE_ENOMEM;
    else
        t->lefts++;
}

void pare__leave(pare__translation *t, const pare_yaml *node, const char *why)
{
    list(t, node, why, false);
}

void pare__imply(pare__translation *t, const pare_yaml *node, const char *why)
{
    list(t, node, why, true);
}

void pare__doubt(pare__translation *t, const pare_yaml *node, const char *why)
{
    const size_t at = t->lefts;
    list(t, node, why, true);
    if (t->lefts > at)
        t->left[at].unknown = true;
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

/* Keys that a pass has no parameter for. `when`: the value with which nothing is lost, NULL for
 * any; `why_not` is for the others. */
static const struct {
    const char *key, *when, *why, *why_not;
} manners[] = {
    {"sequential_update", "true",
     "each block is calibrated on what the compressed ones before give",
     "each block is calibrated on what the compressed ones before give; a job cannot do without"},
    {"sequential_targets", NULL, "a model is always worked on block by block", NULL},
    {"offload_hessians", NULL, "it says where their program keeps data, not what comes out", NULL},
    {"offload_device", NULL, "it says where their program keeps data, not what comes out", NULL},
    {"enable_torch_compile", NULL, "it says how their program computes, not what comes out", NULL},
    {"device_ids", NULL, "it says how their program computes, not what comes out", NULL},
    {"bypass_divisibility_checks", NULL, "it says what their program refuses, not what comes out",
     NULL},
    {"preserve_sparsity_mask", "true", "zeros stay zeros in every later pass",
     "zeros stay zeros in every later pass"},
};

static bool list_manner(pare__translation *t, const pare_yaml *e)
{
    for (size_t i = 0; i < sizeof manners / sizeof *manners; i++) {
        if (strcmp(e->key->text, manners[i].key) != 0)
            continue;
        if (!manners[i].when || pare__node_is(e, manners[i].when))
            pare__imply(t, e, manners[i].why);
        else
            pare__leave(t, e, manners[i].why_not);
        return true;
    }
    return false;
}

static void leave_others(pare__translation *t, const pare_yaml *modifier, const char *const *known)
{
    for (const pare_yaml *e = modifier->first; e; e = e->next) {
        bool found = pare_yaml_is_null(e);
        for (size_t i = 0; !found && known[i]; i++)
            found = strcmp(e->key->text, known[i]) == 0;
        if (found || list_manner(t, e))
            continue;
        pare__leave(t, e,
                    strcmp(e->key->text, "mappings") == 0
                        ? "pairs of layers are not chosen here: scales go into the norm or the "
                          "linear in front of each input"
                        : "no counterpart");
    }
}

/* What a transform skips: names to ignore, and linears whose inputs it cannot scale, which are
 * listed. False: it can scale none. */
static bool read_skip(pare__translation *t, const pare_yaml *modifier, const char *pass,
                      pare__patterns *skip)
{
    const char *name[PARE__DRAFT_FIXED];
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

static void put_awq(pare__translation *t, const pare_yaml *modifier)
{
    const pare_yaml *const duo = pare_yaml_get(modifier, "duo_scaling");
    pare__item item = {.pass = pare_pass_find("awq"),
                       .why = "  # clip: false: their AWQ scales and does not clip.\n"};
    pare__patterns skip;
    if (!read_skip(t, modifier, "awq", &skip))
        return;
    if (!duo)
        (void)snprintf(item.why, sizeof item.why,
                       "  # clip: false: their AWQ scales and does not clip; duo: true is their "
                       "default.\n");
    else if (pare__node_is(duo, "both"))
        pare__leave(t, duo, "one of the two forms is tried: duo: true");
    else if (!pare__node_is(duo, "true") && !pare__node_is(duo, "false"))
        pare__leave(t, duo, "expected true, false or both: duo: true");
    pare__item_set(t, &item, duo, "clip", 0);
    pare__item_set(t, &item, duo, "duo", !pare__node_is(duo, "false"));
    pare__item_set_number(t, &item, pare_yaml_get(modifier, "n_grid"), "steps");
    pare__item_put(t, modifier, &item, &(pare__patterns){.all = true}, &skip);
}

static void translate_awq(pare__translation *t, const pare_yaml *modifier)
{
    static const char *const known[] = {"duo_scaling", "n_grid",        "ignore",          "scheme",
                                        "targets",     "config_groups", "kv_cache_scheme", NULL};
    leave_others(t, modifier, known);
    put_awq(t, modifier);
    if (pare_yaml_get(modifier, "scheme") || pare_yaml_get(modifier, "config_groups") ||
        pare_yaml_get(modifier, "kv_cache_scheme"))
        pare__translate_quantizer(t, modifier, false);
    else if (pare_yaml_get(modifier, "targets"))
        pare__leave(t, pare_yaml_get(modifier, "targets"),
                    "without a scheme they say nothing: all inputs that can be scaled are");
}

/* auto-round's learning, with the quantizer behind it that stores what was learned. */
static void translate_autoround(pare__translation *t, const pare_yaml *modifier)
{
    static const char *const known[] = {"iters",         "batch_size",      "lr",
                                        "ignore",        "scheme",          "targets",
                                        "config_groups", "kv_cache_scheme", NULL};
    pare__item item = {.pass = pare_pass_find("signround")};
    pare__patterns targets, skip;
    const pare_yaml *const iters = pare_yaml_get(modifier, "iters");
    leave_others(t, modifier, known);
    if (pare__node_is(iters, "0")) {
        pare__imply(t, iters, "without a step it rounds to nearest");
        pare__translate_quantizer(t, modifier, false);
        return;
    }
    pare__item_set_number(t, &item, iters, "steps");
    pare__item_set_number(t, &item, pare_yaml_get(modifier, "batch_size"), "batch");
    pare__item_set_number(t, &item, pare_yaml_get(modifier, "lr"), "rate");
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    pare__quantizer_targets(t, modifier, &targets, &skip);
    pare__item_put(t, modifier, &item, &targets, &skip);
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

static const char with_mask[] = "with a mask_structure every linear loses the same share";

static void leave_given(pare__translation *t, const pare_yaml *node, const char *why)
{
    if (node && !pare_yaml_is_null(node))
        pare__leave(t, node, why);
}

static void read_owl(pare__translation *t, const pare_yaml *modifier, pare__item *item)
{
    const pare_yaml *const profile = pare_yaml_get(modifier, "sparsity_profile");
    const pare_yaml *const spread = pare_yaml_get(modifier, "owl_lmbda");
    const pare_yaml *const outlier = pare_yaml_get(modifier, "owl_m");
    if (pare__node_is(profile, "owl")) {
        pare__item_add(item, "ratios: owl");
        pare__item_set_number(t, item, spread, "spread");
        pare__item_set_number(t, item, outlier, "outlier");
        return;
    }
    if (profile && !pare_yaml_is_null(profile))
        pare__leave(t, profile,
                    "every linear loses the same share; ratios: owl, isc or search shares it out");
    leave_given(t, spread, "it is of sparsity_profile: owl, which is not asked for");
    leave_given(t, outlier, "it is of sparsity_profile: owl, which is not asked for");
}

/* How much goes. False: nothing that we have. */
static bool read_share(pare__translation *t, const pare_yaml *modifier, pare__item *item)
{
    const pare_yaml *const sparsity = pare_yaml_get(modifier, "sparsity");
    const pare_yaml *const mask = pare_yaml_get(modifier, "mask_structure");
    double share, pattern;
    if (!read_structure(t, mask, &pattern)) {
        if (!sparsity || !pare__node_number(sparsity, &share)) {
            pare__leave(t, sparsity ? sparsity : modifier,
                        "sparsity is one number for all linears; write a pass for each share");
            return false;
        }
        pare__item_set(t, item, sparsity, "sparsity", share);
        read_owl(t, modifier, item);
        return true;
    }
    pare__item_set(t, item, mask, "pattern", pattern);
    const double keep = pare_pattern_keep(pattern), of = pare_pattern_of(pattern);
    if (!pare__node_number(sparsity, &share) || share != 1 - keep / of)
        leave_given(t, sparsity, "mask_structure says how many go");
    leave_given(t, pare_yaml_get(modifier, "sparsity_profile"), with_mask);
    leave_given(t, pare_yaml_get(modifier, "owl_lmbda"), with_mask);
    leave_given(t, pare_yaml_get(modifier, "owl_m"), with_mask);
    return true;
}

static void translate_pruner(pare__translation *t, const pare_yaml *modifier, const char *pass)
{
    static const char *const sweeping[] = {
        "sparsity", "mask_structure", "targets",    "ignore",         "sparsity_profile",
        "owl_m",    "owl_lmbda",      "block_size", "dampening_frac", NULL};
    static const char *const plain[] = {"sparsity",         "mask_structure", "targets",   "ignore",
                                        "sparsity_profile", "owl_m",          "owl_lmbda", NULL};
    const pare_yaml *const list = pare_yaml_get(modifier, "targets");
    const bool sweeps = strcmp(pass, "sparsegpt") == 0;
    pare__item item = {.pass = pare_pass_find(pass)};
    pare__patterns targets, skip;
    t->draft.prunes = true;
    leave_others(t, modifier, sweeps ? sweeping : plain);
    if (!read_share(t, modifier, &item))
        return;
    if (sweeps) {
        pare__item_set_number(t, &item, pare_yaml_get(modifier, "dampening_frac"), "damp");
        pare__item_set_number(t, &item, pare_yaml_get(modifier, "block_size"), "block");
    }
    pare__patterns_read(t, list, false, &targets);
    pare__patterns_read(t, pare_yaml_get(modifier, "ignore"), true, &skip);
    targets.all = targets.all || !list;
    pare__item_put(t, modifier, &item, &targets, &skip);
}

static void translate_quantizer(pare__translation *t, const pare_yaml *m, bool gptq)
{
    static const char *const gptq_keys[] = {"scheme",     "config_groups",   "targets",
                                            "ignore",     "kv_cache_scheme", "dampening_frac",
                                            "block_size", "actorder",        NULL};
    static const char *const rtn_keys[] = {"scheme", "config_groups",   "targets",
                                           "ignore", "kv_cache_scheme", NULL};
    leave_others(t, m, gptq ? gptq_keys : rtn_keys);
    pare__translate_quantizer(t, m, gptq);
}

static void leave_rotation(pare__translation *t, const pare_yaml *m)
{
    char why[256];
    const char *const none = pare_config_no_rotation(&t->draft.model.config);
    (void)snprintf(why, sizeof why, "the pass rotate comes nearest%s%s",
                   none ? ", which cannot rotate this model: " : "; put \"- rotate: {}\" in front",
                   none ? none : "");
    pare__leave(t, m, why);
}

static void translate_modifier(pare__translation *t, const pare_yaml *m)
{
    static const pare_yaml nothing = {.kind = PARE_YAML_MAPPING};
    const char *const name = m->key->text;
    pare_yaml empty = nothing;
    if (pare_yaml_is_null(m)) { /* all its keys have defaults */
        empty.key = m->key;
        m = &empty;
    } else if (m->kind != PARE_YAML_MAPPING) {
        pare__leave(t, m, "expected the settings of a modifier");
        return;
    }
    t->modifier = name;
    if (strcmp(name, "GPTQModifier") == 0)
        translate_quantizer(t, m, true);
    else if (strcmp(name, "QuantizationModifier") == 0)
        translate_quantizer(t, m, false);
    else if (strcmp(name, "AWQModifier") == 0)
        translate_awq(t, m);
    else if (strcmp(name, "AutoRoundModifier") == 0)
        translate_autoround(t, m);
    else if (strcmp(name, "SmoothQuantModifier") == 0)
        translate_smoothquant(t, m);
    else if (strcmp(name, "SparseGPTModifier") == 0)
        translate_pruner(t, m, "sparsegpt");
    else if (strcmp(name, "WandaPruningModifier") == 0)
        translate_pruner(t, m, "wanda");
    else if (strcmp(name, "ConstantPruningModifier") == 0)
        pare__imply(t, m, "zeros stay zeros in every later pass");
    else if (strcmp(name, "SpinQuantModifier") == 0 || strcmp(name, "QuIPModifier") == 0)
        leave_rotation(t, m);
    else
        pare__leave(t, m, "no counterpart; \"pare help\" lists the passes");
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
    else if (pare__node_is(node, "oneshot"))
        pare__imply(t, node, "nothing is trained here");
    else
        pare__leave(t, node, "nothing is trained here");
}

static int by_line(const void *a, const void *b)
{
    const pare_init_left *const x = a, *const y = b;
    return (x->line > y->line) - (x->line < y->line);
}

static void put_list(pare__translation *t, const char *title, bool implied, bool unknown)
{
    pare_text_out *const out = &t->draft.tail;
    bool any = false;
    for (size_t i = 0; i < t->lefts; i++) {
        if (t->left[i].implied != implied || t->left[i].unknown != unknown)
            continue;
        pare__text_put(out, "%s#   %zu: %s: %s\n", any ? "" : title, t->left[i].line,
                       t->left[i].what, t->left[i].why);
        any = true;
    }
}

/* The first that is left out; there is one. */
static const pare_init_left *first_lost(const pare__translation *t)
{
    const pare_init_left *first = t->left;
    while (first->implied)
        first++;
    return first;
}

static pare_status check_passes(const pare__translation *t, size_t lost)
{
    pare_ctx *const cx = t->draft.cx;
    if (t->passes)
        return PARE_OK;
    if (lost) {
        const pare_init_left *const first = first_lost(t);
        return pare_fail(cx, PARE_EUSAGE, "%s:%zu: nothing is left to do: %s: %s", t->draft.file,
                         first->line, first->what, first->why);
    }
    if (t->cached)
        return pare_fail(
            cx, PARE_EUSAGE,
            "%s: holds a kv_cache_scheme alone, and a recipe needs a pass; \"pare eval "
            "MODEL --kv METHOD\" runs any model with such a cache",
            t->draft.file);
    return pare_fail(cx, PARE_EUSAGE,
                     "%s: holds no modifiers; a recipe of llm-compressor has them under STAGE: "
                     "NAME_modifiers:",
                     t->draft.file);
}

/* Stages in order; what was left out as comments behind the recipe. */
static pare_status translate(pare__translation *t, const pare_yaml *root, size_t *lost)
{
    each_stage(t, root, find_ignore, pass_over);
    t->lefts = 0; /* the second walk lists them again */
    each_stage(t, root, translate_modifier, leave_setting);
    PARE_TRY(t->status);
    if (t->lefts)
        qsort(t->left, t->lefts, sizeof *t->left, by_line);
    for (size_t i = 0; i < t->lefts; i++)
        *lost += !t->left[i].implied;
    PARE_TRY(check_passes(t, *lost));
    put_list(t, "# Left out, by line of the other recipe:\n", false, false);
    put_list(t, "# Names nothing in this model; by line of the other recipe:\n", true, true);
    put_list(t, "# Needs no key here, because it is always so; by line of the other recipe:\n",
             true, false);
    return PARE_OK;
}

/* What a plan refuses may be so for want of what was left out. */
static pare_status finish(pare__translation *t, pare_init_result *out)
{
    const pare_status s = pare__draft_finish(&t->draft, &out->text, &out->len);
    if (s != PARE_EUSAGE || !out->lost)
        return s;
    const pare_init_left *const first = first_lost(t);
    return pare_fail_after(t->draft.cx, s, "left out is line %zu: %s: %s", first->line, first->what,
                           first->why);
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
    t.draft.file = file;
    if (s == PARE_OK) {
        pare__text_put(&t.draft.head, "# Translated from a recipe of llm-compressor; \"pare plan\" "
                                      "says what it will do.\n");
        s = pare__names_read(&t);
    }
    if (s == PARE_OK)
        s = translate(&t, root, &out->lost);
    if (s == PARE_OK)
        s = finish(&t, out);
    out->left = t.left;
    out->lefts = t.lefts;
    out->warning = t.draft.warning;
    out->no_export = t.draft.no_export;
    pare__draft_end(&t.draft);
    return s;
}
