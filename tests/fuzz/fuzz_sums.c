/* SHA256SUMS: what is accepted is written again byte for byte, and every name is found. */
#include <string.h>

#include "formats/sums.h"
#include "tests/fuzz/fuzz.h"

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_sums sums;
    char *text;
    size_t text_len;
    const pare_status s = pare_sums_parse(cx, a, "SHA256SUMS", bytes, len, &sums);
    require(s == PARE_OK || s == PARE_EFORMAT);
    if (s != PARE_OK)
        return s;
    for (size_t i = 0; i < sums.count; i++)
        require(pare_sums_find(&sums, sums.item[i].name) == &sums.item[i]);
    require(pare_sums_text(cx, a, &sums, &text, &text_len) == PARE_OK);
    require(text_len == len && (len == 0 || memcmp(text, bytes, len) == 0));
    return PARE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
