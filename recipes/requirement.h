/* recipes/requirement.h - what a recipe requires of its result. */
#ifndef PARE_RECIPES_REQUIREMENT_H
#define PARE_RECIPES_REQUIREMENT_H

#include <stdbool.h>
#include <stddef.h>

/* Where a value stood, for errors found later. line 0: from the command line or default. */
typedef struct pare_place {
    const char *file;
    size_t line, column;
} pare_place;

typedef struct pare_text {
    const char *text; /* NULL: not given */
    pare_place place;
} pare_text;

typedef struct pare_texts {
    pare_text *item;
    size_t count;
} pare_texts;

/* What the finished model must keep to; in the order of pare_requirement_words. */
typedef enum pare_requirement_kind {
    PARE_REQUIRE_PERPLEXITY,
    PARE_REQUIRE_KL,
    PARE_REQUIRE_TOP1,
    PARE_REQUIRE_CHOICE,
    PARE_REQUIRE_TASK,
    PARE_REQUIRE_NEEDLE,
    PARE_REQUIRE_BYTES
} pare_requirement_kind;

typedef struct pare_requirement {
    pare_requirement_kind kind;
    const char *name;   /* "kl", "tasks.piqa.acc_norm" */
    pare_text text;     /* "<= +1%" */
    const char *task;   /* "piqa", with TASK; else NULL */
    const char *metric; /* the same: "acc" unless it is named */
    double bound;
    bool relative; /* the bound is a share of the original's */
} pare_requirement;

/* Kinds, ended by a NULL name; `most`: a bound from above. */
typedef struct pare_requirement_word {
    const char *name;
    bool most;
    const char *takes, *help;
} pare_requirement_word;
extern const pare_requirement_word pare_requirement_words[];

#endif
