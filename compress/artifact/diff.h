/* compress/artifact/diff.h - two models held against each other: recipe, what they were made from,
 * tensors, codes, errors, quality. */
#ifndef PARE_COMPRESS_ARTIFACT_DIFF_H
#define PARE_COMPRESS_ARTIFACT_DIFF_H

#include "compress/artifact/inspect.h"

typedef enum pare_diff_kind {
    PARE_DIFF_SAME,   /* every byte */
    PARE_DIFF_ONLY_A, /* the other has no such tensor */
    PARE_DIFF_ONLY_B,
    PARE_DIFF_SHAPE,    /* another shape: values are not compared */
    PARE_DIFF_ENCODING, /* stored in another way, by other codes of the same values at least */
    PARE_DIFF_VALUES,   /* stored in the same way, other values */
    PARE_DIFF_KINDS
} pare_diff_kind;
const char *pare_diff_kind_word(pare_diff_kind k); /* "same", "only_a" .. */

/* A tensor, or a linear: one that is packed is compared with NAME.weight of a model that has it as
 * floats. Figures that are not known are NAN. */
typedef struct pare_diff_row {
    const char *name;
    pare_diff_kind kind;
    const pare_inspect_row *a, *b; /* NULL where it is absent */
    double codes;   /* share of the codes that differ: packed by the same bits in both */
    double weights; /* share of the weights that have another value, as F32 */
    double error;   /* sum (a - b)^2 / sum a^2 */
    double weight_error[2], output_error[2]; /* that the manifests say of the linear */
} pare_diff_row;

/* What a model was made from beside its recipe, by the digests in the manifests. A recipe in a
 * manifest names no file. */
typedef enum pare_diff_source {
    PARE_DIFF_ORIGINAL, /* of a training: the model that it began with */
    PARE_DIFF_TEACHER,
    PARE_DIFF_CALIBRATION,
    PARE_DIFF_HELD_OUT,
    PARE_DIFF_TRAINING,
    PARE_DIFF_EVALUATION,
    PARE_DIFF_SOURCES
} pare_diff_source;
const char *pare_diff_source_word(pare_diff_source s); /* "original", "calibration" .. */

/* A line of the recipe that only one has, without indentation; a path of data is FILE. */
typedef struct pare_diff_line {
    const char *text;
    bool of_b;
} pare_diff_line;

/* A figure of run.json: "perplexity DATA: perplexity"; NAN where it is absent. A setting, as a
 * limit or a count of tokens, says what was measured, not how good the model is. */
typedef struct pare_diff_figure {
    const char *name;
    bool setting;
    double value[2];
} pare_diff_figure;

typedef struct pare_diff {
    const char *path[2];
    pare_inspection of[2];
    pare_diff_row *row; /* in the order of the first, then what only the second has */
    size_t rows, count[PARE_DIFF_KINDS];
    bool recipes; /* both have a manifest with one */
    pare_diff_line *line;
    size_t lines;
    bool source[PARE_DIFF_SOURCES]; /* differs; both manifests name it */
    pare_diff_figure *figure;
    size_t figures;
    bool same; /* all tensors, and the recipes where both have one */
} pare_diff;

/* Texts in the arena. Reads the weights of both; tensors of a container that cannot be viewed in
 * place are converted. Sums run in the order of the elements. Statuses of pare_checkpoint_open and
 * pare_inspect. Memory: two linears as F32. */
PARE_CHECKED pare_status pare_diff_models(pare_ctx *cx, pare_arena *a, const char *first,
                                          const char *second, pare_diff *out);

#endif
