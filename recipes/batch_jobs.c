/* Jobs of a batch: combinations, those left out and those added, each as a checked recipe. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "recipes/batch_recipe_internal.h"
#include "runtime/file.h"

static const char *const no_word = "method";

static pare_yaml *copy_tree(pare_arena *a, const pare_yaml *node)
{
    pare_yaml *const copy = PARE_NEW(a, pare_yaml, 1);
    if (!copy)
        return NULL;
    *copy = *node;
    copy->first = copy->last = copy->next = NULL;
    copy->count = 0;
    for (const pare_yaml *e = node->first; e; e = e->next) {
        pare_yaml *const entry = copy_tree(a, e); /* nested 64 times at most */
        if (!entry)
            return NULL;
        pare_yaml_append(copy, entry);
    }
    return copy;
}

static pare_status put_text(const pare__batch *b, pare_yaml *root, const char *key,
                            const pare_yaml *at, const char *text)
{
    const pare_yaml value = {.plain = true, .place = at->place, .text = text};
    return pare__put(&b->w, root, at->place, key, strlen(key), &value);
}

/* The parameter in every pass that has it. */
static pare_status put_param(const pare__batch *b, pare_yaml *root, const pare__method *m,
                             const pare__axis *axis, const pare_yaml *value)
{
    const pare_yaml *const passes = pare__batch_passes(b, m);
    size_t i = 0;
    for (const pare_yaml *e = passes ? passes->first : NULL; e; e = e->next, i++) {
        char path[256];
        pare_yaml one = *e;
        one.next = NULL;
        const pare_yaml alone = {.kind = PARE_YAML_LIST, .first = &one};
        if (!pare__batch_has(b, &(pare__method){.passes = &alone}, axis->key->text))
            continue;
        (void)snprintf(path, sizeof path, "passes.%zu.%.64s.%.64s", i, pare__batch_pass_name(e),
                       axis->key->text);
        PARE_TRY(pare__put(&b->w, root, axis->key->place, path, strlen(path), value));
    }
    return PARE_OK;
}

/* Keys and values of a tree. */
static size_t count_nodes(const pare_yaml *node)
{
    size_t count = 1;
    for (const pare_yaml *e = node->first; e; e = e->next)
        count += count_nodes(e); /* nested 64 times at most */
    return count;
}

static pare_status build_tree(pare__batch *b, const pare__pick *p, pare_yaml **out)
{
    b->base_nodes = b->base_nodes ? b->base_nodes : count_nodes(b->base);
    b->nodes += b->base_nodes;
    if (b->nodes > PARE__NODES)
        return pare_recipe_fail(b->w.cx, b->base->place,
                                "the recipe has %zu keys and values, and all jobs together would "
                                "have more than %d",
                                b->base_nodes, PARE__NODES);
    pare_yaml *const root = copy_tree(b->w.a, b->base);
    if (!root)
        return PARE_ENOMEM;
    if (!pare_yaml_get(root, "pare"))
        PARE_TRY(put_text(b, root, "pare", root, "1"));
    if (p->model)
        PARE_TRY(put_text(b, root, "model", p->model->path, p->model->path->text));
    if (p->method) {
        pare_yaml *const passes = copy_tree(b->w.a, p->method->passes);
        if (!passes)
            return PARE_ENOMEM;
        PARE_TRY(pare__put(&b->w, root, passes->place, "passes", strlen("passes"), passes));
    }
    for (size_t i = 0; i < b->axes; i++) {
        const pare__axis *const axis = &b->axis[i];
        if (!p->value[i])
            continue;
        const char *const path = pare__batch_path(axis->key->text);
        PARE_TRY(axis->path
                     ? pare__put(&b->w, root, axis->key->place, path, strlen(path), p->value[i])
                     : put_param(b, root, p->method, axis, p->value[i]));
    }
    *out = root;
    return PARE_OK;
}

/* Relative to the file that it is written in. */
static pare_status resolve(const pare__batch *b, pare_text *t)
{
    char real[PATH_MAX];
    if (!t->text || t->text[0] == '/')
        return PARE_OK;
    char *const directory = pare_path_directory(b->w.a, t->place.file);
    if (!directory)
        return PARE_ENOMEM;
    if (!realpath(*directory ? directory : ".", real))
        return pare_file_fail(b->w.cx, directory, "find");
    t->text = pare_path_join(b->w.a, real, t->text);
    return t->text ? PARE_OK : PARE_ENOMEM;
}

/* FOLDER/NAME-FILE, where a relative folder is in that of the batch: jobs do not write over each
 * other. */
static pare_status place_export(const pare__batch *b, const char *name, pare_text *path)
{
    size_t folder = strlen(path->text);
    while (folder > 1 && path->text[folder - 1] == '/')
        folder--;
    while (folder > 0 && path->text[folder - 1] != '/')
        folder--;
    const char *const file = pare__batch_word(b->w.a, path->text);
    const size_t size = file ? folder + strlen(name) + strlen(file) + 2 : 0;
    char *const text = file ? pare_arena_take(b->w.a, size, 1) : NULL;
    if (!text)
        return PARE_ENOMEM;
    (void)snprintf(text, size, "%.*s%s-%s", (int)folder, path->text, name, file);
    path->text = text;
    return PARE_OK;
}

static pare_status resolve_paths(const pare__batch *b, const char *name, pare_recipe *r)
{
    PARE_TRY(resolve(b, &r->model));
    PARE_TRY(resolve(b, &r->tokenizer));
    PARE_TRY(resolve(b, &r->original));
    PARE_TRY(resolve(b, &r->calibration.tokens));
    PARE_TRY(resolve(b, &r->calibration.from));
    PARE_TRY(resolve(b, &r->calibration.keep));
    for (size_t i = 0; i < r->calibration.text.count; i++)
        PARE_TRY(resolve(b, &r->calibration.text.item[i]));
    for (size_t i = 0; i < r->evaluations; i++) {
        PARE_TRY(resolve(b, &r->evaluation[i].text));
        PARE_TRY(resolve(b, &r->evaluation[i].tokens));
        PARE_TRY(resolve(b, &r->evaluation[i].file));
        PARE_TRY(resolve(b, &r->evaluation[i].shots_file));
    }
    for (size_t i = 0; i < r->exports; i++)
        PARE_TRY(place_export(b, name, &r->export[i].path));
    r->output.text = name;
    return PARE_OK;
}

static pare_status grow(pare__batch *b, pare_place place)
{
    if (b->out->jobs == PARE_BATCH_JOBS_MAX)
        return pare_recipe_fail(b->w.cx, place, "more than %d jobs", PARE_BATCH_JOBS_MAX);
    if (b->out->jobs < b->room)
        return PARE_OK;
    const size_t room = b->room ? 2 * b->room : 16;
    pare_batch_job *const job = PARE_NEW(b->w.a, pare_batch_job, room);
    const char **const after = PARE_NEW(b->w.a, const char *, room);
    const pare_yaml **const waits = PARE_NEW(b->w.a, const pare_yaml *, room);
    if (!job || !after || !waits)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->out->jobs; i++) {
        job[i] = b->out->job[i];
        after[i] = b->after[i];
        waits[i] = b->waits[i];
    }
    b->out->job = job;
    b->after = after;
    b->waits = waits;
    b->room = room;
    return PARE_OK;
}

static pare_status check_unique(const pare__batch *b, pare_place place, const char *name)
{
    for (size_t i = 0; i < b->out->jobs; i++)
        if (strcasecmp(b->out->job[i].name, name) == 0)
            return pare_recipe_fail(b->w.cx, place,
                                    "two jobs are called \"%s\"; an entry of \"include\" takes a "
                                    "\"name\"",
                                    name);
    return PARE_OK;
}

/* "passes.0.gptq.bits" sets what "bits" does, too, and "recipe.seed" what "seed" does. */
static bool sets_same(const pare__axis *one, const pare__axis *other)
{
    const char *const path = pare__batch_path(one->key->text), *const dot = strrchr(path, '.');
    const char *const word = other->key->text;
    if (one->path && other->path)
        return path != one->key->text && strcmp(path, pare__batch_path(word)) == 0;
    return one->path && !other->path && dot && strncmp(path, "passes.", strlen("passes.")) == 0 &&
           strcmp(dot + 1, word) == 0;
}

static pare_status check_once(const pare__batch *b, const pare__pick *p)
{
    char one_quoted[PARE__QUOTE], other_quoted[PARE__QUOTE];
    for (size_t i = 0; i < b->axes; i++)
        for (size_t j = 0; j < b->axes; j++)
            if (i != j && p->value[i] && p->value[j] && sets_same(&b->axis[i], &b->axis[j]))
                return pare_recipe_fail(b->w.cx, p->value[i]->place,
                                        "%s sets what %s does, too; leave one out",
                                        pare__quote(one_quoted, b->axis[i].key->text),
                                        pare__quote(other_quoted, b->axis[j].key->text));
    return PARE_OK;
}

pare_status pare__batch_job(pare__batch *b, const pare__pick *p, pare_place place, const char *name)
{
    pare_yaml *root;
    PARE_TRY(grow(b, place));
    PARE_TRY(check_once(b, p));
    if (!name)
        PARE_TRY(pare__batch_name(b, p, &name));
    PARE_TRY(check_unique(b, place, name));
    pare_batch_job *const job = &b->out->job[b->out->jobs];
    *job = (pare_batch_job){.name = name, .place = place, .after = b->out->jobs};
    b->after[b->out->jobs] = NULL;
    PARE_TRY(build_tree(b, p, &root));
    b->w.out = &job->recipe;
    const pare_status s = pare__read_tree(&b->w, b->base_file, root);
    if (s != PARE_OK)
        return pare_fail_after(b->w.cx, s, "that is the job \"%s\"", name);
    if (!job->recipe.model.text)
        return pare_recipe_fail(b->w.cx, b->base->place,
                                "the job \"%s\" has no model; write \"models: [PATH]\"", name);
    job->model = pare__batch_word(b->w.a, job->recipe.model.text);
    if (!job->model)
        return PARE_ENOMEM;
    PARE_TRY(resolve_paths(b, name, &job->recipe));
    b->out->jobs++;
    return PARE_OK;
}

/* ---- combinations ---- */

static const pare__axis *find_axis(const pare__batch *b, const char *key, size_t *at)
{
    for (size_t i = 0; i < b->axes; i++)
        if (strcmp(b->axis[i].key->text, key) == 0) {
            *at = i;
            return &b->axis[i];
        }
    return NULL;
}

/* Keys of an entry of "exclude": what is varied. */
static pare_status check_entry(const pare__batch *b, const pare_yaml *entry)
{
    const char *words[PARE__AXES + 2];
    size_t count = 0;
    for (size_t i = 0; i < b->axes; i++)
        words[count++] = b->axis[i].key->text;
    words[count++] = no_word;
    words[count++] = "model";
    if (entry->kind != PARE_YAML_MAPPING || entry->count == 0)
        return pare__fail_takes(&b->w, entry, "a mapping, as in {bits: 3}");
    PARE_TRY(pare__keys(&b->w, entry, "an entry of \"exclude\", which has keys of the matrix",
                        words, count));
    for (const pare_yaml *e = entry->first; e; e = e->next)
        if (e->kind != PARE_YAML_SCALAR)
            return pare__fail_takes(&b->w, e, "one value");
    return PARE_OK;
}

/* The value of a pick for a key, as the file writes it; NULL: it has none. */
static const char *value_of(const pare__batch *b, const pare__pick *p, const char *key)
{
    size_t at;
    if (strcmp(key, no_word) == 0)
        return p->method ? p->method->name : NULL;
    if (strcmp(key, "model") == 0)
        return p->model ? p->model->name : NULL;
    if (!find_axis(b, key, &at) || !p->value[at])
        return NULL;
    return p->value[at]->text;
}

static bool is_excluded(const pare__batch *b, const pare__pick *p)
{
    size_t i = 0;
    bool out = false;
    for (const pare_yaml *entry = b->exclude ? b->exclude->first : NULL; entry;
         entry = entry->next, i++) {
        bool all = true;
        for (const pare_yaml *e = entry->first; all && e; e = e->next) {
            const char *const value = value_of(b, p, e->key->text);
            all = value &&
                  (strcmp(value, e->text) == 0 || (strcmp(e->key->text, "model") == 0 &&
                                                   strcmp(p->model->path->text, e->text) == 0));
        }
        b->excluded[i] |= all;
        out |= all;
    }
    return out;
}

/* One combination for each value of the axes from `at` on that the method has. */
static pare_status expand_axes(pare__batch *b, pare__pick *p, size_t at)
{
    if (at == b->axes) {
        const pare_place place = b->matrix ? b->matrix->place : p->model->path->place;
        if (b->tried++ == PARE__COMBINATIONS)
            return pare_recipe_fail(b->w.cx, place,
                                    "more than %d combinations, of which \"exclude\" leaves most "
                                    "out; list the jobs in \"include\"",
                                    PARE__COMBINATIONS);
        return is_excluded(b, p) ? PARE_OK : pare__batch_job(b, p, place, NULL);
    }
    const pare__axis *const axis = &b->axis[at];
    p->value[at] = NULL;
    if (!axis->path && !pare__batch_has(b, p->method, axis->key->text))
        return expand_axes(b, p, at + 1);
    for (const pare_yaml *e = axis->values->first; e; e = e->next) {
        p->value[at] = e;
        PARE_TRY(expand_axes(b, p, at + 1));
    }
    return PARE_OK;
}

static pare_status expand_models(pare__batch *b)
{
    for (size_t m = 0; m < b->models || m == 0; m++)
        for (size_t i = 0; i < b->methods || i == 0; i++) {
            pare__pick p = {.model = b->models ? &b->model[m] : NULL,
                            .method = b->methods ? &b->method[i] : NULL};
            PARE_TRY(expand_axes(b, &p, 0));
        }
    return PARE_OK;
}

pare_status pare__batch_expand(pare__batch *b)
{
    if (b->exclude) {
        if (b->exclude->kind != PARE_YAML_LIST)
            return pare__fail_takes(&b->w, b->exclude, "a list, as in [{bits: 3}]");
        b->excluded = PARE_NEW(b->w.a, bool, b->exclude->count);
        if (!b->excluded)
            return PARE_ENOMEM;
        for (const pare_yaml *e = b->exclude->first; e; e = e->next)
            PARE_TRY(check_entry(b, e));
    }
    if (b->matrix || b->models)
        PARE_TRY(expand_models(b));
    size_t i = 0;
    for (const pare_yaml *e = b->exclude ? b->exclude->first : NULL; e; e = e->next)
        if (!b->excluded[i++])
            return pare_recipe_fail(b->w.cx, e->place,
                                    "this entry of \"exclude\" fits no combination of the matrix");
    return PARE_OK;
}

/* ---- jobs more ---- */

static bool is_own_key(const char *key)
{
    static const char *const own[] = {"name", "model", "method", "after"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(own[i], key) == 0)
            return true;
    return false;
}

/* An axis for every key of the entry that sets something: those of the matrix, and new ones. */
static pare_status entry_axes(pare__batch *b, const pare_yaml *entry, pare__pick *p)
{
    for (const pare_yaml *e = entry->first; e; e = e->next) {
        size_t at;
        if (is_own_key(e->key->text))
            continue;
        PARE_TRY(pare__batch_check_key(b, e->key));
        PARE_TRY(pare__batch_check_meaning(b, p->method, e->key));
        if (!find_axis(b, e->key->text, &at)) {
            if (b->axes == PARE__AXES)
                return pare_recipe_fail(b->w.cx, e->key->place, "more than %d keys are varied",
                                        PARE__AXES);
            at = b->axes++;
            const char *const dot = strrchr(e->key->text, '.');
            b->axis[at] =
                (pare__axis){.key = e->key,
                             .word = pare__batch_word(b->w.a, dot ? dot + 1 : e->key->text),
                             .path = pare__batch_is_path(e->key->text)};
            if (!b->axis[at].word)
                return PARE_ENOMEM;
        }
        if (e->kind != PARE_YAML_SCALAR || pare_yaml_is_null(e) || !e->text[0])
            return pare__batch_fail_value(b, e, e->key->text);
        if (!b->axis[at].path && !pare__batch_has(b, p->method, e->key->text))
            return pare__batch_fail_param(b, p->method, e->key);
        p->value[at] = e;
    }
    return PARE_OK;
}

/* A method of the matrix by its name, or passes. */
static pare_status entry_method(pare__batch *b, const pare_yaml *node, pare__method *out)
{
    for (size_t i = 0; i < b->methods && node->kind == PARE_YAML_SCALAR; i++)
        if (strcmp(b->method[i].name, node->text) == 0) {
            *out = b->method[i];
            return PARE_OK;
        }
    return pare__batch_method(b, node, NULL, out);
}

/* The model of an entry: one of `models`, a path, or {job: NAME}. */
static pare_status entry_model(pare__batch *b, const pare_yaml *node, pare__batch_model *out,
                               const pare_yaml **job)
{
    static const char *const words[] = {"job"};
    pare_text text;
    if (node->kind == PARE_YAML_MAPPING) {
        PARE_TRY(pare__keys(&b->w, node, "a model", words, 1));
        *job = pare_yaml_get(node, "job");
        if (!*job)
            return pare__fail_takes(&b->w, node, "a path, or {job: NAME}");
        PARE_TRY(pare__text(&b->w, *job, &text));
        *out = (pare__batch_model){text.text, *job};
        return PARE_OK;
    }
    PARE_TRY(pare__text(&b->w, node, &text));
    for (size_t i = 0; i < b->models; i++)
        if (strcmp(b->model[i].name, text.text) == 0 ||
            strcmp(b->model[i].path->text, text.text) == 0) {
            *out = b->model[i];
            return PARE_OK;
        }
    *out = (pare__batch_model){pare__batch_word(b->w.a, text.text), node};
    return out->name ? PARE_OK : PARE_ENOMEM;
}

static pare_status add_entry(pare__batch *b, const pare_yaml *entry, pare__pick *p,
                             const pare_yaml *job)
{
    const pare_yaml *const name = pare_yaml_get(entry, "name");
    const pare_yaml *const after = pare_yaml_get(entry, "after");
    pare_text text = {0};
    if (name)
        PARE_TRY(pare__batch_check_name(b, name));
    if (after)
        PARE_TRY(pare__text(&b->w, after, &text));
    if (after && job)
        return pare_recipe_fail(b->w.cx, after->key->place,
                                "the job waits for the one that writes its model; leave \"after\" "
                                "out");
    PARE_TRY(pare__batch_job(b, p, entry->place, name ? name->text : NULL));
    const size_t i = b->out->jobs - 1;
    if (job) {
        b->out->job[i].model = job->text;
        b->out->job[i].recipe.model.text = job->text; /* beside its recipe */
    }
    b->after[i] = job ? job->text : text.text;
    b->waits[i] = job ? job : after;
    return PARE_OK;
}

static pare_status include_entry(pare__batch *b, const pare_yaml *entry)
{
    if (entry->kind != PARE_YAML_MAPPING || entry->count == 0)
        return pare__fail_takes(&b->w, entry, "a mapping, as in {method: rtn, bits: 8}");
    const pare_yaml *const model = pare_yaml_get(entry, "model"), *job = NULL;
    const pare_yaml *const method = pare_yaml_get(entry, "method");
    pare__method passes;
    pare__batch_model of;
    pare__pick p = {0};
    if (method)
        PARE_TRY(entry_method(b, method, &passes));
    p.method = method ? &passes : NULL;
    if (model)
        PARE_TRY(entry_model(b, model, &of, &job));
    p.model = model ? &of : NULL;
    PARE_TRY(entry_axes(b, entry, &p));
    if (model || !b->models)
        return add_entry(b, entry, &p, job);
    if (b->models > 1 && pare_yaml_get(entry, "name"))
        return pare_recipe_fail(b->w.cx, entry->place,
                                "an entry with a \"name\" is one job; say which \"model\"");
    for (size_t i = 0; i < b->models; i++) {
        p.model = &b->model[i];
        PARE_TRY(add_entry(b, entry, &p, NULL));
    }
    return PARE_OK;
}

static pare_status find_after(const pare__batch *b, size_t job)
{
    pare_batch_recipe *const out = b->out;
    for (size_t i = 0; i < out->jobs; i++)
        if (strcmp(out->job[i].name, b->after[job]) == 0) {
            out->job[job].after = i;
            return PARE_OK;
        }
    char quoted[PARE__QUOTE], what[PARE__QUOTE + 32];
    const char **const names = PARE_NEW(b->w.a, const char *, out->jobs);
    if (!names)
        return PARE_ENOMEM;
    for (size_t i = 0; i < out->jobs; i++)
        names[i] = out->job[i].name;
    (void)snprintf(what, sizeof what, "there is no job %s", pare__quote(quoted, b->after[job]));
    return pare__fail_word(&b->w, b->waits[job]->place, what, b->after[job], names, out->jobs);
}

/* The first job of each chain; none waits for itself. */
static pare_status find_roots(const pare__batch *b)
{
    pare_batch_recipe *const out = b->out;
    for (size_t i = 0; i < out->jobs; i++) {
        size_t root = i, steps = 0;
        while (out->job[root].after != root && steps++ < out->jobs)
            root = out->job[root].after;
        if (out->job[root].after != root || (b->after[i] && out->job[i].after == i))
            return pare_recipe_fail(b->w.cx, b->waits[i]->place,
                                    "the job \"%s\" waits for itself in the end", out->job[i].name);
        out->job[i].root = root;
    }
    return PARE_OK;
}

pare_status pare__batch_include(pare__batch *b, const pare_yaml *list)
{
    if (list && list->kind != PARE_YAML_LIST)
        return pare__fail_takes(&b->w, list, "a list, as in [{method: rtn, bits: 8}]");
    for (const pare_yaml *e = list ? list->first : NULL; e; e = e->next)
        PARE_TRY(include_entry(b, e));
    if (b->out->jobs == 0)
        return pare_recipe_fail(b->w.cx, (pare_place){b->out->file, 1, 1},
                                "there is no job; \"matrix\" says what is varied, as in \"matrix: "
                                "{bits: [3, 4]}\"");
    for (size_t i = 0; i < b->out->jobs; i++)
        if (b->after[i])
            PARE_TRY(find_after(b, i));
    return find_roots(b);
}
