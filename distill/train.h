/* distill/train.h - trains a model, alone or against another, block by block.
 *
 * A step takes `batch` windows, some at a time. Of each lot the teacher and the student run
 * forward, and the inputs of the student's blocks are kept; the head makes logits and their
 * gradient, a few rows at once, so the logits of a lot are never all there; then each block runs
 * once more, on a tape, for its gradient (runtime/tape.h); with `keep` the first run was on it.
 * The gradient of a step is the sum of those of its lots, in their order: each is summed apart,
 * block by block, and then added, so that another process may make it. A row counts when its
 * window has a token behind it: the loss of a step is the mean over those rows; that of hidden
 * states and that of attention are means over blocks, that of relations the mean over all rows.
 *
 * Windows come in an order that the seed decides, each once before any comes again. With `lambda`
 * the student writes the second half of each window of some steps itself, before the step; of these
 * the rows count whose next token it drew, ce has no part, and the gradient is that of the losses
 * of the tokens as they came out (GKD: Agarwal et al., 2023). With `teacher_share` a, tokens come
 * from (1 - a) q + a p, both at one temperature (MiniLLM: Gu et al., 2023; with reverse_kl its
 * single-step part, without its policy gradient). Which steps, and what is drawn,
 * follows from the seed, the number of the step and the weights alone.
 *
 * Several processes (runtime/world.h) deal the lots of a step in turn. Process 0 has masters,
 * moments and the state; it sends what the model reads, gets loss and gradient of each lot, and
 * adds them. The same bytes for any number of threads and processes. */
#ifndef PARE_DISTILL_TRAIN_H
#define PARE_DISTILL_TRAIN_H

#include "distill/aware.h"
#include "distill/lora.h"
#include "distill/losses.h"
#include "distill/projection.h"
#include "distill/relations.h"
#include "distill/schedule.h"
#include "distill/scores.h"
#include "distill/teacher_top.h"
#include "runtime/forward.h"
#include "runtime/leaves.h"

typedef struct pare_train_data {
    const int32_t *token; /* [windows, window] */
    size_t windows, window;
} pare_train_data;

typedef struct pare_train_opts {
    pare_losses losses;
    pare_adamw adamw;
    pare_schedule schedule;
    size_t batch; /* windows of a step */
    uint64_t seed;
    size_t teacher_top;   /* K of distill/teacher_top.h, which then stands for kl; 0: the teacher
                             runs on every window each time */
    double lambda;        /* chance of a step to learn from what the student writes */
    double temperature;   /* > 0, at which it writes */
    double teacher_share; /* chance of a token of these to be the teacher's (MiniLLM) */
    double save_minutes;  /* for who keeps states: between two of them; 0: behind each step */
    bool bf16;            /* linears multiply what is rounded to BF16, there and back */
    bool moments8;        /* for who takes the leaves: as in pare_choice */
    bool aware;           /* for who plans: codes are in place */
    bool embeddings;      /* for who plans: matrices outside the blocks are trained, too */
    size_t windows;       /* for who reads the data: how many; 0: as many as it calibrates on */
    bool adapters;        /* the same: adapters are trained, linears beside them may be F16, BF16 */
    bool keep; /* blocks keep what they computed for the way back, all at once, instead of computing
                  it again: a step takes 6 flops per weight and token instead of 8. Same bytes. */
    const char *what; /* is reported as this; NULL: as training */
} pare_train_opts;

/* Which leaves of a model are trained, and how. The block of those outside the blocks is
 * PARE_OUTSIDE. */
#define PARE_OUTSIDE SIZE_MAX
typedef struct pare_choice {
    bool (*wants)(void *self, size_t block, const pare_leaf *leaf);
    /* The grid of a matrix whose codes are in place while it is trained; false: floats. NULL: all
     * are. */
    bool (*grid)(void *self, size_t block, const pare_leaf *leaf, pare_grid *grid);
    void *self;
    bool moments8; /* of all leaves but tables (pare_trained_take) */
    bool follows;  /* the leaves of another process than 0: floats that the model reads, and their
                      gradients, whatever the grid */
} pare_choice;

/* Two models of one vocabulary. With `hidden` they have one
 * width, or a projection, and the stream behind block b of N of the student stands beside that
 * behind block (b + 1) M / N - 1 of M of the teacher (TinyBERT's map), as the blocks do with
 * `attention`, for which heads are equally many; with `relations` the last blocks are compared. */
typedef struct pare_trainee {
    const pare_forward *student, *teacher; /* teacher NULL: no loss needs one */
    pare_trained *leaf; /* of the student: those that are wanted, and behind them step sizes */
    size_t leaves;
    pare_aware *aware;
    size_t awares;
    pare_lora *lora;
    size_t loras;
    bool tables;                 /* embeddings or positions are trained */
    pare_projection *projection; /* with `hidden`, between two widths; else not used, or NULL */
} pare_trainee;

/* Whether two models need a projection to be trained so. */
static inline bool pare_train_projects(const pare_losses *l, const pare_config *student,
                                       const pare_config *teacher)
{
    return l->hidden > 0 && student->hidden != teacher->hidden;
}

/* Gives each leaf that is wanted, by block and then in the order of runtime/leaves.h, and behind
 * them those outside the blocks, floats of its own: its values, copied or decoded, lie there from
 * now on; with codes in place, the masters. Those need zero points and steps, and
 * pare_trainee_round. With `follows`, values come from process 0. Only matrices decay and keep
 * their zeros. A tied head reads what the embedding reads. Model and blocks are the caller's, to
 * write. Fills all but the models and the projection. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_trainee_take(pare_ctx *cx, pare_arena *a, pare_model *m,
                                           const pare_choice *choice, pare_trainee *out);

/* Gives each linear of the blocks that is wanted an adapter instead (distill/lora.h): its A and B
 * are trained, one behind the other, with moments in F32, and nothing else is. Needs
 * pare_trainee_round. Fills all but the models. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_trainee_adapt(pare_arena *a, pare_model *m, const pare_choice *choice,
                                            const pare_lora_opts *o, pare_trainee *out);

/* What the student reads of masters and adapters, once they changed: as pare_aware_round,
 * pare_lora_merge. */
PARE_CHECKED pare_status pare_trainee_round(pare_ctx *cx, pare_trainee *t);

/* What a step did. */
typedef struct pare_train_step {
    size_t step; /* from 1 on */
    double loss; /* before the step */
    double norm; /* of its gradient, before clipping */
    double rate;
} pare_train_step;

/* How far it is. Together with values and moments of the leaves and the projection this is all that
 * a training needs to go on, to the same bytes. */
typedef struct pare_train_state {
    size_t steps;        /* that are done */
    double first, least; /* loss of the first, least norm above 0 of all, steps without ce left out;
                            infinite: none yet; any where steps is 0 */
} pare_train_state;

/* Hears of each step, once the leaves and the state are those behind it. */
typedef struct pare_train_watch {
    pare_status (*see)(void *self, const pare_train_step *step); /* NULL: nobody watches */
    void *self;
} pare_train_watch;

/* PARE_EINVAL where nothing can be learned: windows of one token, which have no token behind it, no
 * windows, steps of no windows, no loss with a weight, lambda without one that needs a teacher,
 * teacher_top without kl or with lambda or another loss that needs one. */
PARE_CHECKED pare_status pare_train_check(pare_ctx *cx, const pare_train_data *data,
                                          const pare_train_opts *o);

/* PARE_EINVAL where a teacher does not go with a student: another vocabulary; with `attention`
 * other heads or fewer blocks; with `relations` queries or keys that cannot be cut into the pieces.
 */
PARE_CHECKED pare_status pare_train_check_pair(pare_ctx *cx, const pare_config *student,
                                               const pare_config *teacher,
                                               const pare_train_opts *o);

/* Runs the steps of the schedule that are left. Every process calls it, with the same data and
 * options; others than 0 with a trainee that follows, adapted or not, and their state stays.
 *   state  where it goes on: all 0 at first, with moments of 0; then what it has come to
 * As pare_train_check, and PARE_EINVAL for a teacher that does not go with the student;
 * PARE_ENUMERIC when a loss or a gradient is not finite, when a norm is 10000
 * times the smallest before it, or a loss above 1 is 10 times the first: the weights are those
 * before that step. PARE_ENOMEM, PARE_EINTERRUPTED, PARE_ENOTSUP (a linear that is not dense, or a
 * projection in several processes), what `see` returns, what another process failed of. Memory:
 * pare_train_bytes of scratch, rewound. */
PARE_CHECKED pare_status pare_train(pare_ctx *cx, pare_arena *scratch, pare_trainee *t,
                                    const pare_train_data *data, const pare_train_opts *o,
                                    pare_train_state *state, const pare_train_watch *watch);

/* Upper bound of its scratch, beside the leaves themselves, for a student and a teacher (NULL:
 * none) of these configurations. leaves: of the trainee, and adapters. apart: the most weights of
 * one block that have a gradient, and those outside the blocks that have one. */
uint64_t pare_train_bytes(const pare_ctx *cx, const pare_config *c, const pare_config *teacher,
                          const pare_train_data *data, const pare_train_opts *o, size_t leaves,
                          uint64_t apart);

#endif
