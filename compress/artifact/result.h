/* compress/artifact/result.h - what compressing one linear gave; rows of the manifest, report and
 * CSV. */
#ifndef PARE_COMPRESS_ARTIFACT_RESULT_H
#define PARE_COMPRESS_ARTIFACT_RESULT_H

#include "calib/support.h"
#include "formats/packed.h"
#include "prune/structure.h"
#include "recipes/recipe.h"

enum { PARE_STEPS_MAX = 16, PARE_NOTE = 64 };

/* What one step of the recipe cost a linear. */
typedef struct pare_step_result {
    unsigned step; /* index in the recipe */
    const char *pass;
    double output_error; /* of what this step changed, as below; below 0: not measured */
    double weight_error;
    char note[PARE_NOTE]; /* what the step chose: "alpha 0.55"; may be empty */
} pare_step_result;

typedef struct pare_linear_result {
    pare_packed_linear linear;
    size_t block, part;            /* part e + 1 is expert e (runtime/arch.h) */
    int64_t tokens;                /* of the calibration that reach the expert; -1: not counted */
    pare_cold_policy cold;         /* what stood in for its inputs, when too few do */
    pare_support support;          /* what statistics of its inputs rest on */
    bool thin;                     /* too little for some pass (pare_need_outcome) */
    const char *method;            /* pass that gave the codes ("rtn"), or only pruned */
    double weight_error;           /* |W - Q|^2 / |W|^2, Frobenius */
    double output_error;           /* tr((W-Q) H (W-Q)^T) / tr(W H W^T); below 0: not measured */
    double damp;                   /* damping of the factor in use; 0: none */
    unsigned raises;               /* steps the damping was raised */
    bool f64;                      /* factored in double precision */
    bool fallback;                 /* codes come from RTN because no factor was found */
    size_t dead;                   /* input columns that calibration never saw */
    size_t coarse;                 /* groups (or rows) too small for their storage */
    uint64_t lost;                 /* weights that it therefore holds as 0 */
    bool pruned;                   /* by a step; what it set to 0 is still 0 */
    double zeros;                  /* share of the stored weights that are 0 */
    double stability;              /* share of kept weights that parts of the calibration agree on,
                                      a mean over pairs of them; 0: not measured */
    double bits_per_weight;        /* bits of all planes over n * k */
    double seconds;                /* not part of the manifest */
    uint8_t hash[PARE_PLANES][16]; /* XXH3-128 of the planes that the linear has */
    pare_step_result step[PARE_STEPS_MAX];
    size_t steps; /* that changed the linear, in the order of the recipe */
} pare_linear_result;

/* What a structured step took out of a block. */
typedef struct pare_cut_result {
    unsigned step;    /* index in the recipe */
    const char *pass; /* its name */
    pare_part part;
    size_t before, after; /* units */
    double lost;          /* share of the scores of all units that went with them */
    double output_error;  /* of o or down: sum of var(x_j) |W_:j|^2 (or of its mean square, when no
                             bias takes its place) of what went, over the mean squares of all; below
                             0: inputs were not seen. As if inputs were independent. */
} pare_cut_result;

/* The experts of a block, [before->experts] each, when some went; NULL where the block has none. */
typedef struct pare_expert_choice {
    uint8_t *keep;
    double *score;
    uint64_t *tokens; /* that the router sent them */
    size_t few;       /* that got fewer new ones than least_tokens */
} pare_expert_choice;

/* What structured steps took out of a model. */
typedef struct pare_structure_result {
    const pare_config *before;
    const pare_cut_result *cut; /* [cuts] */
    const size_t *cut_block;    /* [cuts] */
    size_t cuts;
    const double *influence; /* [before->blocks] 1 - mean cosine of a block's inputs and outputs,
                                when blocks went by it; or NULL */
    const size_t *source;    /* [blocks that stay] which of before; with influence */
    size_t sources;
    const pare_expert_choice *expert; /* [before->blocks] when experts went; or NULL */
    uint64_t least_tokens; /* of an expert, below which its score says little; with expert */
    double captured; /* share of the stream's variance in the directions that stay; 0: none went */
} pare_structure_result;

/* Steps of training, one behind the other: means of their losses and norms, and the last rate. */
typedef struct pare_training_point {
    size_t step; /* the last of them, from 1 on */
    double loss, norm, rate;
} pare_training_point;

/* What a pass that trains did. */
enum { PARE_TRAINING_POINTS = 64 };
typedef struct pare_training_result {
    uint8_t asked[16]; /* hash of its settings in the recipe; not part of the manifest */
    size_t steps;
    uint64_t tokens;
    size_t aware;                 /* linears with their codes in place; not in the journal */
    bool embeddings;              /* trained, too; likewise */
    double seconds;               /* not part of the manifest */
    double kl_before, kl_after;   /* mean, from the teacher, on windows held out; below 0: none */
    double nll_before, nll_after; /* mean of -ln p of the next token, on the same */
    pare_training_point point[PARE_TRAINING_POINTS];
    size_t points; /* as many as steps, or PARE_TRAINING_POINTS */
} pare_training_result;

/* Weights of a tensor of the input that were NaN or infinite and were replaced. */
typedef struct pare_repair {
    const char *tensor;
    uint64_t weights;
} pare_repair;

/* What they were replaced by. */
const char *pare_repair_text(pare_nan_policy nan);

#endif
