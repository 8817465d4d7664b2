/* Importance matrices: both kinds of files give the sums that they were written from, and nothing
 * malformed gets through. */
#include "formats/gguf.h"
#include "tests/fuzz/imatrix_input.h"
#include "tests/unit/folder.h"

enum { K = IMATRIX_COLUMNS };

static const char *const messages[] = {
    "file: no importance matrix that pare reads: it begins as neither kind of file does",
    "file: no importance matrix that pare reads: its general.type is not \"imatrix\"",
    "file: no importance matrix that pare reads: imatrix.chunk_count is missing; a whole number",
    "file: no importance matrix that pare reads: imatrix.chunk_count is something else; a whole "
    "number from 1 to 2147483647 is expected",
    "file: no importance matrix that pare reads: imatrix.chunk_size is something else; a whole "
    "number from 1 to 16777216 is expected",
    "file: no importance matrix that pare reads: it has no entry",
    "file: no importance matrix that pare reads: no entry has a call",
    "file: blk.0.attn_q.weight.in_sum2 is no matrix of sums in F32, or its name has more than 512",
    "file: blk.0.attn_q.weight.in_sum2 is there, but not blk.0.attn_q.weight.counts, which belongs",
    "file: blk.0.attn_q.weight.counts is not in F32, or not a count for each of 1 matrices",
    "file: entry 2 of 2 goes past the end of the file, or has a length or a number of calls that "
    "cannot be",
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

static const char *corpus(const char *where, const char *name)
{
    static char path[512];
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s/%s", PARE_SOURCE_DIR, where, name);
    return path;
}

static const struct {
    const char *where, *name;
    bool is;
} kinds[] = {{"imatrix", "q_gguf", true},   {"imatrix", "q_older", true},
             {"imatrix", "type", false},    {"imatrix", "neither", false},
             {"imatrix", "cut", true},      {"imatrix", "none", false},
             {"gguf", "model_llama", false}};

START_TEST(a_model_is_no_importance_matrix)
{
    pare_ctx cx;
    bool is = !kinds[_i].is;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_imatrix_is_none_else(&cx, corpus(kinds[_i].where, kinds[_i].name), &is),
                     PARE_OK);
    ck_assert_int_eq(is, kinds[_i].is);
    ck_assert_str_eq(cx.what, "");
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

START_TEST(the_text_behind_the_entries_is_told)
{
    pare_ctx cx;
    pare_arena a;
    pare_imatrix m;
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_int_eq(pare_imatrix_open(&cx, &a, corpus("imatrix", "q_older"), &m), PARE_OK);
    ck_assert(m.older && m.datasets == 1);
    ck_assert_str_eq(m.dataset[0], "text");
    pare_imatrix_close(&m);
    ck_assert_int_eq(pare_imatrix_open(&cx, &a, corpus("imatrix", "older_without_tail"), &m),
                     PARE_OK);
    ck_assert(m.older && m.datasets == 0);
    pare_imatrix_close(&m);
    pare_arena_release(&a);
    ck_assert_uint_eq(cx.live_bytes, 0);
}
END_TEST

static const struct {
    const char *family, *linear, *name;
} names[] = {
    {"llama", "model.layers.3.self_attn.q_proj", "blk.3.attn_q.weight"},
    {"phi3", "model.layers.3.self_attn.qkv_proj.q", "blk.3.attn_qkv.weight"},
    {"phi3", "model.layers.3.self_attn.qkv_proj.v", "blk.3.attn_qkv.weight"},
    {"phi3", "model.layers.10.mlp.gate_up_proj.gate", "blk.10.ffn_up.weight"},
    {"phi3", "model.layers.10.mlp.gate_up_proj.up", "blk.10.ffn_up.weight"},
    {"phi3", "model.layers.0.mlp.down_proj", "blk.0.ffn_down.weight"},
    {"gpt2", "transformer.h.0.attn.c_attn.k", "blk.0.attn_qkv.weight"},
    {"gpt_neox", "gpt_neox.layers.1.attention.query_key_value.k", "blk.1.attn_qkv.weight"},
    {"llama", "model.layers.3.self_attn.q_proj.q", NULL},
    {"phi3", "qkv_proj", NULL},
};

/* Linears that are rows of one tensor read the same inputs, which have its name. */
START_TEST(linears_have_the_names_of_gguf)
{
    char out[PARE_GGUF_NAME] = "";
    ck_assert_int_eq(pare_gguf_name_of(names[_i].family, names[_i].linear, out),
                     names[_i].name != NULL);
    if (names[_i].name)
        ck_assert_str_eq(out, names[_i].name);
}
END_TEST

/* Two experts of two columns. */
START_TEST(an_expert_may_have_seen_no_token)
{
    static const struct {
        float counts[2], sums[4];
        const char *what;
    } rows[] = {
        {{3, 1}, {1, 2, 0, 4}, ""},
        {{3, 0}, {1, 2, 0, 0}, ""},
        {{3, 0}, {1, 2, 0, 4}, "file: experts: an expert without a token has sums"},
        {{3, 1}, {1, 2, 0, 0}, "file: experts: all sums of squares are 0"},
        {{3, -1}, {1, 2, 0, 4}, "file: experts has a count of -1 tokens"},
        {{3, 1}, {1, 2, 0, -4}, "file: experts: element 3 is negative or not finite"},
    };
    static char name[] = "file";
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        const pare_imatrix m = {.cx = &cx, .file = {.path = name}};
        const pare_imatrix_entry e = {.name = "experts",
                                      .columns = 2,
                                      .matrices = 2,
                                      .sum = (const unsigned char *)rows[i].sums,
                                      .counts = (const unsigned char *)rows[i].counts};
        const pare_status s = pare_imatrix_check(&m, &e);
        ck_assert_int_eq(s, rows[i].what[0] ? PARE_EFORMAT : PARE_OK);
        ck_assert_str_eq(cx.what, rows[i].what);
    }
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("imatrix");
    TCase *const t = tcase_create("imatrix");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, both_kinds_give_the_sums);
    tcase_add_loop_test(t, a_model_is_no_importance_matrix, 0, sizeof kinds / sizeof *kinds);
    tcase_add_test(t, the_text_behind_the_entries_is_told);
    tcase_add_loop_test(t, linears_have_the_names_of_gguf, 0, sizeof names / sizeof *names);
    tcase_add_test(t, an_expert_may_have_seen_no_token);
    suite_add_tcase(s, t);
    return unit_main(s);
}
