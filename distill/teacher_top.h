/* distill/teacher_top.h - what a teacher said of each token of the data, kept, so that it need not
 * run again over the same windows: its K largest probabilities and the sum of the others.
 *
 *   p = softmax(t / T),  q = softmax(z / T)
 *   A: the K tokens with the largest p, of equal ones the first
 *   r = sum of p outside A,  s = sum of q outside A
 *
 *   loss      T^2 (sum over A of p ln(p / q) + r ln(r / s))
 *   gradient  T (q - p) on A,  T q (1 - r / s) outside
 *
 * It is the loss kl with all tokens outside A as one: a lower bound of kl, and kl itself where no
 * more than one is outside. Leaving the others out, or dividing p by its sum over A, would teach
 * the student that they never come. p and r in F32, all else as in losses.h. Source: the rule of
 * one bucket is that of kl for merged outcomes; kept teachers as in DistillKit, 2024. */
#ifndef PARE_DISTILL_TEACHER_TOP_H
#define PARE_DISTILL_TEACHER_TOP_H

#include "runtime/arena.h"

typedef struct pare_teacher_top {
    size_t k; /* at most the vocabulary; 0: nothing is kept */
    double temperature;
    int32_t *id; /* [rows, k] */
    float *p;    /* [rows, k] */
    float *rest; /* [rows] r */
} pare_teacher_top;

/* Room for `rows` rows. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_teacher_top_take(pare_arena *a, size_t rows, size_t vocab, size_t k,
                                               double temperature, pare_teacher_top *out);

/* Bytes that it takes. */
uint64_t pare_teacher_top_bytes(uint64_t rows, size_t vocab, size_t k);

/* Keeps what t [rows, vocab] says, row i as row at[i], each at[i] once; SIZE_MAX: row i is not
 * kept. PARE_ENOMEM. Memory: pare_teacher_top_scratch, rewound. Threads over rows. */
PARE_CHECKED pare_status pare_teacher_top_keep(pare_ctx *cx, pare_arena *scratch,
                                               pare_teacher_top *top, const float *t,
                                               const size_t *at, size_t rows, size_t vocab);

/* The loss, *value, of z [rows, vocab] against rows at[i], and dz [rows, vocab] = scale times its
 * gradient; a row whose label is PARE_NO_LABEL does not count, and its dz is 0. *value is not
 * finite where z is not. PARE_ENOMEM. Memory: pare_teacher_top_scratch, rewound. Threads over rows:
 * the same bytes for any number of them. */
PARE_CHECKED pare_status pare_teacher_top_kl(pare_ctx *cx, pare_arena *scratch,
                                             const pare_teacher_top *top, const float *z,
                                             const size_t *at, const int32_t *label, size_t rows,
                                             size_t vocab, double scale, float *dz, double *value);

uint64_t pare_teacher_top_scratch(const pare_ctx *cx, size_t rows, size_t vocab);

#endif
