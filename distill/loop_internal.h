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

/* What a teacher must have in common with its student. */
PARE_CHECKED pare_status pare__check_teacher(pare_ctx *cx, const pare_trainee *t,
                                             const pare_train_opts *o);

/* The most of a pass through a block, there and back, and through the head. `teacher` may be NULL.
 */
uint64_t pare__work_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          pare_batch b, const pare_train_opts *o);

#endif
