/* A PyTorch file of arbitrary bytes: archive, pickle, tensors. What is accepted lies inside it. */
#include <string.h>

#include "formats/torch.h"
#include "tests/fuzz/fuzz.h"

/* First and last element in reach; in order when copied. */
static void check_tensor(pare_arena *a, const pare_strided *s, const uint8_t *bytes, size_t len)
{
    const pare_tensor *const t = &s->tensor;
    const uint8_t *const data = t->data;
    uint64_t last = 0, elements = 1;
    const size_t size = pare_dtype_bits(t->dtype) / 8;
    require(data >= bytes && data <= bytes + len && t->bytes <= len);
    for (uint32_t i = 0; i < t->rank; i++) {
        elements *= t->shape[i];
        last += t->shape[i] ? (t->shape[i] - 1) * s->stride[i] : 0;
    }
    require(t->bytes == elements * size);
    require(elements == 0 || last * size + size <= (size_t)(bytes + len - data));
    uint8_t *const copy = pare_arena_take(a, t->bytes, 1);
    require(copy != NULL);
    pare_strided_copy(s, copy);
    if (pare_strided_in_order(s))
        require(t->bytes == 0 || memcmp(copy, data, t->bytes) == 0);
    else
        require(memcmp(copy, data, size) == 0 &&
                memcmp(copy + t->bytes - size, data + last * size, size) == 0);
}

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_torch file;
    PARE_TRY(pare_torch_parse(cx, a, "fuzz", bytes, len, &file));
    require(file.tensors > 0);
    for (size_t i = 0; i < file.tensors && i < 64; i++) {
        check_tensor(a, &file.tensor[i], bytes, len);
        require(i == 0 || strcmp(file.tensor[i - 1].tensor.name, file.tensor[i].tensor.name) < 0);
    }
    return PARE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
