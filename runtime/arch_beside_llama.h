/* runtime/arch_beside_llama.h - entries of the table in arch.c, which alone includes this: families
 * with linears, names and words of llama that compute a little otherwise. */
#ifndef PARE_RUNTIME_ARCH_BESIDE_LLAMA_H
#define PARE_RUNTIME_ARCH_BESIDE_LLAMA_H

#include "runtime/arch.h"

#define SMOLLM3                                                                                    \
    {                                                                                              \
        .model_type = "smollm3",                                                                   \
        .summary = "SmolLM 3: llama in which every fourth block has no positions", LLAMA_TENSORS,  \
        .linear = LLAMA_LINEARS(PARE_BIAS_ASKED, PARE_BIAS_ASKED, PARE_BIAS_ASKED),                \
        .producer = GATED_PRODUCERS, .context = 32768, .words = &llama_words,                      \
        .demands = (const pare_demand[]){{"use_sliding_window", false}, {.key = NULL}},            \
        .norm_eps = 1e-6, .rope_theta = 2000000, .rotary_share = 1, .unturned_period = 4,          \
        .tied = true,                                                                              \
    }

#endif
