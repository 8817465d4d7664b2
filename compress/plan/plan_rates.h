/* compress/plan/plan_rates.h - what this machine does in a second, as it is now: short probes of
 * the functions that a job spends its time in, under a second in all. */
#ifndef PARE_COMPRESS_PLAN_PLAN_RATES_H
#define PARE_COMPRESS_PLAN_PLAN_RATES_H

#include "compress/plan/plan.h"

enum { PARE_RATES_WHY = 256 };

/* What is 0 was not asked for. Over the pool unless it says one thread. */
typedef struct pare_plan_rates {
    double read;       /* bytes of the model hashed by XXH3, one thread, from where they lie:
                          memory or disk */
    double scan;       /* bytes of weights looked at for NaN, one thread */
    double sha256;     /* bytes, one thread */
    double copy;       /* bytes, one thread */
    double write;      /* bytes onto the disk of the output, the sync included */
    double sync;       /* seconds that a sync of little takes */
    double gemm;       /* operations of a product with weights in F32, */
    double gemm_half;  /* in F16, */
    double gemm_bf16;  /* with inputs and weights rounded to BF16, */
    double gemm_codes; /* in codes, its inputs rounded on the way */
    double gram;       /* operations of x^T x, */
    double gram_bf16;  /* with x rounded to BF16 */
    double round;      /* weights rounded to nearest */
    double store;      /* weights loaded, packed, hashed, decoded and measured */
    double compare;    /* logits of two models compared, one thread */
    double tokenizer;  /* seconds to read the tokenizer */
    double encode;     /* bytes of text, one thread */
    double tokens;     /* tokens in a byte of text */
    char disk[PARE_RATES_WHY]; /* why write and sync are 0: nothing can be written where the output
                                  goes; empty: they were measured */
} pare_plan_rates;

/* Measures them for a plan. Reads a little of the weights and of a text, and writes a file without
 * a name where the output goes, if that is possible. PARE_ENOMEM, PARE_EIO, PARE_EINTERRUPTED, and
 * what reading a tokenizer or a text returns. */
PARE_CHECKED pare_status pare_plan_rates_measure(pare_ctx *cx, const pare_plan *plan,
                                                 pare_plan_rates *out);

#endif
