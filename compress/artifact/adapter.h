/* compress/artifact/adapter.h - adapters (LoRA) of a training: what is said of them, and the files
 * in which PEFT keeps them.
 *
 *   adapter_config.json       rank, alpha, the linears, the model they belong to
 *   adapter_model.safetensors base_model.model.NAME.lora_A.weight F32 [r, k], .lora_B.weight [n, r]
 *
 * Source: huggingface/peft, LoraConfig and get_peft_model_state_dict. */
#ifndef PARE_COMPRESS_ARTIFACT_ADAPTER_H
#define PARE_COMPRESS_ARTIFACT_ADAPTER_H

#include <stdbool.h>

#include "formats/json.h"
#include "runtime/arena.h"

#define PARE_ADAPTER_CONFIG "adapter_config.json"
#define PARE_ADAPTER_MODEL  "adapter_model.safetensors"

typedef struct pare_adapter_result {
    size_t rank;
    double alpha;
    bool rslora;
    bool merged;               /* the output is a model with the adapters in its weights */
    const char *const *target; /* [targets] a last word of names, where all such linears of the
                                  blocks have an adapter; else a whole name */
    size_t targets;
    size_t linears;         /* that have one */
    uint64_t base, trained; /* weights of these linears; of A and B */
} pare_adapter_result;

/* The member "adapter" of an open object. */
void pare_adapter_put(pare_json_writer *w, const pare_adapter_result *r);

/* Text of adapter_config.json, in the arena; model: the base model. PARE_ENOMEM. */
PARE_CHECKED pare_status pare_adapter_config(pare_ctx *cx, pare_arena *a,
                                             const pare_adapter_result *r, const char *model,
                                             char **text, size_t *len);

#endif
