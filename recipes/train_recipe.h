/* recipes/train_recipe.h - the recipe of a training: YAML in, plain structs out. Errors and limits
 * are those of recipes/recipe.h, and so are the keys pare, model, output, tokenizer, seed, limits.
 */
#ifndef PARE_RECIPES_TRAIN_RECIPE_H
#define PARE_RECIPES_TRAIN_RECIPE_H

#include "recipes/recipe.h"

/* How weights are stored. */
typedef enum pare_store {
    PARE_STORE_AUTO, /* as the model has them; F32 for one that begins with random weights */
    PARE_STORE_F32,
    PARE_STORE_F16,
    PARE_STORE_BF16
} pare_store;

/* Adapters that are trained in place of the weights (distill/lora.h). */
typedef struct pare_lora_recipe {
    bool given;
    size_t rank;
    double alpha;
    pare_texts targets; /* patterns of linears, or of what stands behind the last dot of their
                           names; empty: all linears of the blocks */
    bool rslora;
    bool merge; /* write the model with the adapters in its weights; false: adapters alone */
    pare_place place, rank_place;
} pare_lora_recipe;

typedef struct pare_train_recipe {
    pare_recipe common; /* file, model, output, tokenizer, seed, ram_limit */
    pare_text config;   /* of a model with random weights; one of it and `model` is given */
    pare_text teacher;  /* not given: the model */
    size_t vocabulary;  /* tokens of a tokenizer to train; 0: none */
    size_t blocks;      /* that stay, spread evenly; 0: all */
    bool keep_zeros;    /* weights of linears that are 0 stay 0 */
    pare_store store;
    pare_lora_recipe lora;
    pare_texts text;         /* files, or */
    pare_text tokens;        /* a file */
    size_t window, held_out; /* tokens of a window; windows to measure on */
    bool window_given;
    double value[PARE_PARAMS_MAX]; /* of `train`, in the order of its table */
    pare_place vocabulary_place, blocks_place, data_place, window_place, held_out_place,
        train_place;
} pare_train_recipe;

/* Settings of "data", ended by NULL: window, held_out; those that are one word: vocabulary, blocks,
 * keep_zeros, dtype. */
extern const pare_param *const pare_train_data_params[];
extern const pare_param *const pare_train_word_params[];

/* Settings of "lora" but targets, ended by a NULL name. */
extern const pare_param pare_lora_params[];

/* The keys of its top level, ended by a NULL name. */
extern const pare_recipe_key pare_train_keys[];

/* Parses it; its strings live in the arena.
 *   params   the table of "train", ended by a NULL name
 * PARE_EUSAGE with the message of recipes/recipe.h, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_train_recipe_parse(pare_ctx *cx, pare_arena *a,
                                                 const pare_recipe_source *source,
                                                 const pare_param *params, pare_train_recipe *out);

/* It in one canonical form, a recipe again, with defaults filled in. `portable`: without paths and
 * limits, as it identifies the work. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_train_recipe_normalize(pare_ctx *cx, pare_arena *a,
                                                     const pare_train_recipe *r,
                                                     const pare_param *params, bool portable,
                                                     char **text, size_t *len);

#endif
