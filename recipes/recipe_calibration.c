/* The calibration of a recipe. */
#include <assert.h>
#include <string.h>

#include "recipes/recipe_internal.h"

static const pare_word cold_words[] = {{"fill", PARE_COLD_FILL}, {"rtn", PARE_COLD_RTN}, {0}};

static const pare_word min_tokens_words[] = {{"auto", 0}, {0}};

static const pare_word token_words[] = {
    {"auto", PARE_TOKENS_AUTO}, {"even", PARE_TOKENS_EVEN}, {"loss", PARE_TOKENS_LOSS}, {0}};

static const pare_word precision_words[] = {
    {"auto", PARE_PRECISION_AUTO}, {"f32", PARE_PRECISION_F32}, {"bf16", PARE_PRECISION_BF16}, {0}};

const pare_param pare__samples = {.name = "samples",
                                  .type = PARE_PARAM_INTEGER,
                                  .min = 1,
                                  .max = 1 << 24,
                                  .fallback = 128,
                                  .words = pare__all_words,
                                  .help = "windows to draw from the text; all: every one"};
const pare_param pare__window = {.name = "window",
                                 .type = PARE_PARAM_INTEGER,
                                 .min = 2,
                                 .max = 1 << 24,
                                 .fallback = 2048,
                                 .help =
                                     "tokens of a window; the default is the context of the model, "
                                     "where that is less"};
const pare_param pare__temperature = {.name = "temperature",
                                      .type = PARE_PARAM_NUMBER,
                                      .min = 0,
                                      .max = 100,
                                      .fallback = 1,
                                      .help =
                                          "for generate: of the samples; 1: the model as it is"};
const pare_param pare__weight = {.name = "weight",
                                 .type = PARE_PARAM_NUMBER,
                                 .min = 0.001,
                                 .max = 1000,
                                 .fallback = 1,
                                 .help =
                                     "for text: share of a file, as in {path: FILE, weight: 2}"};
enum { MIN_TOKENS, COLD };
const pare_param pare_experts_params[] = {
    [MIN_TOKENS] = {.name = "min_tokens",
                    .type = PARE_PARAM_INTEGER,
                    .min = 1,
                    .max = 1 << 24,
                    .words = min_tokens_words,
                    .help =
                        "tokens of the calibration that an expert is to see; auto: as many as have "
                        "three new ones for each input of its widest linear, as gptq needs, or of "
                        "its others where the calibration has fewer, or 128"},
    [COLD] = {.name = "cold",
              .type = PARE_PARAM_CHOICE,
              .words = cold_words,
              .fallback = PARE_COLD_FILL,
              .help = "what an expert gets that the router sends fewer: other tokens of the "
                      "calibration, evenly spread, until it has so many (fill), or white noise as "
                      "inputs (rtn)"},
    {.name = NULL}};
static const pare_param token_weights = {
    .name = "token_weights",
    .type = PARE_PARAM_CHOICE,
    .words = token_words,
    .fallback = PARE_TOKENS_AUTO,
    .help = "how tokens count in Hessians: all alike (even), or by the gradient of the loss behind "
            "each linear (loss); auto: loss for gptq, unless the head is packed"};
static const pare_param precision = {
    .name = "precision",
    .type = PARE_PARAM_CHOICE,
    .words = precision_words,
    .fallback = PARE_PRECISION_AUTO,
    .help =
        "of the products of a calibration: linears while activations pass, their gradients for "
        "token_weights, Hessians (those of slicegpt are in F32). bf16 rounds both sides to BF16 (8 "
        "bits of precision) and sums in "
        "F32, which CPUs with AMX do much faster; every CPU gives the same bytes. auto: bf16; f32 "
        "where all weights keep 8 bits and inputs a scale per group, and where parts are taken out "
        "of the model"};
const pare_param *const pare_calibration_params[] = {
    &pare__samples, &pare__window, &token_weights, &precision, &pare__temperature,
    &pare__weight,  NULL};

/* A file with its share of the windows: a name, or {path, weight}. */
static pare_status read_part(const pare__walk *w, const pare_yaml *entry, pare_text *path,
                             double *weight, bool *weighted)
{
    static const char *const words[] = {"path", "weight"};
    bool given = false;
    *weight = pare__weight.fallback;
    if (entry->kind != PARE_YAML_MAPPING)
        return pare__text(w, entry, path);
    PARE_TRY(pare__keys(w, entry, "an entry of text", words, 2));
    const pare_yaml *const name = pare_yaml_get(entry, "path");
    if (!name)
        return pare_recipe_fail(w->cx, entry->place,
                                "an entry of text needs a path, as in \"{path: FILE, weight: 2}\"");
    PARE_TRY(pare__entry(w, entry, &pare__weight, weight, &given, NULL));
    *weighted |= given;
    return pare__text(w, name, path);
}

static pare_status read_parts(const pare__walk *w, const pare_yaml *source, pare_calibration *c)
{
    if (source->kind != PARE_YAML_LIST)
        return pare__texts(w, source, &c->text);
    double *const weight = PARE_NEW(w->a, double, source->count);
    c->text = (pare_texts){PARE_NEW(w->a, pare_text, source->count), source->count};
    if (!weight || !c->text.item)
        return PARE_ENOMEM;
    size_t i = 0;
    bool weighted = false;
    for (const pare_yaml *e = source->first; e; e = e->next, i++)
        PARE_TRY(read_part(w, e, &c->text.item[i], &weight[i], &weighted));
    c->weight = weighted ? weight : NULL;
    return PARE_OK;
}

static pare_status read_source(const pare__walk *w, const pare_yaml *source, pare_calibration *c)
{
    static const char *const words[] = {"temperature"};
    if (strcmp(source->key->text, "text") == 0) {
        c->kind = PARE_CALIBRATION_TEXT;
        PARE_TRY(read_parts(w, source, c));
        if (c->text.count == 0)
            return pare_recipe_fail(w->cx, source->place, "\"text\" is an empty list");
        return PARE_OK;
    }
    if (strcmp(source->key->text, "tokens") == 0) {
        c->kind = PARE_CALIBRATION_TOKENS;
        return pare__text(w, source, &c->tokens);
    }
    if (strcmp(source->key->text, "from") == 0) {
        c->kind = PARE_CALIBRATION_FROM;
        return pare__text(w, source, &c->from);
    }
    c->kind = PARE_CALIBRATION_GENERATE;
    PARE_TRY(pare__mapping(w, source, "generate: {temperature: 1.0}"));
    PARE_TRY(pare__keys(w, source, "generate", words, 1));
    return pare__entry(w, source, &pare__temperature, &c->temperature, NULL, NULL);
}

const char *pare_token_weighing_name(pare_token_weighing weighing)
{
    return token_words[weighing].text;
}

const char *pare_precision_name(pare_precision p)
{
    return precision_words[p].text;
}

static pare_status read_precision(const pare__walk *w, const pare_yaml *node, pare_calibration *c)
{
    double value = 0;
    PARE_TRY(pare__entry(w, node, &precision, &value, NULL, NULL));
    c->precision = (pare_precision)value;
    return PARE_OK;
}

static pare_status read_weighing(const pare__walk *w, const pare_yaml *node, pare_calibration *c)
{
    double value = 0;
    PARE_TRY(pare__entry(w, node, &token_weights, &value, &c->token_weights_given,
                         &c->token_weights_place));
    c->token_weights = (pare_token_weighing)value;
    return PARE_OK;
}

/* How many windows of how many tokens. */
static pare_status read_amount(const pare__walk *w, const pare_yaml *node, pare_calibration *c)
{
    double samples = 0, window = 0;
    PARE_TRY(pare__entry(w, node, &pare__samples, &samples, NULL, &c->samples_place));
    PARE_TRY(pare__entry(w, node, &pare__window, &window, &c->window_given, &c->window_place));
    if (samples == 0 && c->kind == PARE_CALIBRATION_GENERATE)
        return pare_recipe_fail(w->cx, c->samples_place,
                                "\"samples\" is \"all\"; with generate it must be a number");
    if (c->weight && samples < (double)c->text.count) {
        char number[PARE__NUMBER];
        pare_param_print(&pare__samples, samples, number, sizeof number);
        return pare_recipe_fail(w->cx, c->samples_place,
                                "\"samples\" is \"%s\"; with weights it must be a number, at least "
                                "one for each of the %zu texts",
                                number, c->text.count);
    }
    c->samples = (size_t)samples;
    c->window = (size_t)window;
    return PARE_OK;
}

const char *pare_cold_policy_name(pare_cold_policy p)
{
    for (const pare_word *w = cold_words; w->text; w++)
        if (w->value == (double)p)
            return w->text;
    return NULL;
}

/* Words that older versions took. */
static pare_status refuse_old_cold(const pare__walk *w, const pare_yaml *experts)
{
    const pare_yaml *const cold = pare_yaml_get(experts, "cold");
    if (!cold || !cold->text || strcmp(cold->text, "all_tokens") != 0)
        return PARE_OK;
    return pare_recipe_fail(w->cx, cold->place,
                            "\"cold\" is \"all_tokens\", which pare no longer has; \"fill\" took "
                            "its place: an expert sees its own tokens, and others until it has "
                            "min_tokens");
}

/* What becomes of experts that few tokens reach. */
static pare_status read_experts(const pare__walk *w, const pare_yaml *node, pare_calibration *c)
{
    static const char *const words[] = {"min_tokens", "cold"};
    const pare_yaml *const experts = pare_yaml_get(node, "experts");
    double tokens = 0, cold = 0;
    if (!experts)
        return PARE_OK;
    PARE_TRY(pare__mapping(w, experts, "experts: {min_tokens: 1024}"));
    PARE_TRY(pare__keys(w, experts, "experts", words, 2));
    PARE_TRY(pare__entry(w, experts, &pare_experts_params[MIN_TOKENS], &tokens, NULL, NULL));
    PARE_TRY(refuse_old_cold(w, experts));
    PARE_TRY(pare__entry(w, experts, &pare_experts_params[COLD], &cold, NULL, NULL));
    c->min_tokens = (size_t)tokens;
    c->cold = (pare_cold_policy)cold;
    c->experts_given = true;
    c->experts_place = experts->key->place;
    return PARE_OK;
}

/* A file of statistics says all of these. */
static pare_status read_from(const pare__walk *w, const pare_yaml *node)
{
    for (const pare_yaml *e = node->first; e; e = e->next)
        if (strcmp(e->key->text, "from") != 0)
            return pare_recipe_fail(
                w->cx, e->key->place,
                "calibration: \"from\" takes statistics that were kept, with the "
                "tokens and settings that they are of; leave \"%s\" out",
                e->key->text);
    return PARE_OK;
}

pare_status pare__calibration(const pare__walk *w, const pare_yaml *node)
{
    static const char *const words[] = {"text",      "tokens", "generate", "from",
                                        "samples",   "window", "experts",  "token_weights",
                                        "precision", "keep"};
    enum { SOURCES = 4, WORDS = sizeof words / sizeof *words };
    pare_calibration *const c = &w->out->calibration;
    const pare_yaml *source = NULL;
    PARE_TRY(pare__mapping(w, node, "calibration: {text: FILE}"));
    PARE_TRY(pare__keys(w, node, "calibration", words, WORDS));
    c->place = node->key->place;
    PARE_TRY(pare__one_source(w, node, node->key->place, "calibration", words, SOURCES, &source));
    assert(source);
    PARE_TRY(read_source(w, source, c));
    if (c->kind == PARE_CALIBRATION_FROM)
        return read_from(w, node);
    const pare_yaml *const keep = pare_yaml_get(node, "keep");
    if (keep)
        PARE_TRY(pare__text(w, keep, &c->keep));
    PARE_TRY(read_experts(w, node, c));
    PARE_TRY(read_weighing(w, node, c));
    PARE_TRY(read_precision(w, node, c));
    return read_amount(w, node, c);
}
