/* Plain safetensors: every weight as a float under its own name, for whatever reads a checkpoint.
 */
#include "formats/export_internal.h"
#include "runtime/linear.h"

static pare_status check(pare_ctx *cx, const pare_export_model *m)
{
    (void)cx;
    (void)m;
    return PARE_OK;
}

static pare_status check_linear(pare_ctx *cx, const pare_packed_linear *l)
{
    const char *why = NULL;
    if (l->rotated)
        why = "its inputs are rotated while the model runs, which other programs do not do; rotate "
              "without online rotations";
    if (l->bias)
        why = "a pass made a bias for it, and other programs have no place for one in this model";
    if (why)
        return pare_fail(cx, PARE_ENOTSUP, "safetensors: linear %s: %s", l->name, why);
    return PARE_OK;
}

static size_t parts(const pare_export_model *m, const pare_packed_linear *l,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    part[0] = (pare_export_part){".weight", m->floats, 2, {l->n, l->k}};
    return 1;
}

static pare_status fill(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_packed_linear *l, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS])
{
    float *const value = pare_arena_take_raw(scratch, l->n * l->k, sizeof *value);
    if (!value)
        return PARE_ENOMEM;
    pare_linear_to_f32(cx, w, value);
    return pare_f32_to_dtype(cx, m->floats, value, l->n * l->k, data[0]);
}

const pare_export_target pare__export_safetensors = {
    .name = "safetensors",
    .summary = "weights as floats: any program that reads a Hugging Face checkpoint",
    .fate = PARE_EXPORT_ROUNDED,
    .check = check,
    .check_linear = check_linear,
    .parts = parts,
    .fill = fill,
    .read = pare__read_floats};
