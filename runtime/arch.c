#include "runtime/arch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/arch_internal.h"

const pare_arch *const pare_archs[] = {
    &pare__arch_llama,        &pare__arch_mistral,     &pare__arch_qwen2,
    &pare__arch_qwen3,        &pare__arch_smollm3,     &pare__arch_olmo2,
    &pare__arch_olmo3,        &pare__arch_glm4,        &pare__arch_granite,
    &pare__arch_qwen3_5_text, &pare__arch_gemma,       &pare__arch_gemma2,
    &pare__arch_gemma3_text,  &pare__arch_gpt2,        &pare__arch_opt,
    &pare__arch_gpt_neox,     &pare__arch_phi,         &pare__arch_phi3,
    &pare__arch_bitnet,       &pare__arch_mixtral,     &pare__arch_qwen2_moe,
    &pare__arch_qwen3_moe,    &pare__arch_gpt_oss,     &pare__arch_deepseek_v2,
    &pare__arch_deepseek_v3,  &pare__arch_llama4_text, &pare__arch_qwen3_5_moe_text,
    &pare__arch_qwen3_next,   &pare__arch_glm4_moe,    NULL,
};

const pare_arch *pare_arch_find(const char *model_type)
{
    for (const pare_arch *const *at = pare_archs; *at; at++) {
        const pare_arch *const a = *at;
        if (strcmp(a->model_type, model_type) == 0 || (a->also && strcmp(a->also, model_type) == 0))
            return a;
    }
    return NULL;
}

const pare_linear_desc *pare_arch_linear(const pare_arch *a, size_t part, pare_role role)
{
    static const pare_linear_desc absent = ABSENT;
    if (part == 0)
        return &a->linear[role];
    return a->experts && role >= PARE_ROLE_GATE ? &a->experts->linear[role] : &absent;
}

size_t pare_arch_name_in(const pare_arch *a, size_t block, size_t part, const char *name,
                         char *text, size_t size)
{
    char before[64], inside[64] = "";
    const int n = snprintf(before, sizeof before, a->block_prefix, block);
    const int m = part ? snprintf(inside, sizeof inside, a->experts->prefix, part - 1) : 0;
    if (n < 0 || (size_t)n >= sizeof before || m < 0 || (size_t)m >= sizeof inside)
        return 0;
    const int length = snprintf(text, size, "%s%s%s", before, inside, name);
    return length > 0 && (size_t)length < size ? (size_t)length : 0;
}

const char *pare_arch_inside(const pare_arch *a, const char *name, size_t *block)
{
    char prefix[64];
    const size_t before = strcspn(a->block_prefix, "%");
    if (strncmp(name, a->block_prefix, before) != 0)
        return NULL;
    *block = (size_t)strtoull(name + before, NULL, 10);
    const int len = snprintf(prefix, sizeof prefix, a->block_prefix, *block);
    return strncmp(name, prefix, (size_t)len) == 0 ? name + len : NULL;
}

bool pare_arch_expert(const pare_arch *a, const char *name, size_t *block, size_t *expert,
                      const char **rest)
{
    char prefix[64];
    const char *const inside = a->experts ? pare_arch_inside(a, name, block) : NULL;
    const size_t before = inside ? strcspn(a->experts->prefix, "%") : 0;
    if (!inside || strncmp(inside, a->experts->prefix, before) != 0)
        return false;
    *expert = (size_t)strtoull(inside + before, NULL, 10);
    const int len = snprintf(prefix, sizeof prefix, a->experts->prefix, *expert);
    *rest = inside + len;
    return strncmp(inside, prefix, (size_t)len) == 0;
}
