#include "compress/passes/site_channels.h"

pare_status pare_site_channels_take(pare_ctx *cx, pare_arena *a, const pare_config *config,
                                    pare_site site, pare_site_channels *out)
{
    const size_t k = pare_site_width(config, site), channels = pare_fold_channels(config, site);
    *out = (pare_site_channels){.channels = channels};
    if (channels == 0)
        return pare_fail(cx, PARE_ENOTSUP, "nothing makes this input that could take a scale");
    if (channels == k)
        return PARE_OK;
    /* what each channel spreads to, told by its number; F32 holds those below 2^24 */
    float *const number = PARE_NEW(a, float, channels), *const column = PARE_NEW(a, float, k);
    uint32_t *const channel = PARE_NEW(a, uint32_t, k);
    if (!number || !column || !channel)
        return PARE_ENOMEM;
    for (size_t c = 0; c < channels; c++)
        number[c] = (float)c;
    pare_fold_spread(config, site, number, column);
    for (size_t j = 0; j < k; j++)
        channel[j] = (uint32_t)column[j];
    out->channel = channel;
    return PARE_OK;
}
