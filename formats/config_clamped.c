/* The clamped SwiGLU: its numbers are part of the operation (PARE_ACT_CLAMPED), so that a file that
 * says others is refused. */
#include <string.h>

#include "formats/config_internal.h"

static pare_status check_number(const pare__config_file *f, const char *key, double is)
{
    double x = is;
    PARE_TRY(pare__config_positive(f, f->json, key, &x));
    if (x != is)
        return pare_fail(f->cx, PARE_ENOTSUP, "%s: %s %g is not supported (%g is)", f->name, key, x,
                         is);
    return PARE_OK;
}

pare_status pare__config_clamped(const pare__config_file *f, const char *act)
{
    if (act && strcmp(act, "silu") != 0)
        return pare_fail(f->cx, PARE_ENOTSUP,
                         "%s: hidden_act %.64s is not supported in models whose activation is "
                         "clamped (silu is)",
                         f->name, act);
    PARE_TRY(check_number(f, "swiglu_alpha", 1.702));
    return check_number(f, "swiglu_limit", 7);
}

pare_status pare__config_needs_scaling(const pare__config_file *f)
{
    if (pare_json_count(pare_json_get(f->json, "rope_scaling")) > 0 ||
        pare_json_count(pare_json_get(f->json, "rope_parameters")) > 0)
        return PARE_OK;
    return pare_fail(
        f->cx, PARE_EFORMAT,
        "%s: neither rope_scaling nor rope_parameters is there, and models of this "
        "type scale their positions (yarn): take them from the model's own config.json",
        f->name);
}
