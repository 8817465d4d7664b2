/* Names of tensors as a model has them, where training programs wrote others. */
#include <stdlib.h>
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "runtime/arch.h"

/* What wraps a model puts its own name in front: torch.compile, DataParallel and FSDP, peft. */
static const char *const wrappers[] = {"_orig_mod.", "module.", "_fsdp_wrapped_module.",
                                       "base_model.model."};
enum { WRAPPERS = sizeof wrappers / sizeof *wrappers, DEEPEST = 4 };

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

static int by_name(const void *a, const void *b)
{
    return strcmp(((const pare_tensor *)a)->name, ((const pare_tensor *)b)->name);
}

/* Moves tensor `at` to where its new name belongs; its file goes along. */
static void rename_one(pare_checkpoint *ck, pare_tensor *list, uint32_t *file, size_t at,
                       const char *name)
{
    pare_tensor t = list[at];
    const uint32_t f = file[at];
    t.name = name;
    for (; at + 1 < ck->tensors && by_name(&list[at + 1], &t) < 0; at++) {
        list[at] = list[at + 1];
        file[at] = file[at + 1];
    }
    for (; at > 0 && by_name(&list[at - 1], &t) > 0; at--) {
        list[at] = list[at - 1];
        file[at] = file[at - 1];
    }
    list[at] = t;
    file[at] = f;
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

static pare_status take_head(pare_checkpoint *ck, pare_arena *a)
{
    static const char end[] = ".weight";
    const char *const type = pare_json_text(pare_json_get(ck->config, "model_type"), NULL);
    const pare_arch *const arch = type ? pare_arch_find(type) : NULL;
    const size_t at = arch ? head_alone(ck, arch) : ck->tensors;
    if (at == ck->tensors)
        return PARE_OK;
    const size_t len = strlen(arch->embed);
    char *const name = pare_arena_take(a, len + sizeof end, 1);
    if (!name)
        return PARE_ENOMEM;
    memcpy(name, arch->embed, len);
    memcpy(name + len, end, sizeof end);
    PARE_TRY(copy_lists(ck, a));
    rename_one(ck, ck->tensor, ck->tensor_file, at, name);
    return PARE_OK;
}

pare_status pare__checkpoint_names(pare_checkpoint *ck, pare_arena *a)
{
    size_t skip = 0, more;
    if (ck->packed || ck->arranged || !ck->config || ck->stored)
        return PARE_OK;
    for (size_t depth = 0; depth < DEEPEST && (more = wrapped(ck, skip)) > 0; depth++)
        skip += more;
    if (skip) {
        PARE_TRY(copy_lists(ck, a));
        for (size_t i = 0; i < ck->tensors; i++)
            ck->tensor[i].name += skip;
    }
    return take_head(ck, a);
}
