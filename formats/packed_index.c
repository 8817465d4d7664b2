/* One linear of packed.index.json: words, bounds, reading and writing. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "formats/packed_internal.h"
#include "kernels/exl3.h"
#include "kernels/layout.h"
#include "solve/super.h"

enum { SIZE_CAP = 1 << 30, GROUP_CAP = 1 << 24, ACTIVATION_BITS = 8, MODES = 4, STORES = 3 };

static const char *const stores[STORES] = {
    [PARE_SPARSITY_NONE] = "none",
    [PARE_SPARSITY_2_4] = "2:4",
    [PARE_SPARSITY_BITMASK] = "bitmask",
};
static const char *const modes[MODES] = {
    [PARE_ACTIVATION_GROUP] = "group",
    [PARE_ACTIVATION_TOKEN] = "token",
    [PARE_ACTIVATION_TENSOR] = "tensor",
    [PARE_ACTIVATION_FLOAT] = "float",
};

const char *pare_activation_name(pare_activation_mode m)
{
    return modes[m];
}

static bool parse(const char *const *word, size_t words, const char *name, unsigned *out)
{
    for (size_t i = 0; name && i < words; i++)
        if (strcmp(word[i], name) == 0) {
            *out = (unsigned)i;
            return true;
        }
    return false;
}

const char *pare_sparsity_store_name(pare_sparsity_store s)
{
    return stores[s];
}

bool pare_encoding_parse(const char *name, pare_encoding *out)
{
    for (unsigned i = 0; name && i < PARE_ENCODINGS; i++)
        if (strcmp(pare_encodings[i].name, name) == 0) {
            *out = (pare_encoding)i;
            return true;
        }
    return false;
}

bool pare_activation_parse(const char *name, pare_activation_mode *out)
{
    unsigned at = 0;
    const bool known = parse(modes, MODES, name, &at);
    if (known)
        *out = (pare_activation_mode)at;
    return known;
}

static bool group_suits(const pare_packed_linear *l)
{
    const pare_encoding_row *const row = &pare_encodings[l->encoding];
    if (pare_encoding_is_super(l->encoding) || row->scales == PARE_SCALES_E4M3)
        return l->group == row->group && l->k % row->group == 0;
    if (row->group)
        return l->group == row->group || (l->group == 0 && l->k <= row->group);
    return l->group == 0 || (pare_encoding_has_groups(l->encoding) && l->group % PARE_ATOM_K == 0);
}

static bool activation_suits(pare_encoding e, const pare_activation *a)
{
    if (a->mode > PARE_ACTIVATION_FLOAT)
        return false;
    if (a->mode == PARE_ACTIVATION_FLOAT && a->bits == 4)
        return pare_encoding_is_fp4(e);
    if (a->mode == PARE_ACTIVATION_FLOAT)
        return a->bits == 0 || a->bits == ACTIVATION_BITS;
    return a->bits == 0 || a->bits == 4 || a->bits == ACTIVATION_BITS;
}

/* Zeros are left out of F16, and in twos of four of symmetric codes that a kernel knows. */
static pare_status check_sparsity(pare_ctx *cx, const pare_packed_linear *l)
{
    const bool f16 = pare_encoding_is_float(l->encoding);
    const bool suits[STORES] = {
        [PARE_SPARSITY_NONE] = true,
        [PARE_SPARSITY_2_4] = pare_encoding_fits_2_4(l->encoding, l->bits) && (f16 || l->symmetric),
        [PARE_SPARSITY_BITMASK] = f16,
    };
    if ((unsigned)l->sparsity >= STORES || !suits[l->sparsity])
        return pare_fail(cx, PARE_EINVAL, "%s: no storage for %s with %u bits and sparsity %s",
                         l->name, pare_encodings[l->encoding].name, l->bits,
                         (unsigned)l->sparsity < STORES ? stores[l->sparsity] : "unknown");
    if ((l->sparsity || f16) && (l->outliers || l->sparse))
        return pare_fail(cx, PARE_EINVAL, "%s: sparsity %s keeps no weights apart", l->name,
                         stores[l->sparsity]);
    if (l->sparsity == PARE_SPARSITY_BITMASK ? l->kept < 1 || l->kept > (uint64_t)l->n * l->k
                                             : l->kept != 0)
        return pare_fail(cx, PARE_EINVAL, "%s: %" PRIu64 " values kept of %zu x %zu", l->name,
                         l->kept, l->n, l->k);
    return PARE_OK;
}

/* What comes in tiles between two turns. */
static pare_status check_tiles(pare_ctx *cx, const pare_packed_linear *l)
{
    const char *const name = pare_encodings[l->encoding].name;
    if (l->n % PARE_EXL3_TILE || l->k % PARE_EXL3_TILE)
        return pare_fail(cx, PARE_EINVAL,
                         "%s: %s has tiles of 16 x 16, which do not divide a matrix of %zu x %zu",
                         l->name, name, l->n, l->k);
    if (l->outliers || l->sparse || l->activation.bits)
        return pare_fail(cx, PARE_EINVAL, "%s: %s keeps no weights apart and rounds no inputs",
                         l->name, name);
    return PARE_OK;
}

pare_status pare_packed_linear_check(pare_ctx *cx, const pare_packed_linear *l)
{
    if (!pare_encoding_fits(l->encoding, l->bits) || !group_suits(l))
        return pare_fail(cx, PARE_EINVAL, "%s: no storage for %s%s%u bits in groups of %zu",
                         l->name, l->encoding ? pare_encodings[l->encoding].name : "",
                         l->encoding ? " with " : "", l->bits, l->group);
    if (l->n == 0 || l->k == 0 || l->n > SIZE_CAP || l->k > SIZE_CAP)
        return pare_fail(cx, PARE_EFORMAT, "%s: %zu x %zu is outside 1 .. %d", l->name, l->n, l->k,
                         SIZE_CAP);
    if (pare_encoding_turns(l->encoding))
        PARE_TRY(check_tiles(cx, l));
    if (!l->symmetric && !pare_encodings[l->encoding].uniform)
        return pare_fail(cx, PARE_EINVAL, "%s: %s has no zero points", l->name,
                         pare_encodings[l->encoding].name);
    if (!pare_encodings[l->encoding].integer && l->activation.mode != PARE_ACTIVATION_FLOAT)
        return pare_fail(cx, PARE_EINVAL,
                         "%s: %s has no integer product: its activations stay float", l->name,
                         pare_encodings[l->encoding].name);
    if (!activation_suits(l->encoding, &l->activation))
        return pare_fail(cx, PARE_EINVAL, "%s: no activations of %u bits in mode %s", l->name,
                         l->activation.bits, pare_activation_name(l->activation.mode));
    if (l->outliers > l->k)
        return pare_fail(cx, PARE_EINVAL, "%s: %zu outlier columns of %zu", l->name, l->outliers,
                         l->k);
    if (l->sparse > UINT32_MAX || l->sparse > l->n * l->k)
        return pare_fail(cx, PARE_EINVAL, "%s: %zu sparse weights of %zu x %zu", l->name, l->sparse,
                         l->n, l->k);
    return check_sparsity(cx, l);
}

static void put_activation(pare_json_writer *w, const pare_activation *a)
{
    const bool by_default = a->bits == 0 || a->bits == ACTIVATION_BITS;
    if (a->mode == PARE_ACTIVATION_GROUP && by_default)
        return;
    pare_json_open_object(w, "activation");
    pare_json_put_text(w, "mode", pare_activation_name(a->mode));
    if (a->mode != PARE_ACTIVATION_FLOAT || a->bits)
        pare_json_put_integer(w, "bits", by_default ? ACTIVATION_BITS : (int64_t)a->bits);
    pare_json_close(w);
}

void pare_packed_extras_put(pare_json_writer *w, const pare_packed_linear *l)
{
    put_activation(w, &l->activation);
    if (l->outliers) {
        pare_json_put_integer(w, "outliers", (int64_t)l->outliers);
        pare_json_put_text(w, "outlier_type", l->outliers_int8 ? "int8" : "f16");
    }
    if (l->sparse)
        pare_json_put_integer(w, "sparse", (int64_t)l->sparse);
    if (l->sparsity)
        pare_json_put_text(w, "sparsity", stores[l->sparsity]);
    if (l->kept)
        pare_json_put_integer(w, "kept", (int64_t)l->kept);
    if (l->rotated)
        pare_json_put_bool(w, "rotated", true);
    if (l->bias)
        pare_json_put_bool(w, "bias", true);
}

void pare_packed_linear_put(pare_json_writer *w, const pare_packed_linear *l)
{
    pare_json_open_object(w, l->name);
    pare_json_put_integer(w, "bits", (int64_t)l->bits);
    pare_json_put_integer(w, "group", (int64_t)l->group);
    pare_json_put_bool(w, "symmetric", l->symmetric);
    pare_json_open_array(w, "shape");
    pare_json_put_integer(w, NULL, (int64_t)l->n);
    pare_json_put_integer(w, NULL, (int64_t)l->k);
    pare_json_close(w);
    if (!pare_encodings[l->encoding].uniform)
        pare_json_put_text(w, "encoding", pare_encodings[l->encoding].name);
    pare_packed_extras_put(w, l);
    pare_json_close(w);
}

typedef struct text_out {
    char *text;
    size_t used;
} text_out;

PARE_PRINTF(2, 3)
static void add(text_out *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(t->text + t->used, PARE_PACKED_TEXT - t->used, fmt, ap);
    va_end(ap);
    t->used += n > 0 ? (size_t)n : 0;
    if (t->used >= PARE_PACKED_TEXT)
        t->used = PARE_PACKED_TEXT - 1;
}

const char *pare__activation_text(pare_encoding e, const pare_activation *a,
                                  char text[PARE_PACKED_TEXT])
{
    text_out t = {.text = text};
    text[0] = '\0';
    if (a->mode == PARE_ACTIVATION_FLOAT && a->bits == 4)
        add(&t, "x %s per %zu", pare_encodings[e].name, pare_encodings[e].group);
    else if (a->mode == PARE_ACTIVATION_FLOAT)
        add(&t, a->bits ? "x fp8 per token" : "x f32");
    else if (a->mode != PARE_ACTIVATION_GROUP || a->bits == 4)
        add(&t, "x int%u per %s", a->bits ? a->bits : ACTIVATION_BITS, modes[a->mode]);
    return text;
}

const char *pare_packed_linear_text(const pare_packed_linear *l, char text[PARE_PACKED_TEXT])
{
    char inputs[PARE_PACKED_TEXT];
    text_out t = {.text = text};
    const pare_encoding_row *const row = &pare_encodings[l->encoding];
    add(&t, "%s", row->uniform ? "int" : row->name);
    const bool turns = pare_encoding_turns(l->encoding);
    if (row->widths & (row->widths - 1)) /* more than one */
        add(&t, turns ? " %u bits" : "%u", l->bits);
    if (l->group && !pare_encoding_is_super(l->encoding))
        add(&t, " g%zu", l->group);
    else if (!l->group && !pare_encoding_is_float(l->encoding) && !turns)
        add(&t, " row");
    if (row->uniform)
        add(&t, l->symmetric ? " sym" : " asym");
    if (l->sparsity == PARE_SPARSITY_BITMASK)
        add(&t, " bitmask, %.1f%% kept", 100 * (double)l->kept / ((double)l->n * (double)l->k));
    else if (l->sparsity)
        add(&t, " %s", stores[l->sparsity]);
    if (l->outliers)
        add(&t, " + %zu columns %s", l->outliers, l->outliers_int8 ? "int8" : "f16");
    if (l->sparse)
        add(&t, " + %zu sparse", l->sparse);
    if (*pare__activation_text(l->encoding, &l->activation, inputs))
        add(&t, ", %s", inputs);
    if (l->rotated)
        add(&t, ", rotated");
    if (l->bias)
        add(&t, ", bias");
    return text;
}

/* Members of one linear as they are read; `what` names the first that is wrong. */
typedef struct reader {
    pare_packed_linear *out;
    const char *what;
} reader;

/* An integer in low .. high; `fallback` when it is absent and may be. */
static size_t get(reader *r, const pare_json *v, const char *key, int64_t low, int64_t high,
                  const char *what)
{
    const int64_t value = pare_json_integer(pare_json_get(v, key), low - 1);
    if (!r->what && (value < low || value > high))
        r->what = what;
    return r->what ? 0 : (size_t)value;
}

/* An optional count from 1 on. */
static size_t get_count(reader *r, const pare_json *v, const char *key, const char *what)
{
    return pare_json_get(v, key) ? get(r, v, key, 1, INT64_MAX, what) : 0;
}

/* An optional flag. */
static bool get_flag(reader *r, const pare_json *v, const char *key, const char *what)
{
    const pare_json *const flag = pare_json_get(v, key);
    if (!r->what && flag && pare_json_type_of(flag) != PARE_JSON_BOOL)
        r->what = what;
    return pare_json_bool(flag, false);
}

static void get_shape(reader *r, const pare_json *shape)
{
    const int64_t n = pare_json_integer(pare_json_at(shape, 0), -1);
    const int64_t k = pare_json_integer(pare_json_at(shape, 1), -1);
    if (!r->what && (pare_json_count(shape) != 2 || n < 1 || k < 1 || n > SIZE_CAP || k > SIZE_CAP))
        r->what = "shape is not two sizes from 1 to 2^30";
    r->out->n = r->what ? 0 : (size_t)n;
    r->out->k = r->what ? 0 : (size_t)k;
}

static void get_activation(reader *r, const pare_json *v)
{
    pare_activation *const a = &r->out->activation;
    *a = (pare_activation){.mode = PARE_ACTIVATION_GROUP, .bits = ACTIVATION_BITS};
    if (!v)
        return;
    const char *const mode = pare_json_text(pare_json_get(v, "mode"), NULL);
    const pare_json *const bits = pare_json_get(v, "bits");
    a->bits = (unsigned)(bits ? get(r, v, "bits", 4, 8, "bits of activations are not 4 or 8") : 0);
    if (!r->what && !pare_activation_parse(mode, &a->mode))
        r->what = "the mode of activations is not known";
    const bool fp4 = pare_encoding_is_fp4(r->out->encoding);
    if (!r->what && a->bits != ACTIVATION_BITS &&
        (a->mode == PARE_ACTIVATION_FLOAT ? a->bits && !(fp4 && a->bits == 4) : a->bits != 4))
        r->what = "bits of activations are not 4 or 8";
    if (!r->what && pare_json_count(v) != 1 + (bits != NULL))
        r->what = "activation has a member that is not known";
}

static void get_sparsity(reader *r, const pare_json *v)
{
    pare_packed_linear *const out = r->out;
    const pare_json *const sparsity = pare_json_get(v, "sparsity");
    unsigned at = 0;
    if (!r->what && sparsity && !parse(stores, STORES, pare_json_text(sparsity, NULL), &at))
        r->what = "the sparsity is not none, 2:4 or bitmask";
    out->sparsity = (pare_sparsity_store)at;
    out->kept = get_count(r, v, "kept", "kept is not a number above 0");
}

static void get_extras(reader *r, const pare_json *v)
{
    pare_packed_linear *const out = r->out;
    const pare_json *const encoding = pare_json_get(v, "encoding");
    if (!r->what && encoding &&
        !pare_encoding_parse(pare_json_text(encoding, NULL), &out->encoding))
        r->what = "the encoding is not known";
    get_activation(r, pare_json_get(v, "activation"));
    out->outliers = get_count(r, v, "outliers", "outliers is not a number above 0");
    const pare_json *const type = pare_json_get(v, "outlier_type");
    const char *const text = pare_json_text(type, NULL);
    out->outliers_int8 = text && strcmp(text, "int8") == 0;
    if (!r->what && type && !out->outliers_int8 && (!text || strcmp(text, "f16") != 0))
        r->what = "the outlier_type is not f16 or int8";
    out->sparse = get_count(r, v, "sparse", "sparse is not a number above 0");
    get_sparsity(r, v);
    out->rotated = get_flag(r, v, "rotated", "rotated is not true or false");
    out->bias = get_flag(r, v, "bias", "bias is not true or false");
}

static pare_status check_members(pare_ctx *cx, const char *name, const pare_json *v)
{
    static const char *const known[] = {
        "bits",         "group",  "symmetric", "shape", "encoding", "activation", "outliers",
        "outlier_type", "sparse", "rotated",   "bias",  "sparsity", "kept"};
    const char *key;
    const pare_json *value;
    for (pare_json_iter it = {0}; pare_json_next(v, &it, &key, &value);) {
        unsigned at;
        if (!parse(known, sizeof known / sizeof *known, key, &at))
            return pare_fail(cx, PARE_EFORMAT, "linear %s: \"%.64s\" is not known", name, key);
    }
    return PARE_OK;
}

pare_status pare_packed_linear_read(pare_ctx *cx, const char *name, const pare_json *v,
                                    pare_packed_linear *out)
{
    *out = (pare_packed_linear){.name = name};
    reader r = {.out = out};
    out->bits = (unsigned)get(&r, v, "bits", 1, 16, "bits is not a whole number of 1 to 16");
    static const char group[] = "group is not 0 (the row), 16 or a multiple of 32";
    out->group = get(&r, v, "group", 0, GROUP_CAP, group);
    if (!r.what && out->group != 16 && out->group % PARE_ATOM_K != 0)
        r.what = group;
    const pare_json *const symmetric = pare_json_get(v, "symmetric");
    if (!r.what && pare_json_type_of(symmetric) != PARE_JSON_BOOL)
        r.what = "symmetric is not true or false";
    out->symmetric = pare_json_bool(symmetric, true);
    get_shape(&r, pare_json_get(v, "shape"));
    get_extras(&r, v);
    if (r.what)
        return pare_fail(cx, PARE_EFORMAT, "linear %s: %s", name, r.what);
    PARE_TRY(check_members(cx, name, v));
    if (pare_packed_linear_check(cx, out) != PARE_OK)
        return pare_fail_context(cx, PARE_EFORMAT, "linear");
    return PARE_OK;
}
