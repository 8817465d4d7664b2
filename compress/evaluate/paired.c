#include "compress/evaluate/paired.h"

#include <math.h>

#include "compress/evaluate/evaluate.h"

/* From the largest term down, each by its ratio to the one before: C(n, k-1) = C(n, k) k / (n-k+1).
 */
double pare_mcnemar(size_t gained, size_t lost)
{
    const double n = (double)gained + (double)lost;
    const size_t least = gained < lost ? gained : lost;
    const double k = (double)least;
    double term = exp(lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1) - n * log(2)), sum = term;
    for (size_t i = least; i > 0; i--) {
        term *= (double)i / (n - (double)i + 1);
        sum += term;
    }
    return fmin(1, 2 * sum);
}

pare_paired pare_choice_paired(const unsigned char *now, const unsigned char *baseline,
                               size_t items, unsigned right)
{
    pare_paired r = {0};
    for (size_t i = 0; i < items; i++) {
        if (!(now[i] & baseline[i] & PARE_CHOICE_ASKED))
            continue;
        r.gained += (now[i] & right) > (baseline[i] & right);
        r.lost += (now[i] & right) < (baseline[i] & right);
    }
    r.p = pare_mcnemar(r.gained, r.lost);
    return r;
}
