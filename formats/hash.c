#include "formats/hash.h"

#include <sha2.h>
#include <stdatomic.h>
#include <string.h>
#define XXH_STATIC_LINKING_ONLY /* the state, so that it needs no allocation */
#include <xxhash.h>

#include "runtime/threads.h"

static void to_hex(const uint8_t *bytes, size_t count, char *hex)
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
    to_hex(digest, sizeof digest, hex);
}

void pare_sha256_hex(const void *bytes, size_t len, char hex[PARE_SHA256_HEX])
{
    SHA2_CTX sha;
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Init(&sha);
    SHA256Update(&sha, bytes, len);
    SHA256Final(digest, &sha);
    to_hex(digest, sizeof digest, hex);
}

enum { STEP = 4 * 1024 * 1024 }; /* bytes between two looks at the interrupt */

typedef struct sha_job {
    const pare_ctx *cx;
    const pare_file *file;
    char (*hex)[PARE_SHA256_HEX];
    double total;
    _Atomic uint64_t done;
} sha_job;

/* Worker 0 is the caller's own thread: it alone may report. */
static void sha_file(sha_job *job, size_t i, size_t worker)
{
    const pare_file *const f = &job->file[i];
    const volatile int *const interrupt = job->cx->interrupt;
    SHA2_CTX sha;
    SHA256Init(&sha);
    for (uint64_t at = 0; at < f->bytes && !(interrupt && *interrupt); at += STEP) {
        const uint64_t left = f->bytes - at;
        const size_t n = left < STEP ? (size_t)left : STEP;
        SHA256Update(&sha, f->data + at, n);
        pare_file_forget(f, at, n);
        const uint64_t done = atomic_fetch_add(&job->done, n) + n;
        if (worker == 0)
            pare_ctx_progress(job->cx, "hashing", (double)done, job->total);
    }
    uint8_t digest[SHA256_DIGEST_LENGTH];
    SHA256Final(digest, &sha);
    to_hex(digest, sizeof digest, job->hex[i]);
}

static void sha_task(void *arg, size_t begin, size_t end, size_t worker)
{
    for (size_t i = begin; i < end; i++)
        sha_file(arg, i, worker);
}

pare_status pare_sha256_files(pare_ctx *cx, const pare_file *files, size_t count,
                              char (*hex)[PARE_SHA256_HEX])
{
    sha_job job = {.cx = cx, .file = files, .hex = hex};
    for (size_t i = 0; i < count; i++)
        job.total += (double)files[i].bytes;
    pare_parallel(cx, count, 1, sha_task, &job);
    return pare_ctx_interrupted(cx);
}
