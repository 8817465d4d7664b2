#include "formats/hash.h"

#include "runtime/threads.h"
#include "tests/unit/folder.h"

/* FIPS 180-4 examples; XXH3-128 of the empty input with seed 0 from its specification. */
START_TEST(known_answers_come_out)
{
    char sha[PARE_SHA256_HEX], xxh[PARE_XXH3_HEX];
    pare_sha256_hex("abc", 3, sha);
    ck_assert_str_eq(sha, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    pare_sha256_hex("", 0, sha);
    ck_assert_str_eq(sha, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    pare_xxh3_hex("", 0, xxh);
    ck_assert_str_eq(xxh, "99aa06d3014798d86001c324468d497f");
    uint8_t digest[16];
    pare_xxh3("", 0, digest);
    ck_assert_uint_eq(digest[0], 0x99);
    ck_assert_uint_eq(digest[15], 0x7f);
    char other[PARE_XXH3_HEX];
    pare_xxh3_hex("a", 1, other);
    ck_assert_str_ne(other, xxh);
}
END_TEST

/* Pieces around the block and buffer sizes of the algorithm. */
START_TEST(pieces_hash_as_the_whole)
{
    static const size_t piece[] = {0, 1, 63, 64, 65, 239, 240, 241, 256, 257, 1023, 1024, 1025};
    enum { WHOLE = 16384 };
    static uint8_t bytes[WHOLE];
    uint8_t whole[16], parts[16];
    for (size_t i = 0; i < WHOLE; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    pare_xxh3(bytes, WHOLE, whole);
    for (size_t start = 0; start < sizeof piece / sizeof *piece; start++) {
        pare_xxh3_state s;
        pare_xxh3_begin(&s);
        for (size_t at = 0, i = start; at < WHOLE; i++) {
            const size_t want = piece[i % (sizeof piece / sizeof *piece)];
            const size_t len = WHOLE - at < want ? WHOLE - at : want;
            pare_xxh3_add(&s, bytes + at, len);
            at += len;
        }
        pare_xxh3_end(&s, parts);
        ck_assert_mem_eq(whole, parts, sizeof whole);
    }
}
END_TEST

typedef struct seen {
    double done, total;
} seen;

static void report(void *self, const char *what, double done, double total)
{
    seen *const s = self;
    ck_assert_str_eq(what, "hashing");
    ck_assert(done > s->done && done <= total);
    s->done = done;
    s->total = total;
}

/* Sizes around the step of 4 MiB, one empty. */
enum { FILES = 4, BIG = 4 * 1024 * 1024 };
static const size_t sizes[FILES] = {0, 3, BIG, BIG + 1};

static void open_files(pare_ctx *cx, pare_arena *a, folder *dir, pare_file *file)
{
    char *const bytes = malloc(BIG + 1);
    ck_assert_ptr_nonnull(bytes);
    memset(bytes, 'x', BIG + 1);
    for (size_t i = 0; i < FILES; i++) {
        char name[8];
        (void)snprintf(name, sizeof name, "f%zu", i);
        folder_put(dir, name, bytes, sizes[i]);
        ck_assert_int_eq(pare_file_map(cx, a, dir->file, &file[i]), PARE_OK);
    }
    free(bytes);
}

START_TEST(files_hash_as_their_bytes_do)
{
    pare_ctx cx;
    pare_arena a;
    folder dir;
    pare_file file[FILES];
    char hex[FILES][PARE_SHA256_HEX], whole[PARE_SHA256_HEX];
    seen progress = {0};
    pare_ctx_init(&cx);
    cx.progress = (pare_progress){report, &progress};
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    folder_make(&dir);
    open_files(&cx, &a, &dir, file);
    for (size_t threads = 1; threads <= 3; threads += 2) {
        progress = (seen){0};
        pare_pool *pool;
        ck_assert_int_eq(pare_pool_new(&cx, threads, &pool), PARE_OK);
        cx.pool = pool;
        ck_assert_int_eq(pare_sha256_files(&cx, file, FILES, hex), PARE_OK);
        for (size_t i = 0; i < FILES; i++) {
            pare_sha256_hex(file[i].data, sizes[i], whole);
            ck_assert_str_eq(hex[i], whole);
        }
        if (threads == 1)
            ck_assert(progress.done == 3 + BIG + BIG + 1.0);
        cx.pool = NULL;
        pare_pool_free(&cx, pool);
    }
    const volatile int interrupted = 1;
    cx.interrupt = &interrupted;
    ck_assert_int_eq(pare_sha256_files(&cx, file, FILES, hex), PARE_EINTERRUPTED);
    for (size_t i = 0; i < FILES; i++)
        pare_file_unmap(&file[i]);
    folder_end(&dir, &a);
}
END_TEST

/* Both digests of one pass, and stretches of many sizes, are those of the bytes as a whole. */
START_TEST(files_and_stretches_have_the_xxh3_of_their_bytes)
{
    pare_ctx cx;
    pare_arena a;
    folder dir;
    pare_file file[FILES];
    pare_span span[FILES];
    char hex[FILES][PARE_SHA256_HEX], sha[PARE_SHA256_HEX], text[PARE_XXH3_HEX],
        want[PARE_XXH3_HEX];
    uint8_t of_file[FILES][16], of_span[FILES][16];
    folder_begin(&dir, &cx, &a);
    open_files(&cx, &a, &dir, file);
    ck_assert_int_eq(pare_pool_new(&cx, 3, &cx.pool), PARE_OK);
    for (size_t i = 0; i < FILES; i++)
        span[i] = (pare_span){file[i].data, file[i].bytes};
    ck_assert_int_eq(pare_digest_files(&cx, file, FILES, hex, of_file), PARE_OK);
    ck_assert_int_eq(pare_xxh3_spans(&cx, "spans", span, FILES, of_span), PARE_OK);
    for (size_t i = 0; i < FILES; i++) {
        pare_sha256_hex(file[i].data, sizes[i], sha);
        ck_assert_str_eq(hex[i], sha);
        pare_xxh3_hex(file[i].data, sizes[i], want);
        pare_xxh3_text(of_file[i], text);
        ck_assert_str_eq(text, want);
        pare_xxh3_text(of_span[i], text);
        ck_assert_str_eq(text, want);
    }
    const volatile int interrupted = 1;
    cx.interrupt = &interrupted;
    ck_assert_int_eq(pare_xxh3_spans(&cx, "spans", span, FILES, of_span), PARE_EINTERRUPTED);
    for (size_t i = 0; i < FILES; i++)
        pare_file_unmap(&file[i]);
    pare_pool_free(&cx, cx.pool);
    folder_end(&dir, &a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hash");
    TCase *const t = tcase_create("hash");
    tcase_add_test(t, known_answers_come_out);
    tcase_add_test(t, pieces_hash_as_the_whole);
    tcase_add_test(t, files_hash_as_their_bytes_do);
    tcase_add_test(t, files_and_stretches_have_the_xxh3_of_their_bytes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
