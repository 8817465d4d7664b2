/* runtime/sample_filter.h - which tokens may be drawn: repetition penalty, top-k, top-p, min-p.
 *
 * In this order, which is that of transformers 5 (its temperature stands between the first two;
 * top-p and min-p see probabilities at the temperature):
 *
 *   repetition r  logits of tokens that the sequence has, the prompt included: l / r where l > 0,
 *                 l r elsewhere, once for each token
 *   top-k         the k largest logits stay, and all that equal the last of them
 *   top-p         from the least likely up, tokens go while their sum of probabilities is at most
 *                 1 - p; the most likely one stays. Of equals the earlier token goes first
 *   min-p         tokens with less than min-p times the largest probability go
 *
 * Source  Keskar et al. 2019 (repetition); Fan et al., ACL 2018 (k); Holtzman et al., ICLR 2020
 * (p); Nguyen et al., ICLR 2025 (min-p). */
#ifndef PARE_RUNTIME_SAMPLE_FILTER_H
#define PARE_RUNTIME_SAMPLE_FILTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: every token may be drawn, with its own logit. */
typedef struct pare_sample_filter {
    double repetition; /* above 0; 0 and 1: off */
    size_t top_k;      /* 0: off */
    double top_p;      /* in (0, 1]; 0 and 1: off */
    double min_p;      /* in [0, 1] */
} pare_sample_filter;

typedef struct pare_sample_entry {
    float logit;
    int32_t token;
} pare_sample_entry;

/* Whether the values are in their ranges. */
bool pare_sample_filter_valid(const pare_sample_filter *f);

/* Changes logits [vocab] in place: what may not be drawn becomes -infinity. seen [count] are the
 * tokens of the sequence, each in [0, vocab). order [vocab] is scratch. Temperature 0 has the
 * repetition penalty alone. Logits that hold a NaN, or of which none is finite, keep what they are.
 */
void pare_sample_filter_run(const pare_sample_filter *f, float *logits, size_t vocab,
                            double temperature, const int32_t *seen, size_t count,
                            pare_sample_entry *order);

#endif
