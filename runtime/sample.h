/* runtime/sample.h - drawing tokens from logits, and generation of whole sequences. */
#ifndef PARE_RUNTIME_SAMPLE_H
#define PARE_RUNTIME_SAMPLE_H

#include "runtime/forward.h"
#include "runtime/sample_filter.h"

/* Draws a token: temperature 0 takes the first largest logit; otherwise the inverse of the
 * cumulative softmax(logits / temperature), in double, at u in [0, 1). -1 when there is no
 * such number: the largest logit is not finite, or one is NaN and the temperature is not 0. */
int32_t pare_sample(const float *logits, size_t vocab, double temperature, double u);

typedef struct pare_generate_opts {
    double temperature; /* >= 0 */
    uint64_t seed;
    uint64_t first;   /* number of the first sequence: sequence i draws from stream first + i */
    size_t sequences; /* >= 1, run as one batch */
    size_t length;    /* tokens per sequence, prompt included */
    bool stop_at_eos; /* fill with the end token behind the first one; off: go on drawing */
    const pare_forward *other; /* of the same vocabulary, on the same device, or NULL; then each
                                  token comes from it with the chance `share`, else from f: from
                                  (1 - share) q + share p. temperature > 0 */
    double share;
    const pare_sample_filter *filter; /* NULL: none; not with `other` */
} pare_generate_opts;

/* Whether a token is one of those that end a text. */
bool pare_is_end(const pare_config *c, int32_t token);

/* Generates into tokens [sequences, length]; the first `prompt` (>= 1) tokens of each sequence are
 * given in it. `seen`, if not NULL, is called for each new position with that column.
 * Returns PARE_OK, PARE_EINVAL (length above f->positions, prompt 0 or above length, no sequence, a
 * token of the prompt, the temperature or the filter out of range, another model that does not
 * fit),
 * PARE_ENUMERIC (logits that pare_sample refuses), PARE_ENOMEM, PARE_EINTERRUPTED, or what `seen`
 * returned. Work: one prefill, then one decode per token, of each model. Exact: a sequence depends
 * on its prompt, its stream and the seed only, not on the others or on the number of threads. */
PARE_CHECKED pare_status pare_generate(pare_ctx *cx, pare_arena *scratch, const pare_forward *f,
                                       const pare_generate_opts *opts, size_t prompt,
                                       int32_t *tokens,
                                       pare_status (*seen)(void *self, size_t position),
                                       void *self);

#endif
