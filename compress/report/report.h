/* compress/report/report.h - what a user reads of a finished compression: the files README.md
 * (model card), report.html, layers.csv and run.json of an artifact. None is part of the
 * deterministic set (the manifest is written elsewhere). */
#ifndef PARE_COMPRESS_REPORT_H
#define PARE_COMPRESS_REPORT_H

#include "compress/artifact/asked_speed.h"
#include "compress/artifact/result.h"
#include "compress/evaluate/figures.h"
#include "compress/report/gate.h"
#include "recipes/recipe.h"

/* One evaluation of the recipe, on the model before and after. */
typedef struct pare_report_eval {
    pare_evaluation_kind kind;
    const char *data;   /* file as the recipe names it */
    size_t window;      /* 0 with choice and tasks */
    size_t limit, all;  /* windows or items that were taken of those there are; limit 0: all */
    const char *device; /* the name of the GPU that it ran on; NULL: the CPU */
    const char *device_fallback;    /* why device: auto took the CPU; NULL: it did not */
    bool f16;                       /* products of floats in F16, on a GPU */
    pare_eval_result before, after; /* of perplexity and kl */
    pare_choice_figures choice_before, choice_after; /* of choice; the latter paired */
    pare_task_figures task_before, task_after;       /* of tasks; the latter paired */
    pare_needle_figures needle_before, needle_after; /* of needle; the latter paired */
    pare_continue_figures continued[2];              /* of continuations: after, before */
} pare_report_eval;

/* The model behind some passes of a job, on the calibration windows held out. */
typedef struct pare_report_stage {
    const char *passes;
    double kl, nll; /* means: KL from the original, -ln p of the next token */
} pare_report_stage;

/* What both models write behind a few words; texts as tokens spell them, which may break off inside
 * a UTF-8 sequence. */
typedef struct pare_report_sample {
    const char *prompt;
    const char *same;           /* how both go on */
    const char *before, *after; /* what follows where they part */
} pare_report_sample;

typedef struct pare_report_samples {
    const pare_report_sample *sample;
    size_t count;                     /* 0: none were drawn */
    size_t tokens;                    /* of each, at most */
    const char *data;                 /* where the prompts are from */
    double before_tok_s, after_tok_s; /* decoding, all sequences together */
} pare_report_samples;

/* What bytes are for. */
typedef enum pare_report_part {
    PARE_REPORT_EMBEDDING,
    PARE_REPORT_ATTENTION,
    PARE_REPORT_MLP,
    PARE_REPORT_EXPERTS,
    PARE_REPORT_OTHER, /* norms, biases, routers, learned positions */
    PARE_REPORT_HEAD,
    PARE_REPORT_PARTS
} pare_report_part;

/* Bytes of tensors, without headers of files. */
typedef struct pare_report_sizes {
    uint64_t before[PARE_REPORT_PARTS], after[PARE_REPORT_PARTS];
} pare_report_sizes;

/* Tokens of the calibration that reach experts, where they were counted. */
typedef struct pare_report_experts {
    size_t count, cold; /* experts of all blocks; those that too few reach */
    int64_t least, median;
    uint64_t min_tokens;
    pare_cold_policy policy;
} pare_report_experts;

/* What a process of a job did (compress/run/run_team.h). */
typedef struct pare_report_rank {
    uint64_t windows; /* of the calibration */
    uint64_t linears; /* that it pruned or quantized, once for each step */
    double seconds;   /* on what is shared: calibration, evaluations, these linears */
    uint64_t peak_bytes;
} pare_report_rank;

typedef struct pare_report {
    const char *model, *output, *recipe_file; /* as the user gave them */
    const char *recipe_directory;             /* the way from the output to the recipe's folder */
    const char *original;                     /* compared with; NULL: the model */
    const char *recipe_text;                  /* as written by the user */
    const char *const *set;                   /* [sets] what changed it: --set, or a fallback */
    size_t sets;
    const char *program; /* "pare 0.1.0" */
    const char *cpu, *blas, *host;
    size_t threads;
    const pare_config *config;
    const pare_kv_format *kv; /* how the artifact keeps keys and values; NULL: as floats */
    const pare_structure_result *structure; /* of a plain checkpoint; NULL: packed */
    const pare_speed *speed;                /* that its widths were chosen for; or NULL */
    const pare_training_result *training;   /* NULL: nothing was trained */
    const pare_linear_result *row;
    size_t rows, tables; /* of the blocks; behind them of embeddings and head */
    size_t fallbacks; /* rows that took a step of the numeric ladder or got too little calibration,
                         those of an expert whose inputs count as white noise among them, steps that
                         take parts out by too little calibration, evaluations that no GPU could
                         run, a training that made the model worse */
    size_t thin;      /* of these, rows and steps that got too little calibration */
    pare_report_experts experts; /* count 0: none were counted */
    const pare_report_eval *evaluation;
    size_t evaluations;
    const pare_gate *verdict; /* NULL: nothing is required */
    pare_report_stage *stage;
    size_t stages; /* 0: none was measured */
    pare_report_samples samples;
    const char *const *warning;
    size_t warnings;
    const pare_repair *repair; /* [repairs] tensors with weights that were NaN or infinite */
    size_t repairs;
    pare_nan_policy nan;              /* what became of them */
    const pare_recipe_export *export; /* what the recipe makes of the finished artifact */
    size_t exports;
    pare_report_sizes sizes;
    double bits_per_weight;       /* of the targeted linears */
    double model_bits_per_weight; /* of the whole model, as pare eval has it */
    bool untied;                  /* its tied head has got weights of its own */
    /* In the files up to their writing; in a result of the whole job, exports included. */
    double seconds, calibration_seconds, evaluation_seconds;
    double joules; /* that the packages of the machine used in `seconds`; 0: not known */
    size_t calibration_windows, calibration_window;
    const char *precision; /* of the products of a calibration, as recipes name it; or NULL */
    const pare_text *calibration_text; /* [calibration_texts] files as the recipe names them */
    const size_t *calibration_share;   /* their windows, or NULL when no weights were given */
    size_t calibration_texts;
    uint64_t peak_rss_bytes, peak_anonymous_bytes;
    const pare_report_rank *rank; /* [ranks] what each process did; 0: there was one */
    size_t ranks;
    bool untokenized; /* neither model has a tokenizer */
    size_t resumed_blocks;
    const char *started; /* ISO 8601, UTC */
} pare_report;

/* Fills count, cold, least and median from rows in the order of the plan. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_report_experts_take(pare_arena *a, const pare_linear_result *row,
                                                  size_t rows, pare_report_experts *out);

/* How much of the choice of weights parts of the calibration agree on, over all linears of which it
 * was measured; 0: of none. */
double pare_report_stability(const pare_report *r);

/* Weights that were repaired, over all tensors. */
uint64_t pare_report_repaired(const pare_report *r);

/* What else there is to know of an evaluation, each behind `separator`: "first 20 of 99 windows"
 * unless all there is was taken, "on a GPU", "on the CPU". Returns text. */
enum { PARE_REPORT_NOTES = 128 };
const char *pare_report_notes(const pare_report_eval *e, const char *separator,
                              char text[PARE_REPORT_NOTES]);

/* Bytes of all parts. */
uint64_t pare_report_total(const uint64_t bytes[PARE_REPORT_PARTS]);

/* Members of an open object that run.json and the result of a command share: seconds, memory,
 * baseline, evaluations, warnings and what belongs to them. */
void pare_report_put(pare_json_writer *w, const pare_report *r);

/* Writes the four files into `directory`, each whole. PARE_EIO, PARE_ENOSPC, PARE_ENOMEM. */
PARE_CHECKED pare_status pare_report_write(pare_ctx *cx, const pare_report *r,
                                           const char *directory);

/* Adds the text of a README.md or report.html (`html`) that such a report is, with the verdict and
 * the recipe of r in place of its own. What is not found stays. */
struct pare_text_out;
void pare_report_change(struct pare_text_out *t, const pare_report *r, const char *text, bool html);

/* The member "training" of an open object; and the curve of its loss as a picture in HTML. */
void pare_report_training(pare_json_writer *w, const pare_training_result *t);
void pare_report_curve(struct pare_text_out *t, const pare_training_result *s);

#endif
