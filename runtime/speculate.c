#include "runtime/speculate.h"

#include <math.h>

#include "runtime/ops.h"
#include "runtime/random.h"

enum { TO_DRAFT, TO_ACCEPT, TO_REPLACE };

static double number(pare_draws from, uint64_t position, uint64_t which)
{
    return pare_random_unit(from.seed, from.stream, position * PARE_DRAWS + which);
}

bool pare_distribution(const float *logits, size_t vocab, double temperature, double *p)
{
    const size_t best = pare_argmax(logits, vocab);
    const double max = (double)logits[best];
    double total = 0;
    if (temperature <= 0) {
        for (size_t i = 0; i < vocab; i++)
            p[i] = i == best ? 1 : 0;
        return isfinite(max);
    }
    for (size_t i = 0; i < vocab; i++)
        total += p[i] = pare_exp(((double)logits[i] - max) / temperature);
    for (size_t i = 0; i < vocab; i++)
        p[i] /= total;
    return isfinite(total);
}

double pare_overlap(const double *p, const double *q, size_t vocab)
{
    double sum = 0;
    for (size_t i = 0; i < vocab; i++)
        sum += p[i] < q[i] ? p[i] : q[i];
    return sum;
}

/* What is left of p(v) without q(v); q NULL: all of it. */
static double left(const double *p, const double *q, size_t v)
{
    const double d = q ? p[v] - q[v] : p[v];
    return d > 0 ? d : 0;
}

/* The token at u of the cumulative sums of what is left; -1 where nothing is. */
static int32_t draw(const double *p, const double *q, size_t vocab, double u)
{
    double total = 0, sum = 0;
    int32_t last = -1; /* of those with a chance: u may round up to the end */
    for (size_t i = 0; i < vocab; i++)
        total += left(p, q, i);
    for (size_t i = 0; i < vocab; i++) {
        const double d = left(p, q, i);
        if (d > 0)
            last = (int32_t)i;
        sum += d;
        if (sum > u * total)
            break;
    }
    return last;
}

int32_t pare_speculate_draft(const double *q, size_t vocab, pare_draws from, uint64_t position)
{
    return draw(q, NULL, vocab, number(from, position, TO_DRAFT));
}

size_t pare_speculate(const int32_t *x, size_t count, const double *q, const double *p,
                      size_t vocab, pare_draws from, uint64_t first, int32_t *next)
{
    size_t kept = 0;
    for (; kept < count; kept++) {
        const size_t at = kept * vocab + (size_t)x[kept];
        if (!(number(from, first + kept, TO_ACCEPT) * q[at] < p[at]))
            break;
    }
    const double u = number(from, first + kept, TO_REPLACE);
    const double *const of = p + kept * vocab;
    *next = draw(of, kept < count ? q + kept * vocab : NULL, vocab, u);
    if (*next < 0)
        *next = draw(of, NULL, vocab, u);
    return kept;
}
