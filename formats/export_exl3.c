/* EXL3 as ExLlamaV3 and GPTQModel read it: the trellis codes of the artifact, tile for tile.
 *
 *   trellis  I16 [k / 16, n / 16, 16 bits]  tiles as kernels/exl3.h has them, column block after
 *                                           column block
 *   suh, svh F16 [k], [n]                   scales of columns and rows
 *   mul1     I32 scalar                     the multiplier of the codebook; that there is one says
 *                                           which codebook it is
 *
 * Its Hadamard matrices have 128 rows everywhere. Source: ExLlamaV3 1.4.1, modules/quant/exl3.py
 * and conversion/quant_config.py. */
#include <string.h>

#include "formats/export_internal.h"
#include "kernels/exl3.h"

static const char name[] = "exl3";

enum { SPAN = 128 };

static const uint32_t multiplier = PARE_EXL3_MULTIPLIER;

static pare_status check_linear(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    char text[PARE_PACKED_TEXT];
    const char *why = NULL;
    if (!pare_encoding_turns(l->encoding))
        why = "it has no trellis codes; the pass exl3 makes them, and the other formats are for "
              "other codes";
    else if (x->pieces)
        why = "several linears lie in one tensor of this family, and ExLlamaV3 wants each apart; "
              "the format safetensors holds its floats";
    else if (x->transposed)
        why = "ExLlamaV3 does not know the Conv1D of GPT-2; the format safetensors holds its "
              "floats";
    else if (l->n % SPAN || l->k % SPAN)
        why = "ExLlamaV3 mixes 128 rows and 128 columns, which do not divide this matrix, so pare "
              "mixed fewer; leave it out of exl3 with skip, or take the format safetensors";
    else if (l->rotated)
        why = "its inputs are rotated while the model runs, which engines do not do; rotate "
              "without online rotations";
    else if (l->bias)
        why = "a pass made a bias for it, and engines have no place for one in this model; use "
              "outlier_suppression: {shift: false}, or smoothquant";
    if (why)
        return pare_fail(cx, PARE_ENOTSUP, "%s: linear %s (%s, %zu x %zu): %s", name, x->name,
                         pare_packed_linear_text(l, text), l->n, l->k, why);
    return PARE_OK;
}

static pare_status check(pare_ctx *cx, const pare_export_model *m)
{
    for (size_t i = 0; i < m->linears; i++)
        if (m->linear[i].is_packed)
            return PARE_OK;
    return pare_fail(cx, PARE_ENOTSUP,
                     "%s: no linear of the model is quantized; the formats safetensors and "
                     "gguf:f16 hold floats",
                     name);
}

static pare_export_grain grain(const pare_export_target *t, const pare_export_linear *x)
{
    (void)t;
    (void)x;
    return (pare_export_grain){SPAN, SPAN, 0};
}

static size_t parts(const pare_export_model *m, const pare_export_linear *x,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    const uint64_t tiles[] = {l->k / PARE_EXL3_TILE, l->n / PARE_EXL3_TILE};
    (void)m;
    part[0] = (pare_export_part){
        ".trellis", PARE_I16, 3, {tiles[0], tiles[1], pare_exl3_tile_bytes(l->bits) / 2}};
    part[1] = (pare_export_part){".suh", PARE_F16, 1, {l->k}};
    part[2] = (pare_export_part){".svh", PARE_F16, 1, {l->n}};
    part[3] = (pare_export_part){".mul1", PARE_I32, 0, {0}};
    return 4;
}

static pare_status fill(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_export_linear *x, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    const size_t rows = l->n / PARE_EXL3_TILE, columns = l->k / PARE_EXL3_TILE;
    const size_t bytes = pare_exl3_tile_bytes(l->bits);
    uint8_t *to = data[0];
    (void)cx;
    (void)scratch;
    (void)m;
    for (size_t j = 0; j < columns; j++)
        for (size_t i = 0; i < rows; i++, to += bytes)
            memcpy(to, w->panel.codes + (i * columns + j) * bytes, bytes);
    memcpy(data[1], w->column_scales, l->k * sizeof *w->column_scales);
    memcpy(data[2], w->row_scales, l->n * sizeof *w->row_scales);
    memcpy(data[3], &multiplier, sizeof multiplier);
    return PARE_OK;
}

/* Bits of the blocks are their mean. Without the `version` of ExLlamaV3, which it does not read and
 * GPTQModel 7.7 takes for a format. */
static void config(pare_json_writer *w, const pare_export_model *m)
{
    double bits = 0, weights = 0;
    unsigned head = 0;
    for (size_t i = 0; i < m->linears; i++) {
        const pare_packed_linear *const l = &m->linear[i].packed;
        const double count = (double)l->n * (double)l->k;
        const bool outside = m->linear[i].block == m->config->blocks;
        if (!m->linear[i].is_packed)
            continue;
        head = outside ? l->bits : head;
        bits += outside ? 0 : l->bits * count;
        weights += outside ? 0 : count;
    }
    pare_json_put_text(w, "quant_method", name);
    pare_json_put_number(w, "bits", weights > 0 ? bits / weights : head);
    if (head)
        pare_json_put_integer(w, "head_bits", head);
    pare_json_put_text(w, "out_scales", "always");
    pare_json_put_text(w, "codebook", "mul1");
}

static void storage(pare_json_writer *w, const pare_export_linear *l)
{
    pare_json_put_text(w, "quant_format", name);
    pare_json_put_integer(w, "bits_per_weight", l->packed.bits);
    pare_json_put_integer(w, "mul1_multiplier", multiplier);
}

const pare_export_target pare__export_exl3 = {
    .name = name,
    .summary = "trellis codes of the pass exl3: ExLlamaV3, GPTQModel",
    .extra = "quantization_config.json",
    .check = check,
    .check_linear = check_linear,
    .grain = grain,
    .parts = parts,
    .fill = fill,
    .config = config,
    .storage = storage,
    .read = pare__read_exl3};
