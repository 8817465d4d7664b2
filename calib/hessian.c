#include "calib/hessian.h"

#include "runtime/linalg.h"

size_t pare_site_width(const pare_config *c, pare_site site)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        pare_linear_shape(c, (pare_role)role, &n, &k);
        if (c->arch->linear[role].site == site)
            return k;
    }
    return 0;
}

uint64_t pare_hessian_bytes(const pare_config *c, unsigned sites)
{
    uint64_t bytes = 0;
    for (unsigned s = 0; s < PARE_SITES; s++) {
        const uint64_t k = pare_site_width(c, (pare_site)s);
        if (sites & (1u << s))
            bytes += k * k * sizeof(float);
    }
    return bytes;
}

pare_status pare_hessian_take(pare_ctx *cx, pare_arena *a, const pare_config *c, unsigned sites,
                              pare_hessian *out)
{
    *out = (pare_hessian){.cx = cx, .active = sites};
    for (unsigned s = 0; s < PARE_SITES; s++) {
        out->k[s] = pare_site_width(c, (pare_site)s);
        if (!(sites & (1u << s)))
            continue;
        out->h[s] = PARE_NEW(a, float, out->k[s] * out->k[s]);
        if (!out->h[s])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static pare_status add(void *self, pare_site site, const float *x, size_t rows, size_t k)
{
    const pare_hessian *const h = self;
    if (h->active & (1u << site))
        pare_gram_add(h->cx, h->h[site], x, rows, k);
    return PARE_OK;
}

pare_tap pare_hessian_tap(pare_hessian *h)
{
    unsigned last = 0;
    for (unsigned s = 0; s < PARE_SITES; s++)
        if (h->active & (1u << s))
            last = s;
    return (pare_tap){.see = add, .self = h, .last = (pare_site)last};
}
