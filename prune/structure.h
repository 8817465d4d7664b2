/* prune/structure.h - parts of a block that go as a whole, so that what is left is a smaller model.
 *
 *   heads     a unit is a key/value head with the query heads that read it: rows of q, k and v,
 *             columns of o
 *   channels  a unit is a channel of the MLP: a row of gate and up, a column of down
 *   experts   a unit is an expert of a mixture with its row of the router; the rest of this header
 *             but pare_part_name, _units, _kept and pare_structure_choose is not for them
 *             (prune/reap.h)
 *
 * What goes is chosen by a score per unit (prune/channels.h, prune/flap.h). A block keeps its
 * shapes while it is in memory: the units that stay move to the front in their order, zeros follow,
 * and the outputs are those of the smaller block. Source: Ma et al., LLM-Pruner, NeurIPS 2023
 * (units). */
#ifndef PARE_PRUNE_STRUCTURE_H
#define PARE_PRUNE_STRUCTURE_H

#include "calib/moments.h"
#include "runtime/fold.h"

typedef enum pare_part {
    PARE_PART_HEADS,
    PARE_PART_CHANNELS,
    PARE_PART_EXPERTS,
    PARE_PARTS
} pare_part;

enum { PARE_CHANNELS_STEP = 32 }; /* as many MLP channels as stay are a multiple of this */

/* A block and what is known of the inputs of o or down. */
typedef struct pare_structure {
    const pare_config *config;
    const pare_block *block;
    pare_part part;
    const pare_moments *moments; /* of pare_part_site; NULL when the score needs none */
    uint64_t seed;
    size_t number; /* of the block */
} pare_structure;

/* "heads", "channels", "experts". */
const char *pare_part_name(pare_part p);

/* The input that units are columns of, and the linear that reads it: o, down. */
pare_site pare_part_site(pare_part p);
pare_role pare_part_role(pare_part p);

/* Units of a block, and the columns of o or down that one is. */
size_t pare_part_units(const pare_config *c, pare_part p);
size_t pare_part_width(const pare_config *c, pare_part p);

/* Units that stay when the share `ratio` goes: ceil((1 - ratio) count), up to the next multiple of
 * `step`, at least one step and at most count. A product within 1e-6 of a whole number counts as
 * it. */
size_t pare_part_kept(size_t count, double ratio, size_t step);

/* keep[i] = 1 for the `kept` units with the highest scores, 0 for the others; of equal scores the
 * lower unit goes first. PARE_ENUMERIC for a score that is negative or not finite, by its unit;
 * PARE_ENOMEM. Scratch is given back. */
PARE_CHECKED pare_status pare_structure_choose(pare_ctx *cx, pare_arena *scratch,
                                               const double *score, size_t count, size_t kept,
                                               uint8_t *keep);

/* Moves the units with keep[i] != 0 to the front, zeros behind them: weights and biases. */
void pare_structure_move(const pare_config *c, pare_block *block, pare_part p, const uint8_t *keep);

#endif
