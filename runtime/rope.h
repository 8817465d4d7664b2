/* runtime/rope.h - how far rotary positions turn. */
#ifndef PARE_RUNTIME_ROPE_H
#define PARE_RUNTIME_ROPE_H

#include <stdbool.h>
#include <stddef.h>

enum { PARE_ROPE_DIVISORS_MAX = 128 };

/* How frequencies are scaled; the words of config.json. */
typedef enum pare_rope_kind {
    PARE_ROPE_LINEAR, /* by `stretch`; or not at all */
    PARE_ROPE_LLAMA3,
    PARE_ROPE_DYNAMIC, /* by the length of the sequence, as LONGROPE */
    PARE_ROPE_YARN,
    PARE_ROPE_LONGROPE,
    PARE_ROPE_NONE /* no position turns: frequencies 0 */
} pare_rope_kind;

typedef struct pare_rope {
    double theta;
    size_t rotary;  /* channels of a head that turn; 0: all of them */
    double stretch; /* positions count 1 / stretch; 0: as they are */
    pare_rope_kind kind;
    double factor;                            /* not LINEAR */
    size_t original_context;                  /* likewise */
    double low_freq_factor, high_freq_factor; /* LLAMA3 */
    double beta_fast, beta_slow;              /* YARN: turns in original_context positions */
    bool exact_bounds;                        /* YARN: not rounded to whole pairs */
    double attention; /* cosines and sines times it, so scores times its square; 0: 1 */
    double scores;    /* YARN: m of mscale_all_dim; its square scales scores of latent attention */
    float divisor[2][PARE_ROPE_DIVISORS_MAX]; /* LONGROPE: of sequences of up to original_context
                                                 positions, of longer ones */
} pare_rope;

/* Angular frequency of pair i of `pairs`, radians per position, f = theta^(-i / pairs) without
 * scaling, in a sequence of `length` positions L; C is original_context.
 *   LINEAR    f / stretch
 *   LLAMA3    wavelengths above C / low_freq_factor are stretched by `factor`, those up
 *             to C / high_freq_factor are kept, and in between the two are mixed linearly
 *   DYNAMIC   L > C: theta times (factor L / C - factor + 1)^(pairs / (pairs - 1)) for theta
 *   YARN      (1 - m) f + m f / factor, m = (i - a) / (b - a) held in 0 .. 1; a and b are the pairs
 *             that turn beta_fast and beta_slow times in C positions, rounded down and up
 *   LONGROPE  f / divisor[L > C][i]
 *   NONE      0
 * Source  transformers, modeling_rope_utils.py; Peng et al., YaRN, 2023; Ding et al., LongRoPE,
 *         2024. */
double pare_rope_frequency(const pare_rope *r, size_t i, size_t pairs, size_t length);

/* The bounds a and b of YARN. */
void pare_rope_ramp(const pare_rope *r, size_t pairs, double bound[2]);

/* Whether sequences of more than original_context positions turn otherwise than shorter ones. */
static inline bool pare_rope_by_length(const pare_rope *r)
{
    return r->kind == PARE_ROPE_DYNAMIC || r->kind == PARE_ROPE_LONGROPE;
}

/* Rows of the tables of angles for sequences of up to `positions`: one table, or first that of the
 * sequences of up to original_context positions, then that of the longer ones. */
size_t pare_rope_rows(const pare_rope *r, size_t positions);

#endif
