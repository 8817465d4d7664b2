/* tests/data/torch_file.h - writes PyTorch checkpoints into memory, instruction by instruction as
 * torch.save does for a state dict. */
#ifndef PARE_TESTS_TORCH_FILE_H
#define PARE_TESTS_TORCH_FILE_H

#include <stdio.h>

#include "formats/strided.h"
#include "tests/data/zip_file.h"

typedef struct torch_file {
    grown pickle;
    zip_file zip;
    size_t memos, storages;
} torch_file;

static inline void torch_op(torch_file *t, char code)
{
    grown_put(&t->pickle, &code, 1);
}

/* Every value is remembered, as the writer of the original cannot know what is used again. */
static inline void torch_memo(torch_file *t)
{
    const bool small = t->memos < 256;
    torch_op(t, small ? 'q' : 'r');
    grown_put_number(&t->pickle, t->memos++, small ? 1 : 4);
}

static inline void torch_text(torch_file *t, const char *text)
{
    torch_op(t, 'X');
    grown_put_number(&t->pickle, strlen(text), 4);
    grown_put(&t->pickle, text, strlen(text));
    torch_memo(t);
}

static inline void torch_global(torch_file *t, const char *module, const char *name)
{
    torch_op(t, 'c');
    grown_put(&t->pickle, module, strlen(module));
    torch_op(t, '\n');
    grown_put(&t->pickle, name, strlen(name));
    torch_op(t, '\n');
    torch_memo(t);
}

static inline void torch_number(torch_file *t, uint64_t value)
{
    const size_t size = value < 256 ? 1 : value < 65536 ? 2 : value < 1u << 31 ? 4 : 8;
    torch_op(t, size == 1 ? 'K' : size == 2 ? 'M' : size == 4 ? 'J' : '\x8a');
    if (size == 8)
        torch_op(t, 8);
    grown_put_number(&t->pickle, value, size);
}

/* TUPLE1 to TUPLE3, or all above a mark. */
static inline void torch_numbers(torch_file *t, const uint64_t *value, uint32_t count)
{
    if (count > 3)
        torch_op(t, '(');
    for (uint32_t i = 0; i < count; i++)
        torch_number(t, value[i]);
    torch_op(t, count == 0 ? ')' : count > 3 ? 't' : (char)(0x84 + count));
    if (count > 0)
        torch_memo(t);
}

static inline void torch_ordered_dict(torch_file *t)
{
    torch_global(t, "collections", "OrderedDict");
    torch_op(t, ')');
    torch_op(t, 'R');
    torch_memo(t);
}

static inline const char *torch_storage_type(pare_dtype dtype)
{
    switch (dtype) {
    case PARE_F16: return "HalfStorage";
    case PARE_BF16: return "BFloat16Storage";
    case PARE_F32: return "FloatStorage";
    case PARE_U8: return "ByteStorage";
    case PARE_BOOL: return "BoolStorage";
    default: abort();
    }
}

static inline void torch_begin(torch_file *t)
{
    *t = (torch_file){0};
    torch_op(t, '\x80');
    torch_op(t, 2);
    torch_ordered_dict(t);
    torch_op(t, '(');
}

/* Entry of a new storage; returns its number. */
static inline size_t torch_storage(torch_file *t, const void *data, size_t len)
{
    char name[64];
    (void)snprintf(name, sizeof name, "archive/data/%zu", t->storages);
    zip_add(&t->zip, name, data, len);
    return t->storages++;
}

/* A key and a tensor over elements [offset, ...) of a storage. s->tensor.data is not read. */
static inline void torch_tensor(torch_file *t, const pare_strided *s, size_t storage,
                                uint64_t elements, uint64_t offset)
{
    char key[32];
    (void)snprintf(key, sizeof key, "%zu", storage);
    torch_text(t, s->tensor.name);
    torch_global(t, "torch._utils", "_rebuild_tensor_v2");
    torch_op(t, '(');
    torch_op(t, '(');
    torch_text(t, "storage");
    torch_global(t, "torch", torch_storage_type(s->tensor.dtype));
    torch_text(t, key);
    torch_text(t, "cuda:0");
    torch_number(t, elements);
    torch_op(t, 't');
    torch_memo(t);
    torch_op(t, 'Q');
    torch_number(t, offset);
    torch_numbers(t, s->tensor.shape, s->tensor.rank);
    torch_numbers(t, s->stride, s->tensor.rank);
    torch_op(t, '\x89');
    torch_ordered_dict(t);
    torch_op(t, 't');
    torch_memo(t);
    torch_op(t, 'R');
    torch_memo(t);
}

/* A tensor in order, in a storage of its own. */
static inline void torch_add(torch_file *t, const pare_tensor *tensor)
{
    pare_strided s = {.tensor = *tensor};
    uint64_t elements = 1;
    for (uint32_t i = tensor->rank; i-- > 0; elements *= tensor->shape[i])
        s.stride[i] = elements;
    torch_tensor(t, &s, torch_storage(t, tensor->data, (size_t)tensor->bytes), elements, 0);
}

/* The whole file; the caller frees its bytes. */
static inline grown torch_end(torch_file *t)
{
    torch_op(t, 'u');
    torch_op(t, '}');
    torch_text(t, "_metadata");
    torch_ordered_dict(t);
    torch_op(t, 's');
    torch_op(t, 'b');
    torch_op(t, '.');
    zip_add(&t->zip, "archive/data.pkl", t->pickle.bytes, t->pickle.len);
    zip_add(&t->zip, "archive/byteorder", "little", 6);
    zip_add(&t->zip, "archive/version", "3\n", 2);
    free(t->pickle.bytes);
    return zip_end(&t->zip);
}

#endif
