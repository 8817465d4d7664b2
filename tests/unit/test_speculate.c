#include "runtime/sample.h"
#include "runtime/speculate.h"
#include "tests/unit/tiny.h"

/* Sequences of two made-up models: what follows depends on the two tokens before it. */
enum {
    V = 8,
    CONTEXTS = (V + 1) * (V + 1),
    CELLS = V * V * V,
    G_MAX = 4,
#ifdef UNIT_SANITIZED
    RUNS = 50000
#else
    RUNS = 200000
#endif
};

typedef struct world {
    double p[CONTEXTS][V], q[CONTEXTS][V]; /* target, draft */
} world;

/* Keeps the most likely tokens that have the share `top` together. */
static void keep_top(double *p, double top)
{
    bool kept[V] = {false};
    double sum = 0, total = 0;
    while (sum < top) {
        size_t best = V;
        for (size_t i = 0; i < V; i++)
            if (!kept[i] && (best == V || p[i] > p[best]))
                best = i;
        kept[best] = true;
        sum += p[best];
    }
    for (size_t i = 0; i < V; i++)
        total += p[i] = kept[i] ? p[i] : 0;
    for (size_t i = 0; i < V; i++)
        p[i] /= total;
}

enum { RANDOM, EQUAL, GAPS, DISJOINT, GREEDY, TOP_P, WORLDS };

static void fill(double *p, uint64_t stream, double temperature)
{
    float logits[V];
    for (size_t i = 0; i < V; i++)
        logits[i] = (float)pare_random_normal(21, stream, i);
    ck_assert(pare_distribution(logits, V, temperature, p));
}

/* Leaves tokens [first, first + count), and makes them sum to 1. */
static void leave(double *p, size_t first, size_t count)
{
    double total = 0;
    for (size_t i = 0; i < V; i++)
        total += p[i] = i >= first && i < first + count ? p[i] : 0;
    for (size_t i = 0; i < V; i++)
        p[i] /= total;
}

static void make_world(int kind, world *w)
{
    const double temperature = kind == GREEDY ? 0 : 0.8;
    for (size_t c = 0; c < CONTEXTS; c++) {
        fill(w->p[c], 2 * c, temperature);
        fill(w->q[c], 2 * c + (kind == GREEDY ? c % 2 : kind != EQUAL), temperature);
        if (kind == GAPS)
            leave(w->q[c], c % 4, 4);
        if (kind == DISJOINT) {
            leave(w->p[c], 4, 4);
            leave(w->q[c], 0, 4);
        }
        if (kind == TOP_P) {
            keep_top(w->p[c], 0.8);
            keep_top(w->q[c], 0.8);
        }
    }
}

/* Behind tokens [.., n). */
static size_t context_of(const int32_t *t, size_t n)
{
    const size_t a = n > 1 ? (size_t)t[n - 2] : V, b = n > 0 ? (size_t)t[n - 1] : V;
    return a * (V + 1) + b;
}

typedef struct tally {
    size_t seen[CELLS], examined, accepted;
    double overlap;
} tally;

/* Three tokens and more, with g drafted for each pass. `wrong`: a refused token is replaced by one
 * drawn from p. */
static void one_run(const world *w, size_t g, bool wrong, pare_draws from, tally *all)
{
    int32_t t[3 + 2 * G_MAX + 2];
    double p[G_MAX + 1][V], q[G_MAX][V];
    for (size_t n = 0; n < 3;) {
        int32_t next;
        for (size_t i = 0; i < g; i++) {
            memcpy(q[i], w->q[context_of(t, n + i)], sizeof q[i]);
            t[n + i] = pare_speculate_draft(q[i], V, from, n + i);
        }
        for (size_t i = 0; i <= g; i++)
            memcpy(p[i], w->p[context_of(t, n + i)], sizeof p[i]);
        const size_t kept = pare_speculate(t + n, g, q[0], p[0], V, from, n, &next);
        ck_assert_uint_le(kept, g);
        if (wrong && kept < g)
            next = pare_speculate_draft(p[kept], V, (pare_draws){99, from.stream}, n + kept);
        for (size_t i = 0; i < kept + (kept < g); i++)
            all->overlap += pare_overlap(p[i], q[i], V);
        all->examined += kept + (kept < g);
        all->accepted += kept;
        t[n + kept] = next;
        n += kept + 1;
    }
    all->seen[(t[0] * V + t[1]) * V + t[2]]++;
}

static double chance(const world *w, size_t cell)
{
    const int32_t t[3] = {(int32_t)(cell / V / V), (int32_t)(cell / V % V), (int32_t)(cell % V)};
    double p = 1;
    for (size_t n = 0; n < 3; n++)
        p *= w->p[context_of(t, n)][t[n]];
    return p;
}

/* How many standard deviations chi-square lies above its mean, by Wilson and Hilferty's cube root:
 * above 3.719 its p is below 1e-4. Cells below 5 expected count as one. What cannot be is infinite.
 */
static double surprise(const world *w, const tally *all)
{
    double chi = 0, rest = 0, rest_seen = 0, cells = 0;
    for (size_t i = 0; i < CELLS; i++) {
        const double expected = RUNS * chance(w, i), seen = (double)all->seen[i];
        if (expected == 0 && seen > 0)
            return INFINITY;
        if (expected < 5) {
            rest += expected;
            rest_seen += seen;
            continue;
        }
        chi += (seen - expected) * (seen - expected) / expected;
        cells++;
    }
    if (rest >= 5) {
        chi += (rest_seen - rest) * (rest_seen - rest) / rest;
        cells++;
    }
    const double df = cells - 1, unit = 2 / (9 * df);
    return df > 0 ? (cbrt(chi / df) - (1 - unit)) / sqrt(unit) : chi > 0 ? INFINITY : 0;
}

static void run_all(const world *w, size_t g, bool wrong, tally *all)
{
    *all = (tally){.examined = 0};
    for (uint64_t i = 0; i < RUNS; i++)
        one_run(w, g, wrong, (pare_draws){5 + g, i}, all);
}

START_TEST(what_comes_out_is_distributed_as_the_target)
{
    static world w;
    static tally all;
    const int kind = _i / 3;
    const size_t g = (size_t)1 << _i % 3;
    make_world(kind, &w);
    run_all(&w, g, false, &all);
    ck_assert_double_lt(surprise(&w, &all), 3.719);
    const double mean = all.overlap / (double)all.examined;
    const double share = (double)all.accepted / (double)all.examined;
    /* five standard deviations of a share, and what rounding does to a sum of 1 */
    ck_assert_double_le(fabs(share - mean),
                        5 * sqrt(mean * (1 - mean) / (double)all.examined + 1e-24) + 1e-9);
    if (kind == EQUAL)
        ck_assert_uint_eq(all.accepted, all.examined);
    if (kind == DISJOINT)
        ck_assert_uint_eq(all.accepted, 0);
    if (kind == RANDOM || kind == GAPS || kind == TOP_P)
        ck_assert(all.accepted > 0 && all.accepted < all.examined);
    if (kind == GREEDY)
        ck_assert_double_eq(all.overlap, (double)all.accepted);
}
END_TEST

/* The test above sees it when what replaces a refused token is drawn from p. */
START_TEST(the_wrong_residual_is_seen)
{
    static world w;
    static tally all;
    const int kinds[] = {RANDOM, GAPS, TOP_P};
    make_world(kinds[_i], &w);
    run_all(&w, 2, true, &all);
    ck_assert_double_gt(surprise(&w, &all), 15);
}
END_TEST

START_TEST(a_refused_token_is_replaced_by_what_the_draft_lacks)
{
    enum { DRAWS = 20000 };
    const double p[] = {.5, .3, .2, .5, .3, .2}, q[] = {.2, .5, .3};
    size_t seen[3] = {0}, kept = 0;
    ck_assert_double_eq_tol(pare_overlap(p, q, 3), .7, 1e-15);
    for (uint64_t i = 0; i < DRAWS; i++) {
        const pare_draws from = {1, i};
        int32_t next;
        const int32_t x = pare_speculate_draft(q, 3, from, 0);
        if (pare_speculate(&x, 1, q, p, 3, from, 0, &next)) {
            kept++;
            seen[x]++;
        } else {
            ck_assert_int_eq(next, 0);
            seen[0]++;
        }
    }
    /* five standard deviations */
    ck_assert_double_le(fabs((double)kept / DRAWS - .7), 5 * sqrt(.21 / DRAWS));
    for (size_t v = 0; v < 3; v++)
        ck_assert_double_le(fabs((double)seen[v] / DRAWS - p[v]),
                            5 * sqrt(p[v] * (1 - p[v]) / DRAWS));
}
END_TEST

/* p below q everywhere, as only rounding can make it. */
START_TEST(where_nothing_is_left_the_target_is_drawn_from)
{
    const double p[] = {0, .9, 0, .9}, q[] = {.5, .95};
    const int32_t x = 0;
    int32_t next = -1;
    ck_assert_uint_eq(pare_speculate(&x, 1, q, p, 2, (pare_draws){0, 0}, 0, &next), 0);
    ck_assert_int_eq(next, 1);
}
END_TEST

START_TEST(distributions_are_those_of_the_sampler)
{
    const float logits[] = {0, 1, 2, -INFINITY, 3}, sick[] = {1, NAN, 2}, full[] = {1, INFINITY, 2};
    double p[5];
    for (int t = 0; t < 3; t++) {
        const double temperature = 0.7 * t;
        ck_assert(pare_distribution(logits, 5, temperature, p));
        for (uint64_t i = 0; i < 2000; i++) {
            const double u = pare_random_unit(3, 4, 3 * i);
            const int32_t drawn = pare_speculate_draft(p, 5, (pare_draws){3, 4}, i);
            ck_assert_int_eq(drawn, pare_sample(logits, 5, temperature, u));
        }
    }
    ck_assert(!pare_distribution(sick, 3, 1, p));
    ck_assert(pare_distribution(sick, 3, 0, p) && p[2] == 1);
    ck_assert(!pare_distribution(full, 3, 1, p) && !pare_distribution(full, 3, 0, p));
}
END_TEST

/* A target and a draft with other weights in its second block and behind it. */
typedef struct pair {
    tiny_home home;
    pare_model model[2];
    pare_forward f[2];
} pair;

static void begin(pair *b, size_t threads, tiny_kind kind, bool exact)
{
    tiny_begin(&b->home, threads);
    pare_arena *const a = &b->home.arena;
    for (size_t i = 0; i < 2; i++) {
        b->model[i] = tiny_model(a, kind);
        pare_model *const m = &b->model[i];
        if (i) {
            m->block[1].linear[PARE_ROLE_DOWN] =
                tiny_dense(a, PARE_F32, 77, m->config.hidden, m->config.intermediate);
            m->norm = tiny_ones(a, 78, m->config.hidden);
        }
        ck_assert_int_eq(pare_forward_init(&b->home.cx, a, m, TINY_CONTEXT, exact, &b->f[i]),
                         PARE_OK);
    }
}

START_TEST(greedy_tokens_are_those_of_the_target_alone)
{
    enum { PROMPT = 5 };
    const size_t drafted[] = {1, 2, 4, 7};
    pair b;
    begin(&b, 2, tiny_kinds[_i / 2], _i % 2 != 0);
    int32_t alone[TINY_CONTEXT], both[TINY_CONTEXT];
    pare_speculate_counts sum = {0};
    memcpy(alone, tiny_tokens(&b.home.arena, 1, PROMPT), PROMPT * sizeof *alone);
    const pare_generate_opts plain = {.sequences = 1, .length = TINY_CONTEXT};
    ck_assert_int_eq(
        pare_generate(&b.home.cx, &b.home.arena, &b.f[0], &plain, PROMPT, alone, NULL, NULL),
        PARE_OK);
    for (size_t i = 0; i < 4; i++) {
        const pare_speculate_opts opts = {.drafted = drafted[i], .length = TINY_CONTEXT};
        memset(both, 0xff, sizeof both);
        memcpy(both, alone, PROMPT * sizeof *both);
        ck_assert_int_eq(pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts,
                                            PROMPT, both, &sum),
                         PARE_OK);
        ck_assert_mem_eq(both, alone, sizeof both);
    }
    ck_assert(sum.accepted > 0 && sum.accepted < sum.examined);
    ck_assert_uint_eq(sum.tokens, (size_t)4 * (TINY_CONTEXT - PROMPT));
    ck_assert_double_eq(sum.overlap, (double)sum.accepted);
    tiny_end(&b.home);
}
END_TEST

/* choice[i] = the token that the model finds most likely behind tokens [0, i]. */
static void choices(pair *b, size_t which, const int32_t *tokens, int32_t *choice)
{
    pare_ctx *const cx = &b->home.cx;
    pare_arena *const a = &b->home.arena;
    const pare_batch all = {1, TINY_CONTEXT, 0};
    pare_kv kv;
    float *const x = tiny_take(a, TINY_CONTEXT, b->model[which].config.hidden * sizeof *x);
    float *const logits = tiny_take(a, TINY_CONTEXT, TINY_VOCAB * sizeof *logits);
    ck_assert_int_eq(pare_kv_take(a, &b->model[which].config, 1, TINY_CONTEXT, &kv), PARE_OK);
    ck_assert_int_eq(pare_embed(cx, &b->model[which], tokens, TINY_CONTEXT, x), PARE_OK);
    ck_assert_int_eq(pare_model_forward(cx, a, &b->f[which], all, x, &kv, 1), PARE_OK);
    ck_assert_int_eq(pare_logits(cx, a, &b->f[which], x, NULL, TINY_CONTEXT, logits), PARE_OK);
    for (size_t i = 0; i < TINY_CONTEXT; i++)
        choice[i] = pare_sample(logits + i * TINY_VOCAB, TINY_VOCAB, 0, 0);
}

/* What was accepted follows from what the draft would choose behind each token of the result. */
START_TEST(the_draft_sees_the_tokens_that_stayed)
{
    enum { PROMPT = 2 };
    const size_t g = 1 + (size_t)_i;
    pair b;
    int32_t tokens[TINY_CONTEXT] = {5, 7}, choice[TINY_CONTEXT];
    pare_speculate_counts c = {0};
    const pare_speculate_opts opts = {.drafted = g, .length = TINY_CONTEXT};
    begin(&b, 2, tiny_kinds[4], false);
    ck_assert_int_eq(
        pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts, PROMPT, tokens, &c),
        PARE_OK);
    choices(&b, 1, tokens, choice);
    size_t accepted = 0, passes = 0, refused = 0;
    for (size_t n = PROMPT; n < TINY_CONTEXT; n++, passes++) {
        const size_t end = n + g < TINY_CONTEXT ? n + g : TINY_CONTEXT - 1;
        while (n < end && choice[n - 1] == tokens[n])
            n++, accepted++;
        refused += n < end;
    }
    ck_assert(accepted > 0 && refused > 0);
    ck_assert_uint_eq(c.accepted, accepted);
    ck_assert_uint_eq(c.passes, passes);
    ck_assert_uint_eq(c.examined, accepted + refused);
    tiny_end(&b.home);
}
END_TEST

START_TEST(a_draft_that_is_the_target_is_always_accepted)
{
    enum { PROMPT = 1, G = 4, LENGTH = PROMPT + 10 * (G + 1) };
    pair b;
    begin(&b, 3, tiny_kinds[_i], false);
    int32_t tokens[LENGTH] = {3}, again[LENGTH] = {3};
    pare_speculate_counts c = {0}, other = {0};
    const pare_speculate_opts opts = {1, {8, 9}, G, LENGTH};
    ck_assert_int_eq(
        pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[0], &opts, PROMPT, tokens, &c),
        PARE_OK);
    ck_assert_uint_eq(c.passes, 10);
    ck_assert_uint_eq(c.full_passes, 10);
    ck_assert_uint_eq(c.accepted, 10 * G);
    ck_assert_uint_eq(c.draft_steps, 10 * G);
    ck_assert_double_eq_tol(c.overlap, 10 * G, 1e-9);
    ck_assert_int_eq(pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts, PROMPT,
                                        again, &other),
                     PARE_OK);
    ck_assert(other.accepted < other.examined && other.passes > 10);
    tiny_end(&b.home);
}
END_TEST

START_TEST(tokens_do_not_depend_on_threads)
{
    int32_t tokens[2][TINY_CONTEXT] = {{4}, {4}};
    const pare_speculate_opts opts = {1.2, {1, 2}, 3, TINY_CONTEXT};
    for (size_t i = 0; i < 2; i++) {
        pair b;
        pare_speculate_counts c = {0};
        begin(&b, i ? 4 : 1, tiny_kinds[3], false);
        ck_assert_int_eq(pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts, 1,
                                            tokens[i], &c),
                         PARE_OK);
        tiny_end(&b.home);
    }
    ck_assert_mem_eq(tokens[0], tokens[1], sizeof tokens[0]);
}
END_TEST

START_TEST(a_long_prompt_runs_in_pieces)
{
    enum { LENGTH = 700, PROMPT = 650 };
    pair b;
    tiny_begin(&b.home, 2);
    static int32_t alone[LENGTH], both[LENGTH];
    const pare_generate_opts plain = {.sequences = 1, .length = LENGTH};
    const pare_speculate_opts opts = {.drafted = 3, .length = LENGTH};
    pare_speculate_counts c = {0};
    b.model[0] = tiny_model(&b.home.arena, tiny_kinds[0]);
    ck_assert_int_eq(
        pare_forward_init(&b.home.cx, &b.home.arena, &b.model[0], LENGTH, false, &b.f[0]), PARE_OK);
    memcpy(alone, tiny_tokens(&b.home.arena, 6, PROMPT), PROMPT * sizeof *alone);
    memcpy(both, alone, sizeof both);
    ck_assert_int_eq(
        pare_generate(&b.home.cx, &b.home.arena, &b.f[0], &plain, PROMPT, alone, NULL, NULL),
        PARE_OK);
    ck_assert_int_eq(
        pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[0], &opts, PROMPT, both, &c),
        PARE_OK);
    ck_assert_mem_eq(both, alone, sizeof both);
    tiny_end(&b.home);
}
END_TEST

static const struct refusal {
    pare_speculate_opts opts;
    size_t prompt;
    const char *what;
} refusals[] = {
    {{0, {0, 0}, 4, TINY_CONTEXT + 1}, 1, "97 tokens asked for, this model takes 96"},
    {{0, {0, 0}, 4, 10}, 0, "a prompt of 0 tokens in a sequence of 10"},
    {{0, {0, 0}, 4, 10}, 11, "a prompt of 11 tokens in a sequence of 10"},
    {{0, {0, 0}, 0, 10}, 1, "0 tokens drafted at temperature 0"},
    {{0, {0, 0}, 65, 10}, 1, "65 tokens drafted at temperature 0"},
    {{-1, {0, 0}, 4, 10}, 1, "4 tokens drafted at temperature -1"},
    {{0, {0, 0}, 4, 10}, 3, "token 1 is 53; this model knows 0 to 52"},
};

START_TEST(impossible_wishes_are_refused_with_their_numbers)
{
    const struct refusal *const r = &refusals[_i];
    pair b;
    pare_speculate_counts c = {0};
    int32_t tokens[TINY_CONTEXT + 1] = {1, TINY_VOCAB};
    begin(&b, 1, tiny_kinds[0], false);
    ck_assert_int_eq(pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &r->opts,
                                        r->prompt, tokens, &c),
                     PARE_EINVAL);
    ck_assert_str_eq(b.home.cx.what, r->what);
    tiny_end(&b.home);
}
END_TEST

START_TEST(models_that_do_not_go_together_are_refused)
{
    pair b;
    pare_speculate_counts c = {0};
    int32_t tokens[10] = {1};
    const pare_speculate_opts opts = {.drafted = 4, .length = 10};
    begin(&b, 1, tiny_kinds[0], false);
    pare_ctx *const cx = &b.home.cx;
    b.model[1].head.n--;
    ck_assert_int_eq(pare_speculate_run(cx, &b.home.arena, &b.f[0], &b.f[1], &opts, 1, tokens, &c),
                     PARE_EINVAL);
    ck_assert_str_eq(cx->what, "a draft of 52 tokens for a model of 53");
    b.model[1].head.n++;
    b.model[1].kv = pare_kv_default(PARE_KV_INT8);
    pare_ctx_clear(cx);
    ck_assert_int_eq(pare_speculate_run(cx, &b.home.arena, &b.f[0], &b.f[1], &opts, 1, tokens, &c),
                     PARE_EINVAL);
    ck_assert_str_eq(cx->what, "a cache in int8 cannot take drafted tokens back");
    tiny_end(&b.home);
}
END_TEST

START_TEST(logits_that_overflow_end_it)
{
    pair b;
    pare_speculate_counts c = {0};
    int32_t tokens[10] = {1};
    const pare_speculate_opts opts = {.temperature = 1, .drafted = 4, .length = 10};
    begin(&b, 1, tiny_kinds[0], false);
    float *const norm = tiny_ones(&b.home.arena, 1, b.model[0].config.hidden);
    norm[3] = INFINITY;
    b.model[_i].block[1].norm[1] = norm;
    ck_assert_int_eq(
        pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts, 1, tokens, &c),
        PARE_ENUMERIC);
    ck_assert_str_eq(
        b.home.cx.what,
        _i ? "the logits of the draft behind token 0 are not finite: a weight is not, or "
             "activations overflow"
           : "the logits of the model behind token 0 are not finite: a weight is not, or "
             "activations overflow");
    tiny_end(&b.home);
}
END_TEST

START_TEST(an_interrupt_ends_it)
{
    pair b;
    pare_speculate_counts c = {0};
    const volatile int interrupts = 1;
    int32_t tokens[10] = {1};
    const pare_speculate_opts opts = {.drafted = 4, .length = 10};
    begin(&b, 1, tiny_kinds[0], false);
    b.home.cx.interrupt = &interrupts;
    ck_assert_int_eq(
        pare_speculate_run(&b.home.cx, &b.home.arena, &b.f[0], &b.f[1], &opts, 1, tokens, &c),
        PARE_EINTERRUPTED);
    tiny_end(&b.home);
}
END_TEST

START_TEST(every_refused_allocation_is_reported_and_nothing_leaks)
{
    pair b;
    pare_speculate_counts c = {0};
    int32_t tokens[30] = {1};
    const pare_speculate_opts opts = {.temperature = 1, .drafted = 4, .length = 30};
    begin(&b, 2, tiny_kinds[3], false);
    pare_ctx *const cx = &b.home.cx;
    const pare_alloc plain = cx->alloc;
    pare_status s = PARE_ENOMEM;
    long n = 0;
    for (; s != PARE_OK; n++) {
        unit_failing failing = {.left = n};
        pare_arena scratch = {.cx = cx};
        pare_ctx_clear(cx);
        cx->alloc = (pare_alloc){unit_failing_resize, &failing};
        s = pare_speculate_run(cx, &scratch, &b.f[0], &b.f[1], &opts, 1, tokens, &c);
        ck_assert(s == PARE_OK || (s == PARE_ENOMEM && cx->what[0]));
        pare_arena_release(&scratch);
        ck_assert_int_eq(failing.live, 0);
    }
    ck_assert_int_gt(n, 3);
    cx->alloc = plain;
    tiny_end(&b.home);
}
END_TEST

/* One block of scratch for each model serves all tokens. */
START_TEST(nothing_is_allocated_per_token)
{
    long requests[2];
    for (size_t i = 0; i < 2; i++) {
        pair b;
        pare_speculate_counts c = {0};
        pare_arena scratch;
        unit_failing count = {.left = 1000};
        int32_t tokens[TINY_CONTEXT] = {1};
        const pare_speculate_opts opts = {1, {0, 0}, 4, i ? TINY_CONTEXT : TINY_CONTEXT / 2};
        begin(&b, 3, tiny_kinds[_i / 2], _i % 2 != 0);
        pare_ctx *const cx = &b.home.cx;
        const pare_alloc plain = cx->alloc;
        cx->alloc = (pare_alloc){unit_failing_resize, &count};
        ck_assert_int_eq(pare_arena_init(cx, &scratch, 1 << 22), PARE_OK);
        ck_assert_int_eq(pare_speculate_run(cx, &scratch, &b.f[0], &b.f[1], &opts, 1, tokens, &c),
                         PARE_OK);
        pare_arena_release(&scratch);
        requests[i] = 1000 - count.left;
        cx->alloc = plain;
        tiny_end(&b.home);
    }
    ck_assert_int_eq(requests[0], 3);
    ck_assert_int_eq(requests[1], 3);
}
END_TEST

int main(void)
{
    Suite *const s = suite_create("speculate");
    TCase *const c = tcase_create("speculate");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, what_comes_out_is_distributed_as_the_target, 0, WORLDS * 3);
    tcase_add_loop_test(c, the_wrong_residual_is_seen, 0, 3);
    tcase_add_test(c, a_refused_token_is_replaced_by_what_the_draft_lacks);
    tcase_add_test(c, where_nothing_is_left_the_target_is_drawn_from);
    tcase_add_test(c, distributions_are_those_of_the_sampler);
    tcase_add_loop_test(c, greedy_tokens_are_those_of_the_target_alone, 0, TINY_KINDS * 2);
    tcase_add_loop_test(c, the_draft_sees_the_tokens_that_stayed, 0, 5);
    tcase_add_loop_test(c, a_draft_that_is_the_target_is_always_accepted, 0, TINY_KINDS);
    tcase_add_test(c, tokens_do_not_depend_on_threads);
    tcase_add_test(c, a_long_prompt_runs_in_pieces);
    tcase_add_loop_test(c, impossible_wishes_are_refused_with_their_numbers, 0,
                        sizeof refusals / sizeof *refusals);
    tcase_add_test(c, models_that_do_not_go_together_are_refused);
    tcase_add_loop_test(c, logits_that_overflow_end_it, 0, 2);
    tcase_add_test(c, an_interrupt_ends_it);
    tcase_add_test(c, every_refused_allocation_is_reported_and_nothing_leaks);
    tcase_add_loop_test(c, nothing_is_allocated_per_token, 0, TINY_KINDS * 2);
    suite_add_tcase(s, c);
    return unit_main(s);
}
