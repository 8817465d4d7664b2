/* compress/passes/site_channels.h - which input columns of a site share a channel, for functions
 * that know matrices only. */
#ifndef PARE_COMPRESS_PASSES_SITE_CHANNELS_H
#define PARE_COMPRESS_PASSES_SITE_CHANNELS_H

#include "compress/passes/pass.h"

typedef struct pare_site_channels {
    size_t channels;
    const uint32_t *channel; /* [k] channel of each column; NULL: each its own */
} pare_site_channels;

/* Taken from the arena. PARE_ENOMEM, PARE_ENOTSUP when the site has no producer. */
PARE_CHECKED pare_status pare_site_channels_take(pare_ctx *cx, pare_arena *a,
                                                 const pare_config *config, pare_site site,
                                                 pare_site_channels *out);

#endif
