/* Parses the input as a tokenizer.json. Where it is one, its last bytes are encoded as text, the
 * ids decoded, and its last bytes decoded as ids. */
#include <stdint.h>

#include "formats/tokenizer.h"
#include "tests/fuzz/fuzz.h"

enum { TAIL = 256 };

static void use(pare_ctx *cx, const pare_tokenizer *t, const uint8_t *tail, size_t n)
{
    pare_arena a;
    int32_t *ids, some[TAIL];
    size_t count, back;
    char *text;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_tokenizer_encode(cx, t, &a, (const char *)tail, n, &ids, &count);
    if (s == PARE_OK)
        s = pare_tokenizer_decode(cx, t, &a, ids, count, &text, &back);
    if (s == PARE_EINVAL)
        __builtin_trap(); /* encode made an id that decode does not know */
    pare_ctx_clear(cx);
    for (size_t i = 0; i < n; i++)
        some[i] = tail[i] % 16;
    (void)!pare_tokenizer_decode(cx, t, &a, some, n, &text, &back);
    pare_arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    pare_tokenizer *t;
    fuzz_ctx_init(&cx);
    if (pare_tokenizer_parse(&cx, "fuzz", (const char *)bytes, len, &t) == PARE_OK) {
        const size_t n = len < TAIL ? len : TAIL;
        use(&cx, t, bytes + len - n, n);
        pare_tokenizer_free(t);
    }
    if (cx.live_bytes)
        __builtin_trap();
    return 0;
}
