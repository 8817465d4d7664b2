/* Tensors of a checkpoint that have no place in its model. */
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"

enum { NAME = 256 };

typedef struct leftovers {
    const pare_checkpoint *ck;
    const pare_arch *arch;
    size_t blocks;
    bool *used; /* [ck->tensors] */
} leftovers;

/* Frequencies of rotary positions that older files keep: they follow from the configuration. */
static bool is_frequencies(const char *name)
{
    static const char end[] = ".rotary_emb.inv_freq";
    const size_t len = strlen(name);
    return len >= sizeof end - 1 && strcmp(name + len - (sizeof end - 1), end) == 0;
}

/* Whether a tensor of a block that the model has is a norm or an expert inside blocks of some
 * family: then the type is the wrong one, or there are experts too many. */
static bool is_known(const leftovers *l, const char *name)
{
    size_t block;
    const char *const rest = pare_arch_inside(l->arch, name, &block);
    if (!rest || block >= l->blocks)
        return false;
    for (const pare_arch *const *family = pare_archs; *family; family++) {
        const pare_arch *const a = *family;
        const char *const expert = a->experts ? a->experts->prefix : "%";
        if (expert[0] != '%' && strncmp(rest, expert, strcspn(expert, "%")) == 0)
            return true;
        for (pare_norm n = 0; n < PARE_NORMS; n++) {
            const char *const at = a->inner_norm[n] ? strstr(name, a->inner_norm[n]) : NULL;
            if (at && strcmp(at + strlen(a->inner_norm[n]), ".weight") == 0)
                return true;
        }
    }
    return false;
}

/* Whether the model uses a tensor whose name begins like this. */
static bool uses_any(const leftovers *l, const char *start, size_t len)
{
    for (size_t i = 0; i < l->ck->tensors; i++)
        if (l->used[i] && strncmp(l->ck->tensor[i].name, start, len) == 0)
            return true;
    return false;
}

/* Whether a tensor belongs to several linears that lay in one NAME.weight of the file, which were
 * taken apart: NAME.weight_scale, NAME.lora_A.weight. */
static bool belongs_to_fused(const leftovers *l, const char *name)
{
    size_t block;
    const char *const rest = pare_arch_inside(l->arch, name, &block);
    const size_t len = rest ? pare__fused_stem(l->arch, rest) : 0;
    return len && uses_any(l, name, (size_t)(rest - name) + len + 1);
}

/* Whether a tensor belongs to a linear or norm that the model has: NAME.bias, NAME.weight_scale,
 * NAME.lora_A.weight beside NAME.weight; or to its head, tied or not. */
static bool belongs_to_used(const leftovers *l, const char *name)
{
    char base[NAME];
    const size_t head = strlen(l->arch->head);
    if (strncmp(name, l->arch->head, head) == 0 && name[head] == '.')
        return true;
    for (const char *dot = strchr(name, '.'); dot; dot = strchr(dot + 1, '.')) {
        const int n = snprintf(base, sizeof base, "%.*s.weight", (int)(dot - name), name);
        const pare_tensor *const t =
            n > 0 && (size_t)n < sizeof base ? pare_checkpoint_find(l->ck, base) : NULL;
        if (t && l->used[t - l->ck->tensor])
            return true;
    }
    return belongs_to_fused(l, name);
}

/* Scales of a cache of keys and values, whose form is chosen when the model runs, under the names
 * that programs gave them beside the projections. */
static bool is_cache_scale(const char *name)
{
    static const char *const ends[] = {".k_proj.k_scale",      ".v_proj.v_scale",
                                       ".k_proj.output_scale", ".v_proj.output_scale",
                                       ".qkv_proj.k_scale",    ".qkv_proj.v_scale"};
    const size_t len = strlen(name);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (len > strlen(ends[i]) && strcmp(name + len - strlen(ends[i]), ends[i]) == 0)
            return true;
    return false;
}

/* A bias of zeros, as GPTQ files have beside linears without one, changes nothing. */
static bool is_zero_bias(const pare_tensor *t)
{
    static const char end[] = ".bias";
    const size_t len = strlen(t->name);
    const char *const data = t->data;
    if (len < sizeof end - 1 || strcmp(t->name + len - (sizeof end - 1), end) != 0 || !data)
        return false;
    for (uint64_t i = 0; i < t->bytes; i++)
        if (data[i])
            return false;
    return true;
}

static void warn_unused(const leftovers *l, const size_t *unused, size_t count)
{
    enum { NAMED = 3 };
    char names[NAMED * (NAME + 2)] = "";
    size_t at = 0;
    for (size_t i = 0; i < NAMED && i < count; i++) {
        const int n = snprintf(names + at, sizeof names - at, "%s%.*s", i ? ", " : "", NAME - 1,
                               l->ck->tensor[unused[i]].name);
        at += n > 0 ? (size_t)n : 0;
    }
    pare_warn(l->ck->cx,
              "%s: %zu tensor%s left out: a model of type %s with this config.json does not "
              "use %s (%s%s)",
              l->ck->path, count, count == 1 ? " is" : "s are", l->arch->model_type,
              count == 1 ? "it" : "them", names, count > NAMED ? ", ..." : "");
}

static pare_status fail_place(const leftovers *l, size_t i)
{
    char whole[NAME], entry[NAME];
    return pare_fail(l->ck->cx, PARE_EFORMAT,
                     "%s: tensor %s has no place in a model of type %s with this config.json%s",
                     l->ck->file[l->ck->tensor_file[i]].path,
                     pare__name_in_files(l->ck, l->arch, l->ck->tensor[i].name, whole),
                     l->arch->model_type,
                     pare__config_entry(l->ck, l->arch, l->ck->tensor[i].name, entry));
}

/* What the model does not use is left out with a warning, as transformers does. Refused is what
 * would change what the model computes: a part of something that it does use, a norm inside a
 * block; and any tensor of an artifact or a GGUF file, whose engine refuses it, too. */
pare_status pare__model_check_used(const pare_checkpoint *ck, pare_arena *scratch,
                                   const pare_arch *arch, size_t blocks, bool *used)
{
    const leftovers all = {ck, arch, blocks, used}, *const l = &all;
    size_t *const unused = PARE_NEW(scratch, size_t, ck->tensors + 1);
    size_t count = 0;
    if (!unused)
        return PARE_ENOMEM;
    for (size_t i = 0; i < ck->tensors; i++) {
        const char *const name = ck->tensor[i].name;
        l->used[i] =
            l->used[i] || is_frequencies(name) || (ck->unpacked && is_zero_bias(&ck->tensor[i]));
        if (l->used[i])
            continue;
        unused[count++] = i;
        if (ck->packed || ck->arranged || (belongs_to_used(l, name) && !is_cache_scale(name)) ||
            is_known(l, name))
            return fail_place(l, i);
    }
    if (count)
        warn_unused(l, unused, count);
    return PARE_OK;
}
