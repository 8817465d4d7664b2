/* What stretches or bends rotary positions, by its type: the settings of each in config.json.
 *
 * Source  transformers, modeling_rope_utils.py: the keys that each type needs, and what stands for
 *         those that are missing. */
#include <math.h>
#include <string.h>

#include "formats/config_internal.h"

/* The object in which a file keeps the description: its key and its value. */
typedef struct object {
    const pare__config_file *f;
    const char *key, *type;
    const pare_json *v;
} object;

/* A number above 0 without which the type means nothing. */
static pare_status read_needed(const object *o, const char *key, double *out)
{
    if (pare__config_absent(pare_json_get(o->v, key)))
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: rope_type %s needs %s, which is missing",
                         o->f->name, o->key, o->type, key);
    return pare__config_positive(o->f, o->v, key, out);
}

/* The positions that a model was trained on first: at the top, else in the object, else those that
 * it has. */
static pare_status read_original(const object *o, const pare_config *c, size_t *out)
{
    static const char word[] = "original_max_position_embeddings";
    const pare_json *const top = pare_json_get(o->f->json, word);
    const pare_json *const v = pare__config_absent(top) ? pare_json_get(o->v, word) : top;
    const double x = pare__config_absent(v) ? (double)c->context : pare_json_number(v, -1);
    if (!(x >= 1 && x <= PARE__CONFIG_SIZE_MAX) || x != trunc(x))
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: %s is not a whole number from 1 to %d",
                         o->f->name, o->key, word, PARE__CONFIG_SIZE_MAX);
    *out = (size_t)x;
    return PARE_OK;
}

static pare_status read_linear(const object *o, const pare_config *c, pare_rope *r)
{
    (void)c;
    return read_needed(o, "factor", &r->stretch);
}

static pare_status read_llama3(const object *o, const pare_config *c, pare_rope *r)
{
    PARE_TRY(read_needed(o, "factor", &r->factor));
    PARE_TRY(read_needed(o, "low_freq_factor", &r->low_freq_factor));
    PARE_TRY(read_needed(o, "high_freq_factor", &r->high_freq_factor));
    PARE_TRY(read_original(o, c, &r->original_context));
    if (r->factor < 1 || r->high_freq_factor < r->low_freq_factor)
        return pare_fail(o->f->cx, PARE_EFORMAT,
                         "%s: %s: llama3 needs factor >= 1 and low_freq_factor <= high_freq_factor",
                         o->f->name, o->key);
    return PARE_OK;
}

/* Sequences longer than the context of the model turn slower, the longer they are. */
static pare_status read_dynamic(const object *o, const pare_config *c, pare_rope *r)
{
    PARE_TRY(read_needed(o, "factor", &r->factor));
    r->original_context = c->context;
    if (r->factor < 1)
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: dynamic needs factor >= 1", o->f->name,
                         o->key);
    return PARE_OK;
}

/* attention_factor, else what stands for it, in F32 as transformers multiplies. */
static pare_status read_attention(const object *o, double usual, pare_rope *r)
{
    PARE_TRY(pare__config_positive(o->f, o->v, "attention_factor", &usual));
    r->attention = (double)(float)usual;
    if (!(r->attention > 0) || !isfinite(r->attention))
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: attention_factor %g does not fit F32",
                         o->f->name, o->key, usual);
    return PARE_OK;
}

/* m(s) = 1 + s ln(factor) / 10 */
static double entropy_scale(double factor, double s)
{
    return factor <= 1 ? 1 : 1 + 0.1 * s * log(factor);
}

/* m(mscale) / m(mscale_all_dim) with both of them, else m(1). */
static pare_status read_yarn_attention(const object *o, pare_rope *r)
{
    static const char *const keys[] = {"mscale", "mscale_all_dim"};
    double scale[2] = {0, 0};
    for (size_t i = 0; i < 2; i++) {
        const pare_json *const v = pare_json_get(o->v, keys[i]);
        scale[i] = pare__config_absent(v) ? 0 : pare_json_number(v, -1);
        if (!(scale[i] >= 0) || !isfinite(scale[i]))
            return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: %s is not a number of at least 0",
                             o->f->name, o->key, keys[i]);
    }
    r->scores = entropy_scale(r->factor, scale[1]);
    const double both = entropy_scale(r->factor, scale[0]) / entropy_scale(r->factor, scale[1]);
    return read_attention(o, scale[0] > 0 && scale[1] > 0 ? both : entropy_scale(r->factor, 1), r);
}

static pare_status read_yarn(const object *o, const pare_config *c, pare_rope *r)
{
    const pare_json *const truncate = pare_json_get(o->v, "truncate");
    const pare_json_type is = pare_json_type_of(truncate);
    r->beta_fast = 32;
    r->beta_slow = 1;
    PARE_TRY(read_needed(o, "factor", &r->factor));
    PARE_TRY(read_original(o, c, &r->original_context));
    PARE_TRY(pare__config_positive(o->f, o->v, "beta_fast", &r->beta_fast));
    PARE_TRY(pare__config_positive(o->f, o->v, "beta_slow", &r->beta_slow));
    if (is != PARE_JSON_ABSENT && is != PARE_JSON_BOOL)
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: truncate is not true or false",
                         o->f->name, o->key);
    r->exact_bounds = !pare_json_bool(truncate, true);
    if (r->factor < 1 || r->beta_fast < r->beta_slow || r->theta <= 1)
        return pare_fail(o->f->cx, PARE_EFORMAT,
                         "%s: %s: yarn needs factor >= 1, beta_fast >= beta_slow and rope_theta "
                         "> 1",
                         o->f->name, o->key);
    return read_yarn_attention(o, r);
}

/* A number above 0 for each pair of channels that turn. */
static pare_status read_divisors(const object *o, const char *key, size_t pairs, float *out)
{
    const pare_json *const v = pare_json_get(o->v, key);
    if (pare_json_type_of(v) != PARE_JSON_ARRAY || pare_json_count(v) != pairs)
        return pare_fail(o->f->cx, PARE_EFORMAT,
                         "%s: %s: %s is not a list of %zu number%s, one for each pair of channels "
                         "that turns",
                         o->f->name, o->key, key, pairs, pare_plural(pairs));
    for (size_t i = 0; i < pairs; i++) {
        out[i] = (float)pare_json_number(pare_json_at(v, i), -1);
        if (!(out[i] > 0) || !isfinite(out[i]))
            return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: %s: item %zu is not a number above 0",
                             o->f->name, o->key, key, i);
    }
    return PARE_OK;
}

static pare_status read_longrope(const object *o, const pare_config *c, pare_rope *r)
{
    const size_t turned = r->rotary ? r->rotary : c->head_dim, pairs = turned / 2;
    if (pairs > PARE_ROPE_DIVISORS_MAX)
        return pare_fail(o->f->cx, PARE_ENOTSUP,
                         "%s: %s: longrope with %zu channels of a head that turn is not supported "
                         "(up to %d are)",
                         o->f->name, o->key, turned, 2 * PARE_ROPE_DIVISORS_MAX);
    PARE_TRY(read_divisors(o, "short_factor", pairs, r->divisor[0]));
    PARE_TRY(read_divisors(o, "long_factor", pairs, r->divisor[1]));
    PARE_TRY(read_original(o, c, &r->original_context));
    r->factor = (double)c->context / (double)r->original_context;
    PARE_TRY(pare__config_positive(o->f, o->v, "factor", &r->factor));
    const double original = log((double)r->original_context);
    return read_attention(
        o, r->factor > 1 && original > 0 ? sqrt(1 + log(r->factor) / original) : 1, r);
}

pare_status pare__config_scaling(const pare__config_file *f, const char *key, const char *type,
                                 const pare_config *c, pare_rope *r)
{
    static const struct {
        const char *type;
        pare_rope_kind kind;
        pare_status (*read)(const object *o, const pare_config *c, pare_rope *r);
    } known[] = {{"linear", PARE_ROPE_LINEAR, read_linear},
                 {"llama3", PARE_ROPE_LLAMA3, read_llama3},
                 {"dynamic", PARE_ROPE_DYNAMIC, read_dynamic},
                 {"yarn", PARE_ROPE_YARN, read_yarn},
                 {"longrope", PARE_ROPE_LONGROPE, read_longrope}};
    const bool phi3 = strcmp(c->arch->model_type, "phi3") == 0;
    if (phi3 && (strcmp(type, "su") == 0 || strcmp(type, "yarn") == 0))
        type = "longrope"; /* its older names there */
    const object o = {f, key, type, pare_json_get(f->json, key)};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i].type) == 0) {
            r->kind = known[i].kind;
            return known[i].read(&o, c, r);
        }
    if (strcmp(type, "default") == 0)
        return PARE_OK;
    return pare_fail(f->cx, PARE_ENOTSUP,
                     "%s: %s of type %.64s is not supported (default, linear, llama3, dynamic, "
                     "yarn and longrope are)",
                     f->name, key, type);
}

/* As transformers: it warns and computes. */
void pare__config_scaling_warn(const pare__config_file *f, const pare_config *c)
{
    const pare_rope *const r = &c->rope;
    const pare_json *const older = pare_json_get(f->json, "rope_scaling");
    const char *const type = pare_json_text(pare_json_get(older, "type"), NULL);
    if (c->arch->rope_theta_local > 0 && type && strcmp(type, "default") != 0 &&
        pare__config_absent(pare_json_get(older, "rope_type")))
        pare_warn(f->cx,
                  "%s: rope_scaling: pare reads type as rope_type; transformers 5 does not look at "
                  "it in models of type %s, and does not scale their positions: name it rope_type",
                  f->name, c->arch->model_type);
    if (r->kind == PARE_ROPE_LINEAR && r->stretch > 0 && r->stretch < 1)
        pare_warn(f->cx,
                  "%s: linear scaling by a factor of %g moves positions apart, where 1 or more "
                  "brings them together; it is computed as it stands, as in transformers",
                  f->name, r->stretch);
    if (r->kind != PARE_ROPE_LINEAR && r->original_context > c->context)
        pare_warn(
            f->cx,
            "%s: original_max_position_embeddings %zu is above max_position_embeddings %zu; pare "
            "applies factor %g all the same, as transformers does",
            f->name, r->original_context, c->context, r->factor);
}
