/* recipes/recipe.h - a recipe: YAML in, plain structs out.
 *
 * Every error reads "FILE:LINE:COLUMN: reason", with the offending text and, where a word is near a
 * known one (edit distance <= 2), "did you mean ...?". Limits: 1 MiB, nesting 64, 4096 nodes per
 * collection; anchors, aliases, tags and several documents are refused. */
#ifndef PARE_RECIPES_RECIPE_H
#define PARE_RECIPES_RECIPE_H

#include <stdint.h>

#include "recipes/param.h"
#include "recipes/requirement.h"
#include "runtime/arena.h"
#include "runtime/kv.h"

/* What the parser must know of a pass; compress hands in its table. */
typedef struct pare_pass_words {
    const char *name;
    const pare_param *params; /* ends with a NULL name */
    bool untargeted;          /* takes no targets and no skip, as the planner says */
} pare_pass_words;

typedef enum pare_calibration_kind {
    PARE_CALIBRATION_NONE,
    PARE_CALIBRATION_TEXT,
    PARE_CALIBRATION_TOKENS,
    PARE_CALIBRATION_GENERATE,
    PARE_CALIBRATION_FROM /* statistics of a file, which has all but the passes */
} pare_calibration_kind;

/* What stands in for the inputs of an expert that too few tokens reach. */
typedef enum pare_cold_policy {
    PARE_COLD_NOT,  /* nothing: enough reach it */
    PARE_COLD_FILL, /* other tokens, evenly spread, as far as some are missing */
    PARE_COLD_RTN   /* white noise, with which every method comes to its plain form */
} pare_cold_policy;
const char *pare_cold_policy_name(pare_cold_policy p); /* "fill", "rtn"; NULL for NOT */

/* How much each token counts in the Hessian (calib/token_weights.h). */
typedef enum pare_token_weighing {
    PARE_TOKENS_AUTO, /* by the loss where steps do better so and the family has a gradient */
    PARE_TOKENS_EVEN,
    PARE_TOKENS_LOSS
} pare_token_weighing;
const char *pare_token_weighing_name(pare_token_weighing w); /* as recipes write it */

/* Of the products of a calibration. */
typedef enum pare_precision {
    PARE_PRECISION_AUTO, /* BF16 where it was measured that what comes out is as good */
    PARE_PRECISION_F32,
    PARE_PRECISION_BF16
} pare_precision;
const char *pare_precision_name(pare_precision p); /* as recipes write it */

typedef struct pare_calibration {
    pare_calibration_kind kind;
    pare_place place;
    pare_texts text;      /* files */
    const double *weight; /* [text.count], or NULL when the recipe writes none */
    pare_text tokens;     /* file */
    pare_text from, keep; /* files of statistics (calib/stats_file.h), or without text */
    double temperature;   /* generate; default 1.0 */
    size_t samples;       /* default 128; 0: all */
    size_t window;        /* default 2048 */
    bool window_given;    /* not given: cut to the model's context; given and above it: an error */
    pare_place samples_place, window_place;
    pare_token_weighing token_weights;
    bool token_weights_given;
    pare_place token_weights_place;
    pare_precision precision;
    size_t min_tokens;     /* that must reach an expert; 0: auto (pare_plan_min_tokens) */
    pare_cold_policy cold; /* for others; default FILL */
    bool experts_given;    /* one of the two */
    pare_place experts_place;
} pare_calibration;

typedef struct pare_step {
    size_t pass; /* index into the table handed in */
    pare_place place;
    double value[PARE_PARAMS_MAX]; /* in table order, defaults filled in */
    pare_place value_place[PARE_PARAMS_MAX];
    pare_texts targets, skip; /* globs or "re:"; empty targets: all linears of the blocks */
} pare_step;

/* Matrices outside the blocks that a recipe quantizes. */
typedef enum pare_table { PARE_TABLE_EMBEDDINGS, PARE_TABLE_HEAD, PARE_TABLES } pare_table;
extern const char *const pare_table_names[PARE_TABLES]; /* as recipes write them */

typedef enum pare_evaluation_kind {
    PARE_EVALUATE_PERPLEXITY,
    PARE_EVALUATE_KL,
    PARE_EVALUATE_CHOICE,
    PARE_EVALUATE_TASK,
    PARE_EVALUATE_NEEDLE,
    PARE_EVALUATE_CONTINUATIONS
} pare_evaluation_kind;
const char *pare_evaluation_kind_name(pare_evaluation_kind k); /* "perplexity", .., "tasks" */
/* Asks items: choice, tasks and needle, which have no windows. */
bool pare_evaluation_asks(pare_evaluation_kind k);
/* Scores the tokens of a text: perplexity and kl. */
bool pare_evaluation_scores(pare_evaluation_kind k);

/* Lengths of needle. */
enum {
    PARE_EVALUATION_LENGTHS = 16,
    PARE_EVALUATION_LENGTH_LEAST = 128,
    PARE_EVALUATION_LENGTH_MOST = 1 << 24, /* of continuations, too */
    PARE_EVALUATION_SEED_MOST = 1 << 30
};

/* Where models run. */
typedef enum pare_run_on {
    PARE_RUN_ON_CPU,
    PARE_RUN_ON_CUDA,
    PARE_RUN_ON_AUTO /* a GPU where one can be used */
} pare_run_on;
extern const pare_word pare_run_on_words[];

/* How a GPU multiplies floats. */
typedef enum pare_products {
    PARE_PRODUCTS_EXACT, /* as the CPU, to the bit */
    PARE_PRODUCTS_F16    /* inputs rounded to F16, on tensor cores */
} pare_products;
extern const pare_word pare_products_words[];

typedef struct pare_evaluation {
    pare_evaluation_kind kind;
    size_t entry; /* of the recipe's list: one of tasks makes an evaluation of each */
    pare_place place;
    pare_text text, tokens, file; /* one of them; `file` with choice and tasks */
    pare_text task, shots_file;   /* of tasks; the latter may be without text */
    pare_text by; /* of tasks: the field that shares are told apart by, or without text */
    size_t shots;
    size_t window; /* default 2048; of those that have windows */
    bool window_given;
    /* Of needle: where it has none the planner chooses lengths. */
    size_t length[PARE_EVALUATION_LENGTHS], lengths, keys;
    bool lengths_given;
    /* Of continuations: the planner cuts `most` unless it is given. */
    size_t prompts, most;
    bool most_given;
    double temperature;
    uint64_t seed; /* of both */
    size_t limit;  /* the first windows, items of choice or documents; default 0: all */
    pare_run_on device;
    pare_place device_place;
    pare_products products;
} pare_evaluation;

/* The one of text, tokens and file that is given. */
const pare_text *pare_evaluation_data(const pare_evaluation *e);

/* A finished artifact written as files of another engine. */
typedef struct pare_recipe_export {
    pare_place place;
    pare_text format, path; /* any format: the planner knows which there are */
    size_t ranks;           /* tensor_parallel; 1 unless it is given */
} pare_recipe_export;

typedef enum pare_nan_policy { PARE_NAN_ERROR, PARE_NAN_CLAMP, PARE_NAN_ZERO } pare_nan_policy;

typedef struct pare_recipe {
    const char *file;                             /* as given */
    pare_text model, output, tokenizer, original; /* as written; relative to the recipe */
    uint64_t seed;                                /* default 0 */
    pare_calibration calibration;
    pare_step *step;
    size_t steps;
    pare_step *table[PARE_TABLES]; /* how each is quantized, without targets; NULL: it is not */
    size_t lead; /* steps in front of them, step[-lead] .., whose work is done; 0 as parsed */
    pare_evaluation *evaluation;
    size_t evaluations;
    bool held_out;             /* "evaluate: held_out": on calibration windows that are held out */
    pare_place held_out_place; /* of that word */
    pare_recipe_export *export;
    size_t exports;
    pare_requirement *requirement;
    size_t requirements;
    pare_texts *fallback; /* settings ("path=value") to try in turn where one is not kept */
    size_t fallbacks;
    pare_kv_format kv;         /* of the finished model; FLOAT when not given */
    pare_place kv_place;       /* of the section */
    pare_place kv_group_place; /* of the group, or of the section when it has its default */
    uint64_t ram_limit;        /* bytes; 0: none */
    pare_nan_policy nan;
} pare_recipe;

/* What is parsed: text [len] of a file, and "path=value" from the command line, applied before
 * validation. Paths are keys and list indices joined by dots (passes.0.gptq.bits=3, seed=1); a key
 * that the recipe does not have yet is added. Borrowed for the call. */
typedef struct pare_recipe_source {
    const char *file; /* as messages name it */
    const char *text;
    size_t len;
    const char *const *sets;
    size_t set_count;
} pare_recipe_source;

/* Parses a recipe; its strings live in the arena.
 * PARE_EUSAGE with the message described above, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_recipe_parse(pare_ctx *cx, pare_arena *a,
                                           const pare_recipe_source *source,
                                           const pare_pass_words *passes, size_t pass_count,
                                           pare_recipe *out);

/* The recipe in one canonical form, a recipe again: no comments, defaults filled in but for what
 * would have no effect (pare_param.by). `portable`: its hash identifies the work, so model, output
 * and data paths, exports, limits and devices are left out, and a window that was not given is
 * written as it stands in `r`: the default, or what the planner has cut it to; else they are kept,
 * and such a window is not written. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_recipe_normalize(pare_ctx *cx, pare_arena *a, const pare_recipe *r,
                                               const pare_pass_words *passes, bool portable,
                                               char **text, size_t *len);

/* A text as a recipe writes it, in double quotes; in the arena. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_recipe_quote(pare_arena *a, const char *text, char **out);

/* Settings of a kv_cache method, ended by a NULL name, and the field that one of them fills. */
const pare_param *pare_kv_params(pare_kv_method method);
size_t *pare_kv_field(pare_kv_format *f, const char *name);

/* Keys of the top level, ended by a NULL name: parser and help read this table. */
typedef struct pare_recipe_key {
    const char *name, *example, *help; /* an example of its value; one line */
} pare_recipe_key;
extern const pare_recipe_key pare_recipe_keys[];

/* min_tokens and cold of "experts" in a calibration, ended by a NULL name. */
extern const pare_param pare_experts_params[];

/* Settings of a calibration, ended by NULL: samples, window, token_weights, precision,
 * temperature (of generate), weight (of a text); those of an evaluation: window, limit, device,
 * device_products; and what "nan" takes. */
extern const pare_param *const pare_calibration_params[];
extern const pare_param *const pare_evaluate_params[];
extern const pare_param pare_needle_params[], pare_continue_params[]; /* ended by a NULL name */
extern const pare_param *const pare_nan_param;

/* A size such as 8GiB, 500MB, 4096: a whole number above 0 and a unit of B, KB, MB, GB (powers of
 * 1000), KiB, MiB, GiB (powers of 1024), or none. False for anything else and above 2^64 - 1. */
bool pare_bytes_parse(const char *text, uint64_t *bytes);

/* Records "file:line:column: ..." for a place; returns PARE_EUSAGE. */
pare_status pare_recipe_fail(pare_ctx *cx, pare_place p, const char *fmt, ...) PARE_PRINTF(3, 4);

/* Puts the place in front of the recorded message; returns `s`. */
pare_status pare_recipe_fail_at(pare_ctx *cx, pare_status s, pare_place p);

#endif
