/* runtime/fold.h - equivalent transformations of a block in floats (pare_block_take of
 * runtime/leaves.h). Where the family has experts, all this is about part 0 (runtime/arch.h).
 *
 * A linear reads x of its site; what makes x is the site's producer (the architecture table): a
 * norm, or the rows of another linear. Dividing a channel of the producer by s and multiplying the
 * columns that read it by s, or subtracting z from the channel and adding W z to the biases of the
 * readers, leaves the block's output as it is, up to rounding.
 *
 * Channels are what can be chosen freely: one per input column, except that the outputs of one
 * value head are read once per query head of its group (ATTENDED): there a channel spreads over
 * several columns. */
#ifndef PARE_RUNTIME_FOLD_H
#define PARE_RUNTIME_FOLD_H

#include "runtime/leaves.h"

/* Index of the norm that makes the input of a site: 0, 1; or -1 when no norm does. */
int pare_site_norm(const pare_config *c, pare_site site);

/* Channels of a site that can be chosen freely; 0 when it has no producer. */
size_t pare_fold_channels(const pare_config *c, pare_site site);

/* Values per channel to values per input column: k_values [pare_site_width]. */
void pare_fold_spread(const pare_config *c, pare_site site, const float *channel, float *k_values);

/* The channel that each input column reads: channel [pare_site_width]. */
void pare_fold_columns(const pare_config *c, pare_site site, uint32_t *channel);

/* Columns of the site's linears times s, the channels of its producer divided by it.
 *   s  [channels], finite and above 0
 * PARE_EINVAL (a scale that is not, by its index), PARE_ENOTSUP (no producer). On failure nothing
 * has changed. Threads over rows; exact. */
PARE_CHECKED pare_status pare_fold_scale(pare_ctx *cx, const pare_config *c, pare_block *block,
                                         pare_site site, const float *s);

/* Subtracts z from the channels of the producer and adds W z to the biases of the site's linears.
 *   z  [channels], finite
 * PARE_EINVAL (not finite; no room for a bias), PARE_ENOTSUP (no producer, or the input of down: a
 * product has no bias to take z). On failure nothing has changed. Sums in double, in
 * the order of columns; threads over rows; exact. */
PARE_CHECKED pare_status pare_fold_shift(pare_ctx *cx, const pare_config *c, pare_block *block,
                                         pare_site site, const float *z);

/* True when the rows of `role` are channels of the site and change places with them: gate and up
 * for the input of down, v for that of o. */
bool pare_fold_reorders(const pare_config *c, pare_site site, pare_role role);

/* The order of channels as one of input columns: column j becomes what column[j] was. */
void pare_fold_sources(const pare_config *c, pare_site site, const uint32_t *from,
                       uint32_t *column);

/* Gives the channels of a site another order: channel i becomes what channel from[i] was, in the
 * columns of the site's linears and in the rows that make them. ATTENDED: channels stay in their
 * head. Sites behind a norm share their channels with the residual stream and have no order of
 * their own.
 *   from  [channels], each channel once
 * PARE_EINVAL (not an order, a channel of another head, by its index), PARE_ENOTSUP (behind a
 * norm), PARE_ENOMEM. On failure nothing has changed. Memory  a row per worker, channels + columns
 * x 4 bytes from `scratch`, given back. Threads over rows; exact. */
PARE_CHECKED pare_status pare_fold_permute(pare_ctx *cx, pare_arena *scratch, const pare_config *c,
                                           pare_block *block, pare_site site, const uint32_t *from);

#endif
