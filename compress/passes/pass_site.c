#include <math.h>

#include "compress/passes/pass_site.h"

/* Values per input column, for the statistics. */
static float *columns(pare_pass_site *s, const float *channel)
{
    float *const v = PARE_NEW(s->scratch, float, pare_site_width(s->config, 0, s->site));
    if (v)
        pare_fold_spread(s->config, s->site, channel, v);
    return v;
}

static pare_status check(pare_ctx *cx, const pare_pass_site *s, const float *value, bool positive)
{
    const size_t channels = pare_fold_channels(s->config, s->site);
    for (size_t i = 0; i < channels; i++)
        if (!isfinite(value[i]) || (positive && !(value[i] > 0 && isfinite(1 / value[i]))))
            return pare_fail(cx, PARE_ENUMERIC, "the %s of channel %zu is %g",
                             positive ? "scale" : "shift", i, (double)value[i]);
    return PARE_OK;
}

pare_status pare_pass_scale(pare_ctx *cx, pare_pass_site *s, const float *scale)
{
    PARE_TRY(check(cx, s, scale, true));
    const pare_mark mark = pare_arena_mark(s->scratch);
    const float *const k_values = columns(s, scale);
    pare_status status = k_values ? PARE_OK : PARE_ENOMEM;
    if (status == PARE_OK)
        status = pare_fold_scale(cx, s->config, s->current, s->site, scale);
    if (status == PARE_OK)
        status = pare_fold_scale(cx, s->config, s->reference, s->site, scale);
    if (status == PARE_OK)
        pare_stats_scale(s->stats, k_values);
    pare_arena_rewind(s->scratch, mark);
    return status;
}

pare_status pare_pass_shift(pare_ctx *cx, pare_pass_site *s, const float *shift)
{
    PARE_TRY(check(cx, s, shift, false));
    const pare_mark mark = pare_arena_mark(s->scratch);
    const float *const k_values = columns(s, shift);
    pare_status status = k_values ? PARE_OK : PARE_ENOMEM;
    if (status == PARE_OK)
        status = pare_fold_shift(cx, s->config, s->current, s->site, shift);
    if (status == PARE_OK)
        status = pare_fold_shift(cx, s->config, s->reference, s->site, shift);
    if (status == PARE_OK)
        pare_stats_shift(s->stats, k_values);
    pare_arena_rewind(s->scratch, mark);
    return status;
}

pare_status pare_pass_order(pare_ctx *cx, pare_pass_site *s, const uint32_t *from)
{
    const pare_mark mark = pare_arena_mark(s->scratch);
    uint32_t *const column = PARE_NEW(s->scratch, uint32_t, pare_site_width(s->config, 0, s->site));
    pare_status status = column ? PARE_OK : PARE_ENOMEM;
    if (status == PARE_OK)
        status = pare_fold_permute(cx, s->scratch, s->config, s->current, s->site, from);
    if (status == PARE_OK)
        status = pare_fold_permute(cx, s->scratch, s->config, s->reference, s->site, from);
    if (status == PARE_OK) {
        pare_fold_sources(s->config, s->site, from, column);
        status = pare_stats_permute(s->scratch, s->stats, column);
    }
    pare_arena_rewind(s->scratch, mark);
    return status;
}
