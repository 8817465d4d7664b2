/* manifest.json beside three tensors (manifest_input.h). */
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/manifest_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(manifest_input_run, bytes, len);
    return 0;
}
