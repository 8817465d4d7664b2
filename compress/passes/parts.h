/* compress/passes/parts.h - what passes share that take out heads and MLP channels. */
#ifndef PARE_COMPRESS_PASSES_PARTS_H
#define PARE_COMPRESS_PASSES_PARTS_H

#include "compress/passes/pass.h"

/* The first rows of their parameter tables, and their indices. */
enum { PARE_PARTS_RATIO, PARE_PARTS_HEADS, PARE_PARTS_FFN, PARE_PARTS_PARAMS };

// clang-format off
#define PARE_PARTS_TABLE                                                                           \
    [PARE_PARTS_RATIO] = {.name = "ratio", .type = PARE_PARAM_NUMBER, .min = 0.01, .max = 0.95,    \
        .fallback = 0.2,                                                                           \
        .help = "share of the heads and of the MLP channels of each block that goes"},             \
    [PARE_PARTS_HEADS] = {.name = "heads", .type = PARE_PARAM_BOOL, .fallback = 1,                 \
        .help = "take out key/value heads with their query heads; as many as stay round up, to a " \
                "number of query heads that divides hidden_size"},                                 \
    [PARE_PARTS_FFN] = {.name = "ffn", .type = PARE_PARAM_BOOL, .fallback = 1,                     \
        .help = "take out MLP channels; as many as stay round up to a multiple of 32"}
// clang-format on

/* The shares that go. */
static inline pare_pass_structure pare_parts_structure(const double *value)
{
    const double ratio = value[PARE_PARTS_RATIO];
    return (pare_pass_structure){
        .share = {[PARE_PART_HEADS] = value[PARE_PARTS_HEADS] != 0.0 ? ratio : 0.0,
                  [PARE_PART_CHANNELS] = value[PARE_PARTS_FFN] != 0.0 ? ratio : 0.0}};
}

#endif
