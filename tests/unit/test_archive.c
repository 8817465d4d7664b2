#include "formats/archive_stretch.h"
#include "tests/fuzz/archive_input.h"
#include "tests/unit/folder.h"

static const char *const messages[] = {
    "is no archive of pare: its first bytes are others",
    "is empty",
    "is too short to be an archive",
    "does not end in a seek table",
    "the seek table does not fit into the file",
    "the seek table is damaged",
    "the seek table does not fit the file in front of it",
    "the seek table is not that of the index",
    "has no index where the seek table says it is",
    "the index differs from its XXH3",
    "the index is no frame of zstd",
    "x.pare.zst:1:",
    "the archive has format 2",
    "has no format",
    "program or zstd is no short text of plain characters",
    "level or stretch is out of range",
    "has no list of files",
    "the name of a file is none that pare writes",
    "names do not ascend",
    "has no number of bytes",
    "has no SHA-256 of 64 hex digits",
    "has a base without bytes or SHA-256",
    "has no list of frames",
    "its frames do not add up to its bytes",
    "bytes of a frame do not fit its file or the largest stretch",
    "the stored bytes of a frame do not fit the archive",
    "a frame has a form that pare does not know",
    "a frame has no XXH3 of 32 hex digits",
    "a frame needs a base file, and none is named",
    "base_at and base_bytes of a frame do not lie in the base file",
    "frames do not end where the index begins",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_archive x;
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_status s = archive_input_parse(cx, &a, bytes, len, &x);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("archive", parse_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

enum { NO_MEMORY = 64 };  /* ZSTD_error_memory_allocation */
static bool prefix_fails; /* as if libzstd got no memory for it */

size_t __real_ZSTD_DCtx_refPrefix(void *d, const void *prefix, size_t bytes);
size_t __wrap_ZSTD_DCtx_refPrefix(void *d, const void *prefix, size_t bytes);
size_t __wrap_ZSTD_DCtx_refPrefix(void *d, const void *prefix, size_t bytes)
{
    return prefix_fails ? (size_t)-NO_MEMORY : __real_ZSTD_DCtx_refPrefix(d, prefix, bytes);
}

/* Bytes that repeat neither quickly nor never. */
static void fill(unsigned char *x, size_t bytes, unsigned seed)
{
    uint32_t v = seed * 2654435761U + 1;
    for (size_t i = 0; i < bytes; i++) {
        v = v * 1664525U + 1013904223U;
        x[i] = (unsigned char)(i % 4 == 3 ? 0x3c + (v >> 30) : v >> 24);
    }
}

enum { MOST = 5000 };

typedef struct bench {
    pare_ctx cx;
    pare_stretch_coder *coder;
    unsigned char raw[MOST], base[MOST], frame[2 * MOST], back[MOST];
} bench;

static void bench_begin(bench *b)
{
    *b = (bench){.coder = NULL};
    pare_ctx_init(&b->cx);
    ck_assert_int_eq(pare_stretch_coder_new(&b->cx, MOST, 3, &b->coder), PARE_OK);
    ck_assert_uint_le(pare_stretch_bound(MOST), sizeof b->frame);
}

static void bench_end(bench *b)
{
    pare_stretch_coder_free(&b->cx, b->coder);
    ck_assert_uint_eq(b->cx.live_bytes, 0);
}

/* Encodes, decodes, compares; the frame that it became. */
static pare_archive_frame there_and_back(bench *b, size_t bytes, unsigned width, bool twin,
                                         bool prefix)
{
    pare_stretch s = {.from = b->raw, .to = b->frame, .width = width, .frame = {.bytes = bytes}};
    if (twin)
        s.twin = (pare_base_bytes){b->base, 0, bytes};
    if (prefix)
        s.base = (pare_base_bytes){b->base, 0, MOST};
    ck_assert_int_eq(pare_stretch_encode(&b->cx, b->coder, &s, 1), PARE_OK);
    pare_stretch t = {.from = b->frame, .to = b->back, .frame = s.frame};
    if (pare_archive_form_based(t.frame.form))
        t.base = (pare_base_bytes){b->base + t.frame.base_at, t.frame.base_at, t.frame.base_bytes};
    memset(b->back, 0x55, sizeof b->back);
    ck_assert_int_eq(pare_stretch_decode(&b->cx, b->coder, &t, 1), PARE_OK);
    ck_assert_mem_eq(b->back, b->raw, bytes);
    return s.frame;
}

/* Every length, so that the bytes behind the last whole element are met. */
START_TEST(each_form_gives_back_its_stretch)
{
    static const unsigned width[] = {1, 2, 4};
    bench b;
    bool seen[PARE_FORMS] = {false};
    bench_begin(&b);
    for (size_t i = 0; i < 3; i++)
        for (size_t bytes = 1; bytes < 4096; bytes += bytes < 20 ? 1 : 1021) {
            fill(b.raw, bytes, 7);
            seen[there_and_back(&b, bytes, width[i], false, false).form] = true;
            fill(b.base, MOST, 9);
            memcpy(b.base, b.raw, bytes); /* the same but for low bits here and there */
            for (size_t k = 0; k < bytes; k += 4)
                b.base[k] = (unsigned char)(b.base[k] ^ (k % 3));
            seen[there_and_back(&b, bytes, width[i], true, false).form] = true;
            memmove(b.base + 100, b.raw, bytes < MOST - 100 ? bytes : MOST - 100);
            seen[there_and_back(&b, bytes, width[i], false, true).form] = true;
        }
    for (int i = 0; i < PARE_FORMS; i++)
        ck_assert_msg(seen[i], "no stretch became %s",
                      pare_archive_form_word((pare_archive_form)i));
    bench_end(&b);
}
END_TEST

/* BF16 of random sign and mantissa and of three exponents, even and odd: an exponent that lies in
 * one byte takes 5/3 bits of a Huffman code. Cut in two by the bytes it takes 2 with the sign, and
 * makes nothing else smaller. */
START_TEST(planes_put_the_exponent_into_a_byte)
{
    enum { ELEMENTS = MOST / 2 };
    bench b;
    uint32_t v = 5;
    bench_begin(&b);
    for (size_t i = 0; i < ELEMENTS; i++) {
        v = v * 1664525U + 1013904223U;
        const unsigned x = (v >> 16 & 0x807f) | (126 + (v >> 8) % 3) << 7;
        b.raw[2 * i] = (unsigned char)x;
        b.raw[2 * i + 1] = (unsigned char)(x >> 8);
    }
    const pare_archive_frame f = there_and_back(&b, MOST, 2, false, false);
    ck_assert_int_eq(f.form, PARE_FORM_PLANES2);
    ck_assert_uint_lt(f.stored, ELEMENTS + ELEMENTS * 5 / 3 / 8 + 130);
    bench_end(&b);
}
END_TEST

START_TEST(a_frame_that_was_changed_is_refused)
{
    bench b;
    bench_begin(&b);
    fill(b.raw, 300, 3);
    pare_archive_frame f = there_and_back(&b, 300, 2, false, false);
    for (size_t bit = 0; bit < 8 * f.stored; bit++) {
        pare_stretch t = {.from = b.frame, .to = b.back, .frame = f};
        b.frame[bit / 8] = (unsigned char)(b.frame[bit / 8] ^ 1U << bit % 8);
        ck_assert_int_eq(pare_stretch_decode(&b.cx, b.coder, &t, 1), PARE_EFORMAT);
        ck_assert_ptr_nonnull(strstr(t.why, "differs from its XXH3"));
        b.frame[bit / 8] = (unsigned char)(b.frame[bit / 8] ^ 1U << bit % 8);
    }
    pare_stretch t = {.from = b.frame, .to = b.back, .frame = f};
    t.frame.bytes++;
    ck_assert_int_eq(pare_stretch_decode(&b.cx, b.coder, &t, 1), PARE_EFORMAT);
    ck_assert_ptr_nonnull(strstr(t.why, "is no frame of zstd with that many bytes"));
    bench_end(&b);
}
END_TEST

/* Taking a prefix allocates. */
START_TEST(without_memory_no_archive_is_damaged)
{
    bench b;
    bench_begin(&b);
    fill(b.raw, MOST, 11);
    memcpy(b.base, b.raw, MOST);
    const pare_archive_frame f = there_and_back(&b, MOST, 1, false, true);
    ck_assert_int_eq(f.form, PARE_FORM_PREFIX);
    pare_stretch s = {.from = b.frame, .to = b.back, .frame = f, .base = {b.base, 0, MOST}};
    prefix_fails = true;
    ck_assert_int_eq(pare_stretch_decode(&b.cx, b.coder, &s, 1), PARE_ENOMEM);
    ck_assert_ptr_null(s.why);
    pare_ctx_clear(&b.cx);
    s = (pare_stretch){.from = b.raw, .to = b.frame, .width = 1, .frame = {.bytes = MOST}};
    s.base = (pare_base_bytes){b.base, 0, MOST};
    ck_assert_int_eq(pare_stretch_encode(&b.cx, b.coder, &s, 1), PARE_ENOMEM);
    prefix_fails = false;
    bench_end(&b);
}
END_TEST

START_TEST(words_that_steer_a_terminal_fit_no_archive)
{
    static const char *const bad[] = {"\x1b[2J", "1\n", "\xc2\x9b", "\x7f"};
    pare_archive x = {.program = "0.1.0", .zstd = "1.5.4", .level = 3, .stretch = 1};
    pare_ctx cx;
    pare_arena a;
    char *text;
    size_t len;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_archive_tail(&cx, &a, &x, &text, &len), PARE_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        x.zstd = bad[i];
        ck_assert_int_eq(pare_archive_tail(&cx, &a, &x, &text, &len), PARE_EINVAL);
        ck_assert_ptr_nonnull(strstr(cx.what, "is no short text of plain characters"));
        pare_ctx_clear(&cx);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(names_that_lead_elsewhere_fit_no_archive)
{
    static const char *const bad[] = {
        "", ".", "..", "a/b", "/a", "a\n", "\x7f", "caf\xe9", PARE_ARCHIVE_MARK};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert(!pare_archive_name_fits(bad[i]));
    ck_assert(pare_archive_name_fits(".gitattributes"));
    ck_assert(pare_archive_name_fits("a b..c"));
    ck_assert(pare_archive_name_fits("caf\xc3\xa9"));
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("archive");
    TCase *const t = tcase_create("archive");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, each_form_gives_back_its_stretch);
    tcase_add_test(t, planes_put_the_exponent_into_a_byte);
    tcase_add_test(t, a_frame_that_was_changed_is_refused);
    tcase_add_test(t, without_memory_no_archive_is_damaged);
    tcase_add_test(t, words_that_steer_a_terminal_fit_no_archive);
    tcase_add_test(t, names_that_lead_elsewhere_fit_no_archive);
    suite_add_tcase(s, t);
    return unit_main(s);
}
