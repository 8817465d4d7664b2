/* Floats that ModelOpt exports.
 *
 *   NVFP4   weight U8 [n, k / 2]: E2M1, the first code in the lower bits; weight_scale F8_E4M3
 *           [n, k / 16], weight_scale_2 F32 [1]; w = q (scale scale_2), both rounded to F32
 *   FP8     weight F8_E4M3 [n, k]; weight_scale [1] or a value for each row; w = q scale
 *
 * quant_algo says which, or that linears differ; the type of a weight shows what it is. Rounding of
 * inputs is left out, with a warning; so are the scales of keys and values.
 * Source: the documentation of ModelOpt, and what the readers of vLLM and TensorRT-LLM compute. */
#include <string.h>

#include "formats/quantized_internal.h"
#include "kernels/levels.h"

enum { GROUP = 16 };

static pare_status begin(pare__quantized *q)
{
    static const char *const known[] = {
        "NVFP4",          "W4A16_NVFP4", "W4A8_NVFP4_FP8", "FP8", "FP8_PER_CHANNEL_PER_TOKEN",
        "MIXED_PRECISION"};
    const char *const algo =
        pare__quantized_word(pare_json_get(q->config, "quant_algo"), "MIXED_PRECISION");
    bool found = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        found |= strcmp(algo, known[i]) == 0;
    if (!found)
        return pare__quantized_refuse(
            q, "", "quant_algo",
            "only NVFP4, W4A16_NVFP4, W4A8_NVFP4_FP8, FP8, FP8_PER_CHANNEL_PER_TOKEN and "
            "MIXED_PRECISION are read");
    pare__quantized_warn_cache(q);
    return pare__fp8.begin(q);
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    static const char pre[] = ".pre_quant_scale";
    if (pare__quantized_find(q, c->name, pre)) /* of AWQ: inputs are multiplied by it */
        return pare__quantized_wrong(q, c->name, pre, "scales of inputs are not read");
    if (c->codes->dtype != PARE_U8)
        return pare__fp8.describe(q, c);
    c->bits = 4;
    c->level = pare_levels_e2m1;
    c->group = GROUP;
    c->rounds_inputs = pare__quantized_find(q, c->name, ".input_scale") != NULL;
    PARE_TRY(pare__quantized_pairs(q, ".weight", c));
    PARE_TRY(pare__quantized_take(q, c->name, ".weight_scale", PARE_F8_E4M3, c->n, c->groups,
                                  &c->scales));
    c->scale_line = c->groups;
    c->scale_step = 1;
    c->bytes += c->scales->bytes;
    return pare__quantized_number(q, ".weight_scale_2", c, &c->factor);
}

static bool holds(const pare_tensor *t)
{
    return t->dtype == PARE_U8 || t->dtype == PARE_F8_E4M3;
}

static const char *const codes[] = {".weight", NULL};
static const char *const beside[] = {".weight_scale", ".weight_scale_2", ".input_scale",
                                     ".k_scale",      ".v_scale",        NULL};

const pare__method pare__modelopt = {.name = "modelopt",
                                     .codes = codes,
                                     .beside = beside,
                                     .begin = begin,
                                     .holds = holds,
                                     .describe = describe};
