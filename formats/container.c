#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/safetensors.h"

/* Eight bytes of length, then JSON. */
static bool knows_safetensors(const unsigned char *bytes, uint64_t len)
{
    return len > 8 && bytes[8] == '{' && bytes[7] == 0 && bytes[6] == 0 && bytes[5] == 0;
}

static pare_status read_safetensors(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                                    pare__shard *out)
{
    pare_safetensors header;
    PARE_TRY(pare_safetensors_parse(ck->cx, a, file->path, file->data, file->bytes, &header));
    *out = (pare__shard){header.tensor, header.tensors};
    return PARE_OK;
}

/* The first is what pare writes itself. */
static const pare__container containers[] = {
    {
        .name = "safetensors",
        .ending = {".safetensors"},
        .single = "model.safetensors",
        .index = "model.safetensors.index.json",
        .shards = "model-[0-9]*-of-[0-9]*.safetensors",
        .knows = knows_safetensors,
        .read = read_safetensors,
    },
};

const pare__container *pare__container_at(size_t i)
{
    return i < sizeof containers / sizeof *containers ? &containers[i] : NULL;
}

static bool ends_like(const char *path, const pare__container *kind)
{
    const size_t n = strlen(path);
    for (size_t i = 0; i < PARE__ENDINGS && kind->ending[i]; i++) {
        const size_t m = strlen(kind->ending[i]);
        if (n >= m && strcmp(path + n - m, kind->ending[i]) == 0)
            return true;
    }
    return false;
}

const pare__container *pare__container_of(const pare_file *file)
{
    const pare__container *kind;
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (ends_like(file->path, kind))
            return kind;
    }
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (file->data && kind->knows(file->data, file->bytes))
            return kind;
    }
    return NULL;
}
