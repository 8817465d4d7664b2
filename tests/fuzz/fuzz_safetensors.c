/* A file of arbitrary bytes. What is accepted must survive being written and read again. */
#include <string.h>

#include "formats/safetensors.h"
#include "tests/fuzz/fuzz.h"

static void read_again(pare_ctx *cx, pare_arena *a, const uint8_t *bytes, size_t len,
                       const pare_safetensors *first)
{
    const uint8_t *const data = bytes + first->data_offset;
    const size_t data_bytes = len - (size_t)first->data_offset;
    uint64_t *const offset = PARE_NEW(a, uint64_t, first->tensors);
    char *header = NULL;
    size_t header_bytes = 0;
    require(offset != NULL);
    for (size_t i = 0; i < first->tensors; i++)
        offset[i] = (uint64_t)((const uint8_t *)first->tensor[i].data - data);
    require(pare_safetensors_header(cx, a, first->tensor, offset, first->tensors, 8, &header,
                                    &header_bytes) == PARE_OK);
    char *const file = pare_arena_take(a, header_bytes + data_bytes, 1);
    require(file != NULL);
    memcpy(file, header, header_bytes);
    memcpy(file + header_bytes, data, data_bytes);
    pare_safetensors second;
    require(pare_safetensors_parse(cx, a, "again", file, header_bytes + data_bytes, &second) ==
            PARE_OK);
    require(second.tensors == first->tensors);
    for (size_t i = 0; i < first->tensors; i++) {
        const pare_tensor *const x = &first->tensor[i], *const y = &second.tensor[i];
        require(strcmp(x->name, y->name) == 0 && x->dtype == y->dtype && x->rank == y->rank);
        require(memcmp(x->shape, y->shape, sizeof x->shape) == 0 && x->bytes == y->bytes);
        require(x->bytes == 0 || memcmp(x->data, y->data, (size_t)x->bytes) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    fuzz_ctx_init(&cx);
    pare_arena a;
    pare_safetensors file;
    require(pare_arena_init(&cx, &a, 0) == PARE_OK);
    if (pare_safetensors_parse(&cx, &a, "fuzz", bytes, len, &file) == PARE_OK)
        read_again(&cx, &a, bytes, len, &file);
    else
        require(cx.what[0] != '\0');
    pare_arena_release(&a);
    require(cx.live_bytes == 0);
    return 0;
}
