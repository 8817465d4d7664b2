/* manifest.json beside three tensors (manifest_input.h). */
#include "tests/fuzz/manifest_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);

static void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a;
    require(pare_arena_init(&cx, &a, 0) == PARE_OK);
    const pare_status s = manifest_input_run(&cx, &a, bytes, len);
    require((s == PARE_OK) == (cx.what[0] == '\0'));
    pare_arena_release(&a);
    require(cx.live_bytes == 0);
    return 0;
}
