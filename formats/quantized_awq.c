/* AWQ in the GEMM layout of AutoAWQ: 4 bits.
 *
 *   qweight  I32 [k, n / 8]        eight outputs of an input in a word; output 8 c + i lies in
 *   qzeros   I32 [groups, n / 8]   nibble 0 4 1 5 2 6 3 7 [i] of word c
 *   scales   F16 [groups, n]
 *
 * Source: the reader of AutoAWQ. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "formats/quantized_internal.h"

enum { BITS = 4, PER_WORD = 8 };

static const uint8_t order[PER_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};

static pare_status check_layout(const pare__quantized *q)
{
    static const char *const keys[] = {"version", "format"};
    char what[256];
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const char *const word = pare__quantized_word(pare_json_get(q->config, keys[i]), "gemm");
        if (strcasecmp(word, "gemm") == 0)
            continue;
        (void)snprintf(what, sizeof what, "%.64s is not read; the layout gemm is", word);
        return pare__quantized_refuse(q, "", keys[i], what);
    }
    return PARE_OK;
}

/* A setting under the name that config.json has for it, or that of AutoAWQ's own quant_config.json
 * and of llm-awq. */
static const pare_json *setting(const pare__quantized *q, const char *key, const char *other)
{
    const pare_json *const v = pare_json_get(q->config, key);
    return pare_json_type_of(v) == PARE_JSON_ABSENT ? pare_json_get(q->config, other) : v;
}

static pare_status begin(pare__quantized *q)
{
    const int64_t bits = pare_json_integer(setting(q, "bits", "w_bit"), 0);
    bool zeros;
    size_t *const settings = PARE_NEW(q->scratch, size_t, 1);
    q->settings = settings;
    if (!settings)
        return PARE_ENOMEM;
    if (bits != BITS)
        return pare__quantized_refuse(q, "", "bits", "only AWQ with bits: 4 is read");
    PARE_TRY(pare__quantized_flag(q, "", "zero_point", pare_json_get(q->config, "zero_point"), true,
                                  &zeros));
    if (!zeros)
        return pare__quantized_refuse(q, "", "zero_point",
                                      "false is not read; qzeros hold zero points");
    PARE_TRY(pare__quantized_group(q, "", setting(q, "group_size", "q_group_size"), settings));
    return check_layout(q);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    const pare_tensor *const t = c->codes;
    if (t->dtype != PARE_I32 || t->rank != 2 || !t->shape[0] || t->shape[0] > PARE__SIDE_MAX ||
        !t->shape[1] || t->shape[1] > PARE__SIDE_MAX / PER_WORD)
        return pare__quantized_wrong(q, c->name, ".qweight", "is no matrix of I32");
    const size_t words = (size_t)t->shape[1];
    c->n = words * PER_WORD;
    c->k = (size_t)t->shape[0];
    c->bits = BITS;
    c->group = *(const size_t *)q->settings;
    c->groups = c->group ? (c->k + c->group - 1) / c->group : 1;
    c->down = true;
    PARE_TRY(pare__quantized_take(q, c->name, ".qzeros", PARE_I32, c->groups, words, &c->zeros));
    PARE_TRY(pare__quantized_scales(q, c->name, ".scales", c->groups, c->n, &c->scales));
    c->code =
        (pare__fields){.data = t->data, .line = words, .step = 1, .bits = BITS, .order = order};
    c->zero = c->code;
    c->zero.data = c->zeros->data;
    c->scale_line = 1;
    c->scale_step = c->n;
    c->bytes += c->zeros->bytes + c->scales->bytes;
    return PARE_OK;
}

static const char *const codes[] = {".qweight", NULL};
static const char *const beside[] = {".qzeros", ".scales", NULL};

const pare__method pare__awq = {
    .name = "awq", .codes = codes, .beside = beside, .begin = begin, .describe = describe};
