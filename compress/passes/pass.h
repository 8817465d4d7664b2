/* compress/passes/pass.h - what a pass is. Passes adapt algorithms to the pipeline; algorithms know
 * no passes. A pass is a static descriptor: the table in passes/passes.c lists them all.
 *
 * Steps of a recipe run in order on each block. A pass is one of these kinds:
 *
 *   transform   works on a site: scales and shifts folded into what makes the site's input
 *               (runtime/fold.h), and changes of the weights such as clamps. Needs WEIGHTS. A
 *               quantizer must follow on every linear of the site; of one that orders channels,
 *               a pruner to N:M; one that restores stands behind a pruner instead.
 *   pruner      works on a linear: sets weights to +0 and may change the others. Needs and keeps
 *               WEIGHTS, gives ZEROS: from there on a weight that is 0 stays 0 through every later
 *               step. The pipeline looks after each of them and fails the run when one came back.
 *   quantizer   works on a linear: needs WEIGHTS, gives CODES, drops WEIGHTS. With `sparsity` it
 *               prunes as well (gives ZEROS and CODES), and stands for both.
 *
 * A fourth kind, `rotate`, stands in front of all others: it changes the basis of the whole model.
 * A fifth, structured passes, take whole parts out of the model, so that what is left is a smaller
 * plain checkpoint: only their own kind stands in a recipe with them. A sixth, training, stands
 * behind pruners and, with codes in place, behind quantizers; other quantizers stand behind it. It
 * runs once, when the steps in front are done with all blocks.
 *
 * The planner refuses what the facts do not allow, before a weight is read. */
#ifndef PARE_COMPRESS_PASSES_PASS_H
#define PARE_COMPRESS_PASSES_PASS_H

#include "calib/stats.h"
#include "compress/passes/pass_site.h"
#include "distill/train.h"
#include "prune/structure.h"
#include "recipes/recipe.h"

/* Facts that hold of a linear between passes. */
enum {
    PARE_FACT_WEIGHTS = 1u << 0,  /* float weights are in memory */
    PARE_FACT_HESSIAN = 1u << 1,  /* the Hessian of the linear's input is in memory */
    PARE_FACT_CODES = 1u << 2,    /* codes and scales replace the weights */
    PARE_FACT_CHANNELS = 1u << 3, /* statistics of the input's channels are in memory */
    PARE_FACT_SAMPLE = 1u << 4,   /* some inputs themselves are in memory */
    PARE_FACT_ZEROS = 1u << 5,    /* weights that are 0 were pruned, and stay 0 */
    PARE_FACT_DRIFT = 1u << 6,    /* drift of the input is in memory (calib/drift.h) */
    PARE_FACT_HELD = 1u << 7,     /* H of held-out windows is in memory */
    PARE_FACT_FLOATS = 1u << 8    /* the inputs of the block in the float model are at hand */
};

/* What a transform does to the site it works on, apart from changing the weights of the linears
 * that read it: decides which tensors of the artifact change. */
enum {
    PARE_FOLDS_SCALE = 1u << 0, /* the producer changes */
    PARE_FOLDS_SHIFT = 1u << 1, /* the producer gets a bias, and so do the linears */
    PARE_FOLDS_ORDER = 1u << 2  /* rows that make the channels change places */
};

/* A linear as a pruner or a quantizer finds it. */
typedef struct pare_pass_linear {
    float *w; /* [n, k] f32; a quantizer may destroy it, not in a job without calibration; a
                 pruner leaves its result */
    size_t n, k;
    pare_role role;
    const pare_site_stats *stats;  /* of its input; a pass may write above the diagonal of h */
    const float *h;                /* stats->h */
    const float *outputs;          /* curvature in its outputs (calib/output_curvature.h) or NULL */
    void *site_state;              /* what `site` left for this step and site, or NULL */
    bool pruned;                   /* a pruner was here: what is 0 in w must get the value 0 */
    const pare_sparsity *sparsity; /* of a step that prunes, with seed and tensor; else NULL */
    size_t columns;                /* that its storage keeps apart */
    pare_codes *codes;             /* a quantizer fills it; planes taken from `scratch` */
    pare_linear_result *result;    /* a pass records what it did */
    char note[PARE_NOTE];          /* and what it chose, for the result of the step; or empty */
} pare_pass_linear;

/* Upper bounds, from shapes alone. */
typedef struct pare_pass_cost {
    size_t site_bytes;   /* state kept for a site */
    size_t start_bytes;  /* while that state is made, the state included; 0: no more than it */
    size_t above_bytes;  /* of both, what lies above the diagonal of H where the linear is alone */
    size_t linear_bytes; /* scratch while one linear runs; transform: while a site runs */
    double site_flops, flops; /* products of matrices: once for a site; for each linear */
    double search_flops; /* at their speed: of each linear, also where it gets its plain form */
    double rounds;       /* all else that is done to a linear, in weights rounded to nearest */
} pare_pass_cost;

/* What a rotation of the model needs to know beside its shape (quant/rotate.h). */
typedef struct pare_pass_rotation {
    bool online;
    uint64_t number; /* of the signs, beside the recipe's seed */
} pare_pass_rotation;

/* What a structured pass takes out. Shares that go; 0: nothing. */
typedef struct pare_pass_structure {
    size_t blocks;            /* whole blocks; the first step, needs calibration */
    double hidden;            /* of the residual stream; the only step, needs calibration */
    double share[PARE_PARTS]; /* of the units of each block (prune/structure.h) */
    bool moments;             /* `score` looks at the inputs of o and down */
    bool bias;                /* the mean of what goes stays, as a bias */
    bool hessian;             /* channels of targets by H of their input (prune/ziplm.h) */
    bool frequency;           /* experts by the tokens that they get (prune/reap.h) */
    bool search;              /* widths are chosen for a speed (compress/budget/widths.c) */
} pare_pass_structure;

/* How much of each linear a pruner takes: the same of all, or by a rule that looks at the float
 * model before the first block is compressed (prune/ratios.h). */
typedef enum pare_ratio_rule {
    PARE_RATIOS_UNIFORM,
    PARE_RATIOS_OWL,
    PARE_RATIOS_ISC,
    PARE_RATIOS_SEARCH
} pare_ratio_rule;
const char *pare_ratio_rule_name(pare_ratio_rule rule); /* as recipes write it */
typedef struct pare_pass_ratios {
    pare_ratio_rule rule;
    double spread;  /* a ratio stays within the step's sparsity +- spread */
    double outlier; /* owl: times the mean */
} pare_pass_ratios;

/* A pass that does nothing but prune. */
typedef struct pare_pass_pruner {
    /* Prunes linear->w in place to exactly pare_sparsity_kept(linear->sparsity) kept places (a kept
     * weight may be 0 by itself); codes are NULL. */
    pare_status (*prune)(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                         pare_arena *scratch);
    /* How the ratio is shared out; `sparsity` gives their mean. NULL: uniform. */
    pare_pass_ratios (*ratios)(const double *value);
    /* Disjoint parts of the calibration windows that `prune` is repeated on, to tell how much the
     * choice depends on the data; below 2 or NULL: none. */
    size_t (*draws)(const double *value);
} pare_pass_pruner;

/* A pass that transforms the inputs of linears and folds what undoes it. */
typedef struct pare_pass_transform {
    unsigned (*sites)(const double *value); /* bit per pare_site that the step works on */
    unsigned (*folds)(const double *value); /* PARE_FOLDS_* */
    /* One of the two: site after site, or all sites of a block at once. */
    pare_status (*site)(pare_ctx *cx, const double *value, pare_pass_site *site,
                        pare_arena *scratch);
    pare_status (*block)(pare_ctx *cx, const double *value, pare_pass_block *block,
                         pare_arena *scratch);
    /* With `block`: scratch and work of one block, beside `cost`. */
    pare_pass_cost (*block_cost)(const pare_ctx *cx, const double *value, const pare_config *c,
                                 size_t samples, size_t window);
    /* Whether it has something to do at a site whose input nothing can scale. NULL: nothing. */
    bool (*works_unscaled)(const double *value);
    /* Why the quantizer behind it does not do, or NULL: by its grid (NULL: none), and whether it
     * does no more than round to nearest. NULL: all do. */
    const char *(*refuses)(const double *value, const pare_grid *grid, bool nearest);
    bool last;     /* nothing may change its linears between it and that quantizer */
    bool restores; /* works on linears that a pruner in front pruned, and on no other; no quantizer
                      needs to follow */
} pare_pass_transform;

typedef struct pare_pass {
    const char *name;             /* the word used in recipes */
    const char *summary, *source; /* one line; paper and equation */
    const char *caution, *notes;  /* or NULL: for plan and report; more lines of its page of help */
    unsigned needs, gives, drops; /* PARE_FACT_* */
    bool diagonal, token_weights; /* of H: only the diagonal is read; tokens count by the loss */
    /* A quantizer that may round each weight to nearest on a grid that is fitted to all of the
     * range of its group: whether it does. NULL: never. */
    bool (*nearest)(const double *value);
    const pare_param *params; /* ends with a NULL name */

    /* Of one linear with these parameters; for a transform of every linear of its site. */
    pare_pass_cost (*cost)(const double *value, size_t n, size_t k, size_t threads);
    /* Facts beyond `needs` that these parameters ask for. NULL: none. */
    unsigned (*asks)(const double *value);
    /* Settles parameters that say auto; rounding_only: no other step changes more than by rounding,
     * and no MLP is a mixture of experts. NULL: none does. */
    void (*decide)(double *value, bool rounding_only);

    /* Pruners, and quantizers that prune in the same sweep. */

    /* How many weights go, and which of them are compared. Fills what the parameters say; seed and
     * tensor are filled in by the pipeline, which also calls pare_sparsity_check. PARE_EINVAL for
     * parameters that do not go together. */
    pare_status (*sparsity)(pare_ctx *cx, const double *value, pare_sparsity *out);
    const pare_pass_pruner *pruner; /* NULL for the latter */

    /* Quantizers; sequential and site: pruners as well. */

    /* The storage of a linear that this step quantizes. PARE_EINVAL when the shape does not suit
     * the parameters (tail: error). NULL: it follows from `grid`. */
    pare_status (*store)(pare_ctx *cx, const double *value, size_t n, size_t k,
                         pare_packed_linear *out);
    /* How many columns of a linear are kept apart, at most as many as `store` says, by what the
     * float model shows of its inputs before the first block is compressed: max |x| [k]. NULL: as
     * many as `store` says. */
    size_t (*columns)(const double *value, const float *absmax, size_t k);
    /* The grid that codes are chosen from, for transforms in front. NULL: none can be named. */
    pare_grid (*grid)(const double *value);
    /* How inputs are quantized. NULL: as pare_activation {GROUP, 8 bits}. */
    pare_activation (*activation)(const double *value);
    /* Runs the sites of a block one after the other, each on the outputs of the compressed ones
     * before it. NULL: never. */
    bool (*sequential)(const double *value);
    /* Called once per step and site, before the linears of the site; statistics are read only. The
     * state lives in `scratch` until the site is done. NULL: no state. */
    pare_status (*site)(pare_ctx *cx, const double *value, const pare_site_stats *stats,
                        pare_arena *scratch, void **state);
    /* NULL: rounds to nearest on `grid`. */
    pare_status (*run)(pare_ctx *cx, const double *value, pare_pass_linear *linear,
                       pare_arena *scratch);

    const pare_pass_transform *transform; /* transforms; else NULL */

    /* Rotation: this function and no other. */
    pare_pass_rotation (*rotation)(const double *value);

    /* Structured passes: these and no other. */

    pare_pass_structure (*structure)(const double *value);
    /* score [pare_part_units]: the lowest go. NULL without `share`, with `hessian`, of experts. */
    pare_status (*score)(pare_ctx *cx, const double *value, const pare_structure *s,
                         pare_arena *scratch, double *score);

    /* Training: this function and no other. How to train on windows of `window` tokens; the seed is
     * filled in by the pipeline, which checks it (pare_train_check). */
    void (*training)(const double *value, size_t window, pare_train_opts *out);
} pare_pass;

static inline bool pare_pass_transforms(const pare_pass *p)
{
    return p->transform != NULL;
}

static inline bool pare_pass_prunes(const pare_pass *p) /* and does nothing else */
{
    return p->pruner != NULL;
}

extern const pare_pass *const pare_passes[]; /* every one, ended by NULL */
size_t pare_pass_count(void);
const pare_pass *pare_pass_find(const char *name); /* NULL when unknown */

/* Storage and codes of a linear by a quantizer: `store` and `run`, or what stands for them. */
PARE_CHECKED pare_status pare_pass_store(pare_ctx *cx, const pare_pass *pass, const double *value,
                                         size_t n, size_t k, pare_packed_linear *out);
PARE_CHECKED pare_status pare_pass_run(pare_ctx *cx, const pare_pass *pass, const double *value,
                                       pare_pass_linear *linear, pare_arena *scratch);

/* Settles what says auto in steps that follow each other in one job. `plain`: its model is no
 * mixture of experts, and its statistics come from no file. */
void pare_passes_decide(pare_step *step, size_t steps, bool plain);

/* The table as the recipe parser wants it, [pare_pass_count()]. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_pass_words_take(pare_arena *a, const pare_pass_words **out);

#endif
