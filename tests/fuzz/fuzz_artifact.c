/* packed.index.json and the tensors that it describes (artifact_input.h). */
#include "tests/fuzz/artifact_input.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(artifact_input_run, bytes, len);
    return 0;
}
