#include <string.h>

#include "compress/evaluate/task.h"
#include "compress/evaluate/task_internal.h"
#include "formats/checkpoint.h"
#include "runtime/sample.h"
#include "tests/unit/folder.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"

/* What Python's re finds in each text by the two patterns of gsm8k.yaml (lm_eval 0.4.13), held
 * against each answer as its exact_match does: 1 strict-match, 2 flexible-extract, 3 both. */
static const char *const answers[] = {
    "x\n#### 7",  "#### 1234.5",   "#### -1,234.50", "#### 5", "5",         "#### -6", "#### 3",
    "#### 1,2.5", "#### 1 #### 2", "#### 2.",        "no",     "[Invalid]", "#### 12", "#### 9",
    "#### 4",     "#### -4",       "#### 18",        "#### .", "3",         "#### -."};
enum { ANSWERS = sizeof answers / sizeof *answers };

static const struct {
    const char *written, *right;
} texts[] = {
    {"It is 7.\n#### 7", "30000000000000000000"},
    {"x #### -1,234.50 y 9", "00100000000002000000"},
    {"#### $5", "00022000000100000000"},
    {"#### .", "00000000000200000100"},
    {"##### 12", "00000000000030000000"},
    {"no number - here", "00000000000300000000"},
    {"- 5 and -6", "00000200000100000000"},
    {"a $3. b", "00000020000100000020"},
    {"cost $1,2.5.", "00000002000100000000"},
    {"#### 5.", "00033000000000000000"},
    {"7 8 ####  9", "00000000000102000000"},
    {"#### 1 #### 2", "00000000220000000000"},
    {"5.\n", "00022000000100000000"},
    {"-$4", "00000000000100020000"},
    {"--4", "00000000000100020000"},
    {"12abc3", "00000020000100000020"},
    {"#### -.", "00000000000200000001"},
    {"one 1 and 2.", "00000000220100000000"},
    {"####\n8", "00000000000100000000"},
    {"#### 18\nQuestion", "00000000000000003000"},
};

START_TEST(numbers_are_those_that_the_harness_finds)
{
    pare_ctx cx;
    pare_ctx_init(&cx);
    pare_arena a = {.cx = &cx};
    for (size_t i = 0; i < ANSWERS; i++) {
        unsigned char verdict;
        ck_assert_int_eq(pare__task_answer(&a, texts[_i].written, answers[i], &verdict), PARE_OK);
        const int bits =
            ((verdict & PARE_CHOICE_RIGHT) ? 1 : 0) + ((verdict & PARE_CHOICE_RIGHT_NORM) ? 2 : 0);
        ck_assert_msg(bits == texts[_i].right[i] - '0', "\"%s\" beside \"%s\": %d",
                      texts[_i].written, answers[i], bits);
        ck_assert((verdict & PARE_CHOICE_ASKED) != 0);
    }
    pare_arena_release(&a);
}
END_TEST

START_TEST(an_answer_ends_at_the_first_of_its_stops)
{
    static const char *const cut[][2] = {{"It is 5.\n\nQuestion: Is it 6?", "It is 5.\n\n"},
                                         {"5 <end> Question: 6 </s>", "5 "},
                                         {"5 </s> 6 </s>", "5 "},
                                         {"<|im_end|>", ""},
                                         {"Question 5 <s> 6", NULL},
                                         {"", NULL}};
    for (size_t i = 0; i < sizeof cut / sizeof *cut; i++) {
        char text[64];
        (void)snprintf(text, sizeof text, "%s", cut[i][0]);
        ck_assert(pare__task_cut(text, "<end>") == (cut[i][1] != NULL));
        ck_assert_str_eq(text, cut[i][cut[i][1] ? 1 : 0]);
    }
    char text[] = "5 <end> 6";
    ck_assert(!pare__task_cut(text, NULL));
}
END_TEST

enum { MOST = 400 };

typedef struct bench {
    pare_ctx cx;
    pare_arena a;
    folder f;
    pare_checkpoint ck;
    pare_model model;
    pare_forward forward;
    pare_tokenizer *t;
} bench;

/* The demo's model, with more positions than it was trained for. */
static void begin(bench *b)
{
    folder_begin(&b->f, &b->cx, &b->a);
    ck_assert_msg(pare_checkpoint_open(&b->cx, &b->a, HEDGE, &b->ck) == PARE_OK, "%s", b->cx.what);
    ck_assert_int_eq(pare_model_load(&b->cx, &b->a, &b->ck, &b->model), PARE_OK);
    b->model.config.context = MOST;
    ck_assert_int_eq(pare_forward_init(&b->cx, &b->a, &b->model, MOST, true, &b->forward), PARE_OK);
    ck_assert_int_eq(pare_checkpoint_tokenizer(&b->ck, &b->t), PARE_OK);
}

static void end(bench *b)
{
    pare_tokenizer_free(b->t);
    pare_checkpoint_close(&b->ck);
    folder_end(&b->f, &b->a);
}

/* What the model writes behind a question by itself, up to what ends an answer. */
static char *write_one(bench *b, const char *question)
{
    char prompt[256], *text;
    int32_t *id, tokens[MOST];
    size_t count, len;
    (void)snprintf(prompt, sizeof prompt, "Question: %s\nAnswer:", question);
    ck_assert_int_eq(
        pare_tokenizer_encode(&b->cx, b->t, &b->a, prompt, strlen(prompt), &id, &count), PARE_OK);
    const pare_generate_opts o = {.sequences = 1, .length = count + PARE__TASK_WRITTEN};
    memcpy(tokens, id, count * sizeof *tokens);
    ck_assert_int_eq(pare_generate(&b->cx, &b->a, &b->forward, &o, count, tokens, NULL, NULL),
                     PARE_OK);
    size_t n = 0;
    while (n < PARE__TASK_WRITTEN && tokens[count + n] != b->model.config.eos_id[0])
        n++;
    ck_assert_int_eq(pare_tokenizer_decode(&b->cx, b->t, &b->a, tokens + count, n, &text, &len),
                     PARE_OK);
    char *const stop = strstr(text, "Question:");
    if (stop)
        *stop = '\0';
    return text;
}

/* The last run of digits and dots, as a number that is in no other text where there is none. */
static const char *last_digits(bench *b, const char *text)
{
    size_t len = strlen(text), from;
    while (len && !strchr("0123456789", text[len - 1]))
        len--;
    for (from = len; from && strchr("0123456789.", text[from - 1]);)
        from--;
    return len ? pare_arena_text(&b->a, text + from, len - from) : "123456789";
}

static const char *const questions[] = {"5 5 5 5 5 5 5 5 5 5 5 5 5 5", "In the year 1999",
                                        "7 7 7 7 7 7 7 7 7 7 7 7 7 7"};
enum { QUESTIONS = 3 };

/* Two prompts of one length, which are written together, and another one. */
START_TEST(verdicts_are_those_of_what_is_written_alone)
{
    bench b;
    char file[4096];
    size_t used = 0, right = 0;
    unsigned char want[QUESTIONS];
    pare_task_data data;
    pare_task_figures r;
    begin(&b);
    for (size_t i = 0; i < QUESTIONS; i++) {
        const char *const written = write_one(&b, questions[i]);
        const char *const number = i == 1 ? "4321" : last_digits(&b, written);
        char answer[128];
        (void)snprintf(answer, sizeof answer, "so\n#### %s", number);
        ck_assert_int_eq(pare__task_answer(&b.a, written, answer, &want[i]), PARE_OK);
        used += (size_t)snprintf(file + used, sizeof file - used,
                                 "{\"question\": \"%s\", \"answer\": \"so\\n#### %s\"}\n",
                                 questions[i], number);
        right += (want[i] & PARE_CHOICE_RIGHT_NORM) != 0;
    }
    ck_assert_msg(right > 0 && right < QUESTIONS, "%zu of %s", right, file);
    folder_put_text(&b.f, "a.jsonl", file);
    const pare_task_asked asked = {.name = "gsm8k", .file = folder_file(&b.f, "a.jsonl")};
    ck_assert_msg(pare_task_load(&b.cx, &b.a, &b.ck, MOST, &asked, &data) == PARE_OK, "%s",
                  b.cx.what);
    ck_assert_uint_eq(data.item[0].context_count, data.item[2].context_count);
    ck_assert_uint_eq(data.longest, data.item[0].context_count + PARE__TASK_WRITTEN);
    ck_assert_msg(pare_task_ask(&b.cx, &b.a, &b.forward, &data, &asked, &r) == PARE_OK, "%s",
                  b.cx.what);
    ck_assert_mem_eq(r.verdict, want, sizeof want);
    ck_assert(r.complete && r.n == QUESTIONS && r.metrics == 2);
    ck_assert_str_eq(r.metric[0].name, "exact_match,strict-match");
    ck_assert_str_eq(r.metric[1].name, "exact_match,flexible-extract");
    ck_assert_double_eq_tol(r.metric[1].value, (double)right / QUESTIONS, 1e-12);
    end(&b);
}
END_TEST

/* A long prompt loses its front, so that the answer has room; a model without such room is refused.
 */
START_TEST(an_answer_has_room_behind_its_prompt)
{
    bench b;
    pare_task_data data;
    begin(&b);
    folder_put_text(&b.f, "a.jsonl",
                    "{\"question\": \"It is a long one, in so many words that they fill more than "
                    "the model has room for.\", \"answer\": \"#### 1\"}");
    const pare_task_asked asked = {.name = "gsm8k", .file = folder_file(&b.f, "a.jsonl")};
    ck_assert_int_eq(pare_task_load(&b.cx, &b.a, &b.ck, 256 + 10, &asked, &data), PARE_OK);
    ck_assert(data.item[0].context_count == 10 && data.cut == 1 && data.longest == 266);
    ck_assert_int_eq(pare_task_load(&b.cx, &b.a, &b.ck, 256, &asked, &data), PARE_EUSAGE);
    ck_assert_str_eq(b.cx.what, "gsm8k: a model writes 256 tokens for an answer, and the context "
                                "of this one is 256");
    end(&b);
}
END_TEST

/* Room for an answer is planned; tokens whose texts are longer than any in use are told. */
START_TEST(an_answer_that_has_no_room_is_refused)
{
    enum { PIECE = 300 };
    bench b;
    pare_task_data data;
    begin(&b);
    folder_put_text(&b.f, "a.jsonl",
                    "{\"question\": \"7 7 7 7 7 7 7 7 7 7 7 7 7 7\", \"answer\": \"#### 7\"}");
    const pare_task_asked asked = {.name = "gsm8k", .file = folder_file(&b.f, "a.jsonl")};
    ck_assert_int_eq(pare_task_load(&b.cx, &b.a, &b.ck, MOST, &asked, &data), PARE_OK);
    const size_t count = pare_tokenizer_vocab(b.t);
    char *const text = pare_arena_take(&b.a, count, PIECE);
    size_t *const start = pare_arena_take(&b.a, count + 1, sizeof *start);
    memset(text, 'x', count * PIECE);
    for (size_t i = 0; i <= count; i++)
        start[i] = i * PIECE;
    data.first = data.next = (pare_task_pieces){text, start, count};
    data.item[0].verdict = (unsigned char[]){0};
    ck_assert_int_eq(pare__task_write(&b.cx, &b.forward, &data), PARE_EFORMAT);
    ck_assert_str_eq(b.cx.what, "an answer of more than 65536 bytes");
    end(&b);
}
END_TEST

#define MARK "\xe2\x96\x81"

/* Those of Llama 2 and of others that strip in front, or join otherwise. */
static const char *const decoders[] = {
    "{'type':'Sequence','decoders':[{'type':'Replace','pattern':{'String':'" MARK
    "'},'content':' '},{'type':'ByteFallback'},{'type':'Fuse'},"
    "{'type':'Strip','content':' ','start':1,'stop':0}]}",
    "{'type':'Metaspace','replacement':'" MARK "','prepend_scheme':'always'}",
    "{'type':'Metaspace','replacement':'" MARK "','prepend_scheme':'never'}",
    "{'type':'ByteLevel'}", "null"};
enum { DECODERS = sizeof decoders / sizeof *decoders, TOKENS = 10 };

static void put_tokenizer(bench *b, const char *decoder)
{
    char text[2048];
    (void)snprintf(text, sizeof text,
                   "{'model':{'type':'BPE','unk_token':'<unk>','byte_fallback':false,'vocab':{"
                   "'" MARK "':0,'" MARK MARK "':1,'<unk>':2,'" MARK "a':3,'b':4,'c" MARK "d':5,"
                   "'e" MARK "':6,'<0x0A>':7,'1':8,'####':9},'merges':[]},'decoder':%s}",
                   decoder);
    for (char *at = text; *at; at++)
        *at = (char)(*at == '\'' ? '"' : *at);
    folder_put_text(&b->f, "tokenizer.json", text);
}

/* Whether pieces of tokens join to what the tokens decode to together. */
static void expect_joined(bench *b, const pare_tokenizer *t, const pare_task_data *data,
                          const int32_t *id, size_t count)
{
    const pare_mark mark = pare_arena_mark(&b->a);
    char joined[128], *whole;
    size_t used = 0, len;
    for (size_t i = 0; i < count; i++) {
        const char *const piece = pare__task_piece(data, id[i], i == 0, &len);
        memcpy(joined + used, piece, len);
        used += len;
    }
    ck_assert_int_eq(pare_tokenizer_decode(&b->cx, t, &b->a, id, count, &whole, &len), PARE_OK);
    ck_assert_msg(used == len && memcmp(joined, whole, len) == 0,
                  "tokens %d %d %d: '%.*s', not '%s'", id[0], id[1], id[2], (int)used, joined,
                  whole);
    pare_arena_rewind(&b->a, mark);
}

START_TEST(pieces_join_to_what_the_tokens_decode_to)
{
    bench b;
    pare_tokenizer *t;
    pare_task_data data = {0};
    begin(&b);
    put_tokenizer(&b, decoders[_i]);
    ck_assert_msg(pare_tokenizer_open(&b.cx, b.f.path, &t) == PARE_OK, "%s", b.cx.what);
    folder_put_text(&b.f, "a.jsonl", "{\"question\": \"b\", \"answer\": \"b\\n#### 1\"}\n");
    const pare_task_asked asked = {.name = "gsm8k", .file = folder_file(&b.f, "a.jsonl")};
    ck_assert_int_eq(pare_task_read(&b.cx, &b.a, &asked, &data.texts), PARE_OK);
    ck_assert_msg(pare_task_encode(&b.cx, &b.a, t, MOST, "a.jsonl", &data) == PARE_OK, "%s",
                  b.cx.what);
    for (int32_t i = 0; i < TOKENS * TOKENS * TOKENS; i++)
        expect_joined(&b, t, &data,
                      (const int32_t[]){i % TOKENS, i / TOKENS % TOKENS, i / TOKENS / TOKENS}, 3);
    pare_tokenizer_free(t);
    end(&b);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("task_write");
    TCase *const c = tcase_create("task_write");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, numbers_are_those_that_the_harness_finds, 0,
                        sizeof texts / sizeof *texts);
    tcase_add_test(c, an_answer_ends_at_the_first_of_its_stops);
    tcase_add_test(c, verdicts_are_those_of_what_is_written_alone);
    tcase_add_test(c, an_answer_has_room_behind_its_prompt);
    tcase_add_test(c, an_answer_that_has_no_room_is_refused);
    tcase_add_loop_test(c, pieces_join_to_what_the_tokens_decode_to, 0, DECODERS);
    suite_add_tcase(s, c);
    return unit_main(s);
}
