/* recipes/batch_recipe_internal.h - what the files of the batch parser share. */
#ifndef PARE_RECIPES_BATCH_RECIPE_INTERNAL_H
#define PARE_RECIPES_BATCH_RECIPE_INTERNAL_H

#include "recipes/batch_recipe.h"
#include "recipes/recipe_internal.h"

enum { PARE__AXES = 32, PARE__COMBINATIONS = 1 << 20, PARE__NODES = 1 << 21 };

/* Alternatives for the passes. */
typedef struct pare__method {
    const char *name;
    const pare_yaml *passes; /* a list, as in a recipe */
} pare__method;

/* A parameter, or the path of a key, and its values. */
typedef struct pare__axis {
    const pare_yaml *key;    /* its text is what is varied */
    const pare_yaml *values; /* a list of texts */
    const char *word;        /* what names of jobs call it */
    bool path;               /* of a key of the recipe; else a parameter of passes */
} pare__axis;

typedef struct pare__batch_model {
    const char *name;
    const pare_yaml *path;
} pare__batch_model;

typedef struct pare__batch {
    pare__walk w; /* its recipe is that of the job at hand */
    const pare_batch_words *words;
    const pare_yaml *base; /* the tree of the base recipe */
    const char *base_file;
    pare__batch_model *model; /* that are varied */
    size_t models;
    pare__method *method;
    size_t methods;
    const pare_yaml *matrix;
    pare__axis axis[PARE__AXES];
    size_t axes;
    const pare_yaml *exclude; /* a list, or NULL */
    bool *excluded;           /* [its entries] that some combination was */
    size_t tried;             /* combinations, those left out included */
    size_t base_nodes, nodes; /* keys and values of the base recipe; of the trees of all jobs */
    size_t room;              /* jobs that fit into out->job */
    const char **after;       /* [room] names that jobs wait for, or NULL */
    const pare_yaml **waits;  /* [room] where it is said */
    pare_batch_recipe *out;
} pare__batch;

/* A combination: what a job takes of each. */
typedef struct pare__pick {
    const pare__batch_model *model;     /* NULL: that of the base recipe */
    const pare__method *method;         /* NULL: its passes */
    const pare_yaml *value[PARE__AXES]; /* NULL: as in the recipe */
} pare__pick;

/* The values of "models", "matrix", "exclude", "include" into b. */
PARE_CHECKED pare_status pare__batch_models(pare__batch *b, const pare_yaml *node);
PARE_CHECKED pare_status pare__batch_matrix(pare__batch *b, const pare_yaml *node);
PARE_CHECKED pare_status pare__batch_method(pare__batch *b, const pare_yaml *entry,
                                            const pare_yaml *named, pare__method *out);

/* Whether a pass of the method (NULL: of the base recipe) has the parameter. */
bool pare__batch_has(const pare__batch *b, const pare__method *m, const char *param);
const pare_yaml *pare__batch_passes(const pare__batch *b, const pare__method *m);
const char *pare__batch_pass_name(const pare_yaml *entry);

/* Whether it is a key of the recipe itself, such as seed, or one further down; and the path of such
 * a key, which may have "recipe." in front. */
bool pare__batch_is_path(const char *text);
const char *pare__batch_path(const char *text);

/* A key of the recipe that is a parameter of a pass of the method (NULL: of the base recipe), too,
 * means neither. PARE_EUSAGE. */
PARE_CHECKED pare_status pare__batch_check_meaning(const pare__batch *b, const pare__method *m,
                                                   const pare_yaml *key);

/* Whether jobs may set it: none sets its own output. PARE_EUSAGE. */
PARE_CHECKED pare_status pare__batch_check_key(const pare__batch *b, const pare_yaml *key);

/* A value that `key` cannot take here: no list, no mapping, nothing empty. For a list behind a path
 * it says how one place of it is named. */
pare_status pare__batch_fail_value(const pare__batch *b, const pare_yaml *value, const char *key);

/* "unknown parameter "bit" of the method; did you mean "bits"?" */
pare_status pare__batch_fail_param(const pare__batch *b, const pare__method *m,
                                   const pare_yaml *key);

/* Every combination that is not excluded, and the entries of `include`, as jobs. */
PARE_CHECKED pare_status pare__batch_expand(pare__batch *b);
PARE_CHECKED pare_status pare__batch_include(pare__batch *b, const pare_yaml *list);

/* A job of the combination; `name` NULL: made of it. */
PARE_CHECKED pare_status pare__batch_job(pare__batch *b, const pare__pick *p, pare_place place,
                                         const char *name);

/* A value or a path as a part of a name of a file, in the arena: letters, digits, "._-". NULL: no
 * memory. */
char *pare__batch_word(pare_arena *a, const char *text);

/* The name of a combination; with `models`, that of the model in front. */
PARE_CHECKED pare_status pare__batch_name(const pare__batch *b, const pare__pick *p,
                                          const char **name);
/* A name that the file gives. */
PARE_CHECKED pare_status pare__batch_check_name(const pare__batch *b, const pare_yaml *node);

#endif
