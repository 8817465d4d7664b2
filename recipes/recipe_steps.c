/* Passes, evaluations and exports of a recipe. */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "recipes/pattern.h"
#include "recipes/recipe_internal.h"

const pare_word pare__all_words[] = {{"all", 0}, {0}};
static const pare_word nan_words[] = {
    {"error", PARE_NAN_ERROR}, {"clamp", PARE_NAN_CLAMP}, {"zero", PARE_NAN_ZERO}, {0}};

static const pare_param limit = {
    .name = "limit",
    .type = PARE_PARAM_INTEGER,
    .min = 1,
    .max = 1 << 24,
    .words = pare__all_words,
    .help = "the first windows of a text, items of choice, documents of tasks"};
static const pare_param ranks = {
    .name = "tensor_parallel", .type = PARE_PARAM_INTEGER, .min = 1, .max = 1024, .fallback = 1};
static const pare_param shots = {.name = "shots", .type = PARE_PARAM_INTEGER, .max = 64};
const pare_word pare_run_on_words[] = {
    {"cpu", PARE_RUN_ON_CPU}, {"cuda", PARE_RUN_ON_CUDA}, {"auto", PARE_RUN_ON_AUTO}, {0}};
static const pare_param device = {
    .name = "device",
    .type = PARE_PARAM_CHOICE,
    .words = pare_run_on_words,
    .fallback = PARE_RUN_ON_CPU,
    .help = "where both models run: cuda is the first NVIDIA GPU; auto takes it where it can be "
            "used, and the CPU elsewhere"};
const pare_word pare_products_words[] = {
    {"exact", PARE_PRODUCTS_EXACT}, {"f16", PARE_PRODUCTS_F16}, {0}};
static const pare_param products = {
    .name = "device_products",
    .type = PARE_PARAM_CHOICE,
    .words = pare_products_words,
    .fallback = PARE_PRODUCTS_EXACT,
    .help = "how a GPU multiplies floats: as the CPU does (exact), or with inputs rounded to F16"};
const pare_param pare__nan = {.name = "nan",
                              .type = PARE_PARAM_CHOICE,
                              .words = nan_words,
                              .help = "what to do with NaN and infinity in weights"};
const pare_param *const pare_evaluate_params[] = {&pare__window, &limit, &device, &products, NULL};
const pare_param *const pare_nan_param = &pare__nan;

/* Entry of a list that is a single-key mapping, {gptq: {...}}, or just gptq. */
static pare_status single_key(const pare__walk *w, const pare_yaml *entry, const char *example,
                              const pare_yaml **key, const pare_yaml **value)
{
    if (entry->kind == PARE_YAML_SCALAR && !pare_yaml_is_null(entry)) {
        *key = entry;
        *value = NULL;
        return PARE_OK;
    }
    PARE_TRY(pare__mapping(w, entry, example));
    if (entry->count == 0)
        return pare_recipe_fail(w->cx, entry->place, "an empty entry; write it as in \"%s\"",
                                example);
    *key = entry->first->key;
    *value = entry->first;
    return PARE_OK;
}

static bool is_word(const char *text, const char *const *words, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

/* A second key in an entry: one of the `words` of the first that is not indented, or a dash that
 * was left out; `alone` names what is no entry of a list and takes one pass, or is NULL. */
static pare_status only_key(const pare__walk *w, const pare_yaml *entry, const char *const *words,
                            size_t count, const char *alone)
{
    if (entry->kind != PARE_YAML_MAPPING || entry->count < 2)
        return PARE_OK;
    const pare_yaml *const second = entry->first->next->key;
    char quoted[PARE__QUOTE], first[PARE__QUOTE];
    (void)pare__quote(quoted, second->text);
    (void)pare__quote(first, entry->first->key->text);
    if (is_word(second->text, words, count))
        return pare_recipe_fail(w->cx, second->place,
                                "%s belongs to %s; indent it further, or write {...}", quoted,
                                first);
    if (alone)
        return pare_recipe_fail(w->cx, second->place,
                                "%s stands beside %s; \"%s\" takes one quantizer, as in \"%s: "
                                "{rtn: {bits: 8}}\": leave one of them out",
                                quoted, first, alone, alone);
    return pare_recipe_fail(w->cx, second->place,
                            "%s stands beside %s; each entry of the list has one key: begin "
                            "the line with \"- \" (--set changes keys of the pass that is there: "
                            "%s)",
                            quoted, first, first);
}

/* The value of a single key: a mapping, or what stands for an empty one. */
static pare_status inner_mapping(const pare__walk *w, const pare_yaml *value, const char *example,
                                 const pare_yaml **out)
{
    static const pare_yaml nothing = {.kind = PARE_YAML_MAPPING};
    if (value)
        PARE_TRY(pare__mapping(w, value, example));
    *out = value && value->kind == PARE_YAML_MAPPING ? value : &nothing;
    return PARE_OK;
}

static pare_status find_pass(const pare__walk *w, const pare_yaml *key, size_t *pass)
{
    for (size_t i = 0; i < w->pass_count; i++) {
        if (strcmp(key->text, w->passes[i].name) == 0) {
            *pass = i;
            return PARE_OK;
        }
    }
    char quoted[PARE__QUOTE], what[PARE__QUOTE + 32];
    (void)snprintf(what, sizeof what, "unknown pass %s", pare__quote(quoted, key->text));
    const char **const names = PARE_NEW(w->a, const char *, w->pass_count);
    if (!names)
        return PARE_ENOMEM;
    for (size_t i = 0; i < w->pass_count; i++)
        names[i] = w->passes[i].name;
    return pare__fail_word(w, key->place, what, key->text, names, w->pass_count);
}

/* Patterns are compiled here only to find errors while their place is known. */
pare_status pare__patterns(const pare__walk *w, const pare_yaml *mapping, const char *name,
                           pare_texts *out)
{
    const pare_yaml *const node = pare_yaml_get(mapping, name);
    if (!node)
        return PARE_OK;
    PARE_TRY(pare__texts(w, node, out));
    for (size_t i = 0; i < out->count; i++) {
        const pare_mark mark = pare_arena_mark(w->a);
        pare_pattern *p = NULL;
        const pare_status s = pare_pattern_new(w->cx, w->a, out->item[i].text, &p);
        pare_arena_rewind(w->a, mark);
        if (s == PARE_EUSAGE)
            return pare_recipe_fail_at(w->cx, s, out->item[i].place);
        PARE_TRY(s);
    }
    return PARE_OK;
}

/* What would have no effect is refused, with its default, too. */
static pare_status check_idle(const pare__walk *w, const pare_step *step, const bool *given)
{
    const pare_pass_words *const pass = &w->passes[step->pass];
    for (size_t i = 0; pass->params[i].name; i++) {
        const pare_param *const p = &pass->params[i];
        char value[PARE__WORD], by[PARE__WORD];
        if (!given[i] || !pare__param_idle(pass->params, step->value, i, by))
            continue;
        pare_param_print(p, step->value[i], value, sizeof value);
        return pare_recipe_fail(w->cx, step->value_place[i],
                                "%s: %s %s is for %s: %s, not for %s: %s; leave it out or write "
                                "%s: %.*s",
                                pass->name, p->name, value, p->by, p->when, p->by, by, p->by,
                                (int)strcspn(p->when, ","), p->when);
    }
    return PARE_OK;
}

static pare_status read_params(const pare__walk *w, const pare_yaml *mapping,
                               const char *const *words, size_t params, pare_step *step)
{
    const pare_pass_words *const pass = &w->passes[step->pass];
    PARE_TRY(pare__keys_listed(w, mapping, pass->name, words, params + 2,
                               pass->untargeted ? params : params + 2));
    bool given[PARE_PARAMS_MAX];
    for (size_t i = 0; i < params; i++)
        PARE_TRY(pare__entry(w, mapping, &pass->params[i], &step->value[i], &given[i],
                             &step->value_place[i]));
    PARE_TRY(check_idle(w, step, given));
    PARE_TRY(pare__patterns(w, mapping, "targets", &step->targets));
    PARE_TRY(pare__patterns(w, mapping, "skip", &step->skip));
    if (pare_yaml_get(mapping, "targets") && step->targets.count == 0)
        return pare_recipe_fail(w->cx, pare_yaml_get(mapping, "targets")->place,
                                "\"targets\" is an empty list, which selects nothing; leave it "
                                "out to select every linear inside the blocks");
    return PARE_OK;
}

/* `table` names what has the step in place of a list, or is NULL. */
static pare_status read_step(const pare__walk *w, const pare_yaml *entry, const char *table,
                             pare_step *step)
{
    const pare_yaml *key = NULL, *value = NULL, *mapping = NULL;
    PARE_TRY(single_key(w, entry, table ? "rtn: {bits: 8}" : "gptq: {bits: 4}", &key, &value));
    assert(key);
    step->place = key->place;
    PARE_TRY(find_pass(w, key, &step->pass));
    const pare_param *const params = w->passes[step->pass].params;
    const size_t count = pare_param_count(params);
    assert(count <= PARE_PARAMS_MAX);
    const char *words[PARE_PARAMS_MAX + 2];
    for (size_t i = 0; i < count; i++)
        words[i] = params[i].name;
    words[count] = "targets";
    words[count + 1] = "skip";
    PARE_TRY(only_key(w, entry, words, count + 2, table));
    char example[64];
    (void)snprintf(example, sizeof example, "%.20s: {%.20s: ...}", key->text, words[0]);
    PARE_TRY(inner_mapping(w, value, example, &mapping));
    return read_params(w, mapping, words, count, step);
}

static pare_status check_list(const pare__walk *w, const pare_yaml *list, const char *example)
{
    char quoted[PARE__QUOTE];
    if (list->kind == PARE_YAML_LIST)
        return PARE_OK;
    return pare_recipe_fail(w->cx, list->place, "%s must be a list, as in \"- %s\"",
                            pare__quote(quoted, list->key->text), example);
}

pare_status pare__steps(const pare__walk *w, const pare_yaml *list)
{
    pare_recipe *const out = w->out;
    PARE_TRY(check_list(w, list, "gptq: {bits: 4}"));
    if (list->count == 0)
        return pare_recipe_fail(w->cx, list->place, "\"passes\" is empty; there is nothing to do");
    out->step = PARE_NEW(w->a, pare_step, list->count);
    if (!out->step)
        return PARE_ENOMEM;
    for (const pare_yaml *e = list->first; e; e = e->next)
        PARE_TRY(read_step(w, e, NULL, &out->step[out->steps++]));
    return PARE_OK;
}

const char *const pare_table_names[PARE_TABLES] = {"embeddings", "head"};

pare_status pare__table(const pare__walk *w, const pare_yaml *node, pare_table table)
{
    const char *const name = pare_table_names[table];
    pare_step *const step = PARE_NEW(w->a, pare_step, 1);
    if (!step)
        return PARE_ENOMEM;
    if (node->kind == PARE_YAML_LIST)
        return pare_recipe_fail(w->cx, node->place,
                                "\"%s\" takes one quantizer, as in \"%s: {rtn: {bits: 8}}\"", name,
                                name);
    PARE_TRY(read_step(w, node, name, step));
    const pare_texts *const list = step->targets.count ? &step->targets : &step->skip;
    if (list->count)
        return pare_recipe_fail(w->cx, list->item[0].place,
                                "\"%s\" is one matrix: leave targets and skip out", name);
    w->out->table[table] = step;
    return PARE_OK;
}

/* The second of two keys that exclude each other, in the order of the text; NULL if at most one
 * of them is there. *first is the other, or the only one. */
static const pare_yaml *exclusive(const pare_yaml *mapping, const char *const *words, size_t count,
                                  const pare_yaml **first)
{
    *first = NULL;
    for (const pare_yaml *e = mapping->first; e; e = e->next) {
        if (!is_word(e->key->text, words, count))
            continue;
        if (*first)
            return e;
        *first = e;
    }
    return NULL;
}

pare_status pare__one_source(const pare__walk *w, const pare_yaml *mapping, pare_place place,
                             const char *where, const char *const *words, size_t count,
                             const pare_yaml **source)
{
    const pare_yaml *const second = exclusive(mapping, words, count, source);
    if (second)
        return pare_recipe_fail(w->cx, second->key->place,
                                "%s has both \"%s\" and \"%s\"; keep one", where,
                                (*source)->key->text, second->key->text);
    if (!*source) {
        char list[PARE__LIST];
        return pare_recipe_fail(w->cx, place, "%s needs one of %s", where,
                                pare__list(list, words, count));
    }
    return PARE_OK;
}

static const char *const evaluation_kinds[] = {
    [PARE_EVALUATE_PERPLEXITY] = "perplexity", [PARE_EVALUATE_KL] = "kl",
    [PARE_EVALUATE_CHOICE] = "choice",         [PARE_EVALUATE_TASK] = "tasks",
    [PARE_EVALUATE_NEEDLE] = "needle",         [PARE_EVALUATE_CONTINUATIONS] = "continuations"};
static const char *const evaluation_examples[] = {
    [PARE_EVALUATE_PERPLEXITY] = "perplexity: {text: FILE}",
    [PARE_EVALUATE_KL] = "kl: {text: FILE}",
    [PARE_EVALUATE_CHOICE] = "choice: {file: FILE}",
    [PARE_EVALUATE_TASK] = "tasks: {piqa: FILE}",
    [PARE_EVALUATE_NEEDLE] = PARE__NEEDLE_EXAMPLE,
    [PARE_EVALUATE_CONTINUATIONS] = "continuations: {text: FILE}"};
enum { EVALUATION_KINDS = sizeof evaluation_kinds / sizeof *evaluation_kinds };

const char *pare_evaluation_kind_name(pare_evaluation_kind k)
{
    return evaluation_kinds[k];
}

bool pare_evaluation_asks(pare_evaluation_kind k)
{
    return k == PARE_EVALUATE_CHOICE || k == PARE_EVALUATE_TASK || k == PARE_EVALUATE_NEEDLE;
}

bool pare_evaluation_scores(pare_evaluation_kind k)
{
    return k == PARE_EVALUATE_PERPLEXITY || k == PARE_EVALUATE_KL;
}

const pare_text *pare_evaluation_data(const pare_evaluation *e)
{
    return e->text.text ? &e->text : e->tokens.text ? &e->tokens : &e->file;
}

static const char held_out_alone[] =
    "held_out stands alone, as in \"evaluate: held_out\": it measures kl and perplexity on windows "
    "of the calibration text; in a list write evaluations of other texts, as in \"- kl: {text: "
    "FILE}\", and leave it out";

static pare_status evaluation_kind(const pare__walk *w, const pare_yaml *key,
                                   pare_evaluation_kind *out)
{
    for (size_t i = 0; i < EVALUATION_KINDS; i++) {
        *out = (pare_evaluation_kind)i;
        if (strcmp(key->text, evaluation_kinds[i]) == 0)
            return PARE_OK;
    }
    char quoted[PARE__QUOTE], what[PARE__QUOTE + 32];
    if (strcmp(key->text, "held_out") == 0)
        return pare_recipe_fail(w->cx, key->place, "%s", held_out_alone);
    (void)snprintf(what, sizeof what, "unknown evaluation %s", pare__quote(quoted, key->text));
    return pare__fail_word(w, key->place, what, key->text, evaluation_kinds, EVALUATION_KINDS);
}

/* The mapping behind "perplexity" or "kl". The first two words name the data. */
static pare_status read_measure(const pare__walk *w, const pare_yaml *mapping, const pare_yaml *key,
                                pare_evaluation *out)
{
    static const char *const words[] = {"text",  "tokens", "window",
                                        "limit", "device", "device_products"};
    const pare_yaml *source = NULL;
    double window = 0;
    PARE_TRY(pare__keys(w, mapping, key->text, words, 6));
    PARE_TRY(pare__one_source(w, mapping, key->place, key->text, words, 2, &source));
    assert(source);
    const bool is_text = strcmp(source->key->text, "text") == 0;
    PARE_TRY(pare__text(w, source, is_text ? &out->text : &out->tokens));
    PARE_TRY(pare__entry(w, mapping, &pare__window, &window, &out->window_given, NULL));
    out->window = (size_t)window;
    return PARE_OK;
}

static pare_status read_choice(const pare__walk *w, const pare_yaml *mapping, const pare_yaml *key,
                               pare_evaluation *out)
{
    static const char *const words[] = {"file", "limit", "device", "device_products"};
    PARE_TRY(pare__keys(w, mapping, key->text, words, 4));
    const pare_yaml *const file = pare_yaml_get(mapping, "file");
    if (!file)
        return pare_recipe_fail(w->cx, key->place, "choice needs a file, as in \"%s\"",
                                evaluation_examples[PARE_EVALUATE_CHOICE]);
    return pare__text(w, file, &out->file);
}

static const char *const of_tasks[] = {"limit", "shots",  "shots_from",
                                       "by",    "device", "device_products"};

static bool is_of_tasks(const char *word)
{
    for (size_t i = 0; i < sizeof of_tasks / sizeof *of_tasks; i++)
        if (strcmp(word, of_tasks[i]) == 0)
            return true;
    return false;
}

/* {piqa: FILE, ..} names where shots are from; each must be a task of [first, end). */
static pare_status read_shots(const pare__walk *w, const pare_yaml *from, pare_evaluation *first,
                              const pare_evaluation *end)
{
    if (!from)
        return PARE_OK;
    if (from->kind != PARE_YAML_MAPPING)
        return pare__fail_takes(w, from, "a mapping of tasks to files, as in {piqa: train.jsonl}");
    for (const pare_yaml *f = from->first; f; f = f->next) {
        pare_evaluation *e = first;
        while (e < end && strcmp(e->task.text, f->key->text) != 0)
            e++;
        if (e == end)
            return pare_recipe_fail(w->cx, f->key->place,
                                    "shots_from has \"%s\", which is none of the tasks here",
                                    f->key->text);
        PARE_TRY(pare__text(w, f, &e->shots_file));
    }
    return PARE_OK;
}

/* Every key that is no setting is a task: an evaluation of its own, with the settings of all. */
static pare_status read_tasks(const pare__walk *w, const pare_yaml *mapping, const pare_yaml *key,
                              const pare_evaluation *like)
{
    pare_recipe *const r = w->out;
    const size_t first = r->evaluations;
    const pare_yaml *const by = pare_yaml_get(mapping, "by");
    pare_text field = {0};
    double count = 0;
    PARE_TRY(pare__entry(w, mapping, &shots, &count, NULL, NULL));
    if (by)
        PARE_TRY(pare__text(w, by, &field));
    for (const pare_yaml *f = mapping->first; f; f = f->next) {
        if (is_of_tasks(f->key->text))
            continue;
        if (strspn(f->key->text, "abcdefghijklmnopqrstuvwxyz0123456789_") < strlen(f->key->text))
            return pare_recipe_fail(w->cx, f->key->place,
                                    "\"%s\" is no task; \"pare help tasks\" lists them",
                                    f->key->text);
        pare_evaluation *const e = &r->evaluation[r->evaluations++];
        *e = *like;
        e->task = (pare_text){f->key->text, f->key->place};
        e->shots = (size_t)count;
        e->by = field;
        PARE_TRY(pare__text(w, f, &e->file));
    }
    if (r->evaluations == first)
        return pare_recipe_fail(w->cx, key->place, "tasks needs a task and its file, as in \"%s\"",
                                evaluation_examples[PARE_EVALUATE_TASK]);
    return read_shots(w, pare_yaml_get(mapping, "shots_from"), &r->evaluation[first],
                      &r->evaluation[r->evaluations]);
}

/* What every kind has. */
static pare_status read_common(const pare__walk *w, const pare_yaml *mapping, pare_evaluation *out)
{
    double most = 0, device_at = PARE_RUN_ON_CPU, how = PARE_PRODUCTS_EXACT;
    pare_place products_place;
    PARE_TRY(pare__entry(w, mapping, &limit, &most, NULL, NULL));
    PARE_TRY(pare__entry(w, mapping, &device, &device_at, NULL, &out->device_place));
    PARE_TRY(pare__entry(w, mapping, &products, &how, NULL, &products_place));
    out->limit = (size_t)most;
    out->device = (pare_run_on)device_at;
    out->products = (pare_products)how;
    if (out->products != PARE_PRODUCTS_EXACT && out->device == PARE_RUN_ON_CPU)
        return pare_recipe_fail(w->cx, products_place,
                                "device_products is for device: cuda or auto; add one of them, or "
                                "leave device_products out");
    return PARE_OK;
}

static pare_status read_evaluation(const pare__walk *w, const pare_yaml *entry, size_t number)
{
    static const char *const words[] = {"text",       "tokens",  "window",          "file",
                                        "limit",      "device",  "device_products", "shots",
                                        "shots_from", "by",      "lengths",         "keys",
                                        "seed",       "prompts", "continue_tokens", "temperature"};
    const pare_yaml *key = NULL, *value = NULL, *mapping = NULL;
    PARE_TRY(single_key(w, entry, evaluation_examples[0], &key, &value));
    assert(key);
    pare_evaluation e = {.entry = number, .place = key->place};
    PARE_TRY(evaluation_kind(w, key, &e.kind));
    PARE_TRY(only_key(w, entry, words, sizeof words / sizeof *words, NULL));
    PARE_TRY(inner_mapping(w, value, evaluation_examples[e.kind], &mapping));
    if (e.kind == PARE_EVALUATE_TASK) {
        PARE_TRY(read_common(w, mapping, &e));
        return read_tasks(w, mapping, key, &e);
    }
    PARE_TRY(e.kind == PARE_EVALUATE_CHOICE          ? read_choice(w, mapping, key, &e)
             : e.kind == PARE_EVALUATE_NEEDLE        ? pare__read_needle(w, mapping, key, &e)
             : e.kind == PARE_EVALUATE_CONTINUATIONS ? pare__read_continuations(w, mapping, key, &e)
                                                     : read_measure(w, mapping, key, &e));
    PARE_TRY(read_common(w, mapping, &e));
    w->out->evaluation[w->out->evaluations++] = e;
    return PARE_OK;
}

/* Evaluations that an entry makes at most. */
static size_t most_of(const pare_yaml *entry)
{
    const pare_yaml *const value = entry->kind == PARE_YAML_MAPPING ? entry->first : NULL;
    return value && value->kind == PARE_YAML_MAPPING && value->count ? value->count : 1;
}

/* What was meant by evaluations that are no list. */
static pare_evaluation_kind example_kind(const pare_yaml *node)
{
    for (size_t i = 0; i < EVALUATION_KINDS && node->kind == PARE_YAML_MAPPING; i++)
        if (node->first && strcmp(node->first->key->text, evaluation_kinds[i]) == 0)
            return (pare_evaluation_kind)i;
    return PARE_EVALUATE_PERPLEXITY;
}

static pare_status check_evaluations(const pare__walk *w, const pare_yaml *list)
{
    if (list->kind == PARE_YAML_SCALAR)
        return pare__fail_takes(w, list,
                                "held_out, or a list of evaluations, as in \"- kl: {text: FILE}\"");
    return check_list(w, list, evaluation_examples[example_kind(list)]);
}

pare_status pare__evaluations(const pare__walk *w, const pare_yaml *list)
{
    pare_recipe *const out = w->out;
    if (pare_yaml_is_null(list))
        return PARE_OK;
    if (list->kind == PARE_YAML_SCALAR && strcmp(list->text, "held_out") == 0) {
        out->held_out = true;
        out->held_out_place = list->place;
        return PARE_OK;
    }
    PARE_TRY(check_evaluations(w, list));
    size_t most = 0, number = 0;
    for (const pare_yaml *e = list->first; e; e = e->next)
        most += most_of(e);
    out->evaluation = PARE_NEW(w->a, pare_evaluation, most);
    if (!out->evaluation)
        return PARE_ENOMEM;
    for (const pare_yaml *e = list->first; e; e = e->next)
        PARE_TRY(read_evaluation(w, e, number++));
    return PARE_OK;
}

/* One of the two texts of an export. */
static pare_status read_member(const pare__walk *w, const pare_yaml *entry, const char *name,
                               pare_text *out)
{
    const pare_yaml *const node = pare_yaml_get(entry, name);
    if (!node)
        return pare_recipe_fail(w->cx, entry->place,
                                "an export needs a %s, as in \"{format: gptq, path: DIR}\"", name);
    return pare__text(w, node, out);
}

pare_status pare__exports(const pare__walk *w, const pare_yaml *list)
{
    static const char *const words[] = {"format", "path", "tensor_parallel"};
    pare_recipe *const out = w->out;
    if (pare_yaml_is_null(list))
        return PARE_OK;
    PARE_TRY(check_list(w, list, "{format: gptq, path: DIR}"));
    out->export = PARE_NEW(w->a, pare_recipe_export, list->count);
    if (!out->export)
        return PARE_ENOMEM;
    for (const pare_yaml *e = list->first; e; e = e->next) {
        double number;
        pare_recipe_export *const x = &out->export[out->exports++];
        *x = (pare_recipe_export){.place = e->place};
        if (e->kind != PARE_YAML_MAPPING)
            return pare__fail_takes(w, e, "a mapping, as in \"{format: gptq, path: DIR}\"");
        PARE_TRY(pare__keys(w, e, "an export", words, 3));
        PARE_TRY(read_member(w, e, words[0], &x->format));
        PARE_TRY(read_member(w, e, words[1], &x->path));
        PARE_TRY(pare__entry(w, e, &ranks, &number, NULL, NULL));
        x->ranks = (size_t)number;
    }
    return PARE_OK;
}
