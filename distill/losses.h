/* distill/losses.h - what training minimizes, and its gradient with respect to the logits z of the
 * student; t are those of the teacher.
 *
 *   q = softmax(z / T),  p = softmax(t / T),  d = ln(q / p)
 *
 *   loss        value of a row                                gradient
 *   ce          -ln softmax(z)[label]                         softmax(z) - 1 at the label
 *   kl          T^2 sum p ln(p / q)                           T (q - p)
 *   reverse_kl  T^2 K,  K = sum q d                           T q (d - K)
 *   jsd         T^2 (b sum p ln(p / m) + (1 - b) J)           T (1 - b) q (ln(q / m) - J)
 *               m = b p + (1 - b) q,  J = sum q ln(q / m)
 *   `scaled`    the same over b (1 - b): kl as b nears 0, reverse_kl as it nears 1
 *   skew_kl     T^2 sum p ln(p / m)                           -T (1 - a) q (r - sum q r)
 *               m = a p + (1 - a) q,  r = p / m
 *   skew_reverse_kl  T^2 sum q ln(q / m)                      T q (g - sum q g)
 *               m = (1 - a) p + a q,  g = ln(q / m) + 1 - a q / m
 *   total_variation  T sum |p - q| / 2                        q (s - sum q s)
 *               s = sign(q - p) / 2
 *   hidden      sum (s - u)^2 / sum u^2                       2 (s - u) / sum u^2
 *               of outputs of blocks, s the student's and u the teacher's
 *
 * T^2, and T where it is one, keep the gradient of one size for any T. At q = p in total_variation
 * s is 0. Exponentials come from the kernel softmax_f32, 64 logits at a time: a probability is
 * within 2e-6 of itself; all else in double. Every sum has one order: the same bytes for any number
 * of threads. Source: Hinton, Vinyals, Dean, 2015 (kl); Gu et al., MiniLLM, 2023 (reverse_kl);
 * Agarwal et al., GKD, 2023 (jsd); Ko et al., DistiLLM, 2024 (skew_kl, skew_reverse_kl; there
 * without T); Wen et al., f-distill, 2023 (total_variation); Romero et al., FitNets, 2014 (hidden).
 */
#ifndef PARE_DISTILL_LOSSES_H
#define PARE_DISTILL_LOSSES_H

#include "runtime/arena.h"

/* How much each of them counts; 0: not at all. */
typedef struct pare_losses {
    double ce, kl, reverse_kl, jsd, skew_kl, skew_reverse_kl, total_variation, hidden;
    double sinkhorn;    /* distill/sinkhorn.h */
    double relations;   /* distill/relations.h */
    double attention;   /* distill/scores.h */
    double temperature; /* T > 0 of all that look at the teacher's logits */
    double beta;        /* b of jsd, between 0 and 1 */
    double skew;        /* a of skew_kl and skew_reverse_kl, 0 <= a < 1 */
    bool scaled;        /* jsd */
    size_t pieces;      /* A of relations; 0: the student's key heads */
} pare_losses;

/* Whether any of them looks at the teacher's logits. */
static inline bool pare_losses_compare(const pare_losses *l)
{
    return l->kl > 0 || l->reverse_kl > 0 || l->jsd > 0 || l->skew_kl > 0 ||
           l->skew_reverse_kl > 0 || l->total_variation > 0 || l->sinkhorn > 0;
}

/* Whether any of them needs a teacher. */
static inline bool pare_losses_taught(const pare_losses *l)
{
    return pare_losses_compare(l) || l->hidden > 0 || l->relations > 0 || l->attention > 0;
}

/* A label that says: this row does not count. */
enum { PARE_NO_LABEL = -1 };

/* The weighted sum of the losses of logits, over rows. Each row stands alone but for sinkhorn,
 * whose groups begin with the first.
 *
 *   z      [rows, vocab], becomes scale times the gradient of the sum over the rows that count; 0
 *          in the others
 *   t      [rows, vocab], or NULL where no loss looks at it
 *   label  [rows], the next token or PARE_NO_LABEL
 *   value  [1], the sum over the rows that count, not scaled; not finite where z or t is not
 *
 * PARE_ENOMEM. Memory: pare_losses_bytes of scratch, rewound. Threads over rows. */
PARE_CHECKED pare_status pare_losses_rows(pare_ctx *cx, pare_arena *scratch, const pare_losses *l,
                                          float *z, const float *t, const int32_t *label,
                                          size_t rows, size_t vocab, double scale, double *value);

size_t pare_losses_bytes(const pare_ctx *cx, const pare_losses *l, size_t rows, size_t vocab);

/* The loss `hidden` of s and u [count]: the value; ds [count] += scale times its gradient. 0, and
 * nothing is added, where u is 0. Threads over slices. */
double pare_losses_hidden(const pare_ctx *cx, const float *s, const float *u, size_t count,
                          double scale, float *ds);

#endif
