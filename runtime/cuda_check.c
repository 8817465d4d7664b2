/* What there are no kernels for: asked when a model is opened, and long before by who plans. */
#include "runtime/cuda.h"

static pare_status refuse(pare_ctx *cx, const pare_config *c, const char *what)
{
    return pare_fail(cx, PARE_ENOTSUP,
                     "models of type %s have %s, for which there are no kernels here; take the CPU",
                     c->arch->model_type, what);
}

static pare_status check_config(pare_ctx *cx, const pare_config *c)
{
    if (c->mixed)
        return refuse(cx, c, "blocks with a recurrent state");
    if (c->arch->sinks || c->act == PARE_ACT_CLAMPED)
        return refuse(cx, c, "attention sinks or a clamped SwiGLU");
    if (c->arch->latent_eps > 0)
        return refuse(cx, c, "latent attention");
    if (c->arch->window == PARE_WINDOW_CHUNKS)
        return refuse(cx, c, "attention in chunks");
    if (c->arch->experts && c->arch->experts->correction)
        return refuse(cx, c, "routers that pick by sigmoids and a correction");
    if (c->turns_neighbours)
        return refuse(cx, c, "neighbouring channels that turn together");
    return PARE_OK;
}

pare_status pare_cuda_check_linear(pare_ctx *cx, const char *name, const pare_activation *a,
                                   bool exact)
{
    if (!exact && a->mode == PARE_ACTIVATION_FLOAT && a->bits)
        return pare_fail(cx, PARE_ENOTSUP,
                         "%s rounds its inputs to %u-bit floats, for which there are no "
                         "kernels here; take the CPU, or pare eval --exact, which leaves them as "
                         "they are",
                         name, a->bits);
    return PARE_OK;
}

static pare_status check_linear(pare_ctx *cx, const pare_linear *w, bool exact)
{
    return w->bits ? pare_cuda_check_linear(cx, w->name, &w->activation, exact) : PARE_OK;
}

pare_status pare_cuda_check_model(pare_ctx *cx, const pare_model *m, bool exact)
{
    const size_t parts = pare_block_parts(&m->config);
    PARE_TRY(check_config(cx, &m->config));
    for (size_t i = 0; i < m->config.blocks * parts * PARE_ROLES; i++)
        PARE_TRY(
            check_linear(cx,
                         pare_block_linear(&m->block[i / PARE_ROLES / parts],
                                           i / PARE_ROLES % parts, (pare_role)(i % PARE_ROLES)),
                         exact));
    return check_linear(cx, &m->head, exact);
}
