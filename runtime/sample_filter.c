#include "runtime/sample_filter.h"

#include <math.h>
#include <stdlib.h>

#include "runtime/ops.h"

bool pare_sample_filter_valid(const pare_sample_filter *f)
{
    return f->repetition >= 0 && isfinite(f->repetition) && f->top_p >= 0 && f->top_p <= 1 &&
           f->min_p >= 0 && f->min_p <= 1;
}

/* Scratch marks the tokens that are done. */
static void penalize(double penalty, float *logits, size_t vocab, const int32_t *seen, size_t count,
                     pare_sample_entry *mark)
{
    for (size_t i = 0; i < vocab; i++)
        mark[i].token = 0;
    for (size_t i = 0; i < count; i++) {
        const size_t t = (size_t)seen[i];
        const double l = (double)logits[t];
        if (mark[t].token++ == 0)
            logits[t] = (float)(l < 0 ? l * penalty : l / penalty);
    }
}

/* Largest first; of equals the later token. */
static int larger(const void *a, const void *b)
{
    const pare_sample_entry *const p = a, *const q = b;
    if (p->logit != q->logit)
        return p->logit > q->logit ? -1 : 1;
    return (p->token < q->token) - (p->token > q->token);
}

/* How many of order [n] stay by top-p. The sums go from the least likely up. */
static size_t keep_mass(const pare_sample_entry *order, size_t n, double temperature, double p)
{
    const double max = (double)order[0].logit;
    double total = 0, sum = 0;
    for (size_t i = n; i-- > 0;)
        total += pare_exp(((double)order[i].logit - max) / temperature);
    for (; n > 1; n--) {
        sum += pare_exp(((double)order[n - 1].logit - max) / temperature);
        if (sum > (1 - p) * total)
            break;
    }
    return n;
}

/* How many of order [vocab] may be drawn. */
static size_t keep(const pare_sample_filter *f, const pare_sample_entry *order, size_t vocab,
                   double temperature)
{
    size_t n = vocab;
    if (f->top_k && f->top_k < n) {
        n = f->top_k;
        while (n < vocab && order[n].logit == order[f->top_k - 1].logit)
            n++;
    }
    if (f->top_p > 0 && f->top_p < 1)
        n = keep_mass(order, n, temperature, f->top_p);
    while (n > 1 &&
           pare_exp(((double)order[n - 1].logit - (double)order[0].logit) / temperature) < f->min_p)
        n--;
    return n;
}

void pare_sample_filter_run(const pare_sample_filter *f, float *logits, size_t vocab,
                            double temperature, const int32_t *seen, size_t count,
                            pare_sample_entry *order)
{
    float max = -INFINITY;
    for (size_t i = 0; i < vocab; i++) {
        if (isnan(logits[i]))
            return;
        max = logits[i] > max ? logits[i] : max;
    }
    if (!isfinite(max))
        return;
    if (f->repetition > 0 && f->repetition != 1)
        penalize(f->repetition, logits, vocab, seen, count, order);
    if (temperature <= 0 || (!f->top_k && !(f->top_p > 0 && f->top_p < 1) && f->min_p <= 0))
        return;
    for (size_t i = 0; i < vocab; i++)
        order[i] = (pare_sample_entry){logits[i], (int32_t)i};
    qsort(order, vocab, sizeof *order, larger);
    for (size_t i = keep(f, order, vocab, temperature); i < vocab; i++)
        logits[order[i].token] = -INFINITY;
}
