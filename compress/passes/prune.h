/* compress/passes/prune.h - what the pruning passes share: parameters, the rule, what failed. */
#ifndef PARE_COMPRESS_PASSES_PRUNE_H
#define PARE_COMPRESS_PASSES_PRUNE_H

#include "compress/passes/pass.h"
#include "solve/sparsity.h"

/* Rows of a pruner's parameter table, from `base` on. */
enum {
    PARE_PRUNE_SPARSITY,
    PARE_PRUNE_PATTERN,
    PARE_PRUNE_COMPARE,
    PARE_PRUNE_TIES,
    PARE_PRUNE_TIE_WIDTH,
    PARE_PRUNE_PARAMS
};
/* Rows of PARE_PRUNE_RATIOS. */
enum { PARE_PRUNE_RULE, PARE_PRUNE_SPREAD, PARE_PRUNE_OUTLIER, PARE_PRUNE_RATIO_PARAMS };
#define PARE_PRUNE_TIE_WIDTH_USUAL 0.05
#define PARE_PRUNE_SPREAD_USUAL    0.08
#define PARE_PRUNE_OUTLIER_USUAL   5.0
enum { PARE_COMPARE_LAYER, PARE_COMPARE_ROW };
extern const pare_word pare_prune_share[], pare_prune_patterns[], pare_prune_compare[],
    pare_prune_ties[], pare_prune_rules[];

/* `compare`: with whom a weight is compared when the recipe does not say; `sets`: how that reads.
 */
// clang-format off
#define PARE_PRUNE_TABLE(base, compare, sets)                                                      \
    [(base) + PARE_PRUNE_SPARSITY] = {.name = "sparsity", .type = PARE_PARAM_NUMBER, .min = 0.001, \
        .max = 0.999, .fallback = 0, .words = pare_prune_share,                                    \
        .help = "share of the weights to prune; auto: 0.5, or what the pattern says"},             \
    [(base) + PARE_PRUNE_PATTERN] = {.name = "pattern", .type = PARE_PARAM_PATTERN, .max = 64,     \
        .words = pare_prune_patterns,                                                              \
        .help = "N:M, such as 2:4: of each M inputs of a row N stay"},                             \
    [(base) + PARE_PRUNE_COMPARE] = {.name = "compare", .type = PARE_PARAM_CHOICE,                 \
        .fallback = (compare), .words = pare_prune_compare,                                        \
        .help = "unstructured: compare weights within a row, or (layer) within " sets},            \
    [(base) + PARE_PRUNE_TIES] = {.name = "ties", .type = PARE_PARAM_CHOICE, .fallback = 0,        \
        .words = pare_prune_ties,                                                                  \
        .help = "which of equal scores to prune: the first, or one that the recipe's seed draws; " \
                "with random nobody who made a model can plan which weights near the cut "         \
                "survive; the wider tie_width, the more quality that costs"},                                   \
    [(base) + PARE_PRUNE_TIE_WIDTH] = {.name = "tie_width", .type = PARE_PARAM_NUMBER, .min = 0,   \
        .max = 1, .fallback = PARE_PRUNE_TIE_WIDTH_USUAL, .by = "ties", .when = "random",          \
        .help = "scores within this share of the score at the cut count as "     \
                "equal; 0: only those that are equal to the last bit, which hardly ever happens"}
/* A row for passes whose choice depends on the calibration (pare_pass_pruner.draws). */
#define PARE_PRUNE_STABILITY(index)                                                                \
    [index] = {.name = "stability", .type = PARE_PARAM_INTEGER, .min = 0, .max = 16,               \
        .fallback = 0,                                                                             \
        .help = "repeat the choice on this many parts of the calibration (2 or more), and report " \
                "how far the choices agree; 0: choose once"}
/* Rows for passes that share out the ratio by a rule. */
#define PARE_PRUNE_RATIOS(base)                                                                    \
    [(base) + PARE_PRUNE_RULE] = {.name = "ratios", .type = PARE_PARAM_CHOICE, .fallback = 0,      \
        .words = pare_prune_rules,                                                                 \
        .help = "unstructured: each linear loses the same share, or a share by this rule"},        \
    [(base) + PARE_PRUNE_SPREAD] = {.name = "spread", .type = PARE_PARAM_NUMBER, .min = 0.001,     \
        .max = 0.5, .fallback = PARE_PRUNE_SPREAD_USUAL, .by = "ratios",                           \
        .when = "owl, isc or search",                                                              \
        .help = "how far a share may lie from sparsity, the mean of the shares"},         \
    [(base) + PARE_PRUNE_OUTLIER] = {.name = "outlier", .type = PARE_PARAM_NUMBER, .min = 1,       \
        .max = 1000, .fallback = PARE_PRUNE_OUTLIER_USUAL, .by = "ratios", .when = "owl",          \
        .help = "a score above this many times its block's mean is an outlier"}
// clang-format on

/* The rule that `value`, from `base` on, stands for. PARE_EINVAL when a pattern and a share are
 * given, a pattern and what is compared (it differs from `compare`), or a width without random
 * ties.
 */
PARE_CHECKED pare_status pare_prune_rule(pare_ctx *cx, const double *value, double compare,
                                         pare_sparsity *out);

/* What the rows of PARE_PRUNE_RATIOS say, `value` being the first. */
pare_pass_ratios pare_prune_ratios(const double *value);

/* That they go with the sparsity: PARE_EINVAL for a pattern, a spread that leaves 0 .. 1, or a
 * setting (it differs from the usual) that the rule makes no use of. */
PARE_CHECKED pare_status pare_prune_check_ratios(pare_ctx *cx, const double *value,
                                                 const pare_sparsity *s);

/* Scratch of choosing among [n, k] scores, the scores included. */
size_t pare_prune_bytes(size_t n, size_t k, size_t threads);

/* What stands for SparseGPT when H has no factor: the same rule by Wanda's scores. The note says
 * so. */
PARE_CHECKED pare_status pare_prune_without_factor(pare_ctx *cx, pare_pass_linear *linear,
                                                   pare_arena *scratch);

#endif
