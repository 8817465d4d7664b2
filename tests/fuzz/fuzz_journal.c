/* A journal, and the results of a unit inside its records. The input is tried three times: as the
 * bytes of a journal, as such bytes after every hash was made to hold (a search would not find a
 * hash by chance), and as one payload. */
#include <stdint.h>
#include <string.h>

#include "compress/artifact/manifest.h"
#include "compress/output/journal.h"
#include "tests/fuzz/fuzz.h"

enum { LENGTH = 8, PAYLOAD = 16, HASH = 16 };

static void mend_hashes(uint8_t *bytes, size_t len)
{
    while (len >= PAYLOAD + HASH) {
        uint64_t payload = 0;
        for (size_t i = 0; i < 8; i++)
            payload |= (uint64_t)bytes[LENGTH + i] << 8 * i;
        if (payload > len - PAYLOAD - HASH)
            return;
        const size_t hashed = PAYLOAD + (size_t)payload;
        pare_xxh3(bytes, hashed, bytes + hashed);
        bytes += hashed + HASH;
        len -= hashed + HASH;
    }
}

/* What decodes, encodes to the same bytes. */
static void decode(pare_ctx *cx, pare_arena *a, const uint8_t *bytes, size_t len)
{
    pare_unit_result u;
    unsigned char *again;
    size_t again_len;
    const pare_status s = pare_result_decode(cx, a, bytes, len, &u);
    require(s == PARE_OK || s == PARE_EFORMAT);
    require((s == PARE_OK) == (cx->what[0] == '\0'));
    pare_ctx_clear(cx);
    if (s != PARE_OK)
        return;
    require(pare_result_encode(cx, a, &u, &again, &again_len) == PARE_OK);
    require(again_len == len && memcmp(again, bytes, len) == 0);
}

static void parse(pare_ctx *cx, pare_arena *a, const uint8_t *bytes, size_t len)
{
    pare_journal_record *record;
    size_t count, valid, count_again, valid_again;
    require(pare_journal_parse(cx, a, bytes, len, &record, &count, &valid) == PARE_OK);
    require(valid <= len);
    for (size_t i = 0; i < count; i++) {
        require(record[i].payload >= bytes && record[i].len <= valid);
        require((size_t)(record[i].payload - bytes) <= valid - record[i].len);
        decode(cx, a, record[i].payload, record[i].len);
    }
    require(pare_journal_parse(cx, a, bytes, valid, &record, &count_again, &valid_again) ==
            PARE_OK);
    require(count_again == count && valid_again == valid);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    pare_ctx cx;
    pare_arena a;
    fuzz_ctx_init(&cx);
    require(pare_arena_init(&cx, &a, 0) == PARE_OK);
    parse(&cx, &a, bytes, len);
    decode(&cx, &a, bytes, len);
    uint8_t *const mended = PARE_NEW(&a, uint8_t, len);
    require(mended != NULL);
    if (len)
        memcpy(mended, bytes, len);
    mend_hashes(mended, len);
    parse(&cx, &a, mended, len);
    pare_arena_release(&a);
    require(cx.live_bytes == 0);
    return 0;
}
