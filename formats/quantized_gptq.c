/* GPTQ as AutoGPTQ and GPTQModel write it.
 *
 *   qweight  I32 [k bits / 32, n]         a stream of codes down each column: field j is input j
 *   qzeros   I32 [groups, n bits / 32]    a stream of zero points along each row; version 1 (gptq)
 *                                         stores them less one, version 2 (gptq_v2) as they are
 *   scales   F16 [groups, n]
 *   g_idx    I32 [k]                      the group of each input; without it, by their order
 *
 * 3 bits: 32 fields fill 3 words. With `dynamic` linears differ in bits and groups. Source: the
 * readers of both programs. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "formats/quantized_internal.h"

enum { WORD = 32 };

/* Bits and groups of linears. */
typedef struct form {
    bool skipped; /* there are none with codes */
    unsigned bits;
    size_t group; /* 0: all */
} form;

typedef struct settings {
    form of_all;
    int add;                /* to zero points */
    pare__expression *name; /* of `dynamic`, the first that matches counts */
    const char **whole;     /* names of `extra_config`, which count before expressions */
    form *form;             /* of the linears that it names */
    size_t forms;
    bool order; /* groups are of inputs in another order, which g_idx has */
} settings;

static pare_status check_version(const pare__quantized *q, settings *out)
{
    char what[256];
    if (q->method == &pare__auto_round) { /* which checked it */
        const pare_json *const packing = pare_json_get(q->config, "packing_format");
        out->add = strcmp(pare__quantized_word(packing, ""), "auto_round:auto_gptq") == 0;
        return PARE_OK;
    }
    const pare_json *v = pare_json_get(q->config, "checkpoint_format");
    const char *key = "checkpoint_format";
    if (pare_json_type_of(v) == PARE_JSON_ABSENT || pare_json_type_of(v) == PARE_JSON_NULL) {
        key = "format";
        v = pare_json_get(q->config, key);
    }
    const char *const version = pare__quantized_word(v, "gptq");
    out->add = strcmp(version, "gptq") == 0;
    if (!out->add && strcmp(version, "gptq_v2") != 0) {
        (void)snprintf(what, sizeof what, "%.64s is not read; gptq and gptq_v2 are", version);
        return pare__quantized_refuse(q, "", key, what);
    }
    if (pare_json_bool(pare_json_get(q->config, "is_marlin_format"), false))
        return pare__quantized_refuse(q, "", "is_marlin_format", "that order is not read");
    if (strcmp(pare__quantized_word(pare_json_get(q->config, "pack_dtype"), "int32"), "int32") != 0)
        return pare__quantized_refuse(q, "", "pack_dtype", "only int32 is read");
    return PARE_OK;
}

/* Keys that `from` lacks stay as they are. */
static pare_status read_form(const pare__quantized *q, const char *where, const pare_json *from,
                             form *out)
{
    const pare_json *const bits = pare_json_get(from, "bits");
    const pare_json *const group = pare_json_get(from, "group_size");
    if (!out->bits || pare_json_type_of(bits) != PARE_JSON_ABSENT) {
        const int64_t is = pare_json_integer(bits, 0);
        if (is != 2 && is != 3 && is != 4 && is != 8)
            return pare__quantized_refuse(q, where, "bits", "only GPTQ with 2, 3, 4 or 8 is read");
        out->bits = (unsigned)is;
    }
    if (from == q->config || pare_json_type_of(group) != PARE_JSON_ABSENT)
        return pare__quantized_group(q, where, group, &out->group);
    return PARE_OK;
}

static pare_status take_forms(const pare__quantized *q, settings *s, size_t count)
{
    s->name = PARE_NEW(q->scratch, pare__expression, count);
    s->whole = PARE_NEW(q->scratch, const char *, count);
    s->form = PARE_NEW(q->scratch, form, count);
    return s->name && s->whole && s->form ? PARE_OK : PARE_ENOMEM;
}

/* Of AutoRound: an expression may lie anywhere in a name. */
static pare_status read_extra(const pare__quantized *q, settings *s)
{
    static const char key[] = "extra_config";
    const pare_json *const extra = pare_json_get(q->config, key), *v;
    const pare_json_type is = pare_json_type_of(extra);
    const char *name;
    char text[PARE__TENSOR_NAME], what[96];
    if (q->method != &pare__auto_round || is == PARE_JSON_ABSENT || is == PARE_JSON_NULL)
        return PARE_OK;
    if (is != PARE_JSON_OBJECT)
        return pare__quantized_refuse(q, "", key, "an object is expected");
    PARE_TRY(take_forms(q, s, pare_json_count(extra)));
    for (pare_json_iter it = {0}; pare_json_next(extra, &it, &name, &v);) {
        form *const f = &s->form[s->forms];
        const int len = snprintf(text, sizeof text, ".*?(?:%s)", name);
        char *const copy = pare_arena_text(q->scratch, text, strlen(text));
        if (pare_json_type_of(v) != PARE_JSON_OBJECT)
            return pare__quantized_refuse(q, key, name, "an object is expected");
        if (len < 0 || (size_t)len >= sizeof text) {
            (void)snprintf(what, sizeof what, "a name has %zu bytes, and at most %zu are read",
                           strlen(name), sizeof text - sizeof ".*?(?:)");
            return pare__quantized_refuse(q, "", key, what);
        }
        if (!copy)
            return PARE_ENOMEM;
        *f = s->of_all;
        f->skipped = pare_json_integer(pare_json_get(v, "bits"), 0) >= 16;
        s->whole[s->forms] = name;
        PARE_TRY(pare__quantized_expression(q, "extra_config: ", copy, &s->name[s->forms++]));
        if (!f->skipped)
            PARE_TRY(read_form(q, name, v, f));
    }
    return PARE_OK;
}

/* "+:EXPRESSION" or "EXPRESSION": {bits, group_size}, and "-:EXPRESSION" for what is left out. */
static pare_status read_dynamic(const pare__quantized *q, settings *s)
{
    const pare_json *const dynamic = pare_json_get(q->config, "dynamic"), *v;
    const pare_json_type is = pare_json_type_of(dynamic);
    const char *name;
    if (q->method != &pare__gptq || is == PARE_JSON_ABSENT || is == PARE_JSON_NULL)
        return PARE_OK;
    if (is != PARE_JSON_OBJECT)
        return pare__quantized_refuse(q, "", "dynamic", "an object is expected");
    PARE_TRY(take_forms(q, s, pare_json_count(dynamic)));
    for (pare_json_iter it = {0}; pare_json_next(dynamic, &it, &name, &v);) {
        form *const f = &s->form[s->forms];
        const bool prefixed = strncmp(name, "-:", 2) == 0 || strncmp(name, "+:", 2) == 0;
        *f = s->of_all;
        f->skipped = prefixed && name[0] == '-';
        PARE_TRY(pare__quantized_expression(q, "dynamic: ", name + (prefixed ? 2 : 0),
                                            &s->name[s->forms++]));
        if (f->skipped)
            continue;
        if (pare_json_type_of(v) != PARE_JSON_OBJECT)
            return pare__quantized_refuse(q, "dynamic", name, "an object is expected");
        PARE_TRY(read_form(q, name, v, f));
    }
    return PARE_OK;
}

static pare_status find_form(const pare__quantized *q, const settings *s, const char *name,
                             form *out)
{
    size_t which = 0;
    while (which < s->forms && !(s->whole[which] && strcmp(s->whole[which], name) == 0))
        which++;
    if (s->forms && which == s->forms)
        PARE_TRY(pare__quantized_match(q, s->name, s->forms, name, &which));
    *out = which < s->forms ? s->form[which] : s->of_all;
    return out->skipped ? pare__quantized_wrong(q, name, ".qweight",
                                                "is there, but dynamic or extra_config of "
                                                "quantization_config leaves this linear as it is")
                        : PARE_OK;
}

static pare_status begin(pare__quantized *q)
{
    settings *const s = PARE_NEW(q->scratch, settings, 1);
    q->settings = s;
    if (!s)
        return PARE_ENOMEM;
    PARE_TRY(pare__quantized_flag(q, "", "desc_act", pare_json_get(q->config, "desc_act"), false,
                                  &s->order));
    PARE_TRY(read_form(q, "", q->config, &s->of_all));
    PARE_TRY(read_dynamic(q, s));
    PARE_TRY(read_extra(q, s));
    return check_version(q, s);
}

/* The groups of inputs: engines differ in what they make of a file that does not say them. */
static pare_status take_groups(const pare__quantized *q, pare__coded *c)
{
    static const char suffix[] = ".g_idx";
    const settings *const s = q->settings;
    const pare_tensor *const t = pare__quantized_find(q, c->name, suffix);
    if (!t)
        return !s->order || c->groups == 1
                   ? PARE_OK
                   : pare__quantized_wrong(q, c->name, suffix,
                                           "is missing, and desc_act: true says that the groups "
                                           "of inputs do not lie in order; where they do, say "
                                           "desc_act: false");
    PARE_TRY(pare__quantized_index(q, suffix, false, c));
    const char *const data = t->data;
    uint64_t zeros = 0;
    while (data && zeros < t->bytes && !data[zeros])
        zeros++;
    return !data || zeros < t->bytes || c->groups == 1
               ? PARE_OK
               : pare__quantized_wrong(q, c->name, suffix,
                                       "is all zeros, so all inputs are of the first group; where "
                                       "groups lie in order, take the g_idx tensors out of the "
                                       "file");
}

/* Inputs of words that are `rows` high: as many as g_idx has, or as the words hold. */
static pare_status read_inputs(const pare__quantized *q, size_t rows, pare__coded *c)
{
    const pare_tensor *const index = pare__quantized_find(q, c->name, ".g_idx");
    const bool one = index && index->rank == 1;
    char what[160];
    const uint64_t inputs = one ? index->shape[0] : rows * WORD / c->bits;
    if (inputs && inputs <= PARE__SIDE_MAX && inputs * c->bits == rows * WORD) {
        c->k = (size_t)inputs;
        return PARE_OK;
    }
    if (one)
        (void)snprintf(what, sizeof what,
                       "%zu rows of words hold %zu bits, but g_idx has %" PRIu64
                       " inputs and quantization_config gives each %u bits",
                       rows, rows * WORD, inputs, c->bits);
    else
        (void)snprintf(what, sizeof what,
                       "%zu rows of words hold %zu bits, and no whole number of inputs up to 2^24 "
                       "with the %u bits that quantization_config gives each",
                       rows, rows * WORD, c->bits);
    return pare__quantized_wrong(q, c->name, ".qweight", what);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    const settings *const s = q->settings;
    const pare_tensor *const t = c->codes;
    form f;
    if (t->dtype != PARE_I32 || t->rank != 2 || !t->shape[0] || t->shape[0] > PARE__SIDE_MAX ||
        !t->shape[1] || t->shape[1] > PARE__SIDE_MAX)
        return pare__quantized_wrong(q, c->name, ".qweight", "is no matrix of I32");
    c->n = (size_t)t->shape[1];
    PARE_TRY(find_form(q, s, c->name, &f));
    c->bits = f.bits;
    PARE_TRY(read_inputs(q, (size_t)t->shape[0], c));
    c->group = f.group;
    c->groups = f.group ? (c->k + f.group - 1) / f.group : 1;
    if (c->n * c->bits % WORD)
        return pare__quantized_wrong(q, c->name, ".qweight",
                                     "zero points of its columns are no whole words");
    const size_t words = c->n * c->bits / WORD;
    c->code = (pare__fields){.data = t->data, .line = 1, .step = c->n, .bits = c->bits};
    PARE_TRY(pare__quantized_take(q, c->name, ".qzeros", PARE_I32, c->groups, words, &c->zeros));
    c->zero = (pare__fields){
        .data = c->zeros->data, .line = words, .step = 1, .bits = c->bits, .add = s->add};
    PARE_TRY(pare__quantized_scales(q, c->name, ".scales", c->groups, c->n, &c->scales));
    c->scale_line = 1;
    c->scale_step = c->n;
    c->bytes += c->zeros->bytes + c->scales->bytes;
    return take_groups(q, c);
}

static const char *const codes[] = {".qweight", NULL};
static const char *const beside[] = {".qzeros", ".scales", ".g_idx", NULL};

const pare__method pare__gptq = {
    .name = "gptq", .codes = codes, .beside = beside, .begin = begin, .describe = describe};
