/* Names of tensors as a model has them, where training programs wrote others. */
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/arch.h"

/* What wraps a model puts its own name in front: torch.compile, DataParallel, peft. */
static const char *const wrappers[] = {"_orig_mod.", "module.", "base_model.model."};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers, DEEPEST = 4 };

/* FSDP puts it in front of every module that it wraps, so anywhere in a name. */
static const char fsdp[] = "_fsdp_wrapped_module.";

/* Bytes in front of every name that are one of these; the names behind them stay in order. */
static size_t wrapped(const pare_checkpoint *ck, size_t skip)
{
    for (size_t w = 0; w < WRAPPERS; w++) {
        const size_t len = strlen(wrappers[w]);
        size_t i = 0;
        while (i < ck->tensors && strncmp(ck->tensor[i].name + skip, wrappers[w], len) == 0 &&
               ck->tensor[i].name[skip + len])
            i++;
        if (ck->tensors && i == ck->tensors)
            return len;
    }
    return 0;
}

/* The head stands for the embedding, whose values it has, when a program kept one of both names.
 * Its place in the list, ck->tensors when it does not. */
static size_t head_alone(const pare_checkpoint *ck, const pare_arch *arch)
{
    const pare_json *const ties = pare_json_get(ck->config, "tie_word_embeddings");
    const size_t embed = strlen(arch->embed), head = strlen(arch->head);
    size_t at = ck->tensors;
    if (!pare_json_bool(ties, arch->tied))
        return at;
    for (size_t i = 0; i < ck->tensors; i++) {
        const char *const name = ck->tensor[i].name;
        if (strncmp(name, arch->embed, embed) == 0 && name[embed] == '.')
            return ck->tensors;
        if (strncmp(name, arch->head, head) == 0 && strcmp(name + head, ".weight") == 0)
            at = i;
    }
    return at;
}

/* Element `from` of a list comes to lie at `to`. */
static void move(void *list, size_t size, size_t from, size_t to)
{
    char one[sizeof(pare_tensor)], *const at = list;
    memcpy(one, at + from * size, size);
    if (from < to)
        memmove(at + from * size, at + (from + 1) * size, (to - from) * size);
    else
        memmove(at + (to + 1) * size, at + to * size, (from - to) * size);
    memcpy(at + to * size, one, size);
}

/* Own lists: those of the files are views of others. */
static pare_status copy_lists(pare_checkpoint *ck, pare_arena *a)
{
    pare_tensor *const list = PARE_NEW(a, pare_tensor, ck->tensors);
    uint32_t *const file = PARE_NEW(a, uint32_t, ck->tensors);
    if (!list || !file)
        return PARE_ENOMEM;
    memcpy(list, ck->tensor, ck->tensors * sizeof *list);
    memcpy(file, ck->tensor_file, ck->tensors * sizeof *file);
    ck->tensor = list;
    ck->tensor_file = file;
    return PARE_OK;
}

/* Tensor `at` goes to where its new name belongs, and what is known of it goes along. */
static pare_status rename_one(pare_checkpoint *ck, pare_arena *a, size_t at, const char *name)
{
    _Static_assert(sizeof(pare_stored) <= sizeof(pare_tensor), "move holds the largest");
    size_t to = 0;
    PARE_TRY(copy_lists(ck, a));
    for (size_t i = 0; i < ck->tensors; i++)
        to += i != at && strcmp(ck->tensor[i].name, name) < 0;
    ck->tensor[at].name = name;
    move(ck->tensor, sizeof *ck->tensor, at, to);
    move(ck->tensor_file, sizeof *ck->tensor_file, at, to);
    if (ck->stored) {
        pare_stored *const stored = PARE_NEW(a, pare_stored, ck->tensors);
        if (!stored)
            return PARE_ENOMEM;
        memcpy(stored, ck->stored, ck->tensors * sizeof *stored);
        move(stored, sizeof *stored, at, to);
        ck->stored = stored;
    }
    return PARE_OK;
}

pare_status pare__checkpoint_head(pare_checkpoint *ck, pare_arena *a)
{
    static const char end[] = ".weight";
    const char *const type =
        ck->config ? pare_json_text(pare_json_get(ck->config, "model_type"), NULL) : NULL;
    const pare_arch *const arch = type ? pare_arch_find(type) : NULL;
    if (!arch || ck->packed || ck->arranged)
        return PARE_OK;
    const size_t at = head_alone(ck, arch), len = strlen(arch->embed);
    if (at == ck->tensors)
        return PARE_OK;
    char *const name = pare_arena_take(a, len + sizeof end, 1);
    if (!name)
        return PARE_ENOMEM;
    memcpy(name, arch->embed, len);
    memcpy(name + len, end, sizeof end);
    return rename_one(ck, a, at, name);
}

/* A name without what FSDP put into it; NULL when there is no memory. */
static const char *unwrapped(pare_arena *a, const char *name)
{
    const size_t len = sizeof fsdp - 1;
    if (!strstr(name, fsdp))
        return name;
    char *const text = pare_arena_text(a, name, strlen(name));
    for (char *at = text; at && (at = strstr(at, fsdp)) != NULL && at[len];)
        memmove(at, at + len, strlen(at + len) + 1);
    return text;
}

/* A tensor and its file, which are sorted as one. */
typedef struct placed {
    pare_tensor tensor;
    uint32_t file;
} placed;

static int by_name(const void *a, const void *b)
{
    return strcmp(((const placed *)a)->tensor.name, ((const placed *)b)->tensor.name);
}

/* Blocks lose the name of FSDP where others never had it, so the order changes. */
static pare_status take_fsdp(pare_checkpoint *ck, pare_arena *a)
{
    size_t i = 0;
    while (i < ck->tensors && !strstr(ck->tensor[i].name, fsdp))
        i++;
    if (i == ck->tensors)
        return PARE_OK;
    placed *const all = PARE_NEW(a, placed, ck->tensors);
    if (!all)
        return PARE_ENOMEM;
    for (i = 0; i < ck->tensors; i++) {
        all[i] = (placed){ck->tensor[i], ck->tensor_file[i]};
        all[i].tensor.name = unwrapped(a, ck->tensor[i].name);
        if (!all[i].tensor.name)
            return PARE_ENOMEM;
    }
    qsort(all, ck->tensors, sizeof *all, by_name);
    PARE_TRY(copy_lists(ck, a));
    for (i = 0; i < ck->tensors; i++) {
        if (i > 0 && by_name(&all[i - 1], &all[i]) == 0)
            return pare_fail(ck->cx, PARE_EFORMAT,
                             "%s: tensor %s is there twice, with and without %s in its name",
                             ck->path, all[i].tensor.name, fsdp);
        ck->tensor[i] = all[i].tensor;
        ck->tensor_file[i] = all[i].file;
    }
    return PARE_OK;
}

pare_status pare__checkpoint_names(pare_checkpoint *ck, pare_arena *a)
{
    size_t skip = 0, more;
    if (ck->packed || ck->arranged || !ck->config || ck->stored)
        return PARE_OK;
    PARE_TRY(take_fsdp(ck, a));
    for (size_t depth = 0; depth < DEEPEST && (more = wrapped(ck, skip)) > 0; depth++)
        skip += more;
    if (skip == 0)
        return PARE_OK;
    PARE_TRY(copy_lists(ck, a));
    for (size_t i = 0; i < ck->tensors; i++)
        ck->tensor[i].name += skip;
    return PARE_OK;
}
