/* AutoRound: integers in the layouts of GPTQ and AWQ, under settings of its own.
 *
 *   packing_format  auto_round:auto_gptq            GPTQ, zero points less one
 *                   auto_round, auto_round:gptqmodel GPTQ, zero points as they are
 *                   auto_round:auto_awq             AWQ
 *   extra_config    {NAME or EXPRESSION: {bits, group_size}}: a name counts before expressions, of
 *                   which the first that is found anywhere in a name counts; 16 bits: in floats
 *
 * Source: the reader of AutoRound. */
#include <stdio.h>
#include <string.h>

#include "formats/quantized_internal.h"

enum { FLOAT_BITS = 16 };

static bool is_awq(const pare__quantized *q)
{
    const pare_json *const v = pare_json_get(q->config, "packing_format");
    return strcmp(pare__quantized_word(v, ""), "auto_round:auto_awq") == 0;
}

static const pare__method *layout(const pare__quantized *q)
{
    return is_awq(q) ? &pare__awq : &pare__gptq;
}

/* AWQ has one number of bits and one group for all. */
static pare_status check_extra(const pare__quantized *q)
{
    static const char *const keys[] = {"bits", "group_size"};
    const char *name;
    const pare_json *v;
    for (pare_json_iter it = {0};
         pare_json_next(pare_json_get(q->config, "extra_config"), &it, &name, &v);) {
        if (pare_json_integer(pare_json_get(v, "bits"), 0) >= FLOAT_BITS)
            continue;
        for (size_t i = 0; i < 2; i++) {
            const pare_json *const own = pare_json_get(v, keys[i]);
            if (pare_json_type_of(own) != PARE_JSON_ABSENT &&
                pare_json_integer(own, 0) !=
                    pare_json_integer(pare_json_get(q->config, keys[i]), 0))
                return pare__quantized_refuse(q, name, keys[i],
                                              "linears that differ are not read from AWQ");
        }
    }
    return PARE_OK;
}

static pare_status begin(pare__quantized *q)
{
    static const char *const known[] = {"auto_round:auto_gptq", "auto_round",
                                        "auto_round:gptqmodel", "auto_round:auto_awq"};
    const char *const packing =
        pare__quantized_word(pare_json_get(q->config, "packing_format"), "?");
    char what[192];
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= strcmp(packing, known[i]) == 0;
    if (strcmp(pare__quantized_word(pare_json_get(q->config, "data_type"), "int"), "int") != 0)
        return pare__quantized_refuse(q, "", "data_type", "only int is read");
    (void)snprintf(what, sizeof what,
                   "%.64s is not read; auto_round:auto_gptq, auto_round, auto_round:gptqmodel and "
                   "auto_round:auto_awq are",
                   packing);
    if (!found)
        return pare__quantized_refuse(q, "", "packing_format", what);
    if (is_awq(q))
        PARE_TRY(check_extra(q));
    const int64_t inputs =
        pare_json_integer(pare_json_get(q->config, "act_bits"), (int64_t)FLOAT_BITS);
    q->rounds_inputs |= inputs < FLOAT_BITS;
    return layout(q)->begin(q);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    return layout(q)->describe(q, c);
}

static const char *const codes[] = {".qweight", NULL};
static const char *const beside[] = {".qzeros", ".scales", ".g_idx", NULL};

const pare__method pare__auto_round = {
    .name = "auto-round", .codes = codes, .beside = beside, .begin = begin, .describe = describe};
