/* Rotary positions as config.json has them: rope_theta and what stretches or bends it.
 *
 * Source  transformers, modeling_rope_utils.py. */
#include <string.h>

#include "formats/config_internal.h"

/* One of the two objects in which files keep the description: its key and its value. */
typedef struct object {
    const pare__config_file *f;
    const char *key;
    const pare_json *v;
} object;

/* An object without a type may say what holds for all of them, and nothing that a type would be
 * needed for. */
static pare_status check_untyped(const object *o)
{
    static const char *const common[] = {"rope_theta", "partial_rotary_factor",
                                         "original_max_position_embeddings", "rope_type", "type"};
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(o->v, &it, &key, &value);) {
        size_t i = 0;
        while (i < sizeof common / sizeof *common && strcmp(key, common[i]) != 0)
            i++;
        if (i == sizeof common / sizeof *common && !pare__config_absent(value))
            return pare_fail(o->f->cx, PARE_EFORMAT,
                             "%s: %s: %.64s is there, but rope_type is missing; nothing says what "
                             "it is for",
                             o->f->name, o->key, key);
    }
    return PARE_OK;
}

/* *type is NULL where the object names none. */
static pare_status read_type(const object *o, const char **type)
{
    const pare_json *const newer = pare_json_get(o->v, "rope_type");
    const pare_json *const older = pare_json_get(o->v, "type");
    const bool has_newer = !pare__config_absent(newer), has_older = !pare__config_absent(older);
    const char *const one = pare_json_text(has_newer ? newer : older, NULL);
    const char *const other = pare_json_text(older, NULL);
    *type = one;
    if (!one && (has_newer || has_older))
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: rope_type is not a text", o->f->name,
                         o->key);
    if (one && other && strcmp(one, other) != 0)
        return pare_fail(o->f->cx, PARE_EFORMAT, "%s: %s: rope_type is %.64s, but type is %.64s",
                         o->f->name, o->key, one, other);
    return PARE_OK;
}

static pare_status read_object(const pare__config_file *f, const char *key, const pare_config *c,
                               pare_rope *r)
{
    const object o = {f, key, pare_json_get(f->json, key)};
    const char *type;
    if (pare__config_absent(o.v))
        return PARE_OK;
    if (pare_json_type_of(o.v) != PARE_JSON_OBJECT)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not an object", f->name, key);
    PARE_TRY(pare__config_positive(f, o.v, "rope_theta", &r->theta));
    PARE_TRY(read_type(&o, &type));
    return type ? pare__config_scaling(f, key, type, c, r) : check_untyped(&o);
}

static bool same_scaling(const pare_rope *a, const pare_rope *b)
{
    return a->kind == b->kind && a->stretch == b->stretch && a->factor == b->factor &&
           a->low_freq_factor == b->low_freq_factor && a->high_freq_factor == b->high_freq_factor &&
           a->original_context == b->original_context && a->beta_fast == b->beta_fast &&
           a->beta_slow == b->beta_slow && a->exact_bounds == b->exact_bounds &&
           a->attention == b->attention && a->scores == b->scores &&
           memcmp(a->divisor, b->divisor, sizeof a->divisor) == 0;
}

pare_status pare__config_all_turn(const pare__config_file *f, const pare_config *c, double share)
{
    if (share != 1)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: partial_rotary_factor %g is not supported in models of type %s (1 "
                         "is)",
                         f->name, share, c->arch->model_type);
    return PARE_OK;
}

/* Files of GPT-NeoX, and no others, call rope_theta rotary_emb_base and partial_rotary_factor
 * rotary_pct; there these words win. */
static bool has_older_words(const pare_config *c)
{
    return strcmp(c->arch->model_type, "gpt_neox") == 0;
}

/* The share of the channels of a head that turn stands at the top or, in newer files, inside
 * rope_parameters. */
static pare_status read_rotary(const pare__config_file *f, const pare_config *c, size_t *rotary)
{
    const double usual = c->arch->rotary_share;
    const bool null =
        pare_json_type_of(pare_json_get(f->json, "partial_rotary_factor")) == PARE_JSON_NULL;
    double share = null && usual < 1 && !has_older_words(c) ? 0 : usual;
    PARE_TRY(pare__config_positive(f, f->json, "partial_rotary_factor", &share));
    if (has_older_words(c))
        PARE_TRY(pare__config_positive(f, f->json, "rotary_pct", &share));
    PARE_TRY(pare__config_positive(f, pare_json_get(f->json, "rope_scaling"),
                                   "partial_rotary_factor", &share));
    PARE_TRY(pare__config_positive(f, pare_json_get(f->json, "rope_parameters"),
                                   "partial_rotary_factor", &share));
    if (share == 0)
        return pare_fail(f->cx, PARE_EFORMAT,
                         "%s: partial_rotary_factor is null, which transformers reads as 1, and "
                         "not as the usual %g of models of type %s: give the number",
                         f->name, usual, c->arch->model_type);
    if (!c->arch->turns_part) /* transformers turns all of these, whatever is said */
        PARE_TRY(pare__config_all_turn(f, c, share));
    const double channels = share * (double)c->head_dim;
    *rotary = channels >= 1 && channels <= (double)c->head_dim ? (size_t)channels : 0;
    if (*rotary == 0 || *rotary % 2 != 0)
        return pare_fail(
            f->cx, PARE_ENOTSUP,
            "%s: rotary positions of %g times %zu channels: an even number from 2 to all "
            "of them is supported",
            f->name, share, c->head_dim);
    return PARE_OK;
}

/* The base of one kind of block: in newer files inside its object, in older ones at the top. */
static pare_status read_kind(const pare__config_file *f, const pare__config_file *kinds,
                             const pare_config *c, const char *kind, const char *base, pare_rope *r)
{
    double top = r->theta, share = 1;
    PARE_TRY(pare__config_positive(f, f->json, base, &top));
    PARE_TRY(pare__config_positive(f, f->json, "partial_rotary_factor", &share));
    PARE_TRY(pare__config_positive(f, pare_json_get(kinds->json, kind), "partial_rotary_factor",
                                   &share));
    PARE_TRY(pare__config_all_turn(f, c, share));
    r->theta = top;
    PARE_TRY(read_object(kinds, kind, c, r));
    if (!pare__config_absent(pare_json_get(f->json, base)) && r->theta != top)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is %g, and rope_theta of %s is %g", f->name,
                         base, top, kind, r->theta);
    return PARE_OK;
}

/* Families whose blocks with a window turn unscaled, by a base of their own: an object for each
 * kind of block, or the words of the bases with a rope_scaling that blocks with a window do not
 * have. */
static pare_status read_kinds(const pare__config_file *f, pare_config *c)
{
    static const char newer[] = "rope_parameters", older[] = "rope_scaling";
    static const char all[] = "full_attention", local[] = "sliding_attention";
    const pare_json *const both = pare_json_get(f->json, newer);
    const pare__config_file kinds = {f->cx, f->name, both};
    const char *key;
    const pare_json *value;
    if (!pare__config_absent(both) && pare_json_type_of(both) != PARE_JSON_OBJECT)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not an object", f->name, newer);
    for (pare_json_iter it = {0}; pare_json_next(both, &it, &key, &value);)
        if (strcmp(key, all) != 0 && strcmp(key, local) != 0)
            return pare_fail(f->cx, PARE_EFORMAT,
                             "%s: %s: %.64s is neither %s nor %s, the kinds of blocks of models of "
                             "type %s",
                             f->name, newer, key, all, local, c->arch->model_type);
    c->rope = (pare_rope){.theta = c->arch->rope_theta};
    c->rope_local = (pare_rope){.theta = c->arch->rope_theta_local};
    PARE_TRY(read_kind(f, &kinds, c, all, "rope_theta", &c->rope));
    PARE_TRY(read_kind(f, &kinds, c, local, c->arch->rope_word_local, &c->rope_local));
    if (pare_rope_by_length(&c->rope_local)) /* their table is the same for all lengths */
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: %s of %s: a rope_type that goes by the length of the sequence is "
                         "not supported in blocks with a window",
                         f->name, newer, local);
    pare_rope scaled = {.theta = c->rope.theta};
    PARE_TRY(read_object(f, older, c, &scaled));
    const bool has_older = pare_json_count(pare_json_get(f->json, older)) > 0;
    const bool has_newer = !pare__config_absent(pare_json_get(both, all));
    if (has_older &&
        (scaled.theta != c->rope.theta || (has_newer && !same_scaling(&scaled, &c->rope))))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s and %s of %s contradict each other", f->name,
                         older, newer, all);
    if (has_older)
        c->rope = scaled;
    return PARE_OK;
}

/* no_rope_layers has 1, or true, for a block that turns and 0, or false, for one that does not. */
static pare_status read_unturned_list(const pare__config_file *f, const pare_json *list,
                                      pare_config *c)
{
    static const char key[] = "no_rope_layers";
    if (pare_json_type_of(list) != PARE_JSON_ARRAY)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a list", f->name, key);
    if (pare_json_count(list) != c->blocks)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s has %zu item%s for %zu block%s (%s)", f->name,
                         key, pare_json_count(list), pare_plural(pare_json_count(list)), c->blocks,
                         pare_plural(c->blocks), c->arch->words->blocks);
    for (size_t i = 0; i < c->blocks; i++) {
        const pare_json *const v = pare_json_at(list, i);
        const int64_t turns = pare_json_type_of(v) == PARE_JSON_BOOL ? pare_json_bool(v, false)
                                                                     : pare_json_integer(v, -1);
        if (turns != 0 && turns != 1)
            return pare_fail(f->cx, PARE_EFORMAT, "%s: %s: item %zu is neither 0 nor 1", f->name,
                             key, i);
        if (!turns)
            pare_blocks_add(c->unturned, i);
    }
    return PARE_OK;
}

/* Blocks that do not turn: rope_local has no angles for them. */
static pare_status read_unturned(const pare__config_file *f, pare_config *c)
{
    static const char key[] = "no_rope_layer_interval";
    const pare_json *const list = pare_json_get(f->json, "no_rope_layers");
    const pare_json *const given = pare_json_get(f->json, key);
    const int64_t period = pare__config_absent(given) ? (int64_t)c->arch->unturned_period
                                                      : pare_json_integer(given, -1);
    /* In Llama 4 an empty list is none. */
    const bool listed = !pare__config_absent(list) &&
                        !(c->arch->window == PARE_WINDOW_CHUNKS &&
                          pare_json_type_of(list) == PARE_JSON_ARRAY && pare_json_count(list) == 0);
    bool some = false;
    if (!listed && period < 1)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s is not a whole number from 1 on", f->name,
                         key);
    if (listed)
        PARE_TRY(read_unturned_list(f, list, c));
    for (size_t i = 0; i < c->blocks; i++) {
        if (!listed && (int64_t)(i + 1) % period == 0)
            pare_blocks_add(c->unturned, i);
        some |= pare_blocks_have(c->unturned, i);
    }
    if (some)
        c->rope_local = (pare_rope){.theta = 1, .kind = PARE_ROPE_NONE};
    return PARE_OK;
}

/* rope_theta stands at the top or, in newer files, inside rope_parameters. */
pare_status pare__config_rope(const pare__config_file *f, pare_config *c)
{
    static const char newer[] = "rope_parameters", older[] = "rope_scaling";
    pare_rope top = {.theta = c->arch->rope_theta}, scaling, parameters;
    if (c->arch->positions)
        return PARE_OK;
    if (c->arch->rope_theta_local > 0)
        return read_kinds(f, c);
    if (c->arch->rope_given)
        PARE_TRY(pare__config_needs_scaling(f));
    PARE_TRY(pare__config_positive(f, f->json, "rope_theta", &top.theta));
    if (has_older_words(c))
        PARE_TRY(pare__config_positive(f, f->json, "rotary_emb_base", &top.theta));
    if (c->arch->latent_eps > 0)
        top.rotary = c->rope.rotary;
    else
        PARE_TRY(read_rotary(f, c, &top.rotary));
    scaling = parameters = top;
    PARE_TRY(read_object(f, older, c, &scaling));
    PARE_TRY(read_object(f, newer, c, &parameters));
    const bool has_older = pare_json_count(pare_json_get(f->json, older)) > 0;
    const bool has_newer = pare_json_count(pare_json_get(f->json, newer)) > 0;
    if (has_older && has_newer &&
        (!same_scaling(&scaling, &parameters) || scaling.theta != parameters.theta))
        return pare_fail(f->cx, PARE_EFORMAT, "%s: %s and %s contradict each other", f->name, older,
                         newer);
    c->rope = has_newer ? parameters : scaling;
    if (!pare__config_absent(pare_json_get(f->json, "rope_theta")) && c->rope.theta != top.theta)
        return pare_fail(f->cx, PARE_EFORMAT, "%s: rope_theta is given twice, %g and %g", f->name,
                         top.theta, c->rope.theta);
    if (c->arch->latent_eps > 0)
        return pare__config_latent_scale(f, c);
    return c->arch->unturned_period ? read_unturned(f, c) : PARE_OK;
}
