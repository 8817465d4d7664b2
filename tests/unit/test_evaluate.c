#include "compress/evaluate/evaluate.h"
#include "compress/evaluate/evaluate_internal.h"
#include "compress/evaluate/figures.h"
#include "runtime/ops.h"
#include "tests/unit/position_bins.h"
#include "tests/unit/tiny.h"

typedef struct bench {
    tiny_home h;
    pare_model m, other;
    pare_forward f, baseline;
    int32_t *tokens;
} bench;

enum { TOKENS = 500 };

static void begin(bench *b, size_t threads)
{
    tiny_begin(&b->h, threads);
    b->m = tiny_model(&b->h.arena, tiny_kinds[3]);
    b->other = tiny_model(&b->h.arena, tiny_kinds[0]);
    ck_assert_int_eq(pare_forward_init(&b->h.cx, &b->h.arena, &b->m, TINY_CONTEXT, false, &b->f),
                     PARE_OK);
    ck_assert_int_eq(
        pare_forward_init(&b->h.cx, &b->h.arena, &b->other, TINY_CONTEXT, false, &b->baseline),
        PARE_OK);
    b->tokens = tiny_tokens(&b->h.arena, 99, TOKENS);
}

/* Logits of all positions of one window, alone. */
static const float *window_logits(bench *b, const pare_forward *f, const int32_t *t, size_t n)
{
    pare_arena *const a = &b->h.arena;
    const pare_config *const c = &f->model->config;
    pare_kv kv;
    float *const x = tiny_take(a, n, c->hidden * sizeof *x);
    float *const logits = tiny_take(a, n, TINY_VOCAB * sizeof *logits);
    ck_assert_int_eq(pare_kv_take_format(a, c, &f->model->kv, 1, n, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(&b->h.cx, f->model, t, n, x), PARE_OK);
    ck_assert_int_eq(pare_model_forward(&b->h.cx, a, f, (pare_batch){1, n, 0}, x, &kv, 1), PARE_OK);
    ck_assert_int_eq(pare_logits(&b->h.cx, a, f, x, NULL, n, logits), PARE_OK);
    return logits;
}

static void log_softmax(const float *logits, double *out)
{
    double sum = 0;
    for (size_t v = 0; v < TINY_VOCAB; v++)
        sum += exp((double)logits[v]);
    for (size_t v = 0; v < TINY_VOCAB; v++)
        out[v] = (double)logits[v] - log(sum);
}

/* The protocol in its plainest form: window by window, position by position. */
typedef struct plain_result {
    double nll[TOKENS * 2], kl[TOKENS * 2];
    size_t n, same;
} plain_result;

static void plain_evaluate(bench *b, size_t window, size_t stride, plain_result *r)
{
    r->n = r->same = 0;
    for (size_t start = 0; start + window <= TOKENS; start += stride ? stride : window) {
        const int32_t *const t = b->tokens + start;
        const float *const p = window_logits(b, &b->f, t, window);
        const float *const p0 = window_logits(b, &b->baseline, t, window);
        for (size_t i = start && stride ? window - stride : 1; i < window; i++, r->n++) {
            double lp[TINY_VOCAB], lp0[TINY_VOCAB];
            const float *const row = p + (i - 1) * TINY_VOCAB, *const row0 =
                                                                   p0 + (i - 1) * TINY_VOCAB;
            log_softmax(row, lp);
            log_softmax(row0, lp0);
            r->nll[r->n] = -lp[t[i]];
            r->kl[r->n] = 0;
            for (size_t v = 0; v < TINY_VOCAB; v++)
                r->kl[r->n] += exp(lp0[v]) * (lp0[v] - lp[v]);
            r->same += pare_argmax(row, TINY_VOCAB) == pare_argmax(row0, TINY_VOCAB);
        }
    }
}

static const size_t protocols[][2] = {{10, 0}, {96, 0}, {33, 7}, {50, 49}, {2, 1}, {2, 0}};

/* As many positions below the upper end of each bin as by hand; the last bin has none. */
static void check_histogram(const pare_eval_result *r, const plain_result *want)
{
    size_t below = 0;
    for (int bin = 0; bin < PARE_KL_BINS; bin++) {
        const double end = bin < PARE_KL_BINS - 1 ? ldexp(1, PARE_KL_LEAST + bin) : INFINITY;
        size_t least = 0, most = 0;
        for (size_t i = 0; i < want->n; i++) {
            least += want->kl[i] < end - 1e-9;
            most += want->kl[i] < end + 1e-9;
        }
        below += r->kl_histogram[bin];
        ck_assert_msg(below >= least && below <= most, "bin %d: %zu below, by hand %zu to %zu", bin,
                      below, least, most);
    }
    ck_assert_uint_eq(below, r->scored);
}

START_TEST(figures_equal_the_protocol_done_by_hand)
{
    static plain_result want;
    bench b;
    pare_eval_result r;
    begin(&b, 2);
    const pare_eval_opts opts = {.window = protocols[_i][0], .stride = protocols[_i][1]};
    plain_evaluate(&b, opts.window, opts.stride, &want);
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, &b.baseline, &opts, b.tokens, TOKENS, &r),
                     PARE_OK);
    double nll = 0, kl = 0, squares = 0;
    for (size_t i = 0; i < want.n; i++) {
        nll += want.nll[i] / (double)want.n;
        kl += want.kl[i] / (double)want.n;
    }
    for (size_t i = 0; i < want.n; i++)
        squares += (want.nll[i] - nll) * (want.nll[i] - nll);
    ck_assert_uint_eq(r.scored, want.n);
    const double ppl = exp(nll), bound = 1.1e-6; /* of pare_logsumexp */
    ck_assert_double_eq_tol(r.nll, nll, bound);
    ck_assert_double_eq_tol(r.ppl, ppl, 1.01 * bound * ppl);
    ck_assert_double_eq_tol(r.ppl_stderr,
                            ppl * sqrt(squares / (double)(want.n - 1)) / sqrt((double)want.n),
                            2.5 * bound * ppl); /* of the factor, and of the deviation */
    ck_assert(r.has_kl);
    ck_assert_double_eq_tol(r.kl_mean, kl, 1e-9);
    ck_assert_double_eq_tol(r.top1, (double)want.same / (double)want.n, 1e-12);
    /* p99 by counting: as many as 99% of the values, rounded up, lie at or below it. */
    size_t below = 0, at_or_below = 0;
    for (size_t i = 0; i < want.n; i++) {
        below += want.kl[i] < r.kl_p99 - 1e-9;
        at_or_below += want.kl[i] <= r.kl_p99 + 1e-9;
    }
    const size_t rank = (99 * want.n + 99) / 100;
    ck_assert(below < rank && at_or_below >= rank);
    check_histogram(&r, &want);
    check_bins(&r, want.nll, want.kl, want.n, opts.window, opts.stride);
    tiny_end(&b.h);
}
END_TEST

START_TEST(the_baseline_has_the_figures_it_has_alone)
{
    bench b;
    pare_eval_result r, alone;
    begin(&b, 2);
    const pare_eval_opts opts = {.window = 33, .stride = 7};
    const size_t live = b.h.cx.live_bytes;
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.baseline, NULL, &opts, b.tokens, TOKENS, &alone),
                     PARE_OK);
    b.h.cx.peak_bytes = live;
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, NULL, &opts, b.tokens, TOKENS, &r), PARE_OK);
    const size_t peak = b.h.cx.peak_bytes;
    b.h.cx.peak_bytes = live;
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, &b.baseline, &opts, b.tokens, TOKENS, &r),
                     PARE_OK);
    ck_assert_double_eq(r.baseline_nll, alone.nll);
    ck_assert_double_eq(r.baseline_ppl, alone.ppl);
    ck_assert_double_eq(r.baseline_ppl_stderr, alone.ppl_stderr);
    ck_assert_double_ne(r.nll, alone.nll);
    ck_assert_uint_gt(r.baseline_bytes, 0);
    ck_assert_uint_eq(b.h.cx.peak_bytes - r.baseline_bytes, peak);
    tiny_end(&b.h);
}
END_TEST

START_TEST(figures_do_not_depend_on_threads)
{
    pare_eval_result first = {0};
    for (size_t threads = 1; threads <= 5; threads += 2) {
        bench b;
        pare_eval_result r = {0};
        begin(&b, threads);
        const pare_eval_opts opts = {.window = 40, .stride = 11};
        ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, &b.baseline, &opts, b.tokens, TOKENS, &r),
                         PARE_OK);
        if (threads == 1)
            first = r;
        ck_assert(r.nll == first.nll && r.ppl == first.ppl && r.ppl_stderr == first.ppl_stderr);
        ck_assert(r.kl_mean == first.kl_mean && r.kl_p99 == first.kl_p99 && r.top1 == first.top1);
        tiny_end(&b.h);
    }
}
END_TEST

START_TEST(pieces_of_a_window_give_the_bytes_of_the_whole)
{
    enum { LENGTH = 60 };
    static const size_t rows[] = {1, 7, 32, 59, 60, 100};
    bench b;
    begin(&b, 2);
    pare_arena *const a = &b.h.arena;
    const size_t hidden = b.m.config.hidden;
    float *const whole = tiny_take(a, LENGTH, hidden * sizeof *whole);
    float *const x = tiny_take(a, LENGTH, hidden * sizeof *x);
    pare_kv kv;
    ck_assert_int_eq(pare_kv_take(a, &b.m.config, 1, LENGTH, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(&b.h.cx, &b.m, b.tokens, LENGTH, whole), PARE_OK);
    memcpy(x, whole, LENGTH * hidden * sizeof *x);
    const pare_batch batch = {1, LENGTH, 0};
    ck_assert_int_eq(pare_model_forward(&b.h.cx, a, &b.f, batch, whole, &kv, 1), PARE_OK);
    pare_arena work;
    const size_t bytes =
        pare__eval_scratch(&b.h.cx, &b.m.config, batch, rows[_i], pare_model_inputs(&b.m));
    ck_assert_int_eq(pare_arena_init(&b.h.cx, &work, bytes), PARE_OK);
    const size_t live = b.h.cx.live_bytes, peak = b.h.cx.peak_bytes = live;
    const pare_ops o = pare_ops_of(&b.h.cx, &work, &b.f);
    const pare_array rest = {.at = x, .rows = LENGTH, .width = hidden};
    for (size_t i = 0; i < b.m.config.blocks; i++)
        ck_assert_int_eq(pare__eval_block(&o, &b.f, i, batch, rows[_i], rest, &kv), PARE_OK);
    ck_assert_mem_eq(x, whole, LENGTH * hidden * sizeof *x);
    ck_assert_uint_eq(b.h.cx.peak_bytes, peak); /* the scratch was enough */
    pare_arena_release(&work);
    tiny_end(&b.h);
}
END_TEST

/* From models of a few kilobytes to ones wider than any. */
START_TEST(rows_and_logits_shrink_with_the_model)
{
    bench b;
    begin(&b, 2);
    pare_config c = b.m.config;
    ck_assert_uint_eq(pare__eval_rows(&b.h.cx, &c), 2048);
    c.hidden = 2048;
    c.intermediate = 8192;
    c.heads = 32;
    c.head_dim = 64;
    const size_t rows = pare__eval_rows(&b.h.cx, &c);
    ck_assert(rows >= 128 && rows <= 512);
    ck_assert_uint_le(pare_block_forward_scratch(&b.h.cx, &c, (pare_batch){1, rows, 0}), 32 << 20);
    c.intermediate = 1 << 20;
    ck_assert_uint_eq(pare__eval_rows(&b.h.cx, &c), 64);
    ck_assert_uint_eq(pare__eval_logits(0), 64);
    ck_assert_uint_eq(pare__eval_logits(32000), 64);
    ck_assert_uint_eq(pare__eval_logits(128256), 32);
    ck_assert_uint_eq(pare__eval_logits(1 << 30), 1);
    tiny_end(&b.h);
}
END_TEST

static const struct refusal {
    pare_eval_opts opts;
    size_t count;
    const char *what;
} refusals[] = {
    {{.window = 1, .stride = 0}, TOKENS, "a window of 1 tokens; this model takes 2 to 96"},
    {{.window = 97, .stride = 0}, TOKENS, "a window of 97 tokens; this model takes 2 to 96"},
    {{.window = 20, .stride = 20}, TOKENS, "a stride of 20; windows of 20 take 1 to 19"},
    {{.window = 20, .stride = 0}, 19, "19 tokens do not fill one window of 20"},
};

START_TEST(impossible_protocols_are_refused_with_their_numbers)
{
    bench b;
    pare_eval_result r;
    begin(&b, 1);
    ck_assert_int_eq(
        pare_evaluate(&b.h.cx, &b.f, NULL, &refusals[_i].opts, b.tokens, refusals[_i].count, &r),
        PARE_EINVAL);
    ck_assert_str_eq(b.h.cx.what, refusals[_i].what);
    tiny_end(&b.h);
}
END_TEST

START_TEST(wrong_tokens_vocabularies_and_numbers_are_refused)
{
    bench b;
    pare_eval_result r;
    const pare_eval_opts opts = {.window = 20, .stride = 0};
    begin(&b, 1);
    pare_ctx *const cx = &b.h.cx;
    b.tokens[498] = 53;
    ck_assert_int_eq(pare_evaluate(cx, &b.f, NULL, &opts, b.tokens, TOKENS, &r), PARE_EINVAL);
    ck_assert_str_eq(cx->what, "token 498 is 53; this model knows 0 to 52");
    b.tokens[498] = 0;
    pare_ctx_clear(cx);
    b.other.head.n = 52;
    ck_assert_int_eq(pare_evaluate(cx, &b.f, &b.baseline, &opts, b.tokens, TOKENS, &r),
                     PARE_EINVAL);
    ck_assert_str_eq(cx->what, "the baseline has 52 tokens in its vocabulary, not 53");
    pare_ctx_clear(cx);
    ((float *)(uintptr_t)b.m.norm)[3] = NAN;
    ck_assert_int_eq(pare_evaluate(cx, &b.f, NULL, &opts, b.tokens, TOKENS, &r), PARE_ENUMERIC);
    ck_assert_str_eq(
        cx->what, "the model: the logits of scored position 0 are not finite: a weight is not, or "
                  "activations overflow; \"pare verify\" finds damaged files");
    tiny_end(&b.h);
}
END_TEST

START_TEST(a_choice_is_the_largest_sum_of_its_log_likelihoods)
{
    bench b;
    begin(&b, 2);
    size_t right = 0, right_norm = 0;
    unsigned char verdict[12], want[12];
    pare_choice_item item[12];
    const int32_t *choice[12][3];
    size_t count[12][3];
    static const size_t bytes[3] = {3, 11, 5};
    for (size_t i = 0; i < 12; i++) {
        double best = -1e300, best_norm = -1e300;
        size_t pick = 0, pick_norm = 0;
        for (size_t c = 0; c < 3; c++) {
            int32_t t[TINY_CONTEXT];
            double sum = 0, lp[TINY_VOCAB];
            choice[i][c] = b.tokens + 100 + 20 * i + 7 * c;
            count[i][c] = c == 1 ? 80 : 1 + (i + c) % 6;
            memcpy(t, b.tokens + i, 9 * sizeof *t);
            memcpy(t + 9, choice[i][c], count[i][c] * sizeof *t);
            const float *const logits = window_logits(&b, &b.f, t, 9 + count[i][c]);
            for (size_t p = 9; p < 9 + count[i][c]; p++) {
                log_softmax(logits + (p - 1) * TINY_VOCAB, lp);
                sum += lp[t[p]];
            }
            pick = sum > best ? c : pick;
            best = fmax(best, sum);
            pick_norm = sum / (double)bytes[c] > best_norm ? c : pick_norm;
            best_norm = fmax(best_norm, sum / (double)bytes[c]);
        }
        item[i] = (pare_choice_item){b.tokens + i, 9,    choice[i], count[i],    bytes, 3,
                                     i % 3,        NULL, 0,         &verdict[i], NULL};
        right += pick == i % 3;
        right_norm += pick_norm == i % 3;
        want[i] = (unsigned char)(PARE_CHOICE_ASKED | (pick == i % 3 ? PARE_CHOICE_RIGHT : 0) |
                                  (pick_norm == i % 3 ? PARE_CHOICE_RIGHT_NORM : 0));
    }
    pare_choice_result r;
    ck_assert_int_eq(pare_evaluate_choice(&b.h.cx, &b.f, item, 12, &r), PARE_OK);
    ck_assert_uint_eq(r.n, 12);
    ck_assert_double_eq_tol(r.accuracy, (double)right / 12, 1e-12);
    ck_assert_double_eq_tol(r.accuracy_norm, (double)right_norm / 12, 1e-12);
    ck_assert_mem_eq(verdict, want, sizeof want);
    double squares = 0, squares_norm = 0; /* sample deviations of zeros and ones */
    for (size_t i = 0; i < 12; i++) {
        squares += pow(((want[i] & PARE_CHOICE_RIGHT) != 0) - r.accuracy, 2);
        squares_norm += pow(((want[i] & PARE_CHOICE_RIGHT_NORM) != 0) - r.accuracy_norm, 2);
    }
    ck_assert_double_eq_tol(r.accuracy_stderr, sqrt(squares / 11 / 12), 1e-12);
    ck_assert_double_eq_tol(r.accuracy_norm_stderr, sqrt(squares_norm / 11 / 12), 1e-12);
    ck_assert_int_eq(pare_evaluate_choice(&b.h.cx, &b.f, item, 1, &r), PARE_OK);
    ck_assert(isnan(r.accuracy_stderr) && isnan(r.accuracy_norm_stderr));
    tiny_end(&b.h);
}
END_TEST

/* Log-likelihood of a choice behind its context, in one piece. */
static double plain_score(bench *b, const pare_choice_item *item, size_t c)
{
    int32_t t[TINY_CONTEXT];
    const size_t first = item->context_count, n = first + item->choice_count[c];
    memcpy(t, item->context, first * sizeof *t);
    memcpy(t + first, item->choice[c], item->choice_count[c] * sizeof *t);
    const float *const logits = window_logits(b, &b->f, t, n);
    double sum = 0;
    for (size_t p = first; p < n; p++) {
        const float *const row = logits + (p - 1) * TINY_VOCAB;
        sum += (double)row[t[p]] - pare_logsumexp(&b->h.cx.kernels, row, TINY_VOCAB);
    }
    return sum;
}

/* Contexts of few lengths and of many, choices of one token and of most of the context window. */
START_TEST(choices_that_share_a_context_score_as_each_alone)
{
    enum { ITEMS = 40, CHOICES = 5 };
    static const pare_kv_method methods[] = {PARE_KV_FLOAT, PARE_KV_INT8, PARE_KV_INT4,
                                             PARE_KV_KIVI};
    static pare_choice_item item[ITEMS];
    static const int32_t *choice[ITEMS][CHOICES];
    static size_t count[ITEMS][CHOICES];
    static double score[ITEMS][CHOICES];
    static const size_t bytes[CHOICES] = {1, 2, 3, 4, 5};
    bench b;
    begin(&b, 2);
    b.m.kv = pare_kv_default(methods[_i]);
    b.m.kv.group = b.m.kv.group ? 8 : 0;
    b.m.kv.window = b.m.kv.window ? 16 : 0;
    for (size_t i = 0; i < ITEMS; i++) {
        const size_t length = i % 3 ? 4 + i % 2 : 1 + i / 6 * 12, room = TINY_CONTEXT - length;
        for (size_t c = 0; c < CHOICES; c++) {
            choice[i][c] = b.tokens + 100 + 7 * i + 3 * c;
            count[i][c] = i % 4 == 0 ? 1 : i == 5 && c == 2 ? room : 1 + (i * c) % 7;
            count[i][c] = count[i][c] < room ? count[i][c] : room;
        }
        item[i] =
            (pare_choice_item){b.tokens + 3 * i, length, choice[i], count[i], bytes, 2 + i % 4, 1,
                               score[i],         0,      NULL,      NULL};
    }
    pare_choice_result r;
    const pare_eval_side side = {&b.m.config, &b.m.kv, pare_model_inputs(&b.m)};
    const size_t live = b.h.cx.live_bytes;
    b.h.cx.peak_bytes = live;
    ck_assert_int_eq(pare_evaluate_choice(&b.h.cx, &b.f, item, ITEMS, &r), PARE_OK);
    uint64_t all = 0;
    size_t longest = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        size_t widest = 0, tokens;
        for (size_t c = 0; c < item[i].choices; c++)
            widest = count[i][c] > widest ? count[i][c] : widest;
        tokens = item[i].context_count + item[i].choices * widest;
        longest = tokens > longest ? tokens : longest;
        all += tokens;
    }
    const uint64_t planned = pare_evaluate_choice_bytes(&b.h.cx, &side, ITEMS, all, longest);
    ck_assert_uint_le(b.h.cx.peak_bytes - live, planned);
    for (size_t i = 0; i < ITEMS; i++)
        for (size_t c = 0; c < item[i].choices; c++)
            ck_assert_double_eq(score[i][c], plain_score(&b, &item[i], c));
    tiny_end(&b.h);
}
END_TEST

START_TEST(items_that_do_not_fit_are_refused_by_number)
{
    bench b;
    begin(&b, 1);
    pare_choice_result r;
    const int32_t *const choice[] = {b.tokens, b.tokens + 5};
    size_t count[] = {2, 3};
    const size_t bytes[] = {4, 4};
    pare_choice_item item[2] = {{b.tokens, 5, choice, count, bytes, 2, 1, NULL, 0, NULL, NULL},
                                {b.tokens, 95, choice, count, bytes, 2, 0, NULL, 0, NULL, NULL}};
    pare_ctx *const cx = &b.h.cx;
    ck_assert_int_eq(pare_evaluate_choice(cx, &b.f, item, 0, &r), PARE_EINVAL);
    ck_assert_str_eq(cx->what, "no multiple-choice items");
    pare_ctx_clear(cx);
    ck_assert_int_eq(pare_evaluate_choice(cx, &b.f, item, 2, &r), PARE_EINVAL);
    ck_assert_str_eq(cx->what, "item 1: choice 1 needs 95 + 2 tokens, this model takes 96");
    pare_ctx_clear(cx);
    item[1].context_count = 0;
    ck_assert_int_eq(pare_evaluate_choice(cx, &b.f, item, 2, &r), PARE_EINVAL);
    ck_assert_str_eq(cx->what, "item 1: 0 context tokens, 2 choices, answer 0");
    pare_ctx_clear(cx);
    item[1].context_count = 4;
    count[1] = 0;
    ck_assert_int_eq(pare_evaluate_choice(cx, &b.f, item, 2, &r), PARE_EINVAL);
    ck_assert_str_eq(cx->what, "item 0: choice 1 is empty");
    tiny_end(&b.h);
}
END_TEST

START_TEST(speed_counts_what_it_ran)
{
    bench b;
    pare_speed_result r;
    begin(&b, 2);
    ck_assert_int_eq(pare_evaluate_speed(&b.h.cx, &b.f, &r), PARE_OK);
    ck_assert_uint_eq(r.prompt, 48);
    ck_assert_uint_eq(r.decoded, 48);
    ck_assert_uint_eq(r.threads, 2);
    ck_assert_double_gt(r.ttft_ms, 0);
    ck_assert_double_eq_tol(r.prefill_tok_s * r.ttft_ms, 48e3, 1e-3);
    ck_assert_double_eq_tol(r.decode_tok_s * r.tpot_ms, 1e3, 1e-6);
    tiny_end(&b.h);
}
END_TEST

static pare_status any_evaluation(bench *b, int which)
{
    pare_eval_result e;
    pare_choice_result c;
    pare_speed_result s;
    const pare_eval_opts opts = {.window = 50, .stride = 0};
    const int32_t *const choice[] = {b->tokens, b->tokens + 5};
    const size_t count[] = {20, 30}, bytes[] = {4, 4};
    const pare_choice_item item = {b->tokens, 5, choice, count, bytes, 2, 1, NULL, 0, NULL, NULL};
    if (which == 0)
        return pare_evaluate(&b->h.cx, &b->f, &b->baseline, &opts, b->tokens, TOKENS, &e);
    return which == 1 ? pare_evaluate_choice(&b->h.cx, &b->f, &item, 1, &c)
                      : pare_evaluate_speed(&b->h.cx, &b->f, &s);
}

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    bench b;
    begin(&b, 2);
    const pare_alloc plain = b.h.cx.alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_ctx_clear(&b.h.cx);
        b.h.cx.alloc = (pare_alloc){unit_failing_resize, &failing};
        s = any_evaluation(&b, _i);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && b.h.cx.what[0]));
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 1);
    b.h.cx.alloc = plain;
    tiny_end(&b.h);
}
END_TEST

START_TEST(an_interrupt_ends_every_evaluation)
{
    bench b;
    const volatile int interrupts = 1;
    begin(&b, 2);
    b.h.cx.interrupt = &interrupts;
    ck_assert_int_eq(any_evaluation(&b, _i), PARE_EINTERRUPTED);
    tiny_end(&b.h);
}
END_TEST

/* An interrupt that comes when a step reports that it is done for the n-th time. */
typedef struct stopper {
    volatile int interrupts;
    int reports;
} stopper;

static void stop(void *self, const char *what, double done, double total)
{
    stopper *const s = self;
    (void)what;
    (void)total;
    if (done > 0 && --s->reports == 0)
        s->interrupts = 1;
}

static void begin_stopped(bench *b, stopper *s)
{
    begin(b, 2);
    b->h.cx.interrupt = &s->interrupts;
    b->h.cx.progress = (pare_progress){.report = stop, .self = s};
}

START_TEST(an_interrupt_leaves_the_figures_of_the_positions_scored)
{
    static plain_result want;
    bench b;
    stopper s = {.reports = 1};
    pare_eval_result r;
    begin_stopped(&b, &s);
    const pare_eval_opts opts = {.window = 10, .stride = 1};
    plain_evaluate(&b, opts.window, opts.stride, &want);
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, &b.baseline, &opts, b.tokens, TOKENS, &r),
                     PARE_EINTERRUPTED);
    ck_assert(r.scored > 100 && r.scored < want.n && r.has_kl);
    double nll = 0, kl = 0;
    for (size_t i = 0; i < r.scored; i++) {
        nll += want.nll[i] / (double)r.scored;
        kl += want.kl[i] / (double)r.scored;
    }
    ck_assert_double_eq_tol(r.nll, nll, 1.1e-6);
    ck_assert_double_eq_tol(r.kl_mean, kl, 1e-9);
    tiny_end(&b.h);
}
END_TEST

/* Figures that do not exist are no reason to forget why it ended. */
START_TEST(an_interrupt_stays_one_where_numbers_are_not_finite)
{
    bench b;
    stopper s = {.reports = 1};
    pare_eval_result r;
    const pare_eval_opts opts = {.window = 10, .stride = 1};
    begin_stopped(&b, &s);
    ((float *)(uintptr_t)b.m.norm)[3] = NAN;
    ck_assert_int_eq(pare_evaluate(&b.h.cx, &b.f, NULL, &opts, b.tokens, TOKENS, &r),
                     PARE_EINTERRUPTED);
    ck_assert_str_eq(b.h.cx.what, "interrupted");
    ck_assert_uint_eq(r.scored, 0);
    tiny_end(&b.h);
}
END_TEST

/* The shares that were reported, in order. */
typedef struct listener {
    double share[16];
    size_t reports;
} listener;

static void hear(void *self, const char *what, double done, double total)
{
    listener *const l = self;
    (void)what;
    ck_assert_uint_lt(l->reports, 16);
    l->share[l->reports++] = done / total;
}

START_TEST(an_evaluation_is_told_from_its_beginning_to_its_end)
{
    bench b;
    listener l = {.reports = 0};
    begin(&b, 2);
    b.h.cx.progress = (pare_progress){.report = hear, .self = &l};
    ck_assert_int_eq(any_evaluation(&b, _i), PARE_OK);
    ck_assert_uint_ge(l.reports, 2);
    ck_assert_double_eq(l.share[0], 0);
    ck_assert_double_eq(l.share[l.reports - 1], 1);
    for (size_t i = 1; i < l.reports; i++)
        ck_assert_double_gt(l.share[i], l.share[i - 1]);
    tiny_end(&b.h);
}
END_TEST

/* Against what was asked for, not against what is there. */
START_TEST(figures_that_are_missing_are_not_complete)
{
    pare_choice_figures choice = {.complete = true};
    pare_figures f = {
        .window = 8, .text_complete = true, .choice = &choice, .choices = 1, .has_speed = true};
    ck_assert(pare_figures_complete(&f, true, 1, 0, true));
    ck_assert(!pare_figures_complete(&f, true, 2, 0, true));
    ck_assert(!pare_figures_complete(&f, true, 1, 1, true));
    choice.complete = false;
    ck_assert(!pare_figures_complete(&f, true, 1, 0, true));
    choice.complete = true;
    f.has_speed = false;
    ck_assert(!pare_figures_complete(&f, true, 1, 0, true));
    ck_assert(pare_figures_complete(&f, true, 1, 0, false));
    f.text_complete = false;
    ck_assert(!pare_figures_complete(&f, true, 1, 0, false));
    f.window = 0;
    ck_assert(!pare_figures_complete(&f, true, 1, 0, false));
    ck_assert(pare_figures_complete(&f, false, 1, 0, false));
}
END_TEST

START_TEST(an_interrupt_leaves_the_items_asked)
{
    enum { ITEMS = 6 };
    bench b;
    stopper s = {.reports = 4};
    pare_choice_item item[ITEMS];
    unsigned char verdict[ITEMS] = {0};
    begin_stopped(&b, &s);
    const int32_t *const choice[] = {b.tokens, b.tokens + 5};
    const size_t count[] = {2, 3}, bytes[] = {4, 4};
    for (size_t i = 0; i < ITEMS; i++) /* each a group, the last first */
        item[i] = (pare_choice_item){b.tokens, 20 - i, choice, count,       bytes, 2,
                                     i % 2,    NULL,   0,      &verdict[i], NULL};
    pare_choice_result r;
    ck_assert_int_eq(pare_evaluate_choice(&b.h.cx, &b.f, item, ITEMS, &r), PARE_EINTERRUPTED);
    ck_assert_uint_eq(r.n, 4);
    size_t right = 0;
    for (size_t i = 0; i < ITEMS; i++) {
        ck_assert_int_eq((verdict[i] & PARE_CHOICE_ASKED) != 0, i >= 2);
        right += (verdict[i] & PARE_CHOICE_RIGHT) != 0;
    }
    ck_assert_double_eq(r.accuracy, (double)right / 4);
    tiny_end(&b.h);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("evaluate");
    TCase *const c = tcase_create("evaluate");
    tcase_set_timeout(c, 120);
    tcase_add_loop_test(c, figures_equal_the_protocol_done_by_hand, 0,
                        sizeof protocols / sizeof *protocols);
    tcase_add_test(c, the_baseline_has_the_figures_it_has_alone);
    tcase_add_test(c, figures_do_not_depend_on_threads);
    tcase_add_loop_test(c, pieces_of_a_window_give_the_bytes_of_the_whole, 0, 6);
    tcase_add_test(c, rows_and_logits_shrink_with_the_model);
    tcase_add_loop_test(c, impossible_protocols_are_refused_with_their_numbers, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(c, wrong_tokens_vocabularies_and_numbers_are_refused);
    tcase_add_test(c, a_choice_is_the_largest_sum_of_its_log_likelihoods);
    tcase_add_loop_test(c, choices_that_share_a_context_score_as_each_alone, 0, 4);
    tcase_add_test(c, items_that_do_not_fit_are_refused_by_number);
    tcase_add_test(c, speed_counts_what_it_ran);
    tcase_add_loop_test(c, every_refused_allocation_is_reported_and_nothing_leaks, 0, 3);
    tcase_add_loop_test(c, an_interrupt_ends_every_evaluation, 0, 3);
    tcase_add_test(c, an_interrupt_leaves_the_figures_of_the_positions_scored);
    tcase_add_test(c, an_interrupt_stays_one_where_numbers_are_not_finite);
    tcase_add_loop_test(c, an_evaluation_is_told_from_its_beginning_to_its_end, 0, 3);
    tcase_add_test(c, an_interrupt_leaves_the_items_asked);
    tcase_add_test(c, figures_that_are_missing_are_not_complete);
    suite_add_tcase(s, c);
    return unit_main(s);
}
