/* packed.index.json and the tensors that it describes (artifact_input.h). */
#include "tests/fuzz/artifact_input.h"
#include "tests/fuzz/fuzz.h"

/* Made once: no parser writes to it, and making it takes longer than most parses. */
static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    static pare_ctx base_cx;
    static pare_arena base_arena;
    static artifact_base base;
    if (!base.config) {
        fuzz_ctx_init(&base_cx);
        require(pare_arena_init(&base_cx, &base_arena, 0) == PARE_OK);
        require(artifact_base_make(&base_cx, &base_arena, &base) == PARE_OK);
    }
    return artifact_input_on(cx, a, &base, bytes, len);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
