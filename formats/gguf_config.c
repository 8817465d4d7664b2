/* The metadata of a GGUF file in the words of config.json. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "formats/config_internal.h"
#include "formats/gguf_internal.h"

/* The file being read and the document being written. */
typedef struct translation {
    pare_ctx *cx;
    const char *name;
    const pare_gguf *g;
    const pare__gguf_family *family;
    pare_json_writer *w;
    int64_t heads, hidden, blocks;
    pare__gguf_shape shape;
} translation;

static const pare_gguf_value *find(const pare_gguf *g, const char *key)
{
    char full[256];
    const char *arch;
    size_t len;
    if (!pare_gguf_text(pare_gguf_find(g, "general.architecture"), &arch, &len) || len > 100)
        return NULL;
    (void)snprintf(full, sizeof full, "%.*s.%s", (int)len, arch, key);
    return pare_gguf_find(g, full);
}

/* One number, or a list of the same one for each block. */
bool pare__gguf_integer(const pare_gguf *g, const char *key, int64_t *out)
{
    const pare_gguf_value *const v = find(g, key);
    int64_t first, other;
    if (!pare_gguf_integer(v, 0, &first))
        return false;
    for (uint64_t i = 1; i < v->count; i++) {
        if (!pare_gguf_integer(v, i, &other) || other != first)
            return false;
    }
    *out = first;
    return true;
}

double pare__gguf_shortest(double x)
{
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        (void)snprintf(text, sizeof text, "%.*g", digits, x);
        char *end = text;
        const double y = strtod(text, &end);
        if (*end == '\0' && (float)y == (float)x)
            return y;
    }
    return x;
}

bool pare__gguf_number(const pare_gguf *g, const char *key, double *out)
{
    const pare_gguf_value *const v = find(g, key);
    double x;
    if (!v || v->array || !pare_gguf_number(v, 0, &x) || !isfinite(x))
        return false;
    *out = v->kind == PARE_GGUF_F32 ? pare__gguf_shortest(x) : x;
    return true;
}

static pare_status wrong(const translation *t, const char *key)
{
    return pare_fail(t->cx, PARE_EFORMAT, "%s: %s.%s is missing, or not one number for all blocks",
                     t->name, t->family->arch, key);
}

/* Whether a number may be a list with one for each block. */
static bool is_list(const translation *t, const pare__gguf_word *w)
{
    return t->family->how & PARE__GGUF_UNEVEN && strcmp(w->key, "feed_forward_length") == 0;
}

/* Its length is checked where config.json is read. */
static pare_status put_list(const translation *t, const pare__gguf_word *w)
{
    const pare_gguf_value *const v = find(t->g, w->key);
    bool good = v && v->array && v->count <= PARE_BLOCKS_MAX;
    pare_json_open_array(t->w, w->word);
    for (uint64_t i = 0; good && i < v->count; i++) {
        int64_t x = 0;
        good = pare_gguf_integer(v, i, &x) && x > 0;
        pare_json_put_integer(t->w, NULL, x);
    }
    pare_json_close(t->w);
    return good ? PARE_OK
                : pare_fail(t->cx, PARE_EFORMAT,
                            "%s: %s.%s is missing, or not a number above 0 for each block", t->name,
                            t->family->arch, w->key);
}

static pare_status put_words(const translation *t)
{
    for (const pare__gguf_word *w = t->family->words; w->key; w++) {
        int64_t whole;
        double real;
        if (!w->needed && !find(t->g, w->key))
            continue;
        if (w->sort == PARE__GGUF_REAL && pare__gguf_number(t->g, w->key, &real))
            pare_json_put_number(t->w, w->word, real);
        else if (w->sort == PARE__GGUF_WHOLE && pare__gguf_integer(t->g, w->key, &whole))
            pare_json_put_integer(t->w, w->word, whole);
        else if (w->sort == PARE__GGUF_FLAG && pare__gguf_integer(t->g, w->key, &whole))
            pare_json_put_bool(t->w, w->word, whole != 0);
        else if (is_list(t, w))
            PARE_TRY(put_list(t, w));
        else
            return wrong(t, w->key);
    }
    return PARE_OK;
}

/* The width of a head, and the share of it that turns. */
static pare_status put_heads(const translation *t)
{
    int64_t width = t->heads > 0 ? t->hidden / t->heads : 0, value = 0, turned = 0;
    const bool given = pare__gguf_integer(t->g, "attention.key_length", &width);
    if (given)
        pare_json_put_integer(t->w, "head_dim", width);
    if (pare__gguf_integer(t->g, "attention.value_length", &value) && value != width)
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: heads of %lld with values of %lld are not supported", t->name,
                         (long long)width, (long long)value);
    if (!(t->family->how & PARE__GGUF_ROTARY))
        return PARE_OK;
    if (pare__gguf_integer(t->g, "rope.dimension_count", &turned) && turned != width && width > 0)
        pare_json_put_number(
            t->w, t->family->rotary_word ? t->family->rotary_word : "partial_rotary_factor",
            (double)turned / (double)width);
    else if (t->family->rotary_word)
        pare_json_put_number(t->w, t->family->rotary_word, 1);
    const bool second = strcmp(t->family->model_type, "gemma2") == 0;
    if (second || t->family->how & PARE__GGUF_LOCAL) { /* the widest model alone differs */
        const bool widest = t->blocks == (second ? 46 : 62) && t->heads > 0;
        pare_json_put_number(t->w, "query_pre_attn_scalar",
                             widest ? (double)t->hidden / (double)t->heads : (double)width);
    }
    return PARE_OK;
}

/* Which blocks have the window, where the file says it: a period whose last block has none, 6 where
 * nothing is said, 0 for a window in all; or a list. */
static pare_status put_pattern(const translation *t)
{
    static const char key[] = "attention.sliding_window_pattern";
    const pare_gguf_value *const v = find(t->g, key);
    int64_t period = 6, is = 0;
    if (!(t->family->how & PARE__GGUF_LOCAL))
        return PARE_OK;
    if (!t->shape.window) {
        if (!find(t->g, "attention.sliding_window"))
            pare_json_put_null(t->w, "sliding_window");
        pare_json_put_integer(t->w, "sliding_window_pattern", 1);
        return PARE_OK;
    }
    if (v && (v->array ? v->count < (uint64_t)t->shape.blocks
                       : !pare_gguf_integer(v, 0, &period) || period < 0))
        return wrong(t, key);
    if (period > 0 && !(v && v->array)) {
        pare_json_put_integer(t->w, "sliding_window_pattern", period);
        return PARE_OK;
    }
    pare_json_open_array(t->w, "layer_types");
    for (int64_t i = 0; i < t->shape.blocks; i++) {
        if (v->array && !pare_gguf_integer(v, (uint64_t)i, &is))
            return wrong(t, key);
        pare_json_put_text(t->w, NULL, !v->array || is ? "sliding_attention" : "full_attention");
    }
    pare_json_close(t->w);
    return PARE_OK;
}

/* The scaling of Llama 3 with the usual bounds 1 and 4, as the divisor of a frequency. */
static double llama3_divisor(double theta, double share, double factor, double original)
{
    const double wave = 2 * 3.14159265358979323846 * pow(theta, share);
    if (wave < original / 4)
        return 1;
    if (wave > original)
        return factor;
    const double smooth = (original / wave - 1) / (4 - 1);
    return 1 / ((1 - smooth) / factor + smooth);
}

static void put_llama3(const translation *t, const pare_rope *r)
{
    pare_json_open_object(t->w, "rope_scaling");
    pare_json_put_text(t->w, "rope_type", "llama3");
    pare_json_put_number(t->w, "factor", r->factor);
    pare_json_put_number(t->w, "low_freq_factor", r->low_freq_factor);
    pare_json_put_number(t->w, "high_freq_factor", r->high_freq_factor);
    pare_json_put_integer(t->w, "original_max_position_embeddings", (int64_t)r->original_context);
    pare_json_close(t->w);
}

static void put_linear(const translation *t, double factor)
{
    if (factor == 1)
        return;
    pare_json_open_object(t->w, "rope_scaling");
    pare_json_put_text(t->w, "rope_type", "linear");
    pare_json_put_number(t->w, "factor", factor);
    pare_json_close(t->w);
}

static double four_digits(double x)
{
    char text[32];
    (void)snprintf(text, sizeof text, "%.4g", x);
    return strtod(text, NULL);
}

/* The divisors of n pairs and what they say: pair i turns theta^(-i / n) / 2 pi times in a
 * position, and `kept` of its frequency is kept, of which the scaling leaves 1 / factor. */
typedef struct scaling {
    pare_gguf_value v;
    double theta, factor;
} scaling;

static double turns_of(const scaling *d, uint64_t i)
{
    return pow(d->theta, -(double)i / (double)d->v.count) / (2 * 3.14159265358979323846);
}

static double kept_of(const scaling *d, uint64_t i)
{
    double x = 1;
    (void)pare_gguf_number(&d->v, i, &x);
    return (1 / x - 1 / d->factor) / (1 - 1 / d->factor);
}

/* kept = slope turns - offset, between 0 and 1. The first pairs turn most and are kept whole, the
 * last ones are not kept at all; the line goes through the pairs between those. Where there is one
 * such pair, or none, any line that leaves its neighbours at 1 and 0 says the same. */
static void fit_line(const scaling *d, double *slope, double *offset)
{
    const double near = 1e-6;
    uint64_t all = 0, none = d->v.count;
    while (all < none && kept_of(d, all) > 1 - near)
        all++;
    while (none > all && kept_of(d, none - 1) < near)
        none--;
    const uint64_t first = all < none ? all : all - (all > 0), last = all < none ? none - 1 : none;
    const double kept = kept_of(d, first), turns = turns_of(d, first);
    *slope = last > first && last < d->v.count
                 ? (kept - kept_of(d, last)) / (turns - turns_of(d, last))
                 : 0;
    if (first == last && all > 0 && all < d->v.count)
        *slope = (1 - kept) / (turns_of(d, all - 1) - turns);
    if (first == last && none < d->v.count)
        *slope = fmax(*slope, kept / (turns - turns_of(d, none)));
    *offset = *slope * turns - kept;
}

static bool has_divisors(const scaling *d, const pare_rope *r)
{
    const size_t n = (size_t)d->v.count;
    double x;
    for (size_t i = 0; i < n; i++) {
        const double is = pare_rope_frequency(r, i, n, 0);
        const double plain = turns_of(d, i) * 2 * 3.14159265358979323846;
        if (!pare_gguf_number(&d->v, i, &x) || !(fabs(plain / x - is) <= 1e-6 * is))
            return false;
    }
    return n > 0;
}

/* The scaling of Llama 3 with other bounds than the usual ones. What is kept of a frequency grows
 * with the turns in original_max_position_embeddings positions, from low_freq_factor to
 * high_freq_factor: one of the three can be chosen. The bounds come to lie 3 apart, as usual. */
static bool fit(const scaling *d, pare_rope *out)
{
    double slope = 0, offset = 0;
    if (d->factor > 1)
        fit_line(d, &slope, &offset);
    if (!(slope > 0 && offset > 0 && 3 * slope < 1 << 24))
        return false;
    *out = (pare_rope){.theta = d->theta, .kind = PARE_ROPE_LLAMA3, .factor = d->factor};
    out->original_context = 3 * slope < 1 ? 1 : (size_t)(3 * slope + 0.5);
    const double span = (double)out->original_context / slope;
    out->low_freq_factor = four_digits(offset * span);
    out->high_freq_factor = four_digits((offset + 1) * span);
    if (has_divisors(d, out)) /* as people wrote them */
        return true;
    out->low_freq_factor = offset * span;
    out->high_freq_factor = (offset + 1) * span;
    return has_divisors(d, out);
}

/* Divisors of frequencies stand in a tensor. Those of Llama 3 are told by computing them again. */
static pare_status put_divisors(const translation *t, const pare_gguf_tensor *d, double theta)
{
    static const double originals[] = {8192, 4096, 2048, 16384, 32768, 65536, 131072};
    const pare_gguf_value v = {.kind = PARE_GGUF_F32, .count = d->elements, .data = d->data};
    double factor = 0, x;
    if (strcmp(d->type->name, "F32") != 0)
        return pare_fail(t->cx, PARE_ENOTSUP, "%s: tensor %s of %s is not supported (F32 is)",
                         t->name, d->name, d->type->name);
    for (uint64_t i = 0; pare_gguf_number(&v, i, &x); i++)
        factor = x > factor ? x : factor;
    factor = pare__gguf_shortest(factor);
    for (size_t o = 0; o < sizeof originals / sizeof *originals; o++) {
        uint64_t same = 0;
        while (pare_gguf_number(&v, same, &x) &&
               fabs(x - llama3_divisor(theta, (double)same / (double)d->elements, factor,
                                       originals[o])) <= 1e-4 * x)
            same++;
        if (same < d->elements)
            continue;
        put_llama3(t, &(pare_rope){.factor = factor,
                                   .low_freq_factor = 1,
                                   .high_freq_factor = 4,
                                   .original_context = (size_t)originals[o]});
        return PARE_OK;
    }
    const scaling all = {.v = v, .theta = theta, .factor = factor};
    pare_rope fitted;
    if (has_divisors(&all, &(pare_rope){.theta = theta, .stretch = factor})) {
        put_linear(t, factor);
        return PARE_OK;
    }
    if (!fit(&all, &fitted))
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: tensor %s: its frequencies are not those of Llama 3, others are not "
                         "supported",
                         t->name, d->name);
    put_llama3(t, &fitted);
    return PARE_OK;
}

/* What positions are divided by: 1 without scaling. The type is linear where the file has none, and
 * rope.scale_linear is what files of 2023 call the factor. */
static pare_status read_stretch(const translation *t, double *factor)
{
    static const char *const keys[] = {"rope.scaling.factor", "rope.scale_linear"};
    const char *type = "linear";
    size_t len = strlen(type);
    *factor = 1;
    (void)pare_gguf_text(find(t->g, "rope.scaling.type"), &type, &len);
    if (len == 4 && memcmp(type, "none", 4) == 0)
        return PARE_OK;
    if (len != 6 || memcmp(type, "linear", 6) != 0)
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: rope.scaling.type %.*s is not supported (none, linear, yarn, "
                         "longrope and the divisors of Llama 3 are)",
                         t->name, len < 64 ? (int)len : 64, type);
    const char *const key = find(t->g, keys[0]) ? keys[0] : keys[1];
    if (find(t->g, key) && !pare__gguf_number(t->g, key, factor))
        return wrong(t, key);
    if (*factor == 0) /* stands for none */
        *factor = 1;
    return PARE_OK;
}

/* The base of blocks with a window, where it may differ. */
static pare_status put_local(const translation *t)
{
    static const char key[] = "rope.freq_base_swa";
    double theta = 10000;
    if (!(t->family->how & PARE__GGUF_LOCAL))
        return PARE_OK;
    if (find(t->g, key) && !pare__gguf_number(t->g, key, &theta))
        return wrong(t, key);
    pare_json_put_number(t->w, "rope_local_base_freq", theta);
    return PARE_OK;
}

static pare_status put_rope(const translation *t)
{
    double theta = t->shape.theta, factor;
    bool scaled;
    if (!(t->family->how & PARE__GGUF_ROTARY))
        return PARE_OK;
    if (find(t->g, "rope.freq_base") && !pare__gguf_number(t->g, "rope.freq_base", &theta))
        return wrong(t, "rope.freq_base");
    pare_json_put_number(t->w, "rope_theta", theta);
    PARE_TRY(put_local(t));
    PARE_TRY(pare__gguf_scaling(t->cx, t->name, t->g, t->family, t->w, &scaled));
    if (scaled)
        return PARE_OK;
    PARE_TRY(read_stretch(t, &factor));
    const pare_gguf_tensor *const divisors = pare_gguf_tensor_find(t->g, "rope_freqs.weight");
    if (divisors && factor != 1)
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: tensor %s and a rope.scaling.factor of %g together are not supported",
                         t->name, divisors->name, factor);
    if (divisors)
        return put_divisors(t, divisors, theta);
    put_linear(t, factor);
    return PARE_OK;
}

static pare_status put_vocabulary(const translation *t)
{
    const pare_gguf_tensor *const embed = pare_gguf_tensor_find(t->g, "token_embd.weight");
    if (!embed || embed->rank != 2)
        return pare_fail(t->cx, PARE_EFORMAT,
                         "%s: tensor token_embd.weight is missing, or not a matrix", t->name);
    pare_json_put_integer(t->w, "vocab_size", (int64_t)embed->shape[0]);
    pare_json_put_bool(t->w, "tie_word_embeddings", !pare_gguf_tensor_find(t->g, "output.weight"));
    return PARE_OK;
}

/* Generation may end with any of three tokens. */
static void put_ends(const translation *t)
{
    static const char *const keys[] = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                       "tokenizer.ggml.eom_token_id"};
    int64_t id, seen[3];
    size_t count = 0;
    if (pare_gguf_integer(pare_gguf_find(t->g, "tokenizer.ggml.bos_token_id"), 0, &id))
        pare_json_put_integer(t->w, "bos_token_id", id);
    for (size_t i = 0; i < 3; i++) {
        bool again = false;
        if (!pare_gguf_integer(pare_gguf_find(t->g, keys[i]), 0, &id))
            continue;
        for (size_t j = 0; j < count; j++)
            again |= seen[j] == id;
        if (!again)
            seen[count++] = id;
    }
    if (count == 1)
        pare_json_put_integer(t->w, "eos_token_id", seen[0]);
    if (count < 2)
        return;
    pare_json_open_array(t->w, "eos_token_id");
    for (size_t i = 0; i < count; i++)
        pare_json_put_integer(t->w, NULL, seen[i]);
    pare_json_close(t->w);
}

/* A window of 0 is none. */
static void put_family(const translation *t)
{
    int64_t window = 0;
    const bool given = pare__gguf_integer(t->g, "attention.sliding_window", &window);
    const pare__gguf_windowed *const other =
        given && window != 0 ? pare__gguf_windowed_of(t->family) : NULL;
    pare_json_open_array(t->w, "architectures");
    pare_json_put_text(t->w, NULL, other ? other->architecture : t->family->architecture);
    pare_json_close(t->w);
    pare_json_put_text(t->w, "model_type", other ? other->model_type : t->family->model_type);
    if (given && window != 0)
        pare_json_put_integer(t->w, "sliding_window", window);
    else if (given)
        pare_json_put_null(t->w, "sliding_window");
}

/* Linears that are trained to be ternary stand in blocks as what they are. */
static void put_ternary(const translation *t)
{
    pare_json_open_object(t->w, "quantization_config");
    pare_json_put_text(t->w, "quant_method", "bitnet");
    pare_json_close(t->w);
}

static pare_status put_act(const translation *t)
{
    char name[32];
    const char *text = t->family->act;
    size_t len = strlen(text);
    if (t->family->how & PARE__GGUF_ACT)
        (void)pare_gguf_text(find(t->g, "hidden_activation"), &text, &len);
    (void)snprintf(name, sizeof name, "%.*s", len < sizeof name ? (int)len : 31, text);
    for (char *c = name; *c; c++)
        *c = *c < 0x20 || *c > 0x7e ? '?' : *c;
    pare_json_put_text(t->w, t->family->act_word, name);
    if (strcmp(t->family->model_type, "bitnet") == 0)
        put_ternary(t);
    return PARE_OK;
}

static pare__gguf_shape read_shape(const translation *t)
{
    int64_t window = 0;
    pare__gguf_shape s = {.blocks = t->blocks < PARE_BLOCKS_MAX ? t->blocks : PARE_BLOCKS_MAX,
                          .width = t->heads > 0 ? t->hidden / t->heads : 0,
                          .theta = 10000,
                          .scaling = PARE_ROPE_LINEAR,
                          .factor = 1};
    if (t->family && t->family->how & PARE__GGUF_ROTARY)
        s.scaling = pare__gguf_scaling_kind(t->g, t->family);
    (void)pare__gguf_number(t->g, "rope.scaling.factor", &s.factor);
    (void)pare__gguf_integer(t->g, "attention.key_length", &s.width);
    s.turned = s.width;
    (void)pare__gguf_integer(t->g, "rope.dimension_count", &s.turned);
    (void)pare__gguf_number(t->g, "rope.freq_base", &s.theta);
    s.window = pare__gguf_integer(t->g, "attention.sliding_window", &window) && window != 0;
    return s;
}

static pare_status put_all(const translation *t)
{
    int64_t turns = 1;
    (void)pare__gguf_integer(t->g, "rope.scaling.finetuned", &turns);
    if (!turns && strcmp(t->family->model_type, "granite") == 0)
        return pare_fail(t->cx, PARE_ENOTSUP,
                         "%s: granite.rope.scaling.finetuned of 0 is not supported: none of its "
                         "blocks would have positions",
                         t->name);
    PARE_TRY(pare__gguf_settings(t->cx, t->name, t->g, t->family, &t->shape));
    put_family(t);
    PARE_TRY(put_words(t));
    PARE_TRY(put_heads(t));
    PARE_TRY(put_pattern(t));
    PARE_TRY(put_rope(t));
    PARE_TRY(put_vocabulary(t));
    put_ends(t);
    if (t->family->how & PARE__GGUF_MIXTURE)
        pare_json_put_bool(t->w, "norm_topk_prob", t->family->how & PARE__GGUF_EXPERT_NORM);
    PARE_TRY(put_act(t));
    if (strcmp(t->family->act_word, "hidden_act") == 0) {
        pare_json_put_bool(t->w, "attention_bias",
                           pare_gguf_tensor_find(t->g, "blk.0.attn_q.bias") ||
                               pare_gguf_tensor_find(t->g, "blk.0.attn_qkv.bias"));
        pare_json_put_bool(t->w, "mlp_bias",
                           pare_gguf_tensor_find(t->g, "blk.0.ffn_up.bias") != NULL);
    }
    return PARE_OK;
}

/* Enough for a message that names the family, which says what is supported. */
static pare_status put_unknown(const translation *t)
{
    const char *arch;
    size_t len;
    char text[65];
    int64_t experts = 0;
    if (!pare_gguf_text(pare_gguf_find(t->g, "general.architecture"), &arch, &len))
        return pare_fail(t->cx, PARE_EFORMAT, "%s: general.architecture is missing or not a text",
                         t->name);
    (void)snprintf(text, sizeof text, "%.*s", len < 64 ? (int)len : 64, arch);
    for (char *c = text; *c; c++)
        *c = *c < 0x20 || *c > 0x7e ? '?' : *c;
    if (!pare__config_missing(text) && pare__gguf_integer(t->g, "expert_count", &experts) &&
        experts > 0)
        return pare_fail(t->cx, PARE_ENOTSUP, "%s: %lld experts in files of %s are not supported",
                         t->name, (long long)experts, text);
    pare_json_put_text(t->w, "model_type", text);
    return PARE_OK;
}

/* Adapters, projectors of images and vocabularies go by the architecture of their model. */
static pare_status refuse_type(const translation *t)
{
    const char *type;
    size_t len;
    char text[65];
    if (!pare_gguf_text(pare_gguf_find(t->g, "general.type"), &type, &len) ||
        (len == 5 && memcmp(type, "model", 5) == 0))
        return PARE_OK;
    (void)snprintf(text, sizeof text, "%.*s", len < 64 ? (int)len : 64, type);
    return pare_fail(t->cx, PARE_ENOTSUP, "%s: general.type is %s, a model is needed%s", t->name,
                     text,
                     strcmp(text, "adapter") == 0   ? "; merge it into its model first"
                     : strcmp(text, "imatrix") == 0 ? "; a recipe takes it as calibration: {from}"
                                                    : "");
}

pare_status pare__gguf_config(pare_ctx *cx, const char *name, const pare_gguf *g, pare_json **doc)
{
    translation t = {.cx = cx, .name = name, .g = g, .family = pare__gguf_family_of(g)};
    const char *text;
    size_t len;
    *doc = NULL;
    PARE_TRY(refuse_type(&t));
    (void)pare__gguf_integer(g, "attention.head_count", &t.heads);
    (void)pare__gguf_integer(g, "embedding_length", &t.hidden);
    (void)pare__gguf_integer(g, "block_count", &t.blocks);
    t.shape = read_shape(&t);
    PARE_TRY(pare_json_writer_new(cx, &t.w));
    pare_json_open_object(t.w, NULL);
    pare_status s = t.family ? put_all(&t) : put_unknown(&t);
    if (s == PARE_OK) {
        pare_json_close(t.w);
        s = pare_json_writer_finish(t.w, &text, &len);
    }
    if (s == PARE_OK)
        s = pare_json_parse(cx, name, text, len, len, doc);
    pare_json_writer_free(t.w);
    return s;
}
