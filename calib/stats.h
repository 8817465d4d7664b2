/* calib/stats.h - what calibration tells of the inputs of linears, one set per site of a part of a
 * block (runtime/arch.h).
 *
 *   H        sum over tokens of w x x^T, w their weights (calib/token_weights.h) or 1. The factor
 *            2/T of the papers is left out: GPTQ, its damping and relative errors do not change
 *            when H is scaled.
 *   fourth   with H: sum over tokens of (w x^2)^2 of each column, for what H rests on
 *            (calib/support.h); NULL where that is not known (calib/imatrix.h).
 *   channels per input column: max |x|, mean |x|, mean, least and largest x.
 *   loudness with any of these: energy of the tokens; with H each times its weight.
 *   held     with H: the same sum over the tokens behind the first `held_from`.
 *   drift    with H: how these inputs have moved from those in the float model.
 *   bf16     no statistic: H, held and drift are of inputs rounded to BF16 (runtime/gram_bf16.h).
 *   sample   up to PARE_STATS_ROWS inputs, evenly spread over all tokens.
 *
 * Batches are added in the order in which the wave brings them, in shares of the windows
 * (calib/shares.h). Statistics follow a fold
 * (runtime/fold.h), so that a block needs one pass of the wave whatever is folded. */
#ifndef PARE_CALIB_STATS_H
#define PARE_CALIB_STATS_H

#include "calib/drift.h"
#include "calib/loudness.h"
#include "calib/support.h"
#include "runtime/forward.h"

/* Kinds of statistics, a bit each. */
enum {
    PARE_STATS_HESSIAN = 1u << 0,
    PARE_STATS_CHANNELS = 1u << 1,
    PARE_STATS_SAMPLE = 1u << 2,
    PARE_STATS_DRIFT = 1u << 3,
    PARE_STATS_HELD = 1u << 4,
    PARE_STATS_BF16 = 1u << 5
};

enum { PARE_STATS_ROWS = 256 };
enum { PARE_HELD_PART = 4 }; /* one window of so many is held out, the last ones */

/* Statistics of one site; what was not asked for is NULL. */
typedef struct pare_site_stats {
    size_t k;
    uint64_t tokens;                            /* seen */
    const float *weight;                        /* [tokens], in the order they come; NULL: 1 */
    float *h;                                   /* [k, k] lower triangle */
    float *diagonal, *held_diagonal;            /* [k] of the totals over shares */
    pare_loudness loudness;                     /* until pare_stats_support */
    float *held;                                /* [k, k] lower triangle */
    pare_drift drift;                           /* pare_stats_take_drift */
    double *fourth;                             /* [2, k] and its total; until pare_stats_support */
    float *weighed;                             /* with H: room for some rows */
    uint16_t *side;                             /* the same of those in BF16, instead */
    float *absmax, *absmean, *mean, *min, *max; /* [k] */
    float *sample;                              /* [samples, k] */
    size_t samples;
    double *sum, *abs_sum; /* [2, k] behind the means, and their totals */
    bool identity;         /* of no inputs: pare_stats_identity, pare_stats_identity_hessian */
    bool alone;            /* the step at hand works on one linear that reads these inputs */
    pare_support support;  /* of the inputs as they were gathered; pare_stats_support */
} pare_site_stats;

typedef struct pare_stats {
    pare_ctx *cx;
    pare_site_stats site[PARE_SITES];
    uint64_t total;      /* tokens that will be seen: places the sample */
    uint64_t held_from;  /* tokens in front of those of `held`; none before it is set */
    unsigned active;     /* bit per site that pare_stats_tap adds to */
    unsigned char *kept; /* where the next share goes, as pare_stats_share_take has it; NULL: it is
                            added to those before it */
} pare_stats;

/* Bytes of the statistics `kinds[site]` of a part, at most. */
uint64_t pare_stats_bytes(const pare_config *c, size_t part, const unsigned kinds[PARE_SITES]);

/* Zeroed statistics of a part in the arena; active: every site with a kind.
 *   tokens  that the taps will see in all
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_stats_take(pare_ctx *cx, pare_arena *a, const pare_config *c,
                                         size_t part, const unsigned kinds[PARE_SITES],
                                         uint64_t tokens, pare_stats *out);

/* Drift at the sites whose kinds ask for it, one of them where it is kept in a file (else NULL),
 * and room for batches of up to `rows` tokens at those of them that are active, while tokens come;
 * behind them what is in that room is forgotten. PARE_ENOMEM; what the file said; bytes of both, at
 * most. */
PARE_CHECKED pare_status pare_stats_take_drift(pare_arena *a, const unsigned kinds[PARE_SITES],
                                               const pare_spill *file, pare_stats *s);
PARE_CHECKED pare_status pare_stats_drift_done(pare_stats *s);
PARE_CHECKED pare_status pare_stats_drift_room(pare_arena *a, size_t rows, pare_stats *s);
uint64_t pare_stats_drift_bytes(const pare_config *c, const unsigned kinds[PARE_SITES]);
uint64_t pare_stats_drift_room_bytes(const pare_config *c, const unsigned kinds[PARE_SITES],
                                     size_t rows);

/* A tap on the float model for drift: a batch passes through it before its inputs in the compressed
 * one reach pare_stats_tap, which is active at the same sites. */
pare_tap pare_stats_float_tap(pare_stats *s);

/* A tap that adds to the statistics of the active sites of part 0; the block stops behind the last
 * of them. Same bytes for any number of threads. */
pare_tap pare_stats_tap(pare_stats *s);

/* Statistics of several parts. */
typedef struct pare_stats_parts {
    pare_stats *of;      /* [parts] */
    size_t first, parts; /* first .. first + parts - 1 */
} pare_stats_parts;

/* The same tap for all of them at once: one pass of the wave. Not active anywhere: nothing to see.
 */
pare_tap pare_stats_tap_parts(pare_stats_parts *s);

/* For processes that share the windows (calib/shares.h). Of the active sites of part 0: bytes of
 * what a share adds; begins at a share whose first token has number `token`; takes what the tap
 * added since, for the next share to begin at 0; and puts it, of so many tokens, where a tap would
 * have added it: then the tap's `share` is to be called. PARE_EFORMAT for a sample that does not
 * fit. */
size_t pare_stats_share_bytes(const pare_stats *s);
void pare_stats_share_begin(pare_stats *s, uint64_t token);
void pare_stats_share_take(pare_stats *s, unsigned char *bytes);
PARE_CHECKED pare_status pare_stats_share_put(pare_stats *s, unsigned char *bytes, uint64_t tokens);

/* What statistics rest on, once all tokens were seen and before any fold: `support` of the sites of
 * `group` (bit per site) that are active; without H its share of the loudest token alone.
 * PARE_ENOMEM. */
PARE_CHECKED pare_status pare_stats_support(pare_arena *scratch, pare_stats *s, unsigned group);

/* Statistics of inputs that nobody saw: H is the identity, columns have mean 0 and size 1, there is
 * no sample and no drift. A method that weighs errors by them weighs all the same.
 */
void pare_stats_identity(pare_site_stats *stats);

/* The same for H alone; columns keep what was measured. */
void pare_stats_identity_hessian(pare_site_stats *stats);

/* x becomes x / s:  s [k], above 0. The same as if the tap had seen the scaled inputs, up to
 * rounding. */
void pare_stats_scale(pare_site_stats *stats, const float *s);

/* x becomes x - z:  z [k]. Not with drift or held. Needs the channels for H (its change follows
 * from the means). The mean of |x - z| follows from no statistic: it is taken over the sample, and
 * without one it is set to its bound max |x - z|. */
void pare_stats_shift(pare_site_stats *stats, const float *z);

/* Column j becomes what column[j] was, exactly. PARE_ENOMEM: then nothing has changed. Takes a copy
 * of H and k doubles from `scratch`, given back. */
PARE_CHECKED pare_status pare_stats_permute(pare_arena *scratch, pare_site_stats *stats,
                                            const uint32_t *column);

#endif
