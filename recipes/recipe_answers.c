/* Evaluations that look at what a model answers: "needle" and "continuations". */
#include <stdio.h>
#include <string.h>

#include "recipes/recipe_internal.h"

enum { KEYS, NEEDLE_SEED };
const pare_param pare_needle_params[] = {
    [KEYS] = {.name = "keys",
              .type = PARE_PARAM_INTEGER,
              .min = 1,
              .max = 1000,
              .fallback = 5,
              .help = "numbers to ask for at each length and depth"},
    [NEEDLE_SEED] = {.name = "seed",
                     .type = PARE_PARAM_INTEGER,
                     .max = PARE_EVALUATION_SEED_MOST,
                     .help = "which numbers, and where the text begins"},
    {.name = NULL}};

enum { PROMPTS, CONTINUE_TOKENS, TEMPERATURE, CONTINUE_SEED };
const pare_param pare_continue_params[] = {
    [PROMPTS] = {.name = "prompts",
                 .type = PARE_PARAM_INTEGER,
                 .min = 1,
                 .max = 1 << 20,
                 .fallback = 32,
                 .help = "windows whose beginnings are continued, spread over the text"},
    [CONTINUE_TOKENS] = {.name = "continue_tokens",
                         .type = PARE_PARAM_INTEGER,
                         .min = 1,
                         .max = PARE_EVALUATION_LENGTH_MOST,
                         .fallback = 128,
                         .help = "most tokens of a continuation; the default is what the context "
                                 "has room for, where that is less"},
    [TEMPERATURE] = {.name = "temperature",
                     .type = PARE_PARAM_NUMBER,
                     .max = 1000,
                     .help = "0: always the most likely token"},
    [CONTINUE_SEED] = {.name = "seed",
                       .type = PARE_PARAM_INTEGER,
                       .max = PARE_EVALUATION_SEED_MOST,
                       .help = "of what is drawn at a temperature"},
    {.name = NULL}};

static const pare_param length_param = {.name = "lengths",
                                        .type = PARE_PARAM_INTEGER,
                                        .min = PARE_EVALUATION_LENGTH_LEAST,
                                        .max = PARE_EVALUATION_LENGTH_MOST};

/* One number or a list of them, each once. */
static pare_status read_lengths(const pare__walk *w, const pare_yaml *node, pare_evaluation *out)
{
    const bool list = node->kind == PARE_YAML_LIST;
    if (list && (node->count == 0 || node->count > PARE_EVALUATION_LENGTHS))
        return pare_recipe_fail(w->cx, node->place, "lengths takes 1 to %d numbers of tokens",
                                PARE_EVALUATION_LENGTHS);
    for (const pare_yaml *e = list ? node->first : node; e; e = list ? e->next : NULL) {
        double length;
        PARE_TRY(pare__value(w, e, &length_param, &length));
        for (size_t i = 0; i < out->lengths; i++)
            if (out->length[i] == (size_t)length)
                return pare_recipe_fail(w->cx, e->place, "lengths has %zu twice", (size_t)length);
        out->length[out->lengths++] = (size_t)length;
    }
    out->lengths_given = true;
    return PARE_OK;
}

pare_status pare__read_needle(const pare__walk *w, const pare_yaml *mapping, const pare_yaml *key,
                              pare_evaluation *out)
{
    static const char *const words[] = {"text", "lengths", "keys",
                                        "seed", "device",  "device_products"};
    const pare_yaml *const text = pare_yaml_get(mapping, "text"), *const lengths = pare_yaml_get(
                                                                      mapping, "lengths");
    double keys, seed;
    PARE_TRY(pare__keys(w, mapping, key->text, words, sizeof words / sizeof *words));
    if (!text)
        return pare_recipe_fail(w->cx, key->place, "needle needs a text, as in \"%s\"",
                                PARE__NEEDLE_EXAMPLE);
    PARE_TRY(pare__text(w, text, &out->text));
    if (lengths)
        PARE_TRY(read_lengths(w, lengths, out));
    PARE_TRY(pare__entry(w, mapping, &pare_needle_params[KEYS], &keys, NULL, NULL));
    PARE_TRY(pare__entry(w, mapping, &pare_needle_params[NEEDLE_SEED], &seed, NULL, NULL));
    out->keys = (size_t)keys;
    out->seed = (uint64_t)seed;
    return PARE_OK;
}

pare_status pare__read_continuations(const pare__walk *w, const pare_yaml *mapping,
                                     const pare_yaml *key, pare_evaluation *out)
{
    static const char *const words[] = {"text",    "tokens",          "window",
                                        "prompts", "continue_tokens", "temperature",
                                        "seed",    "device",          "device_products"};
    const pare_param *const p = pare_continue_params;
    const pare_yaml *source = NULL;
    double window, prompts, most, seed;
    PARE_TRY(pare__keys(w, mapping, key->text, words, sizeof words / sizeof *words));
    PARE_TRY(pare__one_source(w, mapping, key->place, key->text, words, 2, &source));
    PARE_TRY(
        pare__text(w, source, strcmp(source->key->text, "text") == 0 ? &out->text : &out->tokens));
    PARE_TRY(pare__entry(w, mapping, &pare__window, &window, &out->window_given, NULL));
    PARE_TRY(pare__entry(w, mapping, &p[PROMPTS], &prompts, NULL, NULL));
    PARE_TRY(pare__entry(w, mapping, &p[CONTINUE_TOKENS], &most, &out->most_given, NULL));
    PARE_TRY(pare__entry(w, mapping, &p[TEMPERATURE], &out->temperature, NULL, NULL));
    PARE_TRY(pare__entry(w, mapping, &p[CONTINUE_SEED], &seed, NULL, NULL));
    out->window = (size_t)window;
    out->prompts = (size_t)prompts;
    out->most = (size_t)most;
    out->seed = (uint64_t)seed;
    return PARE_OK;
}
