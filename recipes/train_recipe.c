/* The recipe of a training. */
#include "recipes/train_recipe.h"

#include <string.h>

#include "recipes/recipe_internal.h"

// clang-format off
const pare_recipe_key pare_train_keys[] = {
    {"pare", "1", "the version of the grammar; must be there"},
    {"model", "PATH", "the checkpoint to begin with; or --model PATH"},
    {"config", "FILE", "instead of model: a config.json; weights are random at first"},
    {"tokenizer", "PATH", "a tokenizer.json, or a folder with a tokenizer, instead of the model's"},
    {"vocabulary", "4096", "with config: train a byte-level BPE tokenizer of so many tokens"},
    {"blocks", "6", "with model: keep so many of its blocks, spread evenly"},
    {"teacher", "PATH", "what all losses but ce compare with (the model as it was)"},
    {"output", "PATH", "the directory to write; or --output PATH"},
    {"seed", "0", "of the order of windows, and of random weights"},
    {"data", "{text: FILE}", "what to train on: text or tokens, window, held_out; must be there"},
    {"train", "{tokens: 1000000}", "how to train, as the settings of distill"},
    {"lora", "{rank: 16}", "with model: train adapters of rank 16, and no other weights"},
    {"keep_zeros", "false", "true: weights of linears that are 0 stay 0"},
    {"dtype", "auto", "of the weights that are written: auto, f32, f16, bf16"},
    {"limits", "{ram: 8GiB}", "bounds that a job keeps to (pare help limits)"},
    {NULL, NULL, NULL},
};
// clang-format on
enum { KEYS = sizeof pare_train_keys / sizeof *pare_train_keys - 1 };

static const pare_word store_words[] = {{"auto", PARE_STORE_AUTO},
                                        {"f32", PARE_STORE_F32},
                                        {"f16", PARE_STORE_F16},
                                        {"bf16", PARE_STORE_BF16},
                                        {0}};

static const pare_param window = {
    .name = "window",
    .type = PARE_PARAM_INTEGER,
    .min = 2,
    .max = 1 << 24,
    .fallback = 512,
    .help = "tokens of a window; the default is the context of the model, where that is less"};
static const pare_param held_out = {
    .name = "held_out",
    .type = PARE_PARAM_INTEGER,
    .min = 1,
    .max = 1 << 16,
    .fallback = 16,
    .help = "windows of the data that are not trained on: quality before and after is theirs"};
const pare_param *const pare_train_data_params[] = {&window, &held_out, NULL};

static const pare_param vocabulary = {
    .name = "vocabulary",
    .type = PARE_PARAM_INTEGER,
    .min = 257,
    .max = 1 << 20,
    .help =
        "tokens of the tokenizer that is trained on the text, <|endoftext|> and 256 bytes among "
        "them"};
static const pare_param blocks = {.name = "blocks",
                                  .type = PARE_PARAM_INTEGER,
                                  .min = 1,
                                  .max = 4096,
                                  .help = "blocks that stay, the first and the last among them"};
static const pare_param keep_zeros = {
    .name = "keep_zeros", .type = PARE_PARAM_BOOL, .help = "weights of linears that are 0 stay 0"};
static const pare_param store = {.name = "dtype",
                                 .type = PARE_PARAM_CHOICE,
                                 .words = store_words,
                                 .help = "of the weights that are written; auto: as the model has "
                                         "them, f32 with config"};
const pare_param *const pare_train_word_params[] = {&vocabulary, &blocks, &keep_zeros, &store,
                                                    NULL};

static pare_status read_data(const pare__walk *w, const pare_yaml *root, pare_train_recipe *out)
{
    static const char *const sources[] = {"text", "tokens"};
    static const char *const words[] = {"text", "tokens", "window", "held_out"};
    const pare_yaml *const node = pare_yaml_get(root, "data"), *source;
    double value;
    if (!node)
        return pare_recipe_fail(w->cx, root->place,
                                "\"data\" is missing; it says what to train on, as in \"data: "
                                "{text: FILE}\"");
    out->data_place = node->place;
    PARE_TRY(pare__mapping(w, node, "data: {text: FILE}"));
    PARE_TRY(pare__keys(w, node, "data", words, 4));
    PARE_TRY(pare__one_source(w, node, node->place, "data", sources, 2, &source));
    if (strcmp(source->key->text, "text") == 0)
        PARE_TRY(pare__texts(w, source, &out->text));
    else
        PARE_TRY(pare__text(w, source, &out->tokens));
    PARE_TRY(pare__entry(w, node, &window, &value, &out->window_given, &out->window_place));
    out->window = (size_t)value;
    PARE_TRY(pare__entry(w, node, &held_out, &value, NULL, &out->held_out_place));
    out->held_out = (size_t)value;
    return PARE_OK;
}

static pare_status read_train(const pare__walk *w, const pare_yaml *root, const pare_param *params,
                              pare_train_recipe *out)
{
    static const pare_yaml nothing = {.kind = PARE_YAML_MAPPING};
    const char *words[PARE_PARAMS_MAX];
    const pare_yaml *const given = pare_yaml_get(root, "train");
    out->train_place = given ? given->place : root->place;
    if (given)
        PARE_TRY(pare__mapping(w, given, "train: {tokens: 1000000}"));
    const pare_yaml *const node = given && given->kind == PARE_YAML_MAPPING ? given : &nothing;
    const size_t count = pare_param_count(params);
    for (size_t i = 0; i < count; i++)
        words[i] = params[i].name;
    PARE_TRY(pare__keys(w, node, "train", words, count));
    for (size_t i = 0; i < count; i++)
        PARE_TRY(pare__entry(w, node, &params[i], &out->value[i], NULL, NULL));
    return PARE_OK;
}

static pare_status read_words(const pare__walk *w, const pare_yaml *root, pare_train_recipe *out)
{
    double value;
    bool given;
    PARE_TRY(pare__entry(w, root, &vocabulary, &value, &given, &out->vocabulary_place));
    out->vocabulary = given ? (size_t)value : 0;
    PARE_TRY(pare__entry(w, root, &blocks, &value, &given, &out->blocks_place));
    out->blocks = given ? (size_t)value : 0;
    PARE_TRY(pare__entry(w, root, &keep_zeros, &value, NULL, NULL));
    out->keep_zeros = value != 0;
    PARE_TRY(pare__entry(w, root, &store, &value, NULL, NULL));
    out->store = (pare_store)value;
    return PARE_OK;
}

/* Keys that exclude one another, or need another. */
static pare_status check_keys(const pare__walk *w, const pare_yaml *root)
{
    static const struct {
        const char *key, *with;
        bool needs;
    } rules[] = {{"config", "model", false},         {"blocks", "model", true},
                 {"lora", "config", false},          {"vocabulary", "config", true},
                 {"vocabulary", "tokenizer", false}, {"vocabulary", "tokens", false}};
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        const pare_yaml *const key = pare_yaml_get(root, rules[i].key);
        const pare_yaml *const data = pare_yaml_get(root, "data");
        const bool there = pare_yaml_get(root, rules[i].with) ||
                           (strcmp(rules[i].with, "tokens") == 0 && pare_yaml_get(data, "tokens"));
        if (key && there != rules[i].needs)
            return pare_recipe_fail(w->cx, key->key->place,
                                    rules[i].needs ? "\"%s\" needs \"%s\", which is not there"
                                                   : "\"%s\" and \"%s\" exclude each other; leave "
                                                     "one out",
                                    rules[i].key, rules[i].with);
    }
    return PARE_OK;
}

static pare_status read_all(const pare__walk *w, const pare_yaml *root, const pare_param *params,
                            pare_train_recipe *out)
{
    const char *words[KEYS];
    for (size_t i = 0; i < KEYS; i++)
        words[i] = pare_train_keys[i].name;
    PARE_TRY(pare__version(w, root));
    const pare_yaml *const passes = pare_yaml_get(root, "passes");
    if (passes)
        return pare_recipe_fail(w->cx, passes->place,
                                "a recipe with \"passes\" is one of \"pare compress\"; that of "
                                "\"pare train\" has data and train");
    PARE_TRY(pare__keys(w, root, "the recipe", words, KEYS));
    PARE_TRY(pare__common_keys(w, root));
    const pare_yaml *const config = pare_yaml_get(root, "config");
    const pare_yaml *const teacher = pare_yaml_get(root, "teacher");
    if (config)
        PARE_TRY(pare__text(w, config, &out->config));
    if (teacher)
        PARE_TRY(pare__text(w, teacher, &out->teacher));
    PARE_TRY(read_words(w, root, out));
    PARE_TRY(read_data(w, root, out));
    PARE_TRY(read_train(w, root, params, out));
    PARE_TRY(check_keys(w, root));
    return pare__lora(w, root, out);
}

pare_status pare_train_recipe_parse(pare_ctx *cx, pare_arena *a, const pare_recipe_source *source,
                                    const pare_param *params, pare_train_recipe *out)
{
    *out = (pare_train_recipe){0};
    const pare__walk w = {cx, a, NULL, 0, &out->common};
    pare_yaml *root;
    PARE_TRY(pare__open(&w, source, &root));
    return read_all(&w, root, params, out);
}
