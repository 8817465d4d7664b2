/* compress/report/gate.h - whether a finished model keeps to what its recipe requires. */
#ifndef PARE_COMPRESS_REPORT_GATE_H
#define PARE_COMPRESS_REPORT_GATE_H

#include "formats/json.h"
#include "recipes/recipe.h"
#include "runtime/arena.h"

typedef enum pare_gate_kind {
    PARE_GATE_ACCEPT,
    PARE_GATE_REGRESSION, /* a requirement is not kept */
    PARE_GATE_ANOMALOUS,  /* a figure cannot be, or is better than the original's beyond its
                                error, or a part of an original's 0 is required: the evaluation
                                needs a look, whatever is required */
    PARE_GATE_INFEASIBLE  /* no setting of the rest can keep it: known before the work */
} pare_gate_kind;
const char *pare_gate_name(pare_gate_kind v); /* "ACCEPT" */

/* A share of items or documents; gained, lost: items, and McNemar's p of them, where p is not NAN.
 */
typedef struct pare_gate_share {
    const char *name; /* "acc" */
    double after, before, gained, lost, p;
} pare_gate_share;
enum { PARE_GATE_SHARES = 3 };
extern const char pare_gate_needle[]; /* the name of a needle's, and its task */

/* What one evaluation found, before and after. */
typedef struct pare_gate_figures {
    const char *data;
    const char *task; /* of which the shares are; NULL: of choice, or there are none */
    bool has_perplexity, has_kl;
    double perplexity, error, perplexity_before, error_before; /* with standard errors */
    double kl, top1;
    pare_gate_share share[PARE_GATE_SHARES];
    size_t shares;
} pare_gate_figures;

/* One requirement held against one figure. */
typedef struct pare_check {
    const char *text; /* "kl <= 0.02", as the recipe has it */
    const char *data; /* NULL: the files themselves */
    double figure, bound;
    bool kept;
} pare_check;

typedef struct pare_gate {
    pare_gate_kind kind;
    pare_check *check;
    size_t checks;
    const char *anomaly; /* what is anomalous; or NULL */
} pare_gate;

/* Holds the requirements of a recipe against what was found. A figure is better than the original's
 * beyond its error when perplexity is lower by more than twice the standard error of the difference
 * (of both errors, as if they were independent), or when more items were gained than lost
 * with p below 0.05. A bound that is a part of the original's share says nothing where that is 0:
 * an anomaly. A figure cannot be when it is not finite, or a KL below 0. What is required
 * and has no figure (a damaged run.json) is an anomaly, too. An anomaly comes before a regression.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gate_take(pare_arena *a, const pare_recipe *r,
                                        const pare_gate_figures *found, size_t count,
                                        uint64_t bytes, pare_gate *out);

/* What is required of bytes alone, before the work: INFEASIBLE, or ACCEPT. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gate_of_bytes(pare_arena *a, const pare_recipe *r, uint64_t bytes,
                                            pare_gate *out);

/* "kl <= 0.02: 0.031 on wiki.txt", what is not kept or anomalous, in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_gate_why(pare_arena *a, const pare_gate *v, const char **out);

/* The member "verdict" of an open object. */
void pare_gate_put(pare_json_writer *w, const pare_gate *v);

#endif
