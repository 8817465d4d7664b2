/* The multipliers of Granite. With m for residual_multiplier a half adds m f(norm(x)) to the stream
 * x. Of the stream x / m it adds f(norm(x / m)), and an RMS norm of x / m with epsilon / m^2 is
 * that of x: so m goes into the embedding and the epsilon, and a half needs no operation more.
 *
 * Source  transformers 5, models/granite/modeling_granite.py. */
#include "formats/config_internal.h"

pare_status pare__config_multipliers(const pare__config_file *f, pare_config *c)
{
    double embedding = 1, residual = 1;
    if (!c->arch->multiplies)
        return PARE_OK;
    c->attention_scale = c->logit_divisor = 1;
    PARE_TRY(pare__config_positive(f, f->json, "embedding_multiplier", &embedding));
    PARE_TRY(pare__config_positive(f, f->json, "residual_multiplier", &residual));
    PARE_TRY(pare__config_positive(f, f->json, "attention_multiplier", &c->attention_scale));
    PARE_TRY(pare__config_positive(f, f->json, "logits_scaling", &c->logit_divisor));
    c->stream_scale = residual;
    c->embed_scale = embedding / residual;
    c->norm_eps /= residual * residual;
    if (!(c->norm_eps > 0 && c->norm_eps < 1e30 && c->embed_scale > 0 && c->embed_scale < 1e30 &&
          c->logit_divisor > 1e-30 && c->logit_divisor < 1e30))
        return pare_fail(
            f->cx, PARE_ENOTSUP,
            "%s: embedding_multiplier %g, residual_multiplier %g and logits_scaling %g "
            "do not fit F32",
            f->name, embedding, residual, c->logit_divisor);
    return PARE_OK;
}
