#include "formats/hash.h"

#include "runtime/threads.h"
#include "tests/unit/big_files.h"

/* XXH3-128 of the empty input with seed 0 from its specification. */
START_TEST(known_answers_come_out)
{
    char xxh[PARE_XXH3_HEX];
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

/* Stretches of many sizes are hashed as a whole, files as the hashes of their stretches. */
START_TEST(stretches_and_files_have_the_xxh3_of_their_bytes)
{
    pare_ctx cx;
    pare_arena a;
    folder dir;
    pare_file file[BIG_FILES];
    pare_span span[BIG_FILES];
    uint8_t of_file[BIG_FILES][16], of_span[BIG_FILES][16], part[3][16], want[16];
    folder_begin(&dir, &cx, &a);
    big_files_open(&cx, &a, &dir, file);
    for (size_t i = 0; i < BIG_FILES; i++)
        span[i] = (pare_span){file[i].data, file[i].bytes};
    for (size_t threads = 1; threads <= 3; threads += 2) {
        ck_assert_int_eq(pare_pool_new(&cx, threads, &cx.pool), PARE_OK);
        ck_assert_int_eq(pare_xxh3_files(&cx, "files", file, BIG_FILES, of_file), PARE_OK);
        ck_assert_int_eq(pare_xxh3_spans(&cx, "spans", span, BIG_FILES, of_span), PARE_OK);
        for (size_t i = 0; i < BIG_FILES; i++) {
            size_t parts = 0;
            for (size_t at = 0; at < file[i].bytes; at += PARE_STRETCH, parts++)
                pare_xxh3(file[i].data + at,
                          file[i].bytes - at < PARE_STRETCH ? file[i].bytes - at : PARE_STRETCH,
                          part[parts]);
            pare_xxh3(part, parts * sizeof *part, want);
            ck_assert_mem_eq(of_file[i], want, sizeof want);
            pare_xxh3(file[i].data, file[i].bytes, want);
            ck_assert_mem_eq(of_span[i], want, sizeof want);
        }
        pare_pool_free(&cx, cx.pool);
        cx.pool = NULL;
    }
    const volatile int interrupted = 1;
    cx.interrupt = &interrupted;
    ck_assert_int_eq(pare_xxh3_spans(&cx, "spans", span, BIG_FILES, of_span), PARE_EINTERRUPTED);
    ck_assert_int_eq(pare_xxh3_files(&cx, "files", file, BIG_FILES, of_file), PARE_EINTERRUPTED);
    for (size_t i = 0; i < BIG_FILES; i++)
        pare_file_unmap(&file[i]);
    folder_end(&dir, &a);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("hash");
    TCase *const t = tcase_create("hash");
    tcase_add_test(t, known_answers_come_out);
    tcase_add_test(t, pieces_hash_as_the_whole);
    tcase_add_test(t, stretches_and_files_have_the_xxh3_of_their_bytes);
    suite_add_tcase(s, t);
    return unit_main(s);
}
