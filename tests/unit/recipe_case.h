/* tests/unit/recipe_case.h - the pass table recipes are parsed with in tests, and how a corpus file
 * is read: lines "#set path=value" at its top are overrides, "#again N" repeats what follows N
 * times. */
#ifndef PARE_TESTS_RECIPE_CASE_H
#define PARE_TESTS_RECIPE_CASE_H

#include <stdint.h>
#include <string.h>

#include "recipes/recipe.h"

static const pare_word recipe_bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {0}};
static const pare_word recipe_row[] = {{"row", 0}, {0}};
static const pare_word recipe_clip[] = {{"none", 0}, {"mse", 1}, {0}};
static const pare_word recipe_unstructured[] = {{"unstructured", 0}, {0}};
static const pare_word recipe_tail[] = {{"short", 0}, {"error", 1}, {0}};

// clang-format off
#define RECIPE_GRID                                                                                \
    {.name = "bits", .type = PARE_PARAM_CHOICE, .fallback = 4, .words = recipe_bits},              \
    {.name = "group", .type = PARE_PARAM_INTEGER, .min = 32, .max = 1 << 20, .fallback = 128,      \
     .multiple = 32, .words = recipe_row},                                                         \
    {.name = "symmetric", .type = PARE_PARAM_BOOL, .fallback = 1},                                 \
    {.name = "clip", .type = PARE_PARAM_CHOICE, .words = recipe_clip},                             \
    {.name = "tail", .type = PARE_PARAM_CHOICE, .words = recipe_tail}
// clang-format on

static const pare_param recipe_rtn[] = {RECIPE_GRID, {0}};
static const pare_param recipe_gptq[] = {
    RECIPE_GRID,
    {.name = "act_order", .type = PARE_PARAM_BOOL},
    {.name = "true_sequential", .type = PARE_PARAM_BOOL},
    {.name = "damp", .type = PARE_PARAM_NUMBER, .min = 1e-6, .max = 1, .fallback = 0.01},
    {.name = "block",
     .type = PARE_PARAM_INTEGER,
     .min = 32,
     .max = 4096,
     .fallback = 128,
     .multiple = 32},
    {.name = "share", .type = PARE_PARAM_NUMBER, .min = 0.001, .max = 0.999, .fallback = 0.5},
    {.name = "pattern", .type = PARE_PARAM_PATTERN, .max = 64, .words = recipe_unstructured},
    {.name = "width",
     .type = PARE_PARAM_NUMBER,
     .max = 1,
     .fallback = 0.5,
     .by = "tail",
     .when = "error"},
    {0}};

static const pare_pass_words recipe_passes[] = {{"rtn", recipe_rtn, false},
                                                {"gptq", recipe_gptq, false}};
enum { RECIPE_PASSES = 2, RECIPE_SETS = 8, RECIPE_CASE_MAX = (1 << 20) + 64 };

/* Largest text that comes of repeating: above the largest recipe, but not in a search, where a few
 * bytes must not cost as much as a million. */
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
enum { RECIPE_REPEATED_MAX = 1024 };
#else
enum { RECIPE_REPEATED_MAX = RECIPE_CASE_MAX };
#endif

/* The rest of the line at *at behind `word`, in the arena, or NULL; *at moves behind the line. */
static inline char *recipe_directive(pare_arena *a, const char *word, const uint8_t **at,
                                     const uint8_t *end)
{
    const size_t n = strlen(word);
    if ((size_t)(end - *at) <= n || memcmp(*at, word, n) != 0)
        return NULL;
    const uint8_t *const from = *at + n, *const stop = memchr(from, '\n', (size_t)(end - from));
    if (!stop)
        return NULL;
    *at = stop + 1;
    return pare_arena_text(a, (const char *)from, (size_t)(stop - from));
}

/* Parses data [len] as the file `name`. */
static inline pare_status recipe_case(pare_ctx *cx, pare_arena *a, const char *name,
                                      const uint8_t *data, size_t len, pare_recipe *out)
{
    const char *sets[RECIPE_SETS];
    size_t set_count = 0, times = 1;
    const uint8_t *at = data, *const end = data + len;
    while (set_count < RECIPE_SETS && (sets[set_count] = recipe_directive(a, "#set ", &at, end)))
        set_count++;
    const char *const again = recipe_directive(a, "#again ", &at, end);
    for (const char *p = again; p && *p >= '0' && *p <= '9'; p++)
        times = (p == again ? 0 : times * 10) + (size_t)(*p - '0');
    const size_t body = (size_t)(end - at);
    if (times > RECIPE_REPEATED_MAX || (body && times > RECIPE_REPEATED_MAX / body))
        times = 1;
    char *const text = pare_arena_take(a, body + 1, times);
    if (!text)
        return PARE_ENOMEM;
    for (size_t i = 0; body && i < times; i++)
        memcpy(text + i * body, at, body);
    const pare_recipe_source source = {name, text, body * times, sets, set_count};
    return pare_recipe_parse(cx, a, &source, recipe_passes, RECIPE_PASSES, out);
}

#endif
