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

static pare_status check_linear(pare_ctx *cx, const pare_export_linear *x)
{
    const pare_packed_linear *const l = &x->packed;
    const char *why = NULL;
    if (l->rotated)
        why = "its inputs are rotated while the model runs, which other programs do not do; rotate "
              "without online rotations";
    if (l->bias)
        why = "a pass made a bias for it, and other programs have no place for one in this model; "
              "use outlier_suppression: {shift: false}, or smoothquant";
    if (why)
        return pare_fail(cx, PARE_ENOTSUP, "safetensors: linear %s: %s", l->name, why);
    return PARE_OK;
}

static size_t parts(const pare_export_model *m, const pare_export_linear *x,
                    pare_export_part part[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    part[0] = (pare_export_part){
        ".weight", m->floats, 2, {x->transposed ? l->k : l->n, x->transposed ? l->n : l->k}};
    return 1;
}

static pare_status fill(pare_ctx *cx, pare_arena *scratch, const pare_export_model *m,
                        const pare_export_linear *x, const pare_linear *w,
                        void *const data[PARE_EXPORT_PARTS])
{
    const pare_packed_linear *const l = &x->packed;
    float *const value = pare_arena_take_raw(scratch, l->n * l->k, sizeof *value);
    if (!value)
        return PARE_ENOMEM;
    pare_linear_to_f32(cx, w, value);
    if (!x->transposed)
        return pare_f32_to_dtype(cx, m->floats, value, l->n * l->k, data[0]);
    float *const turned = pare_arena_take_raw(scratch, l->n * l->k, sizeof *turned);
    if (!turned)
        return PARE_ENOMEM;
    for (size_t r = 0; r < l->n; r++)
        for (size_t j = 0; j < l->k; j++)
            turned[j * l->n + r] = value[r * l->k + j];
    return pare_f32_to_dtype(cx, m->floats, turned, l->n * l->k, data[0]);
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
