/* Families of today that are not computed yet: what is missing, for the message that refuses them.
 *
 * Source  the modeling files of transformers 5. */
#include <string.h>

#include "formats/config_internal.h"

typedef struct missing {
    const char *types; /* of config.json, and architectures of GGUF files; a space between two */
    const char *what;
} missing;

static const missing list[] = {
    {"llama4", "Llama 4 as GGUF files hold it; take the model's own safetensors files"},
    {"deepseek2", "latent attention as GGUF files hold it; take the model's own safetensors files"},
    {"deepseek_v32 deepseek_v4", "sparse attention, whose keys an indexer picks"},
    {"kimi_k25 glm4_moe_lite mistral4",
     "latent attention under the names of this type, only under those of deepseek_v3 and kimi_k2"},
    {"gemma3n gemma3n_text",
     "parallel streams (AltUp), embeddings for each block, and keys and values that blocks share"},
    {"gemma4 gemma4_text",
     "heads of other widths in blocks with a window, embeddings for each block, and keys and "
     "values that blocks share"},
    {"qwen35 qwen35moe qwen3next", "a recurrent state (Gated DeltaNet) from GGUF files"},
    {"glm4moe", "GLM 4.5 as GGUF files hold it; take the model's own safetensors files"},
    {"mistral3 ministral3", "a scale of queries that grows with the position"},
    {"granitemoe", "experts in one tensor, and multipliers of the embedding, the scores, the "
                   "stream and the logits"},
    {"cohere cohere2 command-r", "norms that take the mean away and have no bias, and a scale of "
                                 "the logits"},
    {"mamba mamba2 nemotron_h granitemoehybrid granitehybrid falcon_h1 jamba",
     "blocks with a recurrent state (Mamba)"},
    {"falcon", "its form of fused q, k and v with one key head for groups of query heads"},
};

/* Whether a word stands in a list of words with a space between two. */
static bool has(const char *words, const char *word)
{
    const size_t len = strlen(word);
    for (const char *at = strstr(words, word); at && len; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || at[len] == '\0'))
            return true;
    return false;
}

const char *pare__config_missing(const char *model_type)
{
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (has(list[i].types, model_type))
            return list[i].what;
    return NULL;
}
