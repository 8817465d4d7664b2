/* runtime/ops.h - the small operations between the linears, and the exponential they share.
 *
 * Plain C with a fixed order of every sum (eight lanes in double, lane l takes i = l, l + 8, ...,
 * then ((l0+l4)+(l2+l6)) + ((l1+l5)+(l3+l7))), no library exponential and no fused operation: the
 * same bytes on every CPU. All are pure, thread-safe and take row-major f32. */
#ifndef PARE_RUNTIME_OPS_H
#define PARE_RUNTIME_OPS_H

#include <stddef.h>

#include "kernels/kernels.h"
#include "runtime/arch.h"

/* e^x, relative error below 1e-11 for |x| <= 700; x is clamped to that range. NaN stays NaN. */
double pare_exp(double x);

/* y[i] = w[i] * (x[i] * s),  s = (float)(1 / sqrt(sum x^2 / n + eps)). y may be x. */
void pare_rms_norm(float *y, const float *x, const float *w, size_t n, double eps);

/* y[i] = w[i] * ((x[i] - m) * s),  m = sum x / n,  s = 1 / sqrt(sum (x - m)^2 / n + eps), both
 * rounded to f32. y may be x. */
void pare_layer_norm(float *y, const float *x, const float *w, size_t n, double eps);

/* x[i] = act(x[i]) * up[i]; up NULL: act(x[i]). In double, rounded once; the error
 * function of GELU to within 1e-10. CLAMPED: (1 + up[i] held in -7 .. 7) act(x[i]), where
 * act(x) = g / (1 + e^(-1.702 g)) and g = min(x, 7).
 * Source  transformers, modeling_gpt_oss.py. */
void pare_activate(pare_act act, float *x, const float *up, size_t n);

/* x[i] = rint(x[i] s) / s,  s = 127 / max(max |x|, 1e-5), in f32: what int8 with one scale leaves.
 */
void pare_round_token(float *x, size_t n);

/* x[i] = cap tanh(x[i] scale / cap), in double. */
void pare_soft_cap(float *x, size_t n, double scale, double cap);

/* Rotates the pairs (x[i], x[i + half]), i < half, of one head by the angles of one position;
 * neighbours: the pairs (x[2 i], x[2 i + 1]). */
void pare_rope_apply(float *x, const float *cosine, const float *sine, size_t half,
                     bool neighbours);

/* Gradient of a norm: dx[i] += s (w[i] dy[i] - a - t m), t = (x[i] - mean) s, m = mean of w dy t,
 * a = mean of w dy; RMS: mean and a are 0. Means in double. dx is not dy; NULL: not asked for.
 * t [n] is written: the gradient of w is the sum of dy t; NULL: not asked for. */
void pare_norm_backward(pare_norm_kind kind, float *dx, float *t, const float *dy, const float *x,
                        const float *w, size_t n, double eps);

/* Gradient of act(gate) up: dgate[i] += d[i] up[i] act'(gate[i]), dup[i] += d[i] act(gate[i]). up
 * and dup NULL: of act(gate). CLAMPED likewise, 0 where a clamp holds. SiLU with up by the kernel
 * silu_back_f32, the others in double. */
void pare_activate_backward(const pare_kernels *k, pare_act act, float *dgate, float *dup,
                            const float *d, const float *gate, const float *up, size_t n);

/* The transposed rotation of pare_rope_apply. */
void pare_rope_undo(float *x, const float *cosine, const float *sine, size_t half, bool neighbours);

/* ln(sum e^x[i]), n >= 1: blocks of 64 by the kernel softmax_f32, exponentials and the sum of a
 * block in F32, the sum of the blocks in double; log of the library. Within 1.7e-6 of the exact
 * value: 4e-7 of an exponential, 5e-7 of a rounded distance, 11 roundings of a sum. */
double pare_logsumexp(const pare_kernels *k, const float *x, size_t n);

/* KL divergence of softmax(logit) from softmax(base), all in double:
 *   sum e0 (base - logit) / sum e0 - ln(sum e^base) + ln(sum e^logit),   e0 = e^(base - max base)
 * Equal rows give exactly 0; what rounds below 0 is 0. */
double pare_divergence(const float *base, const float *logit, size_t n);

/* Index of the first largest of n >= 1 values; a NaN is never largest, all NaN gives 0. */
size_t pare_argmax(const float *x, size_t n);

/* x[i] += y[i]. */
void pare_add(float *x, const float *y, size_t n);

#endif
