/* distill/loop_internal.h - what the loop and its plan share. */
#ifndef PARE_DISTILL_LOOP_INTERNAL_H
#define PARE_DISTILL_LOOP_INTERNAL_H

#include "calib/wave.h"
#include "distill/sinkhorn.h"
#include "distill/train.h"
#include "runtime/small.h"
#include "runtime/tape.h"

enum { PARE__CHUNK = 256 }; /* rows of logits that are there at once */
_Static_assert(PARE__CHUNK % PARE_SINKHORN_ROWS == 0, "groups of sinkhorn do not depend on chunks");

/* A block of the student that ran and waits for the way back. */
typedef struct pare__waiting {
    pare_tape tape;
    pare_array in, out;
} pare__waiting;

static inline size_t pare__lot_windows(const pare_train_data *data, const pare_train_opts *o)
{
    return pare_smaller(pare_wave_batch(data->window), o->batch);
}

/* Lots of a step. */
static inline size_t pare__lots(const pare_train_data *data, const pare_train_opts *o)
{
    const size_t most = pare__lot_windows(data, o);
    return o->batch / most + (o->batch % most > 0);
}

static inline bool pare__needs_teacher(const pare_train_opts *o)
{
    return pare_losses_taught(&o->losses);
}

static inline size_t pare__pieces_of(const pare_config *c, const pare_train_opts *o)
{
    return o->losses.pieces ? o->losses.pieces : c->kv_heads;
}

/* How many streams the teacher keeps: in front of all blocks and behind the last, or that alone. */
static inline size_t pare__teacher_streams(const pare_config *teacher, const pare_train_opts *o)
{
    return o->losses.hidden > 0 ? teacher->blocks + 1 : pare__needs_teacher(o) ? 1 : 0;
}

/* Blocks of the teacher that stand beside the first b + 1 of the student: the last of them beside
 * block b. */
static inline size_t pare__beside(const pare_config *c, const pare_config *teacher, size_t b)
{
    return (b + 1) * teacher->blocks / c->blocks;
}

/* A gradient of the tape: what a lot adds to it, apart from what the lots before it came to. */
typedef struct pare__lot_part {
    float *read;          /* [count] the value */
    float *total, *apart; /* [count]; apart: 0 but while a lot adds to it, or NULL */
    size_t count, block;
} pare__lot_part;

/* Gradients of a step: those of its lots, in their order. */
typedef struct pare__lot_sum {
    pare_leaf_gradient *gradient; /* [count] where the tape adds them */
    pare__lot_part *part;         /* [count] */
    size_t count;
} pare__lot_sum;

/* For what the model reads of the trainee: leaves, adapted matrices. `apart`: takes room for one
 * block and for what lies outside; else this process runs one lot of a step. PARE_ENOMEM. */
PARE_CHECKED pare_status pare__lot_sum_take(pare_arena *a, const pare_trainee *t, bool apart,
                                            pare__lot_sum *out);

/* A lot begins. The first is the sum so far. */
void pare__lot_sum_begin(pare__lot_sum *s, bool first);

/* Its gradients of a block are done: they are added to those of the step. */
void pare__lot_sum_add(const pare_ctx *cx, pare__lot_sum *s, size_t block);

/* Values of the leaves from process 0 to all. All call it. */
void pare__lot_sum_spread(const pare_ctx *cx, const pare__lot_sum *s);

/* The gradient of a lot, in `total` of another process, to process 0, which adds it: at most
 * `piece` floats at once, as many on both sides, in `room`. It is 0 then. */
void pare__lot_sum_send(const pare_ctx *cx, const pare__lot_sum *s, size_t piece);
void pare__lot_sum_receive(const pare_ctx *cx, const pare__lot_sum *s, size_t from, size_t piece,
                           float *room);

/* A training that runs. */
typedef struct pare__trainer {
    pare_ctx *cx;
    pare_arena *scratch;
    pare_arena work; /* of passes through a block or the head, kept from one to the next; a stack:
                        blocks that wait lie at its bottom */
    pare_trainee *t;
    const pare_train_data *data;
    const pare_train_opts *o;
    const pare_config *c, *tc; /* of the student, of the teacher */
    pare_forward student, teacher;
    size_t begun;           /* steps of an earlier run */
    size_t step, lot;       /* that run now, from 0 on */
    size_t rows;            /* of the current lot */
    size_t prompt;          /* of the current step: tokens of the text in a window */
    pare_losses losses;     /* of the current step */
    uint64_t round;         /* that `order` is of, from 1 on; 0: none yet */
    size_t *order;          /* [windows] */
    int32_t *token, *label; /* [rows of a lot] */
    float *x, *u;           /* inputs of all blocks and what is behind the last: of the
                               student; of the teacher, with `hidden`, else only the latter */
    float *dx;              /* of the stream */
    float *logits;          /* [PARE__CHUNK, vocab] of the teacher */
    pare_kv kv, teacher_kv;
    pare_qkv qkv, teacher_qkv;   /* of the last blocks, with `relations` */
    pare_qk *qk, *teacher_qk;    /* [blocks of the student], with `attention`; else NULL */
    pare_qkv dqkv;               /* what these two add to the gradient of a block */
    pare__lot_sum sum;           /* what the tape finds gradients for */
    pare__waiting *block;        /* [blocks]; without `keep` [1] */
    pare_teacher_top top;        /* of all tokens of the data, with teacher_top */
    bool *has;                   /* [windows] whether it has them */
    size_t *at, *new_at;         /* [rows of a lot] rows of top; SIZE_MAX: it is not new */
    bool asks;                   /* the teacher runs on the current lot */
    pare_projection *projection; /* of t, where it is needed; else NULL */
    double loss;                 /* of the lot so far */
} pare__trainer;

/* Says how far the training is when `share` of the current lot is done. */
void pare__lot_tell(const pare__trainer *r, double share);

/* Lot `lot` of a step: its part of the loss, and its gradient to where the tape adds it. The
 * statuses of pare_train. */
PARE_CHECKED pare_status pare__run_lot(pare__trainer *r, size_t step, bool drawn, size_t lot);

/* What a teacher must have in common with its student. */
PARE_CHECKED pare_status pare__check_teacher(pare_ctx *cx, const pare_trainee *t,
                                             const pare_train_opts *o);

/* The most of a pass through a block, there and back, and through the head. `teacher` may be NULL.
 */
uint64_t pare__work_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          pare_batch b, const pare_train_opts *o);

#endif
