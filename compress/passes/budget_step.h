/* compress/passes/budget_step.h - the step `budget` of a recipe: its parameters and their words. */
#ifndef PARE_COMPRESS_PASSES_BUDGET_STEP_H
#define PARE_COMPRESS_PASSES_BUDGET_STEP_H

/* Indices into its parameter table. */
enum {
    PARE_BUDGET_BITS,
    PARE_BUDGET_BYTES,
    PARE_BUDGET_SPEED,
    PARE_BUDGET_FUSE,
    PARE_BUDGET_GRIDS,
    PARE_BUDGET_TOKENS
};

enum { PARE_BUDGET_FUSED_AUTO, PARE_BUDGET_FUSED, PARE_BUDGET_SINGLE };
enum { PARE_BUDGET_UNIFORM, PARE_BUDGET_ALL_GRIDS, PARE_BUDGET_TRELLIS };

/* The setting that carries the activations while variants are made. */
enum { PARE_BUDGET_BASE_BITS = 4, PARE_BUDGET_BASE_GROUP = 128 };

#endif
