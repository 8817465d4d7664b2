/* Checkpoints that other programs quantized (quantized_input.h). */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/quantized_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(quantized_input_run, bytes, len);
    return 0;
}
