/* The table of kinds of files: by name, by first bytes. */
#include <string.h>

#include "formats/checkpoint_internal.h"
#include "formats/gguf_internal.h"
#include "formats/hdf5.h"
#include "formats/npz.h"
#include "formats/safetensors.h"
#include "formats/strided.h"
#include "formats/torch.h"

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
    *out = (pare__shard){.tensor = header.tensor, .tensors = header.tensors};
    return PARE_OK;
}

/* In order, and each element where a pointer to it may go. */
static bool can_be_viewed(const pare_strided *s)
{
    const uintptr_t size = pare_dtype_bits(s->tensor.dtype) / 8;
    return pare_strided_in_order(s) &&
           (s->tensor.bytes == 0 || (uintptr_t)s->tensor.data % size == 0);
}

/* Views of the file where that is possible, copies in the scratch of the others; those need no more
 * bytes than the file has. */
static pare_status settle(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                          const pare_strided *from, size_t count, pare__shard *out)
{
    uint64_t copied = 0;
    pare_tensor *const to = PARE_NEW(a, pare_tensor, count);
    if (!to)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        void *copy;
        to[i] = from[i].tensor;
        if (can_be_viewed(&from[i]))
            continue;
        if (to[i].bytes > file->bytes - copied)
            return pare_fail(ck->cx, PARE_EFORMAT,
                             "%s: tensor %s: tensors that must be copied need more bytes than the "
                             "file has",
                             file->path, to[i].name);
        copied += to[i].bytes;
        to[i].data = NULL;
        if (ck->listed) {
            pare_scratch_count(&ck->scratch, to[i].bytes);
            continue;
        }
        PARE_TRY(pare_scratch_take(&ck->scratch, to[i].bytes, &copy));
        pare_strided_copy(&from[i], copy);
        to[i].data = copy;
    }
    *out = (pare__shard){.tensor = to, .tensors = count};
    return PARE_OK;
}

/* Name of the first entry of a zip archive. */
static bool first_entry(const unsigned char *bytes, uint64_t len, const char **name, size_t *n)
{
    if (len < 30 || memcmp(bytes, "PK\3\4", 4) != 0)
        return false;
    *n = (size_t)(bytes[26] | bytes[27] << 8);
    *name = (const char *)bytes + 30;
    return *n <= len - 30;
}

static bool knows_torch(const unsigned char *bytes, uint64_t len)
{
    const char *name;
    size_t n;
    return first_entry(bytes, len, &name, &n) && !(n > 4 && memcmp(name + n - 4, ".npy", 4) == 0);
}

static pare_status read_torch(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                              pare__shard *out)
{
    pare_torch t;
    PARE_TRY(pare_torch_parse(ck->cx, a, file->path, file->data, file->bytes, &t));
    return settle(ck, a, file, t.tensor, t.tensors, out);
}

static bool knows_npz(const unsigned char *bytes, uint64_t len)
{
    const char *name;
    size_t n;
    return first_entry(bytes, len, &name, &n) && n > 4 && memcmp(name + n - 4, ".npy", 4) == 0;
}

static bool is_bf16(const pare_json *config)
{
    const pare_json *v = pare_json_get(config, "torch_dtype");
    const char *const type = pare_json_text(v ? v : pare_json_get(config, "dtype"), NULL);
    return type && strcmp(type, "bfloat16") == 0;
}

static pare_status read_npz(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                            pare__shard *out)
{
    pare_npz t;
    PARE_TRY(
        pare_npz_parse(ck->cx, a, file->path, file->data, file->bytes, is_bf16(ck->config), &t));
    return settle(ck, a, file, t.tensor, t.tensors, out);
}

static bool knows_hdf5(const unsigned char *bytes, uint64_t len)
{
    return len > PARE_HDF5_SIGNATURE_BYTES &&
           memcmp(bytes, PARE_HDF5_SIGNATURE, PARE_HDF5_SIGNATURE_BYTES) == 0;
}

static pare_status read_hdf5(pare_checkpoint *ck, pare_arena *a, const pare_file *file,
                             pare__shard *out)
{
    pare_hdf5 t;
    PARE_TRY(pare_hdf5_read(ck->cx, a, &ck->scratch, file->path, file->bytes, ck->listed, &t));
    *out = (pare__shard){.tensor = t.tensor, .tensors = t.tensors};
    return PARE_OK;
}

static bool knows_gguf(const unsigned char *bytes, uint64_t len)
{
    return len > 8 && memcmp(bytes, "GGUF", 4) == 0;
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
    {
        .name = "PyTorch",
        .ending = {".bin", ".pt", ".pth"},
        .single = "pytorch_model.bin",
        .index = "pytorch_model.bin.index.json",
        .shards = "pytorch_model-[0-9]*-of-[0-9]*.bin",
        .knows = knows_torch,
        .read = read_torch,
    },
    {
        .name = "npz",
        .ending = {".npz"},
        .single = "model.npz",
        .knows = knows_npz,
        .read = read_npz,
    },
    {
        .name = "HDF5",
        .ending = {".h5", ".hdf5"},
        .single = "model.h5",
        .knows = knows_hdf5,
        .read = read_hdf5,
    },
    {
        .name = "GGUF",
        .ending = {".gguf"},
        .knows = knows_gguf,
        .read = pare__gguf_read,
        .alone = true,
        .parts = pare__gguf_parts,
        .together = pare__gguf_together,
        .companion = pare__gguf_companion,
        .check = pare__gguf_check,
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

static bool holds(const pare_file *file, const pare__container *kind)
{
    return file->data && kind->knows(file->data, file->bytes);
}

/* The name decides, but for a file that brings its own configuration, whose first bytes no other
 * kind has. */
const pare__container *pare__container_of(const pare_file *file)
{
    const pare__container *kind;
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (kind->alone && holds(file, kind))
            return kind;
    }
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (ends_like(file->path, kind))
            return kind;
    }
    for (size_t i = 0; (kind = pare__container_at(i)) != NULL; i++) {
        if (holds(file, kind))
            return kind;
    }
    return NULL;
}
