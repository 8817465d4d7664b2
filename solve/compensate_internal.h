/* solve/compensate_internal.h - what the sweep and the choice of what goes share. */
#ifndef PARE_SOLVE_COMPENSATE_INTERNAL_H
#define PARE_SOLVE_COMPENSATE_INTERNAL_H

#include "solve/compensate.h"

enum { PARE__TILE = 128, PARE__STRIP = 64 };

/* Scratch of one worker. */
typedef struct pare__strip {
    float *t;       /* [block, STRIP] weights, then errors, of the block */
    uint8_t *codes; /* [block, STRIP] */
    float *row;     /* [k] for reordering */
    uint8_t *keep;  /* [block, STRIP] 0: the weight goes; with sparsity */
    float *kept;    /* [TILE, block] what stays; without a grid, or with spread */
    float *before;  /* [block, STRIP] weights before they are rounded; with spread */
    uint8_t *zeros; /* [TILE, k] 1: stays 0; with keep_zeros */
    size_t loaded;  /* group whose grids are in scale, divisor and zero */
    float scale[PARE__STRIP], divisor[PARE__STRIP], zero[PARE__STRIP];
    float least[PARE__STRIP]; /* super-blocks */
    float held[PARE__STRIP];
    double loss[PARE__STRIP];
} pare__strip;

/* First fault of a tile. */
typedef struct pare__tile_fault {
    pare_grid_fault fault;
    size_t row, group; /* group: their number for columns kept apart */
    float value;
} pare__tile_fault;

typedef struct pare__sweep {
    const pare_kernels *kernels;
    const pare_grid *grid;          /* or NULL */
    const pare_sparsity *sparsity;  /* or NULL */
    const float *cost;              /* [k] or NULL */
    const pare_upper *spread;       /* or NULL */
    const float *start, *fitted_to; /* or NULL */
    float *loss_of;                 /* [k] 1 / U_jj^2 of each column, 0 if dead; super-blocks */
    bool keep_zeros;
    const pare_factor *factor;
    pare_codes *out;
    float *w;
    size_t n, k, block;
    size_t inner;            /* positions before the columns kept apart */
    size_t *begins;          /* [groups + 1] first position of each group; inner; with a grid */
    bool prepare;            /* zero dead columns and sort columns first */
    size_t begin, end;       /* columns to walk then */
    float *score;            /* [n, block] of the block; unstructured */
    uint8_t *keep;           /* [n, block] */
    pare__strip *strips;     /* per worker */
    double *loss;            /* per tile */
    pare__tile_fault *fault; /* per tile */
} pare__sweep;

/* True when what goes is compared over a block of all rows, or of a row, at once. */
static inline bool pare__sweep_by_blocks(const pare__sweep *job)
{
    return job->sparsity && !job->sparsity->of;
}

/* What a grid, a factor and the planes for columns kept apart must be. */
PARE_CHECKED pare_status pare__sweep_check_apart(pare_ctx *cx, const pare_compensate *c,
                                                 const pare_codes *out);

/* job->begins from `scratch`. */
PARE_CHECKED pare_status pare__sweep_take_starts(pare_arena *scratch, pare__sweep *job);

/* Fits the scales of columns kept apart to the weights of rows [r0, r1) as they stand. */
bool pare__sweep_fit_apart(const pare__sweep *job, size_t r0, size_t r1, pare__tile_fault *fault);
PARE_CHECKED pare_status pare__sweep_fail_apart(pare_ctx *cx, const pare__tile_fault *fault);

/* Chooses what goes of the columns [begin, end) of all rows: job->keep. */
PARE_CHECKED pare_status pare__sweep_choose(pare_ctx *cx, pare_arena *scratch, pare__sweep *job);

/* Chooses in the group of columns that begins with j of rows [r0, r0 + rows); x [.., STRIP] are the
 * weights as they stand from column j on, keep the same of the mask. */
void pare__sweep_choose_group(const pare__sweep *job, size_t r0, size_t rows, size_t j,
                              const float *x, uint8_t *keep);

/* Sets aside the weights of a column that go, so that the others are rounded alone. */
void pare__sweep_hold_back(pare__strip *s, float *x, const uint8_t *keep);

/* Puts their errors among those of the others: all of each weight. */
void pare__sweep_lose_held(pare__strip *s, float *e, const uint8_t *keep, float u_jj);

/* With spread, once column j of the block [c0, c1) of a strip is rounded: notes what stays of it,
 * and gives the columns of the block behind it their share of what it was. `row` is the first of
 * the strip in its tile. */
void pare__sweep_spread_column(const pare__sweep *job, pare__strip *s, size_t row, size_t rows,
                               size_t c0, size_t c1, size_t j);

/* Behind a block: the columns from c1 on get their share of what stays in it. */
void pare__sweep_spread_block(const pare__sweep *job, const pare__strip *s, size_t r0, size_t r1,
                              size_t c0, size_t c1);

/* Notes which weights of rows [r0, r1) of a tile are 0, and makes them 0 again in one column of a
 * strip whose rows begin with r0, and in the columns from `first` on of rows [r0, r1). */
void pare__sweep_note_zeros(const pare__sweep *job, pare__strip *s, size_t r0, size_t r1);
void pare__sweep_zero_column(const pare__sweep *job, const pare__strip *s, float *x, size_t r0,
                             size_t rows, size_t j);
void pare__sweep_zero_rest(const pare__sweep *job, const pare__strip *s, size_t r0, size_t r1,
                           size_t first);

#endif
