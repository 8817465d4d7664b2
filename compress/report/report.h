/* compress/report/report.h - what a user reads of a finished compression: the files README.md
 * (model card), report.html, layers.csv and run.json of an artifact. None is part of the
 * deterministic set (the manifest is written elsewhere). */
#ifndef PARE_COMPRESS_REPORT_H
#define PARE_COMPRESS_REPORT_H

#include "compress/evaluate/evaluate.h"
#include "compress/result.h"
#include "recipes/recipe.h"

/* One evaluation of the recipe, on the model before and after. */
typedef struct pare_report_eval {
    const char *what; /* "perplexity" or "kl" */
    const char *data; /* file as the recipe names it */
    size_t window;
    pare_eval_result before, after;
} pare_report_eval;

/* Tokens of the calibration that reach experts, where they were counted. */
typedef struct pare_report_experts {
    size_t count, cold; /* experts of all blocks; those that too few reach */
    int64_t least, median;
    size_t min_tokens;
    pare_cold_policy policy;
} pare_report_experts;

typedef struct pare_report {
    const char *model, *output, *recipe_file; /* as the user gave them */
    const char *recipe_text;                  /* as written by the user */
    const char *program;                      /* "pare 0.1.0" */
    const char *cpu, *blas, *host;
    size_t threads;
    const pare_config *config;
    const pare_kv_format *kv; /* how the artifact keeps keys and values; NULL: as floats */
    const pare_structure_result *structure; /* of a plain checkpoint; NULL: packed */
    const pare_linear_result *row;
    size_t rows;
    pare_report_experts experts; /* count 0: none were counted */
    const pare_report_eval *evaluation;
    size_t evaluations;
    const pare_recipe_export *export; /* what the recipe makes of the finished artifact */
    size_t exports;
    uint64_t bytes_before, bytes_after; /* weight files */
    double bits_per_weight;             /* of the targeted linears */
    double model_bits_per_weight;       /* of all tensors, over the weights of the original */
    bool untied; /* its tied head has got weights of its own: bits there, but not weights */
    double seconds, calibration_seconds, evaluation_seconds;
    size_t calibration_windows, calibration_window;
    const pare_text *calibration_text; /* [calibration_texts] files as the recipe names them */
    const size_t *calibration_share;   /* their windows, or NULL when no weights were given */
    size_t calibration_texts;
    uint64_t peak_rss_bytes, peak_anonymous_bytes;
    size_t resumed_blocks;
    const char *started; /* ISO 8601, UTC */
} pare_report;

/* Fills count, cold, least and median from rows in the order of the plan. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_report_experts_take(pare_arena *a, const pare_linear_result *row,
                                                  size_t rows, pare_report_experts *out);

/* How much of the choice of weights parts of the calibration agree on, over all linears of which it
 * was measured; 0: of none. */
double pare_report_stability(const pare_report *r);

/* Writes the four files into `directory`, each whole. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_report_write(pare_ctx *cx, const pare_report *r,
                                           const char *directory);

#endif
