/* An importance matrix of arbitrary bytes: what is filled is on the diagonal, finite and not
 * negative. */
#include <math.h>

#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/imatrix_input.h"

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    enum { K = IMATRIX_COLUMNS };
    float h[K * K] = {0};
    const pare_status s = imatrix_read_all(cx, a, bytes, len, h);
    require(s != PARE_OK); /* the last linear is none that GGUF has a name for */
    for (size_t i = 0; i < (size_t)K * K; i++)
        require(i % (K + 1) == 0 || h[i] == 0);
    return s;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
