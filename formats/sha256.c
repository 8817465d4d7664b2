#include "formats/sha256.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#include "formats/hash.h"
#include "runtime/threads.h"

enum { STACK_BYTES = 256 * 1024, SHA256_BYTES = 32 };
static const char hashing[] = "hashing";

/* More than libcrypto takes to start. */
enum { START_BYTES = 1 << 20 };

/* One file. All of libcrypto's memory is taken before the thread starts. */
typedef struct item {
    pare_xxh3_state xxh3; /* of the digests of stretches */
    EVP_MD_CTX *sha;
    _Atomic uint64_t ready;
    bool failed;
} item;

struct pare_hashing {
    pare_arena arena;
    const pare_file *file;
    item *item;
    size_t count;
    char (*hex)[PARE_SHA256_HEX];
    uint8_t (*xxh3)[16]; /* or NULL */
    const volatile int *interrupt;
    atomic_size_t next; /* file that nobody has begun */
    _Atomic uint64_t done;
    uint64_t total;
    atomic_bool stop;     /* nobody wants the results; set with the lock held, as is */
    bool ended;           /* the thread has nothing left to do */
    pthread_cond_t moved; /* told of both, and of more that is ready */
    pthread_mutex_t lock;
    pthread_t thread;
    bool beside; /* the thread runs */
};

static pare_status fail(pare_ctx *cx)
{
    return pare_fail(cx, PARE_ENOMEM,
                     "libcrypto does not compute a SHA-256: it has no memory left, or is a build "
                     "without it");
}

/* libcrypto 3 ends the program by a signal when memory is refused while it starts, so this looks
 * whether there is room, and lets it start there and then. What the system's configuration of
 * OpenSSL says is for programs that talk to others. */
static pare_status prepare(pare_ctx *cx)
{
    static atomic_bool started;
    uint8_t digest[SHA256_BYTES];
    pare_arena room;
    if (atomic_load(&started))
        return PARE_OK;
    const pare_status s = pare_arena_init(cx, &room, START_BYTES);
    pare_arena_release(&room);
    if (s != PARE_OK)
        return s;
    if (OPENSSL_init_crypto(OPENSSL_INIT_NO_LOAD_CONFIG, NULL) != 1 ||
        !OSSL_LIB_CTX_get0_global_default() || /* else EVP takes one that was never set up */
        EVP_Digest("", 0, digest, NULL, EVP_sha256(), NULL) != 1)
        return fail(cx);
    atomic_store(&started, true);
    return PARE_OK;
}

pare_status pare_sha256_hex(pare_ctx *cx, const void *bytes, size_t len, char hex[PARE_SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    PARE_TRY(prepare(cx));
    if (EVP_Digest(bytes, len, digest, NULL, EVP_sha256(), NULL) != 1)
        return fail(cx);
    pare_hex_text(digest, sizeof digest, hex);
    return PARE_OK;
}

/* A context of libcrypto; the type is never completed. */
static EVP_MD_CTX *context_of(pare_sha256 *s)
{
    return (EVP_MD_CTX *)(void *)s;
}

pare_status pare_sha256_new(pare_ctx *cx, pare_sha256 **out)
{
    *out = NULL;
    PARE_TRY(prepare(cx));
    EVP_MD_CTX *const sha = EVP_MD_CTX_new();
    if (!sha || EVP_DigestInit_ex(sha, EVP_sha256(), NULL) != 1) {
        EVP_MD_CTX_free(sha);
        return fail(cx);
    }
    *out = (pare_sha256 *)(void *)sha;
    return PARE_OK;
}

void pare_sha256_add(pare_sha256 *s, const void *bytes, size_t len)
{
    (void)EVP_DigestUpdate(context_of(s), bytes, len);
}

pare_status pare_sha256_end(pare_ctx *cx, pare_sha256 **s, char hex[PARE_SHA256_HEX])
{
    uint8_t digest[SHA256_BYTES];
    const bool good = EVP_DigestFinal_ex(context_of(*s), digest, NULL) == 1;
    pare_sha256_free(*s);
    *s = NULL;
    if (!good)
        return fail(cx);
    pare_hex_text(digest, sizeof digest, hex);
    return PARE_OK;
}

void pare_sha256_free(pare_sha256 *s)
{
    EVP_MD_CTX_free(context_of(s));
}

/* Waits until `bytes` of a file are ready; false: they will never be. */
static bool wait_ready(pare_hashing *h, const item *it, uint64_t bytes)
{
    if (atomic_load(&it->ready) >= bytes)
        return true;
    (void)pthread_mutex_lock(&h->lock);
    while (atomic_load(&it->ready) < bytes && !atomic_load(&h->stop))
        (void)pthread_cond_wait(&h->moved, &h->lock);
    (void)pthread_mutex_unlock(&h->lock);
    return !atomic_load(&h->stop);
}

static bool given_up(pare_hashing *h)
{
    return atomic_load(&h->stop) || (h->interrupt && *h->interrupt);
}

/* Reports progress with `cx`, unless it is NULL; beginning and end are reported by finish. */
static void digest_file(pare_hashing *h, size_t i, const pare_ctx *cx)
{
    const pare_file *const f = &h->file[i];
    item *const it = &h->item[i];
    for (uint64_t at = 0; at < f->bytes && !given_up(h); at += PARE_STRETCH) {
        const uint64_t left = f->bytes - at;
        const size_t n = left < PARE_STRETCH ? (size_t)left : PARE_STRETCH;
        uint8_t stretch[16];
        if (!wait_ready(h, it, at + n))
            return;
        it->failed |= EVP_DigestUpdate(it->sha, f->data + at, n) != 1;
        if (h->xxh3) {
            pare_xxh3(f->data + at, n, stretch);
            pare_xxh3_add(&it->xxh3, stretch, sizeof stretch);
        }
        pare_file_forget(f, at, n);
        const uint64_t done = atomic_fetch_add(&h->done, n) + n;
        if (cx && done < h->total)
            pare_ctx_progress(cx, hashing, (double)done, (double)h->total);
    }
}

static void digest_files(pare_hashing *h, const pare_ctx *cx)
{
    for (size_t i; !given_up(h) && (i = atomic_fetch_add(&h->next, 1)) < h->count;)
        digest_file(h, i, cx);
}

static void *thread_main(void *arg)
{
    pare_hashing *const h = arg;
    digest_files(h, NULL);
    (void)pthread_mutex_lock(&h->lock);
    h->ended = true;
    (void)pthread_cond_broadcast(&h->moved);
    (void)pthread_mutex_unlock(&h->lock);
    return NULL;
}

static void start(pare_hashing *h)
{
    pthread_attr_t attr;
    if (pthread_attr_init(&attr) != 0)
        return;
    h->beside = pthread_attr_setstacksize(&attr, STACK_BYTES) == 0 &&
                pthread_create(&h->thread, &attr, thread_main, h) == 0;
    (void)pthread_attr_destroy(&attr);
}

static pare_status prepare_items(pare_ctx *cx, pare_hashing *h)
{
    h->item = PARE_NEW(&h->arena, item, h->count);
    if (!h->item)
        return PARE_ENOMEM;
    for (size_t i = 0; i < h->count; i++) {
        item *const it = &h->item[i];
        it->sha = EVP_MD_CTX_new();
        if (!it->sha || EVP_DigestInit_ex(it->sha, EVP_sha256(), NULL) != 1)
            return fail(cx);
        pare_xxh3_begin(&it->xxh3);
        h->total += h->file[i].bytes;
    }
    return PARE_OK;
}

static pare_status take(pare_ctx *cx, const pare_file *file, size_t count,
                        char (*hex)[PARE_SHA256_HEX], uint8_t (*xxh3)[16], pare_hashing **out)
{
    *out = NULL;
    PARE_TRY(prepare(cx));
    pare_hashing *const h = cx->alloc.resize(cx->alloc.self, NULL, 0, sizeof *h);
    if (!h)
        return pare_fail(cx, PARE_ENOMEM, "out of memory: hashing %zu files", count);
    *h = (pare_hashing){
        .file = file, .count = count, .hex = hex, .xxh3 = xxh3, .interrupt = cx->interrupt};
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->moved, NULL);
    pare_status s = pare_arena_init(cx, &h->arena, 0);
    if (s == PARE_OK)
        s = prepare_items(cx, h);
    if (s == PARE_OK)
        *out = h;
    else
        pare_hashing_free(cx, h);
    return s;
}

pare_status pare_hashing_begin(pare_ctx *cx, const pare_file *file, size_t count,
                               char (*hex)[PARE_SHA256_HEX], uint8_t (*xxh3)[16],
                               pare_hashing **out)
{
    PARE_TRY(take(cx, file, count, hex, xxh3, out));
    start(*out);
    return PARE_OK;
}

void pare_hashing_ready(pare_hashing *h, size_t i, uint64_t bytes)
{
    (void)pthread_mutex_lock(&h->lock);
    atomic_store(&h->item[i].ready, bytes);
    (void)pthread_cond_broadcast(&h->moved);
    (void)pthread_mutex_unlock(&h->lock);
}

/* The next time to report, on the clock of pthread_cond_timedwait. */
static struct timespec soon(void)
{
    enum { WAIT_NS = 100000000, SECOND_NS = 1000000000 };
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    t.tv_nsec += WAIT_NS;
    t.tv_sec += t.tv_nsec / SECOND_NS;
    t.tv_nsec %= SECOND_NS;
    return t;
}

/* Until the thread has nothing left to do; says how far it is. */
static void await(const pare_ctx *cx, pare_hashing *h)
{
    bool ended = !h->beside;
    while (!ended) {
        const struct timespec until = soon();
        (void)pthread_mutex_lock(&h->lock);
        if (!h->ended)
            (void)pthread_cond_timedwait(&h->moved, &h->lock, &until);
        ended = h->ended;
        (void)pthread_mutex_unlock(&h->lock);
        if (!ended)
            pare_ctx_progress(cx, hashing, (double)atomic_load(&h->done), (double)h->total);
    }
}

static void join(pare_hashing *h)
{
    if (h->beside)
        (void)pthread_join(h->thread, NULL);
    h->beside = false;
}

typedef struct pool_job {
    pare_hashing *hashing;
    const pare_ctx *cx;
} pool_job;

/* Each task takes what is next, until nothing is left. Worker 0 is the caller's own thread: it
 * alone may report. */
static void pool_task(void *arg, size_t begin, size_t end, size_t worker)
{
    const pool_job *const job = arg;
    (void)begin;
    (void)end;
    digest_files(job->hashing, worker == 0 ? job->cx : NULL);
}

static pare_status finish(pare_ctx *cx, pare_hashing *h)
{
    for (size_t i = 0; i < h->count; i++)
        pare_hashing_ready(h, i, h->file[i].bytes);
    pool_job job = {h, cx};
    pare_ctx_progress(cx, hashing, 0, (double)h->total);
    pare_parallel(cx, h->count, 1, pool_task, &job);
    await(cx, h);
    join(h);
    PARE_TRY(pare_ctx_interrupted(cx));
    pare_ctx_progress(cx, hashing, (double)h->total, (double)h->total);
    for (size_t i = 0; i < h->count; i++) {
        uint8_t digest[SHA256_BYTES];
        if (h->item[i].failed || EVP_DigestFinal_ex(h->item[i].sha, digest, NULL) != 1)
            return fail(cx);
        pare_hex_text(digest, sizeof digest, h->hex[i]);
        if (h->xxh3)
            pare_xxh3_end(&h->item[i].xxh3, h->xxh3[i]);
    }
    return PARE_OK;
}

pare_status pare_hashing_end(pare_ctx *cx, pare_hashing **h)
{
    const pare_status s = finish(cx, *h);
    pare_hashing_free(cx, *h);
    *h = NULL;
    return s;
}

void pare_hashing_free(pare_ctx *cx, pare_hashing *h)
{
    if (!h)
        return;
    (void)pthread_mutex_lock(&h->lock);
    atomic_store(&h->stop, true);
    (void)pthread_cond_broadcast(&h->moved);
    (void)pthread_mutex_unlock(&h->lock);
    join(h);
    for (size_t i = 0; h->item && i < h->count; i++)
        EVP_MD_CTX_free(h->item[i].sha);
    (void)pthread_mutex_destroy(&h->lock);
    (void)pthread_cond_destroy(&h->moved);
    pare_arena_release(&h->arena);
    (void)cx->alloc.resize(cx->alloc.self, h, sizeof *h, 0);
}

pare_status pare_sha256_files(pare_ctx *cx, const pare_file *file, size_t count,
                              char (*hex)[PARE_SHA256_HEX])
{
    pare_hashing *h;
    PARE_TRY(take(cx, file, count, hex, NULL, &h));
    return pare_hashing_end(cx, &h);
}
