/* compress/budget/widths_internal.h - the search for widths of MLPs by a speed, and its parts. */
#ifndef PARE_COMPRESS_BUDGET_WIDTHS_INTERNAL_H
#define PARE_COMPRESS_BUDGET_WIDTHS_INTERNAL_H

#include "compress/budget/budget_internal.h"
#include "formats/hash.h"

#define PARE_WIDTHS_FILE "widths.json"

enum { PARE_WIDTHS_MOST = 16 };

/* What is known of widths. With widths of all blocks:
 *
 *   time of a token = token_ps - blocks ps[0] + sum of ps[width of the block] */
typedef struct pare_widths {
    pare_budget *b;
    size_t blocks, count;
    size_t width[PARE_WIDTHS_MOST]; /* [count], falling; the first is the model's */
    uint64_t ps[PARE_WIDTHS_MOST];  /* of an MLP in a token */
    uint64_t token_ps;              /* of the model as it is */
    double *error;                  /* [blocks, count] of the output of down, over what it gave */
    double *weight;                 /* [blocks] what an error of 1 counts */
    char model[PARE_XXH3_HEX];      /* of the weight files */
} pare_widths;

/* widths_measure.c: error and weight, in a walk over the float model; ps and token_ps; and a token
 * of a model with width[choice[block]] in each block, by views of the model's weights: its
 * values mean nothing, its times are those of these shapes. */
PARE_CHECKED pare_status pare__widths_errors(pare_widths *w);
PARE_CHECKED pare_status pare__widths_times(pare_widths *w);
PARE_CHECKED pare_status pare__widths_token(pare_widths *w, const size_t *choice, uint64_t *ps);

/* Lowers times that cannot be: what else runs on the machine only adds to a time, and an MLP of
 * more channels takes neither less time nor more than in proportion to them. pare__widths_times
 * ends with it. */
void pare__widths_bound(pare_widths *w);

/* widths_store.c: what an earlier search measured of this model, these windows and kernels, *known
 * when there is all of it; and all that was measured, written. */
PARE_CHECKED pare_status pare__widths_read(pare_widths *w, bool *known);
PARE_CHECKED pare_status pare__widths_write(const pare_widths *w);

#endif
