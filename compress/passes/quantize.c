#include "compress/passes/quantize.h"

#include "kernels/layout.h"

const pare_word pare_quantize_bits[] = {{"2", 2}, {"3", 3}, {"4", 4}, {"8", 8}, {NULL, 0}};
const pare_word pare_quantize_row[] = {{"row", 0}, {NULL, 0}};
const pare_word pare_quantize_clip[] = {
    {"none", PARE_CLIP_NONE}, {"mse", PARE_CLIP_MSE}, {NULL, 0}};
const pare_word pare_quantize_tail[] = {{"short", 0}, {"error", 1}, {NULL, 0}};

pare_status pare_quantize_store(pare_ctx *cx, const double *value, size_t n, size_t k,
                                pare_packed_linear *out)
{
    const size_t group = (size_t)value[PARE_QUANTIZE_GROUP];
    if (group && value[PARE_QUANTIZE_TAIL] != 0.0 && k % group != 0)
        return pare_fail(cx, PARE_ESHAPE,
                         "group %zu does not divide the %zu inputs of a row and tail is error; "
                         "use tail: short or another group",
                         group, k);
    out->n = n;
    out->k = k;
    out->bits = (unsigned)value[PARE_QUANTIZE_BITS];
    out->group = group < k ? group : 0;
    out->symmetric = value[PARE_QUANTIZE_SYMMETRIC] != 0.0;
    return PARE_OK;
}

pare_grid pare_quantize_grid(const double *value)
{
    return (pare_grid){.bits = (unsigned)value[PARE_QUANTIZE_BITS],
                       .group = (size_t)value[PARE_QUANTIZE_GROUP],
                       .symmetric = value[PARE_QUANTIZE_SYMMETRIC] != 0.0,
                       .clip = (pare_clip)value[PARE_QUANTIZE_CLIP],
                       .f16_scales = true};
}
