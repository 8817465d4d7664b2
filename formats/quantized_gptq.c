/* GPTQ as AutoGPTQ and GPTQModel write it.
 *
 *   qweight  I32 [k bits / 32, n]         a stream of codes down each column: field j is input j
 *   qzeros   I32 [groups, n bits / 32]    a stream of zero points along each row; version 1 (gptq)
 *                                         stores them less one, version 2 (gptq_v2) as they are
 *   scales   F16 [groups, n]
 *   g_idx    I32 [k]                      the group of each input; without it, by their order
 *
 * 3 bits: 32 fields fill 3 words. With `dynamic` linears differ in bits and groups, which then
 * follow from the tensors. Source: the readers of both programs. */
#include <stdio.h>
#include <string.h>

#include "formats/quantized_internal.h"

enum { WORD = 32 };

typedef struct settings {
    unsigned bits;
    size_t group; /* 0: all */
    int add;      /* to zero points */
    bool mixed;
} settings;

static pare_status check_version(const pare__quantized *q, settings *out)
{
    char what[256];
    const pare_json *v = pare_json_get(q->config, "checkpoint_format");
    const char *key = "checkpoint_format";
    if (pare_json_type_of(v) == PARE_JSON_ABSENT) {
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

/* Whether some linears have settings of their own; those that begin with "-:" are left out. */
static bool is_mixed(const pare__quantized *q)
{
    const char *name;
    const pare_json *v;
    bool mixed = false;
    for (pare_json_iter it = {0};
         pare_json_next(pare_json_get(q->config, "dynamic"), &it, &name, &v);)
        mixed |= strncmp(name, "-:", 2) != 0;
    return mixed;
}

static pare_status begin(pare__quantized *q)
{
    const int64_t bits = pare_json_integer(pare_json_get(q->config, "bits"), 0);
    const int64_t group = pare_json_integer(pare_json_get(q->config, "group_size"), 0);
    settings *const s = PARE_NEW(q->scratch, settings, 1);
    q->settings = s;
    if (!s)
        return PARE_ENOMEM;
    if (bits != 2 && bits != 3 && bits != 4 && bits != 8)
        return pare__quantized_refuse(q, "", "bits", "only 2, 3, 4 and 8 are read");
    if (group != -1 && (group < 1 || group > PARE__SIDE_MAX))
        return pare__quantized_refuse(q, "", "group_size", "-1 or a number of inputs is expected");
    *s = (settings){
        .bits = (unsigned)bits, .group = group < 0 ? 0 : (size_t)group, .mixed = is_mixed(q)};
    return check_version(q, s);
}

/* Inputs, and bits of a code, of words that are `rows` high. */
static pare_status read_sizes(const pare__quantized *q, const settings *s, size_t rows,
                              pare__coded *c)
{
    const pare_tensor *const index = pare__quantized_find(q, c->name, ".g_idx");
    c->bits = s->bits;
    if (index && index->rank == 1 && index->shape[0] && index->shape[0] <= PARE__SIDE_MAX) {
        c->k = (size_t)index->shape[0];
        if (s->mixed)
            c->bits = (unsigned)(rows * WORD / c->k);
    } else {
        c->k = rows * WORD / s->bits;
    }
    if ((c->bits == 2 || c->bits == 3 || c->bits == 4 || c->bits == 8) && c->k &&
        c->k <= PARE__SIDE_MAX && c->k * c->bits == rows * WORD)
        return PARE_OK;
    return pare__quantized_wrong(q, c->name, ".qweight",
                                 "its rows are no whole words for the inputs and bits that g_idx "
                                 "and quantization_config say");
}

/* Groups; of linears with settings of their own as many as there are rows of scales. */
static pare_status read_groups(const pare__quantized *q, const settings *s, pare__coded *c)
{
    const pare_tensor *const t = pare__quantized_find(q, c->name, ".scales");
    c->group = s->group;
    c->groups = s->group ? (c->k + s->group - 1) / s->group : 1;
    if (s->mixed && t && t->rank == 2 && t->shape[0] && t->shape[0] <= c->k) {
        c->groups = (size_t)t->shape[0];
        c->group = c->groups == 1 ? 0 : (c->k + c->groups - 1) / c->groups;
    }
    if (!c->group || (c->k + c->group - 1) / c->group == c->groups)
        return PARE_OK;
    return pare__quantized_wrong(q, c->name, ".scales", "its rows are no groups of equal size");
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    const settings *const s = q->settings;
    const pare_tensor *const t = c->codes;
    if (t->dtype != PARE_I32 || t->rank != 2 || !t->shape[0] || t->shape[0] > PARE__SIDE_MAX ||
        !t->shape[1] || t->shape[1] > PARE__SIDE_MAX)
        return pare__quantized_wrong(q, c->name, ".qweight", "is no matrix of I32");
    c->n = (size_t)t->shape[1];
    PARE_TRY(read_sizes(q, s, (size_t)t->shape[0], c));
    PARE_TRY(read_groups(q, s, c));
    if (c->n * c->bits % WORD)
        return pare__quantized_wrong(q, c->name, ".qweight",
                                     "zero points of its columns are no whole words");
    const size_t words = c->n * c->bits / WORD;
    c->code = (pare__fields){.data = t->data, .line = 1, .step = c->n, .bits = c->bits};
    PARE_TRY(pare__quantized_take(q, c->name, ".qzeros", PARE_I32, c->groups, words, &c->zeros));
    c->zero = (pare__fields){
        .data = c->zeros->data, .line = words, .step = 1, .bits = c->bits, .add = s->add};
    PARE_TRY(pare__quantized_scales(q, c->name, ".scales", (uint64_t)c->groups * c->n, &c->scales));
    c->scale_line = 1;
    c->scale_step = c->n;
    c->bytes += c->zeros->bytes + c->scales->bytes;
    return pare__quantized_find(q, c->name, ".g_idx") ? pare__quantized_index(q, ".g_idx", c)
                                                      : PARE_OK;
}

static const char *const codes[] = {".qweight", NULL};
static const char *const beside[] = {".qzeros", ".scales", ".g_idx", NULL};

const pare__method pare__gptq = {
    .name = "gptq", .codes = codes, .beside = beside, .begin = begin, .describe = describe};
