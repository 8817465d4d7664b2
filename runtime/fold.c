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

static const float *norm_of(const pare_block *b, size_t i)
{
    return i == 0 ? b->attention_norm : b->mlp_norm;
}

static const float *norm_bias_of(const pare_block *b, size_t i)
{
    return i == 0 ? b->attention_norm_bias : b->mlp_norm_bias;
}

pare_float_room pare_float_block_room(const pare_block *block)
{
    pare_float_room room = {0, 0};
    for (unsigned role = 0; role < PARE_ROLES; role++)
        room.bias |= block->linear[role].bias ? 1u << role : 0u;
    for (unsigned i = 0; i < 2; i++)
        room.norm_bias |= norm_bias_of(block, i) ? 1u << i : 0u;
    return room;
}

uint64_t pare_float_block_bytes(const pare_config *c)
{
    uint64_t bytes = 4 * (c->hidden * sizeof(float) + PARE_ALIGN);
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        shape(c, role, &n, &k);
        bytes += ((uint64_t)n * k + n) * sizeof(float) + (uint64_t)2 * PARE_ALIGN;
    }
    return bytes;
}

pare_status pare_float_block_take(pare_arena *a, const pare_config *c, pare_float_room room,
                                  pare_float_block *out)
{
    *out = (pare_float_block){0};
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        shape(c, role, &n, &k);
        out->weight[role] = PARE_NEW(a, float, n *k);
        if (!out->weight[role])
            return PARE_ENOMEM;
        if (!(room.bias & (1u << role)))
            continue;
        out->bias[role] = PARE_NEW(a, float, n);
        if (!out->bias[role])
            return PARE_ENOMEM;
    }
    for (size_t i = 0; i < 2; i++) {
        out->norm[i] = PARE_NEW(a, float, c->hidden);
        if (!out->norm[i])
            return PARE_ENOMEM;
        if (!(room.norm_bias & (1u << i)))
            continue;
        out->norm_bias[i] = PARE_NEW(a, float, c->hidden);
        if (!out->norm_bias[i])
            return PARE_ENOMEM;
    }
    return PARE_OK;
}

static void load_vector(const float *from, float *to, size_t n)
{
    if (to && from)
        memcpy(to, from, n * sizeof *to);
    else if (to)
        memset(to, 0, n * sizeof *to);
}

void pare_float_block_load(pare_ctx *cx, const pare_config *c, const pare_block *from,
                           pare_float_block *to)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        const pare_linear *const l = &from->linear[role];
        if (!pare_arch_has(c->arch, (pare_role)role))
            continue;
        pare_linear_to_f32(cx, l, to->weight[role]);
        load_vector(l->bias, to->bias[role], l->n);
    }
    for (size_t i = 0; i < 2; i++) {
        load_vector(norm_of(from, i), to->norm[i], c->hidden);
        load_vector(norm_bias_of(from, i), to->norm_bias[i], c->hidden);
    }
}

void pare_float_block_copy(const pare_config *c, const pare_float_block *from, pare_float_block *to)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        size_t n, k;
        shape(c, role, &n, &k);
        memcpy(to->weight[role], from->weight[role], n * k * sizeof(float));
        load_vector(from->bias[role], to->bias[role], n);
    }
    for (size_t i = 0; i < 2; i++) {
        load_vector(from->norm[i], to->norm[i], c->hidden);
        load_vector(from->norm_bias[i], to->norm_bias[i], c->hidden);
    }
}

pare_block pare_float_block_view(const pare_float_block *block, const pare_block *like)
{
    pare_block view = {.attention_norm = block->norm[0],
                       .mlp_norm = block->norm[1],
                       .attention_norm_bias = block->norm_bias[0],
                       .mlp_norm_bias = block->norm_bias[1],
                       .window = like->window,
                       .expert = like->expert,
                       .router = like->router,
                       .shared_gate = like->shared_gate};
    memcpy(view.inner_norm, like->inner_norm, sizeof view.inner_norm);
    for (size_t role = 0; role < PARE_ROLES; role++)
        view.linear[role] = (pare_linear){.name = like->linear[role].name,
                                          .n = like->linear[role].n,
                                          .k = like->linear[role].k,
                                          .dtype = PARE_F32,
                                          .data = block->weight[role],
                                          .rotated = like->linear[role].rotated,
                                          .bias = block->bias[role]};
    return view;
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
static void each_consumer(pare_ctx *cx, pare_float_block *block, fold *f, pare_task *rows)
{
    for (size_t role = 0; role < PARE_ROLES; role++) {
        if (f->c->arch->linear[role].site != f->site)
            continue;
        size_t n;
        shape(f->c, role, &n, &f->k);
        f->w = block->weight[role];
        f->bias = block->bias[role];
        pare_parallel(cx, n, ROWS, rows, f);
    }
}

static void divide(float *v, const float *s, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        v[i] /= s[i];
}

pare_status pare_fold_scale(pare_ctx *cx, const pare_config *c, pare_float_block *block,
                            pare_site site, const float *s)
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
                block->weight[p->role][r * k + j] /= s[r];
        divide(block->bias[p->role], s, n);
    }
    fold f = {.c = c, .site = site, .value = s};
    each_consumer(cx, block, &f, scale_rows);
    return PARE_OK;
}

pare_status pare_fold_shift(pare_ctx *cx, const pare_config *c, pare_float_block *block,
                            pare_site site, const float *z)
{
    PARE_TRY(check(cx, c, site, z, false));
    if (site == PARE_SITE_ACTIVATED)
        return pare_fail(cx, PARE_ENOTSUP,
                         "the input of down comes from an activation, which no bias shifts");
    const pare_producer *const p = &c->arch->producer[site];
    float *const to = p->kind == PARE_PRODUCER_NORM ? block->norm_bias[pare_site_norm(c, site)]
                                                    : block->bias[p->role];
    bool room = to != NULL;
    for (size_t role = 0; role < PARE_ROLES; role++)
        room &= c->arch->linear[role].site != site || block->bias[role];
    if (!room)
        return pare_fail(cx, PARE_EINVAL, "a shift needs biases, and the block has no room");
    const size_t channels = pare_fold_channels(c, site);
    for (size_t i = 0; i < channels; i++)
        to[i] -= z[i];
    fold f = {.c = c, .site = site, .value = z};
    each_consumer(cx, block, &f, shift_rows);
    return PARE_OK;
}
