/* Where the tensors of a file lie. */
#include <stdlib.h>

#include "compress/storage/input_folder.h"
#include "formats/gguf.h"
#include "formats/safetensors.h"
#include "runtime/small.h"

static unsigned width_of(pare_dtype t)
{
    return t == PARE_F16 || t == PARE_BF16 ? 2 : t == PARE_F32 ? 4 : 1;
}

static int by_place(const void *a, const void *b)
{
    const uint64_t x = ((const pare_file_part *)a)->at, y = ((const pare_file_part *)b)->at;
    return (x > y) - (x < y);
}

static void add(pare_file_part *list, size_t *count, const pare_file *f, const char *name,
                const void *data, uint64_t bytes, pare_dtype type)
{
    if (bytes > 0)
        list[(*count)++] = (pare_file_part){(uint64_t)((const unsigned char *)data - f->data),
                                            bytes, width_of(type), name};
}

/* Tensors in any order; none where the file is of another kind, or malformed. */
static pare_status find(pare_ctx *cx, pare_arena *a, const pare_file *f, pare_file_part **list,
                        size_t *count)
{
    pare_safetensors st = {0};
    pare_gguf g = {0};
    pare_status s = PARE_OK;
    *count = 0;
    if (pare_ends_with(f->path, ".safetensors"))
        s = pare_safetensors_parse(cx, a, f->path, f->data, f->bytes, &st);
    else if (pare_ends_with(f->path, ".gguf"))
        s = pare_gguf_parse(cx, a, f->path, f->data, f->bytes, &g);
    if (s == PARE_EFORMAT || s == PARE_ENOTSUP) {
        pare_ctx_clear(cx);
        st.tensors = g.tensors = 0;
    } else if (s != PARE_OK) {
        return s;
    }
    *list = PARE_NEW(a, pare_file_part, st.tensors + g.tensors);
    if (!*list)
        return PARE_ENOMEM;
    for (size_t i = 0; i < st.tensors; i++)
        add(*list, count, f, st.tensor[i].name, st.tensor[i].data, st.tensor[i].bytes,
            st.tensor[i].dtype);
    for (size_t i = 0; i < g.tensors; i++)
        add(*list, count, f, g.tensor[i].name, g.tensor[i].data, g.tensor[i].bytes,
            g.tensor[i].type->dtype);
    qsort(*list, *count, sizeof **list, by_place);
    return PARE_OK;
}

pare_status pare_parts(pare_ctx *cx, pare_arena *a, const pare_file *f, pare_file_part **out,
                       size_t *count)
{
    pare_file_part *tensor;
    size_t tensors, n = 0;
    uint64_t at = 0;
    *count = 0;
    if (f->bytes == 0)
        return PARE_OK;
    PARE_TRY(find(cx, a, f, &tensor, &tensors));
    pare_file_part *const part = PARE_NEW(a, pare_file_part, 2 * tensors + 1);
    if (!part)
        return PARE_ENOMEM;
    for (size_t i = 0; i < tensors; i++) {
        if (tensor[i].at < at) /* the readers refuse tensors that share bytes */
            return pare_fail(cx, PARE_EFORMAT, "%s: tensors overlap", f->path);
        if (tensor[i].at > at)
            part[n++] = (pare_file_part){at, tensor[i].at - at, 1, NULL};
        part[n++] = tensor[i];
        at = tensor[i].at + tensor[i].bytes;
    }
    if (at < f->bytes)
        part[n++] = (pare_file_part){at, f->bytes - at, 1, NULL};
    *out = part;
    *count = n;
    return PARE_OK;
}
