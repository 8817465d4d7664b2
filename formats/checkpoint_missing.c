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

/* The same tensor under a name with another beginning. */
static const char *elsewhere(const pare_checkpoint *ck, const pare_arch *arch, const char *name)
{
    char end[NAME + 1];
    const size_t prefix = arch->prefix ? strlen(arch->prefix) : 0;
    const bool has = prefix && strncmp(name, arch->prefix, prefix) == 0;
    (void)snprintf(end, sizeof end, ".%s", name + (has ? prefix : 0));
    return ends_in(ck, end);
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
    return pare_fail(ck->cx, PARE_EFORMAT, "%s: tensor %s is missing", ck->path, name);
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
    for (size_t s = 0; s < 2; s++)
        for (size_t i = 0, at = 0; i < ranks[s] && at < NAME; i++)
            at += (size_t)snprintf(text[s] + at, NAME - at, "%s%llu", i ? ", " : "",
                                   (unsigned long long)sizes[s][i]);
    return pare_fail(
        ck->cx, PARE_EFORMAT, "%s: tensor %s has shape [%s], config.json asks for [%s]%s",
        ck->file[ck->tensor_file[t - ck->tensor]].path, t->name, text[0], text[1], why_shape(t));
}
