/* Parses the input as a tokenizer.model. Where it is one, its last bytes are encoded as text and
 * the ids decoded. */
#include <stdint.h>

#include "formats/tokenizer.h"
#include "tests/fuzz/fuzz.h"

enum { TAIL = 256 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    pare_arena a;
    pare_tokenizer *t;
    fuzz_ctx_init(&cx);
    if (pare_tokenizer_parse_model(&cx, "fuzz", bytes, len, &t) == PARE_OK) {
        const size_t n = len < TAIL ? len : TAIL;
        int32_t *ids;
        size_t count, back;
        char *text;
        pare_status s = pare_arena_init(&cx, &a, 0);
        if (s == PARE_OK)
            s = pare_tokenizer_encode(&cx, t, &a, (const char *)bytes + len - n, n, &ids, &count);
        if (s == PARE_OK)
            s = pare_tokenizer_decode(&cx, t, &a, ids, count, &text, &back);
        if (s == PARE_EINVAL)
            __builtin_trap(); /* encode made an id that decode does not know */
        pare_arena_release(&a);
        pare_tokenizer_free(t);
    }
    if (cx.live_bytes)
        __builtin_trap();
    return 0;
}
