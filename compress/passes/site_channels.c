#include "compress/passes/site_channels.h"

pare_status pare_site_channels_take(pare_ctx *cx, pare_arena *a, const pare_config *config,
                                    pare_site site, pare_site_channels *out)
{
    const size_t k = pare_site_width(config, 0, site), channels = pare_fold_channels(config, site);
    *out = (pare_site_channels){.channels = channels};
    if (channels == 0)
        return pare_fail(cx, PARE_ENOTSUP, "nothing makes this input that could take a scale");
    if (channels == k)
        return PARE_OK;
    uint32_t *const channel = PARE_NEW(a, uint32_t, k);
    if (!channel)
        return PARE_ENOMEM;
    pare_fold_columns(config, site, channel);
    out->channel = channel;
    return PARE_OK;
}
