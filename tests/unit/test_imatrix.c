/* Importance matrices: both kinds of files give the sums that they were written from, and nothing
 * malformed gets through. */
#include "tests/fuzz/imatrix_input.h"
#include "tests/unit/folder.h"

enum { K = IMATRIX_COLUMNS };

static const char *const messages[] = {
    "file: no importance matrix that pare reads: it begins as neither kind of file does",
    "file: no importance matrix that pare reads: its general.type is not \"imatrix\"",
    "file: no importance matrix that pare reads: imatrix.chunk_count or imatrix.chunk_size is "
    "missing or no number of tokens",
    "file: no importance matrix that pare reads: it has no entry",
    "file: no importance matrix that pare reads: no entry has a call",
    "file: blk.0.attn_q.weight.in_sum2 is not in F32, or has no count in F32 for each matrix",
    "file: entry 1 of 2 ends behind the file, or has a length or a number of calls that cannot be",
    "file: blk.0.attn_q.weight is there twice",
    "file: importance of model.layers.0.self_attn.q_proj (blk.0.attn_q.weight) is missing",
    "file: importance of another model: blk.0.attn_q.weight has 3 columns of 1, not 4 of 1",
    "file: importance of another model: blk.0.attn_q.weight has 4 columns of 2, not 4 of 1",
    "file: blk.0.attn_q.weight has a count of 0 tokens",
    "file: blk.0.attn_q.weight: element 2 is negative or not finite",
    "file: blk.0.attn_q.weight: all sums of squares are 0",
    "file: GGUF files have no name for model.layers.0.rotary",
};

static pare_status read_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    float h[K * K];
    ck_assert_int_eq(pare_arena_init(cx, &a, 0), PARE_OK);
    const pare_status s = imatrix_read_all(cx, &a, bytes, len, h);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("imatrix", read_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

/* Two files of the corpus say the same: 1024 tokens, sums of squares 1024 j. */
START_TEST(both_kinds_give_the_sums)
{
    static const char *const files[] = {"q_gguf", "q_older"};
    for (size_t i = 0; i < 2; i++) {
        pare_ctx cx;
        pare_arena a;
        pare_imatrix m;
        const pare_imatrix_entry *e;
        float h[K * K];
        double fourth[2 * K] = {0};
        char path[512];
        pare_ctx_init(&cx);
        ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
        (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/imatrix/%s", PARE_SOURCE_DIR,
                       files[i]);
        ck_assert(pare_imatrix_is_one(path));
        ck_assert_int_eq(pare_imatrix_open(&cx, &a, path, &m), PARE_OK);
        ck_assert_uint_eq(m.chunks * m.chunk, 1024);
        ck_assert_int_eq(pare_imatrix_find(&m, "llama", "model.layers.0.self_attn.q_proj", K, &e),
                         PARE_OK);
        pare_site_stats s = {.k = K, .h = h, .fourth = fourth};
        ck_assert_int_eq(pare_imatrix_fill(&m, e, &s), PARE_OK);
        ck_assert_uint_eq(s.tokens, 1024);
        ck_assert_ptr_null(s.fourth);
        for (size_t j = 0; j < (size_t)K * K; j++)
            ck_assert_float_eq(h[j], j % (K + 1) ? 0 : 1024.0F * (float)(j / (K + 1)));
        pare_imatrix_close(&m);
        pare_arena_release(&a);
        ck_assert_uint_eq(cx.live_bytes, 0);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("imatrix");
    TCase *const t = tcase_create("imatrix");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, both_kinds_give_the_sums);
    suite_add_tcase(s, t);
    return unit_main(s);
}
