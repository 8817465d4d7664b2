/* The small English model against what numpy computed from the same weights (float32 there too). */
#include <math.h>
#include <string.h>

#include "compress/evaluate/evaluate.h"
#include "formats/checkpoint.h"
#include "formats/tokenizer.h"
#include "runtime/ops.h"
#include "runtime/sample.h"
#include "runtime/threads.h"
#include "tests/unit/unit.h"

enum { VOCAB = 4096 };

typedef struct home {
    pare_ctx cx;
    pare_arena arena;
    pare_checkpoint ck;
    pare_model model;
    pare_forward f;
    pare_json *expected;
} home;

static void ok(home *h, pare_status s)
{
    ck_assert_msg(s == PARE_OK, "%s: %s", pare_strstatus(s), h->cx.what);
}

/* The copy that ships with the demo, or the shared one. NULL: neither is there. */
static const char *model_path(void)
{
    const char *const own = PARE_SOURCE_DIR "/recipes/demo/hedge";
    return access(own, R_OK) == 0 ? own : unit_shared("models/hedge");
}

static bool begin(home *h, const char *expected)
{
    char *text;
    size_t len;
    const char *const path = model_path();
    if (!path)
        return false;
    memset(h, 0, sizeof *h);
    pare_ctx_init(&h->cx);
    h->arena.cx = &h->cx;
    ok(h, pare_pool_new(&h->cx, 2, &h->cx.pool));
    ok(h, pare_checkpoint_open(&h->cx, &h->arena, path, &h->ck));
    ok(h, pare_model_load(&h->cx, &h->arena, &h->ck, &h->model));
    ok(h, pare_forward_init(&h->cx, &h->arena, &h->model, 256, false, &h->f));
    ok(h, pare_file_read(&h->cx, &h->arena, expected, 1 << 20, &text, &len));
    ok(h, pare_json_parse(&h->cx, expected, text, len, 1 << 20, &h->expected));
    return true;
}

static void end(home *h)
{
    pare_json_free(h->expected);
    pare_checkpoint_close(&h->ck);
    pare_arena_release(&h->arena);
    pare_pool_free(&h->cx, h->cx.pool);
    ck_assert_uint_eq(h->cx.live_bytes, 0);
}

static const pare_json *at(const pare_json *v, const char *a, const char *b)
{
    v = pare_json_get(v, a);
    return b ? pare_json_get(v, b) : v;
}

static size_t read_ids(const pare_json *array, int32_t *ids, size_t most)
{
    const size_t n = pare_json_count(array);
    ck_assert(n > 0 && n <= most);
    for (size_t i = 0; i < n; i++)
        ids[i] = (int32_t)pare_json_integer(pare_json_at(array, i), -1);
    return n;
}

static void last_logits(home *h, const int32_t *ids, size_t n, float *logits)
{
    float *const x = pare_arena_take(&h->arena, n, h->model.config.hidden * sizeof *x);
    pare_kv kv;
    const size_t last = n - 1;
    ck_assert_ptr_nonnull(x);
    ok(h, pare_kv_take(&h->arena, &h->model.config, 1, n, &kv));
    ok(h, pare_embed(&h->cx, &h->model, ids, n, x));
    ok(h, pare_model_forward(&h->cx, &h->arena, &h->f, (pare_batch){1, n, 0}, x, &kv, 1));
    ok(h, pare_logits(&h->cx, &h->arena, &h->f, x, &last, 1, logits));
}

/* Compares the stored logits, from index `first` on, within 1e-4 of the largest. */
static void compare(const pare_json *array, const float *logits, size_t first)
{
    const double bound = 1e-4 * (double)logits[pare_argmax(logits, VOCAB)];
    ck_assert_uint_ge(pare_json_count(array), 4);
    for (size_t i = 0; i < pare_json_count(array); i++)
        ck_assert_double_eq_tol((double)logits[first + i],
                                pare_json_number(pare_json_at(array, i), NAN), bound);
}

START_TEST(logits_of_the_sentence_equal_the_reference)
{
    static float logits[VOCAB];
    int32_t ids[128];
    home h;
    if (!begin(&h, PARE_SOURCE_DIR "/tests/data/hedge_sentence.json"))
        return;
    const pare_json *const sentence = at(h.expected, "sentence", NULL);
    const pare_json *const last = at(sentence, "last_position", NULL);
    const size_t n = read_ids(at(sentence, "token_ids", NULL), ids, 128);
    last_logits(&h, ids, n, logits);
    compare(at(last, "logits_first_16", NULL), logits, 0);
    compare(at(last, "logits_last_4", NULL), logits, VOCAB - 4);
    const size_t best = pare_argmax(logits, VOCAB);
    ck_assert_int_eq((int64_t)best, pare_json_integer(at(last, "argmax", NULL), -1));
    const double largest = pare_json_number(at(last, "max_logit", NULL), NAN);
    ck_assert_double_eq_tol((double)logits[best], largest, 1e-4 * largest);
    ck_assert_double_eq_tol(pare_logsumexp(&h.cx.kernels, logits, VOCAB),
                            pare_json_number(at(last, "logsumexp", NULL), NAN), 1e-4 * largest);
    last_logits(&h, ids, 64, logits);
    compare(at(sentence, "position_63", "logits_first_16"), logits, 0);
    ck_assert_int_eq((int64_t)pare_argmax(logits, VOCAB),
                     pare_json_integer(at(sentence, "position_63", "argmax"), -1));
    end(&h);
}
END_TEST

/* The smallest gap between the two best logits on the way is 0.008: far above the difference of two
 * F32 forwards. */
START_TEST(greedy_continuations_equal_the_reference)
{
    int32_t tokens[128], want[128];
    home h;
    if (!begin(&h, PARE_SOURCE_DIR "/tests/data/hedge_sentence.json"))
        return;
    const pare_json *const greedy = at(h.expected, "greedy", NULL);
    ck_assert_uint_eq(pare_json_count(greedy), 3);
    for (size_t i = 0; i < 3; i++) {
        const pare_json *const g = pare_json_at(greedy, i);
        const size_t prompt = read_ids(at(g, "prompt_ids", NULL), tokens, 64);
        const size_t n = read_ids(at(g, "continuation_ids", NULL), want, 64);
        const pare_generate_opts opts = {.sequences = 1, .length = prompt + n};
        ok(&h, pare_generate(&h.cx, &h.arena, &h.f, &opts, prompt, tokens, NULL, NULL));
        ck_assert_mem_eq(tokens + prompt, want, n * sizeof *want);
    }
    end(&h);
}
END_TEST

/* Perplexity of the held-out texts, tokenized here. Under a sanitizer only a short one. */
#ifdef UNIT_SANITIZED
static const char *const texts[] = {"heldout_wikitext2_valid.txt"};
#else
static const char *const texts[] = {"heldout_wikitext2_valid.txt",
                                    "heldout_wikitext_train.txt",
                                    "heldout_tinystories.txt",
                                    "heldout_shakespeare.txt",
                                    "heldout_c4.txt",
                                    "heldout_wiki.txt"};
#endif
enum { TEXTS = sizeof texts / sizeof *texts };

START_TEST(perplexity_of_held_out_text_equals_the_reference)
{
    home h;
    pare_tokenizer *tokenizer;
    pare_eval_result r;
    char name[128], *text;
    int32_t *ids;
    size_t len, count;
    if (!unit_shared("models/hedge/eval/expected.json") ||
        !begin(&h, PARE_SHARED_DIR "/models/hedge/eval/expected.json"))
        return;
    ok(&h, pare_tokenizer_open(&h.cx, model_path(), &tokenizer));
    (void)snprintf(name, sizeof name, "models/hedge/eval/%s", texts[_i]);
    ok(&h, pare_file_read(&h.cx, &h.arena, unit_shared(name), 1 << 20, &text, &len));
    ok(&h, pare_tokenizer_encode(&h.cx, tokenizer, &h.arena, text, len, &ids, &count));
    const pare_json *const want = pare_json_get(at(h.expected, "perplexity", "files"), texts[_i]);
    ck_assert_int_eq((int64_t)count, pare_json_integer(at(want, "tokens", NULL), -1));
    const pare_eval_opts opts = {.window = 256};
    ok(&h, pare_evaluate(&h.cx, &h.f, NULL, &opts, ids, count, &r));
    ck_assert_int_eq((int64_t)r.scored, pare_json_integer(at(want, "scored_tokens", NULL), -1));
    const double ppl = pare_json_number(at(want, "perplexity", NULL), NAN);
    ck_assert_double_eq_tol(r.ppl, ppl, 1e-4 * ppl);
    pare_tokenizer_free(tokenizer);
    end(&h);
}
END_TEST

int main(void)
{
    if (!model_path())
        return 77;
    Suite *const s = suite_create("hedge");
    TCase *const c = tcase_create("hedge");
    tcase_set_timeout(c, 900);
    tcase_add_test(c, logits_of_the_sentence_equal_the_reference);
    tcase_add_test(c, greedy_continuations_equal_the_reference);
    tcase_add_loop_test(c, perplexity_of_held_out_text_equals_the_reference, 0, TEXTS);
    suite_add_tcase(s, c);
    return unit_main(s);
}
