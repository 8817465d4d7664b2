/* A tensor that a model needs and a checkpoint lacks, in words that say what to do. */
#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/arch.h"

enum { NAME = 256 };

/* The first name that ends in `end`, which begins with a dot; NULL without one. */
static const char *ends_in(const pare_checkpoint *ck, const char *end)
{
    const size_t n = strlen(end);
    for (size_t i = 0; i < ck->tensors; i++) {
        const size_t len = strlen(ck->tensor[i].name);
        if (len > n && strcmp(ck->tensor[i].name + len - n, end) == 0)
            return ck->tensor[i].name;
    }
    return NULL;
}

/* The same tensor under a name with another beginning, which has no number of a block in it. */
static const char *elsewhere(const pare_checkpoint *ck, const pare_arch *arch, const char *name)
{
    char end[NAME + 1];
    const size_t prefix = arch->prefix ? strlen(arch->prefix) : 0;
    const bool has = prefix && strncmp(name, arch->prefix, prefix) == 0;
    (void)snprintf(end, sizeof end, ".%s", name + (has ? prefix : 0));
    const char *const found = ends_in(ck, end);
    const char *const number = found ? strpbrk(found, "0123456789") : NULL;
    return number && number < found + strlen(found) - strlen(end) ? NULL : found;
}

/* All experts of a block in one tensor, as transformers 5 has them in memory. */
static const char *stacked(const pare_checkpoint *ck, const pare_arch *arch, const char *name)
{
    static const char *const ends[] = {".experts.gate_up_proj", ".experts.gate_up_proj_packed"};
    const char *found = NULL;
    for (size_t i = 0; arch->experts && strstr(name, ".experts.") && !found && i < 2; i++)
        found = ends_in(ck, ends[i]);
    return found;
}

/* Whether `rest` is of an expert, and the bytes in front of its number. */
static bool is_expert(const pare_arch *arch, const char *rest, size_t *stem)
{
    *stem = arch->experts ? strcspn(arch->experts->prefix, "%") : 0;
    return *stem && strncmp(rest, arch->experts->prefix, *stem) == 0;
}

/* Of a family that has blocks with and without experts: a tensor of the other kind of block than
 * config.json says. */
static pare_status fail_kind(const pare_checkpoint *ck, const pare_arch *arch, const char *base,
                             const char *suffix)
{
    char name[NAME];
    size_t block, stem;
    const char *const rest = arch->dense ? pare_arch_inside(arch, base, &block) : NULL;
    if (!rest)
        return PARE_OK;
    const char *const shared = arch->linear[PARE_ROLE_GATE].name;
    const char *const dense = arch->dense->linear[PARE_ROLE_GATE].name;
    const char *const router = arch->experts->router;
    const bool mixed = is_expert(arch, rest, &stem) || strcmp(rest, router) == 0 ||
                       (shared && strcmp(rest, shared) == 0);
    if (!mixed && strcmp(rest, dense) != 0)
        return PARE_OK;
    (void)snprintf(name, sizeof name, "%.*s%s.weight", (int)(rest - base), base,
                   mixed ? dense : router);
    if (!pare_checkpoint_find(ck, name))
        return PARE_OK;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: tensor %s%s is missing: block %zu has %sexperts by config.json (%s), but "
                     "the file has %s, of a block %s experts",
                     ck->path, base, suffix, block, mixed ? "" : "no ",
                     arch->experts->inward ? "moe_layers, interleave_moe_layer_step"
                                           : "first_k_dense_replace",
                     name, mixed ? "without" : "with");
}

/* Of the first expert of a block, in a family whose files hold all of them in one tensor. */
static pare_status fail_stack(const pare_checkpoint *ck, const pare_arch *arch, const char *base,
                              const char *suffix)
{
    size_t block, stem;
    const char *const rest = pare_arch_inside(arch, base, &block);
    if (!rest || !is_expert(arch, rest, &stem) || !arch->experts->stacking ||
        strncmp(rest + stem, "0.", 2) != 0)
        return PARE_OK;
    const bool down = strcmp(rest + stem + 2, arch->experts->linear[PARE_ROLE_DOWN].name) == 0;
    return pare_fail(ck->cx, PARE_EFORMAT,
                     "%s: tensor %.*s%s%s is missing, which holds all experts of block %zu; nor is "
                     "there one for each of them, %s%s and so on",
                     ck->path, (int)(rest + stem - base), base, down ? "down_proj" : "gate_up_proj",
                     strcmp(suffix, ".bias") == 0 ? "_bias" : "", block, base, suffix);
}

size_t pare__fused_stem(const pare_arch *arch, const char *rest)
{
    const pare_recurrence_names *const state = arch->recurrent ? arch->recurrent->recurrence : NULL;
    const char *const fused[] = {arch->fused[0].name, arch->fused[1].name,
                                 state ? state->fused[0] : NULL, state ? state->fused[1] : NULL};
    for (size_t i = 0; i < sizeof fused / sizeof *fused; i++) {
        const size_t len = fused[i] ? strlen(fused[i]) : 0;
        if (len && strncmp(rest, fused[i], len) == 0 && rest[len] == '.')
            return len;
    }
    return 0;
}

/* What stands behind the name of a linear at the start of `rest`; NULL: it is of another. */
static const char *suffix_of(const char *rest, const char *linear)
{
    const size_t len = linear ? strlen(linear) : 0;
    return len && strncmp(rest, linear, len) == 0 && rest[len] == '.' ? rest + len : NULL;
}

const char *pare__name_in_files(const pare_checkpoint *ck, const pare_arch *arch, const char *name,
                                char *text)
{
    size_t block;
    const char *const rest = ck->packed ? NULL : pare_arch_inside(arch, name, &block);
    const size_t stem = rest ? pare__fused_stem(arch, rest) : 0;
    const char *suffix = NULL;
    for (const pare_arch *a = stem ? arch : NULL; a && !suffix; a = a->recurrent) {
        for (size_t role = 0; role < PARE_ROLES && !suffix; role++)
            suffix = suffix_of(rest, a->linear[role].name);
        if (a->recurrence && !suffix)
            suffix = suffix_of(rest, a->recurrence->beta);
        if (a->recurrence && !suffix)
            suffix = suffix_of(rest, a->recurrence->decay);
    }
    (void)snprintf(text, NAME, "%.*s%s", suffix ? (int)(rest + stem - name) : NAME - 1, name,
                   suffix ? suffix : "");
    return text;
}

pare_status pare__checkpoint_fail_missing(const pare_checkpoint *ck, const pare_arch *arch,
                                          const char *base, const char *suffix)
{
    char name[NAME];
    const char *const slash = strrchr(ck->path, '/'), *is;
    (void)snprintf(name, sizeof name, "%s%s", base, suffix);
    if (ck->packed || ck->arranged)
        return pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is missing", ck->path, name);
    if (fnmatch("*-[0-9]*-of-[0-9]*", slash ? slash + 1 : ck->path, 0) == 0)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: tensor %s is missing: by its name this is one of several files of a "
                         "model; give their directory",
                         ck->path, name);
    PARE_TRY(fail_kind(ck, arch, base, suffix));
    PARE_TRY(fail_stack(ck, arch, base, suffix));
    if ((is = stacked(ck, arch, name)) != NULL)
        return pare_fail(ck->cx, PARE_ENOTSUP,
                         "%s: tensor %s is missing: %s holds all experts of a block in one "
                         "tensor, which pare does not read; save the model with "
                         "save_original_format=True (transformers 5)",
                         ck->path, name, is);
    if ((is = elsewhere(ck, arch, name)) != NULL)
        return pare_fail(ck->cx, PARE_EFORMAT,
                         "%s: tensor %s is missing; %s is there: names begin in another way than "
                         "those of a model of type %s, as in a model with more parts or saved "
                         "inside a wrapper; save the language model by itself",
                         ck->path, name, is, arch->model_type);
    char whole[NAME];
    const pare_status s = pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is missing", ck->path,
                                    pare__name_in_files(ck, arch, name, whole));
    return pare__config_fail_usual(ck, s);
}

/* Who writes such a tensor. */
static const char *why_shape(const pare_tensor *t)
{
    bool empty = false;
    for (size_t i = 0; i < t->rank; i++)
        empty |= t->shape[i] == 0;
    return empty ? ": it is empty, as DeepSpeed ZeRO-3 and FSDP save what other processes hold; "
                   "gather the weights when you save the model (zero_to_fp32.py does so later)"
                 : "";
}

pare_status pare__checkpoint_fail_shape(const pare_checkpoint *ck, const pare_tensor *t,
                                        size_t rank, const uint64_t *shape)
{
    char text[2][NAME] = {"", ""};
    const uint64_t *const sizes[2] = {t->shape, shape};
    const size_t ranks[2] = {t->rank, rank};
    for (size_t j = 0; j < 2; j++)
        for (size_t i = 0, at = 0; i < ranks[j] && at < NAME; i++)
            at += (size_t)snprintf(text[j] + at, NAME - at, "%s%llu", i ? ", " : "",
                                   (unsigned long long)sizes[j][i]);
    const pare_status s = pare_fail(
        ck->cx, PARE_EFORMAT, "%s: tensor %s has shape [%s], config.json asks for [%s]%s",
        ck->file[ck->tensor_file[t - ck->tensor]].path, t->name, text[0], text[1], why_shape(t));
    return pare__config_fail_usual(ck, s);
}
