/* The file of a batch: its keys, the base recipe, what is varied. */
#include "recipes/batch_recipe.h"

#include <stdio.h>
#include <string.h>

#include "recipes/batch_recipe_internal.h"
#include "recipes/pattern.h"
#include "runtime/file.h"

// clang-format off
const pare_recipe_key pare_batch_keys[] = {
    {"pare", "1", "the version of the grammar; must be there"},
    {"recipe", "w4.yaml", "what all jobs begin with: a recipe, by its path or as a mapping; must be there"},
    {"output", "DIR", "the folder of the batch, with one for each job; or --output DIR"},
    {"models", "[a/, b/]", "instead of the recipe's model: each of these; or {name: PATH, ...}"},
    {"matrix", "{bits: [3, 4]}", "what is varied; every combination is a job"},
    {"exclude", "[{bits: 3}]", "combinations that are left out: those that have all that an entry says"},
    {"include", "[{bits: 8}]", "jobs more: what each sets, and its name, model, method, after"},
    {NULL, NULL, NULL},
};
// clang-format on
enum { KEYS = sizeof pare_batch_keys / sizeof *pare_batch_keys - 1, RECIPE_CAP = 1 << 20 };

const char *pare__batch_pass_name(const pare_yaml *entry)
{
    if (entry->kind == PARE_YAML_SCALAR)
        return entry->text;
    return entry->kind == PARE_YAML_MAPPING && entry->first ? entry->first->key->text : "";
}

const pare_yaml *pare__batch_passes(const pare__batch *b, const pare__method *m)
{
    const pare_yaml *const passes = m ? m->passes : pare_yaml_get(b->base, "passes");
    return passes && passes->kind == PARE_YAML_LIST ? passes : NULL;
}

static const pare_pass_words *find_pass(const pare__batch *b, const char *name)
{
    for (size_t i = 0; i < b->words->count; i++)
        if (strcmp(b->words->passes[i].name, name) == 0)
            return &b->words->passes[i];
    return NULL;
}

static bool has_param(const pare_pass_words *pass, const char *param)
{
    for (size_t i = 0; pass && pass->params[i].name; i++)
        if (strcmp(pass->params[i].name, param) == 0)
            return true;
    return false;
}

bool pare__batch_has(const pare__batch *b, const pare__method *m, const char *param)
{
    const pare_yaml *const passes = pare__batch_passes(b, m);
    for (const pare_yaml *e = passes ? passes->first : NULL; e; e = e->next)
        if (has_param(find_pass(b, pare__batch_pass_name(e)), param))
            return true;
    return false;
}

pare_status pare__batch_fail_param(const pare__batch *b, const pare__method *m,
                                   const pare_yaml *key)
{
    enum { WORDS = 8 * PARE_PARAMS_MAX };
    const char *words[WORDS];
    size_t count = 0;
    char quoted[PARE__QUOTE], what[PARE__QUOTE + 96];
    for (size_t i = m ? 0 : b->methods; i <= b->methods; i++) {
        const pare__method *const of = m ? m : i < b->methods ? &b->method[i] : NULL;
        const pare_yaml *const passes = pare__batch_passes(b, of);
        for (const pare_yaml *e = passes ? passes->first : NULL; e; e = e->next) {
            const pare_pass_words *const pass = find_pass(b, pare__batch_pass_name(e));
            for (size_t j = 0; pass && pass->params[j].name && count < WORDS; j++)
                words[count++] = pass->params[j].name;
        }
        if (m)
            break;
    }
    (void)snprintf(what, sizeof what,
                   "%s is neither a parameter of the passes nor a path such as "
                   "calibration.samples",
                   pare__quote(quoted, key->text));
    return pare__fail_word(&b->w, key->place, what, key->text, words, count);
}

/* The entry of the base recipe's passes with that name. */
static const pare_yaml *base_pass(const pare__batch *b, const char *name)
{
    const pare_yaml *const passes = pare__batch_passes(b, NULL);
    for (const pare_yaml *e = passes ? passes->first : NULL; e; e = e->next)
        if (strcmp(pare__batch_pass_name(e), name) == 0)
            return e;
    return NULL;
}

static pare_status append_pass(const pare__batch *b, pare_yaml *list, const pare_yaml *entry)
{
    pare_yaml *const copy = PARE_NEW(b->w.a, pare_yaml, 1);
    if (!copy)
        return PARE_ENOMEM;
    *copy = *entry;
    copy->next = copy->key = NULL;
    pare_yaml_append(list, copy);
    return PARE_OK;
}

/* A pass by its name alone: with the settings of the base recipe, where it stands there. */
static pare_status append_word(const pare__batch *b, pare_yaml *list, const pare_yaml *word)
{
    char quoted[PARE__QUOTE], what[PARE__QUOTE + 32];
    const char **names;
    const pare_yaml *const given = base_pass(b, word->text);
    if (find_pass(b, word->text))
        return append_pass(b, list, given ? given : word);
    (void)snprintf(what, sizeof what, "unknown pass %s", pare__quote(quoted, word->text));
    names = PARE_NEW(b->w.a, const char *, b->words->count);
    if (!names)
        return PARE_ENOMEM;
    for (size_t i = 0; i < b->words->count; i++)
        names[i] = b->words->passes[i].name;
    return pare__fail_word(&b->w, word->place, what, word->text, names, b->words->count);
}

static pare_status append_rtn(const pare__batch *b, pare_yaml *list, const pare_yaml *word)
{
    for (size_t i = 0; i < b->words->count; i++) {
        if (strcmp(b->words->passes[i].name, word->text) != 0 || !b->words->rounds_not[i])
            continue;
        pare_yaml rtn = *word;
        rtn.text = "rtn";
        return append_word(b, list, &rtn);
    }
    return PARE_OK;
}

/* `named`: the key in front of the entry, or NULL for one that names itself. */
pare_status pare__batch_method(pare__batch *b, const pare_yaml *entry, const pare_yaml *named,
                               pare__method *out)
{
    pare_yaml *const list = PARE_NEW(b->w.a, pare_yaml, 1);
    char name[PARE_BATCH_NAME_MAX] = "";
    size_t used = 0;
    if (!list)
        return PARE_ENOMEM;
    *list = (pare_yaml){.kind = PARE_YAML_LIST, .place = entry->place};
    if (entry->kind == PARE_YAML_MAPPING || pare_yaml_is_null(entry) ||
        (entry->kind == PARE_YAML_LIST && entry->count == 0))
        return pare__fail_takes(&b->w, entry, "a pass, or a list of passes, as in [awq, rtn]");
    const pare_yaml *const first = entry->kind == PARE_YAML_LIST ? entry->first : entry;
    for (const pare_yaml *e = first; e; e = entry->kind == PARE_YAML_LIST ? e->next : NULL) {
        PARE_TRY(e->kind == PARE_YAML_SCALAR ? append_word(b, list, e) : append_pass(b, list, e));
        const int n = snprintf(name + used, sizeof name - used, "%s%s", used ? "-" : "",
                               pare__batch_pass_name(e));
        used += n > 0 && (size_t)n < sizeof name - used ? (size_t)n : 0;
    }
    if (entry->kind == PARE_YAML_SCALAR)
        PARE_TRY(append_rtn(b, list, entry));
    *out = (pare__method){pare__batch_word(b->w.a, named ? named->text : name), list};
    return out->name ? PARE_OK : PARE_ENOMEM;
}

static pare_status read_methods(pare__batch *b, const pare_yaml *node)
{
    if (node->kind == PARE_YAML_SCALAR || node->count == 0)
        return pare__fail_takes(&b->w, node,
                                "a list, as in [gptq, [awq, rtn]], or a mapping of names, as in "
                                "{awq: [awq, rtn]}");
    b->method = PARE_NEW(b->w.a, pare__method, node->count);
    if (!b->method)
        return PARE_ENOMEM;
    for (const pare_yaml *e = node->first; e; e = e->next) {
        pare__method *const m = &b->method[b->methods];
        PARE_TRY(pare__batch_method(b, e, e->key, m));
        for (size_t i = 0; i < b->methods; i++)
            if (strcmp(b->method[i].name, m->name) == 0)
                return pare_recipe_fail(b->w.cx, e->place,
                                        "the method %s is there twice; write {name: [pass, ...]} "
                                        "to tell them apart",
                                        m->name);
        b->methods++;
    }
    return PARE_OK;
}

/* What names call an axis: behind the last dot, unless another one is called so. */
static pare_status name_axes(pare__batch *b)
{
    for (size_t i = 0; i < b->axes; i++) {
        const char *const text = b->axis[i].key->text, *const dot = strrchr(text, '.');
        const char *word = dot ? dot + 1 : text;
        for (size_t j = 0; j < b->axes; j++) {
            const char *const other = b->axis[j].key->text, *const at = strrchr(other, '.');
            if (j != i && strcmp(word, at ? at + 1 : other) == 0)
                word = text;
        }
        b->axis[i].word = pare__batch_word(b->w.a, word);
        if (!b->axis[i].word)
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

const char *pare__batch_path(const char *text)
{
    static const char front[] = "recipe.";
    return strncmp(text, front, strlen(front)) == 0 ? text + strlen(front) : text;
}

static bool is_recipe_key(const char *text)
{
    for (const pare_recipe_key *k = pare_recipe_keys; k->name; k++)
        if (strcmp(k->name, text) == 0)
            return true;
    return false;
}

bool pare__batch_is_path(const char *text)
{
    return is_recipe_key(text) || strchr(text, '.');
}

pare_status pare__batch_check_meaning(const pare__batch *b, const pare__method *m,
                                      const pare_yaml *key)
{
    const pare_yaml *const passes = pare__batch_passes(b, m);
    char quoted[PARE__QUOTE];
    size_t i = 0;
    for (const pare_yaml *e = passes ? passes->first : NULL; e && is_recipe_key(key->text);
         e = e->next, i++) {
        const char *const pass = pare__batch_pass_name(e);
        if (has_param(find_pass(b, pass), key->text))
            return pare_recipe_fail(b->w.cx, key->place,
                                    "%s is a key of the recipe and a parameter of %s; write "
                                    "recipe.%s for the key, passes.%zu.%s.%s for the parameter%s",
                                    pare__quote(quoted, key->text), pass, key->text, i, pass,
                                    key->text,
                                    b->methods > 1 ? "; put a method that has another pass there, "
                                                     "or none, into \"include\""
                                                   : "");
    }
    return PARE_OK;
}

pare_status pare__batch_check_key(const pare__batch *b, const pare_yaml *key)
{
    const char *const path = pare__batch_path(key->text);
    if (strcmp(path, "output") != 0 && strcmp(path, "pare") != 0)
        return PARE_OK;
    return pare_recipe_fail(
        b->w.cx, key->place,
        "\"%s\" is not varied: the output of a job is the folder of its name in "
        "that of the batch",
        path);
}

pare_status pare__batch_fail_value(const pare__batch *b, const pare_yaml *value, const char *key)
{
    char takes[PARE__QUOTE + 256], quoted[PARE__QUOTE];
    if (value->kind != PARE_YAML_LIST || !value->first || !pare__batch_is_path(key))
        return pare__fail_takes(&b->w, value, "one value");
    (void)snprintf(takes, sizeof takes,
                   "one value: write the list in the recipe, and name one place of it here, as in "
                   "%s with .0 behind it for the first",
                   pare__quote(quoted, key));
    return pare__fail_takes(&b->w, value, takes);
}

static pare_status read_axis(pare__batch *b, const pare_yaml *node)
{
    char quoted[PARE__QUOTE];
    PARE_TRY(pare__batch_check_key(b, node->key));
    if (node->kind != PARE_YAML_LIST || node->count == 0)
        return pare__fail_takes(&b->w, node, "a list of values, as in [3, 4]");
    for (const pare_yaml *e = node->first; e; e = e->next) {
        if (e->kind != PARE_YAML_SCALAR || pare_yaml_is_null(e) || !e->text[0])
            return pare__batch_fail_value(b, e, node->key->text);
        for (const pare_yaml *before = node->first; before != e; before = before->next)
            if (strcmp(before->text, e->text) == 0)
                return pare_recipe_fail(b->w.cx, e->place, "the value %s is there twice",
                                        pare__quote(quoted, e->text));
    }
    if (b->axes == PARE__AXES)
        return pare_recipe_fail(b->w.cx, node->key->place, "\"matrix\" varies more than %d keys",
                                PARE__AXES);
    b->axis[b->axes++] = (pare__axis){
        .key = node->key, .values = node, .path = pare__batch_is_path(node->key->text)};
    return PARE_OK;
}

pare_status pare__batch_matrix(pare__batch *b, const pare_yaml *node)
{
    PARE_TRY(pare__mapping(&b->w, node, "matrix: {bits: [3, 4]}"));
    b->matrix = node;
    const pare_yaml *const methods = pare_yaml_get(node, "method");
    if (methods)
        PARE_TRY(read_methods(b, methods));
    for (const pare_yaml *e = node->first; e; e = e->next)
        if (e != methods)
            PARE_TRY(read_axis(b, e));
    for (size_t i = 0; i < b->axes; i++) {
        const pare_yaml *const key = b->axis[i].key;
        bool used = b->axis[i].path;
        for (size_t m = 0; m < b->methods || m == 0; m++) {
            const pare__method *const of = b->methods ? &b->method[m] : NULL;
            PARE_TRY(pare__batch_check_meaning(b, of, key));
            used |= pare__batch_has(b, of, key->text);
        }
        if (!used)
            return pare__batch_fail_param(b, NULL, key);
    }
    return name_axes(b);
}

pare_status pare__batch_models(pare__batch *b, const pare_yaml *node)
{
    if (node->kind == PARE_YAML_SCALAR || node->count == 0)
        return pare__fail_takes(&b->w, node, "a list of paths, or {name: PATH, ...}");
    b->model = PARE_NEW(b->w.a, pare__batch_model, node->count);
    if (!b->model)
        return PARE_ENOMEM;
    for (const pare_yaml *e = node->first; e; e = e->next) {
        pare_text path;
        PARE_TRY(pare__text(&b->w, e, &path));
        pare__batch_model *const m = &b->model[b->models];
        *m = (pare__batch_model){pare__batch_word(b->w.a, e->key ? e->key->text : path.text), e};
        if (!m->name)
            return PARE_ENOMEM;
        for (size_t i = 0; i < b->models; i++)
            if (strcmp(b->model[i].name, m->name) == 0)
                return pare_recipe_fail(b->w.cx, e->place,
                                        "another model is called \"%s\", too; write models: {name: "
                                        "PATH, ...}",
                                        m->name);
        b->models++;
    }
    return PARE_OK;
}

/* The base recipe as a tree. */
static pare_status read_base(pare__batch *b, const pare_yaml *root)
{
    const pare_yaml *const node = pare_yaml_get(root, "recipe");
    pare_text path;
    char *text;
    size_t len;
    pare_yaml *tree = NULL;
    if (!node)
        return pare_recipe_fail(b->w.cx, root->place,
                                "\"recipe\" is missing; it says what all jobs begin with, as in "
                                "\"recipe: w4.yaml\"");
    b->base = node;
    b->base_file = b->out->file;
    if (node->kind == PARE_YAML_MAPPING)
        return PARE_OK;
    PARE_TRY(pare__text(&b->w, node, &path));
    char *const directory = pare_path_directory(b->w.a, b->out->file);
    char *const file = directory ? pare_path_join(b->w.a, directory, path.text) : NULL;
    if (!file)
        return PARE_ENOMEM;
    if (!pare_path_is_file(file))
        return pare_recipe_fail(b->w.cx, node->place, "%s: %s", file, pare_path_no_file(file));
    const pare_status s = pare_file_read(b->w.cx, b->w.a, file, RECIPE_CAP, &text, &len);
    if (s != PARE_OK)
        return pare_recipe_fail_at(b->w.cx, s, node->place);
    PARE_TRY(pare_yaml_parse(b->w.cx, b->w.a, file, true, text, len, &tree));
    if (!tree || tree->kind != PARE_YAML_MAPPING)
        return pare_recipe_fail(b->w.cx, (pare_place){file, 1, 1},
                                "a recipe is a mapping (lines of \"key: value\")");
    b->base = tree;
    b->base_file = file;
    return PARE_OK;
}

static pare_status read_top(pare__batch *b, const pare_yaml *root)
{
    const char *words[KEYS];
    for (size_t i = 0; i < KEYS; i++)
        words[i] = pare_batch_keys[i].name;
    PARE_TRY(pare__version(&b->w, root));
    const pare_yaml *const passes = pare_yaml_get(root, "passes");
    if (passes)
        return pare_recipe_fail(b->w.cx, passes->place,
                                "a file with \"passes\" is a recipe of \"pare compress\"; that of "
                                "\"pare batch\" names it with \"recipe: PATH\"");
    PARE_TRY(pare__keys(&b->w, root, "the batch", words, KEYS));
    PARE_TRY(read_base(b, root));
    const pare_yaml *const output = pare_yaml_get(root, "output");
    const pare_yaml *const models = pare_yaml_get(root, "models");
    const pare_yaml *const matrix = pare_yaml_get(root, "matrix");
    if (output)
        PARE_TRY(pare__text(&b->w, output, &b->out->output));
    if (models)
        PARE_TRY(pare__batch_models(b, models));
    if (matrix)
        PARE_TRY(pare__batch_matrix(b, matrix));
    b->exclude = pare_yaml_get(root, "exclude");
    PARE_TRY(pare__batch_expand(b));
    const pare_yaml *const include = pare_yaml_get(root, "include");
    return pare__batch_include(b, include);
}

pare_status pare_batch_parse(pare_ctx *cx, pare_arena *a, const pare_recipe_source *source,
                             const pare_batch_words *words, pare_batch_recipe *out)
{
    pare_recipe recipe;
    pare__batch *const b = PARE_NEW(a, pare__batch, 1);
    pare_yaml *root;
    *out = (pare_batch_recipe){0};
    if (!b)
        return PARE_ENOMEM;
    *b = (pare__batch){
        .w = {cx, a, words->passes, words->count, &recipe}, .words = words, .out = out};
    PARE_TRY(pare__open(&b->w, source, &root));
    out->file = recipe.file;
    b->w.out = NULL;
    return read_top(b, root);
}
