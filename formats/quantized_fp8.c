/* FP8 as DeepSeek and transformers write it, and with one scale as AutoFP8 does.
 *
 *   weight            F8_E4M3 [n, k]
 *   weight_scale_inv  [ceil(n / b0), ceil(k / b1)] with weight_block_size [b0, b1], else [1]; the
 *                     weights are multiplied by it, whatever its name says
 *   weight_scale      the same under the other name, or [n, 1]
 *
 * Source: the README of DeepSeek-V3's weights, and the reader of transformers. */
#include <string.h>

#include "formats/quantized_internal.h"
#include "kernels/levels.h"

/* Rows and columns that share a scale; 0: not said. */
typedef struct settings {
    size_t rows, columns;
} settings;

static pare_status begin(pare__quantized *q)
{
    const pare_json *const block = pare_json_get(q->config, "weight_block_size");
    const pare_json_type is = pare_json_type_of(block);
    settings *const s = PARE_NEW(q->scratch, settings, 1);
    q->settings = s;
    if (!s)
        return PARE_ENOMEM;
    if (strcmp(pare__quantized_word(pare_json_get(q->config, "fmt"), "e4m3"), "e4m3") != 0)
        return pare__quantized_refuse(q, "", "fmt", "only e4m3 is read");
    if (is == PARE_JSON_ABSENT || is == PARE_JSON_NULL)
        return PARE_OK;
    const int64_t rows = pare_json_integer(pare_json_at(block, 0), 0);
    const int64_t columns = pare_json_integer(pare_json_at(block, 1), 0);
    if (pare_json_count(block) != 2 || rows < 1 || rows > PARE__SIDE_MAX || columns < 1 ||
        columns > PARE__SIDE_MAX)
        return pare__quantized_refuse(q, "", "weight_block_size",
                                      "rows and columns of a block are expected");
    s->rows = (size_t)rows;
    s->columns = (size_t)columns;
    return PARE_OK;
}

static pare_status describe(pare__quantized *q, pare__coded *c)
{
    const settings *const s = q->settings;
    const pare_tensor *const t = c->codes;
    const char *const suffix =
        pare__quantized_find(q, c->name, ".weight_scale") ? ".weight_scale" : ".weight_scale_inv";
    const pare_tensor *const scale = pare__quantized_find(q, c->name, suffix);
    if (t->rank != 2 || !t->shape[0] || t->shape[0] > PARE__SIDE_MAX || !t->shape[1] ||
        t->shape[1] > PARE__SIDE_MAX)
        return pare__quantized_wrong(q, c->name, ".weight", "is no matrix of codes");
    c->n = (size_t)t->shape[0];
    c->k = (size_t)t->shape[1];
    c->bits = 8;
    c->level = pare_levels_e4m3;
    c->code = (pare__fields){.data = t->data, .line = c->k, .step = 1, .bits = 8, .bytes = true};
    c->group = s->columns;
    c->groups = s->columns ? (c->k + s->columns - 1) / s->columns : 1;
    c->scale_rows = s->rows ? s->rows : c->n;
    if (!s->rows && scale && scale->rank && scale->shape[0] == c->n)
        c->scale_rows = 1;
    const size_t lines = (c->n + c->scale_rows - 1) / c->scale_rows;
    PARE_TRY(pare__quantized_scales(q, c->name, suffix, lines, c->groups, &c->scales));
    c->scale_line = c->groups;
    c->scale_step = 1;
    c->bytes += c->scales->bytes;
    c->rounds_inputs = true; /* to E4M3, before every product */
    return PARE_OK;
}

static bool holds(const pare_tensor *t)
{
    return t->dtype == PARE_F8_E4M3;
}

static const char *const codes[] = {".weight", NULL};
static const char *const beside[] = {".weight_scale_inv", ".weight_scale", ".input_scale", NULL};

const pare__method pare__fp8 = {.name = "fp8",
                                .codes = codes,
                                .beside = beside,
                                .begin = begin,
                                .holds = holds,
                                .describe = describe};
