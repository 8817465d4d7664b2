/* compress/plan/plan_tables.h - the embeddings and the head, where the recipe quantizes them. */
#ifndef PARE_COMPRESS_PLAN_PLAN_TABLES_H
#define PARE_COMPRESS_PLAN_PLAN_TABLES_H

#include "formats/packed.h"
#include "recipes/recipe.h"

/* One matrix [vocab, hidden]. A tied one is both, under the name of the embeddings. */
typedef struct pare_plan_table {
    pare_packed_linear packed;
    pare_table which; /* a tied one: EMBEDDINGS */
    const pare_step *step;
    bool inputs; /* its step goes by the Hessian of what the head reads */
} pare_plan_table;

typedef struct pare_plan_tables {
    pare_plan_table of[PARE_TABLES];
    size_t count;
} pare_plan_tables;

#endif
