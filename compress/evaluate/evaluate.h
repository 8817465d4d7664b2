/* compress/evaluate/evaluate.h - perplexity, KL divergence, multiple choice, speed.
 *
 * Protocol: consecutive windows of `window` tokens, the last partial one dropped, positions
 * 1 .. window-1 of each scored; with stride N windows start every N tokens and after the first only
 * the last N positions of each are scored. Sums in double, in token order.
 *
 * Memory of a text, for each model: hidden states of a batch of windows (one window where it is
 * longer than 2048 tokens), the cache of one block, and at most 16 MiB of logits (64 rows at most,
 * one at least), whatever the window. */
#ifndef PARE_COMPRESS_EVALUATE_H
#define PARE_COMPRESS_EVALUATE_H

#include "runtime/device.h"
#include "runtime/forward.h"

/* What the blocks of a model give for these tokens, in an open file: [windows * window, hidden]
 * floats from `at` on. */
typedef struct pare_eval_stream {
    int fd;
    const char *path; /* for messages */
    uint64_t at;      /* bytes */
    bool filled;      /* it is read in place of running the blocks; else it is written */
} pare_eval_stream;

typedef struct pare_eval_opts {
    size_t window;                  /* 2 .. context */
    size_t stride;                  /* 0: windows do not overlap; else 1 .. window - 1 */
    const char *model, *baseline;   /* how messages name them; NULL: "the model", "the baseline" */
    const pare_eval_stream *stream; /* of the baseline, of the model where there is none; on the
                                       CPU, without stride; or NULL */
    bool shared; /* all processes of a job (runtime/world.h) call it at once, each scores some of
                    the windows, and process 0 gets the result */
} pare_eval_opts;

/* Bins of a histogram of KL: bin 0 below 2^-20, bin i from 2^(i - 21), each twice as wide as the
 * one before, the last from 2^3 on. */
enum { PARE_KL_LEAST = -20, PARE_KL_BINS = 25 };

/* Positions [2^b, 2^(b+1)) of all windows: tokens that are predicted from so many before them. */
typedef struct pare_eval_bin {
    size_t scored;
    double nll;        /* mean, nats */
    double nll_stderr; /* of the means of windows: sample deviation / sqrt(windows); NaN for one */
    double baseline_nll, kl; /* with a baseline: means */
} pare_eval_bin;
enum { PARE_EVAL_BINS = 32 };

typedef struct pare_eval_result {
    size_t scored;     /* positions */
    double nll;        /* mean, nats */
    double ppl;        /* exp(nll) */
    double ppl_stderr; /* ppl * standard error of the mean of nll over positions */
    bool has_kl;       /* against the baseline: sum_v p0 (ln p0 - ln p) per position */
    double kl_mean, kl_p99;
    double top1;                       /* share of positions with the baseline's argmax */
    size_t kl_histogram[PARE_KL_BINS]; /* positions by their KL */
    pare_eval_bin bin[PARE_EVAL_BINS]; /* by position; the first `bins` of them, some empty */
    size_t bins;
    /* The baseline's own, on the same positions; the bytes of memory that it took beside f. */
    double baseline_nll, baseline_ppl, baseline_ppl_stderr;
    size_t baseline_bytes;
} pare_eval_result;

/* Scores tokens [count] with f; with a baseline (same vocabulary) also KL. Logits are formed in row
 * chunks. PARE_EINVAL (too few tokens for one window, window, stride, vocabularies differ, token
 * out of range), PARE_ENUMERIC (logits that are not finite), PARE_ENOMEM, PARE_EINTERRUPTED: then
 * *out is of the positions scored until there, if scored is not 0. Reports progress in tokens. A
 * position's KL that rounds below 0 counts as 0; kl_p99 is the value number ceil(0.99 scored) in
 * ascending order. */
PARE_CHECKED pare_status pare_evaluate(pare_ctx *cx, const pare_forward *f,
                                       const pare_forward *baseline, const pare_eval_opts *opts,
                                       const int32_t *tokens, size_t count, pare_eval_result *out);

/* Bytes of a device that pare_evaluate of models takes there at most: weights, caches, activations.
 * Runs a batch of windows on paper (runtime/device.h). d is the device; baseline may be NULL, the
 * models may be the same; f16: products of floats are in F16 (pare_cuda_use_f16). What the device
 * cannot compute: PARE_ENOTSUP. PARE_ENOMEM, of the host.
 */
PARE_CHECKED pare_status pare_evaluate_device_bytes(pare_ctx *cx, const pare_device *d,
                                                    const pare_forward *f,
                                                    const pare_forward *baseline, bool f16,
                                                    const pare_eval_opts *opts, size_t count,
                                                    size_t *bytes);

/* One model of an evaluation, before there is one. */
typedef struct pare_eval_side {
    const pare_config *config;
    const pare_kv_format *kv;
    pare_inputs inputs;
} pare_eval_side;

/* Bytes that pare_evaluate takes for `count` tokens, upper bound.
 *   side   the model
 *   other  the baseline, or NULL */
uint64_t pare_evaluate_bytes(const pare_ctx *cx, const pare_eval_side *side,
                             const pare_eval_side *other, size_t window, uint64_t count);

/* One multiple-choice item: choice c is context tokens followed by its own. */
typedef struct pare_choice_item {
    const int32_t *context;
    size_t context_count;
    const int32_t *const *choice;
    const size_t *choice_count; /* tokens */
    const size_t *choice_bytes; /* UTF-8 bytes of the continuation */
    size_t choices, answer;
    double *score; /* [choices] or NULL: written, sums of log-likelihoods in nats */
    size_t line;   /* of a file, from 1, for messages; 0: they say its number in the list, from 0 */
    unsigned char *verdict; /* PARE_CHOICE_ bits or NULL: written */
    bool *greedy; /* [choices] or NULL: written, whether each token was the most likely one */
} pare_choice_item;

enum {
    PARE_CHOICE_ASKED = 1,
    PARE_CHOICE_RIGHT = 2,     /* by accuracy */
    PARE_CHOICE_RIGHT_NORM = 4 /* by accuracy_norm */
};

typedef struct pare_choice_result {
    double accuracy;      /* largest sum of log-likelihoods */
    double accuracy_norm; /* largest sum / bytes */
    /* sqrt(a (1 - a) / (n - 1)), as lm-evaluation-harness has it; NaN for one item. */
    double accuracy_stderr, accuracy_norm_stderr;
    size_t n; /* items asked */
} pare_choice_result;

/* A context runs once (the last token of a choice does not), and its choices continue its key/value
 * cache together; items with contexts of one length share passes. Scores have the same bytes as
 * those of each choice behind its context in one piece. Returns PARE_OK, PARE_EINVAL (no items, an
 * item does not fit the context, an empty context or choice, an answer that is none of the choices;
 * the message names its line or number), PARE_ENUMERIC, PARE_ENOMEM, PARE_EINTERRUPTED: then *out
 * is of the items asked until there, those with the shortest contexts, if n is not 0. First of
 * equals wins. */
PARE_CHECKED pare_status pare_evaluate_choice(pare_ctx *cx, const pare_forward *f,
                                              const pare_choice_item *item, size_t items,
                                              pare_choice_result *out);

/* Bytes that pare_evaluate_choice takes, upper bound.
 *   longest   tokens of an item: its context and, for each choice, the longest of them
 *   tokens    the same, of all items together */
uint64_t pare_evaluate_choice_bytes(const pare_ctx *cx, const pare_eval_side *side, size_t items,
                                    uint64_t tokens, size_t longest);

typedef struct pare_speed_result {
    double prefill_tok_s; /* prompt of min(512, context / 2) tokens, one sequence */
    double decode_tok_s;  /* 64 tokens (or to the context) behind it */
    double ttft_ms;       /* prompt to first token */
    double tpot_ms;       /* per decoded token */
    size_t prompt, decoded, threads;
} pare_speed_result;

/* Median of three runs after one warm-up. The first token (its logits included) belongs to prefill.
 * PARE_ENOMEM, PARE_EINTERRUPTED. */
PARE_CHECKED pare_status pare_evaluate_speed(pare_ctx *cx, const pare_forward *f,
                                             pare_speed_result *out);

#endif
