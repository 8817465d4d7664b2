/* runtime/speculate.h - speculative decoding: a small model drafts tokens, the model itself, the
 * target, checks all of them in one pass. What comes out has the distribution of the target alone.
 *
 * Rule, for drafted tokens x_1 .. x_g, x_i drawn from q_i, and the target's p_1 .. p_{g+1} at the
 * same positions: x_i is accepted with probability min(1, p_i(x_i) / q_i(x_i)). In place of the
 * first one that is not, a token is drawn from max(0, p_i - q_i) / sum max(0, p_i - q_i), and those
 * behind it are dropped; when all are accepted, one more is drawn from p_{g+1}. p and q are what
 * tokens are really drawn from, after the temperature and whatever else cuts them.
 *
 * The numbers of a position are PARE_DRAWS of (seed, stream): they do not depend on g, and a
 * position that is drafted again draws from them again, as no token that stays depends on a dropped
 * one.
 *
 * Source: Leviathan et al. 2022 (2211.17192), Chen et al. 2023 (2302.01318). */
#ifndef PARE_RUNTIME_SPECULATE_H
#define PARE_RUNTIME_SPECULATE_H

#include "runtime/forward.h"

enum { PARE_DRAWS = 3 }; /* of a position: to draft, to accept, in place of a draft */

/* Where a position's numbers come from. */
typedef struct pare_draws {
    uint64_t seed, stream;
} pare_draws;

/* p = softmax(logits / temperature), in double: what pare_sample draws from. Temperature 0: 1 at
 * the first largest logit. p [vocab]. False where pare_sample gives no token. */
bool pare_distribution(const float *logits, size_t vocab, double temperature, double *p);

/* sum_v min(p(v), q(v)): the chance that a token drawn from q is accepted. */
double pare_overlap(const double *p, const double *q, size_t vocab);

/* The token to draft at `position`, from q [vocab]. */
int32_t pare_speculate_draft(const double *q, size_t vocab, pare_draws from, uint64_t position);

/* The rule.
 *   x         [count] drafted tokens, at positions first, first + 1, ...
 *   q         [count, vocab] what they were drawn from
 *   p         [count + 1, vocab] the target's
 *   next      written: the token behind the accepted ones, of position first + the return value
 * Returns how many of x are accepted. With one-hot p and q, that is temperature 0, those up to the
 * first that is not the target's choice, and next is this choice. Where nothing is left of
 * max(0, p - q) although a token was not accepted, which only rounding can cause, next is drawn
 * from p. */
size_t pare_speculate(const int32_t *x, size_t count, const double *q, const double *p,
                      size_t vocab, pare_draws from, uint64_t first, int32_t *next);

typedef struct pare_speculate_opts {
    double temperature; /* >= 0 */
    pare_draws draws;
    size_t drafted; /* tokens that are drafted for a pass, 1 .. PARE_DRAFTED_MAX */
    size_t length;  /* tokens, prompt included */
} pare_speculate_opts;

enum { PARE_DRAFTED_MAX = 64 };

/* What one or more runs did; they add to it. Times in seconds, without those of the prompt. */
typedef struct pare_speculate_counts {
    size_t tokens, passes;     /* made; of the target */
    size_t examined, accepted; /* drafted tokens up to the first that was not accepted, that too */
    double overlap;            /* sum of pare_overlap over the examined */
    size_t draft_steps;
    size_t full_passes; /* of opts.drafted + 1 positions; the last ones of a text can be shorter */
    double seconds, draft_seconds, full_seconds; /* all; in draft_steps; in full_passes */
} pare_speculate_counts;

/* Continues tokens [length], of which the first `prompt` (>= 1) are given, one sequence. Near the
 * end fewer tokens are drafted, so that none is too many. End tokens end nothing.
 * Returns PARE_OK, PARE_EINVAL (length above the positions of one of the models, prompt 0 or above
 * length, another size of the vocabularies, a cache in codes, drafted or temperature out of range,
 * a token out of range), PARE_ENUMERIC (logits that are not finite), PARE_ENOMEM,
 * PARE_EINTERRUPTED. Memory: caches of both models for `length` tokens, 2 drafted + 1 rows of
 * doubles and drafted + 1 of floats, as wide as the vocabulary; nothing per token. Exact: the
 * tokens are the same for any number of threads, and at temperature 0 those of pare_generate. */
PARE_CHECKED pare_status pare_speculate_run(pare_ctx *cx, pare_arena *scratch,
                                            const pare_forward *target, const pare_forward *draft,
                                            const pare_speculate_opts *opts, size_t prompt,
                                            int32_t *tokens, pare_speculate_counts *counts);

#endif
