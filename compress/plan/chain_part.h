/* compress/plan/chain_part.h - what each of the two jobs of a chain (compress/plan/chain.h) does of
 * a recipe. */
#ifndef PARE_COMPRESS_PLAN_CHAIN_PART_H
#define PARE_COMPRESS_PLAN_CHAIN_PART_H

#include "compress/plan/plan.h"

/* Passes at the front of a recipe that make a smaller checkpoint, where others follow; else 0. */
size_t pare_chain_lead(const pare_recipe *r);

/* Whether one of those in front of a second job changes the basis of the whole model, which unties
 * its head. */
bool pare_chain_changes_basis(const pare_recipe *r);

/* Keeps of a parsed recipe what part `job->part` does. */
void pare_chain_cut(const pare_job *job, pare_recipe *r);

#endif
