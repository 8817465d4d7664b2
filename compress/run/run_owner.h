/* compress/run/run_owner.h - linears that process 0 gives to others (runtime/world.h): they run
 * pruners and quantizers, and process 0 packs and writes what comes back.
 *
 * Each process gets a list, dealt by what the steps cost (compress/run/run_lots.h): of the linears
 * that every token runs for each step, of experts for all steps. Process 0, which measures errors
 * and packs for all, has less of the rest. What comes back does not depend on where it was made. */
#ifndef PARE_COMPRESS_RUN_RUN_OWNER_H
#define PARE_COMPRESS_RUN_RUN_OWNER_H

#include "calib/stats.h"
#include "compress/passes/pass.h"
#include "compress/plan/settled.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* Linears of one part that another process has, with steps [begin, end) of each. */
typedef struct pare_held {
    size_t count, begin, end;
    uint64_t linear[PARE_ROLES]; /* of the plan, in the order in which they come back */
} pare_held;

/* How a step on a linear came out. */
typedef struct pare_solved {
    int32_t status;
    char what[sizeof((pare_ctx *)NULL)->what];
    double damp;
    uint64_t dead;
    uint32_t raises;
    bool f64, fallback;
    char note[PARE_NOTE];
} pare_solved;

/* What became of a linear elsewhere, once it is here. */
typedef struct pare_hand {
    bool there;
    float *w;         /* [n, k] as a pruner left it, or NULL */
    pare_codes codes; /* of a quantizer; n 0: none was asked */
    pare_solved pruned, quantized;
} pare_hand;

/* Process 0: gives others linears of part 0 that read these sites (bit per site) and that `step`
 * works on. Then they are held until they are collected. What another process failed of. */
PARE_CHECKED pare_status pare__owner_give(pare_run *run, size_t block, size_t step, unsigned sites,
                                          const pare_stats *stats);

/* The same for experts first .. first + count - 1 of a block: owner[count], 0 for those that stay;
 * and one of them, whose weights are loaded, with all steps. */
PARE_CHECKED pare_status pare__owner_deal(pare_run *run, size_t block, size_t first, size_t count,
                                          unsigned sites, const pare_stats *stats, size_t *owner);
PARE_CHECKED pare_status pare__owner_expert(pare_run *run, size_t block, size_t part, size_t to,
                                            unsigned sites, const pare_stats *stats);

/* Whether another process has something; whether it, or some, has this linear. */
bool pare__owner_busy(const pare_run *run, size_t rank);
bool pare__owner_waits(const pare_run *run, const pare_plan_linear *l);

/* Takes what a process has in hand, in scratch, until it is put down. PARE_ENOMEM; what the process
 * failed of, with its rank in front. Then it has nothing any more. */
PARE_CHECKED pare_status pare__owner_collect(pare_run *run, size_t rank);
void pare__owner_put_down(pare_run *run);

/* Of a linear in hand, or NULL; and what a pruner or a quantizer would have left: the weights in
 * linear->w, or its codes; result and note. */
const pare_hand *pare__owner_hand(const pare_run *run, const pare_plan_linear *l);
void pare__owner_pruned(const pare_hand *hand, pare_pass_linear *linear);
void pare__owner_quantized(const pare_hand *hand, pare_pass_linear *linear);

/* Waits for what is still away, where the step has failed. */
void pare__owner_drop(pare_run *run);

/* Between two processes: the statistics of a site, and what is known of the outputs of a linear. */
typedef void pare_mover(const pare_ctx *cx, size_t with, void *bytes, size_t count);
void pare__owner_move_site(const pare_ctx *cx, pare_mover *move, size_t with, pare_site_stats *s);
void pare__owner_move_outputs(const pare_run *run, pare_mover *move, size_t with,
                              const pare_plan_linear *l);

/* What steps [begin, end) do to a linear, the quantizer last. */
bool pare__owner_prunes(const pare_plan_linear *l, size_t begin, size_t end);
bool pare__owner_quantizes(const pare_plan_linear *l, size_t begin, size_t end);

/* Sites that linears of a list read, a bit each. */
unsigned pare__owner_sites(const pare_run *run, const pare_held *held);

#endif
