/* calib/block_loss.h - how far a block with changed weights is from what its outputs should be, and
 * the gradient of that, for methods that learn from it.
 *
 *     loss = sum |F_q(x) - y|^2 / sum |y|^2
 *
 * F_q is the block with changed weights and, where the artifact rounds inputs, rounded inputs; x
 * are the inputs that reach it, y the wanted outputs. */
#ifndef PARE_CALIB_BLOCK_LOSS_H
#define PARE_CALIB_BLOCK_LOSS_H

#include "runtime/forward.h"
#include "runtime/tape.h"
#include "solve/grid.h"

/* A block and the data that it is learned on. */
typedef struct pare_block_data {
    const pare_config *config;              /* of a model whose blocks are all like this one */
    const pare_forward *forward;            /* tables for the window */
    const pare_block *current;              /* in floats, read */
    const pare_grid *grid[PARE_ROLES];      /* UNIFORM; NULL: this linear stays in floats */
    pare_activation activation[PARE_SITES]; /* rounding of inputs that F_q shall see; bits 0: none.
                                               TENSOR counts as TOKEN */
    size_t samples, window;
    /* Inputs and wanted outputs [count * window, hidden] of windows first .. first + count - 1. */
    pare_status (*read)(void *self, size_t first, size_t count, float *x, float *y);
    void *self;
} pare_block_data;

typedef struct pare_block_loss {
    pare_ctx *cx;
    const pare_block_data *data;
    const char *what;   /* for progress, */
    size_t done, total; /* in batches of `batch` windows at most */
    size_t batch;
    pare_block
        rounded; /* F_q: matrices of its own, which the caller fills, and all else of `floats` */
    pare_block slope; /* the gradient */
    float *x, *want;
    size_t *chosen;  /* [batch] windows of a batch of a measurement */
    pare_arena room; /* of the tape, kept from batch to batch */
    pare_tape tape;  /* of the current batch */
    pare_array y;    /* behind the block, less what is wanted */
    double energy;   /* mean square of what is wanted; pare_block_loss_measure */
} pare_block_loss;

/* PARE_ENOTSUP, by its linear, when a grid is not uniform: `method` names who asks. */
PARE_CHECKED pare_status pare_block_data_check(pare_ctx *cx, const pare_block_data *data,
                                               const char *method);

/* Takes room for cx, data, what, total and batch, which are set. `floats`: the block whose norms
 * and biases F_q has. Release it in any case. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_block_loss_take(pare_block_loss *l, pare_arena *a,
                                              const pare_block *floats);
void pare_block_loss_release(pare_block_loss *l);

/* Loss over windows first .. end - 1, which come in order. PARE_EINTERRUPTED, asked before each
 * batch; what `read` returned; PARE_ENOMEM. */
PARE_CHECKED pare_status pare_block_loss_measure(pare_block_loss *l, size_t first, size_t end,
                                                 double *loss);

/* PARE_ENUMERIC when the loss of plain rounding is not finite: nothing can be learned. */
PARE_CHECKED pare_status pare_block_loss_check(pare_ctx *cx, double plain);

/* The gradient of the mean square error of some windows [count, at most batch, ascending], over the
 * mean square of what was wanted in the last measurement: l->slope. As there. */
PARE_CHECKED pare_status pare_block_loss_slopes(pare_block_loss *l, const size_t *window,
                                                size_t count);

/* Bytes that pare_block_loss_take takes for any block of a model, upper bound; SIZE_MAX: too many.
 */
size_t pare_block_loss_bytes(const pare_ctx *cx, const pare_config *c, size_t batch, size_t window);

#endif
