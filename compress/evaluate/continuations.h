/* compress/evaluate/continuations.h - what a model writes behind prompts from a text: how long it
 * is, how often it repeats itself, and how it differs from what a baseline writes.
 *
 * Protocol: windows spread evenly over those of the text; the first tokens of each are a prompt,
 * half of the window and at most PARE_CONTINUE_PROMPT. Each model continues it until an end token
 * of its own, at most `most` tokens. At a temperature prompt i draws from stream i, for both
 * models the same numbers.
 *
 *   length     tokens in front of the end token; `most` where none came
 *   repeated   4-grams of a continuation that stand earlier in it, too, over all 4-grams of all
 *   apart      the first token, from 0, that differs from the baseline's; an end token counts */
#ifndef PARE_COMPRESS_CONTINUATIONS_H
#define PARE_COMPRESS_CONTINUATIONS_H

#include "compress/evaluate/evaluate.h"
#include "formats/json.h"

enum {
    PARE_CONTINUE_PROMPT = 64,
    PARE_CONTINUE_GRAM = 4,
    PARE_CONTINUE_TOGETHER = 16 /* prompts at once, at most */
};

typedef struct pare_continue_opts {
    size_t window, stride; /* of the text, as pare_eval_opts has them */
    size_t prompts, most;  /* at most so many, and tokens of a continuation; 1 or more */
    double temperature;    /* 0: greedy */
    uint64_t seed;
} pare_continue_opts;

/* Tokens of a prompt. */
size_t pare_continue_prompt(size_t window);

/* Of one model. Sums over the prompts done. */
typedef struct pare_continue_figures {
    pare_continue_opts opts;
    size_t prompts, length, endless; /* prompts done; sum of lengths; those without an end */
    size_t grams, repeated;
    bool complete;              /* no interrupt came before the last prompt */
    bool has_baseline;          /* then: */
    size_t length_apart;        /* sum of |length - the baseline's| */
    size_t differ, first_apart; /* continuations that differ; sum of the first such tokens */
} pare_continue_figures;

/* Continues with f and, unless NULL, with the baseline, into out[0] and out[1].
 *
 * Memory   caches of all blocks for as many prompts at once as fit 256 MiB (1 to 16), of one model
 *          at a time.
 * Returns  PARE_OK, PARE_EINVAL (a text shorter than a window, and what pare_generate refuses),
 *          PARE_ENUMERIC, PARE_ENOMEM, PARE_EINTERRUPTED: then figures are of the prompts that
 *          both are done with. Reports progress in prompts.
 * Exact    for any number of threads and of prompts at once. */
PARE_CHECKED pare_status pare_evaluate_continuations(pare_ctx *cx, const pare_forward *f,
                                                     const pare_forward *baseline,
                                                     const pare_continue_opts *opts,
                                                     const int32_t *tokens, size_t count,
                                                     pare_continue_figures out[2]);

/* Bytes that it takes for one of the models, upper bound; the other one's tokens are in it. */
uint64_t pare_continue_bytes(const pare_ctx *cx, const pare_eval_side *side,
                             const pare_continue_opts *opts);

/* What follows from the sums; NaN where nothing was measured. */
typedef struct pare_continue_means {
    double length, endless, repeated; /* the latter two are shares */
    double length_apart, same;        /* same: share of continuations equal to the baseline's */
    double first_apart;               /* of those that are not */
} pare_continue_means;
pare_continue_means pare_continue_means_of(const pare_continue_figures *f);

/* Member "continuations" of the object that is open. */
void pare_continue_put(pare_json_writer *w, const pare_continue_figures *f);

#endif
