/* The factor of NVFP4 in files of other engines. An artifact has one for each matrix; vLLM runs
 * linears that share inputs as one matrix and takes the largest of their global scales, which is
 * the smallest factor, for all. Hence they share the largest one here, and the scales of the others
 * are divided by a power of two more: exact but for scales below the normal numbers of E4M3. */
#include <math.h>

#include "formats/export_internal.h"
#include "kernels/e4m3.h"
#include "kernels/levels.h"
#include "runtime/small.h"
#include "solve/nvfp4.h"

static bool has_factor(const pare_export_linear *l)
{
    return l->is_packed && pare_encodings[l->packed.encoding].scales == PARE_SCALES_E4M3;
}

static float largest_of(const pare_linear *w)
{
    const pare_panel *const p = &w->panel;
    uint16_t most = 0; /* numbers of F16 without sign are in the order of their bits */
    for (size_t i = 0; i < p->n * (p->k / p->group); i++)
        most = p->scales[i] > most ? p->scales[i] : most;
    return pare_f16_to_f32(most);
}

float pare__export_own_factor(const pare_linear *w)
{
    return pare_nvfp4_factor_for(largest_of(w));
}

static float largest_scale(const pare_export_linear *l)
{
    float most = 0;
    if (!l->pieces)
        return largest_of(l->weights);
    for (size_t i = 0; i < l->pieces; i++)
        most = fmaxf(most, largest_of(l->piece[i].weights));
    return most;
}

float pare__export_factor(const pare_export_model *m, const pare_export_linear *l)
{
    float most = largest_scale(l);
    for (size_t i = 0; i < m->linears; i++)
        if (has_factor(&m->linear[i]) && pare__export_run_as_one(&m->linear[i], l))
            most = fmaxf(most, largest_scale(&m->linear[i]));
    return pare_nvfp4_factor_for(most);
}

static bool is_zero(const uint8_t *code, size_t count)
{
    uint8_t any = 0;
    for (size_t j = 0; j < count; j++)
        any |= code[j];
    return (any & 7) == 0;
}

pare_status pare__export_scale_code(pare_ctx *cx, const char *target, const char *linear,
                                    const pare__export_codes *c, size_t r, size_t g, float factor,
                                    uint8_t *out)
{
    const float scale = pare_f16_to_f32(c->scale[r * c->groups + g]);
    *out = pare_f32_to_e4m3(scale / factor);
    if (pare_levels_e4m3[*out] * factor == scale ||
        is_zero(c->code + r * c->k + g * c->group, pare_smaller(c->group, c->k - g * c->group)))
        return PARE_OK;
    return pare_fail(cx, PARE_ENUMERIC,
                     "%s: linear %s: row %zu, group %zu: scale %g is too small beside the largest "
                     "of the linears that engines run as one matrix with it: as a multiple of %g "
                     "it is no number of E4M3; leave them out of the recipe, or export safetensors",
                     target, linear, r, g, (double)scale, (double)factor);
}
