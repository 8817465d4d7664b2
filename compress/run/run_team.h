/* compress/run/run_team.h - a job of several processes (runtime/world.h).
 *
 * Process 0 runs the job as one alone does: it has the lock, the journal, the output, the report.
 * The others wait for its orders. An order is obeyed by all at once, each on the windows of its
 * shares (calib/shares.h) or of a text; they agree that it went well, and process 0 gets what it
 * came to and adds it up in the order of windows. So what is written is what one process writes.
 *
 * Every function is for all processes where it does not say otherwise; with one process they do
 * nothing. */
#ifndef PARE_COMPRESS_RUN_RUN_TEAM_H
#define PARE_COMPRESS_RUN_RUN_TEAM_H

#include "calib/stats.h"
#include "calib/tokens.h"
#include "compress/report/report.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

typedef enum pare_team_op {
    PARE_TEAM_STOP,    /* the job is over */
    PARE_TEAM_BEGIN,   /* a walk: tokens and the inputs of the first block, where it runs windows */
    PARE_TEAM_GATHER,  /* statistics */
    PARE_TEAM_MIDWAY,  /* activations go through the attention of the block */
    PARE_TEAM_CARRY,   /* .. or through all that is left of it */
    PARE_TEAM_COUNT,   /* tokens that reach each expert */
    PARE_TEAM_EXPERTS, /* statistics of some of them */
    PARE_TEAM_SOLVE,   /* a list of linears, of one process alone (compress/run/run_owner.h) */
    PARE_TEAM_EVALUATE,
    PARE_TEAM_TRAIN,  /* lots of windows, until process 0 has no more */
    PARE_TEAM_FIGURES /* what each process did */
} pare_team_op;

/* The same in all processes: they run one program. */
typedef struct pare_team_order {
    uint64_t op, status; /* of a job that is over */
    uint64_t block, active;
    uint64_t keeps;          /* the walk that keeps statistics in a file */
    uint64_t front, trained; /* the walk in front of a training; blocks are read as trained */
    uint64_t samples, fresh, found; /* of the calibration, twice; units of an earlier run */
    uint64_t tokens, window, kl;
    uint64_t first, count; /* experts, from 0 */
    uint64_t stored;       /* linears of experts that go with it */
} pare_team_order;

/* What a process keeps of it. */
typedef struct pare_run_team {
    double seconds;         /* spent on orders; process 0: on evaluations */
    size_t windows;         /* of the calibration that were run here */
    size_t block;           /* that the last order was about, from 1 */
    size_t linears;         /* pruned or quantized here, once for each step */
    struct pare_held *held; /* [size] what others have (compress/run/run_owner.h), once they had */
    struct pare_hand *hand; /* [PARE_ROLES] what came back and is at hand, or NULL */
} pare_run_team;

/* Behind a plan that ended in s: PARE_OK when that of every process is made. Refuses by name what
 * only one process can run (PARE_ENOTSUP), and a process whose program (by its version), recipe or
 * model is not that of process 0 (PARE_EUSAGE). */
PARE_CHECKED pare_status pare__team_check(pare_run *run, pare_status s);

/* Process 0: tells the others how the job ended, unless they know. */
void pare__team_stop(const pare_run *run, pare_status s);

/* Process 0: an order that says all, or goes with tokens of the calibration, the weights of the
 * current block, or a text to evaluate in windows. PARE_ENOTSUP for fewer windows than shares. */
PARE_CHECKED pare_status pare__team_begin(pare_run *run);
PARE_CHECKED pare_status pare__team_block(pare_run *run, pare_team_op op, size_t block,
                                          unsigned active);
PARE_CHECKED pare_status pare__team_experts(pare_run *run, size_t block, size_t first, size_t count,
                                            unsigned active);
PARE_CHECKED pare_status pare__team_text(const pare_run *run, const pare_tokens *tokens,
                                         size_t window, bool kl);
PARE_CHECKED pare_status pare__team_train(const pare_run *run);

/* Process 0: the order that one other process works on a list of linears. */
void pare__team_linears(const pare_run *run, size_t to, size_t block, const struct pare_held *list);

/* Process 0, behind its own part of an order: PARE_OK when all have done theirs. */
PARE_CHECKED pare_status pare__team_end(const pare_run *run, pare_status s);

/* Windows of the calibration that are here. */
void pare__team_windows(const pare_run *run, size_t *first, size_t *end);

/* Around a pass of the wave that gathers statistics of parts: room for shares, in scratch; then
 * shares go to process 0, which adds them behind its own. `s` is how the pass went. PARE_ENOMEM, or
 * what another process failed of. */
PARE_CHECKED pare_status pare__team_room(pare_run *run, const pare_stats_parts *parts,
                                         unsigned char **room);
PARE_CHECKED pare_status pare__team_join(pare_run *run, pare_stats_parts *parts,
                                         unsigned char *room, pare_status s);

/* The weights of the current block, and how much tokens count in it, from process 0 to all. */
void pare__team_spread(pare_run *run);

/* What this process did. */
pare_report_rank pare__team_own_figures(const pare_run *run);

/* Process 0: what each did, [*count], in the arena of the job; none with one process. */
PARE_CHECKED pare_status pare__team_figures(pare_run *run, const pare_report_rank **rank,
                                            size_t *count);

#endif
