/* The index of an archive, and frames: what is accepted keeps to its bounds and is written again,
 * and a frame decodes to as many bytes as it says or is refused, also when its XXH3 is made to fit.
 */
#include <string.h>

#include "formats/archive_stretch.h"
#include "formats/hash.h"
#include "tests/fuzz/archive_input.h"
#include "tests/fuzz/fuzz.h"

enum { DECODED_MOST = 1 << 20 };

static void decode(pare_ctx *cx, const uint8_t *bytes, size_t len, const pare_archive_frame *f,
                   pare_stretch_coder *coder, unsigned char *room)
{
    static const unsigned char base[DECODED_MOST];
    require(f->at <= len && f->stored <= len - f->at);
    if (f->bytes > DECODED_MOST || f->base_bytes > DECODED_MOST)
        return;
    pare_stretch s = {.from = bytes + f->at, .to = room, .frame = *f};
    s.base = (pare_base_bytes){base, f->base_at, f->base_bytes};
    pare_xxh3(s.from, f->stored, s.frame.xxh3);
    const pare_status status = pare_stretch_decode(cx, coder, &s, 1);
    require((status == PARE_OK) == (s.why == NULL));
    require(status == PARE_OK || status == PARE_EFORMAT);
}

static void check(pare_ctx *cx, const uint8_t *bytes, size_t len, const pare_archive *x)
{
    static unsigned char room[DECODED_MOST];
    pare_stretch_coder *coder = NULL;
    uint64_t total = 0, at = PARE_ARCHIVE_HEAD;
    const int whole = *bytes != '{';
    require(pare_stretch_coder_new(cx, DECODED_MOST, 0, &coder) == PARE_OK);
    for (size_t i = 0; i < x->files; i++) {
        uint64_t left = x->file[i].bytes;
        require(pare_archive_name_fits(x->file[i].name));
        require(i == 0 || strcmp(x->file[i - 1].name, x->file[i].name) < 0);
        for (size_t k = 0; k < x->file[i].frames; k++) {
            const pare_archive_frame *const f = &x->file[i].frame[k];
            require(f->at == at && f->bytes <= left && f->bytes <= x->stretch);
            require(!pare_archive_form_based(f->form) ||
                    (f->base_at <= x->file[i].base_bytes &&
                     f->base_bytes <= x->file[i].base_bytes - f->base_at));
            at += f->stored;
            left -= f->bytes;
            if (whole)
                decode(cx, bytes, len, f, coder, room);
        }
        require(left == 0);
        total += x->file[i].bytes;
    }
    require(total == x->bytes);
    pare_stretch_coder_free(cx, coder);
}

static pare_status parse(pare_ctx *cx, pare_arena *a, const void *bytes, size_t len)
{
    pare_archive x;
    char *tail;
    size_t tail_len;
    const pare_status s = archive_input_parse(cx, a, bytes, len, &x);
    require(s == PARE_OK || s == PARE_EFORMAT || s == PARE_ENOTSUP);
    if (s != PARE_OK)
        return s;
    check(cx, bytes, len, &x);
    require(pare_archive_tail(cx, a, &x, &tail, &tail_len) == PARE_OK);
    return PARE_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    fuzz_parse(parse, bytes, len);
    return 0;
}
