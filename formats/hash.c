#include "formats/hash.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state, so that it needs no allocation */
#include <xxhash.h>

#include "runtime/threads.h"

void pare_hex_text(const uint8_t *bytes, size_t count, char *hex)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < count; i++) {
        hex[2 * i] = digits[bytes[i] >> 4];
        hex[2 * i + 1] = digits[bytes[i] & 15];
    }
    hex[2 * count] = '\0';
}

static void canonical(XXH128_hash_t hash, uint8_t out[16])
{
    XXH128_canonical_t c;
    XXH128_canonicalFromHash(&c, hash);
    memcpy(out, c.digest, sizeof c.digest);
}

void pare_xxh3(const void *bytes, size_t len, uint8_t out[16])
{
    canonical(XXH3_128bits(bytes, len), out);
}

_Static_assert(sizeof(XXH3_state_t) <= sizeof(pare_xxh3_state), "room for the state");

void pare_xxh3_begin(pare_xxh3_state *s)
{
    XXH3_INITSTATE((XXH3_state_t *)(void *)s->space);
    (void)XXH3_128bits_reset((XXH3_state_t *)(void *)s->space);
}

void pare_xxh3_add(pare_xxh3_state *s, const void *bytes, size_t len)
{
    (void)XXH3_128bits_update((XXH3_state_t *)(void *)s->space, bytes, len);
}

void pare_xxh3_end(const pare_xxh3_state *s, uint8_t out[16])
{
    canonical(XXH3_128bits_digest((const XXH3_state_t *)(const void *)s->space), out);
}

void pare_xxh3_hex(const void *bytes, size_t len, char hex[PARE_XXH3_HEX])
{
    uint8_t digest[16];
    pare_xxh3(bytes, len, digest);
    pare_hex_text(digest, sizeof digest, hex);
}

void pare_xxh3_text(const uint8_t xxh3[16], char hex[PARE_XXH3_HEX])
{
    pare_hex_text(xxh3, 16, hex);
}

enum { STEP = 4 * 1024 * 1024 }; /* bytes between two looks at the interrupt */

/* What all tasks of one loop share. */
typedef struct progress {
    const pare_ctx *cx;
    const char *what;
    double total;
    _Atomic uint64_t done;
} progress;

static bool is_interrupted(const progress *p)
{
    const volatile int *const interrupt = p->cx->interrupt;
    return interrupt && *interrupt;
}

/* Worker 0 is the caller's own thread: it alone may report. */
static void advance(progress *p, uint64_t bytes, size_t worker)
{
    const uint64_t done = atomic_fetch_add(&p->done, bytes) + bytes;
    if (worker == 0)
        pare_ctx_progress(p->cx, p->what, (double)done, p->total);
}

/* The stretches of all files, in their order. */
typedef struct stretch_job {
    progress progress;
    const pare_span *stretch;
    uint8_t (*xxh3)[16];
} stretch_job;

static void stretch_task(void *arg, size_t begin, size_t end, size_t worker)
{
    stretch_job *const job = arg;
    for (size_t i = begin; i < end && !is_interrupted(&job->progress); i++) {
        const pare_span *const s = &job->stretch[i];
        pare_xxh3(s->data, (size_t)s->bytes, job->xxh3[i]);
        advance(&job->progress, s->bytes, worker);
    }
}

static size_t stretches_of(const pare_file *f)
{
    return (size_t)(f->bytes / PARE_STRETCH + (f->bytes % PARE_STRETCH != 0));
}

static pare_status hash_stretches(pare_ctx *cx, pare_arena *a, stretch_job *job,
                                  const pare_file *file, size_t count, uint8_t (*xxh3)[16])
{
    size_t all = 0, at = 0;
    for (size_t i = 0; i < count; i++)
        all += stretches_of(&file[i]);
    pare_span *const stretch = PARE_NEW(a, pare_span, all);
    job->stretch = stretch;
    job->xxh3 = pare_arena_take(a, all, sizeof *job->xxh3);
    if (!stretch || !job->xxh3)
        return PARE_ENOMEM;
    for (size_t i = 0; i < count; i++)
        for (uint64_t from = 0; from < file[i].bytes; from += PARE_STRETCH) {
            const uint64_t left = file[i].bytes - from;
            stretch[at++] =
                (pare_span){file[i].data + from, left < PARE_STRETCH ? left : PARE_STRETCH};
        }
    enum { CHUNK = 4 };
    pare_parallel(cx, all, CHUNK, stretch_task, job);
    PARE_TRY(pare_ctx_interrupted(cx)); /* then some stretches have no hash */
    for (size_t i = 0, first = 0; i < count; first += stretches_of(&file[i]), i++)
        pare_xxh3(job->xxh3 + first, stretches_of(&file[i]) * sizeof *job->xxh3, xxh3[i]);
    return PARE_OK;
}

pare_status pare_xxh3_files(pare_ctx *cx, const char *what, const pare_file *file, size_t count,
                            uint8_t (*xxh3)[16])
{
    pare_arena a;
    stretch_job job = {.progress = {.cx = cx, .what = what}};
    for (size_t i = 0; i < count; i++)
        job.progress.total += (double)file[i].bytes;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = hash_stretches(cx, &a, &job, file, count, xxh3);
    pare_arena_release(&a);
    return s;
}

/* A stretch and its place among all of them. */
typedef struct placed_span {
    pare_span span;
    size_t at;
} placed_span;

typedef struct span_job {
    progress progress;
    const placed_span *item;
    uint8_t (*xxh3)[16];
} span_job;

static int largest_first(const void *a, const void *b)
{
    const placed_span *const x = a, *const y = b;
    return (x->span.bytes < y->span.bytes) - (x->span.bytes > y->span.bytes);
}

static void digest_span(span_job *job, const placed_span *item, size_t worker)
{
    const unsigned char *const data = item->span.data;
    pare_xxh3_state xxh3;
    pare_xxh3_begin(&xxh3);
    for (uint64_t at = 0; at < item->span.bytes && !is_interrupted(&job->progress); at += STEP) {
        const uint64_t left = item->span.bytes - at;
        const size_t n = left < STEP ? (size_t)left : STEP;
        pare_xxh3_add(&xxh3, data + at, n);
        advance(&job->progress, n, worker);
    }
    pare_xxh3_end(&xxh3, job->xxh3[item->at]);
}

static void span_task(void *arg, size_t begin, size_t end, size_t worker)
{
    span_job *const job = arg;
    for (size_t i = begin; i < end; i++)
        digest_span(job, &job->item[i], worker);
}

pare_status pare_xxh3_spans(pare_ctx *cx, const char *what, const pare_span *span, size_t count,
                            uint8_t (*xxh3)[16])
{
    pare_arena scratch;
    span_job job = {.progress = {.cx = cx, .what = what}, .xxh3 = xxh3};
    pare_status s = pare_arena_init(cx, &scratch, 0);
    placed_span *const item = s == PARE_OK ? PARE_NEW(&scratch, placed_span, count) : NULL;
    if (!item) {
        pare_arena_release(&scratch);
        return PARE_ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        item[i] = (placed_span){span[i], i};
        job.progress.total += (double)span[i].bytes;
    }
    if (count > 1)
        qsort(item, count, sizeof *item, largest_first);
    job.item = item;
    pare_ctx_progress(cx, what, 0, job.progress.total);
    pare_parallel(cx, count, 1, span_task, &job);
    pare_arena_release(&scratch);
    return pare_ctx_interrupted(cx);
}
