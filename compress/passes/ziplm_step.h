/* compress/passes/ziplm_step.h - the step `ziplm` of a recipe: its parameters. */
#ifndef PARE_COMPRESS_PASSES_ZIPLM_STEP_H
#define PARE_COMPRESS_PASSES_ZIPLM_STEP_H

/* Indices into its parameter table. */
enum { PARE_ZIPLM_RATIO, PARE_ZIPLM_SPEEDUP, PARE_ZIPLM_SPEED };

/* Why a step with a speed has no other beside it. */
extern const char pare_search_alone[];

#endif
