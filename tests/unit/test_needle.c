#include <math.h>
#include <string.h>

#include "compress/evaluate/needle.h"
#include "formats/checkpoint.h"
#include "runtime/sample.h"
#include "tests/unit/folder.h"

#define HEDGE PARE_SOURCE_DIR "/recipes/demo/hedge"
#define TEXT  PARE_SOURCE_DIR "/recipes/demo/evaluation.txt"

typedef struct bench {
    pare_ctx cx;
    pare_arena a;
    folder f;
    pare_tokenizer *t;
    pare_choice_item *item;
    char *text; /* that was decoded last */
} bench;

static void begin(bench *b)
{
    folder_begin(&b->f, &b->cx, &b->a);
    ck_assert_msg(pare_tokenizer_open(&b->cx, HEDGE, &b->t) == PARE_OK, "%s", b->cx.what);
}

static void end(bench *b)
{
    pare_tokenizer_free(b->t);
    folder_end(&b->f, &b->a);
}

static const char *text_of(bench *b, const int32_t *id, size_t count)
{
    size_t len;
    ck_assert_int_eq(pare_tokenizer_decode(&b->cx, b->t, &b->a, id, count, &b->text, &len),
                     PARE_OK);
    return b->text;
}

static size_t tokens_of(bench *b, const char *text, size_t len)
{
    int32_t *id;
    size_t count;
    ck_assert_int_eq(pare_tokenizer_encode(&b->cx, b->t, &b->a, text, len, &id, &count), PARE_OK);
    return count;
}

static const char announced[] = "A number is hidden in this text. Find it and keep it in mind.\n\n";
static const char asked[] = "\n\nWhat is the hidden number? The hidden number is";

/* Share of the tokens of the sentences that stand in front of the needle; checks what is around. */
static double depth_of(bench *b, const char *text, const char *needle)
{
    const size_t len = strlen(text), tail = sizeof asked - 1, head = sizeof announced - 1;
    ck_assert_int_eq(strncmp(text, announced, head), 0);
    ck_assert_str_eq(text + len - tail, asked);
    const char *const at = strstr(text, needle), *const behind = at + strlen(needle);
    ck_assert_msg(at && !strstr(behind, needle), "%s in %s", needle, text);
    const size_t before = tokens_of(b, text + head, (size_t)(at - text) - head);
    const size_t after = tokens_of(b, behind, (size_t)(text + len - tail - behind));
    return (double)before / (double)(before + after);
}

START_TEST(a_number_stands_at_its_depth_in_as_many_sentences_as_fit)
{
    enum { KEYS = 3, SENTENCE = 130 /* tokens of the longest */ };
    const pare_needle_opts o = {TEXT, {250, 700}, 2, KEYS, 4};
    bench b;
    const char *answer[KEYS];
    begin(&b);
    ck_assert_msg(pare_needle_load(&b.cx, &b.a, b.t, &o, &b.item) == PARE_OK, "%s", b.cx.what);
    for (size_t i = 0; i < pare_needle_items(&o); i++) {
        const pare_choice_item *const q = &b.item[i];
        const size_t length = o.length[i / KEYS / 5], all = q->context_count + q->choice_count[0];
        const double depth = (double)(i / KEYS % 5) / 4;
        char needle[64];
        ck_assert(all <= length && all + SENTENCE > length);
        const char *const number = text_of(&b, q->choice[0], q->choice_count[0]);
        ck_assert_uint_eq(strlen(number), 6);
        (void)snprintf(needle, sizeof needle, "The hidden number is%s.", number);
        const double is = depth_of(&b, text_of(&b, q->context, q->context_count), needle);
        ck_assert_msg(is >= depth - 0.02 && is <= depth + (double)SENTENCE / (double)length,
                      "%g of %g", is, depth);
        ck_assert(depth > 0 || is <= 0);
        ck_assert(depth < 1 || is >= 1);
        if (i < KEYS)
            answer[i] = number;
        ck_assert_str_eq(number, answer[i % KEYS]);
    }
    ck_assert_str_ne(answer[0], answer[1]);
    ck_assert_str_ne(answer[0], answer[2]);
    end(&b);
}
END_TEST

START_TEST(the_seed_draws_numbers_and_sentences)
{
    pare_needle_opts o = {TEXT, {200}, 1, 1, 4};
    bench b;
    pare_choice_item *again, *other;
    begin(&b);
    ck_assert_int_eq(pare_needle_load(&b.cx, &b.a, b.t, &o, &b.item), PARE_OK);
    ck_assert_int_eq(pare_needle_load(&b.cx, &b.a, b.t, &o, &again), PARE_OK);
    o.seed = 5;
    ck_assert_int_eq(pare_needle_load(&b.cx, &b.a, b.t, &o, &other), PARE_OK);
    ck_assert_uint_eq(b.item->context_count, again->context_count);
    ck_assert_mem_eq(b.item->context, again->context, again->context_count * sizeof(int32_t));
    ck_assert_str_ne(text_of(&b, b.item->choice[0], b.item->choice_count[0]),
                     text_of(&b, other->choice[0], other->choice_count[0]));
    ck_assert_str_ne(text_of(&b, b.item->context, 40), text_of(&b, other->context, 40));
    end(&b);
}
END_TEST

/* The answers of some prompts are replaced by what the model writes, and of some by that with
 * another token in the end. */
START_TEST(an_answer_is_right_when_greedy_decoding_writes_it)
{
    const pare_needle_opts o = {TEXT, {240}, 1, 1, 0};
    bench b;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f;
    pare_needle_figures r, base;
    begin(&b);
    ck_assert_int_eq(pare_checkpoint_open(&b.cx, &b.a, HEDGE, &ck), PARE_OK);
    ck_assert_int_eq(pare_model_load(&b.cx, &b.a, &ck, &model), PARE_OK);
    ck_assert_int_eq(pare_forward_init(&b.cx, &b.a, &model, 256, true, &f), PARE_OK);
    ck_assert_int_eq(pare_needle_load(&b.cx, &b.a, b.t, &o, &b.item), PARE_OK);
    ck_assert_int_eq(pare_needle_ask(&b.cx, &b.a, &f, b.item, &o, &base), PARE_OK);
    for (size_t i = 0; i < pare_needle_items(&o); i++) {
        pare_choice_item *const q = &b.item[i];
        const pare_generate_opts g = {.sequences = 1,
                                      .length = q->context_count + q->choice_count[0]};
        int32_t tokens[256];
        memcpy(tokens, q->context, q->context_count * sizeof *tokens);
        ck_assert_int_eq(pare_generate(&b.cx, &b.a, &f, &g, q->context_count, tokens, NULL, NULL),
                         PARE_OK);
        tokens[g.length - 1] ^= i % 3 == 1;
        if (i % 3 < 2)
            memcpy((int32_t *)(uintptr_t)q->choice[0], tokens + q->context_count,
                   q->choice_count[0] * sizeof *tokens);
    }
    ck_assert_int_eq(pare_needle_ask(&b.cx, &b.a, &f, b.item, &o, &r), PARE_OK);
    for (size_t i = 0; i < pare_needle_items(&o); i++)
        ck_assert_uint_eq(r.verdict[i], PARE_CHOICE_ASKED | (i % 3 ? 0 : PARE_CHOICE_RIGHT));
    ck_assert(r.complete && r.all.n == 5 && r.all.right == 2);
    ck_assert(r.cell[1].n == 1 && r.cell[1].right == 0 && r.cell[3].right == 1);
    ck_assert_double_eq_tol(pare_needle_share(r.all), 0.4, 1e-12);
    ck_assert_double_eq_tol(pare_needle_error(r.all), sqrt(0.4 * 0.6 / 4), 1e-12);
    pare_needle_pair(&base, &r);
    ck_assert(r.has_paired && r.paired.gained == 2 && r.paired.lost == 0);
    pare_checkpoint_close(&ck);
    end(&b);
}
END_TEST

START_TEST(a_text_that_cannot_fill_a_prompt_is_refused)
{
    static const struct {
        const char *text;
        size_t repeats, length;
        const char *says;
    } bad[] = {
        {"", 1, 128, "its sentences have 0 tokens, fewer than a prompt of 128"},
        {" \n", 9, 128, "have 0 tokens"},
        {"The cat sat. ", 20, 128, "give a longer text or smaller lengths"},
        {"thecatsatonthemat", 100, 200, "its sentences are too long for prompts of 200"},
    };
    char text[4096] = "";
    bench b;
    begin(&b);
    for (size_t i = 0, len = strlen(bad[_i].text); i < bad[_i].repeats; i++)
        memcpy(text + i * len, bad[_i].text, len + 1);
    folder_put_text(&b.f, "a.txt", text);
    const pare_needle_opts o = {folder_file(&b.f, "a.txt"), {bad[_i].length}, 1, 1, 0};
    ck_assert_int_eq(pare_needle_load(&b.cx, &b.a, b.t, &o, &b.item), PARE_EUSAGE);
    ck_assert_msg(strstr(b.cx.what, bad[_i].says) != NULL, "%s", b.cx.what);
    end(&b);
}
END_TEST

/* Lines end sentences, long ones are parted, and what the text is read for ends at a whole one. */
START_TEST(any_text_has_sentences)
{
    enum { LINES = 3000 };
    bench b;
    begin(&b);
    char *const text = malloc(LINES * 64);
    size_t len = 0;
    for (size_t i = 0; i < LINES; i++)
        len += (size_t)snprintf(text + len, 64,
                                _i ? "the cat %zu sat on it " : "the cat %zu sat\r\n", i);
    folder_put(&b.f, "a.txt", text, len);
    free(text);
    const pare_needle_opts o = {folder_file(&b.f, "a.txt"), {700}, 1, 4, 1};
    ck_assert_msg(pare_needle_load(&b.cx, &b.a, b.t, &o, &b.item) == PARE_OK, "%s", b.cx.what);
    for (size_t i = 0; i < pare_needle_items(&o); i++) {
        const char *const is = text_of(&b, b.item[i].context, b.item[i].context_count);
        ck_assert_msg(strstr(is, "sat") && !strchr(is, '\r') && !strstr(is, "  "), "%s", is);
    }
    end(&b);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    bench b;
    begin(&b);
    char text[1024];
    size_t len = 0;
    while (len + 16 < sizeof text)
        len += (size_t)snprintf(text + len, 16, "The cat sat. ");
    folder_put(&b.f, "a.txt", text, len);
    const pare_needle_opts o = {folder_file(&b.f, "a.txt"), {128}, 1, 1, 0};
    const pare_alloc plain = b.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena a = {.cx = &b.cx};
        pare_ctx_clear(&b.cx);
        b.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_needle_load(&b.cx, &a, b.t, &o, &b.item);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && b.cx.what[0]));
        pare_arena_release(&a);
        ck_assert_int_eq(failing.live, 0);
        b.cx.alloc = plain;
    }
    ck_assert_int_gt(n, 3);
    end(&b);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("needle");
    TCase *const c = tcase_create("needle");
    tcase_set_timeout(c, 120);
    tcase_add_test(c, a_number_stands_at_its_depth_in_as_many_sentences_as_fit);
    tcase_add_test(c, the_seed_draws_numbers_and_sentences);
    tcase_add_test(c, an_answer_is_right_when_greedy_decoding_writes_it);
    tcase_add_loop_test(c, a_text_that_cannot_fill_a_prompt_is_refused, 0, 4);
    tcase_add_loop_test(c, any_text_has_sentences, 0, 2);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    suite_add_tcase(s, c);
    return unit_main(s);
}
