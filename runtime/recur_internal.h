/* runtime/recur_internal.h - what the way there and the way back share. */
#ifndef PARE_RUNTIME_RECUR_INTERNAL_H
#define PARE_RUNTIME_RECUR_INTERNAL_H

#include "runtime/forward_internal.h"
#include "runtime/recur.h"

typedef struct pare__recur_call {
    const pare_recur *r;
    const pare_recurrence_sizes *sizes;
    const pare_kernels *kernels;
    const float *mixed, *z, *beta, *decay;
    const float *past; /* what stands in front of mixed; NULL: zeros */
    double eps;
    size_t channels; /* of mixed */
} pare__recur_call;

/* One value head of a sequence, and what it reads at a token. */
typedef struct pare__recur_head {
    const pare__recur_call *call;
    size_t sequence, head;
    float q[PARE_STATE_WIDTH_MAX], k[PARE_STATE_WIDTH_MAX], v[PARE_STATE_WIDTH_MAX];
    float keep, beta;
    /* From the step: v - S^T k, and beta times that. */
    float miss[PARE_STATE_WIDTH_MAX], change[PARE_STATE_WIDTH_MAX];
} pare__recur_head;

pare__recur_call pare__recur_begin(const pare_ctx *cx, const pare_recur *r, const pare_array *x);

/* ln(1 + e^x) */
double pare__softplus(double x);

/* The first channels of mixed that are q, k and v of a value head. */
void pare__recur_channels(const pare__recur_head *h, size_t first[3]);

/* out [count] = the convolution at token t of channels first, first + 1, ..., in front of silu. */
void pare__recur_convolve(const pare__recur_call *c, size_t sequence, size_t t, size_t first,
                          size_t count, float *out);

/* q, k, v, keep and beta of token t. */
void pare__recur_read(pare__recur_head *h, size_t t);

/* The state takes the token in: `to` from `from` [key_width, value_width], which may be one; and
 * y = S^T q. */
void pare__recur_step(pare__recur_head *h, const float *from, float *to, float *y);

#endif
