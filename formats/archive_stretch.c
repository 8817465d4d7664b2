#include "formats/archive_stretch.h"

#include <stdatomic.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

#include "formats/hash.h"
#include "formats/little_endian.h"
#include "runtime/threads.h"

/* What one worker needs. */
typedef struct bench {
    ZSTD_CCtx *encoder;
    ZSTD_DCtx *decoder;
    unsigned char *form;  /* a stretch in a form: `most` bytes */
    unsigned char *other; /* a frame that may be smaller, or what was decoded */
} bench;

struct pare_stretch_coder {
    size_t most, workers;
    int level;
    bench *bench;
    unsigned char *space;
    size_t space_bytes;
};

typedef struct work {
    pare_stretch_coder *coder;
    pare_stretch *s;
    atomic_bool failed, memory;
} work;

enum { NO_FRAME = 0 };
static const char no_memory[] = "no memory is left for zstd";

size_t pare_stretch_bound(size_t bytes)
{
    return ZSTD_compressBound(bytes);
}

const char *pare_stretch_library(void)
{
    return ZSTD_versionString();
}

pare_status pare_stretch_coder_new(pare_ctx *cx, size_t most, int level, pare_stretch_coder **out)
{
    const size_t workers = pare_threads(cx), each = most + pare_stretch_bound(most);
    pare_stretch_coder *const c = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *c);
    *out = c;
    if (!c)
        return pare_fail(cx, PARE_ENOMEM, "%s", no_memory);
    *c = (pare_stretch_coder){.most = most, .workers = workers, .level = level};
    c->space_bytes = workers * each;
    c->bench = cx->alloc.resize(cx->alloc.self, NULL, 0, workers * sizeof *c->bench);
    c->space = cx->alloc.resize(cx->alloc.self, NULL, 0, c->space_bytes);
    if (c->bench)
        memset(c->bench, 0, workers * sizeof *c->bench);
    if (!c->bench || !c->space)
        return pare_fail(cx, PARE_ENOMEM, "%s", no_memory);
    for (size_t i = 0; i < workers; i++) {
        bench *const b = &c->bench[i];
        b->form = c->space + i * each;
        b->other = b->form + most;
        b->encoder = level ? ZSTD_createCCtx() : NULL;
        b->decoder = ZSTD_createDCtx();
        if (!b->decoder || (level && !b->encoder))
            return pare_fail(cx, PARE_ENOMEM, "%s", no_memory);
    }
    return PARE_OK;
}

void pare_stretch_coder_free(pare_ctx *cx, pare_stretch_coder *c)
{
    if (!c)
        return;
    for (size_t i = 0; c->bench && i < c->workers; i++) {
        (void)ZSTD_freeCCtx(c->bench[i].encoder);
        (void)ZSTD_freeDCtx(c->bench[i].decoder);
    }
    if (c->bench)
        (void)cx->alloc.resize(cx->alloc.self, c->bench, c->workers * sizeof *c->bench, 0);
    if (c->space)
        (void)cx->alloc.resize(cx->alloc.self, c->space, c->space_bytes, 0);
    (void)cx->alloc.resize(cx->alloc.self, c, sizeof *c, 0);
}

/* Bytes behind the last whole element go behind the planes. */
static void to_planes2(const unsigned char *x, size_t bytes, unsigned turn, unsigned char *to)
{
    const size_t n = bytes / 2;
    for (size_t i = 0; i < n; i++) {
        const unsigned v = x[2 * i] | (unsigned)x[2 * i + 1] << 8;
        const unsigned r = turn ? v << 1 | v >> 15 : v;
        to[i] = (unsigned char)r;
        to[n + i] = (unsigned char)(r >> 8);
    }
    memcpy(to + 2 * n, x + 2 * n, bytes - 2 * n);
}

static void of_planes2(const unsigned char *p, size_t bytes, unsigned turn, unsigned char *to)
{
    const size_t n = bytes / 2;
    for (size_t i = 0; i < n; i++) {
        const unsigned r = p[i] | (unsigned)p[n + i] << 8;
        const unsigned v = turn ? r >> 1 | (r & 1) << 15 : r;
        to[2 * i] = (unsigned char)v;
        to[2 * i + 1] = (unsigned char)(v >> 8);
    }
    memcpy(to + 2 * n, p + 2 * n, bytes - 2 * n);
}

static void to_planes4(const unsigned char *x, size_t bytes, unsigned turn, unsigned char *to)
{
    const size_t n = bytes / 4;
    for (size_t i = 0; i < n; i++) {
        const unsigned char *const at = x + 4 * i;
        const uint32_t v =
            at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
        const uint32_t r = turn ? v << 1 | v >> 31 : v;
        for (size_t k = 0; k < 4; k++)
            to[k * n + i] = (unsigned char)(r >> 8 * k);
    }
    memcpy(to + 4 * n, x + 4 * n, bytes - 4 * n);
}

static void of_planes4(const unsigned char *p, size_t bytes, unsigned turn, unsigned char *to)
{
    const size_t n = bytes / 4;
    for (size_t i = 0; i < n; i++) {
        const uint32_t r = p[i] | (uint32_t)p[n + i] << 8 | (uint32_t)p[2 * n + i] << 16 |
                           (uint32_t)p[3 * n + i] << 24;
        const uint32_t v = turn ? r >> 1 | r << 31 : r;
        for (size_t k = 0; k < 4; k++)
            to[4 * i + k] = (unsigned char)(v >> 8 * k);
    }
    memcpy(to + 4 * n, p + 4 * n, bytes - 4 * n);
}

static void put_xor(unsigned char *x, const unsigned char *y, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        x[i] ^= y[i];
}

/* A stretch in a form, where that is another than the stretch: in `form`, through `scratch`, both
 * of `bytes` bytes. */
static const unsigned char *to_form(pare_archive_form f, const unsigned char *x, size_t bytes,
                                    const unsigned char *twin, unsigned char *form,
                                    unsigned char *scratch)
{
    if (f == PARE_FORM_PLAIN || f == PARE_FORM_PREFIX)
        return x;
    const bool turn = f == PARE_FORM_PLANES2 || f == PARE_FORM_PLANES4;
    if (!turn) {
        unsigned char *const differing = f == PARE_FORM_XOR ? form : scratch;
        memcpy(differing, x, bytes);
        put_xor(differing, twin, bytes);
        x = differing;
    }
    if (f == PARE_FORM_PLANES2 || f == PARE_FORM_XOR2)
        to_planes2(x, bytes, turn, form);
    else if (f != PARE_FORM_XOR)
        to_planes4(x, bytes, turn, form);
    return form;
}

static void of_form(pare_archive_form f, const unsigned char *form, size_t bytes,
                    const unsigned char *twin, unsigned char *to)
{
    const bool turn = f == PARE_FORM_PLANES2 || f == PARE_FORM_PLANES4;
    if (f == PARE_FORM_PLANES2 || f == PARE_FORM_XOR2)
        of_planes2(form, bytes, turn, to);
    else if (f == PARE_FORM_PLANES4 || f == PARE_FORM_XOR4)
        of_planes4(form, bytes, turn, to);
    if (f == PARE_FORM_XOR || f == PARE_FORM_XOR2 || f == PARE_FORM_XOR4)
        put_xor(to, twin, bytes);
}

/* By entropy alone: a table so small that hardly a match is found but of runs. */
static void set_up(ZSTD_CCtx *e, pare_archive_form f, int level, const pare_base_bytes *base)
{
    (void)ZSTD_CCtx_reset(e, ZSTD_reset_session_and_parameters);
    (void)ZSTD_CCtx_setParameter(e, ZSTD_c_checksumFlag, 1);
    if (f == PARE_FORM_PLAIN || f == PARE_FORM_PREFIX) {
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_compressionLevel, level);
    } else {
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_compressionLevel, 1);
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_strategy, ZSTD_fast);
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_minMatch, 7);
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_hashLog, 6);
    }
    if (f == PARE_FORM_PREFIX) {
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_windowLog, 25);
        (void)ZSTD_CCtx_setParameter(e, ZSTD_c_enableLongDistanceMatching, 1);
        (void)ZSTD_CCtx_refPrefix(e, base->at, base->bytes);
    }
}

static bool lacks_memory(size_t result)
{
    return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation;
}

/* The bytes that the frame becomes; an error of zstd. */
static size_t decode_one(bench *b, const pare_stretch *s, const unsigned char *frame,
                         unsigned char *to)
{
    const pare_archive_frame *const f = &s->frame;
    const bool plain = f->form == PARE_FORM_PLAIN || f->form == PARE_FORM_PREFIX;
    unsigned char *const form = plain || f->form == PARE_FORM_XOR ? to : b->form;
    (void)ZSTD_DCtx_reset(b->decoder, ZSTD_reset_session_and_parameters);
    if (f->form == PARE_FORM_PREFIX &&
        ZSTD_isError(ZSTD_DCtx_refPrefix(b->decoder, s->base.at, s->base.bytes)))
        return (size_t)-ZSTD_error_memory_allocation; /* all that it can lack */
    const size_t n = ZSTD_decompressDCtx(b->decoder, form, f->bytes, frame, f->stored);
    if (!ZSTD_isError(n) && n == f->bytes && !plain)
        of_form(f->form, form, f->bytes, s->base.at, to);
    return n;
}

static size_t planes_of(pare_archive_form f)
{
    return f == PARE_FORM_PLANES2 || f == PARE_FORM_XOR2   ? 2
           : f == PARE_FORM_PLANES4 || f == PARE_FORM_XOR4 ? 4
                                                           : 1;
}

/* A frame in which each plane begins a block, and so has a table of codes of its own; the bytes
 * that it takes. NO_FRAME: more than `room`; an error of zstd. */
static size_t squeeze(ZSTD_CCtx *e, unsigned char *to, size_t room, const unsigned char *form,
                      size_t bytes, size_t planes)
{
    ZSTD_outBuffer out = {to, room, 0};
    const size_t plane = bytes / planes;
    if (planes == 1)
        return ZSTD_compress2(e, to, room, form, bytes);
    (void)ZSTD_CCtx_setPledgedSrcSize(e, bytes);
    for (size_t i = 0; i < planes; i++) {
        const bool last = i + 1 == planes;
        ZSTD_inBuffer in = {form + i * plane, last ? bytes - i * plane : plane, 0};
        size_t left;
        do {
            left = ZSTD_compressStream2(e, &out, &in, last ? ZSTD_e_end : ZSTD_e_flush);
            if (ZSTD_isError(left))
                return left;
        } while (left && out.pos < out.size);
        if (left)
            return NO_FRAME;
    }
    return out.pos;
}

/* Leaves the frame of form `f` in s->to if it is smaller than what is there. */
static void try_form(bench *b, pare_stretch *s, pare_archive_form f, int level)
{
    const pare_base_bytes *const base = f == PARE_FORM_PREFIX ? &s->base : &s->twin;
    const size_t bytes = s->frame.bytes, room = pare_stretch_bound(bytes);
    const unsigned char *const form = to_form(f, s->from, bytes, base->at, b->form, b->other);
    set_up(b->encoder, f, level, base);
    const size_t n = squeeze(b->encoder, b->other, room, form, bytes, planes_of(f));
    if (ZSTD_isError(n)) {
        s->why = no_memory; /* the only reason that is left */
        return;
    }
    if (n == NO_FRAME || (s->frame.stored && n >= s->frame.stored))
        return;
    s->frame.stored = n;
    s->frame.form = f;
    s->frame.base_at = pare_archive_form_based(f) ? base->offset : 0;
    s->frame.base_bytes = pare_archive_form_based(f) ? base->bytes : 0;
    memcpy(s->to, b->other, n);
}

static void encode(void *arg, size_t begin, size_t end, size_t worker)
{
    work *const w = arg;
    bench *const b = &w->coder->bench[worker];
    for (size_t i = begin; i < end; i++) {
        pare_stretch *const s = &w->s[i];
        s->why = NULL;
        s->frame.stored = 0;
        try_form(b, s, PARE_FORM_PLAIN, w->coder->level);
        if (s->width > 1)
            try_form(b, s, s->width == 2 ? PARE_FORM_PLANES2 : PARE_FORM_PLANES4, 0);
        if (s->base.at)
            try_form(b, s, PARE_FORM_PREFIX, w->coder->level);
        if (s->twin.at)
            try_form(b, s,
                     s->width == 2   ? PARE_FORM_XOR2
                     : s->width == 4 ? PARE_FORM_XOR4
                                     : PARE_FORM_XOR,
                     0);
        if (s->why) {
            atomic_store(&w->memory, true);
            continue;
        }
        if (pare_archive_form_based(s->frame.form) && s->frame.form != PARE_FORM_PREFIX)
            s->base = s->twin;
        pare_xxh3(s->to, s->frame.stored, s->frame.xxh3);
        const size_t n = decode_one(b, s, s->to, b->other);
        if (lacks_memory(n))
            atomic_store(&w->memory, true);
        else if (n != s->frame.bytes || memcmp(b->other, s->from, n) != 0)
            atomic_store(&w->failed, true);
    }
}

pare_status pare_stretch_encode(pare_ctx *cx, pare_stretch_coder *c, pare_stretch *s, size_t count)
{
    work w = {.coder = c, .s = s};
    pare_parallel(cx, count, 1, encode, &w);
    if (atomic_load(&w.memory))
        return pare_fail(cx, PARE_ENOMEM, "%s", no_memory);
    return atomic_load(&w.failed)
               ? pare_fail(cx, PARE_EIO,
                           "what was compressed does not give back the same bytes: the memory of "
                           "this machine may be faulty, or a file changed meanwhile")
               : PARE_OK;
}

/* One frame, of today's form, and nothing behind it. */
static bool is_frame(const unsigned char *frame, size_t len)
{
    return len > 4 && pare_le32(frame) == ZSTD_MAGICNUMBER &&
           ZSTD_findFrameCompressedSize(frame, len) == len;
}

static const char *check_frame(const pare_stretch *s)
{
    const pare_archive_frame *const f = &s->frame;
    uint8_t xxh3[16];
    pare_xxh3(s->from, f->stored, xxh3);
    if (memcmp(xxh3, f->xxh3, sizeof xxh3) != 0)
        return "differs from its XXH3: the archive is damaged there";
    if (!is_frame(s->from, f->stored) || ZSTD_getFrameContentSize(s->from, f->stored) != f->bytes)
        return "is no frame of zstd with that many bytes";
    return NULL;
}

static void decode(void *arg, size_t begin, size_t end, size_t worker)
{
    work *const w = arg;
    for (size_t i = begin; i < end; i++) {
        pare_stretch *const s = &w->s[i];
        s->why = check_frame(s);
        const size_t n = s->why ? 0 : decode_one(&w->coder->bench[worker], s, s->from, s->to);
        if (!s->why && lacks_memory(n))
            atomic_store(&w->memory, true);
        else if (!s->why && n != s->frame.bytes)
            s->why = "is damaged: zstd cannot decode it";
        if (s->why)
            atomic_store(&w->failed, true);
    }
}

pare_status pare_stretch_decode(pare_ctx *cx, pare_stretch_coder *c, pare_stretch *s, size_t count)
{
    work w = {.coder = c, .s = s};
    pare_parallel(cx, count, 1, decode, &w);
    if (atomic_load(&w.memory))
        return pare_fail(cx, PARE_ENOMEM, "%s", no_memory);
    return atomic_load(&w.failed) ? PARE_EFORMAT : PARE_OK;
}

pare_status pare_frame_of_text(pare_arena *a, const char *text, size_t len, unsigned char **frame,
                               size_t *frame_len)
{
    const size_t room = ZSTD_compressBound(len);
    *frame = pare_arena_take_raw(a, room, 1);
    if (!*frame)
        return PARE_ENOMEM;
    *frame_len = ZSTD_compress(*frame, room, text, len, 3);
    return ZSTD_isError(*frame_len) ? pare_fail(a->cx, PARE_ENOMEM, "%s", no_memory) : PARE_OK;
}

pare_status pare_text_of_frame(pare_arena *a, const unsigned char *frame, size_t len, size_t most,
                               char **text, size_t *text_len)
{
    if (!is_frame(frame, len))
        return PARE_EFORMAT;
    const unsigned long long bytes = ZSTD_getFrameContentSize(frame, len);
    if (bytes > most) /* errors are the largest values */
        return PARE_EFORMAT;
    *text_len = (size_t)bytes;
    *text = pare_arena_take(a, (size_t)bytes + 1, 1);
    if (!*text)
        return PARE_ENOMEM;
    const size_t n = ZSTD_decompress(*text, *text_len, frame, len);
    if (lacks_memory(n))
        return pare_fail(a->cx, PARE_ENOMEM, "%s", no_memory);
    return n == *text_len ? PARE_OK : PARE_EFORMAT;
}
