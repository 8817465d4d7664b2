#include "runtime/fold.h"

#include <math.h>
#include <string.h>

#include "runtime/linear.h"
#include "runtime/threads.h"

enum { ROWS = 16 };

static void shape(const pare_config *c, size_t role, size_t *n, size_t *k)
{
    pare_linear_shape(c, 0, (pare_role)role, n, k);
}

int pare_site_norm(const pare_config *c, pare_site site)
{
    if (c->arch->producer[site].kind != PARE_PRODUCER_NORM)
        return -1;
    return site == PARE_SITE_ATTENTION ? 0 : 1;
}

size_t pare_fold_channels(const pare_config *c, pare_site site)
{
    const pare_producer *const p = &c->arch->producer[site];
    size_t n, k;
    if (pare_site_width(c, 0, site) == 0)
        return 0;
    switch (p->kind) {
    case PARE_PRODUCER_NORM: return c->hidden;
    case PARE_PRODUCER_LINEAR: shape(c, p->role, &n, &k); return n;
    case PARE_PRODUCER_NONE: break;
    }
    return 0;
}

/* Channel that input column j reads: query heads of a group share their value head. */
static size_t channel_of(const pare_config *c, pare_site site, size_t j)
{
    if (site != PARE_SITE_ATTENDED)
        return j;
    const size_t d = c->head_dim, share = c->heads / c->kv_heads;
    return j / d / share * d + j % d;
}

void pare_fold_spread(const pare_config *c, pare_site site, const float *channel, float *k_values)
{
    const size_t k = pare_site_width(c, 0, site);
    for (size_t j = 0; j < k; j++)
        k_values[j] = channel[channel_of(c, site, j)];
}

void pare_fold_columns(const pare_config *c, pare_site site, uint32_t *channel)
{
    const size_t k = pare_site_width(c, 0, site);
    for (size_t j = 0; j < k; j++)
        channel[j] = (uint32_t)channel_of(c, site, j);
}

typedef struct fold {
    const pare_config *c;
    pare_site site;
    float *w;           /* consumer [n, k] */
    float *bias;        /* of the consumer, for a shift */
    const float *value; /* [channels] */
    size_t k;
} fold;

static void scale_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const fold *const f = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++)
        for (size_t j = 0; j < f->k; j++)
            f->w[r * f->k + j] *= f->value[channel_of(f->c, f->site, j)];
}

static void shift_rows(void *arg, size_t begin, size_t end, size_t worker)
{
    const fold *const f = arg;
    (void)worker;
    for (size_t r = begin; r < end; r++) {
        double sum = 0.0;
        for (size_t j = 0; j < f->k; j++)
            sum += (double)f->w[r * f->k + j] * (double)f->value[channel_of(f->c, f->site, j)];
        f->bias[r] = (float)((double)f->bias[r] + sum);
    }
}

static pare_status check(pare_ctx *cx, const pare_config *c, pare_site site, const float *value,
                         bool positive)
{
    const size_t channels = pare_fold_channels(c, site);
    if (channels == 0)
        return pare_fail(cx, PARE_ENOTSUP,
                         "nothing in front of this input can take a scale or a shift");
    for (size_t i = 0; i < channels; i++)
        if (!isfinite(value[i]) || (positive && !(value[i] > 0 && isfinite(1 / value[i]))))
            return pare_fail(cx, PARE_EINVAL, "channel %zu of %zu: %g cannot be folded", i,
                             channels, (double)value[i]);
    return PARE_OK;
}

/* Calls `rows` on every linear that reads the site. */
static void each_consumer(pare_ctx *cx, pare_block *block, fold *f, pare_task *rows)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        if (f->c->arch->linear[role].site != f->site)
            continue;
        size_t n;
        shape(f->c, role, &n, &f->k);
        f->w = block->linear[role].floats;
        f->bias = block->linear[role].bias;
        pare_parallel(cx, n, ROWS, rows, f);
    }
}

static void divide(float *v, const float *s, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        v[i] /= s[i];
}

pare_status pare_fold_scale(pare_ctx *cx, const pare_config *c, pare_block *block, pare_site site,
                            const float *s)
{
    PARE_TRY(check(cx, c, site, s, true));
    const pare_producer *const p = &c->arch->producer[site];
    if (p->kind == PARE_PRODUCER_NORM) {
        const int norm = pare_site_norm(c, site);
        divide(block->norm[norm], s, c->hidden);
        divide(block->norm_bias[norm], s, c->hidden);
    } else {
        size_t n, k;
        shape(c, p->role, &n, &k);
        for (size_t r = 0; r < n; r++)
            for (size_t j = 0; j < k; j++)
                block->linear[p->role].floats[r * k + j] /= s[r];
        divide(block->linear[p->role].bias, s, n);
    }
    fold f = {.c = c, .site = site, .value = s};
    each_consumer(cx, block, &f, scale_rows);
    return PARE_OK;
}

pare_status pare_fold_shift(pare_ctx *cx, const pare_config *c, pare_block *block, pare_site site,
                            const float *z)
{
    PARE_TRY(check(cx, c, site, z, false));
    if (site == PARE_SITE_ACTIVATED)
        return pare_fail(cx, PARE_ENOTSUP,
                         "the input of down comes from an activation, which no bias shifts");
    if (site == PARE_SITE_ATTENDED && c->arch->sinks)
        return pare_fail(cx, PARE_ENOTSUP,
                         "the input of o comes from attention with sinks, whose weights do not "
                         "sum to 1, so that no bias of v shifts it");
    const pare_producer *const p = &c->arch->producer[site];
    float *const to = p->kind == PARE_PRODUCER_NORM ? block->norm_bias[pare_site_norm(c, site)]
                                                    : block->linear[p->role].bias;
    bool room = to != NULL;
    for (size_t role = 0; role < PARE_ROLES; role++)
        room &= c->arch->linear[role].site != site || block->linear[role].bias;
    if (!room)
        return pare_fail(cx, PARE_EINVAL, "a shift needs biases, and the block has no room");
    const size_t channels = pare_fold_channels(c, site);
    for (size_t i = 0; i < channels; i++)
        to[i] -= z[i];
    fold f = {.c = c, .site = site, .value = z};
    each_consumer(cx, block, &f, shift_rows);
    return PARE_OK;
}
