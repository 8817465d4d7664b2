/* YaRN and LongRoPE in GGUF files, in the words of config.json.
 *
 * Source  llama.cpp, src/llama-model.cpp and src/llama-context.cpp (the keys, what stands for those
 *         that are missing, the factor of attention), src/models/phi3.cpp and llama.cpp (tensors
 *         of divisors, read whatever the type in phi3). */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "formats/gguf_internal.h"

const char *const pare__gguf_factors[2] = {"rope_factors_short.weight", "rope_factors_long.weight"};

static const char factor_key[] = "rope.scaling.factor";
static const char attention_key[] = "rope.scaling.attn_factor";
static const char original_key[] = "rope.scaling.original_context_length";

static bool has_type(const pare_gguf *g, const pare__gguf_family *f, const char *type)
{
    char key[128];
    const char *text;
    size_t len;
    (void)snprintf(key, sizeof key, "%s.rope.scaling.type", f->arch);
    return pare_gguf_text(pare_gguf_find(g, key), &text, &len) && len == strlen(type) &&
           memcmp(text, type, len) == 0;
}

pare_rope_kind pare__gguf_scaling_kind(const pare_gguf *g, const pare__gguf_family *f)
{
    const bool factors = pare_gguf_tensor_find(g, pare__gguf_factors[0]) ||
                         pare_gguf_tensor_find(g, pare__gguf_factors[1]);
    if (has_type(g, f, "longrope") || factors)
        return PARE_ROPE_LONGROPE;
    return has_type(g, f, "yarn") ? PARE_ROPE_YARN : PARE_ROPE_LINEAR;
}

double pare__gguf_yarn_attention(double factor)
{
    return factor > 1 ? 1 + 0.1 * log(factor) : 1;
}

/* A number above 0; `usual` without the key. */
static pare_status read_number(pare_ctx *cx, const char *name, const pare_gguf *g,
                               const pare__gguf_family *f, const char *key, double usual,
                               double *out)
{
    char full[128];
    (void)snprintf(full, sizeof full, "%s.%s", f->arch, key);
    *out = usual;
    if (pare_gguf_find(g, full) && (!pare__gguf_number(g, key, out) || !(*out > 0)))
        return pare_fail(cx, PARE_EFORMAT, "%s: %s is not a number above 0", name, full);
    return PARE_OK;
}

/* 0 stands for none. */
static pare_status read_factor(pare_ctx *cx, const char *name, const pare_gguf *g,
                               const pare__gguf_family *f, double *out)
{
    if (pare__gguf_number(g, factor_key, out) && *out == 0) {
        *out = 1;
        return PARE_OK;
    }
    return read_number(cx, name, g, f, factor_key, 1, out);
}

/* Positions of the model before it was stretched: those that it has, where the file does not say.
 */
static pare_status put_original(pare_ctx *cx, const char *name, const pare_gguf *g,
                                const pare__gguf_family *f, pare_json_writer *w)
{
    int64_t positions = 0;
    (void)pare__gguf_integer(g, "context_length", &positions);
    double original = (double)positions;
    PARE_TRY(read_number(cx, name, g, f, original_key, original, &original));
    pare_json_put_number(w, "original_max_position_embeddings", original);
    return PARE_OK;
}

static pare_status put_yarn(pare_ctx *cx, const char *name, const pare_gguf *g,
                            const pare__gguf_family *f, pare_json_writer *w)
{
    double factor, attention;
    const bool phi3 = strcmp(f->model_type, "phi3") == 0;
    if (phi3 || f->how & PARE__GGUF_LOCAL)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: rope.scaling.type yarn is not supported in files of %s (none%s are)",
                         name, f->arch, phi3 ? ", linear and longrope" : " and linear");
    PARE_TRY(read_factor(cx, name, g, f, &factor));
    PARE_TRY(read_number(cx, name, g, f, attention_key, 1, &attention));
    pare_json_open_object(w, "rope_scaling");
    pare_json_put_text(w, "rope_type", "yarn");
    pare_json_put_number(w, "factor", factor);
    PARE_TRY(put_original(cx, name, g, f, w));
    if (attention != 1)
        pare_json_put_number(w, "attention_factor", attention * pare__gguf_yarn_attention(factor));
    pare_json_close(w);
    return PARE_OK;
}

/* The shortest decimal numbers that are the same floats, as people wrote them. */
static pare_status put_divisors(pare_ctx *cx, const char *name, const pare_gguf_tensor *d,
                                const char *word, pare_json_writer *w)
{
    const pare_gguf_value v = {.kind = PARE_GGUF_F32, .count = d->elements, .data = d->data};
    double x;
    if (strcmp(d->type->name, "F32") != 0 || d->elements > PARE_ROPE_DIVISORS_MAX)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: tensor %s of %llu values of %s is not supported (up to %d of F32 "
                         "are)",
                         name, d->name, (unsigned long long)d->elements, d->type->name,
                         PARE_ROPE_DIVISORS_MAX);
    pare_json_open_array(w, word);
    for (uint64_t i = 0; pare_gguf_number(&v, i, &x); i++) {
        if (!(x > 0) || !isfinite(x))
            return pare_fail(cx, PARE_EFORMAT, "%s: tensor %s: value %llu is not a number above 0",
                             name, d->name, (unsigned long long)i);
        pare_json_put_number(w, NULL, pare__gguf_shortest(x));
    }
    pare_json_close(w);
    return PARE_OK;
}

static pare_status put_longrope(pare_ctx *cx, const char *name, const pare_gguf *g,
                                const pare__gguf_family *f, pare_json_writer *w)
{
    static const char *const words[2] = {"short_factor", "long_factor"};
    double factor, attention;
    const pare_gguf_tensor *d[2];
    for (size_t i = 0; i < 2; i++) {
        d[i] = pare_gguf_tensor_find(g, pare__gguf_factors[i]);
        if (!(f->how & PARE__GGUF_FACTORS) || !d[i])
            return pare_fail(cx, PARE_ENOTSUP, "%s: longrope is not supported in files of %s %s",
                             name, f->arch,
                             d[i] || !(f->how & PARE__GGUF_FACTORS)
                                 ? "(in those of llama and phi3 it is)"
                                 : "without the tensors rope_factors_short.weight and "
                                   "rope_factors_long.weight");
    }
    PARE_TRY(read_factor(cx, name, g, f, &factor));
    PARE_TRY(read_number(cx, name, g, f, attention_key, 1, &attention));
    if (factor != 1 || has_type(g, f, "yarn"))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: tensor %s and a rope.scaling.%s together are not supported", name,
                         d[0]->name, factor != 1 ? "factor" : "type of yarn");
    PARE_TRY(put_original(cx, name, g, f, w)); /* where Phi-3 has it */
    pare_json_open_object(w, "rope_scaling");
    pare_json_put_text(w, "rope_type", "longrope");
    for (size_t i = 0; i < 2; i++)
        PARE_TRY(put_divisors(cx, name, d[i], words[i], w));
    PARE_TRY(put_original(cx, name, g, f, w));
    pare_json_put_number(w, "attention_factor", attention);
    pare_json_close(w);
    return PARE_OK;
}

pare_status pare__gguf_scaling(pare_ctx *cx, const char *name, const pare_gguf *g,
                               const pare__gguf_family *f, pare_json_writer *w, bool *is)
{
    const pare_rope_kind kind = pare__gguf_scaling_kind(g, f);
    *is = kind != PARE_ROPE_LINEAR;
    if (!*is)
        return PARE_OK;
    if (pare_gguf_tensor_find(g, "rope_freqs.weight"))
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s: tensor rope_freqs.weight and %s together are not supported", name,
                         kind == PARE_ROPE_YARN ? "yarn" : "longrope");
    return kind == PARE_ROPE_YARN ? put_yarn(cx, name, g, f, w) : put_longrope(cx, name, g, f, w);
}
