/* One NumPy array of arbitrary bytes. What is accepted fills the rest of the file. */
#include <string.h>

#include "formats/npz.h"
#include "tests/fuzz/fuzz.h"

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_strided s;
    (void)a;
    PARE_TRY(pare_npy_parse(cx, "fuzz", bytes, len, len % 2 == 0, &s));
    const uint8_t *const data = s.tensor.data, *const end = (const uint8_t *)bytes + len;
    require(data >= (const uint8_t *)bytes && data <= end &&
            s.tensor.bytes == (size_t)(end - data));
    if (s.tensor.bytes > 0 && s.tensor.bytes < 1 << 16) {
        uint8_t copy[1 << 16];
        pare_strided_copy(&s, copy);
        require(!pare_strided_in_order(&s) || memcmp(copy, data, s.tensor.bytes) == 0);
    }
    return PARE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
