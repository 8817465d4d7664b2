#include "formats/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "runtime/threads.h"
#include "tests/unit/big_files.h"

/* What is made to fail. */
static bool no_context, no_update, no_digest, no_thread;
static long update_ns;     /* that an update takes longer */
static atomic_int updates; /* begun */

EVP_MD_CTX *__real_EVP_MD_CTX_new(void);
EVP_MD_CTX *__wrap_EVP_MD_CTX_new(void);
EVP_MD_CTX *__wrap_EVP_MD_CTX_new(void)
{
    return no_context ? NULL : __real_EVP_MD_CTX_new();
}

int __real_EVP_DigestUpdate(EVP_MD_CTX *cx, const void *bytes, size_t len);
int __wrap_EVP_DigestUpdate(EVP_MD_CTX *cx, const void *bytes, size_t len);
int __wrap_EVP_DigestUpdate(EVP_MD_CTX *cx, const void *bytes, size_t len)
{
    atomic_fetch_add(&updates, 1);
    if (update_ns)
        (void)nanosleep(&(struct timespec){.tv_nsec = update_ns}, NULL);
    return no_update ? 0 : __real_EVP_DigestUpdate(cx, bytes, len);
}

int __real_EVP_Digest(const void *bytes, size_t len, unsigned char *digest, unsigned *size,
                      const EVP_MD *type, ENGINE *engine);
int __wrap_EVP_Digest(const void *bytes, size_t len, unsigned char *digest, unsigned *size,
                      const EVP_MD *type, ENGINE *engine);
int __wrap_EVP_Digest(const void *bytes, size_t len, unsigned char *digest, unsigned *size,
                      const EVP_MD *type, ENGINE *engine)
{
    return no_digest ? 0 : __real_EVP_Digest(bytes, len, digest, size, type, engine);
}

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *),
                          void *arg)
{
    return no_thread ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

/* FIPS 180-4 examples. */
START_TEST(known_answers_come_out)
{
    pare_ctx cx;
    char sha[PARE_SHA256_HEX];
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_sha256_hex(&cx, "abc", 3, sha), PARE_OK);
    ck_assert_str_eq(sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    ck_assert_int_eq(pare_sha256_hex(&cx, "", 0, sha), PARE_OK);
    ck_assert_str_eq(sha, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}
END_TEST

typedef struct fixture {
    pare_ctx cx;
    pare_arena a;
    folder dir;
    pare_file file[BIG_FILES];
    char want[BIG_FILES][PARE_SHA256_HEX], hex[BIG_FILES][PARE_SHA256_HEX];
    uint8_t want_xxh3[BIG_FILES][16], xxh3[BIG_FILES][16];
} fixture;

static void begin(fixture *x)
{
    folder_begin(&x->dir, &x->cx, &x->a);
    big_files_open(&x->cx, &x->a, &x->dir, x->file);
    for (size_t i = 0; i < BIG_FILES; i++)
        ck_assert_int_eq(pare_sha256_hex(&x->cx, x->file[i].data, big_files_bytes[i], x->want[i]),
                         PARE_OK);
    ck_assert_int_eq(pare_xxh3_files(&x->cx, "files", x->file, BIG_FILES, x->want_xxh3), PARE_OK);
}

static void end(fixture *x)
{
    for (size_t i = 0; i < BIG_FILES; i++)
        pare_file_unmap(&x->file[i]);
    folder_end(&x->dir, &x->a);
}

static void check_results(fixture *x)
{
    for (size_t i = 0; i < BIG_FILES; i++) {
        ck_assert_str_eq(x->hex[i], x->want[i]);
        ck_assert_mem_eq(x->xxh3[i], x->want_xxh3[i], sizeof *x->xxh3);
    }
    memset(x->hex, 0, sizeof x->hex);
    memset(x->xxh3, 0, sizeof x->xxh3);
}

typedef struct seen {
    double done, total;
    int between; /* reports of work that had begun and was not done */
} seen;

static void report(void *self, const char *what, double done, double total)
{
    seen *const s = self;
    ck_assert_str_eq(what, "hashing");
    ck_assert(done >= s->done && done <= total);
    s->between += done > 0 && done < total;
    s->done = done;
    s->total = total;
}

START_TEST(files_hash_as_their_bytes_do)
{
    fixture x;
    begin(&x);
    for (size_t threads = 1; threads <= 3; threads += 2) {
        seen progress = {0};
        x.cx.progress = (pare_progress){.report = report, .self = &progress};
        ck_assert_int_eq(pare_pool_new(&x.cx, threads, &x.cx.pool), PARE_OK);
        ck_assert_int_eq(pare_sha256_files(&x.cx, x.file, BIG_FILES, x.hex), PARE_OK);
        memcpy(x.xxh3, x.want_xxh3, sizeof x.xxh3);
        check_results(&x);
        if (threads == 1)
            ck_assert(progress.done == 3 + 2 * PARE_STRETCH + 1.0 + BIG_LARGEST);
        pare_pool_free(&x.cx, x.cx.pool);
        x.cx.pool = NULL;
    }
    const volatile int interrupted = 1;
    x.cx.interrupt = &interrupted;
    ck_assert_int_eq(pare_sha256_files(&x.cx, x.file, BIG_FILES, x.hex), PARE_EINTERRUPTED);
    end(&x);
}
END_TEST

static pare_hashing *start(fixture *x)
{
    pare_hashing *h;
    ck_assert_int_eq(pare_hashing_begin(&x->cx, x->file, BIG_FILES, x->hex, x->xxh3, &h), PARE_OK);
    return h;
}

/* Whatever is ready when, and with or without a thread, the digests are those of the files. */
START_TEST(files_that_grow_are_hashed_beside)
{
    fixture x;
    begin(&x);
    for (size_t i = 0; i < 4; i++) {
        no_thread = false;
        ck_assert_int_eq(pare_pool_new(&x.cx, 1 + i % 2, &x.cx.pool), PARE_OK);
        no_thread = i >= 2;
        pare_hashing *h = start(&x);
        for (size_t f = 0; f < BIG_FILES; f++)
            for (uint64_t at = 1; at < big_files_bytes[f]; at += 700001)
                pare_hashing_ready(h, f, at);
        ck_assert_int_eq(pare_hashing_end(&x.cx, &h), PARE_OK);
        ck_assert_ptr_null(h);
        check_results(&x);
        pare_pool_free(&x.cx, x.cx.pool);
        x.cx.pool = NULL;
    }
    no_thread = false;
    end(&x);
}
END_TEST

/* A byte that is not ready is not looked at. */
START_TEST(only_what_is_ready_is_hashed)
{
    fixture x;
    begin(&x);
    const size_t bytes = PARE_STRETCH + 1;
    char *const text = malloc(bytes);
    pare_file growing;
    pare_hashing *h;
    ck_assert_ptr_nonnull(text);
    folder_put(&x.dir, "grows", memset(text, 'x', bytes), bytes);
    free(text);
    ck_assert_int_eq(pare_file_map(&x.cx, &x.a, x.dir.file, &growing), PARE_OK);
    ck_assert_int_eq(pare_hashing_begin(&x.cx, &growing, 1, x.hex, NULL, &h), PARE_OK);
    pare_hashing_ready(h, 0, PARE_STRETCH - 1);
    (void)nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL); /* time for a mistake */
    const int fd = open(x.dir.file, O_WRONLY);
    ck_assert_int_eq(pare_file_put(&x.cx, fd, "grows", x.file[3].data, bytes, 0), PARE_OK);
    (void)close(fd);
    ck_assert_int_eq(pare_hashing_end(&x.cx, &h), PARE_OK);
    ck_assert_str_eq(x.hex[0], x.want[3]);
    pare_file_unmap(&growing);
    end(&x);
}
END_TEST

START_TEST(work_that_is_given_up_ends)
{
    fixture x;
    begin(&x);
    pare_hashing_free(&x.cx, NULL);
    pare_hashing *h = start(&x);
    pare_hashing_ready(h, 1, 2);
    pare_hashing_free(&x.cx, h);
    const volatile int interrupted = 1;
    x.cx.interrupt = &interrupted;
    h = start(&x);
    ck_assert_int_eq(pare_hashing_end(&x.cx, &h), PARE_EINTERRUPTED);
    end(&x);
}
END_TEST

/* The largest file, of which all is ready and the thread has begun to hash it slowly. */
static pare_hashing *start_slowly(fixture *x)
{
    const pare_file *const f = &x->file[BIG_FILES - 1];
    pare_hashing *h;
    ck_assert_int_eq(pare_hashing_begin(&x->cx, f, 1, x->hex, NULL, &h), PARE_OK);
    atomic_store(&updates, 0);
    update_ns = 300000000;
    pare_hashing_ready(h, 0, f->bytes);
    while (atomic_load(&updates) == 0)
        (void)sched_yield();
    return h;
}

START_TEST(work_that_is_given_up_ends_though_all_is_ready)
{
    fixture x;
    begin(&x);
    pare_hashing_free(&x.cx, start_slowly(&x));
    ck_assert_int_lt(atomic_load(&updates), 3); /* that of all stretches */
    update_ns = 0;
    end(&x);
}
END_TEST

START_TEST(whoever_waits_for_the_thread_sees_how_far_it_is)
{
    fixture x;
    seen progress = {0};
    begin(&x);
    pare_hashing *h = start_slowly(&x);
    x.cx.progress = (pare_progress){.report = report, .self = &progress};
    ck_assert_int_eq(pare_hashing_end(&x.cx, &h), PARE_OK);
    ck_assert_str_eq(x.hex[0], x.want[BIG_FILES - 1]);
    ck_assert_int_gt(progress.between, 0);
    update_ns = 0;
    end(&x);
}
END_TEST

static void check_fails(fixture *x, pare_status s)
{
    ck_assert_int_eq(s, PARE_ENOMEM);
    ck_assert_ptr_nonnull(strstr(x->cx.what, "libcrypto does not compute a SHA-256"));
    pare_ctx_clear(&x->cx);
}

START_TEST(a_libcrypto_that_fails_is_told)
{
    fixture x;
    pare_hashing *h;
    begin(&x);
    no_digest = true;
    check_fails(&x, pare_sha256_hex(&x.cx, "abc", 3, x.hex[0]));
    no_context = true;
    check_fails(&x, pare_hashing_begin(&x.cx, x.file, BIG_FILES, x.hex, NULL, &h));
    ck_assert_ptr_null(h);
    no_context = false;
    no_update = true;
    check_fails(&x, pare_sha256_files(&x.cx, x.file, BIG_FILES, x.hex));
    h = start(&x);
    check_fails(&x, pare_hashing_end(&x.cx, &h));
    no_update = no_digest = false;
    end(&x);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("sha256");
    TCase *const t = tcase_create("sha256");
    tcase_add_test(t, known_answers_come_out);
    tcase_add_test(t, files_hash_as_their_bytes_do);
    tcase_add_test(t, files_that_grow_are_hashed_beside);
    tcase_add_test(t, only_what_is_ready_is_hashed);
    tcase_add_test(t, work_that_is_given_up_ends);
    tcase_add_test(t, work_that_is_given_up_ends_though_all_is_ready);
    tcase_add_test(t, whoever_waits_for_the_thread_sees_how_far_it_is);
    tcase_add_test(t, a_libcrypto_that_fails_is_told);
    suite_add_tcase(s, t);
    return unit_main(s);
}
