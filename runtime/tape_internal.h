/* runtime/tape_internal.h - what the files of the tape share. */
#ifndef PARE_RUNTIME_TAPE_INTERNAL_H
#define PARE_RUNTIME_TAPE_INTERNAL_H

#include "runtime/forward_internal.h"
#include "runtime/tape.h"

/* An array on a tape and its gradient. */
struct pare_slot {
    pare_array of;
    float *d; /* [rows, width]; NULL: none yet */
    bool wanted;
};

typedef enum pare__op {
#define PARE__OP(name, parameters) PARE__OP_##name,
    PARE_BLOCK_OPS(PARE__OP)
#undef PARE__OP
} pare__op;

/* An operation that ran, and its arguments. */
typedef struct pare_step {
    struct pare_step *before;
    pare__op op;
    pare_array x, other, third, y;      /* by the order of the parameters */
    pare_array outs[PARE__LINEARS_MAX]; /* linears */
    const pare_linear *w[PARE__LINEARS_MAX];
    size_t count, expert;
    pare_norm_of norm;
    pare_attend attend;
    pare_recur recur; /* its last input is outs[0] */
    pare_pieces pieces;
    pare_act act;
    pare_routes routes;
    float *dweight;                /* route: [rows, used] */
    const struct pare_step *route; /* gather, scatter: which one sent the rows */
    const size_t *row;
    double cap;
    const pare_model *model;
    const int32_t *tokens;
    pare_batch batch;
} pare_step;

/* Zeroed memory of the tape. NULL: PARE_ENOMEM. */
void *pare__tape_new(pare_tape *t, size_t count, size_t size);

/* The gradient of an array, zeros at first; NULL where it is not asked for. *d. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__tape_d(pare_tape *t, pare_array x, float **d);

/* Behind the step that made y, which nothing reads any more. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__tape_release(pare_tape *t, pare_array y);

/* Where the gradient of a weight goes, or NULL. */
float *pare__tape_leaf(const pare_tape *t, const void *value);

/* y[j] += sum over rows of a[i, j] b[i, j], b NULL: of a[i, j]; in double, in the order of rows.
 * Nothing where y is NULL. Threads over columns. */
void pare__sum_columns(const pare_tape *t, const float *a, const float *b, size_t rows,
                       size_t width, float *y);

/* dx += dy W, both rounded to BF16, for a block of rows of W after the other. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__tape_undo_bf16(pare_tape *t, const pare_linear *w, const float *dy,
                                              size_t rows, float *dx);

/* Back through attention: d of q, k and v, before their rotation, and of the sinks. */
PARE_CHECKED pare_status pare__tape_attend(pare_tape *t, const pare_step *s);

/* Back through a recurrent state, whose sequences begin with the batch. */
PARE_CHECKED pare_status pare__tape_recur(pare_tape *t, const pare_step *s);

/* Back through what experts add. */
PARE_CHECKED pare_status pare__tape_route(pare_tape *t, const pare_step *s);
PARE_CHECKED pare_status pare__tape_gather(pare_tape *t, const pare_step *s);
PARE_CHECKED pare_status pare__tape_scatter(pare_tape *t, const pare_step *s);
PARE_CHECKED pare_status pare__tape_share(pare_tape *t, const pare_step *s);

#endif
