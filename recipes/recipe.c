#include "recipes/recipe.h"

#include <stdio.h>
#include <string.h>

#include "recipes/pattern.h"
#include "recipes/recipe_internal.h"

// clang-format off
const pare_recipe_key pare_recipe_keys[] = {
    {"pare", "1", "the version of the grammar; must be there"},
    {"model", "PATH", "the checkpoint to compress: a directory or a file; or --model PATH"},
    {"output", "PATH", "the directory to write; or --output PATH"},
    {"tokenizer", "PATH", "a tokenizer.json, or a folder with a tokenizer, instead of the model's"},
    {"original", "PATH", "what results are compared with, and the teacher of distill; not given: model"},
    {"seed", "0", "of all that is drawn at random: calibration windows, samples, ties"},
    {"calibration", "{text: FILE}", "the inputs that passes look at (pare help calibration)"},
    {"passes", "[gptq]", "what to do, in this order; must be there (pare help lists them)"},
    {"embeddings", "{rtn: {bits: 8}}", "the embeddings in few bits, by a quantizer (pare help tables)"},
    {"head", "{rtn: {bits: 8}}", "the same of the output head (pare help tables)"},
    {"evaluate", "[kl: {text: FILE}]", "what to measure before and after (pare help evaluate)"},
    {"limits", "{ram: 8GiB}", "bounds that a job keeps to (pare help limits)"},
    {"nan", "error", "what to do with weights that are no numbers (pare help nan)"},
    {"kv_cache", "{method: int8}", "the key/value cache in few bits (pare help kv_cache)"},
    {"export", "[{format: gptq, path: DIR}]", "files of other engines (pare help export)"},
    {"require", "{kl: \"<= 0.02\"}", "what the result must keep to (pare help require)"},
    {"fallback", "[{passes.0.gptq.bits: 8}]", "settings to try where it does not (pare help require)"},
    {NULL, NULL, NULL},
};
// clang-format on
enum { TOP_WORDS = sizeof pare_recipe_keys / sizeof pare_recipe_keys[0] - 1 };

static void name_keys(const char *names[TOP_WORDS])
{
    for (size_t i = 0; i < TOP_WORDS; i++)
        names[i] = pare_recipe_keys[i].name;
}

/* The version comes first: another grammar may know other keys. A misspelt "pare" is found here. */
pare_status pare__version(const pare__walk *w, const pare_yaml *root)
{
    char quoted[PARE__QUOTE];
    const pare_yaml *const version = pare_yaml_get(root, "pare");
    if (!version) {
        for (const pare_yaml *e = root->first; e; e = e->next) {
            const char *top_words[TOP_WORDS];
            name_keys(top_words);
            const char *const near = pare_nearest_word(e->key->text, top_words, TOP_WORDS);
            if (near == top_words[0])
                return pare_recipe_fail(w->cx, e->key->place,
                                        "unknown key %s in the recipe; did you mean \"pare\"?",
                                        pare__quote(quoted, e->key->text));
        }
        return pare_recipe_fail(w->cx, root->place,
                                "\"pare\" is missing; a recipe begins with \"pare: 1\"");
    }
    if (version->kind != PARE_YAML_SCALAR || pare_yaml_is_null(version))
        return pare__fail_takes(w, version, "1, the version of the grammar");
    if (strcmp(version->text, "1") != 0)
        return pare_recipe_fail(
            w->cx, version->place,
            "\"pare\" is %s; this program reads version 1 of the grammar, and a "
            "newer pare is needed for another",
            pare__quote(quoted, version->text));
    return PARE_OK;
}

static pare_status read_seed(const pare__walk *w, const pare_yaml *node)
{
    if (node->kind == PARE_YAML_SCALAR && node->plain && pare__u64(node->text, &w->out->seed))
        return PARE_OK;
    return pare__fail_takes(w, node, "a whole number from 0 to 18446744073709551615");
}

bool pare_bytes_parse(const char *text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = {{"", 1},
                 {"B", 1},
                 {"KB", 1000},
                 {"MB", 1000000},
                 {"GB", 1000000000},
                 {"KiB", UINT64_C(1) << 10},
                 {"MiB", UINT64_C(1) << 20},
                 {"GiB", UINT64_C(1) << 30}};
    char number[24];
    const size_t digits = strspn(text, "0123456789");
    uint64_t value = 0;
    if (digits >= sizeof number)
        return false;
    (void)snprintf(number, sizeof number, "%.*s", (int)digits, text);
    if (!pare__u64(number, &value) || value == 0)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcmp(text + digits, units[i].name) == 0)
            return !__builtin_mul_overflow(value, units[i].bytes, bytes);
    return false;
}

static pare_status read_limits(const pare__walk *w, const pare_yaml *node)
{
    static const char *const words[] = {"ram"};
    static const char *const units[] = {"GiB", "MiB", "KiB", "GB", "MB", "KB"};
    PARE_TRY(pare__mapping(w, node, "limits: {ram: 8GiB}"));
    PARE_TRY(pare__keys(w, node, "limits", words, 1));
    const pare_yaml *const ram = pare_yaml_get(node, "ram");
    if (!ram)
        return PARE_OK;
    const char *const text = ram->kind == PARE_YAML_SCALAR ? ram->text : "";
    if (pare_bytes_parse(text, &w->out->ram_limit))
        return PARE_OK;
    char takes[256];
    const size_t digits = strspn(text, "0123456789");
    const char *near = NULL;
    for (size_t i = 0; i < 3; i++) /* 8G */
        if (digits && text[digits] == units[i][0] && text[digits + 1] == '\0')
            near = units[i];
    if (digits && text[digits] != '.' && !near)
        near = pare_nearest_word(text + digits, units, 6);
    const bool hint = near && digits < 20 && strcmp(near, text + digits) != 0;
    (void)snprintf(takes, sizeof takes,
                   "a whole number above 0 with a unit of B, KB, MB, GB, KiB, MiB, GiB, as in "
                   "8GiB%s%.*s%s%s",
                   hint ? "; did you mean \"" : "", hint ? (int)digits : 0, text, hint ? near : "",
                   hint ? "\"?" : "");
    return pare__fail_takes(w, ram, takes);
}

static pare_status read_version(const pare__walk *w, const pare_yaml *node)
{
    (void)w;
    (void)node;
    return PARE_OK; /* checked before the other keys */
}

static pare_status read_model(const pare__walk *w, const pare_yaml *node)
{
    return pare__text(w, node, &w->out->model);
}

static pare_status read_output(const pare__walk *w, const pare_yaml *node)
{
    return pare__text(w, node, &w->out->output);
}

static pare_status read_tokenizer(const pare__walk *w, const pare_yaml *node)
{
    return pare__text(w, node, &w->out->tokenizer);
}

static pare_status read_original(const pare__walk *w, const pare_yaml *node)
{
    return pare__text(w, node, &w->out->original);
}

static pare_status read_nan(const pare__walk *w, const pare_yaml *node)
{
    double policy = 0;
    PARE_TRY(pare__value(w, node, &pare__nan, &policy));
    w->out->nan = (pare_nan_policy)policy;
    return PARE_OK;
}

static pare_status read_embeddings(const pare__walk *w, const pare_yaml *node)
{
    return pare__table(w, node, PARE_TABLE_EMBEDDINGS);
}

static pare_status read_head(const pare__walk *w, const pare_yaml *node)
{
    return pare__table(w, node, PARE_TABLE_HEAD);
}

/* In the order of pare_recipe_keys. */
static pare_status (*const top_readers[TOP_WORDS])(const pare__walk *w, const pare_yaml *node) = {
    read_version,      read_model,        read_output, read_tokenizer,  read_original,
    read_seed,         pare__calibration, pare__steps, read_embeddings, read_head,
    pare__evaluations, read_limits,       read_nan,    pare__kv_cache,  pare__exports,
    pare__require,     pare__fallback};

pare_status pare__common_keys(const pare__walk *w, const pare_yaml *root)
{
    static const struct {
        const char *name;
        pare_status (*read)(const pare__walk *w, const pare_yaml *node);
    } common[] = {{"model", read_model},
                  {"output", read_output},
                  {"tokenizer", read_tokenizer},
                  {"seed", read_seed},
                  {"limits", read_limits}};
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        const pare_yaml *const node = pare_yaml_get(root, common[i].name);
        if (node)
            PARE_TRY(common[i].read(w, node));
    }
    return PARE_OK;
}

static pare_status refuse_passes(const pare__walk *w, const pare_yaml *root)
{
    for (const pare_yaml *e = root->first; e; e = e->next)
        for (size_t i = 0; i < w->pass_count; i++)
            if (strcmp(e->key->text, w->passes[i].name) == 0)
                return pare_recipe_fail(w->cx, e->key->place,
                                        "\"%s\" is a pass and stands in the list \"passes\"; --set "
                                        "changes it there: passes.0.%s.KEY=VALUE",
                                        e->key->text, e->key->text);
    return PARE_OK;
}

static pare_status read_top(const pare__walk *w, const pare_yaml *root)
{
    const char *top_words[TOP_WORDS];
    name_keys(top_words);
    PARE_TRY(pare__version(w, root));
    const pare_yaml *const train = pare_yaml_get(root, "train");
    if (train)
        return pare_recipe_fail(w->cx, train->place,
                                "a recipe with \"train\" is one of \"pare train\"; --dry-run "
                                "there says what it will take");
    const pare_yaml *const matrix = pare_yaml_get(root, "matrix");
    if (matrix)
        return pare_recipe_fail(w->cx, matrix->place,
                                "a file with \"matrix\" is one of \"pare batch\"");
    PARE_TRY(refuse_passes(w, root));
    PARE_TRY(pare__keys(w, root, "the recipe", top_words, TOP_WORDS));
    for (const pare_yaml *e = root->first; e; e = e->next)
        for (size_t i = 0; i < TOP_WORDS; i++)
            if (strcmp(e->key->text, top_words[i]) == 0)
                PARE_TRY(top_readers[i](w, e));
    if (w->out->fallbacks && !w->out->requirements)
        return pare_recipe_fail(w->cx, pare_yaml_get(root, "fallback")->place,
                                "\"fallback\" is for what does not keep to \"require\", which is "
                                "missing; add \"require: {kl: \"<= 0.02\"}\" or leave it out");
    if (w->out->steps == 0 && w->out->kv.method != PARE_KV_FLOAT)
        return pare_recipe_fail(w->cx, root->place,
                                "\"passes\" is missing; kv_cache alone compresses no weight, and "
                                "eval and generate take --kv with the model as it is");
    if (w->out->kv.method == PARE_KV_KVQUANT && w->out->calibration.kind == PARE_CALIBRATION_NONE)
        return pare_recipe_fail(w->cx, w->out->kv_place,
                                "the levels of kvquant are calibrated; add \"calibration: {text: "
                                "FILE}\"");
    if (w->out->steps == 0)
        return pare_recipe_fail(w->cx, root->place,
                                "\"passes\" is missing; it lists what to do, as in \"passes: "
                                "[gptq]\"");
    return PARE_OK;
}

static void set_defaults(pare_recipe *out)
{
    const pare_place unset = {out->file, 0, 0};
    out->model.place = out->output.place = unset;
    out->calibration = (pare_calibration){.place = unset,
                                          .temperature = pare__temperature.fallback,
                                          .samples = (size_t)pare__samples.fallback,
                                          .window = (size_t)pare__window.fallback,
                                          .samples_place = unset,
                                          .window_place = unset,
                                          .min_tokens = (size_t)pare_experts_params[0].fallback,
                                          .cold = (pare_cold_policy)pare_experts_params[1].fallback,
                                          .experts_place = unset};
}

pare_status pare__read_tree(const pare__walk *w, const char *file, const pare_yaml *root)
{
    *w->out = (pare_recipe){.file = file};
    set_defaults(w->out);
    return read_top(w, root);
}

pare_status pare__open(const pare__walk *w, const pare_recipe_source *source, pare_yaml **out)
{
    pare_recipe *const r = w->out;
    *r = (pare_recipe){.file = pare_arena_text(w->a, source->file, strlen(source->file))};
    if (!r->file)
        return PARE_ENOMEM;
    set_defaults(r);
    pare_yaml *root = NULL;
    PARE_TRY(pare_yaml_parse(w->cx, w->a, r->file, true, source->text, source->len, &root));
    if (!root || pare_yaml_is_null(root))
        return pare_recipe_fail(w->cx, (pare_place){r->file, 1, 1},
                                "the recipe is empty; it begins with \"pare: 1\"");
    if (root->kind != PARE_YAML_MAPPING)
        return pare_recipe_fail(w->cx, root->place,
                                "a recipe is a mapping (lines of \"key: value\"), not a %s",
                                root->kind == PARE_YAML_LIST ? "list" : "text");
    for (size_t i = 0; i < source->set_count; i++)
        PARE_TRY(pare__set(w, root, source->sets[i]));
    *out = root;
    return PARE_OK;
}

pare_status pare_recipe_parse(pare_ctx *cx, pare_arena *a, const pare_recipe_source *source,
                              const pare_pass_words *passes, size_t pass_count, pare_recipe *out)
{
    const pare__walk w = {cx, a, passes, pass_count, out};
    pare_yaml *root;
    PARE_TRY(pare__open(&w, source, &root));
    return read_top(&w, root);
}
