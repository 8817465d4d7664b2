/* compress/evaluate/paired.h - whether two models differ on the same multiple-choice items.
 *
 * Items that both answer right, or both wrong, tell nothing. If the models were equally good, each
 * of the others would be gained or lost with probability 1/2. */
#ifndef PARE_COMPRESS_PAIRED_H
#define PARE_COMPRESS_PAIRED_H

#include <stddef.h>

typedef struct pare_paired {
    size_t gained; /* right now, wrong in the baseline */
    size_t lost;   /* wrong now, right in the baseline */
    double p;      /* pare_mcnemar of both */
} pare_paired;

/* The exact test, two-sided: the probability that a fair coin, thrown n = gained + lost times,
 * falls at least as unevenly.
 *
 *   p = min(1, 2 sum_{k=0}^{min(gained, lost)} C(n, k) 2^-n)
 *
 * Work    O(min(gained, lost)).
 * Source  McNemar, Psychometrika 1947, with the binomial distribution itself. */
double pare_mcnemar(size_t gained, size_t lost);

/* Compares verdicts [items] of pare_evaluate_choice by the bit `right` (PARE_CHOICE_RIGHT or
 * PARE_CHOICE_RIGHT_NORM); items that one of the models was not asked do not count. */
pare_paired pare_choice_paired(const unsigned char *now, const unsigned char *baseline,
                               size_t items, unsigned right);

#endif
