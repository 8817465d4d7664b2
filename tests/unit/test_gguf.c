#include "tests/fuzz/gguf_input.h"
#include "tests/unit/folder.h"

/* Every message of the container, the configuration, the tokenizer and the tensors. */
static const char *const messages[] = {
    "byte 0: the first word goes past the end at 0: truncated?",
    "byte 0: the first word goes past the end at 2: truncated?",
    "does not begin with \"GGUF\"",
    "the version goes past the end",
    "GGUF version 1 is not supported (2 and 3 are)",
    "GGUF version 50331648 (or a file for big-endian machines) is not supported",
    "the number of tensors goes past the end",
    "the number of values goes past the end",
    "1099511627776 tensors and 0 values; pare reads at most 1048576 and 65536",
    "9223372036854775808 values; pare reads at most",
    "0 tensors and 5 values, for which the ",
    "9 tensors and 0 values, for which the ",
    "byte 69: a key goes past the end at 72",
    "byte 32: a key goes past the end at 44",
    "a key of 70000 bytes, 1 to 65535 are allowed",
    "a key of 18446744073709551615 bytes",
    "a key of 0 bytes",
    "a key with a byte 0x20 in it",
    "a key with a byte 0x0a in it",
    "a key with a byte 0xc3 in it",
    "key a.b is there twice",
    "a kind of value goes past the end",
    "key a: kind 13 of value is not known",
    "key a: kind 99 of value is not known",
    "key a: an array of arrays",
    "key a: 4611686018427387905 elements go past the end of the file",
    "key a: 2305843009213693952 elements go past the end of the file",
    "key a: 9 elements go past the end of the file",
    "byte 42: the length of a text goes past the end at 49: truncated?",
    "byte 67: the length of a text goes past the end at 68: truncated?",
    "byte 41: the number of elements goes past the end at 42: truncated?",
    "key abcdef: 1 elements go past the end of the file",
    "key a: text 0 of 9 bytes goes past the end of the file",
    "key a: text 0 of 18446744073709551613 bytes goes past the end",
    "key abcdef: a truth value of 2, 0 and 1 exist",
    "key a: a truth value of 7, 0 and 1 exist",
    "general.alignment is not a power of two of 32 bits without sign",
    "the name of a tensor goes past the end",
    "the name of a tensor of 0 bytes, 1 to 63 are allowed",
    "the name of a tensor of 64 bytes, 1 to 63 are allowed",
    "the name of a tensor with a byte 0x00 in it",
    "tensor a has 5 dimensions, at most 4",
    "the number of dimensions goes past the end",
    "a dimension of a tensor goes past the end",
    "tensor a: a dimension of 0 makes its size overflow or zero",
    "tensor a: a dimension of 4294967296 makes its size overflow or zero",
    "tensor a: a dimension of 18446744073709551615 makes its size overflow or zero",
    "tensor a: 4611686018427387904 elements of F64 overflow",
    "the type of a tensor goes past the end",
    "tensor a: type 36 is not known",
    "tensor a: type 9 is not known",
    "tensor a: rows of 33 do not fill blocks of 32 (Q4_0)",
    "tensor a: rows of 128 do not fill blocks of 256 (Q4_K)",
    "the place of a tensor goes past the end",
    "tensor b begins at byte 64 of the data, expected is 32, behind the tensor before it",
    "tensor b begins at byte 64 of the data, expected is 128",
    "tensor a begins at byte 32 of the data, expected is 0",
    "tensor b begins at byte 4 of the data",
    "tensor a of 32 bytes at byte 128 goes past the end at 128: truncated?",
    "tensor b of 34 bytes at byte 160 goes past the end at 193: truncated?",
    "the padding in front of the data goes past the end",
    "tensor a of 4398046511104 bytes at byte 64 goes past the end at 68",
    "33 bytes behind the last tensor",
    "tensor a is there twice",
    "general.architecture is missing or not a text",
    "llama.context_length is missing, or not one number for all blocks",
    "llama.rope.freq_base is missing, or not one number for all blocks",
    "llama.rope.scaling.factor is missing, or not one number for all blocks",
    "llama.rope.scaling.attn_factor is missing, or not one number for all blocks",
    "llama.rope.scaling.attn_factor of 1.19 is not supported (1 is)",
    "llama.rope.scaling.alpha of 1000 is not supported (0 is)",
    "llama.rope.scaling.yarn_ext_factor of 1 is not supported (0 is)",
    "llama.rope.scale_linear is missing, or not one number for all blocks",
    "rope_freqs.weight and a rope.scaling.factor of 4 together are not supported",
    "llama.attention.scale of 0.5 is not supported (0.25 is)",
    "llama.logit_scale of 8 is not supported (1 is)",
    "llama.logit_scale is missing, or not one number for all blocks",
    "llama.final_logit_softcapping of 30 is not supported (0 is)",
    "llama.attention.twist is not known in files of llama",
    "llama.attention.sliding_window_pattern: windows in other blocks than this architecture has",
    "gemma3.attention.sliding_window_pattern is missing, or not one number for all blocks",
    "gemma3.rope.freq_base_swa is missing, or not one number for all blocks",
    "granite.rope.scaling.finetuned of 0 is not supported",
    "olmo2.attention.sliding_window_pattern: windows in other blocks than this architecture has",
    "general.type is adapter, a model is needed",
    "llama.attention.head_count is missing, or not one number for all blocks",
    "deci.feed_forward_length is missing, or not a number above 0 for each block",
    "llama.attention.layer_norm_rms_epsilon is missing, or not one number for all blocks",
    "llama.expert_used_count is missing, or not one number for all blocks",
    "2 experts in files of phimoe are not supported",
    "tensor blk.0.ffn_up_exps.weight of rank 2 is not a matrix for each of 2 experts",
    "tensor blk.0.ffn_down_exps.weight of rank 3 is not a matrix for each of 3 experts",
    "of rank 3 is not a matrix for each of 0 experts",
    "heads of 16 with values of 8 are not supported",
    "rope.scaling.type su is not supported (none, linear, yarn, longrope and the divisors of Llama "
    "3",
    "llama.rope.scaling.factor is not a number above 0",
    "llama.rope.scaling.original_context_length is not a number above 0",
    "llama.rope.scaling.yarn_attn_factor of 1.2 is not supported (1 is)",
    "llama.rope.scaling.yarn_ext_factor of 0.5 is not supported (1 is)",
    "llama.rope.scaling.yarn_beta_fast of 16 is not supported (32 is)",
    "llama.rope.scaling.yarn_beta_slow of 2 is not supported (1 is)",
    "llama.rope.scaling.yarn_log_multiplier of 0.1 is not supported (0 is)",
    "rope.scaling.type yarn is not supported in files of phi3 (none, linear and longrope are)",
    "tensor rope_freqs.weight and yarn together are not supported",
    "tensor rope_freqs.weight and longrope together are not supported",
    "longrope is not supported in files of llama without the tensors rope_factors_short.weight and",
    "longrope is not supported in files of phi2 (in those of llama and phi3 it is)",
    "tensor rope_factors_short.weight of 8 values of F16 is not supported (up to 128 of F32 are)",
    "tensor rope_factors_short.weight of 129 values of F32 is not supported",
    "tensor rope_factors_short.weight: value 2 is not a number above 0",
    "tensor rope_factors_short.weight and a rope.scaling.factor together are not supported",
    "tensor rope_factors_short.weight and a rope.scaling.type of yarn together are not supported",
    "tensor rope_freqs.weight of F16 is not supported (F32 is)",
    "tensor rope_freqs.weight: its frequencies are not those of Llama 3, others are not supported",
    "tensor token_embd.weight is missing, or not a matrix",
    "one of 3 parts, which are found by their names, NAME-00001-of-00003.gguf and so on",
    "tensor blk.0.attn_q.weight: 31 rows do not fit 2 heads",
    "tensor blk.0.attn_q.weight: 32 rows do not fit 0 heads",
    "tensor blk.0.attn_q.bias: 1 rows do not fit 2 heads",
    "tensor blk.0.attn_qkv.weight: 97 rows of F32 are not those of 3 linears, 96",
    "tensor blk.0.attn_qkv.weight: 32 rows of F32 are not those of 3 linears, 96",
    "tensor blk.0.attn_qkv.bias: 96 rows of F32 are not those of 3 linears, 0",
    "tensor blk.0.attn_qkv.bias: 96 rows of Q8_0 are not those of 3 linears, 96",
    "tensor blk.0.ffn_up.weight: 31 rows of F32 are not those of 2 linears, 30",
    "tensor output_norm.weight is not a vector of floats",
    "two tensors stand for model.norm.weight",
    "tensor output.scale: 1 numbers of F16, not 1 of F32 for output.weight",
    "tensor output.scale: 2 numbers of F32, not 1 of F32 for output.weight",
    "tensor blk.0.ffn_up_exps.scale: 1 numbers of F32, not 2 of F32 for blk.0.ffn_up_exps.weight",
    "tensor output.scale: value 0 is nan, which is no scale",
    "tensor output.scale: value 0 is 0, which is no scale",
    "tensor output.scale: value 0 is 2e+35, which is no scale",
    "tensor output.weight: block 15: scale 3 is NaN or has a sign",
    "tokenizer.ggml.model bert is not supported (llama and gpt2 are)",
    "tokenizer.ggml.pre future is not supported; put the model's tokenizer.json beside the file",
    "tokenizer.ggml.pre gemma4 is not supported: its pieces are UTF-8",
    "tokenizer.ggml.pre is missing, so how the tokenizer cuts words is not known",
    "tokenizer.ggml.tokens is missing or not a list of texts",
    "token 1 is not UTF-8, or holds a NUL",
    "token 7 is not UTF-8, or holds a NUL",
    "tokens 0 and 1 have the same text, which is not supported; put the model's tokenizer.json",
    "token 0 has no score",
    "token 2 has no type or score",
    "the score of token 6 is not finite",
    "token 7 of 1025 bytes, pieces have at most 1024",
    "tokenizer.ggml.merges is missing or not a list of texts",
    "tokenizer.ggml.merges: entry 0 is not two texts",
    "tokenizer.ggml.merges: entry 1 is not two texts",
    "tokenizer.ggml.bos_token_id is 8, but there are 8 tokens",
    "tokenizer.chat_template is not UTF-8",
};

static pare_status parse_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_gguf g;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = pare_gguf_parse(cx, &a, "file", bytes, len, &g);
    pare_arena_release(&a);
    return s;
}

static pare_status read_bytes(pare_ctx *cx, const void *bytes, size_t len)
{
    pare_arena a;
    pare_status s = pare_arena_init(cx, &a, 0);
    if (s == PARE_OK)
        s = gguf_read_all(cx, &a, bytes, len);
    pare_arena_release(&a);
    return s;
}

START_TEST(the_corpus_reaches_every_message)
{
    corpus_reaches("gguf", read_bytes, messages, sizeof messages / sizeof *messages);
}
END_TEST

static char *corpus(const char *name, size_t *len)
{
    char path[4096];
    (void)snprintf(path, sizeof path, "%s/tests/fuzz/corpus/gguf/%s", PARE_SOURCE_DIR, name);
    return folder_get(path, len);
}

static void check_values(const pare_gguf *g)
{
    int64_t whole;
    double number;
    const char *text;
    size_t n;
    ck_assert_uint_eq(g->values, 25);
    ck_assert(pare_gguf_text(pare_gguf_find(g, "general.architecture"), &text, &n));
    ck_assert(n == 5 && memcmp(text, "llama", 5) == 0);
    ck_assert(!pare_gguf_integer(pare_gguf_find(g, "general.architecture"), 0, &whole));
    ck_assert(pare_gguf_integer(pare_gguf_find(g, "k.5"), 0, &whole) && whole == 1);
    ck_assert(!pare_gguf_integer(pare_gguf_find(g, "k.5"), 1, &whole));
    ck_assert(pare_gguf_number(pare_gguf_find(g, "k.5"), 0, &number) && number == 1);
    ck_assert(!pare_gguf_integer(pare_gguf_find(g, "k.6"), 0, &whole));
    ck_assert(pare_gguf_number(pare_gguf_find(g, "k.6"), 0, &number) && number == 1);
    ck_assert(pare_gguf_number(pare_gguf_find(g, "a.12"), 2, &number) && number == 1);
    ck_assert(pare_gguf_integer(pare_gguf_find(g, "a.7"), 0, &whole) && whole == 0);
    ck_assert_ptr_null(pare_gguf_find(g, "k"));
    ck_assert(!pare_gguf_integer(NULL, 0, &whole) && !pare_gguf_number(NULL, 0, &number) &&
              !pare_gguf_text(NULL, &text, &n));
    const pare_gguf_value *const list = pare_gguf_find(g, "a.s");
    pare_gguf_texts it = {0};
    ck_assert(list->array && list->count == 3);
    ck_assert(pare_gguf_next(list, &it, &text, &n) && n == 1 && *text == 'a');
    ck_assert(pare_gguf_next(list, &it, &text, &n) && n == 0);
    ck_assert(pare_gguf_next(list, &it, &text, &n) && n == 3 && memcmp(text, "bcd", 3) == 0);
    ck_assert(!pare_gguf_next(list, &it, &text, &n));
}

START_TEST(values_and_tensors_are_views)
{
    pare_ctx cx;
    pare_arena a;
    pare_gguf g;
    size_t len;
    char *const bytes = corpus("full", &len);
    pare_ctx_init(&cx);
    ck_assert_int_eq(pare_arena_init(&cx, &a, 0), PARE_OK);
    ck_assert_msg(pare_gguf_parse(&cx, &a, "file", bytes, len, &g) == PARE_OK, "%s", cx.what);
    ck_assert_uint_eq(g.version, 3);
    ck_assert_uint_eq(g.alignment, 32);
    check_values(&g);
    ck_assert_uint_eq(g.tensors, 2);
    const pare_gguf_tensor *const t = pare_gguf_tensor_find(&g, "a");
    ck_assert_uint_eq(t->rank, 2);
    ck_assert(t->shape[0] == 2 && t->shape[1] == 4 && t->elements == 8 && t->bytes == 32);
    ck_assert_ptr_eq(t->data, bytes + g.data_offset);
    ck_assert_str_eq(t[1].type->name, "Q8_0");
    ck_assert_ptr_eq(t[1].data, bytes + len - 34);
    ck_assert_ptr_null(pare_gguf_tensor_find(&g, "c"));
    pare_arena_release(&a);
    free(bytes);
}
END_TEST

/* Values of the narrow kinds keep their sign; what no int64 holds is no integer. */
START_TEST(integers_keep_their_sign)
{
    static const unsigned char ones[8] = {255, 255, 255, 255, 255, 255, 255, 255};
    static const struct {
        pare_gguf_kind kind;
        int64_t value;
    } rows[] = {{PARE_GGUF_U8, 255}, {PARE_GGUF_I8, -1},          {PARE_GGUF_U16, 65535},
                {PARE_GGUF_I16, -1}, {PARE_GGUF_U32, 4294967295}, {PARE_GGUF_I32, -1},
                {PARE_GGUF_I64, -1}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const pare_gguf_value v = {.kind = rows[i].kind, .count = 1, .data = ones};
        int64_t out;
        ck_assert(pare_gguf_integer(&v, 0, &out) && out == rows[i].value);
    }
    const pare_gguf_value v = {.kind = PARE_GGUF_U64, .count = 1, .data = ones};
    int64_t out;
    ck_assert(!pare_gguf_integer(&v, 0, &out));
}
END_TEST

START_TEST(every_truncation_is_refused)
{
    size_t len;
    char *const bytes = corpus("full", &len);
    for (size_t cut = 0; cut < len; cut++) {
        pare_ctx cx;
        pare_ctx_init(&cx);
        char *const part = malloc(cut ? cut : 1);
        ck_assert_ptr_nonnull(part);
        memcpy(part, bytes, cut);
        ck_assert_int_eq(parse_bytes(&cx, part, cut), PARE_EFORMAT);
        ck_assert_msg(strncmp(cx.what, "file: ", 6) == 0, "%s", cx.what);
        free(part);
    }
    free(bytes);
}
END_TEST

START_TEST(every_failed_allocation_is_reported)
{
    size_t len;
    char *const bytes = corpus("all_types", &len);
    for (long n = 0;; n++) {
        unit_failing f = {.left = n};
        pare_ctx cx;
        pare_ctx_init(&cx);
        cx.alloc = (pare_alloc){unit_failing_resize, &f};
        const pare_status s = parse_bytes(&cx, bytes, len);
        ck_assert_int_eq(f.live, 0);
        if (s == PARE_OK) {
            ck_assert_int_ge(n, 1);
            break;
        }
        ck_assert_int_eq(s, PARE_ENOMEM);
        ck_assert_str_ne(cx.what, "");
    }
    free(bytes);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("gguf");
    TCase *const t = tcase_create("gguf");
    tcase_add_test(t, the_corpus_reaches_every_message);
    tcase_add_test(t, values_and_tensors_are_views);
    tcase_add_test(t, integers_keep_their_sign);
    tcase_add_test(t, every_truncation_is_refused);
    tcase_add_test(t, every_failed_allocation_is_reported);
    suite_add_tcase(s, t);
    return unit_main(s);
}
