/* compress/run/run_mixture.h - experts in a job of several processes (runtime/world.h): each counts
 * the tokens of its windows, and has the linears that process 0 has stored of the block, packed, so
 * that what runs there is what runs here. With one process nothing is sent. */
#ifndef PARE_COMPRESS_RUN_RUN_MIXTURE_H
#define PARE_COMPRESS_RUN_RUN_MIXTURE_H

#include "calib/stats.h"
#include "compress/artifact/manifest.h"

typedef struct pare_run pare_run; /* compress/run/run_internal.h */

/* All: run->experts.reach and routed, from a pass of the wave through the current block.
 * PARE_ENOMEM, and what the wave returns. */
PARE_CHECKED pare_status pare__mixture_count(pare_run *run, size_t block);

/* Tokens in front of a share that the router sends to other experts than `part`, once counted; and,
 * in front of a pass of the wave, run->experts.fill begins at the shares of this process. */
uint64_t pare__mixture_others(const pare_run *run, size_t part, size_t share);
void pare__mixture_fill_begin(pare_run *run);

/* All, behind an order that names `count` linears that were stored: their planes go from process 0
 * to the others, which run them from there on, in experts.views. `s` is how it went so far.
 * PARE_ENOMEM, PARE_EIO, PARE_EFORMAT. */
PARE_CHECKED pare_status pare__mixture_spread(pare_run *run, size_t count, pare_status s);

/* Process 0: the experts of a pass of the wave, whose statistics are there, through all steps, some
 * of them elsewhere; `compress` does one, `load` makes floats of one. What they return. */
typedef struct pare_mixture_work {
    size_t block, first, count; /* experts, from 0 */
    unsigned sites;             /* bit per site */
    pare_stats *stats;          /* [count] */
    pare_unit_result *unit;
} pare_mixture_work;
typedef pare_status pare_mixture_compress(pare_run *run, const pare_mixture_work *work, size_t i);
typedef void pare_mixture_load(pare_run *run, const pare_mixture_work *work, size_t i);
PARE_CHECKED pare_status pare__mixture_run(pare_run *run, const pare_mixture_work *work,
                                           pare_mixture_load *load,
                                           pare_mixture_compress *compress);

/* Warns of the experts of a block that an earlier run did, by its results, as that run did. */
void pare__run_experts_retell(pare_run *run, size_t block, const pare_unit_result *unit);

#endif
