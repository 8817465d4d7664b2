/* The index of a sharded checkpoint and the tensors that its files have (index_input.h). */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/index_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(index_input_run, bytes, len);
    return 0;
}
