/* tests/unit/recipe_passes.h - the pass table recipes are parsed with in tests. */
#ifndef PARE_TESTS_RECIPE_PASSES_H
#define PARE_TESTS_RECIPE_PASSES_H

#include "recipes/recipe.h"

static const pare_word recipe_bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {0}};
static const pare_word recipe_row[] = {{"row", 0}, {0}};
static const pare_word recipe_clip[] = {{"none", 0}, {"mse", 1}, {0}};
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
    {0}};

static const pare_pass_words recipe_passes[] = {{"rtn", recipe_rtn}, {"gptq", recipe_gptq}};
enum { RECIPE_PASSES = 2 };

#endif
